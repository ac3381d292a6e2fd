/* Runs that runs start (child runs): results, failures and ids; what becomes of them when their
 * parent ends, begins anew, dies or is driven elsewhere; and ids that belong to another run, which
 * must be an error, for a parent that waits for a run that is not its child would wait for ever. */
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

static const int64_t SILENCE_MS = 60000;

/* ---- What the runs of this test do ---- */

static const char *wrong(pawl_work *work, const char *input)
{
    (void)input;
    return pawl_work_fail(work, PAWL_PERMANENT, "wrong", "it does not work");
}

static const char *kid(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "kid", fixture_echo_input, input);
    return pawl_json(run, "{'of':%j}", input);
}

static const char *sleeper(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_MINUTES(1));
    return input;
}

static const char *failing(pawl_run *run, const char *input)
{
    pawl_step(run, "breaks", wrong, input, NULL);
    return input;
}

static const char *asks_one(pawl_run *run, const char *input)
{
    return pawl_child(run, "kid", input, NULL);
}

/* A workflow by name, with an id: {"call":…,"id":…,"version":…}. */
static const char *asks(pawl_run *run, const char *input)
{
    return pawl_child(run, pawl_text(run, input, "/call", ""), "7",
                      PAWL_CHILD(.id = pawl_text(run, input, "/id", NULL),
                                 .version = pawl_text(run, input, "/version", NULL)));
}

static const char *tries(pawl_run *run, const char *input)
{
    pawl_future *f = pawl_child_later(run, pawl_text(run, input, "/call", ""), "7",
                                      PAWL_CHILD(.id = pawl_text(run, input, "/id", NULL)));
    const pawl_outcome *o = pawl_try(run, f);
    return pawl_json(run, "{'code':%s,'name':%s,'where':%s,'value':%j}",
                     pawl_code_name(pawl_outcome_code(o)), pawl_outcome_name(o),
                     pawl_outcome_where(o), pawl_outcome_value(o));
}

static pawl *open_with(engine_fixture *s, const char *build)
{
    pawl *p = fixture_open(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .build = build});
    FIXTURE_REGISTER(s, p, kid);
    FIXTURE_REGISTER(s, p, sleeper);
    FIXTURE_REGISTER(s, p, failing);
    FIXTURE_REGISTER(s, p, asks_one);
    FIXTURE_REGISTER(s, p, asks);
    FIXTURE_REGISTER(s, p, tries);
    return p;
}

static pawl *open_here(engine_fixture *s)
{
    return open_with(s, "a");
}

/* ---- The family of a run, in a line: "id:depth:phase …" ---- */

typedef struct line {
    char text[4096];
    int count;
    int live;
} line;

static int note_member(const pawl_info *info, void *arg)
{
    line *l = arg;
    size_t size = strlen(l->text);
    l->count++;
    l->live += pawl_info_phase(info) == PAWL_RUN_LIVE;
    if (size + 200 < sizeof l->text)
        snprintf(l->text + size, sizeof l->text - size, "%s%s:%" PRId64 ":%s", size ? " " : "",
                 pawl_info_id(info), pawl_info_depth(info), pawl_phase_name(pawl_info_phase(info)));
    return 0;
}

static line family(engine_fixture *s, pawl *p, const char *id)
{
    line l = {{0}, 0, 0};
    FIXTURE_CODE(s, p, pawl_tree(p, id, note_member, &l), PAWL_OK);
    return l;
}

static line all_runs(engine_fixture *s, pawl *p)
{
    line l = {{0}, 0, 0};
    FIXTURE_CODE(s, p, pawl_list(p, PAWL_FILTER(.oldest_first = 1, .limit = 5000), note_member, &l),
                 PAWL_OK);
    return l;
}

#define TREE(s, p, id, wanted)                                                                     \
    do {                                                                                           \
        line l_ = family((s), (p), (id));                                                          \
        assert_string_equal(l_.text, (wanted));                                                    \
    } while (0)

/* ---- Results and failures ---- */

static void a_child_gives_its_result(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "asks_one", "run", "5");
    FIXTURE_DONE(s, p, "run", "{\"of\":5}");
    FIXTURE_NOTES(s, "kid-5");
    TREE(s, p, "run", "run:0:done run/1.2:1:done");
    FIXTURE_HISTORY(s, p, "run", "child:kid done");
    pawl_close(p);
    fixture_free(s);
}

static const char *asks_two(pawl_run *run, const char *input)
{
    (void)input;
    pawl_future *f[] = {pawl_child_later(run, "kid", "1", NULL),
                        pawl_child_later(run, "kid", "2", NULL)};
    pawl_all(run, f, 2);
    return pawl_json(run, "[%j,%j]", pawl_value(f[0]), pawl_value(f[1]));
}

static void two_children_at_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, asks_two);
    fixture_start(s, p, "asks_two", "run", "null");
    FIXTURE_DONE(s, p, "run", "[{\"of\":1},{\"of\":2}]");
    pawl_close(p);
    fixture_free(s);
}

static void children_of_children(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "asks", "run", "{\"call\":\"asks_one\",\"id\":\"middle\"}");
    FIXTURE_DONE(s, p, "run", "{\"of\":7}");
    TREE(s, p, "run", "run:0:done middle:1:done middle/1.2:2:done");
    pawl_close(p);
    fixture_free(s);
}

/* Large values are rows of the journal, on their way there and back. */
static const char *large_there_and_back(pawl_run *run, const char *input)
{
    size_t size = 200000;
    char *text = pawl_alloc(run, size + 3);
    memset(text, 'x', size + 2);
    text[0] = text[size + 1] = '"';
    const char *back = pawl_child(run, "same", text, NULL);
    (void)input;
    return pawl_json(run, "%" PRId64, (int64_t)strlen(back));
}

static const char *same(pawl_run *run, const char *input)
{
    pawl_sleep(run, 10);
    return input;
}

static void a_child_with_large_values(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, large_there_and_back);
    FIXTURE_REGISTER(s, p, same);
    fixture_start(s, p, "large_there_and_back", "run", "null");
    FIXTURE_DONE(s, p, "run", "200002");
    pawl_close(p);
    fixture_free(s);
}

static void a_child_fails(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "asks", "two", "{\"call\":\"failing\"}");
    fixture_start(s, p, "tries", "three", "{\"call\":\"failing\"}");
    FIXTURE_FAILED(s, p, "two", "wrong", "does not work");
    FIXTURE_DONE(s, p, "three",
                 "{\"code\":\"PAWL_FAILED\",\"name\":\"wrong\",\"where\":\"three/1.2: breaks\","
                 "\"value\":null}");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Cancelled, from either side ---- */

static void a_child_is_cancelled(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "asks", "run", "{\"call\":\"sleeper\",\"id\":\"one\"}");
    fixture_start(s, p, "tries", "two", "{\"call\":\"sleeper\",\"id\":\"other\"}");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_cancel(p, "one", "enough"), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_cancel(p, "other", "enough"), PAWL_OK);
    FIXTURE_FAILED(s, p, "run", "cancelled", "enough");
    FIXTURE_DONE(s, p, "two",
                 "{\"code\":\"PAWL_CANCELLED\",\"name\":\"cancelled\",\"where\":\"other\","
                 "\"value\":null}");
    pawl_close(p);
    fixture_free(s);
}

static const char *leaves_some(pawl_run *run, const char *input)
{
    for (int i = 0; i < 5; i++)
        pawl_child_later(run, "sleeper", "1", NULL);
    pawl_child(run, "sleeper", "1", PAWL_CHILD(.detached = 1));
    if (strcmp(input, "\"fail\"") == 0)
        pawl_fail(run, "over", "it is over");
    if (strcmp(input, "\"again\"") == 0 && pawl_run_generation(run) == 1)
        pawl_continue_as_new(run, input, NULL);
    if (strcmp(input, "\"wait\"") == 0)
        pawl_sleep(run, PAWL_HOURS(2));
    return "null";
}

/* Whichever run they belonged to, and however that ended: no run waits for them. */
static void open_children_go_with_their_parent(conf *c)
{
    static const char *const INPUTS[] = {"\"done\"", "\"fail\"", "\"again\"", "\"wait\""};
    int detached = 0;
    for (size_t i = 0; i < sizeof INPUTS / sizeof *INPUTS; i++) {
        engine_fixture *s = fixture_new(c);
        pawl *p = open_here(s);
        char id[16];
        snprintf(id, sizeof id, "run%zu", i);
        FIXTURE_REGISTER(s, p, leaves_some);
        fixture_start(s, p, "leaves_some", id, INPUTS[i]);
        fixture_poll(s, p);
        if (i == 3)
            FIXTURE_CODE(s, p, pawl_cancel(p, id, NULL), PAWL_OK);
        fixture_poll(s, p);
        line l = family(s, p, id);
        assert_int_equal(l.live, 0);
        assert_int_equal(l.count, i == 2 ? 11 : 6);
        detached += i == 2 ? 2 : 1;
        l = all_runs(s, p);
        assert_int_equal(l.live, detached);
        pawl_close(p);
        fixture_free(s);
    }
}

/* ---- Ids ---- */

/* Three generations, each with children of its own. */
static const char *generations(pawl_run *run, const char *input)
{
    int64_t number = pawl_get_int(input, "", 0);
    pawl_child(run, "kid", input, NULL);
    pawl_child(run, "kid", input, NULL);
    if (number < 3)
        return pawl_continue_as_new(run, pawl_json(run, "%" PRId64, number + 1), NULL);
    return "\"over\"";
}

static void ids_are_unique_over_generations(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, generations);
    fixture_start(s, p, "generations", "run", "1");
    FIXTURE_DONE(s, p, "run", "\"over\"");
    TREE(s, p, "run",
         "run:0:done run/1.2:1:done run/1.4:1:done run/2.2:1:done run/2.4:1:done run/3.2:1:done"
         " run/3.4:1:done");
    FIXTURE_NOTES(s, "kid-1 kid-1 kid-2 kid-2 kid-3 kid-3");
    pawl_close(p);
    fixture_free(s);
}

static const char *goes_round(pawl_run *run, const char *input)
{
    int64_t number = pawl_get_int(input, "", 0);
    pawl_sleep(run, 1000);
    if (number < 10)
        return pawl_continue_as_new(run, pawl_json(run, "%" PRId64, number + 1), NULL);
    return input;
}

static void the_link_survives_generations(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, goes_round);
    fixture_start(s, p, "asks", "run", "{\"call\":\"goes_round\",\"id\":\"child\"}");
    FIXTURE_DONE(s, p, "run", "10");
    pawl_info *info = NULL;
    FIXTURE_CODE(s, p, pawl_inspect(p, "child", &info), PAWL_OK);
    assert_string_equal(pawl_info_parent(info), "run");
    assert_int_equal(pawl_info_generation(info), 4);
    pawl_info_free(info);
    pawl_close(p);
    fixture_free(s);
}

/* The first process has both; they go on in others, the child in one, its parent in another. */
static void first_process(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, goes_round);
    fixture_start(s, p, "asks", "run", "{\"call\":\"goes_round\",\"id\":\"child\"}");
    fixture_poll(s, p);
    fixture_advance(s, 1500);
    fixture_poll(s, p);
    fixture_send_and_await(s, 'x');
}

static void the_link_survives_other_nodes(conf *c)
{
    engine_fixture *s = fixture_new(c);
    tmp_child first = fixture_fork(s, first_process, NULL);
    tmp_expect(&first, 'x');
    tmp_kill(&first);
    fixture_advance(s, SILENCE_MS);
    pawl *a = fixture_open(s, NULL), *b = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, a, goes_round);
    FIXTURE_REGISTER(s, b, asks);
    for (int i = 0; i < 40 && fixture_phase(s, b, "run") == PAWL_RUN_LIVE; i++) {
        fixture_advance(s, 1000);
        fixture_poll(s, a);
        fixture_poll(s, b);
    }
    FIXTURE_DONE(s, b, "run", "10");
    pawl_close(a);
    pawl_close(b);
    fixture_free(s);
}

/* Two children of the same name at once. */
static const char *twins(pawl_run *run, const char *input)
{
    (void)input;
    pawl_future *a = pawl_child_later(run, "sleeper", "1", PAWL_CHILD(.id = "twin"));
    pawl_future *b = pawl_child_later(run, "sleeper", "1", PAWL_CHILD(.id = "twin"));
    const char *name = pawl_outcome_name(pawl_try(run, b));
    return pawl_json(run, "[%s,%j]", name, pawl_await(run, a));
}

static void the_id_of_a_child_is_taken(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, twins);
    fixture_start(s, p, "sleeper", "somebody", "7");
    fixture_start(s, p, "kid", "ended", "7");
    fixture_start(s, p, "asks", "one", "{\"call\":\"sleeper\",\"id\":\"somebody\"}");
    fixture_start(s, p, "asks", "two", "{\"call\":\"kid\",\"id\":\"ended\"}");
    fixture_start(s, p, "asks", "three", "{\"call\":\"asks\",\"id\":\"three\"}");
    fixture_start(s, p, "twins", "four", "null");
    FIXTURE_FAILED(s, p, "one", "conflict", "somebody");
    FIXTURE_FAILED(s, p, "two", "conflict", "ended");
    FIXTURE_FAILED(s, p, "three", "conflict", "three");
    FIXTURE_DONE(s, p, "four", "[\"conflict\",1]");
    assert_int_equal(fixture_count(s, "kid-7"), 1); /* of the one that was there */
    TREE(s, p, "one", "one:0:failed");
    TREE(s, p, "three", "three:0:failed");
    pawl_close(p);
    fixture_free(s);
}

/* a asks b, which asks c, which asks for a. */
static const char *ring(pawl_run *run, const char *input)
{
    char next = (char)((pawl_run_id(run)[0] - 'a' + 1) % 3 + 'a');
    return pawl_child(run, "ring", input, PAWL_CHILD(.id = (char[]){next, '\0'}));
}

static void a_child_with_the_id_of_its_parent(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, ring);
    fixture_start(s, p, "ring", "a", "null");
    FIXTURE_FAILED(s, p, "a", "conflict", "the id a");
    FIXTURE_FAILED(s, p, "c", "conflict", "the id a");
    pawl_close(p);
    fixture_free(s);
}

/* An id in another tenant is another id. */
static void other_tenants_ids(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    pawl *q = fixture_open(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .tenant = "other"});
    FIXTURE_REGISTER(s, q, sleeper);
    fixture_start(s, q, "sleeper", "mine", "1");
    fixture_poll(s, q);
    fixture_start(s, p, "asks", "run", "{\"call\":\"kid\",\"id\":\"mine\"}");
    FIXTURE_DONE(s, p, "run", "{\"of\":7}");
    assert_int_equal(fixture_phase(s, q, "mine"), PAWL_RUN_LIVE);
    pawl_close(q);
    pawl_close(p);
    fixture_free(s);
}

/* Ids that make no sense are mistakes of the workflow. */
static void ids_of_children_are_checked(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    char input[1024], id[PAWL_MAX_ID + 1];
    memset(id, 'x', sizeof id - 1);
    id[sizeof id - 1] = '\0';
    snprintf(input, sizeof input, "{\"call\":\"kid\",\"id\":\"%s%s\"}", id, "y");
    fixture_start(s, p, "asks", "one", "{\"call\":\"kid\",\"id\":\"\"}");
    fixture_start(s, p, "asks", "two", "{\"call\":\"kid\",\"id\":\"pawl.x\"}");
    fixture_start(s, p, "asks", "three", input);
    fixture_start(s, p, "asks_one", id, "1");
    fixture_start(s, p, "asks", "four", "{\"call\":\"pawl.kid\"}");
    FIXTURE_HELD(s, p, "one", "not a name");
    FIXTURE_HELD(s, p, "two", "pawl");
    FIXTURE_HELD(s, p, "three", "not a name");
    FIXTURE_HELD(s, p, "four", "pawl");
    fixture_start(s, p, "asks", "five", "{\"call\":\"\"}");
    FIXTURE_HELD(s, p, "five", "empty");
    FIXTURE_HELD(s, p, id, "too long");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Detached ---- */

static const char *detaches(pawl_run *run, const char *input)
{
    const char *a = pawl_child(run, "sleeper", "1", PAWL_CHILD(.id = "one", .detached = 1));
    const char *b = pawl_child(run, "sleeper", "2", PAWL_CHILD(.detached = 1));
    const char *sum = pawl_json(run, "[%j,%j]", a, b);
    FIXTURE_STEP(run, "behind", fixture_echo_input, input);
    pawl_sleep(run, 10);
    return sum;
}

static int count_one(const pawl_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

/* Another engine replays the function in the middle of it: nothing is started a second time. */
static void a_detached_child(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, detaches);
    fixture_start(s, p, "detaches", "run", "0");
    fixture_poll(s, p);
    if (c->promises & DB_SHARED) {
        pawl_close(p);
        p = open_here(s);
        FIXTURE_REGISTER(s, p, detaches);
    }
    FIXTURE_DONE(s, p, "run", "[\"one\",\"run/1.4\"]");
    FIXTURE_NOTES(s, "behind-0");
    TREE(s, p, "run", "run:0:done");
    FIXTURE_DONE(s, p, "one", "1");
    FIXTURE_DONE(s, p, "run/1.4", "2");
    TREE(s, p, "one", "one:0:done");
    int runs = 0;
    FIXTURE_CODE(s, p, pawl_list(p, PAWL_FILTER(.workflow = "sleeper"), count_one, &runs), PAWL_OK);
    assert_int_equal(runs, 2);
    pawl_close(p);
    fixture_free(s);
}

/* An id that is taken is told here too. */
static const char *detaches_one(pawl_run *run, const char *input)
{
    const char *id = pawl_text(run, input, "/id", NULL);
    pawl_child_later(run, "kid", "7", PAWL_CHILD(.id = id, .detached = 1));
    const char *how = pawl_text(run, input, "/how", "");
    if (strcmp(how, "again") == 0 && pawl_run_generation(run) == 1)
        pawl_continue_as_new(run, "{\"id\":\"unused\"}", NULL);
    if (strcmp(how, "fail") == 0)
        pawl_fail(run, "over", "it is over");
    if (strcmp(how, "wait") == 0)
        pawl_child(run, "kid", "7", PAWL_CHILD(.id = id, .detached = 1));
    return "null";
}

static void a_detached_child_at_the_end_of_a_turn(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    FIXTURE_REGISTER(s, p, detaches_one);
    fixture_start(s, p, "detaches_one", "a", "{\"id\":\"behind-again\",\"how\":\"again\"}");
    fixture_start(s, p, "detaches_one", "b", "{\"id\":\"behind-end\"}");
    fixture_start(s, p, "detaches_one", "c", "{\"id\":\"behind-failure\",\"how\":\"fail\"}");
    fixture_start(s, p, "detaches_one", "d", "{\"id\":\"twice\",\"how\":\"wait\"}");
    FIXTURE_DONE(s, p, "a", "null");
    FIXTURE_DONE(s, p, "b", "null");
    FIXTURE_FAILED(s, p, "c", "over", "");
    FIXTURE_FAILED(s, p, "d", "conflict", "twice");
    FIXTURE_DONE(s, p, "behind-again", "{\"of\":7}");
    FIXTURE_DONE(s, p, "behind-end", "{\"of\":7}");
    FIXTURE_DONE(s, p, "behind-failure", "{\"of\":7}");
    pawl_close(p);
    fixture_free(s);
}

/* Whether a child was made is known when that is committed. If the process dies then, the next one
 * has to look, although the parent itself waits for ever. */
static void a_parent_looks_again(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_here(s);
    fixture_start(s, p, "asks", "parent", "{\"call\":\"sleeper\",\"id\":\"child\"}");
    fixture_poll(s, p);
    assert_in_range(fixture_wake_at(s, p, "parent"), fixture_now(s) + 1,
                    fixture_now(s) + PAWL_MINUTES(1));
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "parent") == PAWL_RUN_DONE);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a parent looks for its child again", a_parent_looks_again, 0},
        {"dx-X10 a child gives its result", a_child_gives_its_result, 0},
        {"dx-X11 two children at once", two_children_at_once, 0},
        {"dx-X12 children of children", children_of_children, 0},
        {"a child with large values", a_child_with_large_values, 0},
        {"dx-X24 a child fails", a_child_fails, 0},
        {"dx-Y3 a child is cancelled", a_child_is_cancelled, 0},
        {"dx-Y1 dx-Y5 dx-W13 open children go with their parent",
         open_children_go_with_their_parent, DB_SHARED},
        {"dx-W6 ids are unique over generations", ids_are_unique_over_generations, 0},
        {"dx-W6 the link survives generations", the_link_survives_generations, 0},
        {"dx-W6 the link survives other nodes", the_link_survives_other_nodes, DB_SHARED},
        {"dx-W6 the id of a child is taken", the_id_of_a_child_is_taken, 0},
        {"dx-W6 a child with the id of its parent", a_child_with_the_id_of_its_parent, 0},
        {"other tenants' ids", other_tenants_ids, DB_SHARED},
        {"ids of children are checked", ids_of_children_are_checked, 0},
        {"dx-X13 dx-X14 a detached child", a_detached_child, 0},
        {"dx-W9 a detached child at the end of a turn", a_detached_child_at_the_end_of_a_turn, 0},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
