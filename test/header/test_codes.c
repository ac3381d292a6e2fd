/* The table of codes against a second copy of it. The numbers are in databases, in other programs
 * and in other languages: a code may be added here, and none may change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include <pawl.h>

typedef struct row {
    const char *name;
    int number;
    int retryable;
    int exit_code;
} row;

static const row CODES[] = {
    {"PAWL_OK", 0, 0, 0},           {"PAWL_INVALID", 1, 0, 2},
    {"PAWL_MISUSE", 2, 0, 2},       {"PAWL_NOMEM", 3, 1, 75},
    {"PAWL_LIMIT", 4, 0, 2},        {"PAWL_BUSY", 5, 1, 75},
    {"PAWL_TIMEOUT", 6, 1, 75},     {"PAWL_UNSUPPORTED", 7, 0, 69},
    {"PAWL_REFUSED", 8, 0, 1},      {"PAWL_UNDECIDED", 9, 0, 75},
    {"PAWL_CLOSED", 10, 0, 69},     {"PAWL_INTERNAL", 11, 0, 70},
    {"PAWL_FORKED", 12, 0, 70},     {"PAWL_NOTFOUND", 13, 0, 1},
    {"PAWL_CONFLICT", 14, 0, 1},    {"PAWL_ENDED", 15, 0, 1},
    {"PAWL_FAILED", 16, 0, 1},      {"PAWL_CANCELLED", 17, 0, 1},
    {"PAWL_HELD", 18, 0, 1},        {"PAWL_SUSPENDED", 19, 1, 75},
    {"PAWL_CANTOPEN", 20, 1, 66},   {"PAWL_NOTADB", 21, 0, 65},
    {"PAWL_FOREIGN", 22, 0, 65},    {"PAWL_NEWER", 23, 0, 65},
    {"PAWL_NOTWAL", 24, 0, 78},     {"PAWL_NETWORKFS", 25, 0, 78},
    {"PAWL_READONLY", 26, 1, 77},   {"PAWL_FULL", 27, 1, 74},
    {"PAWL_IO", 28, 1, 74},         {"PAWL_CORRUPT", 29, 0, 65},
    {"PAWL_NOTDURABLE", 30, 0, 78}, {"PAWL_STORAGE", 31, 1, 74},
    {"PAWL_DATA", 32, 0, 65},       {"PAWL_UNREACHABLE", 33, 1, 69},
    {"PAWL_DENIED", 34, 0, 77},     {"PAWL_NODATABASE", 35, 0, 66},
    {"PAWL_POOLER", 36, 0, 78},     {"PAWL_FENCED", 37, 0, 75},
    {"PAWL_REWOUND", 38, 1, 75},
};

static const row TABLE[] = {
#define ROW(name, number, retry, exit_code, text) {"PAWL_" #name, number, retry, exit_code},
    PAWL_CODES(ROW)
#undef ROW
};

enum { COUNT = sizeof CODES / sizeof *CODES };

static void the_table_is_what_it_always_was(void **state)
{
    (void)state;
    assert_int_equal(sizeof TABLE / sizeof *TABLE, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(TABLE[i].name, CODES[i].name);
        if (TABLE[i].number != CODES[i].number)
            fail_msg("%s was %d and is %d", CODES[i].name, CODES[i].number, TABLE[i].number);
        assert_int_equal(TABLE[i].retryable, CODES[i].retryable);
        assert_int_equal(TABLE[i].exit_code, CODES[i].exit_code);
    }
}

static void numbers_and_names_are_unique(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t j = 0; j < i; j++) {
            assert_int_not_equal(TABLE[i].number, TABLE[j].number);
            assert_string_not_equal(TABLE[i].name, TABLE[j].name);
        }
    }
}

static void exit_codes_make_sense(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        const row *r = &TABLE[i];
        if ((r->exit_code == 0) != (r->number == PAWL_OK))
            fail_msg("%s exits with %d", r->name, r->exit_code);
        if (r->exit_code > 78 || (r->exit_code > 2 && r->exit_code < 64))
            fail_msg("%s exits with %d, which sysexits(3) does not know", r->name, r->exit_code);
    }
}

static void functions_answer_from_the_table(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        pawl_code code = (pawl_code)CODES[i].number;
        assert_string_equal(pawl_code_name(code), CODES[i].name);
        assert_int_equal(pawl_code_retryable(code), CODES[i].retryable);
        assert_true(strlen(pawl_code_text(code)) > 0);
    }
    assert_string_equal(pawl_code_text(PAWL_OK), "done");
    assert_string_equal(pawl_code_text(PAWL_FULL), "the disk is full");
}

static void other_numbers_are_no_codes(void **state)
{
    (void)state;
    static const int NUMBERS[] = {-1, 999};
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        pawl_code code = (pawl_code)NUMBERS[i];
        assert_string_equal(pawl_code_name(code), "PAWL_?");
        assert_non_null(pawl_code_text(code));
        assert_int_equal(pawl_code_retryable(code), 0);
    }
}

static void the_version_is_one(void **state)
{
    (void)state;
    int major, minor, patch;
    assert_string_equal(pawl_version(), PAWL_VERSION);
    assert_int_equal(sscanf(pawl_version(), "%d.%d.%d", &major, &minor, &patch), 3);
    assert_int_equal(major * 10000 + minor * 100 + patch, PAWL_VERSION_NUMBER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_what_it_always_was),
        cmocka_unit_test(numbers_and_names_are_unique),
        cmocka_unit_test(exit_codes_make_sense),
        cmocka_unit_test(functions_answer_from_the_table),
        cmocka_unit_test(other_numbers_are_no_codes),
        cmocka_unit_test(the_version_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
