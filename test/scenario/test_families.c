/* Parents and children as they are driven: many children, on one node and on several; by
 * pawl_finish(), also after a crash; and children in trouble, for which their parent waits. */
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

static const char *counted_step(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    int64_t wanted = pawl_get_int(input, "", 0);
    atomic_fetch_add(fixture_number(s, DONE), 1);
    fixture_note(s, "%s-%s", pawl_work_name(work), input);
    if (wanted && atomic_compare_exchange_strong(fixture_number(s, STOP), &wanted, 0))
        fixture_send_and_await(s, 'x');
    return input;
}

static const char *kid(pawl_run *run, const char *input)
{
    pawl_sleep(run, 10);
    return FIXTURE_STEP(run, "kid", counted_step, input);
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

static pawl *open_here(engine_fixture *s, const char *build)
{
    pawl *p = fixture_open(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .build = build});
    return p;
}

static int count_one(const pawl_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static void a_thousand_children(conf *c)
{
    engine_fixture *s = fixture_new(c);
    int count = 0;
    pawl *p = open_here(s, "a");
    FIXTURE_REGISTER(s, p, kid);
    FIXTURE_REGISTER(s, p, many);
    fixture_start(s, p, "many", "run", "null");
    FIXTURE_DONE(s, p, "run", "499500");
    assert_int_equal(atomic_load(fixture_number(s, DONE)), MANY);
    FIXTURE_CODE(s, p, pawl_tree(p, "run", count_one, &count), PAWL_OK);
    assert_int_equal(count, MANY + 1);
    pawl_close(p);
    fixture_free(s);
}

/* The parent is driven by one of them, its children only by the other. */
static void a_thousand_children_on_other_nodes(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a"), *q = open_here(s, "b");
    FIXTURE_REGISTER(s, p, many);
    FIXTURE_REGISTER(s, q, kid);
    fixture_start(s, p, "many", "run", "null");
    for (int i = 0; i < 200 && fixture_phase(s, p, "run") == PAWL_RUN_LIVE; i++) {
        fixture_poll(s, p);
        fixture_poll(s, q);
        fixture_advance(s, 500);
    }
    FIXTURE_DONE(s, p, "run", "499500");
    assert_int_equal(atomic_load(fixture_number(s, DONE)), MANY);
    pawl_close(q);
    pawl_close(p);
    fixture_free(s);
}

/* ---- By pawl_finish() ---- */

static const char *one(pawl_run *run, const char *input)
{
    const char *a = FIXTURE_STEP(run, "one", counted_step, input);
    const char *b = pawl_child(run, "two", input, PAWL_CHILD(.id = "two"));
    return pawl_json(run, "[%j,%j]", a, b);
}

static const char *two(pawl_run *run, const char *input)
{
    const char *a = pawl_child(run, "kid", input, NULL);
    return pawl_json(run, "[%j]", a);
}

static pawl *open_three(engine_fixture *s, const char *build)
{
    pawl *p = open_here(s, build);
    FIXTURE_REGISTER(s, p, kid);
    FIXTURE_REGISTER(s, p, one);
    FIXTURE_REGISTER(s, p, two);
    return p;
}

static void finish(engine_fixture *s, pawl *p, const char *id, const char *value)
{
    pawl_outcome *end = NULL;
    FIXTURE_CODE(s, p, pawl_finish(p, id, PAWL_FOREVER, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), value);
    pawl_outcome_free(end);
}

static void finish_drives_children(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_three(s, "a");
    fixture_start(s, p, "kid", "unrelated", "99");
    fixture_start(s, p, "one", "run", "5");
    finish(s, p, "run", "[5,[5]]");
    FIXTURE_NOTES(s, "one-5 kid-5");
    assert_int_equal(fixture_phase(s, p, "unrelated"), PAWL_RUN_LIVE);
    pawl_close(p);
    fixture_free(s);
}

static void finishing(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = open_three(s, "a");
    fixture_start(s, p, "one", "run", "5");
    finish(s, p, "run", "[5,[5]]");
    pawl_close(p);
}

static void finish_after_a_crash(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    for (int stop = 5; stop <= 5; stop++) {
        atomic_store(fixture_number(s, STOP), 0);
        atomic_store(fixture_number(s, DONE), 0);
        atomic_store(fixture_number(s, STOP), stop);
        tmp_child first = fixture_fork(s, finishing, NULL);
        tmp_expect(&first, 'x');
        tmp_kill(&first);
        fixture_advance(s, SILENCE_MS);
        atomic_store(fixture_number(s, STOP), 5); /* and once more, in the child */
        tmp_child second = fixture_fork(s, finishing, NULL);
        tmp_expect(&second, 'x');
        tmp_kill(&second);
        fixture_advance(s, SILENCE_MS);
        tmp_child third = fixture_fork(s, finishing, NULL);
        tmp_join(&third);
    }
    assert_true(fixture_count(s, "kid-5") >= 1);
    fixture_free(s);
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

static void expect_why(engine_fixture *s, pawl *p, const char *id, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(s, p, pawl_why(p, id, &why), PAWL_OK);
    if (!strstr(why, words))
        fixture_fail(s, __LINE__, "expected '%s' in '%s'", words, why);
    pawl_free(why);
}

static void a_child_that_is_held(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    FIXTURE_REGISTER(s, p, needs_work);
    FIXTURE_REGISTER(s, p, asks);
    fixture_start(s, p, "asks", "run", "\"needs_work\"");
    FIXTURE_HELD(s, p, "child", "missing");
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    expect_why(s, p, "run", "child \"needs_work\"");
    fixture_register_work(s, p, "missing", counted_step);
    FIXTURE_DONE(s, p, "run", "7");
    pawl_close(p);
    fixture_free(s);
}

/* The next build has what the child lacked: finishing the parent finishes both. */
static void finish_with_a_child_that_is_held(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    FIXTURE_REGISTER(s, p, needs_work);
    FIXTURE_REGISTER(s, p, asks);
    fixture_start(s, p, "asks", "run", "\"needs_work\"");
    FIXTURE_HELD(s, p, "child", "missing");
    pawl_close(p);
    fixture_run_clock(s);
    p = open_here(s, "b");
    FIXTURE_REGISTER(s, p, needs_work);
    FIXTURE_REGISTER(s, p, asks);
    fixture_register_work(s, p, "missing", counted_step);
    pawl_outcome *end = NULL;
    FIXTURE_CODE(s, p, pawl_finish(p, "run", PAWL_FOREVER, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), "7");
    pawl_outcome_free(end);
    pawl_close(p);
    fixture_free(s);
}

/* Cancelling the parent of a child that is held ends both. */
static void the_parent_of_one_that_is_held(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    FIXTURE_REGISTER(s, p, needs_work);
    FIXTURE_REGISTER(s, p, asks);
    fixture_start(s, p, "asks", "run", "\"needs_work\"");
    FIXTURE_HELD(s, p, "child", "missing");
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "no more"), PAWL_OK);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_CANCELLED);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "child") == PAWL_RUN_CANCELLED);
    pawl_close(p);
    fixture_free(s);
}

/* A workflow that no engine has, in a version that no engine has. */
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

static void register_version(engine_fixture *s, pawl *p, const char *version)
{
    FIXTURE_CODE(s, p,
                 pawl_register_workflow(p, "pinned", says_version,
                                        PAWL_WORKFLOW(.arg = s, .version = version)),
                 PAWL_OK);
}

static void versions_of_children(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s, "a");
    FIXTURE_REGISTER(s, p, asks_for_version);
    register_version(s, p, "1.0");
    register_version(s, p, "2.0");
    fixture_start(s, p, "asks_for_version", "newest", "null");
    FIXTURE_DONE(s, p, "newest", "\"2.0\"");
    FIXTURE_CODE(s, p, pawl_delete(p, "newest", 0), PAWL_OK);
    fixture_start(s, p, "asks_for_version", "exact", "\"1.0\"");
    FIXTURE_DONE(s, p, "exact", "\"1.0\"");
    FIXTURE_CODE(s, p, pawl_delete(p, "exact", 0), PAWL_OK);
    fixture_start(s, p, "asks_for_version", "later", "\"3.0\"");
    FIXTURE_HELD(s, p, "child", "3.0");
    register_version(s, p, "3.0");
    FIXTURE_DONE(s, p, "later", "\"3.0\"");
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a thousand children", a_thousand_children, 0},
        {"a thousand children on other nodes", a_thousand_children_on_other_nodes, DB_SHARED},
        {"finish drives children", finish_drives_children, 0},
        {"finish after a crash", finish_after_a_crash, DB_SHARED},
        {"dx-W8 a child that is held", a_child_that_is_held, 0},
        {"dx-W8 finish with a child that is held", finish_with_a_child_that_is_held, DB_SHARED},
        {"the parent of one that is held", the_parent_of_one_that_is_held, 0},
        {"dx-X21 versions of children", versions_of_children, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
