/* The heap of timers: against a list that is searched from end to end, with random puts and takes,
 * and its own order after every step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "base/heap.h"

enum { TIMERS = 200, STEPS = 20000 };

/* The list is the timers themselves: those with a place are in the heap. */
typedef struct model {
    timer timers[TIMERS];
    size_t count;
} model;

static int is_before(const timer *a, const timer *b)
{
    return a->due_ms != b->due_ms ? a->due_ms < b->due_ms : a->rank < b->rank;
}

static timer *first_of(model *m)
{
    timer *first = NULL;
    for (size_t i = 0; i < TIMERS; i++)
        if (m->timers[i].place && (!first || is_before(&m->timers[i], first)))
            first = &m->timers[i];
    return first;
}

static void check_same(const heap *h, model *m)
{
    const timer *first = first_of(m);
    assert_int_equal(h->count, m->count);
    assert_true(h->count <= h->room);
    assert_ptr_equal(heap_first(h), first ? first->owner : NULL);
    assert_true(heap_due_ms(h) == (first ? first->due_ms : INT64_MAX));
    for (size_t i = 1; i <= h->count; i++) {
        assert_int_equal(h->at[i - 1]->place, i);
        assert_true(i == 1 || !is_before(h->at[i - 1], h->at[i / 2 - 1]));
    }
}

static void put(heap *h, model *m, size_t i, int64_t due_ms)
{
    m->timers[i].rank = (int64_t)i; /* so that the order is total */
    assert_int_equal(heap_put(h, &m->timers[i], &m->timers[i], due_ms), 1);
    m->count++;
}

static void take(heap *h, model *m, timer *one)
{
    m->count -= one->place != 0;
    heap_take(h, one);
    assert_int_equal(one->place, 0);
}

/* Each step puts one in or takes it out, wherever it is; often several are due at one moment. */
static void a_heap_is_in_the_order_of_a_sorted_list(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 3; seed++) {
        model m = {.count = 0};
        heap h = {0};
        random_seeded r;
        random_seeded_init(&r, seed);
        for (int step = 0; step < STEPS; step++) {
            uint32_t dice[2];
            r.source.fill(&r.source, dice, sizeof dice);
            size_t i = dice[0] % TIMERS;
            if (m.timers[i].place)
                take(&h, &m, &m.timers[i]);
            else
                put(&h, &m, i, dice[1] % 64 - 16);
            check_same(&h, &m);
        }
        while (h.count > 0) {
            take(&h, &m, heap_first(&h));
            check_same(&h, &m);
        }
        heap_free(&h);
        assert_null(h.at);
    }
}

/* The last timer goes where another was taken out, and may be due before what is above it. */
static void a_gap_is_filled_from_another_branch(void **state)
{
    (void)state;
    static const int64_t DUE[] = {0, 10, 1, 11, 12, 2, 3};
    model m = {.count = 0};
    heap h = {0};
    for (size_t i = 0; i < sizeof DUE / sizeof *DUE; i++)
        put(&h, &m, i, DUE[i]);
    take(&h, &m, &m.timers[3]); /* below 10; 3 takes its place and has to rise */
    check_same(&h, &m);
    heap_free(&h);
}

static void a_timer_in_no_heap_is_not_taken(void **state)
{
    (void)state;
    heap h = {0};
    timer one = {0};
    heap_take(&h, &one);
    assert_null(heap_first(&h));
    assert_true(heap_due_ms(&h) == INT64_MAX);
    heap_free(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_heap_is_in_the_order_of_a_sorted_list),
        cmocka_unit_test(a_gap_is_filled_from_another_branch),
        cmocka_unit_test(a_timer_in_no_heap_is_not_taken),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
