/* Executing a job: one attempt of a work function, on a thread that executes no run at the time.
 * Nothing is recorded here; the run is woken, and records the result. */
#include "db/inflight_file.h"
#include "sched/job_queue.h"
#include "sched/sched_internal.h"
#include "sched/work_limit.h"

/* Takes a slot of the work function, if it has a concurrency limit. 0: the job waits for a slot.
 * With the lock held. */
static int enter_limit(job *j)
{
    work_entry *w = j->work->entry;
    if (!w || w->at_most == 0)
        return 1;
    if (w->inside < w->at_most) {
        w->inside++;
        return 1;
    }
    j->state = JOB_QUEUED;
    j->at_limit = 1;
    job_list_add(&w->jobs, j);
    return 0;
}

/* With the lock held. */
static void give_back(sched *s, job *j, job_state state)
{
    at_risk_job_ends(s, j, state);
    job_queue_give_back(s, j, state);
}

static void call_work(runner *r, job *j)
{
    sched *s = r->sched;
    pawl_work *w = j->work;
    work_entry *entry = w->entry;
    sched_enter_work(r, w);
    work_call(w);
    sched_end_forked(s);
    int in_hand = sched_leave_work(r, w);
    work_limit_leave(s, entry);
    if (!in_hand) { /* the work was taken, since the attempt is out of time or the engine stops; the
                       thread that took it has told the run */
        work_free(w);
        return;
    }
    if (work_is_over(w))
        work_expire(w);
    sched_lock(s);
    if (j->run && atomic_exchange(&j->run->code.misused, 0))
        work_misused(w);
    give_back(s, j, JOB_DONE);
    sched_unlock(s);
}

void job_call(runner *r, job *j)
{
    sched *s = r->sched;
    running *list = s->quarantine.running;
    if (!r->works)
        committers_leave(
            s->options.committers); /* a unit must not stand in the queue while code of the user
                                       runs */
    int good = sched_claim_is_good(s);
    sched_lock(s);
    /* RULE A6-a-loser-that-waits-for-a-place-is-not-called */
    int wanted = j->run && good &&
                 !atomic_load(&j->run->hold_requested) && /* the run may be held by now */
                 !atomic_load(&j->work->cancelled);       /* the job may not be needed any more */
    int enters = wanted && enter_limit(j);
    if (wanted && !enters)
        at_risk_drop(s);
    if (!wanted) {
        work_limit_ask_in(s, j->work->entry);
        give_back(s, j, JOB_NOT_DONE);
    }
    sched_unlock(s);
    if (!enters)
        return;
    inflight_set(list, r->index, j->work->key.run);
    call_work(r, j);
    if (!r->lost)
        inflight_set(list, r->index, 0);
}

void job_call_off(sched *s, pawl_work *w, int is_over)
{
    job *j = w->job;
    w->job = NULL;
    j->work = NULL;
    give_back(s, j, is_over ? JOB_EXPIRED : JOB_NOT_DONE);
}

void job_call_end_all(pawl_run *run)
{
    sched *s = run->host->sched;
    map_free(&run->untils);
    if (run->jobs.by_op.count == 0)
        return;
    sched_lock(s);
    jobs_forget_queued(run);
    workers_ask_to_stop(s, run);
    sched_unlock(s);
}
