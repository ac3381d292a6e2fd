/* Nothing that waits for a time ends before it: sleeps, time-outs, pauses between attempts, delays
 * and deadlines of starts, on the clocks of the system and with threads.
 *
 * Durations are measured by the monotonic clock, from before the call to behind it. How long they
 * take depends on the machine, and is not looked at: only that none is too short. A duration of a
 * few milliseconds shows a time that was cut off; the engine serves for some seconds, so that the
 * clock of a server is measured several times meanwhile. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "support/conf.h"
#include "support/engine_fixture.h"

enum { RUNS = 200, ROUNDS = 12, LONGEST_MS = 50, ATTEMPTS = 3, DEADLINE_MS = 500, ASKS = 3 };

#define NS_PER_MS INT64_C(1000000)

/* When something of a run began; 0: not yet. A function that is replayed does not begin again. */
typedef struct watch {
    pawl *p;
    pthread_t thread;
    _Atomic int64_t began_ns[RUNS][ROUNDS];
    atomic_int calls[RUNS]; /* of the workflow function; the second one is a replay */
    atomic_int ended, early;
    _Atomic int64_t earliest_ns; /* the most by which one was too short */
    _Atomic int64_t set_ms;      /* the host's clock was set forward by so much */
} watch;

static int64_t mono_ns(void)
{
    return clock_system()->mono_ns(clock_system());
}

static void begin(_Atomic int64_t *began_ns)
{
    int64_t none = 0;
    atomic_compare_exchange_strong(began_ns, &none, mono_ns());
}

/* Something has ended that was to take this long, at least. */
static void end(watch *w, int64_t began_ns, int64_t ms)
{
    int64_t short_ns = began_ns + ms * NS_PER_MS - mono_ns();
    atomic_fetch_add(&w->ended, 1);
    if (short_ns <= 0)
        return;
    atomic_fetch_add(&w->early, 1);
    int64_t most = atomic_load(&w->earliest_ns);
    while (short_ns > most && !atomic_compare_exchange_weak(&w->earliest_ns, &most, short_ns))
        continue;
}

static int64_t some_ms(int64_t run, int64_t round)
{
    return 1 + (run * 7919 + round * 104729) % LONGEST_MS;
}

/* ---- Workflows: the input is the number of the run ---- */

static const char *sleeping(pawl_run *run, const char *input)
{
    watch *w = pawl_arg(run);
    int64_t n = pawl_get_int(input, "", 0);
    for (int i = 0; i < ROUNDS; i++) {
        begin(&w->began_ns[n][i]);
        pawl_sleep(run, some_ms(n, i));
        end(w, w->began_ns[n][i], some_ms(n, i));
    }
    return input;
}

static const char *racing(pawl_run *run, const char *input)
{
    watch *w = pawl_arg(run);
    int64_t n = pawl_get_int(input, "", 0);
    for (int i = 0; i < ROUNDS; i++) {
        begin(&w->began_ns[n][i]);
        pawl_future *sleep = pawl_sleep_later(run, some_ms(n, i));
        pawl_future *never = pawl_receive_later(run, "never", PAWL_FOREVER);
        pawl_any(run, (pawl_future *const[]){sleep, never}, 2, 0);
        end(w, w->began_ns[n][i], some_ms(n, i));
    }
    return input;
}

static const char *receiving(pawl_run *run, const char *input)
{
    watch *w = pawl_arg(run);
    int64_t n = pawl_get_int(input, "", 0);
    for (int i = 0; i < ROUNDS; i++) {
        begin(&w->began_ns[n][i]);
        pawl_receive(run, "never", some_ms(n, i), NULL);
        end(w, w->began_ns[n][i], some_ms(n, i));
    }
    return input;
}

/* Fails until its last attempt. The pause begins when the attempt before has failed. */
static const char *failing(pawl_work *work, const char *input)
{
    watch *w = pawl_work_arg(work);
    int64_t n = pawl_get_int(input, "/run", 0), i = pawl_get_int(input, "/round", 0);
    if (pawl_work_attempt(work) > 1)
        end(w, w->began_ns[n][i], some_ms(n, i));
    atomic_store(&w->began_ns[n][i], mono_ns());
    return pawl_work_attempt(work) < ATTEMPTS ? pawl_work_fail(work, 0, "busy", "again") : input;
}

static const char *retrying(pawl_run *run, const char *input)
{
    int64_t n = pawl_get_int(input, "", 0);
    for (int64_t i = 0; i < ROUNDS / 3; i++) {
        const char *which = pawl_json(run, "{'run':%" PRId64 ",'round':%" PRId64 "}", n, i);
        const pawl_call_options *o =
            PAWL_CALL(.attempts = ATTEMPTS, .backoff_ms = some_ms(n, i),
                      .backoff_kind = PAWL_CONSTANT, .no_jitter = 1, .arg = pawl_arg(run));
        if (i % 2)
            pawl_step(run, "fail", failing, which, o);
        else
            pawl_await(run, pawl_step_later(run, "fail", failing, which, o));
    }
    return input;
}

static const char *delayed(pawl_run *run, const char *input)
{
    watch *w = pawl_arg(run);
    int64_t n = pawl_get_int(input, "/run", 0), i = pawl_get_int(input, "/round", 0);
    end(w, w->began_ns[n][i], some_ms(n, i));
    return input;
}

/* The host's clock is set forward, and never back: then a run would wait for hours. */
static void set_forward(watch *w, int64_t by_ms)
{
    int64_t now = atomic_load(&w->set_ms);
    while (by_ms > now && !atomic_compare_exchange_weak(&w->set_ms, &now, by_ms))
        continue;
}

static const char *asking(pawl_run *run, const char *input);

/* The host's clock is set forward by an hour as soon as the run waits. */
static const char *surprised(pawl_run *run, const char *input)
{
    watch *w = pawl_arg(run);
    int64_t n = pawl_get_int(input, "", 0);
    begin(&w->began_ns[n][0]);
    pawl_future *sleep = pawl_sleep_later(run, LONGEST_MS);
    pawl_future *never = pawl_receive_later(run, "never", LONGEST_MS);
    set_forward(w, PAWL_HOURS(n + 1));
    pawl_any(run, (pawl_future *const[]){sleep, never}, 2, 0);
    end(w, w->began_ns[n][0], LONGEST_MS);
    return input;
}

/* ---- Driving ---- */

static void *serve(void *engine)
{
    return pawl_serve(engine) == PAWL_OK ? NULL : engine;
}

static int64_t host_ms(void *arg)
{
    watch *w = arg;
    return clock_system()->now_ms(clock_system()) + w->set_ms;
}

static watch *open_watch(conf *c, const char *name, pawl_workflow_fn *fn)
{
    watch *w = calloc(1, sizeof *w);
    assert_non_null(w);
    pawl_hooks hooks = {.size = sizeof hooks, .now_ms = host_ms, .arg = w};
    const pawl_hooks *clock_is_set = fn == surprised || fn == asking ? &hooks : NULL;
    assert_int_equal(pawl_open(&w->p, c->url, PAWL_OPTIONS(.threads = 4, .hooks = clock_is_set)),
                     PAWL_OK);
    assert_int_equal(pawl_register_workflow(w->p, name, fn, PAWL_WORKFLOW(.arg = w)), PAWL_OK);
    assert_int_equal(pthread_create(&w->thread, NULL, serve, w->p), 0);
    return w;
}

static void close_watch(watch *w, int ended)
{
    void *failed = NULL;
    pawl_stop(w->p);
    assert_int_equal(pthread_join(w->thread, &failed), 0);
    assert_null(failed);
    assert_int_equal(pawl_close(w->p), PAWL_OK);
    if (w->early)
        print_message("%d of %d were early, by up to %" PRId64 " us\n", w->early, w->ended,
                      w->earliest_ns / 1000);
    assert_int_equal(w->early, 0);
    assert_true(w->ended >= ended);
    free(w);
}

static void wait_for_run(watch *w, const char *id, pawl_code wanted)
{
    assert_int_equal(pawl_wait(w->p, id, PAWL_FOREVER, NULL), wanted);
}

static void side_by_side(conf *c, const char *name, pawl_workflow_fn *fn, int ended)
{
    char id[RUNS][32], input[16];
    watch *w = open_watch(c, name, fn);
    for (int n = 0; n < RUNS; n++) {
        snprintf(id[n], sizeof id[n], "run-%d", n);
        snprintf(input, sizeof input, "%d", n);
        assert_int_equal(pawl_start(w->p, name, id[n], input, NULL), PAWL_OK);
    }
    for (int n = 0; n < RUNS; n++)
        wait_for_run(w, id[n], PAWL_OK);
    close_watch(w, ended);
}

/* ---- Tests ---- */

static void a_sleep(conf *c)
{
    side_by_side(c, "sleeping", sleeping, RUNS * ROUNDS);
}

static void a_sleep_beside_others(conf *c)
{
    side_by_side(c, "racing", racing, RUNS * ROUNDS);
}

static void a_time_out(conf *c)
{
    side_by_side(c, "receiving", receiving, RUNS * ROUNDS);
}

static void the_next_attempt(conf *c)
{
    side_by_side(c, "retrying", retrying, RUNS * ROUNDS / 3 * (ATTEMPTS - 1));
}

static void a_delayed_start(conf *c)
{
    char id[ROUNDS][RUNS][32], input[64];
    watch *w = open_watch(c, "delayed", delayed);
    for (int i = 0; i < ROUNDS; i++)
        for (int n = 0; n < RUNS; n++) {
            snprintf(id[i][n], sizeof id[i][n], "run-%d-%d", n, i);
            snprintf(input, sizeof input, "{\"run\":%d,\"round\":%d}", n, i);
            begin(&w->began_ns[n][i]);
            assert_int_equal(
                pawl_start(w->p, "delayed", id[i][n], input, PAWL_START(.delay_ms = some_ms(n, i))),
                PAWL_OK);
        }
    for (int i = 0; i < ROUNDS; i++)
        for (int n = 0; n < RUNS; n++)
            wait_for_run(w, id[i][n], PAWL_OK);
    close_watch(w, RUNS * ROUNDS);
}

/* A run that would sleep for a day is cancelled at its deadline, and only then cleaned up. */
static const char *cleaned_up(pawl_work *work, const char *input)
{
    watch *w = pawl_work_arg(work);
    int64_t n = pawl_get_int(input, "", 0);
    end(w, w->began_ns[n][0], DEADLINE_MS + some_ms(n, 0));
    return input;
}

static const char *endless(pawl_run *run, const char *input)
{
    pawl_finally(run, "clean-up", input);
    pawl_sleep(run, PAWL_DAYS(1));
    return input;
}

static void a_deadline(conf *c)
{
    char id[RUNS][32], input[16];
    watch *w = open_watch(c, "endless", endless);
    assert_int_equal(pawl_register_work(w->p, "clean-up", cleaned_up, PAWL_WORK(.arg = w)),
                     PAWL_OK);
    for (int n = 0; n < RUNS; n++) {
        snprintf(id[n], sizeof id[n], "run-%d", n);
        snprintf(input, sizeof input, "%d", n);
        begin(&w->began_ns[n][0]);
        assert_int_equal(pawl_start(w->p, "endless", id[n], input,
                                    PAWL_START(.deadline_ms = DEADLINE_MS + some_ms(n, 0))),
                         PAWL_OK);
    }
    for (int n = 0; n < RUNS; n++)
        wait_for_run(w, id[n], PAWL_CANCELLED);
    close_watch(w, 1);
}

static void a_clock_that_is_set(conf *c)
{
    if (!FIXTURE_WARM) /* a run that is replayed goes by the date */
        skip();
    side_by_side(c, "surprised", surprised, RUNS);
}

/* The same for the pause and the time-out of an until; the last pause ends with the time-out. Each
 * call sets the clock forward by another hour.
 *
 * On a busy machine a thread may stand still in a work function. Then its runs are replayed on
 * other threads, and a run that is replayed goes by the date: it is not judged any more. */
static void end_unless_replayed(watch *w, int64_t n, int64_t began_ns, int64_t ms)
{
    if (atomic_load(&w->calls[n]) == 1)
        end(w, began_ns, ms);
}

static const char *ask(pawl_work *work, const char *input)
{
    watch *w = pawl_work_arg(work);
    int64_t n = pawl_get_int(input, "", 0);
    int is_last = mono_ns() >= w->began_ns[n][0] + ASKS * LONGEST_MS * NS_PER_MS;
    if (w->began_ns[n][1] && !is_last)
        end_unless_replayed(w, n, w->began_ns[n][1], LONGEST_MS);
    atomic_store(&w->began_ns[n][1], mono_ns());
    atomic_fetch_add(&w->set_ms, PAWL_HOURS(1));
    return "null";
}

static const char *asking(pawl_run *run, const char *input)
{
    watch *w = pawl_arg(run);
    int64_t n = pawl_get_int(input, "", 0);
    atomic_fetch_add(&w->calls[n], 1);
    begin(&w->began_ns[n][0]);
    if (n % 2)
        pawl_until(run, "ask", ask, input, LONGEST_MS, ASKS * LONGEST_MS);
    else
        pawl_await(run, pawl_until_later(run, "ask", ask, input, LONGEST_MS, ASKS * LONGEST_MS));
    end_unless_replayed(w, n, w->began_ns[n][0], ASKS * LONGEST_MS);
    return input;
}

static void an_until(conf *c)
{
    enum { SOME = 20 };
    char id[SOME][32], input[16];
    if (!FIXTURE_WARM) /* each wait is a replay */
        skip();
    watch *w = open_watch(c, "asking", asking);
    assert_int_equal(pawl_register_work(w->p, "ask", ask, PAWL_WORK(.arg = w)), PAWL_OK);
    for (int n = 0; n < SOME; n++) {
        snprintf(id[n], sizeof id[n], "run-%d", n);
        snprintf(input, sizeof input, "%d", n);
        assert_int_equal(pawl_start(w->p, "asking", id[n], input, NULL), PAWL_OK);
    }
    for (int n = 0; n < SOME; n++)
        wait_for_run(w, id[n], PAWL_OK);
    close_watch(w, 1);
}

int main(void)
{
    static const conf_case cases[] = {
        {"ys-Y46 a sleep is not early", a_sleep, 0},
        {"a sleep beside others is not early", a_sleep_beside_others, 0},
        {"a time-out is not early", a_time_out, 0},
        {"the next attempt is not early", the_next_attempt, 0},
        {"a delayed start is not early", a_delayed_start, 0},
        {"a deadline is not early", a_deadline, 0},
        {"a clock that is set forward ends no duration of this process", a_clock_that_is_set, 0},
        {"nor the pause and the time-out of an until", an_until, 0},
    };
    return conf_run(cases, CONF_COUNT(cases));
}
