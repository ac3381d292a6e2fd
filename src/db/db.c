/* The part of the seam that is the same for every driver: which driver a URL means, statements
 * that are prepared once per connection, and the expansion of names in braces.
 *
 * A URL may hold a password. It is taken apart here and never repeated in a message. */
#include "db/db.h"

#include <assert.h>
#include <stdlib.h>
#include <strings.h>

#include "base/text.h"
#include "db/db_sqlite.h"
#include "db/migrate.h"

enum {
    BUSY_MS = 5000,
    BUSY_MS_MAX = 1000 * 1000 * 1000,
    WAL_BYTES = 64 * 1024 * 1024,
    SQL_MAX = 64 * 1024,
    NAME_MAX_SIZE = 32
};

/* ---- URLs ---- */

/* The parameters behind "sqlite:PATH?": the only one so far is durability=relaxed|full. */
static pawl_code read_parameters(slice text, int *relaxed, error *err)
{
    if (slice_equal(text, SLICE_LIT("durability=relaxed"))) {
        *relaxed = 1;
        return PAWL_OK;
    }
    if (slice_equal(text, SLICE_LIT("durability=full")))
        return PAWL_OK;
    error_set(err, PAWL_INVALID, "the database URL has an unknown parameter");
    error_hint(err, "what may follow \"?\" is durability=full or durability=relaxed");
    return PAWL_INVALID;
}

/* "shop://" and connection strings, which nobody means as a file name: they may hold a password, so
 * they must not become one and be quoted in a message. */
static int may_hold_secret(slice text)
{
    for (size_t i = 0; i < text.size; i++) {
        slice rest = {text.at + i, text.size - i};
        if (slice_starts(rest, SLICE_LIT("://")) || slice_starts(rest, SLICE_LIT("password=")))
            return 1;
    }
    return 0;
}

static pawl_code open_file(db **out, slice path, int relaxed, const db_options *options, error *err)
{
    if (path.size == 0 || slice_equal(path, SLICE_LIT(":memory:"))) {
        error_set(err, PAWL_INVALID, "the database URL names no file");
        error_hint(err,
                   "give a file name, or \"memory:\" for a database that goes with the handle");
        return PAWL_INVALID;
    }
    if (may_hold_secret(path)) {
        error_set(err, PAWL_INVALID, "the database URL has an unknown scheme");
        error_hint(err, "give a file name, sqlite:PATH, or memory:");
        return PAWL_INVALID;
    }
    buf name;
    buf_init(&name, PAWL_MAX_URL + 2);
    if (slice_starts(path, SLICE_LIT("file:"))) /* a name, not an address to be taken apart */
        buf_text(&name, "./");
    buf_add(&name, path);
    pawl_code rc = name.failed ? error_set(err, PAWL_NOMEM, "out of memory")
                               : db_sqlite_open(out, buf_str(&name), relaxed, options, err);
    buf_free(&name);
    return rc;
}

static int is_postgres(slice url)
{
    return strncasecmp(url.at, "postgres:", 9) == 0 || strncasecmp(url.at, "postgresql:", 11) == 0;
}

static pawl_code open_url(db **out, slice url, const db_options *options, error *err)
{
    if (slice_equal(url, SLICE_LIT("memory:")))
        return db_sqlite_open(out, NULL, 0, options, err);
    if (is_postgres(url)) {
        error_set(err, PAWL_UNSUPPORTED, "PostgreSQL is not built into this library");
        error_hint(err, "use a SQLite file: \"app.db\" or \"sqlite:app.db\"");
        return PAWL_UNSUPPORTED;
    }
    if (slice_starts(url, SLICE_LIT("sqlite:"))) {
        slice path = {url.at + 7, url.size - 7};
        const char *mark = memchr(path.at, '?', path.size);
        int relaxed = 0;
        if (mark) {
            slice parameters = {mark + 1, path.size - (size_t)(mark + 1 - path.at)};
            pawl_code rc = read_parameters(parameters, &relaxed, err);
            if (rc != PAWL_OK)
                return rc;
            path.size = (size_t)(mark - path.at);
        }
        return open_file(out, path, relaxed, options, err);
    }
    return open_file(out, url, 0, options, err);
}

pawl_code db_open(db **out, const db_options *given, error *err)
{
    *out = NULL;
    db_options options = *given;
    slice url = slice_of(options.url);
    pawl_code rc = text_check(url, PAWL_MAX_URL, "database URL", err);
    if (rc != PAWL_OK) {
        error_hint(err, "give a file name, sqlite:PATH or memory:, in UTF-8, at most %d bytes",
                   PAWL_MAX_URL);
        return rc;
    }
    options.url = NULL;
    if (!options.clock)
        options.clock = clock_system();
    if (!options.random)
        options.random = random_system();
    if (options.busy_ms <= 0)
        options.busy_ms = BUSY_MS;
    if (options.busy_ms > BUSY_MS_MAX) /* drivers have less room for it than we do */
        options.busy_ms = BUSY_MS_MAX;
    if (options.wal_bytes <= 0)
        options.wal_bytes = WAL_BYTES;

    /* Opening may wait for others, even where nothing may wait afterwards. */
    options.by_hand = 0;
    rc = open_url(out, url, &options, err);
    if (rc != PAWL_OK)
        return rc;
    assert(*out);
    rc = migrate(*out, err);
    if (rc != PAWL_OK) {
        db_close(*out);
        *out = NULL;
        return rc;
    }
    (*out)->options.by_hand = given->by_hand;
    return PAWL_OK;
}

void db_close(db *d)
{
    if (d)
        d->driver->close(d);
}

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
        rc = error_set(err, PAWL_NOMEM, "out of memory");
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

/* ---- Names in braces ---- */

static const char *macro_text(const db_driver *driver, slice name)
{
    for (const db_macro *m = driver->macros; m && m->name; m++)
        if (slice_equal(slice_of(m->name), name))
            return m->text;
    return NULL;
}

/* All letters of one case, or underscores. */
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
        return out->size < out->max / 2 ? error_set(err, PAWL_NOMEM, "out of memory")
                                        : error_set(err, PAWL_INTERNAL, "SQL beyond its bound");
    return PAWL_OK;
}
