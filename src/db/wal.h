/* Checkpoints of SQLite's write-ahead log, which keep it within its bound.
 *
 * A checkpoint beside a busy writer never reaches the last frame, so that the log would grow for
 * ever; a checkpoint by the writer alone stalls it for long. So both are used: a thread copies
 * frames back all the time (PASSIVE, which blocks no other connection), and when the log passes its
 * bound the writer itself, between two batches, copies the few frames that are left (RESTART), and
 * the log begins anew in the same bytes of the same file. */
#ifndef DB_WAL_H
#define DB_WAL_H

#include <sqlite3.h>
#include <stdint.h>

#include "base/clock.h"

typedef struct wal_checkpointer wal_checkpointer;

typedef struct wal_stats {
    int64_t bytes_max;    /* the largest the log has been */
    int64_t restarts;     /* how often the log began anew */
    int64_t blocked;      /* how often a reader kept the log from beginning anew */
    int64_t stall_ns_max; /* the longest time that a restart stopped the writer */
} wal_stats;

/* Keeps the log of `writer`'s database at about `bound` bytes. `copier` is a second connection,
 * which the checkpointer's thread uses and wal_checkpointer_free() closes; NULL: there is no
 * thread, and the writer makes all checkpoints. NULL when memory is out. */
wal_checkpointer *wal_checkpointer_new(sqlite3 *writer, sqlite3 *copier, int64_t bound,
                                       clock_source *clock);
void wal_checkpointer_free(wal_checkpointer *k); /* before the writer is closed */

/* For the writer, inside a transaction that is about to be committed, so that no other connection
 * appends to the log: lets the file of the log grow ahead of its frames, if they have come near to
 * its end. k may be NULL. */
void wal_checkpointer_grow(wal_checkpointer *k);

/* For the writer, between two of its transactions: 1 if the log has passed its bound. Also wakes
 * the thread when there is enough to copy. */
int wal_checkpointer_due(wal_checkpointer *k);

/* For the writer, when the log is past its bound and no other process writes: finishes the
 * checkpoint, so that the log begins anew. */
void wal_checkpointer_restart(wal_checkpointer *k);

wal_stats wal_checkpointer_stats(wal_checkpointer *k);

#endif
