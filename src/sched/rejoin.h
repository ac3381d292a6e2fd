/* Being a node on a database that may go back (db/world.h): when it has, everything that the node
 * holds in memory is void, and it becomes another node on the database as it is now. */
#ifndef SCHED_REJOIN_H
#define SCHED_REJOIN_H

#include "sched/sched_internal.h"

/* Why the engine is no node any more: PAWL_REWOUND or PAWL_FENCED; PAWL_OK: it still is one. */
pawl_code rejoin_end_of(sched *s, error *err);

/* Join as a node; from then on nothing is written after a rewind before rejoin_leave(). */
pawl_code rejoin_become_node(sched *s, error *err);

/* The node has dropped its runs. 1: the database was rewound, and nothing but the node's own rows,
 * if they are there, is left to be closed; that is done. 0: the node ends as any other. */
int rejoin_leave(sched *s);

#endif
