/* The worker threads, and those of them that are in work functions.
 *
 * A work function may take long. While a thread is in one, the ready runs of its list go to other
 * threads: a run whose fiber belongs to the busy thread loses that fiber and is replayed, which is
 * always legal. If no thread is free, one is added, up to a limit. A function whose time is over is
 * not stopped, for nothing can stop it: its run goes on without it, and its result is dropped.
 *
 * Short functions should cost nothing of this. So the workers are checked every few ms, and only
 * while one of them is in a work function, or was a moment ago. Entering and leaving is lock-free:
 *   1. A worker publishes `in_work`, `since_ns` and `over_ns` when it enters a work function.
 *   2. Taking the run away from it is a compare-and-swap on `in_work` (seize), with the lock held.
 *   3. Leaving is an atomic exchange. A worker that finds its own work there keeps the run; one
 *      that does not waits for the lock, and learns whether the run was taken from it.
 *
 * A workflow function should come to its next call of pawl at once. If it blocks instead, the other
 * runs of its thread go to other threads in the same way; its own run stays. Entering such a
 * function calls no thread: so this is noticed within a second, in a round of the node loop. */
#include <stdlib.h>

#include "base/thread.h"
#include "db/world.h"
#include "sched/dispatch.h"
#include "sched/job_queue.h"
#include "sched/sched_internal.h"

enum { AGAIN_MS = 5 };

/* When a thread is in a work function for so long, other threads take its ready runs. In a workflow
 * function it is longer: most of them come back at once, unless the machine is busy, and runs that
 * move cost a replay. */
static const int64_t LONG_NS = 2000000, LONG_IN_FUNCTION_NS = 20000000;

static int64_t now_ns(sched *s)
{
    return s->host->mono_ns(s->host);
}

/* ---- Entering and leaving ---- */

/* Calls the thread that drives by hand, which checks the workers and has to know when to do so
 * next. */
static void call_hand(runner *r)
{
    if (r->works)
        sched_call(r->sched);
}

static void end_by(runner *r, int64_t end_ns)
{
    if (end_ns < atomic_load(&r->over_ns))
        atomic_store(&r->over_ns, end_ns);
    call_hand(r);
}

void sched_enter_work(runner *r, pawl_work *w)
{
    sched *s = r->sched;
    int64_t now = now_ns(s);
    w->over_ns = w->limit_ms > 0 ? clock_deadline(now, w->limit_ms) : INT64_MAX;
    atomic_store_explicit(&r->since_ns, now, memory_order_relaxed);
    atomic_store_explicit(&r->over_ns, w->over_ns, memory_order_relaxed);
    atomic_store(&r->in_work, w);
    atomic_store(&r->busy, 1);
    if (atomic_load(&w->cancelled)) /* the cancelling thread may have looked before this runner had
                                       entered the work */
        end_by(r, clock_deadline(now, s->options.drain_ms));
    if (!r->works && !atomic_load(&s->ticking))
        sched_watch_workers(s);
    if (w->over_ns != INT64_MAX)
        call_hand(r);
}

/* What `in_work` holds while another thread decides whether to take the work (seize_work()): not a
 * pawl_work, but the address of the runner. */
static pawl_work *mark_of(runner *r)
{
    return (pawl_work *)(void *)r;
}

int sched_leave_work(runner *r, const pawl_work *w)
{
    sched *s = r->sched;
    atomic_store(&r->busy, 0);
    const pawl_work *mine = atomic_exchange(&r->in_work, NULL);
    if (mine && mine != mark_of(r))
        return 1;
    sched_lock(s); /* the thread that has seized the work has decided by now: it took
                                     the work, or released it */
    /* RULE what-a-late-attempt-gives-is-dropped */
    int waited_for = w->run != NULL;
    r->late = 0;
    sched_unlock(s);
    return waited_for;
}

/* Keeps the runner in its work function until let_go(), by putting a mark into `in_work`. NULL: the
 * runner is in none. With the lock held. */
static pawl_work *seize_work(runner *r)
{
    pawl_work *w = atomic_load(&r->in_work);
    return w && atomic_compare_exchange_strong(&r->in_work, &w, mark_of(r)) ? w : NULL;
}

static void let_go(runner *r, pawl_work *w)
{
    pawl_work *mark = mark_of(r);
    atomic_compare_exchange_strong(&r->in_work, &mark, w);
}

/* Does this work belong to the run itself? A job's work names its run too, but that run may be
 * freed. */
static int is_of(const pawl_work *w, const pawl_run *run)
{
    /* RULE A7-what-is-undone-is-not-waited-for-for-ever */
    return w->job ? w->job->run == run : w->run == run;
}

/* The work function has drain_ms to return. After that the run goes on without its result. */
void workers_ask_to_stop(sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    int64_t end = clock_deadline(now_ns(s), s->options.drain_ms);
    jobs_ask_to_stop(run);
    if (run->slot->queued_work) /* RULE a-cancel-finds-work-that-waits-for-a-worker */
        atomic_store(&run->attempt.work->cancelled, 1);
    for (int i = 0; i < SCHED_RUNNERS; i++) {
        runner *r = &s->runners[i];
        pawl_work *w = seize_work(r);
        if (w && is_of(w, run)) {
            atomic_store(&w->cancelled, 1);
            end_by(r, end);
        }
        if (w)
            let_go(r, w);
    }
}

/* Takes the work from the runner that executes it: its result will be dropped. Sets `taken`, and
 * gives the run if the work is the run's own and not that of a job. Only work that is out of time
 * at `over_ns` is taken; INT64_MAX: any. With the lock held. */
static pawl_run *take_from(runner *r, int64_t over_ns, const pawl_work **taken)
{
    pawl_work *w = seize_work(r);
    *taken = NULL;
    if (!w)
        return NULL;
    if (over_ns < atomic_load(&r->over_ns)) { /* the runner has left that work, and entered
                                                 another */
        let_go(r, w);
        return NULL;
    }
    pawl_run *run = w->run;
    if (!w->job)
        at_risk_drop(r->sched);
    *taken = w; /* owned by the worker thread from here on, which frees it on return */
    atomic_store(&w->cancelled, 1);
    w->run = NULL;
    r->late = 1;
    if (w->job) {
        job_call_off(r->sched, w, over_ns != INT64_MAX);
        run = NULL;
    } else {
        if (over_ns != INT64_MAX) {
            run->attempt.expired_op = w->op;
            run->attempt.expired = w->attempt;
            run->attempt.expired_began_ms = w->began_ms;
        }
        run->attempt.work = NULL;
    }
    atomic_store(&r->in_work, NULL);
    return run;
}

/* ---- Threads ---- */

static void *run_worker(void *arg)
{
    runner *r = arg;
    sched *s = r->sched;
    sched_lock(s);
    while (!atomic_load(&s->stopping)) {
        int did = dispatch_one(r);
        if (!did) {
            sched_unlock(s);
            committers_leave(s->options.committers);
            sched_lock(s);
        }
        if (r->lost)
            break;
        if (did || atomic_load(&r->answered) || dispatch_has(r) || atomic_load(&s->stopping))
            continue;
        int64_t due = run_queue_next_ns(s), others = quarantine_next_ns(s);
        r->waits = 1;
        sched_await(s, &r->cond, due < others ? due : others);
        r->waits = 0;
    }
    r->runs = 0;
    pthread_cond_signal(&s->ended);
    sched_unlock(s);
    return NULL;
}

static int start_one(sched *s, int index)
{
    runner *r = &s->runners[index];
    r->works = 0;
    r->started = r->runs = thread_start(&r->thread, run_worker, r);
    return r->runs;
}

static void move_ready(sched *s, runner *from, runner *to)
{
    pawl_run *run;
    while ((run = run_queue_take(from)) != NULL)
        run_queue_ready_on(s, to, run);
}

/* Runs of a caller that drove by hand go to the workers, where their functions are replayed. With
 * the lock held. */
static void take_over_from_hand(sched *s)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    run_queue_collect(&s->runners[SCHED_HAND]);
    while (map_next(&s->runs, &cursor, &key, &at))
        ((pawl_run *)at)->slot->runner = 0; /* RULE L5-workers-take-over-what-finish-has-kept */
    move_ready(s, &s->runners[SCHED_HAND], &s->runners[0]);
}

pawl_code workers_start(sched *s, error *err)
{
    int wanted = (int)s->options.threads, started = 0;
    sched_lock(s);
    while (started < wanted && start_one(s, started))
        started++;
    if (started > 0) { /* runs may have been started meanwhile */
        for (int i = started; i < s->runner_count; i++)
            move_ready(s, &s->runners[i], &s->runners[0]);
        take_over_from_hand(s);
        s->runner_count = s->thread_count = started;
    }
    sched_unlock(s);
    return started > 0 ? PAWL_OK : error_set(err, PAWL_NOMEM, "no thread can be started");
}

/* ---- Stopping ---- */

/* Is there a running thread that a stop has to wait for? Threads that were given up are not waited
 * for. */
static int is_awaited(sched *s)
{
    for (int i = 0; i < s->thread_count; i++)
        if (s->runners[i].runs && !s->runners[i].lost)
            return 1;
    return 0;
}

/* The thread that is in a work function is left there, and what the function gives is dropped: the
 * step is executed again by the next owner of the run. */
static int leave_in_work(sched *s, runner *r)
{
    const pawl_work *w = NULL;
    pawl_run *run = r->late ? NULL : take_from(r, INT64_MAX, &w);
    if (w)
        LOG(&s->log, LOG_WARNING, "stop-left", LOG_TEXT("run", w->run_id),
            LOG_TEXT("work", w->name),
            LOG_TEXT("why", "it has not returned in drain_ms; what it gives is dropped, and it is "
                            "called again"));
    if (run)
        /* RULE 2-what-a-stop-leaves-does-not-cost-what-has-returned */
        run_queue_ready_on(s, &s->runners[SCHED_HAND], run);
    return r->late;
}

/* Leaves a thread behind whose workflow function does not come to its next call of pawl. The
 * function uses the memory of its run, so no other thread gets the run any more. The row of the run
 * is given back with the other rows of the node. */
static int leave_in_function(sched *s, runner *r)
{
    pawl_run *run = atomic_load(&r->in_function);
    if (!run || !atomic_compare_exchange_strong(&r->in_function, &run, NULL))
        return 0;
    LOG(&s->log, LOG_WARNING, "stop-left", LOG_TEXT("run", run->id),
        LOG_TEXT("why", "its workflow function has not come to a call of pawl in drain_ms; what "
                        "that has recorded since its last commit is dropped"));
    run_queue_forget(s, run);
    return 1;
}

/* Gives up the threads that are in functions of the user: they end when these functions return, if
 * ever. Threads in transactions are not given up, since only the end of the transaction releases
 * its locks; nor are those in deferred functions (deferred.h). */
static void give_up(sched *s)
{
    for (int i = 0; i < s->thread_count; i++) {
        runner *r = &s->runners[i];
        if (r->runs && !r->lost)
            /* RULE L9-a-stop-does-not-wait-for-a-workflow-function */
            r->lost = leave_in_work(s, r) || leave_in_function(s, r);
    }
    deferred_tell(s); /* RULE L9-a-stop-tells-what-it-waits-for-on-its-threads */
}

/* Sends heartbeats while the node waits for its threads, since they execute runs that it still
 * owns. */
static int64_t stay_alive(sched *s)
{
    sched_unlock(s);
    node_loop_beat(s);
    sched_lock(s);
    return now_ns(s) + sched_look_ns(s);
}

static void join_one(runner *r)
{
    if (r->started)
        pthread_join(r->thread, NULL);
    r->started = 0;
    r->lost = 0;
}

void workers_stop(sched *s)
{
    int back = atomic_load(&s->options.db->world->back); /* after a rewind their results cannot be
                                                            recorded */
    /* RULE what-is-under-way-is-waited-for */
    int64_t deadline = clock_deadline(now_ns(s), back ? 0 : s->options.drain_ms);
    sched_lock(s);
    int64_t beat = s->node_loop_ns;
    atomic_store(&s->stopping, 1);
    for (int i = 0; i < s->thread_count; i++)
        pthread_cond_broadcast(&s->runners[i].cond);
    pthread_cond_broadcast(&s->work_cond);
    while (is_awaited(s)) {
        if (!sched_await(s, &s->ended, beat < deadline ? beat : deadline))
            continue;
        int64_t now = now_ns(s);
        if (now >= deadline) {
            give_up(s);
            deadline = clock_deadline(now, AGAIN_MS); /* threads outside of functions are about to
                                                         end */
        }
        if (now >= beat)
            beat = stay_alive(s);
    }
    int count = s->thread_count;
    s->thread_count = 0;
    sched_unlock(s);
    for (int i = 0; i < count; i++)
        if (!s->runners[i].lost)
            join_one(&s->runners[i]);
}

void workers_join(sched *s)
{
    for (int i = 0; i < SCHED_RUNNERS_MAX; i++) {
        if (!s->runners[i].lost)
            continue;
        join_one(&s->runners[i]);
    }
}

int workers_has_lost(const sched *s)
{
    sched_assert_locked(s);
    for (int i = 0; i < SCHED_RUNNERS_MAX; i++)
        if (s->runners[i].lost)
            return 1;
    return 0;
}

int workers_is_member(sched *s)
{
    sched_assert_locked(s);
    for (int i = 0; i < SCHED_RUNNERS_MAX; i++)
        if (s->runners[i].runs && pthread_equal(s->runners[i].thread, pthread_self()))
            return 1;
    return 0;
}

const char *sched_in_use(sched *s)
{
    const char *why = NULL;
    sched_lock(s);
    int is_driven = s->driven != DRIVEN_NOT;
    /* RULE a-driven-engine-is-not-closed */
    if (workers_is_member(s) || (is_driven && pthread_equal(s->driver, pthread_self())))
        why = "it was called from a function that the engine has called";
    else if (is_driven) /* RULE a-driven-engine-is-not-closed */
        why = "another thread drives the engine";
    sched_unlock(s);
    return why;
}

/* ---- Checking the workers ---- */

int workers_is_working(sched *s)
{
    int working = 0;
    sched_lock(s);
    for (int i = 0; i < s->thread_count; i++)
        working |= atomic_load(&s->runners[i].busy) || atomic_load(&s->runners[i].in_function);
    sched_unlock(s);
    return working;
}

/* Notes when the thread was first seen in the workflow function that it is in: it is in there for
 * at least as long. With the lock held. */
static void look_at_function(runner *r, int64_t now)
{
    int64_t resumes = atomic_load(&r->resumes);
    if (resumes == r->resumes_seen)
        return;
    r->resumes_seen = resumes;
    r->resumes_seen_ns = now;
}

static int is_stuck_in_function(const runner *r, int64_t now)
{
    /* RULE L4-what-waits-behind-a-workflow-function-goes-to-others */
    return atomic_load(&r->in_function) && atomic_load(&r->resumes) == r->resumes_seen &&
           now - r->resumes_seen_ns > LONG_IN_FUNCTION_NS;
}

static int is_stuck(const runner *r, int64_t now)
{
    /* RULE what-waits-behind-a-step-goes-to-others */
    int in_work = atomic_load(&r->busy) && now - atomic_load(&r->since_ns) > LONG_NS;
    return in_work || is_stuck_in_function(r, now);
}

/* A runner that can take the ready runs of a busy one; NULL: none. */
static runner *free_runner(sched *s, int64_t now)
{
    runner *best = NULL;
    for (int i = 0; i < s->thread_count; i++) {
        runner *r = &s->runners[i];
        if (!is_stuck(r, now) && (!best || r->count < best->count))
            best = r;
    }
    /* RULE no-more-threads-than-allowed */
    if (best || s->thread_count >= s->options.threads_max || atomic_load(&s->stopping))
        return best;
    if (!start_one(s, s->thread_count))
        return NULL;
    s->runner_count = s->thread_count + 1;
    return &s->runners[s->thread_count++];
}

/* Takes the run from an attempt that is out of time. It goes on with the runner `to`, where its
 * function gets the time-out. */
static void expire_attempt(sched *s, runner *r, runner *to, int64_t now)
{
    const pawl_work *taken;
    pawl_run *run = take_from(r, now, &taken);
    if (run)
        run_queue_ready_on(s, to, run);
}

static int is_over(const runner *r, int64_t now)
{
    return atomic_load(&r->in_work) && now >= atomic_load(&r->over_ns);
}

void workers_expire(sched *s, runner *to)
{
    sched_assert_locked(s);
    int64_t now = now_ns(s);
    for (int i = 0; i < s->thread_count; i++)
        if (is_over(&s->runners[i], now))
            expire_attempt(s, &s->runners[i], to, now);
}

void workers_look(sched *s)
{
    sched_lock(s);
    int64_t now = now_ns(s);
    run_queue_fire(s);
    for (int i = 0; i < s->thread_count; i++)
        look_at_function(&s->runners[i], now);
    for (int i = 0; i < s->thread_count; i++) {
        runner *r = &s->runners[i];
        int over = is_over(r, now);
        run_queue_collect(r);
        if (!over && !(r->first && is_stuck(r, now)))
            continue;
        runner *to = free_runner(s, now);
        if (!to)
            break;
        if (over) /* RULE a-run-goes-on-without-the-attempt-that-is-over */
            expire_attempt(s, r, to, now);
        if (r->first && is_stuck(r, now))
            move_ready(s, r, to);
    }
    /* a runner may have been added, or have become free */
    if ((s->jobs.first || quarantine_is_ready(s)) && free_runner(s, now))
        run_queue_call_one(s);
    sched_unlock(s);
}
