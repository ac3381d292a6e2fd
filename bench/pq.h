/* libpq, as a benchmark uses it: every call works, or ends the process with a message.
 *
 * For the floor and for looking after the private server. What is measured of pawl goes through
 * pawl's own driver and never through here. */
#ifndef BENCH_PQ_H
#define BENCH_PQ_H

#include <libpq-fe.h>
#include <stdint.h>

PGconn *pq_open(const char *url);
void pq_close(PGconn *conn);

/* Ends the process unless the result is one of success; gives it back. */
PGresult *pq_check(PGconn *conn, PGresult *result, const char *doing);

/* Commands without parameters whose rows do not matter. */
void pq_run(PGconn *conn, const char *sql);

/* The first column of the first row, as a number. */
int64_t pq_number(PGconn *conn, const char *sql);

/* A statement by that name, prepared. */
void pq_prepare(PGconn *conn, const char *name, const char *sql);

/* Numbers as they travel in binary format. */
int64_t pq_int64(const char *from);
void pq_put_int64(char *to, int64_t value);
void pq_put_int32(char *to, int32_t value);

#endif
