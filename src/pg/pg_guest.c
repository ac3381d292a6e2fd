/* Lending a connection to code of the application, in the midst of a transaction.
 *
 * The guest gets an ordinary connection: no pipeline, blocking, with the search_path that the
 * server gives to this user. Afterwards its state is checked: libpq knows whether the transaction
 * is still open and whether results were left unread. Only the server knows that it is the same
 * transaction. */
#include "pg/pg.h"

static const db_sql LEND = {"SAVEPOINT pawl_guest", ""};
/* RULE A8-another-transaction-is-not-the-one-that-was-lent-postgres */
static const db_sql TAKE_BACK = {"RELEASE SAVEPOINT pawl_guest", ""};
static const db_sql THEIR_PATH = {"SET LOCAL search_path TO DEFAULT", ""};
static const db_sql OUR_PATH = {"SET LOCAL search_path TO pg_catalog, pg_temp", ""};

static pawl_code run_two(pg_conn *c, const db_sql *first, const db_sql *second, error *err)
{
    pawl_code rc = pg_push_sql(c, first, NULL, 0, err);
    if (rc == PAWL_OK)
        rc = pg_push_sql(c, second, NULL, 0, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    for (int i = 0; i < 2 && rc == PAWL_OK; i++) {
        PGresult *r = pg_take(c, err);
        if (!r || !pg_ok(r))
            rc = pg_fail(c, r, "lend", err);
        else
            PQclear(r);
    }
    return rc == PAWL_OK ? pg_skip(c, err) : rc;
}

/* The guest knows nothing of pipelines, and names its tables as it does elsewhere. The savepoint
 * identifies the transaction: another one that a guest has begun does not have it. */
pawl_code pg_lend(db_conn *base, void **out, error *err)
{
    pg_conn *c = (pg_conn *)base;
    pawl_code rc = run_two(c, &LEND, &THEIR_PATH, err);
    if (rc != PAWL_OK)
        return rc;
    if (!PQexitPipelineMode(c->native) || PQsetnonblocking(c->native, 0) != 0) {
        pg_error_lost(c->native, err);
        pg_forget(c);
        return PAWL_UNREACHABLE;
    }
    *out = c->native;
    return PAWL_OK;
}

/* With unread results, a COPY or a pipeline the next answer of the server cannot be interpreted. So
 * the connection is closed, and the server rolls back its transaction. */
static pawl_code not_as_lent(pg_conn *c, int keep, error *err)
{
    c->ring_gone = 1; /* the guest may have committed the transaction, and with it its number in the
                         ring */
    if (!keep)
        pg_forget(c);
    return error_set(err, PAWL_MISUSE, "the transaction was ended, or a statement left open");
}

pawl_code pg_take_back(db_conn *base, error *err)
{
    pg_conn *c = (pg_conn *)base;
    if (PQstatus(c->native) == CONNECTION_BAD) {
        pg_error_lost(c->native, err);
        pg_forget(c);
        return PAWL_UNREACHABLE;
    }
    PGTransactionStatusType status = PQtransactionStatus(c->native);
    if (PQpipelineStatus(c->native) != PQ_PIPELINE_OFF || status == PQTRANS_ACTIVE)
        return not_as_lent(c, 0, err);
    if (PQsetnonblocking(c->native, 1) != 0 || !PQenterPipelineMode(c->native))
        return not_as_lent(c, 0, err);
    if (status != PQTRANS_INTRANS)
        return not_as_lent(c, 1, err);
    pawl_code rc = run_two(c, &TAKE_BACK, &OUR_PATH, err);
    return rc == PAWL_OK || rc == PAWL_UNREACHABLE ? rc : not_as_lent(c, c->native != NULL, err);
}
