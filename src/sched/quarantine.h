/* Quarantine of poison runs: suspects are runs that may be what kills the process.
 *
 * `claims` of a run counts the deaths of processes that executed it, since it has last got any
 * further: one more than those. A run that gets further begins anew at 1. After POISON_DEATHS it is
 * held. But other runs were being executed beside the guilty one, and must not be held with it. So
 * what a death does to a run depends on how many there were before:
 *
 *   deaths  claims  the run is executed
 *   0       1       as any other
 *   1, 2    2, 3    beside the others
 *   3, 4    4, 5    alone: after a back-off of ALONE_MS, and no other one of these at the same time
 *   5       6       no more: it is held
 *
 * Quarantine never stops ordinary work. Whatever was there at two deaths or less, and everything
 * new, is executed as if there were no suspects. Only those that are to be let out alone wait: for
 * each other, and for ALONE_MS after they were claimed, so that another run which kills each new
 * process does so without them (but not under pawl_finish(), which drives one run and its family).
 * A suspect that is still being executed when it was out for ALONE_MS, while another one waits for
 * its turn, is cleared: it is not counted any more in this process.
 *
 * A run is counted if it was being executed when the process died:
 *
 * - Where the node keeps a list of what is on its threads (inflight_file.h) that is known exactly.
 * - Elsewhere, on a server, the first two deaths are counted for all runs of the node that got no
 *   further since it claimed them. That is a guess, and costs nothing: they run beside the others,
 *   and no commit is added to runs that were never, or once, taken over. From the third claim on
 *   the row of the run is marked (claims + 1) before it is executed and unmarked when it comes to
 *   rest without having got further, and nothing is guessed. One mark is on its way at a time, and
 *   its run is executed as soon as that is durable: what is marked is executed.
 *
 * So an innocent run is held only if it was being executed, without getting any further, at five
 * deaths that others are to blame for, of which the last two came when it was let out alone: from
 * runs that had lived as long as it in the same process, or began after it. A guilty run is held
 * after five deaths, if it kills the process within ALONE_MS or no other suspect waits behind it.
 *
 * With the lock of the scheduler held, unless it says otherwise. */
#ifndef SCHED_QUARANTINE_H
#define SCHED_QUARANTINE_H

#include "rows/run_units.h"

struct sched;
struct running;

enum {
    /* RULE L4-a-takeover-quarantines-nothing, L4-the-simulator-sees-suspects-that-stop-others */
    POISON_DEATHS = 5,     /* so many, and a run is held */
    SUSPECT_MARK_FROM = 3, /* claims from which on a run is marked, where the node has no list … */
    SUSPECT_ALONE_FROM = 4 /* … and let out alone, everywhere */
};

/* What pawl_run.suspect says. */
typedef enum {
    SUSPECT_NOT,    /* executed as any other */
    SUSPECT_MARKED, /* the same, but its row is marked first, and its later calls are in line */
    SUSPECT_ALONE   /* let out alone, and marked where the node has no list */
} quarantine_level;

typedef struct quarantine_queue {
    pawl_run *first;
    pawl_run *last;
} quarantine_queue;

typedef struct quarantine {
    struct running *running; /* NULL: this node keeps no list */
    quarantine_queue next;   /* ready: the one that is out, the one whose mark is durable */
    quarantine_queue alone;  /* ready, waiting to be let out alone … */
    quarantine_queue beside; /* … and to be marked */
    pawl_run *out;           /* let out alone; NULL: none */
    int64_t until_ns;        /* when it is cleared, if another one waits */
    pawl_run *marking;       /* to be marked, and not executed yet; NULL: none */
    int64_t unmarking;       /* marks that are being taken back */
    int has_unmark;          /* one is to be, by the keeper: */
    run_lease unmark;
    int64_t turns; /* so that others have theirs */
} quarantine;

/* Has a run with so many claims to be held? */
int quarantine_is_poison(int64_t claims);

/* A run comes into memory, with a journal of this length. */
void quarantine_begin(struct sched *d, pawl_run *run, int64_t seq);

/* A suspect is ready. 1: it waits for its turn here; 0: it is executed as any other. */
int quarantine_add(struct sched *d, pawl_run *run);

/* A suspect that may be executed now, in the hand of the caller; NULL: none, or other runs wait and
 * have their turn. */
pawl_run *quarantine_take(struct sched *d, int others_wait);

/* Is there a suspect that may be let out? When may there be one? */
int quarantine_is_ready(struct sched *d);
int64_t quarantine_next_ns(const struct sched *d);

/* Has it to be marked before it is executed? Then its row is, and it goes on. Without the lock. */
int quarantine_needs_mark(struct sched *d, pawl_run *run);
void quarantine_marked(struct sched *d, pawl_run *run);

/* It has got further, or is forgotten; it could not be tried, and is as suspect as before. */
void quarantine_acquit(struct sched *d, pawl_run *run);
void quarantine_put_back(struct sched *d, pawl_run *run);

/* The node gives its runs back: a suspect that is wanted, now in the hand of the caller; NULL: none
 * is. It does not wait for its turn, since nothing of it is executed any more. */
pawl_run *quarantine_take_if(struct sched *d, int (*wanted)(const pawl_run *run));

/* Something of it was committed. Without the lock. */
void quarantine_committed(struct sched *d, pawl_run *run, int hold_requested);

/* Take back the mark that the keeper is to take back; those of all runs, since the node goes.
 * Without the lock. */
void quarantine_unmark(struct sched *d);
void quarantine_leave(struct sched *d);

#endif
