/* Threads of the library: they run, they block every signal that can be blocked, and starting one
 * leaves the signal mask of the caller as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>

#include "base/thread.h"

static const int SIGNALS[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1, SIGUSR2, SIGPIPE};
#define SIGNAL_COUNT (sizeof SIGNALS / sizeof *SIGNALS)

static void *ask_mask(void *arg)
{
    pthread_sigmask(SIG_SETMASK, NULL, arg);
    return arg;
}

static void a_thread_runs_with_all_signals_blocked(void **state)
{
    (void)state;
    sigset_t mask;
    sigemptyset(&mask);
    pthread_t thread;
    void *result = NULL;
    assert_int_equal(thread_start(&thread, ask_mask, &mask), 1);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, &mask);
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        assert_int_equal(sigismember(&mask, SIGNALS[i]), 1);
}

static void the_caller_keeps_its_mask(void **state)
{
    (void)state;
    sigset_t one, before, after, ignored;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    pthread_sigmask(SIG_SETMASK, &one, &before);
    pthread_t thread;
    int started = thread_start(&thread, ask_mask, &ignored);
    pthread_sigmask(SIG_SETMASK, &before, &after);
    assert_int_equal(started, 1);
    pthread_join(thread, NULL);
    for (size_t i = 0; i < SIGNAL_COUNT; i++)
        assert_int_equal(sigismember(&after, SIGNALS[i]), SIGNALS[i] == SIGUSR1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_runs_with_all_signals_blocked),
        cmocka_unit_test(the_caller_keeps_its_mask),
    };
    return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
