/* Waiting for futures (await, select). A wait asks the sources of arrivals of the run, and parks
 * the run if none of them has anything. */
#ifndef RUN_WAIT_H
#define RUN_WAIT_H

#include "run/futures.h"

/* Waits for the future and gives its value; if it has failed, the function is left. */
const char *future_await(pawl_future *f);

/* Waits until the future has its answer. */
void future_wait_for(pawl_future *f);

/* Waits for the jobs that are under way. For clean-ups, which have not started these jobs. */
void futures_let_return(pawl_run *run);

/* The function is left with the failure that the future has. */
_Noreturn void future_fail(pawl_future *f);

/* A source of arrivals: the futures that are due. */
int wait_fire(pawl_run *run);

#endif
