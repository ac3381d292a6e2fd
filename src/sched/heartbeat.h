/* The heartbeat of a node, on a thread of its own.
 *
 * A work function may take hours, on a thread that drives by hand as on a thread of the engine. The
 * node is alive meanwhile, and has to say so, or another node takes over its runs and executes the
 * same step concurrently. So a node whose heartbeat is a row of {beats} has a thread that writes
 * this row, from its join to its end, however it is driven. Where the heartbeat is a byte lock the
 * kernel keeps it, and nothing is written into the database; the thread notes in memory that the
 * process moves (inflight_file.h), for pawl_why(). On a clock that the program hands in there
 * is no thread, and the node loop sends the heartbeat. */
#ifndef SCHED_HEARTBEAT_H
#define SCHED_HEARTBEAT_H

#include <pthread.h>

struct sched;

typedef struct heartbeat {
    int runs; /* there is a thread; written by the driving thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond; /* signalled when `ends` is set */
    int ends;            /* the thread is to end */
} heartbeat;

void heartbeat_init(heartbeat *h);
void heartbeat_free(heartbeat *h);

/* Starts the thread, which alone uses the connection sched.beats from now on. If the system has no
 * thread to give, the node loop goes on giving heartbeats. */
void heartbeat_start(struct sched *s);

/* Ends the thread, and waits for that; nothing happens if there is none. Before the node resigns: a
 * heartbeat after that would be one of a node that was closed. */
void heartbeat_stop(struct sched *s);

#endif
