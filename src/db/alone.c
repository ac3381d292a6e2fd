/* A few committers, each lent to one thread at a time. The lock guards who has which; it is never
 * held while one of them is used. They are only added, in order, so that one that is there stays
 * there and can be asked without the lock being kept. */
#include "db/alone.h"

#include <stdlib.h>

#include "db/batch.h"

struct alone {
    db *db;
    committer_options options;
    int most;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    committer *at[ALONE_MAX];
    int taken[ALONE_MAX];
    int count;
    int64_t node;
    int64_t first_slot;
};

alone *alone_new(db *d, const committer_options *options)
{
    alone *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->db = d;
    if (options)
        a->options = *options;
    a->most = d->driver->promises & DB_TURNS ? 1 : ALONE_MAX;
    pthread_mutex_init(&a->lock, NULL);
    clock_cond_init(&a->freed);
    return a;
}

void alone_free(alone *a)
{
    if (!a)
        return;
    for (int i = 0; i < a->count; i++)
        committer_close(a->at[i]);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->freed);
    free(a);
}

committer *alone_at(alone *a, int index)
{
    pthread_mutex_lock(&a->lock);
    committer *k = index < a->count ? a->at[index] : NULL;
    pthread_mutex_unlock(&a->lock);
    return k;
}

void alone_set_node(alone *a, int64_t node, int64_t first_slot)
{
    pthread_mutex_lock(&a->lock);
    a->node = node;
    a->first_slot = first_slot;
    pthread_mutex_unlock(&a->lock);
}

/* ---- One for a unit ---- */

/* One that nobody has and that is settled; -1: none. With the lock held. */
static int find_free(alone *a)
{
    for (int i = 0; i < a->count; i++)
        if (!a->taken[i] && committer_is_idle(a->at[i]))
            return i;
    return -1;
}

/* Open one more. With the lock held: who waits for it would wait for this one anyway. */
static pawl_code open_one(alone *a, int *index, error *err)
{
    pawl_code rc = committer_open(&a->at[a->count], a->db, &a->options, err);
    if (rc == PAWL_OK)
        *index = a->count++;
    return rc;
}

/* What an undecided commit of one has to wait for is not told here: then it is looked at again when
 * somebody else is done, or at the end. */
static pawl_code take(alone *a, int *index, error *err)
{
    clock_source *clock = a->db->options.clock;
    int64_t patience = a->options.busy_ms > 0 ? a->options.busy_ms : a->db->options.busy_ms;
    int64_t deadline = clock_deadline(clock->mono_ns(clock), patience);
    int over = a->options.by_hand;
    for (;;) {
        *index = find_free(a);
        if (*index >= 0)
            return PAWL_OK;
        if (a->count < a->most)
            return open_one(a, index, err);
        if (over)
            return error_set(err, PAWL_BUSY, "other transactions of this kind are under way");
        over = clock->wait(clock, &a->freed, &a->lock, deadline);
    }
}

pawl_code alone_apply(alone *a, unit *u)
{
    error err = {0};
    int index = -1;
    pthread_mutex_lock(&a->lock);
    pawl_code rc = take(a, &index, &err);
    if (rc == PAWL_OK)
        a->taken[index] = 1;
    int64_t node = a->node, slot = a->first_slot + index;
    pthread_mutex_unlock(&a->lock);
    if (rc != PAWL_OK) {
        batch_fail(u, &err);
        if (u->done)
            u->done(u, u->done_arg);
        return rc;
    }
    committer_set_node(a->at[index], node, slot);
    rc = committer_apply(a->at[index], u); /* if it is undecided the unit may be gone by now */
    pthread_mutex_lock(&a->lock);
    a->taken[index] = 0;
    pthread_cond_signal(&a->freed);
    pthread_mutex_unlock(&a->lock);
    return rc;
}

/* ---- All of them ---- */

/* By a clock that stands still nobody waits: what is under way is another thread's, which comes to
 * its end by itself. */
int alone_flush(alone *a, int64_t deadline_ns)
{
    int done = 1;
    committer *k;
    for (int i = 0; (k = alone_at(a, i)) != NULL; i++)
        done &= committer_flush_runs(k, deadline_ns);
    return done;
}

void alone_give_up(alone *a)
{
    committer *k;
    for (int i = 0; (k = alone_at(a, i)) != NULL; i++)
        committer_give_up_runs(k);
}

/* One that a thread has is that thread's: only what is undecided is anybody's. */
int alone_drive(alone *a)
{
    int did = 0;
    committer *k;
    for (int i = 0; (k = alone_at(a, i)) != NULL; i++)
        did |= committer_drive(k);
    return did;
}

int64_t alone_next_ns(alone *a)
{
    int64_t next = INT64_MAX;
    committer *k;
    for (int i = 0; (k = alone_at(a, i)) != NULL; i++) {
        int64_t one = committer_next_ns(k);
        next = one < next ? one : next;
    }
    return next;
}
