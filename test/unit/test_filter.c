/* Filters, before any database: the range that a prefix becomes, and scalars as attributes. The
 * range is right when it is tight: what begins with the prefix is in it, and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "query/filter.h"

static int compare(slice a, slice b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = memcmp(a.at, b.at, size);
    return order ? order : a.size < b.size ? -1 : a.size > b.size;
}

static void beyond_known_prefixes(void **state)
{
    static const struct {
        const char *prefix;
        const char *beyond;
    } CASES[] = {
        {"a", "b"},
        {"ab", "ac"},
        {"a\x7f", "a\xc2\x80"},
        {"\u07ff", "\u0800"},
        {"\uffff", "\U00010000"},
        {"x\ud7ff", "x\ue000"},
        {"a\U0010ffff", "b"},
        {"a\U0010ffff\U0010ffff", "b"},
        {"\U0010fffe", "\U0010ffff"},
        {"\U0010ffff", NULL},
        {"", NULL},
    };
    (void)state;
    arena *a = arena_new(0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        int failed = 0;
        slice beyond = filter_beyond(a, slice_of(CASES[i].prefix), &failed);
        assert_int_equal(failed, 0);
        if (!CASES[i].beyond)
            assert_null(beyond.at);
        else if (!slice_equal(beyond, slice_of(CASES[i].beyond)))
            fail_msg("case %zu: %.*s", i, (int)beyond.size, beyond.at);
    }
    arena_free(a);
}

/* Characters around which something changes. */
static const char *const LETTERS[] = {"a",      "\x7f",   "\xc2\x80", "\u07ff",     "\u0800",
                                      "\ud7ff", "\ue000", "\uffff",   "\U00010000", "\U0010ffff"};

static slice some_text(random_seeded *chance, char out[64])
{
    unsigned char bytes[4];
    size_t size = 0;
    assert_int_equal(chance->source.fill(&chance->source, bytes, sizeof bytes), 0);
    for (int i = 0; i < 1 + bytes[3] % 3; i++) {
        const char *letter = LETTERS[bytes[i] % (sizeof LETTERS / sizeof *LETTERS)];
        memcpy(out + size, letter, strlen(letter));
        size += strlen(letter);
    }
    return (slice){out, size};
}

static void the_range_is_tight(void **state)
{
    (void)state;
    random_seeded chance;
    random_seeded_init(&chance, 7);
    arena *a = arena_new(0);
    for (int i = 0; i < 50000; i++) {
        char one[64], two[64];
        int failed = 0;
        slice prefix = some_text(&chance, one);
        slice id = some_text(&chance, two);
        arena_reset(a);
        slice beyond = filter_beyond(a, prefix, &failed);
        assert_true(!beyond.at || text_is_utf8(beyond));
        int inside = compare(id, prefix) >= 0 && (!beyond.at || compare(id, beyond) < 0);
        if (inside != slice_starts(id, prefix))
            fail_msg("%.*s is%s in the range of %.*s", (int)id.size, id.at, inside ? "" : " not",
                     (int)prefix.size, prefix.at);
    }
    arena_free(a);
}

static void scalars_are_attributes(void **state)
{
    static const struct {
        const char *json;
        attribute_kind kind; /* 0: refused */
        const char *text;
    } CASES[] = {
        {"\"red\"", ATTRIBUTE_TEXT, "red"},
        {"\"\"", ATTRIBUTE_TEXT, ""},
        {" \"\\u00e4\" ", ATTRIBUTE_TEXT, "ä"},
        {"1", ATTRIBUTE_NUMBER, "1"},
        {"1.0", ATTRIBUTE_NUMBER, "1"},
        {"10e-1", ATTRIBUTE_NUMBER, "1"},
        {"-0.5", ATTRIBUTE_NUMBER, "-0.5"},
        {"true", ATTRIBUTE_BOOLEAN, "1"},
        {"false", ATTRIBUTE_BOOLEAN, "0"},
        {"null", 0, NULL},
        {"{}", 0, NULL},
        {"[]", 0, NULL},
        {"red", 0, NULL},
        {"", 0, NULL},
        {"1e999", 0, NULL},
        {NULL, 0, NULL},
    };
    (void)state;
    arena *a = arena_new(0);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        attribute got = {0};
        error err = {0};
        pawl_code rc = attribute_read(&got, a, CASES[i].json, "value", &err);
        assert_int_equal(rc, CASES[i].kind ? PAWL_OK : PAWL_INVALID);
        assert_true(rc == PAWL_OK || err.message[0]);
        if (rc != PAWL_OK)
            continue;
        assert_int_equal(got.kind, CASES[i].kind);
        if (!slice_equal(got.text, slice_of(CASES[i].text)))
            fail_msg("%s became %.*s", CASES[i].json, (int)got.text.size, got.text.at);
    }
    arena_free(a);
}

static void defaults_let_everything_through(void **state)
{
    (void)state;
    filter f;
    error err = {0};
    assert_int_equal(filter_read(&f, NULL, &err), PAWL_OK);
    assert_null(f.workflow.at);
    assert_null(f.prefix.at);
    assert_null(f.attribute.at);
    assert_null(f.after_id.at);
    assert_int_equal(f.phases, -1);
    assert_int_equal(f.limit, 100);
    assert_int_equal(f.oldest_first, 0);
    assert_int_equal(f.created_before_ms, INT64_MAX);
    filter_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(beyond_known_prefixes),
        cmocka_unit_test(the_range_is_tight),
        cmocka_unit_test(scalars_are_attributes),
        cmocka_unit_test(defaults_let_everything_through),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
