/* Sagas (compensation): steps are undone, the last first, when a run does not come to a good end;
 * and finally functions are called at every end. All of this goes by the journal: it does not
 * matter whether the code is still there, or a process died at any commit. A step that cannot be
 * undone is not forgotten. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "support/engine_fixture.h"

static const int64_t SILENCE_MS = 60000;

enum { FAILS, COMMITS }; /* numbers of the fixture */

static const char *told(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "%s:%s", pawl_work_name(work), input);
    return "null";
}

static const char *breaks(pawl_work *work, const char *input)
{
    (void)input;
    fixture_note(pawl_work_arg(work), "%s", pawl_work_name(work));
    return pawl_work_fail(work, PAWL_PERMANENT, "broken", "no way");
}

/* As often as the fixture says. */
static const char *breaks_for_a_while(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    if (atomic_fetch_sub(fixture_number(s, FAILS), 1) <= 0)
        return fixture_echo(work, input);
    return pawl_work_fail(work, PAWL_TRANSIENT, "busy", "the bank is closed");
}

#define ARG .arg = pawl_arg(run)

static const char *order(pawl_run *run, const char *input)
{
    pawl_finally(run, "last", "1");
    FIXTURE_ECHO(run, "reserve", "1");
    pawl_undo(run, "unreserve", "1");
    FIXTURE_ECHO(run, "charge", "1");
    pawl_undo(run, "refund", "1");
    pawl_finally(run, "first", "1");
    if (strcmp(input, "\"fails\"") == 0)
        pawl_step(run, "ship", breaks, "1", PAWL_CALL(ARG));
    if (strcmp(input, "\"returns-null\"") == 0)
        return NULL;
    if (strcmp(input, "\"waits\"") == 0)
        pawl_sleep(run, PAWL_HOURS(1));
    if (strcmp(input, "\"again\"") == 0)
        return pawl_continue_as_new(run, "\"done\"", NULL);
    return input;
}

static void register_works(engine_fixture *s, pawl *p)
{
    static const char *const NAMES[] = {"unreserve", "refund", "last", "first"};
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        fixture_register_work(s, p, NAMES[i], fixture_echo);
}

static pawl *open_build(engine_fixture *s, const char *build)
{
    return fixture_open(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .build = build});
}

static pawl *open_here(engine_fixture *s)
{
    pawl *p = open_build(s, "a");
    register_works(s, p);
    FIXTURE_REGISTER(s, p, order);
    return p;
}

static void expect_cancelled(engine_fixture *s, pawl *p, const char *id)
{
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, id) == PAWL_RUN_CANCELLED);
}

static void expect_why(engine_fixture *s, pawl *p, const char *id, const char *words, int line)
{
    char *why = NULL;
    FIXTURE_CODE(s, p, pawl_why(p, id, &why), PAWL_OK);
    if (!strstr(why, words))
        fixture_fail(s, line, "expected '%s' in '%s'", words, why);
    pawl_free(why);
}
#define WHY(s, p, id, words) expect_why((s), (p), (id), (words), __LINE__)

/* ---- Every end ---- */

static void clean_ups_at_every_end(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "order", "good", "\"good\"");
    FIXTURE_DONE(s, p, "good", "\"good\"");
    FIXTURE_NOTES(s, "reserve charge first last");
    fixture_clear_notes(s);
    fixture_start(s, p, "order", "bad", "\"fails\"");
    FIXTURE_FAILED(s, p, "bad", "broken", "no way");
    FIXTURE_NOTES(s, "reserve charge ship refund unreserve first last");
    fixture_clear_notes(s);
    fixture_start(s, p, "order", "null", "\"returns-null\"");
    FIXTURE_FAILED(s, p, "null", "null", "");
    FIXTURE_NOTES(s, "reserve charge refund unreserve first last");
    fixture_clear_notes(s);
    fixture_start(s, p, "order", "stopped", "\"waits\"");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_cancel(p, "stopped", "no more"), PAWL_OK);
    expect_cancelled(s, p, "stopped");
    FIXTURE_NOTES(s, "reserve charge refund unreserve first last");
    fixture_clear_notes(s);
    fixture_start(s, p, "order", "again", "\"again\"");
    FIXTURE_DONE(s, p, "again", "\"done\"");
    FIXTURE_NOTES(s, "reserve charge first last reserve charge first last");
    pawl_close(p);
    fixture_free(s);
}

static void a_history_tells_of_it(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "order", "bad", "\"fails\"");
    FIXTURE_FAILED(s, p, "bad", "broken", "no way");
    FIXTURE_HISTORY(
        s, p, "bad",
        "finally:last step:reserve undo:unreserve step:charge undo:refund finally:first "
        "step-failed:ship ending:failed clean-up:refund done clean-up:unreserve done "
        "clean-up:first done clean-up:last done");
    pawl_close(p);
    fixture_free(s);
}

/* ---- The option ---- */

static const char *never_back(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    (void)input;
    fixture_note(s, "%s", pawl_work_name(work));
    fixture_send_and_await(s, 'x');
    return NULL;
}

/* One that succeeds, one that fails, one by registration, and one that was never handed out. */
static const char *options(pawl_run *run, const char *input)
{
    pawl_step(run, "a", fixture_echo, "{\"a\":1}", PAWL_CALL(ARG, .undo = "un-a"));
    pawl_call(run, "b", "[2]", PAWL_CALL(.undo = "un-b"));
    pawl_future *f = pawl_step_later(run, "c", fixture_echo, "3", PAWL_CALL(ARG, .undo = "un-c"));
    pawl_await(run, f);
    if (strcmp(input, "\"crash\"") == 0)
        pawl_step(run, "d", never_back, "4", PAWL_CALL(ARG, .undo = "un-d"));
    pawl_step(run, "d", breaks, "4", PAWL_CALL(ARG, .undo = "un-d"));
    pawl_step(run, "e", fixture_echo, "5", PAWL_CALL(ARG, .undo = "un-e"));
    return input;
}

static pawl *open_options(engine_fixture *s)
{
    static const char *const NAMES[] = {"un-a", "un-b", "un-c", "un-d", "un-e"};
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, options);
    fixture_register_work(s, p, "b", fixture_echo);
    for (size_t i = 0; i < sizeof NAMES / sizeof *NAMES; i++)
        fixture_register_work(s, p, NAMES[i], told);
    return p;
}

static void the_option_undo(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_options(s);
    fixture_start(s, p, "options", "run", "1");
    FIXTURE_FAILED(s, p, "run", "broken", "");
    FIXTURE_NOTES(s, "a b c d un-d:{\"input\":4,\"result\":null} un-c:{\"input\":3,\"result\":3} "
                     "un-b:{\"input\":[2],\"result\":[2]} "
                     "un-a:{\"input\":{\"a\":1},\"result\":{\"a\":1}}");
    pawl_close(p);
    fixture_free(s);
}

/* A future that has lost is cancelled between the row of the undo and that of its op. */
static const char *crossed(pawl_run *run, const char *input)
{
    pawl_future *c = pawl_sleep_later(run, 10);
    pawl_future *two[] = {pawl_sleep_later(run, 10), pawl_sleep_later(run, 1000)};
    pawl_any_later(run, two, 2);
    pawl_await(run, c);
    pawl_await(run, pawl_step_later(run, "a", fixture_echo, input, PAWL_CALL(ARG, .undo = "un-a")));
    return pawl_fail(run, "over", "it is over");
}

static void other_rows_between_an_undo_and_its_op(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_options(s);
    FIXTURE_REGISTER(s, p, crossed);
    fixture_start(s, p, "crossed", "run", "7");
    FIXTURE_FAILED(s, p, "run", "over", "");
    FIXTURE_NOTES(s, "a un-a:{\"input\":7,\"result\":7}");
    FIXTURE_HISTORY(s, p, "run",
                    "sleep sleep sleep woken woken undo-of:un-a future-cancel step-later:a done "
                    "ending:failed clean-up:un-a done");
    pawl_close(p);
    fixture_free(s);
}

static void dies_in_it(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = open_options(s);
    fixture_start(s, p, "options", "run", "\"crash\"");
    FIXTURE_DONE(s, p, "run", "1");
}

/* It was handed out, and its result will never be known. */
static void an_undo_of_a_call_that_never_came_back(conf *c)
{
    engine_fixture *s = fixture_new(c);
    tmp_child first = fixture_fork(s, dies_in_it, NULL);
    tmp_expect(&first, 'x');
    tmp_kill(&first);
    fixture_advance(s, SILENCE_MS);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_hold(p, "run", NULL), PAWL_OK);
    pawl_close(p);
    p = open_options(s);
    FIXTURE_HELD(s, p, "run", "");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", NULL), PAWL_OK);
    expect_cancelled(s, p, "run");
    FIXTURE_NOTES(s, "a b c d un-d:{\"input\":4,\"result\":null} un-c:{\"input\":3,\"result\":3} "
                     "un-b:{\"input\":[2],\"result\":[2]} "
                     "un-a:{\"input\":{\"a\":1},\"result\":{\"a\":1}}");
    pawl_close(p);
    fixture_free(s);
}

/* Input and result together are larger than a payload may be: it is undone all the same. */
static const char *blows_up(pawl_work *work, const char *input)
{
    size_t size = 9u << 20;
    char *text = pawl_work_alloc(work, size + 3);
    memset(text, 'y', size + 2);
    text[0] = text[size + 1] = '"';
    (void)input;
    return text;
}

static const char *measures(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "%s:%d%d", pawl_work_name(work),
                 pawl_get_kind(input, "/input") == PAWL_STRING,
                 pawl_get_kind(input, "/result") == PAWL_STRING);
    return "null";
}

static const char *large(pawl_run *run, const char *input)
{
    size_t size = 9u << 20;
    char *text = pawl_alloc(run, size + 3);
    memset(text, 'x', size + 2);
    text[0] = text[size + 1] = '"';
    pawl_step(run, "a", blows_up, text, PAWL_CALL(ARG, .undo = "un-a"));
    (void)input;
    return pawl_fail(run, "over", "it is over");
}

static void undos_of_large_values(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, large);
    fixture_register_work(s, p, "un-a", measures);
    fixture_start(s, p, "large", "run", "1");
    FIXTURE_FAILED(s, p, "run", "over", "");
    FIXTURE_NOTES(s, "un-a:10"); /* what it gave is not told */
    pawl_close(p);
    fixture_free(s);
}

/* A large value, or the input of the next generation, over clean-ups. */
static const char *large_end(pawl_run *run, const char *input)
{
    size_t size = (16u << 20) - 8;
    char *text = pawl_alloc(run, size + 3);
    memset(text, 'x', size + 2);
    text[0] = text[size + 1] = '"';
    pawl_finally(run, "last", "1");
    if (strlen(input) > 100)
        return "\"large\"";
    if (strcmp(input, "\"again\"") == 0)
        return pawl_continue_as_new(run, text, NULL);
    return text;
}

static void large_ends(conf *c)
{
    engine_fixture *s = fixture_new(c);
    /* A server that has much to do is waited for: otherwise something is done twice. */
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .claim_ms = PAWL_MINUTES(10)));
    register_works(s, p);
    FIXTURE_REGISTER(s, p, large_end);
    fixture_start(s, p, "large_end", "again", "\"again\"");
    FIXTURE_DONE(s, p, "again", "\"large\"");
    fixture_start(s, p, "large_end", "run", "\"end\"");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    FIXTURE_NOTES(s, "last last last");
    pawl_close(p);
    fixture_free(s);
}

/* ---- The code is gone ---- */

static void clean_ups_without_the_workflow_s_code(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "order", "run", "\"waits\"");
    fixture_poll(s, p);
    pawl_close(p);
    p = open_build(s, "b"); /* only work functions */
    register_works(s, p);
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "the product is gone"), PAWL_OK);
    expect_cancelled(s, p, "run");
    FIXTURE_NOTES(s, "reserve charge refund unreserve first last");
    pawl_close(p);
    fixture_free(s);
}

/* A node that has neither holds it, visibly, until one comes that has what it needs. */
static void the_undo_is_not_registered(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, order);
    fixture_start(s, p, "order", "run", "\"fails\"");
    FIXTURE_HELD(s, p, "run", "refund");
    WHY(s, p, "run", "refund");
    fixture_register_work(s, p, "refund", fixture_echo);
    FIXTURE_UNTIL(s, p, fixture_count(s, "refund") == 1);
    FIXTURE_HELD(s, p, "run", "unreserve");
    pawl_close(p);
    p = open_build(s, "b");
    register_works(s, p);
    FIXTURE_FAILED(s, p, "run", "broken", "no way");
    FIXTURE_NOTES(s, "reserve charge ship refund unreserve first last");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Stuck ---- */

static const char *hard_to_undo(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_undo(run, "unreserve", "1");
    FIXTURE_ECHO(run, "b", "1");
    pawl_undo(run, "hard", "1");
    (void)input;
    return pawl_fail(run, "over", "it is over");
}

static pawl *open_hard(engine_fixture *s)
{
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, hard_to_undo);
    fixture_register_work(s, p, "hard", breaks_for_a_while);
    return p;
}

static void a_clean_up_that_fails_for_good(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_hard(s);
    atomic_store(fixture_number(s, FAILS), 7);
    fixture_start(s, p, "hard_to_undo", "run", "1");
    FIXTURE_HELD(s, p, "run", "the bank is closed");
    WHY(s, p, "run", "hard");
    assert_int_equal(atomic_load(fixture_number(s, FAILS)), 4); /* three attempts */
    for (int i = 0; i < 30; i++) {
        fixture_advance(s, 1000);
        fixture_poll(s, p);
    }
    assert_int_equal(atomic_load(fixture_number(s, FAILS)), 4);
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_HELD(s, p, "run", "the bank is closed");
    assert_true(atomic_load(fixture_number(s, FAILS)) < 4); /* it was tried */
    assert_int_equal(fixture_count(s, "unreserve"), 0);     /* in order */
    while (fixture_phase(s, p, "run") == PAWL_RUN_HELD) {
        FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
        for (int i = 0; i < 10; i++) {
            fixture_poll(s, p);
            fixture_advance(s, 1000);
        }
    }
    FIXTURE_FAILED(s, p, "run", "over", "");
    FIXTURE_NOTES(s, "a b hard unreserve");
    pawl_close(p);
    fixture_free(s);
}

/* A mistake is found right behind a step and its undo: when that run is cancelled, the step is
 * undone. */
static const char *wrong_behind(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "a", "1");
    pawl_undo(run, "unreserve", "1");
    pawl_sleep(run, -1);
    return input;
}

static void a_mistake_behind_an_undo(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, wrong_behind);
    fixture_start(s, p, "wrong_behind", "run", "1");
    FIXTURE_HELD(s, p, "run", "negative");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", NULL), PAWL_OK);
    expect_cancelled(s, p, "run");
    FIXTURE_NOTES(s, "a unreserve");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Death at every commit ---- */

typedef struct life {
    db_fault plan;
    const char *input;
    const char *id;
} life;

static pawl *open_mortal(engine_fixture *s, life *l)
{
    pawl *p = fixture_open_fault(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .build = "a"}, &l->plan);
    register_works(s, p);
    FIXTURE_REGISTER(s, p, order);
    return p;
}

static void live(engine_fixture *s, void *arg)
{
    life *l = arg;
    pawl *p = open_mortal(s, l);
    int cancels = strcmp(l->input, "\"waits\"") == 0;
    fixture_start(s, p, "order", l->id, l->input);
    fixture_poll(s, p);
    if (cancels && fixture_phase(s, p, l->id) == PAWL_RUN_LIVE)
        FIXTURE_CODE(s, p, pawl_cancel(p, l->id, "enough"), PAWL_OK);
    for (int i = 0; i < 200 && pawl_wait(p, l->id, 0, NULL) == PAWL_TIMEOUT; i++) {
        fixture_poll(s, p);
        fixture_advance(s, 500);
    }
    pawl_close(p);
}

static void clean_ups_with_a_crash_at_every_commit(conf *c)
{
    static const struct {
        const char *input;
        const char *notes;
        pawl_phase phase;
    } CASES[] = {
        {"\"fails\"", "reserve charge ship refund unreserve first last", PAWL_RUN_FAILED},
        {"\"waits\"", "reserve charge refund unreserve first last", PAWL_RUN_CANCELLED},
        {"\"good\"", "reserve charge first last", PAWL_RUN_DONE},
    };
    engine_fixture *s = fixture_new(c);
    /* Every second one after, the rest before; fewer where to open an engine takes long. */
    int64_t step = getenv("PAWL_TEST_EVERY") ? 1 : c->promises & DB_FILE ? 2 : 4;
    for (int i = 0; i < 6; i++) {
        int died = 1;
        for (int64_t n = 1 + i % 2 * (step - 1); died; n += step) {
            char id[32];
            assert_true(n < 60);
            snprintf(id, sizeof id, "%d-%d", i, (int)n);
            life l = {.input = CASES[i / 2].input, .id = id};
            l.plan = (db_fault){.die_before = i % 2 ? n : 0, .die_after = i % 2 ? 0 : n};
            fixture_clear_notes(s);
            tmp_child first = fixture_fork(s, live, &l);
            int status = tmp_reap(&first);
            died = WIFSIGNALED(status);
            fixture_advance(s, SILENCE_MS);
            l.plan = (db_fault){0};
            tmp_child second = fixture_fork(s, live, &l);
            tmp_join(&second);
            FIXTURE_NOTES_ONCE(s, CASES[i / 2].notes);
            pawl *p = fixture_open(s, NULL);
            assert_int_equal(fixture_phase(s, p, id), CASES[i / 2].phase);
            pawl_close(p);
        }
    }
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-X4 dx-errors clean-ups at every end", clean_ups_at_every_end, 0},
        {"a history tells of it", a_history_tells_of_it, 0},
        {"the option undo", the_option_undo, 0},
        {"other rows between an undo and its op", other_rows_between_an_undo_and_its_op, 0},
        {"an undo of a call that never came back", an_undo_of_a_call_that_never_came_back,
         DB_SHARED},
        {"undos of large values", undos_of_large_values, 0},
        {"large ends", large_ends, 0},
        {"dx-W12 clean-ups without the workflow's code", clean_ups_without_the_workflow_s_code,
         DB_SHARED},
        {"the undo is not registered", the_undo_is_not_registered, DB_SHARED},
        {"a clean-up that fails for good", a_clean_up_that_fails_for_good, 0},
        {"a mistake behind an undo", a_mistake_behind_an_undo, 0},
        {"clean-ups with a crash at every commit", clean_ups_with_a_crash_at_every_commit,
         DB_SHARED},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
