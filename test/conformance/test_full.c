/* A full database, for real: SQLite throws the whole transaction away by itself (A4d).
 *
 * test_fault.c breaks every call on purpose; here SQLite does it, with all that it does besides.
 * A bound on the pages of the database stands for the disk. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#include "support/conf.h"

enum { WIDE = 1000000 };

typedef struct fixture {
    int64_t pages; /* the bound for connections made from now on; 0: none */
    db *db;
    committer *k;
} fixture;

static int set_bound(void *native, void *arg)
{
    const fixture *b = arg;
    char sql[64];
    if (b->pages == 0)
        return 0;
    snprintf(sql, sizeof sql, "PRAGMA max_page_count=%lld", (long long)b->pages);
    return sqlite3_exec(native, sql, NULL, NULL, NULL) == SQLITE_OK ? 0 : 1;
}

static int64_t page_count(void *native)
{
    sqlite3_stmt *s = NULL;
    assert_int_equal(sqlite3_prepare_v2(native, "PRAGMA page_count", -1, &s, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(s), SQLITE_ROW);
    int64_t pages = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    return pages;
}

/* Room for small rows, not for wide ones. */
static void fixture_open(fixture *b, const conf *c)
{
    memset(b, 0, sizeof *b);
    b->db = conf_open(c, &(db_options){.on_connect = set_bound, .on_connect_arg = b, .by_hand = 1});
    db_conn *w = conf_connect(b->db, DB_WRITER);
    b->pages = page_count(b->db->driver->native(w)) + 50;
    assert_int_equal(set_bound(b->db->driver->native(w), b), 0); /* memory has one handle */
    db_disconnect(w);
    b->k = conf_committer(b->db, &(committer_options){.by_hand = 1});
}

static void fixture_close(fixture *b)
{
    committer_close(b->k);
    db_close(b->db);
}

/* SQLite undoes a statement that may write several rows by itself; only a plain INSERT takes the
 * transaction along when there is no room, hence no RETURNING here. */
static const db_sql PUT_WIDE = {
    "INSERT INTO {inbox} (run, seq, kind, name, at, data) VALUES ($1, $2, 1, 'wide', 0, $3)",
    "iib"};

static void make(conf_ticket *t, int64_t run, int64_t seq, int wide)
{
    static const char bytes[WIDE];
    conf_ticket_append(t, run, seq, NULL);
    db_value v[] = {db_int(run), db_int(seq), db_bytes((slice){bytes, WIDE})};
    if (wide)
        unit_write(t->unit, &PUT_WIDE, unit_key("inbox", run), v, 3);
}

/* Without asking whether the transaction is still there, unit 0 would be lost and units 2 and
 * later committed one by one, each on its own. */
static void the_guilty_unit_fails_alone(conf *c)
{
    enum { COUNT = 6 };
    for (int guilty = 0; guilty < COUNT; guilty++) {
        fixture b;
        fixture_open(&b, c);
        conf_ticket t[COUNT];
        for (int i = 0; i < COUNT; i++) {
            make(&t[i], guilty, i, i == guilty);
            committer_submit(b.k, t[i].unit);
        }
        conf_drive(b.k, NULL, t, COUNT);
        for (int i = 0; i < COUNT; i++)
            CONF_ANSWER(&t[i], i == guilty ? UNIT_FAILED : UNIT_COMMITTED);
        assert_int_equal(t[guilty].unit->code, PAWL_FULL);
        assert_in_range(committer_stats_now(b.k).restarts, 1, COUNT);
        assert_non_null(t[guilty].unit->message);
        assert_int_equal(conf_rows(b.db, guilty), COUNT - 1);
        conf_tickets_free(t, COUNT);
        fixture_close(&b);
    }
}

static void every_unit_of_a_batch_fails_for_itself(conf *c)
{
    fixture b;
    fixture_open(&b, c);
    conf_ticket t[4];
    for (int i = 0; i < 4; i++) {
        make(&t[i], 1, i, 1);
        committer_submit(b.k, t[i].unit);
    }
    conf_drive(b.k, NULL, t, 4);
    for (int i = 0; i < 4; i++)
        CONF_ANSWER(&t[i], UNIT_FAILED);
    assert_int_equal(conf_rows(b.db, 1), 0);
    conf_tickets_free(t, 4);
    fixture_close(&b);
}

/* A transaction that ended by itself must also end what stands around it, the writer's turn and
 * the lock of a shared handle: others come in, and so does the next unit. */
static void after_a_full_disk_a_new_transaction_works(conf *c)
{
    fixture b;
    fixture_open(&b, c);
    conf_ticket t[2];
    make(&t[0], 1, 0, 1);
    committer_submit(b.k, t[0].unit);
    conf_drive(b.k, NULL, t, 1);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    assert_int_equal(conf_rows(b.db, 1), 0);
    db_conn *w = conf_connect(b.db, DB_WRITER);
    conf_begin(w);
    db_rollback(w);
    db_disconnect(w);
    make(&t[1], 1, 1, 0);
    committer_submit(b.k, t[1].unit);
    conf_drive(b.k, NULL, &t[1], 1);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, 1), 1);
    conf_tickets_free(t, 2);
    fixture_close(&b);
}

/* B2: an engine that has nothing to write does not keep the turn from another one. */
static void after_a_full_disk_another_engine_gets_its_turn(conf *c)
{
    fixture b;
    fixture_open(&b, c);
    db *other = conf_open(c, &(db_options){.by_hand = 1});
    conf_ticket t;
    make(&t, 1, 0, 1);
    committer_submit(b.k, t.unit);
    conf_drive(b.k, NULL, &t, 1);
    CONF_ANSWER(&t, UNIT_FAILED);
    db_conn *w = conf_connect(other, DB_WRITER);
    conf_begin(w); /* by hand: it would be PAWL_BUSY */
    db_rollback(w);
    db_disconnect(w);
    db_close(other);
    conf_ticket_free(&t);
    fixture_close(&b);
}

static const conf_case CASES[] = {
    {"the guilty unit fails alone", the_guilty_unit_fails_alone, 0},
    {"every unit of a batch fails for itself", every_unit_of_a_batch_fails_for_itself, 0},
    {"after a full disk a new transaction works", after_a_full_disk_a_new_transaction_works, 0},
    {"after a full disk another engine gets its turn",
     after_a_full_disk_another_engine_gets_its_turn, DB_SHARED},
};

int main(void)
{
    return conf_run_on("sqlite", CASES, CONF_COUNT(CASES)) +
           conf_run_on("memory", CASES, CONF_COUNT(CASES));
}
