/* Notifications by LISTEN and NOTIFY, on a connection that does nothing else.
 *
 * A transaction that notifies takes a lock of the whole server until its flush has ended, so that
 * commits with NOTIFY are serialised. So it is never part of a unit's transaction: the notifier
 * (db/notifier.h) sends what has accumulated in a few milliseconds as one small transaction of its
 * own, which writes nothing and need not be flushed.
 *
 * Each node has a channel, pawl_<node>, and listens to the one for all nodes too, pawl_0. The
 * server drops a LISTEN when the connection breaks; so this connection is not reopened silently,
 * but by the notifier, which listens again. Behind a pooler LISTEN does not work, since the session
 * is shared; NOTIFY does. */
#include "pg/pg.h"

static const char NOTIFY[] =
    "SELECT pg_catalog.pg_notify('pawl_' OPERATOR(pg_catalog.||) node, '')"
    " FROM pg_catalog.unnest(pg_catalog.string_to_array($1::pg_catalog.text, ',')) AS node";

/* The name of a channel cannot be a parameter of the statement. It is made of a number, so it needs
 * no quoting. */
static pawl_code listen_to(pg_conn *c, int64_t node, error *err)
{
    char sql[64];
    buf b;
    buf_init_fixed(&b, sql, sizeof sql);
    buf_printf(&b, "LISTEN \"pawl_%lld\"", (long long)node);
    PGresult *r = pg_once(c, sql, NULL, err);
    PQclear(r);
    return r ? PAWL_OK : err->code;
}

pawl_code pg_listen(db_conn *base, int64_t node, int *fd, error *err)
{
    pg_conn *c = (pg_conn *)base;
    error own = {0};
    err = err ? err : &own;
    *fd = -1;
    pawl_code rc = pg_ensure(c, err);
    if (rc != PAWL_OK || pg_db_of(c)->pooler)
        return rc;
    rc = listen_to(c, 0, err);
    if (rc == PAWL_OK && node != 0)
        rc = listen_to(c, node, err);
    if (rc == PAWL_OK)
        *fd = PQsocket(c->native);
    return rc;
}

/* Notifications that this connection has sent itself do not count. */
int pg_heard(db_conn *base)
{
    pg_conn *c = (pg_conn *)base;
    int heard = 0;
    if (!c->native)
        return -1;
    int alive = PQconsumeInput(c->native);
    PGnotify *n;
    while ((n = PQnotifies(c->native)) != NULL) {
        heard |= n->be_pid != PQbackendPID(c->native);
        PQfreemem(n);
    }
    return alive && PQstatus(c->native) == CONNECTION_OK ? heard : -1;
}

pawl_code pg_notify(db_conn *base, const int64_t *targets, size_t count, error *err)
{
    pg_conn *c = (pg_conn *)base;
    error own = {0};
    err = err ? err : &own;
    if (pg_db_of(c)->pooler && pg_ensure(c, err) != PAWL_OK)
        return err->code;
    buf b;
    buf_init(&b, 21 * count + 1);
    for (size_t i = 0; i < count; i++)
        buf_printf(&b, "%s%lld", i ? "," : "", (long long)targets[i]);
    pg_params p = {0};
    db_value list = db_text(slice_of(buf_str(&b)));
    pg_param(&p, &list);
    PGresult *r = b.failed ? NULL : pg_once(c, NOTIFY, &p, err);
    pawl_code rc = r ? PAWL_OK : c->native ? err->code : PAWL_UNREACHABLE;
    if (b.failed)
        rc = error_nomem(err);
    buf_free(&b);
    PQclear(r);
    return rc;
}
