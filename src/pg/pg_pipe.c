/* Round trips in libpq's pipeline mode: statements pushed, one sync, results taken in order.
 *
 * libpq's socket is not blocking here: while we still send, the server may already answer, and two
 * full buffers would wait for each other for ever. A statement that this connection has not seen is
 * prepared on the way, in the same trip. If that fails, everything behind it in the trip is skipped
 * by the server, so nothing is executed that was not understood.
 *
 * The deadline is real time: what is waited for is a socket. */
#include <assert.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "pg/pg.h"

static int64_t real_ns(void)
{
    return clock_system()->mono_ns(clock_system());
}

/* ---- Parameters ---- */

static void put_int(char to[8], int64_t i)
{
    uint64_t u = (uint64_t)i;
    for (int k = 7; k >= 0; k--, u >>= 8)
        to[k] = (char)(u & 0xff);
}

void pg_param(pg_params *p, const db_value *v)
{
    int i = p->count++;
    assert(i < PG_PARAMETERS && v->type != DB_FROM);
    p->formats[i] = 1;
    p->values[i] = NULL;
    p->sizes[i] = 0;
    if (v->type == DB_INT) {
        put_int(p->ints[i], v->i);
        p->values[i] = p->ints[i];
        p->sizes[i] = 8;
    } else if (v->type != DB_NULL) {
        p->values[i] = v->s.at ? v->s.at : "";
        p->sizes[i] = (int)v->s.size;
    }
}

/* ---- What is on its way ---- */

/* Adds an entry to the list of results to be taken, without which results could not be matched with
 * statements. If memory is out the connection is closed. */
static pawl_code expect_result(pg_conn *c, pg_stmt *prepares, error *err)
{
    if (c->pending_tail == c->pending_size) {
        size_t size = c->pending_size ? 2 * c->pending_size : 64;
        pg_stmt **more = realloc(c->pending, size * sizeof(pg_stmt *));
        if (!more) {
            pg_forget(c);
            return error_nomem(err);
        }
        c->pending = more;
        c->pending_size = size;
    }
    c->pending[c->pending_tail++] = prepares;
    return PAWL_OK;
}

static pawl_code lose_connection(pg_conn *c, error *err)
{
    pg_error_lost(c->native, err);
    pg_forget(c);
    return PAWL_UNREACHABLE;
}

static pawl_code push_prepare(pg_conn *c, pg_stmt *s, error *err)
{
    if (!PQsendPrepare(c->native, s->name, s->text, s->count, s->types))
        return lose_connection(c, err);
    s->prepared_in = c->epoch;
    return expect_result(c, s, err);
}

pawl_code pg_push(pg_conn *c, pg_stmt *s, const pg_params *p, error *err)
{
    static const pg_params NONE = {0};
    if (!p)
        p = &NONE;
    assert(p->count == s->count);
    if (!c->native)
        return pg_error_silent(err);
    int sent;
    if (pg_db_of(c)->pooler) {
        sent = PQsendQueryParams(c->native, s->text, p->count, s->types, p->values, p->sizes,
                                 p->formats, 1);
    } else {
        pawl_code rc = s->prepared_in == c->epoch ? PAWL_OK : push_prepare(c, s, err);
        if (rc != PAWL_OK)
            return rc;
        sent =
            PQsendQueryPrepared(c->native, s->name, p->count, p->values, p->sizes, p->formats, 1);
    }
    if (!sent)
        return lose_connection(c, err);
    return expect_result(c, NULL, err);
}

pawl_code pg_push_sql(pg_conn *c, const db_sql *sql, const db_value *values, int count, error *err)
{
    db_stmt *s;
    pawl_code rc = db_prepare(&c->base, sql, &s, err);
    if (rc != PAWL_OK)
        return rc;
    pg_params p = {0};
    for (int i = 0; i < count; i++)
        pg_param(&p, &values[i]);
    return pg_push(c, (pg_stmt *)s, &p, err);
}

pawl_code pg_sync(pg_conn *c, error *err)
{
    if (!c->native)
        return pg_error_silent(err);
    if (!PQpipelineSync(c->native))
        return lose_connection(c, err);
    c->synced++;
    c->deadline_ns = clock_deadline(real_ns(), c->patience_ms);
    return PAWL_OK;
}

/* ---- Waiting ---- */

/* Send what is left and read, until a result is there. */
static pawl_code await_result(pg_conn *c, error *err)
{
    while (PQisBusy(c->native)) {
        int unsent = PQflush(c->native);
        int64_t left = c->deadline_ns - real_ns();
        if (unsent < 0)
            return lose_connection(c, err);
        if (left <= 0) {
            pg_forget(c);
            return pg_error_silent(err);
        }
        struct pollfd p = {PQsocket(c->native), POLLIN | (unsent ? POLLOUT : 0), 0};
        int64_t ms = left / 1000000 + 1;
        (void)poll(&p, 1, ms > 60000 ? 60000 : (int)ms);
        if ((p.revents & ~POLLOUT) && !PQconsumeInput(c->native))
            return lose_connection(c, err);
    }
    return PAWL_OK;
}

static PGresult *next_result(pg_conn *c, error *err)
{
    if (!c->native) {
        pg_error_silent(err);
        return NULL;
    }
    if (PQflush(c->native) < 0 || await_result(c, err) != PAWL_OK) {
        if (c->native)
            lose_connection(c, err);
        return NULL;
    }
    PGresult *r = PQgetResult(c->native);
    if (!r)
        lose_connection(c, err);
    return r;
}

/* Reads the end of a statement's results, for which PQgetResult() returns NULL. */
static void end_of_statement(pg_conn *c, error *err)
{
    if (await_result(c, err) != PAWL_OK)
        return;
    PQclear(PQgetResult(c->native)); /* not NULL only when the connection has just broken */
}

int pg_ok(const PGresult *r)
{
    ExecStatusType status = PQresultStatus(r);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

/* If a statement could not be prepared, the server skips its execution: then the result is the
 * error of the preparation. */
PGresult *pg_take(pg_conn *c, error *err)
{
    PGresult *bad = NULL;
    for (;;) {
        PGresult *r = next_result(c, err);
        if (!r) {
            PQclear(bad);
            return NULL;
        }
        assert(c->pending_head < c->pending_tail);
        pg_stmt *prepares = c->pending[c->pending_head++];
        if (c->pending_head == c->pending_tail)
            c->pending_head = c->pending_tail = 0;
        /* A fatal error is followed by the end of the connection, not by the end of a statement. */
        if (!pg_ok(r) && PQresultStatus(r) != PGRES_PIPELINE_ABORTED &&
            PQstatus(c->native) == CONNECTION_BAD)
            return r;
        end_of_statement(c, err);
        if (!prepares) {
            if (!bad)
                return r;
            PQclear(r);
            return bad;
        }
        if (pg_ok(r)) {
            prepares->ready_in = c->epoch;
            PQclear(r);
        } else {
            if (prepares->ready_in != c->epoch)
                prepares->prepared_in = 0;
            bad = r;
        }
        if (!c->native)
            return bad;
    }
}

pawl_code pg_skip(pg_conn *c, error *err)
{
    error own;
    err = err ? err : &own;
    while (c->native && c->pending_head < c->pending_tail)
        PQclear(pg_take(c, err));
    while (c->native && c->synced > 0) {
        PGresult *r = next_result(c, err);
        if (!r)
            break;
        if (PQresultStatus(r) == PGRES_PIPELINE_SYNC)
            c->synced--;
        PQclear(r);
    }
    return c->native ? PAWL_OK : PAWL_UNREACHABLE;
}

/* Takes the answer to the ROLLBACK of a reader's transaction (pg_tx.c). The deadline is set anew,
 * since the connection may have been idle for longer than patience_ms. */
void pg_take_ending(pg_conn *c)
{
    if (!c->native || (c->pending_head == c->pending_tail && c->synced == 0))
        return;
    c->deadline_ns = clock_deadline(real_ns(), c->patience_ms);
    pg_skip(c, NULL);
}

pawl_code pg_fail(pg_conn *c, PGresult *r, const char *doing, error *err)
{
    if (!r) /* the connection is lost, and err says how */
        return err && err->code ? err->code : PAWL_UNREACHABLE;
    pawl_code rc = pg_error(c, r, doing, err);
    c->met_lock |= pg_is_lock(r);
    PQclear(r);
    if (c->native && PQstatus(c->native) == CONNECTION_BAD)
        pg_forget(c);
    pg_skip(c, NULL);
    return rc;
}

PGresult *pg_once(pg_conn *c, const char *sql, const pg_params *p, error *err)
{
    static const pg_params NONE = {0};
    if (!p)
        p = &NONE;
    if (!c->native) {
        pg_error_silent(err);
        return NULL;
    }
    if (!PQsendQueryParams(c->native, sql, p->count, NULL, p->values, p->sizes, p->formats, 0)) {
        lose_connection(c, err);
        return NULL;
    }
    if (expect_result(c, NULL, err) != PAWL_OK || pg_sync(c, err) != PAWL_OK)
        return NULL;
    PGresult *r = pg_take(c, err);
    if (!r || !pg_ok(r)) {
        pg_fail(c, r, "set up", err);
        return NULL;
    }
    if (pg_skip(c, err) == PAWL_OK)
        return r;
    PQclear(r);
    return NULL;
}
