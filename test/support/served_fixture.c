/* pawl_serve() runs on a thread of the test, which ends when the engine was stopped. Then the code
 * that pawl_serve() has returned is checked. */
#include "support/served_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>

#include "handle/handle.h"
#include "sched/sched.h"

served_fixture served_open(conf *c, const pawl_options *options)
{
    served_fixture v = {.fixture = fixture_new(c)};
    fixture_run_clock(v.fixture);
    v.p = fixture_open(v.fixture, options);
    return v;
}

void served_begin(served_fixture *v)
{
    assert_int_equal(pthread_create(&v->thread, NULL, fixture_serve, v->p), 0);
}

void served_stop(served_fixture *v)
{
    void *failed;
    pawl_stop(v->p);
    assert_int_equal(pthread_join(v->thread, &failed), 0);
    assert_null(failed);
}

typedef struct setter {
    served_fixture *served;
    int which;
} setter;

static void *set_when_stopping(void *arg)
{
    const setter *t = arg;
    while (!sched_is_leaving(handle_sched(t->served->p)))
        poll(NULL, 0, 1);
    atomic_store(fixture_number(t->served->fixture, t->which), 1);
    return NULL;
}

void served_stop_and_set(served_fixture *v, int which)
{
    pthread_t thread;
    setter t = {v, which};
    assert_int_equal(pthread_create(&thread, NULL, set_when_stopping, &t), 0);
    served_stop(v);
    pthread_join(thread, NULL);
}

void served_end(served_fixture *v)
{
    served_stop(v);
    pawl_close(v->p);
    fixture_free(v->fixture);
}
