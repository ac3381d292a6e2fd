/* What is looked at in the end: nothing is live, failed or held; journals have no holes; and no row
 * is left of a run that is not there. */
#include "support/rewind_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "handle/handle.h"
#include "support/scratch.h"

/* Long enough that even a busy machine sends a heartbeat in that time. */
enum { EACH = 8, PAUSE_US = 4000, CLAIM_MS = 60000 };

static void note_log(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "database-went-back") == 0)
        atomic_fetch_add((atomic_int *)arg, 1);
}

/* ---- The runs ---- */

static const char *echo(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

static const char *echo_inside(pawl_work *work, void *native, const char *input)
{
    (void)work;
    (void)native;
    return input;
}

static void expect(pawl_run *run, const char *got, const char *wanted)
{
    if (strcmp(got, wanted) != 0)
        pawl_fail(run, "foreign", "a step of another run");
}

static const char *walk(pawl_run *run, const char *input)
{
    expect(run, pawl_step(run, "one", echo, input, NULL), input);
    expect(run, pawl_step(run, "two", echo, input, NULL), input);
    pawl_sleep(run, 1);
    expect(run, pawl_transact(run, "inside", echo_inside, input, NULL), input);
    pawl_future *later = pawl_step_later(run, "later", echo, input, NULL);
    expect(run, pawl_await(run, later), input);
    return pawl_step(run, "last", echo, input, NULL);
}

/* ---- The nodes ---- */

static void *serve(void *arg)
{
    pawl_code rc = pawl_serve(arg);
    if (rc != PAWL_OK)
        fprintf(stderr, "serve: %s\n", pawl_errtext(arg));
    return rc == PAWL_OK ? NULL : arg;
}

void restored_begin(restored *r, const char *url)
{
    random_seeded_init(&r->random, scratch_seed());
    for (int i = 0; i < RESTORED_NODES; i++) {
        restored_node *m = &r->nodes[i];
        pawl_options o = {.size = sizeof o,
                          .threads = 2,
                          .claim_ms = CLAIM_MS,
                          .log = note_log,
                          .log_arg = &m->noticed};
        assert_int_equal(pawl_open(&m->p, url, &o), PAWL_OK);
        assert_int_equal(pawl_register_workflow(m->p, "walk", walk, NULL), PAWL_OK);
    }
    for (int i = 0; i < RESTORED_NODES; i++)
        assert_int_equal(pthread_create(&r->nodes[i].thread, NULL, serve, r->nodes[i].p), 0);
}

void restored_end(restored *r)
{
    void *failed;
    for (int i = 0; i < RESTORED_NODES; i++) {
        pawl_stop(r->nodes[i].p);
        pthread_join(r->nodes[i].thread, &failed);
        assert_null(failed);
        pawl_close(r->nodes[i].p);
    }
}

/* ---- A round ---- */

static void start(restored *r, int node)
{
    char id[32], input[40];
    pawl *p = r->nodes[node].p;
    pawl_code rc;
    int64_t until = tmp_deadline();
    snprintf(id, sizeof id, "w%lld", (long long)++r->started);
    snprintf(input, sizeof input, "\"%s\"", id);
    while ((rc = pawl_start(p, "walk", id, input, NULL)) != PAWL_OK) {
        if (!pawl_code_retryable(rc))
            fail_msg("%s", pawl_errtext(p));
        tmp_pause(until, "a run can be started", __FILE__, __LINE__);
    }
}

void restored_start_some(restored *r)
{
    for (int i = 0; i < EACH; i++)
        start(r, i % RESTORED_NODES);
}

void restored_pause(restored *r)
{
    uint32_t bits = 0;
    r->random.source.fill(&r->random.source, &bits, sizeof bits);
    struct timespec a_while = {0, (long)(bits % PAUSE_US) * 1000};
    nanosleep(&a_while, NULL); /* at any moment, not for something to happen */
}

static int64_t count(restored *r, const char *text)
{
    db_sql sql = {text, ""};
    return conf_number(handle_db(r->nodes[0].p), &sql, NULL, 0);
}

static int64_t live(restored *r)
{
    return count(r, "SELECT count(*) FROM {runs} WHERE phase IN (0, 4)");
}

static void check(restored *r)
{
    assert_int_equal(count(r, "SELECT count(*) FROM {runs} WHERE phase <> 1 OR held <> 0"), 0);
    assert_int_equal(count(r, "SELECT count(*) FROM (SELECT run FROM {journal}"
                              " GROUP BY run, generation"
                              " HAVING min(seq) <> 2 OR max(seq) <> count(*) + 1) AS holes"),
                     0);
    assert_int_equal(count(r, "SELECT count(*) FROM {journal} AS j WHERE NOT EXISTS"
                              " (SELECT 1 FROM {runs} AS r WHERE r.run = j.run)"),
                     0);
    assert_int_equal(count(r, "SELECT count(*) FROM {runs} AS r WHERE (SELECT count(*) FROM"
                              " {journal} AS j WHERE j.run = r.run AND j.kind IN (2, 16, 18))"
                              " <> 5"),
                     0);
}

/* No run is left that anybody has in memory. */
void restored_empty(restored *r)
{
    conf_script(handle_db(r->nodes[0].p),
                "DELETE FROM {journal}; DELETE FROM {inbox}; DELETE FROM {receipts};"
                " DELETE FROM {changes}; DELETE FROM {runs}");
}

void restored_mark(restored *r)
{
    for (int i = 0; i < RESTORED_NODES; i++)
        r->nodes[i].before = atomic_load(&r->nodes[i].noticed);
}

void restored_expect(restored *r)
{
    for (int i = 0; i < RESTORED_NODES; i++)
        TMP_AWAIT(atomic_load(&r->nodes[i].noticed) > r->nodes[i].before);
    TMP_AWAIT(live(r) == 0);
    check(r);
}
