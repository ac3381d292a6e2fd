/* The committer, part 3: every unit is answered, in time, and no caller waits for ever.
 *
 * Rule 2 and rule 5 of committer.h where a unit is easily forgotten: behind units that cannot go
 * on; handed in while another thread leads or while the committer is being closed; or handed in by
 * a thread that the leader itself waits for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "db/commit_leader.h"
#include "support/committer_fixture.h"

static void expect_busy(const conf_ticket *t)
{
    CONF_ANSWER(t, UNIT_FAILED);
    assert_int_equal(t->unit->code, PAWL_BUSY);
    assert_non_null(t->unit->message);
}

/* The next commit loses its answer, and asking the database gives none for this many times. */
static void lose_next_commit(committer_fixture *b, int64_t unknown_times)
{
    b->plan.lose_commit = b->plan.commits + 1;
    b->plan.unknown_times = unknown_times;
}

/* ---- The order of answers ---- */

typedef struct listener {
    waiter w;
    int told;       /* `done` of the unit that no thread waits for was called … */
    int told_first; /* … before that of the unit with the waiter, and before the waiter was woken */
} listener;

static void note_unawaited(unit *u, void *arg)
{
    (void)u;
    ((listener *)arg)->told = 1;
}

static void note_awaited(unit *u, void *arg)
{
    listener *l = arg;
    (void)u;
    l->told_first = l->told && !waiter_is_finished(&l->w);
}

/* A unit with a waiter is answered behind the others of its batch, though it was handed in first.
 * No thread waits here: the unit is given a waiter as committer_commit() would. */
static void units_without_a_waiter_are_answered_first(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    listener l = {.told = 0};
    conf_ticket t[2];
    conf_ticket_append_class(&t[0], 1, 0, UNIT_OF_CLIENT);
    conf_ticket_append_class(&t[1], 2, 0, UNIT_OF_RUN);
    assert_int_equal(waiter_init(&l.w), 0);
    t[0].unit->done = note_awaited;
    t[1].unit->done = note_unawaited;
    t[0].unit->done_arg = t[1].unit->done_arg = &l;
    committer_submit(b.k, t[0].unit);
    t[0].unit->waiter = &l.w;
    waiters_add(&b.k->waiters, &l.w);
    committer_submit(b.k, t[1].unit);
    assert_int_equal(committer_drive(b.k), 1);
    assert_true(waiter_is_finished(&l.w));
    assert_true(l.told_first);
    waiter_destroy(&l.w);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

/* ---- Patience (rule 5) ---- */

/* Nothing is written while a commit is undecided; that is no reason to keep a client. */
static void a_deadline_passes_behind_an_undecided_batch(conf *c)
{
    committer_fixture b;
    committer_fixture_open_fault(&b, c, (committer_options){.busy_ms = 100}, (db_options){0});
    conf_ticket t[3];
    conf_ticket_append_class(&t[0], 1, 0, UNIT_OF_RUN);
    conf_ticket_append_class(&t[1], 2, 0, UNIT_OF_CLIENT);
    conf_ticket_append_class(&t[2], 3, 0, UNIT_OF_RUN);
    lose_next_commit(&b, 100);
    committer_submit(b.k, t[0].unit);
    committer_drive(b.k);
    assert_int_equal(t[0].undecided, 1);
    committer_submit(b.k, t[1].unit);
    committer_submit(b.k, t[2].unit);
    clock_fake_advance(b.clock, 90);
    committer_drive(b.k);
    assert_int_equal(t[1].finals, 0);
    clock_fake_advance(b.clock, 20);
    committer_drive(b.k);
    expect_busy(&t[1]);
    assert_int_equal(t[0].finals, 0);
    assert_int_equal(t[2].finals, 0);
    assert_int_equal(committer_stats_now(b.k).busy, 1);
    conf_drive(b.k, b.clock, t, 3);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, 2), 0);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

/* A client that no batch has reached yet has no less patience than the first one in the queue; and
 * those around it stay, in their order. */
static void a_deadline_passes_behind_more_than_a_batch(conf *c)
{
    enum { COUNT = 8 };
    committer_fixture b;
    committer_fixture_open_fault(&b, c, (committer_options){.busy_ms = 100, .batch_units = 2},
                                 (db_options){0});
    db_conn *other = conf_lock(b.db);
    submitter s = {0};
    conf_ticket t[COUNT];
    for (int i = 0; i < COUNT; i++) {
        int client = i == 5 || i == 7;
        conf_ticket_append(&t[i], client ? 2 : 1, i, client ? NULL : &s);
        t[i].unit->class = client ? UNIT_OF_CLIENT : UNIT_OF_RUN;
        if (i == 7) /* comes later, so its time is not over with the other's */
            clock_fake_advance(b.clock, 60);
        committer_submit(b.k, t[i].unit);
    }
    committer_drive(b.k);
    clock_fake_advance(b.clock, 60);
    committer_drive(b.k);
    expect_busy(&t[5]);
    for (int i = 0; i < COUNT; i++)
        assert_int_equal(t[i].finals, i == 5);
    conf_unlock(other);
    clock_fake_advance(b.clock, 30);
    conf_drive(b.k, NULL, t, COUNT);
    for (int i = 0; i < COUNT; i++)
        if (i != 5)
            CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, 1), COUNT - 2);
    assert_int_equal(conf_rows(b.db, 2), 1);
    conf_tickets_free(t, COUNT);
    committer_fixture_close(&b);
}

/* ---- Giving up ---- */

/* Units of runs are answered although the outcome of a commit is unknown. Units of clients wait on,
 * and none of them is written before the outcome is known. */
static void give_up(conf *c, int happened)
{
    committer_fixture b;
    committer_fixture_open_fault(&b, c, (committer_options){.busy_ms = 100000}, (db_options){0});
    conf_ticket t[3];
    conf_ticket_append_class(&t[0], 1, 0, UNIT_OF_RUN);
    conf_ticket_append_class(&t[1], 2, 0, UNIT_OF_CLIENT);
    conf_ticket_append_class(&t[2], 3, 0, UNIT_OF_RUN);
    lose_next_commit(&b, 3);
    b.plan.lose_happened = happened;
    committer_submit(b.k, t[0].unit);
    committer_drive(b.k);
    committer_submit(b.k, t[1].unit);
    committer_submit(b.k, t[2].unit);
    assert_int_equal(committer_flush_runs(b.k, 0), 0);
    committer_give_up_runs(b.k);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    assert_int_equal(t[0].unit->code, PAWL_UNDECIDED);
    CONF_ANSWER(&t[2], UNIT_FAILED);
    assert_int_equal(t[2].unit->code, PAWL_CLOSED);
    assert_int_equal(t[1].finals, 0);
    assert_int_equal(committer_flush_runs(b.k, 0), 1);
    conf_drive(b.k, b.clock, t, 3);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, 1), happened);
    assert_int_equal(conf_rows(b.db, 2), 1);
    assert_int_equal(conf_rows(b.db, 3), 0);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

static void units_of_runs_can_be_given_up(conf *c)
{
    give_up(c, 0);
}

static void a_unit_that_was_given_up_may_be_committed(conf *c)
{
    give_up(c, 1);
}

/* ---- By hand ---- */

/* By hand nothing blocks, not even where all connections share one handle and its lock (C1): a
 * thread that reads and writes would wait for itself. */
static void by_hand_no_unit_waits_for_a_reader(conf *c)
{
    static const db_sql COUNT = {"SELECT count(*) FROM {journal}", ""};
    committer_fixture b;
    committer_fixture_open_fault(&b, c, (committer_options){0}, (db_options){0});
    db_conn *reader = conf_connect(b.db, DB_READER);
    conf_begin(reader);
    assert_int_equal(conf_number_on(reader, &COUNT, NULL, 0), 0);
    int isolated = (c->promises & DB_ISOLATED) != 0;
    error err = {0};
    db_conn *writer = conf_connect(b.db, DB_WRITER);
    assert_int_equal(db_begin(writer, &err), isolated ? PAWL_OK : PAWL_BUSY);
    if (isolated)
        db_rollback(writer);
    else
        assert_true(err.message[0]);
    db_disconnect(writer);
    conf_ticket t;
    conf_ticket_append_class(&t, 1, 0, UNIT_OF_RUN);
    committer_submit(b.k, t.unit);
    committer_drive(b.k);
    assert_int_equal(t.finals, isolated);
    assert_int_equal(conf_number_on(reader, &COUNT, NULL, 0), 0);
    db_rollback(reader);
    db_disconnect(reader);
    conf_drive(b.k, b.clock, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* ---- While another thread leads ---- */

/* Stops the first thread that begins a transaction. */
typedef struct gate {
    atomic_int begun;
    atomic_int open;
} gate;

static void hold_the_leader(void *arg, int64_t number, fault_call call, const char *sql)
{
    (void)number, (void)sql;
    gate *g = arg;
    if (call == FAULT_CALL_BEGIN && atomic_fetch_add(&g->begun, 1) == 0)
        TMP_AWAIT(atomic_load(&g->open));
}

static void *drive_once(void *arg)
{
    committer_drive(arg);
    return NULL;
}

/* committer_leave() says that its thread does not come back. The leader of that moment may not come
 * back either, so the helper thread must have been told. */
static void committer_leave_wakes_the_helper(conf *c)
{
    gate g = {0};
    db_fault plan = {.before = hold_the_leader, .before_arg = &g};
    db *d = conf_open_fault(c, NULL, &plan);
    committer *k = conf_committer(d, &(committer_options){.batch_units = 1});
    conf_ticket t[3];
    for (int i = 0; i < 3; i++)
        conf_ticket_append_class(&t[i], 1, i, UNIT_OF_RUN);
    committer_submit(k, t[0].unit);
    pthread_t leader;
    assert_int_equal(pthread_create(&leader, NULL, drive_once, k), 0);
    TMP_AWAIT(atomic_load(&g.begun) == 1);
    committer_submit(k, t[1].unit);
    committer_submit(k, t[2].unit);
    committer_leave(k);
    atomic_store(&g.open, 1);
    pthread_join(leader, NULL);
    for (int i = 0; i < 3; i++)
        TMP_AWAIT(atomic_load(&t[i].finals) == 1);
    committer_close(k);
    for (int i = 0; i < 3; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_int_equal(conf_rows(d, 1), 3);
    db_close(d);
    conf_tickets_free(t, 3);
}

/* An application's log that waits for one of its own threads, which is just handing in a unit. */
typedef struct log_fixture {
    committer *k;
    conf_ticket t[3];
    atomic_int heard;    /* events so far */
    atomic_int answered; /* by the other thread */
    char events[2][32];
} log_fixture;

static void log_and_wait(int level, const char *event, const char *fields, void *arg)
{
    (void)level, (void)fields;
    log_fixture *s = arg;
    int nr = atomic_load(&s->heard);
    if (nr == 2 || strncmp(event, "commit-", 7) != 0)
        return;
    snprintf(s->events[nr], sizeof s->events[nr], "%s", event);
    atomic_store(&s->heard, nr + 1);
    TMP_AWAIT(atomic_load(&s->answered) == nr + 1);
}

static void *submit_when_heard(void *arg)
{
    log_fixture *s = arg;
    for (int nr = 1; nr <= 2; nr++) {
        TMP_AWAIT(atomic_load(&s->heard) == nr);
        committer_submit(s->k, s->t[nr].unit);
        atomic_store(&s->answered, nr);
    }
    return NULL;
}

/* Rule 6: user code, and a log is some, is never called with the lock held. */
static void the_log_is_written_without_the_lock(conf *c)
{
    log_fixture s = {.heard = 0};
    committer_fixture b;
    committer_fixture_open_fault(&b, c, (committer_options){0},
                                 (db_options){.log = {log_and_wait, &s}});
    s.k = b.k;
    for (int i = 0; i < 3; i++)
        conf_ticket_append_class(&s.t[i], 1, i, UNIT_OF_RUN);
    pthread_t other;
    assert_int_equal(pthread_create(&other, NULL, submit_when_heard, &s), 0);
    lose_next_commit(&b, 0);
    committer_submit(b.k, s.t[0].unit);
    conf_drive(b.k, b.clock, s.t, 1);
    pthread_join(other, NULL);
    conf_drive(b.k, b.clock, s.t, 3);
    assert_string_equal(s.events[0], "commit-undecided");
    assert_string_equal(s.events[1], "commit-decided");
    CONF_ANSWER(&s.t[0], UNIT_FAILED);
    CONF_ANSWER(&s.t[1], UNIT_COMMITTED);
    CONF_ANSWER(&s.t[2], UNIT_COMMITTED);
    conf_tickets_free(s.t, 3);
    committer_fixture_close(&b);
}

/* ---- While everything is being closed ---- */

/* A unit whose owner, once answered, tries again with another one. */
typedef struct resubmitter {
    committer *k;
    unit *next;
    void (*done)(unit *u, void *arg);
    void *done_arg;
} resubmitter;

static void answer_and_submit(unit *u, void *arg)
{
    resubmitter *a = arg;
    unit_answer answer = u->answer;
    a->done(u, a->done_arg);
    if (answer != UNIT_UNDECIDED)
        committer_submit(a->k, a->next);
}

static void count_unknown(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    if (strcmp(event, "commit-unknown") == 0 &&
        strstr(fields, "units=1 why=\"the engine is closed\""))
        ++*(int *)arg;
}

/* Rule 2 holds to the end: what a `done` hands in while the committer closes is answered too,
 * whether that one was committed, came too late, or will never be known. */
static void closing_answers_a_unit_that_is_handed_in_again(conf *c)
{
    for (int lost = 0; lost <= 1; lost++) {
        int unknown = 0;
        committer_fixture b;
        committer_fixture_open_fault(&b, c, (committer_options){.batch_units = 1},
                                     (db_options){.log = {count_unknown, &unknown}});
        conf_ticket t[4];
        resubmitter a[2];
        for (int i = 0; i < 4; i++)
            conf_ticket_append_class(&t[i], lost, i, UNIT_OF_RUN);
        for (int i = 0; i < 2; i++) {
            unit *u = t[i].unit;
            a[i] = (resubmitter){b.k, t[i + 2].unit, u->done, u->done_arg};
            u->done = answer_and_submit;
            u->done_arg = &a[i];
        }
        if (lost)
            lose_next_commit(&b, 1000);
        committer_submit(b.k, t[0].unit);
        if (lost)
            committer_drive(b.k);
        committer_submit(b.k, t[1].unit);
        committer_close(b.k);
        b.k = NULL;
        CONF_ANSWER(&t[0], lost ? UNIT_FAILED : UNIT_COMMITTED);
        assert_int_equal(t[0].unit->code, lost ? PAWL_UNDECIDED : PAWL_OK);
        CONF_ANSWER(&t[1], lost ? UNIT_FAILED : UNIT_COMMITTED);
        assert_int_equal(t[1].unit->code, lost ? PAWL_CLOSED : PAWL_OK);
        for (int i = 2; i < 4; i++) {
            CONF_ANSWER(&t[i], UNIT_FAILED);
            assert_int_equal(t[i].unit->code, PAWL_CLOSED);
            assert_non_null(t[i].unit->message);
        }
        assert_int_equal(conf_rows(b.db, lost), lost ? 0 : 2);
        assert_int_equal(unknown, lost);
        conf_tickets_free(t, 4);
        committer_fixture_close(&b);
    }
}

/* ---- Rules that only the commit looks at ---- */

/* A server looks at references unasked; SQLite wants to be told. */
static int check_references(void *native, void *arg)
{
    const conf *c = arg;
    return c->server ? 0 : sqlite3_exec(native, "PRAGMA foreign_keys=ON", NULL, NULL, NULL);
}

static const db_sql REFER = {"INSERT INTO {app_child} (parent) VALUES ($1)", "i"};
static const db_sql REFERRING = {"SELECT count(*) FROM {app_child}", ""};

static void open_with_references(committer_fixture *b, conf *c)
{
    committer_fixture_open_fault(b, c, (committer_options){0},
                                 (db_options){.on_connect = check_references, .on_connect_arg = c});
    conf_script(b->db, "CREATE TABLE IF NOT EXISTS {app_parent} (id INTEGER PRIMARY KEY);"
                       "CREATE TABLE IF NOT EXISTS {app_child} (parent INTEGER REFERENCES"
                       " {app_parent} (id) DEFERRABLE INITIALLY DEFERRED);");
}

static void ticket_refers(conf_ticket *t, int64_t run, int64_t seq, submitter *s)
{
    conf_ticket_append(t, run, seq, s);
    unit_write(t->unit, &REFER, unit_key("app_child", seq), (db_value[]){db_int(77)}, 1);
}

/* A commit that breaks a rule has not happened, for sure: it is no undecided one. And it is the
 * fault of one unit, not of its neighbours. */
static void a_unit_that_breaks_a_rule_at_the_commit_fails_alone(conf *c)
{
    enum { COUNT = 5 };
    for (int guilty = 0; guilty < COUNT; guilty++) {
        committer_fixture b;
        open_with_references(&b, c);
        conf_ticket t[COUNT];
        for (int i = 0; i < COUNT; i++) {
            if (i == guilty)
                ticket_refers(&t[i], guilty, i, NULL);
            else
                conf_ticket_append(&t[i], guilty, i, NULL);
            committer_submit(b.k, t[i].unit);
        }
        conf_drive(b.k, b.clock, t, COUNT);
        for (int i = 0; i < COUNT; i++) {
            CONF_ANSWER(&t[i], i == guilty ? UNIT_FAILED : UNIT_COMMITTED);
            assert_int_equal(t[i].undecided, 0);
        }
        assert_int_equal(t[guilty].unit->code, PAWL_DATA);
        assert_non_null(t[guilty].unit->message);
        assert_int_equal(conf_rows(b.db, guilty), COUNT - 1);
        assert_int_equal(conf_number(b.db, &REFERRING, NULL, 0), 0);
        conf_tickets_free(t, COUNT);
        committer_fixture_close(&b);
    }
}

/* Rule 3 there: what its submitter handed in before stays, what came after does not. */
static void after_it_the_later_units_of_its_submitter_are_refused(conf *c)
{
    committer_fixture b;
    open_with_references(&b, c);
    submitter s = {0};
    conf_ticket t[5];
    conf_ticket_append(&t[0], 1, 1, &s);
    ticket_refers(&t[1], 1, 2, &s);
    conf_ticket_append(&t[2], 2, 1, NULL);
    conf_ticket_append(&t[3], 1, 3, &s);
    conf_ticket_append(&t[4], 1, 4, &s);
    for (int i = 0; i < 4; i++)
        committer_submit(b.k, t[i].unit);
    conf_drive(b.k, b.clock, t, 4);
    committer_submit(b.k, t[4].unit); /* in a batch of its own */
    conf_drive(b.k, b.clock, &t[4], 1);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_FAILED);
    assert_int_equal(t[1].unit->code, PAWL_DATA);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    for (int i = 3; i < 5; i++) {
        CONF_ANSWER(&t[i], UNIT_REFUSED);
        assert_string_equal(t[i].unit->refused, "prefix");
    }
    assert_int_equal(conf_rows(b.db, 1), 1);
    conf_tickets_free(t, 5);
    committer_fixture_close(&b);
}

static const conf_case CASES[] = {
    {"units without a waiter are answered first", units_without_a_waiter_are_answered_first, 0},
    {"a deadline passes behind an undecided batch", a_deadline_passes_behind_an_undecided_batch, 0},
    {"a deadline passes behind more than a batch", a_deadline_passes_behind_more_than_a_batch, 0},
    {"units of runs can be given up", units_of_runs_can_be_given_up, 0},
    {"a unit that was given up may be committed", a_unit_that_was_given_up_may_be_committed, 0},
    {"by hand, no unit waits for a reader", by_hand_no_unit_waits_for_a_reader, 0},
    {"committer_leave() wakes the helper", committer_leave_wakes_the_helper, 0},
    {"the log is written without the lock", the_log_is_written_without_the_lock, 0},
    {"closing answers a unit that is handed in again",
     closing_answers_a_unit_that_is_handed_in_again, 0},
    {"a unit that breaks a rule at the commit fails alone",
     a_unit_that_breaks_a_rule_at_the_commit_fails_alone, 0},
    {"after it the later units of its submitter are refused",
     after_it_the_later_units_of_its_submitter_are_refused, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
