/* What the tests of fibers share. Everything is inline: the same tests are compiled once more with
 * another switch (test/unit/test_fiber_ucontext.c), and must not be linked with helpers that were
 * compiled with the first one. Include cmocka.h before it. */
#ifndef SUPPORT_FIBERS_H
#define SUPPORT_FIBERS_H

#include <sys/wait.h>

#include "fiber/fiber.h"
#include "fiber/watch.h"
#include "support/tmp.h"

#if WATCH_ADDRESS || WATCH_THREAD
#define FIBERS_SANITIZED 1
#else
#define FIBERS_SANITIZED 0
#endif

static inline fiber_pool *fibers_pool(size_t max)
{
    fiber_pool *p;
    error err;
    assert_int_equal(fiber_pool_new(&p, max, &err), PAWL_OK);
    return p;
}

static inline fiber *fibers_new(fiber_pool *p, void (*fn)(fiber *f, void *arg), void *arg)
{
    fiber *f = fiber_new(p, fn, arg);
    assert_non_null(f);
    return f;
}

/* Make a fiber and resume it once; it must have parked by then. */
static inline fiber *fibers_parked(fiber_pool *p, void (*fn)(fiber *f, void *arg), void *arg)
{
    fiber *f = fibers_new(p, fn, arg);
    fiber_resume(f);
    assert_false(fiber_done(f));
    return f;
}

static inline void fibers_park_once(fiber *f, void *arg)
{
    (void)arg;
    fiber_park(f);
}

/* Run `body` in a child. Gives the signal by which the child died; 0: it ended in another way. */
static inline int fibers_signal_of(void (*body)(int in, int out, void *arg), void *arg)
{
    tmp_child c = tmp_fork(body, arg);
    int status = tmp_reap(&c);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

#endif
