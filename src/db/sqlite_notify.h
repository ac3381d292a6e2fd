/* The file `<db>-wake`: how processes on one SQLite file notify each other.
 *
 * A process that has committed something for another one writes one byte into it, always the same
 * one; the system notifies every process that watches the file (inotify). Nothing is read from it:
 * a process that is notified polls the database. So the file may be lost, deleted or full of
 * anything, and all that happens is that the others find their work at their next poll. */
#ifndef DB_SQLITE_NOTIFY_H
#define DB_SQLITE_NOTIFY_H

#include "base/error.h"

typedef struct sqlite_notify sqlite_notify;

/* Open (or make) the file beside a database. */
pawl_code sqlite_notify_open(sqlite_notify **out, const char *db_path, error *err);
void sqlite_notify_close(sqlite_notify *w); /* NULL is allowed */

/* *fd is readable from now on when a process has written; -1 where the system has no inotify. */
pawl_code sqlite_notify_listen(sqlite_notify *w, int *fd, error *err);

/* Consume the events: 1 if there were any, one's own writes included; 0 if not; -1 when other
 * processes no longer see this file, since it was deleted or replaced: open it again. */
int sqlite_notify_heard(sqlite_notify *w);

/* Notify all processes that listen. */
pawl_code sqlite_notify_tell(sqlite_notify *w, error *err);

#endif
