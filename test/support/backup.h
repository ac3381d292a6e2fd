/* A backup of a test's database, and restoring it under the processes that use it.
 *
 * SQLite: by its backup API, as `.backup` and `.restore` of its shell do. PostgreSQL: what all
 * tables hold is kept in a schema beside them, and put back in one transaction, under connections
 * that live on; a server that is restored with its whole folder is test_pg_failover.c's affair. */
#ifndef SUPPORT_BACKUP_H
#define SUPPORT_BACKUP_H

#include "support/conf.h"

/* Keep the database as it is now; one that was kept before is forgotten. */
void backup_take(const conf *c);

/* The database is as it was when it was kept. */
void backup_restore(const conf *c);

/* Remove what many restores have left in the files of the database: it makes the next ones slow. */
void backup_tidy(const conf *c);

#endif
