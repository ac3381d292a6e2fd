/* Two threads that keep units in flight, and what is to be seen meanwhile. They submit without
 * waiting and lead when they have nothing else to do, as the runners of an engine would. */
#include "flight.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"
#include "db/unit.h"
#include "rows/node.h"

enum { FENCE = 1, FLIERS_MAX = 2 };

static const db_sql RUN_INSERT = {
    "INSERT INTO {runs} (run, tenant, id, workflow, version, owner, fence, created_at, updated_at)"
    " VALUES ($1, '', $2, 'bench', '1', 1, $3, $4, $4)",
    "itii"};

static const db_sql RUN_GUARD = {"SELECT 1 FROM {runs} WHERE run = $1 AND fence = $2 {LOCK_SHARED}",
                                 "ii"};

static const db_sql JOURNAL_INSERT = {
    "INSERT INTO {journal} (run, generation, seq, kind, name, at, enc, data)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $8)",
    "iiiitiib"};

static const char DATA[] = "{\"order\":1042,\"customer\":\"c-77\",\"items\":[3,14,15,92,65],\"total"
                           "\":1999,\"note\":\"leave at the door\"}    ";
enum { DATA_SIZE = 100 };
_Static_assert(sizeof DATA - 1 >= DATA_SIZE, "a row carries 100 bytes");

typedef struct flier flier;

/* A unit with its arena, used again and again: in the steady state nothing is allocated. */
typedef struct slot {
    struct slot *next;
    flier *owner;
    arena *arena;
    unit *unit;
    int64_t submitted_ns;
    int64_t done_ns;
} slot;

typedef struct flight {
    const flight_options *options;
    committers *committers;
    node node;
    db_clock clock;
    int64_t start_ns;
    int64_t wall_ms; /* at start_ns */
    submitter submitters[FLIGHT_RUNS];
    int64_t seqs[FLIGHT_RUNS];
    int flier_count;
    atomic_int flying;
} flight;

/* A thread. Others touch only what is atomic, the mutex and the condition. */
struct flier {
    flight *flight;
    pthread_t thread;
    int number;
    int64_t next; /* number of its next unit */
    int64_t submitted;
    int64_t quota; /* units to submit; INT64_MAX: by time */
    int share;     /* of the units in flight */
    int in_flight;
    int over; /* the time is up */
    slot *slots;
    slot *free;
    bench_hist wait;
    int64_t stalls;
    int64_t collected;
    _Atomic(slot *) back;    /* answered, pushed by the leader … */
    atomic_llong back_count; /* … so many since the beginning */
    atomic_llong wake_at;    /* it sleeps until back_count is this */
    atomic_llong done;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
};

/* ---- One unit ---- */

/* On the leader's thread: note the time, hand the slot back, wake its owner if it sleeps and this
 * is the one that it sleeps for. */
static void unit_done(unit *u, void *arg)
{
    slot *s = arg;
    flier *f = s->owner;
    if (u->answer == UNIT_UNDECIDED)
        return;
    s->done_ns = bench_now_ns();
    slot *head = atomic_load_explicit(&f->back, memory_order_relaxed);
    do
        s->next = head;
    while (!atomic_compare_exchange_weak(&f->back, &head, s));
    if (atomic_fetch_add(&f->back_count, 1) + 1 != atomic_load(&f->wake_at))
        return;
    pthread_mutex_lock(&f->mutex); /* it sleeps, or has not looked yet */
    pthread_mutex_unlock(&f->mutex);
    pthread_cond_signal(&f->cond);
}

static void unit_build(flier *f, slot *s)
{
    flight *g = f->flight;
    int index = (int)(f->next % FLIGHT_RUNS);
    int64_t run = g->options->first_run + index;
    int64_t seq = ++g->seqs[index];
    f->next += g->flier_count;
    arena_reset(s->arena);
    s->submitted_ns = bench_now_ns();
    s->unit = unit_new(s->arena);
    if (!s->unit)
        bench_die("out of memory");
    int64_t at = g->wall_ms + (s->submitted_ns - g->start_ns) / 1000000;
    db_value guard[] = {db_int(run), db_int(FENCE)};
    db_value row[] = {db_int(run),
                      db_int(1),
                      db_int(seq),
                      db_int(1),
                      db_text(SLICE_LIT("step")),
                      db_int(at),
                      db_int(0),
                      db_bytes((slice){DATA, DATA_SIZE})};
    s->unit->submitter = &g->submitters[index];
    s->unit->class = UNIT_OF_RUN;
    unit_guard(s->unit, &RUN_GUARD, "fence", unit_key("runs", run), guard, DB_COUNT(guard));
    unit_write(s->unit, &JOURNAL_INSERT, unit_key("journal", run), row, DB_COUNT(row));
}

/* What a unit's answer says about the measurement: anything but "committed" makes it void. */
static void unit_land(flier *f, slot *s)
{
    const unit *u = s->unit;
    if (u->answer != UNIT_COMMITTED)
        bench_die("a unit was not committed: %s, %s, %s", pawl_code_name(u->code),
                  u->refused ? u->refused : "", u->message ? u->message : "");
    bench_hist_add(&f->wait, s->done_ns - s->submitted_ns);
    atomic_fetch_add_explicit(&f->done, 1, memory_order_relaxed);
}

/* ---- The threads ---- */

static int more(flier *f)
{
    const flight_options *o = f->flight->options;
    if (f->submitted >= f->quota || f->over)
        return 0;
    if (o->units == 0 && f->submitted % 16 == 0)
        f->over = bench_now_ns() - f->flight->start_ns >= o->duration_ns;
    return !f->over;
}

static void slots_collect(flier *f)
{
    slot *s = atomic_exchange(&f->back, NULL);
    while (s) {
        slot *next = s->next;
        unit_land(f, s);
        s->next = f->free;
        f->free = s;
        f->in_flight--;
        f->collected++;
        s = next;
    }
}

/* Sleep until a quarter of the share has come back: a thread that is woken for each unit costs
 * more than what it is woken for. The deadline is no part of the protocol: it makes a committer
 * that forgets a unit visible instead of hanging the benchmark. */
static void slots_await(flier *f)
{
    clock_source *c = clock_system();
    int64_t quarter = f->share / 4 > 0 ? f->share / 4 : 1;
    int64_t need = f->collected + (f->in_flight < quarter ? f->in_flight : quarter);
    pthread_mutex_lock(&f->mutex);
    atomic_store(&f->wake_at, need);
    while (atomic_load(&f->back_count) < need) {
        if (!c->wait(c, &f->cond, &f->mutex, c->mono_ns(c) + 1000000000))
            continue;
        f->stalls++;
        break;
    }
    pthread_mutex_unlock(&f->mutex);
}

/* Runs are spread over the committers as an engine does it. */
static committer *committer_of(const flight *g, const unit *u)
{
    return committers_of(g->committers, u->first->key);
}

/* Lead a committer that has no leader, from another one on for each thread. */
static int drive(flier *f)
{
    committers *all = f->flight->committers;
    int count = committers_count(all);
    for (int i = 0; i < count; i++)
        if (committer_drive(committers_at(all, (f->number + i) % count)))
            return 1;
    return 0;
}

static void *flier_many(void *arg)
{
    flier *f = arg;
    for (;;) {
        slots_collect(f);
        while (f->free && more(f)) {
            slot *s = f->free;
            f->free = s->next;
            unit_build(f, s);
            s->unit->done = unit_done;
            s->unit->done_arg = s;
            f->submitted++;
            f->in_flight++;
            committer_submit(committer_of(f->flight, s->unit), s->unit);
        }
        if (f->in_flight == 0)
            break;
        if (!drive(f))
            slots_await(f);
    }
    committers_leave(
        f->flight->committers); /* the other thread may wait for a unit that is queued */
    atomic_fetch_sub(&f->flight->flying, 1);
    return NULL;
}

static void *flier_single(void *arg)
{
    flier *f = arg;
    slot *s = f->free;
    while (more(f)) {
        unit_build(f, s);
        f->submitted++;
        committer_commit(committer_of(f->flight, s->unit), s->unit);
        s->done_ns = bench_now_ns();
        unit_land(f, s);
    }
    atomic_fetch_sub(&f->flight->flying, 1);
    return NULL;
}

static void flier_init(flier *f, flight *g, int number)
{
    int share = g->options->in_flight / g->flier_count;
    f->flight = g;
    f->share = share;
    f->number = number;
    f->next = number;
    f->quota = g->options->units ? g->options->units / g->flier_count : INT64_MAX;
    f->slots = calloc((size_t)share, sizeof *f->slots);
    if (!f->slots || pthread_mutex_init(&f->mutex, NULL) != 0 || clock_cond_init(&f->cond) != 0)
        bench_die("out of memory");
    for (int i = 0; i < share; i++) {
        slot *s = &f->slots[i];
        *s = (slot){.next = f->free, .owner = f, .arena = arena_new(0)};
        if (!s->arena)
            bench_die("out of memory");
        f->free = s;
    }
}

static void flier_free(flier *f)
{
    for (slot *s = f->free; s; s = s->next)
        arena_free(s->arena);
    pthread_cond_destroy(&f->cond);
    pthread_mutex_destroy(&f->mutex);
    free(f->slots);
}

/* ---- A flight ---- */

static void largest(int64_t *into, int64_t value)
{
    if (value > *into)
        *into = value;
}

static void log_look(const flight *g, flight_result *out)
{
    const bench_db *d = g->options->db;
    if (d->backend->turns)
        largest(&out->wal_bytes, d->backend->log_bytes(d));
}

/* Every 10 ms: the log, the memory at its marks, the units at the end of each window. */
static void flight_watch(flight *g, flier *fliers, flight_result *out)
{
    int64_t width = g->options->duration_ns / FLIGHT_WINDOWS;
    int64_t before = 0, since = g->start_ns;
    int window = 0;
    while (atomic_load(&g->flying) > 0) {
        bench_sleep_ns(10000000);
        int64_t units = 0, now = bench_now_ns();
        for (int i = 0; i < g->flier_count; i++)
            units += atomic_load_explicit(&fliers[i].done, memory_order_relaxed);
        log_look(g, out);
        if (units >= 100000 && out->rss_1e5 == 0)
            out->rss_1e5 = bench_rss();
        if (units >= 1000000 && out->rss_1e6 == 0)
            out->rss_1e6 = bench_rss();
        if (window < FLIGHT_WINDOWS && now - g->start_ns >= (window + 1) * width) {
            out->windows[window++] = (double)(units - before) * 1e9 / (double)(now - since);
            before = units;
            since = now;
        }
    }
}

static void flight_run(flight *g, flier *fliers, flight_result *out)
{
    const bench_db *d = g->options->db;
    int64_t server = g->options->gate ? 0 : d->backend->server_cpu_ns(d); /* takes a while */
    int64_t cpu = bench_cpu_ns();
    g->start_ns = bench_now_ns();
    g->wall_ms = bench_wall_ms();
    g->flying = g->flier_count;
    for (int i = 0; i < g->flier_count; i++) {
        void *(*fn)(void *) = g->options->in_flight == 1 ? flier_single : flier_many;
        if (pthread_create(&fliers[i].thread, NULL, fn, &fliers[i]) != 0)
            bench_die("cannot make a thread");
    }
    if (g->options->watch)
        flight_watch(g, fliers, out);
    for (int i = 0; i < g->flier_count; i++)
        pthread_join(fliers[i].thread, NULL);
    out->start_ns = g->start_ns;
    out->end_ns = bench_now_ns();
    out->cpu_ns = bench_cpu_ns() - cpu;
    out->server_ns = g->options->gate ? 0 : d->backend->server_cpu_ns(d) - server;
}

static void flight_sum(flight *g, flier *fliers, flight_result *out)
{
    for (int i = 0; i < g->flier_count; i++) {
        out->units += fliers[i].done;
        out->stalls += fliers[i].stalls;
        if (i > 0)
            bench_hist_merge(&fliers[0].wait, &fliers[i].wait);
    }
    out->wait_p50_ns = bench_hist_at(&fliers[0].wait, 0.50);
    out->wait_p99_ns = bench_hist_at(&fliers[0].wait, 0.99);
    out->wait_max_ns = fliers[0].wait.max;
    out->rss = bench_rss();
    out->committer = committers_stats_now(g->committers);
    out->committers = committers_count(g->committers);
    if (g->options->db->backend->turns)
        out->storage = db_sqlite_figures(committer_connection(committers_at(g->committers, 0)));
    largest(&out->wal_bytes, out->storage.wal.bytes_max);
    log_look(g, out);
}

/* Become a node, with a row for each connection that commits. */
static void flight_join(flight *g, db *d)
{
    error err = {.code = PAWL_OK};
    db_conn *c = NULL;
    node_options options = {.slots = FLIGHT_COMMITTERS, .name = "bench"};
    bench_check(committers_open(&g->committers, d, NULL, FLIGHT_COMMITTERS, &err), &err,
                "open the committers");
    bench_check(db_connect(d, DB_COMMITTER, &c, &err), &err, "connect");
    db_clock_init(&g->clock, d);
    bench_check(db_clock_measure(&g->clock, c, &err), &err, "ask for the time");
    bench_check(node_join(&g->node, committers_at(g->committers, 0), c, &g->clock, &options, &err),
                &err, "join");
    committers_set_node(g->committers, g->node.id, 1, g->node.token);
    db_disconnect(c);
}

static void flight_leave(flight *g)
{
    committers_close(g->committers);
    node_leave(&g->node);
    db_clock_free(&g->clock);
}

void flight_fly(const flight_options *options, flight_result *out)
{
    db_options open = {.url = options->db->url};
    error err = {.code = PAWL_OK};
    db *d = NULL;
    flight *g = calloc(1, sizeof *g);
    flier *fliers = calloc(FLIERS_MAX, sizeof *fliers);
    if (!g || !fliers)
        bench_die("out of memory");
    g->options = options;
    g->flier_count = options->in_flight == 1 ? 1 : FLIERS_MAX;
    bench_check(db_open(&d, &open, &err), &err, "open");
    flight_join(g, d);
    for (int i = 0; i < g->flier_count; i++)
        flier_init(&fliers[i], g, i);
    if (options->gate)
        bench_child_gate();
    flight_run(g, fliers, out);
    flight_sum(g, fliers, out);
    flight_leave(g);
    db_close(d);
    for (int i = 0; i < g->flier_count; i++)
        flier_free(&fliers[i]);
    free(fliers);
    free(g);
}

double flight_rate(const flight_result *r)
{
    return (double)r->units * 1e9 / (double)(r->end_ns > r->start_ns ? r->end_ns - r->start_ns : 1);
}

void flight_prepare(const bench_db *d, int runs)
{
    db_options open = {.url = d->url};
    error err = {.code = PAWL_OK};
    db *opened = NULL;
    db_conn *c = NULL;
    int64_t now = bench_wall_ms();
    bench_check(db_open(&opened, &open, &err), &err, "open");
    bench_check(db_connect(opened, DB_WRITER, &c, &err), &err, "connect");
    bench_check(db_begin(c, &err), &err, "begin");
    for (int i = 1; i <= runs; i++) {
        char id[32];
        int size = snprintf(id, sizeof id, "bench-%05d", i);
        db_value values[] = {db_int(i), db_text((slice){id, (size_t)size}), db_int(FENCE),
                             db_int(now)};
        bench_check(db_run(c, &RUN_INSERT, values, DB_COUNT(values), &err), &err, "insert a run");
    }
    bench_check(db_commit(c, &err), &err, "commit");
    db_disconnect(c);
    db_close(opened);
}
