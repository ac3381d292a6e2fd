/* Garbage collection: the node loop deletes rows that deleted runs have left.
 *
 * A run that is deleted by force may still be driven by a node that does not know of the deletion.
 * Until its next park that node records rows of the run, and may start children of it. They are
 * deleted in two ways:
 *
 *   1. The unit of the park is refused, and the node that drove the run notes the run's key
 *      (sched/orphan_notes.h). The next round of its node loop deletes what the run has left.
 *   2. Each node walks over the keys in the tables of runs, some pages a second, and deletes rows
 *      whose run does not exist: they come from processes that died or were stopped before their
 *      park, and from older versions. The walk steps from key to key along an index, so that a page
 *      costs the same however long the journals are. At the end of the tables it rests for a while.
 *      An engine that becomes a node again walks at once.
 *
 * A key is never given twice, and a run's own row is the first to be written: so a key that has no
 * run will never have one. */
#ifndef API_ORPHAN_ROWS_H
#define API_ORPHAN_ROWS_H

#include "sched/chores.h"

typedef struct orphan_rows {
    struct sched *sched;
    db_conn *conn;   /* the connection of the present round */
    int64_t node;    /* the node that the engine was in the last round; 0: before the first one */
    int64_t page_ns; /* when the next pages are to be read; 0: before the first round */
    int table;       /* the table that the walk is in */
    int64_t after;   /* the walk goes on after this key of the table */
    int64_t stays;   /* the key whose rows could not be deleted, as the log says; 0: none */
} orphan_rows;

/* The chore, to be run in every round; its `arg` is an orphan_rows. Deletes what the noted runs
 * have left, and then the orphan rows of some pages of the walk. */
chore_fn orphan_rows_look;

#endif
