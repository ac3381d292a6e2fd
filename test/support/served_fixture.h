/* A fixture with a serving engine: threads of its own, and a clock that runs, for what happens
 * while work functions are being called. Workflows are registered between served_open() and
 * served_begin(). */
#ifndef SUPPORT_SERVED_FIXTURE_H
#define SUPPORT_SERVED_FIXTURE_H

#include <pthread.h>

#include "support/engine_fixture.h"

typedef struct served {
    stage *stage;
    pawl *p;
    pthread_t thread;
} served;

served served_open(conf *c, const pawl_options *options);

/* pawl_serve() on a thread; and its end. After a stop it may begin again. */
void served_begin(served *v);
void served_stop(served *v);

/* The same; a number of the stage becomes 1 as soon as the threads of the engine know that it
 * stops, for work functions that return then. */
void served_stop_and_set(served *v, int which);

/* Stop, close, and free the stage. */
void served_end(served *v);

#endif
