/* The test kit of pawl_test.h: an engine in memory whose clock jumps, and which can crash.
 *
 * The engine is the one of production, driven by hand as pawl_poll() does, on a fake clock that
 * this file moves to the next timer. A crash is fault injection by db_fault, which refuses every
 * call from the chosen write on: so the engine closes as if it had been killed, and another one is
 * opened under the same handle. The node of the first engine is closed at once, without waiting for
 * claim_ms, since it is known to be dead. */
#include "api/test_kit.h"

#include <stdlib.h>
#include <string.h>
#include <pawl_test.h>

#include "api/engine_test.h"
#include "api/wait.h"
#include "db/db_fault.h"
#include "handle/handle.h"
#include "rows/node.h"
#include "sched/sched.h"

static const int64_t BEGIN_MS = INT64_C(978307200000); /* 2001-01-01T00:00:00Z */
/* how long the host has been up at the beginning */
static const int64_t UP_MS = 1000000;
static const int64_t END_MS = PAWL_DAYS(365) * 250; /* how far the clock can be moved in all */
static const int64_t MS_NS = 1000000;

enum {
    SEED = 1,
    LOOKS_MAX = 10,       /* how many seconds a finish waits for a due run that no node drives */
    MOMENTS_MAX = 1000000 /* how many timers a finish jumps to */
};

struct pawl_test {
    clock_source clock; /* the first member, because the engine gets a pointer to it */
    clock_fake *fake;
    int64_t dying_ns; /* time that has passed only for the engine that is crashing */
    random_seeded dice;
    pawl_hooks hooks;
    pawl *engine;
    db_fault plan;
    int users;     /* the handle and the test each count as one; the last to close frees the
                      struct */
    int unwrapped; /* wrap() was out of memory */
    int driving;   /* 1: a function of this file drives the engine */
    int other;     /* 1: this transaction has written something besides heartbeats */
    int always_replay;
    int64_t writes;
    int64_t crash_at; /* 0: no crash is planned */
};

/* ---- Time and chance ---- */

static pawl_test *of_clock(clock_source *c)
{
    return (pawl_test *)(void *)c;
}

static int64_t now_ms(clock_source *c)
{
    clock_source *fake = clock_fake_source(of_clock(c)->fake);
    return fake->now_ms(fake);
}

static int64_t mono_ns(clock_source *c)
{
    clock_source *fake = clock_fake_source(of_clock(c)->fake);
    return fake->mono_ns(fake) + of_clock(c)->dying_ns;
}

/* There is one thread, so no other one can end a wait: a wait with a deadline moves the clock
 * there, one without returns at once. */
static int wait_until(clock_source *c, pthread_cond_t *cond, pthread_mutex_t *mutex,
                      int64_t deadline_ns)
{
    pawl_test *t = of_clock(c);
    (void)cond;
    (void)mutex;
    if (deadline_ns == INT64_MAX)
        return 0;
    int64_t left = deadline_ns - mono_ns(c);
    if (left > 0 && t->plan.dead)
        t->dying_ns += left;
    else if (left > 0)
        clock_fake_advance(t->fake, (left + MS_NS - 1) / MS_NS);
    return 1;
}

static int fill_random(void *bytes, size_t count, void *arg)
{
    pawl_test *t = arg;
    return t->dice.source.fill(&t->dice.source, bytes, count);
}

static int drops(void *arg)
{
    return ((pawl_test *)arg)->always_replay;
}

/* How far the clock can still be moved. */
static int64_t room_ms(pawl_test *t)
{
    return END_MS - (now_ms(&t->clock) - BEGIN_MS);
}

/* ---- Writes ---- */

static int is_beat(const char *sql)
{
    return strncmp(sql, "UPDATE {beats}", 14) == 0;
}

/* Called before each call of the database: counts the writes, and crashes at the chosen one.
 * Heartbeats do not count, since they come as often as the clock is moved and do not concern any
 * run. */
static void before(void *arg, int64_t number, fault_call call, const char *sql)
{
    pawl_test *t = arg;
    (void)number;
    if (call == FAULT_CALL_BEGIN)
        t->other = 0;
    if (call == FAULT_CALL_NEXT)
        t->other |= !is_beat(sql);
    if (call != FAULT_CALL_COMMIT || !t->driving || !t->other || t->plan.dead)
        return;
    if (t->crash_at == 0 || --t->crash_at > 0) {
        t->writes++;
        return;
    }
    t->plan.dead = 1;
    sched_stop(handle_sched(t->engine)); /* the crashed engine begins no other function */
}

static db *wrap(void *arg, db *inner)
{
    pawl_test *t = arg;
    db *d = db_fault_wrap(inner, &t->plan);
    t->unwrapped = !d;
    return d ? d : inner;
}

/* ---- Opening and closing ---- */

static void release_user(void *arg)
{
    pawl_test *t = arg;
    if (--t->users > 0)
        return;
    clock_fake_free(t->fake);
    free(t);
}

/* The handle is freed. The test stays until it is closed, without an engine to drive. */
static void closed(void *arg)
{
    ((pawl_test *)arg)->engine = NULL;
    release_user(arg);
}

/* The engine has a fixed name, so that no name of the host and no process id gets into a
 * journal. */
static pawl_options options_of(const pawl_test *t)
{
    return (pawl_options){.size = sizeof(pawl_options),
                          .threads = -1,
                          .name = "test",
                          .build = "test",
                          .hooks = &t->hooks};
}

static pawl_test *new_test(void)
{
    pawl_test *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->fake = clock_fake_new(BEGIN_MS - UP_MS);
    if (!t->fake) {
        free(t);
        return NULL;
    }
    clock_fake_advance(t->fake, UP_MS);
    t->clock = (clock_source){now_ms, mono_ns, wait_until, NULL};
    random_seeded_init(&t->dice, SEED);
    t->hooks = (pawl_hooks){.size = sizeof t->hooks, .random = fill_random, .arg = t};
    t->plan = (db_fault){.before = before, .before_arg = t};
    return t;
}

pawl_code pawl_test_open(pawl **out, pawl_test **test)
{
    if (test)
        *test = NULL;
    if (out)
        *out = NULL;
    if (!out || !test)
        return PAWL_INVALID;
    pawl_test *t = new_test();
    if (!t)
        return PAWL_NOMEM;
    engine_test under = {
        .arg = t, .wrap = wrap, .clock = &t->clock, .drops = drops, .closed = closed};
    pawl_options options = options_of(t);
    t->users = 2;
    pawl_code rc = engine_test_open(out, "memory:", &options, &under);
    if (rc == PAWL_OK && t->unwrapped)
        rc = PAWL_NOMEM;
    t->engine = *out;
    if (!t->engine)
        t->users = 1; /* there is no handle that would release it */
    if (rc == PAWL_OK)
        *test = t;
    else
        release_user(t);
    return rc;
}

void pawl_test_close(pawl_test *test)
{
    if (test)
        release_user(test);
}

int test_kit_has(pawl *p)
{
    return engine_test_of(p)->closed == closed;
}

/* ---- Crashing ---- */

/* Opens the engine that stands for the next process: it knows only what is in the database. */
static pawl_code restart(pawl_test *t, error *err)
{
    int64_t dead = sched_node_id(handle_sched(t->engine));
    pawl_options options = options_of(t);
    engine_test_drop(t->engine);
    t->plan.dead = 0;
    t->dying_ns = 0;
    pawl_code rc = engine_test_again(t->engine, &options, err);
    if (rc != PAWL_OK || dead == 0)
        return rc;
    rc = node_close(committers_at(sched_options_of(handle_sched(t->engine))->committers, 0), dead,
                    err);
    return rc == PAWL_REFUSED ? PAWL_OK : rc; /* the crash came before the node had a row */
}

/* ---- Driving ---- */

/* Drives what can be done now. After a crash, restarts. */
static pawl_code drive_once(pawl_test *t, int64_t *did, error *err)
{
    sched *s = handle_sched(t->engine);
    *did = 0;
    pawl_code rc = sched_take_over(s, DRIVEN_BY_HAND, 0, err);
    if (rc == PAWL_BUSY)
        rc = err->code = PAWL_MISUSE;
    if (rc != PAWL_OK)
        return rc;
    t->driving = 1;
    rc = sched_poll(s, INT64_MAX, 0, did, err);
    t->driving = 0;
    sched_let_go(s);
    if (!t->plan.dead)
        return rc;
    *did = 1;
    return restart(t, err);
}

/* Drives until nothing is left to do now. The node loop runs two rounds without waiting for its
 * interval: the first finds the runs of dead nodes, the second can claim them. Each round delivers
 * the outbox. */
static pawl_code drive_all(pawl_test *t, error *err)
{
    int64_t did = 0;
    pawl_code rc = PAWL_OK;
    for (int looks = 0; rc == PAWL_OK && looks<2; looks = did> 0 ? 0 : looks + 1) {
        handle_wake(t->engine);
        rc = drive_once(t, &did, err);
    }
    return rc;
}

/* ---- What is due next ---- */

static const db_sql NEXT = {"SELECT min(wake_at) FROM {runs} WHERE tenant = $1 AND wake_at > $2"
                            " AND held = 0 AND phase IN ({LIVE}, {FAILING})",
                            "ti"};

static const db_sql WAITING = {"SELECT count(*) FROM {runs} WHERE tenant = $1 AND wake_at <= $2"
                               " AND held = 0 AND phase IN ({LIVE}, {FAILING}) AND owner <> $3",
                               "tii"};

static pawl_code query_number(pawl_test *t, const db_sql *sql, const db_value *values, int count,
                              int64_t *out, int *found, error *err)
{
    db_conn *c = sched_look_conn(handle_sched(t->engine));
    *found = 0;
    if (!c)
        return PAWL_OK;
    pawl_code rc = db_begin(c, err);
    if (rc != PAWL_OK)
        return rc;
    rc = db_number(c, sql, values, count, out, found, err);
    db_rollback(c);
    return rc;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* The next timer that the engine has in memory, in milliseconds from now. */
static int64_t next_inside(pawl_test *t)
{
    sched *s = handle_sched(t->engine);
    committers *all = sched_options_of(s)->committers;
    int64_t next = smaller(sched_next_timer_ns(s), committers_next_ns(all));
    int64_t left = next - mono_ns(&t->clock);
    return next == INT64_MAX ? next : left > MS_NS ? (left + MS_NS - 1) / MS_NS : 1;
}

/* Sets *out to the time until the next timer, in milliseconds; INT64_MAX: there is none. */
static pawl_code next_ms(pawl_test *t, int64_t *out, error *err)
{
    int64_t now = now_ms(&t->clock), wakes = 0;
    int found;
    slice tenant = handle_tenant(t->engine);
    const db_value values[] = {db_text(tenant), db_int(now)};
    pawl_code rc = query_number(t, &NEXT, values, DB_COUNT(values), &wakes, &found, err);
    *out = next_inside(t);
    if (rc == PAWL_OK && found && wakes > now)
        *out = smaller(*out, wakes - now);
    if (*out > room_ms(t))
        *out = INT64_MAX;
    return rc;
}

/* Tells whether a run is due that no node drives; the engine will hold it before long. */
static int is_waiting(pawl_test *t)
{
    int64_t count = 0;
    int found;
    error err = {0};
    const db_value values[] = {db_text(handle_tenant(t->engine)), db_int(now_ms(&t->clock)),
                               db_int(sched_node_id(handle_sched(t->engine)))};
    return query_number(t, &WAITING, values, DB_COUNT(values), &count, &found, &err) == PAWL_OK &&
           count > 0;
}

/* ---- Moving the clock ---- */

static pawl_code advance(pawl_test *t, int64_t ms, error *err)
{
    int64_t end = now_ms(&t->clock) + ms, next;
    for (;;) {
        pawl_code rc = drive_all(t, err);
        int64_t left = end - now_ms(&t->clock);
        if (rc != PAWL_OK || left <= 0)
            return rc;
        rc = next_ms(t, &next, err);
        if (rc != PAWL_OK)
            return rc;
        clock_fake_advance(t->fake, smaller(next, left));
    }
}

static pawl_code check_engine(pawl *p, error *err)
{
    pawl_code rc = handle_enter(p, err);
    if (rc == PAWL_OK && !test_kit_has(p))
        return error_set(err, PAWL_MISUSE, "this handle is not one of pawl_test_open()");
    return rc == PAWL_OK ? registry_error(handle_registry(p), err) : rc;
}

pawl_code pawl_test_advance(pawl_test *test, int64_t ms)
{
    error err = {0};
    if (!test)
        return PAWL_INVALID;
    pawl_code rc = check_engine(test->engine, &err);
    if (rc == PAWL_OK && ms < 0)
        rc = error_set(&err, PAWL_INVALID, "the clock of a test does not go back");
    else if (rc == PAWL_OK && ms > room_ms(test))
        rc = error_set(&err, PAWL_LIMIT, "the clock of a test goes 250 years, and no further");
    if (rc == PAWL_OK)
        rc = advance(test, ms, &err);
    return handle_leave(test->engine, rc, &err);
}

/* ---- Finishing ---- */

/* Moves the clock to the next timer, when nothing can be done now and the run has not ended.
 * TIMEOUT: there is no timer, or none before the deadline. */
static pawl_code jump(pawl_test *t, int64_t deadline_ms, int *looks, error *err)
{
    int64_t left = deadline_ms - now_ms(&t->clock), next;
    pawl_code rc = next_ms(t, &next, err);
    if (rc != PAWL_OK)
        return rc;
    if (next == INT64_MAX && *looks < LOOKS_MAX && is_waiting(t)) {
        next = 1000;
        ++*looks;
    }
    if (deadline_ms != INT64_MAX && (left <= 0 || next >= left)) {
        if (left > 0 && left <= room_ms(t))
            clock_fake_advance(t->fake, left);
        return error_set(err, PAWL_TIMEOUT, "the run goes on");
    }
    if (next == INT64_MAX) {
        error_set(err, PAWL_TIMEOUT, "the run waits for something that no clock brings");
        error_hint(err, "pawl_why() says for what");
        return PAWL_TIMEOUT;
    }
    clock_fake_advance(t->fake, next);
    return PAWL_OK;
}

pawl_code test_kit_finish(pawl *p, const char *id, int64_t timeout_ms, pawl_outcome **out,
                          error *err)
{
    pawl_test *t = engine_test_of(p)->arg;
    int64_t now = now_ms(&t->clock);
    int64_t deadline = timeout_ms > END_MS ? INT64_MAX : now + timeout_ms;
    int looks = 0;
    for (int64_t moments = 0; moments < MOMENTS_MAX; moments++) {
        pawl_code rc = drive_all(t, err);
        if (rc == PAWL_OK)
            rc = wait_look(p, id, out, err);
        if (rc == PAWL_TIMEOUT)
            rc = jump(t, deadline, &looks, err);
        else
            return rc;
        if (rc == PAWL_TIMEOUT && deadline != INT64_MAX && drive_all(t, err) == PAWL_OK)
            return wait_look(p, id, out, err);
        if (rc != PAWL_OK)
            return rc;
    }
    return error_set(err, PAWL_TIMEOUT, "the run has come to a million timers and goes on");
}

pawl_code pawl_test_finish(pawl *p, const char *id, pawl_outcome **out)
{
    error err = {0};
    if (out)
        *out = NULL;
    pawl_code rc = check_engine(p, &err);
    if (rc == PAWL_OK)
        rc = wait_check(id, 0, &err);
    if (rc == PAWL_OK)
        rc = test_kit_finish(p, id, INT64_MAX, out, &err);
    return handle_leave(p, rc, &err);
}

/* ---- The rest ---- */

int64_t pawl_test_now(pawl_test *test)
{
    return test ? now_ms(&test->clock) : 0;
}

int64_t pawl_test_writes(pawl_test *test)
{
    return test ? test->writes : 0;
}

pawl_code pawl_test_crash_at(pawl_test *test, int64_t n)
{
    if (!test || n < 0)
        return PAWL_INVALID;
    test->crash_at = n;
    return PAWL_OK;
}

pawl_code pawl_test_always_replay(pawl_test *test, int on)
{
    if (!test)
        return PAWL_INVALID;
    test->always_replay = on != 0;
    return PAWL_OK;
}
