/* Times, spans and names for people. Times are compared with those of the C library, where it has
 * them; names with what they must not do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "query/humanize.h"

static char text[4096];

static buf *fresh(buf *b)
{
    buf_init_fixed(b, text, sizeof text);
    return b;
}

static const char *time_text(int64_t ms)
{
    buf b;
    humanize_time(fresh(&b), ms);
    return text;
}

static const char *span_text(int64_t ms)
{
    buf b;
    humanize_span(fresh(&b), ms);
    return text;
}

static const char *name_text(const char *name)
{
    buf b;
    humanize_name(fresh(&b), name);
    return text;
}

static void times_at_the_edges(void **state)
{
    (void)state;
    assert_string_equal(time_text(0), "1970-01-01T00:00:00.000Z");
    assert_string_equal(time_text(-1), "1969-12-31T23:59:59.999Z");
    assert_string_equal(time_text(951782400000), "2000-02-29T00:00:00.000Z");
    assert_string_equal(time_text(4107542399999), "2100-02-28T23:59:59.999Z");
    assert_string_equal(time_text(4107542400000), "2100-03-01T00:00:00.000Z");
    assert_string_equal(time_text(253402300799999), "9999-12-31T23:59:59.999Z");
    assert_string_equal(time_text(253402300800000), "+10000-01-01T00:00:00.000Z");
    assert_true(strlen(time_text(INT64_MAX)) > 20);
    assert_true(strlen(time_text(INT64_MIN)) > 20);
}

static void times_are_those_of_the_library(void **state)
{
    (void)state;
    random_seeded chance;
    random_seeded_init(&chance, 42);
    for (int i = 0; i < 20000; i++) {
        uint64_t number;
        assert_int_equal(chance.source.fill(&chance.source, &number, sizeof number), 0);
        int64_t ms = (int64_t)(number % UINT64_C(253402300800000)); /* to the year 9999 */
        time_t seconds = (time_t)(ms / 1000);
        struct tm parts;
        char wanted[64], milliseconds[8];
        assert_non_null(gmtime_r(&seconds, &parts));
        strftime(wanted, sizeof wanted, "%Y-%m-%dT%H:%M:%S", &parts);
        snprintf(milliseconds, sizeof milliseconds, ".%03dZ", (int)(ms % 1000));
        const char *got = time_text(ms);
        if (strncmp(got, wanted, strlen(wanted)) != 0 ||
            strcmp(got + strlen(wanted), milliseconds) != 0)
            fail_msg("%lld: expected %s%s, got %s", (long long)ms, wanted, milliseconds, got);
    }
}

static void spans_have_one_unit(void **state)
{
    (void)state;
    assert_string_equal(span_text(0), "0 milliseconds");
    assert_string_equal(span_text(1), "1 millisecond");
    assert_string_equal(span_text(-999), "999 milliseconds");
    assert_string_equal(span_text(1000), "1 second");
    assert_string_equal(span_text(59999), "59 seconds");
    assert_string_equal(span_text(60000), "1 minute");
    assert_string_equal(span_text(7200000), "2 hours");
    assert_string_equal(span_text(INT64_C(86400000) * 400), "400 days");
    assert_string_equal(span_text(INT64_MIN), "106751991167 days");
}

static void names_stay_inside_their_quotes(void **state)
{
    (void)state;
    assert_string_equal(name_text(""), "\"\"");
    assert_string_equal(name_text("chärge"), "\"chärge\"");
    assert_string_equal(name_text("a\"b\\c\n\x1b"), "\"a\\\"b\\\\c\\n\\u001b\"");
}

/* A message stays on its line, and is otherwise as it was written. */
static void messages_are_escaped_no_more_than_needed(void **state)
{
    (void)state;
    char at[256];
    buf b;
    buf_init_fixed(&b, at, sizeof at);
    humanize_message(&b, "say \"no\" to C:\\new\n\x1b");
    assert_string_equal(at, "say \"no\" to C:\\new\\n\\u001b");
}

/* Nor do a terminal or a reader of lines get what they would obey: DEL, the control characters
 * behind ASCII (U+009B begins a command), line breaks of Unicode, bytes that are no character. */
static void no_character_is_obeyed(void **state)
{
    (void)state;
    static const char TEXT[] = "a\x7f\xc2\x80"
                               "b\xc2\x9b"
                               "2J\xe2\x80\xa8\xe2\x80\xa9\xff\xc2\xa0z";
    static const char SHOWN[] = "a\\u007f\\u0080b\\u009b2J\\u2028\\u2029?\xc2\xa0z";
    char at[256];
    buf b;
    buf_init_fixed(&b, at, sizeof at);
    humanize_message(&b, TEXT);
    assert_string_equal(at, SHOWN);
    const char *name = name_text(TEXT);
    assert_memory_equal(name + 1, SHOWN, sizeof SHOWN - 1);
}

/* Cut between characters, never inside one. */
static void long_names_are_cut(void **state)
{
    (void)state;
    char name[1000];
    for (size_t i = 0; i + 2 < sizeof name; i += 2)
        memcpy(name + i, "ä", 2);
    name[sizeof name - 2] = '\0';
    for (size_t from = 0; from < 2; from++) {
        char shifted[1001] = "x";
        memcpy(shifted + from, name, sizeof name - 1);
        const char *got = name_text(shifted);
        size_t size = strlen(got);
        assert_true(size < 300);
        assert_memory_equal(got + size - strlen("ä …\""), "ä …\"", strlen("ä …\""));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_at_the_edges),
        cmocka_unit_test(times_are_those_of_the_library),
        cmocka_unit_test(spans_have_one_unit),
        cmocka_unit_test(names_stay_inside_their_quotes),
        cmocka_unit_test(long_names_are_cut),
        cmocka_unit_test(messages_are_escaped_no_more_than_needed),
        cmocka_unit_test(no_character_is_obeyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
