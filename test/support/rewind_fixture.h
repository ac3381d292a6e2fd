/* The fixture for rewinds: two nodes with threads under load, on a database that is restored under
 * them, and a third that joins after the backup: its node id and its run keys are of a time that
 * never was, and are free again in the database that is restored.
 *
 * Each run gives its own id to all of its steps (plain ones, one inside a transaction, one beside
 * the function), and fails if one of them gives back another one, or if it was given the input of
 * another: so a row of another run in its journal is noticed. One run of each round waits for a
 * message from before the backup until after the restore. A start that is answered with a code that
 * may pass is made again. */
#ifndef SUPPORT_REWIND_FIXTURE_H
#define SUPPORT_REWIND_FIXTURE_H

#include <pthread.h>
#include <pawl.h>

#include "support/conf.h"

enum { REWIND_NODES = 3 }; /* the last one is the guest */

typedef struct rewind_node {
    pawl *p; /* NULL: it has not joined */
    pthread_t thread;
    atomic_int noticed; /* how often its log said that the database went back … */
    int before;         /* … until the last rewind_mark() */
    int64_t looks;      /* of its node loop, when all had noticed */
} rewind_node;

typedef struct rewind_fixture {
    const char *url;
    rewind_node nodes[REWIND_NODES];
    random_seeded random;
    int64_t started;
    int64_t waits;     /* number of the run that waits for a message */
    int64_t kept;      /* so many runs have to be there … */
    int64_t lost_from; /* … and none of those from here on … */
    int64_t lost_to;   /* … to before here; -1: what is started now will be lost */
    int64_t undriven; /* runs that were due and not driven when all had noticed, of all rounds … */
    int64_t looks;    /* … and how often each node had looked until they were, at most */
    int64_t longest_ns; /* from a restore until nothing was live */
} rewind_fixture;

/* Two nodes serve the database of this URL, which has to live as long; and the end of all, which
 * must be in good order. */
void rewind_begin(rewind_fixture *r, const char *url);
void rewind_end(rewind_fixture *r);

/* The third node joins: after rewind_mark(), before the restore. rewind_leave(): it leaves. */
void rewind_join(rewind_fixture *r);
void rewind_leave(rewind_fixture *r);

/* Some runs are started by each node. */
void rewind_start_some(rewind_fixture *r);

/* Pause for a random while, so that the next call comes at any moment. */
void rewind_pause(rewind_fixture *r);

/* A round:
 * 1. rewind_start_some(): these are in the backup, which is made then.
 * 2. rewind_mark(): from here on each node loses what it starts, and has to notice.
 * 3. rewind_start_some(), and the restore.
 * 4. rewind_continue(): the run that waits gets its message, and others are started.
 * 5. rewind_expect() waits until all nodes have noticed and every run that is there has ended.
 *    All of 1 and 4 are there and none of 3; no journal has a hole or a row of another run; no two
 *    nodes have the same id; and what was due was driven after a few looks of each node. */
void rewind_mark(rewind_fixture *r);
void rewind_continue(rewind_fixture *r);
void rewind_expect(rewind_fixture *r);

/* Everything has ended: remove it. */
void rewind_empty(rewind_fixture *r);

/* Print what was seen, in a line: so many rounds, of what. */
void rewind_report(const rewind_fixture *r, const char *what, int64_t rounds);

#endif
