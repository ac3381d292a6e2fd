/* The example approval: 48 hours in a millisecond, a decision that comes early, late, twice or not
 * at all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/example_fixture.h"

int example_main(int argc, char **argv);
#define main example_main
#define printf example_print
#include "../../examples/approval.c"
#undef printf
#undef main

static void ask(example_fixture *s)
{
    EXAMPLE_OK(s, pawl_register_workflow(s->p, "holiday", holiday, NULL));
    EXAMPLE_OK(s, carry_out(s->p, "start", "holiday-7"));
}

static void in_the_last_hour(example_fixture *s)
{
    int64_t began = pawl_test_now(s->t);
    ask(s);
    EXAMPLE_OK(s, pawl_test_advance(s->t, PAWL_HOURS(47)));
    example_has_not(s, "booking");
    EXAMPLE_OK(s, carry_out(s->p, "approve", "holiday-7"));
    EXAMPLE_OK(s, carry_out(s->p, "approve", "holiday-7"));
    example_done(s, "holiday-7", "{\"days\":14}");
    example_has(s, "booking holiday-7");
    assert_int_equal(pawl_test_now(s->t), began + PAWL_HOURS(47));
}

static void before_anybody_waits(example_fixture *s)
{
    ask(s);
    EXAMPLE_OK(s, carry_out(s->p, "approve", "holiday-7"));
    example_done(s, "holiday-7", "{\"days\":14}");
    example_has(s, "booking holiday-7");
}

static void never(example_fixture *s)
{
    int64_t began = pawl_test_now(s->t);
    ask(s);
    example_failed(s, "holiday-7", "expired");
    example_has_not(s, "booking");
    assert_int_equal(pawl_test_now(s->t), began + PAWL_HOURS(48));
    example_code(s, carry_out(s->p, "approve", "holiday-7"), PAWL_ENDED, __LINE__);
}

static void no(example_fixture *s)
{
    ask(s);
    EXAMPLE_OK(s, pawl_test_advance(s->t, PAWL_HOURS(1)));
    EXAMPLE_OK(s, pawl_send(s->p, "holiday-7", "decision", "{\"approved\":false}", NULL));
    example_failed(s, "holiday-7", "rejected");
    example_has_not(s, "booking");
}

static void approved(void **state)
{
    (void)state;
    example_run(in_the_last_hour, 1);
    example_run(before_anybody_waits, 1);
}

static void expired(void **state)
{
    (void)state;
    example_run(never, 1);
}

static void rejected(void **state)
{
    (void)state;
    example_run(no, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(approved),
        cmocka_unit_test(expired),
        cmocka_unit_test(rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
