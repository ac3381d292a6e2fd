/* Concurrency limits of work functions, in this process: `.at_most`.
 *
 * A run that finds no free slot waits in the list of that function, and gets a reserved slot when
 * another run leaves the function. It may find the slot taken again, by a run that came meanwhile:
 * then it waits once more. Or it does not come, because it was held, or its storage fails: then the
 * slot is reserved for the next waiter. A run that is cancelled, or whose deadline passes, leaves
 * the list at once. So while runs wait, there are never more free slots than reserved ones. */
#ifndef SCHED_WORK_LIMIT_H
#define SCHED_WORK_LIMIT_H

#include "run/registry.h"
#include "run/run.h"

/* The run is about to enter its work function. 0: there is no free slot, and it waits for one. */
int work_limit_enter(struct sched *s, pawl_run *run);

/* The function has returned, whether or not its run still waited for it. */
void work_limit_leave(struct sched *s, work_entry *w);

/* Release the reserved slot, if the run had one, to the next waiter. */
void work_limit_pass(struct sched *s, pawl_run *run);

/* Release the reserved slot of a job to the next waiter. With the lock held. */
void work_limit_ask_in(struct sched *s, work_entry *w);

/* The run becomes ready if it waits for a slot: it has something else to do. With the lock held. */
void work_limit_call(struct sched *s, pawl_run *run);

/* Has the run just left the line, with a reserved slot or since its deadline has passed? */
int work_limit_has_left(pawl_run *run);

/* All waiters become ready again. With the lock held. */
void work_limit_let_go(struct sched *s);

/* Forget all waiters, whose runs are about to be freed. With the lock held. */
void work_limit_clear(struct sched *s);

#endif
