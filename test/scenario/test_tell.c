/* pawl_tell(): a run sends another one a message, once, whatever happens in between, and it knows
 * what came of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <pawl_test.h>

#include "handle/handle.h"
#include "support/engine_fixture.h"

static const char *listening(pawl_run *run, const char *input)
{
    const char *message = "null";
    for (int64_t i = pawl_get_int(input, "", 0); i > 0; i--)
        pawl_receive(run, "box", PAWL_FOREVER, &message);
    return pawl_json(run, "[%j,%s]", message, pawl_sender(run));
}

/* Tells the run that the input names, and how that went. */
static const char *telling(pawl_run *run, const char *input)
{
    const char *whom = pawl_text(run, input, "", "");
    pawl_code code = pawl_tell(run, whom, "box", "{\"n\":1}");
    pawl_sleep(run, 10);
    return pawl_json(run, "%s", pawl_code_name(code));
}

static pawl *open_both(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, listening);
    FIXTURE_REGISTER(s, p, telling);
    return p;
}

static int64_t count(pawl *p, const char *text)
{
    db_sql sql = {text, ""};
    return conf_number(handle_db(p), &sql, NULL, 0);
}

static void what_is_told_arrives(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    fixture_start(s, p, "listening", "ear", "1");
    fixture_poll(s, p);
    fixture_start(s, p, "telling", "mouth", "\"ear\"");
    fixture_poll(s, p); /* at once, and not at the next look */
    FIXTURE_DONE(s, p, "ear", "[{\"n\":1},\"mouth\"]");
    FIXTURE_DONE(s, p, "mouth", "\"PAWL_OK\"");
    FIXTURE_HISTORY(s, p, "mouth", "tell:box done sleep woken");
    FIXTURE_HISTORY(s, p, "ear", "receive:box message");
    pawl_close(p);
    fixture_free(s);
}

static void a_message_to_a_run_that_is_not_there(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    fixture_start(s, p, "listening", "ended", "0");
    FIXTURE_DONE(s, p, "ended", "[null,\"\"]");
    fixture_start(s, p, "telling", "one", "\"ended\"");
    fixture_start(s, p, "telling", "two", "\"nobody\"");
    fixture_start(s, p, "telling", "three", "\"\"");
    FIXTURE_DONE(s, p, "one", "\"PAWL_ENDED\"");
    FIXTURE_DONE(s, p, "two", "\"PAWL_NOTFOUND\"");
    fixture_poll(s, p);
    assert_int_not_equal(fixture_phase(s, p, "three"), PAWL_RUN_FAILED);
    assert_int_equal(count(p, "SELECT count(*) FROM {inbox}"), 0);
    assert_int_equal(count(p, "SELECT count(*) FROM {receipts}"), 0);
    pawl_close(p);
    fixture_free(s);
}

/* Runs of other tenants are not there. */
static void tenants_do_not_hear_each_other(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s),
         *other = fixture_open(s, PAWL_OPTIONS(.threads = -1, .tenant = "other"));
    FIXTURE_REGISTER(s, other, listening);
    fixture_start(s, other, "listening", "ear", "1");
    fixture_poll(s, other);
    fixture_start(s, p, "telling", "mouth", "\"ear\"");
    FIXTURE_DONE(s, p, "mouth", "\"PAWL_NOTFOUND\"");
    fixture_poll(s, other);
    assert_int_equal(fixture_phase(s, other, "ear"), PAWL_RUN_LIVE);
    pawl_close(other);
    pawl_close(p);
    fixture_free(s);
}

static const char *to_itself(pawl_run *run, const char *input)
{
    const char *message, *sum = "0";
    for (int i = 0; i < 3; i++)
        if (pawl_tell(run, pawl_run_id(run), "box", input) != PAWL_OK)
            return "false";
    for (int i = 0; i < 3; i++) {
        if (pawl_receive(run, "box", 0, &message) != PAWL_OK)
            return "null";
        sum = pawl_json(run, "[%j,%j]", sum, message);
    }
    return pawl_receive(run, "box", 0, &message) == PAWL_TIMEOUT ? sum : "true";
}

static void a_run_may_tell_itself(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    FIXTURE_REGISTER(s, p, to_itself);
    fixture_start(s, p, "to_itself", "run", "7");
    int64_t began = fixture_now(s);
    FIXTURE_DONE(s, p, "run", "[[[0,7],7],7]");
    assert_int_equal(fixture_now(s), began);
    pawl_close(p);
    fixture_free(s);
}

/* Two that wait for each other's word, by two engines. */
static const char *talking(pawl_run *run, const char *input)
{
    const char *message = "0", *whom = pawl_text(run, input, "/whom", "");
    for (int i = 0; i < 5; i++) {
        if (pawl_get_bool(input, "/first", 0) || i > 0) {
            const char *more = pawl_json(run, "%" PRId64, pawl_get_int(message, "", -9) + 1);
            if (pawl_tell(run, whom, "box", more) != PAWL_OK)
                return "false";
        }
        pawl_receive(run, "box", PAWL_FOREVER, &message);
    }
    if (!pawl_get_bool(input, "/first", 0))
        pawl_tell(run, whom, "box", pawl_json(run, "%" PRId64, pawl_get_int(message, "", -9) + 1));
    return message;
}

static void two_talk_over_two_engines(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *one = fixture_open(s, NULL), *two = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, one, talking);
    fixture_start(s, one, "talking", "a", "{\"whom\":\"b\",\"first\":false}");
    fixture_poll(s, one);
    FIXTURE_REGISTER(s, two, talking);
    fixture_start(s, two, "talking", "b", "{\"whom\":\"a\",\"first\":true}");
    for (int i = 0; i < 60 && fixture_phase(s, one, "b") == PAWL_RUN_LIVE; i++) {
        fixture_poll(s, one);
        fixture_poll(s, two);
        fixture_advance(s, 500);
    }
    FIXTURE_DONE(s, one, "a", "9");
    FIXTURE_DONE(s, two, "b", "10");
    pawl_close(two);
    pawl_close(one);
    fixture_free(s);
}

/* ---- Crashes ---- */

/* It counts, so that a message that came twice is seen. */
static const char *hearing(pawl_run *run, const char *input)
{
    const char *message;
    int64_t heard = 0;
    (void)input;
    while (pawl_receive(run, "box", 5000, &message) == PAWL_OK)
        heard++;
    return pawl_json(run, "%" PRId64, heard);
}

static const char *saying(pawl_run *run, const char *input)
{
    (void)input;
    pawl_code first = pawl_tell(run, "ear", "box", "1");
    pawl_code second = pawl_tell(run, "ear", "box", "1");
    pawl_code third = pawl_tell(run, "nobody", "box", "1");
    return first == PAWL_OK && second == PAWL_OK && third == PAWL_NOTFOUND ? "true" : "false";
}

static void told_once_over_crashes(conf *c)
{
    int64_t writes = 1;
    (void)c;
    for (int64_t at = 0; at <= writes; at++) {
        pawl *p;
        pawl_test *t;
        pawl_outcome *mouth = NULL, *ear = NULL;
        assert_int_equal(pawl_test_open(&p, &t), PAWL_OK);
        assert_int_equal(pawl_register_workflow(p, "hearing", hearing, NULL), PAWL_OK);
        assert_int_equal(pawl_register_workflow(p, "saying", saying, NULL), PAWL_OK);
        assert_int_equal(pawl_test_crash_at(t, at), PAWL_OK);
        assert_int_equal(pawl_start(p, "hearing", "ear", "1", NULL), PAWL_OK);
        assert_int_equal(pawl_start(p, "saying", "mouth", "1", NULL), PAWL_OK);
        assert_int_equal(pawl_test_finish(p, "mouth", &mouth), PAWL_OK);
        assert_int_equal(pawl_test_finish(p, "ear", &ear), PAWL_OK);
        assert_string_equal(pawl_outcome_value(mouth), "true");
        assert_string_equal(pawl_outcome_value(ear), "2");
        writes = at == 0 ? pawl_test_writes(t) : writes;
        pawl_outcome_free(mouth);
        pawl_outcome_free(ear);
        pawl_test_close(t);
        pawl_close(p);
    }
    assert_in_range(writes, 4, 100);
}

/* ---- Mistakes ---- */

static const char *mistaken(pawl_run *run, const char *input)
{
    switch (pawl_get_int(input, "", 0)) {
    case 0:
        pawl_tell(run, NULL, "box", "1");
        break;
    case 1:
        pawl_tell(run, "ear", NULL, "1");
        break;
    case 2:
        pawl_tell(run, "ear", "box", "{");
        break;
    case 3:
        pawl_tell(run, "ear", "box", NULL);
        break;
    case 4:
        pawl_tell(run, "ear", "", "1");
        break;
    case 5:
        pawl_tell(run, "ear", "pawl.box", "1");
        break;
    case 6:
        pawl_receive(run, "", 0, NULL);
        break;
    case 7:
        pawl_receive_later(run, "pawl.box", 0);
        break;
    case 8:
        pawl_undo(run, "", "1");
        break;
    case 9:
        pawl_step(run, "x", fixture_echo, "1", PAWL_CALL(.undo = "", .arg = pawl_arg(run)));
        break;
    default:
        pawl_tell(run, "\xff", "box", "1");
    }
    return input;
}

static void wrong_words_hold_the_run(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    FIXTURE_REGISTER(s, p, mistaken);
    for (int i = 0; i < 11; i++) {
        char id[32], input[32];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(s, p, "mistaken", id, input);
        fixture_held(s, p, id, "", i);
    }
    pawl_close(p);
    fixture_free(s);
}

/* ---- As large as they may be ---- */

/* How long a message is, as it is received, and how deep: one that is not larger than a value may
 * be can be received, whatever is recorded beside it. */
static const char *measuring(pawl_run *run, const char *input)
{
    const char *message;
    (void)input;
    if (pawl_receive(run, "box", PAWL_FOREVER, &message) != PAWL_OK)
        return "false";
    return pawl_json(run, "[%" PRId64 ",%" PRId64 "]", (int64_t)strlen(message),
                     (int64_t)strspn(message, "["));
}

/* As one of several it is inside another value, which is too deep then. */
static const char *wrapping(pawl_run *run, const char *input)
{
    pawl_future *one = pawl_receive_later(run, "box", PAWL_FOREVER);
    (void)input;
    return pawl_await(run, pawl_any_later(run, &one, 1));
}

static void the_largest_and_the_deepest(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, measuring);
    FIXTURE_REGISTER(s, p, wrapping);
    size_t size = PAWL_MAX_PAYLOAD, depth = PAWL_MAX_DEPTH;
    char *large = malloc(size + 1), deep[2 * PAWL_MAX_DEPTH + 1], wanted[64];
    assert_non_null(large);
    memset(large, 'x', size);
    large[0] = large[size - 1] = '"';
    large[size] = '\0';
    memset(deep, '[', depth);
    memset(deep + depth, ']', depth);
    deep[2 * depth] = '\0';
    fixture_start(s, p, "measuring", "large", "null");
    FIXTURE_CODE(s, p, pawl_send(p, "large", "box", large, NULL), PAWL_OK);
    snprintf(wanted, sizeof wanted, "[%zu,0]", size);
    FIXTURE_DONE(s, p, "large", wanted);
    fixture_start(s, p, "measuring", "deep", "null");
    FIXTURE_CODE(s, p, pawl_send(p, "deep", "box", deep, NULL), PAWL_OK);
    snprintf(wanted, sizeof wanted, "[%zu,%zu]", 2 * depth, depth);
    FIXTURE_DONE(s, p, "deep", wanted);
    fixture_start(s, p, "wrapping", "inside", "null");
    FIXTURE_CODE(s, p, pawl_send(p, "inside", "box", deep, NULL), PAWL_OK);
    FIXTURE_HELD(s, p, "inside", "too large or too deep");
    free(large);
    pawl_close(p);
    fixture_free(s);
}

/* It was told, but what came of it is not recorded; then the run goes on in another generation. */
static void told_once_over_a_redrive(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_both(s);
    fixture_start(s, p, "listening", "ear", "2");
    fixture_start(s, p, "telling", "mouth", "\"ear\"");
    fixture_poll(s, p);
    pawl_close(p);
    p = open_both(s);
    FIXTURE_CODE(s, p, pawl_hold(p, "mouth", "a look"), PAWL_OK);
    conf_script(handle_db(p), "DELETE FROM {journal} WHERE seq > 2 AND run ="
                              " (SELECT run FROM {runs} WHERE id = 'mouth');");
    FIXTURE_CODE(s, p, pawl_redrive(p, "mouth", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "mouth", "\"PAWL_OK\"");
    FIXTURE_HISTORY(s, p, "ear", "receive:box message receive:box");
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-X32 what is told arrives", what_is_told_arrives, 0},
    {"a message to a run that is not there", a_message_to_a_run_that_is_not_there, 0},
    {"tenants do not hear each other", tenants_do_not_hear_each_other, DB_SHARED},
    {"a run may tell itself", a_run_may_tell_itself, 0},
    {"dx-X32 two talk over two engines", two_talk_over_two_engines, DB_SHARED},
    {"told once over crashes", told_once_over_crashes, 0},
    {"told once over a redrive", told_once_over_a_redrive, DB_SHARED},
    {"the largest and the deepest", the_largest_and_the_deepest, 0},
    {"wrong words hold the run", wrong_words_hold_the_run, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
