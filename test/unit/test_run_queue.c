/* The list of ready runs of a runner (sched/run_queue.c): warm runs before cold ones, each in the
 * order in which they became ready, and now and then a cold one. Here is a scheduler without
 * threads and without a database, and fibers that are only named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "support/sched_fixture.h"

enum { RUNS = 2048, MIXED = 64 };

typedef struct fixture {
    sched_fixture base;
    runner *r;
} fixture;

static int set_up(void **state)
{
    fixture *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->base = sched_fixture_new(RUNS);
    w->r = &w->base.s->runners[SCHED_HAND];
    sched_lock(w->base.s);
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    fixture *w = *state;
    sched_unlock(w->base.s);
    sched_fixture_free(&w->base);
    free(w);
    return 0;
}

static void ready(fixture *w, int i, int is_warm)
{
    w->base.runs[i]->code.fiber = is_warm ? (fiber *)w : NULL;
    run_queue_ready_on(w->base.s, w->r, w->base.runs[i]);
}

static int take(fixture *w)
{
    pawl_run *run = run_queue_take(w->r);
    return run ? (int)run->lease.run : -1;
}

static void warm_runs_come_first(void **state)
{
    fixture *w = *state;
    ready(w, 0, 0);
    ready(w, 1, 1);
    ready(w, 2, 0);
    ready(w, 3, 1);
    assert_int_equal(run_queue_ready_count(w->base.s), 4);
    assert_int_equal(take(w), 1);
    ready(w, 4, 1);
    assert_int_equal(take(w), 3);
    assert_int_equal(take(w), 4);
    assert_int_equal(take(w), 0);
    ready(w, 5, 1);
    assert_int_equal(take(w), 5);
    assert_int_equal(take(w), 2);
    assert_int_equal(take(w), -1);
    ready(w, 6, 0);
    assert_int_equal(take(w), 6);
    assert_int_equal(run_queue_ready_count(w->base.s), 0);
}

/* One warm run is ready again and again. */
static void a_cold_run_has_its_turn(void **state)
{
    fixture *w = *state;
    int turns = 0, taken;
    ready(w, 0, 0);
    ready(w, 1, 0);
    ready(w, 2, 1);
    for (; (taken = take(w)) == 2; turns++) {
        assert_true(turns < MIXED);
        ready(w, 2, 1);
    }
    assert_int_equal(taken, 0);
    assert_int_equal(take(w), 2);
    assert_int_equal(take(w), 1);
    assert_int_equal(take(w), -1);
}

/* Whatever the order, each run that was ready is taken once, and those of a kind in their order. */
static void no_ready_run_is_lost(void **state)
{
    fixture *w = *state;
    random_seeded dice;
    random_seeded_init(&dice, 7);
    int64_t last[2] = {-1, -1};
    int in = 0, out = 0;
    while (out < MIXED) {
        unsigned char chance = 0;
        dice.source.fill(&dice.source, &chance, 1);
        if (in < MIXED && chance % 3) {
            ready(w, in++, chance & 64);
            continue;
        }
        int taken = take(w);
        if (taken < 0)
            continue;
        int kind = w->base.runs[taken]->code.fiber != NULL;
        assert_true(taken > last[kind]);
        last[kind] = taken;
        out++;
    }
    assert_int_equal(take(w), -1);
}

/* While very many runs are ready the node claims no others. When few are left, the node loop is
 * called to claim more, once. */
static void a_node_with_enough_to_do_claims_nothing(void **state)
{
    fixture *w = *state;
    sched *s = w->base.s;
    int in = 0, left = 0;
    for (; in < RUNS && run_queue_may_claim(s); in++)
        ready(w, in, 0);
    assert_in_range(in, 256, RUNS - 1);
    assert_false(s->node_loop_called);
    for (left = in; !s->node_loop_called; left--)
        assert_true(take(w) >= 0);
    assert_in_range(left, 1, in / 2);
    assert_true(run_queue_may_claim(s));
    s->node_loop_called = 0;
    while (take(w) >= 0)
        continue;
    assert_false(s->node_loop_called);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(warm_runs_come_first, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_cold_run_has_its_turn, set_up, tear_down),
        cmocka_unit_test_setup_teardown(no_ready_run_is_lost, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_node_with_enough_to_do_claims_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
