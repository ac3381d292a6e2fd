/* Redrive: a run that has failed, was cancelled, or is held goes on as a new generation, whose
 * journal begins with a copy of what is kept.
 *
 * The rows up to a cut are kept, and those later rows that answer a kept op: a call that was begun
 * before the cut and has been answered is not made again. The cut lies before the first op that has
 * failed, or before the op that the option `from` names. In any case it lies before ops that were
 * undone, before a child that was cancelled with its parent, and before work in retry that is the
 * last op: that work begins anew, without the pause of its retry. Work in retry that is not the
 * last op is kept, and goes on with its next attempt.
 *
 * A redrive is one unit, under a guard that no other unit has changed the run since its journal was
 * read. Messages that were received after the cut go back to their mailbox under their old numbers,
 * and so in front of all messages that have arrived since. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/send.h"
#include "api/start.h"
#include "base/argument.h"
#include "base/json.h"
#include "base/map.h"
#include "base/options.h"
#include "journal/op.h"
#include "rows/run_units.h"
#include "sched/arrival.h"

enum { PAGE = 256, TRIES_MAX = 8 };

static const db_sql RUN = {"SELECT run, phase, held, owner, fence, generation, version,"
                           " CASE WHEN input IS NULL THEN 1 ELSE 0 END FROM {runs}"
                           " WHERE tenant = $1 AND id = $2",
                           "tt"};

static const db_sql ROWS = {"SELECT seq, kind, op, name, at, data FROM {journal}"
                            " WHERE run = $1 AND generation = $2 AND seq > $3"
                            " ORDER BY seq LIMIT $4",
                            "iiii"};

/* A child that was cancelled, or that has ended without a result in the inbox: its parent had ended
 * by then. */
static const db_sql CANCELLED_CHILD = {
    "SELECT run FROM {runs} WHERE run = $1 AND (cancel_at IS NOT NULL OR phase = {CANCELLED}"
    " OR (phase IN ({DONE}, {FAILED}) AND parent = $2 AND NOT EXISTS (SELECT 1 FROM {inbox} i"
    " WHERE i.run = $2 AND i.kind = {INBOX_CHILD} AND i.op = $3)))",
    "iii"};

static const db_sql RECEIPT = {"INSERT INTO {receipts} (run, key, kind, seq, at, answer)"
                               " VALUES ($1, $2, 2, $3, $4, $5)"
                               " ON CONFLICT DO NOTHING RETURNING seq",
                               "itiib"};

static const db_sql GIVEN = {"SELECT kind, answer FROM {receipts} WHERE run = $1 AND key = $2",
                             "it"};

/* A deadline that has passed is removed, so that it does not end the run again at once. */
static const db_sql GUARD = {
    "UPDATE {runs} SET generation = generation + 1, phase = {LIVE}, held = 0, held_reason = NULL,"
    " held_for = NULL, held_at = NULL, fence = fence + 1, wake_at = $4, claims = 1,"
    " claimed_seq = 0, cancel_at = NULL, error = NULL, output = NULL, finished_at = NULL,"
    " updated_at = $4, version = CASE WHEN $5 = '' THEN version ELSE $5 END,"
    " deadline_at = CASE WHEN deadline_at <= $4 THEN NULL ELSE deadline_at END"
    " WHERE run = $1 AND generation = $2 AND fence = $3 AND owner = 0"
    " AND (phase IN ({FAILED}, {CANCELLED}) OR held <> 0) RETURNING generation",
    "kiiit"};

static const db_sql OVER = {
    "INSERT INTO {generations} (run, generation, version, phase, started_at, finished_at)"
    " VALUES ($1, $2, $3, $4, coalesce((SELECT max(g.finished_at) FROM {generations} g"
    " WHERE g.run = $1), (SELECT r.created_at FROM {runs} r WHERE r.run = $1), $5), $5)",
    "iitii"};

/* A small input is kept in the run's row. It becomes the first journal row of the old generation,
 * so that the history of that generation shows it. */
static const db_sql INPUT = {
    "INSERT INTO {journal} (run, generation, seq, kind, op, name, at, enc, data)"
    " SELECT r.run, $2, 1, 1, 0, '', r.created_at, r.enc, r.input FROM {runs} r WHERE r.run = $1",
    "ii"};

static const db_sql KEEP = {
    "INSERT INTO {journal} (run, generation, seq, kind, op, name, at, enc, data)"
    " SELECT j.run, $3, j.seq, j.kind, j.op, j.name, j.at, j.enc, j.data FROM {journal} j"
    " WHERE j.run = $1 AND j.generation = $2 AND j.seq >= $5 AND j.seq < $4 ORDER BY j.seq",
    "iiiii"};

static const db_sql KEEP_ANSWER = {
    "INSERT INTO {journal} (run, generation, seq, kind, op, name, at, enc, data)"
    " SELECT j.run, $3, $5, j.kind, j.op, j.name, j.at, j.enc, j.data FROM {journal} j"
    " WHERE j.run = $1 AND j.generation = $2 AND j.seq = $4",
    "iiiii"};

static const db_sql GIVE_BACK = {
    "INSERT INTO {inbox} (run, seq, generation, op, attempt, kind, name, key, by, at, enc, data)"
    " VALUES ($1, $2, 0, 0, 0, 1, $3, NULL, $4, $5, 0, $6)",
    "iittib"};

static const db_sql CHILDREN = {
    "UPDATE {runs} SET parent_generation = $3 WHERE parent = $1 AND parent_generation = $2"
    " AND parent_op < $4",
    "iiii"};

/* The condition on messages is redundant: it lets the database use the partial index that leaves
 * out messages. */
static const db_sql RESULTS = {"UPDATE {inbox} SET generation = $3 WHERE run = $1"
                               " AND generation = $2 AND kind <> {INBOX_MESSAGE}"
                               " AND kind = {INBOX_CHILD} AND op < $4",
                               "iiii"};

/* Deletes a cancel request of the old generation that the run has not received yet. */
static const db_sql UNCANCEL = {"DELETE FROM {inbox} WHERE run = $1 AND kind <> {INBOX_MESSAGE}"
                                " AND kind = {INBOX_CANCEL}",
                                "i"};

/* ---- What is there ---- */

typedef struct row {
    struct row *next;
    int64_t seq;
    int64_t kind;
    int64_t op;
    int64_t at_ms;
    const char *name;
    const char *data; /* NULL unless needs_data() */
    int64_t effect;   /* seq of the last row before this one that had an effect outside */
    int answered;
    int tried; /* an attempt has failed */
} row;

typedef struct redrive_plan {
    arena *memory;
    int64_t run;
    int64_t phase;
    int64_t held;
    int64_t owner;
    int64_t fence;
    int64_t generation;
    const char *version;
    int large; /* 1: the input is in the journal, 0: in the run's row */
    row *first;
    row *last;
    int page; /* number of rows on the page that was read last */
    map by_seq;
    int64_t cut; /* rows with a smaller seq are kept */
    unsigned char scope[DIGEST_SIZE];
    int given; /* 1: the idempotency key was used before */
    int same;  /* 1: that was for a redrive with the same scope */
    int64_t given_kind;
} redrive_plan;

static void free_map(void *arg)
{
    map_free(arg);
}

static pawl_code note_run(void *arg, db_stmt *st, error *err)
{
    redrive_plan *s = arg;
    s->run = read_pool_int(st, 0);
    s->phase = read_pool_int(st, 1);
    s->held = read_pool_int(st, 2);
    s->owner = read_pool_int(st, 3);
    s->fence = read_pool_int(st, 4);
    s->generation = read_pool_int(st, 5);
    s->version = arena_copy(s->memory, read_pool_text(st, 6));
    s->large = read_pool_int(st, 7) != 0;
    return s->version ? PAWL_OK : error_nomem(err);
}

static pawl_code read_run(db_conn *c, redrive_plan *s, slice tenant, slice id, error *err)
{
    const db_value values[] = {db_text(tenant), db_text(id)};
    pawl_code rc = read_pool_rows(c, &RUN, values, DB_COUNT(values), note_run, s, err);
    return rc == PAWL_OK && s->run == 0 ? read_pool_no_run(err) : rc;
}

/* Data may be large, and is read for these kinds only. */
static int needs_data(int64_t kind)
{
    return kind == OP_MESSAGE || kind == OP_CHILD || kind == OP_CLEAN_UP;
}

static row *row_at(const redrive_plan *s, int64_t seq)
{
    return map_get(&s->by_seq, (uint64_t)seq);
}

static pawl_code note_row(void *arg, db_stmt *st, error *err)
{
    redrive_plan *s = arg;
    row *r = arena_alloc(s->memory, sizeof *r);
    const char *name = r ? arena_copy(s->memory, read_pool_text(st, 3)) : NULL;
    if (!name || map_put(&s->by_seq, (uint64_t)read_pool_int(st, 0), r) != 0)
        return error_nomem(err);
    *r = (row){.seq = read_pool_int(st, 0),
               .kind = read_pool_int(st, 1),
               .op = read_pool_int(st, 2),
               .at_ms = read_pool_int(st, 4),
               .name = name};
    if (needs_data(r->kind) && !read_pool_is_null(st, 5) &&
        !(r->data = arena_copy(s->memory, read_pool_text(st, 5))))
        return error_nomem(err);
    const op_info *info = op_find(r->kind);
    row *about = r->op ? row_at(s, r->op) : NULL;
    if (about && info && info->shape == OP_SHAPE_ANSWER)
        about->answered = 1;
    if (about && r->kind == OP_ATTEMPT)
        about->tried = 1;
    if (s->last)
        s->last->next = r;
    else
        s->first = r;
    s->last = r;
    s->page++;
    return PAWL_OK;
}

static pawl_code read_page(db_conn *c, redrive_plan *s, error *err)
{
    const db_value values[] = {db_int(s->run), db_int(s->generation),
                               db_int(s->last ? s->last->seq : 0), db_int(PAGE)};
    s->page = 0;
    return read_pool_rows(c, &ROWS, values, DB_COUNT(values), note_row, s, err);
}

static int is_op(const row *r)
{
    const op_info *info = op_find(r->kind);
    return info && (info->shape == OP_SHAPE_VALUE || info->shape == OP_SHAPE_OPEN);
}

/* ---- The cut ---- */

static void cut_before(redrive_plan *s, int64_t seq)
{
    if (seq < s->cut)
        s->cut = seq;
}

static int did_something(const row *r)
{
    return r->kind == OP_STEP || r->kind == OP_TRANSACT || r->kind == OP_CHILD ||
           op_is_work((op_kind)r->kind);
}

/* Cuts before the op that this clean-up has undone. A pawl_undo() comes after the op that it
 * undoes, the option `undo` is part of that op. */
static void cut_undone(redrive_plan *s, int64_t clean_up)
{
    const row *what = row_at(s, clean_up);
    int64_t of = what && what->data ? pawl_get_int(what->data, "/of", 0) : 0;
    const row *undo = row_at(s, of);
    if (!undo || undo->kind == OP_FINALLY)
        return;
    cut_before(s, undo->kind == OP_UNDO && undo->effect ? undo->effect : undo->seq);
}

static void cut_at_end(redrive_plan *s)
{
    int64_t effect = 0;
    for (row *r = s->first; r; r = r->next) {
        r->effect = effect;
        if (did_something(r))
            effect = r->seq;
    }
    for (const row *r = s->first; r; r = r->next) {
        const row *about = r->op ? row_at(s, r->op) : NULL;
        if (r->kind == OP_ENDING)
            cut_before(s, r->seq);
        else if (r->kind == OP_DONE && about && about->kind == OP_CLEAN_UP)
            cut_undone(s, r->op); /* RULE A7-what-was-undone-is-done-again */
    }
}

static void cut_at_failure(redrive_plan *s)
{
    for (const row *r = s->first; r; r = r->next) {
        if (r->kind == OP_STEP_FAILED || r->kind == OP_TRANSACT_FAILED)
            cut_before(s, r->seq);
        else if (r->kind == OP_FAILED)
            cut_before(s, r->op);
    }
}

/* Cuts before work in retry if it is the last op, so that the cut drops no finished op. A
 * pawl_until() is kept, with the time at which it gives up. */
static void cut_at_retry(redrive_plan *s)
{
    const row *last = NULL;
    for (const row *r = s->first; r && r->seq < s->cut; r = r->next)
        if (is_op(r))
            last = r;
    if (!last || last->answered)
        return;
    int tried = last->tried && (last->kind == OP_CALL || last->kind == OP_STEP_LATER);
    if (tried || last->kind == OP_STEP_AGAIN) /* RULE A7-work-in-retry-is-begun-anew */
        cut_before(s, last->seq);
}

static pawl_code cut_at_name(redrive_plan *s, const char *name, error *err)
{
    for (const row *r = s->first; r; r = r->next) {
        if (!is_op(r) || strcmp(r->name, name) != 0)
            continue;
        cut_before(s, r->seq);
        return PAWL_OK;
    }
    error_set(err, PAWL_NOTFOUND, "the run has no op of that name");
    error_hint(err, "pawl history shows the names");
    return PAWL_NOTFOUND;
}

/* A child that was cancelled when its parent ended gives no result: the new generation starts
 * another one. */
static pawl_code cut_at_children(db_conn *c, redrive_plan *s, error *err)
{
    for (const row *r = s->first; r && r->seq < s->cut; r = r->next) {
        int64_t child, key = r->kind == OP_CHILD && r->data ? pawl_get_int(r->data, "/run", 0) : 0;
        int found = 0;
        if (key == 0 || r->answered)
            continue;
        const db_value values[] = {db_int(key), db_int(s->run), db_int(r->seq)};
        pawl_code rc =
            db_number(c, &CANCELLED_CHILD, values, DB_COUNT(values), &child, &found, err);
        if (rc != PAWL_OK)
            return rc;
        if (found)
            cut_before(s, r->seq);
    }
    return PAWL_OK;
}

static pawl_code read_plan(db_conn *c, redrive_plan *s, const pawl_redrive_options *o, error *err)
{
    pawl_code rc;
    do
        rc = read_page(c, s, err);
    while (rc == PAWL_OK && s->page == PAGE);
    s->cut = o->whole ? 2 : s->last ? s->last->seq + 1 : 2;
    if (rc != PAWL_OK || o->whole)
        return rc;
    cut_at_end(s);
    if (o->from)
        rc = cut_at_name(s, o->from, err);
    else
        cut_at_failure(s);
    cut_at_retry(s);
    if (s->cut < 2)
        s->cut = 2;
    return rc == PAWL_OK ? cut_at_children(c, s, err) : rc;
}

/* ---- The unit ---- */

/* Tells whether this row comes after the cut, and answers an op that is kept. */
static int is_kept_answer(const redrive_plan *s, const row *r)
{
    const op_info *info = op_find(r->kind);
    return r->seq >= s->cut && info && info->shape == OP_SHAPE_ANSWER && r->op < s->cut;
}

static void give_message_back(unit *u, const redrive_plan *s, const row *r)
{
    slice message, number, from;
    const row *receive = row_at(s, r->op);
    slice record = slice_of(r->data); /* it may be larger than PAWL_MAX_PAYLOAD */
    if (!receive || value_find(record, SLICE_LIT("/message"), &message) == PAWL_NOTHING ||
        value_find(record, SLICE_LIT("/seq"), &number) != PAWL_NUMBER)
        return;
    slice by = SLICE_LIT("");
    if (value_find(record, SLICE_LIT("/from"), &from) == PAWL_STRING)
        by = slice_of(value_text(s->memory, from));
    const db_value values[] = {db_int(s->run),
                               db_int(strtoll(number.at, NULL, 10)),
                               db_text(slice_of(receive->name)),
                               db_text(by.at ? by : SLICE_LIT("")),
                               db_int(r->at_ms),
                               db_bytes(message)};
    unit_write(u, &GIVE_BACK, unit_key("inbox", s->run), values, DB_COUNT(values));
}

static void write_rows(unit *u, const redrive_plan *s)
{
    int64_t next = s->generation + 1, seq = s->cut;
    uint64_t key = unit_key("journal", s->run);
    if (!s->large) {
        const db_value values[] = {db_int(s->run), db_int(s->generation)};
        unit_write(u, &INPUT, key, values, DB_COUNT(values));
    }
    const db_value kept[] = {db_int(s->run), db_int(s->generation), db_int(next), db_int(s->cut),
                             db_int(s->large ? 1 : 2)};
    unit_write(u, &KEEP, key, kept, DB_COUNT(kept));
    for (const row *r = s->first; r; r = r->next) {
        if (is_kept_answer(s, r)) {
            const db_value values[] = {db_int(s->run), db_int(s->generation), db_int(next),
                                       db_int(r->seq), db_int(seq++)};
            unit_write(u, &KEEP_ANSWER, key, values, DB_COUNT(values));
        } else if (r->seq >= s->cut && r->kind == OP_MESSAGE) {
            give_message_back(u, s, r);
        }
    }
}

static void write_links(unit *u, const redrive_plan *s)
{
    const db_value values[] = {db_int(s->run), db_int(s->generation), db_int(s->generation + 1),
                               db_int(s->cut)};
    unit_write(u, &CHILDREN, unit_key("children", s->run), values, DB_COUNT(values));
    unit_write(u, &RESULTS, unit_key("inbox", s->run), values, DB_COUNT(values));
}

/* The key of a child that was started after the cut and has not been answered, 0 if the row is
 * none: the new generation starts another child in its place. */
static int64_t replaced_child(const redrive_plan *s, const row *r)
{
    if (r->kind != OP_CHILD || !r->data || r->answered || r->seq < s->cut)
        return 0;
    return pawl_get_int(r->data, "/run", 0);
}

static void cancel_replaced_children(unit *u, const redrive_plan *s, int64_t now)
{
    for (const row *r = s->first; r; r = r->next) {
        int64_t key = replaced_child(s, r);
        if (key == 0)
            continue;
        run_inbox_row m = {.run = key,
                           .kind = INBOX_CANCEL,
                           .name = SLICE_LIT(""),
                           .by = SLICE_LIT(""),
                           .at_ms = now,
                           .data = SLICE_LIT("\"its parent begins anew\"")};
        run_try_cancel(u, &m, s->run);
    }
}

static void fill_unit(unit *u, const redrive_plan *s, const pawl_redrive_options *o, int64_t now)
{
    if (o->key) {
        const db_value receipt[] = {db_int(s->run), db_text(slice_of(o->key)),
                                    db_int(s->generation + 1), db_int(now),
                                    db_bytes((slice){(const char *)s->scope, sizeof s->scope})};
        const db_value given[] = {db_int(s->run), db_text(slice_of(o->key))};
        unit_guard(u, &RECEIPT, "key", unit_key("receipts", s->run), receipt, DB_COUNT(receipt));
        unit_found(u, &GIVEN, given, DB_COUNT(given));
    }
    slice version = slice_of(o->version ? o->version : "");
    const db_value guard[] = {db_int(s->run), db_int(s->generation), db_int(s->fence), db_int(now),
                              db_text(version)};
    unit_guard(u, &GUARD, "untouched", unit_key("runs", s->run), guard, DB_COUNT(guard));
    const db_value over[] = {db_int(s->run), db_int(s->generation), db_text(slice_of(s->version)),
                             db_int(s->held ? GENERATION_CONTINUED : s->phase), db_int(now)};
    unit_write(u, &OVER, unit_key("generations", s->run), over, DB_COUNT(over));
    run_note(u, db_int(s->run), now);
    const db_value key = db_int(s->run);
    unit_write(u, &UNCANCEL, unit_key("inbox", s->run), &key, 1);
    write_rows(u, s);
    write_links(u, s);
    cancel_replaced_children(u, s, now);
}

/* ---- The call ---- */

static pawl_code check_state(const redrive_plan *s, error *err)
{
    int over = s->phase == PHASE_FAILED || s->phase == PHASE_CANCELLED;
    if (over || (s->held && s->owner == 0))
        return PAWL_OK;
    if (s->held == HELD_RECORD) {
        error_set(err, PAWL_REFUSED, "what the run has done is in the memory of node %lld only",
                  (long long)s->owner);
        error_hint(err, "release it (pawl release), so that this is recorded; or cancel it");
        return PAWL_REFUSED;
    }
    error_set(err, PAWL_REFUSED, "the run is neither failed, nor cancelled, nor held");
    error_hint(err, s->phase == PHASE_DONE ? "it is done: start another one"
                                           : "hold it first (pawl hold), or cancel it");
    return PAWL_REFUSED;
}

/* The receipt of a redrive keeps a digest of its scope: the options from, whole and version. With
 * `whole` the option from does not matter. */
static void seal_scope(redrive_plan *s, const pawl_redrive_options *o)
{
    digest d;
    digest_begin(&d);
    digest_add(&d, o->whole ? SLICE_LIT("whole") : SLICE_LIT("from"));
    digest_add(&d, (slice){"", 1});
    digest_add(&d, slice_of(o->whole || !o->from ? "" : o->from));
    digest_add(&d, (slice){"", 1});
    digest_add(&d, slice_of(o->version ? o->version : ""));
    digest_end(&d, s->scope);
}

/* A receipt that was written by an older version has no scope, and counts as the same. */
static pawl_code note_receipt(void *arg, db_stmt *st, error *err)
{
    redrive_plan *s = arg;
    (void)err;
    s->given = 1;
    s->given_kind = read_pool_int(st, 0);
    /* RULE a-key-of-a-redrive-has-one-scope */
    s->same = read_pool_is_null(st, 1) ||
              slice_equal(read_pool_text(st, 1), (slice){(const char *)s->scope, sizeof s->scope});
    return PAWL_OK;
}

static pawl_code check_receipt(db_conn *c, redrive_plan *s, const char *key, error *err)
{
    const db_value values[] = {db_int(s->run), db_text(slice_of(key ? key : ""))};
    s->given = 0;
    pawl_code rc = read_pool_rows(c, &GIVEN, values, DB_COUNT(values), note_receipt, s, err);
    if (rc != PAWL_OK || !s->given)
        return rc;
    if (s->given_kind != RECEIPT_REDRIVE)
        return error_set(err, PAWL_CONFLICT, "the key was used for a message");
    if (s->same)
        return PAWL_OK;
    error_set(err, PAWL_CONFLICT, "the key was used for a redrive of this run with another scope");
    error_hint(err, "give a redrive with another from, whole or version a key of its own");
    return PAWL_CONFLICT;
}

static pawl_code read_for_redrive(pawl *p, redrive_plan *s, const char *id,
                                  const pawl_redrive_options *o, error *err)
{
    db_conn *c = NULL;
    pawl_code rc = read_pool_begin(handle_read_pool(p), &c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_run(c, s, handle_tenant(p), slice_of(id), err);
    if (rc == PAWL_OK)
        rc = check_receipt(c, s, o->key, err);
    if (rc == PAWL_OK && !s->given)
        rc = check_state(s, err);
    if (rc == PAWL_OK && !s->given)
        rc = read_plan(c, s, o, err);
    read_pool_end(handle_read_pool(p), c);
    return rc;
}

static pawl_code try_once(pawl *p, const char *id, const pawl_redrive_options *o, int *again,
                          error *err)
{
    int64_t now;
    redrive_plan plan = {.memory = arena_new(0)};
    unit *u = plan.memory ? unit_new(plan.memory) : NULL;
    if (!u || arena_defer(plan.memory, free_map, &plan.by_seq) != 0) {
        arena_free(plan.memory);
        return error_nomem(err);
    }
    seal_scope(&plan, o);
    pawl_code rc = handle_time(p, &now, err);
    if (rc == PAWL_OK)
        rc = read_for_redrive(p, &plan, id, o, err);
    if (rc == PAWL_OK && !plan.given) {
        sched *s = handle_sched(p);
        fill_unit(u, &plan, o, now);
        u->class = UNIT_OF_CLIENT;
        rc = committer_commit(sched_committer_of(s, plan.run), u);
        rc = unit_shut_out(u, rc);
        *again = rc == PAWL_REFUSED;
        for (const row *r = plan.first; rc == PAWL_OK && r; r = r->next)
            if (replaced_child(&plan, r))
                arrival_cancel(s, replaced_child(&plan, r));
        if (rc == PAWL_OK)
            handover_offer(s);
        else
            error_set(err, rc, "the run was not redriven: %s",
                      u->message ? u->message : pawl_code_text(rc));
    }
    arena_free(plan.memory);
    return rc;
}

pawl_code pawl_redrive(pawl *p, const char *id, const pawl_redrive_options *options)
{
    error err = {0};
    pawl_redrive_options o;
    slice text;
    pawl_code rc = handle_enter_to_write(p, &err);
    if (rc == PAWL_OK)
        rc = options_read(&o, sizeof o, options, &err);
    if (rc == PAWL_OK)
        rc = argument_text(&text, id, PAWL_MAX_ID, "id of the run", &err);
    if (rc == PAWL_OK && o.key)
        rc = argument_name(&text, o.key, PAWL_MAX_ID, "key", &err);
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o.from), PAWL_MAX_NAME, "option from", &err);
    if (rc == PAWL_OK && o.from && !*o.from)
        rc = error_set(&err, PAWL_INVALID, "the option from is empty");
    if (rc == PAWL_OK)
        rc = options_text(slice_of(o.version), PAWL_MAX_NAME, "option version", &err);
    int again = rc == PAWL_OK;
    for (int i = 0; again && i < TRIES_MAX; i++) {
        again = 0;
        rc = try_once(p, id, &o, &again, &err);
    }
    return handle_leave(p, rc, &err);
}
