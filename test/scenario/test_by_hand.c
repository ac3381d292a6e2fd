/* Driving by hand, by threads of the program's own: one after the other, until they are told to
 * stop, or for so long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "support/engine_fixture.h"

enum { RUNS = 10, ENDLESS = 1000000 };

/* Numbers of the fixture. */
enum { STEPS, CANCELLED };

typedef struct poller {
    engine_fixture *fixture;
    pawl *p;
} poller;

/* Sleeps for its input. */
static const char *sleeping(pawl_run *run, const char *input)
{
    pawl_sleep(run, pawl_get_int(input, "", -1));
    return FIXTURE_ECHO(run, "woken", input);
}

static void start_some(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, p, "sleeping", id, "1000");
    }
}

/* An engine that could have threads is driven by the polling thread only. */
static void polled_by_several_threads_one_after_the_other(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 4));
    FIXTURE_REGISTER(s, p, sleeping);
    fixture_poll(s, p);
    start_some(s, p);
    /* There is a thread for commits: they come by themselves. */
    TMP_AWAIT((fixture_advance(s, 500), fixture_poll(s, p), fixture_count(s, "woken") == RUNS));
    pawl_close(p);
    fixture_free(s);
}

static void *poll_once(void *arg)
{
    const poller *h = arg;
    fixture_poll(h->fixture, h->p);
    return NULL;
}

static void poll_elsewhere(poller *h)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, poll_once, h), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A run that one of them has begun is gone on with by another one, and by the engine's own. */
static void any_thread_may_poll(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 2));
    poller h = {s, p};
    FIXTURE_REGISTER(s, p, sleeping);
    fixture_start(s, p, "sleeping", "first", "1000");
    fixture_start(s, p, "sleeping", "second", "2000");
    TMP_AWAIT((fixture_poll(s, p), fixture_wake_at(s, p, "first") > fixture_now(s) &&
                                       fixture_wake_at(s, p, "second") > fixture_now(s)));
    fixture_advance(s, 1000);
    TMP_AWAIT((poll_elsewhere(&h), fixture_phase(s, p, "first") == PAWL_RUN_DONE));
    fixture_run_clock(s);
    pthread_t server;
    assert_int_equal(pthread_create(&server, NULL, fixture_serve, p), 0);
    FIXTURE_CODE(s, p, pawl_wait(p, "second", PAWL_FOREVER, NULL), PAWL_OK);
    pawl_stop(p);
    assert_int_equal(pthread_join(server, NULL), 0);
    FIXTURE_NOTES(s, "woken woken");
    pawl_close(p);
    fixture_free(s);
}

/* The clock goes, and on a busy machine it may be time for the next poll by now: then that one
 * tells. */
static int waits_after_a_failure(pawl *p)
{
    struct pollfd fd = {pawl_fd(p), POLLIN, 0};
    assert_int_not_equal(pawl_poll(p, NULL), PAWL_OK);
    return pawl_timeout(p) > 0 && poll(&fd, 1, 0) == 0;
}

/* A poll that fails tells when to come again: not at once. */
static void after_a_failed_poll_the_time_out_is_the_back_off(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    db *d = conf_open(c, NULL);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .busy_ms = 50));
    db_conn *lock = conf_lock(d);
    struct pollfd fd = {pawl_fd(p), POLLIN, 0};
    assert_int_equal(pawl_timeout(p), 0);
    FIXTURE_REGISTER(s, p, sleeping); /* which calls it */
    assert_int_equal(poll(&fd, 1, 0), 1);
    TMP_AWAIT(waits_after_a_failure(p));
    conf_unlock(lock);
    fixture_poll(s, p);
    pawl_close(p);
    db_close(d);
    fixture_free(s);
}

/* ---- For so long ---- */

/* Takes as many ms as its input says. */
static const char *spend(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "spent");
    fixture_advance(s, pawl_get_int(input, "", 0));
    return input;
}

static const char *spending(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "spend", spend, input);
}

/* So many of the steps are executed by each call. */
static void expect_in_a_poll(conf *c, int64_t poll_ms, const char *input, int least, int most)
{
    FIXTURE_BY_HAND(); /* with threads, a poll may return while they still commit */
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .poll_ms = poll_ms));
    FIXTURE_REGISTER(s, p, spending);
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, p, "spending", id, input);
    }
    int before = 0, done = 0, polls = 0, highest = 0;
    for (; done < RUNS; before = done) {
        assert_in_range(++polls, 1, 100 * RUNS);
        assert_int_equal(pawl_timeout(p), 0);
        FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_OK);
        done = fixture_count(s, "spent");
        highest = done - before > highest ? done - before : highest;
    }
    assert_in_range(highest, least, most);
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        FIXTURE_DONE(s, p, id, input);
    }
    assert_int_equal(fixture_count(s, "spent"), RUNS);
    pawl_close(p);
    fixture_free(s);
}

/* The caller has other things to do: after poll_ms it is let go, and told to come again at once. */
static void a_poll_has_an_end(conf *c)
{
    expect_in_a_poll(c, 20, "4", 4, 5);
}

static void a_poll_ends_soon_by_default(conf *c)
{
    expect_in_a_poll(c, 0, "4", 2, 3);
}

/* Whatever takes longer than poll_ms is done nevertheless, one thing at a time. */
static void a_poll_does_something(conf *c)
{
    expect_in_a_poll(c, 5, "50", 1, 1);
}

static void a_poll_without_a_bound(conf *c)
{
    expect_in_a_poll(c, -1, "50", RUNS, RUNS);
}

/* ---- Finish ---- */

static const char *count(pawl_work *work, const char *input)
{
    const poller *h = pawl_work_arg(work);
    if (atomic_fetch_add(fixture_number(h->fixture, STEPS), 1) == 20) {
        pawl_stop(h->p);
        atomic_store(fixture_number(h->fixture, CANCELLED), pawl_work_cancelled(work));
    }
    return input;
}

static const char *endless(pawl_run *run, const char *input)
{
    for (int i = 0; i < ENDLESS; i++)
        pawl_drop(run, FIXTURE_STEP(run, "count", count, input));
    return input;
}

/* It never waits for anything, but it can be stopped; its work hears of that first. */
static void finish_can_be_stopped(conf *c)
{
    engine_fixture *s = fixture_new(c);
    poller h = {s, fixture_open(s, NULL)};
    FIXTURE_CODE(s, h.p, pawl_register_workflow(h.p, "endless", endless, PAWL_WORKFLOW(.arg = &h)),
                 PAWL_OK);
    fixture_start(s, h.p, "endless", "run", "1");
    FIXTURE_CODE(s, h.p, pawl_finish(h.p, "run", PAWL_FOREVER, NULL), PAWL_CLOSED);
    assert_in_range(atomic_load(fixture_number(s, STEPS)), 20, 30);
    assert_int_equal(atomic_load(fixture_number(s, CANCELLED)), 1);
    assert_int_equal(fixture_phase(s, h.p, "run"), PAWL_RUN_LIVE);
    pawl_close(h.p);
    fixture_free(s);
}

static const char *take_time(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_advance(s, 10);
    atomic_fetch_add(fixture_number(s, STEPS), 1);
    return input;
}

static const char *slow(pawl_run *run, const char *input)
{
    for (int i = 0; i < ENDLESS; i++)
        pawl_drop(run, FIXTURE_STEP(run, "slow", take_time, input));
    return input;
}

/* And it comes back in time. */
static void finish_ends_in_time(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, slow);
    fixture_start(s, p, "slow", "run", "1");
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 200, NULL), PAWL_TIMEOUT);
    assert_in_range(atomic_load(fixture_number(s, STEPS)), 1, 30);
    int64_t before = atomic_load(fixture_number(s, STEPS));
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 200, NULL), PAWL_TIMEOUT); /* it goes on from there */
    assert_in_range(atomic_load(fixture_number(s, STEPS)), before + 1, before + 30);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Others beside it ---- */

typedef struct client {
    poller *poller;
    atomic_int over;
} client;

static void *start_and_start(void *arg)
{
    client *t = arg;
    for (int i = 0; !atomic_load(&t->over); i++) {
        char id[32];
        snprintf(id, sizeof id, "other-%d", i);
        fixture_start(t->poller->fixture, t->poller->p, "sleeping", id, "1");
    }
    return NULL;
}

static const char *many(pawl_run *run, const char *input)
{
    for (int i = 0; i < 100; i++)
        pawl_drop(run, FIXTURE_ECHO(run, "many", input));
    return input;
}

/* Threads that start runs commit for the thread that finishes its own run, and wake it: it does not
 * find out a second later. */
static void pawl_finish_beside_calls_of_clients(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    poller h = {s, fixture_open(s, PAWL_OPTIONS(.threads = 1))};
    client t = {.poller = &h};
    pthread_t thread;
    FIXTURE_REGISTER(s, h.p, sleeping);
    FIXTURE_REGISTER(s, h.p, many);
    fixture_start(s, h.p, "many", "run", "1");
    assert_int_equal(pthread_create(&thread, NULL, start_and_start, &t), 0);
    FIXTURE_CODE(s, h.p, pawl_finish(h.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    atomic_store(&t.over, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(fixture_count(s, "many"), 100);
    pawl_close(h.p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"a poll has an end", a_poll_has_an_end, 0},
    {"a poll ends soon by default", a_poll_ends_soon_by_default, 0},
    {"a poll does something", a_poll_does_something, 0},
    {"a poll without a bound", a_poll_without_a_bound, 0},
    {"polled by several threads, one after the other",
     polled_by_several_threads_one_after_the_other, 0},
    {"any thread may poll", any_thread_may_poll, 0},
    {"after a failed poll the time-out is the back-off",
     after_a_failed_poll_the_time_out_is_the_back_off, DB_SHARED},
    {"finish can be stopped", finish_can_be_stopped, 0},
    {"finish ends in time", finish_ends_in_time, 0},
    {"pawl_finish beside calls of clients", pawl_finish_beside_calls_of_clients, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
