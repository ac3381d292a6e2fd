/* Waiting for the end of a run: its row is read, and read again at a notification of its end, or
 * after a second. If the run ends in this process, the commit tells how, and the row is not read
 * again. */
#include "api/wait.h"

#include <string.h>

#include "base/text.h"
#include "db/columns.h"
#include "handle/handle.h"
#include "journal/op.h"
#include "journal/outcome.h"
#include "query/info.h"
#include "sched/sched.h"

static const db_sql LOOK = {
    "SELECT phase, held, output, error, held_reason, run, generation FROM {runs}"
    " WHERE tenant = $1 AND id = $2",
    "tt"};
static const db_sql LAST = {"SELECT data FROM {journal} WHERE run = $1 AND generation = $2"
                            " AND kind = $3 ORDER BY seq DESC LIMIT 1",
                            "iii"};

/* Marks the row of a run, so that its end is notified to other processes. Refused: the run has
 * ended. */
static const db_sql WATCH = {"UPDATE {runs} SET watched = 1 WHERE run = $1"
                             " AND phase IN ({LIVE}, {FAILING})"
                             " RETURNING run",
                             "k"};

/* What the row of the run says. Texts are in the arena. */
typedef struct ending {
    arena *memory;
    int found;
    int64_t phase, held, run, generation;
    slice output, error, reason;
} ending;

static slice copy_value(arena *a, db_value v)
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
    e->phase = read_pool_int(row, 0);
    e->held = read_pool_int(row, 1);
    e->output = copy_value(e->memory, db_column(row, 2));
    e->error = copy_value(e->memory, db_column(row, 3));
    e->reason = copy_value(e->memory, db_column(row, 4));
    e->run = read_pool_int(row, 5);
    e->generation = read_pool_int(row, 6);
    return PAWL_OK;
}

static pawl_code take_output(void *arg, db_stmt *row, error *err)
{
    ending *e = arg;
    (void)err;
    e->output = copy_value(e->memory, db_column(row, 0));
    return PAWL_OK;
}

static pawl_code read_ending(pawl *p, const char *id, ending *e, error *err)
{
    db_conn *c;
    pawl_code rc = read_pool_begin(handle_read_pool(p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    db_value name[] = {db_text(handle_tenant(p)), db_text(slice_of(id))};
    rc = read_pool_rows(c, &LOOK, name, DB_COUNT(name), take_row, e, err);
    if (rc == PAWL_OK && e->found && e->phase == PHASE_DONE && !e->output.at) {
        db_value last[] = {db_int(e->run), db_int(e->generation), db_int(OP_ENDED)};
        rc = read_pool_rows(c, &LAST, last, DB_COUNT(last), take_output, e, err);
    }
    read_pool_end(handle_read_pool(p), c);
    return rc;
}

static pawl_code outcome_of(const ending *e, pawl_outcome **out, error *err)
{
    if (!e->found)
        return read_pool_no_run(err);
    pawl_code code = PAWL_TIMEOUT;
    if (e->phase == PHASE_DONE)
        code = PAWL_OK;
    else if (e->phase == PHASE_FAILED)
        code = PAWL_FAILED;
    else if (e->phase == PHASE_CANCELLED)
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
        return error_nomem(err);
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

/* What a wait is for: the run of this key, from this generation on. */
typedef struct awaited {
    int64_t run;
    int64_t generation;
} awaited;

static pawl_code read_outcome(pawl *p, const char *id, pawl_outcome **out, awaited *run, error *err)
{
    ending e = {.memory = arena_new(0)};
    if (!e.memory)
        return error_nomem(err);
    pawl_code rc = read_ending(p, id, &e, err);
    if (rc == PAWL_OK)
        rc = outcome_of(&e, out, err);
    if (run)
        *run = (awaited){e.run, e.generation};
    arena_free(e.memory);
    return rc;
}

pawl_code wait_look(pawl *p, const char *id, pawl_outcome **out, error *err)
{
    return read_outcome(p, id, out, NULL, err);
}

/* 1: the watch was told how the run has ended, and *rc is the answer. */
static int was_told(watches *all, watch *w, const awaited *run, pawl_outcome **out, pawl_code *rc,
                    error *err)
{
    const watch_end *told = watches_end(all, w, run->run, run->generation);
    if (!told)
        return 0;
    ending e = {.found = 1, .phase = told->phase, .output = told->output, .error = told->error};
    *rc = outcome_of(&e, out, err);
    return 1;
}

/* ---- The mark of a run that is waited for ---- */

/* How many units that mark a run may be under way: more of them would fill the queue of the
 * committer while the database is locked, and a wait without a mark reads the row once a second. */
enum { MARKS_MAX = 64 };

/* A unit that marks the row of a run, with all that it needs. It lives in its own arena, since its
 * commit may take longer than the wait. */
typedef struct mark {
    arena *memory;
    watches *all;
    slice id;
} mark;

/* The row is read again now: the run may have ended before it was marked. */
static void finish_mark(unit *u, void *arg)
{
    mark *m = arg;
    if (u->answer == UNIT_UNDECIDED)
        return;
    watches_tell(m->all, m->id);
    atomic_fetch_sub(&m->all->marks, 1);
    arena_free(m->memory);
}

static unit *build_mark(watches *all, const char *id, int64_t run)
{
    arena *a = arena_new(0);
    mark *m = a ? arena_alloc(a, sizeof *m) : NULL;
    unit *u = m ? unit_new(a) : NULL;
    const char *copy = u ? arena_copy(a, slice_of(id)) : NULL;
    if (!copy) {
        arena_free(a);
        return NULL;
    }
    *m = (mark){a, all, slice_of(copy)};
    db_value key[] = {db_int(run)};
    unit_guard(u, &WATCH, "live", unit_key("runs", run), key, 1);
    u->class = UNIT_OF_CLIENT;
    u->done = finish_mark;
    u->done_arg = m;
    return u;
}

/* Asks for a notification of the run's end. If this engine drives the run it notices the end by
 * itself. Otherwise the row is marked (watched), so that the node that ends the run notifies other
 * processes. The unit is handed in and not waited for, and this thread does not lead: the database
 * may stay locked for longer than the wait may take. */
static void ask_to_be_told(sched *s, watches *all, const char *id, int64_t run)
{
    if (sched_has_run(s, run))
        return;
    unit *u = atomic_fetch_add(&all->marks, 1) < MARKS_MAX ? build_mark(all, id, run) : NULL;
    if (!u) {
        atomic_fetch_sub(&all->marks, 1);
        return;
    }
    committer *k = sched_committer_of(s, run);
    committer_submit(k, u); /* RULE L4-a-wait-does-not-wait-for-the-lock-of-its-mark */
    committer_leave(k);
    sched_listen(s);
}

pawl_code wait_check(const char *id, int64_t timeout_ms, error *err)
{
    if (!id || !*id)
        return error_set(err, PAWL_INVALID, "the id of the run is empty");
    if (timeout_ms < 0)
        return error_set(err, PAWL_INVALID, "the time-out is negative");
    return text_check(slice_of(id), PAWL_MAX_ID, "id of the run", err);
}

/* ---- The custom status ---- */

/* Reads the run once. PAWL_TIMEOUT: its status has not changed, and it has not ended. */
static pawl_code look_at_status(pawl *p, const char *id, int64_t seen, pawl_info **out, error *err)
{
    pawl_code rc = pawl_inspect(p, id, out);
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
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK && !out)
        rc = error_set(&err, PAWL_INVALID, "there is no place for the result");
    if (rc == PAWL_OK)
        rc = wait_check(id, timeout_ms, &err);
    if (rc != PAWL_OK || !out)
        return handle_leave(p, rc, &err);
    watches *all = handle_watches(p);
    int64_t deadline = clock_deadline(all->clock->mono_ns(all->clock), timeout_ms);
    watch w;
    rc = watches_add(all, &w, slice_of(id), &err);
    if (rc != PAWL_OK)
        return handle_leave(p, rc, &err);
    for (;;) {
        rc = look_at_status(p, id, seen, out, &err);
        if (rc != PAWL_TIMEOUT || all->clock->mono_ns(all->clock) >= deadline)
            break;
        rc = watches_sleep(all, &w, deadline, &err);
        if (rc != PAWL_OK)
            break;
    }
    watches_remove(all, &w);
    return handle_leave(p, rc, &err);
}

/* ---- The end ---- */

/* Reads the row, sleeps, and so on, until there is an answer. `started`: the key of the run, if it
 * was started here a moment ago: then it is not read before something is told of it. */
static pawl_code await_end(pawl *p, const char *id, watch *w, int64_t deadline, int64_t started,
                           pawl_outcome **out, error *err)
{
    watches *all = handle_watches(p);
    awaited run = {started, 1};
    int asked = 0;
    for (int knows = started != 0;; knows = 0) {
        pawl_code rc = knows ? PAWL_TIMEOUT : read_outcome(p, id, out, &run, err);
        if (!knows && (rc != PAWL_TIMEOUT || all->clock->mono_ns(all->clock) >= deadline))
            return rc;
        if (asked)
            committers_leave(handle_committers(p)); /* by hand: tries the mark again */
        else if (!knows && !handle_db(p)->options.look_only)
            ask_to_be_told(handle_sched(p), all, id, run.run);
        asked |= !knows;
        rc = watches_sleep(all, w, deadline, err);
        /* RULE L2-an-end-that-was-told-is-not-read */
        if (rc != PAWL_OK || was_told(all, w, &run, out, &rc, err))
            return rc;
    }
}

pawl_code pawl_wait(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = handle_enter(p, &err);
    if (rc == PAWL_OK)
        rc = wait_check(id, timeout_ms, &err);
    if (rc != PAWL_OK)
        return handle_leave(p, rc, &err);
    watches *all = handle_watches(p);
    int64_t deadline = clock_deadline(all->clock->mono_ns(all->clock), timeout_ms);
    watch w;
    rc = watches_add(all, &w, slice_of(id), &err);
    if (rc != PAWL_OK)
        return handle_leave(p, rc, &err);
    /* RULE L2-a-run-that-was-just-started-is-not-read */
    int64_t started = timeout_ms > 0 ? sched_will_tell(handle_sched(p), slice_of(id)) : 0;
    rc = await_end(p, id, &w, deadline, started, out, &err);
    watches_remove(all, &w);
    return handle_leave(p, rc, &err);
}
