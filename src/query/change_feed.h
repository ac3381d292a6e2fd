/* The change feed (change data capture for runs): which runs have changed, for caches and
 * dashboards.
 *
 * A unit that changes a run in a way that clients can see adds a row to {changes} (run_note() in
 * run_units.h). A position stands for all changes up to it. On a database with one writer at a time
 * it is the key of a row. With several writers rows become visible in another order than that of
 * their keys; so there a position is the number of a transaction, and the feed ends below the
 * oldest transaction that is still under way (hazard B6). */
#ifndef QUERY_CHANGE_FEED_H
#define QUERY_CHANGE_FEED_H

#include <pawl.h>

#include "db/db.h"

/* For committer_options.on_noted, called after a commit with changes; `arg` is the pawl *. Wakes
 * readers that wait in this process, and notifies those of other processes, if there are any. */
void change_feed_noted(void *arg);

/* To be called by the node loop every CHANGE_FEED_LOOK_MS, with a connection that is in no
 * transaction. Reads whether the feed is asked for, and switches off a feed that was not asked for
 * in a while. */
enum { CHANGE_FEED_LOOK_MS = 5000, CHANGE_FEED_SWEEP_MS = 60000 };
void change_feed_look(pawl *p, db_conn *conn);

/* To be called by the node loop every CHANGE_FEED_SWEEP_MS: deletes old rows. Gives 1 if there may
 * be more of them. */
int change_feed_sweep(pawl *p, db_conn *conn);

#endif
