/* Several committers as one, for databases where several transactions can write at a time: group
 * commit, sharded by a key.
 *
 * A server does more when several batches are under way: while one waits for its flush the next is
 * executed. Units are spread by a key, and equal keys have the same committer: a run, and with it
 * its submitter, has one committer for life, so that order and prefix rule hold as they do with
 * one. Units of different committers see each other as those of other processes: by their guards
 * and in no order.
 *
 * Where one transaction writes at a time (DB_TURNS) there is one, whatever was asked for. */
#ifndef DB_COMMITTERS_H
#define DB_COMMITTERS_H

#include "db/committer.h"
#include "db/guest_committer.h"

typedef struct committers committers;

/* `count` committers with the same options; bounds are each one's own. 0: nothing can be committed,
 * as for a read-only handle. The database must outlive them. */
pawl_code committers_open(committers **out, db *d, const committer_options *options, int count,
                          error *err);

/* Closes the committers one after the other, as committer_close() does. A `done` may hand in units
 * to the committer that calls it, and to no other, which may be gone. */
void committers_close(committers *c); /* NULL is allowed */

int committers_count(const committers *c);
committer *committers_at(const committers *c, int index);

/* The committer of this key: of a run, its row key. */
committer *committers_of(const committers *c, uint64_t key);

/* A unit with a guest (unit_call()): as committer_apply(), on a separate connection, so that a slow
 * guest does not block the other units. See guest_committer.h. */
pawl_code committers_apply(committers *c, unit *u);

/* From now on the committers commit for this node, each with a slot of its own: first_slot and
 * those after it, as many as committers_count(), and GUEST_COMMITTERS_MAX for units with guests. */
void committers_set_node(committers *c, int64_t node, int64_t first_slot, int64_t token);

/* These do for all committers what the functions of committer.h do for one. committers_next_ns()
 * gives the earliest time. */
void committers_leave(committers *c);
int committers_flush_runs(committers *c, int64_t deadline_ns);
void committers_give_up_runs(committers *c);
int committers_drive(committers *c);
int64_t committers_next_ns(committers *c);

/* PAWL_UNREACHABLE: units of a committer wait because the server cannot be reached; or PAWL_OK. */
pawl_code committers_trouble(committers *c);

/* ---- For tests and benches ---- */

/* Figures are sums, maxima are maxima. */
committer_stats committers_stats_now(committers *c);

#endif
