/* Time and randomness, handed in from outside.
 *
 * Nothing in the engine asks the system for the time, not even when it waits on a condition: it
 * asks its clock. Tests and the simulator hand in a fake clock that they move by hand, so that
 * logic with time is tested quickly and deterministically. Names say the unit: _ms or _ns. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

typedef struct clock_source clock_source;

struct clock_source {
    /* Milliseconds since 1970, UTC. May jump in either direction. */
    int64_t (*now_ms)(clock_source *c);

    /* Nanoseconds from an arbitrary beginning; never goes back. For deadlines and durations. */
    int64_t (*mono_ns)(clock_source *c);

    /* Wait on `cond` (made with clock_cond_init()) until it is signalled or mono_ns() reaches
     * `deadline_ns`; INT64_MAX: no deadline. 0 when woken (perhaps for nothing), 1 when the
     * deadline has passed. */
    int (*wait)(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline_ns);

    /* now_ms() rounded up, where that cuts off a part of a millisecond. NULL: it never does. */
    int64_t (*up_ms)(clock_source *c);
};

/* The time, rounded up. What is to happen after a duration is due at this time plus the duration,
 * and it is due when now_ms(), which is cut off, has come there: so it is never early. */
int64_t clock_up_ms(clock_source *c);

/* The system's clocks. Stateless: one for all. */
clock_source *clock_system(void);

/* `ms` from `from_ns`, in nanoseconds; INT64_MAX where that would be beyond the end of time. */
int64_t clock_deadline(int64_t from_ns, int64_t ms);

/* A condition variable that clock_source.wait() can time. 0, or an errno. */
int clock_cond_init(pthread_cond_t *cond);

/* A clock that stands still until it is moved. Threads waiting on it wake when it passes their
 * deadline, or when their condition is signalled. */
typedef struct clock_fake clock_fake;

clock_fake *clock_fake_new(int64_t now_ms);
void clock_fake_free(clock_fake *f);
clock_source *clock_fake_source(clock_fake *f);

/* Forward only. Takes the mutex of each thread that it wakes: the caller must not hold one. */
void clock_fake_advance(clock_fake *f, int64_t ms);

/* Randomness: fill `size` bytes. 0, or -1 when the system has none to give. */
typedef struct random_source random_source;

struct random_source {
    int (*fill)(random_source *r, void *at, size_t size);
};

random_source *random_system(void);

/* A generator that gives the same bytes for the same seed. Not for secrets. */
typedef struct random_seeded {
    random_source source;
    uint64_t state;
} random_seeded;

void random_seeded_init(random_seeded *r, uint64_t seed);

#endif
