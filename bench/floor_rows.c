/* Rows in memory, as a floor reads and writes them. All floors keep them in the same way, so that
 * reading a row from memory costs each of them the same. */
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "floor.h"
#include "journal/op.h"

floor_rows *floor_rows_new(size_t count, size_t bytes)
{
    floor_rows *r = calloc(1, sizeof *r);
    if (!r)
        bench_die("floor: out of memory");
    r->room = count;
    r->bytes_room = bytes;
    r->rows = calloc(count + 1, sizeof *r->rows);
    r->bytes = malloc(bytes + 1);
    if (!r->rows || !r->bytes)
        bench_die("floor: out of memory");
    buf_init(&r->runs, (size_t)64 * 1024 * 1024);
    return r;
}

void floor_free(floor_rows *rows)
{
    if (!rows)
        return;
    buf_free(&rows->runs);
    free(rows->lives);
    free(rows->rows);
    free(rows->bytes);
    free(rows);
}

static size_t bytes_keep(floor_rows *r, slice s)
{
    size_t at = r->size;
    if (at + s.size > r->bytes_room)
        bench_die("floor: the rows changed while they were read");
    if (s.size > 0)
        memcpy(r->bytes + at, s.at, s.size);
    r->size += s.size;
    return at;
}

floor_text floor_rows_text(floor_rows *r, slice text)
{
    return (floor_text){bytes_keep(r, text), text.at ? (int)text.size : -1};
}

floor_row *floor_rows_add(floor_rows *r, slice name, slice data)
{
    if (r->count >= r->room)
        bench_die("floor: the rows changed while they were read");
    floor_row *row = &r->rows[r->count++];
    row->name = bytes_keep(r, name);
    row->name_size = (int)name.size;
    row->data = bytes_keep(r, data);
    row->data_size = data.at ? (int)data.size : -1;
    return row;
}

void floor_rows_complete(const floor_rows *r)
{
    if (r->count == 0 || r->count != r->room)
        bench_die("floor: there are no rows to write again, or not all could be read");
}

/* ---- Runs among the rows ---- */

void floor_lives_new(floor_rows *r, size_t count)
{
    r->life_count = count;
    r->lives = calloc(count + 1, sizeof *r->lives);
    if (!r->lives)
        bench_die("floor: out of memory");
}

static size_t life_of(const floor_rows *r, int64_t run)
{
    size_t from = 0, to = r->life_count;
    while (from < to) {
        size_t middle = from + (to - from) / 2;
        if (r->lives[middle].run < run)
            from = middle + 1;
        else
            to = middle;
    }
    if (from == r->life_count || r->lives[from].run != run)
        bench_die("floor: a row without its run");
    return from;
}

/* What merging has put together so far. */
typedef struct merge {
    floor_row *all;
    size_t count;
    size_t *left; /* rows of each run that are still to come … */
    char *begun;  /* … and whether it has begun */
    size_t bare;  /* all runs without a row before this one are there */
    size_t own;   /* the next row of the application, which are behind all others */
} merge;

static void *room_for(size_t count, size_t size)
{
    void *room = calloc(count + 1, size);
    if (!room)
        bench_die("floor: out of memory");
    return room;
}

/* A run without a row in the journal, as one is that does nothing: it begins and ends behind the
 * row with which its parent has made it. They are in the order of those. `row` NULL: all that are
 * left. */
static void merge_bare(merge *m, const floor_rows *r, const floor_row *row)
{
    for (; m->bare < r->life_count; m->bare++) {
        const floor_run *run = &r->lives[m->bare];
        if (m->begun[m->bare] || m->left[m->bare] > 0)
            continue;
        if (row && (run->parent != row->run || run->parent_op != row->seq))
            return;
        m->begun[m->bare] = 1;
        m->all[m->count++] = (floor_row){.what = FLOOR_START, .life = m->bare};
        m->all[m->count++] = (floor_row){.what = FLOOR_END, .life = m->bare};
    }
}

/* Behind its run's start if it is the first one, and before its end if it is the last. The row of
 * the application goes behind that of its step. */
static void merge_row(merge *m, const floor_rows *r, const floor_row *row)
{
    size_t life = life_of(r, row->run);
    if (!m->begun[life])
        m->all[m->count++] = (floor_row){.what = FLOOR_START, .life = life};
    m->begun[life] = 1;
    m->all[m->count++] = *row;
    if (row->kind == OP_TRANSACT && m->own < r->count)
        m->all[m->count++] = r->rows[m->own++];
    if (--m->left[life] == 0)
        m->all[m->count++] = (floor_row){.what = FLOOR_END, .life = life};
    merge_bare(m, r, row);
}

void floor_lives_merge(floor_rows *r)
{
    size_t journal = r->count - r->own;
    merge m = {.all = room_for(r->count + 2 * r->life_count, sizeof *m.all),
               .left = room_for(r->life_count, sizeof *m.left),
               .begun = room_for(r->life_count, 1),
               .own = journal};
    for (size_t i = 0; i < journal; i++)
        m.left[life_of(r, r->rows[i].run)]++;
    for (size_t i = 0; i < journal; i++)
        merge_row(&m, r, &r->rows[i]);
    merge_bare(&m, r, NULL);
    if (m.own != r->count)
        bench_die("floor: a row of the application without its step");
    free(m.left);
    free(m.begun);
    free(r->rows);
    r->rows = m.all;
    r->count = r->room = m.count;
}

void floor_rows_before(floor_rows *r, int64_t journal)
{
    size_t before = 0;
    for (int64_t seen = 0; seen < journal && before < r->count; before++)
        seen += r->rows[before].what == FLOOR_JOURNAL;
    r->before = journal > 0 ? floor_batch_end(r, 0, before, r->count) : 0;
}

size_t floor_batch_end(const floor_rows *r, size_t from, size_t batch, size_t end)
{
    size_t to = from + batch < end ? from + batch : end;
    while (to < end && r->rows[to].what == FLOOR_OWN)
        to++;
    return to;
}

/* ---- Figures ---- */

floor_watch floor_begin(const bench_db *d)
{
    floor_watch w = {.db = d, .server_ns = d->backend->server_cpu_ns(d)};
    w.cpu_ns = bench_cpu_ns();
    w.start_ns = bench_now_ns();
    return w;
}

floor_result floor_end(const floor_watch *w, const floor_rows *r)
{
    int64_t ns = bench_now_ns() - w->start_ns;
    int64_t cpu_ns = bench_cpu_ns() - w->cpu_ns;
    int64_t server_ns = w->db->backend->server_cpu_ns(w->db) - w->server_ns;
    double rows = (double)(r->count - r->before);
    return (floor_result){
        .rows = (int64_t)(r->count - r->before),
        .ns = ns,
        .rate = rows * 1e9 / (double)(ns > 0 ? ns : 1),
        .cpu_us = (double)cpu_ns / 1e3 / rows,
        .server_us = (double)server_ns / 1e3 / rows,
    };
}

double floor_p50_us(const floor_rows *rows, int commits, floor_one one, void *arg)
{
    bench_hist *h = calloc(1, sizeof *h);
    if (!h)
        bench_die("floor: out of memory");
    for (size_t i = 0; i < (size_t)commits && i < rows->count; i++) {
        int64_t start = bench_now_ns();
        one(arg, rows, i);
        bench_hist_add(h, bench_now_ns() - start);
    }
    double us = (double)bench_hist_at(h, 0.5) / 1e3;
    free(h);
    return us;
}
