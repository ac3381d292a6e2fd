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
#define printf story_print
#include "../../examples/approval.c"
#undef printf
#undef main

static void ask(story *s)
{
    STORY_OK(s, pawl_register_workflow(s->p, "holiday", holiday, NULL));
    STORY_OK(s, carry_out(s->p, "start", "holiday-7"));
}

static void in_the_last_hour(story *s)
{
    int64_t began = pawl_test_now(s->t);
    ask(s);
    STORY_OK(s, pawl_test_advance(s->t, PAWL_HOURS(47)));
    story_has_not(s, "booking");
    STORY_OK(s, carry_out(s->p, "approve", "holiday-7"));
    STORY_OK(s, carry_out(s->p, "approve", "holiday-7"));
    story_done(s, "holiday-7", "{\"days\":14}");
    story_has(s, "booking holiday-7");
    assert_int_equal(pawl_test_now(s->t), began + PAWL_HOURS(47));
}

static void before_anybody_waits(story *s)
{
    ask(s);
    STORY_OK(s, carry_out(s->p, "approve", "holiday-7"));
    story_done(s, "holiday-7", "{\"days\":14}");
    story_has(s, "booking holiday-7");
}

static void never(story *s)
{
    int64_t began = pawl_test_now(s->t);
    ask(s);
    story_failed(s, "holiday-7", "expired");
    story_has_not(s, "booking");
    assert_int_equal(pawl_test_now(s->t), began + PAWL_HOURS(48));
    story_code(s, carry_out(s->p, "approve", "holiday-7"), PAWL_ENDED, __LINE__);
}

static void no(story *s)
{
    ask(s);
    STORY_OK(s, pawl_test_advance(s->t, PAWL_HOURS(1)));
    STORY_OK(s, pawl_send(s->p, "holiday-7", "decision", "{\"approved\":false}", NULL));
    story_failed(s, "holiday-7", "rejected");
    story_has_not(s, "booking");
}

static void approved(void **state)
{
    (void)state;
    story_tell(in_the_last_hour, 1);
    story_tell(before_anybody_waits, 1);
}

static void expired(void **state)
{
    (void)state;
    story_tell(never, 1);
}

static void rejected(void **state)
{
    (void)state;
    story_tell(no, 1);
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
