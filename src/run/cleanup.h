/* The end of a run: done, failed or cancelled, and the clean-ups before that: compensations of a
 * saga (undos), and finallys.
 *
 * pawl_undo() and pawl_finally() are rows of the journal. When a run with clean-ups ends:
 *   1. A row says how the run ends (OP_ENDING), and the workflow function is left for good.
 *   2. The work functions are called from the journal, the last one registered first: the undos if
 *      the run has failed or was cancelled, then the finallys. Each is an op of its own
 *      (OP_CLEAN_UP), with attempts like any other call. So the clean-ups go on after a crash, on
 *      any node that has the work functions, also where the workflow is not known any more.
 *   3. The run ends.
 *
 * A clean-up that fails for good holds the run (HELD_STUCK), so that it is not forgotten. */
#ifndef RUN_CLEANUP_H
#define RUN_CLEANUP_H

#include "run/run.h"

/* Leaves the workflow function for good. The run ends as code.end says, after its clean-ups if any
 * are to be called then: the finallys, and, unless it is done, the undos. Called on the fiber. */
_Noreturn void cleanup_leave(pawl_run *run);

/* Leaves the function: the run fails with this error. */
_Noreturn void cleanup_fail(pawl_run *run, const char *name, const char *message,
                            const char *where);

/* These end the function of a run that was cancelled, or whose deadline has passed; then they do
 * not return. cleanup_check() is called where the run waits. cleanup_look() is called before a work
 * function is called, and after an attempt has run out of time. It reads the inbox first, if a
 * cancel may have arrived. */
void cleanup_check(pawl_run *run);
void cleanup_look(pawl_run *run);

/* Calls the clean-ups of a failing run, and ends it. Called on the fiber, instead of the
 * function. */
void cleanup_run(pawl_run *run);

/* For the runner. generation_add() adds the statements to the unit that begin a new generation of
 * the run, and cleanup_add_failing() those that make the run failing, so that its clean-ups follow.
 * 0: memory is out. */
int generation_add(pawl_run *run);
int cleanup_add_failing(pawl_run *run);

/* Called when the unit that begins a new generation was committed: changes the run in memory to
 * that generation. 0: memory is out, and the caller drops the run. */
int generation_begun(pawl_run *run);

#endif
