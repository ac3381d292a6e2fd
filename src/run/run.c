/* Runs in memory: made from a row, warmed, cooled, freed. This file puts the parts of a run
 * together and knows all of them; no other file of this folder calls it. */
#include "run/run.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "run/call.h"
#include "run/cleanup.h"
#include "run/cross_run.h"
#include "run/futures.h"
#include "run/inbox.h"
#include "run/jobs.h"
#include "run/ops.h"
#include "run/state.h"
#include "run/wait.h"

/* ---- What a wait asks ---- */

static int look_at_jobs(pawl_run *run)
{
    jobs_leave_if_due(run);
    int returned = jobs_collect(run);
    return journal_arrive_all(run) || returned;
}

static int look_at_cancel(pawl_run *run)
{
    cleanup_check(run);
    return 0;
}

static int call_in_line(pawl_run *run)
{
    if (!call_do(run))
        return 0;
    journal_arrive_all(run);
    return 1;
}

static int start_jobs(pawl_run *run)
{
    jobs_start(run);
    return 0;
}

static const arrival_source SOURCES[] = {
    {"jobs that have returned", look_at_jobs},
    {"the inbox", inbox_look},
    {"other runs", cross_run_look},
    {"the cancel, and the deadline", look_at_cancel},
    {"timers that are due", wait_fire},
    {"calls on this thread", call_in_line},
    {"jobs that can begin", start_jobs},
    {NULL, NULL},
};

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
    run->sources = SOURCES;
    run->take_in = jobs_take_in;
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
        cleanup_fail(run, "null", "the workflow function returned NULL", "");
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
