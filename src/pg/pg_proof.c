/* Rewind detection: the proof that the server still has what it has acknowledged (db/world.h).
 *
 * A server that was restored from a backup, or a standby that was behind and took over, lacks the
 * last transactions. Every connection that commits has a ring (pg_ring.c); the place that its last
 * acknowledged transaction has moved is its *witness*: (ring, place, at least this number). Every
 * transaction checks it before it writes, by a logarithm that fails where the row is missing or its
 * number too small: the error has a state of its own (2201E) and costs the transaction, however
 * much was sent in one trip.
 *
 * Its own witness is not enough: what one connection has committed may depend on what another one
 * of the same engine has. A database is rewound as a whole. So a witness that was acknowledged
 * before the last transaction of this connection began is proven by that transaction's own witness;
 * all later ones are checked as well. After a reconnect, which is what a restore or a failover
 * comes with, that is all of them. */
#include <string.h>

#include "pg/pg.h"

/* RULE L8-a-transaction-asks-for-the-last-one */
#define WITNESS                                                                                    \
    "ln(EXISTS (SELECT 1 FROM {commits} WHERE ring = $1 AND place = $2 AND number >= $3)::int)"

static const db_sql PROVE = {"SELECT " WITNESS, "iii"};

/* Checks a witness, and locks the row of the node in the same statement, since most transactions
 * need both. */
static const db_sql PROVE_AND_FENCE = {
    "SELECT " WITNESS ", 1 / coalesce((SELECT 1 FROM {nodes} WHERE node = $4 AND slot = $5"
    /* RULE A1-a-closed-node-is-refused, L8-a-node-of-the-same-number-is-another-one */
    " AND closed = 0 AND token = $6 {LOCK_SHARED}), 0)",
    "iiiiii"};

static const char STATE[] = "2201E";

void pg_proof_open(pg_conn *c)
{
    pg_db *d = pg_db_of(c);
    pthread_mutex_lock(&d->lock);
    c->next = d->witnesses;
    d->witnesses = c;
    pthread_mutex_unlock(&d->lock);
}

void pg_proof_close(pg_conn *c)
{
    pg_db *d = pg_db_of(c);
    pthread_mutex_lock(&d->lock);
    for (pg_conn **at = &d->witnesses; *at; at = &(*at)->next) {
        if (*at == c) {
            *at = c->next;
            break;
        }
    }
    pthread_mutex_unlock(&d->lock);
}

void pg_proof_acknowledged(pg_conn *c, int64_t number)
{
    pg_db *d = pg_db_of(c);
    pthread_mutex_lock(&d->lock);
    c->witness = (pg_witness){.ring = c->ring,
                              .place = pg_place_of(number < 0 ? 0 : number),
                              .number = number,
                              .life = c->ring_life,
                              .at_ms = pg_time_ms(c),
                              .order = ++d->acknowledged};
    c->proven = c->asked;
    pthread_mutex_unlock(&d->lock);
}

/* The witnesses to be checked: this connection's own, then those of other connections. */
static int gather_witnesses(pg_conn *c, pg_witness out[PG_WITNESSES])
{
    pg_db *d = pg_db_of(c);
    int count = 0;
    int64_t now = pg_time_ms(c);
    pthread_mutex_lock(&d->lock);
    c->asked = d->acknowledged;
    out[count++] = c->witness;
    for (const pg_conn *o = d->witnesses; o && count < PG_WITNESSES; o = o->next) {
        const pg_witness *w = &o->witness;
        /* RULE L8-what-other-connections-have-committed-is-asked-for */
        if (o != c && w->ring && w->order > c->proven && w->life == c->ring_life &&
            now - w->at_ms < PG_RING_FRESH_MS)
            out[count++] = *w;
    }
    pthread_mutex_unlock(&d->lock);
    return count;
}

pawl_code pg_proof_push(pg_conn *c, error *err)
{
    pg_witness all[PG_WITNESSES];
    pawl_code rc = PAWL_OK;
    c->proofs = gather_witnesses(c, all);
    for (int i = 0; i < c->proofs && rc == PAWL_OK; i++) {
        const pg_witness *w = &all[c->proofs - 1 - i]; /* the connection's own witness comes last,
                                                          together with the lock on the node's
                                                          row */
        int fences = i == c->proofs - 1 && c->base.node;
        db_value values[] = {db_int(w->ring),      db_int(w->place),     db_int(w->number),
                             db_int(c->base.node), db_int(c->base.slot), db_int(c->base.token)};
        rc = pg_push_sql(c, fences ? &PROVE_AND_FENCE : &PROVE, values, fences ? 6 : 3, err);
    }
    return rc;
}

static int is_missing(const PGresult *r)
{
    const char *state = r ? PQresultErrorField(r, PG_DIAG_SQLSTATE) : NULL;
    return state && strcmp(state, STATE) == 0;
}

pawl_code pg_proof_take(pg_conn *c, error *err)
{
    for (int i = 0; i < c->proofs; i++) {
        PGresult *r = pg_take(c, err);
        if (r && pg_ok(r)) {
            PQclear(r);
            continue;
        }
        int back = is_missing(r), closed = r && pg_is_refusal(r);
        pawl_code rc = pg_fail(c, r, "begin a transaction in", err);
        if (back)
            return world_gone_back(c->base.db, err);
        return closed ? db_fenced(&c->base, err) : rc;
    }
    return PAWL_OK;
}
