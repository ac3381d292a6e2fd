/* When a node may judge others by their locks: with its heartbeat thread, with a lock of its own,
 * and not soon after it has lost that. What ended its session (a server that stood still, a network
 * that was cut) may have ended those of the others as well, which may return later (A10). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "sched/sched_internal.h"

enum { SERVER = 17, SOON_MS = 1900, LATER_MS = 100 };

typedef struct fixture {
    clock_fake *clock;
    sched *s;
} fixture;

static fixture begin(int runs)
{
    fixture v = {.clock = clock_fake_new(1000000), .s = calloc(1, sizeof *v.s)};
    assert_non_null(v.s);
    v.s->host = clock_fake_source(v.clock);
    heartbeat_init(&v.s->heartbeat);
    v.s->heartbeat.runs = runs;
    return v;
}

static void end(fixture *v)
{
    heartbeat_free(&v->s->heartbeat);
    free(v->s);
    clock_fake_free(v->clock);
}

static void a_node_with_a_lock_judges(void **state)
{
    (void)state;
    fixture v = begin(1);
    assert_false(heartbeat_judges(v.s));
    heartbeat_locked(v.s, SERVER);
    assert_true(heartbeat_judges(v.s));
    heartbeat_locked(v.s, 0);
    assert_false(heartbeat_judges(v.s));
    clock_fake_advance(v.clock, 60000);
    assert_false(heartbeat_judges(v.s));
    end(&v);
}

static void a_node_that_was_cut_off_waits(void **state)
{
    (void)state;
    fixture v = begin(1);
    heartbeat_locked(v.s, SERVER);
    heartbeat_locked(v.s, 0);
    heartbeat_locked(v.s, SERVER);
    assert_false(heartbeat_judges(v.s));
    clock_fake_advance(v.clock, SOON_MS);
    assert_false(heartbeat_judges(v.s));
    clock_fake_advance(v.clock, LATER_MS);
    assert_true(heartbeat_judges(v.s));
    end(&v);
}

static void a_node_without_the_thread_judges_none(void **state)
{
    (void)state;
    fixture v = begin(0);
    heartbeat_locked(v.s, SERVER);
    assert_false(heartbeat_judges(v.s));
    end(&v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_node_with_a_lock_judges),
        cmocka_unit_test(a_node_that_was_cut_off_waits),
        cmocka_unit_test(a_node_without_the_thread_judges_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
