/* Values of the seam as SQLite has them: where parameters are, how they are bound, and how columns
 * are read. Nothing here knows of connections or transactions. */
#ifndef DB_SQLITE_VALUE_H
#define DB_SQLITE_VALUE_H

#include <sqlite3.h>

#include "db/db.h"

/* Where SQLite has $1, $2 …, at most `max` of them, as it counts. A code of SQLite's. */
int sqlite_value_places(sqlite3_stmt *s, unsigned char *places, int max);

/* Give a statement its parameter number `at`, as SQLite counts. A code of SQLite's. */
int sqlite_value_bind(sqlite3_stmt *s, int at, const db_value *v);

/* A column of the row that the statement is at; text and bytes are good until it goes on. */
db_value sqlite_value_column(sqlite3_stmt *s, int index);

#endif
