/* Rows of runs that cannot be read, one or all of them: a damaged page, a right that is missing, a
 * disk. One run that cannot be read stops no other, where the node looks for what is due and where
 * it looks for what has arrived; a look that fails as a whole is told, and goes on by itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"
#include "sched/sched.h"
#include "support/engine_fixture.h"

enum { UNREAD, UNREAD_ENDED, CLAIM_FAILED, CLAIM_ENDED, LOOK_FAILED, LOOK_ENDED, EVENTS };

enum { OTHERS = 20, TICK_MS = 100 };

/* An engine that is driven by hand, with room for no fiber that waits, on a database of which some
 * rows cannot be read. */
typedef struct unreadable_fixture {
    engine_fixture *fixture;
    db_fault plan;
    const char *fails; /* calls with this in their SQL fail; NULL: none */
    int64_t count;     /* how many did */
    int64_t reads;     /* how often the row of one dormant run was read alone */
    pawl *p;
    pawl *client; /* is no node */
} unreadable_fixture;

static void meet(void *arg, int64_t number, fault_call call, const char *sql)
{
    unreadable_fixture *f = arg;
    f->reads += call == FAULT_CALL_BIND && strstr(sql, "AND r.run = $2") != NULL;
    if (call != FAULT_CALL_NEXT || !f->fails || !strstr(sql, f->fails))
        return;
    f->count++;
    f->plan.fail_call = number;
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    static const char *const NAMES[EVENTS] = {"run-unread",   "run-unread-ended",
                                              "claim-failed", "claim-failed-ended",
                                              "look-failed",  "look-failed-ended"};
    (void)level;
    for (int i = 0; i < EVENTS; i++)
        if (strcmp(event, NAMES[i]) == 0 && (i >= LOOK_FAILED || strstr(fields, "run=victim")))
            atomic_fetch_add(fixture_number(arg, i), 1);
}

static int heard(const unreadable_fixture *f, int which)
{
    return (int)atomic_load(fixture_number(f->fixture, which));
}

static const char *sleeping(pawl_run *run, const char *input)
{
    pawl_sleep(run, pawl_get_int(input, "", 0));
    return input;
}

static const char *hearing(pawl_run *run, const char *input)
{
    const char *message = NULL;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    return message ? message : input;
}

static const char *harmless(pawl_run *run, const char *input)
{
    return FIXTURE_ECHO(run, "step", input);
}

static unreadable_fixture *open_unreadable(conf *c, pawl_code code, int64_t warm_bytes)
{
    unreadable_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->fixture = fixture_new(c);
    f->plan = (db_fault){
        .before = meet, .before_arg = f, .fail_code = code, .fail_ends = c->server != NULL};
    f->p = fixture_open_fault(
        f->fixture,
        PAWL_OPTIONS(.threads = -1, .warm_bytes = warm_bytes, .log = hear, .log_arg = f->fixture),
        &f->plan);
    f->client = fixture_open(f->fixture, NULL);
    FIXTURE_REGISTER(f->fixture, f->p, sleeping);
    FIXTURE_REGISTER(f->fixture, f->p, hearing);
    FIXTURE_REGISTER(f->fixture, f->p, harmless);
    fixture_poll(f->fixture, f->p);
    return f;
}

static void close_unreadable(unreadable_fixture *f)
{
    pawl_close(f->client);
    pawl_close(f->p);
    fixture_free(f->fixture);
    free(f);
}

static void drive_for(unreadable_fixture *f, int64_t ms)
{
    for (int64_t past = 0; past < ms; past += TICK_MS) {
        FIXTURE_CODE(f->fixture, f->p, pawl_poll(f->p, NULL), PAWL_OK);
        fixture_advance(f->fixture, TICK_MS);
    }
}

static void name_other(char id[32], int number)
{
    snprintf(id, 32, "other-%d", number);
}

static void start_others(unreadable_fixture *f, pawl *p, const char *name, const char *input)
{
    for (int i = 0; i < OTHERS; i++) {
        char id[32];
        name_other(id, i);
        fixture_start(f->fixture, p, name, id, input);
    }
}

static void start_all(unreadable_fixture *f, pawl *p, const char *name, const char *victims,
                      const char *others)
{
    fixture_start(f->fixture, p, name, "victim", victims);
    start_others(f, p, name, others);
}

static int count_done(unreadable_fixture *f)
{
    int done = 0;
    for (int i = 0; i < OTHERS; i++) {
        char id[32];
        name_other(id, i);
        done += fixture_phase(f->fixture, f->client, id) == PAWL_RUN_DONE;
    }
    return done;
}

/* From now on rows of the victim cannot be read by statements with this in their SQL. */
static void damage(unreadable_fixture *f, const char *rows)
{
    static const db_sql KEY = {"SELECT run FROM {runs} WHERE id = 'victim'", ""};
    f->plan.bad_run = conf_number(handle_db(f->client), &KEY, NULL, 0);
    f->plan.bad_rows = rows;
}

static void expect_why(unreadable_fixture *f, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(f->fixture, f->p, pawl_why(f->p, "victim", &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
    pawl_free(why);
}

/* The victim's row is whole again. */
static void repair(unreadable_fixture *f, int begun, int ended)
{
    assert_int_equal(fixture_phase(f->fixture, f->client, "victim"), PAWL_RUN_LIVE);
    assert_int_equal(heard(f, begun), 1);
    assert_int_equal(heard(f, ended), 0);
    f->plan.bad_rows = NULL;
    drive_for(f, 32000);
    assert_int_equal(fixture_phase(f->fixture, f->client, "victim"), PAWL_RUN_DONE);
    assert_int_equal(heard(f, begun), 1);
    assert_int_equal(heard(f, ended), 1);
    close_unreadable(f);
}

/* ---- One row ---- */

static const char CLAIMS[] = "r.id, r.workflow";

static void one_that_sleeps(conf *c, pawl_code code)
{
    unreadable_fixture *f = open_unreadable(c, code, 1);
    start_all(f, f->p, "sleeping", "1000", "2000");
    fixture_poll(f->fixture, f->p);
    assert_int_equal(sched_run_count(handle_sched(f->p)), 0);
    damage(f, CLAIMS);
    drive_for(f, 4000);
    assert_int_equal(count_done(f), OTHERS);
    expect_why(f, "the row of the run could not be read");
    expect_why(f, pawl_code_name(code));
    repair(f, UNREAD, UNREAD_ENDED);
}

static void a_sleeping_run_with_a_damaged_row(conf *c)
{
    FIXTURE_BY_HAND();
    one_that_sleeps(c, PAWL_CORRUPT);
}

static void a_sleeping_run_on_a_bad_disk(conf *c)
{
    FIXTURE_BY_HAND();
    one_that_sleeps(c, PAWL_IO);
}

static void a_sleeping_run_with_a_row_that_is_too_large(conf *c)
{
    FIXTURE_BY_HAND();
    one_that_sleeps(c, PAWL_NOMEM);
}

/* It is tried more and more seldom, and what is due meanwhile comes back in time. */
static void a_run_that_cannot_be_read_is_passed_over(conf *c)
{
    FIXTURE_BY_HAND();
    unreadable_fixture *f = open_unreadable(c, PAWL_CORRUPT, 1);
    start_all(f, f->p, "sleeping", "1000", "2000");
    fixture_poll(f->fixture, f->p);
    damage(f, CLAIMS);
    for (int i = 0; i < 40; i++) {
        char id[32];
        snprintf(id, sizeof id, "late-%d", i);
        fixture_start(f->fixture, f->p, "sleeping", id, "1000");
        drive_for(f, 2000);
        assert_int_equal(fixture_phase(f->fixture, f->client, id), PAWL_RUN_DONE);
    }
    assert_int_equal(count_done(f), OTHERS);
    repair(f, UNREAD, UNREAD_ENDED);
}

/* It comes back as soon as it is tried again, a second later. */
static void a_failure_that_passes(conf *c)
{
    FIXTURE_BY_HAND();
    unreadable_fixture *f = open_unreadable(c, PAWL_CORRUPT, 1);
    start_all(f, f->p, "sleeping", "1000", "1000");
    fixture_poll(f->fixture, f->p);
    damage(f, CLAIMS);
    drive_for(f, 1500);
    assert_int_equal(count_done(f), OTHERS);
    f->plan.bad_rows = NULL;
    drive_for(f, 1500);
    assert_int_equal(fixture_phase(f->fixture, f->client, "victim"), PAWL_RUN_DONE);
    close_unreadable(f);
}

/* Messages do not make it be tried more often. */
static void a_called_run_that_cannot_be_read(conf *c)
{
    FIXTURE_BY_HAND();
    unreadable_fixture *f = open_unreadable(c, PAWL_CORRUPT, 1);
    start_all(f, f->p, "hearing", "1", "1");
    fixture_poll(f->fixture, f->p);
    assert_int_equal(sched_run_count(handle_sched(f->p)), 0);
    damage(f, CLAIMS);
    FIXTURE_CODE(f->fixture, f->p, pawl_send(f->p, "victim", "box", "7", NULL), PAWL_OK);
    for (int i = 0; i < OTHERS; i++) {
        char id[32];
        name_other(id, i);
        FIXTURE_CODE(f->fixture, f->p, pawl_send(f->p, id, "box", "7", NULL), PAWL_OK);
    }
    drive_for(f, 1000);
    assert_int_equal(count_done(f), OTHERS);
    f->reads = 0;
    for (int i = 0; i < 40; i++) {
        FIXTURE_CODE(f->fixture, f->p, pawl_send(f->p, "victim", "other", "7", NULL), PAWL_OK);
        drive_for(f, TICK_MS);
    }
    /* A bind for each of two values, twice where the row is one of several first. */
    assert_in_range(f->reads, 2, 24);
    repair(f, UNREAD, UNREAD_ENDED);
}

static void a_run_to_be_claimed_that_cannot_be_read(conf *c)
{
    FIXTURE_BY_HAND();
    unreadable_fixture *f = open_unreadable(c, PAWL_CORRUPT, 0);
    fixture_start(f->fixture, f->client, "harmless", "victim", "1");
    damage(f, CLAIMS);
    fixture_advance(f->fixture, 10);
    start_others(f, f->client, "harmless", "1");
    drive_for(f, 3000);
    assert_int_equal(count_done(f), OTHERS);
    expect_why(f, "the run could not be claimed here");
    expect_why(f, pawl_code_name(PAWL_CORRUPT));
    repair(f, CLAIM_FAILED, CLAIM_ENDED);
}

/* They are in memory, and a message of another process comes for each. The victim's row can be read
 * again by other statements. */
static void a_run_with_a_message_that_cannot_be_read(conf *c)
{
    FIXTURE_BY_HAND();
    if (!FIXTURE_WARM)
        skip();
    unreadable_fixture *f = open_unreadable(c, PAWL_CORRUPT, 0);
    start_all(f, f->p, "hearing", "1", "1");
    fixture_poll(f->fixture, f->p);
    assert_int_equal(sched_run_count(handle_sched(f->p)), OTHERS + 1);
    damage(f, "mail, cancel_at");
    FIXTURE_CODE(f->fixture, f->client, pawl_send(f->client, "victim", "box", "7", NULL), PAWL_OK);
    fixture_advance(f->fixture, 10);
    for (int i = 0; i < OTHERS; i++) {
        char id[32];
        name_other(id, i);
        FIXTURE_CODE(f->fixture, f->client, pawl_send(f->client, id, "box", "7", NULL), PAWL_OK);
    }
    drive_for(f, 3000);
    assert_int_equal(count_done(f), OTHERS);
    f->plan.bad_rows = NULL;
    drive_for(f, 2000);
    assert_int_equal(fixture_phase(f->fixture, f->client, "victim"), PAWL_RUN_DONE);
    close_unreadable(f);
}

/* ---- A look that fails as a whole ---- */

static void a_look_fails(unreadable_fixture *f, const char *sql, const char *words)
{
    f->fails = sql;
    drive_for(f, 20000);
    assert_in_range(f->count, 20, 400); /* it pauses between two tries, and tries few single rows */
    assert_int_equal(heard(f, LOOK_FAILED), 1);
    assert_int_equal(heard(f, LOOK_ENDED), 0);
    assert_int_equal(count_done(f), 0);
    expect_why(f, words);
    expect_why(f, pawl_code_name(f->plan.fail_code));
    f->fails = NULL;
    drive_for(f, 2000);
    assert_int_equal(count_done(f), OTHERS);
    assert_int_equal(heard(f, LOOK_FAILED), 1);
    assert_int_equal(heard(f, LOOK_ENDED), 1);
    close_unreadable(f);
}

static void no_sleeper_can_be_read(conf *c)
{
    FIXTURE_BY_HAND();
    unreadable_fixture *f = open_unreadable(c, PAWL_DENIED, 1);
    start_all(f, f->p, "sleeping", "1000", "2000");
    fixture_poll(f->fixture, f->p);
    a_look_fails(f, "SELECT run, wake_at FROM", "which of its sleeping runs are due");
}

static void nothing_can_be_claimed(conf *c)
{
    FIXTURE_BY_HAND();
    unreadable_fixture *f = open_unreadable(c, PAWL_STORAGE, 0);
    start_all(f, f->client, "harmless", "1", "1");
    a_look_fails(f, "r.wake_at <= $2", "which runs are due that have no owner");
}

/* A node of another build could go on with the run; whether this one can is not known. */
static void no_held_run_can_be_read(conf *c)
{
    FIXTURE_BY_HAND();
    unreadable_fixture *f = open_unreadable(c, PAWL_DENIED, 0);
    fixture_start(f->fixture, f->client, "unknown", "victim", "1");
    drive_for(f, 30000);
    assert_int_equal(fixture_phase(f->fixture, f->client, "victim"), PAWL_RUN_HELD);
    f->fails = "r.version = $3";
    drive_for(f, 20000);
    assert_int_equal(heard(f, LOOK_FAILED), 1);
    assert_int_equal(heard(f, LOOK_ENDED), 0);
    f->fails = NULL;
    drive_for(f, 20000);
    assert_int_equal(heard(f, LOOK_FAILED), 1);
    assert_int_equal(heard(f, LOOK_ENDED), 1);
    close_unreadable(f);
}

/* The run is held since no node has its workflow, so that only the node loop sees its deadline. */
static void no_deadline_of_a_held_run_can_be_read(conf *c)
{
    FIXTURE_BY_HAND();
    unreadable_fixture *f = open_unreadable(c, PAWL_DENIED, 0);
    FIXTURE_CODE(f->fixture, f->client,
                 pawl_start(f->client, "unknown", "victim", "1", PAWL_START(.deadline_ms = 40000)),
                 PAWL_OK);
    drive_for(f, 30000);
    assert_int_equal(fixture_phase(f->fixture, f->client, "victim"), PAWL_RUN_HELD);
    f->fails = "deadline_at <= $1";
    drive_for(f, 20000);
    assert_int_equal(heard(f, LOOK_FAILED), 1);
    assert_int_equal(heard(f, LOOK_ENDED), 0);
    assert_int_equal(fixture_phase(f->fixture, f->client, "victim"), PAWL_RUN_HELD);
    f->fails = NULL;
    drive_for(f, 5000);
    assert_int_equal(heard(f, LOOK_FAILED), 1);
    assert_int_equal(heard(f, LOOK_ENDED), 1);
    FIXTURE_CODE(f->fixture, f->client, pawl_wait(f->client, "victim", 0, NULL), PAWL_CANCELLED);
    close_unreadable(f);
}

/* A finish that cannot read its run, or its children, waits; the log says why. It is over when the
 * finish is. */
static void a_finish_cannot_read(conf *c)
{
    static const char *const READS[] = {"r.id = $2 AND r.phase", "FROM family f JOIN"};
    FIXTURE_BY_HAND();
    unreadable_fixture *f = open_unreadable(c, PAWL_DENIED, 0);
    fixture_run_clock(f->fixture);
    fixture_start(f->fixture, f->client, "hearing", "victim", "1");
    for (int i = 0; i < 2; i++) {
        f->fails = READS[i];
        for (int rounds = 0; heard(f, LOOK_FAILED) == i && rounds < 20; rounds++)
            FIXTURE_CODE(f->fixture, f->p, pawl_finish(f->p, "victim", 4000, NULL), PAWL_TIMEOUT);
        assert_int_equal(heard(f, LOOK_FAILED), i + 1);
        assert_int_equal(heard(f, LOOK_ENDED), i + 1);
    }
    f->fails = NULL;
    FIXTURE_CODE(f->fixture, f->p, pawl_send(f->p, "victim", "box", "7", NULL), PAWL_OK);
    FIXTURE_CODE(f->fixture, f->p, pawl_finish(f->p, "victim", PAWL_FOREVER, NULL), PAWL_OK);
    close_unreadable(f);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a sleeping run with a damaged row", a_sleeping_run_with_a_damaged_row, DB_DURABLE},
        {"a sleeping run on a bad disk", a_sleeping_run_on_a_bad_disk, DB_DURABLE},
        {"a sleeping run with a row that is too large", a_sleeping_run_with_a_row_that_is_too_large,
         DB_DURABLE},
        {"a run that cannot be read is passed over", a_run_that_cannot_be_read_is_passed_over,
         DB_DURABLE},
        {"a failure that passes", a_failure_that_passes, DB_DURABLE},
        {"a called run that cannot be read", a_called_run_that_cannot_be_read, DB_DURABLE},
        {"a run to be claimed that cannot be read", a_run_to_be_claimed_that_cannot_be_read,
         DB_DURABLE},
        {"a run with a message that cannot be read", a_run_with_a_message_that_cannot_be_read,
         DB_DURABLE},
        {"no sleeper can be read", no_sleeper_can_be_read, DB_DURABLE},
        {"nothing can be claimed", nothing_can_be_claimed, DB_DURABLE},
        {"no held run can be read", no_held_run_can_be_read, DB_DURABLE},
        {"no deadline of a held run can be read", no_deadline_of_a_held_run_can_be_read,
         DB_DURABLE},
        {"a finish cannot read", a_finish_cannot_read, DB_DURABLE},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
