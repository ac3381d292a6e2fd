/* The fixture for pawl_transact(): an application with a table of its own, for tests of steps
 * inside its transactions.
 *
 * The application's table of orders is unknown to pawl. The function of the step takes an order: it
 * writes a row through the connection that it gets, and then misbehaves in the way that the test
 * has chosen, in as many attempts as the test has chosen. */
#ifndef SUPPORT_TRANSACT_FIXTURE_H
#define SUPPORT_TRANSACT_FIXTURE_H

#include <sqlite3.h>

#include "support/engine_fixture.h"

typedef enum {
    ORDER_FAILS,
    ORDER_FAILS_FOR_GOOD,
    ORDER_GIVES_NULL,
    ORDER_GIVES_NO_JSON,
    ORDER_COMMITS,
    ORDER_ROLLS_BACK,
    ORDER_BEGINS_ANEW,
    ORDER_LEAVES_OPEN,
    ORDER_CALLS_THIS,
    ORDER_CALLS_ANOTHER,
    ORDER_CALLS_THE_RUN,
    ORDER_OPENS,
    ORDER_IS_LATE,
    ORDER_BREAKS_A_RULE,
    ORDER_DIES,
    ORDER_LOSES_THE_COMMIT,
    ORDER_WAITS,
} order_way;

typedef struct transact_fixture {
    const conf *conf;
    engine_fixture *fixture;
    pawl *engine;
    pawl *other;
    sqlite3 *memory; /* of a database in memory: its only connection */
    pawl_run *run;
    order_way way;
    _Atomic int64_t times; /* number of attempts that misbehave; later ones succeed */
    int64_t attempts;
    int64_t attempt_ms;
    pawl_code answered; /* the answer of the last call of pawl that was forbidden where it was
                           made */
    db_fault plan;
    atomic_int calls;
    atomic_int waits;
    sqlite3_stmt *open;
} transact_fixture;

/* transact_fixture_open() opens an engine that is driven by hand, and makes the tables.
 * transact_fixture_close() closes what the fixture has open. */
void transact_fixture_open(transact_fixture *s, const conf *c);
void transact_fixture_close(transact_fixture *s);

/* transact_fixture_open_engine() opens another engine, with the workflow "ordering", which is
 * transact_fixture_ordering(). transact_fixture_make_tables() makes the application's tables. */
pawl *transact_fixture_open_engine(transact_fixture *s, int threads);
void transact_fixture_make_tables(const transact_fixture *s);

/* The on_connect() of engines that the test opens by itself. */
int transact_fixture_on_connect(void *native, void *arg);

/* Runs SQL on a connection of the application. With `gives` 1, returns the number that the SQL
 * selects. */
int64_t transact_fixture_exec(const transact_fixture *s, const char *sql, int gives);
int64_t transact_fixture_orders(const transact_fixture *s);

/* The function of the step, and the workflow. The arg of both is the fixture, the input is the
 * number of the order, and the value is the number of the attempt. */
const char *transact_fixture_take_order(pawl_work *work, void *native, const char *input);
const char *transact_fixture_ordering(pawl_run *run, const char *input);

#endif
