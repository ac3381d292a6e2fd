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

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

static const char *stand(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    int64_t inside = atomic_fetch_add(fixture_number(s, INSIDE), 1) + 1;
    int64_t most = number(s, MOST);
    while (inside > most && !atomic_compare_exchange_weak(fixture_number(s, MOST), &most, inside))
        continue;
    while (!number(s, LET_GO) && !(number(s, TOLD) < 0 && pawl_work_cancelled(work)))
        poll(NULL, 0, 1);
    atomic_fetch_sub(fixture_number(s, INSIDE), 1);
    fixture_note(s, "%s%s", pawl_work_name(work), pawl_work_cancelled(work) ? "-told" : "");
    return input;
}

/* Fails as often as the input says. */
static const char *flaky(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "%s-%lld", pawl_work_name(work), (long long)pawl_work_attempt(work));
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
    FIXTURE_STEP(run, "between", stand, input);
    return pawl_await(run, pawl_all_later(run, three, 3));
}

/* One thread is enough to begin with: for threads that stand in a function others are started. */
static void jobs_run_beside_each_other(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 1, .threads_max = 8));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, beside);
    served_begin(&v);
    fixture_start(s, v.p, "beside", "run", "0");
    TMP_AWAIT(number(s, INSIDE) == 4); /* the step that the function waits for is one of them */
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    for (int i = 0; i < 3; i++)
        assert_int_equal(fixture_count(s, (const char *[]){"a", "b", "c"}[i]), 1);
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

static void at_most_limits_jobs_too(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 6));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, limited);
    fixture_register_limited(s, v.p, "narrow", stand, 2);
    served_begin(&v);
    fixture_start(s, v.p, "limited", "one", "0");
    fixture_start(s, v.p, "limited", "two", "0");
    TMP_AWAIT(number(s, INSIDE) == 2);
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "one", PAWL_FOREVER, NULL), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "two", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(number(s, MOST), 2);
    assert_int_equal(fixture_count(s, "narrow"), 40);
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
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, retrying);
    fixture_register_work(s, p, "flaky", flaky);
    fixture_start(s, p, "retrying", "run", "7");
    int64_t began = fixture_now(s);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "x-1 flaky-1");
    pawl_close(p); /* the pause and the number outlive the engine */
    p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, retrying);
    fixture_register_work(s, p, "flaky", flaky);
    FIXTURE_DONE(s, p, "run", "7");
    FIXTURE_NOTES(s, "x-1 flaky-1 x-2 x-3");
    assert_in_range(fixture_now(s) - began, 30, 30 + 1000);
    FIXTURE_HISTORY(s, p, "run", "step-later:x call:flaky attempt failed attempt done");
    pawl_close(p);
    fixture_free(s);
}

/* The time for all attempts is over when the next one is due: it is not made. */
static const char *overdue(pawl_run *run, const char *input)
{
    const pawl_outcome *o = pawl_try(run, LATER("x", flaky, "9", .attempts = 9, .backoff_ms = 100,
                                                .no_jitter = 1, .overall_ms = 150));
    return pawl_json(run, "[%j,%" PRId64 ",%s]", input, (int64_t)pawl_outcome_code(o),
                     pawl_outcome_name(o));
}

static void a_late_attempt_is_not_begun(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, overdue);
    fixture_start(s, p, "overdue", "run", "7");
    fixture_poll(s, p);
    fixture_advance(s, 1000); /* no engine was there in time */
    char wanted[64];
    snprintf(wanted, sizeof wanted, "[7,%d,\"timeout\"]", (int)PAWL_TIMEOUT);
    FIXTURE_DONE(s, p, "run", wanted);
    FIXTURE_NOTES(s, "x-1");
    pawl_close(p);
    fixture_free(s);
}

/* So long that the clock gets there only when the test moves it. */
enum { LIMIT_MS = 3600000 };

static const char *hurried(pawl_run *run, const char *input)
{
    const pawl_outcome *o =
        pawl_try(run, LATER("x", stand, "9", .attempts = 1, .attempt_ms = LIMIT_MS));
    fixture_note(pawl_arg(run), "went-on");
    return pawl_json(run, "[%j,%" PRId64 "]", input, (int64_t)pawl_outcome_code(o));
}

/* The run goes on; what the function gives later is dropped. */
static void an_attempt_has_a_limit(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    engine_fixture *s = v.fixture;
    pawl_outcome *o = NULL;
    FIXTURE_REGISTER(s, v.p, hurried);
    served_begin(&v);
    fixture_start(s, v.p, "hurried", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    fixture_advance(s, LIMIT_MS);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, &o), PAWL_OK);
    assert_int_equal(pawl_get_int(pawl_outcome_value(o), "/1", 0), PAWL_TIMEOUT);
    pawl_outcome_free(o);
    assert_int_equal(number(s, INSIDE), 1); /* it is still in it */
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    FIXTURE_HISTORY(s, v.p, "run", "step-later:x failed");
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
    return FIXTURE_ECHO(run, "after", input);
}

/* Start a run that waits for a slow function and for a message, and send the message. The function
 * that is being called is told, and the journal says that its future was cancelled. */
static void expect_cancelled_by_message(served_fixture *v, const char *workflow)
{
    engine_fixture *s = v->fixture;
    atomic_store(fixture_number(s, TOLD), -1);
    served_begin(v);
    fixture_start(s, v->p, workflow, "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    FIXTURE_CODE(s, v->p, pawl_send(v->p, "run", "go", "1", NULL), PAWL_OK);
    FIXTURE_CODE(s, v->p, pawl_wait(v->p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    TMP_AWAIT(fixture_count(s, "slow-told") == 1);
    FIXTURE_HISTORY(s, v->p, "run", "step-later:slow receive:go message future-cancel step:after");
}

/* To a message, and to a timer: the function is told, and what it gives is in no journal. */
static void work_of_a_loser_is_asked_to_stop(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, losing);
    expect_cancelled_by_message(&v, "losing");
    fixture_start(s, v.p, "losing", "late", "\"timer\"");
    TMP_AWAIT(number(s, INSIDE) == 1);
    fixture_advance(s, PAWL_HOURS(1));
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "late", PAWL_FOREVER, NULL), PAWL_OK);
    TMP_AWAIT(fixture_count(s, "slow-told") == 2);
    FIXTURE_HISTORY(s, v.p, "late", "step-later:slow sleep woken future-cancel step:after");
    served_end(&v);
}

static const char *cancels(pawl_run *run, const char *input)
{
    pawl_future *slow = LATER("slow", stand, "1", .attempts = 3);
    pawl_await(run, pawl_receive_later(run, "go", PAWL_FOREVER));
    pawl_future_cancel(run, slow);
    return FIXTURE_ECHO(run, "after", input);
}

/* A workflow that gives a future up by itself: the function that is being called is told. */
static void a_cancelled_job_is_asked_to_stop(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, cancels);
    expect_cancelled_by_message(&v, "cancels");
    served_end(&v);
}

/* Calls that wait for a slot are not made any more. */
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

/* An engine that executes the first of eight calls, while the other seven wait for its slot. */
static served_fixture serve_queued(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 3));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, queued);
    fixture_register_limited(s, v.p, "narrow", stand, 1);
    served_begin(&v);
    fixture_start(s, v.p, "queued", "run", "0");
    TMP_AWAIT(number(s, INSIDE) == 1);
    return v;
}

static void a_call_that_waits_for_a_slot_is_not_made(conf *c)
{
    served_fixture v = serve_queued(c);
    engine_fixture *s = v.fixture;
    FIXTURE_CODE(s, v.p, pawl_send(v.p, "run", "enough", "1", NULL), PAWL_OK);
    TMP_AWAIT(waits_for_its_end(v.p));
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_REGISTER(s, v.p, one_more);
    fixture_start(s, v.p, "one_more", "other", "0"); /* it stands behind all of them */
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(fixture_count(s, "narrow") + fixture_count(s, "narrow-told"), 2);
    FIXTURE_CODE(s, v.p, pawl_send(v.p, "run", "end", "1", NULL), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    served_end(&v);
}

static void queued_jobs_go_with_their_run(conf *c)
{
    served_fixture v = serve_queued(c);
    engine_fixture *s = v.fixture;
    FIXTURE_CODE(s, v.p, pawl_cancel(v.p, "run", "enough"), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_CANCELLED);
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    served_stop(&v);
    assert_int_equal(fixture_count(s, "narrow") + fixture_count(s, "narrow-told"), 1);
    pawl_close(v.p);
    fixture_free(s);
}

/* Stays until the other thread stands elsewhere. */
static const char *narrow(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    while (number(s, INSIDE) < pawl_get_int(input, "", 0))
        poll(NULL, 0, 1);
    return input;
}

static const char *wide(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    atomic_store(fixture_number(s, INSIDE), pawl_get_int(input, "", 0));
    while (number(s, LET_GO) < pawl_get_int(input, "", 0))
        poll(NULL, 0, 1);
    return input;
}

static const char *changing(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    for (int64_t i = 1; i <= 20; i++) {
        const char *turn = pawl_json(run, "%" PRId64, i);
        pawl_future *some[] = {pawl_call_later(run, "narrow", turn, NULL),
                               pawl_call_later(run, "narrow", turn, NULL)};
        pawl_future *last = pawl_call_later(run, "narrow", turn, NULL);
        pawl_future *other = pawl_call_later(run, "wide", turn, NULL);
        pawl_any(run, some, 2, 0);
        pawl_await(run, last);
        if (number(s, LET_GO) < i)
            atomic_store(fixture_number(s, LET_GO), i);
        pawl_await(run, other);
    }
    return input;
}

/* A call that has a reserved slot, and is not made any more, leaves the slot to the next. */
static void a_free_slot_goes_to_the_next_job(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2, .threads_max = 2));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, changing);
    fixture_register_limited(s, v.p, "narrow", narrow, 1);
    fixture_register_work(s, v.p, "wide", wide);
    served_begin(&v);
    fixture_start(s, v.p, "changing", "run", "7");
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    served_end(&v);
}

/* ---- Dropping and stopping ---- */

static const char *dropped(pawl_run *run, const char *input)
{
    pawl_future *job = LATER("job", stand, input, .attempts = 3);
    const char *message;
    fixture_note(pawl_arg(run), "body");
    for (int i = 0; i < 5; i++)
        pawl_receive(run, "box", PAWL_FOREVER, &message);
    fixture_note(pawl_arg(run), "received");
    return pawl_await(run, job);
}

/* The fiber goes while the function is being called: it finds its job again. */
static void a_job_outlives_the_fiber(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2, .warm_bytes = 1));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, dropped);
    served_begin(&v);
    fixture_start(s, v.p, "dropped", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    for (int i = 0; i < 5; i++)
        FIXTURE_CODE(s, v.p, pawl_send(v.p, "run", "box", "1", NULL), PAWL_OK);
    TMP_AWAIT(fixture_count(s, "received") > 0);
    atomic_store(fixture_number(s, LET_GO), 1);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(fixture_count(s, "job"), 1);
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
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 3, .drain_ms = 60000));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, three);
    served_begin(&v);
    fixture_start(s, v.p, "three", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 3);
    served_stop_and_set(&v, LET_GO);
    pawl_close(v.p);
    v.p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, v.p, three);
    FIXTURE_DONE(s, v.p, "run", "7");
    assert_int_equal(fixture_count(s, "a") + fixture_count(s, "a-told"), 1);
    assert_int_equal(fixture_count(s, "b") + fixture_count(s, "b-told"), 1);
    assert_int_equal(fixture_count(s, "c") + fixture_count(s, "c-told"), 1);
    pawl_close(v.p);
    fixture_free(s);
}

/* And if it takes too long, it is called again: its result is unknown. */
static void a_stop_does_not_wait_for_ever(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 3, .drain_ms = 1));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, three);
    served_begin(&v);
    fixture_start(s, v.p, "three", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 3);
    served_stop(&v);
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    pawl_close(v.p);
    v.p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, v.p, three);
    FIXTURE_DONE(s, v.p, "run", "7");
    assert_int_equal(fixture_count(s, "a") + fixture_count(s, "a-told"), 2);
    pawl_close(v.p);
    fixture_free(s);
}

static const char *stepping(pawl_run *run, const char *input)
{
    pawl_future *job = LATER("job", stand, input, .attempts = 3);
    FIXTURE_STEP(run, "first", stand, input);
    FIXTURE_ECHO(run, "second", input);
    return pawl_await(run, job);
}

/* The run has news while it is being stopped, and takes them; but nothing is called for it. */
static void a_stop_begins_with_nothing(conf *c)
{
    served_fixture v =
        served_open(c, PAWL_OPTIONS(.threads = 2, .threads_max = 2, .drain_ms = 60000));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, stepping);
    served_begin(&v);
    fixture_start(s, v.p, "stepping", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 2);
    served_stop_and_set(&v, LET_GO);
    assert_int_equal(fixture_count(s, "second"), 0);
    pawl_close(v.p);
    v.p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, v.p, stepping);
    FIXTURE_DONE(s, v.p, "run", "7");
    assert_int_equal(fixture_count(s, "first") + fixture_count(s, "first-told"), 1);
    pawl_close(v.p);
    fixture_free(s);
}

static const char *only_once(pawl_run *run, const char *input)
{
    return pawl_await(run, LATER("a", stand, input, .attempts = 1));
}

/* That the process went away is no fault of the attempt, and does not count as one. */
static void a_stop_is_no_failure(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2, .drain_ms = 1));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, only_once);
    served_begin(&v);
    fixture_start(s, v.p, "only_once", "run", "7");
    TMP_AWAIT(number(s, INSIDE) == 1);
    served_stop(&v);
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, INSIDE) == 0);
    pawl_close(v.p);
    v.p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, v.p, only_once);
    FIXTURE_DONE(s, v.p, "run", "7");
    FIXTURE_HISTORY(s, v.p, "run", "step-later:a done");
    pawl_close(v.p);
    fixture_free(s);
}

static const char *misusing(pawl_work *work, const char *input)
{
    pawl_run *run = (pawl_run *)(intptr_t)number(pawl_work_arg(work), TOLD); // NOLINT
    return pawl_sleep(run, 1) == PAWL_MISUSE ? input : "false";
}

static const char *misused(pawl_run *run, const char *input)
{
    atomic_store(fixture_number(pawl_arg(run), TOLD), (int64_t)(intptr_t)run);
    const pawl_outcome *o = pawl_try(run, LATER("wrong", misusing, input, .attempts = 3));
    return pawl_json(run, "%s", pawl_outcome_name(o));
}

static void a_job_does_not_call_its_run(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, misused);
    fixture_start(s, p, "misused", "run", "7");
    FIXTURE_DONE(s, p, "run", "\"misuse\"");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Asking again and again ---- */

static const char *look(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    (void)input;
    return atomic_fetch_add(fixture_number(s, TOLD), 1) == 3 ? "\"there\"" : "false";
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
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, asking);
    fixture_register_work(s, p, "look", look);
    fixture_start(s, p, "asking", "run", "7");
    int64_t began = fixture_now(s);
    FIXTURE_DONE(s, p, "run", "\"there\"");
    assert_int_equal(fixture_now(s) - began, 200);
    FIXTURE_HISTORY(s, p, "run", "until:look until:look sleep done done future-cancel");
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-futures jobs run beside each other", jobs_run_beside_each_other, 0},
    {"at_most limits jobs too", at_most_limits_jobs_too, 0},
    {"dx-retry attempts are recorded", attempts_are_recorded, DB_DURABLE},
    {"dx-retry a late attempt is not begun", a_late_attempt_is_not_begun, 0},
    {"dx-retry an attempt has a limit", an_attempt_has_a_limit, 0},
    {"dx-X5 dx-Y7 dx-Y8 work of a loser is asked to stop", work_of_a_loser_is_asked_to_stop, 0},
    {"dx-Y14 a cancelled job is asked to stop", a_cancelled_job_is_asked_to_stop, 0},
    {"a call that waits for a slot is not made", a_call_that_waits_for_a_slot_is_not_made, 0},
    {"dx-Y9 queued jobs go with their run", queued_jobs_go_with_their_run, 0},
    {"a free slot goes to the next job", a_free_slot_goes_to_the_next_job, 0},
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
