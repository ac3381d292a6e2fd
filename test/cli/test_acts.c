/* start, send, wait, cancel, redrive, hold, release, rm, tree, nodes by the tool: what is asked is
 * there, told once, and the exit code is that of the library's answer. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>

#include "handle/handle.h"
#include "support/rows_fixture.h"
#include "support/tool_fixture.h"

static int set_up(void **state)
{
    *state = tool_set_up();
    return 0;
}

static int tear_down(void **state)
{
    tool_tear_down(*state);
    return 0;
}

/* A database of its own, with one run that has ended. */
static void fresh(tool_fixture *l)
{
    pawl *p = NULL;
    tmp_path(l->db, l->dir, "fresh.db");
    assert_int_equal(pawl_open(&p, l->db, NULL), PAWL_OK);
    RUNS_ADD(p, .run = 1000000, .id = "old", .workflow = "w", .phase = 1, .finished_at = 5);
    conf_script(handle_db(p), "UPDATE {runs} SET output = CAST('[1,2]' AS {BYTES})");
    RUNS_ADD(p, .run = 1000001, .id = "bad", .workflow = "w", .phase = 2, .finished_at = 5,
             .error = "{\"name\":\"broken\",\"message\":\"\\u001b[1m\",\"where\":\"s\"}");
    pawl_close(p);
}

static void start_both_ways(void **state)
{
    char line[TEXT];
    tool_fixture *l = *state;
    fresh(l);
    RUN(l, 0, "start", "w", "a", "{\"n\":1}", "--attributes", "{\"city\":\"K\"}", "--pin", "7",
        "--delay", "2h", "--deadline=3d");
    assert_string_equal(l->out, "started a\n");
    RUN(l, 0, "start", "w", "a", "{\"n\":1}");
    assert_string_equal(l->out, "there already: a\n");
    RUN(l, 0, "start", "w", "a", "{\"n\":1}", "--json");
    assert_string_equal(l->out, "{\"id\":\"a\",\"created\":false}\n");
    RUN(l, 1, "start", "w", "a");
    HAS(l->err, "another workflow or input");
    RUN(l, 0, "show", "a", "--json");
    MEMBER(json_line(l->out, 0, line), "/version", "\"7\"");
    RUN(l, 0, "ls", "--attribute", "city=\"K\"");
    HAS(l->out, " a\n");
    RUN(l, 0, "start", "w", "-", "--json");
    json_line(l->out, 0, line);
    MEMBER(line, "/created", "true");
    assert_int_equal(strlen(line), strlen("{\"id\":\"\",\"created\":true}") + 36);
    RUN(l, 0, "start", "w", "--", "-dash");
    RUN(l, 2, "start", "w", "x", "{");
    RUN(l, 2, "start", "w", "x", "--delay", "3");
    HAS(l->err, "a time is");
    RUN(l, 2, "start", "w", "x", "--delay", "-3s");
    RUN(l, 2, "start", "w", "x", "--delay", "3 s");
    RUN(l, 2, "start", "w");
    HAS(l->err, "words are missing behind: start");
    RUN(l, 2, "start", "w", "x", "1", "2");
    RUN(l, 2, "start", "w", "x", "--key", "k");
}

/* Values may come from a pipe. */
static void values_from_stdin(void **state)
{
    char line[TEXT], in[TMP_PATH];
    tool_fixture *l = *state;
    fresh(l);
    tmp_path(in, l->dir, "in");
    tmp_file(in, "[1,\n2]", 6);
    l->in = in;
    RUN(l, 0, "start", "w", "a", "-");
    RUN(l, 0, "send", "a", "box", "-");
    l->in = NULL;
    RUN(l, 0, "start", "w", "a", "[1,\n2]", "--json");
    MEMBER(json_line(l->out, 0, line), "/created", "false");
}

static void send_both_ways(void **state)
{
    tool_fixture *l = *state;
    fresh(l);
    RUN(l, 0, "start", "w", "a");
    RUN(l, 0, "send", "a", "box", "1");
    assert_string_equal(l->out, "sent as 1\n");
    RUN(l, 0, "send", "a", "box", "2", "--key", "k", "--json");
    assert_string_equal(l->out, "{\"id\":\"a\",\"seq\":2,\"created\":false}\n");
    RUN(l, 0, "send", "a", "box", "2", "--key", "k");
    assert_string_equal(l->out, "sent as 2\n");
    RUN(l, 1, "send", "a", "box", "3", "--key", "k");
    HAS(l->err, "the key was used");
    RUN(l, 1, "send", "nobody", "box");
    RUN(l, 1, "send", "old", "box");
    HAS(l->err, "ended already");
    RUN(l, 0, "send", "b", "box", "--start", "w");
    assert_string_equal(l->out, "sent as 1\nstarted b\n");
    RUN(l, 0, "send", "c", "box", "--start", "w", "--input", "[]", "--pin", "2", "--json");
    assert_string_equal(l->out, "{\"id\":\"c\",\"seq\":1,\"created\":true}\n");
    RUN(l, 2, "send", "a", "box", "nonsense");
    RUN(l, 2, "send", "a");
    RUN(l, 2, "send", "a", "box", "1", "--delay", "1s");
}

static void wait_both_ways(void **state)
{
    char line[TEXT];
    tool_fixture *l = *state;
    fresh(l);
    RUN(l, 0, "wait", "old");
    HAS(l->out, "result      [1,2]\n");
    RUN(l, 0, "wait", "old", "--json");
    MEMBER(json_line(l->out, 0, line), "/id", "\"old\"");
    MEMBER(line, "/outcome/code", "\"PAWL_OK\"");
    MEMBER(line, "/outcome/value", "[1,2]");
    RUN(l, 1, "wait", "bad", "--json");
    MEMBER(json_line(l->out, 0, line), "/outcome/code", "\"PAWL_FAILED\"");
    MEMBER(line, "/outcome/name", "\"broken\"");
    RUN(l, 1, "wait", "bad");
    HAS(l->out, "failure     broken\n");
    RUN(l, 0, "start", "w", "a");
    RUN(l, 75, "wait", "a", "--timeout", "1ms");
    assert_string_equal(l->out, "");
    RUN(l, 1, "wait", "nobody");
    RUN(l, 2, "wait");
    RUN(l, 2, "wait", "a", "--timeout", "soon");
}

static void cancel_and_redrive(void **state)
{
    tool_fixture *l = *state;
    fresh(l);
    RUN(l, 0, "start", "w", "a");
    RUN(l, 0, "cancel", "a", "--reason", "too \"late\"");
    assert_string_equal(l->out, "asked to stop: a\n");
    RUN(l, 0, "cancel", "a", "--json");
    assert_string_equal(l->out, "{\"id\":\"a\"}\n");
    RUN(l, 1, "cancel", "old");
    RUN(l, 1, "cancel", "nobody");
    RUN(l, 2, "cancel");
    RUN(l, 2, "cancel", "a", "reason");
    RUN(l, 2, "cancel", "a", "--whole");
    int code = tool_run(l, l->db, "redrive", "nobody", "--whole", "--key", "k", "--from", "x",
                        "--pin", "2", NULL);
    assert_true(code == 1 || code == 69); /* where it is not built */
    RUN(l, 2, "redrive");
    RUN(l, 2, "redrive", "a", "--reason", "r");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* Held and let go on; a release keeps the generation, and with it the idempotency keys. */
static void hold_release_and_rm(void **state)
{
    char line[TEXT];
    tool_fixture *l = *state;
    fresh(l);
    RUN(l, 0, "start", "w", "a");
    RUN(l, 0, "hold", "a", "--reason", "wait for Ann");
    assert_string_equal(l->out, "held: a\n");
    RUN(l, 0, "show", "a", "--json");
    MEMBER(json_line(l->out, 0, line), "/phase", "\"held\"");
    MEMBER(line, "/held", "\"wait for Ann\"");
    RUN(l, 0, "release", "a", "--json");
    assert_string_equal(l->out, "{\"id\":\"a\"}\n");
    RUN(l, 0, "show", "a", "--json");
    MEMBER(json_line(l->out, 0, line), "/phase", "\"live\"");
    MEMBER(line, "/generation", "1");
    RUN(l, 1, "rm", "a");
    RUN(l, 0, "rm", "a", "--force");
    assert_string_equal(l->out, "deleted: a\n");
    RUN(l, 0, "rm", "old");
    RUN(l, 1, "show", "old");
    RUN(l, 1, "release", "nobody");
    RUN(l, 2, "release", "a", "--force");
    RUN(l, 0, "release", "--help");
    HAS(l->out, "same idempotency key");
    RUN(l, 0, "redrive", "--help");
    HAS(l->out, "new idempotency key");
}

static void tree_and_nodes(void **state)
{
    char line[TEXT];
    tool_fixture *l = *state;
    pawl *p = NULL;
    int64_t did;
    fresh(l);
    assert_int_equal(pawl_open(&p, l->db, PAWL_OPTIONS(.threads = -1, .name = "the one")), PAWL_OK);
    RUNS_ADD(p, .run = 1000002, .id = "child", .workflow = "w2", .parent = 1000000, .held = 4,
             .held_reason = "by hand");
    RUN(l, 0, "tree", "old");
    assert_string_equal(l->out, "old  w  done\n  child  w2  held  (by hand)\n");
    RUN(l, 0, "tree", "old", "--json");
    MEMBER(json_line(l->out, 1, line), "/depth", "1");
    RUN(l, 0, "nodes");
    assert_string_equal(l->out, "");
    assert_int_equal(pawl_poll(p, &did), PAWL_OK);
    RUN(l, 0, "nodes", "--json");
    MEMBER(json_line(l->out, 0, line), "/name", "\"the one\"");
    MEMBER(line, "/not_moved_since", "null");
    RUN(l, 0, "nodes");
    HAS(l->out, "the one");
    assert_null(strstr(l->out, "has not moved"));
    pawl_close(p);
}

/* The time of a process that stands still: it was stopped long ago. */
static int64_t stopped_now(void *arg)
{
    (void)arg;
    return 1738281600123;
}

static void a_node_that_stands_still(void **state)
{
    char line[TEXT];
    tool_fixture *l = *state;
    pawl *p = NULL;
    pawl_hooks hooks = {.size = sizeof hooks, .now_ms = stopped_now};
    fresh(l);
    assert_int_equal(
        pawl_open(&p, l->db, PAWL_OPTIONS(.threads = -1, .name = "still", .hooks = &hooks)),
        PAWL_OK);
    assert_int_equal(pawl_poll(p, NULL), PAWL_OK);
    RUN(l, 0, "nodes");
    HAS(l->out, "  (has not moved since 2025-01-31T00:00:00.123Z)\n");
    RUN(l, 0, "nodes", "--json");
    MEMBER(json_line(l->out, 0, line), "/not_moved_since", "\"2025-01-31T00:00:00.123Z\"");
    pawl_close(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(start_both_ways), TEST(values_from_stdin),        TEST(send_both_ways),
        TEST(wait_both_ways),  TEST(cancel_and_redrive),       TEST(hold_release_and_rm),
        TEST(tree_and_nodes),  TEST(a_node_that_stands_still),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
