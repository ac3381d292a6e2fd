/* Very many runs that are due at the same moment: they wake in the order in which the tables have
 * them, and what becomes ready meanwhile does not wait behind all of them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "support/engine_fixture.h"

/* More than become ready at a time (run_queue.c). */
enum { PARENTS = 30, CHILDREN = 100, CROWD = PARENTS * CHILDREN, FEW = 20, SLEEP_MS = 5000 };

/* Numbers of the fixture: sleepers that have woken; how many had when the late one was executed. */
enum { WOKEN, BEFORE_LATE };

/* Runs without an owner: more than a node claims at a time (row_reads.h), and many more. */
enum { CLAIMED_AT_A_TIME = 256, SOME = CLAIMED_AT_A_TIME + 10, MANY = 5 * CLAIMED_AT_A_TIME };

typedef struct due_fixture {
    engine_fixture *fixture;
    pawl *p;
} due_fixture;

/* ---- Workflows ---- */

static const char *late(pawl_run *run, const char *input)
{
    const due_fixture *v = pawl_arg(run);
    atomic_store(fixture_number(v->fixture, BEFORE_LATE),
                 atomic_load(fixture_number(v->fixture, WOKEN)));
    return input;
}

/* The first sleeper that wakes is the reason for a run that no look could have found before. */
static const char *sleeper(pawl_run *run, const char *input)
{
    const due_fixture *v = pawl_arg(run);
    pawl_sleep_until(run, pawl_get_int(input, "", 0));
    if (atomic_fetch_add(fixture_number(v->fixture, WOKEN), 1) == 0)
        FIXTURE_CODE(v->fixture, v->p, pawl_start(v->p, "late", "late", "1", NULL), PAWL_OK);
    return input;
}

static const char *starting(pawl_run *run, const char *input)
{
    for (int i = 0; i < CHILDREN; i++)
        pawl_child(run, "sleeper", input, PAWL_CHILD(.detached = 1));
    return input;
}

static const char *noting(pawl_run *run, const char *input)
{
    pawl_sleep_until(run, pawl_get_int(input, "/until", 0));
    fixture_note(pawl_arg(run), "%lld", (long long)pawl_get_int(input, "/number", -1));
    return input;
}

/* ---- Cases ---- */

/* The late run is done while most of the sleepers still wait for their turn. */
static void a_new_run_does_not_wait_for_all_runs_that_are_due(conf *c)
{
    FIXTURE_BY_HAND(); /* a thread that is not scheduled for a while may come behind all of them */
    char input[32];
    engine_fixture *s = fixture_new(c);
    due_fixture v = {s, fixture_open(s, NULL)};
    const pawl_workflow_options *o = PAWL_WORKFLOW(.arg = &v);
    FIXTURE_CODE(s, v.p, pawl_register_workflow(v.p, "late", late, o), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_register_workflow(v.p, "sleeper", sleeper, o), PAWL_OK);
    FIXTURE_CODE(s, v.p, pawl_register_workflow(v.p, "starting", starting, o), PAWL_OK);
    snprintf(input, sizeof input, "%lld", (long long)fixture_now(s) + SLEEP_MS);
    for (int i = 0; i < PARENTS; i++) {
        char id[32];
        snprintf(id, sizeof id, "parent-%d", i);
        fixture_start(s, v.p, "starting", id, input);
    }
    fixture_poll(s, v.p);
    assert_int_equal(atomic_load(fixture_number(s, WOKEN)), 0);
    fixture_advance(s, SLEEP_MS);
    fixture_poll(s, v.p);
    assert_int_equal(fixture_phase(s, v.p, "late"), PAWL_RUN_DONE);
    assert_true(atomic_load(fixture_number(s, WOKEN)) >= CROWD);
    assert_in_range(atomic_load(fixture_number(s, BEFORE_LATE)), 1, CROWD - 1);
    pawl_close(v.p);
    fixture_free(s);
}

/* Runs that are neighbours in the tables are read and written together. */
static void runs_with_neighbouring_keys_wake_together(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, noting);
    int64_t until = fixture_now(s) + SLEEP_MS;
    for (int i = 0; i < FEW; i++) {
        char id[32], input[64];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "{\"until\":%lld,\"number\":%d}", (long long)until, 10 + i);
        fixture_start(s, p, "noting", id, input);
    }
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "");
    fixture_advance(s, SLEEP_MS);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29");
    pawl_close(p);
    fixture_free(s);
}

/* Starts runs in an engine that drives none, so that they have no owner. */
static void start_unowned(engine_fixture *s, pawl *p, const char *workflow, int count)
{
    for (int i = 0; i < count; i++) {
        char id[48];
        snprintf(id, sizeof id, "%s-%d", workflow, i);
        FIXTURE_CODE(s, p, pawl_start(p, workflow, id, "1", PAWL_START(.version = "1")), PAWL_OK);
    }
}

static const char *counting(pawl_run *run, const char *input)
{
    return FIXTURE_ECHO(run, "counting", input);
}

/* Two nodes, whatever pages they choose, execute each run once and leave none. */
static void two_nodes_claim_all_runs_that_are_due(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *client = fixture_open(s, NULL), *one = fixture_open(s, NULL),
         *other = fixture_open(s, NULL);
    const pawl_workflow_options *o = PAWL_WORKFLOW(.arg = s, .version = "1");
    start_unowned(s, client, "counting", MANY);
    fixture_poll(s, other); /* it is a node, and has nothing to execute the runs with */
    FIXTURE_CODE(s, one, pawl_register_workflow(one, "counting", counting, o), PAWL_OK);
    FIXTURE_CODE(s, other, pawl_register_workflow(other, "counting", counting, o), PAWL_OK);
    fixture_poll(s, one);
    fixture_poll(s, other);
    for (int i = 0; i < MANY; i++) {
        char id[48];
        snprintf(id, sizeof id, "counting-%d", i);
        assert_int_equal(fixture_phase(s, client, id), PAWL_RUN_DONE);
    }
    assert_int_equal(fixture_count(s, "counting"), MANY);
    pawl_close(client);
    pawl_close(one);
    pawl_close(other);
    fixture_free(s);
}

/* The pages behind the chosen one may have no run that this node can drive: those before it are
 * claimed in the same look. */
static void due_runs_before_the_chosen_page_are_claimed(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *client = fixture_open(s, NULL), *one = fixture_open(s, NULL),
         *other = fixture_open(s, NULL);
    const pawl_workflow_options *o = PAWL_WORKFLOW(.arg = s, .version = "1");
    fixture_set_random(s, 2); /* the third page */
    start_unowned(s, client, "counting", SOME);
    start_unowned(s, client, "unknown", MANY);
    fixture_poll(s, other);
    FIXTURE_CODE(s, one, pawl_register_workflow(one, "counting", counting, o), PAWL_OK);
    fixture_poll(s, one);
    assert_int_equal(fixture_count(s, "counting"), SOME);
    pawl_close(client);
    pawl_close(one);
    pawl_close(other);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"a new run does not wait for all runs that are due",
     a_new_run_does_not_wait_for_all_runs_that_are_due, 0},
    {"runs with neighbouring keys wake together", runs_with_neighbouring_keys_wake_together, 0},
    {"two nodes claim all runs that are due", two_nodes_claim_all_runs_that_are_due, DB_SHARED},
    {"due runs before the chosen page are claimed", due_runs_before_the_chosen_page_are_claimed,
     DB_SHARED},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
