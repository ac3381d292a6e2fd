/* Programs with bad intent, or without knowledge: they fork and go on, use what belongs to another
 * run, ask for ever. Each gets a defined answer, and the runs beside it go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/engine_fixture.h"

/* What a workflow or work function here has as its arg. */
typedef struct hostile_fixture {
    engine_fixture *fixture;
    pawl *p;
    pawl_run *run;       /* of another run */
    pawl_future *future; /* of a run that lends it */
    int bad;
} hostile_fixture;

static const char *honest_work(pawl_work *work, const char *input)
{
    const hostile_fixture *w = pawl_work_arg(work);
    fixture_note(w->fixture, "honest");
    return input;
}

static const char *honest(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "honest", honest_work, input);
}

static void add(hostile_fixture *w, const char *name, pawl_workflow_fn *fn)
{
    FIXTURE_CODE(w->fixture, w->p, pawl_register_workflow(w->p, name, fn, PAWL_WORKFLOW(.arg = w)),
                 PAWL_OK);
}

static hostile_fixture open_fixture(conf *c, const pawl_options *options)
{
    hostile_fixture w = {.fixture = fixture_new(c)};
    w.p = fixture_open(w.fixture, options);
    return w;
}

static void close_fixture(hostile_fixture *w)
{
    pawl_close(w->p);
    fixture_free(w->fixture);
}

/* Beside whatever has happened, this one goes on. */
static void expect_others_go_on(hostile_fixture *w)
{
    add(w, "honest", honest);
    fixture_start(w->fixture, w->p, "honest", "beside", "1");
    FIXTURE_DONE(w->fixture, w->p, "beside", "1");
}

/* ---- Children that go on ---- */

/* In the parent: how the child has ended. */
static void await_child(engine_fixture *s, pid_t child)
{
    int status = 0;
    FIXTURE_CHECK(s, waitpid(child, &status, 0) == child);
    fixture_note(s, WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT ? "ended" : "lived");
}

/* It forgets to leave in the child. */
static const char *forks(pawl_work *work, const char *input)
{
    const hostile_fixture *w = pawl_work_arg(work);
    pid_t child = fork();
    if (child == 0)
        return "\"child\"";
    await_child(w->fixture, child);
    return input;
}

static const char *has_it_forked(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "forks", forks, input);
    return FIXTURE_STEP(run, "after", honest_work, input);
}

/* Nothing of the run answers in the child, and then it returns nevertheless. */
static const char *forks_itself(pawl_run *run, const char *input)
{
    const hostile_fixture *w = pawl_arg(run);
    pid_t child = fork();
    if (child == 0) {
        int bad = pawl_now(run) != 0;
        bad += pawl_set_status(run, "1") != PAWL_MISUSE;
        bad += pawl_alloc(run, 1) != NULL;
        if (bad == 0)
            bad =
                pawl_sleep(run, 1) != PAWL_MISUSE || FIXTURE_STEP(run, "never", honest_work, input);
        if (bad)
            _exit(1);
        return "\"child\"";
    }
    await_child(w->fixture, child);
    return input;
}

static void expect_children_ended(hostile_fixture *w, int count)
{
    assert_int_equal(fixture_count(w->fixture, "ended"), count);
    assert_int_equal(fixture_count(w->fixture, "lived"), 0);
    assert_int_equal(fixture_count(w->fixture, "never"), 0);
}

/* What it would write would be in the name of its parent, and on its connections: so it is ended
 * before it can. */
static void a_forked_child_that_comes_back_is_ended(conf *c)
{
    hostile_fixture w = open_fixture(c, NULL);
    add(&w, "has_it_forked", has_it_forked);
    add(&w, "forks_itself", forks_itself);
    fixture_start(w.fixture, w.p, "has_it_forked", "step", "1");
    FIXTURE_DONE(w.fixture, w.p, "step", "1");
    FIXTURE_HISTORY(w.fixture, w.p, "step", "step:forks step:after");
    expect_children_ended(&w, 1);
    fixture_start(w.fixture, w.p, "forks_itself", "flow", "2");
    FIXTURE_DONE(w.fixture, w.p, "flow", "2");
    FIXTURE_HISTORY(w.fixture, w.p, "flow", "");
    expect_children_ended(&w, 2);
    expect_others_go_on(&w);
    close_fixture(&w);
}

static void end_serving(hostile_fixture *w, pthread_t thread)
{
    void *failed;
    pawl_stop(w->p);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
}

static void a_forked_child_that_comes_back_is_ended_on_threads_too(conf *c)
{
    pthread_t thread;
    hostile_fixture w = open_fixture(c, PAWL_OPTIONS(.threads = 3));
    fixture_run_clock(w.fixture);
    add(&w, "has_it_forked", has_it_forked);
    add(&w, "forks_itself", forks_itself);
    assert_int_equal(pthread_create(&thread, NULL, fixture_serve, w.p), 0);
    fixture_start(w.fixture, w.p, "has_it_forked", "step", "1");
    fixture_start(w.fixture, w.p, "forks_itself", "flow", "2");
    FIXTURE_CODE(w.fixture, w.p, pawl_wait(w.p, "step", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_CODE(w.fixture, w.p, pawl_wait(w.p, "flow", PAWL_FOREVER, NULL), PAWL_OK);
    expect_children_ended(&w, 2);
    end_serving(&w, thread);
    close_fixture(&w);
}

/* A child that knows what it is: it may look at what it was given, and leave. */
static const char *forks_well(pawl_work *work, const char *input)
{
    const hostile_fixture *w = pawl_work_arg(work);
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        int bad = strcmp(pawl_work_json(work, "%j", input), input) != 0;
        bad += pawl_start(w->p, "honest", "child", "1", NULL) != PAWL_FORKED;
        bad += pawl_wait(w->p, "run", PAWL_FOREVER, NULL) != PAWL_FORKED;
        bad += pawl_hold(w->p, "run", NULL) != PAWL_FORKED;
        pawl_stop(w->p);
        bad += (pawl_close)(w->p) != PAWL_FORKED;
        _exit(bad);
    }
    FIXTURE_CHECK(w->fixture, waitpid(child, &status, 0) == child);
    return pawl_work_json(work, "%d", status);
}

static const char *forked_well(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "forks", forks_well, input);
}

static void a_forked_child_that_exits_does_no_harm(conf *c)
{
    hostile_fixture w = open_fixture(c, NULL);
    add(&w, "forked_well", forked_well);
    fixture_start(w.fixture, w.p, "forked_well", "run", "1");
    FIXTURE_DONE(w.fixture, w.p, "run", "0");
    expect_others_go_on(&w);
    close_fixture(&w);
}

/* ---- Calls on what belongs to another run ---- */

static const char *lends_itself(pawl_run *run, const char *input)
{
    ((hostile_fixture *)pawl_arg(run))->run = run;
    pawl_sleep(run, 1000);
    return input;
}

static const char *borrows(pawl_run *run, const char *input)
{
    hostile_fixture *w = pawl_arg(run);
    w->bad += pawl_sleep(w->run, 1) != PAWL_MISUSE;
    w->bad += pawl_step(w->run, "x", honest_work, "1", NULL) != NULL;
    w->bad += pawl_set_status(w->run, "1") != PAWL_MISUSE;
    w->bad += pawl_attr(w->run, "x", "1") != PAWL_MISUSE;
    w->bad += pawl_now(w->run) != 0;
    w->bad += pawl_alloc(w->run, 1) != NULL;
    w->bad += pawl_fail(w->run, "x", "y") != NULL;
    return input;
}

static void a_run_is_not_for_other_runs(conf *c)
{
    if (!FIXTURE_WARM)
        skip(); /* a run that sleeps without a fiber is not in memory */
    hostile_fixture w = open_fixture(c, NULL);
    add(&w, "lends_itself", lends_itself);
    add(&w, "borrows", borrows);
    fixture_start(w.fixture, w.p, "lends_itself", "lender", "1");
    fixture_poll(w.fixture, w.p);
    fixture_start(w.fixture, w.p, "borrows", "borrower", "2");
    FIXTURE_DONE(w.fixture, w.p, "borrower", "2");
    FIXTURE_DONE(w.fixture, w.p, "lender", "1");
    FIXTURE_HISTORY(w.fixture, w.p, "lender", "sleep woken");
    assert_int_equal(w.bad, 0);
    close_fixture(&w);
}

static const char *lends_a_future(pawl_run *run, const char *input)
{
    hostile_fixture *w = pawl_arg(run);
    w->future = pawl_sleep_later(run, 5000);
    pawl_await(run, w->future);
    return input;
}

static const char *borrows_a_future(pawl_run *run, const char *input)
{
    pawl_future *f = ((hostile_fixture *)pawl_arg(run))->future;
    switch (pawl_get_int(input, "", 0)) {
    case 0:
        return pawl_await(run, f);
    case 1:
        pawl_all(run, &f, 1);
        break;
    case 2:
        pawl_any(run, &f, 1, 0);
        break;
    case 3:
        pawl_all_later(run, &f, 1);
        break;
    case 4:
        pawl_try(run, f);
        break;
    default:
        pawl_future_cancel(run, f);
    }
    return input;
}

static void futures_of_a_run_are_not_for_other_runs(conf *c)
{
    if (!FIXTURE_WARM)
        skip(); /* the lender has lost its futures, and their memory may be another run's */
    hostile_fixture w = open_fixture(c, NULL);
    add(&w, "lends_a_future", lends_a_future);
    add(&w, "borrows_a_future", borrows_a_future);
    fixture_start(w.fixture, w.p, "lends_a_future", "lends", "1");
    fixture_poll(w.fixture, w.p);
    for (int i = 0; i < 6; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "borrows-%d", i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(w.fixture, w.p, "borrows_a_future", id, input);
        fixture_held(w.fixture, w.p, id, "not one of the run's", i);
    }
    FIXTURE_DONE(w.fixture, w.p, "lends", "1");
    close_fixture(&w);
}

static void go_on_in_a_clean_up(void *arg)
{
    hostile_fixture *w = arg;
    w->bad += pawl_sleep(w->run, 1) != PAWL_MISUSE;
    w->bad += pawl_step(w->run, "x", honest_work, "1", NULL) != NULL;
    w->bad += pawl_defer(w->run, go_on_in_a_clean_up, w) != PAWL_MISUSE;
}

static const char *cleans_up(pawl_run *run, const char *input)
{
    hostile_fixture *w = pawl_arg(run);
    w->run = run;
    pawl_defer(run, go_on_in_a_clean_up, w);
    return input;
}

static void a_clean_up_makes_no_durable_calls(conf *c)
{
    hostile_fixture w = open_fixture(c, NULL);
    add(&w, "cleans_up", cleans_up);
    fixture_start(w.fixture, w.p, "cleans_up", "run", "1");
    FIXTURE_DONE(w.fixture, w.p, "run", "1");
    FIXTURE_HISTORY(w.fixture, w.p, "run", "");
    assert_int_equal(w.bad, 0);
    close_fixture(&w);
}

/* A thread that drives is asked to drive: by a workflow, and on threads by a step. */
static const char *drives(pawl_run *run, const char *input)
{
    hostile_fixture *w = pawl_arg(run);
    w->bad += pawl_poll(w->p, NULL) != PAWL_MISUSE;
    w->bad += pawl_serve(w->p) != PAWL_MISUSE;
    return input;
}

static const char *driving_work(pawl_work *work, const char *input)
{
    hostile_fixture *w = pawl_work_arg(work);
    w->bad += pawl_poll(w->p, NULL) != PAWL_MISUSE;
    w->bad += pawl_serve(w->p) != PAWL_MISUSE;
    w->bad += pawl_finish(w->p, "other", 0, NULL) != PAWL_TIMEOUT; /* the threads drive it */
    return input;
}

static const char *drives_in_a_step(pawl_run *run, const char *input)
{
    drives(run, input);
    return FIXTURE_STEP(run, "driving", driving_work, input);
}

static void a_function_that_is_driven_does_not_drive(conf *c)
{
    pthread_t thread;
    hostile_fixture w = open_fixture(c, NULL);
    add(&w, "drives", drives);
    fixture_start(w.fixture, w.p, "drives", "run", "1");
    FIXTURE_DONE(w.fixture, w.p, "run", "1");
    assert_int_equal(w.bad, 0);
    close_fixture(&w);
    w = open_fixture(c, PAWL_OPTIONS(.threads = 2));
    fixture_run_clock(w.fixture);
    add(&w, "drives_in_a_step", drives_in_a_step);
    assert_int_equal(pthread_create(&thread, NULL, fixture_serve, w.p), 0);
    fixture_start(w.fixture, w.p, "drives_in_a_step", "other", "2");
    FIXTURE_CODE(w.fixture, w.p, pawl_wait(w.p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    end_serving(&w, thread);
    assert_int_equal(w.bad, 0);
    close_fixture(&w);
}

/* A name that is registered twice is an error of that call, and of every thread that begins to
 * drive after it. Threads that drive already go on. */
static void a_registered_name_is_not_taken_away(conf *c)
{
    pthread_t thread;
    hostile_fixture w = open_fixture(c, PAWL_OPTIONS(.threads = 1)), other = w;
    fixture_run_clock(w.fixture);
    add(&w, "honest", honest);
    assert_int_equal(pthread_create(&thread, NULL, fixture_serve, w.p), 0);
    fixture_start(w.fixture, w.p, "honest", "before", "1");
    FIXTURE_CODE(w.fixture, w.p, pawl_wait(w.p, "before", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_CODE(w.fixture, w.p,
                 pawl_register_workflow(w.p, "honest", borrows, PAWL_WORKFLOW(.arg = &other)),
                 PAWL_CONFLICT);
    fixture_start(w.fixture, w.p, "honest", "after", "2");
    FIXTURE_CODE(w.fixture, w.p, pawl_wait(w.p, "after", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(fixture_count(w.fixture, "honest"), 2);
    end_serving(&w, thread);
    FIXTURE_CODE(w.fixture, w.p, pawl_serve(w.p), PAWL_CONFLICT);
    close_fixture(&w);
}

/* ---- Numbers without end ---- */

static void the_largest_numbers_are_numbers(conf *c)
{
    pthread_t thread;
    hostile_fixture w = open_fixture(c, PAWL_OPTIONS(.threads = -1, .threads_max = INT64_MAX,
                                                     .wal_bytes = INT64_MAX, .busy_ms = INT64_MAX,
                                                     .warm_bytes = INT64_MAX, .claim_ms = INT64_MAX,
                                                     .drain_ms = INT64_MAX));
    expect_others_go_on(&w);
    close_fixture(&w);
    w = open_fixture(c, PAWL_OPTIONS(.threads = INT64_MAX, .threads_max = INT64_MAX,
                                     .drain_ms = INT64_MAX, .claim_ms = INT64_MAX,
                                     .busy_ms = INT64_MAX, .warm_bytes = 1));
    fixture_run_clock(w.fixture);
    add(&w, "honest", honest);
    assert_int_equal(pthread_create(&thread, NULL, fixture_serve, w.p), 0);
    fixture_start(w.fixture, w.p, "honest", "run", "1");
    FIXTURE_CODE(w.fixture, w.p, pawl_wait(w.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    end_serving(&w, thread);
    close_fixture(&w);
}

static int count_event(const pawl_event *e, void *arg)
{
    (void)e;
    ++*(int *)arg;
    return 0;
}

static int count_info(const pawl_info *i, void *arg)
{
    (void)i;
    ++*(int *)arg;
    return 0;
}

static const char *retries_late(pawl_work *work, const char *input)
{
    int64_t attempt = pawl_work_attempt(work);
    if (attempt == 1)
        return pawl_work_retry(work, INT64_MIN, "before all time");
    if (attempt == 2)
        return pawl_work_retry(work, INT64_MAX, "after all time");
    return input;
}

static const char *patient(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "retries", retries_late, input);
}

static void the_largest_times_are_allowed(conf *c)
{
    int count = 0;
    pawl_info *info = NULL;
    hostile_fixture w = open_fixture(c, NULL);
    engine_fixture *s = w.fixture;
    add(&w, "patient", patient);
    expect_others_go_on(&w);
    FIXTURE_CODE(s, w.p, pawl_start(w.p, "honest", "never", "1", PAWL_START(.delay_ms = INT64_MAX)),
                 PAWL_OK);
    fixture_start(s, w.p, "patient", "patient", "1");
    fixture_poll(s, w.p);
    fixture_advance(s, PAWL_DAYS(10000));
    fixture_poll(s, w.p);
    assert_int_equal(fixture_phase(s, w.p, "never"), PAWL_RUN_LIVE);
    assert_int_equal(fixture_phase(s, w.p, "patient"), PAWL_RUN_LIVE);
    FIXTURE_CODE(s, w.p, pawl_wait_status(w.p, "never", INT64_MAX, -1, &info), PAWL_INVALID);
    FIXTURE_CODE(s, w.p, pawl_wait_status(w.p, "never", INT64_MAX, 0, &info), PAWL_TIMEOUT);
    FIXTURE_CODE(s, w.p, pawl_wait_status(w.p, "beside", INT64_MIN, PAWL_FOREVER, &info), PAWL_OK);
    pawl_info_free(info);
    FIXTURE_CODE(s, w.p, pawl_history(w.p, "beside", 0, INT64_MAX, count_event, &count), PAWL_OK);
    assert_int_equal(count, 0);
    FIXTURE_CODE(s, w.p, pawl_history(w.p, "beside", 0, INT64_MIN, count_event, &count),
                 PAWL_INVALID);
    FIXTURE_CODE(s, w.p, pawl_history(w.p, "beside", -1, 0, count_event, &count), PAWL_INVALID);
    FIXTURE_CODE(s, w.p, pawl_history(w.p, "beside", INT64_MAX, 0, count_event, &count),
                 PAWL_NOTFOUND);
    count = 0;
    FIXTURE_CODE(s, w.p,
                 pawl_list(w.p,
                           PAWL_FILTER(.limit = INT64_MAX, .created_before_ms = INT64_MAX,
                                       .finished_before_ms = INT64_MAX),
                           count_info, &count),
                 PAWL_OK);
    assert_int_equal(count, 1);
    close_fixture(&w);
}

/* ---- Nothing at all ---- */

static void null_is_no_argument(conf *c)
{
    hostile_fixture w = open_fixture(c, NULL);
    pawl *p = w.p;
    char *why = NULL;
    pawl_info *info = NULL;
    expect_others_go_on(&w);
    FIXTURE_CODE(w.fixture, p, pawl_inspect(p, NULL, &info), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_inspect(p, "beside", NULL), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_wait_status(p, NULL, 0, 0, &info), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_wait_status(p, "beside", 0, 0, NULL), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_list(p, NULL, NULL, NULL), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_history(p, NULL, 0, 0, count_event, NULL), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_history(p, "beside", 0, 0, NULL, NULL), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_why(p, NULL, &why), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_why(p, "beside", NULL), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_hold(p, NULL, NULL), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_release(p, NULL), PAWL_INVALID);
    FIXTURE_CODE(w.fixture, p, pawl_finish(p, NULL, 0, NULL), PAWL_INVALID);
    assert_int_equal(pawl_open(NULL, w.fixture ? "memory:" : "", NULL), PAWL_INVALID);
    assert_int_equal(pawl_serve(NULL), PAWL_INVALID);
    assert_int_equal(pawl_register_work(NULL, "x", honest_work, NULL), PAWL_INVALID);
    assert_int_equal(pawl_inspect(NULL, "x", &info), PAWL_INVALID);
    assert_int_equal(pawl_hold(NULL, "x", NULL), PAWL_INVALID);
    assert_int_equal(pawl_timeout(NULL), -1);
    assert_null(pawl_json_new(NULL));
    assert_int_equal(pawl_json_check(NULL, NULL), PAWL_INVALID);
    assert_int_equal(pawl_get_int(NULL, NULL, 7), 7);
    assert_int_equal(pawl_get_kind(NULL, NULL), PAWL_NOTHING);
    assert_null(pawl_work_json(NULL, "1"));
    assert_null(pawl_work_fail(NULL, PAWL_PERMANENT, "x", "y"));
    assert_int_equal(pawl_work_cancelled(NULL), 1);
    pawl_close(NULL);
    pawl_free(NULL);
    pawl_info_free(NULL);
    pawl_outcome_free(NULL);
    close_fixture(&w);
}

static const conf_case CASES[] = {
    {"a forked child that comes back is ended", a_forked_child_that_comes_back_is_ended, 0},
    {"a forked child that comes back is ended, on threads too",
     a_forked_child_that_comes_back_is_ended_on_threads_too, 0},
    {"a forked child that exits does no harm", a_forked_child_that_exits_does_no_harm, 0},
    {"a run is not for other runs", a_run_is_not_for_other_runs, 0},
    {"futures of a run are not for other runs", futures_of_a_run_are_not_for_other_runs, 0},
    {"a clean-up makes no durable calls", a_clean_up_makes_no_durable_calls, 0},
    {"a function that is driven does not drive", a_function_that_is_driven_does_not_drive, 0},
    {"a registered name is not taken away", a_registered_name_is_not_taken_away, 0},
    {"the largest numbers are numbers", the_largest_numbers_are_numbers, 0},
    {"the largest times are allowed", the_largest_times_are_allowed, 0},
    {"NULL is no argument", null_is_no_argument, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
