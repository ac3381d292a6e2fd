/* Being a node on a database that may be rewound (db/world.h). After a rewind everything that the
 * node has in memory is void, and the engine becomes a new node on the database as it is now. */
#ifndef SCHED_REJOIN_H
#define SCHED_REJOIN_H

#include "sched/sched_internal.h"

/* Why the engine is no node any more: PAWL_REWOUND or PAWL_FENCED; PAWL_OK: it still is one. */
pawl_code rejoin_end_of(sched *s, error *err);

/* Joins as a node. From then on nothing is written after a rewind, until rejoin_leave() is
 * called. */
pawl_code rejoin_become_node(sched *s, error *err);

/* To be called when the node has dropped its runs. 1: the database was rewound; the rows of the
 * node, if they are still there, were closed, and nothing else is left to do. 0: there was no
 * rewind, and the node ends as any other. */
int rejoin_leave(sched *s);

#endif
