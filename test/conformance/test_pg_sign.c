/* Death by lock: what signs, locks and heartbeats have to say before a node is closed, and what
 * keeps a live node from it. The clock of the nodes is moved by the test, the locks and their
 * sessions are real; nodes are judged look by look.
 *
 * Would be missed: a live node that is closed because a session was reset, at one end or both,
 * because the server has crashed or was restarted, or because a standby was promoted (A1, A10); a
 * dead node whose child keeps its lock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/notifier.h"
#include "rows/node_sign.h"
#include "support/conf.h"
#include "support/pgbouncer.h"

enum { CLAIM_MS = 60000, LATE_MS = CLAIM_MS / 2 + 1, BEATS = 20 };

/* ---- Engines, as in test_node_rows.c, with the notifier that has the lock ---- */

typedef struct engine {
    db_fault plan; /* gives the time of the test as the server's */
    db *db;
    db_clock clock;
    committer *k;
    db_conn *conn; /* for beats and looks */
    notifier *notifier;
    _Atomic int64_t server; /* what the notifier said of the lock last */
    node node;
    sign_looks looks;
} engine;

static void note_lock(void *arg, int64_t server)
{
    atomic_store(&((engine *)arg)->server, server);
}

static void lock(engine *e)
{
    error err = {0};
    notifier_options o = {.node = e->node.id, .on_lock = note_lock, .on_lock_arg = e};
    CONF_OK(notifier_open(&e->notifier, e->db, &o, &err), &err);
    TMP_AWAIT(atomic_load(&e->server) != 0);
}

static void beat(engine *e)
{
    error err = {0};
    CONF_OK(node_beat(&e->node, e->conn, &err), &err);
}

static void engine_open(engine *e, const conf *c, clock_fake *clock)
{
    memset(e, 0, sizeof *e);
    error err = {0};
    node_options o = {.slots = 1};
    db_options options = {.clock = clock_fake_source(clock), .claim_ms = CLAIM_MS};
    e->plan.clock = options.clock;
    e->db = conf_open_fault(c, &options, &e->plan);
    e->k = conf_committer(e->db, NULL);
    e->conn = conf_connect(e->db, DB_COMMITTER);
    db_clock_init(&e->clock, e->db);
    CONF_OK(node_join(&e->node, e->k, e->conn, &e->clock, &o, &err), &err);
    committer_set_node(e->k, e->node.id, 1, e->node.token);
}

static void engine_close(engine *e)
{
    notifier_close(e->notifier);
    committer_close(e->k);
    db_disconnect(e->conn);
    db_clock_free(&e->clock);
    node_leave(&e->node);
    db_close(e->db);
}

/* ---- The scene: one node that looks at another one, which has a lock and a sign ---- */

typedef struct scene {
    clock_fake *clock;
    engine looker;
    engine other;
} scene;

static void scene_open(scene *v, const conf *c)
{
    v->clock = clock_fake_new(1000000);
    engine_open(&v->looker, c, v->clock);
    engine_open(&v->other, c, v->clock);
    lock(&v->other);
    node_tell_lock(&v->other.node, atomic_load(&v->other.server));
    beat(&v->other);
}

static void scene_close(scene *v)
{
    engine_close(&v->other);
    engine_close(&v->looker);
    clock_fake_free(v->clock);
}

static int64_t signs(scene *v)
{
    static const db_sql COUNT = {"SELECT count(*) FROM {signs}", ""};
    return conf_number(v->looker.db, &COUNT, NULL, 0);
}

static void await_unlocked(scene *v)
{
    static const db_sql LOCKS = {"SELECT count(*) FROM {NODE_LOCKS} l WHERE l.node = $1", "i"};
    TMP_AWAIT(conf_number(v->looker.db, &LOCKS, VALUES(db_int(v->other.node.id))) == 0);
}

/* The session with the lock ends; its node hears nothing of it. */
static void lose_lock(scene *v)
{
    notifier_close(v->other.notifier);
    v->other.notifier = NULL;
    await_unlocked(v);
}

static void pass_ms(scene *v, int64_t ms)
{
    clock_fake_advance(v->clock, ms);
}

static int64_t now_ns(scene *v)
{
    clock_source *clock = clock_fake_source(v->clock);
    return clock->mono_ns(clock);
}

typedef enum { UNSUSPECTED, SUSPECTED, DEAD } verdict;

static verdict look(scene *v)
{
    error err = {0};
    engine *e = &v->looker;
    CONF_OK(node_sign_look(&e->looks, &e->node, e->conn, now_ns(v), &err), &err);
    assert_in_range(e->looks.count, 0, 1);
    if (e->looks.count == 0)
        return UNSUSPECTED;
    assert_int_equal(e->looks.at[0].node, v->other.node.id);
    return e->looks.at[0].dead ? DEAD : SUSPECTED;
}

/* Looks as often as a node does, for so long. */
static verdict look_for(scene *v, int64_t ms)
{
    verdict worst = UNSUSPECTED;
    for (int64_t passed = 0; passed < ms && worst < DEAD; passed += 50) {
        verdict seen = look(v);
        worst = seen > worst ? seen : worst;
        pass_ms(v, 50);
    }
    return worst;
}

/* ---- What a death takes ---- */

static void a_death_is_seen_by_two_looks(conf *c)
{
    scene v;
    scene_open(&v, c);
    assert_int_equal(look(&v), UNSUSPECTED);
    lose_lock(&v);
    pass_ms(&v, 2 * SIGN_SILENT_MS);
    assert_int_equal(look(&v), SUSPECTED);
    assert_int_equal(v.looker.looks.next_ns, now_ns(&v) + SIGN_LOOKS_MS * INT64_C(1000000));
    pass_ms(&v, SIGN_LOOKS_MS - 1);
    assert_int_equal(look(&v), SUSPECTED);
    pass_ms(&v, 1);
    assert_int_equal(look(&v), DEAD);
    error err = {0};
    assert_int_equal(node_sign_close(&v.looker.looks.at[0], v.looker.k, &err), PAWL_OK);
    assert_int_equal(signs(&v), 0);
    assert_int_equal(node_beat(&v.other.node, v.other.conn, &err), PAWL_FENCED);
    pass_ms(&v, 1000);
    assert_int_equal(look(&v), UNSUSPECTED);
    scene_close(&v);
}

/* The lock has gone, and the node was not silent for long: it may live, and know of nothing. */
static void a_node_has_time_to_send_a_heartbeat(conf *c)
{
    scene v;
    scene_open(&v, c);
    lose_lock(&v);
    pass_ms(&v, SIGN_LOOKS_MS);
    assert_int_equal(look(&v), SUSPECTED);
    assert_in_range(v.looker.looks.next_ns - now_ns(&v), 1, SIGN_SILENT_MS * INT64_C(1000000));
    pass_ms(&v, SIGN_SILENT_MS - SIGN_LOOKS_MS - 1);
    assert_int_equal(look(&v), SUSPECTED);
    pass_ms(&v, 1);
    assert_int_equal(look(&v), DEAD);
    scene_close(&v);
}

/* ---- What is no death ---- */

static void a_node_with_its_lock_is_left_alone(conf *c)
{
    scene v;
    scene_open(&v, c);
    assert_int_equal(look_for(&v, 5 * SIGN_SILENT_MS), UNSUSPECTED);
    scene_close(&v);
}

/* Its session was reset at the server and not at the node, which goes on sending heartbeats. */
static void a_node_that_sends_heartbeats_is_left_alone(conf *c)
{
    scene v;
    scene_open(&v, c);
    lose_lock(&v);
    for (int i = 0; i < BEATS; i++) {
        assert_int_equal(look_for(&v, SIGN_BEAT_MS), SUSPECTED);
        beat(&v.other);
    }
    assert_int_equal(signs(&v), 1);
    scene_close(&v);
}

static void a_heartbeat_after_both_looks_keeps_the_node(conf *c)
{
    scene v;
    error err = {0};
    scene_open(&v, c);
    lose_lock(&v);
    assert_int_equal(look_for(&v, 2 * SIGN_SILENT_MS), DEAD);
    beat(&v.other);
    assert_int_equal(node_sign_close(&v.looker.looks.at[0], v.looker.k, &err), PAWL_REFUSED);
    beat(&v.other);
    scene_close(&v);
}

/* The heartbeat between the looks has come late: they begin anew. */
static void a_heartbeat_between_the_looks_keeps_the_node(conf *c)
{
    scene v;
    scene_open(&v, c);
    lose_lock(&v);
    pass_ms(&v, 2 * SIGN_SILENT_MS);
    assert_int_equal(look(&v), SUSPECTED);
    pass_ms(&v, 100);
    beat(&v.other);
    pass_ms(&v, SIGN_SILENT_MS);
    assert_int_equal(look(&v), SUSPECTED);
    pass_ms(&v, SIGN_LOOKS_MS);
    assert_int_equal(look(&v), DEAD);
    scene_close(&v);
}

/* The node has noticed that its lock is gone; and then it has it again. */
static void a_node_that_has_lost_its_lock_deletes_its_sign(conf *c)
{
    scene v;
    scene_open(&v, c);
    lose_lock(&v);
    assert_int_equal(atomic_load(&v.other.server), 0);
    node_tell_lock(&v.other.node, 0);
    beat(&v.other);
    assert_int_equal(signs(&v), 0);
    assert_int_equal(look_for(&v, 5 * SIGN_SILENT_MS), UNSUSPECTED);
    lock(&v.other);
    node_tell_lock(&v.other.node, atomic_load(&v.other.server));
    beat(&v.other);
    assert_int_equal(signs(&v), 1);
    assert_int_equal(look_for(&v, 5 * SIGN_SILENT_MS), UNSUSPECTED);
    lose_lock(&v);
    assert_int_equal(look_for(&v, 5 * SIGN_SILENT_MS), DEAD);
    scene_close(&v);
}

/* A sign that was written under another start of the server, which has freed the lock. */
static void a_sign_of_an_earlier_start_of_the_server_is_ignored(conf *c)
{
    static const db_sql AGE = {"UPDATE {signs} SET started = started - 1", ""};
    scene v;
    scene_open(&v, c);
    lose_lock(&v);
    conf_do(v.looker.db, &AGE, NULL, 0);
    assert_int_equal(look_for(&v, 5 * SIGN_SILENT_MS), UNSUSPECTED);
    scene_close(&v);
}

/* An outage of the database, as far as the looking node can tell: it judges no other. */
static void a_node_whose_own_heartbeats_were_late_closes_no_other(conf *c)
{
    scene v;
    scene_open(&v, c);
    lose_lock(&v);
    pass_ms(&v, LATE_MS);
    assert_int_equal(look_for(&v, 2 * SIGN_SILENT_MS), UNSUSPECTED);
    beat(&v.looker);
    assert_int_equal(look_for(&v, 2 * SIGN_SILENT_MS), UNSUSPECTED);
    pass_ms(&v, LATE_MS - 4 * SIGN_SILENT_MS);
    beat(&v.looker);
    pass_ms(&v, 4 * SIGN_SILENT_MS);
    assert_int_equal(look_for(&v, 2 * SIGN_SILENT_MS), DEAD);
    scene_close(&v);
}

/* ---- Sessions and servers ---- */

/* The session of before may go on at the server when the node has lost it. */
static void two_sessions_of_a_node_share_the_lock(conf *c)
{
    scene v;
    scene_open(&v, c);
    notifier *before = v.other.notifier;
    atomic_store(&v.other.server, 0);
    lock(&v.other);
    notifier_close(before);
    assert_int_equal(look_for(&v, 2 * SIGN_SILENT_MS), UNSUSPECTED);
    lose_lock(&v);
    scene_close(&v);
}

/* An application that has just this lock, alone, costs the node its sign, and nothing else. */
static void a_lock_that_is_taken_is_not_waited_for(conf *c)
{
    static const db_sql TAKE = {
        "SELECT pg_advisory_xact_lock(number::int, $1::int) IS NULL FROM {meta}"
        " WHERE name = 'lock_class'",
        "i"};
    clock_fake *clock = clock_fake_new(1000000);
    engine e;
    error err = {0};
    engine_open(&e, c, clock);
    db_conn *app = conf_connect(e.db, DB_READER), *listener = conf_connect(e.db, DB_NOTIFIER);
    conf_begin(app);
    const db_value id = db_int(e.node.id);
    CONF_OK(db_run(app, &TAKE, &id, 1, &err), &err);
    int64_t server = 1;
    const db_channel *channel = &listener->driver->channel;
    CONF_OK(channel->lock_for_life(listener, e.node.id, &server, &err), &err);
    assert_int_equal(server, 0);
    db_rollback(app);
    CONF_OK(channel->lock_for_life(listener, e.node.id, &server, &err), &err);
    assert_true(server > 0);
    db_disconnect(app);
    db_disconnect(listener);
    engine_close(&e);
    clock_fake_free(clock);
}

/* The session with the lock is idle for as long as no other node has anything to tell. */
static void an_idle_session_keeps_its_lock(conf *c)
{
    static const db_sql SETTING = {
        "SELECT setting::int FROM pg_settings WHERE name = 'idle_session_timeout'", ""};
    char sql[160];
    error err = {0};
    if (pgserver_number(c->server, NULL, "SHOW server_version_num") < 140000)
        skip();
    db *d = conf_open(c, NULL);
    int64_t server = 0;
    snprintf(sql, sizeof sql, "ALTER DATABASE %s SET idle_session_timeout = 44000", c->database);
    pgserver_exec(c->server, NULL, sql);
    db_conn *listener = conf_connect(d, DB_NOTIFIER), *other = conf_connect(d, DB_READER);
    CONF_OK(listener->driver->channel.lock_for_life(listener, 77, &server, &err), &err);
    assert_true(server > 0);
    conf_begin(listener);
    assert_int_equal(conf_number_on(listener, &SETTING, NULL, 0), 0);
    db_rollback(listener);
    conf_begin(other);
    assert_int_equal(conf_number_on(other, &SETTING, NULL, 0), 44000);
    db_rollback(other);
    db_disconnect(other);
    db_disconnect(listener);
    db_close(d);
}

/* The process dies, and a child that it has forked lives on with copies of its sockets. */
typedef struct family {
    const conf *conf;
    int64_t *node;
    pid_t *child;
} family;

static void be_killed(int in, int out, void *arg)
{
    family *f = arg;
    engine *e = calloc(1, sizeof *e);
    db_options options = {.url = f->conf->url};
    notifier_options o = {.node = *f->node, .on_lock = note_lock, .on_lock_arg = e};
    error err = {0};
    TMP_CHECK(e && db_open(&e->db, &options, &err) == PAWL_OK);
    TMP_CHECK(notifier_open(&e->notifier, e->db, &o, &err) == PAWL_OK);
    TMP_CHECK(atomic_load(&e->server) != 0);
    pid_t child = fork();
    if (child == 0)
        for (;;)
            pause();
    *f->child = child;
    tmp_tell(out, 'l');
    (void)tmp_hear(in);
}

/* The process that dies is a child of this one, and its notifier has a thread. */
static void a_child_does_not_keep_the_lock(conf *c)
{
    scene v;
    if (tmp_under_tsan()) {
        printf("# skipped: ThreadSanitizer lets no child start a thread\n");
        skip();
    }
    scene_open(&v, c);
    lose_lock(&v);
    family *f = tmp_shared(sizeof *f + sizeof *f->node + sizeof *f->child);
    *f =
        (family){.conf = c, .node = (int64_t *)(f + 1), .child = (pid_t *)((int64_t *)(f + 1) + 1)};
    *f->node = v.other.node.id;
    tmp_child dies = tmp_fork(be_killed, f);
    tmp_expect(&dies, 'l');
    beat(&v.other);
    assert_int_equal(look_for(&v, 2 * SIGN_SILENT_MS), UNSUSPECTED);
    tmp_kill(&dies);
    assert_true(*f->child > 0);
    assert_int_equal(kill(*f->child, 0), 0);
    await_unlocked(&v);
    assert_int_equal(look_for(&v, 5 * SIGN_SILENT_MS), DEAD);
    kill(*f->child, SIGKILL);
    tmp_shared_free(f, sizeof *f + sizeof *f->node + sizeof *f->child);
    scene_close(&v);
}

/* A crash frees all locks, and the server begins anew with the same start time. */
static void a_crash_of_the_server_deletes_all_signs(conf *c)
{
    char sql[160];
    scene v;
    scene_open(&v, c);
    int64_t before = atomic_load(&v.other.server);
    lose_lock(&v);
    assert_int_equal(signs(&v), 1);
    snprintf(sql, sizeof sql,
             "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend'"
             " AND datname = '%s' LIMIT 1",
             c->database);
    assert_int_equal(kill((pid_t)pgserver_number(c->server, NULL, sql), SIGKILL), 0);
    error err = {0};
    db_conn *conn = NULL;
    TMP_AWAIT(db_connect(v.looker.db, DB_READER, &conn, &err) == PAWL_OK &&
              db_begin(conn, &err) == PAWL_OK);
    db_rollback(conn);
    db_disconnect(conn);
    TMP_AWAIT(node_beat(&v.looker.node, v.looker.conn, &err) == PAWL_OK);
    assert_int_equal(signs(&v), 0);
    assert_int_equal(look_for(&v, 5 * SIGN_SILENT_MS), UNSUSPECTED);
    lock(&v.other);
    assert_int_equal(atomic_load(&v.other.server), before);
    TMP_AWAIT(node_beat(&v.other.node, v.other.conn, &err) == PAWL_OK);
    scene_close(&v);
}

static void after_a_restart_of_the_server_old_signs_are_ignored(conf *c)
{
    scene v;
    scene_open(&v, c);
    int64_t before = atomic_load(&v.other.server);
    lose_lock(&v);
    pgserver_restart(c->server);
    error err = {0};
    TMP_AWAIT(node_beat(&v.looker.node, v.looker.conn, &err) == PAWL_OK);
    assert_int_equal(signs(&v), 1); /* it was stopped in good order */
    assert_int_equal(look_for(&v, 5 * SIGN_SILENT_MS), UNSUSPECTED);
    atomic_store(&v.other.server, 0);
    lock(&v.other);
    assert_int_not_equal(atomic_load(&v.other.server), before);
    scene_close(&v);
}

static void a_standby_that_is_promoted_has_no_signs(conf *c)
{
    static const char SIGN[] = "INSERT INTO pawl.signs (node, started) VALUES (77, 1)";
    char applied[160];
    db *d = conf_open(c, NULL);
    pgserver_exec(c->server, c->database, SIGN);
    pgserver *standby = pgserver_follow(c->server);
    snprintf(applied, sizeof applied,
             "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn - '0/0'::pg_lsn >= %lld",
             (long long)pgserver_number(
                 c->server, NULL, "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint"));
    TMP_AWAIT(pgserver_number(c->server, NULL, applied) > 0);
    pgserver_exec(standby, NULL, "SELECT pg_promote()");
    assert_int_equal(pgserver_number(standby, c->database, "SELECT count(*) FROM pawl.signs"), 0);
    assert_int_equal(pgserver_number(c->server, c->database, "SELECT count(*) FROM pawl.signs"), 1);
    pgserver_free(standby);
    db_close(d);
}

/* A transaction pooler would lose the lock of a live node, and keep that of a dead one. */
static void behind_a_pooler_no_lock_is_taken(conf *c)
{
    char url[2 * PGSERVER_URL];
    pgbouncer_need();
    pgbouncer *b = pgbouncer_start(c->server, (const char *const[]){"default_pool_size = 2", NULL});
    pgbouncer_url(b, c->database, url);
    error err = {0};
    db *d = NULL;
    assert_int_equal(db_open(&d, &(db_options){.url = url}, &err), PAWL_POOLER);
    size_t used = strlen(url);
    snprintf(url + used, sizeof url - used, "&pooler=transaction");
    CONF_OK(db_open(&d, &(db_options){.url = url}, &err), &err);
    db_conn *listener = conf_connect(d, DB_NOTIFIER);
    int64_t server = 1;
    CONF_OK(listener->driver->channel.lock_for_life(listener, 77, &server, &err), &err);
    assert_int_equal(server, 0);
    db_disconnect(listener);
    db_close(d);
    pgbouncer_free(b);
}

static const conf_case CASES[] = {
    {"a death is seen by two looks", a_death_is_seen_by_two_looks, 0},
    {"a node has time to send a heartbeat", a_node_has_time_to_send_a_heartbeat, 0},
    {"a node with its lock is left alone", a_node_with_its_lock_is_left_alone, 0},
    {"a node that sends heartbeats is left alone", a_node_that_sends_heartbeats_is_left_alone, 0},
    {"a heartbeat after both looks keeps the node", a_heartbeat_after_both_looks_keeps_the_node, 0},
    {"a heartbeat between the looks keeps the node", a_heartbeat_between_the_looks_keeps_the_node,
     0},
    {"a node that has lost its lock deletes its sign",
     a_node_that_has_lost_its_lock_deletes_its_sign, 0},
    {"a sign of an earlier start of the server is ignored",
     a_sign_of_an_earlier_start_of_the_server_is_ignored, 0},
    {"a node whose own heartbeats were late closes no other",
     a_node_whose_own_heartbeats_were_late_closes_no_other, 0},
    {"two sessions of a node share the lock", two_sessions_of_a_node_share_the_lock, 0},
    {"a lock that is taken is not waited for", a_lock_that_is_taken_is_not_waited_for, 0},
    {"an idle session keeps its lock", an_idle_session_keeps_its_lock, 0},
    {"a child does not keep the lock", a_child_does_not_keep_the_lock, 0},
    {"a crash of the server deletes all signs", a_crash_of_the_server_deletes_all_signs, 0},
    {"after a restart of the server old signs are ignored",
     after_a_restart_of_the_server_old_signs_are_ignored, 0},
    {"a standby that is promoted has no signs", a_standby_that_is_promoted_has_no_signs, 0},
    {"behind a pooler no lock is taken", behind_a_pooler_no_lock_is_taken, 0},
};

int main(void)
{
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
