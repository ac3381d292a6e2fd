/* The turnstile: fair turns for the writers of several processes on one SQLite file.
 *
 * SQLite's busy handler polls, so that a process may starve for seconds while another commits in
 * a loop; and one plain lock is not enough, since who lets go of it takes it again first. Two
 * locks are: take T, take M, write, let go of T, commit, let go of M. Whoever wants in again must
 * queue for T behind those who wait there. T is kept for the first half of a turn because the
 * one who has just left comes back at once: it must find T taken, or it would pass all who are
 * still being woken.
 *
 * It is fairness only, never safety: SQLite's own lock is. So who has waited long enough (for a
 * stopped process, say) goes on without it. */
#ifndef DB_TURNSTILE_H
#define DB_TURNSTILE_H

#include "base/clock.h"
#include "db/nodes_file.h"

typedef struct turnstile turnstile;

/* `file` is borrowed. `by_hand`: never block, never make a thread. NULL when memory is out. */
turnstile *turnstile_new(nodes_file *file, clock_source *clock, int by_hand, int64_t patience_ms);
void turnstile_free(turnstile *t);

/* 1: go on, with the turn, or without it after patience_ms. 0 (by hand only): come back. */
int turnstile_enter(turnstile *t);

/* In the middle of the turn, before the long part of it: the next one may step up. */
void turnstile_pass(turnstile *t);
void turnstile_leave(turnstile *t);

/* How long the longest wait for a turn was, and how often patience ended. */
int64_t turnstile_wait_ns_max(turnstile *t);
int64_t turnstile_given_up(turnstile *t);

#endif
