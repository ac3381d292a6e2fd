/* Waiters of a handle: a watch that is told between its beginning and its sleep does not sleep,
 * only the waiters of a run hear of it, and a stop ends the wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>

#include "db/unit.h"
#include "handle/watches.h"

/* A clock whose waits are counted and are over at once. */
typedef struct counted {
    clock_source clock;
    int waits;
    int64_t until_ns; /* of the last wait */
} counted;

static int64_t mono_ns(clock_source *c)
{
    (void)c;
    return 7;
}

static int wait(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
    counted *k = (counted *)(void *)c;
    (void)cond;
    (void)mutex;
    k->waits++;
    k->until_ns = deadline_ns;
    return 1;
}

typedef struct fixture {
    counted counted;
    watches all;
    watch run, other, feed;
} fixture;

static fixture *fixture_new(void)
{
    error err = {0};
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->counted.clock = (clock_source){.mono_ns = mono_ns, .wait = wait};
    watches_init(&f->all, &f->counted.clock);
    assert_int_equal(watches_add(&f->all, &f->run, SLICE_LIT("run"), &err), PAWL_OK);
    assert_int_equal(watches_add(&f->all, &f->other, SLICE_LIT("other"), &err), PAWL_OK);
    assert_int_equal(watches_add(&f->all, &f->feed, WATCH_FEED, &err), PAWL_OK);
    return f;
}

static void fixture_free(fixture *f)
{
    watches_remove(&f->all, &f->other);
    watches_remove(&f->all, &f->run);
    watches_remove(&f->all, &f->feed);
    watches_free(&f->all);
    free(f);
}

/* 1: the watch had to wait. */
static int sleeps(fixture *f, watch *w)
{
    error err = {0};
    int before = f->counted.waits;
    assert_int_equal(watches_sleep(&f->all, w, INT64_MAX, &err), PAWL_OK);
    return f->counted.waits > before;
}

static void what_was_told_before_the_sleep_is_not_missed(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    watches_tell(&f->all, SLICE_LIT("run"));
    assert_int_equal(sleeps(f, &f->run), 0);
    assert_int_equal(sleeps(f, &f->run), 1); /* once */
    fixture_free(f);
}

static void only_the_waiters_of_a_run_hear_of_it(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    watches_tell(&f->all, SLICE_LIT("run"));
    assert_int_equal(sleeps(f, &f->other), 1);
    assert_int_equal(sleeps(f, &f->feed), 1);
    watches_tell(&f->all, WATCH_FEED);
    assert_int_equal(sleeps(f, &f->feed), 0);
    assert_int_equal(sleeps(f, &f->other), 1);
    watches_tell_all(&f->all);
    assert_int_equal(sleeps(f, &f->run), 0);
    assert_int_equal(sleeps(f, &f->other), 0);
    assert_int_equal(sleeps(f, &f->feed), 0);
    fixture_free(f);
}

static void a_sleep_ends_after_a_second_or_at_its_deadline(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    error err = {0};
    sleeps(f, &f->run);
    assert_int_equal(f->counted.until_ns, clock_deadline(7, 1000));
    assert_int_equal(watches_sleep(&f->all, &f->run, 100, &err), PAWL_OK);
    assert_int_equal(f->counted.until_ns, 100);
    fixture_free(f);
}

static void the_waiters_of_a_run_are_told_how_it_has_ended(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    char text[] = "\"a value\"";
    watch_end done = {5, 2, .phase = 1, .output = slice_of(text)};
    watch_end failed = {5, 3, 2, .output = SLICE_LIT("x"), .error = SLICE_LIT("an error")};
    assert_null(watches_end(&f->all, &f->run, 5, 2));
    watches_tell(&f->all, SLICE_LIT("run"));
    assert_null(watches_end(&f->all, &f->run, 5, 2));
    sleeps(f, &f->run);
    watches_tell_end(&f->all, SLICE_LIT("run"), &done);
    text[1] = 'X'; /* it was copied */
    assert_int_equal(sleeps(f, &f->run), 0);
    watches_tell_end(&f->all, SLICE_LIT("run"), &failed); /* after a redrive */
    const watch_end *end = watches_end(&f->all, &f->run, 5, 2);
    assert_non_null(end);
    assert_int_equal(end->phase, 1);
    assert_true(slice_equal(end->output, SLICE_LIT("\"a value\"")));
    assert_null(end->error.at);
    assert_null(watches_end(&f->all, &f->other, 5, 2));
    assert_null(watches_end(&f->all, &f->feed, 5, 2));
    assert_int_equal(sleeps(f, &f->other), 1);
    watches_tell_end(&f->all, SLICE_LIT("other"), &failed);
    end = watches_end(&f->all, &f->other, 5, 2);
    assert_non_null(end);
    assert_true(slice_equal(end->output, SLICE_LIT("x")));
    assert_true(slice_equal(end->error, SLICE_LIT("an error")));
    fixture_free(f);
}

/* The end of a run that was deleted, or of the generation before a redrive, is told when the wait
 * for the next one has begun. */
static void an_end_from_before_is_not_the_answer(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    watch_end ends[] = {{4, 2, .phase = 1}, {5, 1, .phase = 1}, {5, 2, .phase = 3}};
    for (int i = 0; i < 2; i++) {
        watches_tell_end(&f->all, SLICE_LIT("run"), &ends[i]);
        assert_int_equal(sleeps(f, &f->run), 0);
        assert_null(watches_end(&f->all, &f->run, 5, 2));
    }
    watches_tell_end(&f->all, SLICE_LIT("run"), &ends[2]);
    const watch_end *end = watches_end(&f->all, &f->run, 5, 2);
    assert_non_null(end);
    assert_int_equal(end->phase, 3);
    fixture_free(f);
}

/* Two runs whose watches are in one list. */
static void an_end_is_not_told_to_waiters_of_other_runs(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    error err = {0};
    watch beside;
    char id[32] = "run";
    uint64_t list = unit_key_text("runs.id", SLICE_LIT("run")) % WATCH_LISTS;
    for (int i = 0; i == 0 || unit_key_text("runs.id", slice_of(id)) % WATCH_LISTS != list; i++)
        snprintf(id, sizeof id, "beside-%d", i);
    assert_int_equal(watches_add(&f->all, &beside, slice_of(id), &err), PAWL_OK);
    watches_tell_end(&f->all, SLICE_LIT("run"), &(watch_end){5, 2, .phase = 1});
    assert_null(watches_end(&f->all, &beside, 5, 2));
    assert_int_equal(sleeps(f, &beside), 1);
    watches_remove(&f->all, &beside);
    fixture_free(f);
}

static void a_stop_ends_the_waits_that_have_begun(void **state)
{
    (void)state;
    fixture *f = fixture_new();
    error err = {0};
    watch later;
    watches_stop(&f->all);
    assert_int_equal(watches_add(&f->all, &later, SLICE_LIT("later"), &err), PAWL_OK);
    assert_int_equal(watches_sleep(&f->all, &f->run, INT64_MAX, &err), PAWL_CLOSED);
    assert_int_equal(sleeps(f, &later), 1);
    watches_remove(&f->all, &later);
    fixture_free(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_told_before_the_sleep_is_not_missed),
        cmocka_unit_test(only_the_waiters_of_a_run_hear_of_it),
        cmocka_unit_test(the_waiters_of_a_run_are_told_how_it_has_ended),
        cmocka_unit_test(an_end_from_before_is_not_the_answer),
        cmocka_unit_test(an_end_is_not_told_to_waiters_of_other_runs),
        cmocka_unit_test(a_sleep_ends_after_a_second_or_at_its_deadline),
        cmocka_unit_test(a_stop_ends_the_waits_that_have_begun),
    };
    return cmocka_run_group_tests_name("watches", tests, NULL, NULL);
}
