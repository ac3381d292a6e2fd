/* The rows of nodes, and heartbeats. Taking an id and closing a node are units with guards, since
 * several nodes may contend. A heartbeat is a plain statement on a connection of its own, since
 * only its node writes it.
 *
 * During an outage of the database no node can write a heartbeat. The first node to return would
 * find all others silent and close them, although they are healthy. So a node whose own heartbeats
 * had a gap gives the others time to write theirs, before it takes over from any of them. */
#include "rows/node.h"

#include <assert.h>
#include <stdlib.h>

#include "db/batch.h"
#include "db/liveness_file.h"
#include "db/world.h"

enum { FIRST_NODE = 2, IDS_MAX = 1000 }; /* RULE L8-ids-of-nodes-that-live-on-are-left-to-them */

static const db_sql TAKE_ID = {
    "UPDATE {meta} SET number = number + 1 WHERE name = 'next_node' RETURNING number - 1", ""};

static const db_sql INSERT = {
    "INSERT INTO {nodes} (node, slot, name, build, since, token) VALUES ($1, $2, $3, $4, $5, $6)",
    "iittii"};

static const db_sql FIRST_BEAT = {"INSERT INTO {beats} (node, at) VALUES ($1, $2)", "ii"};

static const db_sql BEAT = {
    "UPDATE {beats} SET at = $2, unable = $4 WHERE node = $1 AND EXISTS"
    /* RULE A1-a-heartbeat-looks-at-its-node-first */
    " (SELECT 1 FROM {nodes} n WHERE n.node = $1 AND n.closed = 0 AND n.token = $3)"
    " RETURNING at",
    "iiit"};

/* A sign is written in the transaction of a heartbeat: while the heartbeat in the table is the
 * same, the sign is, too. */
static const db_sql SIGN = {"INSERT INTO {signs} (node, started) VALUES ($1, $2)"
                            " ON CONFLICT (node) DO UPDATE SET started = excluded.started",
                            "ii"};

static const db_sql NO_SIGN = {"DELETE FROM {signs} WHERE node = $1", "i"};

static const db_sql OPEN = {"SELECT DISTINCT node FROM {nodes} WHERE closed = 0 AND node <> $1"
                            " AND node > $2 ORDER BY node",
                            "ii"};

static const db_sql SILENT = {
    "SELECT DISTINCT n.node FROM {nodes} n LEFT JOIN {beats} b ON b.node = n.node"
    " WHERE n.closed = 0 AND n.node <> $1 AND (b.at IS NULL OR b.at < $2) ORDER BY n.node",
    "ii"};

static const db_sql CLOSED = {
    "SELECT node, min(closed) FROM {nodes} WHERE closed <> 0 GROUP BY node ORDER BY node", ""};

static const db_sql CLOSED_DUE = {
    "SELECT n.node, min(n.closed) FROM {nodes} n WHERE n.closed <> 0 AND EXISTS"
    " (SELECT 1 FROM {runs} r WHERE r.owner = n.node AND r.wake_at <= $1)"
    " GROUP BY n.node ORDER BY n.node",
    "i"};

static const db_sql HOW_CLOSED = {
    "SELECT coalesce(min(closed), 0) FROM {nodes} WHERE node = $1 AND closed <> 0", "i"};

/* How a node was closed: by another node, or by itself, when it executed nothing any more. */
enum { BY_OTHERS = 1, BY_ITSELF = 2 };

static const db_sql CLOSE = {
    /* RULE A1-all-rows-of-a-node-are-closed */
    "UPDATE {nodes} SET closed = $2 WHERE node = $1 AND closed = 0 RETURNING slot", "ii"};

static const db_sql CLOSE_OWN = {"UPDATE {nodes} SET closed = $2 WHERE node = $1 AND token = $3"
                                 " AND closed = 0 RETURNING slot",
                                 "iii"};

static const db_sql VANISH = {"DELETE FROM {nodes} WHERE node = $1 AND closed = 0 RETURNING slot",
                              "i"};

/* Runs without a timer are not counted: such a run has parked on this node, and so is among those
 * that the same unit gives back. */
static const db_sql OWNS_NOTHING = {
    "SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM {runs} WHERE owner = $1 AND wake_at IS NOT NULL)"
    " AND NOT EXISTS (SELECT 1 FROM {tasks} WHERE owner = $1)",
    "i"};

static const db_sql NO_BEAT = {"DELETE FROM {beats} WHERE node = $1", "i"};

static const db_sql STILL_SILENT = {
    "DELETE FROM {beats} WHERE node = $1 AND at < $2 RETURNING node", "ii"};

static const db_sql NO_OFFERS = {"DELETE FROM {offers} WHERE node = $1", "i"};

/* ---- Units ---- */

pawl_code node_commit(committer *k, unit *u, const char *doing, error *err)
{
    u->class = UNIT_OF_CLIENT;
    pawl_code rc = unit_shut_out(u, committer_commit(k, u));
    if (rc == PAWL_OK)
        return rc;
    error_set(err, rc, "cannot %s: %s", doing, pawl_code_text(rc));
    error_detail(err, "%s", u->message ? u->message : u->refused ? u->refused : "");
    return rc;
}

static pawl_code allocate_id(arena *a, committer *k, int64_t *out, error *err)
{
    unit *u = unit_new(a);
    if (!u)
        return error_nomem(err);
    uint64_t key = unit_key_text("meta", SLICE_LIT("next_node"));
    int take = unit_guard(u, &TAKE_ID, "counter", key, NULL, 0);
    pawl_code rc = node_commit(k, u, "become a node", err);
    if (rc == PAWL_REFUSED)
        return error_set(err, PAWL_CORRUPT, "the counter next_node is missing in the meta table");
    if (rc != PAWL_OK)
        return rc;
    db_value id = unit_rows(u, take)->values[0];
    if (id.type != DB_INT || id.i < FIRST_NODE)
        return error_set(err, PAWL_CORRUPT, "the counter next_node is no number of a node");
    *out = id.i;
    return PAWL_OK;
}

static pawl_code insert_rows(arena *a, committer *k, const node *n, const node_options *o,
                             error *err)
{
    unit *u = unit_new(a);
    if (!u)
        return error_nomem(err);
    uint64_t key = unit_key("nodes", n->id);
    for (int64_t slot = 1; slot <= o->slots; slot++) {
        const db_value row[] = {db_int(n->id),
                                db_int(slot),
                                db_text(slice_of(o->name ? o->name : "")),
                                db_text(slice_of(o->build ? o->build : "")),
                                db_int(n->beat_ms),
                                db_int(n->token)};
        unit_write(u, &INSERT, key, row, DB_COUNT(row));
    }
    const db_value beat[] = {db_int(n->id), db_int(n->beat_ms)};
    if (!n->file)
        unit_write(u, &FIRST_BEAT, unit_key("beats", n->id), beat, DB_COUNT(beat));
    return node_commit(k, u, "become a node", err);
}

/* ---- Joining and leaving ---- */

/* Takes an id and its byte lock. The rows are written afterwards, since any other node would close
 * a row whose lock is free. After a restore the counter may give ids of nodes that still live and
 * have not noticed the restore: their locks are held, and the next id is tried. */
static pawl_code take_id(arena *a, const node *n, committer *k, int64_t *id, error *err)
{
    pawl_code rc = PAWL_BUSY;
    for (int i = 0; rc == PAWL_BUSY && i < IDS_MAX; i++) {
        if ((rc = allocate_id(a, k, id, err)) != PAWL_OK)
            return rc;
        /* RULE A10-the-lock-comes-before-the-row */
        rc = n->file ? liveness_file_hold(n->file, *id, err) : PAWL_OK;
    }
    return rc;
}

static pawl_code take_id_and_rows(arena *a, node *n, committer *k, const node_options *o,
                                  error *err)
{
    int64_t id = 0;
    n->token = world_random();
    pawl_code rc = n->token ? take_id(a, n, k, &id, err)
                            : error_set(err, PAWL_STORAGE, "the system gives no randomness");
    if (rc != PAWL_OK)
        return rc;
    n->id = id;
    n->beat_ms = db_clock_now_ms(n->clock);
    n->believe_ms = n->beat_ms + (o->grace ? n->claim_ms / 2 : 0);
    rc = insert_rows(a, k, n, o, err);
    if (rc != PAWL_OK)
        node_leave(n);
    return rc;
}

pawl_code node_join(node *n, committer *k, db_conn *c, db_clock *clock, const node_options *options,
                    error *err)
{
    assert(options->slots > 0);
    *n = (node){.clock = clock, .claim_ms = c->db->options.claim_ms, .file = db_nodes(c->db)};
    pawl_code rc = db_clock_measure(clock, c, err);
    if (rc != PAWL_OK)
        return rc;
    arena *a = arena_new(0);
    rc = a ? take_id_and_rows(a, n, k, options, err) : error_nomem(err);
    arena_free(a);
    return rc;
}

void node_leave(node *n)
{
    if (n->id && n->file)
        liveness_file_release(n->file, n->id);
    n->id = 0;
}

/* ---- Heartbeats ---- */

/* Commits a heartbeat. An undecided commit does no harm, since the next heartbeat writes the same
 * row; but it has to be settled before the connection is used again. */
static pawl_code end_beat(db_conn *c, error *err)
{
    pawl_code rc = db_commit(c, err);
    if (rc == PAWL_OK)
        return rc;
    if (c->driver->in_transaction(c))
        db_rollback(c);
    else
        (void)c->driver->settle(c, NULL);
    return rc;
}

static pawl_code write_sign(const node *n, db_conn *c, error *err)
{
    const db_value values[] = {db_int(n->id), db_int(n->sign)};
    /* RULE A1-a-lost-lock-takes-the-sign-away */
    return n->sign ? db_run(c, &SIGN, values, 2, err) : db_run(c, &NO_SIGN, values, 1, err);
}

static pawl_code write_beat(const node *n, db_conn *c, int64_t now, int signs, error *err)
{
    int64_t at;
    int found;
    const char *unable = atomic_load(&n->unable);
    const db_value values[] = {db_int(n->id), db_int(now), db_int(n->token),
                               db_text(slice_of(unable ? unable : ""))};
    pawl_code rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_number(c, &BEAT, values, DB_COUNT(values), &at, &found, err);
    if (rc == PAWL_OK && found && signs)
        rc = write_sign(n, c, err);
    if (rc == PAWL_OK && found)
        return end_beat(c, err);
    db_rollback(c);
    if (rc != PAWL_OK)
        return rc;
    error_set(err, PAWL_FENCED, "this node was closed by another one");
    error_detail(err, "node %lld", (long long)n->id);
    error_hint(err, "it was silent for longer than its claims last; open the engine anew");
    return PAWL_FENCED;
}

/* Returns 1 if this node's heartbeats have a gap. Heartbeats are sent three times in claim_ms, so
 * half of claim_ms without one is a gap; and half of claim_ms after a gap every live node has sent
 * one. */
static int is_late(const node *n, int64_t now)
{
    return now - n->beat_ms > n->claim_ms / 2;
}

int node_may_judge(const node *n, int64_t now_ms)
{
    return !is_late(n, now_ms) && now_ms >= n->believe_ms;
}

void node_tell_lock(node *n, int64_t server)
{
    n->sign = server;
    n->sign_differs = 1;
}

/* Writes the heartbeat, and the sign if that has changed. If the sign cannot be written, the
 * heartbeat is written without it. */
static pawl_code write_beat_and_sign(node *n, db_conn *c, int64_t now, error *err)
{
    if (n->sign_differs && n->sign)
        atomic_store(&n->is_signed, 1);
    pawl_code rc = write_beat(n, c, now, n->sign_differs, err);
    if (rc == PAWL_OK && n->sign_differs) {
        n->sign_differs = 0;
        atomic_store(&n->is_signed, n->sign != 0);
    }
    if (rc == PAWL_OK || rc == PAWL_FENCED || !n->sign_differs || batch_is_passing(rc))
        return rc;
    return write_beat(n, c, now, 0, err);
}

pawl_code node_beat(node *n, db_conn *c, error *err)
{
    assert(n->id);
    if (n->file) /* the byte lock is the heartbeat */
        return PAWL_OK;
    pawl_code rc = db_clock_measure(n->clock, c, err);
    if (rc != PAWL_OK)
        return rc;
    int64_t now = db_clock_now_ms(n->clock);
    rc = write_beat_and_sign(n, c, now, err); /* RULE A1-a-node-that-stood-still-asks-its-row */
    if (rc != PAWL_OK)
        return rc;
    if (is_late(n, now))
        n->believe_ms = now + n->claim_ms / 2; /* RULE A10-after-an-outage-no-node-is-shut-out */
    n->beat_ms = now;
    return PAWL_OK;
}

/* Reads nodes from a prepared statement, as many as the list has room for: column 0 is the id,
 * column 1, if there is one, how the node was closed. */
static db_step read_rows(db_stmt *s, node_list *out, error *err)
{
    db_step step = DB_DONE;
    while (out->count < NODE_LIST_ROOM && (step = db_next(s, err)) == DB_ROW) {
        int more = s->conn->driver->columns(s) > 1;
        out->resigned[out->count] = more && db_column(s, 1).i == BY_ITSELF;
        out->at[out->count++] = db_column(s, 0).i;
    }
    db_reset(s);
    return step;
}

static pawl_code read_nodes(db_conn *c, const db_sql *sql, const db_value *values, int count,
                            node_list *out, error *err)
{
    db_stmt *s;
    error own;
    err = err ? err : &own;
    out->count = 0;
    pawl_code rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_prepare(c, sql, &s, err);
    if (rc == PAWL_OK)
        rc = db_bind_all(s, values, count, err);
    if (rc == PAWL_OK && read_rows(s, out, err) == DB_FAILED)
        rc = err->code;
    db_rollback(c);
    return rc;
}

/* Finds open nodes whose byte lock is free. The row is read before the lock is tested, since a node
 * takes its lock before it writes its row. */
static pawl_code find_unlocked(const node *n, db_conn *c, node_list *out, error *err)
{
    node_list some = {0};
    int64_t after = 0;
    do {
        const db_value values[] = {db_int(n->id), db_int(after)};
        pawl_code rc = read_nodes(c, &OPEN, values, DB_COUNT(values), &some, err);
        if (rc != PAWL_OK)
            return rc;
        for (size_t i = 0; i < some.count && out->count < NODE_LIST_ROOM; i++) {
            after = some.at[i];
            if (liveness_file_alive(n->file, after) == 0)
                out->at[out->count++] = after;
        }
    } while (some.count == NODE_LIST_ROOM && out->count < NODE_LIST_ROOM);
    return PAWL_OK;
}

pawl_code node_find_silent(node *n, db_conn *c, node_list *out, error *err)
{
    assert(n->id);
    out->count = 0;
    if (n->file)
        return find_unlocked(n, c, out, err);
    pawl_code rc = db_clock_measure(n->clock, c, err);
    int64_t now = db_clock_now_ms(n->clock);
    if (rc != PAWL_OK || !node_may_judge(n, now))
        return rc;
    const db_value values[] = {db_int(n->id), db_int(now - n->claim_ms)};
    return read_nodes(c, &SILENT, values, DB_COUNT(values), out, err);
}

pawl_code node_find_closed(db_conn *c, node_list *out, error *err)
{
    return read_nodes(c, &CLOSED, NULL, 0, out, err);
}

pawl_code node_find_due(db_conn *c, int64_t now_ms, node_list *out, error *err)
{
    const db_value values[] = {db_int(now_ms)};
    return read_nodes(c, &CLOSED_DUE, values, DB_COUNT(values), out, err);
}

int node_is_closed(db_conn *c, int64_t id, int *resigned)
{
    int64_t how = 0;
    int found;
    error err = {0};
    const db_value values[] = {db_int(id)};
    pawl_code rc = db_number(c, &HOW_CLOSED, values, DB_COUNT(values), &how, &found, &err);
    *resigned = rc == PAWL_OK && how == BY_ITSELF;
    return rc == PAWL_OK && how != 0;
}

/* ---- Closing ---- */

/* Deletes other rows of a node that is closed: its heartbeat, so that the node notices the closing
 * even if it has nothing to commit; its sign; and its offers, since it will not drive these
 * workflows. The heartbeat comes first, as in write_beat(): transactions that lock both rows lock
 * them in one order. */
static void add_row_deletes(unit *u, int64_t id)
{
    const db_value values[] = {db_int(id)};
    unit_write(u, &NO_BEAT, unit_key("beats", id), values, DB_COUNT(values));
    unit_write(u, &NO_SIGN, unit_key("signs", id), values, DB_COUNT(values));
    unit_write(u, &NO_OFFERS, unit_key("offers", id), values, DB_COUNT(values));
}

static int add_close(unit *u, int64_t id, int64_t how)
{
    const db_value closing[] = {db_int(id), db_int(how)};
    int close = unit_guard(u, &CLOSE, "open", unit_key("nodes", id), closing, DB_COUNT(closing));
    add_row_deletes(u, id);
    return close;
}

int node_add_close(unit *u, int64_t id)
{
    return add_close(u, id, BY_OTHERS);
}

/* Ends the server's sessions of a node that is about to be closed. The server has no time-out for a
 * session that was receiving a statement when its node stopped: such a session would keep its
 * locks. */
void node_evict(db *d, int64_t id)
{
    db_conn *c;
    if (!d->driver->evict || db_connect(d, DB_READER, &c, NULL) != PAWL_OK)
        return;
    d->driver->evict(c, id); /* RULE A1-a-node-that-stops-while-sending-holds-up-no-other */
    db_disconnect(c);
}

static pawl_code close_node(committer *k, int64_t id, int64_t how, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    pawl_code rc = u ? PAWL_OK : error_nomem(err);
    if (u) {
        add_close(u, id, how);
        rc = node_commit(k, u, "close a node", err);
    }
    arena_free(a);
    return rc;
}

void node_close_own(const node *n, committer *k)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (u) {
        const db_value rows[] = {db_int(n->id), db_int(BY_ITSELF), db_int(n->token)};
        unit_guard(u, &CLOSE_OWN, "own", unit_key("nodes", n->id), rows, DB_COUNT(rows));
        add_row_deletes(u, n->id);
        (void)node_commit(k, u, "close a node", &(error){0});
    }
    arena_free(a);
}

pawl_code node_close(committer *k, int64_t id, error *err)
{
    node_evict(committer_connection(k)->db, id);
    return close_node(k, id, BY_OTHERS, err);
}

/* If the node has sent a heartbeat since it was found silent, it is working and must not be closed.
 * Its heartbeat and the guard here change the same row, so one of the two fails. */
pawl_code node_close_silent(const node *n, committer *k, int64_t id, error *err)
{
    if (n->file) /* the lock of an id that was free stays free */
        return node_close(k, id, err);
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    pawl_code rc = u ? PAWL_OK : error_nomem(err);
    if (u) {
        const db_value values[] = {db_int(id), db_int(db_clock_now_ms(n->clock) - n->claim_ms)};
        unit_guard(u, &STILL_SILENT, "silent", unit_key("beats", id), values, DB_COUNT(values));
        add_close(u, id, BY_OTHERS);
        node_evict(committer_connection(k)->db, id);
        u->lock_ms = NODE_LOOP_LOCK_MS;
        rc = node_commit(k, u, "close a node", err);
    }
    arena_free(a);
    return rc;
}

/* Deletes the rows of a node and gives its runs back, in one unit, if these runs are all that it
 * owns. A run whose owner has no row could not be claimed by any node. Sets *locked if another
 * transaction keeps one of these rows locked. */
static pawl_code remove_node(committer *k, int64_t id, const int64_t *runs, size_t count,
                             int *locked, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    pawl_code rc = u ? PAWL_OK : error_nomem(err);
    if (u) {
        const db_value which[] = {db_int(id)};
        unit_guard(u, &VANISH, "open", unit_key("nodes", id), which, DB_COUNT(which));
        node_add_give_back(u, id, runs, count);
        unit_guard(u, &OWNS_NOTHING, "owns", unit_key("nodes", id), which, DB_COUNT(which));
        add_row_deletes(u, id);
        u->lock_ms = NODE_LOOP_LOCK_MS;
        rc = node_commit(k, u, "leave", err);
        *locked = u->row_locked;
    }
    arena_free(a);
    return rc;
}

pawl_code node_resign(committer *k, int64_t id, const int64_t *runs, size_t count, error *err)
{
    int locked = 0;
    pawl_code rc = runs ? remove_node(k, id, runs, count, &locked, err) : PAWL_REFUSED;
    /* RULE L4-one-locked-run-keeps-no-node-open */
    int closes = rc == PAWL_REFUSED || locked;
    return closes ? close_node(k, id, BY_ITSELF, err) : rc;
}

/* ---- Probing ---- */

static const db_sql PROBE = {
    "INSERT INTO {meta} (name, number) VALUES ('probe', 1) ON CONFLICT (name)"
    " DO UPDATE SET number = coalesce({meta}.number, 0) + 1",
    ""};

void node_add_probe(unit *u)
{
    unit_write(u, &PROBE, unit_key_text("meta", slice_of("probe")), NULL, 0);
}
