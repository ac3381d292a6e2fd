/* Migrations: numbered SQL, compiled in, applied once each.
 *
 * The files are src/db/schema/NNNN_name.sql. They are applied in order, each in a transaction of
 * its own together with the new schema version, so that processes that race for it do it once.
 * A file that was released is never edited. */
#ifndef DB_MIGRATE_H
#define DB_MIGRATE_H

#include <stddef.h>

#include "db/db.h"

struct migration {
    int number;
    const char *name;
    const char *sql;
};

extern const struct migration MIGRATIONS[];
extern const size_t MIGRATION_COUNT;

/* Bring the tables to the newest version. PAWL_FOREIGN: there are pawl_ tables that are not
 * ours. PAWL_NEWER: the schema is newer than this library. Nothing is changed then. */
pawl_code migrate(db *d, error *err);

/* Read-only: are the tables there, and of this version? PAWL_NOTFOUND: there are none;
 * PAWL_READONLY: they are those of an older pawl, and would have to be migrated first. */
pawl_code migrate_check(db *d, error *err);

/* ---- For tests ---- */

/* migrate() with a list of migrations handed in. */
pawl_code migrate_with(db *d, const struct migration *list, size_t count, error *err);

#endif
