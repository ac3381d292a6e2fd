/* The row that a statement has changed, without RETURNING.
 *
 * For each RETURNING SQLite makes a table in memory, fills it, reads it and throws it away, which
 * costs as much as everything else that an UPDATE of one row does. A row that is known by its key
 * can be read again for a quarter of that. No other connection writes in between: a writer of
 * SQLite is alone. So statements that change the one run which their first parameter names are
 * taken apart; all others stay as they are. */
#ifndef DB_SQLITE_RETURNING_H
#define DB_SQLITE_RETURNING_H

#include <sqlite3.h>

/* Prepare a statement, for long. `is_keyed`: it changes the one run that $1 names, as its db_sql
 * says by a first letter k in `binds`. If *again is not NULL then *first changes that run, and says
 * so by its number of changed rows only; *again, which takes $1 and nothing else, then gives what
 * the text would have returned. Both are the caller's, also after an error, which is SQLite's. */
int sqlite_returning_prepare(sqlite3 *file, const char *text, int is_keyed, sqlite3_stmt **first,
                             sqlite3_stmt **again);

#endif
