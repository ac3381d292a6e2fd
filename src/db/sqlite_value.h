/* Values of the seam (db.h) in SQLite's terms: how parameters are numbered and bound, and how
 * columns are read. Nothing here knows of connections or transactions. */
#ifndef DB_SQLITE_VALUE_H
#define DB_SQLITE_VALUE_H

#include <sqlite3.h>

#include "db/db.h"

/* Write the numbers that SQLite gives to $1, $2 … into places[0], places[1] … Returns SQLITE_OK, or
 * SQLITE_RANGE if there are more than `max`. */
int sqlite_value_places(sqlite3_stmt *s, unsigned char *places, int max);

/* Bind a value to the parameter that SQLite numbers `at`. Returns a code of SQLite's. */
int sqlite_value_bind(sqlite3_stmt *s, int at, const db_value *v);

/* The column `index`, from 0, of the current row. Text and bytes are good until the statement is
 * stepped or reset. */
db_value sqlite_value_column(sqlite3_stmt *s, int index);

#endif
