/* The followers of a group commit: threads that wait for an answer, each on a condition of its own.
 *
 * An answer wakes exactly the thread that wants it; with one condition for all, every batch would
 * wake every thread. And each has a lock of its own, so that a woken thread need not queue for the
 * committer's: a batch wakes as many threads as it has units. The committer's lock guards the list,
 * the waiter's lock guards its flags; a thread that needs both takes them in this order.
 *
 * A waiter lives on the stack of its thread. After waiter_finish() it may be gone. */
#ifndef DB_WAITERS_H
#define DB_WAITERS_H

#include <pthread.h>

typedef struct committer_waiter {
    struct committer_waiter *next;
    struct committer_waiter *previous;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int finished; /* the answer is there */
    int asked;    /* the waiter is asked to lead */
} waiter;

/* A list of zeroes is empty. */
typedef struct waiters {
    waiter *first;
} waiters;

/* Returns 0, or an errno. */
int waiter_init(waiter *w);
void waiter_destroy(waiter *w);

/* waiter_finish() tells a waiter that its answer is there, and wakes its thread; the waiter must
 * have been removed from the list before. waiter_is_finished() gives 1 from then on. */
void waiter_finish(waiter *w);
int waiter_is_finished(waiter *w);

/* Put a waiter into the list, or take it out. The caller holds the committer's lock. */
void waiters_add(waiters *list, waiter *w);
void waiters_remove(waiters *list, waiter *w);

/* Ask one waiter to lead, and wake its thread. 1: it was asked; 0: the list is empty. */
int waiters_ask_one(waiters *list);

#endif
