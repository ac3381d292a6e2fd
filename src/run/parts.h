/* The structs that a pawl_run consists of (run.h). The comment of each names the file that uses it
 * most. */
#ifndef RUN_PARTS_H
#define RUN_PARTS_H

#include <pawl.h>

#include <stdatomic.h>

#include "base/heap.h"
#include "base/map.h"
#include "db/unit.h"
#include "run/registry.h"

/* The futures of the function, which are ops that have begun and may be waited for: futures.h. */
typedef struct run_futures {
    map all;                           /* all futures, by address: a pointer that the function hands
                                          in is looked up here */
    heap due;                          /* open futures, by the time at which they become due */
    int64_t answers;                   /* number of futures that have got an answer */
    pawl_future *cancelled;            /* futures of ops, to be cancelled before the next op */
    pawl_future *cancelled_composites; /* composite futures, to be cancelled then too */
    pawl_future *looks; /* composite futures to be evaluated, since parts of them have ended */
    pawl_future *looks_last;
    int looking;          /* 1: a loop evaluates the list `looks` */
    pawl_future *asking;  /* futures for which the state of another run is to be read
                             (cross_run.h) */
    struct call *in_line; /* calls that are due, to be made on the run's own thread */
    struct call *in_line_last;
    struct call *beside; /* calls that are due, to be made on other threads */
    struct call *beside_last;
} run_futures;

/* The transactional step that the function has asked for: transact.h. */
typedef struct run_transact {
    enum {
        TRANSACT_ASKED,  /* no attempt was made yet */
        TRANSACT_GOES,   /* the unit with the step was handed in; the runner resumes the fiber when
                            that is committed */
        TRANSACT_FAILED, /* the step has failed, as attempt.work says */
    } state;
    unit_guest guest;
    int before; /* number of statements in the unit that are not the step's */
    int here;   /* 1: runner_transact() is applying the unit, and deals with the answer itself; the
                   unit's callback must leave the run alone */
} run_transact;

/* The run that has started this one as its child, and the op of that run which waits for the child
 * to end; run 0: there is no parent: cross_run.h. */
typedef struct run_parent {
    int64_t run;
    int64_t generation;
    int64_t op;
} run_parent;

/* What was read of the run's inbox: inbox.h. */
typedef struct run_inbox_state {
    _Atomic int64_t seen;   /* the inbox was read up to this seq; a park compares it with
                               {runs}.mail */
    int64_t known;          /* {runs}.mail as it was read last: the number of arrivals until then */
    atomic_int has_more;    /* 1: more may have arrived since `known` was read */
    struct run_inbox *rows; /* rows that were read and not consumed; NULL: the run is cold, or has
                               read nothing */
} run_inbox_state;

/* The jobs of the run: jobs.h. */
typedef struct run_jobs {
    map by_op;           /* all jobs except new ones, by the op of their call */
    job_list not_queued; /* new jobs, which are queued when the draft is committed */
    size_t not_queued_count;
    job_list returned; /* jobs that have returned, or were not executed */
    job_list in_hand;  /* jobs whose results jobs_collect() is recording */
} run_jobs;

/* An attempt of a work function on the run's own thread, also of a transactional step: work.h. */
typedef struct run_attempt {
    pawl_work *work;  /* the attempt to be made, with WANT_WORK and WANT_TRANSACT */
    int is_called;    /* 1: the attempt `work` is over, and there is no row of its result yet */
    pawl_work *saved; /* earlier attempts that are over and have no row; work_keep() puts them here
                         when the fiber is dropped */
    run_transact transact;    /* with WANT_TRANSACT */
    int64_t expired_op;       /* op of an attempt that was taken from its thread since it ran out of
                                 time; 0: none was. The replayed function asks for that attempt
                                 again, and is told that it has expired */
    int64_t expired;          /* its attempt number */
    int64_t expired_began_ms; /* when the first attempt of its call began */
} run_attempt;

/* The names of the run's attributes, which pawl_attr() counts; in the arena of the replay:
 * ops_status.c. */
typedef struct run_names {
    struct run_name *first;
    int known;  /* 1: the names were read from the database; the first pawl_attr() that is new does
                   that */
    int failed; /* 1: memory was out while a name was added */
} run_names;

/* Adds a name to run->names. If memory is out, sets run->names.failed. */
void run_add_name(pawl_run *run, slice name);

/* run_write_status() adds the custom status, the attributes and the state that the function has set
 * to the unit, which is about to be handed in. run_forget_status() drops the status and the
 * attributes from the draft: the unit was committed or cut, or the fiber is dropped. For the state,
 * state.h has functions of its own. */
void run_write_status(pawl_run *run);
void run_forget_status(pawl_run *run);

#endif
