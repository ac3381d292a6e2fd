/* bench engine: how fast runs go, against a bare loop that writes the same rows.
 *
 *   engine [[BACKEND:]CASE…]    seq      one run of 1000 steps
 *                               fan      20,000 runs of 5 steps
 *                               long     1000 runs of 100 steps
 *                               one      runs of one step, one at a time, start to result
 *                               timers   10,000 runs that sleep for a second
 *                               crash    10,000 runs half-way, SIGKILL, on to the end
 *                               memory   what runs cost in RAM and on disk, and the first result
 *
 * bench/README.md says how to read the results. Asserts nothing. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PAYLOAD = 100, COMMITS = 300, ONES = 300, TIMERS = 10000, SECOND_MS = 1000 };

/* ---- Rates ---- */

typedef struct rate_task {
    bench_db db;
    plan plan;
    int runs;
    int batch; /* rows per transaction of the floor */
} rate_task;

typedef struct rate_result {
    int64_t ns, cpu_ns, server_ns, rss, wal;
    double batch;
} rate_result;

static void child_rate(const void *arg, int number, void *result)
{
    const rate_task *t = arg;
    const backend *on = t->db.backend;
    rate_result *out = result;
    (void)number;
    rig *r = rig_open(&t->db, &t->plan);
    on->settle(&t->db);
    int64_t server = on->server_cpu_ns(&t->db), cpu = bench_cpu_ns(), start = bench_now_ns();
    rig_start(r, 0, t->runs);
    rig_await(r, t->runs);
    out->ns = bench_now_ns() - start;
    out->cpu_ns = bench_cpu_ns() - cpu;
    out->server_ns = on->server_cpu_ns(&t->db) - server;
    out->rss = bench_rss();
    out->wal = on->turns ? on->log_bytes(&t->db) : 0;
    committer_stats stats = rig_commits(r);
    out->batch = stats.batches ? (double)stats.committed / (double)stats.batches : 0;
    rig_check(r, t->runs);
    rig_close(r);
}

static void child_floor(const void *arg, int number, void *result)
{
    const rate_task *t = arg;
    const backend *on = t->db.backend;
    engine_floor *out = result;
    (void)number;
    bench_db fresh = on->named("floor");
    floor_rows *rows = on->floor->read_lives(&t->db);
    on->fresh(&fresh);
    out->floor = on->floor->write(&fresh, rows, t->batch);
    on->remove(&fresh);
    floor_free(rows);
    out->commit_us = engine_commit_us(&t->db);
}

double engine_commit_us(const bench_db *source)
{
    const backend *on = source->backend;
    bench_db fresh = on->named("floor");
    floor_rows *rows = on->floor->read(source);
    on->fresh(&fresh);
    double us = on->floor->commit_us(&fresh, rows, COMMITS);
    on->remove(&fresh);
    floor_free(rows);
    return us;
}

static void set_rate(report *r, int round, const rate_task *t, const rate_result *high,
                     const engine_floor *low)
{
    double steps = (double)t->runs * t->plan.steps, rows = (double)low->floor.rows;
    report_set(r, round, "value", steps * 1e9 / (double)high->ns, 0);
    report_set(r, round, "floor", steps * 1e9 / (double)low->floor.ns, 0);
    report_set(r, round, "ratio", (double)low->floor.ns / (double)high->ns, 3);
    report_set(r, round, "cpu_us", (double)high->cpu_ns / 1e3 / steps, 2);
    report_set(r, round, "floor_cpu_us", low->floor.cpu_us * rows / steps, 2);
    if (!t->db.backend->turns) {
        report_set(r, round, "server_us", (double)high->server_ns / 1e3 / steps, 2);
        report_set(r, round, "floor_server_us", low->floor.server_us * rows / steps, 2);
    }
    report_set(r, round, "commit_us", low->commit_us, 1);
    report_set(r, round, "batch", high->batch, 1);
    report_set(r, round, "rss", (double)high->rss, 0);
    if (t->db.backend->turns)
        report_set(r, round, "wal", (double)high->wal, 0);
}

/* Who goes first alternates. A floor that goes first writes again what the round before left. */
static void case_rate(const engine_case *c, const backend *on)
{
    rate_task t = {.db = on->named("pawl"), .runs = c->runs, .batch = c->batch};
    report r = {.bench = "engine", .name = c->name, .in = "steps/s", .on = on};
    t.plan = (plan){.steps = c->steps, .payload = c->payload, .clients = c->clients};
    for (int i = 0; i < report_rounds(); i++) {
        rate_result high;
        engine_floor low;
        if (i % 2 == 1)
            bench_children(1, child_floor, &t, &low, sizeof low);
        on->fresh(&t.db);
        bench_children(1, child_rate, &t, &high, sizeof high);
        if (i % 2 == 0)
            bench_children(1, child_floor, &t, &low, sizeof low);
        set_rate(&r, i, &t, &high, &low);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}

/* ---- One at a time ---- */

typedef struct one_result {
    double p50_us, p99_us, cpu_us;
} one_result;

static void child_one(const void *arg, int number, void *result)
{
    const rate_task *t = arg;
    one_result *out = result;
    static bench_hist h;
    (void)number;
    rig *r = rig_open(&t->db, &t->plan);
    t->db.backend->settle(&t->db);
    int64_t cpu = bench_cpu_ns();
    for (int i = 0; i < t->runs; i++) {
        int64_t start = bench_now_ns();
        rig_run(r, i);
        bench_hist_add(&h, bench_now_ns() - start);
    }
    *out = (one_result){
        .p50_us = (double)bench_hist_at(&h, 0.5) / 1e3,
        .p99_us = (double)bench_hist_at(&h, 0.99) / 1e3,
        .cpu_us = (double)(bench_cpu_ns() - cpu) / 1e3 / t->runs,
    };
    rig_close(r);
}

static void child_commit(const void *arg, int number, void *result)
{
    const rate_task *t = arg;
    (void)number;
    *(double *)result = engine_commit_us(&t->db);
}

static void case_one(const engine_case *c, const backend *on)
{
    rate_task t = {.db = on->named("pawl"), .runs = ONES};
    report r = {.bench = "engine", .name = c->name, .in = "us", .on = on};
    t.plan = (plan){.steps = 1, .payload = PAYLOAD, .clients = 1};
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
    rig_start(r, 0, t->runs);
    int64_t started = bench_now_ns();
    rig_await(r, t->runs);
    out->beyond_ms = (double)(bench_now_ns() - started) / 1e6 - SECOND_MS;
    out->starts_ms = (double)(started - start) / 1e6;
    rig_check(r, t->runs);
    rig_close(r);
}

static void case_timers(const engine_case *c, const backend *on)
{
    rate_task t = {.db = on->named("pawl"), .runs = TIMERS};
    report r = {.bench = "engine", .name = c->name, .in = "ms", .on = on};
    t.plan = (plan){.payload = PAYLOAD, .sleep_ms = SECOND_MS, .clients = c->clients};
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

static const engine_case CASES[] = {
    {.name = "seq", .run = case_rate, .runs = 1, .steps = 1000, .clients = 1, .batch = 1},
    {.name = "fan",
     .run = case_rate,
     .runs = 20000,
     .steps = 5,
     .payload = PAYLOAD,
     .clients = ENGINE_CLIENTS,
     .batch = 1000},
    {.name = "long",
     .run = case_rate,
     .runs = 1000,
     .steps = 100,
     .payload = PAYLOAD,
     .clients = ENGINE_CLIENTS,
     .batch = 1000},
    {.name = "one", .run = case_one},
    {.name = "timers", .run = case_timers, .clients = ENGINE_CLIENTS},
    {.name = "crash", .run = case_crash, .clients = ENGINE_CLIENTS},
    {.name = "memory", .run = case_memory, .clients = ENGINE_CLIENTS},
};
enum { CASE_COUNT = sizeof CASES / sizeof *CASES };

static int is_chosen(const engine_case *c, const backend *on, char **words, int count)
{
    for (int i = 0; i < count; i++)
        if (report_is_meant(words[i], on, c->name))
            return 1;
    return count == 0;
}

static void words_check(char **words, int count)
{
    for (int i = 0; i < count; i++) {
        int known = 0;
        for (const backend *const *b = BACKENDS; *b; b++)
            for (int k = 0; k < CASE_COUNT; k++)
                known |= report_is_meant(words[i], *b, CASES[k].name);
        if (known)
            continue;
        fprintf(stderr, "engine: no case \"%s\"; there are:", words[i]);
        for (int k = 0; k < CASE_COUNT; k++)
            fprintf(stderr, " %s", CASES[k].name);
        fputs("; \"postgres:fan\" is one on one backend\n", stderr);
        exit(2);
    }
}

static void child_explain(const void *arg, int number, void *result)
{
    const backend *on = arg;
    (void)number;
    (void)result;
    bench_db fresh = on->named("floor");
    on->fresh(&fresh);
    on->floor->explain(&fresh);
    on->remove(&fresh);
}

static int cases_run(const backend *on, char **words, int count)
{
    int chosen = 0;
    char nothing = 0;
    for (int i = 0; i < CASE_COUNT; i++)
        chosen += is_chosen(&CASES[i], on, words, count);
    if (chosen == 0 || !on->start())
        return 0;
    bench_children(1, child_explain, on, &nothing, 1);
    for (int i = 0; i < CASE_COUNT; i++)
        if (is_chosen(&CASES[i], on, words, count))
            CASES[i].run(&CASES[i], on);
    return chosen;
}

int main(int argc, char **argv)
{
    int done = 0;
    words_check(argv + 1, argc - 1);
    bench_place_make();
    for (const backend *const *b = BACKENDS; *b; b++)
        done += cases_run(*b, argv + 1, argc - 1);
    return done ? 0 : 1;
}
