/* L8: the database may go back. A database that is restored under an engine which uses it lacks
 * what that engine was told is durable. It has to notice before it writes, say so, and begin anew:
 * otherwise journals get holes, runs stay without an owner, and numbers are given out twice.
 *
 * What is done inside a work function ("backup", "restore") happens at a known place in a run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "db/key_block.h"
#include "handle/handle.h"
#include "sched/sched.h"
#include "support/backup.h"
#include "support/engine_fixture.h"
#include "support/served_fixture.h"

enum { CLAIM_MS = 60000 };

/* The test's own, for work functions and logs: one case runs at a time. */
typedef struct restore_fixture {
    const conf *conf;
    engine_fixture *fixture;
    atomic_int restored;   /* once is enough */
    _Atomic(pawl *) other; /* another process, as it were */
} restore_fixture;

static restore_fixture test;

static void note_log(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "database-went-back") == 0)
        atomic_fetch_add((atomic_int *)arg, 1);
}

static pawl *open_by_hand(engine_fixture *s, atomic_int *noticed)
{
    pawl_options o = {
        .size = sizeof o, .threads = -1, .claim_ms = CLAIM_MS, .log = note_log, .log_arg = noticed};
    return fixture_open(s, &o);
}

/* ---- Work ---- */

static const char *note(pawl_work *work, const char *input)
{
    (void)work;
    fixture_note(test.fixture, "%s", input);
    return input;
}

static const char *take(pawl_work *work, const char *input)
{
    if (!atomic_load(&test.restored))
        backup_take(test.conf);
    return note(work, input);
}

static const char *restore(pawl_work *work, const char *input)
{
    if (!atomic_exchange(&test.restored, 1))
        backup_restore(test.conf);
    return note(work, input);
}

/* ---- Workflows ---- */

static const char *walk(pawl_run *run, const char *input)
{
    (void)input;
    pawl_step(run, "one", note, "1", NULL);
    pawl_step(run, "backup", take, "2", NULL);
    pawl_step(run, "three", note, "3", NULL);
    pawl_step(run, "restore", restore, "4", NULL);
    return pawl_step(run, "five", note, "5", NULL);
}

/* The restore is the last thing that it does: what follows is its end, which is no row. */
static const char *walk_to_the_end(pawl_run *run, const char *input)
{
    (void)input;
    pawl_step(run, "backup", take, "1", NULL);
    pawl_step(run, "two", note, "2", NULL);
    return pawl_step(run, "restore", restore, "3", NULL);
}

static const char *waits(pawl_run *run, const char *input)
{
    (void)input;
    pawl_step(run, "first", note, "1", NULL);
    const char *message;
    pawl_receive(run, "mail", PAWL_FOREVER, &message);
    return pawl_step(run, "last", note, "2", NULL);
}

/* Another process deletes it while it is in its second step, after the first is recorded. */
static const char *deleted(pawl_work *work, const char *input)
{
    if (atomic_load(&test.other)) {
        FIXTURE_CODE(test.fixture, test.other, pawl_delete(test.other, "r", 1), PAWL_OK);
        atomic_store(&test.other, NULL);
    }
    return note(work, input);
}

static const char *pauses(pawl_run *run, const char *input)
{
    (void)input;
    pawl_step(run, "first", note, "1", NULL);
    return pawl_step(run, "deleted", deleted, "2", NULL);
}

static void begin(conf *c)
{
    test = (restore_fixture){.conf = c, .fixture = fixture_new(c)};
}

static void send(pawl *p, const char *key)
{
    FIXTURE_CODE(test.fixture, p, pawl_send(p, "r", "mail", "true", PAWL_SEND(.key = key)),
                 PAWL_OK);
}

static int64_t count(pawl *p, const char *text)
{
    db_sql sql = {text, ""};
    return conf_number(handle_db(p), &sql, NULL, 0);
}

/* ---- Cases ---- */

static void what_was_lost_is_executed_again(conf *c)
{
    begin(c);
    atomic_int noticed = 0;
    pawl *p = open_by_hand(test.fixture, &noticed);
    FIXTURE_REGISTER(test.fixture, p, walk);
    fixture_start(test.fixture, p, "walk", "r", "null");
    FIXTURE_DONE(test.fixture, p, "r", "5");
    FIXTURE_HISTORY(test.fixture, p, "r", "step:one step:backup step:three step:restore step:five");
    FIXTURE_NOTES(test.fixture, "1 2 3 4 2 3 4 5");
    assert_int_equal(noticed, 1);
    pawl_close(p);
    fixture_free(test.fixture);
}

static void no_run_ends_with_a_hole(conf *c)
{
    begin(c);
    atomic_int noticed = 0;
    pawl *p = open_by_hand(test.fixture, &noticed);
    FIXTURE_REGISTER(test.fixture, p, walk_to_the_end);
    fixture_start(test.fixture, p, "walk_to_the_end", "r", "null");
    FIXTURE_DONE(test.fixture, p, "r", "3");
    FIXTURE_HISTORY(test.fixture, p, "r", "step:backup step:two step:restore");
    assert_int_equal(noticed, 1);
    pawl_close(p);
    fixture_free(test.fixture);
}

static void a_rewind_under_threads(conf *c)
{
    atomic_int noticed = 0;
    pawl_options o = {.size = sizeof o, .threads = 2, .log = note_log, .log_arg = &noticed};
    test = (restore_fixture){.conf = c};
    served_fixture v = served_open(c, &o);
    test.fixture = v.fixture;
    FIXTURE_REGISTER(v.fixture, v.p, walk);
    FIXTURE_REGISTER(v.fixture, v.p, waits);
    served_begin(&v);
    fixture_start(v.fixture, v.p, "waits", "r", "null");
    fixture_start(v.fixture, v.p, "walk", "w", "null");
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "w", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_HISTORY(v.fixture, v.p, "w", "step:one step:backup step:three step:restore step:five");
    send(v.p, "k");
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "r", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(noticed, 1);
    served_end(&v);
}

/* Nothing is asked of it. The run that it had ended is live again, and no other node's. */
static void an_idle_node_notices(conf *c)
{
    begin(c);
    atomic_int noticed = 0;
    pawl *p = open_by_hand(test.fixture, &noticed);
    FIXTURE_REGISTER(test.fixture, p, waits);
    fixture_start(test.fixture, p, "waits", "r", "null");
    FIXTURE_UNTIL(test.fixture, p, fixture_count(test.fixture, "1") == 1);
    backup_take(c);
    send(p, "k");
    FIXTURE_DONE(test.fixture, p, "r", "2");
    backup_restore(c);
    int64_t then = fixture_now(test.fixture);
    FIXTURE_UNTIL(test.fixture, p, atomic_load(&noticed) == 1);
    FIXTURE_CHECK(test.fixture, fixture_now(test.fixture) - then <= 2000);
    send(p, "k");
    FIXTURE_DONE(test.fixture, p, "r", "2");
    FIXTURE_CHECK(test.fixture,
                  fixture_now(test.fixture) - then <= 4000); /* a claim lasts a minute */
    FIXTURE_HISTORY(test.fixture, p, "r", "step:first receive:mail message step:last");
    FIXTURE_NOTES(test.fixture, "1 2 2");
    pawl_close(p);
    fixture_free(test.fixture);
}

/* The counter of nodes has gone back too: both are given the same number, where no lock of this
 * host is in the way. What the old one has in memory must not get into what the new one does. */
static void another_one_joins_before_it_has_noticed(conf *c)
{
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *p = open_by_hand(test.fixture, &noticed[0]);
    FIXTURE_REGISTER(test.fixture, p, waits);
    fixture_start(test.fixture, p, "waits", "r", "null");
    backup_take(c);
    FIXTURE_UNTIL(test.fixture, p, fixture_count(test.fixture, "1") == 1);
    backup_restore(c);
    pawl *q = open_by_hand(test.fixture, &noticed[1]);
    FIXTURE_REGISTER(test.fixture, q, waits);
    if (!fixture_serves()) /* the first poll passes over the id that p has, and is not busy */
        FIXTURE_CODE(test.fixture, q, pawl_poll(q, NULL), PAWL_OK);
    FIXTURE_UNTIL(test.fixture, q, fixture_count(test.fixture, "1") == 2);
    FIXTURE_CODE(test.fixture, p, pawl_send(p, "r", "mail", "false", NULL), PAWL_REWOUND);
    fixture_poll(test.fixture, p);
    FIXTURE_HISTORY(test.fixture, q, "r", "step:first receive:mail");
    send(q, "k");
    FIXTURE_DONE(test.fixture, q, "r", "2");
    FIXTURE_HISTORY(test.fixture, q, "r", "step:first receive:mail message step:last");
    FIXTURE_NOTES(test.fixture, "1 1 2");
    assert_int_equal(noticed[0], 1);
    assert_int_equal(noticed[1], 0);
    fixture_start(test.fixture, p, "waits", "r2", "null"); /* it has begun anew */
    FIXTURE_UNTIL(test.fixture, p, fixture_count(test.fixture, "1") == 3);
    assert_int_equal(count(q, "SELECT count(DISTINCT node) FROM {nodes} WHERE closed = 0"), 2);
    pawl_close(p);
    pawl_close(q);
    fixture_free(test.fixture);
}

/* Both have taken the same block of keys, each in a world of its own. */
static void a_client_throws_its_keys_away(conf *c)
{
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *p = open_by_hand(test.fixture, &noticed[0]);
    backup_take(c);
    fixture_start(test.fixture, p, "waits", "lost", "null");
    backup_restore(c);
    pawl *q = open_by_hand(test.fixture, &noticed[1]);
    fixture_start(test.fixture, q, "waits", "q1", "null");
    FIXTURE_CODE(test.fixture, p, pawl_start(p, "waits", "p1", "null", NULL), PAWL_REWOUND);
    fixture_start(test.fixture, p, "waits", "p1", "null");
    fixture_start(test.fixture, q, "waits", "q2", "null");
    fixture_start(test.fixture, q, "waits", "q3", "null");
    assert_int_equal(count(q, "SELECT count(*) FROM {runs}"), 4);
    assert_int_equal(count(q, "SELECT max(run) - min(run) FROM {runs}"), KEYS_BLOCK);
    assert_int_equal(noticed[0], 1);
    assert_int_equal(noticed[1], 0);
    pawl_close(p);
    pawl_close(q);
    fixture_free(test.fixture);
}

/* The last thing that it has recorded goes with the run, by another process: nothing went back. */
static void a_deleted_run_is_no_rewind(conf *c)
{
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *p = open_by_hand(test.fixture, &noticed[0]);
    pawl *q = open_by_hand(test.fixture, &noticed[1]);
    FIXTURE_REGISTER(test.fixture, p, pauses);
    fixture_start(test.fixture, p, "pauses", "r", "null");
    atomic_store(&test.other, q);
    FIXTURE_UNTIL(test.fixture, p, fixture_count(test.fixture, "2") == 1);
    fixture_start(test.fixture, p, "pauses", "r2", "null");
    FIXTURE_DONE(test.fixture, p, "r2", "2");
    assert_int_equal(noticed[0] + noticed[1], 0);
    pawl_close(p);
    pawl_close(q);
    fixture_free(test.fixture);
}

/* Of the one that has lost nothing, the last heartbeat that is there now is old. */
static void a_rewind_closes_no_live_node(conf *c)
{
    FIXTURE_BY_HAND();
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *p = open_by_hand(test.fixture, &noticed[0]);
    pawl *q = open_by_hand(test.fixture, &noticed[1]);
    fixture_poll(test.fixture, p);
    fixture_poll(test.fixture, q);
    backup_take(c);
    fixture_start(test.fixture, p, "waits", "lost", "null");
    fixture_advance(test.fixture, CLAIM_MS + 1000);
    backup_restore(c);
    FIXTURE_UNTIL(test.fixture, p, noticed[0] == 1);
    for (int i = 0; i < 5; i++)
        fixture_poll(test.fixture, p); /* it is a new node, and looks */
    fixture_poll(test.fixture, q);
    assert_int_equal(count(q, "SELECT count(DISTINCT node) FROM {nodes} WHERE closed = 1"), 0);
    assert_int_equal(noticed[1], 0);
    pawl_close(p);
    pawl_close(q);
    fixture_free(test.fixture);
}

/* A look that proves nothing has found a closed row of its number first: that is another one's. */
static void a_rewind_is_not_taken_for_a_closed_node(conf *c)
{
    begin(c);
    atomic_int noticed = 0;
    pawl *p = open_by_hand(test.fixture, &noticed);
    FIXTURE_REGISTER(test.fixture, p, waits);
    backup_take(c);
    fixture_start(test.fixture, p, "waits", "r", "null");
    FIXTURE_UNTIL(test.fixture, p, fixture_count(test.fixture, "1") == 1);
    backup_restore(c);
    sched_test_fence(handle_sched(p));
    fixture_poll(test.fixture, p);
    assert_int_equal(noticed, 1);
    pawl_close(p);
    fixture_free(test.fixture);
}

/* An engine that has lost nothing itself throws its keys away too, when it hears of it. */
static void a_new_history_makes_other_engines_drop_their_keys(conf *c)
{
    FIXTURE_BY_HAND(); /* on a server, threads of q would commit heartbeats and lose them */
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *q = open_by_hand(test.fixture, &noticed[1]);
    fixture_start(test.fixture, q, "waits", "q1", "null");
    fixture_poll(test.fixture, q);
    pawl *p = open_by_hand(test.fixture, &noticed[0]);
    backup_take(c);
    int64_t before = count(q, "SELECT number FROM {meta} WHERE name = 'history'");
    fixture_start(test.fixture, p, "waits", "lost", "null");
    backup_restore(c);
    FIXTURE_CODE(test.fixture, p, pawl_start(p, "waits", "p1", "null", NULL), PAWL_REWOUND);
    fixture_start(test.fixture, p, "waits", "p1", "null");
    assert_int_not_equal(count(q, "SELECT number FROM {meta} WHERE name = 'history'"), before);
    fixture_advance(test.fixture, 2000);
    fixture_poll(test.fixture, q);
    fixture_start(test.fixture, q, "waits", "q2", "null");
    assert_in_range(count(q, "SELECT run FROM {runs} WHERE id = 'q2'"), KEYS_BLOCK, INT64_MAX);
    assert_int_equal(noticed[1], 0);
    pawl_close(p);
    pawl_close(q);
    fixture_free(test.fixture);
}

static const conf_case CASES[] = {
    {"what was lost is executed again", what_was_lost_is_executed_again, DB_SHARED},
    {"no run ends with a hole", no_run_ends_with_a_hole, DB_SHARED},
    {"a rewind under threads", a_rewind_under_threads, DB_SHARED},
    {"an idle node notices", an_idle_node_notices, DB_SHARED},
    {"another one joins before it has noticed", another_one_joins_before_it_has_noticed, DB_SHARED},
    {"a client throws its keys away", a_client_throws_its_keys_away, DB_SHARED},
    {"a deleted run is no rewind", a_deleted_run_is_no_rewind, DB_SHARED},
    {"a rewind closes no live node", a_rewind_closes_no_live_node, DB_SHARED},
    {"a rewind is not taken for a closed node", a_rewind_is_not_taken_for_a_closed_node, DB_SHARED},
    {"a new history makes other engines drop their keys",
     a_new_history_makes_other_engines_drop_their_keys, DB_SHARED},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
