/* Opening and closing an engine: the handle is made here, and everything on top of its database is
 * wired to it.
 *
 * Even a failed open gives a handle, so that the caller can ask it for the error. The options of
 * the engine are checked here, and the texts that outlive the call are copied. */

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/engine_test.h"
#include "api/orphan_rows.h"
#include "api/outbox.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/build.h"
#include "base/clock.h"
#include "base/id.h"
#include "base/options.h"
#include "base/text.h"
#include "db/committers.h"
#include "handle/handle_internal.h"
#include "query/change_feed.h"
#include "run/registry.h"
#include "sched/look_failure.h"
#include "sched/run_failure.h"
#include "sched/sched.h"
#include "sched/unit_retry.h"

enum {
    TAGS_MAX = 4096, /* bytes of the whole list of tags */
    TEXTS_MAX = 64 * 1024,
    WARM_BYTES = 256 * 1024 * 1024,
    AT_RISK_MAX = 256,
    AT_RISK_MS = 1,
    STAND_MS = 50, /* however large at_risk_ms is, units do not stand in a queue for longer */
    DRAIN_MS = 10000,
    POLL_MS = 10,
    COMMITTERS = 2, /* used where several transactions can write at a time */
};

/* The handle comes first, so that a pointer to one is a pointer to the other. */
typedef struct engine {
    pawl handle;
    engine_test test;
    atomic_int is_closing; /* pawl_close() is calling the functions given to pawl_defer() */
    outbox_relay outbox_relay;
    orphan_rows orphan_rows;
} engine;

static engine *engine_of(pawl *p)
{
    return (engine *)(void *)p;
}

/* ---- What the handle asks of the scheduler ---- */

static int tell_trouble(struct sched *s, int64_t run, int64_t owner, char *out, size_t size)
{
    return unit_retry_words(s, run, out, size) || run_failure_words(s, run, out, size) ||
           (owner >= 0 && look_failure_words(s, run, owner, out, size));
}

static const handle_upcalls UPCALLS = {sched_open_node, sched_wake, tell_trouble};

/* ---- Options ---- */

static pawl_code check_numbers(const pawl_options *o, error *err)
{
    const struct {
        const char *name;
        int64_t number;
        int64_t least;
    } numbers[] = {
        {"wal_bytes", o->wal_bytes, 0},     {"busy_ms", o->busy_ms, 0},
        {"threads", o->threads, -1},        {"threads_max", o->threads_max, 0},
        {"warm_bytes", o->warm_bytes, 0},   {"claim_ms", o->claim_ms, 0},
        {"drain_ms", o->drain_ms, 0},       {"keep_ms", o->keep_ms, 0},
        {"poll_ms", o->poll_ms, -1},        {"work_threads", o->work_threads, 0},
        {"at_risk_max", o->at_risk_max, 0}, {"at_risk_ms", o->at_risk_ms, 0},
    };
    pawl_code rc = PAWL_OK;
    for (size_t i = 0; rc == PAWL_OK && i < sizeof numbers / sizeof *numbers; i++)
        rc = options_number(numbers[i].number, numbers[i].least, numbers[i].name, err);
    if (rc == PAWL_OK && o->threads_max > 0)
        rc = options_number(o->threads_max, o->threads, "threads_max", err);
    return rc;
}

/* Each item of the list must be a valid name, and the list as a whole has a limit too. */
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

/* Refuses options that the header declares and that are not built yet, instead of ignoring them. */
static pawl_code check_built(const pawl_options *o, error *err)
{
    const char *missing = o->keep_ms ? "keep_ms" : o->tags ? "tags" : NULL;
    return missing ? options_unbuilt(missing, err) : PAWL_OK;
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
    if (rc == PAWL_OK)
        rc = check_tags(o->tags, err);
    /* RULE options-that-are-not-built-are-refused */
    return rc == PAWL_OK ? check_built(o, err) : rc;
}

/* NULL stays NULL. The text has been checked before, so that the copy can fail only for want of
 * memory. */
static const char *copy_option(pawl *p, const char *text, int *failed)
{
    const char *copy = text ? arena_copy(p->memory, slice_of(text)) : NULL;
    *failed |= text && !copy;
    return copy;
}

/* The name of an engine to which the program gives none: the host's name and the process. */
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
    p->tenant = copy_option(p, o->tenant ? o->tenant : "", &failed);
    p->name = o->name ? copy_option(p, o->name, &failed) : default_name(p->memory);
    p->build = o->build ? copy_option(p, o->build, &failed) : build_id(p->memory);
    failed |= !p->name || !p->build;
    return failed ? error_nomem(err) : PAWL_OK;
}

static int64_t most_threads(const pawl_options *o)
{
    int64_t most = o->threads_max ? o->threads_max : SCHED_RUNNERS_MAX;
    return most < SCHED_RUNNERS_MAX ? most : SCHED_RUNNERS_MAX;
}

static int64_t threads_of(const pawl_options *o)
{
    if (o->threads < 0)
        return 0;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int64_t threads = o->threads ? o->threads : processors > 0 ? processors : 1;
    return threads < most_threads(o) ? threads : most_threads(o);
}

static int64_t look_at_feed(chore *c, db_conn *conn, int64_t now_ns)
{
    (void)now_ns;
    change_feed_look(c->arg, conn);
    return 0;
}

static int64_t sweep_feed(chore *c, db_conn *conn, int64_t now_ns)
{
    if (change_feed_sweep(c->arg, conn))
        c->next_ns = now_ns; /* there may be more rows: sweep again at once */
    return 0;
}

/* The tasks of the node loop besides driving runs. */
static void register_chores(engine *e)
{
    sched *s = e->handle.sched;
    e->outbox_relay = (outbox_relay){.sched = s};
    e->orphan_rows = (orphan_rows){.sched = s};
    pawl *p = &e->handle;
    const chore chores[] = {
        {"change-feed", clock_deadline(0, CHANGE_FEED_LOOK_MS), look_at_feed, p, 0},
        {"change-feed-sweep", clock_deadline(0, CHANGE_FEED_SWEEP_MS), sweep_feed, p, 0},
        {"outbox", clock_deadline(0, OUTBOX_RELAY_MS), outbox_relay_look, &e->outbox_relay, 0},
        {"orphan-rows", 0, orphan_rows_look, &e->orphan_rows, 0},
    };
    for (size_t i = 0; i < sizeof chores / sizeof *chores; i++)
        sched_add_chore(s, &chores[i]);
}

/* Parts of the handle that have locks of their own. */
static void init_parts(pawl *p)
{
    db_clock_init(&p->clock, p->db);
    notify_init(&p->notify, p->db);
    watches_init(&p->watches, p->db->options.clock);
    atomic_store(&p->feed_until_ms, 0);
}

static void free_parts(pawl *p)
{
    if (!p->clock.host)
        return; /* the database was not opened */
    watches_free(&p->watches);
    notify_free(&p->notify);
    db_clock_free(&p->clock);
    p->clock.host = NULL;
}

static int64_t at_risk_ms(const pawl_options *o)
{
    return o->at_risk_ms ? o->at_risk_ms : AT_RISK_MS;
}

/* Opens everything that stands on top of the database. */
static pawl_code open_engine(pawl *p, const pawl_options *o, const engine_test *test, error *err)
{
    init_parts(p);
    committer_options by = {.by_hand = o->threads < 0,
                            .stand_ms = at_risk_ms(o) < STAND_MS ? at_risk_ms(o) : STAND_MS,
                            .on_noted = change_feed_noted,
                            .on_noted_arg = p};
    int count = p->db->options.look_only ? 0 : COMMITTERS;
    pawl_code rc = committers_open(&p->committers, p->db, &by, count, err);
    if (rc != PAWL_OK)
        return rc;
    p->registry = p->registry ? p->registry : registry_new();
    read_pool *shared = read_pool_new(p->db);
    sched_options options = {
        .db = p->db,
        .clock = &p->clock,
        .notify = &p->notify,
        .watches = &p->watches,
        .committers = p->committers,
        .read_pool = shared,
        .registry = p->registry,
        .tenant = p->tenant,
        .name = p->name,
        .build = p->build,
        .threads = threads_of(o),
        .threads_max = most_threads(o),
        .claim_ms = p->db->options.claim_ms,
        .drain_ms = o->drain_ms ? o->drain_ms : DRAIN_MS,
        .warm_bytes = o->warm_bytes ? o->warm_bytes : WARM_BYTES,
        .at_risk_max = o->at_risk_max ? o->at_risk_max : AT_RISK_MAX,
        .at_risk_ms = at_risk_ms(o),
        .work_threads = o->work_threads < SCHED_RUNNERS_MAX ? o->work_threads : SCHED_RUNNERS_MAX,
        .poll_ms = o->poll_ms ? o->poll_ms : POLL_MS,
        .has_heartbeat = !test->clock && !hooks_have_clock(&p->hooks),
        .drops = test->drops,
        .drops_arg = test->arg,
        .ignores_notifications = test->one_thread};
    rc = p->registry && shared ? sched_open(&p->sched, &options, err) : error_nomem(err);
    if (rc != PAWL_OK) {
        read_pool_free(shared);
        return rc;
    }
    p->read_pool = shared;
    register_chores(engine_of(p));
    return PAWL_OK;
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
        .by_hand = o.threads < 0 || test->one_thread,
        .look_only = o.look_only != 0,
    };
    rc = db_open(&p->db, &options, err);
    if (rc != PAWL_OK)
        return rc;
    if (test->wrap)
        p->db = test->wrap(test->arg, p->db);
    return open_engine(p, &o, test, err);
}

pawl_code engine_test_open(pawl **out, const char *url, const pawl_options *options,
                           const engine_test *test)
{
    if (!out)
        return PAWL_INVALID;
    *out = NULL;
    engine *made = calloc(1, sizeof *made);
    error_store *errors = error_store_new();
    arena *memory = arena_new(TEXTS_MAX);
    if (!made || !errors || !memory) {
        free(made);
        error_store_free(errors);
        arena_free(memory);
        return PAWL_NOMEM;
    }
    pawl *p = &made->handle;
    p->pid = getpid();
    p->errors = errors;
    p->memory = memory;
    p->upcalls = &UPCALLS;
    made->test = *test;
    *out = p;
    error err = {0};
    pawl_code rc =
        handle_is_guest() ? handle_refuse_guest(&err) : open_all(p, url, options, test, &err);
    return rc == PAWL_OK ? rc : error_store_put(p->errors, &err);
}

pawl_code pawl_open(pawl **out, const char *url, const pawl_options *options)
{
    return engine_test_open(out, url, options, &(engine_test){0});
}

const engine_test *engine_test_of(pawl *p)
{
    return &engine_of(p)->test;
}

int engine_test_is_idle(pawl *p, int calls, int64_t *looks)
{
    int64_t next_ns = committers_next_ns(p->committers);
    if (next_ns != INT64_MAX && next_ns > sched_mono_ns(p->sched))
        committers_drive(p->committers); /* tries a commit again that is due only when the clock
                                            moves */
    int idle = run_queue_is_idle(p->sched, calls, looks);
    return next_ns == INT64_MAX ? idle : 0;
}

/* The scheduler is closed first, since work functions that are still running may use the other
 * parts. */
void engine_test_drop(pawl *p)
{
    sched_close(p->sched);
    outbox_relay_clear(&engine_of(p)->outbox_relay);
    read_pool_free(p->read_pool);
    committers_close(p->committers);
    free_parts(p);
    p->sched = NULL;
    p->read_pool = NULL;
    p->committers = NULL;
}

pawl_code engine_test_again(pawl *p, const pawl_options *options, error *err)
{
    return open_engine(p, options, &engine_of(p)->test, err);
}

/* Closing frees the handle, so it is refused while a function on the stack of any thread may still
 * use it. A handle that was opened inside pawl_transact(), which fails, has no scheduler and may be
 * closed there. */
static pawl_code check_may_close(pawl *p, error *err)
{
    if (!p->sched)
        return PAWL_OK;
    if (handle_is_guest())
        return handle_refuse_guest(err);
    /* RULE a-handle-that-is-being-closed-is-not-closed-again */
    const char *why =
        atomic_load(&engine_of(p)->is_closing) ? "it is being closed" : sched_in_use(p->sched);
    if (!why)
        return PAWL_OK;
    error_set(err, PAWL_MISUSE,
              "the engine cannot be closed while it is being driven, nor from a "
              "function that it has called");
    error_hint(err, "let pawl_serve(), pawl_poll() or pawl_finish() return first (pawl_stop() "
                    "asks them to), then close it from the thread that called them");
    LOG(sched_log(p->sched), LOG_ERROR, "close-refused", LOG_TEXT("why", why));
    return PAWL_MISUSE;
}

pawl_code pawl_close(pawl *p)
{
    error err = {0};
    if (!p)
        return PAWL_OK;
    if (handle_is_forked(p))
        return PAWL_FORKED;
    if (check_may_close(p, &err) != PAWL_OK)
        return error_store_put(p->errors, &err); /* RULE a-close-that-is-refused-says-so */
    atomic_store(&engine_of(p)->is_closing, 1);
    engine_test test = engine_of(p)->test;
    engine_test_drop(p);
    registry_free(p->registry);
    db_close(p->db);
    error_store_free(p->errors);
    arena_free(p->memory);
    free(engine_of(p));
    if (test.closed)
        test.closed(test.arg);
    return PAWL_OK;
}

pawl_code pawl_id_new(char out[PAWL_ID_SIZE])
{
    if (!out)
        return PAWL_INVALID;
    clock_source *clock = clock_system();
    out[0] = 0;
    return id_uuid7(out, clock->now_ms(clock), random_system()) == 0 ? PAWL_OK : PAWL_STORAGE;
}
