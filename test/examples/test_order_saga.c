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
#define printf story_print
#include "../../examples/order_saga.c"
#undef printf
#undef main

static void order(story *s, const char *input)
{
    STORY_OK(s, set_up(s->p));
    STORY_OK(s, pawl_start(s->p, "checkout", "order-1", input, NULL));
}

static void with_an_address(story *s)
{
    pawl_outcome *end = NULL;
    order(s, "{\"item\":\"kettle\",\"cents\":4900,\"address\":\"12 Canal Street\"}");
    STORY_OK(s, pawl_test_finish(s->p, "order-1", &end));
    assert_int_equal(pawl_get_kind(pawl_outcome_value(end), "/paid"), PAWL_STRING);
    assert_int_equal(pawl_get_kind(pawl_outcome_value(end), "/sent"), PAWL_STRING);
    pawl_outcome_free(end);
    story_has(s, "reserve kettle");
    story_has(s, "charge 4900 cents");
    story_has(s, "ship to 12 Canal Street");
    story_in_order(s, "reserve", "charge");
    story_in_order(s, "charge", "ship");
    story_has_not(s, "refund");
    story_has_not(s, "release");
}

static void without_one(story *s)
{
    order(s, "{\"item\":\"kettle\",\"cents\":4900,\"address\":null}");
    story_failed(s, "order-1", "no-address");
    story_has(s, "reserve kettle");
    story_has(s, "charge 4900 cents");
    story_has(s, "refund");
    story_has(s, "release");
    story_in_order(s, "charge", "refund");
    story_in_order(s, "refund", "release");
    story_has_not(s, "ship to");
}

static void everything(void **state)
{
    (void)state;
    story_tell(with_an_address, 1);
}

static void nothing(void **state)
{
    (void)state;
    story_tell(without_one, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everything),
        cmocka_unit_test(nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
