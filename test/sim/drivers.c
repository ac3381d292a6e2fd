/* Engines that are driven by threads: one thread serves, or finishes one run after the other, and
 * another one stops that.
 *
 * The threads are simulated (threads.h). A node that has died is closed when none of its threads
 * goes on, and nothing of it is on the simulator's own stack. */
#include <stdio.h>

#include "fleet.h"
#include "handle/handle.h"
#include "threads.h"

enum { SLICES_MAX = 12, SETTLE_MAX = 50000, FINISH_TIMES = 8 };

/* A node that leaves while the storage fails tries for as long as a drain takes. */
static void note_leaving(fleet_node *n, int64_t from_ns)
{
    from_ns = n->worked_ns > from_ns ? n->worked_ns : from_ns;
    if (n->hit_ns >= from_ns && n->fleet->mono_ns >= clock_deadline(from_ns, FLEET_DRAIN_MS))
        faults_note(n);
}

/* ---- Serving ---- */

static void *serve(void *arg)
{
    fleet_node *n = arg;
    fleet *f = n->fleet;
    int64_t hits = n->hits;
    pawl_code rc = pawl_serve(n->engine);
    fleet_tell(f, "node %d (%lld) has served: %d", n->index, (long long)n->id, (int)rc);
    n->driver = DRIVER_NONE;
    n->driven++;
    note_leaving(n, n->stopped_ns);
    if (rc == PAWL_OK)
        n->stopped = 0;
    if (n->plan.dead)
        return NULL;
    if (rc == PAWL_FENCED)
        fleet_fenced(n, n->id);
    else if (rc != PAWL_OK && rc != PAWL_BUSY && n->hits == hits && !fleet_is_shut_out(n))
        fleet_wrong(f, "node %d cannot serve: %s", n->index, pawl_errtext(n->engine));
    return NULL;
}

/* ---- Finishing ---- */

static int is_expected(pawl_code rc)
{
    return rc == PAWL_OK || rc == PAWL_TIMEOUT || rc == PAWL_FAILED || rc == PAWL_CANCELLED ||
           rc == PAWL_HELD || rc == PAWL_NOTFOUND || rc == PAWL_BUSY || rc == PAWL_CLOSED;
}

static pawl_code finish_once(fleet_node *n, const char *id)
{
    fleet *f = n->fleet;
    int64_t hits = n->hits, began_ns = f->mono_ns;
    pawl_code rc = pawl_finish(n->engine, id, n->finish_ms, NULL);
    fleet_tell(f, "node %d (%lld) has finished %s for %lld ms: %d", n->index, (long long)n->id, id,
               (long long)n->finish_ms, (int)rc);
    if (n->plan.dead)
        return PAWL_CLOSED;
    note_leaving(n, began_ns);
    if (rc == PAWL_FENCED)
        fleet_fenced(n, n->id);
    else if (!is_expected(rc) && n->hits == hits && !fleet_is_shut_out(n))
        fleet_wrong(f, "node %d cannot finish %s: %s", n->index, id, pawl_errtext(n->engine));
    return rc;
}

static void *finish(void *arg)
{
    fleet_node *n = arg;
    pawl_code rc = PAWL_TIMEOUT;
    for (int i = 0; i < n->finish_times && rc == PAWL_TIMEOUT; i++)
        rc = finish_once(n, n->fleet->all[n->finish_run].id);
    n->driver = DRIVER_NONE;
    n->driven++;
    if (rc == PAWL_CLOSED)
        n->stopped = 0;
    return NULL;
}

static void start(fleet_node *n, void *(*fn)(void *arg))
{
    n->begun++;
    n->begun_ns = n->fleet->mono_ns;
    threads_spawn(n, fn, n);
}

int drivers_begin(fleet_node *n)
{
    fleet *f = n->fleet;
    n->began_ns = f->mono_ns;
    if (!f->calm && chance_of(&f->chance, f->odds.finish)) {
        n->driver = DRIVER_FINISH;
        n->finish_run = (int)chance_between(&f->chance, 0, f->odds.runs - 1);
        n->finish_ms = chance_between(&f->chance, 0, 400);
        n->finish_times = (int)chance_between(&f->chance, 1, FINISH_TIMES);
        fleet_count(f, TALLY_FINISHES);
        start(n, finish);
        return 1;
    }
    if (!chance_of(&f->chance, f->odds.serve))
        return 0;
    fleet_tell(f, "node %d begins to serve", n->index);
    fleet_count(f, TALLY_SERVES);
    n->driver = DRIVER_SERVE;
    start(n, serve);
    return 1;
}

/* ---- Going on ---- */

static void stop(fleet_node *n)
{
    fleet_tell(n->fleet, "node %d is stopped", n->index);
    fleet_count(n->fleet, TALLY_STOPS);
    if (!n->stopped)
        n->stopped_ns = n->fleet->mono_ns;
    n->stopped = 1;
    n->stops++;
    pawl_stop(n->engine);
}

/* A node that has died is closed; so is one that has lost its liveness lock, after others have
 * taken over. */
static void close_dead_nodes(fleet *f)
{
    for (int i = 0; i < f->odds.nodes; i++) {
        fleet_node *n = &f->nodes[i];
        if (!n->engine || n->polled)
            continue;
        int64_t id = handle_node(n->engine);
        n->id = id ? id : n->id;
        if (n->plan.dead)
            fleet_remove_dead(n);
        else if (n->driver != DRIVER_NONE && n->silent && fleet_is_shut_out(n))
            fleet_down(n);
    }
}

/* A run is held while threads are at it, or released: often so soon that its owner may not have
 * heard. */
static void hold(fleet *f, fleet_node *n)
{
    fleet_run *run = &f->all[chance_between(&f->chance, 0, f->odds.runs - 1)];
    if (f->calm || n->polled || !chance_of(&f->chance, f->odds.hold))
        return;
    affairs_hold(f, n, run);
    if (run->hold != HOLD_YES || !chance_of(&f->chance, 400))
        return;
    int64_t most = chance_between(&f->chance, 0, 4);
    for (int i = 0; i < most && threads_run_one(f, NULL); i++)
        close_dead_nodes(f);
    if (n->engine && run->hold == HOLD_YES)
        affairs_release(f, n, run);
}

void drivers_play(fleet_node *n)
{
    fleet *f = n->fleet;
    int64_t most = chance_between(&f->chance, 1, SLICES_MAX);
    faults_plan(n);
    hold(f, n);
    if (!n->engine)
        return;
    for (int i = 0; i < most && threads_run_one(f, NULL); i++)
        close_dead_nodes(f);
    if (n->engine && n->driver != DRIVER_NONE && !n->stopped && !f->calm &&
        chance_of(&f->chance, f->odds.stop))
        stop(n);
}

void drivers_settle(fleet *f)
{
    int slices = 0;
    while (slices < SETTLE_MAX && threads_run_one(f, NULL)) {
        close_dead_nodes(f);
        slices++;
    }
    if (slices == SETTLE_MAX)
        fleet_wrong(f, "threads go on for ever, and no time passes");
    for (int i = 0; i < f->odds.nodes; i++)
        if (f->nodes[i].driver == DRIVER_SERVE)
            f->nodes[i].began_ns = f->mono_ns;
    liveness_of_queues(f);
}

void drivers_halt(fleet_node *n)
{
    fleet *f = n->fleet;
    if (n->driver == DRIVER_NONE)
        return;
    stop(n);
    while (n->driver != DRIVER_NONE)
        if (!threads_run_one(f, NULL))
            fleet_pass(f, threads_next_ns());
}
