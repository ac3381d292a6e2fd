/* Turns by two byte locks, with an end to patience.
 *
 * A lock that is waited for in the kernel is handed over fairly, but the wait has no time-out,
 * and a library may not use signals to end it. So the usual case, nobody else there, tries both
 * locks without waiting; otherwise a thread of the turnstile's own waits in the kernel, and the
 * caller waits for the thread, as long as its patience lasts. If the locks come after that, the
 * thread lets go of them at once, or keeps them for a caller who has come back meanwhile. */
#include "db/turnstile.h"

#include <errno.h>
#include <stdlib.h>

#include "base/thread.h"

enum { BYTE_T = 0, BYTE_M = 1 };

typedef enum { IDLE, WANTED, GOT, UNWANTED } turn_state;

struct turnstile {
    nodes_file *file;
    clock_source *clock;
    int by_hand;
    int64_t patience_ms;

    int inside;       /* M is ours */
    int have_t;       /* T is ours: in the first half of a turn, and while we are next */
    int asking;       /* by hand: we ask in vain … */
    int64_t asked_ns; /* … since then … */
    int64_t again_ns; /* … the last time now */
    int64_t wait_ns_max;
    int64_t given_up;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    turn_state state;
    int thread_runs;
    pthread_t thread;
};

turnstile *turnstile_new(nodes_file *file, clock_source *clock, int by_hand, int64_t patience_ms)
{
    turnstile *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->file = file;
    t->clock = clock;
    t->by_hand = by_hand;
    t->patience_ms = patience_ms;
    pthread_mutex_init(&t->lock, NULL);
    clock_cond_init(&t->changed);
    return t;
}

void turnstile_free(turnstile *t)
{
    if (!t)
        return;
    if (t->inside)
        turnstile_leave(t);
    if (t->thread_runs) {
        pthread_cancel(t->thread); /* it may be waiting in the kernel for a stopped process */
        pthread_join(t->thread, NULL);
        nodes_file_unlock(t->file, BYTE_T);
        nodes_file_unlock(t->file, BYTE_M);
    }
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    free(t);
}

static void let_go(turnstile *t)
{
    if (t->have_t)
        nodes_file_unlock(t->file, BYTE_T);
    t->have_t = 0;
    nodes_file_unlock(t->file, BYTE_M);
}

/* ---- The thread that waits in the kernel ---- */

static void unlock_mutex(void *mutex)
{
    pthread_mutex_unlock(mutex);
}

static void wait_until_wanted(turnstile *t)
{
    pthread_mutex_lock(&t->lock);
    pthread_cleanup_push(unlock_mutex, &t->lock);
    while (t->state != WANTED)
        pthread_cond_wait(&t->changed, &t->lock);
    pthread_cleanup_pop(1);
}

static void *wait_in_kernel(void *arg)
{
    turnstile *t = arg;
    for (;;) {
        wait_until_wanted(t);
        while (!t->have_t && nodes_file_lock(t->file, BYTE_T, 1) != 0 && errno == EINTR)
            continue;
        while (nodes_file_lock(t->file, BYTE_M, 1) != 0 && errno == EINTR)
            continue;
        t->have_t = 1;
        pthread_mutex_lock(&t->lock);
        if (t->state == WANTED) {
            t->state = GOT;
        } else {
            let_go(t);
            t->state = IDLE;
        }
        pthread_cond_broadcast(&t->changed);
        pthread_mutex_unlock(&t->lock);
    }
    return NULL;
}

static int have_thread(turnstile *t)
{
    if (!t->thread_runs)
        t->thread_runs = thread_start(&t->thread, wait_in_kernel, t);
    return t->thread_runs;
}

/* 1: the turn is ours. 0: patience is over. */
static int wait_for_thread(turnstile *t, int64_t deadline)
{
    pthread_mutex_lock(&t->lock);
    t->state = WANTED;
    pthread_cond_broadcast(&t->changed);
    while (t->state != GOT && t->clock->mono_ns(t->clock) < deadline)
        t->clock->wait(t->clock, &t->changed, &t->lock, deadline);
    int got = t->state == GOT;
    t->state = got ? IDLE : UNWANTED;
    pthread_mutex_unlock(&t->lock);
    return got;
}

/* ---- Turns ---- */

/* 1 when both locks were free. Who has T and not yet M is next, and keeps it for the thread that
 * goes on waiting. By hand there is no thread, and T is given back. */
static int try_both(turnstile *t)
{
    if (nodes_file_lock(t->file, BYTE_T, 0) != 0)
        return 0;
    int got = nodes_file_lock(t->file, BYTE_M, 0) == 0;
    t->have_t = got || (!t->by_hand && have_thread(t));
    if (!t->have_t)
        nodes_file_unlock(t->file, BYTE_T);
    return got;
}

static void note_wait(turnstile *t, int64_t since)
{
    int64_t waited = t->clock->mono_ns(t->clock) - since;
    pthread_mutex_lock(&t->lock);
    if (waited > t->wait_ns_max)
        t->wait_ns_max = waited;
    pthread_mutex_unlock(&t->lock);
}

static void note_given_up(turnstile *t)
{
    pthread_mutex_lock(&t->lock);
    t->given_up++;
    pthread_mutex_unlock(&t->lock);
}

/* Once patience is over it stays over until we have written: otherwise each attempt that finds
 * SQLite locked would begin to wait anew, and a busy neighbour would keep us out for ever. */
static int enter_by_hand(turnstile *t)
{
    int64_t now = t->clock->mono_ns(t->clock);
    if (!t->asking || now > clock_deadline(t->again_ns, t->patience_ms)) {
        t->asking = 1;
        t->asked_ns = now;
    }
    t->again_ns = now;
    if (now < clock_deadline(t->asked_ns, t->patience_ms))
        return 0;
    note_wait(t, t->asked_ns);
    return 1;
}

/* What the thread is doing. As long as it waits, the locks, which are on our own description, must
 * not be touched. */
static turn_state thread_state(turnstile *t)
{
    if (!t->thread_runs)
        return IDLE;
    pthread_mutex_lock(&t->lock);
    turn_state state = t->state;
    pthread_mutex_unlock(&t->lock);
    return state;
}

int turnstile_enter(turnstile *t)
{
    turn_state state = thread_state(t);
    if (state == UNWANTED) /* given up, and still not free: do not wait for it at every turn */
        return 1;
    if (state == IDLE && try_both(t)) {
        t->inside = 1;
        return 1;
    }
    if (t->by_hand)
        return enter_by_hand(t);
    int64_t since = t->clock->mono_ns(t->clock);
    t->inside = have_thread(t) && wait_for_thread(t, clock_deadline(since, t->patience_ms));
    note_wait(t, since);
    if (!t->inside)
        note_given_up(t);
    return 1;
}

void turnstile_pass(turnstile *t)
{
    if (t->asking && !t->inside)
        note_given_up(t);
    t->asking = 0;
    if (t->inside && t->have_t) {
        nodes_file_unlock(t->file, BYTE_T);
        t->have_t = 0;
    }
}

void turnstile_leave(turnstile *t)
{
    if (t->inside)
        let_go(t);
    t->inside = 0;
}

int64_t turnstile_wait_ns_max(turnstile *t)
{
    pthread_mutex_lock(&t->lock);
    int64_t max = t->wait_ns_max;
    pthread_mutex_unlock(&t->lock);
    return max;
}

int64_t turnstile_given_up(turnstile *t)
{
    pthread_mutex_lock(&t->lock);
    int64_t count = t->given_up;
    pthread_mutex_unlock(&t->lock);
    return count;
}
