/* A node that stops in the midst of sending a transaction holds its row locked, and the server
 * waits for the rest of the trip without any time-out. Other nodes must be able to close it all the
 * same; otherwise no node ever takes over its runs (A1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <stdio.h>

#include "rows/node.h"
#include "support/conf.h"
#include "support/pgserver.h"

/* Long enough for a busy machine; an eviction waits for no part of it. */
enum { CLAIM_MS = 20000 };

/* A session in the midst of a trip: the lock is taken, the rest never comes. */
static PGconn *stop_in_the_midst(const conf *c, int64_t id)
{
    char url[PGSERVER_URL], sql[128];
    pgserver_url(c->server, c->database, url);
    PGconn *n = PQconnectdb(url);
    assert_int_equal(PQstatus(n), CONNECTION_OK);
    assert_true(PQenterPipelineMode(n));
    snprintf(sql, sizeof sql, "SELECT 1 FROM pawl.nodes WHERE node = %lld AND slot = 1 FOR SHARE",
             (long long)id);
    assert_true(PQsendQueryParams(n, "BEGIN", 0, NULL, NULL, NULL, NULL, 0));
    assert_true(PQsendQueryParams(n, sql, 0, NULL, NULL, NULL, NULL, 0));
    assert_true(PQsendFlushRequest(n));
    assert_int_equal(PQflush(n), 0);
    PGresult *r = PQgetResult(n); /* of BEGIN, its end, and the row: the lock is there */
    PQclear(r);
    assert_null(PQgetResult(n));
    r = PQgetResult(n);
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    assert_int_equal(PQntuples(r), 1);
    PQclear(r);
    return n;
}

static void a_node_that_stops_in_the_midst_of_sending_is_shut_out(conf *c)
{
    db *d = conf_open(c, &(db_options){.claim_ms = CLAIM_MS});
    committer *k = conf_committer(d, NULL);
    db_conn *own = conf_connect(d, DB_COMMITTER);
    db_clock clock;
    db_clock_init(&clock, d);
    error err = {0};
    CONF_OK(db_clock_measure(&clock, own, &err), &err);
    node n = {0};
    TMP_AWAIT(node_join(&n, k, own, &clock, &(node_options){.slots = 1}, &err) == PAWL_OK);
    PGconn *stuck = stop_in_the_midst(c, n.id);
    TMP_AWAIT(node_close(k, n.id, &err) == PAWL_OK); /* on a busy machine not at the first try */
    PQfinish(stuck);
    node_leave(&n);
    db_clock_free(&clock);
    db_disconnect(own);
    committer_close(k);
    db_close(d);
}

static const conf_case CASES[] = {
    {"a node that stops in the midst of sending is shut out",
     a_node_that_stops_in_the_midst_of_sending_is_shut_out, 0},
};

int main(void)
{
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
