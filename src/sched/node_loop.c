/* The node loop: heartbeats, claims of runs without an owner, takeover from dead nodes.
 *
 * It runs once a second, and when it is called or notified. A due run without an owner, or with one
 * that is closed, is claimed by a unit of its own: of several nodes that try, one gets it. The list
 * is short each time; while claims are on their way it is not read again.
 *
 * Between two rounds a run without an owner may become due: then the next round is at that time.
 *
 * Runs that no node can drive must not block those that can be driven: they are passed over, and
 * held when they have been due for a while, which takes them out of the list. */
#include <string.h>

#include "base/text.h"
#include "db/inflight_file.h"
#include "db/world.h"
#include "sched/arrival.h"
#include "sched/claim.h"
#include "sched/due_page.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"

enum {
    CLAIMS_MAX = 512,
    PAGES_MAX = 16, /* pages that a round reads; the next round goes on behind them */
    SWEEPS_MAX = 16,
    LOOK_MS_MIN = 20,
    FAMILY_MS = 2000,
};

static const int64_t HEAR_NS = 900000000;

/* When the first run becomes due that this node may claim then: one without an owner, or one that a
 * closed node has left and that is not swept up yet. */
static const db_sql NEXT = {
    "SELECT min(next.at) FROM"
    " (SELECT min(wake_at) AS at FROM {runs} WHERE owner = 0 AND wake_at > $1 UNION ALL"
    " SELECT (SELECT min(r.wake_at) FROM {runs} r WHERE r.owner = n.node AND r.wake_at > $1)"
    /* RULE L2-a-sleeper-of-a-closed-node-is-waited-for */
    " FROM {nodes} n WHERE n.closed <> 0 AND n.slot = 1) AS next",
    "i"};

/* ---- What is due ---- */

/* What is known of the node that runs are taken from. */
typedef struct fate {
    int64_t node; /* 0: the runs have no owner */
    int resigned; /* 1: the node has closed itself, so that nothing was being executed */
    inflight_list list;
} fate;

static fate fate_of(sched *s, int64_t id, int resigned)
{
    fate f = {.node = id, .resigned = resigned};
    if (id != 0 && !resigned)
        inflight_read(s->node.file, id, &f.list);
    return f;
}

/* Was the run being executed when its owner died? Where there is no list, that is guessed for the
 * first deaths; from then on the run is marked while it is executed (quarantine.h). */
static int was_executed(const fate *f, const claim *c)
{
    if (f->node == 0 || f->resigned) /* RULE B8-good-order-is-no-death */
        return 0;
    if (f->list.known)
        /* RULE B8-only-what-was-being-executed-is-counted */
        return inflight_has(&f->list, c->found.run);
    return c->claims < QUARANTINE_MARK_FROM;
}

/* Sets the next round to this time, unless it is due earlier. */
static void look_again(sched *s, int64_t at_ns)
{
    sched_lock(s);
    if (at_ns < s->node_loop_ns)
        s->node_loop_ns = at_ns;
    sched_unlock(s);
}

/* A run may become due before the next round, which is a second away: then the round is earlier.
 * But not earlier than LOOK_MS_MIN, since a round has its cost and the run may not be for this
 * node. */
static void read_next(sched *s)
{
    error err = {0};
    int64_t next = 0, now = sched_now_ms(s), now_ns = s->host->mono_ns(s->host);
    const db_value value = db_int(now);
    int found = 0;
    if (db_number(s->looks, &NEXT, &value, 1, &next, &found, &err) != PAWL_OK || !found ||
        next <= now)
        return;
    look_again(s, clock_deadline(now_ns, next - now < LOOK_MS_MIN ? LOOK_MS_MIN : next - now));
}

/* Is the run to be held because no node can drive it? While a live node has its workflow it is not:
 * that node may be slow. */
static int is_given_up(sched *s, const claim *c)
{
    return !claim_is_for_us(c) && c->wake_ms <= sched_now_ms(s) - HOLD_DUE_MS &&
           !hold_is_offered(s, s->looks, c->workflow, c->version);
}

/* 1: this node can drive neither of the two, and both have the same workflow and version, so that a
 * node that can drive one can drive the other. */
static int is_alike(const claim *a, const claim *b)
{
    return !claim_is_for_us(a) && !claim_is_for_us(b) && slice_equal(a->workflow, b->workflow) &&
           slice_equal(a->version, b->version);
}

/* Keeps in the list only the runs that this node can drive, and those that are to be held. */
static void sort_out(sched *s, due_page *list)
{
    size_t kept = 0;
    char keeps[ROW_READS_PAGE];
    int64_t late_ms = sched_now_ms(s) - HOLD_DUE_MS;
    for (size_t i = 0; i < list->count; i++) { /* the runs that are due longest come first */
        const claim *c = list->at[i];
        if (i > 0 && is_alike(list->at[i - 1], c))
            keeps[i] = keeps[i - 1] && c->wake_ms <= late_ms;
        else
            keeps[i] = claim_is_for_us(c) || is_given_up(s, c);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (keeps[i])
            list->at[kept++] = list->at[i];
        else
            claim_free(list->at[i]);
    }
    list->count = kept;
}

/* Reads a page of due runs and then, when the snapshot has ended, claims them. Gives the number of
 * claims. */
static int64_t claim_page(sched *s, const fate *from, due_page *list)
{
    int64_t claims = 0;
    error err = {0};
    look_kind what = from->node ? LOOK_LEFT : LOOK_DUE;
    list->count = list->rows = 0;
    list->backs_off = list->starves = 0;
    list->failed = 1;
    if (db_begin(s->looks, &err) != PAWL_OK) {
        look_failure_note(s, what, &err);
        return 0;
    }
    pawl_code rc = due_page_read(s, from->node, list, &err);
    list->failed = rc != PAWL_OK || list->backs_off || list->starves;
    sort_out(s, list); /* rows that were read before an error are good */
    if (from->node == 0 && list->rows < ROW_READS_PAGE)
        read_next(s);
    db_rollback(s->looks);
    if (rc == PAWL_OK)
        look_failure_end(s, what);
    else
        look_failure_note(s, what, &err);
    for (size_t i = 0; i < list->count; i++) {
        claim *c = list->at[i];
        if (!claim_is_for_us(c)) {
            claim_hold(c);
            continue;
        }
        c->found.counted = was_executed(from, c);
        int is_on_its_way = claim_submit(c);
        claims += is_on_its_way;
        list->failed |= !is_on_its_way;
    }
    return claims;
}

/* Where a look at the runs without an owner begins: behind the last one, if that has ended in the
 * middle of a long list; otherwise at a page that is chosen. Gives 1 for a chosen page, which is
 * not the first. */
static int begin_unowned(sched *s, due_page *list)
{
    int64_t run = s->due_run;
    s->due_run = 0;
    if (run == 0)
        return due_spread_begin(s, &list->last_ms, &list->last_run);
    list->last_ms = s->due_ms;
    list->last_run = run;
    return 0;
}

/* Claims the due runs of one owner. *failed: some runs could not be read, or not be claimed. */
static int64_t claim_due(sched *s, const fate *from, int *failed)
{
    due_page list = {.last_ms = INT64_MIN, .last_run = 0};
    int64_t claims = 0;
    int is_unowned = from->node == 0;
    int left_out = is_unowned && begin_unowned(s, &list);
    for (int page = 0; page < PAGES_MAX; page++) {
        claims += claim_page(s, from, &list);
        *failed |= list.failed;
        int is_end = list.rows < ROW_READS_PAGE;
        /* RULE L2-what-a-chosen-page-does-not-have-is-looked-for-before-it */
        if (is_end && left_out && claims == 0) {
            list.last_ms = INT64_MIN;
            list.last_run = left_out = 0;
            continue;
        }
        /* RULE B4-a-workflow-that-no-node-has-is-not-in-the-way */
        if (is_end || claims >= ROW_READS_PAGE) {
            if (is_unowned)
                due_spread_end(s, list.rows, left_out);
            return claims;
        }
    }
    if (is_unowned) {
        s->due_ms = list.last_ms;
        s->due_run = list.last_run;
    }
    return claims;
}

/* ---- One run only ---- */

static const db_sql ONE = {
    "SELECT " CLAIM_COLUMNS " FROM {runs} r WHERE r.tenant = $1 AND r.id = $2"
    " AND r.phase IN ({LIVE}, {FAILING}) AND (r.wake_at <= $3"
    " OR r.held IN ({HELD_VERSION}, {HELD_MISMATCH}, {HELD_POISON}, {HELD_RECORD}))",
    "tti"};

/* Reads the row of the run. *out NULL: it does not exist, or is not to be claimed. */
static pawl_code read_one(sched *s, claim **out, error *err)
{
    db_stmt *stmt;
    const db_value values[] = {db_text(slice_of(s->options.tenant)), db_text(slice_of(s->only)),
                               db_int(sched_now_ms(s))};
    *out = NULL;
    pawl_code rc = db_prepare(s->looks, &ONE, &stmt, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(stmt, values, DB_COUNT(values), err);
    db_step step = rc == PAWL_OK ? db_next(stmt, err) : DB_DONE;
    if (step == DB_FAILED)
        rc = err->code;
    else if (step == DB_ROW && !claim_waits(s, db_column(stmt, 0).i))
        *out = claim_read(s, stmt);
    db_reset(stmt);
    return rc;
}

/* Has the run no owner, or one that is closed? */
static int is_free(sched *s, const claim *c, int *resigned)
{
    *resigned = 0;
    return c->found.owner == 0 ||
           (c->found.owner != s->node.id && node_is_closed(s->looks, c->found.owner, resigned));
}

static int64_t claim_one(sched *s)
{
    error err = {0};
    int resigned = 0;
    claim *c = NULL;
    pawl_code rc = db_begin(s->looks, &err), read = rc == PAWL_OK ? read_one(s, &c, &err) : rc;
    look_failure_result(s, LOOK_ONE, read, &err); /* RULE L6-a-finish-that-cannot-read-is-told */
    if (rc != PAWL_OK)
        return 0;
    int given_up = c && c->found.held == 0 && is_given_up(s, c);
    int is_owned = c && !is_free(s, c, &resigned);
    if (!c)
        read_next(s);
    db_rollback(s->looks);
    if (!c)
        return 0;
    int ours = c->found.held ? hold_ends_here(s, c) : claim_is_for_us(c);
    if (is_owned || !(ours || given_up)) {
        claim_free(c);
        return 0;
    }
    if (given_up) {
        claim_hold(c);
        return 1;
    }
    fate from = fate_of(s, c->found.owner, resigned);
    c->found.counted = was_executed(&from, c);
    return claim_submit(c);
}

/* The keys of a run and of its live descendants. */
#define FAMILY_KEYS                                                                                \
    "WITH RECURSIVE family (run) AS (SELECT c.run FROM {runs} c WHERE c.tenant = $1 AND c.id = $2" \
    " UNION SELECT c.run FROM {runs} c, family f WHERE c.parent = f.run"                           \
    " AND c.phase IN ({LIVE}, {FAILING}))"

/* Members of the family of pawl_finish() that have no live owner and wait for something: they are
 * not due, so that claim_due() does not find them. This node claims them nevertheless, since what
 * they wait for is done in this process, and the end of a child has to reach its parent here. */
static const db_sql FAMILY = {
    FAMILY_KEYS " SELECT " CLAIM_COLUMNS " FROM family f JOIN {runs} r ON r.run = f.run"
                " WHERE r.owner <> $3 AND r.phase IN ({LIVE}, {FAILING}) AND r.held = 0"
                " AND (r.wake_at IS NULL OR r.claims <> 0) LIMIT $4",
    "ttii"};

/* The runs of that family which this node owns: some may be dormant. */
static const db_sql OWN_FAMILY = {FAMILY_KEYS
                                  " SELECT r.run FROM family f JOIN {runs} r ON r.run = f.run"
                                  " WHERE r.owner = $3 AND r.phase IN ({LIVE}, {FAILING})",
                                  "tti"};

static pawl_code call_own_family(sched *s, error *err)
{
    db_stmt *stmt;
    const db_value values[] = {db_text(slice_of(s->options.tenant)), db_text(slice_of(s->only)),
                               db_int(s->node.id)};
    pawl_code rc = db_prepare(s->looks, &OWN_FAMILY, &stmt, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(stmt, values, DB_COUNT(values), err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && (step = db_next(stmt, err)) == DB_ROW) {
        int64_t key = db_column(stmt, 0).i;
        sched_lock(s);
        if (!run_queue_knows(s, key))
            dormant_call(s, key);
        sched_unlock(s);
    }
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(stmt);
    return rc;
}

static void note_member(sched *s, due_page *list, db_stmt *stmt)
{
    claim *c = claim_waits(s, db_column(stmt, 0).i) ? NULL : claim_read(s, stmt);
    if (c && claim_is_for_us(c))
        list->at[list->count++] = c;
    else if (c)
        claim_free(c);
}

static pawl_code read_family(sched *s, due_page *list, error *err)
{
    db_stmt *stmt;
    const db_value values[] = {db_text(slice_of(s->options.tenant)), db_text(slice_of(s->only)),
                               db_int(s->node.id), db_int(ROW_READS_PAGE)};
    pawl_code rc = db_prepare(s->looks, &FAMILY, &stmt, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(stmt, values, DB_COUNT(values), err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && list->count < ROW_READS_PAGE && (step = db_next(stmt, err)) == DB_ROW)
        note_member(s, list, stmt);
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(stmt);
    return rc;
}

static int64_t claim_family(sched *s)
{
    due_page list = {.count = 0};
    error err = {0};
    int64_t claims = 0, submitted = 0, now_ns = s->host->mono_ns(s->host);
    if (now_ns < s->family_ns)
        return 0;
    pawl_code rc = db_begin(s->looks, &err);
    if (rc != PAWL_OK) {
        look_failure_note(s, LOOK_FAMILY, &err);
        return 0;
    }
    s->family_ns = clock_deadline(now_ns, FAMILY_MS);
    rc = read_family(s, &list, &err);
    sched_lock(s);
    int has_dormant = s->dormant.count > 0;
    sched_unlock(s);
    if (rc == PAWL_OK && has_dormant)
        rc = call_own_family(s, &err);
    /* RULE L6-a-finish-that-cannot-read-its-family-is-told */
    look_failure_result(s, LOOK_FAMILY, rc, &err);
    for (size_t i = 0; i < list.count; i++) {
        claim *c = list.at[i];
        int resigned = 0, is_owned = !is_free(s, c, &resigned);
        fate from = fate_of(s, c->found.owner, resigned);
        c->found.counted = was_executed(&from, c);
        if (is_owned)
            claim_free(c);
        else
            list.at[claims++] = c;
    }
    db_rollback(s->looks);
    for (int64_t i = 0; i < claims; i++)
        submitted += claim_submit(list.at[i]);
    return submitted;
}

/* ---- Nodes ---- */

static void close_silent_nodes(sched *s)
{
    node_list silent = {0};
    error err = {0};
    s->node_ready.look_code = node_find_silent(&s->node, s->looks, &silent, &err);
    if (s->node_ready.look_code != PAWL_OK) {
        text_clip(s->node_ready.look_why, sizeof s->node_ready.look_why,
                  slice_of(err.detail[0] ? err.detail : err.message));
        return;
    }
    committer *k = committers_at(s->options.committers, 0);
    for (size_t i = 0; i < silent.count; i++) {
        if (node_close_silent(&s->node, k, silent.at[i], &err) == PAWL_OK)
            LOG(&s->log, LOG_WARNING, "node-closed", LOG_NUM("node", silent.at[i]));
    }
}

/* Closes nodes that have died, as their locks say. If some may have, the next round is when that
 * can be known. */
static void close_dead_nodes(sched *s)
{
    error err = {0};
    sign_looks *l = &s->sign_looks;
    if (!heartbeat_judges(s)) {
        *l = (sign_looks){0};
        return;
    }
    if (node_sign_look(l, &s->node, s->looks, s->host->mono_ns(s->host), &err) != PAWL_OK)
        return;
    committer *k = committers_at(s->options.committers, 0);
    for (size_t i = 0; i < l->count; i++) {
        if (l->at[i].dead && node_sign_close(&l->at[i], k, &err) == PAWL_OK)
            LOG(&s->log, LOG_WARNING, "node-closed", LOG_NUM("node", l->at[i].node),
                LOG_TEXT("so", "its session has ended"));
    }
    if (l->count > 0)
        look_again(s, l->next_ns);
}

int node_loop_beat(sched *s)
{
    error err = {0};
    /* If the heartbeat is a byte lock, the thread writes no row: it only notes that the process
     * moves, and a rewind has to be looked for here. */
    if (s->heartbeat.runs && !s->node.file)
        return sched_is_open(s);
    inflight_moved(s->quarantine.running, sched_now_ms(s)); /* RULE L6-a-node-notes-that-it-moves */
    pawl_code rc = node_beat(&s->node, s->beats, &err);
    /* RULE L8-an-idle-node-notices */
    if (rc == PAWL_OK && s->looks->driver->prove)
        rc = s->looks->driver->prove(s->looks, &err); /* PAWL_REWOUND: the database was restored to
                                                         an older state. A node that commits nothing
                                                         notices that only here */
    if (rc != PAWL_FENCED && rc != PAWL_REWOUND)
        return 1;
    atomic_store(&s->fenced, 1);
    return 0;
}

/* Called when no run of closed nodes is due any more. The other runs that they own get no owner,
 * some pages with each round, and at last nothing is left of these nodes. */
static void sweep_closed(sched *s)
{
    int done = 0;
    error err = {0};
    node_sweep *w = &s->sweep;
    if (w->nodes.count == 0) {
        *w = (node_sweep){0};
        if (node_find_closed(s->looks, &w->nodes, &err) != PAWL_OK)
            w->nodes.count = 0;
    }
    committer *k = committers_at(s->options.committers, 0);
    for (int page = 0; w->nodes.count > 0 && !done && page < SWEEPS_MAX; page++)
        if (node_sweep_page(w, k, s->looks, &done, &err) != PAWL_OK)
            return;
    for (size_t i = 0; done && i < w->nodes.count; i++)
        inflight_remove(s->node.file, w->nodes.at[i]);
    w->nodes.count = done ? 0 : w->nodes.count;
}

/* ---- Looking ---- */

static int is_claiming(sched *s)
{
    sched_lock(s);
    int claiming = s->claiming > 0;
    sched_unlock(s);
    return claiming;
}

/* Claims runs of closed nodes that are due. If this node is among the closed ones, it learns that
 * here. */
static int64_t claim_left(sched *s, int64_t most)
{
    node_list closed = {0};
    error err = {0};
    int64_t taken = 0;
    int failed = 0;
    if (node_find_due(s->looks, sched_now_ms(s), &closed, &err) != PAWL_OK)
        return 0;
    for (size_t i = 0; i < closed.count && taken < most; i++) {
        if (closed.at[i] == s->node.id) {
            atomic_store(&s->fenced, 1);
            return taken;
        }
        fate dead = fate_of(s, closed.at[i], closed.resigned[i]);
        taken += claim_due(s, &dead, &failed);
    }
    /* A run that was in flight is claimed before, or its death would not be counted; and
     * pawl_finish() claims no other runs. */
    if (taken == 0 && !failed && !s->only)
        sweep_closed(s);
    return taken;
}

/* A node claims only what it can execute soon: other nodes may have less to do. */
static int may_claim(sched *s)
{
    sched_lock(s);
    int may = run_queue_may_claim(s);
    sched_unlock(s);
    return may;
}

static int64_t claim_all(sched *s)
{
    fate no_fate = {0};
    int failed = 0;
    int64_t did = 0;
    if (s->only)
        did += claim_one(s) + claim_family(s); /* RULE A7-finish-drives-the-whole-family */
    else
        hold_offer(s);
    hold_deadlines(s); /* RULE A7-a-deadline-ends-a-hold */
    if (!s->only && !may_claim(s))
        return did + hold_walk_on(s);
    did += claim_due(s, &no_fate, &failed);
    if (did < CLAIMS_MAX)
        did += claim_left(s, CLAIMS_MAX - did);
    return did + hold_walk_on(s);
}

/* Looks for arrivals for sleeping runs of this node, in case a notification was lost. */
static void hear_arrivals(sched *s)
{
    int64_t now = s->host->mono_ns(s->host);
    if (!atomic_exchange(&s->inbox_due, 0) && now - s->inbox_at_ns < HEAR_NS)
        return;
    s->inbox_at_ns = now;
    arrival_look(s);
}

int64_t node_loop_look(sched *s)
{
    error err = {0};
    if (!node_loop_beat(s))
        return 0;
    (void)world_look(s->looks, &err); /* RULE L8-a-new-history-is-heard-of */
    close_silent_nodes(s);
    close_dead_nodes(s);
    quarantine_unmark(s);
    hold_rest(s);
    unit_retry_look(s); /* RULE L5-a-release-by-others-is-heard */
    hear_arrivals(s);
    int64_t moved = chores_run(&s->chores, s->looks, s->host);
    /* RULE L3-a-node-without-a-connection-to-read-with-claims-nothing */
    if (!node_ready_look(s) || is_claiming(s))
        return moved;
    /* RULE L5-nothing-is-claimed-while-commits-fail */
    if (unit_retry_waits(s))
        return moved;
    int64_t did = moved + claim_all(s);
    atomic_fetch_add(&s->looks_made, 1);
    if (did || is_claiming(s)) /* `did` does not count the units that hold runs, which were
                                  submitted too */
        committers_leave(s->options.committers);
    return did;
}
