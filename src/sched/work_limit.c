/* Concurrency limits of work functions: their slots. Most functions have no limit, and cost nothing
 * of this: their runs are let in without the lock. */
#include "sched/work_limit.h"
#include "sched/job_queue.h"

#include "sched/sched.h"

static void queue(work_entry *w, pawl_run *run)
{
    run_move(run, PLACE_AT_LIMIT);
    run->slot->next = NULL;
    if (w->last)
        w->last->slot->next = run;
    else
        w->first = run;
    w->last = run;
}

/* A slot is free: reserve it for the first waiter. */
static void reserve_for_next(struct sched *d, work_entry *w)
{
    pawl_run *run = w->first;
    if (!run || w->inside >= w->at_most) {
        job_queue_ask_in(d, w);
        return;
    }
    w->first = run->slot->next;
    if (!w->first)
        w->last = NULL;
    run->slot->asked_in = w;
    run_queue_ready(d, run);
}

void work_limit_ask_in(struct sched *d, work_entry *w)
{
    if (w && w->at_most != 0)
        reserve_for_next(d, w);
}

static int has_place(struct sched *d, const work_entry *w)
{
    pthread_mutex_lock(&d->lock);
    int free = w->inside < w->at_most;
    pthread_mutex_unlock(&d->lock);
    return free;
}

/* Waiters may be many, and wait for long: beyond what is kept warm their fibers are dropped. */
static void make_room(struct sched *d, pawl_run *run)
{
    /* RULE waiters-for-a-slot-are-kept-warm-within-the-bound */
    if (!has_place(d, run->attempt.work->entry) && fiber_pool_live(d->pool) > d->warm_max)
        run_cool(run);
}

int work_limit_enter(struct sched *d, pawl_run *run)
{
    work_entry *w = run->attempt.work->entry;
    if (run->slot->asked_in != w) /* RULE a-slot-reserved-elsewhere-is-given-away */
        work_limit_pass(d, run);
    if (!w || w->at_most == 0)
        return 1;
    make_room(d, run);
    pthread_mutex_lock(&d->lock);
    run->slot->asked_in = NULL;
    /* RULE work-runs-at-most-as-often-as-allowed */
    int enters = run->code.fiber && w->inside < w->at_most;
    if (enters) {
        w->inside++;
    } else {
        queue(w, run);
        /* A slot may have become free while the fiber was dropped. */
        reserve_for_next(d, w); /* RULE a-slot-freed-while-a-fiber-is-dropped-is-reserved */
    }
    pthread_mutex_unlock(&d->lock);
    return enters;
}

void work_limit_leave(struct sched *d, work_entry *w)
{
    if (!w || w->at_most == 0)
        return;
    pthread_mutex_lock(&d->lock);
    w->inside--;
    reserve_for_next(d, w); /* RULE a-free-slot-is-reserved-for-the-first-waiter */
    pthread_mutex_unlock(&d->lock);
}

void work_limit_pass(struct sched *d, pawl_run *run)
{
    if (!run->slot->asked_in)
        return;
    pthread_mutex_lock(&d->lock);
    reserve_for_next(d, run->slot->asked_in); /* RULE a-reserved-slot-that-is-not-used-goes-on */
    run->slot->asked_in = NULL;
    pthread_mutex_unlock(&d->lock);
}

void work_limit_let_go(struct sched *d)
{
    pawl_run *run;
    for (work_entry *w = registry_first_work(d->options.registry); w; w = w->next) {
        while ((run = w->first) != NULL) {
            w->first = run->slot->next;
            run_queue_ready(d, run);
        }
        w->last = NULL;
    }
}

void work_limit_clear(struct sched *d)
{
    for (work_entry *w = registry_first_work(d->options.registry); w; w = w->next)
        w->first = w->last = NULL; /* jobs go with their runs */
}
