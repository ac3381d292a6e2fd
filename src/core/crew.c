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
#include "core/jobs.h"

enum { AGAIN_MS = 5 };

static const int64_t LONG_NS = 2000000; /* in a work function for this long: others help */

static int64_t now_ns(drive *d)
{
    return d->host->mono_ns(d->host);
}

/* ---- Entering and leaving ---- */

static void end_by(runner *r, int64_t end_ns)
{
    if (end_ns < atomic_load(&r->over_ns))
        atomic_store(&r->over_ns, end_ns);
}

void drive_enter_work(runner *r, pawl_work *w)
{
    drive *d = r->drive;
    int64_t now = now_ns(d);
    w->over_ns = w->limit_ms > 0 ? clock_deadline(now, w->limit_ms) : INT64_MAX;
    atomic_store_explicit(&r->since_ns, now, memory_order_relaxed);
    atomic_store_explicit(&r->over_ns, w->over_ns, memory_order_relaxed);
    atomic_store(&r->in_work, w);
    atomic_store(&r->busy, 1);
    if (atomic_load(&w->cancelled)) /* whoever asked it may not have found it here */
        end_by(r, clock_deadline(now, d->options.drain_ms));
    if (!atomic_load(&d->ticking))
        drive_call_crew(d);
}

/* What stands there while a run is taken from its runner: no work. */
static pawl_work *mark_of(runner *r)
{
    return (pawl_work *)(void *)r;
}

int drive_leave_work(runner *r, const pawl_work *w)
{
    drive *d = r->drive;
    atomic_store(&r->busy, 0);
    const pawl_work *mine = atomic_exchange(&r->in_work, NULL);
    if (mine && mine != mark_of(r))
        return 1;
    pthread_mutex_lock(&d->lock); /* whoever takes it has taken it, or left it */
    int waited_for = w->run != NULL;
    r->late = 0;
    pthread_mutex_unlock(&d->lock);
    return waited_for;
}

/* Keep the runner from leaving the work that it is in, while the lock is held. NULL: it has. */
static pawl_work *seize(runner *r)
{
    pawl_work *w = atomic_load(&r->in_work);
    return w && atomic_compare_exchange_strong(&r->in_work, &w, mark_of(r)) ? w : NULL;
}

static void let_go(runner *r, pawl_work *w)
{
    pawl_work *mark = mark_of(r);
    atomic_compare_exchange_strong(&r->in_work, &mark, w);
}

/* Of a job the work has a run too, but that may be gone. */
static int is_of(const pawl_work *w, const pawl_run *run)
{
    return w->job ? w->job->run == run : w->run == run;
}

/* It has the time of a drain for that; then the run goes on without it. */
void crew_ask_to_stop(drive *d, pawl_run *run)
{
    int64_t end = clock_deadline(now_ns(d), d->options.drain_ms);
    jobs_ask_to_stop(run);
    for (int i = 0; i < DRIVE_RUNNERS; i++) {
        runner *r = &d->runners[i];
        pawl_work *w = seize(r);
        if (w && is_of(w, run)) {
            atomic_store(&w->cancelled, 1);
            end_by(r, end);
        }
        if (w)
            let_go(r, w);
    }
}

/* Take the work from the runner who is in it: what that gives is dropped. Gives the run, if it is
 * one that waits for it in line, and `taken`. INT64_MAX: whether its time is over or not. With the
 * lock held. */
static pawl_run *take_from(runner *r, int64_t over_ns, int *taken)
{
    pawl_work *w = seize(r);
    *taken = 0;
    if (!w)
        return NULL;
    if (over_ns < atomic_load(&r->over_ns)) { /* in between it has left, and entered another one */
        let_go(r, w);
        return NULL;
    }
    pawl_run *run = w->run;
    *taken = 1;
    atomic_store(&w->cancelled, 1);
    w->run = NULL;
    r->late = 1;
    if (w->job) {
        jobs_take_away(r->drive, w, over_ns != INT64_MAX);
        run = NULL;
    } else {
        run->expired_op = w->op;
        run->expired = w->attempt;
        run->expired_began_ms = w->began_ms;
        run->work = NULL;
    }
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
        job *j = suspect_take_job(r);
        pawl_run *run = j ? NULL : suspect_take(r);
        pthread_mutex_unlock(&d->lock);
        int did = 1;
        if (j)
            jobs_do(r, j);
        else if (run)
            runner_take(r, run);
        else
            did = committers_drive(d->options.committers);
        if (!did)
            committers_leave(d->options.committers);
        pthread_mutex_lock(&d->lock);
        if (j || run)
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
        int taken = 0;
        if (r->runs && !r->lost && !r->late)
            take_from(r, INT64_MAX, &taken);
        if (r->runs && !r->lost && (r->late || taken))
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

/* What was done beside a run while its thread has ended is recorded by whoever stops them: to do it
 * again would be worse. A run whose unit is on its way has to come back for that. It goes on as far
 * as it comes without work. */
static void record_late(drive *d)
{
    pawl_run *others = NULL, *run;
    runner *hand = &d->runners[DRIVE_HAND];
    committers_flush_runs(d->options.committers, clock_deadline(now_ns(d), d->options.drain_ms));
    pthread_mutex_lock(&d->lock);
    for (int i = 0; i < DRIVE_RUNNERS; i++) {
        drive_collect(&d->runners[i]);
        while ((run = drive_take(&d->runners[i])) != NULL) {
            if (run->jobs_done.first && !run->suspect) {
                pthread_mutex_unlock(&d->lock);
                runner_take(hand, run);
                pthread_mutex_lock(&d->lock);
            } else {
                run->next = others;
                others = run;
            }
        }
    }
    while ((run = others) != NULL) {
        others = run->next;
        drive_ready_on(d, hand, run);
    }
    pthread_mutex_unlock(&d->lock);
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
    record_late(d);
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
    int taken;
    pawl_run *run = take_from(r, now, &taken);
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
    if (d->jobs.first && free_runner(d, now)) /* if there was none, there is one now */
        drive_call_one(d);
    pthread_mutex_unlock(&d->lock);
}
