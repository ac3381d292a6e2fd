/* The walk over the tables of runs; see orphan_rows.h. It finds rows whose run is gone, and, in the
 * table of runs itself, children whose parent is gone. The keys are read on the node loop's own
 * connection, in a transaction of their own. What is left of a key is deleted by one unit or, if
 * that is much, by several. */
#include "api/orphan_rows.h"

#include "api/delete.h"
#include "handle/read_pool.h"
#include "sched/orphan_notes.h"
#include "sched/sched.h"

enum { PAGE = 32, PAGES_MAX = 8 };
static const int64_t PAGES_MS = 1000;
static const int64_t REST_MS = 600000;

static const db_sql IS_THERE = {"SELECT count(*) FROM {runs} WHERE run = $1", "i"};

/* The keys of a table that are above the first parameter, in order. Each step is one search in an
 * index that begins with the key. The second column tells whether the run exists. */
#define KEYS(table, key)                                                                           \
    {                                                                                              \
        "WITH RECURSIVE keys (run, n) AS ("                                                        \
        " SELECT (SELECT min(t." key ") FROM {" table "} t WHERE t." key " > $1), 1"               \
        " UNION ALL SELECT (SELECT min(t." key ") FROM {" table "} t WHERE t." key " > k.run),"    \
        " k.n + 1 FROM keys k WHERE k.run IS NOT NULL AND k.n < $2)"                               \
        " SELECT k.run, (SELECT count(*) FROM {runs} r WHERE r.run = k.run) FROM keys k"           \
        " WHERE k.run IS NOT NULL ORDER BY k.run",                                                 \
            "ii"                                                                                   \
    }

/* RULE children-without-a-parent-are-swept-up */
static const db_sql TABLES[] = {
    KEYS("runs", "parent"), /* children whose parent is gone */
    KEYS("journal", "run"),  KEYS("generations", "run"), KEYS("inbox", "run"),
    KEYS("receipts", "run"), KEYS("attributes", "run"),  KEYS("state", "run"),
    KEYS("tasks", "run"),
};
enum { TABLE_COUNT = sizeof TABLES / sizeof *TABLES };

/* A page of keys, and those of them whose run is gone. */
typedef struct page {
    int64_t last;
    int seen;
    int64_t gone[PAGE];
    int gone_count;
} page;

static pawl_code note_key(void *arg, db_stmt *row, error *err)
{
    page *p = arg;
    (void)err;
    p->last = read_pool_int(row, 0);
    if (p->seen++ < PAGE && read_pool_int(row, 1) == 0)
        p->gone[p->gone_count++] = p->last;
    return PAWL_OK;
}

static pawl_code read_page(orphan_rows *l, page *p, error *err)
{
    const db_value values[] = {db_int(l->after), db_int(PAGE)};
    pawl_code rc = db_begin(l->conn, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_pool_rows(l->conn, &TABLES[l->table], values, DB_COUNT(values), note_key, p, err);
    db_rollback(l->conn);
    return rc;
}

/* Deletes the rows without a run of one key. Rows that cannot be deleted are told in the log once.
 * The walk does not go on behind their key, and so finds them again. */
static pawl_code delete_of(orphan_rows *l, int64_t run, int *more)
{
    error err = {0};
    pawl_code rc = delete_leftovers(l->sched, l->conn, run, more, &err);
    if (rc == PAWL_OK && !*more)
        LOG(sched_log(l->sched), LOG_INFO, "leftovers-deleted", LOG_NUM("key", run));
    else if (rc != PAWL_OK && l->stays != run) /* RULE L6-leftovers-that-stay-are-told-once */
        LOG(sched_log(l->sched), LOG_WARNING, "leftovers-stay", LOG_NUM("key", run),
            LOG_TEXT("code", pawl_code_name(rc)), LOG_TEXT("why", err.message));
    if (rc != PAWL_OK)
        l->stays = run;
    return rc;
}

/* Returns 1 if the rows were not deleted because another transaction keeps one of them locked. */
static int is_locked(const orphan_rows *l, pawl_code rc)
{
    return rc == PAWL_BUSY && !(sched_options_of(l->sched)->db->driver->promises & DB_TURNS);
}

/* Deletes the rows without a run of one page. A page that failed, or that needs more units, is read
 * again in the next round. A key of which another transaction keeps a row locked is passed over by
 * that round, and found by the next walk. Gives 1 if the walk can go on with another page. */
static int walk_page(orphan_rows *l)
{
    page p = {0};
    error err = {0};
    int more = 0;
    pawl_code rc = read_page(l, &p, &err);
    for (int i = 0; rc == PAWL_OK && !more && i < p.gone_count; i++) {
        rc = delete_of(l, p.gone[i], &more);
        if (is_locked(l, rc)) /* RULE L4-leftovers-behind-locked-ones-are-deleted */
            l->after = p.gone[i];
    }
    if (rc != PAWL_OK || more)
        return 0;
    l->after = p.last;
    if (p.seen == PAGE)
        return 1;
    l->after = 0;
    l->table = (l->table + 1) % TABLE_COUNT;
    if (l->table == 0)
        l->page_ns = clock_deadline(sched_mono_ns(l->sched), REST_MS);
    return l->table != 0;
}

static void walk(orphan_rows *l)
{
    for (int i = 0; i < PAGES_MAX && walk_page(l); i++)
        continue;
}

/* ---- Runs that were refused to their owner ---- */

/* Most runs whose unit was refused still exist: they have another owner, or have ended. */
static int is_there(orphan_rows *l, int64_t run)
{
    error err = {0};
    int64_t count = 1;
    int found;
    const db_value key = db_int(run);
    if (db_begin(l->conn, &err) != PAWL_OK)
        return 1;
    if (db_number(l->conn, &IS_THERE, &key, 1, &count, &found, &err) != PAWL_OK)
        count = 1;
    db_rollback(l->conn);
    return count > 0;
}

/* Begins the walk at the first table when the engine has become another node: runs that were in its
 * memory were dropped at the stop before, and may have been deleted by other processes since. */
static void begin_anew(orphan_rows *l)
{
    int64_t node = sched_node_id(l->sched);
    if (l->node == node)
        return;
    l->node = node;
    l->page_ns = l->after = 0;
    l->table = 0;
}

int64_t orphan_rows_look(chore *c, db_conn *conn, int64_t now_ns)
{
    orphan_rows *l = c->arg;
    int64_t run;
    int more = 0;
    l->conn = conn;
    pawl_code rc = PAWL_OK;
    while (!more && rc != PAWL_BUSY && (run = orphan_notes_take(l->sched)) != 0)
        if (!is_there(l, run))
            rc = delete_of(l, run, &more);
    if (more)
        orphan_notes_add(l->sched, run);
    begin_anew(l);       /* RULE what-a-stop-has-dropped-is-swept-up */
    if (l->page_ns == 0) /* a new node claims its runs first */
        l->page_ns = clock_deadline(now_ns, PAGES_MS);
    if (sched_is_restricted(l->sched) || now_ns < l->page_ns)
        return 0;
    l->page_ns = clock_deadline(now_ns, PAGES_MS);
    walk(l); /* RULE what-has-no-run-is-swept-up */
    return 0;
}
