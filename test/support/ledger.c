/* The journal is read once, in the order of runs; the ledger is sorted by mark and searched. The
 * order in which answers came is kept, since it is part of what is checked. */
#include "support/ledger.h"

#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scratch.h"

void ledger_add(ledger *l, const ledger_entry *e)
{
    if (l->count == l->room) {
        l->room = l->room ? l->room * 2 : 1024;
        l->entries = realloc(l->entries, l->room * sizeof *l->entries);
        if (!l->entries)
            scratch_die("memory for a ledger");
    }
    l->entries[l->count++] = *e;
}

void ledger_free(ledger *l)
{
    free(l->entries);
    *l = (ledger){0};
}

int64_t ledger_count(const ledger *l, unit_answer answer)
{
    int64_t n = 0;
    for (size_t i = 0; i < l->count; i++)
        n += l->entries[i].answer == (int64_t)answer;
    return n;
}

/* ---- Faults ---- */

static void count_fault(ledger_verdict *v, int64_t *kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void count_fault(ledger_verdict *v, int64_t *kind, const char *format, ...)
{
    ++*kind;
    if (v->first[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(v->first, sizeof v->first, format, args);
    va_end(args);
}

/* ---- The ledger, sorted by mark ---- */

/* What became of one unit, as the ledger says. */
typedef struct fate {
    const ledger_entry *entry; /* its final answer; if there is none, the last one */
    size_t place;
    int is_final;
    int seen;
} fate;

static int by_mark(const void *a, const void *b)
{
    const fate *x = a;
    const fate *y = b;
    if (x->entry->mark != y->entry->mark)
        return x->entry->mark < y->entry->mark ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static int compare_mark(const void *key, const void *element)
{
    int64_t mark = *(const int64_t *)key;
    const fate *f = element;
    return mark < f->entry->mark ? -1 : mark > f->entry->mark;
}

/* Makes one fate of all entries with the same mark. Other answers than an UNDECIDED and then a
 * final one count as faults. */
static fate *sort_fates(const ledger *l, size_t *count, ledger_verdict *v)
{
    fate *all = calloc(l->count + 1, sizeof *all);
    if (!all)
        scratch_die("memory for a ledger");
    for (size_t i = 0; i < l->count; i++)
        all[i] = (fate){&l->entries[i], i, l->entries[i].answer != UNIT_UNDECIDED, 0};
    qsort(all, l->count, sizeof *all, by_mark);
    size_t n = 0;
    for (size_t i = 0; i < l->count; i++) {
        const ledger_entry *e = all[i].entry;
        if (n == 0 || all[n - 1].entry->mark != e->mark) {
            all[n++] = all[i];
            continue;
        }
        if (all[n - 1].is_final || !all[i].is_final)
            count_fault(v, &v->twice, "run %lld seq %lld: answer %lld after answer %lld",
                        (long long)e->run, (long long)e->seq, (long long)e->answer,
                        (long long)all[n - 1].entry->answer);
        all[n - 1] = all[i];
    }
    *count = n;
    return all;
}

/* ---- Comparing ---- */

struct ledger_reading {
    fate *fates;
    size_t count;
    ledger_verdict *v;
    int64_t run; /* the run that is being read */
    int64_t seq; /* its last */
};

int64_t ledger_unsettled(const ledger *l)
{
    ledger_verdict ignored = {0};
    size_t count;
    int64_t open = 0;
    fate *all = sort_fates(l, &count, &ignored);
    for (size_t i = 0; i < count; i++)
        open += !all[i].is_final;
    free(all);
    return open;
}

ledger_reading *ledger_read(const ledger *l, ledger_verdict *out)
{
    ledger_reading *r = calloc(1, sizeof *r);
    if (!r)
        scratch_die("memory for a ledger");
    *out = (ledger_verdict){0};
    r->v = out;
    r->fates = sort_fates(l, &r->count, out);
    return r;
}

void ledger_read_row(ledger_reading *r, int64_t run, int64_t seq, int64_t mark)
{
    r->v->rows++;
    if (run != r->run)
        r->seq = 0;
    if (seq != r->seq + 1)
        count_fault(r->v, &r->v->holes, "run %lld: seq %lld after %lld", (long long)run,
                    (long long)seq, (long long)r->seq);
    r->run = run;
    r->seq = seq;
    fate *f = bsearch(&mark, r->fates, r->count, sizeof *r->fates, compare_mark);
    if (!f)
        return;
    f->seen = f->entry->run == run && f->entry->seq == seq;
    int refused = f->entry->answer == UNIT_REFUSED || f->entry->answer == UNIT_FAILED;
    if (refused && f->entry->code != PAWL_UNDECIDED)
        count_fault(r->v, &r->v->ghosts, "run %lld seq %lld is there and was answered %s",
                    (long long)run, (long long)seq, pawl_code_name((pawl_code)f->entry->code));
}

void ledger_read_run(ledger_reading *r, int64_t run, int64_t claimed, int64_t rows)
{
    if (claimed != rows)
        count_fault(r->v, &r->v->torn, "run %lld: its guard says %lld, its journal has %lld rows",
                    (long long)run, (long long)claimed, (long long)rows);
}

void ledger_read_broken(ledger_reading *r, const char *what, const char *why)
{
    count_fault(r->v, &r->v->broken, "%s: %s", what, why);
}

int64_t ledger_read_end(ledger_reading *r)
{
    ledger_verdict *v = r->v;
    for (size_t i = 0; i < r->count; i++)
        if (r->fates[i].entry->answer == UNIT_COMMITTED && !r->fates[i].seen)
            count_fault(v, &v->lost, "run %lld seq %lld was acknowledged and is not there",
                        (long long)r->fates[i].entry->run, (long long)r->fates[i].entry->seq);
    free(r->fates);
    free(r);
    return v->ghosts + v->twice + v->holes + v->torn + v->broken;
}

/* ---- A database of SQLite ---- */

static sqlite3_stmt *query_sqlite(ledger_reading *r, sqlite3 *native, const char *sql)
{
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(native, sql, -1, &s, NULL) != SQLITE_OK)
        ledger_read_broken(r, sql, sqlite3_errmsg(native));
    return s;
}

static void finish_query(ledger_reading *r, sqlite3 *native, sqlite3_stmt *s, int rc)
{
    if (rc != SQLITE_DONE)
        ledger_read_broken(r, "reading", sqlite3_errmsg(native));
    sqlite3_finalize(s);
}

static void read_journal(ledger_reading *r, sqlite3 *native)
{
    sqlite3_stmt *s =
        query_sqlite(r, native, "SELECT run, seq, at FROM pawl_journal ORDER BY run, seq");
    if (!s)
        return;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        ledger_read_row(r, sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                        sqlite3_column_int64(s, 2));
    finish_query(r, native, s, rc);
}

static void read_runs(ledger_reading *r, sqlite3 *native)
{
    sqlite3_stmt *s = query_sqlite(r, native,
                                   "SELECT run, claimed_seq, (SELECT count(*) FROM pawl_journal j"
                                   " WHERE j.run = r.run) FROM pawl_runs r");
    if (!s)
        return;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW)
        ledger_read_run(r, sqlite3_column_int64(s, 0), sqlite3_column_int64(s, 1),
                        sqlite3_column_int64(s, 2));
    finish_query(r, native, s, rc);
}

static void read_integrity(ledger_reading *r, sqlite3 *native)
{
    sqlite3_stmt *s = query_sqlite(r, native, "PRAGMA integrity_check");
    if (!s)
        return;
    int rc;
    while ((rc = sqlite3_step(s)) == SQLITE_ROW) {
        const char *text = (const char *)sqlite3_column_text(s, 0);
        if (!text || strcmp(text, "ok") != 0)
            ledger_read_broken(r, "integrity", text ? text : "(nothing)");
    }
    finish_query(r, native, s, rc);
}

int64_t ledger_check_order(ledger *l, const char *path, ledger_verdict *out)
{
    char copy[TMP_PATH];
    sqlite3 *native = NULL;
    scratch_suffix(copy, path, ".check");
    scratch_copy_db(path, copy);
    ledger_reading *r = ledger_read(l, out);
    if (sqlite3_open_v2(copy, &native, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
        ledger_read_broken(r, "open", sqlite3_errmsg(native));
    } else {
        read_integrity(r, native);
        read_journal(r, native);
        read_runs(r, native);
    }
    sqlite3_close(native);
    scratch_remove_db(copy);
    return ledger_read_end(r);
}

int64_t ledger_check(ledger *l, const char *path, ledger_verdict *out)
{
    int64_t faults = ledger_check_order(l, path, out);
    return faults + out->lost;
}
