/* Threads of engines, simulated one at a time by the only thread there is.
 *
 * The simulator is linked so that pthread_create() and what threads wait with come here (--wrap in
 * the Makefile): an engine under pawl_serve() has its runners, its committer's helper and its
 * keeper as it has them anywhere, each on a stack of its own, and chance says which of them goes
 * on: until it waits, is in a work function, or is about to begin a transaction. A thread that
 * waits for a condition goes on when the condition is signalled or its time has come, never for
 * nothing: a signal that is forgotten is a thread that stands still, and is seen.
 *
 * The simulator itself is the first of them. While it waits, the others have their turns; where
 * none of them can go on, time passes. */
#ifndef SIM_THREADS_H
#define SIM_THREADS_H

#include <pthread.h>
#include <stdint.h>

struct fleet;
struct fleet_node;

/* Threads belong to this world from now on; NULL: to none, and calls go to the system. All that
 * were started must have ended. */
void threads_open(struct fleet *f);

/* A thread of this node that is not joined. */
void threads_spawn(struct fleet_node *n, void *(*fn)(void *arg), void *arg);

/* One of those that can go on does, of this node or, with NULL, of any. 0: none can. */
int threads_run_one(struct fleet *f, const struct fleet_node *only);

/* Only this node's threads go on, whichever others wait; NULL: all do. */
void threads_only(const struct fleet_node *only);

/* When the first of those that wait wants to go on, as the monotonic clock; INT64_MAX: none. */
int64_t threads_next_ns(void);

/* 1: the caller is the simulator itself, not the thread of an engine. */
int threads_is_main(void);

/* The calling thread lets others go on; or does nothing for a while, by the monotonic clock. */
void threads_yield(void);
void threads_sleep(int64_t ms);

/* For clock_source.wait. */
int threads_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns);

#endif
