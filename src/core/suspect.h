/* Suspects: runs that may be what kills the process.
 *
 * A run that was being executed when its process died, and has not got any further since, is
 * claimed once more each time: `claims` counts that. After POISON_DEATHS it is held. But others
 * were being executed beside it, and must not be held with it. So a run under suspicion is let out
 * alone: while it is, nothing else is taken in hand, and if the process dies now it is that run's
 * fault. What gets further, or lives for ALONE_MS, is innocent for now; nobody stands still for
 * longer.
 *
 * Who was being executed is known from the list of the dead node (running.h). Where there is none,
 * all of its runs are suspects the first time they are claimed again, and from then on each is
 * counted when it is let out, by a mark in its row, which is taken back when it has survived.
 *
 * With the lock of the drive held, unless it says otherwise. */
#ifndef CORE_SUSPECT_H
#define CORE_SUSPECT_H

#include "core/run_units.h"

struct drive;
struct runner;
struct running;

enum {
    POISON_DEATHS = 5,  /* so many, and a run is held */
    SUSPECT_KNOWN = 3,  /* claims from which on a run is let out alone … */
    SUSPECT_GUESSED = 2 /* … and where nobody knows who was being executed */
};

typedef struct suspects {
    struct running *running; /* NULL: this node keeps no list */
    pawl_run *first;         /* ready, waiting to be let out */
    pawl_run *last;
    pawl_run *alone;  /* that one is; NULL: none */
    int64_t until_ns; /* until when others stand still for it, or for the first; 0: not known */
    int in_hand;      /* of all threads together */
    int tolerated;    /* of these: they take long, and are not waited for */
    size_t unmarks;   /* that are to be written */
    run_hold unmark[16];
} suspects;

/* Is a run with so many claims under suspicion here? Has it to be held? */
int suspect_is(const struct drive *d, int64_t claims);
int suspect_is_poison(int64_t claims);

/* A suspect is ready: it waits for its turn. */
void suspect_add(struct drive *d, pawl_run *run);

/* What this runner may take in hand next, now in its hand; NULL: nothing. And when it has let go of
 * it. */
pawl_run *suspect_take(struct runner *r);
void suspect_done(struct drive *d);

/* A job that it may do now: suspects come before those, and are alone. Let go of as a run is. */
struct job *suspect_take_job(struct runner *r);

/* Is there something for the runner now? When may there be, since others stand still only so
 * long? */
int suspect_has(struct runner *r);
int64_t suspect_next_ns(const struct drive *d);

/* It is let out and has to be marked first. Without the lock. */
int suspect_needs_mark(struct drive *d, const pawl_run *run);

/* It has survived; or it could not be tried, and is as suspect as before. */
void suspect_acquit(struct drive *d, pawl_run *run);
void suspect_put_back(struct drive *d, pawl_run *run);

/* Write what acquittals owe. Without the lock. */
void suspect_unmark(struct drive *d);

#endif
