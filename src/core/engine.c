/* The engine's handle: a database, a committer, and the last error of each thread.
 *
 * A handle comes back even from a failed open, so that there is something to ask. Options are
 * checked here, at the edge: their size tells which members the caller was compiled with, and
 * bytes that this library does not know must be zero. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "db/committer.h"

struct pawl {
    error_store *errors;
    db *db;
    committer *committer;
};

static pawl_code refuse_options(error *err, const char *what)
{
    error_set(err, PAWL_INVALID, "%s", what);
    error_hint(err, "fill them in with PAWL_OPTIONS(), and link with the library of that header");
    return PAWL_INVALID;
}

static pawl_code read_options(const pawl_options *given, pawl_options *out, error *err)
{
    memset(out, 0, sizeof *out);
    if (!given)
        return PAWL_OK;
    if (given->size < sizeof given->size)
        return refuse_options(err, "the options do not say their size");
    const unsigned char *bytes = (const unsigned char *)given;
    for (size_t i = sizeof *out; i < given->size; i++)
        if (bytes[i])
            return refuse_options(err, "there are options that this library does not know");
    memcpy(out, given, given->size < sizeof *out ? given->size : sizeof *out);
    if (out->wal_bytes < 0 || out->busy_ms < 0)
        return refuse_options(err, "there is a negative size or time in the options");
    return PAWL_OK;
}

static pawl_code open_all(pawl *p, const char *url, const pawl_options *given, error *err)
{
    pawl_options o;
    pawl_code rc = read_options(given, &o, err);
    if (rc != PAWL_OK)
        return rc;
    db_options options = {
        .url = url,
        .on_connect = o.on_connect,
        .on_connect_arg = o.on_connect_arg,
        .log = {o.log, o.log_arg},
        .switch_to_wal = o.switch_to_wal != 0,
        .wal_bytes = o.wal_bytes,
        .busy_ms = o.busy_ms,
    };
    rc = db_open(&p->db, &options, err);
    return rc == PAWL_OK ? committer_open(&p->committer, p->db, NULL, err) : rc;
}

pawl_code pawl_open(pawl **out, const char *url, const pawl_options *options)
{
    if (!out)
        return PAWL_INVALID;
    *out = NULL;
    pawl *p = calloc(1, sizeof *p);
    error_store *errors = error_store_new();
    if (!p || !errors) {
        free(p);
        error_store_free(errors);
        return PAWL_NOMEM;
    }
    p->errors = errors;
    *out = p;
    error err = {0};
    pawl_code rc = open_all(p, url, options, &err);
    return rc == PAWL_OK ? rc : error_store_put(p->errors, &err);
}

void pawl_close(pawl *p)
{
    if (!p)
        return;
    committer_close(p->committer);
    db_close(p->db);
    error_store_free(p->errors);
    free(p);
}

pawl_code pawl_errcode(pawl *p)
{
    return p ? error_store_get(p->errors)->code : PAWL_INVALID;
}

const char *pawl_errmsg(pawl *p)
{
    return p ? error_store_get(p->errors)->message : "no handle";
}

const char *pawl_errdetail(pawl *p)
{
    return p ? error_store_get(p->errors)->detail : "";
}

const char *pawl_errhint(pawl *p)
{
    return p ? error_store_get(p->errors)->hint : "";
}
