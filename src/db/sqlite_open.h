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

/* Open a connection: the application's on_connect prepares it, then pawl makes its settings and
 * reads them back. PAWL_NOTDURABLE: they did not take effect. `path` NULL: a database in memory. */
pawl_code sqlite_open_native(const char *path, int relaxed, const db_options *options,
                             sqlite3 **out, error *err);

/* Check that the file is a database in UTF-8 and in WAL mode. A file without content is switched to
 * that mode, and any other only where options->switch_to_wal says so: PAWL_NOTWAL. */
pawl_code sqlite_ensure_wal(const char *path, const db_options *options, error *err);

/* The files of a writer, as they were when first seen. If one of them is moved, deleted or
 * replaced, what the writer acknowledges goes to a file that no later open finds; so the files are
 * checked before each transaction. */
typedef struct sqlite_watch {
    char *path[3]; /* the database, its log, the log's index */
    uint64_t device[3];
    uint64_t inode[3]; /* 0: not seen yet */
} sqlite_watch;

void sqlite_watch_init(sqlite_watch *w, const char *path);
void sqlite_watch_free(sqlite_watch *w);

/* PAWL_IO: a file is gone, or is not the one that was seen first. */
pawl_code sqlite_watch_check(sqlite_watch *w, error *err);

/* Fill in the error for a child of fork() whose parent had the database open: PAWL_MISUSE. */
pawl_code sqlite_refuse_child(const char *path, error *err);

/* Bound the file of the write-ahead log: when the log begins anew, SQLite cuts it to twice
 * `wal_bytes`. */
void sqlite_limit_log(sqlite3 *handle, int64_t wal_bytes);

/* Check that a connection of the application can be borrowed (db_guests.borrow). PAWL_MISUSE: it is
 * in no transaction; PAWL_INVALID: its database has no tables of pawl's. */
pawl_code sqlite_check_borrowed(sqlite3 *native, error *err);

/* The driver's macros (db_driver.macros). */
extern const db_macro SQLITE_MACROS[];

#endif
