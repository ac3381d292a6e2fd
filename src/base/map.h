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

/* NULL when the key is not there. */
void *map_get(const map *m, uint64_t key);

/* Store, or replace what was stored. 0, or -1 when memory is out (then nothing changed). */
int map_put(map *m, uint64_t key, void *value);

/* Room for so many more keys: the next puts need no memory. 0, or -1 as above. */
int map_reserve(map *m, size_t more);

/* Take the key out; gives its value, NULL if it was not there. */
void *map_take(map *m, uint64_t key);

/* Walk over all entries: start with *cursor = 0; 0 at the end. The map must not change. */
int map_next(const map *m, size_t *cursor, uint64_t *key, void **value);

#endif
