/* A new thread inherits the signal mask of the thread that makes it; so all signals are blocked for
 * that moment, and the mask is restored. */
#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(out, NULL, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc == 0;
}
