/* What arrives for a run from outside: messages, results of children, the cancel.
 *
 * It waits in {inbox}, and {runs}.mail counts it. A run reads it when it waits and there may be
 * something: it was woken for that (arrival_sent), its park found more than it had read, or another
 * process has sent a notification. Messages stay in the table until the run receives them, and the
 * cancel until the run follows it; everything else is taken at once. What is taken is deleted in
 * the unit that records it: so nothing is lost and nothing is there twice. */
#ifndef RUN_INBOX_H
#define RUN_INBOX_H

#include "run/futures.h"

/* On the fiber: take what is there. 1: something has arrived. */
int inbox_look(pawl_run *run);

/* The fiber goes, and what was read with it. */
void inbox_forget(pawl_run *run);

/* Only look whether a cancel is there, and why; the rest stays where it is. NULL: there is none. */
const char *inbox_look_for_cancel(pawl_run *run);

/* The run follows the cancel: it is taken in the unit that says so. */
void inbox_take_cancel(pawl_run *run);

/* Take everything that was read and is no message, for a run that waits for none of it. */
void inbox_take_all(pawl_run *run);

#endif
