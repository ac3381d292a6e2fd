/* Dormant runs: with room for no warm run at all, a run that falls asleep leaves memory and stays
 * owned. It comes back when it is due, when something arrives for it, when it is cancelled, held or
 * finished, and with another node when its own has left. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "handle/handle.h"
#include "sched/sched.h"
#include "support/served_fixture.h"

/* More than are given back one by one, than a page has, and than become ready at a time. */
enum { SLEEPERS = 3000, SLEEP_MS = 60000 };

/* By hand, and with room for no fiber that waits. */
#define TINY PAWL_OPTIONS(.threads = -1, .warm_bytes = 1)

static const char *sleeping(pawl_run *run, const char *input)
{
    pawl_sleep(run, pawl_get_int(input, "", 0));
    fixture_note(pawl_arg(run), "%s", input);
    return input;
}

static const char *hearing(pawl_run *run, const char *input)
{
    const char *message = NULL;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    return message ? message : input;
}

static const char *asking(pawl_run *run, const char *input)
{
    pawl_future *f = pawl_child_later(run, "sleeping", input, NULL);
    return pawl_await(run, f);
}

static pawl *open_tiny(engine_fixture *s)
{
    pawl *p = fixture_open(s, TINY);
    FIXTURE_REGISTER(s, p, sleeping);
    FIXTURE_REGISTER(s, p, hearing);
    FIXTURE_REGISTER(s, p, asking);
    return p;
}

static int64_t in_memory(pawl *p)
{
    return sched_run_count(handle_sched(p));
}

static void start_sleepers(engine_fixture *s, pawl *p, int count)
{
    for (int i = 0; i < count; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", SLEEP_MS + i % 7);
        fixture_start(s, p, "sleeping", id, input);
        if (i % 256 == 0)
            fixture_poll(s, p);
    }
    fixture_poll(s, p);
}

static void sleeping_runs_take_no_memory(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    fixture_poll(s, p);
    start_sleepers(s, p, SLEEPERS);
    assert_int_equal(in_memory(p), 0);
    fixture_advance(s, SLEEP_MS - 5000);
    fixture_poll(s, p);
    assert_int_equal(fixture_count(s, "60000"), 0);
    for (int i = 0; i < SLEEPERS; i++) {
        char id[32], value[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(value, sizeof value, "%d", SLEEP_MS + i % 7);
        FIXTURE_DONE(s, p, id, value);
    }
    assert_int_equal(fixture_count(s, "60000"), (SLEEPERS + 6) / 7);
    assert_int_equal(in_memory(p), 0);
    pawl_close(p);
    fixture_free(s);
}

/* Each of them is due at a time of its own, and wakes at that time. */
static void each_dormant_run_wakes_at_its_time(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    fixture_poll(s, p);
    fixture_start(s, p, "sleeping", "late", "4000");
    fixture_start(s, p, "sleeping", "early", "2000");
    fixture_poll(s, p);
    fixture_start(s, p, "sleeping", "middle", "3000");
    fixture_poll(s, p);
    assert_int_equal(in_memory(p), 0);
    fixture_advance(s, 1999);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "");
    fixture_advance(s, 1);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "2000");
    fixture_advance(s, 1000);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "2000 3000");
    FIXTURE_DONE(s, p, "late", "4000");
    pawl_close(p);
    fixture_free(s);
}

static void a_message_brings_a_dormant_run_back(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    fixture_poll(s, p);
    fixture_start(s, p, "hearing", "one", "0");
    fixture_start(s, p, "hearing", "two", "0");
    fixture_poll(s, p);
    assert_int_equal(in_memory(p), 0);
    FIXTURE_CODE(s, p, pawl_send(p, "two", "box", "7", NULL), PAWL_OK);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "two"), PAWL_RUN_DONE); /* no time has passed */
    FIXTURE_DONE(s, p, "two", "7");
    assert_int_equal(in_memory(p), 0);
    FIXTURE_CODE(s, p, pawl_cancel(p, "one", "not wanted"), PAWL_OK);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "one"), PAWL_RUN_CANCELLED);
    pawl_close(p);
    fixture_free(s);
}

static void a_message_of_another_process_brings_a_dormant_run_back(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s), *client = fixture_open(s, NULL);
    fixture_poll(s, p);
    fixture_start(s, p, "hearing", "run", "0");
    fixture_poll(s, p);
    assert_int_equal(in_memory(p), 0);
    FIXTURE_CODE(s, client, pawl_send(client, "run", "box", "7", NULL), PAWL_OK);
    for (int i = 0; i < 3; i++) { /* sooner than all rows are read again */
        fixture_advance(s, 1000);
        fixture_poll(s, p);
    }
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_DONE);
    FIXTURE_DONE(s, p, "run", "7");
    pawl_close(client);
    pawl_close(p);
    fixture_free(s);
}

static void the_end_of_a_child_brings_its_parent_back(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    fixture_poll(s, p);
    fixture_start(s, p, "asking", "parent", "60000");
    fixture_poll(s, p);
    FIXTURE_DONE(s, p, "parent", "60000");
    FIXTURE_NOTES(s, "60000");
    pawl_close(p);
    fixture_free(s);
}

/* A hold takes the run from its node, which has to read it for that; a release lets it sleep on. */
static void a_dormant_run_that_is_held_goes_on_after_its_release(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    fixture_poll(s, p);
    fixture_start(s, p, "sleeping", "run", "60000");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_hold(p, "run", "stop it"), PAWL_OK);
    fixture_poll(s, p);
    fixture_advance(s, 100000);
    fixture_poll(s, p);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "");
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "60000");
    FIXTURE_NOTES(s, "60000");
    pawl_close(p);
    fixture_free(s);
}

/* It was held by another process, and its time has come before its node has heard of that. */
static void a_dormant_run_that_another_process_holds_does_not_wake(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s), *client = fixture_open(s, NULL);
    fixture_poll(s, p);
    fixture_start(s, p, "sleeping", "run", "60000");
    fixture_poll(s, p);
    FIXTURE_CODE(s, client, pawl_hold(client, "run", "stop it"), PAWL_OK);
    fixture_advance(s, 60000);
    fixture_poll(s, p);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "");
    FIXTURE_CODE(s, client, pawl_release(client, "run"), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "60000");
    pawl_close(client);
    pawl_close(p);
    fixture_free(s);
}

/* A run that waits for ever is due never: looks are seldom. */
static void an_idle_node_looks_seldom(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    fixture_poll(s, p);
    fixture_start(s, p, "hearing", "run", "0");
    fixture_poll(s, p);
    fixture_advance(s, 11000);
    fixture_poll(s, p);
    fixture_advance(s, 5);
    int64_t did = -1;
    FIXTURE_CODE(s, p, pawl_poll(p, &did), PAWL_OK);
    assert_int_equal(did, 0);
    assert_true(pawl_timeout(p) > 100);
    pawl_close(p);
    fixture_free(s);
}

static const char *with_a_late_child(pawl_run *run, const char *input)
{
    pawl_future *f = pawl_child_later(run, "sleeping", input, PAWL_CHILD(.id = "child"));
    return pawl_await(run, f);
}

/* The parent is dormant when pawl_finish() begins, and its child has no owner: it is claimed only
 * while its parent is in memory, as one that was never claimed. */
static void pawl_finish_brings_a_dormant_family_back(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    FIXTURE_REGISTER(s, p, with_a_late_child);
    fixture_poll(s, p);
    fixture_start(s, p, "with_a_late_child", "parent", "200000");
    for (int i = 0; i < 40; i++) {
        fixture_poll(s, p);
        fixture_advance(s, 2500);
    }
    assert_int_equal(in_memory(p), 0);
    conf_script(handle_db(p), "UPDATE {runs} SET owner = 0, claims = 0 WHERE id = 'child';");
    pawl_code rc = PAWL_TIMEOUT;
    for (int i = 0; rc == PAWL_TIMEOUT && i < 100; i++) {
        rc = pawl_finish(p, "parent", 0, NULL);
        fixture_advance(s, 2500);
    }
    FIXTURE_CODE(s, p, rc, PAWL_OK);
    FIXTURE_NOTES(s, "200000");
    pawl_close(p);
    fixture_free(s);
}

/* A line of the log stands behind the last recorded row: a replay must not write it again. */
static const char *logging(pawl_run *run, const char *input)
{
    pawl_future *f = pawl_receive_later(run, "box", 30000);
    pawl_log(run, 2, "waiting");
    pawl_await(run, f);
    return input;
}

static void count_lines(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)event;
    if (strstr(fields, "waiting"))
        atomic_fetch_add((atomic_int *)arg, 1);
}

static void a_line_of_the_log_is_written_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    atomic_int lines = 0;
    pawl *p = fixture_open(
        s, PAWL_OPTIONS(.threads = -1, .warm_bytes = 1, .log = count_lines, .log_arg = &lines));
    FIXTURE_REGISTER(s, p, logging);
    fixture_poll(s, p);
    fixture_start(s, p, "logging", "run", "1");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "another", "1", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "1");
    assert_int_equal(atomic_load(&lines), 1);
    pawl_close(p);
    fixture_free(s);
}

static void pawl_finish_brings_a_dormant_run_back(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    fixture_poll(s, p);
    fixture_start(s, p, "sleeping", "run", "60000");
    fixture_poll(s, p);
    fixture_advance(s, 60000);
    FIXTURE_CODE(s, p, pawl_finish(p, "run", 0, NULL), PAWL_OK);
    FIXTURE_NOTES(s, "60000");
    pawl_close(p);
    fixture_free(s);
}

static void close_and_go_on(conf *c, int count)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    fixture_poll(s, p);
    start_sleepers(s, p, count);
    assert_int_equal(in_memory(p), 0);
    pawl_close(p);
    p = open_tiny(s);
    FIXTURE_UNTIL(s, p, fixture_count(s, "60000") == (count + 6) / 7);
    FIXTURE_DONE(s, p, "run-1", "60001");
    pawl_close(p);
    fixture_free(s);
}

/* They are given back by their keys. */
static void another_node_goes_on_with_a_few_dormant_runs(conf *c)
{
    close_and_go_on(c, 3);
}

/* They are left to the closed node, and claimed from it. */
static void another_node_goes_on_with_many_dormant_runs(conf *c)
{
    close_and_go_on(c, 600);
}

/* The row is due at a time that a look has passed already, as after a release by a process whose
 * clock is behind: a look that begins at the first row finds it. */
static void a_dormant_run_that_became_due_in_the_past_is_found(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_tiny(s);
    fixture_poll(s, p);
    fixture_start(s, p, "sleeping", "run", "86400000");
    fixture_start(s, p, "sleeping", "other", "1000");
    FIXTURE_DONE(s, p, "other", "1000");
    fixture_advance(s, 5000);
    fixture_poll(s, p);
    conf_script(handle_db(p), "UPDATE {runs} SET wake_at = wake_at - 86399000 WHERE id = 'run';");
    for (int i = 0; i < 12; i++) {
        fixture_advance(s, 1000);
        fixture_poll(s, p);
    }
    assert_int_equal(in_memory(p), 0); /* it was brought back, and sleeps on until its own time */
    assert_true(fixture_wake_at(s, p, "run") > fixture_now(s) + 80000000);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Threads ---- */

enum { LISTENERS = 24, LETTERS = 12, SENDERS = 4 };

/* The letters have come in the order in which each sender has sent them, each of them once. */
static const char *counting(pawl_run *run, const char *input)
{
    int64_t sum = 0;
    for (int i = 0; i < LETTERS * SENDERS; i++) {
        const char *message = NULL;
        pawl_receive(run, "box", PAWL_FOREVER, &message);
        sum += pawl_get_int(message, "", 0);
        pawl_drop(run, message);
    }
    return sum == pawl_get_int(input, "", 0) ? input : pawl_fail(run, "sum", "%d", (int)sum);
}

typedef struct sender {
    engine_fixture *s;
    pawl *p;
    int number;
} sender;

static void *send_letters(void *arg)
{
    const sender *me = arg;
    for (int i = 0; i < LETTERS * LISTENERS; i++) {
        char id[32], message[32];
        snprintf(id, sizeof id, "run-%d", (i + 7 * me->number) % LISTENERS);
        snprintf(message, sizeof message, "%d", me->number + 1);
        FIXTURE_CODE(me->s, me->p, pawl_send(me->p, id, "box", message, NULL), PAWL_OK);
    }
    return NULL;
}

/* Runs leave memory all the time while messages come for them from several threads, and several
 * runners bring them back: each message is received once, and no run waits for ever. */
static void messages_of_many_threads_wake_dormant_runs(conf *c)
{
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 4, .warm_bytes = 1));
    engine_fixture *s = v.fixture;
    sender senders[SENDERS];
    pthread_t threads[SENDERS];
    FIXTURE_REGISTER(s, v.p, counting);
    served_begin(&v);
    for (int i = 0; i < LISTENERS; i++) {
        char id[32], sum[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(sum, sizeof sum, "%d", LETTERS * SENDERS * (SENDERS + 1) / 2);
        fixture_start(s, v.p, "counting", id, sum);
    }
    TMP_AWAIT(in_memory(v.p) == 0);
    for (int i = 0; i < SENDERS; i++) {
        senders[i] = (sender){s, v.p, i};
        assert_int_equal(pthread_create(&threads[i], NULL, send_letters, &senders[i]), 0);
    }
    for (int i = 0; i < SENDERS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < LISTENERS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        FIXTURE_CODE(s, v.p, pawl_wait(v.p, id, PAWL_FOREVER, NULL), PAWL_OK);
    }
    served_end(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"messages of many threads wake dormant runs", messages_of_many_threads_wake_dormant_runs,
         0},
        {"sleeping runs take no memory", sleeping_runs_take_no_memory, 0},
        {"each dormant run wakes at its time", each_dormant_run_wakes_at_its_time, 0},
        {"a message brings a dormant run back", a_message_brings_a_dormant_run_back, 0},
        {"a message of another process brings a dormant run back",
         a_message_of_another_process_brings_a_dormant_run_back, DB_SHARED},
        {"the end of a child brings its parent back", the_end_of_a_child_brings_its_parent_back, 0},
        {"a dormant run that is held goes on after its release",
         a_dormant_run_that_is_held_goes_on_after_its_release, 0},
        {"a dormant run that another process holds does not wake",
         a_dormant_run_that_another_process_holds_does_not_wake, DB_SHARED},
        {"an idle node looks seldom", an_idle_node_looks_seldom, 0},
        {"pawl_finish brings a dormant family back", pawl_finish_brings_a_dormant_family_back, 0},
        {"a line of the log is written once", a_line_of_the_log_is_written_once, 0},
        {"pawl_finish brings a dormant run back", pawl_finish_brings_a_dormant_run_back, 0},
        {"another node goes on with a few dormant runs",
         another_node_goes_on_with_a_few_dormant_runs, DB_SHARED},
        {"another node goes on with many dormant runs", another_node_goes_on_with_many_dormant_runs,
         DB_SHARED},
        {"a dormant run that became due in the past is found",
         a_dormant_run_that_became_due_in_the_past_is_found, 0},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
