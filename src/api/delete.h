/* Deleting what runs have left, for the node loop (orphan_rows.h). The public call, pawl_delete(),
 * is in the same file. */
#ifndef API_DELETE_H
#define API_DELETE_H

#include "base/error.h"
#include "db/db.h"

struct sched;

/* There is no run of this key any more: delete its rows in all tables, and the children, live or
 * ended, that name it as their parent, with theirs. Reads on `c`, which is in no transaction. If
 * there is such a run after all, nothing is done. *more: there were too many rows for one
 * transaction that others have to wait for; the rest is for another call. */
pawl_code delete_leftovers(struct sched *d, db_conn *c, int64_t run, int *more, error *err);

#endif
