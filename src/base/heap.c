/* The heap of timers. Places count from 1, and 0 means no place: so a zeroed timer is one that is
 * in no heap. */
#include "base/heap.h"

#include <stdlib.h>

static void place(heap *t, size_t at, timer *one)
{
    t->at[at - 1] = one;
    one->place = at;
}

static int is_before(const timer *a, const timer *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->rank < b->rank;
}

static void sift_up(heap *t, timer *one, size_t at)
{
    /* RULE T1-a-timer-rises-to-its-place */
    while (at > 1 && is_before(one, t->at[at / 2 - 1])) {
        place(t, at, t->at[at / 2 - 1]);
        at /= 2;
    }
    place(t, at, one);
}

static void sift_down(heap *t, timer *one, size_t at)
{
    for (;;) {
        size_t child = 2 * at;
        if (child > t->count)
            break;
        if (child < t->count && is_before(t->at[child], t->at[child - 1]))
            child++;
        if (!is_before(t->at[child - 1], one)) /* RULE T1-a-timer-sinks-to-its-place */
            break;
        place(t, at, t->at[child - 1]);
        at = child;
    }
    place(t, at, one);
}

static int make_room(heap *t)
{
    if (t->count < t->room)
        return 1;
    size_t room = t->room ? 2 * t->room : 8;
    timer **more = realloc(t->at, room * sizeof(timer *));
    if (!more)
        return 0;
    t->at = more;
    t->room = room;
    return 1;
}

int heap_put(heap *t, timer *one, void *owner, int64_t due_ms)
{
    if (!make_room(t))
        return 0;
    one->due_ms = due_ms;
    one->owner = owner;
    sift_up(t, one, ++t->count);
    return 1;
}

void heap_take(heap *t, timer *one)
{
    size_t at = one->place;
    if (at == 0)
        return;
    one->place = 0;
    timer *last = t->at[--t->count];
    if (last == one)
        return;
    sift_down(t, last, at);
    sift_up(t, last, last->place); /* RULE T1-a-timer-that-fills-a-gap-may-rise */
}

void *heap_first(const heap *t)
{
    return t->count > 0 ? t->at[0]->owner : NULL;
}

int64_t heap_due_ms(const heap *t)
{
    return t->count > 0 ? t->at[0]->due_ms : INT64_MAX;
}

void heap_free(heap *t)
{
    free(t->at);
    *t = (heap){0};
}
