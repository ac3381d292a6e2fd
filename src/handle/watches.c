/* The waiters of a handle; see watches.h. While there are none, watches_tell() costs one load of an
 * atomic number and no lock, because it is called at the end of every run. */
#include "handle/watches.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "db/unit.h"

static const int64_t LOOK_MS = 1000;

void watches_init(watches *all, clock_source *clock)
{
    *all = (watches){.clock = clock};
    pthread_mutex_init(&all->lock, NULL);
}

void watches_free(watches *all)
{
    assert(atomic_load(&all->count) == 0);
    pthread_mutex_destroy(&all->lock);
}

static watch **list_of(watches *all, slice id)
{
    return &all->lists[unit_key_text("runs.id", id) % WATCH_LISTS];
}

pawl_code watches_add(watches *all, watch *w, slice id, error *err)
{
    *w = (watch){.id = id, .stops = atomic_load(&all->stops)};
    if (clock_cond_init(&w->cond) != 0)
        return error_nomem(err);
    pthread_mutex_lock(&all->lock);
    watch **list = list_of(all, id);
    w->next = *list;
    *list = w;
    atomic_fetch_add(&all->count, 1);
    pthread_mutex_unlock(&all->lock);
    return PAWL_OK;
}

void watches_remove(watches *all, watch *w)
{
    pthread_mutex_lock(&all->lock);
    watch **at = list_of(all, w->id);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    atomic_fetch_sub(&all->count, 1);
    pthread_mutex_unlock(&all->lock);
    pthread_cond_destroy(&w->cond);
    free(w->end);
}

pawl_code watches_sleep(watches *all, watch *w, int64_t deadline_ns, error *err)
{
    clock_source *clock = all->clock;
    int64_t look = clock_deadline(clock->mono_ns(clock), LOOK_MS);
    pthread_mutex_lock(&all->lock);
    int stopped = atomic_load(&all->stops) != w->stops;
    if (!w->told && !stopped) /* RULE a-change-before-the-sleep-is-not-missed */
        clock->wait(clock, &w->cond, &all->lock, look < deadline_ns ? look : deadline_ns);
    w->told = 0;
    pthread_mutex_unlock(&all->lock);
    return stopped ? error_set(err, PAWL_CLOSED, "the engine was asked to stop") : PAWL_OK;
}

static void tell_watch(watch *w)
{
    w->told = 1;
    pthread_cond_signal(&w->cond);
}

void watches_tell(watches *all, slice id)
{
    if (atomic_load(&all->count) == 0)
        return;
    pthread_mutex_lock(&all->lock);
    for (watch *w = *list_of(all, id); w; w = w->next)
        if (slice_equal(w->id, id)) /* RULE the-waiters-of-a-run-hear-of-it */
            tell_watch(w);
    pthread_mutex_unlock(&all->lock);
}

static slice copy_text(char *to, slice s)
{
    if (s.at)
        memcpy(to, s.at, s.size);
    return (slice){s.at ? to : NULL, s.size};
}

/* NULL: memory is out, and the waiter reads the row. */
static watch_end *copy_end(const watch_end *end)
{
    watch_end *copy = malloc(sizeof *copy + end->output.size + end->error.size + 1);
    if (!copy)
        return NULL;
    char *texts = (char *)(copy + 1);
    *copy = *end;
    copy->output = copy_text(texts, end->output);
    copy->error = copy_text(texts + end->output.size, end->error);
    return copy;
}

void watches_tell_end(watches *all, slice id, const watch_end *end)
{
    if (atomic_load(&all->count) == 0)
        return;
    pthread_mutex_lock(&all->lock);
    for (watch *w = *list_of(all, id); w; w = w->next) {
        if (!slice_equal(w->id, id)) /* RULE an-end-is-for-the-waiters-of-its-run */
            continue;
        /* RULE the-first-end-is-the-answer */
        if (!w->end) /* a waiter may be reading it, and it is as good as one after a redrive */
            w->end = copy_end(end);
        tell_watch(w);
    }
    pthread_mutex_unlock(&all->lock);
}

const watch_end *watches_end(watches *all, watch *w, int64_t run, int64_t generation)
{
    pthread_mutex_lock(&all->lock);
    /* RULE an-end-before-the-wait-is-not-its-answer */
    if (w->end && (w->end->run != run || w->end->generation < generation)) {
        free(w->end);
        w->end = NULL;
    }
    const watch_end *end = w->end;
    pthread_mutex_unlock(&all->lock);
    return end;
}

void watches_tell_all(watches *all)
{
    if (atomic_load(&all->count) == 0)
        return;
    pthread_mutex_lock(&all->lock);
    for (int i = 0; i < WATCH_LISTS; i++)
        for (watch *w = all->lists[i]; w; w = w->next)
            tell_watch(w);
    pthread_mutex_unlock(&all->lock);
}

void watches_stop(watches *all)
{
    atomic_fetch_add(&all->stops, 1);
}
