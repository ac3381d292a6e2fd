/* The pool is a list of idle connections and a count. It is bounded because the connections of a
 * server are, and most threads of an application read only now and then. A connection that broke is
 * given back like any other: its driver reconnects at the next begin. After a server has refused a
 * further connection, the pool requests none for REFUSED_MS, and its threads share the connections
 * that it has. */
#include "handle/read_pool.h"

#include <assert.h>
#include <stdlib.h>

enum { CONNECTIONS = 8, REFUSED_MS = 1000 };

struct read_pool {
    db *db;
    pthread_mutex_t lock;
    pthread_cond_t given; /* a connection was given back */
    db_conn *idle[CONNECTIONS];
    int idle_count;
    int made;           /* number of connections, idle or taken */
    int64_t refused_ns; /* since the server refused a connection, none is requested before this
                           moment; 0: it refused none */
    int is_told;        /* the log says that the connections are few */
};

static const db_sql RUN_OF_NAME = {"SELECT run FROM {runs} WHERE tenant = $1 AND id = $2", "tt"};

read_pool *read_pool_new(db *d)
{
    read_pool *r = calloc(1, sizeof *r);
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

void read_pool_free(read_pool *r)
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

/* Tells whether a further connection may be requested. The first one always may, since nothing
 * could be read without it. */
static int may_make(const read_pool *r)
{
    clock_source *clock = r->db->options.clock;
    return r->made == 0 || (r->made < CONNECTIONS && clock->mono_ns(clock) >= r->refused_ns);
}

/* Waits for an idle connection. *out NULL: there is none, and the caller requests one, which is
 * counted already. PAWL_BUSY: the caller may not do that either. */
static pawl_code take_idle(read_pool *r, db_conn **out, error *err)
{
    clock_source *clock = r->db->options.clock;
    int64_t deadline = clock_deadline(clock->mono_ns(clock), r->db->options.busy_ms);
    int late = 0;
    *out = NULL;
    while (r->idle_count == 0 && !may_make(r) && !late)
        late = clock->wait(clock, &r->given, &r->lock, deadline);
    if (r->idle_count > 0) {
        *out = r->idle[--r->idle_count];
        return PAWL_OK;
    }
    if (may_make(r)) {
        r->made++;
        return PAWL_OK;
    }
    error_set(err, PAWL_BUSY, "all connections for reading are in use");
    error_hint(err, "try again; look with fewer threads at a time");
    return PAWL_BUSY;
}

/* Notes how the request for a connection has ended. Returns 1 if the server has refused it and the
 * pool has other connections to wait for. */
static int note_made(read_pool *r, pawl_code rc, const error *err)
{
    clock_source *clock = r->db->options.clock;
    pthread_mutex_lock(&r->lock);
    r->made -= rc != PAWL_OK;
    /* RULE L3-connections-for-reading-are-shared-where-there-are-no-more */
    int share = rc == PAWL_UNREACHABLE && r->made > 0;
    r->refused_ns = share ? clock_deadline(clock->mono_ns(clock), REFUSED_MS) : 0;
    int made = r->made, begins = share && !r->is_told, ends = rc == PAWL_OK && r->is_told;
    /* RULE L6-another-failure-is-not-the-end-of-few-connections */
    r->is_told = rc != PAWL_OK && (share || r->is_told);
    pthread_cond_signal(&r->given);
    pthread_mutex_unlock(&r->lock);
    const log_sink *log = &r->db->options.log;
    if (begins)
        LOG(log, LOG_WARNING, "few-connections", LOG_NUM("shared", made),
            LOG_TEXT("why", err->detail));
    else if (ends)
        LOG(log, LOG_INFO, "connections-again", LOG_NUM("shared", made));
    return share;
}

static pawl_code acquire_conn(read_pool *r, db_conn **out, error *err)
{
    for (;;) {
        error own = {0};
        pthread_mutex_lock(&r->lock);
        pawl_code rc = take_idle(r, out, err);
        pthread_mutex_unlock(&r->lock);
        if (rc != PAWL_OK || *out)
            return rc;
        rc = db_connect(r->db, DB_READER, out, &own);
        if (note_made(r, rc, &own))
            continue;
        if (rc != PAWL_OK && err)
            *err = own;
        return rc;
    }
}

static void release_conn(read_pool *r, db_conn *c)
{
    pthread_mutex_lock(&r->lock);
    r->idle[r->idle_count++] = c;
    pthread_cond_signal(&r->given);
    pthread_mutex_unlock(&r->lock);
}

pawl_code read_pool_need(read_pool *r, error *err)
{
    db_conn *c = NULL;
    pawl_code rc = acquire_conn(r, &c, err);
    if (rc == PAWL_OK)
        release_conn(r, c);
    return rc;
}

/* Takes a connection and begins a transaction; `now_ms` may be NULL. If the begin fails there is no
 * rollback: in memory all connections share one handle, and a rollback would end the transaction of
 * another thread. */
static pawl_code begin_transaction(read_pool *r, db_conn **out, int64_t *now_ms, error *err)
{
    pawl_code rc = acquire_conn(r, out, err);
    if (rc != PAWL_OK)
        return rc;
    if (now_ms)
        rc = r->db->driver->now_ms(*out, now_ms, err);
    if (rc == PAWL_OK)
        rc = db_begin(*out, err);
    if (rc == PAWL_OK)
        return rc;
    release_conn(r, *out);
    *out = NULL;
    return rc;
}

pawl_code read_pool_begin(read_pool *r, db_conn **out, error *err)
{
    return begin_transaction(r, out, NULL, err);
}

pawl_code read_pool_begin_now(read_pool *r, db_conn **out, int64_t *now_ms, error *err)
{
    return begin_transaction(r, out, now_ms, err);
}

void read_pool_end(read_pool *r, db_conn *c)
{
    db_rollback(c);
    release_conn(r, c);
}

/* ---- Rows ---- */

pawl_code read_pool_rows(db_conn *c, const db_sql *sql, const db_value *values, int count,
                         read_pool_fn *fn, void *arg, error *err)
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
        n->out[i] = read_pool_int(row, i);
    *n->found = 1;
    return PAWL_OK;
}

pawl_code read_pool_numbers(db_conn *c, const db_sql *sql, const db_value *values, int count,
                            int64_t *out, int wanted, int *found, error *err)
{
    numbers n = {out, wanted, found};
    *found = 0;
    return read_pool_rows(c, sql, values, count, note_numbers, &n, err);
}

pawl_code read_pool_no_run(error *err)
{
    error_set(err, PAWL_NOTFOUND, "there is no run of this id");
    error_hint(err, "look at the id and the tenant; a run that was deleted or pruned is gone");
    return PAWL_NOTFOUND;
}

pawl_code read_pool_run(db_conn *c, slice tenant, slice id, int64_t *run, error *err)
{
    const db_value name[] = {db_text(tenant), db_text(id)};
    int found;
    pawl_code rc = read_pool_numbers(c, &RUN_OF_NAME, name, DB_COUNT(name), run, 1, &found, err);
    return rc == PAWL_OK && !found ? read_pool_no_run(err) : rc;
}
