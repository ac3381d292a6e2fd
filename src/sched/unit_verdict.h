/* What the code of a commit that has failed means for the unit: a transient error is followed by
 * another try, and a permanent one holds the run (unit_retry.h). */
#ifndef SCHED_UNIT_VERDICT_H
#define SCHED_UNIT_VERDICT_H

#include <pawl.h>

typedef enum {
    VERDICT_PASSES,   /* the same statements may be committed later */
    VERDICT_UNKNOWN,  /* perhaps they may: after some tries they count as refused for good */
    VERDICT_FOR_GOOD, /* the database refuses the statements, and will do so again */
} unit_verdict;

unit_verdict unit_verdict_of(pawl_code code);

#endif
