/* What the files of ops share: checking arguments. A wrong argument is a mistake in the workflow:
 * its function is left, and the run is held. */
#ifndef RUN_OPS_H
#define RUN_OPS_H

#include "run/run.h"

/* Leaves the function; the run is held for the mistake that the error tells. */
_Noreturn void ops_refuse(pawl_run *run, const error *err);

/* Checks a name, and returns it. `what` says in errors what it is ("version of the child"). */
slice ops_name(pawl_run *run, const char *name, const char *what);

/* As ops_name(), for names of steps, work functions, workflows, mailboxes and patches: they are not
 * empty, and do not begin with "pawl.", which is reserved. */
slice ops_own_name(pawl_run *run, const char *name, const char *what);

/* Checks JSON text, and returns it. `what` says in errors what the text is ("input of the step"),
 * and `name` is the name of its op; "": the op has no name. */
slice ops_json(pawl_run *run, const char *json, const char *what, const char *name);

/* Sleeps until the pause after a failed attempt is over. The sleep is an op of its own, as
 * pawl_sleep_until(). `not_before_ns` is future_not_before() of the pause; 0: this process has not
 * begun the pause. */
void ops_rest(pawl_run *run, int64_t at_ms, int64_t not_before_ns);

struct call;

/* Reads the options of a call into `c`, and records the undo that they name. */
void ops_call_options(pawl_run *run, struct call *c, const pawl_call_options *given);

#endif
