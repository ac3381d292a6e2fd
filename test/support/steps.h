/* The unit that the crash tests write: it adds one row to the journal of a run.
 *
 * Its guard raises a counter in the row of the run, so that the counter and the journal can be
 * compared afterwards. The guard does not check the order of steps: the submitter keeps that. */
#ifndef SUPPORT_STEPS_H
#define SUPPORT_STEPS_H

#include "db/committer.h"
#include "support/ledger.h"

/* How the unit of a step is meant to end. */
typedef enum {
    STEP_GOOD,
    STEP_REFUSED,  /* refused: its guard demands a fence that the run does not have */
    STEP_COLLIDES, /* failed: its guard passes, but the row that it inserts exists; needs a seq
                      before it */
    STEP_ORDERED,  /* committed; a second guard needs the row that the first guard has made, so
                      that the two must be executed in order */
} step_kind;

typedef struct step {
    int64_t run;
    int64_t seq;
    int64_t mark; /* the number by which the row is known (ledger.h); kept in the column `at` */
    step_kind kind;
    slice data;
} step;

/* Returns the unit of a step. Fails an assertion if the arena is too small. */
unit *step_unit(arena *a, submitter *owner, const step *s);

/* Returns the entry of the ledger for the answer that the unit has now. */
ledger_entry step_entry(const step *s, const unit *u);

/* Makes the runs `first` to `first + count - 1`, unless they exist. */
pawl_code steps_make_runs(committer *k, int64_t first, int64_t count);

/* Returns the seq of the last row of a run, as a reader sees it; 0: there is none; -1: it could not
 * be read. */
int64_t steps_last_seq(db_conn *reader, int64_t run);

#endif
