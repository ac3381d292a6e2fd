/* The fixture for rewinds: two nodes with threads under load, on a database that is restored under
 * them.
 *
 * Each run gives its own id to all of its steps (plain ones, one inside a transaction, one beside
 * the function), and fails if one of them gives back another one: so a row of another run in its
 * journal is noticed. A start that is answered with a code that may pass is made again. */
#ifndef SUPPORT_REWIND_FIXTURE_H
#define SUPPORT_REWIND_FIXTURE_H

#include <pthread.h>
#include <pawl.h>

#include "support/conf.h"

enum { RESTORED_NODES = 2 };

typedef struct restored_node {
    pawl *p;
    pthread_t thread;
    atomic_int noticed; /* how often its log said that the database went back … */
    int before;         /* … until the last restored_mark() */
} restored_node;

typedef struct restored {
    restored_node nodes[RESTORED_NODES];
    random_seeded random;
    int64_t started;
} restored;

/* Both serve the database of this URL; and their end, which must be in good order. */
void restored_begin(restored *r, const char *url);
void restored_end(restored *r);

/* Some runs are started by each node. */
void restored_start_some(restored *r);

/* For a while that chance decides: what comes next is to come at any moment. */
void restored_pause(restored *r);

/* From here on each node loses something, by what it starts next and the restore after that: it has
 * to notice. restored_expect() waits for that, and until every run that is there has ended; then it
 * looks for holes and for rows of other runs. */
void restored_mark(restored *r);
void restored_expect(restored *r);

/* Everything has ended: remove it. */
void restored_empty(restored *r);

#endif
