/* The file `<db>-wake`: how processes on one SQLite file wake each other.
 *
 * Who has committed something for another process writes one byte into it, always the same one; the
 * system tells everybody who watches the file (inotify). Nothing can be read from it: whoever is
 * woken looks into the database. So it may be lost, deleted or full of anything, and all that
 * happens is that others find their work when they next look by themselves. */
#ifndef DB_SQLITE_WAKE_H
#define DB_SQLITE_WAKE_H

#include "base/error.h"

typedef struct sqlite_wake sqlite_wake;

/* Open (or make) the file beside a database. */
pawl_code sqlite_wake_open(sqlite_wake **out, const char *db_path, error *err);
void sqlite_wake_close(sqlite_wake *w); /* NULL is allowed */

/* *fd is readable from now on when somebody has written; -1 where the system has no such thing. */
pawl_code sqlite_wake_listen(sqlite_wake *w, int *fd, error *err);

/* Take what has come: 1 if it was anything, one's own writing included; 0 if not; -1 when others
 * no longer see this file, since it was deleted or replaced: open it again. */
int sqlite_wake_heard(sqlite_wake *w);

/* Wake all who listen. */
pawl_code sqlite_wake_tell(sqlite_wake *w, error *err);

#endif
