/* Starting a thread of the library's own.
 *
 * Signals belong to the application: threads of the library block them all, so that its handlers
 * never run on a thread that it does not know. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

/* 1: the thread runs. 0: the system has none to give. */
int thread_start(pthread_t *out, void *(*fn)(void *arg), void *arg);

#endif
