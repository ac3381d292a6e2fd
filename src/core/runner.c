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

#include "base/json_write.h"
#include "base/text.h"
#include "core/attributes.h"
#include "core/crowd.h"
#include "core/drive.h"
#include "core/running.h"

enum { PAGE_ROWS = 256, AGAIN_MS = 1000 };

static const db_sql PAGE = {"SELECT seq, kind, op, name, at, data FROM {journal}"
                            " WHERE run = $1 AND generation = $2 AND seq > $3"
                            " ORDER BY seq LIMIT $4",
                            "iiii"};

/* ---- Handing in ---- */

/* Called by whoever leads the committer: the run goes back to its own thread. */
static void answered(unit *u, void *arg)
{
    pawl_run *run = arg;
    drive *d = run->drive;
    if (u->answer != UNIT_UNDECIDED) {
        drive_answered(d, run);
        return;
    }
    pthread_mutex_lock(&d->lock);
    run->where = RUN_IN_DOUBT;
    pthread_mutex_unlock(&d->lock);
}

static void hand_in(pawl_run *run)
{
    drive *d = run->drive;
    unit *u = run->unit;
    u->submitter = &run->submitter;
    u->class = UNIT_OF_RUN;
    u->done = answered;
    u->done_arg = run;
    run_write_said(run);
    unit_guards_first(u); /* there is one at most */
    run->parked = run->parked < 0 ? -1 : 0;
    if (run->page && replay_left(run->replay) == 0) { /* it may wait for long */
        arena_free(run->page);
        run->page = NULL;
    }
    run->handed_in = 1;
    crowd_pass(d, run);
    run->where = RUN_COMMITS;
    committer_submit(committers_of(d->options.committers, (uint64_t)run->hold.run), u);
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
    run->marks = run->leaves = 0;
    if (lost)
        forget(run);
    else
        put_off(run, 1);
}

/* ---- The journal ---- */

static pawl_code read_page(runner *r, pawl_run *run, replay_row *rows, size_t *count, error *err)
{
    db_stmt *s;
    db_value values[] = {db_int(run->hold.run), db_int(run->generation), db_int(run->fed),
                         db_int(PAGE_ROWS)};
    pawl_code rc = db_prepare(r->reader, &PAGE, &s, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(s, values, DB_COUNT(values), err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && *count < PAGE_ROWS && (step = db_next(s, err)) == DB_ROW) {
        db_value name = db_column(s, 3), data = db_column(s, 5);
        replay_row *row = &rows[(*count)++];
        *row = (replay_row){.seq = db_column(s, 0).i,
                            .generation = run->generation,
                            .kind = db_column(s, 1).i,
                            .op = db_column(s, 2).i,
                            .at_ms = db_column(s, 4).i};
        row->name = (slice){arena_copy(run->page, name.s), name.s.size};
        if (data.type != DB_NULL)
            row->data = (slice){arena_copy(run->page, data.s), data.s.size};
        if (!row->name.at || (data.type != DB_NULL && !row->data.at))
            rc = error_set(err, PAWL_NOMEM, "out of memory");
    }
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(s);
    return rc;
}

static pawl_code begin_reading(runner *r, error *err)
{
    pawl_code rc = PAWL_OK;
    if (!r->reader)
        rc = db_connect(r->drive->options.db, DB_READER, &r->reader, err);
    return rc == PAWL_OK ? db_begin(r->reader, err) : rc;
}

static pawl_code read_rows(runner *r, pawl_run *run, replay_row *rows, size_t *count, error *err)
{
    pawl_code rc = begin_reading(r, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_page(r, run, rows, count, err);
    db_rollback(r->reader);
    return rc;
}

/* As many as there are, and not as many as there might be: most runs are short. */
static pawl_code give_rows(pawl_run *run, const replay_row *rows, size_t count, error *err)
{
    replay_row *copy = arena_alloc(run->page, count * sizeof *copy);
    if (!copy)
        return error_set(err, PAWL_NOMEM, "out of memory");
    memcpy(copy, rows, count * sizeof *copy);
    replay_feed(run->replay, copy, count);
    return PAWL_OK;
}

/* Feed the next rows. A small input is in the run's row: then the journal has no first row, and one
 * is made up for it. */
static pawl_code feed(runner *r, pawl_run *run, error *err)
{
    replay_row rows[PAGE_ROWS + 1];
    size_t first = 0, count = 0;
    if (!run->page)
        run->page = arena_new(0);
    else
        arena_reset(run->page);
    if (!run->page)
        return error_set(err, PAWL_NOMEM, "out of memory");
    if (run->fed == 0 && run->input) {
        rows[first++] = (replay_row){.seq = 1,
                                     .generation = run->generation,
                                     .kind = OP_STARTED,
                                     .name = SLICE_LIT(""),
                                     .data = slice_of(run->input)};
        run->fed = 1;
    }
    pawl_code rc = run->fresh ? PAWL_OK : read_rows(r, run, rows + first, &count, err);
    if (rc != PAWL_OK)
        return rc;
    if (count > 0)
        run->fed = rows[first + count - 1].seq;
    if (first + count > 0)
        rc = give_rows(run, rows, first + count, err);
    if (rc != PAWL_OK)
        return rc;
    if (count < PAGE_ROWS) {
        run->fed_all = 1;
        replay_fed_all(run->replay, 0);
    }
    run->fresh = 0;
    return PAWL_OK;
}

/* ---- Its attributes ---- */

/* What it has set before is committed, or is being set by this very function. */
static pawl_code read_names(runner *r, pawl_run *run, error *err)
{
    db_stmt *s;
    const db_value key = db_int(run->hold.run);
    pawl_code rc = begin_reading(r, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_prepare(r->reader, &ATTRIBUTE_NAMES, &s, err);
    if (rc == PAWL_OK)
        rc = db_bind_all(s, &key, 1, err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && (step = db_next(s, err)) == DB_ROW)
        run_add_name(run, db_column(s, 0).s);
    if (step == DB_FAILED)
        rc = err->code;
    if (rc == PAWL_OK)
        db_reset(s);
    db_rollback(r->reader);
    run->names_known = rc == PAWL_OK;
    if (rc != PAWL_OK)
        run->names = NULL;
    return rc;
}

/* ---- The end of a turn ---- */

static void put_json(buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    value_write(b, format, args);
    va_end(args);
}

/* {"name":…,"message":…,"where":…}, short enough for the run's row. */
static slice error_text(pawl_run *run)
{
    buf b;
    buf_init(&b, PAWL_MAX_PAYLOAD);
    char message[512];
    text_clip(message, sizeof message, slice_of(run->end.message));
    put_json(&b, "{'name':%s,'message':%s,'where':%s}", run->end.name, message, run->end.where);
    slice s = {arena_copy(run->paper, (slice){b.at, b.size}), b.size};
    buf_free(&b);
    return s;
}

static int add_end(pawl_run *run)
{
    run_end end = {.status = run->end.status};
    if (end.status == RUN_DONE) {
        slice value = slice_of(run->end.value);
        if (value.size <= RUN_SMALL) {
            end.output = (slice){arena_copy(run->paper, value), value.size};
            if (!end.output.at)
                return 0;
        }
    } else {
        end.error = error_text(run);
        if (!end.error.at)
            return 0;
    }
    run->parked = run_finish(run->unit, &run->hold, &end, &run->said, drive_now_ms(run->drive));
    run->said_rides = 1;
    return 1;
}

/* Why it is held, for people and for those who let it go on. */
static int add_hold(pawl_run *run)
{
    drive *d = run->drive;
    run_held why = {.reason = run->end.held ? run->end.held : HELD_MISMATCH};
    slice note = slice_of(run->end.note);
    why.words = (slice){arena_copy(run->paper, note), note.size};
    if (why.reason == HELD_VERSION) {
        slice lacks = slice_of(run->end.lacks);
        why.what = (slice){arena_copy(run->paper, lacks), lacks.size};
    } else {
        why.what = hold_tried(run->paper, run->held_for, d->options.build);
    }
    if (!why.words.at || !why.what.at)
        return 0;
    LOG(&d->log, LOG_WARNING, "run-held", LOG_TEXT("run", run->id), LOG_TEXT("why", why.words.at));
    run_set_held(run->unit, &run->hold, &why, drive_now_ms(d));
    return 1;
}

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
        added = add_end(run);
    } else { /* the rest of this turn is forgotten: the next build may see it otherwise */
        unit_cut(run->unit, run->kept);
        run->lines = NULL;
        run_forget_said(run);
        added = add_hold(run);
    }
    if (!added || run->unit->broken_build)
        later(run);
    else
        hand_in(run);
}

/* Everything it has recorded, and until when it sleeps. */
static void park(pawl_run *run)
{
    if (!need_unit(run)) {
        later(run);
        return;
    }
    run->parked = run_park(run->unit, &run->hold, run->mail, run->until_ms, &run->said,
                           drive_now_ms(run->drive));
    run->said_rides = 1;
    if (run->unit->broken_build)
        later(run);
    else
        hand_in(run);
}

/* ---- In hand ---- */

/* Where others may have taken over, no work function is called any more. */
static int claim_is_good(drive *d)
{
    if (atomic_load(&d->fenced))
        return 0;
    return d->node.file || drive_now_ms(d) < d->node.beat_ms + d->node.claim_ms;
}

/* 0: the attempt ran out of time, and the run is in other hands: nothing of it may be touched. */
static int call_work(runner *r, pawl_run *run)
{
    drive *d = r->drive;
    pawl_work *w = run->work;
    run->misused = 0;
    drive_enter_work(r, run);
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
    if (!claim_is_good(r->drive)) {
        later(run);
        return 0;
    }
    if (!crowd_enter(r->drive, run))
        return 0;
    return call_work(r, run);
}

static void go_on(runner *r, pawl_run *run)
{
    drive *d = r->drive;
    error err;
    for (;;) {
        switch (run->want) {
        case WANT_PAGE:
            if (feed(r, run, &err) != PAWL_OK) {
                put_off(run, err.code != PAWL_NOMEM);
                return;
            }
            break;
        case WANT_NAMES:
            if (read_names(r, run, &err) != PAWL_OK) {
                if (run->unit) /* what was done outside need not be done again for that */
                    hand_in(run);
                else
                    put_off(run, 1);
                return;
            }
            break;
        case WANT_WORK:
            if (atomic_load(&run->rests)) {
                give_back(run);
                return;
            }
            if (run->unit) {
                hand_in(run);
                return;
            }
            if (!do_work(r, run))
                return;
            break;
        case WANT_WAIT:
            if (run->until_ms > drive_now_ms(d)) {
                park(run);
                return;
            }
            break;
        case WANT_END:
            end_turn(run);
            return;
        }
        fiber_resume(run->fiber);
        drive_end_child(d);
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
    run->kept = 0;
    arena_reset(run->paper);
}

/* Its unit is committed. 1: there is more to do now. */
static int committed(pawl_run *run)
{
    drive *d = run->drive;
    run_tell_lines(run);
    run->trouble_ms = 0;
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
    if (run->want == WANT_END) {
        const unit_row *row =
            run->end.status != RUN_LIVE ? unit_rows(run->unit, run->parked) : NULL;
        if (row && row->values[FINISH_WATCHED].i)
            wake_tell(d);
        forget(run);
        return 0;
    }
    run->parked = -1;
    take_back(run);
    int waits = run->want == WANT_WAIT && run->until_ms > drive_now_ms(d);
    int drops = d->options.drops && d->options.drops(d->options.drops_arg);
    if (drops || (waits && fiber_pool_live(d->pool) > d->warm_max))
        run_cool(run);
    if (!waits)
        return 1;
    pthread_mutex_lock(&d->lock);
    drive_sleep(d, run, run->until_ms);
    pthread_mutex_unlock(&d->lock);
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

void runner_take(runner *r, pawl_run *run)
{
    running *list = r->drive->suspects.running;
    running_set(list, r->index, run->hold.run);
    take_in_hand(r, run);
    if (!r->lost) /* then nobody has the list any more */
        running_set(list, r->index, 0);
}
