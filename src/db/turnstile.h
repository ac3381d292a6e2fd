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
 * It is fairness only; safety is SQLite's own lock. So a process that has waited for patience_ms
 * (because the holder is stopped, say) goes on without it. */
#ifndef DB_TURNSTILE_H
#define DB_TURNSTILE_H

#include "base/clock.h"
#include "db/liveness_file.h"

typedef struct turnstile turnstile;

/* `file` is borrowed. `by_hand`: never block, never make a thread. NULL when memory is out. */
turnstile *turnstile_new(liveness_file *file, clock_source *clock, int by_hand,
                         int64_t patience_ms);
void turnstile_free(turnstile *t);

/* 1: go on, with the turn, or without it after patience_ms. 0 (by hand only): come back. */
int turnstile_enter(turnstile *t);

/* In the middle of the turn, before the commit: releases T, so that the next process queues. */
void turnstile_pass(turnstile *t);
void turnstile_leave(turnstile *t);

/* The longest wait for a turn, and how often a writer went on without one. */
int64_t turnstile_wait_ns_max(turnstile *t);
int64_t turnstile_given_up(turnstile *t);

#endif
