/* Concurrency limits of work functions: their slots. A function without a limit costs nothing: its
 * runs are let in without taking the lock. */
#include "sched/work_limit.h"
#include "sched/job_queue.h"

#include "sched/sched_internal.h"

static void queue_run(struct sched *s, work_entry *w, pawl_run *run)
{
    run_move(run, PLACE_AT_LIMIT);
    run->slot->next = NULL;
    if (w->last)
        w->last->slot->next = run;
    else
        w->first = run;
    w->last = run;
    /* A deadline that has passed already could not end the run before. If there is no memory for
     * the timer, the run sees that its deadline has passed when it gets a slot. */
    /* RULE A7-a-deadline-calls-a-run-from-its-line */
    if (!run->failing && run->deadline_ms != RUN_NEVER && run->deadline_ms > sched_now_ms(s))
        (void)heap_put(&s->heap, &run->slot->timer, run, run->deadline_ms);
}

/* A slot is free: reserve it for the first waiter. */
static void reserve_for_next(struct sched *s, work_entry *w)
{
    pawl_run *run = w->first;
    if (!run || w->inside >= w->at_most) {
        job_queue_ask_in(s, w);
        return;
    }
    w->first = run->slot->next;
    if (!w->first)
        w->last = NULL;
    run->slot->asked_in = w;
    run_queue_ready(s, run);
}

void work_limit_ask_in(struct sched *s, work_entry *w)
{
    if (w && w->at_most != 0)
        reserve_for_next(s, w);
}

static int has_place(struct sched *s, const work_entry *w)
{
    sched_lock(s);
    int free = w->inside < w->at_most;
    sched_unlock(s);
    return free;
}

/* Many runs may wait for a slot, and for long. So if no slot is free and there are more fibers than
 * warm_max, the fiber of this run is dropped. */
static void make_room(struct sched *s, pawl_run *run)
{
    /* RULE waiters-for-a-slot-are-kept-warm-within-the-bound */
    if (!has_place(s, run->attempt.work->entry) && fiber_pool_live(s->pool) > s->warm_max)
        run_cool(run);
}

int work_limit_enter(struct sched *s, pawl_run *run)
{
    work_entry *w = run->attempt.work->entry;
    if (run->slot->asked_in != w) /* RULE a-slot-reserved-elsewhere-is-given-away */
        work_limit_pass(s, run);
    if (!w || w->at_most == 0)
        return 1;
    make_room(s, run);
    sched_lock(s);
    run->slot->asked_in = NULL;
    /* RULE work-runs-at-most-as-often-as-allowed */
    int enters = run->code.fiber && w->inside < w->at_most;
    if (enters) {
        w->inside++;
    } else {
        queue_run(s, w, run);
        /* A slot may have become free while the fiber was dropped. */
        reserve_for_next(s, w); /* RULE a-slot-freed-while-a-fiber-is-dropped-is-reserved */
    }
    sched_unlock(s);
    return enters;
}

void work_limit_leave(struct sched *s, work_entry *w)
{
    if (!w || w->at_most == 0)
        return;
    sched_lock(s);
    w->inside--;
    reserve_for_next(s, w); /* RULE a-free-slot-is-reserved-for-the-first-waiter */
    sched_unlock(s);
}

void work_limit_pass(struct sched *s, pawl_run *run)
{
    if (!run->slot->asked_in)
        return;
    sched_lock(s);
    reserve_for_next(s, run->slot->asked_in); /* RULE a-reserved-slot-that-is-not-used-goes-on */
    run->slot->asked_in = NULL;
    sched_unlock(s);
}

/* Takes the run out of the list of this function. 0: it is not there. */
static int remove_from(work_entry *w, pawl_run *run)
{
    pawl_run *before = NULL, *at = w->first;
    while (at && at != run) {
        before = at;
        at = at->slot->next;
    }
    if (!at)
        return 0;
    if (before)
        before->slot->next = run->slot->next;
    else
        w->first = run->slot->next;
    if (w->last == run)
        w->last = before;
    return 1;
}

/* The fiber of the run may have been dropped, and what it wants with it: so all lists are looked
 * through. */
void work_limit_call(struct sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    if (run->slot->place != PLACE_AT_LIMIT)
        return;
    work_entry *w = registry_first_work(s->options.registry);
    while (w && !remove_from(w, run))
        w = w->next;
    run_queue_ready(s, run); /* RULE A7-a-cancel-calls-a-run-from-its-line */
}

int work_limit_has_left(pawl_run *run)
{
    int left = run->slot->asked_in || run->slot->left_line;
    run->slot->left_line = 0;
    return left;
}

void work_limit_let_go(struct sched *s)
{
    pawl_run *run;
    sched_assert_locked(s);
    for (work_entry *w = registry_first_work(s->options.registry); w; w = w->next) {
        while ((run = w->first) != NULL) {
            w->first = run->slot->next;
            run_queue_ready(s, run);
        }
        w->last = NULL;
    }
}

void work_limit_clear(struct sched *s)
{
    for (work_entry *w = registry_first_work(s->options.registry); w; w = w->next)
        w->first = w->last = NULL; /* jobs that wait are freed with their runs */
}
