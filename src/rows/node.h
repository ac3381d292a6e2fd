/* Node rows: which nodes are alive, how heartbeats tell that one has died, and how a takeover
 * fences it off.
 *
 * A node is an engine that owns runs. It has an id that is never used again, one row in {nodes} per
 * connection that writes for it (its slots, from 1), and a heartbeat. Every transaction of a slot
 * begins by locking its row (db_conn.node). So closing all rows of a node, in one statement, waits
 * for its commits under way and refuses all later ones: after that, whatever it still believes, its
 * runs can be claimed (A1).
 *
 * The heartbeat is a byte lock where the database is a file of this host, and a row of {beats}
 * elsewhere; callers need not know which. It only tells which node should be closed. Safety does
 * not depend on it: a node that is closed by mistake is merely fenced off. */
#ifndef ROWS_NODE_H
#define ROWS_NODE_H

#include "db/committer.h"
#include "db/db_clock.h"

typedef struct node_options {
    int64_t slots;     /* connections that will write for it; at least 1 */
    const char *name;  /* for people; NULL: "" */
    const char *build; /* of the program; NULL: "" */
    int grace;         /* other nodes are taken for silent only after a while, as after an outage */
} node_options;

/* One thread at a time; but node_beat() may be called on another one. */
typedef struct node {
    int64_t id;    /* 0: it has not joined, or has left */
    int64_t token; /* random bits in its rows: after a restore another node may be given the same
                      id */
    db_clock *clock;
    struct liveness_file *file;   /* NULL: its heartbeat is a row */
    int64_t claim_ms;             /* silence for longer is death */
    _Atomic int64_t beat_ms;      /* its last heartbeat, in the database's time */
    _Atomic int64_t believe_ms;   /* from then on it takes over from silent nodes */
    _Atomic(const char *) unable; /* what it cannot do for lack of connections, a literal that its
                                     heartbeat tells others; NULL: nothing */
} node;

/* Become a node: an id, the heartbeat, then the rows, all in one unit. `k` commits for no node yet,
 * `c` is a connection that is not in use; neither is kept. Afterwards give each committer its slot
 * by committer_set_node(). */
pawl_code node_join(node *n, committer *k, db_conn *c, db_clock *clock, const node_options *options,
                    error *err);

/* End the heartbeat; for a node that has closed itself, or is given up. */
void node_leave(node *n);

/* Send the heartbeat, and measure the database's time; to be called three times in claim_ms. `c` is
 * a connection that may write (DB_COMMITTER) and is not in use. It does not pass the committer: a
 * heartbeat must not queue behind the work. It is written only while the node's own row is open: a
 * process that stood still may have been closed meanwhile. PAWL_FENCED: the node was closed;
 * PAWL_REWOUND: the database was rewound. After any other error it may be tried again. */
pawl_code node_beat(node *n, db_conn *c, error *err);

/* After a rewind: close the rows that this node had, if they are there and still its own, so that
 * its runs, as they are now, are claimed at once. */
void node_close_own(const node *n, committer *k);

enum { NODE_LIST_ROOM = 64 };

/* The node loop waits for a row lock of a foreign transaction only so long: it has other chores. */
enum { KEEPER_LOCK_MS = 300 };

/* Some nodes, in order. What has no room is found the next time: those that were found will be gone
 * then. */
typedef struct node_list {
    size_t count;
    int64_t at[NODE_LIST_ROOM];
    char resigned[NODE_LIST_ROOM]; /* of closed ones: 1, it has closed itself, and executed nothing
                                      any more */
} node_list;

/* Other nodes that are not closed and send no heartbeats. `c` is not in use. None, while this
 * node's own heartbeats are late: then it may be the database that was silent. */
pawl_code node_find_silent(node *n, db_conn *c, node_list *out, error *err);

/* Nodes that are closed and not swept yet; and those of them that own a run which is due. There may
 * be many of the former. */
pawl_code node_find_closed(db_conn *c, node_list *out, error *err);
pawl_code node_find_due(db_conn *c, int64_t now_ms, node_list *out, error *err);

/* Is this one closed? On a connection in a transaction. */
int node_is_closed(db_conn *c, int64_t id, int *resigned);

/* A small write that touches no run: if it is committed, the storage works. */
void node_add_probe(unit *u);

/* Close a node. PAWL_REFUSED: another node has done it. */
pawl_code node_close(committer *k, int64_t id, error *err);

/* Close one that was found silent. PAWL_REFUSED: another node has done it, or it has sent a
 * heartbeat since. */
pawl_code node_bury(const node *n, committer *k, int64_t id, error *err);

/* A node closes itself, when none of its runs is being executed any more. If these are all the runs
 * that it owns they get no owner, and nothing is left of it; otherwise, or with NULL, other nodes
 * sweep up after it. */
pawl_code node_resign(committer *k, int64_t id, const int64_t *runs, size_t count, error *err);

/* ---- Sweeping (node_sweep.c) ---- */

/* The slow walk over everything that closed nodes own. Runs that no node has claimed by then get no
 * owner (0), and the nodes' rows are deleted. Several nodes may walk at once. Zeroed at first, but
 * for the nodes. */
typedef struct node_sweep {
    node_list nodes; /* none: there is no walk */
    int walk;        /* which table */
    int64_t after;   /* how far in it */
} node_sweep;

/* One page of it, one unit at most. `c` is a connection that is not in use. *done: that was all. On
 * an error nothing has moved, and it may be tried again; PAWL_MISUSE: a node is not closed. */
pawl_code node_sweep_page(node_sweep *s, committer *k, db_conn *c, int *done, error *err);

/* These runs, which the node owns, get no owner. */
void node_add_give_back(unit *u, int64_t id, const int64_t *runs, size_t count);

/* Commit a unit about a node's own rows, and wait for it. */
pawl_code node_commit(committer *k, unit *u, const char *doing, error *err);

/* ---- For tests, which apply it between other units ---- */

/* node_close() as a guard ("open") of a unit. Refused: it was closed before, or there is none.
 * Gives the number of the statement. */
int node_add_close(unit *u, int64_t id);

#endif
