/* The scheduler of a node: driven by its own threads or by a caller by hand, and becoming a node.
 * leave.c has the end of being one. */
#include "sched/sched_internal.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/forks.h"
#include "db/inflight_file.h"
#include "db/liveness_file.h"
#include "rows/origin.h"
#include "sched/dispatch.h"
#include "sched/node_ready.h"
#include "sched/rejoin.h"
#include "sched/work_limit.h"
#include "sched/work_threads.h"

static const int64_t SECOND_NS = 1000000000, WORKERS_NS = 5000000;
enum {
    WARM_RUN_BYTES = 16 * 1024, /* the memory of a warm run that waits, more or less */
    ANEW_MS = 200,              /* between two attempts to begin anew */
};

/* ---- The pipe ---- */

/* Empties the pipe. 1: the engine was told to stop. Stops are counted in `stops`, and not read from
 * the pipe, since a full pipe takes no byte. */
static int listen_pipe(sched *s)
{
    char bytes[256];
    while (read(s->fds.pipe[0], bytes, sizeof bytes) > 0)
        continue;
    int stops = atomic_load(&s->stops);
    return atomic_exchange(&s->stops_heard, stops) != stops;
}

/* ---- The thread that runs the node loop ---- */

/* Waits until a byte is in the pipe, or a process has closed the liveness file; until `deadline_ns`
 * at most, and no longer than a second. */
static void wait_pipe(sched *s, int64_t deadline_ns)
{
    int64_t left = deadline_ns - s->host->mono_ns(s->host);
    int deaths = s->node.file ? liveness_file_watch(s->node.file) : -1;
    struct pollfd p[] = {{loop_fds_called(&s->fds), POLLIN, 0}, {deaths, POLLIN, 0}};
    poll(p, 2, left <= 0 ? 0 : left > SECOND_NS ? 1000 : (int)(left / 1000000 + 1));
    if (p[1].revents == 0)
        return;
    liveness_file_drain(s->node.file); /* a process has closed the file: perhaps a node has died */
    sched_lock(s);
    run_queue_call_node_loop(s);
    sched_unlock(s);
}

/* Is the node loop due, or was it called? */
static int node_loop_is_due(sched *s)
{
    int64_t now = s->host->mono_ns(s->host);
    sched_lock(s);
    int due = s->node_loop_called || now >= s->node_loop_ns;
    if (due) {
        s->node_loop_called = 0;
        s->node_loop_ns = now + sched_look_ns(s);
        atomic_fetch_add(&s->looks_done, 1);
    }
    sched_unlock(s);
    return due;
}

/* A round of the node loop, if it is due. 1: it was. */
static int node_loop_round(sched *s, int64_t *did)
{
    if (!node_loop_is_due(s))
        return 0;
    *did += node_loop_look(s);
    atomic_fetch_add(&s->looks_done, 1);
    return 1;
}

/* Is a worker in a work function, or was one a moment ago? While the workers are not checked, a
 * worker that enters a work function calls this thread; a worker that entered one just before is
 * found by checking once more. */
static int node_loop_ticks(sched *s)
{
    int64_t now = s->host->mono_ns(s->host);
    int called = atomic_load(&s->ticking) && !s->ticks;
    if (called || workers_is_working(s)) {
        s->worked_ns = now;
        atomic_store(&s->ticking, 1);
    } else if (now - s->worked_ns > SECOND_NS) {
        atomic_store(&s->ticking, 0);
        if (workers_is_working(s))
            atomic_store(&s->ticking, 1);
    }
    s->ticks = atomic_load(&s->ticking);
    return s->ticks;
}

/* The calling thread runs the node loop. However often it is called, the workers in work functions
 * are checked as well; and in each round the timers, for the clock may have been set. */
static void run_node_loop(sched *s)
{
    while (!listen_pipe(s) && sched_is_open(s)) {
        int64_t did = 0;
        int due = node_loop_round(s, &did);
        int64_t next = dormant_turn(s);
        int64_t tick = s->host->mono_ns(s->host) + WORKERS_NS;
        int ticks = node_loop_ticks(s);
        next = next < s->node_loop_ns ? next : s->node_loop_ns;
        if (!due)
            wait_pipe(s, ticks && tick < next ? tick : next);
        if (due || ticks)
            workers_look(s);
    }
}

/* Make the engine a node, if it is none yet. */
static pawl_code join_as_node(sched *s, error *err)
{
    sched_lock(s);
    s->takes_no_starts = 0;
    sched_unlock(s);
    if (s->node.id)
        return PAWL_OK;
    pawl_code rc = node_ready_reserve(s, err);
    if (rc == PAWL_OK)
        rc = db_clock_measure(s->options.clock, s->beats, err);
    if (rc == PAWL_OK)
        rc = origin_read(s->origin, s->looks, err);
    if (rc == PAWL_OK)
        rc = rejoin_become_node(s, err);
    if (rc != PAWL_OK)
        return rc;
    committers_set_node(s->options.committers, s->node.id, 1, s->node.token);
    s->quarantine.running = inflight_open(s->node.file, s->node.id);
    inflight_moved(s->quarantine.running, sched_now_ms(s));
    sched_lock(s);
    s->node_loop_ns = 0; /* the first round of the node loop is due now */
    atomic_store(&s->open_node, s->node.id);
    sched_unlock(s);
    sched_listen(s);
    heartbeat_start(s);
    return PAWL_OK;
}

/* Joins as a node and serves until the node ends. PAWL_REWOUND: the database was rewound, and
 * everything in memory was dropped. */
static pawl_code serve_once(sched *s, error *err)
{
    pawl_code rc = join_as_node(s, err);
    if (rc != PAWL_OK)
        return rc;
    rc = workers_start(s, err);
    if (rc == PAWL_OK) {
        run_node_loop(s);
        workers_stop(s);
        rc = rejoin_end_of(s, err);
    }
    sched_leave(s);
    return rc;
}

/* After a rewind the server may be gone for a while: wait before the next attempt. 0: the engine
 * was told to stop. */
static int wait_to_begin_anew(sched *s)
{
    if (sched_is_told_to_stop(s))
        return 0;
    wait_pipe(s, clock_deadline(s->host->mono_ns(s->host), ANEW_MS));
    return !sched_is_told_to_stop(s);
}

/* Runs that were driven by hand before have fibers of another thread: they are given back first,
 * unless something that was executed is not recorded yet; then the workers take them over. A
 * database that was rewound is no reason to end: the node begins anew. */
pawl_code sched_serve(sched *s, error *err)
{
    int anew = 0;
    if (s->node.id)
        /* RULE L5-serve-keeps-what-finish-has-kept */
        sched_leave_or_stay(s, 1);
    workers_join(s);
    for (;;) {
        pawl_code rc = serve_once(s, err);
        if (rc != PAWL_REWOUND && !(anew && pawl_code_retryable(rc)))
            return rc;
        anew = 1;
        workers_join(s);
        if (rc != PAWL_REWOUND && !wait_to_begin_anew(s))
            return listen_pipe(s) ? PAWL_OK : rc;
    }
}

void sched_stop(sched *s)
{
    atomic_fetch_add(&s->stops, 1); /* RULE a-stop-is-kept */
    watches_stop(s->options.watches);
    sched_call(s);
}

/* ---- Which thread drives ---- */

pawl_code sched_take_over(sched *s, sched_driven how, int64_t deadline_ns, error *err)
{
    int stops = atomic_load(&s->stops);
    pawl_code rc = PAWL_OK;
    sched_lock(s);
    while (rc == PAWL_OK && s->driven != DRIVEN_NOT) {
        if (pthread_equal(s->driver, pthread_self()))
            rc = error_set(err, PAWL_MISUSE, "this thread drives the engine already");
        else if (atomic_load(&s->stops) != stops)
            rc = error_set(err, PAWL_CLOSED, "the engine was asked to stop");
        else if (deadline_ns == 0 || s->driven == DRIVEN_BY_THREADS ||
                 sched_await(s, &s->undriven, deadline_ns))
            rc = error_set(err, PAWL_BUSY, "another thread drives the engine");
    }
    if (rc == PAWL_OK && workers_is_member(s)) /* the caller is a worker thread that was given up at
                                                  a stop, and must not drive */
        rc = error_set(err, PAWL_MISUSE, "this thread is one of the engine's");
    if (rc == PAWL_OK) {
        s->driven = how;
        s->driver = pthread_self();
    }
    sched_unlock(s);
    return rc;
}

/* A stop ends waiting calls too. */
void sched_let_go(sched *s)
{
    sched_lock(s);
    s->driven = DRIVEN_NOT;
    pthread_cond_broadcast(&s->undriven);
    int stops = atomic_load(&s->stops);
    if (stops != s->stops_told)
        watches_tell_all(s->options.watches);
    s->stops_told = stops;
    sched_unlock(s);
}

void sched_add_chore(sched *s, const chore *c)
{
    chores_add(&s->chores, c);
}

void sched_wake(sched *s)
{
    sched_lock(s);
    run_queue_call_node_loop(s);
    sched_unlock(s);
}

int64_t sched_next_timer_ns(sched *s)
{
    sched_lock(s);
    int64_t next = run_queue_next_ns(s), others = quarantine_next_ns(s);
    next = others < next ? others : next;
    others = dormant_due_ns(s);
    sched_unlock(s);
    return others < next ? others : next;
}

/* ---- By hand ---- */

/* An engine that could not become a node tries again, but not at once. */
static void join_later(sched *s)
{
    sched_lock(s);
    s->node_loop_ns = s->host->mono_ns(s->host) + sched_look_ns(s);
    s->node_loop_called = 0;
    sched_unlock(s);
}

pawl_code sched_poll(sched *s, int64_t deadline_ns, int64_t least, int64_t *did, error *err)
{
    runner *r = &s->runners[SCHED_HAND];
    *did = 0;
    if (listen_pipe(s))
        return error_set(err, PAWL_CLOSED, "the engine was asked to stop");
    pawl_code rc = join_as_node(s, err);
    notify_poll(s->options.notify); /* RULE H1-a-poll-hears-other-processes */
    if (rc != PAWL_OK) {
        join_later(s);
        return rc;
    }
    work_threads_start(s);
    work_threads_look(s);
    (void)node_loop_round(s, did);
    *did += dormant_turn(s) == 0;
    for (int64_t done = 0; !sched_is_told_to_stop(s); done++) {
        /* RULE L4-a-poll-has-an-end */
        if (done >= least && deadline_ns != INT64_MAX && sched_mono_ns(s) >= deadline_ns)
            break;
        sched_lock(s);
        int did_one = dispatch_one(r);
        sched_unlock(s);
        if (!did_one)
            break;
        ++*did;
    }
    rc = rejoin_end_of(s, err);
    if (rc != PAWL_OK)
        sched_leave(s);
    *did += rc == PAWL_REWOUND; /* the next call makes a new node */
    return rc == PAWL_REWOUND ? PAWL_OK : rc;
}

pawl_code sched_wait(sched *s, int64_t deadline_ns)
{
    int64_t next = sched_next_ns(s);
    wait_pipe(s, next < deadline_ns ? next : deadline_ns);
    return PAWL_OK;
}

int64_t sched_next_ns(sched *s)
{
    sched_lock(s);
    runner *r = &s->runners[SCHED_HAND];
    int ready = dispatch_has(r) || atomic_load(&r->answered);
    int64_t next = s->node_loop_called || ready ? 0 : s->node_loop_ns;
    int64_t due = run_queue_next_ns(s);
    int64_t others = quarantine_next_ns(s);
    due = others < due ? others : due;
    others = dormant_next_ns(s);
    due = others < due ? others : due;
    others = work_threads_next_ns(s);
    due = others < due ? others : due;
    sched_unlock(s);
    int64_t commits = committers_next_ns(s->options.committers);
    int64_t notes = notify_next_ns(s->options.notify);
    next = due < next ? due : next;
    next = notes < next ? notes : next;
    return commits < next ? commits : next;
}

/* ---- Beginning and end ---- */

static void init_runners(sched *s)
{
    s->runner_count = (int)s->options.threads;
    for (int i = 0; i < SCHED_RUNNERS; i++) {
        s->runners[i].sched = s;
        s->runners[i].index = i;
        clock_cond_init(&s->runners[i].cond);
    }
}

/* How many fibers may wait: a quarter of the stacks is left to runs that are awake. */
static size_t warm_max(const sched *s)
{
    size_t stacks = fiber_pool_max(s->pool) / 4 * 3;
    size_t fit = (size_t)(s->options.warm_bytes / WARM_RUN_BYTES);
    return fit < stacks ? fit : stacks;
}

#ifdef PAWL_ALWAYS_REPLAY
static int always_drops(void *arg)
{
    (void)arg;
    return 1;
}
#endif

/* An engine without threads gets notifications through the caller's event loop, and each poll sends
 * those that are due. If the application supplies its clock too, the engine gets none: the
 * application decides when something is done. */
static void listen_to_others(sched *s)
{
    const sched_options *o = &s->options;
    int by_hand = o->threads == 0;
    if (o->ignores_notifications || (by_hand && !o->has_heartbeat))
        return;
    notify_listen(o->notify, by_hand ? &s->fds : NULL, run_queue_notified, heartbeat_locked, s);
}

pawl_code sched_open(sched **out, const sched_options *options, error *err)
{
    *out = NULL;
    sched *s = calloc(1, sizeof *s);
    if (!s)
        return error_nomem(err);
    s->options = *options;
    s->forks = forks_count();
#ifdef PAWL_ALWAYS_REPLAY
    s->options.drops = always_drops;
#endif
    s->host = options->db->options.clock;
    s->log = options->db->options.log;
    s->at_risk.max = options->at_risk_max;
    dormant_forget(s);
    run_host_init(s, options->db->options.random);
    pthread_mutex_init(&s->lock, NULL);
    clock_cond_init(&s->undriven);
    clock_cond_init(&s->ended);
    clock_cond_init(&s->work_cond);
    clock_cond_init(&s->started);
    heartbeat_init(&s->heartbeat);
    committer *first =
        committers_count(options->committers) > 0 ? committers_at(options->committers, 0) : NULL;
    key_block_init(&s->run_keys, first, "next_run"); /* an engine that only looks commits nothing */
    init_runners(s);
    pawl_code rc = loop_fds_open(&s->fds, s->options.threads == 0, err);
    if (rc == PAWL_OK)
        listen_to_others(s);
    if (rc == PAWL_OK)
        rc = fiber_pool_new(&s->pool, 0, err);
    if (rc == PAWL_OK)
        s->warm_max = warm_max(s);
    if (rc != PAWL_OK) {
        sched_close(s);
        return rc;
    }
    *out = s;
    return PAWL_OK;
}

void sched_close(sched *s)
{
    if (!s)
        return;
    workers_join(s);
    sched_leave(s); /* RULE H1-a-close-tells-others-before-it-is-silent */
    notify_close(s->options.notify);
    workers_join(s);
    for (int i = 0; i < SCHED_RUNNERS; i++)
        pthread_cond_destroy(&s->runners[i].cond);
    db_disconnect(s->beats);
    db_disconnect(s->looks);
    fiber_pool_free(s->pool);
    key_block_free(&s->run_keys);
    heap_free(&s->heap);
    map_free(&s->runs);
    map_free(&s->locked_claims);
    map_free(&s->coming);
    dormant_free(s);
    loop_fds_close(&s->fds);
    heartbeat_free(&s->heartbeat);
    pthread_cond_destroy(&s->undriven);
    pthread_cond_destroy(&s->ended);
    pthread_cond_destroy(&s->work_cond);
    pthread_cond_destroy(&s->started);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
