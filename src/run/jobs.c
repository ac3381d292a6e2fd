/* Jobs: work functions that other threads execute beside the workflow function. The fiber makes the
 * jobs, and records their results. The lock of the host guards what the fiber shares with those
 * threads: the jobs that were queued or have returned (run_jobs.by_op, .returned), and
 * run->has_arrival. */
#include "run/jobs.h"

#include <stdlib.h>

#include "run/call.h"

enum { JOBS_MAX = 256, AGAIN_MS = 1000 };

void job_list_add(job_list *list, job *j)
{
    j->next = NULL;
    j->previous = list->last;
    if (list->last)
        list->last->next = j;
    else
        list->first = j;
    list->last = j;
}

void job_list_remove(job_list *list, job *j)
{
    if (j->previous)
        j->previous->next = j->next;
    else
        list->first = j->next;
    if (j->next)
        j->next->previous = j->previous;
    else
        list->last = j->previous;
    j->next = j->previous = NULL;
}

void job_free(job *j)
{
    work_free(j->work);
    free(j);
}

/* ---- On the fiber ---- */

/* Ends a new job without executing it, because the time for all attempts of its call is over. The
 * run records that at its next wait. */
static void expire_unstarted(pawl_run *run, job *j)
{
    job_list_remove(&run->jobs.not_queued, j);
    run->jobs.not_queued_count--;
    work_free(j->work);
    j->work = NULL;
    j->state = JOB_EXPIRED;
    host_lock(run->host);
    int known = map_put(&run->jobs.by_op, (uint64_t)j->op, j) == 0;
    if (known)
        job_list_add(&run->jobs.returned, j);
    run->has_arrival = 1;
    host_unlock(run->host);
    if (known)
        return;
    free(j);
    run_nomem(run);
}

static void make_job(call *c)
{
    pawl_run *run = c->future->run;
    job *j = calloc(1, sizeof *j);
    pawl_work *w = j ? work_new(run) : NULL;
    if (!w) {
        free(j);
        run_nomem(run);
    }
    *j = (job){.run = run, .work = w, .op = c->future->op};
    w->job = j;
    job_list_add(&run->jobs.not_queued, j); /* jobs_forget_new() frees the job from here on */
    j->attempt = c->kind == OP_UNTIL ? 1 : call_attempt(c);
    j->began_ms = c->began_ms;
    run->jobs.not_queued_count++;
    if (!call_fill(c, w, j->attempt, j->op))
        expire_unstarted(run, j);
}

/* Returns 1 if this op has a job that was queued, or has returned. */
static int has_job(pawl_run *run, int64_t op)
{
    if (run->jobs.by_op.count == 0)
        return 0;
    host_lock(run->host);
    int has = map_get(&run->jobs.by_op, (uint64_t)op) != NULL;
    host_unlock(run->host);
    return has;
}

void jobs_start(pawl_run *run)
{
    run_futures *all = &run->futures;
    call *c;
    while (run->jobs.by_op.count + run->jobs.not_queued_count < JOBS_MAX &&
           (c = call_pop(run, &all->beside)))
        if (!has_job(run, c->future->op))
            make_job(c);
}

static job *take_returned(pawl_run *run)
{
    host_lock(run->host);
    job *j = run->jobs.returned.first;
    if (j)
        job_list_remove(&run->jobs.returned, j);
    host_unlock(run->host);
    if (j)
        job_list_add(&run->jobs.in_hand, j);
    return j;
}

/* Frees the jobs in hand, whose results are rows of the draft now. */
static void free_recorded(pawl_run *run)
{
    job *j;
    while ((j = run->jobs.in_hand.first) != NULL) {
        job_list_remove(&run->jobs.in_hand, j);
        run->draft.executed += j->at_risk;
        host_lock(run->host);
        map_take(&run->jobs.by_op, (uint64_t)j->op);
        host_unlock(run->host);
        job_free(j);
    }
}

/* Records the result of a job, unless the journal has a row of that attempt, or the future has an
 * answer: the function may have been replayed meanwhile. */
static void record_result(pawl_run *run, job *j)
{
    pawl_future *f = replay_owner_of(run->journal.replay, j->op);
    call *c = f && !f->over ? call_of(f) : NULL;
    if (!c || (c->kind != OP_UNTIL && call_attempt(c) != j->attempt))
        return;
    if (c->is_undone) { /* only a result is recorded, for the undo: the call is not attempted
                           again */
        if (j->state == JOB_DONE && !j->work->failed)
            journal_arrive(run, OP_DONE, j->op, slice_of(j->work->value));
        return;
    }
    pawl_work late = {.attempt = j->attempt, .began_ms = j->began_ms, .after_ms = -1};
    if (j->state == JOB_DONE) {
        call_ended(c, j->work);
    } else if (j->state == JOB_EXPIRED) {
        work_expire(&late);
        call_ended(c, &late);
    } else {
        call_put_off(c, host_now_ms(run->host) + AGAIN_MS);
    }
}

/* If memory is out before the result of every job in hand has a row, the function is left from in
 * here, and jobs_forget_new() puts all jobs in hand back among those that have returned. The next
 * call passes over jobs whose result has a row by then (record_result()). */
int jobs_collect(pawl_run *run)
{
    job *j;
    int count = 0;
    for (; (j = take_returned(run)) != NULL; count++)
        record_result(run, j);
    /* RULE L5-a-job-is-kept-until-its-result-is-a-row */
    int arrived = journal_arrive_all(run);
    free_recorded(run);
    return arrived || count > 0;
}

/* ---- Before the run is given back ---- */

static int is_result(const job *j)
{
    return j->state == JOB_DONE || j->state == JOB_EXPIRED;
}

int jobs_have_returned(const pawl_run *run)
{
    for (const job *j = run->jobs.returned.first; j; j = j->next)
        if (is_result(j))
            return 1;
    return 0;
}

int jobs_returned(pawl_run *run)
{
    if (run->jobs.by_op.count == 0)
        return 0;
    host_lock(run->host);
    int returned = jobs_have_returned(run);
    host_unlock(run->host);
    return returned;
}

int jobs_run_leaves(const pawl_run *run)
{
    return atomic_load(&run->hold_requested) || host_is_leaving(run->host);
}

/* Returns 1 if every row that the replay knows is in the unit or in the database. If memory was out
 * for such a row, the rows behind it would leave a gap in the journal. */
static int is_journal_whole(const pawl_run *run)
{
    int64_t written = run->draft.seq > 0 ? run->draft.seq : run->journal.fed;
    /* RULE L5-no-row-is-missing-before-what-has-returned */
    return written == replay_seq(run->journal.replay);
}

/* Returns 1 if the replayed function has made the future that takes the result, or if none is
 * needed. */
static int has_future(const pawl_run *run, int64_t op)
{
    const pawl_future *f = replay_owner_of(run->journal.replay, op);
    return f ? f->own != NULL : !replay_fits(run->journal.replay, OP_DONE, op);
}

int jobs_may_be_taken_in(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t op;
    void *j;
    int may = replay_may_arrive(run->journal.replay) && is_journal_whole(run);
    host_lock(run->host);
    while (may && map_next(&run->jobs.by_op, &cursor, &op, &j))
        may = has_future(run, (int64_t)op);
    host_unlock(run->host);
    return may;
}

void jobs_leave_if_due(pawl_run *run)
{
    if (run->jobs.by_op.count > 0 && jobs_run_leaves(run) && jobs_returned(run))
        jobs_leave(run);
}

/* The replay gives out the new arrivals here, because their rows are in the memory of the draft,
 * which goes with the commit. */
void jobs_take_in(pawl_run *run)
{
    run->code.collects = 0;
    jobs_collect(run);
    while (journal_settle_one(run))
        continue;
}

_Noreturn void jobs_leave(pawl_run *run)
{
    for (;;) {
        jobs_take_in(run);
        run_ask(run, WANT_LEAVE);
    }
}

/* Frees a job. If a thread executes the job, its work function is asked to stop, and the job is
 * freed when it returns. With the lock held. */
static void drop_job(const run_host *h, job *j)
{
    switch (j->state) {
    case JOB_RUNS:
        atomic_store(&j->work->cancelled, 1);
        j->run = NULL;
        return;
    case JOB_QUEUED:
        host_unqueue_job(h, j);
        break;
    default:
        if (j->at_risk)
            host_drop_result(h);
        break;
    }
    job_free(j);
}

void jobs_cancel(pawl_run *run, int64_t op)
{
    for (job *j = run->jobs.not_queued.first; j; j = j->next) {
        if (j->op != op)
            continue;
        job_list_remove(&run->jobs.not_queued, j);
        job_free(j);
        run->jobs.not_queued_count--;
        return;
    }
    if (run->jobs.by_op.count == 0)
        return;
    host_lock(run->host);
    job *j = map_get(&run->jobs.by_op, (uint64_t)op);
    if (j && j->state == JOB_QUEUED) { /* RULE A6-a-loser-that-waits-for-a-place-is-not-called */
        map_take(&run->jobs.by_op, (uint64_t)op);
        drop_job(run->host, j);
    } else if (j && j->work) {
        atomic_store(&j->work->cancelled, 1);
    }
    host_unlock(run->host);
}

/* ---- Forgetting, and calling off ---- */

void jobs_forget_new(pawl_run *run)
{
    for (job *j = run->jobs.not_queued.first, *next; j; j = next) {
        next = j->next;
        job_free(j);
    }
    run->jobs.not_queued = (job_list){0};
    run->jobs.not_queued_count = 0;
    if (!run->jobs.in_hand.first)
        return;
    host_lock(run->host); /* their results are recorded after the replay */
    for (job *j; (j = run->jobs.in_hand.first) != NULL;) {
        job_list_remove(&run->jobs.in_hand, j);
        job_list_add(&run->jobs.returned, j);
    }
    host_unlock(run->host);
}

void jobs_forget(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    map_free(&run->untils);
    if (!run->jobs.by_op.slots)
        return;
    host_lock(run->host); /* another thread may be asking the jobs to stop */
    while (map_next(&run->jobs.by_op, &cursor, &key, &value))
        drop_job(run->host, value);
    run->jobs.returned = run->jobs.in_hand = (job_list){0};
    map_free(&run->jobs.by_op);
    host_unlock(run->host);
}

/* Returns a job that is queued. Only under the lock is it known which jobs have begun. The search
 * is short, since a run has few jobs. */
static job *find_queued(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    while (map_next(&run->jobs.by_op, &cursor, &key, &value))
        if (((job *)value)->state == JOB_QUEUED)
            return value;
    return NULL;
}

int jobs_call_off(pawl_run *run)
{
    job *j;
    if (run->jobs.by_op.count == 0)
        return 0;
    host_lock(run->host);
    while ((j = find_queued(run)) != NULL) {
        host_unqueue_job(run->host, j);
        j->state = JOB_NOT_DONE;
        job_list_add(&run->jobs.returned, j);
    }
    int some_run = jobs_running(run) > 0;
    host_unlock(run->host);
    return some_run;
}

void jobs_forget_queued(pawl_run *run)
{
    job *j;
    while ((j = find_queued(run)) != NULL) {
        map_take(&run->jobs.by_op, (uint64_t)j->op);
        drop_job(run->host, j);
    }
}

size_t jobs_running(const pawl_run *run)
{
    size_t cursor = 0, count = 0;
    uint64_t key;
    void *value;
    while (map_next(&run->jobs.by_op, &cursor, &key, &value))
        count += ((const job *)value)->state == JOB_RUNS;
    return count;
}

void jobs_ask_to_stop(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    while (map_next(&run->jobs.by_op, &cursor, &key, &value)) {
        const job *j = value;
        if (j->work)
            atomic_store(&j->work->cancelled, 1);
    }
}
