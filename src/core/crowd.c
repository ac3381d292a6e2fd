/* Places in work functions. Most functions have no limit, and cost nothing of this: their runs are
 * let in without the lock. */
#include "core/crowd.h"

#include "core/drive.h"
#include "core/jobs.h"

static void queue(work_entry *w, pawl_run *run)
{
    run->where = RUN_CROWDED;
    run->next = NULL;
    if (w->last)
        w->last->next = run;
    else
        w->first = run;
    w->last = run;
}

/* A place is free: the first who waits is asked in. */
static void ask_in(struct drive *d, work_entry *w)
{
    pawl_run *run = w->first;
    if (!run || w->inside >= w->at_most) {
        jobs_ask_in(d, w);
        return;
    }
    w->first = run->next;
    if (!w->first)
        w->last = NULL;
    run->asked_in = w;
    drive_ready(d, run);
}

void crowd_ask_in(struct drive *d, work_entry *w)
{
    if (w && w->at_most != 0)
        ask_in(d, w);
}

static int has_place(struct drive *d, const work_entry *w)
{
    pthread_mutex_lock(&d->lock);
    int free = w->inside < w->at_most;
    pthread_mutex_unlock(&d->lock);
    return free;
}

/* Those who wait may be many, and wait for long: beyond what is kept warm they are dropped. */
static void make_room(struct drive *d, pawl_run *run)
{
    if (!has_place(d, run->work->entry) && fiber_pool_live(d->pool) > d->warm_max)
        run_cool(run);
}

int crowd_enter(struct drive *d, pawl_run *run)
{
    work_entry *w = run->work->entry;
    if (run->asked_in != w)
        crowd_pass(d, run);
    if (!w || w->at_most == 0)
        return 1;
    make_room(d, run);
    pthread_mutex_lock(&d->lock);
    run->asked_in = NULL;
    int enters = run->fiber && w->inside < w->at_most;
    if (enters) {
        w->inside++;
    } else {
        queue(w, run);
        ask_in(d, w); /* a place may have become free while its fiber was dropped */
    }
    pthread_mutex_unlock(&d->lock);
    return enters;
}

void crowd_leave(struct drive *d, work_entry *w)
{
    if (!w || w->at_most == 0)
        return;
    pthread_mutex_lock(&d->lock);
    w->inside--;
    ask_in(d, w);
    pthread_mutex_unlock(&d->lock);
}

void crowd_pass(struct drive *d, pawl_run *run)
{
    if (!run->asked_in)
        return;
    pthread_mutex_lock(&d->lock);
    ask_in(d, run->asked_in);
    run->asked_in = NULL;
    pthread_mutex_unlock(&d->lock);
}

void crowd_clear(struct drive *d)
{
    for (work_entry *w = registry_first_work(d->options.registry); w; w = w->next)
        w->first = w->last = NULL; /* jobs go with their runs */
}
