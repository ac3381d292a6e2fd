/* The queue of jobs that wait for a thread, and the queues of work functions that are full. The
 * lock guards all of them. */
#include "sched/job_queue.h"

#include "sched/sched_internal.h"
#include "sched/unit_retry.h"
#include "sched/work_limit.h"
#include "sched/work_threads.h"

void job_queue_add(pawl_run *run)
{
    sched *s = run->host->sched;
    job *j;
    if (!run->jobs.not_queued.first || jobs_run_leaves(run)) /* a run that leaves drops its new jobs
                                                                with the fiber */
        return;
    sched_lock(s);
    run->jobs.not_queued_count = 0;
    while ((j = run->jobs.not_queued.first) != NULL) {
        job_list_remove(&run->jobs.not_queued, j);
        if (map_put(&run->jobs.by_op, (uint64_t)j->op, j) != 0) {
            job_free(j); /* memory is out: the run asks for the job again after a replay */
            continue;
        }
        j->state = JOB_QUEUED;
        job_list_add(&s->jobs, j);
        run_queue_call_one(s);
    }
    sched_unlock(s);
}

/* A job that waits for a thread may have a reserved slot of its work function: the slot goes to the
 * next waiter. */
void job_queue_remove(sched *s, job *j)
{
    work_entry *entry = j->work ? j->work->entry : NULL;
    sched_assert_locked(s);
    job_list_remove(j->at_limit && entry ? &entry->jobs : &s->jobs, j);
    if (!j->at_limit)
        work_limit_ask_in(s, entry);
    j->at_limit = 0;
}

int job_queue_await(pawl_run *run)
{
    sched *s = run->host->sched;
    sched_lock(s);
    int awaits = !jobs_have_returned(run) && jobs_running(run) > 0;
    if (awaits)
        run_queue_sleep(s, run, RUN_NEVER);
    sched_unlock(s);
    return awaits;
}

int job_queue_has(const runner *r)
{
    const sched *s = r->sched;
    return s->jobs.first && !unit_retry_waits(s) &&
           !(r->index == SCHED_HAND && work_threads_are_there(s));
}

job *job_queue_take(sched *s)
{
    job *j = s->jobs.first;
    sched_assert_locked(s);
    if (!j)
        return NULL;
    job_list_remove(&s->jobs, j);
    j->state = JOB_RUNS;
    return j;
}

void job_queue_ask_in(sched *s, work_entry *w)
{
    job *j = w->jobs.first;
    sched_assert_locked(s);
    if (!j || w->inside >= w->at_most)
        return;
    job_list_remove(&w->jobs, j);
    j->at_limit = 0;
    job_list_add(&s->jobs, j);
    run_queue_call_one(s);
}

void job_queue_give_back(sched *s, job *j, job_state state)
{
    pawl_run *run = j->run;
    sched_assert_locked(s);
    if (!run) {
        job_free(j);
        return;
    }
    j->state = state;
    job_list_add(&run->jobs.returned, j);
    run_queue_arrived(s, run);
}
