/* What a node cannot do for one run, because the database fails it each time: claim the run, or
 * read its journal. It is tried again with a back-off, told, and at last held where that is no
 * trouble that passes; other runs go on meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rows/run_units.h"
#include "support/engine_fixture.h"

enum { BEGUN, ENDED, HELD, RELEASED, LOST, UNDONE, REDONE, EVENTS, SECONDS = 10 };

/* An engine that is driven by hand, on a database whose calls are counted, and fail. */
typedef struct failing_fixture {
    engine_fixture *fixture;
    db_fault plan;
    const char *counts; /* calls with this in their SQL are counted, … */
    int count;
    int times; /* … and so many of them fail */
    pawl *p;
    pawl *client; /* is no node: what it starts is claimed by the other one */
} failing_fixture;

static void meet(void *arg, int64_t number, fault_call call, const char *sql)
{
    failing_fixture *f = arg;
    if (call != FAULT_CALL_NEXT || !f->counts || !strstr(sql, f->counts))
        return;
    f->count++;
    if (f->times == 0)
        return;
    f->times--;
    f->plan.fail_call = number;
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    static const char *const NAMES[EVENTS][2] = {{"claim-failed", "run-unread"},
                                                 {"claim-failed-ended", "run-unread-ended"},
                                                 {"run-held", "run-held"},
                                                 {"run-released", "run-released"},
                                                 {"turn-lost", "turn-lost"},
                                                 {"turn-undone", "turn-undone"},
                                                 {"turn-undone-ended", "turn-undone-ended"}};
    (void)level;
    if (strcmp(event, "turn-lost") == 0 || strcmp(event, "turn-undone") == 0)
        fixture_note(arg, "%s", strstr(fields, "why="));
    for (int i = 0; i < EVENTS; i++)
        if ((strcmp(event, NAMES[i][0]) == 0 || strcmp(event, NAMES[i][1]) == 0) &&
            strstr(fields, "run=victim"))
            atomic_fetch_add(fixture_number(arg, i), 1);
}

static int heard(failing_fixture *f, int which)
{
    return (int)atomic_load(fixture_number(f->fixture, which));
}

static const char *harmless(pawl_run *run, const char *input)
{
    return FIXTURE_ECHO(run, "step", input);
}

static failing_fixture *open_failing(conf *c, const char *counts)
{
    failing_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->fixture = fixture_new(c);
    f->counts = counts;
    f->plan = (db_fault){.before = meet, .before_arg = f};
    f->p = fixture_open_fault(
        f->fixture, PAWL_OPTIONS(.threads = -1, .log = hear, .log_arg = f->fixture), &f->plan);
    f->client = fixture_open(f->fixture, NULL);
    FIXTURE_REGISTER(f->fixture, f->p, harmless);
    FIXTURE_REGISTER(f->fixture, f->client, harmless);
    return f;
}

static void close_failing(failing_fixture *f)
{
    pawl_close(f->client);
    pawl_close(f->p);
    fixture_free(f->fixture);
    free(f);
}

static void expect_why(failing_fixture *f, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(f->fixture, f->p, pawl_why(f->p, "victim", &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
    pawl_free(why);
}

/* Not until there is nothing to do: that may be never. */
static void drive_for(failing_fixture *f, int64_t ms)
{
    for (int64_t past = 0; past < ms; past += 100) {
        FIXTURE_CODE(f->fixture, f->p, pawl_poll(f->p, NULL), PAWL_OK);
        fixture_advance(f->fixture, 100);
    }
}

static void another_is_done(failing_fixture *f, pawl *starts, const char *id)
{
    fixture_start(f->fixture, starts, "harmless", id, "1");
    drive_for(f, 2000);
    assert_int_equal(fixture_phase(f->fixture, f->client, id), PAWL_RUN_DONE);
}

/* ---- Claims ---- */

static void refuse_the_claim(conf *c)
{
    conf_change(c,
                "CREATE TRIGGER keep BEFORE UPDATE OF owner ON pawl_runs WHEN NEW.id = 'victim'"
                " BEGIN SELECT RAISE(ABORT, 'not this one'); END",
                "CREATE FUNCTION public.keep() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF NEW.id = 'victim' THEN RAISE EXCEPTION 'not this one'; END IF;"
                " RETURN NEW; END $$;"
                " CREATE TRIGGER keep BEFORE UPDATE OF owner ON pawl.runs"
                " FOR EACH ROW EXECUTE FUNCTION public.keep()");
}

static void allow_the_claim(conf *c)
{
    conf_change(c, "DROP TRIGGER keep", "DROP TRIGGER keep ON pawl.runs");
}

static void refuse_the_hold(conf *c)
{
    conf_change(c,
                "CREATE TRIGGER keep BEFORE UPDATE OF held ON pawl_runs WHEN NEW.held <> 0"
                " BEGIN SELECT RAISE(ABORT, 'no holds'); END",
                "CREATE FUNCTION public.keep_free() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF NEW.held <> 0 THEN RAISE EXCEPTION 'no holds'; END IF; RETURN NEW; END $$;"
                " CREATE TRIGGER keep BEFORE UPDATE OF held ON pawl.runs"
                " FOR EACH ROW EXECUTE FUNCTION public.keep_free()");
}

static void allow_the_hold(conf *c)
{
    allow_the_claim(c);
}

static const char CLAIM[] = "claims = CASE WHEN held";

static void a_claim_that_fails(conf *c)
{
    FIXTURE_BY_HAND();
    failing_fixture *f = open_failing(c, CLAIM);
    refuse_the_claim(c);
    fixture_start(f->fixture, f->client, "harmless", "victim", "1");
    drive_for(f, SECONDS * 1000);
    assert_in_range(f->count, 2, SECONDS);
    assert_int_equal(heard(f, BEGUN), 1);
    expect_why(f, "the run could not be claimed here");
    expect_why(f, "not this one");
    another_is_done(f, f->client, "other");
    assert_int_equal(heard(f, ENDED), 0);
    allow_the_claim(c);
    FIXTURE_UNTIL(f->fixture, f->p,
                  fixture_phase(f->fixture, f->client, "victim") == PAWL_RUN_DONE);
    assert_int_equal(heard(f, BEGUN), 1);
    assert_int_equal(heard(f, ENDED), 1);
    close_failing(f);
}

/* When others are committed the trouble is the run's own, and each pause is longer than the one
 * before. */
static void a_back_off_that_grows(conf *c)
{
    FIXTURE_BY_HAND();
    failing_fixture *f = open_failing(c, CLAIM);
    refuse_the_claim(c);
    fixture_start(f->fixture, f->client, "harmless", "victim", "1");
    for (int i = 0; i < 30; i++) {
        char id[32];
        snprintf(id, sizeof id, "other %d", i);
        another_is_done(f, f->p, id); /* which needs no claim */
    }
    assert_in_range(f->count, 4, 10);
    allow_the_claim(c);
    FIXTURE_UNTIL(f->fixture, f->p,
                  fixture_phase(f->fixture, f->client, "victim") == PAWL_RUN_DONE);
    close_failing(f);
}

/* The log tells of a hold that is there, and of a release that has succeeded, and of no attempt. */
static void a_held_run_that_cannot_be_claimed(conf *c)
{
    FIXTURE_BY_HAND();
    failing_fixture *f = open_failing(c, NULL);
    refuse_the_hold(c);
    fixture_start(f->fixture, f->client, "rare", "victim", "1");
    drive_for(f, 3 * SECONDS * 1000);
    assert_int_equal(heard(f, BEGUN), 1);
    assert_int_equal(heard(f, HELD), 0);
    allow_the_hold(c);
    FIXTURE_HELD(f->fixture, f->p, "victim", "no node has rare");
    assert_int_equal(heard(f, ENDED), 1);
    assert_int_equal(heard(f, HELD), 1);
    refuse_the_claim(c);
    fixture_register(f->fixture, f->p, "rare", harmless);
    drive_for(f, 3 * SECONDS * 1000);
    assert_int_equal(heard(f, BEGUN), 2);
    assert_int_equal(heard(f, RELEASED), 0);
    allow_the_claim(c);
    FIXTURE_UNTIL(f->fixture, f->p,
                  fixture_phase(f->fixture, f->client, "victim") == PAWL_RUN_DONE);
    assert_int_equal(heard(f, RELEASED), 1);
    assert_int_equal(heard(f, HELD), 1);
    close_failing(f);
}

/* ---- Reading ---- */

static const char JOURNAL[] = "SELECT seq, kind, op, name, at, data";

/* The journal of a run that was never claimed is not read, unless its input is too large for the
 * row of the run, and stands in the journal. */
static failing_fixture *open_unread(conf *c, pawl_code code, int times)
{
    char input[2 * RUN_SMALL];
    failing_fixture *f = open_failing(c, JOURNAL);
    f->plan.fail_code = code;
    f->times = times;
    snprintf(input, sizeof input, "\"%0*d\"", RUN_SMALL, 0);
    fixture_start(f->fixture, f->client, "harmless", "victim", input);
    FIXTURE_UNTIL(f->fixture, f->p, f->count >= 2);
    expect_why(f, "the rows of the run could not be read here, 2 times in a row");
    expect_why(f, pawl_code_name(code));
    assert_int_equal(heard(f, BEGUN), 1);
    return f;
}

static void end_unread(failing_fixture *f, int ends)
{
    f->times = 0;
    FIXTURE_UNTIL(f->fixture, f->p,
                  fixture_phase(f->fixture, f->client, "victim") == PAWL_RUN_DONE);
    FIXTURE_NOTES(f->fixture, "step");
    assert_int_equal(heard(f, BEGUN), 1);
    assert_int_equal(heard(f, ENDED), ends);
    close_failing(f);
}

/* It does not get better by itself: the run is held, and waits for an operator. Its hold is told,
 * and is the end of what was told before. */
static void a_journal_that_is_damaged(conf *c)
{
    FIXTURE_BY_HAND();
    failing_fixture *f = open_unread(c, PAWL_CORRUPT, INT_MAX);
    FIXTURE_HELD(f->fixture, f->p, "victim",
                 "the rows of the run could not be read, 5 times in a row");
    assert_int_equal(f->count, 5);
    drive_for(f, SECONDS * 1000);
    assert_int_equal(f->count, 5);
    assert_int_equal(heard(f, HELD), 1);
    FIXTURE_CODE(f->fixture, f->p, pawl_release(f->p, "victim"), PAWL_OK);
    end_unread(f, 0);
}

static void a_hold_that_is_not_committed(conf *c)
{
    FIXTURE_BY_HAND();
    failing_fixture *f = open_unread(c, PAWL_CORRUPT, INT_MAX);
    refuse_the_hold(c);
    drive_for(f, 6 * SECONDS * 1000);
    assert_int_equal(f->count, 5);
    assert_int_equal(heard(f, HELD), 0);
    allow_the_hold(c);
    FIXTURE_HELD(f->fixture, f->p, "victim", "could not be read, 5 times in a row");
    assert_int_equal(heard(f, HELD), 1);
    FIXTURE_CODE(f->fixture, f->p, pawl_release(f->p, "victim"), PAWL_OK);
    end_unread(f, 0);
}

/* It passes: the run is not held, and tried more and more seldom. */
static void a_disk_that_cannot_be_read(conf *c)
{
    FIXTURE_BY_HAND();
    failing_fixture *f = open_unread(c, PAWL_IO, INT_MAX);
    drive_for(f, 60 * SECONDS * 1000);
    assert_in_range(f->count, 10, 40);
    assert_int_equal(heard(f, HELD), 0);
    end_unread(f, 1);
}

/* ---- Turns that come to nothing ---- */

static const char *sleeping(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_SECONDS(5));
    return input;
}

static failing_fixture *open_asleep(conf *c)
{
    failing_fixture *f = open_failing(c, NULL);
    FIXTURE_REGISTER(f->fixture, f->p, sleeping);
    fixture_start(f->fixture, f->client, "sleeping", "victim", "1");
    drive_for(f, 2000);
    return f;
}

static void a_run_that_another_node_takes(conf *c)
{
    FIXTURE_BY_HAND();
    if (!FIXTURE_WARM) /* otherwise the run is not in memory, and its row is looked at first */
        skip();
    failing_fixture *f = open_asleep(c);
    conf_change(c, "UPDATE pawl_runs SET fence = fence + 1, owner = owner + 1000",
                "UPDATE pawl.runs SET fence = fence + 1, owner = owner + 1000");
    drive_for(f, SECONDS * 1000);
    FIXTURE_NOTES(f->fixture, "why=\"another node has the run\"");
    assert_int_equal(heard(f, LOST), 1);
    close_failing(f);
}

static void a_run_that_is_deleted(conf *c)
{
    FIXTURE_BY_HAND();
    if (!FIXTURE_WARM) /* otherwise the run is not in memory, and its row is looked at first */
        skip();
    failing_fixture *f = open_asleep(c);
    FIXTURE_CODE(f->fixture, f->client, pawl_delete(f->client, "victim", 1), PAWL_OK);
    drive_for(f, SECONDS * 1000);
    FIXTURE_NOTES(f->fixture, "why=\"the run was deleted\"");
    assert_int_equal(heard(f, LOST), 1);
    close_failing(f);
}

static const char *in_transaction(pawl_work *work, void *native, const char *input)
{
    (void)work, (void)native;
    return input;
}

static const char *transacting(pawl_run *run, const char *input)
{
    return pawl_transact(run, "order", in_transaction, input, NULL);
}

/* Nothing that was done stays, so no turn is lost: told once, however often it is tried. */
static void a_transaction_that_is_rolled_back(conf *c)
{
    FIXTURE_BY_HAND();
    failing_fixture *f = open_failing(c, NULL);
    FIXTURE_REGISTER(f->fixture, f->p, transacting);
    conf_change(c,
                "CREATE TRIGGER keep BEFORE INSERT ON pawl_journal WHEN NEW.name = 'order'"
                " BEGIN SELECT abs(-9223372036854775807 - 1); END",
                "CREATE FUNCTION public.overflow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                " IF NEW.name = 'order' THEN RAISE EXCEPTION 'overflow' USING ERRCODE = 'Z0001';"
                " END IF; RETURN NEW; END $$; CREATE TRIGGER keep BEFORE INSERT ON pawl.journal"
                " FOR EACH ROW EXECUTE FUNCTION public.overflow()");
    fixture_start(f->fixture, f->client, "transacting", "victim", "1");
    drive_for(f, SECONDS * 1000);
    FIXTURE_NOTES(f->fixture,
                  c->server ? "why=\"the transaction of its step was rolled back: overflow"
                              " (PostgreSQL Z0001)\""
                            : "why=\"the transaction of its step was rolled back: integer overflow"
                              " (SQLite 1)\"");
    assert_int_equal(heard(f, UNDONE), 1);
    assert_int_equal(heard(f, REDONE), 0);
    assert_int_equal(fixture_phase(f->fixture, f->client, "victim"), PAWL_RUN_HELD);
    conf_change(c, "DROP TRIGGER keep", "DROP TRIGGER keep ON pawl.journal");
    FIXTURE_CODE(f->fixture, f->client, pawl_release(f->client, "victim"), PAWL_OK);
    FIXTURE_UNTIL(f->fixture, f->p,
                  fixture_phase(f->fixture, f->client, "victim") == PAWL_RUN_DONE);
    assert_int_equal(heard(f, UNDONE), 1);
    assert_int_equal(heard(f, REDONE), 1);
    assert_int_equal(heard(f, LOST), 0);
    close_failing(f);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a claim that fails", a_claim_that_fails, DB_DURABLE},
        {"a back-off that grows", a_back_off_that_grows, DB_DURABLE},
        {"a held run that cannot be claimed", a_held_run_that_cannot_be_claimed, DB_DURABLE},
        {"a hold that is not committed", a_hold_that_is_not_committed, DB_DURABLE},
        {"a journal that is damaged", a_journal_that_is_damaged, DB_DURABLE},
        {"a disk that cannot be read", a_disk_that_cannot_be_read, DB_DURABLE},
        {"a run that another node takes", a_run_that_another_node_takes, DB_DURABLE},
        {"a run that is deleted", a_run_that_is_deleted, DB_DURABLE},
        {"a transaction that is rolled back", a_transaction_that_is_rolled_back, DB_DURABLE},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
