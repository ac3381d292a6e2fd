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

/* Numbers of the stage. */
enum { STEPS, CANCELLED };

typedef struct hand {
    stage *stage;
    pawl *p;
} hand;

/* Sleeps for its input. */
static const char *sleeping(pawl_run *run, const char *input)
{
    pawl_sleep(run, pawl_get_int(input, "", -1));
    return pawl_step(run, "woken", stage_echo, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static void start_some(stage *s, pawl *p)
{
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        stage_start(s, p, "sleeping", id, "1000");
    }
}

/* An engine that could have threads is driven by who polls, and by nobody else. */
static void threads_do_not_matter(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = stage_open(s, PAWL_OPTIONS(.threads = 4));
    STAGE_REGISTER(s, p, sleeping);
    stage_poll(s, p);
    start_some(s, p);
    /* There is a thread for commits: they come by themselves. */
    TMP_AWAIT((stage_advance(s, 500), stage_poll(s, p), stage_count(s, "woken") == RUNS));
    pawl_close(p);
    stage_free(s);
}

static void *poll_once(void *arg)
{
    const hand *h = arg;
    stage_poll(h->stage, h->p);
    return NULL;
}

static void poll_elsewhere(hand *h)
{
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, poll_once, h), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

/* A run that one of them has begun is gone on with by another one, and by the engine's own. */
static void any_thread_may_poll(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = stage_open(s, PAWL_OPTIONS(.threads = 2));
    hand h = {s, p};
    STAGE_REGISTER(s, p, sleeping);
    stage_start(s, p, "sleeping", "first", "1000");
    stage_start(s, p, "sleeping", "second", "2000");
    TMP_AWAIT((stage_poll(s, p), stage_wakes(s, p, "first") > stage_now(s) &&
                                     stage_wakes(s, p, "second") > stage_now(s)));
    stage_advance(s, 1000);
    TMP_AWAIT((poll_elsewhere(&h), stage_phase(s, p, "first") == PAWL_RUN_DONE));
    stage_go(s);
    pthread_t server;
    assert_int_equal(pthread_create(&server, NULL, stage_serve, p), 0);
    STAGE_CODE(s, p, pawl_wait(p, "second", PAWL_FOREVER, NULL), PAWL_OK);
    pawl_stop(p);
    assert_int_equal(pthread_join(server, NULL), 0);
    STAGE_NOTES(s, "woken woken");
    pawl_close(p);
    stage_free(s);
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
static void after_a_failure_there_is_time(conf *c)
{
    stage *s = stage_new(c);
    stage_go(s);
    db *d = conf_open(c, NULL);
    pawl *p = stage_open(s, PAWL_OPTIONS(.threads = -1, .busy_ms = 50));
    db_conn *lock = conf_lock(d);
    struct pollfd fd = {pawl_fd(p), POLLIN, 0};
    assert_int_equal(pawl_timeout(p), 0);
    STAGE_REGISTER(s, p, sleeping); /* which calls it */
    assert_int_equal(poll(&fd, 1, 0), 1);
    TMP_AWAIT(waits_after_a_failure(p));
    conf_unlock(lock);
    stage_poll(s, p);
    pawl_close(p);
    db_close(d);
    stage_free(s);
}

/* ---- For so long ---- */

/* Takes as many ms as its input says. */
static const char *spend(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    stage_note(s, "spent");
    stage_advance(s, pawl_get_int(input, "", 0));
    return input;
}

static const char *spending(pawl_run *run, const char *input)
{
    return pawl_step(run, "spend", spend, input, PAWL_CALL(.arg = pawl_arg(run)));
}

/* So many of the steps are executed by each call. */
static void expect_in_a_poll(conf *c, int64_t poll_ms, const char *input, int least, int most)
{
    STAGE_BY_HAND(); /* with threads, a poll may return while they still commit */
    stage *s = stage_new(c);
    pawl *p = stage_open(s, PAWL_OPTIONS(.threads = -1, .poll_ms = poll_ms));
    STAGE_REGISTER(s, p, spending);
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        stage_start(s, p, "spending", id, input);
    }
    int before = 0, done = 0, polls = 0, highest = 0;
    for (; done < RUNS; before = done) {
        assert_in_range(++polls, 1, 100 * RUNS);
        assert_int_equal(pawl_timeout(p), 0);
        STAGE_CODE(s, p, pawl_poll(p, NULL), PAWL_OK);
        done = stage_count(s, "spent");
        highest = done - before > highest ? done - before : highest;
    }
    assert_in_range(highest, least, most);
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        STAGE_DONE(s, p, id, input);
    }
    assert_int_equal(stage_count(s, "spent"), RUNS);
    pawl_close(p);
    stage_free(s);
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

static void a_poll_without_an_end(conf *c)
{
    expect_in_a_poll(c, -1, "50", RUNS, RUNS);
}

/* ---- Finish ---- */

static const char *count(pawl_work *work, const char *input)
{
    const hand *h = pawl_work_arg(work);
    if (atomic_fetch_add(stage_number(h->stage, STEPS), 1) == 20) {
        pawl_stop(h->p);
        atomic_store(stage_number(h->stage, CANCELLED), pawl_work_cancelled(work));
    }
    return input;
}

static const char *endless(pawl_run *run, const char *input)
{
    for (int i = 0; i < ENDLESS; i++)
        pawl_drop(run, pawl_step(run, "count", count, input, PAWL_CALL(.arg = pawl_arg(run))));
    return input;
}

/* It never waits for anything, but it can be stopped; its work hears of that first. */
static void finish_can_be_stopped(conf *c)
{
    stage *s = stage_new(c);
    hand h = {s, stage_open(s, NULL)};
    STAGE_CODE(s, h.p, pawl_register_workflow(h.p, "endless", endless, PAWL_WORKFLOW(.arg = &h)),
               PAWL_OK);
    stage_start(s, h.p, "endless", "run", "1");
    STAGE_CODE(s, h.p, pawl_finish(h.p, "run", PAWL_FOREVER, NULL), PAWL_CLOSED);
    assert_in_range(atomic_load(stage_number(s, STEPS)), 20, 30);
    assert_int_equal(atomic_load(stage_number(s, CANCELLED)), 1);
    assert_int_equal(stage_phase(s, h.p, "run"), PAWL_RUN_LIVE);
    pawl_close(h.p);
    stage_free(s);
}

static const char *take_time(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    stage_advance(s, 10);
    atomic_fetch_add(stage_number(s, STEPS), 1);
    return input;
}

static const char *slow(pawl_run *run, const char *input)
{
    for (int i = 0; i < ENDLESS; i++)
        pawl_drop(run, pawl_step(run, "slow", take_time, input, PAWL_CALL(.arg = pawl_arg(run))));
    return input;
}

/* And it comes back in time. */
static void finish_ends_in_time(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = stage_open(s, NULL);
    STAGE_REGISTER(s, p, slow);
    stage_start(s, p, "slow", "run", "1");
    STAGE_CODE(s, p, pawl_finish(p, "run", 200, NULL), PAWL_TIMEOUT);
    assert_in_range(atomic_load(stage_number(s, STEPS)), 1, 30);
    int64_t before = atomic_load(stage_number(s, STEPS));
    STAGE_CODE(s, p, pawl_finish(p, "run", 200, NULL), PAWL_TIMEOUT); /* it goes on from there */
    assert_in_range(atomic_load(stage_number(s, STEPS)), before + 1, before + 30);
    pawl_close(p);
    stage_free(s);
}

/* ---- Others beside it ---- */

typedef struct client {
    hand *hand;
    atomic_int over;
} client;

static void *start_and_start(void *arg)
{
    client *t = arg;
    for (int i = 0; !atomic_load(&t->over); i++) {
        char id[32];
        snprintf(id, sizeof id, "other-%d", i);
        stage_start(t->hand->stage, t->hand->p, "sleeping", id, "1");
    }
    return NULL;
}

static const char *many(pawl_run *run, const char *input)
{
    for (int i = 0; i < 100; i++)
        pawl_drop(run, pawl_step(run, "many", stage_echo, input, PAWL_CALL(.arg = pawl_arg(run))));
    return input;
}

/* Those who start runs commit for the one who finishes his, and tell him: he does not find out a
 * second later. */
static void finish_beside_clients(conf *c)
{
    stage *s = stage_new(c);
    stage_go(s);
    hand h = {s, stage_open(s, PAWL_OPTIONS(.threads = 1))};
    client t = {.hand = &h};
    pthread_t thread;
    STAGE_REGISTER(s, h.p, sleeping);
    STAGE_REGISTER(s, h.p, many);
    stage_start(s, h.p, "many", "run", "1");
    assert_int_equal(pthread_create(&thread, NULL, start_and_start, &t), 0);
    STAGE_CODE(s, h.p, pawl_finish(h.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    atomic_store(&t.over, 1);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(stage_count(s, "many"), 100);
    pawl_close(h.p);
    stage_free(s);
}

static const conf_case CASES[] = {
    {"a poll has an end", a_poll_has_an_end, 0},
    {"a poll ends soon by default", a_poll_ends_soon_by_default, 0},
    {"a poll does something", a_poll_does_something, 0},
    {"a poll without an end", a_poll_without_an_end, 0},
    {"threads do not matter", threads_do_not_matter, 0},
    {"any thread may poll", any_thread_may_poll, 0},
    {"after a failure there is time", after_a_failure_there_is_time, DB_SHARED},
    {"finish can be stopped", finish_can_be_stopped, 0},
    {"finish ends in time", finish_ends_in_time, 0},
    {"finish beside clients", finish_beside_clients, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
