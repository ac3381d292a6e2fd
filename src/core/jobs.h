/* Jobs: attempts of work functions beside the workflow function, on other threads of the engine.
 *
 * A job is the run's, not its fiber's: the fiber may be dropped and replayed while the function is
 * being called, and finds its job again by the op and the attempt. It is queued when everything
 * that the run has recorded so far is durable. When it is done the run is woken, and takes what
 * came of it at its next wait; nothing is recorded by the thread that did it.
 *
 * Only so many of a run are on their way at a time: a fan-out of a hundred thousand does not stand
 * before what others have to do. */
#ifndef CORE_JOBS_H
#define CORE_JOBS_H

#include "core/run.h"

struct drive;
struct runner;

typedef enum {
    JOB_NEW,      /* not queued yet */
    JOB_QUEUED,   /* in the list of the drive, or of a work function that is full */
    JOB_RUNS,     /* a thread is in it */
    JOB_DONE,     /* it has returned */
    JOB_EXPIRED,  /* its time was over: the thread is still in it, and has the work for itself */
    JOB_NOT_DONE, /* the node's claim was not good, or it stops: to be tried again */
} job_state;

typedef struct job {
    struct job *next; /* in the list where it is */
    struct job *previous;
    pawl_run *run; /* NULL: nobody waits for it */
    pawl_work *work;
    int64_t op;
    int64_t attempt;
    int64_t began_ms;
    job_state state;
    int crowded; /* it waits for a place in its work function */
} job;

/* ---- For the run, on its fiber ---- */

/* Make jobs of the calls that are due, as far as there is room. */
void jobs_start(pawl_run *run);

/* Record what has been done; so many have returned. */
int jobs_collect(pawl_run *run);

/* 1 if this op has one that was queued. */
int jobs_has(pawl_run *run, int64_t op);

/* Nobody waits for it: a function that is being called is asked to stop. */
void jobs_cancel(pawl_run *run, int64_t op);

/* ---- For the runner ---- */

/* What was recorded is durable: queue the new ones. Without the lock. */
void jobs_queue(pawl_run *run);

/* The fiber goes: those that were not queued go with it. The run goes: nobody waits for any. */
void jobs_forget_new(pawl_run *run);
void jobs_forget(pawl_run *run);

/* The function was left, and clean-ups follow: those that have not begun are forgotten, the others
 * asked to stop. The clean-ups wait for these as long as a drain takes. */
void jobs_let_return(pawl_run *run);

/* The next one; NULL: none. With the lock held. */
job *jobs_take(struct drive *d);

/* Do it, on the thread's own stack. Without the lock. */
void jobs_do(struct runner *r, job *j);

/* Nobody waits for the thread that is in it, which keeps the work: its time is over, or the engine
 * stops, and then nobody knows what comes of it. With the lock held. */
void jobs_take_away(struct drive *d, pawl_work *w, int is_over);

/* There is a place in a work function again: queue the first that waits for it. With the lock. */
void jobs_ask_in(struct drive *d, work_entry *w);

/* Ask all that are being called for this run to stop. With the lock held. */
void jobs_ask_to_stop(pawl_run *run);

#endif
