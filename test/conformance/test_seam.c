/* The seam, part 2: transactions, and what connections see of each other.
 *
 * A writer's transaction is alone, a reader's sees one state, and what was not committed is not
 * there. On these three stand the guards of every unit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "support/conf.h"

static const db_sql COUNT_ALL = {"SELECT count(*) FROM {journal}", ""};

static void append(db_conn *c, int64_t run, int64_t seq)
{
    error err = {0};
    db_value values[] = {db_int(run), db_int(seq), db_text(SLICE_LIT("row")), db_null()};
    CONF_OK(db_run(c, &CONF_APPEND, values, 4, &err), &err);
}

/* Inside the connection's transaction. */
static int64_t count(db_conn *c)
{
    error err = {0};
    int64_t number = 0;
    int found = 0;
    CONF_OK(db_number(c, &COUNT_ALL, NULL, 0, &number, &found, &err), &err);
    assert_true(found);
    return number;
}

/* ---- Alone ---- */

static void committed_rows_stay(conf *c)
{
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    assert_false(w->driver->in_transaction(w));
    conf_begin(w);
    assert_true(w->driver->in_transaction(w));
    append(w, 1, 1);
    conf_commit(w);
    assert_false(w->driver->in_transaction(w));
    db_disconnect(w);
    assert_int_equal(conf_rows(d, 1), 1);
    db_close(d);
}

static void rolled_back_rows_are_gone(conf *c)
{
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    conf_begin(w);
    append(w, 1, 1);
    assert_int_equal(count(w), 1);
    db_rollback(w);
    assert_false(w->driver->in_transaction(w));
    conf_begin(w);
    assert_int_equal(count(w), 0);
    append(w, 1, 1); /* its place is free again */
    conf_commit(w);
    db_disconnect(w);
    assert_int_equal(conf_rows(d, 1), 1);
    db_close(d);
}

static void a_connection_that_goes_takes_its_transaction_along(conf *c)
{
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    conf_begin(w);
    append(w, 1, 1);
    db_disconnect(w);
    assert_int_equal(conf_rows(d, 1), 0);
    w = conf_connect(d, DB_WRITER); /* and lets the next one in */
    conf_begin(w);
    append(w, 1, 2);
    conf_commit(w);
    db_disconnect(w);
    assert_int_equal(conf_rows(d, 1), 1);
    db_close(d);
}

/* A4: a unit is undone alone by a savepoint; that is what the batch stands on. */
static void savepoints_undo_the_last_part_only(conf *c)
{
    static const db_sql SAVE = {"SAVEPOINT part", ""};
    static const db_sql BACK = {"ROLLBACK TO SAVEPOINT part", ""};
    static const db_sql RELEASE = {"RELEASE SAVEPOINT part", ""};
    error err = {0};
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    conf_begin(w);
    append(w, 1, 1);
    CONF_OK(db_run(w, &SAVE, NULL, 0, &err), &err);
    append(w, 1, 2);
    CONF_OK(db_run(w, &BACK, NULL, 0, &err), &err);
    CONF_OK(db_run(w, &RELEASE, NULL, 0, &err), &err);
    append(w, 1, 3);
    conf_commit(w);
    db_disconnect(w);
    assert_int_equal(conf_rows(d, 1), 2);
    db_close(d);
}

static void reopened_it_is_all_there(conf *c)
{
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    for (int i = 1; i <= 10; i++) {
        conf_begin(w);
        append(w, 1, i);
        conf_commit(w);
    }
    db_disconnect(w);
    db_close(d);
    d = conf_open(c, NULL);
    assert_int_equal(conf_rows(d, 1), 10);
    db_close(d);
}

static void the_core_tables_are_there(conf *c)
{
    static const db_sql TABLES[] = {
        {"SELECT count(*) FROM {meta}", ""},        {"SELECT count(*) FROM {nodes}", ""},
        {"SELECT count(*) FROM {beats}", ""},       {"SELECT count(*) FROM {runs}", ""},
        {"SELECT count(*) FROM {generations}", ""}, {"SELECT count(*) FROM {journal}", ""},
        {"SELECT count(*) FROM {inbox}", ""},       {"SELECT count(*) FROM {receipts}", ""},
        {"SELECT count(*) FROM {tasks}", ""},       {"SELECT count(*) FROM {outbox}", ""},
    };
    db *d = conf_open(c, NULL);
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++)
        conf_number(d, &TABLES[i], NULL, 0);
    db_close(d);
}

/* ---- The forms that guards are made of ---- */

static int64_t rows_of(db_conn *c, const db_sql *sql, const db_value *values, int n, int64_t *first)
{
    error err = {0};
    db_stmt *s = NULL;
    int64_t rows = 0;
    CONF_OK(db_prepare(c, sql, &s, &err), &err);
    CONF_OK(db_bind_all(s, values, n, &err), &err);
    db_step step;
    while ((step = db_next(s, &err)) == DB_ROW) {
        if (rows++ == 0)
            *first = db_column(s, 0).i;
    }
    assert_int_equal(step, DB_DONE);
    db_reset(s);
    return rows;
}

static void guards_say_by_rows_whether_they_hold(conf *c)
{
    static const db_sql TAKE = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)"
                                " ON CONFLICT (name) DO NOTHING RETURNING number",
                                "ti"};
    static const db_sql ADD = {
        "INSERT INTO {meta} (name, number) VALUES ($1, $2) ON CONFLICT (name)"
        " DO UPDATE SET number = {meta}.number + excluded.number"
        " RETURNING number",
        "ti"};
    static const db_sql SWAP = {
        "UPDATE {meta} SET number = $3 WHERE name = $1 AND number = $2 RETURNING number", "tii"};
    static const db_sql DROP = {"DELETE FROM {meta} WHERE name = $1 RETURNING number", "t"};
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    db_value key = db_text(SLICE_LIT("test.guard"));
    int64_t n = -1;
    conf_begin(w);
    assert_int_equal(rows_of(w, &TAKE, (db_value[]){key, db_int(1)}, 2, &n), 1);
    assert_int_equal(rows_of(w, &TAKE, (db_value[]){key, db_int(2)}, 2, &n), 0);
    assert_int_equal(rows_of(w, &ADD, (db_value[]){key, db_int(4)}, 2, &n), 1);
    assert_int_equal(n, 5);
    assert_int_equal(rows_of(w, &SWAP, (db_value[]){key, db_int(1), db_int(9)}, 3, &n), 0);
    assert_int_equal(rows_of(w, &SWAP, (db_value[]){key, db_int(5), db_int(9)}, 3, &n), 1);
    assert_int_equal(n, 9);
    assert_int_equal(rows_of(w, &DROP, (db_value[]){key}, 1, &n), 1);
    assert_int_equal(n, 9);
    assert_int_equal(rows_of(w, &DROP, (db_value[]){key}, 1, &n), 0);
    conf_commit(w);
    db_disconnect(w);
    db_close(d);
}

static void returning_gives_every_row(conf *c)
{
    static const db_sql ALL = {"UPDATE {journal} SET at = at + 1 WHERE run = $1 RETURNING seq",
                               "i"};
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    conf_begin(w);
    for (int i = 1; i <= 5; i++)
        append(w, 1, i);
    append(w, 2, 1);
    int64_t first = 0;
    assert_int_equal(rows_of(w, &ALL, (db_value[]){db_int(1)}, 1, &first), 5);
    assert_in_range(first, 1, 5);
    conf_commit(w);
    db_disconnect(w);
    db_close(d);
}

/* A statement whose rows are not all read has done all of its work all the same. */
static void an_unread_row_is_a_written_row(conf *c)
{
    static const db_sql ALL = {"UPDATE {journal} SET at = 7 WHERE run = $1 RETURNING seq", "i"};
    static const db_sql DONE = {"SELECT count(*) FROM {journal} WHERE at = 7", ""};
    error err = {0};
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    conf_begin(w);
    for (int i = 1; i <= 5; i++)
        append(w, 1, i);
    db_stmt *s = NULL;
    CONF_OK(db_prepare(w, &ALL, &s, &err), &err);
    CONF_OK(db_bind_all(s, (db_value[]){db_int(1)}, 1, &err), &err);
    assert_int_equal(db_next(s, &err), DB_ROW);
    db_reset(s);
    conf_commit(w);
    db_disconnect(w);
    assert_int_equal(conf_number(d, &DONE, NULL, 0), 5);
    db_close(d);
}

/* ---- Two connections ---- */

static void an_open_transaction_is_invisible(conf *c)
{
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    db_conn *r = conf_connect(d, DB_READER);
    conf_begin(w);
    append(w, 1, 1);
    conf_begin(r);
    assert_int_equal(count(r), 0);
    db_rollback(r);
    conf_commit(w);
    conf_begin(r);
    assert_int_equal(count(r), 1);
    db_rollback(r);
    db_disconnect(r);
    db_disconnect(w);
    db_close(d);
}

static void a_reader_sees_one_state_of_the_database(conf *c)
{
    db *d = conf_open(c, NULL);
    db_conn *w = conf_connect(d, DB_WRITER);
    db_conn *r = conf_connect(d, DB_READER);
    conf_begin(r);
    assert_int_equal(count(r), 0);
    for (int i = 1; i <= 3; i++) {
        conf_begin(w);
        append(w, 1, i);
        conf_commit(w);
        assert_int_equal(count(r), 0);
    }
    conf_commit(r);
    conf_begin(r);
    assert_int_equal(count(r), 3);
    db_rollback(r);
    db_disconnect(r);
    db_disconnect(w);
    db_close(d);
}

/* A writer must find out at its beginning that it is not alone: a guard that read first and wrote
 * later would have read an old state. */
static void two_writers_do_not_overlap(conf *c)
{
    error err = {0};
    db *d = conf_open(c, &(db_options){.by_hand = 1});
    db_conn *one = conf_connect(d, DB_WRITER);
    db_conn *two = conf_connect(d, DB_WRITER);
    conf_begin(one);
    append(one, 1, 1);
    assert_int_equal(db_begin(two, &err), PAWL_BUSY);
    assert_false(two->driver->in_transaction(two));
    conf_commit(one);
    conf_begin(two);
    assert_int_equal(count(two), 1);
    append(two, 1, 2);
    conf_commit(two);
    db_disconnect(two);
    db_disconnect(one);
    assert_int_equal(conf_rows(d, 1), 2);
    db_close(d);
}

static void writers_of_two_engines_do_not_overlap(conf *c)
{
    error err = {0};
    db *d = conf_open(c, &(db_options){.by_hand = 1});
    db *e = conf_open(c, &(db_options){.by_hand = 1});
    db_conn *one = conf_connect(d, DB_WRITER);
    db_conn *two = conf_connect(e, DB_WRITER);
    conf_begin(one);
    append(one, 1, 1);
    assert_int_equal(db_begin(two, &err), PAWL_BUSY);
    db_rollback(one);
    conf_begin(two);
    assert_int_equal(count(two), 0);
    append(two, 1, 1);
    conf_commit(two);
    db_disconnect(two);
    db_disconnect(one);
    assert_int_equal(conf_rows(d, 1), 1);
    db_close(e);
    db_close(d);
}

/* ---- on_connect ---- */

typedef struct seen {
    void *native[32];
    int count;
    int refuse_after; /* this many are let through; -1: all */
} seen;

static int on_connect(void *native, void *arg)
{
    seen *s = arg;
    if (s->refuse_after >= 0 && s->count >= s->refuse_after)
        return 7;
    assert_true(s->count < 32);
    s->native[s->count++] = native;
    return 0;
}

static int was_seen(const seen *s, const void *native)
{
    for (int i = 0; i < s->count; i++)
        if (s->native[i] == native)
            return 1;
    return 0;
}

static void every_connection_is_shown_to_the_application(conf *c)
{
    seen s = {.refuse_after = -1};
    db *d = conf_open(c, &(db_options){.on_connect = on_connect, .on_connect_arg = &s});
    db_conn *conns[] = {conf_connect(d, DB_WRITER), conf_connect(d, DB_READER),
                        conf_connect(d, DB_READER)};
    for (size_t i = 0; i < sizeof conns / sizeof *conns; i++) {
        void *native = d->driver->native(conns[i]);
        assert_non_null(native);
        assert_true(was_seen(&s, native));
    }
    for (size_t i = 0; i < sizeof conns / sizeof *conns; i++)
        db_disconnect(conns[i]);
    db_close(d);
}

static void the_application_may_refuse_to_open(conf *c)
{
    seen s = {.refuse_after = 0};
    error err = {0};
    db *d = NULL;
    db_options o = {.url = c->url, .on_connect = on_connect, .on_connect_arg = &s};
    assert_int_equal(db_open(&d, &o, &err), PAWL_CANTOPEN);
    assert_true(err.message[0] != '\0');
    assert_null(d);
}

static void the_application_may_refuse_a_later_connection(conf *c)
{
    seen s = {.refuse_after = -1};
    error err = {0};
    db *d = conf_open(c, &(db_options){.on_connect = on_connect, .on_connect_arg = &s});
    s.refuse_after = s.count;
    db_conn *r = NULL;
    assert_int_equal(db_connect(d, DB_READER, &r, &err), PAWL_CANTOPEN);
    assert_null(r);
    s.refuse_after = -1;
    db_disconnect(conf_connect(d, DB_READER));
    db_close(d);
}

static const conf_case CASES[] = {
    {"committed rows stay", committed_rows_stay, 0},
    {"rolled back rows are gone", rolled_back_rows_are_gone, 0},
    {"a connection that goes takes its transaction along",
     a_connection_that_goes_takes_its_transaction_along, 0},
    {"savepoints undo the last part only", savepoints_undo_the_last_part_only, 0},
    {"reopened, it is all there", reopened_it_is_all_there, DB_DURABLE},
    {"the core tables are there", the_core_tables_are_there, 0},
    {"guards say by rows whether they hold", guards_say_by_rows_whether_they_hold, 0},
    {"RETURNING gives every row", returning_gives_every_row, 0},
    {"an unread row is a written row", an_unread_row_is_a_written_row, 0},
    {"an open transaction is invisible", an_open_transaction_is_invisible, DB_ISOLATED},
    {"a reader sees one state of the database", a_reader_sees_one_state_of_the_database,
     DB_ISOLATED},
    {"two writers do not overlap", two_writers_do_not_overlap, DB_ISOLATED},
    {"writers of two engines do not overlap", writers_of_two_engines_do_not_overlap, DB_SHARED},
    {"every connection is shown to the application", every_connection_is_shown_to_the_application,
     0},
    {"the application may refuse to open", the_application_may_refuse_to_open, 0},
    {"the application may refuse a later connection", the_application_may_refuse_a_later_connection,
     DB_ISOLATED},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
