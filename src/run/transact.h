/* Transactional steps: work inside the very transaction that records it (A8).
 *
 * The transaction is the run's unit, handed to a committer that has nothing else to do
 * (db/guest_committer.h): the lock of the node's row, the fence, the function, the rows that the
 * run has recorded, the op's row, COMMIT. So the op's row is durable together with what the
 * function wrote, or neither is. The run's own thread applies it, on its own stack.
 *
 * A failure is recorded in an ordinary unit, since the transaction is gone with it. An attempt that
 * will be made again leaves a row, and the run sleeps as any run does. */
#ifndef RUN_TRANSACT_H
#define RUN_TRANSACT_H

#include "run/run.h"

/* ---- For the runner ---- */

/* May what the run has recorded wait for the transaction? Not if it tells of what was done outside,
 * which would be done again if the process dies in the function. Nor if it locks the run's own row,
 * or those of other runs, since a sender would wait for the function. Nor if jobs wait for it. */
int transact_rides(const pawl_run *run);

/* Put guard, function and row into the unit. 0: memory is out. */
int transact_build(pawl_run *run);

/* The unit has its answer. 1: the function has failed, or the commit because of what it wrote: the
 * work says how, and the unit has what was recorded before, to be committed with the failure. 0:
 * the unit counts as submitted. */
int transact_has_failed(pawl_run *run);

#endif
