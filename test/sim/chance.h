/* Chance that can be repeated: everything that the simulator leaves to it comes out of one number.
 *
 * splitmix64, so small that it can be copied; not src/base, which is under test. */
#ifndef SIM_CHANCE_H
#define SIM_CHANCE_H

#include <stdint.h>

typedef struct chance {
    uint64_t state;
} chance;

static inline uint64_t chance_mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static inline uint64_t chance_next(chance *c)
{
    return chance_mix(c->state += UINT64_C(0x9E3779B97F4A7C15));
}

/* Something from `low` to `high`, both included. */
static inline int64_t chance_between(chance *c, int64_t low, int64_t high)
{
    return low + (int64_t)(chance_next(c) % (uint64_t)(high - low + 1));
}

/* 1 in so many of a thousand. */
static inline int chance_of(chance *c, int64_t thousandth)
{
    return chance_between(c, 0, 999) < thousandth;
}

#endif
