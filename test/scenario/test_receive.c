/* Messages as the run that gets them sees it: in their order, each once, none lost, whatever
 * happens between the sender and the function. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <pawl_test.h>

#include "handle/handle.h"
#include "support/engine_fixture.h"
#include "support/scratch.h"

static void send_to(engine_fixture *s, pawl *p, const char *id, const char *mailbox,
                    const char *message)
{
    FIXTURE_CODE(s, p, pawl_send(p, id, mailbox, message, NULL), PAWL_OK);
}

static int64_t messages(pawl *p)
{
    static const db_sql COUNT = {"SELECT count(*) FROM {inbox} WHERE kind = 1", ""};
    return conf_number(handle_db(p), &COUNT, NULL, 0);
}

/* A list, and what it has got since. */
static const char *plus(pawl_run *run, const char *list, const char *value)
{
    return pawl_json(run, "[%j,%j]", list, value);
}

/* As many messages of "box" as the input says, in a line. */
static const char *collecting(pawl_run *run, const char *input)
{
    const char *message, *list = "0";
    for (int64_t i = pawl_get_int(input, "", 0); i > 0; i--) {
        if (pawl_receive(run, "box", PAWL_FOREVER, &message) != PAWL_OK)
            return "false";
        list = plus(run, list, message);
    }
    return list;
}

static pawl *open_with(engine_fixture *s, const char *name, pawl_workflow_fn *fn)
{
    pawl *p = fixture_open(s, NULL);
    fixture_register_work(s, p, "echo", fixture_echo);
    fixture_register(s, p, name, fn);
    return p;
}

#define OPEN_WITH(s, fn) open_with((s), #fn, (fn))

/* ---- In their order ---- */

static void in_the_order_of_arrival(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, collecting);
    fixture_start(s, p, "collecting", "run", "4");
    send_to(s, p, "run", "box", "1"); /* before it has begun */
    send_to(s, p, "run", "other", "9");
    send_to(s, p, "run", "box", "1"); /* equal ones are two */
    fixture_poll(s, p);
    send_to(s, p, "run", "box", "null");
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    send_to(s, p, "run", "box", "{\"a\":\"ä\"}");
    FIXTURE_DONE(s, p, "run", "[[[[0,1],1],null],{\"a\":\"ä\"}]");
    FIXTURE_HISTORY(s, p, "run",
                    "receive:box message receive:box message receive:box message"
                    " receive:box message");
    assert_int_equal(messages(p), 1);
    pawl_close(p);
    fixture_free(s);
}

static const char *sorting(pawl_run *run, const char *input)
{
    static const char *const BOXES[] = {"b", "a", "c"};
    const char *message, *list = "0";
    (void)input;
    pawl_sleep(run, 1000); /* they come meanwhile */
    for (int i = 0; i < 3; i++) {
        pawl_receive(run, BOXES[i], PAWL_FOREVER, &message);
        list = plus(run, list, message);
    }
    return list;
}

static void mailboxes_do_not_mix(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, sorting);
    fixture_start(s, p, "sorting", "run", "1");
    fixture_poll(s, p);
    send_to(s, p, "run", "a", "1");
    send_to(s, p, "run", "b", "2");
    send_to(s, p, "run", "a", "3");
    fixture_poll(s, p);
    send_to(s, p, "run", "c", "4");
    FIXTURE_DONE(s, p, "run", "[[[0,2],1],4]");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Several at once ---- */

/* The first comes first; a future that has lost takes nothing from the next. */
static const char *racing(pawl_run *run, const char *input)
{
    const char *list = "0", *message;
    (void)input;
    pawl_sleep(run, 1000);
    pawl_future *two[] = {pawl_receive_later(run, "a", PAWL_FOREVER),
                          pawl_receive_later(run, "b", PAWL_FOREVER)};
    int64_t first = pawl_any(run, two, 2, 0);
    list = plus(run, list, pawl_value(two[first]));
    list = plus(run, list, pawl_value(two[1 - first]) ? "true" : "false");
    pawl_receive(run, first ? "a" : "b", 0, &message);
    return plus(run, list, message);
}

static void a_future_that_has_lost_takes_nothing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, racing);
    fixture_start(s, p, "racing", "one", "1");
    fixture_start(s, p, "racing", "two", "1");
    fixture_poll(s, p);
    send_to(s, p, "one", "b", "1"); /* both are there when it looks */
    send_to(s, p, "one", "a", "2");
    send_to(s, p, "two", "a", "1");
    send_to(s, p, "two", "b", "2");
    FIXTURE_DONE(s, p, "one", "[[[0,1],false],2]");
    FIXTURE_DONE(s, p, "two", "[[[0,1],false],2]");
    FIXTURE_HISTORY(s, p, "one",
                    "sleep woken receive:a receive:b message future-cancel receive:a message");
    pawl_close(p);
    fixture_free(s);
}

static const char *two_waits(pawl_run *run, const char *input)
{
    (void)input;
    pawl_future *two[] = {pawl_receive_later(run, "box", PAWL_FOREVER),
                          pawl_receive_later(run, "box", PAWL_FOREVER),
                          pawl_receive_later(run, "box", PAWL_FOREVER)};
    pawl_future_cancel(run, two[1]); /* and it does not steal what comes next */
    pawl_await(run, two[2]);
    pawl_receive(run, "end", PAWL_FOREVER, NULL); /* the third message finds the run alive */
    return pawl_json(run, "[%j,%j]", pawl_await(run, two[0]), pawl_await(run, two[2]));
}

static void waits_and_messages_pair_in_order(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, two_waits);
    fixture_start(s, p, "two_waits", "run", "1");
    fixture_poll(s, p);
    send_to(s, p, "run", "box", "1");
    send_to(s, p, "run", "box", "2");
    send_to(s, p, "run", "box", "3");
    send_to(s, p, "run", "end", "4");
    FIXTURE_DONE(s, p, "run", "[1,2]");
    assert_int_equal(messages(p), 1);
    pawl_close(p);
    fixture_free(s);
}

static const char *event_or_work(pawl_run *run, const char *input)
{
    pawl_future *two[] = {pawl_call_later(run, "echo", input, NULL),
                          pawl_receive_later(run, "box", PAWL_FOREVER)};
    int64_t first = pawl_any(run, two, 2, 0);
    return pawl_json(run, "{'index':%" PRId64 ",'value':%j}", first, pawl_value(two[first]));
}

static void a_message_beats_work_and_work_a_message(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, event_or_work);
    fixture_start(s, p, "event_or_work", "one", "7");
    FIXTURE_DONE(s, p, "one", "{\"index\":0,\"value\":7}");
    fixture_start(s, p, "event_or_work", "two", "7");
    send_to(s, p, "two", "box", "8"); /* it is there before the work is handed out */
    FIXTURE_DONE(s, p, "two", "{\"index\":1,\"value\":8}");
    FIXTURE_NOTES(s, "echo");
    pawl_close(p);
    fixture_free(s);
}

/* Put there by one statement: how they come is tested elsewhere. */
static void fill(pawl *p, const char *mailbox, int64_t count)
{
    char text[600];
    snprintf(text, sizeof text,
             "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %lld)"
             " INSERT INTO {inbox} (run, seq, kind, name, at, data)"
             " SELECT r.run, r.mail + n.i, 1, '%s', 0, CAST(CAST(n.i - 1 AS TEXT) AS {BYTES})"
             " FROM {runs} r, n WHERE r.id = 'run';"
             "UPDATE {runs} SET mail = mail + %lld WHERE id = 'run';",
             (long long)count, mailbox, (long long)count);
    conf_script(handle_db(p), text);
}

/* ---- Time-outs ---- */

static const char *impatient(pawl_run *run, const char *input)
{
    const char *message = NULL;
    pawl_code code = pawl_receive(run, "box", pawl_get_int(input, "", -1), &message);
    pawl_sleep(run, 100);
    return pawl_json(run, "[%s,%j]", code == PAWL_OK ? "ok" : "timeout", message);
}

static void a_time_out_and_a_message(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, impatient);
    fixture_start(s, p, "impatient", "zero", "0");
    fixture_start(s, p, "impatient", "none", "1000");
    fixture_start(s, p, "impatient", "both", "1000");
    fixture_start(s, p, "impatient", "there", "0");
    send_to(s, p, "there", "box", "5");
    fixture_start(s, p, "impatient", "wrong", "-1");
    fixture_poll(s, p);
    fixture_advance(s, 1000);
    send_to(s, p, "both", "box", "6"); /* at the very moment */
    fixture_poll(s, p);
    send_to(s, p, "none", "box", "7"); /* and too late: it stays */
    FIXTURE_DONE(s, p, "zero", "[\"timeout\",null]");
    FIXTURE_DONE(s, p, "there", "[\"ok\",5]");
    FIXTURE_DONE(s, p, "none", "[\"timeout\",null]");
    FIXTURE_DONE(s, p, "both", "[\"ok\",6]");
    FIXTURE_HELD(s, p, "wrong", "negative");
    FIXTURE_HISTORY(s, p, "none", "receive:box woken sleep woken");
    assert_int_equal(messages(p), 1);
    pawl_close(p);
    fixture_free(s);
}

/* The message is there, and this node has not heard of it when the time is over. */
static void a_message_of_another_process_beats_the_time_out(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, impatient);
    fixture_start(s, p, "impatient", "run", "900");
    fixture_poll(s, p);
    fill(p, "box", 1);
    fixture_advance(s, 900);
    FIXTURE_DONE(s, p, "run", "[\"ok\",0]");
    pawl_close(p);
    fixture_free(s);
}

static void a_message_of_another_process_wakes_the_run(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, collecting), *other = fixture_open(s, NULL);
    fixture_start(s, p, "collecting", "run", "2");
    fixture_poll(s, p);
    for (int i = 1; i <= 2; i++) {
        int64_t began = fixture_now(s);
        send_to(s, other, "run", "box", i == 1 ? "1" : "2");
        FIXTURE_UNTIL(s, p, messages(p) == 0);
        assert_in_range(fixture_now(s) - began, 0, 1000);
    }
    FIXTURE_DONE(s, p, "run", "[[0,1],2]");
    pawl_close(other);
    pawl_close(p);
    fixture_free(s);
}

static const char *quick(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

/* The child ends meanwhile, on another thread. */
static const char *wait_for_both(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    pawl *p = (pawl *)(intptr_t)atomic_load(fixture_number(s, 0)); // NOLINT
    while (fixture_phase(s, p, "run/1.2") != PAWL_RUN_DONE)
        poll(NULL, 0, 1);
    send_to(s, p, "run", "box", "8");
    return input;
}

/* A result and a message are both there: the future that has lost takes nothing, whichever has
 * won. */
static const char *child_or_message(pawl_run *run, const char *input)
{
    const char *message;
    pawl_future *two[] = {pawl_child_later(run, "quick", input, NULL), NULL};
    FIXTURE_STEP(run, "wait", wait_for_both, input);
    two[1] = pawl_receive_later(run, "box", PAWL_FOREVER);
    int64_t first = pawl_any(run, two, 2, 0);
    pawl_receive(run, "box", 0, &message);
    return pawl_json(run, "[%" PRId64 ",%j]", first, message);
}

static void a_result_beside_a_message(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pthread_t server;
    pawl_outcome *o = NULL;
    fixture_run_clock(s);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 3));
    atomic_store(fixture_number(s, 0), (int64_t)(intptr_t)p);
    FIXTURE_REGISTER(s, p, quick);
    FIXTURE_REGISTER(s, p, child_or_message);
    assert_int_equal(pthread_create(&server, NULL, fixture_serve, p), 0);
    fixture_start(s, p, "child_or_message", "run", "7");
    FIXTURE_CODE(s, p, pawl_wait(p, "run", PAWL_FOREVER, &o), PAWL_OK);
    assert_string_equal(pawl_outcome_value(o), "[0,8]");
    pawl_outcome_free(o);
    pawl_stop(p);
    assert_int_equal(pthread_join(server, NULL), 0);
    pawl_close(p);
    fixture_free(s);
}

/* ---- The sender of a message ---- */

static const char *asking_who(pawl_run *run, const char *input)
{
    const char *message, *before = pawl_sender(run);
    (void)input;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    const char *first = pawl_sender(run);
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    return pawl_json(run, "[%s,%s,%s]", before, first, pawl_sender(run));
}

static void the_sender_is_recorded(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.name = "first"));
    pawl *other = fixture_open(s, PAWL_OPTIONS(.name = "second \"node\""));
    FIXTURE_REGISTER(s, p, asking_who);
    fixture_start(s, p, "asking_who", "run", "1");
    send_to(s, p, "run", "box", "1");
    send_to(s, other, "run", "box", "2");
    FIXTURE_DONE(s, p, "run", "[\"\",\"first\",\"second \\\"node\\\"\"]");
    pawl_close(other);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Restarts ---- */

/* It looks at one message per turn, by an engine of its own. */
static const char *slowly(pawl_run *run, const char *input)
{
    const char *message, *list = "0";
    for (int64_t i = pawl_get_int(input, "", 0); i > 0; i--) {
        pawl_receive(run, "box", PAWL_FOREVER, &message);
        list = plus(run, list, message);
        FIXTURE_ECHO(run, "use", message);
        pawl_sleep(run, 10);
    }
    return list;
}

static void nothing_is_lost_over_restarts(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, slowly);
    fixture_start(s, p, "slowly", "run", "3");
    for (int i = 0; i < 3; i++)
        send_to(s, p, "run", "box", i == 0 ? "1" : i == 1 ? "2" : "3");
    for (int i = 0; i < 6; i++) {
        fixture_poll(s, p);
        pawl_close(p);
        p = OPEN_WITH(s, slowly);
        fixture_advance(s, 10);
    }
    FIXTURE_DONE(s, p, "run", "[[[0,1],2],3]");
    FIXTURE_NOTES(s, "use use use");
    assert_int_equal(messages(p), 0);
    pawl_close(p);
    fixture_free(s);
}

static const char *quiet(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

static const char *using(pawl_run *run, const char *input)
{
    const char *message, *list = "0";
    for (int64_t i = pawl_get_int(input, "", 0); i > 0; i--) {
        if (pawl_receive(run, "box", 1000, &message) != PAWL_OK)
            return "false";
        list = plus(run, list, message);
        pawl_step(run, "use", quiet, message, NULL);
    }
    return list;
}

/* A crash at each write, between delivery and use too. */
static void nothing_is_lost_or_doubled_by_crashes(conf *c)
{
    int64_t writes = 1;
    (void)c;
    for (int64_t at = 0; at <= writes; at++) {
        pawl *p;
        pawl_test *t;
        pawl_outcome *end = NULL;
        assert_int_equal(pawl_test_open(&p, &t), PAWL_OK);
        assert_int_equal(pawl_register_workflow(p, "using", using, NULL), PAWL_OK);
        assert_int_equal(pawl_test_crash_at(t, at), PAWL_OK);
        assert_int_equal(pawl_start(p, "using", "run", "3", NULL), PAWL_OK);
        assert_int_equal(pawl_send(p, "run", "box", "1", NULL), PAWL_OK);
        assert_int_equal(pawl_send(p, "run", "box", "2", NULL), PAWL_OK);
        assert_int_equal(pawl_test_advance(t, 100), PAWL_OK);
        assert_int_equal(pawl_send(p, "run", "box", "3", NULL), PAWL_OK);
        assert_int_equal(pawl_test_finish(p, "run", &end), PAWL_OK);
        assert_string_equal(pawl_outcome_value(end), "[[[0,1],2],3]");
        writes = at == 0 ? pawl_test_writes(t) : writes;
        pawl_outcome_free(end);
        pawl_test_close(t);
        pawl_close(p);
    }
    assert_in_range(writes, 4, 100);
}

/* What it has got does not make it forget that it is cancelled, whatever it does before it waits
 * again. */
static const char *stubborn(pawl_run *run, const char *input)
{
    const char *message;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    pawl_tell(run, "nobody", "box", "1");
    pawl_tell(run, "witness", "box", "1");
    pawl_tell(run, "nobody", "box", "1");
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    return input;
}

static const char *witness(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_DAYS(1));
    return input;
}

static void a_cancel_beside_a_message_is_not_lost(conf *c)
{
    (void)c;
    for (int64_t at = 0; at <= 12; at++) {
        pawl *p;
        pawl_test *t;
        assert_int_equal(pawl_test_open(&p, &t), PAWL_OK);
        assert_int_equal(pawl_register_workflow(p, "stubborn", stubborn, NULL), PAWL_OK);
        assert_int_equal(pawl_register_workflow(p, "witness", witness, NULL), PAWL_OK);
        assert_int_equal(pawl_start(p, "witness", "witness", "1", NULL), PAWL_OK);
        assert_int_equal(pawl_start(p, "stubborn", "run", "1", NULL), PAWL_OK);
        assert_int_equal(pawl_test_advance(t, 100), PAWL_OK);
        assert_int_equal(pawl_test_crash_at(t, at), PAWL_OK);
        assert_int_equal(pawl_test_always_replay(t, at % 2 == 0), PAWL_OK);
        assert_int_equal(pawl_send(p, "run", "box", "1", NULL), PAWL_OK);
        assert_int_equal(pawl_cancel(p, "run", "enough"), PAWL_OK);
        assert_int_equal(pawl_test_finish(p, "run", NULL), PAWL_CANCELLED);
        pawl_test_close(t);
        pawl_close(p);
    }
}

/* ---- Many ---- */

static const char *counting(pawl_run *run, const char *input)
{
    int64_t count = pawl_get_int(input, "/count", 0), sum = 0;
    const char *message;
    for (int64_t i = 0; i < count; i++) {
        if (pawl_receive(run, "box", PAWL_FOREVER, &message) != PAWL_OK ||
            pawl_get_int(message, "", -1) != i)
            return "false";
        sum += pawl_get_int(message, "", 0);
        pawl_drop(run, message);
    }
    return pawl_json(run, "%" PRId64, sum);
}

/* A run that is replayed at each wait has enough to do with fewer. */
enum { MANY = FIXTURE_WARM ? 100000 : 10000 };

static void a_hundred_thousand_into_one_run(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, counting);
    char input[32], sum[32];
    snprintf(input, sizeof input, "{\"count\":%d}", MANY);
    snprintf(sum, sizeof sum, "%lld", (long long)MANY * (MANY - 1) / 2);
    fixture_start(s, p, "counting", "run", input);
    fill(p, "box", MANY);
    FIXTURE_DONE(s, p, "run", sum);
    assert_int_equal(messages(p), 0);
    pawl_close(p);
    fixture_free(s);
}

static double cpu_of(engine_fixture *s, pawl *p, const char *id)
{
    clock_t began = clock();
    for (int i = 0; i < 200; i++) {
        char number[32];
        snprintf(number, sizeof number, "%d", i);
        send_to(s, p, id, "box", number);
        fixture_poll(s, p);
    }
    FIXTURE_DONE(s, p, id, "19900");
    return (double)(clock() - began) / CLOCKS_PER_SEC;
}

/* The receive that they are for never comes: the others are as fast as without them. */
static void messages_that_are_not_received_cost_nothing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = OPEN_WITH(s, counting);
    fixture_start(s, p, "counting", "warm", "{\"count\":200}");
    fixture_start(s, p, "counting", "alone", "{\"count\":200}");
    fixture_start(s, p, "counting", "run", "{\"count\":200}");
    fixture_poll(s, p);
    int64_t many = scratch_number("PAWL_TEST_MESSAGES", MANY);
    fill(p, "nobody", many);
    cpu_of(s, p, "warm");
    double single = cpu_of(s, p, "alone"), among = cpu_of(s, p, "run");
    if (among > 5 * single + 0.2)
        fail_msg("alone it took %.3f s, among many %.3f s", single, among);
    assert_int_equal(messages(p), many);
    FIXTURE_CODE(s, p, pawl_delete(p, "run", 0), PAWL_OK);
    assert_int_equal(messages(p), 0);
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-X17 dx-Y20 dx-queue-events in the order of arrival", in_the_order_of_arrival, 0},
    {"dx-queue-events mailboxes do not mix", mailboxes_do_not_mix, 0},
    {"dx-queue-events dx-races a future that has lost takes nothing",
     a_future_that_has_lost_takes_nothing, 0},
    {"dx-Y18 dx-Y19 waits and messages pair in order", waits_and_messages_pair_in_order, 0},
    {"dx-X6 dx-X18 dx-X19 a message beats work, and work a message",
     a_message_beats_work_and_work_a_message, 0},
    {"dx-Y17 dx-races a time-out and a message", a_time_out_and_a_message, 0},
    {"a result beside a message", a_result_beside_a_message, 0},
    {"a message of another process beats the time-out",
     a_message_of_another_process_beats_the_time_out, 0},
    {"a message of another process wakes the run", a_message_of_another_process_wakes_the_run,
     DB_SHARED},
    {"the sender is recorded", the_sender_is_recorded, DB_SHARED},
    {"dx-queue-events nothing is lost over restarts", nothing_is_lost_over_restarts, DB_DURABLE},
    {"dx-queue-events nothing is lost or doubled by crashes", nothing_is_lost_or_doubled_by_crashes,
     0},
    {"a cancel beside a message is not lost", a_cancel_beside_a_message_is_not_lost, 0},
    {"a hundred thousand into one run", a_hundred_thousand_into_one_run, 0},
    {"messages that are not received cost nothing", messages_that_are_not_received_cost_nothing, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
