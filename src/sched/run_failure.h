/* What this node cannot do for one run because the database fails it: claim the run, read its rows,
 * or bring it back into memory when it was dormant. It is tried again with a back-off. The log
 * tells of it once when it begins and once when it ends, and pawl_why() of this process has the
 * words as long as it lasts. They are in the memory of this node only, so the tool `pawl why`, in a
 * process of its own, does not have them. A unit that fails is told in the same way by
 * unit_retry.h.
 *
 * A claim whose unit fails must not be submitted again at once: the row is as due as before, and a
 * trigger or a damaged page fails it each time. So the node loop passes over the run until its
 * back-off, of 30 seconds at most, is over; other runs are claimed meanwhile. It does the same with
 * a run whose row cannot be read, which is to be claimed, or is dormant. */
#ifndef SCHED_RUN_FAILURE_H
#define SCHED_RUN_FAILURE_H

#include <pawl.h>

#include <stdatomic.h>

#include "base/map.h"

struct sched;

typedef enum {
    FAILURE_CLAIM,
    FAILURE_READ, /* the run is in memory */
    FAILURE_BACK, /* the run is dormant */
} run_failure_kind;

typedef struct run_failures {
    map by_run;       /* row key -> struct run_failure; with the lock held */
    atomic_int count; /* number of entries, for a look without the lock */
    int told;         /* number of entries that the log tells of */
} run_failures;

/* Notes one more failure. Gives how many there were in a row; 0: memory is out, or the node is at
 * its end. Without the lock. */
int run_failure_note(struct sched *s, int64_t run, const char *id, run_failure_kind kind,
                     pawl_code code, const char *words);

/* The run has succeeded, or another node has it: the log tells of that. `tells` 0: it has not, and
 * the entry is dropped without a line in the log. Without the lock. */
void run_failure_end(struct sched *s, int64_t run, int tells);

/* When the run, which is not in memory, is to be tried again, as mono_ns; 0: it has not failed.
 * With the lock held. */
int64_t run_failure_until_ns(const struct sched *s, int64_t run);

/* 1 while the run is not to be claimed or brought back, because that has failed. With the lock
 * held. */
int run_failure_waits(struct sched *s, int64_t run);

/* The node leaves. With the lock held. */
void run_failure_forget_all(struct sched *s);

/* The trouble in words. 0: there is none. Without the lock. */
int run_failure_words(struct sched *s, int64_t run, char *out, size_t size);

#endif
