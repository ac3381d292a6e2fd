/* What the failure of a commit means for the unit: a transient error is followed by another try,
 * and a permanent one holds the run. */
#ifndef SCHED_UNIT_VERDICT_H
#define SCHED_UNIT_VERDICT_H

#include <pawl.h>

typedef enum {
    VERDICT_PASSES,   /* the same statements may be committed later */
    VERDICT_UNKNOWN,  /* whether the storage works otherwise is to be found out */
    VERDICT_FOR_GOOD, /* the database refuses them, and will do so again */
} unit_verdict;

unit_verdict unit_verdict_of(pawl_code code);

#endif
