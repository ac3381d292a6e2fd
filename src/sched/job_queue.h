/* The queue of jobs (run/jobs.h): attempts of work functions beside their runs, which wait for a
 * thread of the engine or, if the work function has a concurrency limit, for a place in it. */
#ifndef SCHED_JOB_QUEUE_H
#define SCHED_JOB_QUEUE_H

#include "run/jobs.h"
#include "sched/sched_internal.h"

/* ---- Queueing (job_queue.c) ---- */

/* Queues the new jobs of the run, once the ops that have made them are durable. Without the
 * lock. */
void job_queue_add(pawl_run *run);

/* The run sleeps until one of its jobs returns. 0: a result is there already, and the caller goes
 * on with the run. Without the lock. */
int job_queue_await(pawl_run *run);

/* job_queue_has(): is there a job for this runner? job_queue_take() gives the next job; NULL: there
 * is none. With the lock held. */
int job_queue_has(const runner *r);
job *job_queue_take(sched *s);

/* A queued job leaves the queue without being executed. With the lock held. */
void job_queue_remove(sched *s, job *j);

/* A slot of the work function has become free: the first job that waits for it is queued. With the
 * lock held. */
void job_queue_ask_in(sched *s, work_entry *w);

/* Returns the job to its run, which is woken. With the lock held. */
void job_queue_give_back(sched *s, job *j, job_state state);

/* ---- Executing (job_call.c) ---- */

/* Call the work function, on the thread's own stack. Without the lock. */
void job_call(runner *r, job *j);

/* The run stops waiting for the thread that executes the job, because the job is out of time
 * (is_over) or the engine stops. From then on the thread owns the work and frees it on return. With
 * the lock held. */
void job_call_off(sched *s, pawl_work *w, int is_over);

/* The function of the run was left, and clean-ups follow. Drops the jobs that have not begun, and
 * asks the others to stop; the clean-ups wait for these for drain_ms at most. Without the lock. */
void job_call_end_all(pawl_run *run);

#endif
