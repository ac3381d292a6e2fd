/* Hostile surroundings: links, other names, files that change under an engine, children of fork().
 * Each of these once lost work that had been acknowledged, because SQLite's locks belong to a
 * process and a name, and not to an engine and a file. Refusing is the answer. SQLite only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/conf.h"

static void path_of(const conf *c, const char *end, char out[TMP_PATH])
{
    char name[64];
    snprintf(name, sizeof name, "conf.db%s", end);
    tmp_path(out, c->dir, name);
}

static pawl_code open_writer(const char *url, error *err)
{
    db *d = NULL;
    db_conn *w = NULL;
    memset(err, 0, sizeof *err);
    pawl_code rc = db_open(&d, &(db_options){.url = url, .busy_ms = 100}, err);
    if (rc == PAWL_OK)
        rc = db_connect(d, DB_WRITER, &w, err);
    db_disconnect(w);
    db_close(d);
    return rc;
}

static void expect(const char *url, pawl_code code)
{
    error err;
    pawl_code got = open_writer(url, &err);
    if (got != code)
        fail_msg("%s: expected %s, got %s (%s)", url, pawl_code_name(code), pawl_code_name(got),
                 err.detail);
    assert_true(code == PAWL_OK || (err.message[0] && err.hint[0]));
    assert_null(strstr(err.message, "secret"));
    assert_null(strstr(err.detail, "secret"));
}

/* ---- Names ---- */

static void a_file_of_two_names_is_refused(conf *c)
{
    char path[TMP_PATH], other[TMP_PATH];
    path_of(c, "", path);
    path_of(c, "-other", other);
    db_close(conf_open(c, NULL));
    assert_int_equal(link(path, other), 0);
    expect(path, PAWL_CANTOPEN);
    expect(other, PAWL_CANTOPEN);
    assert_int_equal(unlink(other), 0);
    expect(path, PAWL_OK);
}

/* A lock file that is a link to the database: closing it would drop the database's own locks. */
static void the_lock_file_is_no_link(conf *c)
{
    char path[TMP_PATH], nodes[TMP_PATH];
    path_of(c, "", path);
    path_of(c, "-nodes", nodes);
    db_close(conf_open(c, NULL));
    for (int hard = 0; hard < 2; hard++) {
        assert_int_equal(unlink(nodes), 0);
        assert_int_equal(hard ? link("/dev/null", nodes) : symlink(path, nodes), hard ? -1 : 0);
        if (hard)
            assert_int_equal(symlink("/dev/null", nodes), 0);
        expect(path, PAWL_CANTOPEN);
    }
    assert_int_equal(unlink(nodes), 0);
    expect(path, PAWL_OK);
}

/* Some builds of SQLite take "file:x" for an address, and find another file than stat() does. */
static void a_file_name_is_never_taken_for_a_uri(conf *c)
{
    char before[TMP_PATH], made[TMP_PATH];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(c->dir), 0);
    expect("file:x.db?mode=memory", PAWL_OK);
    tmp_path(made, c->dir, "file:x.db?mode=memory");
    assert_true(tmp_size(made) > 0);
    assert_int_equal(chdir(before), 0);
}

static void secrets_are_not_file_names(conf *c)
{
    (void)c;
    expect("postgresql:/u:secret@h/db", PAWL_INVALID);
    expect("postgres:u:secret@h", PAWL_INVALID);
    expect("sqlite:postgres://u:secret@h/db", PAWL_INVALID);
    expect("host=h user=u password=secret", PAWL_INVALID);
}

static void a_view_in_the_place_of_the_table_meta_is_refused(conf *c)
{
    char path[TMP_PATH];
    sqlite3 *s;
    path_of(c, "", path);
    assert_int_equal(sqlite3_open(path, &s), SQLITE_OK);
    assert_int_equal(sqlite3_exec(s,
                                  "PRAGMA journal_mode=WAL; CREATE VIEW pawl_meta AS "
                                  "SELECT 'format' AS name, 1 AS number, 'pawl' AS value",
                                  NULL, NULL, NULL),
                     SQLITE_OK);
    sqlite3_close(s);
    expect(path, PAWL_FOREIGN);
}

/* ---- Files that change under an engine ---- */

static pawl_code write_once(db_conn *w)
{
    error err = {0};
    pawl_code rc = db_begin(w, &err);
    if (rc == PAWL_OK)
        rc = db_commit(w, &err);
    assert_true(rc == PAWL_OK || (err.message[0] && err.hint[0]));
    return rc;
}

static void a_moved_file_takes_no_more_writes(conf *c)
{
    static const char *const ENDS[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        char path[TMP_PATH], away[TMP_PATH];
        path_of(c, ENDS[i], path);
        path_of(c, "-away", away);
        db *d = conf_open(c, NULL);
        db_conn *w = conf_connect(d, DB_WRITER);
        assert_int_equal(write_once(w), PAWL_OK);
        assert_int_equal(rename(path, away), 0);
        assert_int_equal(write_once(w), PAWL_IO);
        tmp_file(path, "", 0); /* another one in its place is not it */
        assert_int_equal(write_once(w), PAWL_IO);
        assert_int_equal(rename(away, path), 0);
        assert_int_equal(write_once(w), PAWL_OK); /* put back, work goes on */
        db_disconnect(w);
        db_close(d);
    }
}

/* ---- fork() ---- */

static void open_in_a_child(int in, int out, void *arg)
{
    error err;
    (void)in;
    TMP_CHECK(open_writer(arg, &err) == PAWL_MISUSE);
    TMP_CHECK(err.hint[0]);
    tmp_tell(out, 'r');
}

static void a_child_does_not_open_what_its_parent_had_open(conf *c)
{
    char path[TMP_PATH];
    path_of(c, "", path);
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    tmp_child child = tmp_fork(open_in_a_child, path);
    tmp_expect(&child, 'r');
    tmp_join(&child);
    db_disconnect(w);
    db_close(d);
    expect(path, PAWL_OK);
}

static const conf_case CASES[] = {
    {"a file of two names is refused", a_file_of_two_names_is_refused, 0},
    {"the lock file is no link", the_lock_file_is_no_link, 0},
    {"a file name is never taken for a URI", a_file_name_is_never_taken_for_a_uri, 0},
    {"secrets are not file names", secrets_are_not_file_names, 0},
    {"a view in the place of the table meta is refused",
     a_view_in_the_place_of_the_table_meta_is_refused, 0},
    {"a moved file takes no more writes", a_moved_file_takes_no_more_writes, 0},
    {"a child does not open what its parent had open",
     a_child_does_not_open_what_its_parent_had_open, 0},
};

int main(void)
{
    return conf_run_on("sqlite", CASES, CONF_COUNT(CASES));
}
