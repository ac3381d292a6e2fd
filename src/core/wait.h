/* How a run has ended, and waiting for it: asked by clients, and by whoever drives one run only,
 * since both give the same answer. */
#ifndef CORE_WAIT_H
#define CORE_WAIT_H

#include "base/error.h"

/* Look once: PAWL_OK, FAILED, CANCELLED or HELD with *out (which may be NULL); TIMEOUT: it goes on;
 * NOTFOUND. */
pawl_code wait_look(pawl *p, const char *id, pawl_outcome **out, error *err);

/* Who waits has its watch among the drive's, from before it looks; w->id and w->cond are set. It
 * sleeps until it is told, or a second, but not past the deadline. PAWL_CLOSED: stop. */
struct drive;
struct drive_watch;
void wait_watch(struct drive *d, struct drive_watch *w);
void wait_unwatch(struct drive *d, struct drive_watch *w);
pawl_code wait_sleep(struct drive *d, struct drive_watch *w, int64_t deadline_ns, error *err);

/* Are these arguments of a wait? */
pawl_code wait_check(const char *id, int64_t timeout_ms, error *err);

#endif
