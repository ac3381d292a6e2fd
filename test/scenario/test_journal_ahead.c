/* Journals of dormant runs are read ahead: with room for no warm run at all, runs that become due
 * together are replayed from journals that were read with one statement. Long journals, large
 * values and damaged journals are read when they are replayed, and give what they always gave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"
#include "sched/sched.h"
#include "support/engine_fixture.h"

enum { RUNS = 40, SLEEP_MS = 1000 };

/* How many values the two statements take that read rows of journals. */
enum { AHEAD_VALUES = 19, PAGE_VALUES = 4 };

typedef struct ahead_fixture {
    engine_fixture *fixture;
    db_fault plan;
    int fails;        /* 1: no journal can be read ahead */
    int64_t ahead;    /* values bound to the statement that reads journals ahead … */
    int64_t replayed; /* … and to the one that reads a page of one journal */
    pawl *p;
} ahead_fixture;

static void count_statements(void *arg, int64_t number, fault_call call, const char *sql)
{
    ahead_fixture *f = arg;
    int is_ahead = strstr(sql, "generation = $17") != NULL;
    if (call == FAULT_CALL_BIND) {
        f->ahead += is_ahead;
        f->replayed += strstr(sql, "seq > $3 ORDER BY seq") != NULL;
    }
    if (call == FAULT_CALL_NEXT && is_ahead && f->fails)
        f->plan.fail_call = number;
}

/* ---- Workflows ---- */

/* A step whose result is a string of so many bytes. */
static const char *fill(pawl_work *work, const char *input)
{
    int64_t bytes = pawl_get_int(input, "", 0);
    char *text = pawl_work_alloc(work, (size_t)bytes + 3);
    fixture_note(pawl_work_arg(work), "%s", pawl_work_run_id(work));
    snprintf(text, (size_t)bytes + 3, "\"%0*d\"", (int)bytes, 0);
    return text;
}

/* Steps, and a sleep behind them, in as many generations. Gives the bytes of all results. */
static const char *walk(pawl_run *run, const char *input)
{
    int64_t steps = pawl_get_int(input, "/steps", 0), bytes = pawl_get_int(input, "/bytes", 0);
    int64_t generations = pawl_get_int(input, "/generations", 1), sum = 0;
    for (int64_t i = 0; i < steps; i++)
        sum +=
            (int64_t)strlen(pawl_step(run, "fill", fill, pawl_json(run, "%lld", (long long)bytes),
                                      PAWL_CALL(.arg = pawl_arg(run)))) -
            2;
    pawl_sleep(run, SLEEP_MS);
    if (generations > 1)
        return pawl_continue_as_new(run,
                                    pawl_json(run, "{'steps':%lld,'bytes':%lld,'generations':%lld}",
                                              (long long)steps, (long long)bytes,
                                              (long long)generations - 1),
                                    NULL);
    return pawl_json(run, "%lld", (long long)sum);
}

/* ---- The stage ---- */

static ahead_fixture *open_ahead(conf *c)
{
    ahead_fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    f->fixture = fixture_new(c);
    f->plan = (db_fault){.before = count_statements,
                         .before_arg = f,
                         .fail_code = PAWL_STORAGE,
                         .fail_ends = c->server != NULL};
    f->p = fixture_open_fault(f->fixture, PAWL_OPTIONS(.threads = -1, .warm_bytes = 1), &f->plan);
    FIXTURE_REGISTER(f->fixture, f->p, walk);
    fixture_poll(f->fixture, f->p);
    return f;
}

static void close_ahead(ahead_fixture *f)
{
    pawl_close(f->p);
    fixture_free(f->fixture);
    free(f);
}

static void start_walk(ahead_fixture *f, int number, int steps, int bytes, int generations)
{
    char id[32], input[80];
    snprintf(id, sizeof id, "run-%d.", number);
    snprintf(input, sizeof input, "{\"steps\":%d,\"bytes\":%d,\"generations\":%d}", steps, bytes,
             generations);
    fixture_start(f->fixture, f->p, "walk", id, input);
}

static void start_walks(ahead_fixture *f, int steps, int bytes)
{
    for (int i = 0; i < RUNS; i++)
        start_walk(f, i, steps, bytes, 1);
    fixture_poll(f->fixture, f->p);
    assert_int_equal(sched_run_count(handle_sched(f->p)), 0);
    f->ahead = f->replayed = 0;
    fixture_advance(f->fixture, SLEEP_MS);
    fixture_poll(f->fixture, f->p);
}

/* The run is done, and each of its steps was executed once. */
static void expect_walk(ahead_fixture *f, int number, int executed, int sum)
{
    char id[32], value[32];
    snprintf(id, sizeof id, "run-%d.", number);
    snprintf(value, sizeof value, "%d", sum);
    FIXTURE_DONE(f->fixture, f->p, id, value);
    assert_int_equal(fixture_count(f->fixture, id), executed);
}

static void expect_walks(ahead_fixture *f, int steps, int bytes)
{
    for (int i = 0; i < RUNS; i++)
        expect_walk(f, i, steps, steps * bytes);
}

/* ---- Cases ---- */

static void one_statement_reads_those_of_several_runs(conf *c)
{
    FIXTURE_BY_HAND();
    ahead_fixture *f = open_ahead(c);
    start_walks(f, 3, 10);
    expect_walks(f, 3, 10);
    assert_int_equal(f->replayed, 0);
    assert_in_range(f->ahead / AHEAD_VALUES, 1, RUNS / 4);
    close_ahead(f);
}

/* So many steps with results of so many bytes are too much to be read ahead. */
static void expect_read_when_replayed(conf *c, int steps, int bytes)
{
    FIXTURE_BY_HAND();
    ahead_fixture *f = open_ahead(c);
    start_walks(f, steps, bytes);
    expect_walks(f, steps, bytes);
    assert_int_equal(f->replayed / PAGE_VALUES, RUNS);
    close_ahead(f);
}

static void a_long_one_is_read_when_it_is_replayed(conf *c)
{
    expect_read_when_replayed(c, 20, 10);
}

static void one_with_a_large_value_too(conf *c)
{
    expect_read_when_replayed(c, 2, 5000);
}

/* Runs of every kind are due together: of no step and of many, with values around the limit, in
 * several generations. */
static void all_kinds_wake_together(conf *c)
{
    static const int BYTES[] = {1, 1000, 1021, 1022, 1023, 5000};
    enum { KINDS = sizeof BYTES / sizeof *BYTES };
    ahead_fixture *f = open_ahead(c);
    for (int i = 0; i < 2 * RUNS; i++)
        start_walk(f, i, i % 18, BYTES[i % KINDS], 1 + i % 3);
    for (int i = 0; i < 2 * RUNS; i++)
        expect_walk(f, i, i % 18 * (1 + i % 3), i % 18 * BYTES[i % KINDS]);
    close_ahead(f);
}

static void one_that_cannot_be_read_ahead_stops_no_other(conf *c)
{
    FIXTURE_BY_HAND();
    ahead_fixture *f = open_ahead(c);
    f->fails = 1;
    start_walks(f, 3, 10);
    assert_true(f->ahead > 0);
    assert_int_equal(f->replayed / PAGE_VALUES, RUNS);
    expect_walks(f, 3, 10);
    close_ahead(f);
}

/* Its replay says what is missing. */
static void one_with_a_hole_is_held(conf *c)
{
    FIXTURE_BY_HAND();
    ahead_fixture *f = open_ahead(c);
    for (int i = 0; i < RUNS; i++)
        start_walk(f, i, 3, 10, 1);
    fixture_poll(f->fixture, f->p);
    conf_script(handle_db(f->p), "DELETE FROM {journal} WHERE seq = 3 AND run ="
                                 " (SELECT run FROM {runs} WHERE id = 'run-7.');");
    fixture_advance(f->fixture, SLEEP_MS);
    fixture_poll(f->fixture, f->p);
    FIXTURE_HELD(f->fixture, f->p, "run-7.", "position 3: missing");
    for (int i = 0; i < RUNS; i++)
        if (i != 7)
            expect_walk(f, i, 3, 30);
    close_ahead(f);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"one statement reads those of several runs", one_statement_reads_those_of_several_runs, 0},
        {"a long one is read when it is replayed", a_long_one_is_read_when_it_is_replayed, 0},
        {"one with a large value too", one_with_a_large_value_too, 0},
        {"all kinds wake together", all_kinds_wake_together, 0},
        {"one that cannot be read ahead stops no other",
         one_that_cannot_be_read_ahead_stops_no_other, 0},
        {"one with a hole is held", one_with_a_hole_is_held, 0},
    };
    return conf_run(CASES, CONF_COUNT(CASES));
}
