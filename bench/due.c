/* Runs that are due at the same moment: how late is the last of them?
 *
 * 100,000 are more than an engine keeps in memory, so most of them are rebuilt by replay when they
 * wake. 10,000 are kept: the rate at which these come to their end is what the many are compared
 * with. All of them are asleep, durably, before the moment comes. */
#include "engine.h"

#include <stdio.h>
#include <time.h>

enum { FEW = 10000, MANY = 100000, START_US = 400, MORE_MS = 3000, DUE_ROUNDS = 3 };

static const int64_t SETTLE_NS = 1000000000;

typedef struct due_task {
    bench_db db;
    plan plan;
    int runs;
} due_task;

typedef struct due_result {
    double late_ms, starts_ms, cpu_us, rss, rest_rss;
} due_result;

static int64_t date_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return t.tv_sec * INT64_C(1000) + t.tv_nsec / 1000000;
}

static void child_due(const void *arg, int number, void *result)
{
    const due_task *t = arg;
    due_result *out = result;
    plan p = t->plan;
    (void)number;
    p.sleep_until_ms = date_ms() + (int64_t)t->runs * START_US / 1000 + MORE_MS;
    rig *r = rig_open(&t->db, &p);
    t->db.backend->settle(&t->db);
    int64_t start = bench_now_ns();
    rig_start(r, 0, t->runs);
    out->starts_ms = (double)(bench_now_ns() - start) / 1e6;
    while (rig_slept(r) < t->runs)
        bench_sleep_ns(10000000);
    bench_sleep_ns(SETTLE_NS); /* their last commits */
    if (date_ms() >= p.sleep_until_ms)
        bench_die("the runs were not asleep in time: the machine is too slow");
    int64_t cpu = bench_cpu_ns();
    rig_await(r, t->runs);
    out->late_ms = (double)(date_ms() - p.sleep_until_ms);
    out->rss = (double)bench_rss_max();
    out->cpu_us = (double)(bench_cpu_ns() - cpu) / 1e3 / t->runs;
    rig_check(r, t->runs);
    bench_sleep_ns(SETTLE_NS);
    out->rest_rss = (double)bench_rss();
    rig_close(r);
}

static due_result measure(due_task *t, int runs)
{
    due_result out;
    t->runs = runs;
    t->db.backend->fresh(&t->db);
    bench_children(1, child_due, t, &out, sizeof out);
    return out;
}

void case_due(const bench_case *c, const backend *on)
{
    due_task t = {.db = on->named("pawl")};
    report r = {.bench = "engine", .name = c->name, .in = "ms", .on = on};
    t.plan = (plan){.payload = 100, .clients = ENGINE_CLIENTS};
    int runs = report_runs(MANY);
    for (int i = 0; i < report_rounds() && i < DUE_ROUNDS; i++) {
        due_result few = measure(&t, FEW), many = measure(&t, runs);
        double few_ms = few.late_ms > 1 ? few.late_ms : 1;
        report_set(&r, i, "value", many.late_ms, 0);
        report_set(&r, i, "growth", many.late_ms * FEW / (few_ms * runs), 2);
        report_set(&r, i, "few_ms", few.late_ms, 0);
        report_set(&r, i, "few_cpu_us", few.cpu_us, 1);
        report_set(&r, i, "cpu_us", many.cpu_us, 1);
        report_set(&r, i, "runs_per_s", runs * 1e3 / many.late_ms, 0);
        report_set(&r, i, "starts_ms", many.starts_ms, 0);
        report_set(&r, i, "rss", many.rss, 0);
        report_set(&r, i, "rest_rss", many.rest_rss, 0);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}
