/* Units of one batch, seen closely: nobody may be able to tell them from one unit after the other.
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

#include "support/committer_fixture.h"

/* A row of {meta} stands for whatever can be contended for. */
static const db_sql PUT = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)", "ti"};
static const db_sql SET = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)"
                           " ON CONFLICT (name) DO UPDATE SET number = excluded.number",
                           "ti"};
static const db_sql TAKE = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)"
                            " ON CONFLICT (name) DO NOTHING RETURNING number",
                            "ti"};
static const db_sql RAISE = {
    "UPDATE {meta} SET number = number + 1 WHERE name = $1 AND number = $2 RETURNING number", "ti"};
static const db_sql BUMP = {
    "UPDATE {meta} SET number = number + 1 WHERE name = $1 RETURNING number", "t"};
static const db_sql ADD = {"UPDATE {meta} SET number = number + $2 WHERE name = $1", "ti"};
static const db_sql TIMES = {"UPDATE {meta} SET number = number * $2 WHERE name = $1", "ti"};
static const db_sql SEE = {
    "SELECT number FROM {meta} WHERE name = $1 AND number = $2 {LOCK_SHARED}", "ti"};
static const db_sql LOOK = {"SELECT number FROM {meta} WHERE name = $1", "t"};
static const db_sql DROP = {"DELETE FROM {meta} WHERE name = $1", "t"};
static const db_sql COUNT = {"SELECT count(*) FROM {meta} WHERE name = $1", "t"};

/* ---- Helpers ---- */

static void open_tickets(conf_ticket *tickets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        conf_ticket_open(&tickets[i], 0);
}

static int64_t look(bench *b, const char *name)
{
    return conf_number(b->db, &LOOK, VALUES(db_text(slice_of(name))));
}

/* Name of a row of its own for each unit, in the unit's arena. */
static db_value name_of(conf_ticket *t, const char *what, int number)
{
    char text[64];
    int n = snprintf(text, sizeof text, "%s.%d", what, number);
    char *copy = arena_copy(t->arena, (slice){text, (size_t)n});
    assert_non_null(copy);
    return db_text((slice){copy, (size_t)n});
}

static void append(unit *u, int64_t run, int64_t seq)
{
    unit_write(u, &CONF_APPEND, unit_key("journal", run),
               VALUES(db_int(run), db_int(seq), NAME("row"), db_null()));
}

/* ---- Guards see what came before ---- */

static void guards_of_one_row_chain(conf *c)
{
    enum { UNITS = 20 };
    bench b = bench_open(c);
    conf_do(b.db, &SET, VALUES(NAME("test.v"), db_int(5)));
    conf_ticket t[UNITS];
    open_tickets(t, UNITS);
    for (int i = 0; i < UNITS; i++) {
        unit_guard(t[i].unit, &RAISE, "v", unit_key("meta", 1),
                   VALUES(NAME("test.v"), db_int(5 + i)));
        unit_guard(t[i].unit, &SEE, "same", unit_key("meta", 1),
                   VALUES(NAME("test.v"), db_int(6 + i)));
        append(t[i].unit, 1, i);
    }
    bench_batch(&b, t, UNITS);
    for (int i = 0; i < UNITS; i++) {
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
        assert_int_equal(unit_rows(t[i].unit, 0)->values[0].i, 6 + i);
        assert_int_equal(unit_rows(t[i].unit, 1)->values[0].i, 6 + i);
    }
    assert_int_equal(look(&b, "test.v"), 5 + UNITS);
    conf_tickets_free(t, UNITS);
    bench_close(&b);
}

/* A plain write of every kind, and behind it a guard of every kind on the same row. */
static void a_guard_sees_plain_writes_of_its_row(conf *c)
{
    static const db_sql *const WRITES[] = {&SET, &PUT, &ADD, &DROP};
    static const db_sql *const GUARDS[] = {&RAISE, &SEE, &TAKE, &BUMP};
    enum { KINDS = 4 };
    /* Is the row, which has 1 before unless it is put there, as the guard wants it (2)? */
    static const int PASSES[KINDS][KINDS] = {
        {1, 1, 0, 1}, {1, 1, 0, 1}, {1, 1, 0, 1}, {0, 0, 1, 0}};
    bench b = bench_open(c);
    for (int w = 0; w < KINDS; w++) {
        for (int g = 0; g < KINDS; g++) {
            conf_ticket t[3];
            open_tickets(t, 3);
            db_value name = name_of(&t[0], "row", w * KINDS + g);
            uint64_t key = unit_key_text("meta", name.s);
            if (WRITES[w] != &PUT)
                conf_do(b.db, &SET, VALUES(name, db_int(1)));
            append(t[0].unit, 100 + w * KINDS + g, 0); /* something before, of another row */
            db_value values[] = {name, db_int(WRITES[w] == &ADD ? 1 : 2)};
            unit_write(t[1].unit, WRITES[w], key, values, (int)strlen(WRITES[w]->binds));
            db_value wanted[] = {name, db_int(2)};
            unit_guard(t[2].unit, GUARDS[g], "g", key, wanted, (int)strlen(GUARDS[g]->binds));
            bench_batch(&b, t, 3);
            CONF_ANSWER(&t[0], UNIT_COMMITTED);
            CONF_ANSWER(&t[1], UNIT_COMMITTED);
            CONF_ANSWER(&t[2], PASSES[w][g] ? UNIT_COMMITTED : UNIT_REFUSED);
            conf_tickets_free(t, 3);
        }
    }
    bench_close(&b);
}

/* Statements that change what is there are done in queue order, whoever's they are. */
static void plain_writes_of_one_row_keep_their_order(conf *c)
{
    bench b = bench_open(c);
    conf_do(b.db, &SET, VALUES(NAME("test.v"), db_int(1)));
    conf_ticket t[6];
    open_tickets(t, 6);
    uint64_t key = unit_key("meta", 1);
    for (int i = 0; i < 6; i++) {
        append(t[i].unit, 1, i);
        unit_write(t[i].unit, i % 2 ? &TIMES : &ADD, key, VALUES(NAME("test.v"), db_int(i + 1)));
        if (i == 3)
            unit_write(t[i].unit, &ADD, key, VALUES(NAME("test.v"), db_int(100)));
    }
    bench_batch(&b, t, 6);
    for (int i = 0; i < 6; i++)
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
    assert_int_equal(look(&b, "test.v"), ((((1 + 1) * 2 + 3) * 4 + 100) + 5) * 6);
    conf_tickets_free(t, 6);
    bench_close(&b);
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
    bench b = bench_open(c);
    for (int way = 0; way < 2; way++) {
        conf_ticket t[UNITS];
        open_tickets(t, UNITS);
        for (int i = 0; i < UNITS; i++) {
            const db_sql *sql = i % 3 == 2 ? &CONF_APPEND : way ? &COPIED : &NUMBERED;
            int64_t run = 1 + way;
            db_value values[] = {db_int(run), db_int(i), NAME("row"), db_null()};
            unit_write(t[i].unit, sql, unit_key("journal", run), values, (int)strlen(sql->binds));
        }
        bench_batch(&b, t, UNITS);
        for (int i = 0; i < UNITS; i++) {
            CONF_ANSWER(&t[i], UNIT_COMMITTED);
            if (i % 3 != 2)
                assert_int_equal(unit_rows(t[i].unit, 0)->values[0].i, i);
        }
        conf_tickets_free(t, UNITS);
    }
    bench_close(&b);
}

/* ---- Who must go, goes alone ---- */

/* A unit whose first guard has written and whose second one refuses: nothing of it stays, and the
 * guards of the others, which count on each other, do not notice. */
static void refuse_some(bench *b, int64_t run, uint64_t first_key, uint64_t second_key,
                        const int *bad, int bad_count)
{
    enum { UNITS = 50 };
    conf_ticket t[UNITS];
    int is_bad[UNITS] = {0};
    int64_t version = 0, last = 0;
    for (int i = 0; i < bad_count; i++)
        is_bad[bad[i]] = 1;
    conf_do(b->db, &SET, VALUES(NAME("test.v"), db_int(0)));
    open_tickets(t, UNITS);
    for (int i = 0; i < UNITS; i++) {
        unit_guard(t[i].unit, &RAISE, "v", first_key, VALUES(NAME("test.v"), db_int(version)));
        if (is_bad[i])
            unit_guard(t[i].unit, &RAISE, "no", second_key, VALUES(NAME("test.none"), db_int(1)));
        append(t[i].unit, run, i);
        version += !is_bad[i];
    }
    bench_batch(b, t, UNITS);
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
    assert_int_equal(look(b, "test.v"), UNITS - bad_count);
    assert_int_equal(conf_rows(b->db, run), UNITS - bad_count);
    conf_tickets_free(t, UNITS);
}

static void who_is_refused_late_leaves_nothing(conf *c)
{
    static const int MIDDLE[] = {25}, EDGES[] = {0, 49}, PAIR[] = {24, 25}, MANY[] = {1, 3, 10, 48};
    bench b = bench_open(c);
    /* Its guards are in the order of their keys, and against it. */
    refuse_some(&b, 1, 10, 20, MIDDLE, 1);
    refuse_some(&b, 2, 20, 10, MIDDLE, 1);
    refuse_some(&b, 3, 10, 20, EDGES, 2);
    refuse_some(&b, 4, 20, 10, PAIR, 2);
    refuse_some(&b, 5, 10, 20, MANY, 4);
    bench_close(&b);
}

/* A row that breaks a rule, and SQL that is none, in a batch whose statements are all new. */
static void who_fails_fails_alone(conf *c)
{
    enum { UNITS = 12 };
    static const db_sql NONSENSE = {"INSERT INTO {meta} (no_such_column) VALUES ($1)", "i"};
    for (int bad = 0; bad < UNITS; bad += 5) {
        bench b = bench_open(c);
        conf_do(b.db, &SET, VALUES(NAME("test.v"), db_int(0)));
        conf_ticket t[UNITS];
        open_tickets(t, UNITS);
        for (int i = 0; i < UNITS; i++) {
            append(t[i].unit, 1 + bad, i);
            if (i == bad)
                unit_write(t[i].unit, &NONSENSE, 0, VALUES(db_int(1)));
            unit_write(t[i].unit, &BUMP, unit_key("meta", 1), VALUES(NAME("test.v")));
        }
        bench_batch(&b, t, UNITS);
        for (int i = 0; i < UNITS; i++)
            CONF_ANSWER(&t[i], i == bad ? UNIT_FAILED : UNIT_COMMITTED);
        assert_int_equal(conf_rows(b.db, 1 + bad), UNITS - 1);
        assert_int_equal(look(&b, "test.v"), UNITS - 1);
        conf_tickets_free(t, UNITS);
        bench_close(&b);
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
    return letter == 'p' ? &PUT : letter == 's' ? &SET : &DROP;
}

static void add_step(unit *u, char letter, uint64_t key, db_value name)
{
    const db_sql *sql = step_of(letter);
    db_value values[] = {name, db_int(7)};
    unit_write(u, sql, key, values, (int)strlen(sql->binds));
}

/* A story in one unit, between others of the same kinds; the row is there before. -1: it must fail,
 * since a row is put where one is. `keyed` 0: nobody else knows of the row. */
static void tell_in_one_unit(bench *b, int number, int keyed)
{
    const char *steps = STORIES[number].steps;
    int there = STORIES[number].there;
    conf_ticket t[3];
    open_tickets(t, 3);
    db_value name = name_of(&t[1], keyed ? "keyed" : "own", number);
    conf_do(b->db, &SET, VALUES(name, db_int(1)));
    for (int i = 0; i < 3; i += 2) { /* rows that are new each time */
        add_step(t[i].unit, 's', 0, name_of(&t[i], "set", 10 * number + 4 * keyed + i));
        add_step(t[i].unit, 'd', 0, name_of(&t[i], "no", 0));
        add_step(t[i].unit, 'p', 0, name_of(&t[i], "put", 10 * number + 4 * keyed + i));
    }
    for (const char *p = steps; *p; p++)
        add_step(t[1].unit, *p, keyed ? unit_key_text("meta", name.s) : 0, name);
    bench_batch(b, t, 3);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], there < 0 ? UNIT_FAILED : UNIT_COMMITTED);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    if (conf_number(b->db, &COUNT, VALUES(name)) != (there != 0))
        fail_msg("%s in one unit, keyed %d: the row is %sthere", steps, keyed, there ? "not " : "");
    if (there)
        assert_int_equal(conf_number(b->db, &LOOK, VALUES(name)), there < 0 ? 1 : 7);
    conf_tickets_free(t, 3);
}

static void a_row_comes_and_goes_in_one_unit(conf *c)
{
    bench b = bench_open(c);
    for (int i = 0; i < 2 * STORY_COUNT; i++)
        tell_in_one_unit(&b, i / 2, i % 2);
    bench_close(&b);
}

/* The same stories, a unit per step; a step that fails leaves the row as it is. */
static void a_row_comes_and_goes_in_several_units(conf *c)
{
    bench b = bench_open(c);
    for (int i = 0; i < STORY_COUNT; i++) {
        conf_ticket t[8];
        size_t steps = strlen(STORIES[i].steps);
        open_tickets(t, steps);
        db_value name = name_of(&t[0], "row", i);
        int there = 1;
        conf_do(b.db, &SET, VALUES(name, db_int(1)));
        for (size_t n = 0; n < steps; n++) {
            append(t[n].unit, 1 + i, (int64_t)n);
            add_step(t[n].unit, STORIES[i].steps[n], unit_key_text("meta", name.s), name);
        }
        bench_batch(&b, t, steps);
        for (size_t n = 0; n < steps; n++) {
            int fails = STORIES[i].steps[n] == 'p' && there;
            CONF_ANSWER(&t[n], fails ? UNIT_FAILED : UNIT_COMMITTED);
            there = STORIES[i].steps[n] != 'd';
        }
        assert_int_equal(conf_number(b.db, &COUNT, VALUES(name)), there);
        conf_tickets_free(t, steps);
    }
    bench_close(&b);
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
        append(t[i].unit, h->rows[0][0], i);
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
        conf_do(d, &SET, VALUES(db_text(slice_of(ROWS[i])), db_int(0)));
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
    for (int i = 0; i < 4; i++) /* each guard was run once, as far as anybody can see */
        assert_int_equal(conf_number(d, &LOOK, VALUES(db_text(slice_of(ROWS[i])))), i < 2 ? 2 : 1);
    assert_int_equal(conf_rows(d, 'A') + conf_rows(d, 'B'), 2 * units);
}

/* The server ends one of them, sooner than either gives up the lock; it is tried again. One of them
 * may give up at the very moment at which the rows are let go: then there was no embrace. */
static void who_embraces_another_is_tried_again(conf *c)
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
    {"who is refused late leaves nothing", who_is_refused_late_leaves_nothing, 0},
    {"who fails fails alone", who_fails_fails_alone, 0},
    {"a row comes and goes in one unit", a_row_comes_and_goes_in_one_unit, 0},
    {"a row comes and goes in several units", a_row_comes_and_goes_in_several_units, 0},
};

static const conf_case SERVER_CASES[] = {
    {"who embraces another is tried again", who_embraces_another_is_tried_again, 0},
};

int main(void)
{
    int failed = conf_run_reused(CASES, CONF_COUNT(CASES));
    return failed + conf_run_on("postgres", SERVER_CASES, CONF_COUNT(SERVER_CASES));
}
