/* A clock of the application tells the time but cannot wait, and does not say when it was moved. So
 * a thread that waits for a deadline of such a clock reads it again every few milliseconds of the
 * system's time; waits without a deadline and waits by the system's own clock are not touched. */
#include "handle/hooks.h"

#include <stddef.h>

#include "base/options.h"

#define LOOK_AGAIN_NS INT64_C(5000000)

static hooks *hooks_of_clock(clock_source *c)
{
    return (hooks *)(void *)((char *)c - offsetof(hooks, clock));
}

static int64_t hooked_now_ms(clock_source *c)
{
    hooks *h = hooks_of_clock(c);
    clock_source *s = clock_system();
    return h->given.now_ms ? h->given.now_ms(h->given.arg) : s->now_ms(s);
}

/* A clock of the application has whole milliseconds, and rounding up adds nothing. */
static int64_t hooked_up_ms(clock_source *c)
{
    hooks *h = hooks_of_clock(c);
    return h->given.now_ms ? h->given.now_ms(h->given.arg) : clock_up_ms(clock_system());
}

static int64_t hooked_mono_ns(clock_source *c)
{
    hooks *h = hooks_of_clock(c);
    clock_source *s = clock_system();
    return h->given.mono_ns ? h->given.mono_ns(h->given.arg) : s->mono_ns(s);
}

static int hooked_wait(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                       int64_t deadline_ns)
{
    clock_source *s = clock_system();
    if (!hooks_of_clock(c)->given.mono_ns || deadline_ns == INT64_MAX)
        return s->wait(s, cond, mutex, deadline_ns);
    if (hooked_mono_ns(c) >= deadline_ns)
        return 1;
    s->wait(s, cond, mutex, s->mono_ns(s) + LOOK_AGAIN_NS);
    return hooked_mono_ns(c) >= deadline_ns;
}

static int hooked_fill(random_source *r, void *at, size_t size)
{
    hooks *h = (hooks *)(void *)((char *)r - offsetof(hooks, random));
    random_source *s = random_system();
    return h->given.random ? h->given.random(at, size, h->given.arg) : s->fill(s, at, size);
}

pawl_code hooks_read(hooks *h, const pawl_hooks *given, error *err)
{
    h->clock = (clock_source){hooked_now_ms, hooked_mono_ns, hooked_wait, hooked_up_ms};
    h->random = (random_source){hooked_fill};
    return options_read(&h->given, sizeof h->given, given, err);
}

int hooks_have_clock(const hooks *h)
{
    return h->given.now_ms || h->given.mono_ns;
}
