/* What programs ask from outside a run: start, wait, drive. Nothing here needs a node; what has to
 * be driven is driven by whoever is one. */
#include "core/client.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "core/options.h"

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

pawl_code client_text(slice *out, const char *text, size_t max, const char *what, error *err)
{
    if (!text)
        return error_set(err, PAWL_INVALID, "the %s is NULL", what);
    *out = (slice){text, strnlen(text, max + 1)};
    if (out->size == 0)
        return error_set(err, PAWL_INVALID, "the %s is empty", what);
    return text_check(*out, max, what, err);
}

pawl_code client_name(slice *out, const char *text, size_t max, const char *what, error *err)
{
    pawl_code rc = client_text(out, text, max, what, err);
    if (rc == PAWL_OK && slice_starts(*out, SLICE_LIT("pawl.")))
        rc = error_set(err, PAWL_INVALID, "names that begin with \"pawl.\" are pawl's own");
    return rc;
}

pawl_code client_json(slice *out, const char *json, const char *what, error *err)
{
    size_t at = 0;
    if (!json)
        return error_set(err, PAWL_INVALID, "the %s is NULL; \"null\" means nothing", what);
    *out = (slice){json, strnlen(json, (size_t)PAWL_MAX_PAYLOAD + 1)};
    pawl_code rc = value_check(*out, &at);
    if (rc != PAWL_OK) {
        error_set(err, rc,
                  rc == PAWL_LIMIT ? "the %s is too large or too deep" : "the %s is not JSON",
                  what);
        error_detail(err, "at byte %zu", at);
    }
    return rc;
}

pawl_code start_read(start_ask *out, arena *memory, const char *name, const char *id,
                     const char *input, const pawl_start_options *options, error *err)
{
    *out = (start_ask){0};
    pawl_start_options *o = &out->options;
    pawl_code rc = options_read(o, sizeof *o, options, err);
    if (rc == PAWL_OK)
        rc = client_name(&out->workflow, name, PAWL_MAX_NAME, "name of the workflow", err);
    if (rc == PAWL_OK)
        rc = client_name(&out->id, id, PAWL_MAX_ID, "id of the run", err);
    if (rc == PAWL_OK)
        rc = client_json(&out->input, input, "input", err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o->version), PAWL_MAX_NAME, "option version", err);
    if (rc == PAWL_OK && (o->delay_ms < 0 || o->deadline_ms < 0))
        rc = error_set(err, PAWL_INVALID, "a duration in the options is negative");
    if (rc == PAWL_OK && o->attributes)
        rc = attributes_read_all(&out->attributes, memory, o->attributes, err);
    return rc;
}

static int64_t after(int64_t now, int64_t ms)
{
    return ms > INT64_MAX - now ? INT64_MAX : now + ms;
}

pawl_code start_birth(drive *d, const start_ask *ask, int64_t now_ms, slice by, birth *out,
                      error *err)
{
    const pawl_start_options *o = &ask->options;
    const workflow *here = registry_workflow(d->options.registry, ask->workflow.at, o->version);
    *out = (birth){
        .tenant = slice_of(d->options.tenant),
        .id = ask->id,
        .workflow = ask->workflow,
        .version = slice_of(o->version ? o->version
                            : here     ? here->version
                                       : ""),
        .input = ask->input,
        .now_ms = now_ms,
        .wake_ms = after(now_ms, o->delay_ms),
        .deadline_ms = o->deadline_ms ? after(now_ms, o->deadline_ms) : 0,
        .by = by,
        .attributes = ask->attributes,
        .here = here,
    };
    return keys_next(&d->run_keys, &out->run, err);
}

pawl_code client_code(const unit *u, pawl_code rc)
{
    return rc == PAWL_REFUSED && strcmp(u->refused, "node") == 0 ? PAWL_FENCED : rc;
}

void client_call_others(drive *d)
{
    pthread_mutex_lock(&d->lock);
    drive_call_keeper(d);
    pthread_mutex_unlock(&d->lock);
    wake_open(d);
    wake_tell(d);
}

void client_born(drive *d, const birth *b, int made)
{
    if (made && b->owner) {
        birth_drive(d, b);
    } else if (made) {
        client_call_others(d);
    }
    if (b->owner)
        birth_let_in(d);
}

static pawl_code answer(const unit *u, const birth *b, pawl_code rc, error *err)
{
    if (rc == PAWL_REFUSED && strcmp(u->refused, "id") == 0) {
        if (birth_is_same(b, u->found))
            return PAWL_OK;
        error_set(err, PAWL_CONFLICT, "the id belongs to a run of another workflow or input");
        error_hint(err, "give this run another id, or ask for the one that is there");
        return PAWL_CONFLICT;
    }
    if (rc == PAWL_REFUSED && strcmp(u->refused, "node") == 0)
        return error_set(err, PAWL_FENCED,
                         "this node was closed by another one; nothing was started");
    if (rc != PAWL_OK) {
        error_set(err, rc, "the run was not started: %s", pawl_code_text(rc));
        error_detail(err, "%s", u->message ? u->message : u->refused ? u->refused : "");
    }
    return rc;
}

static pawl_code insert(drive *d, const birth *b, int *created, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_set(err, PAWL_NOMEM, "out of memory");
    }
    birth_write(u, b, 1);
    u->class = UNIT_OF_CLIENT;
    pawl_code rc = committer_commit(committers_of(d->options.committers, (uint64_t)b->run), u);
    *created = rc == PAWL_OK;
    rc = answer(u, b, rc, err);
    arena_free(a);
    return rc;
}

static pawl_code start_run(pawl *p, const start_ask *ask, int *created, error *err)
{
    drive *d = engine_drive(p);
    birth b;
    int64_t now_ms;
    pawl_code rc = engine_time(p, &now_ms, err);
    if (rc == PAWL_OK)
        rc = start_birth(d, ask, now_ms, slice_of(engine_name(p)), &b, err);
    if (rc != PAWL_OK)
        return rc;
    birth_owner(d, &b);
    rc = insert(d, &b, created, err);
    client_born(d, &b, rc == PAWL_OK && *created);
    return rc;
}

pawl_code pawl_start(pawl *p, const char *name, const char *id, const char *input,
                     const pawl_start_options *options)
{
    error err = {0};
    start_ask ask = {0};
    int created = 0;
    pawl_code rc = engine_enter(p, &err);
    arena *memory = rc == PAWL_OK && options ? arena_new(0) : NULL;
    if (rc == PAWL_OK && options && !memory)
        rc = error_set(&err, PAWL_NOMEM, "out of memory");
    if (rc == PAWL_OK)
        rc = start_read(&ask, memory, name, id, input, options, &err);
    if (rc == PAWL_OK)
        rc = start_run(p, &ask, &created, &err);
    arena_free(memory);
    if (ask.options.created)
        *ask.options.created = rc == PAWL_OK ? created : 0;
    return engine_leave(p, rc, &err);
}
