/* A workflow function on its fiber: what it may ask for, how it is left, and its memory.
 *
 * Each piece of memory that a function gets is in a map (run_code.values), so that a loop of a
 * million steps, or a function that has waited for a hundred thousand futures, can free single
 * pieces (pawl_drop()). What is still in the map is freed with the fiber. */
#include "run/code.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "run/run.h"

int run_is_inside(pawl_run *run)
{
    if (!run)
        return 0;
    /* RULE a-run-belongs-to-its-function, C8-a-run-does-not-answer-in-a-child */
    if (run->code.fiber && fiber_is_inside(run->code.fiber) && !host_is_forked(run->host))
        return 1;
    run->code.misused = 1;
    return 0;
}

void run_ask(pawl_run *run, run_want want)
{
    run->code.want = want;
    if (want == WANT_WAIT)
        fiber_park(run->code.fiber);
    else
        fiber_pause(run->code.fiber);
}

_Noreturn void run_leave(pawl_run *run)
{
    for (;;) {
        run_ask(run, WANT_END);
        if (run->code.collects)
            run->code.take_in(run);
    }
}

_Noreturn void run_trouble(pawl_run *run, pawl_code code, const char *format, ...)
{
    run->code.end = (run_result){.phase = PHASE_LIVE, .trouble = code};
    va_list args;
    va_start(args, format);
    text_print(run->code.end.note, sizeof run->code.end.note, format, args);
    va_end(args);
    text_drop_empty_parts(run->code.end.note);
    run_leave(run);
}

_Noreturn void run_nomem(pawl_run *run)
{
    run_trouble(run, PAWL_NOMEM, "out of memory");
}

_Noreturn void run_held_for(pawl_run *run, int64_t reason, const char *format, ...)
{
    run->code.end = (run_result){.phase = PHASE_LIVE, .trouble = PAWL_HELD, .held = reason};
    va_list args;
    va_start(args, format);
    text_print(run->code.end.note, sizeof run->code.end.note, format, args);
    va_end(args);
    text_drop_empty_parts(run->code.end.note);
    run_leave(run);
}

_Noreturn void run_lacks(pawl_run *run, const char *work)
{
    run->code.end = (run_result){.phase = PHASE_LIVE, .trouble = PAWL_HELD, .held = HELD_VERSION};
    run->code.end.lacks = work;
    buf b;
    buf_init_fixed(&b, run->code.end.note, sizeof run->code.end.note);
    buf_printf(&b, "node %lld, which drove the run, does not have the work function %s",
               (long long)run->lease.owner, work);
    run_leave(run);
}

static uint64_t address_of(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

void *run_alloc(pawl_run *run, size_t size)
{
    void *memory = size < PTRDIFF_MAX ? calloc(1, size ? size : 1) : NULL;
    if (memory && map_put(&run->code.values, address_of(memory), memory) == 0)
        return memory;
    free(memory);
    run_trouble(run, PAWL_NOMEM, "%zu bytes for the workflow function", size);
}

const char *run_text(pawl_run *run, slice text)
{
    char *at = run_alloc(run, text.size + 1);
    if (text.size)
        memcpy(at, text.at, text.size);
    return at;
}

void run_free_value(pawl_run *run, const void *memory)
{
    if (memory && map_take(&run->code.values, address_of(memory)))
        free((void *)(uintptr_t)memory);
}

void run_own_value(pawl_run *run, const char *value, pawl_future *f)
{
    if (map_get(&run->code.values, address_of(value)))
        map_put(&run->code.values, address_of(value), f ? (void *)f : (void *)(uintptr_t)value);
}

void run_log_line(pawl_run *run, int level, const char *text)
{
    run_line *line = arena_alloc(run->draft.arena, sizeof *line);
    const char *copied = arena_copy(run->draft.arena, slice_of(text));
    if (!line || !copied)
        run_nomem(run);
    *line = (run_line){NULL, level, copied};
    if (run->draft.lines)
        run->draft.last_line->next = line;
    else
        run->draft.lines = line;
    run->draft.last_line = line;
}

void run_tell_lines(pawl_run *run)
{
    for (run_line *l = run->draft.lines; l; l = l->next)
        LOG(run->host->log, (log_level)l->level, "run", LOG_TEXT("run", run->id),
            LOG_TEXT("text", l->text));
    if (run->draft.lines)
        run->code.told = run->code.line;
    run->draft.lines = NULL;
}
