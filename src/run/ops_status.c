/* What a run publishes about itself: its custom status, and attributes (search attributes). Also
 * pawl_should_continue_as_new().
 *
 * Each of these ops is a row of the journal, so that a replay publishes nothing twice. What they
 * change outside of the journal is kept in the draft, and written by the unit that has the rows: of
 * several changes of one thing only the last. */
#include <string.h>

#include "rows/attributes.h"
#include "run/ops.h"
#include "run/run.h"
#include "run/state.h"

pawl_code pawl_set_status(pawl_run *run, const char *status)
{
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    const replay_row *row;
    slice json = ops_json(run, status, "status", "");
    if (json.size > PAWL_MAX_STATUS)
        run_trouble(run, PAWL_LIMIT, "the status is longer than %d bytes", PAWL_MAX_STATUS);
    if (journal_op(run, OP_STATUS, SLICE_LIT(""), &row) == REPLAY_RECORDED)
        return PAWL_OK;
    journal_record(run, OP_STATUS, SLICE_LIT(""), json);
    run->draft.status.text = (slice){arena_copy(run->draft.arena, json), json.size};
    run->draft.status.count++;
    if (!run->draft.status.text.at)
        run_nomem(run);
    return PAWL_OK;
}

/* ---- Attributes ---- */

/* The name of an attribute that the run has or had. */
struct run_name {
    run_name *next;
    slice name;
    int there; /* 1: the run has the attribute */
};

static run_name *find_name(pawl_run *run, slice name)
{
    run_name *n = run->names.first;
    while (n && !slice_equal(n->name, name))
        n = n->next;
    return n;
}

void run_add_name(pawl_run *run, slice name)
{
    run_name *n = arena_alloc(run->journal.arena, sizeof *n);
    char *copy = n ? arena_copy(run->journal.arena, name) : NULL;
    if (!copy) {
        run->names.failed = 1;
        return;
    }
    *n = (run_name){run->names.first, {copy, name.size}, 1};
    run->names.first = n;
}

static int count_names(const pawl_run *run)
{
    int count = 0;
    for (const run_name *n = run->names.first; n; n = n->next)
        count += n->there;
    return count;
}

/* Checks that the run does not get too many attributes by this one. */
static void count_attribute(pawl_run *run, const attribute_set *a)
{
    run_name *n = find_name(run, a->name);
    if (a->there && !(n && n->there) && count_names(run) >= PAWL_MAX_ATTRIBUTES)
        run_trouble(run, PAWL_LIMIT, "a run has at most %d attributes", PAWL_MAX_ATTRIBUTES);
    if (n)
        n->there = a->there;
    else if (a->there)
        run_add_name(run, a->name);
    if (run->names.failed)
        run_nomem(run);
}

/* Puts the attribute into the list of the draft, in the place of an earlier one of that name. */
static void keep_attribute(pawl_run *run, attribute_set *a)
{
    attribute_set **at = &run->draft.attributes;
    while (*at && !slice_equal((*at)->name, a->name))
        at = &(*at)->next;
    a->next = *at ? (*at)->next : NULL;
    *at = a;
}

static attribute_set *read_attribute(pawl_run *run, const char *name, const char *value)
{
    error err = {0};
    attribute_set *a = NULL;
    if (attributes_read(&a, run->draft.arena, name, value, "value of the attribute", &err) !=
        PAWL_OK)
        run_trouble(run, err.code, "%s", err.message);
    return a;
}

/* The names of the run's attributes are read once, before the first attribute that this function
 * sets. That read may commit what was recorded before; then the draft gets other memory, and the
 * attribute is read into that. */
pawl_code pawl_attr(pawl_run *run, const char *name, const char *value)
{
    if (!run_is_inside(run))
        return PAWL_MISUSE;
    const replay_row *row;
    ops_name(run, name, "name of the attribute");
    slice json = ops_json(run, value, "value of the attribute", name);
    attribute_set *a = read_attribute(run, name, value);
    if (journal_op(run, OP_ATTRIBUTE, slice_of(name), &row) == REPLAY_RECORDED)
        return PAWL_OK;
    if (!run->names.known) {
        run_ask(run, WANT_NAMES);
        a = read_attribute(run, name, value);
    }
    count_attribute(run, a);
    journal_record(run, OP_ATTRIBUTE, slice_of(name), json);
    keep_attribute(run, a);
    return PAWL_OK;
}

/* ---- With the unit ---- */

void run_write_status(pawl_run *run)
{
    if (run->draft.status.count > 0 && !run->draft.status_rides)
        run_set_status(run->draft.unit, &run->lease, &run->draft.status, host_now_ms(run->host));
    attributes_write(run->draft.unit, run->lease.run, run->draft.attributes);
    state_write(run);
}

void run_forget_status(pawl_run *run)
{
    run->draft.status = (run_status){{NULL, 0}, 0};
    run->draft.status_rides = 0;
    run->draft.attributes = NULL;
}

/* ---- The length of the journal ---- */

int pawl_should_continue_as_new(pawl_run *run)
{
    if (!run_is_inside(run))
        return 0;
    const replay_row *row;
    if (journal_op(run, OP_SHOULD_CONTINUE, SLICE_LIT(""), &row) == REPLAY_RECORDED)
        return slice_equal(row->data, SLICE_LIT("true"));
    int should = replay_seq(run->journal.replay) >= RUN_LONG;
    journal_record(run, OP_SHOULD_CONTINUE, SLICE_LIT(""),
                   should ? SLICE_LIT("true") : SLICE_LIT("false"));
    return should;
}
