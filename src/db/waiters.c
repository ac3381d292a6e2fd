/* A list that is linked both ways, because waiters leave it in any order: when their answer comes,
 * or when their patience is over. */
#include "db/waiters.h"

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

void waiters_finish(waiters *list, waiter *w)
{
    w->finished = 1;
    waiters_remove(list, w);
    pthread_cond_signal(&w->cond);
}

int waiters_wake_one(waiters *list)
{
    if (list->first)
        pthread_cond_signal(&list->first->cond);
    return list->first != NULL;
}
