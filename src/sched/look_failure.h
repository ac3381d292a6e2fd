/* Looks of the node loop that fail as a whole: no row can be read, so that what is due, or what has
 * arrived, is not found. They are tried again by themselves. The log tells of a look that has
 * failed for a second, once, and when it works again; pawl_why() of this process has the words
 * meanwhile.
 *
 * A lost connection is not told here: node_ready.h tells of that, for all that the node does. */
#ifndef SCHED_LOOK_FAILURE_H
#define SCHED_LOOK_FAILURE_H

#include <pawl.h>

#include <stdatomic.h>

#include "base/error.h"

struct sched;

typedef enum {
    LOOK_DORMANT,  /* for dormant runs that are due */
    LOOK_DUE,      /* for runs without an owner that are due */
    LOOK_LEFT,     /* for runs of closed nodes that are due */
    LOOK_ARRIVALS, /* for what has arrived from other processes */
    LOOK_HELD,     /* for held runs that can go on here */
    LOOK_OVER,     /* for held runs whose deadline has passed */
    LOOK_ONE,      /* for the run of a pawl_finish() */
    LOOK_FAMILY,   /* for the descendants of that run */
    LOOKS,
} look_kind;

/* Guarded by the lock of the scheduler, except `count`. */
typedef struct look_failures {
    struct look_failure {
        int fails;        /* the last such look has failed */
        int is_told;      /* the log has a line about it */
        int64_t since_ns; /* when the first of the failures in a row came, as mono_ns */
        pawl_code code;
        char words[256];
    } of[LOOKS];
    atomic_int count; /* kinds that fail, for a look without the lock */
} look_failures;

/* The look has failed, or it has worked. Without the lock. */
void look_failure_note(struct sched *s, look_kind kind, const error *err);
void look_failure_end(struct sched *s, look_kind kind);

/* One of the two, as `rc` says. */
void look_failure_result(struct sched *s, look_kind kind, pawl_code rc, const error *err);

/* The node leaves. With the lock held. */
void look_failure_forget_all(struct sched *s);

/* Writes in words which look fails, if what it does not find may concern this run (`owner`: its
 * owner). 0: no such look fails. Without the lock. */
int look_failure_words(struct sched *s, int64_t run, int64_t owner, char *out, size_t size);

#endif
