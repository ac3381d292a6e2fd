/* The server that tests of PostgreSQL stand on, and the pooler before it.
 *
 * What is committed has to survive the ways in which a test ends the server; and the server has to
 * end, without a trace, with the test that started it, however that one ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/pgbouncer.h"

/* What a test has: a database of its own on one server for the program. */
typedef struct fixture {
    pgserver *server;
    char database[PGSERVER_NAME];
    char url[PGSERVER_URL];
} fixture;

static fixture *fixture_of(void **state)
{
    pgserver_need();
    fixture *g = *state;
    if (!g->server)
        g->server = pgserver_start(NULL);
    pgserver_database(g->server, g->database);
    pgserver_exec(g->server, g->database, "CREATE TABLE t (n int)");
    pgserver_url(g->server, g->database, g->url);
    return g;
}

static int set_up(void **state)
{
    *state = calloc(1, sizeof(fixture));
    return *state ? 0 : -1;
}

static int tear_down(void **state)
{
    fixture *g = *state;
    pgserver_free(g->server);
    free(g);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    tmp_watchdog("test_pgserver");
    return 0;
}

static int end(void **state)
{
    (void)state;
    tmp_watchdog(NULL);
    tmp_end_children();
    return 0;
}

static int64_t rows(fixture *g)
{
    return pgserver_number(g->server, g->database, "SELECT count(*) FROM t");
}

static void run(PGconn *c, const char *sql)
{
    PGresult *r = PQexec(c, sql);
    if (PQresultStatus(r) != PGRES_COMMAND_OK)
        fail_msg("%s", PQerrorMessage(c));
    PQclear(r);
}

/* A client in a transaction that has written a row. */
static PGconn *connect_and_write(fixture *g)
{
    PGconn *c = PQconnectdb(g->url);
    run(c, "BEGIN");
    run(c, "INSERT INTO t VALUES (1)");
    return c;
}

/* ---- The server ---- */

static void keeps_data_over_a_restart(void **state)
{
    fixture *g = fixture_of(state);
    pgserver_exec(g->server, g->database, "INSERT INTO t VALUES (1)");
    pgserver_stop(g->server, PGSERVER_FAST);
    assert_int_equal(pgserver_pid(g->server), 0);
    pgserver_restart(g->server);
    assert_int_equal(rows(g), 1);
    pgserver_restart(g->server);
    assert_int_equal(rows(g), 1);
}

static int all_gone(const pid_t *pids, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char path[64];
        char mark = 'Z'; /* its new parent may take its time */
        snprintf(path, sizeof path, "/proc/%ld/stat", (long)pids[i]);
        FILE *f = fopen(path, "r");
        if (!f)
            continue;
        int got = fscanf(f, "%*d (%*[^)]) %c", &mark);
        fclose(f);
        if (got == 1 && mark != 'Z' && mark != 'X')
            return 0;
    }
    return 1;
}

static void dies_and_recovers(void **state, pgserver_end how)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    run(c, "COMMIT");
    run(c, "BEGIN");
    run(c, "INSERT INTO t VALUES (2)");
    pid_t pids[] = {pgserver_pid(g->server), PQbackendPID(c)};
    pgserver_stop(g->server, how);
    TMP_AWAIT(all_gone(pids, 2));
    PQfinish(c);
    c = PQconnectdb(g->url);
    assert_int_equal(PQstatus(c), CONNECTION_BAD);
    PQfinish(c);
    pgserver_restart(g->server);
    assert_int_equal(rows(g), 1);
}

static void is_killed(void **state)
{
    static const char WORDS[] = "automatic recovery in progress";
    fixture *g = fixture_of(state);
    assert_false(pgserver_log_has(g->server, WORDS));
    dies_and_recovers(state, PGSERVER_KILL);
    assert_true(pgserver_log_has(g->server, WORDS));
}

static void is_stopped_at_once(void **state)
{
    dies_and_recovers(state, PGSERVER_IMMEDIATE);
}

static void takes_settings_and_tcp(void **state)
{
    (void)state;
    pgserver_need();
    static const char *const SETTINGS[] = {"max_connections=17", "deadlock_timeout=123ms", NULL};
    pgserver_options options = {.settings = SETTINGS, .tcp = 1};
    pgserver *s = pgserver_start(&options);
    assert_int_equal(pgserver_number(s, NULL, "SHOW max_connections"), 17);
    assert_int_equal(pgserver_number(s, NULL, "SHOW deadlock_timeout"), 123);
    assert_int_equal(pgserver_number(s, NULL, "SELECT (current_setting('fsync') = 'on')::int"), 1);
    char url[128];
    snprintf(url, sizeof url, "postgres://pawl@127.0.0.1:%d/postgres", pgserver_port(s));
    PGconn *c = PQconnectdb(url);
    assert_int_equal(PQstatus(c), CONNECTION_OK);
    PQfinish(c);
    pgserver_free(s);
}

static void makes_and_drops_databases(void **state)
{
    fixture *g = fixture_of(state);
    char name[PGSERVER_NAME];
    pgserver_database(g->server, name);
    assert_string_not_equal(name, g->database);
    PGconn *c = connect_and_write(g); /* is thrown out */
    pgserver_drop(g->server, g->database);
    PQfinish(c);
    c = PQconnectdb(g->url);
    assert_int_equal(PQstatus(c), CONNECTION_BAD);
    PQfinish(c);
    assert_int_equal(pgserver_number(g->server, name, "SELECT 5"), 5);
}

/* A test that is killed in the middle. */
static void start_and_wait(int in, int out, void *arg)
{
    pid_t *pid = arg;
    pgserver *s = pgserver_start(NULL);
    snprintf((char *)(pid + 1), TMP_PATH, "%s", pgserver_dir(s));
    *pid = pgserver_pid(s);
    tmp_tell(out, 'r');
    tmp_hear(in);
}

static void goes_with_its_test(void **state)
{
    (void)state;
    pgserver_need();
    pid_t *pid = tmp_shared(sizeof *pid + TMP_PATH);
    const char *dir = (const char *)(pid + 1);
    tmp_child c = tmp_fork(start_and_wait, pid);
    tmp_expect(&c, 'r');
    assert_int_equal(access(dir, F_OK), 0);
    tmp_kill(&c);
    TMP_AWAIT(all_gone(pid, 1));
    TMP_AWAIT(access(dir, F_OK) != 0);
    tmp_shared_free(pid, sizeof *pid + TMP_PATH);
}

/* ---- The pooler ---- */

static int64_t session_of(PGconn *c)
{
    PGresult *r = PQexec(c, "SELECT pg_backend_pid()");
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    int64_t pid = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return pid;
}

/* A session is a client's for one transaction only, and may be another's in the next. */
static void a_pooler_changes_sessions(void **state)
{
    pgbouncer_need();
    fixture *g = fixture_of(state);
    static const char *const SETTINGS[] = {"default_pool_size = 2", NULL};
    pgbouncer *b = pgbouncer_start(g->server, SETTINGS);
    pgbouncer_url(b, g->database, g->url);
    PGconn *one = PQconnectdb(g->url);
    PGconn *two = PQconnectdb(g->url);
    assert_int_equal(PQstatus(two), CONNECTION_OK);
    int64_t first = session_of(one);
    assert_int_equal(session_of(two), first);
    run(one, "BEGIN");
    first = session_of(one);
    assert_int_not_equal(session_of(two), first);
    run(one, "INSERT INTO t VALUES (1)");
    run(one, "COMMIT");
    assert_int_equal(rows(g), 1);
    PQfinish(two);
    PQfinish(one);
    pgbouncer_free(b);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(keeps_data_over_a_restart), CASE(is_killed),
        CASE(is_stopped_at_once),        CASE(takes_settings_and_tcp),
        CASE(makes_and_drops_databases), CASE(goes_with_its_test),
        CASE(a_pooler_changes_sessions),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
