/* Read-only connections to a SQLite file, for read-only handles: private to the driver.
 *
 * Such a handle changes no byte of the database, and makes no table and no file. It needs no right
 * to write either, as far as SQLite can do without; where SQLite cannot, the error names the file
 * that is missing. */
#ifndef DB_SQLITE_LOOK_H
#define DB_SQLITE_LOOK_H

#include <sqlite3.h>

#include "db/db.h"

/* How the file is read. `immutable`: SQLite uses neither locks nor the files beside the database,
 * which is right only because the log is empty and no node is alive. */
typedef struct sqlite_look {
    int immutable;
    int64_t stamp; /* if immutable: when the file was last changed, in ns since 1970 */
} sqlite_look;

/* Find out whether the file can be read, and how: fills in *look. *real is the absolute name of the
 * file, links resolved, which the caller frees, also after an error; NULL: there is no such
 * file. */
pawl_code sqlite_look_check(const char *path, const db_options *options, char **real,
                            sqlite_look *look, error *err);

/* Open a read-only connection, and have the application's on_connect prepare it. No PRAGMA is set
 * or demanded. PAWL_READONLY for any other role than that of a reader. */
pawl_code sqlite_look_connect(const char *real, const sqlite_look *look, db_role role,
                              const db_options *options, sqlite3 **out, error *err);

/* To be called before each transaction: if the file is read as immutable, checks that the log is
 * still empty and the database unchanged. PAWL_BUSY: another program has begun to write, and what
 * is read without locks may be torn. */
pawl_code sqlite_look_again(const char *real, const sqlite_look *look, error *err);

#endif
