/* The ring: how to find out what became of a commit whose answer was lost.
 *
 * To check whether the rows are there is not enough: the server may still be executing the
 * transaction, and the commit lands a moment after the check. So:
 *   1. Every transaction of a committer's connection first moves a row of its own, its place in the
 *      ring: it writes its number over a smaller one.
 *   2. To settle a lost commit, a new connection locks that row. The lock waits while the
 *      transaction is under way.
 *   3. If the number is there, the transaction was committed. If not, a larger number is written in
 *      its place (it is burnt): should the lost transaction still come, it finds no smaller number
 *      and fails, as with a fencing token.
 * No transaction id is needed, nor the id of the server's process, so it works behind a pooler and
 * after a failover too.
 *
 * Numbers of transactions are even; what settles one is odd. There are several places in a ring,
 * used in turn, since dead versions of a row pile up while any transaction keeps an old snapshot.
 *
 * Before it come the proof that the server has what it has acknowledged (pg_proof.c) and the lock
 * on the node's row (db_conn.node). Each of these statements fails if its condition does not hold:
 * so a whole transaction can be sent in one trip. Written as WITH … they took four times as long.
 *
 * The id of a ring is random: a counter would give the same one again after a restore. */
#include <stdlib.h>
#include <string.h>

#include "pg/pg.h"

static const int64_t DAY_MS = 24 * 3600 * 1000;

/* RULE A5-a-late-beginning-finds-its-number-burnt */
static const db_sql MOVE = {"UPDATE {commits} SET number = $3 / (number < $3)::int, at = $4"
                            " WHERE ring = $1 AND place = $2",
                            "iiii"};
static const db_sql BEGIN_PLAIN = {"BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE", ""};
static const db_sql OLD_RINGS = {"DELETE FROM {commits} WHERE ring IN (SELECT ring FROM {commits}"
                                 " GROUP BY ring HAVING max(at) < $1)",
                                 "i"};
static const db_sql MAKE_RING = {
    "INSERT INTO {commits} (ring, place, number, at)"
    " SELECT $1, place, -1, $3 FROM generate_series(0, $2 - 1) AS place",
    "iii"};
static const db_sql LOCK_PLACE = {
    /* RULE A5-an-undecided-commit-is-not-just-looked-for */
    "SELECT number FROM {commits} WHERE ring = $1 AND place = $2 FOR UPDATE", "ii"};
static const db_sql BURN = {"UPDATE {commits} SET number = $3, at = $4"
                            " WHERE ring = $1 AND place = $2 RETURNING number",
                            "iiii"};

/* Terminates the session that holds the lock on a place of the ring, if it waits for its client
 * (wait_event_type 'Client'): in the middle of a trip no time-out of the server ends such a
 * session. A session that waits for a standby has another wait event and is left alone: if it were
 * terminated, it would report as committed what only this server has. */
static const db_sql END_HOLDER = {
    "SELECT count(pg_terminate_backend(a.pid)) FROM {commits} AS c"
    " JOIN pg_locks AS l ON l.locktype = 'transactionid' AND l.mode = 'ExclusiveLock'"
    " AND l.granted AND l.transactionid = c.xmax"
    /* RULE A5-a-session-that-waits-for-a-standby-is-not-ended */
    " JOIN pg_stat_activity AS a ON a.pid = l.pid AND a.wait_event_type = 'Client'"
    " WHERE c.ring = $1 AND c.place = $2",
    "ii"};

int64_t pg_place_of(int64_t number)
{
    return number / 2 % PG_RING;
}

static int64_t place_of(const pg_conn *c)
{
    return pg_place_of(c->number);
}

/* ---- In every transaction ---- */

pawl_code pg_ring_push(pg_conn *c, error *err)
{
    db_value place[] = {db_int(c->ring), db_int(place_of(c)), db_int(c->number),
                        db_int(pg_time_ms(c))};
    pawl_code rc = pg_proof_push(c, err);
    return rc == PAWL_OK ? pg_push_sql(c, &MOVE, place, 4, err) : rc;
}

static pawl_code take_move(pg_conn *c, error *err)
{
    PGresult *r = pg_take(c, err);
    if (r && pg_ok(r)) {
        if (strcmp(PQcmdTuples(r), "1") != 0)
            c->ring_gone = 1; /* the row was deleted; the next transaction makes a new ring */
        PQclear(r);
        return PAWL_OK;
    }
    int refused = r && pg_is_refusal(r);
    pawl_code rc = pg_fail(c, r, "begin a transaction in", err);
    if (!refused)
        return rc;
    c->ring_gone = 1;
    return error_set(err, PAWL_BUSY, "the record of commits begins anew");
}

pawl_code pg_ring_take(pg_conn *c, error *err)
{
    pawl_code rc = pg_proof_take(c, err);
    return rc == PAWL_OK ? take_move(c, err) : rc;
}

void pg_ring_committed(pg_conn *c)
{
    pg_proof_acknowledged(c, c->number);
    c->number += 2;
}

/* Executes one statement in a trip of its own, inside or outside a transaction. */
static pawl_code run_alone(pg_conn *c, const db_sql *sql, const db_value *values, int count,
                           int64_t *out, int *found, error *err)
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

/* Makes a new ring. `anew`: it is the first one after a rewind, and a new history is written with
 * it. */
static pawl_code make_in_transaction(pg_conn *c, int anew, error *err)
{
    int64_t ring = world_random(), ignored, history = 0, now = pg_time_ms(c);
    int64_t life = atomic_load(&c->base.db->world->lives);
    int found;
    pawl_code rc = anew ? world_write_history(&c->base, &history, err) : PAWL_OK;
    if (rc == PAWL_OK && ring == 0)
        rc = error_set(err, PAWL_STORAGE, "the system gives no randomness");
    if (rc != PAWL_OK)
        return rc;
    db_value old[] = {db_int(now - DAY_MS)};
    db_value fresh[] = {db_int(ring), db_int(PG_RING), db_int(now)};
    rc = run_alone(c, &OLD_RINGS, old, 1, &ignored, &found, err);
    if (rc == PAWL_OK)
        rc = run_alone(c, &MAKE_RING, fresh, 3, &ignored, &found, err);
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
        c->ring_life = life;
        c->number = 0;
        pg_proof_acknowledged(c, -1);
        if (anew)
            world_begun_anew(c->base.db, history);
    }
    return rc;
}

/* Begins a transaction that moves no place in a ring; its settings are those of all others. */
static pawl_code begin_plain(pg_conn *c, error *err)
{
    int64_t ignored;
    int found;
    pawl_code rc = run_alone(c, &BEGIN_PLAIN, NULL, 0, &ignored, &found, err);
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
    db_world *w = c->base.db->world;
    int64_t now = pg_time_ms(c);
    int anew;
    pawl_code rc = world_enter(c->base.db, &anew, err);
    if (rc != PAWL_OK)
        return rc;
    int fresh = now - c->ring_ms < PG_RING_FRESH_MS;
    if (c->ring && !c->ring_gone && fresh && c->ring_life == atomic_load(&w->lives)) {
        c->ring_ms = now;
        return PAWL_OK;
    }
    if (c->ring && !fresh) /* the ring may have been deleted, and then proves nothing about the keys
                              that were taken */
        atomic_fetch_add(&w->key_blocks, 1);
    rc = begin_plain(c, err);
    if (rc == PAWL_OK)
        rc = make_in_transaction(c, anew, err);
    if (rc != PAWL_OK)
        pg_rollback(&c->base);
    return rc;
}

/* Deletes the ring of a connection that is closed. The ring of a process that died is deleted by
 * others after a day. */
void pg_ring_drop(pg_conn *c)
{
    if (!c->ring || c->doubtful || !c->native ||
        c->ring_life != atomic_load(&c->base.db->world->lives))
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
    PQclear(pg_once(c, "BEGIN READ WRITE", NULL, &err)); /* READ WRITE, since some roles only read
                                                            by default */
    PQclear(pg_once(c, DROP, &p, &err));
    PQclear(pg_once(c, "END", NULL, &err));
}

/* ---- Finding out ---- */

/* The lost transaction, or an earlier attempt to settle it, still has the lock. If its session
 * waits for its client, whose connection is lost, that session is terminated; the next attempt
 * finds the lock free. */
static void end_holder(pg_conn *c, const db_value *values)
{
    int64_t ended;
    int found;
    error ignored = {0};
    pg_rollback(&c->base);
    (void)run_alone(c, &END_HOLDER, values, 2, &ended, &found, &ignored);
}

static const char EVICT[] =
    "SELECT pg_catalog.count(pg_catalog.pg_terminate_backend(a.pid)) FROM pawl.nodes AS n"
    " JOIN pg_catalog.pg_locks AS l ON l.locktype = 'transactionid' AND l.granted"
    " AND l.mode = 'ExclusiveLock' AND l.transactionid = n.xmax"
    /* RULE A5-a-session-that-waits-for-a-standby-is-not-ended */
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
    pawl_code rc = run_alone(c, &LOCK_PLACE, values, 2, &number, &found, err);
    if (rc == PAWL_BUSY) /* RULE A5-a-session-with-the-lock-of-a-lost-client-is-ended */
        end_holder(c, values);
    if (rc != PAWL_OK)
        return DB_FATE_UNKNOWN;
    if (!found) { /* the ring is there, as was proven, but this place was deleted */
        error_set(err, PAWL_CORRUPT, "the record of commits is gone");
        return DB_FATE_UNKNOWN;
    }
    if (number == c->number)
        return DB_FATE_COMMITTED;
    /* RULE A5-an-undecided-commit-is-not-just-looked-for */
    if (number > c->number) /* written by an earlier attempt to settle, whose own answer was lost */
        return DB_FATE_LOST;
    rc = run_alone(c, &BURN, values, 4, &number, &found, err);
    if (rc == PAWL_OK)
        rc = pg_push_commit(c, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    return rc == PAWL_OK && pg_take_commit(c, err) == PAWL_OK ? DB_FATE_LOST : DB_FATE_UNKNOWN;
}

/* Checks for a rewind before the place is burnt. If acknowledged transactions are gone, the lost
 * one is gone too: it was sent to another server, or before this one was restored. */
static db_fate prove_and_burn(pg_conn *c, error *err)
{
    int64_t node = c->base.node;
    c->base.node = 0; /* a commit is settled even if the node was closed meanwhile */
    pawl_code rc = pg_proof_push(c, err);
    c->base.node = node;
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    if (rc == PAWL_OK)
        rc = pg_proof_take(c, err);
    if (rc == PAWL_OK)
        rc = pg_skip(c, err);
    if (rc == PAWL_REWOUND)
        return DB_FATE_LOST;
    return rc == PAWL_OK ? burn(c, err) : DB_FATE_UNKNOWN;
}

db_fate pg_settle(db_conn *base, error *err)
{
    pg_conn *c = (pg_conn *)base;
    if (!c->doubtful)
        return DB_FATE_LOST;
    db_fate fate = DB_FATE_UNKNOWN;
    if (c->ring_life != atomic_load(&base->db->world->lives)) {
        fate = DB_FATE_LOST; /* another connection has found that the database was rewound */
    } else {
        if (pg_ensure(c, err) != PAWL_OK)
            return DB_FATE_UNKNOWN;
        if (begin_plain(c, err) == PAWL_OK)
            fate = prove_and_burn(c, err); /* RULE L8-settling-asks-before-it-burns-a-place */
        pg_rollback(base);
    }
    if (fate == DB_FATE_COMMITTED)
        pg_ring_committed(c);
    else if (fate == DB_FATE_LOST)
        c->number += 2;
    if (fate != DB_FATE_UNKNOWN)
        c->doubtful = 0;
    return fate;
}
