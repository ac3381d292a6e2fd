/* What arrives for a run from outside: messages, results of children, the cancel.
 *
 * It waits in {inbox}, and {runs}.mail counts it. A run looks when it waits and there may be
 * something: it was told so (drive_mail), its park found more than it had looked at, or another
 * process was heard of. Messages stay in the table until somebody receives them, and the cancel
 * until the run follows it; everything else is taken at once. What is taken is deleted in the unit
 * that records it: so nothing is lost and nothing is there twice. */
#ifndef CORE_MAIL_H
#define CORE_MAIL_H

#include "core/futures.h"

struct drive;
struct runner;

/* On the fiber: take what is there. 1: something has arrived. */
int mail_look(pawl_run *run);

/* For the runner: read it, on the thread's own stack. */
pawl_code mail_read(struct runner *r, pawl_run *run, error *err);

/* The fiber goes, and what was read with it. */
void mail_forget(pawl_run *run);

/* Only look whether a cancel is there, and why; the rest stays where it is. NULL: there is none. */
const char *mail_look_for_cancel(pawl_run *run);

/* The run follows the cancel: it is taken in the unit that says so. */
void mail_take_cancel(pawl_run *run);

/* Take everything that was read and is no message, for a run that waits for none of it. */
void mail_take_all(pawl_run *run);

/* For the keeper: have something arrived for runs that sleep here? */
void mail_hear(struct drive *d);

#endif
