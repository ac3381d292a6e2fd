/* A page is read with one statement. Where that fails, its keys are read, and each row by a
 * statement of its own. */
#include "sched/due_page.h"

#include "sched/sched_internal.h"

/* A run that is held because its record was refused is held as long as its owner lives, which has
 * the result in its memory. When the owner is closed, the run is due as any other. */
#define IS_DUE                                                                                     \
    " FROM {runs} r WHERE r.owner = $1 AND r.wake_at <= $2"                                        \
    " AND r.tenant = $3 AND (r.held = 0 OR (r.held = {HELD_RECORD} AND r.owner <> 0))"

static const db_sql DUE = {"SELECT " CLAIM_COLUMNS IS_DUE " AND (r.wake_at, r.run) > ($4, $5)"
                           " ORDER BY r.wake_at, r.run LIMIT $6",
                           "iitiii"};
static const db_sql ONE_DUE = {"SELECT " CLAIM_COLUMNS IS_DUE " AND r.run = $4", "iiti"};

/* Adds the run of this row to the list, unless it is not to be claimed now. */
static void take_row(sched *s, due_page *list, db_stmt *row)
{
    /* RULE L2-the-simulator-sees-what-is-due-and-not-claimed */
    int waits = claim_waits(s, list->last_run);
    claim *c = waits ? NULL : claim_read(s, row);
    list->backs_off |= waits == CLAIM_BACKS_OFF;
    list->starves |= !waits && !c;
    if (c && !claim_is_meant(s, c))
        claim_free(c);
    else if (c)
        list->at[list->count++] = c;
}

static pawl_code read_rows(sched *s, int64_t owner, due_page *list, error *err)
{
    db_stmt *stmt;
    const db_value values[] = {
        db_int(owner),         db_int(sched_now_ms(s)), db_text(slice_of(s->options.tenant)),
        db_int(list->last_ms), db_int(list->last_run),  db_int(ROW_READS_PAGE)};
    pawl_code rc = db_prepare(s->looks, &DUE, &stmt, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(stmt, values, DB_COUNT(values), err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && (step = db_next(stmt, err)) == DB_ROW) {
        list->rows++;
        list->last_run = db_column(stmt, 0).i;
        list->last_ms = db_column(stmt, 7).i;
        take_row(s, list, stmt);
    }
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(stmt);
    return rc;
}

typedef struct due_reading {
    sched *sched;
    due_page *list;
} due_reading;

static void take_one(void *arg, db_stmt *row)
{
    const due_reading *g = arg;
    take_row(g->sched, g->list, row);
}

/* Reads the rest of the page row by row, since the statement for the whole page has failed. */
static pawl_code read_each(sched *s, int64_t owner, due_page *list, error *err)
{
    due_reading g = {s, list};
    due_keys page = {.last_ms = list->last_ms, .last_run = list->last_run};
    unread_rows unread = {.read = list->rows};
    int64_t now_ms = sched_now_ms(s);
    pawl_code rc = row_reads_due(s, owner, now_ms, ROW_READS_PAGE - list->rows, &page, err);
    for (size_t i = 0; rc == PAWL_OK && i < page.count; i++) {
        const db_value values[] = {db_int(owner), db_int(now_ms),
                                   db_text(slice_of(s->options.tenant)), db_int(page.at[i])};
        list->last_run = page.at[i];
        if (claim_waits(s, page.at[i]) == CLAIM_BACKS_OFF) {
            list->backs_off = 1;
            continue;
        }
        rc = row_reads_one(s, &ONE_DUE, values, DB_COUNT(values), take_one, &g, err);
        unread.read += rc == PAWL_OK;
        if (rc != PAWL_OK && row_reads_add(&unread, page.at[i], err))
            rc = PAWL_OK;
    }
    list->rows += page.count;
    list->last_ms = page.last_ms;
    list->last_run = page.last_run;
    list->backs_off |= unread.count > 0;
    return rc == PAWL_OK ? row_reads_note(s, NULL, &unread, FAILURE_CLAIM, err) : rc;
}

pawl_code due_page_read(sched *s, int64_t owner, due_page *list, error *err)
{
    error ignored = {0};
    pawl_code rc = read_rows(s, owner, list, err);
    /* RULE L4-a-run-that-cannot-be-read-stops-no-other-claim */
    if (rc == PAWL_OK || !row_reads_may_be_of_row(rc))
        return rc;
    db_rollback(s->looks);
    rc = read_each(s, owner, list, err);
    (void)db_begin(s->looks, &ignored);
    return rc;
}
