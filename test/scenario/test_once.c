/* Executed once: plain and later steps under a node that is stopped and begins again all the time,
 * with finishes that run out of time, polls, holds and releases at random moments, and a database
 * that is locked now and then; by hand also with calls of the database that fail, answers of
 * commits that are lost, and memory that cannot be had. No process dies here, so each attempt is
 * executed exactly once.
 *
 * The side file has a number for each execution, written before anything else. PAWL_TEST_STEPS says
 * how many steps there are (10,000 for a night), PAWL_TEST_SEED how chance begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "db/db_fault.h"
#include "support/served_fixture.h"

enum { PER_RUN = 10, ATTEMPTS = 4, STEPS = 300 };

typedef struct scene {
    served v;
    db *db; /* a connection of the test's own, to lock the database with */
    int side;
    int64_t runs;
    uint64_t seed;
    atomic_int over;
    atomic_int needs; /* how often memory was asked for */
    int by_hand;      /* one thread, and the test moves the time */
    db_fault plan;    /* then: calls of the database that fail */
} scene;

/* ---- Chance ---- */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static uint64_t below(uint64_t *state, uint64_t end)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(*state) % end;
}

static int64_t number_from(const char *name, int64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoll(text, NULL, 10) : otherwise;
}

/* The first attempt of some steps fails: the second one is an execution of its own. */
static int fails_first(int64_t step)
{
    return mix((uint64_t)step) % 7 == 0;
}

/* ---- What is executed ---- */

static const char *work(pawl_work *w, const char *input)
{
    scene *s = pawl_work_arg(w);
    int64_t step = pawl_get_int(input, "", -1);
    int64_t key = step * ATTEMPTS + pawl_work_attempt(w);
    if (write(s->side, &key, sizeof key) != sizeof key)
        return pawl_work_fail(w, PAWL_PERMANENT, "side", "the side file cannot be written");
    if (s->by_hand)
        stage_advance(s->v.stage, (int64_t)(mix((uint64_t)key) % 4));
    else
        poll(NULL, 0, (int)(mix((uint64_t)key) % 4));
    if (fails_first(step) && pawl_work_attempt(w) == 1)
        return pawl_work_fail(w, PAWL_TRANSIENT, "first", "as it should");
    return input;
}

#define CALL PAWL_CALL(.arg = pawl_arg(run), .attempts = 3, .backoff_ms = 1, .no_jitter = 1)

static void plain(pawl_run *run, int64_t step)
{
    pawl_step(run, "plain", work, pawl_json(run, "%" PRId64, step), CALL);
}

static pawl_future *later(pawl_run *run, int64_t step)
{
    return pawl_step_later(run, "later", work, pawl_json(run, "%" PRId64, step), CALL);
}

/* Memory that cannot be had, now and then: the function is left, and goes on a little later. */
static void need_memory(pawl_run *run)
{
    scene *s = pawl_arg(run);
    if (atomic_fetch_add(&s->needs, 1) % 16 == 15)
        pawl_alloc(run, PTRDIFF_MAX - 1);
}

/* Plain steps while later ones are under way, and waits for some of these in between. */
static const char *mixed(pawl_run *run, const char *input)
{
    int64_t first = pawl_get_int(input, "", 0);
    pawl_future *some[] = {later(run, first), later(run, first + 1), NULL};
    plain(run, first + 2);
    some[2] = later(run, first + 3);
    pawl_await(run, some[1]);
    plain(run, first + 4);
    plain(run, first + 5);
    need_memory(run);
    pawl_all(run, some, 3);
    pawl_future *one = later(run, first + 6);
    plain(run, first + 7);
    pawl_sleep(run, 2);
    pawl_future *two[] = {later(run, first + 8), later(run, first + 9)};
    pawl_all(run, two, 2);
    pawl_await(run, one);
    return input;
}

/* ---- What happens to it ---- */

static void name_of(int64_t run, char id[32])
{
    snprintf(id, 32, "run-%lld", (long long)run);
}

static void *hold_and_release(void *arg)
{
    scene *s = arg;
    uint64_t chance = s->seed + 1;
    while (!atomic_load(&s->over)) {
        char id[32];
        name_of((int64_t)below(&chance, (uint64_t)s->runs), id);
        pawl_code rc = pawl_hold(s->v.p, id, NULL);
        STAGE_CHECK(s->v.stage, rc == PAWL_OK || rc == PAWL_ENDED || pawl_code_retryable(rc));
        poll(NULL, 0, (int)below(&chance, 5));
        do
            rc = pawl_release(s->v.p, id);
        while (pawl_code_retryable(rc));
        STAGE_CHECK(s->v.stage, rc == PAWL_OK || rc == PAWL_ENDED);
    }
    return NULL;
}

/* For longer than the engine has patience: its commits fail. */
static void *lock_and_unlock(void *arg)
{
    scene *s = arg;
    uint64_t chance = s->seed + 2;
    while (!atomic_load(&s->over)) {
        poll(NULL, 0, 20 + (int)below(&chance, 200));
        db_conn *lock = conf_lock(s->db);
        poll(NULL, 0, (int)below(&chance, 60));
        conf_unlock(lock);
    }
    return NULL;
}

/* Where the database is locked just now the engine does not become a node. */
static void *serve(void *arg)
{
    scene *s = arg;
    pawl_code rc = pawl_serve(s->v.p);
    STAGE_CHECK(s->v.stage, rc == PAWL_OK || rc == PAWL_BUSY);
    return NULL;
}

static void serve_for(scene *s, int ms)
{
    assert_int_equal(pthread_create(&s->v.thread, NULL, serve, s), 0);
    poll(NULL, 0, ms);
    served_stop(&s->v);
}

static void finish_some(scene *s, uint64_t *chance)
{
    for (uint64_t i = below(chance, 4); i > 0; i--) {
        char id[32];
        name_of((int64_t)below(chance, (uint64_t)s->runs), id);
        pawl_code rc = pawl_finish(s->v.p, id, (int64_t)below(chance, 12), NULL);
        STAGE_CHECK(s->v.stage,
                    rc == PAWL_OK || rc == PAWL_HELD || pawl_code_retryable(rc) ||
                        rc == PAWL_CLOSED); /* a stop that came when the serve had failed */
    }
}

static int64_t expected(const scene *s)
{
    int64_t count = s->runs * PER_RUN;
    for (int64_t i = 0; i < s->runs * PER_RUN; i++)
        count += fails_first(i);
    return count;
}

static int64_t executed(const scene *s)
{
    return lseek(s->side, 0, SEEK_END) / (int64_t)sizeof(int64_t);
}

/* Until nearly everything was executed; the rest is executed in peace. */
static void rage(scene *s)
{
    uint64_t chance = s->seed;
    int64_t until = expected(s) * 9 / 10;
    while (executed(s) < until) {
        tmp_watchdog(
            "steps under stops, holds and finishes"); /* each turn has the time of a test */
        serve_for(s, 5 + (int)below(&chance, 60));
        finish_some(s, &chance);
    }
}

/* ---- The test ---- */

static void expect_once(const scene *s)
{
    int64_t count = executed(s), room = s->runs * PER_RUN * ATTEMPTS, key;
    int *seen = calloc((size_t)room, sizeof *seen);
    assert_non_null(seen);
    for (int64_t i = 0; i < count; i++) {
        assert_int_equal(pread(s->side, &key, sizeof key, i * (int64_t)sizeof key), sizeof key);
        assert_in_range(key, 0, room - 1);
        seen[key]++;
    }
    for (key = 0; key < room; key++) {
        int64_t step = key / ATTEMPTS, attempt = key % ATTEMPTS;
        int wanted = attempt == 1 || (attempt == 2 && fails_first(step));
        if (seen[key] != wanted)
            fail_msg("seed %llu: attempt %d of step %d of run %d was executed %d times",
                     (unsigned long long)s->seed, (int)attempt, (int)(step % PER_RUN),
                     (int)(step / PER_RUN), seen[key]);
    }
    free(seen);
}

static void open_by_hand(scene *s)
{
    s->v.p = stage_open_fault(s->v.stage, PAWL_OPTIONS(.threads = -1), &s->plan);
}

static void register_mixed(scene *s)
{
    STAGE_CODE(s->v.stage, s->v.p,
               pawl_register_workflow(s->v.p, "mixed", mixed, PAWL_WORKFLOW(.arg = s)), PAWL_OK);
}

/* `options` NULL: by hand, with faults. */
static scene *scene_new(conf *c, const pawl_options *options)
{
    char path[TMP_PATH], id[32], input[32];
    scene *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->seed = (uint64_t)number_from("PAWL_TEST_SEED", getpid());
    s->runs = (number_from("PAWL_TEST_STEPS", STEPS) + PER_RUN - 1) / PER_RUN;
    tmp_path(path, c->dir, "executions");
    s->side = open(path, O_RDWR | O_CREAT | O_APPEND, 0600);
    assert_true(s->side >= 0);
    s->by_hand = !options;
    if (options)
        s->v = served_open(c, options);
    else
        s->v.stage = stage_new(c);
    if (!options) { /* a committer whose storage fails waits by the clock */
        stage_go(s->v.stage);
        open_by_hand(s);
    }
    register_mixed(s);
    for (int64_t i = 0; i < s->runs; i++) {
        name_of(i, id);
        snprintf(input, sizeof input, "%lld", (long long)(i * PER_RUN));
        stage_start(s->v.stage, s->v.p, "mixed", id, input);
    }
    return s;
}

static void scene_free(scene *s)
{
    served_end(&s->v);
    close(s->side);
    free(s);
}

static void end_in_peace(scene *s)
{
    served_begin(&s->v);
    for (int64_t i = 0; i < s->runs; i++) {
        char id[32];
        name_of(i, id);
        STAGE_CODE(s->v.stage, s->v.p, pawl_wait(s->v.p, id, PAWL_FOREVER, NULL), PAWL_OK);
    }
}

static void holds_stops_and_finishes(conf *c)
{
    pthread_t holder;
    scene *s = scene_new(c, PAWL_OPTIONS(.threads = 3, .drain_ms = 60000));
    assert_int_equal(pthread_create(&holder, NULL, hold_and_release, s), 0);
    rage(s);
    atomic_store(&s->over, 1);
    pthread_join(holder, NULL);
    end_in_peace(s);
    expect_once(s);
    scene_free(s);
}

static void and_storage_that_fails(conf *c)
{
    pthread_t holder, locker;
    scene *s = scene_new(
        c, PAWL_OPTIONS(.threads = 3, .work_threads = 2, .drain_ms = 60000, .busy_ms = 20));
    s->db = conf_open(c, NULL);
    assert_int_equal(pthread_create(&holder, NULL, hold_and_release, s), 0);
    assert_int_equal(pthread_create(&locker, NULL, lock_and_unlock, s), 0);
    rage(s);
    atomic_store(&s->over, 1);
    pthread_join(holder, NULL);
    pthread_join(locker, NULL);
    db_close(s->db);
    end_in_peace(s);
    expect_once(s);
    scene_free(s);
}

/* ---- By hand ---- */

/* One of the next calls fails, or the answer of one of the next commits is lost. */
static void plan_fault(scene *s, uint64_t *chance)
{
    static const pawl_code CODES[] = {PAWL_STORAGE, PAWL_BUSY, PAWL_UNREACHABLE};
    db_fault *f = &s->plan;
    f->fail_call = f->lose_commit = 0;
    if (below(chance, 2) == 0) {
        f->fail_call = f->calls + 1 + (int64_t)below(chance, 60);
        f->fail_code = CODES[below(chance, 3)];
        f->fail_ends = (int)below(chance, 2);
    } else if (below(chance, 2) == 0) {
        f->lose_commit = f->commits + 1 + (int64_t)below(chance, 4);
        f->lose_happened = (int)below(chance, 2);
    }
}

static void drive_a_little(scene *s, uint64_t *chance)
{
    char id[32];
    name_of((int64_t)below(chance, (uint64_t)s->runs), id);
    switch (below(chance, 6)) {
    case 0:
        pawl_hold(s->v.p, id, NULL);
        break;
    case 1:
        pawl_release(s->v.p, id);
        break;
    case 2:
        pawl_finish(s->v.p, id, (int64_t)below(chance, 12), NULL);
        break;
    default:
        pawl_poll(s->v.p, NULL);
    }
    stage_advance(s->v.stage, (int64_t)below(chance, 300));
}

/* An engine is closed while the storage works: what it has executed is recorded then. */
static void open_again(scene *s)
{
    s->plan.fail_call = s->plan.lose_commit = 0;
    pawl_close(s->v.p);
    s->plan = (db_fault){0};
    open_by_hand(s);
    register_mixed(s);
}

static void by_hand(conf *c)
{
    scene *s = scene_new(c, NULL);
    uint64_t chance = s->seed;
    int64_t until = expected(s) * 9 / 10;
    for (int64_t turns = 1; executed(s) < until; turns++) {
        tmp_watchdog("steps by hand, with faults");
        plan_fault(s, &chance);
        drive_a_little(s, &chance);
        if (turns % 50 == 0)
            open_again(s);
    }
    s->plan.fail_call = s->plan.lose_commit = 0;
    for (int64_t i = 0; i < s->runs; i++) {
        char id[32];
        name_of(i, id);
        pawl_release(s->v.p, id);
        STAGE_UNTIL(s->v.stage, s->v.p, stage_phase(s->v.stage, s->v.p, id) == PAWL_RUN_DONE);
    }
    expect_once(s);
    pawl_close(s->v.p);
    stage_free(s->v.stage);
    close(s->side);
    free(s);
}

int main(void)
{
    static const conf_case CASES[] = {
        {"holds, stops and finishes", holds_stops_and_finishes, 0},
        {"and storage that fails", and_storage_that_fails, DB_DURABLE},
        {"by hand, with faults", by_hand, DB_DURABLE},
    };
    return conf_run_reused(CASES, CONF_COUNT(CASES));
}
