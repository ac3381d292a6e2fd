/* The last part of a simulation: a process dies in the middle of many slow runs.
 *
 * Everything else has ended, and all nodes that are left serve with threads. The node that takes
 * the runs over does not know which of them has killed the process, and may be careful with them;
 * but fresh runs are done at once meanwhile, and the slow ones are done as soon as they can be. */
#include <stdio.h>
#include <string.h>

#include "fleet.h"
#include "threads.h"

enum { SLOW = 6, STEP_MS = 3000, ROUNDS = 4000 };

/* Takeover, one look, and each step once more for those that run alone for a while. */
enum { DONE_MS = FLEET_CLAIM_MS + 1000 + 2 * STEP_MS + 4000 };

static const int64_t MS_NS = 1000000;

/* ---- The runs ---- */

static const char *slow_step(pawl_work *work, const char *input)
{
    const fleet_node *n = pawl_work_arg(work);
    if (!n->plan.dead && !threads_is_main())
        threads_sleep(STEP_MS / 2 + (int64_t)(strlen(pawl_work_run_id(work)) * 97 % (STEP_MS / 2)));
    return input;
}

static const char *slow(pawl_run *run, const char *input)
{
    return pawl_step(run, "slow", slow_step, input, PAWL_CALL(.arg = pawl_arg(run)));
}

void neighbours_register(fleet_node *n)
{
    pawl_register_workflow(n->engine, "slow", slow, PAWL_WORKFLOW(.arg = n));
}

static int start_all(fleet *f, fleet_node *n)
{
    for (int i = 0; i < SLOW; i++) {
        char id[32];
        snprintf(id, sizeof id, "slow-%d", i);
        pawl_code rc = pawl_start(n->engine, "slow", id, "null", NULL);
        if (rc != PAWL_OK && rc != PAWL_BUSY)
            fleet_wrong(f, "%s cannot be started: %d", id, (int)rc);
        if (rc != PAWL_OK)
            return 0;
    }
    return 1;
}

static int all_done(fleet *f)
{
    for (int i = 0; i < SLOW; i++) {
        fleet_run one = {.key = 0};
        snprintf(one.id, sizeof one.id, "slow-%d", i);
        watch_row r = watch_read(f, &one);
        sqlite3_reset(f->runs);
        if (!r.found || r.phase != 1)
            return 0;
    }
    return 1;
}

/* ---- The nodes ---- */

/* Those that are driven by hand go down, the others serve. Gives how many do. */
static int serve_all(fleet *f)
{
    int count = 0;
    for (int i = 0; i < f->odds.nodes; i++) {
        fleet_node *n = &f->nodes[i];
        if (n->engine && n->threads == 0)
            fleet_down(n);
        for (int k = 0; n->engine && n->driver == DRIVER_NONE && k < 50; k++)
            drivers_begin(n);
        count += n->engine && n->driver == DRIVER_SERVE;
    }
    drivers_settle(f);
    return count;
}

static fleet_node *some_server(fleet *f)
{
    int from = (int)chance_between(&f->chance, 0, f->odds.nodes - 1);
    for (int i = 0; i < f->odds.nodes; i++) {
        fleet_node *n = &f->nodes[(from + i) % f->odds.nodes];
        if (n->engine && n->driver == DRIVER_SERVE)
            return n;
    }
    return NULL;
}

static void rest(fleet *f)
{
    int64_t next = threads_next_ns(), ms = 1;
    if (next != INT64_MAX && next > f->mono_ns)
        ms = (next - f->mono_ns + MS_NS - 1) / MS_NS;
    liveness_rest(f, ms < 20 ? chance_between(&f->chance, ms, 20) : ms);
    drivers_settle(f);
}

void neighbours(fleet *f)
{
    if (f->odds.memory || f->odds.nodes < 2 || !f->odds.threads || serve_all(f) < 2)
        return;
    fleet_node *n = some_server(f);
    if (!start_all(f, n))
        return;
    drivers_settle(f);
    for (int i = 0; i < f->probe_count; i++)
        f->probes_ms[i] = -1; /* it may have them */
    fleet_tell(f, "node %d dies last", n->index);
    fleet_count(f, TALLY_SCENES);
    fleet_die(n);
    fleet_remove_dead(n);
    int64_t began_ns = f->awake_ns;
    for (int i = 0; i < ROUNDS && !f->wrong[0] && !all_done(f); i++) {
        n = some_server(f);
        if (n)
            liveness_probe(f, n);
        rest(f);
        liveness_look(f);
        if (f->awake_ns - began_ns > DONE_MS * MS_NS)
            fleet_wrong(f, "slow runs of a dead process are not done after %d ms", DONE_MS);
    }
}
