/* Turns by two byte locks, with a time-out.
 *
 * A lock that is waited for in the kernel is handed over fairly, but the wait has no time-out, and
 * a library may not use signals to end it. So:
 *   1. The caller tries both locks without waiting, which is enough when no other process writes.
 *   2. If they are taken, a thread of the turnstile waits in the kernel, and the caller waits for
 *      that thread, for patience_ms at most.
 *   3. If the locks come later, the thread releases them at once. Until then the caller goes on
 *      without turns. */
#include "db/turnstile.h"

#include <errno.h>
#include <stdlib.h>

#include "base/thread.h"

enum { BYTE_T = 0, BYTE_M = 1 };

/* What the thread does: it sleeps; it waits for the locks; it has them for the caller; it still
 * waits although the caller has given up. */
typedef enum { IDLE, WANTED, GOT, UNWANTED } turn_state;

struct turnstile {
    liveness_file *file;
    clock_source *clock;
    int by_hand;
    int64_t patience_ms;

    int inside;       /* 1: this turnstile has the lock M (turnstile.h) */
    int have_t;       /* 1: it has the lock T: in the first half of a turn, and while next in
                         line */
    int asking;       /* by hand: the lock was not free when it was tried */
    int64_t asked_ns; /* by hand: since when the lock is asked for */
    int64_t again_ns; /* by hand: when the lock was tried last */
    int64_t wait_ns_max;
    int64_t given_up;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    turn_state state;
    int thread_runs;
    pthread_t thread;
};

turnstile *turnstile_new(liveness_file *file, clock_source *clock, int by_hand, int64_t patience_ms)
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
        liveness_file_unlock(t->file, BYTE_T); /* RULE B2-two-locks-not-one */
        liveness_file_unlock(t->file, BYTE_M);
    }
    pthread_mutex_destroy(&t->lock);
    pthread_cond_destroy(&t->changed);
    free(t);
}

static void release_locks(turnstile *t)
{
    if (t->have_t)
        liveness_file_unlock(t->file, BYTE_T); /* RULE B2-two-locks-not-one */
    t->have_t = 0;
    liveness_file_unlock(t->file, BYTE_M);
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
        /* RULE B2-two-locks-not-one */
        while (!t->have_t && liveness_file_lock(t->file, BYTE_T, 1) != 0 && errno == EINTR)
            continue;
        while (liveness_file_lock(t->file, BYTE_M, 1) != 0 && errno == EINTR)
            continue;
        t->have_t = 1;
        pthread_mutex_lock(&t->lock);
        if (t->state == WANTED) {
            t->state = GOT;
        } else {
            release_locks(t);
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

/* Has the thread wait for the locks. 1: it has them, and this writer has its turn. 0: the deadline
 * has passed. */
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

/* Take both locks without waiting. 1: both were free. If only T was free this process is next in
 * line, and keeps T for the thread that goes on waiting. By hand there is no thread, and T is
 * released. */
static int try_both(turnstile *t)
{
    if (liveness_file_lock(t->file, BYTE_T, 0) != 0) /* RULE B2-two-locks-not-one */
        return 0;
    /* RULE B2-the-first-lock-is-kept-for-half-a-turn */
    int got = liveness_file_lock(t->file, BYTE_M, 0) == 0;
    t->have_t = got || (!t->by_hand && have_thread(t));
    if (!t->have_t)
        liveness_file_unlock(t->file, BYTE_T); /* RULE B2-two-locks-not-one */
    return got;
}

static void record_wait(turnstile *t, int64_t since)
{
    int64_t waited = t->clock->mono_ns(t->clock) - since;
    pthread_mutex_lock(&t->lock);
    if (waited > t->wait_ns_max)
        t->wait_ns_max = waited;
    pthread_mutex_unlock(&t->lock);
}

static void count_given_up(turnstile *t)
{
    pthread_mutex_lock(&t->lock);
    t->given_up++;
    pthread_mutex_unlock(&t->lock);
}

/* By hand, while the locks are taken. 0: come back; 1: the time-out is over, go on without a turn.
 * It stays over until this process has written: otherwise each attempt that finds SQLite locked
 * would begin to wait anew, and a busy process could starve this one for ever. */
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
    record_wait(t, t->asked_ns);
    return 1;
}

/* What the thread is doing. As long as it waits, the locks must not be touched: they belong to the
 * open file description, which the thread shares. */
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
    if (state == UNWANTED) /* the thread still waits: do not wait for it at every turn */
        return 1;
    if (state == IDLE && try_both(t)) {
        t->inside = 1;
        return 1;
    }
    if (t->by_hand)
        return enter_by_hand(t);
    int64_t since = t->clock->mono_ns(t->clock);
    /* RULE B2-patience-ends */
    t->inside = have_thread(t) && wait_for_thread(t, clock_deadline(since, t->patience_ms));
    record_wait(t, since);
    if (!t->inside)
        count_given_up(t);
    return 1;
}

void turnstile_pass(turnstile *t)
{
    if (t->asking && !t->inside)
        count_given_up(t);
    t->asking = 0;
    if (t->inside && t->have_t) {
        liveness_file_unlock(t->file, BYTE_T); /* RULE B2-two-locks-not-one */
        t->have_t = 0;
    }
}

void turnstile_leave(turnstile *t)
{
    if (t->inside)
        release_locks(t);
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
