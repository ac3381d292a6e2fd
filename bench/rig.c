/* The engine under load. Waiting for the end of all runs must not slow them down: the functions
 * count themselves, and only when the last one has come to its end is the database asked whether
 * all of that is durable. */
#include "rig.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "handle/handle.h"
#include "report.h"
#include "sched/sched.h"

enum { PAYLOAD_MAX = 1000, CLIENTS_MAX = 1024, CLIENT_STACK = 256 * 1024, STEPS_NAMED = 8 };

static const int64_t LOOK_NS = 200000;
static const int64_t LONG_MS = 1000000;

static const char *const NAMES[STEPS_NAMED] = {"a", "b", "c", "d", "e", "f", "g", "h"};

struct rig {
    plan plan;
    pawl *pawl;
    db_conn *reader;
    pthread_t server;
    atomic_llong ended;
    atomic_llong slept;
    atomic_llong awaited;
    sem_t all; /* as many as are awaited have ended */
    atomic_int next;
    rig_client *client; /* what the clients do … */
    void *client_arg;   /* … with this … */
    int client_end;     /* … up to this number */
};

/* ---- What runs do ---- */

static const char *echo(pawl_work *work, const char *input)
{
    (void)work;
    return input;
}

/* The input has the number of the run, and the name the number of the step. */
static const char *count(pawl_work *work, const char *input)
{
    const plan *p = pawl_work_arg(work);
    long run = strtol(input + 1, NULL, 10);
    long step = pawl_work_name(work)[0] - NAMES[0][0];
    atomic_fetch_add(&p->counts[run * p->steps + step], 1);
    atomic_fetch_add(p->executions, 1);
    return input;
}

static void maybe_sleep(pawl_run *run, rig *r, int step)
{
    const plan *p = &r->plan;
    if (step != p->sleep_at || (p->sleep_ms == 0 && p->sleep_until_ms == 0))
        return;
    atomic_fetch_add(&r->slept, 1);
    if (p->sleep_until_ms)
        pawl_sleep_until(run, p->sleep_until_ms);
    else
        pawl_sleep(run, p->sleep_ms);
}

static const char *flow(pawl_run *run, const char *input)
{
    rig *r = pawl_arg(run);
    const plan *p = &r->plan;
    const char *result = input;
    for (int i = 0; i < p->steps; i++) {
        maybe_sleep(run, r, i);
        if (p->counts)
            result = pawl_step(run, NAMES[i], count, input, PAWL_CALL(.arg = &r->plan));
        else
            result = pawl_step(run, NAMES[i % STEPS_NAMED], echo, input, NULL);
    }
    maybe_sleep(run, r, p->steps);
    rig_end(r);
    return result;
}

void rig_end(rig *r)
{
    if (atomic_fetch_add(&r->ended, 1) + 1 == atomic_load(&r->awaited))
        sem_post(&r->all);
}

/* A JSON string of that many bytes, which begins with the number. */
static void input_of(const plan *p, int number, char out[PAYLOAD_MAX + 1])
{
    if (p->payload == 0) {
        snprintf(out, PAYLOAD_MAX, "null");
        return;
    }
    memset(out, 'x', (size_t)p->payload);
    int size = snprintf(out, PAYLOAD_MAX, "\"%08d", number);
    out[size] = ' ';
    out[p->payload - 1] = '"';
    out[p->payload] = '\0';
}

/* ---- Opening and closing ---- */

void rig_good(rig *r, pawl_code code, const char *doing)
{
    if (code != PAWL_OK)
        bench_die("%s: %s", doing, pawl_errtext(r->pawl));
}

static void *serve(void *arg)
{
    rig *r = arg;
    rig_good(r, pawl_serve(r->pawl), "serve");
    return NULL;
}

rig *rig_open(const bench_db *d, const plan *p)
{
    error err = {.code = PAWL_OK};
    rig *r = calloc(1, sizeof *r);
    if (!r || sem_init(&r->all, 0, 0) != 0)
        bench_die("out of memory");
    r->plan = *p;
    const pawl_options *options =
        PAWL_OPTIONS(.warm_bytes = p->warm_bytes, .at_risk_max = report_at_risk());
    rig_good(r, pawl_open(&r->pawl, d->url, options), "open");
    rig_good(r, pawl_register_workflow(r->pawl, "flow", flow, PAWL_WORKFLOW(.arg = r)), "register");
    bench_check(db_connect(handle_db(r->pawl), DB_READER, &r->reader, &err), &err, "connect");
    if (pthread_create(&r->server, NULL, serve, r) != 0)
        bench_die("no thread");
    while (handle_node(r->pawl) == 0)
        bench_sleep_ns(LOOK_NS);
    return r;
}

pawl *rig_pawl(rig *r)
{
    return r->pawl;
}

void rig_close(rig *r)
{
    pawl_stop(r->pawl);
    pthread_join(r->server, NULL);
    db_disconnect(r->reader);
    pawl_close(r->pawl);
    sem_destroy(&r->all);
    free(r);
}

/* ---- Starting ---- */

static void start_one(rig *r, int number, void *arg)
{
    (void)arg;
    char id[32], input[PAYLOAD_MAX + 1];
    snprintf(id, sizeof id, "run-%08d", number);
    input_of(&r->plan, number, input);
    rig_good(r, pawl_start(r->pawl, "flow", id, input, NULL), "start");
}

static void *client_run(void *arg)
{
    rig *r = arg;
    int number;
    while ((number = atomic_fetch_add(&r->next, 1)) < r->client_end)
        r->client(r, number, r->client_arg);
    return NULL;
}

void rig_clients(rig *r, int first, int end, rig_client *fn, void *arg)
{
    pthread_t threads[CLIENTS_MAX];
    pthread_attr_t attr;
    int count = r->plan.clients < CLIENTS_MAX ? r->plan.clients : CLIENTS_MAX;
    r->client = fn;
    r->client_arg = arg;
    r->client_end = end;
    atomic_store(&r->next, first);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, CLIENT_STACK);
    for (int i = 0; i < count; i++)
        if (pthread_create(&threads[i], &attr, client_run, r) != 0)
            bench_die("no thread");
    for (int i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attr);
}

void rig_start(rig *r, int first, int end)
{
    rig_clients(r, first, end, start_one, NULL);
}

void rig_run(rig *r, int number)
{
    char id[32];
    start_one(r, number, NULL);
    snprintf(id, sizeof id, "run-%08d", number);
    rig_good(r, pawl_wait(r->pawl, id, PAWL_FOREVER, NULL), "wait");
}

/* ---- The end ---- */

/* The runs that this node is to wake soon, or that have no owner: those that sleep for long do not
 * count, however many there are. */
static const db_sql LIVE = {"SELECT run FROM {runs} WHERE owner IN (0, $1) AND wake_at <= $2"
                            " LIMIT 1",
                            "ii"};
static const db_sql DONE = {"SELECT count(*) FROM {runs} WHERE phase = 1", ""};
static const db_sql ALL = {"SELECT count(*) FROM {runs}", ""};

static int64_t read_number(rig *r, const db_sql *sql, const db_value *values, int count)
{
    error err = {.code = PAWL_OK};
    int64_t number = 0;
    int found = 0;
    bench_check(db_begin(r->reader, &err), &err, "read");
    bench_check(db_number(r->reader, sql, values, count, &number, &found, &err), &err, "read");
    db_rollback(r->reader);
    return found ? number : 0;
}

int64_t rig_number(rig *r, const db_sql *sql)
{
    return read_number(r, sql, NULL, 0);
}

void rig_await_rest(rig *r)
{
    const db_value values[] = {db_int(handle_node(r->pawl)), db_int(bench_wall_ms() + LONG_MS)};
    while (read_number(r, &LIVE, values, 2) != 0)
        bench_sleep_ns(LOOK_NS);
}

void rig_await(rig *r, int64_t ended)
{
    atomic_store(&r->awaited, ended);
    if (atomic_load(&r->ended) < ended)
        while (sem_wait(&r->all) != 0)
            ;
    rig_await_rest(r);
}

int64_t rig_ended(rig *r)
{
    return atomic_load(&r->ended);
}

int64_t rig_slept(rig *r)
{
    return atomic_load(&r->slept);
}

void rig_check(rig *r, int64_t runs)
{
    int64_t all = rig_number(r, &ALL), done = rig_number(r, &DONE);
    if (all != runs || done != runs)
        bench_die("%lld runs were started, %lld are there, %lld are done", (long long)runs,
                  (long long)all, (long long)done);
}

committer_stats rig_commits(rig *r)
{
    return committers_stats_now(sched_options_of(handle_sched(r->pawl))->committers);
}
