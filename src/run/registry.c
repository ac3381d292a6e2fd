/* The registry is two short lists behind one lock: a program registers a handful of things when it
 * begins, and a run looks its workflow up once per claim. Names are copied into an arena that lives
 * as long as the registry. */
#include "run/registry.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/text.h"

struct registry {
    pthread_mutex_t lock;
    arena *memory;
    workflow *workflows; /* the last one registered first */
    work_entry *works;
    uint64_t count;
    error first; /* the first error of a registration */
};

registry *registry_new(void)
{
    registry *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->memory = arena_new(0);
    if (!r->memory) {
        free(r);
        return NULL;
    }
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void registry_free(registry *r)
{
    if (!r)
        return;
    pthread_mutex_destroy(&r->lock);
    arena_free(r->memory);
    free(r);
}

/* ---- Checking ---- */

static pawl_code check_name(const char *name, const char *what, error *err)
{
    slice s = slice_of(name);
    pawl_code rc = name ? text_check(s, PAWL_MAX_NAME, what, err)
                        : error_set(err, PAWL_INVALID, "the %s is NULL", what);
    if (rc == PAWL_OK && s.size == 0)
        rc = error_set(err, PAWL_INVALID, "the %s is empty", what);
    if (rc == PAWL_OK && slice_starts(s, SLICE_LIT("pawl.")))
        rc = error_set(err, PAWL_INVALID, "names that begin with \"pawl.\" are pawl's own");
    return rc;
}

static pawl_code refuse_conflict(const char *name, const char *version, error *err)
{
    error_set(err, PAWL_CONFLICT,
              "the name is registered with another function, argument or option");
    error_detail(err, version ? "%s, version %s" : "%s", name, version);
    error_hint(err, "register a change under another version, or everything once only");
    return PAWL_CONFLICT;
}

/* Keeps `err` if it is the first error, and returns `rc`. With the lock held. */
static pawl_code keep_first_error(registry *r, pawl_code rc, const error *err)
{
    if (rc != PAWL_OK && r->first.code == PAWL_OK) /* RULE registry-the-first-error-sticks */
        r->first = *err;
    return rc;
}

void registry_refuse(registry *r, const error *err)
{
    pthread_mutex_lock(&r->lock);
    keep_first_error(r, err->code, err);
    pthread_mutex_unlock(&r->lock);
}

/* ---- Workflows ---- */

static workflow *find_workflow(const registry *r, const char *name, const char *version)
{
    for (workflow *w = r->workflows; w; w = w->next)
        if (strcmp(w->name, name) == 0 && (!version || strcmp(w->version, version) == 0))
            return w;
    return NULL;
}

static pawl_code add_workflow(registry *r, const workflow *given, error *err)
{
    const workflow *there = find_workflow(r, given->name, given->version);
    if (there) {
        int same = there->fn == given->fn && there->arg == given->arg &&
                   there->returns_errors == given->returns_errors;
        return same ? PAWL_OK : refuse_conflict(given->name, given->version, err);
    }
    workflow *w = arena_alloc(r->memory, sizeof *w);
    char *name = arena_copy(r->memory, slice_of(given->name));
    char *version = arena_copy(r->memory, slice_of(given->version));
    if (!w || !name || !version)
        return error_nomem(err);
    *w = *given;
    w->name = name;
    w->version = version;
    w->next = r->workflows;
    r->workflows = w;
    r->count++;
    return PAWL_OK;
}

pawl_code registry_add_workflow(registry *r, const workflow *given, error *err)
{
    pawl_code rc = check_name(given->name, "name of the workflow", err);
    if (rc == PAWL_OK)
        rc = check_name(given->version, "version of the workflow", err);
    if (rc == PAWL_OK && !given->fn)
        rc = error_set(err, PAWL_INVALID, "the workflow's function is NULL");
    pthread_mutex_lock(&r->lock);
    if (rc == PAWL_OK)
        rc = add_workflow(r, given, err);
    rc = keep_first_error(r, rc, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

const workflow *registry_workflow(registry *r, const char *name, const char *version)
{
    pthread_mutex_lock(&r->lock);
    const workflow *w = find_workflow(r, name, version);
    pthread_mutex_unlock(&r->lock);
    return w;
}

const workflow *registry_first(registry *r)
{
    pthread_mutex_lock(&r->lock);
    const workflow *w = r->workflows;
    pthread_mutex_unlock(&r->lock);
    return w;
}

/* ---- Work functions ---- */

work_entry *registry_first_work(registry *r)
{
    pthread_mutex_lock(&r->lock);
    work_entry *w = r->works;
    pthread_mutex_unlock(&r->lock);
    return w;
}

static work_entry *find_work(const registry *r, const char *name)
{
    for (work_entry *w = r->works; w; w = w->next)
        if (strcmp(w->name, name) == 0)
            return w;
    return NULL;
}

static pawl_code add_work(registry *r, const work_entry *given, error *err)
{
    const work_entry *there = find_work(r, given->name);
    if (there) {
        int same =
            there->fn == given->fn && there->arg == given->arg && there->at_most == given->at_most;
        return same ? PAWL_OK : refuse_conflict(given->name, NULL, err);
    }
    work_entry *w = arena_alloc(r->memory, sizeof *w);
    char *name = arena_copy(r->memory, slice_of(given->name));
    if (!w || !name)
        return error_nomem(err);
    w->name = name;
    w->fn = given->fn;
    w->arg = given->arg;
    w->at_most = given->at_most;
    w->next = r->works;
    r->works = w;
    r->count++;
    return PAWL_OK;
}

pawl_code registry_add_work(registry *r, const work_entry *given, error *err)
{
    pawl_code rc = check_name(given->name, "name of the work function", err);
    if (rc == PAWL_OK && !given->fn)
        rc = error_set(err, PAWL_INVALID, "the work function is NULL");
    if (rc == PAWL_OK && given->at_most < 0)
        rc = error_set(err, PAWL_INVALID, "the option at_most is negative");
    pthread_mutex_lock(&r->lock);
    if (rc == PAWL_OK)
        rc = add_work(r, given, err);
    rc = keep_first_error(r, rc, err);
    pthread_mutex_unlock(&r->lock);
    return rc;
}

work_entry *registry_work(registry *r, const char *name)
{
    pthread_mutex_lock(&r->lock);
    work_entry *w = find_work(r, name);
    pthread_mutex_unlock(&r->lock);
    return w;
}

/* ---- Both ---- */

uint64_t registry_count(registry *r)
{
    pthread_mutex_lock(&r->lock);
    uint64_t count = r->count;
    pthread_mutex_unlock(&r->lock);
    return count;
}

pawl_code registry_error(registry *r, error *err)
{
    pthread_mutex_lock(&r->lock);
    pawl_code rc = r->first.code;
    if (rc != PAWL_OK && err)
        *err = r->first;
    pthread_mutex_unlock(&r->lock);
    return rc;
}
