/* Children: runs that a run starts and waits for, and detached children, for which it does not
 * wait.
 *
 * The row of the op has the id and the key of the child. The row of a child that is not detached
 * has the run, generation and op of its parent. Another run or client may have made a run of the
 * same id; only the child of this op has this key. So the child was made if there is a run with the
 * key. */
#include <inttypes.h>

#include "base/options.h"
#include "base/text.h"
#include "rows/run_insert.h"
#include "run/cross_run.h"
#include "run/ops.h"
#include "run/wait.h"

/* A unit that starts so many children is committed, so that the first ones do not wait long. A run
 * may have more children than that. */
enum { BIRTHS_PER_UNIT = 256 };

static const db_sql THERE = {"SELECT phase FROM {runs} WHERE run = $1", "i"};

typedef struct child {
    cross_ask ask;
    const char *id;
    int64_t key;
    int detached;
    int there; /* 1: there is a run with the key */
} child;

/* ---- Whether the child is there ---- */

static pawl_code read_child(db_conn *c, pawl_future *f, error *err)
{
    child *own = f->own;
    int64_t phase;
    const db_value key = db_int(own->key);
    return db_number(c, &THERE, &key, 1, &phase, &own->there, err);
}

/* Records the answer of a detached child that was made, and of a child that was not. Otherwise the
 * answer is the child's result, which arrives in the inbox. */
static void answer_child(pawl_future *f)
{
    const child *own = f->own;
    pawl_run *run = f->run;
    if (own->there && own->detached) {
        const char *id = pawl_json(run, "%s", own->id);
        journal_arrive(run, OP_DONE, f->op, slice_of(id ? id : "null"));
    } else if (!own->there) {
        const char *why = pawl_json(run,
                                    "{'name':'conflict','message':'the id %s belongs to another "
                                    "run, or the child is gone','where':%s}",
                                    own->id, f->what);
        journal_arrive(run, OP_FAILED, f->op, slice_of(why ? why : "null"));
    }
}

/* Called when the unit that starts the child was committed. If the child was made, its result will
 * arrive. If it was not, or is detached, its row is read, and answer_child() records the answer. */
static void record_child(pawl_future *f, const unit_row *row)
{
    child *own = f->own;
    own->there = row != NULL;
    if (!row || own->detached) /* RULE A6-a-child-is-known-by-its-key */
        cross_run_ask(f);
}

static const cross_ask_kind CHILD_ASKS = {
    .read = read_child, .go_on = answer_child, .committed = record_child};

/* Cancels the child. In a replay the child was cancelled before, by the unit that has the row of
 * the cancel. */
static void cancel_child(pawl_future *f, int live)
{
    const child *own = f->own;
    if (live && !own->detached)
        cross_run_cancel_child(f->run, own->key);
}

static void release_child(pawl_future *f)
{
    const child *own = f->own;
    cross_run_forget(f);
    run_free_value(f->run, own->id);
    run_free_value(f->run, own);
    run_free_value(f->run, f->what);
}

static const future_kind CHILD_FUTURE = {.cancel = cancel_child, .release = release_child};

/* ---- Starting ---- */

static const char *make_child_id(pawl_run *run, int64_t op)
{
    char id[PAWL_MAX_ID + 64];
    buf b;
    buf_init_fixed(&b, id, sizeof id);
    buf_printf(&b, "%s/%" PRId64 ".%" PRId64, run->id, run->generation, op);
    if (b.size > PAWL_MAX_ID)
        run_trouble(run, PAWL_LIMIT, "the id of a child would be too long: give it one");
    return run_text(run, (slice){b.at, b.size});
}

static void insert_child(pawl_run *run, pawl_future *f, const char *name, const char *input,
                         const char *version)
{
    child *own = f->own;
    int64_t now = host_now_ms(run->host);
    run_insert *b = arena_alloc(run->draft.arena, sizeof *b);
    if (!b)
        run_nomem(run);
    const workflow *here = registry_workflow(run->host->registry, name, version);
    slice pinned = slice_of(version ? version : here ? here->version : "");
    *b = (run_insert){.run = own->key,
                      .tenant = slice_of(run->host->tenant),
                      .id = journal_keep(run, slice_of(own->id)),
                      .workflow = journal_keep(run, slice_of(name)),
                      .version = journal_keep(run, pinned),
                      .input = journal_keep(run, slice_of(input)),
                      .now_ms = now,
                      .wake_ms = now,
                      .by = journal_keep(run, slice_of(run->id)),
                      .here = here};
    if (!own->detached) {
        b->parent = run->lease.run;
        b->parent_generation = run->generation;
        b->parent_op = f->op;
    }
    unit *u = journal_unit(run);
    run_sent *s = cross_run_add(run, 0, own->key);
    host_own_child(run->host, b);
    s->run_insert = b;
    s->future = f;
    s->statement = run_insert_write(u, b, 0);
    if (++run->draft.unit_children >= BIRTHS_PER_UNIT)
        run_ask(run, WANT_FLUSH);
}

static pawl_future *start_child(pawl_run *run, const char *called, const char *input,
                                const pawl_child_options *given)
{
    pawl_child_options o;
    error err = {0};
    const replay_row *row;
    slice name = ops_own_name(run, called, "name of the workflow");
    ops_json(run, input, "input of the child", called);
    if (options_read(&o, sizeof o, given, &err) != PAWL_OK)
        run_trouble(run, err.code, "%s: %s", err.message, err.detail);
    if ((o.id && text_check(slice_of(o.id), PAWL_MAX_ID, "id of the child", &err) != PAWL_OK) ||
        (o.id && !*o.id))
        run_trouble(run, PAWL_INVALID, "the id of a child is not a name");
    if (o.id && slice_starts(slice_of(o.id), SLICE_LIT("pawl.")))
        run_trouble(run, PAWL_INVALID, "names that begin with \"pawl.\" are pawl's own");
    if (o.version)
        ops_name(run, o.version, "version of the child");
    child *own = run_alloc(run, sizeof *own);
    own->ask.kind = &CHILD_ASKS;
    own->detached = o.detached != 0;
    int is_new = journal_op(run, OP_CHILD, name, &row) == REPLAY_NEW;
    int64_t op = is_new ? 0 : row->seq;
    if (is_new) {
        run_ask(run, WANT_KEY);
        own->key = run->code.key;
        own->id = o.id ? run_text(run, slice_of(o.id))
                       : make_child_id(run, replay_seq(run->journal.replay) + 1);
        const char *data = pawl_json(run, "{'id':%s,'run':%" PRId64 "}", own->id, own->key);
        if (!data)
            run_nomem(run);
        op = journal_record(run, OP_CHILD, name, slice_of(data));
        run_free_value(run, data);
    } else {
        const char *data = run_text(run, row->data);
        own->id = pawl_text(run, data, "/id", NULL);
        own->key = pawl_get_int(data, "/run", 0);
        run_free_value(run, data);
    }
    pawl_future *f = future_new(run, &CHILD_FUTURE, OP_CHILD, op);
    f->own = own;
    f->what = run_text(run, name);
    if (is_new)
        insert_child(run, f, called, input, o.version);
    else
        cross_run_ask(f);
    return f;
}

pawl_future *pawl_child_later(pawl_run *run, const char *name, const char *input,
                              const pawl_child_options *options)
{
    return run_is_inside(run) ? start_child(run, name, input, options) : NULL;
}

const char *pawl_child(pawl_run *run, const char *name, const char *input,
                       const pawl_child_options *options)
{
    if (!run_is_inside(run))
        return NULL;
    pawl_future *f = start_child(run, name, input, options);
    const char *value = future_await(f);
    future_release(f);
    return value;
}
