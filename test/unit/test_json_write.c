/* Writing JSON from a format: a table of formats and results; and that no argument, whatever is in
 * it, can be more than the one value that its place in the format allows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/json_write.h"

/* What the format gives; NULL: an error. */
#define WRITES(expected, ...) check_written(__LINE__, expected, pawl_json_new(__VA_ARGS__))

static void check_written(int line, const char *expected, char *got)
{
    const char *shown = got ? got : "an error";
    if (strcmp(shown, expected ? expected : "an error") != 0)
        fail_msg("line %d: %s", line, shown);
    pawl_free(got);
}

static void plain_formats(void **state)
{
    (void)state;
    WRITES("null", "null");
    WRITES("{}", "{}");
    WRITES("{\"a\":[1,true,\"b\"]}", "{'a':[1,true,'b']}");
    WRITES(" [ ] ", " [ ] ");
    WRITES("\"\"", "''");
    WRITES("\"100 %\"", "'100 %%'");
    WRITES("\"it's\"", "'it\\'s'");
    WRITES("[\"'\",\"'\"]", "['\\'','\\'']");
    WRITES("\"\\n\\\\\\\"\\u00e9\"", "'\\n\\\\\\\"\\u00e9'");
    WRITES("[\"\\\\\",1]", "['\\\\',1]"); /* the second quote is not escaped: the backslash is */
    WRITES("{\"a\":\"b\"}", "{\"a\":\"b\"}");
    WRITES("\"caf\xC3\xA9\"", "'caf\xC3\xA9'");
}

static void formats_that_are_errors(void **state)
{
    (void)state;
    WRITES(NULL, "");
    WRITES(NULL, " ");
    WRITES(NULL, "{'a':1");
    WRITES(NULL, "{'a':1,}");
    WRITES(NULL, "'");
    WRITES(NULL, "'a");
    WRITES(NULL, "'it's'");
    WRITES(NULL, "nul");
    WRITES(NULL, "1 2");
    WRITES(NULL, "\\'");
    WRITES(NULL, "'\\");
    WRITES(NULL, "'\\q'");
    WRITES(NULL, "'\\ud800'");
    WRITES(NULL, "'\xFF'");
    WRITES(NULL, "'a\nb'");
    char *none = NULL;
    WRITES(NULL, none);
}

static void unknown_conversions_are_errors(void **state)
{
    (void)state;
    static const char *const FORMATS[] = {
        "%",   "'%'", "'%",   "%I",  "%u",  "%x",  "%c",     "%f",    "%e",      "%p",  "%n",
        "%S",  "%D",  "%l",   "%ll", "%li", "%ls", "%lld%l", "%llld", "%zd",     "%hd", "%5d",
        "%-d", "% d", "%.2g", "%*d", "%lg", "%Lg", "%1$d",   "%\xFF", "[%d,%q]",
    };
    for (size_t i = 0; i < sizeof FORMATS / sizeof *FORMATS; i++) {
        char *got = pawl_json_new(FORMATS[i], 1LL, 1LL, 1LL);
        if (got)
            fail_msg("%s: %s", FORMATS[i], got);
    }
}

static void numbers_and_booleans(void **state)
{
    (void)state;
    WRITES("[1,-2,3]", "[%d,%ld,%lld]", 1, -2L, 3LL);
    WRITES("[2147483647,-2147483648]", "[%d,%d]", INT_MAX, INT_MIN);
    WRITES("[9223372036854775807,-9223372036854775808]", "[%lld,%lld]", LLONG_MAX, LLONG_MIN);
    WRITES("[9223372036854775807,-9223372036854775808]", "[%" PRId64 ",%" PRId64 "]", INT64_MAX,
           INT64_MIN);
    WRITES(NULL, "%i", 1); /* which printf reads as an int: 64 bits are asked for by their name */
    WRITES(NULL, "%lli", 1LL);
    WRITES("[true,false,true,true]", "[%b,%b,%b,%b]", 1, 0, -1, 256);
    WRITES("[0,-0,0.1,1e+100,1.5,-2,0.30000000000000004]", "[%g,%g,%g,%g,%g,%g,%g]", 0.0, -0.0, 0.1,
           1e100, 1.5, -2.0, 0.1 + 0.2);
    WRITES(NULL, "%g", INFINITY);
    WRITES(NULL, "%g", -INFINITY);
    WRITES(NULL, "'%g'", NAN);
    WRITES("\"order-7: 0.5, true\"", "'order-%d: %g, %b'", 7, 0.5, 1);
    WRITES("{\"7\":8}", "{'%d':%d}", 7, 8);
}

static void strings_are_escaped_and_quoted_where_needed(void **state)
{
    (void)state;
    char *none = NULL;
    WRITES("\"a\"", "%s", "a");
    WRITES("\"\"", "%s", "");
    WRITES("null", "%s", none);
    WRITES("{\"id\":\"x\",\"n\":null}", "{'id':%s,'n':%s}", "x", none);
    WRITES("\"Hello, you!\"", "'Hello, %s!'", "you");
    WRITES("\"Hello, null!\"", "'Hello, %s!'", none);
    WRITES("[\"a\",\"bc\"]", "[%s,'%s%s']", "a", "b", "c");
    WRITES("{\"key\":1}", "{%s:1}", "key");
    WRITES("\"\\\"\\\\/'%d\"", "%s", "\"\\/'%d");
    WRITES("\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7F\"", "%s", "\b\f\n\r\t\x01\x1F\x7F");
    WRITES("\"\xC3\xA9\xF0\x9F\x98\x80\"", "%s", "\xC3\xA9\xF0\x9F\x98\x80");
    WRITES(NULL, "%s", "\xFF");
    WRITES(NULL, "%s", "\xC3");
    WRITES(NULL, "'%s'", "\xED\xA0\x80");
    WRITES(NULL, "%s%s", "a", "b");
    WRITES("[\"a\\\"b\",\"\\\"c\"]", "[\"a\\\"%s\",\"%sc\"]", "b", "\"");
}

static void json_is_put_in_as_it_is(void **state)
{
    (void)state;
    char *none = NULL;
    WRITES("[1]", "[%j]", "1");
    WRITES("[null]", "[%j]", none);
    WRITES("{\"stock\": {\"a\" : [ ] } }", "{'stock':%j}", " {\"a\" : [ ] } ");
    WRITES("\"it's 5 %s\"", "%j", "\"it's 5 %s\"");
    WRITES(NULL, "[%j]", "");
    WRITES(NULL, "[%j]", "1,2");
    WRITES(NULL, "[%j]", "'a'");
    WRITES(NULL, "{'a':%j}", "1,\"admin\":true");
    WRITES(NULL, "[%j", "1]");
    /* Two strings and a comma, if it were let into the quotes. */
    WRITES(NULL, "['%j']", "\",\"");
    WRITES(NULL, "['%j']", "1");
}

/* Every short string of what could do harm, in every place, reads back as itself. */
static void no_string_leaves_its_place(void **state)
{
    (void)state;
    static const char BYTES[] = "\"\\'%su,:}]\n";
    enum { COUNT = sizeof BYTES - 1 };
    for (size_t i = 0; i < (size_t)COUNT * COUNT * COUNT; i++) {
        char text[4] = {BYTES[i % COUNT], BYTES[i / COUNT % COUNT], BYTES[i / COUNT / COUNT], 0};
        char out[16];
        char *json = pawl_json_new("{%s:%s,'b':'-%s-','c':1}", text, text, text);
        assert_non_null(json);
        assert_int_equal(pawl_get_count(json, ""), 3);
        assert_int_equal(pawl_get_int(json, "/c", 0), 1);
        pawl_get_text(json, "/b", out, sizeof out);
        assert_int_equal(out[0], '-');
        assert_memory_equal(out + 1, text, 3);
        assert_string_equal(out + 4, "-");
        pawl_free(json);
    }
}

/* A backslash in front of an argument would meet its first escape and undo it. */
static void a_backslash_before_an_argument_is_an_error(void **state)
{
    (void)state;
    WRITES(NULL, "['\\%s']", "\",\"");
    WRITES(NULL, "['\\%s']", "n");
    WRITES(NULL, "'\\%%'");
    WRITES(NULL, "'\\u%s'", "\"");
    WRITES("\"\\u00e9\"", "'\\u%s'", "00e9");
}

/* ---- limits ---- */

static char *filled(size_t size)
{
    char *text = malloc(size + 1);
    assert_non_null(text);
    memset(text, 'a', size);
    text[size] = '\0';
    return text;
}

static void the_result_has_a_limit(void **state)
{
    (void)state;
    char *text = filled(PAWL_MAX_PAYLOAD - 2);
    char *json = pawl_json_new("%s", text);
    assert_non_null(json);
    assert_int_equal(strlen(json), PAWL_MAX_PAYLOAD);
    assert_null(pawl_json_new("[%j]", json));
    assert_null(pawl_json_new("'%sa'", text));
    assert_null(pawl_json_new("['%s',%s]", text, text));
    pawl_free(json);
    text[0] = '\n';
    assert_null(pawl_json_new("%s", text));
    free(text);
}

static void the_result_has_a_depth(void **state)
{
    (void)state;
    char json[2 * PAWL_MAX_DEPTH + 1] = "";
    memset(json, '[', PAWL_MAX_DEPTH);
    memset(json + PAWL_MAX_DEPTH, ']', PAWL_MAX_DEPTH);
    WRITES(json, "%j", json);
    WRITES(NULL, "[%j]", json);
}

/* ---- what the engine uses ---- */

static pawl_code write_to(buf *b, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    pawl_code rc = value_write(b, format, args);
    va_end(args);
    return rc;
}

static char *write_arena(arena *a, error *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *out = value_write_arena(a, err, format, args);
    va_end(args);
    return out;
}

static void codes_say_what_was_wrong(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 10);
    assert_int_equal(write_to(&b, "[%d]", 1), PAWL_OK);
    assert_string_equal(buf_str(&b), "[1]");
    assert_int_equal(write_to(&b, "%s", "two"), PAWL_OK); /* added, and only itself checked */
    assert_string_equal(buf_str(&b), "[1]\"two\"");
    assert_int_equal(write_to(&b, "%s", "three"), PAWL_LIMIT);
    buf_free(&b);
    assert_int_equal(write_to(&b, "%q"), PAWL_INVALID);
    buf_free(&b);
    assert_int_equal(write_to(&b, NULL), PAWL_INVALID);
    assert_int_equal(write_to(&b, ""), PAWL_INVALID);
    buf_free(&b);
}

static void json_goes_into_an_arena(void **state)
{
    (void)state;
    arena *a = arena_new(64);
    assert_non_null(a);
    error err = {0};
    assert_string_equal(write_arena(a, &err, "{'a':%s}", "b"), "{\"a\":\"b\"}");
    assert_int_equal(err.code, PAWL_OK);
    assert_null(write_arena(a, &err, "{'a':%s", "b"));
    assert_int_equal(err.code, PAWL_INVALID);
    assert_string_equal(err.message, "the value is not JSON (at its byte 8)");
    assert_null(write_arena(a, NULL, "%q"));
    char *text = filled(100);
    assert_null(write_arena(a, &err, "%s", text));
    assert_int_equal(err.code, PAWL_NOMEM);
    free(text);
    arena_free(a);
}

static void text_is_quoted(void **state)
{
    (void)state;
    buf b;
    buf_init(&b, 100);
    value_quote(&b, SLICE_LIT("a\"\0b\n"));
    value_escape(&b, (slice){NULL, 0});
    assert_string_equal(buf_str(&b), "\"a\\\"\\u0000b\\n\"");
    buf_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_formats),
        cmocka_unit_test(formats_that_are_errors),
        cmocka_unit_test(unknown_conversions_are_errors),
        cmocka_unit_test(numbers_and_booleans),
        cmocka_unit_test(strings_are_escaped_and_quoted_where_needed),
        cmocka_unit_test(json_is_put_in_as_it_is),
        cmocka_unit_test(no_string_leaves_its_place),
        cmocka_unit_test(a_backslash_before_an_argument_is_an_error),
        cmocka_unit_test(the_result_has_a_limit),
        cmocka_unit_test(the_result_has_a_depth),
        cmocka_unit_test(codes_say_what_was_wrong),
        cmocka_unit_test(json_goes_into_an_arena),
        cmocka_unit_test(text_is_quoted),
    };
    return cmocka_run_group_tests_name("json_write", tests, NULL, NULL);
}
