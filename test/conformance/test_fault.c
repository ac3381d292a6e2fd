/* Every call to the database fails once, in turn, and no answer is wrong.
 *
 * A workload of several batches, some of whose units are refused or fail, is run once to count its
 * calls. Then it is run again for each of them with that call broken. Whatever the call was: each
 * unit gets one final answer, the database has exactly the rows of the units that were answered
 * COMMITTED, and those of a submitter are a prefix of what it handed in (A4, A5). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

#include "support/conf.h"

enum {
    SUBMITTERS = 3,
    EACH = 4, /* units of each */
    UNITS = SUBMITTERS * EACH,
    BATCH = 5,
    CALLS_MAX = 1024,
};

static const db_sql RAISE = {"UPDATE {meta} SET number = number + 1 WHERE name = 'test.counter'"
                             " AND number >= $1 RETURNING number",
                             "i"};
static const db_sql SET_COUNTER = {"INSERT INTO {meta} (name, number) VALUES ('test.counter', 0)"
                                   " ON CONFLICT (name) DO UPDATE SET number = 0",
                                   ""};
static const db_sql COUNTER = {"SELECT number FROM {meta} WHERE name = 'test.counter'", ""};
static const db_sql THERE = {"SELECT count(*) FROM {journal} WHERE run = $1 AND seq = $2", "ii"};
static const db_sql ROWS = {"SELECT count(*) FROM {journal} WHERE run >= $1 AND run < $2", "ii"};

/* One run of the workload has run keys of its own, so that one database serves for all. */
typedef struct load {
    db_fault plan;
    clock_fake *clock;
    db *db;
    db_conn *reader;
    db_conn *writer;
    committer *k;
    int64_t first_run;
    submitter submitters[SUBMITTERS];
    conf_ticket tickets[UNITS];
    fault_call kinds[CALLS_MAX + 1];
    char own[CALLS_MAX + 1]; /* the call is a step of a unit's own statement */
} load;

static void note_call(void *arg, int64_t number, fault_call call, const char *sql)
{
    load *l = arg;
    if (number <= CALLS_MAX) {
        l->kinds[number] = call;
        l->own[number] = call == FAULT_CALL_NEXT && strstr(sql, "journal") != NULL;
    }
}

static void load_open(load *l, const conf *c)
{
    memset(l, 0, sizeof *l);
    l->clock = clock_fake_new(1000);
    l->db = conf_open_fault(c, &(db_options){.clock = clock_fake_source(l->clock), .by_hand = 1},
                            &l->plan);
    l->reader = conf_connect(l->db, DB_READER);
    l->writer = conf_connect(l->db, DB_WRITER);
    l->first_run = 100;
}

static void load_close(load *l)
{
    db_disconnect(l->writer);
    db_disconnect(l->reader);
    db_close(l->db);
    clock_fake_free(l->clock);
}

/* Unit i of the workload, of submitter i % SUBMITTERS: a guard that counts, a journal row, and a
 * second row that hangs on what the guard returned. One of them is refused, one fails. */
static void make_unit(load *l, int i)
{
    conf_ticket *t = &l->tickets[i];
    int who = i % SUBMITTERS;
    int64_t run = l->first_run + who;
    int64_t seq = i / SUBMITTERS;
    conf_ticket_open(t, 0);
    t->unit->submitter = &l->submitters[who];
    int64_t least = who == 1 && seq == 2 ? 1000000 : 0; /* refused */
    int guard =
        unit_guard(t->unit, &RAISE, "counter", unit_key("meta", 1), (db_value[]){db_int(least)}, 1);
    int64_t place = who == 2 && seq == 3 ? 0 : seq; /* taken: fails */
    db_value row[] = {db_int(run), db_int(place), db_text(SLICE_LIT("a")), db_null()};
    unit_write(t->unit, &CONF_APPEND, unit_key("journal", run), row, 4);
    db_value next[] = {db_int(run + 1000000), db_from(guard, 0), db_text(SLICE_LIT("b")),
                       db_null()};
    unit_write(t->unit, &CONF_APPEND, unit_key("journal", run + 1000000), next, 4);
}

/* Run the workload with the plan as it is; its counts start at the first unit. */
static void load_run(load *l)
{
    db_fault plan = l->plan;
    l->plan = (db_fault){0};
    error err = {0};
    conf_begin(l->writer);
    CONF_OK(db_run(l->writer, &SET_COUNTER, NULL, 0, &err), &err);
    conf_commit(l->writer);
    l->k = conf_committer(l->db, &(committer_options){.by_hand = 1, .batch_units = BATCH});
    plan.calls = plan.commits = 0;
    plan.before = note_call;
    plan.before_arg = l;
    l->first_run += 10;
    memset(l->submitters, 0, sizeof l->submitters);
    l->plan = plan;
    for (int i = 0; i < UNITS; i++) {
        make_unit(l, i);
        committer_submit(l->k, l->tickets[i].unit);
    }
    conf_drive(l->k, l->clock, l->tickets, UNITS);
    plan = l->plan;
    l->plan = (db_fault){0};
    committer_close(l->k);
    l->plan = (db_fault){.calls = plan.calls, .commits = plan.commits};
}

/* What must hold whatever was broken. */
static void load_check(load *l, const char *what, int64_t number)
{
    int broken[SUBMITTERS] = {0};
    int64_t committed = 0;
    conf_begin(l->reader);
    for (int i = 0; i < UNITS; i++) {
        const conf_ticket *t = &l->tickets[i];
        int who = i % SUBMITTERS;
        int in = t->answer == UNIT_COMMITTED;
        if (t->finals != 1 || t->late || t->undecided > 1)
            fail_msg("%s, call %lld: unit %d has %d final answers", what, (long long)number, i,
                     t->finals);
        if (in && broken[who])
            fail_msg("%s, call %lld: unit %d comes after a hole", what, (long long)number, i);
        broken[who] |= !in;
        committed += in;
        db_value place[] = {db_int(l->first_run + who), db_int(i / SUBMITTERS)};
        int64_t there = conf_number_on(l->reader, &THERE, place, 2);
        if (there != in)
            fail_msg("%s, call %lld: unit %d was answered %d and has %lld rows", what,
                     (long long)number, i, t->answer, (long long)there);
        if (in) { /* rows of a pass that was thrown away do not show */
            assert_non_null(unit_rows(t->unit, 0));
            assert_null(unit_rows(t->unit, 0)->next);
            assert_int_equal(unit_rows(t->unit, 0)->values[0].i, committed);
        }
    }
    int64_t second = l->first_run + 1000000;
    db_value range[] = {db_int(second), db_int(second + SUBMITTERS)};
    assert_int_equal(conf_number_on(l->reader, &ROWS, range, 2), committed);
    assert_int_equal(conf_number_on(l->reader, &COUNTER, NULL, 0), committed);
    db_rollback(l->reader);
    conf_tickets_free(l->tickets, UNITS);
}

static int count_answers(const load *l, unit_answer answer)
{
    int count = 0;
    for (int i = 0; i < UNITS; i++)
        count += l->tickets[i].answer == answer;
    return count;
}

static int64_t load_measure(load *l)
{
    load_run(l);
    assert_int_equal(count_answers(l, UNIT_COMMITTED), 9);
    assert_int_equal(count_answers(l, UNIT_REFUSED), 2); /* one by its guard, one by the prefix */
    assert_int_equal(count_answers(l, UNIT_FAILED), 1);
    int64_t calls = l->plan.calls;
    assert_int_equal(l->plan.commits, 3);
    assert_in_range(calls, 50, CALLS_MAX);
    load_check(l, "nothing broken", 0);
    return calls;
}

/* ---- Each call fails ---- */

static void break_each(conf *c, pawl_code code, int ends)
{
    load l;
    load_open(&l, c);
    int64_t calls = load_measure(&l);
    for (int64_t n = 1; n <= calls; n++) {
        l.plan = (db_fault){.fail_call = n, .fail_code = code, .fail_ends = ends};
        load_run(&l);
        assert_true(l.plan.calls >= n);
        load_check(&l, pawl_code_name(code), n);
    }
    load_close(&l);
}

static void a_call_fails(conf *c)
{
    break_each(c, PAWL_STORAGE, 0);
}

/* A4d: the database throws the transaction away by itself. Units that go on as if nothing had
 * happened would be committed one by one, without their neighbours and their guards. */
static void a_call_fails_and_ends_the_transaction(conf *c)
{
    break_each(c, PAWL_STORAGE, 1);
}

static void the_disk_is_full_at_each_call(conf *c)
{
    break_each(c, PAWL_FULL, 0);
}

static void the_disk_is_full_and_ends_the_transaction(conf *c)
{
    break_each(c, PAWL_FULL, 1);
}

/* A transaction that cannot begin, or cannot be committed yet, answers no unit: it is tried
 * again. */
static void a_busy_database_only_delays(conf *c)
{
    load l;
    load_open(&l, c);
    int64_t calls = load_measure(&l);
    char wanted[CALLS_MAX + 1] = {0};
    for (int64_t n = 1; n <= calls; n++)
        wanted[n] = l.kinds[n] == FAULT_CALL_BEGIN || l.kinds[n] == FAULT_CALL_COMMIT;
    int tried = 0;
    for (int64_t n = 1; n <= calls; n++) {
        if (!wanted[n])
            continue;
        tried++;
        l.plan = (db_fault){.fail_call = n, .fail_code = PAWL_BUSY};
        load_run(&l);
        assert_int_equal(count_answers(&l, UNIT_COMMITTED), 9);
        assert_int_equal(count_answers(&l, UNIT_REFUSED), 2);
        load_check(&l, "busy", n);
    }
    assert_in_range(tried, 6, 20);
    load_close(&l);
}

/* A4(c), A4d: one unit's own statement fails, with or without the transaction: its neighbours of
 * other submitters do not notice. */
static void an_injected_fault_changes_no_other_unit(conf *c)
{
    load l;
    load_open(&l, c);
    int64_t calls = load_measure(&l);
    char own[CALLS_MAX + 1];
    memcpy(own, l.own, sizeof own);
    for (int64_t n = 1; n <= calls; n++) {
        if (!own[n])
            continue;
        for (int ends = 0; ends <= 1; ends++) {
            l.plan = (db_fault){.fail_call = n, .fail_ends = ends};
            load_run(&l);
            int harmed = 0;
            for (int who = 0; who < SUBMITTERS; who++) {
                int in = 0;
                for (int i = who; i < UNITS; i += SUBMITTERS)
                    in += l.tickets[i].answer == UNIT_COMMITTED;
                harmed += in < (who == 0 ? 4 : who == 1 ? 2 : 3);
            }
            if (harmed > 1)
                fail_msg("call %lld harms %d submitters", (long long)n, harmed);
            load_check(&l, "own statement", n);
        }
    }
    load_close(&l);
}

/* ---- Two faults, one after the other ---- */

/* Strikes at statements by their text: the first time at `first`, with the transaction; then at
 * `second`, without it. */
typedef struct strikes {
    db_fault plan;
    const char *first;
    const char *second;
    int count;
} strikes;

static void strike(void *arg, int64_t number, fault_call call, const char *sql)
{
    strikes *s = arg;
    const char *where = s->count == 0 ? s->first : s->second;
    if (call != FAULT_CALL_NEXT || s->count > 1 || !strstr(sql, where))
        return;
    s->plan.fail_call = number;
    s->plan.fail_ends = s->count == 0;
    s->count++;
}

/* In the first pass a guard holds because of its neighbour's row. The pass is thrown away, and in
 * the second one the neighbour fails: what the guard had found before counts no more. */
static void what_a_lost_pass_has_found_does_not_count(conf *c)
{
    static const db_sql BEFORE = {"INSERT INTO {meta} (name) VALUES ('test.before')", ""};
    static const db_sql GIVE = {
        "INSERT INTO {meta} (name, number) VALUES ('test.give', 7) RETURNING number", ""};
    static const db_sql NEED = {
        "UPDATE {meta} SET number = 8 WHERE name = 'test.give' RETURNING number", ""};
    strikes s = {.first = "{journal}", .second = "INSERT INTO {meta}"};
    db *d = conf_open_fault(c, NULL, &s.plan);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    conf_ticket t[3];
    conf_ticket_open(&t[0], 0);
    unit_write(t[0].unit, &BEFORE, unit_key("meta", 2), NULL, 0); /* so that it has a savepoint */
    unit_guard(t[0].unit, &GIVE, "give", unit_key("meta", 1), NULL, 0);
    conf_ticket_open(&t[1], 0);
    unit_guard(t[1].unit, &NEED, "need", unit_key("meta", 1), NULL, 0);
    conf_ticket_append(&t[2], 1, 1, NULL);
    s.plan.before = strike;
    s.plan.before_arg = &s;
    for (int i = 0; i < 3; i++)
        committer_submit(k, t[i].unit);
    conf_drive(k, NULL, t, 3);
    assert_int_equal(s.count, 2);
    assert_int_equal(committer_stats_now(k).restarts, 1);
    CONF_ANSWER(&t[0], UNIT_FAILED);
    CONF_ANSWER(&t[1], UNIT_REFUSED);
    assert_string_equal(t[1].unit->refused, "need");
    CONF_ANSWER(&t[2], UNIT_COMMITTED);
    committer_close(k);
    assert_int_equal(conf_rows(d, 1), 1);
    db_close(d);
    conf_tickets_free(t, 3);
}

/* ---- A5: the answer of a commit is lost ---- */

static void lose_each(conf *c, int happened)
{
    load l;
    load_open(&l, c);
    load_measure(&l);
    for (int64_t commit = 1; commit <= 3; commit++) {
        for (int64_t unknown = 0; unknown <= 3; unknown++) {
            l.plan = (db_fault){
                .lose_commit = commit, .lose_happened = happened, .unknown_times = unknown};
            load_run(&l);
            int undecided = 0;
            for (int i = 0; i < UNITS; i++) {
                const conf_ticket *t = &l.tickets[i];
                undecided += t->undecided;
                if (t->undecided && t->answer == UNIT_COMMITTED)
                    assert_true(happened);
                if (t->undecided && !happened)
                    assert_int_equal(t->answer, UNIT_FAILED);
            }
            if (unknown > 0)
                assert_in_range(undecided, 1, BATCH);
            load_check(&l, happened ? "lost, happened" : "lost, did not happen", commit);
        }
    }
    load_close(&l);
}

static void a_lost_commit_that_happened(conf *c)
{
    lose_each(c, 1);
}

static void a_lost_commit_that_did_not_happen(conf *c)
{
    lose_each(c, 0);
}

/* While the fate of a commit is open nothing else may be committed: a later transaction that were
 * built on rows which then turn out not to be there would be a lie. */
static void nothing_is_committed_while_a_fate_is_open(conf *c)
{
    load l;
    load_open(&l, c);
    l.k = conf_committer(l.db, &(committer_options){.by_hand = 1});
    conf_ticket t[2];
    conf_ticket_append(&t[0], 1, 1, NULL);
    conf_ticket_append(&t[1], 2, 1, NULL);
    l.plan = (db_fault){.lose_commit = 1, .lose_happened = 1, .unknown_times = 3};
    committer_submit(l.k, t[0].unit);
    assert_int_equal(committer_drive(l.k), 1);
    assert_int_equal(t[0].undecided, 1);
    committer_submit(l.k, t[1].unit);
    for (int i = 0; i < 3; i++) {
        clock_fake_advance(l.clock, 60000);
        assert_int_equal(committer_drive(l.k), 1);
        assert_int_equal(t[0].finals, 0);
        assert_int_equal(t[1].finals, 0);
        assert_int_equal(l.plan.commits, 1);
    }
    conf_drive(l.k, l.clock, t, 2);
    CONF_ANSWER(&t[0], UNIT_COMMITTED);
    CONF_ANSWER(&t[1], UNIT_COMMITTED);
    assert_int_equal(committer_stats_now(l.k).undecided, 1);
    committer_close(l.k);
    conf_tickets_free(t, 2);
    load_close(&l);
}

/* ---- Death around a commit ---- */

typedef struct death {
    const conf *conf;
    int64_t before;
    int64_t after;
    int64_t first_run;
} death;

static void die_at_work(int in, int out, void *arg)
{
    (void)in;
    (void)out;
    const death *how = arg;
    db_fault plan = {0};
    db_options o = {.url = how->conf->url};
    error err = {0};
    db *inner = NULL;
    TMP_CHECK(db_open(&inner, &o, &err) == PAWL_OK);
    db *d = db_fault_wrap(inner, &plan);
    committer *k = NULL;
    committer_options options = {.by_hand = 1, .batch_units = 4};
    TMP_CHECK(d && committer_open(&k, d, &options, &err) == PAWL_OK);
    plan.die_before = how->before;
    plan.die_after = how->after;
    for (int i = 0; i < 12; i++) {
        arena *a = arena_new(0);
        unit *u = unit_new(a);
        db_value v[] = {db_int(how->first_run + 1 + i / 4), db_int(i), db_text(SLICE_LIT("row")),
                        db_null()};
        unit_write(u, &CONF_APPEND, unit_key("journal", 1), v, 4);
        committer_submit(k, u);
    }
    while (committer_drive(k))
        continue;
}

/* All of a batch or nothing of it, and all that came before. */
static void the_process_is_killed_before_and_after_a_commit(conf *c)
{
    for (int64_t number = 1; number <= 3; number++) {
        for (int after = 0; after <= 1; after++) {
            int64_t first_run = number * 10 + after * 100;
            death how = {c, after ? 0 : number, after ? number : 0, first_run};
            tmp_child child = tmp_fork(die_at_work, &how);
            assert_int_equal(tmp_hear(child.from), -1);
            int status = tmp_reap(&child);
            assert_true(WIFSIGNALED(status));
            assert_int_equal(WTERMSIG(status), SIGKILL);
            db *d = conf_open(c, NULL);
            for (int64_t batch = 1; batch <= 3; batch++) {
                int there = batch < number || (after && batch == number);
                assert_int_equal(conf_rows(d, first_run + batch), there ? 4 : 0);
            }
            db_close(d);
        }
    }
}

static const conf_case CASES[] = {
    {"a call fails", a_call_fails, 0},
    {"a call fails and ends the transaction", a_call_fails_and_ends_the_transaction, 0},
    {"the disk is full at each call", the_disk_is_full_at_each_call, 0},
    {"the disk is full and ends the transaction", the_disk_is_full_and_ends_the_transaction, 0},
    {"a busy database only delays", a_busy_database_only_delays, 0},
    {"an injected fault changes no other unit", an_injected_fault_changes_no_other_unit, 0},
    {"what a lost pass has found does not count", what_a_lost_pass_has_found_does_not_count, 0},
    {"a lost commit that happened", a_lost_commit_that_happened, 0},
    {"a lost commit that did not happen", a_lost_commit_that_did_not_happen, 0},
    {"nothing is committed while a fate is open", nothing_is_committed_while_a_fate_is_open, 0},
    {"the process is killed before and after a commit",
     the_process_is_killed_before_and_after_a_commit, DB_DURABLE},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
