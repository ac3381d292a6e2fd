/* The units that hold runs, release them, count their claims and write their status, one after the
 * other. The row of the run is compared as a text: what is not meant to change is in it too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "rows/attributes.h"
#include "rows/run_units.h"
#include "support/conf.h"

enum { RUN = 1, ME = 11, DEAD = 12, NOW = 5000 };

typedef struct fixture {
    db *db;
    committer *k;
    conf_ticket t;
} fixture;

static void fixture_open(fixture *b, const conf *c)
{
    b->db = conf_open(c, NULL);
    b->k = conf_committer(b->db, &(committer_options){.by_hand = 1});
    conf_make_run(b->db, RUN, 0);
    conf_script(b->db, "INSERT INTO {nodes} (node, slot, closed, since) VALUES (12, 1, 1, 0)");
}

static void fixture_close(fixture *b)
{
    committer_close(b->k);
    db_close(b->db);
}

static void set(fixture *b, const char *assignments)
{
    char sql[256];
    int n = snprintf(sql, sizeof sql, "UPDATE {runs} SET %s WHERE run = %d", assignments, RUN);
    assert_in_range(n, 1, sizeof sql - 1);
    conf_script(b->db, sql);
}

static unit *begin(fixture *b)
{
    conf_ticket_open(&b->t, 0);
    return b->t.unit;
}

/* Commit the unit; NULL: it goes through, otherwise this guard refuses it. */
static void commit(fixture *b, const char *refused, int line)
{
    committer_submit(b->k, b->t.unit);
    conf_drive(b->k, NULL, &b->t, 1);
    const char *got = b->t.unit->answer == UNIT_COMMITTED ? NULL : b->t.unit->refused;
    if ((got == NULL) != (refused == NULL) || (got && strcmp(got, refused) != 0))
        fail_msg("line %d: %s, not %s (%s)", line, got ? got : "-", refused ? refused : "-",
                 b->t.unit->message ? b->t.unit->message : "");
    conf_ticket_free(&b->t);
}

#define COMMIT(b) commit((b), NULL, __LINE__)
#define REFUSED(b, guard) commit((b), (guard), __LINE__)

/* "owner wake held reason for", with - for what is not there. */
static void expect_row(fixture *b, const char *wanted, int line)
{
    static const db_sql ROW = {
        "SELECT owner, wake_at, held, held_reason, held_for FROM {runs} WHERE run = 1", ""};
    char text[256] = "";
    db_stmt *s;
    error err = {0};
    db_conn *c = conf_connect(b->db, DB_READER);
    conf_begin(c);
    CONF_OK(db_prepare(c, &ROW, &s, &err), &err);
    assert_int_equal(db_next(s, &err), DB_ROW);
    for (int i = 0; i < 5; i++) {
        db_value v = db_column(s, i);
        size_t used = strlen(text);
        if (v.type == DB_INT)
            snprintf(text + used, sizeof text - used, "%s%lld", i ? " " : "", (long long)v.i);
        else
            snprintf(text + used, sizeof text - used, " %.*s",
                     v.type == DB_NULL ? 1 : (int)v.s.size, v.type == DB_NULL ? "-" : v.s.at);
    }
    db_reset(s);
    db_rollback(c);
    db_disconnect(c);
    if (strcmp(text, wanted) != 0)
        fail_msg("line %d: '%s', not '%s'", line, text, wanted);
}

#define ROW(b, wanted) expect_row((b), (wanted), __LINE__)

static int64_t number(fixture *b, const char *column)
{
    static const db_sql CLAIMS = {"SELECT claims FROM {runs} WHERE run = 1", ""};
    static const db_sql SEQ = {"SELECT claimed_seq FROM {runs} WHERE run = 1", ""};
    static const db_sql MARKED = {"SELECT marked FROM {runs} WHERE run = 1", ""};
    static const db_sql STATUS_SEQ = {"SELECT status_seq FROM {runs} WHERE run = 1", ""};
    static const db_sql HAS = {"SELECT count(*) FROM {attributes} WHERE run = 1", ""};
    const db_sql *sql = strcmp(column, "claims") == 0        ? &CLAIMS
                        : strcmp(column, "claimed_seq") == 0 ? &SEQ
                        : strcmp(column, "marked") == 0      ? &MARKED
                        : strcmp(column, "status_seq") == 0  ? &STATUS_SEQ
                                                             : &HAS;
    return conf_number(b->db, sql, NULL, 0);
}

/* ---- Holding ---- */

static void an_owner_holds_and_gives_back(conf *c)
{
    fixture b;
    fixture_open(&b, c);
    set(&b, "owner = 11, fence = 3, wake_at = 100");
    run_lease h = {RUN, ME, 3}, old = {RUN, ME, 2};
    run_held why = {HELD_MISMATCH, SLICE_LIT("words"), SLICE_LIT("\nb\n")};
    run_set_held(begin(&b), &old, &why, NOW);
    REFUSED(&b, "fence");
    run_set_held(begin(&b), &h, &why, NOW);
    COMMIT(&b);
    ROW(&b, "0 - 2 words \nb\n");
    fixture_close(&b);
}

/* What people have held stays held by them. */
static void another_hold_does_not_replace_a_hold_by_hand(conf *c)
{
    fixture b;
    fixture_open(&b, c);
    set(&b, "owner = 11, fence = 3, wake_at = 100");
    run_hold_by_hand(begin(&b), RUN, SLICE_LIT("mine"), NOW);
    COMMIT(&b);
    ROW(&b, "11 100 4 mine -"); /* its owner has to hear of it first */
    run_lease h = {RUN, ME, 3};
    run_set_held(begin(&b), &h, &(run_held){HELD_POISON, SLICE_LIT("words"), SLICE_LIT("\nb\n")},
                 NOW);
    COMMIT(&b);
    ROW(&b, "0 - 4 mine -");
    run_set_free(begin(&b), RUN, NOW);
    COMMIT(&b);
    ROW(&b, "0 5000 0 - -");
    run_set_free(begin(&b), RUN, NOW);
    REFUSED(&b, "held");
    fixture_close(&b);
}

/* Whatever an owner does next to a run that was held by hand gives it back, and nothing wakes
 * it. */
static void an_owner_gives_up_a_run_that_was_held(conf *c)
{
    fixture b;
    fixture_open(&b, c);
    run_lease h = {RUN, ME, 3};
    set(&b, "owner = 11, fence = 3, wake_at = 100, held = 4");
    run_park(begin(&b), &h, 0, 9000, NULL, NOW);
    COMMIT(&b);
    ROW(&b, "0 - 4 - -");
    set(&b, "owner = 11, fence = 3, wake_at = 100, held = 4");
    run_give_back(begin(&b), &h, NOW);
    COMMIT(&b);
    ROW(&b, "0 - 4 - -");
    set(&b, "owner = 11, fence = 3, wake_at = 100, held = 4");
    run_finish(begin(&b), &h, &(run_end){.phase = PHASE_DONE}, NULL, NOW);
    COMMIT(&b);
    ROW(&b, "0 - 0 - -");
    run_hold_by_hand(begin(&b), RUN, SLICE_LIT("late"), NOW);
    REFUSED(&b, "live");
    fixture_close(&b);
}

/* Unless work is under way beside its function: then its owner has to hear of it first. */
static void an_owner_keeps_a_held_run_that_has_jobs_under_way(conf *c)
{
    fixture b;
    fixture_open(&b, c);
    run_lease h = {RUN, ME, 3};
    set(&b, "owner = 11, fence = 3, wake_at = 100, held = 4");
    run_park_kept(begin(&b), &h, 0, NOW, NULL, NOW);
    COMMIT(&b);
    ROW(&b, "11 5000 4 - -");
    run_give_back(begin(&b), &h, NOW);
    COMMIT(&b);
    ROW(&b, "0 - 4 - -");
    fixture_close(&b);
}

/* Only a run that is due, and has no owner or a closed one, is held because no node has its
 * workflow. */
static void a_run_whose_workflow_no_node_has_is_held(conf *c)
{
    static const struct {
        const char *before;
        int64_t owner;
        const char *refused;
        const char *after;
    } CASES[] = {
        {"owner = 0, wake_at = 4000", 0, NULL, "0 - 1 no "},
        {"owner = 12, wake_at = 5000", DEAD, NULL, "0 - 1 no "},
        {"owner = 0, wake_at = 5001", 0, "owner", "0 5001 0 - -"},
        {"owner = 0, wake_at = NULL", 0, "owner", "0 - 0 - -"},
        {"owner = 11, wake_at = 4000", 0, "owner", "11 4000 0 - -"},
        {"owner = 11, wake_at = 4000", ME, "closed", "11 4000 0 - -"},
        {"owner = 0, wake_at = 4000, held = 4", 0, "owner", "0 4000 4 - -"},
        {"owner = 0, wake_at = 4000, phase = 1", 0, "owner", "0 4000 0 - -"},
    };
    fixture b;
    fixture_open(&b, c);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        set(&b, "held = 0, phase = 0, held_reason = NULL, held_for = NULL");
        set(&b, CASES[i].before);
        run_hold_due(begin(&b), RUN, CASES[i].owner, SLICE_LIT("no"), NOW);
        commit(&b, CASES[i].refused, (int)i);
        expect_row(&b, CASES[i].after, (int)i);
    }
    fixture_close(&b);
}

/* When a delayed run may begin is written nowhere but in wake_at. */
static void a_hold_does_not_shorten_a_delay(conf *c)
{
    static const struct {
        const char *before, *held, *released;
    } CASES[] = {
        {"claims = 0, wake_at = 9000", "0 9000 4 - -", "0 9000 0 - -"},
        {"claims = 0, wake_at = 5000", "0 - 4 - -", "0 5000 0 - -"},
        {"claims = 1, wake_at = 9000", "0 - 4 - -", "0 5000 0 - -"},
        {"owner = 11, claims = 1, wake_at = 9000", "11 9000 4 - -", "11 5000 0 - -"},
    };
    fixture b;
    fixture_open(&b, c);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        set(&b, "owner = 0, held = 0, phase = 0, held_reason = NULL, held_for = NULL");
        set(&b, CASES[i].before);
        run_hold_by_hand(begin(&b), RUN, (slice){NULL, 0}, NOW);
        COMMIT(&b);
        expect_row(&b, CASES[i].held, (int)i);
        run_set_free(begin(&b), RUN, NOW);
        COMMIT(&b);
        expect_row(&b, CASES[i].released, (int)i);
    }
    fixture_close(&b);
}

/* ---- Claims ---- */

static void a_claim_ends_the_hold_it_knows_of(conf *c)
{
    fixture b;
    fixture_open(&b, c);
    set(&b, "held = 3, held_for = 'x', claims = 6, claimed_seq = 4");
    run_claim(begin(&b), &(run_found){.run = RUN, .held = 2, .seq = 4}, ME, NOW);
    REFUSED(&b, "owner");
    run_claim(begin(&b), &(run_found){.run = RUN, .held = 0, .seq = 4}, ME, NOW);
    REFUSED(&b, "owner");
    run_claim(begin(&b), &(run_found){.run = RUN, .held = 3, .seq = 4}, ME, NOW);
    COMMIT(&b);
    ROW(&b, "11 5000 0 - x"); /* the builds that have tried are kept */
    assert_int_equal(number(&b, "claims"), 1);
    fixture_close(&b);
}

/* B8: by comparison, not by writes. */
static void claims_are_counted(conf *c)
{
    static const struct {
        int64_t seq, counted, claims;
    } CASES[] = {
        {0, 1, 1}, /* the first */
        {0, 1, 2}, /* no further: counted, if it was being executed */
        {0, 0, 2}, {0, 1, 3}, {5, 1, 1}, {5, 1, 2}, {2, 1, 1}, /* a new generation */
    };
    fixture b;
    fixture_open(&b, c);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        set(&b, "owner = 12");
        run_found f = {.run = RUN, .owner = DEAD, .seq = CASES[i].seq, .counted = CASES[i].counted};
        run_claim(begin(&b), &f, ME, NOW);
        COMMIT(&b);
        assert_int_equal(number(&b, "claims"), CASES[i].claims);
        assert_int_equal(number(&b, "claimed_seq"), CASES[i].seq);
    }
    set(&b, "fence = 3");
    run_lease h = {RUN, ME, 3}, old = {RUN, ME, 2};
    run_mark(begin(&b), &h, 1);
    COMMIT(&b);
    assert_int_equal(number(&b, "claims"), 2);
    assert_int_equal(number(&b, "marked"), 3);
    run_mark(begin(&b), &old, 1);
    REFUSED(&b, "fence");
    run_mark(begin(&b), &h, -1);
    COMMIT(&b);
    assert_int_equal(number(&b, "claims"), 1);
    assert_int_equal(number(&b, "marked"), 0);
    fixture_close(&b);
}

/* The count of deaths begins anew at 1, and at 0 for a run that was never owned: a message wakes
 * the one before its time, and not the other (ARRIVE). */
static void the_claims_of_a_run_that_was_driven_never_become_0(conf *c)
{
    static const struct {
        const char *before;
        int deed;
    } CASES[] = {
        {"held = 4", 0},
        {"owner = 11, fence = 3, held = 4", 0},
        {"held = 4", 1},
        {"held = 4, cancel_at = 100", 2},
        {"owner = 11, fence = 3, phase = 0, cancel_at = 100", 3},
        {"owner = 11, fence = 3", 4},
    };
    fixture b;
    run_lease h = {RUN, ME, 3};
    run_held why = {HELD_MISMATCH, SLICE_LIT("words"), SLICE_LIT("\nb\n")};
    run_inbox_row m = {.run = RUN, .kind = INBOX_CANCEL, .name = SLICE_LIT(""), .at_ms = NOW};
    fixture_open(&b, c);
    for (size_t i = 0; i < 2 * (sizeof CASES / sizeof *CASES); i++) {
        int driven = i % 2 == 0, deed = CASES[i / 2].deed;
        set(&b, "owner = 0, held = 0, phase = 0, cancel_at = NULL, wake_at = NULL");
        set(&b, driven ? "claims = 4" : "claims = 0");
        set(&b, CASES[i / 2].before);
        unit *u = begin(&b);
        if (deed == 0)
            run_set_free(u, RUN, NOW);
        else if (deed == 1)
            run_cancel(u, &m);
        else if (deed == 2)
            run_cancel_held(u, RUN, NOW);
        else if (deed == 3)
            run_set_held(u, &h, &why, NOW);
        else
            run_mark(u, &h, -4);
        COMMIT(&b);
        assert_int_equal(number(&b, "claims"), driven || deed == 4);
    }
    fixture_close(&b);
}

/* ---- What runs say ---- */

static void expect_status(fixture *b, const char *status, int64_t seq)
{
    static const db_sql SAME = {"SELECT count(*) FROM {runs} WHERE run = 1 AND status = $1", "t"};
    db_value value = db_text(slice_of(status));
    assert_int_equal(conf_number(b->db, &SAME, &value, 1), 1);
    assert_int_equal(number(b, "status_seq"), seq);
}

static void a_park_writes_the_custom_status(conf *c)
{
    fixture b;
    fixture_open(&b, c);
    set(&b, "owner = 11, fence = 3");
    run_lease h = {RUN, ME, 3}, old = {RUN, ME, 2};
    run_status one = {SLICE_LIT("1"), 1}, many = {SLICE_LIT("2"), 3}, nothing = {{NULL, 0}, 0};
    run_set_status(begin(&b), &h, &one, NOW);
    COMMIT(&b);
    expect_status(&b, "1", 1);
    run_park(begin(&b), &h, 0, RUN_NEVER, &many, NOW);
    COMMIT(&b);
    expect_status(&b, "2", 4);
    run_park(begin(&b), &h, 0, RUN_NEVER, &nothing, NOW);
    COMMIT(&b);
    run_set_status(begin(&b), &old, &one, NOW);
    COMMIT(&b); /* it is no guard: the node's lock is one */
    expect_status(&b, "2", 4);
    run_finish(begin(&b), &h, &(run_end){.phase = PHASE_DONE}, &one, NOW);
    COMMIT(&b);
    expect_status(&b, "1", 5);
    fixture_close(&b);
}

static void attributes_are_set_and_taken_away(conf *c)
{
    static const char *const ROUNDS[][2] = {
        {"{\"a\":\"x\",\"b\":2,\"c\":true,\"d\":-0.5}", "4"},
        {"{\"a\":1,\"b\":\"y\"}", "4"}, /* of another kind */
        {"{\"e\":1e300}", "5"},
    };
    fixture b;
    fixture_open(&b, c);
    error err = {0};
    attribute_set *list = NULL;
    for (size_t i = 0; i < sizeof ROUNDS / sizeof *ROUNDS; i++) {
        unit *u = begin(&b);
        CONF_OK(attributes_read_all(&list, u->arena, ROUNDS[i][0], &err), &err);
        attributes_write(u, RUN, list);
        COMMIT(&b);
        assert_int_equal(number(&b, "attributes"), ROUNDS[i][1][0] - '0');
    }
    unit *u = begin(&b);
    CONF_OK(attributes_read(&list, u->arena, "a", "null", "it", &err), &err);
    attributes_write(u, RUN, list);
    COMMIT(&b);
    assert_int_equal(number(&b, "attributes"), 4);
    fixture_close(&b);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"an owner holds and gives back", an_owner_holds_and_gives_back, 0},
        {"another hold does not replace a hold by hand",
         another_hold_does_not_replace_a_hold_by_hand, 0},
        {"an owner gives up a run that was held", an_owner_gives_up_a_run_that_was_held, 0},
        {"an owner keeps a held run that has jobs under way",
         an_owner_keeps_a_held_run_that_has_jobs_under_way, 0},
        {"a run whose workflow no node has is held", a_run_whose_workflow_no_node_has_is_held, 0},
        {"a hold does not shorten a delay", a_hold_does_not_shorten_a_delay, 0},
        {"a claim ends the hold it knows of", a_claim_ends_the_hold_it_knows_of, 0},
        {"claims are counted", claims_are_counted, 0},
        {"the claims of a run that was driven never become 0",
         the_claims_of_a_run_that_was_driven_never_become_0, 0},
        {"a park writes the custom status", a_park_writes_the_custom_status, 0},
        {"attributes are set and taken away", attributes_are_set_and_taken_away, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
