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
    int64_t due_ns;  /* when the next attempt is due */
    int64_t back_ms; /* the last back-off */
    int seen;        /* 1: the outbox has a row for the target, as far as it was read; see
                        outbox_backoff_unsee() */
    char id[];       /* for log lines */
} outbox_backoff_row;

/* The waiting targets of one relay. A zeroed struct is an empty list. */
typedef struct outbox_backoff {
    outbox_backoff_row *first;
    int count;
    int64_t pace_ns; /* no waiting target is tried before this moment */
} outbox_backoff;

/* Tells whether a row of this target is to be passed over at the moment `now_ns`. The moment must
 * be the same for all rows of a page, which keeps the order of a target. Marks the target as
 * seen. */
int outbox_backoff_passes(outbox_backoff *w, slice target, int64_t now_ns);

/* Records that a row of the target has met a lock, in an attempt that took `took_ns`. Gives 1 if
 * the target begins to wait, 0 if it was waiting before, -1 if there is no room or no memory. */
int outbox_backoff_put(outbox_backoff *w, slice target, int64_t now_ns, int64_t took_ns);

/* outbox_backoff_take() takes a target out of the list, whose row was delivered; NULL: it did not
 * wait. outbox_backoff_take_unseen() takes out a target that was not seen since
 * outbox_backoff_unsee(), whose rows another relay has delivered. The caller frees the result with
 * free(). */
outbox_backoff_row *outbox_backoff_take(outbox_backoff *w, slice target);
void outbox_backoff_unsee(outbox_backoff *w);
outbox_backoff_row *outbox_backoff_take_unseen(outbox_backoff *w);

void outbox_backoff_clear(outbox_backoff *w);

#endif
