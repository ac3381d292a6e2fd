/* Workflow functions that block, although only work functions should: they keep their threads, and
 * hold up no other run. What is ready behind them, what wakes and what is started meanwhile goes on
 * with other threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "support/served_fixture.h"

/* What the numbers of the fixture are for. */
enum { INSIDE, LET_GO };

enum { THREADS = 2, OTHERS = 24 };

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

/* Nothing but the watchdog ends this otherwise. */
static const char *blocking(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    atomic_fetch_add(fixture_number(s, INSIDE), 1);
    while (!number(s, LET_GO))
        poll(NULL, 0, 1);
    return input;
}

static const char *plain(pawl_run *run, const char *input)
{
    return FIXTURE_ECHO(run, "plain", input);
}

/* Compilers believe that it is the same thread behind a call as before it: this one is asked each
 * time. */
static pthread_t (*const volatile who)(void) = pthread_self;

static const char *sleeping(pawl_run *run, const char *input)
{
    pthread_t home = who();
    FIXTURE_ECHO(run, "before", input);
    pawl_sleep(run, PAWL_HOURS(1));
    if (!pthread_equal(home, who()))
        fixture_note(pawl_arg(run), "moved");
    return FIXTURE_ECHO(run, "after", input);
}

static served_fixture serve(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = THREADS));
    FIXTURE_REGISTER(v.fixture, v.p, blocking);
    FIXTURE_REGISTER(v.fixture, v.p, plain);
    FIXTURE_REGISTER(v.fixture, v.p, sleeping);
    served_begin(&v);
    return v;
}

static void start_many(const served_fixture *v, const char *workflow, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof id, "%s-%d", workflow, i);
        fixture_start(v->fixture, v->p, workflow, id, "1");
    }
}

static void await_many(const served_fixture *v, const char *workflow, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof id, "%s-%d", workflow, i);
        FIXTURE_CODE(v->fixture, v->p, pawl_wait(v->p, id, PAWL_FOREVER, NULL), PAWL_OK);
    }
}

/* Runs sleep on both threads, so that some of them have fibers which cannot go on: those are
 * replayed. */
static void block_so_many(conf *c, int blocked)
{
    served_fixture v = serve(c);
    engine_fixture *s = v.fixture;
    start_many(&v, "sleeping", OTHERS);
    for (int i = 0; i < OTHERS; i++) {
        char id[32];
        snprintf(id, sizeof id, "sleeping-%d", i);
        TMP_AWAIT(fixture_wake_at(s, v.p, id) > fixture_now(s));
    }
    start_many(&v, "blocking", blocked);
    TMP_AWAIT(number(s, INSIDE) == blocked);
    start_many(&v, "plain", OTHERS);
    await_many(&v, "plain", OTHERS);
    fixture_advance(s, PAWL_HOURS(1));
    await_many(&v, "sleeping", OTHERS);
    assert_int_equal(number(s, INSIDE), blocked);
    assert_int_equal(fixture_count(s, "before"), OTHERS);
    assert_int_equal(fixture_count(s, "after"), OTHERS);
    assert_int_equal(fixture_count(s, "plain"), OTHERS);
    assert_int_equal(fixture_count(s, "moved"), 0);
    atomic_store(fixture_number(s, LET_GO), 1);
    await_many(&v, "blocking", blocked);
    served_end(&v);
}

static void a_function_that_blocks_holds_up_no_other(conf *c)
{
    block_so_many(c, 1);
}

/* Then another thread is started. */
static void a_blocking_function_on_each_thread(conf *c)
{
    block_so_many(c, THREADS);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a function that blocks holds up no other", a_function_that_blocks_holds_up_no_other, 0},
        {"a blocking function on each thread", a_blocking_function_on_each_thread, 0},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
