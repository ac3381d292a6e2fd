/* Units of one batch, seen closely: the result must be the same as that of one unit after the
 * other.
 *
 * A database that takes many statements in one trip puts those of several units together: guards in
 * the order of their keys, inserts of one kind as arrays. What must come out is the same on every
 * backend, so that most of this runs on all of them; A4 names what goes wrong otherwise. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/meta_rows.h"

static const db_sql PUT = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)", "ti"};
static const db_sql BUMP = {
    "UPDATE {meta} SET number = number + 1 WHERE name = $1 RETURNING number", "t"};
static const db_sql ADD = {"UPDATE {meta} SET number = number + $2 WHERE name = $1", "ti"};
static const db_sql TIMES = {"UPDATE {meta} SET number = number * $2 WHERE name = $1", "ti"};
static const db_sql SEE = {
    "SELECT number FROM {meta} WHERE name = $1 AND number = $2 {LOCK_SHARED}", "ti"};

/* ---- Guards see what came before ---- */

static void guards_of_one_row_chain(conf *c)
{
    enum { UNITS = 20 };
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(5)));
    conf_ticket t[UNITS];
    conf_tickets_open(t, UNITS);
    for (int i = 0; i < UNITS; i++) {
        unit_guard(t[i].unit, &META_RAISE, "v", unit_key("meta", 1),
                   VALUES(NAME("test.v"), db_int(5 + i)));
        unit_guard(t[i].unit, &SEE, "same", unit_key("meta", 1),
                   VALUES(NAME("test.v"), db_int(6 + i)));
        conf_append(t[i].unit, 1, i);
    }
    committer_fixture_commit(&b, t, UNITS);
    for (int i = 0; i < UNITS; i++) {
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
        assert_int_equal(unit_rows(t[i].unit, 0)->values[0].i, 6 + i);
        assert_int_equal(unit_rows(t[i].unit, 1)->values[0].i, 6 + i);
    }
    assert_int_equal(meta_number(&b, "test.v"), 5 + UNITS);
    conf_tickets_free(t, UNITS);
    committer_fixture_close(&b);
}

/* A plain write of every kind, and behind it a guard of every kind on the same row. */
static void a_guard_sees_plain_writes_of_its_row(conf *c)
{
    static const db_sql *const WRITES[] = {&META_SET, &PUT, &ADD, &META_DROP};
    static const db_sql *const GUARDS[] = {&META_RAISE, &SEE, &META_TAKE, &BUMP};
    enum { KINDS = 4 };
    /* Is the row, which has 1 before unless it is put there, as the guard wants it (2)? */
    static const int PASSES[KINDS][KINDS] = {
        {1, 1, 0, 1}, {1, 1, 0, 1}, {1, 1, 0, 1}, {0, 0, 1, 0}};
    committer_fixture b = committer_fixture_open(c);
    for (int w = 0; w < KINDS; w++) {
        for (int g = 0; g < KINDS; g++) {
            conf_ticket t[3];
            conf_tickets_open(t, 3);
            db_value name = meta_name(&t[0], "row", w * KINDS + g);
            uint64_t key = unit_key_text("meta", name.s);
            if (WRITES[w] != &PUT)
                conf_do(b.db, &META_SET, VALUES(name, db_int(1)));
            conf_append(t[0].unit, 100 + w * KINDS + g, 0); /* something before, of another row */
            db_value values[] = {name, db_int(WRITES[w] == &ADD ? 1 : 2)};
            unit_write(t[1].unit, WRITES[w], key, values, (int)strlen(WRITES[w]->binds));
            db_value wanted[] = {name, db_int(2)};
            unit_guard(t[2].unit, GUARDS[g], "g", key, wanted, (int)strlen(GUARDS[g]->binds));
            committer_fixture_commit(&b, t, 3);
            CONF_ANSWER(&t[0], UNIT_COMMITTED);
            CONF_ANSWER(&t[1], UNIT_COMMITTED);
            CONF_ANSWER(&t[2], PASSES[w][g] ? UNIT_COMMITTED : UNIT_REFUSED);
            conf_tickets_free(t, 3);
        }
    }
    committer_fixture_close(&b);
}

/* Statements that change existing rows are executed in queue order, whichever unit they belong
 * to. */
static void plain_writes_of_one_row_keep_their_order(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(1)));
    conf_ticket t[6];
    conf_tickets_open(t, 6);
    uint64_t key = unit_key("meta", 1);
    for (int i = 0; i < 6; i++) {
        conf_append(t[i].unit, 1, i);
        unit_write(t[i].unit, i % 2 ? &TIMES : &ADD, key, VALUES(NAME("test.v"), db_int(i + 1)));
        if (i == 3)
            unit_write(t[i].unit, &ADD, key, VALUES(NAME("test.v"), db_int(100)));
    }
    committer_fixture_commit(&b, t, 6);
    for (int i = 0; i < 6; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_int_equal(meta_number(&b, "test.v"), ((((1 + 1) * 2 + 3) * 4 + 100) + 5) * 6);
    conf_tickets_free(t, 6);
    committer_fixture_close(&b);
}

/* A write whose value is read from the rows before it, which other units of the batch have
 * added. */
static void a_write_that_reads_sees_the_writes_before_it(conf *c)
{
    enum { UNITS = 8 };
    static const db_sql NUMBERED = {
        "INSERT INTO {journal} (run, generation, seq, kind, name, at)"
        " VALUES ($1, 1, $2, 1, $3, (SELECT count(*) FROM {journal} WHERE run = $1))"
        " RETURNING at",
        "iit"};
    static const db_sql COPIED = {
        "INSERT INTO {journal} (run, generation, seq, kind, name, at)"
        " SELECT $1, 1, $2, 1, 'x', count(*) FROM {journal} WHERE run = $1 RETURNING at",
        "ii"};
    committer_fixture b = committer_fixture_open(c);
    for (int way = 0; way < 2; way++) {
        conf_ticket t[UNITS];
        conf_tickets_open(t, UNITS);
        for (int i = 0; i < UNITS; i++) {
            const db_sql *sql = i % 3 == 2 ? &CONF_APPEND : way ? &COPIED : &NUMBERED;
            int64_t run = 1 + way;
            db_value values[] = {db_int(run), db_int(i), NAME("row"), db_null()};
            unit_write(t[i].unit, sql, unit_key("journal", run), values, (int)strlen(sql->binds));
        }
        committer_fixture_commit(&b, t, UNITS);
        for (int i = 0; i < UNITS; i++) {
            CONF_ANSWER(&t[i], UNIT_COMMITTED);
            if (i % 3 != 2)
                assert_int_equal(unit_rows(t[i].unit, 0)->values[0].i, i);
        }
        conf_tickets_free(t, UNITS);
    }
    committer_fixture_close(&b);
}

/* ---- A unit that must fail fails alone ---- */

/* A unit whose first guard has written and whose second one refuses: nothing of it stays, and the
 * guards of the others, which count on each other, do not notice. */
static void refuse_some(committer_fixture *b, int64_t run, uint64_t first_key, uint64_t second_key,
                        const int *bad, int bad_count)
{
    enum { UNITS = 50 };
    conf_ticket t[UNITS];
    int is_bad[UNITS] = {0};
    int64_t version = 0, last = 0;
    for (int i = 0; i < bad_count; i++)
        is_bad[bad[i]] = 1;
    conf_do(b->db, &META_SET, VALUES(NAME("test.v"), db_int(0)));
    conf_tickets_open(t, UNITS);
    for (int i = 0; i < UNITS; i++) {
        unit_guard(t[i].unit, &META_RAISE, "v", first_key, VALUES(NAME("test.v"), db_int(version)));
        if (is_bad[i])
            unit_guard(t[i].unit, &META_RAISE, "no", second_key,
                       VALUES(NAME("test.none"), db_int(1)));
        conf_append(t[i].unit, run, i);
        version += !is_bad[i];
    }
    committer_fixture_commit(b, t, UNITS);
    for (int i = 0; i < UNITS; i++) {
        CONF_ANSWER(&t[i], is_bad[i] ? UNIT_REFUSED : UNIT_COMMITTED);
        if (is_bad[i]) {
            assert_string_equal(t[i].unit->refused, "no");
            continue;
        }
        int64_t pos = unit_rows(t[i].unit, 1)->values[0].i;
        assert_true(pos > last); /* in queue order */
        last = pos;
    }
    assert_int_equal(meta_number(b, "test.v"), UNITS - bad_count);
    assert_int_equal(conf_rows(b->db, run), UNITS - bad_count);
    conf_tickets_free(t, UNITS);
}

static void a_unit_that_is_refused_late_leaves_nothing(conf *c)
{
    static const int MIDDLE[] = {25}, EDGES[] = {0, 49}, PAIR[] = {24, 25}, MANY[] = {1, 3, 10, 48};
    committer_fixture b = committer_fixture_open(c);
    /* Its guards are in the order of their keys, and against it. */
    refuse_some(&b, 1, 10, 20, MIDDLE, 1);
    refuse_some(&b, 2, 20, 10, MIDDLE, 1);
    refuse_some(&b, 3, 10, 20, EDGES, 2);
    refuse_some(&b, 4, 20, 10, PAIR, 2);
    refuse_some(&b, 5, 10, 20, MANY, 4);
    committer_fixture_close(&b);
}

/* A row that breaks a rule, and SQL that is none, in a batch whose statements are all new. */
static void a_unit_that_fails_fails_alone(conf *c)
{
    enum { UNITS = 12 };
    static const db_sql NONSENSE = {"INSERT INTO {meta} (no_such_column) VALUES ($1)", "i"};
    for (int bad = 0; bad < UNITS; bad += 5) {
        committer_fixture b = committer_fixture_open(c);
        conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(0)));
        conf_ticket t[UNITS];
        conf_tickets_open(t, UNITS);
        for (int i = 0; i < UNITS; i++) {
            conf_append(t[i].unit, 1 + bad, i);
            if (i == bad)
                unit_write(t[i].unit, &NONSENSE, 0, VALUES(db_int(1)));
            unit_write(t[i].unit, &BUMP, unit_key("meta", 1), VALUES(NAME("test.v")));
        }
        committer_fixture_commit(&b, t, UNITS);
        for (int i = 0; i < UNITS; i++)
            CONF_ANSWER(&t[i], i == bad ? UNIT_FAILED : UNIT_COMMITTED);
        assert_int_equal(conf_rows(b.db, 1 + bad), UNITS - 1);
        assert_int_equal(meta_number(&b, "test.v"), UNITS - 1);
        conf_tickets_free(t, UNITS);
        committer_fixture_close(&b);
    }
}

/* ---- The same row, more than once ---- */

/* Ways to have a row with the number 7, or none, in the end; p puts, s sets, d deletes. */
static const struct {
    const char *steps;
    int there;
} STORIES[] = {{"dp", 1}, {"ds", 1}, {"sds", 1}, {"dpdp", 1}, {"spd", -1},
               {"sd", 0}, {"ss", 1}, {"dpd", 0}, {"dssd", 0}, {"pdp", -1}};

enum { STORY_COUNT = sizeof STORIES / sizeof *STORIES };

static const db_sql *step_of(char letter)
{
    return letter == 'p' ? &PUT : letter == 's' ? &META_SET : &META_DROP;
}

static void add_step(unit *u, char letter, uint64_t key, db_value name)
{
    const db_sql *sql = step_of(letter);
    db_value values[] = {name, db_int(7)};
    unit_write(u, sql, key, values, (int)strlen(sql->binds));
}

/* A sequence of statements in one unit, between others of the same kinds; the row is there before.
 * -1: it must fail, since a row is inserted where one is. `keyed` 0: no other unit knows of the
 * row. */
static void tell_in_one_unit(committer_fixture *b, int number, int keyed)
{
    const char *steps = STORIES[number].steps;
    int there = STORIES[number].there;
    conf_ticket t[3];
    conf_tickets_open(t, 3);
    db_value name = meta_name(&t[1], keyed ? "keyed" : "own", number);
    conf_do(b->db, &META_SET, VALUES(name, db_int(1)));
    for (int i = 0; i < 3; i += 2) { /* rows that are new each time */
        add_step(t[i].unit, 's', 0, meta_name(&t[i], "set", 10 * number + 4 * keyed + i));
        add_step(t[i].unit, 'd', 0, meta_name(&t[i], "no", 0));
        add_step(t[i].unit, 'p', 0, meta_name(&t[i], "put", 10 * number + 4 * keyed + i));
    }
    for (const char *p = steps; *p; p++)
        add_step(t[1].unit, *p, keyed ? unit_key_text("meta", name.s) : 0, name);
    committer_fixture_commit(b, t, 3);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], there < 0 ? UNIT_FAILED : UNIT_COMMITTED);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    if (conf_number(b->db, &META_COUNT, VALUES(name)) != (there != 0))
        fail_msg("%s in one unit, keyed %d: the row is %sthere", steps, keyed, there ? "not " : "");
    if (there)
        assert_int_equal(conf_number(b->db, &META_GET, VALUES(name)), there < 0 ? 1 : 7);
    conf_tickets_free(t, 3);
}

static void a_row_comes_and_goes_in_one_unit(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    for (int i = 0; i < 2 * STORY_COUNT; i++)
        tell_in_one_unit(&b, i / 2, i % 2);
    committer_fixture_close(&b);
}

/* The same stories, a unit per step; a step that fails leaves the row as it is. */
static void a_row_comes_and_goes_in_several_units(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    for (int i = 0; i < STORY_COUNT; i++) {
        conf_ticket t[8];
        size_t steps = strlen(STORIES[i].steps);
        conf_tickets_open(t, steps);
        db_value name = meta_name(&t[0], "row", i);
        int there = 1;
        conf_do(b.db, &META_SET, VALUES(name, db_int(1)));
        for (size_t n = 0; n < steps; n++) {
            conf_append(t[n].unit, 1 + i, (int64_t)n);
            add_step(t[n].unit, STORIES[i].steps[n], unit_key_text("meta", name.s), name);
        }
        committer_fixture_commit(&b, t, steps);
        for (size_t n = 0; n < steps; n++) {
            int fails = STORIES[i].steps[n] == 'p' && there;
            CONF_ANSWER(&t[n], fails ? UNIT_FAILED : UNIT_COMMITTED);
            there = STORIES[i].steps[n] != 'd';
        }
        assert_int_equal(conf_number(b.db, &META_COUNT, VALUES(name)), there);
        conf_tickets_free(t, steps);
    }
    committer_fixture_close(&b);
}

/* ---- On a server alone ---- */

/* Half of an embrace: a committer whose unit locks these rows in this order. */
typedef struct half {
    committer *k;
    const char *rows[3];
    int units;
    int committed;
} half;

static void *embrace(void *arg)
{
    half *h = arg;
    conf_ticket t[2];
    for (int i = 0; i < h->units; i++) {
        conf_ticket_open(&t[i], 0);
        for (int n = 0; n < 3 && i == 0; n++) /* keys that do not say what they lock */
            unit_guard(t[i].unit, &BUMP, h->rows[n], 0, VALUES(db_text(slice_of(h->rows[n]))));
        conf_append(t[i].unit, h->rows[0][0], i);
        committer_submit(h->k, t[i].unit);
    }
    committer_flush(h->k);
    for (int i = 0; i < h->units; i++)
        h->committed += atomic_load(&t[i].answer) == UNIT_COMMITTED;
    conf_tickets_free(t, (size_t)h->units);
    return NULL;
}

static int64_t waiting(const conf *c)
{
    char sql[256];
    snprintf(sql, sizeof sql,
             "SELECT count(*) FROM pg_stat_activity WHERE datname = '%s'"
             " AND wait_event_type = 'Lock'",
             c->database);
    return pgserver_number(c->server, NULL, sql);
}

/* One has A and waits for C, the other has B and waits for D; when C and D are let go, one wants B
 * and the other A. */
static void embrace_each_other(conf *c, db *d, int units)
{
    static const char *const ROWS[] = {"A", "B", "C", "D"};
    for (int i = 0; i < 4; i++)
        conf_do(d, &META_SET, VALUES(db_text(slice_of(ROWS[i])), db_int(0)));
    conf_script(d, "DELETE FROM {journal}");
    PGconn *holder = PQconnectdb(c->url);
    PQclear(PQexec(holder, "BEGIN; SELECT 1 FROM pawl.meta WHERE name IN ('C', 'D') FOR UPDATE"));
    assert_int_equal(PQtransactionStatus(holder), PQTRANS_INTRANS);
    half halves[2] = {{conf_committer(d, NULL), {"A", "C", "B"}, units, 0},
                      {conf_committer(d, NULL), {"B", "D", "A"}, units, 0}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, embrace, &halves[i]), 0);
    TMP_AWAIT(waiting(c) == 2);
    PQfinish(holder);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(halves[i].committed, units);
        committer_close(halves[i].k);
    }
    for (int i = 0; i < 4; i++) /* each guard was run once, as far as its effects show */
        assert_int_equal(conf_number(d, &META_GET, VALUES(db_text(slice_of(ROWS[i])))),
                         i < 2 ? 2 : 1);
    assert_int_equal(conf_rows(d, 'A') + conf_rows(d, 'B'), 2 * units);
}

/* The server ends one of them, sooner than either gives up the lock; it is tried again. One of them
 * may give up at the very moment at which the rows are let go: then there was no embrace. */
static void a_unit_in_a_deadlock_is_tried_again(conf *c)
{
    char sql[128];
    snprintf(sql, sizeof sql, "ALTER DATABASE %s SET deadlock_timeout = '5ms'", c->database);
    PGconn *admin = PQconnectdb(c->url);
    PGresult *r = PQexec(admin, sql);
    assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
    PQclear(r);
    PQfinish(admin);
    db *d = conf_open(c, NULL);
    do
        for (int units = 1; units <= 2; units++)
            embrace_each_other(c, d, units);
    while (!pgserver_log_has(c->server, "deadlock detected"));
    db_close(d);
}

static const conf_case CASES[] = {
    {"guards of one row chain", guards_of_one_row_chain, 0},
    {"a guard sees plain writes of its row", a_guard_sees_plain_writes_of_its_row, 0},
    {"plain writes of one row keep their order", plain_writes_of_one_row_keep_their_order, 0},
    {"a write that reads sees the writes before it", a_write_that_reads_sees_the_writes_before_it,
     0},
    {"a unit that is refused late leaves nothing", a_unit_that_is_refused_late_leaves_nothing, 0},
    {"a unit that fails fails alone", a_unit_that_fails_fails_alone, 0},
    {"a row comes and goes in one unit", a_row_comes_and_goes_in_one_unit, 0},
    {"a row comes and goes in several units", a_row_comes_and_goes_in_several_units, 0},
};

static const conf_case SERVER_CASES[] = {
    {"a unit in a deadlock is tried again", a_unit_in_a_deadlock_is_tried_again, 0},
};

int main(void)
{
    int failed = conf_run_reused(CASES, CONF_COUNT(CASES));
    return failed + conf_run_on("postgres", SERVER_CASES, CONF_COUNT(SERVER_CASES));
}
