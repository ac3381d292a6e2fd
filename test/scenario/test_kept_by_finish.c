/* pawl_finish() on a database that refuses a record, or fails: what the step gave is kept beyond
 * the end of the call, and recorded by the next call that drives. The step is executed once as long
 * as the process has the handle open. Executions are lines of the side file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "handle/handle.h"
#include "sched/sched.h"
#include "support/served_fixture.h"

enum { LOST, KEPT, BROKEN };
static const int64_t HOUR_MS = 3600000;

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    if (strcmp(event, "record-lost") == 0 && strstr(fields, "no charges on sunday"))
        atomic_fetch_add(fixture_number(arg, LOST), 1);
    if (strcmp(event, "record-lost") == 0 || strcmp(event, "stop-left") == 0)
        atomic_fetch_add(fixture_number(arg, LOST), 1);
    if (strcmp(event, "record-kept") == 0)
        atomic_fetch_add(fixture_number(arg, KEPT), 1);
}

/* ---- A database that refuses ---- */

static void fail_charges(conf *c, const char *state)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
             " IF NEW.name = 'charge' THEN RAISE EXCEPTION 'no charges on sunday'"
             " USING ERRCODE = '%s'; END IF; RETURN NEW; END $$;"
             " CREATE TRIGGER refuse BEFORE INSERT ON pawl.journal"
             " FOR EACH ROW EXECUTE FUNCTION public.refuse()",
             state);
    conf_change(c,
                "CREATE TRIGGER refuse BEFORE INSERT ON pawl_journal WHEN NEW.name = 'charge'"
                " BEGIN SELECT RAISE(ABORT, 'no charges on sunday'); END",
                sql);
}

static void refuse_charges(conf *c)
{
    fail_charges(c, "P0001");
}

static void allow_charges(conf *c)
{
    conf_change(c, "DROP TRIGGER refuse", "DROP TRIGGER refuse ON pawl.journal");
}

/* ---- The runs ---- */

static const char *charges(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "before", input);
    FIXTURE_ECHO(run, "charge", input);
    return FIXTURE_ECHO(run, "after", input);
}

static const char *harmless(pawl_run *run, const char *input)
{
    return FIXTURE_ECHO(run, "step", input);
}

static const char *has_a_child(pawl_run *run, const char *input)
{
    return pawl_child(run, "charges", input, PAWL_CHILD(.id = "child"));
}

static pawl *open_engine(engine_fixture *s, int64_t threads)
{
    pawl *p = fixture_open(
        s, PAWL_OPTIONS(.threads = threads, .drain_ms = HOUR_MS, .log = hear, .log_arg = s));
    FIXTURE_REGISTER(s, p, charges);
    FIXTURE_REGISTER(s, p, harmless);
    FIXTURE_REGISTER(s, p, has_a_child);
    return p;
}

static served_fixture open_served(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    fixture_run_clock(v.fixture);
    v.p = open_engine(v.fixture, 2);
    return v;
}

static void close_both(served_fixture *v)
{
    pawl_close(v->p);
    fixture_free(v->fixture);
}

static pawl_code finish(served_fixture *v, const char *id, int64_t ms)
{
    return pawl_finish(v->p, id, ms, NULL);
}

/* The run is held, and its step was executed once. */
static served_fixture begin(conf *c)
{
    served_fixture v = open_served(c);
    refuse_charges(c);
    fixture_start(v.fixture, v.p, "charges", "run", "1");
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "run", PAWL_FOREVER), PAWL_HELD);
    FIXTURE_NOTES(v.fixture, "before charge");
    return v;
}

static void release(served_fixture *v, conf *c)
{
    allow_charges(c);
    FIXTURE_CODE(v->fixture, v->p, pawl_release(v->p, "run"), PAWL_OK);
}

static void expect_once(served_fixture *v)
{
    FIXTURE_HISTORY(v->fixture, v->p, "run", "step:before step:charge step:after");
    FIXTURE_NOTES(v->fixture, "before charge after");
    assert_int_equal(number(v->fixture, LOST), 0);
}

static void expect_why(served_fixture *v, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(v->fixture, v->p, pawl_why(v->p, "run", &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
    pawl_free(why);
}

/* ---- Which call records ---- */

static void the_next_finish_records(conf *c)
{
    served_fixture v = begin(c);
    expect_why(&v, "the result of step charge (op 3) is in the memory of node");
    expect_why(&v, "the result of step charge (op 3) is not recorded: PAWL_DATA: ");
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "run", PAWL_FOREVER), PAWL_HELD);
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "run", 0), PAWL_HELD);
    release(&v, c);
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "run", PAWL_FOREVER), PAWL_OK);
    expect_once(&v);
    close_both(&v);
}

static void a_poll_records(conf *c)
{
    served_fixture v = begin(c);
    FIXTURE_CODE(v.fixture, v.p, pawl_poll(v.p, NULL), PAWL_OK);
    assert_int_equal(fixture_phase(v.fixture, v.p, "run"), PAWL_RUN_HELD);
    release(&v, c);
    TMP_AWAIT((pawl_poll(v.p, NULL), pawl_wait(v.p, "run", 0, NULL)) == PAWL_OK);
    expect_once(&v);
    close_both(&v);
}

static void workers_record(conf *c)
{
    served_fixture v = begin(c);
    served_begin(&v);
    fixture_start(v.fixture, v.p, "harmless", "other", "1");
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    fixture_clear_notes(v.fixture);
    fixture_note(v.fixture, "before");
    fixture_note(v.fixture, "charge");
    release(&v, c);
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_once(&v);
    served_end(&v);
}

/* It is released before the engine serves: the record is tried by the workers. */
static void workers_record_what_was_released_before(conf *c)
{
    served_fixture v = begin(c);
    release(&v, c);
    served_begin(&v);
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_once(&v);
    served_end(&v);
}

/* ---- Failures that pass, and time-outs ---- */

typedef struct faulty {
    served_fixture v;
    db_fault plan;
} faulty;

static void break_journal(void *arg, int64_t number_of_call, fault_call call, const char *sql)
{
    faulty *f = arg;
    (void)call;
    if (number(f->v.fixture, BROKEN) && strstr(sql, "INSERT INTO {") &&
        fixture_count(f->v.fixture, "before"))
        f->plan.fail_call = number_of_call;
}

/* What fails is the record of the first step, and each probe. By hand, so that no other thread
 * commits: a finish without time does not wait for one. */
static void open_faulty_with(faulty *f, conf *c, pawl_code code, int64_t threads)
{
    *f = (faulty){.v = {.fixture = fixture_new(c)}};
    f->plan = (db_fault){.before = break_journal, .before_arg = f, .fail_code = code};
    f->v.p = fixture_open_fault(
        f->v.fixture,
        PAWL_OPTIONS(.threads = threads, .drain_ms = HOUR_MS, .log = hear, .log_arg = f->v.fixture),
        &f->plan);
    FIXTURE_REGISTER(f->v.fixture, f->v.p, charges);
    fixture_start(f->v.fixture, f->v.p, "charges", "run", "1");
    atomic_store(fixture_number(f->v.fixture, BROKEN), 1);
}

static void open_faulty(faulty *f, conf *c, pawl_code code)
{
    open_faulty_with(f, c, code, -1);
}

/* The clock stands still, so that no back-off ends. */
static void a_finish_that_runs_out_of_time(conf *c)
{
    faulty f;
    open_faulty(&f, c, PAWL_FULL);
    TMP_AWAIT(finish(&f.v, "run", 0) == PAWL_TIMEOUT && number(f.v.fixture, KEPT) > 0);
    for (int i = 0; i < 3; i++)
        FIXTURE_CODE(f.v.fixture, f.v.p, finish(&f.v, "run", 0), PAWL_TIMEOUT);
    FIXTURE_NOTES(f.v.fixture, "before");
    expect_why(&f.v, "the result of step before (op 2) is not recorded: PAWL_FULL: ");
    assert_int_equal(number(f.v.fixture, KEPT), 1); /* told once */
    atomic_store(fixture_number(f.v.fixture, BROKEN), 0);
    FIXTURE_CODE(f.v.fixture, f.v.p, finish(&f.v, "run", HOUR_MS), PAWL_OK);
    expect_once(&f.v);
    close_both(&f.v);
}

/* The drain of a finish ends when its time is over: now right before a try, now right after one. */
static void a_finish_whose_last_try_has_failed(conf *c)
{
    enum { ROUNDS = 12 };
    faulty f;
    open_faulty(&f, c, PAWL_FULL);
    fixture_run_clock(f.v.fixture);
    for (int i = 0; i < ROUNDS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(f.v.fixture, f.v.p, "charges", id, "1");
        fixture_clear_notes(f.v.fixture);
        atomic_store(fixture_number(f.v.fixture, BROKEN), 1);
        TMP_AWAIT(finish(&f.v, id, 0) == PAWL_TIMEOUT && fixture_count(f.v.fixture, "before"));
        atomic_store(fixture_number(f.v.fixture, BROKEN), 0);
        FIXTURE_CODE(f.v.fixture, f.v.p, finish(&f.v, id, 10000), PAWL_OK);
    }
    close_both(&f.v);
}

/* The unit has no answer yet when the call ends: the database is locked for longer. */
static void leave_on_its_way(faulty *f, conf *c)
{
    open_faulty_with(f, c, PAWL_BUSY, 2);
    fixture_run_clock(f->v.fixture);
    TMP_AWAIT(finish(&f->v, "run", 50) == PAWL_TIMEOUT && fixture_count(f->v.fixture, "before"));
}

static void a_unit_that_is_on_its_way(conf *c)
{
    faulty f;
    leave_on_its_way(&f, c);
    atomic_store(fixture_number(f.v.fixture, BROKEN), 0);
    FIXTURE_CODE(f.v.fixture, f.v.p, finish(&f.v, "run", PAWL_FOREVER), PAWL_OK);
    expect_once(&f.v);
    close_both(&f.v);
}

/* The database is still locked when the workers begin, so that the unit is given up. */
static void workers_record_what_is_on_its_way(conf *c)
{
    faulty f;
    leave_on_its_way(&f, c);
    served_begin(&f.v);
    TMP_AWAIT(sched_is_leaving(handle_sched(f.v.p)));  /* what was driven by hand is drained … */
    TMP_AWAIT(!sched_is_leaving(handle_sched(f.v.p))); /* … and taken over */
    atomic_store(fixture_number(f.v.fixture, BROKEN), 0);
    FIXTURE_CODE(f.v.fixture, f.v.p, pawl_wait(f.v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_once(&f.v);
    served_end(&f.v);
}

/* The tries are counted over several calls, and the run is held at last. */
static void a_failure_of_an_unknown_kind(conf *c)
{
    served_fixture v = open_served(c);
    pawl_code rc = PAWL_TIMEOUT;
    fail_charges(c, "Z0001");
    fixture_start(v.fixture, v.p, "charges", "run", "1");
    TMP_AWAIT((rc = finish(&v, "run", 100)) != PAWL_TIMEOUT);
    FIXTURE_CODE(v.fixture, v.p, rc, PAWL_HELD);
    release(&v, c);
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "run", PAWL_FOREVER), PAWL_OK);
    expect_once(&v);
    close_both(&v);
}

/* ---- What else there is ---- */

/* Only a close throws the result away, and says so. */
static void a_close_tells_what_is_lost(conf *c)
{
    served_fixture v = begin(c);
    pawl_close(v.p);
    assert_int_equal(number(v.fixture, LOST), 2); /* the event, with its reason */
    allow_charges(c);
    v.p = open_engine(v.fixture, 2);
    TMP_AWAIT(finish(&v, "run", 1000) == PAWL_OK);
    FIXTURE_NOTES(v.fixture, "before charge charge after");
    close_both(&v);
}

/* What was kept is recorded, and the run is given back: it does not go on here. */
static void another_run_is_finished(conf *c)
{
    served_fixture v = begin(c);
    fixture_start(v.fixture, v.p, "harmless", "other", "1");
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "other", PAWL_FOREVER), PAWL_OK);
    release(&v, c);
    FIXTURE_NOTES(v.fixture, "before charge step");
    fixture_start(v.fixture, v.p, "harmless", "third", "1");
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "third", PAWL_FOREVER), PAWL_OK);
    FIXTURE_NOTES(v.fixture, "before charge step step");
    FIXTURE_HISTORY(v.fixture, v.p, "run", "step:before step:charge");
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "run", PAWL_FOREVER), PAWL_OK);
    FIXTURE_NOTES(v.fixture, "before charge step step after");
    close_both(&v);
}

/* What was refused once more is not tried for the whole hour that a stop would have. */
static void a_stop_does_not_wait_for_what_is_held(conf *c)
{
    served_fixture v = begin(c);
    served_begin(&v);
    served_stop(&v);
    assert_int_equal(number(v.fixture, LOST), 2);
    close_both(&v);
}

/* Between two calls nothing drives this node: what is started meanwhile goes to another one. */
static void what_is_started_meanwhile_goes_to_others(conf *c)
{
    served_fixture v = begin(c);
    fixture_start(v.fixture, v.p, "harmless", "other", "1");
    pawl *another = open_engine(v.fixture, -1);
    TMP_AWAIT((pawl_poll(another, NULL), pawl_wait(another, "other", 0, NULL)) == PAWL_OK);
    assert_int_equal(fixture_phase(v.fixture, another, "run"), PAWL_RUN_HELD);
    FIXTURE_NOTES(v.fixture, "before charge step"); /* the run stays where its result is */
    pawl_close(another);
    release(&v, c);
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "run", PAWL_FOREVER), PAWL_OK);
    FIXTURE_NOTES(v.fixture, "before charge step after");
    close_both(&v);
}

/* The record of a child is kept while its parent is finished. */
static void a_child_is_kept_too(conf *c)
{
    served_fixture v = open_served(c);
    refuse_charges(c);
    fixture_start(v.fixture, v.p, "has_a_child", "run", "1");
    int64_t ms = 10; /* a busy server needs longer to let a node begin */
    TMP_AWAIT(finish(&v, "run", ms *= 2) == PAWL_TIMEOUT &&
              pawl_wait(v.p, "child", 0, NULL) == PAWL_HELD);
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "run", 10), PAWL_TIMEOUT);
    allow_charges(c);
    FIXTURE_CODE(v.fixture, v.p, pawl_release(v.p, "child"), PAWL_OK);
    FIXTURE_CODE(v.fixture, v.p, finish(&v, "run", PAWL_FOREVER), PAWL_OK);
    FIXTURE_NOTES(v.fixture, "before charge after");
    assert_int_equal(number(v.fixture, LOST), 0);
    close_both(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"the next finish records", the_next_finish_records, DB_DURABLE},
        {"a poll records", a_poll_records, DB_DURABLE},
        {"workers record", workers_record, DB_DURABLE},
        {"workers record what was released before", workers_record_what_was_released_before,
         DB_DURABLE},
        {"a finish whose last try has failed", a_finish_whose_last_try_has_failed, 0},
        {"a finish that runs out of time", a_finish_that_runs_out_of_time, DB_DURABLE},
        {"a unit that is on its way", a_unit_that_is_on_its_way, DB_DURABLE},
        {"workers record what is on its way", workers_record_what_is_on_its_way, DB_DURABLE},
        {"a failure of an unknown kind", a_failure_of_an_unknown_kind, DB_DURABLE},
        {"a close tells what is lost", a_close_tells_what_is_lost, DB_DURABLE},
        {"another run is finished", another_run_is_finished, DB_DURABLE},
        {"a stop does not wait for what is held", a_stop_does_not_wait_for_what_is_held,
         DB_DURABLE},
        {"what is started meanwhile goes to others", what_is_started_meanwhile_goes_to_others,
         DB_DURABLE},
        {"a child is kept too", a_child_is_kept_too, DB_DURABLE},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
