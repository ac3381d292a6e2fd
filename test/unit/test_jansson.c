/* The bridge to jansson: trees out of text and text out of trees, and which side frees what. The
 * memory and the clean-ups of a run are an arena here; its limit is how memory gets short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include <pawl_jansson.h>

#include "base/arena.h"

struct pawl_run {
    arena *memory;
};

struct pawl_work {
    arena *memory;
};

void *pawl_alloc(pawl_run *run, size_t size)
{
    return arena_alloc(run->memory, size);
}

void *pawl_work_alloc(pawl_work *work, size_t size)
{
    return arena_alloc(work->memory, size);
}

pawl_code pawl_defer(pawl_run *run, void (*fn)(void *arg), void *arg)
{
    return arena_defer(run->memory, fn, arg) == 0 ? PAWL_OK : PAWL_NOMEM;
}

static void text_becomes_a_tree(void **state)
{
    (void)state;
    static const char *const GOOD[] = {"null", "5", "\"text\"", "[]", "{\"a\":{\"b\":[1,2.5]}}"};
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        json_t *tree = pawl_jansson_load(GOOD[i]);
        assert_non_null(tree);
        json_decref(tree);
    }
    static const char *const BAD[] = {
        "", "nul", "[1", "{\"a\":1,\"a\":2}", "9223372036854775808", "1e999", "\"\\u0000\"",
    };
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_null(pawl_jansson_load(BAD[i]));
    assert_null(pawl_jansson_load(NULL));
}

/* What comes back is what went in: compact, in the same order, and JSON to pawl. */
static void a_tree_becomes_text(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "null",
        "5",
        "\"caf\xC3\xA9 \\\"\\\\\\n\"",
        "[]",
        "{\"z\":1,\"a\":[true,{\"\":2.5}],\"m\":null}",
    };
    pawl_run run = {arena_new(0)};
    pawl_work work = {run.memory};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        json_t *tree = pawl_jansson_load(TEXTS[i]);
        assert_string_equal(pawl_jansson_dump(&run, tree), TEXTS[i]);
        assert_string_equal(pawl_work_jansson_dump(&work, tree), TEXTS[i]);
        assert_int_equal(pawl_json_check(pawl_jansson_dump(&run, tree), NULL), PAWL_OK);
        json_decref(tree);
    }
    assert_null(pawl_jansson_dump(&run, NULL));
    assert_null(pawl_work_jansson_dump(&work, NULL));
    arena_free(run.memory);
}

static void an_owned_tree_goes_with_the_run(void **state)
{
    (void)state;
    pawl_run run = {arena_new(0)};
    json_t *tree = pawl_jansson_load("[1]");
    json_t *kept = json_incref(tree);
    assert_ptr_equal(pawl_jansson_own(&run, tree), tree);
    assert_int_equal(kept->refcount, 2);
    arena_reset(run.memory);
    assert_int_equal(kept->refcount, 1);
    json_decref(kept);
    assert_null(pawl_jansson_own(&run, NULL));
    arena_free(run.memory);
}

static void short_memory_leaks_nothing(void **state)
{
    (void)state;
    pawl_run run = {arena_new(1)};
    pawl_work work = {run.memory};
    json_t *tree = pawl_jansson_load("[\"a text that is longer than that\"]");
    assert_null(pawl_jansson_dump(&run, tree));
    assert_null(pawl_work_jansson_dump(&work, tree));
    json_t *kept = json_incref(tree);
    assert_null(pawl_jansson_own(&run, tree));
    assert_int_equal(kept->refcount, 1);
    json_decref(kept);
    arena_free(run.memory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_becomes_a_tree),
        cmocka_unit_test(a_tree_becomes_text),
        cmocka_unit_test(an_owned_tree_goes_with_the_run),
        cmocka_unit_test(short_memory_leaks_nothing),
    };
    return cmocka_run_group_tests_name("jansson", tests, NULL, NULL);
}
