/* Futures (promises): made by an op, answered by an arrival, composed of others, released. Waiting
 * for them is in wait.c, cancelling them in future_cancel.c. */
#include "run/futures.h"

#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "run/ops.h"

void futures_free(run_futures *all)
{
    map_free(&all->all);
    heap_free(&all->due);
    *all = (run_futures){0};
}

/* ---- Making and releasing ---- */

static pawl_future *alloc_future(pawl_run *run)
{
    run_futures *all = &run->futures;
    /* A failing run may need a future for each op that its clean-ups undo. */
    if (!run->failing && all->all.count >= PAWL_MAX_FUTURES)
        run_trouble(run, PAWL_LIMIT, "more than %d futures at one time", PAWL_MAX_FUTURES);
    pawl_future *f = run_alloc(run, sizeof *f);
    f->run = run;
    if (map_put(&all->all, (uint64_t)(uintptr_t)f, f) != 0)
        run_nomem(run);
    return f;
}

pawl_future *future_new(pawl_run *run, const future_kind *kind, op_kind what, int64_t op)
{
    pawl_future *f = alloc_future(run);
    f->kind = kind;
    f->op = op;
    f->what = op_find(op_asked_as(what))->word;
    replay_own(run->journal.replay, op, f);
    return f;
}

void future_due_at(pawl_future *f, int64_t at_ms)
{
    heap *due = &f->run->futures.due;
    heap_take(due, &f->timer);
    if (at_ms != RUN_NEVER && !heap_put(due, &f->timer, f, at_ms))
        run_nomem(f->run);
}

int64_t future_not_before(const pawl_run *run, int64_t ms)
{
    clock_source *clock = run->host->clock;
    return clock_deadline(clock->mono_ns(clock), ms);
}

int64_t future_rest_until(const pawl_run *run, int64_t not_before_ns)
{
    const int64_t ns_per_ms = 1000000;
    clock_source *clock = run->host->clock;
    int64_t left_ns = not_before_ns ? not_before_ns - clock->mono_ns(clock) : 0;
    /* RULE C2-a-duration-takes-its-time-whatever-the-date-is */
    return left_ns > 0 ? left_ns / ns_per_ms + (left_ns % ns_per_ms != 0) : 0;
}

int64_t future_rest_ms(const pawl_future *f)
{
    return future_rest_until(f->run, f->not_before_ns);
}

void future_release(pawl_future *f)
{
    run_futures *all = &f->run->futures;
    if (f->is_cancelled)
        future_cancel_remove(f);
    heap_take(&all->due, &f->timer);
    map_take(&all->all, (uint64_t)(uintptr_t)f);
    if (f->kind && f->kind->release)
        f->kind->release(f);
    if (!f->kind)
        future_unlink_all(f->run, &f->wait, f->parts, f->count);
    if (f->value)
        run_own_value(f->run, f->value, NULL); /* the value may be needed longer than the future */
    run_free_value(f->run, f->parts);
    run_free_value(f->run, f);
}

int future_is_one(pawl_run *run, const void *memory)
{
    return map_get(&run->futures.all, (uint64_t)(uintptr_t)memory) != NULL;
}

int future_drop(pawl_run *run, const void *memory)
{
    pawl_future *f = map_get(&run->futures.all, (uint64_t)(uintptr_t)memory);
    if (!f->over || f->uses > 0)
        return 0;
    future_release(f);
    return 1;
}

/* Detaches the value from its future, so that it can be freed. 0: composite futures are made of the
 * future, and need the value. */
static int detach_value(pawl_future *f)
{
    if (f->uses > 0) /* RULE A6-what-others-are-made-of-is-not-given-back */
        return 0;
    f->value = NULL;
    return 1;
}

int future_drop_value(pawl_run *run, const void *memory)
{
    void *owner = map_get(&run->code.values, (uint64_t)(uintptr_t)memory);
    if (!owner)
        return 0;
    if (owner == memory || detach_value(owner))
        run_free_value(run, memory);
    return 1;
}

const char *future_value(const pawl_future *f)
{
    if (!f->value)
        run_trouble(f->run, PAWL_INVALID, "the value of this future was given back");
    return f->value;
}

/* ---- Answers ---- */

static void evaluate_composite(pawl_future *f);

/* Queues a composite future for evaluation. Composites may be deeply nested, so they are evaluated
 * from a list and not by recursion. */
static void queue_composite(pawl_future *f)
{
    run_futures *all = &f->run->futures;
    if (f->looks || f->over)
        return;
    f->looks = 1;
    f->next = NULL;
    if (all->looks)
        all->looks_last->next = f;
    else
        all->looks = f;
    all->looks_last = f;
}

static void evaluate_queued(pawl_run *run)
{
    run_futures *all = &run->futures;
    if (all->looking)
        return;
    all->looking = 1;
    while (all->looks) {
        pawl_future *f = all->looks;
        all->looks = f->next;
        f->looks = 0;
        evaluate_composite(f);
    }
    all->looking = 0;
}

/* Tells a wait that a future has ended. If the future is twice among those that the wait is for,
 * its first place counts. */
static void settle_link(const pawl_future *f, future_link *l)
{
    future_wait *w = l->wait;
    l->wait = NULL;
    w->left--;
    if (!w->first || (w->first == f && l->index < w->index)) {
        w->first = (pawl_future *)f;
        w->index = l->index;
    }
    if (f->failed && !w->failed)
        w->failed = (pawl_future *)f;
    if (w->composite)
        queue_composite(w->composite);
}

void future_answer(pawl_future *f, pawl_code code, const char *value)
{
    run_futures *all = &f->run->futures;
    heap_take(&all->due, &f->timer);
    f->over = 1;
    /* An error is a JSON object. A receive that timed out has the value null, and has not
     * failed. */
    f->failed = code != PAWL_OK && value[0] == '{';
    f->code = code;
    f->value = value;
    if (code == PAWL_OK) /* the text of an error is not handed out, and may be that of a part */
        run_own_value(f->run, value, f);
    f->order = ++all->answers;
    for (future_link *l = f->links; l; l = l->next)
        settle_link(f, l);
    f->links = NULL;
    evaluate_queued(f->run);
}

/* Returns the code of a recorded error: CANCELLED or TIMEOUT if the error says so, otherwise
 * FAILED. */
static pawl_code code_of_error(const char *json)
{
    int64_t code = pawl_get_int(json, "/code", PAWL_FAILED);
    return code == PAWL_CANCELLED || code == PAWL_TIMEOUT ? (pawl_code)code : PAWL_FAILED;
}

void future_answer_row(pawl_future *f, const replay_row *row)
{
    const char *data = run_text(f->run, row->data.at ? row->data : SLICE_LIT("null"));
    future_answer(f, row->kind == OP_FAILED ? code_of_error(data) : PAWL_OK, data);
}

void futures_arrived(pawl_run *run, const replay_row *row)
{
    pawl_future *f = replay_owner(run->journal.replay);
    if (!f || f->over)
        return;
    if (f->kind->arrived)
        f->kind->arrived(f, row);
    else
        future_answer_row(f, row);
}

pawl_future *future_known(pawl_run *run, pawl_future *f)
{
    if (!f || map_get(&run->futures.all, (uint64_t)(uintptr_t)f) != f)
        run_trouble(run, PAWL_INVALID, "this future is not one of the run's");
    return f;
}

/* ---- Several ---- */

void future_link_all(pawl_run *run, future_wait *w, pawl_future *const *parts, size_t count)
{
    future_link *links = run_alloc(run, (count ? count : 1) * sizeof *links);
    const pawl_future *first = NULL;
    w->links = links;
    for (size_t i = 0; i < count; i++) {
        pawl_future *f = future_known(run, parts[i]);
        if (!f->over) {
            links[i] = (future_link){f->links, w, i};
            f->links = &links[i];
            w->left++;
            continue;
        }
        if (!first || f->order < first->order) {
            first = f;
            w->index = i;
        }
        if (f->failed && (!w->failed || f->order < w->failed->order))
            w->failed = f;
    }
    w->first = (pawl_future *)first;
}

/* Takes the links of a wait out of the futures that are open. Those that have ended are not
 * touched: they may be freed. */
void future_unlink_all(pawl_run *run, future_wait *w, pawl_future *const *parts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!w->links[i].wait)
            continue;
        future_link **at = &parts[i]->links;
        while (*at != &w->links[i])
            at = &(*at)->next;
        *at = w->links[i].next;
    }
    run_free_value(run, w->links);
    w->links = NULL;
}

static const char *all_values(pawl_future *f)
{
    buf b;
    buf_init(&b, PAWL_MAX_PAYLOAD);
    for (size_t i = 0; i < f->count; i++)
        buf_printf(&b, "%s%s", i ? "," : "[", f->parts[i]->value);
    buf_printf(&b, "%s]", f->count ? "" : "[");
    int failed = b.failed;
    const char *text = failed ? NULL : run_text(f->run, (slice){b.at, b.size});
    buf_free(&b);
    if (failed)
        run_trouble(f->run, PAWL_LIMIT, "the values of all together are too large");
    return text;
}

/* Gives a composite future its answer, if the answers of its parts decide it. */
static void evaluate_composite(pawl_future *f)
{
    future_wait *w = &f->wait;
    if (f->over)
        return;
    if (w->failed && (!f->any || w->failed == w->first)) {
        const pawl_future *bad = w->failed;
        future_answer(f, bad->code, bad->value);
    } else if (f->any && w->first) {
        const char *value = pawl_json(f->run, "{'index':%" PRId64 ",'value':%j}", (int64_t)w->index,
                                      w->first->value);
        if (!value)
            run_trouble(f->run, PAWL_LIMIT, "the value of the first is too large or too deep");
        future_answer(f, PAWL_OK, value);
    } else if (!f->any && w->left == 0) {
        future_answer(f, PAWL_OK, all_values(f));
    }
    for (size_t i = 0; f->over && i < f->count; i++) {
        f->parts[i]->uses--;
        if (f->any)
            future_cancel_add(f->parts[i]);
    }
}

static pawl_future *make_composite(pawl_run *run, pawl_future *const *parts, size_t count, int any)
{
    if ((count > 0 && !parts) || count > PAWL_MAX_FUTURES || (any && count == 0))
        run_trouble(run, PAWL_INVALID, "%zu futures are not a number to wait for", count);
    pawl_future *f = alloc_future(run);
    pawl_future **copy = run_alloc(run, (count ? count : 1) * sizeof *copy);
    if (count)
        memcpy(copy, parts, count * sizeof *copy);
    f->what = any ? "the first of several" : "all of several";
    f->parts = copy;
    f->count = count;
    f->any = any;
    f->wait.composite = f;
    future_link_all(run, &f->wait, copy, count);
    for (size_t i = 0; i < count; i++) {
        if (copy[i]->over)
            future_value(copy[i]);
        copy[i]->uses++;
    }
    evaluate_composite(f);
    return f;
}

pawl_future *pawl_all_later(pawl_run *run, pawl_future *const *futures, size_t count)
{
    return run_is_inside(run) ? make_composite(run, futures, count, 0) : NULL;
}

pawl_future *pawl_any_later(pawl_run *run, pawl_future *const *futures, size_t count)
{
    return run_is_inside(run) ? make_composite(run, futures, count, 1) : NULL;
}
