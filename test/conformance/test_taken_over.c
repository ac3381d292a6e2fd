/* A database of version 0.1 is taken over with everything that is in it: runs asleep, waiting,
 * under way, held, failing, ended and not yet begun go on where they were, and end. test/data has
 * what the last library with the old tables has written, and left by dying (see the README there).
 *
 * Would be missed: a column that loses what it had, an index that does not follow, a process that
 * comes while another one migrates. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pawl.h>

#include "db/columns.h"
#include "db/migrate.h"
#include "support/conf.h"

enum { OLD_SCHEMA = 3, LONG_MS = 80000 };

/* ---- The database ---- */

static char *read_dump(const char *backend)
{
    char path[TMP_PATH];
    snprintf(path, sizeof path, "test/data/0003.%s.sql", backend);
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

static const char *echo(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

static const char *sleeper(pawl_run *run, const char *input)
{
    pawl_set_status(run, "\"first\"");
    const char *paid = pawl_step(run, "pay", echo, input, NULL);
    pawl_set_status(run, "\"asleep\"");
    pawl_sleep(run, 3600 * 1000);
    return pawl_step(run, "ship", echo, paid, NULL);
}

static const char *busy(pawl_run *run, const char *input)
{
    pawl_step(run, "first", echo, input, NULL);
    return pawl_step(run, "second", echo, input, NULL);
}

static const char *waiter(pawl_run *run, const char *input)
{
    const char *message;
    (void)input;
    pawl_state_set(run, "seen", "1");
    pawl_attr(run, "colour", "\"blue\"");
    pawl_receive(run, "go", PAWL_FOREVER, &message);
    return message;
}

static const char *failing(pawl_run *run, const char *input)
{
    pawl_undo(run, "refund", input);
    pawl_step(run, "pay", echo, input, NULL);
    return pawl_fail(run, "rejected", "no stock");
}

static const char *parent(pawl_run *run, const char *input)
{
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
    return pawl_step(run, "echo", echo, input, NULL);
}

static pawl *open_all(const conf *c)
{
    static const struct {
        const char *name;
        pawl_workflow_fn *fn;
    } ALL[] = {{"sleeper", sleeper}, {"busy", busy}, {"waiter", waiter}, {"failing", failing},
               {"parent", parent},   {"loop", loop}, {"quick", quick},   {"later", quick}};
    pawl *p = NULL;
    if (pawl_open(&p, c->url, NULL) != PAWL_OK)
        fail_msg("%s", pawl_errtext(p));
    for (size_t i = 0; i < sizeof ALL / sizeof *ALL; i++)
        assert_int_equal(pawl_register_workflow(p, ALL[i].name, ALL[i].fn, NULL), PAWL_OK);
    assert_int_equal(pawl_register_work(p, "refund", echo, NULL), PAWL_OK);
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
    assert_string_equal(pawl_info_status(i), status);
    assert_int_equal(pawl_info_status_seq(i), status_seq);
    pawl_info_free(i);
}

static void expect_end(pawl *p, const char *id, pawl_code code, const char *value)
{
    pawl_outcome *o = NULL;
    if (pawl_finish(p, id, LONG_MS, &o) != code)
        fail_msg("%s: %s", id, pawl_errtext(p));
    if (code == PAWL_OK)
        assert_string_equal(pawl_outcome_value(o), value);
    else
        assert_string_equal(pawl_outcome_name(o), value);
    pawl_outcome_free(o);
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

/* ---- Cases ---- */

static void what_is_there_is_seen_as_before(conf *c)
{
    load_old(c);
    pawl *p = open_all(c);
    expect_info(p, "sleeps", PAWL_RUN_LIVE, "\"asleep\"", 2);
    expect_info(p, "held", PAWL_RUN_HELD, "\"asleep\"", 2);
    expect_info(p, "not-registered", PAWL_RUN_HELD, "null", 0);
    expect_info(p, "failing", PAWL_RUN_FAILING, "null", 0);
    expect_info(p, "done", PAWL_RUN_DONE, "null", 0);
    expect_info(p, "failed", PAWL_RUN_FAILED, "null", 0);
    expect_info(p, "cancelled", PAWL_RUN_CANCELLED, "null", 0);
    expect_info(p, "new", PAWL_RUN_LIVE, "null", 0);

    int in_trouble = 0;
    pawl_filter f = {.size = sizeof f,
                     .phases = 1 << PAWL_RUN_FAILED | 1 << PAWL_RUN_CANCELLED |
                               1 << PAWL_RUN_FAILING | 1 << PAWL_RUN_HELD};
    assert_int_equal(pawl_list(p, &f, count_info, &in_trouble), PAWL_OK);
    assert_int_equal(in_trouble, 5);
    pawl_close(p);
    assert_int_equal(number(c, &SCHEMA), MIGRATIONS[MIGRATION_COUNT - 1].number);
    assert_true(number(c, &SCHEMA) > OLD_SCHEMA);
    static const db_sql CONTINUED = {"SELECT phase FROM {generations}", ""};
    assert_int_equal(number(c, &CONTINUED), GENERATION_CONTINUED);
}

static void runs_go_on_and_end(conf *c)
{
    load_old(c);
    pawl *p = open_all(c);
    assert_int_equal(pawl_release(p, "held"), PAWL_OK);
    assert_int_equal(pawl_send(p, "waits", "go", "\"a\"", NULL), PAWL_OK);
    assert_int_equal(pawl_send(p, "parent/1.2", "go", "\"b\"", NULL), PAWL_OK);
    assert_int_equal(pawl_send(p, "continued", "go", "\"c\"", NULL), PAWL_OK);
    expect_end(p, "sleeps", PAWL_OK, "4");
    expect_end(p, "held", PAWL_OK, "5");
    expect_end(p, "waits", PAWL_OK, "\"a\"");
    expect_end(p, "failing", PAWL_FAILED, "rejected");
    expect_end(p, "parent", PAWL_OK, "\"b\"");
    expect_end(p, "continued", PAWL_OK, "\"c\"");
    expect_end(p, "under-way", PAWL_OK, "10");
    expect_end(p, "not-registered", PAWL_OK, "11");
    expect_end(p, "new", PAWL_OK, "12");
    expect_info(p, "sleeps", PAWL_RUN_DONE, "\"asleep\"", 2);
    assert_int_equal(pawl_start(p, "quick", "another", "13", NULL), PAWL_OK);
    expect_end(p, "another", PAWL_OK, "13");
    pawl_close(p);
    static const db_sql LEFT = {"SELECT count(*) FROM {runs} WHERE phase IN ({LIVE}, {FAILING})",
                                ""};
    assert_int_equal(number(c, &LEFT), 0);
}

/* One child migrates and the others wait for it; each then starts a run and ends it. */
static void open_and_run(int in, int out, void *arg)
{
    pawl *p = NULL;
    pawl_outcome *o = NULL;
    char id[PAWL_ID_SIZE];
    tmp_tell(out, 'r');
    TMP_CHECK(tmp_hear(in) == 'g');
    if (pawl_open(&p, ((conf *)arg)->url, NULL) != PAWL_OK) {
        fprintf(stderr, "%s\n", pawl_errtext(p));
        _exit(1);
    }
    TMP_CHECK(pawl_id_new(id) == PAWL_OK);
    TMP_CHECK(pawl_register_workflow(p, "quick", quick, NULL) == PAWL_OK);
    TMP_CHECK(pawl_start(p, "quick", id, "1", NULL) == PAWL_OK);
    TMP_CHECK(pawl_finish(p, id, LONG_MS, &o) == PAWL_OK);
    TMP_CHECK(strcmp(pawl_outcome_value(o), "1") == 0);
    pawl_outcome_free(o);
    pawl_close(p);
}

static void processes_that_open_it_at_once_all_work(conf *c)
{
    enum { PROCESSES = 4 };
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
    assert_true(number(c, &DONE) >= PROCESSES + 1);
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
