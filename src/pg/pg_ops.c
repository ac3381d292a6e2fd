/* Merging statements of several units, sending them, and giving each unit its rows.
 *
 * An insert joins an earlier op of its kind unless a statement of another kind has touched its row
 * in between. Guards are sorted by key first; of those, adjacent statements that only read are
 * merged. */
#include "pg/pg_ops.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* If the arena of a unit has less room than this, its rows may not fit into it (pg_ops.narrow). The
 * largest row needs less. */
static const size_t ROOM = (size_t)64 * 1024 * 1024;
static const size_t ARRAY_MAX = (size_t)256 * 1024 * 1024;

void pg_ops_init(pg_ops *ops, pg_conn *c)
{
    memset(ops, 0, sizeof *ops);
    ops->conn = c;
}

/* ---- Adding ---- */

static int is_insert(const unit_stmt *s)
{
    return strncmp(s->sql->text, "INSERT ", 7) == 0;
}

static void append_op(pg_ops *ops, pg_op *op)
{
    if (ops->last)
        ops->last->next = op;
    else
        ops->first = op;
    ops->last = op;
    op->order = ++ops->count;
}

static void join_op(pg_op *op, pg_member *m)
{
    if (op->last)
        op->last->next = m;
    else
        op->first = m;
    op->last = m;
    op->count++;
}

/* Returns the place of the last op that touches the row of this statement. A row without a key is
 * only touched by the statement's own unit. */
static size_t last_touch(pg_ops *ops, const unit *u, const unit_stmt *s)
{
    const pg_op *last = s->key ? map_get(&ops->touched, s->key) : NULL;
    size_t own = !s->key && ops->unit == u ? ops->unit_order : 0;
    return last ? last->order : own;
}

/* The op that this statement can join; NULL: it needs one of its own. */
static pg_op *group_of(pg_ops *ops, const unit *u, const unit_stmt *s)
{
    pg_op *group = map_get(&ops->groups, (uint64_t)(uintptr_t)s->sql);
    /* RULE A4-an-insert-does-not-overtake-a-statement-on-its-row */
    return group && last_touch(ops, u, s) > group->order ? NULL : group;
}

static int remember_touch(pg_ops *ops, const unit *u, const unit_stmt *s, pg_op *op)
{
    if (s->kind != UNIT_WRITE)
        return 1;
    if (s->key)
        return map_put(&ops->touched, s->key, op) >= 0;
    size_t before = ops->unit == u ? ops->unit_order : 0;
    ops->unit = u;
    ops->unit_order = op->order > before ? op->order : before;
    return 1;
}

static pg_op *new_op(pg_ops *ops, const unit_stmt *s, pg_op_how how)
{
    pg_op *op = arena_alloc(ops->conn->scratch, sizeof *op);
    db_stmt *stmt;
    error err;
    if (!op || db_prepare(&ops->conn->base, s->sql, &stmt, &err) != PAWL_OK)
        return NULL;
    op->stmt = (pg_stmt *)stmt;
    op->how = how;
    op->key = s->key;
    append_op(ops, op);
    return op;
}

static int gives_rows(const unit_stmt *s)
{
    return s->kind != UNIT_WRITE || strstr(s->sql->text, "RETURNING") ||
           strncmp(s->sql->text, "SELECT ", 7) == 0;
}

void pg_ops_add(pg_ops *ops, unit *u, unit_stmt *s, pg_op_how how)
{
    pg_member *m = arena_alloc(ops->conn->scratch, sizeof *m);
    int inserts = s->kind == UNIT_WRITE && is_insert(s);
    pg_op *op = inserts ? group_of(ops, u, s) : NULL;
    if (m && !op) {
        op = new_op(ops, s, how);
        if (op && inserts && pg_stmt_array(op->stmt) &&
            map_put(&ops->groups, (uint64_t)(uintptr_t)s->sql, op) < 0)
            op = NULL;
    }
    if (!m || !op || !remember_touch(ops, u, s, op)) {
        ops->failed = 1;
        return;
    }
    m->unit = u;
    m->stmt = s;
    /* RULE 5-a-unit-whose-rows-do-not-fit-is-not-durable */
    ops->narrow |= gives_rows(s) && arena_room(u->arena) < ROOM;
    join_op(op, m);
}

void pg_ops_seal(pg_ops *ops)
{
    map_free(&ops->groups);
    map_free(&ops->touched);
}

/* ---- Sorting ---- */

static int by_key(const void *a, const void *b)
{
    const pg_op *x = *(pg_op *const *)a, *y = *(pg_op *const *)b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

/* Can `b` be merged with `a`? Yes if both are the same read-only statement. */
static int same_look(const pg_op *a, const pg_op *b)
{
    return a && a->stmt == b->stmt && a->how == PG_OP_PLAIN && b->how == PG_OP_PLAIN &&
           strncmp(a->stmt->text, "SELECT ", 7) == 0 && pg_stmt_array(a->stmt);
}

void pg_ops_sort(pg_ops *ops)
{
    size_t count = ops->count, i = 0;
    pg_op **all = arena_alloc(ops->conn->scratch, (count + 1) * sizeof *all);
    if (!all || ops->failed) {
        ops->failed = 1;
        return;
    }
    for (pg_op *op = ops->first; op; op = op->next)
        all[i++] = op;
    qsort(all, count, sizeof *all, by_key);
    ops->first = ops->last = NULL;
    ops->count = 0;
    for (i = 0; i < count; i++) {
        all[i]->next = NULL;
        if (same_look(ops->last, all[i]))
            join_op(ops->last, all[i]->first);
        else
            append_op(ops, all[i]);
    }
}

/* ---- Sending ---- */

/* Returns a bit for each value of the statement that is the number which the server keeps
 * (ops->keeper). */
static uint32_t kept_values(const pg_ops *ops, const unit_stmt *s)
{
    uint32_t which = 0;
    for (int i = 0; ops->keeper && i < s->count; i++)
        if (s->values[i].type == DB_FROM && s->sources[i] == ops->keeper)
            which |= UINT32_C(1) << i;
    return which;
}

static pg_stmt *form_of(const pg_ops *ops, const pg_op *op, uint32_t kept)
{
    assert(op->first); /* an op is made with its first member */
    if (op->how == PG_OP_MUST && op->first->stmt == ops->keeper)
        return pg_stmt_keep(op->stmt, ops->keeper_column);
    if (op->how == PG_OP_MUST)
        return pg_stmt_must(op->stmt);
    return kept ? pg_stmt_take(op->stmt, kept) : op->stmt;
}

/* Statements that are merged as an array cannot take the number: then the result is 0. */
int pg_ops_keep(pg_ops *ops, const unit_stmt *keeper, int column)
{
    int fits = 1;
    ops->keeper = keeper;
    ops->keeper_column = column;
    for (const pg_op *op = ops->first; op && fits; op = op->next) {
        uint32_t kept = 0;
        for (const pg_member *m = op->first; m; m = m->next)
            kept |= kept_values(ops, m->stmt);
        fits = !(kept && op->count > 1) && form_of(ops, op, kept);
    }
    return fits;
}

static pawl_code push_single(pg_conn *c, const pg_ops *ops, const pg_op *op, error *err)
{
    static const db_value NONE = {.type = DB_NULL};
    const unit_stmt *s = op->first->stmt;
    uint32_t kept = kept_values(ops, s);
    pg_params p = {0};
    for (int i = 0; i < s->count; i++) {
        const db_value *v = &NONE;
        pawl_code rc = kept >> i & 1 ? PAWL_OK : batch_resolve(s, i, &v, err);
        if (rc != PAWL_OK)
            return rc;
        pg_param(&p, v);
    }
    pg_stmt *form = form_of(ops, op, kept);
    if (!form)
        return error_nomem(err);
    return pg_push(c, form, &p, err);
}

static pawl_code fill_array(const pg_op *op, int column, buf *b, error *err)
{
    pg_array_begin(b, op->stmt->types[column]);
    for (const pg_member *m = op->first; m; m = m->next) {
        const db_value *v;
        pawl_code rc = batch_resolve(m->stmt, column, &v, err);
        if (rc != PAWL_OK)
            return rc;
        pg_array_add(b, v);
    }
    pg_array_end(b, op->count);
    return b->failed ? error_nomem(err) : PAWL_OK;
}

static pawl_code push_array(pg_conn *c, const pg_op *op, error *err)
{
    buf columns[PG_PARAMETERS];
    pg_params p = {0};
    pg_stmt *form = pg_stmt_array(op->stmt);
    pawl_code rc = PAWL_OK;
    for (int i = 0; i < form->count; i++)
        buf_init(&columns[i], ARRAY_MAX);
    for (int i = 0; i < form->count && rc == PAWL_OK; i++) {
        rc = fill_array(op, i, &columns[i], err);
        db_value v = db_bytes((slice){columns[i].at, columns[i].size});
        pg_param(&p, &v);
    }
    if (rc == PAWL_OK)
        rc = pg_push(c, form, &p, err);
    for (int i = 0; i < form->count; i++)
        buf_free(&columns[i]);
    return rc;
}

pawl_code pg_ops_push(pg_conn *c, pg_ops *ops, error *err)
{
    pawl_code rc = PAWL_OK;
    for (pg_op *op = ops->first; op && rc == PAWL_OK; op = op->next)
        rc = op->count > 1 ? push_array(c, op, err) : push_single(c, ops, op, err);
    return rc;
}

/* ---- Rows ---- */

static unit_row **end_of(unit_stmt *s)
{
    unit_row **tail = &s->rows;
    while (*tail)
        tail = &(*tail)->next;
    return tail;
}

static void give_row(const pg_member *m, const PGresult *r, int row, int from, unit_row ***tail,
                     error *err)
{
    if (pg_copy_row(m->unit, r, row, from, tail, err) != PAWL_OK)
        batch_fail(m->unit, err);
}

static void rows_of_one(const pg_op *op, const PGresult *r, error *err)
{
    unit_row **tail = &op->first->stmt->rows;
    for (int i = 0; i < PQntuples(r); i++)
        give_row(op->first, r, i, 0, &tail, err);
}

/* Gives the rows of a merged op to its members. Inserts give one row for each member, in order;
 * reads have the number of the member in the first column. */
static void rows_of_many(const pg_op *op, const PGresult *r, error *err)
{
    int looks = !is_insert(op->first->stmt);
    size_t rows = (size_t)PQntuples(r), at = 1;
    assert(looks || PQnfields(r) == 0 || rows == op->count);
    const pg_member *m = op->first;
    for (size_t i = 0; i < rows; i++) {
        char number[32];
        size_t member = looks ? (size_t)pg_column(r, (int)i, 0, number).i : i + 1;
        if (member < at) { /* the rows are not in the order of the members after all */
            m = op->first;
            at = 1;
        }
        for (; at < member && m; at++) /* RULE A4-rows-go-to-their-unit */
            m = m->next;
        assert(m);
        unit_row **tail = end_of(m->stmt);
        give_row(m, r, (int)i, looks, &tail, err);
    }
}

pawl_code pg_ops_take(pg_conn *c, pg_ops *ops, error *err)
{
    for (pg_op *op = ops->first; op; op = op->next) {
        PGresult *r = pg_take(c, err);
        if (!r || !pg_ok(r))
            return pg_fail(c, r, "use", err);
        if (op->count > 1)
            rows_of_many(op, r, err);
        else
            rows_of_one(op, r, err);
        PQclear(r);
    }
    return PAWL_OK;
}

pawl_code pg_ops_run(pg_conn *c, pg_ops *ops, error *err)
{
    pawl_code rc = pg_ops_push(c, ops, err);
    if (rc == PAWL_OK)
        rc = pg_sync(c, err);
    if (rc == PAWL_OK)
        rc = pg_ops_take(c, ops, err);
    return rc == PAWL_OK ? pg_skip(c, err) : rc;
}
