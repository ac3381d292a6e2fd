/* One run in hand: resume it, do what it wants, hand in what it has recorded.
 *
 * A unit that is on its way has the run's rows, and at the end of a turn what becomes of the run:
 * it parks, ends, or is held. When the answer is there the run comes back into its runner's list,
 * and the runner looks at it here: only the run's own thread calls code of the user, defers
 * included.
 *
 * A unit that was not committed takes the fiber with it: what the function believes is not in the
 * journal. A lost claim ends the run here; a storage error lets it be tried again, from the
 * journal. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "core/client.h"
#include "core/crowd.h"
#include "core/drive.h"
#include "core/ending.h"
#include "core/jobs.h"
#include "core/others.h"
#include "core/running.h"
#include "core/state.h"
#include "core/transact.h"

enum { AGAIN_MS = 1000, LOOK_AGAIN_MS = 60000, TAKEN_MAX = 1024 };

/* ---- Handing in ---- */

/* Called by whoever leads the committer: the run goes back to its own thread. */
static void answered(unit *u, void *arg)
{
    pawl_run *run = arg;
    drive *d = run->drive;
    if (transact_answered(run, u))
        return;
    if (u->answer != UNIT_UNDECIDED) {
        drive_answered(d, run);
        return;
    }
    pthread_mutex_lock(&d->lock);
    run->where = RUN_IN_DOUBT;
    pthread_mutex_unlock(&d->lock);
}

/* 1: it is in hand again already, as only a transactional step can be that has failed. */
static int hand_in(pawl_run *run)
{
    drive *d = run->drive;
    unit *u = run->unit;
    u->submitter = &run->submitter;
    u->class = UNIT_OF_RUN;
    u->done = answered;
    u->done_arg = run;
    run_write_said(run);
    unit_guards_first(u);                             /* there is one at most */
    if (run->page && replay_left(run->replay) == 0) { /* it may wait for long */
        arena_free(run->page);
        run->page = NULL;
    }
    run->handed_in = 1;
    crowd_pass(d, run);
    run->where = RUN_COMMITS;
    if (run->want == WANT_TRANSACT && run->transact.state == TRANSACT_GOES)
        return transact_apply(&d->runners[run->runner], run);
    committer_submit(committers_of(d->options.committers, (uint64_t)run->hold.run), u);
    return 0;
}

static int need_unit(pawl_run *run)
{
    if (!run->unit)
        run->unit = unit_new(run->paper);
    return run->unit != NULL;
}

/* ---- Dropping ---- */

/* It is not ours any more, or has ended. */
static void forget(pawl_run *run)
{
    drive *d = run->drive;
    pthread_mutex_lock(&d->lock);
    drive_forget(d, run);
    pthread_mutex_unlock(&d->lock);
    run_free(run);
}

/* It is still ours; it is tried again from the journal a little later, or, if it is the storage
 * that fails, when that is there again. */
static void put_off(pawl_run *run, int storage)
{
    drive *d = run->drive;
    run_cool(run);
    run->handed_in = 0;
    crowd_pass(d, run);
    pthread_mutex_lock(&d->lock);
    suspect_put_back(d, run);
    run->put_off = 1;
    if (storage)
        drive_trouble(d, run);
    else
        drive_sleep(d, run, drive_now_ms(d) + AGAIN_MS);
    pthread_mutex_unlock(&d->lock);
}

static void later(pawl_run *run)
{
    put_off(run, 0);
}

/* Everything it has recorded, and it is nobody's: somebody has held it. */
static void give_back(pawl_run *run)
{
    if (need_unit(run))
        run_give_back(run->unit, &run->hold, drive_now_ms(run->drive));
    if (!run->unit || run->unit->broken_build) {
        later(run);
        return;
    }
    run->leaves = 1;
    hand_in(run);
}

static void not_committed(pawl_run *run)
{
    drive *d = run->drive;
    const unit *u = run->unit;
    int lost = u->answer == UNIT_REFUSED && strcmp(u->refused, "prefix") != 0;
    LOG(&d->log, LOG_WARNING, "turn-lost", LOG_TEXT("run", run->id),
        LOG_TEXT("code", pawl_code_name(u->code)));
    if (lost && strcmp(u->refused, "node") == 0 && !atomic_exchange(&d->fenced, 1))
        drive_call(d, 'k');
    others_committed(run, 0);
    run->marks = run->leaves = 0;
    if (lost)
        forget(run);
    else
        put_off(run, 1);
}

/* ---- The end of a turn ---- */

/* The function is over: it has ended, or was left because of trouble that is not its fault. */
static void end_turn(pawl_run *run)
{
    pawl_code trouble = run->end.status == RUN_LIVE ? run->end.trouble : PAWL_OK;
    if (trouble == PAWL_NOMEM || !need_unit(run)) {
        later(run);
        return;
    }
    int added = 1;
    if (trouble == PAWL_OK) {
        added = runner_add_outcome(run);
    } else { /* the rest of this turn is forgotten: the next build may see it otherwise */
        unit_cut(run->unit, run->kept);
        others_cut(run, run->kept);
        run->lines = NULL;
        run_forget_said(run);
        state_cut(run);
        added = runner_add_hold(run);
    }
    if (!added || run->unit->broken_build)
        later(run);
    else
        hand_in(run);
}

/* When it is due for whoever comes next, if this process dies. Work that is done beside the
 * function is known here only; and whether a child was made is known when that is committed. */
static int64_t wake_of(const pawl_run *run, int64_t now)
{
    if (run->jobs.count > 0 || run->jobs_new_count > 0)
        return now;
    if (run->sent && run->until_ms > now + LOOK_AGAIN_MS)
        return now + LOOK_AGAIN_MS;
    return run->until_ms;
}

/* Everything it has recorded, and until when it sleeps. */
static void park(pawl_run *run)
{
    if (!need_unit(run)) {
        later(run);
        return;
    }
    int64_t now = drive_now_ms(run->drive);
    run->parked = run_park(run->unit, &run->hold, atomic_load(&run->looked), wake_of(run, now),
                           &run->said, now);
    run->said_rides = 1;
    if (run->unit->broken_build)
        later(run);
    else
        hand_in(run);
}

/* ---- In hand ---- */

int drive_claim_is_good(drive *d)
{
    if (atomic_load(&d->fenced))
        return 0;
    return d->node.file || drive_now_ms(d) < d->node.beat_ms + d->node.claim_ms;
}

/* Who stops does not begin with anything. */
static int may_begin(drive *d)
{
    return drive_claim_is_good(d) && !atomic_load(&d->stopping);
}

/* 0: the attempt ran out of time, and the run is in other hands: nothing of it may be touched. */
static int call_work(runner *r, pawl_run *run)
{
    drive *d = r->drive;
    pawl_work *w = run->work;
    run->misused = 0;
    drive_enter_work(r, w);
    work_call(w);
    drive_end_child(d);
    int in_hand = drive_leave_work(r, w);
    crowd_leave(d, w->entry);
    if (!in_hand) {
        work_free(w);
        return 0;
    }
    if (work_is_over(w))
        work_expire(w);
    if (run->misused)
        work_misused(w);
    return 1;
}

/* Everything before is durable. 0: the run is not in hand any more. */
static int do_work(runner *r, pawl_run *run)
{
    pawl_work *w = run->work;
    if (run->expired_op == w->op && run->expired == w->attempt) {
        run->expired_op = run->expired = 0;
        work_expire(w);
        return 1;
    }
    /* A queued unit never waits for code of the user. By hand it is committed here, which may take
     * long: so the claim is looked at afterwards. */
    committers_leave(r->drive->options.committers);
    if (!may_begin(r->drive)) {
        later(run);
        return 0;
    }
    if (!crowd_enter(r->drive, run))
        return 0;
    return call_work(r, run);
}

/* The same inside a transaction, with what the run has recorded. 0: it is not in hand any more;
 * when it comes back it is committed. */
static int do_transact(runner *r, pawl_run *run)
{
    if (!transact_rides(run))
        return hand_in(run);
    if (!run->unit)
        jobs_queue(run);
    committers_leave(r->drive->options.committers);
    if (!may_begin(r->drive) || !transact_build(run)) {
        later(run);
        return 0;
    }
    return hand_in(run);
}

static void nudge(pawl_run *run)
{
    pthread_mutex_lock(&run->drive->lock);
    run->nudged = 1;
    pthread_mutex_unlock(&run->drive->lock);
}

/* Something has come since it looked last. */
static int is_nudged(pawl_run *run)
{
    drive *d = run->drive;
    pthread_mutex_lock(&d->lock);
    int nudged = run->nudged;
    run->nudged = 0;
    pthread_mutex_unlock(&d->lock);
    return nudged;
}

/* Everything that it has recorded is durable. 0: not yet. It is on its way, and perhaps in another
 * hand by now. */
static int is_flushed(pawl_run *run)
{
    if (!run->unit)
        return 1;
    hand_in(run);
    return 0;
}

static int may_work(pawl_run *run)
{
    if (!atomic_load(&run->rests))
        return is_flushed(run);
    give_back(run);
    return 0;
}

/* What was done outside need not be done again because something cannot be read. */
static int get(runner *r, pawl_run *run)
{
    error err;
    if (runner_read(r, run, &err) == PAWL_OK)
        return 1;
    if (is_flushed(run))
        put_off(run, err.code != PAWL_NOMEM);
    return 0;
}

/* 1: it has what it wants. 0: it is not in hand any more. */
static int serve_want(runner *r, pawl_run *run)
{
    switch (run->want) {
    case WANT_PAGE:
    case WANT_NAMES:
    case WANT_STATE:
    case WANT_MAIL:
    case WANT_KEY:
    case WANT_CHECK:
        return get(r, run);
    case WANT_WORK:
        if (!may_work(run))
            return 0;
        jobs_queue(run);
        return do_work(r, run);
    case WANT_TRANSACT:
        if (run->transact.state != TRANSACT_ASKED)
            return 1;
        if (!atomic_load(&run->rests))
            return do_transact(r, run);
        give_back(run);
        return 0;
    case WANT_FLUSH:
        return is_flushed(run);
    case WANT_WAIT:
        if (run->until_ms <= drive_now_ms(run->drive) || is_nudged(run))
            return 1;
        park(run);
        return 0;
    case WANT_END:
        end_turn(run);
        return 0;
    }
    return 0;
}

static void go_on(runner *r, pawl_run *run)
{
    while (serve_want(r, run)) {
        fiber_resume(run->fiber);
        drive_end_child(r->drive);
    }
}

/* It has parked, and was held before that: it is nobody's now. */
static int was_held(const pawl_run *run)
{
    const unit_row *row =
        run->want == WANT_WAIT && run->parked >= 0 ? unit_rows(run->unit, run->parked) : NULL;
    return row && row->values[PARK_HELD].i != 0;
}

/* That the unit was undecided for a while must not cost the next one: it begins anew. */
static void take_back(pawl_run *run)
{
    run->unit = NULL;
    run->handed_in = 0;
    run->submitter = (submitter){0};
    run_forget_said(run);
    state_forget(run);
    run->kept = 0;
    run->births = 0;
    arena_reset(run->paper);
}

/* What a unit that ends its function has made of it. 1: it goes on, from the journal. */
static int ended(pawl_run *run)
{
    drive *d = run->drive;
    const unit_row *row = run->end.status != RUN_LIVE ? unit_rows(run->unit, run->parked) : NULL;
    if (row && row->values[FINISH_WATCHED].i)
        wake_tell(d);
    int goes_on = run->end.status == RUN_FAILING;
    if (run->end.again && run->end.status == RUN_DONE)
        goes_on = run->end.next && ending_begun_again(run);
    if (run->end.again && !run->end.next) /* somebody else has that version */
        client_call_others(d);
    if (!goes_on) {
        forget(run);
        return 0;
    }
    if (run->end.status == RUN_FAILING) {
        run->failing = 1;
        jobs_let_return(run);
    } else {
        jobs_forget(run);
    }
    run_cool(run);
    run->handed_in = 0;
    run->parked = -1;
    return 1;
}

/* It waits: for a moment, or for something to arrive. */
static void fall_asleep(pawl_run *run)
{
    drive *d = run->drive;
    pthread_mutex_lock(&d->lock);
    if (run->nudged)
        drive_ready(d, run);
    else
        drive_sleep(d, run, run->until_ms);
    pthread_mutex_unlock(&d->lock);
}

/* Its unit is committed. 1: there is more to do now. */
static int committed(pawl_run *run)
{
    drive *d = run->drive;
    run_tell_lines(run);
    run->trouble_ms = 0;
    others_committed(run, 1);
    if (run->marks) {
        run->marks = 0;
        pthread_mutex_lock(&d->lock);
        run->marked = run->suspect; /* if not, its time is over already: the mark stays, once */
        pthread_mutex_unlock(&d->lock);
        take_back(run);
        return 1;
    }
    if (run->leaves || was_held(run)) {
        forget(run);
        return 0;
    }
    if (run->suspect) { /* it has got further, and the process lives */
        pthread_mutex_lock(&d->lock);
        suspect_acquit(d, run);
        pthread_mutex_unlock(&d->lock);
    }
    if (run->want == WANT_END)
        return ended(run);
    const unit_row *row =
        run->want == WANT_WAIT && run->parked >= 0 ? unit_rows(run->unit, run->parked) : NULL;
    if (row && row->values[PARK_MAIL].i > run->mail)
        run->mail = row->values[PARK_MAIL].i;
    int arrived =
        row && (row->values[PARK_MAIL].i > atomic_load(&run->looked) || run->futures.asking);
    run->parked = -1;
    take_back(run);
    jobs_queue(run);
    if (arrived)
        nudge(run);
    int waits = run->want == WANT_WAIT && run->until_ms > drive_now_ms(d) && !arrived;
    int drops = d->options.drops && d->options.drops(d->options.drops_arg);
    if (drops || (waits && fiber_pool_live(d->pool) > d->warm_max))
        run_cool(run);
    if (!waits)
        return 1;
    fall_asleep(run);
    return 0;
}

/* Process after process has died of it. */
static void hold_poison(pawl_run *run)
{
    run->end = (run_result){.status = RUN_LIVE, .trouble = PAWL_HELD, .held = HELD_POISON};
    buf b;
    buf_init_fixed(&b, run->end.note, sizeof run->end.note);
    buf_printf(&b, "%d times in a row the process died while it executed this run", POISON_DEATHS);
    run->want = WANT_END;
    end_turn(run);
}

/* Before a suspect is let out that is written down, since nobody could do it afterwards. */
static void mark(pawl_run *run)
{
    if (need_unit(run))
        run_mark(run->unit, &run->hold, 1);
    if (!run->unit || run->unit->broken_build) {
        later(run);
        return;
    }
    run->marks = 1;
    hand_in(run);
}

/* Can its fiber not go on here? It is another thread's, which is in a work function, or drove by
 * hand before; or it waits in a work function that was taken from it. */
static int is_stranded(const pawl_run *run)
{
    return run->fiber &&
           (!fiber_is_here(run->fiber) || (run->want == WANT_WORK && run->work == NULL));
}

static void take_in_hand(runner *r, pawl_run *run)
{
    run->put_off = 0;
    if (run->handed_in) {
        if (run->unit->answer != UNIT_COMMITTED) {
            not_committed(run);
            return;
        }
        if (!committed(run))
            return;
    }
    if (is_stranded(run)) /* then it is replayed here */
        run_cool(run);
    run->runner = r->index;
    if (!run->fiber && !run_warm(run, r->drive->pool)) {
        later(run);
        return;
    }
    if (suspect_is_poison(run->claims))
        hold_poison(run);
    else if (atomic_load(&run->rests))
        give_back(run);
    else if (suspect_needs_mark(r->drive, run))
        mark(run);
    else
        go_on(r, run);
}

/* While many runs are ready nobody here commits, and what they have recorded waits: so it is done
 * when there is enough for a transaction. Otherwise thousands would wait for the last of them. */
static void commit_now_and_then(runner *r)
{
    if (++r->taken < TAKEN_MAX)
        return;
    r->taken = 0;
    committers_drive(r->drive->options.committers);
}

void runner_take(runner *r, pawl_run *run)
{
    running *list = r->drive->suspects.running;
    running_set(list, r->index, run->hold.run);
    take_in_hand(r, run);
    if (r->lost) /* then nobody has the list any more */
        return;
    running_set(list, r->index, 0);
    commit_now_and_then(r);
}
