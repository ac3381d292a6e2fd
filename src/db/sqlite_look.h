/* Read-only connections to a SQLite file, for read-only handles: private to the driver.
 *
 * Such a handle changes no byte of the database, and makes no table and no file. It needs no right
 * to write either, as far as SQLite can do without; where SQLite cannot, the error names the file
 * that is missing. */
#ifndef DB_SQLITE_LOOK_H
#define DB_SQLITE_LOOK_H

#include <sqlite3.h>

#include "db/db.h"

/* How the file is read. Immutable: SQLite does without its locks and its files beside the database,
 * which is right only because nothing is in the log and no node is alive. */
typedef struct sqlite_look {
    int immutable;
    int64_t stamp; /* when the database was last written before it was opened so */
} sqlite_look;

/* Can the file be read, and how? *real is its absolute name, links resolved, to be freed. */
pawl_code sqlite_look_check(const char *path, const db_options *options, char **real,
                            sqlite_look *look, error *err);

/* One read-only connection, prepared by the application. No setting is changed or demanded.
 * PAWL_READONLY for any other role than that of a reader. */
pawl_code sqlite_look_connect(const char *real, const sqlite_look *look, db_role role,
                              const db_options *options, sqlite3 **out, error *err);

/* Before each transaction of an immutable connection: is nothing in the log, and was the file not
 * written? PAWL_BUSY: a writer has come since, and what is read without locks may be torn. */
pawl_code sqlite_look_again(const char *real, const sqlite_look *look, error *err);

#endif
