/* Inspecting one run, its descendants, and the nodes.
 *
 * These functions neither wait nor write. Rows are copied, and the connection is given back, before
 * the callback of the client is called, which may take its time and may call pawl. */
#include "query/inspect.h"

#include <stdlib.h>

#include "base/argument.h"
#include "base/map.h"
#include "base/text.h"
#include "db/inflight_file.h"
#include "db/liveness_file.h"
#include "query/info.h"

enum { CHILDREN = 64 };

/* A node writes its progress into its in-flight file once a second; a node that has not done so for
 * this long stands still. */
static const int64_t STILL_MS = 5000;

static const db_sql ONE = {
    "SELECT " INFO_COLUMNS INFO_CHILDREN INFO_FROM "WHERE r.tenant = $1 AND r.id = $2", "tt"};

static const db_sql CHILDREN_OF = {"SELECT " INFO_COLUMNS INFO_CHILDREN INFO_FROM
                                   "WHERE r.parent = $1 AND r.run > $2 ORDER BY r.run LIMIT $3",
                                   "iii"};

static const db_sql NODES = {
    "SELECT n.node, min(n.since), max(b.at), min(n.name), min(n.build), max(b.unable)"
    " FROM {nodes} n LEFT JOIN {beats} b ON b.node = n.node"
    " WHERE n.closed = 0 AND n.node > $1 GROUP BY n.node ORDER BY n.node LIMIT $2",
    "ii"};

/* ---- One run ---- */

static pawl_code read_one(pawl *p, slice id, info_page *page, error *err)
{
    const db_value name[] = {db_text(handle_tenant(p)), db_text(id)};
    db_conn *c;
    pawl_code rc = read_pool_begin(handle_read_pool(p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_pool_rows(c, &ONE, name, DB_COUNT(name), info_page_add, page, err);
    read_pool_end(handle_read_pool(p), c);
    return rc == PAWL_OK && page->count == 0 ? read_pool_no_run(err) : rc;
}

static pawl_code inspect_run(pawl *p, const char *id, pawl_info **out, error *err)
{
    slice name;
    info_page page = {0};
    pawl_code rc = argument_run_id(id, &name, err);
    if (rc == PAWL_OK)
        rc = read_one(p, name, &page, err);
    if (rc == PAWL_OK) {
        *out = page.at[0];
        page.count = 0;
    }
    info_page_free(&page);
    return rc;
}

pawl_code pawl_inspect(pawl *p, const char *id, pawl_info **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK)
        rc = out ? inspect_run(p, id, out, &err) : argument_no_place(&err);
    return handle_leave(p, rc, &err);
}

/* ---- A run with its descendants ---- */

/* A run whose children are being reported. */
typedef struct branch {
    struct branch *above;
    int64_t run;
    int64_t depth;
    int64_t last; /* key of the last child that was read */
    size_t next;  /* index in the page of the child that is reported next */
    int ended;    /* 1: there are no children behind the page */
    info_page page;
} branch;

typedef struct family {
    pawl *p;
    branch *here;
    map path; /* keys of the runs whose children are being reported */
    pawl_info_fn *fn;
    void *arg;
    int stopped;
} family;

/* Reports one run, and makes its children the next ones to be reported. In a damaged database a run
 * may be its own ancestor: then its children are not reported again. */
static pawl_code report_run(family *f, pawl_info *i, int64_t depth, error *err)
{
    i->depth = depth;
    f->stopped = f->fn(i, f->arg) != 0;
    if (f->stopped || !i->has_children || map_get(&f->path, (uint64_t)i->run))
        return PAWL_OK;
    branch *b = calloc(1, sizeof *b);
    if (!b || map_put(&f->path, (uint64_t)i->run, b) != 0) {
        free(b);
        return error_nomem(err);
    }
    b->above = f->here;
    b->run = i->run;
    b->depth = depth + 1;
    b->last = INT64_MIN;
    f->here = b;
    return PAWL_OK;
}

static void leave_branch(family *f)
{
    branch *b = f->here;
    f->here = b->above;
    map_take(&f->path, (uint64_t)b->run);
    info_page_free(&b->page);
    free(b);
}

static pawl_code read_children(family *f, branch *b, error *err)
{
    const db_value values[] = {db_int(b->run), db_int(b->last), db_int(CHILDREN)};
    db_conn *c;
    info_page_free(&b->page);
    b->next = 0;
    pawl_code rc = read_pool_begin(handle_read_pool(f->p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_pool_rows(c, &CHILDREN_OF, values, DB_COUNT(values), info_page_add, &b->page, err);
    read_pool_end(handle_read_pool(f->p), c);
    b->ended = b->page.count < CHILDREN;
    if (b->page.count > 0)
        b->last = b->page.at[b->page.count - 1]->run;
    return rc;
}

static pawl_code report_next(family *f, error *err)
{
    branch *b = f->here;
    if (b->next < b->page.count)
        return report_run(f, b->page.at[b->next++], b->depth, err);
    if (!b->ended)
        return read_children(f, b, err);
    leave_branch(f);
    return PAWL_OK;
}

static pawl_code report_tree(family *f, const char *id, error *err)
{
    info_page root = {0};
    slice name;
    pawl_code rc = argument_run_id(id, &name, err);
    if (rc == PAWL_OK)
        rc = read_one(f->p, name, &root, err);
    if (rc == PAWL_OK)
        rc = report_run(f, root.at[0], 0, err);
    info_page_free(&root);
    while (rc == PAWL_OK && f->here && !f->stopped)
        rc = report_next(f, err);
    while (f->here)
        leave_branch(f);
    map_free(&f->path);
    return rc;
}

pawl_code pawl_tree(pawl *p, const char *id, pawl_info_fn *fn, void *arg)
{
    error err = {0};
    family f = {.p = p, .fn = fn, .arg = arg};
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK)
        rc = fn ? report_tree(&f, id, &err) : argument_no_function(&err);
    return handle_leave(p, rc, &err);
}

/* ---- Nodes ---- */

static pawl_code add_node(void *arg, db_stmt *row, error *err)
{
    inspect_nodes *nodes = arg;
    inspect_node *n = &nodes->at[nodes->count++];
    n->node = read_pool_int(row, 0);
    n->since_ms = read_pool_int(row, 1);
    n->beat_ms = read_pool_is_null(row, 2) ? INT64_MIN : read_pool_int(row, 2);
    n->name = arena_copy(nodes->memory, read_pool_text(row, 3));
    n->build = arena_copy(nodes->memory, read_pool_text(row, 4));
    n->unable = arena_copy(nodes->memory, read_pool_text(row, 5));
    return n->name && n->build && n->unable ? PAWL_OK : error_nomem(err);
}

pawl_code inspect_read_nodes(db_conn *c, arena *memory, int64_t after, inspect_nodes *out,
                             error *err)
{
    const db_value values[] = {db_int(after), db_int(LOOK_NODES)};
    *out = (inspect_nodes){.memory = memory};
    out->at = arena_alloc(memory, LOOK_NODES * sizeof *out->at);
    if (!out->at)
        return error_nomem(err);
    return read_pool_rows(c, &NODES, values, DB_COUNT(values), add_node, out, err);
}

/* A process cannot test its own byte lock, but its own node is alive. */
int inspect_is_alive(pawl *p, const inspect_node *n, int64_t now_ms)
{
    db *d = handle_db(p);
    liveness_file *locks = db_nodes(d);
    if (n->node == handle_node(p))
        return 1;
    if (locks)
        return liveness_file_alive(locks, n->node) != 0;
    return n->beat_ms != INT64_MIN && n->beat_ms >= now_ms - d->options.claim_ms;
}

/* Where heartbeats are rows, a node that stands still sends none, and counts as dead. A byte lock
 * does not show whether its node stands still: the node's in-flight file tells when the node moved
 * last. */
int64_t inspect_still_ms(pawl *p, const inspect_node *n, int64_t now_ms)
{
    liveness_file *locks = db_nodes(handle_db(p));
    inflight_list list;
    if (!locks || n->node == handle_node(p))
        return 0;
    inflight_read(locks, n->node, &list);
    if (!list.known || list.moved_ms <= 0)
        return INT64_MIN;
    return list.moved_ms < now_ms - STILL_MS ? list.moved_ms : 0;
}

static pawl_code read_nodes(pawl *p, arena *memory, int64_t after, inspect_nodes *out,
                            int64_t *now_ms, error *err)
{
    db_conn *c;
    pawl_code rc = read_pool_begin_now(handle_read_pool(p), &c, now_ms, err);
    if (rc != PAWL_OK)
        return rc;
    rc = inspect_read_nodes(c, memory, after, out, err);
    read_pool_end(handle_read_pool(p), c);
    return rc;
}

/* Calls the function of the client for one node. Returns what that function returns; 0 if the node
 * is dead. */
static int report_node(pawl *p, const inspect_node *n, int64_t now_ms, pawl_node_fn *fn, void *arg)
{
    if (!inspect_is_alive(p, n, now_ms))
        return 0;
    /* RULE L6-a-node-that-stands-still-is-shown */
    int64_t still_ms = inspect_still_ms(p, n, now_ms);
    return fn(n->node, n->name, n->build, n->since_ms, still_ms > 0 ? still_ms : 0, arg);
}

static pawl_code report_nodes(pawl *p, arena *memory, pawl_node_fn *fn, void *arg, error *err)
{
    inspect_nodes nodes = {.count = LOOK_NODES};
    int64_t after = INT64_MIN;
    while (nodes.count == LOOK_NODES) {
        int64_t now_ms;
        arena_reset(memory);
        pawl_code rc = read_nodes(p, memory, after, &nodes, &now_ms, err);
        if (rc != PAWL_OK)
            return rc;
        for (size_t i = 0; i < nodes.count; i++) {
            if (report_node(p, &nodes.at[i], now_ms, fn, arg))
                return PAWL_OK;
            after = nodes.at[i].node;
        }
    }
    return PAWL_OK;
}

static pawl_code list_nodes(pawl *p, pawl_node_fn *fn, void *arg, error *err)
{
    arena *memory = arena_new(0);
    pawl_code rc = memory ? report_nodes(p, memory, fn, arg, err) : error_nomem(err);
    arena_free(memory);
    return rc;
}

pawl_code pawl_nodes(pawl *p, pawl_node_fn *fn, void *arg)
{
    error err = {0};
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK)
        rc = fn ? list_nodes(p, fn, arg, &err) : argument_no_function(&err);
    return handle_leave(p, rc, &err);
}
