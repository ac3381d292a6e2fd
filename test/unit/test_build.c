/* Builds of a program: which one this is, and the list of those that have tried a run in vain,
 * which is kept in the row of the run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/build.h"
#include "sched/hold.h"

static void the_executable_has_an_id(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    const char *one = build_id(a), *two = build_id(a);
    assert_non_null(one);
    assert_true(strlen(one) >= 8);
    assert_int_equal(strspn(one, "0123456789abcdef-"), strlen(one));
    assert_string_equal(one, two);
    arena_free(a);
    a = arena_new(1);
    assert_null(build_id(a));
    arena_free(a);
}

static void a_build_is_remembered_once(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    slice list = {NULL, 0};
    static const char *const BUILDS[] = {"a", "ab", "", "b", "a", ""};
    for (size_t i = 0; i < sizeof BUILDS / sizeof *BUILDS; i++) {
        assert_int_equal(hold_has_tried(list, BUILDS[i]), i >= 4);
        list = hold_tried(a, list, BUILDS[i]);
        assert_true(hold_has_tried(list, BUILDS[i]));
    }
    assert_string_equal(list.at, "\na\nab\n\nb\n");
    assert_false(hold_has_tried(list, "abc"));
    assert_false(hold_has_tried(list, "a\nab\n\nb\n\n"));
    arena_free(a);
}

/* What it was held for before was something else, and is no build. */
static void a_work_function_is_no_build(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    assert_false(hold_has_tried(SLICE_LIT("charge"), "charge"));
    assert_false(hold_has_tried(SLICE_LIT(""), ""));
    slice list = hold_tried(a, SLICE_LIT("charge"), "b");
    assert_string_equal(list.at, "\nb\n");
    arena_free(a);
}

/* The row of a run is short: the oldest are forgotten. */
static void the_list_is_bounded(void **state)
{
    (void)state;
    arena *a = arena_new(0);
    slice list = {NULL, 0};
    char build[PAWL_MAX_NAME + 1];
    for (int i = 0; i < 100; i++) {
        memset(build, 'x', sizeof build - 1);
        build[PAWL_MAX_NAME] = 0;
        snprintf(build, 16, "%d", i);
        build[strlen(build)] = '.';
        list = hold_tried(a, list, build);
        assert_true(list.size <= 1024 && strlen(list.at) == list.size);
        assert_true(hold_has_tried(list, build));
        assert_true(list.at[0] == '\n' && list.at[list.size - 1] == '\n');
    }
    build[0] = '0';
    assert_false(hold_has_tried(list, build));
    arena_free(a);
}

static void without_memory_there_is_no_list(void **state)
{
    (void)state;
    arena *a = arena_new(1);
    assert_null(hold_tried(a, SLICE_LIT("\na\n"), "b").at);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_executable_has_an_id),
        cmocka_unit_test(a_build_is_remembered_once),
        cmocka_unit_test(a_work_function_is_no_build),
        cmocka_unit_test(the_list_is_bounded),
        cmocka_unit_test(without_memory_there_is_no_list),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
