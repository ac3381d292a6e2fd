/* The driver for PostgreSQL: connections, statements one at a time, and the table of functions.
 * Transactions are in pg_tx.c, batches of units in pg_batch.c. */
#include <stdlib.h>
#include <string.h>

#include "db/plugin.h"
#include "pg/pg.h"

/* ---- Connections ---- */

static pawl_code connect(db *base, db_role role, db_conn **out, error *err)
{
    error own;
    err = err ? err : &own;
    *out = NULL;
    if (base->options.look_only && role != DB_READER)
        return error_set(err, PAWL_READONLY, "this handle only looks");
    pg_conn *c = calloc(1, sizeof *c);
    if (!c) {
        error_nomem(err);
        return PAWL_NOMEM;
    }
    const db_options *o = &base->options;
    c->base = (db_conn){.driver = base->driver, .db = base, .role = role};
    c->epoch = 1;
    c->patience_ms = o->claim_ms * 4 / 5 + (role == DB_WRITER ? o->busy_ms : 0);
    c->lock_ms = pg_lock_ms(c);
    c->scratch = arena_new(0);
    pawl_code rc = c->scratch ? pg_ensure(c, err) : error_nomem(err);
    if (rc != PAWL_OK) {
        db_disconnect(&c->base);
        return rc;
    }
    if (role == DB_COMMITTER)
        pg_proof_open(c);
    *out = &c->base;
    return PAWL_OK;
}

static void disconnect(db_conn *base)
{
    pg_conn *c = (pg_conn *)base;
    if (c->borrowed) {
        free(c);
        return;
    }
    pg_proof_close(c);
    if (!pg_in_transaction(base))
        pg_ring_drop(c);
    pg_forget(c);
    free(c->pending);
    arena_free(c->scratch);
    free(c);
}

static void *native(db_conn *base)
{
    return ((pg_conn *)base)->native;
}

/* ---- Statements, one at a time ---- */

static pawl_code bind(db_stmt *base, int index, const db_value *v, error *err)
{
    pg_stmt *s = (pg_stmt *)base;
    if (index < 1 || index > s->count || v->type == DB_FROM)
        return error_set(err, PAWL_DATA, "a statement has no such parameter");
    s->values[index - 1] = *v;
    return PAWL_OK;
}

/* If the beginning of the transaction was put off (pg_conn.lazy), it goes in the same trip as the
 * statement. */
static pawl_code execute_once(pg_stmt *s, const pg_params *p, error *err)
{
    pg_conn *c = (pg_conn *)s->base.conn;
    int begins = 0;
    PQclear(s->result);
    s->result = NULL;
    pawl_code rc = pg_push_lazy(c, &begins, err);
    if (rc == PAWL_OK)
        rc = pg_push(c, s, p, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    if (rc == PAWL_OK && begins)
        rc = pg_take_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    PGresult *r = pg_take(c, err);
    if (!r || !pg_ok(r))
        return pg_fail(c, r, "use", err);
    s->result = r;
    return pg_skip(c, err);
}

/* A connection that was idle may have died unnoticed. If this is the first statement of a reader's
 * transaction, the reader has seen nothing of the database yet: so the statement is tried once more
 * on a new connection. */
static pawl_code execute(pg_stmt *s, error *err)
{
    pg_conn *c = (pg_conn *)s->base.conn;
    pg_params p = {0};
    for (int i = 0; i < s->count; i++)
        pg_param(&p, &s->values[i]);
    s->row = -1;
    if (c->borrowed) {
        s->result = pg_borrowed_result(c, s, &p, err);
        return s->result ? PAWL_OK : err->code;
    }
    int is_first = c->lazy;
    pawl_code rc = execute_once(s, &p, err);
    /* RULE L3-a-connection-that-died-idle-is-made-anew */
    if (rc == PAWL_UNREACHABLE && is_first && !c->native && pg_begin(&c->base, err) == PAWL_OK)
        rc = execute_once(s, &p, err);
    return rc;
}

static db_step next(db_stmt *base, error *err)
{
    pg_stmt *s = (pg_stmt *)base;
    error own;
    if (!s->executed) {
        s->executed = 1;
        if (execute(s, err ? err : &own) != PAWL_OK)
            return DB_FAILED;
    }
    if (!s->result)
        return DB_DONE;
    return ++s->row < PQntuples(s->result) ? DB_ROW : DB_DONE;
}

static int columns(db_stmt *base)
{
    const pg_stmt *s = (pg_stmt *)base;
    return s->result ? PQnfields(s->result) : 0;
}

static void column(db_stmt *base, int index, db_value *out)
{
    pg_stmt *s = (pg_stmt *)base;
    *out = pg_column(s->result, s->row, index, s->number);
}

static void reset(db_stmt *base)
{
    pg_stmt *s = (pg_stmt *)base;
    PQclear(s->result);
    s->result = NULL;
    s->executed = 0;
}

/* Several statements in one text need the simple protocol, which a pipeline does not have. */
static pawl_code script(db_conn *base, const char *text, error *err)
{
    pg_conn *c = (pg_conn *)base;
    if (!c->native || !PQexitPipelineMode(c->native))
        return pg_error_connecting(c->native, err);
    PQsetnonblocking(c->native, 0);
    PGresult *r = PQexec(c->native, text);
    pawl_code rc = pg_ok(r) ? PAWL_OK : pg_error(c, r, "change the tables of", err);
    PQclear(r);
    PQsetnonblocking(c->native, 1);
    if (!PQenterPipelineMode(c->native))
        pg_forget(c);
    return rc;
}

static void between(db_conn *c)
{
    (void)c;
}

static const char NOW[] = "SELECT (extract(epoch FROM pg_catalog.clock_timestamp())"
                          " OPERATOR(pg_catalog.*) 1000000)::bigint";

static pawl_code now_us(db_conn *base, int64_t *out, error *err)
{
    pg_conn *c = (pg_conn *)base;
    error own;
    err = err ? err : &own;
    pawl_code rc = pg_ensure(c, err);
    PGresult *r = rc == PAWL_OK ? pg_once(c, NOW, NULL, err) : NULL;
    if (!r)
        return rc == PAWL_OK ? err->code : rc;
    *out = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return PAWL_OK;
}

static pawl_code now_ms(db_conn *base, int64_t *out, error *err)
{
    int64_t us = 0;
    pawl_code rc = now_us(base, &us, err);
    if (rc == PAWL_OK)
        *out = us / 1000;
    return rc;
}

/* ---- The database ---- */

static const char TABLES[] =
    "(SELECT relname AS name, CASE relkind WHEN 'r' THEN 'table' ELSE 'other' END AS type"
    " FROM pg_class WHERE relkind IN ('r', 'v', 'm', 'p', 'f') AND relnamespace ="
    " (SELECT oid FROM pg_namespace WHERE nspname = 'pawl'))";

/* The change feed is ordered by transactions. It is read up to the oldest transaction that is still
 * under way, since that may yet commit. */
#define OLDEST "CAST(CAST(pg_snapshot_xmin(pg_current_snapshot()) AS text) AS bigint)"

/* Transactions other than pawl's that keep rows of runs locked: seldom more than one. While a
 * transaction is under way, each row that it has locked has its number. Short transactions are left
 * out, since they do no harm. To some roles the server does not show when a transaction began. */
/* RULE L6-why-tells-of-locks-of-the-run-itself */
#define RUN_LOCKERS                                                                                \
    "(SELECT r.run AS run, a.pid AS process,"                                                      \
    " CAST(extract(epoch FROM a.xact_start) * 1000 AS bigint) AS since"                            \
    " FROM pawl.runs AS r"                                                                         \
    " JOIN pg_catalog.pg_locks AS l ON l.locktype = 'transactionid' AND l.granted"                 \
    " AND l.mode = 'ExclusiveLock' AND l.transactionid = r.xmax"                                   \
    " JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid"                                      \
    " AND a.application_name IS DISTINCT FROM 'pawl'"                                              \
    " AND coalesce(a.xact_start < statement_timestamp() - interval '1 second', true))"

/* The advisory locks of nodes in this database. An application may use locks with two keys too: the
 * class (the first key) tells them apart. */
#define NODE_LOCKS                                                                                 \
    "(SELECT CAST(classid AS bigint) AS class, CAST(objid AS bigint) AS node"                      \
    " FROM pg_catalog.pg_locks WHERE locktype = 'advisory' AND objsubid = 2 AND granted"           \
    " AND database = (SELECT oid FROM pg_catalog.pg_database"                                      \
    " WHERE datname = pg_catalog.current_database()))"

static const db_macro MACROS[] = {
    {"KEY", "bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"},
    {"INT", "bigint"},
    {"TEXT", "text COLLATE \"C\""},
    {"REAL", "double precision"},
    {"BYTES", "bytea"},
    {"BUSY", "WITH (fillfactor = 80, autovacuum_vacuum_scale_factor = 0.02,"
             " autovacuum_vacuum_threshold = 500, autovacuum_vacuum_cost_delay = 0)"},
    {"UNLOGGED", "UNLOGGED"},     /* RULE A1-signs-do-not-outlive-a-crash-of-the-server */
    {"LOCK_SHARED", "FOR SHARE"}, /* RULE A1-a-nodes-row-is-locked-not-looked-at */
    {"XACT", "CAST(CAST(pg_current_xact_id() AS text) AS bigint)"},
    {"FEED_AT", "xact"},
    /* RULE B6-the-feed-ends-below-the-oldest-transaction-under-way */
    {"FEED_IS_OVER", "xact > 0 AND xact < " OLDEST},
    {"FEED_END", OLDEST " - 1"},
    {"OUR_TABLES", TABLES},
    {"SERVER_STARTED", PG_SERVER_STARTED},
    {"NODE_LOCKS", NODE_LOCKS},
    {"RUN_LOCKERS", RUN_LOCKERS},
    {NULL, NULL},
};

static void close_db(db *base)
{
    pg_db *d = (pg_db *)base;
    PQconninfoFree(d->info);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

static const db_driver DRIVER = {
    .name = "postgres",
    .table_prefix = "pawl.",
    .macros = MACROS,
    .promises = DB_DURABLE | DB_ISOLATED | DB_SHARED,
    .close = close_db,
    .connect = connect,
    .disconnect = disconnect,
    .begin = pg_begin,
    .commit = pg_commit,
    .rollback = pg_rollback,
    .in_transaction = pg_in_transaction,
    .settle = pg_settle,
    .prepare = pg_stmt_prepare,
    .finalize = pg_stmt_free,
    .bind = bind,
    .next = next,
    .columns = columns,
    .column = column,
    .reset = reset,
    .script = script,
    .between = between,
    .apply = pg_apply,
    .now_ms = now_ms,
    .now_us = now_us,
    .evict = pg_evict,
    .channel.listen = pg_listen,
    .channel.heard = pg_heard,
    .channel.notify = pg_notify,
    .channel.lock_for_life = pg_lock_for_life,
    .native = native,
    .guests.borrow = pg_borrow,
    .guests.lend = pg_lend,
    .guests.take_back = pg_take_back,
};

static const db_sql HAS_SCHEMA = {"SELECT 1 WHERE to_regnamespace('pawl') IS NOT NULL", ""};

/* Looks whether the schema exists. As a DB_WRITER it also makes the schema: writers exclude each
 * other, so of several engines one makes it and the others find it. */
static pawl_code need_schema(pg_db *d, db_role role, int *there, error *err)
{
    db_conn *c;
    int64_t one;
    pawl_code rc = connect(&d->base, role, &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = pg_begin(c, err);
    if (rc == PAWL_OK)
        rc = db_number(c, &HAS_SCHEMA, NULL, 0, &one, there, err);
    if (rc == PAWL_OK && !*there && role == DB_WRITER)
        rc = script(c, "CREATE SCHEMA pawl", err);
    if (rc == PAWL_OK)
        rc = pg_commit(c, err);
    db_disconnect(c);
    if (rc == PAWL_DENIED)
        error_hint(err, "let the user make the schema (GRANT CREATE ON DATABASE), or make it for"
                        " the user: CREATE SCHEMA pawl AUTHORIZATION …");
    return rc;
}

/* Makes the schema before the migrations, because these look for tables in it first. */
static pawl_code make_schema(pg_db *d, error *err)
{
    int there = 0;
    pawl_code rc = need_schema(d, DB_READER, &there, err);
    /* RULE looking-makes-no-schema */
    if (d->base.options.look_only) /* where it is missing, there are no tables either */
        return rc;
    return rc == PAWL_OK && !there ? need_schema(d, DB_WRITER, &there, err) : rc;
}

static pawl_code open(db **out, slice url, const db_options *options, error *err)
{
    *out = NULL;
    pg_db *d = calloc(1, sizeof *d);
    if (!d)
        return error_nomem(err);
    d->base = (db){.driver = &DRIVER, .options = *options, .world = &d->world};
    pthread_mutex_init(&d->lock, NULL);
    error own;
    err = err ? err : &own;
    pawl_code rc = pg_read_url(d, url, err);
    if (rc == PAWL_OK)
        rc = make_schema(d, err);
    if (rc != PAWL_OK) {
        close_db(&d->base);
        return rc;
    }
    *out = &d->base;
    return PAWL_OK;
}

__attribute__((visibility("default"))) extern const db_plugin pawl_db_plugin;
const db_plugin pawl_db_plugin = {PAWL_VERSION, DB_PLUGIN_SIZES, open};
