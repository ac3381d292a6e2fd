/* The outcome of a run, and waiting for it: used by pawl_wait() and pawl_finish(), which give the
 * same answers. */
#ifndef API_WAIT_H
#define API_WAIT_H

#include "base/error.h"

/* Reads the run once. Gives PAWL_OK, FAILED, CANCELLED or HELD, with *out (`out` may be NULL);
 * TIMEOUT if the run has not ended; NOTFOUND. */
pawl_code wait_look(pawl *p, const char *id, pawl_outcome **out, error *err);

/* Checks the arguments of a wait. */
pawl_code wait_check(const char *id, int64_t timeout_ms, error *err);

#endif
