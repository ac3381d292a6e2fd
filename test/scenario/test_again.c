/* Continue as new: the same run with a fresh journal. What belongs to the run stays; what belonged
 * to the journal goes, and what was pending is cancelled. And versions: which code a generation
 * has, and how code may change under one that is under way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/engine_fixture.h"

static pawl *open_build(engine_fixture *s, const char *build)
{
    return fixture_open(
        s, &(pawl_options){.size = sizeof(pawl_options), .threads = -1, .build = build});
}

/* ---- Rounds ---- */

static const char *rounds(pawl_run *run, const char *input)
{
    int64_t number = pawl_get_int(input, "/n", 0), last = pawl_get_int(input, "/last", 0);
    if (pawl_get_bool(input, "/works", 0))
        FIXTURE_STEP(run, "work", fixture_echo_input, pawl_json(run, "%" PRId64, number));
    if (pawl_get_bool(input, "/sleeps", 0))
        pawl_sleep(run, 10);
    if (number != pawl_run_generation(run))
        return pawl_fail(run, "wrong", "another generation");
    if (number < last)
        return pawl_continue_as_new(
            run,
            pawl_json(run, "{'n':%" PRId64 ",'last':%" PRId64 ",'works':%b,'sleeps':%b}",
                      number + 1, last, pawl_get_bool(input, "/works", 0),
                      pawl_get_bool(input, "/sleeps", 0)),
            NULL);
    return pawl_json(run, "%" PRId64, number);
}

static int put_word(const pawl_event *e, void *arg)
{
    char *line = arg;
    size_t size = strlen(line);
    snprintf(line + size, 2048 - size, "%s%s", size ? " " : "", pawl_event_kind(e));
    return 0;
}

static void continues_as_new_until_a_condition_holds(conf *c)
{
    engine_fixture *s = fixture_new(c);
    char line[2048];
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, rounds);
    static const char INPUT[] = "{\"n\":1,\"last\":5,\"works\":true,\"sleeps\":true}";
    fixture_start(s, p, "rounds", "run", INPUT);
    FIXTURE_DONE(s, p, "run", "5");
    FIXTURE_NOTES(s, "work-1 work-2 work-3 work-4 work-5");
    for (int64_t i = 1; i <= 5; i++) {
        line[0] = '\0';
        FIXTURE_CODE(s, p, pawl_history(p, "run", i, 0, put_word, line), PAWL_OK);
        assert_string_equal(line, i < 5 ? "started step sleep woken continued"
                                        : "started step sleep woken");
    }
    FIXTURE_CODE(s, p, pawl_history(p, "run", 6, 0, put_word, line), PAWL_NOTFOUND);
    int64_t created = 7;
    FIXTURE_CODE(s, p, pawl_start(p, "rounds", "run", INPUT, PAWL_START(.created = &created)),
                 PAWL_OK);
    assert_int_equal(created, 0);
    FIXTURE_CODE(s, p, pawl_start(p, "rounds", "run", "{\"n\":5,\"last\":5}", NULL), PAWL_CONFLICT);
    pawl_close(p);
    fixture_free(s);
}

static void continues_as_new_without_waiting(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, rounds);
    for (int i = 0; i < 3; i++) {
        char id[] = {(char)('a' + i), '\0'};
        fixture_start(s, p, "rounds", id, "{\"n\":1,\"last\":20}");
    }
    FIXTURE_DONE(s, p, "a", "20");
    FIXTURE_DONE(s, p, "b", "20");
    FIXTURE_DONE(s, p, "c", "20");
    pawl_close(p);
    fixture_free(s);
}

/* The memory of an engine does not grow with them. */
static void a_thousand_generations(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, rounds);
    fixture_start(s, p, "rounds", "first", "{\"n\":1,\"last\":300}");
    FIXTURE_DONE(s, p, "first", "300");
    size_t before = mallinfo2().uordblks;
    fixture_start(s, p, "rounds", "run", "{\"n\":1,\"last\":1000}");
    FIXTURE_DONE(s, p, "run", "1000");
    assert_true(mallinfo2().uordblks < before + (1 << 20));
    pawl_close(p);
    fixture_free(s);
}

/* Every generation in another process. */
static void one_round(engine_fixture *s, void *arg)
{
    (void)arg;
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, rounds);
    fixture_start(s, p, "rounds", "run", "{\"n\":1,\"last\":5,\"works\":true,\"sleeps\":true}");
    fixture_poll(s, p);
    fixture_advance(s, 10);
    pawl_close(p);
}

static void continues_as_new_in_other_processes(conf *c)
{
    engine_fixture *s = fixture_new(c);
    for (int i = 0; i < 7; i++) {
        tmp_child child = fixture_fork(s, one_round, NULL);
        tmp_join(&child);
    }
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, rounds);
    FIXTURE_DONE(s, p, "run", "5");
    FIXTURE_NOTES(s, "work-1 work-2 work-3 work-4 work-5");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Inputs ---- */

static const char *grows(pawl_run *run, const char *input)
{
    static const size_t SIZES[] = {10, 300000, 20, 400000};
    int64_t round = pawl_run_generation(run);
    if (round > 1 && strlen(input) != SIZES[round - 2] + 2)
        return pawl_fail(run, "wrong", "another input");
    if (round > 4)
        return "\"all\"";
    char *text = pawl_alloc(run, SIZES[round - 1] + 3);
    memset(text, 'x', SIZES[round - 1] + 2);
    text[0] = text[SIZES[round - 1] + 1] = '"';
    pawl_sleep(run, 10);
    return pawl_continue_as_new(run, text, NULL);
}

static int note_start(const pawl_event *e, void *arg)
{
    if (pawl_event_seq(e) == 1)
        *(size_t *)arg = strlen(pawl_event_data(e));
    return 0;
}

static void small_and_large_inputs_of_generations(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, grows);
    fixture_start(s, p, "grows", "run", "0");
    FIXTURE_DONE(s, p, "run", "\"all\"");
    static const size_t SIZES[] = {1, 12, 300002, 22, 400002};
    for (int64_t i = 1; i <= 5; i++) {
        size_t size = 0;
        FIXTURE_CODE(s, p, pawl_history(p, "run", i, 0, note_start, &size), PAWL_OK);
        assert_int_equal(size, SIZES[i - 1]);
    }
    fixture_start(s, p, "grows", "run", "0");
    pawl_close(p);
    fixture_free(s);
}

/* ---- What stays, and what goes ---- */

static const char *carries(pawl_run *run, const char *input)
{
    const char *message, *later;
    if (pawl_run_generation(run) == 1) {
        pawl_set_status(run, "\"set\"");
        pawl_state_set(run, "key", "{\"a\":1}");
        pawl_attr(run, "colour", "\"red\"");
        pawl_receive(run, "go", PAWL_FOREVER, &message);
        return pawl_continue_as_new(run, input, NULL);
    }
    pawl_receive(run, "box", 0, &message);
    pawl_receive(run, "box", 0, &later);
    pawl_sleep(run, PAWL_HOURS(1));
    return pawl_json(run, "[%j,%j,%j]", pawl_state_get(run, "key"), message, later);
}

static int count_one(const pawl_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static void what_a_new_generation_keeps(conf *c)
{
    engine_fixture *s = fixture_new(c);
    int found = 0;
    int64_t first = 0, again = 0;
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, carries);
    FIXTURE_CODE(s, p, pawl_start(p, "carries", "run", "1", PAWL_START(.deadline_ms = 60000)),
                 PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "1", PAWL_SEND(.key = "k", .seq = &first)),
                 PAWL_OK);
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "2", NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "go", "1", NULL), PAWL_OK);
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "1", PAWL_SEND(.key = "k", .seq = &again)),
                 PAWL_OK);
    assert_int_equal(first, again);
    pawl_info *info = NULL;
    FIXTURE_CODE(s, p, pawl_inspect(p, "run", &info), PAWL_OK);
    assert_int_equal(pawl_info_generation(info), 2);
    assert_string_equal(pawl_info_status(info), "\"set\"");
    pawl_info_free(info);
    FIXTURE_CODE(s, p,
                 pawl_list(p, PAWL_FILTER(.attribute = "colour", .attribute_value = "\"red\""),
                           count_one, &found),
                 PAWL_OK);
    assert_int_equal(found, 1);
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_CANCELLED); /* by the deadline */
    fixture_start(s, p, "carries", "two", "1");
    FIXTURE_CODE(s, p, pawl_send(p, "two", "box", "1", NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "two", "box", "2", NULL), PAWL_OK);
    FIXTURE_CODE(s, p, pawl_send(p, "two", "go", "1", NULL), PAWL_OK);
    fixture_poll(s, p);
    fixture_advance(s, PAWL_HOURS(1));
    FIXTURE_DONE(s, p, "two", "[{\"a\":1},1,2]");
    pawl_close(p);
    fixture_free(s);
}

/* Nothing of the old generation arrives in the new one. */
static const char *leaves_pending(pawl_run *run, const char *input)
{
    const char *message;
    if (pawl_run_generation(run) == 1) {
        pawl_undo(run, "undo", "1");
        pawl_finally(run, "finally", "1");
        pawl_sleep_later(run, 1000);
        pawl_receive_later(run, "box", 500);
        pawl_child_later(run, "quiet", "1", PAWL_CHILD(.id = "child"));
        pawl_sleep(run, 10);
        return pawl_continue_as_new(run, input, NULL);
    }
    pawl_future *f[] = {pawl_child_later(run, "quiet", "2", NULL), pawl_sleep_later(run, 5000)};
    int64_t first = pawl_any(run, f, 2, 0);
    pawl_receive(run, "box", 0, &message);
    return pawl_json(run, "[%" PRId64 ",%j]", first, message);
}

static const char *quiet(pawl_run *run, const char *input)
{
    pawl_sleep(run, PAWL_HOURS(1));
    return input;
}

static void what_a_new_generation_ends(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    FIXTURE_REGISTER(s, p, leaves_pending);
    FIXTURE_REGISTER(s, p, quiet);
    fixture_register_work(s, p, "undo", fixture_echo_input);
    fixture_register_work(s, p, "finally", fixture_echo_input);
    fixture_start(s, p, "leaves_pending", "run", "1");
    FIXTURE_UNTIL(s, p, fixture_phase(s, p, "child") == PAWL_RUN_CANCELLED);
    FIXTURE_CODE(s, p, pawl_send(p, "run", "box", "7", NULL), PAWL_OK);
    FIXTURE_DONE(s, p, "run", "[1,7]");
    FIXTURE_NOTES(s, "finally-1");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Versions ---- */

static const char *upgrades(pawl_run *run, const char *input)
{
    if (pawl_run_generation(run) == 1)
        return pawl_continue_as_new(run, input, pawl_text(run, input, "", NULL));
    return pawl_json(run, "%s", pawl_run_version(run));
}

static void register_version(engine_fixture *s, pawl *p, const char *version)
{
    FIXTURE_CODE(
        s, p, pawl_register_workflow(p, "w", upgrades, PAWL_WORKFLOW(.arg = s, .version = version)),
        PAWL_OK);
}

static void start_version(engine_fixture *s, pawl *p, const char *id, const char *input)
{
    FIXTURE_CODE(s, p, pawl_start(p, "w", id, input, PAWL_START(.version = "1.0")), PAWL_OK);
}

static void a_new_generation_has_the_version_that_is_asked_for(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    register_version(s, p, "1.0");
    register_version(s, p, "2.0");
    start_version(s, p, "newest", "null");
    start_version(s, p, "exact", "\"1.0\"");
    start_version(s, p, "missing", "\"3.0\"");
    FIXTURE_DONE(s, p, "newest", "\"2.0\"");
    FIXTURE_DONE(s, p, "exact", "\"1.0\"");
    FIXTURE_HELD(s, p, "missing", "3.0");
    register_version(s, p, "3.0");
    FIXTURE_DONE(s, p, "missing", "\"3.0\"");
    pawl_close(p);
    fixture_free(s);
}

/* The version of a run is chosen at its start, and told to its function. */
static const char *tells_version(pawl_run *run, const char *input)
{
    (void)input;
    pawl_sleep(run, 1000);
    return pawl_json(run, "%s", pawl_run_version(run));
}

static void the_version_of_a_start(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    for (int i = 1; i <= 2; i++)
        FIXTURE_CODE(s, p,
                     pawl_register_workflow(p, "tells", tells_version,
                                            PAWL_WORKFLOW(.arg = s, .version = i == 1 ? "1" : "2")),
                     PAWL_OK);
    fixture_start(s, p, "tells", "newest", "null");
    FIXTURE_CODE(s, p, pawl_start(p, "tells", "asked-for", "null", PAWL_START(.version = "1")),
                 PAWL_OK);
    FIXTURE_DONE(s, p, "newest", "\"2\"");
    FIXTURE_DONE(s, p, "asked-for", "\"1\"");
    pawl_close(p);
    fixture_free(s);
}

/* Another node has it, and goes on. */
static void a_new_generation_of_a_version_that_another_node_has(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a"), *q = open_build(s, "b");
    register_version(s, p, "1.0");
    register_version(s, q, "2.0");
    fixture_poll(s, q);
    start_version(s, p, "run", "\"2.0\"");
    for (int i = 0; i < 10 && fixture_phase(s, p, "run") != PAWL_RUN_DONE; i++) {
        fixture_poll(s, p);
        fixture_poll(s, q);
        fixture_advance(s, 1000);
    }
    FIXTURE_DONE(s, p, "run", "\"2.0\"");
    pawl_close(q);
    pawl_close(p);
    fixture_free(s);
}

/* A second start of a run that is under way changes nothing of it. */
static void a_second_start_is_compared_with_the_first_generation(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    register_version(s, p, "1.0");
    FIXTURE_REGISTER(s, p, quiet);
    fixture_start(s, p, "quiet", "run", "1");
    fixture_poll(s, p);
    FIXTURE_CODE(s, p, pawl_start(p, "w", "run", "1", NULL), PAWL_CONFLICT);
    FIXTURE_CODE(s, p, pawl_start(p, "quiet", "run", "1", PAWL_START(.version = "9")), PAWL_OK);
    pawl_info *info = NULL;
    FIXTURE_CODE(s, p, pawl_inspect(p, "run", &info), PAWL_OK);
    assert_string_equal(pawl_info_version(info), "1");
    assert_string_equal(pawl_info_workflow(info), "quiet");
    pawl_info_free(info);
    pawl_close(p);
    fixture_free(s);
}

/* One that began before the change goes the old way; its next generation the new one. */
static const char *before_the_change(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "old", fixture_echo_input, "1");
    pawl_sleep(run, 60000);
    FIXTURE_STEP(run, "old", fixture_echo_input, "2");
    if (pawl_run_generation(run) == 1)
        return pawl_continue_as_new(run, input, NULL);
    return input;
}

static const char *behind_the_change(pawl_run *run, const char *input)
{
    int new_way = pawl_patch(run, "change");
    FIXTURE_STEP(run, new_way ? "new" : "old", fixture_echo_input, "1");
    pawl_sleep(run, 60000);
    FIXTURE_STEP(run, new_way ? "new" : "old", fixture_echo_input, "2");
    if (pawl_run_generation(run) == 1)
        return pawl_continue_as_new(run, input, NULL);
    return input;
}

static void a_patch_in_a_new_generation(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_build(s, "a");
    fixture_register(s, p, "w", before_the_change);
    fixture_start(s, p, "w", "run", "1");
    fixture_poll(s, p);
    pawl_close(p);
    p = open_build(s, "b");
    fixture_register(s, p, "w", behind_the_change);
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "old-1 old-2 new-1 new-2");
    pawl_close(p);
    fixture_free(s);
}

/* ---- A commit whose fate is never known ---- */

typedef struct lost_answer {
    db_fault plan;
    int begins; /* the transaction has begun a new generation */
    int lost;   /* so many commits of that kind have lost their answers */
} lost_answer;

/* The first commit that begins a new generation happens, and nothing tells of it. */
static void lose_one(void *arg, int64_t number, fault_call call, const char *sql)
{
    lost_answer *f = arg;
    if (call == FAULT_CALL_NEXT && strstr(sql, "generation = generation + 1"))
        f->begins = 1;
    if (call == FAULT_CALL_COMMIT && f->begins && f->lost++ == 0)
        f->plan.lose_commit = f->plan.commits;
    if (call == FAULT_CALL_COMMIT)
        f->begins = 0;
    if (call == FAULT_CALL_SETTLE)
        f->plan.fail_call = number;
}

/* It goes on in the new generation, and nothing is executed twice. */
static void a_new_generation_whose_commit_has_no_answer(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    lost_answer f = {.plan = {.fail_code = PAWL_CORRUPT, .lose_happened = 1}};
    f.plan.before = lose_one;
    f.plan.before_arg = &f;
    pawl *p = fixture_open_fault(s, PAWL_OPTIONS(.threads = -1), &f.plan);
    FIXTURE_REGISTER(s, p, rounds);
    fixture_start(s, p, "rounds", "run", "{\"n\":1,\"last\":3,\"works\":true}");
    FIXTURE_DONE(s, p, "run", "3");
    assert_in_range(f.lost, 1, 100);
    FIXTURE_NOTES(s, "work-1 work-2 work-3");
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"dx-X15 dx-continue-as-new continues as new until a condition holds",
         continues_as_new_until_a_condition_holds, 0},
        {"dx-continue-as-new continues as new without waiting", continues_as_new_without_waiting,
         0},
        {"a thousand generations", a_thousand_generations, 0},
        {"dx-continue-as-new continues as new in other processes",
         continues_as_new_in_other_processes, DB_SHARED},
        {"small and large inputs of generations", small_and_large_inputs_of_generations, 0},
        {"dx-W10 dx-custom-status what a new generation keeps", what_a_new_generation_keeps, 0},
        {"dx-W13 what a new generation ends", what_a_new_generation_ends, 0},
        {"dx-X20 the version of a start", the_version_of_a_start, 0},
        {"dx-X22 a new generation has the version that is asked for",
         a_new_generation_has_the_version_that_is_asked_for, 0},
        {"dx-versioning a new generation of a version that another node has",
         a_new_generation_of_a_version_that_another_node_has, DB_SHARED},
        {"dx-W7 a second start is compared with the first generation",
         a_second_start_is_compared_with_the_first_generation, 0},
        {"dx-W11 a patch in a new generation", a_patch_in_a_new_generation, DB_SHARED},
        {"a new generation whose commit has no answer", a_new_generation_whose_commit_has_no_answer,
         DB_DURABLE},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
