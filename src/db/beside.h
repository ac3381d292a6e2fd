/* Files of pawl's own beside a SQLite database: node locks, wake-ups.
 *
 * They are opened in one way only. Links are not followed, and the database itself is never opened
 * by another name: closing it again would drop SQLite's locks of the whole process. A new one gets
 * the database's mode and owner, as SQLite's own files beside it do: whoever may write the one must
 * be able to use the other. */
#ifndef DB_BESIDE_H
#define DB_BESIDE_H

#include "base/error.h"

/* Open `path`, a file beside the database `db_path`; makes it if it is not there. Gives the
 * descriptor; -1: errno says why not. */
int beside_open(const char *path, const char *db_path);

/* The error for errno: `what` cannot be opened, or written. */
pawl_code beside_error(const char *path, const char *what, error *err);

#endif
