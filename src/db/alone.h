/* Committers for units with guests: transactions in which code of the application runs.
 *
 * Such a unit takes as long as that code likes. So it is never in a batch with others, and never on
 * a connection that others wait for: there are a few committers besides, made when they are first
 * needed, each for one unit at a time. The thread that brings the unit applies it, guest and all.
 * An undecided commit is settled by the same rules as everybody else's; until then that committer
 * takes nothing new.
 *
 * Where one transaction writes at a time (DB_TURNS) there is one, and everybody else waits for it
 * all the same. */
#ifndef DB_ALONE_H
#define DB_ALONE_H

#include "db/committer.h"

enum { ALONE_MAX = 4 };

typedef struct alone alone;

/* Nothing is opened yet. `options` as for committers; may be NULL. NULL: memory is out. */
alone *alone_new(db *d, const committer_options *options);
void alone_free(alone *a); /* as committer_close(); NULL is allowed */

/* As committer_apply(), by one that is free. If there is none for busy_ms (by hand: now), the unit
 * is answered PAWL_BUSY. */
pawl_code alone_apply(alone *a, unit *u);

/* The node for which they commit, and their first slot. */
void alone_set_node(alone *a, int64_t node, int64_t first_slot);

/* As those of a committer, for all of them: what is under way is waited for, what is undecided is
 * settled, or given up. */
int alone_flush(alone *a, int64_t deadline_ns);
void alone_give_up(alone *a);
int alone_drive(alone *a);
int64_t alone_next_ns(alone *a);

/* One of them, to be asked for its figures; NULL: it was not needed so far. */
committer *alone_at(alone *a, int index);

#endif
