/* Moments at which something is due: a heap by due_ms, in which each entry knows its place, so that
 * one that is not needed any more is taken out at once. A node has one of its runs, and a run that
 * does several things at a time one of its futures. */
#ifndef CORE_TIMERS_H
#define CORE_TIMERS_H

#include <stddef.h>
#include <stdint.h>

/* Part of whatever is due; zeroes: it is in no heap. */
typedef struct timer {
    size_t place; /* from 1; 0: not there */
    int64_t due_ms;
    void *owner;
} timer;

typedef struct timers {
    timer **at; /* at[0] is due first */
    size_t count;
    size_t room;
} timers;

/* Put one in that is not there. 0: memory is out, and it is not. */
int timers_put(timers *t, timer *one, void *owner, int64_t due_ms);

/* Take one out, if it is there. */
void timers_take(timers *t, timer *one);

/* Whose moment comes first, and when: NULL, INT64_MAX if there is none. */
void *timers_first(const timers *t);
int64_t timers_due_ms(const timers *t);

void timers_free(timers *t);

#endif
