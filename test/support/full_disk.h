/* A full disk under an engine that runs: what is written fails, and nothing that was written before
 * is lost. On SQLite no file of this process can grow beyond 64 KiB; that goes for files that the
 * test itself writes, too. On PostgreSQL triggers answer as a server does that has no room
 * (SQLSTATE 53100). */
#ifndef SUPPORT_FULL_DISK_H
#define SUPPORT_FULL_DISK_H

#include "support/conf.h"

/* To be called once, when pawl's tables are there. */
void full_disk_prepare(const conf *c);

/* From now on the disk is full (1), or has room (0). Repeating a call changes nothing. */
void full_disk_set(const conf *c, int full);

#endif
