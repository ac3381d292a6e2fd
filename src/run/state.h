/* Key-value state of a run: what it has set and read in this generation, and what of that is still
 * to be written. Kept with its function, and gone with it: a replay makes it anew. */
#ifndef RUN_STATE_H
#define RUN_STATE_H

#include "run/run.h"

/* Reads the value that the function wants (WANT_STATE), on the thread's own stack; `c` is in a
 * transaction. */
pawl_code state_read(pawl_run *run, db_conn *c, error *err);

/* What was set since the last commit goes into the unit, which is about to be handed in. */
void state_write(pawl_run *run);

/* The unit's statements behind the first `kept` were taken back, and with them what they set. */
void state_cut(pawl_run *run);

/* The unit was committed, or never will be: nothing is left to be written. */
void state_forget(pawl_run *run);

/* The fiber is dropped: frees what is known. */
void state_drop(pawl_run *run);

#endif
