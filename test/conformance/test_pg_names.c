/* Names mean to pawl what they mean to PostgreSQL, whatever an application has put before them.
 *
 * A function count() in a schema that is searched first, an operator = for whole numbers, a table
 * pg_class: each would be used instead of the server's own, and a guard would let through what it
 * has to refuse. Even where the server's own names come first, a function whose parameters fit
 * better is preferred, wherever it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/conf.h"

enum { URL = 2 * PGSERVER_URL, SQL = 1024 };

static const db_sql SET = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)"
                           " ON CONFLICT (name) DO UPDATE SET number = excluded.number",
                           "ti"};
static const db_sql RAISE = {
    "UPDATE {meta} SET number = number + 1 WHERE name = $1 AND number = $2 RETURNING number", "ti"};
static const db_sql SEE = {"SELECT number FROM {meta} WHERE number = $1 {LOCK_SHARED}", "i"};

/* Functions, operators, types and tables under the names that pawl's SQL uses. */
static const char *const EVIL[] = {
    "CREATE SCHEMA evil; GRANT USAGE ON SCHEMA evil TO public",
    "CREATE TABLE evil.pg_class (relname name, relkind \"char\", relnamespace oid);"
    "CREATE TABLE evil.pg_namespace (oid oid, nspname name)",
    "CREATE FUNCTION evil.set_config(text, text, boolean) RETURNS text LANGUAGE sql"
    " SET search_path = pg_catalog AS 'SELECT NULL::text'",
    "CREATE FUNCTION evil.current_setting(text) RETURNS text LANGUAGE sql"
    " SET search_path = pg_catalog AS $$SELECT 'on'::text$$",
    "CREATE FUNCTION evil.pg_is_in_recovery() RETURNS boolean LANGUAGE sql AS 'SELECT true'",
    "CREATE FUNCTION evil.pg_backend_pid() RETURNS int LANGUAGE sql AS 'SELECT 0'",
    "CREATE FUNCTION evil.clock_timestamp() RETURNS timestamptz LANGUAGE sql"
    " SET search_path = pg_catalog AS $$SELECT '1980-01-02'::timestamptz$$",
    "CREATE FUNCTION evil.pg_advisory_xact_lock(bigint) RETURNS void LANGUAGE sql AS 'SELECT'",
    "CREATE FUNCTION evil.to_regnamespace(text) RETURNS regnamespace LANGUAGE sql"
    " AS 'SELECT NULL::regnamespace'",
    "CREATE FUNCTION evil.generate_series(int, bigint) RETURNS SETOF bigint LANGUAGE sql"
    " AS 'SELECT 1::bigint WHERE false'",
    "CREATE FUNCTION evil.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE sql"
    " AS 'SELECT 1::bigint WHERE false'",
    "CREATE FUNCTION evil.pg_notify(text, text) RETURNS void LANGUAGE sql AS 'SELECT'",
    "CREATE FUNCTION evil.no(bigint, bigint) RETURNS boolean LANGUAGE sql AS 'SELECT false';"
    "CREATE OPERATOR evil.= (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.no);"
    "CREATE OPERATOR evil.< (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.no)",
    "CREATE FUNCTION evil.no(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT false';"
    "CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.no)",
    "CREATE FUNCTION evil.one(int, bigint) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';"
    "CREATE OPERATOR evil./ (LEFTARG = int, RIGHTARG = bigint, FUNCTION = evil.one)",
    "CREATE FUNCTION evil.one(bigint, int) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';"
    "CREATE OPERATOR evil.+ (LEFTARG = bigint, RIGHTARG = int, FUNCTION = evil.one);"
    "CREATE OPERATOR evil.- (LEFTARG = bigint, RIGHTARG = int, FUNCTION = evil.one)",
    "CREATE FUNCTION evil.nil(numeric, int) RETURNS numeric LANGUAGE sql AS 'SELECT 0::numeric';"
    "CREATE OPERATOR evil.* (LEFTARG = numeric, RIGHTARG = int, FUNCTION = evil.nil)",
    "CREATE FUNCTION evil.keep(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $1';"
    "CREATE AGGREGATE evil.count(*) (SFUNC = evil.keep, STYPE = bigint, INITCOND = '7')",
    "CREATE DOMAIN evil.text AS pg_catalog.text CHECK (length(VALUE) > 1000)",
};

/* Guards that chain, one that is refused, values that are returned, and what is read back. */
static void use_units(db *d, committer *k)
{
    enum { COUNT = 6 };
    conf_ticket t[COUNT];
    conf_do(d, &SET, VALUES(NAME("test.v"), db_int(1)));
    conf_do(d, &SET, VALUES(NAME("test.w"), db_int(777)));
    for (int i = 0; i < COUNT; i++) {
        conf_ticket_open(&t[i], 0);
        unit_guard(t[i].unit, &RAISE, "v", unit_key("meta", 1),
                   VALUES(NAME("test.v"), db_int(i == 5 ? 99 : i + 1)));
        unit_guard(t[i].unit, &SEE, "w", unit_key("meta", 2), VALUES(db_int(i == 4 ? 778 : 777)));
        unit_write(t[i].unit, &CONF_APPEND, unit_key("journal", 1),
                   VALUES(db_int(1), db_int(i), NAME("row"), db_null()));
        committer_submit(k, t[i].unit);
    }
    conf_drive(k, NULL, t, COUNT);
    for (int i = 0; i < COUNT; i++) {
        CONF_ANSWER(&t[i], i < 4 ? UNIT_COMMITTED : UNIT_REFUSED);
        if (i < 4)
            assert_int_equal(unit_rows(t[i].unit, 0)->values[0].i, i + 2);
        else
            assert_string_equal(t[i].unit->refused, i == 4 ? "w" : "v");
    }
    conf_tickets_free(t, COUNT);
    conf_ticket_append(&t[0], 2, 1, NULL);
    committer_submit(k, t[0].unit);
    conf_drive(k, NULL, t, 1);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    conf_ticket_free(&t[0]);
}

/* They were set by pawl, and not by a function of that name. */
static void expect_settings(db *d)
{
    static const db_sql SETTINGS = {
        "SELECT count(*) FROM pg_catalog.pg_settings"
        " WHERE (name, setting) IN (('synchronous_commit', 'on'), ('statement_timeout', '0'))"
        " OR (name = 'lock_timeout' AND setting <> '0')",
        ""};
    db_conn *conn = conf_connect(d, DB_COMMITTER);
    conf_begin(conn);
    assert_int_equal(conf_number_on(conn, &SETTINGS, NULL, 0), 3);
    conf_commit(conn);
    db_disconnect(conn);
}

static void use_everything(const conf *c, const char *url)
{
    error err = {0};
    int64_t now = 0;
    db *d = NULL;
    db_options o = {.url = url};
    CONF_OK(db_open(&d, &o, &err), &err);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    use_units(d, k);
    assert_int_equal(
        pgserver_number(c->server, c->database, "SELECT count(*) FROM pawl.journal WHERE run < 3"),
        5);
    db_conn *conn = conf_connect(d, DB_NOTIFIER);
    CONF_OK(conn->driver->now_ms(conn, &now, &err), &err);
    assert_true(now > INT64_C(1600000000000));
    CONF_OK(conn->driver->channel.notify(conn, (int64_t[]){0, 7}, 2, &err), &err);
    db_disconnect(conn);
    expect_settings(d);
    committer_close(k);
    db_close(d);
    assert_int_equal(pgserver_number(c->server, c->database, "SELECT count(*) FROM pawl.commits"),
                     0);
}

static void write_url(const conf *c, const char *more, char out[URL])
{
    int n = snprintf(out, URL, "postgres://victim@/%s?host=%s&port=%d%s", c->database,
                     pgserver_dir(c->server), pgserver_port(c->server), more);
    assert_in_range(n, 1, URL - 1);
}

/* In whatever order the application looks for names, pawl's words are pawl's. */
static void names_of_the_application_mean_nothing_to_pawl(conf *c)
{
    static const char *const PATHS[] = {"evil, public", "evil, pg_catalog", "\"$user\", evil"};
    char url[URL];
    pgserver_exec(c->server, NULL, "CREATE ROLE victim LOGIN");
    for (size_t i = 0; i < sizeof PATHS / sizeof *PATHS; i++) {
        conf fresh = *c;
        char sql[SQL];
        pgserver_database(c->server, fresh.database);
        for (size_t k = 0; k < sizeof EVIL / sizeof *EVIL; k++)
            pgserver_exec(c->server, fresh.database, EVIL[k]);
        snprintf(sql, sizeof sql,
                 "GRANT CREATE ON DATABASE %s TO victim; ALTER ROLE victim SET search_path = %s;"
                 "ALTER ROLE victim SET synchronous_commit = off",
                 fresh.database, PATHS[i]);
        pgserver_exec(c->server, NULL, sql);
        write_url(&fresh, "", url);
        use_everything(&fresh, url);
        pgserver_exec(c->server, fresh.database,
                      "SET client_min_messages = warning; DROP SCHEMA pawl CASCADE");
        write_url(&fresh, "&pooler=transaction", url); /* a session keeps nothing there */
        use_everything(&fresh, url);
    }
}

static const conf_case CASES[] = {
    {"names of the application mean nothing to pawl", names_of_the_application_mean_nothing_to_pawl,
     0},
};

int main(void)
{
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
