/* What the files of the PostgreSQL driver share.
 *
 * A connection of the engine is always in libpq's pipeline mode: statements are *pushed*, a *sync*
 * sends them, results are *taken* in order. One trip to the server is one sync, however many
 * statements it carries. A connection that breaks is closed at once and reopened by the next
 * begin().
 *
 * Everything that waits for the server on such a connection has a deadline in real time, shorter
 * than a lease (claim_ms): a node that hears nothing must stop waiting before another node may take
 * over its runs.
 *
 * A connection of the application (`borrowed`) has neither: pg_borrow.c sends one statement at a
 * time on it, and waits as long as the server takes. */
#ifndef PG_PG_H
#define PG_PG_H

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>

#include "db/batch.h"
#include "db/db.h"
#include "db/world.h"

enum {
    PG_PARAMETERS = 32,
    PG_OID_BYTES = 17,
    PG_OID_INT = 20,
    PG_OID_TEXT = 25,
    PG_RING = 64,      /* places of a ring: the rows of {commits} in which a committing connection
                          leaves the numbers of its transactions; see pg_ring.c */
    PG_WITNESSES = 16, /* at most so many witnesses are checked by one transaction; see
                          pg_proof.c */
};

/* SQL for when the server was started, in microseconds since 1970. */
#define PG_SERVER_STARTED                                                                          \
    "CAST(extract(epoch FROM pg_catalog.pg_postmaster_start_time())"                               \
    " OPERATOR(pg_catalog.*) 1000000 AS bigint)"

/* A ring is certainly there for so long after its last use: other engines delete rings that were
 * not used for a day. */
#define PG_RING_FRESH_MS (INT64_C(12) * 3600 * 1000)

typedef struct pg_conn pg_conn;

/* What the last acknowledged transaction of a connection has left in its ring. */
typedef struct pg_witness {
    int64_t ring; /* 0: there is none */
    int64_t place;
    int64_t number; /* the place has this number or a larger one, unless the database was rewound */
    int64_t life;   /* db_world.lives when the ring was made: after a rewind it is void */
    int64_t at_ms;
    uint64_t order; /* its number among the acknowledged transactions of this engine */
} pg_witness;

typedef struct pg_db {
    db base;
    db_world world;
    pthread_mutex_t lock;   /* guards the next two, and the witness of every connection */
    pg_conn *witnesses;     /* connections that commit */
    uint64_t acknowledged;  /* number of acknowledged transactions of this engine */
    PQconninfoOption *info; /* the URL, taken apart; may hold a password */
    atomic_int reached;     /* 1: a connection was made once, so libpq has accepted the URL */
    int relaxed;            /* durability=relaxed */
    int pooler;             /* pooler=transaction: nothing of a session may be relied on */
} pg_db;

typedef struct pg_stmt pg_stmt;

struct pg_conn {
    db_conn base;
    PGconn *native;    /* NULL: not connected */
    uint64_t epoch;    /* the number of this connection to the server; after a reconnect statements
                          are prepared anew */
    unsigned names;    /* number of names that were given to statements so far */
    pg_stmt **pending; /* one entry for each result to be taken: the statement that is prepared by
                          it; NULL: it is that of an execution */
    size_t pending_size;
    size_t pending_head;
    size_t pending_tail;
    int synced; /* number of syncs that were sent and whose answers were not taken */
    int lazy;   /* a reader's transaction has begun here, and nothing of it was sent yet */
    int64_t patience_ms;
    int64_t deadline_ns; /* of the trip under way */
    int64_t time_offset; /* the server's clock minus the monotonic one, in ms */
    int64_t lock_ms;     /* how long the next transaction is to wait for a lock */
    int64_t lock_set_ms; /* how long the session waits for a lock, as it is set now */
    int met_lock;        /* a statement of a unit has met a row lock, and timed out */

    int64_t ring;      /* the random id of the ring (pg_ring.c); 0: there is none yet */
    int ring_gone;     /* rows of the ring were deleted: the next transaction makes a new one */
    int64_t ring_ms;   /* when the ring was used last */
    int64_t number;    /* the number of the next transaction */
    int doubtful;      /* the transaction with that number has no answer */
    int64_t ring_life; /* db_world.lives when the ring was made */
    pg_conn *next;     /* in pg_db.witnesses */
    pg_witness witness;
    uint64_t asked;  /* pg_db.acknowledged when the transaction under way began */
    uint64_t proven; /* pg_db.acknowledged when the last acknowledged transaction began */
    int proofs;      /* number of proofs in this transaction (pg_proof.c) */

    arena *scratch; /* memory for the batch under way */
    int borrowed;   /* the connection is the application's: no pipeline, no deadline, and pawl does
                       not close it */
};

/* A prepared statement, in the form that was written, and in the forms made from it. */
struct pg_stmt {
    db_stmt base;
    char *text;
    char name[24];
    int count; /* of parameters */
    Oid types[PG_PARAMETERS];
    uint64_t prepared_in; /* epoch in which it was last sent to be prepared */
    uint64_t ready_in;    /* epoch in which the server has confirmed that it is prepared */
    db_value values[PG_PARAMETERS];
    PGresult *result; /* the result of the execution, whose rows next() gives one by one */
    int row;
    int executed;
    char number[32]; /* room for the text of a column that is a double */
    pg_stmt *array;  /* the form that takes many sets of values at once; NULL: not made */
    pg_stmt *must;   /* the form of a guard that fails instead of giving no row; NULL: not made */
    int no_array;    /* the text does not allow the form for many sets */
    pg_stmt *keep;   /* the form `must` that also keeps a number of the row in a setting of the
                        transaction; NULL: not made */
    int keep_column; /* the column of `keep` that has that number */
    pg_stmt *take;   /* the form that reads the number from that setting; NULL: not made */
    uint32_t takes;  /* which parameters of `take` are read from there, one bit for each */
};

static inline pg_db *pg_db_of(const pg_conn *c)
{
    return (pg_db *)c->base.db;
}

/* ---- Connecting (pg_connect.c) ---- */

/* Connect if there is no connection. */
pawl_code pg_ensure(pg_conn *c, error *err);

/* Connect if need be, and make sure that a committer's connection has a ring. */
pawl_code pg_ready(pg_conn *c, error *err);

/* Forget a connection that is broken, or whose server does not answer. */
void pg_forget(pg_conn *c);

/* Take a URL apart into d->info, d->relaxed and d->pooler. */
pawl_code pg_read_url(pg_db *d, slice url, error *err);

/* How long a connection of this role waits for a lock by default. */
int64_t pg_lock_ms(const pg_conn *c);

/* From the next transaction on, wait so long for a lock. */
void pg_want_lock_ms(pg_conn *c, int64_t ms);

/* The database's time, extrapolated from when this connection was made. */
int64_t pg_time_ms(const pg_conn *c);

/* ---- Errors (pg_error.c) ---- */

/* Sets `err` to what the result says, and returns the code; `doing` as in "cannot DOING the
 * database". */
pawl_code pg_error(const pg_conn *c, const PGresult *r, const char *doing, error *err);

/* These set `err`, and return its code. pg_error_connecting(): why a connection could not be made.
 * pg_error_lost(): a connection was lost; PAWL_UNREACHABLE. pg_error_silent(): the server has not
 * answered in time; PAWL_UNREACHABLE. */
pawl_code pg_error_connecting(const PGconn *native, error *err);
pawl_code pg_error_lost(const PGconn *native, error *err);
pawl_code pg_error_silent(error *err);

/* Is it the division by zero of a statement that must give a row? */
int pg_is_refusal(const PGresult *r);

/* Has the statement waited for a lock, for as long as it may? */
int pg_is_lock(const PGresult *r);

/* Is the severity above ERROR (FATAL, PANIC)? Then the server has ended the session and not only
 * the statement, and a commit under way is undecided. */
int pg_is_fatal(const PGresult *r);

/* ---- Round trips in pipeline mode (pg_pipe.c) ---- */

typedef struct pg_params {
    int count;
    const char *values[PG_PARAMETERS]; /* binary; NULL: NULL */
    int sizes[PG_PARAMETERS];
    int formats[PG_PARAMETERS];
    char ints[PG_PARAMETERS][8];
} pg_params;

void pg_param(pg_params *p, const db_value *v);

pawl_code pg_push(pg_conn *c, pg_stmt *s, const pg_params *p, error *err);
pawl_code pg_push_sql(pg_conn *c, const db_sql *sql, const db_value *values, int count, error *err);
pawl_code pg_sync(pg_conn *c, error *err);

/* The next result, to be cleared by the caller; NULL: the connection is lost, err says how. */
PGresult *pg_take(pg_conn *c, error *err);

/* Reads and drops the rest of the results of this trip. PAWL_OK unless the connection is lost. */
pawl_code pg_skip(pg_conn *c, error *err);

/* Take the answers to the ROLLBACK of a reader, before anything else is sent. */
void pg_take_ending(pg_conn *c);

/* For a result that is an error: clears it, drops the rest of the trip, and returns the code. */
pawl_code pg_fail(pg_conn *c, PGresult *r, const char *doing, error *err);

/* Executes a statement that is not one of the seam's, in a trip of its own. NULL: it has failed. */
PGresult *pg_once(pg_conn *c, const char *sql, const pg_params *p, error *err);

int pg_ok(const PGresult *r);

/* ---- Values (pg_value.c) ---- */

db_value pg_column(const PGresult *r, int row, int column, char number[32]);

/* Copy a row, from column `from` on, into the unit's arena, behind `tail`. */
pawl_code pg_copy_row(unit *u, const PGresult *r, int row, int from, unit_row ***tail, error *err);

/* ---- Statements and their forms (pg_stmt.c) ---- */

pawl_code pg_stmt_prepare(db_conn *c, const db_sql *sql, const char *text, db_stmt **out,
                          error *err);
void pg_stmt_free(db_stmt *s);

/* The form for many sets of values: $1 … are arrays. NULL: there is none. */
pg_stmt *pg_stmt_array(pg_stmt *s);

/* The form of a guard that fails instead of giving no row. NULL: memory is out. */
pg_stmt *pg_stmt_must(pg_stmt *s);

/* pg_stmt_keep(): as pg_stmt_must(), and the server keeps the number in this column of the row
 * until the end of the transaction. pg_stmt_take(): the form that uses that number for the
 * parameters whose bits are set. NULL: memory is out, or the form was made before for another
 * column or other parameters. */
pg_stmt *pg_stmt_keep(pg_stmt *s, int column);
pg_stmt *pg_stmt_take(pg_stmt *s, uint32_t which);

/* Write an array in binary form, as the value of one parameter: the head, then each member, then
 * the number of members. */
void pg_array_begin(buf *b, Oid type);
void pg_array_add(buf *b, const db_value *v);
void pg_array_end(buf *b, size_t count);

/* ---- Transactions (pg_tx.c, pg_ring.c) ---- */

/* Functions of db_driver (db.h). */
pawl_code pg_begin(db_conn *c, error *err);
pawl_code pg_commit(db_conn *c, error *err);
int pg_in_transaction(db_conn *c);

/* pg_push_begin() pushes what begins a transaction of this connection, pg_take_begin() takes the
 * answers. */
pawl_code pg_push_begin(pg_conn *c, error *err);
pawl_code pg_take_begin(pg_conn *c, error *err);

/* Push the beginning of a reader's transaction, if it was put off until its first statement.
 * *begins: its answers are to be taken. */
pawl_code pg_push_lazy(pg_conn *c, int *begins, error *err);

/* Behind a pooler, push the settings of this transaction. */
pawl_code pg_push_settings(pg_conn *c, error *err);

/* pg_push_commit() pushes COMMIT, pg_take_commit() takes its answer; codes as those of
 * db_driver.commit. */
pawl_code pg_push_commit(pg_conn *c, error *err);
pawl_code pg_take_commit(pg_conn *c, error *err);

void pg_rollback(db_conn *c);

/* Make a ring if there is none; push and take what every transaction begins with (PAWL_FENCED: the
 * node is closed); settle a commit whose answer was lost. */
pawl_code pg_ring_need(pg_conn *c, error *err);
int64_t pg_place_of(int64_t number);
void pg_ring_committed(pg_conn *c); /* the transaction with c->number is acknowledged */
void pg_ring_drop(pg_conn *c);
pawl_code pg_ring_push(pg_conn *c, error *err);
pawl_code pg_ring_take(pg_conn *c, error *err);
db_fate pg_settle(db_conn *c, error *err);

/* ---- Rewind detection: proof that nothing acknowledged is missing (pg_proof.c) ---- */

/* pg_proof_open() adds a committing connection to the list of witnesses, pg_proof_close() removes
 * it. */
void pg_proof_open(pg_conn *c);
void pg_proof_close(pg_conn *c);

/* The transaction with this number of the connection's ring was acknowledged; -1: its ring was
 * made. */
void pg_proof_acknowledged(pg_conn *c, int64_t number);

/* pg_proof_push() pushes the proof, and the lock on the row of the node if there is one;
 * pg_proof_take() takes the answers. PAWL_REWOUND: the database was rewound; PAWL_FENCED: the node
 * is closed. */
pawl_code pg_proof_push(pg_conn *c, error *err);
pawl_code pg_proof_take(pg_conn *c, error *err);

/* Ends the server's sessions of a node (db_driver.evict). */
void pg_evict(db_conn *c, int64_t node);

/* ---- Connections of the application (pg_borrow.c) ---- */

/* Uses a connection of the application (db_guests.borrow). pg_borrowed_result(): what a statement
 * gives on it; NULL: `err` says why there is nothing. */
pawl_code pg_borrow(db *d, void *native, db_conn **out, error *err);
PGresult *pg_borrowed_result(pg_conn *c, const pg_stmt *s, const pg_params *p, error *err);

/* ---- Guests (pg_guest.c), as db_guests.lend says ---- */

pawl_code pg_lend(db_conn *c, void **native, error *err);
pawl_code pg_take_back(db_conn *c, error *err);

/* ---- Batches (pg_batch.c), notifications (pg_notify.c), the node's lock (pg_node_lock.c) ---- */

batch_result pg_apply(db_conn *c, unit **units, size_t count, uint64_t *passes, error *err);

pawl_code pg_listen(db_conn *c, int64_t node, int *fd, error *err);
int pg_heard(db_conn *c);
pawl_code pg_notify(db_conn *c, const int64_t *targets, size_t count, error *err);
pawl_code pg_lock_for_life(db_conn *c, int64_t node, int64_t *server, error *err);

#endif
