/* What the scheduler keeps of each run that is in memory: where the run is, and why it waits. The
 * memory of the slot is allocated with the run (run_host.slot_size).
 *
 * Guarded by the lock of the scheduler, except where one thread has the run in hand. */
#ifndef SCHED_RUN_SLOT_H
#define SCHED_RUN_SLOT_H

#include "base/heap.h"
#include "run/run.h"

/* Where the run is. */
typedef enum {
    PLACE_READY,    /* in the list of a runner */
    PLACE_IN_HAND,  /* a runner has it */
    PLACE_COMMITS,  /* its unit is on its way */
    PLACE_SLEEPS,   /* among the timers */
    PLACE_AT_LIMIT, /* in the list of a work function that is full: work_limit.h */
    PLACE_IN_DOUBT, /* its unit is undecided: no thread touches the run */
    PLACE_GONE,
} run_place;

/* What becomes of a unit that was not committed: unit_retry.h. */
typedef enum {
    KEPT_NOT,
    KEPT_WAITS, /* it is handed in again when the storage works */
    KEPT_ASKS,  /* it failed for an unknown reason: is a small write committed? */
    KEPT_TELLS, /* it is: the run's row is to tell of its trouble */
    KEPT_HOLDS, /* its record was refused for good: the unit that holds the run is on its way */
    KEPT_HELD,  /* the run is held, and sleeps until it is released */
} run_keeps;

typedef struct run_slot {
    int runner; /* index of the runner that the fiber belongs to */
    _Atomic run_place place;
    pawl_run *next;   /* in the list where the run is */
    timer timer;      /* of the node's */
    int put_off;      /* it sleeps to be tried again, and not because its function waits */
    int is_returning; /* the unit on its way gives the run back */

    /* Quarantine (quarantine.h). */
    int64_t claims;      /* without getting further … */
    int64_t claimed_seq; /* … than this row of the journal */
    int64_t quiet_ns;    /* until then it is not let out */
    int marked;          /* its row says that it is being executed */
    int marks;           /* the unit on its way says so */
    atomic_int cleared;  /* it was let out alone, and did no harm: it is not counted */

    /* Holds (hold.h). */
    slice held_for; /* in the memory of the run; at NULL: it was never held */
    int noted;      /* its row tells of trouble, which is over when it gets further */

    /* Its unit, when the storage does not take it (unit_retry.h). */
    run_keeps keeps;      /* changed with the lock held */
    int retry_counted;    /* sched.failing counts the run */
    int guarded;          /* the unit begins with the guard of a second try */
    struct kept *failure; /* why it is kept; NULL: it is not, or memory was out */

    /* Memory (runner_unit.c). */
    int starved; /* how often in a row memory was out … */
    int starves; /* … and the unit on its way says so, with what was recorded before */

    /* Storage (storage_backoff.c). */
    int64_t trouble_ms;   /* it failed the run, for the last time so long; 0: it did not */
    int64_t trouble_seen; /* commits of others when it last did */
    pawl_run *trouble_next;
    pawl_run **trouble_at; /* in the list of runs that wait for the storage; NULL: not there */

    /* Work functions. */
    work_entry *asked_in; /* there was a place for the run in this function: work_limit.h */
    int queued_work;      /* it waits for a worker to call it: work_threads.h */
} run_slot;

/* The run is now in this place. Asserted: the table (run_slot.c) has the move. With the lock of
 * the scheduler held, or by the thread that has the run in hand. */
void run_move(pawl_run *run, run_place to);
int run_may_move(run_place from, run_place to);

#endif
