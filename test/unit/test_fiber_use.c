#define _GNU_SOURCE /* syscall, REG_RAX */
/* Using fibers: dropping at every park, threads that share a pool, and what must be
 * refused. What must end the process is done in a child.
 *
 * test_fiber_ucontext.c includes this file, to run the same tests with the other switch. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#if defined(__linux__) && defined(__x86_64__)
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <ucontext.h>
#endif

#include "base/thread.h"
#include "fiber/fiber.h"
#include "support/fibers.h"
#include "support/tmp.h"

/* In a child: a pool with one fiber, resumed once. */
static fiber *child_fiber(void (*fn)(fiber *f, void *arg), fiber_pool **pool)
{
    TMP_CHECK(fiber_pool_new(pool, 1, NULL) == PAWL_OK);
    fiber *f = fiber_new(*pool, fn, NULL);
    TMP_CHECK(f);
    fiber_resume(f);
    return f;
}

/* ---- Stacks ---- */

static void look_where_it_is(fiber *f, void *arg)
{
    fiber *other = arg;
    assert_true(fiber_is_inside(f));
    assert_false(fiber_is_inside(other));
    fiber_park(f);
    assert_true(fiber_is_inside(f));
}

static void a_caller_is_on_one_stack_only(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(2);
    fiber *other = fibers_parked(p, fibers_park_once, NULL);
    fiber *f = fibers_new(p, look_where_it_is, other);
    while (!fiber_done(f)) {
        assert_false(fiber_is_inside(f));
        fiber_resume(f);
    }
    assert_false(fiber_is_inside(f));
    fiber_free(f);
    fiber_free(other);
    fiber_pool_free(p);
}

/* ---- Dropping ---- */

enum { STEPS = 12 };

typedef struct journal {
    int recorded; /* steps that need not be done again */
    int done;
} journal;

static void do_step(fiber *f, journal *j, int step, int depth)
{
    volatile char frame[700];
    frame[0] = (char)step;
    if (depth > 0) {
        do_step(f, j, step, depth - 1);
    } else if (step >= j->recorded) {
        j->recorded++;
        if (step % 2)
            fiber_park(f);
        else
            fiber_pause(f);
    }
    assert_int_equal(frame[0], step);
}

static void twelve_steps(fiber *f, void *arg)
{
    journal *j = arg;
    for (int step = 0; step < STEPS; step++)
        do_step(f, j, step, step);
    j->done = 1;
}

/* As if every park lost the fiber: each is dropped, and its run begins again from the top. */
static void a_fiber_can_be_dropped_at_every_park(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(1);
    journal j = {0};
    int made = 0;
    while (!j.done) {
        fiber *f = fibers_new(p, twelve_steps, &j);
        fiber_resume(f);
        assert_int_equal(fiber_done(f), j.done);
        fiber_free(f);
        made++;
    }
    assert_int_equal(made, STEPS + 1);
    assert_int_equal(j.recorded, STEPS);
    fiber_pool_free(p);
}

static void a_fiber_can_be_dropped_before_it_began(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(1);
    journal j = {0};
    for (int i = 0; i < 3; i++)
        fiber_free(fibers_new(p, twelve_steps, &j));
    assert_int_equal(j.recorded, 0);
    fiber_pool_free(p);
}

static void drop_another(fiber *f, void *arg)
{
    fiber **others = arg;
    fiber_free(others[0]);
    fiber_free(others[1]);
    fiber_park(f);
}

static void one_fiber_drops_others(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(3);
    fiber *others[2] = {fibers_parked(p, fibers_park_once, NULL),
                        fibers_parked(p, fibers_park_once, NULL)};
    fiber *f = fibers_parked(p, drop_another, others);
    assert_int_equal(fiber_pool_live(p), 1);
    fiber_free(f);
    fiber_pool_free(p);
}

/* Nothing but the fiber's stack points to the memory. */
static void hold_memory(fiber *f, void *arg)
{
    (void)arg;
    char *volatile memory = malloc(100);
    fiber_park(f);
    free(memory);
}

static void look_for_leaks(int in, int out, void *arg)
{
    (void)in, (void)out, (void)arg;
    fiber_pool *p;
    fiber *f = child_fiber(hold_memory, &p);
#if WATCH_ADDRESS
    TMP_CHECK(__lsan_do_recoverable_leak_check() == 0);
#endif
    fiber_resume(f);
    fiber_free(f);
    fiber_pool_free(p);
}

static void what_a_parked_fiber_holds_is_no_leak(void **state)
{
    (void)state;
    tmp_child c = tmp_fork(look_for_leaks, NULL);
    tmp_join(&c);
}

/* ---- Threads ---- */

enum { THREADS = 4, EACH = 300 };

static void *use_many_fibers(void *arg)
{
    fiber_pool *p = arg;
    journal journals[8] = {0};
    fiber *fibers[8] = {0};
    for (int i = 0; i < EACH; i++) {
        size_t at = (size_t)i % 8;
        fiber_free(fibers[at]);
        journals[at] = (journal){0};
        fibers[at] = fiber_new(p, twelve_steps, &journals[at]);
        for (int turn = 0; fibers[at] && turn < i % (STEPS + 1); turn++)
            fiber_resume(fibers[at]);
    }
    for (int i = 0; i < 8; i++)
        fiber_free(fibers[i]);
    return NULL;
}

static void threads_share_a_pool(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(THREADS * 8 - 4); /* at times there is none */
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(thread_start(&threads[i], use_many_fibers, p), 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(fiber_pool_live(p), 0);
    fiber_pool_free(p);
}

static void *drop_all(void *arg)
{
    for (fiber **each = arg; *each; each++)
        fiber_free(*each);
    return NULL;
}

static void another_thread_may_drop(void **state)
{
    (void)state;
    fiber_pool *p = fibers_pool(3);
    journal j = {0};
    fiber *fibers[4] = {fibers_new(p, twelve_steps, &j), fibers_parked(p, twelve_steps, &j),
                        fibers_parked(p, twelve_steps, &j)};
    pthread_t thread;
    assert_int_equal(thread_start(&thread, drop_all, fibers), 1);
    pthread_join(thread, NULL);
    assert_int_equal(fiber_pool_live(p), 0);
    fiber_free(fibers_parked(p, twelve_steps, &j));
    fiber_pool_free(p);
}

/* ---- What must not be ---- */

static void *resume_it(void *f)
{
    fiber_resume(f);
    return NULL;
}

static void free_itself(fiber *f, void *arg)
{
    (void)arg;
    fiber_free(f);
}

static void resume_itself(fiber *f, void *arg)
{
    (void)arg;
    fiber_resume(f);
}

static void resume_elsewhere(int in, int out, void *arg)
{
    (void)in, (void)out, (void)arg;
    fiber_pool *p;
    fiber *f = child_fiber(fibers_park_once, &p);
    pthread_t thread;
    TMP_CHECK(thread_start(&thread, resume_it, f));
    pthread_join(thread, NULL);
}

static void resume_what_is_done(int in, int out, void *arg)
{
    (void)in, (void)out, (void)arg;
    fiber_pool *p;
    fiber *f = child_fiber(fibers_park_once, &p);
    fiber_resume(f);
    TMP_CHECK(fiber_done(f));
    fiber_resume(f);
}

static void park_from_the_thread(int in, int out, void *arg)
{
    (void)in, (void)out, (void)arg;
    fiber_pool *p;
    fiber_park(child_fiber(fibers_park_once, &p));
}

static void run_what_misuses(int in, int out, void *arg)
{
    (void)in, (void)out;
    fiber_pool *p;
    child_fiber(*(void (**)(fiber *, void *))arg, &p);
}

static void misuse_ends_the_process(void **state)
{
    (void)state;
    assert_int_equal(fibers_signal_of(resume_elsewhere, NULL), SIGABRT);
    assert_int_equal(fibers_signal_of(resume_what_is_done, NULL), SIGABRT);
    assert_int_equal(fibers_signal_of(park_from_the_thread, NULL), SIGABRT);
    void (*const misuses[])(fiber *, void *) = {free_itself, resume_itself};
    for (size_t i = 0; i < sizeof misuses / sizeof *misuses; i++) {
        void (*fn)(fiber *, void *) = misuses[i];
        assert_int_equal(fibers_signal_of(run_what_misuses, &fn), SIGABRT);
    }
}

static void run_without_memory(int in, int out, void *arg)
{
    (void)in, (void)out, (void)arg;
    fiber_pool *p = NULL;
    TMP_CHECK(fiber_pool_new(&p, 2, NULL) == PAWL_OK);
    fiber *f = fiber_new(p, fibers_park_once, NULL);
    fiber *g = NULL;
    TMP_CHECK(f);
    struct rlimit before;
    TMP_CHECK(getrlimit(RLIMIT_AS, &before) == 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    TMP_CHECK(setrlimit(RLIMIT_AS, &none) == 0);
    TMP_CHECK(fiber_new(p, fibers_park_once, NULL) == NULL);
    TMP_CHECK(fiber_pool_live(p) == 1);
    TMP_CHECK(setrlimit(RLIMIT_AS, &before) == 0);
    g = fiber_new(p, fibers_park_once, NULL);
    TMP_CHECK(g);
    fiber_free(f);
    fiber_free(g);
    fiber_pool_free(p);
}

static void without_memory_there_is_no_fiber(void **state)
{
    (void)state;
    if (FIBERS_SANITIZED || tmp_under_valgrind())
        skip(); /* they need memory of their own */
    tmp_child c = tmp_fork(run_without_memory, NULL);
    tmp_join(&c);
}

#if defined(__linux__) && defined(__x86_64__)

enum { ARCH_SHSTK_STATUS = 0x5005 };

/* Answers in the kernel's place: there is a shadow stack. */
static void answer(int number, siginfo_t *info, void *context)
{
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    *(unsigned long long *)registers[REG_RSI] = 1;
    registers[REG_RAX] = 0;
}

static void pretend_a_shadow_stack(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_arch_prctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCH_SHSTK_STATUS, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {.len = sizeof filter / sizeof *filter, .filter = filter};
    struct sigaction action = {.sa_sigaction = answer, .sa_flags = SA_SIGINFO};
    TMP_CHECK(sigaction(SIGSYS, &action, NULL) == 0);
    TMP_CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    TMP_CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

static void ask_beside_a_shadow_stack(int in, int out, void *arg)
{
    (void)in, (void)out, (void)arg;
    fiber_pool *p = NULL;
    error err = {0};
    TMP_CHECK(fiber_pool_new(&p, 1, &err) == PAWL_OK);
    fiber_pool_free(p);
    pretend_a_shadow_stack();
    TMP_CHECK(fiber_pool_new(&p, 1, &err) == PAWL_UNSUPPORTED);
    TMP_CHECK(p == NULL && err.code == PAWL_UNSUPPORTED);
    TMP_CHECK(strstr(err.message, "shadow stack") && err.hint[0]);
}

static void a_shadow_stack_is_refused(void **state)
{
    (void)state;
    if (tmp_under_valgrind())
        skip(); /* it answers such calls itself */
    tmp_child c = tmp_fork(ask_beside_a_shadow_stack, NULL);
    tmp_join(&c);
}

#else

static void a_shadow_stack_is_refused(void **state)
{
    (void)state;
    skip();
}

#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_caller_is_on_one_stack_only),
        cmocka_unit_test(a_fiber_can_be_dropped_at_every_park),
        cmocka_unit_test(a_fiber_can_be_dropped_before_it_began),
        cmocka_unit_test(one_fiber_drops_others),
        cmocka_unit_test(what_a_parked_fiber_holds_is_no_leak),
        cmocka_unit_test(threads_share_a_pool),
        cmocka_unit_test(another_thread_may_drop),
        cmocka_unit_test(misuse_ends_the_process),
        cmocka_unit_test(without_memory_there_is_no_fiber),
        cmocka_unit_test(a_shadow_stack_is_refused),
    };
    return cmocka_run_group_tests_name("fiber_use", tests, NULL, NULL);
}
