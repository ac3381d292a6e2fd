/* Threads: steps that stand still do not hold up others, attempts run out of time, and nothing is
 * executed twice however many threads there are. The test holds the steps, and lets them go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/served_fixture.h"

/* What the numbers of the fixture are for. */
enum { INSIDE, MOST, LET_GO, LATE, LAPS };

/* An engine that serves on its threads. */
static served_fixture serve(conf *c, int64_t threads, int64_t threads_max)
{
    return served_open(c, PAWL_OPTIONS(.threads = threads, .threads_max = threads_max));
}

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

/* In no thread of the test's own: nothing but the watchdog ends this. */
static void await_let_go(engine_fixture *s)
{
    while (!number(s, LET_GO)) {
        poll(NULL, 0, 1);
        atomic_fetch_add(fixture_number(s, LAPS), 1);
    }
}

static const char *standing(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    int64_t inside = atomic_fetch_add(fixture_number(s, INSIDE), 1) + 1;
    int64_t most = number(s, MOST);
    while (inside > most && !atomic_compare_exchange_weak(fixture_number(s, MOST), &most, inside))
        continue;
    await_let_go(s);
    atomic_fetch_sub(fixture_number(s, INSIDE), 1);
    return input;
}

static const char *blocked(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "stand", standing, input);
}

/* Compilers believe that it is the same thread behind a call as before it, and keep the addresses
 * of errno and of thread-locals. This one is asked each time. */
static pthread_t (*const volatile who)(void) = pthread_self;

static const char *timed(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pthread_t home = who();
    pawl_step(run, "before", fixture_echo, input, PAWL_CALL(.arg = s));
    fixture_note(s, "body");
    pawl_sleep(run, PAWL_HOURS(1));
    if (!pthread_equal(home, who()))
        fixture_note(s, "moved");
    return pawl_step(run, "after", fixture_echo, input, PAWL_CALL(.arg = s));
}

static void start_many(engine_fixture *s, pawl *p, const char *workflow, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof id, "%s-%d", workflow, i);
        fixture_start(s, p, workflow, id, "1");
    }
}

static void finish_many(engine_fixture *s, pawl *p, const char *workflow, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof id, "%s-%d", workflow, i);
        FIXTURE_CODE(s, p, pawl_wait(p, id, PAWL_FOREVER, NULL), PAWL_OK);
    }
}

/* ---- Standing still ---- */

/* Two threads, 32 steps that stand still, and a run that sleeps on one of those threads: it
 * wakes and ends while they stand. Its fiber could not move: it was replayed. */
static void a_step_that_stands_still_holds_up_no_other(conf *c)
{
    enum { BLOCKED = 32 };
    served_fixture v = serve(c, 2, 0);
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, blocked);
    FIXTURE_REGISTER(s, v.p, timed);
    served_begin(&v);
    fixture_start(s, v.p, "timed", "run", "7");
    TMP_AWAIT(fixture_wake_at(s, v.p, "run") > fixture_now(s));
    start_many(s, v.p, "blocked", BLOCKED);
    TMP_AWAIT(number(s, INSIDE) == BLOCKED);
    fixture_advance(s, PAWL_HOURS(1));
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(number(s, INSIDE), BLOCKED);
    assert_true(fixture_count(s, "body") >= 1); /* again for each thread that had it */
    assert_int_equal(fixture_count(s, "before"), 1);
    assert_int_equal(fixture_count(s, "after"), 1);
    assert_int_equal(fixture_count(s, "moved"), 0);
    atomic_store(fixture_number(s, LET_GO), 1);
    finish_many(s, v.p, "blocked", BLOCKED);
    served_end(&v);
}

/* No more threads than were allowed; the rest waits for its turn. */
static void there_is_a_limit_of_threads(conf *c)
{
    enum { BLOCKED = 12, LIMIT = 3 };
    served_fixture v = serve(c, 1, LIMIT);
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, blocked);
    served_begin(&v);
    start_many(s, v.p, "blocked", BLOCKED);
    TMP_AWAIT(number(s, INSIDE) == LIMIT);
    fixture_advance(s, 3000);
    TMP_AWAIT(number(s, LAPS) > 100 * LIMIT); /* time enough for another one to come */
    atomic_store(fixture_number(s, LET_GO), 1);
    finish_many(s, v.p, "blocked", BLOCKED);
    assert_int_equal(number(s, MOST), LIMIT);
    served_end(&v);
}

/* There is no room for more than so many, whatever was asked for. */
static void more_threads_than_there_can_be(conf *c)
{
    enum { BLOCKED = 70, LIMIT = 64 };
    served_fixture v = serve(c, 1, 1000);
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, blocked);
    served_begin(&v);
    start_many(s, v.p, "blocked", BLOCKED);
    TMP_AWAIT(number(s, INSIDE) == LIMIT);
    int64_t until = fixture_now(s) + 200; /* in which there would be more */
    TMP_AWAIT(fixture_now(s) >= until);
    atomic_store(fixture_number(s, LET_GO), 1);
    finish_many(s, v.p, "blocked", BLOCKED);
    assert_int_equal(number(s, MOST), LIMIT);
    served_end(&v);
}

/* ---- A limit of its own ---- */

static const char *at_limit(pawl_run *run, const char *input)
{
    return pawl_call(run, "stand", input, NULL);
}

/* The limit of an attempt: so long that the clock gets there only when the test moves it. */
enum { LIMIT_MS = 3600000 };

static const char *hurried(pawl_run *run, const char *input)
{
    return pawl_call(run, "stand", input, PAWL_CALL(.attempt_ms = LIMIT_MS, .attempts = 1));
}

static void register_crowd(served_fixture *v, int64_t at_most)
{
    fixture_register_limited(v->fixture, v->p, "stand", standing, at_most);
    FIXTURE_REGISTER(v->fixture, v->p, at_limit);
    FIXTURE_REGISTER(v->fixture, v->p, hurried);
    FIXTURE_REGISTER(v->fixture, v->p, timed);
}

static int count_calls(const pawl_event *e, void *arg)
{
    *(int *)arg += strcmp(pawl_event_kind(e), "call") == 0;
    return 0;
}

/* It has recorded its call: it is in it, or waits for a place. */
static int is_in_line(engine_fixture *s, pawl *p, const char *id)
{
    int calls = 0;
    FIXTURE_CODE(s, p, pawl_history(p, id, 0, 0, count_calls, &calls), PAWL_OK);
    return calls;
}

/* As many as may be are in it, and never more; the others take no thread, and get their turn. */
static void no_more_calls_than_at_most(conf *c)
{
    enum { RUNS = 12, AT_MOST = 2 };
    served_fixture v = serve(c, 2, 4);
    engine_fixture *s = v.fixture;
    register_crowd(&v, AT_MOST);
    served_begin(&v);
    start_many(s, v.p, "at_limit", RUNS);
    TMP_AWAIT(number(s, INSIDE) == AT_MOST);
    fixture_start(s, v.p, "timed", "run", "7"); /* there is a thread for this */
    TMP_AWAIT(fixture_wake_at(s, v.p, "run") > fixture_now(s));
    fixture_advance(s, PAWL_HOURS(1));
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(number(s, INSIDE), AT_MOST);
    atomic_store(fixture_number(s, LET_GO), 1);
    finish_many(s, v.p, "at_limit", RUNS);
    assert_int_equal(number(s, MOST), AT_MOST);
    served_end(&v);
}

/* It waits for a slot, or is about to: its work is not called, and its thread is free. */
static void cancelled_while_it_waits_for_a_slot(conf *c)
{
    served_fixture v = serve(c, 2, 4);
    engine_fixture *s = v.fixture;
    register_crowd(&v, 1);
    served_begin(&v);
    fixture_start(s, v.p, "at_limit", "one", "1");
    TMP_AWAIT(number(s, INSIDE) == 1);
    fixture_start(s, v.p, "at_limit", "two", "1");
    TMP_AWAIT(is_in_line(s, v.p, "two"));
    FIXTURE_CODE(s, v.p, pawl_cancel(v.p, "two", "enough"), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "two", PAWL_FOREVER, NULL), PAWL_CANCELLED);
    assert_int_equal(number(s, INSIDE), 1);
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "one", PAWL_FOREVER, NULL), PAWL_OK);
    served_end(&v);
}

/* More than can be kept warm: they are dropped while they wait, and replayed. */
static void many_runs_wait_for_a_slot(conf *c)
{
    enum { RUNS = 40 };
    served_fixture v = {.fixture = fixture_new(c)};
    engine_fixture *s = v.fixture;
    fixture_run_clock(s);
    v.p = fixture_open(s, PAWL_OPTIONS(.threads = 2, .warm_bytes = 1));
    register_crowd(&v, 1);
    served_begin(&v);
    start_many(s, v.p, "at_limit", RUNS);
    TMP_AWAIT(number(s, INSIDE) == 1);
    atomic_store(fixture_number(s, LET_GO), 1);
    finish_many(s, v.p, "at_limit", RUNS);
    assert_int_equal(number(s, MOST), 1);
    served_end(&v);
}

/* A run that is held while it waits does not take the slot that was reserved for it: then the next
 * one does. */
static void a_free_slot_goes_to_the_next_run(conf *c)
{
    served_fixture v = serve(c, 1, 0);
    engine_fixture *s = v.fixture;
    register_crowd(&v, 1);
    served_begin(&v);
    for (int i = 0; i < 3; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, v.p, "at_limit", id, "1");
        TMP_AWAIT(is_in_line(s, v.p, id));
        TMP_AWAIT(number(s, INSIDE) == 1);
    }
    FIXTURE_CODE(s, v.p, pawl_hold(v.p, "run-1", NULL), PAWL_OK);
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run-0", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run-2", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_release(v.p, "run-1"), PAWL_OK);
    TMP_AWAIT(pawl_wait(v.p, "run-1", 1000, NULL) == PAWL_OK);
    assert_int_equal(number(s, MOST), 1);
    served_end(&v);
}

/* A function whose time is over is still in it. */
static void a_late_function_keeps_its_slot(conf *c)
{
    served_fixture v = serve(c, 1, 0);
    engine_fixture *s = v.fixture;
    register_crowd(&v, 1);
    served_begin(&v);
    fixture_start(s, v.p, "hurried", "late", "1");
    TMP_AWAIT(number(s, INSIDE) == 1);
    fixture_advance(s, LIMIT_MS);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "late", PAWL_FOREVER, NULL), PAWL_FAILED);
    assert_int_equal(number(s, INSIDE), 1);
    fixture_start(s, v.p, "at_limit", "next", "1");
    TMP_AWAIT(is_in_line(s, v.p, "next"));
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "next", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(number(s, MOST), 1);
    served_end(&v);
}

/* ---- Attempts that run out of time ---- */

/* The first attempt stands still, until it is let go; the others come back. */
static const char *slow_once(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    if (pawl_work_attempt(work) == 1) {
        atomic_fetch_add(fixture_number(s, INSIDE), 1);
        while (!pawl_work_cancelled(work))
            poll(NULL, 0, 1);
        fixture_note(s, "cancelled");
        await_let_go(s);
        /* Whatever it gives now is dropped. */
        pawl_work_fail(work, PAWL_PERMANENT, "late", "%s", pawl_work_run_id(work));
        atomic_fetch_add(fixture_number(s, LATE), 1);
        return input;
    }
    while (fixture_count(s, "cancelled") == 0) /* that one may not have noticed yet */
        poll(NULL, 0, 1);
    fixture_note(s, "again");
    return pawl_work_json(work, "%" PRId64, pawl_work_attempt(work));
}

static const char *impatient(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    const char *n = pawl_step(run, "slow", slow_once, input,
                              PAWL_CALL(.arg = s, .attempt_ms = LIMIT_MS, .backoff_ms = 10));
    pawl_step(run, "next", fixture_echo, n, PAWL_CALL(.arg = s));
    return n;
}

/* The run goes on beside the function whose time is over, ends, and is not disturbed by it. */
static void a_late_return_is_dropped(conf *c)
{
    served_fixture v = serve(c, 1, 0);
    engine_fixture *s = v.fixture;
    pawl_outcome *o = NULL;
    FIXTURE_REGISTER(s, v.p, impatient);
    served_begin(&v);
    fixture_start(s, v.p, "impatient", "run", "1");
    TMP_AWAIT(number(s, INSIDE) == 1);
    fixture_advance(s, LIMIT_MS);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, &o), PAWL_OK);
    assert_string_equal(pawl_outcome_value(o), "2");
    assert_int_equal(number(s, LATE), 0);
    FIXTURE_HISTORY(s, v.p, "run", "step-again:slow done step:next");
    FIXTURE_NOTES(s, "cancelled again next");
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, LATE) == 1);
    FIXTURE_HISTORY(s, v.p, "run", "step-again:slow done step:next");
    pawl_outcome_free(o);
    served_end(&v);
}

static const char *stands_for_ever(pawl_run *run, const char *input)
{
    return pawl_step(run, "stand", standing, input, PAWL_CALL(.arg = pawl_arg(run), .attempts = 1));
}

/* A run that is cancelled does not wait for a function that does not listen. */
static void a_cancel_does_not_wait_for_ever(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    engine_fixture *s = v.fixture;
    pawl_outcome *o = NULL;
    fixture_run_clock(s);
    v.p = fixture_open(s, PAWL_OPTIONS(.threads = 1, .drain_ms = 50));
    FIXTURE_REGISTER(s, v.p, stands_for_ever);
    served_begin(&v);
    fixture_start(s, v.p, "stands_for_ever", "run", "1");
    TMP_AWAIT(number(s, INSIDE) == 1);
    FIXTURE_CODE(s, v.p, pawl_cancel(v.p, "run", "enough"), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, &o), PAWL_CANCELLED);
    assert_string_equal(pawl_outcome_message(o), "enough");
    assert_int_equal(number(s, INSIDE), 1);
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    pawl_outcome_free(o);
    served_end(&v);
}

static const char *given_up(pawl_run *run, const char *input)
{
    return pawl_step(run, "stand", standing, input,
                     PAWL_CALL(.arg = pawl_arg(run), .attempt_ms = LIMIT_MS, .attempts = 1));
}

/* No thread waits for the function of a run that has failed by it. */
static void a_last_attempt_is_given_up(conf *c)
{
    served_fixture v = serve(c, 1, 0);
    engine_fixture *s = v.fixture;
    pawl_outcome *o = NULL;
    FIXTURE_REGISTER(s, v.p, given_up);
    served_begin(&v);
    fixture_start(s, v.p, "given_up", "run", "1");
    TMP_AWAIT(number(s, INSIDE) == 1);
    fixture_advance(s, LIMIT_MS);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, &o), PAWL_FAILED);
    assert_string_equal(pawl_outcome_name(o), "timeout");
    assert_string_equal(pawl_outcome_where(o), "stand");
    assert_int_equal(number(s, INSIDE), 1);
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    FIXTURE_HISTORY(s, v.p, "run", "step-failed:stand");
    pawl_outcome_free(o);
    served_end(&v);
}

/* Its time is over before it would count as slow, and there is no other thread: the run waits for
 * its own, and is gone on with there. */
static const char *just_too_slow(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_advance(s, 1);
    poll(NULL, 0, 20); /* so that it is noticed before it returns */
    return input;
}

static const char *very_impatient(pawl_run *run, const char *input)
{
    return pawl_step(
        run, "slow", just_too_slow, input,
        PAWL_CALL(.arg = pawl_arg(run), .attempt_ms = 1, .attempts = 10, .backoff_ms = 1));
}

static void an_attempt_runs_out_of_time_on_the_only_thread(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)}; /* its clock stands still */
    engine_fixture *s = v.fixture;
    pawl_outcome *o = NULL;
    v.p = fixture_open(s, PAWL_OPTIONS(.threads = 1, .threads_max = 1));
    FIXTURE_REGISTER(s, v.p, very_impatient);
    served_begin(&v);
    fixture_start(s, v.p, "very_impatient", "run", "1");
    TMP_AWAIT((fixture_advance(s, 1), pawl_wait(v.p, "run", 0, NULL) != PAWL_TIMEOUT));
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", 0, &o), PAWL_FAILED);
    assert_string_equal(pawl_outcome_name(o), "timeout");
    pawl_outcome_free(o);
    served_end(&v);
}

/* ---- Many, and one ---- */

static const char *adding(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "%s-%s", pawl_work_name(work), pawl_work_run_id(work));
    return pawl_work_json(work, "%" PRId64, pawl_get_int(input, "", 0) + 1);
}

static const char *flaky(pawl_work *work, const char *input)
{
    if (pawl_work_attempt(work) < 3)
        return pawl_work_fail(work, PAWL_TRANSIENT, "flaky", "again");
    return input;
}

static const char *everything(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    const char *sum = pawl_step(run, "a", adding, input, PAWL_CALL(.arg = s));
    int64_t now = pawl_now(run);
    pawl_sleep(run, 20);
    sum = pawl_step(run, "b", adding, sum, PAWL_CALL(.arg = s));
    pawl_step(run, "flaky", flaky, sum, PAWL_CALL(.backoff_ms = 5));
    pawl_uuid(run);
    pawl_sleep(run, 0);
    if (pawl_now(run) < now + 20)
        return pawl_fail(run, "early", "it did not sleep");
    return pawl_step(run, "c", adding, sum, PAWL_CALL(.arg = s));
}

static void each_once(conf *c, int64_t threads, int64_t threads_max, int runs)
{
    served_fixture v = serve(c, threads, threads_max);
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, everything);
    served_begin(&v);
    start_many(s, v.p, "everything", runs);
    finish_many(s, v.p, "everything", runs);
    for (int i = 0; i < runs; i++) {
        for (char step = 'a'; step <= 'c'; step++) {
            char name[48];
            snprintf(name, sizeof name, "%c-everything-%d", step, i);
            assert_int_equal(fixture_count(s, name), 1);
        }
    }
    served_end(&v);
}

static void one_thread_does_everything(conf *c)
{
    each_once(c, 1, 1, 10);
}

static void many_threads_do_each_thing_once(conf *c)
{
    each_once(c, 8, 8, 60);
}

/* ---- Clients beside them ---- */

typedef struct starter {
    pawl *p;
    pthread_t thread;
    int64_t created;
    pawl_code rc;
} starter;

enum { STARTS = 10 };

static void *start_all(void *arg)
{
    starter *t = arg;
    for (int i = 0; t->rc == PAWL_OK && i < STARTS; i++) {
        char id[32];
        int64_t created = 0;
        snprintf(id, sizeof id, "run-%d", i);
        t->rc = pawl_start(t->p, "everything", id, "1", PAWL_START(.created = &created));
        t->created += created;
        if (t->rc == PAWL_OK)
            t->rc = pawl_wait(t->p, id, PAWL_FOREVER, NULL);
    }
    return NULL;
}

/* Many threads start the same runs: each is made by one of them, and all of them see its end. */
static void many_start_the_same(conf *c)
{
    enum { STARTERS = 6 };
    starter starters[STARTERS];
    int64_t created = 0;
    served_fixture v = serve(c, 2, 0);
    FIXTURE_REGISTER(v.fixture, v.p, everything);
    served_begin(&v);
    for (int i = 0; i < STARTERS; i++) {
        starters[i] = (starter){.p = v.p};
        assert_int_equal(pthread_create(&starters[i].thread, NULL, start_all, &starters[i]), 0);
    }
    for (int i = 0; i < STARTERS; i++) {
        assert_int_equal(pthread_join(starters[i].thread, NULL), 0);
        assert_int_equal(starters[i].rc, PAWL_OK);
        created += starters[i].created;
    }
    assert_int_equal(created, STARTS);
    served_end(&v);
}

/* ---- Stopping ---- */

/* A step that is under way when the engine is asked to stop hears of it, ends, and is recorded. */
static void a_step_under_way_is_not_lost(conf *c)
{
    served_fixture v = serve(c, 2, 0);
    engine_fixture *s = v.fixture;
    void *failed;
    FIXTURE_REGISTER(s, v.p, blocked);
    served_begin(&v);
    fixture_start(s, v.p, "blocked", "run", "5");
    TMP_AWAIT(number(s, INSIDE) == 1);
    pawl_stop(v.p);
    atomic_store(fixture_number(s, LET_GO), 1);
    assert_int_equal(pthread_join(v.thread, &failed), 0);
    assert_null(failed);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", 0, NULL), PAWL_OK);
    FIXTURE_HISTORY(s, v.p, "run", "step:stand");
    served_begin(&v); /* and it can begin again */
    fixture_start(s, v.p, "blocked", "other", "6");
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    served_end(&v);
}

static const conf_case CASES[] = {
    {"dx-reliability a step that stands still holds up no other",
     a_step_that_stands_still_holds_up_no_other, 0},
    {"there is a limit of threads", there_is_a_limit_of_threads, 0},
    {"more threads than there can be", more_threads_than_there_can_be, DB_DURABLE},
    {"no more calls than at_most", no_more_calls_than_at_most, 0},
    {"cancelled while it waits for a slot", cancelled_while_it_waits_for_a_slot, 0},
    {"many runs wait for a slot", many_runs_wait_for_a_slot, 0},
    {"a free slot goes to the next run", a_free_slot_goes_to_the_next_run, 0},
    {"a late function keeps its slot", a_late_function_keeps_its_slot, 0},
    {"dx-retry a late return is dropped", a_late_return_is_dropped, 0},
    {"dx-retry a last attempt is given up", a_last_attempt_is_given_up, 0},
    {"dx-Y10 a cancel does not wait for ever", a_cancel_does_not_wait_for_ever, 0},
    {"dx-retry an attempt runs out of time on the only thread",
     an_attempt_runs_out_of_time_on_the_only_thread, 0},
    {"dx-single-thread one thread does everything", one_thread_does_everything, 0},
    {"dx-concurrency many threads do each thing once", many_threads_do_each_thing_once, 0},
    {"dx-concurrency many start the same", many_start_the_same, 0},
    {"a step under way is not lost", a_step_under_way_is_not_lost, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
