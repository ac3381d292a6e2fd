/* Opening a SQLite database: whatever is wrong with it gets its own code, a message that names the
 * cause, and a hint; and a file that is refused has not been changed.
 *
 * Everything here goes through pawl_open(), as an application would. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <pawl.h>

#include "support/conf.h"

/* ---- Helpers ---- */

/* A file that pawl has not made: any SQL, run by SQLite itself. */
static void sqlite_file(const char *path, const char *sql)
{
    sqlite3 *native = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open(path, &native), SQLITE_OK);
    if (sqlite3_exec(native, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s: %s", sql, message);
    assert_int_equal(sqlite3_close(native), SQLITE_OK);
}

static int64_t sqlite_number(const char *path, const char *sql)
{
    sqlite3 *native = NULL;
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_open_v2(path, &native, SQLITE_OPEN_READWRITE, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(native, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t number = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(native);
    return number;
}

static int says(pawl *p, const char *text)
{
    return strstr(pawl_errmsg(p), text) || strstr(pawl_errdetail(p), text) ||
           strstr(pawl_errhint(p), text);
}

/* Refused with this code, in words that name `mention` (NULL: anything); no word is the secret. */
static void expect_refused(const char *url, const pawl_options *options, pawl_code code,
                           const char *mention)
{
    pawl *p = NULL;
    pawl_code got = pawl_open(&p, url, options);
    if (got != code)
        fail_msg("%.60s: expected %s, got %s (%s)", url ? url : "NULL", pawl_code_name(code),
                 pawl_code_name(got), p ? pawl_errdetail(p) : "");
    assert_non_null(p);
    assert_int_equal(pawl_errcode(p), code);
    if (!pawl_errmsg(p)[0] || !pawl_errhint(p)[0])
        fail_msg("%.60s: %s without a message or a hint", url ? url : "NULL", pawl_code_name(code));
    if (mention && !says(p, mention))
        fail_msg("%.60s: '%s', '%s' do not name %s", url, pawl_errmsg(p), pawl_errdetail(p),
                 mention);
    if (says(p, "secret"))
        fail_msg("%.60s: '%s', '%s' tell the secret", url, pawl_errmsg(p), pawl_errdetail(p));
    pawl_close(p);
}

static void expect_open(const char *url, const pawl_options *options)
{
    pawl *p = NULL;
    pawl_code got = pawl_open(&p, url, options);
    if (got != PAWL_OK)
        fail_msg("%s: %s (%s)", url, pawl_errmsg(p), pawl_errdetail(p));
    assert_int_equal(pawl_errcode(p), PAWL_OK);
    assert_string_equal(pawl_errmsg(p), "");
    pawl_close(p);
}

/* ---- URLs ---- */

static void wrong_urls_are_refused(conf *c)
{
    (void)c;
    expect_refused(NULL, NULL, PAWL_INVALID, NULL);
    expect_refused("", NULL, PAWL_INVALID, NULL);
    expect_refused("sqlite:", NULL, PAWL_INVALID, NULL);
    expect_refused("sqlite:app\xff.db", NULL, PAWL_INVALID, NULL);
    expect_refused("app\xc0\xaf.db", NULL, PAWL_INVALID, NULL);
    expect_refused("mysql://host/db", NULL, PAWL_INVALID, "scheme");
    expect_refused("sqlite:x.db?foo=1", NULL, PAWL_INVALID, "parameter");
    expect_refused("sqlite:x.db?durability=none", NULL, PAWL_INVALID, NULL);
    expect_refused("sqlite:x.db?durability=relaxed&foo=1", NULL, PAWL_INVALID, NULL);
    expect_refused("sqlite:x.db?", NULL, PAWL_INVALID, NULL);
    assert_int_equal(tmp_size("x.db"), -1); /* and nothing was made on the way */
}

static void a_url_that_is_too_long_is_refused(conf *c)
{
    (void)c;
    char *url = malloc(PAWL_MAX_URL + 2);
    assert_non_null(url);
    memset(url, 'a', PAWL_MAX_URL + 1);
    url[PAWL_MAX_URL + 1] = '\0';
    expect_refused(url, NULL, PAWL_LIMIT, NULL);
    url[PAWL_MAX_URL] = '\0'; /* within the limit, but no name of a file */
    expect_refused(url, NULL, PAWL_CANTOPEN, NULL);
    free(url);
}

/* A URL may hold a password: no part of it is repeated, however it is spelled. */
static void secrets_are_not_repeated(conf *c)
{
    (void)c;
    expect_refused("postgres://user:secret@127.0.0.1:1/db", NULL, PAWL_UNREACHABLE, "server");
    expect_refused("postgresql://user:secret@127.0.0.1:1/db", NULL, PAWL_UNREACHABLE, "server");
    static const char *const OTHERS[] = {
        "mysql://user:secret@host/db",  "POSTGRES://user:secret@host/db",
        "Postgres://user:secret@h/db",  "s3://user:secret@host/db",
        "sqlite:x.db?password=secret",  "jdbc:postgresql://user:secret@host/db",
        "postgres+tls://a:secret@h/db", "x-db.2://user:secret@host/db",
    };
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++) {
        pawl *p = NULL;
        pawl_code code = pawl_open(&p, OTHERS[i], NULL);
        assert_int_not_equal(code, PAWL_OK);
        if (says(p, "secret"))
            fail_msg("%s: '%s'", OTHERS[i], pawl_errdetail(p));
        pawl_close(p);
    }
}

static void every_form_of_a_file_s_url_is_understood(conf *c)
{
    char path[TMP_PATH];
    char url[TMP_PATH + 64];
    tmp_path(path, c->dir, "a b%20?.db"); /* without the scheme it is a name, nothing else */
    expect_open(path, NULL);
    assert_true(tmp_size(path) > 0);
    tmp_path(path, c->dir, "\xC3\xA4.db");
    snprintf(url, sizeof url, "sqlite:%s", path);
    expect_open(url, NULL);
    assert_true(tmp_size(path) > 0);
    snprintf(url, sizeof url, "sqlite:%s?durability=relaxed", path);
    expect_open(url, NULL);
    snprintf(url, sizeof url, "sqlite:%s?durability=full", path);
    expect_open(url, NULL);
    expect_open("memory:", NULL);
}

/* ---- Paths ---- */

static void wrong_paths_are_refused(conf *c)
{
    char path[TMP_PATH];
    char file[TMP_PATH];
    tmp_path(path, c->dir, "no/such/app.db");
    expect_refused(path, NULL, PAWL_CANTOPEN, path);
    expect_refused(c->dir, NULL, PAWL_CANTOPEN, c->dir);
    tmp_path(file, c->dir, "file");
    tmp_file(file, "x", 1);
    tmp_path(path, c->dir, "file/app.db");
    expect_refused(path, NULL, PAWL_CANTOPEN, path);
    tmp_path(path, c->dir, "file/deep/app.db");
    expect_refused(path, NULL, PAWL_CANTOPEN, path);
    tmp_path(path, c->dir, "pipe");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refused(path, NULL, PAWL_CANTOPEN, path);
    tmp_path(path, c->dir, "loop");
    assert_int_equal(symlink("loop", path), 0);
    expect_refused(path, NULL, PAWL_CANTOPEN, path);
    tmp_path(path, c->dir, "nowhere");
    tmp_path(file, c->dir, "elsewhere.db");
    assert_int_equal(symlink("elsewhere.db", path), 0);
    expect_refused(path, NULL, PAWL_CANTOPEN, path);
    assert_int_equal(tmp_size(file), -1); /* nothing was made where it would lead */
    tmp_file(file, "", 0);
    expect_open(path, NULL); /* now it leads somewhere */
}

/* ---- Files ---- */

static void files_that_are_no_database(conf *c)
{
    /* SQLite takes a file of one byte for an empty one, hence from two. */
    static const size_t SIZES[] = {2, 15, 16, 17, 99, 100, 511, 512, 4096, 100000};
    char *bytes = malloc(100000);
    char *after = malloc(100000);
    assert_true(bytes && after);
    for (size_t i = 0; i < 100000; i++)
        bytes[i] = (char)('a' + i * 7 % 26);
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        char path[TMP_PATH];
        char name[32];
        snprintf(name, sizeof name, "garbage-%zu", SIZES[i]);
        tmp_path(path, c->dir, name);
        tmp_file(path, bytes, SIZES[i]);
        expect_refused(path, NULL, PAWL_NOTADB, path);
        assert_int_equal(tmp_size(path), SIZES[i]);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        assert_int_equal(fread(after, 1, SIZES[i], f), SIZES[i]);
        fclose(f);
        assert_memory_equal(bytes, after, SIZES[i]);
    }
    free(after);
    free(bytes);
}

static void an_empty_file_is_a_new_database(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "empty.db");
    tmp_file(path, "", 0);
    expect_open(path, NULL);
    assert_true(sqlite_number(path, "SELECT count(*) FROM pawl_meta") > 0);
}

static void a_damaged_database_is_said_to_be_one(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "damaged.db");
    sqlite_file(path, "PRAGMA journal_mode=WAL; CREATE TABLE t(x); INSERT INTO t VALUES(1);");
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, 100, SEEK_SET), 0); /* behind the header: the tree of all tables */
    for (int i = 0; i < 3000; i++)
        fputc(0xEE, f);
    fclose(f);
    expect_refused(path, NULL, PAWL_CORRUPT, path);
}

static void tables_that_are_not_ours(conf *c)
{
    static const char *const STRANGERS[] = {
        "CREATE TABLE pawl_meta(x);",
        "CREATE TABLE pawl_meta(name TEXT, number INTEGER, value TEXT);",
        "CREATE TABLE pawl_meta AS SELECT 'format' AS name, 1 AS number, 'another' AS value;",
        "CREATE TABLE pawl_runs(x);",
        "CREATE TABLE Pawl_Journal(x);",
        "CREATE VIEW pawl_meta AS SELECT 1 AS x;",
        "CREATE TABLE t(x); CREATE INDEX pawl_runs_id ON t(x);",
    };
    for (int i = 0; i < (int)(sizeof STRANGERS / sizeof *STRANGERS); i++) {
        char path[TMP_PATH];
        char nodes[TMP_PATH];
        char name[32];
        snprintf(name, sizeof name, "foreign-%d.db", i);
        tmp_path(path, c->dir, name);
        snprintf(name, sizeof name, "foreign-%d.db-nodes", i);
        tmp_path(nodes, c->dir, name);
        sqlite_file(path, "PRAGMA journal_mode=WAL;");
        sqlite_file(path, STRANGERS[i]);
        int64_t tables = sqlite_number(path, "SELECT count(*) FROM sqlite_master");
        expect_refused(path, NULL, PAWL_FOREIGN, "pawl_");
        assert_int_equal(sqlite_number(path, "SELECT count(*) FROM sqlite_master"), tables);
        assert_int_equal(tmp_size(nodes), -1); /* nor has anything been left beside it */
    }
}

/* Text is compared bytewise, which UTF-16 would not do. */
static void a_database_in_utf16_is_refused(conf *c)
{
    static const char *const NAMES[] = {"UTF-16le", "UTF-16be"};
    for (int i = 0; i < 2; i++) {
        char path[TMP_PATH];
        char sql[128];
        tmp_path(path, c->dir, NAMES[i]);
        snprintf(sql, sizeof sql,
                 "PRAGMA encoding='%s'; PRAGMA journal_mode=%s; CREATE TABLE t(x);", NAMES[i],
                 i ? "DELETE" : "WAL");
        sqlite_file(path, sql);
        expect_refused(path, PAWL_OPTIONS(.switch_to_wal = 1), PAWL_UNSUPPORTED, NAMES[i]);
        assert_int_equal(sqlite_number(path, "SELECT count(*) FROM sqlite_master"), 1);
    }
}

static const char APPLICATION[] = "CREATE TABLE orders(id INTEGER PRIMARY KEY, what TEXT);"
                                  "INSERT INTO orders(what) VALUES('tea'),('toast');"
                                  "CREATE TABLE pawlonia(x);" /* not pawl_ */
                                  "PRAGMA user_version=77; PRAGMA application_id=4711;";

static void expect_application(const char *path)
{
    assert_int_equal(sqlite_number(path, "SELECT count(*) FROM orders"), 2);
    assert_int_equal(sqlite_number(path, "PRAGMA user_version"), 77);
    assert_int_equal(sqlite_number(path, "PRAGMA application_id"), 4711);
}

/* pawl lives beside an application's tables, and does not change its file's mode unasked. */
static void an_applications_database_is_respected(conf *c)
{
    char path[TMP_PATH];
    char wal[TMP_PATH];
    tmp_path(path, c->dir, "app.db");
    tmp_path(wal, c->dir, "app.db-wal");
    sqlite_file(path, APPLICATION);
    int64_t size = tmp_size(path);
    expect_refused(path, NULL, PAWL_NOTWAL, path);
    assert_int_equal(tmp_size(path), size);
    assert_int_equal(tmp_size(wal), -1);
    expect_application(path);
    assert_int_equal(sqlite_number(path, "SELECT count(*) FROM sqlite_master"), 2);

    expect_open(path, PAWL_OPTIONS(.switch_to_wal = 1));
    expect_application(path);
    assert_true(sqlite_number(path, "SELECT count(*) FROM pawl_meta") > 0);
    expect_open(path, NULL); /* from now on it is in that mode */
}

static void a_wal_database_needs_no_switch(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "app.db");
    sqlite_file(path, "PRAGMA journal_mode=WAL;");
    sqlite_file(path, APPLICATION);
    expect_open(path, NULL);
    expect_application(path);
}

/* ---- Rights and locks ---- */

static void open_unprivileged(int in, int out, void *arg)
{
    (void)in;
    (void)out;
    const char *path = arg;
    if (geteuid() == 0) {
        TMP_CHECK(setgid(65534) == 0);
        TMP_CHECK(setuid(65534) == 0);
    }
    pawl *p = NULL;
    pawl_code code = pawl_open(&p, path, NULL);
    if (code != PAWL_READONLY)
        fprintf(stderr, "%s: %s\n", pawl_code_name(code), pawl_errdetail(p));
    TMP_CHECK(code == PAWL_READONLY);
    TMP_CHECK(says(p, path));
    TMP_CHECK(pawl_errhint(p)[0] != '\0');
    pawl_close(p);
}

/* Three ways in which writing is not allowed: a database of pawl's, one in another mode, and one
 * without its log. */
static void a_database_that_cannot_be_written(conf *c)
{
    (void)c;
    static const char *const NAMES[] = {"ours.db", "delete.db", "clean.db"};
    char dir[TMP_PATH];
    char path[3][TMP_PATH];
    tmp_dir_make_open(dir);
    for (int i = 0; i < 3; i++)
        tmp_path(path[i], dir, NAMES[i]);
    expect_open(path[0], NULL);
    sqlite_file(path[1], APPLICATION);
    sqlite_file(path[2], "PRAGMA journal_mode=WAL; CREATE TABLE t(x);");
    for (int i = 0; i < 3; i++)
        assert_int_equal(chmod(path[i], 0444), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    for (int i = 0; i < 3; i++) {
        tmp_child child = tmp_fork(open_unprivileged, path[i]);
        tmp_join(&child);
    }
    assert_int_equal(chmod(dir, 0755), 0);
    tmp_dir_remove(dir);
}

static void a_locked_database_is_busy(conf *c)
{
    static const char *const LOCKS[] = {
        "BEGIN IMMEDIATE;",
        "PRAGMA locking_mode=EXCLUSIVE; CREATE TABLE mine(x);",
    };
    for (int i = 0; i < 2; i++) {
        char path[TMP_PATH];
        tmp_path(path, c->dir, i ? "exclusive.db" : "immediate.db");
        sqlite_file(path, "PRAGMA journal_mode=WAL;");
        sqlite3 *other = NULL;
        assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
        assert_int_equal(sqlite3_exec(other, LOCKS[i], NULL, NULL, NULL), SQLITE_OK);
        expect_refused(path, PAWL_OPTIONS(.busy_ms = 50), PAWL_BUSY, NULL);
        sqlite3_close(other);
        expect_open(path, PAWL_OPTIONS(.busy_ms = 50));
    }
}

/* Another connection has the file locked, until the application's hook is about to write to it. */
typedef struct moment {
    sqlite3 *other;
    atomic_int asked;
    int64_t timeout_ms; /* of the connection, as the hook has found it */
    int wrote;
} moment;

static int write_in_hook(void *native, void *arg)
{
    moment *m = arg;
    sqlite3_stmt *s = NULL;
    if (sqlite3_prepare_v2(native, "PRAGMA busy_timeout", -1, &s, NULL) != SQLITE_OK)
        return 1;
    if (sqlite3_step(s) == SQLITE_ROW)
        m->timeout_ms = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    atomic_store(&m->asked, 1);
    m->wrote += sqlite3_exec(native, "INSERT INTO seen VALUES(1)", NULL, NULL, NULL) == SQLITE_OK;
    return 0;
}

static void *unlock_when_asked(void *arg)
{
    moment *m = arg;
    TMP_AWAIT(atomic_load(&m->asked));
    sqlite3_exec(m->other, "ROLLBACK", NULL, NULL, NULL);
    return NULL;
}

/* on_connect waits for a lock as long as was asked for, like all other statements. */
static void on_connect_waits_for_a_locked_file(conf *c)
{
    enum { BUSY_MS = 60000 };
    char path[TMP_PATH];
    tmp_path(path, c->dir, "app.db");
    sqlite_file(path, "PRAGMA journal_mode=WAL; CREATE TABLE seen(x);");
    moment m = {.timeout_ms = -1};
    assert_int_equal(sqlite3_open(path, &m.other), SQLITE_OK);
    assert_int_equal(sqlite3_exec(m.other, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, unlock_when_asked, &m), 0);
    expect_open(
        path, PAWL_OPTIONS(.busy_ms = BUSY_MS, .on_connect = write_in_hook, .on_connect_arg = &m));
    pthread_join(thread, NULL);
    sqlite3_close(m.other);
    assert_int_equal(m.timeout_ms, BUSY_MS);
    assert_true(m.wrote > 0);
    assert_int_equal(sqlite_number(path, "SELECT count(*) FROM seen"), m.wrote);
}

/* ---- Options and errors ---- */

static void wrong_options_are_refused(conf *c)
{
    pawl_options o = {.size = 0};
    expect_refused(c->url, &o, PAWL_INVALID, NULL);
    expect_refused(c->url, PAWL_OPTIONS(.busy_ms = -1), PAWL_INVALID, NULL);
    expect_refused(c->url, PAWL_OPTIONS(.wal_bytes = -1), PAWL_INVALID, NULL);
    assert_int_equal(pawl_open(NULL, c->url, NULL), PAWL_INVALID);
    struct {
        pawl_options known;
        char more[64];
    } larger = {.known = {.size = sizeof larger}};
    expect_open(c->url, &larger.known); /* what is not known is zero: a newer program may ask */
    larger.more[10] = 1;
    expect_refused(c->url, &larger.known, PAWL_INVALID, NULL);
}

/* "For ever" and "no bound" are said by the largest number there is. */
static void options_may_be_as_large_as_they_get(conf *c)
{
    static const int64_t LARGE[] = {INT64_C(1) << 31, INT64_C(1) << 32, INT64_C(3000000000),
                                    INT64_MAX / 1000, INT64_MAX};
    for (size_t i = 0; i < sizeof LARGE / sizeof *LARGE; i++) {
        expect_open(c->url, PAWL_OPTIONS(.busy_ms = LARGE[i]));
        expect_open(c->url, PAWL_OPTIONS(.wal_bytes = LARGE[i]));
    }
}

static void *ask_elsewhere(void *arg)
{
    pawl *p = arg;
    int quiet = pawl_errcode(p) == PAWL_OK && !pawl_errmsg(p)[0] && !pawl_errdetail(p)[0] &&
                !pawl_errhint(p)[0];
    return quiet ? arg : NULL;
}

static void errors_belong_to_their_thread(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "no/app.db");
    pawl *p = NULL;
    assert_int_equal(pawl_open(&p, path, NULL), PAWL_CANTOPEN);
    assert_non_null(p);
    pthread_t thread;
    void *quiet = NULL;
    assert_int_equal(pthread_create(&thread, NULL, ask_elsewhere, p), 0);
    pthread_join(thread, &quiet);
    assert_ptr_equal(quiet, p);
    assert_int_equal(pawl_errcode(p), PAWL_CANTOPEN);
    pawl_close(p);
    pawl_close(NULL);
}

static const conf_case CASES[] = {
    {"wrong URLs are refused", wrong_urls_are_refused, 0},
    {"a URL that is too long is refused", a_url_that_is_too_long_is_refused, 0},
    {"secrets are not repeated", secrets_are_not_repeated, 0},
    {"every form of a file's URL is understood", every_form_of_a_file_s_url_is_understood, 0},
    {"wrong paths are refused", wrong_paths_are_refused, 0},
    {"files that are no database", files_that_are_no_database, 0},
    {"an empty file is a new database", an_empty_file_is_a_new_database, 0},
    {"a damaged database is said to be one", a_damaged_database_is_said_to_be_one, 0},
    {"tables that are not ours", tables_that_are_not_ours, 0},
    {"an application's database is respected", an_applications_database_is_respected, 0},
    {"a WAL database needs no switch", a_wal_database_needs_no_switch, 0},
    {"a database that cannot be written", a_database_that_cannot_be_written, 0},
    {"a database in UTF-16 is refused", a_database_in_utf16_is_refused, 0},
    {"on_connect waits for a locked file", on_connect_waits_for_a_locked_file, 0},
    {"a locked database is busy", a_locked_database_is_busy, 0},
    {"wrong options are refused", wrong_options_are_refused, 0},
    {"errors belong to their thread", errors_belong_to_their_thread, 0},
    {"options may be as large as they get", options_may_be_as_large_as_they_get, 0},
};

int main(void)
{
    return conf_run_on("sqlite", CASES, CONF_COUNT(CASES));
}
