/* What the scheduler keeps of each run that is in memory: where the run is, and why it waits. The
 * memory of the slot is allocated with the run (run_host.slot_size). Guarded by the lock of the
 * scheduler, except while the run is in hand: then only the thread that executes it uses the
 * slot. */
#ifndef SCHED_RUN_SLOT_H
#define SCHED_RUN_SLOT_H

#include "base/heap.h"
#include "run/run.h"

/* Where the run is. */
typedef enum {
    PLACE_READY,    /* in the list of a runner */
    PLACE_IN_HAND,  /* one thread has the run: a runner that executes it, or a worker of
                       work_threads.h that calls its work function */
    PLACE_COMMITS,  /* the unit of the run is submitted, and not answered yet */
    PLACE_SLEEPS,   /* the run waits for its timer or for an arrival */
    PLACE_AT_LIMIT, /* in the list of a work function that is full: work_limit.h */
    PLACE_IN_DOUBT, /* the unit of the run is undecided: no thread touches the run */
    PLACE_GONE,     /* not in memory any more */
} run_place;

/* What becomes of a unit that was not committed: unit_retry.h. */
typedef enum {
    KEPT_NOT,   /* the unit was committed, or there is none */
    KEPT_WAITS, /* the unit is submitted again when the storage works */
    KEPT_ASKS,  /* it failed for an unknown reason: a small write is tried, to see whether the
                   storage works */
    KEPT_TELLS, /* that write was committed: the reason of the failure is being written into the row
                   of the run */
    KEPT_HOLDS, /* the record was refused for good: the unit that holds the run is submitted */
    KEPT_HELD,  /* the run is held, and sleeps until it is released */
    KEPT_FREES, /* it was released, and its transactional step is to be executed again: the unit
                   that ends the hold is submitted */
} run_keeps;

typedef struct run_slot {
    int runner; /* index of the runner that the fiber belongs to */
    _Atomic run_place place;
    pawl_run *next;   /* in the list where the run is */
    timer timer;      /* in the node's timers, while the run sleeps */
    int put_off;      /* the run sleeps to be tried again, and not because its function waits: an
                         arrival does not wake it */
    int left_line;    /* the run has left the line for a slot since its deadline has passed */
    int is_returning; /* the submitted unit gives the run back */
    int stays;        /* the run was kept in memory at the end of pawl_finish() (leave.c) */
    int end_told;     /* the calls that wait for the run were told of its end, or that it is held.
                         With the lock held */

    /* Quarantine (quarantine.h). */
    int64_t claims;      /* {runs}.claims when the run came into memory */
    int64_t claimed_seq; /* the length of the journal when the run was claimed */
    int64_t quiet_ns;    /* a run that is let out alone is not let out before this time (mono_ns) */
    int marked;          /* the row says that the run is being executed */
    int marks;           /* the submitted unit marks the row in this way, and does nothing else */
    int alone_told;      /* the log says that the run is executed alone */
    atomic_int cleared;  /* the run was let out alone and did no harm: a death of the process does
                            not count for it */

    /* Holds (hold.h). */
    int64_t held;   /* for which reason the run was held when it was claimed (HELD_…); 0: it was
                       not */
    slice held_for; /* what the run was held for, in the memory of the run; at NULL: it was never
                       held */
    int noted;      /* the column `trouble` of the row is set, and is cleared when the run gets
                       further */

    /* The unit of the run, when the storage does not take it (unit_retry.h). */
    run_keeps keeps;      /* changed with the lock held */
    int retry_counted;    /* sched.failing counts the run */
    int guarded;          /* the unit begins with the guard of run_try_again() */
    struct kept *failure; /* why the unit is kept; NULL: it is not kept, or memory was out */

    int undone; /* the log says that a unit of the run was rolled back, and is made again
                   (runner_unit.c) */

    /* Memory (runner_unit.c). */
    int starved; /* how often in a row memory was out for the run */
    int starves; /* the submitted unit has only what was recorded before memory was out, and words
                    about that: when it is committed the run is put off */

    /* Storage (storage_backoff.c). */
    int unread;           /* the rows of the run could not be read, and were not read since:
                             run_failure.h */
    int64_t backoff_ms;   /* the back-off of the run after its last failure to read or commit; 0: it
                             has had none since its last commit */
    int64_t backoff_seen; /* sched.commits at that failure */
    pawl_run *backoff_next;
    pawl_run **backoff_link; /* the pointer to the run in the list sched.backoff_runs; NULL: the run
                                is not in the list */

    /* Work at risk (at_risk.h). */
    int sent;         /* executions that the submitted unit records, until its first answer */
    int collects_not; /* the run cannot collect results of its jobs now. With the lock held */

    /* Work functions. */
    work_entry *asked_in; /* the work function of which a slot is reserved for the run
                             (work_limit.h) */
    int queued_work; /* the run waits for a worker to call its work function (work_threads.h) */

    /* Deferred functions (deferred.h). With the lock held. */
    pawl_run *deferred_next;
    int deferred_told; /* the log says that a stop waits for a deferred function of the run */
} run_slot;

/* Moves the run to this place. Asserted: the table (run_slot.c) has the move. With the lock of the
 * scheduler held, or by the thread that executes the run (PLACE_IN_HAND). */
void run_move(pawl_run *run, run_place to);
int run_may_move(run_place from, run_place to);

#endif
