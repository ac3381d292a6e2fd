/* The ring: how to find out what became of a commit whose answer was lost.
 *
 * To look whether the rows are there is not enough: the server may still be at it, and the commit
 * lands a moment after the look. So every transaction of a committer's connection first moves one
 * row that is its own: it writes its number over a smaller one. Who wants to know what became of
 * it locks that row from a new connection. That waits while the transaction is under way. Then
 * either the number is there, and all the rest with it; or it is not, and a larger number is
 * written in its place: should the lost transaction still come, it finds no smaller number and
 * fails. No transaction id is needed, nor the id of the server's process, so it works behind a
 * pooler and after a failover too.
 *
 * Numbers of transactions are even; what settles one is odd. There are several places in a ring,
 * used in turn, since the versions of a row pile up while anybody looks at an old state of the
 * database.
 *
 * Before it goes the lock on the node's row (db_conn.node). Both statements fail, by a division,
 * where they do not find what they need: so a whole transaction can be sent in one trip. Written as
 * WITH … they took four times as long. */
#include <stdlib.h>
#include <string.h>

#include "pg/pg.h"

static const int64_t DAY_MS = 24 * 3600 * 1000;

static const db_sql MOVE = {"UPDATE {commits} SET number = $3 / (number < $3)::int, at = $4"
                            " WHERE ring = $1 AND place = $2",
                            "iiii"};
static const db_sql FENCE = {
    "SELECT 1 / coalesce((SELECT 1 FROM {nodes} WHERE node = $1 AND slot = $2 AND closed = 0"
    " {LOCK_SHARED}), 0)",
    "ii"};

static const db_sql BEGIN_PLAIN = {"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ""};
static const db_sql NEW_RING = {
    "UPDATE {meta} SET number = number + 1 WHERE name = 'next_ring' RETURNING number - 1", ""};
static const db_sql OLD_RINGS = {"DELETE FROM {commits} WHERE at < $1", "i"};
static const db_sql MAKE_RING = {
    "INSERT INTO {commits} (ring, place, number, at)"
    " SELECT $1, place, -1, $3 FROM generate_series(0, $2 - 1) AS place",
    "iii"};
static const db_sql LOCK_PLACE = {
    "SELECT number FROM {commits} WHERE ring = $1 AND place = $2 FOR UPDATE", "ii"};
static const db_sql BURN = {"UPDATE {commits} SET number = $3, at = $4"
                            " WHERE ring = $1 AND place = $2 RETURNING number",
                            "iiii"};

/* Between the statements of one trip a session waits for its client for ever: no time-out of the
 * server counts there. One that waits for a standby instead is left alone: ended, it would call
 * committed what only this server has. */
static const db_sql END_HOLDER = {
    "SELECT count(pg_terminate_backend(a.pid)) FROM {commits} AS c"
    " JOIN pg_locks AS l ON l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'"
    " AND l.granted AND l.transactionid = c.xmax"
    " JOIN pg_stat_activity AS a ON a.pid = l.pid AND a.wait_event_type = 'Client'"
    " WHERE c.ring = $1 AND c.place = $2",
    "ii"};

static int64_t place_of(const pg_conn *c)
{
    return c->number / 2 % PG_RING;
}

/* ---- In every transaction ---- */

pawl_code pg_ring_push(pg_conn *c, error *err)
{
    db_value node[] = {db_int(c->base.node), db_int(c->base.slot)};
    db_value place[] = {db_int(c->ring), db_int(place_of(c)), db_int(c->number),
                        db_int(pg_time_ms(c))};
    pawl_code rc = c->base.node ? pg_push_sql(c, &FENCE, node, 2, err) : PAWL_OK;
    return rc == PAWL_OK ? pg_push_sql(c, &MOVE, place, 4, err) : rc;
}

/* Take one of the two. */
static pawl_code take(pg_conn *c, int is_fence, error *err)
{
    PGresult *r = pg_take(c, err);
    if (r && pg_ok(r)) {
        if (!is_fence && strcmp(PQcmdTuples(r), "1") != 0)
            c->ring_gone = 1; /* somebody has deleted it; the next transaction has a new one */
        PQclear(r);
        return PAWL_OK;
    }
    int refused = r && pg_is_refusal(r);
    pawl_code rc = pg_fail(c, r, "begin a transaction in", err);
    if (!refused)
        return rc;
    if (is_fence)
        return db_fenced(&c->base, err);
    c->ring_gone = 1;
    return error_set(err, PAWL_BUSY, "the record of commits begins anew");
}

pawl_code pg_ring_take(pg_conn *c, error *err)
{
    pawl_code rc = c->base.node ? take(c, 1, err) : PAWL_OK;
    return rc == PAWL_OK ? take(c, 0, err) : rc;
}

/* One statement in a trip of its own, inside or outside a transaction. */
static pawl_code run(pg_conn *c, const db_sql *sql, const db_value *values, int count, int64_t *out,
                     int *found, error *err)
{
    *out = *found = 0;
    pawl_code rc = pg_push_sql(c, sql, values, count, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    if (rc != PAWL_OK)
        return rc;
    PGresult *r = pg_take(c, err);
    if (!r || !pg_ok(r))
        return pg_fail(c, r, "use", err);
    char number[32];
    *found = PQntuples(r) > 0;
    if (*found)
        *out = pg_column(r, 0, 0, number).i;
    PQclear(r);
    return pg_skip(c, err);
}

/* ---- Making and dropping ---- */

static pawl_code make_in_transaction(pg_conn *c, error *err)
{
    int64_t ring, ignored, now = pg_time_ms(c);
    int found;
    pawl_code rc = run(c, &NEW_RING, NULL, 0, &ring, &found, err);
    if (rc == PAWL_OK && !found)
        rc = error_set(err, PAWL_CORRUPT, "the counter next_ring is missing in the meta table");
    if (rc != PAWL_OK)
        return rc;
    db_value old[] = {db_int(now - DAY_MS)};
    db_value fresh[] = {db_int(ring), db_int(PG_RING), db_int(now)};
    rc = run(c, &OLD_RINGS, old, 1, &ignored, &found, err);
    if (rc == PAWL_OK)
        rc = run(c, &MAKE_RING, fresh, 3, &ignored, &found, err);
    if (rc == PAWL_OK)
        rc = pg_push_commit(c, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    if (rc == PAWL_OK)
        rc = pg_take_commit(c, err);
    if (rc == PAWL_OK) {
        c->ring = ring;
        c->ring_ms = now;
        c->ring_gone = 0;
        c->number = 0;
    }
    return rc;
}

/* A transaction that moves no place in a ring, with the settings of any other. */
static pawl_code begin_plain(pg_conn *c, error *err)
{
    int64_t ignored;
    int found;
    pawl_code rc = run(c, &BEGIN_PLAIN, NULL, 0, &ignored, &found, err);
    if (rc != PAWL_OK || !pg_db_of(c)->pooler)
        return rc;
    rc = pg_push_settings(c, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    PGresult *r = rc == PAWL_OK ? pg_take(c, err) : NULL;
    if (!r || !pg_ok(r))
        return rc == PAWL_OK ? pg_fail(c, r, "begin a transaction in", err) : rc;
    PQclear(r);
    return pg_skip(c, err);
}

/* A ring that was not used for long may be swept away at any moment: then a new one is made, before
 * there is a transaction that could be in doubt. */
pawl_code pg_ring_need(pg_conn *c, error *err)
{
    int64_t now = pg_time_ms(c);
    if (c->ring && !c->ring_gone && now - c->ring_ms < DAY_MS / 2) {
        c->ring_ms = now;
        return PAWL_OK;
    }
    pawl_code rc = begin_plain(c, err);
    if (rc == PAWL_OK)
        rc = make_in_transaction(c, err);
    if (rc != PAWL_OK)
        pg_rollback(&c->base);
    return rc;
}

/* A clean end. What a crash leaves behind goes after a day. */
void pg_ring_drop(pg_conn *c)
{
    if (!c->ring || c->doubtful || !c->native)
        return;
    char text[24];
    buf b;
    buf_init_fixed(&b, text, sizeof text);
    buf_printf(&b, "%lld", (long long)c->ring);
    db_value ring = db_text((slice){text, b.size});
    pg_params p = {0};
    pg_param(&p, &ring);
    error err = {0};
    static const char DROP[] = "DELETE FROM pawl.commits WHERE ring OPERATOR(pg_catalog.=)"
                               " ($1::pg_catalog.text)::bigint";
    PQclear(pg_once(c, "BEGIN READ WRITE", NULL, &err)); /* some roles only read, by default */
    PQclear(pg_once(c, DROP, &p, &err));
    PQclear(pg_once(c, "END", NULL, &err));
}

/* ---- Finding out ---- */

/* The lost transaction, or an earlier attempt to settle it, still has the lock. If its session
 * waits for us, who will never be heard there again, that session goes; the next attempt finds the
 * lock free. */
static void end_holder(pg_conn *c, const db_value *values)
{
    int64_t ended;
    int found;
    error ignored = {0};
    pg_rollback(&c->base);
    (void)run(c, &END_HOLDER, values, 2, &ended, &found, &ignored);
}

static const char EVICT[] =
    "SELECT pg_catalog.count(pg_catalog.pg_terminate_backend(a.pid)) FROM pawl.nodes AS n"
    " JOIN pg_catalog.pg_locks AS l ON l.locktype = 'transactionid' AND l.granted"
    " AND l.mode = 'ExclusiveLock' AND l.transactionid = n.xmax"
    " JOIN pg_catalog.pg_stat_activity AS a ON a.pid = l.pid AND a.wait_event_type = 'Client'"
    " WHERE n.node = ($1::pg_catalog.text)::bigint";

void pg_evict(db_conn *base, int64_t node)
{
    pg_conn *c = (pg_conn *)base;
    char text[24];
    buf b;
    buf_init_fixed(&b, text, sizeof text);
    buf_printf(&b, "%lld", (long long)node);
    db_value id = db_text((slice){text, b.size});
    pg_params p = {0};
    pg_param(&p, &id);
    error err = {0};
    if (pg_ensure(c, &err) == PAWL_OK)
        PQclear(pg_once(c, EVICT, &p, &err));
}

static db_fate burn(pg_conn *c, error *err)
{
    int64_t number;
    int found;
    db_value values[] = {db_int(c->ring), db_int(place_of(c)), db_int(c->number + 1),
                         db_int(pg_time_ms(c))};
    pawl_code rc = run(c, &LOCK_PLACE, values, 2, &number, &found, err);
    if (rc == PAWL_BUSY)
        end_holder(c, values);
    if (rc != PAWL_OK)
        return DB_FATE_UNKNOWN;
    if (!found) {
        error_set(err, PAWL_CORRUPT, "the record of commits is gone");
        return DB_FATE_UNKNOWN;
    }
    if (number == c->number)
        return DB_FATE_COMMITTED;
    if (number > c->number) /* an earlier attempt to settle, whose own answer was lost */
        return DB_FATE_LOST;
    rc = run(c, &BURN, values, 4, &number, &found, err);
    if (rc == PAWL_OK)
        rc = pg_push_commit(c, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    return rc == PAWL_OK && pg_take_commit(c, err) == PAWL_OK ? DB_FATE_LOST : DB_FATE_UNKNOWN;
}

db_fate pg_settle(db_conn *base, error *err)
{
    pg_conn *c = (pg_conn *)base;
    if (!c->doubtful)
        return DB_FATE_LOST;
    if (pg_ensure(c, err) != PAWL_OK)
        return DB_FATE_UNKNOWN;
    db_fate fate = DB_FATE_UNKNOWN;
    if (begin_plain(c, err) == PAWL_OK)
        fate = burn(c, err);
    pg_rollback(base);
    if (fate != DB_FATE_UNKNOWN) {
        c->doubtful = 0;
        c->number += 2;
    }
    return fate;
}
