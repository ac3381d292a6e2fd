/* Histories, parents with their children, and nodes, as clients see them. Rows are made by SQL;
 * what the engine itself writes is compared with these elsewhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "handle/handle.h"
#include "support/rows_fixture.h"

static void expect_code(pawl *p, pawl_code got, pawl_code wanted, int line)
{
    if (got != wanted)
        fail_msg("line %d: expected %s, got %s (%s)", line, pawl_code_name(wanted),
                 pawl_code_name(got), pawl_errtext(p));
}

#define CODE(got, wanted) expect_code(p, (got), (wanted), __LINE__)

/* ---- Histories ---- */

typedef struct events {
    char text[4096]; /* "seq:kind:name=data " … */
    int64_t count;
    int64_t most;
    int64_t last;
    int64_t bytes;
} events;

static int note(const pawl_event *e, void *arg)
{
    events *all = arg;
    size_t at = strlen(all->text), wrong;
    assert_int_equal(value_check(slice_of(pawl_event_data(e)), &wrong), PAWL_OK);
    int n = snprintf(all->text + at, sizeof all->text - at, "%lld:%s:%s=%s ",
                     (long long)pawl_event_seq(e), pawl_event_kind(e), pawl_event_name(e),
                     pawl_event_data(e));
    if (n >= (int)(sizeof all->text - at))
        all->text[at] = '\0';
    assert_true(pawl_event_seq(e) > all->last);
    all->last = pawl_event_seq(e);
    all->bytes += (int64_t)strlen(pawl_event_data(e));
    return ++all->count == all->most;
}

static void expect_history(pawl *p, const char *id, int64_t generation, int64_t after,
                           const char *text, int line)
{
    events all = {0};
    pawl_code rc = pawl_history(p, id, generation, after, note, &all);
    if (rc != PAWL_OK || strcmp(all.text, text) != 0)
        fail_msg("line %d: expected '%s', got '%s' (%s)", line, text, all.text,
                 rc == PAWL_OK ? "" : pawl_errtext(p));
}

#define HISTORY(id, generation, after, text)                                                       \
    expect_history(p, id, generation, after, text, __LINE__)

static int look_closely(const pawl_event *e, void *arg)
{
    assert_int_equal(pawl_event_seq(e), 2);
    assert_int_equal(pawl_event_generation(e), 1);
    assert_string_equal(pawl_event_kind(e), "step");
    assert_string_equal(pawl_event_name(e), "chärge");
    assert_int_equal(pawl_event_at_ms(e), 1234);
    assert_string_equal(pawl_event_data(e), "[1]");
    ++*(int *)arg;
    return 0;
}

/* The op of the first event that is told. */
static int note_op(const pawl_event *e, void *arg)
{
    *(int64_t *)arg = pawl_event_op(e);
    return 1;
}

static void a_history_has_an_event_for_each_row(conf *c)
{
    pawl *p = runs_open(c, NULL);
    int count = 0;
    RUNS_ADD(p, .run = 1);
    RUNS_ADD(p, .run = 2);
    HISTORY("run-1", 0, 0, "");
    RUNS_JOURNAL(p, .run = 1, .seq = 2, .kind = OP_STEP, .name = "chärge", .at = 1234,
                 .data = "[1]");
    CODE(pawl_history(p, "run-1", 0, 0, look_closely, &count), PAWL_OK);
    assert_int_equal(count, 1);
    RUNS_JOURNAL(p, .run = 1, .seq = 3, .kind = OP_SLEEP, .data = "99");
    RUNS_JOURNAL(p, .run = 1, .seq = 4, .kind = OP_FIRED, .op = 3);
    RUNS_JOURNAL(p, .run = 1, .seq = 5, .kind = (op_kind)999, .name = "later");
    RUNS_JOURNAL(p, .run = 2, .seq = 2, .kind = OP_NOW, .data = "1");
    RUNS_JOURNAL(p, .run = 2, .seq = 3, .kind = OP_STEP_LATER, .name = "b", .data = "");
    HISTORY("run-2", 0, 0, "2:now:=1 3:step-later:b=null ");
    HISTORY("run-1", 0, 0, "2:step:chärge=[1] 3:sleep:=99 4:woken:=null 5:?:later=null ");
    HISTORY("run-1", 1, 3, "4:woken:=null 5:?:later=null ");
    int64_t op = -1;
    CODE(pawl_history(p, "run-1", 0, 2, note_op, &op), PAWL_OK);
    assert_int_equal(op, 0);
    CODE(pawl_history(p, "run-1", 0, 3, note_op, &op), PAWL_OK);
    assert_int_equal(op, 3);
    HISTORY("run-1", 0, 5, "");
    HISTORY("run-1", 0, INT64_MAX, "");
    events two = {.most = 2};
    CODE(pawl_history(p, "run-1", 0, 0, note, &two), PAWL_OK);
    assert_int_equal(two.count, 2);
    pawl_close(p);
}

/* A small input has no row of its own; it is told all the same, once, at the beginning. */
static void a_history_begins_with_the_start(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .input = "{\"a\":1}");
    RUNS_ADD(p, .run = 2, .input = "\"unused\"");
    HISTORY("run-1", 0, 0, "1:started:={\"a\":1} ");
    RUNS_JOURNAL(p, .run = 1, .seq = 2, .kind = OP_NOW, .data = "5");
    RUNS_JOURNAL(p, .run = 2, .seq = 1, .kind = OP_STARTED, .data = "\"large\"");
    HISTORY("run-1", 0, 0, "1:started:={\"a\":1} 2:now:=5 ");
    HISTORY("run-1", 0, 1, "2:now:=5 ");
    HISTORY("run-2", 0, 0, "1:started:=\"large\" ");
    events one = {.most = 1};
    CODE(pawl_history(p, "run-1", 0, 0, note, &one), PAWL_OK);
    assert_int_equal(one.count, 1);
    pawl_close(p);
}

static void generations_have_histories(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .generation = 3);
    conf_script(handle_db(p), "INSERT INTO {generations} (run, generation, version, started_at)"
                              " VALUES (1, 2, '1', 5)");
    RUNS_JOURNAL(p, .run = 1, .generation = 2, .seq = 2, .kind = OP_NOW, .data = "2");
    RUNS_JOURNAL(p, .run = 1, .generation = 3, .seq = 2, .kind = OP_NOW, .data = "3");
    HISTORY("run-1", 0, 0, "2:now:=3 ");
    HISTORY("run-1", 3, 0, "2:now:=3 ");
    HISTORY("run-1", 2, 0, "2:now:=2 ");
    events none = {0};
    CODE(pawl_history(p, "run-1", 1, 0, note, &none), PAWL_NOTFOUND); /* pruned */
    CODE(pawl_history(p, "run-1", 4, 0, note, &none), PAWL_NOTFOUND);
    CODE(pawl_history(p, "run-1", INT64_MAX, 0, note, &none), PAWL_NOTFOUND);
    CODE(pawl_history(p, "run-1", -1, 0, note, &none), PAWL_INVALID);
    CODE(pawl_history(p, "run-1", 0, -1, note, &none), PAWL_INVALID);
    CODE(pawl_history(p, "nobody", 0, 0, note, &none), PAWL_NOTFOUND);
    CODE(pawl_history(p, NULL, 0, 0, note, &none), PAWL_INVALID);
    CODE(pawl_history(p, "run-1", 0, 0, NULL, &none), PAWL_INVALID);
    assert_int_equal(none.count, 0);
    pawl_close(p);
}

static void append_many(pawl *p, int64_t count)
{
    static const db_sql APPEND = {
        "INSERT INTO {journal} (run, generation, seq, kind, name, at) VALUES (1, 1, $1, 8, '', 0)",
        "i"};
    error err = {0};
    db_conn *w = conf_connect(handle_db(p), DB_WRITER);
    conf_begin(w);
    for (int64_t seq = 1; seq <= count; seq++) {
        const db_value value = db_int(seq);
        CONF_OK(db_run(w, &APPEND, &value, 1, &err), &err);
    }
    conf_commit(w);
    db_disconnect(w);
}

/* Pages end after so many rows, and after so many bytes: nothing is lost or told twice there. */
static void long_histories_come_in_pages(conf *c)
{
    enum { ROWS = 1000, LARGE = 700 * 1000 };
    pawl *p = runs_open(c, NULL);
    events all = {0};
    RUNS_ADD(p, .run = 1);
    RUNS_ADD(p, .run = 2);
    append_many(p, ROWS);
    CODE(pawl_history(p, "run-1", 0, 0, note, &all), PAWL_OK);
    assert_int_equal(all.count, ROWS);
    char *large = malloc(LARGE + 3);
    assert_non_null(large);
    memset(large, 'x', LARGE + 2);
    large[0] = large[LARGE + 1] = '"';
    large[LARGE + 2] = '\0';
    for (int64_t seq = 2; seq < 9; seq++)
        RUNS_JOURNAL(p, .run = 2, .seq = seq, .kind = OP_STEP, .data = seq % 3 ? large : "1");
    free(large);
    all = (events){0};
    CODE(pawl_history(p, "run-2", 0, 0, note, &all), PAWL_OK);
    assert_int_equal(all.count, 7);
    assert_int_equal(all.bytes, 5 * (LARGE + 2) + 2);
    pawl_close(p);
}

/* ---- Families ---- */

static void expect_tree(pawl *p, const char *id, const char *text, int line)
{
    runs_told told = {0};
    pawl_code rc = pawl_tree(p, id, runs_tell, &told);
    if (rc != PAWL_OK || strcmp(told.text, text) != 0)
        fail_msg("line %d: expected '%s', got '%s' (%s)", line, text, told.text,
                 rc == PAWL_OK ? "" : pawl_errtext(p));
}

#define TREE(id, text) expect_tree(p, id, text, __LINE__)

static void parents_come_first(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .id = "a", .parent = 99); /* whose parent is gone */
    RUNS_ADD(p, .run = 9, .id = "b", .parent = 1);
    RUNS_ADD(p, .run = 3, .id = "c", .parent = 9);
    RUNS_ADD(p, .run = 4, .id = "d", .parent = 9);
    RUNS_ADD(p, .run = 10, .id = "e", .parent = 1);
    RUNS_ADD(p, .run = 11, .id = "f", .parent = 10);
    RUNS_ADD(p, .run = 12, .id = "g");
    TREE("a", "a .b ..c ..d .e ..f ");
    TREE("b", "b .c .d ");
    TREE("g", "g ");
    runs_told three = {.most = 3};
    CODE(pawl_tree(p, "a", runs_tell, &three), PAWL_OK);
    assert_string_equal(three.text, "a .b ..c ");
    pawl_close(p);
}

/* What a damaged database may say must not go round for ever. */
static void a_run_that_is_its_own_ancestor_is_reported_once(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .id = "a", .parent = 3);
    RUNS_ADD(p, .run = 2, .id = "b", .parent = 1);
    RUNS_ADD(p, .run = 3, .id = "c", .parent = 2);
    RUNS_ADD(p, .run = 4, .id = "d", .parent = 4);
    TREE("a", "a .b ..c ...a ");
    TREE("d", "d .d ");
    pawl_close(p);
}

static void make_family(runs_row *row, size_t i, void *arg)
{
    size_t wide = *(size_t *)arg;
    row->run = 1 + (int64_t)i;
    row->parent = i == 0 ? 0 : i <= wide ? 1 : row->run - 1; /* many children, then a long line */
}

typedef struct depths {
    size_t count;
    int64_t deepest;
} depths;

static int note_depth(const pawl_info *info, void *arg)
{
    depths *d = arg;
    d->count++;
    if (pawl_info_depth(info) > d->deepest)
        d->deepest = pawl_info_depth(info);
    return 0;
}

static void large_families(conf *c)
{
    pawl *p = runs_open(c, NULL);
    size_t wide = 200;
    depths d = {0};
    runs_add_many(p, 1000, make_family, &wide);
    CODE(pawl_tree(p, "run-1", note_depth, &d), PAWL_OK);
    assert_int_equal(d.count, 1000);
    assert_int_equal(d.deepest, 800);
    pawl_close(p);
}

/* ---- Nodes ---- */

static int note_node(int64_t node, const char *name, const char *build, int64_t since_ms,
                     int64_t still_ms, void *arg)
{
    assert_int_equal(still_ms, 0);
    char *text = arg;
    size_t at = strlen(text);
    snprintf(text + at, 1024 - at, "%lld:%s:%s:%lld ", (long long)node, name, build,
             (long long)since_ms);
    return strlen(text) > 900;
}

static void live_nodes_are_told(conf *c)
{
    pawl *p = runs_open(c, NULL);
    pawl *other = c->promises & DB_SHARED ? runs_open(c, NULL) : NULL;
    char text[1024] = "";
    CODE(pawl_nodes(p, note_node, text), PAWL_OK);
    assert_string_equal(text, "");
    runs_node(p, other ? other : p, 5, "five", 1);
    runs_node(p, other ? other : p, 6, "six", 0); /* dead, and no node has noticed */
    runs_node(p, other ? other : p, 7, "seven", 1);
    runs_node(p, other ? other : p, 400, "late", 1);
    conf_script(handle_db(p), "UPDATE {nodes} SET closed = 1 WHERE node = 7");
    CODE(pawl_nodes(p, note_node, text), PAWL_OK);
    assert_string_equal(text, "5:five:b-1:77 400:late:b-1:77 ");
    pawl_close(other);
    pawl_close(p);
}

static void many_nodes_come_in_pages(conf *c)
{
    enum { NODES = 600 };
    pawl *p = runs_open(c, NULL);
    pawl *other = c->promises & DB_SHARED ? runs_open(c, NULL) : NULL;
    char text[1024] = "";
    conf_script(handle_db(p), "INSERT INTO {nodes} (node, slot, name, since)"
                              " SELECT 10 + a.n + 25 * b.n, 1, 'dead', 1 FROM"
                              " (WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s"
                              " WHERE n < 24) SELECT n FROM s) a,"
                              " (WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s"
                              " WHERE n < 23) SELECT n FROM s) b");
    runs_node(p, other ? other : p, 10 + NODES, "last", 1);
    CODE(pawl_nodes(p, note_node, text), PAWL_OK);
    assert_string_equal(text, "610:last:b-1:77 ");
    pawl_close(other);
    pawl_close(p);
}

static const conf_case CASES[] = {
    {"a history has an event for each row", a_history_has_an_event_for_each_row, 0},
    {"a history begins with the start", a_history_begins_with_the_start, 0},
    {"generations have histories", generations_have_histories, 0},
    {"long histories come in pages", long_histories_come_in_pages, 0},
    {"parents come first", parents_come_first, 0},
    {"a run that is its own ancestor is reported once",
     a_run_that_is_its_own_ancestor_is_reported_once, 0},
    {"large families", large_families, 0},
    {"live nodes are told", live_nodes_are_told, 0},
    {"many nodes come in pages", many_nodes_come_in_pages, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
