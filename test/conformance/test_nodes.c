/* Liveness by byte locks (A10): a node that holds its byte is alive; a node that has died does not
 * hold it, however it died; and a child that happens to have inherited a descriptor does not keep a
 * dead node alive.
 *
 * SQLite files only: elsewhere the liveness of a node is a row and a clock (heartbeat). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db/db_sqlite.h"
#include "db/liveness_file.h"
#include "support/conf.h"

static liveness_file *open_nodes(const char *path)
{
    error err = {0};
    liveness_file *f = NULL;
    CONF_OK(liveness_file_open(&f, path, &err), &err);
    assert_non_null(f);
    return f;
}

static int readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* ---- A node in another process ---- */

/* Words from the parent: r release, f fork a child that stays, e exec one that stays, d fork a
 * child that ends, x end. Each is answered by itself. */
static void stay(int fd)
{
    char nothing;
    while (read(fd, &nothing, 1) < 0 && errno == EINTR)
        continue;
    _exit(0);
}

static void exec_one_that_stays(int fd)
{
    /* posix_spawn() runs no fork handlers: only O_CLOEXEC takes the descriptor away. */
    char *const argv[] = {"cat", NULL};
    char *const env[] = {NULL};
    posix_spawn_file_actions_t actions;
    TMP_CHECK(posix_spawn_file_actions_init(&actions) == 0);
    TMP_CHECK(posix_spawn_file_actions_adddup2(&actions, fd, 0) == 0);
    pid_t pid;
    TMP_CHECK(posix_spawn(&pid, "/bin/cat", &actions, NULL, argv, env) == 0);
    posix_spawn_file_actions_destroy(&actions);
}

typedef struct life {
    const char *path;
    int64_t node;
    int stay[2]; /* its descendants stay until this pipe is closed */
} life;

static void live(int in, int out, void *arg)
{
    life *l = arg;
    close(l->stay[1]);
    liveness_file *f = NULL;
    TMP_CHECK(liveness_file_open(&f, l->path, NULL) == PAWL_OK);
    TMP_CHECK(liveness_file_hold(f, l->node, NULL) == PAWL_OK);
    tmp_tell(out, 'h');
    int word;
    while ((word = tmp_hear(in)) > 0) {
        if (word == 'r')
            liveness_file_release(f, l->node);
        if (word == 'f' && fork() == 0)
            stay(l->stay[0]);
        if (word == 'e')
            exec_one_that_stays(l->stay[0]);
        if (word == 'd') {
            pid_t pid = fork();
            if (pid == 0)
                _exit(0);
            TMP_CHECK(waitpid(pid, NULL, 0) == pid);
        }
        tmp_tell(out, (char)word);
        if (word == 'x')
            break;
    }
    liveness_file_close(f);
}

static tmp_child bear(life *l, const char *path, int64_t node)
{
    l->path = path;
    l->node = node;
    assert_int_equal(pipe(l->stay), 0);
    tmp_child c = tmp_fork(live, l);
    tmp_expect(&c, 'h');
    close(l->stay[0]);
    return c;
}

static void tell(tmp_child *c, char word)
{
    tmp_tell(c->to, word);
    tmp_expect(c, word);
}

/* ---- Tests ---- */

static void a_node_that_holds_its_lock_is_alive(conf *c)
{
    char path[TMP_PATH];
    char file[TMP_PATH];
    tmp_path(path, c->dir, "a.db");
    tmp_path(file, c->dir, "a.db-nodes");
    error err = {0};
    liveness_file *f = open_nodes(path);
    assert_int_equal(tmp_size(file), 0);
    life l;
    tmp_child node = bear(&l, path, 5);
    assert_int_equal(liveness_file_alive(f, 5), 1);
    assert_int_equal(liveness_file_alive(f, 4), 0);
    assert_int_equal(liveness_file_alive(f, 6), 0);
    assert_int_equal(liveness_file_hold(f, 5, &err), PAWL_BUSY);
    assert_true(err.message[0]);
    assert_int_equal(liveness_file_hold(f, 6, &err), PAWL_OK);
    tell(&node, 'r');
    assert_int_equal(liveness_file_alive(f, 5), 0);
    assert_int_equal(liveness_file_hold(f, 5, &err), PAWL_OK);
    tell(&node, 'x');
    tmp_join(&node);
    close(l.stay[1]);
    liveness_file_close(f);
}

/* The ids are large: a node id is never used again. Bytes 0 and 1 belong to the turnstile. */
static void ids_may_be_large_but_not_small(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "a.db");
    error err = {0};
    liveness_file *f = open_nodes(path);
    liveness_file *g = open_nodes(path);
    static const int64_t IDS[] = {2, 1000000, INT64_C(1) << 40, INT64_MAX - 1};
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++) {
        CONF_OK(liveness_file_hold(f, IDS[i], &err), &err);
        assert_int_equal(liveness_file_alive(g, IDS[i]), 1);
        assert_int_equal(liveness_file_alive(g, IDS[i] + 1), 0);
    }
    for (int64_t id = -1; id < 2; id++)
        assert_int_not_equal(liveness_file_hold(f, id, &err), PAWL_OK);
    liveness_file_close(f);
    for (size_t i = 0; i < sizeof IDS / sizeof *IDS; i++)
        assert_int_equal(liveness_file_alive(g, IDS[i]), 0);
    liveness_file_close(g);
}

/* Two engines of one process are two nodes; closing one does not free the other's locks. */
static void engines_of_one_process_exclude_each_other(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "a.db");
    error err = {0};
    liveness_file *one = open_nodes(path);
    liveness_file *two = open_nodes(path);
    liveness_file *three = open_nodes(path);
    CONF_OK(liveness_file_hold(one, 7, &err), &err);
    assert_int_equal(liveness_file_hold(two, 7, &err), PAWL_BUSY);
    assert_int_equal(liveness_file_alive(two, 7), 1);
    liveness_file_close(three);
    assert_int_equal(liveness_file_alive(two, 7), 1);
    liveness_file_close(one);
    assert_int_equal(liveness_file_alive(two, 7), 0);
    CONF_OK(liveness_file_hold(two, 7, &err), &err);
    liveness_file_close(two);
}

/* Killed without a last word: the lock is gone when the process is, and the watch tells. */
static void a_dead_process_frees_its_lock_at_once(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "a.db");
    liveness_file *f = open_nodes(path);
    int watch = liveness_file_watch(f);
    assert_true(watch >= 0);
    assert_int_equal(liveness_file_watch(f), watch); /* one is enough */
    for (int i = 0; i < 3; i++) {
        life l;
        tmp_child node = bear(&l, path, 5);
        liveness_file_drain(f);
        assert_int_equal(liveness_file_alive(f, 5), 1);
        assert_false(readable(watch));
        tmp_kill(&node);
        assert_int_equal(liveness_file_alive(f, 5), 0);
        TMP_AWAIT(readable(watch));
        liveness_file_drain(f);
        assert_false(readable(watch));
        close(l.stay[1]);
    }
    liveness_file_close(f);
}

/* A stopped process is not dead. */
static void a_stopped_process_keeps_its_lock(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "a.db");
    liveness_file *f = open_nodes(path);
    life l;
    tmp_child node = bear(&l, path, 5);
    assert_int_equal(kill(node.pid, SIGSTOP), 0);
    tmp_await_stop(&node);
    assert_int_equal(liveness_file_alive(f, 5), 1);
    tmp_kill(&node);
    assert_int_equal(liveness_file_alive(f, 5), 0);
    close(l.stay[1]);
    liveness_file_close(f);
}

/* The descriptor is inherited over fork(), and with it the lock: so the child must close its copy
 * first of all, or a forked helper would keep a dead node alive. */
static void a_forked_child_keeps_no_node_alive(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "a.db");
    liveness_file *f = open_nodes(path);
    life l;
    tmp_child node = bear(&l, path, 5);
    tell(&node, 'f');
    tmp_kill(&node);
    /* The grandchild may not have run yet: it closes its copy as its first act, not in no time. */
    TMP_AWAIT(liveness_file_alive(f, 5) == 0);
    close(l.stay[1]);
    liveness_file_close(f);
}

static void a_program_that_was_started_keeps_no_node_alive(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "a.db");
    liveness_file *f = open_nodes(path);
    life l;
    tmp_child node = bear(&l, path, 5);
    tell(&node, 'e');
    tmp_kill(&node);
    TMP_AWAIT(liveness_file_alive(f, 5) == 0);
    close(l.stay[1]);
    liveness_file_close(f);
}

/* The child closes, it does not unlock: the lock is its parent's too. */
static void a_forked_child_frees_nothing(conf *c)
{
    char path[TMP_PATH];
    tmp_path(path, c->dir, "a.db");
    liveness_file *f = open_nodes(path);
    life l;
    tmp_child node = bear(&l, path, 5);
    tell(&node, 'd'); /* the grandchild has come and gone */
    assert_int_equal(liveness_file_alive(f, 5), 1);
    tell(&node, 'f');
    assert_int_equal(liveness_file_alive(f, 5), 1);
    tell(&node, 'x');
    assert_int_equal(tmp_reap(&node), 0); /* the grandchild is still there */
    TMP_AWAIT(liveness_file_alive(f, 5) == 0);
    close(l.stay[1]);
    liveness_file_close(f);
}

static void an_engine_has_its_file_beside_the_database(conf *c)
{
    char file[TMP_PATH];
    tmp_path(file, c->dir, "conf.db-nodes");
    error err = {0};
    db *d = conf_open(c, NULL);
    db *e = conf_open(c, NULL);
    assert_int_equal(tmp_size(file), 0);
    liveness_file *f = d->driver->nodes(d);
    liveness_file *g = e->driver->nodes(e);
    assert_non_null(f);
    assert_non_null(g);
    CONF_OK(liveness_file_hold(f, 3, &err), &err);
    assert_int_equal(liveness_file_alive(g, 3), 1);
    db_close(d);
    assert_int_equal(liveness_file_alive(g, 3), 0);
    db_close(e);
}

/* Every process that may write the database must be able to lock beside it, and no other: a process
 * of the same group, say. The mask is that of the process that happened to come first. */
static void the_file_has_the_databases_mode(conf *c)
{
    static const mode_t MODES[] = {0600, 0640, 0660, 0666};
    static const mode_t MASKS[] = {0077, 0022, 0000};
    char path[TMP_PATH];
    char file[TMP_PATH];
    tmp_path(path, c->dir, "conf.db");
    tmp_path(file, c->dir, "conf.db-nodes");
    db_close(conf_open(c, NULL));
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++)
        for (size_t j = 0; j < sizeof MASKS / sizeof *MASKS; j++) {
            struct stat st;
            assert_int_equal(chmod(path, MODES[i]), 0);
            assert_int_equal(unlink(file), 0);
            mode_t before = umask(MASKS[j]);
            db *d = conf_open(c, NULL);
            liveness_file *f = d->driver->nodes(d);
            umask(before);
            assert_non_null(f);
            assert_int_equal(stat(file, &st), 0);
            assert_int_equal(st.st_mode & 0777, MODES[i]);
            db_close(d);
        }
}

/* Two names of one file are one database, and must find the same locks. */
static void links_lead_to_the_same_locks(conf *c)
{
    char path[TMP_PATH];
    char other[TMP_PATH];
    error err = {0};
    db *d = conf_open(c, NULL);
    tmp_path(path, c->dir, "conf.db");
    tmp_path(other, c->dir, "link.db");
    assert_int_equal(symlink(path, other), 0);
    db *e = NULL;
    db_options o = {.url = other};
    CONF_OK(db_open(&e, &o, &err), &err);
    CONF_OK(liveness_file_hold(d->driver->nodes(d), 9, &err), &err);
    assert_int_equal(liveness_file_alive(e->driver->nodes(e), 9), 1);
    db_close(e);
    db_close(d);
}

static const conf_case CASES[] = {
    {"a node that holds its lock is alive", a_node_that_holds_its_lock_is_alive, 0},
    {"ids may be large but not small", ids_may_be_large_but_not_small, 0},
    {"engines of one process exclude each other", engines_of_one_process_exclude_each_other, 0},
    {"a dead process frees its lock at once", a_dead_process_frees_its_lock_at_once, 0},
    {"a stopped process keeps its lock", a_stopped_process_keeps_its_lock, 0},
    {"a forked child keeps no node alive", a_forked_child_keeps_no_node_alive, 0},
    {"a program that was started keeps no node alive",
     a_program_that_was_started_keeps_no_node_alive, 0},
    {"a forked child frees nothing", a_forked_child_frees_nothing, 0},
    {"an engine has its file beside the database", an_engine_has_its_file_beside_the_database, 0},
    {"the file has the database's mode", the_file_has_the_databases_mode, 0},
    {"links lead to the same locks", links_lead_to_the_same_locks, 0},
};

int main(void)
{
    return conf_run_on("sqlite", CASES, CONF_COUNT(CASES));
}
