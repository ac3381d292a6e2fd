/* A node that has nothing else to do, under pawl_serve() with threads: what it hands in must not
 * wait for other work to carry it along. */
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

static pawl_phase phase_of(const served *v, const char *id)
{
    return stage_phase(v->stage, v->p, id);
}

/* Await an end by being cancelled; the clock of the stage goes by itself. */
static void await_cancelled(const served *v, const char *id)
{
    TMP_AWAIT(phase_of(v, id) == PAWL_RUN_CANCELLED);
}

static served serve_idle(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2));
    STAGE_REGISTER(v.stage, v.p, echo);
    served_begin(&v);
    return v;
}

/* The hold of a run whose workflow nobody has is committed although nobody else commits anything.
 * And the node goes on claiming: a hold that hung would keep it from that for ever. */
static void what_nobody_has_is_held(conf *c)
{
    served v = serve_idle(c);
    stage_start(v.stage, v.p, "nobody", "unknown", "1");
    TMP_AWAIT(phase_of(&v, "unknown") == PAWL_RUN_HELD);
    if (c->promises & DB_SHARED) {
        pawl *client = stage_open(v.stage, NULL);
        stage_start(v.stage, client, "echo", "known", "2");
        TMP_AWAIT(phase_of(&v, "known") == PAWL_RUN_DONE);
        pawl_close(client);
    }
    served_end(&v);
}

static void a_deadline_of_what_nobody_has(conf *c)
{
    served v = serve_idle(c);
    STAGE_CODE(v.stage, v.p,
               pawl_start(v.p, "nobody", "unknown", "1", PAWL_START(.deadline_ms = 3000)), PAWL_OK);
    await_cancelled(&v, "unknown");
    served_end(&v);
}

static void a_cancel_of_what_nobody_has(conf *c)
{
    served v = serve_idle(c);
    stage_start(v.stage, v.p, "nobody", "held", "1");
    TMP_AWAIT(phase_of(&v, "held") == PAWL_RUN_HELD);
    STAGE_CODE(v.stage, v.p, pawl_cancel(v.p, "held", "gone"), PAWL_OK);
    await_cancelled(&v, "held");
    stage_start(v.stage, v.p, "nobody", "at-once", "1");
    STAGE_CODE(v.stage, v.p, pawl_cancel(v.p, "at-once", "gone"), PAWL_OK);
    await_cancelled(&v, "at-once");
    served_end(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-unregistered on an idle node: what nobody has is held", what_nobody_has_is_held, 0},
        {"dx-unregistered on an idle node: its deadline", a_deadline_of_what_nobody_has, 0},
        {"dx-unregistered on an idle node: its cancel", a_cancel_of_what_nobody_has, 0},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
