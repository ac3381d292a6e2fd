/* The turnstile alone (a fair lock): an engine that waits goes before one that comes back.
 *
 * SQLite and a single lock both let the engine that has just written write again, because it is
 * awake and the others have to be woken (B2). Two locks do not: here one engine leaves its turn and
 * asks again at once, while another is known to be waiting. Locks belong to descriptions, so two
 * engines of one process are as good as two processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>

#include "db/turnstile.h"
#include "support/tmp.h"

enum { ROUNDS = 50, BYTE_T = 0 };

typedef struct guest {
    turnstile *turn;
    liveness_file *file;
    pthread_t thread;
    atomic_int inside;
    atomic_int may_leave;
} guest;

static void *visit(void *arg)
{
    guest *g = arg;
    int entered = turnstile_enter(g->turn);
    atomic_store(&g->inside, entered);
    TMP_AWAIT(atomic_load(&g->may_leave));
    turnstile_leave(g->turn);
    return NULL;
}

static liveness_file *open_file(const char *path)
{
    liveness_file *f = NULL;
    assert_int_equal(liveness_file_open(&f, path, NULL), PAWL_OK);
    return f;
}

static void one_round(turnstile *again, liveness_file *seen_by_first, guest *g)
{
    atomic_store(&g->inside, 0);
    atomic_store(&g->may_leave, 0);
    assert_int_equal(turnstile_enter(again), 1);
    /* In the first half of a turn the first lock is ours too: an engine that has just left finds it
     * taken. */
    assert_int_equal(liveness_file_alive(g->file, BYTE_T), 1);
    assert_int_equal(pthread_create(&g->thread, NULL, visit, g), 0);
    /* We let the next one step up. It waits for our turn to end once it has the first lock. */
    turnstile_pass(again);
    TMP_AWAIT(liveness_file_alive(seen_by_first, BYTE_T) == 1);
    assert_int_equal(atomic_load(&g->inside), 0);

    turnstile_leave(again);
    assert_int_equal(turnstile_enter(again), 0);
    TMP_AWAIT(atomic_load(&g->inside));
    assert_int_equal(turnstile_enter(again), 0);

    atomic_store(&g->may_leave, 1);
    pthread_join(g->thread, NULL);
    assert_int_equal(turnstile_given_up(g->turn), 0);
    assert_int_equal(turnstile_enter(again), 1);
    turnstile_leave(again);
}

static void a_waiting_engine_goes_before_one_that_comes_back(void **state)
{
    (void)state;
    if (tmp_under_valgrind())
        skip();
    char folder[TMP_PATH];
    char path[TMP_PATH];
    tmp_dir_make(folder);
    tmp_path(path, folder, "a.db");
    liveness_file *first = open_file(path);
    guest g = {.file = open_file(path)};
    /* By hand it never blocks, so that "not yet" can be seen; its patience is endless here. */
    turnstile *again = turnstile_new(first, clock_system(), 1, 1000000);
    g.turn = turnstile_new(g.file, clock_system(), 0, 1000000);
    for (int i = 0; i < ROUNDS; i++)
        one_round(again, first, &g);
    turnstile_free(again);
    turnstile_free(g.turn);
    liveness_file_close(first);
    liveness_file_close(g.file);
    tmp_dir_remove(folder);
}

/* ---- Patience ---- */

enum { BYTE_M = 1, PATIENCE_MS = 1000 };

/* An engine that has the turn and does not move; and a clock that does not move either. */
typedef struct fixture {
    char folder[TMP_PATH];
    liveness_file *stuck;
    liveness_file *ours;
    clock_fake *clock;
    turnstile *turn;
} fixture;

static void fixture_open(fixture *s, int by_hand)
{
    char path[TMP_PATH];
    tmp_watchdog("patience at the turnstile");
    tmp_dir_make(s->folder);
    tmp_path(path, s->folder, "a.db");
    s->stuck = open_file(path);
    s->ours = open_file(path);
    assert_int_equal(liveness_file_lock(s->stuck, BYTE_T, 0), 0);
    assert_int_equal(liveness_file_lock(s->stuck, BYTE_M, 0), 0);
    s->clock = clock_fake_new(0);
    s->turn = turnstile_new(s->ours, clock_fake_source(s->clock), by_hand, PATIENCE_MS);
    assert_non_null(s->turn);
}

static void fixture_close(fixture *s)
{
    turnstile_free(s->turn);
    clock_fake_free(s->clock);
    liveness_file_close(s->ours);
    liveness_file_close(s->stuck);
    tmp_dir_remove(s->folder);
    tmp_watchdog(NULL);
}

/* One wait for a process that stands still is enough; the next batches must not each wait for it
 * anew. That the clock stands still makes such a wait one for ever. */
static void a_time_out_is_waited_for_once(void **state)
{
    (void)state;
    if (tmp_under_valgrind())
        skip();
    fixture s;
    fixture_open(&s, 0);
    guest g = {.turn = s.turn, .may_leave = 1};
    assert_int_equal(pthread_create(&g.thread, NULL, visit, &g), 0);
    TMP_AWAIT((clock_fake_advance(s.clock, 100), atomic_load(&g.inside)));
    pthread_join(g.thread, NULL);
    assert_int_equal(turnstile_given_up(s.turn), 1);
    for (int i = 0; i < 10; i++) {
        assert_int_equal(turnstile_enter(s.turn), 1);
        turnstile_pass(s.turn);
        turnstile_leave(s.turn);
    }
    /* It moves again: what has queued for us is handed back, and we take turns as before. */
    liveness_file_unlock(s.stuck, BYTE_T);
    liveness_file_unlock(s.stuck, BYTE_M);
    TMP_AWAIT((turnstile_enter(s.turn), liveness_file_alive(s.stuck, BYTE_M) == 1) ||
              (turnstile_leave(s.turn), 0));
    turnstile_leave(s.turn);
    assert_int_equal(liveness_file_alive(s.stuck, BYTE_T), 0);
    assert_int_equal(liveness_file_alive(s.stuck, BYTE_M), 0);
    assert_true(turnstile_wait_ns_max(s.turn) >= PATIENCE_MS * INT64_C(1000000));
    fixture_close(&s);
}

/* By hand: an engine that was let in and found SQLite locked has not had its turn. It may come back
 * at once, as often as it takes, until it has written. */
static void by_hand_a_time_out_stays_over_until_a_write(void **state)
{
    (void)state;
    fixture s;
    fixture_open(&s, 1);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(turnstile_enter(s.turn), 0);
        clock_fake_advance(s.clock, PATIENCE_MS / 4);
    }
    for (int i = 0; i < 10; i++) {
        assert_int_equal(turnstile_enter(s.turn), 1);
        turnstile_leave(s.turn); /* SQLite was locked */
        clock_fake_advance(s.clock, 1);
    }
    assert_int_equal(turnstile_given_up(s.turn), 0);
    assert_int_equal(turnstile_enter(s.turn), 1);
    turnstile_pass(s.turn);
    turnstile_leave(s.turn);
    assert_int_equal(turnstile_given_up(s.turn), 1);
    assert_int_equal(turnstile_enter(s.turn), 0); /* a new turn, a new patience */
    fixture_close(&s);
}

/* By hand: time in which no engine asked is no waiting. */
static void by_hand_being_away_is_not_waiting(void **state)
{
    (void)state;
    fixture s;
    fixture_open(&s, 1);
    assert_int_equal(turnstile_enter(s.turn), 0);
    clock_fake_advance(s.clock, 100 * PATIENCE_MS);
    assert_int_equal(turnstile_enter(s.turn), 0);
    clock_fake_advance(s.clock, PATIENCE_MS);
    assert_int_equal(turnstile_enter(s.turn), 1);
    turnstile_leave(s.turn);
    assert_true(turnstile_wait_ns_max(s.turn) < 2 * PATIENCE_MS * INT64_C(1000000));
    fixture_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_waiting_engine_goes_before_one_that_comes_back),
        cmocka_unit_test(a_time_out_is_waited_for_once),
        cmocka_unit_test(by_hand_a_time_out_stays_over_until_a_write),
        cmocka_unit_test(by_hand_being_away_is_not_waiting),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
