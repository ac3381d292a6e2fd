/* The draft of a run: what the run has recorded since its last commit. It consists of a unit of the
 * group commit, and of what belongs to that unit. After a commit the draft is empty again. */
#ifndef RUN_DRAFT_H
#define RUN_DRAFT_H

#include <pawl.h>

#include "base/arena.h"
#include "db/unit.h"
#include "rows/run_units.h"
#include "run/code.h"

typedef struct run_draft {
    arena *arena;  /* memory of the draft; NULL: the run is cold */
    unit *unit;    /* NULL: nothing is recorded */
    int handed_in; /* 1: the unit was handed to the committer, and the runner has not dealt with the
                      answer yet */
    /* Index in the unit of the guard with which the turn ends: the UPDATE that parks the run, holds
     * it, ends it, makes it failing, or begins its next generation. -1: the unit has none. */
    int turn_end_stmt;
    int kept;     /* number of statements up to the last journal row that is a deed (op_is_deed());
                     runner_cut() takes out those behind it */
    int64_t seq;  /* seq of the last journal row in a unit since the run was warmed; 0: there was
                     none */
    int executed; /* number of executions of work functions whose results are in the draft
                     (sched/at_risk.h) */
    /* Number of children that the unit starts, set to 0 by each commit: not of all children of the
     * run. From BIRTHS_PER_UNIT on the unit is committed (ops_child.c). */
    int unit_children;

    run_line *lines; /* log lines, written to the log when the unit is committed */
    run_line *last_line;
    run_status status;                /* custom status that the unit is to write */
    int status_rides;                 /* 1: the statement that ends the turn writes the status */
    struct attribute_set *attributes; /* attributes that the unit is to write */
    struct run_sent *sent;            /* statements of the unit that concern other runs
                                         (cross_run.h) */
    submitter submitter;
} run_draft;

#endif
