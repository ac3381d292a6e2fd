/* A second opinion on JSON: jansson's. Texts are made up, damaged, and judged by both; where they
 * are JSON, every value in them is looked up by pointer and compared with the tree.
 *
 * The two differ on purpose in three things: numbers that a tree cannot hold are JSON to pawl;
 * nesting ends earlier; and of two members with the same key pawl takes the first, jansson the
 * last, so that only texts without such members are compared value by value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/json_write.h"

static unsigned below(random_seeded *r, unsigned bound)
{
    uint32_t bits;
    assert_int_equal(r->source.fill(&r->source, &bits, sizeof bits), 0);
    return (unsigned)(((uint64_t)bits * bound) >> 32);
}

/* ---- making texts up ---- */

static void make_space(random_seeded *r, buf *b)
{
    while (below(r, 6) == 0)
        buf_char(b, " \n\r\t"[below(r, 4)]);
}

static void make_string(random_seeded *r, buf *b, unsigned max)
{
    static const char *const PIECES[] = {
        "a",        "b",
        "/",        "~",
        "~1",       "0",
        "\\n",      "\\\"",
        "\\\\",     "\\/",
        "\\u0041",  "\\u00e9",
        "it's",     "\\uFFFF",
        "\xC3\xA9", "\xE2\x82\xAC",
        "\\b\\f",   "\xF0\x9F\x98\x80",
        "[{,",      "plain text",
        "\\r\\t",   "\x7F",
        "\\u0001~", "\\ud83d\\uDE00",
    };
    buf_char(b, '"');
    for (unsigned n = below(r, max); n > 0; n--)
        buf_text(b, PIECES[below(r, sizeof PIECES / sizeof *PIECES)]);
    buf_char(b, '"');
}

static void make_number(random_seeded *r, buf *b)
{
    static const char *const LARGE[] = {"9223372036854775807",
                                        "-9223372036854775808",
                                        "9223372036854775808",
                                        "1e999",
                                        "-1e-999",
                                        "123456789012345678901234567890"};
    unsigned kind = below(r, 20);
    if (kind == 0)
        buf_text(b, LARGE[below(r, sizeof LARGE / sizeof *LARGE)]);
    else
        buf_printf(b, "%s%u", kind % 3 ? "" : "-", below(r, kind % 2 ? 10 : 1000000));
    if (kind > 12)
        buf_printf(b, ".%u", below(r, 100000));
    if (kind > 16)
        buf_printf(b, "%c%s%u", "eE"[kind % 2], kind == 18 ? "+" : "-", below(r, 30));
}

static void make_value(random_seeded *r, buf *b, unsigned depth)
{
    static const char *const WORDS[] = {"null", "true", "false"};
    unsigned kind = below(r, depth > 0 ? 8 : 5);
    make_space(r, b);
    if (kind < 2) {
        make_string(r, b, 8);
    } else if (kind < 4) {
        make_number(r, b);
    } else if (kind == 4) {
        buf_text(b, WORDS[below(r, 3)]);
    } else {
        int is_object = kind > 5;
        buf_char(b, is_object ? '{' : '[');
        for (unsigned n = below(r, 5); n > 0; n--) {
            if (is_object) {
                make_space(r, b);
                make_string(r, b, 5);
                make_space(r, b);
                buf_char(b, ':');
            }
            make_value(r, b, depth - 1);
            if (n > 1)
                buf_char(b, ',');
        }
        make_space(r, b);
        buf_char(b, is_object ? '}' : ']');
    }
    make_space(r, b);
}

/* One byte replaced, added or left out, or a piece doubled. */
static void damage(random_seeded *r, buf *b)
{
    static const char LIKELY[] =
        "\"\\{}[],:0123456789.eE+-truefalsn \n\t/bu\x01\x1F\x7F\x80\xC3\xED\xFF";
    buf out;
    buf_init(&out, 1 << 20);
    size_t place = below(r, (unsigned)b->size + 1);
    char c = below(r, 4) ? LIKELY[below(r, sizeof LIKELY - 1)] : (char)(1 + below(r, 255));
    unsigned kind = below(r, 4);
    buf_add(&out, (slice){buf_str(b), place});
    if (kind < 2)
        buf_char(&out, c);
    if (kind == 3)
        buf_add(&out, (slice){buf_str(b) + place / 2, place - place / 2});
    if (place < b->size && kind != 1 && kind != 3)
        place++;
    buf_add(&out, (slice){buf_str(b) + place, b->size - place});
    buf_free(b);
    *b = out;
}

/* ---- comparing ---- */

static pawl_code check_verdict(const char *text)
{
    json_error_t why = {0};
    json_t *tree = json_loads(text, JSON_DECODE_ANY, &why);
    size_t at;
    pawl_code rc = pawl_json_check(text, &at);
    int too_large = !tree && json_error_code(&why) == json_error_numeric_overflow;
    if (rc == PAWL_OK ? !tree && !too_large : tree != NULL)
        fail_msg("%s at %zu; jansson: %s\n%s", pawl_code_name(rc), at, why.text, text);
    if (rc != PAWL_OK)
        assert_true(at <= strlen(text));
    json_decref(tree);
    return rc;
}

static void check_value(const char *text, buf *pointer, json_t *tree);

static void check_scalar(const char *text, const char *pointer, json_t *tree)
{
    static const pawl_kind KINDS[] = {
        [JSON_OBJECT] = PAWL_OBJECT,  [JSON_ARRAY] = PAWL_ARRAY, [JSON_STRING] = PAWL_STRING,
        [JSON_INTEGER] = PAWL_NUMBER, [JSON_REAL] = PAWL_NUMBER, [JSON_TRUE] = PAWL_TRUE,
        [JSON_FALSE] = PAWL_FALSE,    [JSON_NULL] = PAWL_NULL,
    };
    assert_int_equal(pawl_get_kind(text, pointer), KINDS[json_typeof(tree)]);
    assert_int_equal(pawl_get_bool(text, pointer, 77),
                     json_is_boolean(tree) ? json_is_true(tree) : 77);
    assert_int_equal(pawl_get_int(text, pointer, 77),
                     json_is_integer(tree) ? json_integer_value(tree) : 77);
    assert_true(pawl_get_real(text, pointer, 77) ==
                (json_is_number(tree) ? json_number_value(tree) : 77));
    char out[512];
    int64_t size = pawl_get_text(text, pointer, out, sizeof out);
    assert_int_equal(size, json_is_string(tree) ? (int64_t)json_string_length(tree) : -1);
    assert_string_equal(out, json_is_string(tree) ? json_string_value(tree) : "");
}

static void check_below(const char *text, buf *pointer, const char *token, json_t *tree)
{
    size_t size = pointer->size;
    buf_char(pointer, '/');
    for (; *token; token++) {
        if (*token == '~' || *token == '/')
            buf_text(pointer, *token == '~' ? "~0" : "~1");
        else
            buf_char(pointer, *token);
    }
    check_value(text, pointer, tree);
    pointer->size = size;
    pointer->at[size] = '\0';
}

static void check_value(const char *text, buf *pointer, json_t *tree)
{
    const char *key;
    json_t *child;
    size_t i;
    check_scalar(text, buf_str(pointer), tree);
    size_t count = json_is_object(tree) ? json_object_size(tree) : json_array_size(tree);
    int has_parts = json_is_object(tree) || json_is_array(tree);
    assert_int_equal(pawl_get_count(text, buf_str(pointer)), has_parts ? (int64_t)count : -1);
    json_object_foreach(tree, key, child) check_below(text, pointer, key, child);
    json_array_foreach(tree, i, child)
    {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        check_below(text, pointer, index, child);
    }
    if (has_parts) {
        char index[24];
        snprintf(index, sizeof index, "%zu", count);
        if (json_is_array(tree) || !json_object_get(tree, index)) {
            size_t size = pointer->size;
            buf_printf(pointer, "/%s", index);
            assert_int_equal(pawl_get_kind(text, buf_str(pointer)), PAWL_NOTHING);
            pointer->size = size;
            pointer->at[size] = '\0';
        }
    }
}

/* 1 if there was a tree to compare with. */
static int check_values(const char *text)
{
    json_t *tree = json_loads(text, JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, NULL);
    if (!tree)
        return 0;
    buf pointer;
    buf_init(&pointer, 1 << 16);
    check_value(text, &pointer, tree);
    buf_free(&pointer);
    json_decref(tree);
    return 1;
}

/* ---- tests ---- */

static const char SAMPLE[] =
    "{\"id\":\"a\\n\\u00e9\xC3\xA9\\ud83d\\ude00\", \"n\":[-1.5e+3,0,12],\n"
    "\"ok\":true,\"no\":null,\"sub\":{\"\":[[],{}]}}";

static void every_damaged_byte_is_judged_alike(void **state)
{
    (void)state;
    size_t size = sizeof SAMPLE - 1, good = 0;
    for (size_t place = 0; place <= size; place++) {
        char text[sizeof SAMPLE + 1];
        for (unsigned c = 1; c < 256; c++) {
            memcpy(text, SAMPLE, sizeof SAMPLE);
            if (place < size)
                text[place] = (char)c;
            good += check_verdict(text) == PAWL_OK;
            memcpy(text + place + 1, SAMPLE + place, sizeof SAMPLE - place);
            text[place] = (char)c;
            good += check_verdict(text) == PAWL_OK;
        }
        memcpy(text, SAMPLE, sizeof SAMPLE);
        if (place < size)
            memmove(text + place, text + place + 1, size - place);
        check_verdict(text);
    }
    assert_true(good > 1000);
}

static void every_pair_of_bytes_is_judged_alike(void **state)
{
    (void)state;
    for (unsigned pair = 0; pair < 0x10000; pair++) {
        char text[3] = {(char)(pair >> 8), (char)pair, 0};
        check_verdict(text);
        char quoted[5] = {'"', text[0], text[1], '"', 0};
        check_verdict(quoted);
        char hex[16];
        snprintf(hex, sizeof hex, "\"\\u%04x\"", pair);
        check_verdict(hex);
        snprintf(hex, sizeof hex, "\"\\ud9a1\\u%04x\"", pair);
        check_verdict(hex);
    }
}

static void made_up_texts_are_judged_and_read_alike(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 20240229);
    size_t good = 0, bad = 0, compared = 0;
    for (int round = 0; round < 20000; round++) {
        buf b;
        buf_init(&b, 1 << 20);
        make_value(&r, &b, 4);
        assert_int_equal(check_verdict(buf_str(&b)), PAWL_OK);
        compared += (size_t)check_values(buf_str(&b));
        for (int i = 0; i < 4; i++) {
            damage(&r, &b);
            if (check_verdict(buf_str(&b)) == PAWL_OK) {
                compared += (size_t)check_values(buf_str(&b));
                good++;
            } else {
                bad++;
            }
        }
        buf_free(&b);
    }
    assert_true(good > 5000 && bad > 5000 && compared > 15000);
}

/* What is written as a string is read back by both as it was. */
static void written_strings_are_read_alike(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 7);
    for (int round = 0; round < 20000; round++) {
        char text[24], back[24] = "";
        size_t size = below(&r, sizeof text);
        for (size_t i = 0; i < size; i++)
            text[i] = (char)(1 + below(&r, 127));
        text[size] = '\0';
        char *json = pawl_json_new("[%s,'%s']", text, text);
        assert_non_null(json);
        json_t *tree = json_loads(json, 0, NULL);
        assert_string_equal(json_string_value(json_array_get(tree, 0)), text);
        assert_string_equal(json_string_value(json_array_get(tree, 1)), text);
        assert_int_equal(pawl_get_text(json, "/1", back, sizeof back), size);
        assert_string_equal(back, text);
        json_decref(tree);
        pawl_free(json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_damaged_byte_is_judged_alike),
        cmocka_unit_test(every_pair_of_bytes_is_judged_alike),
        cmocka_unit_test(made_up_texts_are_judged_and_read_alike),
        cmocka_unit_test(written_strings_are_read_alike),
    };
    return cmocka_run_group_tests_name("json_fuzz", tests, NULL, NULL);
}
