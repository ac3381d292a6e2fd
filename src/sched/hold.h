/* Holds: runs that are stopped by trouble that is not their fault, and what lets them go on.
 *
 *   HELD_VERSION   the workflow, or a work function that it calls, is registered nowhere
 *                  -> a node that has it
 *   HELD_MISMATCH  the code does not follow the journal, or has made a mistake in a call (INVALID,
 *                  LIMIT); or memory was out, or the rows of the run could not be read, time after
 *                  time -> another build
 *   HELD_POISON    process after process died while it executed the run -> another build
 *   HELD_STUCK     a clean-up has used up its attempts -> pawl_release()
 *   HELD_RECORD    the database refuses what is to be recorded -> pawl_release(), and the owner,
 *                  which keeps the run (unit_retry.h), tries again; or the death of the owner
 *   HELD_BY_HAND   pawl_hold() -> pawl_release()
 *
 * pawl_release() and a cancel end any hold, and a redrive that of a run without an owner.
 *
 * {runs}.held_for says which nodes need not try: it is the name of the missing work function ("":
 * the workflow itself), or the builds that have tried in vain. Not only the last build is
 * remembered, so that two builds that both cannot go on do not hand a run to and fro for ever. A
 * node that claims a run out of such a hold, and then lacks a work function of it, has not tried:
 * the hold stays what it was, and the function is added to the list.
 *
 * A node that finds a held run which it can drive claims it, and does not merely release it: so the
 * node that could not drive it does not get it again. Whether a node has a workflow is in {offers},
 * since a node cannot see that the others do not claim a run. */
#ifndef SCHED_HOLD_H
#define SCHED_HOLD_H

#include "base/arena.h"
#include "db/db.h"
#include "run/registry.h"

struct sched;
struct claim;

/* How long a run is due before it is held because no node has its workflow. */
enum { HOLD_DUE_MS = 2000 };

/* The position of this node in its walk over the held runs that it may be able to drive. */
typedef struct hold_walk {
    uint64_t offered; /* registry_count() when {offers} was last written */
    int begins; /* the walk is at its beginning: runs that are failing, which need work functions
                   only */
    const workflow *at; /* the workflow whose held runs are read; NULL: the walk is over, unless it
                           begins */
    int round;          /* 0 to 5: by which reason and which version runs are read */
    int64_t after;      /* the key of the last run that was read */
    int64_t again_ns;   /* when the next walk begins */
} hold_walk;

/* Runs whose deadline has passed while they are held, and whose rows another transaction keeps
 * locked. Zeroed: none were met, and each round reads the list from its beginning. */
typedef struct hold_over {
    int64_t deadline_ms; /* with `run`: the run that was tried last; the next round goes on behind
                            it … */
    int64_t run;
    int64_t again_ns; /* … and from this moment on at the beginning */
    int64_t lost_ns;  /* time lost to locks since the beginning */
} hold_over;

/* ---- For the node loop ---- */

/* Writes into {offers} which workflows this node has, if that has changed. */
void hold_offer(struct sched *s);

/* Makes runs of this node that were held by hand stop, at their next point where no function is
 * being executed. */
void hold_rest(struct sched *s);

/* If the run is in memory here, the node gives it back at the next point where its function is not
 * being executed. */
void hold_stop_driving(struct sched *s, int64_t run);

/* Cancels held runs whose deadline has passed, since no timer runs for them. */
void hold_deadlines(struct sched *s);

/* Claims held runs that can go on here. Gives their number. */
int64_t hold_walk_on(struct sched *s);

/* May this held run go on here? */
int hold_ends_here(struct sched *s, const struct claim *c);

/* 1 if a live node has the workflow of this name and version; "": any version. On a connection in a
 * transaction. */
int hold_is_offered(struct sched *s, db_conn *conn, slice name, slice version);

/* ---- Builds that have tried ---- */

/* Adds a build to the list, in the arena; at NULL: memory is out. The oldest builds are dropped
 * when the list is too long. */
slice hold_tried(arena *a, slice list, const char *build);

/* Adds a work function that a node must have to try. */
slice hold_lacking(arena *a, slice list, const char *work);

/* ---- For tests ---- */

/* 1 if this build is in the list. */
int hold_has_tried(slice list, const char *build);

#endif
