/* Maps SQLite's result codes to pawl's: which code it is, and what an operator can do about it. The
 * code decides what happens next (wait, try again, give up), so only this file interprets SQLite's
 * own numbers. */
#include <errno.h>

#include <sqlite3.h>

#include "db/db_sqlite.h"

static pawl_code classify(sqlite3 *native, int rc)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return PAWL_BUSY;
    case SQLITE_FULL:
        return PAWL_FULL;
    case SQLITE_IOERR: {
        int why = native ? sqlite3_system_errno(native) : 0;
        return why == EFBIG || why == ENOSPC || why == EDQUOT ? PAWL_FULL : PAWL_IO;
    }
    case SQLITE_READONLY:
    case SQLITE_PERM:
        return PAWL_READONLY;
    case SQLITE_CANTOPEN:
        return PAWL_CANTOPEN;
    case SQLITE_NOTADB:
        return PAWL_NOTADB;
    case SQLITE_CORRUPT:
        return PAWL_CORRUPT;
    case SQLITE_NOMEM:
        return PAWL_NOMEM;
    case SQLITE_CONSTRAINT:
    case SQLITE_MISMATCH:
    case SQLITE_TOOBIG:
    case SQLITE_RANGE:
        return PAWL_DATA;
    }
    return PAWL_STORAGE;
}

static const char *way_out(pawl_code code)
{
    switch (code) {
    case PAWL_BUSY:
        return "another program writes to the database; try again when it is done";
    case PAWL_FULL:
        return "make room on the disk; work goes on by itself then";
    case PAWL_IO:
        return "look at the disk and the system's log; work goes on when the cause is gone";
    case PAWL_READONLY:
        return "give this user the right to write the file and its directory";
    case PAWL_CANTOPEN:
        return "look at the path, its permissions and the limit on open files";
    case PAWL_NOTADB:
        return "give the name of a SQLite database, or of a file that does not exist yet";
    case PAWL_CORRUPT:
        return "restore a backup, or try sqlite3's .recover";
    case PAWL_NOMEM:
        return "free memory";
    default:
        return "look at the detail; the database itself is unharmed";
    }
}

pawl_code db_sqlite_error(void *native, int rc, const char *doing, error *err)
{
    pawl_code code = classify(native, rc);
    error_set(err, code, "cannot %s the database: %s", doing, pawl_code_text(code));
    error_detail(err, "%s (SQLite %d)", native ? sqlite3_errmsg(native) : sqlite3_errstr(rc), rc);
    error_hint(err, "%s", way_out(code));
    return code;
}
