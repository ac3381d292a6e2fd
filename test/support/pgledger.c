/* Reading journal and runs with libpq, with all values as text: this need not be fast. The rows of
 * the journal are counted twice, in the table and by a walk along its unique index, since the two
 * may differ after a recovery that went wrong. */
#include "support/pgledger.h"

#include <errno.h>
#include <libpq-fe.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/scratch.h"

static int64_t column_number(const PGresult *r, int row, int column)
{
    return strtoll(PQgetvalue(r, row, column), NULL, 10);
}

/* Returns the result; NULL: the query has failed, which counts as a fault. */
static PGresult *query_pg(ledger_reading *l, PGconn *c, const char *sql)
{
    PGresult *r = PQexec(c, sql);
    if (PQresultStatus(r) == PGRES_TUPLES_OK || PQresultStatus(r) == PGRES_COMMAND_OK)
        return r;
    ledger_read_broken(l, sql, PQerrorMessage(c));
    PQclear(r);
    return NULL;
}

static void exec_query(ledger_reading *l, PGconn *c, const char *sql)
{
    PQclear(query_pg(l, c, sql));
}

static void read_journal(ledger_reading *l, PGconn *c)
{
    PGresult *r = query_pg(l, c, "SELECT run, seq, at FROM pawl.journal ORDER BY run, seq");
    for (int i = 0; i < PQntuples(r); i++)
        ledger_read_row(l, column_number(r, i, 0), column_number(r, i, 1), column_number(r, i, 2));
    PQclear(r);
}

static void read_runs(ledger_reading *l, PGconn *c)
{
    PGresult *r = query_pg(l, c,
                           "SELECT run, claimed_seq, (SELECT count(*) FROM pawl.journal j"
                           " WHERE j.run = r.run) FROM pawl.runs r");
    for (int i = 0; i < PQntuples(r); i++)
        ledger_read_run(l, column_number(r, i, 0), column_number(r, i, 1), column_number(r, i, 2));
    PQclear(r);
}

static int64_t count_rows(ledger_reading *l, PGconn *c)
{
    PGresult *r = query_pg(l, c, "SELECT count(seq) FROM pawl.journal WHERE run > -1");
    int64_t n = PQntuples(r) > 0 ? column_number(r, 0, 0) : -1;
    PQclear(r);
    return n;
}

static void compare_index(ledger_reading *l, PGconn *c)
{
    exec_query(l, c,
               "SET LOCAL enable_indexscan = off; SET LOCAL enable_bitmapscan = off;"
               "SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_seqscan = on");
    int64_t by_table = count_rows(l, c);
    exec_query(l, c, "SET LOCAL enable_indexscan = on; SET LOCAL enable_seqscan = off");
    if (by_table != count_rows(l, c))
        ledger_read_broken(l, "pawl_journal_seq", "the index and its table differ");
}

int64_t pgledger_check(const ledger *l, const char *url, ledger_verdict *out)
{
    ledger_reading *reading = ledger_read(l, out);
    PGconn *c = PQconnectdb(url);
    if (PQstatus(c) != CONNECTION_OK) {
        ledger_read_broken(reading, "connect", PQerrorMessage(c));
    } else {
        exec_query(reading, c, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        read_journal(reading, c);
        read_runs(reading, c);
        compare_index(reading, c);
        exec_query(reading, c, "ROLLBACK");
    }
    PQfinish(c);
    int64_t faults = ledger_read_end(reading);
    return faults + out->lost;
}

int64_t pgledger_rows(const char *url, int64_t mark)
{
    char sql[96];
    snprintf(sql, sizeof sql, "SELECT count(*) FROM pawl.journal WHERE at = %lld", (long long)mark);
    PGconn *c = PQconnectdb(url);
    PGresult *r = PQexec(c, sql);
    if (PQresultStatus(r) != PGRES_TUPLES_OK) {
        fprintf(stderr, "%s", PQerrorMessage(c));
        errno = EIO;
        scratch_die(sql);
    }
    int64_t rows = column_number(r, 0, 0);
    PQclear(r);
    PQfinish(c);
    return rows;
}
