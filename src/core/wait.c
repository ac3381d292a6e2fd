/* Waiting for the end of a run: one row is looked at, and again when this process has heard of its
 * end, or after a second. */
#include "core/wait.h"

#include <string.h>

#include "base/text.h"
#include "core/drive.h"
#include "core/engine.h"
#include "core/info.h"
#include "core/outcome.h"

static const int64_t LOOK_MS = 1000;

static const db_sql LOOK = {
    "SELECT status, held, output, error, held_reason, run, generation FROM {runs}"
    " WHERE tenant = $1 AND id = $2",
    "tt"};
static const db_sql LAST = {"SELECT data FROM {journal} WHERE run = $1 AND generation = $2"
                            " AND kind = $3 ORDER BY seq DESC LIMIT 1",
                            "iii"};

/* Have its end told to other processes. Refused: it has ended. */
static const db_sql WATCH = {"UPDATE {runs} SET watched = 1 WHERE run = $1 AND status IN (0, 4)"
                             " RETURNING run",
                             "i"};

/* What the row says. Texts are in the arena. */
typedef struct ending {
    arena *memory;
    int found;
    int64_t status, held, run, generation;
    slice output, error, reason;
} ending;

static slice keep(arena *a, db_value v)
{
    slice none = {NULL, 0};
    if (v.type == DB_NULL)
        return none;
    return (slice){arena_copy(a, v.s), v.s.size};
}

static pawl_code take_row(void *arg, db_stmt *row, error *err)
{
    ending *e = arg;
    (void)err;
    e->found = 1;
    e->status = reader_int(row, 0);
    e->held = reader_int(row, 1);
    e->output = keep(e->memory, db_column(row, 2));
    e->error = keep(e->memory, db_column(row, 3));
    e->reason = keep(e->memory, db_column(row, 4));
    e->run = reader_int(row, 5);
    e->generation = reader_int(row, 6);
    return PAWL_OK;
}

static pawl_code take_output(void *arg, db_stmt *row, error *err)
{
    ending *e = arg;
    (void)err;
    e->output = keep(e->memory, db_column(row, 0));
    return PAWL_OK;
}

static pawl_code read_ending(pawl *p, const char *id, ending *e, error *err)
{
    db_conn *c;
    pawl_code rc = readers_begin(engine_readers(p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    db_value name[] = {db_text(engine_tenant(p)), db_text(slice_of(id))};
    rc = reader_rows(c, &LOOK, name, DB_COUNT(name), take_row, e, err);
    if (rc == PAWL_OK && e->found && e->status == RUN_DONE && !e->output.at) {
        db_value last[] = {db_int(e->run), db_int(e->generation), db_int(OP_ENDED)};
        rc = reader_rows(c, &LAST, last, DB_COUNT(last), take_output, e, err);
    }
    readers_end(engine_readers(p), c);
    return rc;
}

static pawl_code judge(const ending *e, pawl_outcome **out, error *err)
{
    if (!e->found)
        return reader_no_run(err);
    pawl_code code = PAWL_TIMEOUT;
    if (e->status == RUN_DONE)
        code = PAWL_OK;
    else if (e->status == RUN_FAILED)
        code = PAWL_FAILED;
    else if (e->status == RUN_CANCELLED)
        code = PAWL_CANCELLED;
    else if (e->held)
        code = PAWL_HELD;
    if (code == PAWL_TIMEOUT)
        return error_set(err, code, "the run goes on");
    slice reason = e->reason.size ? e->reason : slice_of(info_held_word(e->held));
    pawl_outcome *o = code == PAWL_OK     ? outcome_new(code, e->output, NULL, NULL, NULL)
                      : code == PAWL_HELD ? outcome_held(reason)
                                          : outcome_failed(code, e->error);
    if (!o)
        return error_set(err, PAWL_NOMEM, "out of memory");
    if (code != PAWL_OK) {
        error_set(err, code, "%s", pawl_code_text(code));
        error_detail(err, "%s: %s", pawl_outcome_name(o), pawl_outcome_message(o));
    }
    if (out)
        *out = o;
    else
        pawl_outcome_free(o);
    return code;
}

static pawl_code look(pawl *p, const char *id, pawl_outcome **out, int64_t *run, error *err)
{
    ending e = {.memory = arena_new(0)};
    if (!e.memory)
        return error_set(err, PAWL_NOMEM, "out of memory");
    pawl_code rc = read_ending(p, id, &e, err);
    if (rc == PAWL_OK)
        rc = judge(&e, out, err);
    if (run)
        *run = e.run;
    arena_free(e.memory);
    return rc;
}

pawl_code wait_look(pawl *p, const char *id, pawl_outcome **out, error *err)
{
    return look(p, id, out, NULL, err);
}

/* A run that is driven here tells of its end by itself: 1. For one that is not, its row is marked,
 * so that whoever ends it tells others; it may have ended before that. */
static int ask_to_be_told(drive *d, int64_t run)
{
    pthread_mutex_lock(&d->lock);
    int here = map_get(&d->runs, (uint64_t)run) != NULL;
    pthread_mutex_unlock(&d->lock);
    arena *a = here ? NULL : arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (u) {
        db_value key[] = {db_int(run)};
        unit_guard(u, &WATCH, "live", unit_key("runs", run), key, 1);
        u->class = UNIT_OF_CLIENT;
        committer_commit(committers_of(d->options.committers, (uint64_t)run), u);
        wake_open(d);
    }
    arena_free(a);
    return here;
}

pawl_code wait_check(const char *id, int64_t timeout_ms, error *err)
{
    if (!id || !*id)
        return error_set(err, PAWL_INVALID, "the id of the run is empty");
    if (timeout_ms < 0)
        return error_set(err, PAWL_INVALID, "the time-out is negative");
    return text_check(slice_of(id), PAWL_MAX_ID, "id of the run", err);
}

/* Sleep until the run has ended here, or it is time to look again. PAWL_CLOSED: stop. */
pawl_code wait_sleep(drive *d, drive_watch *w, int64_t deadline_ns, error *err)
{
    int64_t look = clock_deadline(d->host->mono_ns(d->host), LOOK_MS);
    pthread_mutex_lock(&d->lock);
    int stopped = atomic_load(&d->stops) != w->stops;
    if (!w->ended && !stopped)
        d->host->wait(d->host, &w->cond, &d->lock, look < deadline_ns ? look : deadline_ns);
    w->ended = 0;
    pthread_mutex_unlock(&d->lock);
    return stopped ? error_set(err, PAWL_CLOSED, "the engine was asked to stop") : PAWL_OK;
}

void wait_watch(drive *d, drive_watch *w)
{
    pthread_mutex_lock(&d->lock);
    w->stops = atomic_load(&d->stops);
    drive_watch **list = drive_watches(d, w->id);
    w->next = *list;
    *list = w;
    d->watch_count++;
    pthread_mutex_unlock(&d->lock);
}

void wait_unwatch(drive *d, drive_watch *w)
{
    pthread_mutex_lock(&d->lock);
    drive_watch **at = drive_watches(d, w->id);
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    d->watch_count--;
    pthread_mutex_unlock(&d->lock);
    pthread_cond_destroy(&w->cond);
}

/* ---- The custom status ---- */

/* PAWL_TIMEOUT: there is nothing new. */
static pawl_code look_at_status(pawl *p, const char *id, int64_t seen, pawl_info **out, error *err)
{
    pawl_code rc = pawl_status(p, id, out);
    if (rc != PAWL_OK) {
        error_set(err, rc, "%s", pawl_errmsg(p));
        error_detail(err, "%s", pawl_errdetail(p));
        return rc;
    }
    pawl_phase phase = pawl_info_phase(*out);
    if (pawl_info_status_seq(*out) > seen || phase == PAWL_RUN_DONE || phase == PAWL_RUN_FAILED ||
        phase == PAWL_RUN_CANCELLED)
        return PAWL_OK;
    pawl_info_free(*out);
    *out = NULL;
    return error_set(err, PAWL_TIMEOUT, "the status has not changed");
}

pawl_code pawl_wait_status(pawl *p, const char *id, int64_t seen, int64_t timeout_ms,
                           pawl_info **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK && !out)
        rc = error_set(&err, PAWL_INVALID, "there is no place for the result");
    if (rc == PAWL_OK)
        rc = wait_check(id, timeout_ms, &err);
    if (rc != PAWL_OK || !out)
        return engine_leave(p, rc, &err);
    drive *d = engine_drive(p);
    int64_t deadline = clock_deadline(d->host->mono_ns(d->host), timeout_ms);
    drive_watch w = {.id = slice_of(id)};
    if (clock_cond_init(&w.cond) != 0)
        return engine_leave(p, error_set(&err, PAWL_NOMEM, "out of memory"), &err);
    wait_watch(d, &w);
    for (;;) {
        rc = look_at_status(p, id, seen, out, &err);
        if (rc != PAWL_TIMEOUT || d->host->mono_ns(d->host) >= deadline)
            break;
        rc = wait_sleep(d, &w, deadline, &err);
        if (rc != PAWL_OK)
            break;
    }
    wait_unwatch(d, &w);
    return engine_leave(p, rc, &err);
}

/* ---- The end ---- */

pawl_code pawl_wait(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = engine_enter(p, &err);
    if (rc == PAWL_OK)
        rc = wait_check(id, timeout_ms, &err);
    if (rc != PAWL_OK)
        return engine_leave(p, rc, &err);
    drive *d = engine_drive(p);
    int64_t deadline = clock_deadline(d->host->mono_ns(d->host), timeout_ms);
    drive_watch w = {.id = slice_of(id)};
    if (clock_cond_init(&w.cond) != 0)
        return engine_leave(p, error_set(&err, PAWL_NOMEM, "out of memory"), &err);
    wait_watch(d, &w);
    pawl_code stop = PAWL_OK;
    for (int asked = 0; stop == PAWL_OK; asked = 1) {
        int64_t run = 0;
        rc = look(p, id, out, &run, &err);
        if (rc != PAWL_TIMEOUT || d->host->mono_ns(d->host) >= deadline)
            break;
        if (asked || ask_to_be_told(d, run))
            rc = stop = wait_sleep(d, &w, deadline, &err);
    }
    wait_unwatch(d, &w);
    return engine_leave(p, rc, &err);
}
