/* What must go on, whatever else is in trouble: the liveness that docs/guarantees.md promises, over
 * virtual time.
 *
 * Time counts here only as far as nobody has overslept: a thread that wanted to go on did, and
 * whoever is polled was asked in time. Where the simulator lets hours pass at once, what was due
 * meanwhile is not late. So the bounds are those of an idle machine, and need no slack for a busy
 * one. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fleet.h"
#include "handle/handle.h"
#include "sched/sched.h"
#include "threads.h"

static const int64_t MS_NS = 1000000;

/* A look takes place once a second. What others' trouble may cost is a second too. */
enum {
    QUEUE_MS = 1500,
    CLAIM_MS = 2500,
    DRIVE_MS = 2500,
    TROUBLE_MS =
        35000, /* the storage was away: runs ask for it more and more seldom, until then … */
    RECENT_MS = 60000,  /* … if it was so not long ago */
    SUSPECT_MS = 90000, /* three processes have died of it, perhaps: it is let out alone */
    PROBE_MS = 2500,
    ORPHAN_MS = 5000, /* a workflow that nobody has is waited for, for two seconds */
    CANCEL_MS = 3500
};

/* ---- Time ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When somebody who is polled wants to be. */
static int64_t polled_ns(const fleet *f)
{
    int64_t next = INT64_MAX;
    for (int i = 0; i < f->odds.nodes; i++) {
        const fleet_node *n = &f->nodes[i];
        int64_t ms = n->engine && n->driver == DRIVER_NONE ? pawl_timeout(n->engine) : -1;
        if (ms >= 0)
            next = earlier(next, f->mono_ns + ms * MS_NS);
    }
    return next;
}

/* Somebody begins to serve, and waits first for functions that a stop has left. */
static int is_beginning(const fleet *f)
{
    for (int i = 0; i < f->odds.nodes; i++) {
        const fleet_node *n = &f->nodes[i];
        if (n->engine && n->driver == DRIVER_SERVE && handle_node(n->engine) == 0)
            return 1;
    }
    return 0;
}

void liveness_rest(fleet *f, int64_t ms)
{
    int64_t until = f->mono_ns + ms * MS_NS, threads = threads_next_ns();
    int64_t honest = earlier(until, threads) - f->mono_ns;
    f->served_ns += honest > 0 ? honest : 0;
    honest = earlier(f->mono_ns + honest, f->calm ? polled_ns(f) : 0) - f->mono_ns;
    f->awake_ns += honest > 0 && !is_beginning(f) ? honest : 0;
    fleet_move(f, ms);
}

static int64_t awake_ms(const fleet *f)
{
    return f->awake_ns / MS_NS;
}

/* ---- Handed in means committed ---- */

/* All threads wait. An engine that has some must not have anything in its queues then, unless the
 * storage has failed and it is not time yet to ask again. */
void liveness_of_queues(fleet *f)
{
    for (int i = 0; i < f->odds.nodes; i++) {
        fleet_node *n = &f->nodes[i];
        int has = n->engine && n->threads > 0 && !n->plan.dead &&
                  committers_next_ns(handle_sched(n->engine)->options.committers) <= f->mono_ns;
        if (!has)
            n->queued_ns = -1;
        else if (n->queued_ns < 0)
            n->queued_ns = f->served_ns;
        else if (f->served_ns - n->queued_ns > QUEUE_MS * MS_NS)
            fleet_wrong(f, "node %d does not commit what was handed in", n->index);
    }
}

/* ---- Due means driven ---- */

/* Rows of runs that are due and that no live node owns. */
static void see_unclaimed(fleet *f)
{
    sqlite3_stmt *s = f->unclaimed;
    liveness_due found[LIVENESS_DUE];
    int count = 0;
    sqlite3_reset(s);
    sqlite3_bind_int64(s, 1, fleet_time(f));
    while (count < LIVENESS_DUE && sqlite3_step(s) == SQLITE_ROW) {
        liveness_due d = {.key = sqlite3_column_int64(s, 0),
                          .fence = sqlite3_column_int64(s, 1),
                          .since_ms = awake_ms(f)};
        for (int i = 0; i < f->due_count; i++)
            if (f->due[i].key == d.key && f->due[i].fence == d.fence)
                d.since_ms = f->due[i].since_ms;
        if (awake_ms(f) - d.since_ms > CLAIM_MS)
            fleet_wrong(f, "%s is due, and no node claims it",
                        (const char *)sqlite3_column_text(s, 2));
        found[count++] = d;
    }
    sqlite3_reset(s);
    memcpy(f->due, found, sizeof *found * (size_t)count);
    f->due_count = count;
}

/* Of a program that is owned: how long may it stand still? */
static int64_t patience_ms(const fleet *f, const fleet_run *run)
{
    if (watch_is_suspect(f, run))
        return SUSPECT_MS;
    return awake_ms(f) < RECENT_MS && f->hits > 0 ? TROUBLE_MS : DRIVE_MS;
}

static void see_standstill(fleet *f, fleet_run *run)
{
    watch_row r = watch_read(f, run);
    sqlite3_reset(f->runs);
    int due = r.found && r.phase == 0 && !r.held && r.wakes && r.wake_ms <= fleet_time(f);
    int64_t rows = due ? watch_rows(f, r.key) : 0;
    if (!due || run->inside > 0 || run->mailed || rows != run->seen_rows ||
        r.fence != run->seen_fence || r.wake_ms != run->seen_wake_ms) {
        run->seen_rows = rows;
        run->seen_fence = r.fence;
        run->seen_wake_ms = r.wake_ms;
        run->seen_awake_ms = awake_ms(f);
    } else if (awake_ms(f) - run->seen_awake_ms > patience_ms(f, run)) {
        fleet_wrong(f, "%s is due, and stands still in the hands of node %" PRId64, run->id,
                    r.owner);
    }
}

/* ---- Trouble stays where it is ---- */

static int64_t phase_of(fleet *f, const char *id, int64_t *held)
{
    fleet_run one = {.key = 0};
    snprintf(one.id, sizeof one.id, "%s", id);
    watch_row r = watch_read(f, &one);
    sqlite3_reset(f->runs);
    *held = r.held;
    return r.found ? r.phase : -1;
}

/* A fresh run that does nothing has ended at once, whatever others are at. */
static void see_probes(fleet *f)
{
    int64_t held;
    for (int i = 0; i < f->probe_count; i++) {
        char id[32];
        snprintf(id, sizeof id, "probe-%d", i);
        if (f->probes_ms[i] < 0)
            continue;
        if (phase_of(f, id, &held) == 1)
            f->probes_ms[i] = -1;
        else if (awake_ms(f) - f->probes_ms[i] > PROBE_MS)
            fleet_wrong(f, "%s does nothing and is not done", id);
    }
}

void liveness_probe(fleet *f, fleet_node *n)
{
    char id[32];
    if (f->probe_count == LIVENESS_PROBES || !chance_of(&f->chance, 100))
        return;
    snprintf(id, sizeof id, "probe-%d", f->probe_count);
    int64_t hits = affairs_begin(n);
    pawl_code rc = pawl_start(n->engine, "probe", id, "null", NULL);
    fleet_tell(f, "node %d starts %s: %d", n->index, id, (int)rc);
    if (!affairs_end(n, hits, rc) && rc != PAWL_OK)
        fleet_wrong(f, "%s cannot be started: %d", id, (int)rc);
    if (rc != PAWL_OK)
        return;
    fleet_count(f, TALLY_PROBES);
    f->probes_ms[f->probe_count++] = awake_ms(f);
}

void liveness_look(fleet *f)
{
    see_unclaimed(f);
    for (int i = 0; i < f->odds.runs; i++)
        if (!f->all[i].ended && !f->all[i].talks)
            see_standstill(f, &f->all[i]);
    see_probes(f);
}

/* ---- A node that has nothing to do ---- */

int liveness_orphan(fleet *f, fleet_node *n)
{
    int64_t held, phase = phase_of(f, "orphan", &held);
    int64_t hits = affairs_begin(n);
    pawl_code rc = PAWL_OK;
    if (phase < 0)
        rc = pawl_start(n->engine, "nowhere", "orphan", "null", NULL);
    else if (phase == 0 && held && !f->orphan_cancelled)
        rc = pawl_cancel(n->engine, "orphan", "nobody has it");
    affairs_end(n, hits, rc);
    if (phase < 0 || (phase == 0 && held && !f->orphan_cancelled)) {
        fleet_tell(f, "node %d %s the orphan: %d", n->index, phase < 0 ? "starts" : "cancels",
                   (int)rc);
        f->orphan_cancelled = phase == 0 && rc == PAWL_OK;
        f->orphan_ms = awake_ms(f);
        return 1;
    }
    int64_t most = f->orphan_cancelled ? CANCEL_MS : ORPHAN_MS;
    if (phase == 0 && awake_ms(f) - f->orphan_ms > most)
        fleet_wrong(f, "nobody has the workflow of the orphan, which is not %s",
                    f->orphan_cancelled ? "cancelled" : "held");
    return phase == 0 && !f->wrong[0];
}
