/* Ops that record a value at once (side effects), sleeping, log lines, and what a function may ask
 * about its run. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/id.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/text.h"
#include "run/cleanup.h"
#include "run/futures.h"
#include "run/ops.h"
#include "run/wait.h"

/* ---- Values ---- */

/* Returns the value that the journal has for this op. If the op is new, records `made` and returns
 * that. */
static const char *recorded_value(pawl_run *run, op_kind kind, slice made)
{
    const replay_row *row;
    if (journal_op(run, kind, SLICE_LIT(""), &row) == REPLAY_RECORDED)
        return run_text(run, row->data); /* RULE 2-a-value-is-the-one-that-is-recorded */
    journal_record(run, kind, SLICE_LIT(""), made);
    return made.at;
}

int64_t pawl_now(pawl_run *run)
{
    if (!run_is_inside(run))
        return 0;
    int64_t now = host_now_ms(run->host);
    now = now > run->code.now_ms ? now : run->code.now_ms; /* RULE B12-time-does-not-go-back */
    const char *text = recorded_value(run, OP_NOW, run_number(run, now));
    /* RULE B12-time-does-not-go-back-in-another-engine */
    run->code.now_ms = pawl_get_int(text, "", now);
    run_free_value(run, text);
    return run->code.now_ms;
}

const char *pawl_uuid(pawl_run *run)
{
    if (!run_is_inside(run))
        return "";
    char *text = run_alloc(run, ID_TEXT_SIZE + 2);
    if (id_uuid7(text + 1, host_now_ms(run->host), run->host->random) != 0)
        run_trouble(run, PAWL_STORAGE, "the system gives no randomness");
    text[0] = '"';
    text[ID_TEXT_SIZE] = '"';
    text[ID_TEXT_SIZE + 1] = '\0';
    const char *json = recorded_value(run, OP_UUID, slice_of(text));
    return run_json_text(run, slice_of(json));
}

uint64_t pawl_random(pawl_run *run)
{
    if (!run_is_inside(run))
        return 0;
    const char *text =
        recorded_value(run, OP_RANDOM, run_number(run, (int64_t)host_chance(run->host)));
    int64_t number = pawl_get_int(text, "", 0);
    run_free_value(run, text);
    return (uint64_t)number;
}

int pawl_patch(pawl_run *run, const char *name)
{
    if (!run_is_inside(run))
        return 0;
    const replay_row *row;
    slice s = ops_own_name(run, name, "name of the patch");
    replay_result result = journal_op(run, OP_PATCH, s, &row);
    if (result == REPLAY_NEW)
        journal_record(run, OP_PATCH, s, SLICE_LIT("true"));
    return result != REPLAY_PASSED; /* RULE a-patch-that-was-passed-is-not-taken */
}

/* ---- Waiting ---- */

static void record_fired(pawl_future *f)
{
    journal_arrive(f->run, OP_FIRED, f->op, SLICE_LIT("null"));
}

static void end_sleep(pawl_future *f, const replay_row *row)
{
    (void)row;
    if (f->timer.due_ms > f->run->code.now_ms)
        f->run->code.now_ms = f->timer.due_ms;
    future_answer(f, PAWL_OK, "null");
}

static const future_kind SLEEP = {.due = record_fired, .arrived = end_sleep};

/* Begins a sleep that ends at `at_ms`. `not_before_ns` is future_not_before() of a duration that
 * begins now; 0: the sleep ends at a date. */
static pawl_future *sleep_until(pawl_run *run, int64_t at_ms, int64_t not_before_ns)
{
    const replay_row *row;
    int64_t op;
    if (journal_op(run, OP_SLEEP, SLICE_LIT(""), &row) == REPLAY_NEW) {
        slice text = run_number(run, at_ms);
        op = journal_record(run, OP_SLEEP, SLICE_LIT(""), text);
        run_free_value(run, text.at);
    } else {
        op = row->seq;
        not_before_ns = 0;
        const char *text = run_text(run, row->data);
        at_ms = pawl_get_int(text, "", at_ms); /* RULE 2-a-sleep-ends-when-its-row-says */
        run_free_value(run, text);
    }
    pawl_future *f = future_new(run, &SLEEP, OP_SLEEP, op);
    future_due_at(f, at_ms);
    f->timer.due_ms = at_ms;
    f->not_before_ns = not_before_ns;
    return f;
}

static int64_t deadline_after(pawl_run *run, int64_t ms)
{
    int64_t now = host_up_ms(run->host);
    if (ms < 0)
        run_trouble(run, PAWL_INVALID, "pawl_sleep() of a negative duration");
    return ms > INT64_MAX - now ? INT64_MAX : now + ms;
}

static pawl_future *sleep_for(pawl_run *run, int64_t ms)
{
    int64_t at_ms = deadline_after(run, ms);
    return sleep_until(run, at_ms, future_not_before(run, ms));
}

static pawl_code await_sleep(pawl_future *f)
{
    future_wait_for(f);
    future_release(f);
    return PAWL_OK;
}

void ops_rest(pawl_run *run, int64_t at_ms, int64_t not_before_ns)
{
    await_sleep(sleep_until(run, at_ms, not_before_ns));
}

pawl_code pawl_sleep_until(pawl_run *run, int64_t at_ms)
{
    return run_is_inside(run) ? await_sleep(sleep_until(run, at_ms, 0)) : PAWL_MISUSE;
}

pawl_code pawl_sleep(pawl_run *run, int64_t ms)
{
    return run_is_inside(run) ? await_sleep(sleep_for(run, ms)) : PAWL_MISUSE;
}

pawl_future *pawl_sleep_until_later(pawl_run *run, int64_t at_ms)
{
    return run_is_inside(run) ? sleep_until(run, at_ms, 0) : NULL;
}

pawl_future *pawl_sleep_later(pawl_run *run, int64_t ms)
{
    return run_is_inside(run) ? sleep_for(run, ms) : NULL;
}

/* ---- Ending and cleaning up ---- */

const char *pawl_fail(pawl_run *run, const char *name, const char *format, ...)
{
    if (!run_is_inside(run))
        return NULL;
    char text[1024];
    va_list args;
    va_start(args, format);
    text_print(text, sizeof text, format, args);
    va_end(args);
    cleanup_fail(run, run_text(run, ops_name(run, name, "name of the failure")),
                 run_text(run, slice_of(text)), "");
}

pawl_code pawl_defer(pawl_run *run, void (*fn)(void *arg), void *arg)
{
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    if (!fn)
        run_trouble(run, PAWL_INVALID, "pawl_defer() of NULL");
    run_defer *d = malloc(sizeof *d);
    if (!d) {
        fn(arg);
        run_nomem(run);
    }
    *d = (run_defer){run->code.defers, fn, arg};
    run->code.defers = d;
    return PAWL_OK;
}

/* Counts a log line, and returns 1 if it was written to the log before: the fiber may have been
 * dropped since, with nothing recorded behind the line. */
static int was_logged(pawl_run *run)
{
    int64_t seq = replay_seq(run->journal.replay);
    run->code.line = (run_spot){seq, seq == run->code.line.seq ? run->code.line.number + 1 : 1};
    return seq == run->code.told.seq && run->code.line.number <= run->code.told.number;
}

/* A log line is not in the journal. It is kept in the draft when the function gets to it for the
 * first time, and is written to the log by the next commit. */
pawl_code pawl_log(pawl_run *run, int level, const char *format, ...)
{
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    if (!replay_is_new(run->journal.replay) || was_logged(run))
        return PAWL_OK;
    char text[1024];
    va_list args;
    va_start(args, format);
    text_print(text, sizeof text, format, args);
    va_end(args);
    /* RULE C4-log-lines-wait-for-their-commit */
    run_log_line(run, level < 0 || level > 3 ? LOG_INFO : (log_level)level, text);
    return PAWL_OK;
}

/* ---- About the run ---- */

pawl_code pawl_run_error(pawl_run *run)
{
    return run ? PAWL_OK : PAWL_INVALID;
}

const char *pawl_run_id(pawl_run *run)
{
    return run ? run->id : "";
}

const char *pawl_run_workflow(pawl_run *run)
{
    return run ? run->workflow->name : "";
}

const char *pawl_run_version(pawl_run *run)
{
    return run ? run->version : "";
}

int64_t pawl_run_generation(pawl_run *run)
{
    return run ? run->generation : 0;
}

void *pawl_arg(pawl_run *run)
{
    return run ? run->workflow->arg : NULL;
}

/* ---- Memory and values ---- */

void *pawl_alloc(pawl_run *run, size_t size)
{
    return run_is_inside(run) ? run_alloc(run, size) : NULL;
}

pawl_code pawl_drop(pawl_run *run, const void *memory)
{
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    if (!memory)
        return PAWL_OK;
    if (future_is_one(run, memory))
        return future_drop(run, memory) ? PAWL_OK : PAWL_INVALID;
    return future_drop_value(run, memory) ? PAWL_OK : PAWL_INVALID;
}
