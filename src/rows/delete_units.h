/* Deleting a run and everything that is recorded of it, as units: one for an existing run, one for
 * rows whose run is gone. */
#ifndef ROWS_DELETE_UNITS_H
#define ROWS_DELETE_UNITS_H

#include "db/unit.h"

/* Deletes the run and its rows in all tables but the change feed, where they stay until they are
 * old. Guard "there": the run exists and has ended; with `force` it only has to exist. */
void delete_units_run(unit *u, int64_t run, int force);

/* Deletes rows of a run that is gone. From the journal and the inbox at most 5,000 rows each are
 * deleted, since other transactions wait for this one. Guard "gone": there is no such run. That
 * stays true, since keys of runs are never given again. */
void delete_units_leftovers(unit *u, int64_t run);

#endif
