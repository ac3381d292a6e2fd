/* What must go on, whatever else is in trouble: the liveness that docs/guarantees.md promises, over
 * virtual time.
 *
 * Time counts here only as far as no node was late: a thread that wanted to go on did, and a polled
 * node was polled in time. Where the simulator lets hours pass at once, what was due meanwhile is
 * not late. So the bounds are those of an idle machine, and need no slack for a busy one.
 *
 * While faults go on (a storm), only nodes count that serve and are sound: up, not being stopped,
 * with all work functions, and not taken for dead. As long as one of them is sound, and no node has
 * met a fault, the same bounds hold; each fault lets all of them begin anew. */
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
    RECENT_MS = 60000,      /* … if it was so not long ago */
    QUARANTINED_MS = 90000, /* three processes have died of it, perhaps: it is let out alone */
    ALONE_CLAIMS = 4,       /* … as its row says then */
    PROBE_MS = 2500,
    STORM_PROBES = LIVENESS_PROBES / 2,
    ORPHAN_MS = 5000, /* a workflow that no node has is waited for, for two seconds */
    CANCEL_MS = 3500
};

/* ---- Time ---- */

static int64_t earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* When a polled node wants to be polled. */
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

/* A thread begins to serve, and waits first for functions that a stop has left. */
static int is_beginning(const fleet *f)
{
    for (int i = 0; i < f->odds.nodes; i++) {
        const fleet_node *n = &f->nodes[i];
        if (n->engine && n->driver == DRIVER_SERVE && handle_node(n->engine) == 0)
            return 1;
    }
    return 0;
}

/* In a storm it is unknown when a polled node will be polled. */
static int64_t counted_ms(const fleet *f)
{
    return (f->calm ? f->awake_ns : f->served_ns) / MS_NS;
}

/* A bound begins anew with everything that may be a reason for waiting. */
static void begin_anew(fleet *f)
{
    f->due_count = 0;
    for (int i = 0; i < f->odds.runs; i++)
        f->all[i].seen_rows = -1;
    for (int i = 0; i < f->probe_count; i++)
        f->probes_ms[i] = f->probes_ms[i] < 0 ? -1 : counted_ms(f);
}

/* Where heartbeats are rows, a node that was late begins nothing before it has sent one, and judges
 * no other for a while after that. Then what it lets wait has a reason. */
static int was_late(const fleet *f, int64_t late_ns)
{
    return (f->odds.server || f->odds.memory) && late_ns > FLEET_CLAIM_MS / 2 * MS_NS;
}

void liveness_rest(fleet *f, int64_t ms)
{
    int64_t until = f->mono_ns + ms * MS_NS, threads = threads_next_ns();
    int64_t served = earlier(until, threads) - f->mono_ns;
    int64_t awake = earlier(f->mono_ns + served, f->calm ? polled_ns(f) : 0) - f->mono_ns;
    f->served_ns += served > 0 ? served : 0;
    f->awake_ns += awake > 0 && !is_beginning(f) ? awake : 0;
    int late = was_late(f, until - f->mono_ns - (f->calm ? awake : served));
    fleet_move(f, ms);
    if (late)
        begin_anew(f);
}

/* ---- Storms ---- */

static int is_sound(fleet *f, const fleet_node *n)
{
    int64_t id = n->engine && n->driver == DRIVER_SERVE ? handle_node(n->engine) : 0;
    return id != 0 && !n->stopped && n->stops == 0 && !n->silent && !n->lacks && !n->plan.dead &&
           fleet_is_open(f, id);
}

static void see_nodes(fleet *f)
{
    for (int i = 0; i < f->odds.nodes; i++) {
        fleet_node *n = &f->nodes[i];
        if (!is_sound(f, n))
            n->sound_ms = -1;
        else if (n->sound_ms < 0 || n->sound_begun != n->begun)
            n->sound_ms = counted_ms(f);
        n->sound_begun = n->begun;
    }
    if (f->hits == f->storm_hits)
        return;
    f->storm_hits = f->hits;
    f->storm_ms = counted_ms(f);
    begin_anew(f);
}

/* Since when a node can see to a run of this owner; INT64_MAX: none can. Any node sees to one that
 * no live node owns: `owner` 0. */
static int64_t sound_since(const fleet *f, int64_t owner)
{
    int64_t since = f->calm ? 0 : INT64_MAX;
    for (int i = 0; i < f->odds.nodes && !f->calm; i++) {
        const fleet_node *n = &f->nodes[i];
        if (n->sound_ms >= 0 && (owner == 0 || handle_node(n->engine) == owner))
            since = earlier(since, n->sound_ms);
    }
    return since;
}

/* For how long a node could have seen to it. */
static int64_t waited_ms(const fleet *f, int64_t since_ms, int64_t owner)
{
    int64_t sound = sound_since(f, owner), from = sound > since_ms ? sound : since_ms;
    return from == INT64_MAX ? 0 : counted_ms(f) - from;
}

/* Storage that has failed is asked again later. */
static int64_t patience_of(const fleet *f, int64_t ms)
{
    int64_t trouble = f->calm ? 0 : f->storm_ms;
    return f->hits > 0 && counted_ms(f) - trouble < RECENT_MS ? TROUBLE_MS : ms;
}

/* ---- Handed in means committed ---- */

/* All threads wait. An engine that has some must not have anything in its queues then, unless the
 * storage has failed and it is not time yet to ask again. */
void liveness_of_queues(fleet *f)
{
    for (int i = 0; i < f->odds.nodes; i++) {
        fleet_node *n = &f->nodes[i];
        int has =
            n->engine && n->threads > 0 && !n->plan.dead &&
            committers_next_ns(sched_options_of(handle_sched(n->engine))->committers) <= f->mono_ns;
        if (!has)
            n->queued_ns = -1;
        else if (n->queued_ns < 0)
            n->queued_ns = f->served_ns;
        else if (f->served_ns - n->queued_ns > QUEUE_MS * MS_NS)
            fleet_wrong(f, "node %d does not commit what was handed in", n->index);
    }
}

/* ---- Due means driven ---- */

static int is_among(const liveness_due *list, int count, liveness_due d)
{
    for (int i = 0; i < count; i++)
        if (list[i].key == d.key && list[i].fence == d.fence)
            return i + 1;
    return 0;
}

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
                          .since_ms = counted_ms(f)};
        int before = is_among(f->due, f->due_count, d);
        if (before)
            d.since_ms = f->due[before - 1].since_ms;
        if (waited_ms(f, d.since_ms, 0) > (f->calm ? CLAIM_MS : patience_of(f, CLAIM_MS)))
            fleet_wrong(f, "%s is due, and no node claims it",
                        (const char *)sqlite3_column_text(s, 2));
        found[count++] = d;
    }
    sqlite3_reset(s);
    for (int i = 0; i < f->due_count && !f->calm; i++)
        if (!is_among(found, count, f->due[i]))
            fleet_count(f, TALLY_STORM_DUE);
    memcpy(f->due, found, sizeof *found * (size_t)count);
    f->due_count = count;
}

/* Of a program that is owned: how long may it stand still? */
static int64_t patience_ms(const fleet *f, const fleet_run *run)
{
    return watch_is_quarantined(f, run) ? QUARANTINED_MS : patience_of(f, DRIVE_MS);
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
        run->seen_ms = counted_ms(f);
    } else if ((f->calm || r.owner != 0) &&
               waited_ms(f, run->seen_ms, r.owner) > patience_ms(f, run)) {
        fleet_wrong(f, "%s is due, and stands still in the hands of node %" PRId64, run->id,
                    r.owner);
    }
}

/* ---- Trouble stays where it is ---- */

static watch_row row_of(fleet *f, const char *id)
{
    fleet_run one = {.key = 0};
    snprintf(one.id, sizeof one.id, "%s", id);
    watch_row r = watch_read(f, &one);
    sqlite3_reset(f->runs);
    return r;
}

static int64_t patience_with_probe(const fleet *f, const watch_row *r)
{
    if (r->claims >= ALONE_CLAIMS)
        return QUARANTINED_MS;
    int64_t silence = r->owner != 0 && !fleet_has_node(f, r->owner) ? FLEET_CLAIM_MS : 0;
    return silence + (f->calm ? PROBE_MS : patience_of(f, PROBE_MS));
}

/* A fresh run that does nothing has ended at once, whatever other runs do. In a storm it may be in
 * the hands of a node that is not polled: then it has not been waiting. */
static void see_probes(fleet *f)
{
    for (int i = 0; i < f->probe_count; i++) {
        char id[32];
        snprintf(id, sizeof id, "probe-%d", i);
        if (f->probes_ms[i] < 0)
            continue;
        watch_row r = row_of(f, id);
        int64_t owner = fleet_is_open(f, r.owner) ? r.owner : 0;
        if (r.found && r.phase == 1)
            f->probes_ms[i] = -1;
        else if (sound_since(f, owner) == INT64_MAX)
            f->probes_ms[i] = counted_ms(f);
        else if (waited_ms(f, f->probes_ms[i], owner) > patience_with_probe(f, &r))
            fleet_wrong(f, "%s does nothing and is not done", id);
    }
}

void liveness_probe(fleet *f, fleet_node *n)
{
    char id[32];
    if (f->probe_count == (f->calm ? LIVENESS_PROBES : STORM_PROBES) || !chance_of(&f->chance, 100))
        return;
    snprintf(id, sizeof id, "probe-%d", f->probe_count);
    int64_t hits = affairs_begin(n);
    pawl_code rc = pawl_start(n->engine, "probe", id, "null", NULL);
    fleet_tell(f, "node %d starts %s: %d", n->index, id, (int)rc);
    if (!affairs_end(n, hits, rc) && rc != PAWL_OK)
        fleet_wrong(f, "%s cannot be started: %d", id, (int)rc);
    if (rc != PAWL_OK)
        return;
    fleet_count(f, f->calm ? TALLY_PROBES : TALLY_STORM_PROBES);
    f->probes_ms[f->probe_count++] = counted_ms(f);
}

void liveness_look(fleet *f)
{
    see_unclaimed(f);
    for (int i = 0; i < f->odds.runs; i++)
        if (!f->all[i].ended && !f->all[i].is_dialog)
            see_standstill(f, &f->all[i]);
    see_probes(f);
}

/* Whose run was stolen does not know, and does not claim what it has. */
void liveness_storm(fleet *f, fleet_node *n)
{
    see_nodes(f);
    if (f->odds.steal)
        return;
    liveness_look(f);
    if (n->sound_ms >= 0)
        liveness_probe(f, n);
}

void liveness_calm(fleet *f)
{
    f->calm = 1;
    begin_anew(f);
}

/* ---- A node that has nothing to do ---- */

int liveness_orphan(fleet *f, fleet_node *n)
{
    watch_row r = row_of(f, "orphan");
    int64_t held = r.held, phase = r.found ? r.phase : -1;
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
        f->orphan_ms = counted_ms(f);
        return 1;
    }
    int64_t most = f->orphan_cancelled ? CANCEL_MS : ORPHAN_MS;
    if (phase == 0 && counted_ms(f) - f->orphan_ms > most)
        fleet_wrong(f, "no node has the workflow of the orphan, which is not %s",
                    f->orphan_cancelled ? "cancelled" : "held");
    return phase == 0 && !f->wrong[0];
}
