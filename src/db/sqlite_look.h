/* Read-only connections to a SQLite file, for read-only handles: private to the driver.
 *
 * Such a handle changes no byte of the database and makes no table. It needs no right to write
 * either, as far as SQLite can do without; where SQLite cannot, the error names the file that is
 * missing. */
#ifndef DB_SQLITE_LOOK_H
#define DB_SQLITE_LOOK_H

#include <sqlite3.h>

#include "db/db.h"

/* Can the file be read, and how? *real is its absolute name, links resolved, to be freed.
 * *immutable: SQLite has to do without its locks and its files beside the database, which is right
 * only because no log is there and no node is alive. */
pawl_code sqlite_look_check(const char *path, const db_options *options, char **real,
                            int *immutable, error *err);

/* One read-only connection, prepared by the application. No setting is changed or demanded.
 * PAWL_READONLY for any other role than that of a reader. */
pawl_code sqlite_look_connect(const char *real, int immutable, db_role role,
                              const db_options *options, sqlite3 **out, error *err);

/* Before each transaction of an immutable connection: is there still no log? PAWL_BUSY: a writer
 * has come since, and what is read without locks may be torn. */
pawl_code sqlite_look_again(const char *real, int immutable, error *err);

#endif
