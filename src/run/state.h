/* Key-value state of a run: the keys that its function has set and read in this generation, and the
 * values that are still to be written. It goes with the fiber; a replay makes it anew. */
#ifndef RUN_STATE_H
#define RUN_STATE_H

#include "run/run.h"

/* Reads the value for which the function has asked (WANT_STATE), on the thread's own stack. `c` is
 * in a transaction. */
pawl_code state_read(pawl_run *run, db_conn *c, error *err);

/* Adds what was set since the last commit to the unit, which is about to be handed in. */
void state_write(pawl_run *run);

/* Forgets the values that were set behind the statements that runner_cut() has kept in the unit
 * (draft.kept). */
void state_cut(pawl_run *run);

/* Forgets all values that are still to be written: the unit has them, and is done with. */
void state_forget(pawl_run *run);

/* Frees the state, because the fiber is dropped. */
void state_drop(pawl_run *run);

#endif
