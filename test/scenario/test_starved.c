#define _GNU_SOURCE /* syscall */
/* Memory that cannot be had behind a step: what the step gave is recorded before the run is put
 * off; the run is tried again, each time after a longer pause, and held at last, when what it has
 * begun beside its function is recorded. Executions are lines of the side file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/served_fixture.h"

/* Numbers of the fixture: how often the memory is still not there, how often it was asked for,
 * lines of the log at its beginning and its end; 1: the work at the gate may return; lines about
 * results that were dropped. */
enum { LACKING, ASKED, OUT, AGAIN, GATE, DROPPED };

/* tidy: shared, the system's call has no argument for it. 1: there is no memory for stacks. */
static atomic_int stacks_are_out;

/* Instead of the C library's, for everything that is linked into this program: the stacks of fibers
 * are made accessible by it. */
int mprotect(void *at, size_t size, int rights)
{
    if (atomic_load(&stacks_are_out) && rights == (PROT_READ | PROT_WRITE)) {
        errno = ENOMEM;
        return -1;
    }
    return (int)syscall(SYS_mprotect, at, size, rights);
}

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "memory-out") == 0)
        atomic_fetch_add(fixture_number(arg, OUT), 1);
    if (strcmp(event, "memory-again") == 0)
        atomic_fetch_add(fixture_number(arg, AGAIN), 1);
    if (strcmp(event, "results-dropped") == 0)
        atomic_fetch_add(fixture_number(arg, DROPPED), 1);
}

/* More than any machine has. */
static void ask_for_much(pawl_run *run)
{
    engine_fixture *s = pawl_arg(run);
    atomic_fetch_add(fixture_number(s, ASKED), 1);
    if (number(s, LACKING) == 0)
        return;
    atomic_fetch_sub(fixture_number(s, LACKING), 1);
    pawl_alloc(run, (size_t)1 << 63);
}

static const char *hungry(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_step(run, "first", fixture_echo, input, PAWL_CALL(.arg = s));
    pawl_now(run);
    ask_for_much(run);
    return pawl_step(run, "second", fixture_echo, input, PAWL_CALL(.arg = s));
}

/* Waits at the gate. */
static const char *wait_at_gate(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "beside");
    TMP_AWAIT(number(s, GATE));
    return input;
}

/* Memory is out while a later step runs, or has returned. */
static const char *hungry_beside(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_future *f = pawl_step_later(run, "beside", wait_at_gate, input, PAWL_CALL(.arg = s));
    pawl_step(run, "first", fixture_echo, input, PAWL_CALL(.arg = s));
    ask_for_much(run);
    return pawl_await(run, f);
}

/* Keeps its stack. */
static const char *sleeper(pawl_run *run, const char *input)
{
    fixture_note(pawl_arg(run), "sleeper");
    pawl_sleep(run, PAWL_HOURS(1000));
    return input;
}

static pawl *open_with(engine_fixture *s, int64_t threads, int64_t work_threads)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = threads, .work_threads = work_threads,
                                           .log = hear, .log_arg = s));
    FIXTURE_REGISTER(s, p, hungry);
    FIXTURE_REGISTER(s, p, hungry_beside);
    FIXTURE_REGISTER(s, p, sleeper);
    return p;
}

static pawl *open_hungry(engine_fixture *s, int64_t threads)
{
    return open_with(s, threads, 0);
}

static void expect_why(engine_fixture *s, pawl *p, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(s, p, pawl_why(p, "run", &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
    pawl_free(why);
}

static void the_step_is_executed_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_hungry(s, -1);
    atomic_store(fixture_number(s, LACKING), 3);
    fixture_start(s, p, "hungry", "run", "1");
    fixture_poll(s, p);
    fixture_poll(s, p);
    expect_why(s, p, "out of memory: 9223372036854775808 bytes for the workflow function");
    expect_why(s, p, "try 1 of 10");
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "first second");
    if (FIXTURE_WARM)
        assert_int_equal(number(s, ASKED), 4);
    assert_int_equal(number(s, OUT), 1);
    assert_int_equal(number(s, AGAIN), 1);
    pawl_close(p);
    fixture_free(s);
}

/* Each pause is longer than the one before, and they come to an end: people look, or another build
 * comes. */
static void it_is_held_at_last(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_hungry(s, -1);
    int64_t pause = 0;
    atomic_store(fixture_number(s, LACKING), INT64_MAX);
    fixture_start(s, p, "hungry", "run", "1");
    FIXTURE_UNTIL(s, p, number(s, ASKED) >= 1);
    for (int i = 2; i <= 7; i++) {
        int64_t before = fixture_now(s);
        FIXTURE_UNTIL(s, p, number(s, ASKED) >= i);
        assert_true(fixture_now(s) - before > pause);
        pause = fixture_now(s) - before;
    }
    FIXTURE_HELD(s, p, "run", "out of memory, 10 times in a row");
    expect_why(s, p, "It goes on with another build");
    if (FIXTURE_WARM)
        assert_int_equal(number(s, ASKED), 10);
    atomic_store(fixture_number(s, LACKING), 0);
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "first second");
    FIXTURE_HISTORY(s, p, "run", "step:first now step:second");
    pawl_close(p);
    fixture_free(s);
}

/* What has returned beside the function is in this process only. */
static void what_has_returned_is_recorded(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_hungry(s, -1);
    atomic_store(fixture_number(s, LACKING), INT64_MAX);
    atomic_store(fixture_number(s, GATE), 1);
    fixture_start(s, p, "hungry_beside", "run", "1");
    FIXTURE_HELD(s, p, "run", "out of memory, 10 times in a row");
    atomic_store(fixture_number(s, LACKING), 0);
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    assert_int_equal(fixture_count(s, "beside"), 1);
    assert_int_equal(fixture_count(s, "first"), 1);
    pawl_close(p);
    fixture_free(s);
}

/* The run sleeps longer and longer, by a clock that the test moves. */
#define MOVE_UNTIL(s, p, condition)                                                                \
    TMP_AWAIT((fixture_advance((s), 2000), pawl_poll((p), NULL), (condition)))

/* What still runs is waited for: meanwhile the run is not held, and no other node may have it. */
static void what_still_runs_is_waited_for(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, -1, 2);
    atomic_store(fixture_number(s, LACKING), INT64_MAX);
    fixture_start(s, p, "hungry_beside", "run", "1");
    MOVE_UNTIL(s, p, fixture_count(s, "beside") == 1 && number(s, ASKED) >= 10);
    for (int i = 0; i < 10; i++) {
        fixture_poll(s, p);
        assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    }
    atomic_store(fixture_number(s, GATE), 1);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_HELD);
    FIXTURE_HISTORY(s, p, "run", "step-later:beside step:first done");
    atomic_store(fixture_number(s, LACKING), 0);
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    assert_int_equal(fixture_count(s, "beside"), 1);
    pawl_close(p);
    fixture_free(s);
}

/* A run that does not even get a stack says so, and is held after as many tries. */
static void no_stack(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_hungry(s, -1);
    atomic_store(&stacks_are_out, 1);
    fixture_start(s, p, "hungry", "run", "1");
    fixture_poll(s, p);
    fixture_poll(s, p);
    expect_why(s, p, "out of memory: a stack for its function");
    FIXTURE_HELD(s, p, "run", "out of memory, 10 times in a row: a stack");
    assert_int_equal(number(s, OUT), 1);
    atomic_store(&stacks_are_out, 0);
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "first second");
    pawl_close(p);
    fixture_free(s);
}

/* Without a stack the result of a later step cannot be recorded: its run is not held. The sleeper
 * has the stack that the run had before. */
static void a_stack_is_missing_for_a_result(conf *c)
{
    FIXTURE_BY_HAND();
    if (!FIXTURE_WARM)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, -1, 2);
    atomic_store(fixture_number(s, LACKING), 1);
    fixture_start(s, p, "hungry_beside", "run", "1");
    TMP_AWAIT((pawl_poll(p, NULL), number(s, OUT) == 1 && fixture_count(s, "beside") == 1));
    fixture_start(s, p, "sleeper", "sleeper", "1");
    TMP_AWAIT((pawl_poll(p, NULL), fixture_count(s, "sleeper") == 1));
    atomic_store(&stacks_are_out, 1);
    atomic_store(fixture_number(s, GATE), 1);
    for (int i = 0; i < 250; i++) {
        fixture_advance(s, 2000);
        fixture_poll(s, p);
    }
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    expect_why(s, p, "results of this run are in its memory only");
    atomic_store(&stacks_are_out, 0);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    assert_int_equal(fixture_count(s, "beside"), 1);
    pawl_close(p);
    fixture_free(s);
}

/* The replay goes another way while a later step is under way: what that gives has no place in the
 * journal. */
static const char *changes(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    const char *name = number(s, ASKED) ? "other" : "first";
    pawl_future *f = pawl_step_later(run, "beside", wait_at_gate, input, PAWL_CALL(.arg = s));
    pawl_step(run, name, fixture_echo, input, PAWL_CALL(.arg = s));
    ask_for_much(run);
    return pawl_await(run, f);
}

static void results_that_a_hold_drops_are_told(conf *c)
{
    FIXTURE_BY_HAND();
    if (!FIXTURE_WARM)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, -1, 2);
    FIXTURE_REGISTER(s, p, changes);
    atomic_store(fixture_number(s, LACKING), 1);
    fixture_start(s, p, "changes", "run", "1");
    MOVE_UNTIL(s, p, number(s, OUT) == 1 && fixture_count(s, "beside") == 1);
    for (int i = 0; i < 10; i++) { /* the hold waits */
        fixture_advance(s, 2000);
        fixture_poll(s, p);
    }
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    assert_int_equal(number(s, DROPPED), 0);
    atomic_store(fixture_number(s, GATE), 1);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_HELD);
    assert_int_equal(number(s, DROPPED), 1);
    pawl_close(p);
    fixture_free(s);
}

/* A node that leaves tries every few ms. Its tries say nothing about the memory: what has returned
 * is recorded, and the next owner has the run, and ten tries. */
static void a_close_holds_nothing(conf *c)
{
    enum { ALL_BUT_ONE = 9 };
    FIXTURE_BY_HAND();
    if (!FIXTURE_WARM)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, -1, 2);
    atomic_store(fixture_number(s, LACKING), INT64_MAX);
    fixture_start(s, p, "hungry_beside", "run", "1");
    MOVE_UNTIL(s, p, fixture_count(s, "beside") == 1 && number(s, ASKED) == ALL_BUT_ONE);
    atomic_store(fixture_number(s, GATE), 1);
    pawl_close(p);
    assert_true(number(s, ASKED) > ALL_BUT_ONE);
    p = open_with(s, -1, 2);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    FIXTURE_HISTORY(s, p, "run", "step-later:beside step:first done");
    atomic_store(fixture_number(s, LACKING), 0);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    assert_int_equal(fixture_count(s, "beside"), 1);
    pawl_close(p);
    fixture_free(s);
}

static void a_stop_records_what_has_returned(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    engine_fixture *s = v.fixture;
    fixture_run_clock(s);
    v.p = open_hungry(s, 3);
    atomic_store(fixture_number(s, LACKING), INT64_MAX);
    served_begin(&v);
    fixture_start(s, v.p, "hungry_beside", "run", "1");
    TMP_AWAIT(number(s, OUT) >= 1 && fixture_count(s, "beside") == 1);
    served_stop_and_set(&v, GATE);
    assert_int_equal(fixture_phase(s, v.p, "run"), PAWL_RUN_LIVE);
    FIXTURE_HISTORY(s, v.p, "run", "step-later:beside step:first done");
    atomic_store(fixture_number(s, LACKING), 0);
    served_begin(&v);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(fixture_count(s, "beside"), 1);
    served_end(&v);
}

static void with_threads(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    fixture_run_clock(v.fixture);
    v.p = open_hungry(v.fixture, 3);
    atomic_store(fixture_number(v.fixture, LACKING), 1);
    served_begin(&v);
    fixture_start(v.fixture, v.p, "hungry", "run", "1");
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_NOTES(v.fixture, "first second");
    served_end(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"the step is executed once", the_step_is_executed_once, 0},
        {"it is held at last", it_is_held_at_last, 0},
        {"what has returned is recorded", what_has_returned_is_recorded, 0},
        {"what still runs is waited for", what_still_runs_is_waited_for, 0},
        {"no stack", no_stack, 0},
        {"a stack is missing for a result", a_stack_is_missing_for_a_result, 0},
        {"results that a hold drops are told", results_that_a_hold_drops_are_told, 0},
        {"a close holds nothing", a_close_holds_nothing, DB_DURABLE},
        {"a stop records what has returned", a_stop_records_what_has_returned, DB_DURABLE},
        {"with threads", with_threads, DB_DURABLE},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
