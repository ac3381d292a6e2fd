/* The fixture for pawl_transact() (type `shop`): an application with a table of its own, for tests
 * of steps in its transactions.
 *
 * It has a table of orders that pawl knows nothing of. Its function takes an order: it writes a row
 * through the connection that it is given, and then does what it should not, as often as the test
 * wants it to. */
#ifndef SUPPORT_TRANSACT_FIXTURE_H
#define SUPPORT_TRANSACT_FIXTURE_H

#include <sqlite3.h>

#include "support/engine_fixture.h"

typedef enum {
    SHOP_FAILS,
    SHOP_FAILS_FOR_GOOD,
    SHOP_GIVES_NULL,
    SHOP_GIVES_NO_JSON,
    SHOP_COMMITS,
    SHOP_ROLLS_BACK,
    SHOP_BEGINS_ANEW,
    SHOP_LEAVES_OPEN,
    SHOP_CALLS_THIS,
    SHOP_CALLS_ANOTHER,
    SHOP_CALLS_THE_RUN,
    SHOP_OPENS,
    SHOP_IS_LATE,
    SHOP_BREAKS_A_RULE,
    SHOP_DIES,
    SHOP_LOSES_THE_COMMIT,
    SHOP_WAITS,
} shop_way;

typedef struct shop {
    const conf *conf;
    stage *stage;
    pawl *engine;
    pawl *other;
    sqlite3 *memory; /* the only handle of a database in memory */
    pawl_run *run;
    shop_way way;
    _Atomic int64_t times; /* so many attempts go that way, then all is well */
    int64_t attempts;
    int64_t attempt_ms;
    pawl_code answered; /* by pawl, where it should not have been called */
    db_fault plan;
    atomic_int calls;
    atomic_int waits;
    sqlite3_stmt *open;
} shop;

/* An engine driven by hand, and the tables; and the end of both. */
void shop_open(shop *s, const conf *c);
void shop_close(shop *s);

/* One more engine, with the workflow "ordering": shop_ordering(). */
pawl *shop_open_engine(shop *s, int threads);
void shop_make_tables(const shop *s);

/* For engines that the test opens itself. */
int shop_on_connect(void *native, void *arg);

/* SQL on a connection of the shop's own; the number that it gives, if it does. */
int64_t shop_do(const shop *s, const char *sql, int gives);
int64_t shop_orders(const shop *s);

/* Work and workflow; their arg is the shop, the input is the number of the order. The value is that
 * of the attempt. */
const char *shop_take_order(pawl_work *work, void *native, const char *input);
const char *shop_ordering(pawl_run *run, const char *input);

#endif
