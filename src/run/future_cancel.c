/* Cancellation of futures that are not needed any more, such as the losers of pawl_any(). They are
 * listed, and cancelled together by one row before the next op, so that a loser among ten thousand
 * costs no row of its own. */
#include <inttypes.h>

#include "base/text.h"
#include "run/futures.h"

static const char CANCELLED[] = "{\"name\":\"cancelled\",\"message\":\"the future was cancelled\"}";

void future_cancel_add(pawl_future *f)
{
    run_futures *all = &f->run->futures;
    if (f->over || f->is_cancelled)
        return;
    f->is_cancelled = 1;
    if (f->kind) {
        f->next = all->cancelled;
        all->cancelled = f;
    } else {
        f->behind = all->cancelled_composites;
        all->cancelled_composites = f;
    }
}

void future_cancel_remove(const pawl_future *f)
{
    run_futures *all = &f->run->futures;
    pawl_future **at = f->kind ? &all->cancelled : &all->cancelled_composites;
    while (*at && *at != f)
        at = f->kind ? &(*at)->next : &(*at)->behind;
    if (*at)
        *at = f->kind ? f->next : f->behind;
}

/* A composite future is cancelled with all of its parts. */
static void cancel_parts(pawl_run *run)
{
    run_futures *all = &run->futures;
    while (all->cancelled_composites) {
        pawl_future *f = all->cancelled_composites;
        all->cancelled_composites = f->behind;
        if (f->over)
            continue;
        future_answer(f, PAWL_CANCELLED, CANCELLED);
        for (size_t i = 0; i < f->count; i++) {
            f->parts[i]->uses--;
            future_cancel_add(f->parts[i]);
        }
    }
}

/* Sets *count to the number of the futures in this list that have no answer. Returns their ops, as
 * a JSON array in the unit's memory; if there are none, the text is not JSON. */
static slice ops_of(pawl_run *run, const pawl_future *cancelled, size_t *count)
{
    buf ops;
    buf_init(&ops, PAWL_MAX_PAYLOAD);
    *count = 0;
    for (const pawl_future *f = cancelled; f; f = f->next)
        if (!f->over)
            buf_printf(&ops, "%s%" PRId64, (*count)++ ? "," : "[", f->op);
    buf_printf(&ops, "]");
    slice text = {arena_copy(run->draft.arena, (slice){ops.at, ops.size}), ops.size};
    int failed = ops.failed;
    buf_free(&ops);
    if (!text.at || failed)
        run_nomem(run);
    return text;
}

static void cancel_future(pawl_future *f, int live)
{
    if (f->over)
        return;
    replay_close(f->run->journal.replay, f->op); /* RULE A6-what-is-cancelled-takes-no-answer */
    if (f->kind->cancel)
        f->kind->cancel(f, live);
    future_answer(f, PAWL_CANCELLED, CANCELLED);
}

/* Takes futures that have an answer off the heads of both lists. Returns 1 if there is still a
 * future to be cancelled. */
static int has_cancelled(run_futures *all)
{
    while (all->cancelled && all->cancelled->over)
        all->cancelled = all->cancelled->next;
    while (all->cancelled_composites && all->cancelled_composites->over)
        all->cancelled_composites = all->cancelled_composites->behind;
    return all->cancelled || all->cancelled_composites;
}

/* Cancels the listed futures, with one row for all of them:
 *   1. While a listed future has no answer, the arrivals that stand before the row are given out
 *      one by one: a future whose answer is among them is not cancelled.
 *   2. If all listed futures have an answer then, there is no row. No further arrival is given out
 *      in this case, since without a row a replay could not tell how many were given out here.
 *   3. Otherwise the journal is asked for the row, or the row is recorded, and the futures are
 *      cancelled. */
void future_cancel_flush(pawl_run *run)
{
    run_futures *all = &run->futures;
    while (has_cancelled(all)) {
        if (journal_settle_one(run)) /* RULE B12-what-arrived-with-the-winner-has-not-lost */
            continue;
        cancel_parts(run);
        pawl_future *cancelled = all->cancelled;
        size_t count;
        all->cancelled = NULL;
        slice ops = ops_of(run, cancelled, &count);
        if (count == 0)
            continue;
        const replay_row *row;
        int live = journal_ask(run, OP_FUTURE_CANCEL, SLICE_LIT(""), &row) == REPLAY_NEW;
        if (live)
            journal_record(run, OP_FUTURE_CANCEL, SLICE_LIT(""), ops);
        for (pawl_future *f = cancelled, *next; f; f = next) {
            next = f->next;
            cancel_future(f, live);
        }
    }
}

void future_cancel_all(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t key;
    void *value;
    while (map_next(&run->futures.all, &cursor, &key, &value)) {
        pawl_future *f = value;
        if (!f->over && f->kind && f->kind->cancel)
            f->kind->cancel(f, 1);
    }
}
