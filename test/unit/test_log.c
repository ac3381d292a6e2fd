/* The log: what a line looks like, and that every line can be read back. A small reader undoes
 * quoting and escaping and knows nothing of how they were made; random fields go through both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"

/* ---- the sink ---- */

typedef struct caught {
    int calls;
    int level;
    char event[64];
    char fields[4096];
} caught;

static void catch_event(int level, const char *event, const char *fields, void *arg)
{
    caught *c = arg;
    c->calls++;
    c->level = level;
    snprintf(c->event, sizeof c->event, "%s", event);
    snprintf(c->fields, sizeof c->fields, "%s", fields);
}

static const char *log_text(caught *c, const char *key, const char *text)
{
    log_sink sink = {catch_event, c};
    LOG(&sink, LOG_INFO, "x", LOG_TEXT(key, text));
    return c->fields;
}

/* ---- the reader ---- */

static char read_escape(const char **at)
{
    char c = *(*at)++;
    if (c == 'n' || c == 'r' || c == 't')
        return c == 'n' ? '\n' : c == 'r' ? '\r' : '\t';
    if (c != 'x') {
        assert_true(c == '"' || c == '\\');
        return c;
    }
    char digits[3] = {(*at)[0], 0, 0};
    assert_int_not_equal(digits[0], '\0');
    digits[1] = (*at)[1];
    char *end;
    long byte = strtol(digits, &end, 16);
    assert_ptr_equal(end, digits + 2);
    *at += 2;
    return (char)byte;
}

/* Reads one field and the space behind it; gives where the next one begins. */
static const char *read_field(const char *at, char *key, char *value)
{
    while (*at != '=') {
        assert_true(*at != '\0' && *at != ' ' && *at != '"');
        *key++ = *at++;
    }
    *key = '\0';
    at++;
    if (*at == '"') {
        for (at++; *at != '"';) {
            assert_int_not_equal(*at, '\0');
            char c = *at++;
            *value++ = c == '\\' ? read_escape(&at) : c;
        }
        at++;
    } else {
        assert_true(*at != '\0' && *at != ' ');
        while (*at != '\0' && *at != ' ') {
            assert_true(*at != '=' && *at != '"');
            *value++ = *at++;
        }
    }
    *value = '\0';
    if (*at == ' ') {
        at++;
        assert_int_not_equal(*at, '\0');
    }
    assert_true(*at == '\0' || at[-1] == ' ');
    return at;
}

static void check_one_line(const char *fields)
{
    assert_in_range(strlen(fields), 0, 1023);
    assert_true(text_is_utf8(slice_of(fields)));
    for (const char *at = fields; *at; at++)
        assert_true((unsigned char)*at >= 0x20 && *at != 0x7F);
    assert_null(strstr(fields, "\xC2\x85"));
    assert_null(strstr(fields, "\xE2\x80\xA8"));
    assert_null(strstr(fields, "\xE2\x80\xA9"));
}

/* ---- what a line looks like ---- */

static void an_event_arrives_as_it_was_sent(void **state)
{
    (void)state;
    caught c = {0};
    log_sink sink = {catch_event, &c};
    LOG(&sink, LOG_WARNING, "wal.large", LOG_NUM("bytes", 12345), LOG_TEXT("file", "app.db"),
        LOG_NUM("min", INT64_MIN), LOG_NUM("max", INT64_MAX), LOG_NUM("zero", 0));
    assert_int_equal(c.calls, 1);
    assert_int_equal(c.level, 2);
    assert_string_equal(c.event, "wal.large");
    assert_string_equal(c.fields, "bytes=12345 file=app.db min=-9223372036854775808 "
                                  "max=9223372036854775807 zero=0");
}

static void levels_are_the_numbers_of_the_api(void **state)
{
    (void)state;
    static const log_level levels[] = {LOG_DEBUG, LOG_INFO, LOG_WARNING, LOG_ERROR};
    for (int i = 0; i < 4; i++) {
        caught c = {0};
        log_sink sink = {catch_event, &c};
        LOG(&sink, levels[i], "x", LOG_NUM("a", 1));
        assert_int_equal(c.level, i);
    }
}

static void an_event_may_have_no_fields(void **state)
{
    (void)state;
    static const log_field none[] = {{NULL, NULL, 0}};
    caught c = {.fields = "old"};
    log_sink sink = {catch_event, &c};
    log_event(&sink, LOG_INFO, "x", none);
    assert_string_equal(c.fields, "");
    log_event(&sink, LOG_INFO, "x", NULL);
    assert_string_equal(c.fields, "");
    assert_int_equal(c.calls, 2);
}

static void a_sink_of_zeroes_logs_nothing(void **state)
{
    (void)state;
    log_sink sink = {NULL, NULL};
    LOG(&sink, LOG_ERROR, "x", LOG_NUM("a", 1));
    LOG(NULL, LOG_ERROR, "x", LOG_NUM("a", 1));
}

static void values_are_quoted_where_they_need_it(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *line;
    } cases[] = {
        {"plain", "k=plain"},
        {"a/b.c-d_e:f,g", "k=a/b.c-d_e:f,g"},
        {"", "k=\"\""},
        {" ", "k=\" \""},
        {"two words", "k=\"two words\""},
        {"a=b", "k=\"a=b\""},
        {"say \"hi\"", "k=\"say \\\"hi\\\"\""},
        {"\"", "k=\"\\\"\""},
        {"back\\slash", "k=back\\slash"},
        {"back \\slash", "k=\"back \\\\slash\""},
        {"a\nb\rc\td", "k=\"a\\nb\\rc\\td\""},
        {"\x01\x1f\x7f~", "k=\"\\x01\\x1f\\x7f~\""},
        {"\x1b[2J", "k=\"\\x1b[2J\""},
        {"caf\xC3\xA9", "k=caf\xC3\xA9"},
        {"\xE2\x82\xAC \xF0\x9F\x98\x80", "k=\"\xE2\x82\xAC \xF0\x9F\x98\x80\""},
        {"\xC2\x80", "k=\"\\xc2\\x80\""},
        {"\xC2\x85", "k=\"\\xc2\\x85\""},
        {"\xC2\x9F", "k=\"\\xc2\\x9f\""},
        {"\xC2\xA0", "k=\xC2\xA0"},
        {"\xC3\x85", "k=\xC3\x85"},
        {"\xE2\x80\xA7", "k=\xE2\x80\xA7"},
        {"\xE2\x80\xA8", "k=\"\\xe2\\x80\\xa8\""},
        {"\xE2\x80\xA9", "k=\"\\xe2\\x80\\xa9\""},
        {"\xE2\x80\xAA", "k=\xE2\x80\xAA"},
        {"\xE2\x81\xA8", "k=\xE2\x81\xA8"},
        {"\xE3\x80\xA8", "k=\xE3\x80\xA8"},
        {"a\xFFz", "k=\"a\\xffz\""},
        {"cut\xE2\x82", "k=\"cut\\xe2\\x82\""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        caught c = {0};
        assert_string_equal(log_text(&c, "k", cases[i].text), cases[i].line);
        check_one_line(c.fields);
    }
}

/* ---- reading back ---- */

static void random_text(random_seeded *r, char *out, size_t size)
{
    static const char *const bits[] = {"a",
                                       "\n",
                                       "\"",
                                       "\\",
                                       "=",
                                       " ",
                                       "\xC3\xA9",
                                       "\xC2\x85",
                                       "\xE2\x80\xA8",
                                       "\xF0\x9F\x98\x80",
                                       "\r",
                                       "\x7F",
                                       "\xE2\x82",
                                       "n",
                                       "x41"};
    size_t used = 0;
    unsigned char dice[2];
    for (;;) {
        r->source.fill(&r->source, dice, sizeof dice);
        char byte[2] = {(char)(dice[1] ? dice[1] : 1), 0};
        const char *piece = dice[0] % 3 == 0 ? byte : bits[dice[0] % (sizeof bits / sizeof *bits)];
        if (used + strlen(piece) > size)
            break;
        memcpy(out + used, piece, strlen(piece));
        used += strlen(piece);
    }
    out[used] = '\0';
}

static void every_line_can_be_read_back(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 11);
    for (int round = 0; round < 3000; round++) {
        char first[64], second[64], number[16], key[1024], value[1024];
        snprintf(number, sizeof number, "%d", round);
        random_text(&r, first, (size_t)round % 50);
        random_text(&r, second, (size_t)round % 30);
        caught c = {0};
        log_sink sink = {catch_event, &c};
        LOG(&sink, LOG_INFO, "x", LOG_TEXT("one", first), LOG_NUM("n", round),
            LOG_TEXT("two", second));
        check_one_line(c.fields);

        const char *at = read_field(c.fields, key, value);
        assert_string_equal(key, "one");
        assert_string_equal(value, first);
        at = read_field(at, key, value);
        assert_string_equal(key, "n");
        assert_string_equal(value, number);
        at = read_field(at, key, value);
        assert_string_equal(key, "two");
        assert_string_equal(value, second);
        assert_string_equal(at, "");
    }
}

/* ---- cutting ---- */

static void plain_values_are_cut_at_the_byte(void **state)
{
    (void)state;
    char text[1100], expected[1100];
    for (size_t size = 1000; size < 1050; size++) {
        memset(text, 'v', size);
        text[size] = '\0';
        caught c = {0};
        snprintf(expected, sizeof expected, "k=%.*s", size < 1021 ? (int)size : 1021, text);
        assert_string_equal(log_text(&c, "k", text), expected);
    }
}

/* Whatever is cut, what is left reads as a beginning of what was logged, and little is lost. */
static void cut_values_still_can_be_read(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 12);
    for (int round = 0; round < 2000; round++) {
        char text[1400], key[1024], value[1024];
        random_text(&r, text, 200 + (size_t)round % 1100);
        caught c = {0};
        log_text(&c, "key", text);
        check_one_line(c.fields);
        assert_string_equal(read_field(c.fields, key, value), "");
        assert_string_equal(key, "key");
        assert_memory_equal(value, text, strlen(value));
        if (strlen(value) < strlen(text))
            assert_in_range(strlen(c.fields), 1023 - 12, 1023);
    }
}

/* A text of every length pushes the fields behind it over the edge, byte by byte. */
static void later_fields_are_whole_or_missing(void **state)
{
    (void)state;
    for (size_t size = 960; size < 1030; size++) {
        char text[1100], key[1024], value[1100];
        memset(text, 'v', size);
        text[size] = '\0';
        caught c = {0};
        log_sink sink = {catch_event, &c};
        LOG(&sink, LOG_INFO, "x", LOG_TEXT("t", text), LOG_NUM("number", -123456789),
            LOG_TEXT("q", "a b"), LOG_NUM("z", 1));
        check_one_line(c.fields);

        const char *at = read_field(c.fields, key, value);
        size_t left = 1023 - (size < 1021 ? size + 2 : 1023);
        assert_int_equal(*at != '\0', left >= strlen(" number=-123456789"));
        if (*at == '\0')
            continue;
        at = read_field(at, key, value);
        assert_string_equal(key, "number");
        assert_string_equal(value, "-123456789");
        left -= strlen(" number=-123456789");
        assert_int_equal(*at != '\0', left >= strlen(" q=\"\""));
        if (*at == '\0')
            continue;
        at = read_field(at, key, value);
        assert_memory_equal(value, "a b", strlen(value));
        assert_int_equal(strlen(value), left < 8 ? left - 5 : 3);
        assert_int_equal(*at != '\0', left >= strlen(" q=\"a b\" z=1"));
    }
}

/* A field that is left out ends the line, even if one behind it would fit. */
static void nothing_follows_a_field_that_was_cut(void **state)
{
    (void)state;
    char text[1100];
    memset(text, 'v', 1010);
    text[1010] = '\0';
    caught c = {0};
    log_sink sink = {catch_event, &c};
    LOG(&sink, LOG_INFO, "x", LOG_TEXT("t", text), LOG_NUM("number", 1234567), LOG_NUM("z", 1));
    assert_int_equal(strlen(c.fields), 1012);

    /* Escaped, the last character takes twelve bytes: it is cut, and leaves room for " z=1". */
    memcpy(text + 1008, "\xE2\x80\xA8", 4);
    LOG(&sink, LOG_INFO, "x", LOG_TEXT("t", text), LOG_NUM("z", 1));
    assert_int_equal(strlen(c.fields), strlen("t=\"") + 1008 + strlen("\""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_arrives_as_it_was_sent),
        cmocka_unit_test(levels_are_the_numbers_of_the_api),
        cmocka_unit_test(an_event_may_have_no_fields),
        cmocka_unit_test(a_sink_of_zeroes_logs_nothing),
        cmocka_unit_test(values_are_quoted_where_they_need_it),
        cmocka_unit_test(every_line_can_be_read_back),
        cmocka_unit_test(plain_values_are_cut_at_the_byte),
        cmocka_unit_test(cut_values_still_can_be_read),
        cmocka_unit_test(later_fields_are_whole_or_missing),
        cmocka_unit_test(nothing_follows_a_field_that_was_cut),
    };
    return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
