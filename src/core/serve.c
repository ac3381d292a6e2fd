/* Driving from outside: serve, poll, finish, stop. One thread drives an engine at a time: two would
 * have the same run in hand. */
#include <string.h>

#include "core/drive.h"
#include "core/engine.h"
#include "core/test_kit.h"
#include "core/wait.h"

static const int64_t MS_NS = 1000000;

/* The first wrong registration sticks: it is said here, once, instead of at each of them. */
static pawl_code enter(pawl *p, error *err)
{
    pawl_code rc = engine_enter(p, err);
    return rc == PAWL_OK ? registry_error(engine_registry(p), err) : rc;
}

/* One thread drives an engine at a time; who does not wait for that is told. */
static pawl_code take_over(drive *d, drive_driven how, error *err)
{
    pawl_code rc = drive_take_over(d, how, 0, err);
    if (rc == PAWL_BUSY || rc == PAWL_MISUSE) {
        err->code = rc = PAWL_MISUSE;
        error_hint(err, "one serve, poll or finish at a time, and none from a work function");
    }
    return rc;
}

pawl_code pawl_serve(pawl *p)
{
    error err = {0};
    pawl_code rc = enter(p, &err);
    if (rc == PAWL_OK && engine_drive(p)->options.threads == 0)
        rc =
            error_set(&err, PAWL_MISUSE, "this engine has no threads: it is driven by pawl_poll()");
    if (rc == PAWL_OK)
        rc = take_over(engine_drive(p), DRIVEN_BY_THREADS, &err);
    if (rc == PAWL_OK) {
        rc = drive_serve(engine_drive(p), &err);
        drive_let_go(engine_drive(p));
    }
    return engine_leave(p, rc, &err);
}

void pawl_stop(pawl *p)
{
    if (engine_may_stop(p))
        drive_stop(engine_drive(p));
}

pawl_code pawl_poll(pawl *p, int64_t *did)
{
    error err = {0};
    int64_t count = 0;
    pawl_code rc = enter(p, &err);
    if (rc == PAWL_OK)
        rc = take_over(engine_drive(p), DRIVEN_BY_HAND, &err);
    if (rc == PAWL_OK) {
        rc = drive_poll(engine_drive(p), INT64_MAX, &count, &err);
        drive_let_go(engine_drive(p));
    }
    if (did)
        *did = count;
    return engine_leave(p, rc, &err);
}

int pawl_fd(pawl *p)
{
    error err = {0};
    pawl_code rc = engine_enter(p, &err);
    engine_leave(p, rc, &err);
    return rc == PAWL_OK ? engine_drive(p)->pipe[0] : -1;
}

int pawl_timeout(pawl *p)
{
    error err = {0};
    if (engine_leave(p, engine_enter(p, &err), &err) != PAWL_OK)
        return -1;
    drive *d = engine_drive(p);
    int64_t next = drive_next_ns(d);
    int64_t left = next - d->host->mono_ns(d->host);
    if (next == INT64_MAX)
        return -1;
    if (left <= 0)
        return 0;
    return left / MS_NS >= INT32_MAX ? INT32_MAX : (int)((left + MS_NS - 1) / MS_NS);
}

/* Drive this run, and nothing else, until it has ended or the time is over. Without any time, what
 * can be done at once is. */
static pawl_code finish(pawl *p, const char *id, int64_t timeout_ms, int64_t deadline_ns,
                        pawl_outcome **out, error *err)
{
    drive *d = engine_drive(p);
    for (;;) {
        int64_t did;
        pawl_code rc = drive_poll(d, timeout_ms ? deadline_ns : INT64_MAX, &did, err);
        if (rc != PAWL_OK)
            return rc;
        int over = d->host->mono_ns(d->host) >= deadline_ns;
        if (did > 0 && !(over && timeout_ms))
            continue;
        rc = wait_look(p, id, out, err);
        if (rc != PAWL_TIMEOUT || over)
            return rc;
        drive_wait(d, deadline_ns);
    }
}

/* Starts of other threads look at it. */
static void set_only(drive *d, const char *id)
{
    pthread_mutex_lock(&d->lock);
    d->only = id;
    d->family_ns = 0;
    pthread_mutex_unlock(&d->lock);
}

/* Whom the engine's own threads drive is waited for; after another finish it is this one's turn. */
pawl_code pawl_finish(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = enter(p, &err);
    if (rc == PAWL_OK)
        rc = wait_check(id, timeout_ms, &err);
    if (rc == PAWL_OK && test_kit_has(p))
        rc = test_kit_finish(p, id, timeout_ms, out, &err);
    if (rc != PAWL_OK || test_kit_has(p))
        return engine_leave(p, rc, &err);
    drive *d = engine_drive(p);
    int64_t deadline = clock_deadline(d->host->mono_ns(d->host), timeout_ms);
    rc = drive_take_over(d, DRIVEN_BY_HAND, deadline, &err);
    if (rc == PAWL_BUSY) {
        int64_t left = deadline == INT64_MAX ? deadline : deadline - d->host->mono_ns(d->host);
        return pawl_wait(p, id, left == INT64_MAX ? left : left > 0 ? left / MS_NS : 0, out);
    }
    if (rc == PAWL_OK) {
        set_only(d, id);
        rc = finish(p, id, timeout_ms, deadline, out, &err);
        set_only(d, NULL);
        drive_leave(d);
        drive_let_go(d);
    }
    return engine_leave(p, rc, &err);
}
