/* Node rows: which nodes are alive, how heartbeats tell that one has died, and how a takeover
 * fences it off.
 *
 * A node is an engine that owns runs. It has an id that is never used again, one row in {nodes} per
 * connection that writes for it (its slots, from 1), and a heartbeat. Every transaction of a slot
 * begins by locking its row (db_conn.node). So closing all rows of a node, in one statement, waits
 * for its commits under way and refuses all later ones: after that, whatever it still believes, its
 * runs can be claimed.
 *
 * The heartbeat is a byte lock where the database is a file of this host, and a row of {beats}
 * elsewhere; callers need not know which. It only tells which node should be closed. Safety does
 * not depend on it: a node that is closed by mistake is merely fenced off. */
#ifndef ROWS_NODE_H
#define ROWS_NODE_H

#include "db/committer.h"
#include "db/db_clock.h"

typedef struct node_options {
    int64_t slots;     /* number of connections that will write for the node; at least 1 */
    const char *name;  /* for people; NULL: "" */
    const char *build; /* build of the program; NULL: "" */
    int grace;         /* 1: the node waits before it takes over from silent nodes, as after an
                          outage */
} node_options;

/* A node of this process. One thread uses it at a time; only node_beat() may be called on another
 * thread meanwhile. */
typedef struct node {
    int64_t id;    /* 0: the node has not joined, or has left */
    int64_t token; /* random bits that are in the node's rows too: after a restore another node may
                      get the same id */
    db_clock *clock;
    struct liveness_file *file; /* the file with the byte lock that is the node's heartbeat; NULL:
                                   the heartbeat is a row */
    int64_t claim_ms;           /* a node that is silent for longer counts as dead */
    _Atomic int64_t beat_ms;    /* time of the node's last heartbeat, in the database's time */
    _Atomic int64_t believe_ms; /* the node takes over from silent nodes from this time on */
    int64_t sign; /* start of the server at which a session of the node has its lock; 0: none has
                 (node_sign.h) */
    int sign_differs;             /* 1: the next heartbeat writes `sign` into the row of {signs} */
    atomic_int is_signed;         /* 1: the node may have a row in {signs} */
    _Atomic(const char *) unable; /* what the node cannot do for lack of connections, a literal that
                                     its heartbeat tells others; NULL: nothing */
} node;

/* Makes the process a node: takes an id and the heartbeat, then writes the rows in one unit. `k`
 * does not commit for a node yet, and `c` is a connection that is not in use; both are used during
 * the call only. Afterwards the caller gives each committer its slot by committer_set_node(). */
pawl_code node_join(node *n, committer *k, db_conn *c, db_clock *clock, const node_options *options,
                    error *err);

/* Ends the heartbeat of a node that has closed itself, or is given up. */
void node_leave(node *n);

/* Sends the heartbeat, and measures the database's time; to be called three times in claim_ms. `c`
 * is a connection that may write (DB_COMMITTER) and is not in use. The heartbeat does not go
 * through the committer, where it would queue behind other units. It is written only while the
 * node's own row is open, since other nodes may have closed a process that stood still.
 * PAWL_FENCED: the node was closed; PAWL_REWOUND: the database was rewound. After any other error
 * the call may be repeated. */
pawl_code node_beat(node *n, db_conn *c, error *err);

/* Says that a session of the node has its lock, at a server that was started at this time; 0: no
 * session has it any more. The next heartbeat writes that. Called by the thread that calls
 * node_beat(). */
void node_tell_lock(node *n, int64_t server);

/* Returns 1 if the node may judge whether others are silent. Returns 0 if its own heartbeats had a
 * gap, so that there may have been an outage of the database. */
int node_may_judge(const node *n, int64_t now_ms);

/* For the time after a rewind: closes the rows that this node had, if they exist and are still its
 * own. So other nodes can claim its runs at once, as the database has them now. */
void node_close_own(const node *n, committer *k);

enum { NODE_LIST_ROOM = 64 };

/* How long the node loop waits for a row lock of a foreign transaction, since it has other
 * chores. */
enum { NODE_LOOP_LOCK_MS = 300 };

/* Some nodes, in the order of their ids. A node for which there is no room is found by a later
 * call, when the listed ones are closed or swept. */
typedef struct node_list {
    size_t count;
    int64_t at[NODE_LIST_ROOM];
    char resigned[NODE_LIST_ROOM]; /* 1: the node has closed itself, and so executes nothing; 0: it
                                      is open, or another node has closed it */
} node_list;

/* Finds other nodes that are not closed and send no heartbeats. `c` is not in use. Where heartbeats
 * are rows, finds none while node_may_judge() is 0, since the database itself may have been
 * unreachable. */
pawl_code node_find_silent(node *n, db_conn *c, node_list *out, error *err);

/* node_find_closed() finds nodes that are closed and not swept yet. They may be many.
 * node_find_due() finds those of them that own a run which is due. */
pawl_code node_find_closed(db_conn *c, node_list *out, error *err);
pawl_code node_find_due(db_conn *c, int64_t now_ms, node_list *out, error *err);

/* Returns 1 if the node is closed. *resigned is 1 if it has closed itself. `c` is in a
 * transaction. */
int node_is_closed(db_conn *c, int64_t id, int *resigned);

/* Adds a small write that changes no run: if the unit is committed, the storage works. */
void node_add_probe(unit *u);

/* Closes a node. PAWL_REFUSED: another node has closed it. */
pawl_code node_close(committer *k, int64_t id, error *err);

/* Takeover: closes a node that was found silent. PAWL_REFUSED: another node has closed it, or it
 * has sent a heartbeat since. */
pawl_code node_close_silent(const node *n, committer *k, int64_t id, error *err);

/* The parts of node_close(), for units that close a node among other things. node_evict() ends the
 * sessions of a node at the server, which may keep its rows locked; it is to be called before the
 * unit is committed. node_add_close() adds the statements that close the node, with the guard
 * "open": the node exists and is not closed. It returns the number of the guard. */
void node_evict(db *d, int64_t id);
int node_add_close(unit *u, int64_t id);

/* Closes this node itself, when none of its runs is being executed any more. If `runs` are all the
 * runs that the node owns, they get no owner, and the node's rows are deleted. If there are others,
 * or another transaction keeps one of them locked, or `runs` is NULL, the node is only closed, and
 * other nodes claim its runs and sweep its rows. */
pawl_code node_resign(committer *k, int64_t id, const int64_t *runs, size_t count, error *err);

/* ---- Sweeping (node_sweep.c) ---- */

/* The state of a sweep: the slow walk over all rows of runs and tasks for those that closed nodes
 * own. Runs that no node has claimed by then get no owner (0), and the nodes' rows are deleted.
 * Several nodes may sweep at once. A sweep begins with `nodes` set and everything else zero. */
typedef struct node_sweep {
    node_list nodes; /* the closed nodes; empty: there is no sweep */
    int walk;        /* the table that the walk is in */
    int64_t after;   /* the walk goes on after this key of the table */
} node_sweep;

/* Walks one page, and commits one unit at most. `c` is a connection that is not in use. Sets *done
 * if the sweep is over. On an error nothing has changed, and the call may be repeated; PAWL_MISUSE:
 * a node is not closed. */
pawl_code node_sweep_page(node_sweep *s, committer *k, db_conn *c, int *done, error *err);

/* Adds statements that take the owner away from these runs, which the node owns. */
void node_add_give_back(unit *u, int64_t id, const int64_t *runs, size_t count);

/* Commits a unit about the rows of a node, and waits for it. */
pawl_code node_commit(committer *k, unit *u, const char *doing, error *err);

#endif
