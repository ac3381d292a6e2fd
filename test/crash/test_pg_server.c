/* A PostgreSQL server that dies, and comes back: what was acknowledged is there, what was refused
 * or has failed is not, and all writers go on by themselves.
 *
 * Writers in other processes, each with a committer of its own, hand in units while the server is
 * killed at random moments. They notice it only as units that wait; commits whose answers were lost
 * are settled on the server that comes back. In the end every unit has an answer, and the ledger is
 * compared with the database. PAWL_TEST_KILLS says how often it is killed (5), PAWL_TEST_SEED
 * repeats a run as far as chance is ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/conf.h"
#include "support/crash_fixture.h"
#include "support/pgledger.h"
#include "support/pgserver.h"
#include "support/scratch.h"
#include "support/steps.h"
#include "support/writers.h"

#define PROCESSES 2
#define RUNS 100 /* of a test */
#define CLAIM_MS 2000

typedef struct fixture {
    pgserver *server;
    char database[PGSERVER_NAME];
    char url[PGSERVER_URL];
    int64_t first_run; /* of RUNS that are this test's own */
    uint64_t seed;
    random_seeded random;
    ledger ledger;
    atomic_int *stop;
    writers writers[PROCESSES];
} fixture;

/* One server and one database for all tests, made by the first that needs them; databases are
 * dear. */
typedef struct shared_server {
    pgserver *server;
    char database[PGSERVER_NAME];
    int64_t runs;
    int64_t births;
} shared_server;

static shared_server shared;

/* Tests with many rounds do it in each. */
static void wind_up(void)
{
    tmp_watchdog("a test of a server that dies");
}

static int set_up(void **state)
{
    static fixture s;
    s = (fixture){.seed = scratch_seed()};
    random_seeded_init(&s.random, s.seed);
    *state = &s;
    wind_up();
    s.stop = tmp_shared(sizeof *s.stop);
    return 0;
}

static int tear_down(void **state)
{
    fixture *s = *state;
    for (int i = 0; i < PROCESSES; i++)
        if (s->writers[i].pid)
            writers_kill(&s->writers[i], &s->ledger);
    tmp_watchdog(NULL);
    ledger_free(&s->ledger);
    tmp_shared_free(s->stop, sizeof *s->stop);
    return 0;
}

static fixture *fixture_of(void **state)
{
    fixture *s = *state;
    pgserver_need();
    if (!shared.server) {
        shared.server = pgserver_start(&(pgserver_options){.tcp = 1});
        pgserver_database(shared.server, shared.database);
    }
    if (pgserver_pid(shared.server) == 0)
        pgserver_restart(shared.server);
    s->server = shared.server;
    memcpy(s->database, shared.database, sizeof s->database);
    pgserver_url(s->server, s->database, s->url);
    s->first_run = shared.runs + 1;
    shared.runs += RUNS;
    return s;
}

static int end_server(void **state)
{
    (void)state;
    pgserver_free(shared.server);
    return 0;
}

/* ---- Writers ---- */

static writers_plan plan_for(const fixture *s, int process)
{
    writers_plan plan = {.threads = 2,
                         .first_run = s->first_run + process * (RUNS / PROCESSES),
                         .runs = 8,
                         .stop = s->stop,
                         .claim_ms = CLAIM_MS,
                         .payload = 300,
                         .seed = s->seed};
    memcpy(plan.url, s->url, sizeof s->url);
    return plan;
}

static void start_writers(fixture *s)
{
    for (int i = 0; i < PROCESSES; i++) {
        writers_plan plan = plan_for(s, i);
        assert_int_equal(writers_set_up(&plan), 0);
        writers_start(&s->writers[i], &plan, ++shared.births);
    }
}

/* Until this one has so many more acknowledgements; what the others say is read as well. */
static void await(fixture *s, int which, int64_t more)
{
    writers *w = &s->writers[which];
    wind_up();
    if (writers_await(s->writers, PROCESSES, which, w->acks + more, &s->ledger) != 0)
        fail_msg("PAWL_TEST_SEED=%llu: writer %d is stuck or dead after %lld acknowledgements",
                 (unsigned long long)s->seed, which, (long long)w->acks);
}

static void await_all(fixture *s, int64_t more)
{
    for (int i = 0; i < PROCESSES; i++)
        await(s, i, more);
}

static void check(fixture *s, const char *when)
{
    ledger_verdict v;
    if (pgledger_check(&s->ledger, s->url, &v) != 0)
        crash_fail(&v, when, s->seed);
}

static int64_t rows(fixture *s)
{
    char sql[128];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM pawl.journal WHERE run BETWEEN %lld AND %lld",
             (long long)s->first_run, (long long)s->first_run + RUNS - 1);
    return pgserver_number(s->server, s->database, sql);
}

/* Without them the checks say little. */
static int has_some_of_each(const fixture *s)
{
    return ledger_count(&s->ledger, UNIT_COMMITTED) > 0 &&
           ledger_count(&s->ledger, UNIT_REFUSED) > 0 && ledger_count(&s->ledger, UNIT_FAILED) > 0;
}

/* Every unit that was handed in has its final answer then, and is there exactly if it should be. */
static void end_writers(fixture *s, const char *when)
{
    while (!has_some_of_each(s))
        await(s, 0, 1);
    atomic_store(s->stop, 1);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(writers_join(&s->writers[i], &s->ledger), 0);
    check(s, when);
    assert_int_equal(ledger_unsettled(&s->ledger), 0);
    assert_int_equal(rows(s), ledger_count(&s->ledger, UNIT_COMMITTED));
}

/* ---- The server dies ---- */

static void kill_server(fixture *s, int64_t round)
{
    static const pgserver_end HOW[] = {PGSERVER_KILL, PGSERVER_IMMEDIATE, PGSERVER_KILL,
                                       PGSERVER_FAST};
    await(s, (int)scratch_between(&s->random, 0, PROCESSES - 1),
          scratch_between(&s->random, 1, 200));
    crash_spin(&s->random, 2000000);
    pgserver_stop(s->server, HOW[round % 4]);
    pgserver_restart(s->server);
    await_all(s, 1);
}

/* At least so often, and until a kill has met a commit on its way. */
static void the_server_is_killed(void **state)
{
    fixture *s = fixture_of(state);
    int64_t kills = scratch_number("PAWL_TEST_KILLS", 5);
    start_writers(s);
    await_all(s, 1);
    for (int64_t i = 0; i < kills || ledger_count(&s->ledger, UNIT_UNDECIDED) == 0; i++)
        kill_server(s, i);
    end_writers(s, "after the server was killed");
}

/* ---- The client dies, alone and with the server ---- */

static void the_client_is_killed(void **state)
{
    fixture *s = fixture_of(state);
    int64_t kills = 1 + scratch_number("PAWL_TEST_KILLS", 5) / 2;
    start_writers(s);
    for (int64_t i = 0; i < kills; i++) {
        int which = (int)(i % PROCESSES);
        await(s, which, scratch_between(&s->random, 1, 200));
        crash_spin(&s->random, 2000000);
        if (i % 3 == 2)
            pgserver_stop(s->server, PGSERVER_KILL);
        assert_int_equal(writers_kill(&s->writers[which], &s->ledger), 0);
        if (i % 3 == 2)
            pgserver_restart(s->server);
        check(s, "after the client was killed");
        writers_plan plan = plan_for(s, which);
        writers_start(&s->writers[which], &plan, ++shared.births);
        await_all(s, 1);
    }
    atomic_store(s->stop, 1);
    for (int i = 0; i < PROCESSES; i++)
        assert_int_equal(writers_join(&s->writers[i], &s->ledger), 0);
    check(s, "after clients were killed");
}

/* ---- A single connection ends ---- */

/* End one of the sessions that pawl has here, the n-th; 0: there was none. */
static int64_t terminate(fixture *s, int64_t nth)
{
    char sql[320];
    snprintf(sql, sizeof sql,
             "SELECT count(pg_terminate_backend(pid)) FROM (SELECT pid FROM pg_stat_activity"
             " WHERE application_name = 'pawl' AND datname = current_database()"
             " ORDER BY pid OFFSET %lld LIMIT 1) AS one",
             (long long)nth);
    return pgserver_number(s->server, s->database, sql);
}

static int64_t sessions(fixture *s)
{
    return pgserver_number(s->server, s->database,
                           "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'pawl'"
                           " AND datname = current_database()");
}

static void sessions_are_ended_at_work(void **state)
{
    fixture *s = fixture_of(state);
    int64_t ended = 0, wanted = 8 * scratch_number("PAWL_TEST_KILLS", 5);
    start_writers(s);
    await_all(s, 1);
    while (ended < wanted || ledger_count(&s->ledger, UNIT_UNDECIDED) == 0) {
        await(s, (int)(ended % PROCESSES), scratch_between(&s->random, 1, 100));
        crash_spin(&s->random, 2000000);
        ended += terminate(s, scratch_between(&s->random, 0, 3 * PROCESSES - 1));
    }
    await_all(s, 1);
    end_writers(s, "after sessions were ended");
}

/* Hand in a step for each of `count` runs at once, and wait for them. */
static void commit_steps(committer *k, int64_t first_run, int64_t seq, int count)
{
    arena *a = arena_new(0);
    unit *units[8];
    submitter owners[8] = {{0}};
    assert_non_null(a);
    assert_in_range(count, 1, 8);
    for (int i = 0; i < count; i++) {
        step one = {first_run + i, seq, seq * 100 + i, STEP_GOOD, {"x", 1}};
        units[i] = step_unit(a, &owners[i], &one);
        committer_submit(k, units[i]);
    }
    committer_flush(k);
    for (int i = 0; i < count; i++)
        if (units[i]->answer != UNIT_COMMITTED)
            fail_msg("unit %d of %d: %s", i + 1, count, units[i]->message);
    arena_free(a);
}

/* No transaction was under way, so no unit has to notice it: neither one that goes in one trip, nor
 * a batch, nor a reader. */
static void end_idle_sessions(fixture *s, const char *url)
{
    error err = {0};
    db_options options = {.url = url, .claim_ms = 60000}; /* a slow answer is no failure here */
    db *d = NULL;
    committer *k = NULL;
    db_conn *reader = NULL;
    CONF_OK(db_open(&d, &options, &err), &err);
    CONF_OK(committer_open(&k, d, NULL, &err), &err);
    CONF_OK(db_connect(d, DB_READER, &reader, &err), &err);
    assert_int_equal(steps_make_runs(k, s->first_run, 8), PAWL_OK);
    for (int64_t round = 1; round <= 6; round++) {
        commit_steps(k, s->first_run, round, round % 2 ? 1 : 8);
        assert_int_equal(steps_last_seq(reader, s->first_run), round);
        while (terminate(s, 0))
            continue;
        TMP_AWAIT(sessions(s) == 0);
    }
    assert_int_equal(committer_stats_now(k).failed, 0);
    assert_int_equal(committer_stats_now(k).undecided, 0);
    db_disconnect(reader);
    committer_close(k);
    db_close(d);
}

static void sessions_are_ended_while_idle(void **state)
{
    fixture *s = fixture_of(state);
    end_idle_sessions(s, s->url);
}

/* A Unix socket says at once that no server listens; by TCP the first words are still sent. */
static void sessions_are_ended_while_idle_by_tcp(void **state)
{
    fixture *s = fixture_of(state);
    char url[PGSERVER_URL];
    snprintf(url, sizeof url, "postgres://pawl@127.0.0.1:%d/%s", pgserver_port(s->server),
             s->database);
    end_idle_sessions(s, url);
}

/* ---- The server does not come back ---- */

typedef struct gone_server {
    clock_fake *clock;
    db *db;
    committer *committer;
    conf_ticket run;    /* a unit of a run … */
    conf_ticket client; /* … and one that a client waits for */
} gone_server;

/* A committer by hand whose server has just gone; units of both kinds have been handed in. */
static void submit_without_server(fixture *s, gone_server *l)
{
    error err = {0};
    *l = (gone_server){.clock = clock_fake_new(1000000)};
    db_options options = {
        .url = s->url, .clock = clock_fake_source(l->clock), .by_hand = 1, .claim_ms = CLAIM_MS};
    committer_options by_hand = {.by_hand = 1};
    CONF_OK(db_open(&l->db, &options, &err), &err);
    CONF_OK(committer_open(&l->committer, l->db, &by_hand, &err), &err);
    pgserver_stop(s->server, PGSERVER_FAST);
    conf_ticket_append(&l->run, s->first_run, 1, NULL);
    conf_ticket_append(&l->client, s->first_run + 1, 1, NULL);
    l->client.unit->class = UNIT_OF_CLIENT;
    committer_submit(l->committer, l->run.unit);
    committer_submit(l->committer, l->client.unit);
}

static void close_without_server(gone_server *l)
{
    committer_close(l->committer);
    db_close(l->db);
    conf_ticket_free(&l->run);
    conf_ticket_free(&l->client);
    clock_fake_free(l->clock);
}

/* A waiting client gets an error when its time-out ends; a run's unit waits for as long as it
 * takes. */
static void the_server_is_gone_for_good(void **state)
{
    fixture *s = fixture_of(state);
    gone_server l;
    submit_without_server(s, &l);
    conf_drive(l.committer, l.clock, &l.client, 1);
    CONF_ANSWER(&l.client, UNIT_FAILED);
    assert_int_equal(l.client.unit->code, PAWL_UNREACHABLE);
    for (int i = 0; i < 100; i++) {
        clock_fake_advance(l.clock, 3600 * 1000);
        committer_drive(l.committer);
        assert_int_equal(atomic_load(&l.run.finals), 0);
    }
    conf_ticket later;
    conf_ticket_append(&later, s->first_run + 2, 1, NULL);
    later.unit->class = UNIT_OF_CLIENT;
    committer_submit(l.committer, later.unit);
    conf_drive(l.committer, l.clock, &later, 1);
    assert_int_equal(later.unit->code, PAWL_UNREACHABLE);
    conf_ticket_free(&later);

    committer_close(l.committer);
    l.committer = NULL;
    CONF_ANSWER(&l.run, UNIT_FAILED);
    assert_int_equal(l.run.unit->code, PAWL_CLOSED);
    assert_int_equal(atomic_load(&l.run.undecided), 0);
    close_without_server(&l);
    pgserver_restart(s->server);
    assert_int_equal(rows(s), 0);
}

static void the_server_comes_back_late(void **state)
{
    fixture *s = fixture_of(state);
    gone_server l;
    submit_without_server(s, &l);
    conf_drive(l.committer, l.clock, &l.client, 1);
    assert_int_equal(l.client.unit->code, PAWL_UNREACHABLE);
    pgserver_restart(s->server);
    conf_drive(l.committer, l.clock, &l.run, 1);
    CONF_ANSWER(&l.run, UNIT_COMMITTED);
    assert_int_equal(conf_rows(l.db, s->first_run), 1);
    assert_int_equal(conf_rows(l.db, s->first_run + 1), 0);
    close_without_server(&l);
}

/* The same with threads and a real clock: without driving and without asking again. */
static void a_waiting_unit_is_answered_at_its_deadline(void **state)
{
    fixture *s = fixture_of(state);
    error err = {0};
    db_options options = {.url = s->url, .claim_ms = CLAIM_MS, .busy_ms = 300};
    db *d = NULL;
    committer *k = NULL;
    CONF_OK(db_open(&d, &options, &err), &err);
    CONF_OK(committer_open(&k, d, NULL, &err), &err);
    pgserver_stop(s->server, PGSERVER_KILL);
    conf_ticket run, client;
    conf_ticket_append(&run, s->first_run, 1, NULL);
    conf_ticket_append(&client, s->first_run + 1, 1, NULL);
    client.unit->class = UNIT_OF_CLIENT;
    committer_submit(k, run.unit);
    assert_int_equal(committer_commit(k, client.unit), PAWL_UNREACHABLE);
    assert_int_equal(atomic_load(&run.finals), 0);
    pgserver_restart(s->server);
    TMP_AWAIT(atomic_load(&run.finals) > 0);
    CONF_ANSWER(&run, UNIT_COMMITTED);
    assert_int_equal(conf_rows(d, s->first_run), 1);
    assert_int_equal(conf_rows(d, s->first_run + 1), 0);
    committer_close(k);
    db_close(d);
    conf_ticket_free(&run);
    conf_ticket_free(&client);
}

int main(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(the_server_is_killed),
        TEST(the_client_is_killed),
        TEST(sessions_are_ended_at_work),
        TEST(sessions_are_ended_while_idle),
        TEST(sessions_are_ended_while_idle_by_tcp),
        TEST(the_server_is_gone_for_good),
        TEST(the_server_comes_back_late),
        TEST(a_waiting_unit_is_answered_at_its_deadline),
    };
    return cmocka_run_group_tests(tests, NULL, end_server);
}
