/* The hand-over of new runs to the runners of this node, or to other nodes. A start stays here only
 * while few runs are awake: otherwise nodes with less to do can claim the run. */
#include "sched/handover.h"
#include "sched/sched_internal.h"

enum { LOCAL_MAX = 8192 }; /* a start stays here while fewer runs than this are awake */

/* Makes the run that is about to be inserted. NULL: memory is out. */
static pawl_run *make_run(sched *s, const run_insert *b)
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
    pawl_run *run = run_new(&s->run_host, &facts);
    if (run)
        run->slot->claims = 1;
    return run;
}

/* The place in the table of started runs for ids with this hash. It has the key of the run that was
 * started last among them. */
static int64_t *started_key(sched *s, slice id)
{
    return &s->started_keys[unit_key_text("runs.id", id) % SCHED_STARTED_KEYS];
}

/* Is there a commit that is told when the engine is driven again, and may be that of an end? */
static int tells_when_driven(const sched *s)
{
    return s->driven != DRIVEN_BY_THREADS && atomic_load(&s->runners[SCHED_HAND].answered);
}

int64_t sched_will_tell(sched *s, slice id)
{
    sched_lock(s);
    int64_t *started = started_key(s, id), key = *started;
    pawl_run *run = key ? map_get(&s->runs, (uint64_t)key) : NULL;
    *started = 0;
    /* RULE L2-a-key-of-the-same-hash-is-of-another-run */
    int will = run && slice_equal(slice_of(run->id), id) &&
               /* RULE L2-what-was-told-already-is-read */
               !run->slot->end_told &&
               /* RULE L2-an-end-that-is-not-told-yet-is-read */
               !tells_when_driven(s) &&
               /* RULE A7-a-hold-is-read */
               run->slot->keeps == KEPT_NOT && !run->slot->stays &&
               !atomic_load(&run->hold_requested);
    sched_unlock(s);
    return will ? key : 0;
}

/* The start is over: this engine may cease to be a node again. If the run was made, it is
 * driven. */
static void release_node(sched *s, int64_t key, pawl_run *made)
{
    sched_lock(s);
    map_take(&s->coming, (uint64_t)key);
    if (made) {
        *started_key(s, slice_of(made->id)) = key;
        run_queue_enter(s, made);
    }
    if (--s->starting == 0)
        pthread_cond_broadcast(&s->started);
    sched_unlock(s);
}

int64_t handover_owner(sched *s, run_insert *b)
{
    sched_lock(s);
    int64_t me = atomic_load(&s->open_node);
    int here = me && b->here && b->mail == 0 && (!s->only || b->parent) && !s->fenced &&
               !s->takes_no_starts && b->wake_ms <= b->now_ms &&
               s->runs.count < s->heap.count + LOCAL_MAX && !atomic_load(&s->stopping) &&
               run_queue_reserve(s, b->run);
    s->starting += here;
    sched_unlock(s);
    b->owner = here ? me : 0;
    b->ready = here ? make_run(s, b) : NULL;
    if (here && !b->ready) { /* RULE L3-a-start-stays-here-only-with-its-memory */
        b->owner = 0;
        release_node(s, b->run, NULL);
    }
    return b->owner;
}

void handover_offer(sched *s)
{
    sched_lock(s);
    if (run_queue_may_claim(s))
        run_queue_call_node_loop(s);
    sched_unlock(s);
    sched_listen(s);
    sched_notify_others(s);
}

/* Something was committed: runs that wait for the storage need not wait any longer. */
static void tell_committed(sched *s)
{
    if (atomic_load(&s->backoff_ms) == 0)
        return;
    sched_lock(s);
    storage_backoff_committed(s);
    sched_unlock(s);
}

void handover_started(sched *s, const run_insert *b, int made)
{
    if (made)
        tell_committed(s);
    if (made && !b->owner)
        handover_offer(s);
    if (!b->owner)
        return;
    if (!made)
        run_free(b->ready);
    release_node(s, b->run, made ? b->ready : NULL);
}
