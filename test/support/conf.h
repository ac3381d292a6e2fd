/* The conformance fixture: the same tests on every backend.
 *
 * A test gets a `conf`: where a fresh database is, and what the driver behind it promises. It never
 * asks which backend that is. What a backend does not promise is skipped there, by name and
 * visibly. To run the suite on one more backend, add a line to the table in conf.c.
 *
 * On PostgreSQL it is a database of a server that the program starts with the first test that needs
 * it; where none is installed its tests are skipped (see pgserver_need). */
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
    unsigned promises;      /* of its driver: DB_DURABLE, DB_ISOLATED, DB_SHARED … */
    char dir[TMP_PATH];     /* a folder of this test's own, removed after it */
    char url[PGSERVER_URL]; /* of a fresh database */

    /* Only where a server is behind it, for tests of that server alone. */
    pgserver *server;
    char database[PGSERVER_NAME];
} conf;

typedef struct conf_case {
    const char *name;
    void (*run)(conf *c);
    unsigned needs; /* promises without which the test says nothing */
} conf_case;

#define CONF_COUNT(cases) (sizeof(cases) / sizeof((cases)[0]))

/* Run all cases on all backends, or on one. Gives the number of failures.
 *
 * To run a part: PAWL_TEST_BACKEND names the only backend, PAWL_TEST_CASE is a text that the names
 * of cases must contain. */
int conf_run(const conf_case *cases, size_t count);
int conf_run_on(const char *backend, const conf_case *cases, size_t count);

/* The same, but where to make a database takes long all cases have the same one, emptied before
 * each. For suites of many short cases that break nothing. */
int conf_run_reused(const conf_case *cases, size_t count);

/* ---- Databases. Each of these fails the test when it cannot do what it says. ---- */

/* Open the database of c->url. `options` NULL: the defaults; its url is not looked at. A claim_ms
 * of 0 is a long one, since a server's time-outs are parts of a claim. */
enum { CONF_CLAIM_MS = 30000 };
db *conf_open(const conf *c, const db_options *options);

/* The same, with a plan of faults around it; the plan has to outlive it. */
db *conf_open_fault(const conf *c, const db_options *options, db_fault *plan);

db_conn *conf_connect(db *d, db_role role);
committer *conf_committer(db *d, const committer_options *options);

void conf_begin(db_conn *c);
void conf_commit(db_conn *c);

/* Another connection locks the database: until conf_unlock() no unit can be committed, and each
 * attempt is answered PAWL_BUSY. Reading goes on where the driver promises DB_ISOLATED. */
db_conn *conf_lock(db *d);
void conf_unlock(db_conn *c);

/* A statement in a transaction of its own, on a connection of its own. */
void conf_do(db *d, const db_sql *sql, const db_value *values, int count);

/* A number that must be there, read by a connection of its own. */
int64_t conf_number(db *d, const db_sql *sql, const db_value *values, int count);

/* The same inside a connection's transaction. */
int64_t conf_number_on(db_conn *c, const db_sql *sql, const db_value *values, int count);

/* Run SQL without parameters, several statements at once, and commit. */
void conf_script(db *d, const char *text);

/* For statements: a text as a value, and an array of values with its length. */
#define NAME(text) db_text(SLICE_LIT(text))
#define VALUES(...) (db_value[]){__VA_ARGS__}, DB_COUNT(((db_value[]){__VA_ARGS__}))

/* Fail the test unless `code` is PAWL_OK, with the words of the error. */
#define CONF_OK(code, err) conf_ok((code), (err), __FILE__, __LINE__)
void conf_ok(pawl_code code, const error *err, const char *file, int line);

/* ---- Units that append rows to the journal, and their answers ---- */

/* Insert a journal row: run, seq, name, data; returns pos. */
extern const db_sql CONF_APPEND;

/* Add the insert of a journal row to a unit, without data. */
void conf_append(unit *u, int64_t run, int64_t seq);

/* How many journal rows a run has. */
int64_t conf_rows(db *d, int64_t run);

/* Insert a run with this row key, so that messages can be sent to it. */
void conf_make_run(db *d, int64_t run, int64_t mail);

/* A unit with an arena of its own that counts its answers. */
typedef struct conf_ticket {
    arena *arena;
    unit *unit;
    atomic_int finals;    /* how many final answers came */
    atomic_int undecided; /* how often UNDECIDED came before that */
    atomic_int late;      /* answers that came after the final one */
    _Atomic unit_answer answer;
} conf_ticket;

/* An empty unit. `limit` of its arena, 0: none. The other: so many of them, without a limit. */
void conf_ticket_open(conf_ticket *t, size_t limit);
void conf_tickets_open(conf_ticket *t, size_t count);

/* A unit that appends row (run, seq), on behalf of `s` (may be NULL). */
void conf_ticket_append(conf_ticket *t, int64_t run, int64_t seq, submitter *s);

/* The same on behalf of no submitter, for a unit of this class. */
void conf_ticket_append_class(conf_ticket *t, int64_t run, int64_t seq, unit_class class);

void conf_ticket_free(conf_ticket *t);
void conf_tickets_free(conf_ticket *t, size_t count);

/* Drive a committer by hand until all have their final answer, moving the clock (NULL: there is
 * none to move) to where the committer wants to be called. Fails if that never happens. */
void conf_drive(committer *k, clock_fake *clock, const conf_ticket *tickets, size_t count);

/* Expect exactly one final answer, this one. */
#define CONF_ANSWER(ticket, wanted) conf_answer((ticket), (wanted), __FILE__, __LINE__)
void conf_answer(const conf_ticket *t, unit_answer wanted, const char *file, int line);

#endif
