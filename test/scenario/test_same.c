/* The same request again: starts, messages and their relatives in transactions are told from others
 * by the JSON value of what they carry, not by its bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "handle/handle.h"
#include "support/outbox_fixture.h"

#define FIRST "{\"name\":\"a/\xC3\xA9\",\"cents\":100,\"list\":[1,{\"x\":1.5,\"y\":null}]}"
#define SAME                                                                                       \
    "{ \"list\" : [1.0, {\"y\":null,\"x\":15e-1}],\n\"cents\":1E2, \"name\":\"a\\/\\u00e9\" }"
#define OTHER "{\"name\":\"a/\xC3\xA9\",\"cents\":101,\"list\":[1,{\"x\":1.5,\"y\":null}]}"

static const char *rounds(pawl_run *run, const char *input)
{
    const char *message;
    if (pawl_run_generation(run) == 1)
        return pawl_continue_as_new(run, "2", NULL);
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    return input;
}

/* Room for a value that is kept in the journal, and not in the row of the run. */
enum { LARGE = 4000 };

static void make_large(char *out, const char *before, char c)
{
    size_t size = strlen(before);
    memcpy(out, before, size);
    memset(out + size, c, LARGE - size - 3);
    memcpy(out + LARGE - 3, "\"}", 3);
}

static void a_start_in_another_form(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, rounds);
    char large[LARGE], again[LARGE], other[LARGE];
    make_large(large, "{\"a\":1,\"b\":\"", 'x');
    make_large(again, "{\"a\" :1.0,\"b\":\"", 'x');
    make_large(other, "{\"a\":1,\"b\":\"", 'y');
    again[LARGE - 5] = '"'; /* three characters of the text less, as many blanks more */
    memcpy(again + LARGE - 4, " }", 3);
    large[LARGE - 8] = '"';
    memcpy(large + LARGE - 7, "}", 2);
    int64_t created;
    for (int turn = 0; turn < 2; turn++) {
        FIXTURE_CODE(s, p, pawl_start(p, "rounds", "small", FIRST, NULL), PAWL_OK);
        FIXTURE_CODE(s, p, pawl_start(p, "rounds", "small", SAME, PAWL_START(.created = &created)),
                     PAWL_OK);
        assert_int_equal(created, 0);
        FIXTURE_CODE(s, p, pawl_start(p, "rounds", "small", OTHER, NULL), PAWL_CONFLICT);
        FIXTURE_CODE(s, p, pawl_start(p, "rounds", "large", large, NULL), PAWL_OK);
        FIXTURE_CODE(s, p, pawl_start(p, "rounds", "large", again, NULL), PAWL_OK);
        FIXTURE_CODE(s, p, pawl_start(p, "rounds", "large", other, NULL), PAWL_CONFLICT);
        fixture_poll(s, p); /* and so it is in the next generation, too */
    }
    pawl_close(p);
    fixture_free(s);
}

static void a_message_in_another_form(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, rounds);
    fixture_start(s, p, "rounds", "run", "1");
    int64_t seq = 0;
    FIXTURE_CODE(s, p, pawl_send(p, "run", "mail", FIRST, PAWL_SEND(.key = "k")), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "mail", SAME, PAWL_SEND(.key = "k", .seq = &seq)),
                 PAWL_OK);
    assert_int_equal(seq, 1);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "mail", OTHER, PAWL_SEND(.key = "k")), PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "mails", SAME, PAWL_SEND(.key = "k")), PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "mail", "1", PAWL_SEND(.key = "pawl.k")), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_redrive(p, "run", PAWL_REDRIVE(.key = "pawl.k")), PAWL_INVALID);
    assert_int_equal(outbox_fixture_rows(p, "{inbox}", "kind = 1"), 1);
    pawl_close(p);
    fixture_free(s);
}

/* Older versions have remembered the bytes of a message: those are recognised still. */
static void an_old_receipt(conf *c)
{
    static const db_sql PUT = {"INSERT INTO {receipts} (run, key, kind, seq, at, answer)"
                               " SELECT run, 'old', 1, 7, 1, $1 FROM {runs}",
                               "b"};
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, rounds);
    fixture_start(s, p, "rounds", "run", "1");
    unsigned char print[DIGEST_SIZE];
    digest d;
    int64_t seq = 0;
    digest_begin(&d);
    digest_add(&d, (slice){"mail", 5});
    digest_add(&d, slice_of(SAME));
    digest_end(&d, print);
    const db_value answer = db_bytes((slice){(const char *)print, sizeof print});
    conf_do(handle_db(p), &PUT, &answer, 1);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "mail", SAME, PAWL_SEND(.key = "old", .seq = &seq)),
                 PAWL_OK);
    assert_int_equal(seq, 7);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "mail", OTHER, PAWL_SEND(.key = "old")), PAWL_CONFLICT);
    pawl_close(p);
    fixture_free(s);
}

static void a_start_in_another_form_in_a_transaction(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    fixture_start(x.s, x.p, "waiting", "run", FIRST);
    FIXTURE_CODE(x.s, x.p, pawl_send(x.p, "run", "box", FIRST, PAWL_SEND(.key = "k")), PAWL_OK);
    BEGIN(x);
    assert_int_equal(START_IN(x, "waiting", "run", SAME, PAWL_OK), 0); /* there already */
    START_IN(x, "waiting", "run", OTHER, PAWL_CONFLICT);
    assert_int_equal(SEND_IN(x, "run", SAME, "k", PAWL_OK), 1);
    SEND_IN(x, "run", OTHER, "k", PAWL_CONFLICT);
    assert_int_equal(START_IN(x, "waiting", "new", FIRST, PAWL_OK), 1); /* and in the outbox */
    assert_int_equal(START_IN(x, "waiting", "new", SAME, PAWL_OK), 0);
    START_IN(x, "waiting", "new", OTHER, PAWL_CONFLICT);
    SEND_IN(x, "new", FIRST, "l", PAWL_OK);
    SEND_IN(x, "new", SAME, "l", PAWL_OK);
    SEND_IN(x, "new", OTHER, "l", PAWL_CONFLICT);
    assert_int_equal(START_IN(x, "waiting", "taken", FIRST, PAWL_OK), 1);
    assert_int_equal(START_IN(x, "waiting", "lost", FIRST, PAWL_OK), 1);
    COMMIT(x);
    fixture_start(x.s, x.p, "waiting", "taken", SAME); /* before it is moved */
    fixture_start(x.s, x.p, "waiting", "lost", OTHER);
    FLUSH(x);
    assert_int_equal(LEFT(x), 0);
    assert_int_equal(outbox_fixture_rows(x.p, "{outbox}", "failed = 1"), 1);
    assert_int_equal(outbox_fixture_rows(x.p, "{outbox}", "target = 'lost' AND failed = 1"), 1);
    assert_int_equal(outbox_fixture_rows(x.p, "{runs}", "1 = 1"), 4);
    assert_int_equal(MESSAGES(x), 2);
    outbox_fixture_close(&x);
}

/* What something else has put into the outbox may be no JSON at all: the others go on. */
static void no_json_in_the_outbox(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    fixture_start(x.s, x.p, "waiting", "run", "1");
    static const db_sql PUT = {"INSERT INTO {outbox} (tenant, kind, target, name, key, at, data)"
                               " VALUES ('', 2, 'run', 'box', $1, 1, $2)",
                               "tb"};
    const db_value rows[2][2] = {{db_text(SLICE_LIT("a")), db_bytes(SLICE_LIT("{"))},
                                 {db_text(SLICE_LIT("b")), db_bytes(SLICE_LIT("1"))}};
    for (int i = 0; i < 2; i++)
        conf_do(handle_db(x.p), &PUT, rows[i], 2);
    assert_int_equal(LEFT(x), 2);
    FLUSH(x);
    assert_int_equal(LEFT(x), 0);
    outbox_fixture_close(&x);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a start in another form", a_start_in_another_form, 0},
        {"a message in another form", a_message_in_another_form, 0},
        {"an old receipt", an_old_receipt, 0},
        {"a start in another form in a transaction", a_start_in_another_form_in_a_transaction,
         DB_SHARED},
        {"no JSON in the outbox", no_json_in_the_outbox, DB_SHARED},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
