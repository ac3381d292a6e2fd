#define _GNU_SOURCE /* RTLD_NEXT */
/* Memory that cannot be had for the record of a result: what was executed is kept with its run
 * until there is a row of it, whatever is in the way, and is executed once. Executions are lines of
 * the side file. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"
#include "support/engine_fixture.h"

/* Numbers of the fixture: lines of the log about memory that is out; 1: the work at the gate may
 * return. */
enum { OUT, GATE };

/* tidy: shared, the library's call has no argument for it. The how many-th of the large allocations
 * fails, 0: none does; and what that is set to by the next work function. */
static atomic_int large_left, large_next;

/* tidy: shared, as above. 1: the next allocation of an arena fails: it has room for so much. */
static atomic_int arena_is_out;

enum { ARENA = 1024, ARENA_END = 2048 };

/* tidy: shared, as above. 1: each large allocation fails. And: so many of the next ones fail. */
static atomic_int large_is_out, large_out_for;

/* Allocations of a value of this size have a block of memory to themselves. */
enum { LARGE = 40000 };

/* Where a sanitizer is linked into the program its functions for memory belong together. */
#if defined(__clang__)
#define HAVE_MALLOC 0
#else
#define HAVE_MALLOC 1

/* Instead of the C library's, for everything in this program. */
void *malloc(size_t size)
{
    static void *(*_Atomic library)(size_t); /* tidy: shared, found once */
    void *(*at)(size_t) = atomic_load(&library);
    if (!at) {
        void *found = dlsym(RTLD_NEXT, "malloc");
        memcpy(&at, &found, sizeof at);
        atomic_store(&library, at);
    }
    int is_last =
        size >= LARGE && atomic_load(&large_left) > 0 && atomic_fetch_sub(&large_left, 1) == 1;
    int is_out = size >= LARGE &&
                 (atomic_load(&large_is_out) ||
                  (atomic_load(&large_out_for) > 0 && atomic_fetch_sub(&large_out_for, 1) > 0));
    int fails = is_last || is_out ||
                (size >= ARENA && size < ARENA_END && atomic_exchange(&arena_is_out, 0));
    return fails ? NULL : at(size);
}
#endif

static int64_t number(engine_fixture *s, int which)
{
    return atomic_load(fixture_number(s, which));
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    (void)level;
    (void)fields;
    if (strcmp(event, "memory-out") == 0)
        atomic_fetch_add(fixture_number(arg, OUT), 1);
}

/* From the first call on a large allocation may fail. */
static const char *give_large(pawl_work *work, const char *input)
{
    fixture_note(pawl_work_arg(work), "beside");
    int next = atomic_exchange(&large_next, 0);
    if (next)
        atomic_store(&large_left, next);
    return input;
}

/* Two later steps give back large values. */
static const char *large_results(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_future *all[2];
    for (int i = 0; i < 2; i++)
        all[i] = pawl_step_later(run, "beside", give_large, input, PAWL_CALL(.arg = s));
    pawl_all(run, all, 2);
    return "1";
}

/* Calls of the run's own thread. Values of a static buffer need no memory until they are rows. */
static char large_value[LARGE + 1];

static const char *give_static(pawl_work *work, const char *input)
{
    (void)input;
    fixture_note(pawl_work_arg(work), "inline");
    int next = atomic_exchange(&large_next, 0);
    if (next)
        atomic_store(&large_left, next);
    return large_value;
}

static const char *fail_first(pawl_work *work, const char *input)
{
    if (pawl_work_attempt(work) == 1)
        return pawl_work_fail(work, PAWL_TRANSIENT, "first", "as it should");
    return give_static(work, input);
}

static const char *large_step(pawl_run *run, const char *input)
{
    pawl_drop(run, pawl_step(run, "inline", give_static, input, PAWL_CALL(.arg = pawl_arg(run))));
    return "1";
}

static const char *large_again(pawl_run *run, const char *input)
{
    pawl_step(run, "inline", fail_first, input, PAWL_CALL(.arg = pawl_arg(run)));
    return "1";
}

static const char *large_call(pawl_run *run, const char *input)
{
    pawl_call(run, "static", input, NULL);
    return "1";
}

static const char *large_until(pawl_run *run, const char *input)
{
    pawl_until(run, "static", give_static, input, 1000, PAWL_FOREVER);
    return "1";
}

static const char *large_undo(pawl_run *run, const char *input)
{
    pawl_undo(run, "static", input);
    pawl_fail(run, "failed", "so that it is undone");
    return "1";
}

/* A step behind which the run is cancelled: its undo is told what it gave. */
static const char *large_cancelled(pawl_run *run, const char *input)
{
    pawl_step(run, "inline", give_static, input, PAWL_CALL(.arg = pawl_arg(run), .undo = "undo"));
    pawl_sleep(run, PAWL_HOURS(1));
    return "1";
}

static const char *wait_at_gate(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, "beside");
    TMP_AWAIT(number(s, GATE));
    fixture_note(s, "left");
    return input;
}

/* A retry while a later step is under way. */
static const char *large_beside(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_future *f = pawl_step_later(run, "beside", wait_at_gate, input, PAWL_CALL(.arg = s));
    pawl_step(run, "inline", fail_first, input, PAWL_CALL(.arg = s));
    pawl_await(run, f);
    return FIXTURE_ECHO(run, "after", input);
}

/* Memory is out for a row that has no result, while a later step is under way. */
static const char *large_row(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    pawl_future *f = pawl_step_later(run, "beside", wait_at_gate, input, PAWL_CALL(.arg = s));
    FIXTURE_ECHO(run, "before", input);
    pawl_undo(run, "undo", large_value);
    return pawl_await(run, f);
}

static const char *undo_large(pawl_work *work, const char *input)
{
    engine_fixture *s = pawl_work_arg(work);
    fixture_note(s, pawl_get_kind(input, "/result") == PAWL_NUMBER ? "undo" : "without");
    return "1";
}

/* Two later steps whose first attempts fail; the next ones are half a minute later. */
static const char *large_a_minute_later(pawl_run *run, const char *input)
{
    pawl_future *all[2];
    for (int i = 0; i < 2; i++)
        all[i] = pawl_step_later(
            run, "inline", fail_first, input,
            PAWL_CALL(.arg = pawl_arg(run), .backoff_ms = PAWL_SECONDS(30), .no_jitter = 1));
    pawl_all(run, all, 2);
    return "1";
}

static pawl *open_with(engine_fixture *s, int64_t work_threads)
{
    pawl *p = fixture_open(
        s, PAWL_OPTIONS(.threads = -1, .work_threads = work_threads, .log = hear, .log_arg = s));
    FIXTURE_REGISTER(s, p, large_results);
    FIXTURE_REGISTER(s, p, large_step);
    FIXTURE_REGISTER(s, p, large_again);
    FIXTURE_REGISTER(s, p, large_call);
    FIXTURE_REGISTER(s, p, large_until);
    FIXTURE_REGISTER(s, p, large_undo);
    FIXTURE_REGISTER(s, p, large_beside);
    FIXTURE_REGISTER(s, p, large_a_minute_later);
    FIXTURE_REGISTER(s, p, large_cancelled);
    FIXTURE_REGISTER(s, p, large_row);
    fixture_register_work(s, p, "static", give_static);
    fixture_register_work(s, p, "undo", undo_large);
    memset(large_value, '1', LARGE);
    return p;
}

static void expect_why(engine_fixture *s, pawl *p, const char *words)
{
    char *why = NULL;
    FIXTURE_CODE(s, p, pawl_why(p, "run", &why), PAWL_OK);
    if (!strstr(why, words))
        fail_msg("\"%s\" is not in: %s", words, why);
    pawl_free(why);
}

/* The run sleeps longer and longer, by a clock that the test moves. */
#define MOVE_UNTIL(s, p, condition)                                                                \
    TMP_AWAIT((fixture_advance((s), 2000), pawl_poll((p), NULL), (condition)))

/* Memory is out at each of the places where the results of two later steps become rows: before the
 * first row, between the two, and behind them. */
static void a_result_waits_for_its_row(conf *c)
{
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, 2);
    static char value[LARGE + 1];
    char id[32];
    int n = 0;
    memset(value, '1', sizeof value - 1);
    do {
        snprintf(id, sizeof id, "run %d", ++n);
        atomic_store(&large_next, n);
        fixture_start(s, p, "large_results", id, value);
        MOVE_UNTIL(s, p, fixture_phase(s, p, id) == PAWL_RUN_DONE);
        if (fixture_count(s, "beside") != 2 * n)
            fail_msg("allocation %d failed, and a later step was executed again", n);
    } while (atomic_exchange(&large_left, 0) <= 0);
    assert_true(number(s, OUT) >= 4);
    pawl_close(p);
    fixture_free(s);
}

/* In quarantine later steps are executed on the run's own thread. When the result of the first one
 * is committed the run has got further, and is in quarantine no more; then memory is out for that
 * of the second. */
static void so_does_that_of_a_quarantined_run(conf *c)
{
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    char id[32];
    int n = 0;
    do {
        snprintf(id, sizeof id, "run %d", ++n);
        pawl *p = open_with(s, 0);
        fixture_start(s, p, "large_a_minute_later", id, "1");
        MOVE_UNTIL(s, p, fixture_wake_at(s, p, id) > fixture_now(s) + PAWL_SECONDS(10));
        pawl_close(p);
        p = open_with(s, 0);
        conf_script(handle_db(p), "UPDATE {runs} SET claims = 4, claimed_seq = (SELECT max(seq)"
                                  " FROM {journal} WHERE run = {runs}.run) WHERE phase = 0");
        atomic_store(&large_next, n);
        fixture_advance(s, PAWL_MINUTES(1));
        MOVE_UNTIL(s, p, fixture_phase(s, p, id) == PAWL_RUN_DONE);
        if (fixture_count(s, "inline") != 2 * n)
            fail_msg("allocation %d failed, and a later step was executed again", n);
        pawl_close(p);
    } while (atomic_exchange(&large_left, 0) <= 0);
    assert_true(number(s, OUT) >= 3);
    fixture_free(s);
}

static int has_ended(engine_fixture *s, pawl *p, const char *id)
{
    int64_t phase = fixture_phase(s, p, id);
    return phase == PAWL_RUN_DONE || phase == PAWL_RUN_FAILED;
}

/* The same for what the run's own thread calls. Nothing of it is called again. */
static void an_inline_result_waits_for_its_row(conf *c)
{
    static const char *const WORKFLOWS[] = {"large_step", "large_again", "large_call",
                                            "large_until", "large_undo"};
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, 0);
    int runs = 0;
    for (size_t i = 0; i < CONF_COUNT(WORKFLOWS); i++) {
        int64_t out = number(s, OUT);
        int n = 0;
        do {
            char id[32];
            snprintf(id, sizeof id, "%s %d", WORKFLOWS[i], ++n);
            atomic_store(&large_next, n);
            fixture_start(s, p, WORKFLOWS[i], id, "1");
            MOVE_UNTIL(s, p, has_ended(s, p, id));
            if (fixture_count(s, "inline") != ++runs)
                fail_msg("%s: allocation %d failed, and the work was executed again", WORKFLOWS[i],
                         n);
        } while (atomic_exchange(&large_left, 0) <= 0);
        assert_true(number(s, OUT) > out);
    }
    pawl_close(p);
    fixture_free(s);
}

/* However long it takes: the run is not held, since that would throw the result away. */
static void a_result_is_not_held_away(conf *c)
{
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, 0);
    atomic_store(&large_is_out, 1);
    fixture_start(s, p, "large_step", "run", "1");
    for (int i = 0; i < 250; i++) {
        fixture_advance(s, 2000);
        fixture_poll(s, p);
    }
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    expect_why(s, p, "results of this run are in its memory only");
    atomic_store(&large_is_out, 0);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    FIXTURE_NOTES(s, "inline");
    pawl_close(p);
    fixture_free(s);
}

/* What was done is recorded first: otherwise its undo would not be told what it gave. */
static void a_cancel_waits_for_the_row(conf *c)
{
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, 0);
    atomic_store(&large_is_out, 1);
    fixture_start(s, p, "large_cancelled", "run", "1");
    MOVE_UNTIL(s, p, number(s, OUT) == 1);
    FIXTURE_CODE(s, p, pawl_cancel(p, "run", "\"enough\""), PAWL_OK);
    atomic_store(&large_is_out, 0);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_CANCELLED);
    FIXTURE_NOTES(s, "inline undo");
    pawl_close(p);
    fixture_free(s);
}

/* At a close it is recorded as soon as there is memory. */
static void a_close_records_the_result(conf *c)
{
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, 0);
    atomic_store(&large_is_out, 1);
    fixture_start(s, p, "large_step", "run", "1");
    MOVE_UNTIL(s, p, number(s, OUT) == 1);
    atomic_store(&large_is_out, 0);
    pawl_close(p);
    p = open_with(s, 0);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    FIXTURE_NOTES(s, "inline");
    pawl_close(p);
    fixture_free(s);
}

/* It tries again and again, as long as drain_ms: here more often than it would if the clock stood
 * still. */
static void a_close_tries_again_and_again(conf *c)
{
    enum { FAILURES = 300 };
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    fixture_run_clock(s);
    pawl *p = open_with(s, 0);
    atomic_store(&large_is_out, 1);
    fixture_start(s, p, "large_step", "run", "1");
    TMP_AWAIT((pawl_poll(p, NULL), number(s, OUT) == 1));
    atomic_store(&large_out_for, FAILURES);
    atomic_store(&large_is_out, 0);
    pawl_close(p);
    assert_true(atomic_load(&large_out_for) <= 0);
    p = open_with(s, 0);
    TMP_AWAIT((pawl_poll(p, NULL), fixture_phase(s, p, "run") == PAWL_RUN_DONE));
    FIXTURE_NOTES(s, "inline");
    pawl_close(p);
    fixture_free(s);
}

/* The row for which memory is out comes before what has returned meanwhile. */
static void a_close_records_no_row_without_the_one_before(conf *c)
{
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, 2);
    int n = 0, left;
    do {
        char id[32];
        snprintf(id, sizeof id, "run %d", ++n);
        int64_t out = number(s, OUT);
        atomic_store(&large_is_out, 1);
        fixture_start(s, p, "large_row", id, "1");
        MOVE_UNTIL(s, p, number(s, OUT) > out && fixture_count(s, "beside") == n);
        atomic_store(&large_left, n);
        atomic_store(&large_is_out, 0);
        atomic_store(fixture_number(s, GATE), 1);
        pawl_close(p);
        atomic_store(fixture_number(s, GATE), 0);
        left = atomic_exchange(&large_left, 0);
        p = open_with(s, 2);
        MOVE_UNTIL(s, p, fixture_phase(s, p, id) != PAWL_RUN_LIVE);
        assert_int_equal(fixture_phase(s, p, id), PAWL_RUN_DONE);
        assert_int_equal(fixture_count(s, "beside"), n);
    } while (left <= 0);
    assert_true(n > 1);
    pawl_close(p);
    fixture_free(s);
}

/* A hold has the run leave where it waits, once the result of the job is recorded; but what is kept
 * comes first. */
static void a_hold_beside_a_job(conf *c)
{
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    pawl *p = open_with(s, 2);
    atomic_store(&large_is_out, 1);
    fixture_start(s, p, "large_beside", "run", "1");
    MOVE_UNTIL(s, p, number(s, OUT) == 1 && fixture_count(s, "beside") == 1);
    atomic_store(fixture_number(s, GATE), 1);
    TMP_AWAIT(fixture_count(s, "left") == 1);
    poll(NULL, 0, 20); /* nothing tells when the worker has noted that it has returned */
    FIXTURE_CODE(s, p, pawl_hold(p, "run", NULL), PAWL_OK);
    atomic_store(&large_is_out, 0);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_HELD);
    for (int i = 0; i < 10; i++) { /* the run is held at once, and given back later */
        fixture_advance(s, 2000);
        fixture_poll(s, p);
    }
    FIXTURE_CODE(s, p, pawl_release(p, "run"), PAWL_OK);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    assert_int_equal(fixture_count(s, "inline"), 1);
    assert_int_equal(fixture_count(s, "beside"), 1);
    pawl_close(p);
    fixture_free(s);
}

/* While `fails` is 1, each statement that writes into the journal fails, and the arena that is
 * allocated next. */
typedef struct record_fault {
    db_fault plan;
    int fails;
} record_fault;

static void fail_record(void *arg, int64_t call_number, fault_call call, const char *sql)
{
    record_fault *f = arg;
    if (call != FAULT_CALL_NEXT || !f->fails || !strstr(sql, "INSERT INTO") ||
        !strstr(sql, "journal"))
        return;
    f->plan.fail_call = call_number;
    atomic_store(&arena_is_out, 1);
}

static const char *begin_to_fail(pawl_work *work, const char *input)
{
    record_fault *f = pawl_work_arg(work);
    f->fails = 1;
    return input;
}

static const char *fails_to_record(pawl_run *run, const char *input)
{
    return pawl_step(run, "fails", begin_to_fail, input, PAWL_CALL(.arg = pawl_arg(run)));
}

static const char *another(pawl_run *run, const char *input)
{
    engine_fixture *s = pawl_arg(run);
    fixture_note(s, "another");
    return input;
}

/* A record fails, and there is no memory to find out whose trouble that is: the run waits alone,
 * and the node goes on claiming others. */
static void no_memory_stops_no_other(conf *c)
{
    FIXTURE_BY_HAND();
    if (!HAVE_MALLOC)
        skip();
    engine_fixture *s = fixture_new(c);
    record_fault f = {.plan = {.before = fail_record, .before_arg = &f}};
    pawl *p =
        fixture_open_fault(s, PAWL_OPTIONS(.threads = -1, .log = hear, .log_arg = s), &f.plan);
    pawl *client = fixture_open(s, NULL);
    FIXTURE_CODE(
        s, p,
        pawl_register_workflow(p, "fails_to_record", fails_to_record, PAWL_WORKFLOW(.arg = &f)),
        PAWL_OK);
    FIXTURE_REGISTER(s, p, another);
    FIXTURE_REGISTER(s, client, another);
    fixture_start(s, p, "fails_to_record", "run", "1");
    for (int i = 0; i < 20; i++) { /* until its pauses are long */
        fixture_poll(s, p);
        fixture_advance(s, 1000);
    }
    assert_int_equal(fixture_phase(s, p, "run"), PAWL_RUN_LIVE);
    fixture_start(s, client, "another", "other", "1");
    fixture_advance(s, 1000);
    fixture_poll(s, p);
    assert_true(fixture_count(s, "another") > 0);
    f.fails = 0;
    atomic_store(&arena_is_out, 0);
    MOVE_UNTIL(s, p, fixture_phase(s, p, "run") == PAWL_RUN_DONE);
    pawl_close(client);
    pawl_close(p);
    fixture_free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a result waits for its row", a_result_waits_for_its_row, 0},
        {"so does that of a quarantined run", so_does_that_of_a_quarantined_run, DB_DURABLE},
        {"an inline result waits for its row", an_inline_result_waits_for_its_row, 0},
        {"a result is not held away", a_result_is_not_held_away, 0},
        {"a cancel waits for the row", a_cancel_waits_for_the_row, 0},
        {"a close records the result", a_close_records_the_result, DB_DURABLE},
        {"a close tries again and again", a_close_tries_again_and_again, DB_DURABLE},
        {"no row without the one before", a_close_records_no_row_without_the_one_before,
         DB_DURABLE},
        {"a hold beside a job", a_hold_beside_a_job, DB_DURABLE},
        {"no memory stops no other", no_memory_stops_no_other, DB_DURABLE},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
