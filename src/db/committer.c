/* Group commit: accepting units, and electing the leader. committer.h has the rules; their numbers
 * are used here.
 *
 * One lock guards the queue and everything in `struct committer`. The lead passes from
 * thread to thread like this:
 *   1. The leader sets `leading`, which keeps all others from the connection, and releases the lock
 *      while it applies a batch.
 *   2. Every follower is in the list of waiters and sleeps on a condition of its own, so that an
 *      answer wakes exactly the thread that waits for it.
 *   3. A leader that is done asks one remaining waiter to lead. If that waiter has its answer
 *      already, the waiter asks the next one.
 *
 * A unit that is queued by a thread which neither waits for it nor calls committer_leave() must be
 * committed too (rule 7). So the first unit after a quiet time starts the watch: the helper polls
 * the queue every stand_ms, and leads if units have stood in it for so long while no thread led.
 * When the queue is empty and no thread has led since the helper's last poll, the watch ends. This
 * costs a busy committer one wake-up of the helper in stand_ms, and an idle committer nothing. */
#include "db/committer.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/thread.h"
#include "db/commit_leader.h"

enum {
    UNITS_MAX = 8192,
    BATCH_UNITS = 1024,
    STAND_MS = 50,
};
static const int64_t BYTES_MAX = 64 * 1024 * 1024;
static const int64_t BATCH_BYTES = 16 * 1024 * 1024;

/* ---- Waiting ---- */

/* Returns until when to sleep: `deadline`, or the time of the next attempt if that comes first. */
static int64_t cap_deadline(const committer *k, int64_t deadline)
{
    int64_t next = k->leading ? 0 : commit_leader_next_ns(k);
    return next && next < deadline ? next : deadline;
}

/* Wait until something changes, but not past `deadline`. */
static void wait_for_change(committer *k, pthread_cond_t *cond, int64_t deadline)
{
    k->clock->wait(k->clock, cond, &k->lock, cap_deadline(k, deadline));
}

/* A follower waits for its answer, to be asked to lead, or until `deadline`. Called with the
 * committer's lock held. 1: the answer is there, and the lock is released; 0: there is no answer
 * yet, and the lock is held. */
static int follow_leader(committer *k, waiter *w, int64_t deadline)
{
    deadline = cap_deadline(k, deadline);
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
    commit_leader_hand_on(k);
    pthread_mutex_unlock(&k->lock);
    return 1;
}

/* ---- Submitting ---- */

static int has_room(const committer *k, const unit *u)
{
    return queue_has_room(&k->queue, u, k->options.units_max, k->options.bytes_max);
}

/* Is the calling thread the leader? A `done` runs on the leader's thread and cannot wait for the
 * leader, so the units that it submits are accepted beyond the bounds of the queue. They are few,
 * since a batch calls `done` for its own units only. */
static int is_leader(const committer *k)
{
    return k->leading && pthread_equal(k->leader, pthread_self());
}

static void answer_now(committer *k, unit *u)
{
    k->stats.failed++;
    pthread_mutex_unlock(&k->lock);
    commit_leader_call_done(k, u);
    pthread_mutex_lock(&k->lock);
}

static void fail_at_once(committer *k, unit *u, pawl_code code, const char *message)
{
    commit_leader_set_failed(u, code, message);
    answer_now(k, u);
}

/* Queues the unit, once there is room. 1: it is queued; 0: it has its final answer already. */
static int submit_locked(committer *k, unit *u)
{
    u->answer = UNIT_OPEN;
    u->code = PAWL_OK;
    u->deadline_ns = INT64_MAX;
    u->commit.set_aside = u->commit.aside_told = u->row_locked = 0;
    u->commit.aside_ms = 0;
    if (u->submitter)
        u->order = ++u->submitter->handed_in;
    if (k->closing) {
        fail_at_once(k, u, PAWL_CLOSED, "the engine is closing; nothing was written");
        return 0;
    }
    if (u->class == UNIT_OF_CLIENT)
        /* RULE C5-clients-are-answered-busy */
        u->deadline_ns = clock_deadline(commit_leader_now_ns(k), k->options.busy_ms);
    if (u->broken_build) {
        fail_at_once(k, u, PAWL_LIMIT, "the unit does not fit into its memory");
        return 0;
    }
    while (!has_room(k, u) && !is_leader(k)) {
        if (u->deadline_ns != INT64_MAX && commit_leader_now_ns(k) >= u->deadline_ns) {
            commit_leader_set_busy(k, u);
            answer_now(k, u);
            return 0;
        }
        if (commit_leader_can(k)) /* RULE C5-a-thread-that-finds-the-queue-full-leads */
            commit_leader_one(k);
        else
            wait_for_change(k, &k->changed, u->deadline_ns);
    }
    if (!k->queue.head)
        k->stood_ns = commit_leader_now_ns(k);
    queue_add(&k->queue, u);
    return 1;
}

/* Makes the helper watch the queue (rule 7). The helper may be asleep, without a deadline or with a
 * later one, so it is woken. */
static void begin_watch(committer *k)
{
    if (k->watching || !k->helper_runs) /* RULE L1-the-simulator-sees-what-stands-in-a-queue */
        return;
    k->watching = 1;
    k->watched_led = k->led;
    k->watch_ns = clock_deadline(commit_leader_now_ns(k), k->options.stand_ms);
    pthread_cond_signal(&k->helper_cond);
}

void committer_submit(committer *k, unit *u)
{
    pthread_mutex_lock(&k->lock);
    u->waiter = NULL;
    if (submit_locked(k, u))
        begin_watch(k);
    pthread_mutex_unlock(&k->lock);
}

/* Returns until when to wait for the unit: its deadline. A unit that is still there after that is
 * being applied, and is waited for, however long that takes. */
static int64_t patience_end(committer *k, const unit *u)
{
    return commit_leader_now_ns(k) < u->deadline_ns ? u->deadline_ns : INT64_MAX;
}

/* Remove a unit from its list, unless the leader is applying it. 1: it was removed. */
static int withdraw(committer *k, unit *u)
{
    return u->commit.set_aside ? aside_withdraw(&k->aside, u) : queue_withdraw(&k->queue, u);
}

/* 1: the unit's deadline is over and the leader does not apply it, so it was answered PAWL_BUSY. */
static int give_up_late(committer *k, unit *u, waiter *w)
{
    if (u->deadline_ns == INT64_MAX || commit_leader_now_ns(k) < u->deadline_ns || !withdraw(k, u))
        return 0;
    commit_leader_set_busy(k, u);
    commit_leader_settle(k, u);
    waiters_remove(&k->waiters, w);
    answer_now(k, u);
    return 1;
}

/* Waits until a queued unit has its answer, leading if no other thread does. Called with the lock
 * held, returns without it. */
static void await_answer(committer *k, unit *u, waiter *w)
{
    waiters_add(&k->waiters, w);
    while (!waiter_is_finished(w) && !give_up_late(k, u, w)) {
        if (commit_leader_can(k))
            commit_leader_one(k);
        else if (follow_leader(k, w, patience_end(k, u)))
            return;
    }
    commit_leader_hand_on(k);
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
        await_answer(k, u, &w);
    } else {
        commit_leader_hand_on(k);
        pthread_mutex_unlock(&k->lock);
    }
    waiter_destroy(&w);
    return u->code;
}

/* No other thread can apply the unit: this thread holds the lock from queueing the unit until it
 * leads, and from then until it has withdrawn a unit that was not applied. Only a commit that is
 * undecided is left to the helper. */
pawl_code committer_apply(committer *k, unit *u)
{
    pthread_mutex_lock(&k->lock);
    u->waiter = NULL;
    int queued = submit_locked(k, u);
    if (queued && !k->leading) {
        if (!k->undecided && !k->unsettled)
            commit_leader_retry_now(k);
        if (commit_leader_can(k))
            commit_leader_one(k);
    }
    if (queued && withdraw(k, u)) { /* RULE A8-a-guest-is-not-tried-again-behind-ones-back */
        commit_leader_set_busy(k, u);
        commit_leader_settle(k, u);
        if (!k->undecided && !k->unsettled)
            commit_leader_retry_now(k);
        answer_now(k, u);
    }
    pawl_code code = u->answer == UNIT_UNDECIDED ? PAWL_UNDECIDED
                     : u->code == PAWL_UNDECIDED ? PAWL_STORAGE /* its fate is never known */
                                                 : u->code;
    pthread_mutex_unlock(&k->lock);
    return code;
}

int committer_is_idle(committer *k)
{
    pthread_mutex_lock(&k->lock);
    int idle = !commit_leader_has_work(k) && !k->leading;
    pthread_mutex_unlock(&k->lock);
    return idle;
}

/* ---- Driving ---- */

static void fail_all(committer *k, unit *list, pawl_code code, const char *message)
{
    for (unit *u = list; u; u = u->next)
        commit_leader_set_failed(u, code, message);
    commit_leader_deliver(k, list);
}

int committer_drive(committer *k)
{
    pthread_mutex_lock(&k->lock);
    int did = commit_leader_can(k);
    if (did)
        commit_leader_one(k);
    pthread_mutex_unlock(&k->lock);
    return did;
}

int64_t committer_next_ns(committer *k)
{
    pthread_mutex_lock(&k->lock);
    int64_t next = commit_leader_next_ns(k);
    pthread_mutex_unlock(&k->lock);
    return next;
}

void committer_leave(committer *k)
{
    pthread_mutex_lock(&k->lock);
    if (k->options.by_hand && commit_leader_can(k))
        commit_leader_one(k);
    else if (k->leading) /* the leader hands the lead on when it is done; a helper that is woken
                            before that could do nothing */
        k->helper_wanted |= commit_leader_has_work(k);
    else
        commit_leader_hand_on(k); /* RULE L1-the-simulator-sees-what-stands-in-a-queue */
    pthread_mutex_unlock(&k->lock);
}

void committer_flush(committer *k)
{
    pthread_mutex_lock(&k->lock);
    while (commit_leader_has_work(k) || k->leading) {
        if (commit_leader_can(k))
            commit_leader_one(k);
        else
            wait_for_change(k, &k->changed, INT64_MAX);
    }
    pthread_mutex_unlock(&k->lock);
}

/* A unit leaves its share just before its `done` is called. So when the share is empty the leader
 * may still be calling the last `done`, and is waited for until it has stopped leading. */
int committer_flush_runs(committer *k, int64_t deadline_ns)
{
    pthread_mutex_lock(&k->lock);
    const queue_share *runs = &k->queue.shares[UNIT_OF_RUN];
    while (runs->units > 0 && commit_leader_now_ns(k) < deadline_ns) {
        if (commit_leader_can(k))
            commit_leader_one(k);
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
    commit_leader_tell_unknown(k, undecided, "the node ends");
    const char *why = k->trouble != PAWL_OK ? pawl_code_text(k->trouble) : "there was no more time";
    fail_all(k, queue_take_class(&k->queue, UNIT_OF_RUN), PAWL_CLOSED, why);
    /* RULE L4-units-that-wait-for-locks-can-be-given-up */
    fail_all(k, aside_take_class(&k->aside, UNIT_OF_RUN), PAWL_CLOSED,
             "another transaction keeps a row locked that it needs");
    fail_all(k, undecided, PAWL_UNDECIDED, "given up; it is not known if this was written");
    k->leading = 0;
    k->led++;
    commit_leader_hand_on(k);
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

pawl_code committer_trouble(committer *k)
{
    pthread_mutex_lock(&k->lock);
    int waits = commit_leader_has_work(k) && k->trouble == PAWL_UNREACHABLE;
    pthread_mutex_unlock(&k->lock);
    return waits ? PAWL_UNREACHABLE : PAWL_OK;
}

void committer_set_node(committer *k, int64_t node, int64_t slot, int64_t token)
{
    pthread_mutex_lock(&k->lock);
    assert(!is_leader(k));
    while (k->leading)
        wait_for_change(k, &k->changed, INT64_MAX);
    k->conn->node = node;
    k->conn->slot = slot;
    k->conn->token = token;
    pthread_mutex_unlock(&k->lock);
}

db_conn *committer_connection(committer *k)
{
    return k->conn;
}

/* The helper's poll of the queue, see the top of the file. A leader that is done asks waiters only,
 * unless `helper_wanted` is set. */
static void watch_queue(committer *k)
{
    int64_t now = commit_leader_now_ns(k);
    if (now < k->watch_ns)
        return;
    int64_t due = clock_deadline(k->stood_ns, k->options.stand_ms);
    int is_quiet = k->watched_led == k->led;
    k->watched_led = k->led;
    k->watch_ns = clock_deadline(now, k->options.stand_ms);
    if (!commit_leader_has_work(k))
        k->watching = !is_quiet;
    else if (now < due)
        k->watch_ns = due;
    else if (!k->leading)
        k->helper_wanted = 1; /* RULE L1-a-unit-without-a-waiter-is-committed */
}

/* The helper thread: leads for units that no thread waits for, and retries after failures. */
static void *run_helper(void *arg)
{
    committer *k = arg;
    pthread_mutex_lock(&k->lock);
    while (!k->closing) {
        if (k->watching)
            watch_queue(k);
        if (k->helper_wanted && commit_leader_can(k)) {
            commit_leader_one(k);
            continue;
        }
        if (!commit_leader_has_work(k))
            k->helper_wanted = 0;
        int64_t next = k->watching ? k->watch_ns : INT64_MAX;
        if (k->helper_wanted)
            wait_for_change(k, &k->helper_cond, next);
        else
            k->clock->wait(k->clock, &k->helper_cond, &k->lock, next);
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
    o->stand_ms = o->stand_ms > 0 ? o->stand_ms : STAND_MS;
}

static void free_committer(committer *k)
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
        return error_nomem(err);
    set_options(k, d, options);
    k->clock = d->options.clock;
    k->log = d->options.log;
    pthread_mutex_init(&k->lock, NULL);
    clock_cond_init(&k->changed);
    clock_cond_init(&k->helper_cond);
    k->batch = calloc((size_t)k->options.batch_units, sizeof *k->batch);
    pawl_code rc = k->batch ? PAWL_OK : error_nomem(err);
    if (rc == PAWL_OK)
        rc = db_connect(d, DB_COMMITTER, &k->conn, err);
    if (rc == PAWL_OK && !k->options.by_hand) {
        k->helper_runs = thread_start(&k->helper, run_helper, k);
        if (!k->helper_runs)
            rc = error_set(err, PAWL_NOMEM, "no thread for the committer");
    }
    if (rc != PAWL_OK) {
        free_committer(k);
        return rc;
    }
    *out = k;
    return PAWL_OK;
}

/* Answers the units that were not committed before the committer was closed. */
static void answer_rest(committer *k)
{
    unit *undecided = k->undecided;
    k->undecided = NULL;
    commit_leader_tell_unknown(k, undecided, "the engine is closed");
    fail_all(k, queue_take_all(&k->queue), PAWL_CLOSED, "the engine was closed first");
    fail_all(k, aside_take_all(&k->aside), PAWL_CLOSED, "the engine was closed first");
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
    commit_leader_retry_now(k);
    aside_hurry(&k->aside, commit_leader_now_ns(k));
    while (!k->retry_ns && commit_leader_can(k))
        commit_leader_one(k);
    answer_rest(k);
    pthread_mutex_unlock(&k->lock);
    free_committer(k);
}
