/* The hand-over of new runs to the runners of this node, or to other nodes. A start stays here only
 * while few runs are awake: otherwise nodes with less to do can claim the run. */
#include "sched/handover.h"

enum { LOCAL_MAX = 4096 }; /* runs that are awake, up to which a start stays here */

/* The run as it will be when it is inserted. NULL: memory is out. */
static pawl_run *make_run(sched *d, const run_insert *b)
{
    run_facts facts = {.lease = {b->run, b->owner, 1},
                       .generation = 1,
                       .id = b->id,
                       .version = b->version,
                       .input = run_insert_is_small(b) ? b->input : (slice){0},
                       .fresh = run_insert_is_small(b),
                       .parent = b->parent,
                       .parent_generation = b->parent_generation,
                       .parent_op = b->parent_op,
                       .deadline_ms = b->deadline_ms,
                       .workflow = b->here};
    pawl_run *run = run_new(&d->run_host, &facts);
    if (run)
        run->slot->claims = 1;
    return run;
}

/* This engine may cease to be a node, as far as this start is concerned: its run, if it was made,
 * is driven. */
static void release_node(sched *d, pawl_run *made)
{
    pthread_mutex_lock(&d->lock);
    if (made)
        run_queue_enter(d, made);
    if (--d->starting == 0)
        pthread_cond_broadcast(&d->started);
    pthread_mutex_unlock(&d->lock);
}

int64_t handover_owner(sched *d, run_insert *b)
{
    pthread_mutex_lock(&d->lock);
    int64_t me = atomic_load(&d->open_node);
    int here = me && b->here && b->mail == 0 && (!d->only || b->parent) && !d->fenced &&
               b->wake_ms <= b->now_ms && d->runs.count < d->heap.count + LOCAL_MAX &&
               !atomic_load(&d->stopping) && run_queue_reserve(d);
    d->starting += here;
    pthread_mutex_unlock(&d->lock);
    b->owner = here ? me : 0;
    b->ready = here ? make_run(d, b) : NULL;
    if (here && !b->ready) { /* RULE L3-a-start-stays-here-only-with-its-memory */
        b->owner = 0;
        release_node(d, NULL);
    }
    return b->owner;
}

void handover_offer(sched *d)
{
    pthread_mutex_lock(&d->lock);
    run_queue_call_keeper(d);
    pthread_mutex_unlock(&d->lock);
    sched_hear_others(d);
    sched_tell_others(d);
}

/* Something was committed: runs that wait for the storage need not wait any longer. */
static void tell_committed(sched *d)
{
    if (atomic_load(&d->trouble_ms) == 0)
        return;
    pthread_mutex_lock(&d->lock);
    storage_backoff_committed(d);
    pthread_mutex_unlock(&d->lock);
}

void handover_started(sched *d, const run_insert *b, int made)
{
    if (made)
        tell_committed(d);
    if (made && !b->owner)
        handover_offer(d);
    if (!b->owner)
        return;
    if (!made)
        run_free(b->ready);
    release_node(d, made ? b->ready : NULL);
}
