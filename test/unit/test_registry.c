/* What a program has registered: found by name and version, the last one first; the same twice is
 * nothing, something else under the same name a conflict, and the first error sticks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "run/registry.h"

static const char *one(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

static const char *other(pawl_run *run, const char *input)
{
    return one(run, input);
}

static const char *work(pawl_work *w, const char *input)
{
    (void)w;
    return input;
}

static pawl_code add(registry *r, const char *version, pawl_workflow_fn *fn, void *arg)
{
    error err = {0};
    return registry_add_workflow(
        r, &(workflow){.name = "flow", .version = version, .fn = fn, .arg = arg}, &err);
}

static void by_name_and_version(void **state)
{
    (void)state;
    registry *r = registry_new();
    assert_non_null(r);
    assert_null(registry_workflow(r, "flow", NULL));
    assert_int_equal(add(r, "1", one, NULL), PAWL_OK);
    assert_int_equal(add(r, "2", other, NULL), PAWL_OK);
    assert_ptr_equal(registry_workflow(r, "flow", "1")->fn, one);
    assert_ptr_equal(registry_workflow(r, "flow", "2")->fn, other);
    assert_ptr_equal(registry_workflow(r, "flow", NULL)->fn, other); /* the last one */
    assert_null(registry_workflow(r, "flow", "3"));
    assert_null(registry_workflow(r, "flo", NULL));
    assert_null(registry_work(r, "flow"));
    registry_free(r);
}

static void the_same_twice_changes_nothing(void **state)
{
    (void)state;
    registry *r = registry_new();
    error err = {0};
    assert_int_equal(add(r, "1", one, NULL), PAWL_OK);
    uint64_t count = registry_count(r);
    const workflow *first = registry_first(r);
    assert_int_equal(add(r, "1", one, NULL), PAWL_OK);
    assert_true(registry_count(r) == count);
    assert_ptr_equal(registry_first(r), first);
    assert_int_equal(registry_error(r, &err), PAWL_OK);
    registry_free(r);
}

static void another_function_is_a_conflict(void **state)
{
    (void)state;
    registry *r = registry_new();
    error err = {0}, work_err = {0};
    int arg;
    assert_int_equal(add(r, "1", one, NULL), PAWL_OK);
    assert_int_equal(add(r, "1", other, NULL), PAWL_CONFLICT);
    assert_int_equal(add(r, "1", one, &arg), PAWL_CONFLICT);
    assert_ptr_equal(registry_workflow(r, "flow", "1")->fn, one);
    work_entry w = {.name = "work", .fn = work};
    assert_int_equal(registry_add_work(r, &w, &work_err), PAWL_OK);
    assert_int_equal(registry_error(r, &err), PAWL_CONFLICT); /* that of before sticks */
    registry_free(r);
}

static void work_by_name(void **state)
{
    (void)state;
    registry *r = registry_new();
    error err = {0};
    work_entry w = {.name = "work", .fn = work, .at_most = 3};
    uint64_t count = registry_count(r);
    assert_int_equal(registry_add_work(r, &w, &err), PAWL_OK);
    assert_true(registry_count(r) > count);
    assert_int_equal(registry_work(r, "work")->at_most, 3);
    assert_ptr_equal(registry_first_work(r), registry_work(r, "work"));
    w.arg = &w;
    assert_int_equal(registry_add_work(r, &w, &err), PAWL_CONFLICT);
    registry_free(r);
}

static void a_refused_registration_stays_refused(void **state)
{
    (void)state;
    registry *r = registry_new();
    error first = {.code = PAWL_INVALID}, second = {.code = PAWL_NOMEM}, got = {0};
    registry_refuse(r, &first);
    registry_refuse(r, &second);
    assert_int_equal(registry_error(r, &got), PAWL_INVALID);
    registry_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(by_name_and_version),
        cmocka_unit_test(the_same_twice_changes_nothing),
        cmocka_unit_test(another_function_is_a_conflict),
        cmocka_unit_test(work_by_name),
        cmocka_unit_test(a_refused_registration_stays_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
