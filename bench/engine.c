/* bench engine: how fast runs go, against a bare loop that writes the same rows.
 *
 *   engine [[BACKEND:]CASE…]    seq      one run of 1000 steps
 *                               fan      20,000 runs of 5 steps
 *                               long     1000 runs of 100 steps
 *                               one      runs of one step, one at a time, start to result
 *                               timers   10,000 runs that sleep for a second
 *                               due      100,000 runs that are due at one moment
 *                               random   messages to random ones of 100,000 cold runs
 *                               growth   fan beside 1,000,000 sleeping runs, and their memory
 *                               claims   20,000 due runs without an owner, one process and four
 *                               open     opening a new database, and one that is there
 *                               crash    10,000 runs half-way, SIGKILL, on to the end
 *                               takeover 200 runs of a second, one of two processes is killed
 *                               memory   what runs cost in RAM and on disk, and the first result
 *                               wake     a message into a run that waits, one at a time
 *                               children one run with 10,000 children
 *                               futures  one run with 10,000 futures, against runs of 100
 *                               messages 100,000 into one run; messages-each: into as many runs
 *                               transact one run of 1000 transactional steps
 *
 * bench/README.md says how to read the results. Asserts nothing. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAYLOAD = 100, TIMERS = 10000, SECOND_MS = 1000 };

/* ---- Rates ---- */

typedef struct rate_task {
    bench_db db;
    plan plan;
    const engine_load *load;
    int64_t before; /* rows of the journal that were there before the clock was started */
} rate_task;

typedef struct rate_result {
    int64_t ns, cpu_ns, server_ns, rss, wal, before;
    double batch;
} rate_result;

static const db_sql JOURNAL_ROWS = {"SELECT count(*) FROM {journal}", ""};

static plan plan_of(const engine_load *l)
{
    return (plan){.steps = l->steps, .payload = l->payload, .clients = l->clients};
}

static void *prepare(rig *r, const rate_task *t)
{
    void *own = t->load->prepare ? t->load->prepare(r, t->load, t->db.backend) : NULL;
    t->db.backend->settle(&t->db);
    return own;
}

static void child_rate(const void *arg, int number, void *result)
{
    const rate_task *t = arg;
    const backend *on = t->db.backend;
    const engine_load *l = t->load;
    rate_result *out = result;
    (void)number;
    rig *r = rig_open(&t->db, &t->plan);
    void *own = prepare(r, t);
    out->before = rig_number(r, &JOURNAL_ROWS);
    int64_t server = on->server_cpu_ns(&t->db), cpu = bench_cpu_ns(), start = bench_now_ns();
    if (l->go) {
        l->go(own);
    } else {
        rig_start(r, 0, l->runs);
        rig_await(r, l->runs);
    }
    out->ns = bench_now_ns() - start;
    out->cpu_ns = bench_cpu_ns() - cpu;
    out->server_ns = on->server_cpu_ns(&t->db) - server;
    out->rss = bench_rss();
    out->wal = on->turns ? on->log_bytes(&t->db) : 0;
    committer_stats stats = rig_commits(r);
    out->batch = stats.batches ? (double)stats.committed / (double)stats.batches : 0;
    if (!l->go)
        rig_check(r, l->runs);
    rig_close(r);
    free(own);
}

static void child_floor(const void *arg, int number, void *result)
{
    const rate_task *t = arg;
    const backend *on = t->db.backend;
    engine_floor *out = result;
    (void)number;
    bench_db fresh = on->named("floor");
    floor_rows *rows = on->floor->read_lives(&t->db);
    floor_rows_before(rows, t->before);
    on->fresh(&fresh);
    out->floor = on->floor->write(&fresh, rows, t->load->batch);
    on->remove(&fresh);
    floor_free(rows);
    out->commit_us = backend_commit_us(&t->db);
}

static void set_rate(report *r, int round, const rate_task *t, const rate_result *high,
                     const engine_floor *low)
{
    const engine_load *l = t->load;
    double items = engine_items(l, t->db.backend);
    double rows = (double)low->floor.rows;
    report_set(r, round, "value", items * 1e9 / (double)high->ns, 0);
    report_set(r, round, "floor", items * 1e9 / (double)low->floor.ns, 0);
    report_set(r, round, "ratio", (double)low->floor.ns / (double)high->ns, 3);
    report_set(r, round, "cpu_us", (double)high->cpu_ns / 1e3 / items, 2);
    report_set(r, round, "floor_cpu_us", low->floor.cpu_us * rows / items, 2);
    if (!t->db.backend->turns) {
        report_set(r, round, "server_us", (double)high->server_ns / 1e3 / items, 2);
        report_set(r, round, "floor_server_us", low->floor.server_us * rows / items, 2);
    }
    report_set(r, round, "commit_us", low->commit_us, 1);
    report_set(r, round, "batch", high->batch, 1);
    report_set(r, round, "rss", (double)high->rss, 0);
    if (t->db.backend->turns)
        report_set(r, round, "wal", (double)high->wal, 0);
}

static int rounds_of(const engine_load *l)
{
    int rounds = report_rounds();
    return l->rounds_max && l->rounds_max < rounds ? l->rounds_max : rounds;
}

/* Pawl and floor take turns in going first. A floor that goes first writes again what the round
 * before left. */
static void case_rate(const bench_case *c, const backend *on)
{
    const engine_load *l = c->load;
    rate_task t = {.db = on->named("pawl"), .plan = plan_of(l), .load = l};
    report r = {.bench = "engine", .name = c->name, .in = l->in ? l->in : "steps/s", .on = on};
    for (int i = 0; i < rounds_of(l); i++) {
        rate_result high;
        engine_floor low;
        if (i % 2 == 1)
            bench_children(1, child_floor, &t, &low, sizeof low);
        on->fresh(&t.db);
        bench_children(1, child_rate, &t, &high, sizeof high);
        t.before = high.before;
        if (i % 2 == 0)
            bench_children(1, child_floor, &t, &low, sizeof low);
        set_rate(&r, i, &t, &high, &low);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}

/* ---- One at a time ---- */

typedef struct one_result {
    double p50_us, p99_us, durable_us, cpu_us;
} one_result;

static void one_run(rig *r, int number, int64_t took_ns[2])
{
    int64_t start = bench_now_ns();
    rig_run(r, number);
    took_ns[0] = bench_now_ns() - start;
}

static void child_one(const void *arg, int number, void *result)
{
    const rate_task *t = arg;
    one_result *out = result;
    static bench_hist h, durable;
    (void)number;
    rig *r = rig_open(&t->db, &t->plan);
    void *own = prepare(r, t);
    int64_t cpu = bench_cpu_ns();
    for (int i = 0; i < t->load->runs; i++) {
        int64_t took_ns[2] = {0, 0};
        if (t->load->once)
            t->load->once(own, i, took_ns);
        else
            one_run(r, i, took_ns);
        bench_hist_add(&h, took_ns[0]);
        bench_hist_add(&durable, took_ns[1]);
    }
    *out = (one_result){
        .p50_us = (double)bench_hist_at(&h, 0.5) / 1e3,
        .p99_us = (double)bench_hist_at(&h, 0.99) / 1e3,
        .durable_us = (double)bench_hist_at(&durable, 0.5) / 1e3,
        .cpu_us = (double)(bench_cpu_ns() - cpu) / 1e3 / t->load->runs,
    };
    rig_close(r);
    free(own);
}

static void child_commit(const void *arg, int number, void *result)
{
    const rate_task *t = arg;
    (void)number;
    *(double *)result = backend_commit_us(&t->db);
}

static void case_one(const bench_case *c, const backend *on)
{
    const engine_load *l = c->load;
    rate_task t = {.db = on->named("pawl"), .plan = plan_of(l), .load = l};
    report r = {.bench = "engine", .name = c->name, .in = "us", .on = on};
    for (int i = 0; i < report_rounds(); i++) {
        one_result one;
        double commit_us = 0;
        if (i % 2 == 1)
            bench_children(1, child_commit, &t, &commit_us, sizeof commit_us);
        on->fresh(&t.db);
        bench_children(1, child_one, &t, &one, sizeof one);
        if (i % 2 == 0)
            bench_children(1, child_commit, &t, &commit_us, sizeof commit_us);
        report_set(&r, i, "value", one.p50_us, 0);
        report_set(&r, i, "ratio", one.p50_us / commit_us, 2);
        report_set(&r, i, "p99", one.p99_us, 0);
        if (one.durable_us > 0)
            report_set(&r, i, "durable_us", one.durable_us, 0);
        report_set(&r, i, "commit_us", commit_us, 1);
        report_set(&r, i, "cpu_us", one.cpu_us, 0);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}

/* ---- Timers ---- */

typedef struct timers_result {
    double beyond_ms, starts_ms;
} timers_result;

static void child_timers(const void *arg, int number, void *result)
{
    const rate_task *t = arg;
    timers_result *out = result;
    (void)number;
    rig *r = rig_open(&t->db, &t->plan);
    t->db.backend->settle(&t->db);
    int64_t start = bench_now_ns();
    rig_start(r, 0, TIMERS);
    int64_t started = bench_now_ns();
    rig_await(r, TIMERS);
    out->beyond_ms = (double)(bench_now_ns() - started) / 1e6 - SECOND_MS;
    out->starts_ms = (double)(started - start) / 1e6;
    rig_check(r, TIMERS);
    rig_close(r);
}

static void case_timers(const bench_case *c, const backend *on)
{
    rate_task t = {.db = on->named("pawl")};
    report r = {.bench = "engine", .name = c->name, .in = "ms", .on = on};
    t.plan = (plan){.payload = PAYLOAD, .sleep_ms = SECOND_MS, .clients = ENGINE_CLIENTS};
    for (int i = 0; i < report_rounds(); i++) {
        timers_result timers;
        on->fresh(&t.db);
        bench_children(1, child_timers, &t, &timers, sizeof timers);
        report_set(&r, i, "value", timers.beyond_ms, 1);
        report_set(&r, i, "starts_ms", timers.starts_ms, 1);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}

/* ---- The command line ---- */

static const engine_load SEQ = {.runs = 1, .steps = 1000, .clients = 1, .batch = 1};
static const engine_load FAN = {
    .runs = 20000, .steps = 5, .payload = PAYLOAD, .clients = ENGINE_CLIENTS, .batch = 1000};
static const engine_load LONG = {
    .runs = 1000, .steps = 100, .payload = PAYLOAD, .clients = ENGINE_CLIENTS, .batch = 1000};
static const engine_load ONE = {.runs = 300, .steps = 1, .payload = PAYLOAD, .clients = 1};

static const bench_case CASES[] = {
    {.name = "seq", .run = case_rate, .load = &SEQ},
    {.name = "fan", .run = case_rate, .load = &FAN},
    {.name = "long", .run = case_rate, .load = &LONG},
    {.name = "one", .run = case_one, .load = &ONE},
    {.name = "timers", .run = case_timers},
    {.name = "due", .run = case_due},
    {.name = "random", .run = case_random},
    {.name = "growth", .run = case_growth},
    {.name = "claims", .run = case_claims},
    {.name = "open", .run = case_open},
    {.name = "crash", .run = case_crash},
    {.name = "takeover", .run = case_takeover},
    {.name = "memory", .run = case_memory},
    {.name = "wake", .run = case_one, .load = &LOAD_WAKE},
    {.name = "loop", .run = case_loop},
    {.name = "children", .run = case_rate, .load = &LOAD_CHILDREN},
    {.name = "futures", .run = case_futures},
    {.name = "messages", .run = case_rate, .load = &LOAD_MESSAGES},
    {.name = "messages-each", .run = case_rate, .load = &LOAD_MESSAGES_EACH},
    {.name = "transact", .run = case_rate, .load = &LOAD_TRANSACT},
};

int main(int argc, char **argv)
{
    const bench_group group = {
        .name = "engine", .cases = CASES, .count = sizeof CASES / sizeof *CASES};
    return cases_main(&group, argc, argv);
}
