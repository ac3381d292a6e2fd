/* A thread pool for work functions, beside a caller that drives by hand (the option work_threads).
 *
 * The functions of workflows stay on the caller's thread, inside pawl_poll() or pawl_finish(). A
 * work function that a run asks for is called by a worker: the run waits in a queue of the
 * scheduler, is then in hand of the worker, and comes back to the caller's list when the function
 * has returned; a thread that waits for the descriptor is woken. The result is recorded by the
 * caller, as if the function had been called there. Jobs (jobs.h) are executed by workers too.
 * Transactional steps are not: they are executed by the thread that commits.
 *
 * Workers are runners (sched_internal.h) that call work functions and never resume a fiber. So a
 * time limit, a cancel and a stop find them as they find the threads of an engine that serves
 * (workers.c). A worker whose work was taken from it, because the attempt is out of time, is
 * replaced by a new thread. */
#ifndef SCHED_WORK_THREADS_H
#define SCHED_WORK_THREADS_H

#include "run/run.h"

struct sched;
struct runner;

/* Starts workers until there are as many as the options say. Called with each poll. */
void work_threads_start(struct sched *s);

/* Are there workers? Then the thread that drives by hand calls no work function. */
int work_threads_are_there(const struct sched *s);

/* Stop the worker threads, as workers_stop() does, before the node leaves. Runs whose work function
 * no worker has called yet go back to the caller's list. */
void work_threads_stop(struct sched *s);

/* The run waits for a worker to call its work function, and is not in hand any more. The
 * concurrency limit has let it in already. */
void work_threads_give(struct sched *s, pawl_run *run);

/* work_threads_look() ends the attempts that are out of time. work_threads_next_ns() tells when the
 * next one will be, as mono_ns. By hand. */
void work_threads_look(struct sched *s);
int64_t work_threads_next_ns(struct sched *s);

#endif
