/* Notifications, on every database that several processes can open: the target is notified after
 * the commit and never in its transaction (B5), across connections and processes, and again after
 * the connection was lost. What is not promised is not asked for: a notification may come twice, or
 * for nothing.
 *
 * How often and in which order is in test_notifier_rules.c, without a database. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "db/notifier.h"
#include "support/conf.h"

/* ---- Listeners ---- */

/* A node that listens, with a database of its own, as another process would have. */
typedef struct listener {
    db *db;
    notifier *notifier;
    atomic_int calls; /* of on_heard */
} listener;

static void count_call(void *arg)
{
    atomic_fetch_add(&((listener *)arg)->calls, 1);
}

static notifier *open_notifier(db *d, listener *e, int64_t node, int by_hand)
{
    error err = {0};
    notifier *w = NULL;
    notifier_options o = {
        .node = node, .by_hand = by_hand, .on_heard = count_call, .on_heard_arg = e};
    CONF_OK(notifier_open(&w, d, &o, &err), &err);
    assert_non_null(w);
    return w;
}

/* Listens when this returns, and the call that follows every connect is over. */
static void listener_open(listener *e, const conf *c, const db_options *options, int64_t node,
                          int by_hand)
{
    memset(e, 0, sizeof *e);
    e->db = conf_open(c, options);
    e->notifier = open_notifier(e->db, e, node, by_hand);
    if (by_hand)
        assert_int_equal(notifier_poll(e->notifier), 1);
    else
        TMP_AWAIT(atomic_load(&e->calls) >= 1);
}

static void listener_close(listener *e)
{
    notifier_close(e->notifier);
    db_close(e->db);
}

static int64_t heard(const listener *e)
{
    return notifier_stats_now(e->notifier).heard;
}

static int readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

/* ---- The target hears ---- */

static void every_target_may_be_notified(conf *c)
{
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        listener one;
        listener_open(&one, c, NULL, 2, by_hand);
        notifier_tell(one.notifier, NOTIFY_ALL_NODES);
        notifier_tell(one.notifier, 3);
        notifier_tell(one.notifier, 2);
        assert_int_equal(notifier_stats_now(one.notifier).told, 3);
        listener_close(&one);
    }
}

static void the_target_hears(conf *c)
{
    listener one, two;
    listener_open(&one, c, NULL, 2, 0);
    listener_open(&two, c, NULL, 3, 0);
    for (int i = 0; i < 3; i++) {
        int64_t before = heard(&two);
        notifier_tell(one.notifier, 3);
        TMP_AWAIT(heard(&two) > before);
        before = heard(&one);
        notifier_tell(two.notifier, 2);
        TMP_AWAIT(heard(&one) > before);
    }
    assert_true(atomic_load(&two.calls) >= 4);
    listener_close(&two);
    listener_close(&one);
}

/* A client that is no node hears what is for all listeners too: the end of a run that it waits
 * for. */
static void all_listeners_hear(conf *c)
{
    listener one, two, nobody;
    listener_open(&one, c, NULL, 2, 0);
    listener_open(&two, c, NULL, 3, 0);
    listener_open(&nobody, c, NULL, 0, 0);
    notifier_tell(one.notifier, NOTIFY_ALL_NODES);
    TMP_AWAIT(heard(&two) > 0);
    TMP_AWAIT(heard(&nobody) > 0);
    listener_close(&nobody);
    listener_close(&two);
    listener_close(&one);
}

/* By name: only where there are names. What has been sent to a connection is there after a trip to
 * the server on it, so that "not heard" is no matter of time. */
static void other_nodes_are_not_notified(conf *c)
{
    if (c->promises & DB_FILE)
        skip();
    listener one, two, three;
    listener_open(&one, c, NULL, 2, 0);
    listener_open(&two, c, NULL, 3, 0);
    listener_open(&three, c, NULL, 4, 1);
    notifier_tell(one.notifier, 3);
    TMP_AWAIT(heard(&two) == 1);
    notifier_tell(three.notifier, 3);
    assert_int_equal(notifier_poll(three.notifier), 0);
    assert_int_equal(notifier_stats_now(three.notifier).sent, 1);
    notifier_tell(three.notifier, NOTIFY_ALL_NODES); /* what one says oneself is not news either */
    assert_int_equal(notifier_poll(three.notifier), 0);
    assert_int_equal(notifier_stats_now(three.notifier).sent, 2);
    TMP_AWAIT(heard(&one) == 1);
    notifier_tell(one.notifier, 4);
    assert_true(readable(notifier_fd(three.notifier), tmp_patience() * 1000));
    assert_int_equal(notifier_poll(three.notifier), 1);
    listener_close(&three);
    listener_close(&two);
    listener_close(&one);
}

static void by_hand_there_is_a_descriptor(conf *c)
{
    listener one, two;
    listener_open(&one, c, NULL, 2, 1);
    listener_open(&two, c, NULL, 3, 1);
    for (int i = 0; i < 3; i++) {
        assert_false(readable(notifier_fd(two.notifier), 0));
        assert_int_equal(notifier_next_ns(two.notifier), INT64_MAX);
        assert_int_equal(notifier_poll(two.notifier), 0);
        notifier_tell(one.notifier, 3);
        int64_t sent = notifier_stats_now(one.notifier).sent;
        TMP_AWAIT((notifier_poll(one.notifier), notifier_stats_now(one.notifier).sent > sent));
        assert_true(readable(notifier_fd(two.notifier), tmp_patience() * 1000));
        assert_int_equal(notifier_poll(two.notifier), 1);
    }
    assert_int_equal(atomic_load(&two.calls), 4);
    listener_close(&two);
    listener_close(&one);
}

/* A thousand within 5 ms are one, also where they arrive. */
static void many_notifications_become_one(conf *c)
{
    clock_fake *clock = clock_fake_new(0);
    db_options o = {.clock = clock_fake_source(clock)};
    listener one, two;
    listener_open(&one, c, &o, 2, 1);
    listener_open(&two, c, NULL, 3, 1);
    for (int i = 0; i < 1000; i++)
        notifier_tell(one.notifier, 3);
    notifier_poll(one.notifier);
    for (int i = 0; i < 1000; i++) {
        notifier_tell(one.notifier, 3);
        notifier_poll(one.notifier);
    }
    assert_int_equal(notifier_stats_now(one.notifier).told, 2000);
    assert_int_equal(notifier_stats_now(one.notifier).sent, 1);
    assert_true(readable(notifier_fd(two.notifier), tmp_patience() * 1000));
    assert_int_equal(notifier_poll(two.notifier), 1);
    assert_false(readable(notifier_fd(two.notifier), 0));
    clock_fake_advance(clock, 5);
    notifier_poll(one.notifier);
    assert_int_equal(notifier_stats_now(one.notifier).sent, 2);
    assert_true(readable(notifier_fd(two.notifier), tmp_patience() * 1000));
    assert_int_equal(notifier_poll(two.notifier), 1);
    listener_close(&two);
    listener_close(&one);
    clock_fake_free(clock);
}

/* ---- Beside transactions, never in them ---- */

static void tell_three(unit *u, void *arg)
{
    if (u->answer == UNIT_COMMITTED)
        notifier_tell(arg, 3);
}

/* The order that everything rests on: commit, tell, hear, look. */
static void a_listener_that_hears_finds_it(conf *c)
{
    listener one, two;
    listener_open(&one, c, NULL, 2, 0);
    listener_open(&two, c, NULL, 3, 0);
    committer *k = conf_committer(one.db, NULL);
    for (int64_t i = 0; i < 10; i++) {
        int64_t before = heard(&two);
        conf_ticket t;
        conf_ticket_append(&t, 1, i, NULL);
        t.unit->done = tell_three;
        t.unit->done_arg = one.notifier;
        assert_int_equal(committer_commit(k, t.unit), PAWL_OK);
        TMP_AWAIT(heard(&two) > before);
        assert_int_equal(conf_rows(two.db, 1), i + 1);
        conf_ticket_free(&t);
    }
    committer_close(k);
    listener_close(&two);
    listener_close(&one);
}

/* A notification inside a transaction would wait for its commit, and all commits for each other.
 * Here the transaction stays open, with the database locked as far as it can be. */
static void no_transaction_is_waited_for(conf *c)
{
    listener one, two;
    listener_open(&one, c, NULL, 2, 0);
    listener_open(&two, c, NULL, 3, 0);
    db_conn *w = conf_connect(one.db, DB_WRITER);
    error err = {0};
    db_value v[] = {db_int(1), db_int(1), db_text(SLICE_LIT("row")), db_null()};
    conf_begin(w);
    CONF_OK(db_run(w, &CONF_APPEND, v, 4, &err), &err);
    notifier_tell(one.notifier, 3);
    TMP_AWAIT(heard(&two) > 0);
    listener three; /* and one may begin to listen */
    memset(&three, 0, sizeof three);
    three.notifier = open_notifier(two.db, &three, 4, 0);
    notifier_tell(one.notifier, 4);
    TMP_AWAIT(heard(&three) > 0);
    notifier_close(three.notifier);
    db_rollback(w);
    db_disconnect(w);
    listener_close(&two);
    listener_close(&one);
}

/* ---- Lost connections ---- */

/* Take the ground from under all notifiers of the database: end their sessions, or delete the
 * file. */
static void cut(const conf *c, db *d)
{
    static const char TERMINATE[] =
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
        " AND datname = current_database() AND (query LIKE 'LISTEN%' OR query LIKE '%pg_notify%')";
    char path[TMP_PATH];
    tmp_path(path, c->dir, "conf.db-wake");
    if (c->promises & DB_FILE)
        assert_int_equal(unlink(path), 0);
    else
        conf_script(d, TERMINATE);
}

static void the_notifier_goes_on_after_a_lost_connection(conf *c)
{
    listener one, two;
    listener_open(&one, c, NULL, 2, 0);
    listener_open(&two, c, NULL, 3, 0);
    for (int i = 1; i <= 3; i++) {
        int calls = atomic_load(&two.calls);
        cut(c, one.db);
        TMP_AWAIT(notifier_stats_now(one.notifier).reconnects >= i);
        TMP_AWAIT(notifier_stats_now(two.notifier).reconnects >= i);
        TMP_AWAIT(atomic_load(&two.calls) > calls); /* it is unknown what was missed */
        int64_t before = heard(&two);
        notifier_tell(one.notifier, 3);
        TMP_AWAIT(heard(&two) > before);
        before = heard(&one);
        notifier_tell(two.notifier, 2);
        TMP_AWAIT(heard(&one) > before);
    }
    listener_close(&two);
    listener_close(&one);
}

/* A notification for a server that is down goes out when the server is back; a target that cannot
 * be reached by then is called for another reason, its own new connection. */
static void the_notifier_goes_on_after_a_restart_of_the_server(conf *c)
{
    if (!c->server)
        skip();
    listener one, two;
    listener_open(&one, c, NULL, 2, 0);
    listener_open(&two, c, NULL, 3, 0);
    int calls = atomic_load(&two.calls);
    pgserver_stop(c->server, PGSERVER_FAST);
    notifier_tell(one.notifier, 3);
    pgserver_restart(c->server);
    TMP_AWAIT(notifier_stats_now(one.notifier).sent == 1);
    TMP_AWAIT(atomic_load(&two.calls) > calls);
    TMP_AWAIT(notifier_stats_now(two.notifier).reconnects >= 1);
    int64_t before = heard(&two);
    notifier_tell(one.notifier, 3);
    TMP_AWAIT(heard(&two) > before);
    listener_close(&two);
    listener_close(&one);
}

/* Behind a pooler a session is shared: a client can notify, and not listen. */
static void behind_a_pooler_notifications_are_sent(conf *c)
{
    if (!c->server)
        skip();
    conf behind = *c;
    size_t size = strlen(behind.url);
    snprintf(behind.url + size, sizeof behind.url - size, "%cpooler=transaction",
             strchr(behind.url, '?') ? '&' : '?');
    listener one, two;
    listener_open(&one, &behind, NULL, 2, 1);
    listener_open(&two, c, NULL, 3, 0);
    notifier_tell(one.notifier, 3);
    notifier_poll(one.notifier);
    TMP_AWAIT(heard(&two) == 1);
    notifier_tell(two.notifier, 2);
    TMP_AWAIT(notifier_stats_now(two.notifier).sent == 1);
    assert_int_equal(notifier_poll(one.notifier), 0);
    listener_close(&two);
    listener_close(&one);
}

/* ---- Processes ---- */

/* A node in a process of its own, by hand. Words: r it listens, h it has heard; t tell node 2, x
 * end. Assertions of cmocka are not for children. */
static void another_process(int in, int out, void *arg)
{
    const conf *c = arg;
    db *d = NULL;
    notifier *w = NULL;
    listener e = {0};
    db_options o = {.url = c->url};
    notifier_options wo = {.node = 3, .by_hand = 1, .on_heard = count_call, .on_heard_arg = &e};
    TMP_CHECK(db_open(&d, &o, NULL) == PAWL_OK);
    TMP_CHECK(notifier_open(&w, d, &wo, NULL) == PAWL_OK);
    TMP_CHECK(notifier_poll(w) == 1);
    tmp_tell(out, 'r');
    int word;
    while ((word = tmp_hear(in)) != 'x') {
        TMP_CHECK(word == 't' || word == 'l');
        if (word == 't') {
            notifier_tell(w, 2);
            TMP_CHECK(readable(notifier_fd(w), 0));
            notifier_poll(w);
        } else {
            TMP_CHECK(readable(notifier_fd(w), tmp_patience() * 1000));
            TMP_CHECK(notifier_poll(w) == 1);
        }
        tmp_tell(out, (char)word);
    }
    notifier_close(w);
    db_close(d);
}

static void processes_wake_each_other(conf *c)
{
    db_close(conf_open(c, NULL));
    tmp_child other = tmp_fork(another_process, c);
    tmp_expect(&other, 'r');
    listener one;
    listener_open(&one, c, NULL, 2, 0);
    notifier_tell(one.notifier, 3);
    tmp_tell(other.to, 'l');
    tmp_expect(&other, 'l');
    TMP_AWAIT(notifier_stats_now(one.notifier).sent == 1);
    int64_t before = heard(&one);
    tmp_tell(other.to, 't');
    tmp_expect(&other, 't');
    TMP_AWAIT(heard(&one) > before);
    tmp_tell(other.to, 'x');
    tmp_join(&other);
    listener_close(&one);
}

/* A child of fork() has the descriptors and neither the thread nor a right to them: what it does
 * with its copy of the handle is nothing to its parent. */
static void a_forked_child_disturbs_no_listener(conf *c)
{
    for (int by_hand = 0; by_hand < 2; by_hand++) {
        listener one, two;
        listener_open(&one, c, NULL, 2, 0);
        listener_open(&two, c, NULL, 3, by_hand);
        if (by_hand) { /* what has come must not be read by the child */
            notifier_tell(one.notifier, 3);
            assert_true(readable(notifier_fd(two.notifier), tmp_patience() * 1000));
        }
        pid_t pid = fork();
        if (pid == 0) {
            TMP_CHECK(notifier_poll(two.notifier) == 0);
            notifier_close(two.notifier);
            execl("/bin/true", "true", (char *)NULL); /* what it has inherited is no leak */
            _exit(1);
        }
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        if (by_hand) {
            assert_int_equal(notifier_poll(two.notifier), 1);
        } else {
            notifier_tell(one.notifier, 3);
            TMP_AWAIT(heard(&two) > 0);
        }
        assert_int_equal(notifier_stats_now(two.notifier).reconnects, 0);
        listener_close(&two);
        listener_close(&one);
    }
}

/* ---- The file of SQLite ---- */

static int count_connect(void *native, void *arg)
{
    (void)native;
    ++*(int *)arg;
    return 0;
}

/* An idle engine has one more descriptor, not one more handle of the database. */
static void a_waker_opens_no_database(conf *c)
{
    if (!(c->promises & DB_FILE))
        skip();
    int connects = 0;
    db_options o = {.on_connect = count_connect, .on_connect_arg = &connects};
    db *d = conf_open(c, &o);
    int before = connects;
    listener e = {0};
    notifier *w = open_notifier(d, &e, 2, 1);
    notifier_tell(w, 3);
    notifier_poll(w);
    assert_int_equal(connects, before);
    notifier_close(w);
    db_close(d);
}

static void the_file_is_small_and_ours(conf *c)
{
    if (!(c->promises & DB_FILE))
        skip();
    char path[TMP_PATH], wake[TMP_PATH];
    tmp_path(path, c->dir, "conf.db");
    tmp_path(wake, c->dir, "conf.db-wake");
    db *d = conf_open(c, NULL);
    assert_int_equal(tmp_size(wake),
                     -1); /* made by the notifying process, not by the one that opens */
    assert_int_equal(chmod(path, 0640), 0);
    listener e = {0};
    notifier *w = open_notifier(d, &e, 2, 0);
    for (int64_t node = 3; node < 40; node++)
        notifier_tell(w, node);
    notifier_close(w);
    struct stat st;
    assert_int_equal(stat(wake, &st), 0);
    assert_int_equal(st.st_size, 1);
    assert_int_equal(st.st_mode & 0777, 0640);

    /* A link to the database: closing it would drop the locks of the whole process. */
    for (int hard = 0; hard < 2; hard++) {
        error err = {0};
        assert_int_equal(unlink(wake), 0);
        assert_int_equal(hard ? link(path, wake) : symlink(path, wake), 0);
        assert_int_equal(notifier_open(&w, d, NULL, &err), PAWL_CANTOPEN);
        assert_true(err.message[0] && err.detail[0] && err.hint[0]);
        assert_null(w);
    }
    db_close(d);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"every target may be notified", every_target_may_be_notified, 0},
        {"the target hears", the_target_hears, DB_SHARED},
        {"all listeners hear", all_listeners_hear, DB_SHARED},
        {"other nodes are not notified", other_nodes_are_not_notified, DB_SHARED},
        {"by hand there is a descriptor", by_hand_there_is_a_descriptor, DB_SHARED},
        {"many notifications become one", many_notifications_become_one, DB_SHARED},
        {"a listener that hears finds it", a_listener_that_hears_finds_it, DB_SHARED},
        {"no transaction is waited for", no_transaction_is_waited_for, DB_SHARED},
        {"the notifier goes on after a lost connection",
         the_notifier_goes_on_after_a_lost_connection, DB_SHARED},
        {"the notifier goes on after a restart of the server",
         the_notifier_goes_on_after_a_restart_of_the_server, DB_SHARED},
        {"behind a pooler notifications are sent", behind_a_pooler_notifications_are_sent,
         DB_SHARED},
        {"processes wake each other", processes_wake_each_other, DB_SHARED},
        {"a forked child disturbs no listener", a_forked_child_disturbs_no_listener, DB_SHARED},
        {"a notifier opens no database", a_waker_opens_no_database, DB_SHARED},
        {"the file is small and ours", the_file_is_small_and_ours, DB_SHARED},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
