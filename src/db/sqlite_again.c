/* Which statements can be taken apart is decided by their text: they are all written by pawl, and
 * few. What does not look as expected is left to SQLite. */
#include "db/sqlite_again.h"

#include <string.h>

#include "base/buf.h"

static const char RETURNING[] = " RETURNING ";

/* Is the run that it changes the one that $1 names? It is the primary key: there is one at most. */
static int is_keyed(const char *text)
{
    static const char update[] = "UPDATE pawl_runs SET ";
    static const char insert[] = "INSERT INTO pawl_runs (run, ";
    if (strncmp(text, update, sizeof update - 1) == 0)
        return strstr(text, " WHERE run = $1 AND ") != NULL;
    return strncmp(text, insert, sizeof insert - 1) == 0 && strstr(text, " VALUES ($1, ") != NULL;
}

/* What is returned must not depend on a parameter: the second statement has the first one only. */
static int take_apart(const char *text, buf *first, buf *again)
{
    const char *behind = strstr(text, RETURNING);
    if (!behind || strchr(behind, '$') || !is_keyed(text))
        return 0;
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

int sqlite_again_prepare(sqlite3 *file, const char *text, sqlite3_stmt **first,
                         sqlite3_stmt **again)
{
    buf changes, reads;
    buf_init(&changes, strlen(text) + 1);
    buf_init(&reads, strlen(text) + 64);
    int apart = take_apart(text, &changes, &reads);
    int rc = prepare(file, apart ? buf_str(&changes) : text, first);
    if (rc == SQLITE_OK && apart)
        rc = prepare(file, buf_str(&reads), again);
    buf_free(&changes);
    buf_free(&reads);
    return rc;
}
