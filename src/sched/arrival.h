/* Arrivals: what has come for a run from outside (a message, the result of a child, a cancel), and
 * how the run hears of it. A run of this process is woken; for any other run all processes are
 * notified. All functions are called without the lock. */
#ifndef SCHED_ARRIVAL_H
#define SCHED_ARRIVAL_H

#include "sched/sched.h"

/* A run was cancelled. If this node has the run in memory, the run is woken, and work functions
 * that are being executed for it are asked to stop. */
void arrival_cancel(sched *s, int64_t run);

/* An arrival for a run of this owner was committed. Wakes the run if it is in memory here;
 * otherwise notifies the other processes. */
void arrival_sent(sched *s, int64_t run, int64_t owner);

/* For the node loop: wakes the runs of this node to which other processes have sent something. */
void arrival_look(sched *s);

#endif
