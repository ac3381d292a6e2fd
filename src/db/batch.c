/* One transaction, many units, each as if it were alone.
 *
 * A savepoint removes every trace of a unit that is refused or fails. Only a unit that has a guard
 * behind a write, or a guest, needs one: any other unit is refused before it has written anything.
 * (Savepoints for all were a fifth of all instructions.) A unit that fails without a savepoint
 * costs the whole transaction, which is rare, since plain writes seldom fail.
 *
 * A savepoint does not help when the database ends the whole transaction by itself (SQLite does,
 * when the disk is full or cannot be read): the writes of the units before the guilty unit are gone
 * too, and the units after it would be committed without them. So after any error the driver is
 * asked whether the transaction is still open. If not, the batch starts again with only the units
 * before the guilty one; a guilty unit that was the first is tried again alone.
 *
 * Until the database has answered the COMMIT all answers are provisional, refusals too: a guard may
 * have refused because of a row that another unit of the batch wrote, and that row may be lost. */
#include "db/batch.h"

#include <assert.h>
#include <string.h>

static const db_sql MARK = {"SAVEPOINT pawl_unit", ""};
static const db_sql KEEP = {"RELEASE pawl_unit", ""};
/* RULE A4-a-refused-unit-leaves-nothing */
static const db_sql DROP = {"ROLLBACK TO pawl_unit", ""};

typedef struct pass {
    db_conn *conn;
    uint64_t number;
    int marks; /* 1: savepoints are used; 0: the pass has one unit, and is rolled back as a whole */
    error *err;
    int feed;       /* is the change feed written? 0: not asked yet; 1: no; 2: yes */
    int writes;     /* the transaction has done more than append to journals */
    db_append last; /* the journal row that the transaction has appended last */
} pass;

/* ---- Answers ---- */

static void set_answer(unit *u, unit_answer what, pawl_code code)
{
    u->answer = what;
    u->code = code;
}

int batch_is_passing(pawl_code code)
{
    return code == PAWL_BUSY || code == PAWL_UNREACHABLE;
}

void batch_commit_unit(unit *u)
{
    set_answer(u, UNIT_COMMITTED, PAWL_OK);
}

void batch_fail(unit *u, const error *err)
{
    set_answer(u, UNIT_FAILED, err->code);
    u->refused = NULL;
    char *copy = arena_copy(u->arena, slice_of(err->detail[0] ? err->detail : err->message));
    u->message = copy ? copy : pawl_code_text(err->code);
}

/* All units fail with `err`. But if the node was closed, or the database was rewound, all units are
 * refused instead, since that is no fault of theirs. */
void batch_fail_all(unit **units, size_t count, const error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (err->code == PAWL_FENCED || err->code == PAWL_REWOUND)
            batch_refuse(units[i], err->code == PAWL_FENCED ? "node" : "back");
        else
            batch_fail(units[i], err);
    }
}

void batch_refuse(unit *u, const char *why)
{
    set_answer(u, UNIT_REFUSED, PAWL_REFUSED);
    u->refused = why;
}

/* Marks each unit's arena before the first attempt: what an attempt allocates is released before
 * the next attempt. */
void batch_remember(unit **units, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (!units[i]->commit.marked)
            units[i]->commit.mark = arena_mark_now(units[i]->arena);
        units[i]->commit.marked = 1;
    }
}

void batch_start_over(unit *u)
{
    arena_rewind(u->arena, u->commit.mark);
    for (unit_stmt *s = u->first; s; s = s->next) {
        s->rows = NULL;
        s->left_out = 0;
    }
    u->refused = u->message = NULL;
    u->found = NULL;
    u->at_commit = 0;
    set_answer(u, UNIT_OPEN, PAWL_OK);
}

/* ---- One statement of a unit ---- */

static pawl_code copy_value(arena *a, db_value v, db_value *out, error *err)
{
    *out = v;
    if (v.type == DB_TEXT || v.type == DB_BYTES) {
        out->s.at = arena_copy(a, v.s);
        if (!out->s.at)
            return error_set(err, PAWL_LIMIT, "the answer does not fit into the unit's memory");
    }
    return PAWL_OK;
}

static pawl_code copy_row(unit *u, db_stmt *s, unit_row ***tail, error *err)
{
    int count = s->conn->driver->columns(s);
    unit_row *row = arena_alloc(u->arena, sizeof *row + sizeof row->values[0] * (size_t)count);
    if (!row)
        return error_set(err, PAWL_LIMIT, "the answer does not fit into the unit's memory");
    row->count = count;
    for (int i = 0; i < count; i++) {
        pawl_code rc = copy_value(u->arena, db_column(s, i), &row->values[i], err);
        if (rc != PAWL_OK)
            return rc;
    }
    **tail = row;
    *tail = &row->next;
    return PAWL_OK;
}

/* *out is the parameter itself or, for a db_from(), the value that its source has returned. */
pawl_code batch_resolve(const unit_stmt *s, int i, const db_value **out, error *err)
{
    const db_value *v = *out = &s->values[i];
    if (v->type != DB_FROM)
        return PAWL_OK;
    const unit_row *row = s->sources[i]->rows;
    if (!row || v->i >= row->count)
        return error_set(err, PAWL_INTERNAL, "a unit uses a value that no statement returned");
    *out = &row->values[v->i];
    return PAWL_OK;
}

static pawl_code bind_all(const unit_stmt *what, db_stmt *s, error *err)
{
    for (int i = 0; i < what->count; i++) {
        const db_value *v;
        pawl_code rc = batch_resolve(what, i, &v, err);
        if (rc == PAWL_OK)
            rc = s->conn->driver->bind(s, i + 1, v, err);
        if (rc != PAWL_OK)
            return rc;
    }
    return PAWL_OK;
}

static pawl_code run_stmt(pass *p, unit *u, unit_stmt *what)
{
    db_stmt *s;
    pawl_code rc = db_prepare(p->conn, what->sql, &s, p->err);
    if (rc != PAWL_OK)
        return rc;
    rc = bind_all(what, s, p->err);
    unit_row **tail = &what->rows;
    while (rc == PAWL_OK) {
        db_step step = db_next(s, p->err);
        if (step == DB_DONE)
            break;
        rc = step == DB_ROW ? copy_row(u, s, &tail, p->err) : p->err->code;
    }
    db_reset(s);
    return rc;
}

/* ---- A guest ---- */

static pawl_code give_row(unit *u, unit_stmt *s, slice value, error *err)
{
    unit_row *row = arena_alloc(u->arena, sizeof *row + sizeof row->values[0]);
    db_value v = db_bytes(value);
    if (!row || copy_value(u->arena, v, &row->values[0], err) != PAWL_OK)
        return error_set(err, PAWL_LIMIT, "the answer does not fit into the unit's memory");
    row->count = 1;
    s->rows = row;
    return PAWL_OK;
}

/* Calls the guest and then checks the transaction, whatever the guest has returned. A guest that
 * returns no value asks for a rollback: it may leave a failed transaction behind, but it is misuse
 * if the guest has ended the transaction. */
static pawl_code call_guest(pass *p, unit *u, unit_stmt *s)
{
    const db_driver *driver = p->conn->driver;
    void *native;
    pawl_code rc = driver->guests.lend(p->conn, &native, p->err);
    if (rc != PAWL_OK)
        return rc;
    slice value = s->guest->call(native, s->guest->arg);
    /* RULE A8-the-transaction-is-looked-at-afterwards */
    rc = driver->guests.take_back(p->conn, p->err);
    s->guest->misused = rc == PAWL_MISUSE && (value.at || !driver->in_transaction(p->conn));
    if (s->guest->misused || !value.at)
        return PAWL_OK;
    return rc == PAWL_OK ? give_row(u, s, value, p->err) : rc;
}

/* ---- One unit ---- */

static int must_give(const unit_stmt *s)
{
    return s->kind == UNIT_GUARD || s->kind == UNIT_CALL;
}

/* Where one transaction writes at a time the change feed is written only while a reader has asked
 * for it: the transaction of that request comes before this one or after it. Where several write at
 * a time this transaction might miss the request, so there the feed is always written. If the row
 * cannot be read the unit fails, since the transaction may be gone. */
static pawl_code read_feed_switch(pass *p)
{
    static const db_sql FEED = {"SELECT number FROM {meta} WHERE name = 'feed'", ""};
    int64_t until = 0;
    int found;
    pawl_code rc = PAWL_OK;
    if (p->feed == 0 && (p->conn->driver->promises & DB_TURNS)) {
        rc = db_number(p->conn, &FEED, NULL, 0, &until, &found, p->err);
        p->feed = rc != PAWL_OK ? 0 : until == 0 ? 1 : 2;
    }
    return rc;
}

static void record_append(pass *p, const unit_stmt *s)
{
    if (s->appends)
        p->last = (db_append){s->values[0].i, s->values[1].i, s->values[2].i, s->values[6].i};
    else
        p->writes |= s->kind == UNIT_CALL || unit_stmt_writes(s);
}

static pawl_code run_one(pass *p, unit *u, unit_stmt *s)
{
    pawl_code rc = s->note ? read_feed_switch(p) : PAWL_OK;
    if (rc != PAWL_OK || unit_leaves_out(s) || (s->note && p->feed == 1))
        return rc;
    record_append(p, s);
    return s->kind == UNIT_CALL ? call_guest(p, u, s) : run_stmt(p, u, s);
}

/* Run the statements of the unit in order, up to the first guard that gives no row, which refuses
 * the unit, and the UNIT_FOUND statement behind that guard. */
static pawl_code run_all(pass *p, unit *u)
{
    for (unit_stmt *s = u->first; s; s = s->next) {
        if (s->kind == UNIT_FOUND)
            continue;
        pawl_code rc = run_one(p, u, s);
        if (rc != PAWL_OK)
            return rc;
        if (!must_give(s) || s->rows) /* RULE A4-a-guard-without-rows-refuses */
            continue;
        batch_refuse(u, s->name);
        if (s->next && s->next->kind == UNIT_FOUND && !unit_leaves_out(s->next)) {
            rc = run_stmt(p, u, s->next);
            u->found = s->next->rows;
        }
        return rc;
    }
    batch_commit_unit(u);
    return PAWL_OK;
}

/* Leave nothing of the unit in the transaction. Without a savepoint the whole transaction is rolled
 * back. db_rollback() is called also where the database has already ended the transaction, since
 * the driver has to be told that it is over. */
static void drop_unit(pass *p, int marked)
{
    /* RULE A4-the-end-of-a-lost-transaction-is-told */
    if (!marked || !p->conn->driver->in_transaction(p->conn) ||
        db_run(p->conn, &DROP, NULL, 0, NULL) != PAWL_OK ||
        db_run(p->conn, &KEEP, NULL, 0, NULL) != PAWL_OK)
        db_rollback(p->conn);
}

/* Applies one unit, and gives it its provisional answer. 1: the transaction is still open; 0: the
 * database has ended it (see p->err), or it was rolled back to remove the unit. */
static int apply_unit(pass *p, unit *u)
{
    submitter *owner = u->submitter;
    /* RULE A4-a-failed-unit-breaks-its-submitter-in-the-pass */
    if (owner && (unit_is_cut_off(u) || owner->broken_in == p->number)) {
        batch_refuse(u, "prefix");
        return 1;
    }
    int mark = p->marks && u->needs_mark;
    pawl_code rc = mark ? db_run(p->conn, &MARK, NULL, 0, p->err) : PAWL_OK;
    if (rc == PAWL_OK)
        rc = run_all(p, u);
    if (rc == PAWL_OK && u->answer == UNIT_COMMITTED && mark)
        rc = db_run(p->conn, &KEEP, NULL, 0, p->err);
    if (rc == PAWL_OK && u->answer == UNIT_COMMITTED)
        return 1;
    if (owner)
        owner->broken_in = p->number;
    if (rc == PAWL_OK && !u->needs_mark)
        return 1; /* refused before anything was written */
    if (rc != PAWL_OK)
        batch_fail(u, p->err);
    drop_unit(p, mark);
    /* RULE A4-after-an-error-ask-for-the-transaction */
    return p->conn->driver->in_transaction(p->conn);
}

/* ---- One pass over some units: one transaction ---- */

typedef enum { PASS_DONE, PASS_LATER, PASS_GONE, PASS_SPOILT, PASS_UNDECIDED } pass_end;

/* Has the pass one unit, which was refused or has failed? Its answer is final then: nothing is to
 * be committed. */
static int lone_answer(const pass *p, const unit *u)
{
    return !p->marks && (u->answer == UNIT_REFUSED || u->answer == UNIT_FAILED);
}

/* Commits the pass. Deferred constraints are checked only by the COMMIT, which does not say which
 * unit broke one. So each unit is tried again alone (PASS_SPOILT), and the guilty unit fails. */
static pass_end end_pass(pass *p, unit **units, size_t count)
{
    for (size_t i = 0; i < count; i++) /* `last` may have been rolled back with its unit */
        p->writes |= units[i]->answer != UNIT_COMMITTED;
    p->conn->appended = p->writes ? (db_append){.run = 0} : p->last;
    pawl_code rc = db_commit(p->conn, p->err); /* RULE 5-answers-come-after-the-commit */
    if (rc == PAWL_OK)
        return PASS_DONE;
    if (rc != PAWL_BUSY && rc != PAWL_DATA)
        return PASS_UNDECIDED;
    db_rollback(p->conn);
    if (rc == PAWL_BUSY)
        return PASS_LATER;
    if (count > 1)
        return PASS_SPOILT;
    batch_fail(units[0], p->err);
    units[0]->at_commit = 1;
    return PASS_DONE;
}

static pass_end run_pass(pass *p, unit **units, size_t count, size_t *guilty)
{
    pawl_code rc = db_begin(p->conn, p->err);
    if (batch_is_passing(rc))
        return PASS_LATER;
    if (rc != PAWL_OK) {
        batch_fail_all(units, count, p->err);
        return PASS_DONE;
    }
    for (size_t i = 0; i < count; i++) {
        batch_start_over(units[i]);
        int there = apply_unit(p, units[i]);
        if (units[i]->answer == UNIT_FAILED && batch_is_passing(units[i]->code)) {
            if (there)
                db_rollback(p->conn);
            return PASS_LATER;
        }
        if (!there && !lone_answer(p, units[i])) {
            *guilty = i;
            return PASS_GONE;
        }
    }
    if (!p->conn->driver->in_transaction(p->conn))
        return PASS_DONE;
    return end_pass(p, units, count);
}

void batch_break_submitters(unit **units, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (units[i]->answer != UNIT_COMMITTED)
            /* RULE A4-a-failed-unit-breaks-its-submitter-for-good */
            unit_break_submitter(units[i]);
}

/* The provisional answers hold if the commit has happened: they are kept until that is known. */
void batch_undecided(unit **units, size_t count, const error *err)
{
    for (size_t i = 0; i < count; i++) {
        units[i]->commit.provisional = units[i]->answer; /* RULE A5-refusals-are-undecided-too */
        units[i]->commit.provisional_code = units[i]->code;
        set_answer(units[i], UNIT_UNDECIDED, PAWL_UNDECIDED);
        units[i]->commit.cause = err->code;
    }
}

batch_result batch_apply(db_conn *c, unit **units, size_t count, uint64_t *passes, error *err)
{
    batch_result r = {0};
    size_t most = count, usual = count;
    batch_remember(units, count);
    while (r.taken < count) {
        size_t left = count - r.taken;
        size_t n = left < most ? left : most;
        unit **some = units + r.taken;
        size_t guilty = 0;
        pass p = {.conn = c, .number = ++*passes, .marks = n > 1, .err = err};
        pass_end end = run_pass(&p, some, n, &guilty);
        if (end == PASS_LATER) {
            r.code = err->code;
            return r;
        }
        if (end == PASS_GONE || end == PASS_SPOILT) {
            r.restarts++;
            most = guilty > 0 ? guilty : 1;
            usual = end == PASS_SPOILT ? 1 : usual;
            continue;
        }
        if (end == PASS_UNDECIDED) {
            batch_undecided(some, n, err);
            r.undecided = n;
        }
        batch_break_submitters(some, n);
        r.taken += n;
        most = usual;
        if (r.undecided)
            return r;
    }
    return r;
}
