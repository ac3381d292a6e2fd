/* What is known of the failure of a unit that is kept: for unit_retry.c, which keeps it and tries
 * again, and unit_retry_look.c, which releases it and tells of it. */
#ifndef SCHED_KEPT_H
#define SCHED_KEPT_H

#include "sched/unit_retry.h"

/* What is known of the failure of a unit that is kept (run->draft.unit). Other threads than the one
 * that has the run in hand use `code`, `released`, `seen`, `what` and `words`, so these are changed
 * with the lock of the scheduler held. */
struct kept {
    pawl_code code;
    int tries;      /* number of such failures so far (OWN_TRIES) */
    int undone;     /* the unit was a transactional step: it was rolled back with its function,
                          which is executed again */
    int is_carried; /* of such a unit: its run is being replayed for another try, and what is known
                          of the failure stays */
    int is_held;    /* of such a unit: the row of the run says that it is held */
    int told;       /* {runs}.trouble tells of the failure */
    int released;   /* the hold is over: the unit is to be tried again */
    int unheld;     /* it was logged that record and hold were refused */
    int64_t seen;   /* the last look that found the run held; below 0: not found yet */
    arena *unit_arena; /* the memory of `unit` */
    unit *unit;        /* a small unit beside: the probe, words in the row, the hold */
    char what[UNIT_RETRY_NAME_SIZE]; /* what is not recorded */
    char words[256];                 /* the message of the database */
};

#endif
