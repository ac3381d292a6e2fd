/* Functions of pawl_defer() that take long: a stop waits for them, on whatever thread they are
 * called, and the log names the run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/served_fixture.h"

/* Numbers of the fixture. */
enum { INSIDE, LET_GO };

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

/* The log of the engine: when it tells that the stop waits, the function is let go. */
static void let_go_when_told(int level, const char *event, const char *fields, void *arg)
{
    engine_fixture *s = *(engine_fixture **)arg;
    (void)level;
    if (strcmp(event, "stop-waits") != 0)
        return;
    fixture_note(s, "told %s", strstr(fields, "run=slow") ? "of slow" : fields);
    atomic_store(fixture_number(s, LET_GO), 1);
}

static void stand_deferred(void *arg)
{
    engine_fixture *s = arg;
    fixture_note(s, "deferred");
    atomic_fetch_add(fixture_number(s, INSIDE), 1);
    TMP_AWAIT(number(s, LET_GO));
    atomic_fetch_sub(fixture_number(s, INSIDE), 1);
}

static const char *slow_end(pawl_run *run, const char *input)
{
    pawl_defer(run, stand_deferred, pawl_arg(run));
    return input;
}

static const char *slow_sleep(pawl_run *run, const char *input)
{
    pawl_defer(run, stand_deferred, pawl_arg(run));
    pawl_sleep(run, PAWL_DAYS(1));
    return input;
}

/* The stop waits for it, on whatever thread it is called, and the log names the run. */
static void stop_waits(conf *c, pawl_workflow_fn *fn, int (*is_there)(served_fixture *v))
{
    engine_fixture *fixture = NULL;
    served_fixture v = served_open(
        c, PAWL_OPTIONS(.threads = 1, .drain_ms = 1, .log = let_go_when_told, .log_arg = &fixture));
    fixture = v.fixture;
    fixture_register(v.fixture, v.p, "slow", fn);
    served_begin(&v);
    fixture_start(v.fixture, v.p, "slow", "slow", "1");
    TMP_AWAIT(is_there(&v));
    served_stop(&v);
    FIXTURE_NOTES(v.fixture, "deferred told of slow");
    assert_int_equal(number(v.fixture, INSIDE), 0);
    pawl_close(v.p);
    fixture_free(v.fixture);
}

static int is_inside(served_fixture *v)
{
    return number(v->fixture, INSIDE) == 1;
}

static void a_stop_waits_for_a_deferred_function(conf *c)
{
    stop_waits(c, slow_end, is_inside);
}

/* Its fiber is dropped now, or else by the stop. */
static int is_asleep(served_fixture *v)
{
    return is_inside(v) || fixture_wake_at(v->fixture, v->p, "slow") > fixture_now(v->fixture);
}

static void a_stop_waits_for_those_that_it_calls(conf *c)
{
    stop_waits(c, slow_sleep, is_asleep);
}

static const conf_case CASES[] = {
    {"a stop waits for a deferred function", a_stop_waits_for_a_deferred_function, 0},
    {"a stop waits for those that it calls", a_stop_waits_for_those_that_it_calls, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
