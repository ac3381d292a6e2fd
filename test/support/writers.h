/* Child processes that write until they are killed (crash recovery).
 *
 * Each thread of a child takes its runs in turn. It hands in a few steps for one (steps.h), some of
 * which are meant to fail, and waits for their answers. Each answer goes through a pipe to the test
 * when it is given, so that the test knows what was acknowledged when the child dies, whatever the
 * child was doing. A later child goes on where the journal ends.
 *
 * A child does not use cmocka: an error ends it, and the test sees that the pipe is closed. */
#ifndef SUPPORT_WRITERS_H
#define SUPPORT_WRITERS_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/ledger.h"
#include "support/tmp.h"

typedef struct writers_plan {
    char path[TMP_PATH];     /* the path of the database, if it is SQLite's */
    char url[TMP_PATH + 64]; /* the URL of a database on a server; "": it is SQLite's. A server
                                may be stopped and started while children write */
    int threads;
    int64_t first_run; /* the first run of this child; no other child writes to the child's runs */
    int64_t runs;      /* number of runs of each thread */
    int64_t turns;     /* turns of each thread, after which the child ends by itself; 0: it goes
                         on until it is killed, or `stop` is set */
    atomic_int *stop; /* set by the test to end the child, in memory that both share; NULL: never */
    int64_t claim_ms; /* 0: the default */
    int64_t wal_bytes;
    int64_t payload;         /* most bytes of data in a row */
    int64_t sync_fails_each; /* every n-th sync of the log fails, once; 0: none. Needs `shim` */
    int shim;                /* 1: the child uses the VFS shim (vfs_shim.h) */
    int lossy;               /* 1: with the shim, so that a power cut can be simulated */
    int relaxed;             /* durability=relaxed */
    uint64_t seed;
} writers_plan;

typedef struct writers {
    pid_t pid; /* 0: not running */
    int fd;
    int64_t acks; /* number of answers COMMITTED read so far */
    size_t partial;
    char bytes[sizeof(ledger_entry)];
} writers;

/* WRITERS_STUCK_MS: a living child that sends nothing for so long counts as stuck. A child itself
 * waits longer than that for locks, so that a lock which is never released is found. */
#define WRITERS_STUCK_MS 60000
#define WRITERS_BUSY_MS 120000

/* Makes the database with the tables and the runs, in a child. Returns 0, or -1. */
int writers_set_up(const writers_plan *plan);

/* Forks a child that writes. The plan is copied. `birth` makes the marks of its rows different from
 * those of all other children that write to the same ledger. */
void writers_start(writers *w, const writers_plan *plan, int64_t birth);

/* Reads the answers of all children until child number `which` has `acks` acknowledgements or more.
 * Returns 0, or -1 if that child is stuck or has ended before. */
int writers_await(writers *all, int count, int which, int64_t acks, ledger *l);

/* Kills a child by SIGKILL, reads the answers that are still in its pipe, and reaps it. Returns 0,
 * or -1 if it had ended before. */
int writers_kill(writers *w, ledger *l);

/* Waits for a child that ends by itself. Returns 0, or -1 if it did not succeed. */
int writers_join(writers *w, ledger *l);

#endif
