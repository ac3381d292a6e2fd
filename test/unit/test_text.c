/* Text at the edge: UTF-8 against an encoder that knows only the definition of it, the limit to
 * the byte, and that no message ever repeats the text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* ---- what UTF-8 is ---- */

static size_t encode(uint32_t point, unsigned char out[4])
{
    if (point < 0x80) {
        out[0] = (unsigned char)point;
        return 1;
    }
    size_t size = point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = size - 1; i > 0; i--) {
        out[i] = (unsigned char)(0x80 | (point & 0x3F));
        point >>= 6;
    }
    out[0] = (unsigned char)((0xF00u >> size) | point);
    return size;
}

/* 1 if these bytes are one character: they are what encoding the number in them gives. */
static int is_one_char(const unsigned char *at, size_t size)
{
    uint32_t point = size == 1 ? at[0] : at[0] & (0x7Fu >> size);
    for (size_t i = 1; i < size; i++)
        point = point << 6 | (at[i] & 0x3F);
    if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF))
        return 0;
    unsigned char again[4];
    return encode(point, again) == size && memcmp(again, at, size) == 0;
}

static size_t expected_char(const unsigned char *at, size_t size)
{
    for (size_t n = 1; n <= 4 && n <= size; n++) {
        if (is_one_char(at, n))
            return n;
    }
    return 0;
}

static void check_bytes(const unsigned char *at, size_t size)
{
    slice s = {(const char *)at, size};
    size_t expected = expected_char(at, size);
    if (text_char(s) != expected)
        fail_msg("%02x %02x %02x %02x: %zu, not %zu", at[0], at[1], at[2], at[3], text_char(s),
                 expected);
}

static void every_character_is_one(void **state)
{
    (void)state;
    for (uint32_t point = 0; point <= 0x10FFFF; point++) {
        unsigned char at[4];
        size_t size = encode(point, at);
        size_t expected = point >= 0xD800 && point <= 0xDFFF ? 0 : size;
        assert_int_equal(text_char((slice){(char *)at, size}), expected);
        assert_int_equal(text_is_utf8((slice){(char *)at, size}), expected > 0);
    }
}

/* All first and second bytes, and third and fourth ones from each class. */
static void every_sequence_is_judged_as_defined(void **state)
{
    (void)state;
    static const unsigned char tails[] = {0x00, 0x41, 0x7F, 0x80, 0x81,
                                          0xBF, 0xC0, 0xC2, 0xE0, 0xFF};
    size_t count = sizeof tails;
    for (unsigned pair = 0; pair < 0x10000; pair++) {
        unsigned char at[4] = {(unsigned char)(pair >> 8), (unsigned char)pair, 0, 0};
        check_bytes(at, 1);
        check_bytes(at, 2);
        if (at[0] < 0xC0)
            continue;
        for (size_t i = 0; i < count * count; i++) {
            at[2] = tails[i / count];
            at[3] = tails[i % count];
            check_bytes(at, 3);
            check_bytes(at, 4);
        }
    }
}

typedef struct sample {
    const char *bytes;
    size_t size;
} sample;

#define SAMPLE(text)                                                                               \
    {                                                                                              \
        text, sizeof(text) - 1                                                                     \
    }

static const sample BAD[] = {
    SAMPLE("\x80"),             /* continuation without a beginning */
    SAMPLE("\xBF"),             /* the same, last of them */
    SAMPLE("\xC0\x80"),         /* overlong U+0000 */
    SAMPLE("\xC0\xAF"),         /* overlong / */
    SAMPLE("\xC1\xBF"),         /* overlong U+007F */
    SAMPLE("\xE0\x80\xAF"),     /* overlong / in three */
    SAMPLE("\xE0\x9F\xBF"),     /* overlong U+07FF */
    SAMPLE("\xF0\x80\x80\xAF"), /* overlong / in four */
    SAMPLE("\xF0\x8F\xBF\xBF"), /* overlong U+FFFF */
    SAMPLE("\xED\xA0\x80"),     /* U+D800 */
    SAMPLE("\xED\xBF\xBF"),     /* U+DFFF */
    SAMPLE("\xF4\x90\x80\x80"), /* U+110000 */
    SAMPLE("\xF5\x80\x80\x80"), /* a first byte past the last plane */
    SAMPLE("\xF8\x88\x80\x80\x80"),
    SAMPLE("\xFC\x84\x80\x80\x80\x80"),
    SAMPLE("\xFE"),
    SAMPLE("\xFF"),
    SAMPLE("\xC2"), /* cut at every position */
    SAMPLE("\xE2"),
    SAMPLE("\xE2\x82"),
    SAMPLE("\xF0"),
    SAMPLE("\xF0\x9F"),
    SAMPLE("\xF0\x9F\x98"),
    SAMPLE("\xC3\x28"), /* broken off by ASCII */
    SAMPLE("\xE2\x28\xA1"),
    SAMPLE("\xE2\x82\x28"),
    SAMPLE("\xF0\x28\x8C\xBC"),
    SAMPLE("\xF0\x90\x28\xBC"),
    SAMPLE("\xF0\x90\x8C\x28"),
};

static const sample GOOD[] = {
    SAMPLE("\x7F"),         SAMPLE("\xC2\x80"),         SAMPLE("\xDF\xBF"),
    SAMPLE("\xE0\xA0\x80"), SAMPLE("\xED\x9F\xBF"),     SAMPLE("\xEE\x80\x80"),
    SAMPLE("\xEF\xBF\xBF"), SAMPLE("\xF0\x90\x80\x80"), SAMPLE("\xF4\x8F\xBF\xBF"),
};

/* The bytes inside ASCII, in memory of just that size, so that reading on is seen. */
static char *surround(const sample *s, size_t before, size_t after, size_t *size)
{
    *size = before + s->size + after;
    char *at = malloc(*size);
    assert_non_null(at);
    memset(at, 'a', *size);
    memcpy(at + before, s->bytes, s->size);
    return at;
}

static void check_everywhere(const sample *samples, size_t count, int good)
{
    for (size_t i = 0; i < count; i++) {
        for (size_t place = 0; place < 20 * 20; place++) {
            size_t size, before = place / 20;
            char *at = surround(&samples[i], before, place % 20, &size);
            assert_int_equal(text_is_utf8((slice){at, size}), good);
            error err;
            pawl_code code = text_check((slice){at, size}, size, "name", &err);
            assert_int_equal(code, good ? PAWL_OK : PAWL_INVALID);
            if (!good) {
                char where[64];
                snprintf(where, sizeof where, "at byte %zu of %zu", before, size);
                assert_string_equal(err.detail, where);
            }
            free(at);
        }
    }
}

static void bad_bytes_are_found_everywhere(void **state)
{
    (void)state;
    check_everywhere(BAD, sizeof BAD / sizeof *BAD, 0);
}

static void good_bytes_are_good_everywhere(void **state)
{
    (void)state;
    check_everywhere(GOOD, sizeof GOOD / sizeof *GOOD, 1);
}

static void nothing_is_utf8(void **state)
{
    (void)state;
    assert_true(text_is_utf8((slice){NULL, 0}));
    assert_true(text_is_utf8((slice){"", 0}));
    assert_int_equal(text_char((slice){NULL, 0}), 0);
}

/* ---- text_check ---- */

static void the_limit_is_exact(void **state)
{
    (void)state;
    error err = {.code = PAWL_IO};
    assert_int_equal(text_check(SLICE_LIT("12345678"), 8, "name", &err), PAWL_OK);
    assert_int_equal(err.code, PAWL_IO); /* what was there is not touched */
    assert_int_equal(text_check(SLICE_LIT("12345678"), 7, "name", &err), PAWL_LIMIT);
    assert_int_equal(err.code, PAWL_LIMIT);
    assert_string_equal(err.message, "the name is too long");
    assert_string_equal(err.detail, "8 bytes; at most 7 are allowed");
    assert_int_equal(text_check(SLICE_LIT(""), 0, "name", &err), PAWL_OK);
    assert_int_equal(text_check(SLICE_LIT("1"), 0, "name", &err), PAWL_LIMIT);
}

/* Text from outside may claim any size: beyond the limit, its bytes are not looked at. */
static void too_long_text_is_not_read(void **state)
{
    (void)state;
    assert_int_equal(text_check((slice){"", SIZE_MAX}, 256, "name", NULL), PAWL_LIMIT);
}

static void null_is_invalid(void **state)
{
    (void)state;
    error err;
    assert_int_equal(text_check(slice_of(NULL), 10, "queue", &err), PAWL_INVALID);
    assert_int_equal(err.code, PAWL_INVALID);
    assert_string_equal(err.message, "the queue is NULL");
}

static void a_nul_inside_is_invalid(void **state)
{
    (void)state;
    for (size_t at = 0; at < 20; at++) {
        char text[20], where[64];
        memset(text, 'a', sizeof text);
        text[at] = '\0';
        error err;
        assert_int_equal(text_check((slice){text, sizeof text}, 20, "id", &err), PAWL_INVALID);
        assert_string_equal(err.message, "the id has a NUL inside");
        snprintf(where, sizeof where, "at byte %zu of 20", at);
        assert_string_equal(err.detail, where);
    }
}

static void the_error_may_be_left_out(void **state)
{
    (void)state;
    assert_int_equal(text_check(SLICE_LIT("ok"), 2, "id", NULL), PAWL_OK);
    assert_int_equal(text_check(SLICE_LIT("long"), 2, "id", NULL), PAWL_LIMIT);
    assert_int_equal(text_check((slice){NULL, 0}, 2, "id", NULL), PAWL_INVALID);
    assert_int_equal(text_check(SLICE_LIT("\xFF"), 2, "id", NULL), PAWL_INVALID);
    assert_int_equal(text_check(SLICE_LIT("\0"), 2, "id", NULL), PAWL_INVALID);
}

static void no_message_repeats_the_text(void **state)
{
    (void)state;
    static const struct {
        slice text;
        size_t max;
    } cases[] = {
        {{"hunter2", 7}, 3},
        {{"hunter2\0hunter2", 15}, 100},
        {{"hunter2\xFFhunter2", 15}, 100},
        {{"hunter2\xE2\x82", 9}, 100},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        error err;
        assert_int_not_equal(text_check(cases[i].text, cases[i].max, "secret", &err), PAWL_OK);
        assert_non_null(strstr(err.message, "secret"));
        const char *texts[] = {err.message, err.detail, err.hint};
        for (size_t j = 0; j < 3; j++) {
            assert_null(strstr(texts[j], "hun"));
            assert_true(text_is_utf8(slice_of(texts[j])));
        }
    }
}

static void expect_clip(const char *text, size_t room, const char *wanted)
{
    char out[32];
    memset(out, 'X', sizeof out);
    text_clip(out, room, slice_of(text));
    assert_string_equal(out, wanted);
    assert_int_equal(out[room], 'X');
}

static void clips_are_whole(void **state)
{
    (void)state;
    expect_clip("", 1, "");
    expect_clip("abc", 1, "");
    expect_clip("abc", 4, "abc");
    expect_clip("abc", 3, "ab");
    expect_clip("aä€𝄞", 11, "aä€𝄞");
    expect_clip("aä€𝄞", 10, "aä€");
    expect_clip("aä€𝄞", 6, "aä");
    expect_clip("a\xFFä\xC3", 16, "a?ä?");
    char out[8] = "";
    text_clip(out, sizeof out, (slice){"a\0b", 3});
    assert_string_equal(out, "a?b");
}

static void __attribute__((format(printf, 3, 4)))
print(char *out, size_t room, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text_print(out, room, format, args);
    va_end(args);
}

static void prints_are_whole(void **state)
{
    (void)state;
    static const char *const WANTED[] = {"", "1", "1", "1ä", "1ä", "1ä", "1ä€", "1ä€?", "1ä€?"};
    for (size_t i = 0; i < sizeof WANTED / sizeof *WANTED; i++) {
        char out[16];
        memset(out, 'X', sizeof out);
        print(out, i + 1, "%d%s", 1, "ä€\xFF");
        assert_string_equal(out, WANTED[i]);
        assert_int_equal(out[i + 1], 'X');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_is_one),
        cmocka_unit_test(every_sequence_is_judged_as_defined),
        cmocka_unit_test(bad_bytes_are_found_everywhere),
        cmocka_unit_test(good_bytes_are_good_everywhere),
        cmocka_unit_test(nothing_is_utf8),
        cmocka_unit_test(the_limit_is_exact),
        cmocka_unit_test(too_long_text_is_not_read),
        cmocka_unit_test(null_is_invalid),
        cmocka_unit_test(a_nul_inside_is_invalid),
        cmocka_unit_test(the_error_may_be_left_out),
        cmocka_unit_test(no_message_repeats_the_text),
        cmocka_unit_test(clips_are_whole),
        cmocka_unit_test(prints_are_whole),
    };
    return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
