/* Deleting the rows that deleted runs have left, for the node loop (orphan_rows.h). The public
 * call, pawl_delete(), is in the same file. */
#ifndef API_DELETE_H
#define API_DELETE_H

#include "base/error.h"
#include "db/db.h"

struct sched;

/* Deletes the rows that the deleted run of this key has left in all tables, and its descendants,
 * live or ended. Reads on `c`, which is in no transaction. If a run of this key exists after all,
 * nothing is done. Sets *more to 1 if there were too many rows for one transaction, which would
 * keep other transactions waiting: call again for the rest. */
pawl_code delete_leftovers(struct sched *s, db_conn *c, int64_t run, int *more, error *err);

#endif
