/* Dormant runs: they sleep, this node owns them, and they are not in memory.
 *
 * A run that falls asleep and has no room among the warm ones (warm_bytes) leaves memory. Nothing
 * is written for that: its park has said everything, and its row still names this node as its
 * owner. What the node knows of all its dormant runs is their number, and the time when the first
 * of them is due; only of the first 256 it keeps the keys, for a stop. So a million of them cost no
 * memory. A dormant run comes back
 *
 *   when it is due        dormant_turn() reads pages of the rows of this node by wake_at
 *   when it is called     something was sent to it, it is cancelled or held: dormant_call()
 *
 * by reading its row and its journal; there is no claim, and no commit. A runner that waits brings
 * a called run back itself, so that one thread has to wake for it and not two.
 *
 * Which rows of this node are those of dormant runs? Those of runs that are neither in memory nor
 * about to come there: a place is reserved under the run's key (`coming`) before a claim or a start
 * is handed in (run_queue_reserve()), and before the row of a dormant run is read. A row is read
 * again after that was found, since a run that was in memory may have ended meanwhile. A run that
 * is called while its row is being read is read again, since the row may be older than the call.
 *
 * No run is passed over. Steps of a look, and of a run that leaves:
 *   1. The look notes how far it is going to read, then reads the rows behind its last position.
 *      Runs that are in memory are left out: their own timers wake them.
 *   2. A run leaves only if it is due later than what a look has read or is reading; otherwise it
 *      stays in memory, with its timer.
 * A row whose wake_at is set to an earlier time by another process is found by its message, or by a
 * look that begins at the first row, once in a while. */
#ifndef SCHED_DORMANT_H
#define SCHED_DORMANT_H

#include <stdint.h>

#include "run/run.h"

struct sched;
struct runner;

enum { DORMANT_FEW = 256 };

/* Guarded by the lock of the scheduler. Only the thread that runs the node loop looks for runs that
 * are due. */
typedef struct dormant {
    int64_t count;            /* dormant runs; some may have been deleted */
    int many;                 /* 1: there were more dormant runs than fit into `few`, since the node
                                 has joined */
    int64_t few[DORMANT_FEW]; /* the keys of the dormant runs, unless `many`: the node gives these
                                 runs back when it stops */
    int64_t next_ms;          /* no dormant run is due before this time */
    int64_t seen_ms;          /* the position of the last row that was read: its wake_at … */
    int64_t seen_run;         /* … and its key */
    int64_t reading_ms; /* rows are being read up to this time; INT64_MIN: no look is under way */
    int64_t look_ns;    /* no look for due runs before this time */
    int64_t anew_ns;    /* when a look begins at the first row again */
    int64_t *called;    /* keys of called runs, which are to come back into memory */
    size_t called_count;
    size_t called_room;
    int asks; /* the thread of the node loop was called, and has not begun its look yet */
    int anew; /* the next look begins at the first row */
} dormant;

void dormant_free(struct sched *s);

/* ---- With the lock held ---- */

/* Called when the run is about to sleep until `until_ms`. Returns 1 if it has left the run queue,
 * and the caller frees it; 0: it stays in memory. */
int dormant_leave(struct sched *s, pawl_run *run, int64_t until_ms);

/* Drops a run of this node, as far as is known, from the run queue, and has it come back as its row
 * has it; the caller frees it. If the row is another node's, or is gone, the run is forgotten
 * then. */
void dormant_read_anew(struct sched *s, pawl_run *run);

/* Called when a run of this node that is not in memory is to come back: calls a runner that waits,
 * or else the thread of the node loop. */
void dormant_call(struct sched *s, int64_t run);

/* Has the next look begin at the first row: some dormant run is due, perhaps before the position of
 * the last look. */
void dormant_anew(struct sched *s);

/* When the first dormant run is due, as mono_ns; INT64_MAX: never. */
int64_t dormant_due_ns(const struct sched *s);

/* When the next look is due, as mono_ns; INT64_MAX: there is nothing to look for. */
int64_t dormant_next_ns(struct sched *s);

/* A runner has few ready runs left. Calls the thread of the node loop if dormant runs are due. */
void dormant_need_more(struct sched *s);

/* Are there called runs, and has this runner, a thread, little else to do? */
int dormant_has_for(const struct runner *r);

/* A runner has other things to do: the thread of the node loop is called if there are called
 * runs. */
void dormant_pass_on(struct sched *s);

/* Adds the keys of all dormant runs to the list. 0: they are too many. */
int dormant_list(const struct sched *s, int64_t *out, int *count);

/* Forgets all dormant runs: the scheduler was just opened, or its node has left. */
void dormant_forget(struct sched *s);

/* ---- Without the lock ---- */

/* Brings some of the called runs back, to this runner. */
void dormant_bring_to(struct runner *r);

/* For the thread that runs the node loop: brings dormant runs back that were called or are due.
 * Gives the time of the next look; 0: runs were brought back by this one. */
int64_t dormant_turn(struct sched *s);

#endif
