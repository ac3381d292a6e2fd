/* What a run is told and may keep: time, randomness, patches, memory, clean-ups, log lines. All of
 * it is deterministic, and happens once where once is promised. */
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

/* ---- Time and chance ---- */

static const char *gathering(pawl_run *run, const char *input)
{
    (void)input;
    int64_t first = pawl_now(run);
    const char *one = pawl_uuid(run);
    uint64_t chance = pawl_random(run);
    fixture_note(pawl_arg(run), "%lld-%s-%llx", (long long)first, one, (unsigned long long)chance);
    pawl_sleep(run, 1000);
    const char *two = pawl_uuid(run);
    int64_t last = pawl_now(run);
    uint64_t other = pawl_random(run);
    return pawl_json(run, "[%" PRId64 ",%" PRId64 ",%s,%s,%b,%b,%" PRId64 "]", first, last, one,
                     two, strcmp(one, two) != 0, chance != other, (int64_t)chance);
}

static int is_uuid7(const char *text)
{
    int good = strlen(text) == 36 && text[14] == '7' && strchr("89ab", text[19]);
    for (int i = 0; good && i < 36; i++)
        good = i == 8 || i == 13 || i == 18 || i == 23 ? text[i] == '-'
                                                       : !!strchr("0123456789abcdef", text[i]);
    return good;
}

static void time_and_ids_are_well_formed(conf *c)
{
    char text[64], wanted[64];
    pawl_outcome *end = NULL;
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, gathering);
    int64_t began = fixture_now(s);
    fixture_start(s, p, "gathering", "run", "null");
    FIXTURE_UNTIL(s, p, pawl_wait(p, "run", 0, &end) == PAWL_OK);
    const char *value = pawl_outcome_value(end);
    assert_int_equal(pawl_get_int(value, "/0", 0), began);
    assert_int_equal(pawl_get_int(value, "/1", 0), began + 1000);
    for (int i = 2; i <= 3; i++) {
        snprintf(text, sizeof text, "/%d", i);
        pawl_get_text(value, text, text, sizeof text);
        assert_true(is_uuid7(text));
        snprintf(wanted, sizeof wanted, "%08llx-%04llx",
                 (unsigned long long)(began + (i - 2) * 1000) >> 16,
                 (unsigned long long)(began + (i - 2) * 1000) & 0xffff);
        assert_memory_equal(text, wanted, 13);
    }
    assert_true(pawl_get_bool(value, "/4", 0) && pawl_get_bool(value, "/5", 0));
    FIXTURE_HISTORY(s, p, "run", "now uuid random sleep woken uuid now random");
    pawl_outcome_free(end);
    pawl_close(p);
    fixture_free(s);
}

/* The second engine has other ideas of time and chance, and the run is not told of them. */
static void a_replay_is_told_the_same(conf *c)
{
    char line[128], id[64];
    pawl_outcome *end = NULL;
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, gathering);
    int64_t began = fixture_now(s);
    fixture_start(s, p, "gathering", "run", "null");
    fixture_poll(s, p);
    pawl_close(p);
    fixture_advance(s, 5000);
    p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, gathering);
    FIXTURE_UNTIL(s, p, pawl_wait(p, "run", 0, &end) == PAWL_OK);
    const char *value = pawl_outcome_value(end);
    assert_int_equal(pawl_get_int(value, "/0", 0), began);
    assert_int_equal(pawl_get_int(value, "/1", 0), began + 5000);
    pawl_get_text(value, "/2", id, sizeof id);
    snprintf(line, sizeof line, "%lld-%s-%llx", (long long)began, id,
             (unsigned long long)pawl_get_int(value, "/6", 0));
    assert_int_equal(fixture_count(s, line), 2); /* both executions noted the same */
    pawl_outcome_free(end);
    pawl_close(p);
    fixture_free(s);
}

static const char *clocked(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    int64_t last = 0;
    for (int i = 0; i < 6; i++) {
        int64_t now = pawl_now(run);
        if (now < last)
            return pawl_fail(run, "back", "the time has gone back");
        last = now;
        fixture_set_clock(s, fixture_now(s) + (i % 2 ? 700 : -500));
    }
    return input;
}

static void time_never_goes_back(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, clocked);
    fixture_start(s, p, "clocked", "run", "1");
    FIXTURE_DONE(s, p, "run", "1");
    pawl_close(p);
    fixture_free(s);
}

static const char *set_back(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_set_clock(s, fixture_now(s) - 100000);
    return input;
}

static const char *thrown_back(pawl_run *run, const char *input)
{
    int64_t first = pawl_now(run);
    FIXTURE_STEP(run, "back", set_back, input);
    pawl_sleep(run, 1000);
    return pawl_now(run) >= first ? "\"later\"" : "\"earlier\"";
}

/* Nor for an engine that goes on from the journal: what was told is told in there. */
static void nor_in_another_engine(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, thrown_back);
    fixture_start(s, p, "thrown_back", "run", "1");
    fixture_poll(s, p);
    pawl_close(p);
    p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, thrown_back);
    FIXTURE_DONE(s, p, "run", "\"later\"");
    FIXTURE_HISTORY(s, p, "run", "now step:back sleep woken now");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Patches ---- */

static const char *before(pawl_run *run, const char *input)
{
    FIXTURE_ECHO(run, "first", "null");
    pawl_sleep(run, 1000);
    FIXTURE_ECHO(run, "last", "null");
    return input;
}

/* The same with a change in each half. */
static const char *after(pawl_run *run, const char *input)
{
    int early = pawl_patch(run, "early");
    FIXTURE_ECHO(run, early ? "new-first" : "first", "null");
    pawl_sleep(run, 1000);
    int late = pawl_patch(run, "late");
    FIXTURE_ECHO(run, late ? "new-last" : "last", "null");
    int again = pawl_patch(run, "late");
    (void)input;
    return pawl_json(run, "[%d,%d,%d]", early, late, again);
}

/* A run that was past the change goes the old way there; one that was not, the new way; and so at
 * every replay. */
static void a_patch_takes_the_way_that_was_taken(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    fixture_register(s, p, "flow", before);
    fixture_start(s, p, "flow", "old", "1");
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "first");
    pawl_close(p);
    p = fixture_open(s, NULL);
    fixture_register(s, p, "flow", after);
    fixture_start(s, p, "flow", "new", "1");
    fixture_poll(s, p);
    pawl_close(p);
    p = fixture_open(s, NULL);
    fixture_register(s, p, "flow", after);
    FIXTURE_DONE(s, p, "old", "[0,1,1]");
    FIXTURE_DONE(s, p, "new", "[1,1,1]");
    FIXTURE_HISTORY(s, p, "old", "step:first sleep woken patch:late step:new-last patch:late");
    FIXTURE_HISTORY(s, p, "new",
                    "patch:early step:new-first sleep woken patch:late step:new-last patch:late");
    pawl_close(p);
    fixture_free(s);
}

/* ---- Clean-ups ---- */

typedef struct mess {
    engine_fixture *fixture;
    const char *name;
} mess;

static void clean(void *arg)
{
    mess *m = arg;
    fixture_note(m->fixture, "clean-%s", m->name);
    free(m);
}

static int make_mess(pawl_run *run, const char *name)
{
    mess *m = malloc(sizeof *m);
    if (!m)
        return PAWL_NOMEM;
    *m = (mess){pawl_arg(run), name};
    return pawl_defer(run, clean, m);
}

static const char *no_luck(pawl_work *work, const char *input)
{
    return pawl_work_fail(work, PAWL_PERMANENT, "unlucky", "%s", input);
}

static const char *messy(pawl_run *run, const char *input)
{
    make_mess(run, "one");
    FIXTURE_ECHO(run, "a", "null");
    make_mess(run, "two");
    if (pawl_get_int(input, "", 0) == 1)
        pawl_step(run, "fails", no_luck, input, NULL);
    if (pawl_get_int(input, "", 0) == 2)
        pawl_sleep(run, -1);
    if (pawl_get_int(input, "", 0) == 3)
        return pawl_fail(run, "enough", "of it");
    pawl_sleep(run, 1000);
    make_mess(run, "three");
    return input;
}

/* Whatever the reason to leave: last first, each once. */
static void clean_ups_are_called_last_first(conf *c)
{
    if (!FIXTURE_WARM)
        skip(); /* it is left at every turn */
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, messy);
    fixture_start(s, p, "messy", "ends", "0");
    FIXTURE_DONE(s, p, "ends", "0");
    FIXTURE_NOTES(s, "a clean-three clean-two clean-one");
    fixture_clear_notes(s);
    fixture_start(s, p, "messy", "fails", "1");
    FIXTURE_FAILED(s, p, "fails", "unlucky", "1");
    FIXTURE_NOTES(s, "a clean-two clean-one");
    fixture_clear_notes(s);
    fixture_start(s, p, "messy", "is-held", "2");
    FIXTURE_HELD(s, p, "is-held", "negative");
    FIXTURE_NOTES(s, "a clean-two clean-one");
    fixture_clear_notes(s);
    fixture_start(s, p, "messy", "gives-up", "3");
    FIXTURE_FAILED(s, p, "gives-up", "enough", "of it");
    FIXTURE_NOTES(s, "a clean-two clean-one");
    fixture_clear_notes(s);
    fixture_start(s, p, "messy", "waits", "0");
    fixture_poll(s, p);
    FIXTURE_NOTES(s, "a");
    pawl_close(p);
    FIXTURE_NOTES(s, "a clean-two clean-one");
    fixture_free(s);
}

/* ---- Memory ---- */

static const char *hungry(pawl_run *run, const char *input)
{
    int bad = 0;
    char *kept = pawl_alloc(run, 100);
    for (int i = 0; i < 100; i++)
        bad += kept[i] != 0;
    memset(kept, 'k', 99);
    for (int i = 0; i < 2000; i++) {
        char *one = pawl_alloc(run, 100000);
        bad += one[0] != 0 || one[99999] != 0;
        memset(one, 'x', 100000);
        const char *text = pawl_json(run, "[%d]", i);
        const char *part = pawl_part(run, text, "/0");
        bad += pawl_get_int(part, "", -1) != i;
        bad += pawl_drop(run, one) != PAWL_OK || pawl_drop(run, text) != PAWL_OK;
        bad += pawl_drop(run, part) != PAWL_OK;
    }
    const char *result = FIXTURE_ECHO(run, "a", "null");
    bad += pawl_drop(run, result) != PAWL_OK;
    bad += pawl_drop(run, NULL) != PAWL_OK;
    bad += pawl_drop(run, &bad) != PAWL_INVALID;
    bad += pawl_drop(run, kept + 1) != PAWL_INVALID;
    bad += pawl_drop(run, input) != PAWL_INVALID;
    bad += pawl_alloc(run, 0) == NULL;
    pawl_sleep(run, 10);
    bad += strlen(kept) != 99;
    bad += pawl_json(run, "{") != NULL;
    bad += pawl_part(run, input, "/nothing") != NULL;
    return pawl_json(run, "[%d,%s,%s]", bad, pawl_text(run, "{\"a\":\"\\u00e4\"}", "/a", "?"),
                     pawl_text(run, "1", "", "fallback"));
}

static void memory_is_zeroed_and_given_back(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, hungry);
    fixture_start(s, p, "hungry", "run", "1");
    FIXTURE_DONE(s, p, "run", "[0,\"ä\",\"fallback\"]");
    pawl_close(p);
    fixture_free(s);
}

static const char *greedy(pawl_run *run, const char *input)
{
    void *all = pawl_alloc(run, SIZE_MAX - 7);
    fixture_note(pawl_arg(run), "got %p", all);
    return input;
}

/* What cannot be had is not the run's fault: it is left, and tried again later. */
static void too_much_memory_is_not_a_failure(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, NULL);
    FIXTURE_REGISTER(s, p, greedy);
    fixture_start(s, p, "greedy", "run", "1");
    for (int i = 0; i < 3; i++) {
        fixture_poll(s, p);
        fixture_advance(s, 1000);
    }
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    FIXTURE_NOTES(s, "");
    pawl_close(p);
    fixture_free(s);
}

/* ---- What is kept warm ---- */

enum { DROPPED, ENTERED };

static void count_drop(void *arg)
{
    atomic_fetch_add(fixture_number(arg, DROPPED), 1);
}

static const char *parking(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    atomic_fetch_add(fixture_number(s, ENTERED), 1);
    pawl_defer(run, count_drop, s);
    FIXTURE_ECHO(run, "a", "null");
    pawl_sleep(run, 1000);
    FIXTURE_ECHO(run, "b", "null");
    return input;
}

/* Of the sleeping runs as many are kept as have room; the others are dropped, and replayed when
 * they wake. */
static void as_many_as_have_room_are_kept_warm(conf *c)
{
    enum { RUNS = 20, WARM = 6 };
    if (!FIXTURE_WARM)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .warm_bytes = WARM * 16 * 1024));
    FIXTURE_REGISTER(s, p, parking);
    for (int i = 0; i < RUNS; i++) {
        char id[32];
        snprintf(id, sizeof id, "run-%d", i);
        fixture_start(s, p, "parking", id, "1");
    }
    fixture_poll(s, p);
    assert_int_equal(fixture_count(s, "a"), RUNS);
    int64_t dropped = atomic_load(fixture_number(s, DROPPED));
    /* Each thread has its own part of the room, and may have fewer runs than that is for. */
    assert_in_range(dropped, RUNS - WARM, fixture_serves() ? RUNS - 1 : RUNS - WARM);
    fixture_advance(s, 1000);
    fixture_poll(s, p);
    assert_int_equal(fixture_count(s, "a"), RUNS);
    assert_int_equal(fixture_count(s, "b"), RUNS);
    assert_int_equal(atomic_load(fixture_number(s, ENTERED)), RUNS + dropped);
    assert_int_equal(atomic_load(fixture_number(s, DROPPED)), RUNS + dropped);
    pawl_close(p);
    fixture_free(s);
}

/* ---- Log lines ---- */

static void note_line(int level, const char *event, const char *fields, void *arg)
{
    if (strcmp(event, "run") == 0)
        fixture_note(arg, "%d:%s", level, strstr(fields, "text="));
}

static const char *talking(pawl_run *run, const char *input)
{
    pawl_log(run, 1, "begins");
    FIXTURE_ECHO(run, "a", "null");
    pawl_log(run, 2, "n=%d", 7);
    pawl_sleep(run, 1000);
    pawl_log(run, 9, "woken");
    pawl_sleep(run, 1000);
    pawl_log(run, 3, "ends");
    return input;
}

static pawl *open_talking(engine_fixture *s)
{
    pawl *p = fixture_open(s, PAWL_OPTIONS(.threads = -1, .log = note_line, .log_arg = s));
    FIXTURE_REGISTER(s, p, talking);
    return p;
}

/* Each line once, in order, over replays by other engines. */
static void a_line_is_written_once(conf *c)
{
    engine_fixture *s = fixture_new(c);
    pawl *p = open_talking(s);
    fixture_start(s, p, "talking", "run", "1");
    fixture_poll(s, p);
    for (int i = 0; c->promises & DB_DURABLE && i < 2; i++) {
        pawl_close(p);
        fixture_advance(s, 1000);
        p = open_talking(s);
        fixture_poll(s, p);
    }
    FIXTURE_DONE(s, p, "run", "1");
    FIXTURE_NOTES(s, "a 1:text=begins 2:text=\"n=7\" 1:text=woken 3:text=ends");
    pawl_close(p);
    fixture_free(s);
}

/* A step that takes longer than a poll may. */
static const char *take_long(pawl_work *work, const char *input)
{
    fixture_advance(pawl_work_arg(work), 1000);
    return input;
}

static const char *says_the_end(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "long", take_long, input);
    pawl_log(run, 3, "ends");
    return input;
}

/* The last unit of the run is committed by the close, after the last poll. */
static void a_close_writes_the_last_lines(conf *c)
{
    FIXTURE_BY_HAND();
    engine_fixture *s = fixture_new(c);
    pawl *p =
        fixture_open(s, PAWL_OPTIONS(.threads = -1, .poll_ms = 1, .log = note_line, .log_arg = s));
    FIXTURE_REGISTER(s, p, says_the_end);
    fixture_start(s, p, "says_the_end", "run", "1");
    FIXTURE_CODE(s, p, pawl_poll(p, NULL), PAWL_OK);
    FIXTURE_NOTES(s, "");
    pawl_close(p);
    FIXTURE_NOTES(s, "3:text=ends");
    fixture_free(s);
}

static const conf_case CASES[] = {
    {"dx-X8 time and ids are well-formed", time_and_ids_are_well_formed, 0},
    {"dx-X8 a replay is told the same", a_replay_is_told_the_same, DB_DURABLE},
    {"time never goes back", time_never_goes_back, 0},
    {"time never goes back, nor in another engine", nor_in_another_engine, DB_DURABLE},
    {"a patch takes the way that was taken", a_patch_takes_the_way_that_was_taken, DB_DURABLE},
    {"clean-ups are called last first", clean_ups_are_called_last_first, 0},
    {"memory is zeroed and given back", memory_is_zeroed_and_given_back, 0},
    {"too much memory is not a failure", too_much_memory_is_not_a_failure, 0},
    {"as many as have room are kept warm", as_many_as_have_room_are_kept_warm, 0},
    {"a line is written once", a_line_is_written_once, 0},
    {"a close writes the last lines", a_close_writes_the_last_lines, 0},
};

int main(void)
{
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
