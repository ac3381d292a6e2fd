/* The end of a run: done, failed or cancelled, and the clean-ups before that: compensations of a
 * saga (undos), and finallys.
 *
 * pawl_undo() and pawl_finally() are rows of the journal. When a run ends that has some, a row says
 * how it ends (OP_ENDING), its function is left for good, and the work functions are called from
 * the journal, last first: undos if it did not end well, then finallys. Each is an op of its own
 * (OP_CLEAN_UP), with attempts like any other call; so it goes on after a crash, on any node that
 * has the work functions, also where the workflow is not known any more.
 *
 * One that fails for good holds the run (HELD_STUCK): what was not undone must not be forgotten. */
#ifndef RUN_CLEANUP_H
#define RUN_CLEANUP_H

#include "run/run.h"

/* On the fiber: the run ends as code.end says. */
_Noreturn void cleanup_leave(pawl_run *run);

/* The function has failed, and the run ends with this error. */
_Noreturn void cleanup_fail(pawl_run *run, const char *name, const char *message,
                            const char *where);

/* Called where the run waits, or is about to call a work function. If the run was cancelled, or its
 * deadline has passed, these do not return. cleanup_look() also reads whether a cancel has
 * arrived. */
void cleanup_check(pawl_run *run);
void cleanup_look(pawl_run *run);

/* Called on the fiber instead of the function, when the run is failing. */
void cleanup_run(pawl_run *run);

/* For the runner, which adds to the unit of the end: that a new generation begins; that clean-ups
 * follow. 0: memory is out. */
int generation_add(pawl_run *run);
int cleanup_add_failing(pawl_run *run);

/* The unit that begins a new generation was committed. 0: the run is not this node's any more. */
int generation_begun(pawl_run *run);

#endif
