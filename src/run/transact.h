/* Transactional steps: work inside the very transaction that records it.
 *
 * The transaction is the run's unit, handed to a committer that has nothing else to do
 * (db/guest_committer.h): the lock of the node's row, the fence, the function, the rows that the
 * run has recorded before, the op's row, COMMIT. So the op's row is durable together with what the
 * function wrote, or neither is. The thread that executes the run applies the unit itself, on its
 * own stack.
 *
 * A failure is recorded in an ordinary unit, since the transaction was rolled back. If another
 * attempt follows, the failure has a row, and the run sleeps until that attempt. */
#ifndef RUN_TRANSACT_H
#define RUN_TRANSACT_H

#include "run/run.h"

/* ---- For the runner ---- */

/* Returns 1 if what the run has recorded may be committed by the transaction of the step. 0: it is
 * to be committed before, because it tells of an effect outside, which would be executed again if
 * the process died in the function; because it locks the run's own row or rows of other runs, and
 * senders to these would wait for the function; or because new jobs wait for it. */
int transact_rides(const pawl_run *run);

/* Adds the guard of the fence, the call of the function and the op's row to the unit. 0: memory is
 * out. */
int transact_build(pawl_run *run);

/* Is the unit of the run that of a transactional step? Then the function of the step is part of the
 * transaction, and its writes are rolled back with it. */
int transact_goes(const pawl_run *run);

/* Called when the unit has its answer. Returns 1 if the function has failed, or the commit because
 * of what the function wrote; a statement of pawl's own that the database refuses is no fault of
 * the function. Then attempt.work says how, and the unit has only what was recorded before, to be
 * committed with the failure. 0: the unit is treated as any unit that was submitted. */
int transact_has_failed(pawl_run *run);

#endif
