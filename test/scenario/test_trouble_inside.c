/* Trouble at a bad moment: storage that fails in the middle of a turn, or while the clock is set.
 * Faults that were found by the simulator are here in short. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <pawl.h>

#include "api/engine_test.h"
#include "handle/handle.h"
#include "support/engine_fixture.h"

static const int64_t HOUR_MS = 3600000;
static const int64_t CLAIM_MS = 5000;

/* An engine on a database that can be broken, and a clock that can be set. */
typedef struct storage_fixture {
    clock_source source; /* first */
    clock_fake *clock;
    int64_t set_ms;
    db_fault plan;
    const char *breaks; /* the next calls with this in their SQL fail, … */
    const char *also;   /* … or, if not NULL, with this, … */
    int times;          /* … so many of them */
    int slow;   /* 1: the next commit takes long; 2: it has, and no function was called since */
    int stalls; /* the commit of the next step is undecided; above 1: the next attempt to settle it
                   takes long, and so do all but the last of so many */
    atomic_int closes; /* this thread closes the engine … */
    pthread_t closer;
    int64_t naps_ms; /* … and stands still for so long wherever it waits */
    int lost;        /* lines of the log about the record of the first step, which was lost … */
    char why[256];   /* … and what the last of them says */
    int late;        /* executions after that */
    int looks;       /* executions of the same step at all */
    pawl *p;
    int first;
    int second;
} storage_fixture;

static int64_t now_ms(clock_source *c)
{
    storage_fixture *g = (storage_fixture *)(void *)c;
    clock_source *inner = clock_fake_source(g->clock);
    return inner->now_ms(inner) + g->set_ms;
}

static int64_t mono_ns(clock_source *c)
{
    clock_source *inner = clock_fake_source(((storage_fixture *)(void *)c)->clock);
    return inner->mono_ns(inner);
}

static int wait_for(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                    int64_t deadline_ns)
{
    storage_fixture *g = (storage_fixture *)(void *)c;
    clock_source *inner = clock_fake_source(g->clock);
    if (!g->closes || !pthread_equal(g->closer, pthread_self()))
        return inner->wait(inner, cond, mutex, deadline_ns);
    pthread_mutex_unlock(mutex);
    clock_fake_advance(g->clock, 1 + g->naps_ms);
    sched_yield();
    pthread_mutex_lock(mutex);
    return inner->mono_ns(inner) >= deadline_ns;
}

static void break_it(void *arg, int64_t number, fault_call call, const char *sql)
{
    storage_fixture *g = arg;
    if (g->slow == 1 && call == FAULT_CALL_COMMIT) {
        g->slow = 2;
        clock_fake_advance(g->clock, 2 * CLAIM_MS);
    }
    if (g->stalls > 1 && call == FAULT_CALL_SETTLE) {
        g->stalls = g->stalls > 2 ? g->stalls - 1 : 0;
        clock_fake_advance(g->clock, HOUR_MS);
    }
    int matches = g->times > 0 && (strstr(sql, g->breaks) || (g->also && strstr(sql, g->also)));
    if (!matches)
        return;
    g->times--;
    g->plan.fail_call = number;
}

static db *wrap(void *arg, db *inner)
{
    db *d = db_fault_wrap(inner, &((storage_fixture *)arg)->plan);
    assert_non_null(d);
    return d;
}

static const char *count(pawl_work *work, const char *input)
{
    ++*(int *)pawl_work_arg(work);
    return input;
}

static const char *look(pawl_work *work, const char *input)
{
    storage_fixture *g = pawl_work_arg(work);
    g->late += g->slow == 2;
    g->looks++;
    if (g->stalls && g->looks == 1) {
        g->plan.lose_commit = g->plan.commits + 1;
        g->plan.unknown_times = 2;
    }
    return input;
}

/* Between the steps it looks into the database: which attributes has it? */
static const char *sets_an_attribute(pawl_run *run, const char *input)
{
    storage_fixture *g = pawl_arg(run);
    pawl_step(run, "look", look, input, PAWL_CALL(.arg = g));
    pawl_step(run, "first", count, input, PAWL_CALL(.arg = &g->first));
    pawl_attr(run, "said", "\"between\"");
    return pawl_step(run, "second", count, input, PAWL_CALL(.arg = &g->second));
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    storage_fixture *g = arg;
    (void)level;
    if (strcmp(event, "record-lost") != 0 || !strstr(fields, "what=\"step look (op 2)\""))
        return;
    g->lost++;
    snprintf(g->why, sizeof g->why, "%s", fields);
}

static void open_engine(storage_fixture *g, const conf *c)
{
    engine_test test = {.arg = g, .wrap = wrap, .clock = &g->source};
    const pawl_options *o =
        PAWL_OPTIONS(.threads = -1, .claim_ms = CLAIM_MS, .log = hear, .log_arg = g);
    assert_int_equal(engine_test_open(&g->p, c->url, o, &test), PAWL_OK);
    assert_int_equal(pawl_register_workflow(g->p, "w", sets_an_attribute, PAWL_WORKFLOW(.arg = g)),
                     PAWL_OK);
}

static void open_fixture(storage_fixture *g, const conf *c, int as_server)
{
    *g = (storage_fixture){.source = {now_ms, mono_ns, wait_for, NULL},
                           .clock = clock_fake_new(HOUR_MS * 1000)};
    g->plan = (db_fault){.before = break_it, .before_arg = g, .fail_code = PAWL_FULL};
    g->plan.no_file = as_server;
    g->plan.clock = &g->source;
    open_engine(g, c);
    assert_int_equal(pawl_poll(g->p, NULL), PAWL_OK); /* a node: it owns what it starts */
    assert_int_equal(pawl_start(g->p, "w", "run", "1", NULL), PAWL_OK);
}

static void close_fixture(storage_fixture *g)
{
    pawl_close(g->p);
    clock_fake_free(g->clock);
}

static void poll_for(storage_fixture *g, int seconds)
{
    for (int i = 0; i <= seconds; i++) {
        int64_t did;
        do
            assert_int_equal(pawl_poll(g->p, &did), PAWL_OK);
        while (did > 0);
        clock_fake_advance(g->clock, 1000);
    }
}

static int has_ended(storage_fixture *g)
{
    pawl_info *info = NULL;
    assert_int_equal(pawl_inspect(g->p, "run", &info), PAWL_OK);
    pawl_phase phase = pawl_info_phase(info);
    pawl_info_free(info);
    return phase == PAWL_RUN_DONE;
}

static int count_one(const pawl_info *info, void *arg)
{
    (void)info;
    ++*(int *)arg;
    return 0;
}

static void expect_attribute(storage_fixture *g)
{
    int found = 0;
    assert_int_equal(pawl_list(g->p,
                               PAWL_FILTER(.attribute = "said", .attribute_value = "\"between\""),
                               count_one, &found),
                     PAWL_OK);
    assert_int_equal(found, 1);
}

static void a_failed_read_loses_no_step_and_no_attribute(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    g.breaks = "SELECT name FROM {attributes}";
    g.times = 1;
    poll_for(&g, 60);
    assert_int_equal(g.times, 0);
    assert_true(has_ended(&g));
    assert_int_equal(g.first, 1);
    expect_attribute(&g);
    close_fixture(&g);
}

/* A thread that waits for the storage waits for a while, and not until a moment that is far away
 * now. */
static void a_clock_that_is_set_back_holds_up_no_run(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    g.breaks = "BEGIN";
    g.times = 1000000;
    poll_for(&g, 10);
    assert_int_equal(g.second, 0);
    g.set_ms -= HOUR_MS;
    g.times = 0;
    poll_for(&g, 60);
    assert_true(has_ended(&g));
    close_fixture(&g);
}

/* Claims are over when what had to be committed first is: nothing is called any more, until there
 * was a heartbeat. */
static void no_step_is_called_after_a_slow_commit(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 1);
    assert_int_equal(pawl_start(g.p, "w", "another", "1", NULL), PAWL_OK);
    g.slow = 1;
    assert_int_equal(pawl_poll(g.p, NULL), PAWL_OK);
    assert_int_equal(g.slow, 2);
    assert_int_equal(g.late, 0);
    poll_for(&g, 60);
    assert_true(has_ended(&g));
    assert_int_equal(g.late, 1);
    close_fixture(&g);
}

/* By an engine that is no node: the run has no owner. */
static void start_elsewhere(storage_fixture *g, const conf *c, const char *id)
{
    pawl *client = NULL;
    const engine_test same_clock = {.clock = &g->source};
    assert_int_equal(engine_test_open(&client, c->url, PAWL_OPTIONS(.threads = -1), &same_clock),
                     PAWL_OK);
    assert_int_equal(pawl_start(client, "w", id, "1", NULL), PAWL_OK);
    pawl_close(client);
}

/* The claim itself could be written; but what comes of it could not. */
static void nothing_is_claimed_while_commits_fail(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    g.breaks = "INSERT INTO {journal}";
    g.also = "'probe'";
    g.times = 1000000;
    poll_for(&g, 3);
    assert_int_equal(g.looks, 1);
    start_elsewhere(&g, c, "other");
    poll_for(&g, 30);
    assert_int_equal(g.looks, 1);
    g.times = 0;
    poll_for(&g, 60);
    assert_true(has_ended(&g));
    assert_int_equal(g.looks, 2);
    close_fixture(&g);
}

static pawl_phase phase_of(storage_fixture *g, const char *held_words)
{
    pawl_info *info = NULL;
    assert_int_equal(pawl_inspect(g->p, "run", &info), PAWL_OK);
    pawl_phase phase = pawl_info_phase(info);
    if (phase == PAWL_RUN_HELD && held_words)
        assert_non_null(strstr(pawl_info_held(info), held_words));
    pawl_info_free(info);
    return phase;
}

/* Small writes are committed, and this one is not, again and again: that is its own trouble, also
 * where nothing else happens. */
static void a_failure_of_an_unknown_kind(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    g.plan.fail_code = PAWL_STORAGE;
    g.breaks = "INSERT INTO {journal}";
    g.times = 1000000;
    poll_for(&g, 2); /* some tries come first */
    assert_int_equal(phase_of(&g, NULL), PAWL_RUN_LIVE);
    poll_for(&g, 10);
    assert_int_equal(phase_of(&g, "refuses to record step look (op 2)"), PAWL_RUN_HELD);
    g.times = 0;
    assert_int_equal(pawl_release(g.p, "run"), PAWL_OK);
    poll_for(&g, 10);
    assert_true(has_ended(&g));
    assert_int_equal(g.looks, 1);
    close_fixture(&g);
}

/* A full disk, as the code says; but small writes are committed. The node has nothing else to do,
 * and begins with another run all the same. The first one is not held, however long that lasts: it
 * is recorded when there is room again. */
static void a_failure_that_passes(conf *c)
{
    storage_fixture g;
    char *why = NULL;
    open_fixture(&g, c, 0);
    g.breaks = "INSERT INTO {journal}";
    g.times = 1000000;
    poll_for(&g, 3);
    assert_int_equal(g.looks, 1);
    start_elsewhere(&g, c, "other");
    poll_for(&g, 3);
    assert_int_equal(g.looks, 2);
    poll_for(&g, 300);
    assert_int_equal(phase_of(&g, NULL), PAWL_RUN_LIVE);
    assert_int_equal(pawl_why(g.p, "run", &why), PAWL_OK);
    assert_non_null(strstr(why, "is in the memory of node"));
    assert_non_null(strstr(why, "record it: PAWL_FULL"));
    pawl_free(why);
    g.times = 0;
    poll_for(&g, 60);
    assert_true(has_ended(&g));
    assert_int_equal(g.looks, 2);
    close_fixture(&g);
}

/* The clock goes on where the close waits for it, and nowhere else. */
static void close_while_time_goes_on(storage_fixture *g)
{
    g->closer = pthread_self();
    g->closes = 1;
    pawl_close(g->p);
    g->closes = 0;
}

/* The process is suspended wherever it waits while it closes, for longer than a drain takes. What
 * failed before and fails once more is tried again all the same: nothing else is asked of the
 * storage first. */
static void a_drain_that_is_interrupted(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    g.plan.fail_code = PAWL_STORAGE;
    g.breaks = "INSERT INTO {journal}";
    g.times = 2;
    int64_t did;
    do
        assert_int_equal(pawl_poll(g.p, &did), PAWL_OK);
    while (did > 0);
    assert_int_equal(g.looks, 1);
    assert_int_equal(g.times, 1);
    g.naps_ms = HOUR_MS;
    close_while_time_goes_on(&g);
    g.naps_ms = 0;
    open_engine(&g, c);
    poll_for(&g, 60);
    assert_true(has_ended(&g));
    assert_int_equal(g.looks, 1);
    close_fixture(&g);
}

static void poll_until_executed(storage_fixture *g)
{
    for (int i = 0; i < 100 && g->looks == 0; i++)
        assert_int_equal(pawl_poll(g->p, NULL), PAWL_OK);
    assert_int_equal(g->looks, 1);
}

static void stall_in_a_close(conf *c, int times)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    g.stalls = 1;
    poll_until_executed(&g);
    g.stalls = times + 1;
    g.plan.unknown_times = times;
    close_while_time_goes_on(&g);
    assert_int_equal(g.stalls, 0); /* it was undecided when the close began */
    open_engine(&g, c);
    poll_for(&g, 20);
    assert_true(has_ended(&g));
    assert_int_equal(g.looks, 1);
    close_fixture(&g);
}

static void expect_told(storage_fixture *g, const char *words)
{
    assert_int_equal(g->lost, 1);
    if (!strstr(g->why, words))
        fail_msg("\"%s\" is not in: %s", words, g->why);
}

/* The database is locked while an engine is closed, and as long as the close tries: no commit has
 * failed, but what was executed is lost. */
static void what_a_close_cannot_record_is_told(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    g.plan.fail_code = PAWL_BUSY;
    g.breaks = "INSERT INTO {journal}";
    g.times = 1000000;
    poll_until_executed(&g);
    close_while_time_goes_on(&g);
    expect_told(&g, "locked by another process");
    g.times = 0;
    open_engine(&g, c);
    poll_for(&g, 20);
    assert_true(has_ended(&g));
    assert_int_equal(g.looks, 2);
    close_fixture(&g);
}

/* Nor is it known in the end whether a commit has happened. */
static void what_stays_undecided_is_told(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    g.stalls = 1;
    g.breaks = "SETTLE";
    g.times = 1000000;
    poll_until_executed(&g);
    close_while_time_goes_on(&g);
    expect_told(&g, "PAWL_UNDECIDED");
    g.times = 0;
    g.stalls = 0;
    open_engine(&g, c);
    poll_for(&g, 20);
    assert_true(has_ended(&g));
    close_fixture(&g);
}

/* The storage stalls while an engine is closed: an undecided commit is settled, as lost, when the
 * time for that is over. There is time for one more try, and the step is not executed again. */
static void a_stalled_storage_gets_one_more_try(conf *c)
{
    stall_in_a_close(c, 1);
}

/* The same when the time is over twice before the commit is decided. */
static void a_storage_that_stalls_twice(conf *c)
{
    stall_in_a_close(c, 2);
}

/* The commit of the step of a quarantined run fails, and the engine is closed when the storage
 * works again. What the run has executed is recorded then, although it is not its turn. */
static void a_quarantined_run_is_recorded_by_a_close(conf *c)
{
    for (int as_server = 0; as_server < 2; as_server++) {
        storage_fixture g;
        open_fixture(&g, c, as_server);
        conf_script(handle_db(g.p), "UPDATE {runs} SET claims = 4");
        pawl_close(g.p);
        open_engine(&g, c);
        g.breaks = "INSERT INTO {journal}";
        for (int i = 0; i < 20 && g.looks == 0; i++) {
            g.times = 100;
            poll_for(&g, 1);
        }
        assert_int_equal(g.looks, 1);
        g.times = 0;
        pawl_close(g.p);
        open_engine(&g, c);
        poll_for(&g, 20);
        assert_true(has_ended(&g));
        assert_int_equal(g.looks, 1);
        assert_int_equal(pawl_delete(g.p, "run", 0), PAWL_OK);
        close_fixture(&g);
    }
}

/* If not even a small write is committed, it is the storage: no run is held, and nothing begun. */
static void a_failure_of_all_writes_holds_no_run(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    assert_int_equal(pawl_start(g.p, "w", "other", "1", PAWL_START(.delay_ms = 20000)), PAWL_OK);
    g.plan.fail_code = PAWL_STORAGE;
    g.breaks = "INSERT INTO {";
    g.times = 1000000;
    poll_for(&g, 300);
    assert_int_equal(phase_of(&g, NULL), PAWL_RUN_LIVE);
    assert_int_equal(g.looks, 1);
    g.times = 0;
    poll_for(&g, 60);
    assert_true(has_ended(&g));
    assert_int_equal(g.looks, 2);
    close_fixture(&g);
}

static const char *looks_and_waits(pawl_run *run, const char *input)
{
    FIXTURE_STEP(run, "look", look, input);
    pawl_sleep(run, PAWL_FOREVER);
    return input;
}

/* Of a run that is held because its record is refused: what was done is recorded first. */
static void a_deadline_has_the_owner_try_again(conf *c)
{
    storage_fixture g;
    open_fixture(&g, c, 0);
    poll_for(&g, 1);
    assert_true(has_ended(&g));
    assert_int_equal(pawl_delete(g.p, "run", 0), PAWL_OK);
    assert_int_equal(
        pawl_register_workflow(g.p, "waits", looks_and_waits, PAWL_WORKFLOW(.arg = &g)), PAWL_OK);
    g.plan.fail_code = PAWL_DATA;
    g.breaks = "INSERT INTO {journal}";
    g.times = 1000000;
    assert_int_equal(pawl_start(g.p, "waits", "run", "1", PAWL_START(.deadline_ms = 60000)),
                     PAWL_OK);
    poll_for(&g, 10);
    assert_int_equal(phase_of(&g, "refuses to record step look (op 2)"), PAWL_RUN_HELD);
    g.times = 0;
    poll_for(&g, 30); /* it is not released */
    assert_int_equal(phase_of(&g, NULL), PAWL_RUN_HELD);
    poll_for(&g, 30);
    assert_int_equal(phase_of(&g, NULL), PAWL_RUN_CANCELLED);
    assert_int_equal(g.looks, 2); /* one of each run */
    close_fixture(&g);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"a failed read loses no step and no attribute",
         a_failed_read_loses_no_step_and_no_attribute, DB_TURNS},
        {"a clock that is set back holds up no run", a_clock_that_is_set_back_holds_up_no_run,
         DB_TURNS},
        {"no step is called after a slow commit", no_step_is_called_after_a_slow_commit, DB_FILE},
        {"nothing is claimed while commits fail", nothing_is_claimed_while_commits_fail, DB_FILE},
        {"a failure that passes", a_failure_that_passes, DB_FILE},
        {"a drain that is interrupted", a_drain_that_is_interrupted, DB_FILE},
        {"a failure of an unknown kind", a_failure_of_an_unknown_kind, DB_TURNS},
        {"a stalled storage gets one more try", a_stalled_storage_gets_one_more_try, DB_FILE},
        {"a storage that stalls twice", a_storage_that_stalls_twice, DB_FILE},
        {"what a close cannot record is told", what_a_close_cannot_record_is_told, DB_FILE},
        {"what stays undecided is told", what_stays_undecided_is_told, DB_FILE},
        {"a quarantined run is recorded by a close", a_quarantined_run_is_recorded_by_a_close,
         DB_FILE},
        {"a failure of all writes holds no run", a_failure_of_all_writes_holds_no_run, DB_TURNS},
        {"a deadline has the owner try again", a_deadline_has_the_owner_try_again, DB_TURNS},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
