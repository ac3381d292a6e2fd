/* Work functions on threads of the engine while the caller drives by hand: the loop goes on, and
 * everything else is as it is under pawl_serve(): limits, holds, cancels, places, stops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "handle/handle.h"
#include "sched/sched.h"
#include "support/engine_fixture.h"

enum { RUNS = 6 };

/* Numbers of the fixture: 1: functions at the gate may pass; so many are inside, and were at most;
 * work functions that were called on the thread that drives, workflow functions that were not. */
enum { GATE, INSIDE, MOST, WRONG, ASKED };

typedef struct loop {
    engine_fixture *fixture;
    pawl *p;
    pthread_t driver;
} loop;

/* ---- Work ---- */

static void go_in(loop *l)
{
    int64_t inside = atomic_fetch_add(fixture_number(l->fixture, INSIDE), 1) + 1;
    int64_t most = atomic_load(fixture_number(l->fixture, MOST));
    while (inside > most &&
           !atomic_compare_exchange_weak(fixture_number(l->fixture, MOST), &most, inside))
        continue;
    if (pthread_equal(l->driver, pthread_self()))
        atomic_fetch_add(fixture_number(l->fixture, WRONG), 1);
}

static void go_out(loop *l)
{
    atomic_fetch_sub(fixture_number(l->fixture, INSIDE), 1);
}

static const char *quick(pawl_work *work, const char *input)
{
    loop *l = pawl_work_arg(work);
    go_in(l);
    fixture_note(l->fixture, "quick");
    go_out(l);
    return input;
}

/* Stands at the gate. */
static const char *slow(pawl_work *work, const char *input)
{
    loop *l = pawl_work_arg(work);
    fixture_note(l->fixture, "slow");
    go_in(l);
    TMP_AWAIT(atomic_load(fixture_number(l->fixture, GATE)));
    go_out(l);
    return input;
}

/* Goes when it is asked to. */
static const char *polite(pawl_work *work, const char *input)
{
    loop *l = pawl_work_arg(work);
    go_in(l);
    TMP_AWAIT(pawl_work_cancelled(work));
    atomic_fetch_add(fixture_number(l->fixture, ASKED), 1);
    go_out(l);
    return input;
}

/* Stays until another one is there. */
static const char *meet(pawl_work *work, const char *input)
{
    loop *l = pawl_work_arg(work);
    go_in(l);
    TMP_AWAIT(atomic_load(fixture_number(l->fixture, MOST)) >= 2);
    go_out(l);
    return input;
}

/* ---- Workflows ---- */

static void note_thread(const loop *l)
{
    if (!pthread_equal(l->driver, pthread_self()))
        atomic_fetch_add(fixture_number(l->fixture, WRONG), 1);
}

static const char *quick_flow(pawl_run *run, const char *input)
{
    loop *l = pawl_arg(run);
    note_thread(l);
    pawl_step(run, "one", quick, input, PAWL_CALL(.arg = l));
    pawl_future *f = pawl_step_later(run, "two", quick, input, PAWL_CALL(.arg = l));
    pawl_call(run, "quick", input, NULL);
    pawl_await(run, f);
    note_thread(l);
    return input;
}

static const char *slow_flow(pawl_run *run, const char *input)
{
    loop *l = pawl_arg(run);
    pawl_step(run, "slow", slow, input, PAWL_CALL(.arg = l));
    return pawl_step(run, "after", quick, input, PAWL_CALL(.arg = l));
}

static const char *limited_flow(pawl_run *run, const char *input)
{
    return pawl_step(run, "slow", slow, input,
                     PAWL_CALL(.arg = pawl_arg(run), .attempts = 1, .attempt_ms = 20));
}

static const char *polite_flow(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "polite", polite, input);
    pawl_sleep(run, PAWL_HOURS(1));
    return input;
}

static const char *meet_flow(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "meet", meet, input);
}

static const char *call_flow(pawl_run *run, const char *input)
{
    return pawl_call(run, "one at a time", input, NULL);
}

static const char *narrow_flow(pawl_run *run, const char *input)
{
    return pawl_call(run, "narrow", input, NULL);
}

static const char *no_work(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

/* ---- The loop ---- */

static void register_all(loop *l)
{
    static const struct {
        const char *name;
        pawl_workflow_fn *fn;
    } FLOWS[] = {{"quick", quick_flow},   {"slow", slow_flow},    {"limited", limited_flow},
                 {"polite", polite_flow}, {"meet", meet_flow},    {"call", call_flow},
                 {"no_work", no_work},    {"narrow", narrow_flow}};
    for (size_t i = 0; i < sizeof FLOWS / sizeof *FLOWS; i++)
        FIXTURE_CODE(
            l->fixture, l->p,
            pawl_register_workflow(l->p, FLOWS[i].name, FLOWS[i].fn, PAWL_WORKFLOW(.arg = l)),
            PAWL_OK);
    FIXTURE_CODE(l->fixture, l->p, pawl_register_work(l->p, "quick", quick, PAWL_WORK(.arg = l)),
                 PAWL_OK);
    FIXTURE_CODE(
        l->fixture, l->p,
        pawl_register_work(l->p, "one at a time", quick, PAWL_WORK(.arg = l, .at_most = 1)),
        PAWL_OK);
    FIXTURE_CODE(l->fixture, l->p,
                 pawl_register_work(l->p, "narrow", slow, PAWL_WORK(.arg = l, .at_most = 1)),
                 PAWL_OK);
}

static void open_still(loop *l, conf *c, const pawl_options *options)
{
    l->fixture = fixture_new(c);
    l->p = fixture_open(l->fixture, options);
    l->driver = pthread_self();
    register_all(l);
}

/* The same, with a clock that goes. */
static void open_loop(loop *l, conf *c, const pawl_options *options)
{
    open_still(l, c, options);
    fixture_run_clock(l->fixture);
}

static void close_loop(loop *l)
{
    pawl_close(l->p);
    assert_int_equal(atomic_load(fixture_number(l->fixture, WRONG)), 0);
    fixture_free(l->fixture);
}

/* As an event loop does it. */
static void turn(loop *l)
{
    struct pollfd fd = {pawl_fd(l->p), POLLIN, 0};
    int ms = pawl_timeout(l->p);
    poll(&fd, 1, ms < 0 || ms > 50 ? 50 : ms);
    FIXTURE_CODE(l->fixture, l->p, pawl_poll(l->p, NULL), PAWL_OK);
}

#define LOOP_UNTIL(l, condition) TMP_AWAIT((turn(l), (condition)))

static int is_done(loop *l, const char *id)
{
    return fixture_phase(l->fixture, l->p, id) == PAWL_RUN_DONE;
}

static void start(loop *l, const char *flow, const char *id)
{
    fixture_start(l->fixture, l->p, flow, id, "1");
}

static void open_gate(loop *l)
{
    atomic_store(fixture_number(l->fixture, GATE), 1);
}

static int is_inside(loop *l)
{
    return atomic_load(fixture_number(l->fixture, INSIDE)) > 0;
}

/* ---- Cases ---- */

static void workflows_on_the_caller_s_thread_work_on_others(conf *c)
{
    loop l;
    open_loop(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 2));
    start(&l, "quick", "run");
    LOOP_UNTIL(&l, is_done(&l, "run"));
    assert_int_equal(fixture_count(l.fixture, "quick"), 3);
    close_loop(&l);
}

/* The descriptor says that the work function has returned. */
static void the_caller_s_loop_goes_on_during_work(conf *c)
{
    loop l;
    int64_t did = 1;
    open_loop(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 1));
    start(&l, "slow", "run");
    LOOP_UNTIL(&l, is_inside(&l));
    start(&l, "no_work", "other");
    LOOP_UNTIL(&l, is_done(&l, "other"));
    struct pollfd fd = {pawl_fd(l.p), POLLIN, 0};
    while (did > 0 || poll(&fd, 1, 0) > 0)
        FIXTURE_CODE(l.fixture, l.p, pawl_poll(l.p, &did), PAWL_OK);
    open_gate(&l);
    assert_int_equal(poll(&fd, 1, tmp_patience() * 1000), 1);
    LOOP_UNTIL(&l, is_done(&l, "run"));
    FIXTURE_NOTES(l.fixture, "slow quick");
    close_loop(&l);
}

static void work_functions_run_beside_each_other(conf *c)
{
    loop l;
    open_loop(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 2));
    start(&l, "meet", "one");
    start(&l, "meet", "two");
    LOOP_UNTIL(&l, is_done(&l, "one") && is_done(&l, "two"));
    assert_int_equal(atomic_load(fixture_number(l.fixture, MOST)), 2);
    close_loop(&l);
}

/* A function whose time is over does not keep its thread from the others: there is a new one. */
static void a_limit_is_kept(conf *c)
{
    loop l;
    open_still(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 1));
    start(&l, "limited", "run");
    LOOP_UNTIL(&l, is_inside(&l));
    fixture_advance(l.fixture, 20);
    LOOP_UNTIL(&l, fixture_phase(l.fixture, l.p, "run") == PAWL_RUN_FAILED);
    assert_true(is_inside(&l));
    start(&l, "quick", "other");
    LOOP_UNTIL(&l, is_done(&l, "other"));
    open_gate(&l);
    TMP_AWAIT(!is_inside(&l));
    start(&l, "quick", "third");
    LOOP_UNTIL(&l, is_done(&l, "third"));
    close_loop(&l);
}

/* The driving thread is told when the time of a work function is over, also if that begins while it
 * waits: this clock stands still. */
static void a_limit_in_time(conf *c)
{
    loop l;
    open_still(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 1));
    start(&l, "limited", "run");
    LOOP_UNTIL(&l, is_inside(&l));
    LOOP_UNTIL(&l, pawl_timeout(l.p) > 0);
    assert_in_range(pawl_timeout(l.p), 1, 20);
    fixture_advance(l.fixture, 20);
    LOOP_UNTIL(&l, fixture_phase(l.fixture, l.p, "run") == PAWL_RUN_FAILED);
    open_gate(&l);
    close_loop(&l);
}

/* What was done is recorded before the run is given back. */
static void a_run_is_held_during_its_work_function(conf *c)
{
    loop l;
    open_loop(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 1));
    start(&l, "slow", "run");
    LOOP_UNTIL(&l, is_inside(&l));
    FIXTURE_CODE(l.fixture, l.p, pawl_hold(l.p, "run", "by hand"), PAWL_OK);
    open_gate(&l);
    TMP_AWAIT(!is_inside(&l));
    LOOP_UNTIL(&l, fixture_phase(l.fixture, l.p, "run") == PAWL_RUN_HELD);
    for (int i = 0; i < 10; i++)
        turn(&l);
    FIXTURE_CODE(l.fixture, l.p, pawl_release(l.p, "run"), PAWL_OK);
    LOOP_UNTIL(&l, is_done(&l, "run"));
    FIXTURE_NOTES(l.fixture, "slow quick");
    close_loop(&l);
}

/* They hear of it at once: the clock stands still, and there is no second look. */
static void a_run_is_cancelled_during_its_work_function(conf *c)
{
    loop l;
    open_still(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 1));
    start(&l, "polite", "run");
    start(&l, "polite", "waits"); /* for the thread */
    LOOP_UNTIL(&l, is_inside(&l));
    for (int i = 0; i < 10; i++)
        turn(&l);
    FIXTURE_CODE(l.fixture, l.p, pawl_cancel(l.p, "waits", "enough"), PAWL_OK);
    FIXTURE_CODE(l.fixture, l.p, pawl_cancel(l.p, "run", "enough"), PAWL_OK);
    LOOP_UNTIL(&l, fixture_phase(l.fixture, l.p, "run") == PAWL_RUN_CANCELLED &&
                       fixture_phase(l.fixture, l.p, "waits") == PAWL_RUN_CANCELLED);
    assert_in_range(atomic_load(fixture_number(l.fixture, ASKED)), 1, 2);
    close_loop(&l);
}

static void at_most_work_threads_work_functions_at_a_time(conf *c)
{
    loop l;
    open_loop(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 4));
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        start(&l, "call", id);
    }
    LOOP_UNTIL(&l, fixture_count(l.fixture, "quick") == RUNS && is_done(&l, "run-5"));
    assert_int_equal(atomic_load(fixture_number(l.fixture, MOST)), 1);
    close_loop(&l);
}

/* Starts a run, and drives until there is nothing to do: it waits for its slot. */
static void wait_in_line(loop *l, const char *id, int64_t deadline_ms)
{
    int64_t did = 1;
    FIXTURE_CODE(l->fixture, l->p,
                 pawl_start(l->p, "narrow", id, "1", PAWL_START(.deadline_ms = deadline_ms)),
                 PAWL_OK);
    while (did > 0)
        FIXTURE_CODE(l->fixture, l->p, pawl_poll(l->p, &did), PAWL_OK);
    FIXTURE_HISTORY(l->fixture, l->p, id, "call:narrow");
}

static int is_cancelled(loop *l, const char *id)
{
    return fixture_phase(l->fixture, l->p, id) == PAWL_RUN_CANCELLED;
}

/* It leaves the line at once, from wherever the cancel comes, and its work is never called; those
 * before and behind it stay. The clock stands still but for the other engine, which this one hears
 * at its next look. */
static void cancelled_while_it_waits_for_a_slot(conf *c)
{
    loop l;
    open_still(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 2));
    pawl *other = fixture_open(l.fixture, NULL);
    start(&l, "narrow", "run");
    LOOP_UNTIL(&l, is_inside(&l));
    wait_in_line(&l, "first", 0);
    wait_in_line(&l, "second", 0);
    wait_in_line(&l, "third", 0);
    FIXTURE_CODE(l.fixture, l.p, pawl_cancel(l.p, "second", "enough"), PAWL_OK);
    LOOP_UNTIL(&l, is_cancelled(&l, "second"));
    FIXTURE_CODE(l.fixture, other, pawl_cancel(other, "third", "enough"), PAWL_OK);
    LOOP_UNTIL(&l, (fixture_advance(l.fixture, 1000), is_cancelled(&l, "third")));
    assert_true(is_inside(&l));
    open_gate(&l);
    LOOP_UNTIL(&l, is_done(&l, "run") && is_done(&l, "first"));
    FIXTURE_NOTES(l.fixture, "slow slow");
    pawl_close(other);
    close_loop(&l);
}

/* It leaves the line when its deadline passes, while no slot is free. */
static void a_deadline_ends_the_wait_for_a_slot(conf *c)
{
    loop l;
    open_still(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 2));
    start(&l, "narrow", "run");
    LOOP_UNTIL(&l, is_inside(&l));
    wait_in_line(&l, "first", 0);
    wait_in_line(&l, "late", 1000);
    wait_in_line(&l, "next", 0);
    assert_in_range(pawl_timeout(l.p), 1, 1000);
    fixture_advance(l.fixture, 1001);
    LOOP_UNTIL(&l, is_cancelled(&l, "late"));
    assert_true(is_inside(&l));
    open_gate(&l);
    LOOP_UNTIL(&l, is_done(&l, "run") && is_done(&l, "first") && is_done(&l, "next"));
    FIXTURE_NOTES(l.fixture, "slow slow slow");
    close_loop(&l);
}

/* It gets its slot, and does not use it; the next one does. */
static void a_deadline_passes_while_a_run_waits_for_a_slot(conf *c)
{
    loop l;
    open_still(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 2));
    start(&l, "narrow", "run");
    LOOP_UNTIL(&l, is_inside(&l));
    wait_in_line(&l, "late", 1000);
    wait_in_line(&l, "next", 0);
    fixture_advance(l.fixture, 1001);
    open_gate(&l);
    LOOP_UNTIL(&l, is_cancelled(&l, "late"));
    LOOP_UNTIL(&l, is_done(&l, "run") && is_done(&l, "next"));
    FIXTURE_NOTES(l.fixture, "slow slow");
    close_loop(&l);
}

static void *open_it_later(void *arg)
{
    loop *l = arg;
    TMP_AWAIT(is_inside(l));
    tmp_pause(tmp_deadline(), "a moment", __FILE__, __LINE__);
    open_gate(l);
    return NULL;
}

/* The time is over while the function is being called: it is waited for, and recorded. */
static void finish_runs_out_of_time(conf *c)
{
    loop l;
    pthread_t opener;
    pawl_code rc;
    open_loop(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 1));
    start(&l, "slow", "run");
    assert_int_equal(pthread_create(&opener, NULL, open_it_later, &l), 0);
    while ((rc = pawl_finish(l.p, "run", 300, NULL)) == PAWL_TIMEOUT)
        continue;
    FIXTURE_CODE(l.fixture, l.p, rc, PAWL_OK);
    assert_int_equal(pthread_join(opener, NULL), 0);
    FIXTURE_NOTES(l.fixture, "slow quick");
    close_loop(&l);
}

/* So it is at the end of the engine. */
static void pawl_close_during_a_work_function(conf *c)
{
    loop l;
    pthread_t opener;
    open_loop(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 1));
    start(&l, "slow", "run");
    LOOP_UNTIL(&l, is_inside(&l));
    assert_int_equal(pthread_create(&opener, NULL, open_it_later, &l), 0);
    pawl_close(l.p);
    assert_int_equal(pthread_join(opener, NULL), 0);
    l.p = fixture_open(l.fixture, PAWL_OPTIONS(.threads = -1, .work_threads = 1));
    register_all(&l);
    LOOP_UNTIL(&l, is_done(&l, "run"));
    FIXTURE_NOTES(l.fixture, "slow quick");
    close_loop(&l);
}

/* The serving thread has begun to leave what was driven by hand; or the step was called again. */
static void *open_it_when_leaving(void *arg)
{
    loop *l = arg;
    TMP_AWAIT(sched_is_leaving(handle_sched(l->p)) || fixture_count(l->fixture, "slow") > 1);
    tmp_pause(tmp_deadline(), "a moment", __FILE__, __LINE__);
    open_gate(l);
    return NULL;
}

/* A program polls first, and serves later: the worker that is in a work function is waited for, and
 * the run that waits for a worker is driven on too. */
static void served_after_a_poll(conf *c)
{
    loop l;
    pthread_t opener, server;
    void *failed;
    open_loop(&l, c, PAWL_OPTIONS(.threads = 2, .work_threads = 1, .drain_ms = 60000));
    start(&l, "slow", "run");
    start(&l, "slow", "waits");
    LOOP_UNTIL(&l, is_inside(&l));
    for (int i = 0; i < 10; i++)
        turn(&l);
    assert_int_equal(pthread_create(&opener, NULL, open_it_when_leaving, &l), 0);
    assert_int_equal(pthread_create(&server, NULL, fixture_serve, l.p), 0);
    assert_int_equal(pthread_join(opener, NULL), 0);
    TMP_AWAIT(is_done(&l, "run") && is_done(&l, "waits"));
    pawl_stop(l.p);
    assert_int_equal(pthread_join(server, &failed), 0);
    assert_null(failed);
    assert_int_equal(fixture_count(l.fixture, "slow"), 2);
    assert_int_equal(fixture_count(l.fixture, "quick"), 2);
    close_loop(&l);
}

static void *drive_on(void *arg)
{
    loop *l = arg;
    l->driver = pthread_self();
    LOOP_UNTIL(l, is_done(l, "run"));
    return NULL;
}

/* The fiber of the run belongs to the thread that has driven so far: it is dropped, the result of
 * its step is not. */
static void another_thread_drives_on(conf *c)
{
    loop l;
    pthread_t other;
    open_loop(&l, c, PAWL_OPTIONS(.threads = -1, .work_threads = 1));
    start(&l, "slow", "run");
    LOOP_UNTIL(&l, is_inside(&l));
    open_gate(&l);
    TMP_AWAIT(!is_inside(&l));
    assert_int_equal(pthread_create(&other, NULL, drive_on, &l), 0);
    assert_int_equal(pthread_join(other, NULL), 0);
    FIXTURE_NOTES(l.fixture, "slow quick");
    close_loop(&l);
}

static const conf_case CASES[] = {
    {"workflows on the caller's thread, work on others",
     workflows_on_the_caller_s_thread_work_on_others, DB_SHARED},
    {"the caller's loop goes on during work", the_caller_s_loop_goes_on_during_work, DB_SHARED},
    {"work functions run beside each other", work_functions_run_beside_each_other, DB_SHARED},
    {"a limit is kept", a_limit_is_kept, DB_SHARED},
    {"a limit in time", a_limit_in_time, DB_SHARED},
    {"a run is held during its work function", a_run_is_held_during_its_work_function, DB_SHARED},
    {"a run is cancelled during its work function", a_run_is_cancelled_during_its_work_function,
     DB_SHARED},
    {"at most work_threads work functions at a time", at_most_work_threads_work_functions_at_a_time,
     DB_SHARED},
    {"cancelled while it waits for a slot", cancelled_while_it_waits_for_a_slot, DB_SHARED},
    {"a deadline passes while a run waits for a slot",
     a_deadline_passes_while_a_run_waits_for_a_slot, DB_SHARED},
    {"a deadline ends the wait for a slot", a_deadline_ends_the_wait_for_a_slot, DB_SHARED},
    {"finish runs out of time", finish_runs_out_of_time, DB_SHARED},
    {"pawl_close during a work function", pawl_close_during_a_work_function, DB_SHARED},
    {"served after a poll", served_after_a_poll, DB_SHARED},
    {"another thread drives on", another_thread_drives_on, DB_SHARED},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
