/* Whole runs without a database, without a scheduler and without threads: src/run on a host of the
 * test's own (run/host.h). The host records what a run wants, as a word each, and answers it: rows
 * of the journal are kept in an array, work functions are called at once, and time passes when the
 * run waits. With `drops` the fiber is dropped at every wait, so that the run goes on by replay. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "pawl.h"
#include "run/cross_run.h"
#include "run/inbox_box.h"
#include "run/jobs.h"
#include "run/state.h"

enum { BEGIN_MS = 1000000, ROWS_MAX = 256, TURNS_MAX = 1000 };

typedef struct fake {
    run_host host;
    clock_fake *clock;
    random_seeded random;
    log_sink log;
    fiber_pool *pool;
    int64_t now_ms;
    int drops;
    int swaps;           /* the first two rows change places when the fiber is dropped first */
    int swapped;         /* they have */
    int locks;           /* that are held */
    const char *message; /* for the mailbox that is waited at; NULL: none */

    replay_row rows[ROWS_MAX]; /* the journal, but for the first row */
    size_t count;
    char wants[1024];
    char calls[1024]; /* of work functions: their names and inputs */
    run_result end;
    char *value;
} fake;

static fake *here; /* of the test that runs; for work functions, which know no host */

/* ---- The table ---- */

static fake *fake_of(const run_host *h)
{
    assert_ptr_equal(h, &here->host);
    return here;
}

static int64_t now_ms(const run_host *h)
{
    return fake_of(h)->now_ms;
}

static uint64_t chance(const run_host *h)
{
    uint64_t number = 0;
    h->random->fill(h->random, &number, sizeof number);
    return number;
}

static int never(const run_host *h)
{
    (void)h;
    return 0;
}

static void end_forked(const run_host *h)
{
    (void)h;
}

static void lock(const run_host *h)
{
    assert_int_equal(fake_of(h)->locks++, 0);
}

static void unlock(const run_host *h)
{
    assert_int_equal(fake_of(h)->locks--, 1);
}

static void unqueue_job(const run_host *h, struct job *j)
{
    assert_int_equal(fake_of(h)->locks, 1);
    assert_int_equal(j->state, JOB_QUEUED);
}

static void own_child(const run_host *h, struct run_insert *child)
{
    (void)h;
    (void)child;
    fail_msg("no test here starts a child");
}

static void sent(const run_host *h, const struct run_sent *s, const unit_row *row)
{
    (void)h;
    (void)s;
    (void)row;
    fail_msg("no test here sends anything");
}

static void forget_unit(const run_host *h, pawl_run *run)
{
    (void)fake_of(h);
    (void)run;
}

static void deferring(const run_host *h, pawl_run *run, int begins)
{
    (void)h;
    (void)run;
    (void)begins;
}

/* ---- What is recorded ---- */

static slice keep(slice s)
{
    char *copy = calloc(1, s.size + 1);
    assert_non_null(copy);
    if (s.size)
        memcpy(copy, s.at, s.size);
    return (slice){copy, s.size};
}

static void keep_row(fake *f, const unit_stmt *s)
{
    const db_value *v = s->values;
    assert_in_range(f->count, 0, ROWS_MAX - 1);
    assert_int_equal(v[2].i, f->count + 2); /* the journal has no hole */
    f->rows[f->count++] = (replay_row){.generation = v[1].i,
                                       .seq = v[2].i,
                                       .kind = v[3].i,
                                       .op = v[4].i,
                                       .name = keep(v[5].s),
                                       .at_ms = v[6].i,
                                       .data = v[8].type == DB_NULL ? (slice){0} : keep(v[8].s)};
}

/* What a commit does to a run: what it has recorded is in the journal, and its unit begins anew. */
static void commit(fake *f, pawl_run *run)
{
    static const char JOURNAL[] = "INSERT INTO {journal}";
    for (int i = 0; run->draft.unit && i < run->draft.unit->count; i++) {
        const unit_stmt *s = run->draft.unit->numbered[i];
        if (strncmp(s->sql->text, JOURNAL, sizeof JOURNAL - 1) == 0)
            keep_row(f, s);
    }
    run_tell_lines(run);
    cross_run_committed(run, 1);
    run->draft.unit = NULL;
    run_forget_status(run);
    state_forget(run);
    run->draft.kept = 0;
    arena_reset(run->draft.arena);
}

/* ---- What is wanted ---- */

/* Behind the words that are there, with a blank between. */
static void add_word(char *text, size_t size, const char *word, const char *more)
{
    size_t used = strlen(text);
    buf b;
    buf_init_fixed(&b, text + used, size - used);
    buf_printf(&b, "%s%s%s", used ? " " : "", word, more);
    assert_false(b.failed);
}

static void note_want(fake *f, run_want want)
{
    static const char *const WORDS[] = {
        [WANT_WORK] = "work",   [WANT_TRANSACT] = "transact", [WANT_WAIT] = "wait",
        [WANT_PAGE] = "page",   [WANT_NAMES] = "names",       [WANT_STATE] = "state",
        [WANT_INBOX] = "mail",  [WANT_KEY] = "key",           [WANT_CHECK] = "check",
        [WANT_FLUSH] = "flush", [WANT_LEAVE] = "leave",       [WANT_END] = "end"};
    add_word(f->wants, sizeof f->wants, "", WORDS[want]);
}

/* All rows at once. The first one is the start, which is in no unit of the run. */
static void give_page(fake *f, pawl_run *run)
{
    if (!run->journal.page)
        run->journal.page = arena_new(0);
    replay_row *rows = arena_alloc(run->journal.page, (f->count + 1) * sizeof *rows);
    assert_non_null(rows);
    rows[0] = (replay_row){.seq = 1,
                           .generation = run->generation,
                           .kind = OP_STARTED,
                           .name = SLICE_LIT(""),
                           .data = slice_of(run->input)};
    memcpy(rows + 1, f->rows, f->count * sizeof *rows);
    replay_feed(run->journal.replay, rows, f->count + 1);
    replay_fed_all(run->journal.replay, 0);
    run->journal.fed = (int64_t)f->count + 1;
    run->journal.fed_all = 1;
    run->journal.is_fresh = 0;
}

/* The jobs that the run has made are executed, one after the other. 0: there are none. */
static int execute_jobs(pawl_run *run)
{
    job *j;
    int count = 0;
    for (; (j = run->jobs.not_queued.first) != NULL; count++) {
        job_list_remove(&run->jobs.not_queued, j);
        assert_int_equal(map_put(&run->jobs.by_op, (uint64_t)j->op, j), 0);
        work_call(j->work);
        j->state = JOB_DONE;
        job_list_add(&run->jobs.returned, j);
    }
    run->jobs.not_queued_count = 0;
    return count;
}

/* The message is the first row of its box, as if it had been read. */
static void deliver(fake *f, pawl_run *run)
{
    inbox_box *b = run->inbox.rows->boxes;
    if (!f->message || !b || !b->waiting)
        return;
    inbox_row *row = calloc(1, sizeof *row);
    assert_non_null(row);
    *row = (inbox_row){.seq = 1, .kind = INBOX_MESSAGE, .name = b->name, .by = SLICE_LIT("test")};
    row->data = slice_of(f->message);
    b->first = b->last = row;
    f->message = NULL;
}

/* As if another execution of the function had numbered its ops in another way. */
static void swap_rows(fake *f)
{
    assert_in_range(f->count, 2, ROWS_MAX);
    replay_row row = f->rows[0];
    f->rows[0] = f->rows[1];
    f->rows[1] = row;
    f->rows[0].seq = 2;
    f->rows[1].seq = 3;
    f->swapped = 1;
}

static void warm(fake *f, pawl_run *run)
{
    if (!run->code.fiber)
        assert_int_equal(run_warm(run, f->pool), 1);
}

/* It waits: for jobs, for a message, or for its time. */
static void wait_for(fake *f, pawl_run *run)
{
    commit(f, run);
    int jobs = execute_jobs(run);
    if (f->drops) {
        run_cool(run);
        if (f->swaps && !f->swapped)
            swap_rows(f);
        warm(f, run);
    }
    if (f->message)
        run->inbox.has_more = 1;
    if (jobs > 0 || f->message || run->code.until_ms <= f->now_ms)
        return;
    assert_true(run->code.until_ms != RUN_NEVER);
    clock_fake_advance(f->clock, run->code.until_ms - f->now_ms);
    f->now_ms = run->code.until_ms;
}

/* 1: the run has ended. Clean-ups are executed from the journal, in a function of their own. */
static int end(fake *f, pawl_run *run)
{
    commit(f, run);
    if (run->code.end.phase == PHASE_FAILING) {
        run->failing = 1;
        run_cool(run);
        warm(f, run);
        return 0;
    }
    f->end = run->code.end;
    f->value = run->code.end.value ? (char *)keep(slice_of(run->code.end.value)).at : NULL;
    return 1;
}

/* 1: the run has ended. */
static int serve_want(fake *f, pawl_run *run)
{
    note_want(f, run->code.want);
    switch (run->code.want) {
    case WANT_PAGE:
        give_page(f, run);
        return 0;
    case WANT_WORK:
        commit(f, run);
        execute_jobs(run);
        work_call(run->attempt.work);
        return 0;
    case WANT_WAIT:
        wait_for(f, run);
        return 0;
    case WANT_INBOX:
        deliver(f, run);
        return 0;
    case WANT_FLUSH:
        commit(f, run);
        return 0;
    case WANT_END:
        return end(f, run);
    default:
        fail_msg("no run should want that here");
        return 1;
    }
}

/* ---- A run from its start to its end ---- */

static void add_work(fake *f, const char *name, pawl_work_fn *fn)
{
    error err = {0};
    work_entry w = {.name = name, .fn = fn};
    assert_int_equal(registry_add_work(f->host.registry, &w, &err), PAWL_OK);
}

static const char *work(pawl_work *w, const char *input)
{
    add_word(here->calls, sizeof here->calls, pawl_work_name(w), input);
    return input;
}

static const char *fails_twice(pawl_work *w, const char *input)
{
    work(w, input);
    if (pawl_work_attempt(w) < 3)
        return pawl_work_fail(w, 0, "busy", "try again");
    return input;
}

static void fake_open(fake *f)
{
    error err = {0};
    here = f;
    f->now_ms = BEGIN_MS;
    f->clock = clock_fake_new(BEGIN_MS);
    random_seeded_init(&f->random, 1);
    f->host = (run_host){.registry = registry_new(),
                         .log = &f->log,
                         .random = &f->random.source,
                         .clock = clock_fake_source(f->clock),
                         .tenant = "",
                         .origin = "test",
                         .now_ms = now_ms,
                         .up_ms = now_ms,
                         .chance = chance,
                         .is_stopping = never,
                         .is_forked = never,
                         .end_forked = end_forked,
                         .is_leaving = never,
                         .lock = lock,
                         .unlock = unlock,
                         .unqueue_job = unqueue_job,
                         .own_child = own_child,
                         .sent = sent,
                         .forget_unit = forget_unit,
                         .deferring = deferring};
    assert_int_equal(fiber_pool_new(&f->pool, 0, &err), PAWL_OK);
    add_work(f, "work", work);
    add_work(f, "refund", work);
    add_work(f, "tidy", work);
}

static void fake_close(fake *f)
{
    for (size_t i = 0; i < f->count; i++) {
        free((char *)f->rows[i].name.at);
        free((char *)f->rows[i].data.at);
    }
    free(f->value);
    fiber_pool_free(f->pool);
    registry_free(f->host.registry);
    clock_fake_free(f->clock);
    here = NULL;
}

static void execute(fake *f, pawl_workflow_fn *fn, const char *input)
{
    workflow w = {.name = "flow", .version = "1", .fn = fn};
    run_facts facts = {.lease = {.run = 1, .owner = 1, .fence = 1},
                       .generation = 1,
                       .id = SLICE_LIT("one"),
                       .version = SLICE_LIT("1"),
                       .input = slice_of(input),
                       .fresh = 1,
                       .workflow = &w};
    pawl_run *run = run_new(&f->host, &facts);
    assert_non_null(run);
    warm(f, run);
    int turns = 0;
    while (!serve_want(f, run) && turns++ < TURNS_MAX)
        fiber_resume(run->code.fiber);
    assert_true(turns < TURNS_MAX);
    run_free(run);
    assert_int_equal(f->locks, 0);
}

/* ---- Tests. Each with a fiber that stays, and with one that is dropped at every wait ---- */

static const char *steps(pawl_run *run, const char *input)
{
    const char *one = pawl_step(run, "one", work, input, NULL);
    return pawl_step(run, "two", work, one, NULL);
}

static void steps_are_durable_before_the_next(void **state)
{
    (void)state;
    fake f = {0};
    fake_open(&f);
    execute(&f, steps, "7");
    assert_string_equal(f.wants, "page work work end");
    assert_string_equal(f.calls, "one7 two7");
    assert_int_equal(f.end.phase, PHASE_DONE);
    assert_string_equal(f.value, "7");
    assert_int_equal(f.count, 2);
    assert_int_equal(f.rows[0].kind, OP_STEP);
    fake_close(&f);
}

static const char *sleeps(pawl_run *run, const char *input)
{
    pawl_step(run, "before", work, input, NULL);
    pawl_sleep(run, 5000);
    pawl_sleep(run, 7000);
    return pawl_step(run, "after", work, "2", NULL);
}

static void a_sleep_ends_at_its_time(void **state)
{
    (void)state;
    for (int drops = 0; drops < 2; drops++) {
        fake f = {.drops = drops};
        fake_open(&f);
        execute(&f, sleeps, "1");
        assert_string_equal(f.wants, drops ? "page work wait page wait page work end"
                                           : "page work wait wait work end");
        assert_string_equal(f.calls, "before1 after2"); /* a replay calls nothing */
        assert_int_equal(f.now_ms, BEGIN_MS + 12000);
        assert_string_equal(f.value, "2");
        fake_close(&f);
    }
}

static const char *retries(pawl_run *run, const char *input)
{
    pawl_call_options o = {.size = sizeof o, .attempts = 3, .backoff_ms = 1000, .no_jitter = 1};
    return pawl_step(run, "shaky", fails_twice, input, &o);
}

static void a_step_is_tried_again_after_its_back_off(void **state)
{
    (void)state;
    for (int drops = 0; drops < 2; drops++) {
        fake f = {.drops = drops};
        fake_open(&f);
        execute(&f, retries, "1");
        assert_string_equal(f.calls, "shaky1 shaky1 shaky1");
        assert_int_equal(f.now_ms, BEGIN_MS + 1000 + 2000);
        assert_int_equal(f.end.phase, PHASE_DONE);
        fake_close(&f);
    }
}

static const char *fan(pawl_run *run, const char *input)
{
    pawl_future *all[3];
    (void)input;
    for (int i = 0; i < 3; i++)
        all[i] = pawl_call_later(run, "work", pawl_json(run, "%d", i), NULL);
    pawl_sleep_later(run, 60000);
    if (pawl_all(run, all, 3) != PAWL_OK)
        return "\"wrong\"";
    return pawl_json(run, "[%j,%j,%j]", pawl_await(run, all[2]), pawl_await(run, all[1]),
                     pawl_await(run, all[0]));
}

static void futures_end_in_their_own_order(void **state)
{
    (void)state;
    for (int drops = 0; drops < 2; drops++) {
        fake f = {.drops = drops};
        fake_open(&f);
        execute(&f, fan, "null");
        assert_string_equal(f.calls, "work0 work1 work2");
        assert_string_equal(f.value, "[2,1,0]");
        assert_int_equal(f.now_ms, BEGIN_MS); /* the timer was not waited for */
        fake_close(&f);
    }
}

static const char *saga(pawl_run *run, const char *input)
{
    pawl_finally(run, "tidy", "0");
    pawl_undo(run, "refund", "1");
    pawl_step(run, "pay", work, input, NULL);
    pawl_undo(run, "refund", "2");
    pawl_sleep(run, 1000);
    return pawl_fail(run, "rejected", "no more rooms");
}

static void undos_are_called_last_first(void **state)
{
    (void)state;
    for (int drops = 0; drops < 2; drops++) {
        fake f = {.drops = drops};
        fake_open(&f);
        execute(&f, saga, "9");
        assert_string_equal(f.calls, "pay9 refund2 refund1 tidy0");
        assert_int_equal(f.end.phase, PHASE_FAILED);
        fake_close(&f);
    }
}

static const char *receives(pawl_run *run, const char *input)
{
    const char *message;
    (void)input;
    pawl_code code = pawl_receive(run, "box", 30000, &message);
    return pawl_json(run, "{'code':%d,'message':%j}", (int)code, message);
}

static void a_message_is_received_or_its_time_is_over(void **state)
{
    (void)state;
    for (int arrives = 0; arrives < 2; arrives++) {
        fake f = {.message = arrives ? "\"hello\"" : NULL};
        fake_open(&f);
        execute(&f, receives, "null");
        assert_int_equal(pawl_get_int(f.value, "/code", -1), arrives ? PAWL_OK : PAWL_TIMEOUT);
        assert_int_equal(f.now_ms, arrives ? BEGIN_MS : BEGIN_MS + 30000);
        fake_close(&f);
    }
}

static const char *beside_a_receive(pawl_run *run, const char *input)
{
    pawl_future *later = here->swapped ? NULL : pawl_step_later(run, "one", work, input, NULL);
    (void)pawl_receive_later(run, "box", PAWL_FOREVER);
    if (!later)
        later = pawl_step_later(run, "one", work, input, NULL);
    return pawl_await(run, later);
}

/* The op for which the function was called belongs to a receive by now. */
static void a_result_is_for_a_call_only(void **state)
{
    (void)state;
    fake f = {.drops = 1, .swaps = 1};
    fake_open(&f);
    execute(&f, beside_a_receive, "7");
    assert_int_equal(f.swapped, 1);
    assert_string_equal(f.calls, "one7 one7");
    assert_string_equal(f.value, "7");
    fake_close(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_are_durable_before_the_next),
        cmocka_unit_test(a_sleep_ends_at_its_time),
        cmocka_unit_test(a_step_is_tried_again_after_its_back_off),
        cmocka_unit_test(futures_end_in_their_own_order),
        cmocka_unit_test(undos_are_called_last_first),
        cmocka_unit_test(a_message_is_received_or_its_time_is_over),
        cmocka_unit_test(a_result_is_for_a_call_only),
    };
    return cmocka_run_group_tests_name("run_host", tests, NULL, NULL);
}
