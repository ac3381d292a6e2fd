/* The in-flight files of nodes, which list the runs that they execute: there after SIGKILL, gone
 * when a node is closed in good order, and never trusted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "db/inflight_file.h"
#include "db/liveness_file.h"
#include "support/conf.h"

enum { NODE = 7 };

static void path_of(const conf *c, char path[TMP_PATH])
{
    tmp_path(path, c->dir, "conf.db-running-7");
}

/* In a process that is killed. */
static void be_killed(int in, int out, void *arg)
{
    (void)in;
    db *d = conf_open(arg, NULL);
    running *r = inflight_open(db_nodes(d), NODE);
    TMP_CHECK(r);
    inflight_set(r, 0, 100);
    inflight_set(r, 3, 103);
    inflight_set(r, 3, 0);
    inflight_set(r, INFLIGHT_THREADS - 1, 163);
    inflight_set(r, INFLIGHT_THREADS, 164); /* more threads than it has room for */
    inflight_set(r, -1, 165);
    tmp_tell(out, 'r');
    raise(SIGKILL);
}

static void the_in_flight_list_outlives_its_process(conf *c)
{
    tmp_child child = tmp_fork(be_killed, c);
    tmp_expect(&child, 'r');
    tmp_reap(&child);
    db *d = conf_open(c, NULL);
    inflight_list list;
    inflight_read(db_nodes(d), NODE, &list);
    assert_true(list.known);
    assert_true(inflight_has(&list, 100));
    assert_true(inflight_has(&list, 163));
    assert_false(inflight_has(&list, 103));
    assert_false(inflight_has(&list, 164));
    inflight_remove(db_nodes(d), NODE);
    inflight_read(db_nodes(d), NODE, &list);
    assert_false(list.known);
    db_close(d);
}

/* What did no harm while it was watched is not to blame, wherever it is. */
static void a_run_can_be_removed_from_the_list(conf *c)
{
    db *d = conf_open(c, NULL);
    running *r = inflight_open(db_nodes(d), NODE);
    inflight_list list;
    inflight_set(r, 0, 100);
    inflight_set(r, 1, 101);
    inflight_set(r, 2, 101);
    inflight_clear(r, 101);
    inflight_read(db_nodes(d), NODE, &list);
    assert_false(inflight_has(&list, 101));
    assert_true(inflight_has(&list, 100));
    inflight_set(r, 1, 101);
    inflight_read(db_nodes(d), NODE, &list);
    assert_true(inflight_has(&list, 101));
    inflight_close(r);
    inflight_read(db_nodes(d), NODE, &list);
    assert_false(list.known);
    db_close(d);
}

/* A file that is already there under its name is from an earlier state of the database, or was put
 * there with bad intent. */
static void a_damaged_list_is_not_trusted(conf *c)
{
    db *d = conf_open(c, NULL);
    char path[TMP_PATH], target[TMP_PATH];
    char page[4096];
    inflight_list list;
    path_of(c, path);
    memset(page, 'x', sizeof page);
    static const size_t SIZES[] = {0, 7, 100, sizeof page};
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        tmp_file(path, page, SIZES[i]);
        inflight_read(db_nodes(d), NODE, &list);
        assert_false(list.known);
    }
    running *r = inflight_open(db_nodes(d), NODE);
    inflight_read(db_nodes(d), NODE, &list);
    assert_true(list.known && list.at[0] == 0);
    inflight_close(r);

    tmp_path(target, c->dir, "target");
    tmp_file(target, "precious", 8);
    assert_int_equal(symlink(target, path), 0);
    inflight_read(db_nodes(d), NODE, &list);
    assert_false(list.known);
    r = inflight_open(db_nodes(d), NODE);
    assert_non_null(r);
    assert_int_equal(tmp_size(target), 8);
    inflight_close(r);
    db_close(d);
}

/* It has the mode of the database, so that every process that may take over may read it. */
static void another_process_reads_the_list(conf *c)
{
    db *d = conf_open(c, NULL);
    char path[TMP_PATH], nodes[TMP_PATH];
    struct stat list, file;
    path_of(c, path);
    tmp_path(nodes, c->dir, "conf.db-nodes");
    running *r = inflight_open(db_nodes(d), NODE);
    assert_int_equal(stat(path, &list), 0);
    assert_int_equal(stat(nodes, &file), 0);
    assert_int_equal(list.st_mode, file.st_mode);
    assert_int_equal(list.st_size, 4096);
    inflight_close(r);
    db_close(d);
}

static void a_takeover_works_without_a_list(conf *c)
{
    (void)c;
    inflight_list list;
    assert_null(inflight_open(NULL, NODE));
    inflight_set(NULL, 0, 1);
    inflight_clear(NULL, 1);
    inflight_close(NULL);
    inflight_remove(NULL, NODE);
    inflight_read(NULL, NODE, &list);
    assert_false(list.known);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"the in-flight list outlives its process", the_in_flight_list_outlives_its_process,
         DB_FILE},
        {"a run can be removed from the list", a_run_can_be_removed_from_the_list, DB_FILE},
        {"a damaged list is not trusted", a_damaged_list_is_not_trusted, DB_FILE},
        {"another process reads the list", another_process_reads_the_list, DB_FILE},
        {"a takeover works without a list", a_takeover_works_without_a_list, 0},
    };
    return conf_run_on("sqlite", CASES, CONF_COUNT(CASES));
}
