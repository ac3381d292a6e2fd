/* bench engine crash: all runs half-way, SIGKILL, another process goes on to the end.
 *
 * All runs sleep until one moment, in memory, so that then they go on side by side. When half of
 * all steps have been executed the process kills itself. The executions are counted in memory that
 * it shares with its parent, and so outlive it: what was executed and has no row in the journal
 * was in flight, and only that may be executed twice. The same load without the kill is what the
 * time is compared with. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"

enum { RUNS = 10000, STEPS = 5, PAYLOAD = 100, SLEEP_MS = 6000 };

static const int64_t LOOK_NS = 100000;

/* In memory that the processes share. */
typedef struct sheet {
    atomic_llong executions;
    int64_t begun_ns;
    int64_t killed_ns;
    _Atomic(unsigned char) counts[RUNS * STEPS];
} sheet;

typedef struct crash_task {
    bench_db db;
    int clients;
    sheet *sheet;
    int64_t live; /* runs that are left for the second process */
} crash_task;

typedef struct crash_look {
    int64_t live, rows, in_flight;
} crash_look;

typedef struct crash_end {
    int64_t open_ns, all_ns; /* since it was begun */
} crash_end;

static plan plan_of(const crash_task *t, int64_t until_ms)
{
    return (plan){.steps = STEPS,
                  .payload = PAYLOAD,
                  .sleep_until_ms = until_ms,
                  .clients = t->clients,
                  .counts = t->sheet->counts,
                  .executions = &t->sheet->executions};
}

/* ---- The first process ---- */

/* All runs asleep, and the moment at which they wake. */
static rig *all_asleep(const crash_task *t)
{
    int64_t wake_ms = bench_wall_ms() + SLEEP_MS;
    plan p = plan_of(t, wake_ms);
    rig *r = rig_open(&t->db, &p);
    t->db.backend->settle(&t->db);
    rig_start(r, 0, RUNS);
    while (rig_slept(r) < RUNS)
        bench_sleep_ns(LOOK_NS);
    if (bench_wall_ms() >= wake_ms)
        fputs("bench: warning: the first runs woke before the last ones slept\n", stderr);
    while (bench_wall_ms() < wake_ms)
        bench_sleep_ns(LOOK_NS);
    t->sheet->begun_ns = bench_now_ns();
    return r;
}

_Noreturn static void die_half_way(const crash_task *t)
{
    (void)all_asleep(t);
    while (atomic_load(&t->sheet->executions) < (long long)RUNS * STEPS / 2)
        bench_sleep_ns(LOOK_NS);
    t->sheet->killed_ns = bench_now_ns();
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void child_begin(const void *arg, int number, void *result)
{
    int status = 0;
    (void)number;
    (void)result;
    pid_t pid = fork();
    if (pid < 0)
        bench_die("cannot make a child: %s", strerror(errno));
    if (pid == 0)
        die_half_way(arg);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        bench_die("the process that was to be killed has ended otherwise");
}

static void child_control(const void *arg, int number, void *result)
{
    const crash_task *t = arg;
    (void)number;
    rig *r = all_asleep(t);
    rig_await(r, RUNS);
    *(int64_t *)result = bench_now_ns() - t->sheet->begun_ns;
    rig_check(r, RUNS);
    rig_close(r);
}

/* ---- What is there after the kill ---- */

static void copy_file(const char *from, const char *to)
{
    static char bytes[1 << 16];
    int in = open(from, O_RDONLY | O_CLOEXEC);
    int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    ssize_t n = 0;
    if (in < 0 || out < 0)
        bench_die("cannot copy %s: %s", from, strerror(errno));
    while ((n = read(in, bytes, sizeof bytes)) > 0)
        if (write(out, bytes, (size_t)n) != n)
            bench_die("cannot copy %s: %s", from, strerror(errno));
    close(in);
    close(out);
}

/* Looking at a file would recover it, which is for the second process to do: a copy is looked at.
 * */
static bench_db to_look_at(const crash_task *t)
{
    const backend *on = t->db.backend;
    char from[1100], to[1100];
    if (!on->turns)
        return t->db;
    bench_db copy = on->named("copy");
    on->remove(&copy);
    copy_file(t->db.path, copy.path);
    snprintf(from, sizeof from, "%s-wal", t->db.path);
    snprintf(to, sizeof to, "%s-wal", copy.path);
    copy_file(from, to);
    return copy;
}

static const db_sql ROWS = {
    "SELECT r.id, count(j.pos), max(r.phase) FROM {runs} AS r LEFT JOIN {journal} AS j"
    " ON j.run = r.run AND j.kind = 2 GROUP BY r.run, r.id",
    ""};

/* A run has recorded its first `rows` steps. */
static void look_at_run(const sheet *s, long run, int64_t rows, crash_look *out)
{
    if (run < 0 || run >= RUNS)
        bench_die("there is a run that was not started");
    for (int64_t i = 0; i < STEPS; i++) {
        int executed = atomic_load(&s->counts[run * STEPS + i]) > 0;
        if (i < rows && !executed)
            bench_die("a step is recorded that was never executed");
        out->in_flight += i >= rows && executed;
    }
    out->rows += rows;
}

static void child_look(const void *arg, int number, void *result)
{
    const crash_task *t = arg;
    crash_look *out = result;
    bench_db d = to_look_at(t);
    db_options options = {.url = d.url};
    error err = {.code = PAWL_OK};
    db *opened = NULL;
    db_conn *c = NULL;
    db_stmt *s = NULL;
    (void)number;
    bench_check(db_open(&opened, &options, &err), &err, "look");
    bench_check(db_connect(opened, DB_READER, &c, &err), &err, "look");
    bench_check(db_begin(c, &err), &err, "look");
    bench_check(db_prepare(c, &ROWS, &s, &err), &err, "look");
    while (db_next(s, &err) == DB_ROW) {
        look_at_run(t->sheet, strtol(db_column(s, 0).s.at + sizeof "run", NULL, 10),
                    db_column(s, 1).i, out);
        out->live += db_column(s, 2).i == 0;
    }
    bench_check(err.code, &err, "look");
    db_reset(s);
    db_rollback(c);
    db_disconnect(c);
    db_close(opened);
    if (d.backend->turns)
        d.backend->remove(&d);
}

/* ---- The second process ---- */

static void child_end(const void *arg, int number, void *result)
{
    const crash_task *t = arg;
    crash_end *out = result;
    int64_t start = bench_now_ns();
    plan p = plan_of(t, 1);
    (void)number;
    rig *r = rig_open(&t->db, &p);
    out->open_ns = bench_now_ns() - start;
    rig_await(r, t->live);
    out->all_ns = bench_now_ns() - start;
    rig_check(r, RUNS);
    rig_close(r);
}

static sheet *sheet_new(void)
{
    void *at = mmap(NULL, sizeof(sheet), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED)
        bench_die("out of memory");
    return at;
}

static void round_run(crash_task *t, report *r, int round)
{
    const backend *on = t->db.backend;
    char nothing = 0;
    int64_t control_ns = 0, twice = 0;
    crash_look half = {0}, whole = {0};
    crash_end end = {0};
    t->sheet = sheet_new();
    on->fresh(&t->db);
    bench_children(1, child_begin, t, &nothing, 1);
    bench_children(1, child_look, t, &half, sizeof half);
    t->live = half.live;
    bench_children(1, child_end, t, &end, sizeof end);
    bench_children(1, child_look, t, &whole, sizeof whole);
    if (whole.rows != (int64_t)RUNS * STEPS || whole.live || whole.in_flight)
        bench_die("%lld of %lld steps are recorded at the end", (long long)whole.rows,
                  (long long)RUNS * STEPS);
    for (int i = 0; i < RUNS * STEPS; i++)
        twice += atomic_load(&t->sheet->counts[i]) - 1;
    int64_t first_ns = t->sheet->killed_ns - t->sheet->begun_ns;
    munmap(t->sheet, sizeof(sheet));
    t->sheet = sheet_new();
    on->fresh(&t->db);
    bench_children(1, child_control, t, &control_ns, sizeof control_ns);
    munmap(t->sheet, sizeof(sheet));
    report_set(r, round, "value", (double)(first_ns + end.all_ns) / 1e6, 0);
    report_set(r, round, "floor", (double)control_ns / 1e6, 0);
    report_set(r, round, "ratio", (double)control_ns / (double)(first_ns + end.all_ns), 3);
    report_set(r, round, "before_ms", (double)first_ns / 1e6, 0);
    report_set(r, round, "open_ms", (double)end.open_ns / 1e6, 0);
    report_set(r, round, "after_ms", (double)end.all_ns / 1e6, 0);
    report_set(r, round, "live", (double)half.live, 0);
    report_set(r, round, "in_flight", (double)half.in_flight, 0);
    report_set(r, round, "twice", (double)twice, 0);
}

void case_crash(const bench_case *c, const backend *on)
{
    crash_task t = {.db = on->named("pawl"), .clients = ENGINE_CLIENTS};
    report r = {.bench = "engine", .name = c->name, .in = "ms", .on = on};
    for (int i = 0; i < report_rounds(); i++)
        round_run(&t, &r, i);
    on->remove(&t.db);
    report_print(&r, NULL);
}
