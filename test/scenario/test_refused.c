/* Records that the database refuses for good: a trigger raises, or fails in a way that does not say
 * what is wrong. The run is held, stays with its owner, and what it has done is recorded when the
 * cause was removed; nothing is executed twice as long as the owner lives. Executions are lines of
 * the side file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/served_fixture.h"

enum { REFUSED, LOST, KEPT, GATE, HOLD_REFUSED, HELD };

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    if (strcmp(event, "record-refused") == 0 && strstr(fields, "no charges on sunday"))
        atomic_fetch_add(fixture_number(arg, REFUSED), 1);
    if (strcmp(event, "record-kept") == 0)
        atomic_fetch_add(fixture_number(arg, KEPT), 1);
    if (strcmp(event, "record-lost") == 0)
        atomic_fetch_add(fixture_number(arg, LOST), 1);
    if (strcmp(event, "hold-refused") == 0 && strstr(fields, "no holds"))
        atomic_fetch_add(fixture_number(arg, HOLD_REFUSED), 1);
    if (strcmp(event, "run-held") == 0 && strstr(fields, "no charges on sunday"))
        atomic_fetch_add(fixture_number(arg, HELD), 1);
}

/* ---- The trigger ---- */

static void refuse_charges(conf *c)
{
    conf_change(c,
                "CREATE TRIGGER refuse BEFORE INSERT ON pawl_journal WHEN NEW.name = 'charge'"
                " BEGIN SELECT RAISE(ABORT, 'no charges on sunday'); END",
                "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF NEW.name = 'charge' THEN RAISE EXCEPTION 'no charges on sunday'; END IF;"
                " RETURN NEW; END $$;"
                " CREATE TRIGGER refuse BEFORE INSERT ON pawl.journal"
                " FOR EACH ROW EXECUTE FUNCTION public.refuse()");
}

/* A failure that is no refusal: SQLITE_ERROR, or an SQLSTATE that pawl does not know. */
static void fail_charges(conf *c, const char *state)
{
    char sql[512];
    snprintf(sql, sizeof sql,
             "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
             " IF NEW.name = 'charge' THEN RAISE EXCEPTION 'integer overflow'"
             " USING ERRCODE = '%s'; END IF; RETURN NEW; END $$;"
             " CREATE TRIGGER refuse BEFORE INSERT ON pawl.journal"
             " FOR EACH ROW EXECUTE FUNCTION public.refuse()",
             state);
    conf_change(c,
                "CREATE TRIGGER refuse BEFORE INSERT ON pawl_journal WHEN NEW.name = 'charge'"
                " BEGIN SELECT abs(-9223372036854775807 - 1); END",
                sql);
}

static void allow_charges(conf *c)
{
    conf_change(c, "DROP TRIGGER refuse", "DROP TRIGGER refuse ON pawl.journal");
}

/* Not even the hold can be recorded. */
static void refuse_holds(conf *c)
{
    conf_change(c,
                "CREATE TRIGGER no_holds BEFORE UPDATE OF held ON pawl_runs WHEN NEW.held = 6"
                " BEGIN SELECT RAISE(ABORT, 'no holds'); END",
                "CREATE FUNCTION public.no_holds() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF NEW.held = 6 THEN RAISE EXCEPTION 'no holds'; END IF; RETURN NEW; END $$;"
                " CREATE TRIGGER no_holds BEFORE UPDATE ON pawl.runs"
                " FOR EACH ROW EXECUTE FUNCTION public.no_holds()");
}

/* ---- The run ---- */

static const char *charges(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_undo(run, "refund", input);
    pawl_step(run, "before", fixture_echo, input, PAWL_CALL(.arg = s));
    pawl_step(run, "charge", fixture_echo, input, PAWL_CALL(.arg = s));
    pawl_step(run, "after", fixture_echo, input, PAWL_CALL(.arg = s));
    if (strcmp(input, "\"waits\"") == 0) /* a cancel is told where it waits */
        pawl_sleep(run, PAWL_FOREVER);
    return input;
}

static const char *harmless(pawl_run *run, const char *input)
{
    return FIXTURE_ECHO(run, "step", input);
}

static served_fixture open_served(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    fixture_run_clock(v.fixture);
    v.p = fixture_open(v.fixture, PAWL_OPTIONS(.threads = 2, .log = hear, .log_arg = v.fixture));
    FIXTURE_REGISTER(v.fixture, v.p, charges);
    FIXTURE_REGISTER(v.fixture, v.p, harmless);
    fixture_register_work(v.fixture, v.p, "refund", fixture_echo);
    return v;
}

static served_fixture begin(conf *c, const char *input)
{
    served_fixture v = open_served(c);
    refuse_charges(c);
    served_begin(&v);
    fixture_start(v.fixture, v.p, "charges", "run", input);
    TMP_AWAIT(fixture_phase(v.fixture, v.p, "run") == PAWL_RUN_HELD);
    assert_int_equal(fixture_count(v.fixture, "charge"), 1);
    assert_int_equal(number(v.fixture, REFUSED), 1);
    return v;
}

static void expect_done(served_fixture *v)
{
    FIXTURE_CODE(v->fixture, v->p, pawl_wait(v->p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_HISTORY(v->fixture, v->p, "run", "undo:refund step:before step:charge step:after");
    FIXTURE_NOTES(v->fixture, "before charge after");
    served_end(v);
}

static void expect_why(served_fixture *v, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(v->fixture, v->p, pawl_why(v->p, "run", &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
    pawl_free(why);
}

static void release(served_fixture *v)
{
    FIXTURE_CODE(v->fixture, v->p, pawl_release(v->p, "run"), PAWL_OK);
}

static void a_release_tries_the_commit_again(conf *c)
{
    served_fixture v = begin(c, "1");
    expect_why(&v, "no charges on sunday");
    expect_why(&v, "the result of step charge (op 4) is in the memory of node");
    fixture_start(v.fixture, v.p, "harmless", "other", "1"); /* others are not disturbed */
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    release(&v);
    TMP_AWAIT(number(v.fixture, REFUSED) == 2); /* in vain */
    TMP_AWAIT(fixture_phase(v.fixture, v.p, "run") == PAWL_RUN_HELD);
    FIXTURE_CODE(v.fixture, v.p, pawl_redrive(v.p, "run", NULL), PAWL_REFUSED);
    fixture_clear_notes(v.fixture);
    fixture_note(v.fixture, "before");
    fixture_note(v.fixture, "charge");
    allow_charges(c);
    release(&v);
    expect_done(&v);
}

/* A hold by hand that comes meanwhile is ended by the same release. */
static void a_run_that_is_held_by_hand_too(conf *c)
{
    served_fixture v = begin(c, "1");
    FIXTURE_CODE(v.fixture, v.p, pawl_hold(v.p, "run", "on holiday"), PAWL_OK);
    expect_why(&v, "no charges on sunday");
    allow_charges(c);
    release(&v);
    expect_done(&v);
}

/* What was done is recorded first: otherwise it would be unknown what to undo. */
static void a_cancel_waits_for_the_record(conf *c)
{
    served_fixture v = begin(c, "\"waits\"");
    FIXTURE_CODE(v.fixture, v.p, pawl_cancel(v.p, "run", "\"enough\""), PAWL_OK);
    TMP_AWAIT(number(v.fixture, REFUSED) == 2);
    TMP_AWAIT(fixture_phase(v.fixture, v.p, "run") == PAWL_RUN_HELD);
    allow_charges(c);
    /* Whether it is held as before or anew cannot be seen: a hold that comes behind the first
     * release needs another one. */
    TMP_AWAIT((pawl_release(v.p, "run"), pawl_wait(v.p, "run", 0, NULL) == PAWL_CANCELLED));
    FIXTURE_NOTES(v.fixture, "before charge refund");
    assert_int_equal(fixture_phase(v.fixture, v.p, "run"), PAWL_RUN_CANCELLED);
    served_end(&v);
}

static void a_stop_tries_once_more(conf *c)
{
    served_fixture v = begin(c, "1");
    allow_charges(c);
    served_stop(&v);
    assert_int_equal(number(v.fixture, LOST), 0);
    served_begin(&v);
    expect_done(&v);
}

/* What a node could not record before it went is done again, and the log says so. */
static void a_stop_whose_try_is_refused(conf *c)
{
    served_fixture v = begin(c, "1");
    served_stop(&v);
    assert_int_equal(number(v.fixture, LOST), 1);
    expect_why(&v, "the result of step charge (op 4) is in the memory of node");
    allow_charges(c);
    served_begin(&v);
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_NOTES(v.fixture, "before charge charge after");
    served_end(&v);
}

static int64_t orphans(conf *c)
{
    static const db_sql ORPHANS = {
        "SELECT count(*) FROM {journal} WHERE run NOT IN (SELECT run FROM {runs})", ""};
    error err = {0};
    int64_t count = 0;
    int found;
    db *d = conf_open(c, NULL);
    db_conn *conn = conf_connect(d, DB_READER);
    CONF_OK(db_begin(conn, &err), &err);
    CONF_OK(db_number(conn, &ORPHANS, NULL, 0, &count, &found, &err), &err);
    db_rollback(conn);
    db_disconnect(conn);
    db_close(d);
    return count;
}

/* The next try finds no run: it writes nothing, and the result is forgotten. */
static void a_run_that_is_deleted_by_force(conf *c)
{
    served_fixture v = begin(c, "1");
    allow_charges(c);
    FIXTURE_CODE(v.fixture, v.p, pawl_delete(v.p, "run", 1), PAWL_OK);
    fixture_start(v.fixture, v.p, "charges", "run", "1");
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_NOTES(v.fixture, "before charge before charge after");
    FIXTURE_HISTORY(v.fixture, v.p, "run", "undo:refund step:before step:charge step:after");
    served_stop(&v);
    assert_int_equal(orphans(c), 0);
    pawl_close(v.p);
    fixture_free(v.fixture);
}

/* ---- Whose trouble it is ---- */

/* A handle that is no node: what it starts is claimed by the one that serves, or by none. */
static pawl *open_client(served_fixture *v)
{
    pawl *client = fixture_open(v->fixture, PAWL_OPTIONS(.threads = -1));
    FIXTURE_REGISTER(v->fixture, client, charges);
    FIXTURE_REGISTER(v->fixture, client, harmless);
    return client;
}

static int tells(engine_fixture *s, pawl *p, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(s, p, pawl_why(p, "run", &why), PAWL_OK);
    int found = strstr(why, words) != NULL;
    pawl_free(why);
    return found;
}

static void expect_other_done(served_fixture *v, pawl *client, const char *id)
{
    fixture_start(v->fixture, client, "harmless", id, "1");
    TMP_AWAIT(fixture_phase(v->fixture, client, id) == PAWL_RUN_DONE);
}

/* The node has nothing else to do from whose commits it could learn that the storage works. */
static void check_failure_of_one_run(conf *c, const char *state, const char *code)
{
    char words[64];
    served_fixture v = open_served(c);
    pawl *client = open_client(&v);
    fail_charges(c, state);
    served_begin(&v);
    fixture_start(v.fixture, client, "charges", "run", "1");
    TMP_AWAIT(number(v.fixture, KEPT) >= 1);
    expect_other_done(&v, client, "other");
    TMP_AWAIT(fixture_phase(v.fixture, client, "run") == PAWL_RUN_HELD);
    assert_true(tells(v.fixture, client, "refuses to record step charge (op 4)"));
    assert_true(tells(v.fixture, client, "integer overflow"));
    assert_true(tells(v.fixture, client, "the result of step charge (op 4) is in the memory of"));
    snprintf(words, sizeof words, "is not recorded: %s", c->server ? code : "PAWL_STORAGE");
    assert_true(tells(v.fixture, v.p, words));
    expect_other_done(&v, client, "another");
    assert_int_equal(fixture_count(v.fixture, "charge"), 1);
    allow_charges(c);
    FIXTURE_CODE(v.fixture, client, pawl_release(client, "run"), PAWL_OK);
    TMP_AWAIT(fixture_phase(v.fixture, client, "run") == PAWL_RUN_DONE);
    FIXTURE_HISTORY(v.fixture, client, "run", "undo:refund step:before step:charge step:after");
    FIXTURE_NOTES(v.fixture, "before charge step step after");
    pawl_close(client);
    served_end(&v);
}

static void a_failure_of_an_unknown_kind(conf *c)
{
    check_failure_of_one_run(c, "Z0001", "PAWL_STORAGE");
}

/* The disk is full, it says, and that passes: others go on, and the run is not held. */
static void a_failure_that_passes(conf *c)
{
    if (!c->server)
        skip();
    served_fixture v = open_served(c);
    pawl *client = open_client(&v);
    fail_charges(c, "53100");
    served_begin(&v);
    fixture_start(v.fixture, client, "charges", "run", "1");
    TMP_AWAIT(number(v.fixture, KEPT) >= 1);
    expect_other_done(&v, client, "other");
    TMP_AWAIT(tells(v.fixture, client, "tries again to record it: PAWL_FULL"));
    for (int i = 0; i < 10; i++) {
        fixture_advance(v.fixture, 40000);
        char id[32];
        snprintf(id, sizeof id, "another %d", i);
        expect_other_done(&v, client, id);
    }
    assert_int_equal(fixture_phase(v.fixture, client, "run"), PAWL_RUN_LIVE);
    allow_charges(c);
    fixture_advance(v.fixture, 40000);
    TMP_AWAIT(fixture_phase(v.fixture, client, "run") == PAWL_RUN_DONE);
    assert_int_equal(fixture_count(v.fixture, "charge"), 1);
    pawl_close(client);
    served_end(&v);
}

static void a_permission_that_is_missing(conf *c)
{
    if (!c->server)
        skip();
    check_failure_of_one_run(c, "42501", "PAWL_DENIED");
}

/* Both are tried again until one of them is taken; this process says what it has, the row of the
 * run says it to others, and no other run waits for this one. */
static void a_hold_that_is_refused_too(conf *c)
{
    served_fixture v = open_served(c);
    pawl *client = open_client(&v);
    refuse_charges(c);
    refuse_holds(c);
    served_begin(&v);
    fixture_start(v.fixture, client, "charges", "run", "1");
    TMP_AWAIT(number(v.fixture, HOLD_REFUSED) > 0);
    for (int i = 0; i < 4; i++) {
        fixture_advance(v.fixture, 40000);
        char id[32];
        snprintf(id, sizeof id, "other %d", i);
        expect_other_done(&v, client, id);
    }
    fixture_clear_notes(v.fixture);
    fixture_note(v.fixture, "before");
    fixture_note(v.fixture, "charge");
    TMP_AWAIT(tells(v.fixture, client, "which tries again to record it: PAWL_DATA: "));
    assert_int_equal(fixture_phase(v.fixture, client, "run"), PAWL_RUN_LIVE);
    assert_true(tells(v.fixture, client, "the result of step charge (op 4) is in the memory of"));
    expect_why(&v, "the result of step charge (op 4) is not recorded: PAWL_DATA: ");
    expect_why(&v, "no charges on sunday");
    assert_int_equal(number(v.fixture, REFUSED), 1); /* however often it is tried */
    assert_int_equal(number(v.fixture, HOLD_REFUSED), 1);
    assert_int_equal(number(v.fixture, HELD), 0);
    allow_charges(c);
    TMP_AWAIT(fixture_phase(v.fixture, client, "run") == PAWL_RUN_DONE);
    assert_false(tells(v.fixture, client, "in the memory"));
    pawl_close(client);
    expect_done(&v);
}

/* ---- Several processes ---- */

static void owner_body(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 2));
    FIXTURE_REGISTER(s, p, charges);
    fixture_register_work(s, p, "refund", fixture_echo);
    fixture_send_byte(s, 'o');
    FIXTURE_CODE(s, p, pawl_serve(p), PAWL_OK);
    pawl_close(p);
}

static served_fixture begin_elsewhere(conf *c, tmp_child *owner, const char *input)
{
    served_fixture v = {.fixture = fixture_new(c)};
    fixture_run_clock(v.fixture);
    *owner = fixture_fork(v.fixture, owner_body, NULL);
    tmp_expect(owner, 'o');
    refuse_charges(c);
    v.p = fixture_open(v.fixture, PAWL_OPTIONS(.threads = 2));
    fixture_start(v.fixture, v.p, "charges", "run", input);
    TMP_AWAIT(fixture_phase(v.fixture, v.p, "run") == PAWL_RUN_HELD);
    assert_int_equal(fixture_count(v.fixture, "charge"), 1);
    return v;
}

static void end_elsewhere(served_fixture *v)
{
    pawl_close(v->p);
    fixture_free(v->fixture);
}

static void a_release_by_another_process(conf *c)
{
    tmp_child owner;
    served_fixture v = begin_elsewhere(c, &owner, "1");
    expect_why(&v, "is in the memory of node");
    allow_charges(c);
    release(&v);
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_NOTES(v.fixture, "before charge after");
    tmp_kill(&owner);
    end_elsewhere(&v);
}

static void a_cancel_by_another_process(conf *c)
{
    tmp_child owner;
    served_fixture v = begin_elsewhere(c, &owner, "\"waits\"");
    allow_charges(c);
    FIXTURE_CODE(v.fixture, v.p, pawl_cancel(v.p, "run", "\"enough\""), PAWL_OK);
    TMP_AWAIT(fixture_phase(v.fixture, v.p, "run") == PAWL_RUN_CANCELLED);
    FIXTURE_NOTES(v.fixture, "before charge refund");
    tmp_kill(&owner);
    end_elsewhere(&v);
}

static const char *charge_slowly(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    TMP_AWAIT(number(s, GATE));
    return fixture_echo(work, input);
}

static const char *charges_slowly(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_undo(run, "refund", input);
    pawl_step(run, "before", fixture_echo, input, PAWL_CALL(.arg = s));
    pawl_step(run, "charge", charge_slowly, input, PAWL_CALL(.arg = s));
    return pawl_step(run, "after", fixture_echo, input, PAWL_CALL(.arg = s));
}

/* The result went with the process: the step is executed again, by itself. Why is told by the hold,
 * and by the row of the run until that has got further; the history has what the database has taken
 * (docs/decisions/0010). */
static void the_owner_dies(conf *c)
{
    tmp_child owner;
    served_fixture v = begin_elsewhere(c, &owner, "1");
    expect_why(&v, "no charges on sunday");
    expect_why(&v, "and is executed again if that node ends");
    tmp_kill(&owner);
    allow_charges(c);
    FIXTURE_CODE(
        v.fixture, v.p,
        pawl_register_workflow(v.p, "charges", charges_slowly, PAWL_WORKFLOW(.arg = v.fixture)),
        PAWL_OK);
    served_begin(&v);
    TMP_AWAIT(fixture_phase(v.fixture, v.p, "run") != PAWL_RUN_HELD);
    expect_why(&v, "the result of step charge (op 4) is in the memory of node");
    FIXTURE_HISTORY(v.fixture, v.p, "run", "undo:refund step:before");
    atomic_store(fixture_number(v.fixture, GATE), 1);
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_false(tells(v.fixture, v.p, "in the memory"));
    FIXTURE_HISTORY(v.fixture, v.p, "run", "undo:refund step:before step:charge step:after");
    FIXTURE_NOTES(v.fixture, "before charge charge after");
    served_end(&v);
}

/* The same for an engine that finishes this run alone. */
static void the_owner_dies_and_its_run_is_finished(conf *c)
{
    tmp_child owner;
    served_fixture v = begin_elsewhere(c, &owner, "1");
    tmp_kill(&owner);
    allow_charges(c);
    FIXTURE_REGISTER(v.fixture, v.p, charges);
    pawl_code rc = PAWL_HELD;
    TMP_AWAIT((rc = pawl_finish(v.p, "run", 1000, NULL)) != PAWL_HELD && rc != PAWL_TIMEOUT);
    FIXTURE_CODE(v.fixture, v.p, rc, PAWL_OK);
    FIXTURE_NOTES(v.fixture, "before charge charge after");
    end_elsewhere(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a release tries the commit again", a_release_tries_the_commit_again, DB_DURABLE},
        {"a run that is held by hand too", a_run_that_is_held_by_hand_too, DB_DURABLE},
        {"a cancel waits for the record", a_cancel_waits_for_the_record, DB_DURABLE},
        {"a stop tries once more", a_stop_tries_once_more, DB_DURABLE},
        {"a stop whose try is refused", a_stop_whose_try_is_refused, DB_DURABLE},
        {"a run that is deleted by force", a_run_that_is_deleted_by_force, DB_DURABLE},
        {"a failure of an unknown kind", a_failure_of_an_unknown_kind, DB_DURABLE},
        {"a failure that passes", a_failure_that_passes, DB_DURABLE},
        {"a permission that is missing", a_permission_that_is_missing, DB_DURABLE},
        {"a hold that is refused too", a_hold_that_is_refused_too, DB_DURABLE},
        {"a release by another process", a_release_by_another_process, DB_DURABLE},
        {"a cancel by another process", a_cancel_by_another_process, DB_DURABLE},
        {"the owner dies", the_owner_dies, DB_DURABLE},
        {"the owner dies and its run is finished", the_owner_dies_and_its_run_is_finished,
         DB_DURABLE},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
