/* When the next attempt of a call is due: defaults, the three kinds of pauses, the cap, chance, the
 * limit on all attempts together, and numbers at the end of time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "run/retry.h"

static retry_policy policy(const pawl_call_options *o)
{
    retry_policy p;
    error err = {0};
    assert_int_equal(retry_read(&p, o, &err), PAWL_OK);
    return p;
}

/* The pause behind an attempt that fails at the moment 1000. */
static int64_t pause_of(const retry_policy *p, int64_t attempt)
{
    return retry_next(p, attempt, 1000, 1000, -1, 0) - 1000;
}

static void defaults(void **state)
{
    (void)state;
    retry_policy p = policy(PAWL_CALL(.no_jitter = 1));
    assert_int_equal(pause_of(&p, 1), 1000);
    assert_int_equal(pause_of(&p, 2), 2000);
    assert_int_equal(retry_next(&p, 3, 0, 0, -1, 0), -1);
    assert_true(retry_left(&p, 0, 1000000) == INT64_MAX);
}

static void pauses_grow_up_to_a_cap(void **state)
{
    (void)state;
    static const struct {
        int64_t kind, pauses[4];
    } ROWS[] = {{PAWL_EXPONENTIAL, {10, 20, 40, 50}},
                {PAWL_LINEAR, {10, 20, 30, 40}},
                {PAWL_CONSTANT, {10, 10, 10, 10}}};
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        retry_policy p =
            policy(PAWL_CALL(.attempts = PAWL_FOREVER, .backoff_ms = 10, .backoff_max_ms = 50,
                             .backoff_kind = ROWS[i].kind, .no_jitter = 1));
        for (int64_t n = 1; n <= 4; n++)
            assert_int_equal(pause_of(&p, n), ROWS[i].pauses[n - 1]);
        assert_true(pause_of(&p, INT64_MAX - 1) <= 50);
    }
}

/* Chance takes up to a quarter away, and adds nothing. */
static void chance_makes_a_pause_shorter(void **state)
{
    (void)state;
    retry_policy p = policy(PAWL_CALL(.attempts = 9));
    int64_t least = INT64_MAX, most = 0;
    for (uint64_t chance = 0; chance < 1000; chance++) {
        int64_t pause = retry_next(&p, 1, 0, 0, -1, chance);
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
    }
    assert_int_equal(least, 750);
    assert_int_equal(most, 1000);
}

static void a_work_function_names_its_moment(void **state)
{
    (void)state;
    retry_policy p = policy(PAWL_CALL(.attempts = 2, .overall_ms = 500));
    assert_int_equal(retry_next(&p, 1, 0, 100, 7, 12345), 107);
    assert_int_equal(retry_next(&p, 1, 0, 100, 0, 12345), 100);
    assert_int_equal(retry_next(&p, 1, 0, 100, 400, 0), -1); /* beyond the limit on all of them */
    assert_int_equal(retry_next(&p, 2, 0, 100, 7, 0), -1);   /* attempts are used up */
}

static void all_attempts_together_have_a_limit(void **state)
{
    (void)state;
    retry_policy p =
        policy(PAWL_CALL(.attempts = PAWL_FOREVER, .backoff_ms = 100, .overall_ms = 1000,
                         .no_jitter = 1, .backoff_kind = PAWL_CONSTANT));
    assert_int_equal(retry_left(&p, 50, 50), 1000);
    assert_int_equal(retry_left(&p, 50, 2000), 0);
    assert_int_equal(retry_next(&p, 1, 0, 899, -1, 0), 999);
    assert_int_equal(retry_next(&p, 1, 0, 900, -1, 0), -1); /* it would begin when time is over */
}

static void nothing_overflows(void **state)
{
    (void)state;
    retry_policy p = policy(PAWL_CALL(.attempts = PAWL_FOREVER, .backoff_ms = INT64_MAX / 2,
                                      .backoff_max_ms = INT64_MAX, .no_jitter = 1));
    assert_true(retry_next(&p, 50, 0, INT64_MAX - 5, -1, 0) == INT64_MAX);
    p.kind = PAWL_LINEAR;
    assert_true(retry_next(&p, 50, 0, 5, -1, 0) == INT64_MAX);
    p.overall_ms = INT64_MAX - 1;
    assert_true(retry_left(&p, INT64_MAX - 5, INT64_MAX - 6) > 0);
}

static void wrong_numbers_are_refused(void **state)
{
    (void)state;
    const pawl_call_options *wrong[] = {
        PAWL_CALL(.attempts = -1),       PAWL_CALL(.backoff_ms = -1),
        PAWL_CALL(.backoff_max_ms = -1), PAWL_CALL(.attempt_ms = -1),
        PAWL_CALL(.overall_ms = -1),     PAWL_CALL(.backoff_kind = -1),
        PAWL_CALL(.backoff_kind = 1000),
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        retry_policy p;
        error err = {0};
        assert_int_equal(retry_read(&p, wrong[i], &err), PAWL_INVALID);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults),
        cmocka_unit_test(pauses_grow_up_to_a_cap),
        cmocka_unit_test(chance_makes_a_pause_shorter),
        cmocka_unit_test(a_work_function_names_its_moment),
        cmocka_unit_test(all_attempts_together_have_a_limit),
        cmocka_unit_test(nothing_overflows),
        cmocka_unit_test(wrong_numbers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
