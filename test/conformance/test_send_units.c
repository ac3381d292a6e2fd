/* New runs and messages as parts of units: what is written, what is left out where it cannot be,
 * and many of them in one batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/outbox.h"
#include "api/send.h"
#include "support/committer_fixture.h"

enum { NOW = 5000, LARGE = 3000 };

static void apply(committer_fixture *b, conf_ticket *tickets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        committer_submit(b->k, tickets[i].unit);
    conf_drive(b->k, NULL, tickets, count);
}

static void expect_refused(const conf_ticket *t, const char *guard)
{
    CONF_ANSWER(t, UNIT_REFUSED);
    assert_string_equal(t->unit->refused, guard);
}

static int64_t count(committer_fixture *b, const char *what)
{
    char text[200];
    db_sql sql = {text, ""};
    snprintf(text, sizeof text, "SELECT count(*) FROM %s", what);
    return conf_number(b->db, &sql, NULL, 0);
}

/* ---- Births ---- */

static char large[LARGE];

static run_insert child(int64_t run, const char *id, attribute_set *attributes)
{
    memset(large, ' ', sizeof large);
    large[0] = '1';
    *attributes = (attribute_set){.name = SLICE_LIT("a"),
                                  .there = 1,
                                  .value = {.kind = ATTRIBUTE_TEXT, .text = SLICE_LIT("x")}};
    return (run_insert){.run = run,
                        .tenant = SLICE_LIT(""),
                        .id = slice_of(id),
                        .workflow = SLICE_LIT("w"),
                        .version = SLICE_LIT("1"),
                        .input = {large, sizeof large},
                        .now_ms = NOW,
                        .wake_ms = NOW,
                        .attributes = attributes,
                        .parent = 77,
                        .parent_generation = 2,
                        .parent_op = 9};
}

/* A run that is there already leaves nothing of the second one behind, and the unit goes on. */
static void a_run_is_inserted_as_a_try(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    attribute_set attributes;
    for (int64_t run = 1; run <= 2; run++) {
        conf_ticket t;
        run_insert x = child(run, "child", &attributes);
        conf_ticket_open(&t, 0);
        int made = run_insert_write(t.unit, &x, 0);
        unit_write(t.unit, &CONF_APPEND, unit_key("journal", 99),
                   (db_value[]){db_int(99), db_int(run), db_text(SLICE_LIT("row")), db_null()}, 4);
        apply(&b, &t, 1);
        CONF_ANSWER(&t, UNIT_COMMITTED);
        assert_int_equal(unit_rows(t.unit, made) != NULL, run == 1);
        conf_ticket_free(&t);
    }
    assert_int_equal(conf_rows(b.db, 99), 2);
    assert_int_equal(conf_rows(b.db, 2), 0);
    assert_int_equal(count(&b, "{attributes}"), 1);
    assert_int_equal(count(&b, "{runs} WHERE run = 1 AND parent = 77 AND parent_generation = 2"
                               " AND parent_op = 9 AND input IS NULL AND mail = 0"),
                     1);
    assert_int_equal(count(&b, "{runs}"), 1);
    committer_fixture_close(&b);
}

/* As a guard it says what was found: the first generation's, whatever came after it. */
static void a_run_is_inserted_as_a_guard(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    attribute_set attributes;
    run_insert x = child(1, "run", &attributes), y;
    x.parent = 0;
    for (int i = 0; i < 4; i++) {
        conf_ticket t;
        y = x;
        y.run = 1 + i;
        y.workflow = i == 2 ? SLICE_LIT("v") : x.workflow;
        y.input = i == 3 ? SLICE_LIT("\"another\"") : x.input;
        conf_ticket_open(&t, 0);
        run_insert_write(t.unit, &y, 1);
        apply(&b, &t, 1);
        if (i == 0) {
            CONF_ANSWER(&t, UNIT_COMMITTED);
            conf_script(b.db, "UPDATE {runs} SET generation = 2, input = CAST('2' AS {BYTES})");
        } else {
            expect_refused(&t, "id");
            assert_int_equal(run_insert_is_same(&y, t.unit->found), i == 1);
        }
        conf_ticket_free(&t);
    }
    assert_int_equal(count(&b, "{runs} WHERE parent IS NULL"), 1);
    assert_int_equal(count(&b, "{attributes}"), 1);
    committer_fixture_close(&b);
}

/* ---- Messages ---- */

static inbox_message message_to(int64_t run, slice key, slice data)
{
    inbox_message l = {.row = {.run = run,
                               .kind = INBOX_MESSAGE,
                               .name = SLICE_LIT("box"),
                               .key = key,
                               .at_ms = NOW,
                               .data = data}};
    inbox_message_seal(&l);
    return l;
}

/* The unit of a run that sends to other runs, one of which has ended and one never existed. */
static void a_message_to_a_run_that_has_ended_is_left_out(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    inbox_message list[3];
    int tries[3];
    conf_ticket t;
    for (int64_t run = 1; run <= 2; run++)
        conf_make_run(b.db, run, 4);
    conf_script(b.db, "UPDATE {runs} SET phase = 1, wake_at = NULL WHERE run = 2");
    conf_ticket_open(&t, 0);
    for (int i = 0; i < 3; i++) {
        list[i] = message_to(i + 1, SLICE_LIT("k"), SLICE_LIT("1"));
        tries[i] = send_try(t.unit, &list[i]);
    }
    apply(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(unit_rows(t.unit, tries[0])->values[SEND_SEQ].i, 5);
    assert_null(unit_rows(t.unit, tries[1]));
    assert_null(unit_rows(t.unit, tries[2]));
    assert_int_equal(count(&b, "{inbox} WHERE run = 1 AND seq = 5 AND key = 'k'"), 1);
    assert_int_equal(count(&b, "{inbox}"), 1);
    assert_int_equal(count(&b, "{receipts} WHERE run = 1 AND seq = 5 AND kind = 1"), 1);
    assert_int_equal(count(&b, "{receipts}"), 1);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* Neighbours in one batch: the second of two with one key finds what the first has written. */
static void keys_in_one_batch(conf *c)
{
    enum { COUNT = 40, KEYS = 10 };
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[COUNT];
    inbox_message list[COUNT];
    char names[KEYS][8];
    conf_make_run(b.db, 1, 0);
    for (int i = 0; i < COUNT; i++) {
        char *key = names[i % KEYS];
        snprintf(key, sizeof names[0], "k%d", i % KEYS);
        list[i] = message_to(1, slice_of(key), i < 3 * KEYS ? SLICE_LIT("1") : SLICE_LIT("2"));
        conf_ticket_open(&t[i], 0);
        inbox_message_write(t[i].unit, &list[i]);
    }
    apply(&b, t, COUNT);
    for (int i = 0; i < COUNT; i++) {
        if (i < KEYS) {
            CONF_ANSWER(&t[i], UNIT_COMMITTED);
            continue;
        }
        expect_refused(&t[i], "key");
        assert_int_equal(inbox_message_is_same(&list[i], t[i].unit->found), i < 3 * KEYS);
        assert_int_equal(t[i].unit->found->values[RECEIPT_SEQ].i, i % KEYS + 1);
    }
    assert_int_equal(count(&b, "{inbox}"), KEYS);
    assert_int_equal(count(&b, "{runs} WHERE mail = 10"), 1);
    conf_tickets_free(t, COUNT);
    committer_fixture_close(&b);
}

/* A row of the outbox goes with what it becomes, or stays as it is. */
static void the_unit_that_delivers_a_message_deletes_its_outbox_row(conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[3];
    inbox_message list[3];
    conf_make_run(b.db, 1, 0);
    conf_script(b.db, "INSERT INTO {outbox} (pos, tenant, kind, target, name, at)"
                      " VALUES (7, '', 2, 'a', 'b', 0), (8, '', 2, 'a', 'b', 0)");
    for (int i = 0; i < 3; i++) {
        list[i] = message_to(1, SLICE_LIT("k"), SLICE_LIT("1"));
        list[i].row.key = i == 1 ? (slice){0} : list[i].row.key;
        conf_ticket_open(&t[i], 0);
        outbox_relay_take(t[i].unit, i < 2 ? 7 : 8);
        inbox_message_write(t[i].unit, &list[i]);
    }
    apply(&b, t, 3);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    expect_refused(&t[1], "moved");
    expect_refused(&t[2], "key");
    assert_int_equal(count(&b, "{inbox}"), 1);
    assert_int_equal(count(&b, "{outbox}"), 1);
    assert_int_equal(count(&b, "{outbox} WHERE pos = 8"), 1);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

/* ---- Cancelling ---- */

static void one_cancel_of_many(conf *c)
{
    enum { COUNT = 5 };
    committer_fixture b = committer_fixture_open(c);
    conf_ticket t[COUNT];
    conf_make_run(b.db, 1, 3);
    for (int i = 0; i < COUNT; i++) {
        run_inbox_row m = {.run = 1, .kind = INBOX_CANCEL, .name = SLICE_LIT(""), .at_ms = NOW + i};
        conf_ticket_open(&t[i], 0);
        run_cancel(t[i].unit, &m);
    }
    apply(&b, t, COUNT);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    for (int i = 1; i < COUNT; i++)
        expect_refused(&t[i], "uncancelled");
    assert_int_equal(count(&b, "{inbox} WHERE run = 1 AND seq = 4 AND kind = 3 AND data IS NULL"),
                     1);
    assert_int_equal(count(&b, "{inbox}"), 1);
    assert_int_equal(count(&b, "{runs} WHERE mail = 4 AND cancel_at = 5000"), 1);
    conf_tickets_free(t, COUNT);
    committer_fixture_close(&b);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a run is inserted as a try", a_run_is_inserted_as_a_try, 0},
        {"a run is inserted as a guard", a_run_is_inserted_as_a_guard, 0},
        {"a message to a run that has ended is left out",
         a_message_to_a_run_that_has_ended_is_left_out, 0},
        {"keys in one batch", keys_in_one_batch, 0},
        {"the unit that delivers a message deletes its outbox row",
         the_unit_that_delivers_a_message_deletes_its_outbox_row, 0},
        {"one cancel of many", one_cancel_of_many, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
