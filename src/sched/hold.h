/* Holds: runs that are stopped by trouble that is not their fault, and what lets them go on.
 *
 *   HELD_VERSION   the workflow, or a work function that it calls, is registered nowhere
 *                  -> a node that has it
 *   HELD_MISMATCH  the code does not follow the journal -> another build
 *   HELD_POISON    process after process died of it -> another build
 *   HELD_RECORD    the database refuses what is to be recorded -> pawl_release(), and its owner,
 *                  which keeps it (unit_retry.h), tries again; or the death of that owner
 *   HELD_BY_HAND   -> pawl_release(), which lets all the others go on too
 *
 * {runs}.held_for says what that depends on: the name of the work function ("": the workflow
 * itself); or the builds that have tried it in vain. Those are all remembered, so that two builds
 * that both cannot go on do not hand a run to and fro for ever.
 *
 * A node that finds a held run which it can drive claims it: so it is not taken again by the one
 * that could not. Whether a node has a workflow is in {offers}, since a node cannot see that the
 * others do not claim a run. */
#ifndef SCHED_HOLD_H
#define SCHED_HOLD_H

#include "base/arena.h"
#include "db/db.h"
#include "run/registry.h"

struct sched;
struct claim;

/* So long a run is due before it is held because no node has its workflow. */
enum { HOLD_DUE_MS = 2000 };

/* Where this node has got to in looking for held runs that it can drive. */
typedef struct hold_walk {
    uint64_t offered;   /* registry_count() when it was told last what this node has */
    int begins;         /* with what is failing: it needs work functions only */
    const workflow *at; /* NULL: the walk is over, unless it only begins */
    int round;          /* which reason, and which of the versions */
    int64_t after;      /* key of the last run */
    int64_t again_ns;   /* when to walk again */
} hold_walk;

/* ---- For the node loop ---- */

/* Write down which workflows this node offers, if that has changed. */
void hold_offer(struct sched *d);

/* Stop driving runs that were held by hand. */
void hold_rest(struct sched *d);

/* If this run is here it gives itself back, where its function is not being executed. */
void hold_stop_driving(struct sched *d, int64_t run);

/* Cancel held runs whose deadline has passed: no timer runs for them. */
void hold_deadlines(struct sched *d);

/* Claim held runs that can go on here. Gives their number. */
int64_t hold_walk_on(struct sched *d);

/* May this held run go on here? */
int hold_ends_here(struct sched *d, const struct claim *c);

/* 1 if a live node has it. `version` "": any. On a connection in a transaction. */
int hold_is_offered(struct sched *d, db_conn *conn, slice name, slice version);

/* ---- Builds that have tried ---- */

/* The list with one more; in the arena, at NULL when that is full. The oldest are forgotten. */
slice hold_tried(arena *a, slice list, const char *build);

/* ---- For tests ---- */

/* 1 if this build is in the list. */
int hold_has_tried(slice list, const char *build);

#endif
