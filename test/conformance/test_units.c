/* Units: guards, rows, isolation from neighbours, and the prefix rule.
 *
 * All tests here drive the committer by hand, so that it is known which units share a batch: what
 * is queued when committer_drive() is called. A4 names the ways in which units of one batch may
 * harm each other; each has its test. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/meta_rows.h"

static void expect_refused(const conf_ticket *t, const char *guard)
{
    CONF_ANSWER(t, UNIT_REFUSED);
    assert_int_equal(t->unit->code, PAWL_REFUSED);
    assert_non_null(t->unit->refused);
    assert_string_equal(t->unit->refused, guard);
}

/* ---- Guards and rows ---- */

static void a_guard_that_holds_lets_the_unit_in(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(3)));
    conf_ticket t;
    conf_ticket_append(&t, 1, 1, NULL);
    int guard = unit_guard(t.unit, &META_RAISE, "version", unit_key("meta", 1),
                           VALUES(NAME("test.v"), db_int(3)));
    assert_int_equal(guard, 1);
    committer_fixture_commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(t.unit->code, PAWL_OK);
    assert_null(t.unit->refused);
    const unit_row *row = unit_rows(t.unit, guard);
    assert_non_null(row);
    assert_null(row->next);
    assert_int_equal(row->count, 1);
    assert_int_equal(row->values[0].type, DB_INT);
    assert_int_equal(row->values[0].i, 4);
    assert_non_null(unit_rows(t.unit, 0)); /* the write's RETURNING comes back as well */
    assert_true(unit_rows(t.unit, 0)->values[0].i > 0);
    assert_int_equal(conf_rows(b.db, 1), 1);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

static void a_guard_without_a_row_refuses_by_name(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(3)));
    conf_ticket t;
    conf_ticket_open(&t, 0);
    unit_guard(t.unit, &META_RAISE, "version", unit_key("meta", 1),
               VALUES(NAME("test.v"), db_int(9)));
    unit_write(t.unit, &CONF_APPEND, unit_key("journal", 1),
               VALUES(db_int(1), db_int(1), NAME("row"), db_null()));
    committer_fixture_commit(&b, &t, 1);
    expect_refused(&t, "version");
    assert_int_equal(conf_rows(b.db, 1), 0);
    assert_int_equal(meta_number(&b, "test.v"), 3);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

static void what_was_found_is_told_on_refusal_only(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.a"), db_int(3)));
    conf_do(b.db, &META_SET, VALUES(NAME("test.b"), db_int(70)));
    conf_ticket t[2];
    for (int i = 0; i < 2; i++) {
        conf_ticket_open(&t[i], 0);
        unit *u = t[i].unit;
        unit_guard(u, &META_RAISE, "a", unit_key("meta", 1), VALUES(NAME("test.a"), db_int(3 + i)));
        unit_found(u, &META_GET, VALUES(NAME("test.a")));
        unit_guard(u, &META_RAISE, "b", unit_key("meta", 2), VALUES(NAME("test.b"), db_int(70)));
        unit_found(u, &META_GET, VALUES(NAME("test.b")));
    }
    committer_fixture_commit(&b, t, 2);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    assert_null(t[0].unit->found);
    assert_null(unit_rows(t[0].unit, 1));
    assert_null(unit_rows(t[0].unit, 3));
    expect_refused(&t[1], "b");
    assert_non_null(t[1].unit->found); /* behind the guard that refused, not the first one */
    assert_int_equal(t[1].unit->found->values[0].i, 71);
    assert_null(unit_rows(t[1].unit, 1));
    assert_int_equal(meta_number(&b, "test.a"), 4);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

static void a_refused_unit_leaves_nothing_of_its_guards(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(1)));
    conf_ticket t[2];
    for (int i = 0; i < 2; i++) {
        conf_ticket_open(&t[i], 0);
        unit_guard(t[i].unit, &META_RAISE, "version", unit_key("meta", 1),
                   VALUES(NAME("test.v"), db_int(1)));
    }
    unit_guard(t[0].unit, &META_RAISE, "other", unit_key("meta", 2),
               VALUES(NAME("test.no"), db_int(1)));
    committer_fixture_commit(&b, t, 2);
    expect_refused(&t[0], "other");
    CONF_ANSWER(&t[1], UNIT_COMMITTED); /* it finds the 1 that the first one had raised */
    assert_int_equal(meta_number(&b, "test.v"), 2);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

static void several_rows_come_back(conf *c)
{
    static const db_sql TOUCH = {
        "UPDATE {journal} SET at = at + 1 WHERE run = $1 RETURNING seq, name, data", "i"};
    committer_fixture b = committer_fixture_open(c);
    for (int i = 1; i <= 5; i++) {
        db_value v[] = {db_int(1), db_int(i), NAME("name"), i % 2 ? NAME("x") : db_null()};
        v[3].type = i % 2 ? DB_BYTES : DB_NULL;
        conf_do(b.db, &CONF_APPEND, v, 4);
    }
    conf_ticket t;
    conf_ticket_open(&t, 0);
    unit_write(t.unit, &TOUCH, unit_key("journal", 1), VALUES(db_int(1)));
    committer_fixture_commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    int seen = 0;
    for (const unit_row *row = unit_rows(t.unit, 0); row; row = row->next) {
        assert_int_equal(row->count, 3);
        seen |= 1 << row->values[0].i;
        assert_true(slice_equal(row->values[1].s, SLICE_LIT("name")));
        assert_int_equal(row->values[2].type, row->values[0].i % 2 ? DB_BYTES : DB_NULL);
    }
    assert_int_equal(seen, 0x3E);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* ---- Values from earlier statements ---- */

static const db_sql MAIL = {"UPDATE {runs} SET mail = mail + 1 WHERE run = $1 RETURNING mail", "i"};
static const db_sql POST = {
    "INSERT INTO {inbox} (run, seq, kind, name, at) VALUES ($1, $2, 1, $3, 0)", "iit"};

/* Two sends to one run in one batch get 7 and 8: the guard that writes also counts. */
static void mail_is_numbered_in_queue_order(conf *c)
{
    static const db_sql SEQ = {"SELECT seq FROM {inbox} WHERE run = $1 AND name = $2", "it"};
    committer_fixture b = committer_fixture_open(c);
    conf_make_run(b.db, 1, 6);
    static const char *const NAMES[] = {"first", "second"};
    conf_ticket t[2];
    for (int i = 0; i < 2; i++) {
        conf_ticket_open(&t[i], 0);
        unit *u = t[i].unit;
        int mail = unit_guard(u, &MAIL, "run", unit_key("runs", 1), VALUES(db_int(1)));
        unit_write(u, &POST, unit_key("inbox", 1),
                   VALUES(db_int(1), db_from(mail, 0), db_text(slice_of(NAMES[i]))));
    }
    committer_fixture_commit(&b, t, 2);
    for (int i = 0; i < 2; i++) {
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
        assert_int_equal(unit_rows(t[i].unit, 0)->values[0].i, 7 + i);
        db_value name = db_text(slice_of(NAMES[i]));
        assert_int_equal(conf_number(b.db, &SEQ, VALUES(db_int(1), name)), 7 + i);
    }
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

/* Text and bytes travel from statement to statement too, over a third one in between. */
static void values_of_all_types_are_handed_on(conf *c)
{
    static const db_sql FIRST = {
        "INSERT INTO {journal} (run, generation, seq, kind, name, at, data)"
        " VALUES ($1, 1, 1, 1, $2, 0, $3) RETURNING run, name, data, pos",
        "itb"};
    static const db_sql BACK = {"SELECT name, data FROM {journal} WHERE run = 2", ""};
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t;
    conf_ticket_open(&t, 0);
    unit *u = t.unit;
    slice odd = {"\0\xff\x80", 3};
    unit_write(u, &FIRST, unit_key("journal", 1),
               VALUES(db_int(1), NAME("\xF0\x9F\x94\xA7"), db_bytes(odd)));
    unit_guard(u, &META_TAKE, "taken", unit_key("meta", 1), VALUES(NAME("test.h"), db_from(0, 3)));
    unit_write(u, &CONF_APPEND, unit_key("journal", 2),
               VALUES(db_int(2), db_from(0, 0), db_from(0, 1), db_from(0, 2)));
    int back = unit_write(u, &BACK, unit_key("journal", 2), NULL, 0);
    committer_fixture_commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    const unit_row *row = unit_rows(u, back);
    assert_non_null(row);
    assert_true(slice_equal(row->values[0].s, SLICE_LIT("\xF0\x9F\x94\xA7")));
    assert_int_equal(row->values[1].type, DB_BYTES);
    assert_true(slice_equal(row->values[1].s, odd));
    assert_int_equal(meta_number(&b, "test.h"), unit_rows(u, 0)->values[3].i);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* ---- A4: units of one batch ---- */

/* (a) Both want the same free id, or have read the same version: exactly one wins. */
static void of_two_rivals_exactly_one_wins(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(3)));
    conf_ticket t[4];
    for (int i = 0; i < 4; i++) {
        conf_ticket_open(&t[i], 0);
        unit *u = t[i].unit;
        if (i < 2)
            unit_guard(u, &META_TAKE, "taken", unit_key("meta", 9),
                       VALUES(NAME("test.id"), db_int(i)));
        else
            unit_guard(u, &META_RAISE, "version", unit_key("meta", 1),
                       VALUES(NAME("test.v"), db_int(3)));
        unit_write(u, &CONF_APPEND, unit_key("journal", i),
                   VALUES(db_int(i), db_int(1), NAME("row"), db_null()));
    }
    committer_fixture_commit(&b, t, 4);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    expect_refused(&t[1], "taken");
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    expect_refused(&t[3], "version");
    for (int i = 0; i < 4; i++)
        assert_int_equal(conf_rows(b.db, i), i % 2 == 0);
    assert_int_equal(meta_number(&b, "test.id"), 0);
    assert_int_equal(meta_number(&b, "test.v"), 4);
    conf_tickets_free(t, 4);
    committer_fixture_close(&b);
}

/* Rule 1: a guard sees the rows of the unit before it, and their deletion by a later one. */
static void guards_see_what_came_before(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[4];
    for (int i = 0; i < 4; i++)
        conf_ticket_open(&t[i], 0);
    unit_write(t[0].unit, &META_SET, unit_key("meta", 1), VALUES(NAME("test.v"), db_int(1)));
    unit_guard(t[1].unit, &META_RAISE, "v", unit_key("meta", 1), VALUES(NAME("test.v"), db_int(1)));
    unit_write(t[2].unit, &META_DROP, unit_key("meta", 1), VALUES(NAME("test.v")));
    unit_guard(t[3].unit, &META_RAISE, "v", unit_key("meta", 1), VALUES(NAME("test.v"), db_int(2)));
    committer_fixture_commit(&b, t, 4);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    expect_refused(&t[3], "v");
    assert_int_equal(conf_number(b.db, &META_COUNT, VALUES(NAME("test.v"))), 0);
    conf_tickets_free(t, 4);
    committer_fixture_close(&b);
}

/* (b), (c) A plain write that breaks a rule of the database hits its own unit only, and what its
 * guards wrote before goes with it, although guards of others have run since. */
static void an_error_hits_its_own_unit_only(conf *c)
{
    enum { COUNT_UNITS = 20, GUILTY = 7 };
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(0)));
    conf_do(b.db, &CONF_APPEND, VALUES(db_int(1), db_int(1), NAME("there"), db_null()));
    conf_ticket t[COUNT_UNITS];
    int64_t version = 0;
    for (int i = 0; i < COUNT_UNITS; i++) {
        conf_ticket_open(&t[i], 0);
        unit_guard(t[i].unit, &META_RAISE, "v", unit_key("meta", 1),
                   VALUES(NAME("test.v"), db_int(version)));
        version += i != GUILTY;
        unit_write(t[i].unit, &CONF_APPEND, unit_key("journal", i == GUILTY ? 1 : 2),
                   VALUES(db_int(i == GUILTY ? 1 : 2), db_int(i == GUILTY ? 1 : i + 1), NAME("row"),
                          db_null()));
    }
    committer_fixture_commit(&b, t, COUNT_UNITS);
    for (int i = 0; i < COUNT_UNITS; i++)
        CONF_ANSWER(&t[i], i == GUILTY ? UNIT_FAILED : UNIT_COMMITTED);
    assert_int_equal(t[GUILTY].unit->code, PAWL_DATA);
    assert_non_null(t[GUILTY].unit->message);
    assert_true(t[GUILTY].unit->message[0] != '\0');
    assert_int_equal(conf_rows(b.db, 1), 1);
    assert_int_equal(conf_rows(b.db, 2), COUNT_UNITS - 1);
    assert_int_equal(meta_number(&b, "test.v"), COUNT_UNITS - 1);
    conf_tickets_free(t, COUNT_UNITS);
    committer_fixture_close(&b);
}

/* The same with the guilty one first, last, alone, and with every unit guilty. */
static void guilt_at_the_edges_of_a_batch(conf *c)
{
    static const struct {
        int count;
        unsigned guilty; /* bits */
    } SHAPES[] = {{1, 1}, {2, 1}, {2, 2}, {3, 5}, {3, 7}, {5, 17}, {4, 6}};
    committer_fixture b = committer_fixture_open(c);
    for (int s = 0; s < (int)(sizeof SHAPES / sizeof *SHAPES); s++) {
        int64_t run = 100 + s;
        conf_do(b.db, &CONF_APPEND, VALUES(db_int(run), db_int(0), NAME("there"), db_null()));
        conf_ticket t[5];
        int good = 0;
        for (int i = 0; i < SHAPES[s].count; i++) {
            int guilty = (SHAPES[s].guilty >> i) & 1;
            conf_ticket_append(&t[i], run, guilty ? 0 : i + 1, NULL);
            good += !guilty;
        }
        committer_fixture_commit(&b, t, (size_t)SHAPES[s].count);
        for (int i = 0; i < SHAPES[s].count; i++)
            CONF_ANSWER(&t[i], (SHAPES[s].guilty >> i) & 1 ? UNIT_FAILED : UNIT_COMMITTED);
        assert_int_equal(conf_rows(b.db, run), 1 + good);
        conf_tickets_free(t, (size_t)SHAPES[s].count);
    }
    committer_fixture_close(&b);
}

static void a_unit_fails_as_a_whole(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t;
    conf_ticket_append(&t, 1, 1, NULL);
    unit_write(t.unit, &CONF_APPEND, unit_key("journal", 1),
               VALUES(db_int(1), db_int(2), NAME("row"), db_null()));
    unit_write(t.unit, &CONF_APPEND, unit_key("journal", 1),
               VALUES(db_int(1), db_int(2), NAME("again"), db_null()));
    committer_fixture_commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_FAILED);
    assert_int_equal(conf_rows(b.db, 1), 0);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

static const conf_case CASES[] = {
    {"a guard that holds lets the unit in", a_guard_that_holds_lets_the_unit_in, 0},
    {"a guard without a row refuses by name", a_guard_without_a_row_refuses_by_name, 0},
    {"what was found is told on refusal only", what_was_found_is_told_on_refusal_only, 0},
    {"a refused unit leaves nothing of its guards", a_refused_unit_leaves_nothing_of_its_guards, 0},
    {"several rows come back", several_rows_come_back, 0},
    {"mail is numbered in queue order", mail_is_numbered_in_queue_order, 0},
    {"values of all types are handed on", values_of_all_types_are_handed_on, 0},
    {"of two rivals exactly one wins", of_two_rivals_exactly_one_wins, 0},
    {"guards see what came before", guards_see_what_came_before, 0},
    {"an error hits its own unit only", an_error_hits_its_own_unit_only, 0},
    {"guilt at the edges of a batch", guilt_at_the_edges_of_a_batch, 0},
    {"a unit fails as a whole", a_unit_fails_as_a_whole, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
