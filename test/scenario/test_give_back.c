/* Giving runs back: whatever makes a process let go of a run (a hold, the time-out of
 * pawl_finish(), a stop, trouble of its function), what was executed here is recorded first, and
 * what is still being executed is waited for. The side file counts executions: each is one, as no
 * process dies. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support/app.h"
#include "support/served_fixture.h"

/* Numbers of the fixture; LOST: lines of the log about the step that a stop has lost. */
enum { INSIDE, MOST, LET_GO, LET_FIRST_GO, LOST };

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

static void enter(engine_fixture *s)
{
    int64_t inside = atomic_fetch_add(fixture_number(s, INSIDE), 1) + 1;
    int64_t most = number(s, MOST);
    while (inside > most && !atomic_compare_exchange_weak(fixture_number(s, MOST), &most, inside))
        continue;
}

/* Stays in the function until the test lets it go, deaf to everything else. */
static const char *stand(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "%s", pawl_work_name(work));
    enter(s);
    while (!number(s, LET_GO))
        poll(NULL, 0, 1);
    atomic_fetch_sub(fixture_number(s, INSIDE), 1);
    return input;
}

/* The same; it is let go by itself. */
static const char *stand_first(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "%s", pawl_work_name(work));
    while (!number(s, LET_FIRST_GO))
        poll(NULL, 0, 1);
    return input;
}

#define ARG PAWL_CALL(.arg = pawl_arg(run))
#define LATER(name, fn, input) pawl_step_later(run, name, fn, input, ARG)

static const char *three(pawl_run *run, const char *input)
{
    pawl_future *some[] = {LATER("a", stand, "1"), LATER("b", stand, "2"), LATER("c", stand, "3")};
    pawl_all(run, some, 3);
    return input;
}

static void expect_once(engine_fixture *s, const char *names)
{
    for (; *names; names++) {
        char name[] = {*names, '\0'};
        int count = fixture_count(s, name);
        if (count != 1)
            fail_msg("%s was executed %d times", name, count);
    }
}

/* Runs that have nothing to do with it: the node has looked for work meanwhile. */
static const char *nothing(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

static void let_others_go_on(served_fixture *v, const char *prefix)
{
    for (int i = 0; i < 20; i++) {
        char id[32];
        snprintf(id, sizeof id, "%s-%d", prefix, i);
        fixture_start(v->fixture, v->p, "nothing", id, "1");
        FIXTURE_CODE(v->fixture, v->p, pawl_wait(v->p, id, PAWL_FOREVER, NULL), PAWL_OK);
    }
}

/* ---- The time-out of pawl_finish() ---- */

static const char *takes_long(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "%s", pawl_work_name(work));
    fixture_advance(s, 150);
    return input;
}

static const char *three_long(pawl_run *run, const char *input)
{
    pawl_future *some[] = {LATER("a", takes_long, "1"), LATER("b", takes_long, "2"),
                           LATER("c", takes_long, "3")};
    pawl_all(run, some, 3);
    return input;
}

/* Each call executes what it has begun, records it, and begins with nothing else. Nothing of that
 * is left to the handle, which is another one each time. */
static void finish_records_what_has_returned(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, three_long);
    fixture_start(s, p, "three_long", "run", "7");
    int rounds = 0;
    while (pawl_finish(p, "run", 100, NULL) == PAWL_TIMEOUT && ++rounds < 20) {
        pawl_close(p);
        p = fixture_open(s, NULL);
        FIXTURE_REGISTER(s, p, three_long);
    }
    expect_once(s, "abc");
    assert_in_range(rounds, 1, 4);
    FIXTURE_DONE(s, p, "run", "7");
    pawl_close(p);
    fixture_free(s);
}

/* ---- A hold ---- */

static void a_release_waits_for_jobs(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 8));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, three);
    FIXTURE_REGISTER(s, v.p, nothing);
    served_begin(&v);
    fixture_start(s, v.p, "three", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 3);
    FIXTURE_CODE(s, v.p, pawl_hold(v.p, "run", NULL), PAWL_OK);
    let_others_go_on(&v, "held");
    FIXTURE_CODE(s, v.p, pawl_release(v.p, "run"), PAWL_OK);
    let_others_go_on(&v, "released");
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_once(s, "abc");
    assert_int_equal(number(s, MOST), 3);
    FIXTURE_HISTORY(s, v.p, "run", "step-later:a step-later:b step-later:c done done done");
    served_end(&v);
}

/* It stays this node's until then, and has no owner afterwards. */
static void a_hold_waits_for_jobs(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 4));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, three);
    served_begin(&v);
    fixture_start(s, v.p, "three", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 3);
    FIXTURE_CODE(s, v.p, pawl_hold(v.p, "run", NULL), PAWL_OK);
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    served_stop(&v);
    FIXTURE_HISTORY(s, v.p, "run", "step-later:a step-later:b step-later:c done done done");
    FIXTURE_CODE(s, v.p, pawl_release(v.p, "run"), PAWL_OK);
    served_begin(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_once(s, "abc");
    served_end(&v);
}

/* Notes its name and the position in its key. */
static const char *note_position(pawl_work *work, const char *input)
{
    const char *position = strrchr(pawl_work_key(work), '.');
    fixture_note(pawl_work_arg(work), "%s%s-%lld", pawl_work_name(work), position ? position : "",
                 (long long)pawl_work_attempt(work));
    return input;
}

static const char *between(pawl_run *run, const char *input)
{
    pawl_future *f = LATER("a", fixture_echo, input);
    pawl_step(run, "f", stand_first, input, ARG);
    pawl_step(run, "b", note_position, input, ARG);
    return pawl_await(run, f);
}

/* The function has not come to the wait for the later step, but to another step: what has returned
 * is recorded behind a row for that one, whose key and number of attempts stay what they are. */
static void a_hold_between_steps(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 3));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, between);
    served_begin(&v);
    fixture_start(s, v.p, "between", "run", "7");
    TMP_AWAIT(fixture_count(s, "a") == 1 && fixture_count(s, "f") == 1);
    FIXTURE_CODE(s, v.p, pawl_hold(v.p, "run", NULL), PAWL_OK);
    atomic_store(fixture_number(s, LET_FIRST_GO), 1);
    TMP_AWAIT(fixture_phase(s, v.p, "run") == PAWL_RUN_HELD);
    served_stop(&v);
    FIXTURE_HISTORY(s, v.p, "run", "step-later:a step:f step-again:b done");
    FIXTURE_CODE(s, v.p, pawl_release(v.p, "run"), PAWL_OK);
    served_begin(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_once(s, "af");
    assert_int_equal(fixture_count(s, "b.4-1"), 1);
    fixture_start(s, v.p, "between", "other", "7"); /* as it is without a hold */
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(fixture_count(s, "b.4-1"), 2);
    served_end(&v);
}

static const char *in_transaction(pawl_work *work, void *native, const char *input)
{
    (void)native;
    (void)input;
    fixture_note(pawl_work_arg(work), "%s", pawl_work_name(work));
    return "\"given\"";
}

static const char *undo(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "undo-%s",
                 pawl_work_text(work, input, "/result", "without a result"));
    return "null";
}

static const char *undone(pawl_run *run, const char *input)
{
    pawl_future *f = LATER("a", fixture_echo, input);
    pawl_step(run, "f", stand_first, input, ARG);
    pawl_transact(run, "t", in_transaction, input, PAWL_CALL(.arg = pawl_arg(run), .undo = "undo"));
    pawl_await(run, f);
    return pawl_fail(run, "enough", "so that it is undone");
}

/* The same before a transactional step, which has its row only when it is committed: what has
 * returned comes between the row that says how to undo it and its own. */
static void a_hold_before_a_transaction(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 3));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, undone);
    fixture_register_work(s, v.p, "undo", undo);
    served_begin(&v);
    fixture_start(s, v.p, "undone", "run", "7");
    TMP_AWAIT(fixture_count(s, "a") == 1 && fixture_count(s, "f") == 1);
    FIXTURE_CODE(s, v.p, pawl_hold(v.p, "run", NULL), PAWL_OK);
    atomic_store(fixture_number(s, LET_FIRST_GO), 1);
    TMP_AWAIT(fixture_phase(s, v.p, "run") == PAWL_RUN_HELD);
    served_stop(&v);
    FIXTURE_HISTORY(s, v.p, "run", "step-later:a step:f undo-of:undo done");
    FIXTURE_CODE(s, v.p, pawl_release(v.p, "run"), PAWL_OK);
    served_begin(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_FAILED);
    expect_once(s, "aft");
    assert_int_equal(fixture_count(s, "undo-given"), 1);
    served_end(&v);
}

static const char *receiving(pawl_run *run, const char *input)
{
    const char *message;
    pawl_future *f = LATER("a", stand, input);
    for (int i = 0; i < 3; i++)
        pawl_receive(run, "box", PAWL_FOREVER, &message);
    fixture_note(pawl_arg(run), "received");
    return pawl_await(run, f);
}

/* Another engine holds the run, and its owner learns of it by a park. */
static void a_hold_by_another_process(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    engine_fixture *s = v.fixture;
    pawl *other = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, v.p, receiving);
    FIXTURE_REGISTER(s, v.p, nothing);
    served_begin(&v);
    fixture_start(s, v.p, "receiving", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    FIXTURE_CODE(s, other, pawl_hold(other, "run", NULL), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_send(v.p, "run", "box", "1", NULL),
                 PAWL_OK); /* it wakes, and parks */
    let_others_go_on(&v, "held");
    FIXTURE_CODE(s, other, pawl_release(other, "run"), PAWL_OK);
    let_others_go_on(&v, "released");
    atomic_store(fixture_number(s, LET_GO), 1);
    for (int i = 0; i < 2; i++)
        FIXTURE_CODE(s, other, pawl_send(other, "run", "box", "1", NULL), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_once(s, "a");
    pawl_close(other);
    served_end(&v);
}

typedef struct inside {
    engine_fixture *fixture;
    pawl *p;
} inside;

static const char *hold_and_release(pawl_work *work, const char *input)
{
    const inside *in = pawl_work_arg(work);
    FIXTURE_CODE(in->fixture, in->p, pawl_hold(in->p, "run", NULL), PAWL_OK);
    FIXTURE_CODE(in->fixture, in->p, pawl_release(in->p, "run"), PAWL_OK);
    return input;
}

static const char *sleeps_long(pawl_run *run, const char *input)
{
    inside *in = pawl_arg(run);
    const char *message = "null";
    (void)input;
    pawl_step(run, "hold", hold_and_release, "1", PAWL_CALL(.arg = in));
    pawl_receive(run, "box", (int64_t)48 * 3600 * 1000, &message);
    return message;
}

static pawl *open_sleeper(engine_fixture *s, inside *in)
{
    pawl *p = fixture_open(s, NULL);
    *in = (inside){s, p};
    FIXTURE_CODE(s, p,
                 pawl_register_workflow(p, "sleeps_long", sleeps_long, PAWL_WORKFLOW(.arg = in)),
                 PAWL_OK);
    return p;
}

/* It was driven, and a message wakes it, whichever node drives it next. */
static void a_release_in_a_step(conf *c)
{
    inside in;
    engine_fixture *s = fixture_new(c);
    pawl *p = open_sleeper(s, &in);
    fixture_poll(s, p); /* a node from here on: it owns what it starts */
    fixture_start(s, p, "sleeps_long", "run", "null");
    FIXTURE_UNTIL(s, p, fixture_wake_at(s, p, "run") > fixture_now(s) + 3600000);
    pawl_close(p);
    p = open_sleeper(s, &in);
    int64_t began = fixture_now(s);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "8", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "8");
    assert_in_range(fixture_now(s) - began, 0, 60000);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Trouble of the function ---- */

static const char *lacking(pawl_run *run, const char *input)
{
    pawl_future *f = LATER("a", stand, input);
    pawl_step(run, "f", stand_first, input, ARG);
    pawl_call(run, "missing", input, NULL);
    return pawl_await(run, f);
}

static void a_run_that_is_held_for_its_trouble_waits_for_its_jobs(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 3));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, lacking);
    FIXTURE_REGISTER(s, v.p, nothing);
    served_begin(&v);
    fixture_start(s, v.p, "lacking", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1 && fixture_count(s, "f") == 1);
    atomic_store(fixture_number(s, LET_FIRST_GO), 1);
    let_others_go_on(&v, "lacks");
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(fixture_phase(s, v.p, "run") == PAWL_RUN_HELD);
    FIXTURE_HISTORY(s, v.p, "run", "step-later:a step:f done");
    fixture_register_work(s, v.p, "missing", fixture_echo);
    TMP_AWAIT(fixture_phase(s, v.p, "run") == PAWL_RUN_DONE);
    expect_once(s, "af");
    served_end(&v);
}

/* ---- A stop ---- */

static const char *two_more(pawl_run *run, const char *input)
{
    pawl_future *f = LATER("a", fixture_echo, input);
    pawl_step(run, "f", stand_first, input, ARG);
    pawl_step(run, "b", fixture_echo, input, ARG);
    return pawl_await(run, f);
}

/* The later step had returned long before the stop; the function had not come to wait for it. */
static void a_stop_records_what_has_returned(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2, .drain_ms = 60000));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, two_more);
    served_begin(&v);
    fixture_start(s, v.p, "two_more", "run", "7");
    TMP_AWAIT(fixture_count(s, "a") == 1 && fixture_count(s, "f") == 1);
    served_stop_and_set(&v, LET_FIRST_GO);
    assert_int_equal(fixture_count(s, "b"), 0);
    served_begin(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_once(s, "afb");
    served_end(&v);
}

/* A step that does not return in time is left in its function; that does not cost what has returned
 * beside it. */
static void a_stop_that_leaves_something(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2, .threads_max = 2, .drain_ms = 1));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, two_more);
    FIXTURE_REGISTER(s, v.p, nothing);
    served_begin(&v);
    fixture_start(s, v.p, "two_more", "run", "7");
    TMP_AWAIT(fixture_count(s, "a") == 1 && fixture_count(s, "f") == 1);
    let_others_go_on(&v, "beside"); /* on the thread that was in a: that has returned */
    served_stop(&v);
    FIXTURE_HISTORY(s, v.p, "run", "step-later:a step-again:f done");
    atomic_store(fixture_number(s, LET_FIRST_GO), 1);
    served_begin(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_once(s, "ab");
    assert_int_equal(fixture_count(s, "f"), 2);
    served_end(&v);
}

static const char *spinning(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_step(run, "f", fixture_echo, input, ARG);
    pawl_future *child = pawl_child_later(run, "nothing", input, NULL);
    atomic_fetch_add(fixture_number(s, INSIDE), 1);
    while (!number(s, LET_GO))
        poll(NULL, 0, 1);
    pawl_step(run, "b", fixture_echo, input, ARG);
    return pawl_await(run, child);
}

/* The function executes code of its own, for an unknown time, and a child of it is about to be
 * started. The engine stops without it. When it comes back no thread waits for it: it writes
 * nothing, and the run goes on anew. */
static void a_stop_leaves_a_function_that_spins(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2, .drain_ms = 10));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, spinning);
    FIXTURE_REGISTER(s, v.p, nothing);
    served_begin(&v);
    fixture_start(s, v.p, "spinning", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    served_stop(&v);
    assert_int_equal(fixture_phase(s, v.p, "run"), PAWL_RUN_LIVE);
    atomic_store(fixture_number(s, LET_GO), 1);
    served_begin(&v); /* it waits for the thread that was left */
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(fixture_count(s, "b"), 1);
    served_end(&v);
}

static const char *one_step(pawl_run *run, const char *input)
{
    return pawl_step(run, "f", stand_first, input, ARG);
}

static const char *marker(pawl_run *run, const char *input)
{
    fixture_note(pawl_arg(run), "marker");
    return input;
}

static void hear_lost(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    if (strcmp(event, "record-lost") == 0 && strstr(fields, "run=run what=\"step f (op 2)\""))
        atomic_fetch_add(fixture_number(arg, LOST), 1);
}

static app *lock_journal(const conf *c)
{
    app *a = app_open(c);
    app_do(a, c->server ? "BEGIN" : "BEGIN IMMEDIATE");
    if (c->server)
        app_do(a, "LOCK TABLE pawl.journal IN EXCLUSIVE MODE");
    return a;
}

static pawl *open_one_step(engine_fixture *s, int64_t busy_ms)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 1, .threads_max = 1, .drain_ms = 1,
                                           .busy_ms = busy_ms, .log = hear_lost, .log_arg = s));
    FIXTURE_REGISTER(s, p, one_step);
    FIXTURE_REGISTER(s, p, marker);
    return p;
}

/* The database is locked from before the step returns until the stop is over. There is one thread,
 * and when it executes the marker the result of the step is handed in. */
static void what_a_stop_cannot_record_is_told(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    engine_fixture *s = v.fixture;
    fixture_run_clock(s);
    v.p = open_one_step(s, 1000);
    served_begin(&v);
    fixture_start(s, v.p, "one_step", "run", "7");
    TMP_AWAIT(fixture_count(s, "f") == 1);
    fixture_start(s, v.p, "marker", "marker", "7");
    app *a = lock_journal(c);
    atomic_store(fixture_number(s, LET_FIRST_GO), 1);
    TMP_AWAIT(fixture_count(s, "marker") == 1);
    served_stop(&v);
    assert_int_equal(number(s, LOST), 1);
    app_do(a, "ROLLBACK");
    app_close(a);
    pawl_close(v.p);
    v.p = open_one_step(s, 0);
    served_begin(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(fixture_count(s, "f"), 2);
    served_end(&v);
}

static const conf_case CASES[] = {
    {"finish records what has returned", finish_records_what_has_returned, DB_DURABLE},
    {"a release waits for jobs", a_release_waits_for_jobs, 0},
    {"a hold waits for jobs", a_hold_waits_for_jobs, 0},
    {"a hold between steps", a_hold_between_steps, 0},
    {"a hold before a transaction", a_hold_before_a_transaction, 0},
    {"a hold by another process", a_hold_by_another_process, DB_DURABLE},
    {"a release in a step", a_release_in_a_step, DB_DURABLE},
    {"a run that is held for its trouble waits for its jobs",
     a_run_that_is_held_for_its_trouble_waits_for_its_jobs, 0},
    {"a stop records what has returned", a_stop_records_what_has_returned, 0},
    {"a stop that leaves something", a_stop_that_leaves_something, 0},
    {"a stop leaves a function that spins", a_stop_leaves_a_function_that_spins, 0},
    {"what a stop cannot record is told", what_a_stop_cannot_record_is_told, DB_DURABLE},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
