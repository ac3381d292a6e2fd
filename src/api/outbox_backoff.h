/* Targets of the outbox that are passed over because another transaction keeps a row locked.
 *
 * On a server any transaction may lock the row of a run for as long as it likes. The outbox relay
 * (outbox_relay.c) passes over a row of the outbox that meets such a lock, and every later row of
 * the same target, whose order must not change. The target is tried again with a back-off that
 * doubles; after a failed attempt no waiting target is tried for four times as long as that attempt
 * took. So all waiting targets together take a fifth of the relay's time at most, and each of them
 * has its turn.
 *
 * Targets are told apart by a hash of their ids. Two ids with one hash only wait for each other.
 * There is no mutex in here: a list belongs to one relay. */
#ifndef API_OUTBOX_BACKOFF_H
#define API_OUTBOX_BACKOFF_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

enum { OUTBOX_WAITS_MAX = 256 };

typedef struct outbox_backoff_row {
    struct outbox_backoff_row *next;
    uint64_t target;
    int64_t since_ns;
    int64_t due_ns;  /* the next attempt */
    int64_t back_ms; /* the last back-off */
    int seen;        /* there is a row of it: see outbox_backoff_unsee() */
    char id[];       /* for log lines */
} outbox_backoff_row;

/* A list of zeroes is empty. */
typedef struct outbox_backoff {
    outbox_backoff_row *first;
    int count;
    int64_t pace_ns; /* no waiting target is tried before this moment */
} outbox_backoff;

/* Is a row of this target to be passed over, as of this moment? Within one page of rows the moment
 * must be the same for all: that keeps the order of a target. The target is marked as seen. */
int outbox_backoff_passes(outbox_backoff *w, slice target, int64_t now_ns);

/* A row of the target has met a lock, in an attempt that took so long. 1: the target begins to
 * wait; 0: it has waited before; -1: there is no room, or no memory. */
int outbox_backoff_put(outbox_backoff *w, slice target, int64_t now_ns, int64_t took_ns);

/* A row of the target is not in the way any more: take the target out. NULL: it did not wait.
 * _take_unseen: one that was not seen since outbox_backoff_unsee(). To be freed with free(). */
outbox_backoff_row *outbox_backoff_take(outbox_backoff *w, slice target);
void outbox_backoff_unsee(outbox_backoff *w);
outbox_backoff_row *outbox_backoff_take_unseen(outbox_backoff *w);

void outbox_backoff_clear(outbox_backoff *w);

#endif
