/* Several committers as one: everything is there, in the order of each submitter, and a journal has
 * no hole, as with one (A4). A node that is closed is shut out of every one of them (A1).
 *
 * Where the database writes one transaction at a time it is one committer, and all of it holds. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "db/committers.h"
#include "support/conf.h"

enum { COMMITTERS = 3, THREADS = 4, RUNS = 64, STEPS = 24, NODE = 9 };

static committers *open_them(db *d, const committer_options *options)
{
    error err = {0};
    committers *c = NULL;
    CONF_OK(committers_open(&c, d, options, COMMITTERS, &err), &err);
    assert_non_null(c);
    return c;
}

/* ---- Runs that write ---- */

typedef struct run {
    submitter submitter;
    int64_t key;
    int bad; /* the step that breaks it; 0: none */
    conf_ticket steps[STEPS];
    atomic_int answered;
    atomic_int astray; /* answers that came out of order */
} run;

/* Answers of one submitter come in its order, whichever committer gives them. */
static void note_answer(unit *u, void *arg)
{
    run *r = arg;
    if (u->order != atomic_fetch_add(&r->answered, 1) + 1)
        atomic_fetch_add(&r->astray, 1);
}

/* Step `seq`, from 1. The bad one is a row that is there already. */
static void make_step(run *r, int seq)
{
    conf_ticket *t = &r->steps[seq - 1];
    conf_ticket_append(t, r->key, seq == r->bad ? 1 : seq, &r->submitter);
    t->unit->done = note_answer;
    t->unit->done_arg = r;
}

typedef struct writer {
    committers *all;
    run *runs;
    int count;
} writer;

/* All runs in turn, a step each: so every batch has units of many. Nothing of cmocka in here, but
 * for what conf_ticket_append() asserts. */
static void *write_runs(void *arg)
{
    writer *w = arg;
    for (int seq = 1; seq <= STEPS; seq++) {
        for (int i = 0; i < w->count; i++) {
            run *r = &w->runs[i];
            make_step(r, seq);
            committer_submit(committers_of(w->all, (uint64_t)r->key), r->steps[seq - 1].unit);
        }
        if (seq % 5 == 0)
            committers_leave(w->all);
    }
    return NULL;
}

static void write_all(committers *c, run *runs)
{
    pthread_t threads[THREADS];
    writer writers[THREADS];
    for (int i = 0; i < RUNS; i++)
        runs[i].key = 1000 + i;
    for (int i = 0; i < THREADS; i++) {
        writers[i] = (writer){c, runs + i * (RUNS / THREADS), RUNS / THREADS};
        assert_int_equal(pthread_create(&threads[i], NULL, write_runs, &writers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_true(committers_flush_runs(c, INT64_MAX));
}

static void free_runs(run *runs)
{
    for (int i = 0; i < RUNS; i++)
        conf_tickets_free(runs[i].steps, STEPS);
    test_free(runs);
}

/* ---- Tests ---- */

static void there_are_as_many_committers_as_the_database_can_use(conf *c)
{
    db *d = conf_open(c, NULL);
    committers *all = open_them(d, NULL);
    int count = committers_count(all);
    assert_int_equal(count, c->promises & DB_TURNS ? 1 : COMMITTERS);
    int share[COMMITTERS] = {0};
    for (uint64_t key = 1; key <= 3000; key++) {
        committer *k = committers_of(all, key);
        assert_ptr_equal(k, committers_of(all, key));
        for (int i = 0; i < count; i++)
            share[i] += committers_at(all, i) == k;
    }
    for (int i = 0; i < count; i++)
        assert_in_range(share[i], 3000 / count - 300, 3000 / count + 300);
    committers_close(all);
    committers_close(NULL);
    db_close(d);
}

static void units_of_one_key_are_committed_in_order(conf *c)
{
    db *d = conf_open(c, NULL);
    committers *all = open_them(d, &(committer_options){.batch_units = 32});
    run *runs = test_calloc(RUNS, sizeof *runs);
    write_all(all, runs);
    for (int i = 0; i < RUNS; i++) {
        assert_int_equal(atomic_load(&runs[i].answered), STEPS);
        assert_int_equal(atomic_load(&runs[i].astray), 0);
        for (int s = 0; s < STEPS; s++)
            assert_int_equal(runs[i].steps[s].unit->answer, UNIT_COMMITTED);
        assert_int_equal(conf_rows(d, runs[i].key), STEPS);
    }
    committer_stats s = committers_stats_now(all);
    assert_int_equal(s.committed, RUNS * STEPS);
    assert_in_range(s.batch_max, 1, 32);
    committers_close(all);
    free_runs(runs);
    db_close(d);
}

/* The step after a bad one must not be committed, whichever of the three committers has room for
 * it. */
static void no_journal_has_a_hole(conf *c)
{
    db *d = conf_open(c, NULL);
    committers *all = open_them(d, &(committer_options){.batch_units = 16});
    run *runs = test_calloc(RUNS, sizeof *runs);
    for (int i = 0; i < RUNS; i += 3)
        runs[i].bad = 2 + i % (STEPS - 2);
    write_all(all, runs);
    int64_t committed = 0;
    for (int i = 0; i < RUNS; i++) {
        run *r = &runs[i];
        int good = r->bad ? r->bad - 1 : STEPS;
        committed += good;
        assert_int_equal(atomic_load(&r->answered), STEPS);
        for (int s = 0; s < STEPS; s++) {
            unit *u = r->steps[s].unit;
            assert_int_equal(u->answer, s < good              ? UNIT_COMMITTED
                                        : s == good && r->bad ? UNIT_FAILED
                                                              : UNIT_REFUSED);
            if (u->answer == UNIT_REFUSED)
                assert_string_equal(u->refused, "prefix");
        }
        assert_int_equal(conf_rows(d, r->key), good);
    }
    assert_int_equal(committers_stats_now(all).committed, committed);
    committers_close(all);
    free_runs(runs);
    db_close(d);
}

static void by_hand_all_committers_are_driven(conf *c)
{
    db_options o = {.by_hand = 1};
    db *d = conf_open(c, &o);
    committers *all = open_them(d, &(committer_options){.by_hand = 1});
    conf_ticket tickets[30];
    assert_int_equal(committers_next_ns(all), INT64_MAX);
    for (int i = 0; i < 30; i++) {
        conf_ticket_append(&tickets[i], i, 1, NULL);
        committer_submit(committers_of(all, (uint64_t)i), tickets[i].unit);
    }
    assert_int_equal(committers_next_ns(all), 0);
    TMP_AWAIT((committers_drive(all), committers_next_ns(all) == INT64_MAX));
    for (int i = 0; i < 30; i++)
        CONF_ANSWER(&tickets[i], UNIT_COMMITTED);
    assert_int_equal(committers_drive(all), 0);
    conf_tickets_free(tickets, 30);
    committers_close(all);
    db_close(d);
}

/* ---- Nodes ---- */

static void make_node(db *d)
{
    static const db_sql SLOT = {"INSERT INTO {nodes} (node, slot, since) VALUES ($1, $2, 0)", "ii"};
    for (int64_t slot = 5; slot < 5 + COMMITTERS; slot++)
        conf_do(d, &SLOT, (db_value[]){db_int(NODE), db_int(slot)}, 2);
}

/* One unit through each committer. */
static void expect_each(committers *all, int64_t seq, unit_answer wanted)
{
    for (int i = 0; i < committers_count(all); i++) {
        conf_ticket t;
        conf_ticket_append(&t, i, seq, NULL);
        committer_commit(committers_at(all, i), t.unit);
        CONF_ANSWER(&t, wanted);
        if (wanted == UNIT_REFUSED)
            assert_string_equal(t.unit->refused, "node");
        conf_ticket_free(&t);
    }
}

static void each_committer_refuses_the_units_of_a_closed_node(conf *c)
{
    static const db_sql CLOSE = {"UPDATE {nodes} SET closed = 1 WHERE node = $1", "i"};
    db *d = conf_open(c, NULL);
    make_node(d);
    committers *all = open_them(d, NULL);
    expect_each(all, 1, UNIT_COMMITTED);
    committers_set_node(all, NODE, 5, 0);
    expect_each(all, 2, UNIT_COMMITTED);
    conf_do(d, &CLOSE, (db_value[]){db_int(NODE)}, 1);
    expect_each(all, 3, UNIT_REFUSED);
    committers_set_node(all, 0, 0, 0); /* of no submitter */
    expect_each(all, 4, UNIT_COMMITTED);
    committers_set_node(all, NODE + 1, 5, 0); /* there is no such node */
    expect_each(all, 5, UNIT_REFUSED);
    committers_close(all);
    db_close(d);
}

/* Slots are each one's own: closing one shuts out one. A takeover always closes them all. */
static void each_committer_has_its_own_slot(conf *c)
{
    static const db_sql CLOSE = {"UPDATE {nodes} SET closed = 1 WHERE node = $1 AND slot = $2",
                                 "ii"};
    db *d = conf_open(c, NULL);
    make_node(d);
    committers *all = open_them(d, NULL);
    committers_set_node(all, NODE, 5, 0);
    conf_do(d, &CLOSE, (db_value[]){db_int(NODE), db_int(5)}, 2);
    for (int i = 0; i < committers_count(all); i++) {
        conf_ticket t;
        conf_ticket_append(&t, i, 1, NULL);
        committer_commit(committers_at(all, i), t.unit);
        CONF_ANSWER(&t, i == 0 ? UNIT_REFUSED : UNIT_COMMITTED);
        conf_ticket_free(&t);
    }
    committers_close(all);
    db_close(d);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"there are as many committers as the database can use",
         there_are_as_many_committers_as_the_database_can_use, 0},
        {"units of one key are committed in order", units_of_one_key_are_committed_in_order, 0},
        {"no journal has a hole", no_journal_has_a_hole, 0},
        {"by hand all committers are driven", by_hand_all_committers_are_driven, 0},
        {"each committer refuses the units of a closed node",
         each_committer_refuses_the_units_of_a_closed_node, 0},
        {"each committer has its own slot", each_committer_has_its_own_slot, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
