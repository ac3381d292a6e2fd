/* Ops that call work functions: step, call, until.
 *
 * A step that succeeds at once is one row: its result. Only when an attempt fails does it become
 * an op with a history: the row that says so, one more per attempt, and its answer. So what is
 * recorded of a step is what a person would want to read about it.
 *
 * Before a work function is called everything that the run has recorded is durable: WANT_WORK does
 * that (runner.c). */
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "core/drive.h"
#include "core/ops.h"
#include "core/options.h"
#include "core/run.h"

/* One call, as the function asked for it. */
typedef struct call {
    op_kind kind;
    slice name;
    const char *input;
    work_entry *entry; /* of OP_CALL */
    pawl_work_fn *fn;
    void *arg;
    retry_policy policy;
    int64_t began_ms;
} call;

/* ---- Arguments ---- */

static _Noreturn void wrong(pawl_run *run, const error *err)
{
    run_trouble(run, err->code, "%s: %s", err->message, err->detail);
}

slice ops_name(pawl_run *run, const char *name, const char *what)
{
    error err = {0};
    slice s = slice_of(name);
    if (!name)
        error_set(&err, PAWL_INVALID, "the %s is NULL", what);
    else
        text_check(s, PAWL_MAX_NAME, what, &err);
    if (err.code != PAWL_OK)
        wrong(run, &err);
    return s;
}

slice ops_json(pawl_run *run, const char *json, const char *what)
{
    size_t at = 0;
    slice s = {json, json ? strnlen(json, (size_t)PAWL_MAX_PAYLOAD + 1) : 0};
    pawl_code rc = json ? value_check(s, &at) : PAWL_INVALID;
    if (rc == PAWL_LIMIT)
        run_trouble(run, rc, "the %s is larger than %d bytes, or nested too deeply", what,
                    PAWL_MAX_PAYLOAD);
    if (rc != PAWL_OK)
        run_trouble(run, rc, "the %s is not JSON (at byte %zu)", what, at);
    return s;
}

static void read_options(pawl_run *run, call *c, const pawl_call_options *given)
{
    pawl_call_options o;
    error err = {0};
    if (options_read(&o, sizeof o, given, &err) != PAWL_OK ||
        retry_read(&c->policy, &o, &err) != PAWL_OK)
        wrong(run, &err);
    if (o.undo)
        run_trouble(run, PAWL_UNSUPPORTED, "the option undo is not built yet");
    if (o.queue || o.tag || o.affinity || o.fair_key || o.priority)
        run_trouble(run, PAWL_UNSUPPORTED, "queues, tags and their kind are not built yet");
    if (o.arg)
        c->arg = o.arg;
}

/* ---- Attempts ---- */

/* How long it may take: its own limit, or what is left for all attempts. 0: no limit. */
static int64_t limit_of(const call *c, int64_t left)
{
    int64_t limit = c->policy.attempt_ms ? c->policy.attempt_ms : INT64_MAX;
    limit = left < limit ? left : limit;
    return limit == INT64_MAX ? 0 : limit;
}

/* What the call was given, or its registration if it has one. */
static void *arg_of(pawl_run *run, const call *c)
{
    const work_entry *entry = c->arg ? NULL : registry_work(drive_registry(run->drive), c->name.at);
    return entry ? entry->arg : c->arg;
}

/* Call the work function, when everything before is durable. 1: it succeeded. */
static int attempt(pawl_run *run, const call *c, int64_t number, int64_t op)
{
    if (!work_open(run))
        run_trouble(run, PAWL_NOMEM, "out of memory");
    pawl_work *w = run->work;
    w->entry = c->entry;
    w->fn = c->fn;
    w->arg = arg_of(run, c);
    w->attempt = number;
    w->op = op;
    w->began_ms = c->began_ms;
    if (!work_give(run, c->name.at, c->input))
        run_trouble(run, PAWL_NOMEM, "out of memory");
    int64_t left = retry_left(&c->policy, c->began_ms, drive_now_ms(run->drive));
    w->limit_ms = limit_of(c, left);
    if (left == 0)
        work_expire(w);
    else
        run_ask(run, WANT_WORK);
    return !run->work->failed;
}

/* When to try again after the attempt that has just failed; -1: no more. */
static int64_t try_again(pawl_run *run, const call *c, int64_t number)
{
    if (run->work->permanent)
        return -1;
    return retry_next(&c->policy, number, c->began_ms, drive_now_ms(run->drive),
                      run->work->after_ms, drive_chance(run->drive));
}

static slice error_of(pawl_run *run, int64_t next_ms)
{
    slice s = work_error(run, run->work, next_ms);
    if (!s.at)
        run_trouble(run, PAWL_NOMEM, "out of memory");
    return s;
}

static _Noreturn void fail_with(pawl_run *run, const call *c, slice error_json)
{
    const char *json = run_text(run, error_json);
    slice name = {"failed", 6}, message = {"", 0};
    value_get(json, "/name", &name);
    value_get(json, "/message", &message);
    run_fail(run, run_json_text(run, name), run_json_text(run, message), run_text(run, c->name));
}

/* Wait, try, record; until there is an answer. The op is open; `before` attempts had failed when it
 * was opened. */
static const char *go_on(pawl_run *run, const call *c, int64_t op, int64_t before)
{
    for (;;) {
        const replay_row *row;
        replay_result result = turn_answer(run, op, &row);
        if (result == REPLAY_RECORDED && row->kind == OP_DONE)
            return run_text(run, row->data);
        if (result == REPLAY_RECORDED)
            fail_with(run, c, row->data);
        int64_t number = before + replay_attempts(run->replay, op);
        if (number > 0 && run->until_ms > drive_now_ms(run->drive))
            run_ask(run, WANT_WAIT);
        if (attempt(run, c, ++number, op)) {
            turn_arrive(run, OP_DONE, op, slice_of(run->work->value));
            continue;
        }
        int64_t next = try_again(run, c, number);
        if (next < 0)
            turn_arrive(run, OP_FAILED, op, error_of(run, -1));
        else
            turn_arrive(run, OP_ATTEMPT, op, error_of(run, next));
    }
}

/* ---- Step ---- */

static const char *first_attempt(pawl_run *run, const call *c)
{
    if (attempt(run, c, 1, replay_seq(run->replay) + 1)) {
        slice value = slice_of(run->work->value);
        turn_record(run, OP_STEP, c->name, value);
        return run_text(run, value);
    }
    int64_t next = try_again(run, c, 1);
    slice why = error_of(run, next);
    if (next < 0) {
        turn_record(run, OP_STEP_FAILED, c->name, why);
        fail_with(run, c, why);
    }
    int64_t op = turn_record(run, OP_STEP_AGAIN, c->name, why);
    run->until_ms = next;
    return go_on(run, c, op, 1);
}

const char *pawl_step(pawl_run *run, const char *name, pawl_work_fn *fn, const char *input,
                      const pawl_call_options *options)
{
    if (!run_is_inside(run))
        return NULL;
    call c = {.kind = OP_STEP, .fn = fn, .input = input, .began_ms = drive_now_ms(run->drive)};
    c.name = ops_name(run, name, "name of the step");
    ops_json(run, input, "input of the step");
    read_options(run, &c, options);
    if (!fn)
        run_trouble(run, PAWL_INVALID, "the work function of step %s is NULL", name);
    const replay_row *row;
    if (turn_op(run, OP_STEP, c.name, &row) == REPLAY_NEW) {
        if (run->expired_op == replay_seq(run->replay) + 1)
            c.began_ms = run->expired_began_ms;
        return first_attempt(run, &c);
    }
    if (row->kind == OP_STEP)
        return run_text(run, row->data);
    if (row->kind == OP_STEP_FAILED)
        fail_with(run, &c, row->data);
    c.began_ms = work_began_ms(row->data, row->at_ms);
    run->until_ms = work_next_ms(row->data);
    return go_on(run, &c, row->seq, 1);
}

/* ---- Call: a registered work function; in this process, until there are queues ---- */

const char *pawl_call(pawl_run *run, const char *work, const char *input,
                      const pawl_call_options *options)
{
    if (!run_is_inside(run))
        return NULL;
    call c = {.kind = OP_CALL, .input = input, .began_ms = drive_now_ms(run->drive)};
    c.name = ops_name(run, work, "name of the work function");
    slice data = ops_json(run, input, "input of the call");
    work_entry *entry = registry_work(drive_registry(run->drive), work);
    if (!entry)
        run_lacks(run, run_text(run, c.name));
    c.entry = entry;
    c.fn = entry->fn;
    c.arg = entry->arg;
    read_options(run, &c, options);
    const replay_row *row;
    run->until_ms = 0;
    if (turn_op(run, OP_CALL, c.name, &row) == REPLAY_NEW)
        return go_on(run, &c, turn_record(run, OP_CALL, c.name, data), 0);
    c.began_ms = row->at_ms;
    return go_on(run, &c, row->seq, 0);
}

/* ---- Until ---- */

static int is_nothing(const char *json)
{
    pawl_kind kind = pawl_get_kind(json, "");
    return kind == PAWL_NULL || kind == PAWL_FALSE;
}

/* One more call, or the end: the row says which. What the calls before gave is not recorded. */
static void ask_again(pawl_run *run, const call *c, int64_t op, int64_t every_ms, int64_t end_ms)
{
    int gave = attempt(run, c, 1, op) && !is_nothing(run->work->value);
    int64_t now = drive_now_ms(run->drive);
    if (gave)
        turn_arrive(run, OP_DONE, op, slice_of(run->work->value));
    else if (run->work->failed && run->work->permanent)
        turn_arrive(run, OP_FAILED, op, error_of(run, -1));
    else if (now >= end_ms)
        turn_arrive(run, OP_DONE, op, SLICE_LIT("null"));
    else {
        run->until_ms = end_ms - now < every_ms ? end_ms : now + every_ms;
        run_ask(run, WANT_WAIT);
    }
}

const char *pawl_until(pawl_run *run, const char *name, pawl_work_fn *fn, const char *input,
                       int64_t every_ms, int64_t timeout_ms)
{
    if (!run_is_inside(run))
        return NULL;
    call c = {.kind = OP_UNTIL, .fn = fn, .input = input};
    c.name = ops_name(run, name, "name of the step");
    ops_json(run, input, "input of the step");
    if (!fn || every_ms <= 0 || timeout_ms < 0)
        run_trouble(run, PAWL_INVALID, "pawl_until(%s): a function, a pause above 0, a time-out",
                    name);
    const replay_row *row;
    int64_t op, end_ms;
    if (turn_op(run, OP_UNTIL, c.name, &row) == REPLAY_NEW) {
        int64_t now = drive_now_ms(run->drive);
        end_ms = timeout_ms > INT64_MAX - now ? INT64_MAX : now + timeout_ms;
        op = turn_record(run, OP_UNTIL, c.name, run_number(run, end_ms));
    } else {
        op = row->seq;
        end_ms = pawl_get_int(run_text(run, row->data), "", INT64_MAX);
    }
    for (;;) {
        replay_result result = turn_answer(run, op, &row);
        if (result == REPLAY_RECORDED && row->kind == OP_DONE)
            return run_text(run, row->data);
        if (result == REPLAY_RECORDED)
            fail_with(run, &c, row->data);
        ask_again(run, &c, op, every_ms, end_ms);
    }
}
