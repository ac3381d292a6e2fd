/* A commit that waits for a standby: durable here, not yet there, and not answered.
 *
 * A server that is told to wait for a standby which does not exist holds the answer to a COMMIT
 * back for as long as the test wants, after it has made the commit durable. So the worst moment for
 * a server to die is had at will: what it has kept was never acknowledged. It has to be found out,
 * and not tried again. The words with which a connection breaks must not be taken for an answer; by
 * TLS they are others than by a socket.
 *
 * A session that only waits for its standby must not be ended to find out sooner: that would call
 * committed what a failover loses. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "support/conf.h"
#include "support/daemon.h"
#include "support/pgserver.h"

#define LONG_CLAIM_MS 60000 /* no unit runs out of time */
#define SHORT_CLAIM_MS 1000

/* One server and one database for all tests, made by the first that needs them. */
typedef struct shared_server {
    pgserver *server;
    char dir[TMP_PATH]; /* of the certificate */
    char database[PGSERVER_NAME];
    int64_t runs;
} shared_server;

typedef struct fixture {
    db *db;
    committer *committer;
    conf_ticket ticket;
    int64_t run;
    int64_t seq;
} fixture;

static shared_server shared;

/* ---- The server ---- */

/* A certificate of the server's own, and its key, which only the server may read. */
static void make_certificate(const char *cert, const char *key)
{
    uid_t uid;
    gid_t gid;
    char command[3 * TMP_PATH];
    snprintf(command, sizeof command,
             "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2"
             " -subj /CN=test -keyout '%s' -out '%s' 2>/dev/null",
             key, cert);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_int_equal(pclose(f), 0);
    daemon_user(&uid, &gid);
    assert_int_equal(chown(key, uid, gid), 0);
}

static int has_tls(void)
{
    return access("/usr/bin/openssl", X_OK) == 0;
}

static void start_server(void)
{
    char cert[TMP_PATH], key[TMP_PATH];
    char cert_setting[TMP_PATH + 32], key_setting[TMP_PATH + 32];
    tmp_dir_make_open(shared.dir);
    tmp_path(cert, shared.dir, "cert");
    tmp_path(key, shared.dir, "key");
    if (has_tls())
        make_certificate(cert, key);
    snprintf(cert_setting, sizeof cert_setting, "ssl_cert_file=%s", cert);
    snprintf(key_setting, sizeof key_setting, "ssl_key_file=%s", key);
    const char *const settings[] = {has_tls() ? "ssl=on" : "ssl=off", cert_setting, key_setting,
                                    NULL};
    pgserver_options options = {.settings = settings, .tcp = 1};
    shared.server = pgserver_start(&options);
    pgserver_database(shared.server, shared.database);
}

static void reload(void)
{
    pgserver_exec(shared.server, NULL, "SELECT pg_reload_conf()");
}

/* From now on commits wait. */
static void ask_for_standby(void)
{
    pgserver_exec(shared.server, NULL, "ALTER SYSTEM SET synchronous_standby_names = 'nobody'");
    reload();
}

/* No longer; also for a server that does not run. */
static void ask_for_none(void)
{
    char path[TMP_PATH + 64];
    snprintf(path, sizeof path, "%s/data/postgresql.auto.conf", pgserver_dir(shared.server));
    tmp_file(path, "", 0);
    if (pgserver_pid(shared.server))
        reload();
}

static int64_t waiting(void)
{
    return pgserver_number(shared.server, NULL,
                           "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'");
}

static int set_up(void **state)
{
    static fixture s;
    s = (fixture){.run = 0};
    *state = &s;
    tmp_watchdog("a test of a commit that waits for a standby");
    return 0;
}

static int tear_down(void **state)
{
    fixture *s = *state;
    if (shared.server)
        ask_for_none();
    committer_close(s->committer);
    if (s->db)
        db_close(s->db);
    conf_ticket_free(&s->ticket);
    tmp_watchdog(NULL);
    return 0;
}

static int end_server(void **state)
{
    (void)state;
    pgserver_free(shared.server);
    if (shared.dir[0])
        tmp_dir_remove(shared.dir);
    return 0;
}

/* ---- A commit that waits ---- */

static fixture *fixture_of(void **state)
{
    fixture *s = *state;
    pgserver_need();
    if (!shared.server)
        start_server();
    s->run = ++shared.runs;
    return s;
}

/* Open the database of `url`, and hand in a unit that waits for the standby: the first one, with
 * which the connection also makes its ring, does not yet, and the server takes its time. */
static void commit_and_wait(fixture *s, const char *url, int64_t claim_ms)
{
    error err = {0};
    db_options options = {.url = url, .claim_ms = claim_ms};
    CONF_OK(db_open(&s->db, &options, &err), &err);
    CONF_OK(committer_open(&s->committer, s->db, NULL, &err), &err);
    do {
        conf_ticket_free(&s->ticket);
        conf_ticket_append(&s->ticket, s->run, ++s->seq, NULL);
        committer_submit(s->committer, s->ticket.unit);
        committer_leave(s->committer);
        TMP_AWAIT(waiting() > 0 || atomic_load(&s->ticket.finals) > 0);
        if (s->seq == 1)
            ask_for_standby();
    } while (atomic_load(&s->ticket.finals) > 0);
}

static int64_t rows(const fixture *s)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM pawl.journal WHERE run = %lld AND seq = %lld",
             (long long)s->run, (long long)s->seq);
    return pgserver_number(shared.server, shared.database, sql);
}

static void expect_found_out(fixture *s)
{
    TMP_AWAIT(atomic_load(&s->ticket.finals) > 0);
    CONF_ANSWER(&s->ticket, UNIT_COMMITTED);
    assert_int_equal(atomic_load(&s->ticket.undecided), 1);
    assert_int_equal(rows(s), 1);
}

static void die_while_it_waits(fixture *s, const char *url, pgserver_end how)
{
    commit_and_wait(s, url, LONG_CLAIM_MS);
    pgserver_stop(shared.server, how);
    ask_for_none();
    pgserver_restart(shared.server);
    expect_found_out(s);
}

static void the_server_dies(void **state)
{
    fixture *s = fixture_of(state);
    char url[PGSERVER_URL];
    pgserver_url(shared.server, shared.database, url);
    die_while_it_waits(s, url, PGSERVER_KILL);
}

static void tls_url(char out[PGSERVER_URL])
{
    snprintf(out, PGSERVER_URL, "postgres://pawl@127.0.0.1:%d/%s?sslmode=require",
             pgserver_port(shared.server), shared.database);
}

static void the_server_dies_under_tls(void **state)
{
    fixture *s = fixture_of(state);
    char url[PGSERVER_URL];
    if (!has_tls())
        skip();
    tls_url(url);
    die_while_it_waits(s, url, PGSERVER_KILL);
}

/* This way the connection is closed in order, and still without an answer. */
static void the_server_stops_under_tls(void **state)
{
    fixture *s = fixture_of(state);
    char url[PGSERVER_URL];
    if (!has_tls())
        skip();
    tls_url(url);
    die_while_it_waits(s, url, PGSERVER_FAST);
}

/* The client does not wait for ever, but it waits to know: as long as no standby has the commit, no
 * answer may say that it is committed, and nothing may make the server say so. */
static void a_session_that_waits_for_a_standby_is_not_ended(void **state)
{
    fixture *s = fixture_of(state);
    char url[PGSERVER_URL];
    pgserver_url(shared.server, shared.database, url);
    commit_and_wait(s, url, SHORT_CLAIM_MS);
    TMP_AWAIT(atomic_load(&s->ticket.undecided) > 0);
    /* Several attempts to find out are refused the lock. */
    for (int i = 0; i < 3; i++) {
        TMP_AWAIT(pgserver_number(shared.server, NULL,
                                  "SELECT count(*) FROM pg_stat_activity"
                                  " WHERE wait_event_type = 'Lock'") > 0);
        TMP_AWAIT(pgserver_number(shared.server, NULL,
                                  "SELECT count(*) FROM pg_stat_activity"
                                  " WHERE wait_event_type = 'Lock'") == 0);
    }
    assert_int_equal(waiting(), 1);
    assert_int_equal(rows(s), 0);
    assert_int_equal(atomic_load(&s->ticket.finals), 0);
    ask_for_none();
    expect_found_out(s);
}

int main(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_server_dies),
        TEST(the_server_dies_under_tls),
        TEST(the_server_stops_under_tls),
        TEST(a_session_that_waits_for_a_standby_is_not_ended),
    };
    return cmocka_run_group_tests(tests, NULL, end_server);
}
