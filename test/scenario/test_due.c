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

/* Numbers of the stage: sleepers that have woken; how many had when the late one was executed. */
enum { WOKEN, BEFORE_LATE };

typedef struct scene {
    stage *stage;
    pawl *p;
} scene;

/* ---- Workflows ---- */

static const char *late(pawl_run *run, const char *input)
{
    const scene *v = pawl_arg(run);
    atomic_store(stage_number(v->stage, BEFORE_LATE), atomic_load(stage_number(v->stage, WOKEN)));
    return input;
}

/* The first one that wakes is the reason for a run that nobody could know of before. */
static const char *sleeper(pawl_run *run, const char *input)
{
    const scene *v = pawl_arg(run);
    pawl_sleep_until(run, pawl_get_int(input, "", 0));
    if (atomic_fetch_add(stage_number(v->stage, WOKEN), 1) == 0)
        STAGE_CODE(v->stage, v->p, pawl_start(v->p, "late", "late", "1", NULL), PAWL_OK);
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
    stage_note(pawl_arg(run), "%lld", (long long)pawl_get_int(input, "/number", -1));
    return input;
}

/* ---- Cases ---- */

/* The late run is done while most of the sleepers still wait for their turn. */
static void a_new_run_does_not_wait_for_all(conf *c)
{
    STAGE_BY_HAND(); /* a thread that is not scheduled for a while may come behind all of them */
    char input[32];
    stage *s = stage_new(c);
    scene v = {s, stage_open(s, NULL)};
    const pawl_workflow_options *o = PAWL_WORKFLOW(.arg = &v);
    STAGE_CODE(s, v.p, pawl_register_workflow(v.p, "late", late, o), PAWL_OK);
    STAGE_CODE(s, v.p, pawl_register_workflow(v.p, "sleeper", sleeper, o), PAWL_OK);
    STAGE_CODE(s, v.p, pawl_register_workflow(v.p, "starting", starting, o), PAWL_OK);
    snprintf(input, sizeof input, "%lld", (long long)stage_now(s) + SLEEP_MS);
    for (int i = 0; i < PARENTS; i++) {
        char id[32];
        snprintf(id, sizeof id, "parent-%d", i);
        stage_start(s, v.p, "starting", id, input);
    }
    stage_poll(s, v.p);
    assert_int_equal(atomic_load(stage_number(s, WOKEN)), 0);
    stage_advance(s, SLEEP_MS);
    stage_poll(s, v.p);
    assert_int_equal(stage_phase(s, v.p, "late"), PAWL_RUN_DONE);
    assert_true(atomic_load(stage_number(s, WOKEN)) >= CROWD);
    assert_in_range(atomic_load(stage_number(s, BEFORE_LATE)), 1, CROWD - 1);
    pawl_close(v.p);
    stage_free(s);
}

/* Those who are neighbours in the tables are read and written together. */
static void neighbours_wake_together(conf *c)
{
    STAGE_BY_HAND();
    stage *s = stage_new(c);
    pawl *p = stage_open(s, NULL);
    STAGE_REGISTER(s, p, noting);
    int64_t until = stage_now(s) + SLEEP_MS;
    for (int i = 0; i < FEW; i++) {
        char id[32], input[64];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "{\"until\":%lld,\"number\":%d}", (long long)until, 10 + i);
        stage_start(s, p, "noting", id, input);
    }
    stage_poll(s, p);
    STAGE_NOTES(s, "");
    stage_advance(s, SLEEP_MS);
    stage_poll(s, p);
    STAGE_NOTES(s, "10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29");
    pawl_close(p);
    stage_free(s);
}

static const conf_case CASES[] = {
    {"a new run does not wait for all", a_new_run_does_not_wait_for_all, 0},
    {"neighbours wake together", neighbours_wake_together, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
