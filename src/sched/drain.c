/* Draining: what happens before a node gives its runs back, at a stop, a close, or the end of
 * pawl_finish().
 *
 * The results of jobs that have returned are recorded, all submitted units are committed, and units
 * that could not be committed so far (unit_retry.h) are tried again. Results of functions that were
 * executed are not thrown away as long as the process lives.
 *
 * The engine's threads have ended by then, or were left in functions that do not return. So the
 * thread that stops the engine executes the runs, one after the other. Each run records the results
 * that its jobs have returned and leaves its function there (jobs_leave()), so that no code of the
 * user goes on. */
#include <string.h>

#include "run/jobs.h"
#include "run/transact.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"
#include "sched/work_limit.h"

enum { PAUSE_MS = 5, STILL_MAX = 200, MORE_MAX = 3 };

/* The least time for recording: with a short drain_ms, results could not be committed at all. */
static const int64_t RECORD_MS = 1000;

/* Has the unit of the run failed while the node drains? Whether the unit is kept is decided by the
 * runner that executes the run next. */
static int has_failed(const pawl_run *run)
{
    /* RULE L5-what-is-held-does-not-keep-a-stop */
    return run->slot->keeps == KEPT_NOT && run->draft.handed_in && run->draft.unit &&
           run->draft.unit->answer == UNIT_FAILED;
}

/* Has a function returned for which there was no memory to record it? */
static int is_unrecorded(const pawl_run *run)
{
    /* RULE L5-results-that-lacked-memory-are-recorded-before-the-node-ends */
    return run->attempt.is_called || run->attempt.saved || run->jobs.in_hand.first;
}

static int has_to_record(const pawl_run *run)
{
    if (is_unrecorded(run)) /* RULE L5-what-a-worker-has-done-is-recorded-before-the-end */
        return 1;
    /* RULE 2-a-unit-that-fails-while-the-node-drains-is-tried-again */
    /* RULE L5-the-simulator-sees-what-a-stop-or-a-finish-loses */
    /* RULE L5-the-simulator-sees-what-fails-in-a-drain */
    return unit_retry_wants_try(run) || has_failed(run) ||
           (run->jobs.by_op.count > 0 && jobs_have_returned(run));
}

/* Makes every run ready that may have something to record. */
static void wake_all(sched *s)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    for (int i = 0; i < SCHED_RUNNERS; i++)
        run_queue_collect(&s->runners[i]);
    work_limit_let_go(s);
    while (map_next(&s->runs, &cursor, &key, &at)) {
        pawl_run *run = at;
        if (run->slot->place == PLACE_SLEEPS && has_to_record(run))
            run_queue_ready_on(s, &s->runners[SCHED_HAND], run);
    }
}

/* The runs that have something to record, linked by `next`; the others stay ready. With the lock
 * held. */
static pawl_run *gather_runs(sched *s)
{
    pawl_run *found = NULL, *others = NULL, *run;
    wake_all(s);
    for (int i = 0; i < SCHED_RUNNERS; i++) {
        while ((run = run_queue_take(&s->runners[i])) != NULL) {
            pawl_run **list = has_to_record(run) ? &found : &others;
            run->slot->next = *list;
            *list = run;
        }
    }
    /* RULE L5-a-quarantined-run-records-before-the-end */
    while ((run = quarantine_take_if(s, has_to_record)) != NULL) {
        run->slot->next = found;
        found = run;
    }
    while ((run = others) != NULL) {
        others = run->slot->next;
        run_queue_ready_on(s, &s->runners[SCHED_HAND], run);
    }
    return found;
}

/* Executes the runs that have something to record. Gives their number. */
static int record_all(sched *s)
{
    int count = 0;
    sched_lock(s);
    pawl_run *list = gather_runs(s), *run;
    sched_unlock(s);
    while ((run = list) != NULL) {
        list = run->slot->next;
        run->slot->next = NULL;
        runner_take(&s->runners[SCHED_HAND], run);
        count++;
    }
    return count;
}

/* Waits a little before the next try: reading or writing fails for now, or memory is out. */
static void pause_for_others(sched *s)
{
    sched_lock(s);
    int64_t now = s->host->mono_ns(s->host);
    sched_await(s, &s->ended, clock_deadline(now, PAUSE_MS));
    sched_unlock(s);
}

static void tell_what_is_left(sched *s)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    sched_lock(s);
    while (map_next(&s->runs, &cursor, &key, &at)) {
        const pawl_run *run = at;
        if (is_unrecorded(run) || (run->jobs.by_op.count > 0 && jobs_have_returned(run)))
            LOG(&s->log, LOG_WARNING, "stop-left", LOG_TEXT("run", run->id),
                LOG_TEXT("why", "results could not be recorded; what gave them is called again"));
    }
    sched_unlock(s);
}

static void tell_lost(sched *s, const pawl_run *run, const unit *u)
{
    char what[UNIT_RETRY_NAME_SIZE];
    /* RULE L6-a-step-that-was-rolled-back-is-not-lost */
    if (transact_goes(run) && u->answer == UNIT_FAILED && u->code != PAWL_UNDECIDED)
        return;
    if (u->answer == UNIT_REFUSED && strcmp(u->refused, "prefix") != 0) {
        runner_tell_lost(run, u);
        return;
    }
    unit_retry_name(what, u);
    LOG(&s->log, LOG_ERROR, "record-lost", LOG_TEXT("run", run->id), LOG_TEXT("what", what),
        LOG_TEXT("code", pawl_code_name(u->code)), LOG_TEXT("why", u->message ? u->message : ""));
}

/* Has the run something that was executed and is not recorded, and that another try may record? */
static int may_be_recorded(const pawl_run *run)
{
    const unit *u = run->draft.handed_in ? run->draft.unit : NULL;
    if (has_to_record(run) || run->slot->keeps != KEPT_NOT)
        return 1;
    return u && (u->answer == UNIT_OPEN || u->answer == UNIT_UNDECIDED || unit_retry_may(run));
}

int sched_has_unrecorded(sched *s)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    int some = 0;
    sched_lock(s);
    while (!some && map_next(&s->runs, &cursor, &key, &at))
        some = may_be_recorded(at);
    sched_unlock(s);
    return some;
}

void sched_tell_lost(sched *s)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    sched_lock(s);
    while (map_next(&s->runs, &cursor, &key, &at)) {
        const pawl_run *run = at;
        const unit *u = run->draft.handed_in ? run->draft.unit : NULL;
        if (u && u->answer != UNIT_COMMITTED) /* RULE L6-every-unit-that-a-stop-loses-is-told */
            tell_lost(s, run, u);
    }
    sched_unlock(s);
}

/* Records and commits until nothing is left or the time is over. A storage that stalls, or a
 * process that is suspended, may use up all of the time within one try: then there is more time, a
 * few times at most. An undecided commit alone may need two of them: one until it is decided that
 * it is lost, and one in which its unit is handed in again. While the clock stands still, as that
 * of a test may, the number of tries is limited. */
static int record_until(sched *s, int64_t deadline, int keeps)
{
    committers *all = s->options.committers;
    int64_t moved = s->host->mono_ns(s->host);
    int more = keeps ? MORE_MAX : 0, flushed = committers_flush_runs(all, deadline);
    if (atomic_load(&s->fenced) || !s->node.id)
        return flushed;
    if (!keeps)
        unit_retry_release_all(s); /* RULE L5-a-node-that-leaves-tries-once-more */
    /* RULE B12-what-was-done-beside-is-recorded-at-a-stop */
    /* RULE L5-a-stalled-storage-gets-one-more-try */
    for (int tries = 0, still = 0; still < STILL_MAX && (record_all(s) > 0 || !flushed); tries++) {
        int64_t now = s->host->mono_ns(s->host);
        /* RULE L5-a-drain-tries-until-its-time-is-over */
        still = now > moved ? 0 : still + 1;
        moved = now;
        /* RULE L5-a-storage-that-stalls-twice-gets-one-more-try */
        if (now >= deadline && more++ < MORE_MAX)
            deadline = clock_deadline(now, RECORD_MS);
        flushed = committers_flush_runs(all, deadline);
        if (more > MORE_MAX)
            break;
        if (tries > 0)
            pause_for_others(s);
    }
    return flushed;
}

int sched_drain(sched *s, int keeps)
{
    int64_t ms = s->options.drain_ms;
    /* RULE L5-a-finish-that-can-keep-does-not-try-for-long */
    if (keeps || ms < RECORD_MS)
        ms = RECORD_MS;
    int flushed = record_until(s, clock_deadline(s->host->mono_ns(s->host), ms), keeps);
    if (!keeps && !atomic_load(&s->fenced) && s->node.id)
        tell_what_is_left(s);
    return flushed;
}
