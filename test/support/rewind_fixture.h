/* The fixture for rewinds: two nodes with threads under load, on a database that is restored while
 * they use it. A third node joins after the backup: the restored database knows nothing of its node
 * id and of the keys of its runs, and would give them out again.
 *
 * Each run gives its own id to all of its steps (plain ones, one inside a transaction, one beside
 * the function). It fails if a step returns another id, or if its own input is another id: so a row
 * of another run in its journal is noticed. One run of each round waits for a message from before
 * the backup until after the restore. A start that is answered with a retryable code is made
 * again. */
#ifndef SUPPORT_REWIND_FIXTURE_H
#define SUPPORT_REWIND_FIXTURE_H

#include <pthread.h>
#include <pawl.h>

#include "support/conf.h"

enum { REWIND_NODES = 3 }; /* the last one joins and leaves */

typedef struct rewind_node {
    pawl *p; /* NULL: the node has not joined */
    pthread_t thread;
    atomic_int noticed; /* how many times its log had the event database-went-back */
    int before;         /* the value of `noticed` at the last rewind_mark() */
    int64_t looks;      /* number of rounds of its node loop when all nodes had noticed the
                           restore */
} rewind_node;

typedef struct rewind_fixture {
    const char *url;
    rewind_node nodes[REWIND_NODES];
    random_seeded random;
    int64_t started;
    int64_t waits;      /* number of the run that waits for a message */
    int64_t kept;       /* number of runs that must be there in the end */
    int64_t lost_from;  /* no run may be there whose number is at least this … */
    int64_t lost_to;    /* … and smaller than this; -1: runs that are started now will be lost */
    int64_t undriven;   /* runs that were due and not driven when all nodes had noticed the
                           restore; a sum over all rounds */
    int64_t looks;      /* the most rounds that the node loops then needed until all were driven */
    int64_t longest_ns; /* the longest time from a restore until no run was live */
} rewind_fixture;

/* rewind_begin() has two nodes serve the database of this URL, whose text must live as long.
 * rewind_end() ends both, and expects that this works. */
void rewind_begin(rewind_fixture *r, const char *url);
void rewind_end(rewind_fixture *r);

/* rewind_join() makes the third node, after rewind_mark() and before the restore. rewind_leave()
 * ends it. */
void rewind_join(rewind_fixture *r);
void rewind_leave(rewind_fixture *r);

/* Has each node start some runs. */
void rewind_start_some(rewind_fixture *r);

/* Pauses for a random time, so that the next call comes at any moment of what the nodes do. */
void rewind_pause(rewind_fixture *r);

/* A round:
 * 1. rewind_start_some(): these runs are in the backup, which the test makes next.
 * 2. rewind_mark(): from here on each node loses what it starts, and has to notice the restore.
 * 3. rewind_start_some(), and the test restores the backup.
 * 4. rewind_continue(): the run that waits gets its message, and further runs are started.
 * 5. rewind_expect() waits until all nodes have noticed the restore and every run has ended. It
 *    expects that all runs of 1 and 4 are there, and none of 3; that no journal has a gap or a row
 *    of another run; that no two nodes have the same id; and that runs which were due were driven
 *    after a few rounds of each node loop. */
void rewind_mark(rewind_fixture *r);
void rewind_continue(rewind_fixture *r);
void rewind_expect(rewind_fixture *r);

/* Removes all runs, which have ended. */
void rewind_empty(rewind_fixture *r);

/* Prints one line with the number of rounds, what they were (`what`), and what was measured. */
void rewind_report(const rewind_fixture *r, const char *what, int64_t rounds);

#endif
