/* Committers for units with guests: transactions in which code of the application runs.
 *
 * Such a unit takes as long as that code likes. So it is never in a batch (no group commit) and
 * never on a connection that other units wait for: there are a few separate committers, opened on
 * demand, each for one unit at a time. The thread that hands in the unit applies it and calls the
 * guest. An undecided commit is settled by the same rules as any other; until then its committer
 * accepts nothing new.
 *
 * Where one transaction writes at a time (DB_TURNS) there is one, and all other writers wait for it
 * all the same. */
#ifndef DB_GUEST_COMMITTER_H
#define DB_GUEST_COMMITTER_H

#include "db/committer.h"

enum { GUEST_COMMITTERS_MAX = 4 };

typedef struct guest_committers guest_committers;

/* Nothing is opened yet. `options` as for committers; may be NULL. NULL: memory is out. */
guest_committers *guest_committer_new(db *d, const committer_options *options);
void guest_committer_free(guest_committers *a); /* as committer_close(); NULL is allowed */

/* Applies a unit as committer_apply() does, with a guest committer that is free. If none becomes
 * free within busy_ms (by hand: if none is free now), the unit is answered PAWL_BUSY. */
pawl_code guest_committer_apply(guest_committers *a, unit *u);

/* The node for which the guest committers commit, and their first slot. */
void guest_committer_set_node(guest_committers *a, int64_t node, int64_t first_slot, int64_t token);

/* These do for all guest committers what the functions of committer.h do for one: what is under way
 * is waited for, what is undecided is settled, or given up. */
int guest_committer_flush(guest_committers *a, int64_t deadline_ns);
void guest_committer_give_up(guest_committers *a);
int guest_committer_drive(guest_committers *a);
int64_t guest_committer_next_ns(guest_committers *a);

/* A guest committer, for its statistics; NULL: it is not open. */
committer *guest_committer_at(guest_committers *a, int index);

#endif
