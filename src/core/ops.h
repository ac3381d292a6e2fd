/* What the files of ops share: arguments that are checked at the edge. A wrong one is a mistake in
 * the workflow: the run is left, and held. */
#ifndef CORE_OPS_H
#define CORE_OPS_H

#include "core/run.h"

slice ops_name(pawl_run *run, const char *name, const char *what);
slice ops_mailbox(pawl_run *run, const char *name);
struct call;
slice ops_json(pawl_run *run, const char *json, const char *what);

/* The options of a call; what undoes it is recorded. */
void ops_call_options(pawl_run *run, struct call *c, const pawl_call_options *given);

#endif
