/* The queue, and who leads. committer.h has the rules; their numbers are used here.
 *
 * One lock guards the queue and everything in `struct committer`. The thread that leads lets go
 * of it while it applies a batch; `leading` keeps all others from the connection meanwhile. Who
 * waits for a unit is in the list of waiters, and sleeps on a condition of its own, so that an
 * answer wakes exactly the thread that wants it. When a leader is done it asks one of those who
 * still wait: that one leads next, or, if its answer came first, hands that on. */
#include "db/committer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "db/lead.h"

enum {
    UNITS_MAX = 8192,
    BATCH_UNITS = 1024,
};
static const int64_t BYTES_MAX = 64 * 1024 * 1024;
static const int64_t BATCH_BYTES = 16 * 1024 * 1024;

/* ---- Waiting ---- */

/* Not past the moment to try again. */
static int64_t at_most(const committer *k, int64_t deadline)
{
    return !k->leading && k->retry_ns && k->retry_ns < deadline ? k->retry_ns : deadline;
}

/* Wait until something changes, but not past `deadline`. */
static void wait_for_change(committer *k, pthread_cond_t *cond, int64_t deadline)
{
    k->clock->wait(k->clock, cond, &k->lock, at_most(k, deadline));
}

/* Wait for one's answer, or to be asked to lead. 1: the answer is there, and the lock was let go;
 * 0: look again, with the lock. */
static int follow(committer *k, waiter *w, int64_t deadline)
{
    deadline = at_most(k, deadline);
    pthread_mutex_lock(&w->lock);
    pthread_mutex_unlock(&k->lock);
    if (!w->finished && !w->asked)
        k->clock->wait(k->clock, &w->cond, &w->lock, deadline);
    int finished = w->finished, asked = w->asked;
    w->asked = 0;
    pthread_mutex_unlock(&w->lock);
    if (finished && !asked)
        return 1;
    pthread_mutex_lock(&k->lock);
    if (!finished)
        return 0;
    lead_hand_on(k);
    pthread_mutex_unlock(&k->lock);
    return 1;
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
    lead_call_done(u);
    pthread_mutex_lock(&k->lock);
}

static void fail_at_once(committer *k, unit *u, pawl_code code, const char *message)
{
    lead_set_failed(u, code, message);
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
        u->deadline_ns = clock_deadline(lead_now_ns(k), k->options.busy_ms);
    if (u->broken_build) {
        fail_at_once(k, u, PAWL_LIMIT, "the unit does not fit into its memory");
        return 0;
    }
    while (!has_room(k, u) && !is_leader(k)) {
        if (u->deadline_ns != INT64_MAX && lead_now_ns(k) >= u->deadline_ns) {
            lead_set_busy(k, u);
            answer_now(k, u);
            return 0;
        }
        if (lead_can(k))
            lead_one(k);
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
    return lead_now_ns(k) < u->deadline_ns ? u->deadline_ns : INT64_MAX;
}

/* The unit's patience is over. If nobody has begun with it, it is taken back. */
static int give_up(committer *k, unit *u, waiter *w)
{
    if (u->deadline_ns == INT64_MAX || lead_now_ns(k) < u->deadline_ns ||
        !queue_withdraw(&k->queue, u))
        return 0;
    lead_set_busy(k, u);
    queue_settle(&k->queue, u);
    waiters_remove(&k->waiters, w);
    answer_now(k, u);
    return 1;
}

/* The unit is queued. Comes back without the lock. */
static void await(committer *k, unit *u, waiter *w)
{
    waiters_add(&k->waiters, w);
    while (!waiter_is_finished(w) && !give_up(k, u, w)) {
        if (lead_can(k))
            lead_one(k);
        else if (follow(k, w, patience_end(k, u)))
            return;
    }
    lead_hand_on(k);
    pthread_mutex_unlock(&k->lock);
}

pawl_code committer_commit(committer *k, unit *u)
{
    waiter w;
    int failed = waiter_init(&w);
    pthread_mutex_lock(&k->lock);
    if (failed) {
        fail_at_once(k, u, PAWL_NOMEM, "out of memory");
        pthread_mutex_unlock(&k->lock);
        return u->code;
    }
    assert(!is_leader(k));
    u->waiter = &w;
    if (submit_locked(k, u)) {
        await(k, u, &w);
    } else {
        lead_hand_on(k);
        pthread_mutex_unlock(&k->lock);
    }
    waiter_destroy(&w);
    return u->code;
}

/* While somebody leads nobody else does, and afterwards the lock is ours: so the helper never gets
 * hold of the unit, unless it is undecided. */
pawl_code committer_apply(committer *k, unit *u)
{
    pthread_mutex_lock(&k->lock);
    u->waiter = NULL;
    int queued = submit_locked(k, u);
    if (queued && !k->leading) {
        if (!k->undecided && !k->unsettled)
            lead_retry_now(k);
        if (lead_can(k))
            lead_one(k);
    }
    if (queued && queue_withdraw(&k->queue, u)) {
        lead_set_busy(k, u);
        queue_settle(&k->queue, u);
        if (!k->undecided && !k->unsettled)
            lead_retry_now(k);
        answer_now(k, u);
    }
    pawl_code code = u->answer == UNIT_UNDECIDED ? PAWL_UNDECIDED
                     : u->code == PAWL_UNDECIDED ? PAWL_STORAGE /* for good */
                                                 : u->code;
    pthread_mutex_unlock(&k->lock);
    return code;
}

int committer_is_idle(committer *k)
{
    pthread_mutex_lock(&k->lock);
    int idle = !lead_has_work(k) && !k->leading;
    pthread_mutex_unlock(&k->lock);
    return idle;
}

/* ---- Driving ---- */

static void fail_all(committer *k, unit *list, pawl_code code, const char *message)
{
    for (unit *u = list; u; u = u->next)
        lead_set_failed(u, code, message);
    lead_deliver(k, list);
}

int committer_drive(committer *k)
{
    pthread_mutex_lock(&k->lock);
    int did = lead_can(k);
    if (did)
        lead_one(k);
    pthread_mutex_unlock(&k->lock);
    return did;
}

int64_t committer_next_ns(committer *k)
{
    pthread_mutex_lock(&k->lock);
    int64_t next = lead_has_work(k) ? k->retry_ns : INT64_MAX;
    pthread_mutex_unlock(&k->lock);
    return next;
}

void committer_leave(committer *k)
{
    pthread_mutex_lock(&k->lock);
    if (k->options.by_hand && lead_can(k))
        lead_one(k);
    else if (k->leading) /* who leads hands on; who is woken before that could do nothing */
        k->helper_wanted |= lead_has_work(k);
    else
        lead_hand_on(k);
    pthread_mutex_unlock(&k->lock);
}

void committer_flush(committer *k)
{
    pthread_mutex_lock(&k->lock);
    while (lead_has_work(k) || k->leading) {
        if (lead_can(k))
            lead_one(k);
        else
            wait_for_change(k, &k->changed, INT64_MAX);
    }
    pthread_mutex_unlock(&k->lock);
}

/* The last of them have their answers before they are told: who leads may be about to do that. */
int committer_flush_runs(committer *k, int64_t deadline_ns)
{
    pthread_mutex_lock(&k->lock);
    const queue_share *runs = &k->queue.shares[UNIT_OF_RUN];
    while (runs->units > 0 && lead_now_ns(k) < deadline_ns) {
        if (lead_can(k))
            lead_one(k);
        else
            wait_for_change(k, &k->changed, deadline_ns);
    }
    int done = runs->units == 0;
    uint64_t led = k->led;
    while (k->leading && k->led == led)
        wait_for_change(k, &k->changed, INT64_MAX);
    pthread_mutex_unlock(&k->lock);
    return done;
}

void committer_give_up_runs(committer *k)
{
    pthread_mutex_lock(&k->lock);
    assert(!is_leader(k));
    while (k->leading)
        wait_for_change(k, &k->changed, INT64_MAX);
    k->leading = 1;
    k->leader = pthread_self();
    unit *undecided = queue_pick(&k->undecided, UNIT_OF_RUN);
    k->unsettled |= undecided != NULL;
    fail_all(k, queue_take_class(&k->queue, UNIT_OF_RUN), PAWL_CLOSED, "given up");
    fail_all(k, undecided, PAWL_UNDECIDED, "given up; nobody knows if this was written");
    k->leading = 0;
    k->led++;
    lead_hand_on(k);
    pthread_cond_broadcast(&k->changed);
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
        if (k->helper_wanted && lead_can(k)) {
            lead_one(k);
            continue;
        }
        if (!lead_has_work(k))
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
    lead_retry_now(k);
    while (lead_has_work(k) && !k->retry_ns)
        lead_one(k);
    answer_rest(k);
    pthread_mutex_unlock(&k->lock);
    dispose(k);
}
