/* The keeper: signs of life, and the runs that nobody drives.
 *
 * It looks once a second, and when somebody calls. A run that is due and belongs to nobody, or to a
 * node that is closed, is claimed by a unit of its own: of several nodes that try, one gets it. The
 * list is short each time; while claims are on their way it is not asked again.
 *
 * Between two looks something may become due that nobody has: then the next look is at that moment.
 *
 * What nobody can drive must not stand before what can be driven: such runs are passed over, and
 * held when they have been due for a while, which takes them out of the list. */
#include <string.h>

#include "core/changes.h"
#include "core/claim.h"
#include "core/mail.h"
#include "core/outbox.h"
#include "core/running.h"

enum {
    CLAIMS_MAX = 512,
    LIST_MAX = 256,
    PAGES_MAX = 16, /* in one look; the next one goes on behind them */
    SWEEPS_MAX = 16,
    LOOK_MS_MIN = 20,
    FAMILY_MS = 2000,
};

static const int64_t HEAR_NS = 900000000;

static const db_sql DUE = {"SELECT " CLAIM_COLUMNS
                           " FROM {runs} r WHERE r.owner = $1 AND r.wake_at <= $2"
                           " AND r.tenant = $3 AND r.held = 0 AND (r.wake_at, r.run) > ($4, $5)"
                           " ORDER BY r.wake_at, r.run LIMIT $6",
                           "iitiii"};

static const db_sql NEXT = {"SELECT min(wake_at) FROM {runs} WHERE owner = 0 AND wake_at > $1",
                            "i"};

/* ---- What is due ---- */

/* What is known of the node that they are taken from. */
typedef struct fate {
    int64_t node; /* 0: they are nobody's */
    int resigned;
    running_list list;
} fate;

static fate fate_of(drive *d, int64_t id, int resigned)
{
    fate f = {.node = id, .resigned = resigned};
    if (id != 0 && !resigned)
        running_read(d->node.file, id, &f.list);
    return f;
}

/* Was the run being executed when its owner died? Where nobody knows, it is suspected once; from
 * then on it is counted when it is let out (suspect.h). */
static int was_executed(const fate *f, const claim *c)
{
    if (f->node == 0 || f->resigned)
        return 0;
    if (f->list.known)
        return running_has(&f->list, c->found.run);
    return c->claims < SUSPECT_GUESSED;
}

/* Some that are due, and where they end. */
typedef struct due {
    claim *at[LIST_MAX];
    size_t count;
    size_t rows;
    int failed; /* perhaps there are more: they could not be read */
    int64_t last_ms;
    int64_t last_run;
} due;

static pawl_code read_rows(drive *d, int64_t owner, due *list, error *err)
{
    db_stmt *s;
    const db_value values[] = {
        db_int(owner),         db_int(drive_now_ms(d)), db_text(slice_of(d->options.tenant)),
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
static void read_next(drive *d)
{
    error err = {0};
    int64_t next = 0, now = drive_now_ms(d), now_ns = d->host->mono_ns(d->host);
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
static int is_given_up(drive *d, const claim *c)
{
    return !claim_is_for_us(c) && c->wake_ms <= drive_now_ms(d) - HOLD_DUE_MS &&
           !hold_is_offered(d, d->looks, c->workflow, c->version);
}

/* Nobody here has either of them, nor would anybody else have only one. */
static int is_alike(const claim *a, const claim *b)
{
    return !claim_is_for_us(a) && !claim_is_for_us(b) && slice_equal(a->workflow, b->workflow) &&
           slice_equal(a->version, b->version);
}

/* What is to be held stays in the list, with what can be claimed. */
static void sort_out(drive *d, due *list)
{
    size_t kept = 0;
    char keeps[LIST_MAX];
    int64_t late_ms = drive_now_ms(d) - HOLD_DUE_MS;
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
static int64_t claim_page(drive *d, const fate *from, due *list)
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
        claims++;
        c->found.counted = was_executed(from, c);
        claim_submit(c);
    }
    return claims;
}

/* *failed: it could not be read. */
static int64_t claim_due(drive *d, const fate *from, int *failed)
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

static const db_sql ONE = {"SELECT " CLAIM_COLUMNS
                           " FROM {runs} r WHERE r.tenant = $1 AND r.id = $2"
                           " AND r.status IN (0, 4) AND (r.wake_at <= $3 OR r.held IN (1, 2, 3))",
                           "tti"};

static claim *read_one(drive *d)
{
    db_stmt *s;
    error err = {0};
    claim *c = NULL;
    const db_value values[] = {db_text(slice_of(d->options.tenant)), db_text(slice_of(d->only)),
                               db_int(drive_now_ms(d))};
    if (db_prepare(d->looks, &ONE, &s, &err) != PAWL_OK)
        return NULL;
    if (db_bind_all(s, values, DB_COUNT(values), &err) == PAWL_OK && db_next(s, &err) == DB_ROW &&
        !claim_is_here(d, db_column(s, 0).i))
        c = claim_read(d, s);
    db_reset(s);
    return c;
}

/* It is nobody's, or the node that owns it is closed. */
static int is_free(drive *d, const claim *c, int *resigned)
{
    *resigned = 0;
    return c->found.owner == 0 ||
           (c->found.owner != d->node.id && node_is_closed(d->looks, c->found.owner, resigned));
}

static int64_t claim_one(drive *d)
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
    claim_submit(c);
    return 1;
}

/* Its children, and theirs, and itself, while they wait for something: nobody else wakes them, and
 * they must be here for theirs to be driven. Those that are due are claimed anyway. */
static const db_sql FAMILY = {
    "WITH RECURSIVE family (run) AS (SELECT c.run FROM {runs} c WHERE c.tenant = $1 AND c.id = $2"
    " UNION SELECT c.run FROM {runs} c, family f WHERE c.parent = f.run"
    " AND c.status IN (0, 4))"
    " SELECT " CLAIM_COLUMNS " FROM family f JOIN {runs} r ON r.run = f.run"
    " WHERE r.owner <> $3 AND r.status IN (0, 4) AND r.held = 0"
    " AND (r.wake_at IS NULL OR r.claims <> 0) LIMIT $4",
    "ttii"};

static void note_member(drive *d, due *list, db_stmt *s)
{
    claim *c = claim_is_here(d, db_column(s, 0).i) ? NULL : claim_read(d, s);
    if (c && claim_is_for_us(c))
        list->at[list->count++] = c;
    else if (c)
        claim_free(c);
}

static void read_family(drive *d, due *list)
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

static int64_t claim_family(drive *d)
{
    due list = {.count = 0};
    error err = {0};
    int64_t claims = 0, now_ns = d->host->mono_ns(d->host);
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
        claim_submit(list.at[i]);
    return claims;
}

/* ---- Nodes ---- */

static void bury(drive *d)
{
    node_list silent = {0};
    error err = {0};
    if (node_find_silent(&d->node, d->looks, &silent, &err) != PAWL_OK)
        return;
    committer *k = committers_at(d->options.committers, 0);
    for (size_t i = 0; i < silent.count; i++) {
        if (node_bury(&d->node, k, silent.at[i], &err) == PAWL_OK)
            LOG(&d->log, LOG_WARNING, "node-closed", LOG_NUM("node", silent.at[i]));
    }
}

int keeper_beat(drive *d)
{
    error err = {0};
    if (node_beat(&d->node, d->beats, &err) != PAWL_FENCED)
        return 1;
    atomic_store(&d->fenced, 1);
    return 0;
}

/* Nothing of closed nodes is due any more. So what they own becomes nobody's, some pages with each
 * look, and at last nothing is left of them. */
static void sweep(drive *d)
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
        running_remove(d->node.file, s->nodes.at[i]);
    s->nodes.count = done ? 0 : s->nodes.count;
}

/* ---- Looking ---- */

static int is_claiming(drive *d)
{
    pthread_mutex_lock(&d->lock);
    int claiming = d->claiming > 0;
    pthread_mutex_unlock(&d->lock);
    return claiming;
}

/* What dead nodes have left. If this one is among them it does not know that yet: it will. */
static int64_t claim_left(drive *d, int64_t most)
{
    node_list closed = {0};
    error err = {0};
    int64_t taken = 0;
    int failed = 0;
    if (node_find_due(d->looks, drive_now_ms(d), &closed, &err) != PAWL_OK)
        return 0;
    for (size_t i = 0; i < closed.count && taken < most; i++) {
        if (closed.at[i] == d->node.id) {
            atomic_store(&d->fenced, 1);
            return taken;
        }
        fate dead = fate_of(d, closed.at[i], closed.resigned[i]);
        taken += claim_due(d, &dead, &failed);
    }
    /* Who was at work is claimed before, or its death is not counted: and who drives one run claims
     * no others. */
    if (taken == 0 && !failed && !d->only)
        sweep(d);
    return taken;
}

static int64_t claim_all(drive *d)
{
    fate nobody = {0};
    int failed = 0;
    int64_t did = 0;
    if (d->only)
        did += claim_one(d) + claim_family(d);
    else
        hold_offer(d);
    hold_deadlines(d);
    did += claim_due(d, &nobody, &failed);
    if (did < CLAIMS_MAX)
        did += claim_left(d, CLAIMS_MAX - did);
    return did + hold_walk_on(d);
}

/* Something may have arrived for runs that sleep here: not only when somebody says so. */
static void hear(drive *d)
{
    int64_t now = d->host->mono_ns(d->host);
    if (!atomic_exchange(&d->mail_due, 0) && now - d->mail_at_ns < HEAR_NS)
        return;
    d->mail_at_ns = now;
    mail_hear(d);
}

int64_t keeper_look(drive *d)
{
    if (!keeper_beat(d))
        return 0;
    bury(d);
    suspect_unmark(d);
    hold_rest(d);
    changes_keep(d);
    hear(d);
    int64_t moved = outbox_look(d);
    if (is_claiming(d))
        return moved;
    int64_t did = moved + claim_all(d);
    if (did)
        committers_leave(d->options.committers);
    return did;
}
