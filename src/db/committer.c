/* The queue, and who leads. committer.h has the rules; their numbers are used here.
 *
 * One lock guards the queue and everything in `struct committer`. The thread that leads lets go
 * of it while it applies a batch; `leading` keeps all others from the connection meanwhile. Who
 * waits for a unit is in the list of waiters, and sleeps on a condition of its own, so that an
 * answer wakes exactly the thread that wants it. When a leader is done it wakes one of those who
 * still wait: that one leads next.
 *
 * After a failure (the database locked, a commit undecided) nothing is tried before `retry_ns`,
 * with a back-off that doubles. */
#include "db/committer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "db/batch.h"
#include "db/queue.h"
#include "db/waiters.h"

enum {
    UNITS_MAX = 8192,
    BATCH_UNITS = 1024,
    RETRY_MS_MIN = 1,
    RETRY_MS_MAX = 500,
};
static const int64_t BYTES_MAX = 64 * 1024 * 1024;
static const int64_t BATCH_BYTES = 16 * 1024 * 1024;

struct committer {
    db_conn *conn;
    clock_source *clock;
    log_sink log;
    committer_options options;

    pthread_mutex_t lock;
    pthread_cond_t changed; /* room in the queue, or nothing left to do */
    queue queue;
    unit *undecided;
    waiters waiters;

    int leading;
    pthread_t leader;
    unit **batch; /* the units of the batch under way */
    uint64_t passes;
    int64_t retry_ns;
    int64_t retry_ms;
    pawl_code trouble; /* why it has to be tried again; PAWL_OK: it has not */

    int closing;
    int helper_wanted;
    int helper_runs;
    pthread_t helper;
    pthread_cond_t helper_cond;

    committer_stats stats;
};

static int64_t now_ns(committer *k)
{
    return k->clock->mono_ns(k->clock);
}

/* ---- Waking ---- */

static int has_work(const committer *k)
{
    return k->queue.head || k->undecided;
}

static void wake_helper(committer *k)
{
    k->helper_wanted = 1;
    if (k->helper_runs)
        pthread_cond_signal(&k->helper_cond);
}

/* Somebody should lead, if there is anything to do: one who waits anyway, or else the helper. */
static void hand_on(committer *k)
{
    if (!has_work(k))
        return;
    if (!waiters_wake_one(&k->waiters))
        wake_helper(k);
}

/* ---- Answers ---- */

/* Take the unit off its share's account: it is no longer the committer's. Rule 2: once. */
static void settle_account(committer *k, const unit *u)
{
    k->stats.committed += u->answer == UNIT_COMMITTED;
    k->stats.refused += u->answer == UNIT_REFUSED;
    k->stats.failed += u->answer == UNIT_FAILED;
    queue_settle(&k->queue, u);
}

static void call_done(unit *u)
{
    if (u->done)
        u->done(u, u->done_arg);
}

/* Give a list of units their final answer. Called by the leader with the lock held; lets go of it
 * while strangers' functions run. After `done` a unit without a waiter may be gone already. */
static void deliver(committer *k, unit *list)
{
    if (!list)
        return;
    for (unit *u = list; u; u = u->next)
        settle_account(k, u);
    pthread_mutex_unlock(&k->lock);
    unit *waited = NULL;
    for (unit *u = list, *next; u; u = next) {
        next = u->next;
        if (u->waiter) {
            u->next = waited;
            waited = u;
        }
        call_done(u);
    }
    pthread_mutex_lock(&k->lock);
    for (; waited; waited = waited->next)
        waiters_finish(&k->waiters, waited->waiter);
    pthread_cond_broadcast(&k->changed);
}

/* A failure that the database has not seen. Rule 3: it breaks the submitter all the same. */
static void set_failed(unit *u, pawl_code code, const char *message)
{
    u->answer = UNIT_FAILED;
    u->code = code;
    u->message = message;
    u->refused = NULL;
    u->found = NULL;
    for (unit_stmt *s = u->first; s; s = s->next)
        s->rows = NULL; /* of a pass that did not come to its end */
    unit_break_submitter(u);
}

static void set_busy(committer *k, unit *u)
{
    if (k->trouble == PAWL_UNREACHABLE)
        set_failed(u, PAWL_UNREACHABLE, "the server could not be reached; nothing was written");
    else
        set_failed(u, PAWL_BUSY, "no room, or the database stayed locked; nothing was written");
    k->stats.busy++;
}

/* ---- Leading ---- */

static void retry_later(committer *k)
{
    k->retry_ms = k->retry_ms ? k->retry_ms * 2 : RETRY_MS_MIN;
    if (k->retry_ms > RETRY_MS_MAX)
        k->retry_ms = RETRY_MS_MAX;
    k->retry_ns = clock_deadline(now_ns(k), k->retry_ms);
}

static void retry_now(committer *k)
{
    k->retry_ms = 0;
    k->retry_ns = 0;
}

/* The commit of these units has no answer: tell them so, and keep them until it has. */
static void keep_undecided(committer *k, unit *list, const error *err)
{
    int64_t count = 0;
    unit **tail = &k->undecided;
    while (*tail)
        tail = &(*tail)->next;
    *tail = list;
    pthread_mutex_unlock(&k->lock);
    for (unit *u = list; u; u = u->next, count++)
        call_done(u);
    LOG(&k->log, LOG_ERROR, "commit-undecided", LOG_TEXT("code", pawl_code_name(err->code)),
        LOG_NUM("units", count));
    pthread_mutex_lock(&k->lock);
    k->stats.undecided += count;
}

static void decide(unit *u, db_fate fate)
{
    if (fate == DB_FATE_COMMITTED) {
        u->answer = u->provisional;
        u->code = u->provisional_code;
        return;
    }
    if (fate == DB_FATE_LOST)
        set_failed(u, u->cause, "the commit failed; nothing was written");
    else
        set_failed(u, PAWL_UNDECIDED, "the database is damaged; nobody knows if this was written");
}

/* Ask what became of the undecided units. Nothing else is written before that is known. */
static void settle(committer *k)
{
    error err = {0};
    pthread_mutex_unlock(&k->lock);
    db_fate fate = k->conn->driver->settle(k->conn, &err);
    if (fate != DB_FATE_UNKNOWN)
        LOG(&k->log, LOG_WARNING, "commit-decided",
            LOG_TEXT("fate", fate == DB_FATE_COMMITTED ? "committed" : "lost"));
    pthread_mutex_lock(&k->lock);
    if (fate == DB_FATE_UNKNOWN && err.code != PAWL_CORRUPT && err.code != PAWL_NOTADB) {
        retry_later(k);
        return;
    }
    retry_now(k);
    unit *list = k->undecided;
    k->undecided = NULL;
    for (unit *u = list; u; u = u->next)
        decide(u, fate);
    deliver(k, list);
}

static void count_batch(committer *k, const batch_result *r, int64_t took)
{
    k->stats.batches += r->taken > 0;
    k->stats.restarts += r->restarts;
    if (took > k->stats.batch_ns_max)
        k->stats.batch_ns_max = took;
    if ((int64_t)r->taken > k->stats.batch_max)
        k->stats.batch_max = (int64_t)r->taken;
}

/* Rule 5: client units that have waited too long leave the queue; the database never sees them. */
static void expire(committer *k)
{
    if (k->queue.look_ns == 0)
        return;
    unit *late = queue_take_late(&k->queue, now_ns(k));
    for (unit *u = late; u; u = u->next)
        set_busy(k, u);
    deliver(k, late);
}

static void commit_batch(committer *k)
{
    const committer_options *o = &k->options;
    size_t count = queue_take(&k->queue, k->batch, o->batch_units, o->batch_bytes);
    if (count == 0)
        return;
    error err = {0};
    pthread_mutex_unlock(&k->lock);
    int64_t began = now_ns(k);
    batch_result r = k->conn->driver->apply(k->conn, k->batch, count, &k->passes, &err);
    int64_t took = now_ns(k) - began;
    pthread_mutex_lock(&k->lock);

    count_batch(k, &r, took);
    queue_put_back(&k->queue, k->batch + r.taken, count - r.taken);
    k->trouble = r.code;
    if (r.code != PAWL_OK || r.undecided)
        retry_later(k);
    else
        retry_now(k);
    size_t decided = r.taken - r.undecided;
    unit *undecided = queue_link(k->batch + decided, r.undecided);
    deliver(k, queue_link(k->batch, decided));
    if (undecided)
        keep_undecided(k, undecided, &err);
}

static int can_lead(committer *k)
{
    return !k->leading && has_work(k) && (k->retry_ns == 0 || now_ns(k) >= k->retry_ns);
}

/* One batch, or one attempt to settle. Called with the lock held, and comes back with it. */
static void lead(committer *k)
{
    assert(!k->leading);
    k->leading = 1;
    k->leader = pthread_self();
    expire(k);
    if (k->undecided) {
        settle(k);
    } else {
        commit_batch(k);
        pthread_mutex_unlock(&k->lock);
        k->conn->driver->between(k->conn);
        pthread_mutex_lock(&k->lock);
    }
    k->leading = 0;
    if (k->retry_ns) /* somebody must come back, whoever else goes away */
        wake_helper(k);
    if (k->waiters.first || k->helper_wanted)
        hand_on(k);
    pthread_cond_broadcast(&k->changed);
}

/* Wait until something changes, but not past `deadline`, nor past the moment to try again. */
static void wait_for_change(committer *k, pthread_cond_t *cond, int64_t deadline)
{
    if (!k->leading && k->retry_ns && k->retry_ns < deadline)
        deadline = k->retry_ns;
    k->clock->wait(k->clock, cond, &k->lock, deadline);
}

/* ---- Submitting ---- */

static int has_room(const committer *k, const unit *u)
{
    return queue_has_room(&k->queue, u, k->options.units_max, k->options.bytes_max);
}

/* A `done` function that submits runs on the leader's thread and cannot wait for the leader. Its
 * units are let in beyond the bound; a batch answers no more units than it has. */
static int is_leader(const committer *k)
{
    return k->leading && pthread_equal(k->leader, pthread_self());
}

static void answer_now(committer *k, unit *u)
{
    k->stats.failed++;
    pthread_mutex_unlock(&k->lock);
    call_done(u);
    pthread_mutex_lock(&k->lock);
}

static void fail_at_once(committer *k, unit *u, pawl_code code, const char *message)
{
    set_failed(u, code, message);
    answer_now(k, u);
}

/* 1: queued. 0: it has its final answer already. */
static int submit_locked(committer *k, unit *u)
{
    u->answer = UNIT_OPEN;
    u->code = PAWL_OK;
    u->deadline_ns = INT64_MAX;
    if (u->submitter)
        u->order = ++u->submitter->handed_in;
    if (k->closing) {
        fail_at_once(k, u, PAWL_CLOSED, "the engine is closing; nothing was written");
        return 0;
    }
    if (u->class == UNIT_OF_CLIENT)
        u->deadline_ns = clock_deadline(now_ns(k), k->options.busy_ms);
    if (u->broken_build) {
        fail_at_once(k, u, PAWL_LIMIT, "the unit does not fit into its memory");
        return 0;
    }
    while (!has_room(k, u) && !is_leader(k)) {
        if (u->deadline_ns != INT64_MAX && now_ns(k) >= u->deadline_ns) {
            set_busy(k, u);
            answer_now(k, u);
            return 0;
        }
        if (can_lead(k))
            lead(k);
        else
            wait_for_change(k, &k->changed, u->deadline_ns);
    }
    queue_add(&k->queue, u);
    return 1;
}

void committer_submit(committer *k, unit *u)
{
    pthread_mutex_lock(&k->lock);
    u->waiter = NULL;
    submit_locked(k, u);
    pthread_mutex_unlock(&k->lock);
}

/* Until when to wait at most. A unit that is being applied is waited for, however long it takes. */
static int64_t patience_end(committer *k, const unit *u)
{
    return now_ns(k) < u->deadline_ns ? u->deadline_ns : INT64_MAX;
}

/* The unit's patience is over. If nobody has begun with it, it is taken back. */
static int give_up(committer *k, unit *u, waiter *w)
{
    if (u->deadline_ns == INT64_MAX || now_ns(k) < u->deadline_ns || !queue_withdraw(&k->queue, u))
        return 0;
    set_busy(k, u);
    queue_settle(&k->queue, u);
    waiters_remove(&k->waiters, w);
    answer_now(k, u);
    return 1;
}

pawl_code committer_commit(committer *k, unit *u)
{
    waiter w = {.finished = 0};
    pthread_mutex_lock(&k->lock);
    if (clock_cond_init(&w.cond) != 0) {
        fail_at_once(k, u, PAWL_NOMEM, "out of memory");
        pthread_mutex_unlock(&k->lock);
        return u->code;
    }
    assert(!is_leader(k));
    u->waiter = &w;
    if (submit_locked(k, u)) {
        waiters_add(&k->waiters, &w);
        while (!w.finished && !give_up(k, u, &w)) {
            if (can_lead(k))
                lead(k);
            else
                wait_for_change(k, &w.cond, patience_end(k, u));
        }
    }
    hand_on(k);
    pthread_mutex_unlock(&k->lock);
    pthread_cond_destroy(&w.cond);
    return u->code;
}

/* ---- Driving ---- */

int committer_drive(committer *k)
{
    pthread_mutex_lock(&k->lock);
    int did = can_lead(k);
    if (did)
        lead(k);
    pthread_mutex_unlock(&k->lock);
    return did;
}

int64_t committer_next_ns(committer *k)
{
    pthread_mutex_lock(&k->lock);
    int64_t next = has_work(k) ? k->retry_ns : INT64_MAX;
    pthread_mutex_unlock(&k->lock);
    return next;
}

void committer_leave(committer *k)
{
    pthread_mutex_lock(&k->lock);
    if (k->options.by_hand && can_lead(k))
        lead(k);
    else
        hand_on(k);
    pthread_mutex_unlock(&k->lock);
}

void committer_flush(committer *k)
{
    pthread_mutex_lock(&k->lock);
    while (has_work(k) || k->leading) {
        if (can_lead(k))
            lead(k);
        else
            wait_for_change(k, &k->changed, INT64_MAX);
    }
    pthread_mutex_unlock(&k->lock);
}

committer_stats committer_stats_now(committer *k)
{
    pthread_mutex_lock(&k->lock);
    committer_stats stats = k->stats;
    pthread_mutex_unlock(&k->lock);
    return stats;
}

void committer_set_node(committer *k, int64_t node, int64_t slot)
{
    pthread_mutex_lock(&k->lock);
    assert(!is_leader(k));
    while (k->leading)
        wait_for_change(k, &k->changed, INT64_MAX);
    k->conn->node = node;
    k->conn->slot = slot;
    pthread_mutex_unlock(&k->lock);
}

db_conn *committer_connection(committer *k)
{
    return k->conn;
}

/* Leads for units that nobody waits for, and comes back after failures. */
static void *help(void *arg)
{
    committer *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->closing) {
        if (k->helper_wanted && can_lead(k)) {
            lead(k);
            continue;
        }
        if (!has_work(k))
            k->helper_wanted = 0;
        if (k->helper_wanted)
            wait_for_change(k, &k->helper_cond, INT64_MAX);
        else
            k->clock->wait(k->clock, &k->helper_cond, &k->lock, INT64_MAX);
    }
    pthread_mutex_unlock(&k->lock);
    return NULL;
}

/* ---- Opening and closing ---- */

static void set_options(committer *k, db *d, const committer_options *given)
{
    if (given)
        k->options = *given;
    committer_options *o = &k->options;
    o->units_max = o->units_max > 0 ? o->units_max : UNITS_MAX;
    o->bytes_max = o->bytes_max > 0 ? o->bytes_max : BYTES_MAX;
    o->batch_units = o->batch_units > 0 ? o->batch_units : BATCH_UNITS;
    o->batch_bytes = o->batch_bytes > 0 ? o->batch_bytes : BATCH_BYTES;
    o->busy_ms = o->busy_ms > 0 ? o->busy_ms : d->options.busy_ms;
}

static void dispose(committer *k)
{
    db_disconnect(k->conn);
    pthread_mutex_destroy(&k->lock);
    pthread_cond_destroy(&k->changed);
    pthread_cond_destroy(&k->helper_cond);
    free(k->batch);
    free(k);
}

pawl_code committer_open(committer **out, db *d, const committer_options *options, error *err)
{
    *out = NULL;
    committer *k = calloc(1, sizeof *k);
    if (!k)
        return error_set(err, PAWL_NOMEM, "out of memory");
    set_options(k, d, options);
    k->clock = d->options.clock;
    k->log = d->options.log;
    pthread_mutex_init(&k->lock, NULL);
    clock_cond_init(&k->changed);
    clock_cond_init(&k->helper_cond);
    k->batch = calloc((size_t)k->options.batch_units, sizeof *k->batch);
    pawl_code rc = k->batch ? PAWL_OK : error_set(err, PAWL_NOMEM, "out of memory");
    if (rc == PAWL_OK)
        rc = db_connect(d, DB_COMMITTER, &k->conn, err);
    if (rc == PAWL_OK && !k->options.by_hand) {
        k->helper_runs = thread_start(&k->helper, help, k);
        if (!k->helper_runs)
            rc = error_set(err, PAWL_NOMEM, "no thread for the committer");
    }
    if (rc != PAWL_OK) {
        dispose(k);
        return rc;
    }
    *out = k;
    return PAWL_OK;
}

static void fail_all(committer *k, unit *list, pawl_code code, const char *message)
{
    for (unit *u = list; u; u = u->next)
        set_failed(u, code, message);
    deliver(k, list);
}

/* What the database would not take any more. */
static void answer_rest(committer *k)
{
    unit *undecided = k->undecided;
    k->undecided = NULL;
    fail_all(k, queue_take_all(&k->queue), PAWL_CLOSED, "the engine was closed first");
    fail_all(k, undecided, PAWL_UNDECIDED, "closed before the storage said whether it is durable");
}

void committer_close(committer *k)
{
    if (!k)
        return;
    pthread_mutex_lock(&k->lock);
    k->closing = 1;
    pthread_cond_signal(&k->helper_cond);
    pthread_mutex_unlock(&k->lock);
    if (k->helper_runs)
        pthread_join(k->helper, NULL);
    k->helper_runs = 0;

    pthread_mutex_lock(&k->lock);
    retry_now(k);
    while (has_work(k) && !k->retry_ns)
        lead(k);
    answer_rest(k);
    pthread_mutex_unlock(&k->lock);
    dispose(k);
}
