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

static pawl *open_here(stage *s)
{
    pawl *p = stage_open(s, NULL);
    STAGE_REGISTER(s, p, kid);
    STAGE_REGISTER(s, p, parent);
    STAGE_REGISTER(s, p, waits);
    STAGE_REGISTER(s, p, waits_too);
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

static void gone(stage *s, pawl *p, const char *id)
{
    pawl_info *info = NULL;
    STAGE_CODE(s, p, pawl_inspect(p, id, &info), PAWL_NOTFOUND);
}

static void nothing_is_left(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s);
    stage_start(s, p, "kid", "other", "1");
    STAGE_DONE(s, p, "other", "1");
    int64_t before = rows(c);
    stage_start(s, p, "parent", "run", "1");
    STAGE_CODE(s, p, pawl_send(p, "run", "box", "1", PAWL_SEND(.key = "k")), PAWL_OK);
    STAGE_CODE(s, p, pawl_send(p, "run", "unread", "1", NULL), PAWL_OK);
    STAGE_DONE(s, p, "run", "2");
    STAGE_DONE(s, p, "free", "2");
    STAGE_CODE(s, p, pawl_delete(p, "kid", 0), PAWL_REFUSED);
    STAGE_CODE(s, p, pawl_delete(p, "kid", 1), PAWL_REFUSED);
    STAGE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_OK);
    gone(s, p, "run");
    gone(s, p, "kid");
    gone(s, p, "run/3.8");
    assert_int_equal(stage_phase(s, p, "free"), PAWL_RUN_DONE);
    STAGE_CODE(s, p, pawl_delete(p, "free", 0), PAWL_OK);
    assert_int_equal(rows(c), before);
    STAGE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_NOTFOUND);
    STAGE_CODE(s, p, pawl_wait(p, "run", 0, NULL), PAWL_NOTFOUND);
    stage_start(s, p, "kid", "run", "9"); /* the id is free */
    STAGE_DONE(s, p, "run", "9");
    pawl_close(p);
    stage_free(s);
}

static void live_ones(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s);
    stage_start(s, p, "waits", "run", "1");
    stage_poll(s, p);
    STAGE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_REFUSED);
    STAGE_CODE(s, p, pawl_delete(p, "run", 1), PAWL_OK);
    gone(s, p, "run");
    gone(s, p, "below");
    for (int i = 0; i < 5; i++) {
        stage_advance(s, PAWL_HOURS(1));
        stage_poll(s, p);
    }
    assert_int_equal(rows(c), 0);
    stage_start(s, p, "kid", "run", "9");
    STAGE_DONE(s, p, "run", "9");
    pawl_close(p);
    stage_free(s);
}

/* It is being executed; what it still writes reaches nobody. */
static const char *deletes(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    pawl *p = (pawl *)(uintptr_t)atomic_load(stage_number(s, 0));
    STAGE_CODE(s, p, pawl_delete(p, pawl_work_run_id(work), 1), PAWL_OK);
    stage_note(s, "deleted");
    return input;
}

static const char *is_deleted(pawl_run *run, const char *input)
{
    pawl_call(run, "deletes", input, NULL);
    pawl_call(run, "after", input, NULL);
    return input;
}

static void while_it_works(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s);
    atomic_store(stage_number(s, 0), (int64_t)(uintptr_t)p);
    STAGE_REGISTER(s, p, is_deleted);
    STAGE_CODE(s, p, pawl_register_work(p, "deletes", deletes, PAWL_WORK(.arg = s)), PAWL_OK);
    STAGE_CODE(s, p, pawl_register_work(p, "after", stage_echo, PAWL_WORK(.arg = s)), PAWL_OK);
    stage_start(s, p, "is_deleted", "run", "1");
    for (int i = 0; i < 5; i++) {
        stage_poll(s, p);
        stage_advance(s, 2000);
    }
    gone(s, p, "run");
    STAGE_NOTES(s, "deleted"); /* and nothing after it */
    if (c->promises & DB_SHARED)
        assert_int_equal(rows(c), 0);
    stage_start(s, p, "kid", "two", "9");
    STAGE_DONE(s, p, "two", "9");
    pawl_close(p);
    stage_free(s);
}

/* Held ones are live. */
static void held_ones(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s);
    stage_start(s, p, "unknown", "run", "1");
    STAGE_HELD(s, p, "run", "no node");
    STAGE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_REFUSED);
    STAGE_CODE(s, p, pawl_delete(p, "run", 1), PAWL_OK);
    gone(s, p, "run");
    assert_int_equal(rows(c), 0);
    pawl_close(p);
    stage_free(s);
}

/* Its parent was deleted while it was being started: nobody else could delete it. */
static void an_orphan(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s);
    stage_start(s, p, "kid", "run", "1");
    STAGE_DONE(s, p, "run", "1");
    db *d = conf_open(c, NULL);
    conf_script(d, "UPDATE {runs} SET parent = 99999, parent_generation = 1, parent_op = 2");
    db_close(d);
    STAGE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_OK);
    gone(s, p, "run");
    pawl_close(p);
    stage_free(s);
}

/* Another tenant's run is not there. */
static void other_tenants(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s);
    pawl *q = stage_open(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .tenant = "other"});
    stage_start(s, p, "kid", "run", "1");
    STAGE_DONE(s, p, "run", "1");
    STAGE_CODE(s, q, pawl_delete(q, "run", 1), PAWL_NOTFOUND);
    STAGE_CODE(s, q, pawl_delete(q, NULL, 1), PAWL_INVALID);
    STAGE_CODE(s, q, pawl_delete(q, "", 1), PAWL_INVALID);
    assert_int_equal(stage_phase(s, p, "run"), PAWL_RUN_DONE);
    pawl_close(q);
    pawl_close(p);
    stage_free(s);
}

/* Nobody but pawl writes there; but if somebody does, nobody waits for ever. */
static void their_own_ancestors(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s);
    stage_start(s, p, "kid", "one", "1");
    stage_start(s, p, "kid", "two", "1");
    STAGE_DONE(s, p, "one", "1");
    STAGE_DONE(s, p, "two", "1");
    conf_script(handle_db(p), "UPDATE {runs} SET parent = (SELECT r.run FROM {runs} r"
                              " WHERE r.id <> {runs}.id), parent_generation = 1, parent_op = 1;");
    STAGE_CODE(s, p, pawl_delete(p, "one", 0), PAWL_REFUSED);
    STAGE_CODE(s, p, pawl_delete(p, "two", 1), PAWL_REFUSED);
    conf_script(handle_db(p), "UPDATE {runs} SET phase = 0, wake_at = 0 WHERE id = 'one';");
    pawl_finish(p, "one", 0, NULL); /* its family is looked for */
    pawl_close(p);
    stage_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-deletion nothing is left", nothing_is_left, DB_SHARED},
        {"dx-deletion live ones", live_ones, DB_SHARED},
        {"dx-deletion while it works", while_it_works, 0},
        {"dx-deletion held ones", held_ones, DB_SHARED},
        {"an orphan", an_orphan, DB_SHARED},
        {"their own ancestors", their_own_ancestors, DB_SHARED},
        {"other tenants", other_tenants, DB_SHARED},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
