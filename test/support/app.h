/* The application's own connection to the database of a test: a `sqlite3 *` or a `PGconn *`, made
 * without pawl. In a child of the test it ends that, otherwise the test, when it cannot do what it
 * is told. */
#ifndef SUPPORT_APP_H
#define SUPPORT_APP_H

#include "support/conf.h"

typedef struct app app;

/* On the database of the test, or of this URL. */
app *app_open(const conf *c);
app *app_open_url(const conf *c, const char *url);
void app_close(app *a);

/* What pawl_start_in() and its relatives take. */
void *app_native(app *a);

/* SQL without parameters. app_do(): it must succeed. app_try(): it may fail; 1: it has succeeded.
 * app_number(): it must give a number. */
void app_do(app *a, const char *sql);
int app_try(app *a, const char *sql);
int64_t app_number(app *a, const char *sql);

#endif
