/* The gate in front of work functions: counting executions that are not durable, and the runs that
 * wait until some are. at_risk.h has the protocol.
 *
 * Counting takes no lock. A thread that finds the gate closed says so in `waits` before it looks
 * once more, and a thread that counts down looks at `waits` afterwards: so one of them sees the
 * other. The gate opens when a quarter of the bound is free, and not for each answer of a batch,
 * since opening takes the lock of the scheduler. */
#include "sched/at_risk.h"

#include "sched/sched_internal.h"

/* ---- The gate ---- */

static int has_room(sched *s)
{
    /* RULE at-the-bound-nothing-begins */
    /* RULE L4-the-bound-of-work-at-risk-stops-nothing-for-ever */
    return atomic_load(&s->at_risk.count) < s->at_risk.max || atomic_load(&s->at_risk.commits) == 0;
}

/* The gate is closed, unless it has opened meanwhile. With the lock held. */
static int is_closed(sched *s)
{
    if (has_room(s))
        return 0;
    atomic_store(&s->at_risk.waits, 1);
    return !has_room(s);
}

/* Wakes every worker thread that waits: there may be jobs that can begin. */
static void call_workers(sched *s)
{
    for (int i = 0; i < s->thread_count; i++)
        if (s->runners[i].waits)
            pthread_cond_signal(&s->runners[i].cond);
    pthread_cond_broadcast(&s->work_cond);
}

static pawl_run *take_first(at_risk *all)
{
    pawl_run *run = all->first;
    all->first = run->slot->next;
    if (!all->first)
        all->last = NULL;
    run->slot->next = NULL;
    return run;
}

static void open_gate(sched *s)
{
    at_risk *all = &s->at_risk;
    sched_assert_locked(s);
    atomic_store(&all->waits, 0);
    int64_t room = all->max - atomic_load(&all->count);
    if (room < 1)
        room = 1; /* no commit is on its way, or this would not have been called */
    for (; room > 0 && all->first; room--)
        run_queue_ready(s, take_first(all));
    if (all->first)
        atomic_store(&all->waits, 1);
    if (s->jobs.first)
        call_workers(s);
}

/* Is it time to open the gate? */
static int opens(sched *s)
{
    at_risk *all = &s->at_risk;
    if (!atomic_load(&all->waits))
        return 0;
    int64_t room = all->max - atomic_load(&all->count);
    return atomic_load(&all->commits) == 0 || room > all->max / 4;
}

static void count_down(sched *s, int64_t by)
{
    atomic_fetch_sub(&s->at_risk.count, by);
    if (!opens(s))
        return;
    sched_lock(s);
    open_gate(s);
    sched_unlock(s);
}

static void count_down_locked(sched *s, int64_t by)
{
    atomic_fetch_sub(&s->at_risk.count, by);
    if (opens(s))
        open_gate(s);
}

/* ---- Runs ---- */

/* With the lock held. */
static void wait_at_gate(at_risk *all, pawl_run *run)
{
    run_move(run, PLACE_AT_LIMIT);
    run->slot->next = NULL;
    if (all->last)
        all->last->slot->next = run;
    else
        all->first = run;
    all->last = run;
}

int at_risk_enter(sched *s, pawl_run *run)
{
    int enters = has_room(s);
    if (!enters) {
        sched_lock(s);
        enters = !is_closed(s);
        if (!enters)
            wait_at_gate(&s->at_risk, run);
        sched_unlock(s);
    }
    if (enters)
        atomic_fetch_add(&s->at_risk.count, 1);
    return enters;
}

void at_risk_skip(sched *s)
{
    count_down(s, 1);
}

void at_risk_returned(pawl_run *run)
{
    run->draft.executed++;
}

void at_risk_leave_jobs(pawl_run *run)
{
    sched *s = run->host->sched;
    int64_t count = 0;
    if (run->jobs.by_op.count == 0)
        return;
    sched_lock(s);
    for (job *j = run->jobs.returned.first; j; j = j->next) {
        count += j->at_risk;
        j->at_risk = 0;
    }
    /* RULE L4-results-that-wait-for-their-function-do-not-fill-the-bound */
    run->slot->collects_not = 1;
    if (count > 0)
        count_down_locked(s, count);
    sched_unlock(s);
}

void at_risk_collects(pawl_run *run)
{
    sched *s = run->host->sched;
    if (!run->slot->collects_not)
        return;
    sched_lock(s);
    run->slot->collects_not = 0;
    for (job *j = run->jobs.returned.first; j; j = j->next) {
        atomic_fetch_add(&s->at_risk.count, !j->at_risk && j->state == JOB_DONE);
        j->at_risk |= j->state == JOB_DONE;
    }
    sched_unlock(s);
}

/* ---- Drafts ---- */

void at_risk_hand_in(pawl_run *run)
{
    if (run->draft.executed == 0)
        return;
    run->slot->sent = run->draft.executed;
    run->draft.executed = 0;
    atomic_fetch_add(&run->host->sched->at_risk.commits, 1);
}

void at_risk_answered(pawl_run *run)
{
    int64_t sent = run->slot->sent;
    if (sent == 0)
        return;
    run->slot->sent = 0;
    atomic_fetch_sub(&run->host->sched->at_risk.commits, 1);
    count_down(run->host->sched, sent);
}

void at_risk_forget(pawl_run *run)
{
    int64_t executed = run->draft.executed;
    run->draft.executed = 0;
    if (executed > 0)
        count_down(run->host->sched, executed);
}

/* ---- Jobs ---- */

/* A run that goes on may collect results that fill the bound, and a job cannot. So while the bound
 * is reached a job begins only if there is no run that could. */
int at_risk_may_begin(sched *s)
{
    at_risk *all = &s->at_risk;
    sched_assert_locked(s);
    if (is_closed(s))
        return 0;
    /* RULE at-the-bound-runs-come-before-jobs */
    if (atomic_load(&all->count) < all->max || (!all->first && run_queue_ready_count(s) == 0))
        return 1;
    atomic_store(&all->waits, 1);
    return 0;
}

void at_risk_begin(sched *s)
{
    atomic_fetch_add(&s->at_risk.count, 1);
}

void at_risk_end(sched *s, job *j, job_state how)
{
    j->at_risk = how == JOB_DONE && j->run && !j->run->slot->collects_not;
    if (!j->at_risk)
        count_down_locked(s, 1);
}

void at_risk_drop(sched *s)
{
    count_down_locked(s, 1);
}

/* ---- The end ---- */

void at_risk_let_go(sched *s)
{
    at_risk *all = &s->at_risk;
    while (all->first)
        run_queue_ready(s, take_first(all));
}

void at_risk_clear(sched *s)
{
    s->at_risk.first = s->at_risk.last = NULL;
}

void at_risk_reset(sched *s)
{
    atomic_store(&s->at_risk.count, 0);
    atomic_store(&s->at_risk.commits, 0);
    atomic_store(&s->at_risk.waits, 0);
}
