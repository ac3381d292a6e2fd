/* The heap of timers. Places count from 1, and 0 is no place: so what was never put in needs no
 * mark. */
#include "core/timers.h"

#include <stdlib.h>

static void place(timers *t, size_t at, timer *one)
{
    t->at[at - 1] = one;
    one->place = at;
}

static void sift_up(timers *t, timer *one, size_t at)
{
    while (at > 1 && t->at[at / 2 - 1]->due_ms > one->due_ms) {
        place(t, at, t->at[at / 2 - 1]);
        at /= 2;
    }
    place(t, at, one);
}

static void sift_down(timers *t, timer *one, size_t at)
{
    for (;;) {
        size_t child = 2 * at;
        if (child > t->count)
            break;
        if (child < t->count && t->at[child]->due_ms < t->at[child - 1]->due_ms)
            child++;
        if (t->at[child - 1]->due_ms >= one->due_ms)
            break;
        place(t, at, t->at[child - 1]);
        at = child;
    }
    place(t, at, one);
}

static int make_room(timers *t)
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

int timers_put(timers *t, timer *one, void *owner, int64_t due_ms)
{
    if (!make_room(t))
        return 0;
    one->due_ms = due_ms;
    one->owner = owner;
    sift_up(t, one, ++t->count);
    return 1;
}

void timers_take(timers *t, timer *one)
{
    size_t at = one->place;
    if (at == 0)
        return;
    one->place = 0;
    timer *last = t->at[--t->count];
    if (last == one)
        return;
    sift_down(t, last, at);
    sift_up(t, last, last->place);
}

void *timers_first(const timers *t)
{
    return t->count > 0 ? t->at[0]->owner : NULL;
}

int64_t timers_due_ms(const timers *t)
{
    return t->count > 0 ? t->at[0]->due_ms : INT64_MAX;
}

void timers_free(timers *t)
{
    free(t->at);
    *t = (timers){0};
}
