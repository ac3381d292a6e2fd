/* The outbox relay: several engines move rows at once, and some die in the middle of it. Each row
 * is moved once, and in its order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "handle/handle.h"
#include "support/outbox_fixture.h"

#define FAILED(x) outbox_fixture_rows((x).p, "{outbox}", "failed = 1")

static int64_t number(pawl *p, const char *text)
{
    db_sql sql = {text, ""};
    return conf_number(handle_db(p), &sql, NULL, 0);
}

enum { RELAYS = 3, SENT = 150 };

static void *flush_all(void *arg)
{
    pawl *p = arg;
    for (int i = 0; i < 100; i++) {
        pawl_code rc = pawl_outbox_flush(p);
        if (rc != PAWL_OK)
            return (void *)pawl_code_name(rc);
        if (outbox_fixture_rows(p, "{outbox}", "failed = 0") == 0)
            return NULL;
    }
    return (void *)"not yet";
}

static void several_relays_keep_the_order(conf *c)
{
    outbox_fixture x = outbox_fixture_open(c);
    pawl *relays[RELAYS];
    pthread_t threads[RELAYS];
    char text[16];
    fixture_run_clock(x.s);
    BEGIN(x);
    START_IN(x, "waiting", "a", "1", PAWL_OK);
    for (int i = 1; i <= SENT; i++) {
        snprintf(text, sizeof text, "%d", i);
        SEND_IN(x, "a", text, i % 3 ? NULL : text, PAWL_OK);
    }
    COMMIT(x);
    for (int i = 0; i < RELAYS; i++)
        relays[i] = fixture_open(x.s, PAWL_OPTIONS(.threads = 1));
    for (int i = 0; i < RELAYS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, flush_all, relays[i]), 0);
    for (int i = 0; i < RELAYS; i++) {
        void *wrong;
        pthread_join(threads[i], &wrong);
        if (wrong)
            fail_msg("%s", (const char *)wrong);
    }
    assert_int_equal(LEFT(x), 0);
    assert_int_equal(FAILED(x), 0);
    assert_int_equal(MESSAGES(x), SENT);
    for (int i = 1; i <= SENT; i++) {
        static const db_sql AT = {"SELECT seq FROM {inbox} WHERE data = $1", "b"};
        snprintf(text, sizeof text, "%d", i);
        const db_value v[] = {db_bytes(slice_of(text))};
        assert_int_equal(conf_number(handle_db(x.p), &AT, v, 1), i);
    }
    for (int i = 0; i < RELAYS; i++)
        pawl_close(relays[i]);
    outbox_fixture_close(&x);
}

/* It commits, and dies before any row was moved. */
static void commit_and_stand(engine_fixture *s, void *arg)
{
    outbox_fixture x = {s, fixture_open(s, NULL), app_open(arg)};
    BEGIN(x);
    START_IN(x, "quick", "a", "7", PAWL_OK);
    SEND_IN(x, "a", "1", NULL, PAWL_OK);
    COMMIT(x);
    BEGIN(x);
    START_IN(x, "quick", "b", "7", PAWL_OK);
    fixture_send_and_await(s, 'c');
}

static void an_application_dies_after_its_commit(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    tmp_child child = fixture_fork(s, commit_and_stand, c);
    tmp_expect(&child, 'c');
    tmp_kill(&child);
    pawl *p = fixture_open(s, NULL);
    fixture_register(s, p, "quick", outbox_fixture_quick);
    FIXTURE_UNTIL(s, p, outbox_fixture_rows(p, "{outbox}", "failed = 0") == 0);
    FIXTURE_DONE(s, p, "a", "7");
    assert_int_equal(outbox_fixture_rows(p, "{runs}", "1 = 1"), 1);
    assert_int_equal(outbox_fixture_rows(p, "{inbox}", "kind = 1"), 1);
    pawl_close(p);
    fixture_free(s);
}

/* Relays that die in the middle, one after the other. */
static void flush_and_die(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 1));
    fixture_send_byte(s, 'k');
    pawl_outbox_flush(p);
    fixture_send_and_await(s, 'e');
}

static void relays_that_die(conf *c)
{
    char text[16];
    outbox_fixture x = outbox_fixture_open(c);
    BEGIN(x);
    START_IN(x, "waiting", "a", "1", PAWL_OK);
    for (int i = 1; i <= SENT; i++) {
        snprintf(text, sizeof text, "%d", i);
        SEND_IN(x, "a", text, NULL, PAWL_OK);
    }
    COMMIT(x);
    app_close(x.a);
    pawl_close(x.p);
    fixture_run_clock(x.s);
    for (int i = 0; i < 8; i++) {
        tmp_child child = fixture_fork(x.s, flush_and_die, NULL);
        tmp_expect(&child, 'k');
        tmp_kill(&child);
    }
    x.p = fixture_open(x.s, PAWL_OPTIONS(.threads = 1));
    x.a = app_open(c);
    FLUSH(x);
    assert_int_equal(LEFT(x), 0);
    assert_int_equal(MESSAGES(x), SENT);
    assert_int_equal(number(x.p, "SELECT count(DISTINCT data) FROM {inbox}"), SENT);
    assert_int_equal(number(x.p, "SELECT mail FROM {runs}"), SENT);
    outbox_fixture_close(&x);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"several relays keep the order", several_relays_keep_the_order, DB_SHARED},
        {"an application dies after its commit", an_application_dies_after_its_commit, DB_SHARED},
        {"relays that die", relays_that_die, DB_SHARED},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
