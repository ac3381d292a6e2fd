/* A session of PostgreSQL is what others have made of it: settings of the server, of the database,
 * of the role, and what the application does in on_connect. Whatever that is, what pawl commits is
 * durable, it waits less long than a claim lives, and its SQL means what it says.
 *
 * Settings are read back through the seam itself, in transactions of each kind of connection. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/conf.h"
#include "support/proxy.h"

enum { URL = 2 * PGSERVER_URL, SQL = 1024, CLAIM_MS = 5000 };

static const db_role ROLES[] = {DB_READER, DB_WRITER, DB_COMMITTER};

static const db_sql SETTING = {
    "SELECT setting FROM pg_catalog.pg_settings WHERE name OPERATOR(pg_catalog.=) $1", "t"};
static const db_sql SET = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)"
                           " ON CONFLICT (name) DO UPDATE SET number = excluded.number",
                           "ti"};
static const db_sql RAISE = {
    "UPDATE {meta} SET number = number + 1 WHERE name = $1 AND number = $2 RETURNING number", "ti"};

/* ---- Helpers ---- */

/* What the application does with every connection. */
typedef struct hook {
    const char *sql; /* NULL: nothing */
    int refuse_from; /* the how-manieth connection is the first that it refuses; 0: none */
    int calls;
} hook;

static int on_connect(void *native, void *arg)
{
    hook *h = arg;
    PGresult *r = h->sql ? PQexec(native, h->sql) : NULL;
    int good =
        !h->sql || PQresultStatus(r) == PGRES_COMMAND_OK || PQresultStatus(r) == PGRES_TUPLES_OK;
    PQclear(r);
    h->calls++;
    return !good || (h->refuse_from && h->calls >= h->refuse_from);
}

static db_options options_for(const char *url, hook *h)
{
    return (db_options){
        .url = url, .claim_ms = CLAIM_MS, .on_connect = h ? on_connect : NULL, .on_connect_arg = h};
}

static db *open_as(const char *url, hook *h)
{
    error err = {0};
    db *d = NULL;
    db_options o = options_for(url, h);
    CONF_OK(db_open(&d, &o, &err), &err);
    return d;
}

static pawl_code try_open(const char *url, hook *h, error *err)
{
    db *d = NULL;
    db_options o = options_for(url, h);
    pawl_code rc = db_open(&d, &o, err);
    db_close(d);
    return rc;
}

static void url_for(const conf *c, const char *user, const char *more, char out[URL])
{
    int n = snprintf(out, URL, "postgres://%s@/%s?host=%s&port=%d%s", user, c->database,
                     pgserver_dir(c->server), pgserver_port(c->server), more);
    assert_in_range(n, 1, URL - 1);
}

/* A role that may do in the test's database what pawl has to. */
static void make_role(const conf *c, const char *name)
{
    char sql[SQL];
    snprintf(sql, sizeof sql, "CREATE ROLE %s LOGIN; GRANT CREATE ON DATABASE %s TO %s", name,
             c->database, name);
    pgserver_exec(c->server, NULL, sql);
}

/* SQL that gives a number, about the backends of the test's database. */
static int64_t backends(const conf *c, const char *which)
{
    char sql[SQL];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pawl'"
             " AND datname = '%s' AND %s",
             c->database, which);
    return pgserver_number(c->server, NULL, sql);
}

static void end_backends(const conf *c)
{
    char sql[SQL];
    snprintf(sql, sizeof sql,
             "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
             " WHERE application_name = 'pawl' AND datname = '%s'",
             c->database);
    assert_true(pgserver_number(c->server, NULL, sql) > 0);
}

/* A setting as a transaction of this connection has it. */
static void read_setting(db_conn *conn, const char *name, char out[64])
{
    error err = {0};
    db_stmt *s;
    db_value value = db_text(slice_of(name));
    CONF_OK(db_prepare(conn, &SETTING, &s, &err), &err);
    CONF_OK(db_bind_all(s, &value, 1, &err), &err);
    assert_int_equal(db_next(s, &err), DB_ROW);
    slice text = db_column(s, 0).s;
    assert_in_range(text.size, 1, 63);
    memcpy(out, text.at, text.size);
    out[text.size] = '\0';
    db_reset(s);
}

static int64_t read_number(db_conn *conn, const char *name)
{
    char text[64];
    read_setting(conn, name, text);
    return strtoll(text, NULL, 10);
}

static void expect_setting(db_conn *conn, const char *name, const char *wanted)
{
    char text[64];
    read_setting(conn, name, text);
    if (strcmp(text, wanted) != 0)
        fail_msg("%s is %s, not %s", name, text, wanted);
}

/* ---- Settings ---- */

/* Guarantee 8: all connections commit durably, or better. */
static void expect_commits_are(db *d, const char *wanted)
{
    for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++) {
        db_conn *conn = conf_connect(d, ROLES[i]);
        conf_begin(conn);
        expect_setting(conn, "synchronous_commit", wanted);
        db_rollback(conn);
        conf_begin(conn); /* a rollback takes back what was set inside only */
        expect_setting(conn, "synchronous_commit", wanted);
        conf_commit(conn);
        db_disconnect(conn);
    }
}

/* Which setting decides how commits are done: that of the role, of the database, or of the
 * application. */
typedef enum { BY_ROLE, BY_DATABASE, BY_APPLICATION, WAYS } way;

static void say(const conf *c, way how, const char *value, hook *h, char sql[SQL])
{
    *h = (hook){0};
    if (how == BY_ROLE)
        snprintf(sql, SQL, "ALTER ROLE syncer SET synchronous_commit = %s", value);
    else if (how == BY_DATABASE)
        snprintf(sql, SQL, "ALTER DATABASE %s SET synchronous_commit = %s", c->database, value);
    else
        snprintf(sql, SQL, "SET synchronous_commit = %s", value);
    if (how == BY_APPLICATION)
        h->sql = sql;
    else
        pgserver_exec(c->server, NULL, sql);
}

static void whatever_a_setting_says_commits_are_durable(conf *c)
{
    static const char *const SAID[] = {"off", "local", "remote_write", "on", "remote_apply"};
    enum { COUNT = sizeof SAID / sizeof *SAID };
    char url[URL], relaxed[URL], sql[SQL];
    make_role(c, "syncer");
    url_for(c, "syncer", "", url);
    url_for(c, "syncer", "&durability=relaxed", relaxed);
    for (int i = 0; i < WAYS * COUNT; i++) {
        hook h;
        const char *value = SAID[i % COUNT];
        say(c, (way)(i / COUNT), value, &h, sql);
        db *d = open_as(url, &h);
        expect_commits_are(d, strcmp(value, "remote_apply") == 0 ? value : "on");
        db_close(d);
        pgserver_exec(c->server, NULL, "ALTER ROLE syncer RESET ALL");
    }
    db *d = open_as(relaxed, NULL);
    expect_commits_are(d, "off");
    db_close(d);
}

/* The server itself would not keep what it acknowledges. */
static void a_server_that_does_not_sync_is_refused(conf *c)
{
    static const char *const SETTINGS[] = {"fsync=off", NULL};
    char url[PGSERVER_URL], relaxed[URL];
    error err = {0};
    (void)c;
    pgserver *s = pgserver_start(&(pgserver_options){.settings = SETTINGS});
    pgserver_url(s, "postgres", url);
    assert_int_equal(try_open(url, NULL, &err), PAWL_NOTDURABLE);
    assert_non_null(strstr(err.detail, "fsync"));
    assert_non_null(strstr(err.hint, "fsync = on"));
    snprintf(relaxed, sizeof relaxed, "%s&durability=full", url);
    assert_int_equal(try_open(relaxed, NULL, &err), PAWL_NOTDURABLE);
    snprintf(relaxed, sizeof relaxed, "%s&durability=relaxed", url);
    CONF_OK(try_open(relaxed, NULL, &err), &err);
    pgserver_free(s);
}

/* C6: a session that stands still in the middle of a transaction, or waits for a lock, does so for
 * less long than a claim lasts; and nothing ends a commit that waits for its standby. */
static void expect_patience(db *d)
{
    for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++) {
        db_conn *conn = conf_connect(d, ROLES[i]);
        conf_begin(conn);
        expect_setting(conn, "statement_timeout", "0");
        int64_t lock = read_number(conn, "lock_timeout");
        int64_t idle = read_number(conn, "idle_in_transaction_session_timeout");
        assert_true(lock > 0);
        if (ROLES[i] != DB_WRITER) { /* it is for migrations, and no node's */
            assert_true(lock < CLAIM_MS);
            assert_true(idle > 0 && idle < CLAIM_MS);
        }
        db_rollback(conn);
        db_disconnect(conn);
    }
}

static void time_outs_are_shorter_than_claim_ms(conf *c)
{
    char url[URL];
    hook h = {.sql = "SET statement_timeout = 40000; SET lock_timeout = 0;"
                     " SET idle_in_transaction_session_timeout = 0"};
    make_role(c, "waiter");
    pgserver_exec(c->server, NULL,
                  "ALTER ROLE waiter SET statement_timeout = 50000;"
                  "ALTER ROLE waiter SET lock_timeout = 0;"
                  "ALTER ROLE waiter SET idle_in_transaction_session_timeout = 100000");
    url_for(c, "waiter", "", url);
    db *d = open_as(url, NULL);
    expect_patience(d);
    db_close(d);
    d = open_as(url, &h);
    expect_patience(d);
    db_close(d);
}

/* A connection that is made anew is like the first one. */
static void settings_come_back_with_the_connection(conf *c)
{
    hook h = {.sql = "SET synchronous_commit = off; SET lock_timeout = 0"};
    db *d = open_as(c->url, &h);
    db_conn *conn = conf_connect(d, DB_COMMITTER);
    conf_begin(conn);
    db_rollback(conn);
    int calls = h.calls;
    end_backends(c);
    TMP_AWAIT(backends(c, "true") == 0);
    conf_begin(conn);
    assert_int_equal(h.calls, calls + 1);
    expect_setting(conn, "synchronous_commit", "on");
    assert_true(read_number(conn, "lock_timeout") > 0);
    conf_commit(conn);
    db_disconnect(conn);
    db_close(d);
}

/* A reader's transaction begins with its first statement. Until then a connection that is lost
 * costs nothing; later it costs the transaction, whose statements have to see one state. */
static void a_reader_begins_with_its_first_statement(conf *c)
{
    static const db_sql ANY = {"SELECT count(*) FROM {meta}", ""};
    char url[PGSERVER_URL];
    proxy *p = proxy_start(c->server);
    proxy_url(p, c->database, url);
    db *d = open_as(url, NULL);
    db_conn *conn = conf_connect(d, DB_READER);
    error err = {0};
    int64_t number;
    int found;
    for (int i = 0; i < 2; i++) { /* the second time an answer to ROLLBACK is lost too */
        conf_begin(conn);
        proxy_cut(p);
        assert_int_equal(db_number(conn, &ANY, NULL, 0, &number, &found, &err), PAWL_OK);
        proxy_cut(p);
        assert_int_equal(db_number(conn, &ANY, NULL, 0, &number, &found, &err), PAWL_UNREACHABLE);
        db_rollback(conn);
        conf_begin(conn);
        assert_int_equal(db_number(conn, &ANY, NULL, 0, &number, &found, &err), PAWL_OK);
        /* The server ends the session that was cut off as soon as it notices. */
        TMP_AWAIT(backends(c, "state = 'idle in transaction'") == 1);
        db_rollback(conn);
        TMP_AWAIT(backends(c, "state = 'idle in transaction'") == 0);
    }
    db_disconnect(conn);
    db_close(d);
    proxy_stop(p);
}

/* ---- on_connect ---- */

static void the_application_sees_every_connection(conf *c)
{
    pgserver_exec(c->server, c->database, "CREATE TABLE public.seen (pid int)");
    hook h = {.sql = "INSERT INTO public.seen VALUES (pg_backend_pid())"};
    db *d = open_as(c->url, &h);
    assert_true(h.calls > 0);
    for (size_t i = 0; i < sizeof ROLES / sizeof *ROLES; i++) {
        int calls = h.calls;
        db_conn *conn = conf_connect(d, ROLES[i]);
        assert_int_equal(h.calls, calls + 1);
        assert_int_equal(backends(c, "state = 'idle'"), 1);
        db_disconnect(conn);
        TMP_AWAIT(backends(c, "true") == 0);
    }
    db_close(d);
    assert_int_equal(pgserver_number(c->server, c->database, "SELECT count(*) FROM public.seen"),
                     h.calls);
}

/* Whichever connection is refused: nothing stays open, and it works when it is not refused. */
static void a_refused_connection_is_closed(conf *c)
{
    error err = {0};
    pawl_code rc = PAWL_CANTOPEN;
    for (int from = 1; rc != PAWL_OK; from++) {
        hook h = {.refuse_from = from};
        rc = try_open(c->url, &h, &err);
        if (rc == PAWL_OK)
            continue;
        assert_int_equal(rc, PAWL_CANTOPEN);
        assert_non_null(strstr(err.message, "on_connect"));
        assert_int_equal(h.calls, from);
        TMP_AWAIT(backends(c, "true") == 0);
        assert_true(from < 50);
    }
    hook later = {0};
    db *d = open_as(c->url, &later);
    later.refuse_from = 1;
    db_conn *conn = NULL;
    assert_int_equal(db_connect(d, DB_COMMITTER, &conn, &err), PAWL_CANTOPEN);
    assert_null(conn);
    TMP_AWAIT(backends(c, "true") == 0);
    db_close(d);
}

/* What is set in a transaction that the application has left open would go with it. */
static void what_the_application_leaves_behind(conf *c)
{
    static const struct {
        const char *sql;
        pawl_code code;
    } LEFT[] = {
        {"BEGIN", PAWL_CANTOPEN},
        {"BEGIN; SET synchronous_commit = off", PAWL_CANTOPEN},
        {"SELECT pg_terminate_backend(pg_backend_pid())", PAWL_CANTOPEN}, /* its PQexec failed */
        {"CREATE TEMP TABLE pg_class (relname name, relkind char, relnamespace oid)", PAWL_OK},
        {"SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", PAWL_OK},
        {"SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SERIALIZABLE", PAWL_OK},
        {"SET client_min_messages = debug5", PAWL_OK},
        {"SET bytea_output = 'escape'; SET intervalstyle = 'sql_standard'", PAWL_OK},
    };
    for (size_t i = 0; i < sizeof LEFT / sizeof *LEFT; i++) {
        error err = {0};
        hook h = {.sql = LEFT[i].sql};
        pawl_code rc = try_open(c->url, &h, &err);
        if (rc != LEFT[i].code)
            fail_msg("%s: %s (%s: %s)", LEFT[i].sql, pawl_code_name(rc), err.message, err.detail);
        TMP_AWAIT(backends(c, "true") == 0);
    }
}

/* ---- Rights ---- */

/* A role that may only read is refused with the first unit, and no other connection is affected. */
static void a_role_that_may_only_read_commits_nothing(conf *c)
{
    char url[URL];
    db_close(open_as(c->url, NULL));
    make_role(c, "onlooker");
    pgserver_exec(c->server, c->database,
                  "GRANT USAGE ON SCHEMA pawl TO onlooker;"
                  "GRANT SELECT ON ALL TABLES IN SCHEMA pawl TO onlooker");
    url_for(c, "onlooker", "", url);
    db *d = open_as(url, NULL);
    committer *k = NULL;
    error err = {0};
    CONF_OK(committer_open(&k, d, &(committer_options){.by_hand = 1}, &err), &err);
    for (int i = 0; i < 2; i++) {
        conf_ticket t;
        conf_ticket_append(&t, 1, 1, NULL);
        committer_submit(k, t.unit);
        conf_drive(k, NULL, &t, 1);
        CONF_ANSWER(&t, i ? UNIT_COMMITTED : UNIT_FAILED);
        assert_int_equal(t.unit->code, i ? PAWL_OK : PAWL_DENIED);
        assert_int_equal(conf_rows(d, 1), i);
        conf_ticket_free(&t);
        pgserver_exec(c->server, c->database, "GRANT ALL ON ALL TABLES IN SCHEMA pawl TO onlooker");
    }
    committer_close(k);
    db_close(d);
}

/* That is only what a transaction is by default; pawl says what it wants. */
static void a_role_that_reads_by_default_writes(conf *c)
{
    char url[URL];
    make_role(c, "reader");
    pgserver_exec(c->server, NULL,
                  "ALTER ROLE reader SET default_transaction_read_only = on;"
                  "ALTER ROLE reader SET default_transaction_isolation = 'serializable'");
    url_for(c, "reader", "", url);
    db *d = open_as(url, NULL);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    conf_ticket t;
    conf_ticket_append(&t, 1, 1, NULL);
    committer_submit(k, t.unit);
    conf_drive(k, NULL, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    conf_ticket_free(&t);
    committer_close(k);
    db_close(d);
    /* What a connection has for itself goes with it. */
    assert_int_equal(pgserver_number(c->server, c->database, "SELECT count(*) FROM pawl.commits"),
                     0);
}

/* ---- Standing still ---- */

static const db_sql HOLD = {"UPDATE {meta} SET number = number + 1 WHERE name = 'next_run'", ""};

typedef struct stopped {
    const char *url;
} stopped;

static void begin_and_stand_still(int in, int out, void *arg)
{
    stopped *s = arg;
    error err = {0};
    db *d = NULL;
    db_conn *conn = NULL;
    db_options o = options_for(s->url, NULL);
    TMP_CHECK(db_open(&d, &o, &err) == PAWL_OK);
    TMP_CHECK(db_connect(d, DB_COMMITTER, &conn, &err) == PAWL_OK);
    TMP_CHECK(db_begin(conn, &err) == PAWL_OK);
    TMP_CHECK(db_run(conn, &HOLD, NULL, 0, &err) == PAWL_OK);
    tmp_tell(out, 'h');
    raise(SIGSTOP);
    TMP_CHECK(db_commit(conn, &err) != PAWL_OK);
    TMP_CHECK(conn->driver->settle(conn, &err) == DB_FATE_LOST);
    TMP_CHECK(db_begin(conn, &err) == PAWL_OK); /* and it goes on */
    TMP_CHECK(db_run(conn, &HOLD, NULL, 0, &err) == PAWL_OK);
    TMP_CHECK(db_commit(conn, &err) == PAWL_OK);
    tmp_tell(out, 'e');
    TMP_CHECK(tmp_hear(in) == 'g');
    db_disconnect(conn);
    db_close(d);
}

static int64_t next_run(const conf *c)
{
    return pgserver_number(c->server, c->database,
                           "SELECT number FROM pawl.meta WHERE name = 'next_run'");
}

/* C6: a node that stands still in a transaction loses its locks, and can never commit it. */
static void a_session_that_stands_still_loses_its_locks(conf *c)
{
    db_close(open_as(c->url, NULL));
    int64_t before = next_run(c);
    tmp_child child = tmp_fork(begin_and_stand_still, &(stopped){c->url});
    tmp_expect(&child, 'h');
    tmp_await_stop(&child);
    TMP_AWAIT(backends(c, "xact_start IS NOT NULL") == 0);
    pgserver_exec(c->server, c->database, /* another connection gets the row at once */
                  "SET lock_timeout = 100; UPDATE pawl.meta SET number = number + 10"
                  " WHERE name = 'next_run'");
    assert_int_equal(kill(child.pid, SIGCONT), 0);
    tmp_expect(&child, 'e');
    tmp_tell(child.to, 'g');
    tmp_join(&child);
    assert_int_equal(next_run(c), before + 11);
}

/* Two units, so that their guards and their writes are two trips: it stops in between. */
static void commit_two(int in, int out, void *arg)
{
    stopped *s = arg;
    error err = {0};
    db *d = NULL;
    committer *k = NULL;
    db_options o = options_for(s->url, NULL);
    TMP_CHECK(db_open(&d, &o, &err) == PAWL_OK);
    TMP_CHECK(committer_open(&k, d, &(committer_options){.by_hand = 1}, &err) == PAWL_OK);
    conf_ticket t[2];
    for (int i = 0; i < 2; i++) {
        conf_ticket_open(&t[i], 0);
        unit_guard(t[i].unit, &RAISE, "v", unit_key("meta", 1), VALUES(NAME("test.v"), db_int(i)));
        unit_write(t[i].unit, &CONF_APPEND, unit_key("journal", 1),
                   VALUES(db_int(1), db_int(i), NAME("row"), db_null()));
        committer_submit(k, t[i].unit);
    }
    tmp_tell(out, 'b');
    TMP_CHECK(tmp_hear(in) == 'l');
    while (atomic_load(&t[0].finals) + atomic_load(&t[1].finals) < 2)
        committer_drive(k);
    for (int i = 0; i < 2; i++)
        tmp_tell(out, atomic_load(&t[i].answer) == UNIT_COMMITTED ? 'c' : 'n');
    TMP_CHECK(tmp_hear(in) == 'g');
    conf_tickets_free(t, 2);
    committer_close(k);
    db_close(d);
}

static void a_session_that_stops_between_two_trips_loses_its_locks(conf *c)
{
    db *d = open_as(c->url, NULL);
    conf_do(d, &SET, VALUES(NAME("test.v"), db_int(0)));
    db_close(d);
    tmp_child child = tmp_fork(commit_two, &(stopped){c->url});
    tmp_expect(&child, 'b');
    PGconn *holder = PQconnectdb(c->url);
    PQclear(PQexec(holder, "BEGIN; SELECT 1 FROM pawl.meta WHERE name = 'test.v' FOR UPDATE"));
    assert_int_equal(PQtransactionStatus(holder), PQTRANS_INTRANS);
    tmp_tell(child.to, 'l');
    TMP_AWAIT(backends(c, "wait_event_type = 'Lock'") == 1);
    assert_int_equal(kill(child.pid, SIGSTOP), 0);
    tmp_await_stop(&child);
    PQfinish(holder);
    TMP_AWAIT(backends(c, "xact_start IS NOT NULL") == 0);
    assert_int_equal(pgserver_number(c->server, c->database, "SELECT count(*) FROM pawl.journal"),
                     0);
    assert_int_equal(kill(child.pid, SIGCONT), 0);
    int64_t rows = 0;
    for (int i = 0; i < 2; i++)
        rows += tmp_hear(child.from) == 'c';
    assert_int_equal(pgserver_number(c->server, c->database, "SELECT count(*) FROM pawl.journal"),
                     rows);
    assert_int_equal(pgserver_number(c->server, c->database,
                                     "SELECT number FROM pawl.meta WHERE name = 'test.v'"),
                     rows);
    tmp_tell(child.to, 'g');
    tmp_join(&child);
}

static const conf_case CASES[] = {
    {"whatever a setting says, commits are durable", whatever_a_setting_says_commits_are_durable,
     0},
    {"a server that does not sync is refused", a_server_that_does_not_sync_is_refused, 0},
    {"time-outs are shorter than claim_ms", time_outs_are_shorter_than_claim_ms, 0},
    {"settings come back with the connection", settings_come_back_with_the_connection, 0},
    {"a reader begins with its first statement", a_reader_begins_with_its_first_statement, 0},
    {"the application sees every connection", the_application_sees_every_connection, 0},
    {"a refused connection is closed", a_refused_connection_is_closed, 0},
    {"what the application leaves behind", what_the_application_leaves_behind, 0},
    {"a role that may only read commits nothing", a_role_that_may_only_read_commits_nothing, 0},
    {"a role that reads by default writes", a_role_that_reads_by_default_writes, 0},
    {"a session that stands still loses its locks", a_session_that_stands_still_loses_its_locks, 0},
    {"a session that stops between two trips loses its locks",
     a_session_that_stops_between_two_trips_loses_its_locks, 0},
};

int main(void)
{
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
