/* Nodes that look for work at the same time claim different pages of the list of due runs (random
 * partitioning against contention). Without this, all of them read the first page and claim the
 * same runs, of which each run goes to one node, and all other claims of it are in vain. */
#ifndef SCHED_DUE_SPREAD_H
#define SCHED_DUE_SPREAD_H

#include <stddef.h>
#include <stdint.h>

struct sched;

enum { DUE_SPREAD_PAGES = 16 };

/* What the node loop keeps of this from look to look. All 0 at first. */
typedef struct due_spread {
    int pages;    /* one of so many first pages is chosen; below 2: the first page is read */
    int left_out; /* looks in a row that did not begin with the first page */
} due_spread;

/* Chooses the page that a look for runs without an owner begins with. 1: it is not the first page,
 * and *last_ms and *last_run are the position before it, wake_at and key of a run. 0: it is the
 * first page, and both stay as they are. For the node loop, outside a transaction. */
int due_spread_begin(struct sched *s, int64_t *last_ms, int64_t *last_run);

/* A look has ended: `rows` of the last page that it has read, and whether it began with another
 * page than the first. */
void due_spread_end(struct sched *s, size_t rows, int left_out);

#endif
