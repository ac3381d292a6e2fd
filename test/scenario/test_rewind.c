/* L8: the world may go back. A database that is restored under an engine which uses it lacks what
 * that engine was told is durable. It has to notice before it writes, say so, and begin anew:
 * otherwise journals get holes, runs stay with nobody, and numbers are given out twice.
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
typedef struct world {
    const conf *conf;
    stage *stage;
    atomic_int restored;   /* once is enough */
    _Atomic(pawl *) other; /* another process, as it were */
} world;

static world ground;

static void note_log(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "database-went-back") == 0)
        atomic_fetch_add((atomic_int *)arg, 1);
}

static pawl *open_by_hand(stage *s, atomic_int *noticed)
{
    pawl_options o = {
        .size = sizeof o, .threads = -1, .claim_ms = CLAIM_MS, .log = note_log, .log_arg = noticed};
    return stage_open(s, &o);
}

/* ---- Work ---- */

static const char *note(pawl_work *work, const char *input)
{
    (void)work;
    stage_note(ground.stage, "%s", input);
    return input;
}

static const char *take(pawl_work *work, const char *input)
{
    if (!atomic_load(&ground.restored))
        backup_take(ground.conf);
    return note(work, input);
}

static const char *restore(pawl_work *work, const char *input)
{
    if (!atomic_exchange(&ground.restored, 1))
        backup_restore(ground.conf);
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
    if (atomic_load(&ground.other)) {
        STAGE_CODE(ground.stage, ground.other, pawl_delete(ground.other, "r", 1), PAWL_OK);
        atomic_store(&ground.other, NULL);
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
    ground = (world){.conf = c, .stage = stage_new(c)};
}

static void send(pawl *p, const char *key)
{
    STAGE_CODE(ground.stage, p, pawl_send(p, "r", "mail", "true", PAWL_SEND(.key = key)), PAWL_OK);
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
    pawl *p = open_by_hand(ground.stage, &noticed);
    STAGE_REGISTER(ground.stage, p, walk);
    stage_start(ground.stage, p, "walk", "r", "null");
    STAGE_DONE(ground.stage, p, "r", "5");
    STAGE_HISTORY(ground.stage, p, "r", "step:one step:backup step:three step:restore step:five");
    STAGE_NOTES(ground.stage, "1 2 3 4 2 3 4 5");
    assert_int_equal(noticed, 1);
    pawl_close(p);
    stage_free(ground.stage);
}

static void no_run_ends_with_a_hole(conf *c)
{
    begin(c);
    atomic_int noticed = 0;
    pawl *p = open_by_hand(ground.stage, &noticed);
    STAGE_REGISTER(ground.stage, p, walk_to_the_end);
    stage_start(ground.stage, p, "walk_to_the_end", "r", "null");
    STAGE_DONE(ground.stage, p, "r", "3");
    STAGE_HISTORY(ground.stage, p, "r", "step:backup step:two step:restore");
    assert_int_equal(noticed, 1);
    pawl_close(p);
    stage_free(ground.stage);
}

static void under_threads(conf *c)
{
    atomic_int noticed = 0;
    pawl_options o = {.size = sizeof o, .threads = 2, .log = note_log, .log_arg = &noticed};
    ground = (world){.conf = c};
    served v = served_open(c, &o);
    ground.stage = v.stage;
    STAGE_REGISTER(v.stage, v.p, walk);
    STAGE_REGISTER(v.stage, v.p, waits);
    served_begin(&v);
    stage_start(v.stage, v.p, "waits", "r", "null");
    stage_start(v.stage, v.p, "walk", "w", "null");
    STAGE_CODE(v.stage, v.p, pawl_wait(v.p, "w", PAWL_FOREVER, NULL), PAWL_OK);
    STAGE_HISTORY(v.stage, v.p, "w", "step:one step:backup step:three step:restore step:five");
    send(v.p, "k");
    STAGE_CODE(v.stage, v.p, pawl_wait(v.p, "r", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(noticed, 1);
    served_end(&v);
}

/* Nothing is asked of it. The run that it had ended is live again, and nobody else's. */
static void an_idle_node_notices(conf *c)
{
    begin(c);
    atomic_int noticed = 0;
    pawl *p = open_by_hand(ground.stage, &noticed);
    STAGE_REGISTER(ground.stage, p, waits);
    stage_start(ground.stage, p, "waits", "r", "null");
    STAGE_UNTIL(ground.stage, p, stage_count(ground.stage, "1") == 1);
    backup_take(c);
    send(p, "k");
    STAGE_DONE(ground.stage, p, "r", "2");
    backup_restore(c);
    int64_t then = stage_now(ground.stage);
    STAGE_UNTIL(ground.stage, p, atomic_load(&noticed) == 1);
    STAGE_CHECK(ground.stage, stage_now(ground.stage) - then <= 2000);
    send(p, "k");
    STAGE_DONE(ground.stage, p, "r", "2");
    STAGE_CHECK(ground.stage, stage_now(ground.stage) - then <= 4000); /* a claim lasts a minute */
    STAGE_HISTORY(ground.stage, p, "r", "step:first receive:mail message step:last");
    STAGE_NOTES(ground.stage, "1 2 2");
    pawl_close(p);
    stage_free(ground.stage);
}

/* The counter of nodes has gone back too: both are given the same number, where no lock of this
 * host is in the way. What the old one has in memory must not get into what the new one does. */
static void another_one_joins_before_it_has_noticed(conf *c)
{
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *p = open_by_hand(ground.stage, &noticed[0]);
    STAGE_REGISTER(ground.stage, p, waits);
    stage_start(ground.stage, p, "waits", "r", "null");
    backup_take(c);
    STAGE_UNTIL(ground.stage, p, stage_count(ground.stage, "1") == 1);
    backup_restore(c);
    pawl *q = open_by_hand(ground.stage, &noticed[1]);
    STAGE_REGISTER(ground.stage, q, waits);
    STAGE_UNTIL(ground.stage, q, stage_count(ground.stage, "1") == 2);
    STAGE_CODE(ground.stage, p, pawl_send(p, "r", "mail", "false", NULL), PAWL_REWOUND);
    stage_poll(ground.stage, p);
    STAGE_HISTORY(ground.stage, q, "r", "step:first receive:mail");
    send(q, "k");
    STAGE_DONE(ground.stage, q, "r", "2");
    STAGE_HISTORY(ground.stage, q, "r", "step:first receive:mail message step:last");
    STAGE_NOTES(ground.stage, "1 1 2");
    assert_int_equal(noticed[0], 1);
    assert_int_equal(noticed[1], 0);
    stage_start(ground.stage, p, "waits", "r2", "null"); /* it has begun anew */
    STAGE_UNTIL(ground.stage, p, stage_count(ground.stage, "1") == 3);
    assert_int_equal(count(q, "SELECT count(DISTINCT node) FROM {nodes} WHERE closed = 0"), 2);
    pawl_close(p);
    pawl_close(q);
    stage_free(ground.stage);
}

/* Both have taken the same block of keys, each in a world of its own. */
static void a_client_throws_its_keys_away(conf *c)
{
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *p = open_by_hand(ground.stage, &noticed[0]);
    backup_take(c);
    stage_start(ground.stage, p, "waits", "lost", "null");
    backup_restore(c);
    pawl *q = open_by_hand(ground.stage, &noticed[1]);
    stage_start(ground.stage, q, "waits", "q1", "null");
    STAGE_CODE(ground.stage, p, pawl_start(p, "waits", "p1", "null", NULL), PAWL_REWOUND);
    stage_start(ground.stage, p, "waits", "p1", "null");
    stage_start(ground.stage, q, "waits", "q2", "null");
    stage_start(ground.stage, q, "waits", "q3", "null");
    assert_int_equal(count(q, "SELECT count(*) FROM {runs}"), 4);
    assert_int_equal(count(q, "SELECT max(run) - min(run) FROM {runs}"), KEYS_BLOCK);
    assert_int_equal(noticed[0], 1);
    assert_int_equal(noticed[1], 0);
    pawl_close(p);
    pawl_close(q);
    stage_free(ground.stage);
}

/* The last thing that it has recorded goes with the run, by another process: nothing went back. */
static void a_deleted_run_is_no_rewind(conf *c)
{
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *p = open_by_hand(ground.stage, &noticed[0]);
    pawl *q = open_by_hand(ground.stage, &noticed[1]);
    STAGE_REGISTER(ground.stage, p, pauses);
    stage_start(ground.stage, p, "pauses", "r", "null");
    atomic_store(&ground.other, q);
    STAGE_UNTIL(ground.stage, p, stage_count(ground.stage, "2") == 1);
    stage_start(ground.stage, p, "pauses", "r2", "null");
    STAGE_DONE(ground.stage, p, "r2", "2");
    assert_int_equal(noticed[0] + noticed[1], 0);
    pawl_close(p);
    pawl_close(q);
    stage_free(ground.stage);
}

/* Of the one that has lost nothing, the last sign of life that is there now is old. */
static void nobody_is_shut_out(conf *c)
{
    STAGE_BY_HAND();
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *p = open_by_hand(ground.stage, &noticed[0]);
    pawl *q = open_by_hand(ground.stage, &noticed[1]);
    stage_poll(ground.stage, p);
    stage_poll(ground.stage, q);
    backup_take(c);
    stage_start(ground.stage, p, "waits", "lost", "null");
    stage_advance(ground.stage, CLAIM_MS + 1000);
    backup_restore(c);
    STAGE_UNTIL(ground.stage, p, noticed[0] == 1);
    for (int i = 0; i < 5; i++)
        stage_poll(ground.stage, p); /* it is a new node, and looks */
    stage_poll(ground.stage, q);
    assert_int_equal(count(q, "SELECT count(DISTINCT node) FROM {nodes} WHERE closed = 1"), 0);
    assert_int_equal(noticed[1], 0);
    pawl_close(p);
    pawl_close(q);
    stage_free(ground.stage);
}

/* A look that proves nothing has found a closed row of its number first: that is another one's. */
static void it_is_not_taken_for_a_closed_node(conf *c)
{
    begin(c);
    atomic_int noticed = 0;
    pawl *p = open_by_hand(ground.stage, &noticed);
    STAGE_REGISTER(ground.stage, p, waits);
    backup_take(c);
    stage_start(ground.stage, p, "waits", "r", "null");
    STAGE_UNTIL(ground.stage, p, stage_count(ground.stage, "1") == 1);
    backup_restore(c);
    atomic_store(&handle_sched(p)->fenced, 1);
    stage_poll(ground.stage, p);
    assert_int_equal(noticed, 1);
    pawl_close(p);
    stage_free(ground.stage);
}

/* Who has lost nothing itself throws its keys away too, when it hears of it. */
static void a_new_history_is_heard_of(conf *c)
{
    begin(c);
    atomic_int noticed[2] = {0};
    pawl *q = open_by_hand(ground.stage, &noticed[1]);
    stage_start(ground.stage, q, "waits", "q1", "null");
    stage_poll(ground.stage, q);
    pawl *p = open_by_hand(ground.stage, &noticed[0]);
    backup_take(c);
    int64_t before = count(q, "SELECT number FROM {meta} WHERE name = 'history'");
    stage_start(ground.stage, p, "waits", "lost", "null");
    backup_restore(c);
    STAGE_CODE(ground.stage, p, pawl_start(p, "waits", "p1", "null", NULL), PAWL_REWOUND);
    stage_start(ground.stage, p, "waits", "p1", "null");
    assert_int_not_equal(count(q, "SELECT number FROM {meta} WHERE name = 'history'"), before);
    stage_advance(ground.stage, 2000);
    stage_poll(ground.stage, q);
    stage_start(ground.stage, q, "waits", "q2", "null");
    assert_in_range(count(q, "SELECT run FROM {runs} WHERE id = 'q2'"), KEYS_BLOCK, INT64_MAX);
    assert_int_equal(noticed[1], 0);
    pawl_close(p);
    pawl_close(q);
    stage_free(ground.stage);
}

static const conf_case CASES[] = {
    {"what was lost is executed again", what_was_lost_is_executed_again, DB_SHARED},
    {"no run ends with a hole", no_run_ends_with_a_hole, DB_SHARED},
    {"under threads", under_threads, DB_SHARED},
    {"an idle node notices", an_idle_node_notices, DB_SHARED},
    {"another one joins before it has noticed", another_one_joins_before_it_has_noticed, DB_SHARED},
    {"a client throws its keys away", a_client_throws_its_keys_away, DB_SHARED},
    {"a deleted run is no rewind", a_deleted_run_is_no_rewind, DB_SHARED},
    {"nobody is shut out", nobody_is_shut_out, DB_SHARED},
    {"it is not taken for a closed node", it_is_not_taken_for_a_closed_node, DB_SHARED},
    {"a new history is heard of", a_new_history_is_heard_of, DB_SHARED},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
