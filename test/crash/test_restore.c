/* L8 under load: two nodes with threads drive runs while their database is restored to an earlier
 * state, at random moments, round after round: `.restore` of SQLite into the live file, and on
 * PostgreSQL other contents of the tables under live connections.
 *
 * Runs that were started after the backup are gone, and that is all that may be gone.
 * PAWL_TEST_RESTORES says how many rounds there are on each backend (20), PAWL_TEST_SEED repeats a
 * run as far as chance is ours. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>

#include "support/backup.h"
#include "support/conf.h"
#include "support/rewind_fixture.h"
#include "support/scratch.h"

enum { ROUNDS = 20, EMPTIED = 20 };

/* How long it took from the restore until everything had ended. */
static int64_t go_back_once(restored *r, conf *c)
{
    clock_source *clock = clock_system();
    restored_start_some(r);
    restored_pause(r);
    backup_take(c);
    restored_mark(r);
    restored_start_some(r);
    restored_pause(r);
    backup_restore(c);
    int64_t began = clock->mono_ns(clock);
    restored_start_some(r);
    restored_expect(r);
    return clock->mono_ns(clock) - began;
}

static void restored_under_load(conf *c)
{
    int64_t rounds = scratch_number("PAWL_TEST_RESTORES", ROUNDS);
    restored r = {.started = 0};
    int64_t longest = 0;
    restored_begin(&r, c->url);
    for (int64_t i = 0; i < rounds; i++) {
        tmp_watchdog("a database that is restored");
        int64_t took = go_back_once(&r, c);
        longest = took > longest ? took : longest;
        if (i % EMPTIED == EMPTIED - 1)
            restored_empty(&r);
    }
    fprintf(stderr, "# %s: %lld restores, all at their end after at most %lld ms\n", c->backend,
            (long long)rounds, (long long)(longest / 1000000));
    restored_end(&r);
}

static const conf_case CASES[] = {
    {"restored under load", restored_under_load, DB_SHARED},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
