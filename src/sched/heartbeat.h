/* The heartbeat of a node, on a thread of its own.
 *
 * A work function may take hours, on a thread that drives by hand as on a thread of the engine. The
 * node is alive meanwhile, and has to send heartbeats, or another node takes over its runs and
 * executes the same step concurrently. So a node whose heartbeat is a row of {beats} has a thread
 * that writes this row, from its join to its end, however the node is driven. Where the heartbeat
 * is a byte lock the kernel keeps it, and nothing is written into the database; the thread notes in
 * memory that the process moves (inflight_file.h), for pawl_why(). With a clock that the program
 * supplies there is no thread, and the node loop sends the heartbeat.
 *
 * The thread also writes the sign of the node's lock (rows/node_sign.h), with a heartbeat: as soon
 * as the notifier has the lock, and as soon as it has lost it. A node without this thread has no
 * sign. */
#ifndef SCHED_HEARTBEAT_H
#define SCHED_HEARTBEAT_H

#include <pthread.h>
#include <stdint.h>

struct sched;

typedef struct heartbeat {
    int runs; /* there is a thread; written by the driving thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t cond; /* signalled when `ends` or `changed` is set */
    int ends;            /* the thread is to end */
    int64_t server;      /* when the server was started at which the node has its lock, as
                          db_channel.lock_for_life says; 0: the node has no lock */
    int64_t judges_ns; /* from then on this node judges others by their locks, if it has its own */
    int changed;       /* `server` was set, and the thread has not seen it yet */
    int hurries;       /* `server` was set: so many heartbeats are tried at 30 ms each, until one is
                          written */
} heartbeat;

void heartbeat_init(heartbeat *h);
void heartbeat_free(heartbeat *h);

/* Starts the thread. From then on only this thread uses the connection sched.beats. If the system
 * cannot start a thread, the node loop goes on sending heartbeats. */
void heartbeat_start(struct sched *s);

/* The node's connection has the lock by which others see its death, at the server that was started
 * at this time; 0: it has lost the lock. Called by the notifier; `arg` is the sched. */
void heartbeat_locked(void *arg, int64_t server);

/* 1: the node may judge others by their locks. Not without a lock of its own, and not soon after it
 * has lost that: what ended its session may have ended those of the others as well. */
int heartbeat_judges(struct sched *s);

/* Ends the thread and waits for its end; does nothing if there is no thread. Called before the node
 * resigns, since a closed node must not send a heartbeat. */
void heartbeat_stop(struct sched *s);

#endif
