/* A disk that is full, for an engine that runs: what is written fails, and nothing that was written
 * before is lost. On SQLite files of this process do not grow beyond a few pages: that goes for
 * every file that the test itself writes, too. On PostgreSQL a trigger answers each row of a
 * journal as a server does that has no room (SQLSTATE 53100). */
#ifndef SUPPORT_FULL_DISK_H
#define SUPPORT_FULL_DISK_H

#include "support/conf.h"

/* Once, when pawl's tables are there. */
void full_disk_prepare(const conf *c);

/* From now on it is full, or is not. May be said twice. */
void full_disk_set(const conf *c, int full);

#endif
