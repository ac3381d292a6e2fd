/* bench engine random, growth: many runs sleep, and few of them are awake at a time.
 *
 *   random   messages to random runs of 100,000 that wait for one. Nearly all are cold: their
 *            function has left memory, and is replayed when the message comes. Each run ends after
 *            its message, so the floor writes the same rows: what a run records, and its end. First
 *            64 clients send as fast as they can; then one sends one message at a time, to runs
 *            that have got none yet.
 *   growth   the load of `fan` in an engine that has 1,000,000 sleeping runs, compared with the
 *            same load in an engine that has none; and the memory of the process that started
 *            them. */
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>

#include "engine.h"

enum {
    RANDOM_RUNS = 100000,
    SENT_PART = 5, /* a fifth of the runs get their message at full speed … */
    ONE_PART = 50, /* … and a fiftieth one at a time */
    GROWTH_RUNS = 1000000,
    GROWTH_ROUNDS = 3,
    FAN_RUNS = 20000,
    FAN_STEPS = 5,
    PAYLOAD = 100,
    FLOOR_BATCH = 1000,
};

static const int64_t LOOK_NS = 2000000;
static const int64_t REST_NS = 500000000;
static const int64_t SMALL_WARM_BYTES = INT64_C(16) << 20;
static const int64_t DAY_MS = 86400000;
static const char MESSAGE[] =
    "\"....................................................................................\"";

/* ---- random: the runs that wait ---- */

typedef struct cold_task {
    bench_db db;
    int runs;
    int64_t before; /* rows of the journal before the clock was started */
} cold_task;

typedef struct cold_result {
    int64_t ns, cpu_ns, server_ns, rss, before;
    double p50_us, p99_us, max_us;
} cold_result;

typedef struct cold {
    rig *rig;
    int *order;         /* the numbers of the runs, in a random order */
    int64_t resumed_ns; /* when the function of the last run went on */
    int one;            /* one message at a time */
    sem_t resumed;
} cold;

static const char *listener(pawl_run *run, const char *input)
{
    cold *c = pawl_arg(run);
    const char *message = NULL;
    (void)input;
    pawl_receive(run, "box", PAWL_FOREVER, &message);
    if (c->one) {
        c->resumed_ns = bench_now_ns();
        sem_post(&c->resumed);
    }
    rig_end(c->rig);
    return "null";
}

static void cold_id(int number, char id[32])
{
    snprintf(id, 32, "cold-%08d", number);
}

static void start_listener(rig *r, int number, void *arg)
{
    char id[32];
    (void)arg;
    cold_id(number, id);
    rig_good(r, pawl_start(rig_pawl(r), "listener", id, "null", NULL), "start");
}

static void send_random(rig *r, int number, void *arg)
{
    const cold *c = arg;
    char id[32];
    cold_id(c->order[number], id);
    rig_good(r, pawl_send(rig_pawl(r), id, "box", MESSAGE, NULL), "send");
}

/* The same order in each round and each build. */
static int *shuffle(int count)
{
    int *order = malloc((size_t)count * sizeof *order);
    uint64_t state = 88172645463325252u;
    if (!order)
        bench_die("out of memory");
    for (int i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        int at = (int)(state % (uint64_t)(i + 1));
        order[i] = order[at];
        order[at] = i;
    }
    return order;
}

static const db_sql ROWS = {"SELECT count(*) FROM {journal}", ""};
static const db_sql RECEIVES = {"SELECT count(*) FROM {journal} WHERE kind = 23", ""};

static void begin_cold(cold *c, const cold_task *t)
{
    *c = (cold){.rig = rig_open(&t->db, &(plan){.clients = ENGINE_CLIENTS})};
    c->order = shuffle(t->runs);
    if (sem_init(&c->resumed, 0, 0) != 0)
        bench_die("out of memory");
    rig_good(
        c->rig,
        pawl_register_workflow(rig_pawl(c->rig), "listener", listener, PAWL_WORKFLOW(.arg = c)),
        "register");
    rig_clients(c->rig, 0, t->runs, start_listener, c);
    while (rig_number(c->rig, &RECEIVES) < t->runs)
        bench_sleep_ns(10 * LOOK_NS);
    rig_await_rest(c->rig);
    t->db.backend->settle(&t->db);
}

/* How long a message takes until the function of its run goes on. */
static void send_one_by_one(cold *c, int first, int count, cold_result *out)
{
    bench_hist *h = calloc(1, sizeof *h);
    if (!h)
        bench_die("out of memory");
    c->one = 1;
    for (int i = first; i < first + count; i++) {
        int64_t began = bench_now_ns();
        send_random(c->rig, i, c);
        while (sem_wait(&c->resumed) != 0)
            ;
        bench_hist_add(h, c->resumed_ns - began);
    }
    out->p50_us = (double)bench_hist_at(h, 0.5) / 1e3;
    out->p99_us = (double)bench_hist_at(h, 0.99) / 1e3;
    out->max_us = (double)h->max / 1e3;
    free(h);
}

static void child_random(const void *arg, int number, void *result)
{
    const cold_task *t = arg;
    const backend *on = t->db.backend;
    cold_result *out = result;
    cold c;
    int sent = t->runs / SENT_PART;
    (void)number;
    begin_cold(&c, t);
    out->before = rig_number(c.rig, &ROWS);
    int64_t server = on->server_cpu_ns(&t->db), cpu = bench_cpu_ns(), start = bench_now_ns();
    rig_clients(c.rig, 0, sent, send_random, &c);
    rig_await(c.rig, sent);
    out->ns = bench_now_ns() - start;
    out->cpu_ns = bench_cpu_ns() - cpu;
    out->server_ns = on->server_cpu_ns(&t->db) - server;
    out->rss = bench_rss_max();
    rig_close(c.rig);
    free(c.order);
}

/* In an engine of its own, so that what the floor writes again ends with the rate. */
static void child_one(const void *arg, int number, void *result)
{
    const cold_task *t = arg;
    cold c;
    (void)number;
    begin_cold(&c, t);
    send_one_by_one(&c, 0, t->runs / ONE_PART, result);
    rig_await(c.rig, t->runs / ONE_PART);
    rig_close(c.rig);
    free(c.order);
}

static void child_floor(const void *arg, int number, void *result)
{
    const cold_task *t = arg;
    const backend *on = t->db.backend;
    engine_floor *out = result;
    (void)number;
    bench_db fresh = on->named("floor");
    floor_rows *rows = on->floor->read_lives(&t->db);
    floor_rows_before(rows, t->before);
    on->fresh(&fresh);
    out->floor = on->floor->write(&fresh, rows, FLOOR_BATCH);
    on->remove(&fresh);
    floor_free(rows);
    out->commit_us = backend_commit_us(&t->db);
}

void case_random(const bench_case *c, const backend *on)
{
    cold_task t = {.db = on->named("pawl"), .runs = report_runs(RANDOM_RUNS)};
    report r = {.bench = "engine", .name = c->name, .in = "messages/s", .on = on};
    double sent = t.runs / SENT_PART;
    for (int i = 0; i < report_rounds(); i++) {
        cold_result rate, one;
        engine_floor low;
        on->fresh(&t.db);
        bench_children(1, child_random, &t, &rate, sizeof rate);
        t.before = rate.before;
        bench_children(1, child_floor, &t, &low, sizeof low);
        on->fresh(&t.db);
        bench_children(1, child_one, &t, &one, sizeof one);
        report_set(&r, i, "value", sent * 1e9 / (double)rate.ns, 0);
        report_set(&r, i, "floor", sent * 1e9 / (double)low.floor.ns, 0);
        report_set(&r, i, "ratio", (double)low.floor.ns / (double)rate.ns, 3);
        report_set(&r, i, "p50", one.p50_us, 0);
        report_set(&r, i, "p99", one.p99_us, 0);
        report_set(&r, i, "max", one.max_us, 0);
        report_set(&r, i, "commit_us", low.commit_us, 1);
        report_set(&r, i, "cpu_us", (double)rate.cpu_ns / 1e3 / sent, 1);
        if (!on->turns)
            report_set(&r, i, "server_us", (double)rate.server_ns / 1e3 / sent, 1);
        report_set(&r, i, "rss", (double)rate.rss, 0);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}

/* ---- growth ---- */

typedef struct growth_task {
    bench_db db;
    int sleepers;
    int64_t warm_bytes;
    int fans; /* 1: the load of fan too */
} growth_task;

typedef struct growth_result {
    int64_t ns, rss, peak, starts_ns;
} growth_result;

static const char *sleeper(pawl_run *run, const char *input)
{
    pawl_sleep(run, DAY_MS);
    return input;
}

static void start_sleeper(rig *r, int number, void *arg)
{
    char id[32];
    (void)arg;
    snprintf(id, sizeof id, "sleeper-%08d", number);
    rig_good(r, pawl_start(rig_pawl(r), "sleeper", id, "null", NULL), "start");
}

static void child_growth(const void *arg, int number, void *result)
{
    const growth_task *t = arg;
    growth_result *out = result;
    plan p = {.steps = FAN_STEPS,
              .payload = PAYLOAD,
              .clients = ENGINE_CLIENTS,
              .warm_bytes = t->warm_bytes};
    (void)number;
    rig *r = rig_open(&t->db, &p);
    rig_good(r, pawl_register_workflow(rig_pawl(r), "sleeper", sleeper, NULL), "register");
    int64_t start = bench_now_ns();
    rig_clients(r, 0, t->sleepers, start_sleeper, NULL);
    rig_await_rest(r);
    out->starts_ns = bench_now_ns() - start;
    bench_sleep_ns(REST_NS);
    out->rss = bench_rss();
    out->peak = bench_rss_max();
    t->db.backend->settle(&t->db);
    start = bench_now_ns();
    rig_start(r, 0, t->fans ? FAN_RUNS : 0);
    rig_await(r, t->fans ? FAN_RUNS : 0);
    out->ns = bench_now_ns() - start;
    rig_close(r);
}

static growth_result grow(growth_task *t, int sleepers, int64_t warm_bytes, int fans)
{
    growth_result out;
    t->sleepers = sleepers;
    t->warm_bytes = warm_bytes;
    t->fans = fans;
    t->db.backend->fresh(&t->db);
    bench_children(1, child_growth, t, &out, sizeof out);
    return out;
}

void case_growth(const bench_case *c, const backend *on)
{
    growth_task t = {.db = on->named("pawl")};
    report r = {.bench = "engine", .name = c->name, .in = "steps/s", .on = on};
    int sleepers = report_runs(GROWTH_RUNS);
    for (int i = 0; i < report_rounds() && i < GROWTH_ROUNDS; i++) {
        growth_result none = grow(&t, 0, 0, 1), all = grow(&t, sleepers, 0, 1);
        growth_result small = grow(&t, sleepers, SMALL_WARM_BYTES, 0);
        double steps = FAN_RUNS * FAN_STEPS;
        report_set(&r, i, "value", steps * 1e9 / (double)all.ns, 0);
        report_set(&r, i, "floor", steps * 1e9 / (double)none.ns, 0);
        report_set(&r, i, "ratio", (double)none.ns / (double)all.ns, 3);
        report_set(&r, i, "rss", (double)all.rss, 0);
        report_set(&r, i, "peak", (double)all.peak, 0);
        report_set(&r, i, "small_rss", (double)small.rss, 0);
        report_set(&r, i, "small_peak", (double)small.peak, 0);
        report_set(&r, i, "starts_ms", (double)all.starts_ns / 1e6, 0);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}
