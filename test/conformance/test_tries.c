/* Tries: statements of a unit that may find nothing, and statements that depend on them.
 *
 * A try runs where guards run and gives rows as they do, but one that gives none lets the unit in:
 * only the statements that take a value of it are left out. So a unit can send to a run that may be
 * gone by now. As in test_units.c it is known here which units share a batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/meta_rows.h"

/* Mail for a run, as it really is. */
static const db_sql MAIL = {"UPDATE {runs} SET mail = mail + 1 WHERE run = $1 RETURNING mail", "i"};
static const db_sql POST = {"INSERT INTO {inbox} (run, seq, kind, name, at)"
                            " VALUES ($1, $2, 1, $3, 0) RETURNING seq",
                            "iit"};
static const db_sql POSTED = {"SELECT count(*) FROM {inbox} WHERE run = $1", "i"};
static const db_sql SEQ = {"SELECT seq FROM {inbox} WHERE run = $1 AND name = $2", "it"};
static const db_sql MAIL_OF = {"SELECT mail FROM {runs} WHERE run = $1", "i"};

static void expect_refused(const conf_ticket *t, const char *guard)
{
    CONF_ANSWER(t, UNIT_REFUSED);
    assert_non_null(t->unit->refused);
    assert_string_equal(t->unit->refused, guard);
}

static int64_t number(committer_fixture *b, const db_sql *sql, int64_t run)
{
    return conf_number(b->db, sql, VALUES(db_int(run)));
}

/* Mail to a run that may be gone. Gives the number of the try; the letter is the statement behind
 * it. */
static int tell(unit *u, int64_t run, const char *name)
{
    int mail = unit_try(u, &MAIL, unit_key("runs", run), VALUES(db_int(run)));
    unit_write(u, &POST, unit_key("inbox", run),
               VALUES(db_int(run), db_from(mail, 0), db_text(slice_of(name))));
    return mail;
}

/* ---- With a row, and without ---- */

static void a_try_gives_its_row(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_make_run(b.db, 1, 6);
    conf_ticket t;
    conf_ticket_open(&t, 0);
    int mail = tell(t.unit, 1, "letter");
    conf_append(t.unit, 9, 1);
    committer_fixture_commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_non_null(unit_rows(t.unit, mail));
    assert_int_equal(unit_rows(t.unit, mail)->values[0].i, 7);
    assert_int_equal(conf_number(b.db, &SEQ, VALUES(db_int(1), NAME("letter"))), 7);
    assert_int_equal(conf_rows(b.db, 9), 1);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* Alone, and between neighbours whose tries find something. */
static void without_a_row_only_what_hangs_on_it_is_left_out(conf *c)
{
    enum { COUNT_UNITS = 3, GONE = 1 };
    committer_fixture b = committer_fixture_open(c);
    for (int round = 0; round < 2; round++) {
        conf_ticket t[COUNT_UNITS];
        int first = round == 0 ? GONE : 0, count = round == 0 ? 1 : COUNT_UNITS;
        for (int i = first; i < first + count; i++) {
            int64_t run = 100 * round + 10 + i;
            if (i != GONE)
                conf_make_run(b.db, run, 3);
            conf_ticket_open(&t[i], 0);
            conf_append(t[i].unit, run, 1);
            int mail = tell(t[i].unit, run, "letter");
            conf_append(t[i].unit, run, 2);
            assert_int_equal(mail, 1);
            if (round == 1)
                unit_guards_first(t[i].unit);
        }
        committer_fixture_commit(&b, t + first, (size_t)count);
        for (int i = first; i < first + count; i++) {
            int64_t run = 100 * round + 10 + i;
            CONF_ANSWER(&t[i], UNIT_COMMITTED);
            assert_int_equal(t[i].unit->code, PAWL_OK);
            assert_int_equal(unit_rows(t[i].unit, 1) != NULL, i != GONE);
            assert_int_equal(unit_rows(t[i].unit, 2) != NULL, i != GONE);
            assert_int_equal(number(&b, &POSTED, run), i != GONE);
            assert_int_equal(conf_rows(b.db, run), 2);
        }
        conf_tickets_free(t + first, (size_t)count);
    }
    committer_fixture_close(&b);
}

/* What hangs on what is left out is left out as well, over tries and writes; another branch of the
 * same unit is not. */
static void leaving_out_goes_on(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_make_run(b.db, 1, 6);
    conf_do(b.db, &META_SET, VALUES(NAME("test.seven"), db_int(7)));
    conf_ticket t[2];
    for (int i = 0; i < 2; i++) {
        conf_ticket_open(&t[i], 0);
        unit *u = t[i].unit;
        int mail = tell(u, i == 0 ? 2 : 1, "letter"); /* run 2 is not there */
        int raise = unit_try(u, &META_RAISE, unit_key("meta", 1),
                             VALUES(NAME("test.seven"), db_from(mail, 0)));
        assert_int_equal(raise, 2);
        unit_write(u, &CONF_APPEND, unit_key("journal", 1),
                   VALUES(db_int(1), db_from(raise, 0), NAME("of a try"), db_null()));
        unit_write(u, &CONF_APPEND, unit_key("journal", 2),
                   VALUES(db_int(2), db_from(1, 0), NAME("of a write"), db_null()));
        int other =
            unit_try(u, &META_TAKE, unit_key("meta", 2), VALUES(NAME("test.other"), db_int(i)));
        unit_write(u, &CONF_APPEND, unit_key("journal", 3),
                   VALUES(db_int(3), db_from(other, 0), NAME("other"), db_null()));
    }
    for (int i = 0; i < 2; i++) {
        committer_fixture_commit(&b, &t[i], 1);
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
        assert_int_equal(meta_number(&b, "test.seven"), i == 0 ? 7 : 8);
        assert_int_equal(conf_rows(b.db, 1), i);
        assert_int_equal(conf_rows(b.db, 2), i);
        assert_int_equal(conf_rows(b.db, 3), 1); /* the second finds it taken */
    }
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

/* A condition that cannot be asked does not hold. */
static void a_guard_that_hangs_on_nothing_refuses(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(7)));
    conf_ticket t[2];
    conf_make_run(b.db, 1, 6);
    for (int i = 0; i < 2; i++) {
        conf_ticket_open(&t[i], 0);
        conf_append(t[i].unit, 5, i);
        int mail = tell(t[i].unit, i, "letter");
        unit_guard(t[i].unit, &META_RAISE, "v", unit_key("meta", 1),
                   VALUES(NAME("test.v"), db_from(mail, 0)));
        unit_found(t[i].unit, &META_GET, VALUES(NAME("test.v")));
        unit_guards_first(t[i].unit);
    }
    committer_fixture_commit(&b, t, 2);
    expect_refused(&t[0], "v");
    assert_non_null(t[0].unit->found);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, 5), 1);
    assert_int_equal(meta_number(&b, "test.v"), 8);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

/* ---- Several units ---- */

/* Two letters to one run in one batch get 7 and 8, by a try, by a guard, or by one of each. */
static void tries_of_one_row_chain(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    for (int round = 0; round < 3; round++) {
        conf_ticket t[2];
        int64_t run = 1 + round;
        conf_make_run(b.db, run, 6);
        for (int i = 0; i < 2; i++) {
            conf_ticket_open(&t[i], 0);
            unit *u = t[i].unit;
            if (round == i + 1) {
                int mail = unit_guard(u, &MAIL, "run", unit_key("runs", run), VALUES(db_int(run)));
                unit_write(u, &POST, unit_key("inbox", run),
                           VALUES(db_int(run), db_from(mail, 0), NAME("letter")));
            } else {
                tell(u, run, "letter");
            }
        }
        committer_fixture_commit(&b, t, 2);
        for (int i = 0; i < 2; i++) {
            CONF_ANSWER(&t[i], UNIT_COMMITTED);
            assert_int_equal(unit_rows(t[i].unit, 0)->values[0].i, 7 + i);
            assert_int_equal(unit_rows(t[i].unit, 1)->values[0].i, 7 + i);
        }
        assert_int_equal(number(&b, &MAIL_OF, run), 8);
        conf_tickets_free(t, 2);
    }
    committer_fixture_close(&b);
}

/* A try sees what was written plainly before it, by the unit before, or by its own. */
static void a_try_sees_what_came_before(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[3];
    for (int i = 0; i < 3; i++)
        conf_ticket_open(&t[i], 0);
    unit_write(t[0].unit, &META_SET, unit_key("meta", 1), VALUES(NAME("test.v"), db_int(3)));
    unit_try(t[1].unit, &META_RAISE, unit_key("meta", 1), VALUES(NAME("test.v"), db_int(3)));
    unit_write(t[2].unit, &META_SET, unit_key("meta", 1), VALUES(NAME("test.v"), db_int(10)));
    unit_try(t[2].unit, &META_RAISE, unit_key("meta", 1), VALUES(NAME("test.v"), db_int(10)));
    committer_fixture_commit(&b, t, 3);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    assert_non_null(unit_rows(t[1].unit, 0));
    assert_non_null(unit_rows(t[2].unit, 1));
    assert_int_equal(meta_number(&b, "test.v"), 11);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

/* The second of three is refused, after its try and what hangs on it have written: nothing of it is
 * there, and its neighbours' letters are numbered as if it had never been. Its guard is behind the
 * try, before it, or put before it. */
static void a_refusal_leaves_nothing_of_tries(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    for (int round = 0; round < 3; round++) {
        int64_t run = 1 + round;
        conf_make_run(b.db, run, 6);
        conf_ticket t[3];
        for (int i = 0; i < 3; i++) {
            conf_ticket_open(&t[i], 0);
            unit *u = t[i].unit;
            db_value no[] = {NAME("test.no"), db_int(1)};
            conf_append(u, run, i);
            if (i == 1 && round == 1)
                unit_guard(u, &META_RAISE, "no", unit_key("meta", 1), no, 2);
            tell(u, run, "letter");
            if (i == 1 && round != 1)
                unit_guard(u, &META_RAISE, "no", unit_key("meta", 1), no, 2);
            if (round == 2)
                unit_guards_first(u);
        }
        committer_fixture_commit(&b, t, 3);
        CONF_ANSWER(&t[0], UNIT_COMMITTED);
        expect_refused(&t[1], "no");
        CONF_ANSWER(&t[2], UNIT_COMMITTED);
        assert_int_equal(unit_rows(t[0].unit, 1)->values[0].i, 7);
        assert_int_equal(unit_rows(t[2].unit, 1)->values[0].i, 8);
        assert_int_equal(number(&b, &POSTED, run), 2);
        assert_int_equal(number(&b, &MAIL_OF, run), 8);
        assert_int_equal(conf_rows(b.db, run), 2);
        conf_tickets_free(t, 3);
    }
    committer_fixture_close(&b);
}

/* ---- The unit of a run: its records, its messages, and at last its guard ---- */

static void build_turn(unit *u, int64_t run, const int64_t *told, int count, int64_t version)
{
    conf_append(u, run, 0);
    for (int i = 0; i < count; i++) {
        assert_int_equal(tell(u, told[i], "letter"), 1 + 3 * i);
        conf_append(u, run, 1 + i);
    }
    assert_int_equal(unit_guard(u, &META_RAISE, "fence", unit_key("meta", run),
                                VALUES(NAME("test.fence"), db_int(version))),
                     1 + 3 * count);
    assert_int_equal(unit_found(u, &META_GET, VALUES(NAME("test.fence"))), 2 + 3 * count);
    unit_guards_first(u);
    int part = 0;
    for (const unit_stmt *s = u->first; s; s = s->next) {
        int its = s->kind == UNIT_TRY ? 1 : s->kind == UNIT_WRITE ? 2 : 0;
        assert_true(its >= part);
        part = its;
    }
    assert_null(u->last->next);
}

static void guards_go_first_and_numbers_stay(conf *c)
{
    static const int64_t TOLD[] = {50, 51, 52, 50}; /* 51 is not there */
    committer_fixture b = committer_fixture_open(c);
    conf_make_run(b.db, 50, 6);
    conf_make_run(b.db, 52, 0);
    conf_do(b.db, &META_SET, VALUES(NAME("test.fence"), db_int(1)));
    conf_ticket t[3];
    for (int i = 0; i < 3; i++)
        conf_ticket_open(&t[i], 0);
    build_turn(t[0].unit, 1, TOLD, 4, 1);
    build_turn(t[1].unit, 1, TOLD, 4, 9); /* refused */
    build_turn(t[2].unit, 3, TOLD, 4, 2);
    committer_fixture_commit(&b, t, 3);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    expect_refused(&t[1], "fence");
    assert_non_null(t[1].unit->found);
    assert_int_equal(t[1].unit->found->values[0].i, 2);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    for (int i = 0; i < 3; i += 2) {
        static const int64_t MAILS[] = {7, 0, 1, 8};
        for (int j = 0; j < 4; j++) {
            const unit_row *mail = unit_rows(t[i].unit, 1 + 3 * j);
            const unit_row *post = unit_rows(t[i].unit, 2 + 3 * j);
            assert_int_equal(mail != NULL, TOLD[j] != 51);
            assert_int_equal(post != NULL, TOLD[j] != 51);
            int64_t wanted = MAILS[j] + (TOLD[j] == 50 ? i : i / 2);
            assert_true(!mail || (mail->values[0].i == wanted && post->values[0].i == wanted));
        }
        assert_int_equal(unit_rows(t[i].unit, 13)->values[0].i, 2 + i / 2);
        assert_int_equal(conf_rows(b.db, 1 + i), 5);
    }
    assert_int_equal(number(&b, &POSTED, 50), 4);
    assert_int_equal(number(&b, &POSTED, 51), 0);
    assert_int_equal(number(&b, &POSTED, 52), 2);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

/* A try that takes the value of a write cannot go before it, nor a guard before a try. */
static void nothing_goes_before_what_it_takes(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_do(b.db, &META_SET, VALUES(NAME("test.v"), db_int(41)));
    conf_ticket t;
    conf_ticket_open(&t, 0);
    unit *u = t.unit;
    conf_append(u, 1, 1);
    unit_write(u, &POST, unit_key("inbox", 1), VALUES(db_int(1), db_int(40), NAME("x")));
    int take =
        unit_try(u, &META_TAKE, unit_key("meta", 2), VALUES(NAME("test.taken"), db_from(1, 0)));
    int free_try =
        unit_try(u, &META_TAKE, unit_key("meta", 3), VALUES(NAME("test.free"), db_int(41)));
    int guard = unit_guard(u, &META_RAISE, "v", unit_key("meta", 1),
                           VALUES(NAME("test.v"), db_from(free_try, 0)));
    unit_guards_first(u);
    committer_fixture_commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(unit_rows(u, take)->values[0].i, 40);
    assert_int_equal(unit_rows(u, guard)->values[0].i, 42);
    assert_int_equal(meta_number(&b, "test.taken"), 40);
    assert_int_equal(conf_number(b.db, &META_COUNT, VALUES(NAME("test.free"))), 1);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* One run sends to many at once, half of which are gone. */
static void many_tries_in_one_unit(conf *c)
{
    enum { MANY = 3000 };
    committer_fixture b = committer_fixture_open(c);
    for (int i = 0; i < MANY; i += 500)
        conf_make_run(b.db, 10 + i, i);
    conf_ticket t;
    conf_ticket_open(&t, 0);
    for (int i = 0; i < MANY; i++)
        tell(t.unit, 10 + i, "letter");
    unit_guards_first(t.unit);
    committer_fixture_commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    for (int i = 0; i < MANY; i++) {
        const unit_row *row = unit_rows(t.unit, 2 * i + 1);
        assert_int_equal(row != NULL, i % 500 == 0);
        assert_true(!row || row->values[0].i == i + 1);
    }
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

static const conf_case CASES[] = {
    {"a try gives its row", a_try_gives_its_row, 0},
    {"without a row only what hangs on it is left out",
     without_a_row_only_what_hangs_on_it_is_left_out, 0},
    {"leaving out goes on", leaving_out_goes_on, 0},
    {"a guard that hangs on nothing refuses", a_guard_that_hangs_on_nothing_refuses, 0},
    {"tries of one row chain", tries_of_one_row_chain, 0},
    {"a try sees what came before", a_try_sees_what_came_before, 0},
    {"a refusal leaves nothing of tries", a_refusal_leaves_nothing_of_tries, 0},
    {"guards go first and numbers stay", guards_go_first_and_numbers_stay, 0},
    {"nothing goes before what it takes", nothing_goes_before_what_it_takes, 0},
    {"many tries in one unit", many_tries_in_one_unit, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
