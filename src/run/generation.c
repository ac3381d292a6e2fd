/* The statements by which a run begins a new generation (continue-as-new): the same row, a fresh
 * journal. Also those by which a run begins its clean-ups.
 *
 * What stays is what belongs to the run and not to its journal: messages, receipts, state, status,
 * the deadline, the link to its parent. The old generation keeps its journal, with its input as the
 * first row, so that it can be read; a start that is repeated is compared with the input of the
 * first generation. */
#include <stdlib.h>
#include <string.h>

#include "run/cleanup.h"

static const db_sql FAILING = {"UPDATE {runs} SET phase = {FAILING}, wake_at = $4, updated_at = $4,"
                               " status = CASE WHEN $6 > 0 THEN $5 ELSE status END,"
                               " status_seq = status_seq + $6"
                               " WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING watched",
                               "kiiiti"};

static const db_sql AGAIN = {
    "UPDATE {runs} SET phase = {LIVE}, generation = generation + 1, version = $4, input = $5,"
    " owner = $6, wake_at = $7, updated_at = $7, claims = 1, claimed_seq = 0,"
    " status = CASE WHEN $9 > 0 THEN $8 ELSE status END,"
    " status_seq = status_seq + $9"
    " WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING watched",
    "kiitbiiti"};

static const db_sql OVER = {
    "INSERT INTO {generations} (run, generation, version, phase, started_at, finished_at)"
    " VALUES ($1, $2, $3, {GENERATION_CONTINUED},"
    " coalesce((SELECT max(g.finished_at) FROM {generations} g WHERE g.run = $1),"
    " (SELECT r.created_at FROM {runs} r WHERE r.run = $1), $4), $4)",
    "iiti"};

static db_value status_of(const run_status *status)
{
    return status->text.at ? db_text(status->text) : db_null();
}

int cleanup_add_failing(pawl_run *run)
{
    const run_lease *h = &run->lease;
    const db_value values[] = {db_int(h->run),
                               db_int(h->owner),
                               db_int(h->fence),
                               db_int(host_now_ms(run->host)),
                               status_of(&run->draft.status),
                               db_int(run->draft.status.count)};
    run->draft.turn_end_stmt = unit_guard(run->draft.unit, &FAILING, "fence",
                                          unit_key("runs", h->run), values, DB_COUNT(values));
    run_note(run->draft.unit, db_int(h->run), host_now_ms(run->host));
    run->draft.status_rides = 1;
    return 1;
}

static void add_start(pawl_run *run, int64_t generation, slice input, int64_t now_ms)
{
    run_entry e = {.run = run->lease.run,
                   .generation = generation,
                   .seq = 1,
                   .kind = OP_STARTED,
                   .name = SLICE_LIT(""),
                   .at_ms = now_ms,
                   .data = {arena_copy(run->draft.arena, input), input.size}};
    if (e.data.at)
        run_append(run->draft.unit, &e);
    else
        run->draft.unit->broken_build = 1;
}

static slice copy_into_unit(pawl_run *run, const char *text)
{
    slice s = slice_of(text);
    s.at = arena_copy(run->draft.arena, s);
    if (!s.at)
        run->draft.unit->broken_build = 1;
    return s;
}

/* Returns the workflow of the version that the function has asked for, or the newest one here;
 * NULL: it is not registered here. Sets *version to the version for the row of the run; "": any. */
static const workflow *next_workflow(pawl_run *run, const char **version)
{
    registry *r = run->host->registry;
    const char *name = run->workflow ? run->workflow->name : "";
    const workflow *w = registry_workflow(r, name, run->code.end.version);
    *version = w ? w->version : run->code.end.version ? run->code.end.version : "";
    return w;
}

int generation_add(pawl_run *run)
{
    const run_lease *h = &run->lease;
    unit *u = run->draft.unit;
    int64_t now = host_now_ms(run->host);
    const char *version;
    const workflow *w = run->code.end.next = next_workflow(run, &version);
    slice input = copy_into_unit(run, run->code.end.value);
    int small = input.size <= RUN_SMALL;
    const db_value over[] = {db_int(h->run), db_int(run->generation),
                             db_text(copy_into_unit(run, run->version)), db_int(now)};
    unit_write(u, &OVER, unit_key("generations", h->run), over, DB_COUNT(over));
    if (run->input)
        add_start(run, run->generation, slice_of(run->input), now);
    if (!small)
        add_start(run, run->generation + 1, input, now);
    const db_value values[] = {db_int(h->run),
                               db_int(h->owner),
                               db_int(h->fence),
                               db_text(copy_into_unit(run, version)),
                               small ? db_bytes(input) : db_null(),
                               db_int(w ? h->owner : 0),
                               db_int(now),
                               status_of(&run->draft.status),
                               db_int(run->draft.status.count)};
    run->draft.turn_end_stmt =
        unit_guard(u, &AGAIN, "fence", unit_key("runs", h->run), values, DB_COUNT(values));
    run_note(u, db_int(h->run), now);
    run->draft.status_rides = 1;
    return !u->broken_build;
}

int generation_begun(pawl_run *run)
{
    const workflow *w = run->code.end.next;
    slice input = slice_of(run->code.end.value);
    char *copy = w ? strdup(w->version) : NULL;
    char *kept = input.size <= RUN_SMALL ? strdup(input.at) : NULL;
    if (!copy || (input.size <= RUN_SMALL && !kept)) {
        free(copy);
        free(kept);
        return 0;
    }
    free(run->version);
    free(run->input);
    run->version = copy;
    run->input = kept;
    run->workflow = w;
    run->generation++;
    run->failing = 0;
    run->journal.is_fresh = kept != NULL;
    run->journal.durable = 0;
    run->code.told = (run_spot){0, 0};
    run->attempt.expired_op = run->attempt.expired = 0;
    return 1;
}
