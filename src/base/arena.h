/* An arena, or region allocator: memory with one lifetime.
 *
 * Things that go together are allocated together and freed at once: a unit with its values and the
 * rows of its answer, a page of results. An arena has a byte limit, so that hostile input ends in
 * an error instead of using up the machine's memory; and deferred clean-ups, so that what is not
 * memory (a descriptor, a statement) is released with it too, last first.
 *
 * An arena is used by one thread at a time. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include <stddef.h>

#include "base/slice.h"

typedef struct arena arena;

/* A point that arena_rewind() goes back to. */
typedef struct arena_mark {
    void *chunk;
    size_t used;
    size_t total;
} arena_mark;

/* A new arena that hands out at most `limit` bytes (0: no limit). NULL when memory is out. */
arena *arena_new(size_t limit);

/* Runs the clean-ups, frees everything. NULL is allowed. */
void arena_free(arena *a);

/* Runs the clean-ups and makes the arena empty; keeps its first chunk, so that an arena that is
 * reused neither grows nor calls malloc(). */
void arena_reset(arena *a);

/* Zeroed memory, aligned for anything. NULL when the limit is reached or memory is out. */
void *arena_alloc(arena *a, size_t size);

/* A copy of bytes, with a NUL behind it that is not counted. */
char *arena_copy(arena *a, slice s);

/* Have fn(arg) called when the arena is reset or freed; last registered, first called.
 * 0, or -1 when the arena is full (then fn has not been and will not be called). */
int arena_defer(arena *a, void (*fn)(void *arg), void *arg);

/* Everything allocated after the mark is given back by arena_rewind(). Clean-ups registered
 * after the mark run then. */
arena_mark arena_mark_now(const arena *a);
void arena_rewind(arena *a, arena_mark mark);

/* Bytes that may still be handed out; SIZE_MAX when there is no limit. */
size_t arena_room(const arena *a);

/* ---- For tests ---- */

/* Bytes handed out so far, as the limit counts them: with the gaps that alignment leaves. */
size_t arena_used(const arena *a);

#endif
