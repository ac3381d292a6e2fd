/* The seam, or driver interface: what pawl asks of a database, and nothing else.
 *
 * A driver is a table of functions (`db_driver`); db_sqlite.c is one, src/pg/db_postgres.c another,
 * db_fault.c wraps any of them and breaks it on purpose. Everything above this header is written
 * once and never asks which driver it is on.
 *
 * SQL is written once too, in the file of the feature that owns it, as a static `db_sql` with
 * parameters $1, $2 … Names in braces are the few differences between databases: {runs} is a
 * table of pawl's (pawl_runs or pawl.runs), {KEY} and other capitals are macros of the driver
 * (db_driver.macros). {LIVE} and {HELD_BY_HAND} are numbers that stand in columns (columns.h), the
 * same for every driver. No now() and no random in SQL: callers pass values.
 *
 * A connection is used by one thread at a time. Every statement runs between db_begin() and
 * db_commit() or db_rollback(). */
#ifndef DB_DB_H
#define DB_DB_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "base/map.h"
#include "base/slice.h"

typedef struct db db;             /* one database, as one engine sees it */
typedef struct db_conn db_conn;   /* one connection to it */
typedef struct db_stmt db_stmt;   /* one prepared statement of a connection */
typedef struct db_world db_world; /* what the engine knows of its last commits, to notice a
                                     rewind (world.h) */

/* ---- Values and statements ---- */

typedef enum { DB_NULL, DB_INT, DB_TEXT, DB_BYTES, DB_FROM } db_type;

/* A value on its way into or out of the database. Bytes and text are borrowed: on the way in
 * until the statement is reset, on the way out until the next db_next() or db_reset(). DB_FROM
 * occurs in units only: "column `i` of the first row of the unit's statement number `from`". */
typedef struct db_value {
    db_type type;
    int32_t from;
    int64_t i;
    slice s;
} db_value;

/* One statement. Static: its address is its identity. `binds` has a letter per parameter, i t b
 * for integer, text, bytes (each may be NULL), so that it is bound with an explicit type. A first
 * letter k is an integer too. It marks a statement that updates or inserts the one row of {runs}
 * with this key, and whose RETURNING has no parameters: see sqlite_returning.h. */
typedef struct db_sql {
    const char *text;
    const char *binds;
} db_sql;

/* What db_next() found. */
typedef enum { DB_ROW, DB_DONE, DB_FAILED } db_step;

/* What became of a commit whose answer was lost. */
typedef enum { DB_FATE_UNKNOWN, DB_FATE_COMMITTED, DB_FATE_LOST } db_fate;

/* What a connection is for. DB_WRITER, for migrations and tests: until the end of its transaction
 * no other DB_WRITER begins one, nor, where one transaction writes at a time (DB_TURNS), a
 * DB_COMMITTER. DB_COMMITTER: settle() can find out what became of a commit whose answer was lost.
 * DB_NOTIFIER: it only listens and notifies. */
typedef enum { DB_READER, DB_WRITER, DB_COMMITTER, DB_NOTIFIER } db_role;

/* What a driver promises (db_driver.promises). A database in memory promises DB_TURNS and nothing
 * else. */
enum {
    DB_DURABLE = 1,  /* what is committed survives a crash */
    DB_ISOLATED = 2, /* two connections do not see each other's open transactions */
    DB_SHARED = 4,   /* several processes may open it at once */
    DB_FILE = 8,     /* a file of this host: locks beside the file tell which nodes are alive */
    DB_TURNS = 16,   /* one transaction writes at a time: no deadlocks, no write skew */
};

typedef struct db_macro {
    const char *name; /* capitals, without braces; NULL ends the list */
    const char *text;
} db_macro;

/* ---- Options of db_open(); zero is the default everywhere ---- */

typedef struct db_options {
    const char *url;
    int (*on_connect)(void *native, void *arg);
    void *on_connect_arg;
    log_sink log;
    clock_source *clock;   /* NULL: the system's */
    random_source *random; /* NULL: the system's */
    int switch_to_wal;     /* may an existing database be switched to WAL mode? */
    int by_hand;           /* never wait for others: return PAWL_BUSY, and the caller tries again */
    int look_only;         /* connections only read: nothing is made, migrated or written */
    int64_t wal_bytes;     /* bound of the write-ahead log; 0: 64 MiB */
    int64_t busy_ms;       /* how long to wait for others; 0: 5000 */
    int64_t claim_ms;      /* how long a silent node keeps its claims. A wait for a lock or an
                              answer of a server is shorter than that; 0: 5000 */
    const char *vfs;       /* SQLite: the VFS to open with; NULL: the default */
    int64_t (*fs_magic)(const char *path); /* type of the file system at path, as statfs(2) has
                                              it; NULL: ask the system */
} db_options;

/* ---- The driver table ---- */

struct unit;
struct batch_result;
struct liveness_file;

/* Notifications between processes, on the connection of a notifier (notifier.h). */
typedef struct db_channel {
    /* Listen as this node (0: only to what is for all nodes). *fd: a descriptor that is readable
     * when a notification arrives; -1: there is none, and only polling helps. */
    pawl_code (*listen)(db_conn *c, int64_t node, int *fd, error *err);

    /* Consume the notifications that have arrived. 1: there were some; 0: none; -1: the connection
     * is lost. */
    int (*heard)(db_conn *c);

    /* Notify the listeners of each target: a node, or 0 for all nodes. */
    pawl_code (*notify)(db_conn *c, const int64_t *targets, size_t count, error *err);

    /* Take a lock that the server frees when this session ends, so that other nodes see that this
     * node has died. *server: when the server was started, in us, which is another number after a
     * restart; 0: there is no such lock. NULL: the database has no sessions. */
    pawl_code (*lock_for_life)(db_conn *c, int64_t node, int64_t *server, error *err);
} db_channel;

/* Transactions that pawl and the application share. */
typedef struct db_guests {
    /* Wrap a connection of the application (`native`, as db_driver.native returns it), so that pawl
     * can execute statements inside the application's open transaction. *out must not be begun or
     * committed. db_disconnect() gives it back, and leaves connection and transaction as they are.
     * PAWL_MISUSE: the connection is in no transaction that can go on; PAWL_INVALID: its database
     * has no tables of pawl's. */
    pawl_code (*borrow)(db *d, void *native, db_conn **out, error *err);

    /* In a transaction: lend the native connection to code of the application (a guest), with the
     * settings that such code expects, and take it back. take_back() returns PAWL_OK if the
     * transaction is the one that was lent; PAWL_MISUSE if the guest has ended it, or has left a
     * statement open or a failure in it, so that it can only be rolled back; other codes if the
     * database has ended the transaction, or is gone. */
    pawl_code (*lend)(db_conn *c, void **native, error *err);
    pawl_code (*take_back)(db_conn *c, error *err);
} db_guests;

typedef struct db_driver {
    const char *name;
    const char *table_prefix;
    const db_macro *macros;
    unsigned promises;

    void (*close)(db *d);

    pawl_code (*connect)(db *d, db_role role, db_conn **out, error *err);
    void (*disconnect)(db_conn *c);

    /* Begin a transaction; a reader's sees one state of the database. PAWL_BUSY (it has to wait for
     * another writer: db_role) and PAWL_UNREACHABLE (no server): nothing has happened, and begin()
     * may be called again. If the connection is a node's
     * (db_conn.node), the row of the node is locked first; PAWL_FENCED: that row is closed. On a
     * committer's connection the driver first checks that the last transaction of this connection
     * is still in the database; PAWL_REWOUND: it is gone (world.h). */
    pawl_code (*begin)(db_conn *c, error *err);

    /* PAWL_OK: durable. PAWL_BUSY: still in the transaction, commit() may be called again.
     * PAWL_DATA: still in the transaction, which breaks a rule and can only be rolled back.
     * Anything else is *undecided*: the transaction is over and perhaps durable; ask settle(). */
    pawl_code (*commit)(db_conn *c, error *err);
    void (*rollback)(db_conn *c);

    /* Returns 0 when the database has ended the transaction by itself, as SQLite does on some
     * errors. */
    int (*in_transaction)(db_conn *c);

    /* Find out what became of the connection's undecided commit, if it can be known yet. */
    db_fate (*settle)(db_conn *c, error *err);

    pawl_code (*prepare)(db_conn *c, const db_sql *sql, const char *text, db_stmt **out,
                         error *err);
    void (*finalize)(db_stmt *s);
    pawl_code (*bind)(db_stmt *s, int index, const db_value *value, error *err); /* from 1 */
    db_step (*next)(db_stmt *s, error *err);
    int (*columns)(db_stmt *s);
    void (*column)(db_stmt *s, int index, db_value *out); /* from 0 */
    void (*reset)(db_stmt *s);

    /* Several statements at once, without parameters, braces already expanded: migrations. */
    pawl_code (*script)(db_conn *c, const char *text, error *err);

    /* Called between two batches of the writer, for housekeeping that no transaction may overlap
     * (SQLite: restart the log when it has passed its bound). */
    void (*between)(db_conn *c);

    /* Apply units as batch_apply() does (batch.h), in the quickest way for this database. */
    struct batch_result (*apply)(db_conn *c, struct unit **units, size_t count, uint64_t *passes,
                                 error *err);

    /* The database's time, in ms since 1970 UTC, outside a transaction. */
    pawl_code (*now_ms)(db_conn *c, int64_t *out, error *err);

    /* The database's time in us, for db_clock.h. NULL: the database's time is the host's. */
    pawl_code (*now_us)(db_conn *c, int64_t *out, error *err);

    /* End the server sessions of a silent node that hold its rows locked: a node that was stopped
     * in the midst of sending would hold them for ever. NULL: the database has no sessions. */
    void (*evict)(db_conn *c, int64_t node);

    db_channel channel;

    /* The byte locks beside a database that is a file of this host; NULL: it has none, and
     * heartbeats are rows. */
    struct liveness_file *(*nodes)(db *d);

    /* On a reader's connection that is not in use: check that the last commit of this engine is
     * still in the database. PAWL_REWOUND: it is not. NULL: not needed, since every heartbeat of a
     * node is a transaction, whose begin() checks it. */
    pawl_code (*prove)(db_conn *c, error *err);

    void *(*native)(db_conn *c); /* sqlite3 *, PGconn * */
    db_guests guests;
} db_driver;

struct db {
    const db_driver *driver;
    db_options options; /* with its defaults filled in; url is not kept, it may hold secrets */
    db_world *world;    /* owned by the driver */
};

/* Which row of {journal} was appended, as a proof that its transaction is in the database. */
typedef struct db_append {
    int64_t run; /* 0: there is no such row */
    int64_t generation;
    int64_t seq;
    int64_t at_ms;
} db_append;

struct db_conn {
    const db_driver *driver;
    db *db;
    db_role role;
    map statements; /* address of a db_sql -> db_stmt */
    int64_t node;   /* the node that commits through this connection; 0: none */
    int64_t slot;   /* which of the node's rows of {nodes} is locked by its transactions */
    int64_t token;  /* the random bits of that row: after a rewind another node has this number */
    db_append appended; /* the journal row that the transaction has appended last, if it has done
                           nothing but append; otherwise run 0 */
};

struct db_stmt {
    db_conn *conn;
    const db_sql *sql;
};

/* ---- What the rest of pawl calls ---- */

/* Open the database of options->url and bring its tables to this version (open.c). */
pawl_code db_open(db **out, const db_options *options, error *err);
void db_close(db *d);

pawl_code db_connect(db *d, db_role role, db_conn **out, error *err);
void db_disconnect(db_conn *c); /* NULL is allowed */

/* Returns the byte locks beside the database (liveness_file.h), owned by the database; NULL: there
 * are none. */
static inline struct liveness_file *db_nodes(db *d)
{
    return d->driver->nodes ? d->driver->nodes(d) : NULL;
}

static inline pawl_code db_begin(db_conn *c, error *err)
{
    return c->driver->begin(c, err);
}

static inline pawl_code db_commit(db_conn *c, error *err)
{
    return c->driver->commit(c, err);
}

static inline void db_rollback(db_conn *c)
{
    c->driver->rollback(c);
}

/* Set *out to the connection's prepared statement for this SQL, which is prepared at its first use
 * and belongs to the connection. */
pawl_code db_prepare(db_conn *c, const db_sql *sql, db_stmt **out, error *err);

/* Bind all parameters of a prepared statement, in order. */
pawl_code db_bind_all(db_stmt *s, const db_value *values, int count, error *err);

static inline db_step db_next(db_stmt *s, error *err)
{
    return s->conn->driver->next(s, err);
}

static inline db_value db_column(db_stmt *s, int index)
{
    db_value v = {DB_NULL, 0, 0, {NULL, 0}};
    s->conn->driver->column(s, index, &v);
    return v;
}

static inline void db_reset(db_stmt *s)
{
    s->conn->driver->reset(s);
}

/* Lock the row of the connection's node, if it has a node, for the rest of the transaction.
 * PAWL_FENCED: the row is closed, and the node may not write any more. */
pawl_code db_lock_node(db_conn *c, error *err);

/* Set the error PAWL_FENCED for the connection's node, and return that code. */
pawl_code db_fenced(const db_conn *c, error *err);

/* Run a statement that gives no rows, or whose rows do not matter. */
pawl_code db_run(db_conn *c, const db_sql *sql, const db_value *values, int count, error *err);

/* Run a statement and set *out to column 0 of its first row, as a number. *found 0: there was no
 * row, and *out is as before. */
pawl_code db_number(db_conn *c, const db_sql *sql, const db_value *values, int count, int64_t *out,
                    int *found, error *err);

/* Append the SQL to `out`, with its names in braces expanded for this driver. */
pawl_code db_expand(const db_driver *driver, const char *text, buf *out, error *err);

static inline db_value db_int(int64_t i)
{
    return (db_value){DB_INT, 0, i, {NULL, 0}};
}

static inline db_value db_text(slice s)
{
    return (db_value){DB_TEXT, 0, 0, s};
}

static inline db_value db_bytes(slice s)
{
    return (db_value){DB_BYTES, 0, 0, s};
}

static inline db_value db_null(void)
{
    return (db_value){DB_NULL, 0, 0, {NULL, 0}};
}

/* A value that an earlier statement of the unit returns: number of statement and column, from 0. */
static inline db_value db_from(int statement, int column)
{
    return (db_value){DB_FROM, statement, column, {NULL, 0}};
}

#define DB_COUNT(values) ((int)(sizeof(values) / sizeof((values)[0])))

#endif
