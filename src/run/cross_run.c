/* Two lists: the futures that ask for the state of another run, and the statements of a unit that
 * concern other runs. The kinds of futures decide what to do with the results. */
#include "run/cross_run.h"

#include "rows/run_insert.h"

/* ---- Asking ---- */

void cross_run_ask(pawl_future *f)
{
    cross_ask *o = f->own;
    if (o->asks)
        return;
    pawl_future *next = f->run->futures.asking;
    o->asks = 1;
    o->before = NULL;
    o->behind = next;
    if (next)
        ((cross_ask *)next->own)->before = f;
    f->run->futures.asking = f;
}

static void stop_asking(pawl_future *f)
{
    cross_ask *o = f->own;
    if (!o->asks)
        return;
    o->asks = 0;
    if (o->before)
        ((cross_ask *)o->before->own)->behind = o->behind;
    else
        f->run->futures.asking = o->behind;
    if (o->behind)
        ((cross_ask *)o->behind->own)->before = o->before;
}

void cross_run_forget(pawl_future *f)
{
    stop_asking(f);
    for (run_sent *s = f->run->draft.sent; s; s = s->next)
        if (s->future == f)
            s->future = NULL;
}

int cross_run_look(pawl_run *run)
{
    run_futures *all = &run->futures;
    while (all->asking) {
        run_ask(run, WANT_CHECK);
        while (all->asking) {
            pawl_future *f = all->asking;
            const cross_ask *o = f->own;
            stop_asking(f);
            if (!f->over)
                o->kind->go_on(f);
        }
        if (journal_arrive_all(run))
            return 1;
        /* The commit tells whether a child was made, or a message put into an inbox. Then the state
         * of the other run is read again. */
        if (run->draft.sent)
            run_ask(run, WANT_FLUSH);
    }
    return 0;
}

/* ---- In the unit ---- */

run_sent *cross_run_add(pawl_run *run, int statement, int64_t target)
{
    run_sent *s = arena_alloc(run->draft.arena, sizeof *s);
    if (!s)
        run_nomem(run);
    *s = (run_sent){.next = run->draft.sent, .statement = statement, .run = target};
    run->draft.sent = s;
    return s;
}

/* Tells the host, and the future that waits for the statement, what has become of the statement. */
static void report_statement(pawl_run *run, const run_sent *s, int committed)
{
    const unit_row *row = committed ? unit_rows(run->draft.unit, s->statement) : NULL;
    host_sent(run->host, s, row);
    if (committed && s->future && !s->future->over) {
        const cross_ask *o = s->future->own;
        o->kind->committed(s->future, row);
    }
}

void cross_run_committed(pawl_run *run, int committed)
{
    for (const run_sent *s = run->draft.sent; s; s = s->next)
        report_statement(run, s, committed);
    run->draft.sent = NULL;
}

void cross_run_cut(pawl_run *run, int count)
{
    for (run_sent **at = &run->draft.sent; *at;) {
        if ((*at)->statement < count) {
            at = &(*at)->next;
            continue;
        }
        report_statement(run, *at, 0);
        *at = (*at)->next;
    }
}

/* ---- Leaving ---- */

void cross_run_cancel_child(pawl_run *run, int64_t child)
{
    static const char REASON[] = "\"its parent has ended\"";
    run_inbox_row m = {.run = child,
                       .kind = INBOX_CANCEL,
                       .name = SLICE_LIT(""),
                       .by = SLICE_LIT(""),
                       .at_ms = host_now_ms(run->host),
                       .data = {REASON, sizeof REASON - 1}};
    if (child > 0)
        cross_run_add(run, run_try_cancel(journal_unit(run), &m, run->lease.run), child)->cancels =
            1;
}

void cross_run_leave(pawl_run *run)
{
    future_cancel_all(run);
}

static slice result_of(pawl_run *run, const char **word)
{
    *word = run->code.end.phase == PHASE_DONE ? "done" : "failed";
    if (run->code.end.phase == PHASE_DONE)
        return slice_of(run->code.end.value);
    char *json = pawl_json_new(
        "{'name':%s,'message':%s,'where':'%s%s%s','code':%d}", run->code.end.name,
        run->code.end.message, run->id, run->code.end.where[0] ? ": " : "", run->code.end.where,
        run->code.end.phase == PHASE_CANCELLED ? PAWL_CANCELLED : PAWL_FAILED);
    slice text = slice_of(json);
    text.at = json ? arena_copy(run->draft.arena, text) : NULL;
    pawl_free(json);
    return text;
}

int cross_run_report(pawl_run *run)
{
    const char *word;
    if (run->parent.run == 0)
        return 1;
    slice result = result_of(run, &word);
    slice data = {result.at ? arena_copy(run->draft.arena, result) : NULL, result.size};
    run_sent *s = arena_alloc(run->draft.arena, sizeof *s);
    if (!data.at || !s)
        return 0;
    run_inbox_row m = {.run = run->parent.run,
                       .generation = run->parent.generation,
                       .op = run->parent.op,
                       .kind = INBOX_CHILD,
                       .name = slice_of(word),
                       .by = slice_of(run->id),
                       .at_ms = host_now_ms(run->host),
                       .data = data};
    *s = (run_sent){.next = run->draft.sent, .run = run->parent.run};
    s->statement = run_try_report(run->draft.unit, &m, run->draft.turn_end_stmt);
    run->draft.sent = s;
    return 1;
}
