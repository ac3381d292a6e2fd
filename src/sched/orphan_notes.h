/* Keys of runs that were refused to their owner here: perhaps they were deleted by force, and have
 * left rows. The runner notes them, the garbage collection (api/orphan_rows.h) takes them. */
#ifndef SCHED_ORPHAN_NOTES_H
#define SCHED_ORPHAN_NOTES_H

#include <stdint.h>

struct sched;

enum { ORPHAN_NOTES_MAX = 64 };

/* Guarded by the lock of the scheduler. */
typedef struct orphan_notes {
    int64_t run[ORPHAN_NOTES_MAX];
    int count;
} orphan_notes;

/* Notes the key of a run whose unit was refused because this node does not own the run; does
 * nothing for the key 0. If too many are noted, the walk of the garbage collection will find the
 * rows that the run has left. Without the lock. */
void orphan_notes_add(struct sched *s, int64_t run);

/* Removes one of the noted runs and gives its key; 0: none is noted. Without the lock. */
int64_t orphan_notes_take(struct sched *s);

#endif
