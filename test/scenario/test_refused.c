/* Records that the database refuses for good: a trigger raises, or fails in a way that says nothing
 * about whose trouble it is. The run is held, stays with its
 * owner, and what it has done is recorded when somebody has set it right; nothing is executed twice
 * as long as the owner lives. Executions are lines of the side file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/served_fixture.h"

enum { REFUSED, LOST, KEPT, GATE };

static int64_t number(stage *s, int which)
{
    return atomic_load(stage_number(s, which));
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    if (strcmp(event, "record-refused") == 0 && strstr(fields, "no charges on sunday"))
        atomic_fetch_add(stage_number(arg, REFUSED), 1);
    if (strcmp(event, "record-kept") == 0)
        atomic_fetch_add(stage_number(arg, KEPT), 1);
    if (strcmp(event, "record-lost") == 0)
        atomic_fetch_add(stage_number(arg, LOST), 1);
}

/* ---- The trigger ---- */

/* One statement or several, on a connection beside the engine. */
static void change(conf *c, const char *sqlite, const char *postgres)
{
    error err = {0};
    if (c->server) {
        pgserver_exec(c->server, c->database, postgres);
        return;
    }
    db *d = conf_open(c, NULL);
    db_conn *conn = conf_connect(d, DB_WRITER);
    CONF_OK(db_begin(conn, &err), &err);
    CONF_OK(conn->driver->script(conn, sqlite, &err), &err);
    CONF_OK(db_commit(conn, &err), &err);
    db_disconnect(conn);
    db_close(d);
}

static void refuse_charges(conf *c)
{
    change(c,
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
    change(c,
           "CREATE TRIGGER refuse BEFORE INSERT ON pawl_journal WHEN NEW.name = 'charge'"
           " BEGIN SELECT abs(-9223372036854775807 - 1); END",
           sql);
}

static void allow_charges(conf *c)
{
    change(c, "DROP TRIGGER refuse", "DROP TRIGGER refuse ON pawl.journal");
}

/* Not even the hold can be recorded. */
static void refuse_holds(conf *c)
{
    change(c,
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
    stage *s = pawl_arg(run);
    pawl_undo(run, "refund", input);
    pawl_step(run, "before", stage_echo, input, PAWL_CALL(.arg = s));
    pawl_step(run, "charge", stage_echo, input, PAWL_CALL(.arg = s));
    pawl_step(run, "after", stage_echo, input, PAWL_CALL(.arg = s));
    if (strcmp(input, "\"waits\"") == 0) /* a cancel is told where it waits */
        pawl_sleep(run, PAWL_FOREVER);
    return input;
}

static const char *harmless(pawl_run *run, const char *input)
{
    return pawl_step(run, "step", stage_echo, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static served open_served(conf *c)
{
    served v = {.stage = stage_new(c)};
    stage_go(v.stage);
    v.p = stage_open(v.stage, PAWL_OPTIONS(.threads = 2, .log = hear, .log_arg = v.stage));
    STAGE_REGISTER(v.stage, v.p, charges);
    STAGE_REGISTER(v.stage, v.p, harmless);
    STAGE_CODE(v.stage, v.p,
               pawl_register_work(v.p, "refund", stage_echo, PAWL_WORK(.arg = v.stage)), PAWL_OK);
    return v;
}

static served begin(conf *c, const char *input)
{
    served v = open_served(c);
    refuse_charges(c);
    served_begin(&v);
    stage_start(v.stage, v.p, "charges", "run", input);
    TMP_AWAIT(stage_phase(v.stage, v.p, "run") == PAWL_RUN_HELD);
    assert_int_equal(stage_count(v.stage, "charge"), 1);
    assert_int_equal(number(v.stage, REFUSED), 1);
    return v;
}

static void end_well(served *v)
{
    STAGE_CODE(v->stage, v->p, pawl_wait(v->p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    STAGE_HISTORY(v->stage, v->p, "run", "undo:refund step:before step:charge step:after");
    STAGE_NOTES(v->stage, "before charge after");
    served_end(v);
}

static void expect_why(served *v, const char *words)
{
    char *why = NULL;
    STAGE_CODE(v->stage, v->p, pawl_why(v->p, "run", &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
    pawl_free(why);
}

static void release(served *v)
{
    STAGE_CODE(v->stage, v->p, pawl_release(v->p, "run"), PAWL_OK);
}

static void a_release_tries_the_commit_again(conf *c)
{
    served v = begin(c, "1");
    expect_why(&v, "no charges on sunday");
    expect_why(&v, "the result of step charge (op 4) is in the memory of node");
    stage_start(v.stage, v.p, "harmless", "other", "1"); /* others are not disturbed */
    STAGE_CODE(v.stage, v.p, pawl_wait(v.p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    release(&v);
    TMP_AWAIT(number(v.stage, REFUSED) == 2); /* in vain */
    TMP_AWAIT(stage_phase(v.stage, v.p, "run") == PAWL_RUN_HELD);
    STAGE_CODE(v.stage, v.p, pawl_redrive(v.p, "run", NULL), PAWL_REFUSED);
    stage_forget(v.stage);
    stage_note(v.stage, "before");
    stage_note(v.stage, "charge");
    allow_charges(c);
    release(&v);
    end_well(&v);
}

/* What people hold meanwhile is let go on by the same release. */
static void held_by_hand_too(conf *c)
{
    served v = begin(c, "1");
    STAGE_CODE(v.stage, v.p, pawl_hold(v.p, "run", "on holiday"), PAWL_OK);
    expect_why(&v, "no charges on sunday");
    allow_charges(c);
    release(&v);
    end_well(&v);
}

/* What was done is recorded first: otherwise nobody would know what to undo. */
static void a_cancel_waits_for_the_record(conf *c)
{
    served v = begin(c, "\"waits\"");
    STAGE_CODE(v.stage, v.p, pawl_cancel(v.p, "run", "\"enough\""), PAWL_OK);
    TMP_AWAIT(number(v.stage, REFUSED) == 2);
    TMP_AWAIT(stage_phase(v.stage, v.p, "run") == PAWL_RUN_HELD);
    allow_charges(c);
    /* Whether it is held as before or anew cannot be seen: a hold that comes behind the first
     * release needs another one. */
    TMP_AWAIT((pawl_release(v.p, "run"), pawl_wait(v.p, "run", 0, NULL) == PAWL_CANCELLED));
    STAGE_NOTES(v.stage, STAGE_WARM ? "before charge after refund" : "before charge refund");
    assert_int_equal(stage_phase(v.stage, v.p, "run"), PAWL_RUN_CANCELLED);
    served_end(&v);
}

static void a_stop_tries_once_more(conf *c)
{
    served v = begin(c, "1");
    allow_charges(c);
    served_stop(&v);
    assert_int_equal(number(v.stage, LOST), 0);
    served_begin(&v);
    end_well(&v);
}

/* What a node could not record before it went is done again, and the log says so. */
static void a_stop_in_vain(conf *c)
{
    served v = begin(c, "1");
    served_stop(&v);
    assert_int_equal(number(v.stage, LOST), 1);
    expect_why(&v, "the result of step charge (op 4) is in the memory of node");
    allow_charges(c);
    served_begin(&v);
    STAGE_CODE(v.stage, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    STAGE_NOTES(v.stage, "before charge charge after");
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
static void deleted_by_force(conf *c)
{
    served v = begin(c, "1");
    allow_charges(c);
    STAGE_CODE(v.stage, v.p, pawl_delete(v.p, "run", 1), PAWL_OK);
    stage_start(v.stage, v.p, "charges", "run", "1");
    STAGE_CODE(v.stage, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    STAGE_NOTES(v.stage, "before charge before charge after");
    STAGE_HISTORY(v.stage, v.p, "run", "undo:refund step:before step:charge step:after");
    served_stop(&v);
    assert_int_equal(orphans(c), 0);
    pawl_close(v.p);
    stage_free(v.stage);
}

/* ---- Whose trouble it is ---- */

/* A handle that is no node: what it starts is claimed by the one that serves, or by none. */
static pawl *open_client(served *v)
{
    pawl *client = stage_open(v->stage, PAWL_OPTIONS(.threads = -1));
    STAGE_REGISTER(v->stage, client, charges);
    STAGE_REGISTER(v->stage, client, harmless);
    return client;
}

static int tells(stage *s, pawl *p, const char *words)
{
    char *why = NULL;
    STAGE_CODE(s, p, pawl_why(p, "run", &why), PAWL_OK);
    int found = strstr(why, words) != NULL;
    pawl_free(why);
    return found;
}

static void another_goes_on(served *v, pawl *client, const char *id)
{
    stage_start(v->stage, client, "harmless", id, "1");
    TMP_AWAIT(stage_phase(v->stage, client, id) == PAWL_RUN_DONE);
}

/* The node has nothing else to do from whose commits it could learn that the storage works. */
static void fails_alone(conf *c, const char *state, const char *code)
{
    char words[64];
    served v = open_served(c);
    pawl *client = open_client(&v);
    fail_charges(c, state);
    served_begin(&v);
    stage_start(v.stage, client, "charges", "run", "1");
    TMP_AWAIT(number(v.stage, KEPT) >= 1);
    another_goes_on(&v, client, "other");
    TMP_AWAIT(stage_phase(v.stage, client, "run") == PAWL_RUN_HELD);
    assert_true(tells(v.stage, client, "refuses to record step charge (op 4)"));
    assert_true(tells(v.stage, client, "integer overflow"));
    assert_true(tells(v.stage, client, "the result of step charge (op 4) is in the memory of"));
    snprintf(words, sizeof words, "is not recorded: %s", c->server ? code : "PAWL_STORAGE");
    assert_true(tells(v.stage, v.p, words));
    another_goes_on(&v, client, "another");
    assert_int_equal(stage_count(v.stage, "charge"), 1);
    allow_charges(c);
    STAGE_CODE(v.stage, client, pawl_release(client, "run"), PAWL_OK);
    TMP_AWAIT(stage_phase(v.stage, client, "run") == PAWL_RUN_DONE);
    STAGE_HISTORY(v.stage, client, "run", "undo:refund step:before step:charge step:after");
    STAGE_NOTES(v.stage, "before charge step step after");
    pawl_close(client);
    served_end(&v);
}

static void a_failure_of_an_unknown_kind(conf *c)
{
    fails_alone(c, "Z0001", "PAWL_STORAGE");
}

static void a_right_that_is_missing(conf *c)
{
    if (!c->server)
        skip();
    fails_alone(c, "42501", "PAWL_DENIED");
}

/* Both are tried again until one of them is taken; this process says what it has, the row of the
 * run says it to others, and nobody waits for this run. */
static void not_even_a_hold(conf *c)
{
    served v = open_served(c);
    pawl *client = open_client(&v);
    refuse_charges(c);
    refuse_holds(c);
    served_begin(&v);
    stage_start(v.stage, client, "charges", "run", "1");
    TMP_AWAIT(number(v.stage, REFUSED) >= 2);
    another_goes_on(&v, client, "other");
    stage_forget(v.stage);
    stage_note(v.stage, "before");
    stage_note(v.stage, "charge");
    TMP_AWAIT(tells(v.stage, client, "which tries again to record it: PAWL_DATA: "));
    assert_int_equal(stage_phase(v.stage, client, "run"), PAWL_RUN_LIVE);
    assert_true(tells(v.stage, client, "the result of step charge (op 4) is in the memory of"));
    expect_why(&v, "the result of step charge (op 4) is not recorded: PAWL_DATA: ");
    expect_why(&v, "no charges on sunday");
    allow_charges(c);
    TMP_AWAIT(stage_phase(v.stage, client, "run") == PAWL_RUN_DONE);
    assert_false(tells(v.stage, client, "in the memory"));
    pawl_close(client);
    end_well(&v);
}

/* ---- Several processes ---- */

static void owner_body(stage *s, void *arg)
{
    (void)arg;
    pawl *p = stage_open(s, PAWL_OPTIONS(.threads = 2));
    STAGE_REGISTER(s, p, charges);
    STAGE_CODE(s, p, pawl_register_work(p, "refund", stage_echo, PAWL_WORK(.arg = s)), PAWL_OK);
    stage_tell(s, 'o');
    STAGE_CODE(s, p, pawl_serve(p), PAWL_OK);
    pawl_close(p);
}

static served begin_elsewhere(conf *c, tmp_child *owner, const char *input)
{
    served v = {.stage = stage_new(c)};
    stage_go(v.stage);
    *owner = stage_fork(v.stage, owner_body, NULL);
    tmp_expect(owner, 'o');
    refuse_charges(c);
    v.p = stage_open(v.stage, PAWL_OPTIONS(.threads = 2));
    stage_start(v.stage, v.p, "charges", "run", input);
    TMP_AWAIT(stage_phase(v.stage, v.p, "run") == PAWL_RUN_HELD);
    assert_int_equal(stage_count(v.stage, "charge"), 1);
    return v;
}

static void end_elsewhere(served *v)
{
    pawl_close(v->p);
    stage_free(v->stage);
}

static void released_by_another_process(conf *c)
{
    tmp_child owner;
    served v = begin_elsewhere(c, &owner, "1");
    expect_why(&v, "is in the memory of node");
    allow_charges(c);
    release(&v);
    STAGE_CODE(v.stage, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    STAGE_NOTES(v.stage, "before charge after");
    tmp_kill(&owner);
    end_elsewhere(&v);
}

static void cancelled_by_another_process(conf *c)
{
    tmp_child owner;
    served v = begin_elsewhere(c, &owner, "\"waits\"");
    allow_charges(c);
    STAGE_CODE(v.stage, v.p, pawl_cancel(v.p, "run", "\"enough\""), PAWL_OK);
    TMP_AWAIT(stage_phase(v.stage, v.p, "run") == PAWL_RUN_CANCELLED);
    STAGE_NOTES(v.stage, STAGE_WARM ? "before charge after refund" : "before charge refund");
    tmp_kill(&owner);
    end_elsewhere(&v);
}

static const char *charge_slowly(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    TMP_AWAIT(number(s, GATE));
    return stage_echo(work, input);
}

static const char *charges_slowly(pawl_run *run, const char *input)
{
    stage *s = pawl_arg(run);
    pawl_undo(run, "refund", input);
    pawl_step(run, "before", stage_echo, input, PAWL_CALL(.arg = s));
    pawl_step(run, "charge", charge_slowly, input, PAWL_CALL(.arg = s));
    return pawl_step(run, "after", stage_echo, input, PAWL_CALL(.arg = s));
}

/* The result went with the process: the step is executed again, without anybody's help. Why is told
 * by the hold, and by the row of the run until that has got further; the history has what the
 * database has taken (docs/decisions/0010). */
static void the_owner_dies(conf *c)
{
    tmp_child owner;
    served v = begin_elsewhere(c, &owner, "1");
    expect_why(&v, "no charges on sunday");
    expect_why(&v, "and is executed again if that node ends");
    tmp_kill(&owner);
    allow_charges(c);
    STAGE_CODE(
        v.stage, v.p,
        pawl_register_workflow(v.p, "charges", charges_slowly, PAWL_WORKFLOW(.arg = v.stage)),
        PAWL_OK);
    served_begin(&v);
    TMP_AWAIT(stage_phase(v.stage, v.p, "run") != PAWL_RUN_HELD);
    expect_why(&v, "the result of step charge (op 4) is in the memory of node");
    STAGE_HISTORY(v.stage, v.p, "run", "undo:refund step:before");
    atomic_store(stage_number(v.stage, GATE), 1);
    STAGE_CODE(v.stage, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_false(tells(v.stage, v.p, "in the memory"));
    STAGE_HISTORY(v.stage, v.p, "run", "undo:refund step:before step:charge step:after");
    STAGE_NOTES(v.stage, "before charge charge after");
    served_end(&v);
}

/* The same for who drives this run alone. */
static void the_owner_dies_and_one_run_is_finished(conf *c)
{
    tmp_child owner;
    served v = begin_elsewhere(c, &owner, "1");
    tmp_kill(&owner);
    allow_charges(c);
    STAGE_REGISTER(v.stage, v.p, charges);
    pawl_code rc = PAWL_HELD;
    TMP_AWAIT((rc = pawl_finish(v.p, "run", 1000, NULL)) != PAWL_HELD && rc != PAWL_TIMEOUT);
    STAGE_CODE(v.stage, v.p, rc, PAWL_OK);
    STAGE_NOTES(v.stage, "before charge charge after");
    end_elsewhere(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a release tries the commit again", a_release_tries_the_commit_again, DB_DURABLE},
        {"held by hand too", held_by_hand_too, DB_DURABLE},
        {"a cancel waits for the record", a_cancel_waits_for_the_record, DB_DURABLE},
        {"a stop tries once more", a_stop_tries_once_more, DB_DURABLE},
        {"a stop in vain", a_stop_in_vain, DB_DURABLE},
        {"deleted by force", deleted_by_force, DB_DURABLE},
        {"a failure of an unknown kind", a_failure_of_an_unknown_kind, DB_DURABLE},
        {"a right that is missing", a_right_that_is_missing, DB_DURABLE},
        {"not even a hold", not_even_a_hold, DB_DURABLE},
        {"released by another process", released_by_another_process, DB_DURABLE},
        {"cancelled by another process", cancelled_by_another_process, DB_DURABLE},
        {"the owner dies", the_owner_dies, DB_DURABLE},
        {"the owner dies and one run is finished", the_owner_dies_and_one_run_is_finished,
         DB_DURABLE},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
