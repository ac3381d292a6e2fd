/* Transactional steps: rows of the application's own table and the record of the step, together or
 * not at all, whatever becomes of the function. Of the commit and of the process:
 * test_transact_ends.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "support/transact_fixture.h"

/* ---- Together or not at all ---- */

static void rows_and_record_commit_together(conf *c)
{
    transact_fixture s;
    transact_fixture_open(&s, c);
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    FIXTURE_DONE(s.fixture, s.engine, "run", "1");
    FIXTURE_HISTORY(s.fixture, s.engine, "run", "transact:order");
    assert_int_equal(transact_fixture_orders(&s), 1);
    assert_int_equal(s.calls, 1);
    transact_fixture_close(&s);
}

static const char *much(pawl_run *run, const char *input)
{
    transact_fixture *s = pawl_arg(run);
    pawl_now(run);
    pawl_uuid(run);
    pawl_transact(run, "first", transact_fixture_take_order, "1", PAWL_CALL(.arg = s));
    pawl_step(run, "between", fixture_echo, input, PAWL_CALL(.arg = s->fixture));
    pawl_set_status(run, "\"in between\"");
    pawl_attr(run, "colour", "\"red\"");
    pawl_transact(run, "second", transact_fixture_take_order, "2", PAWL_CALL(.arg = s));
    pawl_sleep(run, 1000);
    pawl_transact(run, "third", transact_fixture_take_order, "3", PAWL_CALL(.arg = s));
    return pawl_transact(run, "fourth", transact_fixture_take_order, "4", PAWL_CALL(.arg = s));
}

static void what_came_before_is_recorded_before(conf *c)
{
    transact_fixture s;
    transact_fixture_open(&s, c);
    FIXTURE_CODE(s.fixture, s.engine,
                 pawl_register_workflow(s.engine, "much", much, PAWL_WORKFLOW(.arg = &s)), PAWL_OK);
    fixture_start(s.fixture, s.engine, "much", "run", "7");
    FIXTURE_DONE(s.fixture, s.engine, "run", "1");
    FIXTURE_HISTORY(s.fixture, s.engine, "run",
                    "now uuid transact:first step:between status attribute:colour transact:second"
                    " sleep woken transact:third transact:fourth");
    assert_int_equal(transact_fixture_orders(&s), 4);
    assert_int_equal(s.calls, 4);
    transact_fixture_close(&s);
}

static void a_failure_takes_its_rows_with_it(conf *c)
{
    static const struct {
        order_way way;
        const char *name;
        const char *history;
        int64_t calls;
    } WAYS[] = {
        {ORDER_FAILS_FOR_GOOD, "sold-out", "transact-failed:order", 1},
        {ORDER_GIVES_NO_JSON, "invalid", "transact-failed:order", 1},
        {ORDER_FAILS, "sold-out", "transact-again:order sleep woken transact-failed:order", 2},
        {ORDER_GIVES_NULL, "null", "transact-again:order sleep woken transact-failed:order", 2},
        {ORDER_BREAKS_A_RULE, "commit", "transact-again:order sleep woken transact-failed:order",
         2},
    };
    transact_fixture s;
    transact_fixture_open(&s, c);
    s.times = 99;
    s.attempts = 2;
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%zu", i);
        s.way = WAYS[i].way;
        atomic_store(&s.calls, 0);
        fixture_start(s.fixture, s.engine, "ordering", id, "7");
        FIXTURE_FAILED(s.fixture, s.engine, id, WAYS[i].name, "");
        FIXTURE_HISTORY(s.fixture, s.engine, id, WAYS[i].history);
        assert_int_equal(transact_fixture_orders(&s), 0);
        assert_int_equal(s.calls, WAYS[i].calls);
    }
    transact_fixture_close(&s);
}

static void it_is_tried_again_as_a_step_is(conf *c)
{
    transact_fixture s;
    transact_fixture_open(&s, c);
    s.way = ORDER_FAILS;
    s.times = 2;
    s.attempts = 3;
    int64_t began = fixture_now(s.fixture);
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    FIXTURE_DONE(s.fixture, s.engine, "run", "3");
    assert_int_equal(fixture_now(s.fixture) - began, 3000);
    FIXTURE_HISTORY(s.fixture, s.engine, "run",
                    "transact-again:order sleep woken transact-again:order sleep woken"
                    " transact:order");
    assert_int_equal(transact_fixture_orders(&s), 1);
    assert_int_equal(s.calls, 3);
    transact_fixture_close(&s);
}

static const char *give_back(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "back:%s", input);
    return "null";
}

static const char *regretting(pawl_run *run, const char *input)
{
    transact_fixture *s = pawl_arg(run);
    pawl_transact(run, "order", transact_fixture_take_order, input,
                  PAWL_CALL(.arg = s, .undo = "give_back"));
    pawl_fail(run, "regret", "it was too much");
    return NULL;
}

/* Its undo knows the result, in whichever attempt it came. */
static void it_can_be_undone(conf *c)
{
    transact_fixture s;
    transact_fixture_open(&s, c);
    FIXTURE_CODE(
        s.fixture, s.engine,
        pawl_register_workflow(s.engine, "regretting", regretting, PAWL_WORKFLOW(.arg = &s)),
        PAWL_OK);
    fixture_register_work(s.fixture, s.engine, "give_back", give_back);
    s.way = ORDER_FAILS;
    for (int i = 0; i < 2; i++) {
        char id[16], wanted[64];
        snprintf(id, sizeof id, "%d", 7 + i);
        snprintf(wanted, sizeof wanted, "back:{\"input\":%d,\"result\":%d}", 7 + i, 1 + i);
        s.times = i;
        fixture_start(s.fixture, s.engine, "regretting", id, id);
        FIXTURE_FAILED(s.fixture, s.engine, id, "regret", "");
        assert_int_equal(fixture_count(s.fixture, wanted), 1);
    }
    assert_int_equal(transact_fixture_orders(&s), 2);
    transact_fixture_close(&s);
}

/* It cannot be stopped, but what it did too late does not count. */
static void too_late_is_not_at_all(conf *c)
{
    transact_fixture s;
    transact_fixture_open(&s, c);
    s.way = ORDER_IS_LATE;
    s.times = 1;
    s.attempt_ms = 500;
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    FIXTURE_DONE(s.fixture, s.engine, "run", "2");
    FIXTURE_HISTORY(s.fixture, s.engine, "run", "transact-again:order sleep woken transact:order");
    assert_int_equal(transact_fixture_orders(&s), 1);
    transact_fixture_close(&s);
}

/* ---- Misuse ---- */

static void to_end_the_transaction_fails_for_good(conf *c)
{
    static const order_way WAYS[] = {ORDER_COMMITS, ORDER_ROLLS_BACK, ORDER_BEGINS_ANEW,
                                     ORDER_LEAVES_OPEN};
    transact_fixture s;
    transact_fixture_open(&s, c);
    s.times = 99;
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%zu", i);
        s.way = WAYS[i];
        atomic_store(&s.calls, 0);
        fixture_start(s.fixture, s.engine, "ordering", id, "7");
        FIXTURE_FAILED(s.fixture, s.engine, id, "misuse", "transaction");
        FIXTURE_HISTORY(s.fixture, s.engine, id, "transact-failed:order");
        assert_int_equal(transact_fixture_orders(&s), WAYS[i] == ORDER_COMMITS);
        assert_int_equal(s.calls, 1);
        transact_fixture_exec(&s, "DELETE FROM orders", 0);
        sqlite3_finalize(s.open);
        s.open = NULL;
    }
    s.times = 0;
    fixture_start(s.fixture, s.engine, "ordering", "good", "7");
    FIXTURE_DONE(s.fixture, s.engine, "good", "1");
    assert_int_equal(transact_fixture_orders(&s), 1);
    transact_fixture_close(&s);
}

static void to_call_pawl_fails_for_good(conf *c)
{
    static const order_way WAYS[] = {ORDER_CALLS_THIS, ORDER_CALLS_ANOTHER, ORDER_CALLS_THE_RUN,
                                     ORDER_OPENS};
    transact_fixture s;
    transact_fixture_open(&s, c);
    s.times = 99;
    assert_int_equal(pawl_open(&s.other, "memory:", NULL), PAWL_OK);
    for (size_t i = 0; i < sizeof WAYS / sizeof *WAYS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%zu", i);
        s.way = WAYS[i];
        s.answered = PAWL_OK;
        atomic_store(&s.calls, 0);
        fixture_start(s.fixture, s.engine, "ordering", id, "7");
        FIXTURE_FAILED(s.fixture, s.engine, id, "misuse", "called pawl");
        assert_int_equal(s.answered, PAWL_MISUSE);
        assert_int_equal(transact_fixture_orders(&s), 0);
        assert_int_equal(s.calls, 1);
    }
    transact_fixture_close(&s);
}

/* Another node owns the run by now, whatever this engine believes: the function is not called. */
static void without_its_claim_it_is_not_called(conf *c)
{
    transact_fixture s;
    transact_fixture_open(&s, c);
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    fixture_poll(s.fixture, s.engine);
    assert_int_equal(transact_fixture_orders(&s), 1);
    s.way = ORDER_FAILS;
    s.times = 1;
    fixture_start(s.fixture, s.engine, "ordering", "lost", "8");
    fixture_poll(s.fixture, s.engine); /* now it sleeps */
    assert_int_equal(s.calls, 2);
    transact_fixture_exec(
        &s,
        c->server
            ? "UPDATE pawl.runs SET fence = fence + 1, owner = owner + 1000 WHERE id = 'lost'"
            : "UPDATE pawl_runs SET fence = fence + 1, owner = owner + 1000 WHERE id = 'lost'",
        0);
    for (int i = 0; i < 20; i++) {
        fixture_advance(s.fixture, 500);
        fixture_poll(s.fixture, s.engine);
    }
    assert_int_equal(s.calls, 2);
    assert_int_equal(transact_fixture_orders(&s), 1);
    transact_fixture_close(&s);
}

static const conf_case CASES[] = {
    {"rows and record commit together", rows_and_record_commit_together, 0},
    {"what came before is recorded before", what_came_before_is_recorded_before, 0},
    {"a failure takes its rows with it", a_failure_takes_its_rows_with_it, 0},
    {"it is tried again as a step is", it_is_tried_again_as_a_step_is, 0},
    {"it can be undone", it_can_be_undone, 0},
    {"too late is not at all", too_late_is_not_at_all, 0},
    {"to end the transaction fails for good", to_end_the_transaction_fails_for_good, 0},
    {"to call pawl fails for good", to_call_pawl_fails_for_good, 0},
    {"without its claim it is not called", without_its_claim_it_is_not_called, 0},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
