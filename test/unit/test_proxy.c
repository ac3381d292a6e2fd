/* The proxy that breaks a connection to PostgreSQL at a COMMIT.
 *
 * A fault that is not injected proves nothing, and looks like a success. So each action of the
 * proxy is checked here against a real server with plain libpq, without a line of pawl: was the
 * COMMIT carried out or not, and what did the client hear? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "support/proxy.h"

/* What a test has: one server for the program, and before it a proxy of the test's own. */
typedef struct fixture {
    pgserver *server;
    proxy *proxy;
    char database[PGSERVER_NAME];
    char url[PGSERVER_URL]; /* through the proxy */
} fixture;

static fixture *fixture_of(void **state)
{
    pgserver_need();
    fixture *g = *state;
    if (!g->server)
        g->server = pgserver_start(NULL);
    pgserver_database(g->server, g->database);
    pgserver_exec(g->server, g->database, "CREATE TABLE t (n int)");
    g->proxy = proxy_start(g->server);
    proxy_url(g->proxy, g->database, g->url);
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
    tmp_watchdog("test_proxy");
    return 0;
}

static int end(void **state)
{
    fixture *g = *state;
    tmp_watchdog(NULL);
    tmp_end_children();
    proxy_stop(g->proxy);
    g->proxy = NULL;
    return 0;
}

static int64_t rows(fixture *g)
{
    return pgserver_number(g->server, g->database, "SELECT count(*) FROM t");
}

/* Sessions of clients of the proxy that the server knows of. */
static int64_t sessions(fixture *g)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'through'"
             " AND datname = '%s'",
             g->database);
    return pgserver_number(g->server, NULL, sql);
}

/* ---- Clients ---- */

static PGconn *try_connect(fixture *g)
{
    char url[PGSERVER_URL + 32];
    snprintf(url, sizeof url, "%s&application_name=through", g->url);
    return PQconnectdb(url);
}

static void expect_result(PGconn *c, PGresult *r, ExecStatusType wanted)
{
    if (PQresultStatus(r) != wanted)
        fail_msg("%s: %s", PQresStatus(PQresultStatus(r)), PQerrorMessage(c));
    PQclear(r);
}

static void run(PGconn *c, const char *sql)
{
    expect_result(c, PQexec(c, sql), PGRES_COMMAND_OK);
}

static PGconn *connect_through(fixture *g)
{
    PGconn *c = try_connect(g);
    if (PQstatus(c) != CONNECTION_OK)
        fail_msg("%s", PQerrorMessage(c));
    expect_result(c, PQprepare(c, "pawl_commit", "COMMIT", 0, NULL), PGRES_COMMAND_OK);
    return c;
}

/* A client in a transaction that has written a row. */
static PGconn *connect_and_write(fixture *g)
{
    PGconn *c = connect_through(g);
    run(c, "BEGIN");
    run(c, "INSERT INTO t VALUES (1)");
    return c;
}

/* The COMMIT of a driver that does not wait for every answer: behind another statement. */
static void send_commit(PGconn *c)
{
    assert_int_equal(PQenterPipelineMode(c), 1);
    assert_int_equal(PQsendQueryParams(c, "SELECT 1", 0, NULL, NULL, NULL, NULL, 0), 1);
    assert_int_equal(PQsendQueryPrepared(c, "pawl_commit", 0, NULL, NULL, NULL, 0), 1);
    assert_int_equal(PQpipelineSync(c), 1);
    assert_int_equal(PQflush(c), 0);
}

/* Read until the connection is lost: no answer to the COMMIT may come before. */
static void expect_cut(PGconn *c)
{
    int ends = 0;
    while (PQstatus(c) == CONNECTION_OK) {
        PGresult *r = PQgetResult(c);
        ends = r ? 0 : ends + 1;
        assert_true(ends < 10);
        if (PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_PIPELINE_SYNC)
            fail_msg("an answer came through");
        PQclear(r);
    }
}

/* The answers of send_commit(). */
static void expect_committed(PGconn *c)
{
    expect_result(c, PQgetResult(c), PGRES_TUPLES_OK);
    assert_null(PQgetResult(c));
    expect_result(c, PQgetResult(c), PGRES_COMMAND_OK);
    assert_null(PQgetResult(c));
    expect_result(c, PQgetResult(c), PGRES_PIPELINE_SYNC);
    assert_int_equal(PQexitPipelineMode(c), 1);
}

/* ---- What goes through ---- */

static void knows_a_commit(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    send_commit(c);
    expect_committed(c);
    assert_int_equal(proxy_count(g->proxy).commits, 1);
    run(c, "BEGIN");
    expect_result(c, PQexecParams(c, "COMMIT", 0, NULL, NULL, NULL, NULL, 0), PGRES_COMMAND_OK);
    assert_int_equal(proxy_count(g->proxy).commits, 2);

    /* None of these is the driver's. */
    run(c, "BEGIN");
    run(c, "COMMIT");
    expect_result(c, PQprepare(c, "mine", "COMMIT", 0, NULL), PGRES_COMMAND_OK);
    run(c, "BEGIN");
    expect_result(c, PQexecPrepared(c, "mine", 0, NULL, NULL, NULL, 0), PGRES_COMMAND_OK);
    proxy_counts counts = proxy_count(g->proxy);
    assert_int_equal(counts.commits, 2);
    assert_int_equal(counts.connections, 1);
    assert_int_equal(counts.open, 1);
    assert_int_equal(counts.fired, 0);
    assert_int_equal(rows(g), 1);
    PQfinish(c);
    TMP_AWAIT(proxy_count(g->proxy).open == 0);
    TMP_AWAIT(sessions(g) == 0);
}

static void hands_on_large_messages(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_through(g);
    size_t size = 9 * 1024 * 1024;
    char *text = malloc(size + 1);
    assert_non_null(text);
    for (size_t i = 0; i < size; i++)
        text[i] = (char)('a' + i % 23);
    text[size] = '\0';
    const char *values[] = {text};
    PGresult *r = PQexecParams(c, "SELECT $1::text", 1, NULL, values, NULL, NULL, 0);
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    assert_string_equal(PQgetvalue(r, 0, 0), text);
    PQclear(r);
    PQfinish(c);
    free(text);
}

static void hands_on_a_cancel(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_through(g);
    assert_int_equal(PQsendQuery(c, "SELECT pg_sleep(1000)"), 1);
    TMP_AWAIT(pgserver_number(g->server, NULL, /* too early, and no connection hears it */
                              "SELECT count(*) FROM pg_stat_activity"
                              " WHERE wait_event = 'PgSleep'") == 1);
    char why[256];
    PGcancel *cancel = PQgetCancel(c);
    assert_int_equal(PQcancel(cancel, why, sizeof why), 1);
    PQfreeCancel(cancel);
    PGresult *r = PQgetResult(c);
    assert_string_equal(PQresultErrorField(r, PG_DIAG_SQLSTATE), "57014");
    PQclear(r);
    PQfinish(c);
}

/* libpq asks for encryption by TCP only; the answer is one byte that is no message. */
static void hands_on_requests_for_encryption(void **state)
{
    fixture *g = fixture_of(state);
    static const unsigned char REQUEST[] = {0, 0, 0, 8, 4, 210, 22, 47};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *dir = strstr(g->url, "host=") + 5;
    snprintf(address.sun_path, sizeof address.sun_path, "%.*s/.s.PGSQL.5432",
             (int)strcspn(dir, "&"), dir);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    char answer = 0;
    assert_int_equal(write(fd, REQUEST, sizeof REQUEST), sizeof REQUEST);
    assert_int_equal(read(fd, &answer, 1), 1);
    assert_int_equal(answer, 'N');
    close(fd);
}

static void refuses(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *old = connect_through(g);
    proxy_refuse(g->proxy, 1);
    PGconn *c = try_connect(g);
    assert_int_equal(PQstatus(c), CONNECTION_BAD);
    PQfinish(c);
    run(old, "INSERT INTO t VALUES (1)");
    proxy_refuse(g->proxy, 0);
    c = connect_through(g);
    assert_int_equal(proxy_count(g->proxy).connections, 3);
    PQfinish(c);
    PQfinish(old);
}

static void makes_the_server_old(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_through(g);
    int version = PQserverVersion(c);
    PQfinish(c);
    proxy_age_version(g->proxy, 1);
    c = connect_through(g);
    assert_in_range(PQserverVersion(c), 90000, 99999);
    PQfinish(c);
    proxy_age_version(g->proxy, 0);
    c = connect_through(g);
    assert_int_equal(PQserverVersion(c), version);
    PQfinish(c);
}

/* ---- What it breaks ---- */

static void cuts_before_the_commit(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    proxy_plan(g->proxy, PROXY_CUT_BEFORE, 1);
    send_commit(c);
    expect_cut(c);
    PQfinish(c);
    TMP_AWAIT(sessions(g) == 0);
    assert_int_equal(rows(g), 0);
    assert_int_equal(proxy_count(g->proxy).fired, 1);
    assert_int_equal(proxy_count(g->proxy).open, 0);
}

static void cuts_at_the_third_commit(void **state)
{
    fixture *g = fixture_of(state);
    proxy_plan(g->proxy, PROXY_CUT_BEFORE, 3);
    for (int i = 1; i <= 4; i++) { /* the fourth: it is done once */
        PGconn *c = connect_and_write(g);
        send_commit(c);
        if (i == 3)
            expect_cut(c);
        else
            expect_committed(c);
        assert_int_equal(proxy_count(g->proxy).fired, i >= 3);
        PQfinish(c);
    }
    assert_int_equal(rows(g), 3);
}

/* When the client sees the cut, the server is done. */
static void cuts_after_the_commit(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    proxy_plan(g->proxy, PROXY_CUT_AFTER, 1);
    send_commit(c);
    expect_cut(c);
    assert_int_equal(rows(g), 1);
    PQfinish(c);
    TMP_AWAIT(sessions(g) == 0);
}

/* The server has all of the COMMIT, so it carries it out, at an unknown moment. */
static void cuts_blindly(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    proxy_plan(g->proxy, PROXY_CUT_BLIND, 1);
    send_commit(c);
    expect_cut(c);
    PQfinish(c);
    TMP_AWAIT(rows(g) == 1);
    TMP_AWAIT(sessions(g) == 0);
}

/* Nothing has come for the client, and it has not been cut off. */
static void expect_silence(PGconn *c)
{
    assert_int_equal(PQconsumeInput(c), 1);
    assert_int_equal(PQisBusy(c), 1);
    assert_int_equal(PQstatus(c), CONNECTION_OK);
}

static void swallows_the_commit(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    proxy_plan(g->proxy, PROXY_HOLE_BEFORE, 1);
    send_commit(c);
    TMP_AWAIT(proxy_count(g->proxy).fired == 1);
    expect_silence(c);
    assert_int_equal(rows(g), 0);

    /* The server does not hear that the client goes: its transaction stays, with all locks. */
    PQfinish(c);
    PGconn *other = connect_and_write(g);
    send_commit(other);
    expect_committed(other);
    assert_int_equal(sessions(g), 2);
    assert_int_equal(proxy_count(g->proxy).open, 2);
    proxy_cut(g->proxy);
    TMP_AWAIT(sessions(g) == 0);
    assert_int_equal(rows(g), 1);
    assert_int_equal(proxy_count(g->proxy).open, 0);
    PQfinish(other);
}

static void swallows_the_answer(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    proxy_plan(g->proxy, PROXY_HOLE_AFTER, 1);
    send_commit(c);
    TMP_AWAIT(rows(g) == 1);
    expect_silence(c);

    /* The client does not hear that the server goes either. */
    pgserver_restart(g->server);
    expect_silence(c);
    PQfinish(c);
}

static void holds_a_commit_back(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    proxy_plan(g->proxy, PROXY_LATE, 1);
    send_commit(c);
    TMP_AWAIT(proxy_count(g->proxy).fired == 1);
    expect_silence(c);
    PQfinish(c);
    assert_int_equal(rows(g), 0);
    assert_int_equal(sessions(g), 1);
    proxy_release(g->proxy);
    assert_int_equal(proxy_wait_late(g->proxy), PROXY_LATE_COMMITTED);
    assert_int_equal(rows(g), 1);
    TMP_AWAIT(sessions(g) == 0);
}

static void answers_a_client_that_waited(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    proxy_plan(g->proxy, PROXY_LATE, 1);
    send_commit(c);
    TMP_AWAIT(proxy_count(g->proxy).fired == 1);
    expect_silence(c);
    proxy_release(g->proxy);
    expect_committed(c);
    assert_int_equal(proxy_wait_late(g->proxy), PROXY_LATE_COMMITTED);
    run(c, "INSERT INTO t VALUES (2)");
    assert_int_equal(rows(g), 2);
    PQfinish(c);
}

static void tells_of_a_late_commit_in_vain(void **state)
{
    fixture *g = fixture_of(state);
    PGconn *c = connect_and_write(g);
    expect_result(c, PQexec(c, "SELECT 1 / 0"), PGRES_FATAL_ERROR);
    proxy_plan(g->proxy, PROXY_LATE, 1);
    assert_int_equal(PQsendQueryPrepared(c, "pawl_commit", 0, NULL, NULL, NULL, 0), 1);
    assert_int_equal(PQflush(c), 0);
    TMP_AWAIT(proxy_count(g->proxy).fired == 1);
    proxy_release(g->proxy);
    assert_int_equal(proxy_wait_late(g->proxy), PROXY_LATE_ROLLED_BACK);
    PQfinish(c);

    c = connect_and_write(g);
    char sql[64];
    snprintf(sql, sizeof sql, "SELECT pg_terminate_backend(%d)", PQbackendPID(c));
    proxy_plan(g->proxy, PROXY_LATE, 1);
    send_commit(c);
    TMP_AWAIT(proxy_count(g->proxy).fired == 2);
    pgserver_exec(g->server, NULL, sql);
    assert_int_equal(proxy_wait_late(g->proxy), PROXY_LATE_CLOSED);
    PQfinish(c);
    assert_int_equal(rows(g), 0);
}

int main(void)
{
#define CASE(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        CASE(knows_a_commit),
        CASE(hands_on_large_messages),
        CASE(hands_on_a_cancel),
        CASE(hands_on_requests_for_encryption),
        CASE(refuses),
        CASE(makes_the_server_old),
        CASE(cuts_before_the_commit),
        CASE(cuts_at_the_third_commit),
        CASE(cuts_after_the_commit),
        CASE(cuts_blindly),
        CASE(swallows_the_commit),
        CASE(swallows_the_answer),
        CASE(holds_a_commit_back),
        CASE(answers_a_client_that_waited),
        CASE(tells_of_a_late_commit_in_vain),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
