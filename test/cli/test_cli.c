/* The tool, from outside: what it prints for people and for programs, with which code it ends, and
 * what it never prints: control characters of others, and passwords. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "support/rows_fixture.h"
#include "support/tool_fixture.h"

/* ---- The database ---- */

static void fill(const char *path)
{
    pawl *p = NULL;
    assert_int_equal(pawl_open(&p, path, NULL), PAWL_OK);
    RUNS_ADD(p, .run = 1, .id = "order-1", .workflow = "order", .phase = 1,
             .created_at = 1738281600123, .finished_at = 1738281601000, .by = "me",
             .status = "{\"at\":\n\"end\"}", .input = "{\"n\":1}");
    RUNS_ADD(p, .run = 2, .id = "order-2", .workflow = "order", .wake_at = 4102444800000);
    RUNS_ADD(p, .run = 3, .id = "-odd", .workflow = "other", .held = 4, .held_reason = "by hand",
             .parent = 1);
    RUNS_ADD(p, .run = 4, .tenant = "t", .id = "theirs");
    RUNS_ADD(p, .run = 5, .id = "evil\x1b[31m\n\u202e\xc2\x9b\\", .workflow = "\r\x7f", .phase = 2,
             .by = "\t", .error = "{\"name\":\"\\u001b\",\"message\":\"\\n\"}");
    RUNS_JOURNAL(p, .run = 1, .seq = 2, .kind = OP_STEP, .name = "charge", .at = 1738281600500,
                 .data = "{\"a\":\n[1,2]}");
    RUNS_JOURNAL(p, .run = 1, .seq = 3, .kind = OP_SLEEP, .at = 1738281600600, .data = "5");
    RUNS_JOURNAL(p, .run = 1, .seq = 4, .kind = OP_FIRED, .op = 3, .at = 1738281600700);
    RUNS_JOURNAL(p, .run = 5, .seq = 2, .kind = OP_STEP, .name = "\x1b]0;x\a",
                 .data = "\"\u202e\xc2\x9b\x7f\"");
    pawl_close(p);
}

static int set_up(void **state)
{
    tool_fixture *l = tool_set_up();
    fill(l->db);
    *state = l;
    return 0;
}

static int tear_down(void **state)
{
    tool_tear_down(*state);
    return 0;
}

/* ---- ls ---- */

static void ls_for_people(void **state)
{
    tool_fixture *l = *state;
    RUN(l, 0, "ls", "--prefix", "order");
    assert_string_equal(l->out,
                        "created                   phase     workflow                 id\n"
                        "1970-01-01T00:00:02.000Z  live      order                    order-2\n"
                        "2025-01-31T00:00:00.123Z  done      order                    order-1\n");
    RUN(l, 0, "ls", "--phase", "held");
    HAS(l->out, "held      other                    -odd  (by hand)\n");
    RUN(l, 0, "ls", "--workflow=nothing");
    assert_string_equal(l->out, "");
    assert_string_equal(l->err, "");
}

static void ls_for_programs(void **state)
{
    tool_fixture *l = *state;
    char json[TEXT];
    RUN(l, 0, "--json", "ls", "--oldest", "--limit", "3");
    json_line(l->out, 0, json);
    MEMBER(json, "/id", "\"order-1\"");
    MEMBER(json, "/workflow", "\"order\"");
    MEMBER(json, "/version", "\"1\"");
    MEMBER(json, "/phase", "\"done\"");
    MEMBER(json, "/generation", "1");
    MEMBER(json, "/status", "{\"at\": \"end\"}");
    MEMBER(json, "/status_seq", "0");
    MEMBER(json, "/held", "null");
    MEMBER(json, "/parent", "null");
    MEMBER(json, "/by", "\"me\"");
    MEMBER(json, "/created", "\"2025-01-31T00:00:00.123Z\"");
    MEMBER(json, "/updated", "\"1970-01-01T00:00:01.000Z\"");
    MEMBER(json, "/finished", "\"2025-01-31T00:00:01.000Z\"");
    MEMBER(json, "/wakes", "null");
    assert_int_equal(pawl_get_count(json, ""), 14);
    MEMBER(json_line(l->out, 1, json), "/wakes", "\"2100-01-01T00:00:00.000Z\"");
    MEMBER(json_line(l->out, 2, json), "/parent", "\"order-1\"");
    MEMBER(json, "/held", "\"by hand\"");
    assert_string_equal(l->err, "");
}

static void ls_goes_on(void **state)
{
    tool_fixture *l = *state;
    RUN(l, 0, "ls", "--oldest", "--limit=1");
    HAS(l->out, "order-1\n");
    assert_string_equal(l->err, "there are more; go on with --after 'order-1'\n");
    RUN(l, 0, "ls", "--oldest", "--limit=1", "--after", "order-1");
    HAS(l->out, "order-2\n");
    RUN(l, 0, "ls", "--phase", "live,held", "--limit=2", "--after=-odd");
    HAS(l->out, "order-2\n");
    assert_string_equal(l->err, "");
    RUN(l, 0, "ls", "--tenant", "t");
    HAS(l->out, " theirs\n");
    RUN(l, 0, "ls", "--attribute", "colour=\"red\"");
    assert_string_equal(l->out, "");
    RUN(l, 1, "ls", "--after", "nobody");
    HAS(l->err, "pawl: there is no run of this id\n  the run of the option after_id\n  hint: ");
}

/* ---- show, history, why ---- */

static void show_both_ways(void **state)
{
    tool_fixture *l = *state;
    char json[TEXT];
    RUN(l, 0, "show", "order-1");
    HAS(l->out, "id          order-1\n");
    HAS(l->out, "phase       done\n");
    HAS(l->out, "created     2025-01-31T00:00:00.123Z\n");
    HAS(l->out, "status      {\"at\":\\n\"end\"}\n");
    assert_null(strstr(l->out, "held"));
    RUN(l, 0, "show", "--json", "order-1");
    MEMBER(json_line(l->out, 0, json), "/id", "\"order-1\"");
    assert_int_equal(pawl_get_count(json, ""), 15);
    RUN(l, 0, "show", "--json", "--", "-odd");
    MEMBER(json_line(l->out, 0, json), "/id", "\"-odd\"");
    MEMBER(json, "/outcome", "null");
}

static void history_both_ways(void **state)
{
    tool_fixture *l = *state;
    char json[TEXT];
    RUN(l, 0, "history", "order-1");
    assert_string_equal(
        l->out, "     1  2025-01-31T00:00:00.123Z  started     {\"n\":1}\n"
                "     2  2025-01-31T00:00:00.500Z  step        charge  {\"a\":\\n[1,2]}\n"
                "     3  2025-01-31T00:00:00.600Z  sleep       until 1970-01-01T00:00:00.005Z\n"
                "     4  2025-01-31T00:00:00.700Z  woken       of 3  null\n");
    RUN(l, 0, "history", "order-1", "--json", "--after", "1", "--generation", "1");
    json_line(l->out, 0, json);
    MEMBER(json, "/seq", "2");
    MEMBER(json, "/generation", "1");
    MEMBER(json, "/kind", "\"step\"");
    MEMBER(json, "/name", "\"charge\"");
    MEMBER(json, "/at", "\"2025-01-31T00:00:00.500Z\"");
    MEMBER(json, "/data", "{\"a\": [1,2]}");
    MEMBER(json, "/op", "0");
    MEMBER(json_line(l->out, 1, json), "/data", "5");
    MEMBER(json_line(l->out, 2, json), "/op", "3");
    RUN(l, 1, "history", "order-1", "--generation", "2");
    HAS(l->err, "generation 2");
}

static void why_both_ways(void **state)
{
    tool_fixture *l = *state;
    char json[TEXT];
    RUN(l, 0, "why", "order-2");
    HAS(l->out, "The run is live, in generation 1.\n");
    HAS(l->out, "2100-01-01T00:00:00.000Z");
    RUN(l, 0, "why", "order-2", "--json");
    MEMBER(json_line(l->out, 0, json), "/id", "\"order-2\"");
    MEMBER(json, "/why/0", "\"The run is live, in generation 1.\"");
    assert_true(pawl_get_count(json, "/why") > 1);
}

/* What others have written is shown, and does nothing: see expect_harmless(). */
static void evil_names_are_shown(void **state)
{
    static const char ID[] = "evil\x1b[31m\n\u202e\xc2\x9b\\";
    tool_fixture *l = *state;
    char json[TEXT], id[TEXT];
    RUN(l, 0, "ls", "--limit", "1");
    HAS(l->out, "\\x0d\\x7f");
    HAS(l->out, "evil\\x1b[31m\\n\\u202e\\u009b\\\\\n");
    HAS(l->err, "--after 'evil\\x1b");
    RUN(l, 0, "show", ID);
    RUN(l, 0, "why", ID);
    RUN(l, 0, "history", ID);
    HAS(l->out, "\\x1b]0;x\\x07  \"\\u202e\\u009b\\x7f\"");
    RUN(l, 0, "history", ID, "--json");
    MEMBER(json_line(l->out, 0, json), "/data", "\"\\u202e\\u009b\\u007f\"");
    RUN(l, 0, "show", ID, "--json");
    pawl_get_text(json_line(l->out, 0, json), "/id", id, sizeof id);
    assert_string_equal(id, ID); /* for programs it is what it was */
    RUN(l, 2, "show", "\x1b[31m\xff\n");
    RUN(l, 2, "\x1b[31m");
}

/* ---- What goes wrong ---- */

static void exit_codes_are_those_of_the_table(void **state)
{
    tool_fixture *l = *state;
    char path[TMP_PATH];
    RUN(l, 1, "show", "nobody");
    HAS(l->err, "pawl: there is no run of this id\n");
    HAS(l->err, "  hint: ");
    RUN(l, 1, "history", "nobody");
    RUN(l, 1, "why", "nobody");
    RUN(l, 2, "show", "\xff");
    tmp_path(path, l->dir, "missing.db");
    RUN(l, 66, "ls", "--db", path);
    HAS(l->err, path);
    assert_int_equal(tmp_size(path), -1); /* looking makes nothing */
    tmp_path(path, l->dir, "text.db");
    tmp_file(path, "this is a text, and not a database of any kind at all, as one sees", 64);
    RUN(l, 65, "ls", "--db", path);
}

static void wrong_words_are_refused(void **state)
{
    tool_fixture *l = *state;
    RUN(l, 2, "look");
    HAS(l->err, "pawl: there is no such command: look\n");
    RUN(l, 2, "ls", "--colour", "red");
    HAS(l->err, "no such option: colour");
    RUN(l, 2, "ls", "--colour=secret");
    assert_null(strstr(l->err, "secret"));
    RUN(l, 2, "ls", "--json=yes");
    RUN(l, 2, "ls", "order-1");
    RUN(l, 2, "show");
    RUN(l, 2, "show", "a", "b");
    RUN(l, 2, "show", "a", "--limit", "3");
    HAS(l->err, "does not take the option: limit");
    RUN(l, 2, "ls", "--limit", "-1");
    RUN(l, 2, "ls", "--limit", "1x");
    RUN(l, 2, "ls", "--limit", "99999999999999999999");
    RUN(l, 2, "ls", "--limit");
    RUN(l, 2, "ls", "--phase", "dead");
    RUN(l, 2, "ls", "--phase", "live,");
    RUN(l, 2, "ls", "--attribute", "a");
    RUN(l, 2, "ls", "--attribute", "a=b");
    RUN(l, 2, "history", "a", "--after", "x");
    RUN(l, 2, "history", "a", "--generation", "x");
    assert_int_equal(tool_run(l, l->db, NULL), 2);
    assert_int_equal(tool_run(l, NULL, "ls", NULL), 2);
    HAS(l->err, "PAWL_DB");
}

static void a_password_is_never_printed(void **state)
{
    static const char *const URLS[] = {
        "postgres://me:secret@127.0.0.1:1/x",
        "postgresql://127.0.0.1:1/x?password=secret",
        "mysql://me:secret@h/x",
        "host=h password=secret",
        "sqlite:postgres://me:secret@h/x",
    };
    tool_fixture *l = *state;
    for (size_t i = 0; i < sizeof URLS / sizeof *URLS; i++) {
        for (int by_option = 0; by_option < 2; by_option++) {
            int code = by_option ? tool_run(l, NULL, "ls", "--db", URLS[i], NULL)
                                 : tool_run(l, URLS[i], "ls", NULL);
            assert_in_range(code, 1, 96);
            assert_true(l->err[0]);
            assert_null(strstr(l->err, "secret"));
            assert_null(strstr(l->out, "secret"));
        }
    }
}

static void the_option_goes_before_the_environment(void **state)
{
    tool_fixture *l = *state;
    char url[TMP_PATH + 40];
    assert_int_equal(tool_run(l, "/nowhere/x.db", "show", "order-1", "--db", l->db, NULL), 0);
    snprintf(url, sizeof url, "sqlite:%s?durability=relaxed", l->db);
    assert_int_equal(tool_run(l, url, "show", "order-1", NULL), 0);
    assert_int_equal(tool_run(l, "/nowhere/x.db", "show", "order-1", NULL), 66);
}

static void help_is_there(void **state)
{
    static const char *const COMMANDS[] = {"ls",   "show", "history", "why",    "start",
                                           "send", "wait", "cancel",  "redrive"};
    tool_fixture *l = *state;
    assert_int_equal(tool_run(l, NULL, "--help", NULL), 0);
    for (size_t i = 0; i < sizeof COMMANDS / sizeof *COMMANDS; i++) {
        char usage[64];
        HAS(l->out, COMMANDS[i]);
        assert_int_equal(tool_run(l, NULL, COMMANDS[i], "--help", NULL), 0);
        snprintf(usage, sizeof usage, "usage: pawl %s ", COMMANDS[i]);
        HAS(l->out, usage);
        assert_int_equal(tool_run(l, NULL, "-h", NULL), 0);
    }
    assert_int_equal(tool_run(l, NULL, "--version", NULL), 0);
    assert_string_equal(l->out, "pawl " PAWL_VERSION "\n");
}

static void a_full_disk_is_noticed(void **state)
{
    tool_fixture *l = *state;
    const char *words[] = {"pawl", "ls", NULL};
    if (access("/dev/full", W_OK) != 0)
        skip();
    assert_int_equal(tool_run_to(l, "/dev/full", l->db, words), 74);
    HAS(l->err, "cannot be written");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(ls_for_people),
        TEST(ls_for_programs),
        TEST(ls_goes_on),
        TEST(show_both_ways),
        TEST(history_both_ways),
        TEST(why_both_ways),
        TEST(evil_names_are_shown),
        TEST(exit_codes_are_those_of_the_table),
        TEST(wrong_words_are_refused),
        TEST(a_password_is_never_printed),
        TEST(the_option_goes_before_the_environment),
        TEST(help_is_there),
        TEST(a_full_disk_is_noticed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
