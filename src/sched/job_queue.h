/* The queue of jobs (run/jobs.h): attempts of work functions beside their runs, which wait for a
 * thread of the engine or, if the work function has a concurrency limit, for a place in it. */
#ifndef SCHED_JOB_QUEUE_H
#define SCHED_JOB_QUEUE_H

#include "run/jobs.h"
#include "sched/sched_internal.h"

/* ---- Queueing (job_queue.c) ---- */

/* What the run has recorded is durable: its new jobs are queued. Without the lock. */
void job_queue_add(pawl_run *run);

/* The run sleeps until one of its jobs returns. 0: there is a result already, and the run is still
 * in hand. Without the lock. */
int job_queue_await(pawl_run *run);

/* Is there a job that this runner is to execute? job_queue_take() gives the next one; NULL: none.
 * With the lock held. */
int job_queue_has(const runner *r);
job *job_queue_take(sched *s);

/* A queued job leaves the queue without being executed. With the lock held. */
void job_queue_remove(sched *s, job *j);

/* There is a place in a work function again: the first job that waits for it is queued. With the
 * lock held. */
void job_queue_ask_in(sched *s, work_entry *w);

/* The job comes back to its run, which is woken. With the lock held. */
void job_queue_give_back(sched *s, job *j, job_state state);

/* ---- Executing (job_call.c) ---- */

/* Call the work function, on the thread's own stack. Without the lock. */
void job_call(runner *r, job *j);

/* The run waits no longer for the thread that is in the job, because the job is out of time
 * (is_over) or the engine stops. The thread keeps the work and frees it on return. With the lock
 * held. */
void job_call_off(sched *s, pawl_work *w, int is_over);

/* The function of the run was left, and clean-ups follow: jobs that have not begun are forgotten,
 * the others asked to stop. The clean-ups wait for these as long as a drain takes. Without the
 * lock. */
void job_call_end_all(pawl_run *run);

#endif
