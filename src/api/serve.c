/* Driving from outside: serve, poll, finish, stop. Only one call drives an engine at a time, since
 * two could execute the same run. */
#include <string.h>

#include "api/test_kit.h"
#include "api/wait.h"
#include "handle/handle.h"
#include "sched/sched.h"

static const int64_t MS_NS = 1000000;

/* The first error of a registration is kept, and answered here, so that a program need not check
 * every registration. */
static pawl_code enter_to_drive(pawl *p, error *err)
{
    pawl_code rc = handle_enter_to_write(p, err);
    return rc == PAWL_OK ? registry_error(handle_registry(p), err) : rc;
}

/* Makes this call the one that drives the engine; MISUSE if another one does. */
static pawl_code take_over(sched *s, sched_driven how, error *err)
{
    pawl_code rc = sched_take_over(s, how, 0, err);
    if (rc == PAWL_BUSY || rc == PAWL_MISUSE) {
        err->code = rc = PAWL_MISUSE;
        error_hint(err, "one serve, poll or finish at a time, and none from a work function");
    }
    return rc;
}

pawl_code pawl_serve(pawl *p)
{
    error err = {0};
    pawl_code rc = enter_to_drive(p, &err);
    if (rc == PAWL_OK && sched_options_of(handle_sched(p))->threads == 0)
        rc =
            error_set(&err, PAWL_MISUSE, "this engine has no threads: it is driven by pawl_poll()");
    if (rc == PAWL_OK)
        rc = take_over(handle_sched(p), DRIVEN_BY_THREADS, &err);
    if (rc == PAWL_OK) {
        rc = sched_serve(handle_sched(p), &err);
        sched_let_go(handle_sched(p));
    }
    return handle_leave(p, rc, &err);
}

void pawl_stop(pawl *p)
{
    if (handle_may_stop(p))
        sched_stop(handle_sched(p));
}

/* When a poll returns although there is more to do: an event loop has other descriptors to
 * serve. */
static int64_t poll_end(sched *s) /* RULE L4-a-poll-does-something */
{
    int64_t poll_ms = sched_options_of(s)->poll_ms;
    return poll_ms < 0 ? INT64_MAX : clock_deadline(sched_mono_ns(s), poll_ms);
}

pawl_code pawl_poll(pawl *p, int64_t *did)
{
    error err = {0};
    int64_t count = 0;
    pawl_code rc = enter_to_drive(p, &err);
    if (rc == PAWL_OK)
        rc = take_over(handle_sched(p), DRIVEN_BY_HAND, &err);
    if (rc == PAWL_OK) {
        sched *s = handle_sched(p);
        rc = sched_poll(s, poll_end(s), 1, &count, &err); /* RULE L4-a-poll-does-something */
        sched_let_go(s);
    }
    if (did)
        *did = count;
    return handle_leave(p, rc, &err);
}

int pawl_fd(pawl *p)
{
    error err = {0};
    pawl_code rc = handle_enter_to_write(p, &err);
    handle_leave(p, rc, &err);
    return rc == PAWL_OK ? sched_loop_fd(handle_sched(p)) : -1;
}

int pawl_timeout(pawl *p)
{
    error err = {0};
    if (handle_leave(p, handle_enter_to_write(p, &err), &err) != PAWL_OK)
        return -1;
    sched *s = handle_sched(p);
    int64_t next = sched_next_ns(s);
    int64_t left = next - sched_mono_ns(s);
    if (next == INT64_MAX)
        return -1;
    if (left <= 0)
        return 0;
    return left / MS_NS >= INT32_MAX ? INT32_MAX : (int)((left + MS_NS - 1) / MS_NS);
}

/* Drives this run, and no other, until it has ended or the time is over. With timeout 0 everything
 * that is due now is done. */
static pawl_code finish_run(pawl *p, const char *id, int64_t timeout_ms, int64_t deadline_ns,
                            pawl_outcome **out, error *err)
{
    sched *s = handle_sched(p);
    for (;;) {
        int64_t did;
        pawl_code rc = sched_poll(s, timeout_ms ? deadline_ns : INT64_MAX, 0, &did, err);
        if (rc != PAWL_OK)
            return rc;
        int over = sched_mono_ns(s) >= deadline_ns;
        if (did > 0 && !(over && timeout_ms))
            continue;
        rc = wait_look(p, id, out, err);
        if (rc != PAWL_TIMEOUT || over)
            return rc;
        sched_wait(s, deadline_ns);
    }
}

/* If pawl_serve() drives the engine, this call only waits for the run; if another pawl_finish()
 * does, this call drives after it. */
pawl_code pawl_finish(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = enter_to_drive(p, &err);
    if (rc == PAWL_OK)
        rc = wait_check(id, timeout_ms, &err);
    if (rc == PAWL_OK && test_kit_has(p))
        rc = test_kit_finish(p, id, timeout_ms, out, &err);
    if (rc != PAWL_OK || test_kit_has(p))
        return handle_leave(p, rc, &err);
    sched *s = handle_sched(p);
    int64_t deadline = clock_deadline(sched_mono_ns(s), timeout_ms);
    rc = sched_take_over(s, DRIVEN_BY_HAND, deadline, &err);
    if (rc == PAWL_BUSY) {
        int64_t left = deadline == INT64_MAX ? deadline : deadline - sched_mono_ns(s);
        return pawl_wait(p, id, left == INT64_MAX ? left : left > 0 ? left / MS_NS : 0, out);
    }
    if (rc == PAWL_OK) {
        sched_drive_only(s, id);
        rc = finish_run(p, id, timeout_ms, deadline, out, &err);
        sched_drive_only(s, NULL);
        sched_end_finish(s);
        sched_let_go(s);
    }
    return handle_leave(p, rc, &err);
}
