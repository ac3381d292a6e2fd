/* A hash map from 64-bit keys to pointers: addresses, thread ids, row ids.
 *
 * Open addressing, linear probing, at most three quarters full. The map owns its table, never
 * what the values point to. Key 0 and any other key are fine; a NULL value is not stored. */
#ifndef BASE_MAP_H
#define BASE_MAP_H

#include <stddef.h>
#include <stdint.h>

typedef struct map_slot {
    uint64_t key;
    void *value; /* NULL: the slot is free */
} map_slot;

typedef struct map {
    map_slot *slots;
    size_t room; /* a power of two, or 0 */
    size_t count;
} map;

/* A map of zeroes is an empty map. map_clear(): it is empty, and keeps its room. */
void map_free(map *m);
void map_clear(map *m);

/* Returns the value of the key; NULL: the key is not there. */
void *map_get(const map *m, uint64_t key);

/* Stores a value, or replaces the one that the key has. Returns 0, or -1 if memory is out, and then
 * nothing has changed. */
int map_put(map *m, uint64_t key, void *value);

/* Makes room for `more` keys, so that the next puts need no memory. Returns 0, or -1 if memory is
 * out. */
int map_reserve(map *m, size_t more);

/* Takes the key out, and returns its value; NULL: it was not there. */
void *map_take(map *m, uint64_t key);

/* Walks over all entries: *cursor is 0 at first. Returns 0 at the end. The map must not change
 * meanwhile. */
int map_next(const map *m, size_t *cursor, uint64_t *key, void **value);

#endif
