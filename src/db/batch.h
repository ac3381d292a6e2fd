/* A batch: units applied one after the other in one transaction.
 *
 * This is the mechanism under group commit, for databases that execute one statement at a time. It
 * knows nothing of queues, threads or time. */
#ifndef DB_BATCH_H
#define DB_BATCH_H

#include "db/unit.h"

typedef struct batch_result {
    size_t taken;     /* how many units, from the first, have an answer */
    size_t undecided; /* how many of these, at their end, are undecided: ask driver->settle() */
    pawl_code code;   /* PAWL_BUSY or PAWL_UNREACHABLE: the units after those taken were not
                         applied, and have to be applied later; otherwise PAWL_OK */
    int restarts;     /* how often the database threw a transaction away */
    int locked;       /* 1: the unit after those taken was tried alone and met a row lock of a
                         foreign transaction. The units behind it can be applied without it, and
                         `code` is PAWL_OK */
} batch_result;

/* Apply `count` units in order. Each unit's guards see the writes of the units before it; a unit
 * that is refused or fails leaves nothing behind and harms no other. Answers are written into the
 * units; no callback is called. `*pass` counts the passes (transactions) of the connection over its
 * life. */
batch_result batch_apply(db_conn *c, unit **units, size_t count, uint64_t *pass, error *err);

/* ---- For batch_apply() and drivers that have an apply() of their own ---- */

/* Returns 1 if the code is that of a transient failure: another writer is in the way, or the server
 * cannot be reached. Nothing was written, and a later attempt may succeed. */
int batch_is_passing(pawl_code code);

/* batch_remember() marks the arenas of the units; to be called before the first attempt at a batch.
 * batch_start_over() takes a unit back to that mark, so that nothing of an earlier attempt is left;
 * to be called before each attempt at the unit. */
void batch_remember(unit **units, size_t count);
void batch_start_over(unit *u);

/* Set the provisional answer of a unit: committed; refused, by the guard called `why`; failed.
 * batch_fail_all() is for an error that is not the units' own, such as a begin() that failed. */
void batch_commit_unit(unit *u);
void batch_refuse(unit *u, const char *why);
void batch_fail(unit *u, const error *err);
void batch_fail_all(unit **units, size_t count, const error *err);

/* The answer to the COMMIT is lost: set the answers to UNIT_UNDECIDED, and keep the provisional
 * answers until the fate of the commit is known. */
void batch_undecided(unit **units, size_t count, const error *err);

/* Break the submitters of the units that are not committed, so that none of their later units is
 * committed. To be called at the end of every transaction. */
void batch_break_submitters(unit **units, size_t count);

/* Set *out to the value of parameter `i` (from 0) of the statement: the value itself or, where the
 * parameter is a db_from(), the column that the earlier statement of the unit has returned. */
pawl_code batch_resolve(const unit_stmt *s, int i, const db_value **out, error *err);

#endif
