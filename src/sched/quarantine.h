/* Quarantine of poison runs. A run that may be what kills the process is quarantined.
 *
 * `claims` of a run is 1, and one more for each process that has died while it executed the run. A
 * run that gets further begins anew at 1. After POISON_DEATHS it is held. But other runs were being
 * executed beside the guilty one, and must not be held with it. So what a death does to a run
 * depends on how many there were before:
 *
 *   deaths  claims  the run is executed
 *   0       1       as any other
 *   1, 2    2, 3    beside the others
 *   3, 4    4, 5    alone: after a back-off of ALONE_MS, and no other one of these at the same time
 *   5       6       no more: it is held
 *
 * Quarantine never stops ordinary work. Whatever was there at two deaths or less, and everything
 * new, is executed as if there were no quarantine. Only runs that are to be let out alone wait: for
 * each other, and for ALONE_MS after they were claimed, so that another run which kills each new
 * process does so without them (but not under pawl_finish(), which drives one run and its family).
 * A quarantined run that is still being executed when it was out for ALONE_MS, while another one
 * waits for its turn, is cleared: it is not counted any more in this process.
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
 * So an innocent run is held only if it was being executed, and got no further, at five deaths that
 * other runs have caused. At the last two of these it had been let out alone, ALONE_MS after it was
 * claimed: so they were caused by runs that had been in the process for as long without killing it,
 * or that began later. A guilty run is held after five deaths, if it kills the process within
 * ALONE_MS or no other quarantined run waits behind it.
 *
 * All functions are called with the lock of the scheduler held, unless they say otherwise. */
#ifndef SCHED_QUARANTINE_H
#define SCHED_QUARANTINE_H

#include "rows/run_units.h"

struct sched;
struct running;

enum {
    /* RULE L4-a-takeover-quarantines-nothing */
    /* RULE L4-the-simulator-sees-a-quarantine-that-stops-others */
    POISON_DEATHS = 5,        /* number of deaths after which a run is held */
    QUARANTINE_MARK_FROM = 3, /* claims from which on a run is marked, where the node keeps no
                                 list */
    QUARANTINE_ALONE_FROM = 4 /* claims from which on a run is let out alone, everywhere */
};

/* The values of pawl_run.quarantine_level. */
typedef enum {
    QUARANTINE_NONE,   /* executed as any other */
    QUARANTINE_MARKED, /* executed beside the others, but its row is marked first, and its calls run
                          on its own thread */
    QUARANTINE_ALONE   /* let out alone; marked, too, where the node keeps no list */
} quarantine_level;

typedef struct quarantine_queue {
    pawl_run *first;
    pawl_run *last;
} quarantine_queue;

typedef struct quarantine {
    struct running *running; /* the list of runs in flight; NULL: this node keeps none */
    quarantine_queue next;   /* ready to go on: the run that is out, and the run whose mark is
                                durable */
    quarantine_queue alone;  /* ready, and waiting to be let out alone */
    quarantine_queue beside; /* ready, and waiting to be marked */
    pawl_run *out;           /* the run that was let out alone; NULL: none */
    int64_t until_ns;        /* when `out` is cleared, if another one waits */
    pawl_run *marking;       /* the run whose mark is being written, or about to be; NULL: none */
    int64_t unmarking;       /* number of marks that are being taken back */
    int has_unmark;          /* the node loop is to take back the mark in `unmark` */
    run_lease unmark;
    int64_t turns; /* counts choices, so that other runs have their turns */
} quarantine;

/* Has a run with so many claims to be held? */
int quarantine_is_poison(int64_t claims);

/* A run comes into memory, with a journal of this length. */
void quarantine_begin(struct sched *s, pawl_run *run, int64_t seq);

/* A quarantined run is ready. 1: it waits for its turn here; 0: it is executed as any other. */
int quarantine_add(struct sched *s, pawl_run *run);

/* Takes a quarantined run that may be executed now, for the calling runner; NULL: there is none, or
 * other runs wait and it is their turn. */
pawl_run *quarantine_take(struct sched *s, int others_wait);

/* quarantine_is_ready(): is there a quarantined run that may be executed now? quarantine_next_ns():
 * when may there be one? */
int quarantine_is_ready(struct sched *s);
int64_t quarantine_next_ns(const struct sched *s);

/* quarantine_needs_mark(): has the run to be marked before it is executed? quarantine_marked(): its
 * row is marked, and the run is executed. Without the lock. */
int quarantine_needs_mark(struct sched *s, pawl_run *run);
void quarantine_marked(struct sched *s, pawl_run *run);

/* quarantine_acquit(): the run has got further, or is dropped from memory. quarantine_put_back():
 * the run could not be executed, and stays quarantined as before. */
void quarantine_acquit(struct sched *s, pawl_run *run);
void quarantine_put_back(struct sched *s, pawl_run *run);

/* For a node that gives its runs back: takes a quarantined run that is `wanted`; NULL: there is
 * none. The run does not wait for its turn, since nothing of it is executed any more. */
pawl_run *quarantine_take_if(struct sched *s, int (*wanted)(const pawl_run *run));

/* A unit of the run was committed; `is_parked`: the run waits now. Without the lock. */
void quarantine_committed(struct sched *s, pawl_run *run, int is_parked);

/* quarantine_unmark(): the node loop takes back the mark in `unmark`, if there is one.
 * quarantine_leave(): the node ends, and takes back the marks of all its runs. Without the lock. */
void quarantine_unmark(struct sched *s);
void quarantine_leave(struct sched *s);

#endif
