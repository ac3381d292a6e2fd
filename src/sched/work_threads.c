/* The queue of runs that wait for a worker, and the workers' threads. The lock of the scheduler
 * guards both. */
#include "sched/work_threads.h"
#include "sched/job_queue.h"

#include "base/thread.h"
#include "db/inflight_file.h"
#include "sched/sched.h"
#include "sched/unit_retry.h"
#include "sched/work_limit.h"

/* ---- Runs that wait ---- */

static void push(sched *d, pawl_run *run)
{
    run->slot->next = NULL;
    run->slot->queued_work = 1;
    if (d->work_last)
        d->work_last->slot->next = run;
    else
        d->work_first = run;
    d->work_last = run;
}

static pawl_run *pop(sched *d)
{
    pawl_run *run = d->work_first;
    if (!run)
        return NULL;
    d->work_first = run->slot->next;
    if (!d->work_first)
        d->work_last = NULL;
    run->slot->next = NULL;
    run->slot->queued_work = 0;
    return run;
}

void work_threads_give(sched *d, pawl_run *run)
{
    run->code.misused = 0;
    pthread_mutex_lock(&d->lock);
    push(d, run);
    pthread_cond_signal(&d->work_cond);
    pthread_mutex_unlock(&d->lock);
}

static void come_back(sched *d, pawl_run *run, int worked)
{
    run->attempt.is_called = worked;
    run_queue_ready_on(d, &d->runners[SCHED_HAND], run);
}

/* ---- What has come back ---- */

static int is_same(const pawl_work *a, const pawl_work *b)
{
    return a->op == b->op && a->attempt == b->attempt;
}

int work_threads_have_done(pawl_run *run)
{
    int done = run->attempt.is_called;
    run->attempt.is_called = 0;
    if (done || !run->attempt.saved)
        return done;
    done = run->attempt.work && is_same(run->attempt.work, run->attempt.saved);
    if (done) {
        work_free(run->attempt.work);
        run->attempt.work = run->attempt.saved;
    } else {
        work_free(run->attempt.saved);
    }
    run->attempt.saved = NULL;
    return done;
}

void work_threads_keep(pawl_run *run)
{
    /* RULE L5-a-result-outlives-the-fiber-that-waits-for-it */
    if (!run->attempt.is_called || !run->attempt.work)
        return;
    work_free(run->attempt.saved);
    run->attempt.saved = run->attempt.work;
    run->attempt.work = NULL;
    run->attempt.is_called = 0;
}

/* ---- On a worker's thread ---- */

/* It may be held by now; and who stops does not begin with anything. */
static int may_begin(sched *d, pawl_run *run)
{
    return sched_claim_is_good(d) && !atomic_load(&d->stopping) &&
           !atomic_load(&run->hold_requested);
}

static void work_for(runner *r, pawl_run *run)
{
    sched *d = r->sched;
    running *list = d->quarantine.running;
    int begins = may_begin(d, run);
    if (!begins)
        work_limit_leave(d, run->attempt.work->entry);
    inflight_set(list, r->index, begins && !run->slot->cleared ? run->lease.run : 0);
    if (!begins || runner_call_work(r, run)) {
        pthread_mutex_lock(&d->lock);
        come_back(d, run, begins);
        pthread_mutex_unlock(&d->lock);
    }
    if (!r->lost)
        inflight_set(list, r->index, 0);
}

/* Those that can do something: not those that are stuck in work which was taken from them. */
static int count_workers(const sched *d)
{
    int count = 0;
    for (int i = 0; i < d->thread_count; i++)
        /* RULE L4-a-worker-that-is-stuck-is-replaced */
        count += d->runners[i].runs && !d->runners[i].late && !d->runners[i].lost;
    return count;
}

/* Jobs and runs in turn. 0: there is nothing to do. With the lock held, but not meanwhile. */
static int work_once(runner *r)
{
    sched *d = r->sched;
    int waits = unit_retry_waits(d) || (d->work_first && ++r->turns % 2);
    job *j = waits ? NULL : job_queue_take(d);
    pawl_run *run = j ? NULL : pop(d);
    if (!j && !run)
        return 0;
    pthread_mutex_unlock(&d->lock);
    if (j)
        job_call(r, j);
    else
        work_for(r, run);
    pthread_mutex_lock(&d->lock);
    return 1;
}

static void *work_thread(void *arg)
{
    runner *r = arg;
    sched *d = r->sched;
    pthread_mutex_lock(&d->lock);
    while (!atomic_load(&d->stopping) && !r->lost) {
        if (count_workers(d) > d->options.work_threads) /* it was replaced, and has come back */
            break;
        if (!work_once(r))
            d->host->wait(d->host, &d->work_cond, &d->lock, INT64_MAX);
    }
    r->runs = 0;
    pthread_cond_signal(&d->ended);
    pthread_mutex_unlock(&d->lock);
    return NULL;
}

/* ---- Beginning and end ---- */

/* A runner without a thread; NULL: all have one. One that has ended is waited for. */
static runner *find_free(sched *d)
{
    for (int i = 0; i < DRIVE_RUNNERS_MAX; i++) {
        runner *r = &d->runners[i];
        if (r->runs)
            continue;
        if (r->started)
            pthread_join(r->thread, NULL);
        r->started = r->lost = 0;
        return r;
    }
    return NULL;
}

static int start_one(sched *d)
{
    runner *r = find_free(d);
    if (!r)
        return 0;
    r->works = 1;
    r->started = r->runs = thread_start(&r->thread, work_thread, r);
    if (r->runs && r->index >= d->thread_count)
        d->thread_count = r->index + 1;
    return r->runs;
}

void work_threads_start(sched *d)
{
    if (d->options.work_threads == 0)
        return;
    pthread_mutex_lock(&d->lock);
    while (count_workers(d) < d->options.work_threads && start_one(d))
        continue;
    pthread_mutex_unlock(&d->lock);
}

void work_threads_stop(sched *d)
{
    pawl_run *run;
    if (!work_threads_are_there(d))
        return;
    workers_stop(d);
    pthread_mutex_lock(&d->lock);
    while ((run = pop(d)) != NULL) {
        work_entry *entry = run->attempt.work->entry;
        come_back(d, run, 0);
        pthread_mutex_unlock(&d->lock);
        work_limit_leave(d, entry);
        pthread_mutex_lock(&d->lock);
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- Time limits ---- */

void work_threads_look(sched *d)
{
    if (!work_threads_are_there(d))
        return;
    pthread_mutex_lock(&d->lock);
    workers_expire(d, &d->runners[SCHED_HAND]);
    pthread_mutex_unlock(&d->lock);
}

int64_t work_threads_next_ns(sched *d)
{
    int64_t next = INT64_MAX;
    for (int i = 0; work_threads_are_there(d) && i < d->thread_count; i++) {
        runner *r = &d->runners[i];
        int64_t over = atomic_load(&r->in_work) ? atomic_load(&r->over_ns) : INT64_MAX;
        next = over < next ? over : next; /* RULE a-limit-of-a-worker-calls-the-driver */
    }
    return next;
}
