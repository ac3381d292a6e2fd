/* The scheduler of a node: driven by its own threads or by a caller by hand; becoming a node, and
 * leaving. */
#include "sched/sched.h"

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
#include "sched/unit_retry.h"
#include "sched/work_limit.h"
#include "sched/work_threads.h"

static const int64_t SECOND_NS = 1000000000, WORKERS_NS = 5000000;
enum {
    WARM_RUN_BYTES = 16 * 1024, /* what a run that waits costs, more or less */
    GIVEN_BACK_MAX = 256,       /* runs, in one unit */
    DOOR_MS = 1000,             /* for starts of a function that was left; they come to nothing */
    ANEW_MS = 200,              /* between two attempts to begin anew */
};

/* ---- The pipe ---- */

/* Take what is in the pipe. 1: stop. That is counted elsewhere, since a full pipe takes nothing. */
static int listen_pipe(sched *d)
{
    char bytes[256];
    while (read(d->fds.pipe[0], bytes, sizeof bytes) > 0)
        continue;
    int stops = atomic_load(&d->stops);
    return atomic_exchange(&d->stops_heard, stops) != stops;
}

/* ---- The thread that runs the node loop ---- */

/* Wait for the pipe, at most until a moment of the monotonic clock. */
static void wait_pipe(sched *d, int64_t deadline_ns)
{
    int64_t left = deadline_ns - d->host->mono_ns(d->host);
    int deaths = d->node.file ? liveness_file_watch(d->node.file) : -1;
    struct pollfd p[] = {{loop_fds_called(&d->fds), POLLIN, 0}, {deaths, POLLIN, 0}};
    poll(p, 2, left <= 0 ? 0 : left > SECOND_NS ? 1000 : (int)(left / 1000000 + 1));
    if (p[1].revents == 0)
        return;
    liveness_file_drain(d->node.file); /* a process has closed the file: perhaps a node has died */
    pthread_mutex_lock(&d->lock);
    run_queue_call_keeper(d);
    pthread_mutex_unlock(&d->lock);
}

/* Is the node loop due, or was it called? */
static int node_loop_is_due(sched *d)
{
    int64_t now = d->host->mono_ns(d->host);
    pthread_mutex_lock(&d->lock);
    int due = d->node_loop_called || now >= d->keep_at_ns;
    if (due) {
        d->node_loop_called = 0;
        d->keep_at_ns = now + sched_look_ns(d);
    }
    pthread_mutex_unlock(&d->lock);
    return due;
}

/* Is a worker in a work function, or was one a moment ago? While the workers are not checked, a
 * worker that enters a work function calls this thread; one that entered just before is found by
 * checking once more. */
static int node_loop_ticks(sched *d)
{
    int64_t now = d->host->mono_ns(d->host);
    int called = atomic_load(&d->ticking) && !d->ticks;
    if (called || workers_is_working(d)) {
        d->worked_ns = now;
        atomic_store(&d->ticking, 1);
    } else if (now - d->worked_ns > SECOND_NS) {
        atomic_store(&d->ticking, 0);
        if (workers_is_working(d))
            atomic_store(&d->ticking, 1);
    }
    d->ticks = atomic_load(&d->ticking);
    return d->ticks;
}

/* The calling thread runs the node loop. However often it is called, the workers in work functions
 * are checked as well; and in each round the timers, for the clock may have been set. */
static void run_node_loop(sched *d)
{
    while (!listen_pipe(d) && sched_is_open(d)) {
        int due = node_loop_is_due(d);
        if (due) {
            node_loop_look(d);
            atomic_fetch_add(&d->kept, 1);
        }
        int64_t tick = d->host->mono_ns(d->host) + WORKERS_NS;
        int ticks = node_loop_ticks(d);
        if (!due)
            wait_pipe(d, ticks && tick < d->keep_at_ns ? tick : d->keep_at_ns);
        if (due || ticks)
            workers_look(d);
    }
}

/* Become a node, if it is not one yet. */
static pawl_code join_as_node(sched *d, error *err)
{
    if (d->node.id)
        return PAWL_OK;
    pawl_code rc = node_ready_reserve(d, err);
    if (rc == PAWL_OK)
        rc = db_clock_measure(d->options.clock, d->beats, err);
    if (rc == PAWL_OK)
        rc = origin_read(d->origin, d->looks, err);
    if (rc == PAWL_OK)
        rc = rejoin_become_node(d, err);
    if (rc != PAWL_OK)
        return rc;
    committers_set_node(d->options.committers, d->node.id, 1, d->node.token);
    d->quarantine.running = inflight_open(d->node.file, d->node.id);
    inflight_moved(d->quarantine.running, sched_now_ms(d));
    pthread_mutex_lock(&d->lock);
    d->keep_at_ns = 0; /* it looks at once */
    atomic_store(&d->open_node, d->node.id);
    pthread_mutex_unlock(&d->lock);
    sched_hear_others(d);
    heartbeat_start(d);
    return PAWL_OK;
}

/* One life as a node. PAWL_REWOUND: the database went back, and everything in memory is gone. */
static pawl_code serve_once(sched *d, error *err)
{
    pawl_code rc = join_as_node(d, err);
    if (rc != PAWL_OK)
        return rc;
    rc = workers_start(d, err);
    if (rc == PAWL_OK) {
        run_node_loop(d);
        workers_stop(d);
        rc = rejoin_end_of(d, err);
    }
    sched_leave(d);
    return rc;
}

/* After a rewind the server may be gone for a while: it is waited for. 0: told to stop. */
static int wait_to_begin_anew(sched *d)
{
    if (sched_is_told_to_stop(d))
        return 0;
    wait_pipe(d, clock_deadline(d->host->mono_ns(d->host), ANEW_MS));
    return !sched_is_told_to_stop(d);
}

/* What was driven by hand before is another thread's: it is given back first. A database that went
 * back is no reason to end: the node begins anew. */
pawl_code sched_serve(sched *d, error *err)
{
    int anew = 0;
    if (d->node.id)
        sched_leave(d);
    workers_join(d);
    for (;;) {
        pawl_code rc = serve_once(d, err);
        if (rc != PAWL_REWOUND && !(anew && pawl_code_retryable(rc)))
            return rc;
        anew = 1;
        workers_join(d);
        if (rc != PAWL_REWOUND && !wait_to_begin_anew(d))
            return listen_pipe(d) ? PAWL_OK : rc;
    }
}

void sched_stop(sched *d)
{
    atomic_fetch_add(&d->stops, 1); /* RULE a-stop-is-kept */
    watches_stop(d->options.watches);
    sched_call(d, 's');
}

/* ---- Which thread drives ---- */

pawl_code sched_take_over(sched *d, sched_driven how, int64_t deadline_ns, error *err)
{
    int stops = atomic_load(&d->stops);
    pawl_code rc = PAWL_OK;
    pthread_mutex_lock(&d->lock);
    while (rc == PAWL_OK && d->driven != DRIVEN_NOT) {
        if (pthread_equal(d->driver, pthread_self()))
            rc = error_set(err, PAWL_MISUSE, "this thread drives the engine already");
        else if (atomic_load(&d->stops) != stops)
            rc = error_set(err, PAWL_CLOSED, "the engine was asked to stop");
        else if (deadline_ns == 0 || d->driven == DRIVEN_BY_THREADS ||
                 d->host->wait(d->host, &d->undriven, &d->lock, deadline_ns))
            rc = error_set(err, PAWL_BUSY, "another thread drives the engine");
    }
    if (rc == PAWL_OK && workers_is_member(d)) /* it was given up, and does not know */
        rc = error_set(err, PAWL_MISUSE, "this thread is one of the engine's");
    if (rc == PAWL_OK) {
        d->driven = how;
        d->driver = pthread_self();
    }
    pthread_mutex_unlock(&d->lock);
    return rc;
}

/* A stop ends waiting calls too. */
void sched_let_go(sched *d)
{
    pthread_mutex_lock(&d->lock);
    d->driven = DRIVEN_NOT;
    pthread_cond_broadcast(&d->undriven);
    int stops = atomic_load(&d->stops);
    if (stops != d->stops_told)
        watches_tell_all(d->options.watches);
    d->stops_told = stops;
    pthread_mutex_unlock(&d->lock);
}

int sched_may_close(sched *d)
{
    pthread_mutex_lock(&d->lock);
    /* RULE nobody-closes-what-is-driven */
    int may = d->driven == DRIVEN_NOT && !workers_is_member(d);
    pthread_mutex_unlock(&d->lock);
    return may;
}

/* ---- By hand ---- */

static int is_past(sched *d, int64_t deadline_ns)
{
    return d->host->mono_ns(d->host) >= deadline_ns;
}

/* An engine that could not become a node tries again, but not at once. */
static void join_later(sched *d)
{
    pthread_mutex_lock(&d->lock);
    d->keep_at_ns = d->host->mono_ns(d->host) + sched_look_ns(d);
    d->node_loop_called = 0;
    pthread_mutex_unlock(&d->lock);
}

pawl_code sched_poll(sched *d, int64_t deadline_ns, int64_t least, int64_t *did, error *err)
{
    runner *r = &d->runners[SCHED_HAND];
    *did = 0;
    if (listen_pipe(d))
        return error_set(err, PAWL_CLOSED, "the engine was asked to stop");
    pawl_code rc = join_as_node(d, err);
    notify_poll(d->options.notify); /* RULE H1-a-poll-hears-other-processes */
    if (rc != PAWL_OK) {
        join_later(d);
        return rc;
    }
    work_threads_start(d);
    work_threads_look(d);
    if (node_loop_is_due(d))
        *did += node_loop_look(d);
    for (int64_t done = 0; !sched_is_told_to_stop(d); done++) {
        /* RULE L4-a-poll-has-an-end */
        if (done >= least && deadline_ns != INT64_MAX && is_past(d, deadline_ns))
            break;
        pthread_mutex_lock(&d->lock);
        int did_one = dispatch_one(r);
        pthread_mutex_unlock(&d->lock);
        if (!did_one)
            break;
        ++*did;
    }
    rc = rejoin_end_of(d, err);
    if (rc != PAWL_OK)
        sched_leave(d);
    *did += rc == PAWL_REWOUND; /* the next call makes a new node */
    return rc == PAWL_REWOUND ? PAWL_OK : rc;
}

pawl_code sched_wait(sched *d, int64_t deadline_ns)
{
    int64_t next = sched_next_ns(d);
    wait_pipe(d, next < deadline_ns ? next : deadline_ns);
    return PAWL_OK;
}

int64_t sched_next_ns(sched *d)
{
    pthread_mutex_lock(&d->lock);
    runner *r = &d->runners[SCHED_HAND];
    int ready = dispatch_has(r) || atomic_load(&r->answered);
    int64_t next = d->node_loop_called || ready ? 0 : d->keep_at_ns;
    int64_t due = run_queue_next_ns(d);
    int64_t others = quarantine_next_ns(d);
    due = others < due ? others : due;
    others = work_threads_next_ns(d);
    due = others < due ? others : due;
    pthread_mutex_unlock(&d->lock);
    int64_t commits = committers_next_ns(d->options.committers);
    int64_t notes = notify_next_ns(d->options.notify);
    next = due < next ? due : next;
    next = notes < next ? notes : next;
    return commits < next ? commits : next;
}

/* ---- Beginning and end ---- */

static void init_runners(sched *d)
{
    d->runner_count = (int)d->options.threads;
    for (int i = 0; i < SCHED_RUNNERS; i++) {
        d->runners[i].sched = d;
        d->runners[i].index = i;
        clock_cond_init(&d->runners[i].cond);
    }
}

/* A quarter of the stacks is for runs that are awake. */
static size_t warm_max(const sched *d)
{
    size_t stacks = fiber_pool_max(d->pool) / 4 * 3;
    size_t fit = (size_t)(d->options.warm_bytes / WARM_RUN_BYTES);
    return fit < stacks ? fit : stacks;
}

#ifdef PAWL_ALWAYS_REPLAY
static int always(void *arg)
{
    (void)arg;
    return 1;
}
#endif

/* Without threads the caller's event loop hears other processes, and every poll sends what is due.
 * A program that tells the time itself decides by itself what happens when: it hears nothing. */
static void listen_to_others(sched *d)
{
    const sched_options *o = &d->options;
    int by_hand = o->threads == 0;
    if (o->hears_nobody || (by_hand && !o->has_heartbeat))
        return;
    notify_listen(o->notify, by_hand ? &d->fds : NULL, run_queue_heard, d);
}

pawl_code sched_open(sched **out, const sched_options *options, error *err)
{
    *out = NULL;
    sched *d = calloc(1, sizeof *d);
    if (!d)
        return error_nomem(err);
    d->options = *options;
    d->forks = forks_count();
#ifdef PAWL_ALWAYS_REPLAY
    d->options.drops = always;
#endif
    d->host = options->db->options.clock;
    d->log = options->db->options.log;
    run_host_init(d, options->db->options.random);
    pthread_mutex_init(&d->lock, NULL);
    clock_cond_init(&d->undriven);
    clock_cond_init(&d->ended);
    clock_cond_init(&d->work_cond);
    clock_cond_init(&d->started);
    heartbeat_init(&d->heartbeat);
    committer *first =
        committers_count(options->committers) > 0 ? committers_at(options->committers, 0) : NULL;
    key_block_init(&d->run_keys, first, "next_run"); /* an engine that only looks commits nothing */
    init_runners(d);
    pawl_code rc = loop_fds_open(&d->fds, d->options.threads == 0, err);
    if (rc == PAWL_OK)
        listen_to_others(d);
    if (rc == PAWL_OK)
        rc = fiber_pool_new(&d->pool, 0, err);
    if (rc == PAWL_OK)
        d->warm_max = warm_max(d);
    if (rc != PAWL_OK) {
        sched_close(d);
        return rc;
    }
    *out = d;
    return PAWL_OK;
}

/* No run is in memory any more; with the lock held. Gives those that were, linked by `next`. The
 * places that are reserved for claims and starts on their way stay. */
static pawl_run *clear_map(sched *d)
{
    pawl_run *all = NULL;
    size_t cursor = 0;
    uint64_t key;
    void *at;
    while (map_next(&d->runs, &cursor, &key, &at)) {
        pawl_run *run = at;
        run->slot->next = all;
        all = run;
    }
    if (d->claiming || d->locked_claims.count || d->starting)
        map_clear(&d->runs);
    else
        map_free(&d->runs);
    return all;
}

/* No run is anywhere any more; with the lock held. */
static pawl_run *clear_places(sched *d)
{
    d->heap.count = 0;
    work_limit_clear(d);
    d->troubled = NULL;
    d->trouble_ms = d->trouble_at_ms = 0;
    d->unit_retry_held = 0;
    atomic_store(&d->doubts, 0);
    d->quarantine =
        (quarantine){.running = d->quarantine.running, .unmarking = d->quarantine.unmarking};
    for (int i = 0; i < SCHED_RUNNERS; i++) {
        d->runners[i].first = d->runners[i].last = NULL;
        d->runners[i].count = 0;
        atomic_store(&d->runners[i].answered, NULL);
    }
    return clear_map(d);
}

/* The unit was committed after the last turn of its run, by a stop or a close. */
static int was_committed(const pawl_run *run)
{
    return run->draft.handed_in && run->draft.unit && run->draft.unit->answer == UNIT_COMMITTED;
}

/* Clients may look for a run at any time, and threads that were given up come back: so the runs are
 * out of reach before they go. */
static void drop_runs(sched *d)
{
    pthread_mutex_lock(&d->lock);
    pawl_run *all = clear_places(d), *run;
    pthread_mutex_unlock(&d->lock);
    while ((run = all) != NULL) {
        all = run->slot->next;
        if (was_committed(run)) /* RULE C4-the-last-log-lines-are-written */
            run_tell_lines(run);
        run_free(run);
    }
}

/* The node gets no new runs from here on, so that it has to be swept up after only once. Runs that
 * were about to start others must be freed before, since they are not told any more what came of
 * it. What clients have started meanwhile goes too. 1: there was something. */
static int close_door(sched *d)
{
    pthread_mutex_lock(&d->lock);
    int64_t until =
        clock_deadline(d->host->mono_ns(d->host), workers_has_lost(d) ? DOOR_MS : INT64_MAX);
    while (d->starting > 0 && !d->host->wait(d->host, &d->started, &d->lock, until))
        continue;
    int late = d->runs.count > 0;
    pthread_mutex_unlock(&d->lock);
    drop_runs(d);
    return late;
}

/* The runs that it owns; -1: they are too many. With the lock held. */
static int list_runs(sched *d, int64_t out[GIVEN_BACK_MAX])
{
    size_t cursor = 0;
    int count = 0;
    uint64_t key;
    void *run;
    if (d->runs.count > GIVEN_BACK_MAX)
        return -1;
    while (map_next(&d->runs, &cursor, &key, &run))
        out[count++] = (int64_t)key;
    return count;
}

/* What it owns is given back, when what was executed is recorded. If that is much its rows are
 * closed instead, as a dead node's would be: others, or this engine at its next beginning, claim
 * what was its own. So they do where the storage is gone, and what the runs had to say with it. */
void sched_leave(sched *d)
{
    int64_t runs[GIVEN_BACK_MAX];
    pthread_mutex_lock(&d->lock);
    atomic_store(&d->open_node, 0);
    pthread_mutex_unlock(&d->lock);
    atomic_store(&d->stopping, 1);
    work_threads_stop(d);
    /* RULE B8-good-order-leaves-no-marks */
    quarantine_leave(d);
    if (!sched_drain(d)) /* RULE 2-finish-records-what-has-returned */
        committers_give_up_runs(d->options.committers);
    unit_retry_tell_lost(d);
    pthread_mutex_lock(&d->lock);
    int count = list_runs(d, runs);
    pthread_mutex_unlock(&d->lock);
    drop_runs(d);
    if (close_door(d))
        count = -1;
    heartbeat_stop(d);
    notify_flush(d->options.notify);
    atomic_store(&d->stopping, 0);
    if (!d->node.id)
        return;
    committers_set_node(d->options.committers, 0, 0, 0);
    if (!rejoin_leave(d) && !atomic_load(&d->fenced))
        node_resign(committers_at(d->options.committers, 0), d->node.id, count < 0 ? NULL : runs,
                    count < 0 ? 0 : (size_t)count, NULL);
    node_leave(&d->node);
    inflight_close(d->quarantine.running);
    d->quarantine.running = NULL;
    d->walk = (hold_walk){0};
    d->sweep = (node_sweep){0};
    atomic_store(&d->fenced, 0);
}

void sched_close(sched *d)
{
    if (!d)
        return;
    workers_join(d);
    notify_close(d->options.notify);
    sched_leave(d);
    workers_join(d);
    for (int i = 0; i < SCHED_RUNNERS; i++) {
        pthread_cond_destroy(&d->runners[i].cond);
    }
    db_disconnect(d->beats);
    db_disconnect(d->looks);
    fiber_pool_free(d->pool);
    key_block_free(&d->run_keys);
    heap_free(&d->heap);
    map_free(&d->runs);
    map_free(&d->locked_claims);
    loop_fds_close(&d->fds);
    heartbeat_free(&d->heartbeat);
    pthread_cond_destroy(&d->undriven);
    pthread_cond_destroy(&d->ended);
    pthread_cond_destroy(&d->work_cond);
    pthread_cond_destroy(&d->started);
    pthread_mutex_destroy(&d->lock);
    free(d);
}
