/* The read pool: a few connections for reading, shared by all threads of an engine, clients and
 * runs alike.
 *
 * A connection is taken for one page of results and given back before anything else happens; no
 * user code runs in between. So a snapshot never lasts longer than a page, and a thread that finds
 * all connections taken waits for a page of another one at most. */
#ifndef HANDLE_READ_POOL_H
#define HANDLE_READ_POOL_H

#include "db/db.h"

typedef struct read_pool read_pool;

/* The database must outlive it. NULL when memory is out. Connects at the first use only. */
read_pool *read_pool_new(db *d);

/* All connections were given back. NULL is allowed. */
void read_pool_free(read_pool *r);

/* Open at least one connection: later readers wait for it if the server gives no others. */
pawl_code read_pool_need(read_pool *r, error *err);

/* A connection with a transaction begun. Where the server refuses more connections than there are,
 * one of those is waited for. PAWL_BUSY: none became free within the database's busy_ms.
 * After an error there is nothing to end. */
pawl_code read_pool_begin(read_pool *r, db_conn **out, error *err);

/* As read_pool_begin(), after asking for the database's time: which runs are due, and which nodes
 * are alive, depends on it. */
pawl_code read_pool_begin_now(read_pool *r, db_conn **out, int64_t *now_ms, error *err);

/* End the transaction and give the connection back. */
void read_pool_end(read_pool *r, db_conn *c);

/* ---- Rows ---- */

/* Called for each row; not PAWL_OK ends the walk. What columns point to is good until it
 * returns. */
typedef pawl_code read_pool_fn(void *arg, db_stmt *row, error *err);

/* Run a statement and walk over its rows. */
pawl_code read_pool_rows(db_conn *c, const db_sql *sql, const db_value *values, int count,
                         read_pool_fn *fn, void *arg, error *err);

/* The first row's numbers, up to `wanted` of them; NULL is 0. *found 0: there was no row. */
pawl_code read_pool_numbers(db_conn *c, const db_sql *sql, const db_value *values, int count,
                            int64_t *out, int wanted, int *found, error *err);

/* A column as a number, 0 if it is none; as text or bytes, empty if it is neither. */
static inline int64_t read_pool_int(db_stmt *row, int column)
{
    return db_column(row, column).i;
}

static inline slice read_pool_text(db_stmt *row, int column)
{
    slice s = db_column(row, column).s;
    return s.at ? s : SLICE_LIT("");
}

static inline int read_pool_is_null(db_stmt *row, int column)
{
    return db_column(row, column).type == DB_NULL;
}

/* The key of the run of that name, or PAWL_NOTFOUND with the words for it. `c` is in a
 * transaction. */
pawl_code read_pool_run(db_conn *c, slice tenant, slice id, int64_t *run, error *err);
pawl_code read_pool_no_run(error *err);

#endif
