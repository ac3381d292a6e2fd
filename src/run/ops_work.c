/* Ops that call work functions (activities): step, call, until, and their later forms.
 *
 * A step that succeeds at once is one row: its result. Only if its first attempt fails does the
 * step become an op with several rows: one for each failed attempt, and its answer. So the history
 * of a run has what a reader wants to know of a step, and no more.
 *
 * WANT_WORK makes everything that the run has recorded durable before a work function is called
 * (sched/runner.c). */
#include <string.h>

#include "base/json.h"
#include "base/options.h"
#include "base/text.h"
#include "run/call.h"
#include "run/cleanup.h"
#include "run/ops.h"
#include "run/wait.h"

/* ---- Arguments ---- */

/* Records the undo of a call, before the op of the call. */
static void register_undo(pawl_run *run, const call *c, const char *undo)
{
    const replay_row *row;
    if (!undo)
        return;
    slice name = ops_own_name(run, undo, "option undo");
    if (journal_op(run, OP_UNDO_OF, name, &row) == REPLAY_NEW)
        journal_record(run, OP_UNDO_OF, name, slice_of(c->input));
    run->cleanups++;
}

void ops_call_options(pawl_run *run, call *c, const pawl_call_options *given)
{
    pawl_call_options o;
    error err = {0};
    if (options_read(&o, sizeof o, given, &err) != PAWL_OK ||
        retry_read(&c->policy, &o, &err) != PAWL_OK)
        ops_refuse(run, &err);
    /* RULE call-options-that-are-not-built-are-refused */
    if (o.queue || o.tag || o.affinity || o.fair_key || o.priority)
        run_trouble(run, PAWL_UNSUPPORTED, "queues, tags and their kind are not built yet");
    if (o.arg)
        c->arg = o.arg;
    register_undo(run, c, o.undo);
}

static const char *await_value(pawl_future *f)
{
    const char *value = future_await(f);
    future_release(f);
    return value;
}

/* ---- Step ---- */

static _Noreturn void fail_run(pawl_run *run, const call *c, slice error_json)
{
    pawl_future f = {.run = run, .what = c->name, .value = run_text(run, error_json)};
    future_fail(&f);
}

/* Records the result of the first attempt, which was kept with the run until now (work.h). */
static int64_t record_first(pawl_run *run, op_kind kind, const call *c, slice data)
{
    int64_t op = journal_record(run, kind, slice_of(c->name), data);
    run->attempt.is_called = 0;
    return op;
}

static const char *make_first_attempt(pawl_run *run, call *c)
{
    /* RULE L5-what-is-kept-is-recorded-before-a-cancel */
    if (!work_is_kept(run, replay_seq(run->journal.replay) + 1))
        cleanup_look(run);
    if (call_first(run, c)) {
        slice value = slice_of(run->attempt.work->value);
        record_first(run, OP_STEP, c, value);
        return run_text(run, value);
    }
    if (run->attempt.work->expired) /* perhaps because the function ignores a cancel of the run */
        cleanup_look(run);
    int64_t next = call_again_ms(run, c, run->attempt.work, 1);
    slice why = call_error(run, run->attempt.work, next);
    if (next < 0) {
        record_first(run, OP_STEP_FAILED, c, why);
        fail_run(run, c, why);
    }
    int64_t op = record_first(run, OP_STEP_AGAIN, c, why);
    c->before = 1;
    return await_value(call_new(run, c, op, next));
}

static call step_of(pawl_run *run, const char *name, pawl_work_fn *fn, const char *input)
{
    call c = {.fn = fn, .name = name, .input = input, .began_ms = host_up_ms(run->host)};
    ops_own_name(run, name, "name of the step");
    ops_json(run, input, "input of the step", name);
    if (!fn)
        run_trouble(run, PAWL_INVALID, "the work function of step %s is NULL", name);
    return c;
}

const char *pawl_step(pawl_run *run, const char *name, pawl_work_fn *fn, const char *input,
                      const pawl_call_options *options)
{
    if (!run_is_inside(run))
        return NULL;
    call c = step_of(run, name, fn, input);
    c.kind = OP_STEP_AGAIN;
    ops_call_options(run, &c, options);
    const replay_row *row;
    if (journal_op(run, OP_STEP, slice_of(name), &row) == REPLAY_NEW) {
        if (run->attempt.expired_op == replay_seq(run->journal.replay) + 1)
            c.began_ms = run->attempt.expired_began_ms;
        return make_first_attempt(run, &c);
    }
    if (row->kind == OP_STEP) /* RULE 2-a-recorded-step-is-not-executed */
        return run_text(run, row->data);
    if (row->kind == OP_STEP_FAILED)
        fail_run(run, &c, row->data);
    c.began_ms = work_began_ms(row->data, row->at_ms);
    c.before = work_tried(row->data); /* RULE 2-a-step-that-was-not-begun-has-all-its-attempts */
    return await_value(call_new(run, &c, row->seq, work_next_ms(row->data)));
}

pawl_future *pawl_step_later(pawl_run *run, const char *name, pawl_work_fn *fn, const char *input,
                             const pawl_call_options *options)
{
    if (!run_is_inside(run))
        return NULL;
    call c = step_of(run, name, fn, input);
    c.kind = OP_STEP_LATER;
    c.beside = 1;
    ops_call_options(run, &c, options);
    const replay_row *row;
    if (journal_op(run, OP_STEP_LATER, slice_of(name), &row) == REPLAY_NEW)
        return call_new(run, &c, journal_record(run, OP_STEP_LATER, slice_of(name), SLICE_LIT("")),
                        0);
    c.began_ms = row->at_ms;
    return call_new(run, &c, row->seq, 0);
}

/* ---- pawl_call(): a registered work function, called in this process ---- */

static pawl_future *start_call(pawl_run *run, const char *work, const char *input,
                               const pawl_call_options *options, int beside)
{
    call c = {.kind = OP_CALL,
              .name = work,
              .input = input,
              .began_ms = host_up_ms(run->host),
              .beside = beside};
    slice name = ops_own_name(run, work, "name of the work function");
    slice data = ops_json(run, input, "input of the call of", work);
    work_entry *entry = registry_work(run->host->registry, work);
    if (!entry)
        run_lacks(run, run_text(run, name));
    c.entry = entry;
    c.fn = entry->fn;
    c.arg = entry->arg;
    ops_call_options(run, &c, options);
    const replay_row *row;
    if (journal_op(run, OP_CALL, name, &row) == REPLAY_NEW)
        return call_new(run, &c, journal_record(run, OP_CALL, name, data), 0);
    c.began_ms = row->at_ms;
    return call_new(run, &c, row->seq, 0);
}

const char *pawl_call(pawl_run *run, const char *work, const char *input,
                      const pawl_call_options *options)
{
    if (!run_is_inside(run))
        return NULL;
    return await_value(start_call(run, work, input, options, 0));
}

pawl_future *pawl_call_later(pawl_run *run, const char *work, const char *input,
                             const pawl_call_options *options)
{
    return run_is_inside(run) ? start_call(run, work, input, options, 1) : NULL;
}

/* ---- Until ---- */

static pawl_future *start_until(pawl_run *run, call *c, int64_t every_ms, int64_t timeout_ms)
{
    slice name = slice_of(c->name);
    if (every_ms <= 0 || timeout_ms < 0)
        run_trouble(run, PAWL_INVALID, "pawl_until(%s): a function, a pause above 0, a time-out",
                    c->name);
    const replay_row *row;
    int64_t op;
    c->kind = OP_UNTIL;
    c->every_ms = every_ms;
    if (journal_op(run, OP_UNTIL, name, &row) == REPLAY_NEW) {
        int64_t now = host_up_ms(run->host);
        c->end_ms = timeout_ms > INT64_MAX - now ? INT64_MAX : now + timeout_ms;
        c->end_ns = future_not_before(run, timeout_ms);
        op = journal_record(run, OP_UNTIL, name, run_number(run, c->end_ms));
    } else {
        op = row->seq;
        c->end_ms = pawl_get_int(run_text(run, row->data), "", INT64_MAX);
    }
    return call_new(run, c, op, 0);
}

const char *pawl_until(pawl_run *run, const char *name, pawl_work_fn *fn, const char *input,
                       int64_t every_ms, int64_t timeout_ms)
{
    if (!run_is_inside(run))
        return NULL;
    call c = step_of(run, name, fn, input);
    return await_value(start_until(run, &c, every_ms, timeout_ms));
}

pawl_future *pawl_until_later(pawl_run *run, const char *name, pawl_work_fn *fn, const char *input,
                              int64_t every_ms, int64_t timeout_ms)
{
    if (!run_is_inside(run))
        return NULL;
    call c = step_of(run, name, fn, input);
    c.beside = 1;
    return start_until(run, &c, every_ms, timeout_ms);
}
