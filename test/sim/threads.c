/* One stack for each thread, and the functions of the system that are simulated here.
 *
 * There is one processor and nothing is taken from a thread, so a mutex is found locked only where
 * its owner has let others go on in the middle: then the finder waits as for anything else. */
#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE */
#include "threads.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "fiber/switch.h"
#include "fiber/watch.h"
#include "fleet.h"

enum { THREADS_MAX = 96, GUARD = 16384 };

static const size_t STACK_BYTES = 1024 * 1024;

typedef enum { FREE, CAN, WAITS, ENDED } thread_state;

typedef struct sim_thread {
    thread_state state;
    int joined; /* a thread will call pthread_join() */
    fleet_node *node;
    void *(*fn)(void *arg);
    void *arg;
    void *result;

    /* What it waits for: any of these. */
    const pthread_cond_t *cond;
    pthread_mutex_t *mutex;
    const struct sim_thread *end_of;
    struct pollfd *fds;
    nfds_t fd_count;
    int64_t deadline_ns;
    int64_t since; /* the order in which they began to wait */
    int woken;

    /* The world's, while it does not go on. */
    fleet_node *current;
    int depth;

    stack stack;
    switch_side inside;
    switch_side outside;
    watch watch;
} sim_thread;

/* The first one is the simulator itself. The functions of the system have no argument for it. */
static struct {
    fleet *world;
    const fleet_node *only;
    sim_thread *now;
    int64_t stamp;
    sim_thread all[THREADS_MAX];
} sched;

/* ---- The system ---- */

int __real_poll(struct pollfd *fds, nfds_t count, int ms);
int __real_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __real_pthread_join(pthread_t thread, void **out);
pthread_t __real_pthread_self(void);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __real_pthread_cond_signal(pthread_cond_t *cond);
int __real_pthread_cond_broadcast(pthread_cond_t *cond);

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms);
int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg);
int __wrap_pthread_join(pthread_t thread, void **out);
pthread_t __wrap_pthread_self(void);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_signal(pthread_cond_t *cond);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);

static _Noreturn void give_up(const char *what)
{
    unsigned long long seed = sched.world ? sched.world->seed : 0;
    fprintf(stderr, "sim: seed %llu: %s\n", seed, what);
    abort();
}

/* ---- Stacks ---- */

static sim_thread *main_thread(void)
{
    return &sched.all[0];
}

/* Kept for the next thread in this place. */
static void need_stack(sim_thread *p)
{
    if (!p->stack.low) {
        char *at = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at == MAP_FAILED || mprotect(at, GUARD, PROT_NONE) != 0)
            give_up("no memory for a stack");
        p->stack = (stack){.low = at + GUARD, .top = at + STACK_BYTES};
        watch_mapped(&p->stack);
    }
    watch_taken(&p->stack);
}

static void leave(sim_thread *p, int for_good)
{
    watch_leave(&p->watch, for_good);
    switch_go(&p->inside, &p->outside);
    watch_entered(&p->watch);
}

static void live(void *arg)
{
    sim_thread *p = arg;
    watch_entered(&p->watch);
    p->result = p->fn(p->arg);
    p->state = ENDED;
    leave(p, 1);
    give_up("a thread that has ended goes on");
}

static void clear(sim_thread *p)
{
    watch_end(&p->watch, &p->stack);
    watch_given_back(&p->stack);
    stack kept = p->stack;
    *p = (sim_thread){.state = FREE, .stack = kept};
}

static sim_thread *start(fleet_node *n, void *(*fn)(void *arg), void *arg, int joined)
{
    sim_thread *p = NULL;
    for (int i = 1; i < THREADS_MAX && !p; i++)
        p = sched.all[i].state == FREE ? &sched.all[i] : NULL;
    if (!p)
        give_up("too many threads");
    need_stack(p);
    p->state = CAN;
    p->joined = joined;
    p->node = p->current = n;
    p->depth = 1;
    p->fn = fn;
    p->arg = arg;
    switch_prepare(&p->inside, p->stack.low, p->stack.top, live, p);
    watch_begin(&p->watch);
    return p;
}

void threads_spawn(fleet_node *n, void *(*fn)(void *arg), void *arg)
{
    start(n, fn, arg, 0);
}

/* ---- Turns ---- */

/* It goes on, in its own part of the world, until it waits. */
static void run(sim_thread *p)
{
    fleet *f = sched.world;
    fleet_node *current = f->current;
    int depth = f->depth;
    f->current = p->current;
    f->depth = p->depth;
    sched.now = p;
    watch_enter(&p->watch, &p->stack);
    switch_go(&p->outside, &p->inside);
    watch_left(&p->watch);
    sched.now = main_thread();
    p->current = f->current;
    p->depth = f->depth;
    f->current = current;
    f->depth = depth;
    if (p->state == ENDED && !p->joined)
        clear(p);
}

static int is_locked(pthread_mutex_t *mutex)
{
    if (pthread_mutex_trylock(mutex) != 0)
        return 1;
    pthread_mutex_unlock(mutex);
    return 0;
}

static int can_go_on(const sim_thread *p)
{
    if (p->state != WAITS)
        return p->state == CAN;
    return p->woken || p->deadline_ns <= sched.world->mono_ns ||
           (p->mutex && !is_locked(p->mutex)) || (p->end_of && p->end_of->state == ENDED) ||
           (p->fds && __real_poll(p->fds, p->fd_count, 0) != 0);
}

int threads_run_one(fleet *f, const fleet_node *only)
{
    sim_thread *some[THREADS_MAX];
    int count = 0;
    for (int i = 1; i < THREADS_MAX; i++) {
        sim_thread *p = &sched.all[i];
        if (p->state == FREE || p->state == ENDED || (only && p->node != only) ||
            (sched.only && p->node != sched.only))
            continue;
        if (can_go_on(p))
            some[count++] = p;
    }
    if (count == 0)
        return 0;
    run(some[count > 1 ? chance_between(&f->chance, 0, count - 1) : 0]);
    return 1;
}

int64_t threads_next_ns(void)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < THREADS_MAX; i++) {
        const sim_thread *p = &sched.all[i];
        if (p->state == WAITS && p->deadline_ns < next &&
            (!sched.only || i == 0 || p->node == sched.only))
            next = p->deadline_ns;
    }
    return next;
}

/* The simulator waits. */
static void play_others(const sim_thread *p)
{
    while (!can_go_on(p)) {
        if (threads_run_one(sched.world, NULL))
            continue;
        int64_t next = threads_next_ns();
        if (next == INT64_MAX)
            give_up("a thread waits for ever");
        fleet_pass(sched.world, next);
    }
}

/* Come back when one of the things has happened that it waits for. */
static void wait_here(sim_thread *p)
{
    const char *here = __builtin_frame_address(0);
    p->since = ++sched.stamp;
    p->state = WAITS;
    if (p == main_thread())
        play_others(p);
    else if (here > p->stack.low && here <= p->stack.top)
        leave(p, 0);
    else
        give_up("a thread waits on the stack of a run");
    p->state = CAN;
    p->cond = NULL;
    p->mutex = NULL;
    p->end_of = NULL;
    p->fds = NULL;
}

void threads_only(const fleet_node *only)
{
    sched.only = only;
}

int threads_is_main(void)
{
    return sched.now == main_thread();
}

void threads_yield(void)
{
    sched.now->woken = 1;
    wait_here(sched.now);
}

void threads_sleep(int64_t ms)
{
    sim_thread *p = sched.now;
    p->woken = 0;
    p->deadline_ns = clock_deadline(sched.world->mono_ns, ms);
    wait_here(p);
}

int threads_wait(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns)
{
    sim_thread *p = sched.now;
    p->cond = cond;
    p->woken = 0;
    p->deadline_ns = deadline_ns;
    pthread_mutex_unlock(mutex);
    wait_here(p);
    int woken = p->woken;
    __wrap_pthread_mutex_lock(mutex);
    return !woken;
}

void threads_open(fleet *f)
{
    for (int i = 1; i < THREADS_MAX; i++)
        if (sched.all[i].state != FREE)
            give_up("a thread has not ended");
    sched.world = f;
    sched.now = main_thread();
    sched.stamp = 0;
    sched.only = NULL;
    main_thread()->state = CAN;
}

/* ---- What engines call ---- */

int __wrap_poll(struct pollfd *fds, nfds_t count, int ms)
{
    if (!sched.world)
        return __real_poll(fds, count, ms);
    int ready = __real_poll(fds, count, 0);
    if (ready != 0 || ms == 0)
        return ready;
    sim_thread *p = sched.now;
    p->fds = fds;
    p->fd_count = count;
    p->woken = 0;
    p->deadline_ns = ms < 0 ? INT64_MAX : clock_deadline(sched.world->mono_ns, ms);
    wait_here(p);
    return __real_poll(fds, count, 0);
}

int __wrap_pthread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *),
                          void *arg)
{
    if (!sched.world)
        return __real_pthread_create(out, attr, fn, arg);
    *out = (pthread_t)(start(sched.world->current, fn, arg, 1) - sched.all);
    return 0;
}

int __wrap_pthread_join(pthread_t thread, void **out)
{
    if (!sched.world)
        return __real_pthread_join(thread, out);
    sim_thread *other = &sched.all[thread], *p = sched.now;
    p->end_of = other;
    p->woken = 0;
    p->deadline_ns = INT64_MAX;
    wait_here(p);
    if (out)
        *out = other->result;
    clear(other);
    return 0;
}

/* Small numbers are no addresses, which is what the system gives. */
pthread_t __wrap_pthread_self(void)
{
    if (!sched.world || threads_is_main())
        return __real_pthread_self();
    return (pthread_t)(sched.now - sched.all);
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    if (!sched.world)
        return __real_pthread_mutex_lock(mutex);
    while (pthread_mutex_trylock(mutex) != 0) {
        sim_thread *p = sched.now;
        p->mutex = mutex;
        p->woken = 0;
        p->deadline_ns = INT64_MAX;
        wait_here(p);
    }
    return 0;
}

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    if (!sched.world)
        return __real_pthread_cond_wait(cond, mutex);
    threads_wait(cond, mutex, INT64_MAX);
    return 0;
}

/* Of several the one that has waited longest. */
int __wrap_pthread_cond_signal(pthread_cond_t *cond)
{
    sim_thread *first = NULL;
    if (!sched.world)
        return __real_pthread_cond_signal(cond);
    for (int i = 0; i < THREADS_MAX; i++) {
        sim_thread *p = &sched.all[i];
        if (p->state == WAITS && p->cond == cond && !p->woken &&
            (!first || p->since < first->since))
            first = p;
    }
    if (first)
        first->woken = 1;
    return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    if (!sched.world)
        return __real_pthread_cond_broadcast(cond);
    for (int i = 0; i < THREADS_MAX; i++)
        if (sched.all[i].state == WAITS && sched.all[i].cond == cond)
            sched.all[i].woken = 1;
    return 0;
}
