/* Messages and cancellations, as the sender sees them: what arrives, how often, and what the sender
 * is told when it cannot arrive. What a run does with it is looked at elsewhere; here the rows
 * are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"
#include "rows/run_units.h"
#include "support/engine_fixture.h"

static const char *waiting(pawl_run *run, const char *input)
{
    pawl_sleep(run, 1000);
    return input;
}

static pawl *open_one(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, waiting);
    return p;
}

/* ---- Rows ---- */

static int64_t number(pawl *p, const char *text)
{
    db_sql sql = {text, ""};
    return conf_number(handle_db(p), &sql, NULL, 0);
}

static int64_t messages(pawl *p)
{
    return number(p, "SELECT count(*) FROM {inbox} WHERE kind = 1");
}

static int64_t key_of(pawl *p, const char *id)
{
    static const db_sql KEY = {"SELECT run FROM {runs} WHERE id = $1", "t"};
    const db_value name[] = {db_text(slice_of(id))};
    return conf_number(handle_db(p), &KEY, name, 1);
}

static int64_t of_run(pawl *p, const char *id, const char *column)
{
    char text[200];
    db_sql sql = {text, "t"};
    const db_value name[] = {db_text(slice_of(id))};
    snprintf(text, sizeof text, "SELECT coalesce(%s, -1) FROM {runs} WHERE id = $1", column);
    return conf_number(handle_db(p), &sql, name, 1);
}

static int has_message(pawl *p, const char *id, int64_t seq, const char *mailbox, const char *data)
{
    static const db_sql HAS = {
        "SELECT count(*) FROM {inbox} AS i JOIN {runs} AS r ON r.run = i.run WHERE r.id = $1"
        " AND i.seq = $2 AND i.kind = 1 AND i.name = $3 AND i.data = $4 AND r.mail >= i.seq",
        "titb"};
    const db_value v[] = {db_text(slice_of(id)), db_int(seq), db_text(slice_of(mailbox)),
                          db_bytes(slice_of(data))};
    return conf_number(handle_db(p), &HAS, v, DB_COUNT(v)) == 1;
}

static int64_t send_as(engine_fixture *s, pawl *p, const char *id, const char *message,
                       const char *key, pawl_code wanted, int line)
{
    int64_t seq = 77;
    fixture_code(s, p, pawl_send(p, id, "box", message, PAWL_SEND(.key = key, .seq = &seq)), wanted,
                 line);
    return seq;
}

#define SEND(id, message, key, wanted) send_as(s, p, id, message, key, wanted, __LINE__)

/* ---- Messages ---- */

static void messages_are_numbered(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    fixture_start(s, p, "waiting", "a", "1");
    fixture_start(s, p, "waiting", "b", "1");
    assert_int_equal(SEND("a", "\"x\"", NULL, PAWL_OK), 1);
    assert_int_equal(SEND("a", "\"x\"", NULL, PAWL_OK), 2);
    assert_int_equal(SEND("b", "\"x\"", NULL, PAWL_OK), 1);
    FIXTURE_CODE(s, p, pawl_send(p, "a", "other", "{\"y\":2}", NULL), PAWL_OK);
    assert_true(has_message(p, "a", 1, "box", "\"x\""));
    assert_true(has_message(p, "a", 2, "box", "\"x\""));
    assert_true(has_message(p, "a", 3, "other", "{\"y\":2}"));
    assert_true(has_message(p, "b", 1, "box", "\"x\""));
    assert_int_equal(messages(p), 4);
    pawl_close(p);
    fixture_free(s);
}

static void a_run_that_is_not_there_gets_nothing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    pawl *other = fixture_open(s, PAWL_OPTIONS(.threads = -1, .tenant = "other"));
    fixture_start(s, p, "waiting", "mine", "1");
    assert_int_equal(SEND("nobody", "1", NULL, PAWL_NOTFOUND), 0);
    assert_int_equal(SEND("nobody", "1", "k", PAWL_NOTFOUND), 0);
    if (strcmp(c->backend, "memory") != 0) { /* there each handle is a world of its own */
        FIXTURE_CODE(s, other, pawl_send(other, "mine", "box", "1", NULL), PAWL_NOTFOUND);
        FIXTURE_CODE(s, other, pawl_cancel(other, "mine", NULL), PAWL_NOTFOUND);
    }
    FIXTURE_DONE(s, p, "mine", "1");
    assert_int_equal(SEND("mine", "1", NULL, PAWL_ENDED), 0);
    assert_int_equal(SEND("mine", "1", "k", PAWL_ENDED), 0);
    assert_int_equal(messages(p), 0);
    assert_int_equal(number(p, "SELECT count(*) FROM {receipts}"), 0);
    pawl_close(other);
    pawl_close(p);
    fixture_free(s);
}

static void a_key_delivers_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    fixture_start(s, p, "waiting", "a", "1");
    fixture_start(s, p, "waiting", "b", "1");
    assert_int_equal(SEND("a", "1", NULL, PAWL_OK), 1);
    assert_int_equal(SEND("a", "\"x\"", "k", PAWL_OK), 2);
    assert_int_equal(SEND("a", "\"x\"", "k", PAWL_OK), 2);
    assert_int_equal(SEND("a", "\"y\"", "k", PAWL_CONFLICT), 0);
    assert_true(pawl_errhint(p)[0]);
    assert_int_equal(SEND("a", "\"x\"", "K", PAWL_OK), 3);
    assert_int_equal(SEND("b", "\"y\"", "k", PAWL_OK), 1); /* each run has keys of its own */
    FIXTURE_CODE(s, p, pawl_send(p, "a", "other", "\"x\"", PAWL_SEND(.key = "k")), PAWL_CONFLICT);
    assert_int_equal(messages(p), 4);
    assert_int_equal(number(p, "SELECT max(mail) FROM {runs}"), 3);
    pawl_close(p);
    fixture_free(s);
}

/* Mailbox and message are told apart, wherever one of them ends. */
static void a_receipt_knows_the_mailbox(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    fixture_start(s, p, "waiting", "a", "1");
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box1", "23", PAWL_SEND(.key = "k")), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box12", "3", PAWL_SEND(.key = "k")), PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box1", "24", PAWL_SEND(.key = "k")), PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box1", "23", PAWL_SEND(.key = "k")), PAWL_OK);
    assert_int_equal(messages(p), 1);
    conf_script(handle_db(p), "UPDATE {receipts} SET kind = 2"); /* it was a redrive's */
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box1", "23", PAWL_SEND(.key = "k")), PAWL_CONFLICT);
    pawl_close(p);
    fixture_free(s);
}

/* Received, in an earlier generation, after the end: the answer stays. */
static void a_receipt_outlives_its_message(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    fixture_start(s, p, "waiting", "a", "1");
    assert_int_equal(SEND("a", "\"x\"", "k", PAWL_OK), 1);
    conf_script(handle_db(p), "DELETE FROM {inbox}; UPDATE {runs} SET generation = 2");
    assert_int_equal(SEND("a", "\"x\"", "k", PAWL_OK), 1);
    assert_int_equal(SEND("a", "\"y\"", "k", PAWL_CONFLICT), 0);
    conf_script(handle_db(p), "UPDATE {runs} SET generation = 1");
    FIXTURE_DONE(s, p, "a", "1");
    assert_int_equal(SEND("a", "\"x\"", "k", PAWL_OK), 1);
    assert_int_equal(SEND("a", "\"y\"", "k", PAWL_CONFLICT), 0);
    assert_int_equal(SEND("a", "\"x\"", "l", PAWL_ENDED), 0);
    assert_int_equal(messages(p), 0);
    pawl_close(p);
    fixture_free(s);
}

/* One message in each generation; the second one has both. */
static const char *pair(pawl_run *run, const char *input)
{
    const char *message;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    if (pawl_get_kind(input, "") == PAWL_NULL)
        return pawl_continue_as_new(run, message, NULL);
    return pawl_json(run, "[%j,%j]", input, message);
}

/* The same with a run that does receive them, and begins anew in between. */
static void a_key_after_its_message_was_received(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, pair);
    fixture_start(s, p, "pair", "a", "null");
    fixture_poll(s, p);
    assert_int_equal(SEND("a", "1", "k", PAWL_OK), 1);
    assert_int_equal(SEND("a", "1", "k", PAWL_OK), 1);
    FIXTURE_UNTIL(s, p, of_run(p, "a", "generation") == 2);
    assert_int_equal(messages(p), 0);
    assert_int_equal(SEND("a", "1", "k", PAWL_OK), 1);
    assert_int_equal(SEND("a", "2", "k", PAWL_CONFLICT), 0);
    fixture_poll(s, p);
    assert_int_equal(fixture_phase(s, p, "a"), PAWL_RUN_LIVE);
    assert_int_equal(SEND("a", "2", "l", PAWL_OK), 2);
    FIXTURE_DONE(s, p, "a", "[1,2]");
    FIXTURE_CODE(s, p, pawl_start(p, "pair", "a", "null", NULL), PAWL_OK); /* as it was begun */
    FIXTURE_CODE(s, p, pawl_start(p, "pair", "a", "1", NULL), PAWL_CONFLICT);
    pawl_close(p);
    fixture_free(s);
}

/* Another engine drives it, and hears of the message. */
static void a_message_from_another_engine(conf *c)
{
    pthread_t thread;
    pawl_outcome *end = NULL;
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 1));
    pawl *other = fixture_open(s, PAWL_OPTIONS(.threads = 1));
    FIXTURE_REGISTER(s, p, pair);
    assert_int_equal(pthread_create(&thread, NULL, fixture_serve, p), 0);
    fixture_start(s, other, "pair", "a", "null");
    FIXTURE_CODE(s, other, pawl_send(other, "a", "box", "1", NULL), PAWL_OK);
    TMP_AWAIT(of_run(other, "a", "generation") == 2);
    FIXTURE_CODE(s, other, pawl_send(other, "a", "box", "2", NULL), PAWL_OK);
    FIXTURE_CODE(s, other, pawl_wait(other, "a", PAWL_FOREVER, &end), PAWL_OK);
    assert_string_equal(pawl_outcome_value(end), "[1,2]");
    pawl_outcome_free(end);
    pawl_stop(p);
    void *wrong;
    pthread_join(thread, &wrong);
    assert_null(wrong);
    pawl_close(other);
    pawl_close(p);
    fixture_free(s);
}

/* ---- A message that starts its run ---- */

static void a_message_starts_its_run(conf *c)
{
    char large[4000];
    int64_t seq = 0, created = 77;
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    memset(large, ' ', sizeof large);
    large[0] = '5';
    large[sizeof large - 1] = '\0';
#define WITH(input, the_key)                                                                       \
    PAWL_SEND(.key = the_key, .seq = &seq, .start = "waiting", .start_input = input,               \
              .start_options = PAWL_START(.created = &created, .attributes = "{\"a\":1}"))
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box", "1", WITH(large, "k")), PAWL_OK);
    assert_int_equal(seq, 1);
    assert_int_equal(created, 1);
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box", "1", WITH(large, "k")), PAWL_OK);
    assert_int_equal(seq, 1);
    assert_int_equal(created, 0);
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box", "2", WITH("6", NULL)), PAWL_OK);
    assert_int_equal(seq, 2);
    assert_int_equal(created, 0);
    FIXTURE_CODE(s, p, pawl_send(p, "b", "box", "3", WITH("6", NULL)), PAWL_OK);
    assert_int_equal(created, 1);
    assert_true(has_message(p, "a", 1, "box", "1"));
    assert_true(has_message(p, "a", 2, "box", "2"));
    assert_true(has_message(p, "b", 1, "box", "3"));
    assert_int_equal(number(p, "SELECT count(*) FROM {attributes}"), 2);
    FIXTURE_CODE(s, p, pawl_start(p, "waiting", "a", large, NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_start(p, "waiting", "a", "6", NULL), PAWL_CONFLICT);
    FIXTURE_DONE(s, p, "b", "6");
    FIXTURE_DONE(s, p, "a", large);
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box", "1", WITH(large, "k")), PAWL_OK);
    assert_int_equal(seq, 1);
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box", "1", WITH(large, NULL)), PAWL_ENDED);
    assert_int_equal(seq, 0);
#undef WITH
    pawl_close(p);
    fixture_free(s);
}

/* Neither the run nor the message is there if one of them cannot be. */
static void a_start_that_is_wrong_starts_nothing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
#define WRONG(code, ...)                                                                           \
    FIXTURE_CODE(s, p, pawl_send(p, "a", "box", "1", PAWL_SEND(__VA_ARGS__)), code)
    WRONG(PAWL_INVALID, .start = "waiting");
    WRONG(PAWL_INVALID, .start_input = "1");
    WRONG(PAWL_INVALID, .start = "", .start_input = "1");
    WRONG(PAWL_INVALID, .start = "pawl.x", .start_input = "1");
    WRONG(PAWL_INVALID, .start = "waiting", .start_input = "[");
    WRONG(PAWL_INVALID, .start = "waiting", .start_input = "1",
          .start_options = PAWL_START(.delay_ms = -1));
    WRONG(PAWL_INVALID, .start = "waiting", .start_input = "1",
          .start_options = PAWL_START(.attributes = "[]"));
    WRONG(PAWL_INVALID, .start = "waiting", .start_input = "1",
          .start_options = &(pawl_start_options){.size = 3});
#undef WRONG
    assert_int_equal(number(p, "SELECT count(*) FROM {runs}"), 0);
    assert_int_equal(messages(p), 0);
    pawl_close(p);
    fixture_free(s);
}

/* A run that is to begin later does not begin for a message. */
static void a_delay_outlasts_a_message(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    FIXTURE_CODE(s, p, pawl_start(p, "waiting", "later", "1", PAWL_START(.delay_ms = 5000)),
                 PAWL_OK);
    int64_t wakes = fixture_wake_at(s, p, "later");
    assert_int_equal(SEND("later", "1", NULL, PAWL_OK), 1);
    assert_int_equal(fixture_wake_at(s, p, "later"), wakes);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Bad input ---- */

static void hostile_messages(conf *c)
{
    static char large[PAWL_MAX_PAYLOAD + 3], name[PAWL_MAX_ID + 2];
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(
        s); /* a busy server may take long for the large ones: the node waits for a minute */
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .claim_ms = 60000));
    FIXTURE_REGISTER(s, p, waiting);
    fixture_start(s, p, "waiting", "a", "1");
    memset(large, ' ', sizeof large - 1);
    large[0] = '1';
    memset(name, 'n', sizeof name - 1);
#define WRONG(code, id, mailbox, message, ...)                                                     \
    FIXTURE_CODE(s, p, pawl_send(p, id, mailbox, message, __VA_ARGS__), code);                     \
    assert_true(pawl_errmsg(p)[0])
    WRONG(PAWL_INVALID, NULL, "box", "1", NULL);
    WRONG(PAWL_INVALID, "\xff", "box", "1", NULL);
    WRONG(PAWL_LIMIT, name, "box", "1", NULL);
    WRONG(PAWL_NOTFOUND, "", "box", "1", NULL);
    WRONG(PAWL_INVALID, "a", NULL, "1", NULL);
    WRONG(PAWL_INVALID, "a", "", "1", NULL);
    WRONG(PAWL_INVALID, "a", "pawl.own", "1", NULL);
    WRONG(PAWL_INVALID, "a", "\xc3\x28", "1", NULL);
    WRONG(PAWL_LIMIT, "a", name + PAWL_MAX_ID - PAWL_MAX_NAME, "1", NULL);
    WRONG(PAWL_INVALID, "a", "box", NULL, NULL);
    WRONG(PAWL_INVALID, "a", "box", "", NULL);
    WRONG(PAWL_INVALID, "a", "box", "{", NULL);
    WRONG(PAWL_INVALID, "a", "box", "\"\\u0000\"", NULL);
    WRONG(PAWL_LIMIT, "a", "box", large, NULL);
    WRONG(PAWL_INVALID, "a", "box", "1", PAWL_SEND(.key = ""));
    WRONG(PAWL_INVALID, "a", "box", "1", PAWL_SEND(.key = "\xff"));
    WRONG(PAWL_LIMIT, "a", "box", "1", PAWL_SEND(.key = name));
    WRONG(PAWL_INVALID, "a", "box", "1", &(pawl_send_options){.size = 1});
    WRONG(PAWL_INVALID, NULL, "box", "1", NULL);
#undef WRONG
    assert_int_equal(pawl_send(NULL, "a", "box", "1", NULL), PAWL_INVALID);
    assert_int_equal(messages(p), 0);
    FIXTURE_CODE(s, p,
                 pawl_send(p, "a", name + 2 + PAWL_MAX_ID - PAWL_MAX_NAME - 1, "1",
                           PAWL_SEND(.key = name + 1)),
                 PAWL_OK);
    large[PAWL_MAX_PAYLOAD] = '\0';
    FIXTURE_CODE(s, p, pawl_send(p, "a", "'; DROP TABLE x; --", large, NULL), PAWL_OK);
    assert_int_equal(messages(p), 2);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Cancelling ---- */

static int64_t cancels(pawl *p, const char *reason)
{
    static const db_sql WITH = {"SELECT count(*) FROM {inbox} WHERE kind = 3 AND name = ''"
                                " AND coalesce(data, $1) = $1",
                                "b"};
    const db_value v[] = {db_bytes(slice_of(reason))};
    return conf_number(handle_db(p), &WITH, v, 1);
}

static void a_cancel_is_asked_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    FIXTURE_CODE(s, p, pawl_start(p, "waiting", "a", "1", PAWL_START(.delay_ms = 5000)), PAWL_OK);
    assert_int_equal(of_run(p, "a", "cancel_at"), -1);
    FIXTURE_CODE(s, p, pawl_cancel(p, "a", "too \"late\""), PAWL_OK);
    int64_t at = of_run(p, "a", "cancel_at");
    assert_int_equal(at, fixture_now(s));
    assert_int_equal(of_run(p, "a", "wake_at"), at); /* there is nothing to wait for any more */
    fixture_advance(s, 10);
    FIXTURE_CODE(s, p, pawl_cancel(p, "a", "again"), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_cancel(p, "a", NULL), PAWL_OK);
    assert_int_equal(of_run(p, "a", "cancel_at"), at);
    assert_int_equal(of_run(p, "a", "mail"), 1);
    assert_int_equal(cancels(p, "\"too \\\"late\\\"\""), 1);
    assert_int_equal(number(p, "SELECT count(*) FROM {inbox}"), 1);
    assert_int_equal(of_run(p, "a", "phase"), PHASE_LIVE);
    pawl_close(p);
    fixture_free(s);
}

static void a_cancel_without_a_reason(conf *c)
{
    static char name[PAWL_MAX_ID + 2];
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    memset(name, 'n', sizeof name - 1);
    fixture_start(s, p, "waiting", "a", "1");
    FIXTURE_CODE(s, p, pawl_cancel(p, "nobody", NULL), PAWL_NOTFOUND);
    FIXTURE_CODE(s, p, pawl_cancel(p, NULL, NULL), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_cancel(p, name, NULL), PAWL_LIMIT);
    FIXTURE_CODE(s, p, pawl_cancel(p, "a", name), PAWL_LIMIT);
    FIXTURE_CODE(s, p, pawl_cancel(p, "a", "\xff"), PAWL_INVALID);
    assert_int_equal(pawl_cancel(NULL, "a", NULL), PAWL_INVALID);
    assert_int_equal(number(p, "SELECT count(*) FROM {inbox}"), 0);
    FIXTURE_CODE(s, p, pawl_cancel(p, "a", NULL), PAWL_OK);
    assert_int_equal(number(p, "SELECT count(*) FROM {inbox} WHERE kind = 3 AND data IS NULL"), 1);
    pawl_close(p);
    fixture_free(s);
}

static void what_has_ended_is_not_cancelled(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    fixture_start(s, p, "waiting", "a", "1");
    FIXTURE_DONE(s, p, "a", "1");
    FIXTURE_CODE(s, p, pawl_cancel(p, "a", NULL), PAWL_ENDED);
    conf_script(handle_db(p), "UPDATE {runs} SET phase = 3, cancel_at = 1");
    FIXTURE_CODE(s, p, pawl_cancel(p, "a", NULL), PAWL_ENDED);
    assert_int_equal(number(p, "SELECT count(*) FROM {inbox}"), 0);
    pawl_close(p);
    fixture_free(s);
}

/* Held and without an owner: what there is to undo is undone without its code. Held while an engine
 * still drives it: that engine is told, and a second cancel, when the run has no owner, gets it
 * going. */
static void a_held_run_can_be_cancelled(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    fixture_start(s, p, "waiting", "a", "1");
    fixture_start(s, p, "waiting", "b", "1");
    FIXTURE_CODE(s, p, pawl_hold(p, "a", "because"), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_cancel(p, "a", "r"), PAWL_OK);
    assert_int_equal(of_run(p, "a", "phase"), PHASE_FAILING);
    assert_int_equal(of_run(p, "a", "held"), 0);
    assert_int_equal(of_run(p, "a", "wake_at"), fixture_now(s));
    conf_script(handle_db(p), "UPDATE {runs} SET held = 4, owner = 999, wake_at = NULL"
                              " WHERE id = 'b'");
    FIXTURE_CODE(s, p, pawl_cancel(p, "b", "r"), PAWL_OK);
    assert_int_equal(of_run(p, "b", "phase"), PHASE_LIVE);
    assert_int_equal(of_run(p, "b", "held"), 4);
    assert_int_equal(of_run(p, "b", "wake_at"), -1);
    assert_int_equal(of_run(p, "b", "mail"), 1);
    FIXTURE_CODE(s, p, pawl_cancel(p, "b", "r"), PAWL_OK);
    assert_int_equal(of_run(p, "b", "held"), 4);
    conf_script(handle_db(p), "UPDATE {runs} SET owner = 0 WHERE id = 'b'");
    FIXTURE_CODE(s, p, pawl_cancel(p, "b", "r"), PAWL_OK);
    assert_int_equal(of_run(p, "b", "phase"), PHASE_FAILING);
    assert_int_equal(of_run(p, "b", "held"), 0);
    assert_int_equal(of_run(p, "b", "mail"), 1);
    assert_int_equal(cancels(p, "\"r\""), 2);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Many ---- */

enum { SENDERS = 4, KEYS = 40 };

typedef struct sender {
    pawl *p;
    pthread_t thread;
    int64_t seqs[KEYS];
    int wrong;
    int64_t made;
} sender;

static void *send_keys(void *arg)
{
    sender *me = arg;
    char key[16];
    for (int i = 0; i < KEYS; i++) {
        int64_t created = 0;
        snprintf(key, sizeof key, "k%d", i);
        pawl_code rc = pawl_send(me->p, "a", "box", key + 1,
                                 PAWL_SEND(.key = key, .seq = &me->seqs[i], .start = "waiting",
                                           .start_input = "1",
                                           .start_options = PAWL_START(.created = &created)));
        me->wrong += rc != PAWL_OK;
        me->made += created;
    }
    return NULL;
}

/* All of them repeat what the others say, and all start the run. */
static void many_say_the_same(conf *c)
{
    engine_fixture *s = fixture_new(c);
    sender list[SENDERS] = {0};
    int shared = (c->promises & DB_SHARED) != 0;
    int64_t made = 0;
    fixture_run_clock(s);
    for (int i = 0; i < SENDERS; i++)
        list[i].p = i == 0 || shared ? fixture_open(s, PAWL_OPTIONS(.threads = 1)) : list[0].p;
    for (int i = 0; i < SENDERS; i++)
        assert_int_equal(pthread_create(&list[i].thread, NULL, send_keys, &list[i]), 0);
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(list[i].thread, NULL);
        assert_int_equal(list[i].wrong, 0);
        assert_memory_equal(list[i].seqs, list[0].seqs, sizeof list[0].seqs);
        made += list[i].made;
    }
    assert_int_equal(made, 1);
    assert_int_equal(messages(list[0].p), KEYS);
    assert_int_equal(of_run(list[0].p, "a", "mail"), KEYS);
    for (int i = SENDERS - 1; i >= 0; i--)
        if (i == 0 || shared)
            pawl_close(list[i].p);
    fixture_free(s);
}

enum { TRIES = 101, TRIES_MAX = 2000 };

/* What one message to this run costs, in ns. */
static int64_t cost(engine_fixture *s, pawl *p, const char *id, int i)
{
    char key[32];
    snprintf(key, sizeof key, "key-%d", i);
    int64_t before = clock_system()->mono_ns(clock_system());
    SEND(id, "1", key, PAWL_OK);
    return clock_system()->mono_ns(clock_system()) - before;
}

/* Two runs get messages in turn, one of them has a hundred thousand that were never received: both
 * feel the same load of the machine, so the cheapest message to each costs about the same. On a
 * busy machine it takes more of them until each has had an undisturbed one; a walk through all
 * that is there is never cheap. */
static void a_hundred_thousand_that_are_not_received(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_one(s);
    fixture_start(s, p, "waiting", "a", "1");
    fixture_start(s, p, "waiting", "b", "1");
    char text[500];
    snprintf(text, sizeof text,
             "INSERT INTO {inbox} (run, seq, kind, name, at) WITH RECURSIVE n(i) AS"
             " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000)"
             " SELECT %lld, 1000 + i, 1, 'box', 0 FROM n;"
             "UPDATE {runs} SET mail = 101000 WHERE id = 'a'",
             (long long)key_of(p, "a"));
    conf_script(handle_db(p), text);
    int64_t full = INT64_MAX, empty = INT64_MAX;
    int tries = 0;
    for (; tries < TRIES || (full > empty * 5 && tries < TRIES_MAX); tries++) {
        int64_t to_full = cost(s, p, "a", tries), to_empty = cost(s, p, "b", tries);
        full = to_full < full ? to_full : full;
        empty = to_empty < empty ? to_empty : empty;
    }
    if (full > empty * 5)
        fail_msg("a message costs %lld ns, and %lld after many", (long long)empty, (long long)full);
    assert_int_equal(messages(p), 100000 + 2 * tries);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"messages are numbered", messages_are_numbered, 0},
        {"a run that is not there gets nothing", a_run_that_is_not_there_gets_nothing, 0},
        {"a key delivers once", a_key_delivers_once, 0},
        {"a receipt knows the mailbox", a_receipt_knows_the_mailbox, 0},
        {"a receipt outlives its message", a_receipt_outlives_its_message, 0},
        {"a key after its message was received", a_key_after_its_message_was_received, 0},
        {"a message from another engine", a_message_from_another_engine, DB_SHARED},
        {"a message starts its run", a_message_starts_its_run, 0},
        {"a start that is wrong starts nothing", a_start_that_is_wrong_starts_nothing, 0},
        {"a delay outlasts a message", a_delay_outlasts_a_message, 0},
        {"hostile messages", hostile_messages, 0},
        {"a cancel is asked once", a_cancel_is_asked_once, 0},
        {"a cancel without a reason", a_cancel_without_a_reason, 0},
        {"what has ended is not cancelled", what_has_ended_is_not_cancelled, 0},
        {"a held run can be cancelled", a_held_run_can_be_cancelled, 0},
        {"many say the same", many_say_the_same, 0},
        {"a hundred thousand that are not received", a_hundred_thousand_that_are_not_received, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
