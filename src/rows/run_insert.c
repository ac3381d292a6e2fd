/* The rows of a new run. The row of the run is inserted unless another run has its id; the other
 * rows (attributes, and a large input as row 1 of the journal) depend on that. As a guard, an id
 * that is taken refuses the whole unit. As a try, the other rows take the run's key from the row
 * that the insert returned, so that they are left out if it returned none.
 *
 * If the id is taken, the start is compared with the first generation of the existing run. A small
 * input of that generation is in the run's row while it is the current one, and in the journal
 * afterwards. */
#include "rows/run_insert.h"

#include <assert.h>

#include "base/json_canonical.h"
#include "journal/op.h"

static const db_sql START = {
    "INSERT INTO {runs} (run, tenant, id, workflow, version, owner, fence, wake_at, by, created_at,"
    " updated_at, deadline_at, input, claims, parent, parent_generation, parent_op, mail)"
    " VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8, $9, $9, $10, $11, $12, $13, $14, $15,"
    " $16)"
    " ON CONFLICT (tenant, id) DO NOTHING RETURNING run",
    "kttttiitiibiiiii"};
static const db_sql THERE = {
    "SELECT r.workflow, coalesce(j.data, CASE WHEN r.generation = 1 THEN r.input END)"
    " FROM {runs} AS r LEFT JOIN {journal} AS j"
    " ON j.run = r.run AND j.generation = 1 AND j.seq = 1 AND j.kind = {OP_STARTED}"
    " WHERE r.tenant = $1 AND r.id = $2",
    "tt"};
static const db_sql INPUT = {
    "INSERT INTO {journal} (run, generation, seq, kind, op, name, at, enc, data)"
    " VALUES ($1, 1, 1, $2, 0, $5, $3, 0, $4)",
    "iiibt"};

static db_value number_or_null(int64_t number)
{
    return number ? db_int(number) : db_null();
}

int run_insert_is_small(const run_insert *b)
{
    return b->input.size <= RUN_SMALL;
}

static int insert_run(unit *u, const run_insert *b, int as_guard)
{
    const db_value row[] = {
        db_int(b->run),
        db_text(b->tenant),
        db_text(b->id),
        db_text(b->workflow),
        db_text(b->version.at ? b->version : SLICE_LIT("")),
        db_int(b->owner),
        db_int(b->wake_ms),
        db_text(b->by.at ? b->by : SLICE_LIT("")),
        db_int(b->now_ms),
        number_or_null(b->deadline_ms),
        run_insert_is_small(b) ? db_bytes(b->input) : db_null(),
        db_int(b->owner != 0),
        number_or_null(b->parent),
        b->parent ? db_int(b->parent_generation) : db_null(),
        b->parent ? db_int(b->parent_op) : db_null(),
        db_int(b->mail),
    };
    uint64_t key = unit_key_text("runs.id", b->id);
    if (!as_guard)
        return unit_try(u, &START, key, row, DB_COUNT(row));
    const db_value name[] = {db_text(b->tenant), db_text(b->id)};
    int made = unit_guard(u, &START, "id", key, row, DB_COUNT(row));
    unit_found(u, &THERE, name, DB_COUNT(name));
    return made;
}

int run_insert_write(unit *u, const run_insert *b, int as_guard)
{
    assert(b->run != 0 && b->id.at && b->input.at);
    int made = insert_run(u, b, as_guard);
    if (made < 0)
        return made; /* memory is out, which the unit remembers */
    db_value run = as_guard ? db_int(b->run) : db_from(made, 0);
    if (!run_insert_is_small(b)) {
        const db_value row[] = {run, db_int(OP_STARTED), db_int(b->now_ms), db_bytes(b->input),
                                db_text(SLICE_LIT(""))};
        unit_write(u, &INPUT, unit_key("journal", b->run), row, DB_COUNT(row));
    }
    attributes_write_of(u, run, unit_key("attributes", b->run), b->attributes);
    run_note(u, run, b->now_ms);
    return made;
}

int run_insert_is_same(const run_insert *b, const unit_row *found)
{
    if (!found || !slice_equal(found->values[BIRTH_WORKFLOW].s, b->workflow))
        return 0;
    /* RULE 5-the-same-id-with-another-input-is-a-conflict, a-start-is-compared-as-a-value */
    return value_is_same(found->values[BIRTH_INPUT].s, b->input);
}
