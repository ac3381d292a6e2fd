/* SQLite and libpq as an application uses them. The application waits long for locks (30 s on
 * SQLite, without limit on PostgreSQL), since the tests are about what pawl does meanwhile. */
#include "support/app.h"

#include <libpq-fe.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct app {
    sqlite3 *file;
    PGconn *server;
};

static _Noreturn void abort_with(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    abort();
}

static void open_file(app *a, const char *url)
{
    const char *path = strncmp(url, "sqlite:", 7) == 0 ? url + 7 : url;
    if (sqlite3_open(path, &a->file) != SQLITE_OK)
        abort_with(url, sqlite3_errmsg(a->file));
    sqlite3_busy_timeout(a->file, 30000);
}

app *app_open_url(const conf *c, const char *url)
{
    app *a = calloc(1, sizeof *a);
    if (!a)
        abort();
    if (strcmp(c->backend, "postgres") != 0) {
        open_file(a, url);
        return a;
    }
    a->server = PQconnectdb(url);
    if (PQstatus(a->server) != CONNECTION_OK)
        abort_with("connecting", PQerrorMessage(a->server));
    return a;
}

app *app_open(const conf *c)
{
    return app_open_url(c, c->url);
}

void app_close(app *a)
{
    if (a->file && sqlite3_close(a->file) != SQLITE_OK)
        abort_with("closing", "a statement was left open");
    PQfinish(a->server);
    free(a);
}

void *app_native(app *a)
{
    return a->file ? (void *)a->file : (void *)a->server;
}

/* A callback of sqlite3_exec(), called for each row: keeps the number in the first column. */
static int read_number(void *arg, int count, char **values, char **names)
{
    int64_t *out = arg;
    (void)names;
    if (count > 0 && values[0])
        *out = strtoll(values[0], NULL, 10);
    return 0;
}

static int exec_sql(app *a, const char *sql, int64_t *out)
{
    if (a->file)
        return sqlite3_exec(a->file, sql, read_number, out, NULL) == SQLITE_OK;
    PGresult *r = PQexec(a->server, sql);
    ExecStatusType status = PQresultStatus(r);
    if (status == PGRES_TUPLES_OK && PQntuples(r) > 0)
        *out = strtoll(PQgetvalue(r, 0, 0), NULL, 10);
    PQclear(r);
    return status == PGRES_TUPLES_OK || status == PGRES_COMMAND_OK;
}

int app_try(app *a, const char *sql)
{
    int64_t ignored;
    return exec_sql(a, sql, &ignored);
}

int64_t app_number(app *a, const char *sql)
{
    int64_t out = INT64_MIN;
    if (!exec_sql(a, sql, &out) || out == INT64_MIN)
        abort_with(sql, a->file ? sqlite3_errmsg(a->file) : PQerrorMessage(a->server));
    return out;
}

void app_do(app *a, const char *sql)
{
    if (!app_try(a, sql))
        abort_with(sql, a->file ? sqlite3_errmsg(a->file) : PQerrorMessage(a->server));
}
