/* Guests: code of the application in a transaction of the engine (A8).
 *
 * What a guest writes through the native connection commits with the unit or goes with it. It is
 * called on the thread that hands in the unit, on a connection that no other unit waits for. A
 * transaction that it leaves in a wrong state is detected, and no other unit is affected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <pthread.h>
#include <sqlite3.h>
#include <string.h>

#include "db/committers.h"
#include "support/conf.h"

static const db_sql SET = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)"
                           " ON CONFLICT (name) DO UPDATE SET number = excluded.number",
                           "ti"};
static const db_sql RAISE = {
    "UPDATE {meta} SET number = number + 1 WHERE name = $1 AND number = $2 RETURNING number", "ti"};
static const db_sql GIVEN = {"SELECT count(*) FROM {journal} WHERE run = $1 AND data = $2", "ib"};

typedef struct fixture {
    const conf *conf;
    db *db;
    db_fault plan;
    committers *all;
} fixture;

/* Something that a guest does. */
typedef struct visit {
    fixture *fixture;
    const char *sql;   /* one statement after the other, with ; between; errors are passed over */
    const char *value; /* NULL: it fails */
    void (*more)(struct visit *v, void *native);
    int calls;
    pthread_t thread;
    conf_ticket other;
    sqlite3_stmt *open;
} visit;

/* The application's table is made as the application would: by a connection of its own. */
static void fixture_open(fixture *b, const conf *c, int by_hand)
{
    db_options options = {.by_hand = by_hand, .busy_ms = by_hand ? 0 : 2000};
    *b = (fixture){.conf = c};
    b->db = by_hand ? conf_open_fault(c, &options, &b->plan) : conf_open(c, &options);
    error err = {0};
    committer_options o = {.by_hand = by_hand};
    CONF_OK(committers_open(&b->all, b->db, &o, 2, &err), &err);
    conf_script(b->db, c->server ? "CREATE TABLE public.orders (number int)"
                                 : "CREATE TABLE orders (number int)");
}

static void fixture_close(fixture *b)
{
    committers_close(b->all);
    db_close(b->db);
}

static int64_t orders(fixture *b)
{
    static const db_sql FILE_SQL = {"SELECT count(*) FROM orders", ""};
    static const db_sql SERVER_SQL = {"SELECT count(*) FROM public.orders", ""};
    return conf_number(b->db, b->conf->server ? &SERVER_SQL : &FILE_SQL, NULL, 0);
}

static int exec(const visit *v, void *native, const char *sql)
{
    if (!v->fixture->conf->server)
        return sqlite3_exec(native, sql, NULL, NULL, NULL) == SQLITE_OK;
    PGresult *r = PQexec(native, sql);
    ExecStatusType status = PQresultStatus(r);
    PQclear(r);
    return status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
}

static slice visiting(void *native, void *arg)
{
    visit *v = arg;
    v->calls++;
    v->thread = pthread_self();
    if (v->sql)
        exec(v, native, v->sql);
    if (v->more)
        v->more(v, native);
    return v->value ? slice_of(v->value) : (slice){NULL, 0};
}

/* A unit as a run's: what it has recorded before, its guard, the guest, and the guest's row. */
static void build(conf_ticket *t, visit *v, unit_guest *g, int64_t run)
{
    conf_ticket_open(t, 0);
    unit *u = t->unit;
    u->class = UNIT_OF_RUN;
    *g = (unit_guest){.call = visiting, .arg = v};
    unit_write(u, &CONF_APPEND, unit_key("journal", run),
               VALUES(db_int(run), db_int(1), NAME("before"), db_null()));
    unit_guard(u, &RAISE, "fence", unit_key("meta", 1), VALUES(NAME("test.fence"), db_int(1)));
    int guest = unit_call(u, "guest", g);
    unit_write(u, &CONF_APPEND, unit_key("journal", run),
               VALUES(db_int(run), db_int(2), NAME("guest"), db_from(guest, 0)));
    unit_guards_first(u);
}

static pawl_code bring(fixture *b, visit *v, unit_guest *g, conf_ticket *t)
{
    v->fixture = b;
    conf_do(b->db, &SET, VALUES(NAME("test.fence"), db_int(1)));
    build(t, v, g, 7);
    return committers_apply(b->all, t->unit);
}

/* Nothing of it is there, and the next one finds everything in order. */
static void expect_nothing(fixture *b)
{
    assert_int_equal(conf_rows(b->db, 7), 0);
    assert_int_equal(orders(b), 0);
    visit v = {.sql = "INSERT INTO orders VALUES (2)", .value = "\"ok\""};
    unit_guest g;
    conf_ticket t;
    assert_int_equal(bring(b, &v, &g, &t), PAWL_OK);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(conf_rows(b->db, 7), 2);
    assert_int_equal(orders(b), 1);
    conf_ticket_free(&t);
}

/* ---- All or nothing ---- */

static void rows_of_a_guest_commit_with_its_unit(conf *c)
{
    fixture b;
    fixture_open(&b, c, 0);
    visit v = {.sql = "INSERT INTO orders VALUES (1); INSERT INTO orders VALUES (2)",
               .value = "{\"a\":1}"};
    unit_guest g;
    conf_ticket t;
    assert_int_equal(bring(&b, &v, &g, &t), PAWL_OK);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(v.calls, 1);
    assert_true(pthread_equal(v.thread, pthread_self()));
    assert_int_equal(orders(&b), 2);
    assert_int_equal(conf_rows(b.db, 7), 2);
    slice given = SLICE_LIT("{\"a\":1}");
    assert_int_equal(conf_number(b.db, &GIVEN, VALUES(db_int(7), db_bytes(given))), 1);
    conf_ticket_free(&t);
    fixture_close(&b);
}

static void a_guest_that_fails_leaves_nothing(conf *c)
{
    fixture b;
    fixture_open(&b, c, 0);
    visit v = {.sql = "INSERT INTO orders VALUES (1)"};
    unit_guest g;
    conf_ticket t;
    assert_int_equal(bring(&b, &v, &g, &t), PAWL_REFUSED);
    CONF_ANSWER(&t, UNIT_REFUSED);
    assert_string_equal(t.unit->refused, "guest");
    assert_false(g.misused);
    expect_nothing(&b);
    conf_ticket_free(&t);
    fixture_close(&b);
}

/* What was recorded before it is still to be written: the unit is cut, and handed in as others. */
static void what_came_before_can_be_handed_in_again(conf *c)
{
    fixture b;
    fixture_open(&b, c, 0);
    visit v = {.sql = "INSERT INTO orders VALUES (1)"};
    unit_guest g;
    conf_ticket t;
    assert_int_equal(bring(&b, &v, &g, &t), PAWL_REFUSED);
    unit_cut(t.unit, 1);
    unit_write(t.unit, &CONF_APPEND, unit_key("journal", 7),
               VALUES(db_int(7), db_int(2), NAME("failed"), db_null()));
    unit_guard(t.unit, &RAISE, "fence", unit_key("meta", 1), VALUES(NAME("test.fence"), db_int(1)));
    unit_guards_first(t.unit);
    assert_int_equal(committer_commit(committers_at(b.all, 0), t.unit), PAWL_OK);
    assert_int_equal(conf_rows(b.db, 7), 2);
    assert_int_equal(orders(&b), 0);
    conf_ticket_free(&t);
    fixture_close(&b);
}

static void without_its_guard_no_guest_is_called(conf *c)
{
    fixture b;
    fixture_open(&b, c, 0);
    visit v = {.fixture = &b, .sql = "INSERT INTO orders VALUES (1)", .value = "1"};
    unit_guest g;
    conf_ticket t;
    build(&t, &v, &g, 7); /* there is no row test.fence */
    assert_int_equal(committers_apply(b.all, t.unit), PAWL_REFUSED);
    assert_string_equal(t.unit->refused, "fence");
    assert_int_equal(v.calls, 0);
    expect_nothing(&b);
    conf_ticket_free(&t);
    fixture_close(&b);
}

static void a_closed_node_calls_no_guest(conf *c)
{
    fixture b;
    fixture_open(&b, c, 0);
    committers_set_node(b.all, 77, 1, 0); /* there is no such row */
    visit v = {.sql = "INSERT INTO orders VALUES (1)", .value = "1"};
    unit_guest g;
    conf_ticket t;
    assert_int_equal(bring(&b, &v, &g, &t), PAWL_REFUSED);
    assert_string_equal(t.unit->refused, "node");
    assert_int_equal(v.calls, 0);
    committers_set_node(b.all, 0, 0, 0);
    expect_nothing(&b);
    conf_ticket_free(&t);
    fixture_close(&b);
}

/* ---- What it leaves behind ---- */

static void leave_open(visit *v, void *native)
{
    if (v->fixture->conf->server) {
        PQsendQuery(native, "INSERT INTO orders VALUES (3); SELECT 1");
        return;
    }
    assert_int_equal(sqlite3_prepare_v2(native, "SELECT 1 UNION SELECT 2", -1, &v->open, NULL),
                     SQLITE_OK);
    assert_int_equal(sqlite3_step(v->open), SQLITE_ROW);
}

static void let_go(visit *v)
{
    sqlite3_finalize(v->open);
    v->open = NULL;
}

static void an_ended_transaction_is_found_out(conf *c)
{
    /* Its rows are there after a COMMIT: they cannot be taken back. */
    static const struct {
        const char *sql;
        int64_t stays;
    } ENDS[] = {
        {"COMMIT", 0},
        {"ROLLBACK", 0},
        {"INSERT INTO orders VALUES (1); COMMIT", 1},
        {"INSERT INTO orders VALUES (1); ROLLBACK", 0},
        {"INSERT INTO orders VALUES (1); ROLLBACK; BEGIN", 0},
        {"INSERT INTO orders VALUES (1); COMMIT; BEGIN; INSERT INTO orders VALUES (2)", 1},
        {"INSERT INTO orders VALUES (1); ROLLBACK; BEGIN; SAVEPOINT pawl; INSERT INTO orders"
         " VALUES (2)",
         0},
    };
    fixture b;
    fixture_open(&b, c, 0);
    for (size_t i = 0; i < sizeof ENDS / sizeof *ENDS; i++) {
        visit v = {.sql = ENDS[i].sql, .value = "1"};
        unit_guest g;
        conf_ticket t;
        assert_int_equal(bring(&b, &v, &g, &t), PAWL_REFUSED);
        assert_string_equal(t.unit->refused, "guest");
        assert_true(g.misused);
        assert_int_equal(conf_rows(b.db, 7), 0);
        assert_int_equal(orders(&b), ENDS[i].stays);
        conf_ticket_free(&t);
        conf_script(b.db, c->server ? "DELETE FROM public.orders" : "DELETE FROM orders");
    }
    expect_nothing(&b);
    fixture_close(&b);
}

static void an_open_statement_is_found_out(conf *c)
{
    fixture b;
    fixture_open(&b, c, 0);
    for (int gives = 0; gives < 2; gives++) {
        visit v = {.sql = "INSERT INTO orders VALUES (1)",
                   .value = gives ? "1" : NULL,
                   .more = leave_open};
        unit_guest g;
        conf_ticket t;
        assert_int_equal(bring(&b, &v, &g, &t), PAWL_REFUSED);
        assert_true(g.misused || !gives);
        assert_int_equal(orders(&b), 0);
        let_go(&v);
        conf_ticket_free(&t);
    }
    expect_nothing(&b);
    fixture_close(&b);
}

/* On a server an error costs the transaction; a guest that gives a value all the same has ignored
 * the error. SQLite takes back the one statement only. */
static void a_failed_statement_is_found_out(conf *c)
{
    fixture b;
    fixture_open(&b, c, 0);
    for (int gives = 0; gives < 2; gives++) {
        visit v = {.sql = "INSERT INTO orders VALUES (1); INSERT INTO nowhere VALUES (1)",
                   .value = gives ? "1" : NULL};
        unit_guest g;
        conf_ticket t;
        pawl_code wanted = gives && !c->server ? PAWL_OK : PAWL_REFUSED;
        assert_int_equal(bring(&b, &v, &g, &t), wanted);
        assert_int_equal(g.misused, gives && c->server);
        assert_int_equal(orders(&b), wanted == PAWL_OK);
        conf_ticket_free(&t);
    }
    fixture_close(&b);
}

static void a_guest_may_use_savepoints(conf *c)
{
    fixture b;
    fixture_open(&b, c, 0);
    visit v = {.sql = "INSERT INTO orders VALUES (1); SAVEPOINT a; INSERT INTO orders VALUES (2);"
                      " ROLLBACK TO a; SAVEPOINT b; INSERT INTO orders VALUES (3)",
               .value = "1"};
    unit_guest g;
    conf_ticket t;
    assert_int_equal(bring(&b, &v, &g, &t), PAWL_OK);
    assert_int_equal(orders(&b), 2);
    conf_ticket_free(&t);
    fixture_close(&b);
}

/* ---- Undecided, busy, beside others ---- */

static void undecided(conf *c, int happened)
{
    fixture b;
    fixture_open(&b, c, 1);
    visit v = {.sql = "INSERT INTO orders VALUES (1)", .value = "1", .fixture = &b};
    unit_guest g;
    conf_ticket t;
    conf_do(b.db, &SET, VALUES(NAME("test.fence"), db_int(1)));
    build(&t, &v, &g, 7);
    b.plan.lose_commit = b.plan.commits + 1;
    b.plan.lose_happened = happened;
    b.plan.unknown_times = 2;
    assert_int_equal(committers_apply(b.all, t.unit), PAWL_UNDECIDED);
    assert_int_equal(t.undecided, 1);
    assert_int_equal(t.finals, 0);
    TMP_AWAIT(committers_drive(b.all) + t.finals > 0 && t.finals > 0);
    CONF_ANSWER(&t, happened ? UNIT_COMMITTED : UNIT_FAILED);
    assert_int_equal(v.calls, 1);
    assert_int_equal(orders(&b), happened);
    assert_int_equal(conf_rows(b.db, 7), 2 * happened);
    conf_ticket_free(&t);
    fixture_close(&b);
}

static void an_undecided_commit_may_have_happened(conf *c)
{
    undecided(c, 1);
}

static void an_undecided_commit_may_not_have_happened(conf *c)
{
    undecided(c, 0);
}

static void on_a_locked_database_no_guest_is_called(conf *c)
{
    if (!(c->promises & DB_TURNS))
        skip(); /* no unit has to wait for a turn */
    fixture b;
    fixture_open(&b, c, 1);
    conf_do(b.db, &SET, VALUES(NAME("test.fence"), db_int(1)));
    visit v = {.sql = "INSERT INTO orders VALUES (1)", .value = "1", .fixture = &b};
    unit_guest g;
    conf_ticket t;
    build(&t, &v, &g, 7);
    db_conn *other = conf_lock(b.db);
    assert_int_equal(committers_apply(b.all, t.unit), PAWL_BUSY);
    CONF_ANSWER(&t, UNIT_FAILED);
    assert_int_equal(v.calls, 0);
    conf_unlock(other);
    assert_int_equal(committers_next_ns(b.all), INT64_MAX); /* it is not tried behind one's back */
    expect_nothing(&b);
    conf_ticket_free(&t);
    fixture_close(&b);
}

/* Meanwhile another unit commits, and another guest is called. */
static void meanwhile(visit *v, void *native)
{
    (void)native;
    committers *all = v->fixture->all;
    conf_ticket_append(&v->other, 9, 1, NULL);
    assert_int_equal(committer_commit(committers_at(all, 0), v->other.unit), PAWL_OK);
    visit inner = {.fixture = v->fixture, .sql = "INSERT INTO orders VALUES (5)", .value = "5"};
    unit_guest g = {.call = visiting, .arg = &inner};
    conf_ticket t;
    conf_ticket_open(&t, 0);
    unit_call(t.unit, "guest", &g);
    assert_int_equal(committers_apply(all, t.unit), PAWL_OK);
    conf_ticket_free(&t);
}

static void other_units_are_committed_while_a_guest_runs(conf *c)
{
    if (c->promises & DB_TURNS)
        skip(); /* there is one writer */
    fixture b;
    fixture_open(&b, c, 0);
    visit v = {.sql = "INSERT INTO orders VALUES (1)", .value = "1", .more = meanwhile};
    unit_guest g;
    conf_ticket t;
    assert_int_equal(bring(&b, &v, &g, &t), PAWL_OK);
    assert_int_equal(conf_rows(b.db, 9), 1);
    assert_int_equal(orders(&b), 2);
    conf_ticket_free(&v.other);
    conf_ticket_free(&t);
    fixture_close(&b);
}

static const conf_case CASES[] = {
    {"rows of a guest commit with its unit", rows_of_a_guest_commit_with_its_unit, 0},
    {"a guest that fails leaves nothing", a_guest_that_fails_leaves_nothing, 0},
    {"what came before can be handed in again", what_came_before_can_be_handed_in_again, 0},
    {"without its guard no guest is called", without_its_guard_no_guest_is_called, 0},
    {"a closed node calls no guest", a_closed_node_calls_no_guest, 0},
    {"an ended transaction is found out", an_ended_transaction_is_found_out, 0},
    {"an open statement is found out", an_open_statement_is_found_out, 0},
    {"a failed statement is found out", a_failed_statement_is_found_out, 0},
    {"a guest may use savepoints", a_guest_may_use_savepoints, 0},
    {"an undecided commit may have happened", an_undecided_commit_may_have_happened, 0},
    {"an undecided commit may not have happened", an_undecided_commit_may_not_have_happened, 0},
    {"on a locked database no guest is called", on_a_locked_database_no_guest_is_called, 0},
    {"other units are committed while a guest runs", other_units_are_committed_while_a_guest_runs,
     0},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
