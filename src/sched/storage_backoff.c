/* Back-off of runs whose storage fails. They wait in memory only, since the database is what is
 * missing: nothing is written, and nothing is to be undone when it is there again.
 *
 * They wait for the first commit of any run that succeeds; as long as none does, trying would be in
 * vain. Until then they try themselves, all at the same time and more and more seldom, since some
 * commit has to be tried. A run that fails again although others have succeeded has a trouble of
 * its own, and a back-off of its own. */
#include "sched/sched_internal.h"

static const int64_t FIRST_MS = 100;
static const int64_t LAST_MS = 30000;

static int64_t twice(int64_t ms)
{
    if (ms == 0)
        return FIRST_MS;
    return ms * 2 < LAST_MS ? ms * 2 : LAST_MS;
}

/* Gives the time when all waiting runs try again: the same for all runs that fail before it. */
static int64_t next_try(sched *s)
{
    int64_t now = sched_now_ms(s);
    if (now >= s->backoff_until_ms) {
        s->backoff_ms = twice(s->backoff_ms);
        s->backoff_until_ms = now + s->backoff_ms;
    }
    return s->backoff_until_ms;
}

void storage_backoff_wait(sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    run->slot->backoff_next = s->backoff_runs;
    run->slot->backoff_link = &s->backoff_runs;
    if (s->backoff_runs)
        s->backoff_runs->slot->backoff_link = &run->slot->backoff_next;
    s->backoff_runs = run;
    run_queue_sleep(s, run, next_try(s));
}

void storage_backoff_asks(sched *s)
{
    sched_assert_locked(s);
    next_try(s);
}

static void note_failure(const sched *s, pawl_run *run)
{
    run->slot->backoff_ms = twice(run->slot->backoff_ms);
    run->slot->backoff_seen = s->commits;
}

void storage_backoff_alone(sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    note_failure(s, run);
    run_queue_sleep(s, run, sched_now_ms(s) + run->slot->backoff_ms);
}

void storage_backoff(sched *s, pawl_run *run)
{
    sched_assert_locked(s);
    if (run->slot->backoff_ms > 0 && run->slot->backoff_seen != s->commits) {
        storage_backoff_alone(s, run);
        return;
    }
    note_failure(s, run);
    storage_backoff_wait(s, run);
}

void storage_backoff_end(pawl_run *run)
{
    if (!run->slot->backoff_link)
        return;
    *run->slot->backoff_link = run->slot->backoff_next;
    if (run->slot->backoff_next)
        run->slot->backoff_next->slot->backoff_link = run->slot->backoff_link;
    run->slot->backoff_next = NULL;
    run->slot->backoff_link = NULL;
}

/* A run that sleeps until a time which it has named keeps that time when the clock is set. But a
 * back-off is a duration: when the clock is set back, its end could be hours away. So these
 * runs are made ready at once. */
void storage_backoff_clock_back(sched *s)
{
    sched_assert_locked(s);
    size_t cursor = 0;
    uint64_t key;
    void *at;
    s->backoff_ms = s->backoff_until_ms = 0;
    while (map_next(&s->runs, &cursor, &key, &at)) {
        pawl_run *run = at;
        if (run->slot->place == PLACE_SLEEPS && run->slot->put_off)
            run_queue_ready(s, run);
    }
}

void storage_backoff_committed(sched *s)
{
    sched_assert_locked(s);
    int failed = s->backoff_ms > 0;
    s->commits++;
    s->backoff_until_ms = 0;
    if (failed) /* a store to shared memory costs time, and this function is called for each unit */
        s->backoff_ms = 0;
    while (s->backoff_runs) /* RULE 6-the-first-commit-lets-all-go-on */
        run_queue_ready(s, s->backoff_runs);
    for (int i = 0; failed && s->jobs.first && i < s->thread_count; i++)
        run_queue_call_one(s); /* jobs have waited for the storage too */
    if (failed)
        pthread_cond_broadcast(&s->work_cond);
}
