/* The file `<db>-wake`: how processes on one SQLite file notify each other.
 *
 * A process that has committed something for another one writes one byte into the file, always the
 * same one; the system notifies every process that watches the file (inotify). The file is never
 * read: a process that is notified polls the database. So the file may be lost, deleted or full of
 * anything, and all that happens is that the others find their work at their next poll. */
#ifndef DB_SQLITE_NOTIFY_H
#define DB_SQLITE_NOTIFY_H

#include "base/error.h"

typedef struct sqlite_notify sqlite_notify;

/* Open (or make) the file beside a database. */
pawl_code sqlite_notify_open(sqlite_notify **out, const char *db_path, error *err);
void sqlite_notify_close(sqlite_notify *w); /* NULL is allowed */

/* Watch the file. From now on *fd is readable when a process has written the file; -1: it cannot be
 * watched, since the system has no inotify, or no watch left. PAWL_BUSY: the file was replaced at
 * this moment. */
pawl_code sqlite_notify_listen(sqlite_notify *w, int *fd, error *err);

/* Consume the events. 1: the file was written, perhaps by this process; 0: it was not; -1: it was
 * deleted or replaced, so that other processes do not see it any more: close it and open it
 * again. */
int sqlite_notify_heard(sqlite_notify *w);

/* Notify all processes that listen. */
pawl_code sqlite_notify_tell(sqlite_notify *w, error *err);

#endif
