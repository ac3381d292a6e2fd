/* Linear probing without tombstones: taking a key out moves the following entries of its chain
 * back over the hole, so that a map in which keys come and go never gets slower. Keys are
 * addresses and row ids, which differ in few and regular bits; a multiplication spreads these over
 * the word before its low bits choose the slot. */
#include "base/map.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 16

static size_t home(const map *m, uint64_t key)
{
    uint64_t mixed = (key ^ (key >> 32)) * UINT64_C(0x9E3779B97F4A7C15);
    return (size_t)(mixed ^ (mixed >> 32)) & (m->room - 1);
}

/* The slot that holds the key, or the free one where it belongs. */
static size_t find(const map *m, uint64_t key)
{
    assert(m->count < m->room);
    size_t i = home(m, key);
    while (m->slots[i].value && m->slots[i].key != key)
        i = (i + 1) & (m->room - 1);
    return i;
}

static int grow(map *m)
{
    map bigger = {.room = m->room ? 2 * m->room : FIRST_ROOM, .count = m->count};
    bigger.slots = calloc(bigger.room, sizeof *bigger.slots);
    if (!bigger.slots)
        return -1;
    for (size_t i = 0; i < m->room; i++) {
        if (m->slots[i].value)
            bigger.slots[find(&bigger, m->slots[i].key)] = m->slots[i];
    }
    free(m->slots);
    *m = bigger;
    return 0;
}

void map_free(map *m)
{
    free(m->slots);
    memset(m, 0, sizeof *m);
}

void map_clear(map *m)
{
    for (size_t i = 0; i < m->room; i++)
        m->slots[i] = (map_slot){0, NULL};
    m->count = 0;
}

void *map_get(const map *m, uint64_t key)
{
    return m->room ? m->slots[find(m, key)].value : NULL;
}

int map_reserve(map *m, size_t more)
{
    while (m->count + more > m->room / 4 * 3)
        if (grow(m) != 0)
            return -1;
    return 0;
}

int map_put(map *m, uint64_t key, void *value)
{
    assert(value);
    if (m->room) {
        map_slot *slot = &m->slots[find(m, key)];
        if (slot->value) {
            slot->value = value;
            return 0;
        }
    }
    if (map_reserve(m, 1) != 0)
        return -1;
    m->slots[find(m, key)] = (map_slot){key, value};
    m->count++;
    return 0;
}

void *map_take(map *m, uint64_t key)
{
    if (!m->room)
        return NULL;
    size_t mask = m->room - 1;
    size_t hole = find(m, key);
    void *value = m->slots[hole].value;
    if (!value)
        return NULL;

    for (size_t i = (hole + 1) & mask; m->slots[i].value; i = (i + 1) & mask) {
        /* An entry may move back into the hole only if the hole is not before the slot where its
         * chain begins (its home). */
        size_t from_home = (i - home(m, m->slots[i].key)) & mask;
        if (from_home >= ((i - hole) & mask)) {
            m->slots[hole] = m->slots[i];
            hole = i;
        }
    }
    m->slots[hole] = (map_slot){0, NULL};
    m->count--;
    return value;
}

int map_next(const map *m, size_t *cursor, uint64_t *key, void **value)
{
    while (*cursor < m->room) {
        const map_slot *slot = &m->slots[(*cursor)++];
        if (slot->value) {
            *key = slot->key;
            *value = slot->value;
            return 1;
        }
    }
    return 0;
}
