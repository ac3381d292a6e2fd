/* The gate in front of work functions: counting executions that are not durable. at_risk.h has the
 * protocol.
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
    return atomic_load(&s->at_risk.count) < s->at_risk.max || /* RULE at-the-bound-nothing-begins */
           /* RULE L4-the-bound-of-work-at-risk-stops-nothing-for-ever */
           atomic_load(&s->at_risk.commits) == 0;
}

int at_risk_is_closed(sched *s)
{
    sched_assert_locked(s);
    if (has_room(s))
        return 0;
    atomic_store(&s->at_risk.waits, 1);
    return !has_room(s);
}

/* At the bound only runs go on: a run may collect the results of its jobs, which frees some of the
 * bound, and a job cannot. If no run is ready, jobs go on too. */
int at_risk_is_closed_for_jobs(sched *s)
{
    if (at_risk_is_closed(s))
        return 1;
    /* RULE at-the-bound-runs-come-before-jobs */
    return atomic_load(&s->at_risk.count) >= s->at_risk.max && run_queue_ready_count(s) > 0;
}

/* Wakes every worker thread that waits. */
static void open_gate(sched *s)
{
    sched_assert_locked(s);
    atomic_store(&s->at_risk.waits, 0);
    for (int i = 0; i < s->thread_count; i++)
        if (s->runners[i].waits)
            pthread_cond_signal(&s->runners[i].cond);
    pthread_cond_broadcast(&s->work_cond);
}

/* Does a thread wait, and is it time to open the gate? */
static int may_open(sched *s)
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
    if (!may_open(s))
        return;
    sched_lock(s);
    open_gate(s);
    sched_unlock(s);
}

static void count_down_locked(sched *s, int64_t by)
{
    atomic_fetch_sub(&s->at_risk.count, by);
    if (may_open(s))
        open_gate(s);
}

void at_risk_begin(sched *s)
{
    atomic_fetch_add(&s->at_risk.count, 1);
}

/* ---- Drafts ---- */

void at_risk_returned(pawl_run *run)
{
    run->draft.executed++;
}

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

void at_risk_job_ends(sched *s, job *j, job_state how)
{
    j->at_risk = how == JOB_DONE && j->run && !j->run->slot->collects_not;
    if (!j->at_risk)
        count_down_locked(s, 1);
}

void at_risk_drop(sched *s)
{
    count_down_locked(s, 1);
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

/* ---- The end ---- */

void at_risk_reset(sched *s)
{
    atomic_store(&s->at_risk.count, 0);
    atomic_store(&s->at_risk.commits, 0);
    atomic_store(&s->at_risk.waits, 0);
}
