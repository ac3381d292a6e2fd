/* The deletion of a run and of what is recorded of it, as units: one for a run that is there, one
 * for rows whose run is gone. */
#ifndef ROWS_DELETE_UNITS_H
#define ROWS_DELETE_UNITS_H

#include "db/unit.h"

/* Delete the run and its rows in all tables. Guard "there": there is such a run, and it has ended;
 * with `force` it need not have ended. */
void delete_units_run(unit *u, int64_t run, int force);

/* Delete rows of a run that is gone; of the journal and the inbox at most 5,000 each, since others
 * wait for the transaction. Guard "gone": there is no such run. That stays true: keys of runs are
 * never given again. */
void delete_units_leftovers(unit *u, int64_t run);

#endif
