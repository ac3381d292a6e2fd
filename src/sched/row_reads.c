/* Reads pages of keys, and single rows. If a row cannot be read, decides what has failed: the row
 * of one run, or reading as a whole. */
#include "sched/row_reads.h"

#include "sched/sched_internal.h"

enum { TRIES_IN_VAIN = 16 }; /* after so many failures without a success, nothing can be read */

/* Reads only columns that the index has. */
static const db_sql DUE_KEYS = {"SELECT run, wake_at FROM {runs} WHERE owner = $1 AND wake_at <= $2"
                                " AND (wake_at, run) > ($3, $4) ORDER BY wake_at, run LIMIT $5",
                                "iiiii"};

static const db_sql ID = {"SELECT id FROM {runs} WHERE run = $1", "i"};

pawl_code row_reads_begin(sched *s, const runner *r, db_conn **out, error *err)
{
    if (r)
        return read_pool_begin(s->options.read_pool, out, err);
    *out = s->looks;
    return db_begin(*out, err);
}

void row_reads_end(sched *s, const runner *r, db_conn *c)
{
    if (r)
        read_pool_end(s->options.read_pool, c);
    else
        db_rollback(c);
}

/* ---- Reading ---- */

/* Executes a statement that only reads, in a transaction that has begun. */
static pawl_code read_with(db_conn *c, const db_sql *sql, const db_value *values, int count,
                           void (*take)(void *arg, db_stmt *row), void *arg, error *err)
{
    db_stmt *stmt;
    db_step step = DB_DONE;
    pawl_code rc = db_prepare(c, sql, &stmt, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(stmt, values, count, err);
    while (rc == PAWL_OK && (step = db_next(stmt, err)) == DB_ROW)
        take(arg, stmt);
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(stmt);
    return rc;
}

pawl_code row_reads_one(sched *s, const db_sql *sql, const db_value *values, int count,
                        void (*take)(void *arg, db_stmt *row), void *arg, error *err)
{
    pawl_code rc = db_begin(s->looks, err);
    if (rc != PAWL_OK)
        return rc;
    rc = read_with(s->looks, sql, values, count, take, arg, err);
    db_rollback(s->looks);
    return rc;
}

static void add_key(void *arg, db_stmt *row)
{
    due_keys *p = arg;
    if (p->count == ROW_READS_PAGE)
        return;
    p->at[p->count++] = p->last_run = db_column(row, 0).i;
    p->last_ms = db_column(row, 1).i;
}

pawl_code row_reads_due(sched *s, int64_t owner, int64_t now_ms, size_t most, due_keys *p,
                        error *err)
{
    const db_value values[] = {db_int(owner), db_int(now_ms), db_int(p->last_ms),
                               db_int(p->last_run), db_int((int64_t)most)};
    p->count = 0;
    return row_reads_one(s, &DUE_KEYS, values, DB_COUNT(values), add_key, p, err);
}

/* ---- Rows that cannot be read ---- */

int row_reads_may_be_of_row(pawl_code code)
{
    switch ((int)code) {
    case PAWL_BUSY:
    case PAWL_UNDECIDED:
    case PAWL_CLOSED:
    case PAWL_FORKED:
    case PAWL_UNREACHABLE:
    case PAWL_DENIED:
    case PAWL_POOLER:
    case PAWL_FENCED:
    case PAWL_REWOUND:
        return 0;
    default:
        return 1;
    }
}

/* Does this code name damage of a row, or of its page? Any other code may also mean that no row can
 * be read. */
static int is_of_row(pawl_code code)
{
    return code == PAWL_CORRUPT || code == PAWL_DATA || code == PAWL_IO;
}

int row_reads_are_single(const unread_rows *u, error *err)
{
    if (u->count == 0 || u->read > 0 || is_of_row(u->err.code))
        return 1;
    *err = u->err;
    return 0;
}

int row_reads_add(unread_rows *u, int64_t run, const error *err)
{
    if (!row_reads_may_be_of_row(err->code))
        return 0;
    if (u->count == 0)
        u->err = *err;
    u->at[u->count++] = run;
    return u->count < TRIES_IN_VAIN || u->read > 0 || is_of_row(u->err.code);
}

static void copy_id(void *arg, db_stmt *row)
{
    buf_add(arg, db_column(row, 0).s);
}

/* The id of the run, which may be readable where the whole row is not; otherwise its key. */
static void put_id(sched *s, const runner *r, int64_t run, buf *out)
{
    error err = {0};
    db_conn *c;
    const db_value key = db_int(run);
    if (row_reads_begin(s, r, &c, &err) == PAWL_OK) {
        (void)read_with(c, &ID, &key, 1, copy_id, out, &err);
        row_reads_end(s, r, c);
    }
    if (out->size == 0)
        buf_printf(out, "#%lld", (long long)run);
}

pawl_code row_reads_note(sched *s, const runner *r, const unread_rows *u, run_failure_kind kind,
                         error *err)
{
    char words[256], id[PAWL_MAX_ID + 1];
    buf b;
    if (!row_reads_are_single(u, err))
        return err->code;
    buf_init_fixed(&b, words, sizeof words);
    buf_printf(&b, "%s%s%s", u->err.message, u->err.detail[0] ? ": " : "", u->err.detail);
    const char *text = buf_str(&b);
    for (size_t i = 0; i < u->count; i++) {
        buf name;
        buf_init_fixed(&name, id, sizeof id);
        put_id(s, r, u->at[i], &name);
        if (!run_failure_note(s, u->at[i], buf_str(&name), kind, u->err.code, text))
            return error_nomem(err);
    }
    return PAWL_OK;
}
