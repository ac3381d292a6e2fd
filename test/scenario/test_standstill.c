/* A process that stands still for longer than its claims last, in the middle of a step, and goes
 * on: by SIGSTOP and SIGCONT, as a host does that sleeps. Its heartbeat looks at the node's row
 * first. If another node has closed that, the process records nothing more and calls no further
 * work function; if the row is open, no other node has the runs, and it goes on with what it has
 * executed (docs/decisions/0009). The time of a claim passes on the fixture's clock, while the
 * process stands still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>

#include "support/engine_fixture.h"

enum { CLAIM_MS = 30000, DRAIN_MS = 60000 };
enum { STOPPED, OTHER, PROCESSES }; /* the process that stands still, and this one */

/* Numbers of the fixture: executions of the first and of the second step, by each of the processes;
 * 1: the first step may return in the process that stood still; 1 + what pawl_serve() answered
 * there, 0: it has not yet. */
enum { FIRST, SECOND = FIRST + PROCESSES, GATE = SECOND + PROCESSES, SERVED };

/* What a function is told: the fixture, and in which process. */
typedef struct process_arg {
    engine_fixture *fixture;
    int index;
} process_arg;

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

static const char *first(pawl_work *work, const char *input)
{
    const process_arg *r = pawl_work_arg(work);
    atomic_fetch_add(fixture_number(r->fixture, FIRST + r->index), 1);
    if (r->index == STOPPED)
        TMP_AWAIT(number(r->fixture, GATE));
    return input;
}

static const char *second(pawl_work *work, const char *input)
{
    const process_arg *r = pawl_work_arg(work);
    atomic_fetch_add(fixture_number(r->fixture, SECOND + r->index), 1);
    return input;
}

static const char *flow(pawl_run *run, const char *input)
{
    pawl_step(run, "first", first, input, PAWL_CALL(.arg = pawl_arg(run)));
    return pawl_step(run, "second", second, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static pawl *open_engine(process_arg *r, int64_t threads)
{
    pawl *p = fixture_open(
        r->fixture, PAWL_OPTIONS(.threads = threads, .claim_ms = CLAIM_MS, .drain_ms = DRAIN_MS));
    pawl_code rc = pawl_register_workflow(p, "flow", flow, PAWL_WORKFLOW(.arg = r));
    FIXTURE_CODE(r->fixture, p, rc, PAWL_OK);
    return p;
}

/* The process that stands still. */
static void serve(engine_fixture *s, void *arg)
{
    (void)arg;
    process_arg r = {s, STOPPED};
    pawl *p = open_engine(&r, 2);
    atomic_store(fixture_number(s, SERVED), 1 + (int64_t)pawl_serve(p));
    TMP_CHECK(pawl_close(p) == PAWL_OK);
}

/* Until it is in the first step, and has stood still there for longer than its claims last. This
 * process is no node yet. */
static tmp_child stop_in_first(process_arg *r, conf *c, pawl **p)
{
    *r = (process_arg){fixture_new(c), OTHER};
    fixture_run_clock(r->fixture);
    tmp_child child = fixture_fork(r->fixture, serve, NULL);
    *p = open_engine(r, -1);
    fixture_start(r->fixture, *p, "flow", "run", "1");
    TMP_AWAIT(number(r->fixture, FIRST + STOPPED) == 1);
    assert_int_equal(kill(child.pid, SIGSTOP), 0);
    tmp_await_stop(&child);
    fixture_advance(r->fixture, 2 * CLAIM_MS);
    return child;
}

static void go_on(const tmp_child *child, engine_fixture *s)
{
    assert_int_equal(kill(child->pid, SIGCONT), 0);
    atomic_store(fixture_number(s, GATE), 1);
}

static int is_done(pawl *p)
{
    return pawl_wait(p, "run", 0, NULL) == PAWL_OK;
}

static void a_node_that_stands_still_is_taken_over_from(conf *c)
{
    FIXTURE_BY_HAND();
    if (c->promises & DB_FILE)
        skip(); /* there the kernel says which process lives, and the one that stands still does */
    process_arg r;
    pawl *p = NULL;
    tmp_child child = stop_in_first(&r, c, &p);
    engine_fixture *s = r.fixture;
    FIXTURE_UNTIL(s, p, is_done(p));
    assert_int_equal(number(s, FIRST + OTHER), 1);
    assert_int_equal(number(s, SECOND + OTHER), 1);
    go_on(&child, s);
    TMP_AWAIT(number(s, SERVED));
    assert_int_equal(number(s, SERVED), 1 + PAWL_FENCED);
    tmp_join(&child);
    assert_int_equal(number(s, FIRST + STOPPED), 1);
    assert_int_equal(number(s, SECOND + STOPPED), 0);
    pawl_close(p);
    fixture_free(s);
}

static void a_node_that_stands_still_alone_goes_on(conf *c)
{
    FIXTURE_BY_HAND();
    process_arg r;
    pawl *p = NULL;
    tmp_child child = stop_in_first(&r, c, &p);
    engine_fixture *s = r.fixture;
    go_on(&child, s);
    TMP_AWAIT(is_done(p));
    assert_int_equal(number(s, SERVED), 0);
    assert_int_equal(number(s, FIRST + STOPPED), 1);
    assert_int_equal(number(s, SECOND + STOPPED), 1);
    tmp_kill(&child);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a node that stands still is taken over from", a_node_that_stands_still_is_taken_over_from,
         DB_SHARED},
        {"a node that stands still alone goes on", a_node_that_stands_still_alone_goes_on,
         DB_SHARED},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
