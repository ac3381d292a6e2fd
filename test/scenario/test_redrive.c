/* Redrive: a run that has failed, was cancelled or is held goes on as a new generation. Steps that
 * are kept are not executed again; steps that were undone are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

enum { WORKS, ENGINE }; /* numbers of the fixture: things work now; the handle */

/* It fails for good until the test says otherwise. */
static const char *perhaps(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "%s", pawl_work_name(work));
    return atomic_load(fixture_number(s, WORKS))
               ? input
               : pawl_work_fail(work, PAWL_PERMANENT, "broken", "no way");
}

#define ARG .arg = pawl_arg(run)
#define PERHAPS(name) pawl_step(run, name, perhaps, "1", PAWL_CALL(ARG))

static const char *plain(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    FIXTURE_ECHO(run, "b", "1");
    PERHAPS("c");
    FIXTURE_ECHO(run, "d", "1");
    return input;
}

static const char *undone(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_sleep(run, 10);
    FIXTURE_ECHO(run, "b", "1");
    pawl_undo(run, "undo-b", "1");
    PERHAPS("c");
    return input;
}

static pawl *open_build(engine_fixture *s, const char *build)
{
    pawl *p = fixture_open(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .build = build});
    FIXTURE_REGISTER(s, p, plain);
    FIXTURE_REGISTER(s, p, undone);
    fixture_register_work(s, p, "undo-b", fixture_echo);
    atomic_store(fixture_number(s, ENGINE), (int64_t)(uintptr_t)p);
    return p;
}

static void now_it_works(engine_fixture *s, int works)
{
    atomic_store(fixture_number(s, WORKS), works);
}

static int64_t generation_of(engine_fixture *s, pawl *p, const char *id)
{
    pawl_info *info = NULL;
    FIXTURE_CODE(s, p, pawl_inspect(p, id, &info), PAWL_OK);
    int64_t generation = pawl_info_generation(info);
    pawl_info_free(info);
    return generation;
}

/* ---- What is kept ---- */

static void from_the_first_that_failed(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    fixture_start(s, p, "plain", "run", "5");
    FIXTURE_FAILED(s, p, "run", "broken", "");
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK);
    FIXTURE_FAILED(s, p, "run", "broken", ""); /* as before */
    now_it_works(s, 1);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "5");
    FIXTURE_NOTES(s, "a b c c c d");
    assert_int_equal(generation_of(s, p, "run"), 3);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_REFUSED);
    pawl_close(p);
    fixture_free(s);
}

static void whole_and_from(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    for (int i = 0; i < 3; i++) {
        static const char *const IDS[] = {"x", "y", "z"};
        now_it_works(s, 0);
        fixture_clear_notes(s);
        fixture_start(s, p, "plain", IDS[i], "5");
        FIXTURE_FAILED(s, p, IDS[i], "broken", "");
        now_it_works(s, 1);
        fixture_clear_notes(s);
        FIXTURE_CODE(s, p, pawl_redrive(p, IDS[i], PAWL_REDRIVE(.from = "nothing")), PAWL_NOTFOUND);
        if (i == 0)
            FIXTURE_CODE(s, p, pawl_redrive(p, IDS[i], PAWL_REDRIVE(.whole = 1)), PAWL_OK);
        else
            FIXTURE_CODE(s, p, pawl_redrive(p, IDS[i], PAWL_REDRIVE(.from = i == 1 ? "b" : "c")),
                         PAWL_OK);
        FIXTURE_DONE(s, p, IDS[i], "5");
        FIXTURE_NOTES(s, i == 0 ? "a b c d" : i == 1 ? "b c d" : "c d");
    }
    pawl_close(p);
    fixture_free(s);
}

static void what_was_undone(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    fixture_start(s, p, "undone", "run", "5");
    FIXTURE_FAILED(s, p, "run", "broken", "");
    FIXTURE_NOTES(s, "a b c undo-b");
    now_it_works(s, 1);
    fixture_clear_notes(s);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "5");
    FIXTURE_NOTES(s, "b c");
    pawl_close(p);
    fixture_free(s);
}

/* What is undone by an option stands before what it undoes. */
static const char *optional(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_future *f = pawl_step_later(run, "b", fixture_echo, "1", PAWL_CALL(ARG, .undo = "undo-b"));
    FIXTURE_ECHO(run, "x", "1");
    pawl_await(run, f);
    PERHAPS("c");
    return input;
}

static void what_was_undone_by_an_option(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, optional);
    fixture_start(s, p, "optional", "run", "5");
    FIXTURE_FAILED(s, p, "run", "broken", "");
    now_it_works(s, 1);
    fixture_clear_notes(s);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "5");
    assert_int_equal(fixture_count(s, "a"), 0);
    assert_int_equal(fixture_count(s, "b"), 1);
    assert_int_equal(fixture_count(s, "c"), 1);
    pawl_close(p);
    fixture_free(s);
}

static const char *quick(pawl_run *run, const char *input)
{
    pawl_sleep(run, 10);
    FIXTURE_ECHO(run, "a", "1");
    return input;
}

/* A call that was begun before the cut, and answered behind it, is not made again. */
static const char *answered_later(pawl_run *run, const char *input)
{
    pawl_future *f = pawl_sleep_later(run, 5000), *k = pawl_child_later(run, "quick", "7", NULL);
    PERHAPS("b");
    pawl_try(run, pawl_step_later(run, "first", perhaps, "1", PAWL_CALL(ARG)));
    pawl_await(run, f);
    const char *kid = pawl_await(run, k);
    PERHAPS("c");
    (void)input;
    return kid;
}

static void answers_are_kept(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, answered_later);
    FIXTURE_REGISTER(s, p, quick);
    now_it_works(s, 1);
    fixture_start(s, p, "answered_later", "run", "5");
    fixture_poll(s, p);
    fixture_poll(s, p);
    now_it_works(s, 0);
    FIXTURE_FAILED(s, p, "run", "broken", "");
    now_it_works(s, 1);
    int kids = fixture_count(s, "a");
    int64_t before = fixture_now(s);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "7");
    assert_int_equal(fixture_now(s), before); /* the sleep is over */
    assert_int_equal(fixture_count(s, "a"), kids);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Messages go back, in their order ---- */

static const char *receives(pawl_run *run, const char *input)
{
    const char *a, *b, *d;
    pawl_receive(run, "box", PAWL_FOREVER, &a);
    PERHAPS("x");
    pawl_receive(run, "box", PAWL_FOREVER, &b);
    pawl_receive(run, "box", PAWL_FOREVER, &d);
    pawl_sleep(run, 10); /* it lives until the test moves the clock */
    PERHAPS("c");
    (void)input;
    return pawl_json(run, "[%j,%j,%j,%s]", a, b, d, pawl_sender(run));
}

static void messages_go_back(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p =
        fixture_open(s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .name = "me"});
    FIXTURE_REGISTER(s, p, receives);
    now_it_works(s, 1);
    fixture_start(s, p, "receives", "run", "5");
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "1", PAWL_SEND(.key = "one")), PAWL_OK);
    fixture_poll(s, p);
    now_it_works(s, 0);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "2", PAWL_SEND(.key = "two")), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "3", NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "4", NULL), PAWL_OK);
    FIXTURE_FAILED(s, p, "run", "broken", "");
    now_it_works(s, 1);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.from = "x")), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "2", PAWL_SEND(.key = "two")), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "[1,2,3,\"me\"]");
    pawl_close(p);
    fixture_free(s);
}

/* ---- When it may be ---- */

/* ---- Keys, and work in retry ---- */

/* Its notes: which attempt this is, and its key, without the names of the database and the run. */
static const char *keyed(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    const char *key = strchr(pawl_work_key(work), '.');
    key = key ? strchr(key + 1, '.') : NULL;
    fixture_note(s, "attempt %d", (int)pawl_work_attempt(work));
    fixture_note(s, "key %s", key ? key : "none");
    return atomic_load(fixture_number(s, WORKS))
               ? input
               : pawl_work_fail(work, PAWL_TRANSIENT, "net", "gone");
}

#define PATIENT .attempts = 9, .backoff_ms = 3600000, .backoff_max_ms = 3600000, .no_jitter = 1

static const char *patient(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    if (strcmp(input, "1") == 0)
        return pawl_call(run, "keyed", input, PAWL_CALL(PATIENT, .undo = "undo-b"));
    return pawl_step(run, "keyed", keyed, input, PAWL_CALL(ARG, PATIENT));
}

static void hold_it(engine_fixture *s, pawl *p, const char *id)
{
    char *why = NULL;
    FIXTURE_CODE(s, p, pawl_hold(p, id, "look"), PAWL_OK);
    fixture_poll(s, p);
    FIXTURE_HELD(s, p, id, "look");
    FIXTURE_CODE(s, p, pawl_why(p, id, &why), PAWL_OK);
    FIXTURE_CHECK(s, strstr(why, "a release keeps the idempotency keys of what was under way, a"
                                 " redrive gives new ones.\n"));
    pawl_free(why);
}

/* A release goes on with the next attempt, under the same key, when that is due. A redrive begins
 * with the first, under another key, at once. */
static void retry_is_begun_anew(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, patient);
    fixture_register_work(s, p, "keyed", keyed);
    for (int calls = 0; calls < 2; calls++) {
        const char *id = calls ? "call" : "step";
        now_it_works(s, 0);
        fixture_clear_notes(s);
        fixture_start(s, p, "patient", id, calls ? "1" : "0");
        FIXTURE_UNTIL(s, p, fixture_count(s, "attempt 1") == 1);
        hold_it(s, p, id);
        FIXTURE_CODE(s, p, pawl_release(p, id), PAWL_OK);
        fixture_poll(s, p);
        assert_int_equal(fixture_count(s, "attempt 2"), 0);
        fixture_advance(s, 3600001);
        FIXTURE_UNTIL(s, p, fixture_count(s, "attempt 2") == 1);
        assert_int_equal(fixture_count(s, calls ? "key .1.4" : "key .1.3"), 2);
        hold_it(s, p, id);
        now_it_works(s, 1);
        int64_t before = fixture_now(s);
        FIXTURE_CODE(s, p, pawl_redrive(p, id, NULL), PAWL_OK);
        FIXTURE_UNTIL(s, p, fixture_phase(s, p, id) == PAWL_RUN_DONE);
        assert_true(fixture_now(s) - before < 3600000);
        assert_int_equal(fixture_count(s, "attempt 1"), 2);
        assert_int_equal(fixture_count(s, calls ? "key .2.4" : "key .2.3"), 1);
        assert_int_equal(fixture_count(s, "a"), 1); /* what was done is kept */
    }
    pawl_close(p);
    fixture_free(s);
}

static void which_runs_may_be_redriven(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_CODE(s, p, pawl_redrive(p, "nobody", NULL), PAWL_NOTFOUND);
    fixture_start(s, p, "plain", "run", "5");
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "1", PAWL_SEND(.key = "m")), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_REFUSED);
    FIXTURE_FAILED(s, p, "run", "broken", "");
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "k")), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "k")), PAWL_OK);
    FIXTURE_FAILED(s, p, "run", "broken", "");
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "k")), PAWL_OK);
    assert_int_equal(generation_of(s, p, "run"), 2); /* once */
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "l")), PAWL_OK);
    assert_int_equal(generation_of(s, p, "run"), 3);
    FIXTURE_FAILED(s, p, "run", "broken", "");
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "m")), PAWL_CONFLICT);
    pawl_close(p);
    fixture_free(s);
}

/* A key stands for what was asked for with it: another scope under the same key is refused, and not
 * passed over in silence. */
static void a_key_has_one_scope(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    fixture_start(s, p, "plain", "run", "5");
    FIXTURE_FAILED(s, p, "run", "broken", "");
    const pawl_redrive_options *const other[] = {
        PAWL_REDRIVE(.key = "k"), PAWL_REDRIVE(.key = "k", .from = "b"),
        PAWL_REDRIVE(.key = "k", .whole = 1), PAWL_REDRIVE(.key = "k", .version = "1"),
        PAWL_REDRIVE(.key = "k", .from = "a", .version = "1")};
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "k", .from = "a")), PAWL_OK);
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        FIXTURE_CODE(s, p, pawl_redrive(p, "run", other[i]), PAWL_CONFLICT);
        assert_non_null(strstr(pawl_errmsg(p), "another scope"));
    }
    FIXTURE_FAILED(s, p, "run", "broken", "");
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "k", .from = "a")), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", other[2]), PAWL_CONFLICT);
    assert_int_equal(generation_of(s, p, "run"), 2);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "w", .whole = 1)), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "w", .whole = 1, .from = "a")),
                 PAWL_OK); /* which does not matter then */
    assert_int_equal(generation_of(s, p, "run"), 3);
    pawl_close(p);
    fixture_free(s);
}

/* A client cancels it while its last step fails. That is over then. */
static const char *stopped_and_broken(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    pawl *p = (pawl *)(uintptr_t)atomic_load(fixture_number(s, ENGINE));
    if (!atomic_load(fixture_number(s, WORKS)))
        FIXTURE_CODE(s, p, pawl_cancel(p, pawl_work_run_id(work), "too late"), PAWL_OK);
    return perhaps(work, input);
}

static const char *is_stopped(pawl_run *run, const char *input)
{
    pawl_step(run, "a", stopped_and_broken, "1", PAWL_CALL(ARG));
    pawl_sleep(run, 1000);
    return input;
}

static void a_redrive_ends_the_cancel(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, is_stopped);
    fixture_start(s, p, "is_stopped", "run", "5");
    FIXTURE_FAILED(s, p, "run", "broken", "");
    now_it_works(s, 1);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "5");
    pawl_close(p);
    fixture_free(s);
}

static const char *sleeps(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_sleep(run, 60000);
    FIXTURE_ECHO(run, "b", "1");
    return input;
}

static void a_cancelled_run_is_redriven(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, sleeps);
    FIXTURE_CODE(s, p, pawl_start(p, "sleeps", "run", "5", PAWL_START(.deadline_ms = 5000)),
                 PAWL_OK);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_CANCELLED);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "5");
    FIXTURE_NOTES(s, "a b");
    fixture_start(s, p, "sleeps", "two", "5");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_cancel(p, "two", "no"), PAWL_OK);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "two") == PAWL_RUN_CANCELLED);
    FIXTURE_CODE(s, p, pawl_redrive(p, "two", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "two", "5");
    FIXTURE_NOTES(s, "a b a b");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Held ones ---- */

static const char *with_a_child(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_future *k = pawl_child_later(run, "sleeps", "7", NULL);
    pawl_sleep(run, 1000);
    const char *kid = pawl_await(run, k);
    (void)input;
    return kid;
}

static const char *other_code(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "other", "1");
    return input;
}

static int count_live(const pawl_info *info, void *arg)
{
    *(int *)arg += pawl_info_phase(info) == PAWL_RUN_LIVE;
    return 0;
}

/* Its pending child is its child still; if it is done again, the old one is not needed. */
static void a_held_one_with_a_child(conf *c)
{
    for (int whole = 0; whole < 2; whole++) {
        engine_fixture *s = fixture_new(c);
        const char *id = whole ? "whole" : "run";
        int live = 0;
        pawl *p = open_build(s, "a");
        FIXTURE_REGISTER(s, p, sleeps);
        fixture_register(s, p, "w", with_a_child);
        fixture_start(s, p, "w", id, "5");
        fixture_poll(s, p);
        FIXTURE_CODE(s, p, pawl_hold(p, id, "look"), PAWL_OK);
        fixture_poll(s, p);
        FIXTURE_HELD(s, p, id, "look");
        FIXTURE_CODE(s, p, pawl_redrive(p, id, PAWL_REDRIVE(.whole = whole)), PAWL_OK);
        fixture_poll(s, p);
        FIXTURE_CODE(s, p, pawl_tree(p, id, count_live, &live), PAWL_OK);
        assert_int_equal(live, 2);
        FIXTURE_DONE(s, p, id, "7");
        pawl_close(p);
        fixture_free(s);
    }
}

static void a_run_that_does_not_fit_its_journal_is_redriven(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, sleeps);
    fixture_register(s, p, "w", sleeps);
    fixture_start(s, p, "w", "run", "5");
    fixture_poll(s, p);
    pawl_close(p);
    p = open_build(s, "b");
    fixture_register(s, p, "w", other_code);
    FIXTURE_HELD(s, p, "run", "other");
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.whole = 1)), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "5");
    FIXTURE_NOTES(s, "a other");
    pawl_close(p);
    fixture_free(s);
}

/* A version that no engine has, and one that is there. */
static void a_redrive_with_another_version(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    fixture_register(s, p, "w", other_code);
    FIXTURE_CODE(s, p, pawl_start(p, "w", "run", "5", PAWL_START(.version = "7")), PAWL_OK);
    FIXTURE_HELD(s, p, "run", "w 7");
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.version = "1")), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "5");
    pawl_close(p);
    fixture_free(s);
}

/* A clean-up is stuck: the run begins where it was, with what is undone already. */
static const char *stuck(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_undo(run, "hard", "1");
    FIXTURE_ECHO(run, "b", "1");
    pawl_undo(run, "undo-b", "1");
    PERHAPS("c");
    return input;
}

static void a_run_with_a_stuck_clean_up_is_redriven(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, stuck);
    fixture_register_work(s, p, "hard", perhaps);
    fixture_start(s, p, "stuck", "run", "5");
    FIXTURE_HELD(s, p, "run", "hard");
    FIXTURE_NOTES(s, "a b c undo-b hard");
    now_it_works(s, 1);
    fixture_clear_notes(s);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "5");
    FIXTURE_NOTES(s, "b c"); /* a was not undone */
    pawl_close(p);
    fixture_free(s);
}

/* A child whose id was given, that has failed: it is asked for again under that id. */
static const char *names_its_child(pawl_run *run, const char *input)
{
    return pawl_child(run, "plain", input, PAWL_CHILD(.id = "named"));
}

static void a_child_that_has_failed(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, names_its_child);
    fixture_start(s, p, "names_its_child", "run", "5");
    FIXTURE_FAILED(s, p, "run", "broken", "");
    now_it_works(s, 1);
    FIXTURE_CODE(s, p, pawl_redrive(p, "named", NULL),
                 PAWL_OK); /* by itself: no client waits for it */
    FIXTURE_DONE(s, p, "named", "5");
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_FAILED);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", NULL), PAWL_OK); /* an id is used once */
    FIXTURE_FAILED(s, p, "run", "conflict", "named");
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-W11 from the first that failed", from_the_first_that_failed, 0},
        {"a redrive of the whole run, and from an op", whole_and_from, 0},
        {"what was undone is done again", what_was_undone, 0},
        {"what was undone by an option", what_was_undone_by_an_option, 0},
        {"answers are kept", answers_are_kept, 0},
        {"messages go back", messages_go_back, 0},
        {"a retry is begun anew", retry_is_begun_anew, 0},
        {"which runs may be redriven", which_runs_may_be_redriven, 0},
        {"a key has one scope", a_key_has_one_scope, 0},
        {"a redrive ends the cancel", a_redrive_ends_the_cancel, 0},
        {"a cancelled run is redriven", a_cancelled_run_is_redriven, 0},
        {"a held one with a child", a_held_one_with_a_child, DB_SHARED},
        {"dx-W11 a run that does not fit its journal is redriven",
         a_run_that_does_not_fit_its_journal_is_redriven, DB_SHARED},
        {"a redrive with another version", a_redrive_with_another_version, 0},
        {"a run with a stuck clean-up is redriven", a_run_with_a_stuck_clean_up_is_redriven, 0},
        {"a child that has failed", a_child_that_has_failed, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
