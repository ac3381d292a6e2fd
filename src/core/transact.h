/* Transactional steps: work inside the very transaction that records it (A8).
 *
 * The transaction is the run's unit, handed to a committer that has nothing else to do
 * (db/alone.h): the lock of the node's row, the fence, the function, the rows that the run has
 * recorded, the op's row, COMMIT. So the op's row is durable together with what the function wrote,
 * or neither is. It is the run's own thread that applies it, on its own stack.
 *
 * A failure is recorded in an ordinary unit, since the transaction is gone with it. An attempt that
 * will be made again leaves a row, and the run sleeps as any run does. */
#ifndef CORE_TRANSACT_H
#define CORE_TRANSACT_H

#include "core/run.h"

struct runner;

/* Is this thread inside the function of a pawl_transact()? Then its step has failed by that: who
 * asks was called by it. For everything public on a handle. */
int transact_is_inside(void);

/* ---- For the runner ---- */

/* May what the run has recorded wait for the transaction? Not if it tells of what was done outside:
 * that would be done again if the process dies in the function. Nor what locks the run's own row,
 * or others': whoever sends something to it would wait for the function. Nor if others wait for
 * it: jobs. */
int transact_rides(const pawl_run *run);

/* Put guard, function and row into the unit. 0: memory is out. */
int transact_build(pawl_run *run);

/* Apply it, instead of committer_submit(). 1: the function has failed, and the run is still in
 * hand, with what it had recorded. 0: it is as any unit that was submitted. */
int transact_apply(struct runner *r, pawl_run *run);

/* The unit's answer, where it comes: 1 if it is for transact_apply() to look at. */
int transact_answered(pawl_run *run, const unit *u);

#endif
