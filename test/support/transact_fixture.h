/* The fixture for pawl_transact(): an application with a table of its own, for tests of steps in
 * its transactions.
 *
 * The table of orders is unknown to pawl. The application's function takes an order: it writes a
 * row through the connection that it is given, and then misbehaves in the way that the test has
 * chosen, as often as the test wants it to. */
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
    sqlite3 *memory; /* the only handle of a database in memory */
    pawl_run *run;
    order_way way;
    _Atomic int64_t times; /* so many attempts go that way, then all is well */
    int64_t attempts;
    int64_t attempt_ms;
    pawl_code answered; /* by pawl, where it should not have been called */
    db_fault plan;
    atomic_int calls;
    atomic_int waits;
    sqlite3_stmt *open;
} transact_fixture;

/* Open an engine driven by hand, and make the tables; close both. */
void transact_fixture_open(transact_fixture *s, const conf *c);
void transact_fixture_close(transact_fixture *s);

/* One more engine, with the workflow "ordering": transact_fixture_ordering(). */
pawl *transact_fixture_open_engine(transact_fixture *s, int threads);
void transact_fixture_make_tables(const transact_fixture *s);

/* For engines that the test opens itself. */
int transact_fixture_on_connect(void *native, void *arg);

/* Run SQL on a connection of the application's own. `gives`: it gives a number. */
int64_t transact_fixture_exec(const transact_fixture *s, const char *sql, int gives);
int64_t transact_fixture_orders(const transact_fixture *s);

/* Work function and workflow. Their arg is the fixture, the input is the number of the order, and
 * the value is the number of the attempt. */
const char *transact_fixture_take_order(pawl_work *work, void *native, const char *input);
const char *transact_fixture_ordering(pawl_run *run, const char *input);

#endif
