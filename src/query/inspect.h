/* Inspecting: one run (pawl_inspect), its family, and the nodes, with which of them are alive.
 *
 * Whether a node is alive is a guess, for people. No write depends on it: which node may write is
 * decided by rows and locks (node.h). */
#ifndef QUERY_INSPECT_H
#define QUERY_INSPECT_H

#include "handle/handle.h"

/* A node, as its rows describe it. */
typedef struct inspect_node {
    int64_t node;
    int64_t since_ms;
    int64_t beat_ms; /* its last heartbeat, where heartbeats are rows; INT64_MIN: none */
    const char *name;
    const char *build;
    const char *unable; /* what it cannot do, so that it claims nothing; "": nothing */
} inspect_node;

/* Tells whether the node is alive, as far as this process can see. */
int inspect_is_alive(pawl *p, const inspect_node *n, int64_t now_ms);

/* The time since when a live node stands still. 0: it does not. INT64_MIN: not known, only that it
 * holds its lock. */
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
