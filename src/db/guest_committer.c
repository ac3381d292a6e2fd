/* A pool of a few committers, each lent to one thread at a time. The lock guards `taken`; it is
 * never held while a committer is used. Committers are only added, so that a pointer to one stays
 * valid without the lock. */
#include "db/guest_committer.h"

#include <stdlib.h>

#include "db/batch.h"

struct guest_committers {
    db *db;
    committer_options options;
    int most;
    pthread_mutex_t lock;
    pthread_cond_t freed;
    committer *at[GUEST_COMMITTERS_MAX];
    int taken[GUEST_COMMITTERS_MAX];
    int count;
    int64_t node;
    int64_t first_slot;
    int64_t token;
};

guest_committers *guest_committer_new(db *d, const committer_options *options)
{
    guest_committers *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    a->db = d;
    if (options)
        a->options = *options;
    a->most = d->driver->promises & DB_TURNS ? 1 : GUEST_COMMITTERS_MAX;
    pthread_mutex_init(&a->lock, NULL);
    clock_cond_init(&a->freed);
    return a;
}

void guest_committer_free(guest_committers *a)
{
    if (!a)
        return;
    for (int i = 0; i < a->count; i++)
        committer_close(a->at[i]);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->freed);
    free(a);
}

committer *guest_committer_at(guest_committers *a, int index)
{
    pthread_mutex_lock(&a->lock);
    committer *k = index < a->count ? a->at[index] : NULL;
    pthread_mutex_unlock(&a->lock);
    return k;
}

void guest_committer_set_node(guest_committers *a, int64_t node, int64_t first_slot, int64_t token)
{
    pthread_mutex_lock(&a->lock);
    a->node = node;
    a->first_slot = first_slot;
    a->token = token;
    pthread_mutex_unlock(&a->lock);
}

/* ---- One for a unit ---- */

/* A committer that no thread has and that has nothing undecided; -1: none. With the lock held. */
static int find_free(guest_committers *a)
{
    for (int i = 0; i < a->count; i++)
        if (!a->taken[i] && committer_is_idle(a->at[i]))
            return i;
    return -1;
}

/* Open one more, with the lock held: a thread that waits for the lock wants this committer
 * anyway. */
static pawl_code open_one(guest_committers *a, int *index, error *err)
{
    pawl_code rc = committer_open(&a->at[a->count], a->db, &a->options, err);
    if (rc == PAWL_OK)
        *index = a->count++;
    return rc;
}

/* Nothing signals `freed` when an undecided commit is settled: such a committer is found when
 * another thread gives its one back, or at the deadline. */
static pawl_code acquire_committer(guest_committers *a, int *index, error *err)
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

pawl_code guest_committer_apply(guest_committers *a, unit *u)
{
    error err = {0};
    int index = -1;
    pthread_mutex_lock(&a->lock);
    pawl_code rc = acquire_committer(a, &index, &err);
    if (rc == PAWL_OK)
        a->taken[index] = 1;
    int64_t node = a->node, slot = a->first_slot + index, token = a->token;
    pthread_mutex_unlock(&a->lock);
    if (rc != PAWL_OK) {
        batch_fail(u, &err);
        if (u->done)
            u->done(u, u->done_arg);
        return rc;
    }
    committer_set_node(a->at[index], node, slot, token);
    rc = committer_apply(a->at[index], u); /* if it is undecided the unit may be gone by now */
    pthread_mutex_lock(&a->lock);
    a->taken[index] = 0;
    pthread_cond_signal(&a->freed);
    pthread_mutex_unlock(&a->lock);
    return rc;
}

/* ---- All of them ---- */

/* With a fake clock that stands still nothing is waited for: what is under way belongs to another
 * thread, which finishes by itself. */
int guest_committer_flush(guest_committers *a, int64_t deadline_ns)
{
    int done = 1;
    committer *k;
    for (int i = 0; (k = guest_committer_at(a, i)) != NULL; i++)
        done &= committer_flush_runs(k, deadline_ns);
    return done;
}

void guest_committer_give_up(guest_committers *a)
{
    committer *k;
    for (int i = 0; (k = guest_committer_at(a, i)) != NULL; i++)
        committer_give_up_runs(k);
}

/* Drives undecided commits only: a unit under way is driven by the thread that handed it in. */
int guest_committer_drive(guest_committers *a)
{
    int did = 0;
    committer *k;
    for (int i = 0; (k = guest_committer_at(a, i)) != NULL; i++)
        did |= committer_drive(k);
    return did;
}

int64_t guest_committer_next_ns(guest_committers *a)
{
    int64_t next = INT64_MAX;
    committer *k;
    for (int i = 0; (k = guest_committer_at(a, i)) != NULL; i++) {
        int64_t one = committer_next_ns(k);
        next = one < next ? one : next;
    }
    return next;
}
