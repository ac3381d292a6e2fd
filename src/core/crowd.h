/* Work functions that only so many may be in at a time, in this process: `.at_most`.
 *
 * A run that finds no place waits in the list of that function, and is asked in when somebody
 * leaves it. It may find the place taken again, by one who came meanwhile: then it waits once more.
 * Or it does not come, because it was held, or its storage fails: then the next one is asked. So
 * while some wait, there are never more places free than runs that were asked in. */
#ifndef CORE_CROWD_H
#define CORE_CROWD_H

#include "core/registry.h"
#include "core/run.h"

/* The run is about to be in its work function. 0: there is no place, and it waits for one. */
int crowd_enter(struct drive *d, pawl_run *run);

/* The function has returned, whether or not anybody waited for that. */
void crowd_leave(struct drive *d, work_entry *w);

/* The run goes elsewhere: if it was asked in, the next one is. */
void crowd_pass(struct drive *d, pawl_run *run);

/* A job that was asked in does not come: the next one is. With the lock held. */
void crowd_ask_in(struct drive *d, work_entry *w);

/* Nobody waits any more: the runs go. With the lock held, or alone. */
void crowd_clear(struct drive *d);

#endif
