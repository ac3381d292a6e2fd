/* Looking at one run, at its family, and at the nodes.
 *
 * Nothing here waits or writes. What is read is copied, and the connection given back, before the
 * caller's function is called: it may take its time, and may call pawl. */
#include "core/look.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/text.h"
#include "core/info.h"
#include "db/nodes_file.h"

enum { CHILDREN = 64 };

static const db_sql ONE = {
    "SELECT " INFO_COLUMNS INFO_CHILDREN INFO_FROM "WHERE r.tenant = $1 AND r.id = $2", "tt"};

static const db_sql CHILDREN_OF = {"SELECT " INFO_COLUMNS INFO_CHILDREN INFO_FROM
                                   "WHERE r.parent = $1 AND r.run > $2 ORDER BY r.run LIMIT $3",
                                   "iii"};

static const db_sql NODES = {
    "SELECT n.node, min(n.since), max(b.at), min(n.name), min(n.build)"
    " FROM {nodes} n LEFT JOIN {beats} b ON b.node = n.node"
    " WHERE n.closed = 0 AND n.node > $1 GROUP BY n.node ORDER BY n.node LIMIT $2",
    "ii"};

pawl_code look_id(const char *id, slice *out, error *err)
{
    *out = slice_of(id);
    return text_check(*out, PAWL_MAX_ID, "id of the run", err);
}

pawl_code look_no_function(error *err)
{
    return error_set(err, PAWL_INVALID, "the function to call is NULL");
}

pawl_code look_no_place(error *err)
{
    return error_set(err, PAWL_INVALID, "there is no place for the result");
}

/* ---- One run ---- */

static pawl_code read_one(pawl *p, slice id, info_page *page, error *err)
{
    const db_value name[] = {db_text(engine_tenant(p)), db_text(id)};
    db_conn *c;
    pawl_code rc = readers_begin(engine_readers(p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = reader_rows(c, &ONE, name, DB_COUNT(name), info_page_add, page, err);
    readers_end(engine_readers(p), c);
    return rc == PAWL_OK && page->count == 0 ? reader_no_run(err) : rc;
}

static pawl_code status(pawl *p, const char *id, pawl_info **out, error *err)
{
    slice name;
    info_page page = {0};
    pawl_code rc = look_id(id, &name, err);
    if (rc == PAWL_OK)
        rc = read_one(p, name, &page, err);
    if (rc == PAWL_OK) {
        *out = page.at[0];
        page.count = 0;
    }
    info_page_free(&page);
    return rc;
}

pawl_code pawl_status(pawl *p, const char *id, pawl_info **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK)
        rc = out ? status(p, id, out, &err) : look_no_place(&err);
    return engine_leave(p, rc, &err);
}

/* ---- A family ---- */

/* A run whose children are being told of. */
typedef struct branch {
    struct branch *above;
    int64_t run;
    int64_t depth;
    int64_t last; /* key of the last child that was read */
    size_t next;  /* which of the page is to be told of */
    int ended;    /* there are no more behind the page */
    info_page page;
} branch;

typedef struct family {
    pawl *p;
    branch *here;
    map path; /* keys of the runs whose children are being told of */
    pawl_info_fn *fn;
    void *arg;
    int stopped;
} family;

static pawl_code no_memory(error *err)
{
    return error_set(err, PAWL_NOMEM, "out of memory");
}

/* Tell of one run; if it has children they are next. A damaged database may have a run that is its
 * own ancestor: it is told of, and its children are not. */
static pawl_code tell(family *f, pawl_info *i, int64_t depth, error *err)
{
    i->depth = depth;
    f->stopped = f->fn(f->arg, i) != 0;
    if (f->stopped || !i->has_children || map_get(&f->path, (uint64_t)i->run))
        return PAWL_OK;
    branch *b = calloc(1, sizeof *b);
    if (!b || map_put(&f->path, (uint64_t)i->run, b) != 0) {
        free(b);
        return no_memory(err);
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
    pawl_code rc = readers_begin(engine_readers(f->p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = reader_rows(c, &CHILDREN_OF, values, DB_COUNT(values), info_page_add, &b->page, err);
    readers_end(engine_readers(f->p), c);
    b->ended = b->page.count < CHILDREN;
    if (b->page.count > 0)
        b->last = b->page.at[b->page.count - 1]->run;
    return rc;
}

static pawl_code tell_next(family *f, error *err)
{
    branch *b = f->here;
    if (b->next < b->page.count)
        return tell(f, b->page.at[b->next++], b->depth, err);
    if (!b->ended)
        return read_children(f, b, err);
    leave_branch(f);
    return PAWL_OK;
}

static pawl_code tree(family *f, const char *id, error *err)
{
    info_page root = {0};
    slice name;
    pawl_code rc = look_id(id, &name, err);
    if (rc == PAWL_OK)
        rc = read_one(f->p, name, &root, err);
    if (rc == PAWL_OK)
        rc = tell(f, root.at[0], 0, err);
    info_page_free(&root);
    while (rc == PAWL_OK && f->here && !f->stopped)
        rc = tell_next(f, err);
    while (f->here)
        leave_branch(f);
    map_free(&f->path);
    return rc;
}

pawl_code pawl_tree(pawl *p, const char *id, pawl_info_fn *fn, void *arg)
{
    error err = {0};
    family f = {.p = p, .fn = fn, .arg = arg};
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK)
        rc = fn ? tree(&f, id, &err) : look_no_function(&err);
    return engine_leave(p, rc, &err);
}

/* ---- Nodes ---- */

static pawl_code add_node(void *arg, db_stmt *row, error *err)
{
    look_nodes *nodes = arg;
    look_node *n = &nodes->at[nodes->count++];
    n->node = reader_int(row, 0);
    n->since_ms = reader_int(row, 1);
    n->beat_ms = reader_is_null(row, 2) ? INT64_MIN : reader_int(row, 2);
    n->name = arena_copy(nodes->memory, reader_text(row, 3));
    n->build = arena_copy(nodes->memory, reader_text(row, 4));
    return n->name && n->build ? PAWL_OK : no_memory(err);
}

pawl_code look_read_nodes(db_conn *c, arena *memory, int64_t after, look_nodes *out, error *err)
{
    const db_value values[] = {db_int(after), db_int(LOOK_NODES)};
    *out = (look_nodes){.memory = memory};
    out->at = arena_alloc(memory, LOOK_NODES * sizeof *out->at);
    if (!out->at)
        return no_memory(err);
    return reader_rows(c, &NODES, values, DB_COUNT(values), add_node, out, err);
}

/* One's own byte lock cannot be seen, but whoever asks is alive. */
int look_is_alive(pawl *p, const look_node *n, int64_t now_ms)
{
    db *d = engine_db(p);
    nodes_file *locks = db_nodes(d);
    if (n->node == engine_node(p))
        return 1;
    if (locks)
        return nodes_file_alive(locks, n->node) != 0;
    return n->beat_ms != INT64_MIN && n->beat_ms >= now_ms - d->options.claim_ms;
}

static pawl_code read_nodes(pawl *p, arena *memory, int64_t after, look_nodes *out, int64_t *now_ms,
                            error *err)
{
    db_conn *c;
    pawl_code rc = readers_begin_now(engine_readers(p), &c, now_ms, err);
    if (rc != PAWL_OK)
        return rc;
    rc = look_read_nodes(c, memory, after, out, err);
    readers_end(engine_readers(p), c);
    return rc;
}

static pawl_code tell_nodes(pawl *p, arena *memory, pawl_node_fn *fn, void *arg, error *err)
{
    look_nodes nodes = {.count = LOOK_NODES};
    int64_t after = INT64_MIN;
    while (nodes.count == LOOK_NODES) {
        int64_t now_ms;
        arena_reset(memory);
        pawl_code rc = read_nodes(p, memory, after, &nodes, &now_ms, err);
        if (rc != PAWL_OK)
            return rc;
        for (size_t i = 0; i < nodes.count; i++) {
            const look_node *n = &nodes.at[i];
            if (look_is_alive(p, n, now_ms) && fn(arg, n->node, n->name, n->build, n->since_ms))
                return PAWL_OK;
            after = n->node;
        }
    }
    return PAWL_OK;
}

static pawl_code list_nodes(pawl *p, pawl_node_fn *fn, void *arg, error *err)
{
    arena *memory = arena_new(0);
    pawl_code rc = memory ? tell_nodes(p, memory, fn, arg, err) : no_memory(err);
    arena_free(memory);
    return rc;
}

pawl_code pawl_nodes(pawl *p, pawl_node_fn *fn, void *arg)
{
    error err = {0};
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK)
        rc = fn ? list_nodes(p, fn, arg, &err) : look_no_function(&err);
    return engine_leave(p, rc, &err);
}
