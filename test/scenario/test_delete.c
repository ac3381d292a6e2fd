/* Deleting: a run with its children and everything that is recorded of them, and nothing else.
 * Live ones only by force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"
#include "support/engine_fixture.h"

static const char *kid(pawl_run *run, const char *input)
{
    pawl_attr(run, "colour", "\"red\"");
    pawl_state_set(run, "key", "1");
    pawl_sleep(run, 10);
    return input;
}

static const char *parent(pawl_run *run, const char *input)
{
    const char *message;
    pawl_attr(run, "colour", "\"red\"");
    pawl_state_set(run, "key", "1");
    pawl_receive(run, "box", 0, &message);
    if (pawl_run_generation(run) < 3)
        return pawl_continue_as_new(run, "2", NULL);
    pawl_child(run, "kid", input, PAWL_CHILD(.id = "kid"));
    pawl_child(run, "kid", input, PAWL_CHILD(.id = "free", .detached = 1));
    return pawl_child(run, "kid", input, NULL);
}

static const char *waits(pawl_run *run, const char *input)
{
    const char *message;
    pawl_child_later(run, "waits_too", input, PAWL_CHILD(.id = "below"));
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    return message;
}

static const char *waits_too(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_HOURS(1));
    return input;
}

static pawl *open_here(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, kid);
    FIXTURE_REGISTER(s, p, parent);
    FIXTURE_REGISTER(s, p, waits);
    FIXTURE_REGISTER(s, p, waits_too);
    return p;
}

/* Rows of all tables that belong to runs. */
static int64_t rows(conf *c)
{
    static const char *const TABLES[] = {"{runs}",     "{journal}",    "{generations}", "{inbox}",
                                         "{receipts}", "{attributes}", "{state}",       "{tasks}"};
    db *d = conf_open(c, NULL);
    int64_t count = 0;
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++) {
        char text[64];
        snprintf(text, sizeof text, "SELECT count(*) FROM %s", TABLES[i]);
        const db_sql sql = {text, ""};
        count += conf_number(d, &sql, NULL, 0);
    }
    db_close(d);
    return count;
}

static void gone(engine_fixture *s, pawl *p, const char *id)
{
    pawl_info *info = NULL;
    FIXTURE_CODE(s, p, pawl_inspect(p, id, &info), PAWL_NOTFOUND);
}

static void no_row_of_a_deleted_run_is_left(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "kid", "other", "1");
    FIXTURE_DONE(s, p, "other", "1");
    int64_t before = rows(c);
    fixture_start(s, p, "parent", "run", "1");
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "1", PAWL_SEND(.key = "k")), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "unread", "1", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "2");
    FIXTURE_DONE(s, p, "free", "2");
    FIXTURE_CODE(s, p, pawl_delete(p, "kid", 0), PAWL_REFUSED);
    FIXTURE_CODE(s, p, pawl_delete(p, "kid", 1), PAWL_REFUSED);
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_OK);
    gone(s, p, "run");
    gone(s, p, "kid");
    gone(s, p, "run/3.8");
    assert_int_equal(fixture_phase(s, p, "free"), PAWL_RUN_DONE);
    FIXTURE_CODE(s, p, pawl_delete(p, "free", 0), PAWL_OK);
    assert_int_equal(rows(c), before);
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_NOTFOUND);
    FIXTURE_CODE(s, p, pawl_wait(p, "run", 0, NULL), PAWL_NOTFOUND);
    fixture_start(s, p, "kid", "run", "9"); /* the id is free */
    FIXTURE_DONE(s, p, "run", "9");
    pawl_close(p);
    fixture_free(s);
}

static void live_runs_are_deleted_by_force_only(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "waits", "run", "1");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_REFUSED);
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 1), PAWL_OK);
    gone(s, p, "run");
    gone(s, p, "below");
    for (int i = 0; i < 5; i++) {
        fixture_advance(s, PAWL_HOURS(1));
        fixture_poll(s, p);
    }
    assert_int_equal(rows(c), 0);
    fixture_start(s, p, "kid", "run", "9");
    FIXTURE_DONE(s, p, "run", "9");
    pawl_close(p);
    fixture_free(s);
}

/* It is being executed; what it still writes has no effect. */
static const char *deletes(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    pawl *p = (pawl *)(uintptr_t)atomic_load(fixture_number(s, 0));
    FIXTURE_CODE(s, p, pawl_delete(p, pawl_work_run_id(work), 1), PAWL_OK);
    fixture_note(s, "deleted");
    return input;
}

static const char *is_deleted(pawl_run *run, const char *input)
{
    pawl_call(run, "deletes", input, NULL);
    pawl_call(run, "after", input, NULL);
    return input;
}

static void a_run_is_deleted_while_it_is_executed(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    atomic_store(fixture_number(s, 0), (int64_t)(uintptr_t)p);
    FIXTURE_REGISTER(s, p, is_deleted);
    fixture_register_work(s, p, "deletes", deletes);
    fixture_register_work(s, p, "after", fixture_echo);
    fixture_start(s, p, "is_deleted", "run", "1");
    for (int i = 0; i < 5; i++) {
        fixture_poll(s, p);
        fixture_advance(s, 2000);
    }
    gone(s, p, "run");
    FIXTURE_NOTES(s, "deleted"); /* and nothing after it */
    if (c->promises & DB_SHARED)
        assert_int_equal(rows(c), 0);
    fixture_start(s, p, "kid", "two", "9");
    FIXTURE_DONE(s, p, "two", "9");
    pawl_close(p);
    fixture_free(s);
}

/* Held ones are live. */
static void held_runs_are_deleted_by_force_only(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "unknown", "run", "1");
    FIXTURE_HELD(s, p, "run", "no node");
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_REFUSED);
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 1), PAWL_OK);
    gone(s, p, "run");
    assert_int_equal(rows(c), 0);
    pawl_close(p);
    fixture_free(s);
}

/* Its parent was deleted while it was being started: no other run could delete it. */
static void a_run_whose_parent_is_gone_is_deleted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "kid", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    db *d = conf_open(c, NULL);
    conf_script(d, "UPDATE {runs} SET parent = 99999, parent_generation = 1, parent_op = 2");
    db_close(d);
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_OK);
    gone(s, p, "run");
    pawl_close(p);
    fixture_free(s);
}

/* Another tenant's run is not there. */
static void runs_of_other_tenants_are_not_deleted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    pawl *q = fixture_open(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .tenant = "other"});
    fixture_start(s, p, "kid", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_CODE(s, q, pawl_delete(q, "run", 1), PAWL_NOTFOUND);
    FIXTURE_CODE(s, q, pawl_delete(q, NULL, 1), PAWL_INVALID);
    FIXTURE_CODE(s, q, pawl_delete(q, "", 1), PAWL_INVALID);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_DONE);
    pawl_close(q);
    pawl_close(p);
    fixture_free(s);
}

/* Only pawl writes there; but if another program does, no run waits for ever. */
static void runs_that_are_their_own_ancestors_are_deleted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "kid", "one", "1");
    fixture_start(s, p, "kid", "two", "1");
    FIXTURE_DONE(s, p, "one", "1");
    FIXTURE_DONE(s, p, "two", "1");
    conf_script(handle_db(p), "UPDATE {runs} SET parent = (SELECT r.run FROM {runs} r"
                              " WHERE r.id <> {runs}.id), parent_generation = 1, parent_op = 1;");
    FIXTURE_CODE(s, p, pawl_delete(p, "one", 0), PAWL_REFUSED);
    FIXTURE_CODE(s, p, pawl_delete(p, "two", 1), PAWL_REFUSED);
    conf_script(handle_db(p), "UPDATE {runs} SET phase = 0, wake_at = 0 WHERE id = 'one';");
    pawl_finish(p, "one", 0, NULL); /* its family is looked for */
    pawl_close(p);
    fixture_free(s);
}

/* An engine knows the key of a run that it has in memory. If the row has another one, as when the
 * run was deleted and started again while its node was closed, a message finds it nevertheless. */
static void deleted_and_started_again_elsewhere(conf *c)
{
    static const db_sql MAIL = {"SELECT mail FROM {runs} WHERE id = 'run'", ""};
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, waits);
    fixture_start(s, p, "waits", "run", "1");
    fixture_poll(s, p);
    conf_script(handle_db(p), "UPDATE {runs} SET run = run + 1000 WHERE id = 'run'");
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "2", NULL), PAWL_OK);
    assert_int_equal(conf_number(handle_db(p), &MAIL, NULL, 0), 1);
    conf_script(handle_db(p), "DELETE FROM {runs} WHERE id = 'run'");
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "2", NULL), PAWL_NOTFOUND);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-deletion no row of a deleted run is left", no_row_of_a_deleted_run_is_left, DB_SHARED},
        {"dx-deletion live runs are deleted by force only", live_runs_are_deleted_by_force_only,
         DB_SHARED},
        {"dx-deletion a run is deleted while it is executed", a_run_is_deleted_while_it_is_executed,
         0},
        {"dx-deletion held runs are deleted by force only", held_runs_are_deleted_by_force_only,
         DB_SHARED},
        {"a run whose parent is gone is deleted", a_run_whose_parent_is_gone_is_deleted, DB_SHARED},
        {"runs that are their own ancestors are deleted",
         runs_that_are_their_own_ancestors_are_deleted, DB_SHARED},
        {"runs of other tenants are not deleted", runs_of_other_tenants_are_not_deleted, DB_SHARED},
        {"deleted and started again elsewhere", deleted_and_started_again_elsewhere, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
