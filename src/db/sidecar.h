/* Files of pawl's own beside a SQLite database: node locks, notifications.
 *
 * All of them are opened in the same way. Links are not followed, and the database itself is never
 * opened by another name: closing that descriptor would drop SQLite's locks of the whole process. A
 * new file gets the database's mode and owner, as SQLite's own files beside it do: a user that may
 * write the database must be able to use it. */
#ifndef DB_SIDECAR_H
#define DB_SIDECAR_H

#include "base/error.h"

/* Open `path`, a file beside the database `db_path`, for reading and writing; make it if it does
 * not exist. Returns the descriptor; -1: errno says why it cannot be opened. */
int sidecar_open(const char *path, const char *db_path);

/* Open such a file for reading only, to look at its locks; do not make it. Returns the descriptor;
 * -1: errno says why it cannot be opened. */
int sidecar_look(const char *path, const char *db_path);

/* Fill in the error for errno, and return its code. `what` ends the sentence "the file …", as in
 * "that wakes others cannot be opened". */
pawl_code sidecar_error(const char *path, const char *what, error *err);

#endif
