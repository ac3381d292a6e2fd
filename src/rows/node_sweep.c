/* The last part of a takeover: the slow walk over the tables for rows that closed nodes own. Runs
 * that no node has claimed by then get no owner (0), and the rows of the nodes are deleted.
 *
 * One walk is for many nodes, because the table of runs may be long, and each process that is
 * killed leaves a node behind. */
#include <stdlib.h>

#include "rows/node.h"

enum { PAGE = 256 };

static const db_sql IS_OPEN = {"SELECT count(*) FROM {nodes} WHERE node = $1 AND closed = 0", "i"};

static const db_sql REMOVE = {"DELETE FROM {nodes} WHERE node = $1 AND closed <> 0", "i"};

typedef struct walk {
    const char *table;
    db_sql page;
    db_sql free;
} walk;

static const walk WALKS[] = {
    {"runs",
     {"SELECT run, owner FROM {runs} WHERE run > $1 ORDER BY run LIMIT $2", "ii"},
     {"UPDATE {runs} SET owner = 0, wake_at = CASE WHEN held = {HELD_RECORD} THEN wake_at"
      " WHEN held <> 0 AND cancel_at IS NULL THEN NULL"
      " WHEN held <> 0 THEN cancel_at ELSE wake_at END,"
      " held = CASE WHEN cancel_at IS NULL AND held <> {HELD_RECORD} THEN held ELSE 0 END"
      " WHERE run = $1 AND owner = $2",
      "ii"}},
    {"tasks",
     {"SELECT task, owner FROM {tasks} WHERE task > $1 ORDER BY task LIMIT $2", "ii"},
     {"UPDATE {tasks} SET owner = 0 WHERE task = $1 AND owner = $2", "ii"}},
};

enum { WALK_COUNT = sizeof WALKS / sizeof *WALKS };

/* A row that is to be changed, and the node that owns it; for a row of {nodes}, the node itself. */
typedef struct owned {
    uint64_t key;
    int64_t id;
    int64_t node;
} owned;

/* The rows of a page that closed nodes own. */
typedef struct page {
    int64_t last; /* key of the page's last row */
    size_t seen;  /* number of rows read; fewer than PAGE: the table ends here */
    size_t count; /* number of rows in `owned` */
    owned owned[PAGE];
} page;

/* ---- Reading ---- */

static int is_among(const node_list *nodes, int64_t id)
{
    size_t low = 0, high = nodes->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (nodes->at[middle] < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < nodes->count && nodes->at[low] == id;
}

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
        int64_t owner = db_column(rows, 1).i;
        p->seen++;
        p->last = db_column(rows, 0).i;
        if (is_among(&s->nodes, owner))
            p->owned[p->count++] = (owned){unit_key(w->table, p->last), p->last, owner};
    }
    db_reset(rows);
    return step == DB_FAILED ? err->code : PAWL_OK;
}

/* Checks that all nodes of the walk are closed. Once is enough, since a closed node stays
 * closed. */
static pawl_code check_closed(const node_sweep *s, db_conn *c, error *err)
{
    for (size_t i = 0; i < s->nodes.count; i++) {
        int64_t open = 0;
        int found;
        const db_value which[] = {db_int(s->nodes.at[i])};
        pawl_code rc = db_number(c, &IS_OPEN, which, DB_COUNT(which), &open, &found, err);
        if (rc == PAWL_OK && open > 0)
            rc = error_set(err, PAWL_MISUSE, "node %lld is not closed", (long long)which[0].i);
        if (rc != PAWL_OK)
            return rc;
    }
    return PAWL_OK;
}

/* Reads a page. A closed node cannot get new rows, so rows read here can only become fewer. */
static pawl_code read_owned(const node_sweep *s, db_conn *c, page *p, error *err)
{
    pawl_code rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    if (s->walk == 0 && s->after == 0)
        rc = check_closed(s, c, err);
    if (rc == PAWL_OK)
        rc = read_page(s, c, p, err);
    db_rollback(c);
    return rc;
}

/* ---- Writing ---- */

static int by_key(const void *a, const void *b)
{
    const owned *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* Frees the rows in the order in which all units lock rows, which avoids deadlocks. */
static void add_free(unit *u, const walk *w, owned *rows, size_t count)
{
    qsort(rows, count, sizeof *rows, by_key);
    for (size_t i = 0; i < count; i++) {
        const db_value values[] = {db_int(rows[i].id), db_int(rows[i].node)};
        unit_write(u, &w->free, rows[i].key, values, DB_COUNT(values));
    }
}

static pawl_code free_page(const node_sweep *s, committer *k, arena *a, page *p, error *err)
{
    unit *u = unit_new(a);
    if (!u)
        return error_nomem(err);
    add_free(u, &WALKS[s->walk], p->owned, p->count);
    u->lock_ms = NODE_LOOP_LOCK_MS;
    return node_commit(k, u, "sweep up after a node", err);
}

/* Deletes the rows of the nodes. Another node that has walked too may have deleted them already. */
static pawl_code remove_rows(const node_sweep *s, committer *k, arena *a, error *err)
{
    owned rows[NODE_LIST_ROOM];
    unit *u = unit_new(a);
    if (!u)
        return error_nomem(err);
    for (size_t i = 0; i < s->nodes.count; i++)
        rows[i] = (owned){.key = unit_key("nodes", s->nodes.at[i]), .node = s->nodes.at[i]};
    qsort(rows, s->nodes.count, sizeof *rows, by_key);
    for (size_t i = 0; i < s->nodes.count; i++) {
        const db_value values[] = {db_int(rows[i].node)};
        unit_write(u, &REMOVE, rows[i].key, values, DB_COUNT(values));
    }
    u->lock_ms = NODE_LOOP_LOCK_MS;
    return node_commit(k, u, "sweep up after a node", err);
}

/* ---- Walking ---- */

static pawl_code sweep_one_page(node_sweep *s, committer *k, db_conn *c, page *p, arena *a,
                                error *err)
{
    pawl_code rc = s->walk < WALK_COUNT ? read_owned(s, c, p, err) : remove_rows(s, k, a, err);
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
    pawl_code rc = p ? sweep_one_page(s, k, c, p, a, err ? err : &own) : error_nomem(err);
    arena_free(a);
    *done = s->walk > WALK_COUNT;
    return rc;
}

void node_add_give_back(unit *u, int64_t id, const int64_t *runs, size_t count)
{
    owned *rows = arena_alloc(u->arena, (count + 1) * sizeof *rows);
    if (!rows) {
        u->broken_build = 1;
        return;
    }
    for (size_t i = 0; i < count; i++)
        rows[i] = (owned){unit_key(WALKS[0].table, runs[i]), runs[i], id};
    add_free(u, &WALKS[0], rows, count);
}
