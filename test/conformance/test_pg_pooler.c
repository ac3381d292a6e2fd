/* Behind a pooler two transactions of a connection may run in two sessions of the server, which are
 * shared with others: what a session keeps is not ours. Without being told so pawl refuses, and has
 * changed nothing in sessions of others; told so by ?pooler=transaction, everything holds in every
 * single transaction.
 *
 * The pooler has fewer sessions than there are connections here, so that they are shared. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <libpq-fe.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/conf.h"
#include "support/pgbouncer.h"
#include "support/proxy.h"

enum { URL = 2 * PGSERVER_URL, SQL = 512, CLAIM_MS = 3000 };

static const char *const ONE_SESSION[] = {"default_pool_size = 1", NULL};
static const char *const TWO_SESSIONS[] = {"default_pool_size = 2", NULL};

static const db_sql SETTING = {"SELECT setting FROM pg_settings WHERE name = $1", "t"};
static const db_sql SET = {"INSERT INTO {meta} (name, number) VALUES ($1, $2)"
                           " ON CONFLICT (name) DO UPDATE SET number = excluded.number",
                           "ti"};
static const db_sql RAISE = {
    "UPDATE {meta} SET number = number + 1 WHERE name = $1 AND number = $2 RETURNING number", "ti"};
static const db_sql LOOK = {"SELECT number FROM {meta} WHERE name = $1", "t"};

/* ---- Helpers ---- */

/* The URL of the test's database through the pooler, with more behind. */
static void url_through(const conf *c, const pgbouncer *b, const char *more, char out[URL])
{
    char url[PGSERVER_URL];
    pgbouncer_url(b, c->database, url);
    int n = snprintf(out, URL, "%s%s", url, more);
    assert_in_range(n, 1, URL - 1);
}

static db *open_url(const char *url, int64_t claim_ms)
{
    error err = {0};
    db *d = NULL;
    db_options o = {.url = url, .claim_ms = claim_ms};
    CONF_OK(db_open(&d, &o, &err), &err);
    return d;
}

/* The settings that the client of another program finds in a session of the pooler. */
static void expect_others_find(const conf *c, const pgbouncer *b, const char *name,
                               const char *wanted)
{
    char url[PGSERVER_URL], sql[SQL], found[64];
    pgbouncer_url(b, c->database, url);
    snprintf(sql, sizeof sql, "SELECT setting FROM pg_settings WHERE name = '%s'", name);
    PGconn *other = PQconnectdb(url);
    PGresult *r = PQexec(other, sql);
    int good = PQresultStatus(r) == PGRES_TUPLES_OK && PQntuples(r) == 1;
    snprintf(found, sizeof found, "%s", good ? PQgetvalue(r, 0, 0) : "?");
    PQclear(r);
    PQfinish(other);
    if (strcmp(found, wanted) != 0)
        fail_msg("others find %s = %s, not %s", name, found, wanted);
}

static void expect_setting(db_conn *conn, const char *name, const char *wanted)
{
    error err = {0};
    db_stmt *s;
    db_value value = db_text(slice_of(name));
    CONF_OK(db_prepare(conn, &SETTING, &s, &err), &err);
    CONF_OK(db_bind_all(s, &value, 1, &err), &err);
    assert_int_equal(db_next(s, &err), DB_ROW);
    slice found = db_column(s, 0).s;
    if (!slice_equal(found, slice_of(wanted)))
        fail_msg("%s is %.*s, not %s", name, (int)found.size, found.at, wanted);
    db_reset(s);
}

/* ---- Without being told ---- */

static void a_pooler_is_recognised(conf *c)
{
    static const char *const MODES[] = {"pool_mode = transaction", "pool_mode = statement"};
    pgbouncer_need();
    for (size_t i = 0; i < sizeof MODES / sizeof *MODES; i++) {
        const char *settings[] = {MODES[i], "default_pool_size = 1", NULL};
        char url[URL];
        error err = {0};
        db *d = NULL;
        pgbouncer *b = pgbouncer_start(c->server, settings);
        url_through(c, b, "", url);
        assert_int_equal(db_open(&d, &(db_options){.url = url}, &err), PAWL_POOLER);
        assert_null(d);
        assert_non_null(strstr(err.message, "pooler"));
        assert_non_null(strstr(err.hint, "pooler=transaction"));
        /* Other clients that get the same session must not notice that pawl was there. */
        expect_others_find(c, b, "lock_timeout", "0");
        expect_others_find(c, b, "idle_in_transaction_session_timeout", "0");
        pgbouncer_free(b);
    }
}

/* ---- Settings ---- */

/* The database says otherwise; in every transaction of every connection of pawl the settings are as
 * they have to be, and in no other client's. */
static void settings_hold_in_each_transaction(conf *c)
{
    static const db_role ROLES[] = {DB_READER, DB_WRITER, DB_COMMITTER};
    char url[URL], sql[SQL];
    pgbouncer_need();
    snprintf(sql, sizeof sql,
             "ALTER DATABASE %s SET synchronous_commit = off;"
             "ALTER DATABASE %s SET statement_timeout = 44000",
             c->database, c->database);
    pgserver_exec(c->server, NULL, sql);
    pgbouncer *b = pgbouncer_start(c->server, ONE_SESSION);
    url_through(c, b, "&pooler=transaction", url);
    db *d = open_url(url, CLAIM_MS);
    expect_others_find(c, b, "synchronous_commit", "off");
    for (size_t i = 0; i < 2 * sizeof ROLES / sizeof *ROLES; i++) {
        db_conn *conn = conf_connect(d, ROLES[i / 2]);
        conf_begin(conn);
        expect_setting(conn, "synchronous_commit", "on");
        expect_setting(conn, "statement_timeout", "0");
        if (i % 2)
            conf_commit(conn);
        else
            db_rollback(conn);
        expect_others_find(c, b, "synchronous_commit", "off");
        expect_others_find(c, b, "statement_timeout", "44000");
        expect_others_find(c, b, "lock_timeout", "0");
        db_disconnect(conn);
    }
    db_close(d);
    pgbouncer_free(b);
}

/* ---- Units ---- */

/* One of several threads that write through the pooler, each with a committer of its own. */
typedef struct thread {
    committer *k;
    char name[32]; /* of its row */
    int number;
    int bad; /* what was not as it should be */
} thread;

/* Rows of batches and of lone units; each of these has another one whose run is its own pos. */
enum { THREADS = 3, ROUNDS = 15, BATCH = 5, BATCHES = 1000000, LONE = 2000000 };

/* Units of one batch; the last one is refused, by a guard behind one that has written. */
static void make_batch(thread *t, conf_ticket *tickets, int64_t version)
{
    db_value name = db_text(slice_of(t->name));
    for (int i = 0; i < BATCH; i++) {
        unit *u = tickets[i].unit;
        uint64_t key = unit_key_text("meta", name.s);
        int bad = i == BATCH - 1;
        int guard = unit_guard(u, &RAISE, "v", key, VALUES(name, db_int(version + i)));
        if (bad)
            unit_guard(u, &RAISE, "never", unit_key("meta", 0), VALUES(NAME("none"), db_int(0)));
        int64_t run = BATCHES + t->number;
        unit_write(u, &CONF_APPEND, unit_key("journal", run),
                   VALUES(db_int(run), db_from(guard, 0), NAME("row"), db_null()));
    }
}

static int are_answered(const conf_ticket *tickets, int count)
{
    for (int i = 0; i < count; i++)
        if (atomic_load(&tickets[i].finals) != 1)
            return 0;
    return 1;
}

/* A lone unit whose second write needs what the first one gave; then a batch. */
static void run_round(thread *t, int round)
{
    conf_ticket alone, tickets[BATCH];
    int64_t run = LONE + t->number;
    conf_ticket_append(&alone, run, round, NULL);
    unit_write(alone.unit, &CONF_APPEND, unit_key("journal", run),
               VALUES(db_from(0, 0), db_int(0), NAME("from"), db_null()));
    t->bad += committer_commit(t->k, alone.unit) != PAWL_OK;
    for (int i = 0; i < BATCH; i++)
        conf_ticket_open(&tickets[i], 0);
    make_batch(t, tickets, (int64_t)round * (BATCH - 1));
    for (int i = 0; i < BATCH; i++)
        committer_submit(t->k, tickets[i].unit);
    committer_flush(t->k);
    t->bad += !are_answered(tickets, BATCH);
    for (int i = 0; i < BATCH; i++) {
        unit_answer wanted = i == BATCH - 1 ? UNIT_REFUSED : UNIT_COMMITTED;
        t->bad += atomic_load(&tickets[i].answer) != wanted;
    }
    conf_tickets_free(tickets, BATCH);
    conf_ticket_free(&alone);
}

static void *run_thread(void *arg)
{
    thread *t = arg;
    for (int i = 0; i < ROUNDS; i++)
        run_round(t, i);
    return NULL;
}

static void units_work_in_shared_sessions(conf *c)
{
    static const db_sql COUNT = {"SELECT count(*) FROM {journal} WHERE run = $1", "i"};
    static const db_sql FROM = {"SELECT count(*) FROM {journal} AS a JOIN {journal} AS b"
                                " ON b.run = a.pos WHERE a.run = $1",
                                "i"};
    char url[URL];
    pgbouncer_need();
    pgbouncer *b = pgbouncer_start(c->server, TWO_SESSIONS);
    url_through(c, b, "&pooler=transaction", url);
    db *d = open_url(url, CLAIM_MS);
    thread threads[THREADS];
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++) {
        threads[i] = (thread){.k = conf_committer(d, NULL), .number = i};
        snprintf(threads[i].name, sizeof threads[i].name, "test.%d", i);
        conf_do(d, &SET, VALUES(db_text(slice_of(threads[i].name)), db_int(0)));
    }
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&ids[i], NULL, run_thread, &threads[i]), 0);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(ids[i], NULL), 0);
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(threads[i].bad, 0);
        committer_close(threads[i].k);
        assert_int_equal(conf_number(d, &LOOK, VALUES(db_text(slice_of(threads[i].name)))),
                         ROUNDS * (BATCH - 1));
        assert_int_equal(conf_number(d, &COUNT, VALUES(db_int(BATCHES + i))), ROUNDS * (BATCH - 1));
        assert_int_equal(conf_number(d, &COUNT, VALUES(db_int(LONE + i))), ROUNDS);
        assert_int_equal(conf_number(d, &FROM, VALUES(db_int(LONE + i))), ROUNDS);
    }
    db_close(d);
    pgbouncer_free(b);
}

/* ---- Trouble ---- */

/* A5: the answer of a commit is lost between us and the pooler. The transaction's record tells what
 * became of it, although the session it ran in may serve another client by now. */
static void lost_commits_are_settled(conf *c)
{
    static const proxy_action CUTS[] = {PROXY_CUT_AFTER, PROXY_CUT_BEFORE, PROXY_CUT_BLIND};
    char url[PGSERVER_URL], through[URL];
    pgbouncer_need();
    pgbouncer *b = pgbouncer_start(c->server, TWO_SESSIONS);
    proxy *p = proxy_start_at(pgbouncer_dir(b), pgbouncer_port(b));
    proxy_url(p, c->database, url);
    snprintf(through, sizeof through, "%s&pooler=transaction", url);
    db *d = open_url(through, CLAIM_MS);
    committer *k = conf_committer(d, NULL);
    conf_ticket first;
    conf_ticket_append(&first, 1, 1, NULL);
    assert_int_equal(committer_commit(k, first.unit), PAWL_OK);
    conf_ticket_free(&first);
    for (int i = 0; i < 12; i++) {
        proxy_action cut = CUTS[i % 3];
        int64_t run = 10 + i;
        conf_ticket t[4];
        int count = i < 6 ? 1 : 4;
        proxy_plan(p, cut, 1);
        for (int n = 0; n < count; n++) {
            conf_ticket_append(&t[n], run, n, NULL);
            committer_submit(k, t[n].unit);
        }
        committer_flush(k);
        unit_answer answer = atomic_load(&t[0].answer);
        if (cut == PROXY_CUT_AFTER)
            assert_int_equal(answer, UNIT_COMMITTED);
        if (cut == PROXY_CUT_BEFORE)
            assert_int_equal(answer, UNIT_FAILED);
        int64_t committed = 0;
        for (int n = 0; n < count; n++)
            committed += atomic_load(&t[n].answer) == UNIT_COMMITTED;
        assert_int_equal(conf_rows(d, run), committed);
        conf_tickets_free(t, (size_t)count);
    }
    assert_int_equal(proxy_count(p).fired, 12);
    committer_close(k);
    db_close(d);
    proxy_stop(p);
    pgbouncer_free(b);
}

/* All sessions are others': units stay queued, and go on when there is one again. */
static void a_pooler_without_a_free_session_is_waited_for(conf *c)
{
    char url[URL];
    pgbouncer_need();
    pgbouncer *b = pgbouncer_start(c->server, ONE_SESSION);
    url_through(c, b, "&pooler=transaction", url);
    db *d = open_url(url, 1000);
    committer *k = conf_committer(d, &(committer_options){.by_hand = 1});
    url_through(c, b, "", url);
    PGconn *other = PQconnectdb(url);
    PQclear(PQexec(other, "BEGIN"));
    assert_int_equal(PQtransactionStatus(other), PQTRANS_INTRANS);
    conf_ticket t;
    conf_ticket_append(&t, 1, 1, NULL);
    committer_submit(k, t.unit);
    assert_int_equal(committer_drive(k), 1);
    assert_int_equal(atomic_load(&t.finals), 0);
    PQfinish(other);
    TMP_AWAIT(committer_drive(k) >= 0 && atomic_load(&t.finals) > 0);
    CONF_ANSWER(&t, UNIT_COMMITTED);
    assert_int_equal(conf_rows(d, 1), 1);
    conf_ticket_free(&t);
    committer_close(k);
    db_close(d);
    pgbouncer_free(b);
}

static void a_pooler_without_a_server_is_unreachable(conf *c)
{
    static const char *const SOON[] = {"server_login_retry = 1", NULL};
    char url[PGSERVER_URL], through[URL];
    error err = {0};
    db *d = NULL;
    (void)c;
    pgbouncer_need();
    pgserver *s = pgserver_start(NULL);
    pgbouncer *b = pgbouncer_start(s, SOON);
    pgbouncer_url(b, "postgres", url);
    snprintf(through, sizeof through, "%s&pooler=transaction", url);
    pgserver_stop(s, PGSERVER_FAST);
    db_options o = {.url = through, .claim_ms = 1000};
    assert_int_equal(db_open(&d, &o, &err), PAWL_UNREACHABLE);
    assert_true(err.hint[0] != '\0');
    pgserver_restart(s);
    TMP_AWAIT(db_open(&d, &o, &err) == PAWL_OK); /* the pooler tries again when it likes */
    db_close(d);
    pgbouncer_free(b);
    pgserver_free(s);
}

/* ---- Waking ---- */

/* A client cannot listen in a session that it shares; notifying nodes that can listen works. */
static void notifications_go_through(conf *c)
{
    char url[URL];
    error err = {0};
    int fd = 0;
    pgbouncer_need();
    pgbouncer *b = pgbouncer_start(c->server, ONE_SESSION);
    url_through(c, b, "&pooler=transaction", url);
    db *d = open_url(url, CLAIM_MS);
    db *direct = conf_open(c, NULL);
    db_conn *teller = conf_connect(d, DB_NOTIFIER);
    db_conn *listener = conf_connect(direct, DB_NOTIFIER);
    CONF_OK(teller->driver->channel.listen(teller, 7, &fd, &err), &err);
    assert_int_equal(fd, -1);
    CONF_OK(listener->driver->channel.listen(listener, 7, &fd, &err), &err);
    assert_true(fd >= 0);
    CONF_OK(teller->driver->channel.notify(teller, (int64_t[]){7}, 1, &err), &err);
    TMP_AWAIT(listener->driver->channel.heard(listener) == 1);
    db_disconnect(listener);
    db_disconnect(teller);
    db_close(direct);
    db_close(d);
    pgbouncer_free(b);
}

static const conf_case CASES[] = {
    {"a pooler is recognised", a_pooler_is_recognised, 0},
    {"settings hold in each transaction", settings_hold_in_each_transaction, 0},
    {"units work in shared sessions", units_work_in_shared_sessions, 0},
    {"lost commits are settled", lost_commits_are_settled, 0},
    {"a pooler without a free session is waited for", a_pooler_without_a_free_session_is_waited_for,
     0},
    {"a pooler without a server is unreachable", a_pooler_without_a_server_is_unreachable, 0},
    {"notifications go through", notifications_go_through, 0},
};

int main(void)
{
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
