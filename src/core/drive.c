/* Who drives the runs of a node: the engine's threads with their keeper, or a caller by hand; and
 * the beginning and the end of being a node. */
#include "core/drive.h"

#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/forks.h"
#include "core/crowd.h"
#include "core/jobs.h"
#include "core/origin.h"
#include "core/running.h"
#include "db/nodes_file.h"

static const int64_t SECOND_NS = 1000000000;
static const int64_t CREW_NS = 5000000;

enum {
    WARM_RUN_BYTES = 16 * 1024, /* what a run that waits costs, more or less */
    GIVEN_BACK_MAX = 256,       /* runs, in one unit */
};

/* ---- What runs ask ---- */

int64_t drive_now_ms(drive *d)
{
    return db_clock_now_ms(&d->clock);
}

uint64_t drive_chance(drive *d)
{
    uint64_t number = 0;
    if (d->random->fill(d->random, &number, sizeof number) != 0)
        number = (uint64_t)d->host->mono_ns(d->host);
    return number;
}

random_source *drive_random(drive *d)
{
    return d->random;
}

registry *drive_registry(drive *d)
{
    return d->options.registry;
}

const log_sink *drive_log(drive *d)
{
    return &d->log;
}

/* Whoever drives may not have heard of it yet. */
static int is_told_to_stop(drive *d)
{
    return atomic_load(&d->stops) != atomic_load(&d->stops_heard);
}

int drive_is_stopping(drive *d)
{
    return atomic_load(&d->stopping) || is_told_to_stop(d);
}

/* ---- The pipe ---- */

/* A full pipe is as good: whoever reads it will come. */
void drive_call(drive *d, char what)
{
    ssize_t ignored = write(d->pipe[1], &what, 1);
    (void)ignored;
}

/* Take what is in the pipe. 1: stop. That is counted elsewhere, since a full pipe takes nothing. */
static int listen_pipe(drive *d)
{
    char bytes[256];
    while (read(d->pipe[0], bytes, sizeof bytes) > 0)
        continue;
    int stops = atomic_load(&d->stops);
    return atomic_exchange(&d->stops_heard, stops) != stops;
}

/* ---- The keeper ---- */

/* Wait for the pipe, at most until a moment of the monotonic clock. */
static void wait_pipe(drive *d, int64_t deadline_ns)
{
    int64_t left = deadline_ns - d->host->mono_ns(d->host);
    int deaths = d->node.file ? nodes_file_watch(d->node.file) : -1;
    struct pollfd p[] = {{d->pipe[0], POLLIN, 0}, {deaths, POLLIN, 0}};
    poll(p, 2, left <= 0 ? 0 : left > SECOND_NS ? 1000 : (int)(left / 1000000 + 1));
    if (p[1].revents == 0)
        return;
    nodes_file_drain(d->node.file); /* somebody has closed the file: perhaps a node has died */
    pthread_mutex_lock(&d->lock);
    drive_call_keeper(d);
    pthread_mutex_unlock(&d->lock);
}

int64_t drive_look_ns(const drive *d)
{
    int64_t third = clock_deadline(0, d->options.claim_ms) / 3;
    return third < SECOND_NS ? third : SECOND_NS;
}

/* Is it time to look, or has somebody called? */
static int keeper_is_due(drive *d)
{
    int64_t now = d->host->mono_ns(d->host);
    pthread_mutex_lock(&d->lock);
    int due = d->keeper_called || now >= d->keep_at_ns;
    if (due) {
        d->keeper_called = 0;
        d->keep_at_ns = now + drive_look_ns(d);
    }
    pthread_mutex_unlock(&d->lock);
    return due;
}

/* Is somebody in a work function, or was a moment ago? When it has ceased to look after them,
 * whoever enters one calls; who has done so just before is seen by looking again. */
static int keeper_ticks(drive *d)
{
    int64_t now = d->host->mono_ns(d->host);
    int called = atomic_load(&d->ticking) && !d->ticks;
    if (called || crew_is_working(d)) {
        d->worked_ns = now;
        atomic_store(&d->ticking, 1);
    } else if (now - d->worked_ns > SECOND_NS) {
        atomic_store(&d->ticking, 0);
        if (crew_is_working(d))
            atomic_store(&d->ticking, 1);
    }
    d->ticks = atomic_load(&d->ticking);
    return d->ticks;
}

void drive_call_crew(drive *d)
{
    if (d->driven == DRIVEN_BY_THREADS && !atomic_exchange(&d->ticking, 1))
        drive_call(d, 'c');
}

/* The calling thread is the keeper. However often it is called, those in work functions are looked
 * after as well; and with each look the timers, for somebody may have set the clock. */
static void keep(drive *d)
{
    while (!listen_pipe(d) && !atomic_load(&d->fenced)) {
        int due = keeper_is_due(d);
        if (due)
            keeper_look(d);
        int64_t tick = d->host->mono_ns(d->host) + CREW_NS;
        int ticks = keeper_ticks(d);
        if (!due)
            wait_pipe(d, ticks && tick < d->keep_at_ns ? tick : d->keep_at_ns);
        if (due || ticks)
            crew_look(d);
    }
}

static pawl_code end_of(drive *d, error *err)
{
    return atomic_load(&d->fenced)
               ? error_set(err, PAWL_FENCED, "this node was closed by another one")
               : PAWL_OK;
}

/* What was driven by hand before is another thread's: it is given back first. */
pawl_code drive_serve(drive *d, error *err)
{
    crew_join(d);
    if (d->node.id)
        drive_leave(d);
    pawl_code rc = drive_join(d, err);
    if (rc != PAWL_OK)
        return rc;
    rc = crew_start(d, err);
    if (rc == PAWL_OK) {
        keep(d);
        crew_stop(d);
        rc = end_of(d, err);
    }
    drive_leave(d);
    atomic_store(&d->stopping, 0);
    return rc;
}

void drive_stop(drive *d)
{
    atomic_fetch_add(&d->stops, 1);
    drive_call(d, 's');
}

/* ---- Who drives ---- */

pawl_code drive_take_over(drive *d, drive_driven how, int64_t deadline_ns, error *err)
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
    if (rc == PAWL_OK && crew_is_member(d)) /* it was given up, and does not know */
        rc = error_set(err, PAWL_MISUSE, "this thread is one of the engine's");
    if (rc == PAWL_OK) {
        d->driven = how;
        d->driver = pthread_self();
    }
    pthread_mutex_unlock(&d->lock);
    return rc;
}

/* To stop is for those who wait too. */
void drive_let_go(drive *d)
{
    pthread_mutex_lock(&d->lock);
    d->driven = DRIVEN_NOT;
    pthread_cond_broadcast(&d->undriven);
    int stops = atomic_load(&d->stops);
    if (stops != d->stops_told)
        drive_tell_all(d);
    d->stops_told = stops;
    pthread_mutex_unlock(&d->lock);
}

int drive_may_close(drive *d)
{
    pthread_mutex_lock(&d->lock);
    int may = d->driven == DRIVEN_NOT && !crew_is_member(d);
    pthread_mutex_unlock(&d->lock);
    return may;
}

int drive_is_forked(const drive *d)
{
    return forks_count() != d->forks;
}

/* There is nobody to give an answer to. */
void drive_end_child(const drive *d)
{
    if (drive_is_forked(d))
        abort();
}

/* ---- By hand ---- */

static int is_past(drive *d, int64_t deadline_ns)
{
    return d->host->mono_ns(d->host) >= deadline_ns;
}

/* Who could not become a node tries again, but not at once. */
static void join_later(drive *d)
{
    pthread_mutex_lock(&d->lock);
    d->keep_at_ns = d->host->mono_ns(d->host) + drive_look_ns(d);
    d->keeper_called = 0;
    pthread_mutex_unlock(&d->lock);
}

pawl_code drive_poll(drive *d, int64_t deadline_ns, int64_t *did, error *err)
{
    runner *r = &d->runners[DRIVE_HAND];
    *did = 0;
    if (listen_pipe(d))
        return error_set(err, PAWL_CLOSED, "the engine was asked to stop");
    pawl_code rc = drive_join(d, err);
    if (rc != PAWL_OK) {
        join_later(d);
        return rc;
    }
    if (keeper_is_due(d))
        *did += keeper_look(d);
    while (!is_told_to_stop(d) && (deadline_ns == INT64_MAX || !is_past(d, deadline_ns))) {
        pthread_mutex_lock(&d->lock);
        drive_fire(d);
        drive_collect(r);
        job *j = suspect_take_job(r);
        pawl_run *run = j ? NULL : suspect_take(r);
        pthread_mutex_unlock(&d->lock);
        if (j || run) {
            if (j)
                jobs_do(r, j);
            else
                runner_take(r, run);
            pthread_mutex_lock(&d->lock);
            suspect_done(d);
            pthread_mutex_unlock(&d->lock);
        } else if (!committers_drive(d->options.committers)) {
            break;
        }
        ++*did;
    }
    rc = end_of(d, err);
    if (rc != PAWL_OK)
        drive_leave(d);
    return rc;
}

pawl_code drive_wait(drive *d, int64_t deadline_ns)
{
    int64_t next = drive_next_ns(d);
    wait_pipe(d, next < deadline_ns ? next : deadline_ns);
    return PAWL_OK;
}

int64_t drive_next_ns(drive *d)
{
    pthread_mutex_lock(&d->lock);
    runner *r = &d->runners[DRIVE_HAND];
    int ready = suspect_has(r) || atomic_load(&r->answered);
    int64_t next = d->keeper_called || ready ? 0 : d->keep_at_ns;
    int64_t due = drive_timers_ns(d);
    int64_t others = suspect_next_ns(d);
    due = others < due ? others : due;
    pthread_mutex_unlock(&d->lock);
    int64_t commits = committers_next_ns(d->options.committers);
    next = due < next ? due : next;
    return commits < next ? commits : next;
}

/* ---- Beginning and end ---- */

pawl_code drive_join(drive *d, error *err)
{
    if (d->node.id)
        return PAWL_OK;
    pawl_code rc = d->beats ? PAWL_OK : db_connect(d->options.db, DB_COMMITTER, &d->beats, err);
    if (rc == PAWL_OK && !d->looks)
        rc = db_connect(d->options.db, DB_READER, &d->looks, err);
    if (rc == PAWL_OK)
        rc = db_clock_measure(&d->clock, d->beats, err);
    if (rc == PAWL_OK)
        rc = origin_read(d->origin, d->looks, err);
    node_options o = {.slots = committers_count(d->options.committers) + DRIVE_SLOTS,
                      .name = d->options.name,
                      .build = d->options.build};
    if (rc == PAWL_OK)
        rc = node_join(&d->node, committers_at(d->options.committers, 0), d->beats, &d->clock, &o,
                       err);
    if (rc != PAWL_OK)
        return rc;
    committers_set_node(d->options.committers, d->node.id, 1);
    d->suspects.running = running_open(d->node.file, d->node.id);
    pthread_mutex_lock(&d->lock);
    d->keep_at_ns = 0; /* it looks at once */
    atomic_store(&d->open_node, d->node.id);
    pthread_mutex_unlock(&d->lock);
    wake_open(d);
    return PAWL_OK;
}

static void init_runners(drive *d)
{
    d->runner_count = (int)d->options.threads;
    for (int i = 0; i < DRIVE_RUNNERS; i++) {
        d->runners[i].drive = d;
        d->runners[i].index = i;
        clock_cond_init(&d->runners[i].cond);
    }
}

static pawl_code open_pipe(drive *d, error *err)
{
    d->pipe[0] = d->pipe[1] = -1;
    if (pipe(d->pipe) != 0)
        return error_set(err, PAWL_NOMEM, "no file descriptors are left");
    for (int i = 0; i < 2; i++) {
        fcntl(d->pipe[i], F_SETFD, FD_CLOEXEC);
        fcntl(d->pipe[i], F_SETFL, O_NONBLOCK);
    }
    return PAWL_OK;
}

/* A quarter of the stacks is for those who are awake. */
static size_t warm_max(const drive *d)
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

pawl_code drive_open(drive **out, const drive_options *options, error *err)
{
    *out = NULL;
    drive *d = calloc(1, sizeof *d);
    if (!d)
        return error_set(err, PAWL_NOMEM, "out of memory");
    d->options = *options;
    d->forks = forks_count();
#ifdef PAWL_ALWAYS_REPLAY
    d->options.drops = always;
#endif
    d->host = options->db->options.clock;
    d->random = options->db->options.random;
    d->log = options->db->options.log;
    pthread_mutex_init(&d->lock, NULL);
    clock_cond_init(&d->undriven);
    clock_cond_init(&d->ended);
    pthread_cond_init(&d->started, NULL);
    pthread_mutex_init(&d->waking, NULL);
    db_clock_init(&d->clock, options->db);
    keys_init(&d->run_keys, committers_at(options->committers, 0), "next_run");
    init_runners(d);
    pawl_code rc = open_pipe(d, err);
    if (rc == PAWL_OK)
        rc = fiber_pool_new(&d->pool, 0, err);
    if (rc == PAWL_OK)
        d->warm_max = warm_max(d);
    if (rc != PAWL_OK) {
        drive_close(d);
        return rc;
    }
    *out = d;
    return PAWL_OK;
}

/* No run is anywhere any more; with the lock held. Gives what was there. */
static map clear_places(drive *d)
{
    map all = d->runs;
    d->runs = (map){0};
    d->timers.count = 0;
    crowd_clear(d);
    d->troubled = NULL;
    d->trouble_ms = d->trouble_at_ms = 0;
    d->suspects = (suspects){.running = d->suspects.running, .in_hand = d->suspects.in_hand};
    for (int i = 0; i < DRIVE_RUNNERS; i++) {
        d->runners[i].first = d->runners[i].last = NULL;
        d->runners[i].count = 0;
        atomic_store(&d->runners[i].answered, NULL);
    }
    return all;
}

/* Clients may look for a run at any time, and threads that were given up come back: so the runs are
 * out of reach before they go. */
static void drop_runs(drive *d)
{
    size_t cursor = 0;
    uint64_t key;
    void *run;
    pthread_mutex_lock(&d->lock);
    map all = clear_places(d);
    pthread_mutex_unlock(&d->lock);
    while (map_next(&all, &cursor, &key, &run))
        run_free(run);
    map_free(&all);
}

/* Nothing new comes to belong to the node: who sweeps up after it comes once. Runs that were about
 * to start others must have gone before, since nobody tells them any more what came of it. What
 * clients have started meanwhile goes too. 1: there was something. */
static int close_door(drive *d)
{
    pthread_mutex_lock(&d->lock);
    while (d->starting > 0)
        pthread_cond_wait(&d->started, &d->lock);
    int late = d->runs.count > 0;
    pthread_mutex_unlock(&d->lock);
    drop_runs(d);
    return late;
}

/* The runs that it owns; -1: they are too many. With the lock held. */
static int list_runs(drive *d, int64_t out[GIVEN_BACK_MAX])
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

/* What it owns is given back. If that is much its rows are closed instead, as a dead node's would
 * be: others, or this engine at its next beginning, claim what was its own. So they do where the
 * storage is gone, and what the runs had to say with it. */
void drive_leave(drive *d)
{
    int64_t runs[GIVEN_BACK_MAX];
    pthread_mutex_lock(&d->lock);
    atomic_store(&d->open_node, 0);
    pthread_mutex_unlock(&d->lock);
    int64_t deadline = clock_deadline(d->host->mono_ns(d->host), d->options.drain_ms);
    if (!committers_flush_runs(d->options.committers, deadline))
        committers_give_up_runs(d->options.committers);
    pthread_mutex_lock(&d->lock);
    int count = list_runs(d, runs);
    pthread_mutex_unlock(&d->lock);
    drop_runs(d);
    if (close_door(d))
        count = -1;
    if (!d->node.id)
        return;
    committers_set_node(d->options.committers, 0, 0);
    if (!atomic_load(&d->fenced))
        node_resign(committers_at(d->options.committers, 0), d->node.id, count < 0 ? NULL : runs,
                    count < 0 ? 0 : (size_t)count, NULL);
    node_leave(&d->node);
    running_close(d->suspects.running);
    d->suspects.running = NULL;
    d->walk = (hold_walk){0};
    d->sweep = (node_sweep){0};
    atomic_store(&d->fenced, 0);
}

void drive_close(drive *d)
{
    if (!d)
        return;
    crew_join(d);
    wake_close(d);
    drive_leave(d);
    for (int i = 0; i < DRIVE_RUNNERS; i++) {
        db_disconnect(d->runners[i].reader);
        pthread_cond_destroy(&d->runners[i].cond);
    }
    db_disconnect(d->beats);
    db_disconnect(d->looks);
    fiber_pool_free(d->pool);
    keys_free(&d->run_keys);
    db_clock_free(&d->clock);
    timers_free(&d->timers);
    for (int i = 0; i < 2; i++)
        if (d->pipe[i] >= 0)
            close(d->pipe[i]);
    pthread_mutex_destroy(&d->waking);
    pthread_cond_destroy(&d->undriven);
    pthread_cond_destroy(&d->ended);
    pthread_cond_destroy(&d->started);
    pthread_mutex_destroy(&d->lock);
    free(d);
}
