/* The SQL of the kinds of units. Three rules hold it together.
 *
 * The row of a run is where all meet. Whoever changes what a run waits for changes that row, by an
 * UPDATE that carries its whole condition: on a server an UPDATE that had to wait looks at the
 * newest row again, but not at other rows, so no condition is a subquery.
 *
 * `mail` only rises, and only by a send. A park that finds the number it has applied knows that
 * nothing has come in between; otherwise it leaves the run awake.
 *
 * The owner names its fence. Its node's lock would do, but this costs nothing and does not depend
 * on the engine being right about what it owns. */
#include "core/run_units.h"

#include <assert.h>

/* Not locked: a node that is closed stays closed, and its rows go only when it owns nothing. */
static const db_sql CLOSED = {"SELECT node FROM {nodes} WHERE node = $1 AND closed <> 0", "i"};

static const db_sql CLAIM = {"UPDATE {runs} SET owner = $3, fence = fence + 1, updated_at = $4"
                             " WHERE run = $1 AND owner = $2 AND status IN (0, 4) AND held = 0"
                             " RETURNING fence, generation, mail, status, wake_at",
                             "iiii"};

static const db_sql FOUND = {"SELECT owner, fence, status, held FROM {runs} WHERE run = $1", "i"};

static const db_sql ARRIVE = {
    "UPDATE {runs} SET mail = mail + 1, wake_at = CASE"
    " WHEN held = 0 AND (wake_at IS NULL OR wake_at > $2) THEN $2 ELSE wake_at END"
    " WHERE run = $1 AND status IN (0, 4) RETURNING mail, owner",
    "ii"};

static const db_sql INBOX = {
    "INSERT INTO {inbox}"
    " (run, seq, generation, op, attempt, kind, name, key, by, at, enc, data)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    "iiiiiitttiib"};

static const db_sql PARK = {
    "UPDATE {runs} SET wake_at = CASE WHEN mail = $4 THEN $5 ELSE $6 END, updated_at = $6"
    " WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING wake_at, mail",
    "iiiiii"};

static const db_sql FINISH = {
    "UPDATE {runs} SET status = $4, output = $5, error = $6, owner = 0, wake_at = NULL,"
    " updated_at = $7, finished_at = $7"
    " WHERE run = $1 AND owner = $2 AND fence = $3"
    " RETURNING watched, parent, parent_generation, parent_op",
    "iiiibti"};

static const db_sql GIVE_BACK = {"UPDATE {runs} SET owner = 0, updated_at = $4"
                                 " WHERE run = $1 AND owner = $2 AND fence = $3 RETURNING wake_at",
                                 "iiii"};

static const db_sql APPEND = {
    "INSERT INTO {journal} (run, generation, seq, kind, name, at, enc, data)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    "iiiitiib"};

static db_value text_or_null(slice s)
{
    return s.at ? db_text(s) : db_null();
}

static db_value bytes_or_null(slice s)
{
    return s.at ? db_bytes(s) : db_null();
}

/* A guard on the row of a run, and what is found there if it does not hold. */
static int guard_run(unit *u, const db_sql *sql, const char *name, int64_t run,
                     const db_value *values, int count)
{
    int guard = unit_guard(u, sql, name, unit_key("runs", run), values, count);
    const db_value key[] = {db_int(run)};
    unit_found(u, &FOUND, key, DB_COUNT(key));
    return guard;
}

int run_claim(unit *u, int64_t run, int64_t from, int64_t owner, int64_t now_ms)
{
    assert(owner != 0 && owner != from);
    const db_value closed[] = {db_int(from)};
    const db_value values[] = {db_int(run), db_int(from), db_int(owner), db_int(now_ms)};
    if (from != 0)
        unit_guard(u, &CLOSED, "closed", unit_key("nodes", from), closed, DB_COUNT(closed));
    return guard_run(u, &CLAIM, "owner", run, values, DB_COUNT(values));
}

int run_send(unit *u, const run_mail *m)
{
    const db_value values[] = {db_int(m->run), db_int(m->at_ms)};
    int guard = guard_run(u, &ARRIVE, "live", m->run, values, DB_COUNT(values));
    const db_value row[] = {
        db_int(m->run),     db_from(guard, SEND_SEQ), db_int(m->generation), db_int(m->op),
        db_int(m->attempt), db_int(m->kind),          db_text(m->name),      text_or_null(m->key),
        db_text(m->by),     db_int(m->at_ms),         db_int(m->enc),        bytes_or_null(m->data),
    };
    unit_write(u, &INBOX, unit_key("inbox", m->run), row, DB_COUNT(row));
    return guard;
}

int run_park(unit *u, const run_hold *h, int64_t seen, int64_t deadline_ms, int64_t now_ms)
{
    const db_value values[] = {
        db_int(h->run),
        db_int(h->owner),
        db_int(h->fence),
        db_int(seen),
        deadline_ms == RUN_NEVER ? db_null() : db_int(deadline_ms),
        db_int(now_ms),
    };
    return guard_run(u, &PARK, "fence", h->run, values, DB_COUNT(values));
}

int run_finish(unit *u, const run_hold *h, const run_end *end, int64_t now_ms)
{
    assert(end->status != RUN_LIVE && end->status != RUN_FAILING);
    const db_value values[] = {
        db_int(h->run),
        db_int(h->owner),
        db_int(h->fence),
        db_int((int64_t)end->status),
        bytes_or_null(end->output),
        text_or_null(end->error),
        db_int(now_ms),
    };
    return guard_run(u, &FINISH, "fence", h->run, values, DB_COUNT(values));
}

int run_give_back(unit *u, const run_hold *h, int64_t now_ms)
{
    const db_value values[] = {db_int(h->run), db_int(h->owner), db_int(h->fence), db_int(now_ms)};
    return guard_run(u, &GIVE_BACK, "fence", h->run, values, DB_COUNT(values));
}

int run_append(unit *u, const run_entry *e)
{
    const db_value row[] = {
        db_int(e->run),   db_int(e->generation), db_int(e->seq), db_int(e->kind),
        db_text(e->name), db_int(e->at_ms),      db_int(e->enc), bytes_or_null(e->data),
    };
    return unit_write(u, &APPEND, unit_key("journal", e->run), row, DB_COUNT(row));
}
