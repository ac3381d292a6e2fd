/* A call that waits for a run which was started here a moment ago sleeps until it is told of the
 * end of the run, and does not read the run before (sched_will_tell()): but only if nothing has
 * been told yet. Here is a scheduler without threads and without a database. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "sched/handover.h"
#include "support/sched_fixture.h"

enum { RUNS = 3 };

typedef struct fixture {
    sched_fixture base;
    watches watches;
} fixture;

static const char *const IDS[RUNS] = {"first", "second", "third"};

static int set_up(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->base = sched_fixture_new(RUNS);
    watches_init(&f->watches, clock_system());
    f->base.s->options.watches = &f->watches;
    for (int i = 0; i < RUNS; i++) {
        f->base.runs[i]->id = strdup(IDS[i]);
        f->base.runs[i]->lease.run = 100 + i;
    }
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < RUNS; i++)
        free(f->base.runs[i]->id);
    map_free(&f->base.s->runs);
    watches_free(&f->watches);
    sched_fixture_free(&f->base);
    free(f);
    return 0;
}

/* The start of the run is over. */
static sched *start(fixture *f, int i)
{
    sched *s = f->base.s;
    pawl_run *run = f->base.runs[i];
    run_insert b = {.run = run->lease.run, .owner = 1, .ready = run};
    s->starting++;
    handover_started(s, &b, 1);
    return s;
}

static void each_start_is_told_of_once(void **state)
{
    sched *s = start(*state, 0);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("second")), 0);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("first")), 100);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("first")), 0);
    start(*state, 1);
    start(*state, 2);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("third")), 102);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("second")), 101);
}

/* The key that is kept for the hash of an id may be that of a run with another id. */
static void another_run_with_the_same_hash(void **state)
{
    sched *s = start(*state, 0);
    for (int i = 0; i < SCHED_STARTED_KEYS; i++)
        s->started_keys[i] = 100;
    assert_int_equal(sched_will_tell(s, SLICE_LIT("second")), 0);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("first")), 100);
}

static void a_run_that_has_left(void **state)
{
    fixture *f = *state;
    sched *s = start(f, 0);
    map_take(&s->runs, 100);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("first")), 0);
}

/* The key of a run is known by its id while the run is in memory. */
static void a_key_of_a_run_in_memory(void **state)
{
    fixture *f = *state;
    assert_int_equal(sched_key_of(f->base.s, SLICE_LIT("first")), 0);
    sched *s = start(f, 0);
    start(f, 1);
    assert_int_equal(sched_key_of(s, SLICE_LIT("first")), 100);
    assert_int_equal(sched_key_of(s, SLICE_LIT("first")), 100);
    assert_int_equal(sched_key_of(s, SLICE_LIT("second")), 101);
    for (int i = 0; i < SCHED_ID_KEYS; i++) /* as if all ids had the same hash */
        s->id_keys[i] = 100;
    assert_int_equal(sched_key_of(s, SLICE_LIT("second")), 0);
    map_take(&s->runs, 100);
    assert_int_equal(sched_key_of(s, SLICE_LIT("first")), 0);
}

static void an_end_that_was_told(void **state)
{
    fixture *f = *state;
    sched *s = start(f, 0);
    f->base.runs[0]->slot->end_told = 1;
    assert_int_equal(sched_will_tell(s, SLICE_LIT("first")), 0);
}

static void a_run_that_is_held(void **state)
{
    fixture *f = *state;
    sched *s = start(f, 0);
    atomic_store(&f->base.runs[0]->hold_requested, 1);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("first")), 0);
    start(f, 1);
    f->base.runs[1]->slot->keeps = KEPT_HELD;
    assert_int_equal(sched_will_tell(s, SLICE_LIT("second")), 0);
}

/* The commit of an end is told before the run leaves memory: in between, its end was told. */
static void an_end_is_told_when_it_is_committed(void **state)
{
    fixture *f = *state;
    sched *s = start(f, 0);
    pawl_run *run = f->base.runs[0];
    arena *a = arena_new(0);
    assert_non_null(a);
    run->draft.unit = unit_new(a);
    run->draft.unit->answer = UNIT_COMMITTED;
    run->draft.turn_end_stmt = -1;
    run->code.want = WANT_END;
    run_move(run, PLACE_IN_HAND);
    run_move(run, PLACE_COMMITS);
    run->slot->next = NULL;
    atomic_store(&s->runners[SCHED_HAND].answered, run);
    sched_lock(s);
    run_queue_collect(&s->runners[SCHED_HAND]);
    sched_unlock(s);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("first")), 0);
    arena_free(a);
}

/* Driven by hand: a client has committed, and what was committed is told by the next poll. */
static void an_end_that_is_not_told_yet(void **state)
{
    fixture *f = *state;
    sched *s = start(f, 0);
    start(f, 1);
    atomic_store(&s->runners[SCHED_HAND].answered, f->base.runs[2]);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("first")), 0);
    atomic_store(&s->runners[SCHED_HAND].answered, NULL);
    assert_int_equal(sched_will_tell(s, SLICE_LIT("second")), 101);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_start_is_told_of_once),  TEST(another_run_with_the_same_hash),
        TEST(a_run_that_has_left),         TEST(an_end_that_was_told),
        TEST(an_end_that_is_not_told_yet), TEST(a_run_that_is_held),
        TEST(a_key_of_a_run_in_memory),    TEST(an_end_is_told_when_it_is_committed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
