/* Another transaction keeps the row of one run locked, on a server. The other runs of the node go
 * on meanwhile, and the run itself does when the lock is gone; nothing is executed twice.
 *
 * Where one transaction writes at a time there is no lock of one row: a transaction has the whole
 * database. So this is about PostgreSQL only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "handle/handle.h"
#include "support/outbox_fixture.h"
#include "support/served_fixture.h"

enum { OTHERS = 30, GO = 0, WAITED = 1, ENDED = 2, PASSED = 3, MOVED = 4 };

/* Notes what it was given, and for the run that is to be locked waits until that is so. */
static const char *note_input(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "%s", input);
    if (strstr(input, "victim"))
        TMP_AWAIT(atomic_load(fixture_number(s, GO)));
    return input;
}

static const char *walk(pawl_run *run, const char *input)
{
    for (int i = 0; i < 3; i++) {
        const char *what = pawl_json(run, "{'of':%j,'step':%d}", input, i);
        FIXTURE_STEP(run, "note", note_input, what);
    }
    return input;
}

/* Lock waits that the log tells of, with the run's id. */
static void listen(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    engine_fixture *s = arg;
    if (strcmp(event, "lock-wait") == 0 && strstr(fields, "run=victim"))
        atomic_fetch_add(fixture_number(s, WAITED), 1);
    if (strcmp(event, "lock-wait-ended") == 0 && strstr(fields, "run=victim"))
        atomic_fetch_add(fixture_number(s, ENDED), 1);
    if (strcmp(event, "outbox-waits") == 0 && strstr(fields, "run=victim"))
        atomic_fetch_add(fixture_number(s, PASSED), 1);
    if (strcmp(event, "outbox-waits-ended") == 0 && strstr(fields, "run=victim"))
        atomic_fetch_add(fixture_number(s, MOVED), 1);
}

static app *lock_victim(const conf *c)
{
    app *a = app_open(c);
    app_do(a, "BEGIN");
    app_do(a, "SELECT run FROM pawl.runs WHERE id = 'victim' FOR UPDATE");
    return a;
}

static void unlock(app *a)
{
    app_do(a, "ROLLBACK");
    app_close(a);
}

static void start_others(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < OTHERS; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "other-%d", i);
        snprintf(input, sizeof input, "\"other-%d\"", i);
        fixture_start(s, p, "walk", id, input);
    }
}

static int others_are_done(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < OTHERS; i++) {
        char id[32];
        snprintf(id, sizeof id, "other-%d", i);
        if (fixture_phase(s, p, id) != PAWL_RUN_DONE)
            return 0;
    }
    return 1;
}

static void expect_once(engine_fixture *s)
{
    for (int i = -1; i < OTHERS; i++) {
        for (int step = 0; step < 3; step++) {
            char line[64], id[32];
            snprintf(id, sizeof id, i < 0 ? "victim" : "other-%d", i);
            snprintf(line, sizeof line, "{\"of\":\"%s\",\"step\":%d}", id, step);
            if (fixture_count(s, line) != 1)
                fail_msg("%s: executed %d times", line, fixture_count(s, line));
        }
    }
}

/* The run is being executed when its row is locked: what it has done cannot be recorded. */
static void a_run_that_is_being_executed(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    engine_fixture *s = v.fixture;
    fixture_run_clock(s);
    v.p = fixture_open(s, PAWL_OPTIONS(.threads = 2, .log = listen, .log_arg = s));
    FIXTURE_REGISTER(s, v.p, walk);
    served_begin(&v);
    fixture_start(s, v.p, "walk", "victim", "\"victim\"");
    TMP_AWAIT(fixture_count(s, "{\"of\":\"victim\",\"step\":0}") == 1);
    app *a = lock_victim(c);
    atomic_store(fixture_number(s, GO), 1);
    start_others(s, v.p);
    TMP_AWAIT(others_are_done(s, v.p));
    assert_int_equal(fixture_phase(s, v.p, "victim"), PAWL_RUN_LIVE);
    TMP_AWAIT(atomic_load(fixture_number(s, WAITED)) == 1);
    assert_int_equal(atomic_load(fixture_number(s, ENDED)), 0);
    unlock(a);
    TMP_AWAIT(fixture_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    assert_int_equal(atomic_load(fixture_number(s, WAITED)), 1);
    TMP_AWAIT(atomic_load(fixture_number(s, ENDED)) == 1);
    expect_once(s);
    served_end(&v);
}

/* The run has no owner, and its claim meets the lock: the node goes on claiming others. */
static void a_run_that_is_to_be_claimed(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    engine_fixture *s = v.fixture;
    pawl *client = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, v.p, walk);
    atomic_store(fixture_number(s, GO), 1);
    fixture_start(s, client, "walk", "victim", "\"victim\"");
    app *a = lock_victim(c);
    start_others(s, client);
    served_begin(&v);
    TMP_AWAIT(others_are_done(s, v.p));
    fixture_start(s, client, "walk", "late",
                  "\"late\""); /* the keeper still looks for what is due */
    TMP_AWAIT(fixture_phase(s, v.p, "late") == PAWL_RUN_DONE);
    assert_int_equal(fixture_phase(s, v.p, "victim"), PAWL_RUN_LIVE);
    assert_int_equal(fixture_count(s, "{\"of\":\"victim\",\"step\":0}"), 0);
    unlock(a);
    TMP_AWAIT(fixture_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    expect_once(s);
    pawl_close(client);
    served_end(&v);
}

/* Records and probes fail for a reason that pawl does not know, as of the storage. */
static void break_storage(app *a)
{
    app_do(a, "CREATE FUNCTION public.broken() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
              " RAISE EXCEPTION 'broken' USING ERRCODE = 'XX000'; END $$");
    app_do(a, "CREATE TRIGGER broken BEFORE INSERT ON pawl.journal"
              " FOR EACH ROW EXECUTE FUNCTION public.broken()");
    app_do(a, "CREATE TRIGGER broken BEFORE INSERT OR UPDATE ON pawl.meta"
              " FOR EACH ROW WHEN (NEW.name = 'probe') EXECUTE FUNCTION public.broken()");
}

static void mend_storage(app *a)
{
    app_do(a, "DROP TRIGGER broken ON pawl.journal");
    app_do(a, "DROP TRIGGER broken ON pawl.meta");
}

static void drive_for(engine_fixture *s, pawl *p, int64_t ms)
{
    for (int64_t past = 0; past < ms; past += 100) {
        FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_OK);
        fixture_advance(s, 100);
    }
}

/* The storage has failed, and works again; but the record that is handed in again then meets the
 * lock. That says nothing of the storage: others are claimed, and go on. */
static void a_record_that_has_failed_before(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL), *client = fixture_open(s, NULL);
    app *storage = app_open(c);
    FIXTURE_REGISTER(s, p, walk);
    atomic_store(fixture_number(s, GO), 1);
    break_storage(storage);
    fixture_start(s, p, "walk", "victim", "\"victim\"");
    drive_for(s, p, 2000);
    assert_int_equal(fixture_count(s, "{\"of\":\"victim\",\"step\":0}"), 1);
    app *a = lock_victim(c);
    mend_storage(storage);
    start_others(s, client);
    drive_for(s, p, 20000);
    assert_true(others_are_done(s, client));
    assert_int_equal(fixture_phase(s, client, "victim"), PAWL_RUN_LIVE);
    unlock(a);
    FIXTURE_UNTIL(s, p, fixture_phase(s, client, "victim") == PAWL_RUN_DONE);
    expect_once(s);
    app_close(storage);
    pawl_close(client);
    pawl_close(p);
    fixture_free(s);
}

/* A client's message to the run is told BUSY; one to another run is not held up. */
static void messages_to_a_locked_run_and_to_others(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2, .busy_ms = 200));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, walk);
    fixture_start(s, v.p, "walk", "victim", "\"victim\"");
    fixture_start(s, v.p, "walk", "friend", "\"friend\"");
    app *a = lock_victim(c);
    served_begin(&v);
    FIXTURE_CODE(s, v.p, pawl_send(v.p, "victim", "box", "1", NULL), PAWL_BUSY);
    TMP_AWAIT(fixture_phase(s, v.p, "friend") == PAWL_RUN_DONE);
    unlock(a);
    atomic_store(fixture_number(s, GO), 1);
    TMP_AWAIT(fixture_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    served_end(&v);
}

/* The lock is there until the stop has returned, so that it is not the lock's end that ends it. The
 * node is closed all the same: its other runs do not wait until it counts as dead. */
static void stopping_while_it_is_locked(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2, .drain_ms = 200));
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, walk);
    served_begin(&v);
    fixture_start(s, v.p, "walk", "victim", "\"victim\"");
    TMP_AWAIT(fixture_count(s, "{\"of\":\"victim\",\"step\":0}") == 1);
    app *a = lock_victim(c);
    atomic_store(fixture_number(s, GO), 1);
    served_stop(&v);
    assert_int_equal(fixture_phase(s, v.p, "victim"), PAWL_RUN_LIVE);
    assert_int_equal(app_number(a, "SELECT count(*) FROM pawl.nodes WHERE closed = 0"), 0);
    unlock(a);
    served_begin(&v);
    TMP_AWAIT(fixture_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    served_end(&v);
}

/* ---- Chores of the node loop ---- */

static void start_held(engine_fixture *s, pawl *p, const char *id, int64_t deadline_ms)
{
    FIXTURE_CODE(s, p,
                 pawl_start(p, "walk", id, "\"held\"", PAWL_START(.deadline_ms = deadline_ms)),
                 PAWL_OK);
    FIXTURE_CODE(s, p, pawl_hold(p, id, "until it is over"), PAWL_OK);
}

typedef struct witness {
    pawl *p;
    _Atomic int64_t locked; /* number of units that had met a lock when the run was executed */
} witness;

/* Runs that are held, whose deadlines pass, and whose rows are locked. */
static app *lock_held(const conf *c, engine_fixture *s, pawl *client, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32];
        snprintf(id, sizeof id, "victim-%d", i);
        start_held(s, client, id, 1);
    }
    app *a = app_open(c);
    app_do(a, "BEGIN");
    app_do(a, "SELECT run FROM pawl.runs WHERE id LIKE 'victim-%' FOR UPDATE");
    return a;
}

static void a_deadline_behind_locked_ones(conf *c)
{
    enum { LOCKED = 4 };
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    engine_fixture *s = v.fixture;
    pawl *client = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, v.p, walk);
    app *a = lock_held(c, s, client, LOCKED);
    start_held(s, client, "friend", 2);
    served_begin(&v);
    TMP_AWAIT(fixture_phase(s, v.p, "friend") == PAWL_RUN_CANCELLED);
    assert_int_equal(fixture_phase(s, v.p, "victim-0"), PAWL_RUN_HELD);
    unlock(a);
    for (int i = 0; i < LOCKED; i++) {
        char id[32];
        snprintf(id, sizeof id, "victim-%d", i);
        TMP_AWAIT(fixture_phase(s, v.p, id) == PAWL_RUN_CANCELLED);
    }
    pawl_close(client);
    served_end(&v);
}

/* Notes how many units have met a lock so far. */
static const char *count_locks(pawl_work *work, const char *input)
{
    witness *w = pawl_work_arg(work);
    atomic_store(&w->locked, committers_stats_now(handle_committers(w->p)).locked);
    return input;
}

static const char *witnessing(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "count", count_locks, input);
}

/* A round of the node loop tries deadlines first, and claims then. It meets few of these locks, and
 * not all of them, before it claims the friend: the friend is executed when few were met. */
static void deadlines_of_locked_runs(conf *c)
{
    enum { LOCKED = 64 };
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    engine_fixture *s = v.fixture;
    pawl *client = fixture_open(s, NULL);
    witness w = {.p = v.p};
    FIXTURE_REGISTER(s, v.p, walk);
    FIXTURE_CODE(s, v.p,
                 pawl_register_workflow(v.p, "witnessing", witnessing, PAWL_WORKFLOW(.arg = &w)),
                 PAWL_OK);
    app *a = lock_held(c, s, client, LOCKED);
    fixture_start(s, client, "witnessing", "friend", "1");
    served_begin(&v);
    TMP_AWAIT(fixture_phase(s, v.p, "friend") == PAWL_RUN_DONE);
    assert_in_range(atomic_load(&w.locked), 1, LOCKED / 2);
    unlock(a);
    pawl_close(client);
    served_end(&v);
}

/* Rows without a run: one is locked for longer than the test takes, the other one is not. */
static void leftovers_that_are_locked(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2, .busy_ms = 3600000));
    app *a = app_open(c), *other = app_open(c);
    app_do(a, "INSERT INTO pawl.journal (run, generation, seq, kind, name, at)"
              " VALUES (900000001, 1, 1, 1, '', 0), (900000002, 1, 1, 1, '', 0)");
    app_do(a, "BEGIN");
    app_do(a, "SELECT pos FROM pawl.journal WHERE run = 900000001 FOR UPDATE");
    served_begin(&v);
    TMP_AWAIT(app_number(other, "SELECT count(*) FROM pawl.journal WHERE run > 900000000") == 1);
    unlock(a);
    app_close(other);
    served_end(&v);
}

static int why_tells(pawl *p, const char *id)
{
    char *text;
    assert_int_equal(pawl_why(p, id, &text), PAWL_OK);
    int tells = strstr(text, "Another transaction keeps its row locked, in process ") != NULL;
    pawl_free(text);
    return tells;
}

/* pawl_why() tells every caller of the lock, and only while it is there. */
static void why_tells_of_it(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 2));
    engine_fixture *s = v.fixture;
    pawl *client = fixture_open(s, PAWL_OPTIONS(.look_only = 1));
    FIXTURE_REGISTER(s, v.p, walk);
    served_begin(&v);
    fixture_start(s, v.p, "walk", "victim", "\"victim\"");
    fixture_start(s, v.p, "walk", "friend", "\"victim's friend\"");
    TMP_AWAIT(fixture_count(s, "{\"of\":\"victim\",\"step\":0}") == 1);
    assert_false(why_tells(v.p, "victim"));
    app *a = lock_victim(c);
    TMP_AWAIT(why_tells(v.p, "victim"));
    assert_true(why_tells(client, "victim"));
    assert_false(why_tells(client, "friend"));
    unlock(a);
    TMP_AWAIT(!why_tells(client, "victim"));
    atomic_store(fixture_number(s, GO), 1);
    TMP_AWAIT(fixture_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    pawl_close(client);
    served_end(&v);
}

/* ---- What is in the outbox for it ---- */

static const char *receiver(pawl_run *run, const char *input)
{
    const char *first, *second;
    (void)input;
    pawl_receive(run, "box", PAWL_FOREVER, &first);
    pawl_receive(run, "box", PAWL_FOREVER, &second);
    return pawl_json(run, "[%j,%j]", first, second);
}

/* A node passes over what is for the locked run, and tries it again. Everything else is moved. */
static void the_relay_delivers_rows_for_other_runs(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    engine_fixture *s = v.fixture;
    fixture_run_clock(s);
    v.p = fixture_open(s, PAWL_OPTIONS(.threads = 2, .log = listen, .log_arg = s));
    FIXTURE_REGISTER(s, v.p, receiver);
    FIXTURE_REGISTER(s, v.p, walk);
    fixture_start(s, v.p, "receiver", "victim", "1");
    fixture_start(s, v.p, "receiver", "friend", "1");
    app *locker = lock_victim(c);
    outbox_fixture x = {s, v.p, app_open(c)};
    served_begin(&v);
    BEGIN(x);
    SEND_IN(x, "victim", "1", NULL, PAWL_OK);
    SEND_IN(x, "friend", "1", NULL, PAWL_OK);
    SEND_IN(x, "victim", "2", NULL, PAWL_OK);
    SEND_IN(x, "friend", "2", NULL, PAWL_OK);
    START_IN(x, "walk", "new", "\"new\"", PAWL_OK);
    COMMIT(x);
    TMP_AWAIT(fixture_phase(s, v.p, "friend") == PAWL_RUN_DONE);
    TMP_AWAIT(LEFT(x) == 2 && fixture_phase(s, v.p, "new") == PAWL_RUN_DONE);
    TMP_AWAIT(atomic_load(fixture_number(s, PASSED)) == 1);
    assert_int_equal(atomic_load(fixture_number(s, MOVED)), 0);
    unlock(locker);
    TMP_AWAIT(fixture_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    TMP_AWAIT(atomic_load(fixture_number(s, MOVED)) == 1);
    assert_int_equal(atomic_load(fixture_number(s, PASSED)), 1);
    app_close(x.a);
    served_stop(&v);
    FIXTURE_DONE(s, v.p, "victim", "[1,2]");
    FIXTURE_DONE(s, v.p, "friend", "[1,2]");
    pawl_close(v.p);
    fixture_free(s);
}

/* The log is told of the end also when another engine has moved the rows. */
static void another_relay_delivers_the_rows(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    engine_fixture *s = v.fixture;
    fixture_run_clock(s);
    v.p = fixture_open(s, PAWL_OPTIONS(.threads = 2, .log = listen, .log_arg = s));
    FIXTURE_REGISTER(s, v.p, receiver);
    fixture_start(s, v.p, "receiver", "victim", "1");
    app *locker = lock_victim(c);
    outbox_fixture x = {s, v.p, app_open(c)};
    served_begin(&v);
    BEGIN(x);
    SEND_IN(x, "victim", "1", NULL, PAWL_OK);
    COMMIT(x);
    TMP_AWAIT(atomic_load(fixture_number(s, PASSED)) == 1);
    conf_script(handle_db(v.p), "DELETE FROM {outbox}");
    TMP_AWAIT(atomic_load(fixture_number(s, MOVED)) == 1);
    unlock(locker);
    app_close(x.a);
    served_end(&v);
}

enum { LETTERS = 1100 };

static void send_letters(outbox_fixture *x)
{
    char text[16];
    app_do(x->a, "BEGIN");
    for (int i = 1; i <= LETTERS; i++) {
        snprintf(text, sizeof text, "%d", i);
        SEND_IN(*x, "victim", text, i % 3 ? NULL : text, PAWL_OK);
        if (i % 100 == 0)
            SEND_IN(*x, "friend", text, NULL, PAWL_OK);
    }
    app_do(x->a, "COMMIT");
}

/* pawl_outbox_flush() moves all other rows, more than a page of them, and answers that some were
 * left. */
static void a_flush_leaves_rows_for_a_locked_run(conf *c)
{
    outbox_fixture x = {.s = fixture_new(c), .a = app_open(c)};
    fixture_run_clock(x.s);
    x.p = fixture_open(x.s, PAWL_OPTIONS(.threads = 1));
    fixture_start(x.s, x.p, "receiver", "victim", "1");
    fixture_start(x.s, x.p, "receiver", "friend", "1");
    send_letters(&x);
    app *locker = lock_victim(c);
    FIXTURE_CODE(x.s, x.p, pawl_outbox_flush(x.p), PAWL_BUSY);
    assert_non_null(strstr(pawl_errdetail(x.p), "victim"));
    assert_int_equal(LEFT(x), LETTERS);
    assert_int_equal(MESSAGES(x), LETTERS / 100);
    unlock(locker);
    FLUSH(x);
    assert_int_equal(LEFT(x), 0);
    assert_int_equal(MESSAGES(x), LETTERS + LETTERS / 100);
    assert_int_equal(
        app_number(x.a, "SELECT count(*) FROM pawl.inbox AS i JOIN pawl.runs AS r ON r.run = i.run"
                        " WHERE r.id = 'victim' AND convert_from(i.data, 'UTF8')::bigint = i.seq"),
        LETTERS);
    app_close(x.a);
    pawl_close(x.p);
    fixture_free(x.s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a run that is being executed", a_run_that_is_being_executed, 0},
        {"a run that is to be claimed", a_run_that_is_to_be_claimed, 0},
        {"a record that has failed before", a_record_that_has_failed_before, 0},
        {"messages to a locked run and to others", messages_to_a_locked_run_and_to_others, 0},
        {"stopping while it is locked", stopping_while_it_is_locked, 0},
        {"a deadline behind locked ones", a_deadline_behind_locked_ones, 0},
        {"deadlines of locked runs", deadlines_of_locked_runs, 0},
        {"leftovers that are locked", leftovers_that_are_locked, 0},
        {"why tells of it", why_tells_of_it, 0},
        {"the relay delivers rows for other runs", the_relay_delivers_rows_for_other_runs, 0},
        {"another relay delivers the rows", another_relay_delivers_the_rows, 0},
        {"a flush leaves rows for a locked run", a_flush_leaves_rows_for_a_locked_run, 0},
    };
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
