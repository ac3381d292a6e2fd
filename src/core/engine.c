/* The engine's handle: a database, a committer, and the last error of each thread.
 *
 * A handle comes back even from a failed open, so that there is something to ask. The options of
 * the engine are checked here, at the edge, and what outlives the call is copied. */
#include "core/engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/id.h"
#include "core/hooks.h"
#include "core/options.h"
#include "db/committer.h"

enum {
    TAGS_MAX = 4096, /* bytes of the whole list */
    TEXTS_MAX = 64 * 1024,
};

struct pawl {
    pid_t pid; /* of the process that opened it */
    error_store *errors;
    arena *memory; /* the texts below */
    hooks hooks;
    const char *tenant;
    const char *name;  /* NULL: nobody has given one */
    const char *build; /* likewise */
    const char *tags;  /* NULL: untagged tasks only */
    db *db;
    committer *committer;
};

static pawl_code check_numbers(const pawl_options *o, error *err)
{
    const struct {
        const char *name;
        int64_t number;
        int64_t least;
    } numbers[] = {
        {"wal_bytes", o->wal_bytes, 0},   {"busy_ms", o->busy_ms, 0},
        {"threads", o->threads, -1},      {"threads_max", o->threads_max, 0},
        {"warm_bytes", o->warm_bytes, 0}, {"claim_ms", o->claim_ms, 0},
        {"drain_ms", o->drain_ms, 0},     {"keep_ms", o->keep_ms, 0},
    };
    pawl_code rc = PAWL_OK;
    for (size_t i = 0; rc == PAWL_OK && i < sizeof numbers / sizeof *numbers; i++)
        rc = options_number(numbers[i].number, numbers[i].least, numbers[i].name, err);
    if (rc == PAWL_OK && o->threads_max > 0)
        rc = options_number(o->threads_max, o->threads, "threads_max", err);
    return rc;
}

/* Each name of the list is one; the list itself has a bound too. */
static pawl_code check_tags(const char *tags, error *err)
{
    pawl_code rc = options_text(slice_of(tags), TAGS_MAX, "option tags", err);
    while (rc == PAWL_OK && tags) {
        slice tag = {tags, strcspn(tags, ",")};
        if (tag.size == 0) {
            error_set(err, PAWL_INVALID, "there is an empty name in the option tags");
            error_hint(err, "write names with single commas between, or NULL for none");
            return PAWL_INVALID;
        }
        rc = options_text(tag, PAWL_MAX_NAME, "name in the option tags", err);
        tags = tags[tag.size] ? tags + tag.size + 1 : NULL;
    }
    return rc;
}

static pawl_code check_options(const pawl_options *o, error *err)
{
    pawl_code rc = check_numbers(o, err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o->tenant), PAWL_MAX_NAME, "option tenant", err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o->name), PAWL_MAX_NAME, "option name", err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o->build), PAWL_MAX_NAME, "option build", err);
    return rc == PAWL_OK ? check_tags(o->tags, err) : rc;
}

/* NULL stays NULL; anything else has been checked, so that only memory can be out. */
static const char *keep(pawl *p, const char *text, int *failed)
{
    const char *copy = text ? arena_copy(p->memory, slice_of(text)) : NULL;
    *failed |= text && !copy;
    return copy;
}

static pawl_code keep_texts(pawl *p, const pawl_options *o, error *err)
{
    int failed = 0;
    p->tenant = keep(p, o->tenant ? o->tenant : "", &failed);
    p->name = keep(p, o->name, &failed);
    p->build = keep(p, o->build, &failed);
    p->tags = keep(p, o->tags, &failed);
    return failed ? error_set(err, PAWL_NOMEM, "out of memory") : PAWL_OK;
}

static pawl_code open_all(pawl *p, const char *url, const pawl_options *given, error *err)
{
    pawl_options o;
    pawl_code rc = options_read(&o, sizeof o, given, err);
    if (rc == PAWL_OK)
        rc = check_options(&o, err);
    if (rc == PAWL_OK)
        rc = hooks_read(&p->hooks, o.hooks, err);
    if (rc == PAWL_OK)
        rc = keep_texts(p, &o, err);
    if (rc != PAWL_OK)
        return rc;
    db_options options = {
        .url = url,
        .on_connect = o.on_connect,
        .on_connect_arg = o.on_connect_arg,
        .log = {o.log, o.log_arg},
        .clock = &p->hooks.clock,
        .random = &p->hooks.random,
        .switch_to_wal = o.switch_to_wal != 0,
        .wal_bytes = o.wal_bytes,
        .busy_ms = o.busy_ms,
        .claim_ms = o.claim_ms,
    };
    rc = db_open(&p->db, &options, err);
    return rc == PAWL_OK ? committer_open(&p->committer, p->db, NULL, err) : rc;
}

pawl_code pawl_open(pawl **out, const char *url, const pawl_options *options)
{
    if (!out)
        return PAWL_INVALID;
    *out = NULL;
    pawl *p = calloc(1, sizeof *p);
    error_store *errors = error_store_new();
    arena *memory = arena_new(TEXTS_MAX);
    if (!p || !errors || !memory) {
        free(p);
        error_store_free(errors);
        arena_free(memory);
        return PAWL_NOMEM;
    }
    p->pid = getpid();
    p->errors = errors;
    p->memory = memory;
    *out = p;
    error err = {0};
    pawl_code rc = open_all(p, url, options, &err);
    return rc == PAWL_OK ? rc : error_store_put(p->errors, &err);
}

/* A child of fork() has the handle's memory but neither its threads nor its locks: everything that
 * could be done with it would do harm to the parent, taking it apart included. */
static int is_forked(const pawl *p)
{
    return p->pid != getpid();
}

void pawl_close(pawl *p)
{
    if (!p || is_forked(p))
        return;
    committer_close(p->committer);
    db_close(p->db);
    error_store_free(p->errors);
    arena_free(p->memory);
    free(p);
}

pawl_code engine_unsupported(pawl *p, const char *what)
{
    if (!p)
        return PAWL_INVALID;
    if (is_forked(p))
        return PAWL_FORKED;
    error err = {0};
    error_set(&err, PAWL_UNSUPPORTED, "%s() is not built into this library", what);
    error_detail(&err, "this is version %s", PAWL_VERSION);
    error_hint(&err, "use a version whose changelog names it; pawl_version() tells which one runs");
    return error_store_put(p->errors, &err);
}

/* In a child of fork() the store may be locked for ever: it is not asked there. */
static const error *last_error(pawl *p)
{
    static const error none = {.code = PAWL_INVALID, .message = "no handle"};
    static const error forked = {.code = PAWL_FORKED,
                                 .message = "the handle belongs to the parent process",
                                 .hint = "open it after fork(), or exec() a program in the child"};
    if (!p)
        return &none;
    return is_forked(p) ? &forked : error_store_get(p->errors);
}

pawl_code pawl_errcode(pawl *p)
{
    return last_error(p)->code;
}

const char *pawl_errmsg(pawl *p)
{
    return last_error(p)->message;
}

const char *pawl_errdetail(pawl *p)
{
    return last_error(p)->detail;
}

const char *pawl_errhint(pawl *p)
{
    return last_error(p)->hint;
}

const char *pawl_errtext(pawl *p)
{
    return p && !is_forked(p) ? error_store_text(p->errors) : last_error(p)->message;
}

pawl_code pawl_id_new(char out[PAWL_ID_SIZE])
{
    if (!out)
        return PAWL_INVALID;
    clock_source *clock = clock_system();
    out[0] = 0;
    return id_uuid7(out, clock->now_ms(clock), random_system()) == 0 ? PAWL_OK : PAWL_STORAGE;
}
