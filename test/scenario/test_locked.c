/* Somebody else's transaction keeps the row of one run locked, on a server. The other runs of the
 * node go on meanwhile, and the run itself does when the lock is gone; nothing is executed twice.
 *
 * Where one transaction writes at a time there is no lock of one row: who has the database has all
 * of it. So this is about PostgreSQL only. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "handle/handle.h"
#include "support/outbox_fixture.h"
#include "support/served_fixture.h"

enum { OTHERS = 30, GO = 0, WAITED = 1, ENDED = 2, PASSED = 3, MOVED = 4 };

/* Notes what it was given, and for the run that is to be locked waits until that is so. */
static const char *note_input(pawl_work *work, const char *input)
{
    stage *s = pawl_work_arg(work);
    stage_note(s, "%s", input);
    if (strstr(input, "victim"))
        TMP_AWAIT(atomic_load(stage_number(s, GO)));
    return input;
}

static const char *walk(pawl_run *run, const char *input)
{
    for (int i = 0; i < 3; i++) {
        const char *what = pawl_json(run, "{'of':%j,'step':%d}", input, i);
        pawl_step(run, "note", note_input, what, PAWL_CALL(.arg = pawl_arg(run)));
    }
    return input;
}

/* Lock waits that the log tells of, with the run's id. */
static void listen(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    stage *s = arg;
    if (strcmp(event, "lock-wait") == 0 && strstr(fields, "run=victim"))
        atomic_fetch_add(stage_number(s, WAITED), 1);
    if (strcmp(event, "lock-wait-ended") == 0 && strstr(fields, "run=victim"))
        atomic_fetch_add(stage_number(s, ENDED), 1);
    if (strcmp(event, "outbox-waits") == 0 && strstr(fields, "run=victim"))
        atomic_fetch_add(stage_number(s, PASSED), 1);
    if (strcmp(event, "outbox-waits-ended") == 0 && strstr(fields, "run=victim"))
        atomic_fetch_add(stage_number(s, MOVED), 1);
}

static app *lock_victim(const conf *c)
{
    app *a = app_open(c);
    app_do(a, "BEGIN");
    app_do(a, "SELECT run FROM pawl.runs WHERE id = 'victim' FOR UPDATE");
    return a;
}

static void unlock(app *a)
{
    app_do(a, "ROLLBACK");
    app_close(a);
}

static void start_others(stage *s, pawl *p)
{
    for (int i = 0; i < OTHERS; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "other-%d", i);
        snprintf(input, sizeof input, "\"other-%d\"", i);
        stage_start(s, p, "walk", id, input);
    }
}

static int others_are_done(stage *s, pawl *p)
{
    for (int i = 0; i < OTHERS; i++) {
        char id[32];
        snprintf(id, sizeof id, "other-%d", i);
        if (stage_phase(s, p, id) != PAWL_RUN_DONE)
            return 0;
    }
    return 1;
}

static void expect_once(stage *s)
{
    for (int i = -1; i < OTHERS; i++) {
        for (int step = 0; step < 3; step++) {
            char line[64], id[32];
            snprintf(id, sizeof id, i < 0 ? "victim" : "other-%d", i);
            snprintf(line, sizeof line, "{\"of\":\"%s\",\"step\":%d}", id, step);
            if (stage_count(s, line) != 1)
                fail_msg("%s: executed %d times", line, stage_count(s, line));
        }
    }
}

/* The run is being executed when its row is locked: what it has done cannot be recorded. */
static void a_run_that_is_being_executed(conf *c)
{
    served v = {.stage = stage_new(c)};
    stage *s = v.stage;
    stage_go(s);
    v.p = stage_open(s, PAWL_OPTIONS(.threads = 2, .log = listen, .log_arg = s));
    STAGE_REGISTER(s, v.p, walk);
    served_begin(&v);
    stage_start(s, v.p, "walk", "victim", "\"victim\"");
    TMP_AWAIT(stage_count(s, "{\"of\":\"victim\",\"step\":0}") == 1);
    app *a = lock_victim(c);
    atomic_store(stage_number(s, GO), 1);
    start_others(s, v.p);
    TMP_AWAIT(others_are_done(s, v.p));
    assert_int_equal(stage_phase(s, v.p, "victim"), PAWL_RUN_LIVE);
    TMP_AWAIT(atomic_load(stage_number(s, WAITED)) == 1);
    assert_int_equal(atomic_load(stage_number(s, ENDED)), 0);
    unlock(a);
    TMP_AWAIT(stage_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    assert_int_equal(atomic_load(stage_number(s, WAITED)), 1);
    TMP_AWAIT(atomic_load(stage_number(s, ENDED)) == 1);
    expect_once(s);
    served_end(&v);
}

/* The run is nobody's, and its claim meets the lock: the node goes on claiming others. */
static void a_run_that_is_to_be_claimed(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2));
    stage *s = v.stage;
    pawl *client = stage_open(s, NULL);
    STAGE_REGISTER(s, v.p, walk);
    atomic_store(stage_number(s, GO), 1);
    stage_start(s, client, "walk", "victim", "\"victim\"");
    app *a = lock_victim(c);
    start_others(s, client);
    served_begin(&v);
    TMP_AWAIT(others_are_done(s, v.p));
    stage_start(s, client, "walk", "late", "\"late\""); /* the keeper still looks for what is due */
    TMP_AWAIT(stage_phase(s, v.p, "late") == PAWL_RUN_DONE);
    assert_int_equal(stage_phase(s, v.p, "victim"), PAWL_RUN_LIVE);
    assert_int_equal(stage_count(s, "{\"of\":\"victim\",\"step\":0}"), 0);
    unlock(a);
    TMP_AWAIT(stage_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    expect_once(s);
    pawl_close(client);
    served_end(&v);
}

/* A client's message to the run is told BUSY; one to another run is not held up. */
static void messages_to_it_and_to_others(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2, .busy_ms = 200));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, walk);
    stage_start(s, v.p, "walk", "victim", "\"victim\"");
    stage_start(s, v.p, "walk", "friend", "\"friend\"");
    app *a = lock_victim(c);
    served_begin(&v);
    STAGE_CODE(s, v.p, pawl_send(v.p, "victim", "box", "1", NULL), PAWL_BUSY);
    TMP_AWAIT(stage_phase(s, v.p, "friend") == PAWL_RUN_DONE);
    unlock(a);
    atomic_store(stage_number(s, GO), 1);
    TMP_AWAIT(stage_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    served_end(&v);
}

/* The lock is there until the stop has returned, so that it is not the lock's end that ends it. */
static void stopping_while_it_is_locked(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2, .drain_ms = 200));
    stage *s = v.stage;
    STAGE_REGISTER(s, v.p, walk);
    served_begin(&v);
    stage_start(s, v.p, "walk", "victim", "\"victim\"");
    TMP_AWAIT(stage_count(s, "{\"of\":\"victim\",\"step\":0}") == 1);
    app *a = lock_victim(c);
    atomic_store(stage_number(s, GO), 1);
    served_stop(&v);
    assert_int_equal(stage_phase(s, v.p, "victim"), PAWL_RUN_LIVE);
    unlock(a);
    served_begin(&v);
    TMP_AWAIT(stage_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    served_end(&v);
}

static int why_tells(pawl *p, const char *id)
{
    char *text;
    assert_int_equal(pawl_why(p, id, &text), PAWL_OK);
    int tells = strstr(text, "Another transaction keeps its row locked, in process ") != NULL;
    pawl_free(text);
    return tells;
}

/* pawl_why() tells of the lock whoever asks, and only while it is there. */
static void why_tells_of_it(conf *c)
{
    served v = served_open(c, PAWL_OPTIONS(.threads = 2));
    stage *s = v.stage;
    pawl *client = stage_open(s, PAWL_OPTIONS(.look_only = 1));
    STAGE_REGISTER(s, v.p, walk);
    served_begin(&v);
    stage_start(s, v.p, "walk", "victim", "\"victim\"");
    stage_start(s, v.p, "walk", "friend", "\"victim's friend\"");
    TMP_AWAIT(stage_count(s, "{\"of\":\"victim\",\"step\":0}") == 1);
    assert_false(why_tells(v.p, "victim"));
    app *a = lock_victim(c);
    TMP_AWAIT(why_tells(v.p, "victim"));
    assert_true(why_tells(client, "victim"));
    assert_false(why_tells(client, "friend"));
    unlock(a);
    TMP_AWAIT(!why_tells(client, "victim"));
    atomic_store(stage_number(s, GO), 1);
    TMP_AWAIT(stage_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    pawl_close(client);
    served_end(&v);
}

/* ---- What is in the outbox for it ---- */

static const char *receiver(pawl_run *run, const char *input)
{
    const char *first, *second;
    (void)input;
    pawl_receive(run, "box", PAWL_FOREVER, &first);
    pawl_receive(run, "box", PAWL_FOREVER, &second);
    return pawl_json(run, "[%j,%j]", first, second);
}

/* A node passes over what is for the locked run, and tries it again. Everything else is moved. */
static void a_node_moves_what_is_for_others(conf *c)
{
    served v = {.stage = stage_new(c)};
    stage *s = v.stage;
    stage_go(s);
    v.p = stage_open(s, PAWL_OPTIONS(.threads = 2, .log = listen, .log_arg = s));
    STAGE_REGISTER(s, v.p, receiver);
    STAGE_REGISTER(s, v.p, walk);
    stage_start(s, v.p, "receiver", "victim", "1");
    stage_start(s, v.p, "receiver", "friend", "1");
    app *locker = lock_victim(c);
    scene x = {s, v.p, app_open(c)};
    served_begin(&v);
    BEGIN(x);
    SEND_IN(x, "victim", "1", NULL, PAWL_OK);
    SEND_IN(x, "friend", "1", NULL, PAWL_OK);
    SEND_IN(x, "victim", "2", NULL, PAWL_OK);
    SEND_IN(x, "friend", "2", NULL, PAWL_OK);
    START_IN(x, "walk", "new", "\"new\"", PAWL_OK);
    COMMIT(x);
    TMP_AWAIT(stage_phase(s, v.p, "friend") == PAWL_RUN_DONE);
    TMP_AWAIT(LEFT(x) == 2 && stage_phase(s, v.p, "new") == PAWL_RUN_DONE);
    TMP_AWAIT(atomic_load(stage_number(s, PASSED)) == 1);
    assert_int_equal(atomic_load(stage_number(s, MOVED)), 0);
    unlock(locker);
    TMP_AWAIT(stage_phase(s, v.p, "victim") == PAWL_RUN_DONE);
    TMP_AWAIT(atomic_load(stage_number(s, MOVED)) == 1);
    assert_int_equal(atomic_load(stage_number(s, PASSED)), 1);
    app_close(x.a);
    served_stop(&v);
    STAGE_DONE(s, v.p, "victim", "[1,2]");
    STAGE_DONE(s, v.p, "friend", "[1,2]");
    pawl_close(v.p);
    stage_free(s);
}

/* The log is told of the end also when it was somebody else who has moved the rows. */
static void another_mover_takes_them(conf *c)
{
    served v = {.stage = stage_new(c)};
    stage *s = v.stage;
    stage_go(s);
    v.p = stage_open(s, PAWL_OPTIONS(.threads = 2, .log = listen, .log_arg = s));
    STAGE_REGISTER(s, v.p, receiver);
    stage_start(s, v.p, "receiver", "victim", "1");
    app *locker = lock_victim(c);
    scene x = {s, v.p, app_open(c)};
    served_begin(&v);
    BEGIN(x);
    SEND_IN(x, "victim", "1", NULL, PAWL_OK);
    COMMIT(x);
    TMP_AWAIT(atomic_load(stage_number(s, PASSED)) == 1);
    conf_script(handle_db(v.p), "DELETE FROM {outbox}");
    TMP_AWAIT(atomic_load(stage_number(s, MOVED)) == 1);
    unlock(locker);
    app_close(x.a);
    served_end(&v);
}

enum { LETTERS = 1100 };

static void send_letters(scene *x)
{
    char text[16];
    app_do(x->a, "BEGIN");
    for (int i = 1; i <= LETTERS; i++) {
        snprintf(text, sizeof text, "%d", i);
        SEND_IN(*x, "victim", text, i % 3 ? NULL : text, PAWL_OK);
        if (i % 100 == 0)
            SEND_IN(*x, "friend", text, NULL, PAWL_OK);
    }
    app_do(x->a, "COMMIT");
}

/* pawl_outbox_flush() moves all other rows, more than a page of them, and answers that some were
 * left. */
static void a_kick_leaves_what_is_locked(conf *c)
{
    scene x = {.s = stage_new(c), .a = app_open(c)};
    stage_go(x.s);
    x.p = stage_open(x.s, PAWL_OPTIONS(.threads = 1));
    stage_start(x.s, x.p, "receiver", "victim", "1");
    stage_start(x.s, x.p, "receiver", "friend", "1");
    send_letters(&x);
    app *locker = lock_victim(c);
    STAGE_CODE(x.s, x.p, pawl_outbox_flush(x.p), PAWL_BUSY);
    assert_non_null(strstr(pawl_errdetail(x.p), "victim"));
    assert_int_equal(LEFT(x), LETTERS);
    assert_int_equal(MESSAGES(x), LETTERS / 100);
    unlock(locker);
    KICK(x);
    assert_int_equal(LEFT(x), 0);
    assert_int_equal(MESSAGES(x), LETTERS + LETTERS / 100);
    assert_int_equal(
        app_number(x.a, "SELECT count(*) FROM pawl.inbox AS i JOIN pawl.runs AS r ON r.run = i.run"
                        " WHERE r.id = 'victim' AND convert_from(i.data, 'UTF8')::bigint = i.seq"),
        LETTERS);
    app_close(x.a);
    pawl_close(x.p);
    stage_free(x.s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a run that is being executed", a_run_that_is_being_executed, 0},
        {"a run that is to be claimed", a_run_that_is_to_be_claimed, 0},
        {"messages to it and to others", messages_to_it_and_to_others, 0},
        {"stopping while it is locked", stopping_while_it_is_locked, 0},
        {"why tells of it", why_tells_of_it, 0},
        {"a node moves what is for others", a_node_moves_what_is_for_others, 0},
        {"another mover takes them", another_mover_takes_them, 0},
        {"a kick leaves what is locked", a_kick_leaves_what_is_locked, 0},
    };
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
