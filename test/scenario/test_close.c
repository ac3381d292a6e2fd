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
    stage *stage;
    pawl *p;
} owner;

enum { ENTERED, LET_GO, CLOSES };

#define STEP(name, fn) pawl_step(run, name, fn, input, PAWL_CALL(.arg = pawl_arg(run)))

static owner open_owner(conf *c, const pawl_options *options)
{
    owner o = {.stage = stage_new(c)};
    o.p = stage_open(o.stage, options);
    return o;
}

static void add(owner *o, const char *name, pawl_workflow_fn *fn)
{
    STAGE_CODE(o->stage, o->p, pawl_register_workflow(o->p, name, fn, PAWL_WORKFLOW(.arg = o)),
               PAWL_OK);
}

static void close_for_good(owner *o)
{
    assert_int_equal(pawl_close(o->p), PAWL_OK);
    stage_free(o->stage);
}

/* ---- Functions that close ---- */

/* Refused, with words that say what to do instead. */
static void close_it(void *arg)
{
    owner *o = arg;
    atomic_fetch_add(stage_number(o->stage, CLOSES), 1);
    STAGE_CHECK(o->stage, (pawl_close)(o->p) == PAWL_MISUSE);
    STAGE_CHECK(o->stage, pawl_errcode(o->p) == PAWL_MISUSE);
    STAGE_CHECK(o->stage, strstr(pawl_errtext(o->p), "pawl_stop()") != NULL);
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
    return STEP("closing", closing_work);
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
    atomic_store(stage_number(o->stage, ENTERED), 1);
    while (!atomic_load(stage_number(o->stage, LET_GO)))
        poll(NULL, 0, 1);
    close_it(o);
    return input;
}

static const char *late(pawl_run *run, const char *input)
{
    return STEP("late", late_work);
}

static const char *honest(pawl_run *run, const char *input)
{
    pawl_sleep(run, 1);
    return input;
}

/* ---- Cases ---- */

static void closing_from_inside_is_refused(conf *c)
{
    owner o = open_owner(c, NULL);
    add(&o, "closing", closing);
    add(&o, "honest", honest);
    stage_start(o.stage, o.p, "closing", "run", "1");
    STAGE_DONE(o.stage, o.p, "run", "1");
    assert_true(atomic_load(stage_number(o.stage, CLOSES)) >= 3);
    stage_start(o.stage, o.p, "honest", "beside", "1");
    STAGE_DONE(o.stage, o.p, "beside", "1");
    close_for_good(&o);
}

static void closing_while_it_is_closed_is_refused(conf *c)
{
    owner o = open_owner(c, NULL);
    add(&o, "sleeping", sleeping);
    stage_start(o.stage, o.p, "sleeping", "run", "1");
    stage_poll(o.stage, o.p);
    assert_int_equal(pawl_close(o.p), PAWL_OK);
    assert_int_equal(atomic_load(stage_number(o.stage, CLOSES)), 1);
    stage_free(o.stage);
}

static void threads_of_the_engine_do_not_close_it(conf *c)
{
    pthread_t thread;
    void *failed;
    owner o = open_owner(c, PAWL_OPTIONS(.threads = 2, .drain_ms = 1));
    stage_go(o.stage);
    add(&o, "closing", closing);
    add(&o, "late", late);
    assert_int_equal(pthread_create(&thread, NULL, stage_serve, o.p), 0);
    stage_start(o.stage, o.p, "closing", "run", "1");
    STAGE_CODE(o.stage, o.p, pawl_wait(o.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal((pawl_close)(o.p), PAWL_MISUSE); /* nor does another thread, while it serves */
    stage_start(o.stage, o.p, "late", "late", "1");
    TMP_AWAIT(atomic_load(stage_number(o.stage, ENTERED)));
    pawl_stop(o.p);
    assert_int_equal(pthread_join(thread, &failed), 0);
    assert_null(failed);
    atomic_store(stage_number(o.stage, LET_GO), 1);
    close_for_good(&o);
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
