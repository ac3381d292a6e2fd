/* The inbox of a run: what arrives for the run from outside, which is messages, results of
 * children, and the cancel.
 *
 * An arrival is a row of {inbox}, and {runs}.mail counts all arrivals of a run. A wait reads the
 * inbox if it may have something new: the run was woken for an arrival (arrival_sent(), or a
 * notification of another process), its park found more than it had read, or a time-out is due.
 * Messages stay in the table until the run receives them, and the cancel until the run follows it;
 * everything else is consumed as soon as it was read. The unit that records an arrival deletes its
 * row: so nothing is lost, and nothing is there twice. */
#ifndef RUN_INBOX_H
#define RUN_INBOX_H

#include "run/futures.h"

/* A source of arrivals, called on the fiber: reads the inbox if it may have something new, consumes
 * what is no message, and otherwise delivers one message. Returns 1 if something has arrived. */
int inbox_look(pawl_run *run);

/* Frees what was read of the inbox, because the fiber is dropped. */
void inbox_forget(pawl_run *run);

/* Reads the inbox, until it has found the cancel or has read everything, and deletes nothing.
 * Returns the reason of the cancel; NULL: there is no cancel. */
const char *inbox_look_for_cancel(pawl_run *run);

/* Adds the deletion of the cancel to the unit, which also records how the run follows it. */
void inbox_take_cancel(pawl_run *run);

/* Deletes all rows that were read and are no messages, the cancel included. For a failing run,
 * which waits for none of them. */
void inbox_take_all(pawl_run *run);

#endif
