/* A fixture with a serving engine: threads of its own, and a clock that runs, for what happens
 * while work functions are being called. Workflows are registered between served_open() and
 * served_begin(). */
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

/* Start pawl_serve() on a thread, and stop it. After a stop it may begin again. */
void served_begin(served_fixture *v);
void served_stop(served_fixture *v);

/* Stop it. A number of the fixture becomes 1 as soon as the threads of the engine know that it
 * stops, for work functions that return then. */
void served_stop_and_set(served_fixture *v, int which);

/* Stop and close the engine, and free the engine fixture. */
void served_end(served_fixture *v);

#endif
