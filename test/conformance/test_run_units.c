/* The kinds of units of a run, one after the other: what each of them asks, leaves and tells.
 *
 * How they behave at the same time is in test/interleave. Here the committer is driven by hand, so
 * that it is known which units share a batch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "rows/node.h"
#include "rows/run_units.h"
#include "support/committer_fixture.h"

enum { RUN = 1, ME = 11, OTHER = 12, NOW = 5000 };

/* A database with the run RUN. */
static committer_fixture open_with_run(const conf *c)
{
    committer_fixture b = committer_fixture_open(c);
    conf_make_run(b.db, RUN, 0);
    return b;
}

/* ---- Asking ---- */

static int64_t number(committer_fixture *b, const char *what)
{
    static const struct {
        const char *name;
        db_sql sql;
    } ASK[] = {
        {"owner", {"SELECT owner FROM {runs} WHERE run = $1", "i"}},
        {"fence", {"SELECT fence FROM {runs} WHERE run = $1", "i"}},
        {"mail", {"SELECT mail FROM {runs} WHERE run = $1", "i"}},
        {"phase", {"SELECT phase FROM {runs} WHERE run = $1", "i"}},
        {"wake_at", {"SELECT coalesce(wake_at, -1) FROM {runs} WHERE run = $1", "i"}},
        {"finished_at", {"SELECT coalesce(finished_at, -1) FROM {runs} WHERE run = $1", "i"}},
        {"output", {"SELECT coalesce(length(output), -1) FROM {runs} WHERE run = $1", "i"}},
        {"error", {"SELECT coalesce(length(error), -1) FROM {runs} WHERE run = $1", "i"}},
        {"inbox", {"SELECT count(*) FROM {inbox} WHERE run = $1", "i"}},
        {"inbox-last", {"SELECT coalesce(max(seq), 0) FROM {inbox} WHERE run = $1", "i"}},
    };
    for (size_t i = 0; i < sizeof ASK / sizeof *ASK; i++)
        if (strcmp(ASK[i].name, what) == 0)
            return conf_number(b->db, &ASK[i].sql, VALUES(db_int(RUN)));
    fail_msg("there is no statement for %s", what);
    return 0;
}

/* Change the run's row by SQL. */
static void set(committer_fixture *b, const char *assignments)
{
    char sql[256];
    int n = snprintf(sql, sizeof sql, "UPDATE {runs} SET %s WHERE run = %d", assignments, RUN);
    assert_in_range(n, 1, sizeof sql - 1);
    conf_script(b->db, sql);
}

/* ---- Units ---- */

static void commit(committer_fixture *b, conf_ticket *tickets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        committer_submit(b->k, tickets[i].unit);
    conf_drive(b->k, NULL, tickets, count);
}

static void expect_refused(const conf_ticket *t, const char *guard)
{
    CONF_ANSWER(t, UNIT_REFUSED);
    assert_non_null(t->unit->refused);
    assert_string_equal(t->unit->refused, guard);
}

static int64_t column(const conf_ticket *t, int statement, int index)
{
    const unit_row *row = unit_rows(t->unit, statement);
    assert_non_null(row);
    assert_in_range(index, 0, row->count - 1);
    assert_int_equal(row->values[index].type, DB_INT);
    return row->values[index].i;
}

static int claim_ticket(conf_ticket *t, int64_t from, int64_t owner)
{
    conf_ticket_open(t, 0);
    return run_claim(t->unit, &(run_found){.run = RUN, .owner = from}, owner, NOW);
}

/* Claim it, and give what the new owner knows. */
static run_lease hold(committer_fixture *b, int64_t owner)
{
    conf_ticket t;
    int statement = claim_ticket(&t, 0, owner);
    commit(b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    run_lease h = {RUN, owner, column(&t, statement, CLAIM_FENCE)};
    conf_ticket_free(&t);
    return h;
}

static int send_ticket(conf_ticket *t, int64_t run, int64_t at_ms)
{
    conf_ticket_open(t, 0);
    run_inbox_row m = {
        .run = run, .kind = 1, .name = SLICE_LIT("box"), .by = SLICE_LIT("me"), .at_ms = at_ms};
    return run_send(t->unit, &m);
}

/* Send one message; its seq. */
static int64_t send(committer_fixture *b, int64_t at_ms)
{
    conf_ticket t;
    int statement = send_ticket(&t, RUN, at_ms);
    commit(b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    int64_t seq = column(&t, statement, SEND_SEQ);
    conf_ticket_free(&t);
    return seq;
}

static void append_ticket(conf_ticket *t, int64_t seq)
{
    conf_ticket_open(t, 0);
    run_entry e = {.run = RUN,
                   .generation = 1,
                   .seq = seq,
                   .kind = 1,
                   .name = SLICE_LIT("step"),
                   .at_ms = NOW,
                   .data = SLICE_LIT("{}")};
    run_append(t->unit, &e);
}

/* ---- Claims ---- */

static void a_claim_takes_a_run_without_an_owner(conf *c)
{
    committer_fixture b = open_with_run(c);
    set(&b, "fence = 7, mail = 3, wake_at = 40");
    conf_ticket t;
    int s = claim_ticket(&t, 0, ME);
    commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(column(&t, s, CLAIM_FENCE), 8);
    assert_int_equal(column(&t, s, CLAIM_GENERATION), 1);
    assert_int_equal(column(&t, s, CLAIM_MAIL), 3);
    assert_int_equal(column(&t, s, CLAIM_PHASE), PHASE_LIVE);
    assert_int_equal(column(&t, s, CLAIM_WAKE_AT), 40);
    assert_int_equal(number(&b, "owner"), ME);
    assert_int_equal(number(&b, "fence"), 8);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* It is executed from now on: if that is interrupted, the next owner must find it. */
static void what_is_claimed_is_due(conf *c)
{
    static const char *const STATES[] = {"wake_at = NULL", "wake_at = 1000000000000, owner = 0"};
    committer_fixture b = open_with_run(c);
    for (size_t i = 0; i < sizeof STATES / sizeof *STATES; i++) {
        set(&b, STATES[i]);
        (void)hold(&b, ME);
        assert_int_equal(number(&b, "wake_at"), NOW);
    }
    committer_fixture_close(&b);
}

/* The input, the version and the deadline that were read are those of a generation. */
static void a_claim_is_for_the_generation_that_was_read(conf *c)
{
    committer_fixture b = open_with_run(c);
    for (int64_t generation = 1; generation <= 2; generation++) {
        conf_ticket t;
        set(&b, generation == 1 ? "generation = 2" : "generation = 2, owner = 0");
        conf_ticket_open(&t, 0);
        run_claim(t.unit, &(run_found){.run = RUN, .generation = generation}, ME, NOW);
        commit(&b, &t, 1);
        if (generation == 1)
            expect_refused(&t, "owner");
        else
            CONF_ANSWER(&t, UNIT_COMMITTED);
        conf_ticket_free(&t);
    }
    committer_fixture_close(&b);
}

static void of_two_claims_one_wins(conf *c)
{
    committer_fixture b = open_with_run(c);
    conf_ticket t[2];
    claim_ticket(&t[0], 0, ME);
    claim_ticket(&t[1], 0, OTHER);
    commit(&b, t, 2);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    expect_refused(&t[1], "owner");
    assert_non_null(t[1].unit->found);
    assert_int_equal(t[1].unit->found->values[0].i, ME);
    assert_int_equal(t[1].unit->found->values[1].i, 1);
    assert_int_equal(number(&b, "owner"), ME);
    assert_int_equal(number(&b, "fence"), 1);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

/* A1: what belongs to a node is out of reach until all of that node's rows are closed. */
static void only_a_closed_node_loses_its_runs(conf *c)
{
    committer_fixture b = open_with_run(c);
    conf_script(b.db, "INSERT INTO {nodes} (node, slot, since) VALUES (12, 1, 0), (12, 2, 0)");
    set(&b, "owner = 12, fence = 1");
    conf_ticket t[3];
    claim_ticket(&t[0], OTHER, ME);
    conf_ticket_open(&t[1], 0);
    node_add_close(t[1].unit, OTHER);
    claim_ticket(&t[2], OTHER, ME);
    commit(&b, t, 3);
    expect_refused(&t[0], "closed");
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    assert_int_equal(number(&b, "owner"), ME);
    assert_int_equal(number(&b, "fence"), 2);
    conf_tickets_free(t, 3);
    committer_fixture_close(&b);
}

static void what_has_ended_or_is_held_is_not_claimed(conf *c)
{
    static const char *const STATES[] = {"phase = 1", "phase = 2", "phase = 3",
                                         "phase = 0, held = 2"};
    committer_fixture b = open_with_run(c);
    for (size_t i = 0; i < sizeof STATES / sizeof *STATES; i++) {
        conf_ticket t;
        set(&b, STATES[i]);
        claim_ticket(&t, 0, ME);
        commit(&b, &t, 1);
        expect_refused(&t, "owner");
        conf_ticket_free(&t);
    }
    set(&b, "phase = 4, held = 0");
    (void)hold(&b, ME); /* its compensations need an owner */
    committer_fixture_close(&b);
}

/* ---- Messages ---- */

static void nothing_is_written_to_runs_that_are_not_there(conf *c)
{
    committer_fixture b = open_with_run(c);
    conf_ticket t[2];
    send_ticket(&t[0], 999, NOW);
    commit(&b, &t[0], 1);
    expect_refused(&t[0], "live");
    assert_null(t[0].unit->found);
    set(&b, "phase = 1");
    send_ticket(&t[1], RUN, NOW);
    commit(&b, &t[1], 1);
    expect_refused(&t[1], "live");
    assert_non_null(t[1].unit->found);
    assert_int_equal(number(&b, "inbox"), 0);
    assert_int_equal(number(&b, "mail"), 0);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

/* Gapless, in commit order; a unit that is refused after its message was counted takes no
 * number. */
static void messages_are_numbered_without_a_gap(conf *c)
{
    committer_fixture b = open_with_run(c);
    conf_ticket t[4];
    int s[4];
    for (int i = 0; i < 4; i++)
        s[i] = send_ticket(&t[i], RUN, NOW);
    run_lease nobodys = {RUN, ME, 77};
    run_park(t[1].unit, &nobodys, 0, RUN_NEVER, NULL, NOW);
    commit(&b, t, 4);
    expect_refused(&t[1], "fence");
    assert_int_equal(column(&t[0], s[0], SEND_SEQ), 1);
    assert_int_equal(column(&t[2], s[2], SEND_SEQ), 2);
    assert_int_equal(column(&t[3], s[3], SEND_SEQ), 3);
    assert_int_equal(send(&b, NOW), 4);
    assert_int_equal(number(&b, "mail"), 4);
    assert_int_equal(number(&b, "inbox"), 4);
    assert_int_equal(number(&b, "inbox-last"), 4);
    conf_tickets_free(t, 4);
    committer_fixture_close(&b);
}

static void a_message_arrives_as_it_was_sent(conf *c)
{
    static const db_sql SAME = {
        "SELECT count(*) FROM {inbox} WHERE run = $1 AND seq = 1 AND generation = 2 AND op = 3"
        " AND attempt = 4 AND kind = 5 AND name = $2 AND key = $3 AND by = $4 AND at = 5000"
        " AND enc = 0 AND data = $5",
        "itttb"};
    committer_fixture b = open_with_run(c);
    conf_ticket t;
    conf_ticket_open(&t, 0);
    run_inbox_row m = {.run = RUN,
                       .generation = 2,
                       .op = 3,
                       .attempt = 4,
                       .kind = 5,
                       .name = SLICE_LIT("box"),
                       .key = SLICE_LIT("once"),
                       .by = SLICE_LIT("somebody"),
                       .at_ms = NOW,
                       .data = SLICE_LIT("\x00\xff")};
    run_send(t.unit, &m);
    commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(conf_number(b.db, &SAME,
                                 VALUES(db_int(RUN), db_text(m.name), db_text(m.key), db_text(m.by),
                                        db_bytes(m.data))),
                     1);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* The unit tells which node to wake, and never makes a run wake later. A held run sleeps on. */
static void a_message_wakes(conf *c)
{
    static const struct {
        const char *before;
        int64_t after;
    } CASES[] = {
        {"wake_at = NULL, held = 0", NOW},
        {"wake_at = 9000, held = 0, claims = 1", NOW},
        {"wake_at = 9000, held = 0, claims = 0", 9000}, /* it is to begin then */
        {"wake_at = 4000, held = 0", 4000},
        {"wake_at = NULL, held = 3", -1},
        {"wake_at = NULL, held = 0, phase = 4", NOW},
    };
    committer_fixture b = open_with_run(c);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        set(&b, CASES[i].before);
        assert_int_equal(send(&b, NOW), (int64_t)i + 1);
        assert_int_equal(number(&b, "wake_at"), CASES[i].after);
    }
    set(&b, "owner = 12");
    conf_ticket t;
    int s = send_ticket(&t, RUN, NOW);
    commit(&b, &t, 1);
    assert_int_equal(column(&t, s, SEND_OWNER), OTHER);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* ---- Parking ---- */

static void park(committer_fixture *b, const run_lease *h, int64_t seen, int64_t deadline_ms,
                 conf_ticket *t)
{
    conf_ticket_open(t, 0);
    run_park(t->unit, h, seen, deadline_ms, NULL, NOW);
    commit(b, t, 1);
}

static void a_parked_run_sleeps_until_its_deadline(conf *c)
{
    committer_fixture b = open_with_run(c);
    run_lease h = hold(&b, ME);
    conf_ticket t;
    park(&b, &h, 0, 7000, &t);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(column(&t, 0, PARK_WAKE_AT), 7000);
    assert_int_equal(number(&b, "wake_at"), 7000);
    conf_ticket_free(&t);
    park(&b, &h, 0, RUN_NEVER, &t);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(number(&b, "wake_at"), -1);
    assert_int_equal(number(&b, "owner"), ME);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* A2: a message that the run has not seen keeps it awake, whatever it wants to wait for. */
static void a_run_with_unseen_mail_does_not_fall_asleep(conf *c)
{
    committer_fixture b = open_with_run(c);
    run_lease h = hold(&b, ME);
    assert_int_equal(send(&b, 3000), 1);
    conf_ticket t;
    park(&b, &h, 0, RUN_NEVER, &t);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(column(&t, 0, PARK_WAKE_AT), NOW);
    assert_int_equal(column(&t, 0, PARK_MAIL), 1);
    assert_int_equal(number(&b, "wake_at"), NOW);
    conf_ticket_free(&t);
    park(&b, &h, 1, RUN_NEVER, &t); /* having seen it, it may */
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(number(&b, "wake_at"), -1);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

/* Message and park in one batch: the park's guard sees what the unit before it wrote. */
static void a_park_sees_the_message_before_it(conf *c)
{
    committer_fixture b = open_with_run(c);
    run_lease h = hold(&b, ME);
    conf_ticket t[2];
    send_ticket(&t[0], RUN, NOW);
    conf_ticket_open(&t[1], 0);
    run_park(t[1].unit, &h, 0, 9000, NULL, NOW);
    commit(&b, t, 2);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    assert_int_equal(number(&b, "wake_at"), NOW);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

/* ---- Ending, giving back, fences ---- */

static void an_ended_run_has_no_owner_and_sleeps(conf *c)
{
    committer_fixture b = open_with_run(c);
    run_lease h = hold(&b, ME);
    set(&b, "wake_at = 10, watched = 1, parent = 5, parent_generation = 6, parent_op = 7");
    conf_ticket t;
    conf_ticket_open(&t, 0);
    run_end end = {.phase = PHASE_FAILED, .output = SLICE_LIT("null"), .error = SLICE_LIT("no")};
    int s = run_finish(t.unit, &h, &end, NULL, NOW);
    commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(column(&t, s, FINISH_WATCHED), 1);
    assert_int_equal(column(&t, s, FINISH_PARENT), 5);
    assert_int_equal(column(&t, s, FINISH_PARENT_GENERATION), 6);
    assert_int_equal(column(&t, s, FINISH_PARENT_OP), 7);
    assert_int_equal(number(&b, "phase"), PHASE_FAILED);
    assert_int_equal(number(&b, "owner"), 0);
    assert_int_equal(number(&b, "wake_at"), -1);
    assert_int_equal(number(&b, "finished_at"), NOW);
    assert_int_equal(number(&b, "output"), 4);
    assert_int_equal(number(&b, "error"), 2);
    conf_ticket_free(&t);
    park(&b, &h, 0, 9000, &t);
    expect_refused(&t, "fence");
    assert_int_equal(number(&b, "wake_at"), -1);
    conf_ticket_free(&t);
    committer_fixture_close(&b);
}

static void a_run_given_back_is_the_next_ones(conf *c)
{
    committer_fixture b = open_with_run(c);
    run_lease mine = hold(&b, ME);
    set(&b, "wake_at = 4321");
    conf_ticket t;
    conf_ticket_open(&t, 0);
    run_give_back(t.unit, &mine, NOW);
    commit(&b, &t, 1);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(number(&b, "owner"), 0);
    assert_int_equal(number(&b, "wake_at"), 4321);
    conf_ticket_free(&t);
    run_lease theirs = hold(&b, OTHER);
    assert_int_equal(theirs.fence, mine.fence + 1);
    committer_fixture_close(&b);
}

/* A node that has lost the run, and a node that has it again under a new fence, changes nothing by
 * the old fence. */
static void an_old_fence_changes_nothing(conf *c)
{
    committer_fixture b = open_with_run(c);
    hold(&b, ME);
    set(&b, "owner = 0");
    run_lease now = hold(&b, ME);
    const run_lease OLD[] = {
        {RUN, ME, now.fence - 1}, {RUN, OTHER, now.fence}, {RUN, 0, now.fence}};
    for (size_t i = 0; i < sizeof OLD / sizeof *OLD; i++) {
        conf_ticket t[3];
        for (int k = 0; k < 3; k++)
            conf_ticket_open(&t[k], 0);
        run_park(t[0].unit, &OLD[i], 0, 9000, NULL, NOW);
        run_finish(t[1].unit, &OLD[i], &(run_end){.phase = PHASE_DONE}, NULL, NOW);
        run_give_back(t[2].unit, &OLD[i], NOW);
        commit(&b, t, 3);
        for (int k = 0; k < 3; k++) {
            expect_refused(&t[k], "fence");
            assert_non_null(t[k].unit->found);
            assert_int_equal(t[k].unit->found->values[1].i, now.fence);
        }
        conf_tickets_free(t, 3);
    }
    assert_int_equal(number(&b, "owner"), ME);
    assert_int_equal(number(&b, "phase"), PHASE_LIVE);
    assert_int_equal(number(&b, "wake_at"), NOW); /* as the claim has set it */
    committer_fixture_close(&b);
}

/* ---- The journal ---- */

/* The unique index is the last fence: what is there already hits its own unit only. */
static void a_row_is_appended_once(conf *c)
{
    committer_fixture b = open_with_run(c);
    conf_ticket t[4];
    append_ticket(&t[0], 1);
    append_ticket(&t[1], 1);
    append_ticket(&t[2], 2);
    send_ticket(&t[3], RUN, NOW);
    commit(&b, t, 4);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_FAILED);
    assert_int_equal(t[1].unit->code, PAWL_DATA);
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    CONF_ANSWER(&t[3], UNIT_COMMITTED);
    assert_int_equal(conf_rows(b.db, RUN), 2);
    conf_tickets_free(t, 4);
    committer_fixture_close(&b);
}

/* A turn's end: rows, and the park, together or not at all. */
static void kinds_go_together_in_one_unit(conf *c)
{
    committer_fixture b = open_with_run(c);
    run_lease h = hold(&b, ME);
    run_lease old = {RUN, ME, h.fence - 1};
    conf_ticket t[2];
    append_ticket(&t[0], 1);
    run_park(t[0].unit, &old, 0, 9000, NULL, NOW);
    append_ticket(&t[1], 1);
    int s = run_park(t[1].unit, &h, 0, 9000, NULL, NOW);
    commit(&b, t, 2);
    expect_refused(&t[0], "fence");
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    assert_int_equal(column(&t[1], s, PARK_WAKE_AT), 9000);
    assert_int_equal(conf_rows(b.db, RUN), 1);
    conf_tickets_free(t, 2);
    committer_fixture_close(&b);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a claim takes a run without an owner", a_claim_takes_a_run_without_an_owner, 0},
        {"L2 what is claimed is due", what_is_claimed_is_due, 0},
        {"a claim is for the generation that was read", a_claim_is_for_the_generation_that_was_read,
         0},
        {"of two claims one wins", of_two_claims_one_wins, 0},
        {"only a closed node loses its runs", only_a_closed_node_loses_its_runs, 0},
        {"what has ended or is held is not claimed", what_has_ended_or_is_held_is_not_claimed, 0},
        {"nothing is written to runs that are not there",
         nothing_is_written_to_runs_that_are_not_there, 0},
        {"messages are numbered without a gap", messages_are_numbered_without_a_gap, 0},
        {"a message arrives as it was sent", a_message_arrives_as_it_was_sent, 0},
        {"a message wakes", a_message_wakes, 0},
        {"a parked run sleeps until its deadline", a_parked_run_sleeps_until_its_deadline, 0},
        {"a run with unseen mail does not fall asleep", a_run_with_unseen_mail_does_not_fall_asleep,
         0},
        {"a park sees the message before it", a_park_sees_the_message_before_it, 0},
        {"an ended run has no owner and sleeps", an_ended_run_has_no_owner_and_sleeps, 0},
        {"a run given back is the next one's", a_run_given_back_is_the_next_ones, 0},
        {"an old fence changes nothing", an_old_fence_changes_nothing, 0},
        {"a row is appended once", a_row_is_appended_once, 0},
        {"kinds go together in one unit", kinds_go_together_in_one_unit, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
