/* What the functions that look at runs share: what ids must be, and who is alive.
 *
 * Whether a node is alive is a guess from outside, good for people. Nothing relies on it: who may
 * write is decided by rows and locks (node.h). */
#ifndef CORE_LOOK_H
#define CORE_LOOK_H

#include "core/engine.h"

/* The id of a run, as it comes from outside. */
pawl_code look_id(const char *id, slice *out, error *err);

/* The answers of a call without a function to call, or without a place for its result. */
pawl_code look_no_function(error *err);
pawl_code look_no_place(error *err);

/* A node, as its rows tell. */
typedef struct look_node {
    int64_t node;
    int64_t since_ms;
    int64_t beat_ms; /* its last sign of life, where those are rows; INT64_MIN: none */
    const char *name;
    const char *build;
} look_node;

/* Is it alive, as far as can be seen from here? */
int look_is_alive(pawl *p, const look_node *n, int64_t now_ms);

/* Nodes that are not closed, in the order of their numbers. */
typedef struct look_nodes {
    arena *memory;
    look_node *at;
    size_t count;
} look_nodes;

enum { LOOK_NODES = 256 };

/* A page of them, behind `after`; texts are in the arena. `c` is in a transaction. */
pawl_code look_read_nodes(db_conn *c, arena *memory, int64_t after, look_nodes *out, error *err);

#endif
