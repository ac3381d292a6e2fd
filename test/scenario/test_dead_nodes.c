/* What killed processes leave behind: many nodes without a takeover so far, and runs that may have
 * been the reason. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>

#include "api/engine_test.h"
#include "handle/handle.h"
#include "rows/node.h"
#include "support/engine_fixture.h"

enum { NODES = 8, PROCESSES = NODE_LIST_ROOM / NODES + 1, SILENCE_MS = 60000 };

/* Numbers of the fixture: 1: the step kills its process, or tells of itself and stands still. */
enum { DEADLY, STANDS };

static const char *dangerous(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "dangerous");
    if (atomic_load(fixture_number(s, DEADLY)))
        raise(SIGKILL);
    if (atomic_load(fixture_number(s, STANDS)))
        fixture_send_and_await(s, 's');
    fixture_advance(s, 6000);
    return input;
}

static const char *flow(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "dangerous", dangerous, input);
    return FIXTURE_ECHO(run, "after", input);
}

static pawl *open_flow(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, flow);
    return p;
}

/* ---- In children ---- */

static void be_nodes(engine_fixture *s, void *arg)
{
    (void)arg;
    for (int i = 0; i < NODES; i++)
        fixture_poll(s, fixture_open(s, NULL));
    fixture_send_and_await(s, 'n');
}

static void drive(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = open_flow(s);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", PAWL_FOREVER, NULL), PAWL_OK);
}

/* ---- Cases ---- */

static void start_one(engine_fixture *s, const char *id)
{
    pawl *p = open_flow(s);
    fixture_start(s, p, "flow", id, "1");
    pawl_close(p);
}

static void live_and_die(engine_fixture *s, fixture_body *body, char tells)
{
    tmp_child child = fixture_fork(s, body, NULL);
    tmp_expect(&child, tells);
    tmp_kill(&child);
    fixture_advance(s, SILENCE_MS);
}

/* More nodes than a node keeps in mind at a time, and the last one had the run. */
static void runs_of_one_dead_node_among_many_are_taken_over(conf *c)
{
    engine_fixture *s = fixture_new(c);
    for (int i = 0; i < PROCESSES; i++)
        live_and_die(s, be_nodes, 'n');
    start_one(s, "run");
    atomic_store(fixture_number(s, STANDS), 1);
    live_and_die(s, drive, 's');
    atomic_store(fixture_number(s, STANDS), 0);
    fixture_run_clock(s);
    pawl *p = open_flow(s);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_NOTES(s, "dangerous dangerous after");
    pawl_close(p);
    fixture_free(s);
}

/* Nothing is left of them in the end, and nothing of a node that closes in good order. */
static void no_rows_of_dead_nodes_are_left(conf *c)
{
    static const db_sql ROWS = {"SELECT count(*) FROM {nodes}", ""};
    static const db_sql CLOSED = {"SELECT count(*) FROM {nodes} WHERE closed <> 0", ""};
    static const db_sql OPEN = {"SELECT count(*) FROM {nodes} WHERE closed = 0 AND slot = 1", ""};
    engine_fixture *s = fixture_new(c);
    for (int i = 0; i < PROCESSES; i++)
        live_and_die(s, be_nodes, 'n');
    pawl *p = open_flow(s);
    db *d = conf_open(c, NULL);
    assert_true(conf_number(d, &OPEN, NULL, 0) > 0);
    FIXTURE_UNTIL(s, p,
                  conf_number(d, &OPEN, NULL, 0) == 1 && conf_number(d, &CLOSED, NULL, 0) == 0);
    pawl_close(p);
    assert_int_equal(conf_number(d, &ROWS, NULL, 0), 0);
    db_close(d);
    fixture_free(s);
}

/* A run under suspicion is let out alone; but if it takes long the others go on, and so does it. */
static void a_quarantined_run_takes_long(conf *c)
{
    engine_fixture *s = fixture_new(c);
    start_one(s, "run");
    atomic_store(fixture_number(s, DEADLY), 1);
    for (int i = 0; i < 3; i++) {
        tmp_child child = fixture_fork(s, drive, NULL);
        assert_true(WIFSIGNALED(tmp_reap(&child)));
        fixture_advance(s, SILENCE_MS);
    }
    atomic_store(fixture_number(s, DEADLY), 0);
    pawl *p = open_flow(s);
    fixture_start(s, p, "flow", "other", "2");
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_DONE(s, p, "other", "2");
    assert_int_equal(fixture_count(s, "dangerous"), 5);
    assert_int_equal(fixture_count(s, "after"), 2);
    pawl_close(p);
    fixture_free(s);
}

/* A database that takes long to commit. */
typedef struct slow {
    db_fault plan;
    clock_fake *clock;
    int64_t commit_ms;
} slow;

static void take_long(void *arg, int64_t number, fault_call call, const char *sql)
{
    const slow *w = arg;
    (void)number;
    (void)sql;
    if (call == FAULT_CALL_COMMIT && w->commit_ms)
        clock_fake_advance(w->clock, w->commit_ms);
}

static db *wrap(void *arg, db *inner)
{
    return db_fault_wrap(inner, &((slow *)arg)->plan);
}

static const char *harmless(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

static const char *two_steps(pawl_run *run, const char *input)
{
    pawl_step(run, "one", harmless, input, NULL);
    return pawl_step(run, "two", harmless, input, NULL);
}

/* It comes back from its commit only when no thread waits for it any more. */
static void the_commit_of_a_quarantined_run_takes_long(conf *c)
{
    static const db_sql QUARANTINED = {"UPDATE {runs} SET claims = 4 WHERE id = 'run'", ""};
    slow w = {.clock = clock_fake_new(1000000)};
    w.plan.before = take_long;
    w.plan.before_arg = &w;
    engine_test test = {.arg = &w, .wrap = wrap, .clock = clock_fake_source(w.clock)};
    pawl *p = NULL;
    pawl_options *o = PAWL_OPTIONS(.threads = -1);
    assert_int_equal(engine_test_open(&p, c->url, o, &test), PAWL_OK);
    assert_int_equal(pawl_register_workflow(p, "two_steps", two_steps, NULL), PAWL_OK);
    assert_int_equal(pawl_start(p, "two_steps", "run", "1", NULL), PAWL_OK);
    assert_int_equal(pawl_start(p, "two_steps", "other", "1", NULL), PAWL_OK);
    db *d = conf_open(c, NULL);
    conf_do(d, &QUARANTINED, NULL, 0);
    db_close(d);
    w.commit_ms = 6000;
    for (int i = 0; i < 100; i++)
        assert_int_equal(pawl_poll(p, NULL), PAWL_OK);
    assert_int_equal(pawl_wait(p, "run", 0, NULL), PAWL_OK);
    assert_int_equal(pawl_wait(p, "other", 0, NULL), PAWL_OK);
    pawl_close(p);
    clock_fake_free(w.clock);
}

/* ---- Sleepers ---- */

enum { REST_MS = 300 };

static const char *sleeper(pawl_run *run, const char *input)
{
    pawl_sleep(run, SILENCE_MS + REST_MS);
    return input;
}

static void fall_asleep(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, sleeper);
    fixture_start(s, p, "sleeper", "run", "1");
    FIXTURE_UNTIL(s, p, fixture_wake_at(s, p, "run") > fixture_now(s));
    fixture_send_and_await(s, 'a');
}

/* The run sleeps when its process is killed. The next process has it in no list yet, and is called
 * at the moment at which the run is due: not with its next look, a second later. */
static void a_sleeping_run_of_a_dead_node_wakes_in_time(conf *c)
{
    engine_fixture *s = fixture_new(c);
    live_and_die(s, fall_asleep, 'a');
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, sleeper);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    assert_in_range(pawl_timeout(p), 1, REST_MS);
    fixture_advance(s, REST_MS);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_DONE);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Shut out ---- */

static int tell_nothing(const pawl_info *info, void *arg)
{
    (void)arg;
    (void)info;
    return 0;
}

/* What a closed node asks for in the name of clients is refused, and the answer says why: it is not
 * that of a run which must not be changed. The next poll makes another node. */
static void a_closed_node_says_so(conf *c)
{
    static const db_sql CLOSE = {"UPDATE {nodes} SET closed = 1", ""};
    int64_t position = 0;
    engine_fixture *s = fixture_new(c);
    pawl *p = open_flow(s);
    fixture_start(s, p, "flow", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_CODE(s, p, pawl_start(p, "unknown", "held", "1", NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_hold(p, "held", NULL), PAWL_OK);
    fixture_poll(s, p); /* threads that still look would notice that the node is closed */
    db *d = conf_open(c, NULL);
    conf_do(d, &CLOSE, NULL, 0);
    db_close(d);
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_FENCED);
    FIXTURE_CODE(s, p, pawl_delete(p, "held", 1), PAWL_FENCED);
    FIXTURE_CODE(s, p, pawl_redrive(p, "held", NULL), PAWL_FENCED);
    FIXTURE_CODE(s, p, pawl_release(p, "held"), PAWL_FENCED);
    FIXTURE_CODE(s, p, pawl_cancel(p, "held", NULL), PAWL_FENCED);
    FIXTURE_CODE(s, p, pawl_send(p, "held", "box", "1", NULL), PAWL_FENCED);
    FIXTURE_CODE(s, p, pawl_start(p, "flow", "new", "1", NULL), PAWL_FENCED);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, tell_nothing, NULL, &position), PAWL_FENCED);
    pawl_close(p);
    fixture_free(s);
}

/* A node that another one has closed hears of it when a claim is refused, and does not try again
 * without end. */
static const char *is_claimed(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

static void a_closed_node_stops_claiming(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL), *other = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, is_claimed);
    fixture_poll(s, p);
    fixture_start(s, other, "is_claimed", "run", "1");
    conf_script(handle_db(other), "UPDATE {nodes} SET closed = 1");
    pawl_code rc = PAWL_OK;
    for (int i = 0; i < 10 && rc == PAWL_OK; i++) {
        fixture_advance(s, 1000);
        rc = pawl_poll(p, NULL);
    }
    assert_int_equal(rc, PAWL_FENCED);
    FIXTURE_DONE(s, p, "run", "1"); /* as the next node */
    pawl_close(other);
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"runs of one dead node among many are taken over",
     runs_of_one_dead_node_among_many_are_taken_over, DB_SHARED},
    {"no rows of dead nodes are left", no_rows_of_dead_nodes_are_left, DB_SHARED},
    {"a closed node says so", a_closed_node_says_so, DB_SHARED},
    {"a quarantined run takes long", a_quarantined_run_takes_long, DB_SHARED},
    {"a sleeping run of a dead node wakes in time", a_sleeping_run_of_a_dead_node_wakes_in_time,
     DB_SHARED},
    {"the commit of a quarantined run takes long", the_commit_of_a_quarantined_run_takes_long,
     DB_FILE},
    {"a closed node stops claiming", a_closed_node_stops_claiming, DB_SHARED},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
