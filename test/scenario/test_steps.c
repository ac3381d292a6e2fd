/* Steps: what a run executes outside, and what is recorded of it. Executions are counted by the
 * side file of the fixture, rows by the journal: neither can stand for the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

/* An engine with a workflow, and a run of it. */
static pawl *open_with(engine_fixture *s, const char *name, pawl_workflow_fn *fn, const char *input)
{
    pawl *p = fixture_open(s, NULL);
    fixture_register(s, p, name, fn);
    fixture_start(s, p, name, "run", input);
    return p;
}

#define OPEN_WITH(s, fn, input) open_with((s), #fn, (fn), (input))

static const char *greet(pawl_work *work, const char *name)
{
    fixture_note(pawl_work_arg(work), "greet");
    return pawl_work_json(work, "'Hello, %s!'", pawl_work_text(work, name, "", "?"));
}

/* ---- One step ---- */

static const char *hello(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "greet", greet, input);
}

static void one_step(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, hello, "\"w\\u00f6rld\"");
    FIXTURE_DONE(s, p, "run", "\"Hello, wörld!\"");
    FIXTURE_HISTORY(s, p, "run", "step:greet");
    FIXTURE_NOTES(s, "greet");
    fixture_poll(s, p); /* and nothing more happens */
    fixture_advance(s, PAWL_DAYS(1));
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "greet");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Branches and loops ---- */

static const char *is_large(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "ask");
    return pawl_get_int(input, "", 0) > 10 ? "true" : "false";
}

static const char *branching(pawl_run *run, const char *input)
{
    if (pawl_get_bool(FIXTURE_STEP(run, "is-large", is_large, input), "", 0))
        return FIXTURE_STEP(run, "split", fixture_echo, "\"large\"");
    return FIXTURE_STEP(run, "keep", fixture_echo, "\"small\"");
}

static void branch_on_an_answer(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, branching, "11");
    fixture_start(s, p, "branching", "other", "10");
    FIXTURE_DONE(s, p, "run", "\"large\"");
    FIXTURE_DONE(s, p, "other", "\"small\"");
    FIXTURE_HISTORY(s, p, "run", "step:is-large step:split");
    FIXTURE_HISTORY(s, p, "other", "step:is-large step:keep");
    pawl_close(p);
    fixture_free(s);
}

static const char *add_one(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "add");
    return pawl_work_json(work, "%" PRId64, pawl_get_int(input, "", 0) + 1);
}

static const char *accumulating(pawl_run *run, const char *input)
{
    const char *sum = input;
    for (int i = 0; i < 20; i++)
        sum = FIXTURE_STEP(run, "add", add_one, sum);
    return sum;
}

/* Names need not differ: each call has a position of its own. */
static void a_loop_accumulates(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, accumulating, "100");
    FIXTURE_DONE(s, p, "run", "120");
    assert_int_equal(fixture_count(s, "add"), 20);
    pawl_close(p);
    fixture_free(s);
}

/* ---- What is recorded ---- */

static const char *in_and_out(pawl_run *run, const char *input)
{
    const char *a = FIXTURE_STEP(run, "a", fixture_echo, input);
    fixture_note(pawl_arg(run), "body");
    pawl_sleep(run, 1000);
    const char *b = FIXTURE_STEP(run, "b", fixture_echo, a);
    fixture_note(pawl_arg(run), "body");
    pawl_sleep(run, 1000);
    return FIXTURE_STEP(run, "c", fixture_echo, b);
}

static void expect_one_each(engine_fixture *s)
{
    assert_int_equal(fixture_count(s, "a"), 1);
    assert_int_equal(fixture_count(s, "b"), 1);
    assert_int_equal(fixture_count(s, "c"), 1);
}

/* Warm: the body goes on where it stands, and no step is recorded with more than its row. */
static void one_row_each_and_one_execution(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, in_and_out, "[1]");
    FIXTURE_DONE(s, p, "run", "[1]");
    FIXTURE_HISTORY(s, p, "run", "step:a sleep woken step:b sleep woken step:c");
    if (FIXTURE_WARM)
        FIXTURE_NOTES(s, "a body b body c");
    expect_one_each(s);
    pawl_close(p);
    fixture_free(s);
}

/* Cold: the engine is closed while the run sleeps. The body runs again from the top, the steps do
 * not; a different engine each time. */
static void a_body_is_replayed_its_steps_are_not(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, in_and_out, "[1]");
    for (int i = 0; i < 2; i++) {
        fixture_poll(s, p);
        pawl_close(p);
        p = fixture_open(s, NULL);
        FIXTURE_REGISTER(s, p, in_and_out);
        fixture_advance(s, 1000);
    }
    FIXTURE_DONE(s, p, "run", "[1]");
    FIXTURE_HISTORY(s, p, "run", "step:a sleep woken step:b sleep woken step:c");
    if (FIXTURE_WARM)
        FIXTURE_NOTES(s, "a body body b body body body c");
    expect_one_each(s);
    pawl_close(p);
    fixture_free(s);
}

static const char *no_input(pawl_run *run, const char *input)
{
    return pawl_json(run, "{'input':%j,'kind':%d}", input, (int)pawl_get_kind(input, ""));
}

static void input_goes_in_output_comes_out(conf *c)
{
    static const char *const VALUES[] = {
        "null",
        "0",
        "false",
        "\"\"",
        "{}",
        "[]",
        " [ 1 , 2 ] ",
        "-0.0",
        "1e99",
        "true",
        "\"\\n\"",
        "\"ä\"",
        "{\"a\":{\"b\":[{}]}}",
    };
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, no_input);
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
        char id[32], wanted[128];
        snprintf(id, sizeof id, "run-%zu", i);
        snprintf(wanted, sizeof wanted, "{\"input\":%s,\"kind\":%d}", VALUES[i],
                 (int)pawl_get_kind(VALUES[i], ""));
        fixture_start(s, p, "no_input", id, VALUES[i]);
        FIXTURE_DONE(s, p, id, wanted);
    }
    pawl_close(p);
    fixture_free(s);
}

/* ---- Large values ---- */

enum { LARGE = 300 * 1024 };

static char *large_text(size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'x', size);
    text[0] = text[size - 1] = '"';
    text[size] = '\0';
    return text;
}

static const char *carrying(pawl_run *run, const char *input)
{
    const char *out = FIXTURE_STEP(run, "carry", fixture_echo, input);
    pawl_sleep(run, 10);
    return FIXTURE_STEP(run, "carry", fixture_echo, out);
}

/* Around the size up to which values are in the run's row, and far beyond it; replayed where the
 * database outlives the engine. */
static void large_values_are_whole(conf *c)
{
    static const size_t SIZES[] = {1023, 1024, 1025, LARGE};
    enum { COUNT = sizeof SIZES / sizeof *SIZES };
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, carrying);
    for (size_t i = 0; i < COUNT; i++) {
        char id[32];
        char *value = large_text(SIZES[i]);
        snprintf(id, sizeof id, "run-%zu", i);
        fixture_start(s, p, "carrying", id, value);
        free(value);
    }
    fixture_poll(s, p);
    if (c->promises & DB_DURABLE) {
        pawl_close(p);
        p = fixture_open(s, NULL);
        FIXTURE_REGISTER(s, p, carrying);
    }
    for (size_t i = 0; i < COUNT; i++) {
        char id[32];
        char *value = large_text(SIZES[i]);
        snprintf(id, sizeof id, "run-%zu", i);
        FIXTURE_DONE(s, p, id, value);
        free(value);
    }
    assert_int_equal(fixture_count(s, "carry"), 2 * COUNT);
    pawl_close(p);
    fixture_free(s);
}

static const char *largest(pawl_work *work, const char *input)
{
    char *text = pawl_work_alloc(work, PAWL_MAX_PAYLOAD + 2);
    size_t size = (size_t)PAWL_MAX_PAYLOAD + (size_t)pawl_get_int(input, "", 0);
    memset(text, 'x', size);
    text[0] = text[size - 1] = '"';
    return text;
}

static const char *limiting(pawl_run *run, const char *input)
{
    const char *text = FIXTURE_STEP(run, "largest", largest, input);
    return pawl_json(run, "%" PRId64, (int64_t)strlen(text));
}

static void a_value_has_a_limit(conf *c)
{
    char wanted[32];
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, limiting, "0");
    snprintf(wanted, sizeof wanted, "%d", PAWL_MAX_PAYLOAD);
    FIXTURE_DONE(s, p, "run", wanted);
    fixture_start(s, p, "limiting", "larger", "1");
    FIXTURE_FAILED(s, p, "larger", "invalid", "too large");
    pawl_close(p);
    fixture_free(s);
}

/* ---- What a work function may ask ---- */

static const char *about(pawl_work *work, const char *input)
{
    const char *key = pawl_work_key(work);
    FIXTURE_CHECK(pawl_work_arg(work), strcspn(key, ".") == 36); /* the id of the database */
    fixture_note(pawl_work_arg(work), "%s", key + 37);
    if (pawl_work_attempt(work) < 2)
        return pawl_work_fail(work, PAWL_TRANSIENT, "again", "once more");
    return pawl_work_json(
        work, "{'name':%s,'run':%s,'attempt':%" PRId64 ",'fence':%b,'cancelled':%d,'input':%j}",
        pawl_work_name(work), pawl_work_run_id(work), pawl_work_attempt(work),
        pawl_work_fence(work) > 0, pawl_work_cancelled(work), input);
}

static const char *asking(pawl_run *run, const char *input)
{
    const char *first = FIXTURE_STEP(run, "first", about, input);
    FIXTURE_STEP(run, "second", about, input);
    return pawl_json(run, "[%s,%s,%s,%" PRId64 ",%j]", pawl_run_id(run), pawl_run_workflow(run),
                     pawl_run_version(run), pawl_run_generation(run), first);
}

/* The key is the same for all attempts of a call, and no other call has it. */
static void a_work_function_knows_its_run_and_attempt(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, asking, "7");
    fixture_start(s, p, "asking", "other", "7");
    FIXTURE_DONE(s, p, "run",
                 "[\"run\",\"asking\",\"1\",1,{\"name\":\"first\",\"run\":\"run\",\"attempt\":2,"
                 "\"fence\":true,\"cancelled\":0,\"input\":7}]");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "other") == PAWL_RUN_DONE);
    for (int run = 1; run <= 2; run++) {
        for (int seq = 2; seq <= 4; seq++) {
            char key[32];
            snprintf(key, sizeof key, "%d.1.%d", run, seq);
            assert_int_equal(fixture_count(s, key), seq == 3 ? 0 : 2);
        }
    }
    pawl_close(p);
    fixture_free(s);
}

/* ---- Equal calls ---- */

static const char *count_up(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    (void)input;
    return pawl_work_json(work, "%" PRId64, atomic_fetch_add(fixture_number(s, 0), 1) + 1);
}

static const char *counting(pawl_run *run, const char *input)
{
    const char *results[3];
    for (int i = 0; i < 3; i++) {
        results[i] = FIXTURE_STEP(run, "next", count_up, input);
        pawl_sleep(run, 1000);
    }
    return pawl_json(run, "[%j,%j,%j]", results[0], results[1], results[2]);
}

/* The same name and the same input, and still each call has the result that it got. */
static void equal_calls_keep_their_own_results(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, counting, "1");
    for (int i = 0; i < 3; i++) {
        fixture_poll(s, p);
        pawl_close(p);
        p = fixture_open(s, NULL);
        FIXTURE_REGISTER(s, p, counting);
        fixture_advance(s, 1000);
    }
    FIXTURE_DONE(s, p, "run", "[1,2,3]");
    assert_int_equal(atomic_load(fixture_number(s, 0)), 3);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Registered work ---- */

static const char *calling(pawl_run *run, const char *input)
{
    const char *first = pawl_call(run, "echo", input, NULL);
    return pawl_call(run, "echo", first, NULL);
}

static void a_call_finds_its_function_by_name(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, calling);
    fixture_register_work(s, p, "echo", fixture_echo);
    fixture_start(s, p, "calling", "run", "[1]");
    FIXTURE_DONE(s, p, "run", "[1]");
    FIXTURE_NOTES(s, "echo echo");
    FIXTURE_HISTORY(s, p, "run", "call:echo done call:echo done");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Many ---- */

static const char *short_one(pawl_run *run, const char *input)
{
    const char *a = FIXTURE_STEP(run, "a", add_one, input);
    return FIXTURE_STEP(run, "b", add_one, a);
}

/* Side by side, with the same names and with different ones: each has its own results. */
static void runs_do_not_mix(conf *c)
{
    enum { RUNS = 50 };
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, short_one);
    FIXTURE_REGISTER(s, p, hello);
    for (int i = 0; i < RUNS; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, i % 2 ? "\"%d\"" : "%d", i);
        fixture_start(s, p, i % 2 ? "hello" : "short_one", id, input);
    }
    for (int i = 0; i < RUNS; i++) {
        char id[32], wanted[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(wanted, sizeof wanted, i % 2 ? "\"Hello, %d!\"" : "%d", i % 2 ? i : i + 2);
        FIXTURE_DONE(s, p, id, wanted);
    }
    assert_int_equal(fixture_count(s, "add"), RUNS);
    assert_int_equal(fixture_count(s, "greet"), RUNS / 2);
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-X1 ys-Y55 one step, once", one_step, 0},
    {"dx-X2 branch on an answer", branch_on_an_answer, 0},
    {"dx-X3 ys-Y44 a loop accumulates", a_loop_accumulates, 0},
    {"ys-Y45 one row each and one execution", one_row_each_and_one_execution, 0},
    {"ys-Y47 a body is replayed, its steps are not", a_body_is_replayed_its_steps_are_not,
     DB_DURABLE},
    {"ys-Y54 input goes in, output comes out", input_goes_in_output_comes_out, 0},
    {"dx-reliability equal calls keep their own results", equal_calls_keep_their_own_results,
     DB_DURABLE},
    {"large values are whole", large_values_are_whole, 0},
    {"a value has a limit", a_value_has_a_limit, 0},
    {"a work function knows its run and attempt", a_work_function_knows_its_run_and_attempt, 0},
    {"a call finds its function by name", a_call_finds_its_function_by_name, 0},
    {"dx-concurrency runs do not mix", runs_do_not_mix, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
