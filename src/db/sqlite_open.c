/* Opening a SQLite file. Order matters: the path and its file system first, then the file itself
 * (is it a database, can it be written, is it in WAL mode), then pawl's settings. These are read
 * back at the end, since a setting may have had no effect. */
#define _GNU_SOURCE
#include "db/sqlite_open.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "db/db_sqlite.h"

enum { SLICE_MS = 20 }; /* ms between two attempts to open a locked file */

/* ---- The path ---- */

static pawl_code cannot_open(const char *path, int why, const char *hint, error *err)
{
    error_set(err, PAWL_CANTOPEN, "the database cannot be opened");
    error_detail(err, "%s: %s", path, strerror(why));
    error_hint(err, "%s", hint);
    return PAWL_CANTOPEN;
}

static int64_t system_fs_magic(const char *path)
{
    struct statfs fs;
    return statfs(path, &fs) == 0 ? (int64_t)(uint32_t)fs.f_type : 0;
}

/* The name of a network file system, on which byte locks and shared memory do not reach the other
 * machines; NULL: the file system is none of these. */
static const char *network_name(int64_t magic)
{
    static const struct {
        int64_t magic;
        const char *name;
    } KNOWN[] = {
        {0x6969, "NFS"},       {0x517B, "SMB"},      {0xFF534D42, "CIFS"},   {0xFE534D42, "SMB2"},
        {0x5346414F, "AFS"},   {0x6B414653, "AFS"},  {0x73757245, "Coda"},   {0x564C, "NCP"},
        {0x01021997, "9P"},    {0x00C36400, "Ceph"}, {0x0BD00BD0, "Lustre"}, {0x47504653, "GPFS"},
        {0x7461636F, "OCFS2"}, {0x01161970, "GFS2"},
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof KNOWN[0]; i++)
        if (KNOWN[i].magic == magic)
            return KNOWN[i].name;
    return NULL;
}

static pawl_code check_file_system(const char *path, const char *folder, const db_options *options,
                                   error *err)
{
    const char *name =
        network_name((options->fs_magic ? options->fs_magic : system_fs_magic)(folder));
    if (!name)
        return PAWL_OK;
    error_set(err, PAWL_NETWORKFS, "the database is on a network file system");
    error_detail(err, "%s: %s", path, name);
    error_hint(err, "put the file on a local disk; for several machines use PostgreSQL");
    return PAWL_NETWORKFS;
}

static pawl_code refuse_read_only(const char *path, const char *why, error *err)
{
    error_set(err, PAWL_READONLY, "the database cannot be written");
    error_detail(err, "%s: %s", path, why);
    error_hint(err, "give this user the right to write the file and its directory");
    return PAWL_READONLY;
}

static pawl_code check_folder(const char *path, const char *folder, const db_options *options,
                              error *err)
{
    struct stat st;
    if (stat(folder, &st) != 0)
        return cannot_open(path, errno, "make the directory, or correct the path", err);
    if (!S_ISDIR(st.st_mode))
        return cannot_open(path, ENOTDIR, "correct the path: a part of it is a file", err);
    pawl_code rc = check_file_system(path, folder, options, err);
    if (rc == PAWL_OK && faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
        return refuse_read_only(path, "its directory cannot be written", err);
    return rc;
}

static pawl_code check_file(const char *path, error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return cannot_open(path, errno, "correct the path, or its permissions", err);
    if (S_ISDIR(st.st_mode))
        return cannot_open(path, EISDIR, "give the name of a file in that directory", err);
    if (!S_ISREG(st.st_mode))
        return cannot_open(path, EINVAL, "give the name of an ordinary file", err);
    /* RULE one-name-per-file */
    if (st.st_nlink > 1) /* each name would get a log of its own */
        return cannot_open(path, EMLINK, "remove the other names (hard links) of the file", err);
    if (faccessat(AT_FDCWD, path, R_OK, AT_EACCESS) != 0)
        return cannot_open(path, errno, "give this user the right to read the file", err);
    if (faccessat(AT_FDCWD, path, W_OK, AT_EACCESS) != 0)
        return refuse_read_only(path, strerror(errno), err);
    return PAWL_OK;
}

/* The folder that is checked is that of the file itself, where links are resolved: SQLite and pawl
 * put their files beside it there. A link that leads nowhere has no such folder, and is refused. */
pawl_code sqlite_check_path(const char *path, const db_options *options, error *err)
{
    struct stat st;
    char *real = realpath(path, NULL);
    int there = real != NULL;
    if (!there && lstat(path, &st) == 0 && S_ISLNK(st.st_mode))
        return cannot_open(path, errno ? errno : ENOENT, "it is a link that leads nowhere", err);
    if (!there)
        real = strdup(path);
    if (!real)
        return error_nomem(err);
    pawl_code rc = check_folder(path, dirname(real), options, err);
    free(real);
    return rc == PAWL_OK && there ? check_file(path, err) : rc;
}

/* ---- Settings ---- */

static pawl_code set_pragma(sqlite3 *native, const char *pragma, error *err)
{
    int rc = sqlite3_exec(native, pragma, NULL, NULL, NULL);
    return rc == SQLITE_OK ? PAWL_OK : db_sqlite_error(native, rc, "set up", err);
}

/* Write the first column of the only row, as text, into `out`. The statement is run to its end:
 * what it changes (the journal mode) is committed only there. */
static pawl_code query_text(sqlite3 *native, const char *sql, char *out, size_t room, error *err)
{
    sqlite3_stmt *s = NULL;
    buf b;
    buf_init_fixed(&b, out, room);
    int rc = sqlite3_prepare_v2(native, sql, -1, &s, NULL);
    while (rc == SQLITE_OK || rc == SQLITE_ROW) { /* RULE 8-a-busy-mode-switch-runs-to-its-end */
        rc = sqlite3_step(s);
        if (rc == SQLITE_ROW)
            buf_text(&b, (const char *)sqlite3_column_text(s, 0));
    }
    /* RULE 8-a-busy-mode-switch-runs-to-its-end */
    pawl_code code = rc == SQLITE_DONE ? PAWL_OK : db_sqlite_error(native, rc, "read", err);
    sqlite3_finalize(s);
    return code;
}

/* Guarantee 8: what is acknowledged is synced. The settings that this rests on are read back,
 * because an application's hook, a compile-time default or another program may have changed
 * them. */
static pawl_code read_back(sqlite3 *native, const char *path, int relaxed, error *err)
{
    char mode[16], level[16];
    pawl_code rc = query_text(native, "PRAGMA journal_mode", mode, sizeof mode, err);
    if (rc == PAWL_OK)
        rc = query_text(native, "PRAGMA synchronous", level, sizeof level, err);
    if (rc != PAWL_OK)
        return rc;
    if (strcmp(mode, "wal") == 0 && (strcmp(level, "2") == 0 || (relaxed && level[0] == '1')))
        return PAWL_OK;
    error_set(err, PAWL_NOTDURABLE, "the database would not keep what it acknowledges");
    error_detail(err, "%s: journal_mode is %s, synchronous is %s", path, mode, level);
    error_hint(err, "leave both to pawl in on_connect; ask for durability=relaxed if you mean it");
    return PAWL_NOTDURABLE; /* RULE 8-durable-means-synced */
}

static pawl_code set_up(sqlite3 *native, const char *path, int relaxed, const db_options *options,
                        error *err)
{
    sqlite3_busy_timeout(native, (int)options->busy_ms);
    /* RULE 8-durable-means-synced */
    pawl_code rc =
        set_pragma(native, relaxed ? "PRAGMA synchronous=NORMAL" : "PRAGMA synchronous=FULL", err);
    if (rc == PAWL_OK) /* wal.c makes the checkpoints instead */
        rc = set_pragma(native, "PRAGMA wal_autocheckpoint=0", err);
    if (rc == PAWL_OK)
        rc = read_back(native, path, relaxed, err); /* RULE 8-settings-are-read-back */
    return rc;
}

/* ---- Opening ---- */

static pawl_code call_hook(sqlite3 *native, const db_options *options, error *err)
{
    if (!options->on_connect)
        return PAWL_OK;
    int answer = options->on_connect(native, options->on_connect_arg);
    if (answer == 0 && sqlite3_get_autocommit(native))
        return PAWL_OK;
    error_set(err, PAWL_CANTOPEN, "the application's on_connect refused the connection");
    error_detail(err, answer ? "it returned %d" : "it left a transaction open (returned %d)",
                 answer);
    error_hint(err, "look at what on_connect does; it must return 0 outside of a transaction");
    return PAWL_CANTOPEN;
}

static pawl_code open_plain(const char *path, const db_options *options, sqlite3 **out, error *err)
{
    /* The handle of a file is used by one thread at a time, that of a database in memory by all. */
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;
    flags |= path ? SQLITE_OPEN_NOMUTEX : SQLITE_OPEN_FULLMUTEX;
    int persist = 1;
    int rc = sqlite3_open_v2(path ? path : ":memory:", out, flags, path ? options->vfs : NULL);
    pawl_code code = PAWL_OK;
    if (rc != SQLITE_OK) {
        code = db_sqlite_error(*out, rc, "open", err);
        error_detail(err, "%s: %s", path ? path : "memory", sqlite3_errmsg(*out));
    } else {
        sqlite3_extended_result_codes(*out, 1);
        sqlite3_busy_timeout(*out, (int)options->busy_ms);
        sqlite3_file_control(*out, "main", SQLITE_FCNTL_PERSIST_WAL, &persist);
        code = call_hook(*out, options, err);
    }
    if (code != PAWL_OK) {
        sqlite3_close(*out);
        *out = NULL;
    }
    return code;
}

pawl_code sqlite_open_native(const char *path, int relaxed, const db_options *options,
                             sqlite3 **out, error *err)
{
    pawl_code rc = open_plain(path, options, out, err);
    if (rc != PAWL_OK)
        return rc;
    if (path)
        rc = set_up(*out, path, relaxed, options, err);
    if (rc != PAWL_OK) {
        sqlite3_close(*out);
        *out = NULL;
    }
    return rc;
}

static pawl_code refuse_mode(const char *path, const char *mode, error *err)
{
    error_set(err, PAWL_NOTWAL, "the database is not in WAL mode");
    error_detail(err, "%s: journal_mode is %s", path, mode);
    error_hint(err, "open it with switch_to_wal = 1, or run: PRAGMA journal_mode=WAL");
    return PAWL_NOTWAL;
}

static pawl_code switch_mode(sqlite3 *native, const char *path, error *err)
{
    char mode[16];
    pawl_code rc = query_text(native, "PRAGMA journal_mode=WAL", mode, sizeof mode, err);
    if (rc == PAWL_OK && strcmp(mode, "wal") != 0)
        return refuse_mode(path, mode, err);
    return rc;
}

static pawl_code refuse_encoding(const char *path, const char *encoding, error *err)
{
    error_set(err, PAWL_UNSUPPORTED, "the database keeps its text in %s", encoding);
    error_detail(err, "%s: text would not compare bytewise", path);
    error_hint(err, "use a database with encoding UTF-8, which is SQLite's default");
    return PAWL_UNSUPPORTED;
}

/* The first query reads the file's first page, so that "not a database" is found before anything
 * else. A file without pages is new, or left by a process that died making it: it has no content to
 * protect, and may be switched. */
static pawl_code ensure_wal(sqlite3 *native, const char *path, int may_switch, error *err)
{
    char mode[16], pages[24], encoding[16];
    pawl_code rc = query_text(native, "SELECT count(*) FROM sqlite_master", mode, sizeof mode, err);
    if (rc == PAWL_OK && sqlite3_db_readonly(native, "main") == 1)
        return refuse_read_only(path, "opened read-only", err);
    if (rc == PAWL_OK)
        rc = query_text(native, "PRAGMA encoding", encoding, sizeof encoding, err);
    if (rc == PAWL_OK && strcmp(encoding, "UTF-8") != 0)
        return refuse_encoding(path, encoding, err);
    if (rc == PAWL_OK)
        rc = query_text(native, "PRAGMA page_count", pages, sizeof pages, err);
    if (rc == PAWL_OK)
        rc = query_text(native, "PRAGMA journal_mode", mode, sizeof mode, err);
    if (rc != PAWL_OK || strcmp(mode, "wal") == 0)
        return rc;
    if (may_switch || strcmp(pages, "0") == 0)
        return switch_mode(native, path, err);
    return refuse_mode(path, mode, err);
}

pawl_code sqlite_ensure_wal(const char *path, const db_options *options, error *err)
{
    sqlite3 *native;
    pawl_code rc = open_plain(path, options, &native, err);
    if (rc != PAWL_OK)
        return rc;
    /* Two processes that make the same new file may meet here. SQLite then answers BUSY, at times
     * without having waited at all; so the attempt is repeated until busy_ms is over. */
    sqlite3_busy_timeout(native, SLICE_MS);
    for (int64_t left = options->busy_ms; left > 0; left -= SLICE_MS) {
        rc = ensure_wal(native, path, options->switch_to_wal, err);
        if (rc != PAWL_BUSY)
            break;
        sqlite3_sleep(SLICE_MS);
    }
    if (rc != PAWL_OK && err && !strstr(err->detail, path)) {
        char why[300];
        buf b;
        buf_init_fixed(&b, why, sizeof why);
        buf_text(&b, err->detail);
        error_detail(err, "%s: %s", path, why);
    }
    sqlite3_close(native);
    return rc;
}

/* SQLite in a child of fork() still counts on the locks of the parent, which the child does not
 * have. So a database that was open at the fork can never be used safely in the child, not even
 * when it is opened anew. */
pawl_code sqlite_refuse_child(const char *path, error *err)
{
    error_set(err, PAWL_MISUSE, "the database was open when this process was forked");
    error_detail(err, "%s", path);
    error_hint(err, "open it after fork(), not before; or exec() a program in the child");
    return PAWL_MISUSE;
}

/* A long reader makes the log grow, since it cannot begin anew meanwhile; with the limit the file
 * shrinks back when it does. */
void sqlite_limit_log(sqlite3 *handle, int64_t wal_bytes)
{
    char sql[64];
    buf b;
    buf_init_fixed(&b, sql, sizeof sql);
    buf_printf(&b, "PRAGMA journal_size_limit=%lld",
               (long long)(wal_bytes < INT64_MAX / 2 ? 2 * wal_bytes : wal_bytes));
    sqlite3_exec(handle, sql, NULL, NULL, NULL);
}

pawl_code sqlite_check_borrowed(sqlite3 *native, error *err)
{
    sqlite3_stmt *look = NULL;
    if (sqlite3_get_autocommit(native)) {
        error_set(err, PAWL_MISUSE, "the connection is not in a transaction");
        error_hint(err, "BEGIN IMMEDIATE before this call, and COMMIT after it");
        return PAWL_MISUSE;
    }
    int rc = sqlite3_prepare_v2(native, "SELECT pos FROM main.pawl_outbox", -1, &look, NULL);
    sqlite3_finalize(look);
    if (rc == SQLITE_ERROR) /* no such table */
        return error_set(err, PAWL_INVALID, "the connection is to another database");
    return rc == SQLITE_OK ? PAWL_OK : db_sqlite_error(native, rc, "use", err);
}

/* RULE A6-keys-are-never-reused */
const db_macro SQLITE_MACROS[] = {
    {"KEY", "INTEGER PRIMARY KEY AUTOINCREMENT"},
    {"INT", "INTEGER"},
    {"TEXT", "TEXT"},
    {"REAL", "REAL"},
    {"BYTES", "BLOB"},
    {"BUSY", ""},
    {"UNLOGGED", ""},
    {"LOCK_SHARED", ""},
    {"XACT", "0"},
    {"FEED_AT", "pos"},
    {"FEED_IS_OVER", "1 = 1"},
    {"FEED_END", "(SELECT coalesce(max(pos), 0) FROM pawl_changes)"},
    {"OUR_TABLES",
     "(SELECT substr(name, 6) AS name, type FROM sqlite_master WHERE substr(lower(name), "
     "1, 5) = 'pawl_')"},
    {"SERVER_STARTED", "0"},
    {"NODE_LOCKS", "(SELECT 0 AS class, 0 AS node WHERE 1 = 0)"},
    {"RUN_LOCKERS", "(SELECT 0 AS run, 0 AS process, 0 AS since WHERE 1 = 0)"},
    {NULL, NULL},
};
