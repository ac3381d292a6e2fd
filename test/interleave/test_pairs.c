/* Every pair of unit kinds, statement by statement, in every order.
 *
 * For each pair the units are first put whole, one behind the other, in every way that there is:
 * that gives the outcomes that are right, each a text of all answers and all rows. Then they are
 * taken apart, and whatever the order of their statements, one of these outcomes must come out. On
 * a database with one writer at a time there is little to take apart; READ COMMITTED is what this
 * is for (A1, A2, A4, C6).
 *
 * Some things must hold in whichever order, and are asked apart: a rule that is broken in the
 * serial orders too would else be taken for right. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/stepper.h"
#include "support/unit_pair_fixture.h"

enum { OUTCOMES = 64 };

typedef struct fixture {
    stepper *stepper;
    db_conn *writer;
    db_conn *reader;
    db_conn *readers[STEPPER_SIDES]; /* of the sides themselves */
    int races; /* several write at a time, and the driver has a way of its own to do so */
    int64_t pairs;
    char name[64]; /* of the pair at hand */
    char outcomes[OUTCOMES][2048];
    int known;
} fixture;

/* ---- In the threads of the sides ---- */

static const db_sql JOURNAL = {"SELECT count(*) FROM {journal} WHERE run = $1", "i"};

static int64_t read_journal(db_conn *c)
{
    error err = {0};
    int64_t rows = -1;
    int found;
    if (db_begin(c, &err) != PAWL_OK)
        return -2;
    db_value run = db_int(RUN);
    if (db_number(c, &JOURNAL, &run, 1, &rows, &found, &err) != PAWL_OK)
        rows = -3;
    db_rollback(c);
    return rows;
}

typedef struct side_task {
    fixture *fixture;
    pair_side *side;
} side_task;

static void carry_out(stepper_side *s, void *arg)
{
    side_task *e = arg;
    pair_side *d = e->side;
    for (int i = 0; i < d->count; i++) {
        stepper_apply(s, d->units[i]);
        if (d->kind == KEY && d->units[i]->code == PAWL_DATA) { /* as send.c does */
            pair_side_build(d);
            stepper_apply(s, d->units[i]);
        }
        if (d->units[i]->answer != UNIT_COMMITTED)
            return;
    }
    if (d->kind != TAKE_OVER)
        return;
    stepper_stop(s);
    d->read = read_journal(e->fixture->readers[stepper_number(s)]);
}

/* ---- Rows ---- */

static void exec(fixture *b, const char *sql)
{
    error err = {0};
    buf text;
    buf_init(&text, 16 * 1024);
    CONF_OK(db_expand(b->writer->driver, sql, &text, &err), &err);
    conf_begin(b->writer);
    CONF_OK(b->writer->driver->script(b->writer, buf_str(&text), &err), &err);
    conf_commit(b->writer);
    buf_free(&text);
}

static void reset(fixture *b, int64_t owner)
{
    char sql[1536];
    int n = snprintf(
        sql, sizeof sql,
        "DELETE FROM {journal}; DELETE FROM {inbox}; DELETE FROM {runs}; DELETE FROM {nodes};"
        "DELETE FROM {beats}; DELETE FROM {receipts}; DELETE FROM {outbox};"
        "INSERT INTO {outbox} (pos, tenant, kind, target, name, at) VALUES (%d, '', 2, 'a', 'b', "
        "0);"
        "INSERT INTO {nodes} (node, slot, closed, since) VALUES (%d, 1, 0, 0), (%d, 2, 0, 0),"
        " (%d, 1, 0, 0), (%d, 2, 0, 0), (%d, 1, 1, 0);"
        "INSERT INTO {beats} (node, at) VALUES (%d, 0), (%d, 0);"
        "INSERT INTO {runs} (run, tenant, id, workflow, version, owner, fence, wake_at,"
        " claims, created_at, updated_at) VALUES (%d, '', 'a', 'w', '1', %d, %d, %d, 1, 0, 0),"
        " (%d, '', 'b', 'w', '1', 0, 0, NULL, 0, 0, 0)",
        ROW, LEFT, LEFT, RIGHT, RIGHT, DEAD, LEFT, RIGHT, RUN, (int)owner, FENCE, DUE, SECOND_RUN);
    assert_in_range(n, 1, sizeof sql - 1);
    exec(b, sql);
    stepper_begin_anew(b->stepper);
}

static void add_value(buf *out, const db_value *v)
{
    if (v->type == DB_NULL)
        buf_text(out, " -");
    else if (v->type == DB_INT)
        buf_printf(out, " %lld", (long long)v->i);
    else
        buf_printf(out, " %.*s", (int)v->s.size, v->s.at);
}

static const db_sql TABLES[] = {
    {"SELECT run, owner, fence, phase, wake_at, mail, updated_at, finished_at, output, held,"
     " held_reason, cancel_at FROM {runs} ORDER BY run",
     ""},
    {"SELECT run, generation, seq, name, at FROM {journal} ORDER BY run, seq", ""},
    {"SELECT run, seq, name, at FROM {inbox} ORDER BY run, seq", ""},
    {"SELECT run, key, seq, at FROM {receipts} ORDER BY run, key", ""},
    {"SELECT pos, failed FROM {outbox} ORDER BY pos", ""},
    {"SELECT node, slot, closed FROM {nodes} ORDER BY node, slot", ""},
    {"SELECT node FROM {beats} ORDER BY node", ""},
};

static void add_table(fixture *b, const db_sql *sql, buf *out)
{
    error err = {0};
    db_stmt *s;
    CONF_OK(db_prepare(b->reader, sql, &s, &err), &err);
    db_step step;
    buf_text(out, "\n   ");
    while ((step = db_next(s, &err)) == DB_ROW) {
        buf_text(out, " (");
        for (int i = 0; i < b->reader->driver->columns(s); i++) {
            db_value v = db_column(s, i);
            add_value(out, &v);
        }
        buf_text(out, " )");
    }
    assert_int_equal(step, DB_DONE);
    db_reset(s);
}

/* A row that came back; of several, which have no order, their number. */
static void add_rows(const unit_row *rows, buf *out)
{
    if (rows && rows->next) {
        int count = 0;
        for (; rows; rows = rows->next)
            count++;
        buf_printf(out, " %d rows", count);
        return;
    }
    for (int i = 0; rows && i < rows->count; i++)
        add_value(out, &rows->values[i]);
}

/* What a guard has found where it did not hold is left out: it is read a moment later, for
 * people. */
static void add_answers(const pair_side *d, buf *out)
{
    static const char *const ANSWERS[] = {"open", "committed", "refused", "undecided", "failed"};
    buf_printf(out, "\n    %s %s:", d->me == LEFT ? "L" : "R", PAIR_KIND_NAMES[d->kind]);
    for (int i = 0; i < d->count; i++) {
        const unit *u = d->units[i];
        buf_printf(out, " %s %s", ANSWERS[u->answer], u->refused ? u->refused : "");
        if (u->answer == UNIT_FAILED)
            buf_printf(out, "%s %s", pawl_code_name(u->code), u->message);
        for (const unit_stmt *s = u->first; s && u->answer == UNIT_COMMITTED; s = s->next)
            add_rows(s->rows, out);
        buf_text(out, ";");
    }
    if (d->read != -1)
        buf_printf(out, " read %lld", (long long)d->read);
}

static void describe(fixture *b, const pair_side *sides, char *at, size_t size)
{
    buf out;
    buf_init_fixed(&out, at, size);
    for (int i = 0; i < STEPPER_SIDES; i++)
        add_answers(&sides[i], &out);
    conf_begin(b->reader);
    for (size_t i = 0; i < sizeof TABLES / sizeof *TABLES; i++)
        add_table(b, &TABLES[i], &out);
    db_rollback(b->reader);
    assert_false(out.failed);
    buf_str(&out);
}

/* ---- What must hold in any order ---- */

static int64_t ask(fixture *b, const db_sql *sql)
{
    conf_begin(b->reader);
    int64_t n = conf_number_on(b->reader, sql, NULL, 0);
    db_rollback(b->reader);
    return n;
}

/* A2: neither side has seen any message. So a live run that has one is awake, unless it is held. */
static const char *lost_wake_up(fixture *b)
{
    static const db_sql ASLEEP = {"SELECT count(*) FROM {runs} WHERE phase = 0 AND mail > 0"
                                  " AND held = 0"
                                  " AND (wake_at IS NULL OR wake_at >= 9000)",
                                  ""};
    return ask(b, &ASLEEP) ? "a run sleeps over its mail" : NULL;
}

/* A1: what the new owner has read is all that there is; no other node writes after that. */
static const char *blind_owner(fixture *b, const pair_side *sides)
{
    static const db_sql ALL = {"SELECT count(*) FROM {journal}", ""};
    for (int i = 0; i < STEPPER_SIDES; i++)
        if (sides[i].read != -1 && sides[i].read != ask(b, &ALL))
            return "the old owner wrote after the new one had read";
    return NULL;
}

/* Every message that was answered has its row, and its number. */
static const char *lost_mail(fixture *b)
{
    static const db_sql ODD = {
        "SELECT count(*) FROM {runs} r WHERE r.mail <>"
        " (SELECT count(*) FROM {inbox} i WHERE i.run = r.run AND i.seq <= r.mail)",
        ""};
    return ask(b, &ODD) ? "numbers of messages have a gap" : NULL;
}

/* A run is claimed by one of two nodes that saw it without an owner. */
static const char *two_owners(const pair_side *sides)
{
    int owners = 0;
    for (int i = 0; i < STEPPER_SIDES; i++)
        owners += sides[i].kind == CLAIM && sides[i].units[0]->answer == UNIT_COMMITTED;
    return owners > 1 ? "both have claimed it" : NULL;
}

/* Only one of two that send the same message, ask for the same, or move the same row. */
static const char *twice(fixture *b, const pair_side *sides)
{
    static const db_sql CANCELS = {"SELECT count(*) FROM {inbox} WHERE kind = 3", ""};
    static const db_sql KEYS = {"SELECT count(*) FROM {inbox} WHERE key IS NOT NULL", ""};
    static const db_sql LEFT_OVER = {"SELECT count(*) FROM {outbox}", ""};
    int moved = 0;
    for (int i = 0; i < STEPPER_SIDES; i++)
        moved += sides[i].kind == MOVE && sides[i].units[0]->answer == UNIT_COMMITTED;
    if (ask(b, &CANCELS) > 1 || ask(b, &KEYS) > 1)
        return "what is asked once has arrived twice";
    return moved + ask(b, &LEFT_OVER) != 1 ? "a row was moved twice, or left" : NULL;
}

/* No node looks at a held run without an owner, and one that was released is not asleep. */
static const char *odd_hold(fixture *b)
{
    static const db_sql ODD = {
        "SELECT count(*) FROM {runs} WHERE (held <> 0 AND owner = 0 AND wake_at IS NOT NULL)"
        " OR (held <> 0 AND phase <> 0)",
        ""};
    return ask(b, &ODD) ? "a held run is in the list of a node, or has ended" : NULL;
}

/* Messages wake every run that a node has owned, whatever time it sleeps until: so `claims`, by
 * which they know it, is never 0 again. */
static const char *looks_new(fixture *b)
{
    static const db_sql NEW = {"SELECT count(*) FROM {runs} WHERE claims = 0 AND fence > 1", ""};
    return ask(b, &NEW) ? "a run that was driven looks as if it never was" : NULL;
}

static const char *broken_rule(fixture *b, const pair_side *sides)
{
    const char *why = lost_wake_up(b);
    if (!why)
        why = looks_new(b);
    if (!why)
        why = odd_hold(b);
    if (!why)
        why = twice(b, sides);
    if (!why)
        why = two_owners(sides);
    if (!why)
        why = blind_owner(b, sides);
    return why ? why : lost_mail(b);
}

/* ---- One pair ---- */

static void run_order(fixture *b, pair_side *sides, int64_t owner, char *outcome, size_t size)
{
    side_task tasks[STEPPER_SIDES] = {{b, &sides[0]}, {b, &sides[1]}};
    void *args[STEPPER_SIDES] = {&tasks[0], &tasks[1]};
    reset(b, owner);
    pair_side_build(&sides[0]);
    pair_side_build(&sides[1]);
    stepper_run(b->stepper, carry_out, args);
    describe(b, sides, outcome, size);
    const char *why = broken_rule(b, sides);
    if (why)
        fail_msg("%s, in the order %s:%s", why, stepper_order(b->stepper), outcome);
}

static int is_known(const fixture *b, const char *outcome)
{
    for (int i = 0; i < b->known; i++)
        if (strcmp(b->outcomes[i], outcome) == 0)
            return 1;
    return 0;
}

static void run_whole(fixture *b, pair_side *sides, int64_t owner)
{
    b->known = 0;
    stepper_first(b->stepper, STEPPER_WHOLE);
    do {
        assert_true(b->known < OUTCOMES);
        char *outcome = b->outcomes[b->known];
        run_order(b, sides, owner, outcome, sizeof b->outcomes[0]);
        b->known += !is_known(b, outcome);
    } while (stepper_next(b->stepper));
}

static void run_in_pieces(fixture *b, pair_side *sides, int64_t owner, stepper_how how)
{
    char outcome[sizeof b->outcomes[0]];
    stepper_first(b->stepper, how);
    do {
        tmp_watchdog(b->name); /* each order has the time of a test */
        run_order(b, sides, owner, outcome, sizeof outcome);
        if (!is_known(b, outcome))
            fail_msg("no order of whole units comes to what %s came to:%s\nbut for example to:%s",
                     stepper_order(b->stepper), outcome, b->outcomes[0]);
    } while (stepper_next(b->stepper));
}

static void run_pair(fixture *b, kind left, kind right, int64_t owner)
{
    pair_side sides[STEPPER_SIDES] = {
        {.kind = left, .me = LEFT, .other = RIGHT, .owner = owner, .now_ms = 1000},
        {.kind = right, .me = RIGHT, .other = LEFT, .owner = owner, .now_ms = 2000},
    };
    if (!pair_side_makes_sense(&sides[0]) || !pair_side_makes_sense(&sides[1]))
        return;
    snprintf(b->name, sizeof b->name, "%s against %s", PAIR_KIND_NAMES[left],
             PAIR_KIND_NAMES[right]);
    tmp_watchdog(b->name);
    for (int i = 0; i < STEPPER_SIDES; i++)
        for (int k = 0; k < UNITS; k++) {
            sides[i].arenas[k] = arena_new(0);
            assert_non_null(sides[i].arenas[k]);
        }
    run_whole(b, sides, owner);
    run_in_pieces(b, sides, owner, STEPPER_PIECES);
    if (b->races) {
        run_in_pieces(b, sides, owner, STEPPER_LEFT_DIRECT);
        run_in_pieces(b, sides, owner, STEPPER_RIGHT_DIRECT);
    }
    b->pairs++;
    for (int i = 0; i < STEPPER_SIDES; i++)
        for (int k = 0; k < UNITS; k++)
            arena_free(sides[i].arenas[k]);
}

/* ---- All pairs ---- */

static fixture *fixture_open(const conf *c)
{
    fixture *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->stepper = stepper_open(c);
    b->races = !(c->promises & DB_TURNS);
    db *d = stepper_db(b->stepper);
    b->writer = conf_connect(d, DB_WRITER);
    b->reader = conf_connect(d, DB_READER);
    for (int i = 0; i < STEPPER_SIDES; i++) {
        b->readers[i] = conf_connect(d, DB_READER);
        stepper_connection(b->stepper, i)->node = i ? RIGHT : LEFT;
        stepper_connection(b->stepper, i)->slot = 1;
    }
    return b;
}

static void fixture_close(fixture *b, const conf *c)
{
    stepper_counts n = stepper_counted(b->stepper);
    printf("# %s: %lld pairs, %lld orders, %lld steps; waited %lld times, tried again %lld times\n",
           c->backend, (long long)b->pairs, (long long)n.orders, (long long)n.steps,
           (long long)n.waits, (long long)n.retries);
    assert_true(b->pairs > 0 && n.orders >= 2 * b->pairs);
    db_disconnect(b->writer);
    db_disconnect(b->reader);
    for (int i = 0; i < STEPPER_SIDES; i++)
        db_disconnect(b->readers[i]);
    stepper_close(b->stepper);
    free(b);
}

static void all_pairs(const conf *c, int64_t owner)
{
    fixture *b = fixture_open(c);
    for (kind left = CLAIM; left < CROSS; left++)
        for (kind right = CLAIM; right < CROSS; right++)
            if (left != TAKE_OVER && right != TAKE_OVER)
                run_pair(b, left, right, owner);
    fixture_close(b, c);
}

static void a_run_without_an_owner(conf *c)
{
    all_pairs(c, 0);
}

static void a_run_of_a_closed_node(conf *c)
{
    all_pairs(c, DEAD);
}

/* The right side stands for all other nodes. */
static void a_run_of_one_of_both(conf *c)
{
    all_pairs(c, LEFT);
}

/* The owner goes about its business while another one takes its node for dead. */
static void an_owner_that_is_taken_over(conf *c)
{
    static const kind BUSINESS[] = {SEND, CLOSE, PARK, FINISH, GIVE_BACK, APPEND};
    fixture *b = fixture_open(c);
    for (size_t i = 0; i < sizeof BUSINESS / sizeof *BUSINESS; i++)
        run_pair(b, BUSINESS[i], TAKE_OVER, LEFT);
    fixture_close(b, c);
}

/* C6: units whose locks are taken in opposite order, as one unit's statements are not sorted. */
static void messages_that_cross(conf *c)
{
    fixture *b = fixture_open(c);
    run_pair(b, CROSS, CROSS, 0);
    fixture_close(b, c);
}

/* A run that falls asleep, or a message that arrives, while the run is held: it is awake after the
 * release. */
static void a_run_that_is_let_go(conf *c)
{
    fixture *b = fixture_open(c);
    run_pair(b, SEND, RELEASE, 0);
    run_pair(b, CLAIM, RELEASE, 0);
    run_pair(b, PARK, RELEASE, LEFT);
    run_pair(b, GIVE_BACK, RELEASE, LEFT);
    run_pair(b, REST, RELEASE, LEFT);
    fixture_close(b, c);
}

/* Each of them against everything, and against each other. */
static void letters_of(const conf *c, int64_t owner)
{
    fixture *b = fixture_open(c);
    for (kind mine = KEY; mine <= MOVE; mine++)
        for (kind other = CLAIM; other <= MOVE; other++)
            if (other != TAKE_OVER && other != CROSS && other != RELEASE) {
                run_pair(b, other, mine, owner);
                if (other < KEY && owner == LEFT)
                    run_pair(b, mine, other, RIGHT);
            }
    fixture_close(b, c);
}

static void messages_for_a_run_without_an_owner(conf *c)
{
    letters_of(c, 0);
}

static void messages_for_a_run_of_one_of_both(conf *c)
{
    letters_of(c, LEFT);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a run without an owner", a_run_without_an_owner, DB_ISOLATED},
        {"a run of a closed node", a_run_of_a_closed_node, DB_ISOLATED},
        {"a run of one of both", a_run_of_one_of_both, DB_ISOLATED},
        {"an owner that is taken over", an_owner_that_is_taken_over, DB_ISOLATED},
        {"messages that cross", messages_that_cross, DB_ISOLATED},
        {"a run that is let go", a_run_that_is_let_go, DB_ISOLATED},
        {"messages for a run without an owner", messages_for_a_run_without_an_owner, DB_ISOLATED},
        {"messages for a run of one of both", messages_for_a_run_of_one_of_both, DB_ISOLATED},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
