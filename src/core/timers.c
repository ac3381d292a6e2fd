/* The heap of timers. Places count from 1, and 0 is no place: so a run that was never put in needs
 * no mark. */
#include "core/timers.h"

#include <stdlib.h>

#include "core/run.h"

static void place(timers *t, size_t at, pawl_run *run)
{
    t->at[at - 1] = run;
    run->timer = at;
}

static void sift_up(timers *t, pawl_run *run, size_t at)
{
    while (at > 1 && t->at[at / 2 - 1]->due_ms > run->due_ms) {
        place(t, at, t->at[at / 2 - 1]);
        at /= 2;
    }
    place(t, at, run);
}

static void sift_down(timers *t, pawl_run *run, size_t at)
{
    for (;;) {
        size_t child = 2 * at;
        if (child > t->count)
            break;
        if (child < t->count && t->at[child]->due_ms < t->at[child - 1]->due_ms)
            child++;
        if (t->at[child - 1]->due_ms >= run->due_ms)
            break;
        place(t, at, t->at[child - 1]);
        at = child;
    }
    place(t, at, run);
}

static int make_room(timers *t)
{
    if (t->count < t->room)
        return 1;
    size_t room = t->room ? 2 * t->room : 256;
    pawl_run **more = realloc(t->at, room * sizeof(pawl_run *));
    if (!more)
        return 0;
    t->at = more;
    t->room = room;
    return 1;
}

int timers_put(timers *t, pawl_run *run, int64_t due_ms)
{
    if (!make_room(t))
        return 0;
    run->due_ms = due_ms;
    sift_up(t, run, ++t->count);
    return 1;
}

void timers_take(timers *t, pawl_run *run)
{
    size_t at = run->timer;
    if (at == 0)
        return;
    run->timer = 0;
    pawl_run *last = t->at[--t->count];
    if (last == run)
        return;
    sift_down(t, last, at);
    sift_up(t, last, last->timer);
}

void timers_free(timers *t)
{
    free(t->at);
    *t = (timers){0};
}
