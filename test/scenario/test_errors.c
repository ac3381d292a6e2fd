/* What functions give back, and ask for, that makes no sense. A mistake of a work function fails
 * its call; a mistake of a workflow holds the run, so that a corrected build can go on; and nobody
 * else notices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine.h"

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
    stage *stage;
    const char *at[TEXTS];
    char *made[TEXTS - PLAIN];
} texts;

static void make_texts(texts *t, stage *s)
{
    static const char *const ALL[PLAIN] = {
        "",    " ",  "{",  "[1,]",        "nul",         "1 2",
        "'a'", "01", "--", "\"\\u0000\"", "\"\\ud800\"", "\"\xff\"",
    };
    *t = (texts){.stage = s};
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
    stage_note(t->stage, "gives");
    return t->at[pawl_get_int(input, "", 0)];
}

static const char *takes(pawl_run *run, const char *input)
{
    return pawl_step(run, "gives", gives, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static pawl *open_with(stage *s, const char *name, pawl_workflow_fn *fn, void *arg)
{
    pawl *p = stage_open(s, NULL);
    STAGE_CODE(s, p, pawl_register_workflow(p, name, fn, PAWL_WORKFLOW(.arg = arg)), PAWL_OK);
    return p;
}

/* Once: the same function would give the same again. */
static void a_result_that_is_no_json_fails_the_call(conf *c)
{
    texts t;
    stage *s = stage_new(c);
    make_texts(&t, s);
    pawl *p = open_with(s, "takes", takes, &t);
    for (int i = 0; i < TEXTS; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        stage_start(s, p, "takes", id, input);
        stage_failed(s, p, id, "invalid", "not JSON, or too large", i);
        STAGE_HISTORY(s, p, id, "step-failed:gives");
    }
    assert_int_equal(stage_count(s, "gives"), TEXTS);
    pawl_close(p);
    free_texts(&t);
    stage_free(s);
}

static const char *gives_nothing(pawl_work *work, const char *input)
{
    stage_note(pawl_work_arg(work), "nothing");
    return pawl_work_attempt(work) < pawl_get_int(input, "", 0) ? NULL : input;
}

static const char *wants_something(pawl_run *run, const char *input)
{
    return pawl_step(run, "nothing", gives_nothing, input, PAWL_CALL(.arg = pawl_arg(run)));
}

/* NULL without a word is a failure that may pass. */
static void nothing_at_all_is_tried_again(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_with(s, "w", wants_something, s);
    stage_start(s, p, "w", "run", "3");
    STAGE_DONE(s, p, "run", "3");
    STAGE_HISTORY(s, p, "run", "step-again:nothing attempt done");
    stage_start(s, p, "w", "other", "4");
    STAGE_FAILED(s, p, "other", "null", "returned NULL");
    STAGE_NOTES(s, "nothing nothing nothing nothing nothing nothing");
    pawl_close(p);
    stage_free(s);
}

/* ---- What a workflow gives ---- */

static const char *ends_with(pawl_run *run, const char *input)
{
    const texts *t = pawl_arg(run);
    int64_t which = pawl_get_int(input, "", 0);
    pawl_step(run, "a", stage_echo, "1", PAWL_CALL(.arg = t->stage));
    return which < 0 ? NULL : t->at[which];
}

/* What was done before stays done, and a corrected build does not do it again. */
static const char *ends_well(pawl_run *run, const char *input)
{
    const texts *t = pawl_arg(run);
    pawl_step(run, "a", stage_echo, "1", PAWL_CALL(.arg = t->stage));
    return input;
}

static void an_end_that_is_no_json_holds_the_run(conf *c)
{
    texts t;
    stage *s = stage_new(c);
    make_texts(&t, s);
    pawl *p = open_with(s, "w", ends_with, &t);
    stage_start(s, p, "w", "none", "-1");
    STAGE_FAILED(s, p, "none", "null", "returned NULL");
    for (int i = 0; i < TEXTS; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        stage_start(s, p, "w", id, input);
        stage_held(s, p, id, "result of the workflow", i);
        STAGE_HISTORY(s, p, id, "step:a");
    }
    if (c->promises & DB_DURABLE) {
        pawl_close(p);
        p = stage_open(s, PAWL_OPTIONS(.threads = -1, .build = "corrected"));
        STAGE_CODE(s, p, pawl_register_workflow(p, "w", ends_well, PAWL_WORKFLOW(.arg = &t)),
                   PAWL_OK);
        STAGE_UNTIL(s, p, stage_phase(s, p, "run-0") == PAWL_RUN_DONE);
        STAGE_DONE(s, p, "run-1", "1");
    }
    assert_int_equal(stage_count(s, "a"), TEXTS + 1);
    pawl_close(p);
    free_texts(&t);
    stage_free(s);
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

MISTAKE(step_without_name, pawl_step(run, NULL, stage_echo, "1", NULL))
MISTAKE(step_of_no_text, pawl_step(run, "\xff", stage_echo, "1", NULL))
MISTAKE(step_with_a_long_name, pawl_step(run, t->made[1], stage_echo, "1", NULL))
MISTAKE(step_without_function, pawl_step(run, "x", NULL, "1", NULL))
MISTAKE(step_without_input, pawl_step(run, "x", stage_echo, NULL, NULL))
MISTAKE(step_of_no_json, pawl_step(run, "x", stage_echo, "{", NULL))
MISTAKE(step_too_deep, pawl_step(run, "x", stage_echo, t->made[0], NULL))
MISTAKE(step_too_large, pawl_step(run, "x", stage_echo, t->made[2], NULL))
MISTAKE(call_without_name, pawl_call(run, NULL, "1", NULL))
MISTAKE(call_of_no_json, pawl_call(run, "x", "nul", NULL))
MISTAKE(until_without_input, pawl_until(run, "x", stage_echo, NULL, 1, 1))
MISTAKE(patch_without_name, pawl_patch(run, NULL))
MISTAKE(patch_of_no_text, pawl_patch(run, "\xc3"))
MISTAKE(fail_without_name, pawl_fail(run, NULL, "x"))
MISTAKE(defer_of_nothing, pawl_defer(run, NULL, NULL))
MISTAKE(status_of_nothing, pawl_set_status(run, NULL))
MISTAKE(status_of_no_json, pawl_set_status(run, "'x'"))
MISTAKE(attribute_without_name, pawl_attr(run, NULL, "1"))
MISTAKE(attribute_of_no_json, pawl_attr(run, "x", "{"))
MISTAKE(options_without_size, pawl_step(run, "x", stage_echo, "1", &(pawl_call_options){.size = 1}))

static const mistake MISTAKES[] = {
    {"name of the step is NULL", step_without_name},
    {"name of the step", step_of_no_text},
    {"name of the step", step_with_a_long_name},
    {"work function of step x is NULL", step_without_function},
    {"input of the step is not JSON", step_without_input},
    {"input of the step is not JSON", step_of_no_json},
    {"nested too deeply", step_too_deep},
    {"input of the step is larger", step_too_large},
    {"name of the work function is NULL", call_without_name},
    {"input of the call is not JSON", call_of_no_json},
    {"input of the step is not JSON", until_without_input},
    {"name of the patch is NULL", patch_without_name},
    {"name of the patch", patch_of_no_text},
    {"name of the failure is NULL", fail_without_name},
    {"pawl_defer() of NULL", defer_of_nothing},
    {"status is not JSON", status_of_nothing},
    {"status is not JSON", status_of_no_json},
    {"attribute", attribute_without_name},
    {"value of the attribute is not JSON", attribute_of_no_json},
    {"options", options_without_size},
};

static const char *mistaken(pawl_run *run, const char *input)
{
    const texts *t = pawl_arg(run);
    pawl_step(run, "a", stage_echo, "1", PAWL_CALL(.arg = t->stage));
    pawl_now(run); /* a corrected build may not ask for it, so it is forgotten */
    MISTAKES[pawl_get_int(input, "", 0)].make(run, t);
    return "\"it came back\"";
}

static const char *right(pawl_run *run, const char *input)
{
    const texts *t = pawl_arg(run);
    return pawl_step(run, "b", stage_echo, input, PAWL_CALL(.arg = t->stage));
}

/* Whatever is asked for in a wrong way: the run is held in words that say what, and none of it is
 * executed or recorded. */
static void a_wrong_argument_holds_the_run(conf *c)
{
    enum { COUNT = sizeof MISTAKES / sizeof *MISTAKES };
    texts t;
    stage *s = stage_new(c);
    make_texts(&t, s);
    pawl *p = open_with(s, "w", mistaken, &t);
    STAGE_CODE(s, p, pawl_register_workflow(p, "right", right, PAWL_WORKFLOW(.arg = &t)), PAWL_OK);
    for (int i = 0; i < COUNT; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        stage_start(s, p, "w", id, input);
    }
    stage_start(s, p, "right", "beside", "7");
    for (int i = 0; i < COUNT; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        stage_held(s, p, id, MISTAKES[i].words, i);
        stage_history(s, p, id, "step:a", i);
    }
    STAGE_DONE(s, p, "beside", "7");
    assert_int_equal(stage_count(s, "a"), COUNT);
    assert_int_equal(stage_count(s, "b"), 1);
    pawl_close(p);
    free_texts(&t);
    stage_free(s);
}

static const conf_case CASES[] = {
    {"dx-errors a result that is no JSON fails the call", a_result_that_is_no_json_fails_the_call,
     0},
    {"dx-errors nothing at all is tried again", nothing_at_all_is_tried_again, 0},
    {"dx-errors an end that is no JSON holds the run", an_end_that_is_no_json_holds_the_run, 0},
    {"dx-errors a wrong argument holds the run", a_wrong_argument_holds_the_run, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
