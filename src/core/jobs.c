/* The lists that jobs are in: new ones of a run, those that wait for a thread, those that wait for
 * a place in a work function, those that are done. The lock of the drive guards all but the first
 * and the last step. */
#include "core/jobs.h"

#include <stdlib.h>

#include "core/calls.h"
#include "core/crowd.h"
#include "core/drive.h"
#include "core/running.h"

enum { JOBS_MAX = 256, AGAIN_MS = 1000 };

static void push(job_list *list, job *j)
{
    j->next = NULL;
    j->previous = list->last;
    if (list->last)
        list->last->next = j;
    else
        list->first = j;
    list->last = j;
}

static void take_out(job_list *list, job *j)
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

static void job_free(job *j)
{
    work_free(j->work);
    free(j);
}

/* ---- On the fiber ---- */

/* The time for all attempts is over before this one has begun: it is told so at the next wait. */
static void do_not_start(pawl_run *run, job *j)
{
    drive *d = run->drive;
    take_out(&run->jobs_new, j);
    run->jobs_new_count--;
    work_free(j->work);
    j->work = NULL;
    j->state = JOB_EXPIRED;
    pthread_mutex_lock(&d->lock);
    int known = map_put(&run->jobs, (uint64_t)j->op, j) == 0;
    if (known)
        push(&run->jobs_done, j);
    run->nudged = 1;
    pthread_mutex_unlock(&d->lock);
    if (known)
        return;
    free(j);
    run_trouble(run, PAWL_NOMEM, "out of memory");
}

static void start_one(call *c)
{
    pawl_run *run = c->future->run;
    job *j = calloc(1, sizeof *j);
    pawl_work *w = j ? work_new(run) : NULL;
    if (!w) {
        free(j);
        run_trouble(run, PAWL_NOMEM, "out of memory");
    }
    *j = (job){.run = run, .work = w, .op = c->future->op};
    w->job = j;
    push(&run->jobs_new, j); /* from here on it goes with the fiber */
    j->attempt = c->kind == OP_UNTIL ? 1 : call_attempt(c);
    j->began_ms = c->began_ms;
    run->jobs_new_count++;
    if (!call_fill(c, w, j->attempt, j->op))
        do_not_start(run, j);
}

void jobs_start(pawl_run *run)
{
    run_futures *all = &run->futures;
    call *c;
    while (run->jobs.count + run->jobs_new_count < JOBS_MAX && (c = call_pop(run, &all->beside)))
        if (!jobs_has(run, c->future->op))
            start_one(c);
}

int jobs_has(pawl_run *run, int64_t op)
{
    drive *d = run->drive;
    if (run->jobs.count == 0)
        return 0;
    pthread_mutex_lock(&d->lock);
    int has = map_get(&run->jobs, (uint64_t)op) != NULL;
    pthread_mutex_unlock(&d->lock);
    return has;
}

static job *take_done(pawl_run *run)
{
    drive *d = run->drive;
    pthread_mutex_lock(&d->lock);
    job *j = run->jobs_done.first;
    if (j) {
        take_out(&run->jobs_done, j);
        map_take(&run->jobs, (uint64_t)j->op);
    }
    pthread_mutex_unlock(&d->lock);
    return j;
}

/* Is it about what the run waits for now? The fiber may have been replayed in between. */
static void record(pawl_run *run, job *j)
{
    pawl_future *f = replay_owner_of(run->replay, j->op);
    call *c = f && !f->over ? f->own : NULL;
    if (!c || (c->kind != OP_UNTIL && call_attempt(c) != j->attempt))
        return;
    if (c->is_undone) { /* what it gave is worth knowing, and nothing else: it is over */
        if (j->state == JOB_DONE && !j->work->failed)
            turn_arrive(run, OP_DONE, j->op, slice_of(j->work->value));
        return;
    }
    pawl_work late = {.attempt = j->attempt, .began_ms = j->began_ms, .after_ms = -1};
    if (j->state == JOB_DONE) {
        call_ended(c, j->work);
    } else if (j->state == JOB_EXPIRED) {
        work_expire(&late);
        call_ended(c, &late);
    } else {
        call_put_off(c, drive_now_ms(run->drive) + AGAIN_MS);
    }
}

int jobs_collect(pawl_run *run)
{
    job *j;
    int count = 0;
    while ((j = take_done(run)) != NULL) {
        run->job_in_hand = j; /* it is freed with the run if that is left in the middle */
        record(run, j);
        run->job_in_hand = NULL;
        job_free(j);
        count++;
    }
    return count;
}

/* Who is in one finds out when it returns. One that waits for a thread may have been asked in. */
static void forget_one(drive *d, job *j)
{
    work_entry *entry = j->work ? j->work->entry : NULL;
    switch (j->state) {
    case JOB_RUNS:
        atomic_store(&j->work->cancelled, 1);
        j->run = NULL;
        return;
    case JOB_QUEUED:
        take_out(j->crowded && entry ? &entry->jobs : &d->jobs, j);
        if (!j->crowded)
            crowd_ask_in(d, entry);
        break;
    default:
        break;
    }
    job_free(j);
}

void jobs_cancel(pawl_run *run, int64_t op)
{
    drive *d = run->drive;
    for (job *j = run->jobs_new.first; j; j = j->next) {
        if (j->op != op)
            continue;
        take_out(&run->jobs_new, j);
        job_free(j);
        run->jobs_new_count--;
        return;
    }
    if (run->jobs.count == 0)
        return;
    pthread_mutex_lock(&d->lock);
    job *j = map_get(&run->jobs, (uint64_t)op);
    if (j && j->state == JOB_QUEUED) {
        map_take(&run->jobs, (uint64_t)op);
        forget_one(d, j);
    } else if (j && j->work) {
        atomic_store(&j->work->cancelled, 1);
    }
    pthread_mutex_unlock(&d->lock);
}

/* ---- Queueing ---- */

void jobs_queue(pawl_run *run)
{
    drive *d = run->drive;
    job *j;
    if (!run->jobs_new.first)
        return;
    pthread_mutex_lock(&d->lock);
    run->jobs_new_count = 0;
    while ((j = run->jobs_new.first) != NULL) {
        take_out(&run->jobs_new, j);
        if (map_put(&run->jobs, (uint64_t)j->op, j) != 0) {
            job_free(j); /* memory is out: the run asks for it again after a replay */
            continue;
        }
        j->state = JOB_QUEUED;
        push(&d->jobs, j);
        drive_call_one(d);
    }
    pthread_mutex_unlock(&d->lock);
}

void jobs_forget_new(pawl_run *run)
{
    for (job *j = run->jobs_new.first, *next; j; j = next) {
        next = j->next;
        job_free(j);
    }
    run->jobs_new = (job_list){0};
    run->jobs_new_count = 0;
    if (run->job_in_hand)
        job_free(run->job_in_hand);
    run->job_in_hand = NULL;
}

void jobs_forget(pawl_run *run)
{
    drive *d = run->drive;
    size_t cursor = 0;
    uint64_t key;
    void *value;
    map_free(&run->untils);
    if (!run->jobs.slots)
        return;
    pthread_mutex_lock(&d->lock); /* somebody may be asking them to stop */
    while (map_next(&run->jobs, &cursor, &key, &value))
        forget_one(d, value);
    run->jobs_done = (job_list){0};
    map_free(&run->jobs);
    pthread_mutex_unlock(&d->lock);
}

/* Whether it has begun is known under the lock only, so here; they are not many. */
static job *find_queued(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    while (map_next(&run->jobs, &cursor, &key, &value))
        if (((job *)value)->state == JOB_QUEUED)
            return value;
    return NULL;
}

void jobs_let_return(pawl_run *run)
{
    drive *d = run->drive;
    job *j;
    map_free(&run->untils);
    if (run->jobs.count == 0)
        return;
    pthread_mutex_lock(&d->lock);
    while ((j = find_queued(run)) != NULL) {
        map_take(&run->jobs, (uint64_t)j->op);
        forget_one(d, j);
    }
    crew_ask_to_stop(d, run);
    pthread_mutex_unlock(&d->lock);
}

void jobs_ask_to_stop(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    while (map_next(&run->jobs, &cursor, &key, &value)) {
        const job *j = value;
        if (j->work)
            atomic_store(&j->work->cancelled, 1);
    }
}

job *jobs_take(drive *d)
{
    job *j = d->jobs.first;
    if (!j)
        return NULL;
    take_out(&d->jobs, j);
    j->state = JOB_RUNS;
    return j;
}

/* ---- Doing ---- */

/* It comes back to its run, which is woken. With the lock held. */
static void give_back(drive *d, job *j, job_state state)
{
    pawl_run *run = j->run;
    if (!run) {
        job_free(j);
        return;
    }
    j->state = state;
    push(&run->jobs_done, j);
    drive_nudge(d, run);
}

/* A place in the work function, if those are limited. 0: it waits for one. With the lock held. */
static int enter(job *j)
{
    work_entry *w = j->work->entry;
    if (!w || w->at_most == 0)
        return 1;
    if (w->inside < w->at_most) {
        w->inside++;
        return 1;
    }
    j->state = JOB_QUEUED;
    j->crowded = 1;
    push(&w->jobs, j);
    return 0;
}

void jobs_ask_in(drive *d, work_entry *w)
{
    job *j = w->jobs.first;
    if (!j || w->inside >= w->at_most)
        return;
    take_out(&w->jobs, j);
    j->crowded = 0;
    push(&d->jobs, j);
    drive_call_one(d);
}

static void call_it(struct runner *r, job *j)
{
    drive *d = r->drive;
    pawl_work *w = j->work;
    work_entry *entry = w->entry;
    drive_enter_work(r, w);
    work_call(w);
    drive_end_child(d);
    int in_hand = drive_leave_work(r, w);
    crowd_leave(d, entry);
    if (!in_hand) { /* its time was over: the run was told so */
        work_free(w);
        return;
    }
    if (work_is_over(w))
        work_expire(w);
    pthread_mutex_lock(&d->lock);
    if (j->run && atomic_exchange(&j->run->misused, 0))
        work_misused(w);
    give_back(d, j, JOB_DONE);
    pthread_mutex_unlock(&d->lock);
}

void jobs_do(struct runner *r, job *j)
{
    drive *d = r->drive;
    running *list = d->suspects.running;
    committers_leave(d->options.committers); /* a queued unit never waits for code of the user */
    int good = drive_claim_is_good(d);
    pthread_mutex_lock(&d->lock);
    int wanted = j->run && good && !atomic_load(&j->run->rests) && /* it may be held by now, … */
                 !atomic_load(&j->work->cancelled);                /* … or not needed any more */
    int enters = wanted && enter(j);
    if (!wanted) {
        crowd_ask_in(d, j->work->entry);
        give_back(d, j, JOB_NOT_DONE);
    }
    pthread_mutex_unlock(&d->lock);
    if (!enters)
        return;
    running_set(list, r->index, j->work->number);
    call_it(r, j);
    if (!r->lost)
        running_set(list, r->index, 0);
}

void jobs_take_away(drive *d, pawl_work *w, int is_over)
{
    job *j = w->job;
    w->job = NULL;
    j->work = NULL;
    give_back(d, j, is_over ? JOB_EXPIRED : JOB_NOT_DONE);
}
