/* The queue of runs that wait for a worker, and the workers' threads. The lock of the scheduler
 * guards both. */
#include "sched/work_threads.h"
#include "sched/job_queue.h"

#include "base/thread.h"
#include "db/inflight_file.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"
#include "sched/work_limit.h"

/* ---- Runs that wait ---- */

static void push_waiting(sched *s, pawl_run *run)
{
    run->slot->next = NULL;
    run->slot->queued_work = 1;
    if (s->work_last)
        s->work_last->slot->next = run;
    else
        s->work_first = run;
    s->work_last = run;
}

static pawl_run *pop_waiting(sched *s)
{
    pawl_run *run = s->work_first;
    if (!run)
        return NULL;
    s->work_first = run->slot->next;
    if (!s->work_first)
        s->work_last = NULL;
    run->slot->next = NULL;
    run->slot->queued_work = 0;
    return run;
}

void work_threads_give(sched *s, pawl_run *run)
{
    run->code.misused = 0;
    sched_lock(s);
    push_waiting(s, run);
    pthread_cond_signal(&s->work_cond);
    sched_unlock(s);
}

static void come_back(sched *s, pawl_run *run, int worked)
{
    run->attempt.is_called = worked;
    run_queue_ready_on(s, &s->runners[SCHED_HAND], run);
}

/* ---- On a worker's thread ---- */

/* May the work function be called? The run may be held by now, or the engine may stop. */
static int may_begin(sched *s, pawl_run *run)
{
    return sched_claim_is_good(s) && !atomic_load(&s->stopping) &&
           !atomic_load(&run->hold_requested);
}

static void work_for(runner *r, pawl_run *run)
{
    sched *s = r->sched;
    running *list = s->quarantine.running;
    int begins = may_begin(s, run);
    if (!begins)
        work_limit_leave(s, run->attempt.work->entry);
    inflight_set(list, r->index, begins && !run->slot->cleared ? run->lease.run : 0);
    if (!begins || runner_call_work(r, run)) {
        sched_lock(s);
        come_back(s, run, begins);
        sched_unlock(s);
    }
    if (!r->lost)
        inflight_set(list, r->index, 0);
}

/* Counts the workers that can do something. One that is stuck in work which was taken from it does
 * not count. */
static int count_workers(const sched *s)
{
    int count = 0;
    for (int i = 0; i < s->thread_count; i++)
        /* RULE L4-a-worker-that-is-stuck-is-replaced */
        count += s->runners[i].runs && !s->runners[i].late && !s->runners[i].lost;
    return count;
}

/* Does a job or the work of a run, in turn. 0: there is nothing to do. With the lock held, which is
 * released meanwhile. */
static int work_once(runner *r)
{
    sched *s = r->sched;
    int waits =
        unit_retry_waits(s) || at_risk_is_closed_for_jobs(s) || (s->work_first && ++r->turns % 2);
    job *j = waits ? NULL : job_queue_take(s);
    pawl_run *run = j || at_risk_is_closed(s) ? NULL : pop_waiting(s);
    if (!j && !run)
        return 0;
    if (j)
        at_risk_begin(s);
    sched_unlock(s);
    if (j)
        job_call(r, j);
    else
        work_for(r, run);
    sched_lock(s);
    return 1;
}

static void *work_thread(void *arg)
{
    runner *r = arg;
    sched *s = r->sched;
    sched_lock(s);
    while (!atomic_load(&s->stopping) && !r->lost) {
        if (count_workers(s) > s->options.work_threads) /* this worker was stuck and replaced, and
                                                           has come back */
            break;
        if (!work_once(r))
            sched_await(s, &s->work_cond, INT64_MAX);
    }
    r->runs = 0;
    pthread_cond_signal(&s->ended);
    sched_unlock(s);
    return NULL;
}

/* ---- Beginning and end ---- */

/* A runner without a thread; NULL: all have one. A thread that has ended is joined. */
static runner *find_free(sched *s)
{
    for (int i = 0; i < SCHED_RUNNERS_MAX; i++) {
        runner *r = &s->runners[i];
        if (r->runs)
            continue;
        if (r->started)
            pthread_join(r->thread, NULL);
        r->started = 0;
        r->lost = 0;
        return r;
    }
    return NULL;
}

static int start_one(sched *s)
{
    runner *r = find_free(s);
    if (!r)
        return 0;
    r->works = 1;
    r->started = r->runs = thread_start(&r->thread, work_thread, r);
    if (r->runs && r->index >= s->thread_count)
        s->thread_count = r->index + 1;
    return r->runs;
}

void work_threads_start(sched *s)
{
    if (s->options.work_threads == 0)
        return;
    sched_lock(s);
    while (count_workers(s) < s->options.work_threads && start_one(s))
        continue;
    sched_unlock(s);
}

void work_threads_stop(sched *s)
{
    pawl_run *run;
    if (!work_threads_are_there(s))
        return;
    workers_stop(s);
    sched_lock(s);
    while ((run = pop_waiting(s)) != NULL) {
        work_entry *entry = run->attempt.work->entry;
        come_back(s, run, 0);
        sched_unlock(s);
        work_limit_leave(s, entry);
        sched_lock(s);
    }
    sched_unlock(s);
}

/* ---- Time limits ---- */

void work_threads_look(sched *s)
{
    if (!work_threads_are_there(s))
        return;
    sched_lock(s);
    workers_expire(s, &s->runners[SCHED_HAND]);
    sched_unlock(s);
}

int64_t work_threads_next_ns(sched *s)
{
    int64_t next = INT64_MAX;
    for (int i = 0; work_threads_are_there(s) && i < s->thread_count; i++) {
        runner *r = &s->runners[i];
        int64_t over = atomic_load(&r->in_work) ? atomic_load(&r->over_ns) : INT64_MAX;
        next = over < next ? over : next; /* RULE a-limit-of-a-worker-calls-the-driver */
    }
    return next;
}
