/* bench engine memory: what a run costs while it waits, what a step costs on disk, and how long it
 * takes from opening a database that is in use to the first result.
 *
 * A run that waits is warm: its stack, its texts and what it has recorded last are in RAM. What
 * the first few runs bring with them (threads, caches, the first pages of everything) is not
 * counted. */
#include <stdio.h>

#include "engine.h"

enum { FEW = 500, RUNS = 10000, STEPS = 2, PAYLOAD = 100, DISK_RUNS = 4000, DISK_STEPS = 5 };

static const int64_t HOUR_MS = 3600000;
static const int64_t LOOK_NS = 2000000;
static const int64_t REST_NS = 200000000;

typedef struct memory_task {
    bench_db db;
    int clients;
} memory_task;

typedef struct memory_park {
    int64_t before, after; /* bytes in RAM */
} memory_park;

static const db_sql PARKED = {
    "SELECT count(*) FROM {runs} WHERE wake_at > created_at + 1000000 AND phase = 0", ""};

static void await_parked(rig *r, int64_t count)
{
    while (rig_number(r, &PARKED) < count)
        bench_sleep_ns(LOOK_NS);
    bench_sleep_ns(REST_NS); /* what is left to do is not in the database */
}

static void child_park(const void *arg, int number, void *result)
{
    const memory_task *t = arg;
    memory_park *out = result;
    plan p = {.steps = STEPS,
              .payload = PAYLOAD,
              .sleep_at = STEPS,
              .sleep_ms = HOUR_MS,
              .clients = t->clients};
    (void)number;
    rig *r = rig_open(&t->db, &p);
    rig_start(r, 0, FEW);
    await_parked(r, FEW);
    out->before = bench_rss();
    rig_start(r, FEW, FEW + RUNS);
    await_parked(r, FEW + RUNS);
    out->after = bench_rss();
    rig_close(r);
}

/* On the database that has all the runs that wait. */
static void child_first(const void *arg, int number, void *result)
{
    const memory_task *t = arg;
    plan p = {.steps = 1, .payload = PAYLOAD, .clients = 1};
    (void)number;
    int64_t start = bench_now_ns();
    rig *r = rig_open(&t->db, &p);
    rig_run(r, FEW + RUNS);
    *(int64_t *)result = bench_now_ns() - start;
    rig_close(r);
}

static const db_sql SERVER_BYTES = {"SELECT pg_database_size(current_database())", ""};

static void child_disk(const void *arg, int number, void *result)
{
    const memory_task *t = arg;
    int turns = t->db.backend->turns;
    plan p = {.steps = DISK_STEPS, .payload = PAYLOAD, .clients = t->clients};
    (void)number;
    rig *r = rig_open(&t->db, &p);
    int64_t before = turns ? bench_file_size(t->db.path) : rig_number(r, &SERVER_BYTES);
    rig_start(r, 0, DISK_RUNS);
    rig_await(r, DISK_RUNS);
    int64_t after = turns ? 0 : rig_number(r, &SERVER_BYTES);
    rig_close(r);
    if (turns) /* closed: the log is copied back */
        after = bench_file_size(t->db.path);
    *(int64_t *)result = after - before;
}

void case_memory(const bench_case *c, const backend *on)
{
    memory_task t = {.db = on->named("pawl"), .clients = ENGINE_CLIENTS};
    report r = {.bench = "engine", .name = c->name, .in = "bytes", .on = on};
    for (int i = 0; i < report_rounds(); i++) {
        memory_park park;
        int64_t first_ns = 0, disk = 0;
        on->fresh(&t.db);
        bench_children(1, child_park, &t, &park, sizeof park);
        bench_children(1, child_first, &t, &first_ns, sizeof first_ns);
        on->fresh(&t.db);
        bench_children(1, child_disk, &t, &disk, sizeof disk);
        report_set(&r, i, "value", (double)(park.after - park.before) / RUNS, 0);
        report_set(&r, i, "rss", (double)park.after, 0);
        report_set(&r, i, "disk_per_step", (double)disk / (DISK_RUNS * DISK_STEPS), 0);
        report_set(&r, i, "first_ms", (double)first_ns / 1e6, 1);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}
