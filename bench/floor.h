/* The floor: what pawl has just written, written again by a bare loop.
 *
 * A rate says little by itself, since machines differ by an order of magnitude and one machine
 * by a third from minute to minute. So it is compared with the least that any program would have
 * to do for the same rows on the same disk: the journal that pawl wrote is read in `pos` order
 * and written into a fresh database with the same tables, the same settings, the same care for
 * the log and the same state of the file, N rows per transaction, by prepared statements. There
 * are no units, guards, savepoints, queues or threads. Each backend has one floor (floor.c
 * SQLite's, floor_pg.c PostgreSQL's) and every benchmark uses it.
 *
 * Where runs were driven, and not just units committed, their rows are written too: each run is
 * inserted before its first journal row, and updated, as its end was, behind its last one. What is
 * not there any more at the end, as a message that was received, is not written: that pawl has kept
 * it in between is pawl's own expense. A row of the application's own is written behind the journal
 * row of its step, in the same transaction. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include "base/slice.h"
#include "common.h"

typedef struct floor_rows floor_rows;

typedef struct floor_result {
    int64_t rows;
    int64_t ns;
    double rate;      /* rows per second */
    double cpu_us;    /* of this process, per row … */
    double server_us; /* … and of the server's session */
} floor_result;

/* What a backend's floor can do. */
typedef struct floor_kind {
    /* All rows of a database's journal, and its runs, in memory. No writer may have it open. */
    floor_rows *(*read)(const bench_db *source);

    /* The same, and the beginning and the end of each run among them, and the application's own
     * rows if there are any. All runs have ended. */
    floor_rows *(*read_lives)(const bench_db *source);

    /* Write them into a fresh database, `batch` rows per transaction. */
    floor_result (*write)(const bench_db *fresh, const floor_rows *rows, int batch);

    /* The limit: the same rows appended to one table without any index. */
    floor_result (*limit)(const bench_db *fresh, const floor_rows *rows, int batch);

    /* What one commit of one row costs: p50 in microseconds of that many, in a fresh database. */
    double (*commit_us)(const bench_db *fresh, const floor_rows *rows, int commits);

    /* The application's own rows, beside those of pawl_transact(): their table, and one of them,
     * with its number and a text. */
    const char *own_table;
    const char *own_insert;

    /* Say on stderr with which settings floor and limit are written, as read back. */
    void (*explain)(const bench_db *fresh);
} floor_kind;

extern const floor_kind FLOOR_SQLITE;
extern const floor_kind FLOOR_POSTGRES; /* only where libpq is: BENCH_POSTGRES */

void floor_free(floor_rows *rows);

/* `read` and `read_lives` of FLOOR_POSTGRES. */
floor_rows *floor_pg_read(const bench_db *source);
floor_rows *floor_pg_read_lives(const bench_db *source);

/* ---- What the floors share: rows in memory (floor_rows.c) ---- */

typedef enum { FLOOR_JOURNAL, FLOOR_START, FLOOR_END, FLOOR_OWN, FLOOR_WHATS } floor_what;

/* A text in `bytes`. */
typedef struct floor_text {
    size_t at;
    int size; /* -1: NULL */
} floor_text;

/* A run, as its beginning and its end write it. Its owner in between is made up. */
enum { FLOOR_OWNER = 2 };
typedef struct floor_run {
    int64_t run, phase, created_ms, finished_ms;
    int64_t parent, parent_generation, parent_op; /* 0: NULL */
    floor_text tenant, id, workflow, version, by, input, output, error;
} floor_run;

typedef struct floor_row {
    floor_what what;
    size_t life; /* of START and END: which of `lives`; the rest is of JOURNAL. OWN: seq, data */
    int64_t run, generation, seq, kind, op, at, enc;
    int64_t fence;     /* of its run, where the floor checks it; else 0 */
    size_t name, data; /* offsets in `bytes` */
    int name_size;
    int data_size; /* -1: NULL */
} floor_row;

struct floor_rows {
    char source[1024]; /* SQLite copies the runs from there … */
    buf runs;          /* … and PostgreSQL keeps them, as COPY gives them */
    floor_run *lives;  /* by run; NULL: they are there before the first row is written */
    size_t life_count;
    floor_row *rows;
    size_t count;
    size_t room;
    size_t before; /* so many of them are written before the clock is started */
    size_t own;    /* so many are of the application */
    char *bytes;
    size_t size;
    size_t bytes_room;
};

/* Room for so many rows with so many bytes of names and data: nothing is allocated between two
 * rows. */
floor_rows *floor_rows_new(size_t count, size_t bytes);

/* Append a row; its numbers are set by the caller. `data.at` NULL: NULL. */
floor_row *floor_rows_add(floor_rows *r, slice name, slice data);

/* Keep a text; `at` NULL: NULL. */
floor_text floor_rows_text(floor_rows *r, slice text);

/* Room for so many runs; then, when rows and runs are all there, put the one among the other. */
void floor_lives_new(floor_rows *r, size_t count);
void floor_lives_merge(floor_rows *r);

/* The first so many rows of the journal, and what is among them, are not timed. */
void floor_rows_before(floor_rows *r, int64_t journal);

/* Where a transaction of about `batch` rows ends that begins at `from`, not beyond `end`. */
size_t floor_batch_end(const floor_rows *r, size_t from, size_t batch, size_t end);

/* They are all there, and they are some; ends the process otherwise. */
void floor_rows_complete(const floor_rows *r);

/* What a loop over all rows takes: begin before it, end after it. */
typedef struct floor_watch {
    const bench_db *db;
    int64_t start_ns;
    int64_t cpu_ns;
    int64_t server_ns;
} floor_watch;

floor_watch floor_begin(const bench_db *d);
floor_result floor_end(const floor_watch *w, const floor_rows *r);

/* p50 in microseconds of one(arg, rows, i) for the first `commits` rows. */
typedef void (*floor_one)(void *arg, const floor_rows *rows, size_t i);
double floor_p50_us(const floor_rows *rows, int commits, floor_one one, void *arg);

#endif
