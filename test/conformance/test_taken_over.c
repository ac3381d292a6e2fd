/* A database that version 0.1 has written (schema 1) is taken over with everything that is in it.
 * Its live runs go on where they were, and end: asleep, waiting, with a step or later steps under
 * way, failing, held, not yet begun. Nothing that 0.1 has recorded is executed again. test/data has
 * what 0.1 has written, and left by dying (see the README there).
 *
 * Would be missed: a column that loses what it had, an index that does not follow, an old journal
 * that this version replays differently, a process that comes while another one migrates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pawl.h>

#include "db/columns.h"
#include "db/migrate.h"
#include "support/conf.h"

enum { OLD_SCHEMA = 1, LONG_MS = 80000 };

/* ---- The database ---- */

static char *read_dump(const char *backend)
{
    char path[TMP_PATH];
    snprintf(path, sizeof path, "test/data/0001.%s.sql", backend);
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s: cannot be read (tests run in the top folder)", path);
    char *text = calloc(1, 256 * 1024);
    assert_non_null(text);
    assert_in_range(fread(text, 1, 256 * 1024 - 1, f), 1000, 256 * 1024 - 2);
    fclose(f);
    return text;
}

static void sqlite_do(const conf *c, const char *sql)
{
    sqlite3 *native = NULL;
    char *message = NULL;
    assert_int_equal(sqlite3_open(strchr(c->url, ':') + 1, &native), SQLITE_OK);
    if (sqlite3_exec(native, sql, NULL, NULL, &message) != SQLITE_OK)
        fail_msg("%s", message);
    assert_int_equal(sqlite3_close(native), SQLITE_OK);
}

static void run_sql(const conf *c, const char *sql)
{
    if (c->server)
        pgserver_exec(c->server, c->database, sql);
    else
        sqlite_do(c, sql);
}

static void load_old(const conf *c)
{
    char *dump = read_dump(c->backend);
    run_sql(c, dump);
    free(dump);
}

/* ---- What the runs do, as the program that began them has it ---- */

/* What was executed, as "|run:name|run:name|". */
typedef struct calls {
    pthread_mutex_t lock;
    char list[1024];
    int count;
} calls;

static void calls_init(calls *c)
{
    memset(c, 0, sizeof *c);
    pthread_mutex_init(&c->lock, NULL);
    c->list[0] = '|';
}

static void calls_add(calls *c, const char *run, const char *name)
{
    pthread_mutex_lock(&c->lock);
    size_t used = strlen(c->list);
    snprintf(c->list + used, sizeof c->list - used, "%s:%s|", run, name);
    c->count++;
    pthread_mutex_unlock(&c->lock);
}

static const char *echo(pawl_work *work, const char *input)
{
    calls_add(pawl_work_arg(work), pawl_work_run_id(work), pawl_work_name(work));
    return input;
}

/* 0.1 has recorded the first attempt, which failed. */
static const char *second_attempt(pawl_work *work, const char *input)
{
    if (pawl_work_attempt(work) != 2)
        return pawl_work_fail(work, PAWL_PERMANENT, "attempt", "is not the second");
    return echo(work, input);
}

static const char *step(pawl_run *run, const char *name, const char *input)
{
    return pawl_step(run, name, echo, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static const char *sleeper(pawl_run *run, const char *input)
{
    const char *paid = step(run, "pay", input);
    pawl_set_status(run, "\"paid\"");
    int64_t now = pawl_now(run);
    int64_t chance = (int64_t)(pawl_random(run) >> 1);
    const char *id = pawl_uuid(run);
    int patched = pawl_patch(run, "with-values");
    const char *all = pawl_json(run, "{'paid':%j,'at':%lld,'chance':%lld,'id':%s,'patched':%b}",
                                paid, (long long)now, (long long)chance, id, patched);
    pawl_set_status(run, all);
    pawl_sleep(run, 3600 * 1000);
    return step(run, "ship", all);
}

static const char *busy(pawl_run *run, const char *input)
{
    step(run, "first", input);
    return step(run, "second", input);
}

static const char *waiter(pawl_run *run, const char *input)
{
    const char *message;
    (void)input;
    pawl_state_set(run, "seen", "1");
    pawl_attr(run, "colour", "\"blue\"");
    pawl_attr(run, "size", "7");
    pawl_receive(run, "go", PAWL_FOREVER, &message);
    return message;
}

static const char *saga(pawl_run *run, const char *input)
{
    const char *message;
    pawl_finally(run, "sweep", input);
    pawl_undo(run, "refund", input);
    step(run, "pay", input);
    if (pawl_get_int(input, "/waits", 0))
        pawl_receive(run, "go", PAWL_FOREVER, &message);
    return pawl_fail(run, "rejected", "no stock");
}

static const char *beside(pawl_run *run, const char *input)
{
    pawl_future *f[4];
    f[0] = pawl_step_later(run, "one", echo, input, PAWL_CALL(.arg = pawl_arg(run)));
    f[1] = pawl_step_later(run, "two", echo, input, PAWL_CALL(.arg = pawl_arg(run)));
    f[2] = pawl_sleep_later(run, 3600 * 1000);
    f[3] = pawl_receive_later(run, "go", PAWL_FOREVER);
    return pawl_await(run, pawl_all_later(run, f, 4));
}

static const char *retries(pawl_run *run, const char *input)
{
    return pawl_step(run, "pay", second_attempt, input, PAWL_CALL(.arg = pawl_arg(run)));
}

/* A pawl_until() takes no options, so that this call is not counted. 0.1 was told false, which is
 * not recorded. */
static const char *yes(pawl_work *work, const char *input)
{
    (void)work;
    (void)input;
    return "true";
}

static const char *asks(pawl_run *run, const char *input)
{
    return pawl_until(run, "ask", yes, input, 3600 * 1000, PAWL_FOREVER);
}

static const char *parent(pawl_run *run, const char *input)
{
    pawl_set_status(run, "\"with a child\"");
    return pawl_child(run, "waiter", input, NULL);
}

static const char *loop(pawl_run *run, const char *input)
{
    if (pawl_run_generation(run) == 1)
        return pawl_continue_as_new(run, "\"second\"", NULL);
    return waiter(run, input);
}

static const char *quick(pawl_run *run, const char *input)
{
    return step(run, "echo", input);
}

static pawl_code open_all(pawl **out, const conf *c, calls *log)
{
    static const struct {
        const char *name;
        pawl_workflow_fn *fn;
    } ALL[] = {{"sleeper", sleeper}, {"busy", busy},       {"waiter", waiter}, {"saga", saga},
               {"beside", beside},   {"retries", retries}, {"asks", asks},     {"parent", parent},
               {"loop", loop},       {"quick", quick},     {"later", quick}};
    calls_init(log);
    pawl_code rc = pawl_open(out, c->url, NULL);
    for (size_t i = 0; rc == PAWL_OK && i < sizeof ALL / sizeof *ALL; i++)
        rc = pawl_register_workflow(*out, ALL[i].name, ALL[i].fn, PAWL_WORKFLOW(.arg = log));
    if (rc == PAWL_OK)
        rc = pawl_register_work(*out, "refund", echo, PAWL_WORK(.arg = log));
    return rc == PAWL_OK ? pawl_register_work(*out, "sweep", echo, PAWL_WORK(.arg = log)) : rc;
}

static pawl *open_old(const conf *c, calls *log)
{
    pawl *p = NULL;
    load_old(c);
    if (open_all(&p, c, log) != PAWL_OK)
        fail_msg("%s", pawl_errtext(p));
    return p;
}

/* ---- Looking ---- */

static void expect_info(pawl *p, const char *id, pawl_phase phase, const char *status,
                        int64_t status_seq)
{
    pawl_info *i;
    if (pawl_inspect(p, id, &i) != PAWL_OK)
        fail_msg("%s: %s", id, pawl_errtext(p));
    if (pawl_info_phase(i) != phase)
        fail_msg("%s is %s", id, pawl_phase_name(pawl_info_phase(i)));
    if (status)
        assert_string_equal(pawl_info_status(i), status);
    assert_int_equal(pawl_info_status_seq(i), status_seq);
    pawl_info_free(i);
}

/* The result of a run that has ended, or the name of its failure. */
static void expect_end(pawl *p, const char *id, pawl_code code, const char *value)
{
    pawl_outcome *o = NULL;
    if (pawl_wait(p, id, LONG_MS, &o) != code)
        fail_msg("%s: %s", id, pawl_errtext(p));
    if (code == PAWL_OK)
        assert_string_equal(pawl_outcome_value(o), value);
    else
        assert_string_equal(pawl_outcome_name(o), value);
    pawl_outcome_free(o);
}

/* A sleeper has published, before 0.1 died, what it then returns: time, chance and id come from the
 * journal. */
static void expect_sleeper(pawl *p, const char *id, int paid)
{
    pawl_info *i;
    char start[32];
    assert_int_equal(pawl_inspect(p, id, &i), PAWL_OK);
    snprintf(start, sizeof start, "{\"paid\":%d,\"at\":1735700", paid);
    assert_memory_equal(pawl_info_status(i), start, strlen(start));
    assert_int_equal(pawl_info_status_seq(i), 2);
    expect_end(p, id, PAWL_OK, pawl_info_status(i));
    pawl_info_free(i);
}

static int64_t number(const conf *c, const db_sql *sql)
{
    db *d = conf_open(c, NULL);
    int64_t n = conf_number(d, sql, NULL, 0);
    db_close(d);
    return n;
}

static const db_sql SCHEMA = {"SELECT number FROM {meta} WHERE name = 'schema'", ""};

static int count_info(const pawl_info *info, void *arg)
{
    (void)info;
    return ++*(int *)arg < 0;
}

static void expect_list(pawl *p, const pawl_filter *f, int expected)
{
    int found = 0;
    assert_int_equal(pawl_list(p, f, count_info, &found), PAWL_OK);
    assert_int_equal(found, expected);
}

static int count_event(const pawl_event *event, void *arg)
{
    (void)event;
    return ++*(int *)arg < 0;
}

/* ---- Cases ---- */

static void what_is_there_is_seen_as_before(conf *c)
{
    calls log;
    pawl *p = open_old(c, &log);
    expect_info(p, "sleeps", PAWL_RUN_LIVE, NULL, 2);
    expect_info(p, "parent", PAWL_RUN_LIVE, "\"with a child\"", 1);
    expect_info(p, "held", PAWL_RUN_HELD, NULL, 2);
    expect_info(p, "not-registered", PAWL_RUN_HELD, "null", 0);
    expect_info(p, "failing", PAWL_RUN_FAILING, "null", 0);
    expect_info(p, "undoes", PAWL_RUN_LIVE, "null", 0);
    expect_info(p, "new", PAWL_RUN_LIVE, "null", 0);
    expect_info(p, "done", PAWL_RUN_DONE, "null", 0);
    expect_end(p, "done", PAWL_OK, "1");
    expect_end(p, "failed", PAWL_FAILED, "rejected");
    expect_end(p, "cancelled", PAWL_CANCELLED, "cancelled");

    const int64_t trouble =
        1 << PAWL_RUN_FAILED | 1 << PAWL_RUN_CANCELLED | 1 << PAWL_RUN_FAILING | 1 << PAWL_RUN_HELD;
    expect_list(p, PAWL_FILTER(.phases = trouble), 5);
    expect_list(p, PAWL_FILTER(.attribute = "colour", .attribute_value = "\"blue\""), 5);
    expect_list(p, PAWL_FILTER(.attribute = "size", .attribute_value = "7", .phases = 1), 4);
    expect_list(p, PAWL_FILTER(.limit = 100), 19);

    char *text = NULL;
    assert_int_equal(pawl_read_state(p, "waits", "seen", &text), PAWL_OK);
    assert_string_equal(text, "1");
    pawl_free(text);
    assert_int_equal(pawl_why(p, "held", &text), PAWL_OK);
    assert_non_null(strstr(text, "the auditors come"));
    pawl_free(text);
    int events = 0;
    assert_int_equal(pawl_history(p, "continued", 1, 0, count_event, &events), PAWL_OK);
    assert_int_equal(events, 2);
    assert_int_equal(log.count, 0);
    pawl_close(p);
    assert_int_equal(number(c, &SCHEMA), MIGRATIONS[MIGRATION_COUNT - 1].number);
    assert_true(number(c, &SCHEMA) > OLD_SCHEMA);
    static const db_sql CONTINUED = {"SELECT phase FROM {generations}", ""};
    assert_int_equal(number(c, &CONTINUED), GENERATION_CONTINUED);
    static const db_sql HISTORY = {"SELECT count(*) FROM {meta} WHERE name = 'history'", ""};
    assert_int_equal(number(c, &HISTORY), 1);
}

static void *serve(void *p)
{
    pawl_serve(p);
    return NULL;
}

static void send_all(pawl *p)
{
    assert_int_equal(pawl_release(p, "held"), PAWL_OK);
    assert_int_equal(pawl_send(p, "waits", "go", "\"a\"", NULL), PAWL_OK);
    assert_int_equal(pawl_send(p, "parent/1.3", "go", "\"b\"", NULL), PAWL_OK);
    assert_int_equal(pawl_send(p, "beside", "go", "\"c\"", NULL), PAWL_OK);
    assert_int_equal(pawl_send(p, "undoes", "go", "\"d\"", NULL), PAWL_OK);
    /* 0.1 has taken a message with this key, so that the number is the one that 0.1 gave it. */
    int64_t seq = 0;
    pawl_code rc =
        pawl_send(p, "continued", "other", "\"unread\"", PAWL_SEND(.key = "once", .seq = &seq));
    assert_int_equal(rc, PAWL_OK);
    assert_int_equal(seq, 1);
    assert_int_equal(pawl_send(p, "continued", "other", "2", PAWL_SEND(.key = "once")),
                     PAWL_CONFLICT);
    assert_int_equal(pawl_send(p, "continued", "go", "\"e\"", NULL), PAWL_OK);
}

static void expect_ends(pawl *p)
{
    expect_sleeper(p, "sleeps", 4);
    expect_sleeper(p, "held", 5);
    expect_end(p, "waits", PAWL_OK, "\"a\"");
    expect_end(p, "parent", PAWL_OK, "\"b\"");
    expect_end(p, "parent/1.3", PAWL_OK, "\"b\"");
    expect_end(p, "beside", PAWL_OK, "[12,12,null,\"c\"]");
    expect_end(p, "undoes", PAWL_FAILED, "rejected");
    expect_end(p, "late", PAWL_CANCELLED, "cancelled");
    expect_end(p, "failing", PAWL_FAILED, "rejected");
    expect_end(p, "continued", PAWL_OK, "\"e\"");
    expect_end(p, "under-way", PAWL_OK, "10");
    expect_end(p, "not-registered", PAWL_OK, "11");
    expect_end(p, "retries", PAWL_OK, "13");
    expect_end(p, "asks", PAWL_OK, "true");
    expect_end(p, "new", PAWL_OK, "18");
    expect_end(p, "boxed", PAWL_OK, "19");
    expect_end(p, "listens", PAWL_OK, "\"from the outbox\"");
}

/* Each of these once, and nothing else: what 0.1 has recorded is not executed again. */
static void expect_calls(const calls *c)
{
    static const char *const ALL[] = {
        "|sleeps:ship|",      "|held:ship|",     "|failing:refund|", "|failing:sweep|",
        "|undoes:refund|",    "|undoes:sweep|",  "|late:refund|",    "|late:sweep|",
        "|under-way:second|", "|beside:two|",    "|retries:pay|",    "|not-registered:echo|",
        "|new:echo|",         "|another:first|", "|another:second|", "|boxed:echo|"};
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
        if (!strstr(c->list, ALL[i]))
            fail_msg("%s is missing in %s", ALL[i], c->list);
    if (c->count != sizeof ALL / sizeof *ALL)
        fail_msg("too many: %s", c->list);
}

static void runs_go_on_and_end(conf *c)
{
    calls log;
    pthread_t thread;
    pawl *p = open_old(c, &log);
    send_all(p);
    assert_int_equal(pawl_outbox_flush(p), PAWL_OK);
    assert_int_equal(pthread_create(&thread, NULL, serve, p), 0);
    expect_ends(p);
    assert_int_equal(pawl_start(p, "busy", "another", "20", NULL), PAWL_OK);
    expect_end(p, "another", PAWL_OK, "20");
    pawl_stop(p);
    pthread_join(thread, NULL);
    pawl_close(p);
    expect_calls(&log);
    static const db_sql LEFT = {"SELECT count(*) FROM {runs}"
                                " WHERE phase IN ({LIVE}, {FAILING}) OR held <> 0",
                                ""};
    assert_int_equal(number(c, &LEFT), 0);
    static const db_sql BOXED = {"SELECT count(*) FROM {outbox}", ""};
    assert_int_equal(number(c, &BOXED), 0);
}

/* One child migrates and the others wait for it. Each then ends a run of its own, and runs of 0.1
 * that every one of them wants to end. */
static void open_and_run(int in, int out, void *arg)
{
    static const char *const OLD[] = {"sleeps", "under-way", "retries"};
    calls log;
    pawl *p = NULL;
    char id[PAWL_ID_SIZE];
    tmp_tell(out, 'r');
    TMP_CHECK(tmp_hear(in) == 'g');
    if (open_all(&p, arg, &log) != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_errtext(p));
        _exit(1);
    }
    TMP_CHECK(pawl_id_new(id) == PAWL_OK);
    TMP_CHECK(pawl_start(p, "quick", id, "1", NULL) == PAWL_OK);
    TMP_CHECK(pawl_finish(p, id, LONG_MS, NULL) == PAWL_OK);
    for (size_t i = 0; i < sizeof OLD / sizeof *OLD; i++)
        TMP_CHECK(pawl_finish(p, OLD[i], LONG_MS, NULL) == PAWL_OK);
    TMP_CHECK(!strstr(log.list, "|sleeps:pay|") && !strstr(log.list, "|under-way:first|"));
    pawl_close(p);
}

static void processes_that_open_it_at_once_all_work(conf *c)
{
    enum { PROCESSES = 4, DONE_BEFORE = 1, DONE_TOGETHER = 3 };
    tmp_child children[PROCESSES];
    load_old(c);
    for (int i = 0; i < PROCESSES; i++) {
        children[i] = tmp_fork(open_and_run, c);
        tmp_expect(&children[i], 'r');
    }
    for (int i = 0; i < PROCESSES; i++)
        tmp_tell(children[i].to, 'g');
    for (int i = 0; i < PROCESSES; i++)
        tmp_join(&children[i]);
    assert_int_equal(number(c, &SCHEMA), MIGRATIONS[MIGRATION_COUNT - 1].number);
    static const db_sql DONE = {"SELECT count(*) FROM {runs} WHERE phase = {DONE}", ""};
    assert_true(number(c, &DONE) >= PROCESSES + DONE_BEFORE + DONE_TOGETHER);
}

/* A library of 0.1 refuses a database that this one has migrated by comparing one number, which is
 * set here to one that this library does not know. */
static void a_newer_database_is_refused_with_the_way_out(conf *c)
{
    pawl *p = NULL;
    load_old(c);
    run_sql(c, c->server ? "UPDATE pawl.meta SET number = 1000 WHERE name = 'schema'"
                         : "UPDATE pawl_meta SET number = 1000 WHERE name = 'schema'");
    assert_int_equal(pawl_open(&p, c->url, NULL), PAWL_NEWER);
    assert_non_null(strstr(pawl_errmsg(p), "newer pawl"));
    assert_non_null(strstr(pawl_errdetail(p), "its schema is 1000, this library knows"));
    assert_non_null(strstr(pawl_errhint(p), "use the libpawl that has written it, or a newer one"));
    pawl_close(p);
    /* Nothing was changed: it still has the columns of its own. */
    run_sql(c, c->server ? "UPDATE pawl.runs SET custom_seq = custom_seq + 1"
                         : "UPDATE pawl_runs SET custom_seq = custom_seq + 1");
}

static const conf_case CASES[] = {
    {"what is there is seen as before", what_is_there_is_seen_as_before, DB_DURABLE},
    {"runs go on and end", runs_go_on_and_end, DB_DURABLE},
    {"processes that open it at once all work", processes_that_open_it_at_once_all_work,
     DB_DURABLE | DB_SHARED},
    {"a newer database is refused with the way out", a_newer_database_is_refused_with_the_way_out,
     DB_DURABLE},
};

int main(void)
{
    return conf_run(CASES, CONF_COUNT(CASES));
}
