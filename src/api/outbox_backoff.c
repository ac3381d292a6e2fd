/* Back-off for targets of the outbox, as a linked list with linear search. The list is short, and
 * empty unless another transaction keeps rows locked; the question whether a target waits is asked
 * for each row of the outbox, and costs nothing while the list is empty. */
#include "api/outbox_backoff.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "db/unit.h"

enum { FIRST_MS = 1000, LAST_MS = 4000, PACE = 4 };

static uint64_t hash(slice target)
{
    return unit_key_text("outbox", target);
}

static outbox_backoff_row *find(const outbox_backoff *w, slice target)
{
    uint64_t wanted = w->first ? hash(target) : 0;
    outbox_backoff_row *one = w->first;
    while (one && one->target != wanted)
        one = one->next;
    return one;
}

int outbox_backoff_passes(outbox_backoff *w, slice target, int64_t now_ns)
{
    outbox_backoff_row *one = find(w, target);
    if (!one)
        return 0;
    one->seen = 1;
    /* RULE L4-a-target-of-the-outbox-is-tried-again-after-its-back-off */
    /* RULE L4-targets-of-the-outbox-that-wait-are-tried-one-at-a-time */
    return now_ns < one->due_ns || now_ns < w->pace_ns;
}

static outbox_backoff_row *add(outbox_backoff *w, slice target, int64_t now_ns)
{
    outbox_backoff_row *one =
        w->count < OUTBOX_WAITS_MAX ? calloc(1, sizeof *one + target.size + 1) : NULL;
    if (!one)
        return NULL;
    one->target = hash(target);
    one->since_ns = now_ns;
    one->seen = 1;
    if (target.size)
        memcpy(one->id, target.at, target.size);
    one->next = w->first;
    w->first = one;
    w->count++;
    return one;
}

/* If many targets wait, the back-off of each is long enough for all others to have their turn. */
int outbox_backoff_put(outbox_backoff *w, slice target, int64_t now_ns, int64_t took_ns)
{
    outbox_backoff_row *one = find(w, target);
    int is_new = !one;
    if (is_new)
        one = add(w, target, now_ns);
    if (!one)
        return -1;
    int64_t twice = one->back_ms * 2;
    one->back_ms = twice == 0 ? FIRST_MS : twice < LAST_MS ? twice : LAST_MS;
    one->due_ns = clock_deadline(now_ns, one->back_ms);
    w->pace_ns = now_ns + took_ns * PACE;
    int64_t turn_ns = now_ns + took_ns * (PACE + 1) * w->count;
    if (one->due_ns < turn_ns) /* RULE L4-targets-of-the-outbox-that-wait-take-turns */
        one->due_ns = turn_ns;
    return is_new;
}

static outbox_backoff_row *take_out(outbox_backoff *w, outbox_backoff_row **at)
{
    outbox_backoff_row *one = *at;
    if (one) {
        *at = one->next;
        w->count--;
    }
    return one;
}

outbox_backoff_row *outbox_backoff_take(outbox_backoff *w, slice target)
{
    const outbox_backoff_row *one = find(w, target);
    outbox_backoff_row **at = &w->first;
    while (*at != one)
        at = &(*at)->next;
    return take_out(w, at);
}

void outbox_backoff_unsee(outbox_backoff *w)
{
    for (outbox_backoff_row *one = w->first; one; one = one->next)
        one->seen = 0;
}

outbox_backoff_row *outbox_backoff_take_unseen(outbox_backoff *w)
{
    outbox_backoff_row **at = &w->first;
    while (*at && (*at)->seen)
        at = &(*at)->next;
    return take_out(w, at);
}

void outbox_backoff_clear(outbox_backoff *w)
{
    while (w->first)
        free(take_out(w, &w->first));
}
