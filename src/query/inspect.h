/* Inspecting: one run (pawl_inspect()), a run with its descendants, and the nodes that are alive.
 *
 * Whether a node is alive is a guess, for people. No write depends on that guess: rows and locks
 * decide which node may write (node.h). */
#ifndef QUERY_INSPECT_H
#define QUERY_INSPECT_H

#include "handle/handle.h"

/* A node, as its rows describe it. */
typedef struct inspect_node {
    int64_t node;
    int64_t since_ms;
    int64_t beat_ms; /* last heartbeat, where heartbeats are rows; INT64_MIN: none */
    const char *name;
    const char *build;
    const char *unable; /* what the node cannot do, so that it claims nothing; "": nothing */
} inspect_node;

/* Returns 1 if the node is alive, as far as this process can see. */
int inspect_is_alive(pawl *p, const inspect_node *n, int64_t now_ms);

/* Returns the time since when a live node has stood still, where heartbeats are byte locks. 0: the
 * node does not stand still, or its heartbeats are rows. INT64_MIN: not known; the node holds its
 * lock. */
int64_t inspect_still_ms(pawl *p, const inspect_node *n, int64_t now_ms);

/* Nodes that are not closed, in the order of their numbers. */
typedef struct inspect_nodes {
    arena *memory;
    inspect_node *at;
    size_t count;
} inspect_nodes;

enum { LOOK_NODES = 256 };

/* Reads up to LOOK_NODES nodes whose numbers are above `after`. Texts are allocated in the arena.
 * `c` is in a transaction. */
pawl_code inspect_read_nodes(db_conn *c, arena *memory, int64_t after, inspect_nodes *out,
                             error *err);

#endif
