/* The database's time (C2): a server that is nothing but a clock, with slow answers, wrong ones and
 * none at all, and a host whose clock is set while it looks.
 *
 * The server here counts from a beginning of its own; the time that an answer takes passes on the
 * fake clock, before and after the server has read its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "db/db_clock.h"

enum {
    HOST_MS = 1000000,
    SERVER_MS = 400000,
    SERVER = DB_DURABLE | DB_ISOLATED | DB_SHARED,
};

/* A host's clock that can be set, which the fake one cannot. */
typedef struct settable {
    clock_source source;
    clock_fake *fake;
    int64_t set_ms;
} settable;

typedef struct server {
    db db;
    db_driver driver;
    db_conn conn;
    settable host;
    int64_t set_ms;  /* its clock was set by so much */
    int64_t there;   /* ms that a question takes … */
    int64_t back;    /* … and its answer */
    int64_t us;      /* what its clock shows beyond whole milliseconds */
    pawl_code fails; /* PAWL_OK: it answers */
    int questions;
} server;

static int64_t host_now_ms(clock_source *c)
{
    settable *s = (settable *)c;
    clock_source *fake = clock_fake_source(s->fake);
    return fake->now_ms(fake) + s->set_ms;
}

static int64_t host_mono_ns(clock_source *c)
{
    clock_source *fake = clock_fake_source(((settable *)c)->fake);
    return fake->mono_ns(fake);
}

/* What the server's clock shows now. */
static int64_t server_ms(server *s)
{
    clock_source *fake = clock_fake_source(s->host.fake);
    return fake->now_ms(fake) - HOST_MS + SERVER_MS + s->set_ms;
}

static pawl_code answer(db_conn *c, int64_t *out, error *err)
{
    server *s = (server *)c->db;
    s->questions++;
    if (s->fails != PAWL_OK)
        return error_set(err, s->fails, "no answer");
    clock_fake_advance(s->host.fake, s->there);
    *out = server_ms(s) * 1000 + s->us;
    clock_fake_advance(s->host.fake, s->back);
    return PAWL_OK;
}

static void start(server *s, db_clock *c, unsigned promises)
{
    *s = (server){.driver = {.promises = promises, .now_us = answer}};
    s->host.fake = clock_fake_new(HOST_MS);
    assert_non_null(s->host.fake);
    s->host.source = (clock_source){host_now_ms, host_mono_ns, NULL, NULL};
    s->db = (db){.driver = &s->driver, .options = {.clock = &s->host.source}};
    s->conn = (db_conn){.driver = &s->driver, .db = &s->db};
    db_clock_init(c, &s->db);
}

static void stop(server *s, db_clock *c)
{
    db_clock_free(c);
    clock_fake_free(s->host.fake);
}

static void measure(server *s, db_clock *c, int64_t there, int64_t back)
{
    error err = {0};
    s->there = there;
    s->back = back;
    assert_int_equal(db_clock_measure(c, &s->conn, &err), PAWL_OK);
}

/* How far the clock is from the server's, in ms. */
static int64_t off(server *s, db_clock *c)
{
    return db_clock_now_ms(c) - server_ms(s);
}

/* ---- Tests ---- */

static void before_the_first_answer_the_time_is_that_of_the_host(void **state)
{
    (void)state;
    server s;
    db_clock c;
    start(&s, &c, SERVER);
    assert_false(db_clock_is_known(&c));
    assert_int_equal(db_clock_now_ms(&c), HOST_MS);
    measure(&s, &c, 0, 0);
    assert_true(db_clock_is_known(&c));
    assert_int_equal(off(&s, &c), 0);
    stop(&s, &c);
}

static void the_time_goes_on_between_answers(void **state)
{
    (void)state;
    server s;
    db_clock c;
    start(&s, &c, SERVER);
    measure(&s, &c, 0, 0);
    clock_fake_advance(s.host.fake, 12345);
    assert_int_equal(off(&s, &c), 0);
    assert_int_equal(s.questions, 1);
    stop(&s, &c);
}

/* The host's clock is set: that does not change the time of the database. */
static void a_host_that_jumps_does_not_move_the_time(void **state)
{
    (void)state;
    server s;
    db_clock c;
    start(&s, &c, SERVER);
    measure(&s, &c, 0, 0);
    s.host.set_ms = 3600 * 1000;
    assert_int_equal(off(&s, &c), 0);
    s.host.set_ms = -3600 * 1000;
    assert_int_equal(off(&s, &c), 0);
    stop(&s, &c);
}

static void the_middle_of_the_round_trip_counts(void **state)
{
    (void)state;
    server s;
    db_clock c;
    start(&s, &c, SERVER);
    measure(&s, &c, 10, 10);
    assert_int_equal(off(&s, &c), 0);
    stop(&s, &c);
    start(&s, &c, SERVER);
    measure(&s, &c, 20, 0); /* as wrong as it can be */
    assert_int_equal(off(&s, &c), 10);
    stop(&s, &c);
}

static void a_slow_answer_does_not_replace_a_quick_one(void **state)
{
    (void)state;
    server s;
    db_clock c;
    start(&s, &c, SERVER);
    measure(&s, &c, 1, 1);
    clock_fake_advance(s.host.fake, 1000);
    measure(&s, &c, 500, 0);
    assert_int_equal(off(&s, &c), 0);
    measure(&s, &c, 0, 0); /* and a quick one replaces anything */
    assert_int_equal(off(&s, &c), 0);
    stop(&s, &c);
}

/* An old answer gets worse by a thousandth of its age; then a slower one is as good. */
static void an_old_answer_is_replaced(void **state)
{
    (void)state;
    server s;
    db_clock c;
    start(&s, &c, SERVER);
    measure(&s, &c, 1, 1);
    s.set_ms = 30;
    clock_fake_advance(s.host.fake, 50 * 1000);
    measure(&s, &c, 200, 0); /* may be wrong by 100, the old one by 51 */
    assert_int_equal(off(&s, &c), -30);
    clock_fake_advance(s.host.fake, 50 * 1000);
    measure(&s, &c, 200, 0);
    assert_int_equal(off(&s, &c), 0);
    stop(&s, &c);
}

/* Answers that allow the old offset leave it; one that does not moves it to what it allows first.
 * So the chance of a round trip moves nothing forward. */
static void the_time_moves_no_further_than_it_must(void **state)
{
    (void)state;
    server s;
    db_clock c;
    start(&s, &c, SERVER);
    measure(&s, &c, 10, 10);
    for (int i = 0; i < 10; i++) {
        clock_fake_advance(s.host.fake, 100 * 1000);
        measure(&s, &c, i % 2 ? 20 : 0, i % 2 ? 0 : 20); /* the middle is wrong by 10, either way */
        assert_int_equal(off(&s, &c), 0);
    }
    s.set_ms = 15;
    clock_fake_advance(s.host.fake, 100 * 1000);
    measure(&s, &c, 10, 10);
    assert_int_equal(off(&s, &c), -10);
    s.set_ms = -15;
    clock_fake_advance(s.host.fake, 100 * 1000);
    measure(&s, &c, 10, 10);
    assert_int_equal(off(&s, &c), 10);
    stop(&s, &c);
}

/* Where a duration begins: the latest that the server's time may be. */
static void up_is_never_before_the_servers_time(void **state)
{
    (void)state;
    server s;
    db_clock c;
    start(&s, &c, SERVER);
    assert_int_equal(db_clock_up_ms(&c), HOST_MS);
    measure(&s, &c, 0, 0);
    assert_int_equal(db_clock_up_ms(&c) - server_ms(&s), 0); /* whole milliseconds, at once */
    stop(&s, &c);
    start(&s, &c, SERVER);
    s.us = 1;
    measure(&s, &c, 0, 0);
    assert_int_equal(off(&s, &c), 0);
    assert_int_equal(db_clock_up_ms(&c) - server_ms(&s), 1);
    stop(&s, &c);
    start(&s, &c, SERVER);
    measure(&s, &c, 0, 20); /* as wrong as it can be */
    assert_int_equal(off(&s, &c), -10);
    assert_int_equal(db_clock_up_ms(&c) - server_ms(&s), 0);
    stop(&s, &c);
}

/* A server whose clock was set, or another server in its place: even a slow answer says so. */
static void a_contradiction_is_believed(void **state)
{
    (void)state;
    server s;
    db_clock c;
    start(&s, &c, SERVER);
    measure(&s, &c, 0, 0);
    s.set_ms = -60 * 1000;
    measure(&s, &c, 500, 500);
    assert_int_equal(off(&s, &c), 0);
    stop(&s, &c);
}

static void a_server_that_does_not_answer_changes_nothing(void **state)
{
    (void)state;
    server s;
    db_clock c;
    error err = {0};
    start(&s, &c, SERVER);
    measure(&s, &c, 0, 0);
    s.fails = PAWL_UNREACHABLE;
    assert_int_equal(db_clock_measure(&c, &s.conn, &err), PAWL_UNREACHABLE);
    clock_fake_advance(s.host.fake, 777);
    assert_int_equal(off(&s, &c), 0);
    stop(&s, &c);
}

static void an_absurd_answer_is_an_error(void **state)
{
    (void)state;
    static const int64_t ABSURD[] = {INT64_MIN / 2000, -SERVER_MS - 1, INT64_MAX / 2000};
    server s;
    db_clock c;
    error err = {0};
    start(&s, &c, SERVER);
    for (size_t i = 0; i < sizeof ABSURD / sizeof *ABSURD; i++) {
        s.set_ms = ABSURD[i];
        assert_int_equal(db_clock_measure(&c, &s.conn, &err), PAWL_STORAGE);
    }
    assert_false(db_clock_is_known(&c));
    stop(&s, &c);
}

/* A file of this host, or memory: no server is asked, and the host's clock is followed wherever it
 * goes. */
static void a_database_of_the_host_has_its_time(void **state)
{
    (void)state;
    static const unsigned HOSTS[] = {SERVER | DB_FILE | DB_TURNS, DB_TURNS};
    for (size_t i = 0; i < sizeof HOSTS / sizeof *HOSTS; i++) {
        server s;
        db_clock c;
        start(&s, &c, HOSTS[i]);
        assert_true(db_clock_is_known(&c));
        measure(&s, &c, 5, 5);
        assert_int_equal(s.questions, 0);
        s.host.set_ms = -5000;
        clock_fake_advance(s.host.fake, 100);
        assert_int_equal(db_clock_now_ms(&c), HOST_MS - 4900);
        stop(&s, &c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(before_the_first_answer_the_time_is_that_of_the_host),
        cmocka_unit_test(the_time_goes_on_between_answers),
        cmocka_unit_test(a_host_that_jumps_does_not_move_the_time),
        cmocka_unit_test(the_middle_of_the_round_trip_counts),
        cmocka_unit_test(a_slow_answer_does_not_replace_a_quick_one),
        cmocka_unit_test(an_old_answer_is_replaced),
        cmocka_unit_test(the_time_moves_no_further_than_it_must),
        cmocka_unit_test(up_is_never_before_the_servers_time),
        cmocka_unit_test(a_contradiction_is_believed),
        cmocka_unit_test(a_server_that_does_not_answer_changes_nothing),
        cmocka_unit_test(an_absurd_answer_is_an_error),
        cmocka_unit_test(a_database_of_the_host_has_its_time),
    };
    return cmocka_run_group_tests_name("db_clock", tests, NULL, NULL);
}
