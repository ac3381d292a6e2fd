/* Reading JSON by pointer: what is found, what is not, and that text which is no JSON is never a
 * reason to read on or to crash. Most of it through the public functions, which add the check. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/text.h"

/* ---- pointers ---- */

static const char SHOP[] =
    " { \"shop\" : { \"name\" : \"corner\" , \"open\" : true , \"closed\" : false } ,\n"
    "   \"items\" : [ { \"sku\" : \"tea\" , \"cents\" : 350 } , [ ] , { } , [ 10 , 20 , [ 30 ] ] ] "
    ",\n"
    "   \"\" : { \"\" : \"empty twice\" , \" \" : \"space\" } ,\n"
    "   \"a/b\" : 1 , \"c~d\" : 2 , \"~1\" : 3 , \"/\" : 4 , \"~\" : 5 , \"e%f\" : 6 , \"g\\\"h\" "
    ": 7 ,\n"
    "   \"i\\\\j\" : 8 , \"k\\u002fl\" : 9 , \"caf\\u00e9\" : 10 , \"\\ud83d\\ude00\" : 11 ,\n"
    "   \"0\" : 12 , \"-\" : 13 , \"}\" : 14 , \"\\b\\f\\n\\r\\t\" : 15 , \"na\xC3\xAFve\" : 16 ,\n"
    "   \"nothing\" : null , \"twice\" : 17 , \"twice\" : 18 , \"\\u0074wice\" : 19 , \"[\\\"]\" : "
    "20 ,\n"
    "   \"real\" : -1.5e1 , \"last\" : [ [ [ [ 21 ] ] ] ] } ";

static const struct {
    const char *pointer;
    const char *part; /* NULL: nothing is there */
} FOUND[] = {
    {"/shop/name", "\"corner\""},
    {"/shop/open", "true"},
    {"/shop/closed", "false"},
    {"/items/0", "{ \"sku\" : \"tea\" , \"cents\" : 350 }"},
    {"/items/0/sku", "\"tea\""},
    {"/items/0/cents", "350"},
    {"/items/1", "[ ]"},
    {"/items/2", "{ }"},
    {"/items/3/0", "10"},
    {"/items/3/1", "20"},
    {"/items/3/2", "[ 30 ]"},
    {"/items/3/2/0", "30"},
    {"//", "\"empty twice\""},
    {"// ", "\"space\""},
    {"/a~1b", "1"},
    {"/c~0d", "2"},
    {"/~01", "3"},
    {"/~1", "4"},
    {"/~0", "5"},
    {"/e%f", "6"},
    {"/g\"h", "7"},
    {"/i\\j", "8"},
    {"/k~1l", "9"},
    {"/caf\xC3\xA9", "10"},
    {"/\xF0\x9F\x98\x80", "11"},
    {"/0", "12"},
    {"/-", "13"},
    {"/}", "14"},
    {"/\b\f\n\r\t", "15"},
    {"/na\xC3\xAFve", "16"},
    {"/nothing", "null"},
    {"/twice", "17"},
    {"/[\"]", "20"},
    {"/real", "-1.5e1"},
    {"/last/0/0/0/0", "21"},
    /* no such key, or a key that is only like it */
    {"/sho", NULL},
    {"/shops", NULL},
    {"/Shop", NULL},
    {"/shop ", NULL},
    {"/a", NULL},
    {"/a/b", NULL},
    {"/c~d", NULL},
    {"/k\\u002fl", NULL},
    {"/caf\\u00e9", NULL},
    {"/cafe", NULL},
    {"/g\\\"h", NULL},
    {"/shop/shop", NULL},
    {"/shop/name/", NULL},
    {"/shop/name/0", NULL},
    {"/nothing/x", NULL},
    {"/last/0/0/0/0/0", NULL},
    /* no such index, or none at all */
    {"/items/4", NULL},
    {"/items/-", NULL},
    {"/items/-1", NULL},
    {"/items/+1", NULL},
    {"/items/00", NULL},
    {"/items/01", NULL},
    {"/items/1.0", NULL},
    {"/items/1e0", NULL},
    {"/items/ 1", NULL},
    {"/items/", NULL},
    {"/items/a", NULL},
    {"/items/0x0", NULL},
    {"/items/1/0", NULL},
    {"/items/2/0", NULL},
    {"/items/999999999", NULL},
    {"/items/4294967296", NULL},
    {"/items/18446744073709551616", NULL},
    {"/items/340282366920938463463374607431768211456", NULL},
    /* not a pointer */
    {"shop", NULL},
    {"#/shop", NULL},
    {"0", NULL},
    {" ", NULL},
    {" /shop", NULL},
    {"~", NULL},
    {"/~", NULL},
    {"/~2", NULL},
    {"/c~", NULL},
    {"/~00~", NULL},
};

static void pointers_find_what_they_say(void **state)
{
    (void)state;
    size_t at;
    if (pawl_json_check(SHOP, &at) != PAWL_OK)
        fail_msg("wrong at %zu", at);
    for (size_t i = 0; i < sizeof FOUND / sizeof *FOUND; i++) {
        char out[64];
        int64_t size = pawl_get_json(SHOP, FOUND[i].pointer, out, sizeof out);
        pawl_kind kind = pawl_get_kind(SHOP, FOUND[i].pointer);
        const char *part = FOUND[i].part ? FOUND[i].part : "";
        if (strcmp(out, part) != 0)
            fail_msg("%s: %s, not %s", FOUND[i].pointer, out, part);
        assert_int_equal(size, FOUND[i].part ? (int64_t)strlen(part) : -1);
        assert_int_equal(kind == PAWL_NOTHING, FOUND[i].part == NULL);
    }
}

static void the_empty_pointer_is_the_whole(void **state)
{
    (void)state;
    char out[16];
    assert_int_equal(pawl_get_json(" \n[1, 2]\t ", "", out, sizeof out), 6);
    assert_string_equal(out, "[1, 2]");
    assert_int_equal(pawl_get_int(" 5 ", "", 0), 5);
    assert_int_equal(pawl_get_kind("{}", "/"), PAWL_NOTHING);
    assert_int_equal(pawl_get_kind("5", "/"), PAWL_NOTHING);
    assert_int_equal(pawl_get_kind("{\"\":[]}", "/"), PAWL_ARRAY);
}

/* The first of two members counts, even where the second one would have more to offer. */
static void the_first_of_two_members_counts(void **state)
{
    (void)state;
    assert_int_equal(pawl_get_int("{\"a\":1,\"a\":2}", "/a", 0), 1);
    assert_int_equal(pawl_get_int("{\"a\":{},\"a\":{\"b\":1}}", "/a/b", 0), 0);
    assert_int_equal(pawl_get_int("{\"\\u0061\":1,\"a\":2}", "/a", 0), 1);
    assert_int_equal(pawl_get_count("{\"a\":1,\"a\":2}", ""), 2);
}

/* ---- kinds and values ---- */

static void kinds_and_counts(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        pawl_kind kind;
        int64_t count;
    } cases[] = {
        {"null", PAWL_NULL, -1},
        {"false", PAWL_FALSE, -1},
        {"true", PAWL_TRUE, -1},
        {"-1", PAWL_NUMBER, -1},
        {"0", PAWL_NUMBER, -1},
        {"\"[1,2]\"", PAWL_STRING, -1},
        {"[]", PAWL_ARRAY, 0},
        {"[ ]", PAWL_ARRAY, 0},
        {"[[1,2],[3,4,5]]", PAWL_ARRAY, 2},
        {"[\"],[\",\"\\\\\",\"\\\",\"]", PAWL_ARRAY, 3},
        {"{}", PAWL_OBJECT, 0},
        {"{\"a\":{\"b\":1,\"c\":2},\"}\":[1,2]}", PAWL_OBJECT, 2},
        {"", PAWL_NOTHING, -1},
        {"[1,2", PAWL_NOTHING, -1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_int_equal(pawl_get_kind(cases[i].json, ""), cases[i].kind);
        assert_int_equal(pawl_get_count(cases[i].json, ""), cases[i].count);
    }
    assert_int_equal(pawl_get_count(SHOP, "/items"), 4);
    assert_int_equal(pawl_get_count(SHOP, "/nowhere"), -1);
}

static void members_come_in_their_order(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        const char *members;
    } cases[] = {
        {"{}", ""},
        {"{ }", ""},
        {"[1]", ""},
        {"1", ""},
        {"{\"a\":1}", "\"a\"=1;"},
        {"{ \"a\" : 1 , \"\\\"b\":[1,{\"c\":2}],\"a\":\"x,y\" }",
         "\"a\"=1;\"\\\"b\"=[1,{\"c\":2}];\"a\"=\"x,y\";"},
        {"{\"a\":1", "\"a\"=1;"}, /* cut off: what is there, and no more */
        {"{\"a\":", ""},
        {"{\"a", ""},
        {"{", ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char got[128] = "";
        slice key, part;
        size_t at = 0;
        while (value_member(slice_of(cases[i].json), &at, &key, &part))
            snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s=%.*s;", (int)key.size,
                     key.at, (int)part.size, part.at);
        assert_string_equal(got, cases[i].members);
    }
}

static void integers_have_64_bits_and_no_fraction(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        int64_t value; /* 77: the fallback */
    } cases[] = {
        {"0", 0},
        {"-0", 0},
        {"7", 7},
        {"-42", -42},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775807", -INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
        {"9223372036854775808", 77},
        {"-9223372036854775809", 77},
        {"9223372036854775810", 77},
        {"92233720368547758070", 77},
        {"18446744073709551616", 77},
        {"100000000000000000000000000000000", 77},
        {"1.0", 77},
        {"1e3", 77},
        {"1E0", 77},
        {"0.5", 77},
        {"\"1\"", 77},
        {"true", 77},
        {"null", 77},
        {"[1]", 77},
        {"01", 77},
        {"1 2", 77},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (pawl_get_int(cases[i].json, "", 77) != cases[i].value)
            fail_msg("%s", cases[i].json);
}

static void reals_are_any_number_that_is_finite(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        double value; /* 77: the fallback */
    } cases[] = {
        {"0", 0},
        {"1", 1},
        {"-1.5", -1.5},
        {"1e3", 1000},
        {"1E-3", 0.001},
        {"0.1", 0.1},
        {"9223372036854775808", 9223372036854775808.0},
        {"1.7976931348623157e308", DBL_MAX},
        {"5e-324", 5e-324},
        {"1e-999", 0},
        {"1e999", 77},
        {"-1e999", 77},
        {"1e99999999999999999999999", 77},
        {"nan", 77},
        {"Infinity", 77},
        {"0x10", 77},
        {"\"1\"", 77},
        {"true", 77},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (pawl_get_real(cases[i].json, "", 77) != cases[i].value)
            fail_msg("%s", cases[i].json);
    assert_true(signbit(pawl_get_real("-0", "", 77)));
    assert_true(pawl_get_real("[2.5,3]", "/0", 77) == 2.5);
    assert_true(pawl_get_real("{\"a\":2.5}", "/a", 77) == 2.5);
}

/* More digits than any double has, and more than any buffer on the way might hold. */
static void numbers_may_be_long(void **state)
{
    (void)state;
    enum { DIGITS = 100000 };
    char *text = malloc(DIGITS + 16);
    assert_non_null(text);
    memset(text, '0', DIGITS);
    memcpy(text, "0.", 2);
    snprintf(text + DIGITS, 16, "1");
    assert_true(pawl_get_real(text, "", 77) == 0);
    memset(text, '9', DIGITS);
    text[1] = '.';
    snprintf(text + DIGITS, 16, "e1");
    assert_true(pawl_get_real(text, "", 77) == 100);
    assert_int_equal(pawl_get_int(text, "", 77), 77);
    text[1] = '9';
    text[DIGITS] = '\0';
    assert_true(pawl_get_real(text, "", 77) == 77);
    assert_int_equal(pawl_get_int(text, "", 77), 77);
    free(text);
}

static void booleans_are_only_true_and_false(void **state)
{
    (void)state;
    assert_int_equal(pawl_get_bool("true", "", -1), 1);
    assert_int_equal(pawl_get_bool("false", "", -1), 0);
    static const char *const OTHERS[] = {"null", "0", "1", "\"true\"", "[true]", "{}", "", "tru"};
    for (size_t i = 0; i < sizeof OTHERS / sizeof *OTHERS; i++)
        assert_int_equal(pawl_get_bool(OTHERS[i], "", -1), -1);
}

static void null_arguments_give_the_fallback(void **state)
{
    (void)state;
    static const char *const PAIRS[][2] = {{NULL, ""}, {"1", NULL}, {NULL, NULL}};
    for (size_t i = 0; i < 3; i++) {
        const char *json = PAIRS[i][0], *pointer = PAIRS[i][1];
        char out[4] = "abc";
        assert_int_equal(pawl_get_int(json, pointer, 77), 77);
        assert_true(pawl_get_real(json, pointer, 77) == 77);
        assert_int_equal(pawl_get_bool(json, pointer, 77), 77);
        assert_int_equal(pawl_get_count(json, pointer), -1);
        assert_int_equal(pawl_get_kind(json, pointer), PAWL_NOTHING);
        assert_int_equal(pawl_get_text(json, pointer, out, sizeof out), -1);
        assert_string_equal(out, "");
        out[0] = 'a';
        assert_int_equal(pawl_get_json(json, pointer, out, sizeof out), -1);
        assert_string_equal(out, "");
        assert_int_equal(pawl_get_text(json, pointer, NULL, 9), -1);
        assert_int_equal(pawl_get_json(json, pointer, NULL, 0), -1);
    }
    pawl_free(NULL);
}

/* ---- text ---- */

static void check_text(const char *json, const char *expected)
{
    char out[64];
    int64_t size = pawl_get_text(json, "", out, sizeof out);
    assert_int_equal(size, strlen(expected));
    assert_string_equal(out, expected);
}

static void strings_are_unescaped(void **state)
{
    (void)state;
    check_text("\"\"", "");
    check_text(" \"plain\" ", "plain");
    check_text("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "\"\\/\b\f\n\r\t");
    check_text("\"a\\nb\\\\nc\"", "a\nb\\nc");
    check_text("\"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00!\"",
               "A\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80!");
    check_text("\"\xC3\xA9\\u0001\"", "\xC3\xA9\x01");
    check_text("\"\\uffff\\uD800\\uDC00\\uDBFF\\uDFFF\"",
               "\xEF\xBF\xBF\xF0\x90\x80\x80\xF4\x8F\xBF\xBF");
    char out[8] = "before";
    assert_int_equal(pawl_get_text("[1]", "/0", out, sizeof out), -1);
    assert_string_equal(out, "");
}

/* Each character there is, escaped, against the same character raw; text.c says what UTF-8 is. */
static void every_character_is_unescaped(void **state)
{
    (void)state;
    uint32_t last = 0;
    for (uint32_t point = 1; point <= 0x10FFFF; point++) {
        if (point >= 0xD800 && point <= 0xDFFF)
            continue;
        char json[16], out[8];
        if (point < 0x10000)
            snprintf(json, sizeof json, "\"\\u%04x\"", (unsigned)point);
        else
            snprintf(json, sizeof json, "\"\\u%04X\\u%04x\"",
                     (unsigned)(0xD800 + ((point - 0x10000) >> 10)),
                     (unsigned)(0xDC00 + ((point - 0x10000) & 0x3FF)));
        size_t size = value_unescape(slice_of(json), out, sizeof out);
        assert_int_equal(text_char((slice){out, size}), size);
        uint32_t decoded =
            size == 1 ? (unsigned char)out[0] : (unsigned char)out[0] & (0x7Fu >> size);
        for (size_t i = 1; i < size; i++)
            decoded = decoded << 6 | ((unsigned char)out[i] & 0x3F);
        assert_int_equal(decoded, point);
        last = point;
    }
    assert_int_equal(last, 0x10FFFF);
}

/* In every room from none to enough: as much as fits, whole characters, always a NUL. */
static void text_is_cut_between_characters(void **state)
{
    (void)state;
    static const char JSON[] = "\"a\xC3\xA9\\u20ac\\ud83d\\ude00\xF0\x9F\x98\x80\\nz\"";
    static const char TEXT[] = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80\xF0\x9F\x98\x80\nz";
    size_t full = sizeof TEXT - 1;
    for (size_t room = 0; room <= sizeof TEXT + 1; room++) {
        char *out = malloc(room ? room : 1);
        assert_non_null(out);
        assert_int_equal(pawl_get_text(JSON, "", out, room), full);
        if (room > 0) {
            size_t size = strlen(out);
            assert_true(size < room);
            assert_memory_equal(out, TEXT, size);
            assert_true(text_is_utf8((slice){out, size}));
            assert_true(size == full || size + text_char(slice_of(TEXT + size)) >= room);
        }
        free(out);
    }
    assert_int_equal(pawl_get_text(JSON, "", NULL, 0), full);
}

static void json_is_cut_between_characters(void **state)
{
    (void)state;
    static const char JSON[] = "[\"\xC3\xA9\\n\", 1]";
    for (size_t room = 0; room <= sizeof JSON + 1; room++) {
        char *out = malloc(room ? room : 1);
        assert_non_null(out);
        assert_int_equal(pawl_get_json(JSON, "", out, room), sizeof JSON - 1);
        if (room > 0)
            assert_true(strlen(out) == (room == 4            ? 2
                                        : room > sizeof JSON ? sizeof JSON - 1
                                                             : room - 1));
        free(out);
    }
}

static void text_goes_into_an_arena(void **state)
{
    (void)state;
    arena *a = arena_new(100);
    assert_non_null(a);
    slice part;
    assert_int_equal(value_get("[\"caf\\u00e9\", 1]", "/0", &part), PAWL_STRING);
    assert_string_equal(value_text(a, part), "caf\xC3\xA9");
    char large[200];
    memset(large, 'x', sizeof large);
    large[0] = large[198] = '"';
    large[199] = '\0';
    assert_null(value_text(a, slice_of(large)));
    arena_free(a);
}

/* ---- text that is no JSON ---- */

static void text_that_is_no_json_has_nothing(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {
        "{\"a\":1",
        "{\"a\":1}}",
        "{\"a\":1} x",
        "{\"a\":1,}",
        "{\"a\":1,\"b\":}",
        "{\"a\":1,\"b\":\"\x01\"}",
        "{\"a\":1,\"b\":\"\xFF\"}",
        "{\"a\":1,\"b\":01}",
        "{\"a\":1,\"b\":\"\\ud800\"}",
    };
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        assert_int_equal(pawl_get_kind(TEXTS[i], "/a"), PAWL_NOTHING);
        assert_int_equal(pawl_get_int(TEXTS[i], "/a", 77), 77);
        assert_int_equal(pawl_get_count(TEXTS[i], ""), -1);
    }
}

/* Without the check, too, nothing outside the text is read, and everything comes to an end. */
static void unchecked_text_is_read_safely(void **state)
{
    (void)state;
    static const char BYTES[] = "{}[]\",:\\u0d1e. ";
    static const char *const POINTERS[] = {"", "/", "/0", "/1/0", "/u", "/\\"};
    uint64_t seed = 1;
    for (size_t round = 0; round < 200000; round++) {
        char text[12];
        size_t size = round % (sizeof text + 1);
        for (size_t i = 0; i < size; i++) {
            seed = seed * UINT64_C(6364136223846793005) + 1;
            text[i] = BYTES[(seed >> 33) % (sizeof BYTES - 1)];
        }
        char *exact = malloc(size + 1); /* the NUL is what a number may look at */
        assert_non_null(exact);
        memcpy(exact, text, size);
        exact[size] = '\0';
        slice part;
        char out[4];
        double real;
        int64_t integer;
        pawl_kind kind = value_find((slice){exact, size}, slice_of(POINTERS[round % 6]), &part);
        assert_true(kind == PAWL_NOTHING ? part.size == 0 : part.size > 0);
        assert_true(value_count(part) >= -1);
        assert_true(value_unescape(part, out, sizeof out) <= part.size);
        assert_int_equal(value_copy(part, out, sizeof out), part.size);
        (void)value_int(part, &integer);
        (void)value_real(part, &real);
        free(exact);
    }
}

/* Escapes that break off, in memory of just that size. */
static void unchecked_escapes_are_read_safely(void **state)
{
    (void)state;
    static const char *const STRINGS[] = {
        "\"",          "\"\\\"",        "\"\\u\"",        "\"\\u12\"",
        "\"\\ud800\"", "\"\\ud800\\\"", "\"\\ud800\\u\"", "\"\\ud800\\udc0\"",
        "\"\\uzzzz\"", "\"\\q\"",
    };
    for (size_t i = 0; i < sizeof STRINGS / sizeof *STRINGS; i++) {
        size_t size = strlen(STRINGS[i]);
        char *exact = malloc(size), out[16];
        assert_non_null(exact);
        memcpy(exact, STRINGS[i], size);
        assert_true(value_unescape((slice){exact, size}, out, sizeof out) <= size);
        free(exact);
        char *object = malloc(size + 1 + 4);
        assert_non_null(object);
        snprintf(object, size + 1 + 4, "{%s:1}", STRINGS[i]);
        slice part;
        value_find((slice){object, size + 4}, SLICE_LIT("/x"), &part);
        free(object);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pointers_find_what_they_say),
        cmocka_unit_test(the_empty_pointer_is_the_whole),
        cmocka_unit_test(the_first_of_two_members_counts),
        cmocka_unit_test(kinds_and_counts),
        cmocka_unit_test(members_come_in_their_order),
        cmocka_unit_test(integers_have_64_bits_and_no_fraction),
        cmocka_unit_test(reals_are_any_number_that_is_finite),
        cmocka_unit_test(numbers_may_be_long),
        cmocka_unit_test(booleans_are_only_true_and_false),
        cmocka_unit_test(null_arguments_give_the_fallback),
        cmocka_unit_test(strings_are_unescaped),
        cmocka_unit_test(every_character_is_unescaped),
        cmocka_unit_test(text_is_cut_between_characters),
        cmocka_unit_test(json_is_cut_between_characters),
        cmocka_unit_test(text_goes_into_an_arena),
        cmocka_unit_test(text_that_is_no_json_has_nothing),
        cmocka_unit_test(unchecked_text_is_read_safely),
        cmocka_unit_test(unchecked_escapes_are_read_safely),
    };
    return cmocka_run_group_tests_name("json_read", tests, NULL, NULL);
}
