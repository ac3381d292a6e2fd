/* Arrivals: what has come for a run from outside (a message, the result of a child, a cancel), and
 * how the run hears of it. A run of this process is woken; for any other run all processes are
 * notified. All functions are called without the lock. */
#ifndef SCHED_ARRIVAL_H
#define SCHED_ARRIVAL_H

#include "sched/sched.h"

/* A run was cancelled. If it is one of this node, it and its work functions hear of that. */
void arrival_cancel(sched *s, int64_t run);

/* Something was committed that has arrived for a run of this owner: wake it, or notify. */
void arrival_sent(sched *s, int64_t run, int64_t owner);

/* For the node loop: has another process sent something to runs that sleep here? */
void arrival_look(sched *s);

#endif
