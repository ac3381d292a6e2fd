/* Statements of several units, merged for one round trip.
 *
 * An *op* is one execution: a statement of one unit, or the same statement of several with arrays
 * as its parameters. Statements are added in queue order; to which op each of them goes is decided
 * when it is added, so that the result is the same as of one after the other. */
#ifndef PG_PG_OPS_H
#define PG_PG_OPS_H

#include "pg/pg.h"

typedef enum {
    PG_OP_PLAIN,
    PG_OP_MUST, /* the statement fails where it gives no row */
} pg_op_how;

typedef struct pg_member {
    struct pg_member *next;
    unit *unit;
    unit_stmt *stmt;
} pg_member;

typedef struct pg_op {
    struct pg_op *next;
    pg_stmt *stmt; /* the form for one set of values */
    pg_op_how how;
    uint64_t key; /* of its first member */
    size_t order; /* its place in the list, from 1 */
    size_t count;
    pg_member *first;
    pg_member *last;
} pg_op;

typedef struct pg_ops {
    pg_conn *conn;
    pg_op *first;
    pg_op *last;
    size_t count;            /* ops */
    int failed;              /* memory is out, or a statement could not be made */
    int narrow;              /* the rows of a unit may not fit into its memory */
    map groups;              /* address of a db_sql -> the op that further statements of its kind
                                join */
    map touched;             /* key of a row -> the last op that touches it */
    const unit *unit;        /* the unit whose statements are being added */
    size_t unit_order;       /* the last op of that unit that has no key */
    const unit_stmt *keeper; /* the statement of which the server keeps a number; NULL: none */
    int keeper_column;       /* the column of that number */
} pg_ops;

/* Initialises an empty list. Its ops are allocated in the connection's scratch arena. */
void pg_ops_init(pg_ops *ops, pg_conn *c);

void pg_ops_add(pg_ops *ops, unit *u, unit_stmt *s, pg_op_how how);

/* Has the server keep the number in this column of the row of `keeper` (pg_stmt_keep()). All
 * statements that take a value of `keeper` (db_from()) read the number there, because the row is
 * not known when they are sent. To be called when all statements are added. 0: this is not possible
 * with these statements. */
int pg_ops_keep(pg_ops *ops, const unit_stmt *keeper, int column);

/* To be called when all are added. */
void pg_ops_seal(pg_ops *ops);

/* Sort by key, and within a key in the order of adding; then merge adjacent ops of the same
 * statement. */
void pg_ops_sort(pg_ops *ops);

pawl_code pg_ops_push(pg_conn *c, pg_ops *ops, error *err);

/* Take the results; rows go to the units. A unit whose memory is too small for them is answered
 * FAILED, and its statements have been executed all the same. So the caller rolls back; or, if the
 * transaction is committed already, it answers the unit again, as one whose rows are durable. */
pawl_code pg_ops_take(pg_conn *c, pg_ops *ops, error *err);

/* Push, sync and take, in a round trip of their own. */
pawl_code pg_ops_run(pg_conn *c, pg_ops *ops, error *err);

#endif
