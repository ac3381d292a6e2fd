/* bench commit: how fast the committer makes units durable, against a bare loop.
 *
 *   commit [[BACKEND:]CASE…]    1 16 256 4096     so many units in flight
 *                               1-4p 256-4p       four processes with so many each on one database
 *                               256-60s           one minute of 256: does it last?
 *
 * bench/README.md says how to read the results. Asserts nothing. */
#include <stdio.h>
#include <string.h>

#include "backend.h"
#include "cases.h"
#include "common.h"
#include "flight.h"
#include "floor.h"

enum { ROUNDS = 5, PROCESSES = 4, LIMIT_BATCH = 1000, COMMITS = 300 };

static const int64_t ROUND_NS = 2500000000;
static const int64_t TRIAL_NS = 500000000;
static const int64_t MINUTE_NS = 60000000000;

typedef struct commit_load {
    int in_flight;
    int batch; /* of the floor */
} commit_load;

/* ---- Measurements, each in a child of its own ---- */

static void child_flight(const void *arg, int number, void *result)
{
    flight_options o = *(const flight_options *)arg;
    o.first_run = 1 + number * FLIGHT_RUNS;
    flight_fly(&o, result);
}

static void child_prepare(const void *arg, int number, void *result)
{
    (void)number;
    (void)result;
    const flight_options *o = arg;
    flight_prepare(o->db, o->gate ? PROCESSES * FLIGHT_RUNS : FLIGHT_RUNS);
}

/* A fresh database, then `count` processes on it. Where the log goes on for ever it is what they
 * have written to it that counts, together. */
static void fly(const flight_options *o, int count, flight_result *results)
{
    const backend *on = o->db->backend;
    char nothing = 0;
    on->fresh(o->db);
    bench_children(1, child_prepare, o, &nothing, 1);
    on->settle(o->db);
    int64_t log = on->log_bytes(o->db);
    bench_children(count, child_flight, o, results, sizeof *results);
    if (!on->turns)
        results[0].wal_bytes = on->log_bytes(o->db) - log;
    for (int i = 0; i < count; i++)
        if (results[i].stalls)
            fprintf(stderr, "bench: warning: %lld times nothing came back for a second\n",
                    (long long)results[i].stalls);
}

typedef struct floor_task {
    const bench_db *source;
    int batch;
} floor_task;

typedef struct floor_figures {
    floor_result floor;
    floor_result limit;
    double commit_us;
} floor_figures;

static void child_floor(const void *arg, int number, void *result)
{
    const floor_task *task = arg;
    const backend *on = task->source->backend;
    floor_figures *out = result;
    (void)number;
    bench_db fresh = on->named("floor");
    floor_rows *rows = on->floor->read(task->source);
    on->fresh(&fresh);
    out->floor = on->floor->write(&fresh, rows, task->batch);
    on->fresh(&fresh);
    out->commit_us = on->floor->commit_us(&fresh, rows, COMMITS);
    on->fresh(&fresh);
    out->limit = on->floor->limit(&fresh, rows, LIMIT_BATCH);
    on->remove(&fresh);
    floor_free(rows);
}

/* ---- Figures of five rounds ---- */

typedef struct figures {
    double value[ROUNDS], floor[ROUNDS], ratio[ROUNDS], p50[ROUNDS], p99[ROUNDS];
    double commit_us[ROUNDS], limit[ROUNDS], rss[ROUNDS], batch[ROUNDS], cpu[ROUNDS],
        server[ROUNDS];
    double floor_cpu[ROUNDS], floor_server[ROUNDS];
    double wal, wait_ms, turn_ms; /* the largest of all rounds */
    double committers;
} figures;

static double larger(double a, double b)
{
    return a > b ? a : b;
}

static double median(const double *values)
{
    return bench_median(values, ROUNDS);
}

static void figures_flight(figures *f, int round, const flight_result *r)
{
    f->p50[round] = larger(f->p50[round], (double)r->wait_p50_ns / 1e3);
    f->p99[round] = larger(f->p99[round], (double)r->wait_p99_ns / 1e3);
    f->rss[round] = larger(f->rss[round], (double)r->rss);
    if (r->committer.batches > 0)
        f->batch[round] = (double)r->committer.committed / (double)r->committer.batches;
    if (r->units > 0) {
        f->cpu[round] = larger(f->cpu[round], (double)r->cpu_ns / 1e3 / (double)r->units);
        f->server[round] = (double)r->server_ns / 1e3 / (double)r->units;
    }
    f->wal = larger(f->wal, (double)r->wal_bytes);
    f->wait_ms = larger(f->wait_ms, (double)r->wait_max_ns / 1e6);
    f->committers = r->committers;
    f->turn_ms = larger(f->turn_ms, (double)r->storage.turn_ns_max / 1e6);
}

static void table_head(void)
{
    fprintf(stderr, "%-16s %9s %9s %6s  %-29s %8s %8s %8s %9s %7s %8s %8s\n", "case", "units/s",
            "floor/s", "ratio", "rounds", "p50 us", "p99 us", "commit", "limit/s", "batch",
            "rss KiB", "wal KiB");
}

/* A figure, or a dash where a case has none. */
static const char *cell(char *to, size_t size, double value, int digits)
{
    if (value > 0)
        snprintf(to, size, "%.*f", digits, value);
    else
        snprintf(to, size, "-");
    return to;
}

/* "postgres:256" */
static const char *title(char *to, size_t size, const bench_case *c, const backend *on)
{
    snprintf(to, size, "%s:%s", on->name, c->name);
    return to;
}

static void table_row(const bench_case *c, const backend *on, const figures *f)
{
    char name[32], rounds[64], commit[32], limit[32];
    snprintf(rounds, sizeof rounds, "%.3f %.3f %.3f %.3f %.3f", f->ratio[0], f->ratio[1],
             f->ratio[2], f->ratio[3], f->ratio[4]);
    fprintf(stderr, "%-16s %9.0f %9.0f %6.3f  %-29s %8.0f %8.0f %8s %9s %7.1f %8.0f %8.0f\n",
            title(name, sizeof name, c, on), median(f->value), median(f->floor), median(f->ratio),
            rounds, median(f->p50), median(f->p99),
            cell(commit, sizeof commit, median(f->commit_us), 1),
            cell(limit, sizeof limit, median(f->limit), 0), median(f->batch), median(f->rss) / 1024,
            f->wal / 1024);
}

static void result_begin(buf *b, const bench_case *c, const backend *on, const figures *f)
{
    bench_json_begin(b, "commit", c->name, on->name);
    bench_json_number(b, "value", median(f->value), 0);
    bench_json_text(b, "in", "units/s");
    bench_json_number(b, "floor", median(f->floor), 0);
    bench_json_number(b, "ratio", median(f->ratio), 3);
    bench_json_numbers(b, "rounds", f->ratio, ROUNDS, 3);
    bench_json_number(b, "p50", median(f->p50), 0);
    bench_json_number(b, "p99", median(f->p99), 0);
    bench_json_number(b, "rss", median(f->rss), 0);
    bench_json_number(b, "wal", f->wal, 0);
    bench_json_number(b, "batch", median(f->batch), 1);
    bench_json_number(b, "committers", f->committers, 0);
    bench_json_number(b, "cpu_us", median(f->cpu), 2);
}

/* ---- Cases ---- */

/* Units that fill a round, found by a short trial; even, since two threads share them. */
static int64_t units_of_a_round(flight_options o)
{
    flight_result r;
    o.units = 0;
    o.duration_ns = TRIAL_NS;
    fly(&o, 1, &r);
    int64_t units = (int64_t)(flight_rate(&r) * (double)ROUND_NS / 1e9);
    return units < COMMITS ? COMMITS : units - units % 2;
}

/* Pawl and floor take turns in going first. A floor that goes first writes again what the round
 * before left: as many rows, of the same kind. */
static void case_ratio(const bench_case *c, const backend *on)
{
    static figures f;
    const commit_load *load = c->load;
    bench_db d = on->named("pawl");
    flight_options o = {.db = &d, .in_flight = load->in_flight};
    floor_task task = {&d, load->batch};
    memset(&f, 0, sizeof f);
    o.units = units_of_a_round(o);
    for (int i = 0; i < ROUNDS; i++) {
        flight_result r;
        floor_figures low;
        if (i % 2 == 1)
            bench_children(1, child_floor, &task, &low, sizeof low);
        fly(&o, 1, &r);
        if (i % 2 == 0)
            bench_children(1, child_floor, &task, &low, sizeof low);
        figures_flight(&f, i, &r);
        f.value[i] = flight_rate(&r);
        f.floor[i] = low.floor.rate;
        f.ratio[i] = f.value[i] / f.floor[i];
        f.commit_us[i] = low.commit_us;
        f.limit[i] = low.limit.rate;
        f.floor_cpu[i] = low.floor.cpu_us;
        f.floor_server[i] = low.floor.server_us;
    }
    on->remove(&d);
    table_row(c, on, &f);
    buf b;
    result_begin(&b, c, on, &f);
    bench_json_number(&b, "commit_us", median(f.commit_us), 1);
    bench_json_number(&b, "limit", median(f.limit), 0);
    bench_json_number(&b, "floor_cpu_us", median(f.floor_cpu), 2);
    if (!on->turns) {
        bench_json_number(&b, "server_us", median(f.server), 2);
        bench_json_number(&b, "floor_server_us", median(f.floor_server), 2);
    }
    bench_json_end(&b);
}

/* All processes together: what they did, from the first beginning to the last end. */
static double rate_of_all(const flight_result *r, int count)
{
    flight_result all = r[0];
    for (int i = 1; i < count; i++) {
        all.units += r[i].units;
        all.start_ns = r[i].start_ns < all.start_ns ? r[i].start_ns : all.start_ns;
        all.end_ns = r[i].end_ns > all.end_ns ? r[i].end_ns : all.end_ns;
    }
    return flight_rate(&all);
}

/* Here the floor is one process with as many units in flight, in the same round. */
static void case_processes(const bench_case *c, const backend *on)
{
    static figures f;
    const commit_load *load = c->load;
    bench_db d = on->named("pawl");
    flight_options one = {.db = &d, .in_flight = load->in_flight, .duration_ns = ROUND_NS};
    flight_options four = one;
    double share = 1; /* of the process that got least, compared with a quarter */
    four.gate = 1;
    memset(&f, 0, sizeof f);
    for (int i = 0; i < ROUNDS; i++) {
        flight_result single, r[PROCESSES];
        if (i % 2 == 1)
            fly(&four, PROCESSES, r);
        fly(&one, 1, &single);
        if (i % 2 == 0)
            fly(&four, PROCESSES, r);
        int64_t sum = 0, least = INT64_MAX;
        for (int p = 0; p < PROCESSES; p++) {
            figures_flight(&f, i, &r[p]);
            sum += r[p].units;
            least = r[p].units < least ? r[p].units : least;
        }
        share = sum ? -larger(-share, -(double)least * PROCESSES / (double)sum) : 0;
        f.value[i] = rate_of_all(r, PROCESSES);
        f.floor[i] = flight_rate(&single);
        f.ratio[i] = f.value[i] / f.floor[i];
    }
    on->remove(&d);
    table_row(c, on, &f);
    fprintf(stderr, "         longest wait for an answer %.1f ms", f.wait_ms);
    if (on->turns)
        fprintf(stderr, ", for a turn %.1f ms", f.turn_ms);
    fprintf(stderr, "; least share of a process %.2f of a fair one\n", share);
    buf b;
    result_begin(&b, c, on, &f);
    bench_json_number(&b, "wait_max_ms", f.wait_ms, 1);
    if (on->turns)
        bench_json_number(&b, "turn_max_ms", f.turn_ms, 1);
    bench_json_number(&b, "least_share", share, 2);
    bench_json_end(&b);
}

static void minute_table(const bench_case *c, const backend *on, const flight_result *r)
{
    char name[32];
    fprintf(stderr, "%-16s %9.0f  units/s in each 10 s:", title(name, sizeof name, c, on),
            flight_rate(r));
    for (int i = 0; i < FLIGHT_WINDOWS; i++)
        fprintf(stderr, " %.0f", r->windows[i]);
    fprintf(stderr, "\n         p50 %.0f us, p99 %.0f us, longest wait %.1f ms; ",
            (double)r->wait_p50_ns / 1e3, (double)r->wait_p99_ns / 1e3,
            (double)r->wait_max_ns / 1e6);
    if (on->turns)
        fprintf(stderr, "largest log %lld KiB, begun anew %lld times, longest stall %.1f ms\n",
                (long long)(r->wal_bytes / 1024), (long long)r->storage.wal.restarts,
                (double)r->storage.wal.stall_ns_max / 1e6);
    else
        fprintf(stderr, "%lld KiB of log written\n", (long long)(r->wal_bytes / 1024));
    fprintf(stderr,
            "         memory after 10^5 units %lld KiB, after 10^6 %lld KiB, at the end %lld "
            "KiB\n",
            (long long)(r->rss_1e5 / 1024), (long long)(r->rss_1e6 / 1024),
            (long long)(r->rss / 1024));
}

static void case_minute(const bench_case *c, const backend *on)
{
    const commit_load *load = c->load;
    bench_db d = on->named("pawl");
    flight_options o = {
        .db = &d, .in_flight = load->in_flight, .duration_ns = MINUTE_NS, .watch = 1};
    flight_result r;
    fly(&o, 1, &r);
    on->remove(&d);
    minute_table(c, on, &r);
    buf b;
    bench_json_begin(&b, "commit", c->name, on->name);
    bench_json_number(&b, "value", flight_rate(&r), 0);
    bench_json_text(&b, "in", "units/s");
    bench_json_numbers(&b, "windows", r.windows, FLIGHT_WINDOWS, 0);
    bench_json_number(&b, "p50", (double)r.wait_p50_ns / 1e3, 0);
    bench_json_number(&b, "p99", (double)r.wait_p99_ns / 1e3, 0);
    bench_json_number(&b, "wait_max_ms", (double)r.wait_max_ns / 1e6, 1);
    if (on->turns)
        bench_json_number(&b, "stall_max_ms", (double)r.storage.wal.stall_ns_max / 1e6, 1);
    bench_json_number(&b, "rss", (double)r.rss, 0);
    bench_json_number(&b, "rss_1e5", (double)r.rss_1e5, 0);
    bench_json_number(&b, "rss_1e6", (double)r.rss_1e6, 0);
    bench_json_number(&b, "wal", (double)r.wal_bytes, 0);
    bench_json_number(&b, "committers", r.committers, 0);
    bench_json_end(&b);
}

/* ---- The command line ---- */

static const commit_load ONE = {1, 1}, FEW = {16, 10}, SOME = {256, 100}, MANY = {4096, 1000};

static const bench_case CASES[] = {
    {"1", case_ratio, &ONE, 0},         {"16", case_ratio, &FEW, 0},
    {"256", case_ratio, &SOME, 0},      {"4096", case_ratio, &MANY, 0},
    {"1-4p", case_processes, &ONE, 1},  {"256-4p", case_processes, &SOME, 0},
    {"256-60s", case_minute, &SOME, 0},
};

int main(int argc, char **argv)
{
    const bench_group group = {"commit", CASES, sizeof CASES / sizeof *CASES, table_head};
    return cases_main(&group, argc, argv);
}
