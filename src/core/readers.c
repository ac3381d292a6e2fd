/* The pool is a list of idle connections and a count. It is bounded because a server's connections
 * are, and most of an application's threads look only now and then. A connection that broke is
 * given back like any other: drivers make it anew at the next begin. */
#include "core/readers.h"

#include <assert.h>
#include <stdlib.h>

enum { CONNECTIONS = 8 };

struct readers {
    db *db;
    pthread_mutex_t lock;
    pthread_cond_t given; /* one was given back */
    db_conn *idle[CONNECTIONS];
    int idle_count;
    int made; /* idle or taken */
};

const db_sql READER_RUN = {"SELECT run FROM {runs} WHERE tenant = $1 AND id = $2", "tt"};

readers *readers_new(db *d)
{
    readers *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->db = d;
    pthread_mutex_init(&r->lock, NULL);
    if (clock_cond_init(&r->given) == 0)
        return r;
    pthread_mutex_destroy(&r->lock);
    free(r);
    return NULL;
}

void readers_free(readers *r)
{
    if (!r)
        return;
    assert(r->idle_count == r->made);
    while (r->idle_count > 0)
        db_disconnect(r->idle[--r->idle_count]);
    pthread_cond_destroy(&r->given);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* ---- Taking and giving ---- */

/* An idle connection, or NULL: the caller may make one. PAWL_BUSY: neither. */
static pawl_code take_idle(readers *r, db_conn **out, error *err)
{
    clock_source *clock = r->db->options.clock;
    int64_t deadline = clock_deadline(clock->mono_ns(clock), r->db->options.busy_ms);
    int late = 0;
    *out = NULL;
    while (r->idle_count == 0 && r->made == CONNECTIONS && !late)
        late = clock->wait(clock, &r->given, &r->lock, deadline);
    if (r->idle_count > 0) {
        *out = r->idle[--r->idle_count];
        return PAWL_OK;
    }
    if (r->made < CONNECTIONS) {
        r->made++;
        return PAWL_OK;
    }
    error_set(err, PAWL_BUSY, "all connections for reading are in use");
    error_hint(err, "try again; look with fewer threads at a time");
    return PAWL_BUSY;
}

static void forget_one(readers *r)
{
    pthread_mutex_lock(&r->lock);
    r->made--;
    pthread_cond_signal(&r->given);
    pthread_mutex_unlock(&r->lock);
}

static pawl_code take(readers *r, db_conn **out, error *err)
{
    pthread_mutex_lock(&r->lock);
    pawl_code rc = take_idle(r, out, err);
    pthread_mutex_unlock(&r->lock);
    if (rc != PAWL_OK || *out)
        return rc;
    rc = db_connect(r->db, DB_READER, out, err);
    if (rc != PAWL_OK)
        forget_one(r);
    return rc;
}

static void give(readers *r, db_conn *c)
{
    pthread_mutex_lock(&r->lock);
    r->idle[r->idle_count++] = c;
    pthread_cond_signal(&r->given);
    pthread_mutex_unlock(&r->lock);
}

/* `now_ms` may be NULL. Only what was begun may be rolled back: in memory all share one handle. */
static pawl_code begin(readers *r, db_conn **out, int64_t *now_ms, error *err)
{
    pawl_code rc = take(r, out, err);
    if (rc != PAWL_OK)
        return rc;
    if (now_ms)
        rc = r->db->driver->now_ms(*out, now_ms, err);
    if (rc == PAWL_OK)
        rc = db_begin(*out, err);
    if (rc == PAWL_OK)
        return rc;
    give(r, *out);
    *out = NULL;
    return rc;
}

pawl_code readers_begin(readers *r, db_conn **out, error *err)
{
    return begin(r, out, NULL, err);
}

pawl_code readers_begin_now(readers *r, db_conn **out, int64_t *now_ms, error *err)
{
    return begin(r, out, now_ms, err);
}

void readers_end(readers *r, db_conn *c)
{
    db_rollback(c);
    give(r, c);
}

/* ---- Rows ---- */

pawl_code reader_rows(db_conn *c, const db_sql *sql, const db_value *values, int count,
                      reader_fn *fn, void *arg, error *err)
{
    db_stmt *s;
    pawl_code rc = db_prepare(c, sql, &s, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_bind_all(s, values, count, err);
    db_step step = DB_ROW;
    while (rc == PAWL_OK && (step = db_next(s, err)) == DB_ROW)
        rc = fn(arg, s, err);
    if (step == DB_FAILED)
        rc = err->code;
    db_reset(s);
    return rc;
}

typedef struct numbers {
    int64_t *out;
    int wanted;
    int *found;
} numbers;

static pawl_code note_numbers(void *arg, db_stmt *row, error *err)
{
    numbers *n = arg;
    (void)err;
    for (int i = 0; !*n->found && i < n->wanted; i++)
        n->out[i] = reader_int(row, i);
    *n->found = 1;
    return PAWL_OK;
}

pawl_code reader_numbers(db_conn *c, const db_sql *sql, const db_value *values, int count,
                         int64_t *out, int wanted, int *found, error *err)
{
    numbers n = {out, wanted, found};
    *found = 0;
    return reader_rows(c, sql, values, count, note_numbers, &n, err);
}

pawl_code reader_no_run(error *err)
{
    error_set(err, PAWL_NOTFOUND, "there is no run of this id");
    error_hint(err, "look at the id and the tenant; a run that was deleted or pruned is gone");
    return PAWL_NOTFOUND;
}

pawl_code reader_run(db_conn *c, slice tenant, slice id, int64_t *run, error *err)
{
    const db_value name[] = {db_text(tenant), db_text(id)};
    int found;
    pawl_code rc = reader_numbers(c, &READER_RUN, name, DB_COUNT(name), run, 1, &found, err);
    return rc == PAWL_OK && !found ? reader_no_run(err) : rc;
}
