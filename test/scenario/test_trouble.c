/* Storage that fails: runs wait for it in memory, nothing is written about it, and the first commit
 * that succeeds lets all of them go on. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <pawl.h>

#include "api/engine_test.h"
#include "support/engine_fixture.h"

enum { RUNS = 10 };

/* An engine on a database that can be broken, and a clock that stands still. */
typedef struct storage_fixture {
    db_fault plan;
    int broken;    /* no transaction can be begun … */
    int unwritten; /* … or no row of a journal can be written … */
    int64_t tries; /* … which was tried so often … */
    int nameless;  /* … or the names of attributes cannot be read, so many times */
    clock_fake *clock;
    pawl *p;
    int first; /* executions of the first step */
    int second;
    int lines; /* that runs have logged */
} storage_fixture;

static void break_it(void *arg, int64_t number, fault_call call, const char *sql)
{
    storage_fixture *g = arg;
    int names = g->nameless > 0 && call == FAULT_CALL_PREPARE && strstr(sql, "SELECT name FROM");
    int row = g->unwritten && call == FAULT_CALL_NEXT && strstr(sql, "INSERT INTO {journal}");
    g->nameless -= names;
    g->tries += row;
    if (names || row || (g->broken && call == FAULT_CALL_BEGIN))
        g->plan.fail_call = number;
}

static db *wrap(void *arg, db *inner)
{
    storage_fixture *g = arg;
    db *d = db_fault_wrap(inner, &g->plan);
    assert_non_null(d);
    return d;
}

static const char *count(pawl_work *work, const char *input)
{
    ++*(int *)pawl_work_arg(work);
    return input;
}

static void count_line(int level, const char *event, const char *fields, void *arg)
{
    storage_fixture *g = arg;
    (void)level;
    (void)fields;
    g->lines += strcmp(event, "run") == 0;
}

/* The line tells of the first step: it is not told before that is durable, and then once. */
static const char *two_steps(pawl_run *run, const char *input)
{
    storage_fixture *g = pawl_arg(run);
    pawl_step(run, "first", count, input, PAWL_CALL(.arg = &g->first));
    pawl_log(run, 1, "the first one is done");
    return pawl_step(run, "second", count, input, PAWL_CALL(.arg = &g->second));
}

static void open_fixture(storage_fixture *g, const conf *c)
{
    memset(g, 0, sizeof *g);
    g->plan.before = break_it;
    g->plan.before_arg = g;
    g->plan.fail_code = PAWL_FULL;
    g->clock = clock_fake_new(1000000);
    engine_test test = {.arg = g, .wrap = wrap, .clock = clock_fake_source(g->clock)};
    assert_int_equal(engine_test_open(&g->p, c->url,
                                      PAWL_OPTIONS(.threads = -1, .log = count_line, .log_arg = g),
                                      &test),
                     PAWL_OK);
    assert_int_equal(pawl_register_workflow(g->p, "w", two_steps, PAWL_WORKFLOW(.arg = g)),
                     PAWL_OK);
}

static void close_fixture(storage_fixture *g)
{
    pawl_close(g->p);
    clock_fake_free(g->clock);
}

static void poll(storage_fixture *g)
{
    int64_t did;
    do
        assert_int_equal(pawl_poll(g->p, &did), PAWL_OK);
    while (did > 0);
}

static void start(storage_fixture *g, const char *id)
{
    pawl_code rc = pawl_start(g->p, "w", id, "1", NULL);
    if (rc != PAWL_OK)
        fail_msg("%s", pawl_errtext(g->p));
}

static pawl_phase phase(storage_fixture *g, int number)
{
    char id[32];
    pawl_info *info = NULL;
    snprintf(id, sizeof id, "run-%d", number);
    assert_int_equal(pawl_inspect(g->p, id, &info), PAWL_OK);
    pawl_phase phase = pawl_info_phase(info);
    pawl_info_free(info);
    return phase;
}

/* Some runs are between their steps when the disk gets full. How many depends on the order in which
 * ready runs are taken: once a commit has failed nothing is begun. */
static void begin_and_break(storage_fixture *g, int *how)
{
    poll(g); /* a node from here on: it owns what it starts */
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        start(g, id);
    }
    *how = 1;
    poll(g);
    assert_in_range(g->first, 1, RUNS);
    assert_int_equal(g->second, 0);
}

static void the_first_commit_lets_all_waiting_runs_go_on(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c);
    begin_and_break(&g, &g.broken);
    for (int i = 0; i < 600; i++) {
        clock_fake_advance(g.clock, 1000);
        poll(&g);
    }
    assert_int_equal(g.second, 0);
    assert_int_equal(g.lines, 0);
    g.broken = 0;
    for (int i = 0; i < RUNS; i++)
        assert_int_equal(phase(&g, i), PAWL_RUN_LIVE);
    start(&g, "another");
    poll(&g); /* and no time passes */
    for (int i = 0; i < RUNS; i++)
        assert_int_equal(phase(&g, i), PAWL_RUN_DONE);
    assert_int_equal(g.first, RUNS + 1);
    assert_int_equal(g.second, RUNS + 1);
    assert_int_equal(g.lines, RUNS + 1);
    close_fixture(&g);
}

/* No other thread commits: they find out themselves, soon enough and not too often. */
static void waiting_runs_try_more_and_more_seldom(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c);
    begin_and_break(&g, &g.unwritten);
    for (int i = 0; i < 60; i++) {
        clock_fake_advance(g.clock, 1000);
        poll(&g);
    }
    int64_t before = g.tries;
    for (int i = 0; i < 600; i++) {
        clock_fake_advance(g.clock, 1000);
        poll(&g);
    }
    assert_in_range(g.tries - before, 1, 50 * RUNS);
    assert_int_equal(g.first, RUNS);
    g.unwritten = 0;
    clock_fake_advance(g.clock, 31000);
    poll(&g);
    for (int i = 0; i < RUNS; i++)
        assert_int_equal(phase(&g, i), PAWL_RUN_DONE);
    assert_int_equal(g.second, RUNS);
    close_fixture(&g);
}

/* ---- Reading ---- */

static const char *step_and_attribute(pawl_run *run, const char *input)
{
    storage_fixture *g = pawl_arg(run);
    pawl_step(run, "first", count, input, PAWL_CALL(.arg = &g->first));
    pawl_attr(run, "one", "1");
    pawl_attr(run, "two", "2");
    return input;
}

/* What it has done is committed all the same, and not done again. */
static void reading_fails_after_a_step(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c);
    assert_int_equal(pawl_register_workflow(g.p, "a", step_and_attribute, PAWL_WORKFLOW(.arg = &g)),
                     PAWL_OK);
    g.nameless = 3;
    assert_int_equal(pawl_start(g.p, "a", "run-0", "1", NULL), PAWL_OK);
    for (int i = 0; i < 10; i++) {
        poll(&g);
        clock_fake_advance(g.clock, 1000);
    }
    assert_int_equal(phase(&g, 0), PAWL_RUN_DONE);
    assert_int_equal(g.nameless, 0);
    assert_int_equal(g.first, 1);
    close_fixture(&g);
}

/* ---- A server that goes away ---- */

/* Numbers of the fixture: how often each step was executed, and whether the second one is to take
 * the server with it. */
enum { FIRST, SECOND, DEADLY };

typedef struct server {
    engine_fixture *fixture;
    pgserver *it;
} server;

static const char *tell(pawl_work *work, const char *input)
{
    const server *v = pawl_work_arg(work);
    int second = strcmp(pawl_work_name(work), "second") == 0;
    atomic_fetch_add(fixture_number(v->fixture, second ? SECOND : FIRST), 1);
    if (second && atomic_exchange(fixture_number(v->fixture, DEADLY), 0))
        pgserver_stop(v->it, PGSERVER_KILL);
    return input;
}

static const char *sleeps_between(pawl_run *run, const char *input)
{
    server *v = pawl_arg(run);
    pawl_step(run, "first", tell, input, PAWL_CALL(.arg = v));
    pawl_sleep(run, 1000);
    return pawl_step(run, "second", tell, input, PAWL_CALL(.arg = v));
}

/* Half a minute without it. What the polls answer is the server's trouble, and not the runs'. */
static void live_without_it(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < 30; i++) {
        (void)pawl_poll(p, NULL);
        fixture_advance(s, 1000);
    }
}

static void begin_all(engine_fixture *s, pawl *p, server *v)
{
    FIXTURE_CODE(s, p, pawl_register_workflow(p, "w", sleeps_between, PAWL_WORKFLOW(.arg = v)),
                 PAWL_OK);
    fixture_poll(s, p);
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, p, "w", id, "1");
    }
    fixture_poll(s, p);
    assert_int_equal(atomic_load(fixture_number(s, FIRST)), RUNS);
}

static void end_all(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        FIXTURE_DONE(s, p, id, "1");
        FIXTURE_HISTORY(s, p, id, "step:first sleep woken step:second");
    }
    assert_int_equal(atomic_load(fixture_number(s, FIRST)), RUNS);
}

/* Gone while they sleep, and when they would wake: nothing is called that could not be recorded. */
static void the_server_is_gone_for_a_while(conf *c)
{
    FIXTURE_BY_HAND(); /* test_kept has threads whose sessions end */
    if (!c->server)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    server v = {s, c->server};
    begin_all(s, p, &v);
    pgserver_stop(c->server, PGSERVER_KILL);
    live_without_it(s, p);
    assert_int_equal(atomic_load(fixture_number(s, SECOND)), 0);
    pgserver_restart(c->server);
    end_all(s, p);
    assert_int_equal(atomic_load(fixture_number(s, SECOND)), RUNS);
    pawl_close(p);
    fixture_free(s);
}

/* Gone while a step is being executed: what it gave is recorded when the server is back. */
static void the_server_goes_during_a_step(conf *c)
{
    FIXTURE_BY_HAND();
    if (!c->server)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    server v = {s, c->server};
    begin_all(s, p, &v);
    atomic_store(fixture_number(s, DEADLY), 1);
    fixture_advance(s, 1000);
    live_without_it(s, p);
    assert_int_equal(atomic_load(fixture_number(s, DEADLY)), 0);
    pgserver_restart(c->server);
    assert_in_range(atomic_load(fixture_number(s, SECOND)), 1, RUNS);
    end_all(s, p);
    assert_int_equal(atomic_load(fixture_number(s, SECOND)), RUNS);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-reliability the first commit lets all waiting runs go on",
         the_first_commit_lets_all_waiting_runs_go_on, DB_FILE},
        {"waiting runs try more and more seldom", waiting_runs_try_more_and_more_seldom, DB_TURNS},
        {"reading fails after a step", reading_fails_after_a_step, DB_FILE},
        {"dx-reliability the server is gone for a while", the_server_is_gone_for_a_while,
         DB_DURABLE},
        {"dx-reliability the server goes during a step", the_server_goes_during_a_step, DB_DURABLE},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
