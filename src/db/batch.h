/* A batch: units applied one after the other in one transaction.
 *
 * This is the mechanism under group commit, for databases that execute one statement at a time. It
 * knows nothing of queues, threads or time. */
#ifndef DB_BATCH_H
#define DB_BATCH_H

#include "db/unit.h"

typedef struct batch_result {
    size_t taken;     /* how many units, from the first, have an answer */
    size_t undecided; /* how many of these, at the end, are undecided: ask driver->settle() */
    pawl_code code;   /* the rest was not applied, come back later: PAWL_BUSY, PAWL_UNREACHABLE;
                         or PAWL_OK */
    int restarts;     /* how often the database threw a transaction away */
    int locked;       /* the unit after those taken, tried alone, waits for a row lock of a foreign
                         transaction: the others can go on without it; code is PAWL_OK */
} batch_result;

/* Apply `count` units in order. Each unit's guards see the writes of the units before it; a unit
 * that is refused or fails leaves nothing behind and harms no other. Answers are written into the
 * units; no callback is called. `pass` counts passes over the life of the connection. */
batch_result batch_apply(db_conn *c, unit **units, size_t count, uint64_t *pass, error *err);

/* ---- What drivers with an apply() of their own share with it ---- */

/* A transient failure: another writer is in the way, or the server cannot be reached. Nothing was
 * written, and a later attempt may succeed. */
int batch_is_passing(pawl_code code);

/* batch_remember() is called before the first attempt at a batch. batch_start_over() is called
 * before each attempt at a unit, and forgets the attempt before. */
void batch_remember(unit **units, size_t count);
void batch_start_over(unit *u);

/* Provisional answers. */
void batch_commit_unit(unit *u);
void batch_refuse(unit *u, const char *why);
void batch_fail(unit *u, const error *err);
void batch_fail_all(unit **units, size_t count, const error *err);

/* The answer to the COMMIT is lost: the units are undecided. */
void batch_undecided(unit **units, size_t count, const error *err);

/* At the end of every transaction: the submitters of units that are not committed are broken, so
 * that no later unit of theirs is committed. */
void batch_break_submitters(unit **units, size_t count);

/* Gives the value of parameter `i` (from 0) of the statement: the value itself or, where the
 * parameter refers to an earlier statement of the unit, the column which that one has returned. */
pawl_code batch_resolve(const unit_stmt *s, int i, const db_value **out, error *err);

#endif
