/* The bound of work at risk (sched/at_risk.h): which runs and jobs may begin, which wait at the
 * gate, and what opens it. Here is a scheduler without threads and without a database, of which
 * only the lock and the list of ready runs are set up. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/sched_fixture.h"

enum { RUNS = 40, MAX = 8 };

typedef struct fixture {
    sched_fixture base;
    atomic_int is_locked;
} fixture;

static int set_up(void **state)
{
    fixture *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->base = sched_fixture_new(RUNS);
    w->base.s->at_risk.max = MAX;
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    fixture *w = *state;
    sched_fixture_free(&w->base);
    free(w);
    return 0;
}

/* The run is taken, calls its work function, and hands in the result. 0: it is not taken. */
static int execute(fixture *w, int i)
{
    sched_lock(w->base.s);
    int closed = at_risk_is_closed(w->base.s);
    sched_unlock(w->base.s);
    if (closed)
        return 0;
    at_risk_begin(w->base.s);
    at_risk_returned(w->base.runs[i]);
    at_risk_hand_in(w->base.runs[i]);
    return 1;
}

static int executed(fixture *w, int from, int to)
{
    int count = 0;
    for (int i = from; i < to; i++)
        count += execute(w, i);
    return count;
}

static int is_closed(fixture *w)
{
    sched_lock(w->base.s);
    int closed = at_risk_is_closed(w->base.s);
    sched_unlock(w->base.s);
    return closed;
}

static int is_closed_for_jobs(fixture *w)
{
    sched_lock(w->base.s);
    int closed = at_risk_is_closed_for_jobs(w->base.s);
    sched_unlock(w->base.s);
    return closed;
}

/* A job of the run is executed, and returns. */
static void execute_job(fixture *w, job *j)
{
    sched_lock(w->base.s);
    at_risk_begin(w->base.s);
    at_risk_job_ends(w->base.s, j, JOB_DONE);
    j->state = JOB_DONE;
    if (j->run) {
        job_list_add(&j->run->jobs.returned, j);
        assert_int_equal(map_put(&j->run->jobs.by_op, (uint64_t)j->op, j), 0);
    }
    sched_unlock(w->base.s);
}

/* ---- Cases ---- */

static void at_the_bound_nothing_begins(void **state)
{
    fixture *w = *state;
    assert_int_equal(executed(w, 0, RUNS), MAX);
    assert_true(is_closed(w));
    assert_true(is_closed_for_jobs(w));
    at_risk_answered(w->base.runs[0]);
    assert_false(is_closed(w));
    assert_false(is_closed_for_jobs(w));
    at_risk_answered(w->base.runs[0]); /* an answer counts once */
    assert_int_equal(w->base.s->at_risk.count, MAX - 1);
}

/* A thread that has found the gate closed is called when a quarter of the bound is free, and at the
 * last answer. */
static void a_thread_that_waits_is_called(void **state)
{
    fixture *w = *state;
    assert_int_equal(executed(w, 0, RUNS), MAX);
    for (int i = 0; i < MAX / 4; i++)
        at_risk_answered(w->base.runs[i]);
    assert_int_equal(w->base.s->at_risk.waits, 1);
    at_risk_answered(w->base.runs[MAX / 4]);
    assert_int_equal(w->base.s->at_risk.waits, 0);
    assert_int_equal(executed(w, 0, MAX / 4 + 1), MAX / 4 + 1);
    assert_true(is_closed(w));
    for (int i = 0; i < MAX; i++)
        at_risk_answered(w->base.runs[i]);
    assert_int_equal(w->base.s->at_risk.waits, 0);
    assert_int_equal(w->base.s->at_risk.count, 0);
    assert_int_equal(w->base.s->at_risk.commits, 0);
}

/* A run becomes ready while the gate is closed: its runner could not take it, and is woken when the
 * gate opens. */
static void a_closed_gate_wakes_no_runner(void **state)
{
    fixture *w = *state;
    sched *s = w->base.s;
    runner *r = &s->runners[SCHED_HAND];
    r->waits = 1;
    sched_lock(s);
    run_queue_ready(s, w->base.runs[RUNS - 1]);
    assert_int_equal(s->at_risk.waits, 0);
    sched_unlock(s);
    assert_int_equal(executed(w, 0, MAX), MAX);
    sched_lock(s);
    run_queue_ready(s, w->base.runs[RUNS - 2]);
    assert_int_equal(s->at_risk.waits, 1); /* the next opening calls */
    sched_unlock(s);
    for (int i = 0; i < MAX; i++)
        at_risk_answered(w->base.runs[i]);
    assert_int_equal(s->at_risk.waits, 0);
}

/* Results of jobs fill the bound, and no commit is on its way that would record them. */
static void nothing_waits_for_what_does_not_come(void **state)
{
    fixture *w = *state;
    job jobs[MAX];
    for (int i = 0; i < MAX; i++) {
        jobs[i] = (job){.run = w->base.runs[0], .op = i + 1};
        execute_job(w, &jobs[i]);
    }
    assert_int_equal(w->base.s->at_risk.count, MAX);
    assert_int_equal(executed(w, 1, 3), 1); /* one at a time, as long as the results are there */
    at_risk_answered(w->base.runs[1]);
    assert_false(is_closed(w));
    assert_false(is_closed_for_jobs(w));
    sched_lock(w->base.s);
    run_queue_ready(w->base.s, w->base.runs[3]);
    sched_unlock(w->base.s);
    assert_true(is_closed_for_jobs(w)); /* runs come first */
    assert_false(is_closed(w));
}

/* The function of the run is in a step of its own, and collects nothing meanwhile. */
static void results_that_cannot_be_collected_do_not_count(void **state)
{
    fixture *w = *state;
    job jobs[MAX];
    for (int i = 0; i < MAX; i++) {
        jobs[i] = (job){.run = w->base.runs[0], .op = i + 1};
        if (i == MAX / 2)
            at_risk_leave_jobs(w->base.runs[0]);
        execute_job(w, &jobs[i]);
    }
    assert_int_equal(w->base.s->at_risk.count, 0);
    assert_int_equal(executed(w, 1, RUNS), MAX);
    at_risk_collects(w->base.runs[0]);
    assert_int_equal(w->base.s->at_risk.count, MAX + MAX);
    job later = {.run = w->base.runs[0], .op = MAX + 1};
    execute_job(w, &later);
    assert_int_equal(w->base.s->at_risk.count, MAX + MAX + 1);
}

static void what_is_dropped_does_not_count(void **state)
{
    fixture *w = *state;
    job without_run = {.op = 1};
    execute_job(w, &without_run);
    assert_int_equal(w->base.s->at_risk.count, 0);
    at_risk_begin(w->base.s);
    at_risk_returned(w->base.runs[1]);
    at_risk_forget(w->base.runs[1]);
    at_risk_forget(w->base.runs[1]);
    assert_int_equal(w->base.s->at_risk.count, 0);
}

static void a_node_that_leaves_has_nothing_at_risk(void **state)
{
    fixture *w = *state;
    assert_int_equal(executed(w, 0, RUNS), MAX);
    at_risk_reset(w->base.s);
    assert_false(is_closed(w));
}

/* ---- The lock ---- */

static void *hold_lock(void *arg)
{
    fixture *w = arg;
    sched_lock(w->base.s);
    atomic_store(&w->is_locked, 1);
    for (;;)
        pause();
    return NULL;
}

/* In a child: another thread holds the lock, and this one changes the place of a run. */
static _Noreturn void change_without_the_lock(fixture *w)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, hold_lock, w) != 0)
        _exit(1);
    while (!atomic_load(&w->is_locked))
        continue;
    at_risk_begin(w->base.s);
    run_queue_ready(w->base.s, w->base.runs[0]);
    _exit(0);
}

static void another_threads_lock_is_not_enough(void **state)
{
    fixture *w = *state;
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        change_without_the_lock(w);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(at_the_bound_nothing_begins, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_thread_that_waits_is_called, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_closed_gate_wakes_no_runner, set_up, tear_down),
        cmocka_unit_test_setup_teardown(nothing_waits_for_what_does_not_come, set_up, tear_down),
        cmocka_unit_test_setup_teardown(results_that_cannot_be_collected_do_not_count, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(what_is_dropped_does_not_count, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_that_leaves_has_nothing_at_risk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_threads_lock_is_not_enough, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
