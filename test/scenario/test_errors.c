/* What functions give back, and ask for, that makes no sense. A mistake of a work function fails
 * its call; a mistake of a workflow holds the run, so that a corrected build can go on; and other
 * runs are not affected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

static char *repeat(const char *text, size_t times)
{
    size_t size = strlen(text);
    char *all = malloc(size * times + 1);
    assert_non_null(all);
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * size, text, size);
    all[size * times] = '\0';
    return all;
}

/* Texts that are no JSON, or not such as pawl takes; the last ones are made by make_texts(). */
enum { PLAIN = 12, TEXTS = PLAIN + 3 };

typedef struct texts {
    engine_fixture *fixture;
    const char *at[TEXTS];
    char *made[TEXTS - PLAIN];
} texts;

static void make_texts(texts *t, engine_fixture *s)
{
    static const char *const ALL[PLAIN] = {
        "",    " ",  "{",  "[1,]",        "nul",         "1 2",
        "'a'", "01", "--", "\"\\u0000\"", "\"\\ud800\"", "\"\xff\"",
    };
    *t = (texts){.fixture = s};
    t->made[0] = repeat("[", PAWL_MAX_DEPTH + 1);
    t->made[1] = repeat("[", 1000000);
    t->made[2] = repeat(" ", (size_t)PAWL_MAX_PAYLOAD + 2);
    memcpy(t->at, ALL, sizeof ALL);
    for (int i = PLAIN; i < TEXTS; i++)
        t->at[i] = t->made[i - PLAIN];
}

static void free_texts(texts *t)
{
    for (int i = 0; i < TEXTS - PLAIN; i++)
        free(t->made[i]);
}

/* ---- What a work function gives ---- */

static const char *gives(pawl_work *work, const char *input)
{
    const texts *t = pawl_work_arg(work);
    fixture_note(t->fixture, "gives");
    return t->at[pawl_get_int(input, "", 0)];
}

static const char *takes(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "gives", gives, input);
}

static pawl *open_with(engine_fixture *s, const char *name, pawl_workflow_fn *fn, void *arg)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, name, fn, PAWL_WORKFLOW(.arg = arg)), PAWL_OK);
    return p;
}

/* Once: the same function would give the same again. */
static void a_result_that_is_no_json_fails_the_call(conf *c)
{
    texts t;
    engine_fixture *s = fixture_new(c);
    make_texts(&t, s);
    pawl *p = open_with(s, "takes", takes, &t);
    for (int i = 0; i < TEXTS; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(s, p, "takes", id, input);
        fixture_failed(s, p, id, "invalid", "not JSON, or too large", i);
        FIXTURE_HISTORY(s, p, id, "step-failed:gives");
    }
    assert_int_equal(fixture_count(s, "gives"), TEXTS);
    pawl_close(p);
    free_texts(&t);
    fixture_free(s);
}

static const char *gives_nothing(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "nothing");
    if (pawl_get_int(input, "", 0) == 5)
        return pawl_work_json(work, "[1,%j]", "x");
    return pawl_work_attempt(work) < pawl_get_int(input, "", 0) ? NULL : input;
}

static const char *wants_something(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "nothing", gives_nothing, input);
}

/* NULL without a word is a failure that may pass. */
static void a_step_that_returns_null_is_tried_again(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, "w", wants_something, s);
    fixture_start(s, p, "w", "run", "3");
    FIXTURE_DONE(s, p, "run", "3");
    FIXTURE_HISTORY(s, p, "run", "step-again:nothing attempt done");
    fixture_start(s, p, "w", "other", "4");
    FIXTURE_FAILED(s, p, "other", "null", "returned NULL");
    FIXTURE_NOTES(s, "nothing nothing nothing nothing nothing nothing");
    fixture_start(s, p, "w", "json", "5");
    FIXTURE_FAILED(
        s, p, "json", "null",
        "the work function returned NULL. A pawl_work_json() failed before: the argument "
        "of %j is not JSON, before byte 5 of the format");
    pawl_close(p);
    fixture_free(s);
}

/* ---- What a workflow gives ---- */

static const char *ends_with(pawl_run *run, const char *input)
{
    const texts *t = pawl_arg(run);
    int64_t which = pawl_get_int(input, "", 0);
    pawl_step(run, "a", fixture_echo, "1", PAWL_CALL(.arg = t->fixture));
    return which < 0 ? NULL : t->at[which];
}

/* What was done before stays done, and a corrected build does not do it again. */
static const char *ends_well(pawl_run *run, const char *input)
{
    const texts *t = pawl_arg(run);
    pawl_step(run, "a", fixture_echo, "1", PAWL_CALL(.arg = t->fixture));
    return input;
}

static void an_end_that_is_no_json_holds_the_run(conf *c)
{
    texts t;
    engine_fixture *s = fixture_new(c);
    make_texts(&t, s);
    pawl *p = open_with(s, "w", ends_with, &t);
    fixture_start(s, p, "w", "none", "-1");
    FIXTURE_FAILED(s, p, "none", "null", "returned NULL");
    for (int i = 0; i < TEXTS; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(s, p, "w", id, input);
        fixture_held(s, p, id, "result of the workflow", i);
        FIXTURE_HISTORY(s, p, id, "step:a");
    }
    if (c->promises & DB_DURABLE) {
        pawl_close(p);
        p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .build = "corrected"));
        FIXTURE_CODE(s, p, pawl_register_workflow(p, "w", ends_well, PAWL_WORKFLOW(.arg = &t)),
                     PAWL_OK);
        FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run-0") == PAWL_RUN_DONE);
        FIXTURE_DONE(s, p, "run-1", "1");
    }
    assert_int_equal(fixture_count(s, "a"), TEXTS + 1);
    pawl_close(p);
    free_texts(&t);
    fixture_free(s);
}

/* ---- JSON that could not be written ---- */

/* Writes its end in a way that makes no JSON: each way is a mistake of the code. */
static const char *ends_with_json(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_undo(run, "undo", input);
    switch (pawl_get_int(input, "", 0)) {
    case 0:
        return pawl_json(run, "{'a':%j}", "{");
    case 1:
        return pawl_json(run, "{'a':%x}", 1);
    case 2:
        return pawl_json(run, "{'a':1");
    case 3:
        return pawl_json(run, "%g", 1.0 / 0.0);
    case 4:
        return pawl_json(run, "'%j'", "1");
    case 5:
        return pawl_json(run, NULL);
    case 6:
        return pawl_json(run, "{'a':%i}", 1);
    default:
        return NULL;
    }
}

static const char *ends_with_good_json(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_undo(run, "undo", input);
    return pawl_json(run, "{'a':%j}", input);
}

static pawl *open_ends(engine_fixture *s, const char *build, pawl_workflow_fn *fn)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .build = build));
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "w", fn, PAWL_WORKFLOW(.arg = s)), PAWL_OK);
    fixture_register_work(s, p, "undo", fixture_echo);
    return p;
}

/* The run is held, its undos are not carried out, and a corrected build ends it well. NULL that
 * the workflow has chosen itself still fails the run. */
static void json_that_fails_at_the_end_holds_the_run(conf *c)
{
    static const char *const WORDS[] = {"the argument of %j is not JSON, before byte 7",
                                        "there is no such conversion, before byte 6",
                                        "the value is not JSON (at its byte 6)",
                                        "the argument of %g is not a finite number",
                                        "%j stands inside quotes",
                                        "the format is NULL",
                                        "%i is no conversion: write %lld with a cast"};
    enum { COUNT = sizeof WORDS / sizeof *WORDS };
    engine_fixture *s = fixture_new(c);
    pawl *p = open_ends(s, "wrong", ends_with_json);
    char id[32], input[32];
    for (int i = 0; i < COUNT; i++) {
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(s, p, "w", id, input);
        fixture_held(s, p, id, "result of the workflow w is NULL", i);
        fixture_held(s, p, id, WORDS[i], i);
    }
    assert_int_equal(fixture_count(s, "undo"), 0);
    fixture_start(s, p, "w", "chosen", "99");
    FIXTURE_FAILED(s, p, "chosen", "null", "returned NULL");
    assert_int_equal(fixture_count(s, "undo"), 1);
    if (c->promises & DB_DURABLE) {
        pawl_close(p);
        p = open_ends(s, "corrected", ends_with_good_json);
        FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run-0") == PAWL_RUN_DONE);
        FIXTURE_DONE(s, p, "run-1", "{\"a\":1}");
        assert_int_equal(fixture_count(s, "undo"), 1);
    }
    pawl_close(p);
    fixture_free(s);
}

/* ---- What a workflow asks for ---- */

typedef struct mistake {
    const char *words;
    void (*make)(pawl_run *run, const texts *t);
} mistake;

#define MISTAKE(name, call)                                                                        \
    static void name(pawl_run *run, const texts *t)                                                \
    {                                                                                              \
        (void)t;                                                                                   \
        call;                                                                                      \
    }

static const char *in_a_transaction(pawl_work *work, void *native, const char *input)
{
    (void)work;
    (void)native;
    return input;
}

MISTAKE(step_without_name, pawl_step(run, NULL, fixture_echo, "1", NULL))
MISTAKE(step_of_no_text, pawl_step(run, "\xff", fixture_echo, "1", NULL))
MISTAKE(step_with_a_long_name, pawl_step(run, t->made[1], fixture_echo, "1", NULL))
MISTAKE(step_without_function, pawl_step(run, "x", NULL, "1", NULL))
MISTAKE(step_with_an_empty_name, pawl_step(run, "", fixture_echo, "1", NULL))
MISTAKE(step_with_a_reserved_name, pawl_step(run, "pawl.x", fixture_echo, "1", NULL))
MISTAKE(later_with_an_empty_name, pawl_step_later(run, "", fixture_echo, "1", NULL))
MISTAKE(until_with_a_reserved_name, pawl_until(run, "pawl.", fixture_echo, "1", 1, 1))
MISTAKE(transact_with_an_empty_name, pawl_transact(run, "", in_a_transaction, "1", NULL))
MISTAKE(call_with_a_reserved_name, pawl_call(run, "pawl.x", "1", NULL))
MISTAKE(call_with_an_empty_name, pawl_call(run, "", "1", NULL))
MISTAKE(undo_with_a_reserved_name, pawl_undo(run, "pawl.x", "1"))
MISTAKE(step_with_an_empty_undo, pawl_step(run, "x", fixture_echo, "1", PAWL_CALL(.undo = "")))
MISTAKE(patch_with_an_empty_name, pawl_patch(run, ""))
MISTAKE(step_without_input, pawl_step(run, "x", fixture_echo, NULL, NULL))
MISTAKE(step_of_no_json, pawl_step(run, "x", fixture_echo, "{", NULL))
MISTAKE(step_too_deep, pawl_step(run, "x", fixture_echo, t->made[0], NULL))
MISTAKE(step_too_large, pawl_step(run, "x", fixture_echo, t->made[2], NULL))
MISTAKE(call_without_name, pawl_call(run, NULL, "1", NULL))
MISTAKE(call_of_no_json, pawl_call(run, "x", "nul", NULL))
MISTAKE(call_of_nothing, pawl_call(run, "x", NULL, NULL))
MISTAKE(child_of_nothing, pawl_child(run, "kid", NULL, NULL))
MISTAKE(undo_of_nothing, pawl_undo(run, "x", NULL))
MISTAKE(tell_of_nothing, pawl_tell(run, "other", "box", NULL))
MISTAKE(state_of_nothing, pawl_state_set(run, "key", NULL))
MISTAKE(again_of_nothing, pawl_continue_as_new(run, NULL, NULL))
MISTAKE(step_of_failed_json, pawl_step(run, "x", fixture_echo, pawl_json(run, "{"), NULL))
MISTAKE(until_without_input, pawl_until(run, "x", fixture_echo, NULL, 1, 1))
MISTAKE(patch_without_name, pawl_patch(run, NULL))
MISTAKE(patch_of_no_text, pawl_patch(run, "\xc3"))
MISTAKE(fail_without_name, pawl_fail(run, NULL, "x"))
MISTAKE(defer_of_nothing, pawl_defer(run, NULL, NULL))
MISTAKE(status_of_nothing, pawl_set_status(run, NULL))
MISTAKE(status_of_no_json, pawl_set_status(run, "'x'"))
MISTAKE(attribute_without_name, pawl_attr(run, NULL, "1"))
MISTAKE(attribute_of_no_json, pawl_attr(run, "x", "{"))
MISTAKE(attribute_of_nothing, pawl_attr(run, "x", NULL))
MISTAKE(options_without_size,
        pawl_step(run, "x", fixture_echo, "1", &(pawl_call_options){.size = 1}))

#define STEP_WITH(option) pawl_step(run, "x", fixture_echo, "1", PAWL_CALL(option))
MISTAKE(step_with_a_queue, STEP_WITH(.queue = "fast"))
MISTAKE(step_with_a_tag, STEP_WITH(.tag = "gpu"))
MISTAKE(step_with_an_affinity, STEP_WITH(.affinity = "here"))
MISTAKE(step_with_a_fair_key, STEP_WITH(.fair_key = "ann"))
MISTAKE(step_with_a_priority, STEP_WITH(.priority = -1))

static const mistake MISTAKES[] = {
    {"name of the step is NULL", step_without_name},
    {"name of the step", step_of_no_text},
    {"name of the step", step_with_a_long_name},
    {"work function of step x is NULL", step_without_function},
    {"name of the step is empty", step_with_an_empty_name},
    {"name of the step is pawl.x: names that begin with \"pawl.\"", step_with_a_reserved_name},
    {"name of the step is empty", later_with_an_empty_name},
    {"names that begin with \"pawl.\"", until_with_a_reserved_name},
    {"name of the step is empty", transact_with_an_empty_name},
    {"names that begin with \"pawl.\"", call_with_a_reserved_name},
    {"name of the work function is empty", call_with_an_empty_name},
    {"names that begin with \"pawl.\"", undo_with_a_reserved_name},
    {"option undo is empty", step_with_an_empty_undo},
    {"name of the patch is empty", patch_with_an_empty_name},
    {"input of the step x is NULL; \"null\" means nothing", step_without_input},
    {"input of the step x is not JSON (at byte 1)", step_of_no_json},
    {"nested too deeply", step_too_deep},
    {"input of the step x is larger", step_too_large},
    {"name of the work function is NULL", call_without_name},
    {"input of the call of x is not JSON", call_of_no_json},
    {"input of the call of x is NULL", call_of_nothing},
    {"input of the child kid is NULL", child_of_nothing},
    {"input of the clean-up x is NULL", undo_of_nothing},
    {"message to the mailbox box is NULL", tell_of_nothing},
    {"value of the state key is NULL", state_of_nothing},
    {"input of the next generation is NULL", again_of_nothing},
    {"input of the step x is NULL", until_without_input},
    {"input of the step x is NULL; \"null\" means nothing. An earlier pawl_json() failed: the "
     "value is not JSON (at its byte 1)",
     step_of_failed_json},
    {"name of the patch is NULL", patch_without_name},
    {"name of the patch", patch_of_no_text},
    {"name of the failure is NULL", fail_without_name},
    {"pawl_defer() of NULL", defer_of_nothing},
    {"status is NULL", status_of_nothing},
    {"status is not JSON", status_of_no_json},
    {"attribute", attribute_without_name},
    {"value of the attribute x is not JSON", attribute_of_no_json},
    {"value of the attribute x is NULL", attribute_of_nothing},
    {"options", options_without_size},
    {"are not built yet", step_with_a_queue},
    {"are not built yet", step_with_a_tag},
    {"are not built yet", step_with_an_affinity},
    {"are not built yet", step_with_a_fair_key},
    {"are not built yet", step_with_a_priority},
};

static const char *mistaken(pawl_run *run, const char *input)
{
    const texts *t = pawl_arg(run);
    pawl_step(run, "a", fixture_echo, "1", PAWL_CALL(.arg = t->fixture));
    pawl_now(run); /* a corrected build may not ask for it, so it is forgotten */
    MISTAKES[pawl_get_int(input, "", 0)].make(run, t);
    return "\"it came back\"";
}

static const char *right(pawl_run *run, const char *input)
{
    const texts *t = pawl_arg(run);
    return pawl_step(run, "b", fixture_echo, input, PAWL_CALL(.arg = t->fixture));
}

/* Whatever is asked for in a wrong way: the run is held in words that say what, and none of it is
 * executed or recorded. */
static void a_wrong_argument_holds_the_run(conf *c)
{
    enum { COUNT = sizeof MISTAKES / sizeof *MISTAKES };
    texts t;
    engine_fixture *s = fixture_new(c);
    make_texts(&t, s);
    pawl *p = open_with(s, "w", mistaken, &t);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "right", right, PAWL_WORKFLOW(.arg = &t)),
                 PAWL_OK);
    for (int i = 0; i < COUNT; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(s, p, "w", id, input);
    }
    fixture_start(s, p, "right", "beside", "7");
    for (int i = 0; i < COUNT; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_held(s, p, id, MISTAKES[i].words, i);
        fixture_history(s, p, id, "step:a", i);
    }
    FIXTURE_DONE(s, p, "beside", "7");
    assert_int_equal(fixture_count(s, "a"), COUNT);
    assert_int_equal(fixture_count(s, "b"), 1);
    pawl_close(p);
    free_texts(&t);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-errors a result that is no JSON fails the call", a_result_that_is_no_json_fails_the_call,
     0},
    {"dx-errors a step that returns NULL is tried again", a_step_that_returns_null_is_tried_again,
     0},
    {"dx-errors an end that is no JSON holds the run", an_end_that_is_no_json_holds_the_run, 0},
    {"dx-errors JSON that fails at the end holds the run", json_that_fails_at_the_end_holds_the_run,
     0},
    {"dx-errors a wrong argument holds the run", a_wrong_argument_holds_the_run, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
