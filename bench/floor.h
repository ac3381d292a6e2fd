/* The floor: what pawl has just written, written again by a bare loop.
 *
 * A rate says little by itself, since machines differ by an order of magnitude and one machine
 * by a third from minute to minute. So it is compared with the least that any program would have
 * to do for the same rows on the same disk: the journal that pawl wrote is read in `pos` order
 * and written into a fresh database with the same tables, the same settings, the same care for
 * the log and the same state of the file, by BEGIN IMMEDIATE, N prepared INSERTs, COMMIT. There
 * are no units, guards, savepoints, queues or threads. This is the only floor; every benchmark
 * uses it. */
#ifndef BENCH_FLOOR_H
#define BENCH_FLOOR_H

#include "common.h"

typedef struct floor_rows floor_rows;

typedef struct floor_result {
    int64_t rows;
    int64_t ns;
    double rate; /* rows per second */
    int64_t wal; /* the largest the log has been, in bytes */
} floor_result;

/* All rows of a database's journal, and its runs, in memory. Nobody may be writing it. */
floor_rows *floor_read(const bench_db *source);
void floor_free(floor_rows *rows);

/* Write them into a fresh database, `batch` rows per transaction. */
floor_result floor_write(const bench_db *fresh, const floor_rows *rows, int batch);

/* The limit: the same rows appended to one table without any index. */
floor_result floor_limit(const bench_db *fresh, const floor_rows *rows, int batch);

/* What one commit of one row costs: p50 in microseconds of that many, in a fresh database. */
double floor_commit_us(const bench_db *fresh, const floor_rows *rows, int commits);

/* Say on stderr with which settings floor and limit are written, as read back. */
void floor_explain(const bench_db *fresh);

#endif
