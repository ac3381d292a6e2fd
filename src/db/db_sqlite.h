/* The SQLite driver: a file in WAL mode, or memory.
 *
 * Besides the seam (db.h) it has statistics of turns and of the log, which only a file has. */
#ifndef DB_DB_SQLITE_H
#define DB_DB_SQLITE_H

#include "db/db.h"
#include "db/liveness_file.h"
#include "db/wal.h"

/* Open `path` (a NUL-terminated file name), or memory when it is NULL. Does not make tables.
 * `relaxed`: synchronous=NORMAL, by name only. */
pawl_code db_sqlite_open(db **out, const char *path, int relaxed, const db_options *options,
                         error *err);

/* Turn an error of SQLite into ours, with a hint. `doing` says what was being done: "open". */
pawl_code db_sqlite_error(void *native, int rc, const char *doing, error *err);

/* ---- For tests and benches ---- */

typedef struct db_sqlite_stats {
    wal_stats wal;
    int64_t turn_ns_max;    /* the longest wait for a turn among processes */
    int64_t turns_given_up; /* how often a writer went on without a turn */
} db_sqlite_stats;

/* Figures of a writing connection; may be asked by any thread. */
db_sqlite_stats db_sqlite_figures(db_conn *writer);

#endif
