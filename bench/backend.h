/* The databases that pawl is measured on, and what a benchmark asks of each beyond a URL.
 *
 * A measurement is the same on all of them: a fresh database, the load, the floor. What differs
 * (a file or a database of a server, a log that is bounded or one that goes on) is in one table of
 * functions per backend. */
#ifndef BENCH_BACKEND_H
#define BENCH_BACKEND_H

#include "common.h"
#include "floor.h"

typedef struct backend {
    const char *name;
    const floor_kind *floor;
    int turns; /* writers take turns, and the log is kept within a bound: db_sqlite_figures() */

    /* Once, before everything else. 0: it cannot be measured here, and stderr says why. */
    int (*start)(void);

    bench_db (*named)(const char *name);

    /* Nothing is left of it, so that nothing has to be written back later … */
    void (*remove)(const bench_db *d);

    /* … and it is there again, empty, as db_open() wants to find it. */
    void (*fresh)(const bench_db *d);

    /* What was written so far is on its way to the disk no more; before a timed measurement. */
    void (*settle)(const bench_db *d);

    /* CPU that the server's sessions in this database have used, those that are open; 0 where
     * there is no server, or the system does not tell. */
    int64_t (*server_cpu_ns)(const bench_db *d);

    /* Bytes of the log: written since the server was made, or of the file as it is now. */
    int64_t (*log_bytes)(const bench_db *d);
} backend;

/* All of them, in the order in which they are measured; NULL ends the list. */
extern const backend *const BACKENDS[];

/* What one commit of one row costs, of the rows of this database. */
double backend_commit_us(const bench_db *source);

extern const backend BACKEND_SQLITE;
extern const backend BACKEND_POSTGRES; /* only where libpq is: BENCH_POSTGRES */

#endif
