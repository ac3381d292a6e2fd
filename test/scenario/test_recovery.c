/* Recovery: processes that are killed, and others of the same program that go on with their runs.
 * What was recorded is not executed again; what was in flight is, once. The side file of the
 * fixture counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

/* Long enough, on the fixture's clock, for a silent node to be taken for dead. */
static const int64_t SILENCE_MS = 60000;

/* What the numbers of the fixture are for; from LAPS on one for each process. */
enum { STOP, EXECUTED, LAPS };

/* Stand still at this place, if the test has said so; it is said once. */
static void place(engine_fixture *s, char name)
{
    int64_t wanted = name;
    if (atomic_compare_exchange_strong(fixture_number(s, STOP), &wanted, 0))
        fixture_send_and_await(s, name);
}

static const char *stepping(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "%s-%s", pawl_work_name(work), pawl_work_run_id(work));
    atomic_fetch_add(fixture_number(s, EXECUTED), 1);
    place(s, pawl_work_name(work)[0]);
    return pawl_work_json(work, "%" PRId64, pawl_get_int(input, "", 0) + 1);
}

#define STEP(name, input) pawl_step(run, name, stepping, input, PAWL_CALL(.arg = s))

static const char *flow(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    const char *sum = STEP("a", input);
    place(s, '1');
    sum = STEP("b", sum);
    pawl_sleep(run, 1000);
    place(s, '2');
    sum = STEP("c", sum);
    place(s, '3');
    return sum;
}

static const char HISTORY[] = "step:a step:b sleep woken step:c";

static pawl *open_flow(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, flow);
    return p;
}

/* ---- One process after the other ---- */

/* A process that starts the run, or finds it there, and drives it to its end. */
static void whole_body(engine_fixture *s, void *arg)
{
    const char *id = arg;
    pawl *p = open_flow(s);
    fixture_start(s, p, "flow", id, "0");
    fixture_poll(s, p);
    place(s, 'z'); /* it sleeps */
    FIXTURE_DONE(s, p, id, "3");
    FIXTURE_HISTORY(s, p, id, HISTORY);
    pawl_close(p);
}

static void killed_anywhere(conf *c)
{
    static const struct {
        char place;
        int a, b, c; /* executions */
    } CASES[] = {
        {'a', 2, 1, 1}, /* in the first step */
        {'1', 2, 1, 1}, /* behind it: its row goes with the next thing that needs it */
        {'b', 1, 2, 1}, /* in the next one: before that everything is durable */
        {'z', 1, 1, 1}, /* while it sleeps */
        {'2', 1, 1, 1}, /* when it has woken */
        {'c', 1, 1, 2}, /* in the last step */
        {'3', 1, 1, 2}, /* behind it */
    };
    engine_fixture *s = fixture_new(c);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        char id[] = {CASES[i].place, '\0'}, name[16];
        atomic_store(fixture_number(s, STOP), CASES[i].place);
        tmp_child first = fixture_fork(s, whole_body, id);
        tmp_expect(&first, CASES[i].place);
        tmp_kill(&first);
        fixture_advance(s, SILENCE_MS);
        tmp_child second = fixture_fork(s, whole_body, id);
        tmp_join(&second);
        for (char step = 'a'; step <= 'c'; step++) {
            int wanted = step == 'a' ? CASES[i].a : step == 'b' ? CASES[i].b : CASES[i].c;
            snprintf(name, sizeof name, "%c-%s", step, id);
            if (fixture_count(s, name) != wanted)
                fail_msg("killed at %s: %s was executed %d times", id, name,
                         fixture_count(s, name));
        }
    }
    fixture_free(s);
}

/* A start that was acknowledged is there, whichever process drives it. */
static void start_body(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = fixture_open(s, NULL);
    fixture_start(s, p, "flow", "run", "0");
    fixture_send_and_await(s, 's');
}

static void a_start_outlives_its_process(conf *c)
{
    engine_fixture *s = fixture_new(c);
    tmp_child client = fixture_fork(s, start_body, NULL);
    tmp_expect(&client, 's');
    tmp_kill(&client);
    pawl *p = open_flow(s);
    FIXTURE_DONE(s, p, "run", "3");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Retries ---- */

static const char *always_fails(pawl_work *work, const char *input)
{
    (void)input;
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "%d", (int)pawl_work_attempt(work));
    place(s, (char)('0' + pawl_work_attempt(work)));
    return pawl_work_fail(work, PAWL_TRANSIENT, "never", "attempt %d",
                          (int)pawl_work_attempt(work));
}

static const char *stubborn(pawl_run *run, const char *input)
{
    return pawl_step(run, "fails", always_fails, input,
                     PAWL_CALL(.arg = pawl_arg(run), .attempts = 4));
}

static void stubborn_body(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, stubborn);
    fixture_start(s, p, "stubborn", "run", "0");
    FIXTURE_FAILED(s, p, "run", "never", "attempt 4");
    pawl_close(p);
}

/* The attempt in which the process died was not recorded: it is made again, under its number. */
static void attempts_are_counted_over_deaths(conf *c)
{
    engine_fixture *s = fixture_new(c);
    for (char at = '1'; at <= '3'; at++) {
        atomic_store(fixture_number(s, STOP), at);
        tmp_child child = fixture_fork(s, stubborn_body, NULL);
        tmp_expect(&child, at);
        tmp_kill(&child);
        fixture_advance(s, SILENCE_MS);
    }
    tmp_child last = fixture_fork(s, stubborn_body, NULL);
    tmp_join(&last);
    FIXTURE_NOTES(s, "1 1 2 2 3 3 4");
    fixture_free(s);
}

/* ---- A crowd ---- */

enum { CROWD = 25 };

static void name_of(char out[32], int run)
{
    snprintf(out, 32, "run-%d", run);
}

static int all_done(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < CROWD; i++) {
        char id[32];
        name_of(id, i);
        if (fixture_phase(s, p, id) != PAWL_RUN_DONE)
            return 0;
    }
    return 1;
}

static void start_crowd(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < CROWD; i++) {
        char id[32];
        name_of(id, i);
        fixture_start(s, p, "flow", id, "0");
    }
}

static void crowd_body(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = open_flow(s);
    start_crowd(s, p);
    FIXTURE_UNTIL(s, p, all_done(s, p));
    pawl_close(p);
}

/* How often each step was executed, and how often it may have been: once, and once more for each
 * kill that found it executed and not recorded. */
typedef struct count {
    int executed;
    int allowed;
    int recorded;
} count;

static int note_step(const pawl_event *e, void *arg)
{
    count *steps = arg;
    if (strcmp(pawl_event_kind(e), "step") == 0)
        steps[pawl_event_name(e)[0] - 'a'].recorded = 1;
    return 0;
}

static void look_after_a_kill(engine_fixture *s, count counts[CROWD][3])
{
    pawl *p = fixture_open(s, NULL);
    for (int i = 0; i < CROWD; i++) {
        char id[32], name[40];
        name_of(id, i);
        pawl_code rc = pawl_history(p, id, 0, 0, note_step, counts[i]);
        if (rc != PAWL_NOTFOUND)
            FIXTURE_CODE(s, p, rc, PAWL_OK);
        for (int k = 0; k < 3; k++) {
            count *at = &counts[i][k];
            snprintf(name, sizeof name, "%c-%s", 'a' + k, id);
            int now = fixture_count(s, name);
            at->allowed += now > at->executed && !at->recorded;
            at->executed = now;
        }
    }
    pawl_close(p);
}

static void only_what_was_in_flight_is_done_twice(conf *c)
{
    static const int64_t KILLS[] = {10, 40, 60};
    count counts[CROWD][3];
    engine_fixture *s = fixture_new(c);
    memset(counts, 0, sizeof counts);
    for (size_t i = 0; i < sizeof KILLS / sizeof *KILLS; i++) {
        tmp_child child = fixture_fork(s, crowd_body, NULL);
        TMP_AWAIT(atomic_load(fixture_number(s, EXECUTED)) >= KILLS[i]);
        tmp_kill(&child);
        look_after_a_kill(s, counts);
        fixture_advance(s, SILENCE_MS);
    }
    tmp_child child = fixture_fork(s, crowd_body, NULL);
    tmp_join(&child);
    for (int i = 0; i < CROWD; i++) {
        for (int k = 0; k < 3; k++) {
            char id[32], name[40];
            name_of(id, i);
            snprintf(name, sizeof name, "%c-%s", 'a' + k, id);
            if (fixture_count(s, name) != 1 + counts[i][k].allowed)
                fail_msg("%s was executed %d times, %d were in flight", name,
                         fixture_count(s, name), counts[i][k].allowed);
        }
    }
    fixture_free(s);
}

/* ---- Side by side ---- */

typedef struct peer {
    int number;
} peer;

/* Drives until it is told a byte, counting its laps. */
static void peer_body(engine_fixture *s, void *arg)
{
    const peer *self = arg;
    pawl *p = open_flow(s);
    fixture_send_byte(s, 'o');
    while (fixture_poll_until_byte(s, p))
        atomic_fetch_add(fixture_number(s, LAPS + self->number), 1);
    pawl_close(p);
}

/* Move the clock, and wait until these have seen it. */
static void pass(engine_fixture *s, int64_t ms, unsigned peers)
{
    fixture_advance(s, ms);
    for (int i = 0; i < 2; i++) {
        _Atomic int64_t *laps = fixture_number(s, LAPS + i);
        int64_t seen = atomic_load(laps);
        if (peers & 1u << i)
            TMP_AWAIT(atomic_load(laps) > seen + 1);
    }
}

static void open_peers(engine_fixture *s, tmp_child children[2], peer peers[2])
{
    for (int i = 0; i < 2; i++) {
        peers[i].number = i;
        children[i] = fixture_fork(s, peer_body, &peers[i]);
    }
    for (int i = 0; i < 2; i++)
        tmp_expect(&children[i], 'o');
}

/* Two processes on one database, and a client: every run has one of them, and none is done
 * twice. */
static void two_processes_share_the_work(conf *c)
{
    engine_fixture *s = fixture_new(c);
    tmp_child children[2];
    peer peers[2];
    fixture_run_clock(s);
    open_peers(s, children, peers);
    pawl *client = fixture_open(s, NULL);
    start_crowd(s, client);
    for (int rounds = 0; !all_done(s, client); rounds++) {
        if (rounds > 100)
            fail_msg("they do not come to an end");
        pass(s, 500, 3);
    }
    for (int i = 0; i < CROWD; i++) {
        char id[32], name[40];
        name_of(id, i);
        snprintf(name, sizeof name, "b-%s", id);
        assert_int_equal(fixture_count(s, name), 1);
        FIXTURE_HISTORY(s, client, id, HISTORY);
    }
    pawl_close(client);
    for (int i = 0; i < 2; i++) {
        tmp_tell(children[i].to, 'x');
        tmp_join(&children[i]);
    }
    fixture_free(s);
}

/* Which of them has something to say. */
static int who_tells(const tmp_child children[2])
{
    struct pollfd fds[] = {{children[0].from, POLLIN, 0}, {children[1].from, POLLIN, 0}};
    assert_true(poll(fds, 2, tmp_patience() * 1000) > 0);
    return fds[0].revents ? 0 : 1;
}

/* A process that is left takes over: at once where the death shows, otherwise after a silence. */
static void the_other_one_takes_over(conf *c)
{
    engine_fixture *s = fixture_new(c);
    tmp_child children[2];
    peer peers[2];
    atomic_store(fixture_number(s, STOP), 'b');
    fixture_run_clock(s);
    open_peers(s, children, peers);
    pawl *client = fixture_open(s, NULL);
    fixture_start(s, client, "flow", "run", "0");
    TMP_AWAIT((fixture_advance(s, 2), atomic_load(fixture_number(s, STOP)) != 'b'));
    pawl_close(client);
    /* One of them stands in the step now; the other one does not touch the run while it lives. */
    int stands = who_tells(children);
    tmp_expect(&children[stands], 'b');
    if (c->promises & DB_FILE)
        pass(s, 2 * SILENCE_MS, 1u << !stands);
    assert_int_equal(fixture_count(s, "b-run"), 1);
    tmp_kill(&children[stands]);
    for (int64_t ms = 0; ms < FIXTURE_CLAIM_MS + 15000; ms += 1000)
        pass(s, 1000, 1u << !stands);
    assert_int_equal(fixture_count(s, "a-run"), 1);
    assert_int_equal(fixture_count(s, "b-run"), 2);
    assert_int_equal(fixture_count(s, "c-run"), 1);
    tmp_tell(children[!stands].to, 'x');
    tmp_join(&children[!stands]);
    fixture_free(s);
}

/* ---- Shut out ---- */

/* Stands in its step for longer than it may be silent; what it has to say then is not heard. */
static void silent_body(engine_fixture *s, void *arg)
{
    int64_t did;
    pawl_code rc = PAWL_OK;
    (void)arg;
    pawl *p = open_flow(s);
    fixture_start(s, p, "flow", "run", "10");
    for (int i = 0; rc == PAWL_OK && i < 100; i++)
        rc = pawl_poll(p, &did);
    FIXTURE_CODE(s, p, rc, PAWL_FENCED);
    FIXTURE_CODE(s, p, pawl_poll(p, &did), PAWL_OK); /* another node from here on */
    pawl_close(p);
}

static void a_silent_node_commits_nothing(conf *c)
{
    if (c->promises & DB_FILE)
        skip(); /* there the kernel says which process lives */
    engine_fixture *s = fixture_new(c);
    atomic_store(fixture_number(s, STOP), 'b');
    tmp_child silent = fixture_fork(s, silent_body, NULL);
    tmp_expect(&silent, 'b');
    pawl *p = open_flow(s);
    fixture_poll(s, p);
    assert_int_equal(fixture_count(s, "b-run"), 1);
    fixture_advance(s, SILENCE_MS);
    FIXTURE_DONE(s, p, "run", "13");
    assert_int_equal(fixture_count(s, "b-run"), 2);
    tmp_tell(silent.to, 'x');
    tmp_join(&silent);
    FIXTURE_DONE(s, p, "run", "13");
    FIXTURE_HISTORY(s, p, "run", HISTORY);
    assert_int_equal(fixture_count(s, "c-run"), 1);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Silent, and about to call ---- */

typedef struct pair {
    engine_fixture *fixture;
    pawl *other;
} pair;

static int both_done(engine_fixture *s, pawl *p)
{
    return fixture_phase(s, p, "one") == PAWL_RUN_DONE &&
           fixture_phase(s, p, "two") == PAWL_RUN_DONE;
}

/* The first call takes longer than its node may be silent, and the other one takes over both
 * runs. */
static const char *too_long(pawl_work *work, const char *input)
{
    pair *both = pawl_work_arg(work);
    engine_fixture *s = both->fixture;
    fixture_note(s, "%s", pawl_work_run_id(work));
    if (atomic_fetch_add(fixture_number(s, EXECUTED), 1) == 0) {
        fixture_advance(s, SILENCE_MS);
        FIXTURE_UNTIL(s, both->other, both_done(s, both->other));
    }
    return input;
}

static const char *one_call(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "call", too_long, input);
}

/* What is ready there and has nothing to be committed first is not called any more. */
static void a_silent_node_calls_nothing_more(conf *c)
{
    FIXTURE_BY_HAND(); /* what a poll answers */
    if (c->promises & DB_FILE)
        skip(); /* there the kernel says which process lives */
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    pair both = {s, fixture_open(s, NULL)};
    pawl_code rc = PAWL_OK;
    pawl *engines[] = {p, both.other};
    for (int i = 0; i < 2; i++)
        FIXTURE_CODE(
            s, engines[i],
            pawl_register_workflow(engines[i], "one_call", one_call, PAWL_WORKFLOW(.arg = &both)),
            PAWL_OK);
    fixture_poll(s, both.other);
    fixture_poll(s, p); /* a node from here on: it owns what it starts */
    fixture_start(s, p, "one_call", "one", "1");
    fixture_start(s, p, "one_call", "two", "2");
    for (int i = 0; rc == PAWL_OK && i < 100; i++)
        rc = pawl_poll(p, NULL);
    FIXTURE_CODE(s, p, rc, PAWL_FENCED);
    FIXTURE_DONE(s, both.other, "one", "1");
    FIXTURE_DONE(s, both.other, "two", "2");
    assert_int_equal(fixture_count(s, "one"), 2);
    assert_int_equal(fixture_count(s, "two"), 1);
    pawl_close(p);
    pawl_close(both.other);
    fixture_free(s);
}

/* The first time the function takes longer than its node may be silent. */
static const char *late_call(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    if (atomic_fetch_add(fixture_number(s, EXECUTED), 1) == 0)
        fixture_advance(s, SILENCE_MS);
    return FIXTURE_ECHO(run, "call", input);
}

/* Nothing was committed in between from which the node could have heard: only its clock tells. */
static void a_late_node_calls_nothing_more(conf *c)
{
    FIXTURE_BY_HAND(); /* what a poll calls */
    if (c->promises & DB_FILE)
        skip(); /* there the kernel says which process lives */
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL), *other = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, late_call);
    FIXTURE_REGISTER(s, other, late_call);
    fixture_poll(s, other);
    fixture_poll(s, p); /* a node from here on: it owns what it starts */
    fixture_start(s, p, "late_call", "run", "1");
    FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_OK);
    assert_int_equal(atomic_load(fixture_number(s, EXECUTED)), 1);
    FIXTURE_NOTES(s, "");
    FIXTURE_DONE(s, other, "run", "1");
    FIXTURE_NOTES(s, "call");
    pawl_close(p);
    pawl_close(other);
    fixture_free(s);
}

/* ---- Often ---- */

/* Nodes that have gone are not in the way of finding what the last of them has left. */
static void a_run_on_many_processes_that_begin_and_end(conf *c)
{
    engine_fixture *s = fixture_new(c);
    for (int i = 0; i < 70; i++) {
        pawl *p = fixture_open(s, NULL);
        fixture_poll(s, p);
        pawl_close(p);
    }
    pawl *p = open_flow(s);
    fixture_start(s, p, "flow", "run", "0");
    fixture_poll(s, p);
    pawl_close(p);
    p = open_flow(s);
    FIXTURE_DONE(s, p, "run", "3");
    pawl_close(p);
    fixture_free(s);
}

#define PROCESSES (DB_DURABLE | DB_SHARED)

static const conf_case CASES[] = {
    {"dx-recovery ys-Y47 killed anywhere", killed_anywhere, PROCESSES},
    {"dx-recovery a start outlives its process", a_start_outlives_its_process, PROCESSES},
    {"dx-reliability attempts are counted over deaths", attempts_are_counted_over_deaths,
     PROCESSES},
    {"dx-recovery only what was in flight is done twice", only_what_was_in_flight_is_done_twice,
     PROCESSES},
    {"two processes share the work", two_processes_share_the_work, PROCESSES},
    {"dx-reliability the other one takes over", the_other_one_takes_over, PROCESSES},
    {"dx-reliability a silent node commits nothing", a_silent_node_commits_nothing, PROCESSES},
    {"dx-reliability a silent node calls nothing more", a_silent_node_calls_nothing_more,
     PROCESSES},
    {"dx-reliability a late node calls nothing more", a_late_node_calls_nothing_more, PROCESSES},
    {"a run on many processes that begin and end", a_run_on_many_processes_that_begin_and_end,
     DB_DURABLE | DB_FILE}, /* it takes long elsewhere */
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
