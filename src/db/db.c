/* The part of the seam (driver interface) that is the same for every driver: statements that are
 * prepared once per connection, and the expansion of names in braces. A driver that is a library of
 * its own contains this file, but not open.c, which finds the driver for a URL. */
#include "db/db.h"

#include "db/columns.h"

enum { SQL_MAX = 64 * 1024, NAME_MAX_SIZE = 32 };

static const db_sql LOCK_NODE = {
    /* RULE A1-a-closed-node-is-refused-on-sqlite */
    /* RULE L8-a-node-of-the-same-number-is-another-one-on-sqlite */
    "SELECT node FROM {nodes} WHERE node = $1 AND slot = $2 AND closed = 0 AND token = $3"
    " {LOCK_SHARED}",
    "iii"};

/* ---- Connections and statements ---- */

pawl_code db_connect(db *d, db_role role, db_conn **out, error *err)
{
    return d->driver->connect(d, role, out, err);
}

void db_disconnect(db_conn *c)
{
    if (!c)
        return;
    size_t cursor = 0;
    uint64_t key;
    void *stmt;
    while (map_next(&c->statements, &cursor, &key, &stmt))
        c->driver->finalize(stmt);
    map_free(&c->statements);
    c->driver->disconnect(c);
}

pawl_code db_prepare(db_conn *c, const db_sql *sql, db_stmt **out, error *err)
{
    uint64_t key = (uint64_t)(uintptr_t)sql;
    *out = map_get(&c->statements, key);
    if (*out)
        return PAWL_OK;
    buf text;
    buf_init(&text, SQL_MAX);
    pawl_code rc = db_expand(c->driver, sql->text, &text, err);
    if (rc == PAWL_OK)
        rc = c->driver->prepare(c, sql, buf_str(&text), out, err);
    buf_free(&text);
    if (rc == PAWL_OK && map_put(&c->statements, key, *out) < 0) {
        c->driver->finalize(*out);
        rc = error_nomem(err);
    }
    return rc;
}

pawl_code db_bind_all(db_stmt *s, const db_value *values, int count, error *err)
{
    for (int i = 0; i < count; i++) {
        pawl_code rc = s->conn->driver->bind(s, i + 1, &values[i], err);
        if (rc != PAWL_OK)
            return rc;
    }
    return PAWL_OK;
}

pawl_code db_number(db_conn *c, const db_sql *sql, const db_value *values, int count, int64_t *out,
                    int *found, error *err)
{
    db_stmt *s;
    *found = 0;
    pawl_code rc = db_prepare(c, sql, &s, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(s, values, count, err);
    db_step step = DB_DONE;
    while (rc == PAWL_OK && (step = db_next(s, err)) == DB_ROW) {
        if (!*found)
            *out = db_column(s, 0).i;
        *found = 1;
    }
    if (step == DB_FAILED)
        rc = err ? err->code : PAWL_STORAGE;
    db_reset(s);
    return rc;
}

pawl_code db_run(db_conn *c, const db_sql *sql, const db_value *values, int count, error *err)
{
    int64_t ignored;
    int found;
    error own;
    return db_number(c, sql, values, count, &ignored, &found, err ? err : &own);
}

pawl_code db_fenced(const db_conn *c, error *err)
{
    error_set(err, PAWL_FENCED, "this node was closed by another one");
    error_detail(err, "node %lld", (long long)c->node);
    error_hint(err, "it was silent for longer than its claims last; open the engine anew");
    return PAWL_FENCED;
}

pawl_code db_lock_node(db_conn *c, error *err)
{
    if (c->node == 0)
        return PAWL_OK;
    int64_t node;
    int found;
    db_value values[] = {db_int(c->node), db_int(c->slot), db_int(c->token)};
    pawl_code rc = db_number(c, &LOCK_NODE, values, DB_COUNT(values), &node, &found, err);
    return rc == PAWL_OK && !found ? db_fenced(c, err) : rc;
}

/* ---- Names in braces ---- */

/* Macros for the numbers that stand in columns, which are the same for every driver. */
static const db_macro NUMBERS[] = {
#define COLUMN_MACRO(name, number) {#name, #number},
    COLUMN_PHASES(COLUMN_MACRO) COLUMN_NUMBERS(COLUMN_MACRO) COLUMN_JOURNAL_KINDS(COLUMN_MACRO)
        COLUMN_SHOWN(COLUMN_MACRO)
#undef COLUMN_MACRO
            {NULL, NULL},
};

static const char *find_macro(const db_macro *list, slice name)
{
    for (const db_macro *m = list; m && m->name; m++)
        if (slice_equal(slice_of(m->name), name))
            return m->text;
    return NULL;
}

static const char *macro_text(const db_driver *driver, slice name)
{
    const char *number = find_macro(NUMBERS, name);
    return number ? number : find_macro(driver->macros, name);
}

/* Does the name consist of underscores and letters between `from` and `to`? */
static int is_name(slice name, char from, char to)
{
    for (size_t i = 0; i < name.size; i++)
        if ((name.at[i] < from || name.at[i] > to) && name.at[i] != '_')
            return 0;
    return name.size > 0 && name.size <= NAME_MAX_SIZE;
}

static pawl_code expand_one(const db_driver *driver, slice name, buf *out, error *err)
{
    if (is_name(name, 'a', 'z')) {
        buf_text(out, driver->table_prefix);
        buf_add(out, name);
        return PAWL_OK;
    }
    const char *text = is_name(name, 'A', 'Z') ? macro_text(driver, name) : NULL;
    if (!text)
        return error_set(err, PAWL_INTERNAL, "SQL with an unknown name in braces");
    buf_text(out, text);
    return PAWL_OK;
}

pawl_code db_expand(const db_driver *driver, const char *text, buf *out, error *err)
{
    for (;;) {
        const char *open = strchr(text, '{');
        if (!open)
            break;
        const char *close = strchr(open, '}');
        if (!close)
            return error_set(err, PAWL_INTERNAL, "SQL with a brace that does not close");
        buf_add(out, (slice){text, (size_t)(open - text)});
        pawl_code rc = expand_one(driver, (slice){open + 1, (size_t)(close - open - 1)}, out, err);
        if (rc != PAWL_OK)
            return rc;
        text = close + 1;
    }
    buf_text(out, text);
    if (out->failed)
        return out->size < out->max / 2 ? error_nomem(err)
                                        : error_set(err, PAWL_INTERNAL, "SQL beyond its bound");
    return PAWL_OK;
}
