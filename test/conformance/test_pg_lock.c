/* A row that another transaction keeps locked: the unit that needs it waits, and no other unit does
 * (rule 8 of committer.h, L4). Otherwise such a lock stops all that the committer has.
 *
 * The lock is the application's, on a connection without pawl, and is kept until the test has seen
 * what goes on meanwhile: nothing here depends on how long anything takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/committer.h"
#include "support/app.h"

enum { RUNS = 40 /* as the script below has it */, EACH = 3, LOCKED = 7 };

/* The condition of a run's owner, and a write behind it. */
static const db_sql RAISE = {
    "UPDATE {runs} SET fence = fence + 1 WHERE run = $1 AND fence = $2 RETURNING fence", "ii"};
static const db_sql FENCE = {"SELECT fence FROM {runs} WHERE run = $1", "i"};

static app *lock_run(const conf *c, int64_t run)
{
    char sql[128];
    app *a = app_open(c);
    app_do(a, "BEGIN");
    snprintf(sql, sizeof sql, "SELECT run FROM pawl.runs WHERE run = %lld FOR UPDATE",
             (long long)run);
    app_do(a, sql);
    return a;
}

static void unlock(app *a)
{
    app_do(a, "ROLLBACK");
    app_close(a);
}

/* A unit that raises the fence of a run from `seq`, and appends a row. */
static void make(conf_ticket *t, int64_t run, int64_t seq, submitter *s)
{
    conf_ticket_open(t, 0);
    t->unit->submitter = s;
    unit_guard(t->unit, &RAISE, "fence", unit_key("runs", run),
               (db_value[]){db_int(run), db_int(seq)}, 2);
    unit_write(t->unit, &CONF_APPEND, unit_key("journal", run),
               (db_value[]){db_int(run), db_int(seq), db_text(SLICE_LIT("row")), db_null()}, 4);
}

/* Several units of many runs, in the order in which they would come. */
typedef struct crowd {
    conf_ticket t[RUNS * EACH];
    submitter s[RUNS];
} crowd;

static crowd *crowd_new(db *d)
{
    crowd *w = calloc(1, sizeof *w);
    assert_non_null(w);
    conf_script(d, "INSERT INTO pawl.runs (run, tenant, id, workflow, version, mail, created_at,"
                   " updated_at) SELECT g, '', 'run-' || g, 'test', '1', 0, 0, 0"
                   " FROM generate_series(1, 40) AS g");
    for (int i = 0; i < RUNS * EACH; i++)
        make(&w->t[i], i % RUNS + 1, i / RUNS, &w->s[i % RUNS]);
    return w;
}

static void crowd_free(crowd *w)
{
    conf_tickets_free(w->t, (size_t)RUNS * EACH);
    free(w);
}

static int is_of_locked(int i)
{
    return i % RUNS + 1 == LOCKED;
}

static int others_are_done(crowd *w)
{
    for (int i = 0; i < RUNS * EACH; i++)
        if (!is_of_locked(i) && atomic_load(&w->t[i].finals) == 0)
            return 0;
    return 1;
}

static void expect_locked_open(crowd *w)
{
    for (int i = 0; i < RUNS * EACH; i++)
        if (is_of_locked(i))
            assert_int_equal(atomic_load(&w->t[i].finals), 0);
}

static void expect_all_committed(db *d, crowd *w)
{
    for (int i = 0; i < RUNS * EACH; i++)
        CONF_ANSWER(&w->t[i], UNIT_COMMITTED);
    for (int64_t run = 1; run <= RUNS; run++) {
        assert_int_equal(conf_rows(d, run), EACH);
        assert_int_equal(conf_number(d, &FENCE, (db_value[]){db_int(run)}, 1), EACH);
    }
}

/* In one batch, in small ones, and each alone. */
static void one_locked_row_stops_its_run_only(conf *c)
{
    static const int64_t BATCHES[] = {1024, 16, 1};
    for (size_t b = 0; b < sizeof BATCHES / sizeof *BATCHES; b++) {
        db *d = conf_open(c, NULL);
        committer *k = conf_committer(d, &(committer_options){.batch_units = BATCHES[b]});
        conf_script(d, "DELETE FROM pawl.runs; DELETE FROM pawl.journal");
        crowd *w = crowd_new(d);
        app *a = lock_run(c, LOCKED);
        for (int i = 0; i < RUNS * EACH; i++)
            committer_submit(k, w->t[i].unit);
        committer_leave(k);
        TMP_AWAIT(others_are_done(w));
        expect_locked_open(w);
        assert_int_equal(committer_stats_now(k).locked, 1);
        assert_int_equal(committer_is_idle(k), 0);
        unlock(a);
        committer_flush(k);
        expect_all_committed(d, w);
        assert_int_equal(committer_is_idle(k), 1);
        committer_close(k);
        crowd_free(w);
        db_close(d);
    }
}

/* What comes later goes on too, and what its submitter hands in later waits behind it. */
static void runs_that_come_later_go_on(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    submitter s = {0};
    conf_ticket stuck[3], t;
    conf_make_run(d, 1, 0);
    conf_make_run(d, 2, 0);
    app *a = lock_run(c, 1);
    for (int i = 0; i < 3; i++)
        make(&stuck[i], 1, i, &s);
    committer_submit(k, stuck[0].unit);
    TMP_AWAIT(committer_stats_now(k).locked == 1);
    committer_submit(k, stuck[1].unit);
    for (int i = 0; i < 20; i++) {
        make(&t, 2, i, NULL);
        assert_int_equal(committer_commit(k, t.unit), PAWL_OK);
        conf_ticket_free(&t);
    }
    committer_submit(k, stuck[2].unit);
    for (int i = 0; i < 3; i++)
        assert_int_equal(atomic_load(&stuck[i].finals), 0);
    unlock(a);
    for (int i = 0; i < 3; i++)
        TMP_AWAIT(atomic_load(&stuck[i].finals) == 1);
    for (int i = 0; i < 3; i++)
        CONF_ANSWER(&stuck[i], UNIT_COMMITTED);
    assert_int_equal(conf_rows(d, 1), 3);
    conf_tickets_free(stuck, 3);
    committer_close(k);
    db_close(d);
}

/* The row has changed under the lock: the unit is refused, and those behind it by the prefix. */
static void a_unit_that_waited_for_a_lock_may_be_refused(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    submitter s = {0};
    conf_ticket t[2];
    conf_make_run(d, 1, 0);
    app *a = lock_run(c, 1);
    app_do(a, "UPDATE pawl.runs SET fence = 9 WHERE run = 1");
    for (int i = 0; i < 2; i++) {
        make(&t[i], 1, i, &s);
        committer_submit(k, t[i].unit);
    }
    TMP_AWAIT(committer_stats_now(k).locked == 1);
    app_do(a, "COMMIT");
    app_close(a);
    committer_flush(k);
    for (int i = 0; i < 2; i++)
        CONF_ANSWER(&t[i], UNIT_REFUSED);
    assert_string_equal(t[0].unit->refused, "fence");
    assert_string_equal(t[1].unit->refused, "prefix");
    conf_tickets_free(t, 2);
    committer_close(k);
    db_close(d);
}

static void a_client_s_unit_is_answered_busy(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, &(committer_options){.busy_ms = 1000});
    conf_ticket t[3];
    conf_make_run(d, 1, 0);
    conf_make_run(d, 2, 0);
    app *a = lock_run(c, 1);
    make(&t[0], 1, 0, NULL);
    t[0].unit->class = UNIT_OF_CLIENT;
    assert_int_equal(committer_commit(k, t[0].unit), PAWL_BUSY);
    assert_non_null(strstr(t[0].unit->message, "locked"));
    make(&t[1], 1, 0, NULL); /* also one without a waiting thread */
    t[1].unit->class = UNIT_OF_CLIENT;
    committer_submit(k, t[1].unit);
    TMP_AWAIT(atomic_load(&t[1].finals) == 1);
    CONF_ANSWER(&t[1], UNIT_FAILED);
    assert_int_equal(t[1].unit->code, PAWL_BUSY);
    unlock(a);
    assert_int_equal(conf_rows(d, 1), 0);
    make(&t[2], 1, 0, NULL);
    t[2].unit->class = UNIT_OF_CLIENT;
    while (committer_commit(k, t[2].unit) != PAWL_OK)
        assert_int_equal(t[2].unit->code, PAWL_BUSY);
    assert_int_equal(conf_rows(d, 1), 1);
    for (int i = 0; i < 3; i++)
        conf_ticket_free(&t[i]);
    committer_close(k);
    db_close(d);
}

static void count_wait(unit *u, void *arg)
{
    conf_ticket *t = arg;
    assert_ptr_equal(t->unit, u);
    atomic_fetch_add(&t->late, 100);
}

/* The submitter is told that its unit waits, once; and units of runs can be given up. */
static void a_unit_that_waits_for_a_lock_reports_that_and_can_be_given_up(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    submitter s = {0};
    conf_ticket t[2];
    conf_make_run(d, 1, 0);
    app *a = lock_run(c, 1);
    for (int i = 0; i < 2; i++) {
        make(&t[i], 1, i, &s);
        t[i].unit->waits = count_wait;
        committer_submit(k, t[i].unit);
    }
    TMP_AWAIT(atomic_load(&t[0].late) == 100);
    int64_t now = clock_system()->mono_ns(clock_system());
    assert_int_equal(committer_flush_runs(k, now + 100000000), 0);
    assert_int_equal(atomic_load(&t[0].late), 100);
    assert_int_equal(atomic_load(&t[1].late), 0);
    committer_give_up_runs(k);
    atomic_store(&t[0].late, 0);
    for (int i = 0; i < 2; i++) {
        CONF_ANSWER(&t[i], UNIT_FAILED);
        assert_int_equal(t[i].unit->code, PAWL_CLOSED);
    }
    assert_int_equal(committer_is_idle(k), 1);
    unlock(a);
    conf_tickets_free(t, 2);
    committer_close(k);
    db_close(d);
}

static void closing_does_not_wait_for_a_lock(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    crowd *w = crowd_new(d);
    app *a = lock_run(c, LOCKED);
    for (int i = 0; i < RUNS * EACH; i++)
        committer_submit(k, w->t[i].unit);
    TMP_AWAIT(committer_stats_now(k).locked == 1);
    committer_close(k);
    for (int i = 0; i < RUNS * EACH; i++)
        CONF_ANSWER(&w->t[i], is_of_locked(i) ? UNIT_FAILED : UNIT_COMMITTED);
    unlock(a);
    assert_int_equal(conf_rows(d, LOCKED), 0);
    crowd_free(w);
    db_close(d);
}

static void by_hand_one_locked_row_stops_its_run_only_too(conf *c)
{
    db *d = conf_open(c, &(db_options){.by_hand = 1});
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    crowd *w = crowd_new(d);
    app *a = lock_run(c, LOCKED);
    for (int i = 0; i < RUNS * EACH; i++)
        committer_submit(k, w->t[i].unit);
    TMP_AWAIT((committer_drive(k), others_are_done(w)));
    expect_locked_open(w);
    assert_true(committer_next_ns(k) < INT64_MAX);
    unlock(a);
    TMP_AWAIT((committer_drive(k), committer_is_idle(k)));
    expect_all_committed(d, w);
    assert_int_equal(committer_next_ns(k), INT64_MAX);
    committer_close(k);
    crowd_free(w);
    db_close(d);
}

/* Locks that every transaction needs are no unit's trouble: nothing is set aside for them. */
static void locks_on_the_node_s_row_are_no_locks_of_a_unit(conf *c)
{
    db *d = conf_open(c, NULL);
    committer *k = conf_committer(d, NULL);
    conf_ticket t;
    conf_make_run(d, 1, 0);
    make(&t, 1, 0, NULL);
    assert_int_equal(committer_commit(k, t.unit), PAWL_OK); /* now there is a ring */
    conf_ticket_free(&t);
    app *a = app_open(c);
    app_do(a, "BEGIN");
    app_do(a, "SELECT * FROM pawl.commits FOR UPDATE");
    make(&t, 1, 1, NULL);
    committer_submit(k, t.unit);
    committer_leave(k);
    int64_t until = clock_system()->mono_ns(clock_system()) + 700000000;
    TMP_AWAIT(clock_system()->mono_ns(clock_system()) > until); /* two attempts in vain */
    assert_int_equal(committer_stats_now(k).locked, 0);
    unlock(a);
    TMP_AWAIT(atomic_load(&t.finals) == 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(committer_stats_now(k).locked, 0);
    conf_ticket_free(&t);
    committer_close(k);
    db_close(d);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"one locked row stops its run only", one_locked_row_stops_its_run_only, 0},
        {"runs that come later go on", runs_that_come_later_go_on, 0},
        {"a unit that waited for a lock may be refused",
         a_unit_that_waited_for_a_lock_may_be_refused, 0},
        {"a client's unit is answered BUSY", a_client_s_unit_is_answered_busy, 0},
        {"a unit that waits for a lock reports that, and can be given up",
         a_unit_that_waits_for_a_lock_reports_that_and_can_be_given_up, 0},
        {"closing does not wait for a lock", closing_does_not_wait_for_a_lock, 0},
        {"by hand one locked row stops its run only, too",
         by_hand_one_locked_row_stops_its_run_only_too, 0},
        {"locks on the node's row are no locks of a unit",
         locks_on_the_node_s_row_are_no_locks_of_a_unit, 0},
    };
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
