/* Threads of this process that wait for a run, or for the change feed: condition variables, found
 * by the id of the run.
 *
 * A waiter (1) adds its watch, (2) reads the database, (3) sleeps if there is nothing new yet, and
 * reads again. Whatever is committed in this process after (1) is told to the watch, so no change
 * is missed between (2) and (3). Changes by other processes are found after a second at the latest,
 * when the sleep ends by itself. */
#ifndef HANDLE_WATCHES_H
#define HANDLE_WATCHES_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/slice.h"

enum { WATCH_LISTS = 256 };

/* How a generation of a run has ended, as the row of the run says. */
typedef struct watch_end {
    int64_t run; /* the key: a run that was deleted and started again has another one */
    int64_t generation;
    int64_t phase; /* a number of the column `phase` of {runs} */
    slice output;  /* at NULL: the column is NULL */
    slice error;
} watch_end;

/* The id under which the change feed is watched: no run has an empty id. */
#define WATCH_FEED SLICE_LIT("")

typedef struct watch {
    struct watch *next;
    slice id;
    pthread_cond_t cond;
    int told;       /* 1: there is something new since the last sleep */
    int stops;      /* how often the engine had been asked to stop when the wait began */
    watch_end *end; /* how the run has ended, in one block of memory; NULL: not known */
} watch;

typedef struct watches {
    pthread_mutex_t lock; /* may be taken inside the lock of the scheduler, never the reverse */
    clock_source *clock;
    atomic_int count; /* number of watches in all lists */
    atomic_int stops; /* how often the engine was asked to stop */
    atomic_int marks; /* number of units under way that mark the run of a wait (src/api/wait.c) */
    watch *lists[WATCH_LISTS];
} watches;

void watches_init(watches *all, clock_source *clock);
void watches_free(watches *all);

/* watches_add() begins to watch `id`, whose bytes must stay until watches_remove(). PAWL_NOMEM:
 * nothing was added, and nothing is to be removed. */
pawl_code watches_add(watches *all, watch *w, slice id, error *err);
void watches_remove(watches *all, watch *w);

/* Sleeps until the watch is told of something new, at most a second, and not past the deadline.
 * PAWL_CLOSED: the engine was asked to stop since the watch was added. */
pawl_code watches_sleep(watches *all, watch *w, int64_t deadline_ns, error *err);

/* watches_tell() says that the run with this id has changed: its waiters wake and read again.
 * watches_tell_all() wakes all waiters. */
void watches_tell(watches *all, slice id);
void watches_tell_all(watches *all);

/* watches_tell(), after a commit with which the run has ended: its waiters need not read how. The
 * texts are copied. */
void watches_tell_end(watches *all, slice id, const watch_end *end);

/* Gives what watches_tell_end() has told the watch since it was added, until watches_remove(); NULL
 * if nothing. An end may be told long after its commit: so an end of another run with this id, and
 * of a generation before this one, is forgotten. For the waiter itself. */
const watch_end *watches_end(watches *all, watch *w, int64_t run, int64_t generation);

/* Says that the engine is asked to stop: the waiters give up when they wake. Async-signal-safe. */
void watches_stop(watches *all);

#endif
