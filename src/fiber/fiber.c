#define _GNU_SOURCE /* syscall */
/* The life of a fiber, and the pool of stacks.
 *
 * fresh ──resume──► running ──park, pause──► parked ──resume──► running ──return──► done
 *
 * The address of the caller's frame tells whether the caller runs on a fiber's stack, so no
 * thread-local is needed. The state of a fiber has no lock: only the thread that made the fiber
 * changes it, and another thread frees the fiber only after that thread has handed it over. */
#include "fiber/fiber.h"

#include <assert.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__linux__) && defined(__x86_64__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "fiber/stack.h"
#include "fiber/switch.h"
#include "fiber/watch.h"

/* Number of free stacks that keep their first pages for the next fibers; all others keep
 * nothing. */
enum { WARM_STACKS = 1024 };

typedef enum fiber_state { FRESH, RUNNING, PARKED, DONE } fiber_state;

struct fiber_pool {
    size_t max;
    pthread_mutex_t lock;
    stack *warm; /* free stacks that keep their first pages, the one that was used last first */
    size_t warm_count;
    stack *cold; /* free stacks whose pages were given back to the system */
    size_t live;
};

struct fiber {
    switch_side inside;
    switch_side outside;
    fiber_state state;
    int brief; /* 1: suspended by fiber_pause(), which keeps the unused part of the stack */
    void (*fn)(fiber *f, void *arg);
    void *arg;
    stack *stack;
    fiber_pool *pool;
    pthread_t owner;
    watch watch;
};

/* ---- The pool ---- */

/* Tells whether the processor keeps a shadow stack: a second stack of return addresses. A return
 * that does not agree with it ends the process, and switch_go() does not switch it. */
static int has_shadow_stack(void)
{
#if defined(__linux__) && defined(__x86_64__) && defined(SYS_arch_prctl)
    enum { SHSTK_STATUS = 0x5005, SHSTK_ON = 1 };
    unsigned long long status = 0;
    return syscall(SYS_arch_prctl, SHSTK_STATUS, &status) == 0 && (status & SHSTK_ON);
#else
    return 0;
#endif
}

pawl_code fiber_pool_new(fiber_pool **out, size_t max, error *err)
{
    *out = NULL;
    if (has_shadow_stack()) {
        error_set(err, PAWL_UNSUPPORTED, "workflows cannot run beside a shadow stack");
        error_hint(err, "start the program with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
        return PAWL_UNSUPPORTED;
    }
    fiber_pool *p = calloc(1, sizeof *p);
    if (!p || pthread_mutex_init(&p->lock, NULL) != 0) {
        free(p);
        return error_nomem(err);
    }
    size_t limit = stack_limit();
    p->max = max > 0 && max < limit ? max : limit;
    *out = p;
    return PAWL_OK;
}

static stack *pop_free_stack(fiber_pool *p)
{
    stack **from = p->warm ? &p->warm : &p->cold;
    stack *s = *from;
    if (s) {
        p->warm_count -= from == &p->warm;
        *from = s->next;
    }
    return s;
}

void fiber_pool_free(fiber_pool *p)
{
    if (!p)
        return;
    assert(p->live == 0);
    stack *s;
    while ((s = pop_free_stack(p)))
        stack_free(s);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

size_t fiber_pool_max(const fiber_pool *p)
{
    return p->max;
}

size_t fiber_pool_live(fiber_pool *p)
{
    pthread_mutex_lock(&p->lock);
    size_t live = p->live;
    pthread_mutex_unlock(&p->lock);
    return live;
}

static void uncount_live(fiber_pool *p)
{
    pthread_mutex_lock(&p->lock);
    p->live--;
    pthread_mutex_unlock(&p->lock);
}

/* mmap() is called outside the lock, so that threads that find a free stack need not wait for
 * it. */
static stack *take_stack(fiber_pool *p)
{
    pthread_mutex_lock(&p->lock);
    int room = p->live < p->max;
    stack *s = room ? pop_free_stack(p) : NULL;
    p->live += (size_t)room;
    pthread_mutex_unlock(&p->lock);

    if (room && !s) {
        s = stack_new();
        if (!s)
            uncount_live(p);
    }
    if (s)
        watch_taken(s);
    return s;
}

static void release_stack(fiber_pool *p, stack *s)
{
    watch_given_back(s);
    pthread_mutex_lock(&p->lock);
    int warm = p->warm_count < WARM_STACKS;
    p->warm_count += (size_t)warm;
    pthread_mutex_unlock(&p->lock);

    stack_trim(s, s->top, warm ? STACK_KEPT : 0);

    pthread_mutex_lock(&p->lock);
    stack **to = warm ? &p->warm : &p->cold;
    s->next = *to;
    *to = s;
    p->live--;
    pthread_mutex_unlock(&p->lock);
}

/* ---- Switching ---- */

static void switch_in(fiber *f)
{
    watch_enter(&f->watch, f->stack);
    switch_go(&f->outside, &f->inside);
    watch_left(&f->watch);
}

static void switch_out(fiber *f, int for_good)
{
    watch_leave(&f->watch, for_good);
    switch_go(&f->inside, &f->outside);
    watch_entered(&f->watch);
}

static void run_fiber(void *arg)
{
    fiber *f = arg;
    watch_entered(&f->watch);
    f->fn(f, f->arg);
    assert(f->state == RUNNING);
    f->state = DONE;
    switch_out(f, 1);
    assert(!"a fiber that is done was resumed");
}

static void suspend(fiber *f, int brief)
{
    assert(fiber_is_inside(f));
    assert(f->state == RUNNING);
    f->state = PARKED;
    f->brief = brief;
    switch_out(f, 0);
}

/* ---- Fibers ---- */

fiber *fiber_new(fiber_pool *p, void (*fn)(fiber *f, void *arg), void *arg)
{
    fiber *f = calloc(1, sizeof *f);
    stack *s = f ? take_stack(p) : NULL;
    if (!s) {
        free(f);
        return NULL;
    }
    f->fn = fn;
    f->arg = arg;
    f->stack = s;
    f->pool = p;
    f->owner = pthread_self();
    f->state = FRESH;
    switch_prepare(&f->inside, s->low, s->top, run_fiber, f);
    watch_begin(&f->watch);
    return f;
}

void fiber_resume(fiber *f)
{
    assert(fiber_is_here(f));
    assert(f->state == FRESH || f->state == PARKED);
    f->state = RUNNING;
    switch_in(f);
    if (f->state == PARKED && !f->brief)
        stack_trim(f->stack, f->inside.sp, STACK_KEPT);
}

int fiber_is_here(const fiber *f)
{
    return pthread_equal(f->owner, pthread_self());
}

int fiber_done(const fiber *f)
{
    return f->state == DONE;
}

void fiber_free(fiber *f)
{
    if (!f)
        return;
    assert(f->state == FRESH || f->state == PARKED || f->state == DONE);
    watch_end(&f->watch, f->stack);
    release_stack(f->pool, f->stack);
    free(f);
}

void fiber_park(fiber *f)
{
    suspend(f, 0);
}

void fiber_pause(fiber *f)
{
    suspend(f, 1);
}

int fiber_is_inside(const fiber *f)
{
    uintptr_t here = (uintptr_t)__builtin_frame_address(0);
    return here > (uintptr_t)f->stack->low && here <= (uintptr_t)f->stack->top;
}
