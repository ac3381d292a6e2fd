/* Are two JSON texts the same value? Each rule of the canonical form by examples; then numbers that
 * are written in several ways, and values that jansson writes anew in another order and with other
 * escapes, which must be the same, and values that jansson finds different. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_canonical.h"

static unsigned below(random_seeded *r, unsigned bound)
{
    uint32_t bits;
    assert_int_equal(r->source.fill(&r->source, &bits, sizeof bits), 0);
    return (unsigned)(((uint64_t)bits * bound) >> 32);
}

static void expect_form(const char *json, const char *wanted, int line)
{
    buf b;
    buf_init(&b, 1 << 20);
    pawl_code rc = value_canonical(&b, slice_of(json));
    if (rc != PAWL_OK || strcmp(buf_str(&b), wanted) != 0)
        fail_msg("line %d: %s: expected %s, got %s (%s)", line, json, wanted, buf_str(&b),
                 pawl_code_name(rc));
    buf_free(&b);
}

#define FORM(json, wanted) expect_form(json, wanted, __LINE__)

static int same(const char *a, const char *b)
{
    int answer = value_is_same(slice_of(a), slice_of(b));
    assert_int_equal(answer, value_is_same(slice_of(b), slice_of(a)));
    return answer;
}

/* ---- By examples ---- */

static void blanks_and_order_do_not_matter(void **state)
{
    (void)state;
    FORM(" [ 1 , { } , [ ] ,\n{ \"b\" : null ,\t\"a\" : [ true , false ] } ]\r\n",
         "[1,{},[],{\"a\":[true,false],\"b\":null}]");
    assert_int_equal(same("{\"a\":1,\"b\":2}", "{ \"b\": 2, \"a\": 1 }"), 1);
    assert_int_equal(same("{\"a\":{\"x\":1,\"y\":2},\"b\":0}", "{\"b\":0,\"a\":{\"y\":2,\"x\":1}}"),
                     1);
    assert_int_equal(same("[1,2]", "[2,1]"), 0); /* there it does */
    assert_int_equal(same("{\"a\":1}", "{\"a\":1,\"b\":null}"), 0);
    assert_int_equal(same("{\"a\":1}", "{\"b\":1}"), 0);
    assert_int_equal(same("{}", "[]"), 0);
    assert_int_equal(same("null", "false"), 0);
    assert_int_equal(same("[[1],2]", "[[1,2]]"), 0);
}

/* As the reader has it: of members with the same key the first one counts. */
static void the_first_of_equal_keys_counts(void **state)
{
    (void)state;
    FORM("{\"b\":0,\"a\":1,\"a\":2,\"\\u0061\":3}", "{\"a\":1,\"b\":0}");
    assert_int_equal(same("{\"a\":1,\"a\":2}", "{\"a\":1}"), 1);
    assert_int_equal(same("{\"a\":1,\"a\":2}", "{\"a\":2,\"a\":1}"), 0);
}

static void strings_are_their_characters(void **state)
{
    (void)state;
    FORM("\"\\u0041\\u00e9\\/\\ud83d\\ude00\"", "\"A\xC3\xA9/\xF0\x9F\x98\x80\"");
    FORM("\"\\u000a\\n\\\"\\u0022\\\\\\u0001\"", "\"\\n\\n\\\"\\\"\\\\\\u0001\"");
    assert_int_equal(same("\"a\\/b\"", "\"a/b\""), 1);
    assert_int_equal(same("\"\"", "\"\\u0020\""), 0);
    assert_int_equal(same("\"1\"", "1"), 0);
    assert_int_equal(same("\"\xC3\xA9\"", "\"e\xCC\x81\""), 0); /* not the same code points */
}

static void numbers_are_their_values(void **state)
{
    (void)state;
    static const char *const ONE[] = {"1",     "1.0",   "1e0",     "1E+0",       "1.000e000",
                                      "10e-1", "0.1e1", "0.001e3", "1000000e-6", "1e-0"};
    for (size_t i = 0; i < sizeof ONE / sizeof *ONE; i++)
        FORM(ONE[i], "1");
    static const char *const ZERO[] = {"0",      "-0",  "0.0",
                                       "-0.000", "0e5", "0E-999999999999999999999"};
    for (size_t i = 0; i < sizeof ZERO / sizeof *ZERO; i++)
        FORM(ZERO[i], "0");
    FORM("-1.50", "-15e-1");
    FORM("100", "100");
    FORM("1e2", "100");
    FORM("12345678901234567890", "12345678901234567890");
    FORM("123456789012345678901", "123456789012345678901e0");
    FORM("0.1", "1e-1");
    FORM("0.10000000000000000000000000001", "10000000000000000000000000001e-29");
    FORM("1e99999999999999999", "1e99999999999999999");
    assert_int_equal(same("9007199254740993", "9007199254740992"), 0); /* one as doubles */
    assert_int_equal(same("0.1", "0.1000000000000000055511151231257827"), 0);
    assert_int_equal(same("1e400", "1e401"), 0); /* neither is a double */
    assert_int_equal(same("1e400", "10e399"), 1);
    assert_int_equal(same("1e-400", "0"), 0);
    assert_int_equal(same("1", "-1"), 0);
    assert_int_equal(same("1e99999999999999999999", "1.0e+99999999999999999999"), 1);
    assert_int_equal(same("1e99999999999999999999", "1e99999999999999999998"), 0);
    assert_int_equal(same("1e99999999999999999999", "1e-99999999999999999999"), 0);
}

static void what_is_no_value_is_the_same_as_nothing_else(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 1 << 20);
    assert_int_equal(value_canonical(&b, slice_of("")), PAWL_INVALID);
    assert_int_equal(value_is_same((slice){NULL, 0}, slice_of("1")), 0);
    assert_int_equal(value_is_same(slice_of("1"), slice_of("{\"a\"")), 0);
    buf_free(&b);
    char deep[4 * PAWL_MAX_DEPTH + 1];
    memset(deep, '[', 2 * (size_t)PAWL_MAX_DEPTH);
    memset(deep + 2 * (size_t)PAWL_MAX_DEPTH, ']', 2 * (size_t)PAWL_MAX_DEPTH);
    deep[sizeof deep - 1] = '\0';
    buf_init(&b, 1 << 20);
    assert_int_equal(value_canonical(&b, slice_of(deep)), PAWL_INVALID);
    buf_free(&b);
    deep[3 * PAWL_MAX_DEPTH] = '\0'; /* as deep as is allowed */
    FORM(deep + PAWL_MAX_DEPTH, deep + PAWL_MAX_DEPTH);
}

/* ---- Numbers, written at random ---- */

/* The digits with the point `shift` places further left, some zeros around, and the exponent that
 * makes up for it. */
static void write_number(random_seeded *r, char *out, size_t room, const char *digits, int power)
{
    int size = (int)strlen(digits), shift = (int)below(r, (unsigned)size + 6);
    char text[128];
    int zeros = shift >= size ? shift - size + 1 : 0;
    snprintf(text, sizeof text, "%.*s%s%.*s", zeros, "0000000000", digits, (int)below(r, 4), "000");
    int added = (int)strlen(text) - size - zeros;
    int places = shift + added;
    int before = (int)strlen(text) - places;
    snprintf(out, room, "%.*s%s%s%c%s%d", before, text, places ? "." : "", text + before,
             "eE"[below(r, 2)], power + shift >= 0 && below(r, 2) ? "+" : "", power + shift);
}

static void numbers_in_many_forms(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 1);
    for (int i = 0; i < 20000; i++) {
        char digits[40], other[40], a[256], b[256];
        size_t size = 1 + below(&r, 30);
        for (size_t j = 0; j < size; j++)
            digits[j] = (char)('0' + below(&r, 10));
        digits[0] = (char)('1' + below(&r, 9));
        digits[size] = '\0';
        memcpy(other, digits, sizeof other);
        other[size - 1] = digits[size - 1] == '9' ? '8' : (char)(digits[size - 1] + 1);
        int power = (int)below(&r, 40) - 20;
        write_number(&r, a, sizeof a, digits, power);
        write_number(&r, b, sizeof b, digits, power);
        assert_int_equal(value_check(slice_of(a), NULL), PAWL_OK);
        if (!same(a, b))
            fail_msg("%s and %s are the same number", a, b);
        write_number(&r, b, sizeof b, digits, power + 1);
        if (same(a, b))
            fail_msg("%s and %s are not the same number", a, b);
        if (other[0] != '0') {
            write_number(&r, b, sizeof b, other, power);
            if (same(a, b))
                fail_msg("%s and %s are not the same number", a, b);
        }
    }
}

/* ---- A second opinion ---- */

static json_t *make_value(random_seeded *r, unsigned depth)
{
    static const char *const TEXTS[] = {"",
                                        "a",
                                        "b",
                                        "ab",
                                        "\"",
                                        "\\",
                                        "\n",
                                        "\x01",
                                        "\xC3\xA9",
                                        "\xF0\x9F\x98\x80",
                                        "\xEF\xBF\xBD",
                                        "/"};
    enum { COUNT = sizeof TEXTS / sizeof *TEXTS };
    unsigned kind = below(r, depth > 0 ? 6 : 4);
    json_t *made = NULL;
    if (kind == 0)
        return json_string(TEXTS[below(r, COUNT)]);
    if (kind == 1)
        return json_integer((json_int_t)below(r, 4) - 1);
    if (kind < 4)
        return below(r, 3) ? json_boolean(below(r, 2)) : json_null();
    made = kind == 4 ? json_array() : json_object();
    for (unsigned n = below(r, 4); n > 0; n--) {
        if (kind == 4)
            json_array_append_new(made, make_value(r, depth - 1));
        else
            json_object_set_new(made, TEXTS[below(r, COUNT)], make_value(r, depth - 1));
    }
    return made;
}

/* Members as they were put in, or sorted; blanks, or none; escapes, or none. */
static char *write_value(random_seeded *r, const json_t *value)
{
    size_t flags = JSON_ENCODE_ANY;
    flags |= below(r, 2) ? JSON_SORT_KEYS : 0;
    flags |= below(r, 2) ? JSON_ENSURE_ASCII : 0;
    flags |= below(r, 2) ? JSON_ESCAPE_SLASH : 0;
    flags |= below(r, 2) ? JSON_COMPACT : JSON_INDENT(below(r, 4));
    char *text = json_dumps(value, flags);
    assert_non_null(text);
    return text;
}

static void jansson_agrees(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 2);
    int equal = 0;
    for (int i = 0; i < 30000; i++) {
        json_t *left = make_value(&r, 3), *right = make_value(&r, 3);
        char *a = write_value(&r, left), *again = write_value(&r, left),
             *b = write_value(&r, right);
        if (same(a, again) != 1)
            fail_msg("%s\nand\n%s\nare the same", a, again);
        if (same(a, b) != json_equal(left, right))
            fail_msg("%s\nand\n%s\nare %sthe same", a, b, json_equal(left, right) ? "" : "not ");
        equal += json_equal(left, right);
        free(a);
        free(again);
        free(b);
        json_decref(left);
        json_decref(right);
    }
    assert_true(equal > 100 && equal < 29000);
}

/* The canonical form is JSON, is the same value, and is its own canonical form. */
static void the_form_is_stable(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 3);
    for (int i = 0; i < 5000; i++) {
        json_t *value = make_value(&r, 4);
        char *text = write_value(&r, value);
        buf b;
        buf_init(&b, 1 << 20);
        assert_int_equal(value_canonical(&b, slice_of(text)), PAWL_OK);
        assert_int_equal(value_check((slice){b.at, b.size}, NULL), PAWL_OK);
        assert_int_equal(same(text, buf_str(&b)), 1);
        FORM(buf_str(&b), buf_str(&b));
        buf_free(&b);
        free(text);
        json_decref(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blanks_and_order_do_not_matter),
        cmocka_unit_test(the_first_of_equal_keys_counts),
        cmocka_unit_test(strings_are_their_characters),
        cmocka_unit_test(numbers_are_their_values),
        cmocka_unit_test(what_is_no_value_is_the_same_as_nothing_else),
        cmocka_unit_test(numbers_in_many_forms),
        cmocka_unit_test(jansson_agrees),
        cmocka_unit_test(the_form_is_stable),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
