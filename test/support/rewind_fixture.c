/* At the end the fixture expects: no run is live, failed or held; all runs are there that have to
 * be, and no others; no journal has a gap; and no rows of a run are left without the run.
 *
 * How long a run may be due before it is driven is counted in rounds of the node loops that look
 * for runs to claim, and not in time. However slow the machine is, a node has claimed what a round
 * has found, and begins the next round only when these claims are committed. */
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
#include "sched/sched.h"
#include "support/scratch.h"

/* CLAIM_MS is so long that even on a busy machine a heartbeat is sent within it. */
enum { EACH = 8, PAUSE_US = 4000, CLAIM_MS = 60000, LOOKS_MAX = 10 };

static void note_log(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "database-went-back") == 0)
        atomic_fetch_add((atomic_int *)arg, 1);
}

/* ---- The runs ---- */

static const char *echo_input(pawl_work *work, const char *input)
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

static void expect_text(pawl_run *run, const char *got, const char *wanted)
{
    if (strcmp(got, wanted) != 0)
        pawl_fail(run, "foreign", "a step of another run");
}

static void expect_own(pawl_run *run, const char *input)
{
    char own[40];
    snprintf(own, sizeof own, "\"%s\"", pawl_run_id(run));
    expect_text(run, input, own);
}

static const char *walk_steps(pawl_run *run, const char *input)
{
    expect_own(run, input);
    expect_text(run, pawl_step(run, "one", echo_input, input, NULL), input);
    expect_text(run, pawl_step(run, "two", echo_input, input, NULL), input);
    pawl_sleep(run, 1);
    expect_text(run, pawl_transact(run, "inside", echo_inside, input, NULL), input);
    pawl_future *later = pawl_step_later(run, "later", echo_input, input, NULL);
    expect_text(run, pawl_await(run, later), input);
    return pawl_step(run, "last", echo_input, input, NULL);
}

/* A workflow with as many steps as the others, and among them a message that comes after the
 * restore. */
static const char *wait_long(pawl_run *run, const char *input)
{
    const char *message;
    expect_own(run, input);
    for (int i = 0; i < 3; i++)
        expect_text(run, pawl_step(run, "before", echo_input, input, NULL), input);
    if (pawl_receive(run, "go", PAWL_FOREVER, &message) == PAWL_OK)
        expect_text(run, message, input);
    expect_text(run, pawl_step(run, "after", echo_input, input, NULL), input);
    return pawl_step(run, "last", echo_input, input, NULL);
}

/* ---- The nodes ---- */

static void *serve_node(void *arg)
{
    pawl_code rc = pawl_serve(arg);
    if (rc != PAWL_OK)
        fprintf(stderr, "serve: %s\n", pawl_errtext(arg));
    return rc == PAWL_OK ? NULL : arg;
}

static void open_node(rewind_fixture *r, rewind_node *n)
{
    pawl_options o = {.size = sizeof o,
                      .threads = 2,
                      .claim_ms = CLAIM_MS,
                      .log = note_log,
                      .log_arg = &n->noticed};
    assert_int_equal(pawl_open(&n->p, r->url, &o), PAWL_OK);
    assert_int_equal(pawl_register_workflow(n->p, "walk", walk_steps, NULL), PAWL_OK);
    assert_int_equal(pawl_register_workflow(n->p, "wait", wait_long, NULL), PAWL_OK);
}

static void begin_node(rewind_node *n)
{
    assert_int_equal(pthread_create(&n->thread, NULL, serve_node, n->p), 0);
}

static void end_node(rewind_node *n)
{
    void *failed;
    if (!n->p)
        return;
    pawl_stop(n->p);
    pthread_join(n->thread, &failed);
    assert_null(failed);
    pawl_close(n->p);
    n->p = NULL;
}

void rewind_begin(rewind_fixture *r, const char *url)
{
    r->url = url;
    random_seeded_init(&r->random, scratch_seed());
    for (int i = 0; i < REWIND_NODES - 1; i++)
        open_node(r, &r->nodes[i]);
    for (int i = 0; i < REWIND_NODES - 1; i++)
        begin_node(&r->nodes[i]);
}

void rewind_end(rewind_fixture *r)
{
    for (int i = 0; i < REWIND_NODES; i++)
        end_node(&r->nodes[i]);
}

static rewind_node *guest_node(rewind_fixture *r)
{
    return &r->nodes[REWIND_NODES - 1];
}

void rewind_join(rewind_fixture *r)
{
    open_node(r, guest_node(r));
    begin_node(guest_node(r));
    TMP_AWAIT(handle_node(guest_node(r)->p) != 0);
    guest_node(r)->before = atomic_load(&guest_node(r)->noticed);
}

void rewind_leave(rewind_fixture *r)
{
    end_node(guest_node(r));
}

/* ---- A round ---- */

static void start_run(rewind_fixture *r, pawl *p, const char *name)
{
    char id[32], input[40];
    pawl_code rc;
    int64_t until = tmp_deadline();
    snprintf(id, sizeof id, "w%lld", (long long)++r->started);
    snprintf(input, sizeof input, "\"%s\"", id);
    while ((rc = pawl_start(p, name, id, input, NULL)) != PAWL_OK) {
        if (!pawl_code_retryable(rc))
            fail_msg("%s", pawl_errtext(p));
        tmp_pause(until, "a run can be started", __FILE__, __LINE__);
    }
    r->kept += r->lost_to >= 0;
}

void rewind_start_some(rewind_fixture *r)
{
    int nodes = guest_node(r)->p ? REWIND_NODES : REWIND_NODES - 1;
    if (r->lost_to >= 0 && r->waits == 0) {
        start_run(r, r->nodes[0].p, "wait");
        r->waits = r->started;
    }
    for (int i = 0; i < EACH; i++)
        start_run(r, r->nodes[i % nodes].p, "walk");
}

void rewind_pause(rewind_fixture *r)
{
    uint32_t bits = 0;
    r->random.source.fill(&r->random.source, &bits, sizeof bits);
    struct timespec a_while = {0, (long)(bits % PAUSE_US) * 1000};
    nanosleep(&a_while, NULL); /* a random pause, and no wait for anything */
}

static int64_t count_rows(rewind_fixture *r, const char *text)
{
    db_sql sql = {text, ""};
    return conf_number(handle_db(r->nodes[0].p), &sql, NULL, 0);
}

static int64_t count_live(rewind_fixture *r)
{
    return count_rows(r, "SELECT count(*) FROM {runs} WHERE phase IN (0, 4)");
}

/* Returns the number of runs that are due, and that no node of the fixture owns. */
static int64_t count_undriven(rewind_fixture *r)
{
    static const db_sql sql = {
        "SELECT count(*) FROM {runs} WHERE phase IN (0, 4) AND held = 0 AND wake_at <= $1"
        " AND owner NOT IN ($2, $3, $4)",
        "iiii"};
    db_value values[1 + REWIND_NODES] = {db_int(clock_system()->now_ms(clock_system()))};
    for (int i = 0; i < REWIND_NODES; i++)
        values[1 + i] = db_int(r->nodes[i].p ? handle_node(r->nodes[i].p) : 0);
    for (int i = 0; i < REWIND_NODES; i++) /* a run without an owner has 0 there, which is no
                                              node */
        values[1 + i] = values[1 + i].i == 0 ? db_int(-1) : values[1 + i];
    return conf_number(handle_db(r->nodes[0].p), &sql, values, 1 + REWIND_NODES);
}

static int64_t looks_of(const rewind_node *n)
{
    return sched_looks_made(handle_sched(n->p));
}

/* Returns the least number of rounds that a node loop has made since all nodes have noticed the
 * restore. */
static int64_t least_looks(const rewind_fixture *r)
{
    int64_t least = INT64_MAX;
    for (int i = 0; i < REWIND_NODES; i++) {
        const rewind_node *n = &r->nodes[i];
        int64_t made = n->p ? looks_of(n) - n->looks : INT64_MAX;
        least = made < least ? made : least;
    }
    return least;
}

/* Waits until all due runs are driven. All nodes have noticed the restore: rounds count from here
 * on. */
static void await_driven(rewind_fixture *r)
{
    int64_t until = tmp_deadline(), made, left;
    for (int i = 0; i < REWIND_NODES; i++)
        if (r->nodes[i].p)
            r->nodes[i].looks = looks_of(&r->nodes[i]);
    while (made = least_looks(r), left = count_undriven(r), left > 0) {
        r->undriven = r->undriven > left ? r->undriven : left;
        r->looks = r->looks > made ? r->looks : made;
        if (made > LOOKS_MAX)
            fail_msg("%lld runs are due, and no node drives them after %lld looks of each",
                     (long long)left, (long long)made);
        tmp_pause(until, "what is due is driven", __FILE__, __LINE__);
    }
}

static void expect_runs(rewind_fixture *r)
{
    static const db_sql LOST = {
        "SELECT count(*) FROM {runs} WHERE CAST(substr(id, 2) AS BIGINT) BETWEEN $1 AND $2", "ii"};
    db_value values[] = {db_int(r->lost_from), db_int(r->lost_to - 1)};
    assert_int_equal(conf_number(handle_db(r->nodes[0].p), &LOST, values, 2), 0);
    assert_int_equal(count_rows(r, "SELECT count(*) FROM {runs}"), r->kept);
    assert_int_equal(count_rows(r, "SELECT count(*) FROM {runs} WHERE phase <> 1 OR held <> 0"), 0);
}

static void expect_journals(rewind_fixture *r)
{
    assert_int_equal(count_rows(r, "SELECT count(*) FROM (SELECT run FROM {journal}"
                                   " GROUP BY run, generation"
                                   " HAVING min(seq) <> 2 OR max(seq) <> count(*) + 1) AS holes"),
                     0);
    assert_int_equal(count_rows(r, "SELECT count(*) FROM {journal} AS j WHERE NOT EXISTS"
                                   " (SELECT 1 FROM {runs} AS r WHERE r.run = j.run)"),
                     0);
    assert_int_equal(count_rows(r, "SELECT count(*) FROM {runs} AS r WHERE (SELECT count(*) FROM"
                                   " {journal} AS j WHERE j.run = r.run AND j.kind IN (2, 16, 18))"
                                   " <> 5"),
                     0);
}

/* Expects that each engine is a node, and that no two have the same id. */
static void expect_nodes(rewind_fixture *r)
{
    for (int i = 0; i < REWIND_NODES; i++) {
        if (!r->nodes[i].p)
            continue;
        TMP_AWAIT(handle_node(r->nodes[i].p) != 0);
        for (int k = 0; k < i; k++)
            assert_int_not_equal(handle_node(r->nodes[i].p), handle_node(r->nodes[k].p));
    }
}

/* No node has any of these runs in memory. */
void rewind_empty(rewind_fixture *r)
{
    conf_script(handle_db(r->nodes[0].p),
                "DELETE FROM {journal}; DELETE FROM {inbox}; DELETE FROM {receipts};"
                " DELETE FROM {changes}; DELETE FROM {runs}");
    r->kept = 0;
}

void rewind_mark(rewind_fixture *r)
{
    for (int i = 0; i < REWIND_NODES; i++)
        r->nodes[i].before = atomic_load(&r->nodes[i].noticed);
    r->lost_from = r->started + 1;
    r->lost_to = -1;
}

void rewind_continue(rewind_fixture *r)
{
    char id[32], message[40];
    pawl_code rc;
    int64_t until = tmp_deadline();
    r->lost_to = r->started + 1;
    snprintf(id, sizeof id, "w%lld", (long long)r->waits);
    snprintf(message, sizeof message, "\"%s\"", id);
    rewind_start_some(r);
    while ((rc = pawl_send(r->nodes[1].p, id, "go", message, NULL)) != PAWL_OK) {
        if (!pawl_code_retryable(rc))
            fail_msg("%s", pawl_errtext(r->nodes[1].p));
        tmp_pause(until, "a message can be sent", __FILE__, __LINE__);
    }
}

void rewind_expect(rewind_fixture *r)
{
    clock_source *clock = clock_system();
    int64_t began = clock->mono_ns(clock);
    for (int i = 0; i < REWIND_NODES; i++)
        if (r->nodes[i].p)
            TMP_AWAIT(atomic_load(&r->nodes[i].noticed) > r->nodes[i].before);
    await_driven(r);
    TMP_AWAIT(count_live(r) == 0);
    int64_t took = clock->mono_ns(clock) - began;
    r->longest_ns = took > r->longest_ns ? took : r->longest_ns;
    expect_runs(r);
    expect_journals(r);
    expect_nodes(r);
    r->waits = 0;
}

void rewind_report(const rewind_fixture *r, const char *what, int64_t rounds)
{
    fprintf(stderr,
            "# %s: %lld rounds; up to %lld runs were due and not driven, for %lld looks; all at"
            " their end after %lld ms at most\n",
            what, (long long)rounds, (long long)r->undriven, (long long)r->looks,
            (long long)(r->longest_ns / 1000000));
}
