/* Quarantine: a run under suspicion waits, and no other run does. Processes live here with threads.
 * The time of the fixture goes by, and a little faster while something is awaited. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "sched/quarantine.h"
#include "support/engine_fixture.h"

enum {
    RUNS = 24,
    CLAIM_MS = 100000,
    BACK_OFF_MS = 5000, /* so long quarantined runs wait, for their turn and for each other */
};

/* Numbers of the fixture: 1: steps that hang end; a process has threads for one run only; and how
 * often the log has told of a quarantine, and of its end. */
enum { LET_GO, ONE_THREAD, TOLD, TOLD_ENDED };

/* Await a condition while time goes by. Processes that live send their heartbeats meanwhile: a
 * third of a claim takes seconds of the system's time. */
#define AWAIT(s, condition) TMP_AWAIT((fixture_advance((s), 3), (condition)))

/* ---- Workflows ---- */

static const char *hang(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "hang");
    fixture_note(s, "hang %s", input);
    while (!atomic_load(fixture_number(s, LET_GO)))
        poll(NULL, 0, 1);
    return input;
}

static const char *hanging(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "hang", hang, input);
}

static const char *plain(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

/* It is asked once an hour, and nothing of that is recorded. */
static const char *ask(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "ask");
    return atomic_load(fixture_number(s, LET_GO)) ? input : "null";
}

static const char *asking(pawl_run *run, const char *input)
{
    return pawl_until(run, "ask", ask, input, PAWL_HOURS(1), PAWL_FOREVER);
}

static void register_all(engine_fixture *s, pawl *p)
{
    FIXTURE_REGISTER(s, p, hanging);
    FIXTURE_REGISTER(s, p, plain);
    FIXTURE_REGISTER(s, p, asking);
    fixture_register_work(s, p, "ask", ask);
}

/* ---- Processes ---- */

/* In a child, which drives until it is killed. */
static void serve(engine_fixture *s, void *arg)
{
    int64_t most = atomic_load(fixture_number(s, ONE_THREAD)) ? 1 : 2 * RUNS;
    (void)arg;
    pawl *p =
        fixture_open(s, PAWL_OPTIONS(.threads = 1, .threads_max = most, .claim_ms = CLAIM_MS));
    register_all(s, p);
    pawl_serve(p);
}

static void start_some(engine_fixture *s, pawl *p, const char *workflow, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "%s-%d", workflow, i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(s, p, workflow, id, input);
    }
}

/* As if processes had died of all runs that are there. */
static void quarantine_all(conf *c, int64_t claims)
{
    static const db_sql QUARANTINE = {
        "UPDATE {runs} SET claims = $1, claimed_seq ="
        " (SELECT coalesce(max(j.seq), 0) FROM {journal} j WHERE j.run = {runs}.run)",
        "i"};
    const db_value value = db_int(claims);
    db *d = conf_open(c, NULL);
    conf_do(d, &QUARANTINE, &value, 1);
    db_close(d);
}

static int64_t with_claims(conf *c, int64_t claims)
{
    static const db_sql COUNT = {"SELECT count(*) FROM {runs} WHERE claims = $1", "i"};
    const db_value value = db_int(claims);
    db *d = conf_open(c, NULL);
    int64_t count = conf_number(d, &COUNT, &value, 1);
    db_close(d);
    return count;
}

static int64_t last_beat(conf *c)
{
    static const db_sql LAST = {"SELECT coalesce(max(at), 0) FROM {beats}", ""};
    db *d = conf_open(c, NULL);
    int64_t at = conf_number(d, &LAST, NULL, 0);
    db_close(d);
    return at;
}

/* One process was killed, and another one lives: the time of a claim passes, and never so much at a
 * time that the other one seems to be silent too. On a file the kernel says which process lives. */
static void let_its_claims_end(conf *c, engine_fixture *s)
{
    for (int i = 0; i < 5 && !(c->promises & DB_FILE); i++) {
        int64_t before = last_beat(c);
        fixture_advance(s, CLAIM_MS / 4);
        TMP_AWAIT(last_beat(c) > before);
    }
}

/* Of how many hanging runs pawl_why() says this. */
static int told(engine_fixture *s, int runs, const char *text)
{
    int count = 0;
    pawl *p = fixture_open(s, NULL);
    for (int i = 0; i < runs; i++) {
        char id[32], *why = NULL;
        snprintf(id, sizeof id, "hanging-%d", i);
        FIXTURE_CODE(s, p, pawl_why(p, id, &why), PAWL_OK);
        count += strstr(why, text) != NULL;
        pawl_free(why);
    }
    pawl_close(p);
    return count;
}

/* A run is started and done, whatever else there is. */
static void others_go_on(engine_fixture *s, const char *id)
{
    pawl *p = fixture_open(s, NULL);
    fixture_start(s, p, "plain", id, "1");
    AWAIT(s, fixture_phase(s, p, id) == PAWL_RUN_DONE);
    pawl_close(p);
}

static void all_end(engine_fixture *s, const char *workflow, int count)
{
    atomic_store(fixture_number(s, LET_GO), 1);
    pawl *p = fixture_open(s, NULL);
    for (int i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof id, "%s-%d", workflow, i);
        AWAIT(s, fixture_phase(s, p, id) == PAWL_RUN_DONE);
    }
    pawl_close(p);
}

/* ---- Cases ---- */

/* One of two processes dies, and the other one takes over all that was being executed there, at
 * once and side by side; what is new does not wait for it. Nor does it when that has happened
 * twice. */
static void a_takeover_stops_no_run(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = fixture_open(s, NULL);
    start_some(s, p, "hanging", RUNS);
    pawl_close(p);
    tmp_child first = fixture_fork(s, serve, NULL);
    AWAIT(s, fixture_count(s, "hang") == RUNS);
    for (int i = 2; i < 4; i++) {
        tmp_child next = fixture_fork(s, serve, NULL);
        others_go_on(s, i == 2 ? "before" : "again");
        tmp_kill(&first);
        let_its_claims_end(c, s);
        AWAIT(s,
              fixture_count(s, "hang") == i * RUNS); /* one by one takes longer than its patience */
        others_go_on(s, i == 2 ? "fresh" : "freshest");
        first = next;
    }
    all_end(s, "hanging", RUNS);
    tmp_kill(&first);
    fixture_free(s);
}

/* Runs that have killed three processes are let out one at a time, each when the one before was
 * watched for long enough. Nothing else waits for them. */
static void quarantined_runs_wait_for_each_other_only(conf *c)
{
    enum { SOME = 3 };
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = fixture_open(s, NULL);
    start_some(s, p, "hanging", SOME);
    pawl_close(p);
    quarantine_all(c, QUARANTINE_ALONE_FROM);
    int64_t began_ms = fixture_now(s);
    tmp_child child = fixture_fork(s, serve, NULL);
    for (int i = 0; i <= SOME; i++) {
        char id[32];
        snprintf(id, sizeof id, "others-%d", i);
        AWAIT(s, fixture_count(s, "hang") >= i);
        others_go_on(s, id);
        int64_t out = fixture_count(s, "hang");
        assert_true(fixture_now(s) - began_ms >= out * BACK_OFF_MS);
    }
    all_end(s, "hanging", SOME);
    tmp_kill(&child);
    fixture_free(s);
}

/* An engine that is driven by hand, and alone, does so too. */
static void quarantine_by_hand(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    atomic_store(fixture_number(s, LET_GO), 1);
    start_some(s, p, "hanging", 2);
    fixture_start(s, p, "hanging", "finished", "9");
    quarantine_all(c, QUARANTINE_ALONE_FROM);
    register_all(s, p);
    FIXTURE_CODE(s, p, pawl_finish(p, "finished", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_NOTES(s, "hang hang 9");
    fixture_start(s, p, "plain", "other", "1");
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "other"), PAWL_RUN_DONE);
    assert_int_equal(fixture_count(s, "hang"), 1);
    char *why = NULL;
    FIXTURE_CODE(s, p, pawl_why(p, "hanging-0", &why), PAWL_OK);
    assert_non_null(strstr(why, "It is in quarantine, because processes died"));
    pawl_free(why);
    FIXTURE_DONE(s, p, "hanging-1", "1");
    FIXTURE_DONE(s, p, "hanging-0", "0");
    pawl_close(p);
    fixture_free(s);
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    if (strcmp(event, "quarantined") == 0 && strstr(fields, "run=asking-0"))
        atomic_fetch_add(fixture_number(arg, TOLD), 1);
    if (strcmp(event, "quarantine-ended") == 0 && strstr(fields, "run=asking-0"))
        atomic_fetch_add(fixture_number(arg, TOLD_ENDED), 1);
}

/* However often it is let out alone, the log tells of it once, and once when that is over. */
static void a_quarantine_is_logged_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    register_all(s, p);
    start_some(s, p, "asking", 1);
    FIXTURE_UNTIL(s, p, fixture_count(s, "ask") == 1);
    pawl_close(p);
    quarantine_all(c, QUARANTINE_ALONE_FROM);
    p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .log = hear, .log_arg = s));
    register_all(s, p);
    fixture_advance(s, 3600000);
    for (int i = 2; i <= 4; i++) {
        FIXTURE_UNTIL(s, p, fixture_count(s, "ask") >= i);
        fixture_advance(s, 3600000);
    }
    assert_int_equal(atomic_load(fixture_number(s, TOLD)), 1);
    assert_int_equal(atomic_load(fixture_number(s, TOLD_ENDED)), 0);
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "asking-0") == PAWL_RUN_DONE);
    assert_int_equal(atomic_load(fixture_number(s, TOLD)), 1);
    assert_int_equal(atomic_load(fixture_number(s, TOLD_ENDED)), 1);
    pawl_close(p);
    fixture_free(s);
}

/* A quarantined run that lives while others wait for their turn is not counted when one of these
 * kills the process; the one that is out is. */
static void a_run_that_had_its_time_alone_is_not_counted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = fixture_open(s, NULL);
    start_some(s, p, "hanging", 2);
    pawl_close(p);
    quarantine_all(c, QUARANTINE_ALONE_FROM);
    tmp_child child = fixture_fork(s, serve, NULL);
    AWAIT(s, fixture_count(s, "hang") == 2);
    tmp_kill(&child);
    fixture_advance(s, CLAIM_MS + 1000);
    int is_marked = !(c->promises & DB_FILE); /* otherwise the node that takes over counts it */
    if (!is_marked)
        child = fixture_fork(s, serve, NULL);
    AWAIT(s, with_claims(c, QUARANTINE_ALONE_FROM + 1) == 1);
    assert_int_equal(with_claims(c, QUARANTINE_ALONE_FROM), 1);
    if (is_marked)
        child = fixture_fork(s, serve, NULL);
    all_end(s, "hanging", 2);
    tmp_kill(&child);
    fixture_free(s);
}

/* Where nothing else tells what is being executed the row of a run does, from its third claim on;
 * and only what is being executed has a mark. */
static void what_is_executed_is_marked(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    int is_marked = !(c->promises & DB_FILE);
    atomic_store(fixture_number(s, ONE_THREAD), 1);
    pawl *p = fixture_open(s, NULL);
    start_some(s, p, "hanging", 4);
    pawl_close(p);
    quarantine_all(c, QUARANTINE_MARK_FROM);
    tmp_child child = fixture_fork(s, serve, NULL);
    AWAIT(s, fixture_count(s, "hang") == 1);
    assert_int_equal(with_claims(c, QUARANTINE_MARK_FROM), is_marked ? 3 : 4);
    assert_int_equal(with_claims(c, QUARANTINE_MARK_FROM + 1), is_marked ? 1 : 0);
    assert_int_equal(told(s, 4, "It is being executed."), is_marked ? 1 : 0);
    assert_int_equal(told(s, 4, "quarantine"), 0);
    tmp_kill(&child);
    fixture_advance(s, CLAIM_MS + 1000);
    child = fixture_fork(s, serve, NULL);
    AWAIT(s, fixture_count(s, "hang") == 2);
    assert_int_equal(with_claims(c, QUARANTINE_MARK_FROM + 1), is_marked ? 2 : 1);
    AWAIT(s, told(s, 4, "It is in quarantine") == 1);
    assert_int_equal(told(s, 4, "It is being executed."), is_marked ? 1 : 0);
    all_end(s, "hanging", 4);
    tmp_kill(&child);
    fixture_free(s);
}

/* A run that has come to rest is not being executed, though it got no further. */
static void a_run_between_two_polls_is_not_marked(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    start_some(s, p, "asking", 1);
    register_all(s, p);
    FIXTURE_UNTIL(s, p, fixture_count(s, "ask") == 1);
    pawl_close(p);
    quarantine_all(c, QUARANTINE_MARK_FROM);
    p = fixture_open(s, NULL);
    register_all(s, p);
    for (int i = 2; i <= 4; i++) {
        fixture_advance(s, PAWL_HOURS(1));
        FIXTURE_UNTIL(s, p, fixture_count(s, "ask") == i);
        fixture_poll(s, p);
        fixture_poll(s, p);
        assert_int_equal(with_claims(c, QUARANTINE_MARK_FROM), 1);
    }
    atomic_store(fixture_number(s, LET_GO), 1); /* before it is asked the next time */
    fixture_advance(s, PAWL_HOURS(1));
    FIXTURE_DONE(s, p, "asking-0", "0");
    pawl_close(p);
    fixture_free(s);
}

/* A process that stops in good order leaves no marks, also of steps that have not returned. */
static void an_orderly_end_leaves_no_marks(conf *c)
{
    pthread_t thread;
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 1, .drain_ms = 1));
    start_some(s, p, "hanging", 1);
    quarantine_all(c, QUARANTINE_MARK_FROM);
    register_all(s, p);
    fixture_run_clock(s);
    assert_int_equal(pthread_create(&thread, NULL, fixture_serve, p), 0);
    AWAIT(s, fixture_count(s, "hang") == 1);
    pawl_stop(p);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(with_claims(c, QUARANTINE_MARK_FROM), 1);
    atomic_store(fixture_number(s, LET_GO), 1);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-poison a takeover stops no run", a_takeover_stops_no_run, DB_SHARED},
        {"dx-poison quarantined runs wait for each other only",
         quarantined_runs_wait_for_each_other_only, DB_SHARED},
        {"a quarantine is logged once", a_quarantine_is_logged_once, DB_SHARED},
        {"quarantine by hand", quarantine_by_hand, DB_SHARED},
        {"a run that had its time alone is not counted",
         a_run_that_had_its_time_alone_is_not_counted, DB_SHARED},
        {"what is executed is marked", what_is_executed_is_marked, DB_SHARED},
        {"a run between two polls is not marked", a_run_between_two_polls_is_not_marked, DB_SHARED},
        {"an orderly end leaves no marks", an_orderly_end_leaves_no_marks, DB_SHARED},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
