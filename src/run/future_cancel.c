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
    if (f->over || f->lost)
        return;
    f->lost = 1;
    if (f->kind) {
        f->next = all->losers;
        all->losers = f;
    } else {
        f->behind = all->lost;
        all->lost = f;
    }
}

void future_cancel_remove(const pawl_future *f)
{
    run_futures *all = &f->run->futures;
    pawl_future **at = f->kind ? &all->losers : &all->lost;
    while (*at && *at != f)
        at = f->kind ? &(*at)->next : &(*at)->behind;
    if (*at)
        *at = f->kind ? f->next : f->behind;
}

/* A composite future is cancelled with all of its parts. */
static void lose_parts(pawl_run *run)
{
    run_futures *all = &run->futures;
    while (all->lost) {
        pawl_future *f = all->lost;
        all->lost = f->behind;
        if (f->over)
            continue;
        future_answer(f, PAWL_CANCELLED, CANCELLED);
        for (size_t i = 0; i < f->count; i++) {
            f->parts[i]->uses--;
            future_cancel_add(f->parts[i]);
        }
    }
}

/* A JSON array of the ops of these futures, in the unit's memory; *count: how many they are. */
static slice ops_of(pawl_run *run, const pawl_future *losers, size_t *count)
{
    buf ops;
    buf_init(&ops, PAWL_MAX_PAYLOAD);
    *count = 0;
    for (const pawl_future *f = losers; f; f = f->next)
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

static void give_up(pawl_future *f, int live)
{
    if (f->over)
        return;
    replay_close(f->run->journal.replay, f->op); /* RULE A6-what-is-abandoned-takes-no-answer */
    if (f->kind->abandon)
        f->kind->abandon(f, live);
    future_answer(f, PAWL_CANCELLED, CANCELLED);
}

/* Is there a future to be cancelled that has no answer? */
static int has_losers(run_futures *all)
{
    while (all->losers && all->losers->over)
        all->losers = all->losers->next;
    while (all->lost && all->lost->over)
        all->lost = all->lost->behind;
    return all->losers || all->lost;
}

/* Writes one row for all futures to be cancelled. A future whose answer has arrived before is not
 * cancelled: so such arrivals are given out first. But not those that came after the last of these
 * answers: if no future is cancelled there is no row, and a replay could not tell them from later
 * ones. */
void future_cancel_flush(pawl_run *run)
{
    run_futures *all = &run->futures;
    while (has_losers(all)) {
        if (journal_settle_one(run)) /* RULE B12-what-arrived-with-the-winner-has-not-lost */
            continue;
        lose_parts(run);
        pawl_future *losers = all->losers;
        size_t count;
        all->losers = NULL;
        slice ops = ops_of(run, losers, &count);
        if (count == 0)
            continue;
        const replay_row *row;
        int live = journal_ask(run, OP_ABANDON, SLICE_LIT(""), &row) == REPLAY_NEW;
        if (live)
            journal_record(run, OP_ABANDON, SLICE_LIT(""), ops);
        for (pawl_future *f = losers, *next; f; f = next) {
            next = f->next;
            give_up(f, live);
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
        if (!f->over && f->kind && f->kind->abandon)
            f->kind->abandon(f, 1);
    }
}
