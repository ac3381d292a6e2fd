/* The seam, part 1: what goes in comes out, on every backend.
 *
 * Everything above the seam relies on values that keep their type, their bytes and their order,
 * and on statements that can be used again whatever happened before. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conf.h"

/* The text is in no index: not every database has room for 16 MB there. */
static const char PROBE[] = "CREATE TABLE {probe} (id {KEY}, i {INT}, t {TEXT}, b {BYTES});"
                            "CREATE UNIQUE INDEX pawl_probe_i ON {probe} (i);";

static const db_sql PUT = {"INSERT INTO {probe} (i, t, b) VALUES ($1, $2, $3) RETURNING id", "itb"};
static const db_sql GET = {"SELECT i, t, b FROM {probe} WHERE id = $1", "i"};

/* A database with the table, and a connection inside a transaction. The largest values take their
 * time where everything is watched. */
typedef struct fixture {
    db *db;
    db_conn *conn;
} fixture;

static fixture fixture_open(const conf *c)
{
    fixture b = {conf_open(c, &(db_options){.claim_ms = 60000}), NULL};
    conf_script(b.db, PROBE);
    b.conn = conf_connect(b.db, DB_WRITER);
    conf_begin(b.conn);
    return b;
}

static void fixture_close(fixture *b)
{
    conf_commit(b->conn);
    db_disconnect(b->conn);
    db_close(b->db);
}

static int64_t put(fixture *b, db_value i, db_value t, db_value bytes)
{
    error err = {0};
    int64_t id = 0;
    int found = 0;
    db_value values[] = {i, t, bytes};
    CONF_OK(db_number(b->conn, &PUT, values, 3, &id, &found, &err), &err);
    assert_true(found);
    return id;
}

/* The row's statement stands on its row; the caller resets it. */
static db_stmt *get(fixture *b, int64_t id)
{
    error err = {0};
    db_stmt *s = NULL;
    CONF_OK(db_prepare(b->conn, &GET, &s, &err), &err);
    CONF_OK(db_bind_all(s, (db_value[]){db_int(id)}, 1, &err), &err);
    assert_int_equal(db_next(s, &err), DB_ROW);
    assert_int_equal(b->conn->driver->columns(s), 3);
    return s;
}

static void expect_bytes(db_value v, db_type type, const void *at, size_t size)
{
    assert_int_equal(v.type, type);
    assert_int_equal(v.s.size, size);
    if (size > 0)
        assert_memory_equal(v.s.at, at, size);
}

static void integers_keep_all_64_bits(conf *c)
{
    static const int64_t NUMBERS[] = {0, 1, -1, INT64_MAX, INT64_MIN, INT64_C(1) << 53, 4294967296};
    fixture b = fixture_open(c);
    for (size_t n = 0; n < sizeof NUMBERS / sizeof *NUMBERS; n++) {
        int64_t id = put(&b, db_int(NUMBERS[n]), db_null(), db_null());
        db_stmt *s = get(&b, id);
        db_value v = db_column(s, 0);
        assert_int_equal(v.type, DB_INT);
        assert_true(v.i == NUMBERS[n]);
        db_reset(s);
    }
    fixture_close(&b);
}

/* Nothing is not the same as empty, even when the empty value points nowhere. */
static void null_and_empty_differ(conf *c)
{
    fixture b = fixture_open(c);
    int64_t nothing = put(&b, db_null(), db_null(), db_null());
    int64_t empty = put(&b, db_int(0), db_text(SLICE_LIT("")), db_bytes(SLICE_LIT("")));
    db_stmt *s = get(&b, nothing);
    for (int i = 0; i < 3; i++)
        assert_int_equal(db_column(s, i).type, DB_NULL);
    db_reset(s);
    s = get(&b, empty);
    expect_bytes(db_column(s, 1), DB_TEXT, "", 0);
    expect_bytes(db_column(s, 2), DB_BYTES, "", 0);
    db_reset(s);
    fixture_close(&b);
}

static void an_empty_slice_may_point_nowhere(conf *c)
{
    fixture b = fixture_open(c);
    slice nowhere = {NULL, 0};
    db_stmt *s = get(&b, put(&b, db_int(0), db_text(nowhere), db_bytes(nowhere)));
    expect_bytes(db_column(s, 1), DB_TEXT, "", 0);
    expect_bytes(db_column(s, 2), DB_BYTES, "", 0);
    db_reset(s);
    fixture_close(&b);
}

static void bytes_may_hold_anything(conf *c)
{
    char all[512];
    for (size_t i = 0; i < sizeof all; i++)
        all[i] = (char)(i ^ (i >> 8));
    static const char WRONG[] = "a\0b\xff\xfe\xc0\x80\xed\xa0\x80";
    fixture b = fixture_open(c);
    db_stmt *s = get(&b, put(&b, db_null(), db_null(), db_bytes((slice){all, sizeof all})));
    expect_bytes(db_column(s, 2), DB_BYTES, all, sizeof all);
    db_reset(s);
    s = get(&b, put(&b, db_null(), db_null(), db_bytes((slice){WRONG, sizeof WRONG})));
    expect_bytes(db_column(s, 2), DB_BYTES, WRONG, sizeof WRONG);
    db_reset(s);
    fixture_close(&b);
}

static size_t utf8(char *at, uint32_t point)
{
    if (point < 0x80) {
        at[0] = (char)point;
        return 1;
    }
    size_t more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
    static const unsigned char LEAD[] = {0, 0xC0, 0xE0, 0xF0};
    at[0] = (char)(LEAD[more] | (point >> (6 * more)));
    for (size_t i = 1; i <= more; i++)
        at[i] = (char)(0x80 | ((point >> (6 * (more - i))) & 0x3F));
    return more + 1;
}

static void text_of_all_planes_comes_back(conf *c)
{
    char text[512];
    size_t size = 0;
    static const uint32_t FIRST[] = {0x01, 0x7F, 0x80, 0x7FF, 0x800, 0xD7FF, 0xE000, 0xFFFD};
    for (size_t i = 0; i < sizeof FIRST / sizeof *FIRST; i++)
        size += utf8(text + size, FIRST[i]);
    for (uint32_t plane = 1; plane <= 16; plane++) {
        size += utf8(text + size, plane * 0x10000);
        size += utf8(text + size, plane * 0x10000 + 0xFFFD);
    }
    fixture b = fixture_open(c);
    db_stmt *s = get(&b, put(&b, db_null(), db_text((slice){text, size}), db_null()));
    expect_bytes(db_column(s, 1), DB_TEXT, text, size);
    db_reset(s);
    fixture_close(&b);
}

static void the_largest_payload_fits(conf *c)
{
    char *big = malloc(PAWL_MAX_PAYLOAD);
    assert_non_null(big);
    for (size_t i = 0; i < PAWL_MAX_PAYLOAD; i++)
        big[i] = (char)('a' + (i * 31 + i / 4096) % 26);
    slice s = {big, PAWL_MAX_PAYLOAD};
    fixture b = fixture_open(c);
    db_stmt *row = get(&b, put(&b, db_null(), db_text(s), db_null()));
    expect_bytes(db_column(row, 1), DB_TEXT, big, PAWL_MAX_PAYLOAD);
    db_reset(row);
    row = get(&b, put(&b, db_null(), db_null(), db_bytes(s)));
    expect_bytes(db_column(row, 2), DB_BYTES, big, PAWL_MAX_PAYLOAD);
    db_reset(row);
    fixture_close(&b);
    free(big);
}

/* Bytewise, neither by language nor by UTF-16 units, and with trailing blanks. */
static void text_is_ordered_bytewise(conf *c)
{
    static const db_sql SORTED = {"SELECT t FROM {probe} ORDER BY t", ""};
    static const char *const WORDS[] = {"",         "A",        "A ",           "B",
                                        "Z",        "a",        "aa",           "z",
                                        "\xC3\x84", "\xC3\xA4", "\xEF\xBF\xBD", "\xF0\x90\x80\x80"};
    enum { COUNT = sizeof WORDS / sizeof *WORDS };
    fixture b = fixture_open(c);
    for (int i = 0; i < COUNT; i++)
        put(&b, db_null(), db_text(slice_of(WORDS[(i * 5) % COUNT])), db_null());
    error err = {0};
    db_stmt *s = NULL;
    CONF_OK(db_prepare(b.conn, &SORTED, &s, &err), &err);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(db_next(s, &err), DB_ROW);
        expect_bytes(db_column(s, 0), DB_TEXT, WORDS[i], strlen(WORDS[i]));
    }
    assert_int_equal(db_next(s, &err), DB_DONE);
    db_reset(s);
    fixture_close(&b);
}

/* $2 before $1, and $1 twice: parameters go by their number, not by where they stand. */
static void parameters_go_by_number(conf *c)
{
    static const db_sql SWAP = {
        "INSERT INTO {probe} (t, i, b) VALUES ($2, $1 + $1, $3) RETURNING i, t, b", "itb"};
    fixture b = fixture_open(c);
    error err = {0};
    db_stmt *s = NULL;
    CONF_OK(db_prepare(b.conn, &SWAP, &s, &err), &err);
    db_value values[] = {db_int(21), db_text(SLICE_LIT("two")), db_bytes(SLICE_LIT("three"))};
    CONF_OK(db_bind_all(s, values, 3, &err), &err);
    assert_int_equal(db_next(s, &err), DB_ROW);
    assert_int_equal(db_column(s, 0).i, 42);
    expect_bytes(db_column(s, 1), DB_TEXT, "two", 3);
    expect_bytes(db_column(s, 2), DB_BYTES, "three", 5);
    db_reset(s);
    fixture_close(&b);
}

static void statements_are_kept_and_used_again(conf *c)
{
    fixture b = fixture_open(c);
    error err = {0};
    int64_t one = put(&b, db_int(1), db_null(), db_null());
    int64_t two = put(&b, db_int(2), db_null(), db_null());
    db_stmt *first = get(&b, one);
    db_reset(first); /* in the middle, before DB_DONE */
    db_stmt *second = get(&b, two);
    assert_ptr_equal(first, second);
    assert_int_equal(db_column(second, 0).i, 2);
    assert_int_equal(db_next(second, &err), DB_DONE);
    db_reset(second);
    fixture_close(&b);
}

/* A value that was bound once does not stay for the next use. */
static void a_statement_works_again_after_an_error(conf *c)
{
    fixture b = fixture_open(c);
    error err = {0};
    static const db_sql COUNT = {"SELECT count(*) FROM {probe} WHERE t IS NULL AND b IS NULL", ""};
    static const db_sql SAVE = {"SAVEPOINT s", ""};
    static const db_sql BACK = {"ROLLBACK TO SAVEPOINT s", ""};
    put(&b, db_int(7), db_text(SLICE_LIT("first")), db_bytes(SLICE_LIT("x")));
    CONF_OK(db_run(b.conn, &SAVE, NULL, 0, &err), &err);
    db_value again[] = {db_int(7), db_text(SLICE_LIT("second")), db_bytes(SLICE_LIT("y"))};
    pawl_code code = db_run(b.conn, &PUT, again, 3, &err);
    assert_int_equal(code, PAWL_DATA);
    assert_int_equal(err.code, PAWL_DATA);
    assert_true(err.message[0] != '\0');
    assert_true(b.conn->driver->in_transaction(b.conn));
    CONF_OK(db_run(b.conn, &BACK, NULL, 0, &err), &err);

    put(&b, db_int(3), db_null(), db_null());
    int64_t count = 0;
    int found = 0;
    CONF_OK(db_number(b.conn, &COUNT, NULL, 0, &count, &found, &err), &err);
    assert_int_equal(count, 1);
    fixture_close(&b);
}

static void wrong_sql_is_an_error_with_words(conf *c)
{
    static const db_sql WRONG[] = {
        {"SELEC 1", ""},
        {"SELECT nothing FROM {probe}", ""},
        {"SELECT 1 FROM {there_is_no_such_table}", ""},
    };
    enum { COUNT = sizeof WRONG / sizeof *WRONG };
    fixture b = fixture_open(c);
    for (int i = 0; i < 2 * COUNT; i++) { /* twice: it does not become right by being kept */
        error err = {0};
        pawl_code code = db_run(b.conn, &WRONG[i % COUNT], NULL, 0, &err);
        assert_int_not_equal(code, PAWL_OK);
        assert_int_equal(err.code, code);
        assert_true(err.message[0] != '\0');
        db_rollback(b.conn);
        conf_begin(b.conn);
        put(&b, db_int(i), db_null(), db_null()); /* the connection is still of use */
    }
    fixture_close(&b);
}

static void numbers_that_are_not_there(conf *c)
{
    static const db_sql NONE = {"SELECT i FROM {probe} WHERE id = $1", "i"};
    fixture b = fixture_open(c);
    error err = {0};
    int64_t out = 5;
    int found = 1;
    CONF_OK(db_number(b.conn, &NONE, (db_value[]){db_int(-1)}, 1, &out, &found, &err), &err);
    assert_int_equal(found, 0);
    fixture_close(&b);
}

/* ---- Braces ---- */

static void braces_become_names(conf *c)
{
    db *d = conf_open(c, NULL);
    error err = {0};
    buf out;
    buf_init(&out, 4096);
    CONF_OK(db_expand(d->driver, "SELECT a FROM {runs}, {inbox}", &out, &err), &err);
    assert_null(strchr(buf_str(&out), '{'));
    assert_non_null(strstr(buf_str(&out), "runs, "));
    assert_non_null(strstr(buf_str(&out), d->driver->table_prefix));
    buf_free(&out);

    for (const db_macro *m = d->driver->macros; m->name; m++) {
        char text[64];
        snprintf(text, sizeof text, "<{%s}>", m->name);
        buf_init(&out, 4096);
        CONF_OK(db_expand(d->driver, text, &out, &err), &err);
        assert_int_equal(strlen(buf_str(&out)), strlen(m->text) + 2);
        assert_memory_equal(buf_str(&out) + 1, m->text, strlen(m->text));
        buf_free(&out);
    }
    db_close(d);
}

static void wrong_braces_are_errors(conf *c)
{
    static const char *const WRONG[] = {"SELECT {NOSUCHMACRO}", "SELECT 1 FROM {runs", "SELECT {}",
                                        "{", "SELECT 1 FROM {runs WHERE x = {KEY}"};
    db *d = conf_open(c, NULL);
    for (size_t i = 0; i < sizeof WRONG / sizeof *WRONG; i++) {
        error err = {0};
        buf out;
        buf_init(&out, 4096);
        pawl_code code = db_expand(d->driver, WRONG[i], &out, &err);
        assert_int_not_equal(code, PAWL_OK);
        assert_true(err.message[0] != '\0');
        buf_free(&out);
    }
    db_close(d);
}

/* A bound that is too small is an error, not half a statement. */
static void expansion_respects_its_bound(conf *c)
{
    db *d = conf_open(c, NULL);
    error err = {0};
    buf out;
    buf_init(&out, 8);
    assert_int_not_equal(db_expand(d->driver, "SELECT 1 FROM {runs}", &out, &err), PAWL_OK);
    buf_free(&out);
    db_close(d);
}

static const conf_case CASES[] = {
    {"integers keep all 64 bits", integers_keep_all_64_bits, 0},
    {"NULL and empty differ", null_and_empty_differ, 0},
    {"an empty slice may point nowhere", an_empty_slice_may_point_nowhere, 0},
    {"bytes may hold anything", bytes_may_hold_anything, 0},
    {"text of all planes comes back", text_of_all_planes_comes_back, 0},
    {"the largest payload fits", the_largest_payload_fits, 0},
    {"text is ordered bytewise", text_is_ordered_bytewise, 0},
    {"parameters go by number", parameters_go_by_number, 0},
    {"statements are kept and used again", statements_are_kept_and_used_again, 0},
    {"a statement works again after an error", a_statement_works_again_after_an_error, 0},
    {"wrong SQL is an error with words", wrong_sql_is_an_error_with_words, 0},
    {"numbers that are not there", numbers_that_are_not_there, 0},
    {"braces become names", braces_become_names, 0},
    {"wrong braces are errors", wrong_braces_are_errors, 0},
    {"expansion respects its bound", expansion_respects_its_bound, 0},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
