/* Choosing between a job, a quarantined run, a ready run and the group commit. Each of the four has
 * its turn, so that none waits for longer than a few choices. */
#include "sched/dispatch.h"

#include "sched/job_queue.h"
#include "sched/sched_internal.h"

/* Ready runs come before jobs, since only runs make new jobs. But one choice in so many prefers a
 * job, so that jobs are not starved. */
enum { JOBS_EVERY = 8 };

static int has_job(const runner *r)
{
    return job_queue_has(r) && !at_risk_is_closed_for_jobs(r->sched);
}

static job *take_job(runner *r)
{
    sched *s = r->sched;
    if (!has_job(r))
        return NULL;
    /* RULE L7-jobs-have-their-turns */
    if ((r->first || quarantine_is_ready(s)) && ++r->turns % JOBS_EVERY != 0)
        return NULL;
    at_risk_begin(s);
    return job_queue_take(s);
}

static pawl_run *take_run(runner *r)
{
    if (at_risk_is_closed(r->sched))
        return NULL;
    pawl_run *run = quarantine_take(r->sched, r->first != NULL);
    return run ? run : run_queue_take(r);
}

int dispatch_one(runner *r)
{
    sched *s = r->sched;
    int did = 1;
    sched_assert_locked(s);
    run_queue_fire(s);
    run_queue_collect(r);
    if (dormant_has_for(r)) {
        sched_unlock(s);
        dormant_bring_to(r);
        sched_lock(s);
        return 1;
    }
    dormant_pass_on(s);
    job *j = take_job(r);
    pawl_run *run = j ? NULL : take_run(r);
    sched_unlock(s);
    if (j)
        job_call(r, j);
    else if (run)
        runner_take(r, run);
    else
        did = committers_drive(s->options.committers);
    sched_lock(s);
    return did;
}

int dispatch_has(runner *r)
{
    int has_run = r->first || quarantine_is_ready(r->sched);
    return (has_run && !at_risk_is_closed(r->sched)) || has_job(r) || dormant_has_for(r);
}
