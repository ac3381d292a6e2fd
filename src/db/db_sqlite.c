/* The driver for SQLite.
 *
 * A file: every connection has its own handle; writers pass the turnstile, then take SQLite's lock
 * with BEGIN IMMEDIATE (never deferred: a transaction that reads first and writes then is refused
 * at once when another connection has written in between).
 *
 * Memory: one handle behind one mutex, which is held from begin to the end of the transaction. No
 * isolation is promised, and a thread must not begin twice. */
#include "db/db_sqlite.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "db/batch.h"
#include "db/sqlite_guest.h"
#include "db/sqlite_look.h"
#include "db/sqlite_notify.h"
#include "db/sqlite_open.h"
#include "db/sqlite_returning.h"
#include "db/sqlite_ring.h"
#include "db/sqlite_value.h"
#include "db/turnstile.h"

typedef struct sqlite_db {
    db base;
    char *path; /* as SQLite resolved it, so that all names beside it agree; NULL: memory */
    int relaxed;
    sqlite_look look; /* how a handle that only looks reads it; otherwise empty */
    liveness_file *nodes;
    db_world world;
    sqlite_ring ring;      /* of a file: the row by which a rewind is noticed */
    atomic_int committers; /* number of connections that use `ring` */
    sqlite3 *memory;
    pthread_mutex_t lock; /* memory: held during a transaction; file: guards nodes */
} sqlite_db;

typedef struct sqlite_conn {
    db_conn base;
    sqlite3 *native;
    sqlite3_stmt *begin;
    sqlite3_stmt *commit;
    sqlite3_stmt *rollback;
    turnstile *turn;
    _Atomic(wal_checkpointer *) checkpointer; /* figures are asked for by any thread */
    sqlite_watch watch;  /* of a writer: are the files still those that it opened? */
    sqlite_notify *wake; /* of a notifier's connection, which has nothing else; NULL in memory */
    int locked;          /* memory: this connection holds the mutex */
    int borrowed;        /* the handle is the application's */
    int rings;           /* 1: each transaction checks that the file was not rewound
                            (sqlite_ring.h) */
    int before;          /* number of rows changed on this handle when the transaction began */
    sqlite_mark mark;    /* with `rings`: what the commit of the transaction leaves behind */
} sqlite_conn;

enum { PARAMETERS = 32 };

typedef struct sqlite_stmt {
    db_stmt base;
    sqlite3_stmt *native;
    sqlite3_stmt *again; /* reads the run that `native` has changed; NULL: see sqlite_returning.h */
    int reading;         /* the rows of `again` are being read */
    unsigned char places[PARAMETERS]; /* where SQLite has $1, $2 … */
} sqlite_stmt;

static const db_driver DRIVER_FILE;
static const db_driver DRIVER_MEMORY;

static sqlite_db *db_of(db_conn *c)
{
    return (sqlite_db *)c->db;
}

/* ---- Connections ---- */

static int prepare_plain(sqlite_conn *c, const char *sql, sqlite3_stmt **out)
{
    return sqlite3_prepare_v3(c->native, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
}

static pawl_code prepare_transaction_stmts(sqlite_conn *c, error *err)
{
    int writes = c->base.role != DB_READER;
    int rc = prepare_plain(c, writes ? "BEGIN IMMEDIATE" : "BEGIN", &c->begin);
    if (rc == SQLITE_OK)
        rc = prepare_plain(c, "COMMIT", &c->commit);
    if (rc == SQLITE_OK)
        rc = prepare_plain(c, "ROLLBACK", &c->rollback);
    return rc == SQLITE_OK ? PAWL_OK : db_sqlite_error(c->native, rc, "set up", err);
}

static void rollback(db_conn *base);
static void leave(sqlite_conn *c);

static void disconnect(db_conn *base)
{
    sqlite_conn *c = (sqlite_conn *)base;
    if (c->borrowed) {
        leave(c);
        free(c);
        return;
    }
    if (c->locked) /* the handle in memory stays open, and would keep the transaction */
        rollback(base);
    wal_checkpointer_free(c->checkpointer);
    if (c->rings && atomic_fetch_sub(&db_of(base)->committers, 1) == 1)
        sqlite_ring_drop(&db_of(base)->ring, c->native);
    if (c->turn) /* if this is the last connection, it leaves an empty log, which the next open need
                    not read */
        sqlite3_exec(c->native, "PRAGMA journal_size_limit=0", NULL, NULL, NULL);
    sqlite3_finalize(c->begin);
    sqlite3_finalize(c->commit);
    sqlite3_finalize(c->rollback);
    if (c->native != db_of(base)->memory)
        sqlite3_close(c->native);
    turnstile_free(c->turn);
    sqlite_watch_free(&c->watch);
    sqlite_notify_close(c->wake);
    free(c);
}

/* The file of locks is made when a connection is to write, not for reading. Where such locks do not
 * work there is none. */
static pawl_code need_nodes(sqlite_db *d, error *err)
{
    pthread_mutex_lock(&d->lock);
    pawl_code rc = d->nodes                    ? PAWL_OK
                   : d->base.options.look_only ? liveness_file_look(&d->nodes, d->path, err)
                                               : liveness_file_open(&d->nodes, d->path, err);
    /* RULE a-child-opens-nothing-of-its-parent */
    if (rc == PAWL_OK && liveness_file_is_inherited(d->nodes))
        rc = sqlite_refuse_child(d->path, err);
    pthread_mutex_unlock(&d->lock);
    return rc == PAWL_UNSUPPORTED ? PAWL_OK : rc;
}

static pawl_code open_connection(sqlite_conn *c, sqlite_db *d, error *err)
{
    db_options *o = &d->base.options;
    c->native = d->memory;
    if (d->memory)
        return PAWL_OK;
    if (o->look_only)
        return sqlite_look_connect(d->path, &d->look, c->base.role, o, &c->native, err);
    pawl_code rc = sqlite_open_native(d->path, d->relaxed, o, &c->native, err);
    if (rc != PAWL_OK || c->base.role == DB_READER)
        return rc;
    rc = need_nodes(d, err);
    if (rc != PAWL_OK || !d->nodes)
        return rc;
    sqlite_watch_init(&c->watch, d->path);
    sqlite_limit_log(c->native, o->wal_bytes);
    /* The writer waits twice in a row, for its turn (turnstile.h) and for SQLite's lock: each wait
     * gets half of busy_ms. */
    sqlite3_busy_timeout(c->native, o->by_hand ? 0 : (int)(o->busy_ms - o->busy_ms / 2));
    c->turn =
        turnstile_new(d->nodes, o->clock, o->by_hand, o->by_hand ? o->busy_ms : o->busy_ms / 2);
    return c->turn ? PAWL_OK : error_nomem(err);
}

/* A notifier's connection never queries the database: it has no handle, and no lock of SQLite's. */
static pawl_code connect(db *base, db_role role, db_conn **out, error *err)
{
    sqlite_db *d = (sqlite_db *)base;
    *out = NULL;
    sqlite_conn *c = calloc(1, sizeof *c);
    if (!c)
        return error_nomem(err);
    c->base = (db_conn){.driver = base->driver, .db = base, .role = role};
    pawl_code rc = role != DB_NOTIFIER ? open_connection(c, d, err)
                   : d->path           ? sqlite_notify_open(&c->wake, d->path, err)
                                       : PAWL_OK;
    if (rc == PAWL_OK && role != DB_NOTIFIER)
        rc = prepare_transaction_stmts(c, err);
    c->rings = rc == PAWL_OK && role == DB_COMMITTER && d->path;
    atomic_fetch_add(&d->committers, c->rings);
    if (rc != PAWL_OK) {
        disconnect(&c->base);
        return rc;
    }
    *out = &c->base;
    return PAWL_OK;
}

/* A database in memory has one sqlite3 handle, which the engine and the application share. If the
 * mutex of the engine is free, no thread of the engine is in a transaction, so that an open
 * transaction is the application's. */
static pawl_code borrow(db *base, void *native, db_conn **out, error *err)
{
    sqlite_db *d = (sqlite_db *)base;
    if (d->memory && native != d->memory)
        return error_set(err, PAWL_INVALID, "the connection is to another database");
    if (d->memory && pthread_mutex_trylock(&d->lock) != 0)
        return error_set(err, PAWL_BUSY, "the database in memory is in use");
    pawl_code rc = sqlite_check_borrowed(native, err);
    sqlite_conn *c = rc == PAWL_OK ? calloc(1, sizeof *c) : NULL;
    if (!c) {
        if (d->memory)
            pthread_mutex_unlock(&d->lock);
        return rc == PAWL_OK ? error_set(err, PAWL_NOMEM, "no memory") : rc;
    }
    c->base = (db_conn){.driver = base->driver, .db = base, .role = DB_WRITER};
    c->native = native;
    c->borrowed = 1;
    c->locked = d->memory != NULL;
    *out = &c->base;
    return PAWL_OK;
}

static void *native(db_conn *c)
{
    return ((sqlite_conn *)c)->native;
}

/* ---- Transactions ---- */

static int step_once(sqlite3_stmt *s)
{
    int rc = sqlite3_step(s);
    int reset = sqlite3_reset(s);
    return rc == SQLITE_DONE ? SQLITE_OK : reset;
}

/* Waits for the turn to write. 0 (by hand only): it has not come yet. */
static int enter(sqlite_conn *c)
{
    if (c->turn)
        return turnstile_enter(c->turn); /* RULE B2-writers-pass-the-turnstile */
    sqlite_db *d = db_of(&c->base);
    if (d->memory) { /* RULE C1-memory-is-behind-one-mutex */
        if (pthread_mutex_trylock(&d->lock) != 0) {
            if (d->base.options.by_hand)
                return 0;
            pthread_mutex_lock(&d->lock);
        }
        c->locked = 1;
    }
    return 1;
}

static void leave(sqlite_conn *c)
{
    if (c->turn)
        turnstile_leave(c->turn);
    if (c->locked) {
        c->locked = 0;
        pthread_mutex_unlock(&db_of(&c->base)->lock);
    }
}

static pawl_code begin(db_conn *base, error *err)
{
    sqlite_conn *c = (sqlite_conn *)base;
    sqlite_db *d = db_of(base);
    /* RULE files-are-looked-at-before-a-transaction */
    pawl_code here =
        c->turn ? sqlite_watch_check(&c->watch, err) : sqlite_look_again(d->path, &d->look, err);
    if (here != PAWL_OK)
        return here;
    if (!enter(c))
        return error_set(err, PAWL_BUSY, "another process is writing");
    int rc = step_once(c->begin);
    if (rc == SQLITE_OK) {
        c->before = sqlite3_total_changes(c->native);
        base->appended = (db_append){.run = 0};
        here = c->rings ? sqlite_ring_check(&db_of(base)->ring, base, &c->mark, err) : PAWL_OK;
        if (here == PAWL_OK)
            here = db_lock_node(base, err);
        if (here != PAWL_OK)
            rollback(base);
        return here;
    }
    pawl_code code = db_sqlite_error(c->native, rc, "begin a transaction in", err);
    leave(c);
    return code;
}

static int in_transaction(db_conn *base)
{
    return !sqlite3_get_autocommit(((sqlite_conn *)base)->native);
}

static void rollback(db_conn *base)
{
    sqlite_conn *c = (sqlite_conn *)base;
    if (in_transaction(base))
        (void)step_once(c->rollback);
    leave(c);
}

/* The transaction is over, and perhaps durable: settle() finds out. */
static pawl_code not_committed(db_conn *base, pawl_code code)
{
    rollback(base);
    return code == PAWL_BUSY || code == PAWL_DATA ? PAWL_STORAGE : code;
}

static pawl_code commit(db_conn *base, error *err)
{
    sqlite_conn *c = (sqlite_conn *)base;
    sqlite_ring *ring = &db_of(base)->ring;
    pawl_code raised = PAWL_OK;
    if (c->rings && sqlite3_total_changes(c->native) != c->before)
        raised = sqlite_ring_mark(ring, base, &c->mark, err);
    if (raised != PAWL_OK)
        return not_committed(base, raised);
    if (c->turn)
        turnstile_pass(c->turn);
    wal_checkpointer_grow(c->checkpointer);
    int rc = step_once(c->commit);
    if (rc == SQLITE_OK) {
        leave(c);
        if (c->rings && c->mark.order)
            sqlite_ring_committed(ring, base, &c->mark);
        return PAWL_OK;
    }
    pawl_code code = db_sqlite_error(c->native, rc, "commit to", err);
    if ((code == PAWL_BUSY || code == PAWL_DATA) && in_transaction(base))
        return code;
    /* The frames may be in the log, commit mark and all, although this handle has forgotten them.
     * Only a later commit overwrites them; until then a crash may bring them back. */
    return not_committed(base, code);
}

static const db_sql SETTLE = {"INSERT INTO {meta} (name, number) VALUES ('settled', 1) "
                              "ON CONFLICT (name) DO UPDATE SET number = coalesce(number, 0) + 1 "
                              "RETURNING 1",
                              ""};

/* Commits something else: its frames in the log overwrite those of the undecided commit, which then
 * is lost for good. */
static db_fate settle(db_conn *base, error *err) /* RULE A5-a-failed-commit-is-undecided */
{
    int64_t one;
    int written;
    if (begin(base, err) != PAWL_OK)
        return DB_FATE_UNKNOWN;
    if (db_number(base, &SETTLE, NULL, 0, &one, &written, err) != PAWL_OK || !written) {
        rollback(base);
        return DB_FATE_UNKNOWN;
    }
    pawl_code rc = commit(base, err);
    if (in_transaction(base))
        rollback(base);
    return rc == PAWL_OK ? DB_FATE_LOST : DB_FATE_UNKNOWN;
}

/* ---- Housekeeping ---- */

/* The checkpointer is made at the first batch: a connection that writes once needs none. Without a
 * connection for the copying thread the writer makes all checkpoints. */
static wal_checkpointer *checkpointer_of(sqlite_conn *c)
{
    sqlite_db *d = db_of(&c->base);
    db_options *o = &d->base.options;
    if (c->checkpointer || d->memory)
        return c->checkpointer;
    sqlite3 *copier = NULL;
    error err;
    if (!o->by_hand && sqlite_open_native(d->path, d->relaxed, o, &copier, &err) != PAWL_OK)
        LOG(&o->log, LOG_WARNING, "no-copier", LOG_TEXT("code", pawl_code_name(err.code)));
    c->checkpointer = wal_checkpointer_new(c->native, copier, o->wal_bytes, o->clock);
    return c->checkpointer;
}

static void between(db_conn *base)
{
    sqlite_conn *c = (sqlite_conn *)base;
    wal_checkpointer *k = checkpointer_of(c);
    if (!k || !wal_checkpointer_due(k) || !enter(c))
        return;
    wal_checkpointer_restart(k);
    leave(c);
}

db_sqlite_stats db_sqlite_figures(db_conn *base)
{
    sqlite_conn *c = (sqlite_conn *)base;
    db_sqlite_stats s = {0};
    if (c->checkpointer)
        s.wal = wal_checkpointer_stats(c->checkpointer);
    if (c->turn) {
        s.turn_ns_max = turnstile_wait_ns_max(c->turn);
        s.turns_given_up = turnstile_given_up(c->turn);
    }
    return s;
}

/* The database's time is the host's: all its processes are on this host. */
static pawl_code now_ms(db_conn *base, int64_t *out, error *err)
{
    (void)err;
    clock_source *clock = base->db->options.clock;
    *out = clock->now_ms(clock);
    return PAWL_OK;
}

/* ---- Waking others ---- */

/* All users of a memory database are in this process, where no file is needed to notify them. */
static pawl_code listen(db_conn *base, int64_t node, int *fd, error *err)
{
    sqlite_notify *w = ((sqlite_conn *)base)->wake;
    (void)node; /* every process on the file is notified, whichever node was meant */
    *fd = -1;
    return w ? sqlite_notify_listen(w, fd, err) : PAWL_OK;
}

static int heard(db_conn *base)
{
    sqlite_notify *w = ((sqlite_conn *)base)->wake;
    return w ? sqlite_notify_heard(w) : 0;
}

static pawl_code notify(db_conn *base, const int64_t *targets, size_t count, error *err)
{
    sqlite_notify *w = ((sqlite_conn *)base)->wake;
    (void)targets;
    return w && count > 0 ? sqlite_notify_tell(w, err) : PAWL_OK;
}

/* ---- Statements ---- */

static void finalize(db_stmt *base)
{
    sqlite3_finalize(((sqlite_stmt *)base)->native);
    sqlite3_finalize(((sqlite_stmt *)base)->again);
    free(base);
}

static pawl_code prepare(db_conn *base, const db_sql *sql, const char *text, db_stmt **out,
                         error *err)
{
    sqlite_conn *c = (sqlite_conn *)base;
    sqlite_stmt *s = calloc(1, sizeof *s);
    if (!s)
        return error_nomem(err);
    s->base = (db_stmt){base, sql};
    int rc = sqlite_returning_prepare(c->native, text, sql->binds[0] == 'k', &s->native, &s->again);
    if (rc == SQLITE_OK)
        rc = sqlite_value_places(s->native, s->places, PARAMETERS);
    if (rc != SQLITE_OK) {
        pawl_code code = db_sqlite_error(c->native, rc, "understand a statement for", err);
        finalize(&s->base);
        return code;
    }
    *out = &s->base;
    return PAWL_OK;
}

static pawl_code bind(db_stmt *base, int index, const db_value *v, error *err)
{
    sqlite3_stmt *s = ((sqlite_stmt *)base)->native;
    int at = index >= 1 && index <= PARAMETERS ? ((sqlite_stmt *)base)->places[index - 1] : 0;
    sqlite3_stmt *again = index == 1 ? ((sqlite_stmt *)base)->again : NULL;
    int rc = sqlite_value_bind(s, at, v);
    if (rc == SQLITE_OK && again)
        rc = sqlite3_bind_int64(again, 1, v->i);
    if (rc == SQLITE_OK)
        return PAWL_OK;
    return db_sqlite_error(native(base->conn), rc, "give a value to", err);
}

static db_step next(db_stmt *base, error *err)
{
    sqlite_stmt *s = (sqlite_stmt *)base;
    int rc = sqlite3_step(s->reading ? s->again : s->native);
    if (rc == SQLITE_DONE && s->again && !s->reading && sqlite3_changes(native(base->conn)) > 0) {
        s->reading = 1;
        rc = sqlite3_step(s->again);
    }
    if (rc == SQLITE_ROW)
        return DB_ROW;
    if (rc == SQLITE_DONE)
        return DB_DONE;
    db_sqlite_error(native(base->conn), rc, "use", err);
    return DB_FAILED;
}

static sqlite3_stmt *rows_of(db_stmt *base)
{
    sqlite_stmt *s = (sqlite_stmt *)base;
    return s->again ? s->again : s->native;
}

static int columns(db_stmt *base)
{
    return sqlite3_column_count(rows_of(base));
}

static void column(db_stmt *base, int index, db_value *out)
{
    *out = sqlite_value_column(rows_of(base), index);
}

static void reset(db_stmt *base)
{
    sqlite_stmt *s = (sqlite_stmt *)base;
    sqlite3_reset(s->native); /* values are bound anew before each use */
    if (s->reading)
        sqlite3_reset(s->again);
    s->reading = 0;
}

static pawl_code script(db_conn *base, const char *text, error *err)
{
    int rc = sqlite3_exec(native(base), text, NULL, NULL, NULL);
    return rc == SQLITE_OK ? PAWL_OK
                           : db_sqlite_error(native(base), rc, "change the tables of", err);
}

/* ---- The database ---- */

static void close_db(db *base)
{
    sqlite_db *d = (sqlite_db *)base;
    liveness_file_close(d->nodes);
    sqlite3_close(d->memory);
    pthread_mutex_destroy(&d->lock);
    sqlite_ring_free(&d->ring);
    free(d->path);
    free(d);
}

/* The name as SQLite has it: absolute, links resolved. */
static pawl_code resolve_path(sqlite_db *d, const char *path, error *err)
{
    sqlite3 *one;
    pawl_code rc = sqlite_open_native(path, d->relaxed, &d->base.options, &one, err);
    if (rc != PAWL_OK)
        return rc;
    d->path = strdup(sqlite3_db_filename(one, "main"));
    sqlite3_close(one);
    return d->path ? PAWL_OK : error_nomem(err);
}

static pawl_code open_file(sqlite_db *d, const char *path, error *err)
{
    if (d->base.options.look_only)
        return sqlite_look_check(path, &d->base.options, &d->path, &d->look, err);
    pawl_code rc = sqlite_check_path(path, &d->base.options, err);
    if (rc == PAWL_OK)
        rc = sqlite_ensure_wal(path, &d->base.options, err);
    return rc == PAWL_OK ? resolve_path(d, path, err) : rc;
}

pawl_code db_sqlite_open(db **out, const char *path, int relaxed, const db_options *options,
                         error *err)
{
    *out = NULL;
    sqlite_db *d = calloc(1, sizeof *d);
    if (!d)
        return error_nomem(err);
    d->base.driver = path ? &DRIVER_FILE : &DRIVER_MEMORY;
    d->base.options = *options;
    d->relaxed = relaxed;
    d->base.world = &d->world;
    sqlite_ring_init(&d->ring);
    pthread_mutex_init(&d->lock, NULL);
    pawl_code rc =
        path ? open_file(d, path, err) : sqlite_open_native(NULL, 0, options, &d->memory, err);
    if (rc != PAWL_OK) {
        close_db(&d->base);
        return rc;
    }
    *out = &d->base;
    return PAWL_OK;
}

/* A memory database cannot be restored under its engine. */
static pawl_code prove(db_conn *base, error *err)
{
    sqlite_db *d = db_of(base);
    return d->path ? sqlite_ring_prove(&d->ring, base, err) : PAWL_OK;
}

static liveness_file *node_locks(db *base)
{
    sqlite_db *d = (sqlite_db *)base;
    assert(base->driver == &DRIVER_FILE || base->driver == &DRIVER_MEMORY);
    return d->path && need_nodes(d, NULL) == PAWL_OK ? d->nodes : NULL;
}

#define FUNCTIONS                                                                                  \
    .table_prefix = "pawl_", .macros = SQLITE_MACROS, .close = close_db, .connect = connect,       \
    .disconnect = disconnect, .begin = begin, .commit = commit, .rollback = rollback,              \
    .in_transaction = in_transaction, .settle = settle, .prepare = prepare, .finalize = finalize,  \
    .bind = bind, .next = next, .columns = columns, .column = column, .reset = reset,              \
    .script = script, .between = between, .apply = batch_apply, .now_ms = now_ms,                  \
    .channel.listen = listen, .channel.heard = heard, .channel.notify = notify,                    \
    .nodes = node_locks, .prove = prove, .native = native, .guests.borrow = borrow,                \
    .guests.lend = sqlite_lend, .guests.take_back = sqlite_take_back

static const db_driver DRIVER_FILE = {.name = "sqlite",
                                      .promises =
                                          DB_DURABLE | DB_ISOLATED | DB_SHARED | DB_FILE | DB_TURNS,
                                      FUNCTIONS};
static const db_driver DRIVER_MEMORY = {.name = "memory", .promises = DB_TURNS, FUNCTIONS};
