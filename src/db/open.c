/* Opening: which driver a URL means, and tables of this version behind it.
 *
 * A URL may hold a password. It is taken apart here, or handed to the driver, and never repeated in
 * a message. */
#include <assert.h>
#include <stdlib.h>
#include <strings.h>

#include "base/text.h"
#include "db/db.h"
#include "db/db_sqlite.h"
#include "db/migrate.h"
#include "db/plugin.h"

enum {
    BUSY_MS = 5000,
    BUSY_MS_MAX = 1000 * 1000 * 1000,
    WAL_BYTES = 64 * 1024 * 1024,
    CLAIM_MS = 5000,
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

/* "shop://" and connection strings are never meant as file names: they may hold a password, so they
 * must not become a file name that is quoted in a message. */
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
        error_hint(err, "give a file name, sqlite:PATH, memory:, or postgres://…");
        return PAWL_INVALID;
    }
    buf name;
    buf_init(&name, PAWL_MAX_URL + 2);
    if (slice_starts(path, SLICE_LIT("file:"))) /* a file name, and no URI of SQLite's: "./" before
                                                   it keeps SQLite from taking it apart */
        buf_text(&name, "./");
    buf_add(&name, path);
    pawl_code rc =
        name.failed ? error_nomem(err) : db_sqlite_open(out, buf_str(&name), relaxed, options, err);
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
    if (is_postgres(url))
        return plugin_open(out, POSTGRES_LIBRARY, url, options, err);
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
        error_hint(
            err,
            "give a file name, sqlite:PATH, memory: or postgres://…, in UTF-8, at most %d bytes",
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
    if (options.busy_ms > BUSY_MS_MAX) /* the drivers pass it on as a number of 32 bits */
        options.busy_ms = BUSY_MS_MAX;
    if (options.claim_ms <= 0)
        options.claim_ms = CLAIM_MS;
    if (options.claim_ms > BUSY_MS_MAX)
        options.claim_ms = BUSY_MS_MAX;
    if (options.wal_bytes <= 0)
        options.wal_bytes = WAL_BYTES;

    /* Opening may wait for others, even where nothing may wait afterwards. */
    options.by_hand = 0;
    rc = open_url(out, url, &options, err);
    if (rc != PAWL_OK)
        return rc;
    assert(*out);
    /* RULE looking-does-not-migrate */
    rc = options.look_only ? migrate_check(*out, err) : migrate(*out, err);
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
