/* Units kept in flight: the load that the committer is measured with.
 *
 * A unit is what a step of a run costs the storage: a guard (the run's row with its fence) and
 * one journal row of 100 bytes. Unit k belongs to run k modulo the number of runs, and a run's
 * units have one submitter. Two threads submit without waiting and recycle what comes back; a
 * single unit in flight is one thread that submits and waits. The process is a node: every
 * transaction begins under the lock of its row.
 *
 * Knows nothing of a database but its URL. */
#ifndef BENCH_FLIGHT_H
#define BENCH_FLIGHT_H

#include "common.h"
#include "db/committers.h"
#include "db/db_sqlite.h"

/* Connections that commit, where several transactions can write at a time. */
enum { FLIGHT_RUNS = 256, FLIGHT_WINDOWS = 6, FLIGHT_COMMITTERS = 2 };

typedef struct flight_options {
    const bench_db *db;
    int in_flight;
    int first_run;       /* of FLIGHT_RUNS */
    int64_t units;       /* end after so many; 0: by time */
    int64_t duration_ns; /* stop submitting after this long */
    int gate;            /* begin when all children are ready */
    int watch;           /* sample windows and memory while it lasts */
} flight_options;

typedef struct flight_result {
    int64_t units;
    int64_t start_ns;
    int64_t end_ns;
    int64_t cpu_ns;      /* of this process, between the two … */
    int64_t server_ns;   /* … and of the sessions in this database on its server; 0 with `gate` */
    int64_t wait_p50_ns; /* from submission to the answer … */
    int64_t wait_p99_ns;
    int64_t wait_max_ns;
    int64_t rss;     /* at the end, everything still open */
    int64_t rss_1e5; /* after 10^5 units, with `watch`; 0: not reached */
    int64_t rss_1e6;
    int64_t wal_bytes;              /* the largest the log has been; or, where it goes on for
                                       ever, see fly() in commit.c */
    double windows[FLIGHT_WINDOWS]; /* with `watch`: units per second in each sixth of the time */
    int64_t stalls;                 /* times that nothing came back for a second */
    int committers;                 /* connections that commit: FLIGHT_COMMITTERS, or 1 */
    committer_stats committer;
    db_sqlite_stats storage; /* zeroes on another backend */
} flight_result;

/* Tables, and the rows of `runs` runs from 1 on; closed again. */
void flight_prepare(const bench_db *d, int runs);

void flight_fly(const flight_options *options, flight_result *out);

/* Units per second. */
double flight_rate(const flight_result *r);

#endif
