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

/* Makes a pool, which connects when it is first used. The database must outlive it. NULL when
 * memory is out. */
read_pool *read_pool_new(db *d);

/* Disconnects and frees the pool. All connections must have been given back. NULL is allowed. */
void read_pool_free(read_pool *r);

/* Makes sure that the pool has at least one connection: later readers wait for it if the server
 * gives no others. */
pawl_code read_pool_need(read_pool *r, error *err);

/* Takes a connection and begins a transaction on it. If the server refuses a further connection,
 * the call waits for one of the pool. PAWL_BUSY: none became free within the busy_ms of the
 * database. After an error there is nothing to end. */
pawl_code read_pool_begin(read_pool *r, db_conn **out, error *err);

/* As read_pool_begin(), and first reads the database's time, which decides which runs are due and
 * which nodes are alive. */
pawl_code read_pool_begin_now(read_pool *r, db_conn **out, int64_t *now_ms, error *err);

/* Ends the transaction and gives the connection back. */
void read_pool_end(read_pool *r, db_conn *c);

/* ---- Rows ---- */

/* A function that is called for each row of a result. Any answer but PAWL_OK ends the walk. What
 * the columns of `row` point to is valid until the function returns. */
typedef pawl_code read_pool_fn(void *arg, db_stmt *row, error *err);

/* Runs a statement and calls fn(arg) for each of its rows. Returns the error of the statement, or
 * the answer with which `fn` has ended the walk. */
pawl_code read_pool_rows(db_conn *c, const db_sql *sql, const db_value *values, int count,
                         read_pool_fn *fn, void *arg, error *err);

/* Runs a statement and writes the first `wanted` columns of its first row to `out`, as numbers;
 * NULL is 0. *found is 1, or 0 if there is no row. */
pawl_code read_pool_numbers(db_conn *c, const db_sql *sql, const db_value *values, int count,
                            int64_t *out, int wanted, int *found, error *err);

/* Return a column: read_pool_int() as a number, 0 if it is none; read_pool_text() as text or bytes,
 * empty if it is neither. */
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

/* read_pool_run() gives the key of the run with this id; `c` is in a transaction. If there is none,
 * it returns read_pool_no_run(): PAWL_NOTFOUND, with its message. */
pawl_code read_pool_run(db_conn *c, slice tenant, slice id, int64_t *run, error *err);
pawl_code read_pool_no_run(error *err);

#endif
