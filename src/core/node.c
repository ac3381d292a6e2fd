/* The rows of nodes. What is contended for goes through units and guards: the id, the closing. What
 * only one node ever writes, its beat, is a plain statement on a connection of its own.
 *
 * An outage of the database silences all nodes at once. Whoever came back first would find all the
 * others dead and shut them out, one healthy process after the other. So a node whose own beats had
 * a gap gives the others time to be heard again, before it believes in their silence. */
#include "core/node.h"

#include <assert.h>
#include <stdlib.h>

#include "db/nodes_file.h"

enum { FIRST_NODE = 2, PAGE = 256 };

static const db_sql TAKE_ID = {
    "UPDATE {meta} SET number = number + 1 WHERE name = 'next_node' RETURNING number - 1", ""};

static const db_sql INSERT = {
    "INSERT INTO {nodes} (node, slot, name, build, since) VALUES ($1, $2, $3, $4, $5)", "iitti"};

static const db_sql FIRST_BEAT = {"INSERT INTO {beats} (node, at) VALUES ($1, $2)", "ii"};

static const db_sql BEAT = {"UPDATE {beats} SET at = $2 WHERE node = $1 RETURNING at", "ii"};

static const db_sql OPEN = {"SELECT DISTINCT node FROM {nodes} WHERE closed = 0 AND node <> $1"
                            " AND node > $2 ORDER BY node",
                            "ii"};

static const db_sql SILENT = {
    "SELECT DISTINCT n.node FROM {nodes} n LEFT JOIN {beats} b ON b.node = n.node"
    " WHERE n.closed = 0 AND n.node <> $1 AND (b.at IS NULL OR b.at < $2) ORDER BY n.node",
    "ii"};

static const db_sql CLOSED = {"SELECT DISTINCT node FROM {nodes} WHERE closed <> 0 ORDER BY node",
                              ""};

static const db_sql CLOSE = {
    "UPDATE {nodes} SET closed = 1 WHERE node = $1 AND closed = 0 RETURNING slot", "i"};

static const db_sql NO_BEAT = {"DELETE FROM {beats} WHERE node = $1", "i"};

static const db_sql IS_OPEN = {"SELECT count(*) FROM {nodes} WHERE node = $1 AND closed = 0", "i"};

static const db_sql REMOVE = {"DELETE FROM {nodes} WHERE node = $1 AND closed <> 0 RETURNING slot",
                              "i"};

/* ---- Units ---- */

static pawl_code no_memory(error *err)
{
    return error_set(err, PAWL_NOMEM, "out of memory");
}

/* Commit a unit of the node's own affairs, which somebody waits for. */
static pawl_code commit(committer *k, unit *u, const char *doing, error *err)
{
    u->class = UNIT_OF_CLIENT;
    pawl_code rc = committer_commit(k, u);
    if (rc == PAWL_OK)
        return rc;
    error_set(err, rc, "cannot %s: %s", doing, pawl_code_text(rc));
    error_detail(err, "%s", u->message ? u->message : u->refused ? u->refused : "");
    return rc;
}

static pawl_code take_id(arena *a, committer *k, int64_t *out, error *err)
{
    unit *u = unit_new(a);
    if (!u)
        return no_memory(err);
    uint64_t key = unit_key_text("meta", SLICE_LIT("next_node"));
    int take = unit_guard(u, &TAKE_ID, "counter", key, NULL, 0);
    pawl_code rc = commit(k, u, "become a node", err);
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
        return no_memory(err);
    uint64_t key = unit_key("nodes", n->id);
    for (int64_t slot = 1; slot <= o->slots; slot++) {
        const db_value row[] = {db_int(n->id), db_int(slot),
                                db_text(slice_of(o->name ? o->name : "")),
                                db_text(slice_of(o->build ? o->build : "")), db_int(n->beat_ms)};
        unit_write(u, &INSERT, key, row, DB_COUNT(row));
    }
    const db_value beat[] = {db_int(n->id), db_int(n->beat_ms)};
    if (!n->file)
        unit_write(u, &FIRST_BEAT, unit_key("beats", n->id), beat, DB_COUNT(beat));
    return commit(k, u, "become a node", err);
}

/* ---- Joining and leaving ---- */

/* Lock first, then the rows: a row without a sign of life would be closed by whoever sees it. */
static pawl_code join(arena *a, node *n, committer *k, const node_options *o, error *err)
{
    int64_t id = 0;
    pawl_code rc = take_id(a, k, &id, err);
    if (rc == PAWL_OK && n->file)
        rc = nodes_file_hold(n->file, id, err);
    if (rc != PAWL_OK)
        return rc;
    n->id = id;
    n->beat_ms = db_clock_now_ms(n->clock);
    n->believe_ms = n->beat_ms;
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
    rc = a ? join(a, n, k, options, err) : no_memory(err);
    arena_free(a);
    return rc;
}

void node_leave(node *n)
{
    if (n->id && n->file)
        nodes_file_release(n->file, n->id);
    n->id = 0;
}

/* ---- Signs of life ---- */

/* A beat whose commit has no answer is neither here nor there; the next one says the same. But what
 * became of it has to be asked, before the connection is used again. */
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

static pawl_code write_beat(const node *n, db_conn *c, int64_t now, error *err)
{
    int64_t at;
    int found;
    const db_value values[] = {db_int(n->id), db_int(now)};
    pawl_code rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_number(c, &BEAT, values, DB_COUNT(values), &at, &found, err);
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

/* Beats come three times in claim_ms: half of it without one is a gap, and half of it after that
 * everybody who is alive has been heard again. */
static int is_late(const node *n, int64_t now)
{
    return now - n->beat_ms > n->claim_ms / 2;
}

pawl_code node_beat(node *n, db_conn *c, error *err)
{
    assert(n->id);
    if (n->file) /* the kernel knows */
        return PAWL_OK;
    pawl_code rc = db_clock_measure(n->clock, c, err);
    if (rc != PAWL_OK)
        return rc;
    int64_t now = db_clock_now_ms(n->clock);
    rc = write_beat(n, c, now, err);
    if (rc != PAWL_OK)
        return rc;
    if (is_late(n, now))
        n->believe_ms = now + n->claim_ms / 2;
    n->beat_ms = now;
    return PAWL_OK;
}

enum { LIST_ROOM = sizeof((node_list *)0)->at / sizeof((node_list *)0)->at[0] };

/* Column 0 of a prepared statement: all that there is room for. */
static db_step read_rows(db_stmt *s, node_list *out, error *err)
{
    db_step step = DB_DONE;
    while (out->count < LIST_ROOM && (step = db_next(s, err)) == DB_ROW)
        out->at[out->count++] = db_column(s, 0).i;
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

/* The row is read first, then the lock is asked: it was taken before the row was written. */
static pawl_code find_unlocked(const node *n, db_conn *c, node_list *out, error *err)
{
    node_list some = {0};
    int64_t after = 0;
    do {
        const db_value values[] = {db_int(n->id), db_int(after)};
        pawl_code rc = read_nodes(c, &OPEN, values, DB_COUNT(values), &some, err);
        if (rc != PAWL_OK)
            return rc;
        for (size_t i = 0; i < some.count && out->count < LIST_ROOM; i++) {
            after = some.at[i];
            if (nodes_file_alive(n->file, after) == 0)
                out->at[out->count++] = after;
        }
    } while (some.count == LIST_ROOM && out->count < LIST_ROOM);
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
    if (rc != PAWL_OK || is_late(n, now) || now < n->believe_ms)
        return rc;
    const db_value values[] = {db_int(n->id), db_int(now - n->claim_ms)};
    return read_nodes(c, &SILENT, values, DB_COUNT(values), out, err);
}

pawl_code node_find_closed(db_conn *c, node_list *out, error *err)
{
    return read_nodes(c, &CLOSED, NULL, 0, out, err);
}

/* ---- Closing ---- */

/* Its beat goes with it: so the node hears of its end even if it has nothing to commit. */
int node_add_close(unit *u, int64_t id)
{
    const db_value values[] = {db_int(id)};
    int close = unit_guard(u, &CLOSE, "open", unit_key("nodes", id), values, DB_COUNT(values));
    unit_write(u, &NO_BEAT, unit_key("beats", id), values, DB_COUNT(values));
    return close;
}

/* Its sessions first: one that was sending when its node stopped waits for the rest, and no
 * time-out of the server counts there. */
static void evict(db *d, int64_t id)
{
    db_conn *c;
    if (!d->driver->evict || db_connect(d, DB_READER, &c, NULL) != PAWL_OK)
        return;
    d->driver->evict(c, id);
    db_disconnect(c);
}

pawl_code node_close(committer *k, int64_t id, error *err)
{
    evict(committer_connection(k)->db, id);
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    pawl_code rc = u ? PAWL_OK : no_memory(err);
    if (u) {
        node_add_close(u, id);
        rc = commit(k, u, "close a node", err);
    }
    arena_free(a);
    return rc;
}

/* ---- Sweeping ---- */

typedef struct walk {
    const char *table;
    db_sql page;
    db_sql free;
} walk;

static const walk WALKS[] = {
    {"runs",
     {"SELECT run, owner FROM {runs} WHERE run > $1 ORDER BY run LIMIT $2", "ii"},
     {"UPDATE {runs} SET owner = 0 WHERE run = $1 AND owner = $2", "ii"}},
    {"tasks",
     {"SELECT task, owner FROM {tasks} WHERE task > $1 ORDER BY task LIMIT $2", "ii"},
     {"UPDATE {tasks} SET owner = 0 WHERE task = $1 AND owner = $2", "ii"}},
};

enum { WALK_COUNT = sizeof WALKS / sizeof *WALKS };

/* What a page of a table holds. */
typedef struct page {
    int64_t last; /* its last row … */
    size_t seen;  /* … of so many; fewer than PAGE: the table ends here */
    size_t count; /* how many of them the node owns: */
    struct owned {
        uint64_t key;
        int64_t id;
    } owned[PAGE];
} page;

static pawl_code read_page(const node_sweep *s, db_conn *c, page *p, error *err)
{
    db_stmt *rows;
    const walk *w = &WALKS[s->walk];
    const db_value values[] = {db_int(s->after), db_int(PAGE)};
    pawl_code rc = db_prepare(c, &w->page, &rows, err);
    if (rc == PAWL_OK)
        rc = db_bind_all(rows, values, DB_COUNT(values), err);
    if (rc != PAWL_OK)
        return rc;
    db_step step;
    while ((step = db_next(rows, err)) == DB_ROW && p->seen < PAGE) {
        p->seen++;
        p->last = db_column(rows, 0).i;
        if (db_column(rows, 1).i == s->node)
            p->owned[p->count++] = (struct owned){unit_key(w->table, p->last), p->last};
    }
    db_reset(rows);
    return step == DB_FAILED ? err->code : PAWL_OK;
}

/* Nothing can come to belong to a closed node any more: what is read here can only become less. */
static pawl_code look(const node_sweep *s, db_conn *c, page *p, error *err)
{
    int64_t open = 0;
    int found;
    const db_value which[] = {db_int(s->node)};
    pawl_code rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_number(c, &IS_OPEN, which, DB_COUNT(which), &open, &found, err);
    if (rc == PAWL_OK && open > 0)
        rc = error_set(err, PAWL_MISUSE, "node %lld is not closed", (long long)s->node);
    if (rc == PAWL_OK)
        rc = read_page(s, c, p, err);
    db_rollback(c);
    return rc;
}

static int by_key(const void *a, const void *b)
{
    const struct owned *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* In the order in which everybody else locks rows too (C6). */
static pawl_code free_page(const node_sweep *s, committer *k, arena *a, page *p, error *err)
{
    unit *u = unit_new(a);
    if (!u)
        return no_memory(err);
    qsort(p->owned, p->count, sizeof *p->owned, by_key);
    for (size_t i = 0; i < p->count; i++) {
        const db_value values[] = {db_int(p->owned[i].id), db_int(s->node)};
        unit_write(u, &WALKS[s->walk].free, p->owned[i].key, values, DB_COUNT(values));
    }
    return commit(k, u, "sweep up after a node", err);
}

/* Refused: somebody else has walked too, and was here first. */
static pawl_code remove_rows(const node_sweep *s, committer *k, arena *a, error *err)
{
    unit *u = unit_new(a);
    if (!u)
        return no_memory(err);
    const db_value values[] = {db_int(s->node)};
    unit_guard(u, &REMOVE, "closed", unit_key("nodes", s->node), values, DB_COUNT(values));
    pawl_code rc = commit(k, u, "sweep up after a node", err);
    return rc == PAWL_REFUSED ? PAWL_OK : rc;
}

static pawl_code sweep(node_sweep *s, committer *k, db_conn *c, page *p, arena *a, error *err)
{
    pawl_code rc = s->walk < WALK_COUNT ? look(s, c, p, err) : remove_rows(s, k, a, err);
    if (rc == PAWL_OK && p->count > 0)
        rc = free_page(s, k, a, p, err);
    if (rc != PAWL_OK)
        return rc;
    s->after = p->last;
    if (p->seen < PAGE) {
        s->walk++;
        s->after = 0;
    }
    return PAWL_OK;
}

pawl_code node_sweep_page(node_sweep *s, committer *k, db_conn *c, int *done, error *err)
{
    error own;
    arena *a = arena_new(0);
    page *p = a ? arena_alloc(a, sizeof *p) : NULL;
    pawl_code rc = p ? sweep(s, k, c, p, a, err ? err : &own) : no_memory(err);
    arena_free(a);
    *done = s->walk > WALK_COUNT;
    return rc;
}
