/* What every benchmark needs and none should write twice.
 *
 * A measurement that shares a process with another one is charged for its memory and its
 * leftovers, so each runs in a child of its own and hands back a plain struct (bench_children).
 * Benchmarks are programs: what should not happen ends them with a message (bench_die). */
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "db/db.h"

/* Say why on stderr and end the process with 1. */
_Noreturn void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* bench_die() with what a call of pawl had to say, unless it went well. */
void bench_check(pawl_code code, const error *err, const char *doing);

/* ---- Time and figures ---- */

int64_t bench_now_ns(void);  /* never goes back, the same for all processes */
int64_t bench_wall_ms(void); /* since 1970 */
int64_t bench_cpu_ns(void);  /* what this process has used, all threads together */
void bench_sleep_ns(int64_t ns);

/* Memory of this process that is in RAM, in bytes; 0 where the system does not tell. */
int64_t bench_rss(void);

/* The most that it has been since the process began. */
int64_t bench_rss_max(void);

/* Size of a file; 0 if there is none. */
int64_t bench_file_size(const char *path);

double bench_median(const double *values, int count);

/* Durations in nanoseconds, in buckets that are 3 percent wide at most. Zeroes: empty. */
#define BENCH_HIST_STEPS 32
#define BENCH_HIST_SIZE (60 * BENCH_HIST_STEPS)

typedef struct bench_hist {
    int64_t count;
    int64_t max;
    uint32_t at[BENCH_HIST_SIZE];
} bench_hist;

void bench_hist_add(bench_hist *h, int64_t ns);
void bench_hist_merge(bench_hist *into, const bench_hist *h);

/* The duration that `share` (0 to 1) of all stay below; 0 when there are none. */
int64_t bench_hist_at(const bench_hist *h, double share);

/* ---- Where the databases are ---- */

/* Make a fresh folder under $TMPDIR, or else under the current one, and remember it; warns when
 * a sync costs nothing there. It is removed with all that is in it when the process that made
 * it exits, also on SIGINT and SIGTERM. */
void bench_place_make(void);

/* The folder. */
const char *bench_place(void);

/* A database that is measured; what can be done with it is in its backend (backend.h). */
typedef struct bench_db {
    const struct backend *backend;
    char path[1024]; /* the file, or the database's name on its server */
    char url[1100];
} bench_db;

/* ---- Children ---- */

/* Run fn(arg, number, result) in `count` processes at once. Each gets a zeroed `result` of `size`
 * bytes, which becomes results[number]; one that fails ends this process too. */
typedef void (*bench_child)(const void *arg, int number, void *result);
void bench_children(int count, bench_child fn, const void *arg, void *results, size_t size);

/* In a child: wait here until all children of the call have come this far. */
void bench_child_gate(void);

/* ---- Results ---- */

/* One JSON line on stdout: begin, any number of keys, end. */
void bench_json_begin(buf *b, const char *bench, const char *name, const char *backend);
void bench_json_number(buf *b, const char *key, double value, int digits);
void bench_json_numbers(buf *b, const char *key, const double *values, int count, int digits);
void bench_json_text(buf *b, const char *key, const char *plain);
void bench_json_end(buf *b);

#endif
