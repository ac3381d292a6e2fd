/* A binary heap of timers by due_ms, in which each timer knows its place, so that it is removed
 * without a search. A node has one for its runs that sleep, and a run one for its futures that are
 * due by time. */
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stddef.h>
#include <stdint.h>

/* Embedded in what is due; zeroes: it is in no heap. */
typedef struct timer {
    size_t place; /* from 1; 0: not there */
    int64_t due_ms;
    int64_t rank; /* of those that are due at the same moment the lowest comes first */
    void *owner;
} timer;

typedef struct heap {
    timer **at; /* at[0] is due first */
    size_t count;
    size_t room;
} heap;

/* Put in a timer that is in no heap, with the rank that it has. 0: memory is out, and it is not put
 * in. */
int heap_put(heap *t, timer *one, void *owner, int64_t due_ms);

/* Take a timer out, if it is in the heap. */
void heap_take(heap *t, timer *one);

/* The owner of the timer that is due first, and when: NULL, INT64_MAX if there is none. */
void *heap_first(const heap *t);
int64_t heap_due_ms(const heap *t);

void heap_free(heap *t);

#endif
