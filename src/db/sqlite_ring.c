/* Which numbers and rows prove that the file was not rewound.
 *
 * The number must be at least the one that was acknowledged last, and at most the one that was sent
 * last. In between it is as good: SQLite lets the next writer in, perhaps another connection of the
 * same engine, a moment before the commit is acknowledged here; and a commit whose answer was lost
 * may have happened.
 *
 * If the journal row that was appended last is missing, the database went back, unless the row's
 * run was deleted. Where the run is missing too the number decides, and it is conclusive: an engine
 * that appends to a run has started or claimed it before, by a transaction that raised the number.
 * If the run is missing because of a rewind, that transaction is missing too, and so is its
 * number. */
#include "db/sqlite_ring.h"

#include "db/sqlite_value.h"

static const int64_t DAY_MS = 24 * 3600 * 1000;

enum { FORGOTTEN_DAYS = 30 }; /* how long the rows of dead processes are kept */

static const db_sql NUMBER = {"SELECT number FROM {commits} WHERE ring = $1 AND place = 0", "i"};

static const db_sql APPENDED = {
    "SELECT at FROM {journal} WHERE run = $1 AND generation = $2 AND seq = $3", "iii"};

static const db_sql RUN = {"SELECT 1 FROM {runs} WHERE run = $1", "i"};

static const db_sql RAISE = {
    "INSERT INTO {commits} (ring, place, number, at) VALUES ($1, 0, $2, $3)"
    " ON CONFLICT (ring, place) DO UPDATE SET number = excluded.number, at = excluded.at",
    "iii"};

static const db_sql SWEEP = {"DELETE FROM {commits} WHERE at < $1", "i"};

void sqlite_ring_init(sqlite_ring *r)
{
    *r = (sqlite_ring){.name = 0};
    pthread_mutex_init(&r->lock, NULL);
}

void sqlite_ring_free(sqlite_ring *r)
{
    pthread_mutex_destroy(&r->lock);
}

static sqlite_ring snapshot(sqlite_ring *r)
{
    pthread_mutex_lock(&r->lock);
    sqlite_ring now = {
        .name = r->name, .acked = r->acked, .sent = r->sent, .at_ms = r->at_ms, .row = r->row};
    pthread_mutex_unlock(&r->lock);
    return now;
}

/* Forget the row in {commits}: it was lost in a rewind, has expired or was deleted. The engine
 * begins a new one when it next raises the number. */
static void forget_row(sqlite_ring *r)
{
    pthread_mutex_lock(&r->lock);
    r->name = r->acked = r->sent = 0;
    r->row = (db_append){.run = 0};
    r->proven = r->begun;
    pthread_mutex_unlock(&r->lock);
}

static int64_t now_ms(const db_conn *c)
{
    clock_source *clock = c->db->options.clock;
    return clock->now_ms(clock);
}

/* 1: the row was not written for so long that another engine may have deleted it. */
static int is_expired(const sqlite_ring *then, const db_conn *c)
{
    return now_ms(c) - then->at_ms > FORGOTTEN_DAYS / 2 * DAY_MS;
}

/* ---- Comparing ---- */

static pawl_code compare_number(sqlite_ring *r, const sqlite_ring *then, db_conn *c, error *err)
{
    int64_t number = 0;
    int found = 0;
    const db_value name = db_int(then->name);
    pawl_code rc = db_number(c, &NUMBER, &name, 1, &number, &found, err);
    if (rc != PAWL_OK)
        return rc;
    /* RULE L8-a-transaction-asks-for-the-last-one-on-sqlite, L8-a-missing-row-is-a-rewind */
    if (found && number >= then->acked && number <= snapshot(r).sent)
        return PAWL_OK;
    return world_gone_back(c->db, err);
}

/* Compare the journal row that was appended last. *known: 1, the row has decided; 0, its run is
 * gone too, and the number has to decide. */
static pawl_code compare_row(const db_append *row, db_conn *c, int *known, error *err)
{
    int64_t at = 0;
    int found = 0;
    const db_value key[] = {db_int(row->run), db_int(row->generation), db_int(row->seq)};
    pawl_code rc = db_number(c, &APPENDED, key, DB_COUNT(key), &at, &found, err);
    *known = found;
    if (rc == PAWL_OK && found && at == row->at_ms)
        return PAWL_OK;
    if (rc == PAWL_OK && !found)
        rc = db_number(c, &RUN, key, 1, &at, known, err);
    /* RULE L8-the-last-appended-row-is-asked-for, L8-a-deleted-run-is-no-rewind */
    return rc == PAWL_OK && *known ? world_gone_back(c->db, err) : rc;
}

static pawl_code compare_ring(sqlite_ring *r, const sqlite_ring *then, db_conn *c, error *err)
{
    int known = 0;
    pawl_code rc = then->row.run ? compare_row(&then->row, c, &known, err) : PAWL_OK;
    return rc == PAWL_OK && !known ? compare_number(r, then, c, err) : rc;
}

pawl_code sqlite_ring_check(sqlite_ring *r, db_conn *c, sqlite_mark *m, error *err)
{
    int anew;
    *m = (sqlite_mark){.order = 0};
    pawl_code rc = world_enter(c->db, &anew, err);
    if (rc != PAWL_OK)
        return rc;
    if (anew) {
        forget_row(r);
        return world_write_history(c, &m->history, err);
    }
    sqlite_ring then = snapshot(r);
    if (then.acked && is_expired(&then, c)) {
        atomic_fetch_add(&c->db->world->key_blocks, 1);
        forget_row(r);
        return PAWL_OK;
    }
    return then.acked ? compare_ring(r, &then, c, err) : PAWL_OK;
}

/* The state is copied before the reading transaction begins: so everything that was acknowledged
 * until then must be visible in it. */
pawl_code sqlite_ring_prove(sqlite_ring *r, db_conn *c, error *err)
{
    sqlite_ring then = snapshot(r);
    if (!then.acked || is_expired(&then, c))
        return PAWL_OK;
    pawl_code rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = compare_ring(r, &then, c, err);
    db_rollback(c);
    return rc;
}

/* ---- Marking ---- */

static pawl_code begin_row(sqlite_ring *r, db_conn *c, error *err)
{
    int64_t name = world_random();
    if (name == 0)
        return error_set(err, PAWL_STORAGE, "the system gives no randomness");
    pthread_mutex_lock(&r->lock);
    r->name = name;
    pthread_mutex_unlock(&r->lock);
    const db_value old = db_int(now_ms(c) - FORGOTTEN_DAYS * DAY_MS);
    return db_run(c, &SWEEP, &old, 1, err);
}

static pawl_code raise_number(sqlite_ring *r, db_conn *c, sqlite_mark *m, error *err)
{
    sqlite_ring then = snapshot(r);
    pawl_code rc = then.name ? PAWL_OK : begin_row(r, c, err);
    if (rc != PAWL_OK)
        return rc;
    int64_t now = now_ms(c);
    m->number = then.sent + 1;
    const db_value row[] = {db_int(snapshot(r).name), db_int(m->number), db_int(now)};
    rc = db_run(c, &RAISE, row, DB_COUNT(row), err);
    if (rc != PAWL_OK)
        return rc;
    pthread_mutex_lock(&r->lock);
    r->sent = m->number;
    r->at_ms = now;
    pthread_mutex_unlock(&r->lock);
    return PAWL_OK;
}

pawl_code sqlite_ring_mark(sqlite_ring *r, db_conn *c, sqlite_mark *m, error *err)
{
    pawl_code rc = PAWL_OK;
    if (c->appended.run && snapshot(r).acked)
        m->row = c->appended;
    else
        rc = raise_number(r, c, m, err);
    pthread_mutex_lock(&r->lock);
    m->order = ++r->begun;
    pthread_mutex_unlock(&r->lock);
    return rc;
}

void sqlite_ring_committed(sqlite_ring *r, db_conn *c, const sqlite_mark *m)
{
    pthread_mutex_lock(&r->lock);
    if (m->order > r->proven) { /* otherwise a later transaction was acknowledged first */
        r->proven = m->order;
        r->row = m->row;
        if (m->number)
            r->acked = m->number;
    }
    pthread_mutex_unlock(&r->lock);
    if (m->history)
        world_begun_anew(c->db, m->history);
}

/* The deletion need not be durable, so it is done without a sync and without waiting for a lock. */
void sqlite_ring_drop(sqlite_ring *r, sqlite3 *native)
{
    sqlite3_stmt *s;
    sqlite_ring then = snapshot(r);
    if (then.acked == 0)
        return;
    sqlite3_busy_timeout(native, 0);
    sqlite3_exec(native, "PRAGMA synchronous=NORMAL", NULL, NULL, NULL);
    const char *sql = "DELETE FROM pawl_commits WHERE ring = ?1";
    if (sqlite3_prepare_v2(native, sql, -1, &s, NULL) != SQLITE_OK)
        return;
    const db_value name = db_int(then.name);
    if (sqlite_value_bind(s, 1, &name) == SQLITE_OK)
        (void)sqlite3_step(s);
    sqlite3_finalize(s);
    forget_row(r); /* a connection that is opened later begins a new row */
}
