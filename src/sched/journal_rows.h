/* Rows of a journal as they are read from the database, and read-ahead (prefetch): the short
 * journals of several dormant runs are read with one statement.
 *
 * A run that comes back into memory is replayed, and a journal that is read when the replay asks
 * for it is a round trip to a server for each run. So the thread that reads the rows of some runs
 * (dormant_read.c) reads their journals along, and the replay of these runs waits for nothing.
 * What is read ahead is in memory until the run has its turn; so only short journals are, without
 * large values, and all others are read page by page when they are replayed (runner_read.c). */
#ifndef SCHED_JOURNAL_ROWS_H
#define SCHED_JOURNAL_ROWS_H

#include "db/db.h"
#include "run/run.h"

/* Makes *out of a row whose first columns are seq, kind, op, name, at and data, in the arena. 0:
 * memory is out. */
int journal_row_read(arena *a, db_stmt *row, int64_t generation, replay_row *out);

enum { JOURNAL_AHEAD_RUNS = 16 };

/* Reads the journals of those of these runs ahead whose journals are short; at most
 * JOURNAL_AHEAD_RUNS runs, some of which may be NULL. The connection is in the transaction in which
 * their rows were read. Not PAWL_OK: the transaction is to be ended, and the other journals are
 * read page by page. */
pawl_code journal_read_ahead(db_conn *c, pawl_run *const runs[], size_t count, error *err);

#endif
