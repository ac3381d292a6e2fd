/* The id of a database. It is part of every idempotency key that pawl gives to systems outside, so
 * that they do not confuse work of this database with work of another one, or of an earlier
 * database of the same name. */
#ifndef ROWS_ORIGIN_H
#define ROWS_ORIGIN_H

#include "base/id.h"
#include "db/db.h"

/* Reads the id, in a transaction of its own. Errors: those of the database. */
pawl_code origin_read(char out[ID_TEXT_SIZE], db_conn *reader, error *err);

/* Reads the id on a connection that is in a transaction. */
pawl_code origin_find(char out[ID_TEXT_SIZE], db_conn *reader, error *err);

#endif
