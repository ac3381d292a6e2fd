/* The handle as all other folders see it: entering and leaving public functions, the last error of
 * each thread, and access to the parts of the engine. api/engine.c makes the handle. The scheduler,
 * which is in a higher folder, is called through a table of upcalls. */
#include "handle/handle.h"

#include <unistd.h>

#include "handle/handle_internal.h"

/* ---- The function of a pawl_transact() ---- */

/* Set while the calling thread is in the function of a pawl_transact(). It is a variable of the
 * thread, because the function may call pawl on any handle, also on one that knows nothing of this
 * run. The call is refused since on SQLite it would wait for the very transaction that it is made
 * in. */
static _Thread_local int *guest; /* tidy: shared, no: each thread has its own */

void handle_begin_guest(int *misuses)
{
    guest = misuses;
}

void handle_end_guest(void)
{
    guest = NULL;
}

int handle_is_guest(void)
{
    if (guest)
        *guest = 1;
    return guest != NULL;
}

/* ---- Entering and leaving ---- */

pawl_code handle_refuse_guest(error *err)
{
    error_set(err, PAWL_MISUSE, "called from the function of a pawl_transact()");
    error_hint(err, "do it in the workflow, before or after; or in a step");
    return PAWL_MISUSE;
}

int handle_is_forked(const pawl *p)
{
    return p->pid != getpid(); /* RULE C8-a-handle-stays-with-its-process */
}

pawl_code handle_enter(pawl *p, error *err)
{
    if (!p)
        return error_set(err, PAWL_INVALID, "no handle");
    if (handle_is_forked(p))
        return error_set(err, PAWL_FORKED, "the handle belongs to the parent process");
    if (handle_is_guest()) /* RULE A8-a-guest-function-calls-no-pawl */
        return handle_refuse_guest(err);
    if (p->read_pool)
        return PAWL_OK;
    error_set(err, PAWL_MISUSE, "the database of this handle is not open");
    error_hint(err, "look at the answer of pawl_open(), close the handle and open it again");
    return PAWL_MISUSE;
}

pawl_code handle_enter_to_write(pawl *p, error *err)
{
    pawl_code rc = handle_enter(p, err);
    if (rc != PAWL_OK || !p->db->options.look_only) /* RULE a-handle-that-looks-does-not-write */
        return rc;
    error_set(err, PAWL_READONLY, "this handle only looks");
    error_hint(err, "open the database without look_only to change it or to drive runs");
    return PAWL_READONLY;
}

pawl_code handle_leave(pawl *p, pawl_code rc, const error *err)
{
    if (rc != PAWL_OK && p && !handle_is_forked(p))
        error_store_put(p->errors, err);
    return rc;
}

/* ---- Parts ---- */

db *handle_db(pawl *p)
{
    return p->db;
}

committers *handle_committers(pawl *p)
{
    return p->committers;
}

notify *handle_notify(pawl *p)
{
    return &p->notify;
}

watches *handle_watches(pawl *p)
{
    return &p->watches;
}

_Atomic int64_t *handle_feed_until(pawl *p)
{
    return &p->feed_until_ms;
}

read_pool *handle_read_pool(pawl *p)
{
    return p->read_pool;
}

slice handle_tenant(pawl *p)
{
    return slice_of(p->tenant);
}

int64_t handle_node(pawl *p)
{
    return p->upcalls->node(p->sched);
}

struct registry *handle_registry(pawl *p)
{
    return p->registry;
}

struct sched *handle_sched(pawl *p)
{
    return p->sched;
}

const char *handle_name(pawl *p)
{
    return p->name;
}

/* A client that is no node has not measured the database's time: then it is measured here, once. */
pawl_code handle_time(pawl *p, int64_t *now_ms, error *err)
{
    if (!db_clock_is_known(&p->clock)) {
        db_conn *c;
        pawl_code rc = db_connect(p->db, DB_READER, &c, err);
        if (rc == PAWL_OK)
            rc = db_clock_measure(&p->clock, c, err);
        db_disconnect(c);
        if (rc != PAWL_OK)
            return rc;
    }
    *now_ms = db_clock_now_ms(&p->clock);
    return PAWL_OK;
}

pawl_code handle_up_time(pawl *p, int64_t *up_ms, error *err)
{
    pawl_code rc = handle_time(p, up_ms, err);
    if (rc == PAWL_OK)
        *up_ms = db_clock_up_ms(&p->clock);
    return rc;
}

void handle_wake(pawl *p)
{
    p->upcalls->wake(p->sched);
}

int handle_unrecorded(pawl *p, int64_t run, int64_t owner, char *out, size_t size)
{
    return p->upcalls->unrecorded(p->sched, run, owner, out, size);
}

int handle_may_stop(pawl *p)
{
    return p && !handle_is_forked(p) && p->sched;
}

pawl_code handle_unsupported(pawl *p, const char *what)
{
    if (!p)
        return PAWL_INVALID;
    if (handle_is_forked(p))
        return PAWL_FORKED;
    error err = {0};
    error_set(&err, PAWL_UNSUPPORTED, "%s() is not built into this library", what);
    error_detail(&err, "this is version %s", PAWL_VERSION);
    error_hint(&err, "use a version whose changelog names it; pawl_version() tells which one runs");
    return error_store_put(p->errors, &err);
}

/* ---- The last error ---- */

/* Returns the last error of the calling thread. In a child of fork() it is a constant, since the
 * lock of the store may be held there for ever. */
static const error *last_error(pawl *p)
{
    static const error none = {.code = PAWL_INVALID, .message = "no handle"};
    static const error forked = {.code = PAWL_FORKED,
                                 .message = "the handle belongs to the parent process",
                                 .hint = "open it after fork(), or exec() a program in the child"};
    if (!p)
        return &none;
    return handle_is_forked(p) ? &forked : error_store_get(p->errors);
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
    return p && !handle_is_forked(p) ? error_store_text(p->errors) : last_error(p)->message;
}
