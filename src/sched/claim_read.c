/* Making a claim of the row of a run, and the run of the claim. A dormant run is made of its row in
 * the same way. */
#include "sched/claim.h"
#include "sched/sched_internal.h"

void claim_free(claim *c)
{
    run_free(c->run);
    arena_free(c->arena);
}

static slice copy(arena *a, db_value v)
{
    if (v.type == DB_NULL)
        return (slice){NULL, 0};
    return (slice){arena_copy(a, v.s), v.s.size};
}

static int64_t number(db_stmt *row, int column)
{
    db_value v = db_column(row, column);
    return v.type == DB_NULL ? 0 : v.i;
}

/* A run without a version gets the newest one that is registered here. */
static void find_workflow(claim *c)
{
    registry *r = c->sched->options.registry;
    const char *version = c->version.size ? c->version.at : NULL;
    const workflow *w = registry_workflow(r, c->workflow.at, version);
    c->facts.workflow = w;
    c->facts.version = w ? slice_of(w->version) : c->version;
    c->found.version = c->facts.version;
}

claim *claim_read(sched *s, db_stmt *row)
{
    arena *a = arena_new(0);
    claim *c = a ? arena_alloc(a, sizeof *c) : NULL;
    if (!c) {
        arena_free(a);
        return NULL;
    }
    db_value input = db_column(row, 4), held_for = db_column(row, 9);
    c->sched = s;
    c->arena = a;
    c->unit = unit_new(a);
    c->facts.lease.run = c->found.run = db_column(row, 0).i;
    c->facts.id = copy(a, db_column(row, 1));
    c->workflow = copy(a, db_column(row, 2));
    c->version = copy(a, db_column(row, 3));
    c->facts.input = copy(a, input);
    c->found.owner = db_column(row, 5).i;
    c->found.held = db_column(row, 6).i;
    c->wake_ms = db_column(row, 7).i;
    c->claims = db_column(row, 8).i;
    c->held_for = copy(a, held_for);
    c->found.seq = db_column(row, 10).i;
    c->facts.failing = db_column(row, 11).i == PHASE_FAILING;
    c->facts.parent = number(row, 12);
    c->facts.parent_generation = number(row, 13);
    c->facts.parent_op = number(row, 14);
    c->facts.deadline_ms = number(row, 15);
    c->found.generation = number(row, 16);
    c->noted = number(row, 17) != 0;
    if (!c->unit || !c->facts.id.at || !c->workflow.at || !c->version.at ||
        (input.type != DB_NULL && !c->facts.input.at) ||
        (held_for.type != DB_NULL && !c->held_for.at)) {
        claim_free(c);
        return NULL;
    }
    find_workflow(c);
    return c;
}

pawl_run *claim_make_run(const claim *c)
{
    pawl_run *run = run_new(&c->sched->run_host, &c->facts);
    if (!run)
        return NULL;
    run->journal.is_owned = 1;
    run->journal.durable = c->found.seq; /* RULE L8-what-a-claim-has-seen-is-missed */
    run->slot->held = c->found.held;
    if (!c->held_for.at)
        return run;
    run->slot->held_for = (slice){arena_copy(run->own, c->held_for), c->held_for.size};
    if (run->slot->held_for.at)
        return run;
    run_free(run);
    return NULL;
}
