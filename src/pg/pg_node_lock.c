/* The lock by which the server tells that a node has died: a shared advisory lock of the session
 * with which the node listens, held as long as that session lasts. The server frees it within
 * milliseconds after a process was killed.
 *
 * The lock is shared, because a session that is gone for the node may go on at the server: its lock
 * is not in the way of the node's next session. It is tried, never waited for: a session that waits
 * for a lock keeps the server from removing old rows. */
#include <stdlib.h>

#include "pg/pg.h"

/* Servers before 14 have no such setting. */
/* RULE A1-an-idle-session-keeps-its-lock */
static const char STAY[] = "SELECT set_config(name, '0', false) FROM pg_settings"
                           " WHERE name = 'idle_session_timeout'";

/* If the session is not the process that was connected to, a pooler shares it with other clients,
 * and the lock would outlive the node, or be lost while the node lives. */
static const char LOCK[] =
    "SELECT " PG_SERVER_STARTED ", pg_try_advisory_lock_shared(number::int, ($1::text)::int)::int"
    " FROM pawl.meta WHERE name = 'lock_class' AND pg_backend_pid() = ($2::text)::int";

static void add_number(pg_params *p, char text[24], int64_t number)
{
    buf b;
    buf_init_fixed(&b, text, 24);
    buf_printf(&b, "%lld", (long long)number);
    db_value v = db_text((slice){text, b.size});
    pg_param(p, &v);
}

pawl_code pg_lock_for_life(db_conn *base, int64_t node, int64_t *server, error *err)
{
    pg_conn *c = (pg_conn *)base;
    error own = {0};
    err = err ? err : &own;
    *server = 0;
    if (pg_db_of(c)->pooler || node > INT32_MAX)
        return PAWL_OK;
    PGresult *r = pg_once(c, STAY, NULL, err);
    PQclear(r);
    if (!r)
        return err->code;
    pg_params p = {0};
    char id[24], pid[24];
    add_number(&p, id, node);
    add_number(&p, pid, PQbackendPID(c->native));
    r = pg_once(c, LOCK, &p, err);
    if (!r)
        return err->code;
    if (PQntuples(r) == 1 && PQgetvalue(r, 0, 1)[0] == '1')
        *server = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return PAWL_OK;
}
