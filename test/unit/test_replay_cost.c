/* What replay costs: work that grows with the rows and asks and not faster, also with a hundred
 * thousand ops open at once; memory that does not grow with the length of a journal at all.
 *
 * Work is counted in rows looked at, memory by the arena: neither depends on the machine. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "journal/replay.h"

enum { PAGE = 64 };

/* Rows made as they are asked for: the k-th, from 0. */
typedef void row_fn(int64_t n, int64_t k, replay_row *row);

typedef struct loader {
    replay *replay;
    row_fn *make;
    int64_t n, count, fed;
    replay_row page[PAGE];
    int64_t arrived;
} loader;

static void feed_next(loader *l)
{
    size_t size = 0;
    for (; size < PAGE && l->fed < l->count; size++, l->fed++) {
        l->page[size] = (replay_row){.seq = l->fed + 1, .data = SLICE_LIT("null")};
        l->make(l->n, l->fed, &l->page[size]);
    }
    assert_int_equal(replay_feed(l->replay, l->page, size), PAWL_OK);
    if (l->fed == l->count)
        assert_int_equal(replay_fed_all(l->replay, l->count), PAWL_OK);
}

static int again(loader *l, replay_result result)
{
    if (result == REPLAY_MORE)
        feed_next(l);
    l->arrived += result == REPLAY_ARRIVED;
    return result == REPLAY_MORE || result == REPLAY_ARRIVED;
}

static replay_result ask_start(loader *l)
{
    const replay_row *row;
    replay_result result;
    while (again(l, result = replay_start(l->replay, &row)))
        ;
    return result;
}

static replay_result ask_op(loader *l, op_kind kind)
{
    const replay_row *row;
    replay_result result;
    while (again(l, result = replay_op(l->replay, kind, SLICE_LIT(""), &row)))
        ;
    return result;
}

static replay_result ask_answer(loader *l, int64_t op)
{
    const replay_row *row;
    replay_result result;
    while (again(l, result = replay_answer(l->replay, op, &row)))
        ;
    return result;
}

/* ---- work ---- */

/* n calls, answered in another order: every seventh, over and over. */
static void fan_out(int64_t n, int64_t k, replay_row *row)
{
    row->kind = k == 0 ? OP_STARTED : k <= n ? OP_CALL : OP_DONE;
    if (k > n)
        row->op = 2 + (k - n) * 7 % n;
}

static int64_t work_of_fan_out(int64_t n)
{
    arena *a = arena_new(0);
    loader l = {.replay = replay_new(a, 0), .make = fan_out, .n = n, .count = 2 * n + 1};
    assert_int_equal(ask_start(&l), REPLAY_RECORDED);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(ask_op(&l, OP_PATCH), REPLAY_PASSED);
        assert_int_equal(ask_op(&l, OP_CALL), REPLAY_RECORDED);
    }
    for (int64_t i = n; i > 0; i--)
        assert_int_equal(ask_answer(&l, 1 + i), REPLAY_RECORDED);
    assert_int_equal(replay_waiting(l.replay), 0);
    int64_t work = replay_work(l.replay);
    arena_free(a);
    return work;
}

static int64_t work_of_live_fan_out(int64_t n)
{
    arena *a = arena_new(0);
    loader l = {.replay = replay_new(a, 0)};
    replay_row *rows = calloc((size_t)n, sizeof *rows);
    const replay_row *row;
    assert_non_null(rows);
    assert_int_equal(replay_fed_all(l.replay, 0), PAWL_OK);
    assert_int_equal(replay_start(l.replay, &row), REPLAY_NEW);
    assert_int_equal(replay_append(l.replay, &(replay_row){.kind = OP_STARTED}), PAWL_OK);
    for (int64_t i = 0; i < n; i++) {
        assert_int_equal(ask_op(&l, OP_CALL), REPLAY_NEW);
        assert_int_equal(replay_append(l.replay, &(replay_row){.kind = OP_CALL}), PAWL_OK);
        rows[i] = (replay_row){.kind = OP_DONE, .op = 2 + i * 7 % n};
    }
    assert_int_equal(replay_waiting(l.replay), n);
    assert_int_equal(ask_answer(&l, 2), REPLAY_NEW);
    assert_int_equal(replay_arrive(l.replay, rows, (size_t)n), n);
    for (int64_t i = n; i > 0; i--)
        assert_int_equal(ask_answer(&l, 1 + i), REPLAY_RECORDED);
    int64_t work = replay_work(l.replay);
    free(rows);
    arena_free(a);
    return work;
}

static void work_grows_with_the_rows(void **state)
{
    (void)state;
    int64_t (*const WORKS[])(int64_t) = {work_of_fan_out, work_of_live_fan_out};
    for (size_t i = 0; i < 2; i++) {
        int64_t small = WORKS[i](10000), large = WORKS[i](100000);
        assert_in_range(small, 40000, 55000); /* per op: two rows in, two or three looks */
        assert_in_range(large, 9 * small, 11 * small);
    }
}

/* ---- memory ---- */

/* A loop that sleeps, with an old call open all the time. */
static void long_loop(int64_t n, int64_t k, replay_row *row)
{
    (void)n;
    row->kind = k == 0 ? OP_STARTED : k == 1 ? OP_CALL : k % 2 == 0 ? OP_SLEEP : OP_FIRED;
    row->op = row->kind == OP_FIRED ? k : 0;
}

static void memory_is_that_of_what_is_open(void **state)
{
    (void)state;
    enum { TURNS = 100000 };
    arena *a = arena_new(0);
    loader l = {.replay = replay_new(a, 0), .make = long_loop, .count = 2 + 2 * TURNS};
    size_t used = 0;
    assert_int_equal(ask_start(&l), REPLAY_RECORDED);
    assert_int_equal(ask_op(&l, OP_CALL), REPLAY_RECORDED);
    for (int64_t i = 0; i < 2 * TURNS; i++) { /* the second half of them live */
        int live = i >= TURNS;
        int64_t op = 3 + 2 * i;
        assert_int_equal(ask_op(&l, OP_SLEEP), live ? REPLAY_NEW : REPLAY_RECORDED);
        if (live) {
            replay_row row = {.kind = OP_SLEEP}, fired = {.kind = OP_FIRED, .op = op};
            assert_int_equal(replay_append(l.replay, &row), PAWL_OK);
            assert_int_equal(row.seq, op);
            assert_int_equal(replay_arrive(l.replay, &fired, 1), 1);
            assert_int_equal(ask_answer(&l, op), REPLAY_RECORDED);
        } else {
            assert_int_equal(ask_answer(&l, op), REPLAY_RECORDED);
        }
        assert_in_range(replay_waiting(l.replay), 1, 1 + PAGE);
        if (i == PAGE)
            used = arena_used(a);
    }
    assert_int_equal(arena_used(a), used);
    assert_int_equal(replay_waiting(l.replay), 1);
    assert_int_equal(replay_seq(l.replay), 2 + 4 * TURNS);
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(work_grows_with_the_rows),
        cmocka_unit_test(memory_is_that_of_what_is_open),
    };
    return cmocka_run_group_tests_name("replay_cost", tests, NULL, NULL);
}
