/* A server that gives a node fewer connections than it would like: the node does its work with
 * them, or says which limit is in the way; it never owns what it cannot execute (L3, L6).
 *
 * The limit is that of the node's role. The test itself looks as another one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "support/app.h"
#include "support/conf.h"

/* A server waits for locks, and for what a node sends, for parts of a claim: this is long enough
 * for a busy machine. What cannot be read is given back when a claim has passed; that is
 * awaited. */
enum { CLAIM_MS = 20000, SHORT_CLAIM_MS = 8000 };

enum { RUNS = 6, URL = PGSERVER_URL + 64 };

/* What the node's log has said, and what was executed. */
typedef struct heard {
    atomic_int unable;
    atomic_int able;
    atomic_int given_back;
    atomic_int few;
    atomic_int steps;
} heard;

static void listen(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    heard *h = arg;
    if (strcmp(event, "node-unable") == 0) /* it says why */
        assert_null(strstr(fields, "why=\"\""));
    atomic_fetch_add(&h->unable, strcmp(event, "node-unable") == 0);
    atomic_fetch_add(&h->able, strcmp(event, "node-able") == 0);
    atomic_fetch_add(&h->given_back, strcmp(event, "run-given-back") == 0);
    atomic_fetch_add(&h->few, strcmp(event, "few-connections") == 0);
}

static const char *count_step(pawl_work *work, const char *input)
{
    heard *h = pawl_work_arg(work);
    atomic_fetch_add(&h->steps, 1);
    return input;
}

static const char *step_twice(pawl_run *run, const char *input)
{
    pawl_step(run, "first", count_step, "1", PAWL_CALL(.arg = pawl_arg(run)));
    pawl_step(run, "second", count_step, "2", PAWL_CALL(.arg = pawl_arg(run)));
    return input;
}

static const char *step_and_hear(pawl_run *run, const char *input)
{
    (void)input;
    pawl_step(run, "first", count_step, "1", PAWL_CALL(.arg = pawl_arg(run)));
    const char *message;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    return message;
}

/* ---- The role ---- */

static void limit(const conf *c, int connections)
{
    char sql[64];
    snprintf(sql, sizeof sql, "ALTER ROLE few CONNECTION LIMIT %d", connections);
    pgserver_exec(c->server, NULL, sql);
}

/* The tables are made by another role, and the node's has all rights. */
static void make_role(const conf *c, char url[URL])
{
    pawl *p;
    assert_int_equal(pawl_open(&p, c->url, NULL), PAWL_OK);
    pawl_close(p);
    pgserver_exec(c->server, c->database,
                  "DROP ROLE IF EXISTS few; CREATE ROLE few LOGIN;"
                  "GRANT ALL ON SCHEMA pawl TO few; GRANT ALL ON ALL TABLES IN SCHEMA pawl TO few;"
                  "GRANT ALL ON ALL SEQUENCES IN SCHEMA pawl TO few");
    snprintf(url, URL, "postgres://few@/%s?host=%s&port=%d", c->database, pgserver_dir(c->server),
             pgserver_port(c->server));
}

static void drop_role(const conf *c)
{
    pgserver_exec(c->server, c->database, "DROP OWNED BY few; DROP ROLE few");
}

static int64_t sessions(const conf *c)
{
    return pgserver_number(c->server, NULL,
                           "SELECT count(*) FROM pg_stat_activity WHERE usename = 'few'");
}

/* ---- A node ---- */

typedef struct server {
    pawl *p;
    pthread_t thread;
    pawl_code answer;
    atomic_int ended;
} server;

static void *serve(void *arg)
{
    server *v = arg;
    v->answer = pawl_serve(v->p);
    if (v->answer != PAWL_OK && !strstr(pawl_errtext(v->p), "too many connections"))
        v->answer = PAWL_INTERNAL; /* an answer that does not name the limit */
    atomic_store(&v->ended, 1);
    return NULL;
}

static pawl_code open_node(server *v, const char *url, int64_t claim_ms, heard *h)
{
    *v = (server){.ended = 0};
    pawl_code rc = pawl_open(
        &v->p, url, PAWL_OPTIONS(.threads = 2, .claim_ms = claim_ms, .log = listen, .log_arg = h));
    if (rc != PAWL_OK)
        return rc;
    assert_int_equal(pawl_register_workflow(v->p, "twice", step_twice, PAWL_WORKFLOW(.arg = h)),
                     PAWL_OK);
    assert_int_equal(pawl_register_workflow(v->p, "hear", step_and_hear, PAWL_WORKFLOW(.arg = h)),
                     PAWL_OK);
    assert_int_equal(pthread_create(&v->thread, NULL, serve, v), 0);
    return PAWL_OK;
}

static void close_node(server *v)
{
    pawl_stop(v->p);
    assert_int_equal(pthread_join(v->thread, NULL), 0);
    pawl_close(v->p);
}

static int64_t count_done(pawl *client, const char *prefix)
{
    int64_t done = 0;
    for (int i = 0; i < RUNS; i++) {
        char id[48];
        snprintf(id, sizeof id, "%s-%d", prefix, i);
        done += pawl_wait(client, id, 0, NULL) == PAWL_OK;
    }
    return done;
}

/* Does pawl_why() of this run say so? */
static int is_told(pawl *client, const char *id, const char *text)
{
    char *why = NULL;
    assert_int_equal(pawl_why(client, id, &why), PAWL_OK);
    int told = strstr(why, text) != NULL;
    pawl_free(why);
    return told;
}

/* ---- Cases ---- */

/* From one connection on. Either all runs get done, or opening or serving is answered with an error
 * that names the limit, and no run is owned. Five are enough. */
static void a_node_works_with_any_number_of_connections(conf *c)
{
    char url[URL];
    pawl *client;
    make_role(c, url);
    assert_int_equal(pawl_open(&client, c->url, PAWL_OPTIONS(.threads = -1)), PAWL_OK);
    app *a = app_open(c);
    for (int n = 1; n <= 8; n++) {
        heard h = {0};
        server v;
        char prefix[32], id[48];
        TMP_AWAIT(sessions(c) == 0);
        limit(c, n);
        snprintf(prefix, sizeof prefix, "run-%d", n);
        for (int i = 0; i < RUNS; i++) {
            snprintf(id, sizeof id, "%s-%d", prefix, i);
            assert_int_equal(pawl_start(client, "twice", id, "1", NULL), PAWL_OK);
        }
        pawl_code rc = open_node(&v, url, CLAIM_MS, &h);
        if (rc != PAWL_OK) {
            assert_int_equal(rc, PAWL_UNREACHABLE);
            assert_non_null(strstr(pawl_errtext(v.p), "too many connections"));
            assert_non_null(strstr(pawl_errtext(v.p), "CONNECTION LIMIT"));
            pawl_close(v.p);
        } else {
            TMP_AWAIT(atomic_load(&v.ended) || count_done(client, prefix) == RUNS);
            int ended = atomic_load(&v.ended);
            close_node(&v);
            if (ended)
                assert_int_equal(v.answer, PAWL_UNREACHABLE);
            else
                assert_true(atomic_load(&h.steps) >= 2 * RUNS); /* those of before too */
            rc = ended ? v.answer : PAWL_OK;
        }
        if (n >= 5)
            assert_int_equal(rc, PAWL_OK);
        assert_int_equal(app_number(a, "SELECT count(*) FROM pawl.runs WHERE owner <> 0"), 0);
    }
    app_close(a);
    pawl_close(client);
    TMP_AWAIT(sessions(c) == 0);
    drop_role(c);
}

/* The server takes all connections away, and gives none for a while. */
static void a_node_loses_all_of_its_connections(conf *c)
{
    char url[URL];
    pawl *client;
    heard h = {0};
    server v;
    make_role(c, url);
    assert_int_equal(pawl_open(&client, c->url, PAWL_OPTIONS(.threads = -1)), PAWL_OK);
    assert_int_equal(open_node(&v, url, CLAIM_MS, &h), PAWL_OK);
    assert_int_equal(pawl_start(client, "twice", "before", "1", NULL), PAWL_OK);
    TMP_AWAIT(pawl_wait(client, "before", 0, NULL) == PAWL_OK);
    limit(c, 0);
    pgserver_exec(c->server, NULL,
                  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'few'");
    assert_int_equal(pawl_start(client, "twice", "after", "1", NULL), PAWL_OK);
    TMP_AWAIT(atomic_load(&h.unable) >= 1);
    assert_int_equal(pawl_wait(client, "after", 0, NULL), PAWL_TIMEOUT);
    limit(c, -1);
    TMP_AWAIT(atomic_load(&h.able) >= 1);
    TMP_AWAIT(pawl_wait(client, "after", 0, NULL) == PAWL_OK || atomic_load(&v.ended));
    assert_int_equal(pawl_wait(client, "after", 0, NULL), PAWL_OK);
    assert_int_equal(atomic_load(&h.steps), 4);
    close_node(&v);
    pawl_close(client);
    TMP_AWAIT(sessions(c) == 0);
    drop_role(c);
}

static int64_t last_beat(app *a)
{
    return app_number(a, "SELECT max(at) FROM pawl.beats");
}

/* Only the connection for reading is lost, and another one took its place: what cannot be read is
 * given back, nothing is claimed, and it goes on when there is room again. */
static void a_node_loses_its_connection_for_reading(conf *c)
{
    char url[URL];
    pawl *client;
    heard h = {0};
    server v;
    make_role(c, url);
    app *a = app_open(c);
    assert_int_equal(pawl_open(&client, c->url, PAWL_OPTIONS(.threads = -1)), PAWL_OK);
    assert_int_equal(open_node(&v, url, SHORT_CLAIM_MS, &h), PAWL_OK);
    assert_int_equal(pawl_start(client, "hear", "run", "1", NULL), PAWL_OK);
    TMP_AWAIT(app_number(a, "SELECT count(*) FROM pawl.runs WHERE owner <> 0 AND wake_at IS NULL"));
    TMP_AWAIT(sessions(c) == 6); /* two committers, heartbeats, looks, one reader; the notifier */
    limit(c, 5);
    pgserver_exec(c->server, NULL,
                  "SELECT pg_terminate_backend(pid) FROM (SELECT pid FROM pg_stat_activity"
                  " WHERE usename = 'few' ORDER BY backend_start OFFSET 4 LIMIT 1) AS fifth");
    TMP_AWAIT(sessions(c) == 5);
    assert_int_equal(pawl_send(client, "run", "box", "7", NULL), PAWL_OK);
    TMP_AWAIT(atomic_load(&h.given_back) > 0);
    TMP_AWAIT(atomic_load(&h.unable) >= 1);
    TMP_AWAIT(app_number(a, "SELECT count(*) FROM pawl.runs WHERE owner <> 0") == 0);
    int64_t beat = last_beat(a);
    TMP_AWAIT(last_beat(a) > beat + 2000); /* it lives, and has looked for work */
    assert_int_equal(pawl_wait(client, "run", 0, NULL), PAWL_TIMEOUT);
    assert_true(is_told(client, "run", "of 1 live node none can execute workflow \"hear\""));
    assert_true(is_told(client, "run", " claims nothing: it cannot read journals, because"));
    limit(c, -1);
    TMP_AWAIT(pawl_wait(client, "run", 0, NULL) == PAWL_OK);
    TMP_AWAIT(atomic_load(&h.able) >= 1);
    assert_int_equal(pawl_start(client, "hear", "next", "1", NULL), PAWL_OK);
    TMP_AWAIT(is_told(client, "next", "owns it and is alive"));
    TMP_AWAIT(!is_told(client, "next", "claims nothing"));
    assert_int_equal(pawl_send(client, "next", "box", "7", NULL), PAWL_OK);
    TMP_AWAIT(pawl_wait(client, "next", 0, NULL) == PAWL_OK);
    assert_int_equal(atomic_load(&h.steps), 2);
    close_node(&v);
    app_close(a);
    pawl_close(client);
    TMP_AWAIT(sessions(c) == 0);
    drop_role(c);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a node works with any number of connections", a_node_works_with_any_number_of_connections,
         0},
        {"a node loses all of its connections", a_node_loses_all_of_its_connections, 0},
        {"a node loses its connection for reading", a_node_loses_its_connection_for_reading, 0},
    };
    return conf_run_on("postgres", CASES, CONF_COUNT(CASES));
}
