/* A process that stands still for longer than its claims last, in the middle of a step, and goes
 * on: by SIGSTOP and SIGCONT, as a host does that sleeps. Its heartbeat looks at the node's row
 * first. If another node has closed that, the process records nothing more and calls no further
 * work function; if the row is open, no other node has the runs, and it goes on with what it has
 * executed (docs/decisions/0009). Engines go by the system's clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "support/conf.h"

#include <pawl.h>

enum { CLAIM_MS = 1000, DRAIN_MS = 60000 };
enum { STOPPED, OTHER, PROCESSES }; /* the process that stands still, and this one */

/* In memory that both processes share. */
typedef struct fixture {
    char url[TMP_PATH];
    atomic_int first[PROCESSES]; /* executions of the first step, by each of them … */
    atomic_int second[PROCESSES];
    atomic_int gate;   /* 1: the first step may return in the process that stood still … */
    atomic_int served; /* … and what pawl_serve() answered there; -1: it has not yet */
} fixture;

/* What a function is told: the play, and in which process. */
typedef struct process_arg {
    fixture *fixture;
    int index;
} process_arg;

static const char *first(pawl_work *work, const char *input)
{
    const process_arg *r = pawl_work_arg(work);
    atomic_fetch_add(&r->fixture->first[r->index], 1);
    if (r->index == STOPPED)
        TMP_AWAIT(atomic_load(&r->fixture->gate));
    return input;
}

static const char *second(pawl_work *work, const char *input)
{
    const process_arg *r = pawl_work_arg(work);
    atomic_fetch_add(&r->fixture->second[r->index], 1);
    return input;
}

static const char *flow(pawl_run *run, const char *input)
{
    pawl_step(run, "first", first, input, PAWL_CALL(.arg = pawl_arg(run)));
    return pawl_step(run, "second", second, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static pawl_code open_engine(process_arg *r, int64_t threads, pawl **out)
{
    pawl_code rc =
        pawl_open(out, r->fixture->url,
                  PAWL_OPTIONS(.threads = threads, .claim_ms = CLAIM_MS, .drain_ms = DRAIN_MS));
    return rc ? rc : pawl_register_workflow(*out, "flow", flow, PAWL_WORKFLOW(.arg = r));
}

/* The process that stands still. */
static void serve(int in, int out, void *arg)
{
    (void)in;
    (void)out;
    process_arg r = {arg, STOPPED};
    pawl *p = NULL;
    TMP_CHECK(open_engine(&r, 2, &p) == PAWL_OK);
    atomic_store(&r.fixture->served, (int)pawl_serve(p));
    TMP_CHECK(pawl_close(p) == PAWL_OK);
}

/* Until it is in the first step, and stands still there. This process is no node yet. */
static tmp_child stop_in_first(process_arg *r, conf *c, pawl **p)
{
    fixture *v = r->fixture = tmp_shared(sizeof *v);
    r->index = OTHER;
    assert_true(strlen(c->url) < sizeof v->url);
    memcpy(v->url, c->url, strlen(c->url) + 1);
    atomic_store(&v->served, -1);
    tmp_child child = tmp_fork(serve, v);
    assert_int_equal(open_engine(r, -1, p), PAWL_OK);
    assert_int_equal(pawl_start(*p, "flow", "run", "1", NULL), PAWL_OK);
    TMP_AWAIT(atomic_load(&v->first[STOPPED]) == 1);
    assert_int_equal(kill(child.pid, SIGSTOP), 0);
    tmp_await_stop(&child);
    return child;
}

static void go_on(const tmp_child *child, fixture *v)
{
    assert_int_equal(kill(child->pid, SIGCONT), 0);
    atomic_store(&v->gate, 1);
}

static int is_done(pawl *p)
{
    return pawl_wait(p, "run", 0, NULL) == PAWL_OK;
}

static void it_is_taken_over_from(conf *c)
{
    if (c->promises & DB_FILE)
        skip(); /* there the kernel says which process lives, and the one that stands still does */
    process_arg r;
    pawl *p = NULL;
    tmp_child child = stop_in_first(&r, c, &p);
    fixture *v = r.fixture;
    TMP_AWAIT((pawl_poll(p, NULL), is_done(p)));
    assert_int_equal(atomic_load(&v->first[OTHER]), 1);
    assert_int_equal(atomic_load(&v->second[OTHER]), 1);
    go_on(&child, v);
    TMP_AWAIT(atomic_load(&v->served) >= 0);
    assert_int_equal(atomic_load(&v->served), PAWL_FENCED);
    tmp_join(&child);
    assert_int_equal(atomic_load(&v->first[STOPPED]), 1);
    assert_int_equal(atomic_load(&v->second[STOPPED]), 0);
    pawl_close(p);
    tmp_shared_free(v, sizeof *v);
}

/* Nothing happens meanwhile that could be waited for: only the time of a claim passes. */
static void stand_still(void)
{
    struct timespec time = {2 * CLAIM_MS / 1000, 0};
    nanosleep(&time, NULL);
}

static void no_other_node_is_there(conf *c)
{
    process_arg r;
    pawl *p = NULL;
    tmp_child child = stop_in_first(&r, c, &p);
    fixture *v = r.fixture;
    stand_still();
    go_on(&child, v);
    TMP_AWAIT(is_done(p));
    assert_int_equal(atomic_load(&v->served), -1);
    assert_int_equal(atomic_load(&v->first[STOPPED]), 1);
    assert_int_equal(atomic_load(&v->second[STOPPED]), 1);
    tmp_kill(&child);
    pawl_close(p);
    tmp_shared_free(v, sizeof *v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"it is taken over from", it_is_taken_over_from, DB_SHARED},
        {"no other node is there", no_other_node_is_there, DB_SHARED},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
