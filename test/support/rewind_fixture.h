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

enum { RESTORED_NODES = 3 }; /* the last one is the guest */

typedef struct restored_node {
    pawl *p; /* NULL: it has not joined */
    pthread_t thread;
    atomic_int noticed; /* how often its log said that the database went back … */
    int before;         /* … until the last restored_mark() */
    int64_t looks;      /* of its node loop, when all had noticed */
} restored_node;

typedef struct restored {
    const char *url;
    restored_node nodes[RESTORED_NODES];
    random_seeded random;
    int64_t started;
    int64_t waits;     /* number of the run that waits for a message */
    int64_t kept;      /* so many runs have to be there … */
    int64_t lost_from; /* … and none of those from here on … */
    int64_t lost_to;   /* … to before here; -1: what is started now will be lost */
    int64_t undriven; /* runs that were due and not driven when all had noticed, of all rounds … */
    int64_t looks;    /* … and how often each node had looked until they were, at most */
    int64_t longest_ns; /* from a restore until nothing was live */
} restored;

/* Two nodes serve the database of this URL, which has to live as long; and the end of all, which
 * must be in good order. */
void restored_begin(restored *r, const char *url);
void restored_end(restored *r);

/* The guest joins: after restored_mark(), before the restore. restored_leave(): it goes. */
void restored_join(restored *r);
void restored_leave(restored *r);

/* Some runs are started by each node. */
void restored_start_some(restored *r);

/* For a while that chance decides: what comes next is to come at any moment. */
void restored_pause(restored *r);

/* A round:
 * 1. restored_start_some(): these are in the backup, which is made then.
 * 2. restored_mark(): from here on each node loses what it starts, and has to notice.
 * 3. restored_start_some(), and the restore.
 * 4. restored_go_on(): the run that waits gets its message, and others are started.
 * 5. restored_expect() waits until all nodes have noticed and every run that is there has ended.
 *    All of 1 and 4 are there and none of 3; no journal has a hole or a row of another run; no two
 *    nodes have the same id; and what was due was driven after a few looks of each node. */
void restored_mark(restored *r);
void restored_go_on(restored *r);
void restored_expect(restored *r);

/* Everything has ended: remove it. */
void restored_empty(restored *r);

/* Say what was seen, in a line: so many rounds, of what. */
void restored_tell(const restored *r, const char *what, int64_t rounds);

#endif
