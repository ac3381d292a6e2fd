/* A node that has nothing else to do, under pawl_serve() with threads: what it hands in must not
 * wait for other units to be committed with. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "support/served_fixture.h"

static const char *echo(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

static pawl_phase phase_of(const served_fixture *v, const char *id)
{
    return fixture_phase(v->fixture, v->p, id);
}

/* Await an end by being cancelled; the clock of the fixture goes by itself. */
static void await_cancelled(const served_fixture *v, const char *id)
{
    TMP_AWAIT(phase_of(v, id) == PAWL_RUN_CANCELLED);
}

static served_fixture serve_idle(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    FIXTURE_REGISTER(v.fixture, v.p, echo);
    served_begin(&v);
    return v;
}

/* The hold of a run without a registered workflow is committed although nothing else is committed.
 * And the node goes on claiming: a hold that hung would keep it from that for ever. */
static void a_missing_workflow_holds_the_run(conf *c)
{
    served_fixture v = serve_idle(c);
    fixture_start(v.fixture, v.p, "nobody", "unknown", "1");
    TMP_AWAIT(phase_of(&v, "unknown") == PAWL_RUN_HELD);
    if (c->promises & DB_SHARED) {
        pawl *client = fixture_open(v.fixture, NULL);
        fixture_start(v.fixture, client, "echo", "known", "2");
        TMP_AWAIT(phase_of(&v, "known") == PAWL_RUN_DONE);
        pawl_close(client);
    }
    served_end(&v);
}

static void a_deadline_of_a_missing_workflow(conf *c)
{
    served_fixture v = serve_idle(c);
    FIXTURE_CODE(v.fixture, v.p,
                 pawl_start(v.p, "nobody", "unknown", "1", PAWL_START(.deadline_ms = 3000)),
                 PAWL_OK);
    await_cancelled(&v, "unknown");
    served_end(&v);
}

static void a_cancel_of_a_missing_workflow(conf *c)
{
    served_fixture v = serve_idle(c);
    fixture_start(v.fixture, v.p, "nobody", "held", "1");
    TMP_AWAIT(phase_of(&v, "held") == PAWL_RUN_HELD);
    FIXTURE_CODE(v.fixture, v.p, pawl_cancel(v.p, "held", "gone"), PAWL_OK);
    await_cancelled(&v, "held");
    fixture_start(v.fixture, v.p, "nobody", "at-once", "1");
    FIXTURE_CODE(v.fixture, v.p, pawl_cancel(v.p, "at-once", "gone"), PAWL_OK);
    await_cancelled(&v, "at-once");
    served_end(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-unregistered on an idle node: a run whose workflow no node has is held",
         a_missing_workflow_holds_the_run, 0},
        {"dx-unregistered on an idle node: its deadline", a_deadline_of_a_missing_workflow, 0},
        {"dx-unregistered on an idle node: its cancel", a_cancel_of_a_missing_workflow, 0},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
