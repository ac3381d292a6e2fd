/* RLIMIT_FSIZE is what makes files of this process stop growing; with SIGXFSZ ignored a write that
 * would exceed it fails with EFBIG, and SQLite says what it says of a full disk. On a server it is
 * triggers that say so: on the journal, and on the table into which probes are written, since a
 * disk that is full for some records only is the trouble of their runs. */
#include "support/full_disk.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>

enum { ROOM = 64 * 1024 };

static const char TRIGGER[] =
    "CREATE OR REPLACE FUNCTION public.fill() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
    " IF to_regclass('public.full_disk') IS NOT NULL THEN"
    " RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END IF;"
    " RETURN NEW; END $$;"
    " DROP TRIGGER IF EXISTS fill ON pawl.journal;"
    " CREATE TRIGGER fill BEFORE INSERT ON pawl.journal"
    " FOR EACH ROW EXECUTE FUNCTION public.fill();"
    " DROP TRIGGER IF EXISTS fill ON pawl.meta;"
    " CREATE TRIGGER fill BEFORE INSERT OR UPDATE ON pawl.meta"
    " FOR EACH ROW EXECUTE FUNCTION public.fill()";

void full_disk_prepare(const conf *c)
{
    assert_int_equal(sigaction(SIGXFSZ, &(struct sigaction){.sa_handler = SIG_IGN}, NULL), 0);
    if (c->server)
        pgserver_exec(c->server, c->database, TRIGGER);
}

void full_disk_set(const conf *c, int full)
{
    struct rlimit limit;
    if (c->server) {
        pgserver_exec(c->server, c->database,
                      full ? "CREATE TABLE IF NOT EXISTS public.full_disk (x int)"
                           : "DROP TABLE IF EXISTS public.full_disk");
        return;
    }
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = full ? ROOM : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}
