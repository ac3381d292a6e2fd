/* Rows in memory, as a floor reads and writes them. All floors keep them in the same way, so that
 * reading a row from memory costs each of them the same. */
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "floor.h"

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

/* Each journal row behind its run's start if it is the first one, and before its end if it is the
 * last. */
void floor_lives_merge(floor_rows *r)
{
    size_t *left = calloc(r->life_count + 1, sizeof *left);
    char *begun = calloc(r->life_count + 1, 1);
    floor_row *all = calloc(r->count + 2 * r->life_count + 1, sizeof *all);
    size_t count = 0;
    if (!left || !begun || !all)
        bench_die("floor: out of memory");
    for (size_t i = 0; i < r->count; i++)
        left[life_of(r, r->rows[i].run)]++;
    for (size_t i = 0; i < r->count; i++) {
        size_t life = life_of(r, r->rows[i].run);
        if (!begun[life])
            all[count++] = (floor_row){.what = FLOOR_START, .life = life};
        begun[life] = 1;
        all[count++] = r->rows[i];
        if (--left[life] == 0)
            all[count++] = (floor_row){.what = FLOOR_END, .life = life};
    }
    for (size_t i = 0; i < r->life_count; i++)
        if (!begun[i])
            bench_die("floor: a run without a row");
    free(left);
    free(begun);
    free(r->rows);
    r->rows = all;
    r->count = r->room = count;
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
    double rows = (double)r->count;
    return (floor_result){
        .rows = (int64_t)r->count,
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
