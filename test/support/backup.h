/* A backup of a test's database, and restoring it under the processes that use it.
 *
 * SQLite: its backup API copies the file, as `.backup` and `.restore` of its shell do. PostgreSQL:
 * the rows of all tables of pawl are copied into a schema beside them, and put back in one
 * transaction, while the connections of pawl stay open. (test_pg_failover.c restores a server with
 * its whole folder.) */
#ifndef SUPPORT_BACKUP_H
#define SUPPORT_BACKUP_H

#include "support/conf.h"

/* Make a backup of the database as it is now. It replaces the backup before it. */
void backup_take(const conf *c);

/* Put the database back into the state of the last backup. */
void backup_restore(const conf *c);

/* PostgreSQL: remove the dead rows that restores leave in the tables, which would make the next
 * restores slow. SQLite: nothing. */
void backup_tidy(const conf *c);

#endif
