/* Checkpoints of SQLite's write-ahead log, which keep it within its bound.
 *
 * A checkpoint beside a busy writer never reaches the last frame, so that the log would grow for
 * ever; one done by the writer alone stalls it for long. So both: a thread copies frames back all
 * the time (PASSIVE, which blocks no other connection), and when the log passes its bound the
 * writer itself, between two batches, finishes the small rest (RESTART) and the log begins anew in
 * the same bytes of the same file. */
#ifndef DB_WAL_H
#define DB_WAL_H

#include <sqlite3.h>
#include <stdint.h>

#include "base/clock.h"

typedef struct wal_keeper wal_keeper;

typedef struct wal_stats {
    int64_t bytes_max;    /* the largest the log has been */
    int64_t restarts;     /* how often it began anew */
    int64_t blocked;      /* how often a reader was in the way of that */
    int64_t stall_ns_max; /* the longest the writer stood still for it */
} wal_stats;

/* Keep the log of `writer`'s database at `bound` bytes or so. `copier` is a connection of the
 * keeper's own for the thread, closed by wal_keeper_free(); NULL: no thread, the writer does it
 * all. NULL when memory is out. */
wal_keeper *wal_keeper_new(sqlite3 *writer, sqlite3 *copier, int64_t bound, clock_source *clock);
void wal_keeper_free(wal_keeper *k); /* before the writer is closed */

/* The writer, between two of its transactions: has the log passed its bound? Wakes the thread
 * when there is enough for it to copy. */
int wal_keeper_due(wal_keeper *k);

/* The writer, then, with its turn among the processes taken: finish the copy, begin anew. */
void wal_keeper_restart(wal_keeper *k);

wal_stats wal_keeper_stats(wal_keeper *k);

#endif
