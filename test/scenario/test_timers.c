/* Timers and polling (pawl_until): not before the moment, once, in order, whatever the clocks and
 * the engines do meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

/* Sleeps for its input, then notes that. */
static const char *sleeping(pawl_run *run, const char *input)
{
    pawl_sleep(run, pawl_get_int(input, "", -1));
    return FIXTURE_ECHO(run, "wake", input);
}

static pawl *open_on(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, sleeping);
    return p;
}

/* ---- One ---- */

static void not_before_and_then_at_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    int64_t began = fixture_now(s);
    fixture_start(s, p, "sleeping", "run", "86400000");
    fixture_poll(s, p);
    assert_int_equal(fixture_wake_at(s, p, "run"), began + PAWL_DAYS(1));
    assert_in_range(pawl_timeout(p), 1, 1000);
    fixture_advance(s, PAWL_DAYS(1) - 1);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    assert_int_equal(pawl_timeout(p), 1);
    fixture_advance(s, 1);
    if (!fixture_serves()) /* threads do not wait for the next poll */
        assert_int_equal(pawl_timeout(p), 0);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_DONE);
    FIXTURE_HISTORY(s, p, "run", "sleep woken step:wake");
    FIXTURE_NOTES(s, "wake");
    assert_int_equal(fixture_wake_at(s, p, "run"), 0);
    pawl_close(p);
    fixture_free(s);
}

static const char *not_sleeping(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_sleep(run, 0);
    pawl_sleep_until(run, fixture_now(s));
    pawl_sleep_until(run, fixture_now(s) - 1);
    pawl_sleep_until(run, 0);
    pawl_sleep_until(run, -1);
    pawl_sleep_until(run, INT64_MIN);
    return input;
}

static void what_is_past_does_not_wait(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    FIXTURE_REGISTER(s, p, not_sleeping);
    fixture_start(s, p, "not_sleeping", "run", "1");
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_DONE);
    FIXTURE_HISTORY(s, p, "run",
                    "sleep woken sleep woken sleep woken sleep woken sleep woken sleep woken");
    pawl_close(p);
    fixture_free(s);
}

static const char *until_the_end(pawl_run *run, const char *input)
{
    if (pawl_get_int(input, "", 0) == 1)
        pawl_sleep(run, INT64_MAX);
    pawl_sleep_until(run, INT64_MAX);
    return input;
}

/* Sums beyond the end of time are its end: the run never wakes, and nothing breaks. */
static void the_end_of_time_does_not_come(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    FIXTURE_REGISTER(s, p, until_the_end);
    fixture_start(s, p, "until_the_end", "one", "1");
    fixture_start(s, p, "until_the_end", "two", "2");
    fixture_start(s, p, "sleeping", "three", "9223372036854775807");
    fixture_poll(s, p);
    fixture_advance(s, PAWL_DAYS(20000));
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "one"), PAWL_RUN_LIVE);
    assert_int_equal(fixture_phase(s, p, "two"), PAWL_RUN_LIVE);
    assert_int_equal(fixture_phase(s, p, "three"), PAWL_RUN_LIVE);
    FIXTURE_NOTES(s, "");
    pawl_close(p);
    fixture_free(s);
}

static void a_negative_sleep_is_a_mistake(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    fixture_start(s, p, "sleeping", "one", "-1");
    fixture_start(s, p, "sleeping", "two", "-9223372036854775808");
    FIXTURE_HELD(s, p, "one", "negative");
    FIXTURE_HELD(s, p, "two", "negative");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Several ---- */

/* Notes how long it has been there. */
static void note_age(pawl_run *run, int64_t began)
{
    char name[24];
    snprintf(name, sizeof name, "%lld", (long long)(pawl_now(run) - began));
    FIXTURE_ECHO(run, name, "1");
}

static const char *chained(pawl_run *run, const char *input)
{
    int64_t began = pawl_now(run);
    for (int i = 0; i < 3; i++) {
        pawl_sleep(run, 20);
        note_age(run, began);
    }
    pawl_sleep_until(run, began + 100);
    note_age(run, began);
    return input;
}

/* Equal sleeps one after the other are different ones. */
static void one_after_the_other(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, chained);
    fixture_start(s, p, "chained", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "20 40 60 100");
    pawl_close(p);
    fixture_free(s);
}

enum { MANY = 120 };

static const char *noting(pawl_run *run, const char *input)
{
    pawl_sleep(run, pawl_get_int(input, "", -1));
    fixture_note(pawl_arg(run), "%s", input);
    return input;
}

/* Started in any order, woken in theirs. */
static void many_in_their_order(conf *c)
{
    FIXTURE_BY_HAND();
    char wanted[MANY * 8] = "";
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, noting);
    for (int i = 0; i < MANY; i++) {
        char id[32], input[32];
        int ms = 1000 + (i * 47) % MANY; /* each once */
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", ms);
        fixture_start(s, p, "noting", id, input);
        snprintf(wanted + strlen(wanted), sizeof wanted - strlen(wanted), "%s%d", i ? " " : "",
                 1000 + i);
    }
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "");
    fixture_advance(s, 5000); /* all are late, and in order nevertheless */
    fixture_poll(s, p);
    FIXTURE_NOTES(s, wanted);
    pawl_close(p);
    fixture_free(s);
}

static void many_at_the_same_moment(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, noting);
    for (int i = 0; i < MANY; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, p, "noting", id, "5000");
    }
    fixture_poll(s, p);
    fixture_advance(s, 4999);
    fixture_poll(s, p);
    assert_int_equal(fixture_count(s, "5000"), 0);
    fixture_advance(s, 1);
    fixture_poll(s, p);
    assert_int_equal(fixture_count(s, "5000"), MANY);
    pawl_close(p);
    fixture_free(s);
}

/* ---- While no engine is there ---- */

/* The moment passes before another engine comes, or after: it fires once, not before. */
static void a_timer_outlives_the_engine(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    fixture_start(s, p, "sleeping", "passes", "5000");
    fixture_start(s, p, "sleeping", "comes", "9000");
    fixture_poll(s, p);
    pawl_close(p);
    fixture_advance(s, 7000);
    p = open_on(s);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "passes"), PAWL_RUN_DONE);
    assert_int_equal(fixture_phase(s, p, "comes"), PAWL_RUN_LIVE);
    fixture_advance(s, 1999);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "wake");
    FIXTURE_DONE(s, p, "comes", "9000");
    FIXTURE_HISTORY(s, p, "passes", "sleep woken step:wake");
    FIXTURE_HISTORY(s, p, "comes", "sleep woken step:wake");
    FIXTURE_NOTES(s, "wake wake");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Clocks that jump ---- */

static const char *napping(pawl_run *run, const char *input)
{
    pawl_sleep_until(run, pawl_get_int(input, "", 0));
    return input;
}

/* Longer than what the test moves the clock by after it has set the date forward. */
enum { NAP_MS = 5000 };

static const char *watching(pawl_run *run, const char *input)
{
    int64_t last = pawl_now(run);
    for (int i = 0; i < 4; i++) {
        pawl_sleep(run, NAP_MS);
        int64_t now = pawl_now(run);
        if (now < last + NAP_MS)
            return pawl_fail(run, "early", "%lld after %lld", (long long)now, (long long)last);
        last = now;
    }
    return input;
}

/* Set back: the run sleeps until the date is there. Set forward: the process in which the sleep
 * began takes its time; for another process the date is there. In no case does a run see the time
 * go back, or a sleep that was too short. */
static void the_date_counts(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, watching);
    fixture_start(s, p, "watching", "run", "1");
    fixture_poll(s, p);
    fixture_set_clock(s, fixture_now(s) - 3000);
    fixture_advance(s, 1000);
    fixture_poll(s, p);
    FIXTURE_HISTORY(s, p, "run", "now sleep");
    fixture_advance(s, NAP_MS + 2000);
    fixture_poll(s, p);
    FIXTURE_HISTORY(s, p, "run", "now sleep woken now sleep");
    fixture_set_clock(s, fixture_now(s) + 10000);
    fixture_advance(s, 1000); /* where there is a server it is asked once a second */
    fixture_poll(s, p);
    if (FIXTURE_WARM) {
        FIXTURE_HISTORY(s, p, "run", "now sleep woken now sleep");
        fixture_advance(s, NAP_MS);
        fixture_poll(s, p);
    } /* otherwise the run is replayed, and goes by the date as in another process */
    FIXTURE_HISTORY(s, p, "run", "now sleep woken now sleep woken now sleep");
    pawl_close(p);
    fixture_set_clock(s, fixture_now(s) + 10000);
    p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, watching);
    fixture_poll(s, p);
    FIXTURE_HISTORY(s, p, "run", "now sleep woken now sleep woken now sleep woken now sleep");
    fixture_set_clock(s, fixture_now(s) - 10000);
    FIXTURE_DONE(s, p, "run", "1");
    pawl_close(p);
    fixture_free(s);
}

/* Threads that wait for a moment notice that the date was set past it. */
static void the_date_counts_for_threads(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pthread_t server;
    fixture_run_clock(s);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 2));
    FIXTURE_REGISTER(s, p, napping);
    char input[32];
    snprintf(input, sizeof input, "%lld", (long long)(fixture_now(s) + PAWL_HOURS(1)));
    fixture_start(s, p, "napping", "run", input);
    assert_int_equal(pthread_create(&server, NULL, fixture_serve, p), 0);
    TMP_AWAIT(fixture_wake_at(s, p, "run") > fixture_now(s));
    fixture_set_clock(s, fixture_now(s) + PAWL_HOURS(1));
    FIXTURE_CODE(s, p, pawl_wait(p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    pawl_stop(p);
    assert_int_equal(pthread_join(server, NULL), 0);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Until ---- */

/* What is asked: true at the n-th time; the input says when, and how it fails before. */
static const char *look(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    int64_t n = atomic_fetch_add(fixture_number(s, 1), 1) + 1;
    fixture_note(s, "%lld", (long long)(fixture_now(s) - atomic_load(fixture_number(s, 0))));
    if (n >= pawl_get_int(input, "/at", INT64_MAX))
        return pawl_work_part(work, input, "/gives");
    if (pawl_get_bool(input, "/permanent", 0))
        return pawl_work_fail(work, PAWL_PERMANENT, "gone", "nothing to look at");
    if (n % 2)
        return pawl_work_fail(work, PAWL_TRANSIENT, "flaky", "look again");
    return n % 4 ? "null" : "false";
}

static const char *looking(pawl_run *run, const char *input)
{
    return pawl_until(run, "look", look, input, pawl_get_int(input, "/every", 100),
                      pawl_get_int(input, "/timeout", PAWL_FOREVER));
}

typedef struct until_case {
    const char *input;
    const char *value; /* NULL: it fails */
    const char *notes;
} until_case;

static void asked_until_it_says_something(conf *c)
{
    static const until_case CASES[] = {
        {"{\"at\":1,\"gives\":7}", "7", "0"},
        {"{\"at\":4,\"gives\":{\"a\":1}}", "{\"a\":1}", "0 100 200 300"},
        {"{\"at\":2,\"gives\":0}", "0", "0 100"},
        {"{\"at\":2,\"gives\":\"\"}", "\"\"", "0 100"},
        {"{\"timeout\":250}", "null", "0 100 200 250"},
        {"{\"timeout\":200}", "null", "0 100 200"},
        {"{\"timeout\":0}", "null", "0"},
        {"{\"at\":3,\"gives\":1,\"timeout\":200}", "1", "0 100 200"},
        {"{\"permanent\":true}", NULL, "0"},
        {"{\"at\":2,\"gives\":1,\"every\":9223372036854775807,\"timeout\":50}", "1", "0 50"},
    };
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    fixture_register_work(s, p, "look", look);
    FIXTURE_REGISTER(s, p, looking);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%zu", i);
        fixture_clear_notes(s);
        atomic_store(fixture_number(s, 0), fixture_now(s));
        atomic_store(fixture_number(s, 1), 0);
        fixture_start(s, p, "looking", id, CASES[i].input);
        if (CASES[i].value)
            fixture_done(s, p, id, CASES[i].value, (int)i);
        else
            fixture_failed(s, p, id, "gone", "nothing to look at", (int)i);
        fixture_notes(s, CASES[i].notes, (int)i);
        FIXTURE_HISTORY(s, p, id, CASES[i].value ? "until:look done" : "until:look failed");
    }
    pawl_close(p);
    fixture_free(s);
}

static void wrong_pauses_are_mistakes(conf *c)
{
    static const char *const INPUTS[] = {"{\"every\":0}", "{\"every\":-1}", "{\"timeout\":-1}"};
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, looking);
    for (size_t i = 0; i < sizeof INPUTS / sizeof *INPUTS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%zu", i);
        fixture_start(s, p, "looking", id, INPUTS[i]);
        FIXTURE_HELD(s, p, id, "pawl_until");
    }
    pawl_close(p);
    fixture_free(s);
}

static pawl *open_looking(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    fixture_register_work(s, p, "look", look);
    FIXTURE_REGISTER(s, p, looking);
    return p;
}

/* The end of the asking stays where it was; what was said once is not asked for again. */
static void asking_outlives_the_engine(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_looking(s);
    atomic_store(fixture_number(s, 0), fixture_now(s));
    fixture_start(s, p, "looking", "run", "{\"timeout\":1000,\"every\":600}");
    fixture_poll(s, p);
    pawl_close(p);
    fixture_advance(s, 900);
    p = open_looking(s);
    FIXTURE_DONE(s, p, "run", "null");
    FIXTURE_NOTES(s, "0 900 1000");
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-timers ys-Y46 not before, and then at once", not_before_and_then_at_once, 0},
    {"dx-timers what is past does not wait", what_is_past_does_not_wait, 0},
    {"the end of time does not come", the_end_of_time_does_not_come, 0},
    {"a negative sleep is a mistake", a_negative_sleep_is_a_mistake, 0},
    {"dx-timers ys-Y51 one after the other", one_after_the_other, 0},
    {"dx-timers many in their order", many_in_their_order, 0},
    {"many at the same moment", many_at_the_same_moment, 0},
    {"dx-timers a timer outlives the engine", a_timer_outlives_the_engine, DB_DURABLE},
    {"the date counts", the_date_counts, DB_DURABLE},
    {"the date counts for threads", the_date_counts_for_threads, 0},
    {"ys-Y49 asked until it says something", asked_until_it_says_something, 0},
    {"wrong pauses are mistakes", wrong_pauses_are_mistakes, 0},
    {"asking outlives the engine", asking_outlives_the_engine, DB_DURABLE},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
