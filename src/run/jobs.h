/* Jobs: attempts of work functions beside the workflow function, on other threads of the engine.
 *
 * A job belongs to the run, not to its fiber: the fiber may be dropped and replayed while the
 * function is being called, and finds its job again by the op and the attempt. It is queued when
 * everything that the run has recorded so far is durable. When it is done the run is woken, and
 * records the result at its next wait; the thread that executed the job records nothing.
 *
 * Only so many of a run are queued at a time: a fan-out of a hundred thousand does not block the
 * jobs of other runs. */
#ifndef RUN_JOBS_H
#define RUN_JOBS_H

#include "run/run.h"

typedef enum {
    JOB_NEW,      /* not queued yet */
    JOB_QUEUED,   /* in the queue of the host, or of a work function that is full */
    JOB_RUNS,     /* a thread is in its work function */
    JOB_DONE,     /* the work function has returned */
    JOB_EXPIRED,  /* its time was over: the thread that is still in it owns the `pawl_work`, and
                     frees it on return */
    JOB_NOT_DONE, /* the node's claim was not good, or it stops: to be tried again */
} job_state;

typedef struct job {
    struct job *next; /* in the list where it is */
    struct job *previous;
    pawl_run *run; /* NULL: the result is not needed any more */
    pawl_work *work;
    int64_t op;
    int64_t attempt;
    int64_t began_ms;
    job_state state;
    int at_limit; /* the job waits for a slot of its work function */
    int at_risk;  /* the host counts the execution, whose result is not in a draft yet */
} job;

/* Add a job at the end of a list; take it out; free it. */
void job_list_add(job_list *list, job *j);
void job_list_remove(job_list *list, job *j);
void job_free(job *j);

/* ---- For the run, on its fiber ---- */

/* Make jobs of the calls that are due, as far as there is room. */
void jobs_start(pawl_run *run);

/* Record what has been done. 1: some have returned. */
int jobs_collect(pawl_run *run);

/* Cancels the job of an op: a function that is being called is asked to stop. */
void jobs_cancel(pawl_run *run, int64_t op);

/* ---- Before the run is given back ----
 *
 * Whatever gives a run back (a hold, the time-out of pawl_finish(), a stop, a close), the results
 * of its jobs are committed first, by this process, since they are nowhere else. The runner waits
 * for jobs that have begun, resumes the fiber so that it records their results, commits these, and
 * only then lets go of the run. Jobs that have not begun are not begun. */

/* Called where the function has come to the end of its journal. Leaves the function if it is to be
 * left and a job has returned. */
void jobs_leave_if_due(pawl_run *run);

/* jobs_take_in() records the results of jobs that have returned. jobs_leave() does so too, and
 * never goes on with the function. */
void jobs_take_in(pawl_run *run);
_Noreturn void jobs_leave(pawl_run *run);

/* 1 if no other job of the run is begun: it is held, or the host gives its runs back. */
int jobs_run_leaves(const pawl_run *run);

/* Calls off the jobs that have not begun. 1: some have begun, and not returned. For the runner,
 * without the lock. */
int jobs_call_off(pawl_run *run);

/* 1: a result waits to be recorded. jobs_have_returned() is the same with the lock held. */
int jobs_returned(pawl_run *run);
int jobs_have_returned(const pawl_run *run);

/* How many jobs of the run are being executed. With the lock held. */
size_t jobs_running(const pawl_run *run);

/* ---- For the runner ---- */

/* jobs_forget_new(): the fiber is dropped, and jobs that were not queued are freed with it.
 * jobs_forget(): the run is freed, and no result is needed any more. */
void jobs_forget_new(pawl_run *run);
void jobs_forget(pawl_run *run);

/* Frees the jobs that have not begun. With the lock held. */
void jobs_forget_queued(pawl_run *run);

/* Asks all jobs of this run that are being executed to stop. With the lock held. */
void jobs_ask_to_stop(pawl_run *run);

#endif
