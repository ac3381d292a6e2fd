#define _GNU_SOURCE /* MAP_ANONYMOUS, MAP_NORESERVE, MAP_STACK, madvise */
/* Stacks from mmap(2). Each takes two of the process's maps, one for the stack and one for the
 * guard, because neighbours with different rights cannot be joined.
 *
 * Pages are given back with MADV_DONTNEED. MADV_FREE is faster (1.5 against 2.5 us for a page, and
 * another microsecond saved when it is touched again), but the pages count as the process's until
 * memory is short: the cost of parked fibers could not be seen, and unused memory could reach the
 * limit of a container. */
#include "fiber/stack.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fiber/watch.h"

enum { MAPS_OF_LINUX = 65530 }; /* the default of Linux; on other systems a guess */

#ifndef MAP_NORESERVE
#define MAP_NORESERVE 0
#endif
#ifndef MAP_STACK
#define MAP_STACK 0
#endif

size_t stack_limit(void)
{
    long maps = 0;
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file) {
        char line[32];
        if (fgets(line, sizeof line, file))
            maps = strtol(line, NULL, 10);
        fclose(file);
    }
    /* RULE B10-no-more-stacks-than-there-are-maps */
    return (size_t)(maps > 0 ? maps : MAPS_OF_LINUX) / 4;
}

static size_t page_size(void)
{
    long size = sysconf(_SC_PAGESIZE);
    return size > 0 ? (size_t)size : 4096;
}

static size_t whole_pages(size_t size, size_t page)
{
    return (size + page - 1) / page * page;
}

/* Maps a stack with a guard below it, and returns its lowest byte. The whole range is mapped
 * without access first, and the stack is made accessible then: so the guard does not count under
 * strict overcommit. */
static char *map_guarded(size_t guard, size_t size)
{
    int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
    /* RULE B10-below-every-stack-is-a-guard */
    char *at = mmap(NULL, guard + size, PROT_NONE, flags, -1, 0);
    if (at == MAP_FAILED)
        return NULL;
    if (mprotect(at + guard, size, PROT_READ | PROT_WRITE) != 0) {
        munmap(at, guard + size);
        return NULL;
    }
    return at + guard;
}

stack *stack_new(void)
{
    size_t page = page_size();
    size_t size = whole_pages(STACK_SIZE, page);
    stack *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->low = map_guarded(whole_pages(STACK_GUARD, page), size);
    if (!s->low) {
        free(s);
        return NULL;
    }
    s->top = s->low + size;
    watch_mapped(s);
    return s;
}

void stack_free(stack *s)
{
    size_t guard = whole_pages(STACK_GUARD, page_size());
    watch_unmapped(s);
    munmap(s->low - guard, (size_t)(s->top - s->low) + guard);
    free(s);
}

void stack_trim(const stack *s, const char *sp, size_t kept)
{
    assert(sp > s->low && sp <= s->top);
    size_t below = (size_t)(sp - s->low);
    if (below <= kept)
        return;
    size_t unneeded = (below - kept) / page_size() * page_size();
    /* If this fails, the fiber only costs more memory. */
    if (unneeded > 0)
        (void)madvise(s->low, unneeded, MADV_DONTNEED);
}
