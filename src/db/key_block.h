/* Keys that are never used twice, allocated in blocks (the hi/lo method).
 *
 * A run's key is known before its commit, so it cannot come from the row's insertion. An engine
 * takes keys in blocks from {meta}: one small unit per thousand runs. What is left of a block at
 * the end is lost, which does no harm: keys are never reused, and neighbours stay neighbours. */
#ifndef DB_KEY_BLOCK_H
#define DB_KEY_BLOCK_H

#include <pthread.h>

#include "db/committer.h"

#define KEYS_BLOCK 1000

typedef struct keys {
    pthread_mutex_t lock;
    committer *committer;
    const char *name; /* the name of the counter's row in {meta}, a literal: "next_run" */
    int64_t next;
    int64_t end;
    long long block; /* db_world.key_blocks when the block was taken; if that has risen since, the
                        block is void */
} keys;

void key_block_init(keys *k, committer *c, const char *name);
void key_block_free(keys *k);

/* The next key. At the end of a block this commits a unit of its own and waits for it. */
pawl_code key_block_next(keys *k, int64_t *out, error *err);

#endif
