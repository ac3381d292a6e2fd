/* Which targets of the outbox are passed over, and when they are tried again: back-off, pace and
 * turns, with moments that the test makes up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/outbox_backoff.h"

static const int64_t MS = 1000000;

static slice target(int number)
{
    static char text[16];
    snprintf(text, sizeof text, "run-%d", number);
    return slice_of(text);
}

static void a_target_waits_alone(void **state)
{
    (void)state;
    outbox_backoff w = {0};
    assert_false(outbox_backoff_passes(&w, target(1), 0));
    assert_int_equal(outbox_backoff_put(&w, target(1), 0, 0), 1);
    assert_true(outbox_backoff_passes(&w, target(1), 999 * MS));
    assert_false(outbox_backoff_passes(&w, target(2), 999 * MS));
    assert_false(outbox_backoff_passes(&w, target(1), 1000 * MS));
    outbox_backoff_row *one = outbox_backoff_take(&w, target(1));
    assert_string_equal(one->id, "run-1");
    free(one);
    assert_null(outbox_backoff_take(&w, target(1)));
    assert_false(outbox_backoff_passes(&w, target(1), 0));
    assert_int_equal(w.count, 0);
}

static void the_back_off_doubles_and_is_bounded(void **state)
{
    (void)state;
    static const int64_t WAITS[] = {1000, 2000, 4000, 4000};
    outbox_backoff w = {0};
    int64_t now = 5 * MS;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(outbox_backoff_put(&w, target(1), now, 0), i == 0);
        assert_true(outbox_backoff_passes(&w, target(1), now + WAITS[i] * MS - 1));
        now += WAITS[i] * MS;
        assert_false(outbox_backoff_passes(&w, target(1), now));
    }
    outbox_backoff_clear(&w);
}

/* After an attempt in vain the next target is not tried at once. */
static void targets_are_tried_one_at_a_time(void **state)
{
    (void)state;
    outbox_backoff w = {0};
    outbox_backoff_put(&w, target(1), 0, 0);
    outbox_backoff_put(&w, target(2), 0, 0);
    assert_false(outbox_backoff_passes(&w, target(2), 1000 * MS));
    outbox_backoff_put(&w, target(1), 1300 * MS, 300 * MS);
    assert_true(outbox_backoff_passes(&w, target(2), 1000 * MS));
    assert_true(outbox_backoff_passes(&w, target(2), 2500 * MS - 1));
    assert_false(outbox_backoff_passes(&w, target(2), 2500 * MS));
    outbox_backoff_clear(&w);
}

/* Of twenty that are locked for ever, attempts in vain take a fifth of the time, and none of
 * them is tried twice before another one was tried. */
static void many_targets_take_a_fifth_of_the_time_in_turns(void **state)
{
    (void)state;
    enum { MANY = 20, TOOK = 300 };
    outbox_backoff w = {0};
    int tries[MANY] = {0}, all = 0;
    int64_t now = 0;
    for (int i = 0; i < MANY; i++, now += TOOK * MS)
        outbox_backoff_put(&w, target(i), now, TOOK * MS);
    int64_t from = now;
    while (now - from < (int64_t)MANY * TOOK * 50 * MS) {
        int tried = -1;
        for (int i = 0; i < MANY && tried < 0; i++)
            tried = outbox_backoff_passes(&w, target(i), now) ? -1 : i;
        now += (tried < 0 ? 25 : TOOK) * MS;
        if (tried < 0)
            continue;
        outbox_backoff_put(&w, target(tried), now, TOOK * MS);
        tries[tried]++;
        all++;
    }
    assert_in_range(all, MANY * 8, MANY * 10 + 1);
    for (int i = 0; i < MANY; i++)
        assert_in_range(tries[i], all / MANY - 1, all / MANY + 1);
    outbox_backoff_clear(&w);
}

static void targets_without_a_row_are_found(void **state)
{
    (void)state;
    outbox_backoff w = {0};
    for (int i = 0; i < 4; i++)
        outbox_backoff_put(&w, target(i), 0, 0);
    outbox_backoff_unsee(&w);
    outbox_backoff_passes(&w, target(1), 0);
    outbox_backoff_passes(&w, target(3), 0);
    for (int i = 2; i >= 0; i -= 2) {
        outbox_backoff_row *one = outbox_backoff_take_unseen(&w);
        assert_string_equal(one->id, target(i).at);
        free(one);
    }
    assert_null(outbox_backoff_take_unseen(&w));
    assert_int_equal(w.count, 2);
    outbox_backoff_clear(&w);
}

static void the_number_of_targets_is_bounded(void **state)
{
    (void)state;
    outbox_backoff w = {0};
    for (int i = 0; i < OUTBOX_WAITS_MAX; i++)
        assert_int_equal(outbox_backoff_put(&w, target(i), 0, 0), 1);
    assert_int_equal(outbox_backoff_put(&w, target(OUTBOX_WAITS_MAX), 0, 0), -1);
    assert_int_equal(outbox_backoff_put(&w, target(0), 0, 0), 0);
    outbox_backoff_clear(&w);
    assert_null(w.first);
}

int main(void)
{
    const struct CMUnitTest TESTS[] = {
        cmocka_unit_test(a_target_waits_alone),
        cmocka_unit_test(the_back_off_doubles_and_is_bounded),
        cmocka_unit_test(targets_are_tried_one_at_a_time),
        cmocka_unit_test(many_targets_take_a_fifth_of_the_time_in_turns),
        cmocka_unit_test(targets_without_a_row_are_found),
        cmocka_unit_test(the_number_of_targets_is_bounded),
    };
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
