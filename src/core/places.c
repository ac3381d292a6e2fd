/* The places of the runs of a node: lists of ready ones, answers on their way back, timers. The
 * lock is held in all of it, but for drive_answered(). */
#include "core/drive.h"

/* Whose list is the shortest. By hand there is only one. */
static runner *shortest(drive *d)
{
    if (d->driven != DRIVEN_BY_THREADS)
        return &d->runners[DRIVE_HAND];
    runner *best = &d->runners[0];
    for (int i = 1; i < d->runner_count; i++)
        if (d->runners[i].count + atomic_load(&d->runners[i].busy) <
            best->count + atomic_load(&best->busy))
            best = &d->runners[i];
    return best;
}

/* There is something for the runner. Who drives by hand may wait for the descriptor, unless it is
 * he who comes here. */
static void call(drive *d, runner *r)
{
    if (r->waits)
        pthread_cond_signal(&r->cond);
    else if (d->driven == DRIVEN_NOT ||
             (d->driven == DRIVEN_BY_HAND && !pthread_equal(d->driver, pthread_self())))
        drive_call(d, 'k');
}

void drive_ready_on(drive *d, runner *r, pawl_run *run)
{
    timers_take(&d->timers, &run->timer);
    drive_trouble_end(run);
    run->where = RUN_READY;
    run->next = NULL;
    if (run->suspect) {
        suspect_add(d, run);
        return;
    }
    if (r->last)
        r->last->next = run;
    else
        r->first = run;
    r->last = run;
    r->count++;
    call(d, r);
}

void drive_ready(drive *d, pawl_run *run)
{
    drive_ready_on(d, run->fiber ? &d->runners[run->runner] : shortest(d), run);
}

/* The answers of a batch come one after the other, from whoever leads. If each of them took the
 * lock, the runners would stand in its way; so they are left in a list that needs none, and its
 * owner makes them ready, all at once. Who finds the list empty wakes him. */
void drive_answered(drive *d, pawl_run *run)
{
    runner *r = &d->runners[run->runner];
    pawl_run *first = atomic_load(&r->answered);
    do
        run->next = first;
    while (!atomic_compare_exchange_weak(&r->answered, &first, run));
    if (first)
        return;
    pthread_mutex_lock(&d->lock);
    call(d, r);
    pthread_mutex_unlock(&d->lock);
}

void drive_collect(runner *r)
{
    drive *d = r->drive;
    if (!atomic_load_explicit(&r->answered, memory_order_relaxed))
        return;
    pawl_run *newest = atomic_exchange(&r->answered, NULL), *oldest = NULL;
    while (newest) {
        pawl_run *next = newest->next;
        newest->next = oldest;
        oldest = newest;
        newest = next;
    }
    for (pawl_run *run = oldest, *next; run; run = next) {
        next = run->next;
        if (run->unit->answer == UNIT_COMMITTED) {
            if (run->want == WANT_END || run->said.count > 0)
                drive_tell_end(d, run);
            drive_committed(d);
        }
        drive_ready(d, run);
    }
}

void drive_sleep(drive *d, pawl_run *run, int64_t due_ms)
{
    run->where = RUN_SLEEPS;
    if (!timers_put(&d->timers, &run->timer, run, due_ms)) {
        drive_ready(d, run); /* then it looks at the clock too often, which is not wrong */
        return;
    }
    for (int i = 0; run->timer.place == 1 && i < d->thread_count; i++) {
        if (!d->runners[i].waits)
            continue;
        pthread_cond_signal(&d->runners[i].cond); /* it may have to wake earlier than it thinks */
        break;
    }
}

void drive_nudge(drive *d, pawl_run *run)
{
    run->nudged = 1;
    if (run->where == RUN_SLEEPS && !run->put_off)
        drive_ready(d, run);
}

void drive_call_one(drive *d)
{
    for (int i = 0; i < d->thread_count; i++) {
        if (!d->runners[i].waits)
            continue;
        pthread_cond_signal(&d->runners[i].cond);
        return;
    }
    if (d->driven != DRIVEN_BY_THREADS)
        call(d, &d->runners[DRIVE_HAND]);
}

static pawl_run *has_arrived(drive *d, int64_t key)
{
    pawl_run *run = map_get(&d->runs, (uint64_t)key);
    if (run) {
        run->has_mail = 1;
        drive_nudge(d, run);
    }
    return run;
}

void drive_mail(drive *d, int64_t run)
{
    pthread_mutex_lock(&d->lock);
    has_arrived(d, run);
    pthread_mutex_unlock(&d->lock);
}

void drive_cancel(drive *d, int64_t key)
{
    pthread_mutex_lock(&d->lock);
    pawl_run *run = has_arrived(d, key);
    if (run)
        crew_ask_to_stop(d, run);
    pthread_mutex_unlock(&d->lock);
}

void drive_forget(drive *d, pawl_run *run)
{
    timers_take(&d->timers, &run->timer);
    suspect_acquit(d, run);
    run->where = RUN_GONE;
    map_take(&d->runs, (uint64_t)run->hold.run);
}

void drive_call_keeper(drive *d)
{
    if (!d->keeper_called)
        drive_call(d, 'k');
    d->keeper_called = 1;
}

drive_watch **drive_watches(drive *d, slice id)
{
    return &d->watches[unit_key_text("runs.id", id) % DRIVE_WATCHES];
}

void drive_tell_end(drive *d, const pawl_run *run)
{
    slice id = slice_of(run->id);
    if (d->watch_count == 0)
        return;
    for (drive_watch *w = *drive_watches(d, id); w; w = w->next) {
        if (!slice_equal(w->id, id))
            continue;
        w->ended = 1;
        pthread_cond_signal(&w->cond);
    }
}

void drive_tell_all(drive *d)
{
    for (int i = 0; i < DRIVE_WATCHES && d->watch_count > 0; i++) {
        for (drive_watch *w = d->watches[i]; w; w = w->next) {
            w->ended = 1;
            pthread_cond_signal(&w->cond);
        }
    }
}

void drive_fire(drive *d)
{
    if (d->timers.count == 0)
        return;
    int64_t now = drive_now_ms(d);
    if (now < d->fired_ms - 1000)
        drive_trouble_back(d);
    d->fired_ms = now;
    while (timers_due_ms(&d->timers) <= now)
        drive_ready(d, timers_first(&d->timers));
}

pawl_run *drive_take(runner *r)
{
    pawl_run *run = r->first;
    if (!run)
        return NULL;
    r->first = run->next;
    if (!r->first)
        r->last = NULL;
    r->count--;
    run->next = NULL;
    run->where = RUN_IN_HAND;
    return run;
}

/* The moment of the monotonic clock at which the first timer is due. */
int64_t drive_timers_ns(drive *d)
{
    if (d->timers.count == 0)
        return INT64_MAX;
    int64_t left = timers_due_ms(&d->timers) - drive_now_ms(d);
    int64_t now = d->host->mono_ns(d->host);
    return left <= 0 ? now : clock_deadline(now, left);
}
