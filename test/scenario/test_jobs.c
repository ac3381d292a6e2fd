/* Later forms of work: functions that are called beside the workflow function, on other threads or
 * by hand. What they do is noted in the side file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support/served_fixture.h"

enum { INSIDE, MOST, LET_GO, TOLD };

static int64_t number(stage *s, int which)
{
    return atomic_load(stage_number(s, which));
}

static const char *stand(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    int64_t inside = atomic_fetch_add(stage_number(s, INSIDE), 1) + 1;
    int64_t most = number(s, MOST);
    while (inside > most && !atomic_compare_exchange_weak(stage_number(s, MOST), &most, inside))
        continue;
    while (!number(s, LET_GO) && !(number(s, TOLD) < 0 && pawl_work_cancelled(work)))
        poll(NULL, 0, 1);
    atomic_fetch_sub(stage_number(s, INSIDE), 1);
    stage_note(s, "%s%s", pawl_work_name(work), pawl_work_cancelled(work) ? "-told" : "");
    return input;
}

/* Fails as often as the input says. */
static const char *flaky(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    stage_note(s, "%s-%lld", pawl_work_name(work), (long long)pawl_work_attempt(work));
    if (pawl_work_attempt(work) <= pawl_get_int(input, "", 0))
        return pawl_work_fail(work, PAWL_TRANSIENT, "flaky", "again");
    return input;
}

#define LATER(name, fn, input, ...)                                                                \
    pawl_step_later(run, name, fn, input, PAWL_CALL(.arg = pawl_arg(run), __VA_ARGS__))

/* ---- Beside each other ---- */

static const char *beside(pawl_run *run, const char *input)
{
    pawl_future *three[] = {LATER("a", stand, "1", .attempts = 3),
                            LATER("b", stand, "2", .attempts = 3),
                            LATER("c", stand, "3", .attempts = 3)};
    pawl_step(run, "between", stand, input, PAWL_CALL(.arg = pawl_arg(run)));
    return pawl_await(run, pawl_all_later(run, three, 3));
}

/* One thread is enough to begin with: those who stand in a function get company. */
static void they_run_beside_each_other(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 1, .threads_max = 8));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, beside);
    served_begin(&v);
    stage_start(s, v.p, "beside", "run", "0");
    TMP_AWAIT(number(s, INSIDE) == 4); /* the step that the function waits for is one of them */
    atomic_store(stage_number(s, LET_GO), 1);
    STAGE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(stage_count(s, (const char *[]){"a", "b", "c"}[i]), 1);
    served_end(&v);
}

static const char *limited(pawl_run *run, const char *input)
{
    pawl_future *all[20];
    for (int i = 0; i < 20; i++)
        all[i] = pawl_call_later(run, "narrow", input, NULL);
    pawl_all(run, all, 20);
    return input;
}

static void places_are_limited(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 6));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, limited);
    STAGE_CODE(s, v.p, pawl_register_work(v.p, "narrow", stand, PAWL_WORK(.arg = s, .at_most = 2)),
               PAWL_OK);
    served_begin(&v);
    stage_start(s, v.p, "limited", "one", "0");
    stage_start(s, v.p, "limited", "two", "0");
    TMP_AWAIT(number(s, INSIDE) == 2);
    atomic_store(stage_number(s, LET_GO), 1);
    STAGE_CODE(s, v.p, pawl_wait(v.p, "one", PAWL_FOREVER, NULL), PAWL_OK);
    STAGE_CODE(s, v.p, pawl_wait(v.p, "two", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(number(s, MOST), 2);
    assert_int_equal(stage_count(s, "narrow"), 40);
    served_end(&v);
}

/* ---- Attempts ---- */

static const char *retrying(pawl_run *run, const char *input)
{
    pawl_future *two[] = {
        LATER("x", flaky, "2", .attempts = 3, .backoff_ms = 10, .no_jitter = 1),
        pawl_call_later(run, "flaky", "1", PAWL_CALL(.attempts = 1)),
    };
    const pawl_outcome *o = pawl_try(run, two[1]);
    if (pawl_outcome_code(o) != PAWL_FAILED)
        return "false";
    pawl_await(run, two[0]);
    return input;
}

static void attempts_are_recorded(conf *c)
{
    STAGE_BY_HAND();
    stage *s = stage_new(c);
    pawl *p = stage_open(s, NULL);
    STAGE_REGISTER(s, p, retrying);
    STAGE_CODE(s, p, pawl_register_work(p, "flaky", flaky, PAWL_WORK(.arg = s)), PAWL_OK);
    stage_start(s, p, "retrying", "run", "7");
    int64_t began = stage_now(s);
    stage_poll(s, p);
    STAGE_NOTES(s, "x-1 flaky-1");
    pawl_close(p); /* the pause and the number outlive the engine */
    p = stage_open(s, NULL);
    STAGE_REGISTER(s, p, retrying);
    STAGE_CODE(s, p, pawl_register_work(p, "flaky", flaky, PAWL_WORK(.arg = s)), PAWL_OK);
    STAGE_DONE(s, p, "run", "7");
    STAGE_NOTES(s, "x-1 flaky-1 x-2 x-3");
    assert_in_range(stage_now(s) - began, 30, 30 + 1000);
    STAGE_HISTORY(s, p, "run", "step-later:x call:flaky attempt failed attempt done");
    pawl_close(p);
    stage_free(s);
}

/* The time for all attempts is over when the next one is due: it is not made. */
static const char *overdue(pawl_run *run, const char *input)
{
    const pawl_outcome *o = pawl_try(run, LATER("x", flaky, "9", .attempts = 9, .backoff_ms = 100,
                                                .no_jitter = 1, .overall_ms = 150));
    return pawl_json(run, "[%j,%" PRId64 ",%s]", input, (int64_t)pawl_outcome_code(o),
                     pawl_outcome_name(o));
}

static void what_is_too_late_is_not_begun(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = stage_open(s, NULL);
    STAGE_REGISTER(s, p, overdue);
    stage_start(s, p, "overdue", "run", "7");
    stage_poll(s, p);
    stage_advance(s, 1000); /* nobody was there in time */
    char wanted[64];
    snprintf(wanted, sizeof wanted, "[7,%d,\"timeout\"]", (int)PAWL_TIMEOUT);
    STAGE_DONE(s, p, "run", wanted);
    STAGE_NOTES(s, "x-1");
    pawl_close(p);
    stage_free(s);
}

/* So long that the clock gets there only when the test moves it. */
enum { LIMIT_MS = 3600000 };

static const char *hurried(pawl_run *run, const char *input)
{
    const pawl_outcome *o =
        pawl_try(run, LATER("x", stand, "9", .attempts = 1, .attempt_ms = LIMIT_MS));
    stage_note(pawl_arg(run), "went-on");
    return pawl_json(run, "[%j,%" PRId64 "]", input, (int64_t)pawl_outcome_code(o));
}

/* The run goes on; what the function gives later is dropped. */
static void an_attempt_has_a_limit(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2));
    stage *s = v.stage;
    pawl_outcome *o = NULL;
    STAGE_REGISTER(s, v.p, hurried);
    served_begin(&v);
    stage_start(s, v.p, "hurried", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    stage_advance(s, LIMIT_MS);
    STAGE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, &o), PAWL_OK);
    assert_int_equal(pawl_get_int(pawl_outcome_value(o), "/1", 0), PAWL_TIMEOUT);
    pawl_outcome_free(o);
    assert_int_equal(number(s, INSIDE), 1); /* it is still in it */
    atomic_store(stage_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    STAGE_HISTORY(s, v.p, "run", "step-later:x failed");
    served_end(&v);
}

/* ---- Losing ---- */

static const char *losing(pawl_run *run, const char *input)
{
    int timed = strcmp(input, "\"timer\"") == 0;
    pawl_future *some[] = {LATER("slow", stand, "1", .attempts = 3),
                           timed ? pawl_sleep_later(run, PAWL_HOURS(1))
                                 : pawl_receive_later(run, "go", PAWL_FOREVER)};
    if (pawl_any(run, some, 2, 0) != 1)
        return "false";
    return pawl_step(run, "after", stage_echo, input, PAWL_CALL(.arg = pawl_arg(run)));
}

/* To a message, and to a timer: it is told, and what it gives is in nobody's journal. */
static void a_loser_is_told(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, losing);
    atomic_store(stage_number(s, TOLD), -1);
    served_begin(&v);
    stage_start(s, v.p, "losing", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    STAGE_CODE(s, v.p, pawl_send(v.p, "run", "go", "1", NULL), PAWL_OK);
    STAGE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    TMP_AWAIT(stage_count(s, "slow-told") == 1);
    STAGE_HISTORY(s, v.p, "run", "step-later:slow receive:go message abandon step:after");
    stage_start(s, v.p, "losing", "late", "\"timer\"");
    TMP_AWAIT(number(s, INSIDE) == 1);
    stage_advance(s, PAWL_HOURS(1));
    STAGE_CODE(s, v.p, pawl_wait(v.p, "late", PAWL_FOREVER, NULL), PAWL_OK);
    TMP_AWAIT(stage_count(s, "slow-told") == 2);
    STAGE_HISTORY(s, v.p, "late", "step-later:slow sleep woken abandon step:after");
    served_end(&v);
}

static const char *abandons(pawl_run *run, const char *input)
{
    pawl_future *slow = LATER("slow", stand, "1", .attempts = 3);
    pawl_await(run, pawl_receive_later(run, "go", PAWL_FOREVER));
    pawl_future_cancel(run, slow);
    return pawl_step(run, "after", stage_echo, input, PAWL_CALL(.arg = pawl_arg(run)));
}

/* A workflow that gives a future up by itself: the function that is being called is told. */
static void what_is_abandoned_is_told(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, abandons);
    atomic_store(stage_number(s, TOLD), -1);
    served_begin(&v);
    stage_start(s, v.p, "abandons", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    STAGE_CODE(s, v.p, pawl_send(v.p, "run", "go", "1", NULL), PAWL_OK);
    STAGE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    TMP_AWAIT(stage_count(s, "slow-told") == 1);
    STAGE_HISTORY(s, v.p, "run", "step-later:slow receive:go message abandon step:after");
    served_end(&v);
}

/* Those who wait for a place are not called any more. */
static const char *queued(pawl_run *run, const char *input)
{
    pawl_future *all[8], *some[2];
    for (int i = 0; i < 8; i++)
        all[i] = pawl_call_later(run, "narrow", input, NULL);
    some[0] = pawl_all_later(run, all, 8);
    some[1] = pawl_receive_later(run, "enough", PAWL_FOREVER);
    pawl_any(run, some, 2, 0);
    pawl_await(run, pawl_receive_later(run, "end", PAWL_FOREVER));
    return input;
}

static const char *one_more(pawl_run *run, const char *input)
{
    return pawl_await(run, pawl_call_later(run, "narrow", input, NULL));
}

static int waits_for_its_end(pawl *p)
{
    char *why = NULL;
    int waits = pawl_why(p, "run", &why) == PAWL_OK && strstr(why, "end") && !strstr(why, "narrow");
    pawl_free(why);
    return waits;
}

static void who_waits_for_a_place_is_not_called(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 3));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, queued);
    STAGE_CODE(s, v.p, pawl_register_work(v.p, "narrow", stand, PAWL_WORK(.arg = s, .at_most = 1)),
               PAWL_OK);
    served_begin(&v);
    stage_start(s, v.p, "queued", "run", "0");
    TMP_AWAIT(number(s, INSIDE) == 1);
    STAGE_CODE(s, v.p, pawl_send(v.p, "run", "enough", "1", NULL), PAWL_OK);
    TMP_AWAIT(waits_for_its_end(v.p));
    atomic_store(stage_number(s, LET_GO), 1);
    STAGE_REGISTER(s, v.p, one_more);
    stage_start(s, v.p, "one_more", "other", "0"); /* it stands behind all of them */
    STAGE_CODE(s, v.p, pawl_wait(v.p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(stage_count(s, "narrow") + stage_count(s, "narrow-told"), 2);
    STAGE_CODE(s, v.p, pawl_send(v.p, "run", "end", "1", NULL), PAWL_OK);
    STAGE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    served_end(&v);
}

static void what_is_queued_goes_with_its_run(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 3));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, queued);
    STAGE_CODE(s, v.p, pawl_register_work(v.p, "narrow", stand, PAWL_WORK(.arg = s, .at_most = 1)),
               PAWL_OK);
    served_begin(&v);
    stage_start(s, v.p, "queued", "run", "0");
    TMP_AWAIT(number(s, INSIDE) == 1);
    STAGE_CODE(s, v.p, pawl_cancel(v.p, "run", "enough"), PAWL_OK);
    STAGE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_CANCELLED);
    atomic_store(stage_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    served_stop(&v);
    assert_int_equal(stage_count(s, "narrow") + stage_count(s, "narrow-told"), 1);
    pawl_close(v.p);
    stage_free(s);
}

/* Stays until the other thread stands elsewhere. */
static const char *narrow(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    while (number(s, INSIDE) < pawl_get_int(input, "", 0))
        poll(NULL, 0, 1);
    return input;
}

static const char *wide(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    atomic_store(stage_number(s, INSIDE), pawl_get_int(input, "", 0));
    while (number(s, LET_GO) < pawl_get_int(input, "", 0))
        poll(NULL, 0, 1);
    return input;
}

static const char *changing(pawl_run *run, const char *input)
{
    stage *s = pawl_arg(run);
    for (int64_t i = 1; i <= 20; i++) {
        const char *turn = pawl_json(run, "%" PRId64, i);
        pawl_future *some[] = {pawl_call_later(run, "narrow", turn, NULL),
                               pawl_call_later(run, "narrow", turn, NULL)};
        pawl_future *last = pawl_call_later(run, "narrow", turn, NULL);
        pawl_future *other = pawl_call_later(run, "wide", turn, NULL);
        pawl_any(run, some, 2, 0);
        pawl_await(run, last);
        if (number(s, LET_GO) < i)
            atomic_store(stage_number(s, LET_GO), i);
        pawl_await(run, other);
    }
    return input;
}

/* Who was asked in, and does not come any more, leaves the place to the next. */
static void a_place_is_passed_on(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2, .threads_max = 2));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, changing);
    STAGE_CODE(s, v.p, pawl_register_work(v.p, "narrow", narrow, PAWL_WORK(.arg = s, .at_most = 1)),
               PAWL_OK);
    STAGE_CODE(s, v.p, pawl_register_work(v.p, "wide", wide, PAWL_WORK(.arg = s)), PAWL_OK);
    served_begin(&v);
    stage_start(s, v.p, "changing", "run", "7");
    STAGE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    served_end(&v);
}

/* ---- Dropping and stopping ---- */

static const char *dropped(pawl_run *run, const char *input)
{
    pawl_future *job = LATER("job", stand, input, .attempts = 3);
    const char *message;
    stage_note(pawl_arg(run), "body");
    for (int i = 0; i < 5; i++)
        pawl_receive(run, "box", PAWL_FOREVER, &message);
    stage_note(pawl_arg(run), "received");
    return pawl_await(run, job);
}

/* The fiber goes while the function is being called: it finds its job again. */
static void a_job_outlives_the_fiber(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2, .warm_bytes = 1));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, dropped);
    served_begin(&v);
    stage_start(s, v.p, "dropped", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    for (int i = 0; i < 5; i++)
        STAGE_CODE(s, v.p, pawl_send(v.p, "run", "box", "1", NULL), PAWL_OK);
    TMP_AWAIT(stage_count(s, "received") > 0);
    atomic_store(stage_number(s, LET_GO), 1);
    STAGE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(stage_count(s, "job"), 1);
    served_end(&v);
}

static const char *three(pawl_run *run, const char *input)
{
    pawl_future *some[] = {LATER("a", stand, "1", .attempts = 3),
                           LATER("b", stand, "2", .attempts = 3),
                           LATER("c", stand, "3", .attempts = 3)};
    pawl_all(run, some, 3);
    return input;
}

/* What is under way at a stop is waited for, and what came of it is recorded. */
static void a_stop_waits_for_jobs(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 3, .drain_ms = 60000));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, three);
    served_begin(&v);
    stage_start(s, v.p, "three", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 3);
    served_stop_and_set(&v, LET_GO);
    pawl_close(v.p);
    v.p = stage_open(s, NULL);
    STAGE_REGISTER(s, v.p, three);
    STAGE_DONE(s, v.p, "run", "7");
    assert_int_equal(stage_count(s, "a") + stage_count(s, "a-told"), 1);
    assert_int_equal(stage_count(s, "b") + stage_count(s, "b-told"), 1);
    assert_int_equal(stage_count(s, "c") + stage_count(s, "c-told"), 1);
    pawl_close(v.p);
    stage_free(s);
}

/* And if it takes too long, it is called again: nobody knows what came of it. */
static void a_stop_does_not_wait_for_ever(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 3, .drain_ms = 1));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, three);
    served_begin(&v);
    stage_start(s, v.p, "three", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 3);
    served_stop(&v);
    atomic_store(stage_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    pawl_close(v.p);
    v.p = stage_open(s, NULL);
    STAGE_REGISTER(s, v.p, three);
    STAGE_DONE(s, v.p, "run", "7");
    assert_int_equal(stage_count(s, "a") + stage_count(s, "a-told"), 2);
    pawl_close(v.p);
    stage_free(s);
}

static const char *stepping(pawl_run *run, const char *input)
{
    pawl_future *job = LATER("job", stand, input, .attempts = 3);
    pawl_step(run, "first", stand, input, PAWL_CALL(.arg = pawl_arg(run)));
    pawl_step(run, "second", stage_echo, input, PAWL_CALL(.arg = pawl_arg(run)));
    return pawl_await(run, job);
}

/* The run has news while it is being stopped, and takes them; but nothing is called for it. */
static void a_stop_begins_with_nothing(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2, .threads_max = 2, .drain_ms = 60000));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, stepping);
    served_begin(&v);
    stage_start(s, v.p, "stepping", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 2);
    served_stop_and_set(&v, LET_GO);
    assert_int_equal(stage_count(s, "second"), 0);
    pawl_close(v.p);
    v.p = stage_open(s, NULL);
    STAGE_REGISTER(s, v.p, stepping);
    STAGE_DONE(s, v.p, "run", "7");
    assert_int_equal(stage_count(s, "first") + stage_count(s, "first-told"), 1);
    pawl_close(v.p);
    stage_free(s);
}

static const char *only_once(pawl_run *run, const char *input)
{
    return pawl_await(run, LATER("a", stand, input, .attempts = 1));
}

/* That the process went away is no fault of the attempt, and does not count as one. */
static void a_stop_is_no_failure(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2, .drain_ms = 1));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, only_once);
    served_begin(&v);
    stage_start(s, v.p, "only_once", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    served_stop(&v);
    atomic_store(stage_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    pawl_close(v.p);
    v.p = stage_open(s, NULL);
    STAGE_REGISTER(s, v.p, only_once);
    STAGE_DONE(s, v.p, "run", "7");
    STAGE_HISTORY(s, v.p, "run", "step-later:a done");
    pawl_close(v.p);
    stage_free(s);
}

static const char *misusing(pawl_work *work, const char *input)
{
    pawl_run *run = (pawl_run *)(intptr_t)number(pawl_work_arg(work), TOLD); // NOLINT
    return pawl_sleep(run, 1) == PAWL_MISUSE ? input : "false";
}

static const char *misused(pawl_run *run, const char *input)
{
    atomic_store(stage_number(pawl_arg(run), TOLD), (int64_t)(intptr_t)run);
    const pawl_outcome *o = pawl_try(run, LATER("wrong", misusing, input, .attempts = 3));
    return pawl_json(run, "%s", pawl_outcome_name(o));
}

static void a_job_does_not_call_its_run(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = stage_open(s, NULL);
    STAGE_REGISTER(s, p, misused);
    stage_start(s, p, "misused", "run", "7");
    STAGE_DONE(s, p, "run", "\"misuse\"");
    pawl_close(p);
    stage_free(s);
}

/* ---- Asking again and again ---- */

static const char *look(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    (void)input;
    return atomic_fetch_add(stage_number(s, TOLD), 1) == 3 ? "\"there\"" : "false";
}

static const char *asking(pawl_run *run, const char *input)
{
    pawl_future *some[] = {pawl_until_later(run, "look", look, input, 100, PAWL_FOREVER),
                           pawl_until_later(run, "look", look, input, 1, 0),
                           pawl_sleep_later(run, 1000)};
    if (strcmp(pawl_await(run, some[1]), "null") != 0 || pawl_any(run, some, 3, PAWL_KEEP) != 1)
        return "false";
    pawl_future *two[] = {some[0], some[2]};
    return pawl_any(run, two, 2, 0) == 0 ? pawl_value(some[0]) : "false";
}

static void until_beside_others(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = stage_open(s, NULL);
    STAGE_REGISTER(s, p, asking);
    STAGE_CODE(s, p, pawl_register_work(p, "look", look, PAWL_WORK(.arg = s)), PAWL_OK);
    stage_start(s, p, "asking", "run", "7");
    int64_t began = stage_now(s);
    STAGE_DONE(s, p, "run", "\"there\"");
    assert_int_equal(stage_now(s) - began, 200);
    STAGE_HISTORY(s, p, "run", "until:look until:look sleep done done abandon");
    pawl_close(p);
    stage_free(s);
}

static const conf_case CASES[] = {
    {"dx-futures they run beside each other", they_run_beside_each_other, 0},
    {"places are limited", places_are_limited, 0},
    {"dx-retry attempts are recorded", attempts_are_recorded, DB_DURABLE},
    {"dx-retry what is too late is not begun", what_is_too_late_is_not_begun, 0},
    {"dx-retry an attempt has a limit", an_attempt_has_a_limit, 0},
    {"dx-X5 dx-Y7 dx-Y8 a loser is told", a_loser_is_told, 0},
    {"dx-Y14 what is abandoned is told", what_is_abandoned_is_told, 0},
    {"who waits for a place is not called", who_waits_for_a_place_is_not_called, 0},
    {"dx-Y9 what is queued goes with its run", what_is_queued_goes_with_its_run, 0},
    {"a place is passed on", a_place_is_passed_on, 0},
    {"a job outlives the fiber", a_job_outlives_the_fiber, 0},
    {"a stop waits for jobs", a_stop_waits_for_jobs, DB_DURABLE},
    {"a stop does not wait for ever", a_stop_does_not_wait_for_ever, DB_DURABLE},
    {"a stop begins with nothing", a_stop_begins_with_nothing, DB_DURABLE},
    {"a stop is no failure", a_stop_is_no_failure, DB_DURABLE},
    {"a job does not call its run", a_job_does_not_call_its_run, 0},
    {"until, beside others", until_beside_others, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
