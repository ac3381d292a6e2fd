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

#include "db/inflight_file.h"
#include "db/world.h"
#include "sched/arrival.h"
#include "sched/claim.h"
#include "sched/unit_retry.h"

enum {
    CLAIMS_MAX = 512,
    LIST_MAX = 256,
    PAGES_MAX = 16, /* in one look; the next one goes on behind them */
    SWEEPS_MAX = 16,
    LOOK_MS_MIN = 20,
    FAMILY_MS = 2000,
};

static const int64_t HEAR_NS = 900000000;

/* A run that is held because its record was refused (6) is held as long as its owner lives, which
 * has the result in its memory; when that is closed the run is due as any other. */
static const db_sql DUE = {
    "SELECT " CLAIM_COLUMNS " FROM {runs} r WHERE r.owner = $1 AND r.wake_at <= $2"
    " AND r.tenant = $3 AND (r.held = 0 OR (r.held = {HELD_RECORD} AND r.owner <> 0))"
    " AND (r.wake_at, r.run) > ($4, $5)"
    " ORDER BY r.wake_at, r.run LIMIT $6",
    "iitiii"};

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

/* What is known of the node that they are taken from. */
typedef struct fate {
    int64_t node; /* 0: they have no owner */
    int resigned;
    inflight_list list;
} fate;

static fate fate_of(sched *d, int64_t id, int resigned)
{
    fate f = {.node = id, .resigned = resigned};
    if (id != 0 && !resigned)
        inflight_read(d->node.file, id, &f.list);
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
    return c->claims < SUSPECT_MARK_FROM;
}

/* Some that are due, and where they end. */
typedef struct due {
    claim *at[LIST_MAX];
    size_t count;
    size_t rows;
    int failed; /* perhaps there are more: they could not be read, or not be claimed */
    int64_t last_ms;
    int64_t last_run;
} due;

static pawl_code read_rows(sched *d, int64_t owner, due *list, error *err)
{
    db_stmt *s;
    const db_value values[] = {
        db_int(owner),         db_int(sched_now_ms(d)), db_text(slice_of(d->options.tenant)),
        db_int(list->last_ms), db_int(list->last_run),  db_int(LIST_MAX)};
    pawl_code rc = db_prepare(d->looks, &DUE, &s, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(s, values, DB_COUNT(values), err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && (step = db_next(s, err)) == DB_ROW) {
        list->rows++;
        list->last_run = db_column(s, 0).i;
        list->last_ms = db_column(s, 7).i;
        /* RULE L2-the-simulator-sees-what-is-due-and-not-claimed */
        claim *c = claim_is_here(d, list->last_run) ? NULL : claim_read(d, s);
        if (c && !claim_is_meant(d, c))
            claim_free(c);
        else if (c)
            list->at[list->count++] = c;
    }
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(s);
    return rc;
}

/* Not every second is soon enough for what becomes due before the next look; but each look costs
 * something, and it may not be for us. */
static void read_next(sched *d)
{
    error err = {0};
    int64_t next = 0, now = sched_now_ms(d), now_ns = d->host->mono_ns(d->host);
    const db_value value = db_int(now);
    int found = 0;
    if (db_number(d->looks, &NEXT, &value, 1, &next, &found, &err) != PAWL_OK || !found ||
        next <= now)
        return;
    int64_t at = clock_deadline(now_ns, next - now < LOOK_MS_MIN ? LOOK_MS_MIN : next - now);
    pthread_mutex_lock(&d->lock);
    if (at < d->keep_at_ns)
        d->keep_at_ns = at;
    pthread_mutex_unlock(&d->lock);
}

/* Is it to be held? A live node may have it and be slow. */
static int is_given_up(sched *d, const claim *c)
{
    return !claim_is_for_us(c) && c->wake_ms <= sched_now_ms(d) - HOLD_DUE_MS &&
           !hold_is_offered(d, d->looks, c->workflow, c->version);
}

/* Neither is registered here; and a node that has one has the other too. */
static int is_alike(const claim *a, const claim *b)
{
    return !claim_is_for_us(a) && !claim_is_for_us(b) && slice_equal(a->workflow, b->workflow) &&
           slice_equal(a->version, b->version);
}

/* What is to be held stays in the list, with what can be claimed. */
static void sort_out(sched *d, due *list)
{
    size_t kept = 0;
    char keeps[LIST_MAX];
    int64_t late_ms = sched_now_ms(d) - HOLD_DUE_MS;
    for (size_t i = 0; i < list->count; i++) { /* those that are due longest come first */
        const claim *c = list->at[i];
        if (i > 0 && is_alike(list->at[i - 1], c))
            keeps[i] = keeps[i - 1] && c->wake_ms <= late_ms;
        else
            keeps[i] = claim_is_for_us(c) || is_given_up(d, c);
    }
    for (size_t i = 0; i < list->count; i++) {
        if (keeps[i])
            list->at[kept++] = list->at[i];
        else
            claim_free(list->at[i]);
    }
    list->count = kept;
}

/* Read what is due; then, without a snapshot, claim it. Gives the number of claims. */
static int64_t claim_page(sched *d, const fate *from, due *list)
{
    int64_t claims = 0;
    error err = {0};
    list->count = list->rows = 0;
    list->failed = 1;
    if (db_begin(d->looks, &err) != PAWL_OK)
        return 0;
    list->failed = read_rows(d, from->node, list, &err) != PAWL_OK;
    sort_out(d, list); /* what was read before that is good */
    if (from->node == 0 && list->rows < LIST_MAX)
        read_next(d);
    db_rollback(d->looks);
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

/* *failed: some could not be read, or not be claimed. */
static int64_t claim_due(sched *d, const fate *from, int *failed)
{
    due list = {.last_ms = INT64_MIN, .last_run = 0};
    int64_t claims = 0;
    if (from->node == 0 && d->due_run) {
        list.last_ms = d->due_ms;
        list.last_run = d->due_run;
    }
    d->due_run = from->node == 0 ? 0 : d->due_run;
    for (int page = 0; page < PAGES_MAX; page++) {
        claims += claim_page(d, from, &list);
        *failed |= list.failed;
        /* RULE B4-what-nobody-has-is-not-in-the-way */
        if (list.rows < LIST_MAX || claims >= LIST_MAX)
            return claims;
    }
    if (from->node == 0) {
        d->due_ms = list.last_ms;
        d->due_run = list.last_run;
    }
    return claims;
}

/* ---- One run only ---- */

static const db_sql ONE = {
    "SELECT " CLAIM_COLUMNS " FROM {runs} r WHERE r.tenant = $1 AND r.id = $2"
    " AND r.phase IN ({LIVE}, {FAILING}) AND (r.wake_at <= $3"
    " OR r.held IN ({HELD_VERSION}, {HELD_MISMATCH}, {HELD_POISON}, {HELD_RECORD}))",
    "tti"};

static claim *read_one(sched *d)
{
    db_stmt *s;
    error err = {0};
    claim *c = NULL;
    const db_value values[] = {db_text(slice_of(d->options.tenant)), db_text(slice_of(d->only)),
                               db_int(sched_now_ms(d))};
    if (db_prepare(d->looks, &ONE, &s, &err) != PAWL_OK)
        return NULL;
    if (db_bind_all(s, values, DB_COUNT(values), &err) == PAWL_OK && db_next(s, &err) == DB_ROW &&
        !claim_is_here(d, db_column(s, 0).i))
        c = claim_read(d, s);
    db_reset(s);
    return c;
}

/* It has no owner, or its owner is closed. */
static int is_free(sched *d, const claim *c, int *resigned)
{
    *resigned = 0;
    return c->found.owner == 0 ||
           (c->found.owner != d->node.id && node_is_closed(d->looks, c->found.owner, resigned));
}

static int64_t claim_one(sched *d)
{
    error err = {0};
    int resigned = 0;
    if (db_begin(d->looks, &err) != PAWL_OK)
        return 0;
    claim *c = read_one(d);
    int given_up = c && c->found.held == 0 && is_given_up(d, c);
    int is_owned = c && !is_free(d, c, &resigned);
    if (!c)
        read_next(d);
    db_rollback(d->looks);
    if (!c)
        return 0;
    int ours = c->found.held ? hold_ends_here(d, c) : claim_is_for_us(c);
    if (is_owned || !(ours || given_up)) {
        claim_free(c);
        return 0;
    }
    if (given_up) {
        claim_hold(c);
        return 1;
    }
    fate from = fate_of(d, c->found.owner, resigned);
    c->found.counted = was_executed(&from, c);
    return claim_submit(c);
}

/* Its children, and theirs, and itself, while they wait for something: no other node wakes them,
 * and they must be in memory here for their own children to be driven. Those that are due are
 * claimed anyway. */
static const db_sql FAMILY = {
    "WITH RECURSIVE family (run) AS (SELECT c.run FROM {runs} c WHERE c.tenant = $1 AND c.id = $2"
    " UNION SELECT c.run FROM {runs} c, family f WHERE c.parent = f.run"
    " AND c.phase IN ({LIVE}, {FAILING}))"
    " SELECT " CLAIM_COLUMNS " FROM family f JOIN {runs} r ON r.run = f.run"
    " WHERE r.owner <> $3 AND r.phase IN ({LIVE}, {FAILING}) AND r.held = 0"
    " AND (r.wake_at IS NULL OR r.claims <> 0) LIMIT $4",
    "ttii"};

static void note_member(sched *d, due *list, db_stmt *s)
{
    claim *c = claim_is_here(d, db_column(s, 0).i) ? NULL : claim_read(d, s);
    if (c && claim_is_for_us(c))
        list->at[list->count++] = c;
    else if (c)
        claim_free(c);
}

static void read_family(sched *d, due *list)
{
    db_stmt *s;
    error err = {0};
    const db_value values[] = {db_text(slice_of(d->options.tenant)), db_text(slice_of(d->only)),
                               db_int(d->node.id), db_int(LIST_MAX)};
    if (db_prepare(d->looks, &FAMILY, &s, &err) != PAWL_OK)
        return;
    if (db_bind_all(s, values, DB_COUNT(values), &err) == PAWL_OK)
        while (list->count < LIST_MAX && db_next(s, &err) == DB_ROW)
            note_member(d, list, s);
    db_reset(s);
}

static int64_t claim_family(sched *d)
{
    due list = {.count = 0};
    error err = {0};
    int64_t claims = 0, submitted = 0, now_ns = d->host->mono_ns(d->host);
    if (now_ns < d->family_ns || db_begin(d->looks, &err) != PAWL_OK)
        return 0;
    d->family_ns = clock_deadline(now_ns, FAMILY_MS);
    read_family(d, &list);
    for (size_t i = 0; i < list.count; i++) {
        claim *c = list.at[i];
        int resigned = 0, is_owned = !is_free(d, c, &resigned);
        fate from = fate_of(d, c->found.owner, resigned);
        c->found.counted = was_executed(&from, c);
        if (is_owned)
            claim_free(c);
        else
            list.at[claims++] = c;
    }
    db_rollback(d->looks);
    for (int64_t i = 0; i < claims; i++)
        submitted += claim_submit(list.at[i]);
    return submitted;
}

/* ---- Nodes ---- */

static void bury(sched *d)
{
    node_list silent = {0};
    error err = {0};
    d->node_ready.inbox_seen = node_find_silent(&d->node, d->looks, &silent, &err);
    if (d->node_ready.inbox_seen != PAWL_OK)
        return;
    committer *k = committers_at(d->options.committers, 0);
    for (size_t i = 0; i < silent.count; i++) {
        if (node_bury(&d->node, k, silent.at[i], &err) == PAWL_OK)
            LOG(&d->log, LOG_WARNING, "node-closed", LOG_NUM("node", silent.at[i]));
    }
}

int node_loop_beat(sched *d)
{
    error err = {0};
    /* On a file the heartbeat's thread notes that the process moves, and does not look further. */
    if (d->heartbeat.runs && !d->node.file)
        return sched_is_open(d);
    inflight_moved(d->quarantine.running, sched_now_ms(d)); /* RULE L6-a-node-notes-that-it-moves */
    pawl_code rc = node_beat(&d->node, d->beats, &err);
    /* RULE L8-an-idle-node-notices */
    if (rc == PAWL_OK && d->looks->driver->prove)
        rc = d->looks->driver->prove(d->looks, &err); /* also while it has nothing to commit */
    if (rc != PAWL_FENCED && rc != PAWL_REWOUND)
        return 1;
    atomic_store(&d->fenced, 1);
    return 0;
}

/* Nothing of closed nodes is due any more. So what they own gets no owner, some pages with each
 * round, and at last nothing is left of them. */
static void sweep(sched *d)
{
    int done = 0;
    error err = {0};
    node_sweep *s = &d->sweep;
    if (s->nodes.count == 0) {
        *s = (node_sweep){0};
        if (node_find_closed(d->looks, &s->nodes, &err) != PAWL_OK)
            s->nodes.count = 0;
    }
    committer *k = committers_at(d->options.committers, 0);
    for (int page = 0; s->nodes.count > 0 && !done && page < SWEEPS_MAX; page++)
        if (node_sweep_page(s, k, d->looks, &done, &err) != PAWL_OK)
            return;
    for (size_t i = 0; done && i < s->nodes.count; i++)
        inflight_remove(d->node.file, s->nodes.at[i]);
    s->nodes.count = done ? 0 : s->nodes.count;
}

/* ---- Looking ---- */

static int is_claiming(sched *d)
{
    pthread_mutex_lock(&d->lock);
    int claiming = d->claiming > 0;
    pthread_mutex_unlock(&d->lock);
    return claiming;
}

/* What dead nodes have left. If this one is among them it does not know that yet: it will. */
static int64_t claim_left(sched *d, int64_t most)
{
    node_list closed = {0};
    error err = {0};
    int64_t taken = 0;
    int failed = 0;
    if (node_find_due(d->looks, sched_now_ms(d), &closed, &err) != PAWL_OK)
        return 0;
    for (size_t i = 0; i < closed.count && taken < most; i++) {
        if (closed.at[i] == d->node.id) {
            atomic_store(&d->fenced, 1);
            return taken;
        }
        fate dead = fate_of(d, closed.at[i], closed.resigned[i]);
        taken += claim_due(d, &dead, &failed);
    }
    /* A run that was in flight is claimed before, or its death would not be counted; and
     * pawl_finish() claims no other runs. */
    if (taken == 0 && !failed && !d->only)
        sweep(d);
    return taken;
}

static int64_t claim_all(sched *d)
{
    fate nobody = {0};
    int failed = 0;
    int64_t did = 0;
    if (d->only)
        did += claim_one(d) + claim_family(d); /* RULE A7-finish-drives-the-whole-family */
    else
        hold_offer(d);
    hold_deadlines(d); /* RULE A7-a-deadline-ends-a-hold */
    did += claim_due(d, &nobody, &failed);
    if (did < CLAIMS_MAX)
        did += claim_left(d, CLAIMS_MAX - did);
    return did + hold_walk_on(d);
}

/* Something may have arrived for runs that sleep here, also without a notification. */
static void hear(sched *d)
{
    int64_t now = d->host->mono_ns(d->host);
    if (!atomic_exchange(&d->inbox_due, 0) && now - d->inbox_at_ns < HEAR_NS)
        return;
    d->inbox_at_ns = now;
    arrival_look(d);
}

int64_t node_loop_look(sched *d)
{
    error err = {0};
    if (!node_loop_beat(d))
        return 0;
    (void)world_look(d->looks, &err); /* RULE L8-a-new-history-is-heard-of */
    bury(d);
    quarantine_unmark(d);
    hold_rest(d);
    unit_retry_look(d); /* RULE L5-a-release-by-others-is-heard */
    hear(d);
    int64_t moved = chores_run(&d->chores, d->looks, d->host);
    /* RULE L3-a-node-without-a-connection-to-read-with-claims-nothing */
    if (!node_ready_look(d) || is_claiming(d))
        return moved;
    /* RULE L5-nothing-is-claimed-while-commits-fail */
    if (unit_retry_waits(d)) /* what cannot be committed is not begun */
        return moved;
    int64_t did = moved + claim_all(d);
    if (did || is_claiming(d)) /* a hold is handed in too, and is no claim */
        committers_leave(d->options.committers);
    return did;
}
