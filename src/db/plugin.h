/* Plugins: drivers that are shared libraries of their own.
 *
 * PostgreSQL's driver needs libpq, which needs two dozen libraries more; a program that only uses
 * SQLite should not have to load, or install, any of them. So the driver is in libpawl-pg.so, which
 * is loaded when the first postgres:// URL is opened, and exports one `db_plugin`. */
#ifndef DB_PLUGIN_H
#define DB_PLUGIN_H

#include "db/db.h"

/* What a driver's library exports, under the name of PLUGIN_SYMBOL. libpawl and the driver use the
 * same structures, so both must be of one version. */
typedef struct db_plugin {
    const char *version; /* PAWL_VERSION when it was compiled */
    size_t sizes;        /* DB_PLUGIN_SIZES when it was compiled */
    pawl_code (*open)(db **out, slice url, const db_options *options, error *err);
} db_plugin;

/* A weighted sum of the sizes of the structures that libpawl and the driver share: it differs when
 * the size of one of them does. */
#define DB_PLUGIN_SIZES                                                                            \
    (sizeof(db_driver) + 3 * sizeof(db) + 5 * sizeof(db_conn) + 7 * sizeof(db_stmt) +              \
     11 * sizeof(error))

#define PLUGIN_SYMBOL "pawl_db_plugin"

/* Load the driver's library `file` ("libpawl-pg.so.0.2"), and open `url` with it; *out is the open
 * database. PAWL_UNSUPPORTED: the library is not installed, or not of this version. */
pawl_code plugin_open(db **out, const char *file, slice url, const db_options *options, error *err);

#endif
