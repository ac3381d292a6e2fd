/* How a file is read without changing it, and without making a file beside it. There are three
 * cases:
 *
 *   1. The write-ahead log (-wal) and its index (-shm) exist, as they do while any process has the
 *      database open and after pawl has closed it; or the database has no log at all, since it is
 *      in another journal mode. SQLite opens it read-only.
 *   2. One of the two files is missing (a connection would make it), or this user cannot use them,
 *      and the log is missing or empty: everything is in the database file. SQLite opens it as
 *      immutable, without locks. This is right only while no process writes: so the locks of the
 *      nodes are checked first, and before each transaction it is checked that the files have not
 *      changed.
 *   3. The log is not empty, and its index, without which it cannot be read, is missing or cannot
 *      be used. The file is refused, with the name of the missing one. */
#define _GNU_SOURCE
#include "db/sqlite_look.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/db_sqlite.h"
#include "db/sqlite_open.h"

/* ---- Connections ---- */

/* Write the file's address as a URI, since SQLite takes "immutable" from a URI only:
 * file:/path?immutable=1. The characters ? # % of the path, which have a meaning in a URI, are
 * written as %3F %23 %25. */
static pawl_code write_address(buf *out, const char *real, int immutable, error *err)
{
    buf_text(out, "file:");
    for (const char *at = real; *at; at++) {
        if (strchr("?#%", *at))
            buf_printf(out, "%%%02X", (unsigned char)*at);
        else
            buf_add(out, (slice){at, 1});
    }
    buf_text(out, immutable ? "?immutable=1" : "?mode=ro");
    return out->failed ? error_nomem(err) : PAWL_OK;
}

static pawl_code call_hook(sqlite3 *native, const db_options *options, error *err)
{
    if (!options->on_connect || options->on_connect(native, options->on_connect_arg) == 0)
        return PAWL_OK;
    error_set(err, PAWL_CANTOPEN, "the application's on_connect refused the connection");
    error_hint(err, "look at what on_connect does; it must return 0 outside of a transaction");
    return PAWL_CANTOPEN;
}

static pawl_code open_plain(const char *real, int immutable, const db_options *options,
                            sqlite3 **out, error *err)
{
    buf address;
    *out = NULL;
    buf_init(&address, 3 * PAWL_MAX_URL + 64);
    pawl_code code = write_address(&address, real, immutable, err);
    int rc = code != PAWL_OK
                 ? SQLITE_NOMEM
                 : sqlite3_open_v2(buf_str(&address), out,
                                   SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX,
                                   options->vfs);
    if (code == PAWL_OK && rc != SQLITE_OK)
        code = db_sqlite_error(*out, rc, "open", err);
    buf_free(&address);
    if (code != PAWL_OK) {
        sqlite3_close(*out);
        *out = NULL;
    }
    return code;
}

static pawl_code open_native(const char *real, int immutable, const db_options *options,
                             sqlite3 **out, error *err)
{
    pawl_code code = open_plain(real, immutable, options, out, err);
    if (code != PAWL_OK)
        return code;
    sqlite3_extended_result_codes(*out, 1);
    sqlite3_busy_timeout(*out, (int)options->busy_ms);
    code = call_hook(*out, options, err);
    if (code != PAWL_OK) {
        sqlite3_close(*out);
        *out = NULL;
    }
    return code;
}

pawl_code sqlite_look_connect(const char *real, const sqlite_look *look, db_role role,
                              const db_options *options, sqlite3 **out, error *err)
{
    if (role != DB_READER)
        return error_set(err, PAWL_READONLY, "this handle only looks");
    return open_native(real, look->immutable, options, out, err);
}

/* ---- Which case it is ---- */

static pawl_code cannot_open(const char *path, int why, const char *hint, error *err)
{
    error_set(err, PAWL_CANTOPEN, "the database cannot be opened");
    error_detail(err, "%s: %s", path, strerror(why));
    error_hint(err, "%s", hint);
    return PAWL_CANTOPEN;
}

static pawl_code check_file(const char *path, char **real, error *err)
{
    struct stat st;
    *real = realpath(path, NULL);
    if (!*real || stat(*real, &st) != 0)
        return cannot_open(path, errno, "correct the path, or its permissions", err);
    if (!S_ISREG(st.st_mode))
        return cannot_open(path, S_ISDIR(st.st_mode) ? EISDIR : EINVAL,
                           "give the name of an ordinary file", err);
    if (access(*real, R_OK) != 0)
        return cannot_open(path, errno, "give this user the right to read the file", err);
    return PAWL_OK;
}

/* Can the file be read? A query on a connection of its own finds out: SQLite opens its other files
 * only when they are needed. */
static pawl_code try_reading(const char *real, int immutable, const db_options *options, error *err)
{
    sqlite3 *native;
    pawl_code rc = open_native(real, immutable, options, &native, err);
    if (rc != PAWL_OK)
        return rc;
    int result = sqlite3_exec(native, "SELECT count(*) FROM sqlite_master", NULL, NULL, NULL);
    if (result != SQLITE_OK)
        rc = db_sqlite_error(native, result, "read", err);
    sqlite3_close(native);
    return rc;
}

/* The size of a file beside the database; -1: it is not there. */
static int64_t size_beside(const char *real, const char *end)
{
    struct stat st;
    buf name;
    buf_init(&name, strlen(real) + 16);
    buf_text(&name, real);
    buf_text(&name, end);
    int64_t size = !name.failed && stat(buf_str(&name), &st) == 0 ? (int64_t)st.st_size : -1;
    buf_free(&name);
    return size;
}

/* Is the database in WAL mode, in which byte 19 of its header is 2? SQLite reads the byte here: if
 * this library opened the file itself, closing it would drop SQLite's locks of the whole process. 0
 * also if the byte cannot be read: then opening the file in the ordinary way gives the error. */
static int has_log_mode(const char *real, const db_options *options)
{
    enum { READ_VERSION = 19, LOG_MODE = 2 };
    error ignored = {0};
    sqlite3 *native;
    sqlite3_file *file = NULL;
    unsigned char version = 0;
    if (open_plain(real, 1, options, &native, &ignored) != PAWL_OK)
        return 0;
    int rc = sqlite3_file_control(native, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc == SQLITE_OK && file && file->pMethods)
        rc = file->pMethods->xRead(file, &version, 1, READ_VERSION);
    sqlite3_close(native);
    return rc == SQLITE_OK && version == LOG_MODE;
}

static pawl_code refuse_log(const char *real, error *err)
{
    error_set(err, PAWL_CANTOPEN, "the database has a log that cannot be read without its index");
    error_detail(err, "%s-shm, the index of the log, is missing, and looking makes no file", real);
    error_hint(err, "copy the -shm file too; or have SQLite move the log into the database, in a"
                    " copy if this one is to stay as it is: sqlite3 FILE 'PRAGMA"
                    " wal_checkpoint(TRUNCATE)'");
    return PAWL_CANTOPEN;
}

static pawl_code refuse_living(const char *real, error *err)
{
    const char *missing = size_beside(real, "-wal") < 0   ? "-wal"
                          : size_beside(real, "-shm") < 0 ? "-shm"
                                                          : NULL;
    error_set(err, PAWL_CANTOPEN, "the database is in use, and cannot be read beside its nodes");
    if (missing) {
        error_detail(err, "%s%s is missing, although a node is alive", real, missing);
        error_hint(err, "stop the nodes, and start them again: the files beside a database that is"
                        " in use must not be moved or deleted");
    } else {
        error_detail(err, "%s: a node is alive, and its files beside the database cannot be used",
                     real);
        error_hint(err, "give this user the right to read the -wal and -shm files");
    }
    return PAWL_CANTOPEN;
}

static int64_t stamp_of(const char *real)
{
    struct stat st;
    if (stat(real, &st) != 0)
        return 0;
    return (int64_t)st.st_mtim.tv_sec * 1000000000 + st.st_mtim.tv_nsec;
}

/* Cases 2 and 3: SQLite cannot use the -wal and -shm files, or would have to make them. If the log
 * is empty, and no node is alive that could write to it, they are not needed. */
static pawl_code read_immutable(const char *real, const db_options *options, sqlite_look *look,
                                error *err)
{
    liveness_file *nodes = NULL;
    look->immutable = 1;
    look->stamp = stamp_of(real);
    if (size_beside(real, "-wal") > 0)
        return size_beside(real, "-shm") < 0 ? refuse_log(real, err) : refuse_living(real, err);
    pawl_code rc = liveness_file_look(&nodes, real, err);
    if (rc == PAWL_OK && liveness_file_any_alive(nodes)) /* RULE immutable-only-beside-no-node */
        rc = refuse_living(real, err);
    liveness_file_close(nodes);
    return rc == PAWL_OK ? try_reading(real, 1, options, err) : rc;
}

pawl_code sqlite_look_again(const char *real, const sqlite_look *look, error *err)
{
    if (!look->immutable)
        return PAWL_OK;
    int writes = size_beside(real, "-wal") > 0; /* RULE a-writer-under-an-immutable-handle */
    int wrote = stamp_of(real) != look->stamp;  /* RULE a-write-under-an-immutable-handle */
    if (!writes && !wrote)
        return PAWL_OK;
    error_set(err, PAWL_BUSY, "another program has begun to write to the database");
    error_hint(err, "close this handle and open it again");
    return PAWL_BUSY;
}

pawl_code sqlite_look_check(const char *path, const db_options *options, char **real,
                            sqlite_look *look, error *err)
{
    *look = (sqlite_look){0};
    pawl_code rc = check_file(path, real, err);
    if (rc != PAWL_OK)
        return rc;
    /* RULE looking-makes-no-file */
    int lacks_files = size_beside(*real, "-wal") < 0 || size_beside(*real, "-shm") < 0;
    if (lacks_files && has_log_mode(*real, options)) /* RULE only-a-log-does-without-locks */
        return read_immutable(*real, options, look, err);
    rc = try_reading(*real, 0, options, err);
    /* RULE what-cannot-be-written-is-read-as-immutable */
    if (rc != PAWL_CANTOPEN && rc != PAWL_READONLY)
        return rc;
    return read_immutable(*real, options, look, err);
}
