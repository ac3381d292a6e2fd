/* What a run says about itself: the custom status and attributes; and that a long journal is
 * logged. Each is written once, whatever is replayed, and not before it is durable. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/engine_fixture.h"

static pawl *open_with(engine_fixture *s, pawl_workflow_fn *fn, const char *input)
{
    pawl *p = fixture_open(s, NULL);
    fixture_register(s, p, "w", fn);
    fixture_start(s, p, "w", "run", input);
    return p;
}

static pawl_info *info_of(engine_fixture *s, pawl *p, const char *id)
{
    pawl_info *info = NULL;
    FIXTURE_CODE(s, p, pawl_inspect(p, id, &info), PAWL_OK);
    return info;
}

static void expect_status(engine_fixture *s, pawl *p, const char *status, int64_t seq, int line)
{
    pawl_info *info = info_of(s, p, "run");
    if (strcmp(pawl_info_status(info), status) != 0 || pawl_info_status_seq(info) != seq)
        fail_msg("line %d: expected %s (%lld), got %s (%lld)", line, status, (long long)seq,
                 pawl_info_status(info), (long long)pawl_info_status_seq(info));
    pawl_info_free(info);
}

#define EXPECT_STATUS(status, seq) expect_status(s, p, (status), (seq), __LINE__)

/* ---- Status ---- */

static const char *tells(pawl_run *run, const char *input)
{
    pawl_set_status(run, "\"began\""); /* with the flush before a step */
    FIXTURE_ECHO(run, "a", "1");
    pawl_set_status(run, "1");
    pawl_set_status(run, "2");
    pawl_set_status(run, "{\"sleeps\":true}"); /* with the park; of several the last */
    pawl_sleep(run, 1000);
    pawl_set_status(run, "null");
    pawl_sleep(run, 1000);
    pawl_set_status(run, "\"ended\""); /* with the end */
    return input;
}

static void a_status_is_seen_when_it_is_durable(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, tells, "7");
    EXPECT_STATUS("null", 0);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "a");
    EXPECT_STATUS("{\"sleeps\":true}", 4);
    fixture_advance(s, 1000);
    fixture_poll(s, p);
    EXPECT_STATUS("null", 5);
    FIXTURE_DONE(s, p, "run", "7");
    EXPECT_STATUS("\"ended\"", 6);
    FIXTURE_HISTORY(s, p, "run",
                    "status step:a status status status sleep woken status sleep woken status");
    pawl_close(p);
    fixture_free(s);
}

/* An observer looks while the step runs: what was said before it is there. */
typedef struct watcher {
    engine_fixture *fixture;
    pawl *p;
    char seen[64];
} watcher;

static const char *look(pawl_work *work, const char *input)
{
    watcher *w = pawl_work_arg(work);
    pawl_info *info = info_of(w->fixture, w->p, "run");
    snprintf(w->seen, sizeof w->seen, "%s", pawl_info_status(info));
    pawl_info_free(info);
    return input;
}

static const char *is_watched(pawl_run *run, const char *input)
{
    pawl_set_status(run, "\"charging\"");
    return FIXTURE_STEP(run, "charge", look, input);
}

static void a_status_is_there_before_the_next_step(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    watcher w = {s, p, ""};
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "w", is_watched, PAWL_WORKFLOW(.arg = &w)),
                 PAWL_OK);
    fixture_start(s, p, "w", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    assert_string_equal(w.seen, "\"charging\"");
    pawl_close(p);
    fixture_free(s);
}

/* A status that is set between a step in which the run is held and the next one, at which it is
 * given back, is written. */
static const char *hold_it(pawl_work *work, const char *input)
{
    watcher *w = pawl_work_arg(work);
    FIXTURE_CODE(w->fixture, w->p, pawl_hold(w->p, "run", "for a while"), PAWL_OK);
    return input;
}

static const char *is_held(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "first", hold_it, input);
    pawl_set_status(run, "\"half\"");
    return FIXTURE_STEP(run, "second", look, input);
}

static void a_status_survives_a_hold(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    watcher w = {s, p, ""};
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "w", is_held, PAWL_WORKFLOW(.arg = &w)), PAWL_OK);
    fixture_start(s, p, "w", "run", "1");
    FIXTURE_HELD(s, p, "run", "for a while");
    EXPECT_STATUS("\"half\"", 1);
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    assert_string_equal(w.seen, "\"half\"");
    pawl_close(p);
    fixture_free(s);
}

/* A replay says nothing again. */
static void a_replay_does_not_say_it_again(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, tells, "7");
    fixture_poll(s, p);
    pawl_close(p);
    p = fixture_open(s, NULL);
    fixture_register(s, p, "w", tells);
    fixture_poll(s, p);
    EXPECT_STATUS("{\"sleeps\":true}", 4);
    FIXTURE_DONE(s, p, "run", "7");
    EXPECT_STATUS("\"ended\"", 6);
    pawl_close(p);
    fixture_free(s);
}

static const char *says_input(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_set_status(run, input);
    return "0";
}

static void a_status_has_a_limit(conf *c)
{
    static char text[PAWL_MAX_STATUS + 8];
    engine_fixture *s = fixture_new(c);
    memset(text, 0, sizeof text);
    memset(text, 'x', PAWL_MAX_STATUS);
    text[0] = text[PAWL_MAX_STATUS - 1] = '"';
    pawl *p = open_with(s, says_input, text);
    FIXTURE_DONE(s, p, "run", "0");
    EXPECT_STATUS(text, 1);
    text[PAWL_MAX_STATUS - 1] = 'x';
    text[PAWL_MAX_STATUS] = '"';
    fixture_start(s, p, "w", "large", text);
    FIXTURE_HELD(s, p, "large", "longer than 1024 bytes");
    FIXTURE_HISTORY(s, p, "large", "step:a");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Every phase ---- */

static const char *no_luck(pawl_work *work, const char *input)
{
    return pawl_work_fail(work, PAWL_PERMANENT, "declined", "of %s", input);
}

/* Ends in the phase that its input asks for; what it said before stays. */
static const char *each_way(pawl_run *run, const char *input)
{
    int64_t way = pawl_get_int(input, "", 0);
    pawl_set_status(run, input);
    FIXTURE_ECHO(run, "a", "1");
    if (way == PAWL_RUN_LIVE)
        pawl_sleep(run, PAWL_DAYS(1));
    if (way == PAWL_RUN_FAILED)
        pawl_step(run, "fails", no_luck, input, NULL);
    if (way == PAWL_RUN_HELD)
        pawl_sleep(run, -1);
    return input;
}

static void expect_phase(engine_fixture *s, pawl *p, pawl_phase phase)
{
    pawl_info *info = info_of(s, p, pawl_phase_name(phase));
    int ended = phase == PAWL_RUN_DONE || phase == PAWL_RUN_FAILED;
    assert_int_equal(pawl_info_phase(info), phase);
    assert_int_equal(pawl_get_int(pawl_info_status(info), "", -1), phase);
    assert_int_equal(pawl_info_finished_ms(info) > 0, ended);
    assert_int_equal(pawl_info_held(info)[0] != 0, phase == PAWL_RUN_HELD);
    assert_int_equal(pawl_info_wake_ms(info) > 0, phase == PAWL_RUN_LIVE);
    pawl_info_free(info);
}

/* Side by side: each run has its own, and it is the same for an engine that only looks. */
static void each_run_has_its_own_phase(conf *c)
{
    static const pawl_phase PHASES[] = {PAWL_RUN_LIVE, PAWL_RUN_DONE, PAWL_RUN_FAILED,
                                        PAWL_RUN_HELD};
    enum { COUNT = sizeof PHASES / sizeof *PHASES };
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    fixture_register(s, p, "w", each_way);
    for (int i = 0; i < COUNT; i++) {
        char input[8];
        snprintf(input, sizeof input, "%d", (int)PHASES[i]);
        fixture_start(s, p, "w", pawl_phase_name(PHASES[i]), input);
    }
    fixture_poll(s, p);
    for (int i = 0; i < COUNT; i++)
        expect_phase(s, p, PHASES[i]);
    FIXTURE_CODE(s, p, pawl_inspect(p, "nobody", &(pawl_info *){NULL}), PAWL_NOTFOUND);
    if (c->promises & DB_DURABLE) {
        pawl_close(p);
        p = fixture_open(s, NULL);
        for (int i = 0; i < COUNT; i++)
            expect_phase(s, p, PHASES[i]);
    }
    pawl_close(p);
    fixture_free(s);
}

/* ---- The starter of a run ---- */

static void expect_by(engine_fixture *s, pawl *p, const char *id, const char *by)
{
    fixture_start(s, p, "w", id, "1");
    pawl_info *info = info_of(s, p, id);
    assert_string_equal(pawl_info_by(info), by);
    pawl_info_free(info);
}

/* As the engine is named; without a name, the host and the process. */
static void the_starter_of_a_run(conf *c)
{
    char host[128] = "", name[160];
    engine_fixture *s = fixture_new(c);
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    snprintf(name, sizeof name, "%s:%d", host, (int)getpid());
    pawl *p = fixture_open(s, NULL);
    expect_by(s, p, "one", name);
    pawl_close(p);
    p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .name = "clerk"));
    expect_by(s, p, "two", "clerk");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Waiting for it ---- */

static void waiting_for_a_status(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, tells, "7");
    pawl_info *info = NULL;
    FIXTURE_CODE(s, p, pawl_wait_status(p, "run", 0, 0, &info), PAWL_TIMEOUT);
    assert_null(info);
    FIXTURE_CODE(s, p, pawl_wait_status(p, "nobody", 0, 0, &info), PAWL_NOTFOUND);
    FIXTURE_CODE(s, p, pawl_wait_status(p, "run", 0, -1, &info), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_wait_status(p, "run", 0, 0, NULL), PAWL_INVALID);
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_wait_status(p, "run", 0, 0, &info), PAWL_OK);
    assert_int_equal(pawl_info_status_seq(info), 4);
    pawl_info_free(info);
    FIXTURE_CODE(s, p, pawl_wait_status(p, "run", 4, 0, &info), PAWL_TIMEOUT);
    FIXTURE_DONE(s, p, "run", "7");
    FIXTURE_CODE(s, p, pawl_wait_status(p, "run", 6, PAWL_FOREVER, &info),
                 PAWL_OK); /* it is over */
    assert_int_equal(pawl_info_phase(info), PAWL_RUN_DONE);
    pawl_info_free(info);
    pawl_close(p);
    fixture_free(s);
}

typedef struct waiter {
    pawl *p;
    pawl_code rc;
    int64_t seq;
    _Atomic int waits;
} waiter;

static void *wait_for_it(void *arg)
{
    waiter *w = arg;
    pawl_info *info = NULL;
    atomic_store(&w->waits, 1);
    w->rc = pawl_wait_status(w->p, "run", 0, PAWL_FOREVER, &info);
    w->seq = pawl_info_status_seq(info);
    pawl_info_free(info);
    return NULL;
}

/* The clock stands still: only a waiter that is told comes back. */
static void a_waiter_is_told(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, tells, "7");
    waiter w = {.p = p};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    TMP_AWAIT(atomic_load(&w.waits));
    fixture_poll(s, p);
    pthread_join(thread, NULL);
    assert_int_equal(w.rc, PAWL_OK);
    assert_in_range(w.seq, 1, 4);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Attributes ---- */

static int count_one(const pawl_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

/* How many runs have this attribute. */
static int count(engine_fixture *s, pawl *p, const char *name, const char *value)
{
    int found = 0;
    FIXTURE_CODE(
        s, p,
        pawl_list(p, PAWL_FILTER(.attribute = name, .attribute_value = value), count_one, &found),
        PAWL_OK);
    return found;
}

static const char *has_attributes(pawl_run *run, const char *input)
{
    pawl_attr(run, "customer", "\"ann\"");
    pawl_attr(run, "total", "12.50");
    pawl_attr(run, "paid", "false");
    pawl_attr(run, "gone", "1");
    FIXTURE_ECHO(run, "a", "1");
    pawl_attr(run, "paid", "true");
    pawl_attr(run, "gone", "null");
    pawl_attr(run, "never", "null");
    pawl_attr(run, "customer", "1"); /* of several the last */
    pawl_attr(run, "customer", "\"bob\"");
    pawl_sleep(run, 1000);
    pawl_attr(run, "total", "\"much\""); /* of another kind */
    return input;
}

static void expect_found(engine_fixture *s, pawl *p, const char *names[][2], int found, int line)
{
    for (; names[0][0]; names++)
        if (count(s, p, names[0][0], names[0][1]) != found)
            fail_msg("line %d: %s = %s", line, names[0][0], names[0][1]);
}

#define FOUND(found, ...)                                                                          \
    expect_found(s, p, (const char *[][2]){__VA_ARGS__, {NULL, NULL}}, (found), __LINE__)

static void attributes_are_found(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, has_attributes, "7");
    fixture_poll(s, p);
    FOUND(1, {"customer", "\"bob\""}, {"total", "12.5"}, {"paid", "true"});
    FOUND(0, {"customer", "\"ann\""}, {"customer", "1"}, {"paid", "false"}, {"gone", "1"},
          {"total", "true"});
    pawl_close(p);
    p = fixture_open(s, NULL);
    fixture_register(s, p, "w", has_attributes);
    FIXTURE_DONE(s, p, "run", "7");
    FOUND(1, {"customer", "\"bob\""}, {"total", "\"much\""}, {"paid", "true"});
    FOUND(0, {"total", "12.5"});
    pawl_close(p);
    fixture_free(s);
}

static const char *has_many(pawl_run *run, const char *input)
{
    int64_t more = pawl_get_int(input, "", 0);
    for (int64_t i = 0; i < more; i++) {
        char name[32];
        snprintf(name, sizeof name, "a%d", (int)i);
        pawl_attr(run, name, "true");
        if (i % 10 == 0)
            FIXTURE_ECHO(run, "a", "1");
    }
    pawl_sleep(run, 1000);
    pawl_attr(run, "a0", "null");
    pawl_attr(run, "last", "true"); /* there is room again */
    return input;
}

static void attributes_have_a_limit(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, has_many, "31");
    FIXTURE_CODE(s, p,
                 pawl_start(p, "w", "full", "31", PAWL_START(.attributes = "{\"x\":1,\"y\":2}")),
                 PAWL_OK);
    fixture_start(s, p, "w", "many", "33");
    FIXTURE_CODE(s, p, pawl_start(p, "w", "same", "31", PAWL_START(.attributes = "{\"a1\":true}")),
                 PAWL_OK);
    FIXTURE_DONE(s, p, "run", "31");
    FIXTURE_DONE(s, p, "same", "31");
    FIXTURE_HELD(s, p, "full", "at most 32 attributes");
    FIXTURE_HELD(s, p, "many", "at most 32 attributes");
    FOUND(2, {"last", "true"});
    pawl_close(p);
    fixture_free(s);
}

static const char *sets_input(pawl_run *run, const char *input)
{
    pawl_attr(run, "a", input);
    return "0";
}

static void what_is_no_attribute(conf *c)
{
    static char text[PAWL_MAX_ID + 4];
    engine_fixture *s = fixture_new(c);
    memset(text, 0, sizeof text);
    memset(text, 'x', PAWL_MAX_ID + 2);
    text[0] = text[PAWL_MAX_ID + 1] = '"';
    pawl *p = open_with(s, sets_input, text);
    FIXTURE_DONE(s, p, "run", "0");
    FOUND(1, {"a", text});
    text[PAWL_MAX_ID + 1] = 'x';
    text[PAWL_MAX_ID + 2] = '"';
    fixture_start(s, p, "w", "large", text);
    FIXTURE_HELD(s, p, "large", "longer than 512 bytes");
    fixture_start(s, p, "w", "array", "[]");
    FIXTURE_HELD(s, p, "array", "not a string, number or boolean");
    pawl_close(p);
    fixture_free(s);
}

static const char *nothing(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

static void attributes_at_the_start(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    fixture_register(s, p, "w", nothing);
    FIXTURE_CODE(s, p,
                 pawl_start(p, "w", "run", "1",
                            PAWL_START(.attributes = " {\"k\\u0065y\":\"v\", \"n\":1e2,\"b\":true,"
                                                     "\"n\":3} ")),
                 PAWL_OK);
    FOUND(1, {"key", "\"v\""}, {"n", "100"}, {"b", "true"});
    FOUND(0, {"n", "3"});
    FIXTURE_DONE(s, p, "run", "1");
    FOUND(1, {"key", "\"v\""});
    FIXTURE_CODE(s, p, pawl_start(p, "w", "run", "1", PAWL_START(.attributes = "{\"c\":1}")),
                 PAWL_OK);
    FOUND(0, {"c", "1"}); /* it was there already */
    static const char *const WRONG[] = {"[]", "1", "{", "{\"a\":null}", "{\"a\":[]}", "{\"\":1}"};
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++)
        FIXTURE_CODE(s, p, pawl_start(p, "w", "no", "1", PAWL_START(.attributes = WRONG[i])),
                     PAWL_INVALID);
    char many[1024] = "{";
    for (int i = 0; i <= PAWL_MAX_ATTRIBUTES; i++)
        snprintf(many + strlen(many), 32, "\"a%d\":1%c", i, i == PAWL_MAX_ATTRIBUTES ? '}' : ',');
    FIXTURE_CODE(s, p, pawl_start(p, "w", "no", "1", PAWL_START(.attributes = many)), PAWL_LIMIT);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Long journals ---- */

static const char *is_long(pawl_run *run, const char *input)
{
    int64_t asked = 0, now = 0;
    while (!pawl_should_continue_as_new(run)) {
        asked++;
        now = pawl_now(run);
        if (asked % 1000 == 0)
            pawl_sleep(run, 1);
    }
    (void)now;
    (void)input;
    return pawl_json(run, "%" PRId64, asked);
}

static _Atomic int warnings;

static void count_warnings(int level, const char *event, const char *fields, void *arg)
{
    (void)arg;
    if (level == 2 && strcmp(event, "run") == 0 && strstr(fields, "pawl_continue_as_new"))
        atomic_fetch_add(&warnings, 1);
}

static void a_long_journal_is_logged_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    atomic_store(&warnings, 0);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .log = count_warnings));
    fixture_register(s, p, "w", is_long);
    fixture_start(s, p, "w", "run", "1");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    pawl_outcome *end = NULL;
    FIXTURE_CODE(s, p, pawl_wait(p, "run", 0, &end), PAWL_OK);
    assert_in_range(pawl_get_int(pawl_outcome_value(end), "", 0), 4990, 5000);
    pawl_outcome_free(end);
    assert_int_equal(atomic_load(&warnings), 1);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-custom-status a status is seen when it is durable",
         a_status_is_seen_when_it_is_durable, 0},
        {"dx-custom-status a status is there before the next step",
         a_status_is_there_before_the_next_step, 0},
        {"dx-custom-status a status survives a hold", a_status_survives_a_hold, 0},
        {"dx-custom-status a replay does not say it again", a_replay_does_not_say_it_again,
         DB_DURABLE},
        {"dx-custom-status a status has a limit", a_status_has_a_limit, 0},
        {"dx-status dx-custom-status each run has its own phase", each_run_has_its_own_phase, 0},
        {"the starter of a run", the_starter_of_a_run, 0},
        {"dx-custom-status waiting for a status", waiting_for_a_status, 0},
        {"dx-custom-status a waiter is told", a_waiter_is_told, DB_ISOLATED},
        {"attributes are found", attributes_are_found, DB_DURABLE},
        {"attributes have a limit", attributes_have_a_limit, 0},
        {"what is no attribute", what_is_no_attribute, 0},
        {"attributes at the start", attributes_at_the_start, 0},
        {"a long journal is logged once", a_long_journal_is_logged_once, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
