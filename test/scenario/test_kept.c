/* Storage that fails under load, with threads: what was executed is recorded when the storage works
 * again, and no step is executed twice by a process that lives. Executions are lines of the side
 * file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "support/full_disk.h"
#include "support/served_fixture.h"

enum { RUNS = 100, STEPS = 9, ROUNDS = 5 };
enum { DONE, TROUBLE, KEPT, INSIDE, LET_GO, LOG_WAITS };

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "record-kept") == 0 || strcmp(event, "commit-undecided") == 0)
        atomic_fetch_add(fixture_number(arg, TROUBLE), 1);
    if (strcmp(event, "record-kept") == 0)
        atomic_fetch_add(fixture_number(arg, KEPT), 1);
    if (strcmp(event, "record-committed") == 0)
        atomic_fetch_sub(fixture_number(arg, KEPT), 1);
    while (strcmp(event, "record-kept") == 0 && number(arg, LOG_WAITS))
        poll(NULL, 0, 1);
}

static const char *work(pawl_work *w, const char *input)
{
    engine_fixture *s = pawl_work_arg(w);
    fixture_note(s, "%s.%s", pawl_work_run_id(w), pawl_work_name(w));
    atomic_fetch_add(fixture_number(s, DONE), 1);
    if (strcmp(pawl_work_run_id(w), "gated") == 0)
        while (!number(s, LET_GO))
            poll(NULL, 0, 1);
    return input;
}

/* Plain steps, later steps, time and randomness between them: what is kept is more than results. */
static const char *many_steps(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    for (int i = 0; i < STEPS; i++) {
        char name[32];
        snprintf(name, sizeof name, "s%d", i);
        pawl_now(run);
        if (pawl_random(run) & 1)
            pawl_uuid(run);
        if (i % 3 == 2)
            pawl_await(run, pawl_step_later(run, name, work, input, PAWL_CALL(.arg = s)));
        else
            pawl_step(run, name, work, input, PAWL_CALL(.arg = s));
        if (i == 3)
            pawl_sleep(run, 20);
    }
    return input;
}

static served_fixture open_served(conf *c)
{
    served_fixture v = {.fixture = fixture_new(c)};
    fixture_run_clock(v.fixture);
    v.p = fixture_open(v.fixture, PAWL_OPTIONS(.threads = 4, .log = hear, .log_arg = v.fixture));
    return v;
}

static void start_all(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "r%d", i);
        fixture_start(s, p, "many_steps", id, "1");
    }
}

static void each_step_was_executed_once(engine_fixture *s, pawl *p)
{
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "r%d", i);
        pawl_code rc;
        do /* a session that was ended is found out by the next call */
            rc = pawl_wait(p, id, PAWL_FOREVER, NULL);
        while (pawl_code_retryable(rc));
        FIXTURE_CODE(s, p, rc, PAWL_OK);
        for (int j = 0; j < STEPS; j++) {
            char line[64];
            snprintf(line, sizeof line, "%s.s%d", id, j);
            if (fixture_count(s, line) != 1)
                fail_msg("%s was executed %d times", line, fixture_count(s, line));
        }
    }
}

/* ---- A full disk ---- */

/* However fast the others are, the first step of one run returns when the disk is full. */
static void a_full_disk_under_load(conf *c)
{
    static const int64_t ALL = (int64_t)(RUNS + 1) * STEPS;
    served_fixture v = open_served(c);
    FIXTURE_REGISTER(v.fixture, v.p, many_steps);
    full_disk_prepare(c);
    served_begin(&v);
    fixture_start(v.fixture, v.p, "many_steps", "gated", "1");
    start_all(v.fixture, v.p);
    TMP_AWAIT(fixture_count(v.fixture, "gated.s0") == 1);
    for (int i = 0; i < ROUNDS && number(v.fixture, DONE) < ALL; i++) {
        int64_t before = number(v.fixture, TROUBLE);
        full_disk_set(c, 1);
        atomic_store(fixture_number(v.fixture, LET_GO), 1);
        /* A record that is kept since the last round fails again without a word. */
        TMP_AWAIT(number(v.fixture, TROUBLE) > before || number(v.fixture, KEPT) > 0 ||
                  number(v.fixture, DONE) == ALL);
        full_disk_set(c, 0);
        int64_t done = number(v.fixture, DONE); /* what was kept goes on */
        TMP_AWAIT(number(v.fixture, DONE) >= done + RUNS || number(v.fixture, DONE) == ALL);
    }
    each_step_was_executed_once(v.fixture, v.p);
    FIXTURE_CODE(v.fixture, v.p, pawl_wait(v.p, "gated", PAWL_FOREVER, NULL), PAWL_OK);
    assert_true(number(v.fixture, TROUBLE) > 0);
    served_end(&v);
}

/* ---- What is begun meanwhile ---- */

static int count_event(const pawl_event *e, void *arg)
{
    (void)e;
    ++*(int *)arg;
    return 0;
}

/* Rows of its journal, without the start. */
static int rows_of(engine_fixture *s, pawl *p, const char *id)
{
    int rows = 0;
    FIXTURE_CODE(s, p, pawl_history(p, id, 0, 0, count_event, &rows), PAWL_OK);
    return rows - 1;
}

/* One place, in which they stand until they are let go: the how-manieth may leave. */
static const char *stand(pawl_work *w, const char *input)
{
    engine_fixture *s = pawl_work_arg(w);
    int64_t turn = atomic_fetch_add(fixture_number(s, INSIDE), 1) + 1;
    while (number(s, LET_GO) < turn)
        poll(NULL, 0, 1);
    fixture_note(s, "%s", pawl_work_run_id(w));
    return input;
}

static const char *stands(pawl_run *run, const char *input)
{
    return pawl_call(run, "stand", input, NULL);
}

/* A server that is full says so only after a while when it is asked with a probe: long enough for
 * work to be begun meanwhile. */
static void answer_probes_late(const conf *c)
{
    if (c->server)
        pgserver_exec(c->server, c->database,
                      "CREATE FUNCTION public.late() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
                      " IF to_regclass('public.full_disk') IS NOT NULL THEN"
                      " PERFORM pg_sleep(0.5); END IF;"
                      " RETURN NEW; END $$;"
                      " CREATE TRIGGER before_fill BEFORE INSERT OR UPDATE ON pawl.meta"
                      " FOR EACH ROW EXECUTE FUNCTION public.late()");
}

/* The first comes back when nothing can be recorded any more. The second may have been asked in by
 * then; the third finds the place free, and has nothing to record before it. The thread that logs
 * the failure stands still in the log meanwhile: nothing is begun from the line of the log on. */
static void nothing_is_begun_while_commits_fail(conf *c)
{
    served_fixture v = open_served(c);
    engine_fixture *s = v.fixture;
    FIXTURE_REGISTER(s, v.p, stands);
    fixture_register_limited(s, v.p, "stand", stand, 1);
    full_disk_prepare(c);
    answer_probes_late(c);
    served_begin(&v);
    for (int i = 0; i < 3; i++)
        fixture_start(s, v.p, "stands", (const char *[]){"a", "b", "c"}[i], "1");
    TMP_AWAIT(number(s, INSIDE) == 1);
    for (int i = 0; i < 3; i++)
        TMP_AWAIT(rows_of(s, v.p, (const char *[]){"a", "b", "c"}[i]) == 1);
    full_disk_set(c, 1);
    atomic_store(fixture_number(s, LOG_WAITS), 1);
    atomic_store(fixture_number(s, LET_GO), 1);
    TMP_AWAIT(number(s, TROUBLE) >= 1);
    atomic_store(fixture_number(s, LET_GO), 3);
    for (int i = 0; i < 200; i++) /* would it, if it could? */
        poll(NULL, 0, 1);
    assert_true(number(s, INSIDE) < 3);
    atomic_store(fixture_number(s, LOG_WAITS), 0);
    full_disk_set(c, 0);
    for (int i = 0; i < 3; i++) {
        const char *id = (const char *[]){"a", "b", "c"}[i];
        FIXTURE_CODE(s, v.p, pawl_wait(v.p, id, PAWL_FOREVER, NULL), PAWL_OK);
        assert_int_equal(fixture_count(s, id), 1);
    }
    served_end(&v);
}

/* ---- Sessions that are ended ---- */

static void sessions_end_under_load(conf *c)
{
    static const int64_t ALL = (int64_t)RUNS * STEPS, SOME = RUNS / 4;
    if (!c->server)
        skip();
    served_fixture v = served_open(c, PAWL_OPTIONS(.threads = 4));
    FIXTURE_REGISTER(v.fixture, v.p, many_steps);
    served_begin(&v);
    start_all(v.fixture, v.p);
    for (int64_t done; (done = number(v.fixture, DONE)) < ALL;) {
        pgserver_exec(c->server, c->database,
                      "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                      " WHERE datname = current_database() AND pid <> pg_backend_pid()");
        int64_t until = done + SOME < ALL ? done + SOME : ALL; /* a slow machine gets on, too */
        TMP_AWAIT(number(v.fixture, DONE) >= until);
    }
    each_step_was_executed_once(v.fixture, v.p);
    served_end(&v);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a full disk under load", a_full_disk_under_load, DB_DURABLE},
        {"nothing is begun while commits fail", nothing_is_begun_while_commits_fail, DB_DURABLE},
        {"sessions end under load", sessions_end_under_load, DB_DURABLE},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
