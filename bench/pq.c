/* libpq, as a benchmark uses it. Its answers are checked in one place, so that the loops that are
 * timed stay as bare as they look. */
#include "pq.h"

#include <stdlib.h>

#include "common.h"

/* "does not exist, skipping" and the like. */
static void notice_drop(void *arg, const char *message)
{
    (void)arg;
    (void)message;
}

PGconn *pq_open(const char *url)
{
    PGconn *conn = PQconnectdb(url);
    if (!conn || PQstatus(conn) != CONNECTION_OK)
        bench_die("cannot connect: %s", conn ? PQerrorMessage(conn) : "out of memory");
    PQsetNoticeProcessor(conn, notice_drop, NULL);
    return conn;
}

void pq_close(PGconn *conn)
{
    PQfinish(conn);
}

PGresult *pq_check(PGconn *conn, PGresult *result, const char *doing)
{
    switch (PQresultStatus(result)) {
    case PGRES_COMMAND_OK:
    case PGRES_TUPLES_OK:
    case PGRES_SINGLE_TUPLE:
    case PGRES_PIPELINE_SYNC:
    case PGRES_COPY_IN:
    case PGRES_COPY_OUT:
        return result;
    default:
        bench_die("%s: %s", doing, PQerrorMessage(conn));
    }
}

void pq_run(PGconn *conn, const char *sql)
{
    PQclear(pq_check(conn, PQexec(conn, sql), sql));
}

int64_t pq_number(PGconn *conn, const char *sql)
{
    PGresult *result = pq_check(conn, PQexec(conn, sql), sql);
    if (PQntuples(result) < 1)
        bench_die("%s: no row", sql);
    int64_t value = strtoll(PQgetvalue(result, 0, 0), NULL, 10);
    PQclear(result);
    return value;
}

void pq_prepare(PGconn *conn, const char *name, const char *sql)
{
    PQclear(pq_check(conn, PQprepare(conn, name, sql, 0, NULL), sql));
}

int64_t pq_int64(const char *from)
{
    uint64_t value = 0;
    for (int i = 0; i < 8; i++)
        value = value << 8 | (unsigned char)from[i];
    return (int64_t)value;
}

void pq_put_int64(char *to, int64_t value)
{
    for (int i = 7; i >= 0; i--, value >>= 8)
        to[i] = (char)(value & 0xff);
}

void pq_put_int32(char *to, int32_t value)
{
    for (int i = 3; i >= 0; i--, value >>= 8)
        to[i] = (char)(value & 0xff);
}
