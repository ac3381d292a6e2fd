/* Is it JSON? Tables of what is and what is not, with the place where it stops being so; and what
 * follows from reading once from left to right: the verdict on a beginning is the verdict on the
 * whole, as far as it goes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

/* In memory of just that size, so that reading on is seen. */
static pawl_code check(const char *text, size_t size, size_t *at)
{
    char *copy = malloc(size ? size : 1);
    assert_non_null(copy);
    memcpy(copy, text, size);
    pawl_code rc = value_check((slice){copy, size}, at);
    free(copy);
    return rc;
}

/* ---- what is JSON ---- */

static const char *const GOOD[] = {
    /* scalars */
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "-1",
    "10",
    "9876543210",
    "0.5",
    "-0.5",
    "1.0",
    "1.250",
    "1e1",
    "1E1",
    "1e+1",
    "1e-1",
    "0e0",
    "0.0e-0",
    "1.5E+10",
    "-1.5e-10",
    "1e999",
    "-1e-999",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775808",
    "123456789012345678901234567890123456789012345678901234567890",
    "0.00000000000000000000000000000000000000000000000000000000001",
    /* white space */
    " null",
    "null ",
    "\n\r\t 1 \t\r\n",
    " \n[ \n1 \n, \n2 \n] \n",
    "\t{\t\"a\"\t:\t1\t,\t\"b\"\t:2\t}\t",
    "[\r\n]",
    "{  }",
    /* strings */
    "\"\"",
    "\"a\"",
    "\"abcdefgh\"",
    "\"abcdefghijklmnopqrstuvwxyz\"",
    "\"it's\"",
    "\"/\"",
    "\"\x7F\"",
    "\"\\\"\"",
    "\"\\\\\"",
    "\"\\/\"",
    "\"\\b\\f\\n\\r\\t\"",
    "\"\\\\\\\"\\\\\"",
    "\"[{,:}]\"",
    "\"\\u0001\"",
    "\"\\u0020\"",
    "\"\\u00e9\"",
    "\"\\u00E9\"",
    "\"\\uABCD\"",
    "\"\\uabcd\"",
    "\"\\uD7FF\"",
    "\"\\uE000\"",
    "\"\\uFFFF\"",
    "\"\\uD800\\uDC00\"",
    "\"\\udbff\\udfff\"",
    "\"\\uD83D\\uDE00!\"",
    "\"\\uD83d\\uDE00\\uD83D\\ude00\"",
    "\"\xC3\xA9\"",
    "\"\xE2\x82\xAC\"",
    "\"\xF0\x9F\x98\x80\"",
    "\"\xEF\xBF\xBF\"",
    "\"\xF4\x8F\xBF\xBF\"",
    "\"\xC2\x80 \xDF\xBF \xE0\xA0\x80 \xED\x9F\xBF\"",
    "\"\xEF\xBB\xBF\"",
    /* arrays and objects */
    "[]",
    "[[]]",
    "[[],[]]",
    "[[[[]]],[[]],[]]",
    "[1]",
    "[1,2]",
    "[null,true,false]",
    "[\"a\",\"b\"]",
    "[{}]",
    "[{},{}]",
    "[{\"a\":[]}]",
    "{}",
    "{\"a\":1}",
    "{\"a\":1,\"b\":2}",
    "{\"\":0}",
    "{\"a\":{}}",
    "{\"a\":{\"b\":{\"c\":null}}}",
    "{\"a\":[1,{\"b\":[]}],\"c\":{}}",
    "{\"a\":1,\"a\":2}",
    "{\"\\u0061\":1,\"a\":2}",
    "{\"a\":\"b\",\"c\":[true,-1.5e3,\"\\n\"]}",
    "[0,-0,0.0]",
};

static void good_text_is_good(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++) {
        size_t at = 12345, size = strlen(GOOD[i]);
        if (check(GOOD[i], size, &at) != PAWL_OK || at != size)
            fail_msg("%s: wrong at %zu", GOOD[i], at);
        assert_int_equal(pawl_json_check(GOOD[i], NULL), PAWL_OK);
    }
}

typedef struct bad {
    const char *text;
    size_t at; /* the first byte that is wrong */
} bad;

static const bad BAD[] = {
    /* nothing, or nothing but space */
    {"", 0},
    {" ", 1},
    {" \t\r\n", 4},
    /* words */
    {"n", 1},
    {"nul", 3},
    {"nulL", 3},
    {"nulll", 4},
    {"Null", 0},
    {"True", 0},
    {"tru", 3},
    {"truE", 3},
    {"falsee", 5},
    {"fals3", 4},
    {"nan", 1},
    {"NaN", 0},
    {"Infinity", 0},
    {"undefined", 0},
    /* numbers */
    {"-", 1},
    {"+1", 0},
    {"-+1", 1},
    {"--1", 1},
    {"01", 1},
    {"-01", 2},
    {"00", 1},
    {".5", 0},
    {"-.5", 1},
    {"1.", 2},
    {"1.e1", 2},
    {"1.5.5", 3},
    {"1e", 2},
    {"1e+", 3},
    {"1e+-1", 3},
    {"1e1.5", 3},
    {"1e1e1", 3},
    {"0x10", 1},
    {"1a", 1},
    {"1_000", 1},
    {"1,5", 1},
    {"1 2", 2},
    {"-Infinity", 1},
    {"- 1", 1},
    /* strings */
    {"\"", 1},
    {"\"abc", 4},
    {"\"abcdefghijklmnop", 17},
    {"'a'", 0},
    {"\"a\"b\"", 3},
    {"\"\\\"", 3},
    {"\"\\", 2},
    {"\"\\a\"", 2},
    {"\"\\'\"", 2},
    {"\"\\0\"", 2},
    {"\"\\x41\"", 2},
    {"\"\\U0041\"", 2},
    {"\"\\\n\"", 2},
    {"\"\\u\"", 3},
    {"\"\\u004\"", 6},
    {"\"\\u004", 6},
    {"\"\\u00g1\"", 5},
    {"\"\\u+041\"", 3},
    {"\"\\u 041\"", 3},
    {"\"a\nb\"", 2},
    {"\"a\tb\"", 2},
    {"\"\x01\"", 1},
    {"\"\x1F\"", 1},
    {"\"abcdefgh\x1F\"", 9},
    /* halves of surrogate pairs, and NUL */
    {"\"\\u0000\"", 6},
    {"\"\\uD800\"", 7},
    {"\"\\uD800", 7},
    {"\"\\uDBFFx\"", 7},
    {"\"\\uD800\\n\"", 8},
    {"\"\\uD800\\u0041\"", 9},
    {"\"\\uD800\\uD800\"", 10},
    {"\"\\uD800\\uDBFF\"", 10},
    {"\"\\uD800\\uE000\"", 9},
    {"\"\\uDC00\"", 4},
    {"\"\\uDFFF\\uD800\"", 4},
    {"\"\\udc00\"", 4},
    /* not UTF-8: the first byte of what is no character */
    {"\"\x80\"", 1},
    {"\"\xBF\"", 1},
    {"\"\xC0\x80\"", 1},
    {"\"\xC1\xBF\"", 1},
    {"\"\xC3\"", 1},
    {"\"\xE0\x80\xAF\"", 1},
    {"\"\xE2\x82\"", 1},
    {"\"\xED\xA0\x80\"", 1},
    {"\"\xED\xBF\xBF\"", 1},
    {"\"\xF0\x8F\xBF\xBF\"", 1},
    {"\"\xF0\x9F\x98\"", 1},
    {"\"\xF4\x90\x80\x80\"", 1},
    {"\"\xF8\x88\x80\x80\x80\"", 1},
    {"\"ab\xFF\"", 3},
    {"\"ab\xFE\"", 3},
    {"\"\xE2\x82", 1},
    {"\xEF\xBB\xBF"
     "1",
     0},
    {"\xC2\xA0"
     "1",
     0},
    {"[\xFF]", 1},
    {"{\"\xFF\":1}", 2},
    /* white space that is none */
    {"\v1", 0},
    {"1\f", 1},
    {"/* */1", 0},
    {"1//", 1},
    {"# 1", 0},
    /* arrays */
    {"[", 1},
    {"]", 0},
    {"[1", 2},
    {"[1,", 3},
    {"[,", 1},
    {"[,1]", 1},
    {"[1,]", 3},
    {"[1,,2]", 3},
    {"[1 2]", 3},
    {"[1:2]", 2},
    {"[1}", 2},
    {"[1]]", 3},
    {"[1],", 3},
    {"[[]", 3},
    {"[nul]", 4},
    {"[\"a\"", 4},
    {"[]{}", 2},
    {"[{]", 2},
    /* objects */
    {"{", 1},
    {"}", 0},
    {"{]", 1},
    {"{1:2}", 1},
    {"{a:1}", 1},
    {"{'a':1}", 1},
    {"{null:1}", 1},
    {"{\"a\"}", 4},
    {"{\"a\"", 4},
    {"{\"a\":", 5},
    {"{\"a\":}", 5},
    {"{\"a\" 1}", 5},
    {"{\"a\",1}", 4},
    {"{\"a\"::1}", 5},
    {"{\"a\":1", 6},
    {"{\"a\":1,", 7},
    {"{\"a\":1,}", 7},
    {"{,\"a\":1}", 1},
    {"{\"a\":1,,\"b\":2}", 7},
    {"{\"a\":1 \"b\":2}", 7},
    {"{\"a\":1]", 6},
    {"{\"a\":1}}", 7},
    {"{\"a\":[1}", 7},
    {"{\"a\":[1,2}]", 9},
    {"{{}:1}", 1},
    {"{[]:1}", 1},
};

static void bad_text_is_bad_at_its_first_wrong_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++) {
        size_t at = 12345;
        pawl_code rc = check(BAD[i].text, strlen(BAD[i].text), &at);
        if (rc != PAWL_INVALID || at != BAD[i].at)
            fail_msg("%s: %s at %zu, not at %zu", BAD[i].text, pawl_code_name(rc), at, BAD[i].at);
        assert_int_equal(pawl_json_check(BAD[i].text, NULL), PAWL_INVALID);
    }
}

static void a_nul_is_nowhere_allowed(void **state)
{
    (void)state;
    static const char TEXT[] = "{\"key\": [1, true, \"text\"], \"b\": -1.5e3}";
    for (size_t i = 0; i < sizeof TEXT; i++) {
        char text[sizeof TEXT];
        memcpy(text, TEXT, sizeof TEXT);
        text[i] = '\0';
        size_t at;
        assert_int_equal(check(text, sizeof text, &at), PAWL_INVALID);
        assert_int_equal(at, i);
    }
}

static void null_is_no_json(void **state)
{
    (void)state;
    size_t at = 12345;
    assert_int_equal(pawl_json_check(NULL, &at), PAWL_INVALID);
    assert_int_equal(at, 0);
    assert_int_equal(pawl_json_check(NULL, NULL), PAWL_INVALID);
    assert_int_equal(value_check((slice){NULL, 0}, NULL), PAWL_INVALID);
}

/* ---- beginnings ---- */

/* Every beginning of a text is right as far as the text is, and wrong nowhere before its end.
 * A character that was cut is reported where it begins, so up to three bytes may be missing. */
static void check_beginnings(const char *text, size_t wrong)
{
    for (size_t size = 0; size <= strlen(text); size++) {
        size_t at;
        pawl_code rc = check(text, size, &at);
        if (size > wrong) {
            assert_int_equal(rc, PAWL_INVALID);
            assert_int_equal(at, wrong);
        } else if (rc != PAWL_OK) {
            assert_int_equal(rc, PAWL_INVALID);
            while (at < size && (unsigned char)text[at] >= 0x80 && size - at < 4)
                at++;
            assert_int_equal(at, size);
        }
    }
}

static void beginnings_are_judged_like_the_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof GOOD / sizeof *GOOD; i++)
        check_beginnings(GOOD[i], strlen(GOOD[i]));
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        check_beginnings(BAD[i].text, BAD[i].at);
}

static void a_cut_document_is_invalid(void **state)
{
    (void)state;
    static const char *const DOCUMENTS[] = {
        "{\"id\":\"order-1\",\"items\":[{\"sku\":\"a/"
        "b\",\"n\":2},{\"sku\":\"\\u00e9\",\"n\":-1.5e+3}],"
        "\"paid\":true,\"note\":null}",
        "[[[[\"deep\"],{}],[]],false]",
        "\"caf\xC3\xA9 \\uD83D\\uDE00 \xF0\x9F\x98\x80 and a long tail of plain text\"",
    };
    for (size_t i = 0; i < sizeof DOCUMENTS / sizeof *DOCUMENTS; i++) {
        size_t size = strlen(DOCUMENTS[i]);
        assert_int_equal(check(DOCUMENTS[i], size, NULL), PAWL_OK);
        for (size_t cut = 0; cut < size; cut++)
            assert_int_equal(check(DOCUMENTS[i], cut, NULL), PAWL_INVALID);
        check_beginnings(DOCUMENTS[i], size);
    }
}

/* ---- strings, eight bytes at a time ---- */

/* Each byte at each place among plain ones, before and behind the end of the last eight. */
static void every_byte_is_seen_in_every_place(void **state)
{
    (void)state;
    for (unsigned c = 0; c < 256; c++) {
        for (size_t size = 1; size <= 24; size++) {
            for (size_t place = 0; place < size; place++) {
                char text[26];
                memset(text, 'a', sizeof text);
                text[0] = text[size + 1] = '"';
                text[place + 1] = (char)c;
                int good = c >= 0x20 && c < 0x80 && c != '"' && c != '\\';
                /* What the backslash takes along is an 'a', or the closing quote. */
                size_t expected = good        ? size + 2
                                  : c == '\\' ? place + 2 + (place + 1 == size)
                                  : c == '"'  ? place + 2
                                              : place + 1;
                size_t at;
                pawl_code rc = check(text, size + 2, &at);
                assert_int_equal(rc, good ? PAWL_OK : PAWL_INVALID);
                assert_int_equal(at, expected);
            }
        }
    }
}

/* ---- limits ---- */

static char *nested(size_t depth, const char *open, const char *close, const char *inside)
{
    size_t one = strlen(open), other = strlen(close), middle = strlen(inside);
    char *text = malloc(depth * (one + other) + middle + 1);
    assert_non_null(text);
    for (size_t i = 0; i < depth; i++) {
        memcpy(text + i * one, open, one);
        memcpy(text + depth * one + middle + i * other, close, other);
    }
    memcpy(text + depth * one, inside, middle);
    text[depth * (one + other) + middle] = '\0';
    return text;
}

static void check_depth(size_t depth, const char *open, const char *close, const char *inside,
                        size_t bracket)
{
    char *text = nested(depth, open, close, inside);
    size_t at, size = strlen(text);
    pawl_code rc = value_check((slice){text, size}, &at);
    if (depth <= PAWL_MAX_DEPTH) {
        assert_int_equal(rc, PAWL_OK);
        assert_int_equal(at, size);
    } else {
        assert_int_equal(rc, PAWL_LIMIT);
        assert_int_equal(at, PAWL_MAX_DEPTH * strlen(open) + bracket);
    }
    free(text);
}

static void the_depth_limit_is_exact(void **state)
{
    (void)state;
    static const size_t DEPTHS[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, 1000000};
    for (size_t i = 0; i < sizeof DEPTHS / sizeof *DEPTHS; i++) {
        check_depth(DEPTHS[i], "[", "]", "", 0);
        check_depth(DEPTHS[i], "[", "]", "1", 0);
        check_depth(DEPTHS[i], "{\"a\":", "}", "null", 0);
        check_depth(DEPTHS[i], " [ ", " ] ", " \"[[[[\" ", 1);
    }
}

static void brackets_side_by_side_are_not_deep(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    char *text = malloc(COUNT * 3 + 2);
    assert_non_null(text);
    for (size_t i = 0; i < COUNT; i++)
        memcpy(text + i * 3, i % 2 ? ",{}" : ",[]", 3);
    text[0] = '[';
    text[COUNT * 3] = ']';
    text[COUNT * 3 + 1] = '\0';
    assert_int_equal(pawl_json_check(text, NULL), PAWL_OK);
    free(text);
}

static void the_size_limit_is_exact(void **state)
{
    (void)state;
    size_t size = PAWL_MAX_PAYLOAD, at;
    char *text = malloc(size + 2);
    assert_non_null(text);
    memset(text, 'a', size + 2);
    text[0] = text[size - 1] = '"';
    text[size] = '\0';
    assert_int_equal(pawl_json_check(text, &at), PAWL_OK);
    assert_int_equal(at, size);
    text[size - 1] = 'a';
    text[size] = '"';
    text[size + 1] = '\0';
    assert_int_equal(pawl_json_check(text, &at), PAWL_LIMIT);
    assert_int_equal(at, size);
    free(text);
}

/* Text from outside may claim any size: beyond the limit, its bytes are not looked at. */
static void too_large_text_is_not_read(void **state)
{
    (void)state;
    assert_int_equal(value_check((slice){"", SIZE_MAX}, NULL), PAWL_LIMIT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_text_is_good),
        cmocka_unit_test(bad_text_is_bad_at_its_first_wrong_byte),
        cmocka_unit_test(a_nul_is_nowhere_allowed),
        cmocka_unit_test(null_is_no_json),
        cmocka_unit_test(beginnings_are_judged_like_the_whole),
        cmocka_unit_test(a_cut_document_is_invalid),
        cmocka_unit_test(every_byte_is_seen_in_every_place),
        cmocka_unit_test(the_depth_limit_is_exact),
        cmocka_unit_test(brackets_side_by_side_are_not_deep),
        cmocka_unit_test(the_size_limit_is_exact),
        cmocka_unit_test(too_large_text_is_not_read),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
