/* Several committers as one, for databases where several transactions can write at a time: group
 * commit, sharded by a key.
 *
 * A server commits more units when several batches are under way: while one batch waits for its
 * flush the next is executed. Units are spread by a key, and equal keys have the same committer: a
 * run, and with it its submitter, has one committer for life, so that order and prefix rule hold as
 * they do with one. Units of different committers are committed in no particular order, like those
 * of different processes, and only their guards protect them from each other.
 *
 * Where one transaction writes at a time (DB_TURNS) there is one committer at most. */
#ifndef DB_COMMITTERS_H
#define DB_COMMITTERS_H

#include "db/committer.h"
#include "db/guest_committer.h"

typedef struct committers committers;

/* Open `count` committers with the same options, each with bounds of its own. With a count of 0,
 * for a read-only handle, nothing can be committed. The database must outlive them. */
pawl_code committers_open(committers **out, db *d, const committer_options *options, int count,
                          error *err);

/* Closes the committers one after the other, as committer_close() does. A `done` may hand in units
 * to the committer that calls it, but to no other, which may have been freed. */
void committers_close(committers *c); /* NULL is allowed */

int committers_count(const committers *c);
committer *committers_at(const committers *c, int index);

/* Returns the committer for units with this key. The units of a run have the key of its row. */
committer *committers_of(const committers *c, uint64_t key);

/* Applies a unit with a guest (unit_call()), as committer_apply() does, but on a separate
 * connection, so that a slow guest does not block the other units. See guest_committer.h. */
pawl_code committers_apply(committers *c, unit *u);

/* From now on the committers commit for this node, each with a slot of its own, numbered from
 * first_slot: committers_count() slots, and then GUEST_COMMITTERS_MAX for units with guests. */
void committers_set_node(committers *c, int64_t node, int64_t first_slot, int64_t token);

/* These do for all committers what committer_leave() and so on do for one (committer.h).
 * committers_next_ns() returns the earliest time. */
void committers_leave(committers *c);
int committers_flush_runs(committers *c, int64_t deadline_ns);
void committers_give_up_runs(committers *c);
int committers_drive(committers *c);
int64_t committers_next_ns(committers *c);

/* Returns PAWL_UNREACHABLE if units of any committer wait because the server cannot be reached;
 * otherwise PAWL_OK. */
pawl_code committers_trouble(committers *c);

/* ---- For tests and benches ---- */

/* The counts of all committers are added up; of each maximum the largest is returned. */
committer_stats committers_stats_now(committers *c);

#endif
