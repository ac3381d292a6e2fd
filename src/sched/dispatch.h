/* The dispatcher: what a runner does next. Worker threads and a caller that drives by hand use the
 * same one, so that runs, jobs and quarantined runs have their turns in the same way under both. */
#ifndef SCHED_DISPATCH_H
#define SCHED_DISPATCH_H

#include "sched/sched_internal.h"

/* Does one thing: brings dormant runs back that were called, executes a job, executes a run until
 * it waits, or leads a group commit. With the lock held, which is released meanwhile. 0: there was
 * nothing to do. */
int dispatch_one(runner *r);

/* Is there a job or a run for this runner? With the lock held. */
int dispatch_has(runner *r);

#endif
