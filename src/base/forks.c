/* The number belongs to the process, so it is a variable of the process. Children that are not made
 * by fork() (posix_spawn, vfork) run another program at once and are none. */
#include "base/forks.h"

#include <pthread.h>
#include <stdatomic.h>

static atomic_int count;                        /* tidy: shared, for fork() */
static pthread_once_t once = PTHREAD_ONCE_INIT; /* tidy: shared, for fork() */

static void count_child(void)
{
    atomic_fetch_add(&count, 1);
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_child);
}

int forks_count(void)
{
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&count, memory_order_relaxed);
}
