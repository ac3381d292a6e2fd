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

/* ---- The sources of arrivals, which a wait polls ---- */

static int look_at_jobs(pawl_run *run)
{
    if (!work_is_kept(run, 0)) /* RULE L5-what-is-kept-is-recorded-before-a-run-leaves */
        jobs_leave_if_due(run);
    return jobs_collect(run);
}

static int look_at_cancel(pawl_run *run)
{
    /* RULE L5-what-is-kept-is-recorded-before-a-cancel */
    if (!work_is_kept(run, 0))
        cleanup_check(run);
    return 0;
}

static int call_in_line(pawl_run *run)
{
    return call_do(run);
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

pawl_run *run_new(const run_host *host, const run_facts *facts)
{
    arena *own = arena_new(0);
    pawl_run *run = own ? arena_alloc(own, sizeof *run) : NULL;
    struct run_slot *slot = run ? arena_alloc(own, host->slot_size) : NULL;
    if (!slot) {
        arena_free(own);
        return NULL;
    }
    run->own = own;
    run->host = host;
    run->slot = slot;
    run->lease = facts->lease;
    run->generation = facts->generation;
    run->inbox.known = facts->mail;
    run->parent.run = facts->parent;
    run->parent.generation = facts->parent_generation;
    run->parent.op = facts->parent_op;
    run->deadline_ms = facts->deadline_ms ? facts->deadline_ms : RUN_NEVER;
    run->failing = facts->failing;
    run->workflow = facts->workflow;
    run->journal.is_fresh = facts->fresh;
    run->draft.turn_end_stmt = -1;
    run->code.sources = SOURCES;
    run->code.take_in = jobs_take_in;
    run->code.want = WANT_PAGE;
    run->id = arena_copy(own, facts->id);
    run->version = strndup(facts->version.at, facts->version.size);
    run->input = facts->input.at ? strndup(facts->input.at, facts->input.size) : NULL;
    if (!run->id || !run->version || (facts->input.at && !run->input)) {
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
    work_forget_kept(run);
    free(run->version);
    free(run->input);
    arena_free(run->own);
}

/* ---- The function ---- */

static void call_function(fiber *f, void *arg)
{
    pawl_run *run = arg;
    const replay_row *row;
    (void)f;
    journal_start(run, &row);
    if (run->failing)
        cleanup_run(run);
    /* A large input is not in run->input but in the journal. It is copied into memory that is freed
     * with the fiber, so that a run without a fiber needs little memory. */
    const char *input = run->input ? run->input : run_text(run, row->data);
    const char *value = run->workflow->fn(run, input);
    /* A function that returns NULL fails its run. But after a failed pawl_json() the NULL is most
     * likely the result of that: then ops_json() has the run held. */
    /* RULE json-that-fails-at-the-end-holds, a-null-of-the-workflows-own-fails */
    if (!value && !run->code.json_wrong)
        cleanup_fail(run, "null", "the workflow function returned NULL", "");
    slice kept = ops_json(run, value, "result of the workflow", run->workflow->name);
    run->code.end = (run_result){.phase = PHASE_DONE, .value = run_text(run, kept)};
    cleanup_leave(run);
}

int run_warm(pawl_run *run, fiber_pool *pool)
{
    assert(!run->code.fiber);
    run->journal.arena = arena_new(0);
    run->journal.replay =
        run->journal.arena ? replay_new(run->journal.arena, run->generation) : NULL;
    run->draft.arena = arena_new(0);
    run->code.fiber =
        run->journal.replay && run->draft.arena ? fiber_new(pool, call_function, run) : NULL;
    if (!run->code.fiber) {
        run_cool(run);
        return 0;
    }
    run->journal.fed = 0;
    run->journal.fed_all = 0;
    run->code.now_ms = 0;
    run->code.misused = 0;
    run->code.collects = 0;
    run->draft.handed_in = 0;
    run->draft.seq = 0;
    run->draft.lines = NULL;
    run->code.line = (run_spot){0, 0};
    run->code.end = (run_result){.phase = PHASE_LIVE};
    run->draft.submitter = (submitter){0};
    return 1;
}

static void free_values(pawl_run *run)
{
    size_t cursor = 0;
    uint64_t address;
    void *owner;
    while (map_next(&run->code.values, &cursor, &address, &owner))
        free((void *)(uintptr_t)address); // NOLINT(performance-no-int-to-ptr)
    map_free(&run->code.values);
}

void run_cool(pawl_run *run)
{
    fiber_free(run->code.fiber);
    run->code.fiber = NULL;
    inbox_forget(run);
    jobs_forget_new(run);
    futures_free(&run->futures);
    cross_run_committed(run, 0);
    run->journal.arriving = NULL;
    run->journal.arrivals = run->journal.arrivals_room = 0;
    run->code.cancelled = run->code.sender = run->code.json_wrong = NULL;
    run->cleanups = run->finallys = 0;
    run->draft.unit_children = 0;
    while (run->code.defers) {
        run_defer *d = run->code.defers;
        run->code.defers = d->next;
        host_deferring(run->host, run, 1);
        d->fn(d->arg); /* RULE clean-ups-are-called-when-a-fiber-goes */
        host_deferring(run->host, run, 0);
        free(d);
    }
    free_values(run);
    work_keep(run);
    work_free(run->attempt.work);
    run->attempt.work = NULL;
    run->attempt.is_called = 0;
    state_drop(run);
    host_forget_unit(run->host, run);
    arena_free(run->journal.arena);
    arena_free(run->draft.arena);
    arena_free(run->journal.page);
    run->journal.arena = run->draft.arena = run->journal.page = NULL;
    run->journal.is_ahead = 0;
    run->journal.ahead = NULL;
    run->journal.is_owned = 0; /* RULE 4-a-run-that-was-cooled-asks-whose-it-is */
    run->code.want = WANT_PAGE;
    run->journal.replay = NULL;
    run->draft.unit = NULL;
    run->names.first = NULL;
    run->names.known = run->names.failed = 0;
    run_forget_status(run);
    run->draft.kept = 0;
}
