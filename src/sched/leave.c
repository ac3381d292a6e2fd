/* Leaving: the end of being a node, at a stop, a close or the end of pawl_finish(). What was
 * executed is recorded first (drain.c), then the runs are given back.
 *
 * pawl_finish() ends in the same way, unless something that was executed could not be recorded: the
 * database refuses it, or fails. Then the node stays, with all its runs, as it does between two
 * polls, and the next call that drives tries again. So a process that lives throws no result away,
 * and does not execute again what gave it. */
#include <string.h>

#include "db/inflight_file.h"
#include "run/transact.h"
#include "sched/hold.h"
#include "sched/rejoin.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"
#include "sched/work_limit.h"
#include "sched/work_threads.h"

enum {
    GIVEN_BACK_MAX = 256, /* runs that one unit gives back */
    DOOR_MS = 1000,       /* how long a stop waits for starts under way: a start by a function that
                             was left may never end */
};

/* ---- Dropping the runs ---- */

/* Takes all runs out of the map, and gives them, linked by `next`. The room that is reserved for
 * claims and starts on their way stays. With the lock held. */
static pawl_run *clear_map(sched *s)
{
    pawl_run *all = NULL;
    size_t cursor = 0;
    uint64_t key;
    void *at;
    while (map_next(&s->runs, &cursor, &key, &at)) {
        pawl_run *run = at;
        run->slot->next = all;
        all = run;
    }
    if (s->claiming || s->locked_claims.count || s->starting)
        map_clear(&s->runs);
    else
        map_free(&s->runs);
    return all;
}

/* Takes all runs out of every list, and gives them. With the lock held. */
static pawl_run *clear_places(sched *s)
{
    s->heap.count = 0;
    work_limit_clear(s);
    s->backoff_runs = NULL;
    s->backoff_ms = s->backoff_until_ms = 0;
    s->unit_retry_held = 0;
    run_failure_forget_all(s);
    look_failure_forget_all(s);
    atomic_store(&s->doubts, 0);
    s->quarantine =
        (quarantine){.running = s->quarantine.running, .unmarking = s->quarantine.unmarking};
    for (int i = 0; i < SCHED_RUNNERS; i++) {
        s->runners[i].first = s->runners[i].last = s->runners[i].last_warm = NULL;
        s->runners[i].count = 0;
        atomic_store(&s->runners[i].answered, NULL);
    }
    return clear_map(s);
}

/* Is the unit of the run committed, and has its runner not seen that (after_commit()), since the
 * engine stopped or closed first? The unit may also be one that gives the run back, marks it, or
 * has only what was recorded before memory was out. */
static int was_committed(const pawl_run *run)
{
    return run->draft.handed_in && run->draft.unit && run->draft.unit->answer == UNIT_COMMITTED;
}

/* Frees all runs. They are taken out of every list before, since clients may look for a run at any
 * time, and threads that were given up come back. */
static void drop_runs(sched *s)
{
    sched_lock(s);
    pawl_run *all = clear_places(s), *run;
    sched_unlock(s);
    deferred_watch(s, all);
    while ((run = all) != NULL) {
        all = run->slot->next;
        if (was_committed(run)) { /* RULE C4-the-last-log-lines-are-written */
            run_tell_lines(run);
            runner_tell_end(run);
        }
        run_free(run);
    }
    deferred_watch_end(s);
}

/* Waits until no start is under way any more, so that this node gets no new run. Runs of this node
 * that were about to start others must be freed before, since the answer of such a start could not
 * reach them any more. Runs that clients have started meanwhile are dropped too. 1: there were
 * some. */
static int close_door(sched *s)
{
    sched_lock(s);
    int64_t until =
        clock_deadline(s->host->mono_ns(s->host), workers_has_lost(s) ? DOOR_MS : INT64_MAX);
    while (s->starting > 0 && !sched_await(s, &s->started, until))
        continue;
    int late = s->runs.count > 0;
    sched_unlock(s);
    drop_runs(s);
    return late;
}

/* Lists the runs that the node owns; -1: they are too many. With the lock held. */
static int list_runs(sched *s, int64_t out[GIVEN_BACK_MAX])
{
    size_t cursor = 0;
    int count = 0;
    uint64_t key;
    void *run;
    if (s->runs.count + (size_t)s->dormant.count > GIVEN_BACK_MAX || !dormant_list(s, out, &count))
        return -1;
    while (map_next(&s->runs, &cursor, &key, &run))
        out[count++] = (int64_t)key;
    return count;
}

/* ---- Leaving ---- */

/* Nothing is begun any more, and what was executed is recorded. `keeps`: what cannot be recorded
 * now is kept for later. 0: there are units left that have no answer. */
static int begin_to_leave(sched *s, int keeps)
{
    sched_lock(s);
    atomic_store(&s->open_node, 0);
    sched_unlock(s);
    atomic_store(&s->stopping, 1);
    work_threads_stop(s);
    /* RULE B8-good-order-leaves-no-marks */
    quarantine_leave(s);
    return sched_drain(s, keeps); /* RULE 2-finish-records-what-has-returned */
}

/* The runs of the node are given back, when what was executed is recorded. If they are many, the
 * rows of the node are closed instead, as those of a dead node would be: other nodes, or this
 * engine when it is a node again, claim the runs. The same happens where the storage is gone. */
static void resign_node(sched *s)
{
    int64_t runs[GIVEN_BACK_MAX];
    sched_tell_lost(s);
    sched_lock(s);
    int count = list_runs(s, runs);
    sched_unlock(s);
    drop_runs(s);
    if (close_door(s))
        count = -1;
    heartbeat_stop(s);
    notify_flush(s->options.notify);
    atomic_store(&s->stopping, 0);
    at_risk_reset(s);
    if (!s->node.id)
        return;
    committers_set_node(s->options.committers, 0, 0, 0);
    if (!rejoin_leave(s) && !atomic_load(&s->fenced))
        node_resign(committers_at(s->options.committers, 0), s->node.id, count < 0 ? NULL : runs,
                    count < 0 ? 0 : (size_t)count, NULL);
    node_leave(&s->node);
    inflight_close(s->quarantine.running);
    s->quarantine.running = NULL;
    sched_lock(s);
    dormant_forget(s);
    sched_unlock(s);
    s->walk = (hold_walk){0};
    s->over = (hold_over){0};
    s->sweep = (node_sweep){0};
    s->sign_looks = (sign_looks){0};
    atomic_store(&s->fenced, 0);
}

void sched_leave(sched *s)
{
    if (!begin_to_leave(s, 0))
        committers_give_up_runs(s->options.committers);
    resign_node(s);
}

/* ---- Staying ---- */

/* The node goes on to be one, and the next call that drives it tries at once to record what could
 * not be recorded. */
static void keep_node(sched *s)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    sched_lock(s);
    run_queue_collect(&s->runners[SCHED_HAND]);
    while (map_next(&s->runs, &cursor, &key, &at)) {
        pawl_run *run = at;
        run->slot->stays = 1;
        /* RULE L7-a-step-that-was-rolled-back-keeps-its-back-off */
        if (transact_goes(run))
            continue; /* its function was not executed in the drain */
        if (!unit_retry_at_once(run))
            continue;
        run->slot->backoff_ms = 0; /* the drain has tried often, one try after the other */
        if (run->slot->place == PLACE_SLEEPS)
            /* RULE L5-the-next-call-tries-at-once */
            run_queue_ready_on(s, &s->runners[SCHED_HAND], run);
    }
    s->takes_no_starts = 1; /* RULE L5-a-node-that-stays-leaves-new-runs-to-others */
    atomic_store(&s->open_node, s->node.id);
    sched_unlock(s);
    atomic_store(&s->stopping, 0);
}

/* Is there something that another try could record? */
static int may_stay(sched *s)
{
    /* RULE L5-finish-keeps-what-it-cannot-record */
    return s->node.id && sched_is_open(s) && sched_has_unrecorded(s);
}

int sched_leave_or_stay(sched *s, int gives_up)
{
    int flushed = begin_to_leave(s, 1);
    int waits = !flushed && !gives_up && may_stay(s);
    if (!flushed && !waits)
        committers_give_up_runs(s->options.committers);
    int stays = waits || may_stay(s);
    if (stays)
        keep_node(s);
    else
        resign_node(s);
    return stays;
}

void sched_end_finish(sched *s)
{
    sched_leave_or_stay(s, 0);
}

/* Of runs that a former pawl_finish() had to keep, only the one that is meant now goes on: the
 * others are given back as soon as what was executed is recorded. */
static void go_on_with(sched *s, const char *id)
{
    size_t cursor = 0;
    uint64_t key;
    void *at;
    while (map_next(&s->runs, &cursor, &key, &at)) {
        pawl_run *run = at;
        if (!run->slot->stays || strcmp(run->id, id) == 0)
            continue;
        atomic_store(&run->hold_requested, 1); /* RULE finish-gives-back-what-another-has-kept */
        if (run->slot->place == PLACE_SLEEPS && run->slot->keeps == KEPT_NOT)
            run_queue_ready(s, run);
    }
}

void sched_drive_only(sched *s, const char *id)
{
    sched_lock(s); /* threads that start runs read it */
    s->only = id;
    s->family_ns = 0;
    if (id && s->takes_no_starts) {
        s->node_loop_ns = 0; /* the node has not looked since the last call ended */
        go_on_with(s, id);
    }
    sched_unlock(s);
    if (id)
        return;
    look_failure_end(s, LOOK_ONE); /* what such looks have failed to find is not looked for now */
    look_failure_end(s, LOOK_FAMILY);
}
