/* What arrives for a run from outside: messages, results of children, the cancel.
 *
 * An arrival is a row of {inbox}, and {runs}.mail counts them. A run reads its inbox when it waits
 * and there may be something: it was woken for that (arrival_sent), its park found more than it had
 * read, or another process has sent a notification. Messages stay in the table until the run
 * receives them, and the cancel until the run follows it; everything else is taken at once. What is
 * taken is deleted in the unit that records it: so nothing is lost and nothing is there twice. */
#ifndef RUN_INBOX_H
#define RUN_INBOX_H

#include "run/futures.h"

/* A source of arrivals, on the fiber: takes what is in the inbox. 1: something has arrived. */
int inbox_look(pawl_run *run);

/* The fiber is dropped, and with it what was read. */
void inbox_forget(pawl_run *run);

/* The reason of a cancel that has arrived; the cancel and all other rows stay in the inbox. NULL:
 * there is no cancel. */
const char *inbox_look_for_cancel(pawl_run *run);

/* The run follows the cancel, which is deleted by the unit that says so. */
void inbox_take_cancel(pawl_run *run);

/* Deletes everything that was read and is no message, for a run that waits for none of it. */
void inbox_take_all(pawl_run *run);

#endif
