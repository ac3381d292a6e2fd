/* The fake clock, which is moved by hand. A waiting thread puts a record with its condition and
 * mutex on a list; the thread that moves the clock (the mover) wakes each waiter whose deadline has
 * come.
 *
 * No wake-up is lost: a waiter enlists while it holds its mutex and releases that only inside
 * pthread_cond_wait(). The mover takes the same mutex before it broadcasts, so the waiter is either
 * asleep then (and is woken) or has woken otherwise (and needs no wake-up).
 *
 * No deadlock: the lock order is a waiter's mutex, then the clock's. So the mover releases the
 * clock before it takes a waiter's mutex, and the waiter releases its own before it waits for its
 * record to be free.
 *
 * No use after free: between the two locks the record is marked TELLING, and a waiter does not
 * return from the wait (after which its condition may be destroyed) while its record is so
 * marked. */
#include "base/clock.h"

#include <assert.h>
#include <stdlib.h>

#define NS_PER_MS INT64_C(1000000)

typedef enum { ASLEEP, TELLING, TOLD } waiter_state;

typedef struct waiter {
    struct waiter *next;
    pthread_cond_t *cond;
    pthread_mutex_t *mutex;
    int64_t deadline_ns;
    waiter_state state;
} waiter;

struct clock_fake {
    clock_source source; /* the first member, so that a pointer to it is one to the fake clock */
    pthread_mutex_t mutex;
    pthread_cond_t told; /* signalled when a waiter is no longer TELLING */
    int64_t now_ms;
    int64_t mono_ns;
    waiter *waiters;
};

static int64_t fake_now_ms(clock_source *c)
{
    clock_fake *f = (clock_fake *)c;
    pthread_mutex_lock(&f->mutex);
    int64_t now = f->now_ms;
    pthread_mutex_unlock(&f->mutex);
    return now;
}

static int64_t fake_mono_ns(clock_source *c)
{
    clock_fake *f = (clock_fake *)c;
    pthread_mutex_lock(&f->mutex);
    int64_t mono = f->mono_ns;
    pthread_mutex_unlock(&f->mutex);
    return mono;
}

/* Put the record on the list, unless its time has come already. 1 if it is on the list. */
static int enlist(clock_fake *f, waiter *w)
{
    pthread_mutex_lock(&f->mutex);
    int early = f->mono_ns < w->deadline_ns;
    if (early) {
        w->next = f->waiters;
        f->waiters = w;
    }
    pthread_mutex_unlock(&f->mutex);
    return early;
}

/* Take the record off the list once the mover does not use it. 1 if its time has come. */
static int delist(clock_fake *f, waiter *w)
{
    pthread_mutex_lock(&f->mutex);
    while (w->state == TELLING)
        pthread_cond_wait(&f->told, &f->mutex);
    waiter **link = &f->waiters;
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    int passed = f->mono_ns >= w->deadline_ns;
    pthread_mutex_unlock(&f->mutex);
    return passed;
}

static int fake_wait(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                     int64_t deadline_ns)
{
    clock_fake *f = (clock_fake *)c;
    waiter w = {NULL, cond, mutex, deadline_ns, ASLEEP};
    if (!enlist(f, &w))
        return 1;
    pthread_cond_wait(cond, mutex);

    /* For the caller this is one longer sleep, and it checks its condition again anyway. */
    pthread_mutex_unlock(mutex);
    int passed = delist(f, &w);
    pthread_mutex_lock(mutex);
    return passed;
}

clock_fake *clock_fake_new(int64_t now_ms)
{
    clock_fake *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->source = (clock_source){fake_now_ms, fake_mono_ns, fake_wait, NULL};
    f->now_ms = now_ms;
    if (pthread_mutex_init(&f->mutex, NULL) != 0) {
        free(f);
        return NULL;
    }
    if (pthread_cond_init(&f->told, NULL) != 0) {
        pthread_mutex_destroy(&f->mutex);
        free(f);
        return NULL;
    }
    return f;
}

void clock_fake_free(clock_fake *f)
{
    if (!f)
        return;
    assert(!f->waiters);
    pthread_cond_destroy(&f->told);
    pthread_mutex_destroy(&f->mutex);
    free(f);
}

clock_source *clock_fake_source(clock_fake *f)
{
    return &f->source;
}

static waiter *due_and_asleep(const clock_fake *f)
{
    waiter *w = f->waiters;
    while (w && (w->state != ASLEEP || w->deadline_ns > f->mono_ns))
        w = w->next;
    return w;
}

void clock_fake_advance(clock_fake *f, int64_t ms)
{
    assert(ms >= 0);
    pthread_mutex_lock(&f->mutex);
    assert(ms < (INT64_MAX - f->mono_ns) / NS_PER_MS);
    f->now_ms += ms;
    f->mono_ns += ms * NS_PER_MS;

    /* The list may change while the clock's lock is released, so each search starts again. It ends:
     * no waiter is woken twice, and none enlists with a deadline that has passed. */
    waiter *w;
    while ((w = due_and_asleep(f)) != NULL) {
        w->state = TELLING;
        pthread_mutex_unlock(&f->mutex);

        pthread_mutex_lock(w->mutex);
        pthread_cond_broadcast(w->cond);
        pthread_mutex_unlock(w->mutex);

        pthread_mutex_lock(&f->mutex);
        w->state = TOLD;
        pthread_cond_broadcast(&f->told);
    }
    pthread_mutex_unlock(&f->mutex);
}
