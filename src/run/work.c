/* Work functions: making one attempt, on a thread's own stack, and the pawl_work_…() calls of the
 * function.
 *
 * A run uses its `pawl_work` again for the next attempt. work_open() empties the memory of the last
 * one, whose result was recorded before. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/text.h"
#include "run/futures.h"

/* ---- Failures as text ---- */

static void put_text(buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    value_write(b, format, args);
    va_end(args);
}

/* Returns {"name":…,"message":…} in the arena of the draft. If another attempt follows, the text
 * also has the time at which it is due, and the time at which the first attempt began. If none
 * follows and the attempt ran out of time, the text also has the code PAWL_TIMEOUT. */
slice work_error(pawl_run *run, const pawl_work *w, int64_t next_ms)
{
    buf b;
    buf_init(&b, PAWL_MAX_PAYLOAD);
    if (next_ms >= 0)
        put_text(&b, "{'name':%s,'message':%s,'next':%" PRId64 ",'began':%" PRId64 "}",
                 w->error_name, w->error_message, next_ms, w->began_ms);
    /* RULE A6-a-name-says-nothing-about-time */
    else if (w->expired) /* the name is not asked, since a function may call its own failures
                            "timeout" */
        put_text(&b, "{'name':%s,'message':%s,'code':%d}", w->error_name, w->error_message,
                 (int)PAWL_TIMEOUT);
    else
        put_text(&b, "{'name':%s,'message':%s}", w->error_name, w->error_message);
    slice out = {arena_copy(run->draft.arena, (slice){b.at, b.size}), b.size};
    buf_free(&b);
    return out;
}

slice work_not_begun(pawl_run *run, int64_t next_ms, int64_t began_ms)
{
    buf b;
    buf_init(&b, PAWL_MAX_PAYLOAD);
    put_text(&b, "{'attempts':0,'next':%" PRId64 ",'began':%" PRId64 "}", next_ms, began_ms);
    slice out = {b.failed ? NULL : arena_copy(run->draft.arena, (slice){b.at, b.size}), b.size};
    buf_free(&b);
    return out;
}

/* ---- Calling ---- */

void work_failed(pawl_work *w, int permanent, const char *name, const char *message)
{
    w->failed = 1;
    w->permanent = permanent;
    w->error_name = name;
    w->error_message = message;
}

static void clear_attempt(pawl_work *w, pawl_run *run, arena *memory)
{
    *w = (pawl_work){.run = run, .host = run->host, .memory = memory, .after_ms = -1};
    w->fence = run->lease.fence;
}

pawl_work *work_new(pawl_run *run)
{
    arena *memory = arena_new((size_t)8 * PAWL_MAX_PAYLOAD);
    pawl_work *w = memory ? calloc(1, sizeof *w) : NULL;
    if (w)
        clear_attempt(w, run, memory);
    else
        arena_free(memory);
    return w;
}

int work_open(pawl_run *run)
{
    pawl_work *w = run->attempt.work;
    if (w) {
        arena_reset(w->memory);
        clear_attempt(w, run, w->memory);
    } else {
        run->attempt.work = work_new(run);
    }
    return run->attempt.work != NULL;
}

void work_free(pawl_work *w)
{
    if (!w)
        return;
    arena_free(w->memory);
    free(w);
}

/* ---- Results that outlive the fiber ---- */

void work_keep(pawl_run *run)
{
    run_attempt *a = &run->attempt;
    /* RULE L5-a-result-outlives-the-fiber-that-waits-for-it */
    if (!a->is_called || !a->work)
        return;
    a->work->next = a->saved;
    a->saved = a->work;
    a->work = NULL;
}

int work_take_kept(pawl_run *run, int64_t op, int64_t attempt)
{
    pawl_work **at = &run->attempt.saved, *w;
    while ((w = *at) != NULL && (w->op != op || w->attempt != attempt))
        at = &w->next;
    if (!w)
        return 0;
    *at = w->next;
    work_free(run->attempt.work);
    run->attempt.work = w;
    run->attempt.is_called = 1;
    return 1;
}

int work_is_kept(const pawl_run *run, int64_t op)
{
    for (const pawl_work *w = run->attempt.saved; w; w = w->next) {
        const pawl_future *f = op ? NULL : replay_owner_of(run->journal.replay, w->op);
        if (op ? w->op == op : f && !f->over && !f->is_cancelled)
            return 1;
    }
    return 0;
}

void work_forget_kept(pawl_run *run)
{
    run->attempt.is_called = 0;
    for (pawl_work *w; (w = run->attempt.saved) != NULL;) {
        run->attempt.saved = w->next;
        work_free(w);
    }
}

/* ---- Results ---- */

/* Returns the message for a NULL, which often comes from a pawl_work_json() that has failed. */
static const char *words_for_null(const pawl_work *w)
{
    static const char PLAIN[] = "the work function returned NULL";
    char text[256];
    buf b;
    if (!w->json_wrong) /* RULE work-that-could-not-write-json-says-so */
        return PLAIN;
    buf_init_fixed(&b, text, sizeof text);
    buf_printf(&b, "%s. A pawl_work_json() failed before: %.160s", PLAIN, w->json_wrong);
    const char *words = arena_copy(w->memory, slice_of(text));
    return words ? words : PLAIN;
}

/* The result must be JSON: otherwise the next replay would fail on it. */
static void check_value(pawl_work *w)
{
    size_t at;
    size_t size = w->value ? strnlen(w->value, (size_t)PAWL_MAX_PAYLOAD + 1) : 0;
    if (!w->value)
        work_failed(w, 0, "null", words_for_null(w));
    else if (value_check((slice){w->value, size}, &at) != PAWL_OK)
        work_failed(w, 1, "invalid",
                    "the work function returned something that is not JSON, or too large");
}

void work_call(pawl_work *w)
{
    w->value = w->transacts ? w->transacts(w, w->native, w->input) : w->fn(w, w->input);
    if (!w->failed)
        check_value(w);
}

int work_is_over(const pawl_work *w)
{
    clock_source *clock = w->host->clock;
    return w->over_ns != INT64_MAX && clock->mono_ns(clock) >= w->over_ns;
}

void work_expire(pawl_work *w)
{
    w->expired = 1;
    work_failed(w, 0, "timeout", "the attempt has taken longer than its limit");
}

void work_misused(pawl_work *w)
{
    work_failed(w, 1, "misuse", "the work function called pawl on the run that waits for it");
}

/* The arguments are copied, since the run may be gone when the function reads them. */
int work_give(pawl_run *run, pawl_work *w, const char *name, const char *input)
{
    w->name = arena_copy(w->memory, slice_of(name));
    w->input = arena_copy(w->memory, slice_of(input));
    w->run_id = arena_copy(w->memory, slice_of(run->id));
    w->key.run = run->lease.run;
    w->key.generation = run->generation;
    return w->name && w->input && w->run_id;
}

/* ---- What the function may say ---- */

static const char *__attribute__((format(printf, 2, 0)))
print_message(pawl_work *w, const char *format, va_list args)
{
    char text[1024];
    text_print(text, sizeof text, format, args);
    const char *copy = arena_copy(w->memory, slice_of(text));
    return copy ? copy : "out of memory";
}

const char *pawl_work_fail(pawl_work *w, int kind, const char *name, const char *format, ...)
{
    if (!w)
        return NULL;
    va_list args;
    va_start(args, format);
    const char *message = print_message(w, format, args);
    va_end(args);
    char clipped[PAWL_MAX_NAME + 1];
    text_clip(clipped, sizeof clipped, slice_of(name));
    const char *copy = name ? arena_copy(w->memory, slice_of(clipped)) : NULL;
    work_failed(w, kind == PAWL_PERMANENT, copy ? copy : "failed", message);
    return NULL;
}

const char *pawl_work_retry(pawl_work *w, int64_t ms, const char *format, ...)
{
    if (!w)
        return NULL;
    va_list args;
    va_start(args, format);
    const char *message = print_message(w, format, args);
    va_end(args);
    work_failed(w, 0, "retry", message);
    w->after_ms = ms < 0 ? 0 : ms;
    return NULL;
}

pawl_code pawl_work_log(pawl_work *w, int level, const char *format, ...)
{
    if (!w)
        return PAWL_INVALID;
    char text[1024];
    va_list args;
    va_start(args, format);
    text_print(text, sizeof text, format, args);
    va_end(args);
    LOG(w->host->log, level < 0 || level > 3 ? LOG_INFO : (log_level)level, "work",
        LOG_TEXT("run", w->run_id), LOG_TEXT("name", w->name), LOG_TEXT("text", text));
    return PAWL_OK;
}

/* ---- What the function may ask ---- */

const char *pawl_work_key(pawl_work *w)
{
    if (!w)
        return "";
    buf b;
    buf_init_fixed(&b, w->key.text, sizeof w->key.text);
    buf_printf(&b, "%s.%lld.%lld.%lld", w->host->origin, (long long)w->key.run,
               (long long)w->key.generation, (long long)w->op);
    return w->key.text;
}

int pawl_work_cancelled(pawl_work *w)
{
    return !w || atomic_load(&w->cancelled) || work_is_over(w) || host_is_stopping(w->host);
}

int64_t pawl_work_fence(pawl_work *w)
{
    return w ? w->fence : 0;
}

int64_t pawl_work_attempt(pawl_work *w)
{
    return w ? w->attempt : 0;
}

const char *pawl_work_name(pawl_work *w)
{
    return w ? w->name : "";
}

const char *pawl_work_run_id(pawl_work *w)
{
    return w ? w->run_id : "";
}

void *pawl_work_arg(pawl_work *w)
{
    return w ? w->arg : NULL;
}

/* ---- Memory and values of the function ---- */

void *pawl_work_alloc(pawl_work *w, size_t size)
{
    return w ? arena_alloc(w->memory, size) : NULL;
}

const char *pawl_work_json(pawl_work *w, const char *format, ...)
{
    if (!w)
        return NULL;
    va_list args;
    error err; /* large, and filled in only where something is wrong */
    va_start(args, format);
    const char *text = value_write_arena(w->memory, &err, format, args);
    va_end(args);
    if (!text)
        w->json_wrong = arena_copy(w->memory, slice_of(err.message));
    return text;
}

const char *pawl_work_part(pawl_work *w, const char *json, const char *pointer)
{
    slice part;
    if (!w || value_get(json, pointer, &part) == PAWL_NOTHING)
        return NULL;
    return arena_copy(w->memory, part);
}

const char *pawl_work_text(pawl_work *w, const char *json, const char *pointer,
                           const char *fallback)
{
    slice part;
    if (!w || value_get(json, pointer, &part) != PAWL_STRING)
        return fallback;
    const char *text = value_text(w->memory, part);
    return text ? text : fallback;
}

static int64_t number_in(slice data, slice pointer, int64_t otherwise)
{
    slice part;
    int64_t number;
    if (value_find(data, pointer, &part) != PAWL_NUMBER || value_int(part, &number) != 0)
        return otherwise;
    return number;
}

int64_t work_tried(slice data)
{
    return number_in(data, SLICE_LIT("/attempts"), 1);
}

int64_t work_next_ms(slice data)
{
    return number_in(data, SLICE_LIT("/next"), 0);
}

int64_t work_began_ms(slice data, int64_t otherwise)
{
    return number_in(data, SLICE_LIT("/began"), otherwise);
}
