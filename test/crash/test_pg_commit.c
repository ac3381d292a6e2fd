/* A connection that breaks at the COMMIT: the answer that follows is what is in the database, for
 * good.
 *
 * A proxy stands between the driver and the server and breaks what the test tells it to break, at
 * the COMMIT of a unit, before or after the server has it. The outcome of the unit is unknown then,
 * so that it is undecided, once; and what is said of it after is compared with the database, also
 * when a COMMIT that was late has arrived at the server. To look whether the rows are there would
 * give the wrong answer (hazard A5).
 *
 * All three ways in which units go to the server are tried: a lone one in one trip, many with
 * guards in two, and one whose guards need each other, statement by statement. The committer is
 * driven by hand, on a real clock: what is waited for is a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conf.h"
#include "support/pgledger.h"
#include "support/proxy.h"
#include "support/scratch.h"
#include "support/steps.h"
#include "support/writers.h"

#define STEPS_MAX 20
#define REFUSED_STEP 7 /* of a batch: one that its guard refuses */
#define CLAIM_MS 1000

/* One unit and what became of it. */
typedef struct sent_step {
    ledger *ledger;
    arena *arena;
    unit *unit;
    submitter owner;
    step step;
    int undecided;
    int finals;
    unit_answer answer;
    pawl_code code;
} sent_step;

typedef struct fixture {
    proxy *proxy;
    char url[PGSERVER_URL];
    int64_t first_run; /* of STEPS_MAX that are this fixture's own */
    db *db;
    committer *committer;
    sent_step steps[STEPS_MAX];
    int count;
    ledger ledger;
} fixture;

/* One server and one database for all tests, made by the first that needs them; databases are
 * dear. */
typedef struct shared_server {
    pgserver *server;
    char database[PGSERVER_NAME];
    char url[PGSERVER_URL]; /* past the proxy */
    int64_t runs;
    int64_t marks;
} shared_server;

static shared_server shared;

static int set_up(void **state)
{
    static fixture s;
    s = (fixture){.count = 0};
    *state = &s;
    tmp_watchdog("a test of a connection that breaks");
    return 0;
}

static void close_committer(fixture *s)
{
    committer_close(s->committer);
    if (s->db)
        db_close(s->db);
    s->committer = NULL;
    s->db = NULL;
}

static void free_steps(fixture *s)
{
    for (int i = 0; i < s->count; i++)
        arena_free(s->steps[i].arena);
    s->count = 0;
}

static int tear_down(void **state)
{
    fixture *s = *state;
    if (s->proxy)
        proxy_cut(s->proxy); /* or closing would wait for a server that is in a hole */
    close_committer(s);
    proxy_stop(s->proxy);
    free_steps(s);
    ledger_free(&s->ledger);
    tmp_watchdog(NULL);
    return 0;
}

static int end_server(void **state)
{
    (void)state;
    pgserver_free(shared.server);
    return 0;
}

/* A proxy before the server, and runs that no other test has. */
static fixture *fixture_of(void **state)
{
    fixture *s = *state;
    pgserver_need();
    if (!shared.server) {
        shared.server = pgserver_start(NULL);
        pgserver_database(shared.server, shared.database);
        pgserver_url(shared.server, shared.database, shared.url);
    }
    s->proxy = proxy_start(shared.server);
    proxy_url(s->proxy, shared.database, s->url);
    s->first_run = shared.runs + 1;
    shared.runs += STEPS_MAX;
    return s;
}

/* On a slow machine an answer may be late without the proxy: then once more. */
static void open_committer(fixture *s)
{
    error err = {0};
    db_options options = {.url = s->url, .claim_ms = CLAIM_MS};
    committer_options by_hand = {.by_hand = 1};
    CONF_OK(db_open(&s->db, &options, &err), &err);
    CONF_OK(committer_open(&s->committer, s->db, &by_hand, &err), &err);
    TMP_AWAIT(steps_make_runs(s->committer, s->first_run, STEPS_MAX) == PAWL_OK);
}

/* ---- Steps ---- */

static void on_answer(unit *u, void *arg)
{
    sent_step *one = arg;
    ledger_entry e = step_entry(&one->step, u);
    ledger_add(one->ledger, &e);
    one->answer = u->answer;
    one->code = u->code;
    if (u->answer == UNIT_UNDECIDED)
        one->undecided++;
    else
        one->finals++;
}

static sent_step *submit_step(fixture *s, int64_t run, int64_t seq, step_kind kind)
{
    assert_true(s->count < STEPS_MAX);
    sent_step *one = &s->steps[s->count++];
    *one = (sent_step){.ledger = &s->ledger, .arena = arena_new(0)};
    assert_non_null(one->arena);
    one->step = (step){run, seq, ++shared.marks, kind, {"x", 1}};
    one->unit = step_unit(one->arena, &one->owner, &one->step);
    one->unit->done = on_answer;
    one->unit->done_arg = one;
    committer_submit(s->committer, one->unit);
    return one;
}

typedef enum { LONE, BATCH, ORDERED } shape;

/* Hand in seq `seq` of one run, or of as many as there are. */
static void submit_all(fixture *s, shape what, int64_t seq)
{
    free_steps(s);
    for (int i = 0; i < (what == BATCH ? STEPS_MAX : 1); i++)
        submit_step(s, s->first_run + i, seq,
                    what == ORDERED                      ? STEP_ORDERED
                    : what == BATCH && i == REFUSED_STEP ? STEP_REFUSED
                                                         : STEP_GOOD);
}

static int all_undecided(const fixture *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->steps[i].undecided == 0 && s->steps[i].finals == 0)
            return 0;
    return 1;
}

static int all_final(const fixture *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->steps[i].finals == 0)
            return 0;
    return 1;
}

static void drive_until_undecided(fixture *s)
{
    TMP_AWAIT((committer_drive(s->committer), all_undecided(s)));
    for (int i = 0; i < s->count; i++) {
        assert_int_equal(s->steps[i].undecided, 1);
        assert_int_equal(s->steps[i].finals, 0);
    }
}

static void drive_until_final(fixture *s)
{
    TMP_AWAIT((committer_drive(s->committer), all_final(s)));
}

static void check(fixture *s)
{
    ledger_verdict v;
    if (pgledger_check(&s->ledger, shared.url, &v) != 0)
        fail_msg("%s", v.first);
}

/* Have all the same fate, this one, and is it true? */
static void expect_fate(fixture *s, db_fate fate)
{
    for (int i = 0; i < s->count; i++) {
        const sent_step *one = &s->steps[i];
        assert_int_equal(one->finals, 1);
        assert_int_equal(one->undecided, 1);
        if (fate == DB_FATE_LOST) {
            assert_int_equal(one->answer, UNIT_FAILED);
            assert_int_equal(one->code, PAWL_UNREACHABLE);
        } else {
            assert_int_equal(one->answer,
                             one->step.kind == STEP_REFUSED ? UNIT_REFUSED : UNIT_COMMITTED);
        }
    }
    check(s);
}

static db_fate fate_told(const fixture *s)
{
    return s->steps[0].answer == UNIT_COMMITTED ? DB_FATE_COMMITTED : DB_FATE_LOST;
}

/* ---- One fault ---- */

/* A unit that is answered goes on; on a slow machine it has to be asked for again. */
static void expect_to_go_on(fixture *s, shape what)
{
    int64_t seq = fate_told(s) == DB_FATE_COMMITTED ? 2 : 1;
    proxy_plan(s->proxy, PROXY_PASS, 0);
    do {
        submit_all(s, what, seq);
        drive_until_final(s);
        check(s);
    } while (fate_told(s) != DB_FATE_COMMITTED);
}

/* Break the COMMIT of such units, and perhaps that of the attempt to find out about it too.
 * UNKNOWN: both fates will do, but it has to be the one that is told. */
static void break_commit(fixture *s, shape what, proxy_action first, proxy_action second,
                         db_fate expected)
{
    open_committer(s);
    proxy_plan(s->proxy, first, 1);
    submit_all(s, what, 1);
    drive_until_undecided(s);
    assert_int_equal(proxy_count(s->proxy).fired, 1);
    if (second != PROXY_PASS)
        proxy_plan(s->proxy, second, 1);
    drive_until_final(s);
    assert_int_equal(proxy_count(s->proxy).fired, second == PROXY_PASS ? 1 : 2);
    expect_fate(s, expected == DB_FATE_UNKNOWN ? fate_told(s) : expected);
    if (first == PROXY_LATE || second == PROXY_LATE) {
        proxy_release(s->proxy);
        assert_int_not_equal(proxy_wait_late(s->proxy), PROXY_LATE_COMMITTED);
        check(s);
    }
    expect_to_go_on(s, what);
}

/* In all shapes, one database after the other. */
static void break_all(void **state, proxy_action first, proxy_action second, db_fate expected)
{
    for (int what = LONE; what <= ORDERED; what++) {
        fixture *s = fixture_of(state);
        break_commit(s, (shape)what, first, second, expected);
        tear_down(state);
        set_up(state);
    }
}

static void cut_before(void **state)
{
    break_all(state, PROXY_CUT_BEFORE, PROXY_PASS, DB_FATE_LOST);
}

static void cut_after(void **state)
{
    break_all(state, PROXY_CUT_AFTER, PROXY_PASS, DB_FATE_COMMITTED);
}

static void cut_blindly(void **state)
{
    break_all(state, PROXY_CUT_BLIND, PROXY_PASS, DB_FATE_UNKNOWN);
}

/* The server hears nothing any more, not even that the client has gone: it would keep its
 * transaction, and the lock that is needed to find out about it, for hours. */
static void a_hole_before(void **state)
{
    break_all(state, PROXY_HOLE_BEFORE, PROXY_PASS, DB_FATE_LOST);
}

static void a_hole_after(void **state)
{
    break_all(state, PROXY_HOLE_AFTER, PROXY_PASS, DB_FATE_COMMITTED);
}

/* What was answered lost must stay so when the COMMIT comes after all. */
static void a_late_commit(void **state)
{
    break_all(state, PROXY_LATE, PROXY_PASS, DB_FATE_LOST);
}

/* ---- A whole transaction that is late ---- */

static int64_t sessions(void)
{
    return pgserver_number(shared.server, shared.database,
                           "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pawl'");
}

/* The server's process stands still with all of it, COMMIT included, unread before it: nothing of
 * it is there to be waited for. Afterwards it does what it was told, or tries to. */
static void a_late_beginning(void **state)
{
    fixture *s = fixture_of(state);
    TMP_AWAIT(sessions() == 0);
    open_committer(s);
    TMP_AWAIT(sessions() == 1); /* those that have opened the database go */
    pid_t pid = (pid_t)pgserver_number(shared.server, shared.database,
                                       "SELECT pid FROM pg_stat_activity"
                                       " WHERE application_name = 'pawl'");
    assert_int_equal(kill(pid, SIGSTOP), 0);
    submit_all(s, LONE, 1);
    drive_until_undecided(s);
    drive_until_final(s);
    expect_fate(s, DB_FATE_LOST);
    assert_int_equal(kill(pid, SIGCONT), 0);
    TMP_AWAIT(sessions() == 1); /* that of the committer, which is another one now */
    check(s);
    expect_to_go_on(s, LONE);
}

/* ---- Finding out breaks too ---- */

static void settling_is_cut_before(void **state)
{
    break_all(state, PROXY_CUT_BEFORE, PROXY_CUT_BEFORE, DB_FATE_LOST);
}

static void settling_is_cut_after(void **state)
{
    break_all(state, PROXY_CUT_BEFORE, PROXY_CUT_AFTER, DB_FATE_LOST);
}

static void settling_is_cut_blindly(void **state)
{
    break_all(state, PROXY_CUT_BEFORE, PROXY_CUT_BLIND, DB_FATE_LOST);
}

static void settling_meets_a_hole(void **state)
{
    fixture *s = fixture_of(state);
    break_commit(s, LONE, PROXY_CUT_BEFORE, PROXY_HOLE_BEFORE, DB_FATE_LOST);
    tear_down(state);
    set_up(state);
    s = fixture_of(state);
    break_commit(s, LONE, PROXY_CUT_BEFORE, PROXY_HOLE_AFTER, DB_FATE_LOST);
}

static void settling_is_late(void **state)
{
    fixture *s = fixture_of(state);
    break_commit(s, BATCH, PROXY_CUT_BEFORE, PROXY_LATE, DB_FATE_LOST);
}

/* ---- No server to ask ---- */

static void no_server_answers_for_a_while(void **state)
{
    fixture *s = fixture_of(state);
    open_committer(s);
    proxy_plan(s->proxy, PROXY_CUT_AFTER, 1);
    submit_all(s, BATCH, 1);
    drive_until_undecided(s);
    proxy_refuse(s->proxy, 1);
    int64_t asked = proxy_count(s->proxy).connections;
    TMP_AWAIT((committer_drive(s->committer), proxy_count(s->proxy).connections >= asked + 5));
    for (int i = 0; i < s->count; i++)
        assert_int_equal(s->steps[i].finals, 0);
    proxy_refuse(s->proxy, 0);
    drive_until_final(s);
    expect_fate(s, DB_FATE_COMMITTED);
}

/* What is said when it is closed first is neither yes nor no. */
static void closing_tells_that_the_outcome_is_unknown(void **state)
{
    fixture *s = fixture_of(state);
    open_committer(s);
    proxy_plan(s->proxy, PROXY_CUT_AFTER, 1);
    submit_all(s, LONE, 1);
    drive_until_undecided(s);
    proxy_refuse(s->proxy, 1);
    close_committer(s);
    assert_int_equal(s->steps[0].finals, 1);
    assert_int_equal(s->steps[0].answer, UNIT_FAILED);
    assert_int_equal(s->steps[0].code, PAWL_UNDECIDED);
    check(s);
    assert_int_equal(pgledger_rows(shared.url, s->steps[0].step.mark), 1);
}

/* Closing finds out if it can. */
static void closing_settles(void **state)
{
    fixture *s = fixture_of(state);
    open_committer(s);
    proxy_plan(s->proxy, PROXY_CUT_AFTER, 1);
    submit_all(s, BATCH, 1);
    drive_until_undecided(s);
    close_committer(s);
    expect_fate(s, DB_FATE_COMMITTED);
}

/* ---- At random, under load ---- */

static void cuts_at_random(void **state)
{
    fixture *s = fixture_of(state);
    uint64_t seed = scratch_seed();
    random_seeded random;
    random_seeded_init(&random, seed);
    atomic_int *stop = tmp_shared(sizeof *stop);
    writers_plan plan = {.threads = 2,
                         .first_run = s->first_run,
                         .runs = STEPS_MAX / 2,
                         .stop = stop,
                         .claim_ms = CLAIM_MS,
                         .payload = 300,
                         .seed = seed};
    memcpy(plan.url, s->url, sizeof s->url);
    assert_int_equal(writers_set_up(&plan), 0);
    writers w;
    writers_start(&w, &plan, 1); /* marks of children are above all of ours */
    assert_int_equal(writers_await(&w, 1, 0, 1, &s->ledger), 0);
    int64_t rounds = 8 * scratch_number("PAWL_TEST_KILLS", 5);
    for (int64_t i = 1; i <= rounds; i++) {
        proxy_action action =
            (proxy_action)scratch_between(&random, PROXY_CUT_BEFORE, PROXY_CUT_BLIND);
        tmp_watchdog("cuts at random");
        proxy_plan(s->proxy, action, scratch_between(&random, 1, 20));
        while (proxy_count(s->proxy).fired < i)
            if (writers_await(&w, 1, 0, w.acks + 1, &s->ledger) != 0)
                fail_msg("PAWL_TEST_SEED=%llu: stuck", (unsigned long long)seed);
    }
    atomic_store(stop, 1);
    assert_int_equal(writers_join(&w, &s->ledger), 0);
    ledger_verdict v;
    if (pgledger_check(&s->ledger, shared.url, &v) != 0)
        fail_msg("PAWL_TEST_SEED=%llu: %s", (unsigned long long)seed, v.first);
    assert_int_equal(ledger_unsettled(&s->ledger), 0);
    assert_true(ledger_count(&s->ledger, UNIT_UNDECIDED) > 0);
    tmp_shared_free(stop, sizeof *stop);
}

int main(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(cut_before),
        TEST(cut_after),
        TEST(cut_blindly),
        TEST(a_hole_before),
        TEST(a_hole_after),
        TEST(a_late_commit),
        TEST(a_late_beginning),
        TEST(settling_is_cut_before),
        TEST(settling_is_cut_after),
        TEST(settling_is_cut_blindly),
        TEST(settling_meets_a_hole),
        TEST(settling_is_late),
        TEST(no_server_answers_for_a_while),
        TEST(closing_tells_that_the_outcome_is_unknown),
        TEST(closing_settles),
        TEST(cuts_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, end_server);
}
