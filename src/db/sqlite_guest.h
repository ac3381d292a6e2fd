/* Lending SQLite's handle to a guest, which is code of the application, inside a transaction of
 * pawl's. Both functions do what those of db_guests in db.h do. */
#ifndef DB_SQLITE_GUEST_H
#define DB_SQLITE_GUEST_H

#include "db/db.h"

pawl_code sqlite_lend(db_conn *c, void **native, error *err);
pawl_code sqlite_take_back(db_conn *c, error *err);

#endif
