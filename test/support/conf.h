/* The conformance fixture: the same tests on every backend.
 *
 * A test gets a `conf`, which says where a fresh database is and what its driver promises; the test
 * never asks which backend that is. A test that needs a promise (conf_case.needs) is reported as
 * skipped on a backend that does not make it. To run the suite on one more backend, add a line to
 * the table in conf.c.
 *
 * On PostgreSQL the database is on a server that the test program starts before the first test that
 * needs it. Where PostgreSQL is not installed these tests are skipped (see pgserver_need). */
#ifndef SUPPORT_CONF_H
#define SUPPORT_CONF_H

#include <stdatomic.h>

#include "db/committer.h"
#include "db/db.h"
#include "db/db_fault.h"
#include "support/pgserver.h"
#include "support/tmp.h"

typedef struct conf {
    const char *backend;    /* "sqlite", "memory", "postgres" */
    unsigned promises;      /* what its driver promises: DB_DURABLE, DB_ISOLATED, DB_SHARED … */
    char dir[TMP_PATH];     /* a folder of this test's own, removed after it */
    char url[PGSERVER_URL]; /* the URL of a fresh database */

    /* The server and the name of the database on it, for tests of PostgreSQL alone. On the other
     * backends NULL and "". */
    pgserver *server;
    char database[PGSERVER_NAME];
} conf;

typedef struct conf_case {
    const char *name;
    void (*run)(conf *c);
    unsigned needs; /* promises without which the test is skipped */
} conf_case;

#define CONF_COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))

/* conf_run() runs all cases on all backends, conf_run_on() on the backend of that name (NULL: on
 * all). Both give the number of failures.
 *
 * To run a part: PAWL_TEST_CASE is a text that the names of the cases must contain, and for
 * conf_run() PAWL_TEST_BACKEND names the only backend. */
int conf_run(const conf_case *cases, size_t count);
int conf_run_on(const char *backend, const conf_case *cases, size_t count);

/* The same as conf_run(), but on PostgreSQL, where it takes long to make a database, all cases use
 * one database, whose tables are emptied before each case. For suites of many short cases that do
 * not damage the database. */
int conf_run_reused(const conf_case *cases, size_t count);

/* ---- Databases. Each of these fails the test when it cannot do what it says. ---- */

/* Open the database of c->url. `options` NULL: the defaults; options->url is not used. A claim_ms
 * of 0 becomes CONF_CLAIM_MS, which is long: the time-outs that the driver sets on a server are
 * parts of claim_ms, and must not end what is only slow. */
enum { CONF_CLAIM_MS = 30000 };
db *conf_open(const conf *c, const db_options *options);

/* The same, with a fault plan around the database. The plan has to outlive the database. */
db *conf_open_fault(const conf *c, const db_options *options, db_fault *plan);

db_conn *conf_connect(db *d, db_role role);
committer *conf_committer(db *d, const committer_options *options);

void conf_begin(db_conn *c);
void conf_commit(db_conn *c);

/* Lock the database by a connection of its own, which is given: until conf_unlock() no unit can be
 * committed, and each attempt is answered PAWL_BUSY. Reading goes on where the driver promises
 * DB_ISOLATED. */
db_conn *conf_lock(db *d);
void conf_unlock(db_conn *c);

/* Run a statement on a new connection, and commit. */
void conf_do(db *d, const db_sql *sql, const db_value *values, int count);

/* Read a number on a new connection: the first column of the first row, which must be there. */
int64_t conf_number(db *d, const db_sql *sql, const db_value *values, int count);

/* The same on the connection `c`, inside its transaction. */
int64_t conf_number_on(db_conn *c, const db_sql *sql, const db_value *values, int count);

/* Run SQL without parameters, several statements at once, and commit. */
void conf_script(db *d, const char *text);

/* Changes the database beside all engines, as the application could (a trigger): one statement or
 * several, in the words of each backend. */
void conf_change(conf *c, const char *sqlite, const char *postgres);

/* NAME(): a literal text as a db_value. VALUES(): an array of db_values and, as the next argument,
 * its length. */
#define NAME(text) db_text(SLICE_LIT(text))
#define VALUES(...) (db_value[]){__VA_ARGS__}, DB_COUNT(((db_value[]){__VA_ARGS__}))

/* Fail the test unless `code` is PAWL_OK, with the words of the error. */
#define CONF_OK(code, err) conf_ok((code), (err), __FILE__, __LINE__)
void conf_ok(pawl_code code, const error *err, const char *file, int line);

/* ---- Units that append rows to the journal, and their answers ---- */

/* The insert of a journal row. Parameters: run, seq, name, data. Returns its pos. */
extern const db_sql CONF_APPEND;

/* Add the insert of the journal row (run, seq), without data, to a unit. */
void conf_append(unit *u, int64_t run, int64_t seq);

/* How many journal rows a run has. */
int64_t conf_rows(db *d, int64_t run);

/* Insert a run with this row key, so that messages can be sent to it. `mail`: the number of
 * arrivals that it has had. */
void conf_make_run(db *d, int64_t run, int64_t mail);

/* A unit with an arena of its own that counts its answers. */
typedef struct conf_ticket {
    arena *arena;
    unit *unit;
    atomic_int finals;    /* how many final answers came */
    atomic_int undecided; /* how often the answer was UNDECIDED */
    atomic_int late;      /* answers that came after the final one */
    _Atomic unit_answer answer;
} conf_ticket;

/* conf_ticket_open() makes a ticket with an empty unit, in an arena of at most `limit` bytes (0: no
 * limit). conf_tickets_open() makes `count` such tickets, without a limit. */
void conf_ticket_open(conf_ticket *t, size_t limit);
void conf_tickets_open(conf_ticket *t, size_t count);

/* Make a ticket with a unit that appends the journal row (run, seq), for the submitter `s` (may be
 * NULL). */
void conf_ticket_append(conf_ticket *t, int64_t run, int64_t seq, submitter *s);

/* The same without a submitter, for a unit of this class. */
void conf_ticket_append_class(conf_ticket *t, int64_t run, int64_t seq, unit_class class);

void conf_ticket_free(conf_ticket *t);
void conf_tickets_free(conf_ticket *t, size_t count);

/* Drive a committer by hand until all tickets have their final answer. If `clock` is not NULL, it
 * is moved to each time at which the committer wants to be driven again. Fails the test if the
 * answers never come. */
void conf_drive(committer *k, clock_fake *clock, const conf_ticket *tickets, size_t count);

/* Fail the test unless the ticket has exactly one final answer, which is `wanted`, and UNDECIDED
 * before it at most once. */
#define CONF_ANSWER(ticket, wanted) conf_answer((ticket), (wanted), __FILE__, __LINE__)
void conf_answer(const conf_ticket *t, unit_answer wanted, const char *file, int line);

#endif
