/* The very last part of a simulation: the database fails to record one step of one run, again and
 * again, with an error that does not say what is wrong.
 *
 * One node is left, which has nothing else to do; what is started meanwhile is started by an engine
 * that is no node and goes down at once. The node must find out by itself that the storage works:
 * fresh runs are done at once, the run is held after some tries, and when the cause is gone and the
 * run is released, its result is recorded by the process that has it in its memory. */
#include <stdio.h>

#include "fleet.h"
#include "threads.h"

enum { HELD_RECORD = 6, ROUNDS = 2000, REST_MS = 500 };

/* Each from the moment at which nothing but this is to be done. */
enum { CLAIMED_MS = 2500, BESIDE_MS = 2500, HELD_MS = 10000, RELEASED_MS = 3500 };

static const int64_t MS_NS = 1000000;

static const char BREAK_IT[] =
    "CREATE TRIGGER sim_breaks BEFORE INSERT ON pawl_journal WHEN NEW.name = 'doomed'"
    " BEGIN SELECT abs(-9223372036854775807 - 1); END";

static const char MEND_IT[] = "DROP TRIGGER sim_breaks";

/* ---- The run ---- */

static const char *doomed_step(pawl_work *work, const char *input)
{
    const fleet_node *n = pawl_work_arg(work);
    n->fleet->doomed++;
    return input;
}

static const char *doomed(pawl_run *run, const char *input)
{
    return pawl_step(run, "doomed", doomed_step, input, PAWL_CALL(.arg = pawl_arg(run)));
}

void refused_register(fleet_node *n)
{
    pawl_register_workflow(n->engine, "doomed", doomed, PAWL_WORKFLOW(.arg = n));
}

/* ---- Those that act ---- */

/* All others go down. NULL: none is left that could be one. */
static fleet_node *leave_one(fleet *f)
{
    fleet_node *left = NULL;
    for (int i = 0; i < f->odds.nodes; i++) {
        fleet_node *n = &f->nodes[i];
        if (n->engine && (left || n->plan.dead || n->silent))
            fleet_down(n);
        else if (n->engine)
            left = n;
    }
    return left;
}

typedef pawl_code client_call(pawl *p, const char *id);

static pawl_code start_doomed(pawl *p, const char *id)
{
    return pawl_start(p, "doomed", id, "1", NULL);
}

static pawl_code start_beside(pawl *p, const char *id)
{
    return pawl_start(p, "probe", id, "null", NULL);
}

/* By an engine that is no node. */
static void act(fleet *f, const fleet_node *left, client_call *what, const char *id)
{
    fleet_node *n = &f->nodes[left->index == 0];
    fleet_up(n);
    pawl_code rc = what(n->engine, id);
    fleet_tell(f, "something is done to %s: %d", id, (int)rc);
    if (rc != PAWL_OK)
        fleet_wrong(f, "nothing can be done to %s: %d, %s", id, (int)rc, pawl_errtext(n->engine));
    fleet_down(n);
}

static void change(fleet *f, const char *sql)
{
    char *why = NULL;
    if (sqlite3_exec(f->look, sql, NULL, NULL, &why) != SQLITE_OK)
        fleet_wrong(f, "%s: %s", sql, why ? why : "");
    sqlite3_free(why);
}

/* ---- What is waited for ---- */

static int is_executed(fleet *f)
{
    return f->doomed > 0;
}

static watch_row read_row(fleet *f, const char *id)
{
    fleet_run one = {.key = 0};
    snprintf(one.id, sizeof one.id, "%s", id);
    watch_row r = watch_read(f, &one);
    sqlite3_reset(f->runs);
    return r;
}

static int is_held(fleet *f)
{
    return read_row(f, "doomed").held == HELD_RECORD;
}

static int is_done(fleet *f)
{
    return read_row(f, "doomed").phase == 1;
}

static int beside_is_done(fleet *f)
{
    return read_row(f, "beside").phase == 1;
}

static void rest(fleet *f, const fleet_node *n)
{
    int64_t next = threads_next_ns(), ms = REST_MS;
    if (n->driver == DRIVER_NONE)
        ms = pawl_timeout(n->engine);
    else if (next != INT64_MAX)
        ms = (next - f->mono_ns + MS_NS - 1) / MS_NS;
    liveness_rest(f, ms < 1 ? 1 : ms < REST_MS ? ms : REST_MS);
}

static void await(fleet *f, fleet_node *n, int (*condition)(fleet *f), int64_t most_ms,
                  const char *what)
{
    int64_t began_ns = f->awake_ns;
    for (int i = 0; i < ROUNDS && !f->wrong[0] && !condition(f); i++) {
        if (f->awake_ns - began_ns > most_ms * MS_NS)
            fleet_wrong(f, "a run whose record fails: %s", what);
        fleet_turn(n);
        drivers_settle(f);
        rest(f, n);
    }
    if (!f->wrong[0] && !condition(f))
        fleet_wrong(f, "a run whose record fails, after many rounds: %s", what);
}

void refused(fleet *f)
{
    if (f->odds.memory || f->odds.nodes < 2 || !chance_of(&f->chance, 300))
        return;
    fleet_node *n = leave_one(f);
    if (!n)
        return;
    fleet_tell(f, "node %d is left, and cannot record", n->index);
    fleet_count(f, TALLY_REFUSED);
    change(f, BREAK_IT);
    act(f, n, start_doomed, "doomed");
    await(f, n, is_executed, CLAIMED_MS, "it is not executed");
    act(f, n, start_beside, "beside");
    await(f, n, beside_is_done, BESIDE_MS, "another one waits for it");
    await(f, n, is_held, HELD_MS, "it is not held");
    change(f, MEND_IT);
    act(f, n, pawl_release, "doomed");
    await(f, n, is_done, RELEASED_MS, "it is released, and not recorded");
    if (f->doomed != 1)
        fleet_wrong(f, "a run whose record fails is executed %d times", f->doomed);
}
