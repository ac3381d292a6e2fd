/* Leftovers of deleted runs: garbage collection by the node loop.
 *
 * A run that is deleted by force may still be driven by a node that does not know it. Until its
 * next park that node records rows of the run, and may start children of it. Two things take these
 * away:
 *
 *   1. The node that drove the run is refused at the park, and notes the key of the run
 *      (sched/orphan_notes.h). Its next look deletes what the run has left.
 *   2. Each node walks over the keys in the tables of runs, some pages a second, and deletes what
 *      belongs to no run any more: of processes that died before their park, and of older versions.
 *      The walk steps from key to key along an index, so that a page costs the same however long
 *      the journals are. At the end of the tables it rests for a while.
 *
 * A key is never given twice, and rows of a run are never there before the run: so what has no run
 * has none for good. */
#ifndef API_ORPHAN_ROWS_H
#define API_ORPHAN_ROWS_H

#include "sched/chores.h"

typedef struct orphan_rows {
    struct sched *sched;
    db_conn *conn;   /* of the look that is under way */
    int64_t page_ns; /* when the next page is to be looked at; 0: there was no look so far */
    int table;       /* where the walk is … */
    int64_t after;   /* … behind this key */
} orphan_rows;

/* The chore, to be run at every look; its `arg` is an orphan_rows. Delete what noted runs have
 * left, and some pages of the walk. */
chore_fn orphan_rows_look;

#endif
