/* Randomness and ids: known bytes for a known seed, the example that the RFC gives, and what must
 * hold for every id: its form, and that it sorts by its time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/id.h"

/* ---- randomness ---- */

static void the_system_fills_all_and_no_more(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 255, 256, 257, 512, 1000};
    random_source *r = random_system();
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned char at[1016];
        int seen[1016] = {0}; /* a byte that is random is not always zero */
        for (int round = 0; round < 16; round++) {
            memset(at, 0, sizeof at);
            assert_int_equal(r->fill(r, at, sizes[i]), 0);
            for (size_t j = 0; j < sizeof at; j++)
                seen[j] |= at[j];
        }
        for (size_t j = 0; j < sizeof at; j++)
            assert_int_equal(seen[j] != 0, j < sizes[i]);
    }
}

/* The first numbers of splitmix64 for seed 0, lowest byte first. */
static void a_seed_gives_known_bytes(void **state)
{
    (void)state;
    static const unsigned char expected[] = {0xAF, 0xCD, 0x1D, 0x7B, 0x39, 0xA8, 0x20,
                                             0xE2, 0xF4, 0x65, 0xB9, 0xA1, 0x6A, 0x9E,
                                             0x78, 0x6E, 0x4F, 0x45, 0x09};
    random_seeded r;
    random_seeded_init(&r, 0);
    unsigned char at[32] = {0}, zeroes[32] = {0};
    assert_int_equal(r.source.fill(&r.source, at, sizeof expected), 0);
    assert_memory_equal(at, expected, sizeof expected);
    assert_memory_equal(at + sizeof expected, zeroes, sizeof at - sizeof expected);
}

static void seeds_differ(void **state)
{
    (void)state;
    random_seeded one, same, other;
    random_seeded_init(&one, 7);
    random_seeded_init(&same, 7);
    random_seeded_init(&other, 8);
    unsigned char a[100], b[100], c[100];
    one.source.fill(&one.source, a, sizeof a);
    same.source.fill(&same.source, b, sizeof b);
    other.source.fill(&other.source, c, sizeof c);
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    one.source.fill(&one.source, b, sizeof b);
    assert_memory_not_equal(a, b, sizeof a); /* it goes on */
}

/* ---- ids ---- */

/* The example of RFC 9562, A.6; the bits that version and variant replace are set or not. */
static int fill_low(random_source *r, void *at, size_t size)
{
    (void)r;
    assert_int_equal(size, 10);
    memcpy(at, "\x0C\xC3\x18\xC4\xDC\x0C\x0C\x07\x39\x8F", 10);
    return 0;
}

static int fill_high(random_source *r, void *at, size_t size)
{
    (void)r;
    assert_int_equal(size, 10);
    memcpy(at, "\xFC\xC3\xD8\xC4\xDC\x0C\x0C\x07\x39\x8F", 10);
    return 0;
}

static int fill_nothing(random_source *r, void *at, size_t size)
{
    (void)r;
    (void)at;
    (void)size;
    return -1;
}

static void an_id_is_as_the_rfc_has_it(void **state)
{
    (void)state;
    random_source low = {fill_low}, high = {fill_high}, nothing = {fill_nothing};
    char id[ID_TEXT_SIZE + 1];
    memset(id, '#', sizeof id);
    assert_int_equal(id_uuid7(id, INT64_C(0x017F22E279B0), &low), 0);
    assert_string_equal(id, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    assert_int_equal(id[ID_TEXT_SIZE], '#');
    assert_int_equal(id_uuid7(id, INT64_C(0x017F22E279B0), &high), 0);
    assert_string_equal(id, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
    assert_int_equal(id_uuid7(id, 0, &nothing), -1);
}

static void an_id_keeps_its_form(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 3);
    for (int i = 0; i < 1000; i++) {
        char id[ID_TEXT_SIZE];
        assert_int_equal(id_uuid7(id, i * INT64_C(1234567891), &r.source), 0);
        assert_int_equal(strlen(id), 36);
        for (size_t j = 0; j < 36; j++) {
            int dash = j == 8 || j == 13 || j == 18 || j == 23;
            assert_non_null(strchr(dash ? "-" : "0123456789abcdef", id[j]));
        }
        assert_int_equal(id[14], '7');
        assert_non_null(strchr("89ab", id[19]));
    }
}

static void ids_sort_by_their_time(void **state)
{
    (void)state;
    random_seeded r;
    random_seeded_init(&r, 4);
    char before[ID_TEXT_SIZE] = "", id[ID_TEXT_SIZE];
    for (int64_t ms = 1; ms < INT64_C(1) << 48; ms += 1 + ms / 50) {
        assert_int_equal(id_uuid7(id, ms, &r.source), 0);
        assert_true(strcmp(before, id) < 0);
        memcpy(before, id, sizeof id);
    }
}

static void times_out_of_range_become_the_nearest(void **state)
{
    (void)state;
    static const struct {
        int64_t ms;
        const char *begins;
    } cases[] = {
        {0, "00000000-0000-7"},
        {-1, "00000000-0000-7"},
        {INT64_MIN, "00000000-0000-7"},
        {(INT64_C(1) << 48) - 2, "ffffffff-fffe-7"},
        {(INT64_C(1) << 48) - 1, "ffffffff-ffff-7"},
        {INT64_C(1) << 48, "ffffffff-ffff-7"},
        {INT64_MAX, "ffffffff-ffff-7"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char id[ID_TEXT_SIZE];
        assert_int_equal(id_uuid7(id, cases[i].ms, random_system()), 0);
        assert_memory_equal(id, cases[i].begins, strlen(cases[i].begins));
    }
}

static void ids_follow_their_seed(void **state)
{
    (void)state;
    random_seeded one, same;
    random_seeded_init(&one, 9);
    random_seeded_init(&same, 9);
    char a[ID_TEXT_SIZE], b[ID_TEXT_SIZE], last[ID_TEXT_SIZE] = "";
    for (int i = 0; i < 100; i++) {
        id_uuid7(a, 1, &one.source);
        id_uuid7(b, 1, &same.source);
        assert_string_equal(a, b);
        assert_string_not_equal(a, last);
        memcpy(last, a, sizeof a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_system_fills_all_and_no_more),
        cmocka_unit_test(a_seed_gives_known_bytes),
        cmocka_unit_test(seeds_differ),
        cmocka_unit_test(an_id_is_as_the_rfc_has_it),
        cmocka_unit_test(an_id_keeps_its_form),
        cmocka_unit_test(ids_sort_by_their_time),
        cmocka_unit_test(times_out_of_range_become_the_nearest),
        cmocka_unit_test(ids_follow_their_seed),
    };
    return cmocka_run_group_tests_name("id", tests, NULL, NULL);
}
