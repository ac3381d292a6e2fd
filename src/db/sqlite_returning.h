/* Reads the row that a statement has changed, without SQLite's RETURNING.
 *
 * For each RETURNING SQLite makes a table in memory, fills it, reads it and throws it away, which
 * costs as much as everything else that an UPDATE of one row does. A row that is known by its key
 * can be read again for a quarter of that. No other connection writes in between, since SQLite has
 * one writer at a time. So a statement that changes one run, named by its first parameter, is split
 * in two: the change without RETURNING, and a SELECT. All others stay as they are. */
#ifndef DB_SQLITE_RETURNING_H
#define DB_SQLITE_RETURNING_H

#include <sqlite3.h>

/* Prepare a statement that is kept for long. `is_keyed`: it changes the one run that $1 names, as
 * its db_sql says by a first letter k in `binds`, and is split. Then *first changes that run, and
 * gives no row but its number of changed rows; *again, which takes $1 and nothing else, gives what
 * the text would have returned. Otherwise *first is the whole statement, and *again is left as it
 * was. The caller finalizes both, also after an error. Returns a code of SQLite's. */
int sqlite_returning_prepare(sqlite3 *file, const char *text, int is_keyed, sqlite3_stmt **first,
                             sqlite3_stmt **again);

#endif
