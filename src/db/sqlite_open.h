/* Opening a SQLite file, and refusing what could not be trusted: private to the driver.
 *
 * Everything that can be wrong with a path or a file is found here, each with a code, a cause and
 * a way out, before pawl changes a single byte of it. */
#ifndef DB_SQLITE_OPEN_H
#define DB_SQLITE_OPEN_H

#include <sqlite3.h>

#include "db/db.h"

/* Check the path, without opening it: pawl never opens the file itself, because closing it would
 * drop SQLite's locks of the whole process. */
pawl_code sqlite_check_path(const char *path, const db_options *options, error *err);

/* One connection, prepared by the application and then by us, its settings read back.
 * `path` NULL: memory. */
pawl_code sqlite_open_native(const char *path, int relaxed, const db_options *options,
                             sqlite3 **out, error *err);

/* Have the file in WAL mode, or refuse it: an application's file is not switched unasked. */
pawl_code sqlite_ensure_wal(const char *path, const db_options *options, error *err);

/* The files of a writer. Moved, deleted or replaced under it, what it acknowledges would be written
 * to a file that no later open finds; so the files are checked before each transaction. */
typedef struct sqlite_watch {
    char *path[3]; /* the database, its log, the log's index */
    uint64_t device[3];
    uint64_t inode[3]; /* 0: not seen yet */
} sqlite_watch;

void sqlite_watch_init(sqlite_watch *w, const char *path);
void sqlite_watch_free(sqlite_watch *w);

/* PAWL_OK, or PAWL_IO when a file is not the one it was. */
pawl_code sqlite_watch_check(sqlite_watch *w, error *err);

/* The answer in a child of fork(). */
pawl_code sqlite_refuse_child(const char *path, error *err);

/* Have the write-ahead log cut to what this bound allows. */
void sqlite_limit_log(sqlite3 *handle, int64_t wal_bytes);

/* Can a connection of the application be used (db_guests.borrow)? */
pawl_code sqlite_check_borrowed(sqlite3 *native, error *err);

/* The driver's macros (db_driver.macros). */
extern const db_macro SQLITE_MACROS[];

#endif
