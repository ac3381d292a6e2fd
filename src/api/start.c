/* Registering functions and starting runs. A client's engine need not be a node: any node may drive
 * the runs that it starts. */
#include "api/start.h"

#include <string.h>

#include "base/argument.h"
#include "base/json.h"
#include "base/options.h"
#include "base/text.h"

/* ---- Registering ---- */

/* Reads the options of a registration. `unbuilt` is the name of an option that is not built, and
 * *unbuilt_value its value, once it is read. If the options are invalid or not built, the error is
 * kept, as every first error of a registration is (registry_error()). */
static pawl_code read_registration(pawl *p, void *out, size_t size, const void *options,
                                   const char *unbuilt, const int64_t *unbuilt_value, error *err)
{
    pawl_code rc = options_read(out, size, options, err);
    if (rc == PAWL_OK && *unbuilt_value)
        rc = options_unbuilt(unbuilt, err);
    if (rc != PAWL_OK)
        /* RULE an-unbuilt-option-of-a-registration-sticks */
        registry_refuse(handle_registry(p), err);
    return rc;
}

pawl_code pawl_register_workflow(pawl *p, const char *name, pawl_workflow_fn *fn,
                                 const pawl_workflow_options *options)
{
    error err = {0};
    pawl_workflow_options o;
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK)
        rc = read_registration(p, &o, sizeof o, options, "returns_errors", &o.returns_errors, &err);
    if (rc == PAWL_OK) {
        workflow w = {.name = name, .version = o.version ? o.version : "1", .fn = fn, .arg = o.arg};
        rc = registry_add_workflow(handle_registry(p), &w, &err);
    }
    if (rc == PAWL_OK)
        handle_wake(p); /* runs may be held because the workflow was not registered */
    return handle_leave(p, rc, &err);
}

pawl_code pawl_register_work(pawl *p, const char *name, pawl_work_fn *fn,
                             const pawl_work_options *options)
{
    error err = {0};
    pawl_work_options o;
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK)
        rc = read_registration(p, &o, sizeof o, options, "no_tasks", &o.no_tasks, &err);
    if (rc == PAWL_OK) {
        work_entry w = {.name = name, .fn = fn, .arg = o.arg, .at_most = o.at_most};
        rc = registry_add_work(handle_registry(p), &w, &err);
    }
    if (rc == PAWL_OK)
        handle_wake(p);
    return handle_leave(p, rc, &err);
}

/* ---- Starting ---- */

pawl_code start_read(start_ask *out, arena *memory, const char *name, const char *id,
                     const char *input, const pawl_start_options *options, error *err)
{
    *out = (start_ask){0};
    pawl_start_options *o = &out->options;
    pawl_code rc = options_read(o, sizeof *o, options, err);
    if (rc == PAWL_OK)
        rc = argument_name(&out->workflow, name, PAWL_MAX_NAME, "name of the workflow", err);
    if (rc == PAWL_OK)
        rc = argument_name(&out->id, id, PAWL_MAX_ID, "id of the run", err);
    if (rc == PAWL_OK)
        rc = argument_json(&out->input, input, "input", err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o->version), PAWL_MAX_NAME, "option version", err);
    if (rc == PAWL_OK && (o->delay_ms < 0 || o->deadline_ms < 0))
        rc = error_set(err, PAWL_INVALID, "a duration in the options is negative");
    if (rc == PAWL_OK && o->attributes)
        rc = attributes_read_all(&out->attributes, memory, o->attributes, err);
    return rc;
}

static int64_t add_duration(int64_t now, int64_t ms)
{
    return ms > INT64_MAX - now ? INT64_MAX : now + ms;
}

pawl_code start_birth(sched *s, const start_ask *ask, int64_t now_ms, slice by, run_insert *out,
                      error *err)
{
    const pawl_start_options *o = &ask->options;
    int64_t from_ms = ask->begins_ms ? ask->begins_ms : db_clock_up_ms(sched_options_of(s)->clock);
    const workflow *here =
        registry_workflow(sched_options_of(s)->registry, ask->workflow.at, o->version);
    *out = (run_insert){
        .tenant = slice_of(sched_options_of(s)->tenant),
        .id = ask->id,
        .workflow = ask->workflow,
        .version = slice_of(o->version ? o->version
                            : here     ? here->version
                                       : ""),
        .input = ask->input,
        .now_ms = now_ms,
        .wake_ms =
            o->delay_ms ? add_duration(from_ms, o->delay_ms) : now_ms, /* RULE a-delay-is-kept */
        .deadline_ms = o->deadline_ms ? add_duration(from_ms, o->deadline_ms) : 0,
        .by = by,
        .attributes = ask->attributes,
        .here = here,
    };
    return sched_new_run_key(s, &out->run, err);
}

static pawl_code answer_start(const unit *u, const run_insert *b, pawl_code rc, error *err)
{
    if (rc == PAWL_REFUSED && strcmp(u->refused, "id") == 0) {
        int same = run_insert_is_same(b, u->found);
        if (same != 0)
            return same > 0 ? PAWL_OK : error_nomem(err);
        error_set(err, PAWL_CONFLICT, "the id belongs to a run of another workflow or input");
        error_hint(err, "give this run another id, or ask for the one that is there");
        return PAWL_CONFLICT;
    }
    rc = unit_shut_out(u, rc);
    if (rc == PAWL_FENCED || rc == PAWL_REWOUND)
        return error_set(err, rc, "%s; nothing was started", pawl_code_text(rc));
    if (rc != PAWL_OK) {
        error_set(err, rc, "the run was not started: %s", pawl_code_text(rc));
        error_detail(err, "%s", u->message ? u->message : u->refused ? u->refused : "");
    }
    return rc;
}

static pawl_code insert_run(sched *s, const run_insert *b, int *created, error *err)
{
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (!u) {
        arena_free(a);
        return error_nomem(err);
    }
    run_insert_write(u, b, 1);
    u->class = UNIT_OF_CLIENT;
    pawl_code rc = committer_commit(sched_committer_of(s, b->run), u);
    *created = rc == PAWL_OK;
    rc = answer_start(u, b, rc, err);
    arena_free(a);
    return rc;
}

static pawl_code start_run(pawl *p, const start_ask *ask, int *created, error *err)
{
    sched *s = handle_sched(p);
    run_insert b;
    int64_t now_ms;
    pawl_code rc = handle_time(p, &now_ms, err);
    if (rc == PAWL_OK)
        rc = start_birth(s, ask, now_ms, slice_of(handle_name(p)), &b, err);
    if (rc != PAWL_OK)
        return rc;
    handover_owner(s, &b);
    rc = insert_run(s, &b, created, err);
    handover_started(s, &b, rc == PAWL_OK && *created);
    return rc;
}

pawl_code pawl_start(pawl *p, const char *name, const char *id, const char *input,
                     const pawl_start_options *options)
{
    error err = {0};
    start_ask ask = {0};
    int created = 0;
    pawl_code rc = handle_enter_to_write(p, &err);
    arena *memory = rc == PAWL_OK && options ? arena_new(0) : NULL;
    if (rc == PAWL_OK && options && !memory)
        rc = error_nomem(&err);
    if (rc == PAWL_OK)
        rc = start_read(&ask, memory, name, id, input, options, &err);
    if (rc == PAWL_OK)
        rc = start_run(p, &ask, &created, &err);
    arena_free(memory);
    if (ask.options.created)
        *ask.options.created = rc == PAWL_OK ? created : 0;
    return handle_leave(p, rc, &err);
}
