/* What programs ask from outside: start, wait, inspect; and everything that they should not have
 * asked. A wrong call gets an error, and leaves nothing behind. */
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

static const char *echo(pawl_run *run, const char *input)
{
    return FIXTURE_ECHO(run, "echo", input);
}

static const char *waiting(pawl_run *run, const char *input)
{
    pawl_sleep(run, 1000);
    return input;
}

static pawl *open_both(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, echo);
    FIXTURE_REGISTER(s, p, waiting);
    return p;
}

/* ---- Starting ---- */

static int64_t start(engine_fixture *s, pawl *p, const char *workflow, const char *id,
                     const char *input, pawl_code wanted, int line)
{
    int64_t created = 77;
    pawl_code rc = pawl_start(p, workflow, id, input, PAWL_START(.created = &created));
    fixture_code(s, p, rc, wanted, line);
    assert_true(rc == PAWL_OK || created == 0);
    return rc == PAWL_OK ? created : -1;
}

#define START(workflow, id, input, wanted) start(s, p, workflow, id, input, wanted, __LINE__)

static void a_start_is_made_once(conf *c)
{
    char larger[3000];
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    memset(larger, ' ', sizeof larger);
    larger[0] = '1';
    larger[sizeof larger - 1] = '\0';
    assert_int_equal(START("echo", "one", "1", PAWL_OK), 1);
    assert_int_equal(START("echo", "one", "1", PAWL_OK), 0);
    START("echo", "one", "2", PAWL_CONFLICT);
    START("waiting", "one", "1", PAWL_CONFLICT);
    assert_true(pawl_errhint(p)[0]);
    assert_int_equal(START("echo", "large", larger, PAWL_OK), 1);
    assert_int_equal(START("echo", "large", larger, PAWL_OK), 0);
    START("echo", "large", "2", PAWL_CONFLICT);
    larger[0] = '2';
    START("echo", "large", larger, PAWL_CONFLICT);
    FIXTURE_DONE(s, p, "one", "1");
    assert_int_equal(START("echo", "one", "1", PAWL_OK), 0); /* ended, and the same */
    START("echo", "one", "3", PAWL_CONFLICT);
    FIXTURE_DONE(s, p, "one", "1");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "large") == PAWL_RUN_DONE);
    FIXTURE_NOTES(s, "echo echo");
    pawl_close(p);
    fixture_free(s);
}

static void not_before_its_delay(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_start(p, "echo", "later", "1", PAWL_START(.delay_ms = 5000)), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_start(p, "echo", "never", "1", PAWL_START(.delay_ms = INT64_MAX)),
                 PAWL_OK);
    fixture_poll(s, p);
    fixture_advance(s, 4999);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "");
    assert_in_range(pawl_timeout(p), 1, 20); /* and not much later */
    fixture_advance(s, pawl_timeout(p));
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "later"), PAWL_RUN_DONE);
    fixture_advance(s, PAWL_DAYS(1000));
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "echo");
    assert_int_equal(fixture_phase(s, p, "never"), PAWL_RUN_LIVE);
    pawl_close(p);
    fixture_free(s);
}

/* No engine has the workflow yet: the run waits for one that has. */
static void an_unknown_workflow_waits(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    fixture_start(s, p, "echo", "run", "1");
    for (int i = 0; i < 5; i++) {
        fixture_poll(s, p);
        fixture_advance(s, 1000);
    }
    assert_true(fixture_phase(s, p, "run") == PAWL_RUN_LIVE ||
                fixture_phase(s, p, "run") == PAWL_RUN_HELD);
    FIXTURE_REGISTER(s, p, echo);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    FIXTURE_DONE(s, p, "run", "1");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Versions ---- */

static const char *which(pawl_run *run, const char *input)
{
    (void)input;
    pawl_sleep(run, 1000);
    return pawl_json(run, "%s", pawl_run_version(run));
}

static void a_run_keeps_its_version(conf *c)
{
    static const char *const VERSIONS[] = {"1", "2"};
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    for (int i = 0; i < 2; i++) {
        FIXTURE_CODE(
            s, p, pawl_register_workflow(p, "which", which, PAWL_WORKFLOW(.version = VERSIONS[i])),
            PAWL_OK);
        fixture_start(s, p, "which", VERSIONS[i], "1");
        fixture_poll(s, p);
    }
    FIXTURE_CODE(s, p, pawl_start(p, "which", "told", "1", PAWL_START(.version = "1")), PAWL_OK);
    FIXTURE_DONE(s, p, "1", "\"1\"");
    FIXTURE_DONE(s, p, "2", "\"2\"");
    FIXTURE_DONE(s, p, "told", "\"1\"");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Status and end ---- */

static void a_status_goes_from_live_to_done(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    pawl_info *info = NULL;
    pawl_outcome *end = (pawl_outcome *)s;
    int64_t began = fixture_now(s);
    FIXTURE_CODE(s, p, pawl_inspect(p, "run", &info), PAWL_NOTFOUND);
    FIXTURE_CODE(s, p, pawl_wait(p, "run", 0, &end), PAWL_NOTFOUND);
    assert_null(end);
    fixture_start(s, p, "waiting", "run", "[7]");
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    FIXTURE_CODE(s, p, pawl_wait(p, "run", 0, &end), PAWL_TIMEOUT);
    assert_null(end);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    fixture_advance(s, 1000);
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_inspect(p, "run", &info), PAWL_OK);
    assert_int_equal(pawl_info_phase(info), PAWL_RUN_DONE);
    assert_string_equal(pawl_info_workflow(info), "waiting");
    assert_string_equal(pawl_info_version(info), "1");
    assert_int_equal(pawl_info_created_ms(info), began);
    assert_int_equal(pawl_info_finished_ms(info), began + 1000);
    pawl_info_free(info);
    FIXTURE_CODE(s, p, pawl_wait(p, "run", 0, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), "[7]");
    assert_string_equal(pawl_outcome_name(end), "");
    assert_string_equal(pawl_outcome_message(end), "");
    FIXTURE_CODE(s, p, pawl_wait(p, "run", INT64_MAX, NULL), PAWL_OK);
    pawl_close(p);
    assert_string_equal(pawl_outcome_value(end), "[7]"); /* it is ours */
    pawl_outcome_free(end);
    fixture_free(s);
}

/* ---- Arguments that mean no good ---- */

static char *repeat(const char *text, size_t times)
{
    size_t size = strlen(text);
    char *all = malloc(size * times + 1);
    assert_non_null(all);
    for (size_t i = 0; i < times; i++)
        memcpy(all + i * size, text, size);
    all[size * times] = '\0';
    return all;
}

static void names_and_ids_are_checked(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    char *id = repeat("i", PAWL_MAX_ID + 1), *name = repeat("n", PAWL_MAX_NAME + 1);
    const struct {
        const char *workflow, *id;
        pawl_code code;
    } cases[] = {
        {NULL, "id", PAWL_INVALID},
        {"", "id", PAWL_INVALID},
        {"echo", NULL, PAWL_INVALID},
        {"echo", "", PAWL_INVALID},
        {"\xff", "id", PAWL_INVALID},
        {"echo", "\xc3", PAWL_INVALID},
        {"echo", "\xed\xa0\x80", PAWL_INVALID},
        {"echo", id, PAWL_LIMIT},
        {name, "id", PAWL_LIMIT},
        {"echo", "pawl.x", PAWL_INVALID},
        {"pawl.schedule", "id", PAWL_INVALID},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fixture_code(s, p, pawl_start(p, cases[i].workflow, cases[i].id, "1", NULL), cases[i].code,
                     (int)i);
    id[PAWL_MAX_ID] = '\0';
    name[PAWL_MAX_NAME] = '\0';
    fixture_start(s, p, name, "\xf4\x8f\xbf\xbf '; DROP TABLE pawl_runs; --", "1");
    fixture_start(s, p, "echo", id, "1");
    FIXTURE_DONE(s, p, id, "1");
    free(id);
    free(name);
    pawl_close(p);
    fixture_free(s);
}

static void inputs_are_checked(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    char *deep = repeat("[", PAWL_MAX_DEPTH + 1), *abyss = repeat("[", 1000000);
    char *huge = repeat(" ", (size_t)PAWL_MAX_PAYLOAD + 2);
    const struct {
        const char *input;
        pawl_code code;
    } cases[] = {
        {NULL, PAWL_INVALID},
        {"", PAWL_INVALID},
        {" ", PAWL_INVALID},
        {"{", PAWL_INVALID},
        {"{\"a\"}", PAWL_INVALID},
        {"[1,]", PAWL_INVALID},
        {"nul", PAWL_INVALID},
        {"1 2", PAWL_INVALID},
        {"'a'", PAWL_INVALID},
        {"01", PAWL_INVALID},
        {"\"\\u0000\"", PAWL_INVALID},
        {"\"\\ud800\"", PAWL_INVALID},
        {"\"\xff\"", PAWL_INVALID},
        {"\"\n\"", PAWL_INVALID},
        {"NaN", PAWL_INVALID},
        {"\xef\xbb\xbf{}", PAWL_INVALID},
        {deep, PAWL_LIMIT},
        {abyss, PAWL_LIMIT},
        {huge, PAWL_LIMIT},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        fixture_code(s, p, pawl_start(p, "echo", "id", cases[i].input, NULL), cases[i].code,
                     (int)i);
    assert_int_equal(pawl_inspect(p, "id", &(pawl_info *){NULL}), PAWL_NOTFOUND);
    free(deep);
    free(abyss);
    free(huge);
    pawl_close(p);
    fixture_free(s);
}

static void times_and_options_are_checked(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    pawl_outcome *end;
    pawl_start_options odd = {.size = 3}, larger[2];
    memset(larger, 0, sizeof larger);
    larger[0].size = sizeof larger;
    FIXTURE_CODE(s, p, pawl_start(p, "echo", "id", "1", PAWL_START(.delay_ms = -1)), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_start(p, "echo", "id", "1", PAWL_START(.deadline_ms = INT64_MIN)),
                 PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_start(p, "echo", "id", "1", PAWL_START(.version = "\xff")),
                 PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_start(p, "echo", "id", "1", &odd), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_start(p, "echo", "ok", "1", &larger[0]), PAWL_OK);
    larger[1].delay_ms = 1; /* something that this version does not know */
    FIXTURE_CODE(s, p, pawl_start(p, "echo", "id", "1", &larger[0]), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_start(p, "echo", "far", "1", PAWL_START(.deadline_ms = INT64_MAX)),
                 PAWL_OK);
    FIXTURE_CODE(s, p, pawl_wait(p, "ok", -1, &end), PAWL_INVALID);
    assert_null(end);
    FIXTURE_CODE(s, p, pawl_wait(p, NULL, 0, &end), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_wait(p, "", 0, &end), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_wait(p, "\xff", 0, NULL), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_finish(p, "ok", -1, &end), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_finish(p, "nobody", PAWL_FOREVER, &end), PAWL_NOTFOUND);
    assert_null(end);
    assert_int_equal(pawl_start(NULL, "echo", "id", "1", NULL), PAWL_INVALID);
    assert_int_equal(pawl_wait(NULL, "id", 0, NULL), PAWL_INVALID);
    assert_int_equal(pawl_poll(NULL, NULL), PAWL_INVALID);
    assert_int_equal(pawl_fd(NULL), -1);
    pawl_stop(NULL);
    assert_int_equal(pawl_inspect(p, "id", &(pawl_info *){NULL}), PAWL_NOTFOUND);
    FIXTURE_DONE(s, p, "ok", "1");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Registering ---- */

static void registrations_are_checked(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    char *name = repeat("n", PAWL_MAX_NAME + 1);
    FIXTURE_REGISTER(s, p, echo); /* the same again is harmless */
    FIXTURE_CODE(s, p, pawl_register_work(p, "w", fixture_echo, NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_register_work(p, "w", fixture_echo, NULL), PAWL_OK);
    fixture_start(s, p, "echo", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "echo", waiting, PAWL_WORKFLOW(.arg = s)),
                 PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "echo", echo, NULL), PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_register_work(p, "w", fixture_echo, PAWL_WORK(.arg = s)),
                 PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, NULL, echo, NULL), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "", echo, NULL), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "x", NULL, NULL), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "\xff", echo, NULL), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "pawl.x", echo, NULL), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, name, echo, NULL), PAWL_LIMIT);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "x", echo, PAWL_WORKFLOW(.version = "")),
                 PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_register_work(p, "x", NULL, NULL), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_register_work(p, "x", fixture_echo, PAWL_WORK(.at_most = -1)),
                 PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_register_work(p, "y", fixture_echo, PAWL_WORK(.no_tasks = 1)),
                 PAWL_UNSUPPORTED);
    /* The first error sticks, and is the answer to every thread that drives. */
    FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 0, NULL), PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_wait(p, "run", 0, NULL), PAWL_OK);
    free(name);
    pawl_close(p);
    p = fixture_open(s, NULL); /* so does that of an option which is not built */
    FIXTURE_CODE(s, p, pawl_register_work(p, "y", fixture_echo, PAWL_WORK(.no_tasks = 1)),
                 PAWL_UNSUPPORTED);
    FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_UNSUPPORTED);
    pawl_close(p);
    fixture_free(s);
}

/* ---- From the wrong place ---- */

typedef struct stranger {
    pawl_run *run;
    int bad;
} stranger;

/* What a run answers to every caller but its own function. */
static int call_all(pawl_run *run)
{
    int bad = 0;
    bad += pawl_step(run, "x", fixture_echo, "1", NULL) != NULL;
    bad += pawl_call(run, "x", "1", NULL) != NULL;
    bad += pawl_until(run, "x", fixture_echo, "1", 1, 1) != NULL;
    bad += pawl_sleep(run, 1) != PAWL_MISUSE;
    bad += pawl_sleep_until(run, 1) != PAWL_MISUSE;
    bad += pawl_now(run) != 0;
    bad += pawl_random(run) != 0;
    bad += pawl_uuid(run)[0] != '\0';
    bad += pawl_patch(run, "x") != 0;
    bad += pawl_defer(run, free, NULL) != PAWL_MISUSE;
    bad += pawl_fail(run, "x", "y") != NULL;
    bad += pawl_log(run, 1, "x") != PAWL_MISUSE;
    bad += pawl_alloc(run, 1) != NULL;
    bad += pawl_drop(run, NULL) != PAWL_MISUSE;
    bad += pawl_json(run, "1") != NULL;
    bad += pawl_part(run, "1", "") != NULL;
    return bad;
}

static const char *meddle(pawl_work *work, const char *input)
{
    stranger *w = pawl_work_arg(work);
    w->bad += call_all(w->run);
    return input;
}

static const char *meddled_with(pawl_run *run, const char *input)
{
    stranger *w = pawl_arg(run);
    w->run = run;
    pawl_step(run, "meddle", meddle, input, PAWL_CALL(.arg = w));
    return input;
}

/* A work function has no business with the run that waits for it. */
static void a_step_must_not_use_the_run(conf *c)
{
    stranger w = {0};
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "flow", meddled_with, PAWL_WORKFLOW(.arg = &w)),
                 PAWL_OK);
    fixture_start(s, p, "flow", "run", "1");
    FIXTURE_FAILED(s, p, "run", "misuse", "pawl");
    assert_int_equal(w.bad, 0);
    FIXTURE_HISTORY(s, p, "run", "step-failed:meddle");
    pawl_close(p);
    fixture_free(s);
}

static void *meddle_from_a_thread(void *arg)
{
    stranger *w = arg;
    w->bad += call_all(w->run);
    return NULL;
}

static const char *threaded(pawl_run *run, const char *input)
{
    stranger *w = pawl_arg(run);
    pthread_t thread;
    w->run = run;
    if (pthread_create(&thread, NULL, meddle_from_a_thread, w) == 0)
        pthread_join(thread, NULL);
    return input;
}

static void another_thread_must_not_use_the_run(conf *c)
{
    stranger w = {0};
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "flow", threaded, PAWL_WORKFLOW(.arg = &w)),
                 PAWL_OK);
    fixture_start(s, p, "flow", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    assert_int_equal(w.bad, 0);
    FIXTURE_HISTORY(s, p, "run", "");
    assert_int_equal(call_all(NULL), 0);
    pawl_close(p);
    fixture_free(s);
}

typedef struct engine_of {
    pawl *p;
    engine_fixture *fixture;
    pawl_code codes[5];
} engine_of;

/* Clients may be anywhere, also in a step. Driving in there is driving twice. */
static const char *client_inside(pawl_work *work, const char *input)
{
    engine_of *e = pawl_work_arg(work);
    pawl_info *info = NULL;
    e->codes[0] = pawl_start(e->p, "echo", "inner", "2", NULL);
    e->codes[1] = pawl_inspect(e->p, "inner", &info);
    e->codes[2] = pawl_wait(e->p, "inner", 0, NULL);
    e->codes[3] = pawl_poll(e->p, NULL);
    e->codes[4] = pawl_finish(e->p, "inner", 0, NULL);
    pawl_info_free(info);
    return input;
}

static const char *outer(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "client", client_inside, input);
}

static void a_step_may_be_a_client(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    engine_of e = {.p = p, .fixture = s};
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "outer", outer, PAWL_WORKFLOW(.arg = &e)),
                 PAWL_OK);
    fixture_start(s, p, "outer", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_DONE(s, p, "inner", "2");
    assert_int_equal(e.codes[0], PAWL_OK);
    assert_int_equal(e.codes[1], PAWL_OK);
    assert_int_equal(e.codes[2], PAWL_TIMEOUT);
    assert_int_equal(e.codes[3], PAWL_MISUSE);
    assert_int_equal(e.codes[4], PAWL_MISUSE);
    pawl_close(p);
    fixture_free(s);
}

/* ---- After fork ---- */

static void forked_body(int in, int out, void *arg)
{
    pawl *p = arg;
    pawl_info *info;
    pawl_outcome *end;
    int64_t did;
    (void)in;
    (void)out;
    TMP_CHECK(pawl_start(p, "echo", "child", "1", NULL) == PAWL_FORKED);
    TMP_CHECK(pawl_wait(p, "run", PAWL_FOREVER, &end) == PAWL_FORKED);
    TMP_CHECK(pawl_finish(p, "run", PAWL_FOREVER, &end) == PAWL_FORKED);
    TMP_CHECK(pawl_inspect(p, "run", &info) == PAWL_FORKED);
    TMP_CHECK(pawl_serve(p) == PAWL_FORKED);
    TMP_CHECK(pawl_poll(p, &did) == PAWL_FORKED);
    TMP_CHECK(pawl_register_workflow(p, "x", echo, NULL) == PAWL_FORKED);
    TMP_CHECK(pawl_fd(p) == -1);
    TMP_CHECK(pawl_timeout(p) == -1);
    TMP_CHECK(pawl_errcode(p) == PAWL_FORKED);
    pawl_stop(p);
    pawl_close(p);
}

/* The child's calls are told so, and do no harm to the parent's run. */
static void a_handle_stays_with_its_process(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    fixture_start(s, p, "waiting", "run", "1");
    fixture_poll(s, p);
    tmp_child child = tmp_fork(forked_body, p);
    tmp_join(&child);
    FIXTURE_DONE(s, p, "run", "1");
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"ys-Y55 dx-errors a start is made once", a_start_is_made_once, 0},
    {"not before its delay", not_before_its_delay, 0},
    {"dx-unregistered an unknown workflow waits", an_unknown_workflow_waits, 0},
    {"dx-unregistered a run keeps its version", a_run_keeps_its_version, 0},
    {"dx-X9 dx-status a status goes from live to done", a_status_goes_from_live_to_done, 0},
    {"names and ids are checked", names_and_ids_are_checked, 0},
    {"inputs are checked", inputs_are_checked, 0},
    {"times and options are checked", times_and_options_are_checked, 0},
    {"registrations are checked", registrations_are_checked, 0},
    {"a step must not use the run", a_step_must_not_use_the_run, 0},
    {"another thread must not use the run", another_thread_must_not_use_the_run, 0},
    {"a step may be a client", a_step_may_be_a_client, 0},
    {"a handle stays with its process", a_handle_stays_with_its_process, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
