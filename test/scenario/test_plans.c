/* What there is beside does not cost: whatever a run does, no statement walks through the rows of
 * the others. SQLite itself counts the steps of its machine; so this does not depend on how fast
 * the processor is, and it is the statement that is named, not the workflow that became slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "handle/handle.h"
#include "sched/sched_internal.h"
#include "support/app.h"
#include "support/engine_fixture.h"

enum { OTHERS = 3000, STEPS_MAX = OTHERS };

/* ---- The counter: one for each connection that is opened from here on ---- */

typedef struct count {
    sqlite3_int64 statements;
    sqlite3_int64 keys;     /* statements that read the key of a run by its id (api/send.c) */
    sqlite3_int64 outcomes; /* statements that read how a run has ended (api/wait.c) */
    sqlite3_int64 steps;    /* of the worst */
    char text[600];
} count;

static count counted; /* SQLite has no place for an argument of ours */

static int note(unsigned what, void *arg, void *statement, void *ns)
{
    (void)what, (void)arg, (void)ns;
    int steps = sqlite3_stmt_status(statement, SQLITE_STMTSTATUS_VM_STEP, 1);
    counted.statements++;
    counted.keys += strncmp(sqlite3_sql(statement), "SELECT run FROM", 15) == 0 &&
                    strstr(sqlite3_sql(statement), "AND id =");
    counted.outcomes += strncmp(sqlite3_sql(statement), "SELECT phase, held, output", 26) == 0;
    if (steps > counted.steps) {
        counted.steps = steps;
        snprintf(counted.text, sizeof counted.text, "%s", sqlite3_sql(statement));
    }
    return 0;
}

static int trace_statements(sqlite3 *opened, const char **message,
                            const struct sqlite3_api_routines *api)
{
    (void)message, (void)api;
    return sqlite3_trace_v2(opened, SQLITE_TRACE_PROFILE, note, NULL);
}

static void expect_few(const char *after)
{
    assert_true(counted.statements > 0);
    if (counted.steps > STEPS_MAX)
        fail_msg("%s: %lld steps in: %s", after, (long long)counted.steps, counted.text);
    counted = (count){0};
}

/* ---- The others: of each kind many ---- */

/* Live with a timer, of a node that lives; done; failed; held; waiting for a deadline. */
static const char FILL[] =
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
    " INSERT INTO {runs} (run, tenant, id, workflow, version, phase, owner, wake_at, held,"
    " held_reason, parent, parent_generation, parent_op, created_at, updated_at, finished_at,"
    " deadline_at)"
    " SELECT 1000000 + i, '', 'other-' || i, 'other', '1', CASE i % 5 WHEN 1 THEN 2 WHEN 2 THEN 3"
    " ELSE 1 END, 0, CASE i % 5 WHEN 0 THEN 9000000000000000 END, CASE i % 5 WHEN 3 THEN 4 ELSE 0"
    " END, CASE i % 5 WHEN 3 THEN 'by hand' END, CASE i % 7 WHEN 0 THEN 1000001 END, 1, 1, 0, 0,"
    " CASE i % 5 WHEN 1 THEN 1 WHEN 2 THEN 1 END, CASE i % 5 WHEN 4 THEN 9000000000000000 END"
    " FROM n;"
    "INSERT INTO {journal} (run, generation, seq, kind, name, at)"
    " SELECT run, 1, 1, 1, '', 0 FROM {runs} WHERE run > 1000000;"
    "INSERT INTO {inbox} (run, seq, kind, name, at, data)"
    " SELECT run, 1, 1, 'box', 0, '1' FROM {runs} WHERE run > 1000000;"
    "INSERT INTO {inbox} (run, seq, kind, name, at, data)"
    " SELECT run, 2, 3, '', 0, '1' FROM {runs} WHERE run > 1000000;"
    "INSERT INTO {receipts} (run, key, kind, seq, at)"
    " SELECT run, 'key', 1, 1, 0 FROM {runs} WHERE run > 1000000;"
    "INSERT INTO {outbox} (tenant, kind, target, name, at, failed, failed_why)"
    " SELECT '', 2, 'gone', 'box', 0, 1, 'the run has ended' FROM {runs} WHERE run > 1000000;"
    "INSERT INTO {attributes} (run, name, kind, value)"
    " SELECT run, 'colour', 1, 'red' FROM {runs} WHERE run > 1000000;"
    "INSERT INTO {state} (run, key, generation, at, data)"
    " SELECT run, 'key', 1, 0, '1' FROM {runs} WHERE run > 1000000;"
    "INSERT INTO {generations} (run, generation, version, started_at)"
    " SELECT run, 1, '1', 0 FROM {runs} WHERE run > 1000000;"
    "INSERT INTO {changes} (run, at)"
    " SELECT run, 0 FROM {runs} WHERE run > 1000000;";

/* ---- What a run may do ---- */

static const char *child(pawl_run *run, const char *input)
{
    pawl_sleep(run, 10);
    return input;
}

static const char *fails(pawl_work *work, const char *input)
{
    (void)input;
    return pawl_work_fail(work, PAWL_PERMANENT, "broken", "no way");
}

#define ARG PAWL_CALL(.arg = pawl_arg(run))

static const char *busy(pawl_run *run, const char *input)
{
    const char *message;
    pawl_step(run, "one", fixture_echo, "1", ARG);
    pawl_call(run, "work", "2", PAWL_CALL(.undo = "work"));
    pawl_undo(run, "work", "3");
    pawl_finally(run, "work", "4");
    pawl_set_status(run, "\"busy\"");
    pawl_attr(run, "colour", "\"blue\"");
    pawl_state_set(run, "key", "1");
    pawl_state_of(run, "other-7", "key");
    pawl_receive(run, "box", 1000, &message);
    pawl_receive(run, "empty", 10, &message);
    pawl_tell(run, "other-5", "box", "1");
    pawl_future *two[] = {pawl_child_later(run, "child", "1", NULL),
                          pawl_child_later(run, "child", "2", PAWL_CHILD(.detached = 1))};
    pawl_all(run, two, 2);
    pawl_child_later(run, "child", "3", NULL); /* cancelled with its parent */
    pawl_sleep(run, 10);
    if (strcmp(input, "\"again\"") == 0)
        return pawl_continue_as_new(run, "\"fails\"", NULL);
    if (strcmp(input, "\"fails\"") == 0)
        pawl_step(run, "two", fails, "1", ARG);
    return input;
}

static pawl *open_here(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, busy);
    FIXTURE_REGISTER(s, p, child);
    fixture_register_work(s, p, "work", fixture_echo);
    return p;
}

static void tell(engine_fixture *s, pawl *p, const char *id)
{
    FIXTURE_CODE(s, p, pawl_send(p, id, "box", "1", PAWL_SEND(.key = "key")), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, id, "box", "1", PAWL_SEND(.key = "key")), PAWL_OK);
}

/* ---- Each with all the others beside it ---- */

static void ends(engine_fixture *s, pawl *p)
{
    fixture_start(s, p, "busy", "good", "1");
    fixture_poll(s, p);
    tell(s, p, "good");
    FIXTURE_DONE(s, p, "good", "1");
    expect_few("a good run");
    fixture_start(s, p, "busy", "bad", "\"again\"");
    fixture_poll(s, p);
    tell(s, p, "bad");
    FIXTURE_FAILED(s, p, "bad", "broken", "no way");
    expect_few("a run that begins anew, and fails");
    FIXTURE_CODE(s, p, pawl_redrive(p, "bad", NULL), PAWL_OK);
    FIXTURE_FAILED(s, p, "bad", "broken", "no way");
    expect_few("a redrive");
    FIXTURE_CODE(s, p, pawl_delete(p, "good", 0), PAWL_OK);
    expect_few("a delete");
}

static void stops(engine_fixture *s, pawl *p)
{
    char *why = NULL;
    fixture_start(s, p, "busy", "stopped", "1");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_wait(p, "stopped", 0, NULL), PAWL_TIMEOUT);
    FIXTURE_CODE(s, p, pawl_cancel(p, "stopped", "enough"), PAWL_OK);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "stopped") == PAWL_RUN_CANCELLED);
    expect_few("a cancel");
    fixture_start(s, p, "busy", "held", "1");
    FIXTURE_CODE(s, p, pawl_hold(p, "held", "a look"), PAWL_OK);
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_why(p, "held", &why), PAWL_OK);
    pawl_free(why);
    FIXTURE_CODE(s, p, pawl_release(p, "held"), PAWL_OK);
    FIXTURE_DONE(s, p, "held", "1");
    expect_few("a hold");
}

static int see(const pawl_info *info, void *arg)
{
    (void)info;
    *(int *)arg += 1;
    return 0;
}

static void carries(conf *c, engine_fixture *s, pawl *p)
{
    int seen = 0;
    int64_t position = 0;
    app *a = app_open(c);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, see, &seen, &position), PAWL_TIMEOUT);
    app_do(a, "BEGIN");
    FIXTURE_CODE(s, p, pawl_start_in(p, app_native(a), "busy", "carried", "1", NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send_in(p, app_native(a), "carried", "box", "1", NULL), PAWL_OK);
    app_do(a, "COMMIT");
    FIXTURE_CODE(s, p, pawl_outbox_flush(p), PAWL_OK);
    FIXTURE_DONE(s, p, "carried", "1");
    FIXTURE_CODE(s, p, pawl_changes(p, 0, see, &seen, &position), PAWL_OK);
    assert_true(seen > 0);
    expect_few("what others have written, and the feed that tells it");
    app_close(a);
}

/* It begins, takes over, sweeps, and is idle for a while. */
static pawl *comes_and_goes(engine_fixture *s, pawl *p)
{
    fixture_start(s, p, "busy", "next", "1");
    fixture_poll(s, p);
    pawl_close(p);
    p = open_here(s);
    FIXTURE_DONE(s, p, "next", "1");
    for (int i = 0; i < 100; i++) {
        fixture_advance(s, 1000);
        fixture_poll(s, p);
    }
    expect_few("a new node");
    return p;
}

static void no_statement_reads_rows_of_other_runs(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    conf_script(handle_db(p), FILL);
    counted = (count){0};
    ends(s, p);
    stops(s, p);
    carries(c, s, p);
    p = comes_and_goes(s, p);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Waits ---- */

static const char *at_once(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

typedef struct waiter {
    pawl *p;
    const char *id;
} waiter;

static void *wait_for_run(void *arg)
{
    const waiter *w = arg;
    pawl_outcome *end = NULL;
    pawl_code rc = pawl_wait(w->p, w->id, 5000, &end);
    int good = rc == PAWL_OK && strcmp(pawl_outcome_value(end), "\"value\"") == 0;
    pawl_outcome_free(end);
    return good ? NULL : arg;
}

/* The thread that waits has asked whether it will be told. */
static int has_asked(sched *s)
{
    int64_t left = 0;
    sched_lock(s);
    for (int i = 0; i < SCHED_STARTED_KEYS; i++)
        left |= s->started_keys[i];
    sched_unlock(s);
    return left == 0;
}

/* Starts a run, waits for it in another thread, and drives it. Gives how many rows were read for
 * its end. */
static int64_t reads_of_an_end(engine_fixture *s, waiter *w)
{
    pthread_t thread;
    void *bad;
    fixture_start(s, w->p, "at_once", w->id, "\"value\"");
    counted = (count){0};
    assert_int_equal(pthread_create(&thread, NULL, wait_for_run, w), 0);
    while (!has_asked(handle_sched(w->p)))
        poll(NULL, 0, 1);
    fixture_poll(s, w->p);
    pthread_join(thread, &bad);
    assert_null(bad);
    return counted.outcomes;
}

/* A run that is started and ends in this process is not read by the call that waits for it. The
 * clock of the test stands still, and a wait looks again after some milliseconds of the real one:
 * so on a busy machine a row may be read meanwhile, but not in each of many tries. */
static void an_end_here_is_not_read(conf *c)
{
    enum { TRIES = 50 };
    FIXTURE_BY_HAND();
    char id[32];
    engine_fixture *s = fixture_new(c);
    waiter w = {fixture_open(s, NULL), id};
    FIXTURE_REGISTER(s, w.p, at_once);
    fixture_poll(s, w.p);
    int64_t reads = 1;
    for (int i = 0; i < TRIES && reads > 0; i++) {
        snprintf(id, sizeof id, "run-%d", i);
        reads = reads_of_an_end(s, &w);
    }
    assert_int_equal(reads, 0);
    assert_null(wait_for_run(&w)); /* it has ended before */
    assert_int_equal(counted.outcomes, 1);
    pawl_close(w.p);
    fixture_free(s);
}

static const char *receiving(pawl_run *run, const char *input)
{
    const char *message = NULL;
    return pawl_receive(run, "box", PAWL_FOREVER, &message) == PAWL_OK ? message : input;
}

/* A message to a run that is in memory needs no read before it is written. */
static void the_key_of_a_run_in_memory_is_not_read(conf *c)
{
    FIXTURE_BY_HAND(); /* a thread that serves may not have dropped the run that has ended */
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, receiving);
    fixture_start(s, p, "receiving", "before", "1"); /* the engine is no node yet */
    fixture_poll(s, p);
    fixture_start(s, p, "receiving", "run", "1");
    fixture_poll(s, p);
    counted = (count){0};
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "2", NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "before", "box", "2", NULL), PAWL_OK);
    assert_int_equal(counted.keys, FIXTURE_WARM ? 0 : counted.keys);
    FIXTURE_DONE(s, p, "run", "2");
    FIXTURE_DONE(s, p, "before", "2");
    counted = (count){0};
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "2", NULL), PAWL_ENDED);
    assert_int_equal(counted.keys, 1);
    pawl_close(p);
    fixture_free(s);
}

/* The counter itself: a statement that does walk is seen. */
static void a_statement_that_reads_all_rows_is_noticed(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    conf_script(handle_db(p), FILL);
    counted = (count){0};
    conf_script(handle_db(p), "UPDATE {runs} SET by = '' WHERE by = 'nobody';");
    assert_true(counted.steps > STEPS_MAX);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"no statement reads rows of other runs", no_statement_reads_rows_of_other_runs, 0},
        {"a statement that reads all rows is noticed", a_statement_that_reads_all_rows_is_noticed,
         0},
        {"an end here is not read", an_end_here_is_not_read, 0},
        {"the key of a run in memory is not read", the_key_of_a_run_in_memory_is_not_read, 0},
    };
    sqlite3_auto_extension((void (*)(void))trace_statements);
    return conf_run_on("sqlite", CASES, CONF_COUNT(CASES));
}
