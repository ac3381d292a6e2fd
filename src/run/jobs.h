/* Jobs: attempts of work functions (activities) beside the workflow function: on other threads of
 * the engine or, where one thread drives by hand, on that thread while the fiber waits.
 *
 * A job belongs to the run, not to its fiber. The fiber may be dropped and the function replayed
 * while a thread executes the job; the replay finds the job again by op and attempt. A job is
 * queued when everything that the run has recorded before is durable. When the work function has
 * returned, the run is woken, and records the result at its next wait; the thread that has executed
 * the job records nothing.
 *
 * A run has at most JOBS_MAX jobs at a time (jobs.c), so that a fan-out of a hundred thousand does
 * not block the jobs of other runs. */
#ifndef RUN_JOBS_H
#define RUN_JOBS_H

#include "run/run.h"

typedef enum {
    JOB_NEW,      /* not queued yet: what the run has recorded is not durable */
    JOB_QUEUED,   /* in the queue of the host, or waiting for a slot of its work function */
    JOB_RUNS,     /* a thread is in its work function */
    JOB_DONE,     /* the work function has returned */
    JOB_EXPIRED,  /* its time is over. A thread that is still in the work function owns the
                     `pawl_work`, and frees it on return */
    JOB_NOT_DONE, /* not executed: the claim may be lost, or the run leaves this node; the attempt
                     is made later */
} job_state;

typedef struct job {
    struct job *next; /* in a job_list */
    struct job *previous;
    pawl_run *run; /* NULL: the result is not needed any more */
    pawl_work *work;
    int64_t op;
    int64_t attempt;
    int64_t began_ms;
    job_state state;
    int at_limit; /* 1: the job waits for a slot of its work function (concurrency limit) */
    int at_risk;  /* 1: the host counts the execution as at risk, until its result is in a draft */
} job;

/* job_list_add() adds a job at the end of a list, and job_list_remove() takes it out. job_free()
 * frees a job and its `pawl_work`. */
void job_list_add(job_list *list, job *j);
void job_list_remove(job_list *list, job *j);
void job_free(job *j);

/* ---- For the run, on its fiber ---- */

/* Makes jobs of the calls that are due (run_futures.beside), until the run has JOBS_MAX jobs. */
void jobs_start(pawl_run *run);

/* Records the results of jobs that have returned. Returns 1 if there were such jobs. */
int jobs_collect(pawl_run *run);

/* Cancels the job of an op. If a thread executes the job, its work function is asked to stop. */
void jobs_cancel(pawl_run *run, int64_t op);

/* ---- Before the run is given back ----
 *
 * Before a run is given back (by a hold, the time-out of pawl_finish(), a stop, a close), this
 * process commits the results of the run's jobs, since they are nowhere else:
 *   1. Jobs that have not begun are called off. The runner waits for jobs that have begun.
 *   2. The runner resumes the fiber, which records their results and parks again.
 *   3. The results are committed, and then the run is given back (sched/runner_leave.c). */

/* Called by a wait at the end of the journal. Leaves the function by jobs_leave() if the run is to
 * be given back (jobs_run_leaves()) and a job has returned. */
void jobs_leave_if_due(pawl_run *run);

/* jobs_take_in() records the results of jobs that have returned. jobs_leave() does so too, and has
 * the runner give the run back (WANT_LEAVE); it does not return. */
void jobs_take_in(pawl_run *run);
_Noreturn void jobs_leave(pawl_run *run);

/* Returns 1 if jobs_take_in() can still record all results after the function was left for want of
 * memory: the function had come past the last row of the journal, no row is missing, and each job
 * has its future. */
int jobs_may_be_taken_in(pawl_run *run);

/* Returns 1 if no further job of the run may begin: an operator has held the run, or the host gives
 * its runs back. */
int jobs_run_leaves(const pawl_run *run);

/* Calls off the jobs that are queued. Returns 1 if others are being executed. For the runner,
 * without the lock. */
int jobs_call_off(pawl_run *run);

/* jobs_returned() returns 1 if a job has returned and its result is not recorded.
 * jobs_have_returned() is the same with the lock held. */
int jobs_returned(pawl_run *run);
int jobs_have_returned(const pawl_run *run);

/* Returns how many jobs of the run are being executed. With the lock held. */
size_t jobs_running(const pawl_run *run);

/* ---- For the runner ---- */

/* jobs_forget_new() frees the jobs that are not queued yet, and lets results that were being
 * recorded be recorded again, because the fiber is dropped. jobs_forget() drops all jobs, because
 * the run needs no results any more. */
void jobs_forget_new(pawl_run *run);
void jobs_forget(pawl_run *run);

/* Frees the jobs that are queued. With the lock held. */
void jobs_forget_queued(pawl_run *run);

/* Asks the work functions of all jobs of the run to stop. With the lock held. */
void jobs_ask_to_stop(pawl_run *run);

#endif
