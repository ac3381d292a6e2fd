/* Clocks. Nothing here sleeps: threads tell each other through conditions when they are where they
 * should be, and the fake clock stands still while they look at it, so that the time of a wake-up
 * is known exactly. A lost wake-up shows as a test that never ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

#define MS INT64_C(1000000)

/* ---- the system's clocks ---- */

static int64_t ask_system(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000 * MS + t.tv_nsec;
}

static void the_system_tells_its_times(void **state)
{
    (void)state;
    clock_source *c = clock_system();
    int64_t before = ask_system(CLOCK_REALTIME) / MS;
    int64_t now = c->now_ms(c);
    assert_in_range(now, before, ask_system(CLOCK_REALTIME) / MS);

    before = ask_system(CLOCK_MONOTONIC);
    now = c->mono_ns(c);
    assert_in_range(now, before, ask_system(CLOCK_MONOTONIC));
}

static void the_system_waits_until_the_deadline(void **state)
{
    (void)state;
    clock_source *c = clock_system();
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    assert_int_equal(clock_cond_init(&cond), 0);
    pthread_mutex_lock(&mutex);
    int64_t deadline = c->mono_ns(c) + 3 * MS;
    while (!c->wait(c, &cond, &mutex, deadline))
        continue;
    assert_true(c->mono_ns(c) >= deadline);
    assert_int_equal(pthread_mutex_trylock(&mutex), EBUSY);

    /* Deadlines of the past, and of before time began, are answered at once. */
    assert_int_equal(c->wait(c, &cond, &mutex, deadline), 1);
    assert_int_equal(c->wait(c, &cond, &mutex, 0), 1);
    assert_int_equal(c->wait(c, &cond, &mutex, -1), 1);
    assert_int_equal(c->wait(c, &cond, &mutex, INT64_MIN), 1);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&cond);
}

/* ---- a thread that waits ---- */

typedef struct sleeper {
    pthread_t thread;
    clock_source *clock;
    pthread_mutex_t *mutex; /* its own, or one shared with others */
    pthread_cond_t *cond;
    pthread_mutex_t own_mutex;
    pthread_cond_t own_cond;
    pthread_cond_t news;
    int64_t deadline;
    int begun;     /* how often it has gone to sleep */
    int woken;     /* how often it has come back */
    int late;      /* it came back because of its deadline */
    int unsaid;    /* how often it was late and was not told so */
    int unheld;    /* how often it came back without the mutex */
    int enough;    /* it shall not go to sleep again */
    int64_t at_ns; /* when it came back last */
} sleeper;

static void *sleep_on(void *arg)
{
    sleeper *s = arg;
    pthread_mutex_lock(s->mutex);
    while (!s->late && !s->enough) {
        s->begun++;
        pthread_cond_broadcast(&s->news);
        s->late = s->clock->wait(s->clock, s->cond, s->mutex, s->deadline);
        s->at_ns = s->clock->mono_ns(s->clock);
        s->unheld += pthread_mutex_trylock(s->mutex) != EBUSY;
        s->unsaid += !s->late && s->at_ns >= s->deadline;
        s->woken++;
        pthread_cond_broadcast(&s->news);
    }
    pthread_mutex_unlock(s->mutex);
    return NULL;
}

/* It is asleep when this is back: it holds the mutex from counting until it sleeps. */
static void wait_until_begun(sleeper *s, int times)
{
    pthread_mutex_lock(s->mutex);
    while (s->begun < times)
        pthread_cond_wait(&s->news, s->mutex);
    pthread_mutex_unlock(s->mutex);
}

static void start(sleeper *s, clock_source *clock, int64_t deadline, sleeper *shared)
{
    memset(s, 0, sizeof *s);
    s->clock = clock;
    s->deadline = deadline;
    assert_int_equal(pthread_mutex_init(&s->own_mutex, NULL), 0);
    assert_int_equal(clock_cond_init(&s->own_cond), 0);
    assert_int_equal(pthread_cond_init(&s->news, NULL), 0);
    s->mutex = shared ? &shared->own_mutex : &s->own_mutex;
    s->cond = shared ? &shared->own_cond : &s->own_cond;
    assert_int_equal(pthread_create(&s->thread, NULL, sleep_on, s), 0);
    wait_until_begun(s, 1);
}

/* Wake it for nothing, and let it go to sleep again. Gives the time it saw. */
static int64_t wake_for_nothing(sleeper *s)
{
    pthread_mutex_lock(s->mutex);
    int woken = s->woken;
    pthread_cond_broadcast(s->cond);
    while (s->woken == woken)
        pthread_cond_wait(&s->news, s->mutex);
    int late = s->late;
    int64_t at_ns = s->at_ns;
    pthread_mutex_unlock(s->mutex);
    assert_int_equal(late, 0);
    wait_until_begun(s, woken + 2);
    return at_ns;
}

static int is_late(sleeper *s)
{
    pthread_mutex_lock(s->mutex);
    int late = s->late;
    pthread_mutex_unlock(s->mutex);
    return late;
}

static void join(sleeper *s)
{
    assert_int_equal(pthread_join(s->thread, NULL), 0);
}

static void destroy(sleeper *s)
{
    pthread_cond_destroy(&s->news);
    pthread_cond_destroy(&s->own_cond);
    pthread_mutex_destroy(&s->own_mutex);
}

static void the_system_wakes_on_a_signal(void **state)
{
    (void)state;
    clock_source *c = clock_system();
    sleeper s;
    start(&s, c, INT64_MAX, NULL);
    wake_for_nothing(&s);
    pthread_mutex_lock(s.mutex);
    s.enough = 1;
    pthread_cond_broadcast(s.cond);
    pthread_mutex_unlock(s.mutex);
    join(&s);
    assert_int_equal(s.late, 0);
    destroy(&s);
}

/* ---- the clock that is moved by hand ---- */

static void the_fake_stands_still_until_moved(void **state)
{
    (void)state;
    clock_fake *f = clock_fake_new(5000);
    clock_source *c = clock_fake_source(f);
    int64_t mono = c->mono_ns(c);
    assert_int_equal(c->now_ms(c), 5000);
    assert_int_equal(c->mono_ns(c), mono);
    clock_fake_advance(f, 0);
    assert_int_equal(c->now_ms(c), 5000);
    assert_int_equal(c->mono_ns(c), mono);
    clock_fake_advance(f, 7);
    assert_int_equal(c->now_ms(c), 5007);
    assert_int_equal(c->mono_ns(c), mono + 7 * MS);
    clock_fake_free(f);
    clock_fake_free(NULL);
}

static void a_deadline_of_the_past_is_answered_at_once(void **state)
{
    (void)state;
    clock_fake *f = clock_fake_new(0);
    clock_source *c = clock_fake_source(f);
    clock_fake_advance(f, 10);
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t cond;
    assert_int_equal(clock_cond_init(&cond), 0);
    pthread_mutex_lock(&mutex);
    int64_t now = c->mono_ns(c);
    assert_int_equal(c->wait(c, &cond, &mutex, now), 1);
    assert_int_equal(c->wait(c, &cond, &mutex, now - 1), 1);
    assert_int_equal(c->wait(c, &cond, &mutex, INT64_MIN), 1);
    assert_int_equal(pthread_mutex_trylock(&mutex), EBUSY);
    pthread_mutex_unlock(&mutex);
    pthread_cond_destroy(&cond);
    clock_fake_free(f);
}

static void a_waiter_wakes_at_its_deadline_and_not_before(void **state)
{
    (void)state;
    static const int64_t deadlines[] = {1, MS, 10 * MS - 1, 10 * MS, 10 * MS + 1};
    for (size_t i = 0; i < sizeof deadlines / sizeof *deadlines; i++) {
        clock_fake *f = clock_fake_new(0);
        clock_source *c = clock_fake_source(f);
        int64_t began = c->mono_ns(c);
        int64_t early_ms = (deadlines[i] - 1) / MS; /* the last whole one before */
        sleeper s;
        start(&s, c, began + deadlines[i], NULL);
        assert_int_equal(wake_for_nothing(&s), began);
        clock_fake_advance(f, early_ms);
        assert_int_equal(wake_for_nothing(&s), began + early_ms * MS);
        clock_fake_advance(f, 1);
        join(&s);
        assert_int_equal(s.late, 1);
        assert_int_equal(s.unsaid, 0);
        assert_int_equal(s.unheld, 0);
        assert_int_equal(s.at_ns, began + (early_ms + 1) * MS);
        destroy(&s);
        clock_fake_free(f);
    }
}

static void a_waiter_without_deadline_is_never_late(void **state)
{
    (void)state;
    clock_fake *f = clock_fake_new(0);
    sleeper s;
    start(&s, clock_fake_source(f), INT64_MAX, NULL);
    clock_fake_advance(f, INT64_C(100) * 365 * 86400 * 1000);
    wake_for_nothing(&s);
    pthread_mutex_lock(s.mutex);
    s.enough = 1;
    pthread_cond_broadcast(s.cond);
    pthread_mutex_unlock(s.mutex);
    join(&s);
    assert_int_equal(s.late, 0);
    destroy(&s);
    clock_fake_free(f);
}

enum { SLEEPERS = 12 };

/* In groups of three: some share a deadline, and with `shared` all share mutex and condition. */
static void check_each_in_its_time(int shared)
{
    static sleeper s[SLEEPERS];
    clock_fake *f = clock_fake_new(0);
    clock_source *c = clock_fake_source(f);
    int64_t began = c->mono_ns(c);
    for (int i = 0; i < SLEEPERS; i++) /* the latest is enlisted in the middle */
        start(&s[i], c, began + ((i * 5) % SLEEPERS / 3 + 1) * MS, shared && i ? &s[0] : NULL);

    for (int64_t ms = 1; ms <= SLEEPERS / 3; ms++) {
        clock_fake_advance(f, 1);
        for (int i = 0; i < SLEEPERS; i++) {
            if (s[i].deadline == began + ms * MS) {
                join(&s[i]);
                assert_int_equal(s[i].late, 1);
                assert_int_equal(s[i].at_ns, began + ms * MS);
            } else {
                assert_int_equal(is_late(&s[i]), s[i].deadline < began + ms * MS);
            }
        }
    }
    for (int i = SLEEPERS - 1; i >= 0; i--)
        destroy(&s[i]);
    clock_fake_free(f);
}

static void each_waiter_wakes_in_its_time(void **state)
{
    (void)state;
    check_each_in_its_time(0);
}

static void waiters_on_one_condition_wake_in_their_time(void **state)
{
    (void)state;
    check_each_in_its_time(1);
}

static void one_leap_wakes_all(void **state)
{
    (void)state;
    static sleeper s[SLEEPERS];
    clock_fake *f = clock_fake_new(0);
    clock_source *c = clock_fake_source(f);
    for (int i = 0; i < SLEEPERS; i++)
        start(&s[i], c, c->mono_ns(c) + i + 1, NULL);
    clock_fake_advance(f, 1000);
    for (int i = 0; i < SLEEPERS; i++) {
        join(&s[i]);
        assert_int_equal(s[i].late, 1);
        destroy(&s[i]);
    }
    clock_fake_free(f);
}

/* ---- waits, moves, signals and conditions that go away, all at once ---- */

enum { WORKERS = 6, ROUNDS = 1000 };

typedef struct nap {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
} nap;

typedef struct worker {
    pthread_t thread;
    struct waiter_group *group;
    pthread_mutex_t mutex; /* of `current` */
    nap *current;          /* what the signaller may wake */
    int early;             /* how often it was late before its deadline */
} worker;

typedef struct waiter_group {
    clock_fake *fake;
    worker workers[WORKERS];
    atomic_int working;
    int signals; /* woken by signals too, not only by the clock */
} waiter_group;

static void show(worker *w, nap *n)
{
    pthread_mutex_lock(&w->mutex);
    w->current = n;
    pthread_mutex_unlock(&w->mutex);
}

/* The condition is gone as soon as the wait is over, however it came to be over. */
static void *nap_often(void *arg)
{
    worker *w = arg;
    clock_source *c = clock_fake_source(w->group->fake);
    for (int round = 0; round < ROUNDS; round++) {
        nap *n = malloc(sizeof *n);
        pthread_mutex_init(&n->mutex, NULL);
        clock_cond_init(&n->cond);
        show(w, n);
        pthread_mutex_lock(&n->mutex);
        int64_t deadline = c->mono_ns(c) + (1 + round % 3) * MS;
        if (c->wait(c, &n->cond, &n->mutex, deadline))
            w->early += c->mono_ns(c) < deadline;
        pthread_mutex_unlock(&n->mutex);
        show(w, NULL);
        pthread_cond_destroy(&n->cond);
        pthread_mutex_destroy(&n->mutex);
        free(n);
    }
    atomic_fetch_sub(&w->group->working, 1);
    return NULL;
}

static void *move_often(void *arg)
{
    waiter_group *all = arg;
    for (int i = 1; atomic_load(&all->working) > 0; i++) {
        clock_fake_advance(all->fake, 1);
        if (all->signals || i % 16 == 0)
            sched_yield();
    }
    return NULL;
}

/* Keeps the mutex for a while, so that the thread that moves the clock is often found waiting for
 * it, side by side with the one that was woken. */
static void signal_slowly(nap *n)
{
    pthread_mutex_lock(&n->mutex);
    pthread_cond_signal(&n->cond);
    sched_yield();
    pthread_mutex_unlock(&n->mutex);
}

static void *signal_often(void *arg)
{
    waiter_group *all = arg;
    for (int i = 0; atomic_load(&all->working) > 0; i = (i + 1) % WORKERS) {
        worker *w = &all->workers[i];
        pthread_mutex_lock(&w->mutex);
        if (w->current && all->signals)
            signal_slowly(w->current);
        pthread_mutex_unlock(&w->mutex);
        sched_yield();
    }
    return NULL;
}

static void check_many_waiters(int signals)
{
    static waiter_group all;
    memset(&all, 0, sizeof all);
    all.signals = signals;
    all.fake = clock_fake_new(0);
    atomic_init(&all.working, WORKERS);
    for (int i = 0; i < WORKERS; i++) {
        all.workers[i].group = &all;
        assert_int_equal(pthread_mutex_init(&all.workers[i].mutex, NULL), 0);
    }
    for (int i = 0; i < WORKERS; i++) {
        worker *w = &all.workers[i];
        assert_int_equal(pthread_create(&w->thread, NULL, nap_often, w), 0);
    }
    pthread_t others[3];
    assert_int_equal(pthread_create(&others[0], NULL, move_often, &all), 0);
    assert_int_equal(pthread_create(&others[1], NULL, move_often, &all), 0);
    assert_int_equal(pthread_create(&others[2], NULL, signal_often, &all), 0);
    for (int i = 0; i < 3; i++)
        pthread_join(others[i], NULL);
    for (int i = 0; i < WORKERS; i++) {
        pthread_join(all.workers[i].thread, NULL);
        pthread_mutex_destroy(&all.workers[i].mutex);
        assert_int_equal(all.workers[i].early, 0);
    }
    clock_fake_free(all.fake);
}

static void conditions_may_go_when_their_wait_is_over(void **state)
{
    (void)state;
    check_many_waiters(1);
}

static void no_wake_up_is_lost(void **state)
{
    (void)state;
    check_many_waiters(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_system_tells_its_times),
        cmocka_unit_test(the_system_waits_until_the_deadline),
        cmocka_unit_test(the_system_wakes_on_a_signal),
        cmocka_unit_test(the_fake_stands_still_until_moved),
        cmocka_unit_test(a_deadline_of_the_past_is_answered_at_once),
        cmocka_unit_test(a_waiter_wakes_at_its_deadline_and_not_before),
        cmocka_unit_test(a_waiter_without_deadline_is_never_late),
        cmocka_unit_test(each_waiter_wakes_in_its_time),
        cmocka_unit_test(waiters_on_one_condition_wake_in_their_time),
        cmocka_unit_test(one_leap_wakes_all),
        cmocka_unit_test(conditions_may_go_when_their_wait_is_over),
        cmocka_unit_test(no_wake_up_is_lost),
    };
    return cmocka_run_group_tests_name("clock", tests, NULL, NULL);
}
