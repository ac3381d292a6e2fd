/* Many units in one transaction, in two trips, each as if it were alone.
 *
 * The first trip begins, and runs all guards and tries, in the order of their keys and within a key
 * in queue order: so two batches never wait for each other crosswise, and guards that write chain.
 * Their rows are read. The second trip has the plain writes of the units that passed, but for those
 * that a try has left out, those of one kind as arrays, and COMMIT. Where there is nothing to be
 * read in between, it is one trip.
 *
 * Nobody may be able to tell that from one unit after the other. So a batch ends before a unit that
 * touches a row which an earlier unit in it writes plainly: its guard would not see it. And a unit
 * that is refused after one of its guards or tries has written something is not taken out of the
 * transaction: there is no way to; the transaction is rolled back, and the units before it, it, and
 * those behind it are tried apart.
 *
 * Any error costs the transaction, and an array does not say whose fault it is: then the units are
 * run one transaction each, in queue order (batch.c), and the guilty one is told. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pg/pg_ops.h"

enum { DEADLOCKS_MAX = 3 };

typedef enum {
    PASS_DONE,
    PASS_LATER,     /* nothing happened; come back */
    PASS_CUT,       /* rolled back; the units before `cut` are to be tried without it */
    PASS_SPLIT,     /* rolled back; one at a time */
    PASS_UNDECIDED, /* the answer of the commit is lost */
} pass_end;

typedef struct pass {
    pg_conn *c;
    unit **units;
    size_t count;
    uint64_t number;
    size_t cut;
    error *err;
} pass;

/* Is it of the first trip? */
static int asks(const unit_stmt *s)
{
    return s->kind == UNIT_GUARD || s->kind == UNIT_TRY;
}

/* ---- Which units can go together ---- */

/* Does it need a value that is there only after its guards, or after a write? Those of guards are
 * there between the trips; everything else needs one statement after the other. */
typedef enum { NEEDS_NOTHING, NEEDS_GUARDS, NEEDS_ORDER } needs;

static needs needs_of(const unit *u)
{
    needs most = NEEDS_NOTHING;
    int written = 0;
    for (const unit_stmt *s = u->first; s; s = s->next) {
        if ((asks(s) && written) || s->kind == UNIT_CALL)
            return NEEDS_ORDER;
        written |= s->kind == UNIT_WRITE;
        for (int i = 0; i < s->count; i++) {
            if (s->values[i].type != DB_FROM)
                continue;
            if (s->kind != UNIT_WRITE || !asks(s->sources[i]))
                return NEEDS_ORDER;
            most = NEEDS_GUARDS;
        }
    }
    return most;
}

/* An insert that only adds: in whatever order such are done, nobody can tell. */
static int only_adds(const unit_stmt *s)
{
    return strncmp(s->sql->text, "INSERT ", 7) == 0 && !strstr(s->sql->text, "ON CONFLICT");
}

/* Does the unit touch a row that units so far write plainly? `written` has the last statement that
 * did, of those that change rather than add if there is one. */
static int meets(const map *written, const unit *u)
{
    for (const unit_stmt *s = u->first; s; s = s->next) {
        const unit_stmt *before = s->key ? map_get(written, s->key) : NULL;
        if (before && !(only_adds(before) && s->kind == UNIT_WRITE && only_adds(s)))
            return 1;
    }
    return 0;
}

static int note_writes(map *written, unit *u)
{
    for (unit_stmt *s = u->first; s; s = s->next) {
        if (s->kind != UNIT_WRITE || !s->key)
            continue;
        const unit_stmt *before = map_get(written, s->key);
        if ((!before || only_adds(before)) && map_put(written, s->key, s) < 0)
            return 0;
    }
    return 1;
}

/* How many units from the first can go together. A first one that needs its statements in order
 * goes alone. */
static size_t together(unit **units, size_t count, int *ordered)
{
    map written = {0};
    size_t n = 0;
    *ordered = 0;
    while (n < count) {
        if (needs_of(units[n]) == NEEDS_ORDER || units[n]->broken_build) {
            *ordered = n == 0;
            n += n == 0;
            break;
        }
        if (n > 0 && meets(&written, units[n]))
            break;
        if (!note_writes(&written, units[n++]))
            break;
    }
    map_free(&written);
    return n;
}

/* ---- After the guards ---- */

static int has_written(const unit *u)
{
    for (const unit_stmt *s = u->first; s; s = s->next)
        if (asks(s) && s->rows && unit_stmt_writes(s))
            return 1;
    return 0;
}

static const unit_stmt *first_refused(const unit *u)
{
    for (const unit_stmt *s = u->first; s; s = s->next)
        if (s->kind == UNIT_GUARD && !s->rows)
            return s;
    return NULL;
}

/* Give each unit its provisional answer. 0: one must go, and cannot go alone: p->cut. */
static int judge(pass *p)
{
    for (size_t i = 0; i < p->count; i++) {
        unit *u = p->units[i];
        submitter *owner = u->submitter;
        int cut_off = owner && (unit_is_cut_off(u) || owner->broken_in == p->number);
        const unit_stmt *no = cut_off ? NULL : first_refused(u);
        if (!cut_off && !no) {
            batch_commit_unit(u);
            continue;
        }
        if (has_written(u)) {
            p->cut = i;
            return 0;
        }
        batch_refuse(u, cut_off ? "prefix" : no->name);
        if (owner)
            owner->broken_in = p->number;
    }
    return 1;
}

/* ---- One pass ---- */

static pass_end failed(pass *p, pawl_code rc)
{
    pg_rollback(&p->c->base);
    if (rc == PAWL_FENCED) {
        batch_fail_all(p->units, p->count, p->err);
        return PASS_DONE;
    }
    return rc == PAWL_UNREACHABLE ? PASS_LATER : PASS_SPLIT;
}

static pass_end take_end(pass *p)
{
    pawl_code rc = pg_take_commit(p->c, p->err);
    if (rc == PAWL_OK) {
        p->c->number += 2;
        return PASS_DONE;
    }
    if (rc == PAWL_BUSY || rc == PAWL_DATA)
        return failed(p, rc);
    p->c->doubtful = 1;
    return PASS_UNDECIDED;
}

/* A unit whose rows did not fit into its memory. 0: there is one, p->cut. */
static int all_fit(pass *p)
{
    for (size_t i = 0; i < p->count; i++) {
        if (p->units[i]->answer == UNIT_FAILED) {
            p->cut = i;
            return 0;
        }
    }
    return 1;
}

static pass_end cut(pass *p)
{
    pg_rollback(&p->c->base);
    return PASS_CUT;
}

static pass_end doubt(pass *p)
{
    pg_forget(p->c);
    p->c->doubtful = 1;
    return PASS_UNDECIDED;
}

/* What is pushed may be sent at once, without the sync: from here on, a lost connection leaves it
 * open whether the server has been asked. */
static int send_commit(pass *p)
{
    return pg_push_commit(p->c, p->err) == PAWL_OK && pg_sync(p->c, p->err) == PAWL_OK;
}

/* Results up to COMMIT's. From the sync on, a lost connection leaves it open what is durable; an
 * error does not: the server skips the COMMIT behind it. */
static pass_end take_all(pass *p, pg_ops *guards, pg_ops *plain)
{
    pawl_code rc = guards ? pg_take_begin(p->c, p->err) : PAWL_OK;
    if (rc == PAWL_OK && guards)
        rc = pg_ops_take(p->c, guards, p->err);
    if (rc == PAWL_OK)
        rc = pg_ops_take(p->c, plain, p->err);
    if (rc == PAWL_OK)
        return take_end(p);
    return rc == PAWL_UNREACHABLE ? doubt(p) : failed(p, rc);
}

/* It is durable, but its rows are lost: whoever asked has to look. */
static pass_end confess(pass *p, pass_end end)
{
    for (size_t i = 0; end == PASS_DONE && i < p->count; i++) {
        unit *u = p->units[i];
        if (u->answer == UNIT_FAILED && u->code != PAWL_FENCED)
            batch_fail(u, &(error){.code = PAWL_UNDECIDED,
                                   .message = "durable, but its answer did not fit into memory"});
    }
    return end;
}

static pass_end commit_writes(pass *p, pg_ops *plain)
{
    pawl_code rc = pg_ops_push(p->c, plain, p->err);
    if (rc != PAWL_OK)
        return failed(p, rc);
    return send_commit(p) ? confess(p, take_all(p, NULL, plain)) : doubt(p);
}

/* Plain writes and COMMIT go in one breath, unless rows must be looked at in between. */
static pass_end write_and_commit(pass *p, pg_ops *plain)
{
    if (!plain->narrow)
        return commit_writes(p, plain);
    pawl_code rc = pg_ops_run(p->c, plain, p->err);
    if (rc != PAWL_OK)
        return failed(p, rc);
    if (!all_fit(p))
        return cut(p);
    pg_ops none;
    pg_ops_init(&none, p->c);
    return commit_writes(p, &none);
}

/* What was found where guards refused, for those who want to know. */
static pawl_code find(pass *p)
{
    pg_ops found;
    pg_ops_init(&found, p->c);
    for (size_t i = 0; i < p->count; i++) {
        unit *u = p->units[i];
        const unit_stmt *no = u->answer == UNIT_REFUSED && strcmp(u->refused, "prefix") != 0
                                  ? first_refused(u)
                                  : NULL;
        if (no && no->next && no->next->kind == UNIT_FOUND)
            pg_ops_add(&found, u, no->next, PG_OP_PLAIN);
    }
    pg_ops_seal(&found);
    pawl_code rc = found.failed ? error_set(p->err, PAWL_NOMEM, "out of memory") : PAWL_OK;
    if (rc == PAWL_OK && found.count > 0)
        rc = pg_ops_run(p->c, &found, p->err);
    for (size_t i = 0; rc == PAWL_OK && i < p->count; i++) {
        unit *u = p->units[i];
        const unit_stmt *no = u->answer == UNIT_REFUSED ? first_refused(u) : NULL;
        if (no && no->next && no->next->kind == UNIT_FOUND)
            u->found = no->next->rows;
    }
    return rc;
}

/* The first trip; `how` is for guards. */
static void gather_asking(pass *p, pg_ops *ops, pg_op_how how)
{
    pg_ops_init(ops, p->c);
    for (size_t i = 0; i < p->count; i++)
        for (unit_stmt *s = p->units[i]->first; s; s = s->next)
            if (asks(s))
                pg_ops_add(ops, p->units[i], s, s->kind == UNIT_GUARD ? how : PG_OP_PLAIN);
    pg_ops_seal(ops);
    pg_ops_sort(ops);
}

static void gather_writes(pass *p, pg_ops *ops)
{
    pg_ops_init(ops, p->c);
    for (size_t i = 0; i < p->count; i++)
        for (unit_stmt *s = p->units[i]->first; s; s = s->next)
            if (s->kind == UNIT_WRITE && p->units[i]->answer == UNIT_COMMITTED &&
                !unit_leaves_out(s))
                pg_ops_add(ops, p->units[i], s, PG_OP_PLAIN);
    pg_ops_seal(ops);
}

/* Begin, guards; then, knowing their rows, writes and commit. */
static pass_end run_two_trips(pass *p)
{
    pg_ops guards, plain;
    gather_asking(p, &guards, PG_OP_PLAIN);
    if (guards.failed)
        return failed(p, error_set(p->err, PAWL_NOMEM, "out of memory"));
    pawl_code rc = pg_push_begin(p->c, p->err);
    if (rc == PAWL_OK)
        rc = pg_ops_push(p->c, &guards, p->err);
    if (rc == PAWL_OK)
        rc = pg_sync(p->c, p->err);
    if (rc == PAWL_OK)
        rc = pg_take_begin(p->c, p->err);
    if (rc == PAWL_OK)
        rc = pg_ops_take(p->c, &guards, p->err);
    if (rc == PAWL_OK)
        rc = pg_skip(p->c, p->err);
    if (rc != PAWL_OK)
        return failed(p, rc);
    if (!all_fit(p) || !judge(p))
        return cut(p);
    rc = find(p);
    if (rc == PAWL_OK && !all_fit(p))
        return cut(p);
    gather_writes(p, &plain);
    if (rc == PAWL_OK && plain.failed)
        rc = error_set(p->err, PAWL_NOMEM, "out of memory");
    return rc == PAWL_OK ? write_and_commit(p, &plain) : failed(p, rc);
}

/* Everything at once. Guards fail where they find nothing, and the rest with them. */
static pass_end run_one_trip(pass *p)
{
    pg_ops guards, plain;
    for (size_t i = 0; i < p->count; i++)
        batch_commit_unit(p->units[i]);
    gather_asking(p, &guards, PG_OP_MUST);
    gather_writes(p, &plain);
    if (guards.failed || plain.failed)
        return failed(p, error_set(p->err, PAWL_NOMEM, "out of memory"));
    if (guards.narrow || plain.narrow)
        return run_two_trips(p);
    pawl_code rc = pg_push_begin(p->c, p->err);
    if (rc == PAWL_OK)
        rc = pg_ops_push(p->c, &guards, p->err);
    if (rc == PAWL_OK)
        rc = pg_ops_push(p->c, &plain, p->err);
    if (rc != PAWL_OK)
        return failed(p, rc);
    return send_commit(p) ? confess(p, take_all(p, &guards, &plain)) : doubt(p);
}

static int any_asks(unit **units, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (const unit_stmt *s = units[i]->first; s; s = s->next)
            if (asks(s))
                return 1;
    return 0;
}

static int any_cut_off(unit **units, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (unit_is_cut_off(units[i]))
            return 1;
    return 0;
}

static pass_end run_pass(pass *p)
{
    pawl_code rc = pg_ready(p->c, p->err);
    if (rc != PAWL_OK) {
        if (batch_is_passing(rc))
            return PASS_LATER;
        batch_fail_all(p->units, p->count, p->err);
        return PASS_DONE;
    }
    arena_reset(p->c->scratch);
    for (size_t i = 0; i < p->count; i++)
        batch_start_over(p->units[i]);
    int lone = p->count == 1 && needs_of(p->units[0]) == NEEDS_NOTHING;
    if (!any_cut_off(p->units, p->count) && (lone || !any_asks(p->units, p->count)))
        return run_one_trip(p);
    return run_two_trips(p);
}

/* ---- All of them ---- */

/* One transaction each. Stops where one has to wait, or is undecided. */
static void one_by_one(db_conn *c, unit **units, size_t count, uint64_t *passes, error *err,
                       batch_result *r)
{
    for (size_t i = 0; i < count && r->code == PAWL_OK && r->undecided == 0; i++) {
        batch_result one = batch_apply(c, &units[i], 1, passes, err);
        r->taken += one.taken;
        r->undecided = one.undecided;
        r->restarts += one.restarts;
        r->code = one.code;
    }
}

batch_result pg_apply(db_conn *base, unit **units, size_t count, uint64_t *passes, error *err)
{
    batch_result r = {0};
    size_t most = count;
    int deadlocks = 0;
    batch_remember(units, count);
    while (r.taken < count && r.code == PAWL_OK && r.undecided == 0) {
        unit **some = units + r.taken;
        size_t left = count - r.taken;
        int ordered;
        size_t n = together(some, left < most ? left : most, &ordered);
        pass p = {.c = (pg_conn *)base, .units = some, .count = n, .number = ++*passes, .err = err};
        pass_end end = ordered ? PASS_SPLIT : run_pass(&p);
        r.restarts += !ordered && (end == PASS_CUT || end == PASS_SPLIT);
        if (end == PASS_LATER) {
            r.code = err->code;
        } else if (end == PASS_CUT && p.cut > 0) {
            most = p.cut;
            continue;
        } else if (end == PASS_SPLIT && !ordered && err->code == PAWL_BUSY && n > 1 &&
                   ++deadlocks < DEADLOCKS_MAX) {
            continue;
        } else if (end == PASS_CUT || end == PASS_SPLIT) {
            one_by_one(base, some, end == PASS_CUT ? 1 : n, passes, err, &r);
        } else {
            if (end == PASS_UNDECIDED) {
                batch_undecided(some, n, err);
                r.undecided = n;
            }
            batch_break_submitters(some, n);
            r.taken += n;
        }
        most = count;
        deadlocks = 0;
    }
    return r;
}
