/* Pages of runs that are due and have no live owner, in the order in which they are due. The node
 * loop reads them, and claims the runs. */
#ifndef SCHED_DUE_PAGE_H
#define SCHED_DUE_PAGE_H

#include "sched/claim.h"
#include "sched/row_reads.h"

/* A page of runs that are due, with the cursor behind it. */
typedef struct due_page {
    claim *at[ROW_READS_PAGE];
    size_t count;
    size_t rows;
    int backs_off; /* a run was passed over, since its claim has failed a moment ago */
    int starves;   /* there was no memory for the claim of a run */
    int failed;    /* there may be more runs, which could not be read or not be claimed */
    int64_t last_ms;
    int64_t last_run;
} due_page;

/* Reads the next page of the runs that this owner (0: none) has, on the node loop's connection,
 * which is in a transaction before and behind it. What the list has is good, after an error too. A
 * run whose row cannot be read is noted as one that cannot be claimed, and passed over
 * (row_reads.h). */
pawl_code due_page_read(struct sched *s, int64_t owner, due_page *list, error *err);

#endif
