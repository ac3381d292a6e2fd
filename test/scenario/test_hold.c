/* Holds: why a run is held, and that it goes on when, and only when, the reason is gone. What was
 * done before is not done again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

/* An engine of this build, driven by hand. */
static pawl *open_build(engine_fixture *s, const char *build)
{
    return fixture_open(s, PAWL_OPTIONS(.threads = -1, .build = build));
}

static const char *two_steps(pawl_run *run, const char *input)
{
    (void)input;
    FIXTURE_ECHO(run, "first", "1");
    pawl_sleep(run, 1000);
    return FIXTURE_ECHO(run, "second", "1");
}

/* Let time pass for some engines. */
static void live_on(engine_fixture *s, pawl *const *engines, int count, int64_t ms)
{
    for (int64_t passed = 0; passed <= ms; passed += 500) {
        for (int i = 0; i < count; i++)
            fixture_poll(s, engines[i]);
        fixture_advance(s, 500);
    }
}

static void live_on_alone(engine_fixture *s, pawl *p, int64_t ms)
{
    live_on(s, &p, 1, ms);
}

static void expect_why(engine_fixture *s, pawl *p, const char *id, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(s, p, pawl_why(p, id, &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("expected '%s' in '%s'", words, why);
    pawl_free(why);
}

/* ---- By hand ---- */

static void by_hand_before_it_begins(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, two_steps);
    fixture_start(s, p, "two_steps", "run", "null");
    FIXTURE_CODE(s, p, pawl_hold(p, "run", "let me look first"), PAWL_OK);
    live_on_alone(s, p, 60000);
    FIXTURE_NOTES(s, "");
    FIXTURE_HELD(s, p, "run", "let me look first");
    expect_why(s, p, "run", "It goes on when it is released.");
    FIXTURE_CODE(s, p, pawl_hold(p, "run", "another reason"), PAWL_OK);
    FIXTURE_HELD(s, p, "run", "another reason");
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "first second");
    pawl_close(p);
    fixture_free(s);
}

static void by_hand_while_it_sleeps(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, two_steps);
    fixture_poll(s, p); /* a node from here on: it owns what it starts */
    fixture_start(s, p, "two_steps", "run", "null");
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "first");
    FIXTURE_CODE(s, p, pawl_hold(p, "run", NULL), PAWL_OK);
    live_on_alone(s, p, 60000);
    FIXTURE_HELD(s, p, "run", "by hand");
    FIXTURE_NOTES(s, "first");
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "first second");
    FIXTURE_HISTORY(s, p, "run", "step:first sleep woken step:second");
    pawl_close(p);
    fixture_free(s);
}

/* Of two engines one owns the run and the other one's user holds it. */
static void by_hand_from_elsewhere(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p[] = {fixture_open(s, NULL), fixture_open(s, NULL)};
    FIXTURE_REGISTER(s, p[0], two_steps);
    fixture_poll(s, p[0]);
    fixture_start(s, p[0], "two_steps", "run", "null");
    fixture_poll(s, p[0]);
    FIXTURE_NOTES(s, "first");
    FIXTURE_CODE(s, p[1], pawl_hold(p[1], "run", "stop it"), PAWL_OK);
    live_on_alone(s, p[0], 60000);
    FIXTURE_NOTES(s, "first");
    FIXTURE_CODE(s, p[1], pawl_release(p[1], "run"), PAWL_OK);
    FIXTURE_DONE(s, p[0], "run", "1");
    FIXTURE_NOTES(s, "first second");
    pawl_close(p[0]);
    pawl_close(p[1]);
    fixture_free(s);
}

typedef struct inside {
    engine_fixture *fixture;
    pawl *p;
} inside;

static const char *hold_my_run(pawl_work *work, const char *input)
{
    const inside *in = pawl_work_arg(work);
    fixture_note(in->fixture, "holding");
    FIXTURE_CODE(in->fixture, in->p, pawl_hold(in->p, "run", "in its step"), PAWL_OK);
    return input;
}

static const char *holds_itself(pawl_run *run, const char *input)
{
    inside *in = pawl_arg(run);
    (void)input;
    pawl_step(run, "hold", hold_my_run, "1", PAWL_CALL(.arg = in));
    return pawl_step(run, "after", fixture_echo, "2", PAWL_CALL(.arg = in->fixture));
}

/* The step that is under way ends and is recorded; the next one is not called. */
static void by_hand_while_a_step_runs(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    inside in = {s, p};
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "w", holds_itself, PAWL_WORKFLOW(.arg = &in)),
                 PAWL_OK);
    fixture_start(s, p, "w", "run", "null");
    FIXTURE_HELD(s, p, "run", "in its step");
    live_on_alone(s, p, 60000);
    FIXTURE_NOTES(s, "holding");
    FIXTURE_HISTORY(s, p, "run", "step:hold");
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "2");
    FIXTURE_NOTES(s, "holding after");
    pawl_close(p);
    fixture_free(s);
}

static void what_cannot_be_held(conf *c)
{
    static char large[PAWL_MAX_ID + 2];
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    memset(large, 'x', sizeof large - 1);
    FIXTURE_REGISTER(s, p, two_steps);
    FIXTURE_CODE(s, p, pawl_hold(p, "nobody", "x"), PAWL_NOTFOUND);
    FIXTURE_CODE(s, p, pawl_release(p, "nobody"), PAWL_NOTFOUND);
    fixture_start(s, p, "two_steps", "run", "null");
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK); /* it was not held, and is not */
    FIXTURE_CODE(s, p, pawl_hold(p, "run", "\xff"), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_hold(p, "run", large), PAWL_LIMIT);
    FIXTURE_CODE(s, p, pawl_hold(p, NULL, "x"), PAWL_INVALID);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_CODE(s, p, pawl_hold(p, "run", "too late"), PAWL_ENDED);
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_ENDED);
    FIXTURE_DONE(s, p, "run", "1");
    pawl_close(p);
    fixture_free(s);
}

/* ---- A workflow that no node has ---- */

static void start_version(engine_fixture *s, pawl *p, const char *workflow, const char *version,
                          const char *id)
{
    FIXTURE_CODE(s, p, pawl_start(p, workflow, id, "null", PAWL_START(.version = version)),
                 PAWL_OK);
}

/* It is held after two seconds, and not before; an engine that registers the work function has it
 * at once. */
static void a_workflow_that_is_missing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    start_version(s, p, "checkout", NULL, "any");
    start_version(s, p, "checkout", "1.2", "old");
    fixture_poll(s, p);
    for (int i = 0; i < 19; i++) {
        fixture_advance(s, 100);
        fixture_poll(s, p);
    }
    assert_int_equal(fixture_phase(s, p, "any"), PAWL_RUN_LIVE);
    fixture_advance(s, 1100); /* and until it looks again */
    fixture_poll(s, p);
    FIXTURE_HELD(s, p, "any", "no node has checkout");
    FIXTURE_HELD(s, p, "old", "no node has checkout 1.2");
    expect_why(s, p, "old", "a node comes that has workflow");
    FIXTURE_CODE(
        s, p,
        pawl_register_workflow(p, "checkout", two_steps, PAWL_WORKFLOW(.version = "2", .arg = s)),
        PAWL_OK);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "first");
    FIXTURE_DONE(s, p, "any", "1");
    assert_int_equal(fixture_phase(s, p, "old"), PAWL_RUN_HELD);
    FIXTURE_CODE(
        s, p,
        pawl_register_workflow(p, "checkout", two_steps, PAWL_WORKFLOW(.version = "1.2", .arg = s)),
        PAWL_OK);
    FIXTURE_DONE(s, p, "old", "1");
    pawl_close(p);
    fixture_free(s);
}

/* The version that it got there stays its own. */
static void a_run_gets_the_version_of_the_first_that_has_one(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    pawl_info *info = NULL;
    start_version(s, p, "w", NULL, "run");
    FIXTURE_CODE(s, p,
                 pawl_register_workflow(p, "w", two_steps, PAWL_WORKFLOW(.version = "7", .arg = s)),
                 PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_CODE(s, p, pawl_inspect(p, "run", &info), PAWL_OK);
    assert_string_equal(pawl_info_version(info), "7");
    pawl_info_free(info);
    pawl_close(p);
    fixture_free(s);
}

/* A node that has it may be slow; that is no reason to hold. */
static void not_held_while_a_live_node_has_the_workflow(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *slow = fixture_open(s, NULL), *other = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, slow, two_steps);
    fixture_poll(s, slow);
    fixture_poll(s, other);
    start_version(s, other, "two_steps", NULL, "run");
    for (int i = 0; i < 4; i++) {
        fixture_advance(s, 1000);
        fixture_poll(s, other);
    }
    assert_int_equal(fixture_phase(s, other, "run"), PAWL_RUN_LIVE);
    pawl_close(slow);
    fixture_advance(s, 1000);
    fixture_poll(s, other);
    FIXTURE_HELD(s, other, "run", "no node has two_steps");
    pawl_close(other);
    fixture_free(s);
}

/* A node that comes later, with the workflow, finds what is held. */
static void a_held_run_goes_on_where_the_workflow_is_registered(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    start_version(s, p, "two_steps", NULL, "run");
    start_version(s, p, "nobody's", NULL, "other");
    FIXTURE_HELD(s, p, "run", "no node has");
    pawl *q = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, q, two_steps);
    FIXTURE_DONE(s, q, "run", "1");
    FIXTURE_HELD(s, q, "other", "no node has nobody's");
    pawl_close(p);
    pawl_close(q);
    fixture_free(s);
}

/* B4: runs that no node can drive do not stand before runs that can be driven. */
static void a_run_is_claimed_behind_a_thousand_that_no_node_can_drive(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    for (int i = 0; i < 1000; i++) {
        char id[32];
        snprintf(id, sizeof id, "stuck-%d", i);
        start_version(s, p, "unknown", NULL, id);
    }
    FIXTURE_REGISTER(s, p, two_steps);
    fixture_advance(s, 1);
    fixture_start(s, p, "two_steps", "run", "null");
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "first");
    FIXTURE_DONE(s, p, "run", "1");
    live_on_alone(s, p, 4000);
    assert_int_equal(fixture_phase(s, p, "stuck-0"), PAWL_RUN_HELD);
    assert_int_equal(fixture_phase(s, p, "stuck-999"), PAWL_RUN_HELD);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "unknown", two_steps, PAWL_WORKFLOW(.arg = s)),
                 PAWL_OK);
    live_on_alone(s, p, 4000);
    assert_int_equal(fixture_count(s, "second"), 1001);
    assert_int_equal(fixture_phase(s, p, "stuck-0"), PAWL_RUN_DONE);
    assert_int_equal(fixture_phase(s, p, "stuck-999"), PAWL_RUN_DONE);
    pawl_close(p);
    fixture_free(s);
}

/* ---- A work function that is not there ---- */

static const char *calls(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "first", "1");
    return pawl_call(run, "charge", input, NULL);
}

static void a_work_function_that_is_missing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, calls);
    fixture_start(s, p, "calls", "run", "7");
    FIXTURE_HELD(s, p, "run", "does not have the work function charge");
    fixture_register_work(s, p, "refund", fixture_echo);
    live_on_alone(s, p, 60000);
    FIXTURE_HELD(s, p, "run", "does not have the work function charge");
    fixture_register_work(s, p, "charge", fixture_echo);
    fixture_poll(s, p); /* at once */
    FIXTURE_DONE(s, p, "run", "7");
    FIXTURE_NOTES(s, "first charge");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Code that does not follow the journal ---- */

static const char *another_step(pawl_run *run, const char *input)
{
    (void)input;
    FIXTURE_ECHO(run, "other", "1");
    return "2";
}

/* Begun by one build, with the code of two_steps. */
static void begin_run(engine_fixture *s)
{
    pawl *p = open_build(s, "right");
    fixture_register(s, p, "w", two_steps);
    fixture_start(s, p, "w", "run", "null");
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "first");
    pawl_close(p);
}

static void expect_stuck(engine_fixture *s, const char *build)
{
    pawl *p = open_build(s, build);
    fixture_register(s, p, "w", another_step);
    FIXTURE_HELD(s, p, "run", "other");
    live_on_alone(s, p, 30000);
    pawl_close(p);
}

static void another_build_goes_on(conf *c)
{
    engine_fixture *s = fixture_new(c);
    begin_run(s);
    expect_stuck(s, "wrong");
    expect_stuck(s, "wrong");
    pawl *p = open_build(s, "right");
    fixture_register(s, p, "w", two_steps);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "first second");
    pawl_close(p);
    fixture_free(s);
}

/* Each node tries once: no run is handed to and fro. A release lets all nodes try again. */
static void builds_that_cannot_go_on_try_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    begin_run(s);
    pawl *p[] = {open_build(s, "wrong"), open_build(s, "worse")};
    for (int i = 0; i < 2; i++)
        fixture_register(s, p[i], "w", another_step);
    live_on(s, p, 2, 60000);
    FIXTURE_HELD(s, p[0], "run", "other");
    pawl_info *before = NULL, *after = NULL;
    FIXTURE_CODE(s, p[0], pawl_inspect(p[0], "run", &before), PAWL_OK);
    live_on(s, p, 2, 60000);
    FIXTURE_CODE(s, p[0], pawl_inspect(p[0], "run", &after), PAWL_OK);
    assert_int_equal(pawl_info_updated_ms(before), pawl_info_updated_ms(after));
    pawl_info_free(before);
    pawl_info_free(after);
    FIXTURE_CODE(s, p[0], pawl_release(p[0], "run"), PAWL_OK);
    live_on(s, p, 2, 60000);
    FIXTURE_CODE(s, p[0], pawl_inspect(p[0], "run", &after), PAWL_OK);
    assert_true(pawl_info_updated_ms(after) > fixture_now(s) - 60000);
    assert_int_equal(pawl_info_phase(after), PAWL_RUN_HELD);
    pawl_info_free(after);
    pawl_close(p[0]);
    pawl_close(p[1]);
    fixture_free(s);
}

/* A build that is there already goes on with what an older one has held. */
static void the_other_build_is_there_already(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    begin_run(s);
    pawl *old = open_build(s, "wrong"), *new = open_build(s, "right");
    fixture_register(s, new, "w", two_steps);
    fixture_register(s, old, "w", another_step);
    fixture_poll(s, new);
    fixture_start(s, old, "w", "unrelated", "null");
    FIXTURE_HELD(s, old, "run", "other");
    for (int i = 0; i < 15 && fixture_phase(s, new, "run") != PAWL_RUN_DONE; i++)
        live_on(s, (pawl *[]){new, old}, 2, 1000);
    assert_int_equal(fixture_phase(s, new, "run"), PAWL_RUN_DONE);
    pawl_close(old);
    pawl_close(new);
    fixture_free(s);
}

/* A wrong argument is a mistake in the workflow: a corrected build goes on. */
static const char *wrong_argument(pawl_run *run, const char *input)
{
    (void)input;
    FIXTURE_ECHO(run, "first", "1");
    pawl_sleep(run, -1);
    return FIXTURE_ECHO(run, "second", "1");
}

static void a_wrong_argument(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "wrong");
    fixture_register(s, p, "w", wrong_argument);
    fixture_start(s, p, "w", "run", "null");
    FIXTURE_HELD(s, p, "run", "negative duration");
    pawl_close(p);
    p = open_build(s, "right");
    fixture_register(s, p, "w", two_steps);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "first second");
    pawl_close(p);
    fixture_free(s);
}

/* What people hold stays held, whatever else is the matter with it. */
static void a_hold_by_hand_outlasts_the_reason_before_it(conf *c)
{
    engine_fixture *s = fixture_new(c);
    begin_run(s);
    expect_stuck(s, "wrong");
    pawl *p = open_build(s, "right");
    FIXTURE_CODE(s, p, pawl_hold(p, "run", "not yet"), PAWL_OK);
    fixture_register(s, p, "w", two_steps);
    live_on_alone(s, p, 30000);
    FIXTURE_HELD(s, p, "run", "not yet");
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    pawl_close(p);
    fixture_free(s);
}

/* ---- The ten-line program ---- */

static void finish_goes_on_with_what_it_can_drive(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    begin_run(s);
    expect_stuck(s, "wrong");
    pawl *p = open_build(s, "wrong");
    fixture_register(s, p, "w", another_step);
    pawl_outcome *end = NULL;
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 0, &end), PAWL_HELD);
    pawl_outcome_free(end);
    pawl_close(p);
    p = open_build(s, "right");
    fixture_register(s, p, "w", two_steps);
    fixture_advance(s, 10000);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 0, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), "1");
    pawl_outcome_free(end);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"held by hand before it begins", by_hand_before_it_begins, 0},
        {"held by hand while it sleeps", by_hand_while_it_sleeps, 0},
        {"held by hand by another process", by_hand_from_elsewhere, DB_SHARED},
        {"held by hand while a step runs", by_hand_while_a_step_runs, 0},
        {"by hand: what cannot be held", what_cannot_be_held, 0},
        {"dx-unregistered a workflow that is missing", a_workflow_that_is_missing, 0},
        {"dx-unregistered a run gets the version of the first that has one",
         a_run_gets_the_version_of_the_first_that_has_one, 0},
        {"dx-unregistered not held while a live node has the workflow",
         not_held_while_a_live_node_has_the_workflow, DB_SHARED},
        {"dx-unregistered a held run goes on where the workflow is registered",
         a_held_run_goes_on_where_the_workflow_is_registered, DB_SHARED},
        {"a run is claimed behind a thousand that no node can drive",
         a_run_is_claimed_behind_a_thousand_that_no_node_can_drive, 0},
        {"dx-unregistered a work function that is missing", a_work_function_that_is_missing, 0},
        {"another build goes on", another_build_goes_on, DB_SHARED},
        {"builds that cannot go on try once", builds_that_cannot_go_on_try_once, DB_SHARED},
        {"the other build is there already", the_other_build_is_there_already, DB_SHARED},
        {"a wrong argument", a_wrong_argument, DB_SHARED},
        {"a hold by hand outlasts the reason before it",
         a_hold_by_hand_outlasts_the_reason_before_it, DB_SHARED},
        {"finish goes on with what it can drive", finish_goes_on_with_what_it_can_drive, DB_SHARED},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
