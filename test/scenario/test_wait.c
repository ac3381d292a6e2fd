/* Waiting for the end of a run: the waiter is woken by the end of the run, and not by one from
 * before the wait; and it answers at its time-out, whatever keeps the database busy. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <string.h>

#include "handle/handle.h"
#include "support/app.h"
#include "support/engine_fixture.h"

static const char *waiting(pawl_run *run, const char *input)
{
    pawl_sleep(run, 1000);
    return input;
}

typedef struct waiter {
    pawl *p;
    const char *id;
    pthread_t thread;
    pawl_code rc;
} waiter;

static void *wait_for(void *arg)
{
    waiter *w = arg;
    w->rc = pawl_wait(w->p, w->id, PAWL_FOREVER, NULL);
    return NULL;
}

/* Waiters in other threads come back by the end of the run itself: the clock stands still. */
static void calls_that_wait_for_a_run_wake_at_its_end(conf *c)
{
    enum { WAITERS = 4 };
    waiter waiters[WAITERS];
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 2));
    pthread_t server;
    FIXTURE_REGISTER(s, p, waiting);
    fixture_start(s, p, "waiting", "one", "1");
    fixture_start(s, p, "waiting", "two", "1");
    for (int i = 0; i < WAITERS; i++) {
        waiters[i] = (waiter){.p = p, .id = i % 2 ? "one" : "two", .rc = PAWL_INTERNAL};
        assert_int_equal(pthread_create(&waiters[i].thread, NULL, wait_for, &waiters[i]), 0);
    }
    assert_int_equal(pthread_create(&server, NULL, fixture_serve, p), 0);
    TMP_AWAIT(fixture_wake_at(s, p, "one") > fixture_now(s) &&
              fixture_wake_at(s, p, "two") > fixture_now(s));
    fixture_advance(s, 1000);
    for (int i = 0; i < WAITERS; i++) {
        assert_int_equal(pthread_join(waiters[i].thread, NULL), 0);
        assert_int_equal(waiters[i].rc, PAWL_OK);
    }
    pawl_stop(p);
    assert_int_equal(pthread_join(server, NULL), 0);
    pawl_close(p);
    fixture_free(s);
}

static const char *fails_without_words(pawl_run *run, const char *input)
{
    (void)input;
    return pawl_fail(run, "Nameless", "%s", "");
}

/* A held run has a reason and no name, and a failure may have a name and no message: neither leaves
 * a joint in the text of the error. */
static void texts_of_a_wait_have_no_empty_parts(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, waiting);
    FIXTURE_REGISTER(s, p, fails_without_words);
    fixture_start(s, p, "waiting", "held", "1");
    FIXTURE_CODE(s, p, pawl_hold(p, "held", "by hand"), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_wait(p, "held", 0, NULL), PAWL_HELD);
    assert_string_equal(pawl_errdetail(p), "by hand");
    assert_null(strstr(pawl_errtext(p), ": :"));
    fixture_start(s, p, "fails_without_words", "failed", "1");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "failed") == PAWL_RUN_FAILED);
    FIXTURE_CODE(s, p, pawl_wait(p, "failed", 0, NULL), PAWL_FAILED);
    assert_string_equal(pawl_errdetail(p), "Nameless");
    pawl_close(p);
    fixture_free(s);
}

/* Another process keeps the database, or the row of the run, locked: the mark of a wait cannot be
 * committed. The wait answers in its own time, and the mark is not given up before. */
static void a_wait_beside_a_lock(conf *c)
{
    static const int DRIVERS[] = {-1, 1};
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    for (int i = 0; i < 2; i++) {
        pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = DRIVERS[i], .busy_ms = 30000));
        FIXTURE_CODE(s, p,
                     pawl_start(p, "waiting", "run", "1", PAWL_START(.delay_ms = PAWL_DAYS(1))),
                     PAWL_OK);
        app *a = app_open(c);
        app_do(a, c->server ? "BEGIN" : "BEGIN IMMEDIATE");
        if (c->server)
            app_do(a, "SELECT run FROM pawl.runs WHERE id = 'run' FOR UPDATE");
        FIXTURE_CODE(s, p, pawl_wait(p, "run", 100, NULL), PAWL_TIMEOUT);
        assert_int_equal(committers_stats_now(handle_committers(p)).busy, 0);
        app_do(a, "ROLLBACK");
        app_close(a);
        pawl_close(p);
    }
    fixture_free(s);
}

static int failures;

static const char *fails_once(pawl_run *run, const char *input)
{
    if (failures++ == 0)
        return pawl_fail(run, "Once", "%s", "the first time");
    pawl_sleep(run, 1000);
    return input;
}

static engine_fixture *of_slow;

static const char *slow(pawl_work *w, const char *input)
{
    (void)w;
    fixture_advance(of_slow, 100);
    return input;
}

static const char *is_slow(pawl_run *run, const char *input)
{
    return pawl_step(run, "slow", slow, input, NULL);
}

/* The watch of the only waiter was told, and the waiter has heard it; or it has come back. */
static int has_heard(watches *all)
{
    pthread_mutex_lock(&all->lock);
    int hears = 0;
    for (int i = 0; i < WATCH_LISTS; i++)
        for (watch *w = all->lists[i]; w; w = w->next)
            hears |= w->told;
    pthread_mutex_unlock(&all->lock);
    return !hears;
}

/* A poll ends behind a slow step. The end of the run is committed then, by that step or a thread of
 * the engine, and waiters are told of it with the next poll. */
static pawl *open_with_an_untold_end(engine_fixture *s)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.poll_ms = 10));
    failures = 0;
    of_slow = s;
    FIXTURE_REGISTER(s, p, fails_once);
    FIXTURE_REGISTER(s, p, is_slow);
    fixture_poll(s, p);
    fixture_start(s, p, "fails_once", "run", "2");
    fixture_start(s, p, "is_slow", "other", "1");
    FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_OK);
    fixture_start(s, p, "is_slow", "third", "1"); /* commits what is queued with it */
    TMP_AWAIT(fixture_phase(s, p, "run") == PAWL_RUN_FAILED);
    return p;
}

/* A call that waits for the run from now on is not answered with the end that is told late. */
static void wait_for_the_next_end(engine_fixture *s, pawl *p)
{
    watches *all = handle_watches(p);
    waiter w = {.p = p, .id = "run", .rc = PAWL_INTERNAL};
    assert_int_equal(pthread_create(&w.thread, NULL, wait_for, &w), 0);
    TMP_AWAIT(atomic_load(&all->count) == 1);
    fixture_poll(s, p);
    TMP_AWAIT(has_heard(all));
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    assert_int_equal(pthread_join(w.thread, NULL), 0);
    assert_int_equal(w.rc, PAWL_OK);
    pawl_close(p);
    fixture_free(s);
}

static void an_end_that_is_told_after_a_redrive(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with_an_untold_end(s);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK);
    wait_for_the_next_end(s, p);
}

static void an_end_that_is_told_after_another_start(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with_an_untold_end(s);
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_OK);
    fixture_start(s, p, "fails_once", "run", "2");
    wait_for_the_next_end(s, p);
}

static const conf_case CASES[] = {
    {"an end that is told after a redrive", an_end_that_is_told_after_a_redrive, 0},
    {"an end that is told after another start", an_end_that_is_told_after_another_start, 0},
    {"calls that wait for a run wake at its end", calls_that_wait_for_a_run_wake_at_its_end, 0},
    {"texts of a wait have no empty parts", texts_of_a_wait_have_no_empty_parts, 0},
    {"a wait beside a lock", a_wait_beside_a_lock, DB_SHARED},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
