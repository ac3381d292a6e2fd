/* The change feed (change data capture for runs): which runs have changed, for caches and
 * dashboards.
 *
 * A unit that changes a run in a way that clients can see adds a row to {changes} (run_note() in
 * run_units.h). A position stands for everything up to it: on a database where one writes at a time
 * it is the key of a row; elsewhere rows become visible in another order than that in which they
 * got their keys, so that it is the number of a transaction, and the feed ends below the oldest
 * transaction that is still under way (B6). */
#ifndef QUERY_CHANGE_FEED_H
#define QUERY_CHANGE_FEED_H

#include <pawl.h>

#include "db/db.h"

/* For committer_options.on_noted; `arg` is the pawl *. Waiters in this process read at once, and
 * readers in others, if there are any, are notified. */
void change_feed_noted(void *arg);

/* Upkeep by the node loop, which reads on `conn`, in no transaction. To be called every _LOOK_MS:
 * is the feed asked for? One that was not asked for in a while is no longer written. */
enum { CHANGE_FEED_LOOK_MS = 5000, CHANGE_FEED_SWEEP_MS = 60000 };
void change_feed_look(pawl *p, db_conn *conn);

/* And every _SWEEP_MS: delete old rows. 1: there may be more of them. */
int change_feed_sweep(pawl *p, db_conn *conn);

#endif
