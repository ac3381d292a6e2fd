/* Death by lock: which nodes have died, seen by the lock that the server frees with their session,
 * long before their heartbeats are missed (failure detector).
 *
 * A free lock alone is no death, since a crash of the server frees all of them, and a live node may
 * lose one session. So a node with such a lock has a sign, its row in {signs}, which it writes with
 * a heartbeat after it has taken the lock, and deletes with a heartbeat when it has lost it. A node
 * is dead by its lock if two looks, SIGN_LOOKS_MS apart or more, both find
 *   1. its sign, with the time at which the present server was started;
 *   2. no session that has its lock;
 *   3. the same heartbeat, which at the second look is older than SIGN_SILENT_MS.
 * The third condition alone spares a live node whose session has gone at the server and not at the
 * node, which then has no reason to delete its sign: nodes that have one send a heartbeat every
 * SIGN_BEAT_MS. A node without a sign, or whose lock is held, is judged by node_find_silent().
 *
 * A wrong verdict shuts out a node that lives, and does no other harm: it is closed as any silent
 * node is (node.h). */
#ifndef ROWS_NODE_SIGN_H
#define ROWS_NODE_SIGN_H

#include "rows/node.h"

enum { SIGN_BEAT_MS = 500, SIGN_SILENT_MS = 900, SIGN_LOOKS_MS = 300 };

/* A node with a sign and without its lock. */
typedef struct sign_suspect {
    int64_t node;
    int64_t started;  /* when the server was started, as the sign says */
    int64_t beat_ms;  /* the node's last heartbeat, in the database's time */
    int64_t since_ns; /* time of the first of the looks in a row that have found it like this */
    int dead;         /* 1: dead by its lock */
} sign_suspect;

/* What the last look has found. It begins as zero, and is zeroed when looks are not to be
 * continued: after a pause they begin anew. */
typedef struct sign_looks {
    int64_t next_ns; /* the next look is not before this time */
    size_t count;
    sign_suspect at[NODE_LIST_ROOM];
} sign_looks;

/* Looks, if the next look is due, and marks the suspects that are dead. `c` is not in use; now_ns
 * is of the monotonic clock. Finds none while node_may_judge() is 0. Afterwards, if there are
 * suspects, next_ns is when the next look may find one dead. */
pawl_code node_sign_look(sign_looks *l, const node *n, db_conn *c, int64_t now_ns, error *err);

/* Takeover: closes a node that is dead by its lock. PAWL_REFUSED: another node has closed it, or it
 * has sent a heartbeat since. */
pawl_code node_sign_close(const sign_suspect *dead, committer *k, error *err);

#endif
