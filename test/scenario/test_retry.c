/* Retrying: when an attempt that has failed is made again, how often, and what becomes of the run
 * when it is not. Time is the fixture's, so that the moments are exact. */
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

/* A call that fails so often, in one way or another. */
typedef struct retry_case {
    const char *notes; /* when it is tried, in ms from its start */
    pawl_call_options options;
    int64_t fails;     /* so many attempts; then it succeeds */
    int64_t permanent; /* this attempt fails for good; 0: none */
    int64_t after_ms;  /* what the function asks for; 0: nothing, -1: at once */
    int64_t takes_ms;  /* each attempt; then it gives a result, too late or not */
    engine_fixture *fixture;
} retry_case;

static const char *flaky(pawl_work *work, const char *input)
{
    const retry_case *t = pawl_work_arg(work);
    int64_t began = atomic_load(fixture_number(t->fixture, 0));
    int64_t n = pawl_work_attempt(work);
    fixture_note(t->fixture, "%lld", (long long)(fixture_now(t->fixture) - began));
    if (t->takes_ms > 0) {
        assert_false(pawl_work_cancelled(work));
        fixture_advance(t->fixture, t->takes_ms);
    }
    if (n > t->fails)
        return pawl_work_json(work, "%" PRId64, n);
    if (t->after_ms)
        return pawl_work_retry(work, t->after_ms, "busy until later");
    if (n == t->permanent)
        return pawl_work_fail(work, PAWL_PERMANENT, "declined", "attempt %d of %s", (int)n, input);
    return pawl_work_fail(work, PAWL_TRANSIENT, "flaky", "attempt %d of %s", (int)n, input);
}

static const char *trying(pawl_run *run, const char *input)
{
    retry_case *t = pawl_arg(run);
    pawl_call_options o = t->options;
    o.size = sizeof o;
    o.arg = t;
    return pawl_step(run, "try", flaky, input, &o);
}

static pawl *open_trying(engine_fixture *s, retry_case *t)
{
    pawl *p = fixture_open(s, NULL);
    t->fixture = s;
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "trying", trying, PAWL_WORKFLOW(.arg = t)),
                 PAWL_OK);
    return p;
}

/* All cases on one engine: each is the arg of its own workflow. */
static void run_cases(conf *c, retry_case *cases, size_t count)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    fixture_set_random(s, 0); /* no jitter by chance, where it is not taken away */
    for (size_t i = 0; i < count; i++) {
        retry_case *t = &cases[i];
        char id[32];
        t->fixture = s;
        snprintf(id, sizeof id, "case-%zu", i);
        FIXTURE_CODE(s, p, pawl_register_workflow(p, id, trying, PAWL_WORKFLOW(.arg = t)), PAWL_OK);
        fixture_clear_notes(s);
        atomic_store(fixture_number(s, 0), fixture_now(s));
        fixture_start(s, p, id, id, "\"x\"");
        FIXTURE_UNTIL(s, p, fixture_phase(s, p, id) != PAWL_RUN_LIVE);
        fixture_notes(s, t->notes, (int)i);
        int64_t tried = 1;
        for (const char *at = t->notes; *at; at++)
            tried += *at == ' ';
        pawl_phase wanted = tried > t->fails && !t->takes_ms ? PAWL_RUN_DONE : PAWL_RUN_FAILED;
        if (fixture_phase(s, p, id) != wanted)
            fail_msg("case %zu ended otherwise", i);
    }
    pawl_close(p);
    fixture_free(s);
}

#define RUN_CASES(c, cases) run_cases(c, cases, sizeof(cases) / sizeof *(cases))

/* ---- Pauses ---- */

static void pauses_are_as_asked_for(conf *c)
{
    retry_case cases[] = {
        {"0 1000", {.no_jitter = 1}, .fails = 1},
        {"0 1000 3000", {0}, .fails = 99},
        {"0 1000 3000 7000", {.attempts = 4}, .fails = 3},
        {"0 50 100 150",
         {.attempts = 4, .backoff_ms = 50, .backoff_kind = PAWL_CONSTANT},
         .fails = 99},
        {"0 50 150 300",
         {.attempts = 4, .backoff_ms = 50, .backoff_kind = PAWL_LINEAR},
         .fails = 99},
        {"0 50 150 350 750", {.attempts = 5, .backoff_ms = 50}, .fails = 99},
        {"0 50 150 250 350", {.attempts = 5, .backoff_ms = 50, .backoff_max_ms = 100}, .fails = 99},
        {"0 40 100 160",
         {.attempts = 4, .backoff_ms = 40, .backoff_max_ms = 60, .backoff_kind = PAWL_LINEAR},
         .fails = 99},
        {"0 10 20", {.backoff_max_ms = 10}, .fails = 99},
        {"0 32000 92000", {.backoff_ms = 32000}, .fails = 99},
    };
    RUN_CASES(c, cases);
}

static void attempts_are_counted(conf *c)
{
    retry_case cases[] = {
        {"0", {0}, .fails = 0},
        {"0", {.attempts = 1}, .fails = 99},
        {"0 1 2 3 4 5 6 7 8 9",
         {.attempts = 10, .backoff_ms = 1, .backoff_max_ms = 1},
         .fails = 99},
        {"0 1 2 3 4 5 6 7 8 9 10 11",
         {.attempts = PAWL_FOREVER, .backoff_ms = 1, .backoff_kind = PAWL_CONSTANT},
         .fails = 11},
        {"0", {0}, .fails = 99, .permanent = 1},
        {"0 1000", {0}, .fails = 99, .permanent = 2},
        {"0", {.attempts = PAWL_FOREVER}, .fails = 99, .permanent = 1},
    };
    RUN_CASES(c, cases);
}

static void the_function_may_name_the_moment(conf *c)
{
    retry_case cases[] = {
        {"0 777 1554", {0}, .fails = 99, .after_ms = 777},
        {"0 9000 18000", {.backoff_max_ms = 10}, .fails = 2, .after_ms = 9000},
        {"0 0 0", {0}, .fails = 99, .after_ms = -1},
        {"0", {.attempts = 1}, .fails = 99, .after_ms = 5},
        {"0", {.overall_ms = 700}, .fails = 99, .after_ms = 777},
    };
    RUN_CASES(c, cases);
}

/* By chance up to a quarter less, and never more. */
static void chance_is_bounded(conf *c)
{
    retry_case t = {
        "", {.attempts = 60, .backoff_ms = 1000, .backoff_kind = PAWL_CONSTANT}, .fails = 59};
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trying(s, &t);
    fixture_start(s, p, "trying", "run", "1");
    int64_t last = fixture_now(s), least = INT64_MAX, most = 0;
    fixture_poll(s, p);
    for (int i = 1; i < 60; i++) {
        pawl_info *info = NULL;
        FIXTURE_CODE(s, p, pawl_inspect(p, "run", &info), PAWL_OK);
        int64_t pause = pawl_info_wake_ms(info) - last;
        least = pause < least ? pause : least;
        most = pause > most ? pause : most;
        last += pause;
        pawl_info_free(info);
        fixture_advance(s, last - fixture_now(s));
        fixture_poll(s, p);
    }
    FIXTURE_DONE(s, p, "run", "60");
    assert_in_range(least, 750, 850);
    assert_in_range(most, 900, 1000);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Limits of time ---- */

/* A result that comes too late is no result; by hand it is the clock after it that tells. */
static void an_attempt_has_a_limit(conf *c)
{
    retry_case cases[] = {
        {"0 600 1200",
         {.attempt_ms = 100, .backoff_ms = 100, .backoff_kind = PAWL_CONSTANT},
         .takes_ms = 500},
        {"0", {.attempt_ms = 100, .attempts = 1}, .takes_ms = 100},
    };
    RUN_CASES(c, cases);
}

static void all_attempts_have_a_limit(conf *c)
{
    retry_case cases[] = {
        {"0 30 60 90",
         {.attempts = 99, .overall_ms = 100, .backoff_ms = 30, .backoff_kind = PAWL_CONSTANT},
         .fails = 99},
        {"0 50",
         {.attempts = 99, .overall_ms = 100, .backoff_ms = 50, .backoff_kind = PAWL_CONSTANT},
         .fails = 99},
        {"0", {.overall_ms = 1000}, .takes_ms = 1500},
        {"0 900", {.overall_ms = 1000, .backoff_ms = 400, .attempt_ms = 300}, .takes_ms = 500},
    };
    RUN_CASES(c, cases);
}

static const char *in_time(pawl_work *work, const char *input)
{
    fixture_advance(pawl_work_arg(work), pawl_get_int(input, "", 0));
    return pawl_work_json(work, "%d", pawl_work_cancelled(work));
}

static const char *hurrying(pawl_run *run, const char *input)
{
    return pawl_step(run, "hurry", in_time, input,
                     PAWL_CALL(.arg = pawl_arg(run), .attempt_ms = 100, .attempts = 1));
}

static void an_attempt_that_ends_in_time_counts(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, hurrying);
    fixture_start(s, p, "hurrying", "quick", "99");
    FIXTURE_DONE(s, p, "quick", "0"); /* before the other one moves the clock, which both have */
    fixture_start(s, p, "hurrying", "slow", "100");
    FIXTURE_FAILED(s, p, "slow", "timeout", "limit");
    FIXTURE_HISTORY(s, p, "slow", "step-failed:hurry");
    pawl_close(p);
    fixture_free(s);
}

/* ---- What is recorded ---- */

static void a_history_tells_of_each_attempt(conf *c)
{
    retry_case t = {"", {.attempts = 4}, .fails = 3};
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trying(s, &t);
    pawl_outcome *end = NULL;
    fixture_start(s, p, "trying", "run", "\"x\"");
    FIXTURE_DONE(s, p, "run", "4");
    FIXTURE_HISTORY(s, p, "run", "step-again:try attempt attempt done");
    t.fails = 99;
    fixture_start(s, p, "trying", "other", "\"y\"");
    FIXTURE_FAILED(s, p, "other", "flaky", "attempt 4 of \"y\"");
    FIXTURE_HISTORY(s, p, "other", "step-again:try attempt attempt failed");
    FIXTURE_CODE(s, p, pawl_wait(p, "other", 0, &end), PAWL_FAILED);
    assert_string_equal(pawl_outcome_where(end), "try");
    assert_string_equal(pawl_errmsg(p), pawl_code_text(PAWL_FAILED));
    assert_non_null(strstr(pawl_errdetail(p), "flaky: attempt 4"));
    pawl_outcome_free(end);
    pawl_close(p);
    fixture_free(s);
}

static const char *two_flaky(pawl_run *run, const char *input)
{
    retry_case *t = pawl_arg(run);
    pawl_step(run, "one", flaky, input, PAWL_CALL(.arg = t));
    return pawl_step(run, "two", flaky, input, PAWL_CALL(.arg = t));
}

static void each_step_counts_for_itself(conf *c)
{
    retry_case t = {"", {0}, .fails = 2};
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    t.fixture = s;
    fixture_set_random(s, 0);
    atomic_store(fixture_number(s, 0), fixture_now(s));
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "two", two_flaky, PAWL_WORKFLOW(.arg = &t)),
                 PAWL_OK);
    fixture_start(s, p, "two", "run", "1");
    FIXTURE_DONE(s, p, "run", "3");
    FIXTURE_NOTES(s, "0 1000 3000 3000 4000 6000");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Over restarts ---- */

/* The engine goes, time passes, another one comes. */
static void restart(engine_fixture *s, pawl **p, retry_case *t, int64_t ms)
{
    pawl_close(*p);
    fixture_advance(s, ms);
    *p = open_trying(s, t);
    fixture_poll(s, *p);
}

/* Neither the count nor the moment is forgotten. */
static void a_pause_outlives_the_engine(conf *c)
{
    retry_case t = {"", {.backoff_ms = 4000, .no_jitter = 1}, .fails = 2};
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trying(s, &t);
    atomic_store(fixture_number(s, 0), fixture_now(s));
    fixture_start(s, p, "trying", "run", "1");
    fixture_poll(s, p);
    restart(s, &p, &t, 3999);
    FIXTURE_NOTES(s, "0");
    restart(s, &p, &t, 1);
    FIXTURE_NOTES(s, "0 4000");
    restart(s, &p, &t, 7999);
    FIXTURE_NOTES(s, "0 4000");
    restart(s, &p, &t, 1);
    FIXTURE_NOTES(s, "0 4000 12000");
    FIXTURE_DONE(s, p, "run", "3");
    pawl_close(p);
    fixture_free(s);
}

/* The policy is the code's: what it says now counts, also for what began under another one. */
static void the_newest_policy_counts(conf *c)
{
    retry_case t = {
        "", {.attempts = 10, .backoff_ms = 10, .backoff_max_ms = 10, .no_jitter = 1}, .fails = 99};
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trying(s, &t);
    atomic_store(fixture_number(s, 0), fixture_now(s));
    fixture_start(s, p, "trying", "run", "1");
    fixture_poll(s, p);
    fixture_advance(s, 10);
    fixture_poll(s, p);
    t.options.attempts = 5;
    restart(s, &p, &t, 10);
    FIXTURE_FAILED(s, p, "run", "flaky", "attempt 5");
    FIXTURE_NOTES(s, "0 10 20 30 40");
    pawl_close(p);
    fixture_free(s);
}

/* It counts from the beginning of the first attempt, whichever engine makes the next one; and an
 * attempt that no engine could make in time is not made any more. */
static void the_limit_of_all_outlives_the_engine(conf *c)
{
    retry_case t = {"",
                    {.attempts = 9, .overall_ms = 1000, .backoff_ms = 400, .no_jitter = 1},
                    .fails = 99,
                    .takes_ms = 150};
    engine_fixture *s = fixture_new(c);
    t.options.backoff_kind = PAWL_CONSTANT;
    pawl *p = open_trying(s, &t);
    atomic_store(fixture_number(s, 0), fixture_now(s));
    fixture_start(s, p, "trying", "run", "1");
    fixture_poll(s, p);
    restart(s, &p, &t, 400);
    FIXTURE_FAILED(s, p, "run", "flaky", "attempt 2");
    FIXTURE_NOTES(s, "0 550");
    fixture_start(s, p, "trying", "late", "1");
    fixture_poll(s, p);
    restart(s, &p, &t, 2000);
    FIXTURE_FAILED(s, p, "late", "timeout", "limit");
    FIXTURE_NOTES(s, "0 550 700");
    pawl_close(p);
    fixture_free(s);
}

/* ---- What makes no sense ---- */

static void wrong_policies_hold_the_run(conf *c)
{
    retry_case cases[] = {
        {"", {.attempts = -1}, .fails = 0},       {"", {.backoff_ms = -1}, .fails = 0},
        {"", {.backoff_max_ms = -1}, .fails = 0}, {"", {.attempt_ms = INT64_MIN}, .fails = 0},
        {"", {.overall_ms = -1}, .fails = 0},     {"", {.backoff_kind = 3}, .fails = 0},
        {"", {.backoff_kind = -1}, .fails = 0},
    };
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char id[32];
        cases[i].fixture = s;
        snprintf(id, sizeof id, "case-%zu", i);
        FIXTURE_CODE(s, p, pawl_register_workflow(p, id, trying, PAWL_WORKFLOW(.arg = &cases[i])),
                     PAWL_OK);
        fixture_start(s, p, id, id, "1");
        FIXTURE_HELD(s, p, id, "option");
    }
    FIXTURE_NOTES(s, "");
    pawl_close(p);
    fixture_free(s);
}

/* Sums that would go beyond the end of time: the run sleeps, and nothing breaks. */
static void the_end_of_time_is_far(conf *c)
{
    retry_case t = {
        "", {.backoff_ms = INT64_MAX, .backoff_max_ms = INT64_MAX, .no_jitter = 1}, .fails = 99};
    engine_fixture *s = fixture_new(c);
    t.options.overall_ms = INT64_MAX;
    t.options.attempt_ms = INT64_MAX;
    pawl *p = open_trying(s, &t);
    fixture_start(s, p, "trying", "run", "1");
    fixture_poll(s, p);
    fixture_advance(s, PAWL_DAYS(10000));
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    FIXTURE_HISTORY(s, p, "run", "step-again:try");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Names and messages that mean no good ---- */

static const char *says(pawl_work *work, const char *input)
{
    static const char *const TEXTS[] = {"\xff\xfe", "a \"quoted\" \\ text\n\x01", ""};
    int64_t which = pawl_get_int(input, "", 0);
    char *longer = pawl_work_alloc(work, 5001);
    memset(longer, 'm', 5000);
    const char *text = which < 3 ? TEXTS[which] : longer;
    return pawl_work_fail(work, PAWL_PERMANENT, which == 4 ? NULL : text, "%s", text);
}

static const char *saying(pawl_run *run, const char *input)
{
    return pawl_step(run, "say", says, input, NULL);
}

static const char *failing(pawl_run *run, const char *input)
{
    char text[2001];
    memset(text, 'm', sizeof text);
    text[sizeof text - 1] = '\0';
    return pawl_fail(run, "name", "%s%s", input, text);
}

/* Whatever a failure says, the run ends, and what can be kept of its words is kept. */
static void any_words_will_do(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, saying);
    FIXTURE_REGISTER(s, p, failing);
    for (int i = 0; i < 5; i++) {
        char id[32], input[32];
        pawl_outcome *end = NULL;
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(s, p, "saying", id, input);
        FIXTURE_UNTIL(s, p, fixture_phase(s, p, id) != PAWL_RUN_LIVE);
        FIXTURE_CODE(s, p, pawl_wait(p, id, 0, &end), PAWL_FAILED);
        if (i == 1)
            assert_string_equal(pawl_outcome_message(end), "a \"quoted\" \\ text\n\x01");
        if (i >= 3)
            assert_non_null(strstr(pawl_outcome_message(end), "mmmmmmmmmm"));
        if (i == 4)
            assert_string_equal(pawl_outcome_name(end), "failed");
        assert_string_equal(pawl_outcome_where(end), "say");
        pawl_outcome_free(end);
    }
    fixture_start(s, p, "failing", "other", "77");
    FIXTURE_FAILED(s, p, "other", "name", "77mmmmmmmmm");
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-retry pauses are as asked for", pauses_are_as_asked_for, 0},
    {"dx-retry ys-Y48 attempts are counted", attempts_are_counted, 0},
    {"dx-retry the function may name the moment", the_function_may_name_the_moment, 0},
    {"dx-retry chance is bounded", chance_is_bounded, 0},
    {"dx-retry an attempt has a limit", an_attempt_has_a_limit, 0},
    {"dx-retry all attempts have a limit", all_attempts_have_a_limit, 0},
    {"dx-retry an attempt that ends in time counts", an_attempt_that_ends_in_time_counts, 0},
    {"dx-retry a history tells of each attempt", a_history_tells_of_each_attempt, 0},
    {"ys-Y48 each step counts for itself", each_step_counts_for_itself, 0},
    {"dx-retry a pause outlives the engine", a_pause_outlives_the_engine, DB_DURABLE},
    {"ys-Y48 the newest policy counts", the_newest_policy_counts, DB_DURABLE},
    {"dx-retry the limit of all outlives the engine", the_limit_of_all_outlives_the_engine,
     DB_DURABLE},
    {"dx-retry wrong policies hold the run", wrong_policies_hold_the_run, 0},
    {"dx-retry the end of time is far", the_end_of_time_is_far, 0},
    {"dx-errors any words will do", any_words_will_do, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
