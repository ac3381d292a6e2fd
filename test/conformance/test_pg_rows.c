/* What units of one batch give to the database and get back from it: each its own rows, all values
 * as they were, and an error that is its own.
 *
 * Where inserts of several units go as one, with arrays for their values, it has to be found out
 * whose row is whose, and whose value was not good. On a database that does one thing at a time
 * this is hardly worth a test; the answers have to be the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/meta_rows.h"

static const db_sql PUT_BACK = {
    "INSERT INTO {meta} (name, number) VALUES ($1, $2) RETURNING number, name", "ti"};

/* ---- Rows that come back ---- */

static void every_unit_gets_its_own_rows(conf *c)
{
    enum { UNITS = 200 };
    static const db_sql WHOSE = {"SELECT seq FROM {journal} WHERE pos = $1", "i"};
    committer_fixture b = committer_fixture_open(c);
    conf_ticket *t = calloc(UNITS, sizeof *t);
    assert_non_null(t);
    conf_tickets_open(t, UNITS);
    for (int i = 0; i < UNITS; i++) {
        db_value name = meta_name(&t[i], "row", i);
        if (i % 3 != 1)
            conf_append(t[i].unit, 1, i);
        if (i % 3 != 2)
            unit_write(t[i].unit, &PUT_BACK, unit_key_text("meta", name.s),
                       VALUES(name, db_int(1000 + i)));
    }
    committer_fixture_commit(&b, t, UNITS);
    db_conn *reader = conf_connect(b.db, DB_READER);
    conf_begin(reader);
    for (int i = 0; i < UNITS; i++) {
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
        int number = 0;
        if (i % 3 != 1) {
            const unit_row *row = unit_rows(t[i].unit, number++);
            assert_non_null(row);
            assert_null(row->next);
            assert_int_equal(conf_number_on(reader, &WHOSE, row->values, 1), i);
        }
        if (i % 3 != 2) {
            const unit_row *row = unit_rows(t[i].unit, number);
            assert_non_null(row);
            assert_null(row->next);
            assert_int_equal(row->values[0].i, 1000 + i);
            db_value name = meta_name(&t[i], "row", i);
            assert_true(slice_equal(row->values[1].s, name.s));
        }
    }
    db_rollback(reader);
    db_disconnect(reader);
    conf_tickets_free(t, UNITS);
    free(t);
    committer_fixture_close(&b);
}

/* ---- Numbers that a write takes of a guard ---- */

static const db_sql COUNT_UP = {"UPDATE {runs} SET mail = mail + 1, fence = fence + 10"
                                " WHERE run = $1 RETURNING mail, fence",
                                "k"};
static const db_sql META_MORE = {"INSERT INTO {meta} (name, number) VALUES ($1, $2 + 100)", "ti"};

/* A unit that is alone: a run's `mail` is 8 then, and its fence 10. */
static void begin_counting(conf_ticket *t, int64_t run)
{
    conf_ticket_open(t, 0);
    int guard =
        unit_guard(t->unit, &COUNT_UP, "g", unit_key("runs", (uint64_t)run), VALUES(db_int(run)));
    assert_int_equal(guard, 0);
}

static void write_number(conf_ticket *t, const db_sql *sql, const char *name, int column)
{
    slice key = slice_of(name);
    unit_write(t->unit, sql, unit_key_text("meta", key), VALUES(db_text(key), db_from(0, column)));
}

static void commit_counting(committer_fixture *b, conf_ticket *t)
{
    committer_fixture_commit(b, t, 1);
    CONF_ANSWER(t, UNIT_COMMITTED);
    const unit_row *row = unit_rows(t->unit, 0);
    assert_int_equal(row->count, 2);
    assert_int_equal(row->values[0].i, 8);
    assert_int_equal(row->values[1].i, 10);
    conf_ticket_free(t);
}

static void a_write_takes_one_number_of_a_guard(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t;
    for (int column = 0; column < 2; column++) { /* the second one is in another form */
        conf_make_run(b.db, 1 + column, 7);
        begin_counting(&t, 1 + column);
        write_number(&t, &META_MORE, column ? "fence" : "mail", column);
        commit_counting(&b, &t);
    }
    assert_int_equal(meta_number(&b, "mail"), 108);
    assert_int_equal(meta_number(&b, "fence"), 110);
    begin_counting(&t, 3); /* there is no such run */
    write_number(&t, &META_MORE, "none", 0);
    committer_fixture_commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_REFUSED);
    assert_string_equal(t.unit->refused, "g");
    conf_ticket_free(&t);
    assert_int_equal(conf_number(b.db, &META_COUNT, VALUES(NAME("none"))), 0);
    committer_fixture_close(&b);
}

static void writes_take_two_numbers_of_a_guard(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t;
    conf_make_run(b.db, 1, 7);
    begin_counting(&t, 1);
    write_number(&t, &META_MORE, "mail", 0);
    write_number(&t, &META_SET, "fence", 1);
    commit_counting(&b, &t);
    conf_make_run(b.db, 2, 7);
    begin_counting(&t, 2);
    write_number(&t, &META_MORE, "one", 0); /* of one kind, so they go as an array */
    write_number(&t, &META_MORE, "same", 0);
    commit_counting(&b, &t);
    assert_int_equal(meta_number(&b, "mail"), 108);
    assert_int_equal(meta_number(&b, "fence"), 10);
    assert_int_equal(meta_number(&b, "one"), 108);
    assert_int_equal(meta_number(&b, "same"), 108);
    committer_fixture_close(&b);
}

/* ---- Rows that do not fit ---- */

static const db_sql STORE = {"INSERT INTO {journal} (run, generation, seq, kind, name, at, data)"
                             " VALUES ($1, 1, $2, 1, 'large', 0, $3) RETURNING data",
                             "iib"};
static const db_sql FETCH = {"SELECT data FROM {journal} WHERE run = $1 AND seq = $2 {LOCK_SHARED}",
                             "ii"};

/* Which of its statements gives the row. */
typedef enum { LARGE_WRITE, LARGE_GUARD, LARGE_FOUND, LARGE_KINDS } large_kind;

static void make_large(conf_ticket *t, size_t limit, large_kind kind, int64_t run, slice data)
{
    conf_ticket_open(t, limit);
    if (kind == LARGE_GUARD)
        unit_guard(t->unit, &FETCH, "g", unit_key("journal", 1), VALUES(db_int(1), db_int(0)));
    if (kind == LARGE_FOUND) {
        unit_guard(t->unit, &META_RAISE, "g", unit_key("meta", 1), VALUES(NAME("none"), db_int(0)));
        unit_found(t->unit, &FETCH, VALUES(db_int(1), db_int(0)));
    }
    conf_append(t->unit, run, 1);
    if (kind == LARGE_WRITE)
        unit_write(t->unit, &STORE, unit_key("journal", run),
                   VALUES(db_int(run), db_int(2), db_bytes(data)));
}

/* `units` of a kind, of which the one in the middle may have `limit` bytes only. */
static void try_large(committer_fixture *b, int64_t run, size_t limit, large_kind kind, int units,
                      slice data)
{
    conf_ticket t[5];
    int bad = units / 2;
    unit_answer good = kind == LARGE_FOUND ? UNIT_REFUSED : UNIT_COMMITTED;
    int64_t rows = kind == LARGE_FOUND ? 0 : kind == LARGE_WRITE ? 2 : 1;
    for (int i = 0; i < units; i++)
        make_large(&t[i], i == bad ? limit : 0, kind, run + i, data);
    committer_fixture_commit(b, t, (size_t)units);
    for (int i = 0; i < units; i++) {
        CONF_ANSWER(&t[i], i == bad ? UNIT_FAILED : good);
        if (i == bad && t[i].unit->code != PAWL_LIMIT)
            fail_msg("limit %zu, kind %d, %d units: %s", limit, (int)kind, units,
                     pawl_code_name(t[i].unit->code));
        assert_int_equal(conf_rows(b->db, run + i), i == bad ? 0 : rows);
    }
    conf_tickets_free(t, (size_t)units);
}

/* It fails, nothing of it is durable, and its neighbours are in. */
static void rows_that_do_not_fit_fail_their_unit(conf *c)
{
    static const size_t LIMITS[] = {8 * 1024, 200 * 1024};
    enum { SIZE = 1024 * 1024 };
    committer_fixture b = committer_fixture_open(c);
    char *bytes = calloc(1, SIZE);
    assert_non_null(bytes);
    slice data = {bytes, SIZE};
    conf_do(b.db, &STORE, VALUES(db_int(1), db_int(0), db_bytes(data)));
    for (int i = 0; i < 2 * LARGE_KINDS; i++) {
        try_large(&b, 100 * (i + 1), LIMITS[i % 2], (large_kind)(i / 2), 1, data);
        try_large(&b, 100 * (i + 1) + 50, LIMITS[i % 2], (large_kind)(i / 2), 5, data);
    }
    free(bytes);
    committer_fixture_close(&b);
}

/* ---- Values ---- */

static const db_sql WRITE_ALL = {"INSERT INTO {inbox} (run, seq, kind, name, key, at, data)"
                                 " VALUES ($1, $2, 1, $3, $4, $5, $6)"
                                 " RETURNING run, seq, name, key, at, data",
                                 "iittib"};
static const db_sql READ_ALL = {
    "SELECT run, seq, name, key, at, data FROM {inbox} WHERE run = $1 AND seq = $2", "ii"};

enum { COLUMNS = 6 };

static void expect_equal(const db_value *wanted, db_value got, int unit_number, int column)
{
    int same = wanted->type == got.type;
    if (same && wanted->type == DB_INT)
        same = wanted->i == got.i;
    if (same && (wanted->type == DB_TEXT || wanted->type == DB_BYTES))
        same = slice_equal(wanted->s, got.s);
    if (!same)
        fail_msg("unit %d, column %d: type %d is %d, size %zu is %zu", unit_number, column,
                 (int)wanted->type, (int)got.type, wanted->s.size, got.s.size);
}

static void expect_read(db_conn *reader, const db_value *wanted, int unit_number)
{
    error err = {0};
    db_stmt *s;
    CONF_OK(db_prepare(reader, &READ_ALL, &s, &err), &err);
    CONF_OK(db_bind_all(s, wanted, 2, &err), &err);
    assert_int_equal(db_next(s, &err), DB_ROW);
    for (int i = 0; i < COLUMNS; i++)
        expect_equal(&wanted[i], db_column(s, i), unit_number, i);
    assert_int_equal(db_next(s, &err), DB_DONE);
    db_reset(s);
}

/* All values of a batch come back equal, from the unit and from the table. */
static void values_come_back_equal(conf *c)
{
    static const int64_t INTS[] = {0,         1,        -1, INT32_MAX, INT32_MIN, INT64_C(1) << 32,
                                   INT64_MAX, INT64_MIN};
    static const char *const TEXTS[] = {"",      "a",   "\xC3\xA4\xF0\x9F\x90\xBE", "NULL",
                                        "{1,2}", "\\x", "it's \"$1\" \\",           " \n\t"};
    enum { UNITS = 24, LARGE = 1024 * 1024, KINDS = 8 };
    char *bytes = malloc(LARGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = (char)(i * 7 + i / 256);
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[UNITS];
    db_value values[UNITS][COLUMNS];
    static const size_t SIZES[] = {0, 1, 255, 256, 8191, 65536, LARGE - 1, LARGE};
    conf_tickets_open(t, UNITS);
    for (int i = 0; i < UNITS; i++) {
        const char *text = TEXTS[i % KINDS];
        db_value all[COLUMNS] = {db_int(INTS[i % KINDS]),
                                 db_int(i),
                                 db_text(slice_of(text)),
                                 i % 5 ? db_text(slice_of(TEXTS[i / 3])) : db_null(),
                                 db_int(INTS[KINDS - 1 - i % KINDS]),
                                 db_bytes((slice){bytes, SIZES[i / 3]})};
        if (i % 7 == 3)
            all[5] = db_null();
        memcpy(values[i], all, sizeof all);
        unit_write(t[i].unit, &WRITE_ALL, unit_key("inbox", i), all, COLUMNS);
    }
    committer_fixture_commit(&b, t, UNITS);
    db_conn *reader = conf_connect(b.db, DB_READER);
    conf_begin(reader);
    for (int i = 0; i < UNITS; i++) {
        CONF_ANSWER(&t[i], UNIT_COMMITTED);
        const unit_row *row = unit_rows(t[i].unit, 0);
        assert_non_null(row);
        assert_int_equal(row->count, COLUMNS);
        for (int n = 0; n < COLUMNS; n++)
            expect_equal(&values[i][n], row->values[n], i, n);
        expect_read(reader, values[i], i);
    }
    db_rollback(reader);
    db_disconnect(reader);
    conf_tickets_free(t, UNITS);
    free(bytes);
    committer_fixture_close(&b);
}

/* ---- On a server alone ---- */

/* Text that is none is refused by the server; the seam's callers look at it before (text.h). */
static void text_that_is_not_utf_8_fails_its_unit(conf *c)
{
    const slice BAD[] = {SLICE_LIT("\xff\xfe"), SLICE_LIT("a\0b"), SLICE_LIT("\xC0\xAF"),
                         SLICE_LIT("\xED\xA0\x80"), SLICE_LIT("cut \xC3")};
    enum { KINDS = sizeof BAD / sizeof *BAD, UNITS = 6 };
    committer_fixture b = committer_fixture_open(c);
    for (int i = 0; i < 2 * KINDS; i++) {
        int units = i < KINDS ? UNITS : 1, bad = units / 2;
        int64_t run = 1 + i;
        conf_ticket t[UNITS];
        conf_tickets_open(t, (size_t)units);
        for (int n = 0; n < units; n++)
            unit_write(t[n].unit, &CONF_APPEND, unit_key("journal", run),
                       VALUES(db_int(run), db_int(n),
                              n == bad ? db_text(BAD[i % KINDS]) : NAME("x"), db_null()));
        committer_fixture_commit(&b, t, (size_t)units);
        for (int n = 0; n < units; n++) {
            CONF_ANSWER(&t[n], n == bad ? UNIT_FAILED : UNIT_COMMITTED);
            assert_int_equal(t[n].unit->code, n == bad ? PAWL_DATA : PAWL_OK);
        }
        assert_int_equal(conf_rows(b.db, run), units - 1);
        conf_tickets_free(t, (size_t)units);
    }
    committer_fixture_close(&b);
}

static const conf_case CASES[] = {
    {"every unit gets its own rows", every_unit_gets_its_own_rows, 0},
    {"a write takes one number of a guard", a_write_takes_one_number_of_a_guard, 0},
    {"writes take two numbers of a guard", writes_take_two_numbers_of_a_guard, 0},
    {"rows that do not fit fail their unit", rows_that_do_not_fit_fail_their_unit, 0},
    {"values come back equal", values_come_back_equal, 0},
};

static const conf_case SERVER_CASES[] = {
    {"text that is not UTF-8 fails its unit", text_that_is_not_utf_8_fails_its_unit, 0},
};

int main(void)
{
    int failed = conf_run_reused(CASES, CONF_COUNT(CASES));
    return failed + conf_run_on("postgres", SERVER_CASES, CONF_COUNT(SERVER_CASES));
}
