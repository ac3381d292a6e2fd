/* Drivers that are libraries of their own.
 *
 * PostgreSQL's driver needs libpq, which needs two dozen libraries more; a program that only uses
 * SQLite should not have to load, or install, any of them. So it is in libpawl-pg.so, which is
 * opened when the first URL asks for it, and hands back one `db_plugin`. */
#ifndef DB_PLUGIN_H
#define DB_PLUGIN_H

#include "db/db.h"

/* What such a library exports, under the name of PLUGIN_SYMBOL. Structures of the library and the
 * plugin are shared, so both must be of one version. */
typedef struct db_plugin {
    const char *version; /* PAWL_VERSION when it was compiled */
    size_t sizes;        /* DB_PLUGIN_SIZES when it was compiled */
    pawl_code (*open)(db **out, slice url, const db_options *options, error *err);
} db_plugin;

/* A sum that differs when a structure of the seam does. */
#define DB_PLUGIN_SIZES                                                                            \
    (sizeof(db_driver) + 3 * sizeof(db) + 5 * sizeof(db_conn) + 7 * sizeof(db_stmt) +              \
     11 * sizeof(error))

#define PLUGIN_SYMBOL "pawl_db_plugin"

/* Open `url` with the driver of the library `file` ("libpawl-pg.so.0.2"). PAWL_UNSUPPORTED: it is
 * not installed, or not of this version. */
pawl_code plugin_open(db **out, const char *file, slice url, const db_options *options, error *err);

#endif
