/* Reading journals ahead. A journal counts as read only if it has as many rows as the row of its
 * run has told of (run->journal.durable), one behind the other. Otherwise it is read page by page
 * when it is replayed, and that decides what is wrong with it. */
#include "sched/journal_rows.h"

#include <assert.h>
#include <string.h>

enum {
    ROWS_MAX = 16,   /* a journal with more rows is not read ahead … */
    VALUE_MAX = 1024 /* … nor one with a value of more bytes */
};

static const db_sql SHORT_JOURNALS = {
    "SELECT seq, kind, op, name, at, CASE WHEN length(data) <= $19 THEN data END,"
    " CASE WHEN length(data) > $19 THEN 1 ELSE 0 END, run"
    " FROM {journal} WHERE generation = $17 AND seq > 1 AND seq <= $18"
    " AND run IN ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)",
    "iiiiiiiiiiiiiiiiiii"};
enum { COLUMN_IS_LARGE = 6, COLUMN_RUN };

int journal_row_read(arena *a, db_stmt *row, int64_t generation, replay_row *out)
{
    db_value name = db_column(row, 3), data = db_column(row, 5);
    *out = (replay_row){.seq = db_column(row, 0).i,
                        .generation = generation,
                        .kind = db_column(row, 1).i,
                        .op = db_column(row, 2).i,
                        .at_ms = db_column(row, 4).i};
    out->name = (slice){arena_copy(a, name.s), name.s.size};
    if (data.type != DB_NULL)
        out->data = (slice){arena_copy(a, data.s), data.s.size};
    return out->name.at && (data.type == DB_NULL || out->data.at);
}

/* The rows of one run, while they are being read. */
typedef struct short_journal {
    pawl_run *run; /* NULL: its journal is not read ahead */
    size_t count;  /* number of rows that were read */
} short_journal;

/* The first row, which has the input, is in the row of the run. */
static size_t row_count(const pawl_run *run)
{
    return run->journal.durable > 1 ? (size_t)run->journal.durable - 1 : 0;
}

static int is_short(const pawl_run *run)
{
    return run->input && run->journal.durable <= ROWS_MAX && !run->journal.page;
}

/* 0: memory is out. */
static int make_room(pawl_run *run)
{
    run->journal.page = arena_new(0);
    run->journal.ahead =
        run->journal.page
            ? arena_alloc(run->journal.page, row_count(run) * sizeof *run->journal.ahead)
            : NULL;
    return run->journal.ahead != NULL;
}

static void drop_journal(short_journal *j)
{
    arena_free(j->run->journal.page);
    j->run->journal.page = NULL;
    j->run->journal.ahead = NULL;
    j->run = NULL;
}

/* Chooses the runs whose journals are to be read: all of the same generation, for one statement.
 * Runs without rows are done with at once. Gives the number of the others. */
static int choose_journals(pawl_run *const runs[], size_t count, short_journal *list,
                           int64_t *generation)
{
    int chosen = 0;
    for (size_t i = 0; i < count; i++) {
        pawl_run *run = runs[i];
        if (!run || !is_short(run))
            continue;
        if (row_count(run) == 0) {
            run->journal.is_ahead = 1;
            continue;
        }
        if (chosen == 0)
            *generation = run->generation;
        if (run->generation != *generation || !make_room(run))
            continue;
        list[i].run = run;
        chosen++;
    }
    return chosen;
}

/* Adds the row to the journal of its run, if it is the next one there. */
static void add_row(short_journal *list, size_t count, db_stmt *row, int64_t generation)
{
    for (size_t i = 0; i < count; i++) {
        short_journal *j = &list[i];
        if (!j->run || j->run->lease.run != db_column(row, COLUMN_RUN).i)
            continue;
        size_t at = (size_t)db_column(row, 0).i - 2;
        int fits = at < row_count(j->run) && !db_column(row, COLUMN_IS_LARGE).i;
        if (!fits ||
            !journal_row_read(j->run->journal.page, row, generation, &j->run->journal.ahead[at]))
            drop_journal(j);
        else
            j->count++;
        return;
    }
}

/* What was read counts, unless a row is missing. */
static void end_journals(short_journal *list, size_t count, pawl_code rc)
{
    for (size_t i = 0; i < count; i++) {
        if (!list[i].run)
            continue;
        /* RULE L8-a-journal-that-was-read-ahead-has-all-its-rows */
        if (rc == PAWL_OK && list[i].count == row_count(list[i].run))
            list[i].run->journal.is_ahead = 1;
        else
            drop_journal(&list[i]);
    }
}

pawl_code journal_read_ahead(db_conn *c, pawl_run *const runs[], size_t count, error *err)
{
    db_stmt *s;
    short_journal list[JOURNAL_AHEAD_RUNS] = {{NULL, 0}};
    db_value values[JOURNAL_AHEAD_RUNS + 3];
    int64_t generation = 0;
    assert(count <= JOURNAL_AHEAD_RUNS);
    if (choose_journals(runs, count, list, &generation) == 0)
        return PAWL_OK;
    for (size_t i = 0; i < JOURNAL_AHEAD_RUNS; i++)
        values[i] = db_int(list[i].run ? list[i].run->lease.run : 0); /* no run has the key 0 */
    values[JOURNAL_AHEAD_RUNS] = db_int(generation);
    values[JOURNAL_AHEAD_RUNS + 1] = db_int(ROWS_MAX);
    values[JOURNAL_AHEAD_RUNS + 2] = db_int(VALUE_MAX);
    pawl_code rc = db_prepare(c, &SHORT_JOURNALS, &s, err);
    if (rc == PAWL_OK) {
        db_step step = DB_DONE;
        rc = db_bind_all(s, values, DB_COUNT(values), err);
        while (rc == PAWL_OK && (step = db_next(s, err)) == DB_ROW)
            add_row(list, count, s, generation);
        if (step == DB_FAILED)
            rc = err->code;
        db_reset(s);
    }
    end_journals(list, count, rc);
    return rc;
}
