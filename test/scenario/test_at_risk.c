/* The bound of work at risk (at_risk_max): while nothing can be committed only so many work
 * functions are executed; and a process that is killed leaves no more than that to be executed
 * again. Executions are lines of the side file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/app.h"
#include "support/served_fixture.h"

enum { RUNS = 60, STEPS = 7, LATER = STEPS - 3, MAX = 5, THREADS = 2, CLAIM_MS = 100000 };
enum { EXECUTED, TRIED, GO, DIE_AT };

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

/* Kills its process if it is the execution that is to do so. */
static const char *work(pawl_work *w, const char *input)
{
    engine_fixture *s = pawl_work_arg(w);
    fixture_note(s, "%s.%s", pawl_work_run_id(w), pawl_work_name(w));
    if (atomic_fetch_add(fixture_number(s, EXECUTED), 1) + 1 == number(s, DIE_AT))
        kill(getpid(), SIGKILL);
    return input;
}

/* Fails until the test lets it go; then it counts as executed. */
static const char *go(pawl_work *w, const char *input)
{
    atomic_fetch_add(fixture_number(pawl_work_arg(w), TRIED), 1);
    return number(pawl_work_arg(w), GO) ? work(w, input) : pawl_work_retry(w, 10, "not yet");
}

/* Two steps one after the other, and the others side by side. */
static const char *steps(pawl_run *run, const char *input)
{
    pawl_future *later[LATER];
    const pawl_call_options *o = PAWL_CALL(.arg = pawl_arg(run));
    pawl_step(run, "s6", go, input, PAWL_CALL(.arg = pawl_arg(run), .attempts = INT64_MAX));
    for (int i = 0; i < LATER; i++) {
        char name[32];
        snprintf(name, sizeof name, "s%d", i + 2);
        later[i] = pawl_step_later(run, name, work, input, o);
    }
    pawl_step(run, "s0", work, input, o);
    pawl_step(run, "s1", work, input, o);
    pawl_all(run, later, LATER);
    return input;
}

static void start_all(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "r%d", i);
        fixture_start(s, p, "steps", id, "1");
    }
}

static void await_all(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "r%d", i);
        FIXTURE_CODE(s, p, pawl_wait(p, id, PAWL_FOREVER, NULL), PAWL_OK);
    }
}

/* How many executions there were beyond the first one of each step. */
static int executed_again(engine_fixture *s)
{
    int again = 0;
    for (int i = 0; i < RUNS; i++)
        for (int j = 0; j < STEPS; j++) {
            char line[64];
            snprintf(line, sizeof line, "r%d.s%d", i, j);
            int count = fixture_count(s, line);
            if (count < 1)
                fail_msg("%s was not executed", line);
            again += count - 1;
        }
    return again;
}

static pawl_options bounded(void)
{
    return *PAWL_OPTIONS(.threads = THREADS, .threads_max = THREADS, .at_risk_max = MAX,
                         .claim_ms = CLAIM_MS);
}

/* ---- Nothing can be committed ---- */

/* The application has the file locked. By then every run waits to be let go, so that all of them
 * could be executed. */
static void executions_stop_at_the_bound_while_nothing_is_committed(conf *c)
{
    const pawl_options o = bounded();
    served_fixture v = served_open(c, &o);
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, steps);
    start_all(s, v.p);
    app *a = app_open(c);
    served_begin(&v);
    TMP_AWAIT(app_number(a, "SELECT count(DISTINCT run) FROM pawl_journal WHERE kind <> 1") ==
              RUNS);
    app_do(a, "BEGIN IMMEDIATE");
    atomic_store(fixture_number(s, GO), 1);
    poll(NULL, 0, 300); /* would more be executed, if they could? */
    assert_true(number(s, EXECUTED) <= MAX + THREADS);
    int64_t tried = number(s, TRIED);
    poll(NULL, 0, 100);
    assert_int_equal(number(s, TRIED), tried);
    app_do(a, "COMMIT");
    app_close(a);
    await_all(s, v.p);
    assert_int_equal(executed_again(s), 0);
    served_end(&v);
}

/* ---- The process is killed ---- */

static void killed_body(engine_fixture *s, void *arg)
{
    const pawl_options o = bounded();
    pawl *p = fixture_open(s, &o);
    FIXTURE_REGISTER(s, p, steps);
    if (arg)
        start_all(s, p);
    FIXTURE_CODE(s, p, pawl_serve(p), PAWL_OK);
}

/* Process after process is killed in the middle of an execution. */
static void a_kill_has_no_more_executed_again_than_the_bound(conf *c)
{
    static const int64_t AT[] = {40, 90, 130, 200, 290};
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    atomic_store(fixture_number(s, GO), 1);
    for (size_t i = 0; i < CONF_COUNT(AT); i++) {
        int first = 1;
        atomic_store(fixture_number(s, DIE_AT), AT[i]);
        tmp_child child = fixture_fork(s, killed_body, i == 0 ? &first : NULL);
        int status = tmp_reap(&child);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
            fail_msg("process %zu ended with status %x", i, status);
        fixture_advance(s, 2 * CLAIM_MS); /* on a server its death is noticed by silence */
    }
    served_fixture v = {.fixture = s, .p = fixture_open(s, PAWL_OPTIONS(.claim_ms = CLAIM_MS))};
    FIXTURE_REGISTER(s, v.p, steps);
    served_begin(&v);
    await_all(s, v.p);
    int again = executed_again(s);
    /* Later steps of the runs whose functions were in steps of their own are not bounded. */
    assert_in_range(again, CONF_COUNT(AT), CONF_COUNT(AT) * (MAX + THREADS + THREADS * LATER));
    served_end(&v);
}

/* ---- A row that is locked ---- */

/* What one run has executed cannot be recorded, and fills the bound alone. */
static void results_behind_a_locked_row_do_not_count(conf *c)
{
    const pawl_options o = *PAWL_OPTIONS(.threads = THREADS, .at_risk_max = 1);
    if (!c->server)
        skip();
    served_fixture v = served_open(c, &o);
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, steps);
    served_begin(&v);
    fixture_start(s, v.p, "steps", "victim", "1");
    app *a = app_open(c);
    TMP_AWAIT(app_number(a, "SELECT count(*) FROM pawl.journal WHERE kind <> 1") > 0);
    app_do(a, "BEGIN");
    app_do(a, "SELECT run FROM pawl.runs WHERE id = 'victim' FOR UPDATE");
    atomic_store(fixture_number(s, GO), 1);
    TMP_AWAIT(number(s, EXECUTED) > 0);
    start_all(s, v.p);
    await_all(s, v.p);
    app_do(a, "ROLLBACK");
    app_close(a);
    FIXTURE_CODE(s, v.p, pawl_wait(v.p, "victim", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(executed_again(s), 0);
    served_end(&v);
}

/* ---- Ready runs ---- */

typedef struct slow_arg {
    engine_fixture *fixture;
    app *app;
    int64_t ended; /* so many runs had ended when the last one was executed */
} slow_arg;

/* While runs are ready no thread waits for a commit. Each of them takes longer than at_risk_ms. */
static const char *slow(pawl_run *run, const char *input)
{
    slow_arg *a = pawl_arg(run);
    fixture_advance(a->fixture, 2);
    a->ended = app_number(a->app, "SELECT count(*) FROM pawl_runs WHERE finished_at IS NOT NULL");
    return input;
}

static void a_result_does_not_wait_for_all_ready_runs(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    slow_arg a = {.fixture = s, .app = app_open(c)};
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "slow", slow, PAWL_WORKFLOW(.arg = &a)), PAWL_OK);
    fixture_poll(s, p);
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "r%d", i);
        fixture_start(s, p, "slow", id, "1");
    }
    fixture_poll(s, p);
    assert_true(a.ended >= RUNS / 2);
    app_close(a.app);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"executions stop at the bound while nothing is committed",
         executions_stop_at_the_bound_while_nothing_is_committed, DB_DURABLE | DB_TURNS},
        {"a kill has no more executed again than the bound",
         a_kill_has_no_more_executed_again_than_the_bound, DB_DURABLE},
        {"a result does not wait for all ready runs", a_result_does_not_wait_for_all_ready_runs,
         DB_DURABLE | DB_TURNS},
        {"results behind a locked row do not count", results_behind_a_locked_row_do_not_count,
         DB_DURABLE},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
