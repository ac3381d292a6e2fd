/* The change feed: what is told and what is not, that nothing is skipped, whatever commits when,
 * and what becomes of cursors that were not used for long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"
#include "sched/sched.h"
#include "support/engine_fixture.h"
#include "support/rows_fixture.h"

static const char *quiet(pawl_run *run, const char *input)
{
    pawl_sleep(run, 1000);
    FIXTURE_ECHO(run, "echo", input);
    return input;
}

static const char *talking(pawl_run *run, const char *input)
{
    pawl_sleep(run, 1000);
    pawl_set_status(run, "1");
    pawl_set_status(run, "2");
    pawl_sleep(run, 1000);
    return input;
}

static pawl *open_on(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, quiet);
    FIXTURE_REGISTER(s, p, talking);
    return p;
}

/* A moment from which on changes are told. */
static int64_t position_now(engine_fixture *s, pawl *p)
{
    int64_t position = 0;
    runs_told told = {0};
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &position), PAWL_TIMEOUT);
    assert_true(position > 0);
    assert_int_equal(told.count, 0);
    return position;
}

/* These runs have changed since then, and no others. */
#define TOLD(s, p, position, wanted) expect_told((s), (p), (position), (wanted), __LINE__)
static void expect_told(engine_fixture *s, pawl *p, int64_t *position, const char *wanted, int line)
{
    runs_told told = {0};
    fixture_code(s, p, pawl_changes(p, 0, runs_tell, &told, position),
                 *wanted ? PAWL_OK : PAWL_TIMEOUT, line);
    if (strcmp(told.text, wanted) != 0)
        fixture_fail(s, line, "expected '%s', got '%s'", wanted, told.text);
}

/* ---- What is told ---- */

static void changes_that_clients_can_see_are_reported(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    fixture_start(s, p, "quiet", "before", "1");
    int64_t at = position_now(s, p);
    fixture_start(s, p, "talking", "run", "1");
    fixture_start(s, p, "quiet", "other", "1");
    TOLD(s, p, &at, "run other ");
    fixture_poll(s, p); /* they are claimed, and sleep */
    TOLD(s, p, &at, "");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "other") == PAWL_RUN_DONE);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "before") == PAWL_RUN_DONE);
    runs_told told = {0};
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &at), PAWL_OK);
    assert_int_equal(told.count, 3); /* two ends and a status */
    assert_non_null(strstr(told.text, "run "));
    FIXTURE_DONE(s, p, "run", "1");
    TOLD(s, p, &at, "run ");
    fixture_start(s, p, "quiet", "held", "1");
    TOLD(s, p, &at, "held ");
    FIXTURE_CODE(s, p, pawl_hold(p, "held", "for a while"), PAWL_OK);
    TOLD(s, p, &at, "held ");
    FIXTURE_CODE(s, p, pawl_release(p, "held"), PAWL_OK);
    TOLD(s, p, &at, "held ");
    fixture_start(s, p, "nobody-has-it", "lost", "1");
    TOLD(s, p, &at, "lost ");
    FIXTURE_HELD(s, p, "lost", "no node has");
    FIXTURE_DONE(s, p, "held", "1");
    memset(&told, 0, sizeof told);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &at), PAWL_OK);
    assert_int_equal(told.count, 2);
    TOLD(s, p, &at, "");
    pawl_close(p);
    fixture_free(s);
}

/* A start that made nothing has changed nothing. */
static void each_run_is_reported_as_it_is_now(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    int64_t at = position_now(s, p), again = at;
    fixture_start(s, p, "quiet", "a", "1");
    fixture_start(s, p, "quiet", "a", "1");
    FIXTURE_DONE(s, p, "a", "1");
    TOLD(s, p, &at, "a ");
    TOLD(s, p, &at, "");
    fixture_start(s, p, "quiet", "a", "1");
    TOLD(s, p, &at, "");
    TOLD(s, p, &again, "a "); /* the same once more: once, for two rows */
    assert_int_equal(again, at);
    pawl_close(p);
    fixture_free(s);
}

static int expect_live(const pawl_info *info, void *arg)
{
    engine_fixture *s = arg;
    FIXTURE_CHECK(s, pawl_info_phase(info) == PAWL_RUN_LIVE);
    FIXTURE_CHECK(s, strcmp(pawl_info_workflow(info), "quiet") == 0);
    return 0;
}

static void changes_of_other_tenants_are_not_reported(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    pawl *other = fixture_open(s, PAWL_OPTIONS(.threads = -1, .tenant = "other"));
    int64_t at = position_now(s, p), theirs = position_now(s, other);
    fixture_start(s, p, "quiet", "ours", "1");
    fixture_start(s, other, "quiet", "theirs", "1");
    TOLD(s, other, &theirs, "theirs ");
    int64_t before = at;
    TOLD(s, p, &at, "ours ");
    fixture_start(s, other, "quiet", "theirs-2", "1");
    FIXTURE_CODE(s, p, pawl_changes(p, 0, expect_live, s, &before), PAWL_OK);
    TOLD(s, p, &at, "");
    TOLD(s, other, &theirs, "theirs-2 ");
    pawl_close(other);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Many, and stopping ---- */

enum { MANY = 700 };

static void make_row(runs_row *row, size_t i, void *arg)
{
    (void)arg;
    *row = (runs_row){.run = (int64_t)i + 1000000, .phase = 1};
}

static const db_sql ADD_ALL = {
    "INSERT INTO {changes} (run, at) SELECT run, $1 FROM {runs} WHERE run >= 1000000 ORDER BY run",
    "i"};

static const db_sql ADD_ONE = {"INSERT INTO {changes} (run, at) VALUES ($1, $2)", "ii"};

/* In one transaction, and in many: a page ends between two of them. */
static void many_changes_come_in_pages(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    runs_add_many(p, MANY, make_row, NULL);
    int64_t at = position_now(s, p);
    const db_value now[] = {db_int(fixture_now(s))};
    conf_do(handle_db(p), &ADD_ALL, now, 1);
    runs_told *told = calloc(1, sizeof *told);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, told, &at), PAWL_OK);
    assert_int_equal(told->count, MANY);
    for (int i = 0; i < 300; i++) {
        const db_value one[] = {db_int(1000000 + i), db_int(fixture_now(s))};
        conf_do(handle_db(p), &ADD_ONE, one, 2);
    }
    memset(told, 0, sizeof *told);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, told, &at), PAWL_OK);
    assert_int_equal(told->count, 300);
    assert_string_equal(told->last, "run-1000299");
    TOLD(s, p, &at, "");
    free(told);
    pawl_close(p);
    fixture_free(s);
}

/* A reader that stops goes on where it was; what stood beside that position comes again. */
static void a_reader_that_stops_misses_nothing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    runs_add_many(p, 5, make_row, NULL);
    int64_t at = position_now(s, p);
    const db_value now[] = {db_int(fixture_now(s))};
    fixture_start(s, p, "quiet", "first", "1");
    fixture_start(s, p, "quiet", "second", "1");
    conf_do(handle_db(p), &ADD_ALL, now, 1); /* these are one transaction */
    fixture_start(s, p, "quiet", "last", "1");
    char seen[1024] = "";
    for (int i = 0; i < 20 && !strstr(seen, "last"); i++) {
        runs_told told = {.most = (size_t)(1 + i % 3 * 3)};
        pawl_code rc = pawl_changes(p, 0, runs_tell, &told, &at);
        FIXTURE_CODE(s, p, rc, PAWL_OK);
        size_t used = strlen(seen), more = strlen(told.text);
        assert_true(used + more < sizeof seen);
        memcpy(seen + used, told.text, more + 1);
    }
    static const char *const ALL[] = {"first ",       "second ",      "run-1000000 ",
                                      "run-1000001 ", "run-1000002 ", "run-1000003 ",
                                      "run-1000004 ", "last "};
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
        if (!strstr(seen, ALL[i]))
            fail_msg("%s is missing in %s", ALL[i], seen);
    assert_true(strstr(seen, "first ") < strstr(seen, "second "));
    TOLD(s, p, &at, "");
    pawl_close(p);
    fixture_free(s);
}

typedef struct caller {
    engine_fixture *s;
    pawl *p;
    int calls;
} caller;

static int calls_pawl(const pawl_info *info, void *arg)
{
    caller *k = arg;
    pawl_info *same = NULL;
    FIXTURE_CODE(k->s, k->p, pawl_inspect(k->p, pawl_info_id(info), &same), PAWL_OK);
    pawl_info_free(same);
    if (k->calls++ == 0)
        fixture_start(k->s, k->p, "quiet", "made-inside", "1");
    return 0;
}

static void the_function_may_call_pawl(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    int64_t at = position_now(s, p);
    fixture_start(s, p, "quiet", "a", "1");
    caller k = {.s = s, .p = p};
    FIXTURE_CODE(s, p, pawl_changes(p, 0, calls_pawl, &k, &at), PAWL_OK);
    assert_int_equal(k.calls, 1);
    TOLD(s, p, &at, "made-inside ");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Waiting ---- */

typedef struct waiter {
    pawl *p;
    int64_t position;
    pawl_code rc;
    _Atomic int waits;
    runs_told told;
} waiter;

static void *wait_for_it(void *arg)
{
    waiter *w = arg;
    atomic_store(&w->waits, 1);
    w->rc = pawl_changes(w->p, PAWL_FOREVER, runs_tell, &w->told, &w->position);
    return NULL;
}

static void a_reader_that_waits_wakes_at_a_change(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(
        s); /* a thread that meets another one at the file tries again a moment later */
    pawl *p = open_on(s);
    waiter w = {.p = p, .position = position_now(s, p)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    TMP_AWAIT(atomic_load(&w.waits));
    fixture_start(s, p, "quiet", "run", "1");
    pthread_join(thread, NULL);
    assert_int_equal(w.rc, PAWL_OK);
    assert_string_equal(w.told.text, "run ");
    w.told = (runs_told){0};
    w.waits = 0;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    TMP_AWAIT(atomic_load(&w.waits));
    FIXTURE_DONE(s, p, "run", "1");
    pthread_join(thread, NULL);
    assert_string_equal(w.told.text, "run ");
    pawl_close(p);
    fixture_free(s);
}

static void start_body(engine_fixture *s, void *arg)
{
    (void)arg;
    fixture_send_and_await(s, 'r');
    pawl *p = fixture_open(s, NULL);
    fixture_start(s, p, "quiet", "theirs", "1");
    pawl_close(p);
}

static void changes_of_another_process_are_reported(conf *c)
{
    engine_fixture *s = fixture_new(c);
    tmp_child child = fixture_fork(s, start_body, NULL);
    fixture_run_clock(s);
    tmp_expect(&child, 'r');
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = 1));
    int64_t at = position_now(s, p);
    tmp_tell(child.to, 'g');
    runs_told told = {0};
    FIXTURE_CODE(s, p, pawl_changes(p, PAWL_FOREVER, runs_tell, &told, &at), PAWL_OK);
    assert_string_equal(told.text, "theirs ");
    tmp_join(&child);
    pawl_close(p);
    fixture_free(s);
}

static int64_t watchers(pawl *p)
{
    return atomic_load(&handle_watches(p)->count);
}

static void pawl_stop_ends_a_wait_for_changes(conf *c)
{
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(
        s); /* a thread that meets another one at the file tries again a moment later */
    pawl *p = open_on(s);
    waiter w = {.p = p, .position = position_now(s, p)};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    TMP_AWAIT(atomic_load(&w.waits));
    TMP_AWAIT(watchers(p) > 0);
    pawl_stop(p);
    (void)pawl_poll(p, NULL);
    pthread_join(thread, NULL);
    assert_int_equal(w.rc, PAWL_CLOSED);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Commits in another order ---- */

static void put_note(db_conn *k, int64_t run)
{
    const db_value row[] = {db_int(run), db_int(1)};
    assert_int_equal(db_run(k, &ADD_ONE, row, 2, NULL), PAWL_OK);
}

/* B6: one that began before the others commits after them, and after they were told. A reader that
 * counts by the keys of rows never hears of it. */
static void a_late_commit_is_not_skipped(conf *c)
{
    if (c->promises & DB_TURNS)
        return; /* there no commit can be late */
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    runs_add_many(p, 3, make_row, NULL);
    int64_t at = position_now(s, p);
    db_conn *late = conf_connect(handle_db(p), DB_COMMITTER);
    conf_begin(late);
    put_note(late, 1000000);
    fixture_start(s, p, "quiet", "meanwhile", "1");
    runs_told told = {0};
    pawl_code rc = pawl_changes(p, 0, runs_tell, &told, &at);
    assert_true(rc == PAWL_OK || rc == PAWL_TIMEOUT);
    conf_commit(late);
    rc = pawl_changes(p, 0, runs_tell, &told, &at);
    assert_true(rc == PAWL_OK);
    if (!strstr(told.text, "run-1000000 ") || !strstr(told.text, "meanwhile "))
        fail_msg("told of: %s", told.text);
    TOLD(s, p, &at, "");

    /* A position that is taken meanwhile does not lie behind it either. */
    conf_begin(late);
    put_note(late, 1000001);
    fixture_start(s, p, "quiet", "meanwhile-2", "1");
    int64_t taken = position_now(s, p);
    conf_commit(late);
    memset(&told, 0, sizeof told);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &taken), PAWL_OK);
    assert_non_null(strstr(told.text, "run-1000001 "));

    /* Nor does one that is rolled back stand in the way of a reader. */
    conf_begin(late);
    put_note(late, 1000002);
    fixture_start(s, p, "quiet", "meanwhile-3", "1");
    db_rollback(late);
    memset(&told, 0, sizeof told);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &taken), PAWL_OK);
    assert_string_equal(told.text, "meanwhile-3 ");
    db_disconnect(late);
    pawl_close(p);
    fixture_free(s);
}

/* ---- What is not kept ---- */

static const db_sql COUNT = {"SELECT count(*) FROM {changes}", ""};

static const db_sql FILL = {
    "INSERT INTO {changes} (run, at) SELECT 5, 1 FROM (WITH RECURSIVE n(i) AS"
    " (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < $1) SELECT i FROM n) s",
    "i"};

/* After ten minutes without a question nothing is written where that costs; a reader that comes
 * then with an old cursor gets an error, instead of an empty answer. */
static void an_old_position_is_refused(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    fixture_start(s, p, "quiet", "early", "1");
    assert_int_equal(conf_number(handle_db(p), &COUNT, NULL, 0), c->promises & DB_TURNS ? 0 : 1);
    int64_t at = position_now(s, p);
    fixture_start(s, p, "quiet", "a", "1");
    TOLD(s, p, &at, "a ");
    fixture_poll(s, p);
    fixture_advance(s, PAWL_MINUTES(9)); /* asked for before it was forgotten: it goes on */
    fixture_poll(s, p);
    runs_told told = {0};
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &at), PAWL_OK);
    assert_int_equal(told.count, 2);
    fixture_start(s, p, "quiet", "b", "1");
    TOLD(s, p, &at, "b ");
    for (int i = 0; i < 30; i++) {
        fixture_advance(s, PAWL_MINUTES(1));
        fixture_poll(s, p);
    }
    int64_t rows = conf_number(handle_db(p), &COUNT, NULL, 0);
    fixture_start(s, p, "quiet", "c", "1");
    memset(&told, 0, sizeof told);
    pawl_code rc = pawl_changes(p, 0, runs_tell, &told, &at);
    if (c->promises & DB_TURNS) {
        assert_int_equal(rc, PAWL_NOTFOUND);
        assert_true(strlen(pawl_errhint(p)) > 0);
        assert_int_equal(conf_number(handle_db(p), &COUNT, NULL, 0), rows + 1); /* it begins anew */
    } else {
        assert_int_equal(rc, PAWL_OK);
        assert_string_equal(told.text, "b c ");
    }
    at = position_now(s, p);
    fixture_start(s, p, "quiet", "d", "1");
    TOLD(s, p, &at, "d ");
    pawl_close(p);
    fixture_free(s);
}

static void old_changes_are_deleted(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    int64_t at = position_now(s, p), first = at;
    const db_value count[] = {db_int(103000)};
    conf_do(handle_db(p), &FILL, count, 1);
    fixture_start(s, p, "quiet", "a", "1");
    runs_told told = {0};
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &at), PAWL_OK);
    for (int i = 0; i < 4; i++) {
        fixture_advance(s, PAWL_MINUTES(1));
        fixture_poll(s, p);
    }
    assert_in_range(conf_number(handle_db(p), &COUNT, NULL, 0), 100000, 100002);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &first), PAWL_NOTFOUND);
    fixture_start(s, p, "quiet", "b", "1");
    memset(&told, 0, sizeof told);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &at), PAWL_OK);
    assert_non_null(strstr(told.text, "b "));
    pawl_close(p);
    fixture_free(s);
}

static void arguments_are_checked(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_on(s);
    int64_t at = -1;
    runs_told told = {0};
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, &at), PAWL_INVALID);
    assert_int_equal(at, -1);
    at = 0;
    FIXTURE_CODE(s, p, pawl_changes(p, -1, runs_tell, &told, &at), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, NULL, &told, &at), PAWL_INVALID);
    FIXTURE_CODE(s, p, pawl_changes(p, 0, runs_tell, &told, NULL), PAWL_INVALID);
    assert_int_equal(pawl_changes(NULL, 0, runs_tell, &told, &at), PAWL_INVALID);
    assert_int_equal(at, 0);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"changes that clients can see are reported", changes_that_clients_can_see_are_reported, 0},
        {"each run is reported as it is now", each_run_is_reported_as_it_is_now, 0},
        {"changes of other tenants are not reported", changes_of_other_tenants_are_not_reported,
         DB_SHARED},
        {"many changes come in pages", many_changes_come_in_pages, 0},
        {"a reader that stops misses nothing", a_reader_that_stops_misses_nothing, 0},
        {"the function may call pawl", the_function_may_call_pawl, 0},
        {"a reader that waits wakes at a change", a_reader_that_waits_wakes_at_a_change,
         DB_ISOLATED},
        {"changes of another process are reported", changes_of_another_process_are_reported,
         DB_SHARED},
        {"pawl_stop ends a wait for changes", pawl_stop_ends_a_wait_for_changes, DB_ISOLATED},
        {"a late commit is not skipped", a_late_commit_is_not_skipped, 0},
        {"an old position is refused", an_old_position_is_refused, 0},
        {"old changes are deleted", old_changes_are_deleted, 0},
        {"arguments are checked", arguments_are_checked, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
