/* The number and the list belong to the process, so they are variables of the process. Children
 * that are not made by fork() (posix_spawn, vfork) run another program at once and are none. */
#include "base/forks.h"

#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

static atomic_int count;                                     /* tidy: shared, for fork() */
static pthread_once_t once = PTHREAD_ONCE_INIT;              /* tidy: shared, for fork() */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER; /* tidy: shared, for fork() */
static forks_fd *all;                                        /* tidy: shared, for fork() */

static void before_fork(void)
{
    pthread_mutex_lock(&all_lock);
}

static void after_fork_in_parent(void)
{
    pthread_mutex_unlock(&all_lock);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add(&count, 1);
    for (; all; all = all->next)
        close(all->fd);
    pthread_mutex_unlock(&all_lock);
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int forks_count(void)
{
    pthread_once(&once, watch_forks);
    return atomic_load_explicit(&count, memory_order_relaxed);
}

void forks_close(forks_fd *f, int fd)
{
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&all_lock);
    *f = (forks_fd){all, fd};
    all = f;
    pthread_mutex_unlock(&all_lock);
}

void forks_keep(forks_fd *f)
{
    pthread_mutex_lock(&all_lock);
    for (forks_fd **at = &all; *at; at = &(*at)->next) {
        if (*at == f) {
            *at = f->next;
            break;
        }
    }
    pthread_mutex_unlock(&all_lock);
}
