/* An engine with threads of its own, on a stage whose clock goes: for what happens while work
 * functions are being called. Between opening and beginning workflows are registered. */
#ifndef SUPPORT_SERVED_H
#define SUPPORT_SERVED_H

#include <pthread.h>

#include "support/engine.h"

typedef struct served {
    stage *stage;
    pawl *p;
    pthread_t thread;
} served;

served served_open(conf *c, const pawl_options *options);

/* pawl_serve() on a thread; and its end. After a stop it may begin again. */
void served_begin(served *v);
void served_stop(served *v);

/* Stop, close, and free the stage. */
void served_end(served *v);

#endif
