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

enum { ROUNDS = 20, EMPTIED = 10, GUESTS = 4 };

static void go_back_once(rewind_fixture *r, conf *c, int has_guest)
{
    rewind_start_some(r);
    rewind_pause(r);
    backup_take(c);
    rewind_mark(r);
    if (has_guest)
        rewind_join(r);
    rewind_start_some(r);
    rewind_pause(r);
    backup_restore(c);
    rewind_continue(r);
    rewind_expect(r);
    if (has_guest)
        rewind_leave(r);
}

static void rewind_under_load(conf *c)
{
    int64_t rounds = scratch_number("PAWL_TEST_RESTORES", ROUNDS);
    rewind_fixture r = {.started = 0};
    rewind_begin(&r, c->url);
    for (int64_t i = 0; i < rounds; i++) {
        tmp_watchdog("a database that is restored");
        go_back_once(&r, c, i % GUESTS == 0);
        if (i % EMPTIED == EMPTIED - 1) {
            rewind_empty(&r);
            backup_tidy(c);
        }
    }
    rewind_report(&r, c->backend, rounds);
    rewind_end(&r);
}

static const conf_case CASES[] = {
    {"restored under load", rewind_under_load, DB_SHARED},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
