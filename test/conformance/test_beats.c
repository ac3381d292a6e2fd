/* The heartbeat of a node whose row says that it is closed: by another node, or by SQL of the
 * application. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "rows/node.h"
#include "support/conf.h"

static const db_sql CLOSE = {"UPDATE {nodes} SET closed = 1 WHERE node = $1", "i"};
static const db_sql AT = {"SELECT at FROM {beats} WHERE node = $1", "i"};

/* A heartbeat looks at the row of its node first: a node that was closed says nothing, also where
 * its last heartbeat was left behind. */
static void a_heartbeat_reads_the_row_of_its_node_first(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    db_conn *conn = conf_connect(d, DB_COMMITTER);
    db_clock clock;
    node n;
    error err = {0};
    db_clock_init(&clock, d);
    CONF_OK(node_join(&n, k, conn, &clock, &(node_options){.slots = 1}, &err), &err);
    CONF_OK(node_beat(&n, conn, &err), &err);
    const db_value id = db_int(n.id);
    int64_t at = n.file ? 0 : conf_number(d, &AT, &id, 1);
    conf_do(d, &CLOSE, &id, 1);
    assert_int_equal(node_beat(&n, conn, &err), n.file ? PAWL_OK : PAWL_FENCED);
    if (!n.file)
        assert_int_equal(conf_number(d, &AT, &id, 1), at);
    node_leave(&n);
    db_disconnect(conn);
    committer_close(k);
    db_clock_free(&clock);
    db_close(d);
}

static const conf_case CASES[] = {
    {"a heartbeat reads the row of its node first", a_heartbeat_reads_the_row_of_its_node_first, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
