/* Hand-over: a run that is started on a node that can execute it at once is inserted with this node
 * as its owner, and goes to a runner without a claim. In steps:
 *
 * 1. handover_owner(s, &b)                owner: this node, or none
 * 2. run_insert_write(u, &b, …), commit
 * 3. handover_started(s, &b, made)        an own run goes to a runner; for a run without an owner
 *    the other nodes are notified
 *
 * An engine that stops waits for step 3 before it ceases to be a node; but only for a second if it
 * has left a thread in a function that does not return (close_door() in sched.c). */
#ifndef SCHED_HANDOVER_H
#define SCHED_HANDOVER_H

#include "rows/run_insert.h"
#include "sched/sched.h"

/* Fills in `owner`: this node if it can execute the run at once and has reserved the memory for the
 * run; otherwise 0. */
int64_t handover_owner(sched *s, run_insert *b);

/* To be called once after each handover_owner(). `made`: the start was committed. */
void handover_started(sched *s, const run_insert *b, int made);

/* There is a run that no node owns: nodes that can claim it are notified. */
void handover_offer(sched *s);

#endif
