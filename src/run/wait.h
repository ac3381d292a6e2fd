/* Waiting for futures (await, select). A wait polls the run's sources of arrivals, and parks the
 * run if none of them has anything. */
#ifndef RUN_WAIT_H
#define RUN_WAIT_H

#include "run/futures.h"

/* Waits for the future, and returns its value. If the future has failed, the function is left. */
const char *future_await(pawl_future *f);

/* Waits until the future has its answer. */
void future_wait_for(pawl_future *f);

/* Waits until all jobs of the run have returned. For clean-ups: the jobs are those of the function,
 * which was left. */
void futures_let_return(pawl_run *run);

/* Leaves the function: the run fails with the error of the future. */
_Noreturn void future_fail(pawl_future *f);

/* A source of arrivals: calls due() of the futures that are due. Returns 1 if something has
 * arrived. */
int wait_fire(pawl_run *run);

#endif
