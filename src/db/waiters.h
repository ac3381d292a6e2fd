/* The threads that wait for an answer, each on a condition of its own.
 *
 * An answer wakes exactly the thread that wants it; with one condition for all, every batch would
 * wake everybody. And each has a lock of its own, so that whoever is woken need not stand in line
 * for the committer's: a batch wakes as many as it has units. The list is under the committer's
 * lock, what a waiter is told under the waiter's; who needs both takes them in this order.
 *
 * A waiter lives on the stack of its thread. Once it is told that it is finished it may be gone. */
#ifndef DB_WAITERS_H
#define DB_WAITERS_H

#include <pthread.h>

typedef struct committer_waiter {
    struct committer_waiter *next;
    struct committer_waiter *previous;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int finished; /* the answer is there */
    int asked;    /* to lead */
} waiter;

/* A list of zeroes is empty. */
typedef struct waiters {
    waiter *first;
} waiters;

/* 0, or an errno. */
int waiter_init(waiter *w);
void waiter_destroy(waiter *w);

/* Tell it that its answer is there. It is in no list any more. */
void waiter_finish(waiter *w);
int waiter_is_finished(waiter *w);

void waiters_add(waiters *list, waiter *w);
void waiters_remove(waiters *list, waiter *w);

/* Ask one of those who still wait to lead. 0: nobody does. */
int waiters_ask_one(waiters *list);

#endif
