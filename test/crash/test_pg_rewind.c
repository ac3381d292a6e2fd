/* L8: a commit loses its answer, and the server that is asked what became of it lacks even what was
 * acknowledged before. That is what a failover to a standby that was behind looks like: it must not
 * be taken for a commit that was merely lost, and nothing may be written there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "db/world.h"
#include "support/backup.h"
#include "support/conf.h"
#include "support/proxy.h"

enum { RUN = 1, KEPT = 8, ACKNOWLEDGED = 10 };

static void note_log(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "database-went-back") == 0)
        atomic_fetch_add((atomic_int *)arg, 1);
}

static void append(committer *k, int64_t seq, unit_answer wanted)
{
    conf_ticket t;
    conf_ticket_append(&t, RUN, seq, NULL);
    committer_commit(k, t.unit);
    CONF_ANSWER(&t, wanted);
    conf_ticket_free(&t);
}

static void lose_the_answer(conf *c, proxy_action how)
{
    char url[PGSERVER_URL];
    atomic_int noticed = 0;
    error err = {0};
    db *d;
    proxy *p = proxy_start(c->server);
    proxy_url(p, c->database, url);
    db_options options = {.url = url, .log = {note_log, &noticed}};
    CONF_OK(db_open(&d, &options, &err), &err);
    committer *k = conf_committer(d, NULL);
    world_bind(d);
    for (int seq = 1; seq <= ACKNOWLEDGED; seq++) {
        append(k, seq, UNIT_COMMITTED);
        if (seq == KEPT)
            backup_take(c);
    }
    conf_ticket t;
    conf_ticket_append(&t, RUN, ACKNOWLEDGED + 1, NULL);
    proxy_refuse(p, 1);
    proxy_plan(p, how, 1);
    committer_submit(k, t.unit);
    committer_leave(k);
    TMP_AWAIT(atomic_load(&t.undecided) == 1);
    backup_restore(c);
    proxy_refuse(p, 0);
    TMP_AWAIT(atomic_load(&t.finals) == 1);
    CONF_ANSWER(&t, UNIT_FAILED);
    assert_int_equal(noticed, 1);
    assert_int_equal(conf_rows(d, RUN), KEPT);
    append(k, ACKNOWLEDGED + 2, UNIT_REFUSED);
    world_unbind(d);
    append(k, KEPT + 1, UNIT_COMMITTED);
    assert_int_equal(noticed, 1);
    conf_ticket_free(&t);
    committer_close(k);
    db_close(d);
    proxy_stop(p);
}

static void its_answer_is_lost(conf *c)
{
    lose_the_answer(c, PROXY_CUT_AFTER);
}

static void it_never_arrives(conf *c)
{
    lose_the_answer(c, PROXY_CUT_BEFORE);
}

static const conf_case CASES[] = {
    {"its answer is lost", its_answer_is_lost, 0},
    {"it never arrives", it_never_arrives, 0},
};

int main(void)
{
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
