/* The change feed (change data capture for runs): which runs have changed, for caches and
 * dashboards.
 *
 * A unit that changes a run in a way that clients can see adds a row to {changes} (run_note() in
 * run_units.h). A position stands for all changes up to it. On a database with one writer at a time
 * a position is the key of a row. With several writers, rows become visible in another order than
 * that of their keys. So there a position is the number of a transaction, and the feed ends below
 * the oldest transaction that is still under way (hazard B6). */
#ifndef QUERY_CHANGE_FEED_H
#define QUERY_CHANGE_FEED_H

#include <pawl.h>

#include "db/db.h"

/* For committer_options.on_noted, called after a commit with changes; `arg` is the pawl *. Wakes
 * readers that wait in this process, and notifies other processes if any reader has asked for the
 * feed. */
void change_feed_noted(void *arg);

/* To be called by the node loop every CHANGE_FEED_LOOK_MS, with a connection that is in no
 * transaction. Reads whether a reader has asked for the feed, which tells change_feed_noted()
 * whether to notify other processes. Switches off a feed for which no reader has asked for long. */
enum { CHANGE_FEED_LOOK_MS = 5000, CHANGE_FEED_SWEEP_MS = 60000 };
void change_feed_look(pawl *p, db_conn *conn);

/* To be called by the node loop every CHANGE_FEED_SWEEP_MS: deletes old rows. Returns 1 if there
 * may be more of them. */
int change_feed_sweep(pawl *p, db_conn *conn);

#endif
