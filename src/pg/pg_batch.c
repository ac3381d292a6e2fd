/* Group commit on PostgreSQL: many units in one transaction, in two round trips, each as if it were
 * alone.
 *
 *   1. The first trip begins, and runs all guards and tries, in the order of their keys and within
 *      a key in queue order: so two batches do not deadlock, and a guard sees what earlier ones
 *      wrote.
 *   2. Their rows are read, which decides which units pass.
 *   3. The second trip has the plain writes of the units that passed, except those that a try has
 *      left out, those of one kind as arrays, and COMMIT.
 * Where no row is needed in between, everything goes in one trip. So does a unit that is alone and
 * whose writes need one number of one guard, as a message does: the server keeps that number.
 *
 * The result must be the same as of one unit after the other. So a batch ends before a unit that
 * touches a row which an earlier unit in it writes plainly: its guard would not see that write. And
 * a unit that is refused after one of its guards or tries has written something cannot be taken out
 * of the transaction: that is rolled back, and the units before it, the unit, and those after it
 * are tried in separate ones.
 *
 * Any error costs the transaction, and an array does not say which unit caused it: then the units
 * are run one transaction each, in queue order (batch.c), and the guilty one fails.
 *
 * A row lock of a foreign transaction is no fault of a unit, but the others must not wait for it.
 * So locks are waited for only a short while; then the unit that meets the lock is found by
 * bisection, since the half without the lock can be committed meanwhile. Once it is alone it is
 * left to the committer, which sets it aside (batch_result.locked). With 250 ms, and 20 ms for each
 * of at most ten halves, the others go on within half a second. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "pg/pg_ops.h"

enum { DEADLOCKS_MAX = 3, LOCK_MS = 250, SEARCH_MS = 20 };

typedef enum {
    PASS_DONE,
    PASS_LATER,     /* nothing happened: another writer is in the way, or the server is gone */
    PASS_CUT,       /* rolled back; the units before `cut` are to be tried without the unit there */
    PASS_SPLIT,     /* rolled back; the units are to be tried one at a time */
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

/* A guard or a try: a statement of the first trip. */
static int is_guard_or_try(const unit_stmt *s)
{
    return s->kind == UNIT_GUARD || s->kind == UNIT_TRY;
}

/* ---- Which units can go together ---- */

/* What the statements of a unit need. NEEDS_GUARDS: writes take values of guards or tries, which
 * are there between the two trips. NEEDS_ORDER: the unit has a guest, a guard or a try behind a
 * write, or takes a value in any other way; then each statement is sent when the one before it is
 * answered. */
typedef enum { NEEDS_NOTHING, NEEDS_GUARDS, NEEDS_ORDER } needs;

static needs needs_of(const unit *u)
{
    needs most = NEEDS_NOTHING;
    int written = 0;
    for (const unit_stmt *s = u->first; s; s = s->next) {
        /* RULE A4-a-try-behind-a-write-goes-alone */
        if ((is_guard_or_try(s) && written) || s->kind == UNIT_CALL)
            return NEEDS_ORDER;
        written |= s->kind == UNIT_WRITE;
        for (int i = 0; i < s->count; i++) {
            if (s->values[i].type != DB_FROM)
                continue;
            if (s->kind != UNIT_WRITE || !is_guard_or_try(s->sources[i]))
                return NEEDS_ORDER;
            most = NEEDS_GUARDS;
        }
    }
    return most;
}

/* Returns the one guard of which all db_from() values of the unit are taken, if it changes or
 * inserts one row only, and all of them are the same number of that row. NULL: there is no such
 * guard. */
static const unit_stmt *keeper_of(const unit *u, int *column)
{
    const unit_stmt *keeper = NULL;
    for (const unit_stmt *s = u->first; s; s = s->next) {
        for (int i = 0; i < s->count; i++) {
            if (s->values[i].type != DB_FROM)
                continue;
            const unit_stmt *from = s->sources[i];
            int64_t at = s->values[i].i;
            /* RULE A4-only-one-number-is-kept */
            if (from->kind != UNIT_GUARD || from->sql->binds[0] != 'k' || s->kind != UNIT_WRITE ||
                s->sql->binds[i] != 'i' || (keeper && (from != keeper || at != *column)))
                return NULL;
            keeper = from;
            *column = (int)at;
        }
    }
    return keeper;
}

/* Is the statement a plain insert? Then the order in which such inserts are executed makes no
 * difference. */
static int only_adds(const unit_stmt *s)
{
    return strncmp(s->sql->text, "INSERT ", 7) == 0 && !strstr(s->sql->text, "ON CONFLICT");
}

/* Does the unit touch a row that an earlier unit of the batch writes plainly? `written` has, for
 * each key of a row, the last statement that writes it; one that changes the row goes before one
 * that only inserts. */
static int touches_written_row(const map *written, const unit *u)
{
    for (const unit_stmt *s = u->first; s; s = s->next) {
        const unit_stmt *before = s->key ? map_get(written, s->key) : NULL;
        if (before && !(only_adds(before) && s->kind == UNIT_WRITE && only_adds(s)))
            return 1;
    }
    return 0;
}

static int remember_writes(map *written, unit *u)
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

/* Returns how many units, from the first, can go together. *ordered is 1 if the first unit has to
 * go alone, one statement after the other. */
static size_t count_batchable(unit **units, size_t count, int *ordered)
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
        /* RULE A4-a-batch-ends-before-a-unit-that-touches-a-plainly-written-row */
        if (n > 0 && touches_written_row(&written, units[n]))
            break;
        if (!remember_writes(&written, units[n++]))
            break;
    }
    map_free(&written);
    return n;
}

/* ---- After the guards ---- */

static int has_written(const unit *u)
{
    for (const unit_stmt *s = u->first; s; s = s->next)
        /* RULE A4-a-unit-refused-after-a-try-has-written-goes-alone */
        if (is_guard_or_try(s) && s->rows && unit_stmt_writes(s))
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

/* Gives each unit its provisional answer. 0: a unit is refused after it has written something;
 * p->cut is its index. */
static int answer_units(pass *p)
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
        if (has_written(u)) { /* RULE A4-a-unit-refused-after-a-guard-has-written-goes-alone */
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

static pass_end fail_pass(pass *p, pawl_code rc)
{
    pg_rollback(&p->c->base);
    if (rc == PAWL_FENCED || rc == PAWL_REWOUND) {
        batch_fail_all(p->units, p->count, p->err);
        return PASS_DONE;
    }
    return rc == PAWL_UNREACHABLE ? PASS_LATER : PASS_SPLIT;
}

static pass_end take_end(pass *p)
{
    pawl_code rc = pg_take_commit(p->c, p->err);
    if (rc == PAWL_OK) {
        pg_ring_committed(p->c);
        return PASS_DONE;
    }
    if (rc == PAWL_BUSY || rc == PAWL_DATA)
        return fail_pass(p, rc);
    p->c->doubtful = 1; /* RULE A5-a-lost-answer-is-not-tried-again */
    return PASS_UNDECIDED;
}

/* Did the rows of all units fit into their memory? 0: those of the unit p->cut did not. */
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

static pass_end roll_back_to_cut(pass *p)
{
    pg_rollback(&p->c->base);
    return PASS_CUT;
}

static pass_end leave_undecided(pass *p)
{
    pg_forget(p->c);
    p->c->doubtful = 1; /* RULE A5-a-lost-answer-is-not-tried-again */
    return PASS_UNDECIDED;
}

/* libpq may send what is pushed before the sync: from here on a lost connection means that the
 * server may have got the COMMIT. */
static int send_commit(pass *p)
{
    return pg_push_commit(p->c, p->err) == PAWL_OK && pg_sync(p->c, p->err) == PAWL_OK;
}

/* Results up to COMMIT's. From the sync on a lost connection makes the commit undecided; an error
 * does not, since the server skips the COMMIT after it. */
static pass_end take_all(pass *p, pg_ops *guards, pg_ops *plain)
{
    pawl_code rc = guards ? pg_take_begin(p->c, p->err) : PAWL_OK;
    if (rc == PAWL_OK && guards)
        rc = pg_ops_take(p->c, guards, p->err);
    if (rc == PAWL_OK)
        rc = pg_ops_take(p->c, plain, p->err);
    if (rc == PAWL_OK)
        return take_end(p);
    return rc == PAWL_UNREACHABLE ? leave_undecided(p) : fail_pass(p, rc);
}

/* The rows of a unit did not fit into its memory, although the unit is durable. It is answered with
 * PAWL_UNDECIDED, so that the caller reads from the database what became of it. */
static pass_end fail_without_rows(pass *p, pass_end end)
{
    for (size_t i = 0; end == PASS_DONE && i < p->count; i++) {
        unit *u = p->units[i];
        if (u->answer == UNIT_FAILED && u->code != PAWL_FENCED && u->code != PAWL_REWOUND)
            batch_fail(u, &(error){.code = PAWL_UNDECIDED,
                                   .message = "durable, but its answer did not fit into memory"});
    }
    return end;
}

static pass_end commit_writes(pass *p, pg_ops *plain)
{
    pawl_code rc = pg_ops_push(p->c, plain, p->err);
    if (rc != PAWL_OK)
        return fail_pass(p, rc);
    return send_commit(p) ? fail_without_rows(p, take_all(p, NULL, plain)) : leave_undecided(p);
}

/* Plain writes and COMMIT go in one trip, unless rows have to be checked in between. */
static pass_end write_and_commit(pass *p, pg_ops *plain)
{
    if (!plain->narrow)
        return commit_writes(p, plain);
    pawl_code rc = pg_ops_run(p->c, plain, p->err);
    if (rc != PAWL_OK)
        return fail_pass(p, rc);
    if (!all_fit(p))
        return roll_back_to_cut(p);
    pg_ops none;
    pg_ops_init(&none, p->c);
    return commit_writes(p, &none);
}

/* Run the UNIT_FOUND statements of the units that were refused. */
static pawl_code run_found(pass *p)
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
    pawl_code rc = found.failed ? error_nomem(p->err) : PAWL_OK;
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

/* The statements of the first trip; `how` is for guards. */
static void gather_asking(pass *p, pg_ops *ops, pg_op_how how)
{
    pg_ops_init(ops, p->c);
    for (size_t i = 0; i < p->count; i++)
        for (unit_stmt *s = p->units[i]->first; s; s = s->next)
            if (is_guard_or_try(s))
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

/* The first trip begins and runs the guards; the second one, knowing their rows, writes and
 * commits. */
static pass_end run_two_trips(pass *p)
{
    pg_ops guards, plain;
    gather_asking(p, &guards, PG_OP_PLAIN);
    if (guards.failed)
        return fail_pass(p, error_nomem(p->err));
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
        return fail_pass(p, rc);
    if (!all_fit(p) || !answer_units(p))
        return roll_back_to_cut(p);
    rc = run_found(p);
    if (rc == PAWL_OK && !all_fit(p))
        return roll_back_to_cut(p);
    gather_writes(p, &plain);
    if (rc == PAWL_OK && plain.failed)
        rc = error_nomem(p->err);
    return rc == PAWL_OK ? write_and_commit(p, &plain) : fail_pass(p, rc);
}

/* Everything in one trip. A guard without a row is an error there, which ends the transaction. */
static pass_end run_one_trip(pass *p, const unit_stmt *keeper, int column)
{
    pg_ops guards, plain;
    for (size_t i = 0; i < p->count; i++)
        batch_commit_unit(p->units[i]);
    gather_asking(p, &guards, PG_OP_MUST);
    gather_writes(p, &plain);
    if (guards.failed || plain.failed)
        return fail_pass(p, error_nomem(p->err));
    int fits =
        !keeper || (pg_ops_keep(&guards, keeper, column) && pg_ops_keep(&plain, keeper, column));
    if (guards.narrow || plain.narrow || !fits)
        return run_two_trips(p);
    pawl_code rc = pg_push_begin(p->c, p->err);
    if (rc == PAWL_OK)
        rc = pg_ops_push(p->c, &guards, p->err);
    if (rc == PAWL_OK)
        rc = pg_ops_push(p->c, &plain, p->err);
    if (rc != PAWL_OK)
        return fail_pass(p, rc);
    return send_commit(p) ? fail_without_rows(p, take_all(p, &guards, &plain)) : leave_undecided(p);
}

static int any_asks(unit **units, size_t count)
{
    for (size_t i = 0; i < count; i++)
        for (const unit_stmt *s = units[i]->first; s; s = s->next)
            if (is_guard_or_try(s))
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
    int column = 0;
    needs most = p->count == 1 ? needs_of(p->units[0]) : NEEDS_ORDER;
    const unit_stmt *keeper = most == NEEDS_GUARDS ? keeper_of(p->units[0], &column) : NULL;
    int lone = most == NEEDS_NOTHING || keeper;
    if (!any_cut_off(p->units, p->count) && (lone || !any_asks(p->units, p->count)))
        return run_one_trip(p, keeper, column);
    return run_two_trips(p);
}

/* ---- All of them ---- */

/* Applies the units in one transaction each. Stops at a unit that has to wait, or is undecided. */
static void one_by_one(pg_conn *c, unit **units, size_t count, uint64_t *passes, error *err,
                       batch_result *r)
{
    for (size_t i = 0; i < count && r->code == PAWL_OK && r->undecided == 0; i++) {
        c->met_lock = 0;
        batch_result one = batch_apply(&c->base, &units[i], 1, passes, err);
        r->taken += one.taken;
        r->undecided = one.undecided;
        r->restarts += one.restarts;
        r->code = one.code;
    }
    r->locked = r->code == PAWL_BUSY && c->met_lock;
    r->code = r->locked ? PAWL_OK : r->code;
}

static int has_guest(const unit *u)
{
    for (const unit_stmt *s = u->first; s; s = s->next)
        if (s->kind == UNIT_CALL)
            return 1;
    return 0;
}

/* How long to wait for a lock. A unit with a guest shares its connection with no other, and the
 * guest should not be called twice. */
static int64_t lock_ms(const pg_conn *c, const unit *first, size_t searched)
{
    if (has_guest(first))
        return pg_lock_ms(c);
    return searched > 0 || first->commit.set_aside ? SEARCH_MS : LOCK_MS;
}

/* Returns how many units to try next. If one of the next `searched` units has met a lock, half of
 * them are tried. */
static size_t portion(size_t left, size_t most, size_t searched)
{
    size_t n = searched > 1 ? searched / 2 : searched == 1 ? 1 : most;
    n = n < most ? n : most;
    return left < n ? left : n;
}

static void finish_pass(pass *p, pass_end end, batch_result *r)
{
    if (end == PASS_UNDECIDED) {
        batch_undecided(p->units, p->count, p->err);
        r->undecided = p->count;
    }
    batch_break_submitters(p->units, p->count);
    r->taken += p->count;
}

/* The state of pg_apply() between its passes. */
typedef struct course {
    size_t most;     /* units in the next pass */
    size_t searched; /* a lock was met by one of so many of the next units; 0: by none */
    int deadlocks;   /* in a row */
} course;

/* 1: the transaction was rolled back, and the same units are to be tried again, perhaps fewer at a
 * time. */
static int is_to_be_repeated(const pass *p, pass_end end, course *way)
{
    if (end == PASS_CUT && p->cut > 0) {
        way->most = p->cut;
        return 1;
    }
    if (end != PASS_SPLIT || p->count == 1)
        return 0;
    if (p->c->met_lock) {
        way->searched = p->count;
        return 1;
    }
    return p->err->code == PAWL_BUSY && ++way->deadlocks < DEADLOCKS_MAX;
}

batch_result pg_apply(db_conn *base, unit **units, size_t count, uint64_t *passes, error *err)
{
    batch_result r = {0};
    pg_conn *c = (pg_conn *)base;
    course way = {.most = count};
    batch_remember(units, count);
    while (r.taken < count && r.code == PAWL_OK && r.undecided == 0 && !r.locked) {
        unit **some = units + r.taken;
        size_t before = r.taken;
        int ordered;
        size_t n =
            count_batchable(some, portion(count - r.taken, way.most, way.searched), &ordered);
        pg_want_lock_ms(c, lock_ms(c, some[0], way.searched));
        c->met_lock = 0;
        pass p = {.c = c, .units = some, .count = n, .number = ++*passes, .err = err};
        pass_end end = ordered ? PASS_SPLIT : run_pass(&p);
        r.restarts += !ordered && (end == PASS_CUT || end == PASS_SPLIT);
        if (!ordered && is_to_be_repeated(&p, end, &way))
            continue;
        if (end == PASS_LATER)
            r.code = err->code;
        else if (end == PASS_SPLIT && !ordered && c->met_lock)
            r.locked = 1; /* RULE L4-a-unit-that-waits-for-a-lock-is-set-aside */
        else if (end == PASS_CUT || end == PASS_SPLIT)
            one_by_one(c, some, end == PASS_CUT ? 1 : n, passes, err, &r);
        else
            finish_pass(&p, end, &r);
        size_t done = r.taken - before;
        way = (course){.most = count, .searched = way.searched > done ? way.searched - done : 0};
    }
    return r;
}
