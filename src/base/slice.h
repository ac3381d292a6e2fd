/* A slice: borrowed bytes, with their length.
 *
 * Everything that comes in from outside becomes a slice at the edge and is never measured with
 * strlen() again. A slice says nothing about how long its bytes live: the function that takes one
 * says so. */
#ifndef BASE_SLICE_H
#define BASE_SLICE_H

#include <stddef.h>
#include <string.h>

typedef struct slice {
    const char *at;
    size_t size;
} slice;

#define SLICE_LIT(text) ((slice){(text), sizeof(text) - 1})

static inline slice slice_of(const char *text)
{
    return (slice){text, text ? strlen(text) : 0};
}

static inline int slice_equal(slice a, slice b)
{
    return a.size == b.size && (a.size == 0 || memcmp(a.at, b.at, a.size) == 0);
}

static inline int slice_starts(slice s, slice prefix)
{
    return s.size >= prefix.size && slice_equal((slice){s.at, prefix.size}, prefix);
}

#endif
