/* Runs in memory: made from a row, warmed, cooled, freed; and the memory of their functions.
 *
 * What a function gets is in a map of its own, piece by piece, so that a loop of a million steps,
 * or a function that has waited for a hundred thousand futures, can give each piece back
 * (pawl_drop). All of it goes with the fiber. */
#include "run/run.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "run/cleanup.h"
#include "run/cross_run.h"
#include "run/futures.h"
#include "run/inbox.h"
#include "run/jobs.h"
#include "run/ops.h"
#include "run/state.h"

/* ---- Making and freeing ---- */

static char *copy(arena *a, slice s)
{
    return arena_copy(a, s);
}

pawl_run *run_new(const run_host *host, const run_facts *facts)
{
    arena *own = arena_new(0);
    pawl_run *run = own ? arena_alloc(own, sizeof *run) : NULL;
    if (!run) {
        arena_free(own);
        return NULL;
    }
    run->own = own;
    run->host = host;
    run->hold = facts->hold;
    run->generation = facts->generation;
    run->mail = facts->mail;
    run->parent = facts->parent;
    run->parent_generation = facts->parent_generation;
    run->parent_op = facts->parent_op;
    run->deadline_ms = facts->deadline_ms ? facts->deadline_ms : RUN_NEVER;
    run->failing = facts->failing;
    run->workflow = facts->workflow;
    run->fresh = facts->fresh;
    run->claims = facts->claims;
    run->noted = facts->noted;
    run->parked = -1;
    run->want = WANT_PAGE;
    run->id = copy(own, facts->id);
    run->version = strndup(facts->version.at, facts->version.size);
    run->input = facts->input.at ? strndup(facts->input.at, facts->input.size) : NULL;
    if (facts->held_for.at)
        run->held_for = (slice){copy(own, facts->held_for), facts->held_for.size};
    if (!run->id || !run->version || (facts->input.at && !run->input) ||
        (facts->held_for.at && !run->held_for.at)) {
        run_free(run);
        return NULL;
    }
    return run;
}

void run_free(pawl_run *run)
{
    if (!run)
        return;
    jobs_forget(run);
    run_cool(run);
    work_free(run->kept_work);
    free(run->version);
    free(run->input);
    arena_free(run->own);
}

/* ---- The function ---- */

static void enter(fiber *f, void *arg)
{
    pawl_run *run = arg;
    const replay_row *row;
    (void)f;
    journal_start(run, &row);
    if (run->failing)
        cleanup_run(run);
    /* A large one is freed with the fiber: a run that sleeps for long should need little. */
    const char *input = run->input ? run->input : run_text(run, row->data);
    const char *value = run->workflow->fn(run, input);
    /* RULE json-that-fails-at-the-end-holds, a-null-of-the-workflows-own-fails */
    if (!value && !run->json_wrong) /* its own decision; otherwise it is held, as for any NULL */
        run_fail(run, "null", "the workflow function returned NULL", "");
    slice kept = ops_json(run, value, "result of the workflow", run->workflow->name);
    run->end = (run_result){.phase = PHASE_DONE, .value = run_text(run, kept)};
    cleanup_leave(run);
}

int run_warm(pawl_run *run, fiber_pool *pool)
{
    assert(!run->fiber);
    run->log = arena_new(0);
    run->replay = run->log ? replay_new(run->log, run->generation) : NULL;
    run->unit_arena = arena_new(0);
    run->fiber = run->replay && run->unit_arena ? fiber_new(pool, enter, run) : NULL;
    if (!run->fiber) {
        run_cool(run);
        return 0;
    }
    run->fed = 0;
    run->fed_all = 0;
    run->now_ms = 0;
    run->misused = 0;
    run->collects = 0;
    run->handed_in = 0;
    run->lines = NULL;
    run->line = (run_spot){0, 0};
    run->end = (run_result){.phase = PHASE_LIVE};
    run->submitter = (submitter){0};
    return 1;
}

static void forget_values(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t address;
    void *owner;
    while (map_next(&run->values, &cursor, &address, &owner))
        free((void *)(uintptr_t)address); // NOLINT(performance-no-int-to-ptr)
    map_free(&run->values);
}

void run_cool(pawl_run *run)
{
    fiber_free(run->fiber);
    run->fiber = NULL;
    inbox_forget(run);
    jobs_forget_new(run);
    futures_free(&run->futures);
    cross_run_committed(run, 0);
    run->arriving = NULL;
    run->arrivals = run->arrivals_room = 0;
    run->cancelled = run->sender = run->json_wrong = NULL;
    run->cleans = run->finallys = 0;
    run->births = 0;
    while (run->defers) {
        run_defer *d = run->defers;
        run->defers = d->next;
        d->fn(d->arg); /* RULE clean-ups-are-called-when-a-fiber-goes */
        free(d);
    }
    forget_values(run);
    work_free(run->work);
    run->work = NULL;
    run->worked = 0;
    state_drop(run);
    host_forget_unit(run->host, run);
    arena_free(run->log);
    arena_free(run->unit_arena);
    arena_free(run->page);
    run->log = run->unit_arena = run->page = NULL;
    run->want = WANT_PAGE;
    run->replay = NULL;
    run->unit = NULL;
    run->names = NULL;
    run->names_known = run->names_failed = 0;
    run_forget_status(run);
    run->kept = 0;
}

/* ---- On the fiber ---- */

int run_is_inside(pawl_run *run)
{
    if (!run)
        return 0;
    /* RULE a-run-belongs-to-its-function, C8-a-run-does-not-answer-in-a-child */
    if (run->fiber && fiber_is_inside(run->fiber) && !host_is_forked(run->host))
        return 1;
    run->misused = 1;
    return 0;
}

void run_ask(pawl_run *run, run_want want)
{
    run->want = want;
    if (want == WANT_WAIT)
        fiber_park(run->fiber);
    else
        fiber_pause(run->fiber);
}

_Noreturn void run_leave(pawl_run *run)
{
    for (;;) {
        run_ask(run, WANT_END);
        if (run->collects)
            jobs_take_in(run);
    }
}

_Noreturn void run_fail(pawl_run *run, const char *name, const char *message, const char *where)
{
    run->end =
        (run_result){.phase = PHASE_FAILED, .name = name, .message = message, .where = where};
    cleanup_leave(run);
}

_Noreturn void run_trouble(pawl_run *run, pawl_code code, const char *format, ...)
{
    run->end = (run_result){.phase = PHASE_LIVE, .trouble = code};
    va_list args;
    va_start(args, format);
    text_print(run->end.note, sizeof run->end.note, format, args);
    va_end(args);
    run_leave(run);
}

_Noreturn void run_nomem(pawl_run *run)
{
    run_trouble(run, PAWL_NOMEM, "out of memory");
}

_Noreturn void run_held_for(pawl_run *run, int64_t reason, const char *format, ...)
{
    run->end = (run_result){.phase = PHASE_LIVE, .trouble = PAWL_HELD, .held = reason};
    va_list args;
    va_start(args, format);
    text_print(run->end.note, sizeof run->end.note, format, args);
    va_end(args);
    run_leave(run);
}

_Noreturn void run_lacks(pawl_run *run, const char *work)
{
    run->end = (run_result){.phase = PHASE_LIVE, .trouble = PAWL_HELD, .held = HELD_VERSION};
    run->end.lacks = work;
    buf b;
    buf_init_fixed(&b, run->end.note, sizeof run->end.note);
    buf_printf(&b, "node %lld, which drove the run, does not have the work function %s",
               (long long)run->hold.owner, work);
    run_leave(run);
}

static uint64_t address_of(const void *memory)
{
    return (uint64_t)(uintptr_t)memory;
}

void *run_alloc(pawl_run *run, size_t size)
{
    void *memory = size < PTRDIFF_MAX ? calloc(1, size ? size : 1) : NULL;
    if (memory && map_put(&run->values, address_of(memory), memory) == 0)
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
    if (memory && map_take(&run->values, address_of(memory)))
        free((void *)(uintptr_t)memory);
}

void run_own_value(pawl_run *run, const char *value, pawl_future *f)
{
    if (map_get(&run->values, address_of(value)))
        map_put(&run->values, address_of(value), f ? (void *)f : (void *)(uintptr_t)value);
}

int run_release(pawl_run *run, const void *memory)
{
    void *owner = map_get(&run->values, address_of(memory));
    if (!owner)
        return 0;
    if (owner == memory || future_lets_go(owner))
        run_free_value(run, memory);
    return 1;
}

void run_log_line(pawl_run *run, int level, const char *text)
{
    run_line *line = arena_alloc(run->unit_arena, sizeof *line);
    const char *copied = arena_copy(run->unit_arena, slice_of(text));
    if (!line || !copied)
        run_nomem(run);
    *line = (run_line){NULL, level, copied};
    if (run->lines)
        run->last_line->next = line;
    else
        run->lines = line;
    run->last_line = line;
}

void run_tell_lines(pawl_run *run)
{
    for (run_line *l = run->lines; l; l = l->next)
        LOG(run->host->log, (log_level)l->level, "run", LOG_TEXT("run", run->id),
            LOG_TEXT("text", l->text));
    if (run->lines)
        run->told = run->line;
    run->lines = NULL;
}
