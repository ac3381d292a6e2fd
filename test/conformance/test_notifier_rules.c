/* The rules of the notifier, on a clock that stands still and a driver that only writes down: what
 * is told goes out at once but at most once in 5 ms for each target, and a lost connection is made
 * anew, with patience, and loses nothing that was told (B5).
 *
 * No database: what drivers do with it is in test_notifier.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "db/notifier.h"
#include "db/notify.h"
#include "support/notifier_fixture.h"
#include "support/tmp.h"

enum { LINES = 64 };

static int readable(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

/* ---- One notifier on it, by hand ---- */

typedef struct fixture {
    notifier_fixture driver;
    notifier *notifier;
    atomic_int calls; /* of on_heard */
    int wants_lock;
    int64_t server; /* as on_lock says */
} fixture;

static void count_call(void *arg)
{
    atomic_fetch_add(&((fixture *)arg)->calls, 1);
}

static void note_lock(void *arg, int64_t server)
{
    ((fixture *)arg)->server = server;
}

static pawl_code try_open(fixture *r, int by_hand)
{
    error err = {0};
    notifier_options o = {.node = 7,
                          .by_hand = by_hand,
                          .on_heard = count_call,
                          .on_heard_arg = r,
                          .on_lock = r->wants_lock ? note_lock : NULL,
                          .on_lock_arg = r};
    pawl_code rc = notifier_open(&r->notifier, &r->driver.base, &o, &err);
    assert_true(rc == PAWL_OK || err.message[0]);
    return rc;
}

/* Open, and have done with the call that follows every connect. */
static void fixture_open(fixture *r)
{
    memset(r, 0, sizeof *r);
    notifier_fixture_open(&r->driver);
    assert_int_equal(try_open(r, 1), PAWL_OK);
    assert_int_equal(notifier_next_ns(r->notifier), 0);
    assert_int_equal(notifier_poll(r->notifier), 1);
    assert_int_equal(r->calls, 1);
    assert_int_equal(notifier_next_ns(r->notifier), INT64_MAX);
}

static void fixture_close(fixture *r)
{
    notifier_close(r->notifier);
    notifier_fixture_close(&r->driver);
}

static void pass_ms(fixture *r, int64_t ms)
{
    clock_fake_advance(r->driver.clock, ms);
    notifier_poll(r->notifier);
}

/* What went out since the last look: exactly these. */
static void expect_sent(fixture *r, const int64_t *targets, int count)
{
    assert_int_equal(r->driver.count, count);
    for (int i = 0; i < count; i++)
        assert_int_equal(r->driver.sent[i], targets[i]);
    notifier_fixture_clear(&r->driver);
}

#define EXPECT_SENT(r, ...)                                                                        \
    expect_sent((r), (int64_t[]){__VA_ARGS__}, DB_COUNT(((int64_t[]){__VA_ARGS__})))
#define EXPECT_NOTHING(r) expect_sent((r), NULL, 0)

/* ---- Not too often ---- */

static void a_notification_is_sent_at_once(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    notifier_tell(r.notifier, 3);
    EXPECT_NOTHING(&r); /* telling does not send */
    assert_int_equal(notifier_next_ns(r.notifier), 0);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 3);
    assert_int_equal(notifier_next_ns(r.notifier), INT64_MAX);
    notifier_poll(r.notifier);
    EXPECT_NOTHING(&r);
    fixture_close(&r);
}

static void a_thousand_notifications_become_one(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    for (int i = 0; i < 1000; i++)
        notifier_tell(r.notifier, 3);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 3);
    pass_ms(&r, 100);
    EXPECT_NOTHING(&r);
    notifier_stats s = notifier_stats_now(r.notifier);
    assert_int_equal(s.told, 1000);
    assert_int_equal(s.sent, 1);
    fixture_close(&r);
}

/* The rule itself: 5 ms between two for the same target, exactly, and nothing is forgotten. */
static void five_milliseconds_lie_between_two(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    for (int round = 0; round < 20; round++) {
        for (int ms = 0; ms < 5; ms++) {
            for (int i = 0; i < 50; i++)
                notifier_tell(r.notifier, 3);
            notifier_poll(r.notifier);
            if (ms > 0) {
                EXPECT_NOTHING(&r);
                assert_int_equal(notifier_next_ns(r.notifier), (round * 5 + 5) * INT64_C(1000000));
            } else {
                EXPECT_SENT(&r, 3);
            }
            clock_fake_advance(r.driver.clock, 1);
        }
    }
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 3); /* what was told since the last one */
    pass_ms(&r, 5);
    EXPECT_NOTHING(&r);
    assert_int_equal(notifier_stats_now(r.notifier).sent, 21);
    fixture_close(&r);
}

static void every_target_has_its_own_time(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    notifier_tell(r.notifier, 3);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 3);
    pass_ms(&r, 2);
    notifier_tell(r.notifier, 3);
    notifier_tell(r.notifier, 4);
    notifier_tell(r.notifier, 5);
    notifier_poll(r.notifier);
    assert_int_equal(r.driver.trips, 1);
    EXPECT_SENT(&r, 4, 5);
    pass_ms(&r, 3);
    EXPECT_SENT(&r, 3);
    fixture_close(&r);
}

static void a_notification_for_all_covers_each_node(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    notifier_tell(r.notifier, 3);
    notifier_tell(r.notifier, NOTIFY_ALL_NODES);
    notifier_tell(r.notifier, 4);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 0);
    pass_ms(&r, 10);
    EXPECT_NOTHING(&r); /* 3 and 4 have heard it */

    /* A notification for all may have to wait; one for a named node does not. */
    notifier_tell(r.notifier, NOTIFY_ALL_NODES);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 0);
    notifier_tell(r.notifier, NOTIFY_ALL_NODES);
    notifier_tell(r.notifier, 3);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 3);
    pass_ms(&r, 5);
    EXPECT_SENT(&r, 0);
    fixture_close(&r);
}

static void a_node_does_not_notify_itself(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    notifier_tell(r.notifier, 7);
    assert_false(readable(notifier_fd(r.notifier)));
    pass_ms(&r, 5);
    EXPECT_NOTHING(&r);
    assert_int_equal(notifier_stats_now(r.notifier).told, 1);
    fixture_close(&r);
}

/* The table is bounded: a target that finds no line in it turns into a notification for all, and no
 * target is left out. */
static void too_many_targets_become_one_for_all(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    for (int64_t node = 100; node < 100 + LINES - 1; node++)
        notifier_tell(r.notifier, node);
    notifier_poll(r.notifier);
    assert_int_equal(r.driver.trips, 1);
    assert_int_equal(r.driver.count, LINES - 1);
    for (int i = 0; i < LINES - 1; i++)
        assert_int_equal(r.driver.sent[i], 100 + i);
    notifier_fixture_clear(&r.driver);

    /* All lines are in use for 5 ms: forgetting one would let it be told too often. */
    notifier_tell(r.notifier, 1000);
    notifier_tell(r.notifier, 1001);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 0);
    pass_ms(&r, 5);
    EXPECT_NOTHING(&r);

    notifier_tell(r.notifier, 1000);
    notifier_tell(r.notifier, 1001);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 1000, 1001);
    fixture_close(&r);
}

static void what_is_pending_is_sent_at_the_close(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    notifier_tell(r.notifier, 3);
    notifier_poll(r.notifier);
    notifier_tell(r.notifier, 3);
    notifier_tell(r.notifier, 4);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 3, 4);
    notifier_tell(r.notifier, 4);
    notifier_close(r.notifier);
    EXPECT_SENT(&r, 3, 4);
    notifier_fixture_close(&r.driver);
}

/* ---- Hearing ---- */

static void a_notification_is_heard_once(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    assert_false(readable(notifier_fd(r.notifier)));
    assert_int_equal(notifier_poll(r.notifier), 0);
    tmp_tell(r.driver.pipe[1], 'x');
    tmp_tell(r.driver.pipe[1], 'x');
    assert_true(readable(notifier_fd(r.notifier)));
    assert_int_equal(notifier_poll(r.notifier), 1);
    assert_false(readable(notifier_fd(r.notifier)));
    assert_int_equal(notifier_poll(r.notifier), 0);
    assert_int_equal(r.calls, 2);
    assert_int_equal(notifier_stats_now(r.notifier).heard, 1);
    fixture_close(&r);
}

static void notifier_tell_makes_the_descriptor_readable(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    for (int round = 0; round < 3; round++) {
        assert_false(readable(notifier_fd(r.notifier)));
        notifier_tell(r.notifier, 3);
        notifier_tell(r.notifier, 4);
        assert_true(readable(notifier_fd(r.notifier)));
        notifier_poll(r.notifier);
        assert_false(readable(notifier_fd(r.notifier)));
        EXPECT_SENT(&r, 3, 4);
        clock_fake_advance(r.driver.clock, 5);
    }
    fixture_close(&r);
}

static void without_a_descriptor_notifications_are_sent(void **state)
{
    (void)state;
    fixture r = {0};
    notifier_fixture_open(&r.driver);
    r.driver.deaf = 1;
    assert_int_equal(try_open(&r, 1), PAWL_OK);
    notifier_poll(r.notifier);
    notifier_tell(r.notifier, 3);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 3);
    assert_int_equal(r.calls, 1);
    fixture_close(&r);
}

/* ---- Lost connections ---- */

/* Notifications of the meantime are lost: so on_heard is called when there is a connection
 * again. */
static void a_lost_connection_is_made_anew(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    int fd = notifier_fd(r.notifier);
    r.driver.lost = 1;
    tmp_tell(r.driver.pipe[1], 'x');
    assert_true(readable(fd));
    assert_int_equal(notifier_poll(r.notifier), 0);
    assert_int_equal(atomic_load(&r.driver.open), 0);
    notifier_tell(r.notifier, 3);
    notifier_poll(r.notifier); /* not yet */
    assert_int_equal(atomic_load(&r.driver.connects), 1);
    assert_int_equal(notifier_next_ns(r.notifier), 10 * INT64_C(1000000));

    clock_fake_advance(r.driver.clock, 10);
    assert_int_equal(notifier_poll(r.notifier), 1);
    assert_int_equal(atomic_load(&r.driver.connects), 2);
    assert_int_equal(notifier_stats_now(r.notifier).reconnects, 1);
    EXPECT_SENT(&r, 3);
    notifier_fixture_expect_log(&r.driver, "notifier-lost notifier-back ");
    assert_int_equal(notifier_fd(r.notifier), fd);
    tmp_tell(r.driver.pipe[1], 'x');
    assert_true(readable(fd));
    assert_int_equal(notifier_poll(r.notifier), 1);
    fixture_close(&r);
}

static void the_back_off_grows(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    r.driver.notify_code = PAWL_UNREACHABLE;
    r.driver.connect_code = PAWL_UNREACHABLE;
    notifier_tell(r.notifier, 3);
    notifier_poll(r.notifier);
    assert_int_equal(atomic_load(&r.driver.open), 0);
    clock_source *clock = clock_fake_source(r.driver.clock);
    for (int64_t ms = 10; ms < 100000; ms *= 2) {
        int64_t next = notifier_next_ns(r.notifier);
        assert_int_equal(next - clock->mono_ns(clock), (ms < 1000 ? ms : 1000) * 1000000);
        assert_false(readable(notifier_fd(r.notifier)));
        pass_ms(&r, (next - clock->mono_ns(clock)) / 1000000);
    }
    int connects = atomic_load(&r.driver.connects);
    pass_ms(&r, 999);
    assert_int_equal(atomic_load(&r.driver.connects), connects);

    /* A connection that breaks at once has not been good for anything: no haste. */
    r.driver.connect_code = PAWL_OK;
    pass_ms(&r, 1);
    assert_int_equal(atomic_load(&r.driver.connects), connects + 1);
    assert_int_equal(notifier_next_ns(r.notifier) - clock->mono_ns(clock), 1000 * INT64_C(1000000));
    r.driver.notify_code = PAWL_OK;
    pass_ms(&r, 1000);
    EXPECT_SENT(&r, 3);
    r.driver.lost = 1;
    pass_ms(&r, 1);
    assert_int_equal(notifier_next_ns(r.notifier) - clock->mono_ns(clock), 10 * INT64_C(1000000));
    fixture_close(&r);
}

static void a_server_may_come_later(void **state)
{
    (void)state;
    fixture r = {0};
    notifier_fixture_open(&r.driver);
    r.driver.connect_code = PAWL_UNREACHABLE;
    assert_int_equal(try_open(&r, 1), PAWL_OK);
    notifier_fixture_expect_log(&r.driver, "notifier-lost ");
    notifier_tell(r.notifier, 3);
    pass_ms(&r, 10);
    assert_int_equal(atomic_load(&r.driver.connects), 2);
    r.driver.connect_code = PAWL_OK;
    clock_fake_advance(r.driver.clock, 20);
    assert_int_equal(notifier_poll(r.notifier), 1);
    EXPECT_SENT(&r, 3);
    notifier_fixture_expect_log(&r.driver, "notifier-back ");
    fixture_close(&r);
}

static void what_cannot_get_better_is_refused(void **state)
{
    (void)state;
    fixture r = {0};
    notifier_fixture_open(&r.driver);
    r.driver.connect_code = PAWL_DENIED;
    assert_int_equal(try_open(&r, 1), PAWL_DENIED);
    assert_null(r.notifier);
    r.driver.connect_code = PAWL_OK;
    r.driver.listen_code = PAWL_CANTOPEN;
    assert_int_equal(try_open(&r, 0), PAWL_CANTOPEN);
    assert_null(r.notifier);
    notifier_fixture_close(&r.driver);
}

/* It is a hint: not worth a second attempt, nor a new connection. */
static void a_notification_that_is_refused_is_dropped(void **state)
{
    (void)state;
    fixture r;
    fixture_open(&r);
    r.driver.notify_code = PAWL_FULL;
    for (int i = 0; i < 3; i++) {
        notifier_tell(r.notifier, 3);
        pass_ms(&r, 5);
    }
    notifier_fixture_expect_log(&r.driver, "notifier-failed ");
    r.driver.notify_code = PAWL_OK;
    pass_ms(&r, 5);
    EXPECT_NOTHING(&r);
    assert_int_equal(notifier_stats_now(r.notifier).sent, 0);
    assert_int_equal(atomic_load(&r.driver.connects), 1);
    notifier_fixture_expect_log(&r.driver, "");
    notifier_tell(r.notifier, 3);
    notifier_poll(r.notifier);
    EXPECT_SENT(&r, 3);
    notifier_fixture_expect_log(&r.driver, "notifier-again ");
    fixture_close(&r);
}

static void lose_and_connect_again(fixture *r)
{
    r->driver.lost = 1;
    notifier_poll(r->notifier);
    pass_ms(r, 1000);
}

/* Whether the session of the node has the lock that shows its life is told when that changes. */
static void a_node_without_a_lock(void **state)
{
    (void)state;
    fixture r = {.wants_lock = 1};
    notifier_fixture_open(&r.driver);
    assert_int_equal(try_open(&r, 1), PAWL_OK);
    notifier_fixture_expect_log(&r.driver, "no-node-lock ");
    lose_and_connect_again(&r);
    notifier_fixture_expect_log(&r.driver, "notifier-lost notifier-back ");
    r.driver.lock_server = 5;
    lose_and_connect_again(&r);
    assert_int_equal(r.server, 5);
    notifier_fixture_expect_log(&r.driver, "notifier-lost node-lock-again notifier-back ");
    lose_and_connect_again(&r);
    notifier_fixture_expect_log(&r.driver, "notifier-lost notifier-back ");
    fixture_close(&r);
}

/* An engine that has no notifier tries again whenever it wants to hear others, or to be heard. */
static void an_engine_without_a_notifier(void **state)
{
    (void)state;
    notify n;
    fixture r = {0};
    notifier_fixture_open(&r.driver);
    r.driver.driver.promises = DB_SHARED;
    r.driver.connect_code = PAWL_DENIED;
    notify_init(&n, &r.driver.base);
    notify_listen(&n, NULL, count_call, NULL, &r);
    for (int i = 0; i < 3; i++)
        notify_open(&n, 0);
    assert_int_equal(atomic_load(&r.driver.connects), 3);
    notifier_fixture_expect_log(&r.driver, "no-notifier ");
    r.driver.connect_code = PAWL_OK;
    for (int i = 0; i < 3; i++)
        notify_open(&n, 0);
    notifier_fixture_expect_log(&r.driver, "notifier-back ");
    notify_free(&n);
    notifier_fixture_close(&r.driver);
}

/* ---- With a thread ---- */

enum { TELLERS = 4, ROUNDS = 2000 };

typedef struct teller {
    fixture *fixture;
    int64_t node;
} teller;

static void *tell_often(void *arg)
{
    teller *t = arg;
    for (int i = 0; i < ROUNDS; i++) {
        notifier_tell(t->fixture->notifier, t->node);
        notifier_tell(t->fixture->notifier, 50);
    }
    return NULL;
}

/* Whichever thread tells, and whenever: after the last telling another notification goes out. Here
 * the clock is the system's, because the thread waits for descriptors. */
static void no_notification_is_lost(void **state)
{
    (void)state;
    fixture r = {0};
    notifier_fixture_open(&r.driver);
    r.driver.base.options.clock = clock_system();
    assert_int_equal(try_open(&r, 0), PAWL_OK);
    TMP_AWAIT(atomic_load(&r.calls) == 1);
    pthread_t threads[TELLERS];
    teller tellers[TELLERS];
    for (int i = 0; i < TELLERS; i++) {
        tellers[i] = (teller){&r, 10 + i};
        assert_int_equal(pthread_create(&threads[i], NULL, tell_often, &tellers[i]), 0);
    }
    for (int i = 0; i < TELLERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    notifier_fixture_clear(&r.driver);
    for (int i = 0; i < TELLERS; i++)
        notifier_tell(r.notifier, 10 + i);
    for (int i = 0; i < TELLERS; i++)
        TMP_AWAIT(notifier_fixture_has(&r.driver, 10 + i));
    tmp_tell(r.driver.pipe[1], 'x');
    TMP_AWAIT(atomic_load(&r.calls) == 2);
    notifier_stats s = notifier_stats_now(r.notifier);
    assert_int_equal(s.told, TELLERS * ROUNDS * 2 + TELLERS);
    assert_true(s.sent <= s.told);
    assert_int_equal(s.heard, 1);
    fixture_close(&r);
}

static void the_thread_comes_back_by_itself(void **state)
{
    (void)state;
    fixture r = {0};
    notifier_fixture_open(&r.driver);
    r.driver.base.options.clock = clock_system();
    r.driver.connect_code = PAWL_UNREACHABLE;
    assert_int_equal(try_open(&r, 0), PAWL_OK);
    notifier_tell(r.notifier, 3);
    TMP_AWAIT(atomic_load(&r.driver.connects) > 2);
    notifier_close(r.notifier); /* it does not wait for the server */
    assert_int_equal(r.calls, 0);
    EXPECT_NOTHING(&r);
    notifier_fixture_close(&r.driver);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_notification_is_sent_at_once),
        cmocka_unit_test(a_thousand_notifications_become_one),
        cmocka_unit_test(five_milliseconds_lie_between_two),
        cmocka_unit_test(every_target_has_its_own_time),
        cmocka_unit_test(a_notification_for_all_covers_each_node),
        cmocka_unit_test(a_node_does_not_notify_itself),
        cmocka_unit_test(too_many_targets_become_one_for_all),
        cmocka_unit_test(what_is_pending_is_sent_at_the_close),
        cmocka_unit_test(a_notification_is_heard_once),
        cmocka_unit_test(notifier_tell_makes_the_descriptor_readable),
        cmocka_unit_test(without_a_descriptor_notifications_are_sent),
        cmocka_unit_test(a_lost_connection_is_made_anew),
        cmocka_unit_test(the_back_off_grows),
        cmocka_unit_test(a_server_may_come_later),
        cmocka_unit_test(what_cannot_get_better_is_refused),
        cmocka_unit_test(a_notification_that_is_refused_is_dropped),
        cmocka_unit_test(a_node_without_a_lock),
        cmocka_unit_test(an_engine_without_a_notifier),
        cmocka_unit_test(no_notification_is_lost),
        cmocka_unit_test(the_thread_comes_back_by_itself),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
