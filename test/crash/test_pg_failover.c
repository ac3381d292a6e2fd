/* L8 with real servers: the whole folder of a server is put back to what a base backup has; or the
 * server dies, and a standby that was behind is promoted. Two nodes with threads go on by
 * themselves on what is there then.
 *
 * PAWL_TEST_FAILOVERS says how many rounds there are of each (1). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <stdio.h>

#include "support/pgserver.h"
#include "support/rewind_fixture.h"
#include "support/scratch.h"

static int64_t rounds(void)
{
    return scratch_number("PAWL_TEST_FAILOVERS", 1);
}

static void a_server_is_restored(void **state)
{
    (void)state;
    pgserver_need();
    char database[PGSERVER_NAME], url[PGSERVER_URL];
    pgserver *s = pgserver_start(NULL);
    pgserver_database(s, database);
    pgserver_url(s, database, url);
    rewind_fixture r = {.started = 0};
    rewind_begin(&r, url);
    for (int64_t i = 0; i < rounds(); i++) {
        tmp_watchdog("a server that is restored");
        rewind_start_some(&r);
        pgserver_backup(s);
        rewind_mark(&r);
        rewind_join(&r);
        rewind_start_some(&r);
        rewind_pause(&r);
        pgserver_restore(s);
        rewind_continue(&r);
        rewind_expect(&r);
        rewind_leave(&r);
    }
    tmp_watchdog(NULL);
    rewind_report(&r, "a server that is restored", rounds());
    rewind_end(&r);
    pgserver_free(s);
}

/* What the standby has got so far is all that it will get. */
static void cut_off(pgserver *standby)
{
    pgserver_exec(standby, NULL, "ALTER SYSTEM SET primary_conninfo = ''");
    pgserver_exec(standby, NULL, "SELECT pg_reload_conf()");
    TMP_AWAIT(pgserver_number(standby, NULL, "SELECT count(*) FROM pg_stat_wal_receiver") == 0);
}

/* The standby has all that was written until now. */
static void await_standby(pgserver *primary)
{
    char text[160];
    snprintf(text, sizeof text,
             "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'async'"
             " AND replay_lsn - '0/0'::pg_lsn >= %lld",
             (long long)pgserver_number(
                 primary, NULL, "SELECT (pg_current_wal_flush_lsn() - '0/0'::pg_lsn)::bigint"));
    TMP_AWAIT(pgserver_number(primary, NULL, text) > 0);
}

static void url_of_both(const pgserver *primary, const pgserver *standby, const char *database,
                        char url[PGSERVER_URL])
{
    int n = snprintf(url, PGSERVER_URL,
                     "postgres:///%s?host=%s,%s&port=%d,%d&user=pawl"
                     "&target_session_attrs=read-write",
                     database, pgserver_dir(primary), pgserver_dir(standby), pgserver_port(primary),
                     pgserver_port(standby));
    assert_in_range(n, 1, PGSERVER_URL - 1);
}

static void promote_once(rewind_fixture *r)
{
    char database[PGSERVER_NAME], url[PGSERVER_URL];
    pgserver *primary = pgserver_start(NULL);
    pgserver_database(primary, database);
    pgserver *standby = pgserver_follow(primary);
    url_of_both(primary, standby, database, url);
    rewind_begin(r, url);
    rewind_start_some(r);
    await_standby(primary);
    rewind_pause(r);
    cut_off(standby);
    rewind_mark(r);
    rewind_join(r);
    rewind_start_some(r);
    rewind_pause(r);
    pgserver_stop(primary, PGSERVER_KILL);
    pgserver_exec(standby, NULL, "SELECT pg_promote()");
    rewind_continue(r);
    rewind_expect(r);
    rewind_end(r);
    pgserver_free(standby);
    pgserver_free(primary);
}

static void a_standby_that_was_behind_is_promoted(void **state)
{
    (void)state;
    pgserver_need();
    rewind_fixture r = {.started = 0};
    for (int64_t i = 0; i < rounds(); i++) {
        tmp_watchdog("a standby that is promoted");
        promote_once(&r);
        r.kept = 0; /* the next one is another database */
    }
    tmp_watchdog(NULL);
    rewind_report(&r, "a standby that is promoted", rounds());
}

int main(void)
{
    struct sigaction action = {.sa_handler = SIG_IGN};
    sigaction(SIGPIPE, &action, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_server_is_restored),
        cmocka_unit_test(a_standby_that_was_behind_is_promoted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
