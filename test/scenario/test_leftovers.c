/* Deleting by force what is being driven: nothing of the family stays, neither rows that its driver
 * writes until its next park, nor children that it starts meanwhile; and what older versions have
 * left is swept up, while everything that belongs to a run stays. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "handle/handle.h"
#include "support/served_fixture.h"

static const char *const TABLES[] = {"{runs}",     "{journal}",    "{generations}", "{inbox}",
                                     "{receipts}", "{attributes}", "{state}",       "{tasks}"};
enum { TABLE_COUNT = sizeof TABLES / sizeof *TABLES };

/* Rows of all tables that belong to runs. */
static int64_t rows(pawl *p)
{
    int64_t count = 0;
    for (size_t i = 0; i < TABLE_COUNT; i++) {
        char text[64];
        snprintf(text, sizeof text, "SELECT count(*) FROM %s", TABLES[i]);
        const db_sql sql = {text, ""};
        count += conf_number(handle_db(p), &sql, NULL, 0);
    }
    return count;
}

/* Another engine deletes the run while its work function is being called. */
static const char *is_deleted(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    pawl *other = (pawl *)(uintptr_t)atomic_load(fixture_number(s, 0));
    FIXTURE_CODE(s, other, pawl_delete(other, pawl_work_run_id(work), 1), PAWL_OK);
    return input;
}

static const char *sleeps(pawl_run *run, const char *input)
{
    pawl_attr(run, "colour", "\"red\"");
    pawl_state_set(run, "key", "1");
    pawl_child_later(run, "forever", input, NULL);
    pawl_sleep(run, PAWL_HOURS(1));
    return input;
}

static const char *forever(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_FOREVER);
    return input;
}

static const char *below(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_SECONDS(30));
    return input;
}

/* It goes on for a while after it was deleted: all of this is written before it is parked. */
static const char *goes_on(pawl_run *run, const char *input)
{
    pawl_child_later(run, "sleeps", input, NULL);
    FIXTURE_STEP(run, "delete", is_deleted, input);
    pawl_attr(run, "colour", "\"red\"");
    pawl_state_set(run, "key", "1");
    pawl_child_later(run, "sleeps", input, PAWL_CHILD(.id = "late"));
    pawl_child_later(run, "sleeps", input, NULL);
    for (int i = 0; i < 5; i++)
        FIXTURE_ECHO(run, "step", input);
    pawl_sleep(run, PAWL_HOURS(1));
    return input;
}

static pawl *open_here(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, sleeps);
    FIXTURE_REGISTER(s, p, below);
    FIXTURE_REGISTER(s, p, forever);
    FIXTURE_REGISTER(s, p, goes_on);
    return p;
}

/* The driver does not know of the deletion until it is refused. Then it sweeps up with its next
 * look, while the walk rests. */
static void a_run_that_is_refused_to_its_owner_is_noted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s), *other = fixture_open(s, NULL);
    atomic_store(fixture_number(s, 0), (int64_t)(uintptr_t)other);
    fixture_start(s, p, "below", "before", "1");
    fixture_poll(s, p);
    fixture_advance(s, 5000); /* a new node claims first */
    fixture_poll(s, p);       /* it is a node, and has walked through all tables */
    FIXTURE_CODE(s, p, pawl_delete(p, "before", 1), PAWL_OK);
    fixture_poll(s, p);
    assert_int_equal(rows(p), 0);
    fixture_start(s, p, "goes_on", "run", "1");
    int64_t from = fixture_now(s);
    FIXTURE_UNTIL(s, p, rows(p) == 0);
    assert_in_range(fixture_now(s) - from, 0, 60000);
    /* The case is what it says; threads may hear of the deletion before the next step. */
    assert_in_range(fixture_count(s, "step"), FIXTURE_WARM && !fixture_serves(), 5);
    fixture_start(s, p, "below", "run", "9"); /* the id is free, and its rows stay */
    FIXTURE_DONE(s, p, "run", "9");
    pawl_close(other);
    pawl_close(p);
    fixture_free(s);
}

/* It starts children and does steps, for long. */
static const char *busy(pawl_run *run, const char *input)
{
    for (int i = 0; i < 1000; i++) {
        pawl_child_later(run, "forever", input, NULL);
        FIXTURE_ECHO(run, "step", input);
        pawl_sleep(run, 1);
    }
    return input;
}

/* Deleted anywhere in that, by another engine, while threads drive it. */
static void leftovers_of_a_run_that_threads_drive(conf *c)
{
    enum { RUNS = 4, ROUNDS = 3 };
    pthread_t thread;
    void *wrong;
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 2));
    pawl *other = fixture_open(s, PAWL_OPTIONS(.threads = 1));
    FIXTURE_REGISTER(s, p, busy);
    FIXTURE_REGISTER(s, p, forever);
    assert_int_equal(pthread_create(&thread, NULL, fixture_serve, p), 0);
    for (int i = 0; i < RUNS * ROUNDS; i++) {
        char id[16];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, other, "busy", id, "1");
        if (i % RUNS != RUNS - 1)
            continue;
        TMP_AWAIT(rows(other) > 40);
        for (int j = i - RUNS + 1; j <= i; j++) {
            snprintf(id, sizeof id, "run-%d", j);
            FIXTURE_CODE(s, other, pawl_delete(other, id, 1), PAWL_OK);
        }
    }
    TMP_AWAIT(rows(other) == 0);
    pawl_stop(p);
    pthread_join(thread, &wrong);
    assert_null(wrong);
    pawl_close(other);
    pawl_close(p);
    fixture_free(s);
}

/* The engine is told to stop as well, and the function returns when it does. */
static const char *is_deleted_at_a_stop(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    is_deleted(work, input);
    atomic_store(fixture_number(s, 1), 1);
    while (!atomic_load(fixture_number(s, 2)))
        poll(NULL, 0, 1);
    return input;
}

static const char *is_stopped(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "delete", is_deleted_at_a_stop, input);
    return FIXTURE_ECHO(run, "step", input);
}

/* The stop comes between the deletion and the next unit that the run would have been refused: the
 * last row of it is committed, and no unit tells of the deletion. The engine serves again while the
 * walk would still rest, as the row of a table that it goes through last has shown. */
static void what_a_stop_has_dropped(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    engine_fixture *s = v.fixture;
    pawl *other = fixture_open(s, PAWL_OPTIONS(.threads = 1));
    atomic_store(fixture_number(s, 0), (int64_t)(uintptr_t)other);
    FIXTURE_REGISTER(s, v.p, is_stopped);
    conf_script(handle_db(other),
                "INSERT INTO {tasks} (tenant, queue, run, generation, op, attempt,"
                " name, visible_at, at) VALUES ('', 'q', 900001, 1, 2, 1, 'w', 0,"
                " 0)");
    served_begin(&v);
    TMP_AWAIT(rows(other) == 0);
    fixture_start(s, other, "is_stopped", "run", "1");
    TMP_AWAIT(atomic_load(fixture_number(s, 1)));
    served_stop_and_set(&v, 2);
    assert_int_equal(rows(other), 1);
    assert_int_equal(fixture_count(s, "step"), 0);
    served_begin(&v);
    TMP_AWAIT(rows(other) == 0);
    pawl_close(other);
    served_end(&v);
}

/* A child that is started while its parent is being deleted: the trigger stands for the driver. */
static void what_is_started_meanwhile(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "forever", "run", "1");
    fixture_poll(s, p);
    if (strcmp(c->backend, "postgres") != 0)
        conf_script(handle_db(p),
                    "CREATE TRIGGER starts AFTER DELETE ON {runs} WHEN old.id IN ('run', 'late')"
                    " BEGIN INSERT INTO {runs} (run, tenant, id, workflow, version, created_at,"
                    " updated_at, parent, parent_generation, parent_op) VALUES (old.run + 100000,"
                    " '', CASE old.id WHEN 'run' THEN 'late' ELSE 'last' END, 'forever', '1', 0, 0,"
                    " old.run, 1, 2); END");
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 1), PAWL_OK);
    assert_int_equal(rows(p), 0);
    pawl_close(p);
    fixture_free(s);
}

/* Families with rows in every table, children of children, and more than two pages of them. */
static void what_older_versions_have_left(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "sleeps", "good", "1");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_send(p, "good", "box", "1", PAWL_SEND(.key = "k")), PAWL_OK);
    fixture_poll(s, p);
    int64_t before = rows(p);
    static const char *const LEFT[] = {
        "{journal} (run, generation, seq, kind, op, name, at) SELECT n, 1, 2, 8, 0, '', 0",
        "{generations} (run, generation, version, phase, started_at, finished_at)"
        " SELECT n, 1, '1', 5, 0, 0",
        "{inbox} (run, seq, kind, name, at) SELECT n, 1, 1, 'box', 0",
        "{receipts} (run, key, kind, seq, at) SELECT n, 'k', 1, 1, 0",
        "{attributes} (run, name, kind, value) SELECT n, 'colour', 1, 'red'",
        "{state} (run, key, generation, at) SELECT n, 'key', 1, 0",
        "{tasks} (tenant, queue, run, generation, op, attempt, name, visible_at, at)"
        " SELECT '', 'q', n, 1, 2, 1, 'w', 0, 0",
        "{runs} (run, tenant, id, workflow, version, created_at, updated_at, parent,"
        " parent_generation, parent_op) SELECT n + 1000, '', 'child-' || n, 'gone', '1', 0, 0, n,"
        " 1, 2",
        "{runs} (run, tenant, id, workflow, version, created_at, updated_at, parent,"
        " parent_generation, parent_op) SELECT n + 2000, '', 'below-' || n, 'gone', '1', 0, 0,"
        " n + 1000, 1, 2",
        "{runs} (run, tenant, id, workflow, version, created_at, updated_at, parent,"
        " parent_generation, parent_op) SELECT n + 3000, '', 'alone-' || n, 'gone', '1', 0, 0,"
        " n + 50000, 1, 2"};
    for (size_t i = 0; i < sizeof LEFT / sizeof *LEFT; i++) {
        char text[600];
        const char *select = strstr(LEFT[i], " SELECT");
        snprintf(text, sizeof text,
                 "INSERT INTO %.*s%s FROM (WITH RECURSIVE c (n) AS (SELECT 900001 UNION ALL"
                 " SELECT n + 1 FROM c WHERE n < 900080) SELECT n FROM c) x",
                 (int)(select - LEFT[i]), LEFT[i], select);
        conf_script(handle_db(p), text);
    }
    assert_int_equal(rows(p), before + 10 * 80);
    fixture_advance(s, 600000); /* the walk has rested enough */
    FIXTURE_UNTIL(s, p, rows(p) == before);
    FIXTURE_CODE(s, p, pawl_release(p, "good"), PAWL_OK);
    assert_int_equal(fixture_phase(s, p, "good"), PAWL_RUN_LIVE);
    pawl_close(p);
    fixture_free(s);
}

/* More rows than are deleted at once. */
static void a_long_journal_without_a_run_is_deleted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    conf_script(handle_db(p),
                "INSERT INTO {journal} (run, generation, seq, kind, op, name, at)"
                " SELECT 900001, 1, n, 8, 0, '', 0 FROM (WITH RECURSIVE c (n) AS (SELECT 2 UNION"
                " ALL SELECT n + 1 FROM c WHERE n < 12000) SELECT n FROM c) x");
    int64_t from = fixture_now(s);
    FIXTURE_UNTIL(s, p, rows(p) == 0);
    assert_in_range(fixture_now(s) - from, 0, 60000); /* and not with the next walk */
    pawl_close(p);
    fixture_free(s);
}

enum { STAYS = 1, DELETED };

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    if (strcmp(event, "leftovers-stay") == 0 && strstr(fields, "key=900001 code=PAWL_DATA"))
        atomic_fetch_add(fixture_number(arg, STAYS), 1);
    if (strcmp(event, "leftovers-deleted") == 0 && strstr(fields, "key=900001"))
        atomic_fetch_add(fixture_number(arg, DELETED), 1);
}

/* The log tells of it once, and once when they are gone. */
static void what_cannot_be_deleted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .log = hear, .log_arg = s));
    conf_script(handle_db(p), "INSERT INTO {journal} (run, generation, seq, kind, op, name, at)"
                              " VALUES (900001, 1, 2, 8, 0, '', 0)");
    conf_change(c,
                "CREATE TRIGGER keep BEFORE DELETE ON pawl_journal"
                " BEGIN SELECT RAISE(ABORT, 'not now'); END",
                "CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION 'not now'; END $$; CREATE TRIGGER keep BEFORE DELETE"
                " ON pawl.journal FOR EACH ROW EXECUTE FUNCTION public.keep()");
    for (int i = 0; i < 10; i++) {
        fixture_poll(s, p);
        fixture_advance(s, 1000);
    }
    assert_int_equal(atomic_load(fixture_number(s, STAYS)), 1);
    assert_int_equal(atomic_load(fixture_number(s, DELETED)), 0);
    conf_change(c, "DROP TRIGGER keep", "DROP TRIGGER keep ON pawl.journal");
    FIXTURE_UNTIL(s, p, atomic_load(fixture_number(s, DELETED)) == 1);
    assert_int_equal(rows(p), 0);
    assert_int_equal(atomic_load(fixture_number(s, STAYS)), 1);
    pawl_close(p);
    fixture_free(s);
}

/* What belongs to a run is not touched, however long the node lives. */
static void what_is_not_left_over(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    for (int i = 0; i < 20; i++) {
        char id[16];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, p, "sleeps", id, "1");
    }
    fixture_poll(s, p);
    int64_t before = rows(p);
    for (int i = 0; i < 300; i++) {
        fixture_advance(s, 1000);
        fixture_poll(s, p);
    }
    assert_int_equal(rows(p), before);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-deletion a run that is refused to its owner is noted",
         a_run_that_is_refused_to_its_owner_is_noted, DB_SHARED},
        {"dx-deletion leftovers of a run that threads drive", leftovers_of_a_run_that_threads_drive,
         DB_SHARED},
        {"what a stop has dropped", what_a_stop_has_dropped, DB_SHARED},
        {"what is started meanwhile", what_is_started_meanwhile, 0},
        {"what older versions have left", what_older_versions_have_left, 0},
        {"a long journal without a run is deleted", a_long_journal_without_a_run_is_deleted, 0},
        {"what cannot be deleted", what_cannot_be_deleted, DB_SHARED},
        {"what is not left over", what_is_not_left_over, 0},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
