/* Keys that are never used twice.
 *
 * A run's key is known before its commit, so it cannot come from the row's insertion. An engine
 * takes keys in blocks from {meta}: one small unit per thousand runs. What is left of a block at
 * the end is lost, which does no harm: keys are never reused, and neighbours stay neighbours. */
#ifndef DB_KEYS_H
#define DB_KEYS_H

#include <pthread.h>

#include "db/committer.h"

#define KEYS_BLOCK 1000

typedef struct keys {
    pthread_mutex_t lock;
    committer *committer;
    const char *name; /* of the row in {meta}, static: "next_run" */
    int64_t next;
    int64_t end;
} keys;

void keys_init(keys *k, committer *c, const char *name);
void keys_free(keys *k);

/* The next key. At the end of a block this commits a unit of its own and waits for it. */
pawl_code keys_next(keys *k, int64_t *out, error *err);

#endif
