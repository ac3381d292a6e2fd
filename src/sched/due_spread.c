/* A page is chosen only where there is a choice: the look before has seen a full page, so that the
 * list is longer than one, and another node is open. A node alone claims the oldest runs first.
 *
 * The list may have fewer than DUE_SPREAD_PAGES pages. How many it has is not counted, since that
 * would read all of them: if the chosen page does not exist, the next look chooses among half as
 * many pages, and if it does, among twice as many. */
#include "sched/due_spread.h"

#include "sched/row_reads.h"
#include "sched/sched_internal.h"

static const db_sql OTHER_NODE = {
    "SELECT node FROM {nodes} WHERE closed = 0 AND node <> $1 LIMIT 1", "i"};

/* Finds the last run of the page before the chosen one: $2 is its index in the list of due runs,
 * which is in the order in which due_page.c reads them. */
static const db_sql POSITION = {"SELECT r.wake_at, r.run FROM {runs} r WHERE r.owner = 0"
                                " AND r.wake_at <= $1 ORDER BY r.wake_at, r.run LIMIT 1 OFFSET $2",
                                "ii"};

/* Sets the position behind `pages` pages. Returns 1 if there is such a page. After an error it
 * returns 0: the page that is read next meets the same error, and that is reported. */
static int read_position(sched *s, int pages, int64_t *last_ms, int64_t *last_run)
{
    db_stmt *stmt;
    error err = {0};
    const db_value values[] = {db_int(sched_now_ms(s)),
                               db_int((int64_t)pages * ROW_READS_PAGE - 1)};
    if (db_prepare(s->looks, &POSITION, &stmt, &err) != PAWL_OK)
        return 0;
    int found = db_bind_all(stmt, values, DB_COUNT(values), &err) == PAWL_OK &&
                db_next(stmt, &err) == DB_ROW;
    if (found) {
        *last_ms = db_column(stmt, 0).i;
        *last_run = db_column(stmt, 1).i;
    }
    db_reset(stmt);
    return found;
}

static int other_node_is_open(sched *s)
{
    error err = {0};
    int64_t id;
    int found = 0;
    const db_value own = db_int(s->node.id);
    return db_number(s->looks, &OTHER_NODE, &own, 1, &id, &found, &err) == PAWL_OK && found;
}

static int choose_page(sched *s)
{
    if (s->due_spread.pages < 2)
        return 0;
    /* RULE B4-the-run-that-is-due-longest-is-not-passed-over */
    if (s->due_spread.left_out >= DUE_SPREAD_PAGES - 1)
        return 0;
    /* RULE L2-nodes-claim-different-pages */
    return (int)(host_chance(&s->run_host) % (uint64_t)s->due_spread.pages);
}

int due_spread_begin(sched *s, int64_t *last_ms, int64_t *last_run)
{
    error err = {0};
    due_spread *d = &s->due_spread;
    /* RULE L2-finish-reads-the-list-from-its-beginning */
    int page = s->only ? 0 : choose_page(s); /* pawl_finish() claims few runs of the list */
    if (page == 0 || db_begin(s->looks, &err) != PAWL_OK)
        return 0;
    int found = 0;
    if (!other_node_is_open(s)) { /* RULE B4-a-node-alone-claims-the-oldest-runs-first */
        d->pages = 0;
    } else {
        found = read_position(s, page, last_ms, last_run);
        /* RULE B4-a-page-beyond-the-list-is-not-chosen-for-long */
        d->pages = found ? d->pages * 2 : d->pages / 2;
        if (d->pages > DUE_SPREAD_PAGES)
            d->pages = DUE_SPREAD_PAGES;
    }
    db_rollback(s->looks);
    return found;
}

void due_spread_end(sched *s, size_t rows, int left_out)
{
    due_spread *d = &s->due_spread;
    d->left_out = left_out ? d->left_out + 1 : 0;
    if (left_out)
        return;
    if (rows < ROW_READS_PAGE)
        d->pages = 0;
    else if (d->pages == 0)
        d->pages = DUE_SPREAD_PAGES;
}
