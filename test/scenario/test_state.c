/* Key-value state of a run: what it reads of its own, what others see of it, and that neither a
 * crash nor a replay reads what was written later. */
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

static const int64_t SILENCE_MS = 60000; /* on the fixture's clock: a silent node is dead */

#define EXPECT_STATE(s, p, id, key, wanted) expect_state((s), (p), (id), (key), (wanted), __LINE__)
static void expect_state(engine_fixture *s, pawl *p, const char *id, const char *key,
                         const char *wanted, int line)
{
    char *got = NULL;
    fixture_code(s, p, pawl_read_state(p, id, key, &got), wanted ? PAWL_OK : PAWL_NOTFOUND, line);
    if (wanted && strcmp(got, wanted) != 0)
        fixture_fail(s, line, "%s of %s is %s", key, id, got);
    pawl_free(got);
}

/* ---- Setting and reading ---- */

static const char *setting(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_state_set(run, "a", "1");
    pawl_state_set(run, "b", "{\"x\":[true]}");
    pawl_state_set(run, "a", "2");
    pawl_state_set(run, "c", "3");
    pawl_sleep(run, 1000);
    pawl_state_set(run, "c", "null");
    pawl_state_set(run, "d", "4");
    pawl_state_set(run, "d", "null");
    pawl_step(run, "echo", fixture_echo, input, PAWL_CALL(.arg = s));
    const char *a = pawl_state_get(run, "a");
    pawl_state_set(run, "a", "5");
    return pawl_json(run, "[%j,%j,%j,%j,%j]", a, pawl_state_get(run, "a"), pawl_state_get(run, "b"),
                     pawl_state_get(run, "c"), pawl_state_get(run, "e"));
}

static void what_is_set_is_there(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, setting);
    fixture_start(s, p, "setting", "run", "0");
    EXPECT_STATE(s, p, "run", "a", NULL);
    fixture_poll(s, p);
    EXPECT_STATE(s, p, "run", "a", "2");
    EXPECT_STATE(s, p, "run", "b", "{\"x\":[true]}");
    EXPECT_STATE(s, p, "run", "c", "3");
    FIXTURE_DONE(s, p, "run", "[2,5,{\"x\":[true]},null,null]");
    EXPECT_STATE(s, p, "run", "a", "5");
    EXPECT_STATE(s, p, "run", "c", NULL);
    EXPECT_STATE(s, p, "run", "d", NULL);
    FIXTURE_HISTORY(s, p, "run",
                    "state-set:a state-set:b state-set:a state-set:c sleep woken state-set:c"
                    " state-set:d state-set:d step:echo state-set:a state-get:e");
    pawl_close(p);
    if (c->promises & DB_DURABLE) {
        p = fixture_open(s, NULL);
        EXPECT_STATE(s, p, "run", "a", "5");
        pawl_close(p);
    }
    fixture_free(s);
}

static void outside_sees_it_when_it_is_durable(conf *c)
{
    char *value = NULL;
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, setting);
    fixture_start(s, p, "setting", "run", "0");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_read_state(p, "nobody", "a", &value), PAWL_NOTFOUND);
    FIXTURE_CODE(s, p, pawl_read_state(p, "run", "", &value), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_read_state(p, "run", NULL, &value), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_read_state(p, NULL, "a", &value), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_read_state(p, "run", "a", NULL), PAWL_INVALID);
    char *large = calloc(1, PAWL_MAX_NAME + 2);
    memset(large, 'k', PAWL_MAX_NAME + 1);
    FIXTURE_CODE(s, p, pawl_read_state(p, "run", large, &value), PAWL_LIMIT);
    free(large);
    assert_null(value);
    pawl_close(p);
    if (c->promises & DB_SHARED) {
        p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .tenant = "other"));
        EXPECT_STATE(s, p, "run", "a", NULL);
        pawl_close(p);
    }
    fixture_free(s);
}

/* ---- Crashes ---- */

/* Counts in its state, and stands still where the test says so. */
static const char *meeting(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    int64_t wanted = pawl_get_int(input, "", 0);
    if (atomic_compare_exchange_strong(fixture_number(s, 0), &wanted, 0))
        fixture_send_and_await(s, 'm');
    return input;
}

static const char *counting(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    for (int i = 1; i <= 3; i++) {
        int64_t n = pawl_get_int(pawl_state_get(run, "n"), "", 0);
        pawl_step(run, "before", meeting, pawl_json(run, "%d", 10 * i), PAWL_CALL(.arg = s));
        pawl_state_set(run, "n", pawl_json(run, "%" PRId64, n + 1));
        pawl_state_set(run, "last", pawl_json(run, "%d", i));
        pawl_step(run, "after", meeting, pawl_json(run, "%d", 10 * i + 1), PAWL_CALL(.arg = s));
        pawl_sleep(run, 10);
    }
    (void)input;
    return pawl_state_get(run, "n");
}

static void counting_body(engine_fixture *s, void *arg)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, counting);
    fixture_start(s, p, "counting", arg, "0");
    FIXTURE_DONE(s, p, arg, "3");
    EXPECT_STATE(s, p, arg, "n", "3");
    EXPECT_STATE(s, p, arg, "last", "3");
    FIXTURE_HISTORY(s, p, arg,
                    "state-get:n step:before state-set:n state-set:last step:after sleep woken"
                    " step:before state-set:n state-set:last step:after sleep woken"
                    " step:before state-set:n state-set:last step:after sleep woken");
    pawl_close(p);
}

static void killed_between_two_writes_of_state(conf *c)
{
    static const int64_t PLACES[] = {10, 11, 20, 21, 30, 31};
    engine_fixture *s = fixture_new(c);
    for (size_t i = 0; i < sizeof PLACES / sizeof *PLACES; i++) {
        char id[16];
        snprintf(id, sizeof id, "run-%d", (int)PLACES[i]);
        atomic_store(fixture_number(s, 0), PLACES[i]);
        tmp_child first = fixture_fork(s, counting_body, id);
        tmp_expect(&first, 'm');
        tmp_kill(&first);
        fixture_advance(s, SILENCE_MS);
        tmp_child second = fixture_fork(s, counting_body, id);
        tmp_join(&second);
    }
    fixture_free(s);
}

/* ---- A crash at each write ---- */

static const char *add_up(pawl_run *run, const char *input)
{
    for (int i = 0; i < 4; i++) {
        int64_t n = pawl_get_int(pawl_state_get(run, "n"), "", 0);
        pawl_state_set(run, "n", pawl_json(run, "%" PRId64, n + 1));
        pawl_sleep(run, 1000);
        const char *other = pawl_state_of(run, "other", "n");
        pawl_state_set(run, "seen", pawl_json(run, "[%j,%j]", other, pawl_state_get(run, "n")));
    }
    (void)input;
    return pawl_state_get(run, "seen");
}

static int64_t add_up_once(int64_t crash_at)
{
    pawl *p = NULL;
    pawl_test *t = NULL;
    pawl_outcome *end = NULL;
    char *value = NULL;
    assert_int_equal(pawl_test_open(&p, &t), PAWL_OK);
    assert_int_equal(pawl_register_workflow(p, "add_up", add_up, NULL), PAWL_OK);
    assert_int_equal(pawl_test_crash_at(t, crash_at), PAWL_OK);
    assert_int_equal(pawl_start(p, "add_up", "run", "null", NULL), PAWL_OK);
    assert_int_equal(pawl_start(p, "add_up", "other", "null", NULL), PAWL_OK);
    assert_int_equal(pawl_test_finish(p, "run", &end), PAWL_OK);
    const char *seen = pawl_outcome_value(end);
    assert_int_equal(pawl_get_int(seen, "/1", 0), 4);
    assert_in_range(pawl_get_int(seen, "/0", 0), 3, 4);
    pawl_outcome_free(end);
    assert_int_equal(pawl_read_state(p, "run", "n", &value), PAWL_OK);
    assert_string_equal(value, "4");
    pawl_free(value);
    int64_t writes = pawl_test_writes(t);
    pawl_test_close(t);
    pawl_close(p);
    return writes;
}

static void a_crash_at_each_write(conf *c)
{
    (void)c;
    int64_t writes = add_up_once(0);
    for (int64_t n = 1; n <= writes; n++)
        add_up_once(n);
}

/* ---- Earlier generations, and other runs ---- */

static const db_sql EARLIER = {
    "INSERT INTO {state} (run, key, generation, at, data)"
    " SELECT run, 'n', generation - 1, 0, $1 FROM {runs} WHERE id = 'run'",
    "b"};

static const db_sql LATER = {"UPDATE {state} SET data = $1 WHERE key = 'n'", "b"};

static void put(pawl *p, const db_sql *sql, const char *value)
{
    const db_value values[] = {db_bytes(slice_of(value))};
    conf_do(handle_db(p), sql, values, 1);
}

/* It reads before and after others could have changed the table behind its back. */
static const char *reading(pawl_run *run, const char *input)
{
    const char *first = pawl_state_get(run, "n");
    pawl_sleep(run, 1000);
    FIXTURE_ECHO(run, "echo", input);
    return pawl_json(run, "[%j,%j]", first, pawl_state_get(run, "n"));
}

static void an_earlier_generation_is_read_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, reading);
    fixture_start(s, p, "reading", "run", "0");
    put(p, &EARLIER, "\"before\"");
    fixture_poll(s, p);
    put(p, &LATER, "\"after\"");
    if (c->promises & DB_DURABLE) { /* by another process, from the journal */
        pawl_close(p);
        p = fixture_open(s, NULL);
        FIXTURE_REGISTER(s, p, reading);
    }
    FIXTURE_DONE(s, p, "run", "[\"before\",\"before\"]");
    FIXTURE_HISTORY(s, p, "run", "state-get:n sleep woken step:echo");
    pawl_close(p);
    fixture_free(s);
}

static const char *asking(pawl_run *run, const char *input)
{
    const char *first = pawl_state_of(run, "target", "a");
    pawl_sleep(run, 5000);
    const char *second = pawl_state_of(run, "target", "a");
    pawl_state_set(run, "own", "7");
    const char *no_key =
        pawl_state_of(run, "target", "no"); /* one after the other: C does not say */
    const char *no_run = pawl_state_of(run, "nobody", "a");
    (void)input;
    return pawl_json(run, "[%j,%j,%j,%j,%j]", first, second, no_key, no_run,
                     pawl_state_of(run, "asking", "own"));
}

static void another_run_is_read_as_it_is(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, setting);
    FIXTURE_REGISTER(s, p, asking);
    fixture_start(s, p, "setting", "target", "0");
    fixture_poll(s, p);
    fixture_start(s, p, "asking", "asking", "0");
    FIXTURE_DONE(s, p, "target", "[2,5,{\"x\":[true]},null,null]");
    if (c->promises & DB_DURABLE) {
        pawl_close(p);
        p = fixture_open(s, NULL);
        FIXTURE_REGISTER(s, p, asking);
    }
    FIXTURE_DONE(s, p, "asking", "[2,5,null,null,7]");
    FIXTURE_HISTORY(s, p, "asking",
                    "state-of:target/a sleep woken state-of:target/a state-set:own"
                    " state-of:target/no state-of:nobody/a");
    pawl_close(p);
    fixture_free(s);
}

/* ---- What is no state ---- */

static const char *wrong(pawl_run *run, const char *input)
{
    char large[PAWL_MAX_ID + 2] = {0};
    memset(large, 'k', sizeof large - 1);
    switch (pawl_get_int(input, "", 0)) {
    case 1:
        pawl_state_set(run, "", "1");
        break;
    case 2:
        pawl_state_set(run, "k", "{");
        break;
    case 3:
        pawl_state_set(run, "k", NULL);
        break;
    case 4:
        pawl_state_get(run, NULL);
        break;
    case 5:
        large[PAWL_MAX_NAME + 1] = '\0';
        pawl_state_get(run, large);
        break;
    case 6:
        pawl_state_of(run, large, "k");
        break;
    default:
        pawl_state_of(run, "", "k");
    }
    return input;
}

static void wrong_arguments_hold_it(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, wrong);
    for (int i = 1; i <= 7; i++) {
        char id[16], input[16];
        snprintf(id, sizeof id, "run-%d", i);
        snprintf(input, sizeof input, "%d", i);
        fixture_start(s, p, "wrong", id, input);
        FIXTURE_HELD(s, p, id, i < 6 ? "state" : "id of the run");
    }
    pawl_close(p);
    fixture_free(s);
}

/* What it had set before it was held is forgotten with the rest of that turn. */
static const char *held(pawl_run *run, const char *input)
{
    pawl_state_set(run, "kept", "1");
    FIXTURE_ECHO(run, "echo", input);
    pawl_state_set(run, "lost", "1");
    pawl_state_set(run, "kept", "2");
    pawl_state_set(run, "kept", "{");
    return input;
}

static void a_turn_that_is_forgotten_sets_nothing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, held);
    fixture_start(s, p, "held", "run", "0");
    FIXTURE_HELD(s, p, "run", "state");
    EXPECT_STATE(s, p, "run", "kept", "1");
    EXPECT_STATE(s, p, "run", "lost", NULL);
    FIXTURE_HISTORY(s, p, "run", "state-set:kept step:echo");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Many, and large ---- */

enum { KEYS = 500, LARGE = 1024 * 1024 };

static const char *many(pawl_run *run, const char *input)
{
    char key[16];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < KEYS; i++) {
            snprintf(key, sizeof key, "key-%d", i);
            int64_t n = pawl_get_int(pawl_state_get(run, key), "", 0);
            pawl_state_set(run, key, pawl_json(run, "%" PRId64, n + i));
        }
        if (round == 1)
            pawl_sleep(run, 10);
    }
    char *large = pawl_alloc(run, LARGE + 1);
    memset(large, 'x', LARGE);
    large[0] = large[LARGE - 1] = '"';
    pawl_state_set(run, "large", large);
    pawl_sleep(run, 10);
    (void)input;
    return pawl_json(run, "%" PRId64, (int64_t)strlen(pawl_state_get(run, "large")));
}

static void many_keys_and_a_large_value(conf *c)
{
    char *value = NULL;
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, many);
    fixture_start(s, p, "many", "run", "0");
    FIXTURE_DONE(s, p, "run", "1048576");
    EXPECT_STATE(s, p, "run", "key-1", "3");
    EXPECT_STATE(s, p, "run", "key-499", "1497");
    FIXTURE_CODE(s, p, pawl_read_state(p, "run", "large", &value), PAWL_OK);
    assert_int_equal(strlen(value), LARGE);
    pawl_free(value);
    pawl_close(p);
    fixture_free(s);
}

static void state_is_not_set_from_outside(conf *c)
{
    (void)c;
    assert_int_equal(pawl_state_set(NULL, "k", "1"), PAWL_MISUSE);
    assert_null(pawl_state_get(NULL, "k"));
    assert_null(pawl_state_of(NULL, "id", "k"));
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-KV what is set is there", what_is_set_is_there, 0},
        {"outside sees it when it is durable", outside_sees_it_when_it_is_durable, 0},
        {"dx-KV killed between two writes of state", killed_between_two_writes_of_state,
         DB_DURABLE},
        {"a crash at each write", a_crash_at_each_write, 0},
        {"dx-KV an earlier generation is read once", an_earlier_generation_is_read_once, 0},
        {"dx-KV another run is read as it is", another_run_is_read_as_it_is, 0},
        {"wrong arguments hold it", wrong_arguments_hold_it, 0},
        {"a turn that is forgotten sets nothing", a_turn_that_is_forgotten_sets_nothing, 0},
        {"many keys and a large value", many_keys_and_a_large_value, 0},
        {"state is not set from outside", state_is_not_set_from_outside, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
