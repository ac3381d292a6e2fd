/* Reading dormant runs from their rows (dormant.h). There is no claim and no commit, because this
 * node owns them. */
#ifndef SCHED_DORMANT_READ_H
#define SCHED_DORMANT_READ_H

#include "base/error.h"
#include "run/run.h"

struct sched;
struct runner;

/* Reads the runs with these keys that this node still owns, for this runner (NULL: the node loop),
 * and gives them as a list. A run whose row cannot be read is noted, and left out (row_reads.h).
 * Not PAWL_OK: no row can be read; the list may have some runs nevertheless. */
pawl_code dormant_read(struct sched *s, const struct runner *r, const int64_t *list, size_t count,
                       pawl_run **out, error *err);

#endif
