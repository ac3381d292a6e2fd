/* A pgbouncer (a connection pooler) that a test starts for itself, in transaction mode, before a
 * PostgreSQL server.
 *
 * With such a pooler two transactions of a client may run in two sessions of the server: what a
 * session keeps (settings, prepared statements, advisory locks, LISTEN) may be missing, or be that
 * of another client. Uses cmocka's assertions. */
#ifndef SUPPORT_PGBOUNCER_H
#define SUPPORT_PGBOUNCER_H

#include "support/pgserver.h"

typedef struct pgbouncer pgbouncer;

/* Skips the test that is running unless pgbouncer is installed; with PAWL_TEST_NEED_PG=1 the test
 * fails instead. */
void pgbouncer_need(void);

/* Starts a pooler, and returns it when it accepts connections. `settings` is a list of "name =
 * value" that ends with NULL; they override the settings that it has otherwise. NULL: no others.
 * The server must outlive the pooler. */
pgbouncer *pgbouncer_start(const pgserver *s, const char *const *settings);
void pgbouncer_free(pgbouncer *b); /* NULL is allowed */

/* Writes the URL of a database of the server, by way of the pooler. */
void pgbouncer_url(const pgbouncer *b, const char *database, char out[PGSERVER_URL]);

/* Return the folder of the pooler's Unix socket, and its port, for proxy_start_at(). */
const char *pgbouncer_dir(const pgbouncer *b);
int pgbouncer_port(const pgbouncer *b);

/* Returns 1 if the pooler's log has this text. */
int pgbouncer_log_has(const pgbouncer *b, const char *text);

#endif
