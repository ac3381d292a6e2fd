/* Node rows: ids, heartbeats, the closing that shuts a node out (A1), the walk that tidies up.
 *
 * Where the database is a file of this host, liveness is a byte lock, elsewhere a row with a
 * heartbeat; the tests know only that a node can be made silent. Nodes of one test are engines of
 * their own, with a handle each, except in memory, where there is one handle for all. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "db/liveness_file.h"
#include "rows/node.h"
#include "rows/run_units.h"
#include "support/conf.h"

enum { SLOTS = 2 };

/* ---- Engines ---- */

typedef struct engine {
    db *db;
    int own_db;
    db_clock clock;
    committer *k;
    db_conn *conn; /* for beats and looks */
    node node;
} engine;

/* A handle of its own, or, in memory, that of `first`. */
static void engine_open(engine *e, const conf *c, const engine *first, clock_fake *clock)
{
    memset(e, 0, sizeof *e);
    db_options options = {.clock = clock ? clock_fake_source(clock) : NULL};
    e->own_db = !first || (c->promises & DB_SHARED);
    e->db = e->own_db ? conf_open(c, &options) : first->db;
    e->k = conf_committer(e->db, NULL);
    e->conn = conf_connect(e->db, DB_COMMITTER);
    db_clock_init(&e->clock, e->db);
}

static void engine_join(engine *e)
{
    error err = {0};
    node_options o = {.slots = SLOTS, .name = "test", .build = "1"};
    CONF_OK(node_join(&e->node, e->k, e->conn, &e->clock, &o, &err), &err);
    committer_set_node(e->k, e->node.id, 1, e->node.token);
}

static void engine_close(engine *e)
{
    committer_close(e->k);
    db_disconnect(e->conn);
    db_clock_free(&e->clock);
    node_leave(&e->node);
    if (e->own_db)
        db_close(e->db);
}

/* Two nodes that have joined. */
static void two_nodes(engine *e, const conf *c, clock_fake *clock)
{
    engine_open(&e[0], c, NULL, clock);
    engine_open(&e[1], c, &e[0], clock);
    engine_join(&e[0]);
    engine_join(&e[1]);
}

static void close_two(engine *e)
{
    engine_close(&e[1]);
    engine_close(&e[0]);
}

static int64_t count(engine *e, const db_sql *sql, int64_t of)
{
    return conf_number(e->db, sql, VALUES(db_int(of)));
}

static const db_sql ROWS = {"SELECT count(*) FROM {nodes} WHERE node = $1", "i"};
static const db_sql OPEN_ROWS = {"SELECT count(*) FROM {nodes} WHERE node = $1 AND closed = 0",
                                 "i"};
static const db_sql ALL_OPEN = {"SELECT count(*) FROM {nodes} WHERE closed = $1", "i"};
static const db_sql BEATS = {"SELECT count(*) FROM {beats} WHERE node = $1", "i"};

/* As if the process had died some time ago. */
static void fall_silent(engine *e)
{
    static const db_sql AGE = {"UPDATE {beats} SET at = at - $2 WHERE node = $1", "ii"};
    if (e->node.file)
        liveness_file_release(e->node.file, e->node.id);
    else
        conf_do(e->db, &AGE, VALUES(db_int(e->node.id), db_int(2 * e->node.claim_ms)));
}

static node_list silent(engine *e)
{
    error err = {0};
    node_list list;
    CONF_OK(node_find_silent(&e->node, e->conn, &list, &err), &err);
    return list;
}

static void expect_silent(engine *e, const engine *who)
{
    node_list list = silent(e);
    assert_int_equal(list.count, who ? 1 : 0);
    if (who)
        assert_int_equal(list.at[0], who->node.id);
}

/* Commit one more row of a run; the ticket has the answer. */
static void append(engine *e, conf_ticket *t, int64_t run, int64_t seq)
{
    conf_ticket_append(t, run, seq, NULL);
    committer_commit(e->k, t->unit);
}

static void expect_shut_out(engine *e, int64_t run)
{
    conf_ticket t;
    append(e, &t, run, 1);
    CONF_ANSWER(&t, UNIT_REFUSED);
    assert_string_equal(t.unit->refused, "node");
    conf_ticket_free(&t);
    assert_int_equal(conf_rows(e->db, run), 0);
}

static void expect_at_work(engine *e, int64_t run)
{
    conf_ticket t;
    append(e, &t, run, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    conf_ticket_free(&t);
}

static void close_node(engine *e, const engine *other)
{
    error err = {0};
    CONF_OK(node_close(e->k, other->node.id, &err), &err);
}

/* ---- Joining ---- */

static void a_node_has_an_id_and_its_rows(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    assert_true(e[0].node.id >= 2);
    assert_true(e[1].node.id > e[0].node.id);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(count(&e[0], &OPEN_ROWS, e[i].node.id), SLOTS);
        assert_int_equal(count(&e[0], &BEATS, e[i].node.id), e[i].node.file ? 0 : 1);
        assert_int_equal(e[i].node.file != NULL, (c->promises & DB_FILE) != 0);
    }
    expect_at_work(&e[0], 1);
    expect_at_work(&e[1], 2);
    close_two(e);
}

/* Ids are never used twice, whatever became of their nodes (A6). */
static void an_id_is_never_used_again(conf *c)
{
    engine e;
    engine_open(&e, c, NULL, NULL);
    int64_t last = 0;
    for (int i = 0; i < 5; i++) {
        committer_set_node(e.k, 0, 0, 0);
        engine_join(&e);
        assert_true(e.node.id > last);
        last = e.node.id;
        node_leave(&e.node);
        conf_script(e.db, "DELETE FROM {nodes}; DELETE FROM {beats}");
    }
    engine_close(&e);
}

/* Wherever a join breaks off, it leaves no node that seems to be alive. */
static void a_join_that_fails_leaves_no_live_node(conf *c)
{
    engine e[2];
    db_fault plan = {0};
    engine_open(&e[0], c, NULL, NULL);
    engine_join(&e[0]);
    db *d = conf_open_fault(c, NULL, &plan);
    memset(&e[1], 0, sizeof e[1]);
    e[1].db = d;
    e[1].own_db = 1;
    e[1].conn = conf_connect(d, DB_COMMITTER);
    db_clock_init(&e[1].clock, d);
    node_options o = {.slots = SLOTS};
    error err = {0};
    for (int64_t call = 1;; call++) {
        e[1].k = conf_committer(d, NULL);
        plan = (db_fault){.fail_call = call, .fail_code = PAWL_IO};
        pawl_code rc = node_join(&e[1].node, e[1].k, e[1].conn, &e[1].clock, &o, &err);
        plan = (db_fault){0};
        if (rc == PAWL_OK)
            break;
        assert_int_equal(e[1].node.id, 0);
        assert_true(call < 100);
        committer_close(e[1].k);
    }
    expect_silent(&e[0], NULL);
    assert_int_equal(count(&e[0], &ALL_OPEN, 0), 2 * SLOTS);
    close_two(e);
}

/* ---- Being shut out ---- */

/* A1: a closed node commits nothing any more, by whichever of its connections; others go on. */
static void a_closed_node_commits_nothing(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    expect_at_work(&e[1], 1);
    close_node(&e[0], &e[1]);
    assert_int_equal(count(&e[0], &OPEN_ROWS, e[1].node.id), 0);
    assert_int_equal(count(&e[0], &ROWS, e[1].node.id), SLOTS);
    expect_shut_out(&e[1], 2);
    committer_set_node(e[1].k, e[1].node.id, 2, e[1].node.token);
    expect_shut_out(&e[1], 3);
    expect_at_work(&e[0], 4);
    committer_set_node(e[1].k, 0, 0, 0); /* a client of the same engine is no node */
    expect_at_work(&e[1], 5);
    close_two(e);
}

/* Every unit of a batch, and those behind it. */
static void all_units_of_a_closed_node_are_refused(conf *c)
{
    enum { COUNT = 20 };
    engine e[2];
    two_nodes(e, c, NULL);
    close_node(&e[0], &e[1]);
    conf_ticket t[COUNT];
    submitter owner = {0};
    for (int i = 0; i < COUNT; i++) {
        conf_ticket_append(&t[i], 1 + i % 3, 1 + i / 3, i % 2 ? &owner : NULL);
        committer_submit(e[1].k, t[i].unit);
    }
    committer_flush(e[1].k);
    for (int i = 0; i < COUNT; i++) {
        CONF_ANSWER(&t[i], UNIT_REFUSED);
        if (!t[i].unit->submitter)
            assert_string_equal(t[i].unit->refused, "node");
    }
    conf_tickets_free(t, COUNT);
    for (int run = 1; run <= 3; run++)
        assert_int_equal(conf_rows(e[0].db, run), 0);
    close_two(e);
}

/* A row that is not there is as good as closed: the walk may have been there already. */
static void a_node_without_rows_commits_nothing(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    static const db_sql REMOVE = {"DELETE FROM {nodes} WHERE node = $1", "i"};
    conf_do(e[0].db, &REMOVE, VALUES(db_int(e[1].node.id)));
    expect_shut_out(&e[1], 1);
    expect_at_work(&e[0], 2);
    close_two(e);
}

static void a_node_is_closed_once(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    close_node(&e[0], &e[1]);
    error err = {0};
    assert_int_equal(node_close(e[0].k, e[1].node.id, &err), PAWL_REFUSED);
    assert_int_equal(node_close(e[0].k, 987654, &err), PAWL_REFUSED);
    node_list closed;
    CONF_OK(node_find_closed(e[0].conn, &closed, &err), &err);
    assert_int_equal(closed.count, 1);
    assert_int_equal(closed.at[0], e[1].node.id);
    close_two(e);
}

/* At its orderly end a node closes itself, and in the same transaction still commits. */
static void a_node_may_close_itself(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    close_node(&e[1], &e[1]);
    expect_shut_out(&e[1], 1);
    expect_silent(&e[0], NULL); /* a closed node is not silent: there is nothing left to do */
    expect_at_work(&e[0], 2);
    close_two(e);
}

/* ---- Heartbeats ---- */

/* Between the look and the closing. */
static void a_heartbeat_may_come_in_time(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    error err = {0};
    fall_silent(&e[1]);
    expect_silent(&e[0], &e[1]);
    CONF_OK(node_beat(&e[1].node, e[1].conn, &err), &err);
    pawl_code rc = node_close_silent(&e[0].node, e[0].k, e[1].node.id, &err);
    assert_int_equal(rc, e[1].node.file ? PAWL_OK : PAWL_REFUSED);
    close_two(e);
}

static void a_silent_node_is_found(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    expect_silent(&e[0], NULL);
    expect_silent(&e[1], NULL);
    fall_silent(&e[1]);
    expect_silent(&e[0], &e[1]);
    close_node(&e[0], &e[1]);
    expect_silent(&e[0], NULL);
    close_two(e);
}

/* More nodes than there is room for in one list, nearly all of them dead or nearly all alive. */
static void one_silent_node_among_many_is_found(conf *c)
{
    enum { MANY = 200 };
    engine e[2];
    two_nodes(e, c, NULL);
    static const db_sql MORE = {"INSERT INTO {nodes} (node, slot, since) VALUES ($1, 1, 0)", "i"};
    static const db_sql BEAT = {"INSERT INTO {beats} (node, at) VALUES ($1, $2)", "ii"};
    int64_t now = db_clock_now_ms(&e[0].clock);
    error err = {0};
    db_conn *w = conf_connect(e[0].db, DB_WRITER);
    conf_begin(w);
    for (int64_t id = 1000; id < 1000 + MANY; id++) {
        CONF_OK(db_run(w, &MORE, VALUES(db_int(id)), &err), &err);
        if (id == 1000 + MANY - 1)
            continue;
        if (e[1].node.file)
            CONF_OK(liveness_file_hold(e[1].node.file, id, &err), &err);
        else
            CONF_OK(db_run(w, &BEAT, VALUES(db_int(id), db_int(now)), &err), &err);
    }
    conf_commit(w);
    db_disconnect(w);
    node_list list = silent(&e[0]);
    assert_int_equal(list.count, 1);
    assert_int_equal(list.at[0], 1000 + MANY - 1);
    if (e[1].node.file)
        for (int64_t id = 1000; id < 1000 + MANY; id++)
            liveness_file_release(e[1].node.file, id);
    else
        conf_script(e[0].db, "DELETE FROM {beats} WHERE node >= 1000");
    list = silent(&e[0]);
    assert_int_equal(list.count, sizeof list.at / sizeof *list.at);
    close_two(e);
}

static void a_node_that_sends_heartbeats_is_not_silent(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    error err = {0};
    if (!e[1].node.file) {
        fall_silent(&e[1]);
        expect_silent(&e[0], &e[1]);
    }
    CONF_OK(node_beat(&e[1].node, e[1].conn, &err), &err);
    expect_silent(&e[0], NULL);
    close_two(e);
}

/* A node that has nothing to commit hears of its end by its beat. */
static void a_closed_node_sends_no_heartbeat(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    close_node(&e[0], &e[1]);
    error err = {0};
    pawl_code rc = node_beat(&e[1].node, e[1].conn, &err);
    assert_int_equal(rc, e[1].node.file ? PAWL_OK : PAWL_FENCED);
    CONF_OK(node_beat(&e[0].node, e[0].conn, &err), &err);
    close_two(e);
}

/* A beat does not wait for a commit of its node that is under way, which holds the node's row. */
static void a_heartbeat_waits_for_no_commit(conf *c)
{
    engine e;
    engine_open(&e, c, NULL, NULL);
    engine_join(&e);
    db_conn *busy = conf_connect(e.db, DB_COMMITTER);
    busy->node = e.node.id;
    busy->slot = 2;
    busy->token = e.node.token;
    error err = {0};
    if (!(c->promises & DB_TURNS))
        conf_begin(busy);
    CONF_OK(node_beat(&e.node, e.conn, &err), &err);
    if (!(c->promises & DB_TURNS))
        conf_commit(busy);
    db_disconnect(busy);
    engine_close(&e);
}

/* ---- Time: in memory it is the host's, and can be moved ---- */

static void beat(engine *e)
{
    error err = {0};
    CONF_OK(node_beat(&e->node, e->conn, &err), &err);
}

static void a_node_is_silent_after_claim_ms(conf *c)
{
    engine e[2];
    clock_fake *clock = clock_fake_new(1000000);
    two_nodes(e, c, clock);
    int64_t third = e[0].node.claim_ms / 3;
    for (int i = 0; i < 10; i++) {
        clock_fake_advance(clock, third);
        beat(&e[0]);
        beat(&e[1]);
        expect_silent(&e[0], NULL);
        expect_silent(&e[1], NULL);
    }
    for (int i = 0; i < 4; i++) {
        expect_silent(&e[0], NULL);
        clock_fake_advance(clock, third);
        beat(&e[0]);
    }
    expect_silent(&e[0], &e[1]);
    close_two(e);
    clock_fake_free(clock);
}

/* After an outage of the database no node has a recent heartbeat. The node that comes back first
 * must not shut out all the others, which come back just now. */
static void after_an_outage_no_node_is_closed(conf *c)
{
    engine e[2];
    clock_fake *clock = clock_fake_new(1000000);
    two_nodes(e, c, clock);
    int64_t claim = e[0].node.claim_ms;
    clock_fake_advance(clock, 10 * claim);
    expect_silent(&e[0], NULL); /* it was silent itself */
    beat(&e[0]);
    expect_silent(&e[0], NULL);
    clock_fake_advance(clock, claim / 3);
    beat(&e[0]);
    expect_silent(&e[0], NULL);
    clock_fake_advance(clock, claim / 3); /* by now every live node has sent a heartbeat */
    beat(&e[0]);
    expect_silent(&e[0], &e[1]);
    beat(&e[1]);
    expect_silent(&e[0], NULL);
    close_two(e);
    clock_fake_free(clock);
}

/* ---- The walk ---- */

enum { RUNS = 700, TASKS = 300 };

/* Three owners in turn: none, the first node, the second. */
static void make_work(engine *e)
{
    static const db_sql RUN = {"INSERT INTO {runs} (run, tenant, id, workflow, version, owner,"
                               " fence, created_at, updated_at)"
                               " VALUES ($1, '', $2, 'w', '1', $3, 4, 0, 0)",
                               "iti"};
    static const db_sql TASK = {"INSERT INTO {tasks} (tenant, queue, run, generation, op, name,"
                                " owner, visible_at, at) VALUES ('', 'q', $1, 1, 1, 'n', $2, 0, 0)",
                                "ii"};
    error err = {0};
    const int64_t owners[] = {0, e[0].node.id, e[1].node.id};
    db_conn *w = conf_connect(e[0].db, DB_WRITER);
    conf_begin(w);
    for (int64_t i = 1; i <= RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "%lld", (long long)i);
        db_value owner = db_int(owners[i % 3]);
        CONF_OK(db_run(w, &RUN, VALUES(db_int(i * 7), db_text(slice_of(id)), owner), &err), &err);
        if (i <= TASKS)
            CONF_OK(db_run(w, &TASK, VALUES(db_int(i), owner), &err), &err);
    }
    conf_commit(w);
    db_disconnect(w);
}

static const db_sql OWNED = {"SELECT count(*) FROM {runs} WHERE owner = $1", "i"};
static const db_sql TASKED = {"SELECT count(*) FROM {tasks} WHERE owner = $1", "i"};
static const db_sql OLD_FENCE = {"SELECT count(*) FROM {runs} WHERE fence = $1", "i"};

static int walk(engine *e, int64_t id)
{
    node_sweep s = {.nodes = {.count = 1, .at = {id}}};
    error err = {0};
    int done = 0, pages = 0;
    while (!done) {
        CONF_OK(node_sweep_page(&s, e->k, e->conn, &done, &err), &err);
        assert_true(++pages < 100);
    }
    return pages;
}

static void what_a_dead_node_owned_has_no_owner(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    make_work(e);
    int64_t mine = e[0].node.id, dead = e[1].node.id;
    int64_t my_runs = count(&e[0], &OWNED, mine), my_tasks = count(&e[0], &TASKED, mine);
    close_node(&e[0], &e[1]);
    assert_true(walk(&e[0], dead) > 4); /* in pages */
    assert_int_equal(count(&e[0], &OWNED, dead), 0);
    assert_int_equal(count(&e[0], &TASKED, dead), 0);
    assert_int_equal(count(&e[0], &OWNED, mine), my_runs);
    assert_int_equal(count(&e[0], &TASKED, mine), my_tasks);
    assert_int_equal(count(&e[0], &OWNED, 0), RUNS - my_runs);
    assert_int_equal(count(&e[0], &OLD_FENCE, 4), RUNS);
    assert_int_equal(count(&e[0], &ROWS, dead), 0);
    assert_int_equal(count(&e[0], &BEATS, dead), 0);
    assert_int_equal(count(&e[0], &OPEN_ROWS, mine), SLOTS);
    expect_shut_out(&e[1], 5000);
    walk(&e[0], dead); /* once more does no harm */
    close_two(e);
}

/* A run that was claimed in the meantime stays claimed. */
static void a_claimed_run_is_not_swept(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    make_work(e);
    int64_t mine = e[0].node.id, dead = e[1].node.id;
    int64_t my_runs = count(&e[0], &OWNED, mine);
    close_node(&e[0], &e[1]);
    conf_ticket t;
    conf_ticket_open(&t, 0);
    run_claim(t.unit, &(run_found){.run = 7 * 2, .owner = dead}, mine, 1);
    committer_commit(e[0].k, t.unit);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    conf_ticket_free(&t);
    walk(&e[0], dead);
    assert_int_equal(count(&e[0], &OWNED, mine), my_runs + 1);
    assert_int_equal(count(&e[0], &OWNED, dead), 0);
    close_two(e);
}

static void runs_of_live_nodes_are_not_swept(conf *c)
{
    engine e[2];
    two_nodes(e, c, NULL);
    make_work(e);
    int64_t runs = count(&e[0], &OWNED, e[1].node.id);
    node_sweep s = {.nodes = {.count = 1, .at = {e[1].node.id}}};
    error err = {0};
    int done = 0;
    assert_int_equal(node_sweep_page(&s, e[0].k, e[0].conn, &done, &err), PAWL_MISUSE);
    assert_false(done);
    assert_int_equal(count(&e[0], &OWNED, e[1].node.id), runs);
    close_two(e);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a node has an id and its rows", a_node_has_an_id_and_its_rows, 0},
        {"an id is never used again", an_id_is_never_used_again, 0},
        {"a join that fails leaves no live node", a_join_that_fails_leaves_no_live_node, DB_SHARED},
        {"a closed node commits nothing", a_closed_node_commits_nothing, 0},
        {"all units of a closed node are refused", all_units_of_a_closed_node_are_refused, 0},
        {"a node without rows commits nothing", a_node_without_rows_commits_nothing, 0},
        {"a node is closed once", a_node_is_closed_once, 0},
        {"a node may close itself", a_node_may_close_itself, 0},
        {"a silent node is found", a_silent_node_is_found, 0},
        {"a heartbeat may come in time", a_heartbeat_may_come_in_time, 0},
        {"one silent node among many is found", one_silent_node_among_many_is_found, 0},
        {"a node that sends heartbeats is not silent", a_node_that_sends_heartbeats_is_not_silent,
         0},
        {"a closed node sends no heartbeat", a_closed_node_sends_no_heartbeat, 0},
        {"a heartbeat waits for no commit", a_heartbeat_waits_for_no_commit, 0},
        {"what a dead node owned has no owner", what_a_dead_node_owned_has_no_owner, 0},
        {"a claimed run is not swept", a_claimed_run_is_not_swept, 0},
        {"runs of live nodes are not swept", runs_of_live_nodes_are_not_swept, 0},
    };
    static const conf_case TIMED[] = {
        {"a node is silent after claim_ms", a_node_is_silent_after_claim_ms, 0},
        {"after an outage no node is closed", after_an_outage_no_node_is_closed, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES)) +
           conf_run_on("memory", TIMED, CONF_COUNT(TIMED));
}
