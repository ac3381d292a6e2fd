/* Releasing held runs that can go on, and holding by hand. See hold.h for the rules.
 *
 * A node walks over what is held of each workflow it has, page by page, with one exact index: at
 * its beginning, when something is registered, and AGAIN_MS after the end of a walk, since a run
 * may be held at any time by a build that is not this one.
 *
 * The indexes have only what is held, and statements say so in the same words: SQLite does not see
 * that `held = 4` implies `held <> 0`, and would read all runs. */
#include "sched/hold.h"

#include <string.h>

#include "base/argument.h"
#include "base/text.h"
#include "handle/handle.h"
#include "sched/claim.h"
#include "sched/sched_internal.h"
#include "sched/unit_retry.h"

enum {
    PAGE = 128,
    CLAIMS_MAX = 256,
    LOOKUPS_MAX = 16, /* pages that are read in one round of the node loop */
    OVER_MAX = 64,
    OVER_LOCK_MS = 20, /* how long a cancel waits for a row lock, on top of the time that the
                          committer waits for one anyway */
    PACE = 4,
    TRIED_MAX = 768, /* bytes of the list of builds in {runs}.held_for */
};
static const int64_t AGAIN_MS = 10000;
static const int64_t OVER_LOST_NS = 500000000; /* how much time a round of the node loop may lose to
                                                  locks on runs whose deadline has passed */

/* ---- Builds that have tried: "\na\nb\n"; "\n\twork\n": they lack a work function ---- */

int hold_has_tried(slice list, const char *build)
{
    size_t size = strlen(build);
    for (size_t i = 0; i + size + 1 < list.size; i++)
        if (list.at[i] == '\n' && list.at[i + size + 1] == '\n' &&
            memcmp(list.at + i + 1, build, size) == 0)
            return 1;
    return 0;
}

slice hold_tried(arena *a, slice list, const char *build)
{
    size_t size = strlen(build);
    if (list.size == 0 || list.at[0] != '\n') /* the list is of a hold for another reason */
        list = SLICE_LIT("\n");
    if (hold_has_tried(list, build))
        return (slice){arena_copy(a, list), list.size};
    while (list.size > 1 && list.size + size + 1 > TRIED_MAX) {
        const char *next = memchr(list.at + 1, '\n', list.size - 1);
        list = (slice){next, list.size - (size_t)(next - list.at)};
    }
    char *at = arena_alloc(a, list.size + size + 2);
    if (!at)
        return (slice){NULL, 0};
    memcpy(at, list.at, list.size);
    memcpy(at + list.size, build, size);
    at[list.size + size] = '\n';
    return (slice){at, list.size + size + 1};
}

slice hold_lacking(arena *a, slice list, const char *work)
{
    char entry[PAWL_MAX_NAME + 2];
    buf b;
    buf_init_fixed(&b, entry, sizeof entry);
    buf_printf(&b, "\t%s", work);
    return hold_tried(a, list, buf_str(&b));
}

/* Does this node have all the work functions that are named in the list? */
static int has_lacking(sched *s, slice list)
{
    char name[PAWL_MAX_NAME + 1];
    for (size_t i = 0; i + 2 < list.size; i++) {
        if (list.at[i] != '\n' || list.at[i + 1] != '\t')
            continue;
        const char *at = list.at + i + 2, *end = memchr(at, '\n', list.size - i - 2);
        text_clip(name, sizeof name, (slice){at, end ? (size_t)(end - at) : 0});
        if (!registry_work(s->options.registry, name))
            return 0;
    }
    return 1;
}

/* ---- What live nodes have ---- */

static const db_sql OFFER = {"INSERT INTO {offers} (tenant, workflow, version, node)"
                             " VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
                             "ttti"};

static const db_sql OFFERED = {"SELECT count(*) FROM {offers} WHERE tenant = $1 AND workflow = $2"
                               " AND ($3 = '' OR version = $3)",
                               "ttt"};

int hold_is_offered(sched *s, db_conn *conn, slice name, slice version)
{
    const db_value values[] = {db_text(slice_of(s->options.tenant)), db_text(name),
                               db_text(version)};
    int64_t count = 0;
    int found = 0;
    error err = {0};
    pawl_code rc = db_number(conn, &OFFERED, values, DB_COUNT(values), &count, &found, &err);
    /* RULE not-held-while-a-live-node-has-it */
    return rc != PAWL_OK || count > 0; /* if the read failed, the run is not held */
}

static void begin_walk(sched *s)
{
    s->walk.at = registry_first(s->options.registry);
    s->walk.begins = 1;
    s->walk.round = 0;
    s->walk.after = 0;
}

void hold_offer(sched *s)
{
    uint64_t count = registry_count(s->options.registry);
    arena *a = count != s->walk.offered ? arena_new(0) : NULL;
    unit *u = a ? unit_new(a) : NULL;
    if (u) {
        slice tenant = slice_of(s->options.tenant);
        const workflow *w = registry_first(s->options.registry);
        for (; w; w = w->next) {
            const db_value row[] = {db_text(tenant), db_text(slice_of(w->name)),
                                    db_text(slice_of(w->version)), db_int(s->node.id)};
            unit_write(u, &OFFER, unit_key("offers", s->node.id), row, DB_COUNT(row));
        }
        u->class = UNIT_OF_CLIENT;
        if (u->count == 0 ||
            committer_commit(committers_at(s->options.committers, 0), u) == PAWL_OK) {
            s->walk.offered = count;
            begin_walk(s);
        }
    }
    arena_free(a);
}

/* ---- Runs that are held by hand ---- */

static const db_sql MINE = {
    "SELECT run FROM {runs} WHERE held <> 0 AND held = {HELD_BY_HAND} AND owner = $1 LIMIT 256",
    "i"};

void hold_stop_driving(sched *s, int64_t key)
{
    sched_lock(s);
    pawl_run *run = map_get(&s->runs, (uint64_t)key);
    if (run) {
        atomic_store(&run->hold_requested, 1);
        if (run->slot->place ==
            PLACE_SLEEPS) /* perhaps the run fell asleep before it could see the request */
            run_queue_ready(s, run);
    } else if (s->dormant.count > 0) {
        dormant_call(s, key);
    }
    sched_unlock(s);
}

static void read_mine(sched *s)
{
    db_stmt *stmt;
    error err = {0};
    const db_value me = db_int(s->node.id);
    if (db_prepare(s->looks, &MINE, &stmt, &err) != PAWL_OK)
        return;
    if (db_bind_all(stmt, &me, 1, &err) == PAWL_OK)
        while (db_next(stmt, &err) == DB_ROW)
            hold_stop_driving(s, db_column(stmt, 0).i);
    db_reset(stmt);
}

void hold_rest(sched *s)
{
    error err = {0};
    if (db_begin(s->looks, &err) != PAWL_OK)
        return;
    read_mine(s);
    db_rollback(s->looks);
}

/* ---- Deadlines of what is held ---- */

static const db_sql OVER = {
    "SELECT run, deadline_at FROM {runs} WHERE deadline_at IS NOT NULL AND held <> 0"
    /* RULE A7-a-deadline-has-the-owner-record */
    " AND deadline_at <= $1 AND (owner = 0 OR held = {HELD_RECORD}) AND phase = {LIVE}"
    " AND cancel_at IS NULL"
    " AND tenant = $2 AND deadline_at >= $3 AND (deadline_at, run) > ($3, $4)"
    " ORDER BY deadline_at, run LIMIT $5",
    "itiii"};

typedef struct over_run {
    int64_t run;
    int64_t deadline_ms;
} over_run;

/* Within a transaction. Counts the runs that were read, also if reading the next one fails. */
static pawl_code read_over_rows(sched *s, over_run *runs, int *count, error *err)
{
    db_stmt *stmt;
    const db_value values[] = {db_int(sched_now_ms(s)), db_text(slice_of(s->options.tenant)),
                               db_int(s->over.deadline_ms), db_int(s->over.run), db_int(OVER_MAX)};
    pawl_code rc = db_prepare(s->looks, &OVER, &stmt, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(stmt, values, DB_COUNT(values), err);
    while (rc == PAWL_OK && *count < OVER_MAX) {
        db_step step = db_next(stmt, err);
        if (step == DB_FAILED)
            rc = err->code;
        if (step != DB_ROW)
            break;
        runs[(*count)++] = (over_run){db_column(stmt, 0).i, db_column(stmt, 1).i};
    }
    db_reset(stmt);
    return rc;
}

static int read_over(sched *s, over_run *runs)
{
    error err = {0};
    int count = 0;
    pawl_code rc = db_begin(s->looks, &err);
    if (rc == PAWL_OK) {
        rc = read_over_rows(s, runs, &count, &err);
        db_rollback(s->looks);
    }
    /* RULE L6-deadlines-that-cannot-be-read-are-told */
    look_failure_result(s, LOOK_OVER, rc, &err);
    return count;
}

/* A run may have been released or cancelled since it was read. If it was cancelled, the guard
 * refuses the unit; if it was released, the cancel is right all the same. 0: the unit has failed.
 */
static int cancel_over(sched *s, int64_t run)
{
    pawl_code rc = PAWL_NOMEM;
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    if (u) {
        run_inbox_row m = {.run = run,
                           .kind = INBOX_CANCEL,
                           .name = SLICE_LIT(""),
                           .by = SLICE_LIT(""),
                           .at_ms = sched_now_ms(s),
                           .data = SLICE_LIT("\"its deadline has passed\"")};
        run_cancel(u, &m);
        u->class = UNIT_OF_CLIENT;
        u->lock_ms = OVER_LOCK_MS;
        rc = committer_commit(committers_of(s->options.committers, (uint64_t)run), u);
    }
    arena_free(a);
    return rc == PAWL_OK || rc == PAWL_REFUSED;
}

/* Another transaction may keep the row of a run locked for as long as it likes. So each round goes
 * on behind the last run that was tried. It goes back to the first one when PACE times as long has
 * passed as was lost waiting for locks. */
void hold_deadlines(sched *s)
{
    over_run runs[OVER_MAX];
    hold_over *o = &s->over;
    int64_t lost_ns = 0;
    /* RULE L4-a-deadline-behind-locked-ones-has-its-turn */
    if (sched_mono_ns(s) >= o->again_ns)
        *o = (hold_over){0};
    int count = read_over(s, runs);
    /* RULE L4-deadlines-of-locked-runs-do-not-keep-a-round */
    for (int i = 0; i < count && lost_ns <= OVER_LOST_NS; i++) {
        int64_t began_ns = sched_mono_ns(s);
        int is_done = cancel_over(s, runs[i].run);
        lost_ns += is_done ? 0 : sched_mono_ns(s) - began_ns;
        o->deadline_ms = runs[i].deadline_ms;
        o->run = runs[i].run;
    }
    o->lost_ns += lost_ns;
    if (lost_ns > 0)
        o->again_ns = sched_mono_ns(s) + o->lost_ns * PACE;
}

/* ---- The walk ---- */

static const db_sql HELD = {"SELECT " CLAIM_COLUMNS
                            " FROM {runs} r WHERE r.held <> 0 AND r.held = $1 AND r.owner = 0"
                            " AND r.workflow = $2 AND r.version = $3 AND r.run > $4 AND r.tenant = "
                            "$5 AND r.phase IN ({LIVE}, {FAILING})"
                            " ORDER BY r.run LIMIT $6",
                            "ittiti"};

static const db_sql HELD_FAILING = {
    "SELECT " CLAIM_COLUMNS
    " FROM {runs} r WHERE r.held <> 0 AND r.held <= {HELD_POISON} AND r.owner = 0"
    " AND r.phase = {FAILING} AND r.run > $1 AND r.tenant = $2 ORDER BY r.run LIMIT $3",
    "iti"};

/* Rounds with each workflow: for each of three reasons, runs of its version and runs without
 * one. */
enum { ROUNDS = 6 };

int hold_ends_here(sched *s, const claim *c)
{
    slice what = c->held_for;
    if (!claim_is_for_us(c))
        return 0;
    switch (c->found.held) {
    case HELD_VERSION:
        /* RULE C7-a-node-that-has-it-lets-go-on */
        return what.size == 0 || registry_work(s->options.registry, what.at);
    case HELD_MISMATCH:
    case HELD_POISON:
        /* RULE C7-another-build-lets-go-on, C7-a-build-tries-once */
        return !hold_has_tried(what, s->options.build) && has_lacking(s, what);
    /* RULE L2-finish-claims-what-a-dead-owner-held */
    case HELD_RECORD: /* only asked if the owner, which had the result, is closed */
        return 1;
    default:
        return 0;
    }
}

static void next_round(hold_walk *w)
{
    w->after = 0;
    if (w->begins) {
        w->begins = 0;
        return;
    }
    if (++w->round < ROUNDS)
        return;
    w->round = 0;
    w->at = w->at->next;
}

static pawl_code prepare_page(sched *s, db_stmt **out, error *err)
{
    const hold_walk *w = &s->walk;
    slice tenant = slice_of(s->options.tenant);
    const db_value failing[] = {db_int(w->after), db_text(tenant), db_int(PAGE)};
    if (w->begins) { /* perhaps there is no workflow here at all */
        pawl_code rc = db_prepare(s->looks, &HELD_FAILING, out, err);
        return rc == PAWL_OK ? db_bind_all(*out, failing, DB_COUNT(failing), err) : rc;
    }
    slice version = w->round & 1 ? SLICE_LIT("") : slice_of(w->at->version);
    const db_value values[] = {db_int(HELD_VERSION + w->round / 2),
                               db_text(slice_of(w->at->name)),
                               db_text(version),
                               db_int(w->after),
                               db_text(tenant),
                               db_int(PAGE)};
    pawl_code rc = db_prepare(s->looks, &HELD, out, err);
    return rc == PAWL_OK ? db_bind_all(*out, values, DB_COUNT(values), err) : rc;
}

/* Reads one page of held runs. Those that can go on here are put into the list, as claims. */
static pawl_code walk_page(sched *s, claim **list, size_t *count, error *err)
{
    hold_walk *w = &s->walk;
    db_stmt *stmt;
    pawl_code rc = prepare_page(s, &stmt, err);
    if (rc != PAWL_OK)
        return rc;
    int rows = 0;
    db_step step;
    while ((step = db_next(stmt, err)) == DB_ROW) {
        rows++;
        w->after = db_column(stmt, 0).i;
        /* A run is passed over if it is in this node's memory, since its runner is about to give it
         * back; or if its claim has failed, until the back-off after that is over. */
        claim *c = claim_waits(s, w->after) ? NULL : claim_read(s, stmt);
        if (c && claim_is_meant(s, c) && hold_ends_here(s, c))
            list[(*count)++] = c;
        else if (c)
            claim_free(c);
    }
    db_reset(stmt);
    if (step == DB_FAILED)
        return err->code;
    if (rows < PAGE)
        next_round(w);
    return PAWL_OK;
}

/* Is a walk under way, or due? */
static int is_walking(sched *s)
{
    hold_walk *w = &s->walk;
    if (!w->at && !w->begins && s->host->mono_ns(s->host) >= w->again_ns)
        begin_walk(s);
    return w->at || w->begins; /* RULE A7-a-node-with-only-work-functions-cleans-up */
}

int64_t hold_walk_on(sched *s)
{
    claim *list[CLAIMS_MAX];
    size_t count = 0;
    error err = {0};
    if (!is_walking(s))
        return 0;
    pawl_code rc = db_begin(s->looks, &err);
    if (rc == PAWL_OK) {
        for (int i = 0; (s->walk.at || s->walk.begins) && i < LOOKUPS_MAX; i++)
            if (count + PAGE > CLAIMS_MAX || (rc = walk_page(s, list, &count, &err)) != PAWL_OK)
                break;
        db_rollback(s->looks);
    }
    look_failure_result(s, LOOK_HELD, rc, &err); /* RULE L6-a-walk-that-fails-is-told */
    if (!s->walk.at && !s->walk.begins)
        s->walk.again_ns = clock_deadline(s->host->mono_ns(s->host), AGAIN_MS);
    int64_t claims = 0;
    for (size_t i = 0; i < count; i++) {
        list[i]->releases = 1;
        claims += claim_submit(list[i]);
    }
    return claims;
}

/* ---- By hand ---- */

/* Finds the key of the run, and the time. */
static pawl_code find_run(pawl *p, const char *id, int64_t *run, int64_t *now_ms, error *err)
{
    slice name;
    db_conn *c;
    pawl_code rc = argument_run_id(id, &name, err);
    if (rc == PAWL_OK)
        rc = handle_time(p, now_ms, err);
    if (rc == PAWL_OK)
        rc = read_pool_begin(handle_read_pool(p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_pool_run(c, handle_tenant(p), name, run, err);
    read_pool_end(handle_read_pool(p), c);
    return rc;
}

/* For a unit that its guard has refused: `found` has owner, fence, phase and held of the run. */
static pawl_code answer_refused(const unit *u, error *err)
{
    if (!u->found)
        return read_pool_no_run(err);
    pawl_phase phase = (pawl_phase)u->found->values[2].i;
    if (phase == PAWL_RUN_LIVE || phase == PAWL_RUN_FAILING)
        return PAWL_OK; /* the run was not held anyway */
    return error_set(err, PAWL_ENDED, "the run has ended already");
}

static pawl_code commit_unit(pawl *p, unit *u, int64_t run, error *err)
{
    sched *s = handle_sched(p);
    u->class = UNIT_OF_CLIENT;
    pawl_code rc = committer_commit(committers_of(s->options.committers, (uint64_t)run), u);
    rc = unit_shut_out(u, rc);
    if (rc == PAWL_OK) {
        handle_wake(p);
        sched_listen(s);
        sched_notify_others(s);
    } else if (rc == PAWL_REFUSED) {
        rc = answer_refused(u, err);
    } else {
        error_set(err, rc, "the run was not changed: %s", pawl_code_text(rc));
        error_detail(err, "%s", u->message ? u->message : u->refused ? u->refused : "");
    }
    return rc;
}

/* If this node keeps the run because its record was refused, the record is tried again. */
static void try_record(sched *s, int64_t key)
{
    sched_lock(s);
    pawl_run *run = map_get(&s->runs, (uint64_t)key);
    if (run)
        unit_retry_release(s, run);
    else if (s->dormant.count > 0)
        dormant_call(s, key); /* the run may be dormant, since it was released before the hold had
                                 brought it into memory */
    sched_unlock(s);
}

static pawl_code change_hold(pawl *p, const char *id, const char *reason, int hold, error *err)
{
    int64_t run, now_ms;
    pawl_code rc = find_run(p, id, &run, &now_ms, err);
    if (rc != PAWL_OK)
        return rc;
    arena *a = arena_new(0);
    unit *u = a ? unit_new(a) : NULL;
    rc = u ? PAWL_OK : error_nomem(err);
    if (u) {
        if (hold)
            run_hold_by_hand(u, run, reason && *reason ? slice_of(reason) : (slice){0}, now_ms);
        else
            run_set_free(u, run, now_ms);
        rc = commit_unit(p, u, run, err);
    }
    arena_free(a);
    if (rc == PAWL_OK && hold)
        hold_stop_driving(handle_sched(p), run); /* a run of this node stops without waiting for the
                                                    node loop */
    else if (rc == PAWL_OK)
        try_record(handle_sched(p), run);
    return rc;
}

pawl_code pawl_hold(pawl *p, const char *id, const char *reason)
{
    error err = {0};
    pawl_code rc = handle_enter_to_write(p, &err);
    if (rc == PAWL_OK && reason)
        rc = text_check(slice_of(reason), PAWL_MAX_ID, "reason", &err);
    if (rc == PAWL_OK)
        rc = change_hold(p, id, reason, 1, &err);
    return handle_leave(p, rc, &err);
}

pawl_code pawl_release(pawl *p, const char *id)
{
    error err = {0};
    pawl_code rc = handle_enter_to_write(p, &err);
    if (rc == PAWL_OK)
        rc = change_hold(p, id, NULL, 0, &err);
    return handle_leave(p, rc, &err);
}
