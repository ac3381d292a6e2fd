/* Transactional steps whose record the database refuses, or fails to take. The function is executed
 * again, since its transaction was rolled back; but with a back-off, told in the log and by `why`,
 * and a record that is refused for good holds the run, as that of any step. What the function
 * itself does wrong stays its own business. Executions are counted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/served_fixture.h"
#include "support/transact_fixture.h"

enum { REFUSED, UNDONE, ENDED, HELD, LOST, BROKEN, CLAIM_MS = 60000 };

static int64_t number(const transact_fixture *s, int which)
{
    return atomic_load(fixture_number(s->fixture, which));
}

static void count(const transact_fixture *s, int which)
{
    atomic_fetch_add(fixture_number(s->fixture, which), 1);
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    const transact_fixture *s = arg;
    (void)level;
    if (strcmp(event, "record-refused") == 0 && strstr(fields, "what=\"transact order (op 2)\""))
        count(s, REFUSED);
    if (strcmp(event, "turn-undone") == 0 && strstr(fields, "no orders on sunday"))
        count(s, UNDONE);
    if (strcmp(event, "turn-undone") == 0 && strstr(fields, "PAWL_FULL"))
        count(s, UNDONE);
    if (strcmp(event, "turn-undone-ended") == 0)
        count(s, ENDED);
    if (strcmp(event, "run-held") == 0)
        count(s, HELD);
    if (strncmp(event, "record-", 7) == 0 && strcmp(event, "record-refused") != 0)
        count(s, LOST); /* nothing is kept, so nothing is recorded later, or lost */
}

/* ---- The database ---- */

/* Refused for good, or for a reason that pawl does not know: both by the journal, at the step's own
 * row. */
static void refuse_orders(conf *c, int for_good)
{
    char sql[512], lite[256];
    snprintf(sql, sizeof sql,
             "CREATE FUNCTION public.refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
             " IF NEW.name = 'order' THEN RAISE EXCEPTION 'no orders on sunday'"
             " USING ERRCODE = '%s'; END IF; RETURN NEW; END $$;"
             " CREATE TRIGGER refuse BEFORE INSERT ON pawl.journal"
             " FOR EACH ROW EXECUTE FUNCTION public.refuse()",
             for_good ? "P0001" : "Z0001");
    snprintf(lite, sizeof lite,
             "CREATE TRIGGER refuse BEFORE INSERT ON pawl_journal WHEN NEW.name = 'order'"
             " BEGIN SELECT %s; END",
             for_good ? "RAISE(ABORT, 'no orders on sunday')"
                      : "abs(-9223372036854775807 - 1) AS \"no orders on sunday\"");
    conf_change(c, lite, sql);
}

static void allow_orders(conf *c)
{
    conf_change(c, "DROP TRIGGER refuse", "DROP TRIGGER refuse ON pawl.journal");
}

/* ---- The engine ---- */

static const char *harmless(pawl_run *run, const char *input)
{
    const transact_fixture *s = pawl_arg(run);
    return pawl_step(run, "step", fixture_echo, input, PAWL_CALL(.arg = s->fixture));
}

static const char *orders_and_waits(pawl_run *run, const char *input)
{
    transact_fixture *s = pawl_arg(run);
    pawl_transact(run, "order", transact_fixture_take_order, input, PAWL_CALL(.arg = s));
    pawl_sleep(run, PAWL_FOREVER);
    return input;
}

static pawl *open_engine(transact_fixture *s, int64_t threads)
{
    pawl *p = fixture_open_fault(s->fixture,
                                 PAWL_OPTIONS(.threads = threads, .log = hear, .log_arg = s,
                                              .on_connect = transact_fixture_on_connect,
                                              .on_connect_arg = s, .claim_ms = CLAIM_MS),
                                 &s->plan);
    const pawl_workflow_options *o = PAWL_WORKFLOW(.arg = s);
    FIXTURE_CODE(s->fixture, p, pawl_register_workflow(p, "ordering", transact_fixture_ordering, o),
                 PAWL_OK);
    FIXTURE_CODE(s->fixture, p, pawl_register_workflow(p, "waits", orders_and_waits, o), PAWL_OK);
    FIXTURE_CODE(s->fixture, p, pawl_register_workflow(p, "harmless", harmless, o), PAWL_OK);
    return p;
}

static void open_fixture(transact_fixture *s, const conf *c, int64_t threads)
{
    *s = (transact_fixture){.conf = c, .fixture = fixture_new(c)};
    s->engine = open_engine(s, threads);
    transact_fixture_make_tables(s);
}

static pawl_phase phase_of(const transact_fixture *s, const char *id)
{
    return fixture_phase(s->fixture, s->engine, id);
}

static void live(const transact_fixture *s, int seconds)
{
    for (int i = 0; i <= seconds; i++) {
        fixture_poll(s->fixture, s->engine);
        fixture_advance(s->fixture, 1000);
    }
}

static void expect_why(const transact_fixture *s, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(s->fixture, s->engine, pawl_why(s->engine, "run", &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
    pawl_free(why);
}

static void expect_no(const transact_fixture *s, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(s->fixture, s->engine, pawl_why(s->engine, "run", &why), PAWL_OK);
    if (strstr(why, words))
        fail_msg("\"%s\" is still in: %s", words, why);
    pawl_free(why);
}

static void expect_done(const transact_fixture *s, int calls)
{
    assert_int_equal(s->calls, calls);
    assert_int_equal(transact_fixture_orders(s), 1);
    assert_int_equal(number(s, UNDONE), 1);
    assert_int_equal(number(s, ENDED), 1);
    assert_int_equal(number(s, LOST), 0);
    expect_no(s, "rolled back");
}

/* ---- Refused for good ---- */

/* The run is held after one execution, and is not executed again by itself. */
static void hold_run(transact_fixture *s, conf *c, const char *workflow)
{
    open_fixture(s, c, -1);
    refuse_orders(c, 1);
    fixture_start(s->fixture, s->engine, workflow, "run", "7");
    live(s, 2);
    assert_int_equal(phase_of(s, "run"), PAWL_RUN_HELD);
    live(s, 100);
    assert_int_equal(s->calls, 1);
    assert_int_equal(transact_fixture_orders(s), 0);
    assert_int_equal(number(s, REFUSED), 1);
    assert_int_equal(number(s, UNDONE), 1);
    assert_int_equal(number(s, HELD), 1);
}

static void a_record_that_is_refused_holds_the_run(conf *c)
{
    transact_fixture s;
    hold_run(&s, c, "ordering");
    expect_why(&s, "the database refuses to record transact order (op 2)");
    expect_why(&s, "the transaction of transact order (op 2) was rolled back");
    expect_why(&s, "no orders on sunday");
    FIXTURE_CODE(s.fixture, s.engine, pawl_release(s.engine, "run"), PAWL_OK); /* in vain */
    live(&s, 5);
    assert_int_equal(phase_of(&s, "run"), PAWL_RUN_HELD);
    assert_int_equal(s.calls, 2);
    assert_int_equal(number(&s, REFUSED), 2);
    fixture_start(s.fixture, s.engine, "harmless", "other", "1"); /* others are not disturbed */
    FIXTURE_DONE(s.fixture, s.engine, "other", "1");
    allow_orders(c);
    FIXTURE_CODE(s.fixture, s.engine, pawl_release(s.engine, "run"), PAWL_OK);
    FIXTURE_DONE(s.fixture, s.engine, "run", "1");
    expect_done(&s, 3);
    transact_fixture_close(&s);
}

static void a_cancel_executes_it_again(conf *c)
{
    transact_fixture s;
    hold_run(&s, c, "waits");
    allow_orders(c);
    FIXTURE_CODE(s.fixture, s.engine, pawl_cancel(s.engine, "run", "\"enough\""), PAWL_OK);
    live(&s, 5);
    assert_int_equal(phase_of(&s, "run"), PAWL_RUN_CANCELLED);
    assert_int_equal(transact_fixture_orders(&s), s.calls - 1);
    transact_fixture_close(&s);
}

static void deleted_by_force(conf *c)
{
    transact_fixture s;
    hold_run(&s, c, "ordering");
    allow_orders(c);
    FIXTURE_CODE(s.fixture, s.engine, pawl_delete(s.engine, "run", 1), PAWL_OK);
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    FIXTURE_DONE(s.fixture, s.engine, "run", "1");
    assert_int_equal(s.calls, 2);
    assert_int_equal(transact_fixture_orders(&s), 1);
    transact_fixture_close(&s);
}

/* There is nothing that a close could record, and nothing is lost. The next owner executes it. */
static void a_close_loses_nothing(conf *c)
{
    transact_fixture s;
    hold_run(&s, c, "ordering");
    pawl_close(s.engine);
    assert_int_equal(number(&s, LOST), 0);
    assert_int_equal(s.calls, 1);
    allow_orders(c);
    s.engine = open_engine(&s, -1);
    TMP_AWAIT((live(&s, 1), phase_of(&s, "run")) == PAWL_RUN_DONE);
    assert_int_equal(s.calls, 2);
    assert_int_equal(transact_fixture_orders(&s), 1);
    transact_fixture_close(&s);
}

/* Under pawl_finish() the hold stays, too, whatever call comes next. */
static void one_run_is_finished(conf *c)
{
    transact_fixture s;
    open_fixture(&s, c, -1);
    refuse_orders(c, 1);
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    for (int i = 0; i < 3; i++)
        FIXTURE_CODE(s.fixture, s.engine, pawl_finish(s.engine, "run", 0, NULL), PAWL_HELD);
    assert_int_equal(s.calls, 1);
    allow_orders(c);
    FIXTURE_CODE(s.fixture, s.engine, pawl_release(s.engine, "run"), PAWL_OK);
    FIXTURE_CODE(s.fixture, s.engine, pawl_finish(s.engine, "run", 0, NULL), PAWL_OK);
    expect_done(&s, 2);
    transact_fixture_close(&s);
}

/* ---- For an unknown reason ---- */

/* Five tries, with a back-off; then the run is held. */
static void a_failure_of_an_unknown_kind(conf *c)
{
    transact_fixture s;
    open_fixture(&s, c, -1);
    refuse_orders(c, 0);
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    fixture_poll(s.fixture, s.engine);
    assert_int_equal(phase_of(&s, "run"), PAWL_RUN_LIVE);
    assert_int_equal(s.calls, 1); /* the clock stands still, and so does the back-off */
    expect_why(&s, "the transaction of transact order (op 2) was rolled back: PAWL_STORAGE: ");
    expect_why(&s, "executes it again");
    live(&s, 10);
    assert_int_equal(phase_of(&s, "run"), PAWL_RUN_HELD);
    live(&s, 100);
    assert_int_equal(s.calls, 5 + 1);
    allow_orders(c);
    FIXTURE_CODE(s.fixture, s.engine, pawl_release(s.engine, "run"), PAWL_OK);
    FIXTURE_DONE(s.fixture, s.engine, "run", "1");
    assert_int_equal(s.calls, 5 + 2);
    assert_int_equal(transact_fixture_orders(&s), 1);
    expect_no(&s, "rolled back");
    transact_fixture_close(&s);
}

/* ---- Failures that pass ---- */

static void break_journal(void *arg, int64_t at, fault_call call, const char *sql)
{
    transact_fixture *s = arg;
    (void)call;
    int breaks = number(s, BROKEN) > 1 ? strstr(sql, "INSERT INTO {") != NULL
                                       : strstr(sql, "INSERT INTO {journal}") != NULL;
    if (number(s, BROKEN) && breaks && s->calls > 0)
        s->plan.fail_call = at;
}

static void fail_for_a_while(conf *c, int how)
{
    transact_fixture s;
    open_fixture(&s, c, -1);
    s.plan = (db_fault){.before = break_journal, .before_arg = &s, .fail_code = PAWL_FULL};
    fixture_start(s.fixture, s.engine, "waits", "run", "7");
    atomic_store(fixture_number(s.fixture, BROKEN), how);
    live(&s, 300);
    assert_int_equal(phase_of(&s, "run"), PAWL_RUN_LIVE);
    assert_true(s.calls > 3);
    assert_true(s.calls < 30); /* the back-off grows to half a minute */
    expect_why(&s, "the transaction of transact order (op 2) was rolled back: PAWL_FULL: ");
    int calls = s.calls;
    atomic_store(fixture_number(s.fixture, BROKEN), 0);
    live(&s, 60);
    expect_done(&s, calls + 1);
    transact_fixture_close(&s);
}

/* Small writes are committed: the trouble is the run's own, which is not held for it. */
static void a_failure_that_passes(conf *c)
{
    fail_for_a_while(c, 1);
}

/* Nothing else can be committed either. */
static void a_failure_of_everything(conf *c)
{
    fail_for_a_while(c, 2);
}

/* As long as the clock stands still there is no other try, however often the run is finished; and
 * the tries of all calls are counted together. */
static void finishes_keep_the_back_off(conf *c)
{
    transact_fixture s;
    open_fixture(&s, c, -1);
    refuse_orders(c, 0);
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    for (int i = 0; i < 3; i++)
        FIXTURE_CODE(s.fixture, s.engine, pawl_finish(s.engine, "run", 0, NULL), PAWL_TIMEOUT);
    assert_int_equal(s.calls, 1);
    pawl_code rc = PAWL_TIMEOUT;
    for (int i = 0; i < 100 && rc == PAWL_TIMEOUT; i++) {
        fixture_advance(s.fixture, 1000);
        rc = pawl_finish(s.engine, "run", 0, NULL);
    }
    FIXTURE_CODE(s.fixture, s.engine, rc, PAWL_HELD);
    assert_int_equal(s.calls, 5 + 1);
    transact_fixture_close(&s);
}

/* ---- What the function does itself ---- */

/* A row that is there already, and a constraint that only the COMMIT checks: both are failures of
 * the attempt, and hold nothing. */
static void errors_of_the_function_are_its_own(conf *c)
{
    transact_fixture s;
    open_fixture(&s, c, -1);
    transact_fixture_exec(&s, "INSERT INTO orders VALUES (7)", 0);
    fixture_start(s.fixture, s.engine, "ordering", "run", "7");
    FIXTURE_FAILED(s.fixture, s.engine, "run", "sql", "the row is there already");
    s.way = ORDER_BREAKS_A_RULE;
    s.times = 2;
    fixture_start(s.fixture, s.engine, "ordering", "rule", "8");
    FIXTURE_DONE(s.fixture, s.engine, "rule", "3");
    assert_int_equal(number(&s, REFUSED) + number(&s, UNDONE) + number(&s, HELD), 0);
    transact_fixture_close(&s);
}

/* ---- On threads ---- */

static void served(conf *c)
{
    transact_fixture s = {.conf = c, .fixture = fixture_new(c)};
    fixture_run_clock(s.fixture);
    served_fixture v = {.fixture = s.fixture, .p = open_engine(&s, 3)};
    s.engine = v.p;
    transact_fixture_make_tables(&s);
    refuse_orders(c, 1);
    served_begin(&v);
    fixture_start(s.fixture, v.p, "ordering", "run", "7");
    TMP_AWAIT(phase_of(&s, "run") == PAWL_RUN_HELD);
    assert_int_equal(s.calls, 1);
    expect_why(&s, "the transaction of transact order (op 2) was rolled back");
    fixture_start(s.fixture, v.p, "harmless", "other", "1");
    FIXTURE_CODE(s.fixture, v.p, pawl_wait(v.p, "other", PAWL_FOREVER, NULL), PAWL_OK);
    allow_orders(c);
    /* By another process: the node looks for it. */
    pawl *client = fixture_open(s.fixture, PAWL_OPTIONS(.threads = -1));
    s.way = ORDER_WAITS;
    s.times = 1;
    FIXTURE_CODE(s.fixture, client, pawl_release(client, "run"), PAWL_OK);
    pawl_close(client);
    TMP_AWAIT(atomic_load(&s.waits));
    expect_no(&s, "after a release"); /* it waits for no release while it is executed */
    atomic_store(&s.waits, 0);
    FIXTURE_CODE(s.fixture, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    expect_done(&s, 2);
    served_end(&v);
}

static void served_with_an_unknown_failure(conf *c)
{
    transact_fixture s = {.conf = c, .fixture = fixture_new(c)};
    fixture_run_clock(s.fixture);
    served_fixture v = {.fixture = s.fixture, .p = open_engine(&s, 3)};
    s.engine = v.p;
    transact_fixture_make_tables(&s);
    refuse_orders(c, 0);
    served_begin(&v);
    fixture_start(s.fixture, v.p, "ordering", "run", "7");
    TMP_AWAIT(phase_of(&s, "run") == PAWL_RUN_HELD);
    assert_int_equal(s.calls, 5 + 1);
    allow_orders(c);
    FIXTURE_CODE(s.fixture, v.p, pawl_release(v.p, "run"), PAWL_OK);
    FIXTURE_CODE(s.fixture, v.p, pawl_wait(v.p, "run", PAWL_FOREVER, NULL), PAWL_OK);
    assert_int_equal(transact_fixture_orders(&s), 1);
    served_end(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a record that is refused holds the run", a_record_that_is_refused_holds_the_run,
         DB_DURABLE},
        {"a cancel executes it again", a_cancel_executes_it_again, DB_DURABLE},
        {"deleted by force", deleted_by_force, DB_DURABLE},
        {"a close loses nothing", a_close_loses_nothing, DB_DURABLE},
        {"one run is finished", one_run_is_finished, DB_DURABLE},
        {"a failure of an unknown kind", a_failure_of_an_unknown_kind, DB_DURABLE},
        {"a failure that passes", a_failure_that_passes, DB_DURABLE},
        {"a failure of everything", a_failure_of_everything, DB_DURABLE},
        {"finishes keep the back-off", finishes_keep_the_back_off, DB_DURABLE},
        {"errors of the function are its own", errors_of_the_function_are_its_own, DB_DURABLE},
        {"served by threads", served, DB_DURABLE},
        {"served with an unknown failure", served_with_an_unknown_failure, DB_DURABLE},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
