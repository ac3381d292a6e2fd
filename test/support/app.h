/* The application's own connection to the database of a test: a `sqlite3 *` or a `PGconn *`, made
 * without pawl. A function here that cannot do its work calls abort(3): that ends a child of the
 * test, and in the test's own process it fails the test. */
#ifndef SUPPORT_APP_H
#define SUPPORT_APP_H

#include "support/conf.h"

typedef struct app app;

/* Open a connection: to the database of the test, or to the one of this URL. */
app *app_open(const conf *c);
app *app_open_url(const conf *c, const char *url);
void app_close(app *a);

/* The connection as the argument `native` of pawl_start_in() and pawl_send_in(). */
void *app_native(app *a);

/* Run SQL without parameters. app_do() and app_number() abort when it fails; app_try() gives 1 if
 * it has succeeded, 0 if not. app_number() gives the number in the one row and column of the
 * result. */
void app_do(app *a, const char *sql);
int app_try(app *a, const char *sql);
int64_t app_number(app *a, const char *sql);

#endif
