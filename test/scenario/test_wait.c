/* Waiting for the end of a run: the waiter is woken by the end of the run, and answers at its
 * time-out, whatever keeps the database busy. */
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

static const conf_case CASES[] = {
    {"calls that wait for a run wake at its end", calls_that_wait_for_a_run_wake_at_its_end, 0},
    {"texts of a wait have no empty parts", texts_of_a_wait_have_no_empty_parts, 0},
    {"a wait beside a lock", a_wait_beside_a_lock, DB_SHARED},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
