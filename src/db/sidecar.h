/* Files of pawl's own beside a SQLite database: node locks, notifications.
 *
 * They are opened in one way only. Links are not followed, and the database itself is never opened
 * by another name: closing it again would drop SQLite's locks of the whole process. A new one gets
 * the database's mode and owner, as SQLite's own files beside it do: a user that may write the
 * database must be able to use them. */
#ifndef DB_SIDECAR_H
#define DB_SIDECAR_H

#include "base/error.h"

/* Open `path`, a file beside the database `db_path`; makes it if it is not there. Gives the
 * descriptor; -1: errno says why not. */
int sidecar_open(const char *path, const char *db_path);

/* Open it to look at its locks only: read-only, and not made. -1: errno says why not. */
int sidecar_look(const char *path, const char *db_path);

/* The error for errno: `what` cannot be opened, or written. */
pawl_code sidecar_error(const char *path, const char *what, error *err);

#endif
