/* The turnstile: a fair (FIFO) lock for the writers of several processes on one SQLite file.
 *
 * SQLite's busy handler polls, so that a process may starve for seconds while another commits in a
 * loop; and one plain lock is not enough, since the process that releases it is the first to take
 * it again. So a turn uses two byte locks:
 *   1. Take T, then take M.
 *   2. Write, then release T: the next process takes T and waits for M.
 *   3. Commit, then release M.
 * A process that comes back must queue for T behind all that wait there. T is kept for the first
 * half of a turn because the process that has just left comes back at once: it must find T taken,
 * or it would overtake those that are still being woken.
 *
 * The turnstile is for fairness only; safety is SQLite's own lock. So a process that has waited for
 * patience_ms (because the holder of a lock is stopped, say) goes on without a turn. */
#ifndef DB_TURNSTILE_H
#define DB_TURNSTILE_H

#include "base/clock.h"
#include "db/liveness_file.h"

typedef struct turnstile turnstile;

/* A turnstile on two locks of `file`, which must outlive it. `by_hand`: never block, never make a
 * thread. NULL when memory is out. */
turnstile *turnstile_new(liveness_file *file, clock_source *clock, int by_hand,
                         int64_t patience_ms);
void turnstile_free(turnstile *t);

/* Wait for a turn. 1: go on, with the turn, or without it after patience_ms. 0 (by hand only): the
 * turn has not come yet, call again later. */
int turnstile_enter(turnstile *t);

/* turnstile_pass() is called in the middle of the turn, before the commit: it releases T, so that
 * the next process takes it and waits for M. turnstile_leave() ends the turn: it releases M. */
void turnstile_pass(turnstile *t);
void turnstile_leave(turnstile *t);

/* The longest wait for a turn, in ns, and how often a writer went on without one. */
int64_t turnstile_wait_ns_max(turnstile *t);
int64_t turnstile_given_up(turnstile *t);

#endif
