/* The example order_saga: everything is done, or everything is undone, last first, wherever it is
 * interrupted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/example_fixture.h"

int example_main(int argc, char **argv);
#define main example_main
#define printf example_print
#include "../../examples/order_saga.c"
#undef printf
#undef main

static void order(example_fixture *s, const char *input)
{
    EXAMPLE_OK(s, set_up(s->p));
    EXAMPLE_OK(s, pawl_start(s->p, "checkout", "order-1", input, NULL));
}

static void with_an_address(example_fixture *s)
{
    pawl_outcome *end = NULL;
    order(s, "{\"item\":\"kettle\",\"cents\":4900,\"address\":\"12 Canal Street\"}");
    EXAMPLE_OK(s, pawl_test_finish(s->p, "order-1", &end));
    assert_int_equal(pawl_get_kind(pawl_outcome_value(end), "/paid"), PAWL_STRING);
    assert_int_equal(pawl_get_kind(pawl_outcome_value(end), "/sent"), PAWL_STRING);
    pawl_outcome_free(end);
    example_has(s, "reserve kettle");
    example_has(s, "charge 4900 cents");
    example_has(s, "ship to 12 Canal Street");
    example_in_order(s, "reserve", "charge");
    example_in_order(s, "charge", "ship");
    example_has_not(s, "refund");
    example_has_not(s, "release");
}

static void without_one(example_fixture *s)
{
    order(s, "{\"item\":\"kettle\",\"cents\":4900,\"address\":null}");
    example_failed(s, "order-1", "no-address");
    example_has(s, "reserve kettle");
    example_has(s, "charge 4900 cents");
    example_has(s, "refund");
    example_has(s, "release");
    example_in_order(s, "charge", "refund");
    example_in_order(s, "refund", "release");
    example_has_not(s, "ship to");
}

static void everything(void **state)
{
    (void)state;
    example_run(with_an_address, 1);
}

static void nothing(void **state)
{
    (void)state;
    example_run(without_one, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything),
        cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
