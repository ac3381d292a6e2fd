/* The moments at which runs wake: a heap by due_ms, in which each run knows its place, so that one
 * that is woken before its time is taken out at once. */
#ifndef CORE_TIMERS_H
#define CORE_TIMERS_H

#include <stddef.h>
#include <stdint.h>

#include <pawl.h>

typedef struct timers {
    pawl_run **at; /* at[0] is due first */
    size_t count;
    size_t room;
} timers;

/* Put a run in that is not there. 0: memory is out, and it is not. */
int timers_put(timers *t, pawl_run *run, int64_t due_ms);

/* Take a run out, if it is there. */
void timers_take(timers *t, pawl_run *run);

void timers_free(timers *t);

#endif
