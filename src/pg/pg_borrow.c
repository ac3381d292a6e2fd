/* Connections of the application, in a transaction of its own: what it commits, it commits together
 * with what is written here.
 *
 * Such a connection is used as it is found: one statement at a time, without names for statements,
 * without a deadline. A statement that fails costs the application its transaction, so the
 * likeliest mistake, a connection to another database, is checked for by a query that cannot
 * fail. */
#include <stdlib.h>

#include "pg/pg.h"

static pawl_code check_state(PGconn *native, error *err)
{
    if (PQstatus(native) != CONNECTION_OK)
        return pg_error_lost(native, err);
    if (PQpipelineStatus(native) != PQ_PIPELINE_OFF) {
        error_set(err, PAWL_MISUSE, "the connection is in pipeline mode");
        error_hint(err, "call PQexitPipelineMode() first");
        return PAWL_MISUSE;
    }
    PGTransactionStatusType status = PQtransactionStatus(native);
    if (status == PQTRANS_INTRANS)
        return PAWL_OK;
    error_set(err, PAWL_MISUSE,
              status == PQTRANS_INERROR  ? "the transaction has failed before"
              : status == PQTRANS_ACTIVE ? "the connection is in the middle of something"
                                         : "the connection is not in a transaction");
    error_hint(err, "BEGIN before this call, and COMMIT after it");
    return PAWL_MISUSE;
}

static pawl_code check_tables(PGconn *native, error *err)
{
    PGresult *r = PQexecParams(native, "SELECT pg_catalog.to_regclass('pawl.outbox') IS NOT NULL",
                               0, NULL, NULL, NULL, NULL, 0);
    pawl_code rc = PAWL_OK;
    if (!pg_ok(r))
        rc = pg_error(&(pg_conn){.native = native}, r, "use", err);
    else if (PQgetvalue(r, 0, 0)[0] != 't')
        rc = error_set(err, PAWL_INVALID, "the connection is to another database");
    PQclear(r);
    return rc;
}

pawl_code pg_borrow(db *d, void *native, db_conn **out, error *err)
{
    error own;
    err = err ? err : &own;
    *out = NULL;
    pawl_code rc = check_state(native, err);
    if (rc == PAWL_OK)
        rc = check_tables(native, err);
    pg_conn *c = rc == PAWL_OK ? calloc(1, sizeof *c) : NULL;
    if (!c)
        return rc == PAWL_OK ? error_nomem(err) : rc;
    c->base = (db_conn){.driver = d->driver, .db = d, .role = DB_WRITER};
    c->native = native;
    c->borrowed = 1;
    *out = &c->base;
    return PAWL_OK;
}

PGresult *pg_borrowed_result(pg_conn *c, const pg_stmt *s, const pg_params *p, error *err)
{
    PGresult *r =
        PQexecParams(c->native, s->text, s->count, s->types, p->values, p->sizes, p->formats, 1);
    if (pg_ok(r))
        return r;
    pg_error(c, r, "use", err);
    PQclear(r);
    return NULL;
}
