/* The prefix rule (rule 3, A4e), and units that are empty, huge or broken.
 *
 * Once a unit of a submitter was not committed, none of its later units is: a journal never has a
 * hole. That holds within a batch, over batches, and whatever the reason was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "support/committer_fixture.h"

static const db_sql NEVER = {"UPDATE {meta} SET number = 1 WHERE name = $1 RETURNING number", "t"};
static const db_sql COUNT_META = {"SELECT count(*) FROM {meta} WHERE name = $1", "t"};
static const db_sql ADD_META = {"INSERT INTO {meta} (name, number) VALUES ($1, 0)", "t"};

static void commit_all(committer_fixture *b, conf_ticket *tickets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        committer_submit(b->k, tickets[i].unit);
    conf_drive(b->k, NULL, tickets, count);
}

/* A unit that never passes its guard. */
static void ticket_refused(conf_ticket *t, submitter *s)
{
    conf_ticket_open(t, 0);
    t->unit->submitter = s;
    unit_guard(t->unit, &NEVER, "never", unit_key("meta", 1),
               VALUES(db_text(SLICE_LIT("test.never"))));
}

static void expect_prefix(const conf_ticket *t)
{
    CONF_ANSWER(t, UNIT_REFUSED);
    assert_string_equal(t->unit->refused, "prefix");
}

static void after_a_unit_that_failed_no_unit_of_its_submitter_is_committed(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    submitter one = {0};
    submitter two = {0};
    conf_ticket t[6];
    conf_ticket_append(&t[0], 1, 1, &one);
    conf_ticket_append(&t[1], 2, 1, &two);
    conf_ticket_append(&t[2], 1, 1, &one); /* the same place again: fails */
    conf_ticket_append(&t[3], 1, 2, &one);
    conf_ticket_append(&t[4], 2, 2, &two);
    conf_ticket_append(&t[5], 1, 3, &one);
    commit_all(&b, t, 6);
    assert_int_equal(committer_stats_now(b.k).batches, 1);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    CONF_ANSWER(&t[2], UNIT_FAILED);
    expect_prefix(&t[3]);
    CONF_ANSWER(&t[4], UNIT_COMMITTED);
    expect_prefix(&t[5]);
    assert_int_equal(conf_rows(b.db, 1), 1);
    assert_int_equal(conf_rows(b.db, 2), 2);
    conf_tickets_free(t, 6);
    committer_fixture_close(&b);
}

static void after_a_unit_that_was_refused_no_unit_of_its_submitter_is_committed(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    submitter s = {0};
    conf_ticket t[3];
    conf_ticket_append(&t[0], 1, 1, &s);
    ticket_refused(&t[1], &s);
    conf_ticket_append(&t[2], 1, 2, &s);
    commit_all(&b, t, 3);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_REFUSED);
    expect_prefix(&t[2]);
    assert_int_equal(conf_rows(b.db, 1), 1);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

/* A unit that is refused alone needs no transaction; the rule holds all the same, later too. */
static void the_rule_reaches_over_batches(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    submitter s = {0};
    conf_ticket t[4];
    ticket_refused(&t[0], &s);
    commit_all(&b, &t[0], 1);
    conf_ticket_append(&t[1], 1, 1, &s);
    commit_all(&b, &t[1], 1);
    conf_ticket_append(&t[2], 1, 2, &s);
    conf_ticket_append(&t[3], 2, 1, NULL);
    commit_all(&b, &t[2], 2);
    assert_int_equal(committer_stats_now(b.k).batches, 3);
    expect_prefix(&t[1]);
    expect_prefix(&t[2]);
    CONF_ANSWER(&t[3], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, 1), 0);
    conf_tickets_free(t, 4);
    committer_fixture_close(&b);
}

static void the_rule_reaches_over_a_cut_batch(conf *c)
{
    committer_fixture b = committer_fixture_open_with(c, &(committer_options){.batch_units = 2});
    submitter s = {0};
    conf_ticket t[7];
    for (int i = 0; i < 7; i++) {
        if (i == 3)
            ticket_refused(&t[i], &s);
        else
            conf_ticket_append(&t[i], 1, i + 1, &s);
    }
    commit_all(&b, t, 7);
    assert_true(committer_stats_now(b.k).batches >= 3);
    for (int i = 0; i < 3; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    CONF_ANSWER(&t[3], UNIT_REFUSED);
    for (int i = 4; i < 7; i++)
        expect_prefix(&t[i]);
    assert_int_equal(conf_rows(b.db, 1), 3);
    conf_tickets_free(t, 7);
    committer_fixture_close(&b);
}

/* The answer has been lost: perhaps the unit is there, perhaps not. What follows may not be. */
static void after_an_undecided_unit_no_unit_of_its_submitter_is_committed(conf *c)
{
    for (int happened = 0; happened <= 1; happened++) {
        clock_fake *clock = clock_fake_new(1000);
        db_fault plan = {0};
        db *d = conf_open_fault(c, &(db_options){.clock = clock_fake_source(clock)}, &plan);
        committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
        submitter s = {0};
        conf_ticket t[3];
        int64_t run = 10 + happened;
        conf_ticket_append(&t[0], run, 1, &s);
        conf_ticket_append(&t[1], run, 2, &s);
        conf_ticket_append(&t[2], run + 10, 1, NULL);
        plan.lose_commit = plan.commits + 1;
        plan.lose_happened = happened;
        plan.unknown_times = 2;
        committer_submit(k, t[0].unit);
        committer_drive(k);
        assert_int_equal(t[0].unit->answer, UNIT_UNDECIDED);
        assert_int_equal(t[0].unit->code, PAWL_UNDECIDED);
        committer_submit(k, t[1].unit);
        committer_submit(k, t[2].unit);
        conf_drive(k, clock, t, 3);
        CONF_ANSWER(&t[0], happened ? UNIT_COMMITTED : UNIT_FAILED);
        assert_int_equal(t[0].undecided, 1);
        expect_prefix(&t[1]);
        CONF_ANSWER(&t[2], UNIT_COMMITTED);
        assert_int_equal(conf_rows(d, run), happened);
        conf_tickets_free(t, 3);
        committer_close(k);
        db_close(d);
        clock_fake_free(clock);
    }
}

/* A unit that could not even be built has not been committed either. */
static void a_unit_that_could_not_be_built_breaks_its_submitter_too(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    submitter s = {0};
    conf_ticket t[2];
    conf_ticket_open(&t[0], 2048);
    t[0].unit->submitter = &s;
    for (int i = 0; i < 100; i++)
        unit_write(t[0].unit, &CONF_APPEND, unit_key("journal", 1),
                   VALUES(db_int(1), db_int(i), db_text(SLICE_LIT("row")), db_null()));
    assert_true(t[0].unit->broken_build);
    conf_ticket_append(&t[1], 1, 200, &s);
    commit_all(&b, t, 2);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    assert_int_not_equal(t[0].unit->code, PAWL_OK);
    assert_non_null(t[0].unit->message);
    expect_prefix(&t[1]);
    assert_int_equal(conf_rows(b.db, 1), 0);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

/* A unit that fails before the database has seen it: those handed in before it are queued still,
 * and leave no hole. */
static void units_before_the_one_that_failed_stay_committed(conf *c)
{
    committer_fixture b = committer_fixture_open_with(c, &(committer_options){.batch_units = 1});
    submitter s = {0};
    conf_ticket t[5];
    for (int i = 0; i < 5; i++)
        conf_ticket_append(&t[i], 1, i + 1, &s);
    t[2].unit->broken_build = 1; /* as when its memory was full */
    committer_submit(b.k, t[0].unit);
    committer_submit(b.k, t[1].unit);
    committer_submit(b.k, t[2].unit);
    CONF_ANSWER(&t[2], UNIT_FAILED);
    assert_int_equal(t[2].unit->code, PAWL_LIMIT);
    commit_all(&b, &t[3], 2);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    expect_prefix(&t[3]);
    expect_prefix(&t[4]);
    assert_int_equal(conf_rows(b.db, 1), 2);
    conf_tickets_free(t, 5);
    committer_fixture_close(&b);
}

/* The same when one of them waited too long, behind one that may wait for ever. */
static void units_before_the_one_that_was_given_up_stay_committed(conf *c)
{
    clock_fake *clock = clock_fake_new(1000);
    db *d = conf_open(c, &(db_options){.clock = clock_fake_source(clock)});
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1, .busy_ms = 100});
    submitter s = {0};
    conf_ticket t[3];
    for (int i = 0; i < 3; i++)
        conf_ticket_append(&t[i], 1, i + 1, &s);
    t[1].unit->class = UNIT_OF_CLIENT;
    for (int i = 0; i < 3; i++)
        committer_submit(k, t[i].unit);
    clock_fake_advance(clock, 200);
    conf_drive(k, clock, t, 3);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_FAILED);
    assert_int_equal(t[1].unit->code, PAWL_BUSY);
    expect_prefix(&t[2]);
    assert_int_equal(conf_rows(d, 1), 1);
    conf_tickets_free(t, 3);
    committer_close(k);
    db_close(d);
    clock_fake_free(clock);
}

static void a_unit_that_was_answered_busy_breaks_its_submitter_too(conf *c)
{
    clock_fake *clock = clock_fake_new(1000);
    db *d = conf_open(c, &(db_options){.clock = clock_fake_source(clock)});
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1, .busy_ms = 100});
    submitter s = {0};
    conf_ticket t[2];
    conf_ticket_append(&t[0], 1, 1, &s);
    t[0].unit->class = UNIT_OF_CLIENT;
    committer_submit(k, t[0].unit);
    clock_fake_advance(clock, 200);
    conf_drive(k, clock, &t[0], 1);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    assert_int_equal(t[0].unit->code, PAWL_BUSY);
    conf_ticket_append(&t[1], 1, 2, &s);
    committer_submit(k, t[1].unit);
    conf_drive(k, clock, &t[1], 1);
    expect_prefix(&t[1]);
    assert_int_equal(conf_rows(d, 1), 0);
    conf_tickets_free(t, 2);
    committer_close(k);
    db_close(d);
    clock_fake_free(clock);
}

/* ---- Order ---- */

static void units_of_one_submitter_keep_their_order(conf *c)
{
    enum { COUNT = 200 };
    static const db_sql ORDERED = {"SELECT count(*) FROM {journal} a, {journal} b"
                                   " WHERE a.run = b.run AND b.seq = a.seq + 1 AND b.pos <= a.pos",
                                   ""};
    committer_fixture b = committer_fixture_open_with(c, &(committer_options){.batch_units = 7});
    submitter s[2] = {{0}, {0}};
    conf_ticket *t = calloc(COUNT, sizeof *t);
    assert_non_null(t);
    for (int i = 0; i < COUNT; i++)
        conf_ticket_append(&t[i], 1 + i % 2, 1 + i / 2, &s[i % 2]);
    commit_all(&b, t, COUNT);
    for (int i = 0; i < COUNT; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_int_equal(conf_number(b.db, &ORDERED, NULL, 0), 0);
    assert_int_equal(conf_rows(b.db, 1) + conf_rows(b.db, 2), COUNT);
    conf_tickets_free(t, COUNT);
    free(t);
    committer_fixture_close(&b);
}

/* ---- Odd units ---- */

static void an_empty_unit_is_committed(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[3];
    conf_ticket_open(&t[0], 0);
    conf_ticket_append(&t[1], 1, 1, NULL);
    conf_ticket_open(&t[2], 0);
    commit_all(&b, &t[0], 1);
    commit_all(&b, &t[1], 2);
    for (int i = 0; i < 3; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

static void a_full_arena_fails_the_unit_alone(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[3];
    conf_ticket_append(&t[0], 1, 1, NULL);
    conf_ticket_open(&t[1], 2048);
    for (int i = 0; i < 100; i++)
        unit_write(t[1].unit, &CONF_APPEND, unit_key("journal", 2),
                   VALUES(db_int(2), db_int(i), db_text(SLICE_LIT("row")), db_null()));
    assert_true(t[1].unit->broken_build);
    conf_ticket_append(&t[2], 3, 1, NULL);
    commit_all(&b, t, 3);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_FAILED);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, 2), 0);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

/* Rows that cannot be handed back are no answer: the unit leaves nothing. */
static void an_answer_that_does_not_fit_fails_the_unit(conf *c)
{
    static const db_sql WIDE = {"INSERT INTO {journal} (run, generation, seq, kind, name, at, data)"
                                " VALUES ($1, 1, 1, 1, 'wide', 0, $2) RETURNING data",
                                "ib"};
    enum { WIDTH = 256 * 1024 };
    char *wide = calloc(1, WIDTH);
    assert_non_null(wide);
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[3];
    conf_ticket_append(&t[0], 1, 1, NULL);
    conf_ticket_open(&t[1], 64 * 1024);
    unit_write(t[1].unit, &WIDE, unit_key("journal", 2),
               VALUES(db_int(2), db_bytes((slice){wide, WIDTH})));
    assert_false(t[1].unit->broken_build);
    conf_ticket_append(&t[2], 3, 1, NULL);
    commit_all(&b, t, 3);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_FAILED);
    assert_non_null(t[1].unit->message);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, 2), 0);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
    free(wide);
}

static void the_largest_payload_goes_through(conf *c)
{
    static const db_sql LENGTH = {"SELECT length(data) FROM {journal} WHERE run = $1", "i"};
    char *big = malloc(PAWL_MAX_PAYLOAD);
    assert_non_null(big);
    memset(big, 'x', PAWL_MAX_PAYLOAD);
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[3];
    conf_ticket_append(&t[0], 1, 1, NULL);
    conf_ticket_open(&t[1], 0);
    unit_write(t[1].unit, &CONF_APPEND, unit_key("journal", 2),
               VALUES(db_int(2), db_int(1), db_text(SLICE_LIT("big")),
                      db_bytes((slice){big, PAWL_MAX_PAYLOAD})));
    assert_true(t[1].unit->bytes >= PAWL_MAX_PAYLOAD);
    conf_ticket_append(&t[2], 3, 1, NULL);
    commit_all(&b, t, 3);
    for (int i = 0; i < 3; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_int_equal(conf_number(b.db, &LENGTH, VALUES(db_int(2))), PAWL_MAX_PAYLOAD);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
    free(big);
}

/* A statement that the database does not understand is a bug of one unit, not of its batch. */
static void a_statement_that_cannot_be_prepared_fails_its_unit(conf *c)
{
    static const db_sql WRONG = {"INSERT INTO {there_is_no_such_table} (x) VALUES ($1)", "i"};
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[3];
    conf_ticket_append(&t[0], 1, 1, NULL);
    conf_ticket_open(&t[1], 0);
    unit_write(t[1].unit, &ADD_META, unit_key("meta", 1), VALUES(db_text(SLICE_LIT("test.w"))));
    unit_write(t[1].unit, &WRONG, unit_key("x", 1), VALUES(db_int(1)));
    conf_ticket_append(&t[2], 1, 2, NULL);
    commit_all(&b, t, 3);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_FAILED);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    assert_int_equal(conf_number(b.db, &COUNT_META, VALUES(db_text(SLICE_LIT("test.w")))), 0);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

/* ---- Names of rows ---- */

static void equal_rows_have_equal_names(conf *c)
{
    (void)c;
    assert_true(unit_key("runs", 5) == unit_key("runs", 5));
    assert_true(unit_key("runs", 5) != unit_key("runs", 6));
    assert_true(unit_key("runs", 5) != unit_key("tasks", 5));
    slice a = SLICE_LIT("a");
    assert_true(unit_key_text("meta", a) == unit_key_text("meta", slice_of("a")));
    assert_true(unit_key_text("meta", a) != unit_key_text("meta", SLICE_LIT("b")));
    assert_true(unit_key_text("ab", SLICE_LIT("c")) != unit_key_text("a", SLICE_LIT("bc")));
}

static const conf_case CASES[] = {
    {"after a unit that failed no unit of its submitter is committed",
     after_a_unit_that_failed_no_unit_of_its_submitter_is_committed, 0},
    {"after a unit that was refused no unit of its submitter is committed",
     after_a_unit_that_was_refused_no_unit_of_its_submitter_is_committed, 0},
    {"the rule reaches over batches", the_rule_reaches_over_batches, 0},
    {"the rule reaches over a cut batch", the_rule_reaches_over_a_cut_batch, 0},
    {"after an undecided unit no unit of its submitter is committed",
     after_an_undecided_unit_no_unit_of_its_submitter_is_committed, 0},
    {"a unit that could not be built breaks its submitter too",
     a_unit_that_could_not_be_built_breaks_its_submitter_too, 0},
    {"units before the one that failed stay committed",
     units_before_the_one_that_failed_stay_committed, 0},
    {"units before the one that was given up stay committed",
     units_before_the_one_that_was_given_up_stay_committed, 0},
    {"a unit that was answered BUSY breaks its submitter too",
     a_unit_that_was_answered_busy_breaks_its_submitter_too, 0},
    {"units of one submitter keep their order", units_of_one_submitter_keep_their_order, 0},
    {"an empty unit is committed", an_empty_unit_is_committed, 0},
    {"a full arena fails the unit alone", a_full_arena_fails_the_unit_alone, 0},
    {"an answer that does not fit fails the unit", an_answer_that_does_not_fit_fails_the_unit, 0},
    {"the largest payload goes through", the_largest_payload_goes_through, 0},
    {"a statement that cannot be prepared fails its unit",
     a_statement_that_cannot_be_prepared_fails_its_unit, 0},
    {"equal rows have equal names", equal_rows_have_equal_names, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
