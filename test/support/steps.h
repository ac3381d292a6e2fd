/* The unit that the crash tests write: one more row in the journal of a run.
 *
 * Its guard moves a counter in the run's own row, so that guard and write leave traces that can be
 * compared afterwards. It does not care for the order: that is the submitter's. */
#ifndef SUPPORT_STEPS_H
#define SUPPORT_STEPS_H

#include "db/committer.h"
#include "support/ledger.h"

/* How a step is meant to end. */
typedef enum {
    STEP_GOOD,
    STEP_REFUSED,  /* its guard asks for a fence that the run does not have */
    STEP_COLLIDES, /* its guard passes, but its row is there already; needs a seq before it */
    STEP_ORDERED,  /* good, but its second guard needs a row of the first: one after the other */
} step_kind;

typedef struct step {
    int64_t run;
    int64_t seq;
    int64_t mark; /* kept in the column `at`; see ledger.h */
    step_kind kind;
    slice data;
} step;

/* The unit of a step; asserts when the arena is too small. */
unit *step_unit(arena *a, submitter *owner, const step *s);

/* The entry for the answer that the unit has now. */
ledger_entry step_entry(const step *s, const unit *u);

/* Make the runs `first` … `first + count - 1`, unless they are there. */
pawl_code steps_make_runs(committer *k, int64_t first, int64_t count);

/* The last seq of a run, 0 if there is none, as a reader sees it; -1 when that failed. */
int64_t steps_last_seq(db_conn *reader, int64_t run);

#endif
