/* A fixture with an engine that serves: with threads of its own, and on a clock that runs. For
 * tests of what happens while work functions are being called. Workflows are registered between
 * served_open() and served_begin(). */
#ifndef SUPPORT_SERVED_FIXTURE_H
#define SUPPORT_SERVED_FIXTURE_H

#include <pthread.h>

#include "support/engine_fixture.h"

typedef struct served_fixture {
    engine_fixture *fixture;
    pawl *p;
    pthread_t thread;
} served_fixture;

served_fixture served_open(conf *c, const pawl_options *options);

/* served_begin() starts pawl_serve() on a thread, and served_stop() stops it. After a stop it may
 * be started again. */
void served_begin(served_fixture *v);
void served_stop(served_fixture *v);

/* As served_stop(). The fixture's number `which` becomes 1 as soon as the threads of the engine
 * know of the stop, so that work functions can wait for that and return then. */
void served_stop_and_set(served_fixture *v, int which);

/* Stops and closes the engine, and frees the engine fixture. */
void served_end(served_fixture *v);

#endif
