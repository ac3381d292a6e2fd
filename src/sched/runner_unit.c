/* The unit of a run on its way: handing in what the run has recorded, and what becomes of the run
 * when that was not committed. runner.c decides when; unit_retry.h says which units are handed in
 * again.
 *
 * A function that submits the unit, drops the run or puts it off gives the run away: another thread
 * may have it, or it may be freed, and the caller must not touch it. The run is still the caller's
 * after runner_need_unit(), runner_cut(), runner_has_unrecorded() and runner_starve_inside(), and
 * where runner_hand_in() gives 1. */
#include <assert.h>
#include <string.h>

#include "run/cross_run.h"
#include "run/jobs.h"
#include "run/state.h"
#include "run/transact.h"
#include "sched/orphan_notes.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"
#include "sched/work_limit.h"

enum {
    AGAIN_MS = 1000,
    STARVED_MS = 60000, /* the longest pause before the next try of a run that got no memory */
    STARVED_MAX = 10,   /* after so many of these tries in a row the run is held */
};

/* ---- Handing in ---- */

/* The `done` of the run's unit, called by the leader of the group commit: with the final answer the
 * run goes back to its runner. */
static void take_answer(unit *u, void *arg)
{
    pawl_run *run = arg;
    sched *s = run->host->sched;
    at_risk_answered(run);
    if (runner_transact_answered(run, u))
        return;
    if (u->answer != UNIT_UNDECIDED) { /* RULE A5-an-undecided-unit-keeps-its-run */
        if (run->slot->place == PLACE_IN_DOUBT)
            atomic_fetch_sub(&s->doubts, 1);
        run_queue_answered(s, run);
        return;
    }
    sched_lock(s);
    run_move(run, PLACE_IN_DOUBT);
    sched_unlock(s);
    atomic_fetch_add(&s->doubts, 1);
}

/* The unit waits for a row lock of a foreign transaction, perhaps for long. If it has failed
 * before, the storage works by now: others need not wait for this unit. */
static void set_aside(unit *u, void *arg)
{
    (void)u;
    at_risk_answered(arg);    /* RULE L4-a-locked-row-does-not-fill-the-bound-of-work-at-risk */
    unit_retry_count(arg, 0); /* RULE L4-a-record-that-waits-for-a-lock-is-no-storage-trouble */
}

/* Submits the unit of the run to its committer; or, for a transactional step, applies it here. 0:
 * the caller must not touch the run any more, which is submitted, or was put off since memory is
 * out. 1: the transactional step has failed, and the caller still has the run in hand, to go on
 * with its function. */
int runner_hand_in(pawl_run *run)
{
    sched *s = run->host->sched;
    unit *u = run->draft.unit;
    assert(run->slot->place == PLACE_IN_HAND && run->lease.owner != 0 && run->lease.fence > 0);
    assert(u->arena == run->draft.arena);
    u->submitter = &run->draft.submitter;
    u->class = UNIT_OF_RUN;
    u->done = take_answer;
    u->done_arg = run;
    u->waits = set_aside;
    u->name = run->id;
    run_write_status(run); /* RULE 1-what-is-said-goes-with-the-flush */
    if (run->slot->noted && !run->slot->starves)
        run_set_trouble(u, &run->lease, (slice){0}, sched_now_ms(s));
    if (u->broken_build) { /* the status does not fit; everything recorded before it is whole */
        if (run->slot->starves)
            runner_starved(run);
        else
            runner_starve(run, "what the run says about itself");
        return 0;
    }
    unit_guards_first(u); /* the unit has one guard at most, so no two change places */
    if (run->journal.page && replay_left(run->journal.replay) == 0) {
        arena_free(run->journal.page); /* all of it was replayed, and the run may wait for long */
        run->journal.page = NULL;
    }
    run->draft.handed_in = 1;
    at_risk_hand_in(run);
    work_limit_pass(s, run);
    run_move(run, PLACE_COMMITS);
    if (transact_goes(run))
        return runner_transact(&s->runners[run->slot->runner], run);
    committer_submit(committers_of(s->options.committers, (uint64_t)run->lease.run), u);
    return 0;
}

int runner_need_unit(pawl_run *run)
{
    if (!run->draft.unit)
        run->draft.unit = unit_new(run->draft.arena);
    return run->draft.unit != NULL;
}

/* ---- Dropping ---- */

/* Drops the run from memory, for whatever reason: it has ended, was given back, or is another
 * node's. */
void runner_forget(pawl_run *run)
{
    sched *s = run->host->sched;
    runner_was_unread(run);
    sched_lock(s);
    run_queue_forget(s, run);
    sched_unlock(s);
    run_free(run);
}

/* It is not known whether the unit that ended the function of the run is durable. If it is, the run
 * may still be this node's, and in its next generation, which the journal in this process does not
 * fit. The run leaves memory, and comes back as its row has it. */
static void read_anew(pawl_run *run)
{
    sched *s = run->host->sched;
    runner_was_unread(run);
    sched_lock(s);
    dormant_read_anew(s, run);
    sched_unlock(s);
    run_free(run);
}

/* The run stays with this node, and is tried again from the journal: `ms` later, or (below 0) when
 * the storage works again. */
static void put_off(pawl_run *run, int64_t ms)
{
    sched *s = run->host->sched;
    run_cool(run);
    run->draft.handed_in = run->slot->starves = 0;
    work_limit_pass(s, run);
    at_risk_leave_jobs(run);
    sched_lock(s);
    quarantine_put_back(s, run);
    run->slot->put_off = 1;
    if (ms < 0)
        storage_backoff(s, run);
    else
        run_queue_sleep(s, run, sched_now_ms(s) + ms);
    sched_unlock(s);
}

void runner_put_off_for(pawl_run *run, int storage)
{
    put_off(run, storage ? -1 : AGAIN_MS);
}

void runner_put_off(pawl_run *run)
{
    put_off(run, AGAIN_MS);
}

/* ---- Turns that come to nothing ---- */

static void tell_lost(const pawl_run *run, pawl_code code, const char *why)
{
    LOG(&run->host->sched->log, LOG_WARNING, "turn-lost", LOG_TEXT("run", run->id),
        LOG_TEXT("code", pawl_code_name(code)), LOG_TEXT("why", why));
}

/* Did the unit ask for the row of the run, to see why its guard has refused? Units of a second try
 * (run_try_again()), and those with which a generation ends, do not ask. */
static int has_asked(const pawl_run *run, const unit *u)
{
    int asks = 0;
    for (const unit_stmt *s = u->first; s; s = s->next)
        asks |= s->kind == UNIT_FOUND;
    return asks && !(run->slot->guarded && u == run->draft.unit);
}

static const char *why_refused(const pawl_run *run, const unit *u)
{
    pawl_code rc = unit_shut_out(u, u->code);
    if (rc == PAWL_FENCED)
        return "this node was closed by another one";
    if (rc == PAWL_REWOUND)
        return "the database is in an earlier state";
    if (!u->found) /* RULE L6-a-turn-that-is-lost-says-why */
        return has_asked(run, u) ? "the run was deleted"
                                 : "another node has the run, or it was deleted";
    int64_t owner = u->found->values[0].i, phase = u->found->values[2].i;
    if (phase != PHASE_LIVE && phase != PHASE_FAILING)
        return "the run has ended on another node";
    return owner == run->lease.owner ? "the run was claimed anew"
           : owner != 0              ? "another node has the run"
                                     : "the run was taken from this node";
}

/* Returns in words why the unit was not committed. The run goes on from what its journal has. */
static const char *why_failed(const unit *u)
{
    switch (u->code) {
    case PAWL_UNDECIDED:
        return "it is not known whether the unit is durable";
    case PAWL_CLOSED:
        return "the node ends";
    case PAWL_FENCED:
        return "this node was closed by another one";
    case PAWL_REWOUND:
        return "the database is in an earlier state";
    default:
        return pawl_code_text(u->code);
    }
}

void runner_was_undone(pawl_run *run)
{
    if (run->slot->undone)
        LOG(&run->host->sched->log, LOG_INFO, "turn-undone-ended", LOG_TEXT("run", run->id));
    run->slot->undone = 0;
}

void runner_tell_lost(const pawl_run *run, const unit *u)
{
    tell_lost(run, u ? u->code : PAWL_REFUSED,
              u ? why_refused(run, u) : "the run was deleted, or another node has it");
}

void runner_lost(pawl_run *run, const unit *u)
{
    sched *s = run->host->sched;
    pawl_code code = u ? u->code : PAWL_REFUSED, why = u ? unit_shut_out(u, code) : code;
    runner_tell_lost(run, u);
    if (why != code && !atomic_exchange(&s->fenced, 1))
        sched_call(s);
    cross_run_committed(run, 0);
    if (why != PAWL_REWOUND)
        /* RULE what-a-deleted-run-leaves-is-noted */
        orphan_notes_add(s, run->lease.run); /* the run may have been deleted */
    runner_forget(run);
}

/* Another node has the run by now; or its unit is handed in again (unit_retry.h); or, where that
 * cannot be, the run is read anew from the journal. */
void runner_not_committed(pawl_run *run)
{
    const unit *u = run->draft.unit;
    /* RULE L5-what-was-done-is-kept-over-a-failed-commit, L5-the-same-over-sessions-that-end */
    /* RULE L5-the-simulator-sees-what-failing-storage-loses */
    if (unit_retry_may(run)) {
        at_risk_leave_jobs(run);
        unit_retry_unit(run); /* RULE 6-storage-that-fails-does-not-fail-the-run */
        return;
    }
    if (u->answer == UNIT_REFUSED && strcmp(u->refused, "prefix") != 0) {
        runner_lost(run, u);
        return;
    }
    if (run->slot->marks || transact_goes(run))
        unit_retry_tell_undone(run, u->code, u->message ? u->message : pawl_code_text(u->code));
    else
        tell_lost(run, u->code, why_failed(u));
    cross_run_committed(run, 0);
    run->slot->marks = run->slot->is_returning = 0;
    /* RULE A5-a-generation-that-has-begun-is-gone-on-with */
    int may_have_begun = u->code == PAWL_UNDECIDED && run->code.want == WANT_END;
    if (may_have_begun)
        read_anew(run);
    else
        runner_put_off_for(run, 1);
}

/* ---- No memory ---- */

void runner_cut(pawl_run *run)
{
    if (run->draft.unit) {
        /* RULE 6-what-was-done-before-a-hold-stays-done */
        /* RULE 6-what-was-only-said-before-a-hold-is-forgotten */
        unit_cut(run->draft.unit, run->draft.kept);
        run->draft.unit->broken_build = 0; /* what was not cut off is whole */
    }
    cross_run_cut(run, run->draft.kept);
    run->draft.lines = NULL;
    run->draft.turn_end_stmt = -1;
    run->slot->is_returning = 0;
    run_forget_status(run);
    state_cut(run);
}

void runner_starved(pawl_run *run)
{
    int64_t ms = AGAIN_MS;
    for (int i = 1; i < run->slot->starved && ms < STARVED_MS; i++)
        ms *= 2; /* RULE L7-pauses-for-memory-grow */
    put_off(run, ms < STARVED_MS ? ms : STARVED_MS);
}

int runner_has_unrecorded(pawl_run *run)
{
    sched *s = run->host->sched;
    if (run->attempt.is_called || run->attempt.saved || run->jobs.in_hand.first)
        return 1;
    sched_lock(s);
    int has = jobs_have_returned(run) || jobs_running(run) > 0;
    sched_unlock(s);
    return has;
}

/* The run was tried often enough, and is to be held: another build may need less memory, or an
 * operator may provide more. */
static void end_held(pawl_run *run, const char *what)
{
    char words[sizeof run->code.end.note];
    buf b;
    buf_init_fixed(&b, words, sizeof words);
    buf_printf(&b, "out of memory, %d times in a row: %s", run->slot->starved, what);
    run->code.end = (run_result){.phase = PHASE_LIVE, .trouble = PAWL_HELD};
    memcpy(run->code.end.note, words, sizeof words);
    run->code.want = WANT_END;
    run->slot->noted = 0; /* the words of the hold tell of the trouble */
}

/* Jobs return before the run is held, and the fiber records their results. A node that leaves has
 * the fiber record them at once, and holds nothing. */
int runner_starve_inside(pawl_run *run)
{
    int starves = run->code.end.phase == PHASE_LIVE && run->code.end.trouble == PAWL_NOMEM;
    int further = run->draft.unit && run->draft.kept > 0, leaves = host_is_leaving(run->host);
    /* RULE L7-a-run-that-never-gets-memory-is-held */
    int gives_up = starves && !further && run->slot->starved + 1 >= STARVED_MAX;
    /* RULE L7-a-node-that-leaves-holds-nothing-for-memory */
    gives_up = gives_up && !leaves;
    /* RULE L5-what-has-returned-is-recorded-though-the-function-starves */
    int collects = leaves && starves && jobs_returned(run);
    if (!collects && !gives_up)
        return 0;
    if (run->attempt.is_called || run->attempt.saved || run->jobs.in_hand.first ||
        !jobs_may_be_taken_in(run))
        return 0;
    if (gives_up) {
        run->slot->starved++;
        end_held(run, run->code.end.note);
    }
    run->code.collects = collects;
    return collects;
}

/* Adds the hold to the unit. 0: there is not even the memory for that. */
static int hold_starved(pawl_run *run, const char *what)
{
    end_held(run, what);
    return runner_need_unit(run) && runner_add_hold(run) && !run->draft.unit->broken_build;
}

/* Tells of the trouble in {runs}.trouble. 0: there is not even the memory for that. */
static int note_starved(pawl_run *run, const char *what)
{
    char words[256];
    buf b;
    buf_init_fixed(&b, words, sizeof words);
    buf_printf(&b, "out of memory: %s; node %lld tries again, ", what, (long long)run->lease.owner);
    if (run->slot->starved < STARVED_MAX)
        buf_printf(&b, "try %d of %d", run->slot->starved, STARVED_MAX);
    else
        buf_text(&b, "for results of this run are in its memory only");
    slice text = slice_of(buf_str(&b));
    text.at = runner_need_unit(run) ? arena_copy(run->draft.arena, text) : NULL;
    if (!text.at)
        return 0;
    run_set_trouble(run->draft.unit, &run->lease, text, sched_now_ms(run->host->sched));
    return !run->draft.unit->broken_build;
}

/* Counts how often in a row memory was out. A run that got further begins to count anew. */
static void count_starved(pawl_run *run, const char *what)
{
    /* RULE L5-what-was-done-is-committed-although-memory-is-out */
    int further = run->draft.unit && run->draft.unit->count > 0;
    run->slot->starved = further ? 1 : run->slot->starved + 1;
    if (run->slot->starved == 1)
        LOG(&run->host->sched->log, LOG_WARNING, "memory-out", LOG_TEXT("run", run->id),
            LOG_TEXT("why", what));
}

/* What the run has done is committed first, with words about the trouble or a hold; then the run is
 * put off. If there is no memory for the words, only what the run has done is committed. A node
 * that leaves tries every few ms (drain.c), which says nothing about the memory: it neither tells
 * nor holds. */
void runner_starve(pawl_run *run, const char *what)
{
    int again = run->slot->starves, leaves = host_is_leaving(run->host), added = 0;
    runner_cut(run);
    if (!again)
        count_starved(run, what);
    run->slot->starves = 1;
    /* RULE L7-a-run-that-never-gets-memory-is-held */
    int gives_up = !again && run->slot->starved >= STARVED_MAX;
    /* RULE L7-a-node-that-leaves-holds-nothing-for-memory */
    gives_up = gives_up && !leaves;
    /* RULE L5-results-are-not-lost-for-lack-of-memory */
    if (gives_up && !runner_has_unrecorded(run)) {
        run->slot->starves = 0;
        added = hold_starved(run, what);
    } else if (!again && !leaves) {
        added = note_starved(run, what);
    }
    if (!added) {
        run->slot->starves = 1;
        runner_cut(run);
    }
    if (run->draft.unit && run->draft.unit->count > 0)
        runner_hand_in(run);
    else
        runner_starved(run);
}

/* There is no memory for a stack, or for what a function needs before it begins. So there is
 * nothing to commit but words about the trouble, for which less memory is enough. */
void runner_starve_cold(pawl_run *run)
{
    const char *what = "a stack for its function";
    run->draft.submitter = (submitter){0};
    run->draft.arena = arena_new(0);
    if (run->draft.arena) { /* RULE L7-a-run-that-never-gets-a-stack-is-held */
        runner_starve(run, what);
        return;
    }
    count_starved(run, what);
    runner_starved(run);
}
