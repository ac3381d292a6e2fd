/* Outcomes as objects; and what infos, events and outcomes answer when there is none: a program
 * that ignores a code and asks anyway gets an answer, never a crash, and never one that sounds
 * good. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "journal/outcome.h"

static void expect(const pawl_outcome *o, pawl_code code, const char *const texts[4])
{
    assert_non_null(o);
    assert_int_equal(pawl_outcome_code(o), code);
    assert_string_equal(pawl_outcome_value(o), texts[0]);
    assert_string_equal(pawl_outcome_name(o), texts[1]);
    assert_string_equal(pawl_outcome_message(o), texts[2]);
    assert_string_equal(pawl_outcome_where(o), texts[3]);
}

#define EXPECT(o, code, ...) expect(o, code, (const char *const[4]){__VA_ARGS__})

static void parts_are_copied(void **state)
{
    (void)state;
    char value[] = "[1,2]", name[] = "declined", message[] = "no money", where[] = "charge";
    pawl_outcome *o =
        outcome_new(PAWL_FAILED, (slice){value, 3}, name, message, where); /* a part of it */
    memset(value, 'x', sizeof value);
    memset(name, 'x', sizeof name);
    memset(message, 'x', sizeof message);
    memset(where, 'x', sizeof where);
    EXPECT(o, PAWL_FAILED, "[1,", "declined", "no money", "charge");
    pawl_outcome_free(o);
}

static void what_is_not_there_has_a_text(void **state)
{
    (void)state;
    pawl_outcome *o = outcome_new(PAWL_OK, (slice){NULL, 0}, NULL, NULL, NULL);
    EXPECT(o, PAWL_OK, "null", "", "", "");
    pawl_outcome_free(o);
    o = outcome_new(PAWL_OK, SLICE_LIT("\"\""), "", "", "");
    EXPECT(o, PAWL_OK, "\"\"", "", "", "");
    pawl_outcome_free(o);
    o = outcome_held(SLICE_LIT("by hand"));
    EXPECT(o, PAWL_HELD, "null", "", "by hand", "");
    pawl_outcome_free(o);
    o = outcome_held((slice){NULL, 0});
    EXPECT(o, PAWL_HELD, "null", "", "", "");
    pawl_outcome_free(o);
}

/* What is recorded was written by some version of pawl; nothing in it is relied on. */
static void failures_are_read(void **state)
{
    static const struct {
        const char *recorded;
        const char *name;
        const char *message;
        const char *where;
    } CASES[] = {
        {"{\"name\":\"n\",\"message\":\"m\",\"where\":\"w\"}", "n", "m", "w"},
        {"{\"message\":\"\\u00e4\\n\"}", "", "ä\n", ""},
        {"{\"name\":1,\"message\":null,\"where\":{}}", "", "", ""},
        {"{}", "", "", ""},
        {"\"text\"", "", "\"text\"", ""},
        {"plain text", "", "plain text", ""},
        {"{\"name\":\"cut o", "", "{\"name\":\"cut o", ""},
        {"", "", "", ""},
        {NULL, "", "", ""},
    };
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        pawl_outcome *o = outcome_failed(PAWL_CANCELLED, slice_of(CASES[i].recorded));
        EXPECT(o, PAWL_CANCELLED, "null", CASES[i].name, CASES[i].message, CASES[i].where);
        pawl_outcome_free(o);
    }
}

static void an_arena_can_hold_one(void **state)
{
    (void)state;
    arena *a = arena_new(256);
    assert_non_null(a);
    EXPECT(outcome_make(a, &(outcome_parts){.code = PAWL_TIMEOUT, .where = SLICE_LIT("w")}),
           PAWL_TIMEOUT, "null", "", "", "w");
    char large[512] = {'x'};
    outcome_parts parts = {.value = {large, sizeof large}};
    assert_null(outcome_make(a, &parts));
    arena_free(a);
}

/* ---- Without one ---- */

static void no_outcome(void **state)
{
    (void)state;
    assert_string_equal(pawl_outcome_value(NULL), "null");
    assert_int_equal(pawl_outcome_code(NULL), PAWL_INVALID); /* nothing has ended well */
    assert_string_equal(pawl_outcome_name(NULL), "");
    assert_string_equal(pawl_outcome_message(NULL), "");
    assert_string_equal(pawl_outcome_where(NULL), "");
    pawl_outcome_free(NULL);
}

static void no_info(void **state)
{
    (void)state;
    assert_string_equal(pawl_info_id(NULL), "");
    assert_string_equal(pawl_info_workflow(NULL), "");
    assert_string_equal(pawl_info_version(NULL), "");
    assert_int_equal(pawl_info_phase(NULL), 0);
    assert_int_equal(pawl_info_generation(NULL), 0);
    assert_string_equal(pawl_info_status(NULL), "null");
    assert_int_equal(pawl_info_status_seq(NULL), 0);
    assert_string_equal(pawl_info_held(NULL), "");
    assert_string_equal(pawl_info_parent(NULL), "");
    assert_int_equal(pawl_info_depth(NULL), 0);
    assert_string_equal(pawl_info_by(NULL), "");
    assert_int_equal(pawl_info_created_ms(NULL), 0);
    assert_int_equal(pawl_info_updated_ms(NULL), 0);
    assert_int_equal(pawl_info_finished_ms(NULL), 0);
    assert_int_equal(pawl_info_wake_ms(NULL), 0);
    pawl_info_free(NULL);
}

static void no_event(void **state)
{
    (void)state;
    assert_int_equal(pawl_event_seq(NULL), 0);
    assert_int_equal(pawl_event_generation(NULL), 0);
    assert_int_equal(pawl_event_op(NULL), 0);
    assert_string_equal(pawl_event_kind(NULL), "");
    assert_string_equal(pawl_event_name(NULL), "");
    assert_int_equal(pawl_event_at_ms(NULL), 0);
    assert_string_equal(pawl_event_data(NULL), "null");
}

static void phases_have_names(void **state)
{
    static const char *const NAMES[] = {"live", "done", "failed", "cancelled", "failing", "held"};
    (void)state;
    for (int i = 0; i < 6; i++)
        assert_string_equal(pawl_phase_name((pawl_phase)i), NAMES[i]);
    assert_string_equal(pawl_phase_name((pawl_phase)6), "?");
    assert_string_equal(pawl_phase_name((pawl_phase)-1), "?");
    assert_string_equal(pawl_phase_name((pawl_phase)0x7fffffff), "?");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_copied),  cmocka_unit_test(what_is_not_there_has_a_text),
        cmocka_unit_test(failures_are_read), cmocka_unit_test(an_arena_can_hold_one),
        cmocka_unit_test(no_outcome),        cmocka_unit_test(no_info),
        cmocka_unit_test(no_event),          cmocka_unit_test(phases_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
