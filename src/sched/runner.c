/* One run in hand: resume it, do what it wants, hand in what it has recorded.
 *
 * A unit that is on its way has the run's rows, and at the end of a turn what becomes of the run:
 * it parks, ends, or is held. When the answer is there the run comes back into its runner's list,
 * and the runner looks at it here: only the run's own thread calls code of the user, defers
 * included.
 *
 * A unit that was not committed is handed in again, with its fiber waiting for it: unit_retry.h. If
 * it stays undecided for good, the fiber is dropped with it, and the run goes on from the journal.
 * If another node has the run, it is dropped from this process. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "db/inflight_file.h"
#include "run/cleanup.h"
#include "run/cross_run.h"
#include "run/state.h"
#include "run/transact.h"
#include "sched/handover.h"
#include "sched/job_queue.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"
#include "sched/work_limit.h"
#include "sched/work_threads.h"

enum { LOOK_AGAIN_MS = 60000, TAKEN_MAX = 1024 };

/* ---- The end of a turn ---- */

/* The function has ended, or was left because of trouble that is not its fault. */
void runner_end_turn(pawl_run *run)
{
    pawl_code trouble = run->code.end.phase == PHASE_LIVE ? run->code.end.trouble : PAWL_OK;
    if (trouble == PAWL_NOMEM || !runner_need_unit(run)) {
        runner_starve(run, trouble == PAWL_NOMEM ? run->code.end.note : "the end of a turn");
        return;
    }
    int added = 1;
    if (trouble == PAWL_OK) {
        added = runner_add_outcome(run);
    } else {
        /* Rows behind the last deed (op_is_deed()) that are not committed are forgotten, with the
         * children and messages of this unit: another build may record something else. */
        runner_cut(run);
        added = runner_add_hold(run);
    }
    if (!added || run->draft.unit->broken_build)
        runner_starve(run, "the end of a turn");
    else
        runner_hand_in(run);
}

/* When the run is due for its next owner, if this process dies. Jobs are known in this process
 * only; and whether a child was made is known only when that is committed. */
static int64_t wake_of(const pawl_run *run, int64_t now)
{
    /* RULE A2-a-run-with-work-beside-it-is-due-for-the-next */
    if (run->jobs.by_op.count > 0 || run->jobs.not_queued_count > 0)
        return now;
    /* RULE A2-a-parent-looks-for-its-child-again */
    if (run->draft.sent && run->code.until_ms > now + LOOK_AGAIN_MS)
        return now + LOOK_AGAIN_MS;
    return run->code.until_ms;
}

/* Submits everything that the run has recorded, with the time until which it sleeps. */
static void park_run(pawl_run *run)
{
    if (!runner_need_unit(run)) {
        runner_starve(run, "a park");
        return;
    }
    int64_t now = sched_now_ms(run->host->sched), inbox_seen = atomic_load(&run->inbox.seen);
    run->draft.turn_end_stmt = (run->jobs.by_op.count > 0 ? run_park_kept : run_park)(
        run->draft.unit, &run->lease, inbox_seen, wake_of(run, now), &run->draft.status, now);
    run->draft.status_rides = 1;
    if (run->draft.unit->broken_build)
        runner_starve(run, "a park");
    else
        runner_hand_in(run);
}

/* ---- In hand ---- */

int sched_claim_is_good(sched *s)
{
    if (!sched_is_open(s))
        return 0;
    int64_t silent_ms = s->node.file ? 0 : sched_now_ms(s) - s->node.beat_ms;
    /* RULE C3-a-claim-is-looked-at-before-a-work-function-is-called */
    if (silent_ms >= s->node.claim_ms)
        return 0;
    /* RULE C3-a-node-that-may-be-dead-by-its-lock-begins-nothing */
    return silent_ms < SIGN_SILENT_MS || !atomic_load(&s->node.is_signed) ||
           notify_has_session(s->options.notify);
}

/* May a work function be begun? An engine that stops begins none. */
static int may_begin(sched *s)
{
    return sched_claim_is_good(s) && !atomic_load(&s->stopping);
}

/* While commits fail nothing is begun, since what was done could not be recorded. 1: the run waits
 * for the storage, and is not in hand any more. */
static int waits_for_storage(pawl_run *run)
{
    sched *s = run->host->sched;
    if (!unit_retry_waits(s)) /* RULE L5-nothing-is-begun-while-commits-fail */
        return 0;
    work_limit_pass(s, run);
    sched_lock(s);
    quarantine_put_back(s, run);
    run->slot->put_off = 1;
    storage_backoff_wait(s, run);
    sched_unlock(s);
    return 1;
}

int runner_call_work(runner *r, pawl_run *run)
{
    sched *s = r->sched;
    pawl_work *w = run->attempt.work;
    run->code.misused = 0;
    at_risk_begin(s);
    sched_enter_work(r, w);
    work_call(w);
    sched_end_forked(s);
    int in_hand = sched_leave_work(r, w);
    work_limit_leave(s, w->entry);
    if (!in_hand) {
        work_free(w);
        return 0;
    }
    /* RULE executions-are-counted-until-their-commit-is-answered */
    at_risk_returned(run);
    at_risk_collects(run);
    if (work_is_over(w)) /* RULE an-attempt-that-is-over-is-over */
        work_expire(w);
    if (run->code.misused) /* RULE C9-a-step-that-uses-the-run-fails */
        work_misused(w);
    return 1;
}

/* The attempt that the run asks for was begun before, and ran out of time. */
static int is_expired(const pawl_run *run)
{
    const pawl_work *w = run->attempt.work;
    return run->attempt.expired_op == w->op && run->attempt.expired == w->attempt;
}

/* Must the function look for a cancel once more? It did before it asked for the work; but one may
 * have come since, while the run waited for a commit, the storage or a slot. While it waited for a
 * slot its deadline may have passed as well. */
static int must_look_again(pawl_run *run)
{
    /* RULE A7-a-cancel-is-looked-for-right-before-a-work-function */
    int cancelled = atomic_load(&run->cancel_came) && atomic_exchange(&run->cancel_came, 0);
    /* RULE A7-a-deadline-that-passes-in-line-counts */
    int late = work_limit_has_left(run) && run->deadline_ms <= sched_now_ms(run->host->sched);
    return !run->failing && (cancelled || late);
}

/* The function is replayed, and looks where that ends. All that it has recorded is durable. */
static int look_again(runner *r, pawl_run *run)
{
    work_limit_pass(r->sched, run);
    run_cool(run);
    sched_lock(r->sched);
    run_queue_ready_on(r->sched, r, run);
    sched_unlock(r->sched);
    return 0;
}

/* Calls the work function that the run wants; everything before is durable. 0: the run is not in
 * hand any more. */
static int do_work(runner *r, pawl_run *run)
{
    if (is_expired(run)) {
        run->attempt.expired_op = run->attempt.expired = 0;
        work_expire(run->attempt.work);
        return 1;
    }
    /* A queued unit never waits for code of the user. By hand it is committed here, which may take
     * long: so the claim is looked at afterwards. */
    committers_leave(r->sched->options.committers);
    if (!may_begin(r->sched)) {
        runner_put_off(run);
        return 0;
    }
    if (waits_for_storage(run))
        return 0;
    if (!run->draft.unit) /* an attempt that has left nothing to record is not at risk */
        at_risk_forget(run);
    at_risk_leave_jobs(run);
    if (must_look_again(run))
        return look_again(r, run);
    if (!work_limit_enter(r->sched, run))
        return 0;
    /* RULE L4-work-is-given-to-the-workers */
    if (r->index != SCHED_HAND || !work_threads_are_there(r->sched))
        return runner_call_work(r, run);
    work_threads_give(r->sched, run);
    return 0;
}

/* Calls the work function of a transactional step inside the transaction that records it, with what
 * the run has recorded before. 0: the run is not in hand any more; when it comes back the step is
 * committed. */
static int do_transact(runner *r, pawl_run *run)
{
    if (!transact_rides(run))
        return runner_hand_in(run);
    if (!run->draft.unit)
        job_queue_add(run);
    committers_leave(r->sched->options.committers);
    if (may_begin(r->sched) && waits_for_storage(run))
        return 0;
    if (!may_begin(r->sched) || !transact_build(run)) {
        runner_put_off(run);
        return 0;
    }
    return runner_hand_in(run);
}

static void wake_again(pawl_run *run)
{
    sched_lock(run->host->sched);
    run->has_arrival = 1;
    sched_unlock(run->host->sched);
}

/* Has something come for the run since it looked last? */
static int was_woken(pawl_run *run)
{
    sched *s = run->host->sched;
    sched_lock(s);
    int nudged = run->has_arrival;
    run->has_arrival = 0;
    sched_unlock(s);
    return nudged;
}

int runner_is_flushed(pawl_run *run)
{
    if (!run->draft.unit)
        return 1;
    runner_hand_in(run);
    return 0;
}

/* The run cannot be read: it is tried again, and at last held. */
static void put_off_unread(pawl_run *run, const error *err)
{
    if (!runner_note_unread(run, err)) {
        runner_put_off_for(run, 1);
        return;
    }
    run->code.want = WANT_END;
    runner_end_turn(run);
}

/* Reads what the run wants. If that fails, what the run has recorded is committed first, so that
 * work done outside is not done again. 0: the run is not in hand any more. */
static int read_wanted(runner *r, pawl_run *run)
{
    error err;
    if (runner_read(r, run, &err) == PAWL_OK)
        return 1;
    if (err.code == PAWL_REFUSED && run->code.want == WANT_PAGE) {
        runner_lost(run, NULL);
        return 0;
    }
    if (!runner_is_flushed(run))
        return 0;
    /* RULE L3-what-cannot-be-read-is-given-back */
    if (err.code == PAWL_UNREACHABLE && run->jobs.by_op.count == 0 &&
        node_ready_gives_back(r->sched)) {
        LOG(&r->sched->log, LOG_WARNING, "run-given-back", LOG_TEXT("run", run->id),
            LOG_TEXT("why", "there is no connection to read its journal with"));
        runner_give_back(run);
    } else if (err.code == PAWL_NOMEM) {
        runner_starve(run, "reading");
    } else {
        put_off_unread(run, &err);
    }
    return 0;
}

/* Does what the run wants. 1: the fiber can be resumed. 0: the run is not in hand any more. */
static int serve_want(runner *r, pawl_run *run)
{
    switch (run->code.want) {
    case WANT_PAGE:
    case WANT_NAMES:
    case WANT_STATE:
    case WANT_INBOX:
    case WANT_KEY:
    case WANT_CHECK:
        return read_wanted(r, run);
    case WANT_WORK:
        if (run->attempt.is_called) /* by a worker */
            return 1;
        if (runner_leaves_here(run) && !is_expired(run))
            return runner_leave(run);
        if (!runner_is_flushed(run)) /* RULE 1-flush-before-effect */
            return 0;
        job_queue_add(run);
        return do_work(r, run);
    case WANT_TRANSACT:
        if (run->attempt.transact.state != TRANSACT_ASKED)
            return 1;
        return runner_leaves_here(run) ? runner_leave(run) : do_transact(r, run);
    case WANT_FLUSH:
        return runner_is_flushed(run);
    case WANT_LEAVE:
        return runner_leave(run);
    case WANT_WAIT:
        /* RULE a-hold-by-hand-is-heard-before-the-next-step */
        if (atomic_load(&run->hold_requested))
            return runner_leave(run);
        if (run->code.until_ms <= sched_now_ms(run->host->sched) || was_woken(run))
            return 1;
        park_run(run);
        return 0;
    case WANT_END:
        /* RULE L5-jobs-return-before-a-hold-for-lack-of-memory */
        if (runner_starve_inside(run))
            return 1;
        if (runner_is_to_be_held(run))
            return runner_leave(run);
        runner_end_turn(run);
        return 0;
    }
    return 0;
}

/* Resumes the fiber. 0: the engine has stopped meanwhile without waiting for the function. Then the
 * run belongs to this thread alone, and is freed. */
static int resume_fiber(runner *r, pawl_run *run)
{
    sched *s = r->sched;
    int64_t resumes = atomic_load_explicit(&r->resumes, memory_order_relaxed) + 1;
    atomic_store_explicit(&r->resumes, resumes, memory_order_relaxed);
    atomic_store_explicit(&r->in_function, run, memory_order_release);
    fiber_resume(run->code.fiber);
    sched_end_forked(s);
    /* RULE L9-a-function-that-was-left-is-dropped-when-it-comes-back */
    if (atomic_exchange(&r->in_function, NULL) == run)
        return 1;
    sched_lock(s); /* wait until the thread that took the run is done with it */
    sched_unlock(s);
    run_free(run);
    return 0;
}

static void go_on(runner *r, pawl_run *run)
{
    while (serve_want(r, run) && resume_fiber(r, run))
        continue;
}

/* Was the run held before it parked? Then it has no owner now, unless it has jobs. */
static int was_held(const pawl_run *run)
{
    const unit_row *row = run->code.want == WANT_WAIT && run->draft.turn_end_stmt >= 0
                              ? unit_rows(run->draft.unit, run->draft.turn_end_stmt)
                              : NULL;
    return row && row->values[PARK_HELD].i != 0;
}

/* The unit is done with. The next one begins with a new submitter, since this one may have been
 * undecided for a while. */
static void take_back(pawl_run *run)
{
    run->draft.unit = NULL;
    run->draft.handed_in = run->slot->guarded = 0;
    run->draft.submitter = (submitter){0};
    run_forget_status(run);
    state_forget(run);
    run->draft.kept = 0;
    run->draft.unit_children = 0;
    arena_reset(run->draft.arena);
}

/* The unit was committed with which a turn ends by WANT_END: the run has ended, is held, begins its
 * clean-ups, or begins a new generation. 1: the run goes on here, from the journal, with its
 * clean-ups or its next generation. Not called for a run that drop_runs() frees (sched.c), since
 * the engine has stopped or closed. */
static int after_function_end(pawl_run *run)
{
    sched *s = run->host->sched;
    runner_tell_end(run);
    int goes_on = run->code.end.phase == PHASE_FAILING;
    if (run->code.end.again && run->code.end.phase == PHASE_DONE)
        goes_on = run->code.end.next && generation_begun(run);
    if (run->code.end.again && !run->code.end.next) /* another node has that version */
        handover_offer(s);
    if (!goes_on) {
        runner_forget(run);
        return 0;
    }
    if (run->code.end.phase == PHASE_FAILING) {
        run->failing = 1;
        job_call_end_all(run); /* RULE A7-what-is-undone-has-returned */
    } else {
        jobs_forget(run);
    }
    work_forget_kept(run);
    run_cool(run);
    run->draft.handed_in = 0;
    run->draft.turn_end_stmt = -1;
    return 1;
}

/* The run waits for a moment in time, or for something to arrive: in memory if its fiber is warm,
 * and otherwise dormant. */
static void fall_asleep(pawl_run *run)
{
    sched *s = run->host->sched;
    work_forget_kept(run); /* frees results of attempts for which the replayed function has not
                              asked, since its code has taken another path */
    sched_lock(s);
    int leaves = !run->has_arrival && dormant_leave(s, run, run->code.until_ms);
    if (run->has_arrival)
        run_queue_ready(s, run);
    else if (!leaves)
        run_queue_sleep(s, run, run->code.until_ms);
    sched_unlock(s);
    if (leaves)
        run_free(run);
}

/* Deals with the run whose unit was committed. 1: there is more to do for the run now. */
static int after_commit(pawl_run *run)
{
    sched *s = run->host->sched;
    run_tell_lines(run);
    unit_retry_committed(run);
    runner_was_unread(run);
    runner_was_undone(run);
    run->slot->noted = run->slot->starves;
    run->slot->backoff_ms = 0;
    cross_run_committed(run, 1);
    if (run->slot->starves) {
        runner_starved(run);
        return 0;
    }
    if (run->draft.seq > run->journal.durable) /* RULE L8-what-was-committed-is-missed */
        run->journal.durable = run->draft.seq;
    if (run->slot->starved > 0 && !runner_is_to_be_held(run)) {
        LOG(&s->log, LOG_INFO, "memory-again", LOG_TEXT("run", run->id));
        run->slot->starved = 0;
    }
    if (run->slot->marks) {
        run->slot->marks = 0;
        quarantine_marked(s, run);
        take_back(run);
        return 1;
    }
    int held = was_held(run);
    if (run->slot->is_returning || (held && run->jobs.by_op.count == 0)) {
        runner_forget(run);
        return 0;
    }
    if (held) /* this node keeps the run until its jobs have returned */
        atomic_store(&run->hold_requested, 1);
    if (run->quarantine_level || run->slot->cleared)
        quarantine_committed(s, run, 0);
    if (run->code.want == WANT_END)
        return after_function_end(run);
    const unit_row *row = run->code.want == WANT_WAIT && run->draft.turn_end_stmt >= 0
                              ? unit_rows(run->draft.unit, run->draft.turn_end_stmt)
                              : NULL;
    if (row && row->values[PARK_MAIL].i > run->inbox.known)
        run->inbox.known = row->values[PARK_MAIL].i;
    int arrived =
        row && (row->values[PARK_MAIL].i > atomic_load(&run->inbox.seen) || run->futures.asking);
    run->draft.turn_end_stmt = -1;
    take_back(run);
    job_queue_add(run);
    if (arrived)
        wake_again(run);
    /* RULE a-hold-by-hand-is-heard-before-the-next-step */
    int waits = run->code.want == WANT_WAIT && run->code.until_ms > sched_now_ms(s) && !arrived &&
                !atomic_load(&run->hold_requested);
    int drops = s->options.drops && s->options.drops(s->options.drops_arg);
    /* A line of the log that was written before the last recorded row is not reached by a replay:
     * it need not be remembered. */
    if (run->journal.replay && run->code.told.seq != replay_seq(run->journal.replay))
        run->code.told = (run_spot){0, 0};
    /* RULE warm-runs-have-a-bound */
    if (drops || (waits && fiber_pool_live(s->pool) > s->warm_max))
        run_cool(run);
    if (!waits)
        return 1;
    if (run->quarantine_level)
        quarantine_committed(s, run, 1);
    fall_asleep(run);
    return 0;
}

/* A quarantined run is marked before it is executed, since a dead process could not mark it
 * afterwards. */
static void mark_quarantined(pawl_run *run)
{
    if (runner_need_unit(run))
        run_mark(run->draft.unit, &run->lease, 1);
    if (!run->draft.unit || run->draft.unit->broken_build) {
        runner_put_off(run);
        return;
    }
    run->slot->marks = 1;
    runner_hand_in(run);
}

/* Can the fiber not go on here? It belongs to another thread, which is in a work function or drove
 * by hand before; or it waits for a work function that was taken from it. */
static int is_stranded(const pawl_run *run)
{
    /* RULE B9-a-fiber-stays-with-its-thread */
    return run->code.fiber && (!fiber_is_here(run->code.fiber) ||
                               (run->code.want == WANT_WORK && run->attempt.work == NULL));
}

/* Has a work function of the run returned whose result is not recorded? The result is recorded
 * before anything else is done with the run. */
static int has_result(const pawl_run *run)
{
    return run->attempt.is_called || run->attempt.saved;
}

static void take_in_hand(runner *r, pawl_run *run)
{
    run->slot->put_off = 0;
    if (run->slot->keeps != KEPT_NOT) {
        const unit *refused = unit_retry_go_on(run);
        if (refused)
            runner_lost(run, refused);
        return;
    }
    at_risk_collects(run);
    if (run->draft.handed_in) {
        if (run->draft.unit->answer != UNIT_COMMITTED) {
            runner_not_committed(run);
            return;
        }
        if (!after_commit(run))
            return;
    }
    if (is_stranded(run)) /* the run is replayed on this thread */
        run_cool(run);
    run->slot->runner = r->index;
    if (!run->code.fiber && !run_warm(run, r->sched->pool)) {
        runner_starve_cold(run);
        return;
    }
    if (quarantine_is_poison(run->slot->claims)) {
        runner_note_poison(r, run);
        runner_end_turn(run);
        return;
    }
    /* RULE a-hold-by-hand-is-heard-before-the-next-step */
    /* RULE L5-what-a-worker-has-done-is-recorded-before-a-hold */
    if (atomic_load(&run->hold_requested) && !has_result(run) && !jobs_call_off(run) &&
        !jobs_returned(run))
        runner_give_back(run);
    else if (quarantine_needs_mark(r->sched, run))
        mark_quarantined(run);
    else
        go_on(r, run);
}

/* While many runs are ready no thread waits for a commit, and so none leads one. So the runner
 * commits when there is enough for a transaction, and when at_risk_ms are over. Otherwise thousands
 * of runs would wait for the last of them. */
static void commit_now_and_then(runner *r)
{
    sched *s = r->sched;
    int64_t now = s->host->mono_ns(s->host);
    if (r->taken++ == 0)
        r->drive_ns = clock_deadline(now, s->options.at_risk_ms);
    if (r->taken < TAKEN_MAX && now < r->drive_ns) /* RULE a-result-does-not-wait-for-its-commit */
        return;
    r->taken = 0;
    committers_drive(s->options.committers);
}

void runner_take(runner *r, pawl_run *run)
{
    running *list = r->sched->quarantine.running;
    /* RULE B8-a-run-in-hand-is-written-down */
    inflight_set(list, r->index, run->slot->cleared ? 0 : run->lease.run);
    take_in_hand(r, run);
    if (r->lost) /* given up: another thread may have its entry in the in-flight list */
        return;
    inflight_set(list, r->index, 0);
    commit_now_and_then(r);
}
