/* bench engine wake, children, futures, messages, transact: runs that talk with others.
 *
 * Each is a load of its own: what its runs do, what is there before the clock is started, and what
 * is timed. What they have in common with the other cases (rounds, floors, figures) is in
 * engine.c. */
#include <semaphore.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"
#include "journal/op.h"
#ifdef BENCH_POSTGRES
#include "pq.h"
#endif

enum {
    WAKES = 300,
    CHILDREN = 10000,
    FUTURES = 10000,
    FUTURES_FEW = 100,
    MESSAGES = 100000,
    TRANSACTS = 1000
};

static const int64_t LOOK_NS = 1000000; /* to look costs CPU too */
static const char MESSAGE[] =
    "\"....................................................................................\"";

typedef struct talk {
    rig *rig;
    pawl *pawl;
    const engine_load *load;
    const backend *on;
    int64_t resumed_ns; /* wake: when the function went on … */
    int64_t durable_ns; /* … and when what it was told was durable */
    sem_t woken;
} talk;

int engine_items(const engine_load *l, const backend *on)
{
    int items = l->items ? l->items : l->runs * l->steps;
    return l->fewer && !on->turns ? items / l->fewer : items;
}

static int items_of(const talk *t)
{
    return engine_items(t->load, t->on);
}

static talk *talk_new(rig *r, const engine_load *l, const backend *on)
{
    talk *t = calloc(1, sizeof *t);
    if (!t || sem_init(&t->woken, 0, 0) != 0)
        bench_die("out of memory");
    *t = (talk){.rig = r, .pawl = rig_pawl(r), .load = l, .on = on, .woken = t->woken};
    return t;
}

static void workflow(talk *t, const char *name, pawl_workflow_fn *fn)
{
    rig_good(t->rig, pawl_register_workflow(t->pawl, name, fn, PAWL_WORKFLOW(.arg = t)),
             "register");
}

static void start(talk *t, const char *name, const char *id, int64_t count)
{
    char input[32];
    snprintf(input, sizeof input, "%lld", (long long)count);
    rig_good(t->rig, pawl_start(t->pawl, name, id, input, NULL), "start");
}

/* Start a run, and wait for its end. */
static void finish(talk *t, const char *name, const char *id, int64_t count)
{
    start(t, name, id, count);
    rig_good(t->rig, pawl_wait(t->pawl, id, PAWL_FOREVER, NULL), "wait");
}

/* Runs wait when their receive is durable. */
static const db_sql RECEIVES = {"SELECT count(*) FROM {journal} WHERE kind = 23", ""};

static void await_receives(talk *t, int64_t count)
{
    _Static_assert(OP_RECEIVE == 23, "the statement above counts them");
    while (rig_number(t->rig, &RECEIVES) < count)
        bench_sleep_ns(LOOK_NS);
}

/* ---- wake: a message into a run that waits ---- */

/* Everything before is durable when a step is called. */
static const char *answer(pawl_work *work, const char *input)
{
    talk *t = pawl_work_arg(work);
    t->durable_ns = bench_now_ns();
    sem_post(&t->woken);
    return input;
}

static const char *waiter(pawl_run *run, const char *input)
{
    talk *t = pawl_arg(run);
    int64_t count = pawl_get_int(input, "", 0);
    for (int64_t i = 0; i < count; i++) {
        const char *message = NULL;
        pawl_receive(run, "box", PAWL_FOREVER, &message);
        t->resumed_ns = bench_now_ns();
        pawl_step(run, "answer", answer, "null", PAWL_CALL(.arg = t));
    }
    return "null";
}

static void *wake_prepare(rig *r, const engine_load *l, const backend *on)
{
    talk *t = talk_new(r, l, on);
    workflow(t, "waiter", waiter);
    start(t, "waiter", "waiter", l->runs);
    return t;
}

static void wake_once(void *own, int number, int64_t took_ns[2])
{
    talk *t = own;
    await_receives(t, number + 1);
    int64_t began = bench_now_ns();
    rig_good(t->rig, pawl_send(t->pawl, "waiter", "box", MESSAGE, NULL), "send");
    while (sem_wait(&t->woken) != 0)
        ;
    took_ns[0] = t->resumed_ns - began;
    took_ns[1] = t->durable_ns - began;
}

const engine_load LOAD_WAKE = {.runs = WAKES, .prepare = wake_prepare, .once = wake_once};

/* ---- children ---- */

static const char *nothing(pawl_run *run, const char *input)
{
    (void)run;
    return input;
}

static const char *parent(pawl_run *run, const char *input)
{
    size_t count = (size_t)pawl_get_int(input, "", 0);
    pawl_future **all = pawl_alloc(run, count * sizeof *all);
    for (size_t i = 0; i < count; i++)
        all[i] = pawl_child_later(run, "nothing", "null", NULL);
    pawl_all(run, all, count);
    return "null";
}

static void *children_prepare(rig *r, const engine_load *l, const backend *on)
{
    talk *t = talk_new(r, l, on);
    workflow(t, "nothing", nothing);
    workflow(t, "parent", parent);
    return t;
}

static void children_go(void *own)
{
    finish(own, "parent", "parent", CHILDREN);
}

const engine_load LOAD_CHILDREN = {.batch = 1000,
                                   .in = "runs/s",
                                   .items = CHILDREN,
                                   .prepare = children_prepare,
                                   .go = children_go};

/* ---- messages: into one run, and one into each of as many ---- */

static const char *reader(pawl_run *run, const char *input)
{
    talk *t = pawl_arg(run);
    int64_t count = pawl_get_int(input, "", 0);
    for (int64_t i = 0; i < count; i++) {
        const char *message = NULL;
        pawl_receive(run, "box", PAWL_FOREVER, &message);
        pawl_drop(run, message);
    }
    rig_end(t->rig);
    return "null";
}

static void *messages_prepare(rig *r, const engine_load *l, const backend *on)
{
    talk *t = talk_new(r, l, on);
    workflow(t, "reader", reader);
    start(t, "reader", "reader", items_of(t));
    await_receives(t, 1);
    return t;
}

static void send_one(rig *r, int number, void *arg)
{
    talk *t = arg;
    (void)number;
    rig_good(r, pawl_send(t->pawl, "reader", "box", MESSAGE, NULL), "send");
}

static void messages_go(void *own)
{
    talk *t = own;
    rig_clients(t->rig, 0, items_of(t), send_one, t);
    rig_good(t->rig, pawl_wait(t->pawl, "reader", PAWL_FOREVER, NULL), "wait");
}

const engine_load LOAD_MESSAGES = {.clients = ENGINE_CLIENTS,
                                   .batch = 1000,
                                   .in = "messages/s",
                                   .items = MESSAGES,
                                   .rounds_max = 3,
                                   .fewer = 5,
                                   .prepare = messages_prepare,
                                   .go = messages_go};

static const char *reader_id(int number, char id[32])
{
    snprintf(id, 32, "reader-%08d", number);
    return id;
}

static void start_each(rig *r, int number, void *arg)
{
    char id[32];
    (void)r;
    start(arg, "reader", reader_id(number, id), 1);
}

static void send_each(rig *r, int number, void *arg)
{
    talk *t = arg;
    char id[32];
    rig_good(r, pawl_send(t->pawl, reader_id(number, id), "box", MESSAGE, NULL), "send");
}

static void *each_prepare(rig *r, const engine_load *l, const backend *on)
{
    talk *t = talk_new(r, l, on);
    workflow(t, "reader", reader);
    rig_clients(r, 0, items_of(t), start_each, t);
    await_receives(t, items_of(t));
    return t;
}

static void each_go(void *own)
{
    talk *t = own;
    rig_clients(t->rig, 0, items_of(t), send_each, t);
    rig_await(t->rig, items_of(t));
}

const engine_load LOAD_MESSAGES_EACH = {.clients = ENGINE_CLIENTS,
                                        .batch = 1000,
                                        .in = "messages/s",
                                        .items = MESSAGES,
                                        .rounds_max = 1,
                                        .fewer = 5,
                                        .prepare = each_prepare,
                                        .go = each_go};

/* ---- transact: a row of the application and its record in one commit ---- */

static void own_row_sqlite(sqlite3 *file, const char *sql, const char *number)
{
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(file, sql, -1, &s, NULL);
    if (rc == SQLITE_OK && number) {
        sqlite3_bind_int64(s, 1, strtoll(number, NULL, 10));
        sqlite3_bind_text(s, 2, MESSAGE, sizeof MESSAGE - 1, SQLITE_STATIC);
    }
    if (rc != SQLITE_OK || sqlite3_step(s) != SQLITE_DONE)
        bench_die("%s: %s", sql, sqlite3_errmsg(file));
    sqlite3_finalize(s);
}

static void own_row_pg(void *native, const char *sql, const char *number)
{
#ifdef BENCH_POSTGRES
    const char *values[] = {number, MESSAGE};
    PGconn *conn = native;
    PQclear(
        pq_check(conn, PQexecParams(conn, sql, number ? 2 : 0, NULL, values, NULL, NULL, 0), sql));
#else
    (void)native, (void)sql, (void)number;
#endif
}

static void own_row_on(const talk *t, void *native, const char *sql, const char *number)
{
    if (t->on->turns)
        own_row_sqlite(native, sql, number);
    else
        own_row_pg(native, sql, number);
}

/* A row with that number; below 0: its table too. Each step has a row, as the floor expects. */
static const char *own_row(pawl_work *work, void *native, const char *input)
{
    const talk *t = pawl_work_arg(work);
    if (input[0] == '-')
        own_row_on(t, native, t->on->floor->own_table, NULL);
    own_row_on(t, native, t->on->floor->own_insert, input);
    return "null";
}

static const char *writer(pawl_run *run, const char *input)
{
    const pawl_call_options *options = PAWL_CALL(.arg = pawl_arg(run));
    int64_t count = pawl_get_int(input, "", 0);
    for (int64_t i = 0; i < count; i++) {
        char number[32];
        snprintf(number, sizeof number, "%lld", (long long)i);
        pawl_transact(run, "row", own_row, number, options);
    }
    if (count == 0)
        pawl_transact(run, "table", own_row, "-1", options);
    return "null";
}

static void *transact_prepare(rig *r, const engine_load *l, const backend *on)
{
    talk *t = talk_new(r, l, on);
    workflow(t, "writer", writer);
    finish(t, "writer", "table", 0);
    return t;
}

static void transact_go(void *own)
{
    finish(own, "writer", "writer", TRANSACTS);
}

const engine_load LOAD_TRANSACT = {.batch = 1,
                                   .in = "steps/s",
                                   .items = TRANSACTS,
                                   .prepare = transact_prepare,
                                   .go = transact_go};

/* ---- futures: many in one run, against a few in each of several ---- */

typedef struct futures_task {
    bench_db db;
    int runs;
    int each;
} futures_task;

typedef struct futures_result {
    int64_t ns, cpu_ns;
} futures_result;

static const char *no_work(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

static const char *caller(pawl_run *run, const char *input)
{
    size_t count = (size_t)pawl_get_int(input, "", 0);
    pawl_future **all = pawl_alloc(run, count * sizeof *all);
    for (size_t i = 0; i < count; i++)
        all[i] = pawl_call_later(run, "no-work", "null", NULL);
    pawl_all(run, all, count);
    return "null";
}

static void child_futures(const void *arg, int number, void *result)
{
    const futures_task *task = arg;
    futures_result *out = result;
    (void)number;
    rig *r = rig_open(&task->db, &(plan){.clients = 1});
    talk *t = talk_new(r, NULL, task->db.backend);
    rig_good(r, pawl_register_work(t->pawl, "no-work", no_work, NULL), "register");
    workflow(t, "caller", caller);
    t->on->settle(&task->db);
    int64_t cpu = bench_cpu_ns(), began = bench_now_ns();
    for (int i = 0; i < task->runs; i++) {
        char id[32];
        finish(t, "caller", reader_id(i, id), task->each);
    }
    out->ns = bench_now_ns() - began;
    out->cpu_ns = bench_cpu_ns() - cpu;
    rig_close(r);
    free(t);
}

static futures_result futures_run(const backend *on, int each)
{
    futures_task t = {.db = on->named("pawl"), .runs = FUTURES / each, .each = each};
    futures_result result;
    on->fresh(&t.db);
    bench_children(1, child_futures, &t, &result, sizeof result);
    on->remove(&t.db);
    return result;
}

void case_futures(const bench_case *c, const backend *on)
{
    report r = {.bench = "engine", .name = c->name, .in = "calls/s", .on = on};
    for (int i = 0; i < report_rounds(); i++) {
        futures_result many, few;
        if (i % 2 == 1)
            few = futures_run(on, FUTURES_FEW);
        many = futures_run(on, FUTURES);
        if (i % 2 == 0)
            few = futures_run(on, FUTURES_FEW);
        report_set(&r, i, "value", FUTURES * 1e9 / (double)many.ns, 0);
        report_set(&r, i, "growth", (double)many.ns / (double)few.ns, 3);
        report_set(&r, i, "few", FUTURES * 1e9 / (double)few.ns, 0);
        report_set(&r, i, "cpu_us", (double)many.cpu_ns / 1e3 / FUTURES, 2);
        report_set(&r, i, "few_cpu_us", (double)few.cpu_ns / 1e3 / FUTURES, 2);
    }
    report_print(&r, NULL);
}
