/* Lends SQLite's handle to a guest (code of the application), and checks afterwards what the guest
 * has done to the transaction.
 *
 * The guest may have ended the transaction, and begun another one. It may have left a statement
 * open: that would keep its snapshot after the end of the transaction, and the log could not begin
 * anew. Or SQLite itself has ended the transaction, because the disk is full, say: that is not the
 * guest's fault. */
#include "db/sqlite_guest.h"

#include <sqlite3.h>

#include "db/db_sqlite.h"
#include "db/sqlite_open.h"

static const db_sql LEND = {"SAVEPOINT pawl_guest", ""};
/* RULE A8-another-transaction-is-not-the-one-that-was-lent */
static const db_sql TAKE_BACK = {"RELEASE pawl_guest", ""};

/* The savepoint identifies the transaction: one that the guest has begun instead does not have
 * it. */
pawl_code sqlite_lend(db_conn *c, void **native, error *err)
{
    *native = c->driver->native(c);
    return db_run(c, &LEND, NULL, 0, err);
}

static int reset_open(sqlite3 *handle)
{
    int open = 0;
    for (sqlite3_stmt *s = sqlite3_next_stmt(handle, NULL); s; s = sqlite3_next_stmt(handle, s)) {
        if (!sqlite3_stmt_busy(s))
            continue;
        open = 1; /* RULE A8-open-statements-are-found */
        sqlite3_reset(s);
    }
    return open;
}

static int has_ended_itself(sqlite3 *handle)
{
    switch (sqlite3_errcode(handle) & 0xff) {
    case SQLITE_FULL:
    case SQLITE_IOERR:
    case SQLITE_NOMEM:
    case SQLITE_BUSY:
    case SQLITE_INTERRUPT:
    case SQLITE_CORRUPT:
        return 1;
    default:
        return 0;
    }
}

pawl_code sqlite_take_back(db_conn *c, error *err)
{
    sqlite3 *handle = c->driver->native(c);
    int there = !sqlite3_get_autocommit(handle);
    if (!there && has_ended_itself(handle))
        return db_sqlite_error(handle, sqlite3_errcode(handle), "use", err);
    int open = reset_open(handle);
    if (!there || open || db_run(c, &TAKE_BACK, NULL, 0, err) != PAWL_OK)
        return error_set(err, PAWL_MISUSE, "the transaction was ended, or a statement left open");
    return PAWL_OK;
}
