/* A pgbouncer of a test's own, in transaction mode, before a PostgreSQL server.
 *
 * With such a pooler two transactions of a client may run in two sessions of the server: what a
 * session keeps (settings, prepared statements, advisory locks, LISTEN) is not there any more, or
 * another client's. Uses cmocka's assertions. */
#ifndef SUPPORT_PGBOUNCER_H
#define SUPPORT_PGBOUNCER_H

#include "support/pgserver.h"

typedef struct pgbouncer pgbouncer;

/* Skip, or fail if PAWL_TEST_NEED_PG=1, the test that runs, unless pgbouncer is installed. */
void pgbouncer_need(void);

/* A pooler that answers. `settings`: "name = value", ends with NULL, stronger than the usual ones;
 * NULL: none. The server has to outlive it. */
pgbouncer *pgbouncer_start(const pgserver *s, const char *const *settings);
void pgbouncer_free(pgbouncer *b); /* NULL is allowed */

/* The URL of a database of the server, through the pooler. */
void pgbouncer_url(const pgbouncer *b, const char *database, char out[PGSERVER_URL]);

/* Where it listens, for proxy_start_at(). */
const char *pgbouncer_dir(const pgbouncer *b);
int pgbouncer_port(const pgbouncer *b);

/* 1 if its log has this text. */
int pgbouncer_log_has(const pgbouncer *b, const char *text);

#endif
