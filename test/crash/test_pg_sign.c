/* Death on PostgreSQL, seen by the locks of sessions: a process that was killed is noticed at once,
 * and whatever happens to sessions and to the server, no node that lives is closed.
 *
 * Eight nodes with threads serve one database, with a lease that is longer than the test: a node
 * that is closed here was closed because of its lock. Then sessions are reset (the one with the
 * lock of a node, all of a node, all of all nodes), sessions and the server die, the server is
 * restarted, a session hangs, a session ends at one side only.
 *
 * PAWL_TEST_RESETS says how many resets of each kind there are (6); of deaths, crashes and restarts
 * there are a 25th part as many. PAWL_TEST_CASE: only the cases with this in their name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <pawl.h>

#include "handle/handle.h"
#include "sched/sched_internal.h"
#include "support/pgserver.h"
#include "support/proxy.h"
#include "support/scratch.h"

enum {
    NODES = 8,
    CLAIM_MS = 600000,
    SHORT_CLAIM_MS = 5000,
    WATCH_MS = 3000, /* nodes are looked at several times in so long */
    PAUSE_MS = 400,  /* between two resets at most */
    SQL = 512,
};

#define LOCK_OF                                                                                    \
    "SELECT l.pid FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objsubid = 2"                \
    " AND l.objid = %lld"

typedef struct member {
    pawl *p;
    pthread_t thread;
    int64_t node; /* that it is, unless it was closed */
} member;

typedef struct fleet {
    pgserver *server;
    char database[PGSERVER_NAME];
    char url[PGSERVER_URL];
    member members[NODES];
    int count;
    int64_t started; /* runs */
    random_seeded random;
} fleet;

static atomic_int
    closed; /* nodes that others have closed; tidy: shared, the log has no other way */

static void note_log(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    (void)arg;
    atomic_fetch_add(&closed, strcmp(event, "node-closed") == 0);
}

/* ---- The fleet ---- */

static const char *echo(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

static const char *walk(pawl_run *run, const char *input)
{
    pawl_step(run, "one", echo, input, NULL);
    pawl_sleep(run, 20);
    return pawl_step(run, "two", echo, input, NULL);
}

static pawl *open_engine(const char *url, int64_t claim_ms)
{
    pawl *p = NULL;
    pawl_options o = {.size = sizeof o, .threads = 1, .claim_ms = claim_ms, .log = note_log};
    if (pawl_open(&p, url, &o) != PAWL_OK ||
        pawl_register_workflow(p, "walk", walk, NULL) != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_errtext(p));
        return NULL;
    }
    return p;
}

static void *serve(void *arg)
{
    pawl_code rc = pawl_serve(arg);
    if (rc != PAWL_OK)
        fprintf(stderr, "serve: %s\n", pawl_errtext(arg));
    return rc == PAWL_OK ? NULL : arg;
}

static int64_t number(const fleet *f, const char *sql)
{
    return pgserver_number(f->server, f->database, sql);
}

static int64_t signs(const fleet *f)
{
    return number(f, "SELECT count(*) FROM pawl.signs WHERE started ="
                     " (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint");
}

static void add_member(fleet *f, const char *url, int64_t claim_ms)
{
    member *m = &f->members[f->count++];
    m->p = open_engine(url, claim_ms);
    assert_non_null(m->p);
    assert_int_equal(pthread_create(&m->thread, NULL, serve, m->p), 0);
    TMP_AWAIT((m->node = handle_node(m->p)) != 0);
    TMP_AWAIT(signs(f) >= f->count);
}

static void fleet_begin(fleet *f, const char *name)
{
    static const char *const SETTINGS[] = {"max_connections=200", NULL};
    *f = (fleet){.server = NULL};
    tmp_watchdog(name);
    pgserver_need();
    random_seeded_init(&f->random, scratch_seed());
    f->server = pgserver_start(&(pgserver_options){.settings = SETTINGS});
    pgserver_database(f->server, f->database);
    pgserver_url(f->server, f->database, f->url);
    atomic_store(&closed, 0);
}

/* Members have sessions with their own name. */
static void add_members(fleet *f, int64_t claim_ms)
{
    char url[2 * PGSERVER_URL];
    for (int i = 0; i < NODES; i++) {
        snprintf(url, sizeof url, "%s&application_name=member%d", f->url, i);
        add_member(f, url, claim_ms);
    }
}

static void fleet_end(fleet *f)
{
    for (int i = 0; i < f->count; i++)
        pawl_stop(f->members[i].p);
    for (int i = 0; i < f->count; i++) {
        void *failed = NULL;
        pthread_join(f->members[i].thread, &failed);
        assert_null(failed);
        pawl_close(f->members[i].p);
    }
    pgserver_free(f->server);
    tmp_watchdog(NULL);
}

static void start_run(fleet *f, pawl *p)
{
    char id[32];
    pawl_code rc;
    int64_t until = tmp_deadline();
    snprintf(id, sizeof id, "run%lld", (long long)++f->started);
    while ((rc = pawl_start(p, "walk", id, "1", NULL)) != PAWL_OK) {
        if (!pawl_code_retryable(rc))
            fail_msg("%s", pawl_errtext(p));
        tmp_pause(until, "a run can be started", __FILE__, __LINE__);
    }
}

static void take_ms(int64_t ms)
{
    struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&time, NULL);
}

/* No node was closed, and after a while every node has a sign and every run an end. */
static void expect_all_alive(fleet *f)
{
    TMP_AWAIT(signs(f) == f->count);
    TMP_AWAIT(number(f, "SELECT count(*) FROM pawl.runs WHERE phase = 0") == 0);
    assert_int_equal(number(f, "SELECT count(*) FROM pawl.runs WHERE phase = 1"), f->started);
    assert_int_equal(atomic_load(&closed), 0);
    for (int i = 0; i < f->count; i++)
        assert_int_equal(handle_node(f->members[i].p), f->members[i].node);
}

/* ---- Resets ---- */

static int64_t resets(void)
{
    return scratch_number("PAWL_TEST_RESETS", 6);
}

/* What takes seconds each time is done less often. */
static int64_t deaths(void)
{
    return (resets() + 24) / 25;
}

typedef enum { OF_THE_LOCK, OF_A_NODE, OF_ALL } reset;

static void reset_sessions(fleet *f, reset kind)
{
    char sql[SQL];
    int64_t which = scratch_between(&f->random, 0, NODES - 1);
    if (kind == OF_THE_LOCK)
        snprintf(sql, sizeof sql, "SELECT count(pg_terminate_backend(pid)) FROM (" LOCK_OF ") AS l",
                 (long long)f->members[which].node);
    else
        snprintf(sql, sizeof sql,
                 "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                 " WHERE application_name LIKE 'member%s' AND datname = '%s'",
                 kind == OF_ALL ? "%" : (char[]){(char)('0' + which), 0}, f->database);
    (void)number(f, sql);
}

static void reset_often(const char *name, reset kind)
{
    fleet f;
    fleet_begin(&f, name);
    add_members(&f, CLAIM_MS);
    for (int64_t i = 0; i < resets(); i++) {
        tmp_watchdog(name);
        start_run(&f, f.members[i % NODES].p);
        reset_sessions(&f, kind);
        take_ms(scratch_between(&f.random, 0, PAUSE_MS));
    }
    expect_all_alive(&f);
    fleet_end(&f);
}

static void resets_of_a_lock_close_no_node(void **state)
{
    (void)state;
    reset_often("resets of a lock", OF_THE_LOCK);
}

static void resets_of_a_node_close_no_node(void **state)
{
    (void)state;
    reset_often("resets of a node", OF_A_NODE);
}

static void resets_of_all_nodes_close_no_node(void **state)
{
    (void)state;
    reset_often("resets of all nodes", OF_ALL);
}

/* ---- Crashes and restarts of the server ---- */

static void crash_a_session(fleet *f)
{
    char sql[SQL];
    int64_t which = scratch_between(&f->random, 0, NODES - 1);
    snprintf(sql, sizeof sql, LOCK_OF, (long long)f->members[which].node);
    assert_int_equal(kill((pid_t)number(f, sql), SIGKILL), 0);
    /* The server ends all sessions, and takes none until it has recovered. */
    TMP_AWAIT(pgserver_log_has(f->server, "all server processes terminated"));
}

static void crashes_and_restarts_close_no_node(void **state)
{
    fleet f;
    (void)state;
    fleet_begin(&f, "crashes");
    add_members(&f, CLAIM_MS);
    for (int64_t i = 0; i < deaths(); i++) {
        tmp_watchdog("crashes");
        start_run(&f, f.members[i % NODES].p);
        crash_a_session(&f);
        take_ms(WATCH_MS);
        expect_all_alive(&f);
        start_run(&f, f.members[i % NODES].p);
        pgserver_stop(f.server, i % 2 ? PGSERVER_IMMEDIATE : PGSERVER_FAST);
        pgserver_restart(f.server);
        take_ms(scratch_between(&f.random, 0, WATCH_MS));
        expect_all_alive(&f);
    }
    fleet_end(&f);
}

/* ---- Sessions that hang, and those that end at one side ---- */

static void a_session_that_hangs_closes_no_node(void **state)
{
    char sql[SQL];
    fleet f;
    (void)state;
    fleet_begin(&f, "a session that hangs");
    add_members(&f, CLAIM_MS);
    snprintf(sql, sizeof sql, LOCK_OF, (long long)f.members[0].node);
    pid_t pid = (pid_t)number(&f, sql);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    start_run(&f, f.members[1].p);
    take_ms(WATCH_MS);
    assert_int_equal(kill(pid, SIGCONT), 0);
    expect_all_alive(&f);
    fleet_end(&f);
}

/* The session with the lock has gone at the server, and the node does not know; or the node has a
 * new one, and the server does not know that the old one has gone. */
static void a_session_that_ends_at_one_side_closes_no_node(void **state)
{
    char url[PGSERVER_URL];
    fleet f;
    (void)state;
    for (int client = 0; client < 2; client++) {
        fleet_begin(&f, "one side");
        proxy *p = proxy_start(f.server);
        proxy_url(p, f.database, url);
        add_member(&f, f.url, CLAIM_MS);
        add_member(&f, url, CLAIM_MS);
        assert_int_equal(proxy_halve(p, client), 1);
        start_run(&f, f.members[1].p);
        take_ms(2 * WATCH_MS);
        expect_all_alive(&f);
        proxy_cut(p);
        expect_all_alive(&f);
        fleet_end(&f);
        proxy_stop(p);
    }
}

/* ---- A node that is cut off ---- */

/* A live node that is cut off from the server may be closed by its lock, long before its lease is
 * over. From then on it begins no work function, until it has sent a heartbeat. */
static void a_node_that_is_cut_off_begins_nothing(void **state)
{
    char url[PGSERVER_URL];
    fleet f;
    (void)state;
    fleet_begin(&f, "a node that is cut off");
    proxy *p = proxy_start(f.server);
    proxy_url(p, f.database, url);
    add_member(&f, url, CLAIM_MS);
    struct sched *s = handle_sched(f.members[0].p);
    assert_true(sched_claim_is_good(s));
    proxy_refuse(p, 1);
    proxy_cut(p);
    TMP_AWAIT(!sched_claim_is_good(s));
    take_ms(SIGN_SILENT_MS);
    assert_false(sched_claim_is_good(s));
    proxy_refuse(p, 0);
    TMP_AWAIT(sched_claim_is_good(s));
    start_run(&f, f.members[0].p);
    expect_all_alive(&f);
    fleet_end(&f);
    proxy_stop(p);
}

/* ---- Deaths ---- */

typedef struct victim {
    const char *url;
    int64_t claim_ms;
} victim;

static void be_killed(int in, int out, void *arg)
{
    const victim *v = arg;
    pthread_t thread;
    pawl *p = open_engine(v->url, v->claim_ms);
    TMP_CHECK(p && pthread_create(&thread, NULL, serve, p) == 0);
    while (handle_node(p) == 0)
        take_ms(1);
    TMP_CHECK(pawl_start(p, "walk", "orphan", "1", PAWL_START(.delay_ms = 1000)) == PAWL_OK);
    tmp_tell(out, 'n');
    (void)tmp_hear(in);
}

static tmp_child victim_start(fleet *f, victim *v)
{
    tmp_child child = tmp_fork(be_killed, v);
    tmp_expect(&child, 'n');
    f->started++;
    add_member(f, f->url, v->claim_ms);
    TMP_AWAIT(signs(f) == 2);
    return child;
}

static int64_t await_death_ms(void)
{
    clock_source *clock = clock_system();
    int64_t from = clock->mono_ns(clock);
    TMP_AWAIT(atomic_load(&closed) == 1);
    return (clock->mono_ns(clock) - from) / 1000000;
}

static void a_death_is_noticed_at_once(void **state)
{
    fleet f;
    (void)state;
    for (int64_t i = 0; i < deaths(); i++) {
        fleet_begin(&f, "a death");
        victim v = {f.url, CLAIM_MS};
        tmp_child child = victim_start(&f, &v);
        take_ms(scratch_between(&f.random, 0, 1000));
        tmp_kill(&child);
        printf("# a death was noticed after %lld ms\n", (long long)await_death_ms());
        TMP_AWAIT(number(&f, "SELECT count(*) FROM pawl.runs WHERE phase = 1") == f.started);
        fleet_end(&f);
    }
}

/* The session of a process that was killed hangs, and keeps the lock: its silence decides. */
static void a_lock_that_is_kept_is_no_sign_of_life(void **state)
{
    char sql[SQL];
    fleet f;
    (void)state;
    fleet_begin(&f, "a lock that is kept");
    victim v = {f.url, SHORT_CLAIM_MS};
    tmp_child child = victim_start(&f, &v);
    snprintf(sql, sizeof sql,
             "SELECT l.pid FROM pg_locks l WHERE l.locktype = 'advisory' AND l.objid <> %lld",
             (long long)f.members[0].node);
    pid_t pid = (pid_t)number(&f, sql);
    assert_int_equal(kill(pid, SIGSTOP), 0);
    tmp_kill(&child);
    assert_in_range(await_death_ms(), SHORT_CLAIM_MS / 2, INT32_MAX);
    assert_int_equal(kill(pid, SIGCONT), 0);
    TMP_AWAIT(number(&f, "SELECT count(*) FROM pawl.runs WHERE phase = 1") == f.started);
    fleet_end(&f);
}

int main(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_is_noticed_at_once),
        cmocka_unit_test(a_lock_that_is_kept_is_no_sign_of_life),
        cmocka_unit_test(a_session_that_ends_at_one_side_closes_no_node),
        cmocka_unit_test(a_session_that_hangs_closes_no_node),
        cmocka_unit_test(a_node_that_is_cut_off_begins_nothing),
        cmocka_unit_test(resets_of_a_lock_close_no_node),
        cmocka_unit_test(resets_of_a_node_close_no_node),
        cmocka_unit_test(resets_of_all_nodes_close_no_node),
        cmocka_unit_test(crashes_and_restarts_close_no_node),
    };
    char pattern[SQL];
    const char *wanted = getenv("PAWL_TEST_CASE");
    snprintf(pattern, sizeof pattern, "*%s*", wanted ? wanted : "");
    cmocka_set_test_filter(pattern);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
