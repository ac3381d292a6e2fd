/* Cancellation, wherever a run is: asleep, waiting for something, in a work function, held, not
 * begun, being undone, at its end; from which caller and how often. And deadlines, which are a
 * cancellation by the clock.
 *
 * A cancel is never lost: once it was answered PAWL_OK the run is told, whatever dies before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

static const int64_t SILENCE_MS = 60000;

/* ---- What the runs of this test do ---- */

static const char *sleeps(pawl_run *run, const char *input)
{
    pawl_finally(run, "clean", "1");
    pawl_sleep(run, PAWL_DAYS(1));
    FIXTURE_ECHO(run, "behind", "1");
    return input;
}

static const char *receives(pawl_run *run, const char *input)
{
    const char *message;
    pawl_finally(run, "clean", "1");
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    FIXTURE_ECHO(run, "behind", "1");
    return input;
}

static const char *awaits(pawl_run *run, const char *input)
{
    pawl_finally(run, "clean", "1");
    pawl_future *f[5];
    for (int i = 0; i < 5; i++)
        f[i] = pawl_child_later(run, "quiet", input, NULL);
    pawl_all(run, f, 5);
    FIXTURE_ECHO(run, "behind", "1");
    return input;
}

static const char *quiet(pawl_run *run, const char *input)
{
    const char *message;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    return input;
}

static const char *fails_once(pawl_work *work, const char *input)
{
    (void)input;
    return pawl_work_retry(work, PAWL_DAYS(1), "not now");
}

static const char *backs_off(pawl_run *run, const char *input)
{
    pawl_finally(run, "clean", "1");
    pawl_step(run, "later", fails_once, input, NULL);
    FIXTURE_ECHO(run, "behind", "1");
    return input;
}

static const char *asks(pawl_run *run, const char *input)
{
    pawl_finally(run, "clean", "1");
    pawl_until(run, "later", fixture_echo, "false", PAWL_HOURS(1), PAWL_DAYS(2));
    FIXTURE_ECHO(run, "behind", "1");
    return input;
}

static pawl *open_here(engine_fixture *s, const char *build)
{
    pawl *p = fixture_open(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .build = build});
    FIXTURE_REGISTER(s, p, sleeps);
    FIXTURE_REGISTER(s, p, receives);
    FIXTURE_REGISTER(s, p, awaits);
    FIXTURE_REGISTER(s, p, quiet);
    FIXTURE_REGISTER(s, p, backs_off);
    FIXTURE_REGISTER(s, p, asks);
    fixture_register_work(s, p, "later", fixture_echo);
    fixture_register_work(s, p, "clean", fixture_echo);
    return p;
}

#define CANCELLED(s, p, id, words) expect_cancelled((s), (p), (id), (words), __LINE__)
static void expect_cancelled(engine_fixture *s, pawl *p, const char *id, const char *words,
                             int line)
{
    pawl_outcome *end = NULL;
    pawl_code rc;
    FIXTURE_UNTIL(s, p, (rc = pawl_wait(p, id, 0, NULL)) != PAWL_TIMEOUT && rc != PAWL_HELD);
    FIXTURE_CODE(s, p, pawl_wait(p, id, 0, &end), PAWL_CANCELLED);
    if (!strstr(pawl_outcome_message(end), words))
        fixture_fail(s, line, "expected '%s', got '%s'", words, pawl_outcome_message(end));
    assert_string_equal(pawl_outcome_name(end), "cancelled");
    pawl_outcome_free(end);
}

/* ---- Where it waits ---- */

static const char *const WAITING[] = {"sleeps", "receives", "awaits", "backs_off", "asks"};

static void a_cancel_of_a_run_that_waits(conf *c)
{
    for (size_t i = 0; i < sizeof WAITING / sizeof *WAITING; i++) {
        engine_fixture *s = fixture_new(c);
        pawl *p = open_here(s, "a");
        int64_t began = fixture_now(s);
        fixture_start(s, p, WAITING[i], WAITING[i], "1");
        fixture_poll(s, p);
        FIXTURE_CODE(s, p, pawl_cancel(p, WAITING[i], "enough"), PAWL_OK);
        CANCELLED(s, p, WAITING[i], "enough");
        assert_int_equal(fixture_count(s, "clean"), (int)i + 1);
        assert_int_equal(fixture_count(s, "behind"), 0);
        assert_int_equal(fixture_now(s), began); /* at once */
        pawl_close(p);
        fixture_free(s);
    }
}

static void a_cancel_reaches_the_children(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    fixture_start(s, p, "awaits", "run", "1");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "enough"), PAWL_OK);
    CANCELLED(s, p, "run", "enough");
    for (int i = 0; i < 5; i++) {
        char id[32];
        snprintf(id, sizeof id, "run/1.%d", i + 3);
        CANCELLED(s, p, id, "parent");
    }
    pawl_close(p);
    fixture_free(s);
}

/* ---- In a work function ---- */

/* It is cancelled by its own work function, which is told at once. */
static const char *stops_itself(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    pawl *p = (pawl *)(uintptr_t)atomic_load(fixture_number(s, 0));
    fixture_note(s, "before-%d", pawl_work_cancelled(work));
    pawl_code rc = pawl_cancel(p, pawl_work_run_id(work), "from inside");
    fixture_note(s, "%s-%d", pawl_code_name(rc), pawl_work_cancelled(work));
    return strcmp(input, "\"fails\"") == 0 ? pawl_work_fail(work, PAWL_PERMANENT, "bad", "no")
                                           : input;
}

/* What it has done is undone, for the undo behind it is registered first. */
static const char *is_in_a_step(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "stops", stops_itself, input);
    pawl_undo(run, "clean", "1");
    FIXTURE_ECHO(run, "behind", "1");
    return input;
}

/* Nothing waits behind it: it has ended before it could be told. */
static const char *ends_behind(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "stops", stops_itself, input);
}

static void a_cancel_in_a_step(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    atomic_store(fixture_number(s, 0), (int64_t)(uintptr_t)p);
    FIXTURE_REGISTER(s, p, is_in_a_step);
    fixture_start(s, p, "is_in_a_step", "run", "1");
    CANCELLED(s, p, "run", "from inside");
    FIXTURE_NOTES(s, "before-0 PAWL_OK-1 clean");
    FIXTURE_HISTORY(s, p, "run", "step:stops undo:clean ending:cancelled clean-up:clean done");
    pawl_close(p);
    fixture_free(s);
}

static void a_cancel_after_the_end_of_the_function(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    atomic_store(fixture_number(s, 0), (int64_t)(uintptr_t)p);
    FIXTURE_REGISTER(s, p, ends_behind);
    fixture_start(s, p, "ends_behind", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    fixture_start(s, p, "ends_behind", "two", "\"fails\"");
    FIXTURE_FAILED(s, p, "two", "bad", "no");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Before it begins ---- */

static const char *begins_with_a_step(pawl_run *run, const char *input)
{
    pawl_finally(run, "clean", "1");
    FIXTURE_ECHO(run, "first", "1");
    return input;
}

static void a_cancel_before_the_run_begins(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    FIXTURE_REGISTER(s, p, begins_with_a_step);
    fixture_start(s, p, "begins_with_a_step", "run", "1");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "too early"), PAWL_OK);
    FIXTURE_CODE(
        s, p,
        pawl_start(p, "begins_with_a_step", "delayed", "1", PAWL_START(.delay_ms = PAWL_HOURS(1))),
        PAWL_OK);
    FIXTURE_CODE(s, p, pawl_cancel(p, "delayed", "too early"), PAWL_OK);
    int64_t began = fixture_now(s);
    CANCELLED(s, p, "run", "too early");
    CANCELLED(s, p, "delayed", "too early");
    assert_int_equal(fixture_now(s), began);
    assert_int_equal(fixture_count(s, "first"), 0);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Held, for each reason ---- */

static const char *old_code(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "first", "1");
    pawl_undo(run, "clean", "1");
    pawl_sleep(run, 1000);
    return input;
}

static const char *new_code(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "other", "1");
    return input;
}

static void open_and_begin(engine_fixture *s)
{
    pawl *p = open_here(s, "old");
    fixture_register(s, p, "w", old_code);
    fixture_start(s, p, "w", "run", "1");
    fixture_poll(s, p);
    pawl_close(p);
}

static void a_cancel_of_a_run_that_is_held_as_it_does_not_fit_its_journal(conf *c)
{
    engine_fixture *s = fixture_new(c);
    open_and_begin(s);
    pawl *p = open_here(s, "new");
    fixture_register(s, p, "w", new_code);
    FIXTURE_HELD(s, p, "run", "other");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "wrong"), PAWL_OK);
    CANCELLED(s, p, "run", "wrong");
    FIXTURE_NOTES(s, "first clean");
    pawl_close(p);
    fixture_free(s);
}

static void a_cancel_of_a_run_that_is_held_as_no_engine_has_its_workflow(conf *c)
{
    engine_fixture *s = fixture_new(c);
    open_and_begin(s);
    pawl *p = open_here(s, "new");
    FIXTURE_HELD(s, p, "run", "no node has");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "gone"), PAWL_OK);
    CANCELLED(s, p, "run", "gone");
    FIXTURE_NOTES(s, "first clean");
    fixture_start(s, p, "unknown", "two", "1");
    fixture_start(s, p, "unknown", "three", "1"); /* this one is not held yet */
    FIXTURE_CODE(s, p, pawl_cancel(p, "three", "gone"), PAWL_OK);
    FIXTURE_HELD(s, p, "two", "no node has");
    FIXTURE_CODE(s, p, pawl_cancel(p, "two", "gone"), PAWL_OK);
    CANCELLED(s, p, "two", "gone");
    CANCELLED(s, p, "three", "gone");
    pawl_close(p);
    fixture_free(s);
}

static void a_cancel_of_a_run_that_is_held_by_hand(conf *c)
{
    engine_fixture *s = fixture_new(c);
    open_and_begin(s);
    pawl *p = open_here(s, "new");
    fixture_register(s, p, "w", old_code);
    FIXTURE_CODE(s, p, pawl_hold(p, "run", "let me look"), PAWL_OK);
    fixture_poll(s, p);
    FIXTURE_HELD(s, p, "run", "let me look");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "seen enough"), PAWL_OK);
    CANCELLED(s, p, "run", "seen enough");
    FIXTURE_NOTES(s, "first clean");
    pawl_close(p);
    fixture_free(s);
}

static const char *dies(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    (void)input;
    fixture_send_and_await(s, 'd');
    return NULL;
}

static const char *kills(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "first", "1");
    pawl_undo(run, "clean", "1");
    FIXTURE_STEP(run, "dies", dies, input);
    return input;
}

static void killed(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = open_here(s, "old");
    FIXTURE_REGISTER(s, p, kills);
    fixture_start(s, p, "kills", "run", "1");
    for (int i = 0; fixture_phase(s, p, "run") == PAWL_RUN_LIVE && i < 100; i++) {
        fixture_poll(s, p);
        fixture_advance(s, 1000);
    }
    fixture_send_byte(s, 'h');
    pawl_close(p);
}

static void a_cancel_of_a_run_that_is_held_as_it_kills_its_process(conf *c)
{
    engine_fixture *s = fixture_new(c);
    char what = 'd';
    for (int deaths = 0; what == 'd'; deaths++) {
        assert_true(deaths < 9);
        tmp_child child = fixture_fork(s, killed, NULL);
        what = (char)tmp_hear(child.from);
        if (what == 'd')
            tmp_kill(&child);
        else
            tmp_join(&child);
        fixture_advance(s, SILENCE_MS);
    }
    pawl *p = open_here(s, "old");
    FIXTURE_REGISTER(s, p, kills);
    FIXTURE_HELD(s, p, "run", "died");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "poison"), PAWL_OK);
    CANCELLED(s, p, "run", "poison");
    assert_int_equal(fixture_count(s, "clean"), 1);
    pawl_close(p);
    fixture_free(s);
}

/* ---- How often, and from which caller ---- */

static void a_cancel_that_is_repeated(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    fixture_start(s, p, "sleeps", "run", "1");
    fixture_poll(s, p);
    for (int i = 0; i < 5; i++) {
        char reason[32];
        snprintf(reason, sizeof reason, "reason %d", i);
        pawl_code rc = pawl_cancel(p, "run", reason);
        if (i == 0 || rc != PAWL_ENDED) /* threads may have ended it after the first */
            FIXTURE_CODE(s, p, rc, PAWL_OK);
    }
    CANCELLED(s, p, "run", "reason 0");
    FIXTURE_NOTES(s, "clean");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "late"), PAWL_ENDED);
    CANCELLED(s, p, "run", "reason 0");
    FIXTURE_CODE(s, p, pawl_cancel(p, "nobody", "late"), PAWL_NOTFOUND);
    pawl_close(p);
    fixture_free(s);
}

static void asks_to_stop(engine_fixture *s, void *arg)
{
    (void)arg;
    fixture_send_and_await(s, 'r');
    pawl *p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "from elsewhere"), PAWL_OK);
    pawl_close(p);
}

static void a_cancel_from_another_process(conf *c)
{
    engine_fixture *s = fixture_new(c);
    tmp_child other = fixture_fork(s, asks_to_stop, NULL);
    tmp_expect(&other, 'r');
    pawl *p = open_here(s, "a");
    fixture_start(s, p, "sleeps", "run", "1");
    fixture_poll(s, p);
    tmp_tell(other.to, 'g');
    tmp_join(&other);
    int64_t began = fixture_now(s);
    CANCELLED(s, p, "run", "from elsewhere");
    assert_true(fixture_now(s) - began <= 2000);
    pawl_close(p);
    fixture_free(s);
}

/* ---- It is never lost ---- */

/* A message and the cancel are there at once: the message is received, and something is durable
 * before the run waits again. */
static const char *goes_on(pawl_run *run, const char *input)
{
    const char *message;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    pawl_tell(run, "listener", "box", "1");
    pawl_sleep(run, PAWL_HOURS(1));
    return input;
}

static void a_cancel_that_came_after_a_message(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    FIXTURE_REGISTER(s, p, goes_on);
    fixture_start(s, p, "quiet", "listener", "1");
    fixture_start(s, p, "goes_on", "run", "1");
    fixture_poll(s, p);
    pawl_close(p);
    p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "1", NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "now"), PAWL_OK);
    pawl_close(p);
    p = open_here(s, "a");
    FIXTURE_REGISTER(s, p, goes_on);
    int64_t began = fixture_now(s);
    CANCELLED(s, p, "run", "now");
    assert_int_equal(fixture_now(s), began);
    pawl_close(p);
    fixture_free(s);
}

/* It comes while what is done at every end is done, before the next generation. */
static const char *cancels(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    pawl *p = (pawl *)(uintptr_t)atomic_load(fixture_number(s, 0));
    FIXTURE_CODE(s, p, pawl_cancel(p, pawl_work_run_id(work), "between"), PAWL_OK);
    return input;
}

static const char *begins_anew(pawl_run *run, const char *input)
{
    int64_t number = pawl_get_int(input, "", 0);
    if (number == 1) {
        pawl_finally(run, "clean", "1");
        pawl_finally(run, "cancels", "1");
        return pawl_continue_as_new(run, "2", NULL);
    }
    pawl_sleep(run, PAWL_HOURS(1));
    return input;
}

static void a_cancel_between_two_generations(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    atomic_store(fixture_number(s, 0), (int64_t)(uintptr_t)p);
    FIXTURE_REGISTER(s, p, begins_anew);
    fixture_register_work(s, p, "cancels", cancels);
    fixture_start(s, p, "begins_anew", "run", "1");
    int64_t began = fixture_now(s);
    CANCELLED(s, p, "run", "between");
    assert_int_equal(fixture_now(s), began);
    fixture_start(s, p, "begins_anew", "two", "2");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_cancel(p, "two", "the newest"), PAWL_OK);
    CANCELLED(s, p, "two", "the newest");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Deadlines ---- */

static void start_until(engine_fixture *s, pawl *p, const char *workflow, const char *id,
                        int64_t ms)
{
    FIXTURE_CODE(s, p, pawl_start(p, workflow, id, "1", PAWL_START(.deadline_ms = ms)), PAWL_OK);
}

static void a_deadline_cancels(conf *c)
{
    for (size_t i = 0; i < sizeof WAITING / sizeof *WAITING; i++) {
        engine_fixture *s = fixture_new(c);
        pawl *p = open_here(s, "a");
        int64_t began = fixture_now(s);
        start_until(s, p, WAITING[i], WAITING[i], 5000);
        CANCELLED(s, p, WAITING[i], "deadline");
        assert_true(fixture_now(s) - began >= 5000 && fixture_now(s) - began <= 6000);
        assert_int_equal(fixture_count(s, "behind"), 0);
        assert_int_equal(fixture_count(s, "clean"), (int)i + 1);
        pawl_close(p);
        fixture_free(s);
    }
}

/* No engine drives the run; or none can. */
static void a_deadline_while_no_engine_drives(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    start_until(s, p, "sleeps", "begun", 5000);
    fixture_poll(s, p);
    pawl_close(p);
    p = fixture_open(s, NULL);
    start_until(s, p, "sleeps", "not-begun", 5000);
    start_until(s, p, "nobody", "unknown", 5000);
    pawl_close(p);
    fixture_advance(s, PAWL_HOURS(1));
    p = open_here(s, "a");
    int64_t began = fixture_now(s);
    CANCELLED(s, p, "begun", "deadline");
    CANCELLED(s, p, "not-begun", "deadline");
    assert_true(fixture_now(s) - began <= 1000);
    CANCELLED(s, p, "unknown", "deadline");
    pawl_close(p);
    fixture_free(s);
}

/* It is held when its deadline comes: then it waits for no build any more. */
static void a_deadline_cancels_a_held_run(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    start_until(s, p, "sleeps", "by-hand", 5000);
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_hold(p, "by-hand", "wait"), PAWL_OK);
    fixture_poll(s, p);
    start_until(s, p, "nobody", "unknown", 8000);
    FIXTURE_HELD(s, p, "unknown", "no node");
    CANCELLED(s, p, "unknown", "deadline");
    CANCELLED(s, p, "by-hand", "deadline");
    assert_int_equal(fixture_count(s, "clean"), 1);
    pawl_close(p);
    fixture_free(s);
}

/* In time is in time: what comes later does not matter. */
static void a_run_that_ends_before_its_deadline_is_not_cancelled(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    start_until(s, p, "receives", "run", 5000);
    fixture_poll(s, p);
    fixture_advance(s, 4000);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "1", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    fixture_advance(s, 4000);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_DONE);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-W12 a cancel of a run that waits", a_cancel_of_a_run_that_waits, DB_SHARED},
        {"dx-X23 dx-Y1 a cancel reaches the children", a_cancel_reaches_the_children, 0},
        {"dx-W12 a cancel in a step", a_cancel_in_a_step, 0},
        {"dx-Y2 a cancel after the end of the function", a_cancel_after_the_end_of_the_function, 0},
        {"dx-Y13 a cancel before the run begins", a_cancel_before_the_run_begins, 0},
        {"a cancel of a run that is held as it does not fit its journal",
         a_cancel_of_a_run_that_is_held_as_it_does_not_fit_its_journal, DB_SHARED},
        {"a cancel of a run that is held as no engine has its workflow",
         a_cancel_of_a_run_that_is_held_as_no_engine_has_its_workflow, DB_SHARED},
        {"a cancel of a run that is held by hand", a_cancel_of_a_run_that_is_held_by_hand,
         DB_SHARED},
        {"a cancel of a run that is held as it kills its process",
         a_cancel_of_a_run_that_is_held_as_it_kills_its_process, DB_SHARED},
        {"dx-Y2 dx-Y11 dx-Y12 a cancel that is repeated", a_cancel_that_is_repeated, 0},
        {"a cancel from another process", a_cancel_from_another_process, DB_SHARED},
        {"a cancel that came after a message", a_cancel_that_came_after_a_message, DB_SHARED},
        {"dx-Y4 a cancel between two generations", a_cancel_between_two_generations, 0},
        {"a deadline cancels", a_deadline_cancels, DB_SHARED},
        {"a deadline while no engine drives", a_deadline_while_no_engine_drives, DB_SHARED},
        {"a deadline cancels a held run", a_deadline_cancels_a_held_run, 0},
        {"a run that ends before its deadline is not cancelled",
         a_run_that_ends_before_its_deadline_is_not_cancelled, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
