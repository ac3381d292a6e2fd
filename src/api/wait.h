/* The outcome of a run, and waiting for it: for clients, and for pawl_finish(), which gives the
 * same answer. */
#ifndef API_WAIT_H
#define API_WAIT_H

#include "base/error.h"

/* Look once: PAWL_OK, FAILED, CANCELLED or HELD with *out (which may be NULL); TIMEOUT: it goes on;
 * NOTFOUND. */
pawl_code wait_look(pawl *p, const char *id, pawl_outcome **out, error *err);

/* Are these arguments of a wait? */
pawl_code wait_check(const char *id, int64_t timeout_ms, error *err);

#endif
