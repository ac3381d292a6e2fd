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
 * database. In the same statement goes the lock on the node's row (db_conn.node). The statement
 * fails, by a division, where it finds nothing: so a whole transaction can be sent in one trip. */
#include <stdlib.h>
#include <string.h>

#include "pg/pg.h"

static const int64_t DAY_MS = 24 * 3600 * 1000;

static const db_sql MOVE = {"WITH moved AS (UPDATE {commits} SET number = $3, at = $4"
                            " WHERE ring = $1 AND place = $2 AND number < $3 RETURNING 1)"
                            " SELECT 1 / count(*) FROM moved",
                            "iiii"};
static const db_sql MOVE_AS_NODE = {
    "WITH alive AS (SELECT node FROM {nodes} WHERE node = $5 AND slot = $6 AND closed = 0"
    " {LOCK_SHARED}),"
    " moved AS (UPDATE {commits} SET number = $3, at = $4"
    " WHERE ring = $1 AND place = $2 AND number < $3 AND EXISTS (SELECT 1 FROM alive) RETURNING 1)"
    " SELECT 1 / count(*) FROM moved",
    "iiiiii"};
static const db_sql ALIVE = {
    "SELECT node FROM {nodes} WHERE node = $1 AND slot = $2 AND closed = 0", "ii"};

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

static int64_t place_of(const pg_conn *c)
{
    return c->number / 2 % PG_RING;
}

/* ---- In every transaction ---- */

static pawl_code push(pg_conn *c, const db_sql *sql, const db_value *values, int count, error *err)
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

pawl_code pg_ring_push(pg_conn *c, error *err)
{
    db_value values[] = {db_int(c->ring),       db_int(place_of(c)),  db_int(c->number),
                         db_int(pg_time_ms(c)), db_int(c->base.node), db_int(c->base.slot)};
    return c->base.node ? push(c, &MOVE_AS_NODE, values, 6, err) : push(c, &MOVE, values, 4, err);
}

/* One statement in a trip of its own, inside or outside a transaction. */
static pawl_code run(pg_conn *c, const db_sql *sql, const db_value *values, int count, int64_t *out,
                     int *found, error *err)
{
    pawl_code rc = push(c, sql, values, count, err);
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

/* The statement above has found nothing. Whose fault is it? */
pawl_code pg_ring_lost(pg_conn *c, error *err)
{
    int64_t node;
    int found;
    db_value values[] = {db_int(c->base.node), db_int(c->base.slot)};
    if (c->base.node) {
        pawl_code rc = run(c, &ALIVE, values, 2, &node, &found, err);
        if (rc != PAWL_OK)
            return rc;
        if (!found)
            return db_fenced(&c->base, err);
    }
    c->ring = 0; /* after a day without a commit, or a restored backup; the next one is made anew */
    pg_forget(c);
    return error_set(err, PAWL_BUSY, "the record of commits begins anew");
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
        c->number = 0;
        c->doubtful = 0;
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

pawl_code pg_ring_make(pg_conn *c, error *err)
{
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

static db_fate burn(pg_conn *c, error *err)
{
    int64_t number;
    int found;
    db_value values[] = {db_int(c->ring), db_int(place_of(c)), db_int(c->number + 1),
                         db_int(pg_time_ms(c))};
    if (run(c, &LOCK_PLACE, values, 2, &number, &found, err) != PAWL_OK)
        return DB_FATE_UNKNOWN;
    if (!found) {
        error_set(err, PAWL_CORRUPT, "the record of commits is gone");
        return DB_FATE_UNKNOWN;
    }
    if (number == c->number)
        return DB_FATE_COMMITTED;
    if (number > c->number) /* an earlier attempt to settle, whose own answer was lost */
        return DB_FATE_LOST;
    pawl_code rc = run(c, &BURN, values, 4, &number, &found, err);
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
