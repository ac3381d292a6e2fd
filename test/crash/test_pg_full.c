/* A PostgreSQL server without room: on its disk, in its log, for one more connection.
 *
 * The disk is a real one; a library before all others of the server says "no space left on device"
 * when the test wants it (test/shim/full.c). A table that cannot grow costs the unit that wanted
 * it to. A log that cannot be written to costs the server: it stops in the middle of a commit, and
 * what became of that is found out when it is back. And a server that takes no more connections is
 * one that cannot be reached. In each case work goes on by itself when the cause is gone. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/conf.h"
#include "support/daemon.h"
#include "support/pgledger.h"
#include "support/pgserver.h"
#include "support/scratch.h"
#include "support/steps.h"

#define STEPS_MAX 12
#define BIG 200000 /* bytes that no free room of a table has */
#define CLAIM_MS 5000

/* One unit and what became of it. */
typedef struct sent_step {
    ledger *ledger;
    arena *arena;
    unit *unit;
    submitter owner;
    step step;
    int finals;
    unit_answer answer;
    pawl_code code;
    char message[160];
} sent_step;

typedef struct fixture {
    db *db;
    committer *committer;
    int64_t first_run;
    sent_step steps[STEPS_MAX];
    int count;
    ledger ledger;
} fixture;

/* One server with the shim and one database for all tests, made by the first that needs them. */
typedef struct shared_server {
    pgserver *server;
    char dir[TMP_PATH]; /* of the shim, and of the files that tell it what is full */
    char database[PGSERVER_NAME];
    char url[PGSERVER_URL];
    char payload[BIG];
    int64_t runs;
    int64_t marks;
} shared_server;

static shared_server shared;

/* ---- The server ---- */

/* The server's user may not get to where we are built. */
static void place_shim(char out[TMP_PATH])
{
    uid_t uid;
    gid_t gid;
    char from[TMP_PATH];
    ssize_t size = readlink("/proc/self/exe", from, sizeof from - 64);
    assert_true(size > 0);
    from[size] = '\0';
    *strrchr(from, '/') = '\0';
    *strrchr(from, '/') = '\0';
    size_t end = strlen(from);
    memcpy(from + end, "/shim", sizeof "/shim");
    daemon_user(&uid, &gid);
    tmp_dir_make_open(shared.dir);
    tmp_path(out, shared.dir, "shim");
    if (!daemon_copy(from, out, uid, gid))
        fail_msg("%s cannot be copied", from);
    assert_int_equal(chown(shared.dir, uid, gid), 0);
}

static void start_server(void)
{
    char shim[TMP_PATH];
    char preload[TMP_PATH + 32];
    char told[TMP_PATH + 32];
    place_shim(shim);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s/full.so", shim);
    snprintf(told, sizeof told, "PAWL_TEST_FULL=%s", shared.dir);
    const char *const environment[] = {preload, told, NULL};
    pgserver_options options = {.environment = environment};
    shared.server = pgserver_start(&options);
    assert_false(pgserver_log_has(shared.server, "cannot be preloaded"));
    pgserver_database(shared.server, shared.database);
    pgserver_url(shared.server, shared.database, shared.url);
    random_seeded random;
    random_seeded_init(&random, 1);
    random.source.fill(&random.source, shared.payload, sizeof shared.payload);
}

/* From now on, or no longer. */
static void say(const char *what, int full)
{
    char path[TMP_PATH];
    tmp_path(path, shared.dir, what);
    if (full)
        tmp_file(path, "", 0);
    else
        unlink(path);
}

static int set_up(void **state)
{
    static fixture s;
    s = (fixture){.count = 0};
    *state = &s;
    tmp_watchdog("a test of a server without room");
    return 0;
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
    if (shared.server) {
        say("tables", 0);
        say("wal", 0);
        say("wal-once", 0);
    }
    committer_close(s->committer);
    if (s->db)
        db_close(s->db);
    free_steps(s);
    ledger_free(&s->ledger);
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

static fixture *fixture_of(void **state)
{
    fixture *s = *state;
    pgserver_need();
    if (!shared.server)
        start_server();
    error err = {0};
    db_options options = {.url = shared.url, .claim_ms = CLAIM_MS};
    committer_options by_hand = {.by_hand = 1};
    CONF_OK(db_open(&s->db, &options, &err), &err);
    CONF_OK(committer_open(&s->committer, s->db, &by_hand, &err), &err);
    s->first_run = shared.runs + 1;
    shared.runs += STEPS_MAX;
    TMP_AWAIT(steps_make_runs(s->committer, s->first_run, STEPS_MAX) == PAWL_OK);
    return s;
}

/* ---- Steps ---- */

static void on_answer(unit *u, void *arg)
{
    sent_step *one = arg;
    ledger_entry e = step_entry(&one->step, u);
    ledger_add(one->ledger, &e);
    if (u->answer == UNIT_UNDECIDED)
        return;
    one->answer = u->answer;
    one->code = u->code;
    snprintf(one->message, sizeof one->message, "%s", u->message ? u->message : "");
    one->finals++;
}

static sent_step *submit_step(fixture *s, int run, int64_t seq, step_kind kind, size_t bytes)
{
    assert_true(s->count < STEPS_MAX);
    sent_step *one = &s->steps[s->count++];
    *one = (sent_step){.ledger = &s->ledger, .arena = arena_new(0)};
    assert_non_null(one->arena);
    one->step = (step){s->first_run + run, seq, ++shared.marks, kind, {shared.payload, bytes}};
    one->unit = step_unit(one->arena, &one->owner, &one->step);
    one->unit->done = on_answer;
    one->unit->done_arg = one;
    committer_submit(s->committer, one->unit);
    return one;
}

static int all_final(const fixture *s)
{
    for (int i = 0; i < s->count; i++)
        if (s->steps[i].finals == 0)
            return 0;
    return 1;
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

/* A step of this size becomes durable; on a slow machine perhaps not with the first try. */
static void expect_to_go_on(fixture *s, int64_t seq, size_t bytes)
{
    const sent_step *one;
    do {
        free_steps(s);
        one = submit_step(s, 0, seq, STEP_GOOD, bytes);
        drive_until_final(s);
    } while (one->code == PAWL_UNREACHABLE);
    assert_int_equal(one->answer, UNIT_COMMITTED);
    check(s);
}

/* ---- Tables that cannot grow ---- */

static void expect_full(const sent_step *one)
{
    assert_int_equal(one->finals, 1);
    assert_int_equal(one->answer, UNIT_FAILED);
    assert_int_equal(one->code, PAWL_FULL);
    assert_non_null(strstr(one->message, "No space left on device"));
    assert_int_equal(pgledger_rows(shared.url, one->step.mark), 0);
}

static void no_room_for_a_row(void **state)
{
    static const step_kind KINDS[] = {STEP_GOOD, STEP_ORDERED};
    fixture *s = fixture_of(state);
    for (int i = 0; i < 2; i++) {
        free_steps(s);
        say("tables", 1);
        const sent_step *big = submit_step(s, 0, 1 + i, KINDS[i], BIG);
        drive_until_final(s);
        expect_full(big);
        check(s);
        say("tables", 0);
        expect_to_go_on(s, 1 + i, BIG);
    }
}

/* A unit that needs no room is not harmed by one that does; the order of a submitter is kept. */
static void no_room_for_one_of_many(void **state)
{
    fixture *s = fixture_of(state);
    expect_to_go_on(s, 1, 10);
    free_steps(s);
    say("tables", 1);
    for (int i = 1; i < STEPS_MAX; i++)
        submit_step(s, i, 1, STEP_GOOD, i == 5 ? BIG : 10);
    drive_until_final(s);
    say("tables", 0);
    expect_full(&s->steps[4]);
    int committed = 0;
    for (int i = 0; i < s->count; i++) {
        const sent_step *one = &s->steps[i];
        committed += one->answer == UNIT_COMMITTED;
        assert_true(one->answer == UNIT_COMMITTED || one->code == PAWL_FULL);
    }
    assert_true(committed > 0); /* a page of an index may be full just now, but not for all */
    check(s);
    expect_to_go_on(s, 2, BIG);
}

/* ---- A log that cannot be written to ---- */

/* The server stops in the middle, starts anew by itself, and finds out what it had. Another of its
 * processes may be the one that meets the full disk; so it is done until it was our commit. */
static void the_log_is_full_once(void **state)
{
    fixture *s = fixture_of(state);
    int64_t seq = 1;
    int rounds = 0;
    while (rounds < 3 || ledger_count(&s->ledger, UNIT_UNDECIDED) == 0) {
        tmp_watchdog("a full log");
        free_steps(s);
        say("wal-once", 1);
        int many = rounds % 3 == 1 ? STEPS_MAX : 1;
        for (int i = 0; i < many; i++)
            submit_step(s, i, i == 0 ? seq : 1, rounds % 3 == 2 ? STEP_ORDERED : STEP_GOOD, 100);
        drive_until_final(s);
        for (int i = 0; i < s->count; i++)
            if (s->steps[i].answer != UNIT_COMMITTED)
                assert_int_equal(s->steps[i].answer, UNIT_FAILED);
        check(s);
        seq += s->steps[0].answer == UNIT_COMMITTED;
        rounds++;
    }
    assert_true(pgserver_log_has(shared.server, "PANIC"));
    assert_int_equal(ledger_unsettled(&s->ledger), 0);
    say("wal-once", 0);
    expect_to_go_on(s, seq, 100);
}

/* There is no room for as long as it takes: the server does not get beyond starting. What was
 * undecided stays so, what came later waits, and in the end all are answered, and rightly. */
static void the_log_stays_full(void **state)
{
    fixture *s = fixture_of(state);
    expect_to_go_on(s, 1, 100);
    free_steps(s);
    say("wal", 1);
    const sent_step *first = submit_step(s, 0, 2, STEP_GOOD, 100);
    TMP_AWAIT((committer_drive(s->committer), PQping(shared.url) != PQPING_OK));
    const sent_step *second = submit_step(s, 1, 1, STEP_GOOD, 100);
    int64_t batches = committer_stats_now(s->committer).batches;
    for (int i = 0; i < 50; i++) {
        committer_drive(s->committer);
        assert_int_not_equal(PQping(shared.url), PQPING_OK);
    }
    assert_int_equal(committer_stats_now(s->committer).batches, batches);
    assert_int_equal(first->finals, 0);
    assert_int_equal(second->finals, 0);
    say("wal", 0);
    pgserver_stop(shared.server, PGSERVER_IMMEDIATE); /* it may have given up */
    pgserver_restart(shared.server);
    drive_until_final(s);
    assert_int_equal(second->answer, UNIT_COMMITTED);
    check(s);
    assert_int_equal(ledger_unsettled(&s->ledger), 0);
    expect_to_go_on(s, first->answer == UNIT_COMMITTED ? 3 : 2, 100);
}

/* ---- No more connections ---- */

enum { CONNECTIONS = 10 };

/* Clients that take all connections there are. */
typedef struct session_list {
    PGconn *members[CONNECTIONS + 1];
    int count;
} session_list;

/* 1: one more got in. */
static int open_session(session_list *c, const char *url)
{
    PGconn *one = PQconnectdb(url);
    if (PQstatus(one) != CONNECTION_OK) {
        assert_non_null(strstr(PQerrorMessage(one), "too many clients"));
        PQfinish(one);
        return 0;
    }
    assert_true(c->count <= CONNECTIONS);
    c->members[c->count++] = one;
    return 1;
}

static void close_sessions(session_list *c)
{
    PQfinish(c->members[--c->count]);
}

static pgserver *start_small_server(char url[PGSERVER_URL])
{
    static const char *const SETTINGS[] = {"max_connections=10", "superuser_reserved_connections=0",
                                           "max_wal_senders=0", "autovacuum=off", NULL};
    char database[PGSERVER_NAME];
    pgserver_options options = {.settings = SETTINGS};
    pgserver *server = pgserver_start(&options);
    pgserver_database(server, database);
    pgserver_url(server, database, url);
    return server;
}

static void too_many_connections(void **state)
{
    (void)state;
    pgserver_need();
    session_list all = {.count = 0};
    error err = {0};
    char url[PGSERVER_URL];
    pgserver *server = start_small_server(url);
    db_options options = {.url = url, .claim_ms = CLAIM_MS, .busy_ms = 300};
    db *d = NULL, *other = NULL;
    committer *k = NULL;
    CONF_OK(db_open(&d, &options, &err), &err);
    CONF_OK(committer_open(&k, d, NULL, &err), &err);
    while (open_session(&all, url))
        continue;

    assert_int_equal(db_open(&other, &options, &err), PAWL_UNREACHABLE);
    assert_non_null(strstr(err.detail, "53300"));
    assert_non_null(strstr(err.hint, "max_connections"));

    /* Another client takes the committer's connection before the committer has missed it. */
    PQclear(PQexec(all.members[0], "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                                   " WHERE application_name = 'pawl'"));
    TMP_AWAIT(open_session(&all, url));
    conf_ticket run, client;
    conf_ticket_append(&run, 1, 1, NULL);
    conf_ticket_append(&client, 2, 1, NULL);
    client.unit->class = UNIT_OF_CLIENT;
    committer_submit(k, run.unit);
    assert_int_equal(committer_commit(k, client.unit), PAWL_UNREACHABLE);
    assert_int_equal(atomic_load(&run.finals), 0);

    close_sessions(&all);
    TMP_AWAIT(atomic_load(&run.finals) > 0);
    CONF_ANSWER(&run, UNIT_COMMITTED);
    while (all.count > 0)
        close_sessions(&all);
    committer_close(k);
    TMP_AWAIT(conf_rows(d, 1) == 1 && conf_rows(d, 2) == 0);
    db_close(d);
    conf_ticket_free(&run);
    conf_ticket_free(&client);
    pgserver_free(server);
}

int main(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(no_room_for_a_row),  TEST(no_room_for_one_of_many), TEST(the_log_is_full_once),
        TEST(the_log_stays_full), TEST(too_many_connections),
    };
    return cmocka_run_group_tests(tests, NULL, end_server);
}
