/* Death by lock (node_sign.h): looks at signs and locks, and the verdict of two looks. A look reads
 * the tables as they are committed, and the locks as they are now. */
#include "rows/node_sign.h"

#include <assert.h>

static const int64_t NS_PER_MS = 1000000;

/* The time between two looks, if the first one has found no suspect. */
enum { EACH_MS = 500 };

/* In a database without a lock class nodes have no locks: then this finds none. */
static const db_sql UNLOCKED = {
    "SELECT s.node, s.started, b.at FROM {signs} s JOIN {beats} b ON b.node = s.node"
    " JOIN {nodes} n ON n.node = s.node AND n.slot = 1"
    " JOIN {meta} m ON m.name = 'lock_class'"
    " WHERE n.closed = 0 AND s.node <> $1"
    /* RULE A1-a-sign-of-another-start-says-nothing */
    " AND s.started = {SERVER_STARTED}"
    /* RULE A1-a-node-with-its-lock-is-not-dead-by-lock */
    " AND NOT EXISTS (SELECT 1 FROM {NODE_LOCKS} l WHERE l.class = m.number AND l.node = s.node)"
    " ORDER BY s.node LIMIT $2",
    "ii"};

static const db_sql SAME_BEAT = {
    /* RULE A1-a-node-that-beats-is-not-closed-by-its-lock */
    "DELETE FROM {beats} WHERE node = $1 AND at = $2 RETURNING node", "ii"};

/* ---- Looking ---- */

static void read_suspect(db_stmt *s, sign_looks *out)
{
    out->at[out->count++] = (sign_suspect){
        .node = db_column(s, 0).i, .started = db_column(s, 1).i, .beat_ms = db_column(s, 2).i};
}

static pawl_code read_suspects(const node *n, db_conn *c, sign_looks *out, error *err)
{
    db_stmt *s;
    db_step step = DB_DONE;
    const db_value values[] = {db_int(n->id), db_int(NODE_LIST_ROOM)};
    pawl_code rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_prepare(c, &UNLOCKED, &s, err);
    if (rc == PAWL_OK)
        rc = db_bind_all(s, values, DB_COUNT(values), err);
    if (rc == PAWL_OK) {
        while (out->count < NODE_LIST_ROOM && (step = db_next(s, err)) == DB_ROW)
            read_suspect(s, out);
        db_reset(s);
    }
    db_rollback(c);
    return step == DB_FAILED ? err->code : rc;
}

static const sign_suspect *find_same(const sign_looks *l, const sign_suspect *found)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->at[i].node == found->node)
            /* RULE A1-a-heartbeat-between-two-looks-is-life */
            return l->at[i].started == found->started && l->at[i].beat_ms == found->beat_ms
                       ? &l->at[i]
                       : NULL;
    return NULL;
}

/* Decides whether the suspect is dead. Returns the time from which on a look may find it dead; if
 * that is not after now_ns, it is dead now. */
static int64_t judge_suspect(sign_suspect *found, const sign_suspect *before, int64_t now_ns,
                             int64_t now_ms)
{
    found->since_ns = before ? before->since_ns : now_ns;
    int64_t apart =
        found->since_ns + SIGN_LOOKS_MS * NS_PER_MS; /* RULE A1-one-look-is-no-verdict */
    /* RULE A1-a-live-node-whose-lock-has-gone-has-time-to-beat */
    int64_t silent = now_ns + (found->beat_ms + SIGN_SILENT_MS - now_ms) * NS_PER_MS;
    int64_t from = apart > silent ? apart : silent;
    found->dead = from <= now_ns;
    return from;
}

pawl_code node_sign_look(sign_looks *l, const node *n, db_conn *c, int64_t now_ns, error *err)
{
    error own;
    err = err ? err : &own;
    if (now_ns < l->next_ns)
        return PAWL_OK;
    sign_looks now = {.next_ns = now_ns + EACH_MS * NS_PER_MS};
    int64_t now_ms = db_clock_now_ms(n->clock);
    pawl_code rc = node_may_judge(n, now_ms) ? read_suspects(n, c, &now, err) : PAWL_OK;
    if (rc != PAWL_OK)
        now.count = 0;
    for (size_t i = 0; i < now.count; i++) {
        int64_t from = judge_suspect(&now.at[i], find_same(l, &now.at[i]), now_ns, now_ms);
        if (!now.at[i].dead && from < now.next_ns)
            now.next_ns = from;
    }
    *l = now;
    return rc;
}

/* ---- Closing ---- */

pawl_code node_sign_close(const sign_suspect *dead, committer *k, error *err)
{
    assert(dead->dead);
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    pawl_code rc = u ? PAWL_OK : error_nomem(err);
    if (u) {
        const db_value values[] = {db_int(dead->node), db_int(dead->beat_ms)};
        unit_guard(u, &SAME_BEAT, "silent", unit_key("beats", dead->node), values,
                   DB_COUNT(values));
        node_add_close(u, dead->node);
        node_evict(committer_connection(k)->db, dead->node);
        u->lock_ms = NODE_LOOP_LOCK_MS;
        rc = node_commit(k, u, "close a node", err);
    }
    arena_free(a);
    return rc;
}
