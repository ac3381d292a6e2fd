/* Lending SQLite's handle to code of the application, in the midst of a transaction (A8); as
 * db_guests.lend says. */
#ifndef DB_SQLITE_GUEST_H
#define DB_SQLITE_GUEST_H

#include "db/db.h"

pawl_code sqlite_lend(db_conn *c, void **native, error *err);
pawl_code sqlite_take_back(db_conn *c, error *err);

#endif
