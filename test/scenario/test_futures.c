/* Futures: several things at once, and which of them came first. What a wait gives is written as a
 * tree, so that composites of composites are rows of a table; what is left behind is looked for in
 * the journal, in the timers and in the row of the run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

/* ---- Trees ---- */

static const char *fail_now(pawl_work *work, const char *input)
{
    return pawl_work_fail(work, PAWL_PERMANENT, pawl_work_text(work, input, "", "?"), "on purpose");
}

/* Fails at its first attempt, and for good at the second. */
static const char *fail_late(pawl_work *work, const char *input)
{
    if (pawl_work_attempt(work) == 1)
        return pawl_work_retry(work, pawl_get_int(input, "", 0), "not yet");
    return pawl_work_fail(work, PAWL_PERMANENT, "late", "on purpose");
}

static pawl_future *grow(pawl_run *run, const char *tree);

static pawl_future *grow_several(pawl_run *run, const char *parts, int any)
{
    pawl_future *some[16] = {0};
    int64_t count = pawl_get_count(parts, "");
    for (int64_t i = 0; i < count; i++) {
        char place[32];
        snprintf(place, sizeof place, "/%lld", (long long)i);
        some[i] = grow(run, pawl_part(run, parts, place));
    }
    return any ? pawl_any_later(run, some, (size_t)count)
               : pawl_all_later(run, some, (size_t)count);
}

static pawl_future *grow(pawl_run *run, const char *tree)
{
    if (pawl_get_kind(tree, "/all") != PAWL_NOTHING)
        return grow_several(run, pawl_part(run, tree, "/all"), 0);
    if (pawl_get_kind(tree, "/any") != PAWL_NOTHING)
        return grow_several(run, pawl_part(run, tree, "/any"), 1);
    if (pawl_get_kind(tree, "/echo") != PAWL_NOTHING)
        return pawl_call_later(run, "echo", pawl_part(run, tree, "/echo"), NULL);
    if (pawl_get_kind(tree, "/fail") != PAWL_NOTHING)
        return pawl_call_later(run, "fail", pawl_part(run, tree, "/fail"), NULL);
    if (pawl_get_kind(tree, "/late") != PAWL_NOTHING)
        return pawl_call_later(run, "fail-late", pawl_part(run, tree, "/late"), NULL);
    if (pawl_get_kind(tree, "/receive") != PAWL_NOTHING)
        return pawl_receive_later(run, "box", pawl_get_int(tree, "/receive", 0));
    return pawl_sleep_later(run, pawl_get_int(tree, "/sleep", -1));
}

static const char *tree(pawl_run *run, const char *input)
{
    const pawl_outcome *o = pawl_try(run, grow(run, input));
    if (pawl_outcome_code(o) == PAWL_OK)
        return pawl_outcome_value(o);
    return pawl_json(run, "{'code':%s,'name':%s}", pawl_code_name(pawl_outcome_code(o)),
                     pawl_outcome_name(o));
}

static const char *tree_awaited(pawl_run *run, const char *input)
{
    return pawl_await(run, grow(run, input));
}

static pawl *open_trees(engine_fixture *s)
{
    pawl *p = fixture_open(s, NULL);
    const pawl_work_options *with = PAWL_WORK(.arg = s);
    FIXTURE_CODE(s, p, pawl_register_work(p, "echo", fixture_echo, with), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_register_work(p, "fail", fail_now, with), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_register_work(p, "fail-late", fail_late, with), PAWL_OK);
    FIXTURE_REGISTER(s, p, tree);
    FIXTURE_REGISTER(s, p, tree_awaited);
    return p;
}

typedef struct tree_case {
    const char *tree;
    const char *gives;
    int64_t after_ms;
} tree_case;

static const tree_case TREES[] = {
    {"{'all':[]}", "[]", 0},
    {"{'all':[{'all':[]},{'all':[]}]}", "[[],[]]", 0},
    {"{'all':[{'sleep':30},{'echo':1},{'sleep':20},{'echo':2}]}", "[null,1,null,2]", 30},
    {"{'any':[{'sleep':5}]}", "{\"index\":0,\"value\":null}", 5},
    {"{'any':[{'sleep':50},{'sleep':5},{'sleep':500}]}", "{\"index\":1,\"value\":null}", 5},
    {"{'any':[{'sleep':50},{'echo':{'a':[1]}}]}", "{\"index\":1,\"value\":{\"a\":[1]}}", 0},
    {"{'any':[{'all':[]},{'echo':1}]}", "{\"index\":0,\"value\":[]}", 0},
    {"{'all':[{'any':[{'all':[{'echo':1},{'sleep':7}]},{'sleep':9}]},{'echo':2}]}",
     "[{\"index\":0,\"value\":[1,null]},2]", 7},
    {"{'all':[{'any':[{'all':[{'echo':1},{'sleep':70}]},{'sleep':9}]},{'echo':2}]}",
     "[{\"index\":1,\"value\":null},2]", 9},
    {"{'any':[{'all':[{'any':[{'sleep':40},{'sleep':60}]},{'all':[{'sleep':1}]}]},{'sleep':8}]}",
     "{\"index\":1,\"value\":null}", 8},
    {"{'all':[{'sleep':100},{'fail':'x'}]}", "{\"code\":\"PAWL_FAILED\",\"name\":\"x\"}", 0},
    {"{'all':[{'late':30},{'fail':'x'}]}", "{\"code\":\"PAWL_FAILED\",\"name\":\"x\"}", 0},
    {"{'all':[{'late':30},{'sleep':10}]}", "{\"code\":\"PAWL_FAILED\",\"name\":\"late\"}", 30},
    {"{'any':[{'sleep':100},{'fail':'x'}]}", "{\"code\":\"PAWL_FAILED\",\"name\":\"x\"}", 0},
    {"{'any':[{'sleep':10},{'late':30}]}", "{\"index\":0,\"value\":null}", 10},
    {"{'all':[{'any':[{'sleep':10},{'late':30}]},{'sleep':60}]}",
     "[{\"index\":0,\"value\":null},null]", 60},
    {"{'any':[{'receive':10},{'sleep':20}]}", "{\"index\":0,\"value\":null}", 10},
    {"{'all':[{'receive':10},{'receive':20}]}", "[null,null]", 20},
};

/* The table is easier to read with ' for ". */
static const char *quoted(char *out, const char *text)
{
    memcpy(out, text, strlen(text) + 1);
    for (char *at = out; *at; at++)
        if (*at == '\'')
            *at = '"';
    return out;
}

static void nested_futures_give_their_values(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trees(s);
    for (size_t i = 0; i < CONF_COUNT(TREES); i++) {
        char id[32], input[512];
        int64_t began = fixture_now(s);
        snprintf(id, sizeof id, "run-%zu", i);
        fixture_start(s, p, "tree", id, quoted(input, TREES[i].tree));
        fixture_done(s, p, id, TREES[i].gives, (int)i);
        if (fixture_now(s) - began != TREES[i].after_ms)
            fail_msg("tree %zu took %lld ms", i, (long long)(fixture_now(s) - began));
    }
    fixture_advance(s, PAWL_DAYS(1)); /* no future is left that wants something */
    fixture_clear_notes(s);
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "");
    pawl_close(p);
    fixture_free(s);
}

/* The same, by an engine that begins anew after each turn. */
static void nested_futures_outlive_their_process(conf *c)
{
    engine_fixture *s = fixture_new(c);
    for (size_t i = 0; i < CONF_COUNT(TREES); i++) {
        char id[32], input[512];
        pawl *p = open_trees(s);
        snprintf(id, sizeof id, "run-%zu", i);
        fixture_start(s, p, "tree", id, quoted(input, TREES[i].tree));
        for (int rounds = 0; fixture_phase(s, p, id) == PAWL_RUN_LIVE; rounds++) {
            assert_in_range(rounds, 0, 50);
            fixture_poll(s, p);
            pawl_close(p);
            p = open_trees(s);
            fixture_advance(s, 7);
            fixture_poll(s, p);
        }
        fixture_done(s, p, id, TREES[i].gives, (int)i);
        pawl_close(p);
    }
    fixture_free(s);
}

static void a_failure_leaves_the_function(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trees(s);
    fixture_start(s, p, "tree_awaited", "one", "{\"all\":[{\"sleep\":9},{\"fail\":\"x\"}]}");
    fixture_start(s, p, "tree_awaited", "two", "{\"any\":[{\"fail\":\"y\"},{\"sleep\":9}]}");
    FIXTURE_FAILED(s, p, "one", "x", "on purpose");
    FIXTURE_FAILED(s, p, "two", "y", "on purpose");
    pawl_close(p);
    fixture_free(s);
}

/* ---- One function at a time ---- */

static void one_run(conf *c, pawl_workflow_fn *fn, const char *gives, const char *history)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trees(s);
    fixture_register(s, p, "workflow", fn);
    fixture_start(s, p, "workflow", "run", "1");
    FIXTURE_DONE(s, p, "run", gives);
    if (history)
        FIXTURE_HISTORY(s, p, "run", history);
    pawl_close(p);
    fixture_free(s);
}

static const char *joining(pawl_run *run, const char *input)
{
    pawl_future *both[] = {pawl_call_later(run, "echo", "\"left\"", NULL),
                           pawl_call_later(run, "echo", "\"right\"", NULL)};
    if (pawl_value(both[0]) || pawl_value(both[1]))
        return "false";
    pawl_all(run, both, 2);
    pawl_all(run, both, 2); /* once more is the same */
    pawl_all(run, NULL, 0);
    return pawl_json(run, "[%j,%j,%j]", pawl_value(both[1]), pawl_value(both[0]),
                     pawl_await(run, both[0]) ? input : "0");
}

static void two_futures_are_joined(conf *c)
{
    one_run(c, joining, "[\"right\",\"left\",1]", "call:echo call:echo done done");
}

/* In the order in which they end, each once. */
static const char *as_completed(pawl_run *run, const char *input)
{
    static const int64_t TIMES[] = {40, 10, 30, 20, 10};
    pawl_future *left[5];
    int64_t which[5], sum = 0;
    (void)input;
    for (int i = 0; i < 5; i++) {
        left[i] = pawl_sleep_later(run, TIMES[i]);
        which[i] = i + 1;
    }
    for (int64_t count = 5; count > 0; count--) {
        int64_t at = pawl_any(run, left, (size_t)count, PAWL_KEEP);
        sum = 10 * sum + which[at];
        if (pawl_drop(run, left[at]) != PAWL_OK)
            return "false";
        left[at] = left[count - 1];
        which[at] = which[count - 1];
    }
    return pawl_json(run, "%" PRId64, sum);
}

static void futures_that_are_kept_are_awaited_one_by_one(conf *c)
{
    one_run(c, as_completed, "25431",
            "sleep sleep sleep sleep sleep woken woken woken woken woken");
}

static const char *recovering(pawl_run *run, const char *input)
{
    pawl_future *some[] = {pawl_call_later(run, "fail", "\"rejected\"", NULL),
                           pawl_sleep_later(run, PAWL_DAYS(1))};
    int64_t first = pawl_any(run, some, 2, PAWL_FAILURES);
    const pawl_outcome *o = pawl_try(run, some[first]), *lost = pawl_try(run, some[1]);
    if (first != 0 || pawl_value(some[0]) || pawl_outcome_code(lost) != PAWL_CANCELLED ||
        o != pawl_try(run, some[0]))
        return "false";
    FIXTURE_ECHO(run, "after", input);
    return pawl_json(run, "%s", pawl_outcome_name(o));
}

static void a_failure_is_dealt_with(conf *c)
{
    one_run(c, recovering, "\"rejected\"", "call:fail sleep failed future-cancel step:after");
}

/* A future that was answered together with the winner has not lost: its answer is there, and
 * stays. */
static const char *dead_heat(pawl_run *run, const char *input)
{
    pawl_future *some[] = {pawl_sleep_later(run, 50), pawl_sleep_later(run, 5),
                           pawl_sleep_later(run, 5)};
    int64_t first = pawl_any(run, some, 3, 0);
    int64_t other = first == 1 ? 2 : 1;
    if (first == 0 || !pawl_value(some[other]) || pawl_value(some[0]))
        return "false";
    pawl_future *same[] = {pawl_sleep_later(run, 7), pawl_sleep_later(run, 7)};
    pawl_any(run, same, 2, 0);
    return pawl_value(same[0]) && pawl_value(same[1]) ? input : "false";
}

static void a_future_answered_with_the_winner_stays(conf *c)
{
    one_run(c, dead_heat, "1",
            "sleep sleep sleep woken woken future-cancel sleep sleep woken woken");
}

static const char *lost_child(pawl_run *run, const char *input)
{
    pawl_future *race[] = {pawl_child_later(run, "sleeper", "1", NULL), pawl_sleep_later(run, 10)};
    pawl_any(run, race, 2, 0);
    pawl_sleep(run, 5000); /* meanwhile the child has ended, and says so */
    return input;
}

static const char *sleeper(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_DAYS(1));
    return input;
}

static void what_a_loser_says_is_not_recorded(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trees(s);
    FIXTURE_REGISTER(s, p, lost_child);
    FIXTURE_REGISTER(s, p, sleeper);
    fixture_start(s, p, "lost_child", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    assert_int_equal(fixture_phase(s, p, "run/1.2"), PAWL_RUN_CANCELLED);
    FIXTURE_HISTORY(s, p, "run", "child:sleeper sleep woken future-cancel sleep woken");
    pawl_close(p);
    fixture_free(s);
}

static const char *slow_loses(pawl_run *run, const char *input)
{
    (void)input;
    pawl_future *race[] = {pawl_call_later(run, "fail-late", "5000", NULL),
                           pawl_sleep_later(run, 1000)};
    int64_t first = pawl_any(run, race, 2, 0);
    int64_t began = pawl_now(run);
    pawl_sleep(run, PAWL_MINUTES(10));
    if (pawl_now(run) - began < PAWL_MINUTES(10))
        return "false";
    return first == 1 ? "\"timeout\"" : "\"slow\"";
}

/* And nothing is left of it: no timer, no attempt, and the run sleeps until its own time. */
static void a_loser_leaves_nothing(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trees(s);
    FIXTURE_REGISTER(s, p, slow_loses);
    fixture_start(s, p, "slow_loses", "run", "1");
    fixture_poll(s, p);
    fixture_advance(s, 1000);
    fixture_poll(s, p);
    assert_int_equal(fixture_wake_at(s, p, "run"), fixture_now(s) + PAWL_MINUTES(10));
    char *why = NULL;
    FIXTURE_CODE(s, p, pawl_why(p, "run", &why), PAWL_OK);
    assert_null(strstr(why, "fail-late"));
    pawl_free(why);
    FIXTURE_DONE(s, p, "run", "\"timeout\"");
    FIXTURE_HISTORY(s, p, "run",
                    "call:fail-late sleep attempt woken future-cancel now sleep woken now");
    pawl_close(p);
    fixture_free(s);
}

static const char *sharing(pawl_run *run, const char *input)
{
    pawl_future *f = pawl_sleep_later(run, 10), *g = pawl_sleep_later(run, 20);
    pawl_future *h = pawl_sleep_later(run, 30);
    pawl_future *twice[] = {f, f}, *fg[] = {f, g}, *fh[] = {h, f}, *ff[] = {g, f, f};
    pawl_future *all = pawl_all_later(run, fg, 2), *any = pawl_any_later(run, fh, 2);
    pawl_future *same = pawl_any_later(run, twice, 2), *again = pawl_all_later(run, twice, 2);
    if (pawl_drop(run, f) != PAWL_INVALID)
        return "0";
    if (pawl_any(run, twice, 2, 0) != 0 || pawl_any(run, ff, 3, PAWL_KEEP) != 1)
        return "1";
    if (strcmp(pawl_await(run, any), "{\"index\":1,\"value\":null}") != 0)
        return "2";
    if (strcmp(pawl_await(run, same), "{\"index\":0,\"value\":null}") != 0)
        return "3";
    if (strcmp(pawl_await(run, again), "[null,null]") != 0 ||
        strcmp(pawl_await(run, all), "[null,null]") != 0)
        return "4";
    if (pawl_outcome_code(pawl_try(run, h)) != PAWL_CANCELLED)
        return "5";
    pawl_future *done[] = {all, any, same, again, f, g, h};
    for (size_t i = 0; i < CONF_COUNT(done); i++)
        if (pawl_drop(run, done[i]) != PAWL_OK)
            return "6";
    return pawl_json(run, "%" PRId64, 10 * pawl_get_int(input, "", 0));
}

static void a_future_may_be_a_part_of_several_others(conf *c)
{
    one_run(c, sharing, "10", "sleep sleep sleep woken future-cancel woken");
}

/* What was made of others goes before they do, and after. */
static const char *dropping(pawl_run *run, const char *input)
{
    pawl_future *f = pawl_sleep_later(run, 10), *bad = pawl_call_later(run, "fail", "\"x\"", NULL);
    pawl_future *parts[] = {f, bad}, *inner[2];
    pawl_future *all = pawl_all_later(run, parts, 2);
    if (pawl_outcome_code(pawl_try(run, all)) != PAWL_FAILED || pawl_drop(run, all) != PAWL_OK)
        return "0";
    pawl_await(run, f); /* it was a part of what is gone */
    parts[1] = pawl_sleep_later(run, 99);
    inner[0] = pawl_any_later(run, &parts[1], 1);
    inner[1] = pawl_all_later(run, &parts[1], 1);
    pawl_future *outer = pawl_all_later(run, inner, 2);
    if (pawl_drop(run, outer) != PAWL_INVALID || pawl_future_cancel(run, outer) != PAWL_OK)
        return "1";
    pawl_future *rest[] = {parts[1], inner[0], inner[1], outer, f, bad};
    for (size_t i = 0; i < CONF_COUNT(rest); i++)
        if (pawl_drop(run, rest[i]) != PAWL_OK || pawl_drop(run, rest[i]) != PAWL_INVALID)
            return "2";
    return pawl_json(run, "%j", input);
}

static void futures_are_dropped_in_any_order(conf *c)
{
    one_run(c, dropping, "1", "sleep call:fail failed woken sleep future-cancel");
}

/* A future that was given back is still there for the composites that are made of it. */
static const char *returning(pawl_run *run, const char *input)
{
    pawl_future *two[] = {pawl_call_later(run, "echo", input, NULL), pawl_sleep_later(run, 10)};
    pawl_future *all = pawl_all_later(run, two, 2);
    if (pawl_drop(run, pawl_await(run, two[0])) != PAWL_OK)
        return "0";
    const char *both = pawl_await(run, all), *first = pawl_value(two[0]);
    if (pawl_drop(run, first) != PAWL_OK || pawl_drop(run, first) != PAWL_INVALID)
        return "1";
    if (pawl_value(two[0]) || pawl_drop(run, two[0]) != PAWL_OK)
        return "2";
    if (pawl_drop(run, all) != PAWL_OK) /* its value outlives it */
        return "3";
    return both;
}

static void values_are_given_back(conf *c)
{
    one_run(c, returning, "[1,null]", "call:echo sleep done woken");
}

/* It had its answer between losing and being told so, and goes. */
static const char *late_loser(pawl_run *run, const char *input)
{
    pawl_future *c = pawl_sleep_later(run, 10);
    pawl_future *two[] = {pawl_sleep_later(run, 10), pawl_sleep_later(run, 10)};
    pawl_future *any = pawl_any_later(run, two, 2), *outer = pawl_any_later(run, &any, 1);
    pawl_await(run, c); /* all three come together; but only this one is looked at */
    pawl_now(run);
    for (int i = 0; i < 2; i++)
        if (pawl_drop(run, two[i]) != PAWL_OK)
            return "0";
    pawl_now(run);
    pawl_await(run, outer);
    return pawl_drop(run, any) == PAWL_OK && pawl_drop(run, outer) == PAWL_OK ? input : "1";
}

static void losers_with_an_answer_go(conf *c)
{
    one_run(c, late_loser, "1", "sleep sleep sleep woken woken woken now now");
}

static const char *giving_up(pawl_run *run, const char *input)
{
    pawl_future *f = pawl_sleep_later(run, 10), *done = pawl_call_later(run, "echo", "7", NULL);
    pawl_await(run, done);
    if (pawl_future_cancel(run, f) != PAWL_OK || pawl_future_cancel(run, f) != PAWL_OK ||
        pawl_future_cancel(run, done) != PAWL_OK || pawl_value(f) || !pawl_value(done))
        return "0";
    if (pawl_outcome_code(pawl_try(run, f)) != PAWL_CANCELLED ||
        pawl_outcome_code(pawl_try(run, done)) != PAWL_OK)
        return "1";
    pawl_sleep_later(run, PAWL_DAYS(1)); /* it is never asked for */
    pawl_call_later(run, "echo", "8", NULL);
    return pawl_json(run, "%j", input);
}

static void a_future_that_is_not_asked_for_holds_up_no_other(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_trees(s);
    FIXTURE_REGISTER(s, p, giving_up);
    fixture_start(s, p, "giving_up", "run", "1");
    int64_t began = fixture_now(s);
    FIXTURE_DONE(s, p, "run", "1");
    assert_int_equal(fixture_now(s), began);
    FIXTURE_HISTORY(s, p, "run", "sleep call:echo done future-cancel sleep call:echo");
    fixture_advance(s, PAWL_DAYS(2));
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "echo"); /* the second was never called */
    pawl_close(p);
    fixture_free(s);
}

static const char *glancing(pawl_run *run, const char *input)
{
    pawl_future *two[] = {pawl_sleep_later(run, 10), pawl_sleep_later(run, 10)};
    pawl_future *message = pawl_receive_later(run, "box", PAWL_FOREVER);
    pawl_any(run, two, 2, 0); /* both are there: none is cancelled, and there is no row of it */
    int there = pawl_value(message) != NULL;
    pawl_await(run, message);
    pawl_sleep(run, 1000);
    return there ? "\"there\"" : input;
}

/* What came later is not there at a replay either. */
static void a_replay_is_told_nothing_earlier(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, glancing);
    fixture_start(s, p, "glancing", "run", "7");
    fixture_poll(s, p);
    fixture_advance(s, 10);
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "1", NULL), PAWL_OK);
    fixture_poll(s, p);
    pawl_close(p);
    p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, glancing);
    FIXTURE_DONE(s, p, "run", "7");
    FIXTURE_HISTORY(s, p, "run", "sleep sleep receive:box woken woken message sleep woken");
    pawl_close(p);
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-futures a replay is told nothing earlier", a_replay_is_told_nothing_earlier, DB_DURABLE},
    {"dx-futures dx-races nested futures give their values", nested_futures_give_their_values, 0},
    {"dx-races nested futures outlive their process", nested_futures_outlive_their_process,
     DB_DURABLE},
    {"dx-X24 a failure leaves the function", a_failure_leaves_the_function, 0},
    {"dx-X7 dx-futures two futures are joined", two_futures_are_joined, 0},
    {"dx-futures futures that are kept are awaited one by one",
     futures_that_are_kept_are_awaited_one_by_one, 0},
    {"dx-X25 dx-X26 a failure is dealt with", a_failure_is_dealt_with, 0},
    {"dx-X5 dx-races a loser leaves nothing", a_loser_leaves_nothing, 0},
    {"dx-races a future answered with the winner stays", a_future_answered_with_the_winner_stays,
     0},
    {"dx-Y8 dx-Y15 what a loser says is not recorded", what_a_loser_says_is_not_recorded, 0},
    {"a future may be a part of several others", a_future_may_be_a_part_of_several_others, 0},
    {"futures are dropped in any order", futures_are_dropped_in_any_order, 0},
    {"losers with an answer go", losers_with_an_answer_go, 0},
    {"values are given back", values_are_given_back, 0},
    {"dx-Y5 dx-futures a future that is not asked for holds up no other",
     a_future_that_is_not_asked_for_holds_up_no_other, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
