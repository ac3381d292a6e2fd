/* The list of what is to be looked at, and the list of what a unit does to others. What it means is
 * for the kinds to know. */
#include "core/others.h"

#include "core/birth.h"
#include "core/client.h"
#include "core/drive.h"
#include "core/send.h"

/* ---- Asking ---- */

void others_ask(pawl_future *f)
{
    other *o = f->own;
    if (o->asks)
        return;
    pawl_future *next = f->run->futures.asking;
    o->asks = 1;
    o->before = NULL;
    o->behind = next;
    if (next)
        ((other *)next->own)->before = f;
    f->run->futures.asking = f;
}

static void stop_asking(pawl_future *f)
{
    other *o = f->own;
    if (!o->asks)
        return;
    o->asks = 0;
    if (o->before)
        ((other *)o->before->own)->behind = o->behind;
    else
        f->run->futures.asking = o->behind;
    if (o->behind)
        ((other *)o->behind->own)->before = o->before;
}

void others_forget(pawl_future *f)
{
    stop_asking(f);
    for (run_sent *s = f->run->sent; s; s = s->next)
        if (s->future == f)
            s->future = NULL;
}

pawl_code others_read(struct runner *r, pawl_run *run, error *err)
{
    pawl_code rc = runner_begin_reading(r, err);
    if (rc != PAWL_OK)
        return rc;
    for (pawl_future *f = run->futures.asking; f && rc == PAWL_OK;) {
        const other *o = f->own;
        if (!f->over)
            rc = o->kind->read(r->drive, r->reader, f, err);
        f = o->behind;
    }
    db_rollback(r->reader);
    return rc;
}

int others_look(pawl_run *run)
{
    run_futures *all = &run->futures;
    while (all->asking) {
        run_ask(run, WANT_CHECK);
        while (all->asking) {
            pawl_future *f = all->asking;
            const other *o = f->own;
            stop_asking(f);
            if (!f->over)
                o->kind->go_on(f);
        }
        if (turn_arrive_all(run))
            return 1;
        if (run->sent) /* what came of it is known when that is durable; then it is asked again */
            run_ask(run, WANT_FLUSH);
    }
    return 0;
}

/* ---- In the unit ---- */

run_sent *others_add(pawl_run *run, int statement, int64_t whom)
{
    run_sent *s = arena_alloc(run->paper, sizeof *s);
    if (!s)
        run_trouble(run, PAWL_NOMEM, "out of memory");
    *s = (run_sent){.next = run->sent, .statement = statement, .run = whom};
    run->sent = s;
    return s;
}

static void tell_one(pawl_run *run, const run_sent *s, int committed)
{
    drive *d = run->drive;
    const unit_row *row = NULL;
    if (committed)
        row = unit_rows(run->unit, s->statement);
    if (s->birth)
        client_born(d, s->birth, row != NULL);
    else if (row)
        send_told(d, s->run, row->values[SEND_OWNER].i);
    if (row && s->cancels)
        drive_cancel(d, s->run);
    if (committed && s->future && !s->future->over) {
        const other *o = s->future->own;
        o->kind->committed(s->future, row);
    }
}

void others_committed(pawl_run *run, int committed)
{
    for (const run_sent *s = run->sent; s; s = s->next)
        tell_one(run, s, committed);
    run->sent = NULL;
}

void others_cut(pawl_run *run, int count)
{
    for (run_sent **at = &run->sent; *at;) {
        if ((*at)->statement < count) {
            at = &(*at)->next;
            continue;
        }
        tell_one(run, *at, 0);
        *at = (*at)->next;
    }
}

/* ---- Leaving ---- */

void others_cancel_child(pawl_run *run, int64_t child)
{
    static const char REASON[] = "\"its parent has ended\"";
    run_mail m = {.run = child,
                  .kind = MAIL_CANCEL,
                  .name = SLICE_LIT(""),
                  .by = SLICE_LIT(""),
                  .at_ms = drive_now_ms(run->drive),
                  .data = {REASON, sizeof REASON - 1}};
    if (child > 0)
        others_add(run, run_try_cancel(turn_unit(run), &m, run->hold.run), child)->cancels = 1;
}

void others_leave(pawl_run *run)
{
    futures_abandon_all(run);
}

static slice result_of(pawl_run *run, const char **word)
{
    *word = run->end.status == RUN_DONE ? "done" : "failed";
    if (run->end.status == RUN_DONE)
        return slice_of(run->end.value);
    char *json = pawl_json_new("{'name':%s,'message':%s,'where':'%s: %s','code':%d}", run->end.name,
                               run->end.message, run->id, run->end.where,
                               run->end.status == RUN_CANCELLED ? PAWL_CANCELLED : PAWL_FAILED);
    slice text = slice_of(json);
    text.at = json ? arena_copy(run->paper, text) : NULL;
    pawl_free(json);
    return text;
}

int others_report(pawl_run *run)
{
    const char *word;
    if (run->parent == 0)
        return 1;
    slice result = result_of(run, &word);
    slice data = {result.at ? arena_copy(run->paper, result) : NULL, result.size};
    run_sent *s = arena_alloc(run->paper, sizeof *s);
    if (!data.at || !s)
        return 0;
    run_mail m = {.run = run->parent,
                  .generation = run->parent_generation,
                  .op = run->parent_op,
                  .kind = MAIL_CHILD,
                  .name = slice_of(word),
                  .by = slice_of(run->id),
                  .at_ms = drive_now_ms(run->drive),
                  .data = data};
    *s = (run_sent){.next = run->sent, .run = run->parent};
    s->statement = run_try_report(run->unit, &m, run->parked);
    run->sent = s;
    return 1;
}
