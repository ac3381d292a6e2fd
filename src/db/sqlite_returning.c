/* Splits a statement at its RETURNING: the first part changes the row, the second one reads it. The
 * db_sql of a statement says whether it can be split, by a first letter k in `binds`. */
#include "db/sqlite_returning.h"

#include <assert.h>
#include <string.h>

#include "base/buf.h"

static const char RETURNING[] = " RETURNING ";

/* Write the two parts. The columns that are returned must not depend on a parameter: the second
 * part has no parameter but $1. 0: memory is out. */
static int split_statement(const char *text, buf *first, buf *again)
{
    const char *behind = strstr(text, RETURNING);
    assert(behind && !strchr(behind, '$') && strstr(text, "$1"));
    buf_add(first, (slice){text, (size_t)(behind - text)});
    buf_text(again, "SELECT ");
    buf_text(again, behind + sizeof RETURNING - 1);
    buf_text(again, " FROM pawl_runs WHERE run = $1");
    return !first->failed && !again->failed;
}

static int prepare(sqlite3 *file, const char *text, sqlite3_stmt **out)
{
    return sqlite3_prepare_v3(file, text, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
}

int sqlite_returning_prepare(sqlite3 *file, const char *text, int is_keyed, sqlite3_stmt **first,
                             sqlite3_stmt **again)
{
    buf changes, reads;
    buf_init(&changes, strlen(text) + 1);
    buf_init(&reads, strlen(text) + 64);
    int apart = is_keyed && split_statement(text, &changes, &reads);
    int rc = prepare(file, apart ? buf_str(&changes) : text, first);
    if (rc == SQLITE_OK && apart)
        rc = prepare(file, buf_str(&reads), again);
    buf_free(&changes);
    buf_free(&reads);
    return rc;
}
