/* The threads that wait for an answer, each on a condition of its own.
 *
 * An answer wakes exactly the thread that wants it; with one condition for all, every batch would
 * wake everybody. A waiter lives on the stack of its thread. No locks here: the committer has
 * one. */
#ifndef DB_WAITERS_H
#define DB_WAITERS_H

#include <pthread.h>

typedef struct committer_waiter {
    struct committer_waiter *next;
    struct committer_waiter *previous;
    pthread_cond_t cond;
    int finished;
} waiter;

/* A list of zeroes is empty. */
typedef struct waiters {
    waiter *first;
} waiters;

void waiters_add(waiters *list, waiter *w);
void waiters_remove(waiters *list, waiter *w);

/* The answer is there: take the waiter out and wake its thread. */
void waiters_finish(waiters *list, waiter *w);

/* Wake one of those who still wait. 0: nobody does. */
int waiters_wake_one(waiters *list);

#endif
