/* There is one fixture at a time, since cmocka runs one test after the other. A test starts the
 * watchdog and the processes that write by itself. */
#include "support/crash_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

int crash_set_up(void **state)
{
    static crash_fixture s;
    s = (crash_fixture){.seed = scratch_seed()};
    random_seeded_init(&s.random, s.seed);
    tmp_dir_make(s.folder);
    tmp_path(s.path, s.folder, "app.db");
    *state = &s;
    return 0;
}

int crash_tear_down(void **state)
{
    crash_fixture *s = *state;
    ledger_free(&s->ledger);
    tmp_dir_remove(s->folder);
    return 0;
}

void crash_spin(random_seeded *random, int64_t most)
{
    volatile int64_t left = scratch_between(random, 0, most);
    while (left > 0)
        left = left - 1;
}

void crash_fail(const ledger_verdict *v, const char *when, uint64_t seed)
{
    fail_msg("%s, PAWL_TEST_SEED=%llu: lost %lld, ghosts %lld, twice %lld, holes %lld, torn "
             "%lld, broken %lld; first: %s",
             when, (unsigned long long)seed, (long long)v->lost, (long long)v->ghosts,
             (long long)v->twice, (long long)v->holes, (long long)v->torn, (long long)v->broken,
             v->first);
}
