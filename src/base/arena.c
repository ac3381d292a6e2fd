/* Small allocations are cut from the newest of a stack of chunks by moving one number: the hot
 * path touches no list and calls no allocator. The first chunk lies inside the arena itself, so a
 * small arena is one malloc() for its whole life. Large allocations get a block of their own and
 * leave the newest chunk as it is, so that they do not waste what is left in it.
 *
 * `total` counts what was handed out, gaps of alignment included, and only grows between rewinds.
 * Blocks and clean-ups remember the total at which they were made, and that is how a rewind knows
 * which of them came after its mark. */
#include "base/arena.h"

#include <assert.h>
#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>

#define FIRST_ROOM ((size_t)1024)
#define LAST_ROOM ((size_t)64 * 1024)
#define BLOCK_MIN (LAST_ROOM / 4) /* from here on, an allocation is a block of its own */

#define ALIGN alignof(max_align_t)
#define ALIGNED(n) (((n) + (ALIGN - 1)) & ~(size_t)(ALIGN - 1))

typedef struct chunk {
    struct chunk *before;
    char *bytes;
    size_t room; /* a multiple of ALIGN */
} chunk;

typedef struct block {
    struct block *before;
    size_t made_at;
} block;

typedef struct cleanup {
    struct cleanup *before;
    void (*fn)(void *arg);
    void *arg;
    size_t made_at;
} cleanup;

struct arena {
    chunk *top;
    size_t used; /* bytes in use of the newest chunk */
    size_t total;
    size_t limit; /* at most PTRDIFF_MAX: then no sum below can overflow */
    cleanup *cleanups;
    block *blocks;
    chunk first;
    alignas(max_align_t) char first_bytes[FIRST_ROOM];
};

static_assert(FIRST_ROOM % ALIGN == 0 && LAST_ROOM % FIRST_ROOM == 0, "rooms stay aligned");

arena *arena_new(size_t limit)
{
    arena *a = malloc(sizeof *a);
    if (!a)
        return NULL;
    a->first = (chunk){NULL, a->first_bytes, FIRST_ROOM};
    a->top = &a->first;
    a->used = 0;
    a->total = 0;
    a->limit = limit == 0 || limit > PTRDIFF_MAX ? PTRDIFF_MAX : limit;
    a->cleanups = NULL;
    a->blocks = NULL;
    return a;
}

static char *new_block(arena *a, size_t size)
{
    block *b = malloc(ALIGNED(sizeof *b) + size);
    if (!b)
        return NULL;
    *b = (block){a->blocks, a->total};
    a->blocks = b;
    return (char *)b + ALIGNED(sizeof *b);
}

static char *new_chunk(arena *a, size_t size)
{
    size_t room = a->top->room;
    do {
        room = room < LAST_ROOM ? 2 * room : LAST_ROOM;
    } while (room < size);

    chunk *c = malloc(ALIGNED(sizeof *c) + room);
    if (!c)
        return NULL;
    *c = (chunk){a->top, (char *)c + ALIGNED(sizeof *c), room};
    a->top = c;
    a->used = size;
    return c->bytes;
}

/* Returns memory that is not zeroed: arena_alloc() zeroes it, arena_copy() need not. */
static char *alloc_raw(arena *a, size_t size)
{
    if (size == 0)
        size = 1; /* so that each allocation has an address, and a total, of its own */
    size_t total = ALIGNED(a->total);
    if (total > a->limit || size > a->limit - total)
        return NULL;

    size_t start = ALIGNED(a->used);
    char *at;
    assert(start <= a->top->room);
    if (size <= a->top->room - start) {
        at = a->top->bytes + start;
        a->used = start + size;
    } else {
        at = size >= BLOCK_MIN ? new_block(a, size) : new_chunk(a, size);
        if (!at)
            return NULL;
    }
    a->total = total + size;
    return at;
}

void *arena_alloc(arena *a, size_t size)
{
    char *at = alloc_raw(a, size);
    return at ? memset(at, 0, size) : NULL;
}

char *arena_copy(arena *a, slice s)
{
    if (s.size == SIZE_MAX)
        return NULL;
    char *at = alloc_raw(a, s.size + 1);
    if (!at)
        return NULL;
    if (s.size > 0)
        memcpy(at, s.at, s.size);
    at[s.size] = '\0';
    return at;
}

int arena_defer(arena *a, void (*fn)(void *arg), void *arg)
{
    size_t made_at = a->total;
    cleanup *c = arena_alloc(a, sizeof *c);
    if (!c)
        return -1;
    *c = (cleanup){a->cleanups, fn, arg, made_at};
    a->cleanups = c;
    return 0;
}

arena_mark arena_mark_now(const arena *a)
{
    return (arena_mark){a->top, a->used, a->total};
}

void arena_rewind(arena *a, arena_mark mark)
{
    assert(mark.total <= a->total);

    /* All clean-ups before any memory: a clean-up may look at things that were made after it. */
    while (a->cleanups && a->cleanups->made_at >= mark.total) {
        cleanup *c = a->cleanups;
        a->cleanups = c->before;
        c->fn(c->arg);
    }
    while (a->blocks && a->blocks->made_at >= mark.total) {
        block *b = a->blocks;
        a->blocks = b->before;
        free(b);
    }
    while (a->top != mark.chunk) {
        chunk *c = a->top;
        assert(c != &a->first);
        a->top = c->before;
        free(c);
    }
    a->used = mark.used;
    a->total = mark.total;
}

void arena_reset(arena *a)
{
    arena_rewind(a, (arena_mark){&a->first, 0, 0});
}

void arena_free(arena *a)
{
    if (!a)
        return;
    arena_reset(a);
    free(a);
}

size_t arena_room(const arena *a)
{
    return a->limit == PTRDIFF_MAX ? SIZE_MAX : a->limit - a->total;
}

size_t arena_used(const arena *a)
{
    return a->total;
}
