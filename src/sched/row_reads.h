/* Reading rows of runs one by one, where one of them cannot be read.
 *
 * The node loop reads what is due by pages: one statement, many rows. If a page of the database is
 * damaged, or a value is too large for the memory, the statement fails at that row each time, and
 * what stands behind it would never be reached. So:
 *   1. The page is read as a whole. If that fails, but not for the sake of the connection, then
 *   2. the keys of the page are read, from the index alone, and each row by a statement of its own,
 *      in a transaction of its own, since a server ends a transaction in which a statement fails.
 *   3. A row that cannot be read then is the trouble of its run, which is noted with a back-off
 *      (run_failure.h), and passed over. But if no row at all could be read, and the error does not
 *      speak of rows, the look has failed as a whole (look_failure.h). */
#ifndef SCHED_ROW_READS_H
#define SCHED_ROW_READS_H

#include "db/db.h"
#include "sched/run_failure.h"

struct sched;
struct runner;

enum { ROW_READS_PAGE = 256 };

/* A page of the runs of an owner that are due, and the position behind it. */
typedef struct due_keys {
    int64_t at[ROW_READS_PAGE]; /* keys of runs */
    size_t count;
    int64_t last_ms;  /* the position: wake_at … */
    int64_t last_run; /* … and the key */
} due_keys;

/* The runs whose rows could not be read. */
typedef struct unread_rows {
    int64_t at[ROW_READS_PAGE];
    size_t count;
    size_t read; /* how many others could be read */
    error err;   /* the first error */
} unread_rows;

/* Begin and end a transaction to read in: of a runner, on a connection of the read pool; NULL: of
 * the node loop, on its own. */
pawl_code row_reads_begin(struct sched *s, const struct runner *r, db_conn **out, error *err);
void row_reads_end(struct sched *s, const struct runner *r, db_conn *c);

/* Reads the next page behind the position, of `most` keys; for the node loop. */
pawl_code row_reads_due(struct sched *s, int64_t owner, int64_t now_ms, size_t most, due_keys *p,
                        error *err);

/* Reads one row, for the node loop, and gives it to `take`. No row is no error. */
pawl_code row_reads_one(struct sched *s, const db_sql *sql, const db_value *values, int count,
                        void (*take)(void *arg, db_stmt *row), void *arg, error *err);

/* May the failure be that of single rows, and not of the connection? */
int row_reads_may_be_of_row(pawl_code code);

/* Adds the run of a row that could not be read. 0: reading has failed as a whole, so no other row
 * need be tried. */
int row_reads_add(unread_rows *u, int64_t run, const error *err);

/* 1 if the failures are those of single rows; 0, with the error: no row can be read. */
int row_reads_are_single(const unread_rows *u, error *err);

/* Notes the failures of these runs. Not PAWL_OK: no row can be read, or memory is out. */
pawl_code row_reads_note(struct sched *s, const struct runner *r, const unread_rows *u,
                         run_failure_kind kind, error *err);

#endif
