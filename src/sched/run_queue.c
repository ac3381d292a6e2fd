/* The run queue of a node: lists of ready runs, answers on their way back, timers. The lock is held
 * in all of it, but for run_queue_answered(). */
#include <assert.h>

#include "sched/sched.h"
#include "sched/work_threads.h"

enum { FIRE_MAX = 2048 }; /* runs that are ready: no more of those that are due join them */

/* Whose list is the shortest. By hand there is only one. */
static runner *shortest(sched *d)
{
    if (d->driven != DRIVEN_BY_THREADS)
        return &d->runners[SCHED_HAND];
    runner *best = &d->runners[0];
    for (int i = 1; i < d->runner_count; i++)
        if (d->runners[i].count + atomic_load(&d->runners[i].busy) <
            best->count + atomic_load(&best->busy))
            best = &d->runners[i];
    return best;
}

/* There is something for the runner. A thread that drives by hand may wait for the descriptor,
 * unless it is the calling thread. */
static void call(sched *d, runner *r)
{
    if (r->waits)
        pthread_cond_signal(&r->cond);
    else if (d->driven == DRIVEN_NOT ||
             (d->driven == DRIVEN_BY_HAND && !pthread_equal(d->driver, pthread_self())))
        sched_call(d, 'k');
}

void run_queue_ready_on(sched *d, runner *r, pawl_run *run)
{
    sched_assert_locked(d);
    heap_take(&d->heap, &run->slot->timer);
    storage_backoff_end(run);
    run_move(run, PLACE_READY);
    run->slot->next = NULL;
    if (run->quarantine_level && quarantine_add(d, run))
        return;
    if (r->last)
        r->last->slot->next = run;
    else
        r->first = run;
    r->last = run;
    r->count++;
    call(d, r);
}

void run_queue_ready(sched *d, pawl_run *run)
{
    run_queue_ready_on(d, run->code.fiber ? &d->runners[run->slot->runner] : shortest(d), run);
}

/* The answers of a batch come one after the other, from the leader of the group commit. If each of
 * them took the lock, the leader would contend with the runners for it. So:
 *   1. The leader pushes the run onto a lock-free list of its runner.
 *   2. If the list was empty, it wakes the runner.
 *   3. The runner takes the whole list and makes its runs ready, all at once. */
void run_queue_answered(sched *d, pawl_run *run)
{
    runner *r = &d->runners[run->slot->runner];
    pawl_run *first = atomic_load(&r->answered);
    do
        run->slot->next = first;
    while (!atomic_compare_exchange_weak(&r->answered, &first, run));
    if (first)
        return;
    pthread_mutex_lock(&d->lock);
    call(d, r);
    pthread_mutex_unlock(&d->lock);
}

void run_queue_collect(runner *r)
{
    sched *d = r->sched;
    if (!atomic_load_explicit(&r->answered, memory_order_relaxed))
        return;
    pawl_run *newest = atomic_exchange(&r->answered, NULL), *oldest = NULL;
    while (newest) {
        pawl_run *next = newest->slot->next;
        newest->slot->next = oldest;
        oldest = newest;
        newest = next;
    }
    for (pawl_run *run = oldest, *next; run; run = next) {
        next = run->slot->next;
        if (run->draft.unit->answer == UNIT_COMMITTED) {
            if (run->code.want == WANT_END || run->draft.status.count > 0)
                run_queue_tell_end(d, run);
            storage_backoff_committed(d);
        }
        run_queue_ready(d, run);
    }
}

void run_queue_sleep(sched *d, pawl_run *run, int64_t due_ms)
{
    sched_assert_locked(d);
    run_move(run, PLACE_SLEEPS);
    /* Neighbours in the tables are read and written together. */
    /* RULE L2-of-those-due-at-one-moment-neighbours-come-together */
    run->slot->timer.rank = run->lease.run;
    if (!heap_put(&d->heap, &run->slot->timer, run, due_ms)) {
        run_queue_ready(d, run); /* then it looks at the clock too often, which is not wrong */
        return;
    }
    for (int i = 0; run->slot->timer.place == 1 && i < d->thread_count; i++) {
        if (!d->runners[i].waits)
            continue;
        pthread_cond_signal(&d->runners[i].cond); /* it may have to wake earlier than it thinks */
        break;
    }
}

void run_queue_nudge(sched *d, pawl_run *run)
{
    run->nudged = 1;
    if (run->slot->place == PLACE_SLEEPS && !run->slot->put_off)
        run_queue_ready(d, run);
}

void run_queue_call_one(sched *d)
{
    for (int i = 0; i < d->thread_count; i++) {
        if (!d->runners[i].waits)
            continue;
        pthread_cond_signal(&d->runners[i].cond);
        return;
    }
    if (work_threads_are_there(d))
        pthread_cond_signal(&d->work_cond);
    if (d->driven != DRIVEN_BY_THREADS)
        call(d, &d->runners[SCHED_HAND]);
}

/* Each claim and each start on its way has one already. */
int run_queue_reserve(sched *d)
{
    sched_assert_locked(d);
    size_t before = (size_t)d->claiming + d->locked_claims.count + (size_t)d->starting;
    return map_reserve(&d->runs, before + 1) == 0;
}

void run_queue_enter(sched *d, pawl_run *run)
{
    int entered = map_put(&d->runs, (uint64_t)run->lease.run, run) == 0;
    assert(entered);
    (void)entered;
    run_queue_ready(d, run);
}

void run_queue_forget(sched *d, pawl_run *run)
{
    sched_assert_locked(d);
    heap_take(&d->heap, &run->slot->timer);
    quarantine_acquit(d, run);
    run_move(run, PLACE_GONE);
    map_take(&d->runs, (uint64_t)run->lease.run);
}

void run_queue_call_keeper(sched *d)
{
    if (!d->node_loop_called)
        sched_call(d, 'k');
    d->node_loop_called = 1;
}

void run_queue_tell_end(sched *d, const pawl_run *run)
{
    watches_tell(d->options.watches, slice_of(run->id));
}

void run_queue_heard(void *arg)
{
    sched *d = arg;
    atomic_store(&d->inbox_due, 1);
    pthread_mutex_lock(&d->lock);
    if (d->options.threads == 0)
        d->node_loop_called = 1; /* the calling thread drives, and is about to look */
    else
        run_queue_call_keeper(d);
    pthread_mutex_unlock(&d->lock);
    watches_tell_all(d->options.watches);
}

static int64_t ready_count(const sched *d)
{
    int64_t count = d->runners[SCHED_HAND].count;
    for (int i = 0; i < d->runner_count; i++)
        count += d->runners[i].count;
    return count;
}

/* Very many may be due at once. Only as many become ready as keep the runners busy for a moment:
 * what becomes ready otherwise, as a run that is started now, does not wait behind all of them, and
 * the lock is not held for long. The rest follows when these are taken in hand. */
void run_queue_fire(sched *d)
{
    if (d->heap.count == 0)
        return;
    int64_t now = sched_now_ms(d);
    if (now < d->fired_ms - 1000)
        storage_backoff_clock_back(d);
    d->fired_ms = now;
    if (heap_due_ms(&d->heap) > now)
        return;
    /* RULE L4-what-becomes-ready-does-not-wait-for-all-that-are-due */
    for (int64_t more = FIRE_MAX - ready_count(d); more > 0; more--) {
        run_queue_ready(d, heap_first(&d->heap));
        if (heap_due_ms(&d->heap) > now)
            return;
    }
}

/* Is no run awake, and nothing on its way? With the lock held. */
static int is_quiet(sched *d)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    int quiet = d->claiming == 0 && d->starting == 0 && !d->jobs.first && !quarantine_is_ready(d) &&
                heap_due_ms(&d->heap) > sched_now_ms(d);
    for (int i = 0; quiet && i < SCHED_RUNNERS; i++) {
        const runner *r = &d->runners[i];
        int moves = r->runs && !r->waits && !r->lost; /* it may be in what a run has deferred */
        quiet = !r->first && !atomic_load(&r->answered) && !atomic_load(&r->busy) && !moves;
    }
    while (quiet && map_next(&d->runs, &cursor, &key, &at)) {
        const pawl_run *run = at;
        /* One in quarantine waits for its time. */
        int waits = run->slot->place == PLACE_READY && run->quarantine_level;
        quiet = run->slot->place == PLACE_SLEEPS || run->slot->place == PLACE_AT_LIMIT || waits;
    }
    return quiet;
}

int run_queue_is_idle(sched *d, int calls, int64_t *looks)
{
    pthread_mutex_lock(&d->lock);
    int quiet = is_quiet(d) && !d->node_loop_called;
    *looks = atomic_load(&d->kept);
    if (calls)
        run_queue_call_keeper(d);
    pthread_mutex_unlock(&d->lock);
    return quiet;
}

pawl_run *run_queue_take(runner *r)
{
    pawl_run *run = r->first;
    if (!run)
        return NULL;
    r->first = run->slot->next;
    if (!r->first)
        r->last = NULL;
    r->count--;
    run->slot->next = NULL;
    sched_assert_locked(r->sched);
    run_move(run, PLACE_IN_HAND);
    return run;
}

/* The moment of the monotonic clock at which the first timer is due. */
int64_t run_queue_next_ns(sched *d)
{
    if (d->heap.count == 0)
        return INT64_MAX;
    int64_t left = heap_due_ms(&d->heap) - sched_now_ms(d);
    int64_t now = d->host->mono_ns(d->host);
    return left <= 0 ? now : clock_deadline(now, left);
}
