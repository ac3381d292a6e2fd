/* pawl_close() is refused where freeing the handle would take it away from its users: while the
 * engine is driven, and from workflow, work and deferred functions. The answer says so, nothing is
 * closed, and the runs go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "support/engine_fixture.h"

/* What a workflow or work function here has as its arg. */
typedef struct owner {
    engine_fixture *fixture;
    pawl *p;
} owner;

enum { ENTERED, LET_GO, CLOSES };

static owner open_owner(conf *c, const pawl_options *options)
{
    owner o = {.fixture = fixture_new(c)};
    o.p = fixture_open(o.fixture, options);
    return o;
}

/* The reasons for which the log says that closing was refused, as bits of a number; and that a
 * work function was left by a stop. */
static void hear(int level, const char *event, const char *fields, void *arg)
{
    static const char *const WHY[] = {"the engine has called", "another thread", "being closed"};
    (void)level;
    for (int i = 0; strcmp(event, "close-refused") == 0 && i < 3; i++)
        if (strstr(fields, WHY[i]))
            atomic_fetch_or((_Atomic int64_t *)arg, 1 << i);
    if (strcmp(event, "stop-left") == 0 && strstr(fields, "run=late work=late"))
        atomic_fetch_or((_Atomic int64_t *)arg, 1 << 3);
}

enum { FROM_INSIDE = 1, BY_ANOTHER = 2, TWICE = 4, LEFT = 8 };

static void add(owner *o, const char *name, pawl_workflow_fn *fn)
{
    FIXTURE_CODE(o->fixture, o->p, pawl_register_workflow(o->p, name, fn, PAWL_WORKFLOW(.arg = o)),
                 PAWL_OK);
}

static void close_for_good(owner *o)
{
    assert_int_equal(pawl_close(o->p), PAWL_OK);
    fixture_free(o->fixture);
}

/* ---- Functions that close ---- */

/* Refused, with words that say what to do instead. */
static void close_it(void *arg)
{
    owner *o = arg;
    atomic_fetch_add(fixture_number(o->fixture, CLOSES), 1);
    FIXTURE_CHECK(o->fixture, (pawl_close)(o->p) == PAWL_MISUSE);
    FIXTURE_CHECK(o->fixture, pawl_errcode(o->p) == PAWL_MISUSE);
    FIXTURE_CHECK(o->fixture, strstr(pawl_errtext(o->p), "pawl_stop()") != NULL);
}

static const char *closing_work(pawl_work *work, const char *input)
{
    close_it(pawl_work_arg(work));
    return input;
}

static const char *closing(pawl_run *run, const char *input)
{
    owner *o = pawl_arg(run);
    close_it(o);
    pawl_defer(run, close_it, o);
    pawl_sleep(run, 1);
    return FIXTURE_STEP(run, "closing", closing_work, input);
}

/* It sleeps when the engine is closed, which calls what was deferred. */
static const char *sleeping(pawl_run *run, const char *input)
{
    pawl_defer(run, close_it, pawl_arg(run));
    pawl_sleep(run, PAWL_DAYS(1));
    return input;
}

/* Returns long after pawl_serve() has, and closes the engine, which is not driven any more. */
static const char *late_work(pawl_work *work, const char *input)
{
    owner *o = pawl_work_arg(work);
    atomic_store(fixture_number(o->fixture, ENTERED), 1);
    while (!atomic_load(fixture_number(o->fixture, LET_GO)))
        poll(NULL, 0, 1);
    close_it(o);
    return input;
}

static const char *late(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "late", late_work, input);
}

static const char *honest(pawl_run *run, const char *input)
{
    pawl_sleep(run, 1);
    return input;
}

/* ---- Cases ---- */

static void closing_from_inside_is_refused(conf *c)
{
    _Atomic int64_t why = 0;
    owner o = open_owner(c, PAWL_OPTIONS(.threads = -1, .log = hear, .log_arg = (void *)&why));
    add(&o, "closing", closing);
    add(&o, "honest", honest);
    fixture_start(o.fixture, o.p, "closing", "run", "1");
    FIXTURE_DONE(o.fixture, o.p, "run", "1");
    assert_true(atomic_load(fixture_number(o.fixture, CLOSES)) >= 3);
    assert_int_equal(atomic_load(&why), FROM_INSIDE);
    fixture_start(o.fixture, o.p, "honest", "beside", "1");
    FIXTURE_DONE(o.fixture, o.p, "beside", "1");
    close_for_good(&o);
}

static void closing_while_it_is_closed_is_refused(conf *c)
{
    _Atomic int64_t why = 0;
    owner o = open_owner(c, PAWL_OPTIONS(.threads = -1, .log = hear, .log_arg = (void *)&why));
    add(&o, "sleeping", sleeping);
    fixture_start(o.fixture, o.p, "sleeping", "run", "1");
    fixture_poll(o.fixture, o.p);
    assert_int_equal(pawl_close(o.p), PAWL_OK);
    assert_int_equal(atomic_load(fixture_number(o.fixture, CLOSES)), 1);
    assert_int_equal(atomic_load(&why), fixture_serves() || !FIXTURE_WARM ? FROM_INSIDE : TWICE);
    fixture_free(o.fixture);
}

static void threads_of_the_engine_do_not_close_it(conf *c)
{
    pthread_t thread;
    void *failed;
    _Atomic int64_t why = 0;
    owner o = open_owner(
        c, PAWL_OPTIONS(.threads = 2, .drain_ms = 1, .log = hear, .log_arg = (void *)&why));
    fixture_run_clock(o.fixture);
    add(&o, "closing", closing);
    add(&o, "late", late);
    assert_int_equal(pthread_create(&thread, NULL, fixture_serve, o.p), 0);
    fixture_start(o.fixture, o.p, "closing", "run", "1");
    FIXTURE_CODE(o.fixture, o.p, pawl_wait(o.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal((pawl_close)(o.p), PAWL_MISUSE); /* nor does another thread, while it serves */
    fixture_start(o.fixture, o.p, "late", "late", "1");
    TMP_AWAIT(atomic_load(fixture_number(o.fixture, ENTERED)));
    pawl_stop(o.p);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    atomic_store(fixture_number(o.fixture, LET_GO), 1);
    close_for_good(&o);
    assert_int_equal(atomic_load(&why) & ~TWICE, FROM_INSIDE | BY_ANOTHER | LEFT);
}

static const conf_case CASES[] = {
    {"closing from inside is refused", closing_from_inside_is_refused, 0},
    {"closing while it is closed is refused", closing_while_it_is_closed_is_refused, 0},
    {"threads of the engine do not close it", threads_of_the_engine_do_not_close_it, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
