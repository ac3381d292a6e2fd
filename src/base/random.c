/* Two sources: the kernel's, which needs no state and no seeding of ours, and a small generator
 * (splitmix64) for tests, whose bytes are the same on every machine whatever its byte order. */
#define _GNU_SOURCE /* getentropy() is newer than the POSIX we ask for */

#include "base/clock.h"

#include <sys/random.h>

#define MOST_AT_ONCE 256 /* what getentropy() gives in one call */

static int system_fill(random_source *r, void *at, size_t size)
{
    (void)r;
    char *to = at;
    while (size > 0) {
        size_t part = size < MOST_AT_ONCE ? size : MOST_AT_ONCE;
        if (getentropy(to, part) != 0)
            return -1;
        to += part;
        size -= part;
    }
    return 0;
}

random_source *random_system(void)
{
    static const random_source source = {system_fill};
    /* The interface is not const because other sources change; this one has nothing to change. */
    return (random_source *)&source;
}

static uint64_t next(random_seeded *r)
{
    uint64_t z = r->state += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static int seeded_fill(random_source *source, void *at, size_t size)
{
    random_seeded *r = (random_seeded *)source;
    unsigned char *to = at;
    uint64_t bits = 0;
    for (size_t i = 0; i < size; i++) {
        bits = i % 8 == 0 ? next(r) : bits >> 8;
        to[i] = (unsigned char)(bits & 0xFF);
    }
    return 0;
}

void random_seeded_init(random_seeded *r, uint64_t seed)
{
    *r = (random_seeded){{seeded_fill}, seed};
}
