/* The draft of a run: what it has recorded and not committed. It consists of a unit of the group
 * commit, and of what belongs to that unit. After a commit the draft is empty again. */
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
    int handed_in; /* 1: the committer has it, or the runner has not dealt with its answer */
    /* Index in the unit of the guard with which the turn ends: the UPDATE that parks the run, ends
     * it, makes it failing, or begins its next generation. -1: the unit has none. */
    int turn_end_stmt;
    int kept;     /* number of statements up to the last one that records an effect outside; a cut
                     keeps these */
    int64_t seq;  /* seq of the last journal row that was added; 0: none was since the run was
                     warmed */
    int children; /* number of children that the unit starts */
    int executed; /* executions of work functions that the draft records, for sched/at_risk.h */

    run_line *lines; /* log lines to be written when the unit is committed */
    run_line *last_line;
    run_status status;                /* the custom status, to be written with the unit */
    int status_rides;                 /* a statement of the unit writes the status already */
    struct attribute_set *attributes; /* to be written with the unit */
    struct run_sent *sent;            /* statements of the unit that concern other runs:
                                         cross_run.h */
    submitter submitter;
} run_draft;

#endif
