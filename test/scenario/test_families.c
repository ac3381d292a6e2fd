/* Families as they are driven: many children, on one node and on several; by pawl_finish(), also
 * after a crash; and children that are in trouble, for which their parent waits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

static const int64_t SILENCE_MS = 60000;

enum { STOP, DONE };

static const char *deed(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    int64_t wanted = pawl_get_int(input, "", 0);
    atomic_fetch_add(stage_number(s, DONE), 1);
    stage_note(s, "%s-%s", pawl_work_name(work), input);
    if (wanted && atomic_compare_exchange_strong(stage_number(s, STOP), &wanted, 0))
        stage_meet(s, 'x');
    return input;
}

#define DEED(name, input) pawl_step(run, name, deed, input, PAWL_CALL(.arg = pawl_arg(run)))

static const char *kid(pawl_run *run, const char *input)
{
    pawl_sleep(run, 10);
    return DEED("kid", input);
}

enum { MANY = 1000 };

static const char *many(pawl_run *run, const char *input)
{
    pawl_future **f = pawl_alloc(run, MANY * sizeof *f);
    int64_t sum = 0;
    (void)input;
    for (int i = 0; i < MANY; i++)
        f[i] = pawl_child_later(run, "kid", pawl_json(run, "%d", i), NULL);
    pawl_all(run, f, MANY);
    for (int i = 0; i < MANY; i++)
        sum += pawl_get_int(pawl_value(f[i]), "", 0);
    return pawl_json(run, "%" PRId64, sum);
}

static pawl *open_here(stage *s, const char *build)
{
    pawl *p =
        stage_open(s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .build = build});
    return p;
}

static int count_one(const pawl_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static void a_thousand(conf *c)
{
    stage *s = stage_new(c);
    int count = 0;
    pawl *p = open_here(s, "a");
    STAGE_REGISTER(s, p, kid);
    STAGE_REGISTER(s, p, many);
    stage_start(s, p, "many", "run", "null");
    STAGE_DONE(s, p, "run", "499500");
    assert_int_equal(atomic_load(stage_number(s, DONE)), MANY);
    STAGE_CODE(s, p, pawl_tree(p, "run", count_one, &count), PAWL_OK);
    assert_int_equal(count, MANY + 1);
    pawl_close(p);
    stage_free(s);
}

/* The parent is driven by one of them, its children only by the other. */
static void a_thousand_elsewhere(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s, "a"), *q = open_here(s, "b");
    STAGE_REGISTER(s, p, many);
    STAGE_REGISTER(s, q, kid);
    stage_start(s, p, "many", "run", "null");
    for (int i = 0; i < 200 && stage_phase(s, p, "run") == PAWL_RUN_LIVE; i++) {
        stage_poll(s, p);
        stage_poll(s, q);
        stage_advance(s, 500);
    }
    STAGE_DONE(s, p, "run", "499500");
    assert_int_equal(atomic_load(stage_number(s, DONE)), MANY);
    pawl_close(q);
    pawl_close(p);
    stage_free(s);
}

/* ---- By pawl_finish() ---- */

static const char *one(pawl_run *run, const char *input)
{
    const char *a = DEED("one", input);
    const char *b = pawl_child(run, "two", input, PAWL_CHILD(.id = "two"));
    return pawl_json(run, "[%j,%j]", a, b);
}

static const char *two(pawl_run *run, const char *input)
{
    const char *a = pawl_child(run, "kid", input, NULL);
    return pawl_json(run, "[%j]", a);
}

static pawl *open_three(stage *s, const char *build)
{
    pawl *p = open_here(s, build);
    STAGE_REGISTER(s, p, kid);
    STAGE_REGISTER(s, p, one);
    STAGE_REGISTER(s, p, two);
    return p;
}

static void finish(stage *s, pawl *p, const char *id, const char *value)
{
    pawl_outcome *end = NULL;
    STAGE_CODE(s, p, pawl_finish(p, id, PAWL_FOREVER, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), value);
    pawl_outcome_free(end);
}

static void finish_drives_children(conf *c)
{
    stage *s = stage_new(c);
    stage_go(s);
    pawl *p = open_three(s, "a");
    stage_start(s, p, "kid", "unrelated", "99");
    stage_start(s, p, "one", "run", "5");
    finish(s, p, "run", "[5,[5]]");
    STAGE_NOTES(s, "one-5 kid-5");
    assert_int_equal(stage_phase(s, p, "unrelated"), PAWL_RUN_LIVE);
    pawl_close(p);
    stage_free(s);
}

static void finishing(stage *s, void *arg)
{
    (void)arg;
    pawl *p = open_three(s, "a");
    stage_start(s, p, "one", "run", "5");
    finish(s, p, "run", "[5,[5]]");
    pawl_close(p);
}

static void finish_after_a_crash(conf *c)
{
    stage *s = stage_new(c);
    stage_go(s);
    for (int stop = 5; stop <= 5; stop++) {
        atomic_store(stage_number(s, STOP), 0);
        atomic_store(stage_number(s, DONE), 0);
        atomic_store(stage_number(s, STOP), stop);
        tmp_child first = stage_fork(s, finishing, NULL);
        tmp_expect(&first, 'x');
        tmp_kill(&first);
        stage_advance(s, SILENCE_MS);
        atomic_store(stage_number(s, STOP), 5); /* and once more, in the child */
        tmp_child second = stage_fork(s, finishing, NULL);
        tmp_expect(&second, 'x');
        tmp_kill(&second);
        stage_advance(s, SILENCE_MS);
        tmp_child third = stage_fork(s, finishing, NULL);
        tmp_join(&third);
    }
    assert_true(stage_count(s, "kid-5") >= 1);
    stage_free(s);
}

/* ---- Children in trouble ---- */

static const char *needs_work(pawl_run *run, const char *input)
{
    return pawl_call(run, "missing", input, NULL);
}

static const char *asks(pawl_run *run, const char *input)
{
    return pawl_child(run, pawl_text(run, input, "", ""), "7", PAWL_CHILD(.id = "child"));
}

static void expect_why(stage *s, pawl *p, const char *id, const char *words)
{
    char *why = NULL;
    STAGE_CODE(s, p, pawl_why(p, id, &why), PAWL_OK);
    if (!strstr(why, words))
        stage_fail(s, __LINE__, "expected '%s' in '%s'", words, why);
    pawl_free(why);
}

static void a_child_that_is_held(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s, "a");
    STAGE_REGISTER(s, p, needs_work);
    STAGE_REGISTER(s, p, asks);
    stage_start(s, p, "asks", "run", "\"needs_work\"");
    STAGE_HELD(s, p, "child", "missing");
    assert_int_equal(stage_phase(s, p, "run"), PAWL_RUN_LIVE);
    expect_why(s, p, "run", "child \"needs_work\"");
    STAGE_CODE(s, p, pawl_register_work(p, "missing", deed, PAWL_WORK(.arg = s)), PAWL_OK);
    STAGE_DONE(s, p, "run", "7");
    pawl_close(p);
    stage_free(s);
}

/* The next build has what the child lacked: who finishes the parent finishes both. */
static void finish_with_a_child_that_is_held(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s, "a");
    STAGE_REGISTER(s, p, needs_work);
    STAGE_REGISTER(s, p, asks);
    stage_start(s, p, "asks", "run", "\"needs_work\"");
    STAGE_HELD(s, p, "child", "missing");
    pawl_close(p);
    stage_go(s);
    p = open_here(s, "b");
    STAGE_REGISTER(s, p, needs_work);
    STAGE_REGISTER(s, p, asks);
    STAGE_CODE(s, p, pawl_register_work(p, "missing", deed, PAWL_WORK(.arg = s)), PAWL_OK);
    pawl_outcome *end = NULL;
    STAGE_CODE(s, p, pawl_finish(p, "run", PAWL_FOREVER, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), "7");
    pawl_outcome_free(end);
    pawl_close(p);
    stage_free(s);
}

/* Who cancels the parent of one that is held gets rid of both. */
static void the_parent_of_one_that_is_held(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s, "a");
    STAGE_REGISTER(s, p, needs_work);
    STAGE_REGISTER(s, p, asks);
    stage_start(s, p, "asks", "run", "\"needs_work\"");
    STAGE_HELD(s, p, "child", "missing");
    STAGE_CODE(s, p, pawl_cancel(p, "run", "no more"), PAWL_OK);
    STAGE_UNTIL(s, p, stage_phase(s, p, "run") == PAWL_RUN_CANCELLED);
    STAGE_UNTIL(s, p, stage_phase(s, p, "child") == PAWL_RUN_CANCELLED);
    pawl_close(p);
    stage_free(s);
}

/* A workflow that nobody has, in a version that nobody has. */
static const char *asks_for_version(pawl_run *run, const char *input)
{
    return pawl_child(run, "pinned", input,
                      PAWL_CHILD(.id = "child", .version = pawl_text(run, input, "", NULL)));
}

static const char *says_version(pawl_run *run, const char *input)
{
    (void)input;
    return pawl_json(run, "%s", pawl_run_version(run));
}

static void register_version(stage *s, pawl *p, const char *version)
{
    STAGE_CODE(s, p,
               pawl_register_workflow(p, "pinned", says_version,
                                      PAWL_WORKFLOW(.arg = s, .version = version)),
               PAWL_OK);
}

static void versions_of_children(conf *c)
{
    stage *s = stage_new(c);
    pawl *p = open_here(s, "a");
    STAGE_REGISTER(s, p, asks_for_version);
    register_version(s, p, "1.0");
    register_version(s, p, "2.0");
    stage_start(s, p, "asks_for_version", "newest", "null");
    STAGE_DONE(s, p, "newest", "\"2.0\"");
    STAGE_CODE(s, p, pawl_delete(p, "newest", 0), PAWL_OK);
    stage_start(s, p, "asks_for_version", "exact", "\"1.0\"");
    STAGE_DONE(s, p, "exact", "\"1.0\"");
    STAGE_CODE(s, p, pawl_delete(p, "exact", 0), PAWL_OK);
    stage_start(s, p, "asks_for_version", "later", "\"3.0\"");
    STAGE_HELD(s, p, "child", "3.0");
    register_version(s, p, "3.0");
    STAGE_DONE(s, p, "later", "\"3.0\"");
    pawl_close(p);
    stage_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a thousand", a_thousand, 0},
        {"a thousand elsewhere", a_thousand_elsewhere, DB_SHARED},
        {"finish drives children", finish_drives_children, 0},
        {"finish after a crash", finish_after_a_crash, DB_SHARED},
        {"dx-W8 a child that is held", a_child_that_is_held, 0},
        {"dx-W8 finish with a child that is held", finish_with_a_child_that_is_held, DB_SHARED},
        {"the parent of one that is held", the_parent_of_one_that_is_held, 0},
        {"dx-X21 versions of children", versions_of_children, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
