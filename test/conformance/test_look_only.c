/* A handle that only reads (look_only): it finds what is there, changes nothing in the database or
 * beside it, and needs no right to write where the database can do without. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>
#include <pawl.h>

#include "db/liveness_file.h"
#include "support/conf.h"

enum { NOBODY = 65534 };

static const pawl_options LOOK = {.size = sizeof LOOK, .look_only = 1};

/* ---- Helpers ---- */

static pawl *look(const char *url, pawl_code wanted, const char *mention)
{
    pawl *p = NULL;
    pawl_code rc = pawl_open(&p, url, &LOOK);
    if (rc != wanted)
        fail_msg("expected %s, got %s: %s", pawl_code_name(wanted), pawl_code_name(rc),
                 pawl_errtext(p));
    if (mention && !strstr(pawl_errtext(p), mention))
        fail_msg("'%s' is not named: %s", mention, pawl_errtext(p));
    return p;
}

static void start_one(const char *url)
{
    pawl *p = NULL;
    assert_int_equal(pawl_open(&p, url, NULL), PAWL_OK);
    assert_int_equal(pawl_start(p, "w", "a", "1", NULL), PAWL_OK);
    pawl_close(p);
}

static int count_info(const pawl_info *i, void *arg)
{
    (void)i;
    ++*(int *)arg;
    return 0;
}

static int files_in(const char *dir)
{
    int count = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    while (readdir(d))
        count++;
    closedir(d);
    return count;
}

static const char *file_of(const conf *c)
{
    return strncmp(c->url, "sqlite:", 7) == 0 ? c->url + 7 : c->url;
}

/* Tables, indexes and schemas of the database, by a connection that is not pawl's. */
static int64_t objects(const conf *c)
{
    sqlite3 *native;
    sqlite3_stmt *s;
    if (c->server)
        return pgserver_number(c->server, c->database,
                               "SELECT (SELECT count(*) FROM pg_class) +"
                               " (SELECT count(*) FROM pg_namespace)");
    assert_int_equal(sqlite3_open(file_of(c), &native), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(native, "SELECT count(*) FROM sqlite_master", -1, &s, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t count = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    sqlite3_close(native);
    return count;
}

/* ---- Cases ---- */

static void no_file_is_made(conf *c)
{
    if (c->server)
        skip();
    int before = files_in(c->dir);
    pawl_close(look(c->url, PAWL_CANTOPEN, "No such file"));
    assert_int_equal(files_in(c->dir), before);
}

static void a_foreign_database_stays_as_it_is(conf *c)
{
    if (c->server) {
        pgserver_exec(c->server, c->database, "CREATE TABLE theirs (n int)");
    } else {
        sqlite3 *native;
        assert_int_equal(sqlite3_open(file_of(c), &native), SQLITE_OK);
        assert_int_equal(sqlite3_exec(native, "CREATE TABLE theirs (n)", NULL, NULL, NULL),
                         SQLITE_OK);
        sqlite3_close(native);
    }
    int64_t before = objects(c);
    int files = files_in(c->dir);
    pawl_close(look(c->url, PAWL_NOTFOUND, "nothing of pawl"));
    assert_int_equal(objects(c), before);
    assert_int_equal(files_in(c->dir), files);
}

static void calls_that_only_read_are_answered(conf *c)
{
    pawl_info *info = NULL;
    pawl_outcome *end = NULL;
    char *why = NULL;
    int runs = 0;
    start_one(c->url);
    pawl *p = look(c->url, PAWL_OK, NULL);
    assert_int_equal(pawl_list(p, NULL, count_info, &runs), PAWL_OK);
    assert_int_equal(runs, 1);
    assert_int_equal(pawl_tree(p, "a", count_info, &runs), PAWL_OK);
    assert_int_equal(pawl_inspect(p, "a", &info), PAWL_OK);
    assert_int_equal(pawl_why(p, "a", &why), PAWL_OK);
    assert_int_equal(pawl_wait(p, "a", 1, &end), PAWL_TIMEOUT);
    pawl_info_free(info);
    pawl_free(why);
    pawl_close(p);
}

static void calls_that_write_are_refused(conf *c)
{
    int64_t position = 0, did;
    start_one(c->url);
    pawl *p = look(c->url, PAWL_OK, NULL);
    const pawl_code codes[] = {
        pawl_start(p, "w", "b", "1", NULL),
        pawl_send(p, "a", "m", "1", NULL),
        pawl_cancel(p, "a", "enough"),
        pawl_hold(p, "a", NULL),
        pawl_release(p, "a"),
        pawl_redrive(p, "a", NULL),
        pawl_delete(p, "a", 1),
        pawl_outbox_flush(p),
        pawl_changes(p, 0, count_info, &did, &position),
        pawl_serve(p),
        pawl_poll(p, &did),
        pawl_finish(p, "a", 0, NULL),
    };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        if (codes[i] != PAWL_READONLY)
            fail_msg("call %zu: %s", i, pawl_code_name(codes[i]));
    assert_int_equal(pawl_timeout(p), -1);
    pawl_stop(p);
    pawl_close(p);
    p = look(c->url, PAWL_OK, NULL);
    int runs = 0;
    assert_int_equal(pawl_list(p, NULL, count_info, &runs), PAWL_OK);
    assert_int_equal(runs, 1);
    pawl_close(p);
}

static void an_older_schema_is_not_migrated(conf *c)
{
    start_one(c->url);
    db *d = conf_open(c, NULL);
    static const db_sql VERSION = {"SELECT number FROM {meta} WHERE name = 'schema'", ""};
    int64_t version = conf_number(d, &VERSION, NULL, 0);
    conf_script(d, c->server ? "UPDATE pawl.meta SET number = number - 1 WHERE name = 'schema'"
                             : "UPDATE pawl_meta SET number = number - 1 WHERE name = 'schema'");
    pawl_close(look(c->url, version > 1 ? PAWL_READONLY : PAWL_NOTFOUND, NULL));
    assert_int_equal(conf_number(d, &VERSION, NULL, 0), version - 1);
    db_close(d);
}

/* ---- Copies, and databases of other programs ---- */

static sqlite3 *open_native(const char *path, const char *sql)
{
    sqlite3 *native;
    assert_int_equal(sqlite3_open(path, &native), SQLITE_OK);
    assert_int_equal(sqlite3_exec(native, sql, NULL, NULL, NULL), SQLITE_OK);
    return native;
}

/* One file of the database `from`, beside which `to` becomes its copy. */
static void copy_file(const char *from, const char *to, const char *end)
{
    static char bytes[16 << 20];
    char path[TMP_PATH + 16];
    snprintf(path, sizeof path, "%s%s", from, end);
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    assert_true(size < sizeof bytes);
    fclose(f);
    snprintf(path, sizeof path, "%s%s", to, end);
    tmp_file(path, bytes, size);
}

static void expect_runs(pawl *p, int wanted)
{
    int runs = 0;
    assert_int_equal(pawl_list(p, NULL, count_info, &runs), PAWL_OK);
    assert_int_equal(runs, wanted);
}

static void looking_makes_no_file(conf *c)
{
    char theirs[TMP_PATH], bare[TMP_PATH], log[TMP_PATH], index[TMP_PATH];
    if (c->server)
        skip();
    tmp_path(theirs, c->dir, "theirs.db");
    tmp_path(bare, c->dir, "bare.db");
    tmp_path(log, c->dir, "log.db");
    tmp_path(index, c->dir, "index.db");
    sqlite3_close(open_native(theirs, "PRAGMA journal_mode=WAL; CREATE TABLE theirs (n)"));
    start_one(c->url);
    copy_file(file_of(c), bare, "");
    copy_file(file_of(c), index, "");
    copy_file(file_of(c), index, "-shm");
    sqlite3 *native = open_native(file_of(c), "CREATE TABLE late (n)");
    copy_file(file_of(c), log, "");
    copy_file(file_of(c), log, "-wal");
    sqlite3_close(native);

    int files = files_in(c->dir);
    pawl_close(look(theirs, PAWL_NOTFOUND, "nothing of pawl"));
    assert_int_equal(files_in(c->dir), files);
    for (int i = 0; i < 2; i++) {
        pawl *p = look(i ? index : bare, PAWL_OK, NULL);
        expect_runs(p, 1);
        pawl_close(p);
        assert_int_equal(files_in(c->dir), files);
    }
    pawl_close(look(log, PAWL_CANTOPEN, "log.db-shm"));
    assert_int_equal(files_in(c->dir), files);

    sqlite3_close(open_native(log, "PRAGMA wal_checkpoint(TRUNCATE)")); /* as the hint says */
    pawl *p = look(log, PAWL_OK, NULL);
    expect_runs(p, 1);
    pawl_close(p);
}

/* Without a log a reader needs SQLite's locks: a writer changes the file itself. */
static void a_rollback_journal_keeps_its_locks(conf *c)
{
    if (c->server)
        skip();
    sqlite3 *native = open_native(file_of(c), "PRAGMA journal_mode=DELETE; CREATE TABLE theirs (n);"
                                              "BEGIN EXCLUSIVE");
    pawl *p = NULL;
    assert_int_equal(pawl_open(&p, c->url, PAWL_OPTIONS(.look_only = 1, .busy_ms = 1)), PAWL_BUSY);
    pawl_close(p);
    sqlite3_close(native);
}

static void a_copy_beside_a_node(conf *c)
{
    enum { NODE = 7 };
    char bare[TMP_PATH];
    liveness_file *nodes = NULL;
    error err = {0};
    if (c->server)
        skip();
    tmp_path(bare, c->dir, "bare.db");
    start_one(c->url);
    copy_file(file_of(c), bare, "");
    CONF_OK(liveness_file_open(&nodes, bare, &err), &err);
    CONF_OK(liveness_file_hold(nodes, NODE, &err), &err);
    pawl_close(look(bare, PAWL_CANTOPEN, "bare.db-wal is missing"));
    liveness_file_release(nodes, NODE);
    pawl *p = look(bare, PAWL_OK, NULL);
    expect_runs(p, 1);
    pawl_close(p);
    liveness_file_close(nodes);
}

/* What is read without locks is not read beside a writer, nor after one has come and gone. */
static void a_writer_begins_while_a_handle_only_reads(conf *c)
{
    char bare[TMP_PATH];
    int runs = 0;
    if (c->server)
        skip();
    tmp_path(bare, c->dir, "bare.db");
    start_one(c->url);
    copy_file(file_of(c), bare, "");
    pawl *p = look(bare, PAWL_OK, NULL);
    expect_runs(p, 1);
    sqlite3 *native = open_native(bare, "CREATE TABLE late (n)");
    assert_int_equal(pawl_list(p, NULL, count_info, &runs), PAWL_BUSY);
    sqlite3_close(native); /* it was the last one, and takes the log along */
    assert_int_equal(pawl_list(p, NULL, count_info, &runs), PAWL_BUSY);
    pawl_close(p);
    p = look(bare, PAWL_OK, NULL);
    expect_runs(p, 1);
    pawl_close(p);
}

/* ---- Without the right to write ---- */

typedef struct visit {
    char path[TMP_PATH];
    pawl_code wanted;
    const char *mention;
} visit;

/* A child of an unprivileged user: it may read, and write nothing. */
static void visit_it(int in, int out, void *arg)
{
    const visit *v = arg;
    pawl *p = NULL;
    int runs = 0;
    (void)in;
    (void)out;
    if (geteuid() == 0)
        TMP_CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
    pawl_code rc = pawl_open(&p, v->path, &LOOK);
    if (rc != v->wanted)
        tmp_child_fail(pawl_errtext(p), __FILE__, __LINE__);
    if (v->mention && !strstr(pawl_errtext(p), v->mention))
        tmp_child_fail(pawl_errtext(p), __FILE__, __LINE__);
    if (rc == PAWL_OK) {
        TMP_CHECK(pawl_list(p, NULL, count_info, &runs) == PAWL_OK);
        TMP_CHECK(runs == 1);
    }
    pawl_close(p);
}

static void expect_visit(visit *v, pawl_code wanted, const char *mention)
{
    v->wanted = wanted;
    v->mention = mention;
    tmp_child child = tmp_fork(visit_it, v);
    tmp_join(&child);
}

static void remove_beside(const visit *v, const char *end)
{
    char path[TMP_PATH + 16];
    snprintf(path, sizeof path, "%s%s", v->path, end);
    unlink(path);
}

static void visit_folder(const char *dir, void (*test)(visit *v))
{
    visit v;
    tmp_path(v.path, dir, "app.db");
    start_one(v.path);
    assert_int_equal(chmod(v.path, 0644), 0);
    assert_int_equal(chmod(dir, 0555), 0);
    test(&v);
    assert_int_equal(chmod(dir, 0755), 0);
}

/* Also where the log is empty and its index cannot be used, or both are missing. */
static void closed_in_good_order(visit *v)
{
    char index[TMP_PATH + 16];
    snprintf(index, sizeof index, "%s-shm", v->path);
    expect_visit(v, PAWL_OK, NULL);
    assert_int_equal(chmod(index, 0), 0);
    expect_visit(v, PAWL_OK, NULL);
    remove_beside(v, "-wal");
    remove_beside(v, "-shm");
    expect_visit(v, PAWL_OK, NULL);
}

/* An engine drives: the log and its index are there to be read. */
static void beside_a_node(visit *v)
{
    pawl *p = NULL;
    int64_t did;
    pawl_options o = {.size = sizeof o, .threads = -1};
    assert_int_equal(pawl_open(&p, v->path, &o), PAWL_OK);
    assert_int_equal(pawl_poll(p, &did), PAWL_OK);
    expect_visit(v, PAWL_OK, NULL);
    pawl_close(p);
}

/* What is in the log can be found by its index only. */
static void a_log_without_its_index(visit *v)
{
    char wal[TMP_PATH + 16];
    snprintf(wal, sizeof wal, "%s-wal", v->path);
    remove_beside(v, "-shm");
    tmp_file(wal, "x", 1);
    expect_visit(v, PAWL_CANTOPEN, "-shm");
}

static void without_rights(conf *c)
{
    static void (*const TESTS[])(visit * v) = {closed_in_good_order, beside_a_node,
                                               a_log_without_its_index};
    char dir[TMP_PATH];
    if (c->server)
        skip();
    for (size_t i = 0; i < sizeof TESTS / sizeof *TESTS; i++) {
        if (i > 0 && geteuid() != 0)
            break; /* a folder that one may not write oneself cannot be driven in */
        tmp_dir_make_open(dir);
        visit_folder(dir, TESTS[i]);
        tmp_dir_remove(dir);
    }
}

static const conf_case CASES[] = {
    {"no file is made", no_file_is_made, DB_SHARED},
    {"a foreign database stays as it is", a_foreign_database_stays_as_it_is, DB_SHARED},
    {"calls that only read are answered", calls_that_only_read_are_answered, DB_SHARED},
    {"calls that write are refused", calls_that_write_are_refused, DB_SHARED},
    {"an older schema is not migrated", an_older_schema_is_not_migrated, DB_SHARED},
    {"looking makes no file", looking_makes_no_file, DB_SHARED},
    {"a rollback journal keeps its locks", a_rollback_journal_keeps_its_locks, DB_SHARED},
    {"a copy beside a node", a_copy_beside_a_node, DB_SHARED},
    {"a writer begins while a handle only reads", a_writer_begins_while_a_handle_only_reads,
     DB_SHARED},
    {"without the right to write", without_rights, DB_SHARED},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
