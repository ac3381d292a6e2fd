/* The engine's handle: a database, a committer, and the last error of each thread.
 *
 * A handle comes back even from a failed open, so that there is something to ask. The options of
 * the engine are checked here, at the edge, and what outlives the call is copied. */
#include "core/engine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/build.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/text.h"
#include "core/changes.h"
#include "core/drive.h"
#include "core/engine_test.h"
#include "core/hooks.h"
#include "core/options.h"
#include "core/registry.h"
#include "core/transact.h"
#include "db/committers.h"

enum {
    TAGS_MAX = 4096, /* bytes of the whole list */
    TEXTS_MAX = 64 * 1024,
    WARM_BYTES = 256 * 1024 * 1024,
    DRAIN_MS = 10000,
    COMMITTERS = 2, /* where several can commit at a time */
};

struct pawl {
    pid_t pid; /* of the process that opened it */
    error_store *errors;
    arena *memory; /* the texts below */
    hooks hooks;
    const char *tenant;
    const char *name;
    const char *build;
    const char *tags; /* NULL: untagged tasks only */
    db *db;
    committers *committers;
    readers *readers;
    registry *registry;
    drive *drive;
    engine_test test;
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

/* Who it is if nobody says so: the host's name and the process. */
static const char *default_name(arena *memory)
{
    char host[PAWL_MAX_NAME - 32] = "", text[PAWL_MAX_NAME];
    error err;
    buf b;
    if (gethostname(host, sizeof host - 1) != 0 ||
        text_check(slice_of(host), sizeof host, "host", &err) != PAWL_OK)
        host[0] = '\0';
    buf_init_fixed(&b, text, sizeof text);
    buf_printf(&b, "%s:%ld", host, (long)getpid());
    return arena_copy(memory, (slice){b.at, b.size});
}

static pawl_code keep_texts(pawl *p, const pawl_options *o, error *err)
{
    int failed = 0;
    p->tenant = keep(p, o->tenant ? o->tenant : "", &failed);
    p->name = o->name ? keep(p, o->name, &failed) : default_name(p->memory);
    p->build = o->build ? keep(p, o->build, &failed) : build_id(p->memory);
    failed |= !p->name || !p->build;
    p->tags = keep(p, o->tags, &failed);
    return failed ? error_set(err, PAWL_NOMEM, "out of memory") : PAWL_OK;
}

static int64_t most_threads(const pawl_options *o)
{
    int64_t most = o->threads_max ? o->threads_max : DRIVE_RUNNERS_MAX;
    return most < DRIVE_RUNNERS_MAX ? most : DRIVE_RUNNERS_MAX;
}

static int64_t threads_of(const pawl_options *o)
{
    if (o->threads < 0)
        return 0;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t threads = o->threads ? o->threads : processors > 0 ? processors : 1;
    return threads < most_threads(o) ? threads : most_threads(o);
}

/* Everything on top of the database. */
static pawl_code open_engine(pawl *p, const pawl_options *o, const engine_test *test, error *err)
{
    committer_options by = {
        .by_hand = o->threads < 0, .on_noted = changes_noted, .on_noted_arg = p};
    pawl_code rc = committers_open(&p->committers, p->db, &by, COMMITTERS, err);
    if (rc != PAWL_OK)
        return rc;
    p->registry = p->registry ? p->registry : registry_new();
    drive_options options = {.db = p->db,
                             .committers = p->committers,
                             .registry = p->registry,
                             .tenant = p->tenant,
                             .name = p->name,
                             .build = p->build,
                             .threads = threads_of(o),
                             .threads_max = most_threads(o),
                             .claim_ms = p->db->options.claim_ms,
                             .drain_ms = o->drain_ms ? o->drain_ms : DRAIN_MS,
                             .warm_bytes = o->warm_bytes ? o->warm_bytes : WARM_BYTES,
                             .drops = test->drops,
                             .drops_arg = test->arg};
    rc = p->registry ? drive_open(&p->drive, &options, err)
                     : error_set(err, PAWL_NOMEM, "out of memory");
    if (rc != PAWL_OK)
        return rc;
    p->readers = readers_new(p->db);
    return p->readers ? PAWL_OK : error_set(err, PAWL_NOMEM, "out of memory");
}

static pawl_code open_all(pawl *p, const char *url, const pawl_options *given,
                          const engine_test *test, error *err)
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
        .clock = test->clock ? test->clock : &p->hooks.clock,
        .random = &p->hooks.random,
        .switch_to_wal = o.switch_to_wal != 0,
        .wal_bytes = o.wal_bytes,
        .busy_ms = o.busy_ms,
        .claim_ms = o.claim_ms,
        .by_hand = o.threads < 0,
    };
    rc = db_open(&p->db, &options, err);
    if (rc != PAWL_OK)
        return rc;
    if (test->wrap)
        p->db = test->wrap(test->arg, p->db);
    return open_engine(p, &o, test, err);
}

static pawl_code refuse_guest(error *err)
{
    error_set(err, PAWL_MISUSE, "called from the function of a pawl_transact()");
    error_hint(err, "do it in the workflow, before or after; or in a step");
    return PAWL_MISUSE;
}

pawl_code engine_test_open(pawl **out, const char *url, const pawl_options *options,
                           const engine_test *test)
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
    p->test = *test;
    *out = p;
    error err = {0};
    pawl_code rc =
        transact_is_inside() ? refuse_guest(&err) : open_all(p, url, options, test, &err);
    return rc == PAWL_OK ? rc : error_store_put(p->errors, &err);
}

pawl_code pawl_open(pawl **out, const char *url, const pawl_options *options)
{
    return engine_test_open(out, url, options, &(engine_test){0});
}

/* A child of fork() has the handle's memory but neither its threads nor its locks: everything that
 * could be done with it would do harm to the parent, taking it apart included. */
static int is_forked(const pawl *p)
{
    return p->pid != getpid();
}

const engine_test *engine_test_of(pawl *p)
{
    return &p->test;
}

/* The drive goes first: work functions that are still running may use the rest. */
void engine_test_drop(pawl *p)
{
    drive_close(p->drive);
    readers_free(p->readers);
    committers_close(p->committers);
    p->drive = NULL;
    p->readers = NULL;
    p->committers = NULL;
}

pawl_code engine_test_again(pawl *p, const pawl_options *options, error *err)
{
    return open_engine(p, options, &p->test, err);
}

void pawl_close(pawl *p)
{
    if (!p || is_forked(p))
        return;
    if (transact_is_inside() && p->drive)
        return;
    if (p->drive && !drive_may_close(p->drive)) {
        LOG(drive_log(p->drive), LOG_ERROR, "close-refused", LOG_TEXT("why", "it is being driven"));
        return;
    }
    engine_test test = p->test;
    engine_test_drop(p);
    registry_free(p->registry);
    db_close(p->db);
    error_store_free(p->errors);
    arena_free(p->memory);
    free(p);
    if (test.closed)
        test.closed(test.arg);
}

/* ---- For the rest of the engine ---- */

pawl_code engine_enter(pawl *p, error *err)
{
    if (!p)
        return error_set(err, PAWL_INVALID, "no handle");
    if (is_forked(p))
        return error_set(err, PAWL_FORKED, "the handle belongs to the parent process");
    if (transact_is_inside())
        return refuse_guest(err);
    if (p->readers)
        return PAWL_OK;
    error_set(err, PAWL_MISUSE, "the database of this handle is not open");
    error_hint(err, "look at the answer of pawl_open(), close the handle and open it again");
    return PAWL_MISUSE;
}

pawl_code engine_leave(pawl *p, pawl_code rc, const error *err)
{
    if (rc != PAWL_OK && p && !is_forked(p))
        error_store_put(p->errors, err);
    return rc;
}

db *engine_db(pawl *p)
{
    return p->db;
}

readers *engine_readers(pawl *p)
{
    return p->readers;
}

slice engine_tenant(pawl *p)
{
    return slice_of(p->tenant);
}

int64_t engine_node(pawl *p)
{
    return atomic_load(&p->drive->open_node);
}

registry *engine_registry(pawl *p)
{
    return p->registry;
}

drive *engine_drive(pawl *p)
{
    return p->drive;
}

const char *engine_name(pawl *p)
{
    return p->name;
}

/* A pure client has never measured the database's time: then it is asked, once. */
pawl_code engine_time(pawl *p, int64_t *now_ms, error *err)
{
    drive *d = p->drive;
    if (!db_clock_is_known(&d->clock)) {
        db_conn *c;
        pawl_code rc = db_connect(p->db, DB_READER, &c, err);
        if (rc == PAWL_OK)
            rc = db_clock_measure(&d->clock, c, err);
        db_disconnect(c);
        if (rc != PAWL_OK)
            return rc;
    }
    *now_ms = db_clock_now_ms(&d->clock);
    return PAWL_OK;
}

void engine_wake(pawl *p)
{
    pthread_mutex_lock(&p->drive->lock);
    drive_call_keeper(p->drive);
    pthread_mutex_unlock(&p->drive->lock);
}

int engine_may_stop(pawl *p)
{
    return p && !is_forked(p) && p->drive;
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

/* ---- The last error ---- */

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
