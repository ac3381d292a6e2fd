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
    map all;  /* by address: what comes from outside may be anything */
    heap due; /* the open ones that become due */
    int64_t answers;
    pawl_future *losers; /* to be abandoned at the next ask; … */
    pawl_future *lost;   /* … and those that are made of others */
    pawl_future *looks;  /* made of others, of which some have ended … */
    pawl_future *looks_last;
    int looking;          /* … while they are evaluated */
    pawl_future *asking;  /* to know what has become of others; see cross_run.h */
    struct call *in_line; /* work that is due, and done on the run's own thread … */
    struct call *in_line_last;
    struct call *beside; /* … or on others, when there is room for it; the first of each … */
    struct call *beside_last; /* … and the last */
} run_futures;

/* A transactional step that is wanted; see transact.h. */
typedef struct run_transact {
    enum {
        TRANSACT_ASKED,  /* for one that has not been tried */
        TRANSACT_GOES,   /* its unit is handed in; when the runner sees it again: committed */
        TRANSACT_FAILED, /* the function has, and the work says how */
    } state;
    unit_guest guest;
    int before; /* statements of the unit that are not its own */
    int here;   /* the thread that has the run in hand is applying it */
} run_transact;

/* The run that has started this one, and the op there that waits for its end; run 0: none. */
typedef struct run_parent {
    int64_t run;
    int64_t generation;
    int64_t op;
} run_parent;

/* What is known of the inbox of the run: inbox.h. */
typedef struct run_mail_state {
    _Atomic int64_t seen;    /* so many rows were looked at … */
    int64_t known;           /* … of so many that are known to be there … */
    atomic_int has_more;     /* … and there may be more */
    struct run_inbox *inbox; /* rows that were read; NULL: the run is cold, or has read none */
} run_mail_state;

/* The jobs of the run: jobs.h. */
typedef struct run_jobs {
    map by_op;
    job_list not_queued; /* they are queued when the draft is committed */
    size_t not_queued_count;
    job_list returned;
    struct job *in_hand; /* its result is being recorded */
} run_jobs;

/* The attempt of a work function on the run's own thread, or inside its transaction: work.h. */
typedef struct run_attempt {
    pawl_work *work;       /* of WANT_WORK and WANT_TRANSACT */
    int is_called;         /* a worker has called it, and its result is there */
    pawl_work *saved;      /* the same, when the fiber was dropped meanwhile; NULL: none. See
                              sched/work_threads.h */
    run_transact transact; /* of WANT_TRANSACT */
    int64_t expired_op;    /* an attempt of this op ran out of time … */
    int64_t expired;       /* … the one with this number … */
    int64_t expired_began_ms;
} run_attempt;

/* Names of attributes, as far as the function asked for them; in the arena of the replay. */
typedef struct run_names {
    struct run_name *first;
    int known;  /* they were read from the database; otherwise the run has said nothing yet */
    int failed; /* memory was out */
} run_names;

void run_add_name(pawl_run *run, slice name); /* an attribute that it has */
void run_write_status(pawl_run *run);         /* into the unit, which is about to be handed in */
void run_forget_status(pawl_run *run);        /* it was committed, or never will be */

#endif
