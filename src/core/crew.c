/* The threads that drive runs, and those of them that are in work functions.
 *
 * A work function may take long. While a thread is in one, what is ready on its list goes to
 * others: a run whose fiber belongs to that thread is dropped there and replayed, which is always
 * legal. If nobody is free, a thread is added, up to a limit. A function whose time is over is not
 * stopped, for nothing can stop it: its run goes on without it, and what it gives is dropped.
 *
 * Short functions should cost nothing of this. So it is looked at every few ms, and only while
 * somebody is in a work function, or was a moment ago. Who enters one takes no lock: that he is in
 * it, and in whose, are words of his own. Only where somebody wants to take the run from him do two
 * meet; who puts his mark there first has it, and the other one waits for the lock. */
#include <stdlib.h>

#include "base/thread.h"
#include "core/drive.h"

enum { AGAIN_MS = 5 };

static const int64_t LONG_NS = 2000000; /* in a work function for this long: others help */

static int64_t now_ns(drive *d)
{
    return d->host->mono_ns(d->host);
}

/* ---- Entering and leaving ---- */

void drive_enter_work(runner *r, pawl_run *run)
{
    drive *d = r->drive;
    pawl_work *w = run->work;
    int64_t now = now_ns(d);
    w->over_ns = w->limit_ms > 0 ? clock_deadline(now, w->limit_ms) : INT64_MAX;
    atomic_store_explicit(&r->since_ns, now, memory_order_relaxed);
    atomic_store_explicit(&r->over_ns, w->over_ns, memory_order_relaxed);
    atomic_store(&r->in_work, run);
    atomic_store(&r->busy, 1);
    if (!atomic_load(&d->ticking))
        drive_call_crew(d);
}

/* What stands there while a run is taken from its runner: no run. */
static pawl_run *mark_of(runner *r)
{
    return (pawl_run *)(void *)r;
}

int drive_leave_work(runner *r, const pawl_work *w)
{
    drive *d = r->drive;
    atomic_store(&r->busy, 0);
    pawl_run *run = atomic_exchange(&r->in_work, NULL);
    if (run && run != mark_of(r))
        return 1;
    pthread_mutex_lock(&d->lock); /* whoever takes it has taken it, or left it */
    int waited_for = w->run != NULL;
    r->late = 0;
    pthread_mutex_unlock(&d->lock);
    return waited_for;
}

/* Take the run from the runner who is in its work function: what that gives is dropped. NULL: it
 * has left it. With the lock held. */
static pawl_run *take_from(runner *r, int64_t over_ns)
{
    pawl_run *run = atomic_load(&r->in_work), *mark = mark_of(r);
    if (!run || !atomic_compare_exchange_strong(&r->in_work, &run, mark))
        return NULL;
    if (over_ns < atomic_load(&r->over_ns)) { /* in between it has left, and entered another one */
        atomic_compare_exchange_strong(&r->in_work, &mark, run);
        return NULL;
    }
    pawl_work *w = run->work;
    atomic_store(&w->cancelled, 1);
    w->run = NULL;
    run->expired_op = w->op;
    run->expired = w->attempt;
    run->expired_began_ms = w->began_ms;
    run->work = NULL;
    r->late = 1;
    atomic_store(&r->in_work, NULL);
    return run;
}

/* ---- Threads ---- */

static void *drive_thread(void *arg)
{
    runner *r = arg;
    drive *d = r->drive;
    pthread_mutex_lock(&d->lock);
    while (!atomic_load(&d->stopping)) {
        drive_fire(d);
        drive_collect(r);
        pawl_run *run = suspect_take(r);
        pthread_mutex_unlock(&d->lock);
        int did = 1;
        if (run)
            runner_take(r, run);
        else
            did = committers_drive(d->options.committers);
        if (!did)
            committers_leave(d->options.committers);
        pthread_mutex_lock(&d->lock);
        if (run)
            suspect_done(d);
        if (r->lost)
            break;
        if (did || atomic_load(&r->answered) || suspect_has(r) || atomic_load(&d->stopping))
            continue;
        int64_t due = drive_timers_ns(d), others = suspect_next_ns(d);
        r->waits = 1;
        d->host->wait(d->host, &r->cond, &d->lock, due < others ? due : others);
        r->waits = 0;
    }
    r->runs = 0;
    pthread_cond_signal(&d->ended);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

static int start_one(drive *d, int index)
{
    runner *r = &d->runners[index];
    r->runs = thread_start(&r->thread, drive_thread, r);
    return r->runs;
}

static void move_ready(drive *d, runner *from, runner *to)
{
    pawl_run *run;
    while ((run = drive_take(from)) != NULL)
        drive_ready_on(d, to, run);
}

pawl_code crew_start(drive *d, error *err)
{
    int wanted = (int)d->options.threads, started = 0;
    pthread_mutex_lock(&d->lock);
    while (started < wanted && start_one(d, started))
        started++;
    if (started > 0) { /* runs may have been started meanwhile */
        for (int i = started; i < d->runner_count; i++)
            move_ready(d, &d->runners[i], &d->runners[0]);
        d->runner_count = d->thread_count = started;
    }
    pthread_mutex_unlock(&d->lock);
    return started > 0 ? PAWL_OK : error_set(err, PAWL_NOMEM, "no thread can be started");
}

/* ---- Stopping ---- */

/* Does anybody run who is not given up? */
static int is_awaited(drive *d)
{
    for (int i = 0; i < d->thread_count; i++)
        if (d->runners[i].runs && !d->runners[i].lost)
            return 1;
    return 0;
}

/* Those who are in work functions end their threads when these return, if ever. */
static void give_up(drive *d)
{
    for (int i = 0; i < d->thread_count; i++) {
        runner *r = &d->runners[i];
        if (r->runs && !r->lost && (r->late || take_from(r, INT64_MAX)))
            r->lost = 1;
    }
}

/* The node lives on meanwhile, and says so: what is under way is its own. */
static int64_t stay_alive(drive *d)
{
    pthread_mutex_unlock(&d->lock);
    keeper_beat(d);
    pthread_mutex_lock(&d->lock);
    return now_ns(d) + drive_look_ns(d);
}

void crew_stop(drive *d)
{
    int64_t deadline = clock_deadline(now_ns(d), d->options.drain_ms);
    pthread_mutex_lock(&d->lock);
    int64_t beat = d->keep_at_ns;
    atomic_store(&d->stopping, 1);
    for (int i = 0; i < d->thread_count; i++)
        pthread_cond_broadcast(&d->runners[i].cond);
    while (is_awaited(d)) {
        if (!d->host->wait(d->host, &d->ended, &d->lock, beat < deadline ? beat : deadline))
            continue;
        int64_t now = now_ns(d);
        if (now >= deadline) {
            give_up(d);
            deadline = clock_deadline(now, AGAIN_MS); /* who is not in one is about to end */
        }
        if (now >= beat)
            beat = stay_alive(d);
    }
    int count = d->thread_count;
    d->thread_count = 0;
    pthread_mutex_unlock(&d->lock);
    for (int i = 0; i < count; i++)
        if (!d->runners[i].lost)
            pthread_join(d->runners[i].thread, NULL);
}

void crew_join(drive *d)
{
    for (int i = 0; i < DRIVE_RUNNERS_MAX; i++) {
        if (!d->runners[i].lost)
            continue;
        pthread_join(d->runners[i].thread, NULL);
        d->runners[i].lost = 0;
    }
}

int crew_is_member(drive *d)
{
    for (int i = 0; i < DRIVE_RUNNERS_MAX; i++)
        if (d->runners[i].runs && pthread_equal(d->runners[i].thread, pthread_self()))
            return 1;
    return 0;
}

/* ---- Looking after them ---- */

int crew_is_working(drive *d)
{
    int working = 0;
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < d->thread_count; i++)
        working |= atomic_load(&d->runners[i].busy);
    pthread_mutex_unlock(&d->lock);
    return working;
}

static int is_stuck(const runner *r, int64_t now)
{
    return atomic_load(&r->busy) && now - atomic_load(&r->since_ns) > LONG_NS;
}

/* Somebody who can take what waits behind others; NULL: nobody. */
static runner *free_runner(drive *d, int64_t now)
{
    runner *best = NULL;
    for (int i = 0; i < d->thread_count; i++) {
        runner *r = &d->runners[i];
        if (!is_stuck(r, now) && (!best || r->count < best->count))
            best = r;
    }
    if (best || d->thread_count >= d->options.threads_max || atomic_load(&d->stopping))
        return best;
    if (!start_one(d, d->thread_count))
        return NULL;
    d->runner_count = d->thread_count + 1;
    return &d->runners[d->thread_count++];
}

/* The attempt's time is over: its run goes on elsewhere, and is told there. */
static void expire(drive *d, runner *r, runner *to, int64_t now)
{
    pawl_run *run = take_from(r, now);
    if (run)
        drive_ready_on(d, to, run);
}

static int is_over(const runner *r, int64_t now)
{
    return atomic_load(&r->in_work) && now >= atomic_load(&r->over_ns);
}

void crew_look(drive *d)
{
    pthread_mutex_lock(&d->lock);
    int64_t now = now_ns(d);
    drive_fire(d);
    for (int i = 0; i < d->thread_count; i++) {
        runner *r = &d->runners[i];
        int over = is_over(r, now);
        drive_collect(r);
        if (!over && !(r->first && is_stuck(r, now)))
            continue;
        runner *to = free_runner(d, now);
        if (!to)
            break;
        if (over)
            expire(d, r, to, now);
        if (r->first && is_stuck(r, now))
            move_ready(d, r, to);
    }
    pthread_mutex_unlock(&d->lock);
}
