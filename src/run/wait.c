/* Waiting: for one future, for all of several, for the first.
 *
 * At the end of the journal the wait polls each source of arrivals, in the order of the table in
 * run.c: finished jobs, the inbox, other runs, the cancel, due timers, calls. What a source finds
 * becomes a row, which the journal gives out like any other. Only if no source finds anything does
 * the run park. If a time-out and a message are both there, the message wins, because the inbox is
 * polled first. */
#include "run/wait.h"

#include "journal/outcome.h"
#include "run/cleanup.h"
#include "run/ops.h"

enum { UNIT_MAX = 1000 }; /* a wait that finds so many statements in the unit commits them */

/* ---- Polling the sources of arrivals ---- */

/* Calls due() of each future that is due. The date may have been set or corrected: a future that is
 * due by the date, and not yet by the monotonic clock, is put off by the rest of its duration. */
int wait_fire(pawl_run *run)
{
    run_futures *all = &run->futures;
    for (int64_t now; heap_due_ms(&all->due) <= (now = host_now_ms(run->host));) {
        pawl_future *f = heap_first(&all->due);
        int64_t rest = future_rest_ms(f);
        heap_take(&all->due, &f->timer);
        if (rest > 0)
            future_due_at(f, now + rest);
        else
            f->kind->due(f);
    }
    return journal_arrive_all(run);
}

/* Called at the end of the journal: polls the sources until one has found something. If none has,
 * parks the run. */
static void poll_or_park(pawl_run *run)
{
    /* A loop of receives that never parks commits now and then. */
    if (run->draft.unit && run->draft.unit->count >= UNIT_MAX)
        run_ask(run, WANT_FLUSH);
    for (const arrival_source *s = run->code.sources; s->look; s++)
        if (s->look(run))
            return;
    int64_t until = heap_due_ms(&run->futures.due);
    run->code.until_ms = run->failing || until < run->deadline_ms ? until : run->deadline_ms;
    run_ask(run, WANT_WAIT);
}

/* What a wait waits for: one future, all of several, or the first of several. With all three NULL:
 * that the run has no jobs. */
typedef struct goal {
    const pawl_future *one;
    const future_wait *all;
    const future_wait *first;
} goal;

static int is_reached(const pawl_run *run, const goal *g)
{
    if (g->one)
        return g->one->over;
    if (g->all)
        return g->all->left == 0 || g->all->failed;
    return g->first ? g->first->first != NULL : run->jobs.by_op.count == 0;
}

static void wait_for(pawl_run *run, const goal *g, const char *asked)
{
    for (;;) {
        future_cancel_flush(run);
        if (is_reached(run, g))
            return;
        if (!journal_wait(run, g->one ? g->one->op : 0, asked))
            poll_or_park(run);
    }
}

void future_wait_for(pawl_future *f)
{
    wait_for(f->run, &(goal){.one = f}, f->what ? f->what : "several");
}

void futures_let_return(pawl_run *run)
{
    wait_for(run, &(goal){0}, "what is being called");
}

_Noreturn void future_fail(pawl_future *f)
{
    pawl_run *run = f->run;
    cleanup_fail(run, pawl_text(run, f->value, "/name", "failed"),
                 pawl_text(run, f->value, "/message", ""),
                 pawl_text(run, f->value, "/where", f->what));
}

const char *future_await(pawl_future *f)
{
    future_wait_for(f);
    if (f->failed)
        future_fail(f);
    return future_value(f);
}

/* ---- For the function ---- */

const char *pawl_await(pawl_run *run, pawl_future *future)
{
    return run_is_inside(run) ? future_await(future_known(run, future)) : NULL;
}

pawl_code pawl_all(pawl_run *run, pawl_future *const *futures, size_t count)
{
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    if (count > 0 && !futures)
        run_trouble(run, PAWL_INVALID, "pawl_all() of NULL");
    future_wait w = {0};
    future_link_all(run, &w, futures, count);
    wait_for(run, &(goal){.all = &w}, "all of several");
    future_unlink_all(run, &w, futures, count);
    if (w.failed)
        future_fail(w.failed);
    return PAWL_OK;
}

int64_t pawl_any(pawl_run *run, pawl_future *const *futures, size_t count, int64_t flags)
{
    if (!run_is_inside(run))
        return -1;
    if (!futures || count == 0 || (flags & ~(int64_t)(PAWL_KEEP | PAWL_FAILURES)) != 0)
        run_trouble(run, PAWL_INVALID, "pawl_any() of nothing, or with unknown flags");
    future_wait w = {0};
    future_link_all(run, &w, futures, count);
    wait_for(run, &(goal){.first = &w}, "the first of several");
    future_unlink_all(run, &w, futures, count);
    for (size_t i = 0; !(flags & PAWL_KEEP) && i < count; i++)
        future_cancel_add(futures[i]);
    future_cancel_flush(run);
    if (w.failed == w.first && !(flags & PAWL_FAILURES))
        future_fail(w.failed);
    return (int64_t)w.index;
}

const pawl_outcome *pawl_try(pawl_run *run, pawl_future *future)
{
    if (!run_is_inside(run))
        return NULL;
    pawl_future *f = future_known(run, future);
    future_wait_for(f);
    if (f->outcome)
        return f->outcome;
    outcome_parts parts = {.code = f->code};
    if (f->code == PAWL_OK)
        parts.value = slice_of(future_value(f));
    else if (f->failed)
        if (outcome_read_error(&parts, run->journal.arena, slice_of(f->value)) != 0)
            run_nomem(run);
    f->outcome = outcome_make(run->journal.arena, &parts);
    if (!f->outcome)
        run_nomem(run);
    return f->outcome;
}

pawl_code pawl_future_cancel(pawl_run *run, pawl_future *future)
{
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    future_cancel_add(future_known(run, future));
    future_cancel_flush(run);
    return PAWL_OK;
}

/* Does not wait. Returns NULL if the future has no answer yet, or has failed. */
const char *pawl_value(pawl_future *future)
{
    if (!future || !future->run->code.fiber || !fiber_is_inside(future->run->code.fiber))
        return NULL;
    pawl_future *f = future_known(future->run, future);
    return f->over && !f->failed ? f->value : NULL;
}
