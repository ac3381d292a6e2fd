/* Functions that were given to pawl_defer(), while they are being called. They free what their run
 * has in this process, so a stop cannot leave them behind: it waits for them, and tells of those
 * that take longer than drain_ms.
 *
 * They are called on a worker, which workers_stop() waits for, or by the thread that stops the
 * engine, when it frees the runs. That thread cannot watch itself: a thread of its own does it. */
#ifndef SCHED_DEFERRED_H
#define SCHED_DEFERRED_H

#include "run/run.h"

struct sched;

typedef struct deferred {
    pawl_run *first; /* runs whose deferred functions are being called, linked by deferred_next */
    pthread_t thread;
    int watches; /* `thread` was started */
    int over;    /* 1: that thread is to end */
} deferred;

/* A deferred function of the run is called (`begins` 1), and has returned (0). */
void deferred_note(struct sched *s, pawl_run *run, int begins);

/* Writes a line of the log for each run that is in a deferred function, once. With the lock
 * held. */
void deferred_tell(struct sched *s);

/* The calling thread is about to free these runs, linked by `next`; and has freed them. */
void deferred_watch(struct sched *s, const pawl_run *runs);
void deferred_watch_end(struct sched *s);

#endif
