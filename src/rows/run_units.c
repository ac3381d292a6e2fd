/* The SQL of the kinds of units. Four rules hold it together.
 *
 * 1. All units about a run meet in its row. A unit that changes what a run waits for changes that
 *    row, by an UPDATE that carries its whole condition: on a server an UPDATE that had to wait
 *    looks at the newest row again, but not at other rows, so no condition is a subquery.
 *
 * 2. `mail` counts the arrivals of a run. Only a send raises it, and nothing lowers it. A park
 *    compares `mail` with the arrivals that the run has read: if the two are equal, nothing has
 *    arrived meanwhile; otherwise the park leaves the run due.
 *
 * 3. Every statement of the owner names its fence, a fencing token. The lock on the row of the
 *    owner's node would be enough. But the fence costs nothing, and holds even if the engine is
 *    wrong about what it owns.
 *
 * 4. `claims` is 0 only for a run that no node has ever owned. Such a run may have a time before
 *    which it is not to begin, and a message does not make it due earlier (ARRIVE). So a statement
 *    that resets the count of deaths sets `claims` to 1, and not to 0. */
#include "rows/run_units.h"

#include <assert.h>

#include "journal/op.h"

#define COLUMN_SAME(name, number)                                                                  \
    _Static_assert((int)name == number, "a kind is the same in the journal and in statements");
COLUMN_JOURNAL_KINDS(COLUMN_SAME)
#undef COLUMN_SAME

/* The row is not locked: a closed node stays closed, and its rows are deleted only when it owns
 * nothing. */
/* RULE A1-only-a-closed-node-loses-its-runs */
static const db_sql CLOSED = {"SELECT node FROM {nodes} WHERE node = $1 AND closed <> 0", "i"};

/* The length of the journal ($6) tells whether the run has made progress. A journal never gets
 * shorter, so another length than at the last claim means progress, or a new generation. */
static const db_sql CLAIM = {
    /* RULE 4-a-claim-raises-the-fence */
    "UPDATE {runs} SET owner = $3, fence = fence + 1, updated_at = $4,"
    /* RULE B8-a-claim-that-finds-more-begins-to-count-anew, B8-a-death-is-counted */
    " claims = CASE WHEN held <> 0 OR claims = 0 OR claimed_seq <> $6 THEN 1 ELSE claims + $7 END,"
    " claimed_seq = $6, version = CASE WHEN version = '' THEN $8 ELSE version END,"
    /* RULE L2-a-claim-makes-its-run-due */
    " wake_at = CASE WHEN held <> 0 OR wake_at IS NULL OR wake_at > $4 THEN $4 ELSE wake_at END,"
    " held = 0"
    /* RULE A1-a-claim-names-the-owner-it-saw, what-is-held-is-not-claimed */
    " WHERE run = $1 AND owner = $2 AND phase IN ({LIVE}, {FAILING}) AND held = $5"
    " AND ($9 = 0 OR generation = $9)" /* RULE A2-a-claim-is-for-the-generation-that-was-read */
    " RETURNING fence, generation, mail, phase, wake_at, claims",
    "kiiiiiiti"};

static const db_sql MARK = {"UPDATE {runs} SET"
                            /* RULE A2-a-mark-that-is-taken-back-leaves-one-claim */
                            " claims = CASE WHEN claims + $4 < 1 THEN 1 ELSE claims + $4 END,"
                            /* RULE L6-a-mark-is-told-from-a-claim */
                            " marked = CASE WHEN $4 > 0 THEN fence ELSE 0 END"
                            " WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING claims",
                            "kiii"};

static const db_sql FOUND = {"SELECT owner, fence, phase, held FROM {runs} WHERE run = $1", "i"};

/* A run that was started with a delay, and was never claimed, keeps its time. */
static const db_sql ARRIVE = {
    "UPDATE {runs} SET mail = mail + 1, wake_at = CASE"
    /* RULE A2-a-message-wakes, A2-a-message-does-not-begin-a-run-that-is-to-begin-later */
    " WHEN held = 0 AND (wake_at IS NULL OR (wake_at > $2 AND (owner <> 0 OR claims <> 0)))"
    " THEN $2 ELSE wake_at END"
    " WHERE run = $1 AND phase IN ({LIVE}, {FAILING}) RETURNING mail, owner",
    "ki"};

/* A held run that has no owner goes on to its clean-ups (compensations): these are in its journal,
 * and need no code of the workflow. If a node drives the held run, that node notices the cancel at
 * the park. If the run is held because its record was refused, the owner tries to record that
 * first, since only recorded work can be undone. */
static const db_sql CANCEL = {
    "UPDATE {runs} SET mail = mail + 1, cancel_at = $2, updated_at = $2,"
    " phase = CASE WHEN held <> 0 AND owner = 0 THEN {FAILING}"
    " ELSE phase END,"
    " claims = CASE WHEN held <> 0 AND owner = 0 AND claims > 1 THEN 1"
    " ELSE claims END,"
    " wake_at = CASE WHEN held <> 0 AND owner <> 0 THEN wake_at"
    " WHEN wake_at IS NULL OR wake_at > $2 THEN $2 ELSE wake_at END,"
    " held = CASE WHEN owner = 0 THEN 0 ELSE held END"
    /* RULE A6-a-cancel-is-asked-once */
    " WHERE run = $1 AND phase IN ({LIVE}, {FAILING})"
    " AND cancel_at IS NULL AND ($3 = 0 OR parent = $3) RETURNING mail, owner",
    "kii"};

static const db_sql CANCEL_HELD = {
    "UPDATE {runs} SET phase = {FAILING}, held = 0, wake_at = $2, updated_at = $2,"
    " claims = CASE WHEN claims > 1 THEN 1 ELSE claims END"
    " WHERE run = $1 AND phase IN ({LIVE}, {FAILING}) AND held <> 0 AND owner = 0"
    " AND cancel_at IS NOT NULL RETURNING run",
    "ki"};

static const db_sql INBOX = {
    "INSERT INTO {inbox}"
    " (run, seq, generation, op, attempt, kind, name, key, by, at, enc, data)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    "iiiiiitttiib"};

/* A run that was held meanwhile gets no owner, and nothing wakes it. There are two exceptions: a
 * cancel ends every hold; and while the run has jobs under way ($9) it keeps its owner, since their
 * results are in that process only. */
static const db_sql PARK = {
    "UPDATE {runs} SET wake_at = CASE WHEN held <> 0 AND cancel_at IS NULL AND $9 = 0 THEN NULL"
    /* RULE A2-a-park-looks-at-the-mail, A2-a-park-counts-and-does-not-look-into-the-inbox */
    " WHEN mail = $4 THEN $5 ELSE $6 END,"
    /* RULE 2-a-park-of-a-held-run-keeps-it-while-its-jobs-run */
    " owner = CASE WHEN held <> 0 AND cancel_at IS NULL AND $9 = 0 THEN 0 ELSE owner END,"
    " held = CASE WHEN cancel_at IS NULL THEN held ELSE 0 END, updated_at = $6,"
    " status = CASE WHEN $8 > 0 THEN $7 ELSE status END,"
    " status_seq = status_seq + $8"
    /* RULE A1-a-park-names-its-fence */
    " WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING wake_at, mail, held",
    "kiiiiitii"};

static const db_sql FINISH = {
    "UPDATE {runs} SET phase = $4, output = $5, error = $6, owner = 0, wake_at = NULL,"
    " held = 0, updated_at = $7, finished_at = $7,"
    " status = CASE WHEN $9 > 0 THEN $8 ELSE status END,"
    " status_seq = status_seq + $9"
    " WHERE run = $1 AND owner = $2 AND fence = $3" /* RULE 4-an-end-names-its-fence */
    " RETURNING watched, parent, parent_generation, parent_op",
    "kiiibtiti"};

/* This is a write and not a guard, since the lock on the node's row proves the ownership. Owner 0
 * is accepted because an earlier statement of the same unit may have taken the owner away
 * (GIVE_BACK). */
static const db_sql SET_STATUS = {
    "UPDATE {runs} SET status = $4, status_seq = status_seq + $5, updated_at = $6"
    /* RULE a-status-is-said-by-the-unit-that-gives-the-run-back */
    " WHERE run = $1 AND owner IN ($2, 0) AND fence = $3",
    "iiitii"};

/* A run that was held and cancelled while its owner drove it becomes due: a cancel ends every
 * hold. */
static const db_sql GIVE_BACK = {
    "UPDATE {runs} SET owner = 0, wake_at = CASE WHEN held <> 0 AND cancel_at IS NULL THEN NULL"
    " WHEN held <> 0 THEN cancel_at ELSE wake_at END,"
    " held = CASE WHEN cancel_at IS NULL THEN held ELSE 0 END,"
    " updated_at = $4 WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING wake_at",
    "kiii"};

/* A run that is held by hand stays held by hand, whatever other reason there is. A run that was
 * cancelled while it was live is not held: its clean-ups are called from its journal. */
static const db_sql HOLD = {
    "UPDATE {runs} SET held = CASE"
    " WHEN cancel_at IS NOT NULL AND phase = {LIVE} THEN 0"
    /* RULE what-people-hold-stays-held */
    " WHEN held = {HELD_BY_HAND} THEN {HELD_BY_HAND} ELSE $4 END,"
    " phase = CASE WHEN cancel_at IS NOT NULL THEN {FAILING} ELSE phase END,"
    " claims = CASE WHEN cancel_at IS NOT NULL AND phase = {LIVE} AND claims > 1"
    " THEN 1 ELSE claims END,"
    " held_reason = CASE WHEN held = {HELD_BY_HAND} THEN held_reason"
    " ELSE coalesce($5, held_reason) END,"
    " held_for = CASE WHEN held = {HELD_BY_HAND} THEN NULL ELSE $6 END,"
    " held_at = $7, owner = 0, updated_at = $7, wake_at = CASE"
    " WHEN cancel_at IS NOT NULL AND phase = {LIVE} THEN $7 ELSE NULL END"
    /* RULE 4-a-hold-names-its-fence */
    " WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING held",
    "kiiitti"};

static const db_sql HOLD_RECORD = {
    /* RULE L5-a-run-whose-record-is-refused-stays-owned */
    "UPDATE {runs} SET held = {HELD_RECORD}, held_reason = $4, held_at = $6, trouble = $5,"
    " trouble_at = $6, updated_at = $6, wake_at = $6"
    " WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING held",
    "kiitti"};

static const db_sql TRY_AGAIN = {
    "UPDATE {runs} SET held = CASE WHEN held = {HELD_RECORD} THEN 0 ELSE held END, trouble = NULL,"
    " trouble_at = NULL WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING fence",
    "kii"};

static const db_sql TROUBLE = {
    "UPDATE {runs} SET trouble = $4, trouble_at = CASE WHEN trouble IS NULL THEN $5"
    " ELSE trouble_at END, updated_at = $5 WHERE run = $1 AND owner = $2 AND fence = $3",
    "iiiti"};

static const db_sql HOLD_DUE = {
    "UPDATE {runs} SET held = CASE WHEN cancel_at IS NULL THEN {HELD_VERSION} ELSE 0 END,"
    " held_reason = $3, held_for = '', held_at = $4, owner = 0, updated_at = $4,"
    " phase = CASE WHEN cancel_at IS NULL THEN phase ELSE {FAILING} END,"
    " wake_at = CASE WHEN cancel_at IS NULL THEN NULL ELSE wake_at END"
    /* RULE A1-a-claim-names-the-owner-it-saw */
    " WHERE run = $1 AND owner = $2 AND phase IN ({LIVE}, {FAILING}) AND held = 0"
    " AND wake_at <= $4 RETURNING held",
    "kiti"};

/* A node that drives the run goes on until it reads the hold. A run whose record is refused stays
 * held for that reason, since one release ends both holds. A run that was started with a delay, and
 * was never claimed, keeps its time, which is written nowhere else. */
static const db_sql HOLD_BY_HAND = {
    "UPDATE {runs} SET held = CASE WHEN held = {HELD_RECORD} THEN {HELD_RECORD}"
    " ELSE {HELD_BY_HAND} END,"
    " held_reason = CASE WHEN held = {HELD_RECORD} THEN held_reason ELSE $2 END,"
    " held_for = NULL, held_at = $3, updated_at = $3,"
    " wake_at = CASE WHEN owner = 0 AND (claims <> 0 OR wake_at <= $3) THEN NULL ELSE wake_at END"
    " WHERE run = $1 AND phase IN ({LIVE}, {FAILING}) RETURNING owner",
    "kti"};

static const db_sql RELEASE = {
    "UPDATE {runs} SET held = 0, held_reason = NULL, held_for = NULL, held_at = NULL,"
    /* RULE A2-a-run-that-was-driven-is-woken-by-an-arrival */
    /* RULE A2-the-simulator-sees-a-run-that-looks-new */
    " claims = CASE WHEN claims > 1 THEN 1 ELSE claims END,"
    " wake_at = CASE WHEN owner = 0 AND wake_at > $2 THEN wake_at ELSE $2 END,"
    " updated_at = $2 WHERE run = $1 AND phase IN ({LIVE}, {FAILING}) AND held <> 0"
    " RETURNING owner",
    "ki"};

/* Read without a lock. Only the owner changes these columns until the owner's node is closed, and
 * each transaction of the owner locks the node's row, which delays the closing. */
static const db_sql CHECK_FENCE = {
    "SELECT fence FROM {runs} WHERE run = $1 AND owner = $2 AND fence = $3", "iii"};

static const db_sql APPEND = {
    "INSERT INTO {journal} (run, generation, seq, kind, op, name, at, enc, data)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
    "iiiiitiib"};

/* Adds a row to the change feed. No other transaction waits for it. */
static const db_sql NOTE = {"INSERT INTO {changes} (run, at) VALUES ($1, $2)", "ii"};

static db_value text_or_null(slice s)
{
    return s.at ? db_text(s) : db_null();
}

static db_value bytes_or_null(slice s)
{
    return s.at ? db_bytes(s) : db_null();
}

/* Adds a guard on the row of a run, and a query that shows the row if the guard refuses. */
static int guard_run(unit *u, const db_sql *sql, const char *name, int64_t run,
                     const db_value *values, int count)
{
    int guard = unit_guard(u, sql, name, unit_key("runs", run), values, count);
    const db_value key[] = {db_int(run)};
    unit_found(u, &FOUND, key, DB_COUNT(key));
    return guard;
}

void run_note(unit *u, db_value run, int64_t now_ms)
{
    const db_value row[] = {run, db_int(now_ms)};
    unit_note(u, &NOTE, 0, row, DB_COUNT(row));
}

static void guard_closed(unit *u, int64_t node)
{
    const db_value closed[] = {db_int(node)};
    if (node != 0)
        unit_guard(u, &CLOSED, "closed", unit_key("nodes", node), closed, DB_COUNT(closed));
}

int run_claim(unit *u, const run_found *f, int64_t owner, int64_t now_ms)
{
    assert(owner != 0 && owner != f->owner);
    slice version = f->version.at ? f->version : SLICE_LIT("");
    const db_value values[] = {
        db_int(f->run),     db_int(f->owner), db_int(owner),
        db_int(now_ms),     db_int(f->held),  db_int(f->seq),
        db_int(f->counted), db_text(version), db_int(f->generation),
    };
    guard_closed(u, f->owner);
    int number = guard_run(u, &CLAIM, "owner", f->run, values, DB_COUNT(values));
    if (f->held != 0)
        run_note(u, db_int(f->run), now_ms);
    return number;
}

int run_mark(unit *u, const run_lease *h, int64_t more)
{
    const db_value values[] = {db_int(h->run), db_int(h->owner), db_int(h->fence), db_int(more)};
    return guard_run(u, &MARK, "fence", h->run, values, DB_COUNT(values));
}

static void put_inbox_row(unit *u, const run_inbox_row *m, db_value seq, db_value generation)
{
    const db_value row[] = {
        db_int(m->run),     seq,
        generation,         db_int(m->op),
        db_int(m->attempt), db_int(m->kind),
        db_text(m->name),   text_or_null(m->key),
        db_text(m->by),     db_int(m->at_ms),
        db_int(m->enc),     bytes_or_null(m->data),
    };
    unit_write(u, &INBOX, unit_key("inbox", m->run), row, DB_COUNT(row));
}

void run_put_arrival(unit *u, const run_inbox_row *m, db_value seq)
{
    put_inbox_row(u, m, seq, db_int(m->generation));
}

int run_send(unit *u, const run_inbox_row *m)
{
    const db_value values[] = {db_int(m->run), db_int(m->at_ms)};
    int guard = guard_run(u, &ARRIVE, "live", m->run, values, DB_COUNT(values));
    run_put_arrival(u, m, db_from(guard, SEND_SEQ));
    return guard;
}

int run_try_send(unit *u, const run_inbox_row *m)
{
    const db_value values[] = {db_int(m->run), db_int(m->at_ms)};
    int try = unit_try(u, &ARRIVE, unit_key("runs", m->run), values, DB_COUNT(values));
    run_put_arrival(u, m, db_from(try, SEND_SEQ));
    return try;
}

int run_try_report(unit *u, const run_inbox_row *m, int finish)
{
    const db_value values[] = {db_int(m->run), db_int(m->at_ms)};
    int try = unit_try(u, &ARRIVE, unit_key("runs", m->run), values, DB_COUNT(values));
    /* RULE A6-a-child-reports-to-the-generation-that-keeps-it */
    put_inbox_row(u, m, db_from(try, SEND_SEQ), db_from(finish, FINISH_PARENT_GENERATION));
    return try;
}

int run_cancel(unit *u, const run_inbox_row *m)
{
    const db_value values[] = {db_int(m->run), db_int(m->at_ms), db_int(0)};
    int guard = guard_run(u, &CANCEL, "uncancelled", m->run, values, DB_COUNT(values));
    run_put_arrival(u, m, db_from(guard, SEND_SEQ));
    run_note(u, db_int(m->run), m->at_ms);
    return guard;
}

int run_try_cancel(unit *u, const run_inbox_row *m, int64_t parent)
{
    const db_value values[] = {db_int(m->run), db_int(m->at_ms), db_int(parent)};
    int tried = unit_try(u, &CANCEL, unit_key("runs", m->run), values, DB_COUNT(values));
    run_put_arrival(u, m, db_from(tried, SEND_SEQ));
    run_note(u, db_int(m->run), m->at_ms); /* also if the run has ended and nothing changes, which
                                              does no harm */
    return tried;
}

int run_cancel_held(unit *u, int64_t run, int64_t now_ms)
{
    const db_value values[] = {db_int(run), db_int(now_ms)};
    int number = guard_run(u, &CANCEL_HELD, "cancelled", run, values, DB_COUNT(values));
    run_note(u, db_int(run), now_ms);
    return number;
}

static db_value status_of(const run_status *status)
{
    return status ? text_or_null(status->text) : db_null();
}

static db_value count_of(const run_status *status)
{
    return db_int(status ? status->count : 0);
}

int run_set_status(unit *u, const run_lease *h, const run_status *status, int64_t now_ms)
{
    const db_value values[] = {db_int(h->run),    db_int(h->owner), db_int(h->fence),
                               status_of(status), count_of(status), db_int(now_ms)};
    int number = unit_write(u, &SET_STATUS, unit_key("runs", h->run), values, DB_COUNT(values));
    run_note(u, db_int(h->run), now_ms);
    return number;
}

static int add_park(unit *u, const run_lease *h, int64_t seen, int64_t wake_ms,
                    const run_status *status, int64_t now_ms, int keeps)
{
    const db_value values[] = {
        db_int(h->run),
        db_int(h->owner),
        db_int(h->fence),
        db_int(seen),
        wake_ms == RUN_NEVER ? db_null() : db_int(wake_ms),
        db_int(now_ms),
        status_of(status),
        count_of(status),
        db_int(keeps),
    };
    int number = guard_run(u, &PARK, "fence", h->run, values, DB_COUNT(values));
    if (status && status->count > 0)
        run_note(u, db_int(h->run), now_ms);
    return number;
}

int run_park(unit *u, const run_lease *h, int64_t seen, int64_t wake_ms, const run_status *status,
             int64_t now_ms)
{
    return add_park(u, h, seen, wake_ms, status, now_ms, 0);
}

int run_park_kept(unit *u, const run_lease *h, int64_t seen, int64_t wake_ms,
                  const run_status *status, int64_t now_ms)
{
    return add_park(u, h, seen, wake_ms, status, now_ms, 1);
}

/* The position of the phase among the values of FINISH; output and error follow it. */
enum { FINISH_PHASE = 3 };

int run_finish(unit *u, const run_lease *h, const run_end *end, const run_status *status,
               int64_t now_ms)
{
    assert(end->phase != PHASE_LIVE && end->phase != PHASE_FAILING);
    const db_value values[] = {
        db_int(h->run),
        db_int(h->owner),
        db_int(h->fence),
        db_int((int64_t)end->phase),
        bytes_or_null(end->output),
        text_or_null(end->error),
        db_int(now_ms),
        status_of(status),
        count_of(status),
    };
    int number = guard_run(u, &FINISH, "fence", h->run, values, DB_COUNT(values));
    run_note(u, db_int(h->run), now_ms);
    return number;
}

int run_finish_read(const unit *u, int number, run_end *out)
{
    if (number < 0 || number >= u->count || u->numbered[number]->sql != &FINISH)
        return 0;
    const db_value *v = u->numbered[number]->values;
    *out = (run_end){.phase = (run_phase)v[FINISH_PHASE].i};
    if (v[FINISH_PHASE + 1].type != DB_NULL)
        out->output = v[FINISH_PHASE + 1].s;
    if (v[FINISH_PHASE + 2].type != DB_NULL)
        out->error = v[FINISH_PHASE + 2].s;
    return 1;
}

int run_give_back(unit *u, const run_lease *h, int64_t now_ms)
{
    const db_value values[] = {db_int(h->run), db_int(h->owner), db_int(h->fence), db_int(now_ms)};
    return guard_run(u, &GIVE_BACK, "fence", h->run, values, DB_COUNT(values));
}

int run_set_held(unit *u, const run_lease *h, const run_held *why, int64_t now_ms)
{
    const db_value values[] = {
        db_int(h->run),           db_int(h->owner),        db_int(h->fence), db_int(why->reason),
        text_or_null(why->words), text_or_null(why->what), db_int(now_ms),
    };
    int number = guard_run(u, &HOLD, "fence", h->run, values, DB_COUNT(values));
    run_note(u, db_int(h->run), now_ms);
    return number;
}

int run_hold_record(unit *u, const run_lease *h, const run_held *why, slice trouble, int64_t now_ms)
{
    const db_value values[] = {db_int(h->run),      db_int(h->owner), db_int(h->fence),
                               db_text(why->words), db_text(trouble), db_int(now_ms)};
    int number = guard_run(u, &HOLD_RECORD, "fence", h->run, values, DB_COUNT(values));
    run_note(u, db_int(h->run), now_ms);
    return number;
}

void run_try_again(unit *u, const run_lease *h)
{
    const db_value values[] = {db_int(h->run), db_int(h->owner), db_int(h->fence)};
    int number =
        unit_guard(u, &TRY_AGAIN, "fence", unit_key("runs", h->run), values, DB_COUNT(values));
    if (number >= 0)
        unit_put_first(u, number);
}

int run_set_trouble(unit *u, const run_lease *h, slice trouble, int64_t now_ms)
{
    const db_value values[] = {db_int(h->run), db_int(h->owner), db_int(h->fence),
                               text_or_null(trouble), db_int(now_ms)};
    return unit_write(u, &TROUBLE, unit_key("runs", h->run), values, DB_COUNT(values));
}

int run_hold_due(unit *u, int64_t run, int64_t owner, slice words, int64_t now_ms)
{
    const db_value values[] = {db_int(run), db_int(owner), db_text(words), db_int(now_ms)};
    guard_closed(u, owner);
    int number = guard_run(u, &HOLD_DUE, "owner", run, values, DB_COUNT(values));
    run_note(u, db_int(run), now_ms);
    return number;
}

int run_hold_by_hand(unit *u, int64_t run, slice words, int64_t now_ms)
{
    const db_value values[] = {db_int(run), text_or_null(words), db_int(now_ms)};
    int number = guard_run(u, &HOLD_BY_HAND, "live", run, values, DB_COUNT(values));
    run_note(u, db_int(run), now_ms);
    return number;
}

int run_set_free(unit *u, int64_t run, int64_t now_ms)
{
    const db_value values[] = {db_int(run), db_int(now_ms)};
    int number = guard_run(u, &RELEASE, "held", run, values, DB_COUNT(values));
    run_note(u, db_int(run), now_ms);
    return number;
}

int run_check_fence(unit *u, const run_lease *h)
{
    assert(h->owner != 0 && h->fence > 0);
    const db_value values[] = {db_int(h->run), db_int(h->owner), db_int(h->fence)};
    return guard_run(u, &CHECK_FENCE, "fence", h->run, values, DB_COUNT(values));
}

int run_append_from(unit *u, const run_entry *e, db_value data)
{
    assert(e->run > 0 && e->generation > 0 && e->seq > 0);
    const db_value row[] = {
        db_int(e->run),   db_int(e->generation), db_int(e->seq),
        db_int(e->kind),  db_int(e->op),         db_text(e->name),
        db_int(e->at_ms), db_int(e->enc),        data,
    };
    return unit_append(u, &APPEND, unit_key("journal", e->run), row, DB_COUNT(row));
}

int run_append(unit *u, const run_entry *e)
{
    return run_append_from(u, e, bytes_or_null(e->data));
}

int run_find_deed(const unit *u, run_entry *out)
{
    int found = 0;
    for (int i = 0; i < u->count; i++) {
        const unit_stmt *s = u->numbered[i];
        if (s->sql != &APPEND || (found && !op_is_deed((op_kind)s->values[3].i)))
            continue;
        *out = (run_entry){.seq = s->values[2].i,
                           .kind = s->values[3].i,
                           .op = s->values[4].i,
                           .name = s->values[5].s};
        found = 1;
        if (op_is_deed((op_kind)out->kind))
            break;
    }
    return found;
}
