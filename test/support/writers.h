/* Writers in a process of their own, to be killed.
 *
 * Each thread of the child takes its runs in turn, hands in a few steps for one (steps.h), some of
 * them bad on purpose, and waits for their answers. Every answer goes through a pipe to the test
 * at the moment it is given, so that the test knows what was acknowledged when the child dies,
 * whatever the child was doing. A child that comes after goes on where the journal ends.
 *
 * Nothing here uses cmocka: what fails in the child ends it, and the test sees the pipe close. */
#ifndef SUPPORT_WRITERS_H
#define SUPPORT_WRITERS_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "support/ledger.h"
#include "support/tmp.h"

typedef struct writers_plan {
    char path[TMP_PATH];     /* of the database … */
    char url[TMP_PATH + 64]; /* … unless it is not SQLite's; then a server may go and come back */
    int threads;
    int64_t first_run; /* of this child; no other child has its runs */
    int64_t runs;      /* of each thread */
    int64_t turns;    /* of each thread, then the child ends by itself; 0: until it is killed … */
    atomic_int *stop; /* … or this is set, in memory that it shares with the test; NULL: never */
    int64_t claim_ms; /* 0: the default */
    int64_t wal_bytes;
    int64_t payload;         /* bytes in a row at most */
    int64_t sync_fails_each; /* every n-th sync of the log fails, once; 0: none. Needs the shim */
    int shim;                /* use the VFS shim … */
    int lossy;               /* … and keep what would survive a power cut */
    int relaxed;             /* durability=relaxed */
    uint64_t seed;
} writers_plan;

typedef struct writers {
    pid_t pid; /* 0: not running */
    int fd;
    int64_t acks; /* COMMITTED answers read so far */
    size_t partial;
    char bytes[sizeof(ledger_entry)];
} writers;

/* How long nothing may come from a living child before it counts as stuck, and how long a child
 * itself is patient with locks: longer, so that a lock that is never released is found. */
#define WRITERS_STUCK_MS 60000
#define WRITERS_BUSY_MS 120000

/* Make the database with the tables and the runs, in a child. 0, or -1. */
int writers_set_up(const writers_plan *plan);

/* Fork a child that writes. The plan is copied. `birth` tells its marks from those of every other
 * child that wrote to the same ledger. */
void writers_start(writers *w, const writers_plan *plan, int64_t birth);

/* Read answers of all that run until `which` has `acks` acknowledgements (or more). 0; -1 when it
 * is stuck or has ended before. */
int writers_await(writers *all, int count, int which, int64_t acks, ledger *l);

/* SIGKILL, read what it still had to say, and reap it. 0; -1 when it was dead already. */
int writers_kill(writers *w, ledger *l);

/* Wait for the end of a child that ends by itself. 0, or -1 if it did not go well. */
int writers_join(writers *w, ledger *l);

#endif
