/* What the files of ops share: arguments that are checked at the edge. A wrong one is a mistake in
 * the workflow: the run is left, and held. */
#ifndef CORE_OPS_H
#define CORE_OPS_H

#include "core/run.h"

slice ops_name(pawl_run *run, const char *name, const char *what);
slice ops_json(pawl_run *run, const char *json, const char *what);

#endif
