/* Starts and messages in transactions of the application: they happen if and when it commits, and
 * what cannot happen any more stays to be seen. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "handle/handle.h"
#include "rows/run_units.h"
#include "support/outbox_fixture.h"

#define FAILED(x, why)                                                                             \
    outbox_fixture_rows((x).p, "{outbox}", "failed = 1 AND failed_why LIKE '" why "%'")
#define RUNS(x) outbox_fixture_rows((x).p, "{runs}", "1 = 1")

static int64_t number(pawl *p, const char *text)
{
    db_sql sql = {text, ""};
    return conf_number(handle_db(p), &sql, NULL, 0);
}

/* ---- Commit and rollback ---- */

static void a_start_takes_effect_with_the_commit(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    BEGIN(x);
    app_do(x.a, "INSERT INTO orders VALUES (1)");
    assert_int_equal(START_IN(x, "waiting", "a", "1", PAWL_OK), 1);
    assert_int_equal(SEND_IN(x, "a", "\"m\"", NULL, PAWL_OK), 0);
    FLUSH(x);
    assert_int_equal(RUNS(x), 0);
    COMMIT(x);
    assert_int_equal(RUNS(x), 0);
    FLUSH(x);
    assert_int_equal(RUNS(x), 1);
    assert_int_equal(MESSAGES(x), 1);
    assert_int_equal(LEFT(x), 0);
    FLUSH(x);
    assert_int_equal(RUNS(x), 1);
    assert_int_equal(MESSAGES(x), 1);
    FIXTURE_DONE(x.s, x.p, "a", "1");
    outbox_fixture_close(&x);
}

static void a_start_has_no_effect_without_the_commit(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    BEGIN(x);
    app_do(x.a, "INSERT INTO orders VALUES (1)");
    START_IN(x, "waiting", "a", "1", PAWL_OK);
    SEND_IN(x, "a", "1", NULL, PAWL_OK);
    app_do(x.a, "ROLLBACK");
    FLUSH(x);
    assert_int_equal(RUNS(x), 0);
    assert_int_equal(LEFT(x), 0);
    assert_int_equal(app_number(x.a, "SELECT count(*) FROM orders"), 0);
    outbox_fixture_close(&x);
}

static const char *receiver(pawl_run *run, const char *input)
{
    const char *first, *second;
    (void)input;
    pawl_receive(run, "box", PAWL_FOREVER, &first);
    pawl_receive(run, "box", PAWL_FOREVER, &second);
    return pawl_json(run, "[%j,%j]", first, second);
}

/* What was moved is received, and in the order in which it was written. */
static void a_run_gets_its_messages(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    FIXTURE_REGISTER(x.s, x.p, receiver);
    BEGIN(x);
    START_IN(x, "receiver", "a", "null", PAWL_OK);
    SEND_IN(x, "a", "1", NULL, PAWL_OK);
    SEND_IN(x, "a", "2", NULL, PAWL_OK);
    COMMIT(x);
    FIXTURE_DONE(x.s, x.p, "a", "[1,2]");
    outbox_fixture_close(&x);
}

/* Without a flush a node does it. */
static void a_node_delivers_within_a_second(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    fixture_poll(x.s, x.p);
    BEGIN(x);
    START_IN(x, "quick", "a", "7", PAWL_OK);
    COMMIT(x);
    int64_t from = fixture_now(x.s);
    FIXTURE_UNTIL(x.s, x.p, LEFT(x) == 0);
    assert_in_range(fixture_now(x.s) - from, 0, 1100);
    FIXTURE_DONE(x.s, x.p, "a", "7");
    outbox_fixture_close(&x);
}

/* ---- What can be seen at once ---- */

static void errors_are_answered_at_once(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    fixture_start(x.s, x.p, "waiting", "live", "1");
    fixture_start(x.s, x.p, "quick", "ended", "1");
    FIXTURE_CODE(x.s, x.p, pawl_send(x.p, "ended", "box", "1", PAWL_SEND(.key = "old")), PAWL_OK);
    FIXTURE_DONE(x.s, x.p, "ended", "1");
    BEGIN(x);
    assert_int_equal(START_IN(x, "waiting", "live", "1", PAWL_OK), 0);
    START_IN(x, "waiting", "live", "2", PAWL_CONFLICT);
    START_IN(x, "quick", "live", "1", PAWL_CONFLICT);
    assert_int_equal(START_IN(x, "quick", "ended", "1", PAWL_OK), 0);
    SEND_IN(x, "nobody", "1", NULL, PAWL_NOTFOUND);
    SEND_IN(x, "ended", "1", NULL, PAWL_ENDED);
    SEND_IN(x, "ended", "1", "new", PAWL_ENDED);
    assert_int_equal(SEND_IN(x, "ended", "1", "old", PAWL_OK), 1);
    SEND_IN(x, "ended", "2", "old", PAWL_CONFLICT);
    app_do(x.a, "INSERT INTO orders VALUES (1)"); /* the transaction goes on */
    COMMIT(x);
    assert_int_equal(LEFT(x), 0);
    assert_int_equal(FAILED(x, ""), 0);
    assert_int_equal(app_number(x.a, "SELECT count(*) FROM orders"), 1);
    outbox_fixture_close(&x);
}

/* Earlier rows of the outbox count as if they had happened. */
static void a_transaction_sees_its_own_starts_and_messages(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    BEGIN(x);
    SEND_IN(x, "a", "1", NULL, PAWL_NOTFOUND);
    assert_int_equal(START_IN(x, "waiting", "a", "1", PAWL_OK), 1);
    assert_int_equal(START_IN(x, "waiting", "a", "1", PAWL_OK), 0);
    START_IN(x, "waiting", "a", "2", PAWL_CONFLICT);
    SEND_IN(x, "a", "1", "k", PAWL_OK);
    SEND_IN(x, "a", "1", "k", PAWL_OK);
    SEND_IN(x, "a", "2", "k", PAWL_CONFLICT);
    SEND_IN(x, "a", "2", "l", PAWL_OK);
    COMMIT(x);
    assert_int_equal(LEFT(x), 3);
    FLUSH(x);
    assert_int_equal(RUNS(x), 1);
    assert_int_equal(MESSAGES(x), 2);
    BEGIN(x);
    assert_int_equal(SEND_IN(x, "a", "2", "l", PAWL_OK), 2);
    COMMIT(x);
    assert_int_equal(LEFT(x), 0);
    outbox_fixture_close(&x);
}

static double cpu_of_keys(const outbox_fixture *x, int from, int to)
{
    clock_t began = clock();
    for (int i = from; i < to; i++) {
        char key[32];
        snprintf(key, sizeof key, "k%d", i);
        outbox_fixture_send_in((outbox_fixture *)x, "a", "1", key, PAWL_OK, __LINE__);
    }
    return (double)(clock() - began) / CLOCKS_PER_SEC;
}

/* That a key is new is not asked of each row that waits for the same run. */
static void keys_cost_no_more_when_many_wait(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    fixture_start(x.s, x.p, "waiting", "a", "1");
    BEGIN(x);
    double few = cpu_of_keys(&x, 0, 500);
    cpu_of_keys(&x, 500, 3500);
    double many = cpu_of_keys(&x, 3500, 4000);
    if (many > 3 * few + 0.2)
        fail_msg("the first took %.3f s, those behind many %.3f s", few, many);
    app_do(x.a, "ROLLBACK");
    outbox_fixture_close(&x);
}

/* ---- Connections ---- */

static void only_inside_a_transaction(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    fixture_start(x.s, x.p, "waiting", "a", "1");
    START_IN(x, "waiting", "b", "1", PAWL_MISUSE);
    assert_true(pawl_errhint(x.p)[0]);
    SEND_IN(x, "a", "1", NULL, PAWL_MISUSE);
    FIXTURE_CODE(x.s, x.p, pawl_start_in(x.p, NULL, "waiting", "b", "1", NULL), PAWL_INVALID);
    FIXTURE_CODE(x.s, x.p, pawl_send_in(x.p, NULL, "a", "box", "1", NULL), PAWL_INVALID);
    if (!(c->promises & DB_FILE)) { /* there an error costs the transaction */
        BEGIN(x);
        assert_false(app_try(x.a, "SELECT nonsense"));
        START_IN(x, "waiting", "b", "1", PAWL_MISUSE);
        app_do(x.a, "ROLLBACK");
    }
    assert_int_equal(LEFT(x), 0);
    outbox_fixture_close(&x);
}

/* Where the other database is, for those that a test makes beside its own. */
static void other_url(conf *c, char out[PGSERVER_URL])
{
    char name[PGSERVER_NAME];
    if (c->server) {
        pgserver_database(c->server, name);
        pgserver_url(c->server, name, out);
    } else {
        snprintf(out, PGSERVER_URL, "%.200s/other.db", c->dir);
    }
}

static void only_on_the_same_database(conf *c)
{
    char url[PGSERVER_URL];
    pawl *other;
    outbox_fixture x = outbox_fixture_open(c);
    other_url(c, url);
    app *mine = x.a;
    x.a = app_open_url(c, url);
    for (int with_tables = 0; with_tables < 2; with_tables++) {
        BEGIN(x);
        START_IN(x, "waiting", "a", "1", PAWL_INVALID);
        app_do(x.a, with_tables ? "INSERT INTO t VALUES (1)" : "CREATE TABLE t (n INTEGER)");
        COMMIT(x);
        if (with_tables)
            break;
        assert_int_equal(pawl_open(&other, url, PAWL_OPTIONS(.switch_to_wal = 1)), PAWL_OK);
        pawl_close(other);
    }
    assert_int_equal(app_number(x.a, "SELECT count(*) FROM t"), 1);
    app_close(x.a);
    x.a = mine;
    assert_int_equal(LEFT(x), 0);
    outbox_fixture_close(&x);
}

static void hostile_rows(conf *c)
{
    static char name[PAWL_MAX_ID + 2];
    outbox_fixture x = outbox_fixture_open(c);
    memset(name, 'n', sizeof name - 1);
    BEGIN(x);
    START_IN(x, "waiting", NULL, "1", PAWL_INVALID);
    START_IN(x, "waiting", name, "1", PAWL_LIMIT);
    START_IN(x, "pawl.x", "a", "1", PAWL_INVALID);
    START_IN(x, "waiting", "\xff", "1", PAWL_INVALID);
    START_IN(x, "waiting", "a", "{", PAWL_INVALID);
    START_IN(x, "waiting", "a", NULL, PAWL_INVALID);
    SEND_IN(x, "a", "", NULL, PAWL_INVALID);
    SEND_IN(x, "a", "1", "", PAWL_INVALID);
    SEND_IN(x, "a", "1", name, PAWL_LIMIT);
    START_IN(x, "waiting", "'); DROP TABLE pawl_outbox; --", "\"\\u001e\"", PAWL_OK);
    START_IN(x, "waiting", name + 1, "1", PAWL_OK);
    COMMIT(x);
    FLUSH(x);
    assert_int_equal(RUNS(x), 2);
    assert_int_equal(pawl_start_in(NULL, NULL, "w", "a", "1", NULL), PAWL_INVALID);
    assert_int_equal(pawl_send_in(NULL, NULL, "a", "b", "1", NULL), PAWL_INVALID);
    assert_int_equal(pawl_outbox_flush(NULL), PAWL_INVALID);
    outbox_fixture_close(&x);
}

/* ---- What is carried ---- */

static void options_arrive(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    BEGIN(x);
    FIXTURE_CODE(
        x.s, x.p,
        pawl_start_in(x.p, app_native(x.a), "waiting", "a", "1",
                      PAWL_START(.version = "v \"7\"", .delay_ms = 5000, .deadline_ms = 9000,
                                 .attributes = "{\n \"city\": \"K\xc3\xb6ln\", \"n\": 3}")),
        PAWL_OK);
    COMMIT(x);
    int64_t from = fixture_now(x.s);
    fixture_advance(x.s, 1000);
    FLUSH(x);
    assert_int_equal(number(x.p, "SELECT wake_at FROM {runs}"), from + 5000);
    assert_int_equal(number(x.p, "SELECT deadline_at FROM {runs}"), from + 9000);
    assert_int_equal(number(x.p, "SELECT created_at FROM {runs}"), from + 1000);
    assert_int_equal(outbox_fixture_rows(x.p, "{runs}", "version = 'v \"7\"'"), 1);
    assert_int_equal(
        outbox_fixture_rows(x.p, "{attributes}", "name = 'city' AND value = 'K\xc3\xb6ln'"), 1);
    assert_int_equal(outbox_fixture_rows(x.p, "{attributes}", "1 = 1"), 2);
    outbox_fixture_close(&x);
}

static void a_message_brings_its_run(conf *c)
{
    char large[4000];
    outbox_fixture x = outbox_fixture_open(c);
    memset(large, ' ', sizeof large);
    large[0] = '5';
    large[sizeof large - 1] = '\0';
    BEGIN(x);
    for (int i = 0; i < 2; i++)
        FIXTURE_CODE(x.s, x.p,
                     pawl_send_in(x.p, app_native(x.a), "a", "box", i ? "2" : "1",
                                  PAWL_SEND(.key = i ? "k" : NULL, .start = "waiting",
                                            .start_input = i ? "6" : large,
                                            .start_options = PAWL_START(.attributes = "{\n}"))),
                     PAWL_OK);
    SEND_IN(x, "a", "3", NULL, PAWL_OK); /* it will be there by then */
    COMMIT(x);
    FLUSH(x);
    assert_int_equal(RUNS(x), 1);
    assert_int_equal(MESSAGES(x), 3);
    assert_int_equal(LEFT(x), 0);
    assert_int_equal(FAILED(x, ""), 0);
    FIXTURE_DONE(x.s, x.p, "a", large);
    outbox_fixture_close(&x);
}

/* ---- What turns out wrong later ---- */

static void what_fails_later_stays_and_blocks_no_other_row(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    fixture_start(x.s, x.p, "quick", "ends", "1");
    BEGIN(x);
    SEND_IN(x, "ends", "1", NULL, PAWL_OK);
    START_IN(x, "waiting", "taken", "1", PAWL_OK);
    START_IN(x, "waiting", "same", "1", PAWL_OK);
    START_IN(x, "waiting", "good", "1", PAWL_OK);
    SEND_IN(x, "good", "1", "k", PAWL_OK);
    COMMIT(x);
    conf_script(handle_db(x.p), "UPDATE {runs} SET phase = 1, wake_at = NULL");
    fixture_start(x.s, x.p, "waiting", "taken", "2");
    fixture_start(x.s, x.p, "waiting", "same", "1");
    conf_script(handle_db(x.p), "INSERT INTO {outbox} (tenant, kind, target, name, at, data)"
                                " VALUES ('', 9, 'x', 'y', 1, NULL)");
    FLUSH(x);
    assert_int_equal(LEFT(x), 0);
    assert_int_equal(FAILED(x, ""), 3);
    assert_int_equal(FAILED(x, "PAWL_ENDED: "), 1);
    assert_int_equal(FAILED(x, "PAWL_CONFLICT: "), 1);
    assert_int_equal(FAILED(x, "PAWL_INVALID: "), 1);
    assert_int_equal(outbox_fixture_rows(x.p, "{runs}", "id = 'good'"), 1);
    assert_int_equal(MESSAGES(x), 1);
    BEGIN(x); /* and they are in the way of no other row */
    START_IN(x, "waiting", "next", "1", PAWL_OK);
    COMMIT(x);
    FLUSH(x);
    assert_int_equal(FAILED(x, ""), 3);
    assert_int_equal(outbox_fixture_rows(x.p, "{runs}", "id = 'next'"), 1);
    outbox_fixture_close(&x);
}

/* Deleted before it was moved: a message without a run. */
static void a_message_without_a_run_fails(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    fixture_start(x.s, x.p, "waiting", "a", "1");
    BEGIN(x);
    SEND_IN(x, "a", "1", NULL, PAWL_OK);
    COMMIT(x);
    conf_script(handle_db(x.p), "DELETE FROM {runs}");
    FLUSH(x);
    assert_int_equal(FAILED(x, "PAWL_NOTFOUND: "), 1);
    outbox_fixture_close(&x);
}

static void count_failed(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    if (strcmp(event, "outbox-failed") == 0 && strstr(fields, "code=PAWL_NOTFOUND"))
        atomic_fetch_add(fixture_number(arg, 0), 1);
}

/* Then the log does not tell of it: the row is tried again. */
static void a_dead_letter_that_is_not_durable(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    pawl *p = fixture_open(x.s, PAWL_OPTIONS(.threads = -1, .log = count_failed, .log_arg = x.s));
    fixture_start(x.s, x.p, "waiting", "a", "1");
    BEGIN(x);
    SEND_IN(x, "a", "1", NULL, PAWL_OK);
    COMMIT(x);
    conf_script(handle_db(x.p), "DELETE FROM {runs}");
    conf_change(c,
                "CREATE TRIGGER keep BEFORE UPDATE ON pawl_outbox"
                " BEGIN SELECT RAISE(ABORT, 'not now'); END",
                "CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " RAISE EXCEPTION 'not now'; END $$; CREATE TRIGGER keep BEFORE UPDATE"
                " ON pawl.outbox FOR EACH ROW EXECUTE FUNCTION public.keep()");
    FIXTURE_CODE(x.s, p, pawl_outbox_flush(p), PAWL_DATA);
    assert_int_equal(atomic_load(fixture_number(x.s, 0)), 0);
    conf_change(c, "DROP TRIGGER keep", "DROP TRIGGER keep ON pawl.outbox");
    FIXTURE_CODE(x.s, p, pawl_outbox_flush(p), PAWL_OK);
    assert_int_equal(FAILED(x, "PAWL_NOTFOUND: "), 1);
    assert_int_equal(atomic_load(fixture_number(x.s, 0)), 1);
    pawl_close(p);
    outbox_fixture_close(&x);
}

/* ---- Order ---- */

/* Where several write at a time a row may become visible behind larger ones. */
static void late_rows_are_not_skipped(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    outbox_fixture late = x;
    late.a = app_open(c);
    BEGIN(late);
    START_IN(late, "waiting", "late", "1", PAWL_OK);
    BEGIN(x);
    START_IN(x, "waiting", "early", "1", PAWL_OK);
    COMMIT(x);
    FLUSH(x);
    assert_int_equal(RUNS(x), 1);
    COMMIT(late);
    FLUSH(x);
    assert_int_equal(RUNS(x), 2);
    app_close(late.a);
    outbox_fixture_close(&x);
}

static void late_rows(conf *c)
{
    if (c->promises & DB_TURNS)
        skip();
    late_rows_are_not_skipped(c);
}

/* ---- In memory, where the handle is pawl's own ---- */

static int note_native(void *native, void *arg)
{
    *(void **)arg = native;
    return 0;
}

static void the_outbox_of_a_database_in_memory(conf *c)
{
    if (c->promises & DB_SHARED)
        skip();
    void *native = NULL;
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(
        s, PAWL_OPTIONS(.threads = -1, .on_connect = note_native, .on_connect_arg = &native));
    fixture_register(s, p, "quick", outbox_fixture_quick);
    FIXTURE_CODE(s, p, pawl_start_in(p, native, "quick", "a", "1", NULL), PAWL_MISUSE);
    assert_int_equal(sqlite3_exec(native, "BEGIN", NULL, NULL, NULL), SQLITE_OK);
    FIXTURE_CODE(s, p, pawl_start_in(p, native, "quick", "a", "1", NULL), PAWL_OK);
    assert_int_equal(sqlite3_exec(native, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    FIXTURE_CODE(s, p, pawl_outbox_flush(p), PAWL_OK);
    FIXTURE_DONE(s, p, "a", "1");
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    enum { NEEDS = DB_SHARED };
    static const conf_case CASES[] = {
        {"a start takes effect with the commit", a_start_takes_effect_with_the_commit, NEEDS},
        {"a start has no effect without the commit", a_start_has_no_effect_without_the_commit,
         NEEDS},
        {"a run gets its messages", a_run_gets_its_messages, NEEDS},
        {"a node delivers within a second", a_node_delivers_within_a_second, NEEDS},
        {"errors are answered at once", errors_are_answered_at_once, NEEDS},
        {"a transaction sees its own starts and messages",
         a_transaction_sees_its_own_starts_and_messages, NEEDS},
        {"keys cost no more when many wait", keys_cost_no_more_when_many_wait, NEEDS},
        {"only inside a transaction", only_inside_a_transaction, NEEDS},
        {"only on the same database", only_on_the_same_database, NEEDS},
        {"hostile rows", hostile_rows, NEEDS},
        {"options arrive", options_arrive, NEEDS},
        {"a message brings its run", a_message_brings_its_run, NEEDS},
        {"what fails later stays and blocks no other row",
         what_fails_later_stays_and_blocks_no_other_row, NEEDS},
        {"a message without a run fails", a_message_without_a_run_fails, NEEDS},
        {"a dead letter that is not durable", a_dead_letter_that_is_not_durable, NEEDS},
        {"late rows are not skipped", late_rows, NEEDS},
        {"the outbox of a database in memory", the_outbox_of_a_database_in_memory, 0},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
