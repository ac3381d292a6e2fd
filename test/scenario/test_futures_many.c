/* Futures that are wrong, that are many, or deep in each other; and what was seen of them before a
 * crash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>
#include <pawl_test.h>

#include "support/engine_fixture.h"

/* ---- Deep ---- */

static const char *deep(pawl_run *run, const char *input)
{
    pawl_future *pair[2] = {pawl_sleep_later(run, 5), pawl_sleep_later(run, 50)};
    pawl_future *f = pawl_any_later(run, pair, 2), *other = pair[1];
    for (int i = 0; i < 40; i++) /* a value has its limit */
        f = i % 2 ? pawl_all_later(run, &f, 1) : pawl_any_later(run, &f, 1);
    for (int i = 0; i < 5000; i++)
        other = i % 2 ? pawl_all_later(run, &other, 1) : pawl_any_later(run, &other, 1);
    pawl_future *race[2] = {f, other};
    pawl_any(run, race, 2, PAWL_FAILURES);
    pawl_future *lost = pawl_sleep_later(run, 99);
    for (int i = 0; i < 5000; i++)
        lost = pawl_all_later(run, &lost, 1);
    pawl_future_cancel(run, lost);
    return input;
}

/* Also where one is lost: all of them are looked at one after the other, on a small stack. */
static void deeply_nested_futures_need_no_stack(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, deep);
    fixture_start(s, p, "deep", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Mistakes ---- */

static const char *quiet(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

/* A future whose value was given back. */
static pawl_future *spent(pawl_run *run)
{
    pawl_future *f = pawl_step_later(run, "step", quiet, "1", NULL);
    pawl_drop(run, pawl_await(run, f));
    return f;
}

static const char *mistaken(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_future *f = pawl_sleep_later(run, 1), *none = NULL;
    switch (pawl_get_int(input, "", 0)) {
    case 0: /* another engine owns it from here on */
        atomic_store(fixture_number(s, 0), (int64_t)(intptr_t)f);
        pawl_sleep(run, 60000);
        return "0";
    case 1:
        f = (pawl_future *)(intptr_t)atomic_load(fixture_number(s, 0)); // NOLINT
        return pawl_await(run, f);
    case 2:
        return pawl_await(run, NULL);
    case 3:
        pawl_await(run, f);
        pawl_drop(run, f);
        return pawl_await(run, f);
    case 4:
        pawl_any(run, &f, 0, 0);
        return "4";
    case 5:
        pawl_any(run, &f, 1, 4);
        return "5";
    case 6:
        pawl_all(run, &none, 1);
        return "6";
    case 7:
        pawl_all_later(run, NULL, 3);
        return "7";
    case 8:
        pawl_any_later(run, &f, 0);
        return "8";
    case 9:
        pawl_future_cancel(run, (pawl_future *)(void *)s);
        return "9";
    case 10:
        pawl_try(run, NULL);
        return "10";
    case 11:
        return pawl_await(run, spent(run));
    case 12:
        f = spent(run);
        return pawl_await(run, pawl_all_later(run, &f, 1));
    case 13:
        return pawl_outcome_value(pawl_try(run, spent(run)));
    default:
        for (int i = 0; i < PAWL_MAX_FUTURES; i++)
            pawl_all_later(run, NULL, 0);
        return pawl_value(NULL) ? "14" : "15";
    }
}

static void mistakes_hold_the_run(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, mistaken);
    fixture_start(s, p, "mistaken", "owner", "0");
    fixture_poll(s, p);
    /* If the owner is not in memory, another future may be where its own was. */
    for (int i = FIXTURE_WARM ? 1 : 2; i <= 14; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(s, p, "mistaken", id, input);
        fixture_held(s, p, id,
                     i == 14  ? "more than 100000 futures"
                     : i > 10 ? "given back"
                              : "",
                     i);
    }
    assert_int_equal(fixture_phase(s, p, "owner"),
                     PAWL_RUN_LIVE); /* it has nothing to do with it */
    FIXTURE_DONE(s, p, "owner", "0");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Many ---- */

static const char *fan_out(pawl_run *run, const char *input)
{
    int64_t count = pawl_get_int(input, "", 0);
    pawl_future **all = pawl_alloc(run, (size_t)count * sizeof(pawl_future *));
    for (int64_t i = 0; i < count; i++)
        all[i] = i % 2 ? pawl_sleep_later(run, 1 + (i * 7919) % 100)
                       : pawl_receive_later(run, "box", 1 + (i * 7919) % 100);
    pawl_future *both[] = {pawl_all_later(run, all, (size_t)count), pawl_sleep_later(run, 50)};
    pawl_any(run, both, 2, 0); /* half of them are cancelled */
    for (int64_t i = 0; i < count; i++)
        pawl_drop(run, all[i]);
    return input;
}

static double cpu_of(engine_fixture *s, pawl *p, const char *id, const char *count)
{
    clock_t began = clock();
    fixture_start(s, p, "fan_out", id, count);
    fixture_done(s, p, id, count, __LINE__);
    return (double)(clock() - began) / CLOCKS_PER_SEC;
}

/* Ten times as many may cost ten times as much; a square would be a hundred. */
static void a_future_among_many_does_not_cost_more(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, fan_out);
    cpu_of(s, p, "warm", "1000");
    double some = cpu_of(s, p, "some", "1000"), many = cpu_of(s, p, "many", "10000");
    if (many > 30 * some + 0.1)
        fail_msg("1000 took %.3f s, 10000 took %.3f s", some, many);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Crashes ---- */

/* What it sees, and in what order, goes into its result. */
static const char *watching(pawl_run *run, const char *input)
{
    pawl_future *some[6];
    char seen[64] = "";
    (void)input;
    for (int i = 0; i < 3; i++) {
        some[2 * i] = pawl_call_later(run, "echo", "1", NULL);
        some[2 * i + 1] = pawl_sleep_later(run, 10 * i);
    }
    for (int left = 6; left > 0; left--) {
        int64_t at = pawl_any(run, some, (size_t)left, PAWL_KEEP | PAWL_FAILURES);
        size_t used = strlen(seen);
        snprintf(seen + used, sizeof seen - used, "%lld", (long long)at);
        used = strlen(seen);
        for (int i = 0; i < left; i++)
            snprintf(seen + used + (size_t)i, sizeof seen - used - (size_t)i, "%s",
                     pawl_value(some[i]) ? "+" : "-");
        some[at] = some[left - 1];
        if (left == 4)
            pawl_step(run, "step", quiet, "1", NULL);
    }
    pawl_state_set(run, "seen", pawl_json(run, "%s", seen));
    return pawl_json(run, "%s", seen);
}

/* After a crash it may see something else; but what the journal has is what the end says, whichever
 * process reads it again. */
static const char *reading(pawl_run *run, const char *input)
{
    const char *seen = watching(run, input);
    pawl_sleep(run, 1);
    return seen;
}

static void crash_at(int64_t at, int64_t *writes)
{
    pawl *p;
    pawl_test *t;
    pawl_outcome *end = NULL;
    char *seen = NULL;
    assert_int_equal(pawl_test_open(&p, &t), PAWL_OK);
    assert_int_equal(pawl_register_work(p, "echo", quiet, NULL), PAWL_OK);
    assert_int_equal(pawl_register_workflow(p, "reading", reading, NULL), PAWL_OK);
    assert_int_equal(pawl_test_crash_at(t, at), PAWL_OK);
    assert_int_equal(pawl_start(p, "reading", "run", "1", NULL), PAWL_OK);
    pawl_code code = pawl_test_finish(p, "run", &end);
    if (code != PAWL_OK)
        fail_msg("crash at %lld: %s: %s", (long long)at, pawl_code_name(code), pawl_errmsg(p));
    assert_int_equal(pawl_read_state(p, "run", "seen", &seen), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), seen);
    *writes = pawl_test_writes(t);
    pawl_free(seen);
    pawl_outcome_free(end);
    pawl_test_close(t);
    pawl_close(p);
}

static void crashes_change_nothing_that_was_seen(conf *c)
{
    int64_t writes, last;
    (void)c;
    crash_at(0, &writes);
    assert_in_range(writes, 3, 1000);
    for (int64_t at = 1; at <= writes; at++)
        crash_at(at, &last);
}

static const conf_case CASES[] = {
    {"deeply nested futures need no stack", deeply_nested_futures_need_no_stack, 0},
    {"mistakes hold the run", mistakes_hold_the_run, 0},
    {"a future among many does not cost more", a_future_among_many_does_not_cost_more, 0},
    {"dx-futures crashes change nothing that was seen", crashes_change_nothing_that_was_seen, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
