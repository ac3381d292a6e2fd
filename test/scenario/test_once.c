#define _GNU_SOURCE /* RTLD_NEXT */
/* Executed once: plain and later steps under a node that is stopped and begins again all the time,
 * with finishes that run out of time, polls, holds and releases at random moments, memory that
 * cannot be had (by a workflow function, and by malloc() for a row or what is read and written of
 * it), and storage in trouble: a database that is locked, a disk that is full, sessions
 * that the server ends; by hand also with any call of the database that fails, and answers of
 * commits that are lost. No process dies here, so each attempt is executed exactly once.
 *
 * The side file has a counter for each attempt, raised before anything else. It is mapped, so that
 * it can be written while the disk is full. PAWL_TEST_STEPS says how many steps there are (10,000
 * in ./run check), PAWL_TEST_SEED how chance begins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "db/db_fault.h"
#include "sim/chance.h"
#include "support/full_disk.h"
#include "support/scratch.h"
#include "support/served_fixture.h"

enum { PER_RUN = 10, ATTEMPTS = 4, STEPS = 300 };
/* What happens comes after so many executions at most, not after a time: a busy machine gets on. */
enum { STOP_AFTER = 32, TROUBLE_AFTER = 48 };

typedef struct once_fixture {
    served_fixture v;
    conf *conf;
    db *db;           /* of the test's own, to lock the database with */
    atomic_int *side; /* one for each attempt of each step, and the sum of all */
    size_t side_size;
    int64_t runs;
    uint64_t seed;
    atomic_int over;
    atomic_int needs; /* how often memory was asked for */
    atomic_int kept;  /* how often a unit was not committed, and is handed in again */
    atomic_int undecided;
    atomic_int serving;
    atomic_int may; /* executions that may return, in their order */
    int by_hand;    /* one thread, and the test moves the time */
    db_fault plan;  /* then: calls of the database that fail */
    FILE *events;   /* what the log has told */
} once_fixture;

static uint64_t below(chance *odds, uint64_t end)
{
    return chance_next(odds) % end;
}

/* The first attempt of some steps fails: the second one is an execution of its own. */
static int fails_first(int64_t step)
{
    return chance_mix((uint64_t)step) % 7 == 0;
}

/* ---- Memory ---- */

/* Some steps give a value of this size, three of a run at most: to read them all again is not
 * hopeless. Each copy of it has a block of memory to itself. */
enum { LARGE = 50000, LARGE_EVERY = 5, LARGE_FAILS = 6, SOME_MORE = 4096 };

static char large[LARGE + 1]; /* tidy: shared, the same JSON number always */

/* tidy: shared, the library's call has no argument for it. 1: some of the large blocks are not to
 * be had. */
static atomic_int memory_is_short;

/* Instead of the C library's, for everything in this program; where a sanitizer is linked into it
 * its functions for memory belong together. */
#if !defined(__clang__)
void *malloc(size_t size)
{
    static void *(*_Atomic library)(size_t); /* tidy: shared, found once */
    static atomic_int large_asked;           /* tidy: shared, as memory_is_short is */
    void *(*at)(size_t) = atomic_load(&library);
    if (!at) {
        void *found = dlsym(RTLD_NEXT, "malloc");
        memcpy(&at, &found, sizeof at);
        atomic_store(&library, at);
    }
    int is_large = size >= LARGE && size < LARGE + SOME_MORE && atomic_load(&memory_is_short);
    int fails =
        is_large && chance_mix((uint64_t)atomic_fetch_add(&large_asked, 1)) % LARGE_FAILS == 0;
    return fails ? NULL : at(size);
}
#endif

/* Of a plain step and of two later ones: it may be large. */
static int gives_large(int64_t step)
{
    return step % PER_RUN % 4 == 1 && chance_mix((uint64_t)step + 1) % LARGE_EVERY < 3;
}

/* How many executions there were so far. */
static int64_t executed(const once_fixture *s)
{
    return atomic_load(&s->side[s->runs * PER_RUN * ATTEMPTS]);
}

static void __attribute__((format(printf, 2, 3)))
note(const once_fixture *s, const char *format, ...)
{
    va_list args;
    char line[1024];
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    fprintf(s->events, "%" PRId64 " %s \n", executed(s), line);
    va_end(args);
}

static void print_events_of(const once_fixture *s, int64_t run)
{
    char line[1200], wanted[48];
    snprintf(wanted, sizeof wanted, "run=run-%" PRId64 " ", run);
    rewind(s->events);
    while (fgets(line, sizeof line, s->events))
        if (strstr(line, wanted) || !strstr(line, "run="))
            fprintf(stderr, "# %s", line);
}

/* ---- What is executed ---- */

static const char *work(pawl_work *w, const char *input)
{
    once_fixture *s = pawl_work_arg(w);
    int64_t step = pawl_get_int(input, "", -1);
    int64_t key = step * ATTEMPTS + pawl_work_attempt(w);
    int before = atomic_fetch_add(&s->side[key], 1);
    note(s, "executes run=run-%" PRId64 " step=%" PRId64 " attempt=%d%s", step / PER_RUN,
         step % PER_RUN, (int)pawl_work_attempt(w), before ? " AGAIN" : "");
    int mine = atomic_fetch_add(&s->side[s->runs * PER_RUN * ATTEMPTS], 1) + 1;
    while (mine > atomic_load(&s->may))
        poll(NULL, 0, 1);
    if (s->by_hand)
        fixture_advance(s->v.fixture, (int64_t)(chance_mix((uint64_t)key) % 4));
    else
        poll(NULL, 0, (int)(chance_mix((uint64_t)key) % 4));
    note(s, "returns run=run-%" PRId64 " step=%" PRId64, step / PER_RUN, step % PER_RUN);
    if (fails_first(step) && pawl_work_attempt(w) == 1)
        return pawl_work_fail(w, PAWL_TRANSIENT, "first", "as it should");
    return gives_large(step) ? large : input;
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
    once_fixture *s = pawl_arg(run);
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

/* The storage is in trouble just now: the same call may be made again. */
static int passes(pawl_code rc)
{
    return pawl_code_retryable(rc) || rc == PAWL_UNDECIDED;
}

static void *hold_and_release(void *arg)
{
    once_fixture *s = arg;
    chance odds = {s->seed + 1};
    while (!atomic_load(&s->over)) {
        char id[32];
        name_of((int64_t)below(&odds, (uint64_t)s->runs), id);
        pawl_code rc = pawl_hold(s->v.p, id, NULL);
        note(s, "held run=%s : %d", id, (int)rc);
        FIXTURE_CHECK(s->v.fixture, rc == PAWL_OK || rc == PAWL_ENDED || passes(rc));
        poll(NULL, 0, (int)below(&odds, 5));
        do
            rc = pawl_release(s->v.p, id);
        while (passes(rc));
        note(s, "released run=%s : %d", id, (int)rc);
        FIXTURE_CHECK(s->v.fixture, rc == PAWL_OK || rc == PAWL_ENDED);
    }
    return NULL;
}

/* For longer than the engine has patience: its commits fail. */
static void lock_for_a_while(once_fixture *s, chance *odds)
{
    db_conn *lock = conf_lock(s->db);
    poll(NULL, 0, (int)below(odds, 60));
    conf_unlock(lock);
}

static void fill_for_a_while(once_fixture *s, chance *odds)
{
    full_disk_set(s->conf, 1);
    poll(NULL, 0, (int)below(odds, 60));
    full_disk_set(s->conf, 0);
}

static void end_sessions(once_fixture *s)
{
    pgserver_exec(s->conf->server, s->conf->database,
                  "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                  " WHERE datname = current_database() AND pid <> pg_backend_pid()");
}

static void *trouble_the_storage(void *arg)
{
    once_fixture *s = arg;
    chance odds = {s->seed + 2};
    while (!atomic_load(&s->over)) {
        int64_t until = executed(s) + 1 + (int64_t)below(&odds, TROUBLE_AFTER);
        while (executed(s) < until && !atomic_load(&s->over))
            poll(NULL, 0, 1);
        uint64_t kind = below(&odds, s->conf->server ? 3 : 2);
        if (kind == 0)
            lock_for_a_while(s, &odds);
        else if (kind == 1)
            fill_for_a_while(s, &odds);
        else
            end_sessions(s);
    }
    return NULL;
}

/* Where the storage is in trouble just now the engine does not become a node. */
static void *serve(void *arg)
{
    once_fixture *s = arg;
    pawl_code rc = pawl_serve(s->v.p);
    atomic_store(&s->serving, 0);
    FIXTURE_CHECK(s->v.fixture, rc == PAWL_OK || passes(rc));
    return NULL;
}

static void serve_for(once_fixture *s, int64_t count)
{
    int64_t until = executed(s) + count;
    atomic_store(&s->serving, 1);
    note(s, "serve until %" PRId64, until);
    assert_int_equal(pthread_create(&s->v.thread, NULL, serve, s), 0);
    TMP_AWAIT(executed(s) >= until || !atomic_load(&s->serving));
    served_stop(&s->v);
    note(s, "stopped");
}

/* A poll does not leave the engine: what drives it next finds its runs and its threads. */
static void finish_some(once_fixture *s, chance *odds)
{
    for (uint64_t i = below(odds, 4); i > 0; i--) {
        char id[32];
        name_of((int64_t)below(odds, (uint64_t)s->runs), id);
        int64_t ms = (int64_t)below(odds, 16);
        pawl_code rc = ms < 12 ? pawl_finish(s->v.p, id, ms, NULL) : pawl_poll(s->v.p, NULL);
        note(s, "finished %s: %d", id, (int)rc);
        FIXTURE_CHECK(s->v.fixture,
                      rc == PAWL_OK || rc == PAWL_HELD || passes(rc) ||
                          rc == PAWL_CLOSED); /* a stop that came when the serve had failed */
    }
}

static int64_t expected(const once_fixture *s)
{
    int64_t count = s->runs * PER_RUN;
    for (int64_t i = 0; i < s->runs * PER_RUN; i++)
        count += fails_first(i);
    return count;
}

/* Until nearly everything was executed; the rest is executed in peace. */
static void rage(once_fixture *s)
{
    chance odds = {s->seed};
    int64_t until = expected(s) * 9 / 10;
    atomic_store(&memory_is_short, 1);
    while (executed(s) < until) {
        tmp_watchdog(
            "steps under stops, holds and finishes"); /* each turn has the time of a test */
        serve_for(s, 1 + (int64_t)below(&odds, STOP_AFTER));
        finish_some(s, &odds);
    }
    atomic_store(&memory_is_short, 0);
}

/* ---- The test ---- */

static void expect_once(const once_fixture *s)
{
    for (int64_t key = 0; key < s->runs * PER_RUN * ATTEMPTS; key++) {
        int64_t step = key / ATTEMPTS, attempt = key % ATTEMPTS;
        int wanted = attempt == 1 || (attempt == 2 && fails_first(step));
        if (atomic_load(&s->side[key]) == wanted)
            continue;
        print_events_of(s, step / PER_RUN);
        fail_msg("seed %llu: attempt %d of step %d of run %d was executed %d times",
                 (unsigned long long)s->seed, (int)attempt, (int)(step % PER_RUN),
                 (int)(step / PER_RUN), atomic_load(&s->side[key]));
    }
}

static void hear(int level, const char *event, const char *fields, void *arg)
{
    once_fixture *s = arg;
    (void)level;
    note(s, "%s %s", event, fields);
    if (strcmp(event, "record-kept") == 0)
        atomic_fetch_add(&s->kept, 1);
    if (strcmp(event, "commit-undecided") == 0)
        atomic_fetch_add(&s->undecided, 1);
}

static void map_side(once_fixture *s)
{
    char path[TMP_PATH];
    tmp_path(path, s->conf->dir, "executions");
    int file = open(path, O_RDWR | O_CREAT, 0600);
    assert_true(file >= 0);
    s->side_size = (size_t)(s->runs * PER_RUN * ATTEMPTS + 1) * sizeof *s->side;
    assert_int_equal(ftruncate(file, (off_t)s->side_size), 0);
    tmp_path(path, s->conf->dir, "events");
    s->events = fopen(path, "w+e");
    assert_non_null(s->events);
    s->side = mmap(NULL, s->side_size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    assert_true(s->side != MAP_FAILED);
    close(file);
}

static void open_by_hand(once_fixture *s)
{
    s->v.p = fixture_open_fault(s->v.fixture,
                                PAWL_OPTIONS(.threads = -1, .log = hear, .log_arg = s), &s->plan);
}

static void register_mixed(once_fixture *s)
{
    FIXTURE_CODE(s->v.fixture, s->v.p,
                 pawl_register_workflow(s->v.p, "mixed", mixed, PAWL_WORKFLOW(.arg = s)), PAWL_OK);
}

/* `options` NULL: by hand, with faults. */
static once_fixture *once_new(conf *c, const pawl_options *options)
{
    char id[32], input[32];
    once_fixture *s = calloc(1, sizeof *s);
    assert_non_null(s);
    s->seed = (uint64_t)scratch_number("PAWL_TEST_SEED", getpid());
    s->runs = (scratch_number("PAWL_TEST_STEPS", STEPS) + PER_RUN - 1) / PER_RUN;
    s->conf = c;
    map_side(s);
    memset(large, '1', LARGE);
    atomic_store(&memory_is_short, 0); /* a case that failed may have left it */
    s->by_hand = !options;
    atomic_store(&s->may, INT_MAX);
    s->v.fixture = fixture_new(c);
    fixture_run_clock(s->v.fixture); /* a committer whose storage fails waits by the clock */
    if (options) {
        pawl_options o = *options;
        o.log = hear;
        o.log_arg = s;
        s->v.p = fixture_open(s->v.fixture, &o);
    } else {
        open_by_hand(s);
    }
    register_mixed(s);
    for (int64_t i = 0; i < s->runs; i++) {
        name_of(i, id);
        snprintf(input, sizeof input, "%lld", (long long)(i * PER_RUN));
        fixture_start(s->v.fixture, s->v.p, "mixed", id, input);
    }
    return s;
}

static void once_free(once_fixture *s)
{
    munmap(s->side, s->side_size);
    fclose(s->events);
    free(s);
}

/* A session that was ended before may be found out by the node that begins: it serves again. */
static void *serve_in_peace(void *arg)
{
    once_fixture *s = arg;
    pawl_code rc;
    do
        rc = pawl_serve(s->v.p);
    while (passes(rc));
    FIXTURE_CHECK(s->v.fixture, rc == PAWL_OK);
    return NULL;
}

static void end_in_peace(once_fixture *s)
{
    assert_int_equal(pthread_create(&s->v.thread, NULL, serve_in_peace, s), 0);
    for (int64_t i = 0; i < s->runs; i++) {
        char id[32];
        name_of(i, id);
        pawl_code rc;
        do /* here too */
            rc = pawl_wait(s->v.p, id, PAWL_FOREVER, NULL);
        while (passes(rc));
        FIXTURE_CODE(s->v.fixture, s->v.p, rc, PAWL_OK);
    }
}

static void holds_stops_and_finishes(conf *c)
{
    pthread_t holder;
    once_fixture *s = once_new(c, PAWL_OPTIONS(.threads = 3, .drain_ms = 60000));
    assert_int_equal(pthread_create(&holder, NULL, hold_and_release, s), 0);
    rage(s);
    atomic_store(&s->over, 1);
    pthread_join(holder, NULL);
    end_in_peace(s);
    expect_once(s);
    served_end(&s->v);
    once_free(s);
}

/* Once for sure: a unit that is not committed, and is kept. On SQLite it is undecided first, as
 * long as the disk is full. A few executions at a time may return: so some return while it is. */
static void fill_until_kept(once_fixture *s)
{
    enum { SOME = 8 };
    atomic_store(&s->may, 1);
    served_begin(&s->v);
    TMP_AWAIT(executed(s) > 1);
    while (atomic_load(&s->kept) == 0) {
        int before = atomic_load(&s->undecided);
        assert_true(executed(s) < expected(s) / 2);
        full_disk_set(s->conf, 1);
        atomic_store(&s->may, (int)executed(s) + SOME);
        TMP_AWAIT(atomic_load(&s->kept) > 0 || atomic_load(&s->undecided) > before);
        full_disk_set(s->conf, 0);
        int64_t from = executed(s);
        atomic_store(&s->may, (int)from + 1);
        TMP_AWAIT(atomic_load(&s->kept) > 0 || executed(s) > from + 1);
    }
    atomic_store(&s->may, INT_MAX);
    served_stop(&s->v);
}

static void and_storage_that_fails(conf *c)
{
    pthread_t holder, troubler;
    once_fixture *s = once_new(c, PAWL_OPTIONS(.threads = 3, .work_threads = 2, .drain_ms = 60000,
                                               .claim_ms = 60000, .busy_ms = 20));
    s->db = conf_open(c, NULL);
    full_disk_prepare(c);
    fill_until_kept(s);
    assert_int_equal(pthread_create(&holder, NULL, hold_and_release, s), 0);
    assert_int_equal(pthread_create(&troubler, NULL, trouble_the_storage, s), 0);
    rage(s);
    atomic_store(&s->over, 1);
    pthread_join(troubler, NULL); /* the holder ends when its release is answered */
    pthread_join(holder, NULL);
    db_close(s->db);
    end_in_peace(s);
    expect_once(s);
    fprintf(stderr, "# %s: seed %llu, %d records kept, %d commits undecided\n", c->backend,
            (unsigned long long)s->seed, atomic_load(&s->kept), atomic_load(&s->undecided));
    served_end(&s->v);
    once_free(s);
}

/* ---- By hand ---- */

/* One of the next calls fails, or the answer of one of the next commits is lost. */
static void plan_fault(once_fixture *s, chance *odds)
{
    static const pawl_code CODES[] = {PAWL_STORAGE, PAWL_BUSY, PAWL_UNREACHABLE};
    db_fault *f = &s->plan;
    f->fail_call = f->lose_commit = 0;
    if (below(odds, 2) == 0) {
        f->fail_call = f->calls + 1 + (int64_t)below(odds, 60);
        f->fail_code = CODES[below(odds, 3)];
        f->fail_ends = (int)below(odds, 2);
    } else if (below(odds, 2) == 0) {
        f->lose_commit = f->commits + 1 + (int64_t)below(odds, 4);
        f->lose_happened = (int)below(odds, 2);
    }
}

static void drive_a_little(once_fixture *s, chance *odds)
{
    char id[32];
    name_of((int64_t)below(odds, (uint64_t)s->runs), id);
    switch (below(odds, 6)) {
    case 0:
        pawl_hold(s->v.p, id, NULL);
        break;
    case 1:
        pawl_release(s->v.p, id);
        break;
    case 2:
        pawl_finish(s->v.p, id, 1 + (int64_t)below(odds, 12), NULL); /* 0: all that is due */
        break;
    default:
        pawl_poll(s->v.p, NULL);
    }
    fixture_advance(s->v.fixture, (int64_t)below(odds, 300));
}

/* An engine is closed while the storage works: what it has executed is recorded then. */
static void open_again(once_fixture *s)
{
    s->plan.fail_call = s->plan.lose_commit = 0;
    atomic_store(&memory_is_short, 0);
    pawl_close(s->v.p);
    s->plan = (db_fault){0};
    open_by_hand(s);
    register_mixed(s);
    atomic_store(&memory_is_short, 1);
}

static void by_hand(conf *c)
{
    once_fixture *s = once_new(c, NULL);
    chance odds = {s->seed};
    int64_t until = expected(s) * 9 / 10;
    atomic_store(&memory_is_short, 1);
    for (int64_t turns = 1; executed(s) < until; turns++) {
        tmp_watchdog("steps by hand, with faults");
        plan_fault(s, &odds);
        drive_a_little(s, &odds);
        if (turns % 50 == 0)
            open_again(s);
    }
    s->plan.fail_call = s->plan.lose_commit = 0;
    atomic_store(&memory_is_short, 0);
    for (int64_t i = 0; i < s->runs; i++) {
        char id[32];
        tmp_watchdog("the end of steps by hand");
        name_of(i, id);
        pawl_release(s->v.p, id);
        FIXTURE_UNTIL(s->v.fixture, s->v.p,
                      fixture_phase(s->v.fixture, s->v.p, id) == PAWL_RUN_DONE);
    }
    expect_once(s);
    pawl_close(s->v.p);
    fixture_free(s->v.fixture);
    once_free(s);
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
