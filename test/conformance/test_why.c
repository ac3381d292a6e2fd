/* Why a run does not go on: each reason has its sentence, with the names and times that people look
 * for, and none of these can be forged by what others have written into names and errors. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "handle/handle.h"
#include "support/rows_fixture.h"

#define YEAR_2100 INT64_C(4102444800000)

/* All of these are in the text, in this order. */
static void expect_why(pawl *p, const char *id, const char *const *wanted, size_t count, int line)
{
    char *text = NULL;
    pawl_code rc = pawl_why(p, id, &text);
    if (rc != PAWL_OK)
        fail_msg("line %d: %s", line, pawl_errtext(p));
    const char *at = text;
    for (size_t i = 0; i < count; i++) {
        const char *found = strstr(at, wanted[i]);
        if (!found)
            fail_msg("line %d: '%s' is not in its place in\n%s", line, wanted[i], text);
        at = found + strlen(wanted[i]);
    }
    size_t size = strlen(text);
    assert_true(size > 0 && text[size - 1] == '\n'); /* whole sentences, one to a line */
    for (size_t i = 0; i < size; i++)
        assert_true((unsigned char)text[i] >= ' ' || text[i] == '\n');
    pawl_free(text);
}

static void expect_not(pawl *p, const char *id, const char *never, int line)
{
    char *text = NULL;
    assert_int_equal(pawl_why(p, id, &text), PAWL_OK);
    if (strstr(text, never))
        fail_msg("line %d: '%s' is in\n%s", line, never, text);
    pawl_free(text);
}

#define WHY_NOT(id, never) expect_not(p, id, never, __LINE__)
#define WHY(id, ...)                                                                               \
    do {                                                                                           \
        const char *const wanted[] = {__VA_ARGS__};                                                \
        expect_why(p, id, wanted, sizeof wanted / sizeof *wanted, __LINE__);                       \
    } while (0)

/* ---- Ended, or held ---- */

static void ended_runs_say_how(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .phase = 1, .finished_at = 1738281600123);
    RUNS_ADD(p, .run = 2, .phase = 2, .finished_at = 1738281600123,
             .error = "{\"name\":\"declined\",\"message\":\"no money\",\"where\":\"charge\"}");
    RUNS_ADD(p, .run = 3, .phase = 3, .error = "not JSON");
    RUNS_ADD(p, .run = 4, .phase = 2);
    RUNS_ADD(p, .run = 5, .phase = 77);
    RUNS_JOURNAL(p, .run = 4, .seq = 2, .kind = OP_ENDED_FAILED,
                 .data = "{\"name\":\"large\",\"message\":\"from the journal\"}");
    WHY("run-1", "The run is done, since 2025-01-31T00:00:00.123Z (", " ago).\n",
        "waits for nothing");
    WHY("run-2", "The run has failed, since 2025-01-31T00:00:00.123Z",
        ": declined: no money, in \"charge\".\n", "redrive");
    WHY("run-3", "The run was cancelled: not JSON.\n");
    WHY("run-4", "The run has failed: large: from the journal.\n");
    WHY("run-5", "does not know");
    pawl_close(p);
}

static void held_runs_name_what_releases_them(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .held = 1, .held_at = 1738281600000, .workflow = "pay", .version = "7");
    RUNS_ADD(p, .run = 2, .held = 2, .held_reason = "op 4 is a step, asked was a sleep");
    RUNS_ADD(p, .run = 3, .held = 3, .held_for = "\nb-1\nb\x1b-2\nb-3\nb-4\n");
    RUNS_ADD(p, .run = 4, .held = 4, .held_reason = "look\nat it");
    RUNS_ADD(p, .run = 5, .held = 1, .workflow = "pay", .held_for = "charge");
    WHY("run-1", "The run is held, since 2025-01-31T00:00:00.000Z", "no node has its workflow",
        "It goes on when a node comes that has workflow \"pay\" in version \"7\".\n");
    WHY("run-2", "The run is held: op 4 is a step, asked was a sleep.\n",
        "It goes on with another build, by a release, or by a redrive.\n", "cancelled or redriven");
    WHY("run-3", "again and again",
        "It goes on with another build than \"b-4\", \"b-3\", \"b\\u001b-2\", by a release");
    WHY("run-5", "that has workflow \"pay\" in version \"1\" and the work function \"charge\".\n");
    WHY("run-4", "The run is held: look\\nat it.\n", "released");
    pawl_close(p);
}

/* ---- Waiting ---- */

static void sleepers_say_until_when(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .wake_at = YEAR_2100, .deadline_at = YEAR_2100 + 1000);
    RUNS_ADD(p, .run = 2, .wake_at = YEAR_2100);
    RUNS_ADD(p, .run = 3);
    RUNS_JOURNAL(p, .run = 1, .seq = 2, .kind = OP_SLEEP, .data = "5");
    RUNS_JOURNAL(p, .run = 1, .seq = 3, .kind = OP_FIRED, .op = 2);
    RUNS_JOURNAL(p, .run = 1, .seq = 4, .kind = OP_SLEEP, .data = "4102444800000");
    WHY("run-1",
        "The run is live, in generation 1.\nIt sleeps (op 4) until 2100-01-01T00:00:00.000Z (in ",
        "days).\n", "It goes on at 2100-01-01T00:00:00.000Z", "no live node",
        "if it has not ended by 2100-01-01T00:00:01.000Z");
    WHY("run-2", "It begins at 2100-01-01");
    RUNS_JOURNAL(p, .run = 3, .seq = 2, .kind = OP_RECEIVE, .name = "box",
                 .data = "9223372036854775807");
    WHY("run-3", "It waits for a message in the mailbox \"box\" (op 2).\n",
        "It goes on when something arrives for it.\n");
    pawl_close(p);
}

static void retries_say_what_went_wrong(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1, .wake_at = YEAR_2100);
    RUNS_ADD(p, .run = 2, .wake_at = 1);
    RUNS_JOURNAL(p, .run = 1, .seq = 2, .kind = OP_STEP, .name = "before", .data = "1");
    RUNS_JOURNAL(p, .run = 1, .seq = 3, .kind = OP_STEP_AGAIN, .name = "charge",
                 .data = "{\"name\":\"net\",\"message\":\"first\",\"next\":4}");
    RUNS_JOURNAL(p, .run = 2, .seq = 2, .kind = OP_STEP_AGAIN, .name = "charge",
                 .data = "{\"name\":\"net\",\"message\":\"first\",\"next\":4}");
    WHY("run-2",
        "It retries the step \"charge\" (op 2): attempt 2 is due since 1970-01-01T00:00:00.004Z",
        "the last error was \"net: first\".\n", "It is due since 1970-01-01T00:00:00.001Z");
    RUNS_JOURNAL(p, .run = 1, .seq = 4, .kind = OP_ATTEMPT, .op = 3,
                 .data = "{\"name\":\"net\",\"message\":\"sec\\u001bond\",\"next\":4102444800000}");
    WHY("run-1", "It retries the step \"charge\" (op 3): attempt 3 at 2100-01-01T00:00:00.000Z",
        "the last error was \"net: sec\\u001bond\".\n");
    RUNS_JOURNAL(p, .run = 1, .seq = 5, .kind = OP_DONE, .op = 3, .data = "1");
    WHY("run-1", "generation 1.\nIt goes on at 2100");
    pawl_close(p);
}

static void tasks_say_which_node_has_them(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1);
    for (int64_t op = 2; op <= 4; op++)
        RUNS_JOURNAL(p, .run = 1, .seq = op, .kind = OP_CALL, .name = "charge", .data = "{}");
    conf_script(
        handle_db(p),
        "INSERT INTO {tasks} (tenant, queue, run, generation, op, attempt, name, owner, tag,"
        " visible_at, at) VALUES ('', 'q', 1, 1, 2, 1, 'charge', 0, 'gpu', 0, 0),"
        " ('', 'p', 1, 1, 3, 3, 'charge', 12, '', 0, 0),"
        " ('', 'p', 1, 1, 4, 1, 'charge', 0, '', 4102444800000, 0);"
        "INSERT INTO {queues} (tenant, queue, paused, updated_at) VALUES ('', 'p', 1, 0);"
        "INSERT INTO {inbox} (run, seq, kind, name, at) VALUES (1, 1, 1, 'box', 0),"
        " (1, 2, 1, 'box', 0)");
    WHY("run-1",
        "It waits for the call \"charge\" (op 4), attempt 1, which is in the queue \"p\" and may "
        "be "
        "taken at 2100-01-01T00:00:00.000Z",
        "; the queue is paused.\n",
        "It waits for the call \"charge\" (op 3), attempt 3, which node 12 is at.\n",
        "It waits for the call \"charge\" (op 2), attempt 1, which is in the queue \"q\" and was "
        "not "
        "taken yet; only nodes with the tag \"gpu\" take it.\n",
        "2 arrivals are in its inbox.\n");
    pawl_close(p);
}

static void of_many_ops_only_some_are_described(conf *c)
{
    pawl *p = runs_open(c, NULL);
    RUNS_ADD(p, .run = 1);
    for (int64_t seq = 2; seq <= 12; seq++)
        RUNS_JOURNAL(p, .run = 1, .seq = seq, .kind = OP_SLEEP, .data = "4102444800000");
    WHY("run-1", "(op 12)", "(op 5)", "It waits for 3 more.\n");
    static const char *const ONCE[] = {"(op 4)"};
    char *text = NULL;
    assert_int_equal(pawl_why(p, "run-1", &text), PAWL_OK);
    assert_null(strstr(text, ONCE[0]));
    pawl_free(text);
    pawl_close(p);
}

/* ---- What has to happen next ---- */

static void owners_are_named(conf *c)
{
    pawl *p = runs_open(c, NULL);
    pawl *other = c->promises & DB_SHARED ? runs_open(c, NULL) : NULL;
    RUNS_ADD(p, .run = 1, .owner = 5, .wake_at = 1, .claims = 3);
    RUNS_ADD(p, .run = 2, .owner = 6, .wake_at = 1);
    RUNS_ADD(p, .run = 3, .owner = 7, .wake_at = 1);
    RUNS_ADD(p, .run = 4, .wake_at = 1, .workflow = "pay", .version = "7");
    RUNS_ADD(p, .run = 5, .wake_at = YEAR_2100, .workflow = "pay", .version = "");
    WHY("run-2", "Node 6 owns it and is closed");
    WHY("run-4", "It is due since 1970", "No node owns it, and there is no live node",
        "workflow \"pay\" in version \"7\".\n");
    runs_node(p, other ? other : p, 5, "five\n", 1);
    runs_node(p, other ? other : p, 6, "six", 0);
    WHY("run-1", "claimed 3 times", "It is due since",
        c->promises & DB_FILE /* it keeps no page that would tell */
            ? "Node 5 (\"five\\n\", build \"b-1\") owns it and holds its lock; whether it moves is"
              " not known.\n"
            : "Node 5 (\"five\\n\", build \"b-1\") owns it and is alive.\n");
    WHY("run-2", "Node 6 (\"six\", build \"b-1\") owns it and is not alive");
    WHY("run-3", "Node 7 owns it and is closed; another node will take it over.\n");
    WHY("run-4",
        "No node owns it, and of 1 live node none has workflow \"pay\" in version \"7\": it goes "
        "on when one comes that has it.\n");
    conf_script(handle_db(p), "INSERT INTO {offers} (tenant, workflow, version, node) VALUES"
                              " ('', 'pay', '8', 5), ('', 'pay', '7', 6), ('t', 'pay', '7', 5)");
    WHY("run-4", "of 1 live node none has");
    WHY("run-5", "It begins at 2100",
        "No node owns it; then it is claimed by one of 1 live node that has workflow \"pay\".\n");
    conf_script(handle_db(p), "INSERT INTO {offers} (tenant, workflow, version, node) VALUES"
                              " ('', 'pay', '7', 5)");
    WHY("run-4",
        "No node owns it; it is to be claimed by one of 1 live node that has workflow \"pay\" in "
        "version \"7\"; if it is not, see its log.\n");
    pawl_close(other);
    pawl_close(p);
}

/* A healthy run has no due time: its row is due for a next owner only, if work goes on beside its
 * function, or if it has asked another run. When that owner is dead, or something has arrived, or
 * the time is that of an op, the row is due as it says. */
static void a_live_owner_has_no_due_time(conf *c)
{
    pawl *p = runs_open(c, NULL);
    pawl *other = c->promises & DB_SHARED ? runs_open(c, NULL) : NULL;
    runs_node(p, other ? other : p, 5, "five", 1);
    runs_node(p, other ? other : p, 6, "six", 0);
    for (int64_t run = 1; run <= 5; run++)
        RUNS_ADD(p, .run = run, .owner = run == 4 ? 6 : 5, .wake_at = 1738281600000);
    RUNS_JOURNAL(p, .run = 1, .seq = 2, .kind = OP_STEP_LATER, .name = "charge", .data = "1");
    RUNS_JOURNAL(p, .run = 2, .seq = 2, .kind = OP_CHILD, .name = "flow", .data = "{}");
    RUNS_JOURNAL(p, .run = 3, .seq = 2, .kind = OP_STEP_LATER, .name = "charge", .data = "1");
    RUNS_JOURNAL(p, .run = 3, .seq = 3, .kind = OP_SLEEP, .data = "1738281600000");
    RUNS_JOURNAL(p, .run = 4, .seq = 2, .kind = OP_STEP_LATER, .name = "charge", .data = "1");
    RUNS_JOURNAL(p, .run = 5, .seq = 2, .kind = OP_STEP_LATER, .name = "charge", .data = "1");
    conf_script(handle_db(p), "INSERT INTO {inbox} (run, seq, kind, name, at)"
                              " VALUES (5, 1, 1, 'box', 0)");
    WHY("run-1", "It waits for the step-later \"charge\" (op 2).\n",
        "It goes on when something arrives for it", "Node 5");
    WHY_NOT("run-1", "due since");
    WHY("run-2", "It goes on when something arrives for it", "Node 5");
    WHY_NOT("run-2", "due since");
    WHY("run-3", "It is due since 2025-01-31T00:00:00.000Z");
    WHY("run-4", "It is due since 2025-01-31T00:00:00.000Z", "is not alive");
    WHY("run-5", "1 arrival is in its inbox.\n", "It is due since 2025-01-31T00:00:00.000Z");
    pawl_close(other);
    pawl_close(p);
}

/* Names and errors cannot make lines of their own, however long they are. */
static void names_cannot_forge_sentences(conf *c)
{
    pawl *p = runs_open(c, NULL);
    char name[PAWL_MAX_NAME + 1];
    memset(name, 'x', sizeof name);
    memcpy(name, "\"\nThe run is done.\n", strlen("\"\nThe run is done.\n"));
    name[sizeof name - 1] = '\0';
    RUNS_ADD(p, .run = 1, .workflow = name, .version = "\x1b[31m", .wake_at = 1);
    RUNS_ADD(p, .run = 2, .phase = 4, .error = "\r\nThe run is done.");
    RUNS_JOURNAL(p, .run = 1, .seq = 2, .kind = OP_STEP_AGAIN, .name = name,
                 .data = "{\"name\":\"\\n\",\"message\":7}");
    char *text = NULL;
    assert_int_equal(pawl_why(p, "run-1", &text), PAWL_OK);
    assert_null(strstr(text, "\nThe run is done"));
    pawl_free(text);
    WHY("run-1", "\\\"\\nThe run is done.\\n", " …\"", "\\u001b[31m");
    WHY("run-2", "The run fails: its clean-ups will be carried out: \\r\\nThe run is done..\n");
    pawl_close(p);
}

static const conf_case CASES[] = {
    {"ended runs say how", ended_runs_say_how, 0},
    {"held runs name what releases them", held_runs_name_what_releases_them, 0},
    {"sleepers say until when", sleepers_say_until_when, 0},
    {"retries say what went wrong", retries_say_what_went_wrong, 0},
    {"tasks say which node has them", tasks_say_which_node_has_them, 0},
    {"of many ops only some are described", of_many_ops_only_some_are_described, 0},
    {"owners are named", owners_are_named, 0},
    {"a live owner has no due time", a_live_owner_has_no_due_time, 0},
    {"names cannot forge sentences", names_cannot_forge_sentences, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
