/* Judging: what the database says when all is over.
 *
 * It is read by SQLite alone, so that an engine that sees things as it likes cannot hide it. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fleet.h"

enum { ROWS_MAX = 256 };

static const char *text_of(sqlite3_stmt *s, int column)
{
    return (const char *)sqlite3_column_text(s, column);
}

/* ---- What is there ---- */

static char *copy(sqlite3_stmt *s, int column)
{
    const char *text = text_of(s, column);
    return text ? strdup(text) : NULL;
}

static size_t read_rows(fleet *f, int64_t key, program_row rows[ROWS_MAX])
{
    sqlite3_stmt *s = f->journal;
    size_t count = 0;
    sqlite3_bind_int64(s, 1, key);
    while (count < ROWS_MAX && sqlite3_step(s) == SQLITE_ROW)
        rows[count++] = (program_row){.seq = sqlite3_column_int64(s, 0),
                                      .kind = sqlite3_column_int64(s, 1),
                                      .op = sqlite3_column_int64(s, 2),
                                      .at_ms = sqlite3_column_int64(s, 3),
                                      .name = copy(s, 4),
                                      .data = copy(s, 5)};
    sqlite3_reset(s);
    return count;
}

static void free_rows(program_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((void *)(uintptr_t)rows[i].name);
        free((void *)(uintptr_t)rows[i].data);
    }
}

/* ---- Is it right? ---- */

static int is_told(const program_told *told, const fleet_note *note)
{
    for (size_t i = 0; i < told->count; i++)
        if (told->at[i].op == note->op && told->at[i].number == note->attempt)
            return 1;
    return 0;
}

/* What was executed is what the journal tells of. */
static void compare_notes(fleet *f, int number, const program_told *told)
{
    size_t found = 0;
    for (int i = 0; i < f->note_count; i++) {
        const fleet_note *n = &f->notes[i];
        if (n->run != number)
            continue;
        if (is_told(told, n))
            found++;
        else
            fleet_wrong(f, "%s: op %" PRId64 " attempt %" PRId64 " was executed for nothing",
                        f->all[number].id, n->op, n->attempt);
    }
    if (found != told->count)
        fleet_wrong(f, "%s: %zu attempts are told of, %zu were executed", f->all[number].id,
                    told->count, found);
}

static const char *read_attribute(fleet *f, int64_t key)
{
    sqlite3_bind_int64(f->attribute, 1, key);
    return sqlite3_step(f->attribute) == SQLITE_ROW ? text_of(f->attribute, 0) : NULL;
}

/* Into the trace with it: two worlds of one seed must come to the very same rows. */
static void tell_rows(fleet *f, const fleet_run *run, const program_row *rows, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const program_row *r = &rows[i];
        const char *data = r->data ? r->data : "";
        uint64_t sum = 0;
        for (const char *c = data; *c; c++)
            sum = chance_mix(sum ^ (unsigned char)*c);
        fleet_tell(f, "%s has %" PRId64 ": %" PRId64 " %s of %" PRId64 " at %" PRId64 " %.40s %x",
                   run->id, r->seq, r->kind, r->name, r->op, r->at_ms, data, (unsigned)sum);
        f->tally->at[TALLY_TIMERS] += r->kind == PROGRAM_ROW_FIRED;
    }
}

/* Nothing of it may be recorded before it was to begin. */
static void judge_delay(fleet *f, const fleet_run *run, const watch_row *r, const program_row *rows,
                        size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (rows[i].seq > 1 && rows[i].at_ms < r->created_ms + run->delay_ms)
            fleet_wrong(f, "%s has begun before its time", run->id);
}

static void judge_run(fleet *f, int number)
{
    const fleet_run *run = &f->all[number];
    program_row rows[ROWS_MAX];
    program_told told;
    char why[512];
    watch_row r = watch_read(f, run);
    if (r.owner != 0)
        fleet_wrong(f, "%s has ended and still belongs to %" PRId64, run->id, r.owner);
    if (r.wakes)
        fleet_wrong(f, "%s has ended and is still to wake", run->id);
    size_t count = read_rows(f, r.key, rows);
    program_end end = {.failed = r.phase == 2,
                       .output = r.output,
                       .error = r.error,
                       .status = r.status,
                       .statuses = r.status_seq,
                       .attribute = read_attribute(f, r.key),
                       .count = count,
                       .rows = rows};
    tell_rows(f, run, rows, count);
    if ((!f->odds.jump || f->odds.server) && !run->mailed)
        judge_delay(f, run, &r, rows, count);
    if (r.phase != 1 && r.phase != 2)
        fleet_wrong(f, "%s has ended with phase %" PRId64, run->id, r.phase);
    if (program_check(&run->program, &end, &told, why))
        fleet_wrong(f, "%s: %s", run->id, why);
    else
        compare_notes(f, number, &told);
    sqlite3_reset(f->runs);
    sqlite3_reset(f->attribute);
    free_rows(rows, count);
}

void judge_end(fleet *f)
{
    for (int i = 0; i < f->odds.runs; i++)
        if (!f->all[i].is_dialog)
            judge_run(f, i);
    if (f->odds.dialog)
        dialogs_judge(f);
}
