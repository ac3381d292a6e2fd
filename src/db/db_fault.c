/* The driver that breaks another one on purpose. Every call that can fail passes `strike()`,
 * which counts it and asks the plan; everything else goes straight through. */
#include "db/db_fault.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/batch.h"

typedef struct fault_db {
    db base;
    db_driver driver; /* the wrapper's own functions, with the inner driver's names and promises */
    db *inner;
    db_fault *plan;
} fault_db;

typedef struct fault_conn {
    db_conn base;
    db_conn *inner;
    int64_t unknown; /* how often settle() is still to answer DB_FATE_UNKNOWN */
    int late;        /* 1: the commit whose answer was lost is not carried out yet (lose_late) */
    db_fate fate;    /* of the commit whose answer was lost; UNKNOWN: no answer was lost on
                        purpose */
} fault_conn;

typedef struct fault_stmt {
    db_stmt base;
    db_stmt *inner;
} fault_stmt;

static fault_conn *conn_of(db_conn *c)
{
    return (fault_conn *)c;
}

static db_fault *plan_of(db_conn *c)
{
    return ((fault_db *)c->db)->plan;
}

/* ---- Striking ---- */

/* Let the call fail. Gives the code. */
static pawl_code fail(db_conn *c, fault_call call, int64_t number, error *err)
{
    const db_fault *plan = plan_of(c);
    pawl_code code = plan->fail_code ? plan->fail_code : PAWL_STORAGE;
    error_set(err, code, "a fault on purpose: %s", pawl_code_text(code));
    error_detail(err, "call %lld", (long long)number);
    if (plan->fail_ends && call != FAULT_CALL_BEGIN) {
        db_conn *inner = conn_of(c)->inner;
        inner->driver->rollback(inner);
    }
    return code;
}

/* Counts the call. PAWL_OK: it goes on; any other code: it fails with that. */
static pawl_code strike(db_conn *c, fault_call call, const char *sql, error *err)
{
    db_fault *plan = plan_of(c);
    int64_t number = ++plan->calls;
    if (plan->before)
        plan->before(plan->before_arg, number, call, sql);
    if (plan->dead)
        return error_set(err, PAWL_CORRUPT, "a fault on purpose: the process counts as dead");
    return number == plan->fail_call ? fail(c, call, number, err) : PAWL_OK;
}

static void die(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* ---- Connections and transactions ---- */

static void close_db(db *base)
{
    fault_db *d = (fault_db *)base;
    d->inner->driver->close(d->inner);
    free(d);
}

static pawl_code connect(db *base, db_role role, db_conn **out, error *err)
{
    fault_db *d = (fault_db *)base;
    *out = NULL;
    fault_conn *c = calloc(1, sizeof *c);
    if (!c)
        return error_nomem(err);
    c->base = (db_conn){.driver = base->driver, .db = base, .role = role};
    d->inner->options.by_hand = base->options.by_hand;
    pawl_code rc = d->inner->driver->connect(d->inner, role, &c->inner, err);
    if (rc != PAWL_OK) {
        free(c);
        return rc;
    }
    *out = &c->base;
    return PAWL_OK;
}

static void disconnect(db_conn *c)
{
    if (conn_of(c)->late) {
        plan_of(c)->late = NULL;
        db_rollback(conn_of(c)->inner);
    }
    db_disconnect(conn_of(c)->inner);
    free(c);
}

static void rollback(db_conn *c)
{
    db_rollback(conn_of(c)->inner);
}

static int in_transaction(db_conn *c)
{
    db_conn *inner = conn_of(c)->inner;
    return inner->driver->in_transaction(inner);
}

/* Commits or rolls back the transaction whose answer was lost, as the plan says (lose_happened). */
static void carry_out(fault_conn *c)
{
    c->late = 0;
    plan_of(&c->base)->late = NULL;
    c->inner->appended = c->base.appended;
    if (c->fate != DB_FATE_COMMITTED)
        db_rollback(c->inner);
    else if (db_commit(c->inner, NULL) != PAWL_OK)
        c->fate = DB_FATE_LOST;
}

/* A caller that begins without having settled its last commit will never learn its fate. */
static pawl_code begin(db_conn *base, error *err)
{
    fault_conn *c = conn_of(base);
    c->inner->node = base->node;
    c->inner->slot = base->slot;
    c->inner->token = base->token;
    if (c->late && !plan_of(base)->dead)
        carry_out(c);
    pawl_code rc = strike(base, FAULT_CALL_BEGIN, "BEGIN", err);
    if (rc != PAWL_OK)
        return rc;
    c->fate = DB_FATE_UNKNOWN;
    base->appended = (db_append){.run = 0};
    return db_begin(c->inner, err);
}

/* A commit whose answer is lost: it happened or not, and the caller does not hear which. */
static pawl_code lose(fault_conn *c, int happened, pawl_code code, error *err)
{
    db_fault *plan = plan_of(&c->base);
    c->unknown = plan->unknown_times;
    c->fate = happened ? DB_FATE_COMMITTED : DB_FATE_LOST;
    c->late = plan->lose_late && !plan->dead;
    if (c->late)
        plan->late = &c->base;
    else
        carry_out(c);
    return error_set(err, code, "the answer of a commit was lost on purpose");
}

void db_fault_land(db_fault *plan)
{
    if (plan->late)
        carry_out(conn_of(plan->late));
}

static pawl_code commit(db_conn *base, error *err)
{
    fault_conn *c = conn_of(base);
    db_fault *plan = plan_of(base);
    int64_t number = ++plan->commits;
    pawl_code rc = strike(base, FAULT_CALL_COMMIT, "COMMIT", err);
    if ((rc == PAWL_BUSY || rc == PAWL_DATA) && in_transaction(base))
        return rc;
    if (rc != PAWL_OK)
        return lose(c, 0, rc == PAWL_BUSY || rc == PAWL_DATA ? PAWL_STORAGE : rc, err);
    if (number == plan->die_before)
        die();
    if (number == plan->lose_commit)
        return lose(c, plan->lose_happened, PAWL_IO, err);
    c->inner->appended = base->appended;
    rc = db_commit(c->inner, err);
    if (number == plan->die_after)
        die();
    return rc;
}

static db_fate settle(db_conn *base, error *err)
{
    fault_conn *c = conn_of(base);
    if (strike(base, FAULT_CALL_SETTLE, "SETTLE", err) != PAWL_OK)
        return DB_FATE_UNKNOWN;
    if (c->fate == DB_FATE_UNKNOWN)
        return c->inner->driver->settle(c->inner, err);
    if (c->unknown > 0) {
        c->unknown--;
        return DB_FATE_UNKNOWN;
    }
    if (c->late)
        carry_out(c);
    db_fate fate = c->fate;
    c->fate = DB_FATE_UNKNOWN;
    return fate;
}

/* ---- Statements ---- */

static db_stmt *inner_of(db_stmt *s)
{
    return ((fault_stmt *)s)->inner;
}

static pawl_code prepare(db_conn *base, const db_sql *sql, const char *text, db_stmt **out,
                         error *err)
{
    fault_conn *c = conn_of(base);
    pawl_code rc = strike(base, FAULT_CALL_PREPARE, text, err);
    if (rc != PAWL_OK)
        return rc;
    fault_stmt *s = calloc(1, sizeof *s);
    if (!s)
        return error_nomem(err);
    s->base = (db_stmt){base, sql};
    rc = c->inner->driver->prepare(c->inner, sql, text, &s->inner, err);
    if (rc != PAWL_OK) {
        free(s);
        return rc;
    }
    *out = &s->base;
    return PAWL_OK;
}

static void finalize(db_stmt *s)
{
    db_stmt *inner = inner_of(s);
    inner->conn->driver->finalize(inner);
    free(s);
}

static pawl_code bind(db_stmt *s, int index, const db_value *value, error *err)
{
    pawl_code rc = strike(s->conn, FAULT_CALL_BIND, s->sql->text, err);
    db_stmt *inner = inner_of(s);
    return rc == PAWL_OK ? inner->conn->driver->bind(inner, index, value, err) : rc;
}

static db_step next(db_stmt *s, error *err)
{
    if (strike(s->conn, FAULT_CALL_NEXT, s->sql->text, err) != PAWL_OK)
        return DB_FAILED;
    const db_fault *plan = plan_of(s->conn);
    db_stmt *inner = inner_of(s);
    db_step step = db_next(inner, err);
    if (step != DB_ROW || !plan->bad_rows || !strstr(s->sql->text, plan->bad_rows) ||
        db_column(inner, 0).i != plan->bad_run)
        return step;
    db_reset(inner);
    (void)fail(s->conn, FAULT_CALL_NEXT, plan->calls, err);
    return DB_FAILED;
}

static int columns(db_stmt *s)
{
    db_stmt *inner = inner_of(s);
    return inner->conn->driver->columns(inner);
}

static void column(db_stmt *s, int index, db_value *out)
{
    *out = db_column(inner_of(s), index);
}

static void reset(db_stmt *s)
{
    db_reset(inner_of(s));
}

static pawl_code script(db_conn *c, const char *text, error *err)
{
    pawl_code rc = strike(c, FAULT_CALL_SCRIPT, text, err);
    db_conn *inner = conn_of(c)->inner;
    return rc == PAWL_OK ? inner->driver->script(inner, text, err) : rc;
}

static void between(db_conn *c)
{
    db_conn *inner = conn_of(c)->inner;
    inner->driver->between(inner);
}

static pawl_code now_ms(db_conn *c, int64_t *out, error *err)
{
    db_conn *inner = conn_of(c)->inner;
    clock_source *clock = plan_of(c)->clock;
    if (!clock)
        return inner->driver->now_ms(inner, out, err);
    *out = clock->now_ms(clock);
    return PAWL_OK;
}

static pawl_code now_us(db_conn *c, int64_t *out, error *err)
{
    db_conn *inner = conn_of(c)->inner;
    clock_source *clock = plan_of(c)->clock;
    if (!clock && inner->driver->now_us)
        return inner->driver->now_us(inner, out, err);
    pawl_code rc = now_ms(c, out, err);
    *out *= 1000;
    return rc;
}

static void evict(db_conn *c, int64_t node)
{
    db_conn *inner = conn_of(c)->inner;
    if (inner->driver->evict)
        inner->driver->evict(inner, node);
}

static pawl_code listen(db_conn *c, int64_t node, int *fd, error *err)
{
    db_conn *inner = conn_of(c)->inner;
    return inner->driver->channel.listen(inner, node, fd, err);
}

static int heard(db_conn *c)
{
    db_conn *inner = conn_of(c)->inner;
    return inner->driver->channel.heard(inner);
}

static pawl_code notify(db_conn *c, const int64_t *targets, size_t count, error *err)
{
    db_conn *inner = conn_of(c)->inner;
    return inner->driver->channel.notify(inner, targets, count, err);
}

static pawl_code lock_for_life(db_conn *c, int64_t node, int64_t *server, error *err)
{
    db_conn *inner = conn_of(c)->inner;
    return inner->driver->channel.lock_for_life(inner, node, server, err);
}

static struct liveness_file *nodes(db *base)
{
    return base->driver->promises & DB_FILE ? db_nodes(((fault_db *)base)->inner) : NULL;
}

static pawl_code prove(db_conn *c, error *err)
{
    db_conn *inner = conn_of(c)->inner;
    return inner->driver->prove(inner, err);
}

static void *native(db_conn *c)
{
    db_conn *inner = conn_of(c)->inner;
    return inner->driver->native(inner);
}

static pawl_code lend(db_conn *c, void **native, error *err)
{
    db_conn *inner = conn_of(c)->inner;
    return inner->driver->guests.lend(inner, native, err);
}

static pawl_code take_back(db_conn *c, error *err)
{
    db_conn *inner = conn_of(c)->inner;
    return inner->driver->guests.take_back(inner, err);
}

/* No faults are injected into connections of the application. */
static pawl_code borrow(db *base, void *native, db_conn **out, error *err)
{
    db *inner = ((fault_db *)base)->inner;
    return inner->driver->guests.borrow(inner, native, out, err);
}

db *db_fault_wrap(db *inner, db_fault *plan)
{
    fault_db *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->driver = (db_driver){
        .name = inner->driver->name,
        .table_prefix = inner->driver->table_prefix,
        .macros = inner->driver->macros,
        .promises = inner->driver->promises & ~(plan->no_file ? (unsigned)DB_FILE : 0),
        .close = close_db,
        .connect = connect,
        .disconnect = disconnect,
        .begin = begin,
        .commit = commit,
        .rollback = rollback,
        .in_transaction = in_transaction,
        .settle = settle,
        .prepare = prepare,
        .finalize = finalize,
        .bind = bind,
        .next = next,
        .columns = columns,
        .column = column,
        .reset = reset,
        .script = script,
        .between = between,
        .apply = batch_apply,
        .now_ms = now_ms,
        .now_us = now_us,
        .evict = evict,
        .channel.listen = listen,
        .channel.heard = heard,
        .channel.notify = notify,
        .channel.lock_for_life = inner->driver->channel.lock_for_life ? lock_for_life : NULL,
        .nodes = nodes,
        .prove = inner->driver->prove ? prove : NULL,
        .native = native,
        .guests.borrow = borrow,
        .guests.lend = lend,
        .guests.take_back = take_back,
    };
    d->base = (db){.driver = &d->driver, .options = inner->options, .world = inner->world};
    d->inner = inner;
    d->plan = plan;
    return &d->base;
}
