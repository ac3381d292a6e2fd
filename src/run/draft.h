/* The draft of a run: what it has recorded and not committed. It is a unit of the group commit, and
 * what goes with that. After a commit the draft is empty again. */
#ifndef RUN_DRAFT_H
#define RUN_DRAFT_H

#include <pawl.h>

#include "base/arena.h"
#include "db/unit.h"
#include "rows/run_units.h"
#include "run/code.h"

typedef struct run_draft {
    arena *arena;  /* for everything here; NULL: the run is cold */
    unit *unit;    /* NULL: nothing is recorded */
    int handed_in; /* the committer has the unit, or its answer is there and was not looked at */
    int parked;    /* number of the statement that parks the run; -1: none */
    int kept;      /* so many of the first statements tell of what was done outside */
    int64_t seq;   /* of the last row that was added; 0: none since the run was warmed */
    int children;  /* number of children that the unit starts */
    int executed;  /* executions of work functions that the draft records, for sched/at_risk.h */

    run_line *lines; /* for the log, once the unit is committed */
    run_line *last_line;
    run_status status;                /* the custom status, to be written with the unit */
    int status_rides;                 /* a statement of the unit writes the status already */
    struct attribute_set *attributes; /* to be written with the unit */
    struct run_sent *sent;            /* messages to other runs, and starts: cross_run.h */
    submitter submitter;
} run_draft;

#endif
