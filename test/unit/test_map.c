/* The map: against a list that is searched from end to end, with random and with colliding keys;
 * and its own bookkeeping after every step. Colliding keys are found by asking the map where it
 * puts a single key, so that these tests hold for any hash. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "base/clock.h"
#include "base/map.h"

static char things[1000]; /* values: their addresses tell them apart */

/* ---- the list ---- */

enum { KEYS = 300 };

typedef struct model {
    uint64_t keys[KEYS];
    void *values[KEYS]; /* NULL: not in the map */
    size_t count;
} model;

static void check_walk(const map *m, const model *list)
{
    int seen[KEYS] = {0};
    size_t cursor = 0, walked = 0;
    uint64_t key;
    void *value;
    while (map_next(m, &cursor, &key, &value)) {
        size_t i = 0;
        while (i < KEYS && list->keys[i] != key)
            i++;
        assert_true(i < KEYS);
        assert_ptr_equal(value, list->values[i]);
        assert_int_equal(seen[i]++, 0);
        walked++;
    }
    assert_int_equal(walked, list->count);
}

static void check_same(const map *m, const model *list)
{
    assert_int_equal(m->count, list->count);
    assert_true(m->count * 4 <= m->room * 3);
    assert_int_equal(m->room & (m->room - 1), 0);
    for (size_t i = 0; i < KEYS; i++)
        assert_ptr_equal(map_get(m, list->keys[i]), list->values[i]);
    check_walk(m, list);
}

/* Puts and takes among the first `keys` keys; about `load` of 100 steps are puts. */
static void play(map *m, model *list, random_seeded *r, size_t keys, int steps, unsigned load)
{
    for (int step = 0; step < steps; step++) {
        uint32_t dice[3];
        r->source.fill(&r->source, dice, sizeof dice);
        size_t i = dice[0] % keys;
        if (dice[1] % 100 < load) {
            void *value = &things[dice[2] % sizeof things];
            list->count += !list->values[i];
            list->values[i] = value;
            assert_int_equal(map_put(m, list->keys[i], value), 0);
        } else {
            assert_ptr_equal(map_take(m, list->keys[i]), list->values[i]);
            list->count -= list->values[i] != NULL;
            list->values[i] = NULL;
        }
        check_same(m, list);
    }
}

static void a_map_holds_what_a_list_holds(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        random_seeded r;
        random_seeded_init(&r, seed);
        map m = {0};
        model list = {.count = 0};
        r.source.fill(&r.source, list.keys, sizeof list.keys);
        play(&m, &list, &r, 20, 300, 50);
        play(&m, &list, &r, KEYS, 400, 80);
        play(&m, &list, &r, KEYS, 600, 20);
        map_free(&m);
    }
}

/* ---- colliding keys ---- */

static size_t place_of(const map *m, uint64_t key)
{
    size_t i = 0;
    while (i < m->room && !(m->slots[i].value && m->slots[i].key == key))
        i++;
    assert_true(i < m->room);
    return i;
}

/* The next key after `key` that a small empty map puts into slot `home`. */
static uint64_t next_with_home(uint64_t key, size_t home)
{
    map m = {0};
    for (;;) {
        key++;
        assert_int_equal(map_put(&m, key, things), 0);
        assert_int_equal(m.room, 16);
        size_t place = place_of(&m, key);
        map_take(&m, key);
        if (place == home)
            break;
    }
    map_free(&m);
    return key;
}

/* Chains of twelve that run into each other and around the end of the table of sixteen. */
static void chains_survive_every_removal(void **state)
{
    (void)state;
    static const size_t homes[] = {15, 15, 14, 15, 0, 14, 1, 0, 15, 1, 2, 14};
    enum { COUNT = sizeof homes / sizeof *homes };
    model list = {.count = 0};
    for (size_t i = 0; i < KEYS; i++)
        list.keys[i] = next_with_home(i ? list.keys[i - 1] : 0, homes[i % COUNT]);
    for (size_t start = 0; start < COUNT; start++) {
        for (size_t stride = 1; stride < COUNT; stride++) {
            map m = {0};
            for (size_t i = 0; i < COUNT; i++) {
                list.values[i] = &things[i];
                assert_int_equal(map_put(&m, list.keys[i], &things[i]), 0);
            }
            assert_int_equal(m.room, 16);
            list.count = COUNT;
            for (size_t i = 0; i < COUNT; i++) {
                size_t k = (start + i * stride) % COUNT;
                assert_ptr_equal(map_take(&m, list.keys[k]), list.values[k]);
                list.count -= list.values[k] != NULL;
                list.values[k] = NULL;
                check_same(&m, &list);
            }
            map_free(&m);
            memset(list.values, 0, sizeof list.values);
        }
    }
}

static void colliding_keys_come_and_go_and_grow(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        random_seeded r;
        random_seeded_init(&r, seed);
        map m = {0};
        model list = {.count = 0};
        for (size_t i = 0; i < KEYS; i++)
            list.keys[i] = next_with_home(i ? list.keys[i - 1] : 0, 14 + i % 2);
        play(&m, &list, &r, 12, 400, 55);
        assert_int_equal(m.room, 16);
        play(&m, &list, &r, 60, 400, 70);
        play(&m, &list, &r, 60, 300, 20);
        map_free(&m);
    }
}

/* ---- the edges ---- */

static void an_empty_map_has_nothing(void **state)
{
    (void)state;
    map m = {0};
    size_t cursor = 0;
    uint64_t key;
    void *value;
    assert_null(map_get(&m, 0));
    assert_null(map_take(&m, 0));
    assert_int_equal(map_next(&m, &cursor, &key, &value), 0);
    map_free(&m);

    assert_int_equal(map_put(&m, 1, things), 0);
    assert_ptr_equal(map_take(&m, 1), things);
    assert_null(map_take(&m, 1));
    assert_null(map_get(&m, 1));
    assert_int_equal(m.count, 0);
    map_free(&m);
    assert_int_equal(m.room, 0);
    assert_null(map_get(&m, 1));
}

static void any_key_is_a_key(void **state)
{
    (void)state;
    static const uint64_t keys[] = {
        0, 1, UINT64_MAX, UINT64_C(1) << 63, UINT32_MAX, UINT64_C(1) << 32};
    map m = {0};
    for (size_t i = 0; i < 6; i++) {
        assert_null(map_get(&m, keys[i]));
        assert_int_equal(map_put(&m, keys[i], &things[i]), 0);
    }
    for (size_t i = 0; i < 6; i++)
        assert_ptr_equal(map_get(&m, keys[i]), &things[i]);
    for (size_t i = 0; i < 6; i++)
        assert_ptr_equal(map_take(&m, keys[i]), &things[i]);
    map_free(&m);
}

static void put_replaces(void **state)
{
    (void)state;
    map m = {0};
    assert_int_equal(map_put(&m, 5, &things[1]), 0);
    assert_int_equal(map_put(&m, 5, &things[2]), 0);
    assert_int_equal(m.count, 1);
    assert_ptr_equal(map_get(&m, 5), &things[2]);
    map_free(&m);
}

static void a_map_grows_at_three_quarters(void **state)
{
    (void)state;
    map m = {0};
    for (uint64_t key = 1; key <= 12; key++)
        assert_int_equal(map_put(&m, key, things), 0);
    assert_int_equal(m.room, 16);
    assert_int_equal(map_put(&m, 12, &things[1]), 0); /* replacing needs no room */
    assert_int_equal(m.room, 16);
    assert_int_equal(map_put(&m, 13, things), 0);
    assert_int_equal(m.room, 32);
    map_free(&m);
}

/* Rows are numbered one by one, and addresses differ by a stride: neither may pile up. */
static void regular_keys_do_not_pile_up(void **state)
{
    (void)state;
    static const uint64_t strides[] = {
        1, 16, 64, 4096, UINT64_C(1) << 20, UINT64_C(1) << 32, UINT64_C(1) << 48};
    for (size_t i = 0; i < sizeof strides / sizeof *strides; i++) {
        enum { COUNT = 3000 };
        map m = {0};
        for (uint64_t k = 0; k < COUNT; k++)
            assert_int_equal(map_put(&m, k * strides[i], things), 0);
        size_t run = 0, longest = 0;
        for (size_t j = 0; j < 2 * m.room; j++) {
            run = m.slots[j & (m.room - 1)].value ? run + 1 : 0;
            longest = run > longest ? run : longest;
        }
        assert_in_range(longest, 1, 200);
        map_free(&m);
    }
}

static void what_is_reserved_needs_no_memory(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    map m = {0};
    assert_int_equal(map_put(&m, 1000, things), 0);
    assert_int_equal(map_reserve(&m, COUNT), 0);
    const map_slot *slots = m.slots;
    for (int round = 0; round < 2; round++) {
        for (uint64_t k = 0; k < COUNT; k++)
            assert_int_equal(map_put(&m, k, things), 0);
        assert_ptr_equal(m.slots, slots);
        map_clear(&m);
        assert_int_equal(m.count, 0);
        assert_null(map_get(&m, 1));
    }
    map_free(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_map_holds_what_a_list_holds),
        cmocka_unit_test(chains_survive_every_removal),
        cmocka_unit_test(colliding_keys_come_and_go_and_grow),
        cmocka_unit_test(an_empty_map_has_nothing),
        cmocka_unit_test(any_key_is_a_key),
        cmocka_unit_test(put_replaces),
        cmocka_unit_test(a_map_grows_at_three_quarters),
        cmocka_unit_test(regular_keys_do_not_pile_up),
        cmocka_unit_test(what_is_reserved_needs_no_memory),
    };
    return cmocka_run_group_tests_name("map", tests, NULL, NULL);
}
