/* Transactions of a connection: begun, committed, rolled back, in as few round trips as can be.
 *
 * A reader sees one state (REPEATABLE READ, read only), which the server takes at the first
 * statement. So BEGIN is sent together with that statement, and the answer to the ROLLBACK is not
 * waited for: it is taken when the connection is used again. A read of one statement is one trip.
 *
 * Writers exclude each other by an advisory lock. A committer's connection runs concurrently with
 * all others under READ COMMITTED: a condition that must hold is a guard that locks its row, and
 * the transaction first moves its place in the ring (pg_ring.c).
 *
 * After an error the server refuses everything but the end of the transaction, so every error but
 * those behind a savepoint costs the transaction. */
#include <string.h>

#include "pg/pg.h"

static const db_sql BEGIN_READ = {"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ""};
static const db_sql BEGIN_WRITE = {"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ""};
static const db_sql BE_ALONE = {"SELECT pg_advisory_xact_lock($1)", "i"};
static const db_sql COMMIT = {"COMMIT", ""};
static const db_sql ROLLBACK = {"ROLLBACK", ""};

/* Behind a pooler settings last for a transaction only, so every transaction makes them. */
static const db_sql SET_LOCAL = {
    /* RULE names-are-those-of-the-server-behind-a-pooler */
    "SELECT pg_catalog.set_config('search_path', 'pg_catalog, pg_temp', true),"
    " pg_catalog.set_config('lock_timeout', $1::pg_catalog.text, true),"
    " pg_catalog.set_config('idle_in_transaction_session_timeout', $2::pg_catalog.text, true),"
    " pg_catalog.set_config('statement_timeout', '0', true),"
    " pg_catalog.set_config('synchronous_commit', CASE WHEN $3 OPERATOR(pg_catalog.=) 1 THEN 'off'"
    " WHEN pg_catalog.current_setting('synchronous_commit') OPERATOR(pg_catalog.=) 'remote_apply'"
    /* RULE 8-behind-a-pooler-every-transaction-commits-durably */
    " THEN 'remote_apply' ELSE 'on' END, true)",
    "iii"};

static const int64_t LOCK_ID = INT64_C(0x7061776c); /* "pawl" */

int pg_in_transaction(db_conn *base)
{
    pg_conn *c = (pg_conn *)base;
    if (!c->native)
        return 0;
    PGTransactionStatusType status = PQtransactionStatus(c->native);
    return status == PQTRANS_INTRANS || status == PQTRANS_INERROR;
}

pawl_code pg_push_settings(pg_conn *c, error *err)
{
    const db_options *o = &c->base.db->options;
    int alone = c->base.role == DB_WRITER;
    db_value values[] = {db_int(c->lock_ms), db_int(alone ? 0 : o->claim_ms * 3 / 5),
                         db_int(pg_db_of(c)->relaxed)};
    return pg_push_sql(c, &SET_LOCAL, values, 3, err);
}

pawl_code pg_push_begin(pg_conn *c, error *err)
{
    db_value lock = db_int(LOCK_ID);
    db_role role = c->base.role;
    pawl_code rc = pg_push_sql(c, role == DB_READER ? &BEGIN_READ : &BEGIN_WRITE, NULL, 0, err);
    if (rc == PAWL_OK && pg_db_of(c)->pooler)
        rc = pg_push_settings(c, err);
    if (rc == PAWL_OK && role == DB_WRITER)
        rc = pg_push_sql(c, &BE_ALONE, &lock, 1, err);
    if (rc == PAWL_OK && role == DB_COMMITTER)
        rc = pg_ring_push(c, err);
    return rc;
}

static pawl_code take_ok(pg_conn *c, error *err)
{
    PGresult *r = pg_take(c, err);
    if (!r || !pg_ok(r))
        return pg_fail(c, r, "begin a transaction in", err);
    PQclear(r);
    return PAWL_OK;
}

/* After any code but PAWL_OK the transaction is over. met_lock is cleared, since a lock that times
 * out here is that of the node's row or of the place in the ring, and not that of a row of a
 * unit. */
pawl_code pg_take_begin(pg_conn *c, error *err)
{
    int count = 1 + (pg_db_of(c)->pooler != 0) + (c->base.role == DB_WRITER);
    pawl_code rc = PAWL_OK;
    for (int i = 0; i < count && rc == PAWL_OK; i++)
        rc = take_ok(c, err);
    if (rc == PAWL_OK && c->base.role == DB_COMMITTER)
        rc = pg_ring_take(c, err);
    c->met_lock = 0; /* RULE L4-locks-of-the-node-and-of-the-ring-are-no-units */
    if (rc != PAWL_OK)
        pg_rollback(&c->base);
    return rc;
}

static pawl_code begin_once(pg_conn *c, error *err)
{
    pawl_code rc = pg_ready(c, err);
    if (rc == PAWL_OK)
        rc = pg_push_begin(c, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    if (rc == PAWL_OK)
        rc = pg_take_begin(c, err);
    return rc == PAWL_OK ? pg_skip(c, err) : rc;
}

/* A connection that was idle may have died unnoticed: then the transaction begins on a new one. A
 * reader does not find that out here, since nothing of its transaction is sent before its first
 * statement (pg_push_lazy()). */
pawl_code pg_begin(db_conn *base, error *err)
{
    pg_conn *c = (pg_conn *)base;
    error own;
    err = err ? err : &own;
    if (base->role == DB_READER) {
        pawl_code ready = pg_ready(c, err);
        c->lazy = ready == PAWL_OK;
        return ready;
    }
    int old = c->native != NULL;
    pawl_code rc = begin_once(c, err);
    if (rc == PAWL_UNREACHABLE && old && !c->native)
        rc = begin_once(c, err);
    return rc;
}

pawl_code pg_push_lazy(pg_conn *c, int *begins, error *err)
{
    *begins = c->lazy;
    c->lazy = 0;
    return *begins ? pg_push_begin(c, err) : PAWL_OK;
}

pawl_code pg_push_commit(pg_conn *c, error *err)
{
    return pg_push_sql(c, &COMMIT, NULL, 0, err);
}

/* Reads the answer to COMMIT. If it is an error and the session lives, the transaction was not
 * committed. If the server goes down, the connection breaks or no answer comes, the commit is
 * undecided. */
pawl_code pg_take_commit(pg_conn *c, error *err)
{
    PGresult *r = pg_take(c, err);
    if (!r)
        return PAWL_UNREACHABLE;
    if (pg_ok(r)) {
        int committed = strcmp(PQcmdStatus(r), "COMMIT") == 0;
        PQclear(r);
        pg_skip(c, NULL); /* the commit is decided, whatever comes behind its answer */
        return committed ? PAWL_OK : error_set(err, PAWL_DATA, "the transaction had failed before");
    }
    int decided = PQresultStatus(r) != PGRES_PIPELINE_ABORTED && !pg_is_fatal(r) && c->native &&
                  PQstatus(c->native) == CONNECTION_OK;
    pawl_code rc = pg_fail(c, r, "commit to", err);
    if (decided)
        return rc == PAWL_BUSY ? PAWL_BUSY : PAWL_DATA;
    pg_forget(c);
    return rc == PAWL_BUSY || rc == PAWL_DATA ? PAWL_UNREACHABLE : rc;
}

pawl_code pg_commit(db_conn *base, error *err)
{
    pg_conn *c = (pg_conn *)base;
    error own;
    err = err ? err : &own;
    if (c->lazy) {
        c->lazy = 0;
        return PAWL_OK;
    }
    pawl_code rc = pg_push_commit(c, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    if (rc == PAWL_OK)
        rc = pg_take_commit(c, err);
    if (rc != PAWL_OK)
        c->doubtful |= rc != PAWL_BUSY && rc != PAWL_DATA;
    else if (base->role == DB_COMMITTER)
        pg_ring_committed(c);
    return rc;
}

/* If not even ROLLBACK is answered the connection is closed, which ends the transaction. */
void pg_rollback(db_conn *base)
{
    pg_conn *c = (pg_conn *)base;
    error err = {0};
    c->lazy = 0;
    if (c->native && c->pending_head < c->pending_tail)
        pg_skip(c, &err);
    if (!pg_in_transaction(base))
        return;
    pawl_code rc = pg_push_sql(c, &ROLLBACK, NULL, 0, &err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, &err);
    if (rc == PAWL_OK && base->role == DB_READER && PQflush(c->native) == 0)
        return;
    PGresult *r = rc == PAWL_OK ? pg_take(c, &err) : NULL;
    int done = r && pg_ok(r);
    PQclear(r);
    if (!done || pg_skip(c, &err) != PAWL_OK)
        pg_forget(c);
}
