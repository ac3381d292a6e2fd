/* Memory that cannot be had behind a step: what the step gave is recorded before the run is put
 * off; the run is tried again, each time after a longer pause, and held at last. Executions are
 * lines of the side file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/served_fixture.h"

/* Numbers of the stage: how often the memory is still not there, how often it was asked for, lines
 * of the log at its beginning and its end. */
enum { LACKING, ASKED, OUT, AGAIN };

static int64_t number(stage *s, int which)
{
    return atomic_load(stage_number(s, which));
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "memory-out") == 0)
        atomic_fetch_add(stage_number(arg, OUT), 1);
    if (strcmp(event, "memory-again") == 0)
        atomic_fetch_add(stage_number(arg, AGAIN), 1);
}

/* More than any machine has. */
static void ask_for_much(pawl_run *run)
{
    stage *s = pawl_arg(run);
    atomic_fetch_add(stage_number(s, ASKED), 1);
    if (number(s, LACKING) == 0)
        return;
    atomic_fetch_sub(stage_number(s, LACKING), 1);
    pawl_alloc(run, (size_t)1 << 63);
}

static const char *hungry(pawl_run *run, const char *input)
{
    stage *s = pawl_arg(run);
    pawl_step(run, "first", stage_echo, input, PAWL_CALL(.arg = s));
    pawl_now(run);
    ask_for_much(run);
    return pawl_step(run, "second", stage_echo, input, PAWL_CALL(.arg = s));
}

static pawl *open_hungry(stage *s, int64_t threads)
{
    pawl *p = stage_open(s, PAWL_OPTIONS(.threads = threads, .log = hear, .log_arg = s));
    STAGE_REGISTER(s, p, hungry);
    return p;
}

static void expect_why(stage *s, pawl *p, const char *words)
{
    char *why = NULL;
    STAGE_CODE(s, p, pawl_why(p, "run", &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
    pawl_free(why);
}

static void the_step_is_executed_once(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_hungry(s, -1);
    atomic_store(stage_number(s, LACKING), 3);
    stage_start(s, p, "hungry", "run", "1");
    stage_poll(s, p);
    stage_poll(s, p);
    expect_why(s, p, "out of memory: 9223372036854775808 bytes for the workflow function");
    expect_why(s, p, "try 1 of 10");
    STAGE_DONE(s, p, "run", "1");
    STAGE_NOTES(s, "first second");
    if (STAGE_WARM)
        assert_int_equal(number(s, ASKED), 4);
    assert_int_equal(number(s, OUT), 1);
    assert_int_equal(number(s, AGAIN), 1);
    pawl_close(p);
    stage_free(s);
}

/* Each pause is longer than the one before, and they come to an end: people look, or another build
 * comes. */
static void it_is_held_at_last(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_hungry(s, -1);
    int64_t pause = 0;
    atomic_store(stage_number(s, LACKING), INT64_MAX);
    stage_start(s, p, "hungry", "run", "1");
    STAGE_UNTIL(s, p, number(s, ASKED) >= 1);
    for (int i = 2; i <= 7; i++) {
        int64_t before = stage_now(s);
        STAGE_UNTIL(s, p, number(s, ASKED) >= i);
        assert_true(stage_now(s) - before > pause);
        pause = stage_now(s) - before;
    }
    STAGE_HELD(s, p, "run", "out of memory, 10 times in a row");
    expect_why(s, p, "It goes on with another build");
    if (STAGE_WARM)
        assert_int_equal(number(s, ASKED), 10);
    atomic_store(stage_number(s, LACKING), 0);
    STAGE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    STAGE_DONE(s, p, "run", "1");
    STAGE_NOTES(s, "first second");
    STAGE_HISTORY(s, p, "run", "step:first now step:second");
    pawl_close(p);
    stage_free(s);
}

static void with_threads(conf *c)
{
    served v = {.stage = stage_new(c)};
    stage_go(v.stage);
    v.p = open_hungry(v.stage, 3);
    atomic_store(stage_number(v.stage, LACKING), 1);
    served_begin(&v);
    stage_start(v.stage, v.p, "hungry", "run", "1");
    STAGE_CODE(v.stage, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    STAGE_NOTES(v.stage, "first second");
    served_end(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"the step is executed once", the_step_is_executed_once, 0},
        {"it is held at last", it_is_held_at_last, 0},
        {"with threads", with_threads, DB_DURABLE},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
