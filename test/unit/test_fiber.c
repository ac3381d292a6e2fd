#define _GNU_SOURCE /* mincore, execinfo.h */
/* Fibers: what a switch must keep, where a stack ends, and what a parked fiber costs. What must end
 * the process is done in a child.
 *
 * test_fiber_ucontext.c includes this file, to run the same tests with the other switch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <execinfo.h>
#endif

#include "fiber/fiber.h"
#include "fiber/stack.h"
#include "support/fibers.h"
#include "support/registers.h"
#include "support/tmp.h"

/* ---- Switching ---- */

enum { ROUNDS = 100000 };

static void count_up(fiber *f, void *arg)
{
    int *counter = arg;
    for (int i = 0; i < ROUNDS; i++) {
        ++*counter;
        if (i % 2)
            fiber_park(f);
        else
            fiber_pause(f);
    }
}

static void ping_pong(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(1);
    int counter = 0;
    fiber *f = fibers_new(p, count_up, &counter);
    assert_int_equal(counter, 0);
    for (int i = 1; i <= ROUNDS; i++) {
        fiber_resume(f);
        assert_int_equal(counter, i);
        assert_false(fiber_done(f));
    }
    fiber_resume(f);
    assert_true(fiber_done(f));
    assert_int_equal(counter, ROUNDS);
    fiber_free(f);
    fiber_pool_free(p);
}

typedef struct keeper {
    uint64_t seed;
    int rounding;
    double third; /* 1/3, as rounded there */
    long double long_third;
    uint64_t changed;
    int modes_changed;
} keeper;

static volatile double one = 1, three = 3;
static volatile long double long_one = 1, long_three = 3;

static void park_it(void *f)
{
    fiber_park(f);
}

static void keep(fiber *f, void *arg)
{
    keeper *k = arg;
    fesetround(k->rounding);
    k->third = one / three;
    k->long_third = long_one / long_three;
    for (int i = 0; i < 3; i++) {
        k->changed |= registers_changed_by(park_it, f, k->seed);
        k->modes_changed |= fegetround() != k->rounding;
        k->modes_changed |= one / three != k->third;
        k->modes_changed |= long_one / long_three != k->long_third;
    }
}

static void resume_all(void *arg)
{
    fiber **fibers = arg;
    for (; *fibers; fibers++)
        fiber_resume(*fibers);
}

static void registers_and_modes_of_floating_point_survive(void **state)
{
    (void)state;
    keeper keepers[] = {
        {.seed = 0x1111111111111111, .rounding = FE_UPWARD},
        {.seed = 0x2222222222222222, .rounding = FE_DOWNWARD},
        {.seed = 0x4444444444444444, .rounding = FE_TONEAREST},
    };
    fiber_pool *p = fibers_pool(3);
    fiber *fibers[4] = {0};
    for (int i = 0; i < 3; i++)
        fibers[i] = fibers_new(p, keep, &keepers[i]);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(registers_changed_by(resume_all, fibers, 0x7777777777777777), 0);
        assert_int_equal(fegetround(), FE_TONEAREST);
    }
    for (int i = 0; i < 3; i++) {
        assert_true(fiber_done(fibers[i]));
        assert_int_equal(keepers[i].changed, 0);
        assert_int_equal(keepers[i].modes_changed, 0);
        fiber_free(fibers[i]);
    }
    /* Otherwise the modes were never changed, and nothing was shown. valgrind does not round. */
    if (!tmp_under_valgrind()) {
        assert_true(keepers[0].third > keepers[1].third);
        assert_true(keepers[0].long_third > keepers[1].long_third);
    }
    fiber_pool_free(p);
}

static void tell_rounding(fiber *f, void *arg)
{
    (void)f;
    *(int *)arg = fegetround();
}

static void modes_are_at_first_those_of_the_maker(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(1);
    int rounding = -1;
    fesetround(FE_UPWARD);
    fiber *f = fibers_new(p, tell_rounding, &rounding);
    fesetround(FE_TONEAREST);
    fiber_resume(f);
    assert_int_equal(rounding, FE_UPWARD);
    assert_int_equal(fegetround(), FE_TONEAREST);
    fiber_free(f);
    fiber_pool_free(p);
}

#if defined(__GLIBC__)
static void trace(fiber *f, void *arg)
{
    (void)f;
    void *frames[64];
    *(int *)arg = backtrace(frames, 64);
}
#endif

static void a_backtrace_ends_with_the_fiber(void **state)
{
    (void)state;
#if defined(__GLIBC__)
    fiber_pool *p = fibers_pool(1);
    int frames = 0;
    fiber *f = fibers_new(p, trace, &frames);
    fiber_resume(f);
    assert_in_range(frames, 1, 8);
    fiber_free(f);
    fiber_pool_free(p);
#else
    skip();
#endif
}

/* ---- The end of the stack ---- */

typedef struct dive {
    char *start;
    size_t most;
    size_t reached;
} dive;

static size_t sum_down(dive *d, unsigned level)
{
    volatile unsigned char frame[256];
    for (size_t i = 0; i < sizeof frame; i++)
        frame[i] = (unsigned char)(level + i);
    d->reached = (size_t)(d->start - (char *)__builtin_frame_address(0));
    size_t sum = d->reached < d->most ? sum_down(d, level + 1) : 0;
    for (size_t i = 0; i < sizeof frame; i++)
        sum += frame[i] != (unsigned char)(level + i);
    return sum;
}

static void dive_and_park(fiber *f, void *arg)
{
    dive *d = arg;
    d->start = __builtin_frame_address(0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(sum_down(d, 0), 0);
        assert_true(d->reached >= d->most);
        fiber_park(f);
    }
}

static void the_whole_stack_can_be_used(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(1);
    dive d = {.most = STACK_SIZE - 4096};
    fiber *f = fibers_new(p, dive_and_park, &d);
    while (!fiber_done(f))
        fiber_resume(f);
    fiber_free(f);
    fiber_pool_free(p);
}

/* The stack that `at`, in a fiber's first frames, is on. */
static stack stack_around(const char *at)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    stack s = {.low = (char *)((uintptr_t)at / page * page)};
    s.top = s.low + page;
    s.low = s.top - STACK_SIZE;
    return s;
}

static char *guarded; /* in a child: where the stack that will overflow ends */

static void dive_too_deep(fiber *f, void *arg)
{
    (void)f, (void)arg;
    dive d = {.start = __builtin_frame_address(0), .most = SIZE_MAX};
    guarded = stack_around(d.start).low;
    sum_down(&d, 0);
}

/* Writes where the frame begins: with a narrow guard that is behind it. The caller's frame is used
 * too, so that no compiler makes a loop of this. */
static int big_frames(volatile char *above, int levels)
{
    volatile char big[100 * 1024];
    big[0] = (char)levels;
    int sum = levels > 0 ? big_frames(big, levels - 1) : 0;
    return sum + big[0] + above[0];
}

static void use_big_frames(fiber *f, void *arg)
{
    (void)f, (void)arg;
    volatile char above = 0;
    guarded = stack_around(__builtin_frame_address(0)).low;
    big_frames(&above, 10);
}

/* Only in the guard is it the right death: behind it is the neighbour. */
static void look_where(int number, siginfo_t *info, void *context)
{
    (void)number, (void)context;
    const char *at = info->si_addr;
    struct sigaction action = {.sa_handler = SIG_DFL};
    if (at < guarded - STACK_GUARD || at >= guarded)
        _exit(98);
    sigaction(SIGSEGV, &action, NULL); /* and once more, without us */
}

static void overflow(int in, int out, void *arg)
{
    (void)in, (void)out;
    static char room[64 * 1024];
    stack_t elsewhere = {.ss_sp = room, .ss_size = sizeof room};
    struct sigaction action = {.sa_sigaction = look_where, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    TMP_CHECK(sigaltstack(&elsewhere, NULL) == 0);
    TMP_CHECK(sigaction(SIGSEGV, &action, NULL) == 0);

    /* A neighbour on either side, so that there is something to hit behind the guard. */
    fiber_pool *p = NULL;
    TMP_CHECK(fiber_pool_new(&p, 3, NULL) == PAWL_OK);
    fiber *fibers[3];
    for (int i = 0; i < 3; i++) {
        fibers[i] =
            fiber_new(p, i == 1 ? *(void (**)(fiber *, void *))arg : fibers_park_once, NULL);
        TMP_CHECK(fibers[i]);
    }
    fiber_resume(fibers[0]);
    fiber_resume(fibers[2]);
    fiber_resume(fibers[1]);
}

static void an_overflow_meets_the_guard(void **state)
{
    (void)state;
    void (*fn)(fiber *, void *) = dive_too_deep;
    assert_int_equal(fibers_signal_of(overflow, &fn), SIGSEGV);
}

static void a_large_frame_meets_the_guard_too(void **state)
{
    (void)state;
    void (*fn)(fiber *, void *) = use_big_frames;
    assert_int_equal(fibers_signal_of(overflow, &fn), SIGSEGV);
}

/* ---- What it costs ---- */

/* How many pages of the stack have memory, up to what is kept below `at` and a page. */
static size_t pages_below(const char *at, const stack *s)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t count = (size_t)(at - s->low - STACK_KEPT) / page - 1;
    unsigned char there[STACK_SIZE / 4096];
    assert_in_range(count, 1, sizeof there);
    assert_int_equal(mincore(s->low, count * page, there), 0);
    size_t sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += there[i] & 1;
    return sum;
}

typedef struct deep {
    dive d;
    char *here;
    void (*way_out)(fiber *f);
} deep;

static void go_deep_and_leave(fiber *f, void *arg)
{
    deep *d = arg;
    d->here = __builtin_frame_address(0);
    d->d.start = d->here;
    sum_down(&d->d, 0);
    d->way_out(f);
    sum_down(&d->d, 0);
}

static size_t pages_after(void (*way_out)(fiber *f))
{
    fiber_pool *p = fibers_pool(1);
    deep d = {.d = {.most = STACK_SIZE / 2}, .way_out = way_out};
    fiber *f = fibers_parked(p, go_deep_and_leave, &d);
    stack s = stack_around(d.here);
    size_t pages = pages_below(d.here, &s);
    fiber_resume(f);
    assert_true(fiber_done(f));
    fiber_free(f);
    assert_int_equal(pages_below(d.here, &s), 0);
    fiber_pool_free(p);
    return pages;
}

static void parking_gives_back_what_lies_deeper(void **state)
{
    (void)state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    assert_int_equal(pages_after(fiber_park), 0);
    assert_true(pages_after(fiber_pause) > STACK_SIZE / 4 / page);
}

static size_t resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file) {
        char line[128];
        if (fgets(line, sizeof line, file))
            pages = strtol(strchr(line, ' '), NULL, 10);
        fclose(file);
    }
    return (size_t)pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void write_a_line_and_park(fiber *f, void *arg)
{
    char line[200];
    for (int i = 0; i < 2; i++) {
        snprintf(line, sizeof line, "fiber %p, number %d", (void *)f, *(int *)arg);
        fiber_park(f);
        assert_non_null(strstr(line, "number"));
    }
}

static void ten_thousand_park_at_once(void **state)
{
    (void)state;
    enum { COUNT = 10000 };
    int number = 7;
    size_t count = tmp_under_valgrind() ? COUNT / 10 : COUNT;
    fiber_pool *p = fibers_pool(0);
    fiber **fibers = calloc(count, sizeof *fibers);
    assert_non_null(fibers);
    assert_true(fiber_pool_max(p) >= count);

    size_t before = resident_bytes();
    for (size_t i = 0; i < count; i++)
        fibers[i] = fibers_parked(p, write_a_line_and_park, &number);
    size_t parked = resident_bytes();
    for (size_t i = 0; i < count; i++)
        fiber_resume(fibers[i]);
    assert_int_equal(fiber_pool_live(p), count);
    for (size_t i = 0; i < count; i++)
        fiber_free(fibers[i]);
    assert_int_equal(fiber_pool_live(p), 0);
    size_t dropped = resident_bytes();

    print_message("# a parked fiber has %zu bytes in memory; one that was dropped leaves %zu\n",
                  (parked - before) / count, dropped > before ? (dropped - before) / count : 0);
    if (!FIBERS_SANITIZED && !tmp_under_valgrind() && before > 0)
        assert_true((parked - before) / count < 4 * (size_t)sysconf(_SC_PAGESIZE));
    free(fibers);
    fiber_pool_free(p);
}

/* ---- The pool ---- */

static void tell_place(fiber *f, void *arg)
{
    char here[64] = "";
    *(char **)arg = __builtin_frame_address(0);
    fiber_park(f);
    assert_int_equal(here[0], 0);
}

static void a_stack_is_used_again(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(2);
    char *first = NULL, *second = NULL, *third = NULL;
    fiber *f = fibers_parked(p, tell_place, &first);
    fiber *g = fibers_parked(p, tell_place, &second);
    assert_ptr_not_equal(first, second);
    fiber_free(f);
    f = fibers_parked(p, tell_place, &third);
    assert_ptr_equal(third, first);
    fiber_free(g);
    fiber_free(f);
    fiber_pool_free(p);
}

static void there_are_so_many_and_no_more(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(3);
    assert_int_equal(fiber_pool_max(p), 3);
    fiber *fibers[3];
    for (int i = 0; i < 3; i++)
        fibers[i] = fibers_parked(p, fibers_park_once, NULL);
    assert_null(fiber_new(p, fibers_park_once, NULL));
    assert_int_equal(fiber_pool_live(p), 3);
    fiber_free(fibers[1]);
    fibers[1] = fibers_new(p, fibers_park_once, NULL);
    assert_null(fiber_new(p, fibers_park_once, NULL));
    for (int i = 0; i < 3; i++)
        fiber_free(fibers[i]);
    fiber_free(NULL);
    fiber_pool_free(p);
    fiber_pool_free(NULL);
}

/* As the system says; its usual number where it says nothing. */
static size_t maps_of_the_system(void)
{
    char line[32] = "65530";
    FILE *file = fopen("/proc/sys/vm/max_map_count", "re");
    if (file) {
        assert_non_null(fgets(line, sizeof line, file));
        fclose(file);
    }
    return strtoul(line, NULL, 10);
}

/* A stack takes two, and the program needs some too. */
static void never_more_than_the_system_has_maps_for(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(SIZE_MAX);
    assert_in_range(stack_limit(), 1, maps_of_the_system() / 4);
    assert_int_equal(fiber_pool_max(p), stack_limit());
    fiber_pool_free(p);
    p = fibers_pool(0);
    assert_int_equal(fiber_pool_max(p), stack_limit());
    fiber_pool_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ping_pong),
        cmocka_unit_test(registers_and_modes_of_floating_point_survive),
        cmocka_unit_test(modes_are_at_first_those_of_the_maker),
        cmocka_unit_test(a_backtrace_ends_with_the_fiber),
        cmocka_unit_test(the_whole_stack_can_be_used),
        cmocka_unit_test(an_overflow_meets_the_guard),
        cmocka_unit_test(a_large_frame_meets_the_guard_too),
        cmocka_unit_test(parking_gives_back_what_lies_deeper),
        cmocka_unit_test(ten_thousand_park_at_once),
        cmocka_unit_test(a_stack_is_used_again),
        cmocka_unit_test(there_are_so_many_and_no_more),
        cmocka_unit_test(never_more_than_the_system_has_maps_for),
    };
    return cmocka_run_group_tests_name("fiber", tests, NULL, NULL);
}
