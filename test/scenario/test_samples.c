/* Small whole programs that use several things together: values of every kind, settings that arrive
 * while a run goes round and round, state that is counted up and read by others, a failure that is
 * dealt with, a child whose result is not wanted any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "support/engine_fixture.h"

/* ---- Values of every kind ---- */

static const char *kinds(pawl_run *run, const char *input)
{
    pawl_future *both[2] = {
        pawl_step_later(run, "typed", fixture_echo, input, PAWL_CALL(.arg = pawl_arg(run))),
        pawl_receive_later(run, "typed", PAWL_FOREVER)};
    pawl_all(run, both, 2);
    return pawl_json(run, "[%j,%j]", pawl_value(both[0]), pawl_value(both[1]));
}

static void every_kind_of_value(conf *c)
{
    static const char *const VALUES[] = {"null",           "false", "-0.5e3", "\"\"",
                                         "\"\\u00e4\\n\"", "[]",    "{}",     "[[{\"a\":[null]}]]"};
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, kinds);
    for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
        char id[16], wanted[64];
        snprintf(id, sizeof id, "kinds-%zu", i);
        snprintf(wanted, sizeof wanted, "[%s,%s]", VALUES[i], VALUES[i]);
        fixture_start(s, p, "kinds", id, VALUES[i]);
        FIXTURE_CODE(s, p, pawl_send(p, id, "typed", VALUES[i], NULL), PAWL_OK);
        FIXTURE_DONE(s, p, id, wanted);
    }
    pawl_close(p);
    fixture_free(s);
}

/* ---- Settings that arrive, over generations ---- */

/* Each round takes what is there, and each three rounds are a generation. */
static const char *polling(pawl_run *run, const char *input)
{
    int64_t round = pawl_get_int(input, "/round", 0), sum = pawl_get_int(input, "/sum", 0);
    int64_t seen = pawl_get_int(input, "/seen", 0);
    for (int i = 0; i < 3; i++) {
        const char *setting;
        while (pawl_receive(run, "settings", 0, &setting) == PAWL_OK) {
            sum = sum * 10 + pawl_get_int(setting, "", 0);
            seen++;
        }
        if (seen == 7)
            return pawl_json(run, "%" PRId64, sum);
        pawl_sleep(run, 100);
        round++;
    }
    return pawl_continue_as_new(
        run,
        pawl_json(run, "{'round':%" PRId64 ",'sum':%" PRId64 ",'seen':%" PRId64 "}", round, sum,
                  seen),
        NULL);
}

static void set(engine_fixture *s, pawl *p, int from, int to)
{
    for (int i = from; i <= to; i++) {
        char message[4];
        snprintf(message, sizeof message, "%d", i);
        FIXTURE_CODE(s, p, pawl_send(p, "polling", "settings", message, NULL), PAWL_OK);
    }
}

static void settings_arrive(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, polling);
    fixture_start(s, p, "polling", "polling", "{}");
    fixture_poll(s, p);
    set(s, p, 1, 1);
    for (int i = 0; i < 3; i++) { /* none, and into the next generation */
        fixture_advance(s, 100);
        fixture_poll(s, p);
    }
    set(s, p, 2, 5);
    fixture_advance(s, 100);
    fixture_poll(s, p);
    fixture_advance(s, 200);
    set(s, p, 6, 7);
    FIXTURE_DONE(s, p, "polling", "1234567");
    pawl_close(p);
    fixture_free(s);
}

/* ---- State ---- */

/* Counts up in its state, a few times in each generation. */
static const char *counting(pawl_run *run, const char *input)
{
    for (int i = 0; i < 5; i++) {
        int64_t n = pawl_get_int(pawl_state_get(run, "n"), "", 0);
        pawl_state_set(run, "n", pawl_json(run, "%" PRId64, n + 1));
        pawl_sleep(run, 10);
    }
    if (pawl_run_generation(run) < 4)
        return pawl_continue_as_new(run, input, NULL);
    return pawl_state_get(run, "n");
}

static const char *reading(pawl_run *run, const char *input)
{
    const char *nothing = pawl_state_of(run, "nobody", "n");
    const char *first = pawl_state_of(run, "counting", "n");
    pawl_sleep(run, PAWL_SECONDS(5));
    const char *later = pawl_state_of(run, "counting", "n");
    (void)input;
    return pawl_json(run, "[%j,%j,%j]", nothing, first, later);
}

static void state_is_counted_and_read(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    char *value = NULL;
    FIXTURE_REGISTER(s, p, counting);
    FIXTURE_REGISTER(s, p, reading);
    fixture_start(s, p, "counting", "counting", "null");
    fixture_poll(s, p);
    fixture_start(s, p, "reading", "reading", "null");
    fixture_poll(s, p);
    FIXTURE_DONE(s, p, "counting", "20");
    FIXTURE_DONE(s, p, "reading", "[null,1,20]");
    FIXTURE_CODE(s, p, pawl_read_state(p, "counting", "n", &value), PAWL_OK);
    assert_string_equal(value, "20");
    pawl_free(value);
    pawl_close(p);
    fixture_free(s);
}

/* ---- A failure that is dealt with ---- */

static const char *fails(pawl_work *work, const char *input)
{
    return pawl_work_fail(work, PAWL_PERMANENT, pawl_work_text(work, input, "", ""), "for good");
}

static const char *dealing(pawl_run *run, const char *input)
{
    pawl_future *failing = pawl_step_later(run, "fails", fails, input, NULL);
    const pawl_outcome *o = pawl_try(run, failing);
    return pawl_json(run, "[%s,%s,%s]", pawl_code_name(pawl_outcome_code(o)), pawl_outcome_name(o),
                     pawl_outcome_message(o));
}

static void a_failure_is_dealt_with(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, dealing);
    fixture_start(s, p, "dealing", "dealing", "\"broken\"");
    FIXTURE_DONE(s, p, "dealing", "[\"PAWL_FAILED\",\"broken\",\"for good\"]");
    fixture_start(s, p, "dealing", "named", "\"timeout\""); /* a name says nothing about time */
    FIXTURE_DONE(s, p, "named", "[\"PAWL_FAILED\",\"timeout\",\"for good\"]");
    pawl_close(p);
    fixture_free(s);
}

/* ---- A child whose result is not wanted any more ---- */

static const char *waiting(pawl_run *run, const char *input)
{
    const char *message;
    pawl_receive(run, "never", PAWL_FOREVER, &message);
    return input;
}

/* The input is the id of the child; null: its own. */
static const char *leaving(pawl_run *run, const char *input)
{
    const char *id = pawl_text(run, input, "", NULL);
    pawl_future *child = pawl_child_later(run, "waiting", "1", PAWL_CHILD(.id = id));
    pawl_sleep(run, 10);
    pawl_future_cancel(run, child);
    pawl_code code = pawl_outcome_code(pawl_try(run, child));
    pawl_sleep(run, 10);
    return pawl_json(run, "%s", pawl_code_name(code));
}

static void a_child_is_cancelled(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, waiting);
    FIXTURE_REGISTER(s, p, leaving);
    fixture_start(s, p, "leaving", "a", "null");
    fixture_start(s, p, "leaving", "b", "\"child-of-b\"");
    fixture_start(s, p, "leaving", "c", "\"child-of-c\"");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_cancel(p, "child-of-c", "by hand"), PAWL_OK); /* and by its parent */
    FIXTURE_DONE(s, p, "a", "\"PAWL_CANCELLED\"");
    FIXTURE_DONE(s, p, "b", "\"PAWL_CANCELLED\"");
    FIXTURE_DONE(s, p, "c", "\"PAWL_CANCELLED\"");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "a/1.2") == PAWL_RUN_CANCELLED);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "child-of-b") == PAWL_RUN_CANCELLED);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "child-of-c") == PAWL_RUN_CANCELLED);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-X16 dx-X17 dx-X18 dx-X19 every kind of value", every_kind_of_value, 0},
        {"dx-X28 settings arrive", settings_arrive, 0},
        {"dx-X33 dx-X34 dx-KV state is counted and read", state_is_counted_and_read, 0},
        {"ys-Y50 a failure is dealt with", a_failure_is_dealt_with, 0},
        {"dx-Y15 dx-Y16 a child is cancelled", a_child_is_cancelled, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
