/* Readiness: a node claims runs only while it can execute them.
 *
 * A node needs connections to its server: one for each committer, one for its heartbeats, one for
 * the node loop, and one to read journals with, which all its threads share if the server gives no
 * more. It opens them before it becomes a node; if it cannot, becoming a node fails with an error.
 * Later a server may close them (a restart, after which other clients take the free connections).
 * Then the node claims nothing until it has them again. It logs when that state begins and when it
 * ends, tells it meanwhile with its heartbeats ({beats}.unable, for pawl_why), and gives back runs
 * that it cannot read. */
#ifndef SCHED_NODE_READY_H
#define SCHED_NODE_READY_H

#include <stdatomic.h>
#include <pawl.h>

#include "base/error.h"

struct sched;

typedef struct node_ready {
    atomic_int unread;         /* a run could not be read: the server gave no connection for that */
    _Atomic int64_t unread_ns; /* since when runs cannot be read; 0: they can be */

    /* Used by the node loop only. */
    pawl_code look_code;           /* the last answer of the node loop's own connection */
    char look_why[512];            /* with words, if it is a failure */
    int unable;                    /* the node cannot execute runs, and that was logged */
    char starved[PAWL_MAX_ID + 1]; /* the run for whose claim there was no memory, as was logged;
                                      empty: there is some */
} node_ready;

/* Take the connections that a node needs. After an error none is kept. */
pawl_code node_ready_reserve(struct sched *s, error *err);

/* Records the result of an attempt to read. Called by runners. */
void node_ready_note_read(struct sched *s, pawl_code rc);

/* Has reading failed for so long that runs are to be given back? */
int node_ready_gives_back(struct sched *s);

/* Can the node execute what it claims? Asked by the node loop before it claims. Logs when the
 * answer changes. */
int node_ready_look(struct sched *s);

#endif
