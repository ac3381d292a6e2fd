/* bench engine claims: runs without an owner that are due, claimed and driven by one process and
 * by four.
 *
 * A process that does not serve starts the runs, so they have no owner. Then one process serves, or
 * four at the same time; each looks for runs that are due and claims them. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

#include "engine.h"

enum { CLAIMS_RUNS = 20000, PROCESSES = 4 };

static const int64_t LOOK_NS = 1000000;

typedef struct claims_task {
    bench_db db;
    int runs;
    atomic_int *ended; /* in memory that the processes share */
} claims_task;

typedef struct claims_result {
    int64_t ns, cpu_ns;
} claims_result;

static const char *done(pawl_run *run, const char *input)
{
    const claims_task *t = pawl_arg(run);
    atomic_fetch_add(t->ended, 1);
    return input;
}

static void good(pawl *p, pawl_code code, const char *doing)
{
    if (code != PAWL_OK)
        bench_die("%s: %s", doing, pawl_errtext(p));
}

static pawl *open_one(const claims_task *t)
{
    pawl *p = NULL;
    good(p, pawl_open(&p, t->db.url, NULL), "open");
    good(p, pawl_register_workflow(p, "done", done, PAWL_WORKFLOW(.arg = (void *)t)), "register");
    return p;
}

typedef struct starter {
    pawl *p;
    int runs;
    atomic_int next;
} starter;

static void *start_some(void *arg)
{
    starter *s = arg;
    int i;
    while ((i = atomic_fetch_add(&s->next, 1)) < s->runs) {
        char id[32];
        snprintf(id, sizeof id, "claim-%08d", i);
        good(s->p, pawl_start(s->p, "done", id, "1", NULL), "start");
    }
    return NULL;
}

static void child_starts(const void *arg, int number, void *result)
{
    const claims_task *t = arg;
    pthread_t threads[ENGINE_CLIENTS];
    starter s = {.p = open_one(t), .runs = t->runs};
    (void)number, (void)result;
    for (int i = 0; i < ENGINE_CLIENTS; i++)
        if (pthread_create(&threads[i], NULL, start_some, &s) != 0)
            bench_die("no thread can be started");
    for (int i = 0; i < ENGINE_CLIENTS; i++)
        pthread_join(threads[i], NULL);
    pawl_close(s.p);
}

static void *serve(void *p)
{
    good(p, pawl_serve(p), "serve");
    return NULL;
}

static void child_claims(const void *arg, int number, void *result)
{
    const claims_task *t = arg;
    claims_result *out = result;
    pthread_t thread;
    (void)number;
    pawl *p = open_one(t);
    bench_child_gate();
    int64_t start = bench_now_ns(), cpu = bench_cpu_ns();
    if (pthread_create(&thread, NULL, serve, p) != 0)
        bench_die("no thread can be started");
    while (atomic_load(t->ended) < t->runs)
        bench_sleep_ns(LOOK_NS);
    out->ns = bench_now_ns() - start;
    pawl_stop(p);
    pthread_join(thread, NULL);
    out->cpu_ns = bench_cpu_ns() - cpu;
    pawl_close(p);
}

static claims_result claim_with(claims_task *t, int processes)
{
    claims_result out[PROCESSES], all = {0};
    int nothing;
    t->db.backend->fresh(&t->db);
    atomic_store(t->ended, 0);
    bench_children(1, child_starts, t, &nothing, sizeof nothing);
    t->db.backend->settle(&t->db);
    bench_children(processes, child_claims, t, out, sizeof *out);
    for (int i = 0; i < processes; i++) {
        all.ns = out[i].ns > all.ns ? out[i].ns : all.ns;
        all.cpu_ns += out[i].cpu_ns;
    }
    return all;
}

void case_claims(const bench_case *c, const backend *on)
{
    claims_task t = {.db = on->named("pawl"), .runs = report_runs(CLAIMS_RUNS)};
    report r = {.bench = "engine", .name = c->name, .in = "runs/s", .on = on};
    t.ended =
        mmap(NULL, sizeof *t.ended, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t.ended == MAP_FAILED)
        bench_die("out of memory");
    for (int i = 0; i < report_rounds(); i++) {
        claims_result one = claim_with(&t, 1), four = claim_with(&t, PROCESSES);
        report_set(&r, i, "value", t.runs * 1e9 / (double)four.ns, 0);
        report_set(&r, i, "floor", t.runs * 1e9 / (double)one.ns, 0);
        report_set(&r, i, "ratio", (double)one.ns / (double)four.ns, 3);
        report_set(&r, i, "cpu_us", (double)four.cpu_ns / 1e3 / t.runs, 1);
        report_set(&r, i, "one_cpu_us", (double)one.cpu_ns / 1e3 / t.runs, 1);
    }
    munmap(t.ended, sizeof *t.ended);
    on->remove(&t.db);
    report_print(&r, NULL);
}
