/* Motion: a process counts as alive only while it moves. On a file a stopped process keeps its
 * lock, so that only the time of its last move tells. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <string.h>

#include "db/inflight_file.h"
#include "support/engine_fixture.h"

/* Numbers of the fixture: 1: the step ends. */
enum { LET_GO };

static const char *hang(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "hang");
    while (!atomic_load(fixture_number(s, LET_GO)))
        poll(NULL, 0, 1);
    return input;
}

static const char *hanging(pawl_run *run, const char *input)
{
    return FIXTURE_STEP(run, "hang", hang, input);
}

/* In a child, which is stopped and goes on. */
static void serve(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 1));
    FIXTURE_REGISTER(s, p, hanging);
    pawl_serve(p);
}

static int why_says(engine_fixture *s, const char *words)
{
    char *why = NULL;
    pawl *p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_why(p, "run", &why), PAWL_OK);
    int says = strstr(why, words) != NULL;
    pawl_free(why);
    pawl_close(p);
    return says;
}

static int note_still(int64_t node, const char *name, const char *build, int64_t since_ms,
                      int64_t still_ms, void *arg)
{
    (void)node, (void)name, (void)build, (void)since_ms;
    *(int64_t *)arg = still_ms;
    return 0;
}

/* Since when the one node that is listed stands still; 0: it moves. */
static int64_t listed_still_ms(engine_fixture *s)
{
    int64_t still_ms = -1;
    pawl *p = fixture_open(s, NULL);
    FIXTURE_CODE(s, p, pawl_nodes(p, note_still, &still_ms), PAWL_OK);
    pawl_close(p);
    return still_ms;
}

static void start_one(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    fixture_start(s, p, "hanging", "run", "1");
    pawl_close(p);
}

static void a_stopped_process_is_not_alive(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    start_one(s);
    tmp_child child = fixture_fork(s, serve, NULL);
    TMP_AWAIT(fixture_count(s, "hang") == 1);
    TMP_AWAIT(why_says(s, "owns it and is alive."));
    assert_int_equal(listed_still_ms(s), 0);
    assert_int_equal(kill(child.pid, SIGSTOP), 0);
    tmp_await_stop(&child);
    fixture_advance(s, 10000);
    assert_in_range(listed_still_ms(s), 1, fixture_now(s) - 5000);
    assert_true(why_says(s, "has not moved since "));
    assert_false(why_says(s, "is alive"));
    assert_int_equal(kill(child.pid, SIGCONT), 0);
    TMP_AWAIT(why_says(s, "owns it and is alive."));
    tmp_kill(&child);
    fixture_free(s);
}

/* A run that waits for a claim is not promised to a process that stands still. */
static void a_stopped_process_claims_nothing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    tmp_child child = fixture_fork(s, serve, NULL);
    start_one(s);
    TMP_AWAIT(fixture_count(s, "hang") == 1);
    assert_int_equal(kill(child.pid, SIGSTOP), 0);
    tmp_await_stop(&child);
    fixture_advance(s, 10000);
    pawl *p = fixture_open(s, NULL);
    char *why = NULL;
    fixture_start(s, p, "hanging", "other", "1");
    FIXTURE_CODE(s, p, pawl_why(p, "other", &why), PAWL_OK);
    assert_non_null(strstr(why, "there is no live node"));
    pawl_free(why);
    pawl_close(p);
    tmp_kill(&child);
    fixture_free(s);
}

/* ---- By the system's clock ---- */

/* In a child: a step that takes long, on the thread that drives by hand. */
static void finish(engine_fixture *s, void *arg)
{
    pawl *p = NULL;
    FIXTURE_CHECK(s, pawl_open(&p, arg, NULL) == PAWL_OK);
    FIXTURE_REGISTER(s, p, hanging);
    FIXTURE_CHECK(s, pawl_start(p, "hanging", "run", "1", NULL) == PAWL_OK);
    FIXTURE_CHECK(s, pawl_finish(p, "run", PAWL_FOREVER, NULL) == PAWL_OK);
    pawl_close(p);
}

static int64_t moved_ms(db *d)
{
    static const db_sql NODE = {"SELECT max(node) FROM {nodes} WHERE closed = 0", ""};
    inflight_list list;
    inflight_read(db_nodes(d), conf_number(d, &NODE, NULL, 0), &list);
    return list.known ? list.moved_ms : 0;
}

static void a_process_in_a_long_step_counts_as_moving(conf *c)
{
    engine_fixture *s = fixture_new(c);
    tmp_child child = fixture_fork(s, finish, (void *)c->url);
    TMP_AWAIT(fixture_count(s, "hang") == 1);
    db *d = conf_open(c, NULL);
    int64_t before = moved_ms(d);
    assert_true(before > 0);
    TMP_AWAIT(moved_ms(d) > before);
    db_close(d);
    atomic_store(fixture_number(s, LET_GO), 1);
    tmp_join(&child);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a stopped process is not alive", a_stopped_process_is_not_alive, DB_FILE},
        {"a stopped process claims nothing", a_stopped_process_claims_nothing, DB_FILE},
        {"a process in a long step counts as moving", a_process_in_a_long_step_counts_as_moving,
         DB_FILE},
    };
    return conf_run_on("sqlite", CASES, CONF_COUNT(CASES));
}
