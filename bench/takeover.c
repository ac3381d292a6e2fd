/* bench engine takeover: one of two processes is killed, and what it was at goes on in the other.
 *
 * Each process starts half of the runs, which have one step of a second. When the steps are under
 * way one process is killed. Meanwhile the other one starts runs without steps, one after the
 * other, and waits for each: they should be as quick as without the kill. The runs note in memory
 * that the processes share that they have come to their end. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"

enum { RUNS = 200, STEP_MS = 1000, KILL_MS = 300 };

static const int64_t LOOK_NS = 20000000;

/* In memory that the processes share. */
typedef struct sheet {
    atomic_int started; /* by the process that may be killed: all that are its own */
    atomic_int ended[RUNS];
} sheet;

typedef struct takeover_task {
    bench_db db;
    sheet *sheet;
    int kills;
} takeover_task;

typedef struct takeover_result {
    int64_t all_ns; /* until all runs have come to their end */
    bench_hist fresh;
} takeover_result;

/* ---- What runs do ---- */

static const char *work_slow(pawl_work *work, const char *input)
{
    (void)work;
    bench_sleep_ns((int64_t)STEP_MS * 1000000);
    return input;
}

static const char *slow(pawl_run *run, const char *input)
{
    sheet *s = pawl_arg(run);
    pawl_step(run, "slow", work_slow, input, NULL);
    atomic_store(&s->ended[pawl_get_int(input, "", 0)], 1);
    return input;
}

static const char *fresh(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

/* ---- A process ---- */

static void good(pawl *p, pawl_code code, const char *doing)
{
    if (code != PAWL_OK)
        bench_die("%s: %s", doing, pawl_errtext(p));
}

static void *serve(void *p)
{
    good(p, pawl_serve(p), "serve");
    return NULL;
}

static pawl *open_node(const takeover_task *t, pthread_t *thread)
{
    pawl *p = NULL;
    good(p, pawl_open(&p, t->db.url, NULL), "open");
    good(p, pawl_register_workflow(p, "slow", slow, PAWL_WORKFLOW(.arg = t->sheet)), "register");
    good(p, pawl_register_workflow(p, "fresh", fresh, NULL), "register");
    if (pthread_create(thread, NULL, serve, p) != 0)
        bench_die("no thread can be started");
    return p;
}

static void start_half(pawl *p, int first)
{
    for (int i = first; i < RUNS; i += 2) {
        char id[32], input[32];
        snprintf(id, sizeof id, "slow-%d", i);
        snprintf(input, sizeof input, "%d", i);
        good(p, pawl_start(p, "slow", id, input, NULL), "start");
    }
}

_Noreturn static void be_the_other(const takeover_task *t)
{
    pthread_t thread;
    pawl *p = open_node(t, &thread);
    start_half(p, 0);
    atomic_store(&t->sheet->started, 1);
    for (;;)
        pause();
}

static void fresh_run(pawl *p, int number, bench_hist *h)
{
    char id[32];
    snprintf(id, sizeof id, "fresh-%d", number);
    int64_t began = bench_now_ns();
    good(p, pawl_start(p, "fresh", id, "1", NULL), "start");
    good(p, pawl_wait(p, id, PAWL_FOREVER, NULL), "wait");
    bench_hist_add(h, bench_now_ns() - began);
}

static int all_have_ended(const sheet *s)
{
    for (int i = 0; i < RUNS; i++)
        if (!atomic_load(&s->ended[i]))
            return 0;
    return 1;
}

static void measure(const takeover_task *t, pid_t other, takeover_result *out)
{
    pthread_t thread;
    pawl *p = open_node(t, &thread);
    int64_t began = bench_now_ns();
    start_half(p, 1);
    while (!atomic_load(&t->sheet->started))
        bench_sleep_ns(LOOK_NS);
    bench_sleep_ns((int64_t)KILL_MS * 1000000);
    if (t->kills)
        kill(other, SIGKILL);
    for (int i = 0; !all_have_ended(t->sheet); i++) {
        fresh_run(p, i, &out->fresh);
        bench_sleep_ns(LOOK_NS);
    }
    out->all_ns = bench_now_ns() - began;
    pawl_stop(p);
    pthread_join(thread, NULL);
    pawl_close(p);
}

static void child_live(const void *arg, int number, void *result)
{
    (void)number;
    pid_t other = fork();
    if (other < 0)
        bench_die("cannot make a child: %s", strerror(errno));
    if (other == 0)
        be_the_other(arg);
    measure(arg, other, result);
    kill(other, SIGKILL);
    while (waitpid(other, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* ---- Rounds ---- */

static takeover_result live(takeover_task *t, int kills)
{
    static takeover_result out;
    out = (takeover_result){0};
    t->kills = kills;
    t->sheet =
        mmap(NULL, sizeof *t->sheet, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (t->sheet == MAP_FAILED)
        bench_die("out of memory");
    t->db.backend->fresh(&t->db);
    bench_children(1, child_live, t, &out, sizeof out);
    munmap(t->sheet, sizeof *t->sheet);
    return out;
}

void case_takeover(const bench_case *c, const backend *on)
{
    takeover_task t = {.db = on->named("pawl")};
    report r = {.bench = "engine", .name = c->name, .in = "ms", .on = on};
    for (int i = 0; i < report_rounds(); i++) {
        takeover_result without = live(&t, 0), with = live(&t, 1);
        double calm = (double)bench_hist_at(&without.fresh, 0.5) / 1e6;
        double fresh_ms = (double)bench_hist_at(&with.fresh, 0.5) / 1e6;
        report_set(&r, i, "value", fresh_ms, 2);
        report_set(&r, i, "floor", calm, 2);
        report_set(&r, i, "ratio", calm / fresh_ms, 3);
        report_set(&r, i, "fresh_p99_ms", (double)bench_hist_at(&with.fresh, 0.99) / 1e6, 1);
        report_set(&r, i, "calm_p99_ms", (double)bench_hist_at(&without.fresh, 0.99) / 1e6, 1);
        report_set(&r, i, "all_ms", (double)with.all_ns / 1e6, 0);
        report_set(&r, i, "calm_all_ms", (double)without.all_ns / 1e6, 0);
    }
    on->remove(&t.db);
    report_print(&r, NULL);
}
