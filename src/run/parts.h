/* The parts of a run in memory that are larger than a field (run.h). Each belongs to the file that
 * is named with it. */
#ifndef RUN_PARTS_H
#define RUN_PARTS_H

#include <pawl.h>

#include <stdatomic.h>

#include "base/heap.h"
#include "base/map.h"
#include "db/unit.h"
#include "run/registry.h"

/* What a run has started and not been told the end of, while its function is in memory:
 * futures.h. */
typedef struct run_futures {
    map all;                           /* by address, since the function may hand in any pointer */
    heap due;                          /* open futures, by the time at which they become due */
    int64_t answers;                   /* number of answers so far */
    pawl_future *cancelled;            /* futures of ops that are cancelled before the next op */
    pawl_future *cancelled_composites; /* composite futures that are cancelled with them */
    pawl_future *looks; /* composite futures that are to be evaluated, since parts of them have
                            ended */
    pawl_future *looks_last;
    int looking;          /* these are being evaluated */
    pawl_future *asking;  /* futures for which the state of another run is to be read
                             (cross_run.h) */
    struct call *in_line; /* calls that are due, for the run's own thread */
    struct call *in_line_last;
    struct call *beside; /* calls that are due, for other threads, as far as there is room */
    struct call *beside_last;
} run_futures;

/* The transactional step that the function wants (transact.h). */
typedef struct run_transact {
    enum {
        TRANSACT_ASKED,  /* no attempt was made yet */
        TRANSACT_GOES,   /* its unit is handed in; when the runner sees the run again, it is
                            committed */
        TRANSACT_FAILED, /* the function has failed, and the work says how */
    } state;
    unit_guest guest;
    int before; /* number of statements in the unit before those of the step */
    int here;   /* the thread that has the run in hand is applying the unit */
} run_transact;

/* The run that has started this one, and the op there that waits for its end; run 0: none. */
typedef struct run_parent {
    int64_t run;
    int64_t generation;
    int64_t op;
} run_parent;

/* What is known of the inbox of the run: inbox.h. */
typedef struct run_inbox_state {
    _Atomic int64_t seen;   /* arrivals up to this seq were looked at */
    int64_t known;          /* {runs}.mail as it was read last: so many rows have arrived */
    atomic_int has_more;    /* there may be more rows than `known` */
    struct run_inbox *rows; /* rows that were read; NULL: the run is cold, or has read none */
} run_inbox_state;

/* The jobs of the run: jobs.h. */
typedef struct run_jobs {
    map by_op;
    job_list not_queued; /* new jobs, which are queued when the draft is committed */
    size_t not_queued_count;
    job_list returned;
    job_list in_hand; /* their results are being recorded */
} run_jobs;

/* The attempt of a work function on the run's own thread, or inside its transaction: work.h. */
typedef struct run_attempt {
    pawl_work *work;  /* the attempt that is wanted, with WANT_WORK and WANT_TRANSACT */
    int is_called;    /* the function of `work` has returned, and there is no row of that yet */
    pawl_work *saved; /* attempts of which that is true, too, and whose fiber was dropped
                         (work_keep()) */
    run_transact transact;    /* with WANT_TRANSACT */
    int64_t expired_op;       /* an attempt of this op ran out of time; 0: none did */
    int64_t expired;          /* the number of that attempt */
    int64_t expired_began_ms; /* when the first attempt of that call began */
} run_attempt;

/* Names of attributes, as far as the function asked for them; in the arena of the replay. */
typedef struct run_names {
    struct run_name *first;
    int known;  /* the names were read from the database; otherwise the run has set none yet */
    int failed; /* memory was out while names were added */
} run_names;

void run_add_name(pawl_run *run, slice name); /* the run has an attribute of this name */

/* The status: write it into the unit, which is about to be handed in; forget it, since the unit was
 * committed or never will be. */
void run_write_status(pawl_run *run);
void run_forget_status(pawl_run *run);

#endif
