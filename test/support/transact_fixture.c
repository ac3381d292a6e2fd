/* The tables of the application, made and read as an application would do it on each backend, and
 * the ways in which its function misbehaves. */
#include "support/transact_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

/* A server ends a transaction that is idle for a part of this time, as those are whose functions a
 * test keeps waiting; so it is long. */
enum { CLAIM_MS = 60000 };

/* ---- The application's own table ---- */

int transact_fixture_on_connect(void *native, void *arg)
{
    transact_fixture *s = arg;
    if (!s->conf->server)
        sqlite3_exec(native, "PRAGMA foreign_keys = on", NULL, NULL, NULL);
    if (strcmp(s->conf->backend, "memory") == 0)
        s->memory = native;
    return 0;
}

static sqlite3 *transact_fixture_handle(const transact_fixture *s)
{
    sqlite3 *handle = s->memory;
    if (!handle) {
        assert_int_equal(sqlite3_open(s->conf->url + strlen("sqlite:"), &handle), SQLITE_OK);
        sqlite3_busy_timeout(handle, 5000);
    }
    return handle;
}

int64_t transact_fixture_exec(const transact_fixture *s, const char *sql, int gives)
{
    if (s->conf->server && gives)
        return pgserver_number(s->conf->server, s->conf->database, sql);
    if (s->conf->server) {
        pgserver_exec(s->conf->server, s->conf->database, sql);
        return 0;
    }
    sqlite3 *handle = transact_fixture_handle(s);
    sqlite3_stmt *stmt;
    int64_t number = 0;
    assert_int_equal(sqlite3_prepare_v2(handle, sql, -1, &stmt, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(stmt), gives ? SQLITE_ROW : SQLITE_DONE);
    if (gives)
        number = sqlite3_column_int64(stmt, 0);
    sqlite3_finalize(stmt);
    if (handle != s->memory)
        sqlite3_close(handle);
    return number;
}

int64_t transact_fixture_orders(const transact_fixture *s)
{
    return transact_fixture_exec(s, "SELECT count(*) FROM orders", 1);
}

void transact_fixture_make_tables(const transact_fixture *s)
{
    transact_fixture_exec(s, "CREATE TABLE orders (number int PRIMARY KEY)", 0);
    transact_fixture_exec(s,
                          "CREATE TABLE lines (of_order int REFERENCES orders (number)"
                          " DEFERRABLE INITIALLY DEFERRED)",
                          0);
}

/* ---- The function ---- */

static int exec_sql(const transact_fixture *s, void *native, const char *sql)
{
    if (!s->conf->server)
        return sqlite3_exec(native, sql, NULL, NULL, NULL) == SQLITE_OK;
    PGresult *r = PQexec(native, sql);
    int ok = PQresultStatus(r) == PGRES_COMMAND_OK;
    PQclear(r);
    return ok;
}

static void leave_open(transact_fixture *s, void *native)
{
    if (s->conf->server) {
        PQsendQuery(native, "SELECT 1; SELECT 2");
        return;
    }
    assert_int_equal(sqlite3_prepare_v2(native, "SELECT 1 UNION SELECT 2", -1, &s->open, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s->open), SQLITE_ROW);
}

/* Three kinds of forbidden calls on a handle: one that writes, one that reads and one that
 * drives. */
static pawl_code call_pawl(pawl *p)
{
    pawl_info *info = NULL;
    pawl_code a = pawl_start(p, "ordering", "another", "1", NULL);
    pawl_code b = pawl_inspect(p, "run", &info), c = pawl_poll(p, NULL);
    pawl_code d = (pawl_close)(p);
    pawl_info_free(info);
    return a == b && b == c && c == d ? a : PAWL_INTERNAL;
}

static const char *go_wrong(transact_fixture *s, pawl_work *work, void *native)
{
    pawl *opened = NULL;
    switch (s->way) {
    case ORDER_FAILS:
        return pawl_work_fail(work, PAWL_TRANSIENT, "sold-out", "not today");
    case ORDER_FAILS_FOR_GOOD:
        return pawl_work_fail(work, PAWL_PERMANENT, "sold-out", "never again");
    case ORDER_GIVES_NULL:
        return NULL;
    case ORDER_GIVES_NO_JSON:
        return "{no";
    case ORDER_COMMITS:
        exec_sql(s, native, "COMMIT");
        break;
    case ORDER_ROLLS_BACK:
        exec_sql(s, native, "ROLLBACK");
        break;
    case ORDER_BEGINS_ANEW:
        exec_sql(s, native, "ROLLBACK");
        exec_sql(s, native, "BEGIN");
        break;
    case ORDER_LEAVES_OPEN:
        leave_open(s, native);
        break;
    case ORDER_CALLS_THIS:
        s->answered = call_pawl(s->engine);
        break;
    case ORDER_CALLS_ANOTHER:
        s->answered = call_pawl(s->other);
        break;
    case ORDER_CALLS_THE_RUN:
        s->answered = pawl_now(s->run) == 0 ? PAWL_MISUSE : PAWL_OK;
        break;
    case ORDER_OPENS:
        s->answered = pawl_open(&opened, "memory:", NULL);
        if (pawl_close(opened) != PAWL_OK)
            s->answered = PAWL_INTERNAL;
        break;
    case ORDER_IS_LATE:
        fixture_advance(s->fixture, 2 * s->attempt_ms);
        break;
    case ORDER_BREAKS_A_RULE:
        assert_true(exec_sql(s, native, "INSERT INTO lines VALUES (99999)"));
        break;
    case ORDER_DIES:
        raise(SIGKILL);
        break;
    case ORDER_LOSES_THE_COMMIT:
        s->plan.lose_commit = s->plan.commits + 1;
        break;
    case ORDER_WAITS:
        atomic_store(&s->waits, 1);
        TMP_AWAIT(!atomic_load(&s->waits) || pawl_work_cancelled(work));
        break;
    }
    return "\"went wrong\"";
}

const char *transact_fixture_take_order(pawl_work *work, void *native, const char *input)
{
    transact_fixture *s = pawl_work_arg(work);
    char sql[96];
    atomic_fetch_add(&s->calls, 1);
    if (s->fixture)
        fixture_note(s->fixture, "order");
    snprintf(sql, sizeof sql, "INSERT INTO orders VALUES (%s)", input);
    if (!exec_sql(s, native, sql))
        return pawl_work_fail(work, PAWL_PERMANENT, "sql", "the row is there already");
    if (pawl_work_attempt(work) <= s->times)
        return go_wrong(s, work, native);
    return pawl_work_json(work, "%" PRId64, pawl_work_attempt(work));
}

const char *transact_fixture_ordering(pawl_run *run, const char *input)
{
    transact_fixture *s = pawl_arg(run);
    if (s->way == ORDER_CALLS_THE_RUN)
        s->run = run;
    return pawl_transact(
        run, "order", transact_fixture_take_order, input,
        PAWL_CALL(.arg = s, .attempts = s->attempts, .attempt_ms = s->attempt_ms, .no_jitter = 1));
}

/* ---- The fixture ---- */

pawl *transact_fixture_open_engine(transact_fixture *s, int threads)
{
    pawl *p = fixture_open(s->fixture, PAWL_OPTIONS(.threads = threads,
                                                    .on_connect = transact_fixture_on_connect,
                                                    .on_connect_arg = s, .claim_ms = CLAIM_MS));
    FIXTURE_CODE(
        s->fixture, p,
        pawl_register_workflow(p, "ordering", transact_fixture_ordering, PAWL_WORKFLOW(.arg = s)),
        PAWL_OK);
    return p;
}

void transact_fixture_open(transact_fixture *s, const conf *c)
{
    *s = (transact_fixture){.conf = c, .fixture = fixture_new(c)};
    s->engine = transact_fixture_open_engine(s, -1);
    transact_fixture_make_tables(s);
}

void transact_fixture_close(transact_fixture *s)
{
    sqlite3_finalize(s->open);
    pawl_close(s->engine);
    pawl_close(s->other);
    fixture_free(s->fixture);
}
