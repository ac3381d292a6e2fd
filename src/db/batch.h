/* A batch: units applied one after the other in one transaction.
 *
 * This is the mechanism under the committer, for databases that do one thing at a time. It knows
 * nothing of queues, threads or time. */
#ifndef DB_BATCH_H
#define DB_BATCH_H

#include "db/unit.h"

typedef struct batch_result {
    size_t taken;     /* how many units, from the first, have an answer */
    size_t undecided; /* how many of these, at the end, are undecided: ask driver->settle() */
    pawl_code code;   /* PAWL_BUSY: the rest could not be begun, come back later; or PAWL_OK */
    int restarts;     /* how often the database threw a transaction away */
} batch_result;

/* Apply `count` units in order. Each unit's guards see the writes of the units before it; a unit
 * that is refused or fails leaves nothing behind and harms no other. Answers are written into
 * the units; nobody is called. `pass` counts passes over the life of the connection. */
batch_result batch_apply(db_conn *c, unit **units, size_t count, uint64_t *pass, error *err);

#endif
