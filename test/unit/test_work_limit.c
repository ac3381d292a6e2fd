/* Concurrency limits of work functions (at_most): which runs get a slot, which wait, and for which
 * waiter a free slot is reserved. Here is a scheduler without threads and without a database, of
 * which only the lock, the list of ready runs, the registry and the pool of fibers are set up.
 *
 * The last case does anything in any order and looks at what work_limit.h promises: while runs wait
 * there are never more free slots than reserved ones, so that no slot stays empty. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "run/jobs.h"
#include "sched/work_limit.h"
#include "support/sched_fixture.h"

enum { RUNS = 8 };

typedef struct fixture {
    sched_fixture base;
    sched *s;
    work_entry *two;   /* a function with two slots */
    work_entry *one;   /* with one */
    work_entry *open_; /* without a limit */
    pawl_run **runs;
    work_entry *left; /* a function that is left while a fiber is dropped; see leave_meanwhile() */
} fixture;

/* ---- The fixture ---- */

static const char *unused(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

static void on_fiber(fiber *f, void *arg)
{
    (void)f;
    (void)arg;
    fail_msg("no fiber is resumed here");
}

static void forget_unit(const run_host *h, pawl_run *run)
{
    (void)h;
    (void)run;
}

static void deferring(const run_host *h, pawl_run *run, int begins)
{
    (void)h;
    (void)run;
    (void)begins;
}

static work_entry *add_work(registry *r, const char *name, int64_t at_most)
{
    const work_entry w = {.name = name, .fn = unused, .at_most = at_most};
    assert_int_equal(registry_add_work(r, &w, NULL), PAWL_OK);
    return registry_work(r, name);
}

/* It is in hand, and about to call this function. */
static void want(fixture *w, int i, work_entry *entry)
{
    pawl_run *run = w->runs[i];
    assert_int_equal(run->slot->place, PLACE_IN_HAND);
    if (!run->code.fiber)
        run->code.fiber = fiber_new(w->s->pool, on_fiber, NULL);
    assert_non_null(run->code.fiber);
    run->deadline_ms = RUN_NEVER;
    if (!run->attempt.work)
        run->attempt.work = calloc(1, sizeof *run->attempt.work);
    assert_non_null(run->attempt.work);
    run->attempt.work->entry = entry;
}

static int set_up(void **state)
{
    fixture *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->base = sched_fixture_new(RUNS);
    sched *s = w->s = w->base.s;
    w->runs = w->base.runs;
    s->warm_max = RUNS;
    s->options.registry = registry_new();
    assert_non_null(s->options.registry);
    assert_int_equal(fiber_pool_new(&s->pool, 0, NULL), PAWL_OK);
    s->run_host.forget_unit = forget_unit;
    s->run_host.deferring = deferring;
    w->two = add_work(s->options.registry, "two", 2);
    w->one = add_work(s->options.registry, "one", 1);
    w->open_ = add_work(s->options.registry, "open", 0);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    fixture *w = *state;
    for (int i = 0; i < RUNS; i++) {
        fiber_free(w->runs[i]->code.fiber);
        work_free(w->runs[i]->attempt.work);
    }
    fiber_pool_free(w->s->pool);
    registry_free(w->s->options.registry);
    sched_fixture_free(&w->base);
    free(w);
    return 0;
}

/* ---- What a runner does ---- */

static int enter(fixture *w, int i, work_entry *entry)
{
    want(w, i, entry);
    return work_limit_enter(w->s, w->runs[i]);
}

/* The next ready run is taken in hand. -1: none is ready. */
static int next_ready(fixture *w)
{
    sched_lock(w->s);
    const pawl_run *run = run_queue_take(&w->s->runners[SCHED_HAND]);
    sched_unlock(w->s);
    for (int i = 0; i < RUNS; i++)
        if (w->runs[i] == run)
            return i;
    assert_null(run);
    return -1;
}

static job *add_job(fixture *w, work_entry *entry)
{
    job *j = calloc(1, sizeof *j);
    assert_non_null(j);
    j->at_limit = 1;
    sched_lock(w->s);
    job_list_add(&entry->jobs, j);
    sched_unlock(w->s);
    return j;
}

/* ---- Cases ---- */

static void without_a_limit_all_enter(void **state)
{
    fixture *w = *state;
    for (int i = 0; i < RUNS; i++)
        assert_int_equal(enter(w, i, i % 2 ? w->open_ : NULL), 1);
    assert_int_equal(w->open_->inside, 0);
    work_limit_leave(w->s, w->open_);
    work_limit_leave(w->s, NULL);
    assert_int_equal(w->open_->inside, 0);
}

static void runs_enter_in_order_up_to_the_limit(void **state)
{
    fixture *w = *state;
    assert_int_equal(enter(w, 0, w->two), 1);
    assert_int_equal(enter(w, 1, w->two), 1);
    for (int i = 2; i < 5; i++) {
        assert_int_equal(enter(w, i, w->two), 0);
        assert_int_equal(w->runs[i]->slot->place, PLACE_AT_LIMIT);
    }
    assert_int_equal(w->two->inside, 2);
    assert_int_equal(next_ready(w), -1);
    assert_int_equal(enter(w, 5, w->one), 1); /* each function has slots of its own */
    for (int i = 2; i < 5; i++) {
        work_limit_leave(w->s, w->two);
        assert_int_equal(next_ready(w), i);
        assert_int_equal(next_ready(w), -1);
        assert_int_equal(enter(w, i, w->two), 1);
        assert_int_equal(w->two->inside, 2);
    }
    work_limit_leave(w->s, w->two);
    work_limit_leave(w->s, w->two);
    assert_int_equal(w->two->inside, 0);
}

static void a_reserved_slot_that_was_taken_is_waited_for_again(void **state)
{
    fixture *w = *state;
    assert_int_equal(enter(w, 0, w->one), 1);
    assert_int_equal(enter(w, 1, w->one), 0);
    work_limit_leave(w->s, w->one);
    assert_int_equal(enter(w, 2, w->one), 1); /* it came before the run that was woken */
    assert_int_equal(next_ready(w), 1);
    assert_int_equal(enter(w, 1, w->one), 0);
    assert_int_equal(next_ready(w), -1);
    work_limit_leave(w->s, w->one);
    assert_int_equal(next_ready(w), 1);
    assert_int_equal(enter(w, 1, w->one), 1);
}

static void a_reserved_slot_that_is_not_used_goes_to_the_next(void **state)
{
    fixture *w = *state;
    assert_int_equal(enter(w, 0, w->one), 1);
    assert_int_equal(enter(w, 1, w->one), 0);
    assert_int_equal(enter(w, 2, w->one), 0);
    work_limit_leave(w->s, w->one);
    assert_int_equal(next_ready(w), 1);
    work_limit_pass(w->s, w->runs[1]); /* it is held, for instance */
    assert_int_equal(next_ready(w), 2);
    work_limit_pass(w->s, w->runs[1]); /* once only */
    assert_int_equal(next_ready(w), -1);
    assert_int_equal(enter(w, 2, w->one), 1);
}

static void a_run_that_calls_another_function_gives_its_slot_away(void **state)
{
    fixture *w = *state;
    assert_int_equal(enter(w, 0, w->one), 1);
    assert_int_equal(enter(w, 1, w->one), 0);
    assert_int_equal(enter(w, 2, w->one), 0);
    work_limit_leave(w->s, w->one);
    assert_int_equal(next_ready(w), 1);
    assert_int_equal(enter(w, 1, w->open_), 1);
    assert_int_equal(next_ready(w), 2);
    assert_int_equal(enter(w, 2, w->one), 1);
}

static void jobs_come_after_the_runs_that_wait(void **state)
{
    fixture *w = *state;
    job *first = add_job(w, w->one), *second = add_job(w, w->one);
    assert_int_equal(enter(w, 0, w->one), 1);
    assert_int_equal(enter(w, 1, w->one), 0);
    work_limit_leave(w->s, w->one);
    assert_null(w->s->jobs.first);
    assert_int_equal(next_ready(w), 1);
    assert_int_equal(enter(w, 1, w->one), 1);
    work_limit_leave(w->s, w->one);
    assert_ptr_equal(w->s->jobs.first, first);
    assert_ptr_equal(w->s->jobs.last, first);
    assert_int_equal(first->at_limit, 0);
    sched_lock(w->s); /* it is not executed: its slot goes to the next */
    work_limit_ask_in(w->s, w->one);
    work_limit_ask_in(w->s, w->open_);
    work_limit_ask_in(w->s, NULL);
    sched_unlock(w->s);
    assert_ptr_equal(w->s->jobs.last, second);
    assert_null(w->one->jobs.first);
    free(first);
    free(second);
}

static void a_called_run_leaves_the_queue(void **state)
{
    fixture *w = *state;
    for (int i = 0; i < 6; i++) /* 0 is inside, 1 to 5 wait */
        assert_int_equal(enter(w, i, w->one), i == 0);
    sched_lock(w->s);
    work_limit_call(w->s, w->runs[3]);
    work_limit_call(w->s, w->runs[1]);
    work_limit_call(w->s, w->runs[5]);
    work_limit_call(w->s, w->runs[0]); /* it does not wait */
    sched_unlock(w->s);
    assert_int_equal(next_ready(w), 3);
    assert_int_equal(next_ready(w), 1);
    assert_int_equal(next_ready(w), 5);
    assert_int_equal(next_ready(w), -1);
    assert_int_equal(enter(w, 5, w->one), 0); /* behind all others */
    for (int i = 2; i < 6; i++) {
        if (i == 3)
            continue;
        work_limit_leave(w->s, w->one);
        assert_int_equal(next_ready(w), i);
        assert_int_equal(enter(w, i, w->one), 1);
    }
    work_limit_leave(w->s, w->one);
    assert_int_equal(next_ready(w), -1);
}

static void a_drain_lets_all_waiters_go(void **state)
{
    fixture *w = *state;
    assert_int_equal(enter(w, 0, w->one), 1);
    assert_int_equal(enter(w, 1, w->one), 0);
    assert_int_equal(enter(w, 2, w->two), 1);
    assert_int_equal(enter(w, 3, w->one), 0);
    sched_lock(w->s);
    work_limit_let_go(w->s);
    sched_unlock(w->s);
    assert_int_equal(next_ready(w), 1);
    assert_int_equal(next_ready(w), 3);
    assert_int_equal(next_ready(w), -1);
    assert_int_equal(enter(w, 1, w->one), 0); /* there is still no room */
    work_limit_clear(w->s);
    work_limit_leave(w->s, w->one);
    assert_int_equal(next_ready(w), -1); /* it was forgotten */
}

static void waiters_beyond_the_warm_ones_lose_their_fibers(void **state)
{
    fixture *w = *state;
    w->s->warm_max = 2;
    assert_int_equal(enter(w, 0, w->one), 1);
    assert_int_equal(enter(w, 1, w->one), 0);
    assert_non_null(w->runs[1]->code.fiber);
    assert_int_equal(enter(w, 2, w->one), 0);
    assert_null(w->runs[2]->code.fiber);
    assert_int_equal(fiber_pool_live(w->s->pool), 2);
    work_limit_leave(w->s, w->one);
    assert_int_equal(next_ready(w), 1);
    assert_int_equal(enter(w, 3, w->one), 1); /* a run that finds room keeps its fiber */
}

/* A clean-up of the fiber that is dropped: meanwhile another run leaves the function. */
static void leave_meanwhile(void *arg)
{
    const fixture *w = arg;
    work_limit_leave(w->s, w->left);
}

static void a_slot_that_becomes_free_while_a_fiber_is_dropped_is_not_lost(void **state)
{
    fixture *w = *state;
    w->s->warm_max = 0;
    w->left = w->one;
    assert_int_equal(enter(w, 0, w->one), 1);
    run_defer *defer = calloc(1, sizeof *defer);
    assert_non_null(defer);
    *defer = (run_defer){.fn = leave_meanwhile, .arg = w};
    w->runs[1]->code.defers = defer;
    assert_int_equal(enter(w, 1, w->one), 0); /* without a fiber it cannot go on at once … */
    assert_int_equal(next_ready(w), 1);       /* … but its slot is there */
    assert_int_equal(enter(w, 1, w->one), 1);
}

/* ---- Anything, in any order ---- */

typedef enum { OUTSIDE, WAITS, INSIDE } whereabouts;

static int count_at(const whereabouts *at, whereabouts where)
{
    int count = 0;
    for (int i = 0; i < RUNS; i++)
        count += at[i] == where;
    return count;
}

static void expect_promise(const fixture *w, const whereabouts *at)
{
    int64_t reserved = 0;
    for (int i = 0; i < RUNS; i++)
        reserved += w->runs[i]->slot->asked_in == w->two;
    assert_int_equal(w->two->inside, count_at(at, INSIDE));
    assert_in_range(w->two->inside, 0, w->two->at_most);
    if (w->two->first)
        assert_true(w->two->at_most - w->two->inside <= reserved);
}

/* A ready run comes back and tries again, or it does not and passes its slot on. */
static void take_ready(fixture *w, whereabouts *at, int comes)
{
    int i = next_ready(w);
    if (i < 0)
        return;
    assert_int_equal(at[i], WAITS);
    if (comes) {
        at[i] = enter(w, i, w->two) ? INSIDE : WAITS;
        return;
    }
    work_limit_pass(w->s, w->runs[i]);
    at[i] = OUTSIDE;
}

static void act(fixture *w, whereabouts *at, uint64_t chance)
{
    int i = (int)(chance % RUNS);
    if (chance / RUNS % 4 == 0) {
        take_ready(w, at, chance / RUNS / 4 % 3 != 0);
    } else if (at[i] == OUTSIDE) {
        at[i] = enter(w, i, w->two) ? INSIDE : WAITS;
    } else if (at[i] == INSIDE) {
        work_limit_leave(w->s, w->two);
        at[i] = OUTSIDE;
    }
}

static void no_slot_stays_empty_while_runs_wait(void **state)
{
    fixture *w = *state;
    whereabouts at[RUNS] = {OUTSIDE};
    random_seeded seeded;
    random_source *random = &seeded.source;
    random_seeded_init(&seeded, 7);
    w->s->warm_max = RUNS / 2;
    for (int n = 0; n < 20000; n++) {
        uint64_t chance;
        assert_int_equal(random->fill(random, &chance, sizeof chance), 0);
        act(w, at, chance >> 1);
        expect_promise(w, at);
    }
    /* All that wait get in, if those inside leave. */
    while (count_at(at, OUTSIDE) < RUNS) {
        int before = count_at(at, OUTSIDE);
        for (int i = 0; i < RUNS; i++)
            if (at[i] == INSIDE) {
                work_limit_leave(w->s, w->two);
                at[i] = OUTSIDE;
            }
        for (int n = 0; n < RUNS; n++)
            take_ready(w, at, 1);
        expect_promise(w, at);
        assert_true(count_at(at, OUTSIDE) > before || count_at(at, INSIDE) > 0);
    }
}

int main(void)
{
    static const struct CMUnitTest TESTS[] = {
        cmocka_unit_test_setup_teardown(without_a_limit_all_enter, set_up, tear_down),
        cmocka_unit_test_setup_teardown(runs_enter_in_order_up_to_the_limit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_reserved_slot_that_was_taken_is_waited_for_again, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_reserved_slot_that_is_not_used_goes_to_the_next, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_run_that_calls_another_function_gives_its_slot_away,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(jobs_come_after_the_runs_that_wait, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_called_run_leaves_the_queue, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_drain_lets_all_waiters_go, set_up, tear_down),
        cmocka_unit_test_setup_teardown(waiters_beyond_the_warm_ones_lose_their_fibers, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(
            a_slot_that_becomes_free_while_a_fiber_is_dropped_is_not_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_slot_stays_empty_while_runs_wait, set_up, tear_down),
    };
    return cmocka_run_group_tests(TESTS, NULL, NULL);
}
