/* RLIMIT_FSIZE makes files of this process stop growing: with SIGXFSZ ignored a write that would
 * exceed it fails with EFBIG, which SQLite reports as it reports other failing writes. On a server
 * triggers fail instead: one on the journal, and one on the table `meta`, into which the engine
 * writes probes. Without the second one the engine would take the failures for a trouble of those
 * runs alone. */
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
