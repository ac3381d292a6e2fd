/* Transactional steps over the end of processes, over commits whose answer is lost, and on threads:
 * each order is there exactly once. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>

#include "api/engine_test.h"
#include "support/transact_fixture.h"

/* ---- Deaths ---- */

static void live(stage *st, void *arg)
{
    shop *s = arg;
    s->engine = shop_open_engine(s, -1);
    STAGE_UNTIL(st, s->engine, stage_phase(st, s->engine, "run") != PAWL_RUN_LIVE);
    pawl_close(s->engine);
}

static void a_death_in_the_function_leaves_nothing(conf *c)
{
    shop s;
    shop_open(&s, c);
    stage_start(s.stage, s.engine, "ordering", "run", "7");
    pawl_close(s.engine);
    s.way = SHOP_DIES;
    s.times = 99;
    for (int i = 0; i < 2; i++) {
        tmp_child child = stage_fork(s.stage, live, &s);
        assert_int_not_equal(tmp_reap(&child), 0);
        assert_int_equal(stage_count(s.stage, "order"), i + 1);
        assert_int_equal(shop_orders(&s), 0);
    }
    s.times = 0;
    s.engine = shop_open_engine(&s, -1);
    STAGE_DONE(s.stage, s.engine, "run", "1");
    assert_int_equal(shop_orders(&s), 1);
    shop_close(&s);
}

static const char *after_a_step(pawl_run *run, const char *input)
{
    shop *s = pawl_arg(run);
    pawl_step(run, "before", stage_echo, input, PAWL_CALL(.arg = s->stage));
    return pawl_transact(run, "order", shop_take_order, input, PAWL_CALL(.arg = s));
}

static void live_after_a_step(stage *st, void *arg)
{
    shop *s = arg;
    s->engine = shop_open_engine(s, -1);
    STAGE_CODE(st, s->engine,
               pawl_register_workflow(s->engine, "after", after_a_step, PAWL_WORKFLOW(.arg = s)),
               PAWL_OK);
    STAGE_UNTIL(st, s->engine, stage_phase(st, s->engine, "run") != PAWL_RUN_LIVE);
    pawl_close(s->engine);
}

/* It is durable before the function is called in which the process dies. */
static void a_step_before_it_is_not_executed_again(conf *c)
{
    shop s;
    shop_open(&s, c);
    stage_start(s.stage, s.engine, "after", "run", "7");
    pawl_close(s.engine);
    s.way = SHOP_DIES;
    s.times = 99;
    tmp_child child = stage_fork(s.stage, live_after_a_step, &s);
    assert_int_not_equal(tmp_reap(&child), 0);
    s.times = 0;
    child = stage_fork(s.stage, live_after_a_step, &s);
    assert_int_equal(tmp_reap(&child), 0);
    STAGE_NOTES(s.stage, "before order order");
    assert_int_equal(shop_orders(&s), 1);
    s.engine = NULL;
    shop_close(&s);
}

/* In a child: an engine whose process dies at a commit. */
typedef struct death {
    shop *shop;
    const char *id;
    int64_t before;
    int64_t after;
} death;

static db *wrap(void *arg, db *inner)
{
    db *d = db_fault_wrap(inner, &((shop *)arg)->plan);
    assert_non_null(d);
    return d;
}

static int is_live(const shop *s, pawl *p, const char *id)
{
    pawl_info *info = NULL;
    STAGE_CODE(s->stage, p, pawl_inspect(p, id, &info), PAWL_OK);
    pawl_phase phase = pawl_info_phase(info);
    pawl_info_free(info);
    return phase == PAWL_RUN_LIVE;
}

/* By the system's clock: what is waited for is other processes. */
static pawl *open_wrapped(shop *s)
{
    pawl *p = NULL;
    engine_test test = {.arg = s, .wrap = wrap};
    const pawl_options *o = PAWL_OPTIONS(.threads = -1, .claim_ms = 500);
    STAGE_CODE(s->stage, p, engine_test_open(&p, s->conf->url, o, &test), PAWL_OK);
    STAGE_CODE(s->stage, p,
               pawl_register_workflow(p, "ordering", shop_ordering, PAWL_WORKFLOW(.arg = s)),
               PAWL_OK);
    return p;
}

static void finish(const shop *s, pawl *p, const char *id)
{
    while (is_live(s, p, id)) {
        STAGE_CODE(s->stage, p, pawl_poll(p, NULL), PAWL_OK);
        struct pollfd wake = {pawl_fd(p), POLLIN, 0};
        poll(&wake, 1, pawl_timeout(p));
    }
}

static void live_until_death(stage *st, void *arg)
{
    const death *d = arg;
    pawl *p = open_wrapped(d->shop);
    d->shop->plan.die_before = d->before;
    d->shop->plan.die_after = d->after;
    stage_start(st, p, "ordering", d->id, d->id);
    finish(d->shop, p, d->id);
    pawl_close(p);
}

static void a_death_at_any_commit_is_exactly_once(conf *c)
{
    shop s = {.conf = c, .stage = stage_new(c)};
    stage_go(s.stage);
    pawl *p = open_wrapped(&s);
    shop_make_tables(&s);
    pawl_close(p);
    int number = 100, survived = 0;
    for (int64_t at = 1; !survived && at < 30; at++) {
        for (int after = 0; after < 2; after++) {
            char id[16], sql[80];
            snprintf(id, sizeof id, "%d", ++number);
            death d = {&s, id, after ? 0 : at, after ? at : 0};
            s.plan = (db_fault){0};
            tmp_child child = stage_fork(s.stage, live_until_death, &d);
            survived = tmp_reap(&child) == 0;
            s.plan = (db_fault){0};
            p = open_wrapped(&s);
            pawl_code rc = pawl_start(p, "ordering", id, id, NULL);
            assert_true(rc == PAWL_OK || rc == PAWL_CONFLICT);
            finish(&s, p, id);
            pawl_close(p);
            snprintf(sql, sizeof sql, "SELECT count(*) FROM orders WHERE number = %s", id);
            assert_int_equal(shop_do(&s, sql, 1), 1);
        }
    }
    assert_true(survived);
    assert_int_equal(shop_orders(&s), number - 100);
    stage_free(s.stage);
}

/* ---- A commit whose answer is lost ---- */

static void lose(conf *c, int happened)
{
    shop s = {.conf = c, .stage = stage_new(c), .way = SHOP_LOSES_THE_COMMIT, .times = 1};
    s.plan.lose_happened = happened;
    s.plan.unknown_times = 4;
    clock_fake *clock = clock_fake_new(INT64_C(3600000) * 1000);
    s.plan.clock = clock_fake_source(clock);
    engine_test test = {.arg = &s, .wrap = wrap, .clock = clock_fake_source(clock)};
    const pawl_options *o =
        PAWL_OPTIONS(.threads = -1, .on_connect = shop_on_connect, .on_connect_arg = &s);
    assert_int_equal(engine_test_open(&s.engine, c->url, o, &test), PAWL_OK);
    shop_make_tables(&s);
    assert_int_equal(
        pawl_register_workflow(s.engine, "ordering", shop_ordering, PAWL_WORKFLOW(.arg = &s)),
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
    assert_int_equal(shop_orders(&s), 1);
    pawl_outcome *end = NULL;
    assert_int_equal(pawl_wait(s.engine, "run", 0, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), happened ? "\"went wrong\"" : "1");
    pawl_outcome_free(end);
    shop_close(&s);
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

static void serve(shop *s, pthread_t *thread)
{
    pawl_close(s->engine);
    stage_go(s->stage);
    s->engine = shop_open_engine(s, 3);
    assert_int_equal(pthread_create(thread, NULL, stage_serve, s->engine), 0);
}

static void many_at_once(conf *c)
{
    enum { RUNS = 40 };
    shop s;
    pthread_t thread;
    void *failed;
    shop_open(&s, c);
    serve(&s, &thread);
    for (int i = 0; i < RUNS; i++) {
        char id[16];
        snprintf(id, sizeof id, "%d", i);
        stage_start(s.stage, s.engine, "ordering", id, id);
    }
    for (int i = 0; i < RUNS; i++) {
        char id[16];
        pawl_outcome *end = NULL;
        snprintf(id, sizeof id, "%d", i);
        STAGE_CODE(s.stage, s.engine, pawl_wait(s.engine, id, PAWL_FOREVER, &end), PAWL_OK);
        assert_string_equal(pawl_outcome_value(end), "1");
        pawl_outcome_free(end);
    }
    pawl_stop(s.engine);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(shop_orders(&s), RUNS);
    assert_int_equal(s.calls, RUNS);
    shop_close(&s);
}

/* Who stops waits for it: it is told, and what it did stays. */
static void a_stop_waits_for_it(conf *c)
{
    shop s;
    pthread_t thread;
    void *failed;
    shop_open(&s, c);
    s.way = SHOP_WAITS;
    s.times = 1;
    stage_start(s.stage, s.engine, "ordering", "run", "7");
    serve(&s, &thread);
    TMP_AWAIT(atomic_load(&s.waits));
    pawl_stop(s.engine);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(shop_orders(&s), 1);
    assert_int_equal(s.calls, 1);
    shop_close(&s);
}

/* Where several can write, others do so while the function is at it. */
static const char *quick(pawl_run *run, const char *input)
{
    shop *s = pawl_arg(run);
    pawl_step(run, "quick", stage_echo, input, PAWL_CALL(.arg = s->stage));
    return pawl_transact(run, "order", shop_take_order, input, PAWL_CALL(.arg = s));
}

static void others_go_on_meanwhile(conf *c)
{
    if (c->promises & DB_TURNS)
        skip();
    shop s;
    pthread_t thread;
    void *failed;
    shop_open(&s, c);
    s.way = SHOP_WAITS;
    s.times = 1;
    stage_start(s.stage, s.engine, "ordering", "waits", "7");
    serve(&s, &thread);
    STAGE_CODE(s.stage, s.engine,
               pawl_register_workflow(s.engine, "quick", quick, PAWL_WORKFLOW(.arg = &s)), PAWL_OK);
    TMP_AWAIT(atomic_load(&s.waits));
    s.times = 0;
    for (int i = 0; i < 5; i++) {
        char id[16];
        pawl_outcome *end = NULL;
        snprintf(id, sizeof id, "%d", 100 + i);
        stage_start(s.stage, s.engine, "quick", id, id);
        STAGE_CODE(s.stage, s.engine, pawl_wait(s.engine, id, PAWL_FOREVER, &end), PAWL_OK);
        pawl_outcome_free(end);
    }
    assert_int_equal(shop_orders(&s), 5);
    atomic_store(&s.waits, 0);
    pawl_outcome *end = NULL;
    STAGE_CODE(s.stage, s.engine, pawl_wait(s.engine, "waits", PAWL_FOREVER, &end), PAWL_OK);
    pawl_outcome_free(end);
    pawl_stop(s.engine);
    pthread_join(thread, &failed);
    assert_null(failed);
    assert_int_equal(shop_orders(&s), 6);
    shop_close(&s);
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
