/* What the files of ops share: arguments that are checked at the edge. A wrong one is a mistake in
 * the workflow: the run is left, and held. */
#ifndef RUN_OPS_H
#define RUN_OPS_H

#include "run/run.h"

/* The run is left, and held, for the mistake that the error tells. */
_Noreturn void ops_refuse(pawl_run *run, const error *err);

slice ops_name(pawl_run *run, const char *name, const char *what);

/* A name that is not empty, and does not begin with "pawl.", which is reserved: of steps, work
 * functions, workflows, mailboxes, patches. */
slice ops_own_name(pawl_run *run, const char *name, const char *what);

/* JSON that `what` says what it is ("input of the step"), of the op called `name` ("": it has no
 * name of its own). */
slice ops_json(pawl_run *run, const char *json, const char *what, const char *name);

/* Sleeps until the pause behind an attempt is over: an op of its own, as pawl_sleep_until().
 * `not_before_ns`: future_not_before() of the pause; 0: this process has not begun it. */
void ops_rest(pawl_run *run, int64_t at_ms, int64_t not_before_ns);

struct call;

/* The options of a call; what undoes it is recorded. */
void ops_call_options(pawl_run *run, struct call *c, const pawl_call_options *given);

#endif
