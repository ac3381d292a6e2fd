/* Hand-over: a run that is started where it can be executed at once is inserted already owned by
 * this node, and goes to a runner without ever having been looked for. In steps:
 *
 *     1. handover_owner(s, &b)           owner: this node, or none
 *     2. run_insert_write(u, &b, …), commit
 * 3. handover_started(s, &b, made) an own run goes to a runner; other nodes are told of the rest
 *
 * Between steps 1 and 3 this engine does not cease to be a node. */
#ifndef SCHED_HANDOVER_H
#define SCHED_HANDOVER_H

#include "rows/run_insert.h"
#include "sched/sched.h"

/* Fills in `owner`: this node if it can execute the run at once, and has the memory for that;
 * otherwise 0. */
int64_t handover_owner(sched *s, run_insert *b);

/* The start was committed (made), or not. To be called once after each handover_owner(). */
void handover_started(sched *s, const run_insert *b, int made);

/* There is a run that no node owns: nodes that can claim it are notified. */
void handover_offer(sched *s);

#endif
