/* The row of a run is inserted where no other has its id; the rest (a large input as row 1 of the
 * journal, attributes) depends on that. As a guard the insert refuses the whole unit. As a try the
 * rest takes the run's key from the row that the insert gave, so that it is left out with it.
 *
 * Whether a run that is there is the same one is asked of its first generation, whose small input
 * is in the row of the run only as long as there is no later one. */
#include "core/birth.h"

#include <assert.h>

enum { LOCAL_MAX = 4096 }; /* runs that are awake, up to which a start stays here */

static const db_sql START = {
    "INSERT INTO {runs} (run, tenant, id, workflow, version, owner, fence, wake_at, by, created_at,"
    " updated_at, deadline_at, input, claims, parent, parent_generation, parent_op, mail)"
    " VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8, $9, $9, $10, $11, $12, $13, $14, $15,"
    " $16)"
    " ON CONFLICT (tenant, id) DO NOTHING RETURNING run",
    "ittttiitiibiiiii"};
static const db_sql THERE = {
    "SELECT r.workflow, coalesce(j.data, CASE WHEN r.generation = 1 THEN r.input END)"
    " FROM {runs} AS r LEFT JOIN {journal} AS j"
    " ON j.run = r.run AND j.generation = 1 AND j.seq = 1 AND j.kind = 1"
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

static int is_small(const birth *b)
{
    return b->input.size <= RUN_SMALL;
}

static int insert(unit *u, const birth *b, int as_guard)
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
        is_small(b) ? db_bytes(b->input) : db_null(),
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

int birth_write(unit *u, const birth *b, int as_guard)
{
    assert(b->run != 0 && b->id.at && b->input.at);
    int made = insert(u, b, as_guard);
    if (made < 0)
        return made; /* no memory: the unit knows */
    db_value run = as_guard ? db_int(b->run) : db_from(made, 0);
    if (!is_small(b)) {
        const db_value row[] = {run, db_int(OP_STARTED), db_int(b->now_ms), db_bytes(b->input),
                                db_text(SLICE_LIT(""))};
        unit_write(u, &INPUT, unit_key("journal", b->run), row, DB_COUNT(row));
    }
    attributes_write_of(u, run, unit_key("attributes", b->run), b->attributes);
    run_note(u, run, b->now_ms);
    return made;
}

int birth_is_same(const birth *b, const unit_row *found)
{
    return found && slice_equal(found->values[BIRTH_WORKFLOW].s, b->workflow) &&
           slice_equal(found->values[BIRTH_INPUT].s, b->input);
}

/* ---- The short cut ---- */

int64_t birth_owner(drive *d, birth *b)
{
    pthread_mutex_lock(&d->lock);
    int64_t me = atomic_load(&d->open_node);
    int here = me && b->here && b->mail == 0 && (!d->only || b->parent) && !d->fenced &&
               b->wake_ms <= b->now_ms && d->runs.count < d->timers.count + LOCAL_MAX &&
               !atomic_load(&d->stopping);
    d->starting += here;
    pthread_mutex_unlock(&d->lock);
    return b->owner = here ? me : 0;
}

void birth_let_in(drive *d)
{
    pthread_mutex_lock(&d->lock);
    if (--d->starting == 0)
        pthread_cond_broadcast(&d->started);
    pthread_mutex_unlock(&d->lock);
}

void birth_drive(drive *d, const birth *b)
{
    run_facts facts = {.hold = {b->run, b->owner, 1},
                       .generation = 1,
                       .id = b->id,
                       .version = b->version,
                       .input = is_small(b) ? b->input : (slice){0},
                       .fresh = is_small(b),
                       .claims = 1,
                       .parent = b->parent,
                       .parent_generation = b->parent_generation,
                       .parent_op = b->parent_op,
                       .deadline_ms = b->deadline_ms,
                       .workflow = b->here};
    pawl_run *run = run_new(d, &facts);
    pthread_mutex_lock(&d->lock);
    if (run && map_put(&d->runs, (uint64_t)b->run, run) == 0)
        drive_ready(d, run);
    else
        run_free(run);
    pthread_mutex_unlock(&d->lock);
}
