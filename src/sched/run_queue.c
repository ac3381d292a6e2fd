/* The run queue of a node: lists of ready runs, answers on their way back, timers. All functions
 * are called with the lock held, except run_queue_answered(), run_queue_notified() and
 * run_queue_is_idle(), which take it themselves. */
#include <assert.h>

#include "sched/sched_internal.h"
#include "sched/work_limit.h"
#include "sched/work_threads.h"

enum {
    FIRE_MAX = 2048,     /* while so many runs are ready, no timers are fired */
    COLD_EVERY = 8,      /* one choice in so many takes a cold run although warm ones are ready */
    READY_ENOUGH = 1024, /* while so many runs are ready, none is claimed or, being due, read */
    LITTLE = 64,         /* when a runner has only so many ready runs, more come into memory */
};

/* The runner with the shortest list. By hand there is only one. */
static runner *shortest_runner(sched *s)
{
    if (s->driven != DRIVEN_BY_THREADS)
        return &s->runners[SCHED_HAND];
    runner *best = &s->runners[0];
    for (int i = 1; i < s->runner_count; i++)
        if (s->runners[i].count + atomic_load(&s->runners[i].busy) <
            best->count + atomic_load(&best->busy))
            best = &s->runners[i];
    return best;
}

/* Wakes the runner: there is a ready run for it. While the gate of work at risk is closed no run is
 * taken, and the runner would only wait again: it is woken when the gate opens. A caller that
 * drives by hand may be waiting for the engine's descriptor, so that becomes readable, unless the
 * calling thread is that caller. */
static void wake_runner(sched *s, runner *r)
{
    if (r->waits) {
        if (!at_risk_is_closed(s)) /* RULE a-runner-is-not-woken-before-a-closed-gate */
            pthread_cond_signal(&r->cond);
    } else if (s->driven == DRIVEN_NOT ||
               (s->driven == DRIVEN_BY_HAND && !pthread_equal(s->driver, pthread_self())))
        sched_call(s);
}

/* Adds the run to the list. Warm runs stand before cold ones, each in the order in which they have
 * become ready: what has begun goes on before more is begun, so that few fibers are in memory at a
 * time. */
static void add_ready(runner *r, pawl_run *run)
{
    pawl_run *before = run->code.fiber ? r->last_warm : r->last;
    run->slot->next = before ? before->slot->next : r->first;
    if (before)
        before->slot->next = run;
    else
        r->first = run;
    if (!run->slot->next)
        r->last = run;
    if (run->code.fiber)
        r->last_warm = run;
    r->count++;
}

/* Takes the first run of the list; now and then the first cold one, so that warm runs which never
 * end do not starve it. */
static pawl_run *take_next(runner *r)
{
    pawl_run *before = NULL, *run = r->first;
    /* RULE L2-cold-runs-have-their-turns */
    if (r->last_warm && r->last_warm->slot->next && ++r->takes % COLD_EVERY == 0) {
        before = r->last_warm;
        run = before->slot->next;
    }
    if (run == r->last_warm)
        r->last_warm = NULL;
    if (before)
        before->slot->next = run->slot->next;
    else
        r->first = run->slot->next;
    if (r->last == run)
        r->last = before;
    r->count--;
    run->slot->next = NULL;
    return run;
}

void run_queue_ready_on(sched *s, runner *r, pawl_run *run)
{
    sched_assert_locked(s);
    heap_take(&s->heap, &run->slot->timer);
    storage_backoff_end(run);
    run_move(run, PLACE_READY);
    run->slot->next = NULL;
    if (run->quarantine_level && quarantine_add(s, run))
        return;
    add_ready(r, run);
    wake_runner(s, r);
}

void run_queue_ready(sched *s, pawl_run *run)
{
    run_queue_ready_on(s, run->code.fiber ? &s->runners[run->slot->runner] : shortest_runner(s),
                       run);
}

/* The answers of a batch come one after the other, from the leader of the group commit. If each of
 * them took the lock, the leader would contend with the runners for it. So:
 *   1. The leader pushes the run onto a lock-free list of its runner.
 *   2. If the list was empty, it wakes the runner.
 *   3. The runner takes the whole list and makes its runs ready, all at once. */
void run_queue_answered(sched *s, pawl_run *run)
{
    runner *r = &s->runners[run->slot->runner];
    pawl_run *first = atomic_load(&r->answered);
    do
        run->slot->next = first;
    while (!atomic_compare_exchange_weak(&r->answered, &first, run));
    if (first)
        return;
    sched_lock(s);
    wake_runner(s, r);
    sched_unlock(s);
}

/* The unit of the run was committed: says so to the calls that wait for the run, if it may concern
 * them. If the run has ended they are told how, so that they do not read its row. A large output is
 * not in the unit; it is read. */
static void tell_committed(sched *s, pawl_run *run)
{
    run_end end;
    run->slot->end_told |= run->code.want == WANT_END; /* RULE L2-an-end-is-told-once */
    if (run->code.want == WANT_END &&
        run_finish_read(run->draft.unit, run->draft.turn_end_stmt, &end) &&
        (end.output.at || end.error.at)) {
        watch_end told = {.run = run->lease.run,
                          .generation = run->generation,
                          .phase = (int64_t)end.phase,
                          .output = end.output,
                          .error = end.error};
        watches_tell_end(s->options.watches, slice_of(run->id), &told);
    } else if (run->code.want == WANT_END || run->draft.status.count > 0) {
        run_queue_tell_watches(s, run);
    }
}

void run_queue_collect(runner *r)
{
    sched *s = r->sched;
    sched_assert_locked(s);
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
            tell_committed(s, run);
            storage_backoff_committed(s);
        }
        run_queue_ready(s, run);
    }
}

void run_queue_sleep(sched *s, pawl_run *run, int64_t due_ms)
{
    sched_assert_locked(s);
    run_move(run, PLACE_SLEEPS);
    /* Runs with neighbouring keys are read and written together. */
    /* RULE L2-of-those-due-at-one-moment-neighbours-come-together */
    run->slot->timer.rank = run->lease.run;
    if (!heap_put(&s->heap, &run->slot->timer, run, due_ms)) {
        /* Memory is out. The run goes on at once, finds that it is not due, and sleeps again. */
        run_queue_ready(s, run);
        return;
    }
    for (int i = 0; run->slot->timer.place == 1 && i < s->thread_count; i++) {
        if (!s->runners[i].waits)
            continue;
        pthread_cond_signal(&s->runners[i].cond); /* the first timer may be due earlier than this
                                                     runner waits */
        break;
    }
}

void run_queue_arrived(sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    run->has_arrival = 1;
    if (run->slot->place == PLACE_SLEEPS && !run->slot->put_off)
        run_queue_ready(s, run);
}

int run_queue_call_one(sched *s)
{
    sched_assert_locked(s);
    for (int i = 0; i < s->thread_count; i++) {
        if (!s->runners[i].waits)
            continue;
        pthread_cond_signal(&s->runners[i].cond);
        return 1;
    }
    if (work_threads_are_there(s))
        pthread_cond_signal(&s->work_cond);
    if (s->driven != DRIVEN_BY_THREADS)
        wake_runner(s, &s->runners[SCHED_HAND]);
    return 0;
}

/* Each claim and each start on its way has room reserved already. */
int run_queue_has_room(sched *s)
{
    sched_assert_locked(s);
    size_t before = (size_t)s->claiming + s->locked_claims.count + (size_t)s->starting;
    return map_reserve(&s->runs, before + 1) == 0;
}

int run_queue_reserve(sched *s, int64_t key)
{
    return run_queue_has_room(s) && map_put(&s->coming, (uint64_t)key, s) == 0;
}

int run_queue_knows(const sched *s, int64_t key)
{
    sched_assert_locked(s);
    return map_get(&s->runs, (uint64_t)key) || map_get(&s->coming, (uint64_t)key) ||
           map_get(&s->locked_claims, (uint64_t)key);
}

/* Where the key of the last run with this hash of its id is kept. A run of another id, and one that
 * has left memory, are told from the run that is asked for by the run itself. */
static int64_t *id_key(sched *s, slice id)
{
    return &s->id_keys[unit_key_text("runs.id", id) % SCHED_ID_KEYS];
}

int64_t sched_key_of(sched *s, slice id)
{
    sched_lock(s);
    int64_t key = *id_key(s, id);
    const pawl_run *run = key ? map_get(&s->runs, (uint64_t)key) : NULL;
    if (!run || !slice_equal(slice_of(run->id), id)) /* RULE L2-a-key-is-that-of-its-id */
        key = 0;
    sched_unlock(s);
    return key;
}

void run_queue_enter_on(sched *s, runner *r, pawl_run *run)
{
    sched_assert_locked(s);
    int entered = map_put(&s->runs, (uint64_t)run->lease.run, run) == 0;
    assert(entered);
    (void)entered;
    *id_key(s, slice_of(run->id)) = run->lease.run;
    run_queue_ready_on(s, r ? r : shortest_runner(s), run);
}

void run_queue_enter(sched *s, pawl_run *run)
{
    run_queue_enter_on(s, NULL, run);
}

void run_queue_forget(sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    heap_take(&s->heap, &run->slot->timer);
    quarantine_acquit(s, run);
    run_move(run, PLACE_GONE);
    map_take(&s->runs, (uint64_t)run->lease.run);
}

void run_queue_call_node_loop(sched *s)
{
    sched_assert_locked(s);
    if (!s->node_loop_called)
        sched_call(s);
    s->node_loop_called = 1;
}

void run_queue_tell_watches(sched *s, const pawl_run *run)
{
    watches_tell(s->options.watches, slice_of(run->id));
}

void run_queue_notified(void *arg)
{
    sched *s = arg;
    atomic_store(&s->inbox_due, 1);
    sched_lock(s);
    if (s->options.threads == 0)
        s->node_loop_called = 1; /* the calling thread drives, and is about to look */
    else
        run_queue_call_node_loop(s);
    sched_unlock(s);
    watches_tell_all(s->options.watches);
}

int64_t run_queue_ready_count(const sched *s)
{
    int64_t count = s->runners[SCHED_HAND].count;
    sched_assert_locked(s);
    for (int i = 0; i < s->runner_count; i++)
        count += s->runners[i].count;
    return count;
}

/* A run whose time has come: it slept, or its deadline has passed while it waited for a slot. */
static void wake_due(sched *s, pawl_run *run)
{
    if (run->slot->place == PLACE_AT_LIMIT) {
        run->slot->left_line = 1;
        work_limit_call(s, run);
    } else {
        run_queue_ready(s, run);
    }
}

/* Very many runs may be due at once. Only as many become ready as keep the runners busy for a
 * moment. So a run that becomes ready otherwise, because it is started now, does not wait behind
 * all of them, and the lock is not held for long. The rest follows when these are taken in hand. */
void run_queue_fire(sched *s)
{
    sched_assert_locked(s);
    if (s->heap.count == 0)
        return;
    int64_t now = sched_now_ms(s);
    if (now < s->fired_ms - 1000)
        storage_backoff_clock_back(s);
    s->fired_ms = now;
    if (heap_due_ms(&s->heap) > now)
        return;
    /* RULE L4-what-becomes-ready-does-not-wait-for-all-that-are-due */
    for (int64_t more = FIRE_MAX - run_queue_ready_count(s); more > 0; more--) {
        wake_due(s, heap_first(&s->heap));
        if (heap_due_ms(&s->heap) > now)
            return;
    }
}

/* Is no run awake, and nothing on its way? With the lock held. */
static int is_quiet(sched *s)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    int quiet = dormant_next_ns(s) > s->host->mono_ns(s->host) && s->claiming == 0 &&
                s->starting == 0 && !s->jobs.first && !quarantine_is_ready(s) &&
                heap_due_ms(&s->heap) > sched_now_ms(s);
    for (int i = 0; quiet && i < SCHED_RUNNERS; i++) {
        const runner *r = &s->runners[i];
        int moves = r->runs && !r->waits && !r->lost; /* a thread that does not wait may be in a
                                                         function of pawl_defer() */
        quiet = !r->first && !atomic_load(&r->answered) && !atomic_load(&r->busy) && !moves;
    }
    while (quiet && map_next(&s->runs, &cursor, &key, &at)) {
        const pawl_run *run = at;
        /* A quarantined run waits for its time. */
        int waits = run->slot->place == PLACE_READY && run->quarantine_level;
        quiet = run->slot->place == PLACE_SLEEPS || run->slot->place == PLACE_AT_LIMIT || waits;
    }
    return quiet;
}

int run_queue_is_idle(sched *s, int calls, int64_t *looks)
{
    sched_lock(s);
    int64_t done = atomic_load(&s->looks_done);
    int idle = is_quiet(s) ? 1 + (!s->node_loop_called && done % 2 == 0) : 0;
    *looks = done;
    if (calls)
        run_queue_call_node_loop(s);
    sched_unlock(s);
    return idle;
}

int run_queue_has_enough(sched *s)
{
    sched_assert_locked(s);
    return run_queue_ready_count(s) >= READY_ENOUGH;
}

int run_queue_may_claim(sched *s)
{
    sched_assert_locked(s);
    s->claims_wait = run_queue_has_enough(s);
    return !s->claims_wait; /* RULE L2-a-node-with-enough-to-do-claims-nothing */
}

/* Few runs are ready: the node loop reads dormant runs into memory again, and claims others. */
static void need_more(sched *s)
{
    dormant_need_more(s);
    if (s->claims_wait) { /* RULE L2-when-few-runs-are-ready-more-are-claimed */
        s->claims_wait = 0;
        run_queue_call_node_loop(s);
    }
}

pawl_run *run_queue_take(runner *r)
{
    sched_assert_locked(r->sched);
    if (!r->first)
        return NULL;
    pawl_run *run = take_next(r);
    run_move(run, PLACE_IN_HAND);
    if (r->count == LITTLE || r->count == 0)
        need_more(r->sched);
    return run;
}

/* The moment of the monotonic clock at which the first timer is due. */
int64_t run_queue_next_ns(sched *s)
{
    sched_assert_locked(s);
    if (s->heap.count == 0)
        return INT64_MAX;
    int64_t left = heap_due_ms(&s->heap) - sched_now_ms(s);
    int64_t now = s->host->mono_ns(s->host);
    return left <= 0 ? now : clock_deadline(now, left);
}
