/* Transactional steps over the end of processes, over commits whose answer is lost, and on threads:
 * each order is there exactly once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>

#include "api/engine_test.h"
#include "support/transact_fixture.h"

/* ---- Deaths ---- */

static void live(engine_fixture *st, void *arg)
{
    transact_fixture *s = arg;
    s->engine = transact_fixture_open_engine(s, -1);
    FIXTURE_UNTIL(st, s->engine, fixture_phase(st, s->engine, "run") != PAWL_RUN_LIVE);
    pawl_close(s->engine);
}

static void a_death_in_the_function_leaves_nothing(conf *c)
{
    transact_fixture s;
    transact_fixture_open(&s, c);
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    pawl_close(s.engine);
    s.way = ORDER_DIES;
    s.times = 99;
    for (int i = 0; i < 2; i++) {
        tmp_child child = fixture_fork(s.fixture, live, &s);
        assert_int_not_equal(tmp_reap(&child), 0);
        assert_int_equal(fixture_count(s.fixture, "order"), i + 1);
        assert_int_equal(transact_fixture_orders(&s), 0);
    }
    s.times = 0;
    s.engine = transact_fixture_open_engine(&s, -1);
    FIXTURE_DONE(s.fixture, s.engine, "run", "1");
    assert_int_equal(transact_fixture_orders(&s), 1);
    transact_fixture_close(&s);
}

static const char *after_a_step(pawl_run *run, const char *input)
{
    transact_fixture *s = pawl_arg(run);
    pawl_step(run, "before", fixture_echo, input, PAWL_CALL(.arg = s->fixture));
    return pawl_transact(run, "order", transact_fixture_take_order, input, PAWL_CALL(.arg = s));
}

static void live_after_a_step(engine_fixture *st, void *arg)
{
    transact_fixture *s = arg;
    s->engine = transact_fixture_open_engine(s, -1);
    FIXTURE_CODE(st, s->engine,
                 pawl_register_workflow(s->engine, "after", after_a_step, PAWL_WORKFLOW(.arg = s)),
                 PAWL_OK);
    FIXTURE_UNTIL(st, s->engine, fixture_phase(st, s->engine, "run") != PAWL_RUN_LIVE);
    pawl_close(s->engine);
}

/* It is durable before the function is called in which the process dies. */
static void a_step_before_it_is_not_executed_again(conf *c)
{
    transact_fixture s;
    transact_fixture_open(&s, c);
    fixture_start(s.fixture, s.engine, "after", "run", "7");
    pawl_close(s.engine);
    s.way = ORDER_DIES;
    s.times = 99;
    tmp_child child = fixture_fork(s.fixture, live_after_a_step, &s);
    assert_int_not_equal(tmp_reap(&child), 0);
    s.times = 0;
    child = fixture_fork(s.fixture, live_after_a_step, &s);
    assert_int_equal(tmp_reap(&child), 0);
    FIXTURE_NOTES(s.fixture, "before order order");
    assert_int_equal(transact_fixture_orders(&s), 1);
    s.engine = NULL;
    transact_fixture_close(&s);
}

enum { DEATH_CLAIM_MS = 60000 };

/* In a child: an engine whose process dies at a commit. */
typedef struct death {
    transact_fixture *fixture;
    const char *id;
    int64_t before;
    int64_t after;
} death;

static db *wrap(void *arg, db *inner)
{
    db *d = db_fault_wrap(inner, &((transact_fixture *)arg)->plan);
    assert_non_null(d);
    return d;
}

static int is_live(const transact_fixture *s, pawl *p, const char *id)
{
    pawl_info *info = NULL;
    FIXTURE_CODE(s->fixture, p, pawl_inspect(p, id, &info), PAWL_OK);
    pawl_phase phase = pawl_info_phase(info);
    pawl_info_free(info);
    return phase == PAWL_RUN_LIVE;
}

/* Long claims, by the fixture's clock: however busy the machine is, no server ends what they
 * wait for. */
static pawl *open_wrapped(transact_fixture *s)
{
    const pawl_options *o = PAWL_OPTIONS(.threads = -1, .claim_ms = DEATH_CLAIM_MS);
    pawl *p = fixture_open_fault(s->fixture, o, &s->plan);
    FIXTURE_CODE(
        s->fixture, p,
        pawl_register_workflow(p, "ordering", transact_fixture_ordering, PAWL_WORKFLOW(.arg = s)),
        PAWL_OK);
    return p;
}

static void finish(const transact_fixture *s, pawl *p, const char *id)
{
    FIXTURE_UNTIL(s->fixture, p, !is_live(s, p, id));
}

static void live_until_death(engine_fixture *st, void *arg)
{
    const death *d = arg;
    pawl *p = open_wrapped(d->fixture);
    d->fixture->plan.die_before = d->before;
    d->fixture->plan.die_after = d->after;
    fixture_start(st, p, "ordering", d->id, d->id);
    finish(d->fixture, p, d->id);
    pawl_close(p);
}

static void a_death_at_any_commit_is_exactly_once(conf *c)
{
    transact_fixture s = {.conf = c, .fixture = fixture_new(c)};
    pawl *p = open_wrapped(&s);
    transact_fixture_make_tables(&s);
    pawl_close(p);
    int number = 100, survived = 0;
    for (int64_t at = 1; !survived && at < 30; at++) {
        for (int after = 0; after < 2; after++) {
            char id[16], sql[80];
            snprintf(id, sizeof id, "%d", ++number);
            death d = {&s, id, after ? 0 : at, after ? at : 0};
            s.plan = (db_fault){0};
            tmp_child child = fixture_fork(s.fixture, live_until_death, &d);
            survived = tmp_reap(&child) == 0;
            s.plan = (db_fault){0};
            fixture_advance(s.fixture, DEATH_CLAIM_MS + 1000);
            p = open_wrapped(&s);
            pawl_code rc = pawl_start(p, "ordering", id, id, NULL);
            assert_true(rc == PAWL_OK || rc == PAWL_CONFLICT);
            finish(&s, p, id);
            pawl_close(p);
            snprintf(sql, sizeof sql, "SELECT count(*) FROM orders WHERE number = %s", id);
            assert_int_equal(transact_fixture_exec(&s, sql, 1), 1);
        }
    }
    assert_true(survived);
    assert_int_equal(transact_fixture_orders(&s), number - 100);
    fixture_free(s.fixture);
}

/* ---- A commit whose answer is lost ---- */

static void lose(conf *c, int happened)
{
    transact_fixture s = {
        .conf = c, .fixture = fixture_new(c), .way = ORDER_LOSES_THE_COMMIT, .times = 1};
    s.plan.lose_happened = happened;
    s.plan.unknown_times = 4;
    clock_fake *clock = clock_fake_new(INT64_C(3600000) * 1000);
    s.plan.clock = clock_fake_source(clock);
    engine_test test = {.arg = &s, .wrap = wrap, .clock = clock_fake_source(clock)};
    const pawl_options *o = PAWL_OPTIONS(.threads = -1, .on_connect = transact_fixture_on_connect,
                                         .on_connect_arg = &s);
    assert_int_equal(engine_test_open(&s.engine, c->url, o, &test), PAWL_OK);
    transact_fixture_make_tables(&s);
    assert_int_equal(pawl_register_workflow(s.engine, "ordering", transact_fixture_ordering,
                                            PAWL_WORKFLOW(.arg = &s)),
                     PAWL_OK);
    assert_int_equal(pawl_start(s.engine, "ordering", "run", "7", NULL), PAWL_OK);
    int undecided = 0;
    for (int i = 0; i < 1000 && is_live(&s, s.engine, "run"); i++) {
        assert_int_equal(pawl_poll(s.engine, NULL), PAWL_OK);
        s.times = s.calls > 0 ? 0 : 1; /* the next attempt would be a good one */
        undecided += s.calls == 1 && is_live(&s, s.engine, "run");
        clock_fake_advance(clock, 100);
    }
    assert_false(is_live(&s, s.engine, "run"));
    assert_true(undecided >= 4);
    assert_int_equal(s.calls, happened ? 1 : 2);
    assert_int_equal(transact_fixture_orders(&s), 1);
    pawl_outcome *end = NULL;
    assert_int_equal(pawl_wait(s.engine, "run", 0, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), happened ? "\"went wrong\"" : "1");
    pawl_outcome_free(end);
    transact_fixture_close(&s);
    clock_fake_free(clock);
}

static void a_lost_answer_that_was_yes(conf *c)
{
    lose(c, 1);
}

static void a_lost_answer_that_was_no(conf *c)
{
    lose(c, 0);
}

/* ---- On threads ---- */

static void serve(transact_fixture *s, pthread_t *thread)
{
    pawl_close(s->engine);
    fixture_run_clock(s->fixture);
    s->engine = transact_fixture_open_engine(s, 3);
    assert_int_equal(pthread_create(thread, NULL, fixture_serve, s->engine), 0);
}

static void many_at_once(conf *c)
{
    enum { RUNS = 40 };
    transact_fixture s;
    pthread_t thread;
    void *failed;
    transact_fixture_open(&s, c);
    serve(&s, &thread);
    for (int i = 0; i < RUNS; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        fixture_start(s.fixture, s.engine, "ordering", id, id);
    }
    for (int i = 0; i < RUNS; i++) {
        char id[16];
        pawl_outcome *end = NULL;
        snprintf(id, sizeof id, "%d", i);
        FIXTURE_CODE(s.fixture, s.engine, pawl_wait(s.engine, id, PAWL_FOREVER, &end), PAWL_OK);
        assert_string_equal(pawl_outcome_value(end), "1");
        pawl_outcome_free(end);
    }
    pawl_stop(s.engine);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(transact_fixture_orders(&s), RUNS);
    assert_int_equal(s.calls, RUNS);
    transact_fixture_close(&s);
}

/* A stop waits for it: it is told, and what it did stays. */
static void a_stop_waits_for_it(conf *c)
{
    transact_fixture s;
    pthread_t thread;
    void *failed;
    transact_fixture_open(&s, c);
    s.way = ORDER_WAITS;
    s.times = 1;
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    serve(&s, &thread);
    TMP_AWAIT(atomic_load(&s.waits));
    pawl_stop(s.engine);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(transact_fixture_orders(&s), 1);
    assert_int_equal(s.calls, 1);
    transact_fixture_close(&s);
}

/* Where several can write, others do so while the function is at it. */
static const char *quick(pawl_run *run, const char *input)
{
    transact_fixture *s = pawl_arg(run);
    pawl_step(run, "quick", fixture_echo, input, PAWL_CALL(.arg = s->fixture));
    return pawl_transact(run, "order", transact_fixture_take_order, input, PAWL_CALL(.arg = s));
}

static void others_go_on_meanwhile(conf *c)
{
    if (c->promises & DB_TURNS)
        skip();
    transact_fixture s;
    pthread_t thread;
    void *failed;
    transact_fixture_open(&s, c);
    s.way = ORDER_WAITS;
    s.times = 1;
    fixture_start(s.fixture, s.engine, "ordering", "waits", "7");
    serve(&s, &thread);
    FIXTURE_CODE(s.fixture, s.engine,
                 pawl_register_workflow(s.engine, "quick", quick, PAWL_WORKFLOW(.arg = &s)),
                 PAWL_OK);
    TMP_AWAIT(atomic_load(&s.waits));
    s.times = 0;
    for (int i = 0; i < 5; i++) {
        char id[16];
        pawl_outcome *end = NULL;
        snprintf(id, sizeof id, "%d", 100 + i);
        fixture_start(s.fixture, s.engine, "quick", id, id);
        FIXTURE_CODE(s.fixture, s.engine, pawl_wait(s.engine, id, PAWL_FOREVER, &end), PAWL_OK);
        pawl_outcome_free(end);
    }
    assert_int_equal(transact_fixture_orders(&s), 5);
    atomic_store(&s.waits, 0);
    pawl_outcome *end = NULL;
    FIXTURE_CODE(s.fixture, s.engine, pawl_wait(s.engine, "waits", PAWL_FOREVER, &end), PAWL_OK);
    pawl_outcome_free(end);
    pawl_stop(s.engine);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(transact_fixture_orders(&s), 6);
    transact_fixture_close(&s);
}

enum { DIES_WELL = DB_DURABLE | DB_SHARED };

static const conf_case CASES[] = {
    {"a death in the function leaves nothing", a_death_in_the_function_leaves_nothing, DIES_WELL},
    {"a step before it is not executed again", a_step_before_it_is_not_executed_again, DIES_WELL},
    {"a death at any commit is exactly once", a_death_at_any_commit_is_exactly_once, DIES_WELL},
    {"a lost answer that was yes", a_lost_answer_that_was_yes, 0},
    {"a lost answer that was no", a_lost_answer_that_was_no, 0},
    {"many at once", many_at_once, DIES_WELL},
    {"a stop waits for it", a_stop_waits_for_it, DIES_WELL},
    {"others go on meanwhile", others_go_on_meanwhile, 0},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
