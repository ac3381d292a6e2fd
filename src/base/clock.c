/* The system's clocks. Waiting uses the monotonic clock, so that setting the date neither wakes
 * every waiter nor puts it to sleep for a year; that is why conditions must be made with
 * clock_cond_init(), as the default for a condition is the clock that can be set. */
#include "base/clock.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#define NS_PER_S INT64_C(1000000000)

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    int failed = clock_gettime(id, &t);
    assert(!failed);
    (void)failed;
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int64_t system_now_ms(clock_source *c)
{
    (void)c;
    return read_ns(CLOCK_REALTIME) / 1000000;
}

static int64_t system_up_ms(clock_source *c)
{
    (void)c;
    return (read_ns(CLOCK_REALTIME) + 999999) / 1000000; /* RULE C2-what-is-due-is-rounded-up */
}

static int64_t system_mono_ns(clock_source *c)
{
    (void)c;
    return read_ns(CLOCK_MONOTONIC);
}

static int system_wait(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                       int64_t deadline_ns)
{
    (void)c;
    int result;
    if (deadline_ns == INT64_MAX) {
        result = pthread_cond_wait(cond, mutex);
    } else {
        int64_t at = deadline_ns > 0 ? deadline_ns : 0; /* a negative time is no timespec */
        struct timespec t = {.tv_sec = (time_t)(at / NS_PER_S), .tv_nsec = (long)(at % NS_PER_S)};
        result = pthread_cond_timedwait(cond, mutex, &t);
    }
    assert(result == 0 || result == ETIMEDOUT);
    return result == ETIMEDOUT;
}

clock_source *clock_system(void)
{
    static const clock_source source = {system_now_ms, system_mono_ns, system_wait, system_up_ms};
    /* The interface is not const because other clocks change; this one has nothing to change. */
    return (clock_source *)&source;
}

int64_t clock_up_ms(clock_source *c)
{
    return c->up_ms ? c->up_ms(c) : c->now_ms(c);
}

int clock_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    int failed = pthread_condattr_init(&attr);
    if (failed)
        return failed;
    failed = pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    if (!failed)
        failed = pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
    return failed;
}

int64_t clock_deadline(int64_t from_ns, int64_t ms)
{
    const int64_t ns_per_ms = NS_PER_S / 1000;
    if (ms > (INT64_MAX - from_ns) / ns_per_ms)
        return INT64_MAX;
    return from_ns + ms * ns_per_ms;
}
