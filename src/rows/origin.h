/* The id of a database: what is done outside in its name must not be taken for what another
 * database has done, or this one before it was made anew. So it is part of every key that is handed
 * outside. */
#ifndef ROWS_ORIGIN_H
#define ROWS_ORIGIN_H

#include "base/id.h"
#include "db/db.h"

pawl_code origin_read(char out[ID_TEXT_SIZE], db_conn *reader, error *err);

/* The same on a connection that is in a transaction. */
pawl_code origin_find(char out[ID_TEXT_SIZE], db_conn *reader, error *err);

#endif
