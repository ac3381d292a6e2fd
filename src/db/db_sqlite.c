/* The seam on SQLite.
 *
 * A file: every connection has its own handle; writers pass the turnstile, then take SQLite's
 * lock with BEGIN IMMEDIATE (never deferred: a transaction that reads first and writes then is
 * refused at once when somebody else has written between).
 *
 * Memory: one handle behind one mutex, which is held from begin to the end of the transaction. A
 * second connection would have a second, empty database. So there is no isolation to promise,
 * and a thread must not begin twice. */
#include "db/db_sqlite.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "db/batch.h"
#include "db/sqlite_again.h"
#include "db/sqlite_guest.h"
#include "db/sqlite_open.h"
#include "db/sqlite_wake.h"
#include "db/turnstile.h"

typedef struct sqlite_db {
    db base;
    char *path; /* as SQLite resolved it, so that all names beside it agree; NULL: memory */
    int relaxed;
    nodes_file *nodes;
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
    _Atomic(wal_keeper *) keeper; /* figures are asked for by any thread */
    sqlite_watch watch;           /* of a writer: are the files still the ones it opened? */
    sqlite_wake *wake;            /* of a waker: all it has; NULL in memory */
    int locked;                   /* memory: we hold the mutex */
    int borrowed;                 /* the handle is the application's */
} sqlite_conn;

enum { PARAMETERS = 32 };

typedef struct sqlite_stmt {
    db_stmt base;
    sqlite3_stmt *native;
    sqlite3_stmt *again; /* reads the run that `native` has changed; NULL: see sqlite_again.h … */
    int reading;         /* … and is being read */
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

static pawl_code prepare_brackets(sqlite_conn *c, error *err)
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
    if (c->locked) /* memory: the handle stays, and the transaction would stay with it */
        rollback(base);
    wal_keeper_free(c->keeper);
    if (c->turn) /* the last one to close leaves a log that the next open need not read */
        sqlite3_exec(c->native, "PRAGMA journal_size_limit=0", NULL, NULL, NULL);
    sqlite3_finalize(c->begin);
    sqlite3_finalize(c->commit);
    sqlite3_finalize(c->rollback);
    if (c->native != db_of(base)->memory)
        sqlite3_close(c->native);
    turnstile_free(c->turn);
    sqlite_watch_free(&c->watch);
    sqlite_wake_close(c->wake);
    free(c);
}

/* The file of locks is made when somebody is to write, not when a file is merely looked at. Where
 * such locks do not work there is none. */
static pawl_code need_nodes(sqlite_db *d, error *err)
{
    pthread_mutex_lock(&d->lock);
    pawl_code rc = d->nodes ? PAWL_OK : nodes_file_open(&d->nodes, d->path, err);
    if (rc == PAWL_OK && nodes_file_is_inherited(d->nodes))
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
    pawl_code rc = sqlite_open_native(d->path, d->relaxed, o, &c->native, err);
    if (rc != PAWL_OK || c->base.role == DB_READER)
        return rc;
    rc = need_nodes(d, err);
    if (rc != PAWL_OK || !d->nodes)
        return rc;
    sqlite_watch_init(&c->watch, d->path);
    sqlite_limit_log(c->native, o->wal_bytes);
    /* Two waits in a row, for the turn and for SQLite, are to last busy_ms together. */
    sqlite3_busy_timeout(c->native, o->by_hand ? 0 : (int)(o->busy_ms - o->busy_ms / 2));
    c->turn =
        turnstile_new(d->nodes, o->clock, o->by_hand, o->by_hand ? o->busy_ms : o->busy_ms / 2);
    return c->turn ? PAWL_OK : error_set(err, PAWL_NOMEM, "out of memory");
}

/* A waker never asks the database anything: it has no handle, and no lock of SQLite's. */
static pawl_code connect(db *base, db_role role, db_conn **out, error *err)
{
    sqlite_db *d = (sqlite_db *)base;
    *out = NULL;
    sqlite_conn *c = calloc(1, sizeof *c);
    if (!c)
        return error_set(err, PAWL_NOMEM, "out of memory");
    c->base = (db_conn){.driver = base->driver, .db = base, .role = role};
    pawl_code rc = PAWL_OK;
    if (role != DB_WAKER)
        rc = open_connection(c, d, err);
    else if (d->path)
        rc = sqlite_wake_open(&c->wake, d->path, err);
    if (rc == PAWL_OK && role != DB_WAKER)
        rc = prepare_brackets(c, err);
    if (rc != PAWL_OK) {
        disconnect(&c->base);
        return rc;
    }
    *out = &c->base;
    return PAWL_OK;
}

/* In memory there is one handle for all: what is open on it is the application's only if nobody
 * here is in a transaction. */
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

/* 0: not yet, come back. */
static int enter(sqlite_conn *c)
{
    if (c->turn)
        return turnstile_enter(c->turn);
    sqlite_db *d = db_of(&c->base);
    if (d->memory) {
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
    pawl_code here = c->turn ? sqlite_watch_check(&c->watch, err) : PAWL_OK;
    if (here != PAWL_OK)
        return here;
    if (!enter(c))
        return error_set(err, PAWL_BUSY, "it is somebody else's turn");
    int rc = step_once(c->begin);
    if (rc == SQLITE_OK) {
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

static pawl_code commit(db_conn *base, error *err)
{
    sqlite_conn *c = (sqlite_conn *)base;
    if (c->turn)
        turnstile_pass(c->turn);
    int rc = step_once(c->commit);
    if (rc == SQLITE_OK) {
        leave(c);
        return PAWL_OK;
    }
    pawl_code code = db_sqlite_error(c->native, rc, "commit to", err);
    if ((code == PAWL_BUSY || code == PAWL_DATA) && in_transaction(base))
        return code;
    /* The frames may be in the log, commit mark and all, although this handle has forgotten them.
     * Only a later commit overwrites them; until then a crash may bring them back. */
    rollback(base);
    return code == PAWL_BUSY || code == PAWL_DATA ? PAWL_STORAGE : code;
}

static const db_sql SETTLE = {"INSERT INTO {meta} (name, number) VALUES ('settled', 1) "
                              "ON CONFLICT (name) DO UPDATE SET number = coalesce(number, 0) + 1 "
                              "RETURNING 1",
                              ""};

/* Commit something else: its frames take the place of those that are in doubt. */
static db_fate settle(db_conn *base, error *err)
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

/* Made at the first batch: a connection that writes once needs none. Without a connection for the
 * copying thread the writer does it all. */
static wal_keeper *keeper_of(sqlite_conn *c)
{
    sqlite_db *d = db_of(&c->base);
    db_options *o = &d->base.options;
    if (c->keeper || d->memory)
        return c->keeper;
    sqlite3 *copier = NULL;
    error err;
    if (!o->by_hand && sqlite_open_native(d->path, d->relaxed, o, &copier, &err) != PAWL_OK)
        LOG(&o->log, LOG_WARNING, "no-copier", LOG_TEXT("code", pawl_code_name(err.code)));
    c->keeper = wal_keeper_new(c->native, copier, o->wal_bytes, o->clock);
    return c->keeper;
}

static void between(db_conn *base)
{
    sqlite_conn *c = (sqlite_conn *)base;
    wal_keeper *k = keeper_of(c);
    if (!k || !wal_keeper_due(k) || !enter(c))
        return;
    wal_keeper_restart(k);
    leave(c);
}

db_sqlite_stats db_sqlite_figures(db_conn *base)
{
    sqlite_conn *c = (sqlite_conn *)base;
    db_sqlite_stats s = {0};
    if (c->keeper)
        s.wal = wal_keeper_stats(c->keeper);
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

/* Everybody in memory is in this process, where nobody needs a file to be woken. */
static pawl_code listen(db_conn *base, int64_t node, int *fd, error *err)
{
    sqlite_wake *w = ((sqlite_conn *)base)->wake;
    (void)node; /* everybody on the file looks, whoever was meant */
    *fd = -1;
    return w ? sqlite_wake_listen(w, fd, err) : PAWL_OK;
}

static int heard(db_conn *base)
{
    sqlite_wake *w = ((sqlite_conn *)base)->wake;
    return w ? sqlite_wake_heard(w) : 0;
}

static pawl_code notify(db_conn *base, const int64_t *targets, size_t count, error *err)
{
    sqlite_wake *w = ((sqlite_conn *)base)->wake;
    (void)targets;
    return w && count > 0 ? sqlite_wake_tell(w, err) : PAWL_OK;
}

/* ---- Statements ---- */

/* $1 is a named parameter to SQLite, numbered in order of appearance. Found by its name, once, each
 * value gets where it belongs even if $2 stands before $1. */
static int find_places(sqlite_stmt *s)
{
    int count = sqlite3_bind_parameter_count(s->native);
    if (count > PARAMETERS)
        return SQLITE_RANGE;
    for (int i = 0; i < count; i++) {
        char name[16];
        buf b;
        buf_init_fixed(&b, name, sizeof name);
        buf_printf(&b, "$%d", i + 1);
        s->places[i] = (unsigned char)sqlite3_bind_parameter_index(s->native, name);
    }
    return SQLITE_OK;
}

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
        return error_set(err, PAWL_NOMEM, "out of memory");
    s->base = (db_stmt){base, sql};
    int rc = sqlite_again_prepare(c->native, text, &s->native, &s->again);
    if (rc == SQLITE_OK)
        rc = find_places(s);
    if (rc != SQLITE_OK) {
        pawl_code code = db_sqlite_error(c->native, rc, "understand a statement for", err);
        finalize(&s->base);
        return code;
    }
    *out = &s->base;
    return PAWL_OK;
}

static int bind_bytes(sqlite3_stmt *s, int at, const db_value *v)
{
    /* A NULL pointer would bind NULL; an empty value is not NULL. */
    const char *bytes = v->s.at ? v->s.at : "";
    if (v->type == DB_TEXT)
        return sqlite3_bind_text64(s, at, bytes, v->s.size, SQLITE_STATIC, SQLITE_UTF8);
    return sqlite3_bind_blob64(s, at, bytes, v->s.size, SQLITE_STATIC);
}

static pawl_code bind(db_stmt *base, int index, const db_value *v, error *err)
{
    sqlite3_stmt *s = ((sqlite_stmt *)base)->native;
    int at = index >= 1 && index <= PARAMETERS ? ((sqlite_stmt *)base)->places[index - 1] : 0;
    int rc = SQLITE_RANGE;
    sqlite3_stmt *again = index == 1 ? ((sqlite_stmt *)base)->again : NULL;
    if (v->type == DB_INT)
        rc = sqlite3_bind_int64(s, at, v->i);
    else if (v->type == DB_NULL)
        rc = sqlite3_bind_null(s, at);
    else if (v->type != DB_FROM)
        rc = bind_bytes(s, at, v);
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
    sqlite3_stmt *s = rows_of(base);
    const void *at;
    switch (sqlite3_column_type(s, index)) {
    case SQLITE_INTEGER:
        *out = db_int(sqlite3_column_int64(s, index));
        break;
    case SQLITE_NULL:
        *out = db_null();
        break;
    case SQLITE_BLOB:
        at = sqlite3_column_blob(s, index);
        *out = db_bytes((slice){at ? at : "", (size_t)sqlite3_column_bytes(s, index)});
        break;
    default:
        at = sqlite3_column_text(s, index);
        *out = db_text((slice){at ? at : "", (size_t)sqlite3_column_bytes(s, index)});
    }
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
    nodes_file_close(d->nodes);
    sqlite3_close(d->memory);
    pthread_mutex_destroy(&d->lock);
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
    return d->path ? PAWL_OK : error_set(err, PAWL_NOMEM, "out of memory");
}

static pawl_code open_file(sqlite_db *d, const char *path, error *err)
{
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
        return error_set(err, PAWL_NOMEM, "out of memory");
    d->base.driver = path ? &DRIVER_FILE : &DRIVER_MEMORY;
    d->base.options = *options;
    d->relaxed = relaxed;
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

nodes_file *db_sqlite_nodes(db *base)
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
    .listen = listen, .heard = heard, .notify = notify, .nodes = db_sqlite_nodes,                  \
    .native = native, .borrow = borrow, .lend = sqlite_lend, .take_back = sqlite_take_back

static const db_driver DRIVER_FILE = {.name = "sqlite",
                                      .promises =
                                          DB_DURABLE | DB_ISOLATED | DB_SHARED | DB_FILE | DB_TURNS,
                                      FUNCTIONS};
static const db_driver DRIVER_MEMORY = {.name = "memory", .promises = DB_TURNS, FUNCTIONS};
