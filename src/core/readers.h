/* Connections for those who look: a few, shared by all threads of an engine.
 *
 * A connection is taken for one page of results and given back before anything else happens; no
 * user code runs in between. So a snapshot never lasts longer than a page, and who finds all of
 * them taken waits for no longer than others need for theirs. */
#ifndef CORE_READERS_H
#define CORE_READERS_H

#include "db/db.h"

typedef struct readers readers;

/* The database must outlive it. NULL when memory is out. Connects at the first use only. */
readers *readers_new(db *d);

/* All connections were given back. NULL is allowed. */
void readers_free(readers *r);

/* A connection with a transaction begun. PAWL_BUSY: none became free within the database's busy_ms.
 * After an error there is nothing to end. */
pawl_code readers_begin(readers *r, db_conn **out, error *err);

/* The same, and the database's time before: what is due, and who is alive, depends on it. */
pawl_code readers_begin_now(readers *r, db_conn **out, int64_t *now_ms, error *err);

/* End the transaction and give the connection back. */
void readers_end(readers *r, db_conn *c);

/* ---- Rows ---- */

/* Called for each row; not PAWL_OK ends the walk. What columns point to is good until it
 * returns. */
typedef pawl_code reader_fn(void *arg, db_stmt *row, error *err);

/* Run a statement and walk over its rows. */
pawl_code reader_rows(db_conn *c, const db_sql *sql, const db_value *values, int count,
                      reader_fn *fn, void *arg, error *err);

/* The first row's numbers, up to `wanted` of them; NULL is 0. *found 0: there was no row. */
pawl_code reader_numbers(db_conn *c, const db_sql *sql, const db_value *values, int count,
                         int64_t *out, int wanted, int *found, error *err);

/* A column as a number, 0 if it is none; as text or bytes, empty if it is neither. */
static inline int64_t reader_int(db_stmt *row, int column)
{
    return db_column(row, column).i;
}

static inline slice reader_text(db_stmt *row, int column)
{
    slice s = db_column(row, column).s;
    return s.at ? s : SLICE_LIT("");
}

static inline int reader_is_null(db_stmt *row, int column)
{
    return db_column(row, column).type == DB_NULL;
}

/* The key of the run of that name: first column of the answer to (tenant, id). */
extern const db_sql READER_RUN;

/* Its key, or PAWL_NOTFOUND with the words for it. `c` is in a transaction. */
pawl_code reader_run(db_conn *c, slice tenant, slice id, int64_t *run, error *err);
pawl_code reader_no_run(error *err);

#endif
