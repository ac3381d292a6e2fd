/* A list that is linked both ways, because waiters leave it in any order: when their answer comes,
 * or when their patience is over. */
#include "db/waiters.h"

#include "base/clock.h"

void waiters_add(waiters *list, waiter *w)
{
    w->previous = NULL;
    w->next = list->first;
    if (list->first)
        list->first->previous = w;
    list->first = w;
}

void waiters_remove(waiters *list, waiter *w)
{
    if (w->previous)
        w->previous->next = w->next;
    else
        list->first = w->next;
    if (w->next)
        w->next->previous = w->previous;
}

int waiters_ask_one(waiters *list)
{
    waiter *w = list->first;
    if (!w)
        return 0;
    pthread_mutex_lock(&w->lock);
    w->asked = 1;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
    return 1;
}

int waiter_init(waiter *w)
{
    *w = (waiter){.finished = 0};
    int failed = pthread_mutex_init(&w->lock, NULL);
    if (failed)
        return failed;
    failed = clock_cond_init(&w->cond);
    if (failed)
        pthread_mutex_destroy(&w->lock);
    return failed;
}

void waiter_destroy(waiter *w)
{
    pthread_cond_destroy(&w->cond);
    pthread_mutex_destroy(&w->lock);
}

void waiter_finish(waiter *w)
{
    pthread_mutex_lock(&w->lock);
    w->finished = 1;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->lock);
}

int waiter_is_finished(waiter *w)
{
    pthread_mutex_lock(&w->lock);
    int finished = w->finished;
    pthread_mutex_unlock(&w->lock);
    return finished;
}
