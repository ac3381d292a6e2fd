/* What programs ask from outside a run: start, wait, drive. Nothing here needs a node; what has to
 * be driven is driven by whoever is one. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "core/attributes.h"
#include "core/drive.h"
#include "core/engine.h"
#include "core/options.h"
#include "core/outcome.h"

enum { LOCAL_MAX = 4096 }; /* runs that are awake, up to which a start stays here */

static const db_sql START = {
    "INSERT INTO {runs} (run, tenant, id, workflow, version, owner, fence, wake_at, by, created_at,"
    " updated_at, deadline_at, input, claims)"
    " VALUES ($1, $2, $3, $4, $5, $6, 1, $7, $8, $9, $9, $10, $11, $12)"
    " ON CONFLICT (tenant, id) DO NOTHING RETURNING run",
    "ittttiitiibi"};
static const db_sql THERE = {
    "SELECT r.workflow, coalesce(r.input, j.data) FROM {runs} AS r LEFT JOIN {journal} AS j"
    " ON j.run = r.run AND j.generation = 1 AND j.seq = 1 AND j.kind = 1"
    " WHERE r.tenant = $1 AND r.id = $2",
    "tt"};

/* ---- Registering ---- */

pawl_code pawl_register_workflow(pawl *p, const char *name, pawl_workflow_fn *fn,
                                 const pawl_workflow_options *options)
{
    error err = {0};
    pawl_workflow_options o;
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK)
        rc = options_read(&o, sizeof o, options, &err);
    if (rc == PAWL_OK && o.returns_errors)
        rc = error_set(&err, PAWL_UNSUPPORTED, "returns_errors is not built into this library");
    if (rc == PAWL_OK) {
        workflow w = {.name = name, .version = o.version ? o.version : "1", .fn = fn, .arg = o.arg};
        rc = registry_add_workflow(engine_registry(p), &w, &err);
    }
    if (rc == PAWL_OK)
        engine_wake(p); /* there may be runs that wait for it */
    return engine_leave(p, rc, &err);
}

pawl_code pawl_register_work(pawl *p, const char *name, pawl_work_fn *fn,
                             const pawl_work_options *options)
{
    error err = {0};
    pawl_work_options o;
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK)
        rc = options_read(&o, sizeof o, options, &err);
    if (rc == PAWL_OK) {
        work_entry w = {.name = name,
                        .fn = fn,
                        .arg = o.arg,
                        .at_most = o.at_most,
                        .no_tasks = o.no_tasks != 0};
        rc = registry_add_work(engine_registry(p), &w, &err);
    }
    if (rc == PAWL_OK)
        engine_wake(p);
    return engine_leave(p, rc, &err);
}

/* ---- Starting ---- */

typedef struct start {
    drive *drive;
    slice workflow, id, input, version;
    int64_t run;
    int64_t owner;
    int64_t now_ms;
    int64_t wake_ms;
    int64_t deadline_ms; /* 0: none */
    const workflow *here;
    attribute_set *attributes;
} start;

static pawl_code check_text(slice *out, const char *text, size_t max, const char *what, error *err)
{
    if (!text)
        return error_set(err, PAWL_INVALID, "the %s is NULL", what);
    *out = slice_of(text);
    if (out->size == 0)
        return error_set(err, PAWL_INVALID, "the %s is empty", what);
    if (slice_starts(*out, SLICE_LIT("pawl.")))
        return error_set(err, PAWL_INVALID, "names that begin with \"pawl.\" are pawl's own");
    return text_check(*out, max, what, err);
}

static pawl_code check_input(slice *out, const char *json, error *err)
{
    size_t at = 0;
    if (!json)
        return error_set(err, PAWL_INVALID, "the input is NULL; \"null\" means nothing");
    *out = (slice){json, strnlen(json, (size_t)PAWL_MAX_PAYLOAD + 1)};
    pawl_code rc = value_check(*out, &at);
    if (rc != PAWL_OK) {
        error_set(err, rc,
                  rc == PAWL_LIMIT ? "the input is too large or too deep"
                                   : "the input is not JSON");
        error_detail(err, "at byte %zu", at);
    }
    return rc;
}

static int64_t after(int64_t now, int64_t ms)
{
    return ms > INT64_MAX - now ? INT64_MAX : now + ms;
}

/* A run that is started where it can be driven at once is inserted already owned. Gives the owner;
 * if it is this node, that does not go before let_in(). */
static int64_t owner_of(drive *d, const start *s)
{
    pthread_mutex_lock(&d->lock);
    int64_t me = atomic_load(&d->open_node);
    int here = me && s->here && !d->only && !d->fenced && s->wake_ms <= s->now_ms &&
               d->runs.count < d->timers.count + LOCAL_MAX && !atomic_load(&d->stopping);
    d->starting += here;
    pthread_mutex_unlock(&d->lock);
    return here ? me : 0;
}

static void let_in(drive *d)
{
    pthread_mutex_lock(&d->lock);
    if (--d->starting == 0)
        pthread_cond_broadcast(&d->started);
    pthread_mutex_unlock(&d->lock);
}

static pawl_code same_run(const start *s, const unit_row *found, error *err)
{
    slice name = found ? found->values[0].s : (slice){0};
    slice input = found ? found->values[1].s : (slice){0};
    if (found && slice_equal(name, s->workflow) && slice_equal(input, s->input))
        return PAWL_OK;
    error_set(err, PAWL_CONFLICT, "the id belongs to a run of another workflow or input");
    error_hint(err, "give this run another id, or ask for the one that is there");
    return PAWL_CONFLICT;
}

static void drive_here(const start *s)
{
    drive *d = s->drive;
    run_facts facts = {.hold = {s->run, s->owner, 1},
                       .generation = 1,
                       .id = s->id,
                       .version = s->version,
                       .input = s->input.size <= RUN_SMALL ? s->input : (slice){0},
                       .fresh = s->input.size <= RUN_SMALL,
                       .claims = 1,
                       .workflow = s->here};
    pawl_run *run = run_new(d, &facts);
    pthread_mutex_lock(&d->lock);
    if (run && map_put(&d->runs, (uint64_t)s->run, run) == 0)
        drive_ready(d, run);
    else
        run_free(run);
    pthread_mutex_unlock(&d->lock);
}

static pawl_code insert(const start *s, const char *by, int *created, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_set(err, PAWL_NOMEM, "out of memory");
    }
    slice tenant = slice_of(s->drive->options.tenant);
    int small = s->input.size <= RUN_SMALL;
    db_value row[] = {db_int(s->run),
                      db_text(tenant),
                      db_text(s->id),
                      db_text(s->workflow),
                      db_text(s->version),
                      db_int(s->owner),
                      db_int(s->wake_ms),
                      db_text(slice_of(by)),
                      db_int(s->now_ms),
                      s->deadline_ms ? db_int(s->deadline_ms) : db_null(),
                      small ? db_bytes(s->input) : db_null(),
                      db_int(s->owner != 0)};
    db_value name[] = {db_text(tenant), db_text(s->id)};
    unit_guard(u, &START, "id", unit_key_text("runs.id", s->id), row, DB_COUNT(row));
    unit_found(u, &THERE, name, DB_COUNT(name));
    if (!small) {
        run_entry e = {.run = s->run,
                       .generation = 1,
                       .seq = 1,
                       .kind = OP_STARTED,
                       .name = SLICE_LIT(""),
                       .at_ms = s->now_ms,
                       .data = s->input};
        run_append(u, &e);
    }
    attributes_write(u, s->run, s->attributes);
    u->class = UNIT_OF_CLIENT;
    pawl_code rc =
        committer_commit(committers_of(s->drive->options.committers, (uint64_t)s->run), u);
    *created = rc == PAWL_OK;
    if (rc == PAWL_REFUSED && strcmp(u->refused, "id") == 0)
        rc = same_run(s, u->found, err);
    else if (rc == PAWL_REFUSED && strcmp(u->refused, "node") == 0)
        rc =
            error_set(err, PAWL_FENCED, "this node was closed by another one; nothing was started");
    else if (rc != PAWL_OK) {
        error_set(err, rc, "the run was not started: %s", pawl_code_text(rc));
        error_detail(err, "%s", u->message ? u->message : u->refused ? u->refused : "");
    }
    arena_free(a);
    return rc;
}

static pawl_code start_run(pawl *p, start *s, const pawl_start_options *o, int *created, error *err)
{
    drive *d = s->drive = engine_drive(p);
    if (o->delay_ms < 0 || o->deadline_ms < 0)
        return error_set(err, PAWL_INVALID, "a duration in the options is negative");
    s->here = registry_workflow(engine_registry(p), s->workflow.at, o->version);
    s->version = slice_of(o->version ? o->version : s->here ? s->here->version : "");
    pawl_code rc = engine_time(p, &s->now_ms, err);
    if (rc == PAWL_OK)
        rc = keys_next(&d->run_keys, &s->run, err);
    if (rc != PAWL_OK)
        return rc;
    s->wake_ms = after(s->now_ms, o->delay_ms);
    s->deadline_ms = o->deadline_ms ? after(s->now_ms, o->deadline_ms) : 0;
    s->owner = owner_of(d, s);
    rc = insert(s, engine_name(p), created, err);
    int made = rc == PAWL_OK && *created;
    if (made && s->owner) {
        drive_here(s);
    } else if (made) {
        engine_wake(p);
        wake_open(d);
        wake_tell(d);
    }
    if (s->owner)
        let_in(d);
    return rc;
}

pawl_code pawl_start(pawl *p, const char *name, const char *id, const char *input,
                     const pawl_start_options *options)
{
    error err = {0};
    pawl_start_options o;
    start s = {0};
    int created = 0;
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK)
        rc = options_read(&o, sizeof o, options, &err);
    if (rc == PAWL_OK)
        rc = check_text(&s.workflow, name, PAWL_MAX_NAME, "name of the workflow", &err);
    if (rc == PAWL_OK)
        rc = check_text(&s.id, id, PAWL_MAX_ID, "id of the run", &err);
    if (rc == PAWL_OK)
        rc = check_input(&s.input, input, &err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o.version), PAWL_MAX_NAME, "option version", &err);
    arena *memory = rc == PAWL_OK && o.attributes ? arena_new(0) : NULL;
    if (memory)
        rc = attributes_read_all(&s.attributes, memory, o.attributes, &err);
    else if (rc == PAWL_OK && o.attributes)
        rc = error_set(&err, PAWL_NOMEM, "out of memory");
    if (rc == PAWL_OK)
        rc = start_run(p, &s, &o, &created, &err);
    arena_free(memory);
    if (rc == PAWL_OK && o.created)
        *o.created = created;
    return engine_leave(p, rc, &err);
}
