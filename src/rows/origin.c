/* Reading the id of the database, which was made together with its tables and never changes. An
 * engine reads the id once, when it becomes a node; the outbox reads it for each call
 * (api/outbox.c). */
#include "rows/origin.h"

#include <string.h>

static const db_sql READ = {"SELECT value FROM {meta} WHERE name = 'database'", ""};

pawl_code origin_find(char out[ID_TEXT_SIZE], db_conn *reader, error *err)
{
    db_stmt *s;
    memset(out, 0, ID_TEXT_SIZE);
    pawl_code rc = db_prepare(reader, &READ, &s, err);
    if (rc != PAWL_OK)
        return rc;
    db_step step = db_next(s, err);
    slice id = step == DB_ROW ? db_column(s, 0).s : (slice){0};
    if (step == DB_FAILED)
        rc = err->code;
    else if (id.size != ID_TEXT_SIZE - 1)
        rc = error_set(err, PAWL_CORRUPT, "the id of the database is missing in the meta table");
    else
        memcpy(out, id.at, id.size);
    db_reset(s);
    return rc;
}

pawl_code origin_read(char out[ID_TEXT_SIZE], db_conn *reader, error *err)
{
    pawl_code rc = db_begin(reader, err);
    if (rc != PAWL_OK)
        return rc;
    rc = origin_find(out, reader, err);
    db_rollback(reader);
    return rc;
}
