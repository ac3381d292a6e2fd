/* The test kit, as a program's own tests use it: a month in a millisecond, the same journal each
 * time, and a crash at each write, after which everything is as the next process would find it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <pawl.h>
#include <pawl_test.h>

enum { TEXT = 16 * 1024 };

/* What the outside has seen of a run; it survives crashes, as the outside does. */
typedef struct outside {
    int charged;
    int shipped;
    int deferred;
    char key[256]; /* of the charge */
    int keys;      /* different ones */
    int dead;      /* the process that is being driven has crashed … */
    int ghosts;    /* … and has done something after that */
    pawl *engine;
} outside;

typedef struct fixture {
    pawl *p;
    pawl_test *t;
    outside out;
} fixture;

/* ---- A workflow ---- */

static const char *charge(pawl_work *work, const char *input)
{
    outside *o = pawl_work_arg(work);
    if (strcmp(o->key, pawl_work_key(work)) != 0)
        o->keys++;
    snprintf(o->key, sizeof o->key, "%s", pawl_work_key(work));
    o->charged++;
    o->ghosts += o->dead;
    return input;
}

static const char *ship(pawl_work *work, const char *input)
{
    outside *o = pawl_work_arg(work);
    o->shipped++;
    return pawl_work_json(work, "{'sent':%j}", input);
}

static void note_defer(void *arg)
{
    ((outside *)arg)->deferred++;
}

static const char *trial(pawl_run *run, const char *input)
{
    outside *o = pawl_arg(run);
    pawl_defer(run, note_defer, o);
    const char *paid = pawl_step(run, "charge", charge, input, PAWL_CALL(.arg = o));
    pawl_set_status(run, "\"paid\"");
    pawl_sleep(run, PAWL_DAYS(30));
    pawl_uuid(run);
    return pawl_step(run, "ship", ship, paid, PAWL_CALL(.arg = o));
}

static void open_fixture(fixture *b)
{
    memset(b, 0, sizeof *b);
    assert_int_equal(pawl_test_open(&b->p, &b->t), PAWL_OK);
    assert_non_null(b->t);
    b->out.engine = b->p;
    assert_int_equal(pawl_register_workflow(b->p, "trial", trial, PAWL_WORKFLOW(.arg = &b->out)),
                     PAWL_OK);
}

static void close_fixture(fixture *b)
{
    pawl_test_close(b->t);
    pawl_close(b->p);
}

static void start(fixture *b, const char *id)
{
    assert_int_equal(pawl_start(b->p, "trial", id, "7", NULL), PAWL_OK);
}

static void finish(fixture *b, const char *id, const char *value)
{
    pawl_outcome *end = NULL;
    pawl_code rc = pawl_test_finish(b->p, id, &end);
    if (rc != PAWL_OK)
        fail_msg("%s: %s", pawl_code_name(rc), pawl_errtext(b->p));
    assert_string_equal(pawl_outcome_value(end), value);
    pawl_outcome_free(end);
}

static int add_event(const pawl_event *e, void *arg)
{
    char *text = arg;
    size_t used = strlen(text);
    snprintf(text + used, TEXT - used, "%lld %s %s %lld %s\n", (long long)pawl_event_seq(e),
             pawl_event_kind(e), pawl_event_name(e), (long long)pawl_event_at_ms(e),
             pawl_event_data(e));
    return 0;
}

static void read_journal(fixture *b, const char *id, char *text)
{
    text[0] = '\0';
    assert_int_equal(pawl_history(b->p, id, 0, 0, add_event, text), PAWL_OK);
}

/* ---- Time ---- */

static void a_month_takes_no_time(void **state)
{
    fixture b;
    (void)state;
    open_fixture(&b);
    int64_t began = pawl_test_now(b.t);
    assert_int_equal(began, INT64_C(978307200000));
    start(&b, "t-1");
    finish(&b, "t-1", "{\"sent\":7}");
    assert_int_equal(pawl_test_now(b.t), began + PAWL_DAYS(30));
    assert_int_equal(b.out.charged, 1);
    assert_int_equal(b.out.shipped, 1);
    close_fixture(&b);
}

static void the_journal_is_the_same_each_time(void **state)
{
    char first[TEXT], second[TEXT];
    fixture b;
    (void)state;
    open_fixture(&b);
    start(&b, "t-1");
    finish(&b, "t-1", "{\"sent\":7}");
    read_journal(&b, "t-1", first);
    close_fixture(&b);
    open_fixture(&b);
    start(&b, "t-1");
    finish(&b, "t-1", "{\"sent\":7}");
    read_journal(&b, "t-1", second);
    close_fixture(&b);
    assert_true(strlen(first) > 100);
    assert_string_equal(first, second);
}

static pawl_phase phase_of(pawl *p, const char *id)
{
    pawl_info *info = NULL;
    assert_int_equal(pawl_inspect(p, id, &info), PAWL_OK);
    pawl_phase phase = pawl_info_phase(info);
    pawl_info_free(info);
    return phase;
}

static void advancing_does_what_is_due(void **state)
{
    fixture b;
    (void)state;
    open_fixture(&b);
    int64_t began = pawl_test_now(b.t);
    start(&b, "t-1");
    assert_int_equal(pawl_test_advance(b.t, 0), PAWL_OK);
    assert_int_equal(b.out.charged, 1);
    assert_int_equal(pawl_test_advance(b.t, PAWL_DAYS(30) - 1), PAWL_OK);
    assert_int_equal(b.out.shipped, 0);
    assert_int_equal(phase_of(b.p, "t-1"), PAWL_RUN_LIVE);
    assert_int_equal(pawl_test_advance(b.t, 1), PAWL_OK);
    assert_int_equal(b.out.shipped, 1);
    assert_int_equal(phase_of(b.p, "t-1"), PAWL_RUN_DONE);
    assert_int_equal(pawl_test_now(b.t), began + PAWL_DAYS(30));
    close_fixture(&b);
}

/* Each hour, for a day: at its own time, and not later because the clock was moved further. */
static const char *hourly(pawl_run *run, const char *input)
{
    int64_t began = pawl_now(run), late = 0;
    for (int i = 1; i <= 24; i++) {
        pawl_sleep_until(run, began + PAWL_HOURS(i));
        late += pawl_now(run) - (began + PAWL_HOURS(i));
    }
    (void)input;
    return pawl_json(run, "%lld", (long long)late);
}

static void what_is_due_on_the_way_has_its_own_time(void **state)
{
    fixture b;
    (void)state;
    open_fixture(&b);
    assert_int_equal(pawl_register_workflow(b.p, "hourly", hourly, NULL), PAWL_OK);
    assert_int_equal(pawl_start(b.p, "hourly", "h", "null", PAWL_START(.delay_ms = 90)), PAWL_OK);
    assert_int_equal(pawl_test_advance(b.t, PAWL_DAYS(3)), PAWL_OK);
    finish(&b, "h", "0");
    assert_int_equal(pawl_test_now(b.t), INT64_C(978307200000) + PAWL_DAYS(3));
    close_fixture(&b);
}

static void a_delayed_start_is_jumped_to(void **state)
{
    fixture b;
    (void)state;
    open_fixture(&b);
    int64_t began = pawl_test_now(b.t);
    assert_int_equal(pawl_start(b.p, "trial", "t-1", "7", PAWL_START(.delay_ms = PAWL_DAYS(400))),
                     PAWL_OK);
    finish(&b, "t-1", "{\"sent\":7}");
    assert_int_equal(pawl_test_now(b.t), began + PAWL_DAYS(430));
    close_fixture(&b);
}

static void pawl_finish_moves_the_clock_up_to_its_time_out(void **state)
{
    fixture b;
    (void)state;
    open_fixture(&b);
    int64_t began = pawl_test_now(b.t);
    start(&b, "t-1");
    assert_int_equal(pawl_finish(b.p, "t-1", PAWL_DAYS(3), NULL), PAWL_TIMEOUT);
    assert_int_equal(pawl_test_now(b.t), began + PAWL_DAYS(3));
    assert_int_equal(pawl_wait(b.p, "t-1", PAWL_DAYS(1), NULL), PAWL_TIMEOUT);
    assert_int_equal(pawl_test_now(b.t), began + PAWL_DAYS(4));
    assert_int_equal(pawl_finish(b.p, "t-1", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(pawl_test_now(b.t), began + PAWL_DAYS(30));
    close_fixture(&b);
}

/* ---- What no clock brings ---- */

static const char *for_ever(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_FOREVER);
    return input;
}

static void waiting_for_ever_is_told(void **state)
{
    fixture b;
    pawl_outcome *end = NULL;
    (void)state;
    open_fixture(&b);
    int64_t began = pawl_test_now(b.t);
    assert_int_equal(pawl_register_workflow(b.p, "for_ever", for_ever, NULL), PAWL_OK);
    assert_int_equal(pawl_start(b.p, "for_ever", "f", "null", NULL), PAWL_OK);
    assert_int_equal(pawl_test_finish(b.p, "f", &end), PAWL_TIMEOUT);
    assert_null(end);
    assert_int_equal(pawl_test_now(b.t), began);
    close_fixture(&b);
}

static void a_workflow_that_is_not_there_is_held(void **state)
{
    fixture b;
    pawl_outcome *end = NULL;
    (void)state;
    open_fixture(&b);
    assert_int_equal(pawl_start(b.p, "forgotten", "f", "null", NULL), PAWL_OK);
    assert_int_equal(pawl_test_finish(b.p, "f", &end), PAWL_HELD);
    pawl_outcome_free(end);
    close_fixture(&b);
}

/* ---- Crashes ---- */

static void a_crash_at_each_write(void **state)
{
    fixture b;
    (void)state;
    open_fixture(&b);
    start(&b, "t-1");
    finish(&b, "t-1", "{\"sent\":7}");
    int64_t writes = pawl_test_writes(b.t);
    close_fixture(&b);
    assert_in_range(writes, 4, 40);

    int charged_twice = 0, shipped_twice = 0;
    for (int64_t n = 1; n <= writes + 1; n++) {
        open_fixture(&b);
        assert_int_equal(pawl_test_crash_at(b.t, n), PAWL_OK);
        start(&b, "t-1");
        finish(&b, "t-1", "{\"sent\":7}");
        assert_in_range(b.out.charged, 1, 2);
        assert_in_range(b.out.shipped, 1, 2);
        assert_int_equal(b.out.keys, 1);
        charged_twice += b.out.charged == 2;
        shipped_twice += b.out.shipped == 2;
        assert_int_equal(pawl_test_now(b.t), INT64_C(978307200000) + PAWL_DAYS(30));
        close_fixture(&b);
    }
    assert_int_equal(charged_twice, 1);
    assert_int_equal(shipped_twice, 1);
}

/* Two runs at a time: what is dead begins nothing for the other one either. */
static void two_crashes_and_two_runs(void **state)
{
    fixture b;
    (void)state;
    for (int64_t first = 1; first <= 10; first++) {
        for (int64_t second = 1; second <= 5; second++) {
            open_fixture(&b);
            assert_int_equal(pawl_test_crash_at(b.t, first), PAWL_OK);
            start(&b, "t-1");
            start(&b, "t-2");
            assert_int_equal(pawl_test_advance(b.t, PAWL_DAYS(1)), PAWL_OK);
            assert_int_equal(pawl_test_crash_at(b.t, second), PAWL_OK);
            finish(&b, "t-1", "{\"sent\":7}");
            finish(&b, "t-2", "{\"sent\":7}");
            assert_in_range(b.out.charged, 2, 6);
            close_fixture(&b);
        }
    }
}

static void a_crash_drops_what_is_in_memory(void **state)
{
    fixture b;
    (void)state;
    open_fixture(&b);
    start(&b, "t-1");
    assert_int_equal(pawl_test_advance(b.t, PAWL_DAYS(1)), PAWL_OK);
    int deferred = b.out.deferred;
    assert_int_equal(pawl_test_crash_at(b.t, 1), PAWL_OK);
    finish(&b, "t-1", "{\"sent\":7}");
    assert_true(b.out.deferred > deferred);
    assert_int_equal(b.out.charged, 1);
    assert_in_range(b.out.shipped, 1, 2);
    close_fixture(&b);
}

/* The test's own calls are not struck. */
static void the_outside_does_not_crash(void **state)
{
    fixture b;
    (void)state;
    open_fixture(&b);
    assert_int_equal(pawl_test_crash_at(b.t, 1), PAWL_OK);
    start(&b, "t-1");
    start(&b, "t-2");
    assert_int_equal(pawl_test_writes(b.t), 0);
    assert_int_equal(phase_of(b.p, "t-2"), PAWL_RUN_LIVE);
    finish(&b, "t-2", "{\"sent\":7}");
    close_fixture(&b);
}

/* A work function that starts another run is struck in the middle of it: it hears an error, and is
 * called again. A run that stands behind it does not go on in what is dead. */
static const char *starts_another(pawl_work *work, const char *input)
{
    outside *o = pawl_work_arg(work);
    pawl_code rc = pawl_start(o->engine, "trial", "t-other", "7", NULL);
    o->dead = rc != PAWL_OK;
    return o->dead ? pawl_work_fail(work, PAWL_PERMANENT, "no-start", "%s", pawl_code_name(rc))
                   : input;
}

static const char *starting(pawl_run *run, const char *input)
{
    return pawl_step(run, "start", starts_another, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static void a_call_from_work_is_struck_too(void **state)
{
    fixture b;
    (void)state;
    for (int64_t n = 1; n <= 12; n++) {
        open_fixture(&b);
        assert_int_equal(
            pawl_register_workflow(b.p, "starting", starting, PAWL_WORKFLOW(.arg = &b.out)),
            PAWL_OK);
        assert_int_equal(pawl_test_crash_at(b.t, n), PAWL_OK);
        assert_int_equal(pawl_start(b.p, "starting", "s", "7", NULL), PAWL_OK);
        start(&b, "t-1");
        finish(&b, "s", "7");
        finish(&b, "t-1", "{\"sent\":7}");
        finish(&b, "t-other", "{\"sent\":7}");
        assert_int_equal(b.out.ghosts, 0);
        close_fixture(&b);
    }
}

/* ---- Replay ---- */

static const char *same(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

static const char *changing(pawl_run *run, const char *input)
{
    int *times = pawl_arg(run);
    pawl_step(run, ++*times == 1 ? "one" : "other", same, input, NULL);
    pawl_sleep(run, 1000);
    return input;
}

static pawl_code try_changing(int always)
{
    fixture b;
    int times = 0;
    pawl_outcome *end = NULL;
    open_fixture(&b);
    assert_int_equal(pawl_test_always_replay(b.t, always), PAWL_OK);
    assert_int_equal(
        pawl_register_workflow(b.p, "changing", changing, PAWL_WORKFLOW(.arg = &times)), PAWL_OK);
    assert_int_equal(pawl_start(b.p, "changing", "c", "1", NULL), PAWL_OK);
    pawl_code rc = pawl_test_finish(b.p, "c", &end);
    pawl_outcome_free(end);
    close_fixture(&b);
    return rc;
}

static void always_replay_finds_what_changes(void **state)
{
    (void)state;
    assert_int_equal(try_changing(1), PAWL_HELD);
#ifndef PAWL_ALWAYS_REPLAY
    assert_int_equal(try_changing(0), PAWL_OK);
#endif
}

/* ---- Arguments ---- */

static void arguments(void **state)
{
    fixture b;
    pawl *p = NULL;
    pawl_outcome *end = NULL;
    (void)state;
    pawl_test *t = (pawl_test *)&b;
    assert_int_equal(pawl_test_open(NULL, &t), PAWL_INVALID);
    assert_null(t);
    assert_int_equal(pawl_test_open(&p, NULL), PAWL_INVALID);
    assert_null(p);
    assert_int_equal(pawl_test_advance(NULL, 1), PAWL_INVALID);
    assert_int_equal(pawl_test_crash_at(NULL, 1), PAWL_INVALID);
    assert_int_equal(pawl_test_always_replay(NULL, 1), PAWL_INVALID);
    assert_int_equal(pawl_test_now(NULL), 0);
    assert_int_equal(pawl_test_writes(NULL), 0);
    pawl_test_close(NULL);
    assert_int_equal(pawl_test_finish(NULL, "id", &end), PAWL_INVALID);
    assert_int_equal(pawl_open(&p, "memory:", NULL), PAWL_OK);
    assert_int_equal(pawl_test_finish(p, "id", &end), PAWL_MISUSE);
    pawl_close(p);

    open_fixture(&b);
    assert_int_equal(pawl_test_advance(b.t, -1), PAWL_INVALID);
    assert_int_equal(pawl_test_advance(b.t, PAWL_FOREVER), PAWL_LIMIT);
    assert_int_equal(pawl_test_advance(b.t, PAWL_DAYS(365) * 250), PAWL_OK);
    assert_int_equal(pawl_test_advance(b.t, 1), PAWL_LIMIT);
    assert_int_equal(pawl_test_crash_at(b.t, -1), PAWL_INVALID);
    assert_int_equal(pawl_test_finish(b.p, "nobody", &end), PAWL_NOTFOUND);
    assert_int_equal(pawl_test_finish(b.p, "", &end), PAWL_INVALID);
    pawl_close(b.p); /* in this order too: there is nothing to drive then */
    assert_int_equal(pawl_test_advance(b.t, 0), PAWL_INVALID);
    assert_int_not_equal(pawl_test_now(b.t), 0);
    pawl_test_close(b.t);
}

static const char *finishing(pawl_work *work, const char *input)
{
    outside *o = pawl_work_arg(work);
    (void)input;
    return pawl_work_json(work, "%b", pawl_test_finish(o->engine, "t", NULL) == PAWL_MISUSE);
}

static const char *nested(pawl_run *run, const char *input)
{
    return pawl_step(run, "finish", finishing, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static void not_from_a_work_function(void **state)
{
    fixture b;
    (void)state;
    open_fixture(&b);
    assert_int_equal(pawl_register_workflow(b.p, "nested", nested, PAWL_WORKFLOW(.arg = &b.out)),
                     PAWL_OK);
    assert_int_equal(pawl_start(b.p, "nested", "n", "1", NULL), PAWL_OK);
    finish(&b, "n", "true");
    close_fixture(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_month_takes_no_time),
        cmocka_unit_test(the_journal_is_the_same_each_time),
        cmocka_unit_test(advancing_does_what_is_due),
        cmocka_unit_test(what_is_due_on_the_way_has_its_own_time),
        cmocka_unit_test(a_delayed_start_is_jumped_to),
        cmocka_unit_test(pawl_finish_moves_the_clock_up_to_its_time_out),
        cmocka_unit_test(waiting_for_ever_is_told),
        cmocka_unit_test(a_workflow_that_is_not_there_is_held),
        cmocka_unit_test(a_crash_at_each_write),
        cmocka_unit_test(two_crashes_and_two_runs),
        cmocka_unit_test(a_crash_drops_what_is_in_memory),
        cmocka_unit_test(the_outside_does_not_crash),
        cmocka_unit_test(a_call_from_work_is_struck_too),
        cmocka_unit_test(always_replay_finds_what_changes),
        cmocka_unit_test(arguments),
        cmocka_unit_test(not_from_a_work_function),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
