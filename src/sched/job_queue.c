/* The queue of jobs that wait for a thread, and the queues of work functions that are full. The
 * lock guards all of them. */
#include "sched/job_queue.h"

#include "sched/unit_retry.h"
#include "sched/work_limit.h"
#include "sched/work_threads.h"

void job_queue_add(pawl_run *run)
{
    sched *d = run->host->sched;
    job *j;
    if (!run->jobs.not_queued.first || jobs_run_leaves(run)) /* then they go with the fiber */
        return;
    pthread_mutex_lock(&d->lock);
    run->jobs.not_queued_count = 0;
    while ((j = run->jobs.not_queued.first) != NULL) {
        job_list_remove(&run->jobs.not_queued, j);
        if (map_put(&run->jobs.by_op, (uint64_t)j->op, j) != 0) {
            job_free(j); /* memory is out: the run asks for it again after a replay */
            continue;
        }
        j->state = JOB_QUEUED;
        job_list_add(&d->jobs, j);
        run_queue_call_one(d);
    }
    pthread_mutex_unlock(&d->lock);
}

/* A job that waits for a thread may have a reserved place in its work function: that goes to the
 * next waiter. */
void job_queue_remove(sched *d, job *j)
{
    work_entry *entry = j->work ? j->work->entry : NULL;
    job_list_remove(j->crowded && entry ? &entry->jobs : &d->jobs, j);
    if (!j->crowded)
        work_limit_ask_in(d, entry);
    j->crowded = 0;
}

int job_queue_await(pawl_run *run)
{
    sched *d = run->host->sched;
    pthread_mutex_lock(&d->lock);
    int awaits = !jobs_have_returned(run) && jobs_running(run) > 0;
    if (awaits)
        run_queue_sleep(d, run, RUN_NEVER);
    pthread_mutex_unlock(&d->lock);
    return awaits;
}

int job_queue_has(const runner *r)
{
    const sched *d = r->sched;
    return d->jobs.first && !unit_retry_waits(d) &&
           !(r->index == SCHED_HAND && work_threads_are_there(d));
}

job *job_queue_take(sched *d)
{
    job *j = d->jobs.first;
    if (!j)
        return NULL;
    job_list_remove(&d->jobs, j);
    j->state = JOB_RUNS;
    return j;
}

void job_queue_ask_in(sched *d, work_entry *w)
{
    job *j = w->jobs.first;
    if (!j || w->inside >= w->at_most)
        return;
    job_list_remove(&w->jobs, j);
    j->crowded = 0;
    job_list_add(&d->jobs, j);
    run_queue_call_one(d);
}

void job_queue_give_back(sched *d, job *j, job_state state)
{
    pawl_run *run = j->run;
    if (!run) {
        job_free(j);
        return;
    }
    j->state = state;
    job_list_add(&run->jobs.returned, j);
    run_queue_nudge(d, run);
}
