/* Rows of dormant runs: several with one statement. Where that fails, those that were not read yet
 * are read one by one. */
#include "sched/dormant_read.h"

#include "sched/claim.h"
#include "sched/journal_rows.h"
#include "sched/row_reads.h"
#include "sched/sched_internal.h"

enum { AT_ONCE = JOURNAL_AHEAD_RUNS };

#define ROW CLAIM_COLUMNS ", r.fence, r.mail FROM {runs} r WHERE r.owner = $1 AND r.run "
#define LIVE " AND r.phase IN ({LIVE}, {FAILING})"

static const db_sql ONE_ROW = {"SELECT " ROW "= $2" LIVE, "ii"};
static const db_sql ROWS = {"SELECT " ROW "IN ($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13,"
                            " $14, $15, $16, $17)" LIVE,
                            "iiiiiiiiiiiiiiiii"};
enum { ROW_FENCE = CLAIM_COLUMN_COUNT, ROW_MAIL };

/* Makes the run from its row. *out NULL: this node does not own the run any more. 0: memory is
 * out. */
static int make_run(sched *s, db_stmt *row, pawl_run **out)
{
    claim *c = claim_read(s, row);
    pawl_run *run = NULL;
    *out = NULL;
    if (c && claim_is_for_us(c)) {
        c->facts.lease.owner = c->found.owner;
        c->facts.lease.fence = db_column(row, ROW_FENCE).i;
        c->facts.generation = c->found.generation;
        c->facts.mail = db_column(row, ROW_MAIL).i;
        *out = run = claim_make_run(c);
    }
    int made = c && (run || !claim_is_for_us(c));
    if (run) {
        run->slot->noted = c->noted;
        /* RULE A2-a-dormant-run-is-given-back-when-it-is-held */
        atomic_store(&run->hold_requested, c->found.held != 0);
        run->slot->claims = 1;
        run->slot->claimed_seq = c->found.seq;
    }
    if (c)
        claim_free(c);
    return made;
}

/* Reads the runs with these keys, and puts each into `runs` at the index of its key in `list`. */
static pawl_code read_some(sched *s, db_conn *c, const int64_t *list, size_t count,
                           pawl_run *runs[], error *err)
{
    db_stmt *stmt;
    db_value values[1 + AT_ONCE] = {db_int(s->node.id)};
    int room = count == 1 ? 1 : AT_ONCE;
    for (int i = 0; i < room; i++)
        values[1 + i] = db_int((size_t)i < count ? list[i] : 0); /* no run has the key 0 */
    pawl_code rc = db_prepare(c, count == 1 ? &ONE_ROW : &ROWS, &stmt, err);
    if (rc != PAWL_OK)
        return rc;
    db_step step = DB_DONE;
    rc = db_bind_all(stmt, values, 1 + room, err);
    while (rc == PAWL_OK && (step = db_next(stmt, err)) == DB_ROW) {
        int64_t key = db_column(stmt, 0).i;
        for (size_t i = 0; i < count && rc == PAWL_OK; i++)
            if (list[i] == key && !runs[i] && !make_run(s, stmt, &runs[i]))
                rc = error_nomem(err);
    }
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(stmt);
    return rc;
}

/* Reads those of the runs that were not read yet, each in a transaction of its own. */
static pawl_code read_each(sched *s, const runner *r, const int64_t *list, size_t count,
                           pawl_run *runs[], unread_rows *unread, error *err)
{
    for (size_t i = 0; i < count; i++) {
        db_conn *c;
        if (runs[i]) {
            unread->read++;
            continue;
        }
        pawl_code rc = row_reads_begin(s, r, &c, err);
        if (rc != PAWL_OK)
            return rc;
        rc = read_some(s, c, list + i, 1, runs + i, err);
        row_reads_end(s, r, c);
        unread->read += rc == PAWL_OK;
        if (rc != PAWL_OK && !row_reads_add(unread, list[i], err))
            return rc;
    }
    return PAWL_OK;
}

/* The runs that could not be read before, and can be now, or are not this node's any more. */
static void end_failures(sched *s, const int64_t *list, size_t count, const unread_rows *unread)
{
    if (atomic_load(&s->failures.count) == 0)
        return;
    for (size_t i = 0; i < count; i++) {
        size_t at = 0;
        while (at < unread->count && unread->at[at] != list[i])
            at++;
        if (at == unread->count)
            run_failure_end(s, list[i], 1);
    }
}

/* What is read of some runs, on a connection that stays in its transaction until a statement
 * fails. */
typedef struct reading {
    sched *sched;
    const runner *runner;
    db_conn *conn; /* NULL: no transaction is open */
    unread_rows unread;
} reading;

static void end_reading(reading *g)
{
    if (g->conn)
        row_reads_end(g->sched, g->runner, g->conn);
    g->conn = NULL;
}

/* If that fails, the replay of each run reads its journal itself, and tells what is wrong. */
static void read_ahead(reading *g, pawl_run *runs[], size_t count)
{
    error err;
    if (journal_read_ahead(g->conn, runs, count, &err) != PAWL_OK)
        end_reading(g); /* RULE L4-a-journal-that-cannot-be-read-ahead-stops-no-other */
}

static pawl_code read_part(reading *g, const int64_t *list, size_t count, pawl_run *runs[],
                           error *err)
{
    pawl_code rc = g->conn ? PAWL_OK : row_reads_begin(g->sched, g->runner, &g->conn, err);
    if (rc != PAWL_OK) {
        g->conn = NULL;
        return rc;
    }
    rc = read_some(g->sched, g->conn, list, count, runs, err);
    if (rc == PAWL_OK) {
        g->unread.read += count;
        read_ahead(g, runs, count);
        return rc;
    }
    end_reading(g);
    /* RULE L4-a-dormant-run-that-cannot-be-read-stops-no-other */
    if (row_reads_may_be_of_row(rc))
        rc = read_each(g->sched, g->runner, list, count, runs, &g->unread, err);
    return rc;
}

pawl_code dormant_read(sched *s, const runner *r, const int64_t *list, size_t count, pawl_run **out,
                       error *err)
{
    pawl_run **last = out;
    reading g = {.sched = s, .runner = r};
    pawl_code rc = PAWL_OK;
    *out = NULL;
    for (size_t at = 0; rc == PAWL_OK && at < count; at += AT_ONCE) {
        pawl_run *runs[AT_ONCE] = {NULL};
        size_t some = count - at < AT_ONCE ? count - at : AT_ONCE;
        rc = read_part(&g, list + at, some, runs, err);
        for (size_t i = 0; i < some; i++) {
            if (!runs[i])
                continue;
            *last = runs[i];
            last = &runs[i]->slot->next;
        }
        if (rc == PAWL_OK)
            end_failures(s, list + at, some, &g.unread);
    }
    end_reading(&g);
    return rc == PAWL_OK ? row_reads_note(s, r, &g.unread, FAILURE_BACK, err) : rc;
}
