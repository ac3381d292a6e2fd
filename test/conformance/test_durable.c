/* Opening a SQLite database, part 2: durable means synced (guarantee 8), and migrations.
 *
 * Settings are read back, because an application's hook may have had other ideas; migrations are
 * applied once, whole or not at all, however many processes start at the same moment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/db_sqlite.h"
#include "db/migrate.h"
#include "support/conf.h"

/* ---- Settings ---- */

static void pragma(sqlite3 *native, const char *sql, char out[32])
{
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(native, sql, -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    snprintf(out, 32, "%s", (const char *)sqlite3_column_text(s, 0));
    sqlite3_finalize(s);
}

/* What a connection that pawl writes with is really set to. */
static void expect_settings(db *d, db_role role, const char *level)
{
    char text[32];
    db_conn *c = conf_connect(d, role);
    sqlite3 *native = d->driver->native(c);
    pragma(native, "PRAGMA journal_mode", text);
    assert_string_equal(text, "wal");
    pragma(native, "PRAGMA synchronous", text);
    assert_string_equal(text, level);
    db_disconnect(c);
}

static void every_connection_syncs(conf *c)
{
    db *d = conf_open(c, NULL);
    expect_settings(d, DB_WRITER, "2");
    expect_settings(d, DB_READER, "2");
    db_close(d);
}

static void durability_is_relaxed_only_if_the_url_says_so(conf *c)
{
    size_t used = strlen(c->url);
    snprintf(c->url + used, sizeof c->url - used, "%s", "?durability=relaxed");
    db *d = conf_open(c, NULL);
    expect_settings(d, DB_WRITER, "1");
    db_close(d);
    c->url[used] = '\0'; /* it is no property of the file */
    d = conf_open(c, NULL);
    expect_settings(d, DB_WRITER, "2");
    db_close(d);
}

static int run_hook(void *native, void *arg)
{
    return sqlite3_exec(native, arg, NULL, NULL, NULL) == SQLITE_OK ? 0 : 1;
}

/* What the application's hook sets is put right, or the connection refused; never taken. */
static void an_on_connect_cannot_weaken_durability(conf *c)
{
    static const char *const IDEAS[] = {
        "PRAGMA synchronous=OFF",      "PRAGMA synchronous=NORMAL", "PRAGMA journal_mode=DELETE",
        "PRAGMA journal_mode=MEMORY",  "PRAGMA journal_mode=OFF",   "PRAGMA main.synchronous=0",
        "PRAGMA wal_autocheckpoint=1", "PRAGMA busy_timeout=0",     "PRAGMA locking_mode=EXCLUSIVE",
    };
    size_t used = strlen(c->url);
    for (size_t i = 0; i < sizeof IDEAS / sizeof *IDEAS; i++) {
        error err = {0};
        db *d = NULL;
        snprintf(c->url + used, sizeof c->url - used, "-%zu", i);
        db_close(conf_open(c, NULL));
        char *idea = strdup(IDEAS[i]);
        db_options o = {
            .url = c->url, .busy_ms = 100, .on_connect = run_hook, .on_connect_arg = idea};
        pawl_code code = db_open(&d, &o, &err);
        if (code == PAWL_OK) {
            expect_settings(d, DB_WRITER, "2");
            db_close(d);
        } else {
            assert_true(err.message[0] && err.hint[0]);
            if (strstr(idea, "synchronous"))
                assert_int_equal(code, PAWL_NOTDURABLE);
            if (strstr(idea, "journal_mode"))
                assert_true(code == PAWL_NOTWAL || code == PAWL_NOTDURABLE);
        }
        free(idea);
    }
}

/* An authorizer that makes the setting silently void: only reading it back finds that out. */
static int ignore_setting(void *arg, int action, const char *one, const char *two,
                          const char *three, const char *four)
{
    (void)arg, (void)three, (void)four;
    if (action == SQLITE_PRAGMA && two && strcmp(one, "synchronous") == 0)
        return SQLITE_IGNORE;
    return SQLITE_OK;
}

static int void_hook(void *native, void *arg)
{
    (void)arg;
    if (sqlite3_exec(native, "PRAGMA synchronous=OFF", NULL, NULL, NULL) != SQLITE_OK)
        return 1;
    return sqlite3_set_authorizer(native, ignore_setting, NULL);
}

static void a_setting_that_does_not_stick_is_found(conf *c)
{
    error err = {0};
    db *d = NULL;
    db_options o = {.url = c->url, .on_connect = void_hook};
    assert_int_equal(db_open(&d, &o, &err), PAWL_NOTDURABLE);
    assert_non_null(strstr(err.detail, "synchronous"));
    assert_true(err.hint[0]);
    assert_null(d);
}

/* Every handle that is opened, by whichever part, passes the application's hook before it is
 * used: it may hold the key to the file. */
typedef struct handles {
    sqlite3 *opened[32];
    sqlite3 *shown[32];
    int opened_count;
    int shown_count;
} handles;

static handles seen; /* an automatic extension gets no argument */

static int note_opened(sqlite3 *native, char **message, const struct sqlite3_api_routines *api)
{
    (void)message;
    (void)api;
    if (seen.opened_count < 32)
        seen.opened[seen.opened_count++] = native;
    return SQLITE_OK;
}

static int note_shown(void *native, void *arg)
{
    (void)arg;
    if (seen.shown_count < 32)
        seen.shown[seen.shown_count++] = native;
    return 0;
}

static void every_handle_is_shown_to_the_application(conf *c)
{
    memset(&seen, 0, sizeof seen);
    sqlite3_auto_extension((void (*)(void))note_opened);
    db *d = conf_open(c, &(db_options){.on_connect = note_shown});
    db_conn *w = conf_connect(d, DB_WRITER);
    conf_begin(w);
    conf_commit(w);
    w->driver->between(w);
    db_disconnect(w);
    db_close(d);
    sqlite3_cancel_auto_extension((void (*)(void))note_opened);
    assert_true(seen.opened_count > 0);
    assert_int_equal(seen.shown_count, seen.opened_count);
    for (int i = 0; i < seen.shown_count; i++)
        assert_ptr_equal(seen.shown[i], seen.opened[i]);
}

/* ---- Network file systems ---- */

static int64_t nfs(const char *path)
{
    (void)path;
    return 0x6969;
}

static int64_t smb(const char *path)
{
    (void)path;
    return 0x517B;
}

static int64_t cifs(const char *path)
{
    (void)path;
    return 0xFF534D42;
}

static int64_t smb2(const char *path)
{
    (void)path;
    return 0xFE534D42;
}

static int64_t ext4(const char *path)
{
    (void)path;
    return 0xEF53;
}

static void network_file_systems_are_refused(conf *c)
{
    static int64_t (*const MAGIC[])(const char *) = {nfs, smb, cifs, smb2};
    char path[TMP_PATH];
    tmp_path(path, c->dir, "conf.db");
    for (size_t i = 0; i < sizeof MAGIC / sizeof *MAGIC; i++) {
        error err = {0};
        db *d = NULL;
        db_options o = {.url = c->url, .fs_magic = MAGIC[i]};
        assert_int_equal(db_open(&d, &o, &err), PAWL_NETWORKFS);
        assert_non_null(strstr(err.detail, path));
        assert_true(err.hint[0]);
        assert_int_equal(tmp_size(path), -1); /* nothing was made there */
    }
    db_close(conf_open(c, &(db_options){.fs_magic = ext4}));
}

static int64_t nfs_below_net(const char *path)
{
    return strstr(path, "/net") ? 0x6969 : 0xEF53;
}

/* The folder that counts is the one where the file is, and where SQLite puts its own beside it. */
static void a_link_to_a_network_file_system_is_refused(conf *c)
{
    char net[TMP_PATH];
    char path[TMP_PATH];
    char link[TMP_PATH];
    tmp_path(net, c->dir, "net");
    tmp_path(path, c->dir, "net/app.db");
    tmp_path(link, c->dir, "link.db");
    assert_int_equal(mkdir(net, 0700), 0);
    assert_int_equal(symlink("net/app.db", link), 0);
    tmp_file(path, "", 0);
    error err = {0};
    db *d = NULL;
    db_options o = {.url = link, .fs_magic = nfs_below_net};
    assert_int_equal(db_open(&d, &o, &err), PAWL_NETWORKFS);
    assert_non_null(strstr(err.detail, link));
    assert_int_equal(tmp_size(path), 0);

    /* And the other way round: a link on such a system to a file that is not. */
    tmp_path(link, c->dir, "net/back.db");
    tmp_path(path, c->dir, "app.db");
    assert_int_equal(symlink("../app.db", link), 0);
    tmp_file(path, "", 0);
    o.url = link;
    CONF_OK(db_open(&d, &o, &err), &err);
    db_close(d);
}

/* ---- Migrations ---- */

static const char MAKE_PROBE[] = "CREATE TABLE {probe} (x {INT});"
                                 "INSERT INTO {probe} (x) VALUES (1);";

/* The migrations of the library, and some more. */
static size_t longer(struct migration *list, const char *const *more, size_t count)
{
    for (size_t i = 0; i < MIGRATION_COUNT; i++)
        list[i] = MIGRATIONS[i];
    for (size_t i = 0; i < count; i++) {
        int number = (int)(MIGRATION_COUNT + i) + 1;
        list[MIGRATION_COUNT + i] = (struct migration){number, "test", more[i]};
    }
    return MIGRATION_COUNT + count;
}

static const db_sql COUNT_PROBE = {"SELECT count(*) FROM {probe}", ""};

static void a_longer_list_of_migrations_upgrades_the_tables(conf *c)
{
    static const char *const MORE[] = {MAKE_PROBE, "INSERT INTO {probe} (x) VALUES (2);",
                                       "INSERT INTO {probe} (x) VALUES (3);"};
    struct migration list[32];
    error err = {0};
    db *d = conf_open(c, NULL);
    conf_make_run(d, 1, 5);
    CONF_OK(migrate_with(d, list, longer(list, MORE, 2), &err), &err);
    assert_int_equal(conf_number(d, &COUNT_PROBE, NULL, 0), 2);
    CONF_OK(migrate_with(d, list, longer(list, MORE, 2), &err), &err); /* nothing to do */
    assert_int_equal(conf_number(d, &COUNT_PROBE, NULL, 0), 2);
    CONF_OK(migrate_with(d, list, longer(list, MORE, 3), &err), &err);
    assert_int_equal(conf_number(d, &COUNT_PROBE, NULL, 0), 3);
    static const db_sql MAIL = {"SELECT mail FROM {runs} WHERE run = 1", ""};
    assert_int_equal(conf_number(d, &MAIL, NULL, 0), 5);
    db_close(d);
}

static void a_newer_schema_is_refused(conf *c)
{
    static const char *const MORE[] = {MAKE_PROBE};
    struct migration list[32];
    error err = {0};
    db *d = conf_open(c, NULL);
    CONF_OK(migrate_with(d, list, longer(list, MORE, 1), &err), &err);
    assert_int_equal(migrate(d, &err), PAWL_NEWER);
    db_close(d);
    pawl *p = NULL;
    assert_int_equal(pawl_open(&p, c->url, NULL), PAWL_NEWER);
    assert_true(pawl_errmsg(p)[0] && pawl_errdetail(p)[0] && pawl_errhint(p)[0]);
    pawl_close(p);
    d = NULL;
    db_options o = {.url = c->url};
    assert_int_equal(db_open(&d, &o, &err), PAWL_NEWER);
    assert_null(d);
}

/* Whole or not at all, and not counted as done. */
static void a_failing_migration_leaves_nothing(conf *c)
{
    static const char *const WRONG[] = {
        "CREATE TABLE {half} (x {INT}); INSERT INTO {there_is_no_such_table} VALUES (1);",
        "CREATE TABLE {half} (x {INT}); CREATE TABLE {half} (x {INT});",
        "CREATE TABLE {half} (x {INT}); SELECT {NOSUCHMACRO};",
    };
    static const char *const RIGHT[] = {MAKE_PROBE};
    static const db_sql HALF = {"SELECT count(*) FROM {OUR_TABLES} AS t WHERE name = 'half'", ""};
    struct migration list[32];
    error err = {0};
    db *d = conf_open(c, NULL);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        assert_int_not_equal(migrate_with(d, list, longer(list, &WRONG[i], 1), &err), PAWL_OK);
        assert_true(err.message[0]);
        assert_int_equal(conf_number(d, &HALF, NULL, 0), 0);
        CONF_OK(migrate(d, &err), &err); /* still at the version before */
    }
    /* The one before the failing one stays. */
    static const char *const TWO[] = {
        MAKE_PROBE,
        "CREATE TABLE {half} (x {INT}); INSERT INTO {there_is_no_such_table} VALUES (1);"};
    assert_int_not_equal(migrate_with(d, list, longer(list, TWO, 2), &err), PAWL_OK);
    assert_int_equal(conf_number(d, &COUNT_PROBE, NULL, 0), 1);
    CONF_OK(migrate_with(d, list, longer(list, RIGHT, 1), &err), &err);
    assert_int_equal(conf_number(d, &COUNT_PROBE, NULL, 0), 1);
    db_close(d);
}

static void migrate_at_once(int in, int out, void *arg)
{
    static const char *const MORE[] = {MAKE_PROBE, "INSERT INTO {probe} (x) VALUES (2);",
                                       "INSERT INTO {probe} (x) VALUES (3);"};
    const conf *c = arg;
    struct migration list[32];
    size_t count = longer(list, MORE, 3);
    error err = {0};
    db *d = NULL;
    tmp_tell(out, 'r');
    TMP_CHECK(tmp_hear(in) == 'g');
    /* db_open() would refuse what a faster one has made newer than the library. */
    db_options o = {
        .clock = clock_system(), .random = random_system(), .busy_ms = 60000, .wal_bytes = 1 << 26};
    if (db_sqlite_open(&d, strchr(c->url, ':') + 1, 0, &o, &err) != PAWL_OK ||
        migrate_with(d, list, count, &err) != PAWL_OK) {
        fprintf(stderr, "%s: %s: %s\n", pawl_code_name(err.code), err.message, err.detail);
        _exit(1);
    }
    db_close(d);
}

static void processes_that_open_at_once_migrate_once(conf *c)
{
    enum { PROCESSES = 4, ROUNDS = 3 };
    for (int round = 0; round < ROUNDS; round++) {
        size_t used = strlen(c->url);
        snprintf(c->url + used, sizeof c->url - used, "%d", round);
        tmp_child children[PROCESSES];
        for (int i = 0; i < PROCESSES; i++) {
            children[i] = tmp_fork(migrate_at_once, c);
            tmp_expect(&children[i], 'r');
        }
        for (int i = 0; i < PROCESSES; i++)
            tmp_tell(children[i].to, 'g');
        for (int i = 0; i < PROCESSES; i++)
            tmp_join(&children[i]);
        sqlite3 *native = NULL;
        char text[32];
        assert_int_equal(sqlite3_open(strchr(c->url, ':') + 1, &native), SQLITE_OK);
        pragma(native, "SELECT count(*) FROM pawl_probe", text);
        assert_string_equal(text, "3");
        pragma(native, "SELECT count(*) FROM pawl_meta WHERE name = 'database'", text);
        assert_string_equal(text, "1");
        sqlite3_close(native);
    }
}

static void open_at_once(int in, int out, void *arg)
{
    const conf *c = arg;
    tmp_tell(out, 'r');
    TMP_CHECK(tmp_hear(in) == 'g');
    pawl *p = NULL;
    pawl_code code = pawl_open(&p, c->url, PAWL_OPTIONS(.busy_ms = 60000));
    if (code != PAWL_OK) {
        fprintf(stderr, "%s: %s\n", pawl_errmsg(p), pawl_errdetail(p));
        _exit(1);
    }
    pawl_close(p);
}

static void processes_that_make_the_same_new_file_all_open_it(conf *c)
{
    enum { PROCESSES = 4, ROUNDS = 5 };
    for (int round = 0; round < ROUNDS; round++) {
        size_t used = strlen(c->url);
        snprintf(c->url + used, sizeof c->url - used, "%d", round);
        tmp_child children[PROCESSES];
        for (int i = 0; i < PROCESSES; i++) {
            children[i] = tmp_fork(open_at_once, c);
            tmp_expect(&children[i], 'r');
        }
        for (int i = 0; i < PROCESSES; i++)
            tmp_tell(children[i].to, 'g');
        for (int i = 0; i < PROCESSES; i++)
            tmp_join(&children[i]);
    }
}

static const conf_case CASES[] = {
    {"every connection syncs", every_connection_syncs, 0},
    {"durability is relaxed only if the URL says so", durability_is_relaxed_only_if_the_url_says_so,
     0},
    {"an on_connect cannot weaken durability", an_on_connect_cannot_weaken_durability, 0},
    {"a setting that does not stick is found", a_setting_that_does_not_stick_is_found, 0},
    {"every handle is shown to the application", every_handle_is_shown_to_the_application, 0},
    {"network file systems are refused", network_file_systems_are_refused, 0},
    {"a link to a network file system is refused", a_link_to_a_network_file_system_is_refused, 0},
    {"a longer list of migrations upgrades the tables",
     a_longer_list_of_migrations_upgrades_the_tables, 0},
    {"a newer schema is refused", a_newer_schema_is_refused, 0},
    {"a failing migration leaves nothing", a_failing_migration_leaves_nothing, 0},
    {"processes that open at once migrate once", processes_that_open_at_once_migrate_once, 0},
    {"processes that make the same new file all open it",
     processes_that_make_the_same_new_file_all_open_it, 0},
};

int main(void)
{
    return conf_run_on("sqlite", CASES, CONF_COUNT(CASES));
}
